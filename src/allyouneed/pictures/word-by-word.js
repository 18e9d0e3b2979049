// A translation token by token: how likely each was, and what else the model considered there.
// data: sentences [{source, reference, tokens [{token, p, likeliest [[token, p] x 5]}]}]; "▁"
// begins a word.

/** Tokens as text. */
function written(tokens) {
  return tokens.join("").replaceAll("▁", " ").replace("‹eos›", "").trim();
}

/** The mean of log p, as a probability: how sure the model was of all of it, a token. */
function certainty(tokens) {
  return Math.exp(tokens.reduce((sum, { p }) => sum + Math.log(p), 0) / tokens.length);
}

/** A token as it stands in a list: a piece within a word begins with a hyphen. */
function piece(token) {
  return token.startsWith("▁") || token === "‹eos›" ? token.replace("▁", "") : `-${token}`;
}

/** The likeliest tokens of a place as bars; the one that was written is marked. */
function bars({ token, p, likeliest }) {
  const all = likeliest.some(([other]) => other === token) ? likeliest : [...likeliest, [token, p]];
  const lines = all.map(([other, q]) => make("tr", { class: other === token ? "taken" : "" },
    make("th", { scope: "row" }, piece(other)),
    make("td", {}, make("span", { class: "bar", style: `--w: ${q}` })),
    make("td", { class: "number" }, show(q))));
  return make("table", { class: "bars" }, make("tbody", {}, ...lines));
}

function draw(stage, { sentences }) {
  let s = 0;
  const text = make("div", { class: "wide lines" });
  const panel = make("div", { class: "wide" });

  const look = (t) => {
    const { tokens } = sentences[s];
    const { token, p, likeliest } = tokens[t];
    const before = written(tokens.slice(0, t).map((one) => one.token));
    const others = likeliest.filter(([other]) => other !== token).slice(0, 3)
      .map(([other, q]) => `“${piece(other)}” ${show(q)}`).join(", ");
    panel.replaceChildren(bars(tokens[t]));
    const what = token === "‹eos›" ? "the end" : `“${piece(token)}”`;
    stage.tell({ sentence: s, token: t, p, likeliest, certainty: certainty(tokens) },
      `${before ? `After “${before}”` : "At the beginning"}, ${what} has the probability `
      + `${show(p)}. The likeliest others: ${others}.`);
  };
  const open = (i) => {
    s = i;
    const { source, reference, tokens } = sentences[s];
    const words = choice("ours", tokens.map(({ token }) => token.replace("▁", "")), 0, look,
      { hover: true });
    words.buttons.forEach((element, t) => {
      const { token, p } = tokens[t];
      element.style.setProperty("--doubt", (1 - p).toFixed(3));
      element.setAttribute("aria-label", `${piece(token)}, ${show(p)}`);
      if (t && !token.startsWith("▁") && token !== "‹eos›") element.classList.add("goes-on");
      if (p < 0.5) element.classList.add("unsure");
    });
    const line = (label, words) => make("p", { class: "line" },
      make("span", { class: "label" }, label), words);
    text.replaceChildren(line("English", source), words.element, line("Reference", reference),
      line("Certainty", `${show(certainty(tokens))} a token`));
    look(0);
  };
  const numbers = sentences.map((_, i) => `${i + 1}`);
  stage.add(make("div", { class: "controls" }, choice("sentence", numbers, 0, open).element), text, panel,
    make("p", { class: "hint wide" }, "Move over the words of our translation. The fuller the "
      + "colour, the less likely the token was; underlined: below one half."));
  open(0);
}
