// Paths: the way of a signal from one word to a later one, through the layers of four nets.
// data: n words; nets, each {name, ways, jumps}. ways[d - 1] are the jumps, from layer to layer,
// that bridge the distance d; jumps[layer] are those that a layer can make. A net without `jumps`
// is recurrent: its way runs from state to state, all in one layer.

const SIZE = { width: 640, left: 14, bottom: 304, high: 130, all: 250 };

/** The places [layer, word] on the way between two words; words count from 0, inputs are layer 0. */
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
    const words = [...Array(to + 1).keys()];
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

function draw(stage, { n, nets }) {
  let [which, from, to] = [0, 2, n - 4];
  const { width, left, bottom, high, all } = SIZE;
  const step = (width - 2 * left) / (n - 1);
  const svg = drawing(width, bottom + 40);
  const [lines, dots, way] = ["lines", "dots", "way"].map((name) =>
    svg.appendChild(make("svg:path", { class: name })));
  const [low, top] = ["k-ink", "q-ink"].map((name) =>
    svg.appendChild(make("svg:text", { "text-anchor": "middle", class: name })));
  let layers = 1;
  const x = (word) => left + step * word;
  const y = (layer) => bottom - layer * Math.min(high, all / layers);
  const spot = ([layer, word]) => `${x(word).toFixed(1)} ${y(layer).toFixed(1)}`;

  const body = make("tbody");
  const head = ["net", "layers", "path"].map((name) => make("th", { scope: "col" }, name));
  const table = make("table", { class: "lengths wide" },
    make("thead", {}, make("tr", {}, ...head)), body);

  const look = () => {
    const [net, places] = [nets[which], stations(nets[which], from, to)];
    layers = places.at(-1)[0];
    const words = [...Array(n).keys()];
    const rows = [...Array(layers + 1).keys()];
    lines.setAttribute("d", cone(net, to, layers, n)
      .map((pair) => `M${pair.map(spot).join("L")}`).join(""));
    dots.setAttribute("d", rows.flatMap((layer) =>
      words.map((word) => `M${spot([layer, word])}h0`)).join(""));
    way.setAttribute("d", `M${places.map(spot).join("L")}`);
    for (const [text, layer, word, above] of [[low, 0, from, 33], [top, layers, to, -19]]) {
      text.setAttribute("x", Math.min(Math.max(x(word), 30), width - 30));
      text.setAttribute("y", y(layer) + above);
      text.textContent = `word ${word + 1}`;
    }
    const counts = nets.map((one) => {
      const path = stations(one, from, to);
      return { layers: path.at(-1)[0], path: path.length - 1 };
    });
    body.replaceChildren(...counts.map((count, i) =>
      make("tr", { class: i === which ? "chosen" : "" },
        make("th", { scope: "row" }, nets[i].name), make("td", {}, `${count.layers}`),
        make("td", {}, make("span", { class: "bar", style: `--w: ${count.path / n}` }),
          `${count.path}`))));
    ends?.forEach((one) => one.paint());
    const { path } = counts[which];
    const name = net.name[0].toUpperCase() + net.name.slice(1);
    stage.tell({ net: net.name, from: from + 1, to: to + 1, places, counts },
      `${name}, from word ${from + 1} to word ${to + 1}, ${to - from} further on: ` +
      `${layers} ${layers > 1 ? "layers" : "layer"}, and a path of ` +
      `${path} ${path > 1 ? "steps" : "step"}.`);
  };
  let ends = null;
  const word = (place) => Math.round((place - left) / step);
  const inside = (i, lowest, highest) => Math.min(Math.max(i, lowest), highest);
  const names = nets.map(({ name }) => name);
  stage.add(choice("net", names, 0, (i) => (which = i, look())),
    make("p", { class: "hint wide" }, "Drag the two rings, or move them with the arrow keys: the " +
      "word at the bottom, and the output above that is to know of it."),
    make("div", { class: "wide" }, svg), table);
  look();
  ends = [
    handle(svg, {
      label: "the word", className: "k", step, at: () => [x(from), y(0)],
      value: () => `word ${from + 1}`,
      move: (place) => (from = inside(word(place), 0, to - 1), look()),
    }),
    handle(svg, {
      label: "the output", className: "q", step, at: () => [x(to), y(layers)],
      value: () => `word ${to + 1}`,
      move: (place) => (to = inside(word(place), from + 1, n - 1), look()),
    }),
  ];
}
