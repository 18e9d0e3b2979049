// A translation token by token: how likely each was, and what else the model considered there.
// data: sentences [{source, reference, tokens [{token, p, likeliest [[token, p] x 5]}]}]; "▁"
// begins a word.

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

function draw(stage, { sentences }) {
  let s = 0;
  const text = make("div", { class: "wide sentences" });
  const shares = table();

  const look = (t) => {
    const { tokens } = sentences[s];
    const { token, p, likeliest } = tokens[t];
    const before = written(tokens.slice(0, t).map((one) => one.token));
    const others = likeliest.filter(([other]) => other !== token).slice(0, 3)
      .map(([other, q]) => `“${other}” ${show(q)}`).join(", ");
    shares.set(lines(tokens[t]));
    const what = token === "<eos>" ? "the end" : `“${token}”`;
    stage.tell({ sentence: s, token: t, p, likeliest, certainty: certainty(tokens) },
      `${before ? `After “${before}”` : "At the beginning"}, ${what} has the probability `
      + `${show(p)}. The likeliest others: ${others}.`);
  };
  const open = (i) => {
    s = i;
    const { source, reference, tokens } = sentences[s];
    const words = choice("ours", tokens.map(({ token }) => token), 0, look,
      { hover: true });
    words.buttons.forEach((element, t) => {
      const { token, p } = tokens[t];
      element.style.setProperty("--doubt", (1 - p).toFixed(3));
      element.setAttribute("aria-label", `${token}, ${show(p)}`);
      if (t && !token.startsWith("▁") && token !== "<eos>") element.classList.add("goes-on");
      if (p < 0.5) element.classList.add("unsure");
    });
    const sentence = (name, words) => make("p", { class: "sentence" },
      make("span", { class: "label" }, name), words);
    text.replaceChildren(sentence("English", source), words.element,
      sentence("Reference", reference),
      sentence("Certainty", `${show(certainty(tokens))} a token`));
    look(0);
  };
  const numbers = sentences.map((_, i) => `${i + 1}`);
  stage.add(make("div", { class: "controls" }, choice("sentence", numbers, 0, open).element), text,
    make("div", { class: "wide likeliest" }, shares.element),
    hint("Move over the words of our translation. The fuller the colour, the less likely the token "
      + "was; underlined: below one half."));
  open(0);
}
