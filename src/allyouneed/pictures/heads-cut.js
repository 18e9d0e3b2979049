// Heads, there and back: where each of the labelled numbers stands in every form.
// data: words [T][D], as they come; cut [T][H][K], the view of them; heads [2][H][T][K], cut
// rightly and by a view alone; back [2][2][T][D], merged, for each of the two cuts rightly and
// by a reshape.

/** Where a number stands in a nested list: its indices, from the outermost in. */
function find(list, number) {
  for (const [i, one] of list.entries()) {
    if (one === number) return [i];
    const rest = Array.isArray(one) ? find(one, number) : null;
    if (rest) return [i, ...rest];
  }
  return null;
}

/** How many numbers do not stand where they should. */
function astray(list, right) {
  const wrong = (number) => `${find(list, number)}` !== `${find(right, number)}`;
  return right.flat(Infinity).filter(wrong).length;
}

/** A title over two lines: what a form is, and its shape. */
function titled(title, shape, table) {
  return make("div", { class: "form" },
    make("p", { class: "title" }, title, make("span", {}, `(${shape.join(", ")})`)), table);
}

/** One form: blocks of rows of numbers. `top` heads a block; `side` names it, or `row` its rows. */
function form(title, shape, blocks, { top = null, side = null, row = null }, choose) {
  const cell = (number) => make("td", {
    class: `number of-${Math.floor(number / 10)}`, "data-number": number,
    onclick: () => choose(number),
    onpointerenter: (event) => event.pointerType === "mouse" && choose(number),
  }, String(number));
  const bodies = blocks.map((block, b) => make("tbody", {},
    make("tr", {}, make("td"), ...(top
      ? [make("th", { colspan: block[0].length }, top(b))]
      : b === 0 ? block[0].map((_, i) => make("th", {}, String(i + 1))) : [])),
    ...block.map((line, r) => make("tr", {},
      side && r === 0 ? make("th", { rowspan: block.length, class: `of-${b + 1}` }, side(b)) : null,
      row && make("th", { class: `of-${r + 1}` }, row(r)),
      ...line.map(cell)))));
  return titled(title, shape, make("table", { "aria-hidden": "true" }, ...bodies));
}

/** The way of a number in words; what is given are its places, counted from 0. */
function story(number, [t, j], [head, row], [rightHead], [backWord, backEntry]) {
  const there = head === rightHead && row === t
    ? `It goes to head ${head + 1}, into the row of its own word,`
    : `It lands in head ${head + 1}, in the row of word ${row + 1} (its own place is head ` +
      `${rightHead + 1}, word ${t + 1}),`;
  const back = backWord === t && backEntry === j
    ? "and comes back to where it was."
    : `and comes back as entry ${backEntry + 1} of word ${backWord + 1}.`;
  return `${number} is entry ${j + 1} of word ${t + 1}. ${there} ${back}`;
}

function draw(stage, { words, cut, heads, back }) {
  const [H, T, K] = [heads[0].length, heads[0][0].length, heads[0][0][0].length];
  let [number, there, home] = [words[1][1], 0, 0];
  const word = (t) => `word ${t + 1}`;
  const forms = make("div", { class: "forms" });

  const tell = () => {
    const now = [words, heads[there], heads[0], back[there][home]].map((one) => find(one, number));
    const lost = [astray(heads[there], heads[0]), astray(back[there][home], words)];
    const counts = lost[0] + lost[1] === 0 ? "" :
      ` Of ${H * T * K} numbers, ${lost[0]} stand wrong in the heads and ${lost[1]} after the ` +
      `way back${lost[0] && !lost[1] ? ": one mistake hides the other." : "."}`;
    stage.tell({ number, there, home, head: now[1], back: now[3], astray: lost },
      story(number, ...now) + counts);
  };
  const choose = (one) => {
    number = one;
    paint();
  };
  const paint = () => {
    for (const cell of forms.querySelectorAll("[data-number]")) {
      cell.classList.toggle("chosen", cell.dataset.number === String(number));
    }
    start.paint();
    tell();
  };
  const start = grid("the numbers as they come", words.map((_, t) => word(t)),
    words[0].map((_, j) => String(j + 1)), {
      cell: (t, j) => ({
        text: String(words[t][j]), name: `${word(t)}, entry ${j + 1}: ${words[t][j]}`,
        mark: `number of-${t + 1}${words[t][j] === number ? " chosen" : ""}`,
      }),
      enter: (t, j) => choose(words[t][j]),
    });
  const names = start.element.querySelectorAll("th[scope='row']");
  names.forEach((name, t) => name.classList.add(`of-${t + 1}`));
  const first = titled("as they come", [T, H * K], start.element);
  const build = () => {
    forms.replaceChildren(first,
      ...(there ? [] : [form("view", [T, H, K], cut, { side: word }, choose)]),
      form(there ? "view alone" : "transpose", [H, T, K], heads[there],
        { top: (h) => `head ${h + 1}`, row: word }, choose),
      form(home ? "reshape alone" : "merged", [T, H * K], [back[there][home]], { row: word },
        choose));
    paint();
  };
  stage.add(
    choice("there", ["view, transpose", "view alone"], 0, (i) => ((there = i), build())),
    choice("back", ["transpose, reshape", "reshape alone"], 0, (i) => ((home = i), build())),
    forms,
    hint("Move over a number: it lights up in every form. Then try the wrong ways."),
  );
  build();
}
