// Self-attention with nothing to learn: choose a word, change its vector, and see who attends to it.
// data: words [T], entries [D], vectors [T][D]. Weights and outputs are computed here.

/** Equation (4.6): weights [T][T], and the outputs [T][D]. */
function selfAttention(vectors) {
  const weights = vectors.map((q) => softmax(vectors.map((k) => dot(q, k))));
  const outputs = weights.map((row) =>
    vectors[0].map((_, d) => dot(row, vectors.map((vector) => vector[d]))));
  return { weights, outputs };
}

function draw(stage, { words, entries, vectors }) {
  const [low, high] = [-1, 4];
  const now = { query: 0, word: 0, vectors: vectors.map((vector) => [...vector]) };
  let found = selfAttention(now.vectors);
  const parts = table("parts", [["key", "k-ink"], ["weight", "q-ink", 2], ["value", "v-ink"],
    ["weight × value", "v-ink"]]);

  const look = () => {
    const t = now.query;
    const weights = found.weights[t];
    const lines = words.map((key, s) => {
      const value = [now.vectors[s], now.vectors[s].map((x) => weights[s] * x)];
      return line(key,
        [bar(weights[s]), show(weights[s]), ...value.map((vector) => squares(vector, high))]);
    });
    const sum = line("their sum, the output", [squares(found.outputs[t], high)], { class: "sum" });
    sum.firstChild.colSpan = 4;
    parts.set([...lines, sum]);
    const ranked = words.map((key, s) => [weights[s], key]).sort((a, b) => b[0] - a[0]);
    const best = ranked.slice(0, 3).map(([w, key]) => `“${key}” (${show(w)})`).join(", ");
    stage.tell({ ...now, weights, output: found.outputs[t] },
      `“${words[t]}” attends most to ${best}. The sum is `
      + `(${found.outputs[t].map((x) => show(x)).join(", ")}).`);
  };
  const map = grid("attention weights, a row for each query", words, words, {
    cell: (t, s) => ({ weight: found.weights[t][s], mark: t === now.query ? "asks" : "" }),
    enter: (t) => t !== now.query && ((now.query = t), look(), map.paint()),
  });
  const changed = () => {
    found = selfAttention(now.vectors);
    map.paint();
    look();
  };
  const sliders = entries.map((entry, d) => slider(entry,
    { min: low, max: high, step: 0.5, value: now.vectors[0][d], text: (x) => show(x, 1) },
    (x) => {
      now.vectors[now.word][d] = x;
      changed();
    }));
  /** The sliders, and the map's row, are those of this word from now on. */
  const choose = (word) => {
    const vector = [...now.vectors[word]];
    Object.assign(now, { word, query: word });
    sliders.forEach((one, d) => one.set(vector[d]));
  };
  const which = choice("the vector of", words, 0, choose);
  const back = button("all as in the text", () => {
    now.vectors = vectors.map((vector) => [...vector]);
    choose(now.word);
  });
  stage.add(make("div", { class: "wide controls" }, which.element, back.element),
    make("div", { class: "wide sliders" }, ...sliders.map((one) => one.element)), map, parts,
    hint("Choose a word and change its vector. Move over the map: each row is a query, and beside "
      + "it stands what it asks together. A square is as large as its number, open if that is "
      + "below zero."));
  look();
}
