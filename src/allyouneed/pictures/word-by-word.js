// A translation token by token: how likely each was, and what else the model considered there.
// data: sentences [{source, reference, verdict, tokens [{token, p, likeliest [[token, p] x 5]}]}];
// "▁" begins a word. Where there is a verdict, "right" or what is wrong, the reader judges first.

/** The mean of log p, as a probability: how sure the model was of all of it, a token. */
function certainty(tokens) {
  return Math.exp(tokens.reduce((sum, { p }) => sum + Math.log(p), 0) / tokens.length);
}

/** The likeliest tokens of a place, as lines with bars; the one that was written is marked. */
function lines({ token, p, likeliest }) {
  const all = likeliest.some(([other]) => other === token) ? likeliest : [...likeliest, [token, p]];
  return all.map(([other, q]) =>
    line(other, [bar(q), show(q)], { class: other === token ? "taken" : null }));
}

/** Where readers agree with the verdicts: [how many, of how many]. */
function agreement(sentences, judged) {
  const alike = [...judged].filter(([i, yes]) => yes === (sentences[i].verdict === "right"));
  return [alike.length, judged.size];
}

/** A sentence's name: its first words, if it is long. */
function short(source) {
  return source.length > 30 ? `${source.slice(0, 29).replace(/\s+\S*$/, "")} …` : source;
}

function draw(stage, { sentences }) {
  let s = 0;
  const judged = new Map();
  const text = make("div", { class: `wide sentences${sentences[0].verdict ? " judged" : ""}` });
  const shares = table();

  const look = (t, said = "") => {
    const { tokens } = sentences[s];
    const { token, p, likeliest } = tokens[t];
    const before = written(tokens.slice(0, t).map((one) => one.token));
    const others = likeliest.filter(([other]) => other !== token).slice(0, 3)
      .map(([other, q]) => `“${other}” ${show(q)}`).join(", ");
    shares.set(lines(tokens[t]));
    const what = token === "<eos>" ? "the end" : `“${token}”`;
    const state = { sentence: s, token: t, p, likeliest, certainty: certainty(tokens) };
    stage.tell({ ...state, agreement: agreement(sentences, judged) },
      `${said}${before ? `After “${before}”` : "At the beginning"}, ${what} has the probability `
      + `${show(p)}. The likeliest others: ${others}.`);
  };
  const sentence = (name, ...words) => make("p", { class: "sentence" },
    make("span", { class: "label" }, name), make("span", {}, ...words));
  /** The reader says yes or no; then the reference and the other person's verdict appear. */
  const judge = (yes) => {
    judged.set(s, yes);
    const { verdict } = sentences[s];
    const [alike, all] = agreement(sentences, judged);
    open(s, `You say ${yes ? "right" : "not right"}, one other person says: ${verdict}. `
      + `You agree in ${alike} of ${all}. `);
    text.querySelector(".choice [aria-checked=true]").focus();
  };
  const opinion = ({ reference, verdict }) => {
    if (verdict && !judged.has(s)) {
      return [sentence("Right?", button("yes", () => judge(true)).element,
        button("no", () => judge(false)).element)];
    }
    if (!verdict) return [sentence("Reference", reference)];
    const [alike, all] = agreement(sentences, judged);
    return [sentence("Reference", reference), sentence("Right?", `You: ${judged.get(s) ? "yes" : "no"}. `
      + `One other person: ${verdict}. You agree in ${alike} of ${all}.`)];
  };
  const open = (i, said = "") => {
    s = i;
    const { source, tokens } = sentences[s];
    const words = choice("ours", tokens.map(({ token }) => token), 0, (t) => look(t),
      { hover: true });
    words.buttons.forEach((element, t) => {
      const { token, p } = tokens[t];
      element.style.setProperty("--doubt", (1 - p).toFixed(3));
      element.setAttribute("aria-label", `${token}, ${show(p)}`);
      if (t && !token.startsWith("▁") && token !== "<eos>") element.classList.add("goes-on");
      if (p < 0.5) element.classList.add("unsure");
    });
    text.replaceChildren(sentence("English", source), words.element,
      ...opinion(sentences[s]), sentence("Certainty", `${show(certainty(tokens))} a token`));
    look(0, said);
  };
  const names = choice("sentence", sentences.map(({ source }) => short(source)), 0, (i) => open(i));
  names.element.classList.add("names");
  stage.add(make("div", { class: "controls" }, names.element), text,
    make("div", { class: "wide likeliest" }, shares.element),
    hint("Point at the words of our translation, or touch them. The fuller the colour, the less "
      + "likely the token was; underlined: below one half."));
  open(0);
}
