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

function draw(stage, { vocabulary, most }) {
  let [gap, smoothing] = [4, 0.1];
  const { width, height, left, right, top, bottom, tall } = FRAME;
  const x = (g) => left + (width - left - right) * g / most;
  const y = (nats) => height - bottom - (height - top - bottom) * Math.min(nats, tall) / tall;
  const gaps = [...Array(201).keys()].map((i) => i * most / 200);
  const curve = (share) => `M${gaps.map((g) =>
    `${x(g).toFixed(1)} ${y(loss(g, share, vocabulary)).toFixed(1)}`).join("L")}`;

  const svg = drawing(width, height);
  for (const nats of [0, 2, 4, 6]) {
    svg.append(make("svg:line", { x1: left, x2: x(most), y1: y(nats), y2: y(nats), class: "rule" }),
      make("svg:text", { x: left - 8, y: y(nats) + 4, "text-anchor": "end", class: "soft" },
        `${nats}`));
  }
  for (let g = 0; g <= most; g += 5) {
    const place = { x: x(g), y: height - bottom + 18, "text-anchor": "middle", class: "soft" };
    svg.append(make("svg:text", place, `${g}`));
  }
  const under = { x: x(most), y: height - 4, "text-anchor": "end" };
  const [plain, smooth] = ["plain", "smooth"].map((name) => make("svg:path", { class: name }));
  const best = make("svg:line", { class: "best", y2: height - bottom });
  const mark = make("svg:text", { class: "k-ink", "text-anchor": "middle" }, "lowest");
  const [none, some] = ["q-ink", "k-ink"].map((name) =>
    make("svg:text", { class: name, x: x(most), y: y(0) - 8, "text-anchor": "end" }, "ε = 0"));
  svg.append(make("svg:text", { x: left, y: top - 6 }, "loss in nats"),
    make("svg:text", under, "right logit minus the others"), plain, best, smooth, mark, none, some);
  plain.setAttribute("d", curve(0));

  const body = make("tbody");
  const titles = [["", ""], ["asked for, q", "k-ink"], ["given, p", "q-ink"]];
  const table = make("table", { class: "shares wide" }, make("thead", {}, make("tr", {},
    ...titles.map(([text, name]) => make("th", { scope: "col", class: name }, text)))), body);
  const share = (part, name) => make("td", {}, make("span", { class: "share" },
    make("span", { class: `bar ${name}`, style: `--w: ${part}` })), show(part, 4));

  const look = () => {
    const [q, p] = [target(smoothing, vocabulary), model(gap, vocabulary)];
    const [lowest, now] = [bestGap(smoothing, vocabulary), loss(gap, smoothing, vocabulary)];
    smooth.setAttribute("d", curve(smoothing));
    const inside = lowest <= most;
    [best, mark].forEach((part) => part.setAttribute("visibility", inside ? "visible" : "hidden"));
    if (inside) {
      const floor = y(loss(lowest, smoothing, vocabulary));
      for (const [key, value] of [["x1", x(lowest)], ["x2", x(lowest)], ["y1", floor]]) {
        best.setAttribute(key, value);
      }
      mark.setAttribute("x", x(lowest));
      mark.setAttribute("y", floor - 12);
    }
    const end = y(loss(most, smoothing, vocabulary));
    some.textContent = smoothing ? `ε = ${show(smoothing)}` : "";
    some.setAttribute("y", end - 10);
    none.setAttribute("visibility", !smoothing || y(0) - end > 34 ? "visible" : "hidden");
    const rows = [["the right token", "right"], [`each of ${vocabulary - 2} others`, "other"]];
    body.replaceChildren(...rows.map(([name, key]) => make("tr", {},
      make("th", { scope: "row" }, name), share(q[key], "k"), share(p[key], "q"))));
    const pull = q.right - p.right; // minus the gradient of the loss, for the right logit
    const means = Math.abs(pull) < 0.003 ? "as sure as it is asked to be: the loss rests here" :
      pull > 0 ? "less sure than it is asked to be: the loss pushes the right logit up" :
        "surer than it is asked to be: the loss pushes the right logit down";
    stage.tell({ smoothing, gap, loss: now, q, p, lowest: inside ? lowest : null },
      `Smoothing ${show(smoothing)}, gap ${show(gap, 1)}: a loss of ${show(now)} nats. ` +
      `The model is ${means}.`);
  };
  const knob = () => handle(svg, {
    label: "right logit minus the others", className: "k", step: (width - left - right) / most / 10,
    at: () => [x(gap), y(loss(gap, smoothing, vocabulary))], value: () => show(gap, 1),
    move: (place) => {
      const moved = (place - left) / (width - left - right) * most;
      gap = Math.round(Math.min(Math.max(moved, 0), most) * 10) / 10;
      look();
    },
  });
  const amount = slider("smoothing ε", {
    min: 0, max: 0.3, step: 0.01, value: smoothing, text: (eps) => show(eps),
  }, (eps) => (smoothing = eps, look(), ring.paint()));
  stage.add(make("p", { class: "hint wide" }, "Drag the ring along the curve, or move it with the " +
    "arrow keys; the slider sets how much is asked for."),
  amount, make("div", { class: "wide" }, svg), table);
  look();
  const ring = knob();
}
