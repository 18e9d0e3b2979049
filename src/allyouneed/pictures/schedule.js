// The learning rate: equation (3) for a width and a warm-up to choose, and the rate of one step.
// data: widths to choose from; warmups {min, max, step}; steps and highest, where the axes end.

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

/** The rate against the step; dashed, both entries of the minimum. */
function chart(steps, highest) {
  const { width, height, left, right, top, bottom } = FIELD;
  const x = (step) => left + (width - left - right) * step / steps;
  const y = (rate) => height - bottom - (height - top - bottom) * rate / highest;
  const stepAt = (place) => (place - left) / (width - left - right) * steps;
  const svg = drawing(width, height);
  const text = (x, y, anchor, name, words) => svg.append(
    make("svg:text", { x, y, "text-anchor": anchor, class: name }, words));

  for (let i = 0; i <= 4; i++) {
    const rate = i * highest / 4;
    const level = { y1: y(rate), y2: y(rate) };
    svg.append(make("svg:line", { x1: left, x2: x(steps), ...level, class: "rule" }));
    text(left - 8, y(rate) + 4, "end", "soft", `${Number((1e4 * rate).toFixed(1))}`);
  }
  for (let step = 0; step <= steps; step += 5000) {
    const anchor = step < steps ? "middle" : "end";
    text(x(step), height - bottom + 20, anchor, "soft", thousands(step));
  }
  text(0, 16, "start", "", "rate, in units of 10⁻⁴");
  text(x(steps), height - 4, "end", "", "step");
  const [rising, falling, curve] = ["rising", "falling", "rate"].map((name) =>
    svg.appendChild(make("svg:path", { class: name })));

  const line = (points) => `M${points.filter(([, rate]) => rate <= highest)
    .map(([step, rate]) => `${x(step).toFixed(1)} ${y(rate).toFixed(1)}`).join("L")}`;
  const set = (dModel, warmup) => {
    const marks = [...Array(201).keys()].map((i) => Math.max(1, i * steps / 200));
    marks.push(warmup); // so that the peak is a corner
    marks.sort((a, b) => a - b);
    const both = marks.map((step) => [step, entries(step, dModel, warmup)]);
    rising.setAttribute("d", line(both.map(([step, entry]) => [step, entry.rising])));
    falling.setAttribute("d", line(both.map(([step, entry]) => [step, entry.falling])));
    curve.setAttribute("d", line(marks.map((step) => [step, learningRate(step, dModel, warmup)])));
  };
  return { svg, x, y, stepAt, set };
}

function draw(stage, { widths, warmups, steps, highest }) {
  let [dModel, warmup, step] = [512, 4000, 2000];
  const plot = chart(steps, highest);
  let ring = null;

  const look = () => {
    plot.set(dModel, warmup);
    ring?.paint();
    const [rate, peak] = [step, warmup].map((n) => learningRate(n, dModel, warmup));
    const part = step < warmup ? "it still rises, by the same amount each step" :
      step > warmup ? "it falls, whatever the warm-up was" : "this is the peak";
    const top = step === warmup ? "" : ` The peak: ${power(peak)}, at step ${thousands(warmup)}.`;
    stage.tell({ dModel, warmup, step, rate, peak },
      `At step ${thousands(step)} the rate is ${power(rate)}: ${part}.${top}`);
  };
  look();
  ring = handle(plot.svg, {
    label: "step", className: "q", step: plot.x(100) - plot.x(0),
    at: () => [plot.x(step), plot.y(learningRate(step, dModel, warmup))],
    value: () => `step ${thousands(step)}`,
    move: (place) => {
      step = Math.min(Math.max(100 * Math.round(plot.stepAt(place) / 100), 1), steps);
      look();
    },
  });
  stage.add(
    choice("d_model", widths.map(String), widths.indexOf(dModel),
      (i) => (dModel = widths[i], look())),
    slider("warm-up steps", { ...warmups, value: warmup, text: thousands },
      (n) => (warmup = n, look())),
    make("p", { class: "hint wide" }, "Drag the ring along the curve, or move it with the arrow " +
      "keys. The dashed lines are the two entries of the minimum."),
    make("div", { class: "wide" }, plot.svg));
}
