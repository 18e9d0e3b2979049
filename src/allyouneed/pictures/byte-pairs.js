// Byte pairs: merge by merge, a sentence of characters becomes a sentence of tokens.
// data: sentences, a list of texts; merges, in the order in which they were learnt, one to a line,
// each "left right"; letters, all characters that the tokenizer has met. A sentence of the reader's
// own is cut here, as the tokenizer cuts it.

const PLOT = { width: 620, height: 190, left: 36, right: 12, top: 16, bottom: 36 };
const LONGEST = 80; // characters of the reader's own sentence

/** What the merges do to a sentence: [[n, left, right, pieces], ...]. After n merges, of which the
    last joined left and right; in the first step n is 0, and left and right are empty. */
function mergeSteps(sentence, rank, letters) {
  const known = new Set(letters);
  const text = sentence.normalize("NFC").replaceAll(" ", "▁");
  const spelled = [...(text.startsWith("▁") ? text : `▁${text}`)];
  let pieces = spelled.map((letter) => known.has(letter) ? letter : "<unk>");
  const steps = [[0, "", "", pieces]];
  for (;;) {
    const ranks = pieces.slice(1).map((right, i) => rank.get(`${pieces[i]} ${right}`) ?? Infinity);
    const first = Math.min(...ranks);
    if (first === Infinity) return steps;
    let pair = null;
    const merged = [];
    for (let i = 0; i < pieces.length; i++) {
      if (rank.get(`${pieces[i]} ${pieces[i + 1]}`) === first) {
        pair = [pieces[i], pieces[i + 1]];
        merged.push(pieces[i] + pieces[++i]);
      } else {
        merged.push(pieces[i]);
      }
    }
    pieces = merged;
    steps.push([first, ...pair, pieces]);
  }
}

/** Where n merges and so many tokens lie in the plot: merges on a logarithmic axis, from 1. */
function place(n, tokens, total, most) {
  const { width, height, left, right, top, bottom } = PLOT;
  const x = left + (width - left - right) * Math.log(Math.max(n, 1)) / Math.log(total);
  return [x, height - bottom - (height - top - bottom) * tokens / most];
}

/** The number of tokens against merges, as stairs, with a dot that `at(step)` moves. */
function stairs(steps, total) {
  const counts = steps.map(([n, , , pieces]) => [n, pieces.length]);
  const most = Math.ceil(counts[0][1] / 10) * 10;
  const at = (n, tokens) => place(n, tokens, total, most);
  const svg = drawing(PLOT.width, PLOT.height, { class: "broad" });
  const [[left, ground], end] = [at(1, 0), at(total, 0)];
  const marks = every(most > 30 ? 20 : 10, most).map((tokens) => [at(1, tokens)[1], `${tokens}`]);
  svg.append(...levels(marks, left, end[0]),
    label(end[0], ground + 32, "merges", "end"), label(left + 6, PLOT.top - 4, "tokens"));
  for (let n = 1; n <= total; n *= 10) {
    svg.append(label(at(n, 0)[0], ground + 17, thousands(n), "soft middle"));
  }
  const path = counts.map(([n, tokens], i) => {
    const [x, y] = at(n, tokens);
    return i ? `H${x.toFixed(1)}V${y.toFixed(1)}` : `M${x.toFixed(1)} ${y.toFixed(1)}`;
  }).join("");
  const dot = make("svg:circle", { r: 6, class: "now" });
  svg.append(make("svg:path", { d: `${path}H${end[0]}`, class: "stairs" }), dot);
  const move = (step) => {
    const [x, y] = at(...counts[step]);
    dot.setAttribute("cx", x);
    dot.setAttribute("cy", y);
  };
  return { element: make("div", { class: "wide" }, svg), at: move };
}

/** What the step did, in words. */
function account(steps, step, total) {
  const [n, left, right, pieces] = steps[step];
  const letters = steps[0][3].length;
  const strange = pieces.includes("<unk>")
    ? " What stands as <unk> is a character that it never met." : "";
  if (!n) return `No merge yet: the sentence is spelled, in ${letters} tokens.${strange}`;
  const rest = step === steps.length - 1 && n < total
    ? ` None of the later merges, up to ${thousands(total)}, changes this sentence.` : "";
  return `Merge ${thousands(n)} joins “${left}” and “${right}” to “${left + right}”: ` +
    `${pieces.length} tokens, from ${letters}.${rest}${strange}`;
}

function draw(stage, { sentences, merges: learnt, letters }) {
  const rank = new Map(learnt.split("\n").map((pair, i) => [pair, i + 1]));
  const total = rank.size;
  let [text, step] = [sentences[0], 0];
  let steps = mergeSteps(text, rank, letters);
  let plot = stairs(steps, total);
  const cut = make("p", { class: "cut wide" });

  const look = () => {
    const [n, left, right, pieces] = steps[step];
    cut.replaceChildren(...pieces.map((piece) =>
      make("span", { class: n && piece === left + right ? "piece last" : "piece" }, piece)));
    plot.at(step);
    stage.tell({ sentence: text, merges: n, tokens: pieces }, account(steps, step, total));
  };
  const merges = slider("merges", {
    min: 0, max: steps.length - 1, value: 0, text: (i) => thousands(steps[i][0]),
  }, (i) => (step = i, look()));
  /** Another sentence, at its first step or at its last. */
  const open = (sentence, atEnd) => {
    text = sentence;
    steps = mergeSteps(text, rank, letters);
    const fresh = stairs(steps, total);
    plot.element.replaceWith(fresh.element);
    plot = fresh;
    merges.input.max = steps.length - 1;
    merges.set(atEnd ? steps.length - 1 : 0);
  };
  const own = make("input", {
    type: "text", maxlength: LONGEST, placeholder: "your own sentence",
    "aria-label": "your own sentence", autocomplete: "off", spellcheck: "false",
    oninput: () => {
      const written = own.value.trim();
      if (!written) return;
      given.buttons.forEach((one) => one.setAttribute("aria-checked", "false"));
      open(written, true);
    },
  });
  const given = choice("sentence", sentences, 0, (i) => (own.value = "", open(sentences[i], false)));
  stage.add(given, make("label", { class: "own wide" }, own),
    hint("Move the slider: each step is the next merge that finds something to join."),
    merges, cut, plot);
  look();
}
