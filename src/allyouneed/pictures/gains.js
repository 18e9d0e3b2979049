// What a change of one part gains: the reader's guess beside what three seeds have measured.
// data: changes [{name, before, after, gains}], in nats; spread, how far the gains of one lie apart;
// lowest and highest, where the axis ends.

const AXIS = { width: 620, height: 112, left: 20, right: 20, y: 52 };

/** "gains", "loses" or "luck": whether all seeds lie beyond the spread on one side. */
function verdict(gains, spread) {
  if (gains.every((gain) => gain > spread)) return "gains";
  return gains.every((gain) => gain < -spread) ? "loses" : "luck";
}

/** A gain with its sign. */
function signed(x, digits = 3) {
  return (x > 0 ? "+" : "") + show(x, digits);
}

function draw(stage, { changes, spread, lowest, highest }) {
  let [chosen, guess, shown] = [0, 0.1, false];
  const { width, height, left, right, y } = AXIS;
  const x = (gain) => left + (width - left - right) * (gain - lowest) / (highest - lowest);
  const svg = drawing(width, height, { class: "broad" });
  const marks = every(0.1, highest - lowest + 1e-9).map((step) => lowest + step);
  const points = make("svg:g", {});
  const ring = make("svg:circle", { r: 9, cy: y, class: "knob guess" });
  svg.append(
    make("svg:rect", { x: x(-spread), width: x(spread) - x(-spread), y: y - 26, height: 52,
      class: "band" }),
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
    const found = verdict(gains, spread);
    const words = {
      gains: "more than luck in every seed", loses: "a loss in every seed",
      luck: `not to be told from luck, which is ${show(spread, 3)}`,
    };
    stage.tell({ name, guess, shown, gains, verdict: found }, shown
      ? `${name}: you expect ${signed(guess, 2)} nats a letter; three seeds have ` +
        `${gains.map((gain) => signed(gain)).join(", ")}: ${words[found]}.`
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
