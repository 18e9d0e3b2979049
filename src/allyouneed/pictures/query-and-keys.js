// A query and keys as arrows to drag: the scores, the shares, and the value that comes out.
// data: words [S], query [2], keys [S][2], values [S][2]; keyAxes and valueAxes, the names of the
// two entries of a key and of a value, those of the left plane and of the right.

/** Equation (5.2): scores [S], weights [S], and the weighted sum of the values. */
function lookUp(query, keys, values) {
  const scores = keys.map((key) => dot(query, key));
  const weights = softmax(scores);
  const output = values[0].map((_, i) => dot(weights, values.map((value) => value[i])));
  return { scores, weights, output };
}

/** Where the shadow of a key ends on the line of the query; at the origin if the query is zero. */
function shadow(query, key) {
  const square = dot(query, query);
  return square ? query.map((x) => (x * dot(query, key)) / square) : [0, 0];
}

/** The sums of the first one, two, ... of the values, each times its weight. */
function endToEnd(weights, values) {
  let at = [0, 0];
  return values.map((value, s) => (at = at.map((x, i) => x + weights[s] * value[i])));
}

const SIZE = 300;

/** A plane from `low` to `high` in both directions: place() goes into it, back() out of it. */
function plane([low, high], [right, up]) {
  const unit = SIZE / (high - low);
  const place = ([x, y]) => [(x - low) * unit, (high - y) * unit];
  const back = (x, y) => [x / unit + low, high - y / unit];
  const svg = drawing(SIZE, SIZE);
  for (let n = Math.ceil(low); n <= high; n++) {
    const [x, y] = place([n, n]);
    const kind = n === 0 ? "axis" : "mesh";
    svg.append(make("svg:line", { x1: x, x2: x, y1: 0, y2: SIZE, class: kind }),
      make("svg:line", { x1: 0, x2: SIZE, y1: y, y2: y, class: kind }));
  }
  svg.append(
    label(SIZE - 2, SIZE - 6, `${right} →`, "soft end"), label(2, 12, `↑ ${up}`, "soft"));
  return { svg, unit, place, back };
}

const move = (text, [x, y], right = 0, down = 0) => set(text, { x: x + right, y: y + down });
const moveTo = (circle, [cx, cy]) => set(circle, { cx, cy });
const between = (line, [x1, y1], [x2, y2]) => set(line, { x1, y1, x2, y2 });

const plus = ([x, y], [a, b]) => [x + a, y + b];
const pair = (vector, digits = 1) => `(${vector.map((x) => show(x, digits)).join(",\u00a0")})`;

/** The query, the keys and their shadows; `changed` is called when one of them has been moved. */
function asking(words, now, axes, changed) {
  const { svg, unit, place, back } = plane([-3.1, 3.1], axes);
  set(svg, { role: "group", "aria-label": "the query and the keys" });
  const origin = place([0, 0]);
  const line = make("svg:line", { class: "direction" });
  const shadows = words.map(() => make("svg:line", { class: "shadow" }));
  const feet = words.map(() => make("svg:circle", { r: 3, class: "foot" }));
  const query = arrow("q");
  const keys = words.map(() => arrow("k"));
  const names = words.map((word) => label(0, 0, word, "k-ink middle"));
  const stem = make("svg:line", { class: "stem" });
  svg.append(line, ...shadows, query.element, stem, ...keys.map((key) => key.element), ...feet,
    ...names);

  const held = (label, className, get, put, below = 0, parts = null) => {
    const inside = (a) => clamp(Math.round(10 * a) / 10, -2.5, 2.5);
    return handle(svg, {
      label, className, parts, step: unit / 10,
      at: () => plus(place(get()), [0, below]),
      move: (x, y) => (put(back(x, y - below).map(inside)), changed()),
      value: () => pair(get()),
    });
  };
  // The query hangs from its arrow by its name, so that a key under its head can be held, too.
  const tag = [make("svg:rect", { x: -25, y: -10, width: 50, height: 20, rx: 10, class: "knob" }),
    label(0, 4.5, "query", "q-ink middle")];
  const handles = [held("query", "q", () => now.query, (to) => (now.query = to), 21, tag),
    ...words.map((word, s) =>
      held(`key of ${word}`, "k", () => now.keys[s], (to) => (now.keys[s] = to)))];

  const paint = () => {
    query.set(origin, place(now.query));
    between(stem, place(now.query), plus(place(now.query), [0, 11]));
    const length = Math.hypot(...now.query) || 1;
    between(line, ...[-9, 9].map((far) => place(now.query.map((x) => (far * x) / length))));
    now.keys.forEach((key, s) => {
      keys[s].set(origin, place(key));
      move(names[s], place(key), 0, -15);
      const foot = place(shadow(now.query, key));
      between(shadows[s], place(key), foot);
      moveTo(feet[s], foot);
    });
    handles.forEach((one) => one.paint());
  };
  return { svg, paint };
}

