// Ribbons from each word that was read to each word that was written, as wide as its share of the
// attention: on the translator's page and on the first page of the book.
"use strict";
globalThis.Translator ??= {};

{
  const LAYER = 1; // the second: of the two models' layers, it links words best (chapter 15)
  const HEIGHT = 130, LINE = 30, GAP = 12, SPREAD = 64; // pixels
  const FAINT = 0.02; // a ribbon of less could not be seen

  // Tokens as words: {text, places}. A "▁" begins a word, and so does a sign such as a full stop;
  // in French, an apostrophe ends one.
  function words(tokens, language) {
    const found = [], isSigns = (text) => /^[^\p{L}\p{N}'’-]+$/u.test(text);
    tokens.forEach((token, place) => {
      if (token === "<eos>") return;
      const before = found.at(-1), text = token.replaceAll("▁", "");
      const begins = !before || token.startsWith("▁")
        || (before.text && text && isSigns(text) !== isSigns(before.text))
        || (language === "fr" && /['’]$/.test(before.text));
      if (begins) found.push({ text, places: [place] });
      else Object.assign(before, { text: before.text + text, places: [...before.places, place] });
    });
    return found.filter(({ text }) => text);
  }

  // The words of a view (see page.js), and the share of the attention that each word written gives
  // to each word read: the mean of a layer's heads, without one that is off, and of the word's
  // tokens. What is missing from one went to the end of the sentence.
  function linked({ sourceTokens, steps, off }, language) {
    const read = words(sourceTokens, "en"), written = words(steps.map((s) => s.token), language);
    const mean = (values) => values.reduce((sum, x) => sum + x, 0) / Math.max(1, values.length);
    const isOn = (_, head) => off?.kind !== "cross" || off.layer !== LAYER || off.head !== head;
    const weights = written.map(({ places }) => read.map(({ places: columns }) =>
      mean(places.flatMap((t) => (steps[t].cross[LAYER] ?? steps[t].cross[0]).filter(isOn)
        .map((row) => columns.reduce((sum, s) => sum + row[s], 0))))));
    const texts = (some) => some.map(({ text }) => text);
    return { read: texts(read), written: texts(written), weights };
  }

  // Of each of two lists of words, which ones are in both, in the same order: a longest common
  // subsequence. Capitals do not count, nor do signs: they are always kept.
  function kept(a, b) {
    const plain = (words) => words.map((word) => word.toLowerCase());
    const isWord = (word) => /[\p{L}\p{N}]/u.test(word);
    const x = plain(a.filter(isWord)), y = plain(b.filter(isWord));
    const longest = Array.from({ length: x.length + 1 }, () => Array(y.length + 1).fill(0));
    for (let i = x.length - 1; i >= 0; i--) {
      for (let j = y.length - 1; j >= 0; j--) {
        longest[i][j] = x[i] === y[j] ? longest[i + 1][j + 1] + 1
          : Math.max(longest[i + 1][j], longest[i][j + 1]);
      }
    }
    const same = [Array(x.length).fill(false), Array(y.length).fill(false)];
    for (let i = 0, j = 0; i < x.length && j < y.length;) {
      if (x[i] === y[j]) same[0][i++] = same[1][j++] = true;
      else if (longest[i + 1][j] >= longest[i][j + 1]) i++;
      else j++;
    }
    const marks = [a, b].map((words, k) => words.map((word) => !isWord(word) || same[k].shift()));
    return { count: longest[0][0], of: [x.length, y.length], marks };
  }

  function make(tag, properties = {}, ...children) {
    const isShape = ["svg", "path"].includes(tag);
    const node = isShape ? document.createElementNS("http://www.w3.org/2000/svg", tag)
      : document.createElement(tag);
    for (const [key, value] of Object.entries(properties)) node.setAttribute(key, value);
    node.append(...children);
    return node;
  }

  // From x1 at the height y1 to x2 at y2, 2 h wide; `down` if the words stand below each other.
  function ribbon(down, [x1, y1], [x2, y2], h) {
    const point = (x, y) => `${x.toFixed(1)} ${y.toFixed(1)}`;
    const curve = (x1, y1, x2, y2) => {
      const [x, y] = [(x1 + x2) / 2, (y1 + y2) / 2];
      return down ? `C${point(x, y1)} ${point(x, y2)} ${point(x2, y2)}`
        : `C${point(x1, y)} ${point(x2, y)} ${point(x2, y2)}`;
    };
    const [dx, dy] = down ? [0, h] : [h, 0];
    return `M${point(x1 - dx, y1 - dy)}${curve(x1 - dx, y1 - dy, x2 - dx, y2 - dy)}`
      + `L${point(x2 + dx, y2 + dy)}${curve(x2 + dx, y2 + dy, x1 + dx, y1 + dy)}Z`;
  }

  // A picture in `place`, a block that is empty: `show(view, language, marks)` draws a view.
  // `marks[t]`: false for a written word that shall stand out. Words are buttons, of which one is
  // in the order of tabs; `tell(sentence)` gets what a word has to say.
  class Ribbons {
    constructor(place, tell = () => {}) {
      this.svg = make("svg", { "aria-hidden": "true" });
      this.list = make("div", { role: "group", "aria-label": "Words read and words written" });
      Object.assign(this, { place, tell, sides: [[], []], paths: [], weights: [] });
      place.classList.add("ribbons");
      place.replaceChildren(this.svg, this.list);
      const side = (node) => this.sides.findIndex((words) => words.includes(node));
      const light = ({ target }) => {
        const which = side(target);
        this.light(which, which < 0 ? -1 : this.sides[which].indexOf(target));
      };
      this.list.addEventListener("pointerover", light);
      this.list.addEventListener("pointerleave", () => this.light(-1));
      this.list.addEventListener("focusin", light);
      this.list.addEventListener("focusout", () => this.light(-1));
      this.list.addEventListener("keydown", (event) => {
        const which = side(event.target), i = this.sides[which]?.indexOf(event.target);
        const moves = {
          ArrowLeft: [which, i - 1], ArrowRight: [which, i + 1], ArrowUp: [0, i], ArrowDown: [1, i],
        };
        if (which < 0 || !moves[event.key]) return;
        event.preventDefault();
        const [to, at] = moves[event.key], words = this.sides[to];
        words[Math.max(0, Math.min(at, words.length - 1))]?.focus();
      });
      let width = 0;
      new ResizeObserver(() => {
        if (place.clientWidth !== width) this.arrange();
        width = place.clientWidth;
      }).observe(place);
    }

    show(view, language, marks = []) {
      const { read, written, weights } = linked(view, language);
      const word = (text, lang, mark, first) => {
        const name = mark === false ? "r-other" : "r-word";
        const tabindex = first ? 0 : -1;
        return make("button", { type: "button", lang, tabindex, class: name }, text);
      };
      this.sides = [
        read.map((text, s) => word(text, "en", true, !s)),
        written.map((text, t) => word(text, language, marks[t], false)),
      ];
      this.weights = weights;
      this.paths = weights.flatMap((row, t) => row.map((weight, s) => {
        return weight < FAINT ? null : { t, s, weight, path: make("path") };
      })).filter(Boolean);
      this.svg.replaceChildren(...this.paths.map(({ path }) => path));
      this.list.replaceChildren(...this.sides.flat());
      this.arrange();
    }

    // Side by side if there is room, else one below the other.
    arrange() {
      const { clientWidth: width } = this.place, [read, written] = this.sides;
      if (!width) return; // out of sight
      const size = (words) => words.map((word) => word.offsetWidth);
      const sum = (values) => values.reduce((all, x) => all + x, 0);
      const least = Math.max(...[read, written].map((w) => sum(size(w)) + GAP * (w.length - 1)));
      const down = least > width, rows = Math.max(read.length, written.length);
      const height = down ? LINE * rows : HEIGHT + 2 * LINE;
      const middles = [read, written].map((words, side) => {
        const sizes = size(words), n = words.length;
        const gap = Math.min(SPREAD, (width - sum(sizes)) / Math.max(1, n - 1));
        let x = (width - sum(sizes) - gap * (n - 1)) / 2;
        return words.map((word, i) => {
          const at = down ? [side ? width - Math.max(...sizes) : Math.max(...size(read)) - sizes[i],
            (i + 0.5) * (height / n) - LINE / 2] : [x, side ? height - LINE : 0];
          x += sizes[i] + gap;
          word.style.translate = `${at[0]}px ${at[1]}px`;
          return down ? [at[0] + (side ? -6 : sizes[i] + 6), at[1] + LINE / 2]
            : [at[0] + sizes[i] / 2, side ? at[1] : LINE];
        });
      });
      this.place.style.height = `${height}px`;
      this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      for (const { t, s, weight, path } of this.paths) {
        path.setAttribute("d", ribbon(down, middles[0][s], middles[1][t], 12 * weight));
        path.style.setProperty("--w", (0.15 + 0.65 * weight).toFixed(3));
      }
    }

    // Light up what a word is linked to, and say it. `side` 0: words read, 1: words written.
    light(side, i) {
      const seen = (s, t) => (side ? t : s) === i;
      this.place.classList.toggle("r-lit", side >= 0);
      for (const { s, t, path } of this.paths) path.classList.toggle("r-seen", seen(s, t));
      this.sides.forEach((words, which) => words.forEach((word, k) => {
        const on = side >= 0 && (which === side ? k === i
          : this.paths.some(({ s, t }) => seen(s, t) && (which ? t : s) === k));
        word.classList.toggle("r-seen", on);
      }));
      if (side < 0) return;
      const weights = side ? this.weights[i] : this.weights.map((row) => row[i]);
      const best = weights.map((w, k) => [w, this.sides[1 - side][k].textContent])
        .filter(([w]) => w >= 0.05).sort((a, b) => b[0] - a[0]).slice(0, 3)
        .map(([w, text]) => `“${text}” (${w.toFixed(2)})`);
      const word = `“${this.sides[side][i].textContent}”`;
      this.tell(side ? `To write ${word}, the model looks most at ${best.join(", ") || "no word"}.`
        : `At ${word} it looks to write ${best.join(", ") || "no word"}.`);
    }
  }

  Object.assign(Translator, { Ribbons, linked, kept });
}
