// The three attentions on one pair of sentences: choose a word, and see where it asks and is asked.
// data: source [S], target [T], the tokens; masks: {encoder [S][S], causal [T][T], cross [T][S]}.

/** A small plan of one attention: from which sentence queries, keys and values come. */
function plan(asks, answers) {
  const svg = drawing(190, 104, { width: 190 });
  const box = (x, y, width, text) => svg.append(
    make("svg:rect", { x: x - width / 2, y, width, height: 24, rx: 5, class: "box" }),
    label(x, y + 16.5, text, "middle"));
  const same = asks === answers;
  const [from, to] = same ? [95, 95] : [48, 134];
  box(95, 2, 132, "attention");
  box(from, 78, 68, asks);
  if (!same) box(to, 78, 80, answers);
  const lines = {};
  const starts = { q: same ? from - 22 : from, k: same ? to : to - 12, v: to + 22 };
  const ends = { q: 55, k: 95, v: 135 };
  for (const letter of ["q", "k", "v"]) {
    const one = arrow(letter);
    one.set([starts[letter], 77], [ends[letter], 28]);
    const x = (starts[letter] + ends[letter]) / 2;
    one.element.append(make("svg:circle", { cx: x, cy: 53, r: 9, class: "behind" }),
      label(x, 57.5, letter.toUpperCase(), `${letter}-ink middle`));
    svg.append((lines[letter] = one.element));
  }
  return { element: svg, lines };
}

/** What a chosen word does in one of the three: the row that asks, the column that is asked. */
function part(word, rowSide, columnSide) {
  const asks = word.side === rowSide ? word.place : null;
  const asked = word.side === columnSide ? word.place : null;
  return { asks, asked };
}

/** The same masks, with one of the common mistakes made in them; and where it can be seen. */
const MISTAKES = {
  "all right": (masks) => masks,
  "causal left out": ({ causal, ...rest }) => ({
    ...rest, causal: causal.map((row) => row.map(() => true)),
  }),
  "padding left out": ({ encoder, cross, causal }) => ({
    causal, encoder: encoder.map((row) => row.map(() => true)),
    cross: cross.map((row) => row.map(() => true)),
  }),
  "causal in cross-attention": ({ cross, ...rest }) => ({
    ...rest, cross: cross.map((row, t) => row.map((may, s) => may && s <= t)),
  }),
};

/** The cells in which a mask differs from the right one: [row, column, whether it is shown]. */
function differing(mask, right) {
  return mask.flatMap((row, t) => row.flatMap((may, s) =>
    may === right[t][s] ? [] : [[t, s, may]]));
}

/** What a mistake does to the row of one word. */
function consequence(mistake, wrong, row, side) {
  const words = wrong.filter(([t]) => t === row).map(([, s]) => `“${side[s]}”`).join(", ");
  if (mistake === "all right" || !words) return "";
  return {
    "causal left out": ` It sees ${words}, which it has yet to write: a leak.`,
    "padding left out": ` It gives weight to ${words}, which is no word.`,
    "causal in cross-attention": ` It may not see ${words}, though the whole source is there.`,
  }[mistake];
}

/** The keys that a query may see. */
function seen(mask, t) {
  return mask[t].flatMap((may, s) => (may ? [s] : []));
}