/** From the middle of all values to a point: the direction [right, down] in the drawing. */
function outward([x, y], values) {
  const middle = (i) => values.reduce((sum, value) => sum + value[i], 0) / values.length;
  const [right, up] = [x - middle(0), y - middle(1)];
  const length = Math.hypot(right, up) || 1;
  return [right / length, -up / length];
}

/** The values, the area between them, and the weighted sum: each one's share, end to end. Names
    of values stand outside the area, that of the sum inside: so they do not meet. */
function answering(words, values, axes) {
  const { svg, place } = plane([-0.4, 2.4], axes);
  const origin = place([0, 0]);
  values.forEach((_, c) => values.forEach((_, b) => values.forEach((_, a) => {
    if (a >= b || b >= c) return; // all triangles of three values: together the area between them
    const corners = [a, b, c].map((s) => place(values[s]).join()).join(" ");
    svg.append(make("svg:polygon", { points: corners, class: "between" }));
  })));
  const way = make("svg:polyline", { class: "end-to-end" });
  const joints = words.map((_, s) =>
    make("svg:circle", { r: s < words.length - 1 ? 2.5 : 6, class: "joint" }));
  const output = arrow("v output");
  words.forEach((word, s) => {
    const whole = arrow("v whole");
    whole.set(origin, place(values[s]));
    const name = label(0, 0, word, "v-ink middle");
    const [right, down] = outward(values[s], values);
    move(name, place(values[s]), 21 * right, 15 * down + 4);
    svg.append(whole.element, name);
  });
  const outputName = label(0, 0, "output", "v-ink strong middle");
  svg.append(output.element, way, ...joints, outputName);
  const paint = (weights, sum) => {
    const ends = endToEnd(weights, values).map(place);
    way.setAttribute("points", [origin, ...ends].join(" "));
    ends.forEach((end, s) => moveTo(joints[s], end));
    output.set(origin, place(sum));
    const [right, down] = outward(sum, values);
    move(outputName, place(sum), -38 * right, -20 * down + 4);
  };
  return { svg, paint };
}

function draw(stage, { words, query, keys, values, keyAxes, valueAxes }) {
  const start = () => ({ query: [...query], keys: keys.map((key) => [...key]) });
  const now = start();
  const changed = () => {
    const { scores, weights, output } = lookUp(now.query, now.keys, values);
    answer.paint(weights, output);
    shares.set(words.map((word, s) =>
      line(word, [show(scores[s]), bar(weights[s]), show(weights[s])])));
    const [top, most] = [Math.max(...scores), show(Math.max(...weights))];
    const best = words.filter((_, s) => top - scores[s] < 1e-9).map((word) => `“${word}”`);
    const fits = best.length === words.length
      ? `fits all keys alike: ${most} to each`
      : `fits ${best.join(" and ")} best: score ${show(top)}, weight ${most}`;
    const named = output.map((x, i) => `${valueAxes[i]}\u00a0${show(x)}`).join(", ");
    stage.tell({ ...now, scores, weights, output },
      `The query ${pair(now.query)} ${fits}. Out comes ${named}.`);
    ask.paint();
  };
  const ask = asking(words, now, keyAxes, () => changed());
  const answer = answering(words, values, valueAxes);
  const shares = table("compared", [["key", "k-ink"], ["q · k", "number"], ["weight", "q-ink", 2]]);
  const back = button("back to the start", () => (Object.assign(now, start()), changed()));
  const tip = make("p", { class: "hint" },
    "Drag the heads of the keys, and the query by its name, or move them with the arrow keys "
    + "(Shift for long steps).");
  stage.add(ask.svg, answer.svg, shares, make("div", { class: "beside" }, tip, back.element));
  changed();
}
