// Which pairs a pattern computes, and how far a stack of such layers hears.
// data: n positions; patterns, names in the order of the buttons; layers, at most.

/** The keys that query t sees in layer number `layer` (from 0), as true and false for each key.

    The names are those of the chapter: "full", "window", "holes" (windows with dilation w^layer),
    "stride" (a window, then every w-th position, in turns), "global" (a window, and the first
    position), "blocks", and "shifted" (blocks, every other layer moved by half a block). */
function sees(pattern, n, w, causal, layer, t) {
  const gap = pattern === "holes" ? w ** layer : pattern === "stride" && layer % 2 ? w : 1;
  const wide = pattern === "stride" && layer % 2 ? n : w;
  const move = pattern === "shifted" && layer % 2 ? Math.floor(w / 2) : 0;
  const block = (place) => Math.floor((place + move) / w);
  return range(n).map((s) => {
    const away = t - s;
    if (causal && away < 0) return false;
    if (pattern === "full") return true;
    if (pattern === "blocks" || pattern === "shifted") return block(t) === block(s);
    if (pattern === "global" && (s === 0 || t === 0)) return true;
    return away % gap === 0 && Math.abs(away) < wide * gap;
  });
}

/** All masks of a stack, the lowest layer first. */
function masks(pattern, n, w, causal, layers) {
  return range(layers).map((layer) =>
    range(n).map((t) => sees(pattern, n, w, causal, layer, t)));
}

/** Which inputs can change which outputs; residual connections are counted. */
function depends(stack) {
  let heard = stack[0].map((_, t) => stack[0].map((__, s) => s === t));
  for (const mask of stack) {
    const below = heard;
    heard = mask.map((row, t) => {
      const from = row.map((seen, j) => seen || j === t);
      return below[0].map((_, s) => from.some((open, j) => open && below[j][s]));
    });
  }
  return heard;
}

/** The pairs of all layers, in parts of the pairs of one full layer. */
function price(stack, causal) {
  const n = stack[0].length;
  const pairs = stack.flat(2).filter(Boolean).length;
  return pairs / (causal ? n * (n + 1) / 2 : n * n);
}

/** A square of fields in two depths: `dark` over `light`. */
function square(dark, light) {
  const n = dark.length;
  const svg = drawing(6 * n, 6 * n, { width: 6 * n });
  const path = (table) => table.map((row, t) => row.map((on, s) =>
    (on ? `M${6 * s} ${6 * t}h5v5h-5z` : "")).join("")).join("");
  svg.append(make("svg:rect", { x: 0, y: 0, width: 6 * n - 1, height: 6 * n - 1, class: "paper" }),
    make("svg:path", { d: path(light), class: "light" }),
    make("svg:path", { d: path(dark), class: "dark" }));
  return svg;
}

function draw(stage, { n, patterns, layers: most }) {
  let [pattern, w, layers, causal] = ["window", 4, 3, true];
  const [one, all] = [make("div", { class: "square" }), make("div", { class: "square" })];

  const paint = () => {
    const stack = masks(pattern, n, w, causal, layers);
    const heard = depends(stack);
    const cost = price(stack, causal);
    const last = heard[n - 1].filter(Boolean).length;
    const top = stack[layers - 1];
    one.replaceChildren(square(top, top));
    all.replaceChildren(square(top, heard));
    const keys = Math.max(...top.map((row) => row.filter(Boolean).length));
    stage.tell({ pattern, window: w, layers, causal, heard: last, cost, keys },
      `${layers === 1 ? "One layer" : `${layers} layers`}: the last position depends on ${last} of `
      + `${n}${last === n ? ", all of them" : ""}. Computed are `
      + `${Math.round(100 * cost)} % of the pairs of one full layer.`);
  };
  const kinds = choice("pattern", patterns, patterns.indexOf(pattern), (i) => {
    pattern = patterns[i];
    paint();
  });
  const width = slider("window", { min: 1, max: 16, value: w }, (x) => {
    w = x;
    paint();
  });
  const depth = slider("layers", { min: 1, max: most, value: layers }, (x) => {
    layers = x;
    paint();
  });
  const one_sided = button("causal", (pressed) => {
    causal = pressed;
    paint();
  }, true);
  stage.add(
    make("div", { class: "controls" }, kinds.element, one_sided.element),
    make("div", { class: "controls" }, width.element, depth.element),
    panel("the top layer: who sees whom", one),
    panel("all layers: who depends on whom", all),
    hint("Rows are queries, columns keys. Dark: seen in the top layer. Light: depends, through the "
      + "layers below. For blocks, the window is the block; for the stride, its step as well."),
  );
  paint();
}
