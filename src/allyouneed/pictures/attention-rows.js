// Attention row by row: go over the map, and see what the keys of that row weigh, and the sum.
// data: queries [T], keys [S], weights [T][S]; if the sum is drawn, values [S][D], outputs [T][D].

function draw(stage, { queries, keys, weights, values, outputs }) {
  const largest = values && Math.max(...[...values, ...outputs].flat().map(Math.abs));
  const parts = table("parts", [["key", "k-ink"], ["weight", "q-ink", 2],
    ...(values ? [["value", "v-ink"], ["weight × value", "v-ink"]] : [])]);

  let now = 0;
  const look = (t) => {
    now = t;
    const lines = keys.map((key, s) => {
      const weight = weights[t][s];
      const value = values ? [values[s], values[s].map((x) => weight * x)] : [];
      return line(key,
        [bar(weight), show(weight), ...value.map((vector) => squares(vector, largest))]);
    });
    if (values) {
      const sum = line("their sum, the output", [squares(outputs[t], largest)], { class: "sum" });
      sum.firstChild.colSpan = 4;
      lines.push(sum);
    }
    parts.set(lines);
    const ranked = keys.map((key, s) => [weights[t][s], key, s]).sort((a, b) => b[0] - a[0]);
    const best = ranked.slice(0, 3).map(([w, key]) => `“${key}” (${show(w)})`).join(", ");
    const sum = values ? ` The sum is (${outputs[t].map((x) => show(x)).join(", ")}).` : "";
    stage.tell({ query: t, weights: weights[t], output: outputs?.[t] },
      `“${queries[t]}” looks most at ${best}.${sum}`);
  };
  const map = grid("attention weights, a row for each query", queries, keys, {
    cell: (t, s) => ({ weight: weights[t][s], mark: t === now ? "asks" : "" }),
    enter: (t) => t !== now && (look(t), map.paint()),
  });
  stage.add(map, parts, hint("Move over the map: each row is a query, and beside it stands what it "
    + "asks together.",
  values ? " A square is as large as its number, open if that is below zero." : ""));
  look(0);
}
