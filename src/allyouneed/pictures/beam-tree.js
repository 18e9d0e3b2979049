// Beam search as a tree that grows: at each step the best candidates, and what becomes of each.
// data: source, the sentence; searches [{beam, steps}], steps[t] the 2N best candidates as {parent,
// token, log_p, fate}. A parent is the number of an open hypothesis of the step before; fate is open,
// ended or cut. What has ended is compared by log P.

const LEVEL = 52; // height of a step in the tree

/** What stands after `step` steps: open hypotheses, all that have ended, and each one's way.

    A way is the list of ranks, one for each step, that leads to a candidate. */
function standing({ steps }, step) {
  let open = [{ tokens: [], way: [], log_p: 0 }];
  const ended = [];
  let last = [];
  steps.slice(0, step).forEach((candidates, t) => {
    last = candidates.map(({ parent, token, log_p, fate }, rank) => {
      const { tokens, way } = open[parent];
      const one = { tokens: [...tokens, token], way: [...way, rank], log_p, fate };
      return { ...one, text: written(one.tokens) };
    });
    open = last.filter(({ fate }) => fate === "open");
    for (const one of last.filter(({ fate }) => fate === "ended")) {
      ended.push({ ...one, step: t + 1 });
    }
  });
  ended.sort((a, b) => b.log_p - a.log_p);
  return { open, ended, last, over: step === steps.length };
}

/** A candidate as a box with its token and, but at the root, its number. */
function node({ token, log_p }, x, y, width, look) {
  const box = { x: x - width / 2, y, width, height: 34, rx: 4 };
  return make("svg:g", { class: `node ${look}` }, make("svg:rect", box),
    label(x, y + (log_p === null ? 21 : 14), token, "middle"),
    log_p === null ? null : label(x, y + 28, show(log_p), "number middle"));
}

/** Squeeze the tokens that are wider than their boxes, once they stand on the page. */
function fit(svg, width) {
  for (const words of svg.querySelectorAll(".node text:not(.number)")) {
    if (words.getComputedTextLength() > width) {
      set(words, { textLength: width, lengthAdjust: "spacingAndGlyphs" });
    }
  }
}

/** The line from one box to another below it. */
function edge(from, to, top, look) {
  const bottom = top + LEVEL - 34;
  const d = `M${from} ${top}C${from} ${bottom - 4} ${to} ${top + 4} ${to} ${bottom}`;
  return make("svg:path", { d, class: `edge ${look}` });
}

/** The line between the best N and the others, and the two names above. */
function halves(N, column, bottom) {
  const name = (words, middle) =>
    label(middle * column, 12, N > 1 ? `the ${words} ${N}` : `the ${words}`, "soft middle");
  const between = make("svg:path", { d: `M${N * column} 4V${bottom}`, class: "between" });
  return [name("best", N / 2), name("next", 3 * N / 2), between];
}

/** The tree after `step` steps, as wide as there is room; the way of the best stands out. */
function tree({ beam, steps }, step, { over, ended }, room) {
  const column = Math.min(room / (2 * beam), 92);
  const width = column * 2 * beam;
  const svg = drawing(width, LEVEL * (steps.length + 1) + 22, { width, class: "tree" });
  const x = (rank) => (rank + 0.5) * column;
  const y = (level) => 22 + LEVEL * level;
  const best = (over && ended[0]?.way) || [];
  const place = (one, at, level, look) => svg.append(node(one, at, y(level), column - 4, look));
  if (step) svg.append(...halves(beam, column, y(step) + 36));
  let open = [{ from: x(beam - 0.5), way: [] }];
  place({ token: "<bos>", log_p: null }, open[0].from, 0, over ? "open best" : "open");
  steps.slice(0, step).forEach((candidates, t) => {
    const grown = candidates.map(({ parent, fate, ...one }, rank) => {
      const way = [...open[parent].way, rank];
      const won = t < best.length && way.every((r, i) => r === best[i]);
      const last = over && t === step - 1; // what is still open then is given up
      const look = last && fate === "open" ? "cut" : fate;
      svg.prepend(edge(open[parent].from, x(rank), y(t) + 34, look));
      place(one, x(rank), t + 1, won ? `${look} best` : look);
      return { from: x(rank), way, fate };
    });
    open = grown.filter(({ fate }) => fate === "open");
  });
  return svg;
}

