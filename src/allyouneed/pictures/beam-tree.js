// Beam search as a tree that grows: at each step the best candidates, and what becomes of each.
// data: source, the sentence; vocabulary, how many tokens there are; searches [{beam, steps,
// penalties}], steps[t] the 2N best candidates as {parent, token, log_p, fate}. A parent is the
// number of an open hypothesis of the step before; fate is open, ended or cut. penalties[t] is
// the length penalty of what ends at step t.

const LEVEL = 52; // height of a step in the tree

/** Tokens as text: "▁" begins a word. */
function written(tokens) {
  return tokens.join("").replaceAll("▁", " ").replace("‹eos›", "").trim();
}

/** What stands after `step` steps: open hypotheses, all that have ended, and each one's way.

    A way is the list of ranks, one for each step, that leads to a candidate. */
function standing({ steps, penalties }, step) {
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
      ended.push({ ...one, step: t + 1, penalty: penalties[t], score: one.log_p / penalties[t] });
    }
  });
  ended.sort((a, b) => b.score - a.score);
  return { open, ended, last, over: step === steps.length };
}

/** The tree after `step` steps, as wide as there is room; the way of the best stands out. */
function tree({ beam, steps }, step, now, room) {
  const [columns, N] = [steps[0].length, beam];
  const column = Math.min(room / columns, 92);
  const width = column * columns;
  const svg = drawing(width, LEVEL * (steps.length + 1) + 22, { width, class: "tree" });
  const x = (rank) => (rank + 0.5) * column;
  const y = (level) => 22 + LEVEL * level;
  const best = (now.over && now.ended[0]?.way) || [];
  const heads = [[0, N, `the best ${N}`], [N, 2 * N, `the next ${N}`]];
  for (const [from, to, text] of step ? heads : []) {
    const place = { x: (from + to) / 2 * column, y: 12, "text-anchor": "middle", class: "soft" };
    svg.append(make("svg:text", place, N > 1 ? text : text.replace(" 1", "")));
  }
  if (step) svg.append(make("svg:path", { d: `M${width / 2} 4V${y(step) + 36}`, class: "border" }));
  const node = (level, place, { token, log_p, fate }, chosen) => {
    const box = { x: place - column / 2 + 2, y: y(level), width: column - 4, height: 34, rx: 4 };
    const word = token.replace("▁", "");
    const lines = log_p === null ? [[word, 21]] : [[word, 14], [show(log_p), 28]];
    svg.append(make("svg:g", { class: `node ${fate} ${chosen ? "best" : ""}` },
      make("svg:rect", box), ...lines.map(([text, down], i) =>
        make("svg:text", { x: place, y: y(level) + down, "text-anchor": "middle",
          class: i ? "number" : "" }, text))));
  };
  node(0, x(N - 0.5), { token: "‹bos›", log_p: null, fate: "open" }, now.over);
  let open = [{ from: x(N - 0.5), way: [] }];
  steps.slice(0, step).forEach((candidates, t) => {
    const grown = candidates.map((candidate, rank) => {
      const { from, way } = open[candidate.parent];
      const one = { from: x(rank), way: [...way, rank], fate: candidate.fate };
      const [top, bottom] = [y(t) + 34, y(t + 1)];
      const bend = `M${from} ${top}C${from} ${bottom - 4} ${one.from} ${top + 4} ${one.from} ${bottom}`;
      svg.prepend(make("svg:path", { d: bend, class: `edge ${candidate.fate}` }));
      node(t + 1, x(rank), candidate, t < best.length && one.way.every((r, i) => r === best[i]));
      return one;
    });
    open = grown.filter(({ fate }) => fate === "open");
  });
  return svg;
}

/** A list of hypotheses, best first, with a heading. */
function hypotheses(title, all, line, empty) {
  const items = all.map((one) => make("li", {}, make("span", { class: "text" }, one.text || "‹bos›"),
    make("span", { class: "number" }, line(one))));
  return make("div", { class: "list" }, make("p", { class: "label" }, title),
    items.length ? make("ul", {}, ...items) : make("p", { class: "hint" }, empty));
}

/** What has happened in this step, in words. */
function report({ beam, steps }, step, { open, ended, last, over }, data) {
  if (!step) return `Nothing is written yet. The source is “${data.source}”`;
  const names = (all) => all.map(({ text, log_p }) => `“${text}” (${show(log_p)})`).join(", ");
  const start = `Step ${step} of ${steps.length}.`;
  const count = { 1: "One has", 2: "Two have", 3: "Three have", 4: "Four have", 5: "Five have" };
  const closed = ended.filter((one) => one.step === step).map(({ text, log_p, penalty, score }) =>
    ` “${text}” has ended: ${show(log_p)} / ${show(penalty)} = ${show(score)}.`).join("");
  if (over) {
    return `${start} ${count[ended.length] } ended: that is enough, and the search `
      + `is over. The best score, ${show(ended[0].score)}, has “${ended[0].text}”`;
  }
  const late = last.some(({ fate, token }) => fate === "cut" && token === "‹eos›")
    ? ` ‹eos› behind the best ${beam} counts for nothing.` : "";
  const on = open.length > 1 ? "go" : "goes";
  return `${start} ${names(open)} ${on} on; all else is cut off.${closed}${late}`;
}

function draw(stage, data) {
  let search = data.searches.at(-1);
  let [step, room] = [0, 560];
  const place = make("div", { class: "place" });
  const lists = make("div", { class: "lists" });

  const paint = () => {
    const now = standing(search, step);
    place.replaceChildren(tree(search, step, now, room));
    const score = ({ log_p, penalty, score }) => `${show(log_p)} / ${show(penalty)} = ${show(score)}`;
    lists.replaceChildren(
      hypotheses(now.over ? "still open, given up" : "open, by log P", now.open,
        ({ log_p }) => show(log_p), "none"),
      hypotheses("ended, by log P / length penalty", now.ended, score, "none yet"));
    back.element.disabled = step === 0;
    next.element.disabled = now.over;
    const plain = (all) => all.map(({ text, log_p, score }) => ({ text, log_p, score }));
    stage.tell({ beam: search.beam, step, open: plain(now.open), ended: plain(now.ended),
      cut: plain(now.last.filter(({ fate }) => fate === "cut")), over: now.over },
    report(search, step, now, data));
  };

  const back = button("back", () => bar.set(step - 1));
  const next = button("next", () => bar.set(step + 1));
  const bar = slider("step", { min: 0, max: search.steps.length, value: 0 }, (t) => {
    step = t;
    paint();
  });
  const chosen = data.searches.length - 1;
  const beams = choice("beam", data.searches.map(({ beam }) => `${beam}`), chosen, (i) => {
    search = data.searches[i];
    bar.input.max = search.steps.length;
    bar.set(Math.min(step, search.steps.length));
  });
  stage.add(make("div", { class: "controls" }, beams.element, back.element, next.element, bar.element),
    place, lists, make("p", { class: "hint wide" }, "Let it grow with “next”. A number is log P of "
      + "all tokens up to there. Blue goes on, green has ended, dashed is cut off. Thick, at the "
      + "end: the way of the winner."));
  paint();
  new ResizeObserver(([{ contentRect }]) => {
    if (!contentRect.width || Math.abs(contentRect.width - room) < 1) return; // hidden, or the same
    room = contentRect.width;
    paint();
  }).observe(place);
}
