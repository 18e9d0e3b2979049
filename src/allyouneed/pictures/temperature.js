// The softmax closes as the vectors grow wider, and the gradient dies with it, but for the root.
// data: widths [W]; scores [N][W][S] of N queries, not divided; gradients, the lengths that reach
// each query: {plain [N][W], scaled [N][W]}.

/** Weights of scores / divisor, how sure they are, and the slope p (1 - p) of each (6.7). */
function temper(scores, divisor) {
  const weights = softmax(scores.map((score) => score / divisor));
  const entropy = weights.reduce((sum, p) => (p > 0 ? sum - p * Math.log(p) : sum), 0);
  return {
    weights, entropy, largest: Math.max(...weights), slopes: weights.map((p) => p * (1 - p)),
  };
}

/** A number that may be very small: 0.12, or 3.4 × 10⁻⁷. */
function small(x) {
  if (x >= 0.01) return show(x);
  if (x < 1e-12) return "less than 10⁻¹²";
  return power(x);
}

/** The middle one; of an even number, the lower of the two in the middle. */
function median(numbers) {
  return [...numbers].sort((a, b) => a - b)[(numbers.length - 1) >> 1];
}

/** Weights as bars that rise, their slopes as bars that hang below: 130 units are a whole. */
function bars(count) {
  const [left, ground, whole, room] = [34, 160, 130, 290 / count];
  const svg = drawing(330, 220);
  const marks = [[1, "1"], [0.5, "0.5"], [0, "0"], [-0.25, "0.25"]];
  svg.append(...levels(marks.map(([weight, name]) => [ground - whole * weight, name, weight === 0]),
    left, 326));
  const upright = (i, className) => {
    const place = { x: left + (i + 0.14) * room, width: 0.72 * room };
    return svg.appendChild(make("svg:rect", { ...place, class: className }));
  };
  const [up, down] = ["weight", "slope"].map((name) => range(count).map((i) => upright(i, name)));
  const best = svg.appendChild(label(0, 0, "", "q-ink middle"));
  const bestSlope = svg.appendChild(label(0, 0, "", "k-ink middle"));
  svg.append(label(left, 10, "weights p of nine keys", "q-ink"),
    label(left, 215, "their slopes p (1 − p)", "k-ink"));
  const paint = ({ weights, slopes, largest }) => {
    weights.forEach((p, i) => {
      set(up[i], { y: ground - whole * p, height: whole * p });
      set(down[i], { y: ground, height: whole * slopes[i] });
    });
    const at = weights.indexOf(largest);
    const middle = left + (at + 0.5) * room;
    set(best, { x: middle, y: ground - whole * largest - 5 });
    best.textContent = show(largest);
    set(bestSlope, { x: middle, y: ground + whole * slopes[at] + 14 });
    bestSlope.textContent = show(slopes[at]);
  };
  return { svg, paint };
}

/** The gradients of all queries against the width, on logarithmic axes, from 10⁻⁸ to 100. */
function cloud(widths) {
  const [left, low, high] = [44, -8, 2];
  const across = (w) => left + 12 + (w * 264) / (widths.length - 1);
  const height = (length) => {
    const power = Math.max(Math.log10(Math.max(length, 1e-300)), low);
    return 28 + ((high - power) * 152) / (high - low);
  };
  const svg = drawing(330, 220);
  const marks = [
    [100, "100"], [1, "1"], [1e-2, "10⁻²"], [1e-4, "10⁻⁴"], [1e-6, "10⁻⁶"], [1e-8, "≤ 10⁻⁸"],
  ];
  svg.append(...levels(marks.map(([length, name]) => [height(length), name]), left, 326, 4));
  widths.forEach((width, w) => {
    if (w % 3 === 0) svg.append(label(across(w), 198, String(width), "soft middle"));
  });
  const here = make("svg:line", { y1: 24, y2: 184, class: "here" });
  const way = make("svg:polyline", { class: "way" });
  const [dots, own] = [make("svg:g", { class: "dots" }), make("svg:g", { class: "own" })];
  const now = make("svg:circle", { r: 6, class: "now" });
  svg.append(here, dots, way, own, now, label(left, 10, "gradients at sixteen queries", "k-ink"),
    label(183, 216, "width of the vectors", "soft middle"));
  const paint = (gradients, chosen, w) => {
    const row = (lengths) => lengths.map((length, i) =>
      make("svg:circle", { r: 2.8, cx: across(i), cy: height(length) }));
    dots.replaceChildren(...gradients.flatMap(row));
    own.replaceChildren(...row(gradients[chosen]));
    const medians = widths.map((_, i) => median(gradients.map((lengths) => lengths[i])));
    way.setAttribute("points", medians.map((x, i) => [across(i), height(x)]).join(" "));
    set(here, { x1: across(w), x2: across(w) });
    set(now, { cx: across(w), cy: height(gradients[chosen][w]) });
  };
  return { svg, paint };
}

function draw(stage, { widths, scores, gradients }) {
  const now = { width: Math.floor(widths.length / 2), rooted: 0, query: 0 };
  const left = bars(scores[0][0].length);
  const right = cloud(widths);
  const change = (part) => {
    Object.assign(now, part);
    const wide = widths[now.width];
    const lengths = now.rooted ? gradients.scaled : gradients.plain;
    const found = temper(scores[now.query][now.width], now.rooted ? Math.sqrt(wide) : 1);
    const gradient = lengths[now.query][now.width];
    left.paint(found);
    right.paint(lengths, now.query, now.width);
    const how = now.rooted ? "divided by the root" : "not divided";
    const most = Math.log(found.weights.length);
    stage.tell({ ...now, wide, gradient, ...found },
      `Width ${wide}, ${how}: the largest weight is ${show(found.largest)}, the entropy ` +
      `${show(found.entropy)} of at most ${show(most)}. ` +
      `A gradient of ${small(gradient)} reaches the query.`);
  };
  const wide = slider("width", {
    min: 0, max: widths.length - 1, value: now.width, text: (w) => String(widths[w]),
  }, (width) => change({ width }));
  const root = choice("scores", ["not divided", "divided by the root"], 0,
    (rooted) => change({ rooted }));
  const next = button("another query",
    () => change({ query: (now.query + 1) % scores.length }));
  stage.add(make("div", { class: "controls" }, wide.element, root.element, next.element),
    left.svg, right.svg, hint(
      "The bars belong to one query. The dots are all sixteen at every width, that one in " +
      "orange; the line is their median."));
  change({});
}