/** A list of hypotheses, best first, with a heading. */
function hypotheses(title, all, line, empty) {
  const items = all.map((one) => make("li", {}, make("span", {}, one.text || "<bos>"),
    make("span", { class: "number" }, line(one))));
  return make("div", { class: "list" }, make("p", { class: "label" }, title),
    items.length ? make("ul", {}, ...items) : make("p", { class: "hint" }, empty));
}

/** What has happened in this step, in words. */
function report({ beam, steps }, step, { open, ended, last, over }, data) {
  if (!step) return `Nothing is written yet. The source is “${data.source}”`;
  const names = (all) => all.map(({ text, log_p }) => `“${text}” (${show(log_p)})`).join(", ");
  const start = `Step ${step} of ${steps.length}.`;
  const closed = ended.filter((one) => one.step === step).map(({ text, log_p }) =>
    ` “${text}” has ended: ${show(log_p)}.`).join("");
  const reach = show(open[0].log_p);
  const best = ended.length ? show(ended[0].log_p) : "";
  if (over) {
    const given = open.length > 1 ? `the ${open.length} still open are` : "the one still open is";
    return `${start}${closed} What is open can come to ${reach} at most, and the best that has `
      + `ended has ${best}: ${given} given up. The winner is “${ended[0].text}”.`;
  }
  const more = best && ` What is open may still come to ${reach}, more than the ${best} of the best `
    + "that has ended: the search goes on.";
  const late = last.some(({ fate, token }) => fate === "cut" && token === "<eos>")
    ? ` <eos> behind the best ${beam} counts for nothing.` : "";
  const on = open.length > 1 ? "go" : "goes";
  return `${start} ${names(open)} ${on} on; all else is cut off.${closed}${late}${more}`;
}

function draw(stage, data) {
  let search = data.searches.at(-1);
  let [step, room] = [0, 560];
  const place = make("div", { class: "place" });
  const lists = make("div", { class: "lists" });

  const paint = () => {
    const now = standing(search, step);
    place.replaceChildren(tree(search, step, now, room));
    fit(place, Math.min(room / (2 * search.beam), 92) - 10);
    const value = ({ log_p }) => show(log_p);
    lists.replaceChildren(
      hypotheses(now.over ? "still open, given up" : "open, by log P", now.open,
        value, "none"),
      hypotheses("ended, by log P", now.ended, value, "none yet"));
    const plain = (all) => all.map(({ text, log_p }) => ({ text, log_p }));
    stage.tell({ beam: search.beam, step, open: plain(now.open), ended: plain(now.ended),
      cut: plain(now.last.filter(({ fate }) => fate === "cut")), over: now.over },
    report(search, step, now, data));
  };

  const way = walk(search.steps.length, (t) => {
    step = t;
    paint();
  });
  const chosen = data.searches.length - 1;
  const beams = choice("beam", data.searches.map(({ beam }) => `${beam}`), chosen, (i) => {
    const over = step === search.steps.length;
    search = data.searches[i];
    way.renew(search.steps.length);
    if (over) way.set(search.steps.length);
  });
  stage.add(make("div", { class: "controls" }, beams.element, ...way.elements), place, lists,
    hint("It has grown to its end: go back to its root, and let it grow with “next”. A number is "
      + "log P of all tokens up to there. Blue goes on, green has ended, dashed is cut off or given "
      + "up. Thick, at the end: the winner's way."));
  way.set(search.steps.length);
  new ResizeObserver(([{ contentRect }]) => {
    if (!contentRect.width || Math.abs(contentRect.width - room) < 1) return; // hidden, or the same
    room = contentRect.width;
    paint();
  }).observe(place);
}
