// A token's way through the machine: box by box, with the shapes, in training and while writing.
// data: source [S] and target [T] the tokens; own {encoder, decoder} the places of the two that
// we follow; shapes {training, writing}{box}{tensor} the sizes; rows {box} the first entries of
// the vector of our token after that box, the same in both.

const MODES = ["training", "writing"];
const [ENCODER, DECODER] = ["encoder", "decoder"];
const WIDTHS = { D: 36, K: 20, F: 72, V: 24 }; // of a drawn block, by its last axis
const LINE = 15; // height of a row of a block
const CELL = 11; // width of a weight

/** Axes or sizes as the book writes them: (2, 6, 64). */
function listed(all) {
  return `(${all.join(", ")})`;
}

/** All boxes in the order of the way; `level` is the height of the box in the plan. */
function boxesOfTheWay() {
  const parts = {
    [ENCODER]: ["tokens", "embedding", "positions", "self_attention", "add 0", "feed_forward",
      "add 1", "layer 2"],
    [DECODER]: ["tokens", "embedding", "positions", "self_attention", "add 0", "cross_attention",
      "add 1", "feed_forward", "add 2", "layer 2", "logits", "softmax"],
  };
  return Object.entries(parts).flatMap(([stack, names]) =>
    names.map((part, level) => ({ stack, part, level, name: `${stack} ${part}` })));
}

/** The tensors of a box, as [name, axes, sign before it]; R stands for the rows of our stream. */
function tensorsOf({ stack, part }, mode) {
  const short = mode === "writing" && /logits|softmax/.test(part);
  const R = stack === ENCODER ? "S" : short ? "1" : "T";
  const C = stack === ENCODER || part === "cross_attention" ? "S" : "T";
  const [ids, x] = [`B ${R}`, `B ${R} D`];
  if (part === "tokens") return [["out", ids, ""]];
  if (part === "embedding") return [["ids", ids, ""], ["out", x, "→"]];
  if (part.endsWith("attention")) {
    return [["q", `B H ${R} K`, ""], ["k", `B H ${C} K`, ""], ["v", `B H ${C} K`, ""],
      ["weights", `B H ${R} ${C}`, "→"], ["out", x, "→"]];
  }
  if (part.startsWith("add")) return [["x", x, ""], ["y", x, "+"], ["out", x, "→"]];
  if (part === "feed_forward") return [["x", x, ""], ["hidden", `B ${R} F`, "→"], ["out", x, "→"]];
  if (part === "logits") return [["x", x, ""], ["out", `B ${R} V`, "→"]];
  if (part === "softmax") return [["x", `B ${R} V`, ""], ["out", `B ${R} V`, "→"]];
  return [["x", x, ""], ["out", x, "→"]];
}

/** Which places of the stream the rows of a tensor are, and what is done with each of them. */
function rowsOf([tensor, axes], box, mode, { source, target, own }) {
  const keys = tensor === "k" || tensor === "v";
  const cross = keys && box.part === "cross_attention";
  const stream = box.stack === ENCODER || cross ? ENCODER : DECODER;
  const our = own[stream];
  const written = mode === "training" ? target : target.slice(0, our + 1);
  const all = stream === ENCODER ? source : written;
  const places = axes.split(" ").includes("1") ? [our] : all.map((_, place) => place);
  const kind = (place) => {
    if (box.stack === ENCODER && mode !== "training") return "kept";
    if (keys) return stream === DECODER && place > our ? "masked" : "made";
    return place === our ? "own" : "made";
  };
  return places.map((place) => ({ token: all[place], kind: kind(place) }));
}

/** A tensor as a block: a line for each place, an outline for the other sentence of the batch. */
function block([tensor, axes, sign], sizes, rows, our) {
  const last = axes.split(" ").at(-1);
  const ids = axes.split(" ").length === 2;
  const heads = tensor === "weights" ? sizes[1] : 1;
  const width = ids ? 44 : WIDTHS[last] ?? CELL * sizes.at(-1);
  const svg = drawing(34 + heads * (width + 8), LINE * rows.length + 6);
  svg.setAttribute("width", 34 + heads * (width + 8));
  for (let head = 0; head < heads; head += 1) {
    const left = 32 + head * (width + 8);
    const second = { x: left + 4, y: 5, width, height: LINE * rows.length };
    svg.append(make("svg:rect", { ...second, class: "second" }));
    rows.forEach(({ token, kind }, i) => {
      const place = { x: left, y: 1 + LINE * i, width, height: LINE };
      svg.append(make("svg:rect", { ...place, class: "ground" }));
      svg.append(make("svg:rect", { ...place, class: `line ${kind} ${tensor}` }));
      if (tensor === "weights" && kind === "own") {
        const open = axes.endsWith("T") ? our + 1 : sizes.at(-1);
        svg.append(make("svg:rect", { ...place, x: left + CELL * open,
          width: width - CELL * open, class: "unseen" }));
      }
      if (head) return;
      svg.append(label(ids ? left + width / 2 : 28, 12 + LINE * i, token,
        ids ? `${kind} middle` : "soft end"));
    });
  }
  const ink = { q: "q-ink", k: "k-ink", v: "v-ink" }[tensor];
  return make("div", { class: "tensor" },
    sign ? make("span", { class: "sign" }, sign) : null,
    make("div", {}, make("div", { class: `name ${ink}` }, ids ? "ids" : tensor), svg,
      make("div", { class: "axes" }, listed(axes.split(" "))),
      make("div", { class: "axes" }, listed(sizes))));
}

