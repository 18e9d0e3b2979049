// What all interactive pictures share: making elements, numbers as text, controls, and the stage.
// A picture is this file and one other, which has a function draw(stage, data). `begin` runs it.
// Its numbers come from the notebook. Where a picture must compute, it does so with `dot` and
// `softmax` below or in its own file, and a test compares the result with the package.

/** make("p", {class: "hint"}, "text", child): an element. Names like "svg:line" are SVG. */
function make(name, attributes = {}, ...children) {
  const [tag, kind] = name.split(":").reverse();
  const element = kind === "svg"
    ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== false && value != null) element.setAttribute(key, value);
  }
  element.append(...children.filter((child) => child != null));
  return element;
}

/** Give an element other attributes. */
function set(element, attributes) {
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

/** An SVG drawing that fits its place. What it shows must also be said in words: it is hidden
    from screen readers unless `attributes` say otherwise. */
function drawing(width, height, attributes = {}) {
  const viewBox = `0 0 ${width} ${height}`;
  return make("svg:svg", { viewBox, "aria-hidden": "true", focusable: "false", ...attributes });
}

/** A text in a drawing. `className` may hold "middle" or "end": what of it stands at x. */
function label(x, y, words, className = "") {
  return make("svg:text", { x, y, class: className }, words);
}

/** Level lines across a drawing, each with its name before it; marks are [y, name, is the axis]. */
function levels(marks, left, right, gap = 7) {
  return marks.flatMap(([y, name, axis = false]) => [
    make("svg:line", { x1: left, x2: right, y1: y, y2: y, class: axis ? "axis" : "mesh" }),
    label(left - gap, y + 4, name, "soft end"),
  ]);
}

/** A number as the book prints it. */
function show(x, digits = 2) {
  const text = Number(x).toFixed(digits);
  return (Number(text) === 0 ? text.replace("-", "") : text).replace("-", "−");
}

/** 6283 as 6,283. */
function thousands(n) {
  return n.toLocaleString("en");
}

/** 0.000699 as 7.0 × 10⁻⁴, in one piece: no line breaks at its spaces. */
function power(x, digits = 1) {
  const [factor, exponent] = x.toExponential(digits).split("e");
  const raised = { "-": "⁻", "+": "", ..."⁰¹²³⁴⁵⁶⁷⁸⁹" };
  return `${factor}\u00a0×\u00a010${[...exponent].map((sign) => raised[sign]).join("")}`;
}

/** Tokens as text: "▁" begins a word. */
function written(tokens) {
  return tokens.join("").replaceAll("▁", " ").replace("<eos>", "").trim();
}

/** The numbers 0 to n - 1. */
function range(n) {
  return [...Array(n).keys()];
}

/** 0, step, 2 step and so on, as far as `last`. */
function every(step, last) {
  return range(Math.floor(last / step) + 1).map((i) => i * step);
}

/** x, or the nearer end of low to high if it lies outside. */
function clamp(x, low, high) {
  return Math.min(Math.max(x, low), high);
}

/** The entries of a vector as squares: as large as the number, open if it is below zero. */
function squares(vector, largest, side = 22) {
  const svg = drawing(side * vector.length, side, { width: side * vector.length });
  vector.forEach((x, i) => {
    const size = (side - 2) * Math.sqrt(Math.min(Math.abs(x) / largest, 1));
    const place = { x: side * (i + 0.5) - size / 2, y: (side - size) / 2 };
    const shape = { ...place, width: size, height: size, class: x < 0 ? "minus" : "plus" };
    svg.append(make("svg:rect", shape));
  });
  return svg;
}

/** A weight from 0 to 1 as a bar. */
function bar(weight, className = "") {
  return make("span", { class: `bar ${className}`, style: `--w: ${weight}` });
}

/** A row of a table: its name, then cells, numbers as text or elements such as bars. */
function line(name, cells, attributes = {}) {
  return make("tr", attributes, make("th", { scope: "row" }, name), ...cells.map((cell) =>
    make("td", { class: typeof cell === "string" ? "number" : null }, cell)));
}

/** A table; `titles`, if it has any, are [text, class, columns]; set(lines) fills it. */
function table(className = "", titles = []) {
  const body = make("tbody");
  const head = titles.map(([text, name, colspan]) =>
    make("th", { scope: "col", class: name, colspan }, text));
  const element = make("table", { class: `shares ${className}` },
    head.length ? make("thead", {}, make("tr", {}, ...head)) : null, body);
  return { element, set: (lines) => body.replaceChildren(...lines) };
}

/** What can be tried, in words, over the whole width. */
function hint(...words) {
  return make("p", { class: "hint wide" }, ...words);
}

/** A part of a picture, with a title. */
function panel(title, ...parts) {
  return make("div", { class: "panel" }, make("p", { class: "title" }, title), ...parts);
}

function dot(a, b) {
  return a.reduce((sum, x, i) => sum + x * b[i], 0);
}

/** exp(score) / sum of all; the largest score is taken off first, so that nothing overflows. */
function softmax(scores) {
  const top = Math.max(...scores);
  if (top === -Infinity) return scores.map(() => 0); // nothing may be looked at
  const powers = scores.map((score) => Math.exp(score - top));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return powers.map((power) => power / total);
}

/** Where an arrow key leads in a table of rows x columns; null for any other key. */
function arrowKey(event, row, column, rows, columns) {
  const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  const ends = { Home: [row, 0], End: [row, columns - 1] };
  if (!(event.key in step) && !(event.key in ends)) return null;
  event.preventDefault();
  if (event.key in ends) return ends[event.key];
  const [down, right] = step[event.key];
  return [clamp(row + down, 0, rows - 1), clamp(column + right, 0, columns - 1)];
}

/** A row of names of which one is chosen: by click, by arrow keys, and by hovering if `hover`. */
function choice(label, names, chosen, change, { hover = false } = {}) {
  const choose = (i, focus = false) => {
    buttons.forEach((button, j) => {
      button.setAttribute("aria-checked", j === i);
      button.tabIndex = j === i ? 0 : -1;
    });
    if (focus) buttons[i].focus();
    change(i);
  };
  const buttons = names.map((name, i) =>
    make("button", {
      type: "button", role: "radio",
      onclick: () => choose(i),
      onpointerenter: (event) => hover && event.pointerType === "mouse" && choose(i),
      onkeydown: (event) => {
        const all = names.length;
        const column = "ArrowUp ArrowDown".includes(event.key); // up and down are left and right
        const place = column ? arrowKey(event, i, 0, all, 1) : arrowKey(event, 0, i, 1, all);
        if (place) choose(column ? place[0] : place[1], true);
      },
    }, name));
  const element = make("div", { class: "choice", role: "radiogroup", "aria-label": label },
    make("span", { class: "label", "aria-hidden": "true" }, label), ...buttons);
  buttons.forEach((button, j) => {
    button.setAttribute("aria-checked", j === chosen);
    button.tabIndex = j === chosen ? 0 : -1;
  });
  return { element, choose, buttons };
}

/** A slider; `text` turns its value into what is shown beside it. */
function slider(label, { min, max, step = 1, value, text = String }, change) {
  const output = make("output", {}, text(value));
  const input = make("input", {
    type: "range", min, max, step, value, "aria-label": label, "aria-valuetext": text(value),
    oninput: () => {
      output.textContent = text(Number(input.value));
      input.setAttribute("aria-valuetext", output.textContent);
      change(Number(input.value));
    },
  });
  const element = make("label", { class: "slider" }, make("span", {}, label), input, output);
  const set = (x) => {
    input.value = x;
    input.dispatchEvent(new Event("input"));
  };
  return { element, input, set };
}

/** A button that does something, or, given `pressed`, one that is on or off. */
function button(label, press, pressed = null) {
  const element = make("button", {
    type: "button", "aria-pressed": pressed,
    onclick: () => {
      if (pressed !== null) element.setAttribute("aria-pressed", (pressed = !pressed));
      press(pressed);
    },
  }, label);
  return { element };
}

/** The way through steps 0 to `last`, forth and back by buttons or by a slider. */
function walk(last, change, text = String) {
  const by = (n) => () => bar.set(Number(bar.input.value) + n);
  const [back, next] = [button("back", by(-1)), button("next", by(1))];
  const ends = () => {
    back.element.disabled = Number(bar.input.value) === 0;
    next.element.disabled = bar.input.value === bar.input.max;
  };
  const bar = slider("step", { min: 0, max: last, value: 0, text }, (step) => {
    ends();
    change(step);
  });
  /** Another way, `last` steps long, from the same step or from its end. */
  const renew = (last) => {
    bar.input.max = last;
    bar.set(Number(bar.input.value));
  };
  ends();
  return { elements: [back.element, next.element, bar.element], set: bar.set, renew };
}

/** A table of cells, rows for queries and columns for keys, with one cell in the tab order.

    cell(row, column) gives {weight, text, name}: the fill from 0 to 1, what stands in it, and what
    it is called. `enter` is called for the cell under the mouse or the focus, `press` for a click,
    Space or Enter. `paint()` asks for all cells again. */
function grid(label, rows, columns, { cell, enter = () => {}, press = null, head = "" }) {
  const cells = rows.map((row, r) => columns.map((column, c) =>
    make("td", {
      role: "gridcell", tabindex: r || c ? -1 : 0,
      onfocus: () => enter(r, c),
      onpointerenter: (event) => event.pointerType === "mouse" && enter(r, c),
      onclick: () => (focusOn(r, c), press?.(r, c), paint()),
      onkeydown: (event) => {
        if (press && (event.key === " " || event.key === "Enter")) {
          event.preventDefault();
          press(r, c);
          paint();
        }
        const place = arrowKey(event, r, c, rows.length, columns.length);
        if (place) focusOn(...place);
      },
    })));
  const focusOn = (r, c) => {
    cells.flat().forEach((one) => (one.tabIndex = -1));
    cells[r][c].tabIndex = 0;
    cells[r][c].focus();
  };
  const paint = () => cells.forEach((line, r) => line.forEach((element, c) => {
    const { weight = 0, text = "", name, mark = "" } = cell(r, c);
    element.style.setProperty("--w", weight.toFixed(3));
    element.textContent = text;
    element.className = mark;
    element.setAttribute("aria-label", name ?? `${rows[r]}, ${columns[c]}: ${show(weight)}`);
  }));
  const top = make("tr", { role: "row" }, make("td", { role: "presentation" }, head),
    ...columns.map((name) => make("th", { role: "columnheader", scope: "col" },
      make("span", {}, name))));
  const lines = cells.map((line, r) => make("tr", { role: "row" },
    make("th", { role: "rowheader", scope: "row" }, rows[r]), ...line));
  const element = make("div", { class: "grid-box" },
    make("table", { class: "grid", role: "grid", "aria-label": label }, top, ...lines));
  paint();
  return { element, paint, cells, focusOn };
}

/** A point that can be dragged, or moved with the arrow keys (with Shift, ten times as far).

    `svg` is where it lives; at() gives its place there, in the drawing's units; move(x, y) is told
    where it should go, and may refuse. `value()` says in words where it is. `parts` are what is
    seen of it, if not a ring. */
function handle(svg, { label, at, move, value, step = 8, className = "", parts = null }) {
  const seen = parts ?? [make("svg:circle", { r: 9, class: "knob" })];
  const element = make("svg:g", {
    class: `handle ${className}`, tabindex: 0, role: "slider", "aria-label": label,
    "aria-valuemin": 0, "aria-valuemax": svg.viewBox.baseVal.width,
    onkeydown: (event) => {
      const by = event.shiftKey ? 10 * step : step;
      const steps = {
        ArrowUp: [0, -by], ArrowDown: [0, by], ArrowLeft: [-by, 0], ArrowRight: [by, 0],
        Home: [-9999, 0], End: [9999, 0], PageUp: [0, -10 * by], PageDown: [0, 10 * by],
      };
      if (!(event.key in steps)) return;
      event.preventDefault();
      const [x, y] = at();
      go(x + steps[event.key][0], y + steps[event.key][1]);
    },
    ontouchstart: (event) => event.preventDefault(), // a finger drags it, and does not scroll
    onpointerdown: (event) => (element.setPointerCapture(event.pointerId), element.focus()),
    onpointermove: (event) => {
      if (!element.hasPointerCapture(event.pointerId)) return;
      const place = new DOMPoint(event.clientX, event.clientY)
        .matrixTransform(svg.getScreenCTM().inverse());
      go(place.x, place.y);
    },
  }, make("svg:circle", { r: 22, class: "reach" }), ...seen);
  const go = (x, y) => (move(x, y), paint());
  const paint = () => {
    element.setAttribute("transform", `translate(${at().join()})`);
    element.setAttribute("aria-valuenow", Math.round(at()[0]));
    element.setAttribute("aria-valuetext", value());
  };
  svg.removeAttribute("aria-hidden");
  svg.append(element);
  paint();
  return { element, paint };
}

/** An arrow in a drawing, from one point to another; `set` moves it. */
function arrow(className) {
  const line = make("svg:line", {});
  const tip = make("svg:path", {});
  const set = ([x1, y1], [x2, y2]) => {
    const length = Math.hypot(x2 - x1, y2 - y1);
    const [ux, uy] = length ? [(x2 - x1) / length, (y2 - y1) / length] : [0, 0];
    const [bx, by] = [x2 - 9 * ux, y2 - 9 * uy];
    for (const [key, value] of Object.entries({ x1, y1, x2: bx, y2: by })) {
      line.setAttribute(key, value);
    }
    tip.setAttribute("d", length < 9 ? "" :
      `M${x2} ${y2}L${bx - 4.5 * uy} ${by + 4.5 * ux}L${bx + 4.5 * uy} ${by - 4.5 * ux}Z`);
  };
  return { element: make("svg:g", { class: `arrow ${className}` }, line, tip), set };
}

/** Keep an element as tall as it has been, so that nothing below it jumps when it has less to show.
    At another width it begins anew. */
function steady(element) {
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return; // a phone has hidden its address bar, no more
    width = innerWidth;
    element.style.minHeight = "";
  });
  new ResizeObserver(() => {
    const { height } = element.getBoundingClientRect();
    if (height) element.style.minHeight = `${height}px`;
  }).observe(element);
}

/** Start a picture: it takes the place of the still one, which stays for print. In a notebook whose
    kernel was restarted an older picture may have the same id: it has begun, so ours is the other.

    If anything fails, the still picture stays for good. On the stage, `tell(state, sentence)` says
    what is now to be seen: the sentence to the reader, the state to whoever tests the picture. */
function begin(id, draw) {
  const root = [...document.querySelectorAll(`#${id}`)].find((one) => !one.dataset.state);
  if (!root) return;
  const said = make("p", { class: "says", role: "status" });
  const element = make("div", { class: "stage" });
  const stage = {
    element,
    add: (...parts) => element.append(...parts.map((part) => part.element ?? part)),
    tell: (state, sentence) => {
      root.dataset.state = JSON.stringify(state);
      said.textContent = sentence;
    },
  };
  draw(stage, JSON.parse(root.querySelector("script[type='application/json']").textContent));
  root.append(element, said);
  steady(element);
  steady(said);
  root.closest("figure")?.classList.add("moves"); // on a page of the book
}
