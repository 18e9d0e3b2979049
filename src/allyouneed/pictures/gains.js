// What a change of one part gains: the reader's guess beside what three seeds have measured.
// data: changes [{name, before, after, gains}], in nats; lowest and highest, where the axis ends.

const AXIS = { width: 620, height: 112, left: 20, right: 20, y: 52 };

/** How far the gains of one change lie apart. */
function apart(gains) {
  return Math.max(...gains) - Math.min(...gains);
}

/** "gains", "loses" or "luck": whether each seed's gain is larger than they lie apart. */
function verdict(gains) {
  if (gains.every((gain) => gain > apart(gains))) return "gains";
  return gains.every((gain) => gain < -apart(gains)) ? "loses" : "luck";
}

/** A gain with its sign. */
function signed(x, digits = 3) {
  return (x > 0 ? "+" : "") + show(x, digits);
}

function draw(stage, { changes, lowest, highest }) {
  let [chosen, guess, shown] = [0, 0.1, false];
  const { width, height, left, right, y } = AXIS;
  const x = (gain) => left + (width - left - right) * (gain - lowest) / (highest - lowest);
  const svg = drawing(width, height, { class: "broad" });
  const marks = every(0.1, highest - lowest + 1e-9).map((step) => lowest + step);
  const points = make("svg:g", {});
  const ring = make("svg:circle", { r: 9, cy: y, class: "knob guess" });
  svg.append(
    make("svg:line", { x1: left, x2: width - right, y1: y, y2: y, class: "axis" }),
    ...marks.map((mark) => label(x(mark), y + 48, signed(mark, 1), "soft middle")),
    points, ring);
  const lines = make("div", { class: "lines" });

  const look = () => {
    const { name, before, after, gains } = changes[chosen];
    lines.replaceChildren(
      make("p", {}, make("span", { class: "label" }, "2017: "), make("code", {}, before)),
      make("p", {}, make("span", { class: "label" }, "today: "), make("code", {}, after)));
    set(ring, { cx: x(guess) });
    points.replaceChildren(...(shown ? gains : []).map((gain) =>
      make("svg:circle", { cx: x(gain), cy: y, r: 6, class: "seed" })));
    const found = verdict(gains);
    const words = {
      gains: "each a gain larger than that", loses: "each a loss larger than that",
      luck: "three seeds do not decide",
    };
    stage.tell({ name, guess, shown, gains, verdict: found }, shown
      ? `${name}: you expect ${signed(guess, 2)} nats a letter; three seeds have ` +
        `${gains.map((gain) => signed(gain)).join(", ")}, ${show(apart(gains), 3)} apart: ` +
        `${words[found]}.`
      : `${name}: what does it gain? You expect ${signed(guess, 2)} nats a letter.`);
  };
  stage.add(
    make("div", { class: "controls" }, choice("change", changes.map((one) => one.name), 0,
      (i) => ([chosen, shown] = [i, false], look())).element),
    make("div", { class: "wide" }, lines),
    slider("your guess", { min: lowest, max: highest, step: 0.01, value: guess,
      text: (value) => signed(value, 2) }, (value) => ([guess, shown] = [value, false], look())),
    button("what was measured", () => (shown = true, look())),
    make("div", { class: "wide" }, svg));
  look();
}
