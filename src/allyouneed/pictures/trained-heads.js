// The heads of the trained model: choose a sentence, a kind of attention, a layer and a head.
// data: sentences [{source [S], read [T], write [T], maps {encoder, decoder, cross}, links}],
// maps[kind][layer][head][row][column] weights in hundredths, links [row, column] drawn by hand;
// start {layer, head} what is seen at first.

const KINDS = { encoder: "Encoder", decoder: "Decoder", cross: "Cross-attention" };

/** The weights of one head, or for `head` = their number the mean of all heads of the layer. */
function mapOf(layer, head) {
  if (head < layer.length) return layer[head].map((row) => row.map((w) => w / 100));
  return layer[0].map((row, r) => row.map((_, c) =>
    layer.reduce((sum, map) => sum + map[r][c], 0) / layer.length / 100));
}

/** How the rows and the columns of a kind of map are called. */
function namesOf({ source, read, write }, kind) {
  if (kind === "encoder") return { rows: source, columns: source };
  return kind === "decoder" ? { rows: read, columns: read } : { rows: write, columns: source };
}

function draw(stage, { sentences, start }) {
  const heads = sentences[0].maps.cross[0].length;
  let [s, kind, layer, head, row, column] = [0, "cross", start.layer, start.head, 1, 0];
  const place = make("div", { class: "place" });
  steady(place);
  let weights = [];
  let map = null;

  const tell = () => {
    const { read, write } = sentences[s];
    const { rows, columns } = namesOf(sentences[s], kind);
    const who = head < heads ? `head ${head + 1}` : `mean of ${heads} heads`;
    const asks = kind === "cross"
      ? `the row that writes “${write[row]}”, having read “${read[row]}”,` : `“${rows[row]}”`;
    const most = weights[row].indexOf(Math.max(...weights[row]));
    const here = column === most ? "" : ` Here, on “${columns[column]}”: `
      + `${show(weights[row][column])}.`;
    stage.tell({ sentence: s, kind, layer, head, row, column, weights: weights[row] },
      `${KINDS[kind]}, layer ${layer + 1}, ${who}: ${asks} gives most weight, `
      + `${show(weights[row][most])}, to “${columns[most]}”.${here}`);
  };
  const look = (r, c) => {
    [row, column] = [r, c];
    map.paint();
    tell();
  };
  const cell = (r, c) => {
    const linked = kind === "cross" && sentences[s].links.some(([t, k]) => t === r && k === c);
    const w = weights[r][c];
    return { weight: w, text: w >= 0.095 ? show(100 * w, 0) : "",
      mark: [linked && "linked", r === row && "asks"].filter(Boolean).join(" ") };
  };
  /** Another head on the same tokens: the cells stay, their weights change. */
  const change = () => {
    weights = mapOf(sentences[s].maps[kind][layer], head);
    map.paint();
    tell();
  };
  /** Other tokens: another table. */
  const rebuild = () => {
    const { rows, columns } = namesOf(sentences[s], kind);
    [row, column] = [Math.min(row, rows.length - 1), Math.min(column, columns.length - 1)];
    weights = mapOf(sentences[s].maps[kind][layer], head);
    map = grid("attention weights of this head", rows, columns, { cell, enter: look });
    place.replaceChildren(map.element);
    tell();
  };
  const numbers = (n) => range(n).map((i) => `${i + 1}`);
  const names = sentences.map(({ english }) => english);
  const controls = [
    choice("sentence", names, s, (i) => (s = i, rebuild())),
    choice("kind", Object.keys(KINDS), 2, (i) => (kind = Object.keys(KINDS)[i], rebuild())),
    choice("layer", numbers(sentences[0].maps.cross.length), layer, (i) => (layer = i, change())),
    choice("head", [...numbers(heads), "mean"], head, (i) => (head = i, change())),
  ];
  stage.add(make("div", { class: "controls" }, ...controls.map(({ element }) => element)), place,
    hint("Move over the cells. Numbers are weights in hundredths, from 10 on. Orange frames, in "
      + "cross-attention: the links drawn by hand."));
  rebuild();
}
