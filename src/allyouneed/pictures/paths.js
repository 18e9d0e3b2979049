// Paths: the way of a signal from one word to a later one, through the layers of four nets.
// data: n words; nets, each {name, ways, jumps}. ways[d - 1] are the jumps, from layer to layer,
// that bridge the distance d; jumps[layer] are those that a layer can make. A net without `jumps`
// is recurrent: its way runs from state to state, all in one layer.

const SIZE = { width: 640, left: 14, bottom: 304, high: 180, all: 250 };

/** The places [layer, word] on the way; words count from 0, and layer 0 is the input. */
function stations(net, from, to) {
  let [layer, word] = [0, from];
  return [[0, from], ...net.ways[to - from - 1].map((jump, i) => {
    word += jump;
    if (net.jumps || i === 0) layer += 1;
    return [layer, word];
  })];
}

/** All connections that lead to the output `to` at the top: pairs of places [layer, word]. */
function cone(net, to, layers, n) {
  if (!net.jumps) {
    const words = range(to + 1);
    return [...words.map((word) => [[1, word], [0, word]]),
      ...words.slice(1).map((word) => [[1, word], [1, word - 1]])];
  }
  const lines = [];
  let heads = [to];
  for (let layer = layers; layer > 0; layer--) {
    const below = new Set();
    for (const head of heads) {
      for (const jump of net.jumps[layer - 1]) {
        const tail = head - jump;
        if (tail < 0 || tail >= n) continue;
        below.add(tail);
        lines.push([[layer, head], [layer - 1, tail]]);
      }
    }
    heads = [...below];
  }
  return lines;
}

/** The picture of one net: all places, the cone, and the way; `paint` draws them anew. */
function plane(n) {
  const { width, left, bottom, high, all } = SIZE;
  const step = (width - 2 * left) / (n - 1);
  const svg = drawing(width, bottom + 40, { class: "broad" });
  const [lines, dots, way] = ["lines", "dots", "way"].map((name) =>
    svg.appendChild(make("svg:path", { class: name })));
  const [low, top] = ["k-ink", "q-ink"].map((name) =>
    svg.appendChild(label(0, 0, "", `${name} middle`)));
  let layers = 1;
  const x = (word) => left + step * word;
  const y = (layer) => bottom - layer * Math.min(high, all / layers);
  const spot = ([layer, word]) => `${x(word).toFixed(1)} ${y(layer).toFixed(1)}`;
  const name = (text, word, y) => {
    set(text, { x: clamp(x(word), 30, width - 30), y });
    text.textContent = `word ${word + 1}`;
  };
  const paint = (net, places) => {
    const [[, from], [highest, to]] = [places[0], places.at(-1)];
    layers = highest;
    const everywhere = range(layers + 1).flatMap((layer) => range(n).map((word) => [layer, word]));
    dots.setAttribute("d", everywhere.map((place) => `M${spot(place)}h0`).join(""));
    lines.setAttribute("d", cone(net, to, layers, n)
      .map((pair) => `M${pair.map(spot).join("L")}`).join(""));
    way.setAttribute("d", `M${places.map(spot).join("L")}`);
    name(low, from, y(0) + 33);
    name(top, to, y(layers) - 19);
  };
  const wordAt = (place) => Math.round((place - left) / step);
  return { svg, step, x, y, wordAt, paint };
}

/** A table of all nets, with bars as long as their paths. */
function comparison(nets, n) {
  const { element, set } = table("wide", [["net"], ["layers"], ["path"]]);
  const paint = (counts, which) => set(counts.map(({ layers, path }, i) => {
    const length = make("span", {}, bar(path / n), `${path}`);
    return line(nets[i].name, [`${layers}`, length], { class: i === which ? "chosen" : null });
  }));
  return { element, paint };
}

/** "1 layer", "2 layers" */
function several(n, name) {
  return `${n} ${name}${n > 1 ? "s" : ""}`;
}

function draw(stage, { n, nets }) {
  let [which, from, to] = [0, 2, n - 4];
  const [picture, lengths] = [plane(n), comparison(nets, n)];
  let [layers, ends] = [1, []];

  const look = () => {
    const net = nets[which];
    const ways = nets.map((one) => stations(one, from, to));
    const counts = ways.map((places) => ({ layers: places.at(-1)[0], path: places.length - 1 }));
    layers = counts[which].layers;
    picture.paint(net, ways[which]);
    lengths.paint(counts, which);
    ends.forEach((one) => one.paint());
    const name = net.name[0].toUpperCase() + net.name.slice(1);
    stage.tell({ net: net.name, from: from + 1, to: to + 1, places: ways[which], counts },
      `${name}, from word ${from + 1} to word ${to + 1}, ${to - from} further on: ` +
      `${several(layers, "layer")}, and a path of ${several(counts[which].path, "step")}.`);
  };
  look();
  const { svg, step, x, y, wordAt } = picture;
  ends = [
    handle(svg, {
      label: "the word", className: "k", step, at: () => [x(from), y(0)],
      value: () => `word ${from + 1}`,
      move: (place) => (from = clamp(wordAt(place), 0, to - 1), look()),
    }),
    handle(svg, {
      label: "the output", className: "q", step, at: () => [x(to), y(layers)],
      value: () => `word ${to + 1}`,
      move: (place) => (to = clamp(wordAt(place), from + 1, n - 1), look()),
    }),
  ];
  stage.add(choice("net", nets.map(({ name }) => name), 0, (i) => (which = i, look())),
    hint("Drag the two rings, or move them with the arrow keys: the word at the bottom, and the " +
      "output above that is to know of it."),
    make("div", { class: "wide" }, svg), lengths);
}