/** The plan of the machine; `go(i)` is called for a click on box i. */
function plan(boxes, go) {
  const svg = drawing(300, 380, { class: "plan" });
  const x = { [ENCODER]: 8, [DECODER]: 160 };
  const y = (level) => 352 - 30 * level - (level > 2 ? 8 : 0) - (level > 9 ? 8 : 0);
  for (const [stack, low, high] of [[ENCODER, 3, 7], [DECODER, 3, 9]]) {
    const frame = { x: x[stack] - 5, y: y(high) - 5, width: 142, height: y(low) - y(high) + 34 };
    svg.append(make("svg:rect", { ...frame, class: "frame" }));
  }
  const road = `M74 ${y(7)}V${y(8) + 12}H146.5V${y(5) + 12}H152`;
  svg.append(make("svg:path", { d: road, class: "memory" }),
    make("svg:path", { d: `M160 ${y(5) + 12}l-9 -4.5v9Z`, class: "tip" }),
    label(74, y(8) + 6, "memory", "soft middle"));
  const drawn = boxes.map(({ stack, part, level }, i) => {
    const place = { x: x[stack], y: y(level), width: 132, height: 24, rx: 3 };
    const text = { tokens: stack === ENCODER ? "source" : "target", embedding: "embedding × √D",
      positions: "+ positions", "layer 2": "layer 2, the same" }[part]
      ?? part.replace(/add (.)/, "residuals[$1]");
    const element = make("svg:g", { class: `box ${part.split(" ")[0]}`, onclick: () => go(i) },
      make("svg:rect", place), label(x[stack] + 66, y(level) + 16.5, text, "middle"));
    svg.append(element);
    return element;
  });
  return { element: svg, drawn };
}

/** One sentence on what happens in a box. */
function story({ stack, part }, mode, { source, target, own }) {
  const [first, second] = [`“${source[own.encoder]}”`, `“${target[own.decoder]}”`];
  const before = `the ${own.decoder} places before it`;
  if (stack === ENCODER && mode !== "training") {
    return "Nothing runs here: the source was read once, before the first token was written.";
  }
  const attention = {
    encoder: `${first} asks all ${source.length} places, and sums their values.`,
    training: `${second} asks itself and ${before}; the mask hides what comes later.`,
    writing: `${second} asks itself and ${before}, whose keys and values are all computed again.`,
  };
  const cross = {
    training: `${second} asks the memory: keys and values of ${source.length} source places.`,
    writing: `${second} asks the memory, whose keys and values are computed again.`,
  };
  const wanted = `the token after ${second}`;
  return {
    tokens: stack === ENCODER ? `Ids of tokens, ending in <eos>. We follow ${first}.`
      : { training: `The whole target at once. We follow ${second}.`,
        writing: `All that has been written. We want ${wanted}.` }[mode],
    embedding: "Each id becomes its row of the embedding matrix, times √D.",
    positions: "The sinusoids of its place are added to each.",
    self_attention: attention[stack === ENCODER ? ENCODER : mode],
    cross_attention: cross[mode],
    feed_forward: "Wider, max(0, ·), and narrow again: each place for itself.",
    "layer 2": "The second layer does the same with weights of its own"
      + (stack === ENCODER ? "; what comes out is the memory." : "."),
    logits: "A dot product with every row of the embedding matrix: a score for each token.",
    softmax: `Probabilities of ${wanted}`
      + (mode === "training" ? ", and after every other place, in one pass." : "."),
  }[part] ?? "What came out of the sub-layer is added to what went in; then LayerNorm.";
}

function draw(stage, data) {
  const boxes = boxesOfTheWay();
  let [mode, now] = ["training", 0];
  const map = plan(boxes, (step) => way.set(step));
  const inside = make("div", { class: "inside" }); // what is in the box
  steady(inside);

  const paint = () => {
    const box = boxes[now];
    const shapes = data.shapes[mode][box.name];
    const tensors = tensorsOf(box, mode).filter(([name]) => name in shapes);
    map.drawn.forEach((element, i) => {
      element.classList.toggle("now", i === now);
      element.classList.toggle("idle", boxes[i].stack === ENCODER && mode !== "training");
    });
    const our = data.own[box.stack];
    const token = (box.stack === ENCODER ? data.source : data.target)[our];
    inside.replaceChildren(make("div", { class: "tensors" }, ...tensors.map((tensor) =>
      block(tensor, shapes[tensor[0]], rowsOf(tensor, box, mode, data), our))));
    const first = data.rows[box.name];
    if (first) {
      const all = shapes.out.at(-1);
      inside.append(squares(first, Math.max(...first.map(Math.abs)), 20),
        make("p", { class: "hint" }, `The first ${first.length} of the ${all} numbers of `
          + `“${token}” after this box. A square is as large as its number, open if that is below `
          + "zero."));
    }
    const made = tensors.filter(([name, , sign]) => sign === "→" || name === "out").map(
      ([name, axes]) => `${name} ${listed(axes.split(" "))} = ${listed(shapes[name])}`);
    const place = `${now + 1} of ${boxes.length}, ${box.stack}, ${box.part}`;
    const rows = tensors.map((tensor) => rowsOf(tensor, box, mode, data).map((row) => row.kind));
    stage.tell({ mode, step: now, box: box.name, shapes, rows },
      `${place.replace(/add (.)/, "residuals[$1]")}. ${story(box, mode, data)} `
      + `Shapes: ${made.join(", ")}.`);
  };

  const way = walk(boxes.length - 1, (step) => {
    now = step;
    paint();
  }, (step) => `${step + 1} of ${boxes.length}`);
  const modes = choice("what it does", MODES, 0, (i) => {
    mode = MODES[i];
    paint();
  });
  stage.add(make("div", { class: "controls" }, modes.element),
    make("div", { class: "controls steps" }, ...way.elements), map, inside,
    hint("Go along with “back” and “next”, or press a box. Strongest: our token. Pale: computed "
      + "too. Hollow: read, not computed. Dotted: hidden, or not run."));
  paint();
}
