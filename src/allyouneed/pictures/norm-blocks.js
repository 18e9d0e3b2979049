// LayerNorm against BatchNorm: choose a number, and see with which others it is averaged.
// data: features [D], norms [names]; neighbours: a list of {name, words [B][T], x [B][T][D],
// is_word [B][T], and for each norm mean, variance and normal, all [norm][B][T][D]}.

/** Whether two numbers (sentence, word, feature) share one mean, under one of the three norms. */
function together(norm, [b, t, d], [b2, t2, d2], isWord) {
  if (norm === 0) return b === b2 && t === t2; // layer: one word, all its features
  if (norm === 1) return d === d2; // batch: one feature, all places
  return d === d2 && isWord[b][t] && isWord[b2][t2]; // batch: one feature, words only
}

function draw(stage, { features, norms, neighbours }) {
  let [norm, which, place] = [0, 0, [0, 0, 0]];
  const [B, T] = [neighbours[0].x.length, neighbours[0].x[0].length];
  const at = (row) => [Math.floor(row / T), row % T];
  const get = (block, [b, t, d]) => block[b][t][d];
  const shared = (other) => together(norm, place, other, neighbours[which].is_word);
  const maps = make("div", { class: "maps" });
  let grids = [];

  const build = () => {
    const { words, x, normal } = neighbours[which];
    const rows = words.flat();
    const block = (title, text) => {
      const map = grid(title, rows, features, {
        cell: (row, d) => {
          const one = [...at(row), d];
          const chosen = `${one}` === `${place}`;
          return {
            text: text(one), name: `${rows[row]}, ${features[d]}: ${text(one)}`,
            mark: `${shared(one) ? "shared" : ""}${chosen ? " here" : ""}`,
          };
        },
        enter: (row, d) => {
          place = [...at(row), d];
          paint();
        },
      });
      map.element.querySelectorAll("tr").forEach((line, i) => {
        if (i && (i - 1) % T === 0) line.classList.add("begins");
      });
      return map;
    };
    grids = [
      block("the numbers", (one) => show(get(x, one), 0)),
      block("normalised", (one) => show(get(normal[norm], one))),
    ];
    maps.replaceChildren(panel("the numbers", grids[0].element),
      panel("normalised", grids[1].element));
    paint();
  };
  const paint = () => {
    grids.forEach((map) => map.paint());
    const { words, x, is_word, mean, variance, normal } = neighbours[which];
    const [b, t, d] = place;
    const group = [];
    for (const i of range(B * T)) {
      features.forEach((_, e) => shared([...at(i), e]) && group.push(get(x, [...at(i), e])));
    }
    const state = { norm, which, place, group, value: get(normal[norm], place) };
    const name = `The entry ${features[d]} of “${words[b][t]}”`;
    if (!group.length) {
      stage.tell(state, `${name}: paddings are left out of the mean, and stay zero.`);
      return;
    }
    const [m, v] = [get(mean[norm], place), get(variance[norm], place)];
    const empty = is_word.flat().filter((one) => !one).length - !is_word[b][t];
    const others = `${group.length - 1} other numbers` +
      (norm === 1 && empty ? `, ${empty} of them of paddings` : "");
    const sum = `(${show(get(x, place), 0)} − ${show(m)}) / √(${show(v)} + ε)`;
    stage.tell({ ...state, mean: m, variance: v },
      `${name} shares mean ${show(m)} and variance ${show(v)} with ${others}. ` +
      `${sum.replaceAll(" ", "\u00a0")} = ${show(state.value)}.`);
  };
  stage.add(
    choice("norm", norms, 0, (i) => ((norm = i), build())),
    choice("second sentence", neighbours.map(({ name }) => name), 0,
      (i) => ((which = i), build())),
    maps,
    hint("Move over a number. Then change the second sentence and watch the first."),
  );
  build();
}
