// Alignment: a translation word by word, and how much each of its words looked at those it read.
// data: sentences, each {name, source [S], target [T], weights [T][S]}; a row sums to one.

/** A ribbon from the height `from` on the right to the height `to` on the left, w rows wide. */
function ribbon(from, to, w) {
  const [a, b] = [from, to].map((y) => y.toFixed(3));
  const [c, d] = [from + w, to + w].map((y) => y.toFixed(3));
  return `M100 ${a}C50 ${a} 50 ${b} 0 ${b}V${d}C50 ${d} 50 ${c} 100 ${c}Z`;
}

/** The ribbons of word t: side by side they are as wide as its row, since the weights sum to one;
    each ends in the middle of the word it leads to. */
function ribbons(weights, t) {
  const width = 0.8;
  let used = t + (1 - width) / 2;
  return weights.map((weight, s) => {
    const w = width * weight;
    used += w;
    return w < 0.004 ? null : ribbon(used - w, s + 0.5 - w / 2, w); // too thin to be seen
  });
}

function draw(stage, { sentences }) {
  const lengths = sentences.flatMap(({ source, target }) => [source.length, target.length]);
  const place = make("div", { class: "pair wide", style: `--most: ${Math.max(...lengths)}` });

  const open = (which) => {
    const { source, target, weights } = sentences[which];
    const rows = Math.max(source.length, target.length);
    const svg = drawing(100, rows, { preserveAspectRatio: "none" });
    const read = source.map((word) => ({
      number: make("span", { class: "number" }), word: make("span", { class: "read" }, word),
    }));
    const bands = weights.map((row, t) =>
      make("svg:g", {}, ...ribbons(row, t).map((d) => d && make("svg:path", { d }))));
    svg.append(...bands);

    const look = (t) => {
      read.forEach(({ number, word }, s) => {
        number.textContent = show(weights[t][s]);
        word.style.setProperty("--w", weights[t][s].toFixed(3));
      });
      bands.forEach((band, i) => {
        band.setAttribute("class", i === t ? "now" : i < t ? "before" : "later");
        written.buttons[i].classList.toggle("later", i > t);
      });
      const ranked = source.map((word, s) => [weights[t][s], word]).sort((a, b) => b[0] - a[0]);
      const best = ranked.slice(0, 3).map(([w, word]) => `${show(w)} to “${word}”`);
      stage.tell({ sentence: which, word: t, weights: weights[t] },
        `To write “${target[t]}”, the translator gave weight ${best.join(", ")}.`);
    };
    const written = choice("French, written", target, 0, look, { hover: true });
    const list = make("ul", {}, make("li", { class: "label k-ink" }, "English, read"),
      ...read.map(({ number, word }) => make("li", {}, number, word)));
    place.style.setProperty("--rows", rows);
    place.replaceChildren(list, svg, written.element);
    look(0);
  };
  const names = sentences.map(({ name }) => name);
  stage.add(choice("sentence", names, 0, open),
    hint("Go down the French words, as they were written. A ribbon is as wide as its weight."),
    place);
  open(0);
}
