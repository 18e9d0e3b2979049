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

const FIELD = { width: 620, height: 316, left: 44, right: 16, top: 34, bottom: 62 };

/** The rate against the step; dashed, both entries of the minimum. The numbers stand so far from
    the axes that the ring, which is 15 high on a phone, covers none. */
function chart(steps, highest) {
  const { width, height, left, right, top, bottom } = FIELD;
  const x = (step) => left + (width - left - right) * step / steps;
  const y = (rate) => height - bottom - (height - top - bottom) * rate / highest;
  const stepAt = (place) => (place - left) / (width - left - right) * steps;
  const svg = drawing(width, height, { class: "broad" });
  const rates = range(5).map((i) => i * highest / 4);
  const marks = rates.map((rate) => [y(rate), `${Number((1e4 * rate).toFixed(1))}`]);
  svg.append(...levels(marks, left, x(steps), 18), label(0, 16, "rate, in units of 10⁻⁴"),
    ...every(5000, steps).map((step) => label(x(step), height - bottom + 31, thousands(step),
      step < steps ? "soft middle" : "soft end")),
    label(x(steps), height - 4, "step", "end"));
  const [rising, falling, curve] = ["rising", "falling", "rate"].map((name) =>
    svg.appendChild(make("svg:path", { class: name })));

  const path = (points) => `M${points.filter(([, rate]) => rate <= highest)
    .map(([step, rate]) => `${x(step).toFixed(1)} ${y(rate).toFixed(1)}`).join("L")}`;
  const paint = (dModel, warmup) => {
    const places = range(201).map((i) => Math.max(1, i * steps / 200));
    places.push(warmup); // so that the peak is a corner
    places.sort((a, b) => a - b);
    const both = places.map((step) => [step, entries(step, dModel, warmup)]);
    rising.setAttribute("d", path(both.map(([step, entry]) => [step, entry.rising])));
    falling.setAttribute("d", path(both.map(([step, entry]) => [step, entry.falling])));
    curve.setAttribute("d", path(places.map((step) => [step, learningRate(step, dModel, warmup)])));
  };
  return { svg, x, y, stepAt, paint };
}

function draw(stage, { widths, warmups, steps, highest }) {
  let [dModel, warmup, step] = [512, 4000, 2000];
  const plot = chart(steps, highest);
  let ring = null;

  const look = () => {
    plot.paint(dModel, warmup);
    ring?.paint();
    const [rate, peak] = [step, warmup].map((n) => learningRate(n, dModel, warmup));
    const part = step < warmup ? "it still rises, by the same amount each step" :
      step > warmup ? "it falls, whatever the warm-up was" : "this is the peak";
    const top = step === warmup ? "" :
      ` The peak: ${power(peak, 2)}, at step ${thousands(warmup)}.`;
    stage.tell({ dModel, warmup, step, rate, peak },
      `At step ${thousands(step)} the rate is ${power(rate, 2)}: ${part}.${top}`);
  };
  look();
  ring = handle(plot.svg, {
    label: "step", className: "q", step: plot.x(100) - plot.x(0),
    at: () => [plot.x(step), plot.y(learningRate(step, dModel, warmup))],
    value: () => `step ${thousands(step)}`,
    move: (place) => {
      step = clamp(100 * Math.round(plot.stepAt(place) / 100), 1, steps);
      look();
    },
  });
  stage.add(
    choice("d_model", widths.map(String), widths.indexOf(dModel),
      (i) => (dModel = widths[i], look())),
    slider("warm-up steps", { ...warmups, value: warmup, text: thousands },
      (n) => (warmup = n, look())),
    hint("Drag the ring along the curve, or move it with the arrow keys. The dashed lines are " +
      "the two entries of the minimum."),
    make("div", { class: "wide" }, plot.svg));
}