function draw(stage, { source, target, masks: right }) {
  const sides = { source, target };
  let [masks, mistake] = [right, "all right"];
  let word = { side: "target", place: 1 };
  const panels = [
    { name: "encoder self-attention", rows: "source", columns: "source", key: "encoder" },
    { name: "causal self-attention", rows: "target", columns: "target", key: "causal" },
    { name: "cross-attention", rows: "target", columns: "source", key: "cross" },
  ];
  for (const one of panels) {
    const { name, rows, columns, key } = one;
    one.plan = plan(rows, rows === columns ? columns : "memory");
    one.map = grid(`${name}: which keys each query may see`, sides[rows], sides[columns], {
      cell: (t, s) => {
        const { asks, asked } = part(word, rows, columns);
        const mask = masks[key];
        const wrong = mask[t][s] === right[key][t][s] ? "" : mask[t][s] ? " leak" : " lost";
        return {
          weight: !mask[t][s] ? 0 : t === asks || (rows !== columns && s === asked) ? 0.75 : 0.22,
          mark: `${mask[t][s] ? "" : "shut"}${t === asks ? " asks" : ""}` +
            `${rows !== columns && s === asked ? " asked" : ""}${wrong}`,
          name: `${sides[rows][t]} ${mask[t][s] ? "may" : "may not"} see ${sides[columns][s]}`,
        };
      },
      enter: (t) => choose(rows, t),
    });
  }

  const tokens = [...source.map((_, s) => ["source", s]), ...target.map((_, t) => ["target", t])];
  const names = choice("source", [...source, ...target], source.length + word.place,
    (i) => choose(...tokens[i]));
  names.element.setAttribute("aria-label", "a word of the source or of the target");
  names.buttons[source.length].before(make("span", { class: "rest" }),
    make("span", { class: "label", "aria-hidden": "true" }, "target"));

  const choose = (side, place) => {
    if (side === word.side && place === word.place) return;
    word = { side, place };
    paint();
  };
  const paint = () => {
    tokens.forEach(([side, place], i) => {
      const chosen = side === word.side && place === word.place;
      names.buttons[i].setAttribute("aria-checked", chosen);
      names.buttons[i].tabIndex = chosen ? 0 : -1;
    });
    for (const { rows, columns, key, map, plan: { lines } } of panels) {
      const mask = masks[key];
      const { asks, asked } = part(word, rows, columns);
      const heads = map.element.querySelectorAll("th[scope='col']");
      heads.forEach((head, s) => head.classList.toggle("gives", asks !== null ? mask[asks][s] :
        s === asked && mask.some((row) => row[s])));
      const gives = asks !== null || (asked !== null && mask.some((row) => row[asked]));
      lines.q.classList.toggle("off", asks === null);
      for (const letter of ["k", "v"]) lines[letter].classList.toggle("off", !gives);
      map.paint();
    }
    tell();
  };
  const tell = () => {
    const { side, place } = word;
    const list = (side, places) => places.map((i) => `“${sides[side][i]}”`).join(", ");
    const name = `“${sides[side][place]}”`;
    if (side === "source") {
      const [keys, asked] = [seen(masks.encoder, place), masks.cross.some((row) => row[place])];
      const wrong = differing(masks.encoder, right.encoder);
      stage.tell({ side, place, encoder: keys, asked, mistake },
        asked ? `${name} asks in the encoder: ${list("source", keys)}. In cross-attention it is ` +
          `asked: it hands its key and its value, out of the memory, to ` +
          `${masks.cross.every((row) => row[place]) ? "every" : "some"} target token.` +
          consequence(mistake, wrong, place, source)
          : `Nobody may see ${name}: its column is hidden in the encoder and in cross-attention. ` +
          `It still has a row of its own, which nobody reads.`);
    } else {
      const [causal, cross] = [seen(masks.causal, place), seen(masks.cross, place)];
      const inner = consequence(mistake, differing(masks.causal, right.causal), place, target);
      const outer = consequence(mistake, differing(masks.cross, right.cross), place, source);
      stage.tell({ side, place, causal, cross, mistake },
        `${name} asks twice. Its own sentence` +
        `${mistake === "causal left out" ? "" : ", no further than itself"}: ` +
        `${list("target", causal)}. Then the memory` +
        `${masks.cross === right.cross ? ", all that is no padding" : ""}: ` +
        `${list("source", cross)}.${inner}${outer}`);
    }
  };
  const wrongs = choice("masks", Object.keys(MISTAKES), 0, (i) => {
    mistake = Object.keys(MISTAKES)[i];
    masks = MISTAKES[mistake](right);
    paint();
  });
  stage.add(names,
    ...panels.map(({ name, plan: { element }, map }) => panel(name, element, map.element)),
    wrongs,
    hint("Choose a word, or move over a row. Then make a mistake in the masks: ",
      "which words does it reach?"));
  paint();
}
