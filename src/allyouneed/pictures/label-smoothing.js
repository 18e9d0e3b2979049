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

const FRAME = { width: 600, height: 280, left: 34, right: 14, top: 20, bottom: 44, tall: 7 };

/** The loss against the gap, without smoothing and with as much as `set` says. */
function chart(vocabulary, most) {
  const { width, height, left, right, top, bottom, tall } = FRAME;
  const x = (gap) => left + (width - left - right) * gap / most;
  const y = (nats) => height - bottom - (height - top - bottom) * Math.min(nats, tall) / tall;
  const gapAt = (place) => (place - left) / (width - left - right) * most;
  const gaps = [...Array(201).keys()].map((i) => i * most / 200);
  const curve = (smoothing) => `M${gaps.map((gap) =>
    `${x(gap).toFixed(1)} ${y(loss(gap, smoothing, vocabulary)).toFixed(1)}`).join("L")}`;
  const svg = drawing(width, height);
  const text = (x, y, anchor, name, words = "") => svg.appendChild(
    make("svg:text", { x, y, "text-anchor": anchor, class: name }, words));

  for (const nats of [0, 2, 4, 6]) {
    const level = { y1: y(nats), y2: y(nats) };
    svg.append(make("svg:line", { x1: left, x2: x(most), ...level, class: "rule" }));
    text(left - 8, y(nats) + 4, "end", "soft", `${nats}`);
  }
  for (let gap = 0; gap <= most; gap += 5) {
    text(x(gap), height - bottom + 18, "middle", "soft", `${gap}`);
  }
  text(left, top - 6, "start", "", "loss in nats");
  text(x(most), height - 4, "end", "", "right logit minus the others");
  const best = make("svg:line", { class: "best", y2: height - bottom });
  const smooth = make("svg:path", { class: "smooth" });
  svg.append(make("svg:path", { class: "plain", d: curve(0) }), best, smooth);
  const lowest = text(0, 0, "middle", "k-ink", "lowest");
  const plainName = text(x(most), y(0) - 8, "end", "q-ink", "ε = 0");
  const smoothName = text(x(most), 0, "end", "k-ink");

  const set = (smoothing) => {
    const [end, gap] = [y(loss(most, smoothing, vocabulary)), bestGap(smoothing, vocabulary)];
    smooth.setAttribute("d", curve(smoothing));
    smoothName.textContent = smoothing ? `ε = ${show(smoothing)}` : "";
    smoothName.setAttribute("y", end - 10);
    plainName.setAttribute("visibility", !smoothing || y(0) - end > 34 ? "visible" : "hidden");
    for (const part of [best, lowest]) {
      part.setAttribute("visibility", gap <= most ? "visible" : "hidden");
    }
    if (gap > most) return;
    const floor = y(loss(gap, smoothing, vocabulary));
    for (const key of ["x1", "x2"]) best.setAttribute(key, x(gap));
    best.setAttribute("y1", floor);
    lowest.setAttribute("x", x(gap));
    lowest.setAttribute("y", floor - 12);
  };
  return { svg, x, y, gapAt, set };
}

/** A table of the probabilities asked for and given, with bars. */
function shares(vocabulary) {
  const titles = [["probability of", ""], ["asked for, q", "k-ink"], ["given, p", "q-ink"]];
  const head = titles.map(([text, name]) => make("th", { scope: "col", class: name }, text));
  const body = make("tbody");
  const share = (part, name) => make("td", {}, make("span", { class: "share" },
    make("span", { class: `bar ${name}`, style: `--w: ${part}` })), show(part, 4));
  const rows = [["the right token", "right"], [`each of ${vocabulary - 2} others`, "other"]];
  const set = (q, p) => body.replaceChildren(...rows.map(([name, key]) => make("tr", {},
    make("th", { scope: "row" }, name), share(q[key], "k"), share(p[key], "q"))));
  const element = make("table", { class: "shares wide" },
    make("thead", {}, make("tr", {}, ...head)), body);
  return { element, set };
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
  const [plot, table] = [chart(vocabulary, most), shares(vocabulary)];

  const look = () => {
    const [q, p] = [target(smoothing, vocabulary), model(gap, vocabulary)];
    const [lowest, now] = [bestGap(smoothing, vocabulary), loss(gap, smoothing, vocabulary)];
    plot.set(smoothing);
    table.set(q, p);
    stage.tell({ smoothing, gap, loss: now, q, p, lowest: lowest <= most ? lowest : null },
      `Smoothing ${show(smoothing)}, gap ${show(gap, 1)}: a loss of ${show(now)} nats. ` +
      `The model is ${verdict(q.right - p.right, smoothing)}.`);
  };
  look();
  const ring = handle(plot.svg, {
    label: "right logit minus the others", className: "k", step: plot.x(0.1) - plot.x(0),
    at: () => [plot.x(gap), plot.y(loss(gap, smoothing, vocabulary))], value: () => show(gap, 1),
    move: (place) => {
      gap = Math.round(Math.min(Math.max(plot.gapAt(place), 0), most) * 10) / 10;
      look();
    },
  });
  stage.add(
    make("p", { class: "hint wide" }, "Drag the ring along the curve, or move it with the arrow " +
      "keys; the slider sets how much is asked for."),
    slider("smoothing ε", {
      min: 0, max: 0.3, step: 0.01, value: smoothing, text: (share) => show(share),
    }, (share) => (smoothing = share, look(), ring.paint())),
    make("div", { class: "wide" }, plot.svg), table);
}
