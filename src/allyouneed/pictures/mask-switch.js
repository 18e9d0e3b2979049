// Two models, two masks: what each reader knows about one word of a sentence.
// data: sentences [{tokens, guesses}]; guesses["GPT, causal"], and so on for BERT and for the full
// mask: {best [place][[token, p] x 4], right [place]}, of the token at each place.

/** Which tokens are read for a guess about the one asked for; BERT's is covered, GPT's is not. */
function read(model, mask, asked, n) {
  return range(n).map((place) => (place === asked ? mask === "full" && model === "GPT"
    : place < asked || mask === "full"));
}

/** Whose guess it is, in words. */
function reader(model, mask) {
  if (mask === "causal") {
    return model === "GPT" ? "GPT, reading what stands before it,"
      : "BERT, made to read from the left only,";
  }
  return model === "GPT" ? "GPT, with the word itself in view as never in its training,"
    : "BERT, reading both sides, the word covered,";
}

function draw(stage, { sentences }) {
  let [model, mask, s, asked] = ["GPT", "causal", 0, 0];
  const text = make("div", { class: "wide sentence" });
  const map = make("div", { class: "who" });
  const shares = table();
  let words;

  const paint = () => {
    const { tokens, guesses } = sentences[s];
    const { best, right } = guesses[`${model}, ${mask}`];
    const seen = read(model, mask, asked, tokens.length);
    words.buttons.forEach((element, place) => {
      element.classList.toggle("hidden", !seen[place]);
      const how = place === asked ? "asked for" : seen[place] ? "read" : "hidden";
      element.setAttribute("aria-label", `${tokens[place]}, ${how}`);
    });
    const n = tokens.length;
    const svg = drawing(13 * n, 13 * n, { width: 13 * n });
    range(n).forEach((t) => range(n).forEach((k) => {
      const open = mask === "full" || k <= t;
      svg.append(make("svg:rect", {
        x: 13 * k, y: 13 * t, width: 12, height: 12,
        class: `${open ? "open" : "shut"} ${t === asked - 1 ? "now" : ""}`,
      }));
    }));
    map.replaceChildren(svg);
    const top = best[asked].map(([token, p]) =>
      line(token, [bar(p), show(p)], { class: token === tokens[asked] ? "taken" : null }));
    shares.set(top);
    const [first, p] = best[asked][0];
    const hit = first === tokens[asked];
    const what = asked ? `“${tokens[asked]}”` : `the first word, “${tokens[0]}”`;
    stage.tell({ model, mask, sentence: s, asked, seen, best: best[asked], right: right[asked] },
      `${what[0].toUpperCase()}${what.slice(1)}: ${reader(model, mask)} `
      + (hit ? `finds it, with the probability ${show(p)}.`
        : `guesses “${first}” with ${show(p)}; to what stands there it gives `
          + `${show(right[asked])}.`));
  };
  const open = (i) => {
    s = i;
    const place = Math.min(sentences[s].tokens.length - 1, 4);
    words = choice("asked for", sentences[s].tokens, place, (t) => {
      asked = t;
      paint();
    }, { hover: true });
    asked = place;
    text.replaceChildren(words.element);
    paint();
  };
  const models = choice("weights", ["GPT", "BERT"], 0, (i) => {
    model = ["GPT", "BERT"][i];
    paint();
  });
  const masks = choice("mask", ["causal", "full"], 0, (i) => {
    mask = ["causal", "full"][i];
    paint();
  });
  const numbers = choice("sentence", sentences.map((_, i) => `${i + 1}`), 0, open);
  stage.add(
    make("div", { class: "controls" }, models.element, masks.element, numbers.element),
    text,
    panel("the mask; the row that answers is darker", map),
    make("div", { class: "panel likeliest" }, make("p", { class: "title" }, "what may stand there"),
      shares.element),
    hint("Point at a word to ask for it. Struck out: not read for this guess. "
      + "BERT belongs to the full mask, GPT to the causal one; the other two are exchanged."),
  );
  open(0);
}
