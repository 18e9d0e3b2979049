// The learning rate: equation (3) for a width and a warm-up to choose, and the rate of one step.
// data: widths to choose from; warmups {min, max, step}; steps, how far the axis goes; highest rate.

/** The two entries of the minimum in equation (3), each times d_model^-0.5. */
function entries(step, dModel, warmup) {
  const scale = dModel ** -0.5;
  return { falling: scale * step ** -0.5, rising: scale * step * warmup ** -1.5 };
}

function learningRate(step, dModel, warmup) {
  const { falling, rising } = entries(step, dModel, warmup);
  return Math.min(falling, rising);
}

/** 0.000699 as 6.99 × 10⁻⁴, with spaces at which no line breaks. */
function power(rate) {
  const [factor, exponent] = rate.toExponential(2).split("e-");
  return `${factor}\u00a0×\u00a010⁻${[...exponent].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[digit]).join("")}`;
}

const FIELD = { width: 620, height: 300, left: 30, right: 14, top: 34, bottom: 46 };
const thousands = (n) => n.toLocaleString("en");

function draw(stage, { widths, warmups, steps, highest }) {
  let [dModel, warmup, step] = [512, 4000, 2000];
  const { width, height, left, right, top, bottom } = FIELD;
  const x = (n) => left + (width - left - right) * n / steps;
  const y = (rate) => height - bottom - (height - top - bottom) * rate / highest;
  const marks = [...Array(201).keys()].map((i) => Math.max(1, i * steps / 200));
  const line = (points) => `M${points
    .filter(([, rate]) => rate <= highest)
    .map(([n, rate]) => `${x(n).toFixed(1)} ${y(rate).toFixed(1)}`).join("L")}`;

  const svg = drawing(width, height);
  for (let i = 0; i <= 4; i++) {
    const rate = i * highest / 4;
    svg.append(make("svg:line", { x1: left, x2: x(steps), y1: y(rate), y2: y(rate), class: "rule" }),
      make("svg:text", { x: left - 8, y: y(rate) + 4, "text-anchor": "end", class: "soft" },
        `${Number((1e4 * rate).toFixed(1))}`));
  }
  for (let n = 0; n <= steps; n += 5000) {
    const anchor = n < steps ? "middle" : "end";
    const place = { x: x(n), y: height - bottom + 20, "text-anchor": anchor, class: "soft" };
    svg.append(make("svg:text", place, thousands(n)));
  }
  const names = ["rising", "falling", "rate"];
  const [rising, falling, curve] = names.map((name) => make("svg:path", { class: name }));
  svg.append(make("svg:text", { x: 0, y: 16 }, "rate, in units of 10⁻⁴"),
    make("svg:text", { x: x(steps), y: height - 4, "text-anchor": "end" }, "step"),
    rising, falling, curve);

  const look = () => {
    const all = marks.map((n) => [n, entries(n, dModel, warmup)]);
    rising.setAttribute("d", line(all.map(([n, both]) => [n, both.rising])));
    falling.setAttribute("d", line(all.map(([n, both]) => [n, both.falling])));
    curve.setAttribute("d", line([...marks, warmup].sort((a, b) => a - b)
      .map((n) => [n, learningRate(n, dModel, warmup)])));
    const [rate, peak] = [step, warmup].map((n) => learningRate(n, dModel, warmup));
    const part = step < warmup ? "it still rises, by the same amount each step" :
      step > warmup ? "it falls, whatever the warm-up was" : "this is the peak";
    stage.tell({ dModel, warmup, step, rate, peak },
      `At step ${thousands(step)} the rate is ${power(rate)}: ${part}. ` +
      `The peak: ${power(peak)}, at step ${thousands(warmup)}.`);
    ring?.paint();
  };
  let ring = null;
  stage.add(
    choice("d_model", widths.map(String), widths.indexOf(dModel),
      (i) => (dModel = widths[i], look())),
    slider("warm-up steps", { ...warmups, value: warmup, text: thousands },
      (n) => (warmup = n, look())),
    make("p", { class: "hint wide" }, "Drag the ring along the curve, or move it with the arrow " +
      "keys. The dashed lines are the two entries of the minimum."),
    make("div", { class: "wide" }, svg));
  look();
  ring = handle(svg, {
    label: "step", className: "q", step: x(100) - x(0), value: () => `step ${thousands(step)}`,
    at: () => [x(step), y(learningRate(step, dModel, warmup))],
    move: (place) => {
      const moved = 100 * Math.round((place - left) / (x(100) - left));
      step = Math.min(Math.max(moved, 1), steps);
      look();
    },
  });
}
