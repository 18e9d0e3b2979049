// Label smoothing: what the loss of one place asks for, and what a model with one gap pays.
// data: vocabulary, the number of tokens, PAD among them; most, the largest gap of the logits.
// The right logit lies `gap` above all others but PAD, which are equal; PAD gets nothing.

/** q for the right token and for one of the others but PAD: equation (12.1). */
function target(smoothing, vocabulary) {
  const other = smoothing / (vocabulary - 1);
  return { right: 1 - smoothing + other, other };
}

/** p for the same two: the softmax of a logit `gap` and of vocabulary - 2 logits 0. */
function model(gap, vocabulary) {
  const total = Math.exp(gap) + vocabulary - 2;
  return { right: Math.exp(gap) / total, other: 1 / total };
}

/** - sum q log p, in nats: equation (12.2). */
function loss(gap, smoothing, vocabulary) {
  const [q, p] = [target(smoothing, vocabulary), model(gap, vocabulary)];
  return -q.right * Math.log(p.right) - (vocabulary - 2) * q.other * Math.log(p.other);
}

/** The gap at which p = q, where the loss is lowest; without smoothing there is none. */
function bestGap(smoothing, vocabulary) {
  const { right, other } = target(smoothing, vocabulary);
  return smoothing > 0 ? Math.log(right / other) : Infinity;
}

const FRAME = { width: 600, height: 302, left: 44, right: 16, top: 24, bottom: 62, tall: 7 };

/** The loss against the gap, without smoothing and with as much as `set` says. The names stand so
    far from the curves that the ring on one of them, which is 15 high on a phone, covers none. */
function chart(vocabulary, most) {
  const { width, height, left, right, top, bottom, tall } = FRAME;
  const x = (gap) => left + (width - left - right) * gap / most;
  const y = (nats) => height - bottom - (height - top - bottom) * Math.min(nats, tall) / tall;
  const gapAt = (place) => (place - left) / (width - left - right) * most;
  const gaps = range(201).map((i) => i * most / 200);
  const curve = (smoothing) => `M${gaps.map((gap) =>
    `${x(gap).toFixed(1)} ${y(loss(gap, smoothing, vocabulary)).toFixed(1)}`).join("L")}`;
  const svg = drawing(width, height, { class: "broad" });
  svg.append(...levels([0, 2, 4, 6].map((nats) => [y(nats), `${nats}`]), left, x(most), 18),
    ...every(5, most).map((gap) => label(x(gap), height - bottom + 31, `${gap}`, "soft middle")),
    label(left + 22, top - 8, "loss in nats"),
    label(x(most), height - 4, "right logit minus the others", "end"));
  const best = make("svg:line", { class: "best", y2: height - bottom });
  const smooth = make("svg:path", { class: "smooth" });
  const lowest = label(0, 0, "lowest", "k-ink middle");
  const plainName = label(x(most) - 22, y(0) - 8, "ε = 0", "q-ink end");
  const smoothName = label(x(most) - 22, 0, "", "k-ink end");
  svg.append(make("svg:path", { class: "plain", d: curve(0) }), best, smooth, lowest, plainName,
    smoothName);

  const paint = (smoothing) => {
    const [end, gap] = [y(loss(most, smoothing, vocabulary)), bestGap(smoothing, vocabulary)];
    smooth.setAttribute("d", curve(smoothing));
    smoothName.textContent = smoothing ? `ε = ${show(smoothing)}` : "";
    smoothName.setAttribute("y", end - 20);
    plainName.setAttribute("visibility", !smoothing || y(0) - end > 24 ? "visible" : "hidden");
    for (const part of [best, lowest]) {
      part.setAttribute("visibility", gap <= most ? "visible" : "hidden");
    }
    if (gap > most) return;
    const floor = y(loss(gap, smoothing, vocabulary));
    set(best, { x1: x(gap), x2: x(gap), y1: floor });
    set(lowest, { x: x(gap), y: floor - 22 });
  };
  return { svg, x, y, gapAt, paint };
}

/** A table of the probabilities asked for and given, with bars. */
function comparison(vocabulary) {
  const { element, set } = table("wide",
    [["probability of"], ["asked for, q", "k-ink"], ["given, p", "q-ink"]]);
  const share = (part, name) => make("span", {},
    make("span", { class: "whole" }, bar(part, name)), show(part, 4));
  const rows = [["the right token", "right"], [`each of ${vocabulary - 2} others`, "other"]];
  const paint = (q, p) => set(rows.map(([name, key]) =>
    line(name, [share(q[key], "k"), share(p[key], "")])));
  return { element, paint };
}

/** What the loss does to a model; `pull` is minus its gradient for the right logit. */
function verdict(pull, smoothing) {
  if (!smoothing && pull < 0.003) return "nearly sure, and never sure enough: the loss still pulls";
  if (Math.abs(pull) < 0.003) return "as sure as it is asked to be: the loss rests here";
  return pull > 0
    ? "less sure than it is asked to be: the loss pushes the right logit up"
    : "surer than it is asked to be: the loss pushes the right logit down";
}

function draw(stage, { vocabulary, most }) {
  let [gap, smoothing] = [4, 0.1];
  const [plot, shares] = [chart(vocabulary, most), comparison(vocabulary)];

  const look = () => {
    const [q, p] = [target(smoothing, vocabulary), model(gap, vocabulary)];
    const [lowest, now] = [bestGap(smoothing, vocabulary), loss(gap, smoothing, vocabulary)];
    plot.paint(smoothing);
    shares.paint(q, p);
    stage.tell({ smoothing, gap, loss: now, q, p, lowest: lowest <= most ? lowest : null },
      `Smoothing ${show(smoothing)}, gap ${show(gap, 1)}: a loss of ${show(now)} nats. ` +
      `The model is ${verdict(q.right - p.right, smoothing)}.`);
  };
  look();
  const ring = handle(plot.svg, {
    label: "right logit minus the others", className: "k", step: plot.x(0.1) - plot.x(0),
    at: () => [plot.x(gap), plot.y(loss(gap, smoothing, vocabulary))], value: () => show(gap, 1),
    move: (place) => {
      gap = Math.round(10 * clamp(plot.gapAt(place), 0, most)) / 10;
      look();
    },
  });
  stage.add(
    hint("Drag the ring along the curve, or move it with the arrow keys; the slider sets how " +
      "much is asked for."),
    slider("smoothing ε", {
      min: 0, max: 0.3, step: 0.01, value: smoothing, text: (share) => show(share),
    }, (share) => (smoothing = share, look(), ring.paint())),
    make("div", { class: "wide" }, plot.svg), shares);
}
