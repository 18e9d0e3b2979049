// Byte pairs: merge by merge, a sentence of characters becomes a sentence of tokens.
// data: sentences, each {text, steps}, where steps is [[n, left, right, pieces], ...]: after n
// merges, of which the last joined left and right, the pieces, with blanks between them; in the
// first step n is 0, and left and right are empty. total: how many merges were learnt.

const PLOT = { width: 620, height: 190, left: 36, right: 12, top: 16, bottom: 36 };

/** Where n merges and so many tokens lie in the plot: merges on a logarithmic axis, from 1. */
function place(n, tokens, total, most) {
  const { width, height, left, right, top, bottom } = PLOT;
  const x = left + (width - left - right) * Math.log(Math.max(n, 1)) / Math.log(total);
  return [x, height - bottom - (height - top - bottom) * tokens / most];
}

/** The number of tokens against merges, as stairs, with a dot that `at(step)` moves. */
function stairs(steps, total) {
  const counts = steps.map(([n, , , pieces]) => [n, pieces.split(" ").length]);
  const most = Math.ceil(counts[0][1] / 10) * 10;
  const at = (n, tokens) => place(n, tokens, total, most);
  const svg = drawing(PLOT.width, PLOT.height, { class: "broad" });
  const [[left, ground], end] = [at(1, 0), at(total, 0)];
  const marks = every(most > 30 ? 20 : 10, most).map((tokens) => [at(1, tokens)[1], `${tokens}`]);
  svg.append(...levels(marks, left, end[0]),
    label(end[0], ground + 32, "merges", "end"), label(left + 6, PLOT.top - 4, "tokens"));
  for (let n = 1; n <= total; n *= 10) {
    svg.append(label(at(n, 0)[0], ground + 17, thousands(n), "soft middle"));
  }
  const path = counts.map(([n, tokens], i) => {
    const [x, y] = at(n, tokens);
    return i ? `H${x.toFixed(1)}V${y.toFixed(1)}` : `M${x.toFixed(1)} ${y.toFixed(1)}`;
  }).join("");
  const dot = make("svg:circle", { r: 6, class: "now" });
  svg.append(make("svg:path", { d: `${path}H${end[0]}`, class: "stairs" }), dot);
  const move = (step) => {
    const [x, y] = at(...counts[step]);
    dot.setAttribute("cx", x);
    dot.setAttribute("cy", y);
  };
  return { element: make("div", { class: "wide" }, svg), at: move };
}

/** What the step did, in words. */
function account(steps, step, total) {
  const [n, left, right, pieces] = steps[step];
  const [tokens, letters] = [pieces, steps[0][3]].map((all) => all.split(" ").length);
  if (!n) return `No merge yet: the sentence is spelled, in ${letters} tokens.`;
  const rest = step === steps.length - 1 && n < total
    ? ` None of the later merges, up to ${thousands(total)}, changes this sentence.` : "";
  return `Merge ${thousands(n)} joins “${left}” and “${right}” to “${left + right}”: ` +
    `${tokens} tokens, from ${letters}.${rest}`;
}

function draw(stage, { sentences, total }) {
  let [which, step] = [0, 0];
  const cut = make("p", { class: "cut wide" });
  let plot = stairs(sentences[0].steps, total);

  const look = () => {
    const { steps } = sentences[which];
    const [n, left, right, pieces] = steps[step];
    const tokens = pieces.split(" ");
    cut.replaceChildren(...tokens.map((piece) =>
      make("span", { class: n && piece === left + right ? "piece last" : "piece" }, piece)));
    plot.at(step);
    stage.tell({ sentence: which, merges: n, tokens }, account(steps, step, total));
  };
  const merges = slider("merges", {
    min: 0, max: sentences[0].steps.length - 1, value: 0,
    text: (i) => thousands(sentences[which].steps[i][0]),
  }, (i) => (step = i, look()));
  const choose = (i) => {
    which = i;
    const { steps } = sentences[i];
    const fresh = stairs(steps, total);
    plot.element.replaceWith(fresh.element);
    plot = fresh;
    merges.input.max = steps.length - 1;
    merges.set(0);
  };
  const names = sentences.map(({ text }) => text);
  stage.add(choice("sentence", names, 0, choose),
    hint("Move the slider: each step is the next merge that finds something to join."),
    merges, cut, plot);
  look();
}
