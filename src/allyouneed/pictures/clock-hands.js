// Two positions as clocks: their hands, the angles between them, and the dot product.
// data: width D; position and step, with which it starts; positions and steps, how far they go.

/** omega of each hand: radians per position. */
function speeds(width) {
  return range(width / 2).map((i) => 10000 ** ((-2 * i) / width));
}

/** A row of the table of sinusoids, equation (9.3): a sine and a cosine for each hand. */
function encoding(position, width) {
  return speeds(width).flatMap((speed) => [speed * position, speed * position])
    .map((angle, i) => (i % 2 ? Math.cos(angle) : Math.sin(angle)));
}

/** A row times R_k, equations (9.6) and (9.7): each hand turned by its own angle. */
function turned(vector, step) {
  return speeds(vector.length).flatMap((speed, i) => {
    const [s, c] = vector.slice(2 * i, 2 * i + 2);
    const [sin, cos] = [Math.sin(speed * step), Math.cos(speed * step)];
    return [s * cos + c * sin, c * cos - s * sin];
  });
}

/** A wavelength: 6.28, 62.8, 628, 6,283. */
function long(x) {
  return x < 100 ? x.toPrecision(3) : thousands(Math.round(x));
}

const MIDDLE = 42;
const onClock = (sin, cos, radius) => [MIDDLE + radius * sin, MIDDLE - radius * cos];

/** One hand in two positions, on a clock: zero is at the top, and it goes round as clocks do. */
function clock(speed) {
  const svg = drawing(2 * MIDDLE, 2 * MIDDLE);
  const sector = make("svg:path", { class: "sector" });
  const [here, there] = [make("svg:line", { class: "here" }), make("svg:line", { class: "there" })];
  for (const line of [here, there]) set(line, { x1: MIDDLE, y1: MIDDLE });
  svg.append(make("svg:circle", { cx: MIDDLE, cy: MIDDLE, r: 39, class: "face" }),
    make("svg:line", { x1: MIDDLE, x2: MIDDLE, y1: 3, y2: 8, class: "face" }),
    sector, there, here, make("svg:circle", { cx: MIDDLE, cy: MIDDLE, r: 3.5, class: "axle" }));
  const cosine = make("p", { class: "cosine" });
  const wave = `λ ${long((2 * Math.PI) / speed)}`;
  const element = make("div", { class: "clock" }, make("p", { class: "label" }, wave), svg, cosine);
  const paint = (from, to, angle) => {
    const [x1, y1] = onClock(...from, 25);
    const [x3, y3] = onClock(...to, 25);
    const turn = angle % (2 * Math.PI); // whole turns are not to be seen
    const large = turn > Math.PI ? 1 : 0;
    sector.setAttribute("d", `M${MIDDLE} ${MIDDLE}L${x1} ${y1}A25 25 0 ${large} 1 ${x3} ${y3}Z`);
    for (const [line, [sin, cos]] of [[here, from], [there, to]]) {
      const [x2, y2] = onClock(sin, cos, 36);
      set(line, { x2, y2 });
    }
    cosine.textContent = show(Math.cos(angle));
  };
  return { element, paint };
}

/** The dot product of two positions against the step between them. */
function curve(steps, largest) {
  const left = 34;
  const across = (step) => left + (step * 288) / steps;
  const height = (product) => 26 + ((largest - product) * 150) / largest;
  const svg = drawing(330, 220);
  svg.append(
    ...levels(every(2, largest).map((x) => [height(x), `${x}`, x === 0]), left, 326),
    ...every(10, steps).map((step) => label(across(step), 196, `${step}`, "soft middle")));
  const line = make("svg:polyline", { class: "line" });
  const ring = make("svg:circle", { r: 6, class: "here-and-there" });
  const number = make("svg:text", { class: "strong" });
  svg.append(line, ring, number, label(left, 10, "dot product of positions p and p + k"),
    label(across(steps / 2), 216, "step k", "soft middle"));
  const paint = (products, step) => {
    line.setAttribute("points", products.map((x, k) => [across(k), height(x)]).join(" "));
    set(ring, { cx: across(step), cy: height(products[step]) });
    const right = step < 0.8 * steps; // the number stands beside the ring, inside the drawing
    const from = right ? step : Math.max(step - 8, 0);
    const beside = products.slice(from, from + 9); // what the number stands over
    set(number, { x: across(step) + (right ? 10 : -10), y: height(Math.max(...beside)) - 8 });
    number.setAttribute("text-anchor", right ? "start" : "end");
    number.textContent = show(products[step]);
  };
  return { svg, paint };
}

function draw(stage, { width, position, step, positions, steps }) {
  const now = { position, step };
  const hands = speeds(width);
  const clocks = hands.map(clock);
  const products = curve(steps, width / 2);
  const change = (part) => {
    Object.assign(now, part);
    const [p, k] = [now.position, now.step];
    const here = encoding(p, width);
    const there = turned(here, k);
    clocks.forEach((one, i) => one.paint(
      here.slice(2 * i, 2 * i + 2), there.slice(2 * i, 2 * i + 2), hands[i] * k));
    products.paint(
      range(steps + 1).map((far) => dot(here, encoding(p + far, width))), k);
    const product = dot(here, there);
    const [first, last] = [show(hands[0] * k), show(hands.at(-1) * k, 4)];
    stage.tell({ ...now, here, there, product },
      `A step of ${k} turns the quickest hand by ${first} radians and the slowest by ${last}, ` +
      `wherever it starts. The dot product of positions ${p} and ${p + k} is ${show(product)}.`);
  };
  const place = slider("position p", { min: 0, max: positions, value: position },
    (to) => change({ position: to }));
  const far = slider("step k", { min: 0, max: steps, value: step }, (to) => change({ step: to }));
  stage.add(make("div", { class: "controls" }, place.element, far.element),
    make("div", { class: "clocks" }, ...clocks.map((one) => one.element)), products.svg,
    hint("Move p, and watch the grey angles. Then move k. Above each " +
      "clock its wavelength, below it the cosine of its angle; their sum is the dot product."));
  change({});
}
