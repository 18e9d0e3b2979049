// A mask by hand: click cells, see the weights that remain, and what the outputs then feel.
// data: words [T], is_word [T], scores [T][T]; masks and wrong, {name: [T][T] of true and false}:
// masks have a button each, wrong ones are known by name if the reader makes one.

/** Attention weights: for each query the softmax over the keys that it may see, or zeros. */
function maskedSoftmax(scores, mask) {
  return scores.map((row, t) =>
    softmax(row.map((score, s) => (mask[t][s] ? score : -Infinity))));
}

/** Which words each output feels after some layers, all with the same mask.

    A layer adds what a word hears to the word itself, so each output feels its own word. */
function felt(mask, layers) {
  const once = mask.map((row, t) => row.map((seen, s) => seen || s === t));
  let all = once;
  for (let layer = 1; layer < layers; layer++) {
    const below = all;
    all = once.map((row) => row.map((_, s) => row.some((seen, u) => seen && below[u][s])));
  }
  return all;
}

/** The cells of one table in which a word meets a later word, or a padding; and rows without any.

    The rows of paddings do not count, nobody reads them; in how many of them a padding is seen? */
function faults(mask, isWord) {
  const found = { leaks: [], paddings: [], empty: [], unread: 0 };
  mask.forEach((row, t) => {
    if (!isWord[t]) {
      if (row.some((seen, s) => seen && !isWord[s])) found.unread += 1;
      return;
    }
    if (!row.includes(true)) found.empty.push(t);
    row.forEach((seen, s) => {
      if (seen && !isWord[s]) found.paddings.push([t, s]);
      else if (seen && s > t) found.leaks.push([t, s]);
    });
  });
  return found;
}

/** What there is to say about a mask. */
function verdict({ leaks, paddings, empty, unread }, late, layers, words) {
  const quoted = (t) => `“${words[t]}”`;
  const said = [];
  if (leaks.length === 1) {
    said.push(`${quoted(leaks[0][0])} may see ${quoted(leaks[0][1])}, which comes later`);
  } else if (leaks.length) said.push(`${leaks.length} cells let a word see a later one`);
  if (leaks.length) said[0] += ": right in an encoder, a leak in a decoder.";
  if (paddings.length === 1) said.push(`${quoted(paddings[0][0])} may see a padding.`);
  else if (paddings.length) said.push(`${paddings.length} cells let a word see a padding.`);
  for (const t of empty) {
    said.push(`${quoted(t)} may see nothing: its weights are zeros.`);
  }
  if (!said.length) {
    said.push("No word sees a later one, none a padding, and each has a key.",
      unread ? `The ${unread === 1 ? "row" : `${unread} rows`} in which a padding sees a padding `
        + `${unread === 1 ? "is" : "are"} read by nobody.` : "Paddings see no padding either.");
  }
  if (leaks.length || late.length) {
    const who = late.length === 1 ? "1 word feels" : `${late.length} words feel`;
    said.push(`After ${layers} layer${layers > 1 ? "s" : ""} ${who} a later one.`);
  }
  return said.join(" ");
}

function draw(stage, { words, is_word, scores, masks, wrong }) {
  const known = Object.entries({ ...masks, ...wrong });
  let mask = masks["both"].map((row) => [...row]);
  let layers = 2;

  const marks = (t, s, seen, { leaks, paddings }) => {
    const here = ([a, b]) => a === t && b === s;
    if (!seen) return "shut";
    return leaks.some(here) ? "leak" : paddings.some(here) ? "lost" : "";
  };
  const look = () => {
    const table = felt(mask, layers);
    const [now, later] = [faults(mask, is_word), faults(table, is_word)];
    return { table, now, later, weights: maskedSoftmax(scores, mask) };
  };
  let view = look();

  const map = grid("the mask, a row for each query; Enter hides or shows a key", words, words, {
    cell: (t, s) => ({
      weight: view.weights[t][s],
      text: mask[t][s] ? show(view.weights[t][s]) : "",
      mark: marks(t, s, mask[t][s], view.now),
      name: `${words[t]} ${mask[t][s] ? `may see ${words[s]}, weight ${show(view.weights[t][s])}`
        : `may not see ${words[s]}`}`,
    }),
    press: (t, s) => {
      mask[t][s] = !mask[t][s];
      renew();
    },
  });
  const reach = grid("what each output feels", words, words, {
    cell: (t, s) => ({
      weight: view.table[t][s] ? 0.35 : 0,
      mark: view.table[t][s] ? marks(t, s, true, view.later) : "",
      name: `the output of ${words[t]} ${view.table[t][s] ? "feels" : "does not feel"} ${words[s]}`,
    }),
  });
  for (const one of [map, reach]) {
    one.element.querySelectorAll("tr").forEach((line, i) =>
      line.classList.toggle("unread", i > 0 && !is_word[i - 1]));
  }
  const buttons = Object.entries(masks).map(([name, one]) => button(name, () => {
    mask = one.map((row) => [...row]);
    renew();
  }));
  const renew = () => {
    view = look();
    map.paint();
    reach.paint();
    const same = known.find(([, one]) => `${one}` === `${mask}`)?.[0] ?? null;
    buttons.forEach(({ element }) =>
      element.setAttribute("aria-pressed", element.textContent === same));
    const late = [...new Set(view.later.leaks.map(([t]) => t))];
    stage.tell(
      { mask, weights: view.weights, felt: view.table, layers, ...view.now, known: same },
      `${same in wrong ? `This is ${same}. ` : ""}${verdict(view.now, late, layers, words)}`,
    );
  };
  stage.add(
    make("div", { class: "controls", role: "group", "aria-label": "masks" },
      ...buttons.map(({ element }) => element)),
    panel("who may see whom, and the weights", map.element),
    panel("which words each output feels", reach.element,
      choice("after layers", ["1", "2", "6"], 1, (i) => {
        layers = [1, 2, 6][i];
        renew();
      }).element),
    hint("Click a cell to hide a key from a query, or to show it. ",
      make("span", { class: "ring leak" }), " a word meets a later one. ",
      make("span", { class: "ring lost" }), " a word meets a padding. ",
      "A layer adds what a word hears to the word. ",
      "From “both”, three clicks make the triangle that is one word too far."),
  );
  renew();
}
