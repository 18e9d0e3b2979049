// Attention row by row: go over the map, and see what the keys of that row weigh, and the sum.
// data: queries [T], keys [S], weights [T][S]; if the sum is drawn, values [S][D], outputs [T][D].

function draw(stage, { queries, keys, weights, values, outputs }) {
  const largest = values && Math.max(...[...values, ...outputs].flat().map(Math.abs));
  const body = make("tbody");
  const title = (text, name) => make("th", { scope: "col", class: name }, text);
  const head = make("tr", {}, title("key", "k-ink"), title("weight", "q-ink"),
    make("td"),
    ...(values ? [title("value", "v-ink"), title("weight × value", "v-ink")] : []));
  const table = make("table", { class: "rows" }, make("thead", {}, head), body);

  let now = 0;
  const look = (t) => {
    now = t;
    const lines = keys.map((key, s) => {
      const weight = weights[t][s];
      const bar = make("span", { class: "bar", style: `--w: ${weight}` });
      const line = make("tr", {}, make("th", { scope: "row" }, key), make("td", {}, bar),
        make("td", { class: "number" }, show(weight)));
      if (values) {
        line.append(make("td", {}, squares(values[s], largest)),
          make("td", {}, squares(values[s].map((x) => weight * x), largest)));
      }
      return line;
    });
    if (values) {
      lines.push(make("tr", { class: "sum" },
        make("th", { scope: "row", colspan: 4 }, "their sum, the output"),
        make("td", {}, squares(outputs[t], largest))));
    }
    body.replaceChildren(...lines);
    const ranked = keys.map((key, s) => [weights[t][s], key, s]).sort((a, b) => b[0] - a[0]);
    const best = ranked.slice(0, 3).map(([w, key]) => `“${key}” (${show(w)})`).join(", ");
    const sum = values ? ` The sum is (${outputs[t].map((x) => show(x)).join(", ")}).` : "";
    stage.tell({ query: t, weights: weights[t], output: outputs?.[t] },
      `“${queries[t]}” looks most at ${best}.${sum}`);
  };
  const map = grid("attention weights, a row for each query", queries, keys, {
    cell: (t, s) => ({ weight: weights[t][s], mark: t === now ? "chosen" : "" }),
    enter: (t) => t !== now && (look(t), map.paint()),
  });
  stage.add(map, table, make("p", { class: "hint wide" }, "Move over the map: each row is a query, "
    + "and beside it stands what it asks together" + (values ? ". A square is as large as its number,"
    + " open if that is below zero." : ".")));
  look(0);
}
