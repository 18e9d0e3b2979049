// A tree that grows as its symbols are written, each of them one that may come.
// data: labels, those that a bracket may have; sentences [{words, symbols}], symbols of the true
// tree: "(NP" opens, ")NP" closes, "XX" is the next word.

/** Which symbols may come next over n words: as `may_follow`, with the openings in their order. */
function mayFollow(written, n, labels, most) {
  const opened = [];
  let [words, brackets] = [0, 0];
  for (const symbol of written) {
    if (symbol === "XX") words += 1;
    else if (symbol[0] === "(") {
      opened.push(symbol.slice(1));
      brackets += 1;
    } else opened.pop();
  }
  if (written.length && !opened.length) return ["<eos>"];
  const [left, fresh] = [words < n, written.at(-1)?.[0] === "("];
  const following = left && brackets < most ? labels.map((name) => `(${name}`) : [];
  if (opened.length && left) following.push("XX");
  const last = opened.length === 1; // the outermost one, which waits for the last word
  if (opened.length && !fresh && !(left && last)) following.push(`)${opened.at(-1)}`);
  return following;
}

/** The brackets so far: label, first word, the word after the last (null if it is open), height. */
function brackets(written) {
  const [found, opened] = [[], []];
  let words = 0;
  for (const symbol of written) {
    if (symbol === "XX") words += 1;
    else if (symbol[0] === "(") {
      opened.push({ label: symbol.slice(1), start: words, end: null, height: 1, parts: [] });
      found.push(opened.at(-1));
      opened.at(-2)?.parts.push(opened.at(-1));
    } else opened.pop().end = words;
  }
  for (const one of [...found].reverse()) {
    one.height = 1 + Math.max(0, ...one.parts.map(({ height }) => height));
  }
  return found;
}

/** F1 of the brackets written against the true ones: label, start and end must agree. */
function f1(written, symbols) {
  const names = (all) => brackets(all).filter(({ end }) => end !== null)
    .map(({ label, start, end }) => `${label} ${start} ${end}`);
  const [given, rest] = [names(written), names(symbols)];
  const total = given.length + rest.length;
  let both = 0;
  for (const name of given) {
    const place = rest.indexOf(name);
    if (place < 0) continue;
    rest.splice(place, 1);
    both += 1;
  }
  return total ? 2 * both / total : 0;
}

/** The tree so far, over the words; what is not closed yet has a dashed line. */
function tree(words, written) {
  const all = brackets(written);
  const [step, high] = [Math.max(76, 10 * Math.max(...words.map((word) => word.length))), 34];
  const top = Math.max(words.length, 1 + Math.max(0, ...all.map(({ height }) => height)));
  const [width, height] = [step * words.length, high * top + 26];
  const svg = drawing(width, height, { class: "tree broad", width });
  const done = written.filter((symbol) => symbol === "XX").length;
  const ground = height - 20;
  const x = (one) => step * (one.start + Math.max(one.end ?? done, one.start + 1)) / 2;
  const y = (one) => ground - high * one.height;
  let [word, seen] = [0, 0];
  const opened = [];
  for (const symbol of written) {
    if (symbol === "XX") {
      const one = opened.at(-1);
      svg.append(make("svg:line",
        { x1: x(one), y1: y(one), x2: step * (word + 0.5), y2: ground - 12, class: "axis" }));
      word += 1;
    } else if (symbol[0] === "(") {
      opened.push(all[seen]);
      seen += 1;
    } else opened.pop();
  }
  for (const one of all) {
    for (const part of one.parts) {
      svg.append(make("svg:line",
        { x1: x(one), y1: y(one), x2: x(part), y2: y(part), class: "axis" }));
    }
  }
  for (const one of all) {
    const wide = 12 + 9 * one.label.length;
    svg.append(
      make("svg:rect", { x: x(one) - wide / 2, y: y(one) - 11, width: wide, height: 21, rx: 4,
        class: one.end === null ? "open" : "closed" }),
      label(x(one), y(one) + 5, one.label, "middle"),
    );
  }
  words.forEach((name, i) =>
    svg.append(label(step * (i + 0.5), height - 4, name, `middle ${i < done ? "" : "soft"}`)));
  return svg;
}

function draw(stage, { labels, sentences }) {
  const first = sentences[0].symbols; // of which the picture opens with a half
  let [s, written] = [0, first.slice(0, first.length / 2)];
  const most = () => 2 * sentences[s].words.length + 4;
  const place = make("div", { class: "wide plot" });
  const text = make("p", { class: "wide written" });
  const keys = make("div", { class: "controls symbols", role: "group", "aria-label": "symbols" });

  const name = (symbol) => (symbol === "XX" ? "the next word" : symbol);
  const write = (symbol) => {
    written = [...written, symbol];
    paint();
  };
  const back = button("back", () => {
    written = written.slice(0, -1);
    paint();
  });
  const anew = button("from the start", () => {
    written = [];
    paint();
  });
  const next = button("next of the true tree", () => {
    const { symbols } = sentences[s];
    const same = written.every((symbol, i) => symbol === symbols[i]);
    written = same ? symbols.slice(0, written.length + 1) : [];
    paint();
  });
  const paint = () => {
    const { words, symbols } = sentences[s];
    const may = mayFollow(written, words.length, labels, most());
    const over = may[0] === "<eos>";
    const here = document.activeElement;
    const focused = keys.contains(here) ? here.dataset.of : null;
    const closing = may.find((symbol) => symbol[0] === ")") ?? ")";
    keys.replaceChildren(...[...labels.map((one) => `(${one}`), "XX", closing].map((symbol) =>
      make("button", {
        type: "button", "data-of": symbol[0] === ")" ? ")" : symbol,
        disabled: !may.includes(symbol), onclick: () => write(symbol),
      }, name(symbol))));
    if (focused) {
      const again = [...keys.children].find((one) => one.dataset.of === focused && !one.disabled);
      (again ?? [...keys.children].find((one) => !one.disabled) ?? back.element).focus();
    }
    place.replaceChildren(tree(words, written));
    let n = 0;
    text.textContent = written.map((symbol) => (symbol === "XX" ? words[n++] : symbol)).join(" ");
    back.element.disabled = !written.length;
    const same = written.every((symbol, i) => symbol === symbols[i]);
    next.element.disabled = over && same;
    const score = over ? f1(written, symbols) : null;
    const said = over
      ? same ? "A tree, and the true one." : `A tree, but not the true one: F1 is ${show(score)}.`
      : `${may.length} symbol${may.length === 1 ? "" : "s"} may come next. `
        + (same ? "So far it is the true tree." : "The true tree goes another way.");
    stage.tell({ sentence: s, written, may, over, same, f1: score }, said);
  };
  const which = choice("sentence", sentences.map((_, i) => `${i + 1}`), 0, (i) => {
    [s, written] = [i, []];
    paint();
  });
  stage.add(
    make("div", { class: "controls" }, which.element, next.element, back.element, anew.element),
    place, text, keys,
    hint("Press symbols to write a tree; those that cannot come are grey. Dashed: still open. "
      + "“Next” writes the true tree, a symbol at a time, or begins it anew where you left it."),
  );
  paint();
}
