// The page of the translator: its controls, the map of the attention, the likeliest tokens.
//
// Whether it comes from an example or was made here, a translation is shown from one object, the
// view: {source, sourceTokens, text, steps}, where a step is {token, p, top, cross}.
// Texts are put in as text, never as markup.
"use strict";

{
  const { EOS, UNK, run } = Translator;
  const LONG = 30; // tokens: of a hundred sentences in training, fewer than one was longer
  const WIDE = 60; // tokens: the map shows no more, for a browser must draw each of its cells
  const MOST = 500; // characters
  const LANGUAGES = { de: "German", fr: "French" };
  const at = (id) => document.getElementById(`t-${id}`);
  const form = document.getElementById("translator");

  // What is loaded, shown and chosen.
  const loaded = new Map(); // name: {model, tokenizer}
  const state = { view: null, step: 0, column: 0, text: "" };
  Object.assign(state, { busy: false, stop: false, again: false }); // see `anew`

  const chosen = () => form.elements["t-model"].value;
  const megabytes = (bytes) => `${(bytes / 1e6).toFixed(1)} MB`;
  const percent = (p) => (p > 0 && p < 0.001 ? "< 0.1 %" : `${(100 * p).toFixed(1)} %`);
  const minus = (number) => number.toFixed(2).replace("-", "−");
  const say = (text) => { at("status").textContent = text; };

  function element(tag, properties = {}, ...children) {
    const node = Object.assign(document.createElement(tag), properties);
    node.append(...children);
    return node;
  }

  // A token, in which ▁ stands back a little.
  function words(token) {
    return token.split(/(▁)/).map((part) => {
      return part === "▁" ? element("span", { className: "t-space", textContent: part }) : part;
    });
  }

  // ---- from text to a view ----

  // As the data was cleaned that the models know: soft hyphens and zero-width spaces go, line
  // breaks and runs of spaces become one space.
  const tidy = (text) => text.replace(/[\u00ad\u200b]/g, "").replace(/\s+/g, " ").trim();

  // What the reader should know about a text: sentences, none if all is well.
  function remarks(text, tokenizer) {
    const found = [], ids = tokenizer.encode(text), unknown = tokenizer.unknown(text);
    if (/<[a-z!/][^>]*>/i.test(text)) found.push("Markup is read as plain text, and never run.");
    if (unknown.length) {
      const named = unknown.slice(0, 6).map((character) => {
        const code = character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
        return `“${character}” (U+${code})`;
      });
      const more = unknown.length > 6 ? ` and ${unknown.length - 6} more` : "";
      found.push(`Unknown to the model: ${named.join(", ")}${more}. <unk> stands in their place.`);
    }
    const letters = text.match(/\p{L}/gu) ?? [], latin = text.match(/\p{Script=Latin}/gu) ?? [];
    const capitals = text.match(/\p{Lu}/gu) ?? [];
    if (!letters.length) {
      found.push(`There are no words here, only ${/\d/.test(text) ? "numbers" : "signs"}. ` +
        "The model has read sentences, and may make one up.");
    } else if (letters.length > 4 && capitals.length > 0.6 * letters.length) {
      found.push("The model has read hardly any words in capitals, and cuts these into pieces " +
        "that mean little to it. Write them small.");
    }
    if (letters.length > 2 * latin.length) {
      found.push("This is hardly English. The model knows English alone, and will guess.");
    }
    if (ids.length > LONG) {
      found.push(`${ids.length} tokens is long. The model has seen few sentences of more than ` +
        `${LONG}, and may lose the thread.`);
    }
    if (tidy(at("source").value).length > MOST) {
      found.push(`At most ${MOST} characters are read. What comes after them is left out.`);
    }
    if (latin.length && strange(text)) {
      found.push("This is far from what the model has read (see below): its words are rarer " +
        "there than those of 98 in a hundred of its own sentences. Do not trust what it writes.");
    }
    return found;
  }

  // Whether a text's words are rare in what the chosen model has read: the mean of
  // log2(all words / times this word occurs), against a limit that tools/translator_words.py sets.
  const levels = new Map(); // name: Map of word: log2 of its count, rounded down
  function strange(text) {
    const { total, limit, words } = Translator.words[chosen()];
    if (!levels.has(chosen())) {
      const all = words.flatMap((group, k) => group.split(" ").map((word) => [word, k]));
      levels.set(chosen(), new Map(all));
    }
    const found = text.toLowerCase().replaceAll("’", "'").match(/\p{L}+(?:'\p{L}+)*/gu) ?? [];
    const bits = found.map((word) => Math.log2(total) - (levels.get(chosen()).get(word) ?? 0));
    return bits.reduce((sum, one) => sum + one, 0) > limit * bits.length;
  }

  // Why a text cannot be translated, or nothing.
  function refusal(text, tokenizer) {
    const blank = new Set([UNK, tokenizer.ids.get("▁")]);
    if (tokenizer.encode(text).some((id) => !blank.has(id))) return null;
    return "The model knows none of these characters, so there is nothing to translate.";
  }

  function viewOf(tokenizer, src, { ids, steps, ended = [] }) {
    const token = (id) => tokenizer.vocabulary[id];
    return {
      sourceTokens: src.map(token),
      text: tokenizer.decode(ids),
      ended: ended.map(({ ids, score, final }) => ({ text: tokenizer.decode(ids), score, final })),
      steps: steps.map(({ token: id, p, top, cross }) => {
        return { token: token(id), p, top: top.map((one) => [token(one.id), one.p]), cross };
      }),
    };
  }

  // ---- translating ----

  function choices() {
    return {
      beam: Number(at("beam").value),
      temperature: Number(at("temperature").value),
      seed: Number(at("seed").value) >>> 0,
    };
  }

  // The address says what is shown, so that a link shows the same.
  function keepAddress() {
    const { beam, temperature, seed } = choices(), url = new URL(location);
    const says = { model: chosen(), beam, text: tidy(at("source").value).slice(0, MOST) };
    if (temperature) Object.assign(says, { temperature, seed });
    url.search = new URLSearchParams(says);
    history.replaceState(history.state, "", url);
  }

  // Choose what a link says.
  function take(says) {
    const models = [...form.elements["t-model"]];
    const model = models.find(({ value }) => value === says.get("model"));
    if (model) model.checked = true;
    for (const id of ["beam", "temperature", "seed"]) at(id).value = says.get(id) ?? at(id).value;
  }

  // With a beginning, the likeliest tokens follow it.
  function decoder(model, src, beginning) {
    if (beginning) return Translator.greedy(model, src, beginning);
    const { beam, temperature, seed } = choices();
    if (temperature > 0) return Translator.sample(model, src, temperature, seed);
    return beam === 1 ? Translator.greedy(model, src) : Translator.beamSearch(model, src, beam);
  }

  async function ready(name) {
    if (!loaded.has(name)) {
      const { bytes } = Translator.models[name], bar = at("progress"), start = performance.now();
      say(`Loading the model, ${megabytes(bytes)} …`);
      bar.hidden = false;
      bar.max = bytes;
      bar.removeAttribute("value");
      try {
        loaded.set(name, await Translator.load(name, (received) => { bar.value = received; }));
        showSize();
        const seconds = ((performance.now() - start) / 1000).toFixed(1);
        say(`The model is loaded (${seconds} seconds).`);
      } finally {
        bar.hidden = true;
      }
    }
    return loaded.get(name);
  }

  // Let the browser draw and listen.
  const breathe = () => new Promise((resume) => setTimeout(resume));

  // Run the decoder and show each token as it comes; about 60 times a second we breathe.
  async function write(decoding, tokenizer) {
    let last = performance.now();
    for (;;) {
      const { value, done } = decoding.next();
      if (done) return value;
      if (performance.now() - last < 15) continue;
      if (value) at("output").textContent = tokenizer.decode(value.ids);
      await breathe();
      if (state.stop) return value ?? null;
      last = performance.now();
    }
  }

  // `beginning`: the tokens with which the translation shall begin, if any.
  async function translate(beginning) {
    const text = tidy(at("source").value).slice(0, MOST), name = chosen();
    showRemarks([]);
    if (!text) {
      clear();
      const what = at("source").value ? "There are only spaces" : "There is nothing";
      return say(`${what} here. Type an English sentence.`);
    }
    state.text = text;
    busy(true);
    say("Translating …");
    try {
      const { model, tokenizer } = await ready(name);
      const why = refusal(text, tokenizer);
      showRemarks(remarks(text, tokenizer));
      clear();
      if (why) return say(why);
      keepAddress();
      const src = [...tokenizer.encode(text), EOS], start = performance.now();
      const first = beginning?.map((token) => tokenizer.ids.get(token));
      writing(true);
      const result = await write(decoder(model, src, first), tokenizer);
      const seconds = (performance.now() - start) / 1000;
      if (!result) return say("Stopped before the first token.");
      show(viewOf(tokenizer, src, result));
      const count = result.steps.length, rate = Math.round(count / seconds);
      if (beginning) choose(beginning.length - 1, 0);
      const how = state.stop ? "Stopped" : beginning ? "Gone on from your choice" : "Translated";
      say(`${how}: ${count} tokens in ${seconds.toFixed(2)} seconds, ${rate} a second.`);
    } catch (error) {
      say(error.message);
    } finally {
      writing(false);
      busy(false);
      if (state.again) {
        state.again = false;
        translate();
      }
    }
  }

  // What is being translated is not what is wanted any more: stop it, and begin again.
  function anew() {
    if (state.busy) Object.assign(state, { stop: true, again: true });
    else translate();
  }

  // While it changes with every token, a screen reader is asked to wait.
  function writing(now) {
    at("output").classList.toggle("t-writing", now);
    at("output").setAttribute("aria-busy", now);
  }

  function busy(now) {
    Object.assign(state, { busy: now, stop: false });
    at("go").textContent = now ? "Stop" : "Translate";
    for (const radio of form.elements["t-model"]) radio.disabled = now;
  }

  // ---- showing ----

  function clear() {
    show({ sourceTokens: [], text: "", steps: [] });
  }

  function show(view) {
    Object.assign(state, { view, step: 0, column: 0 });
    at("output").textContent = view.text;
    at("output").classList.remove("t-stale");
    at("output").lang = chosen().slice(-2);
    const nothing = !view.steps.length;
    for (const id of ["look", "next"]) at(id).classList.toggle("t-empty", nothing);
    at("step").max = Math.max(1, view.steps.length);
    drawMap();
    choose(0, 0);
    const cut = Math.max(view.sourceTokens.length, view.steps.length) > WIDE;
    at("says").textContent = nothing ? "Nothing is translated yet."
      : cut ? `The map shows the first ${WIDE} tokens.` : "";
    listEnded(view.ended ?? []);
  }

  // What the beam had to choose from, the best first.
  function listEnded(ended) {
    const best = [...ended].sort((a, b) => b.final - a.final);
    at("ended").hidden = best.length < 2;
    at("ended-list").replaceChildren(...best.map(({ text, score, final }) => {
      const numbers = `${minus(final)} (log P = ${minus(score)})`;
      return element("li", {}, element("b", { textContent: text }),
        element("span", { textContent: numbers }));
    }));
    for (const text of at("ended-list").querySelectorAll("b")) text.lang = chosen().slice(-2);
  }

  function showRemarks(sentences) {
    at("remarks").replaceChildren(...sentences.map((text) => element("li", { textContent: text })));
    at("remarks").hidden = !sentences.length;
  }

  function showSize() {
    const { bytes, parameters } = Translator.models[chosen()];
    at("size").textContent = loaded.has(chosen())
      ? `${(parameters / 1e6).toFixed(1)} million weights are in your browser.`
      : `The first time, this loads ${megabytes(bytes)}.`;
  }

  function showChoices() {
    const { beam, temperature } = choices(), draws = temperature > 0;
    at("beam-says").value = beam;
    at("temperature-says").value = temperature.toFixed(1).replace(".0", "");
    at("beam").disabled = draws;
    at("seed-label").hidden = at("again").hidden = !draws;
    at("choice").textContent = draws ? "Each token is drawn by its probability; the beam rests."
      : beam === 1 ? "Greedy: the likeliest token, again and again."
        : `Beam search: the best of ${beam} beginnings at a time.`;
  }

  function showExample(example) {
    at("source").value = example.source;
    showRemarks([]);
    show(example);
    at("beam").value = 4;
    at("temperature").value = 0;
    showChoices();
    say("An example, translated beforehand with a beam of 4. Change it and press Translate.");
  }

  function listExamples() {
    const buttons = Translator.examples[chosen()].map((example) => {
      const button = element("button", { type: "button", textContent: example.source, lang: "en" });
      button.onclick = () => {
        if (state.busy) return;
        showExample(example);
        keepAddress();
      };
      return button;
    });
    at("examples").replaceChildren(...buttons);
  }

  // ---- the map ----

  // The weights of a step over the source: of one head, or the mean of all.
  function weights(step) {
    const heads = step.cross[Number(at("layer").value)], head = at("head").value;
    if (head !== "mean") return Array.from(heads[Number(head)]);
    return Array.from(heads[0], (_, s) => heads.reduce((sum, w) => sum + w[s], 0) / heads.length);
  }

  function drawMap() {
    const sourceTokens = state.view.sourceTokens.slice(0, WIDE);
    const steps = state.view.steps.slice(0, WIDE);
    listHeads(steps[0]);
    const names = sourceTokens.map((token) => {
      return element("th", { scope: "col" }, element("span", {}, ...words(token)));
    });
    const rows = steps.map((step, t) => {
      const cells = weights(step).slice(0, WIDE).map((w, s) => {
        const cell = element("td", { tabIndex: t || s ? -1 : 0 });
        cell.setAttribute("aria-label", `${step.token} to ${sourceTokens[s]}: ${w.toFixed(2)}`);
        cell.style.setProperty("--w", `${Math.round(100 * w)}%`);
        cell.dataset.step = t;
        cell.dataset.column = s;
        return cell;
      });
      return element("tr", {}, element("th", { scope: "row" }, ...words(step.token)), ...cells);
    });
    const head = element("thead", {}, element("tr", {}, element("td"), ...names));
    at("map").replaceChildren(head, element("tbody", {}, ...rows));
  }

  // While there is more of the map to the right, its edge fades.
  const box = at("map").parentElement;
  function fade() {
    box.classList.toggle("t-more", box.scrollLeft + box.clientWidth < box.scrollWidth - 1);
  }

  // The models differ in their layers.
  function listHeads(step) {
    if (!step || at("layer").length === step.cross.length) return;
    at("layer").replaceChildren(...step.cross.map((_, i) => new Option(i + 1, i)));
    at("layer").value = step.cross.length - 1;
    const heads = Array.from(step.cross[0], (_, i) => new Option(i + 1, i));
    at("head").replaceChildren(new Option("mean of all", "mean"), ...heads);
  }

  const cellAt = (step, column) => at("map").tBodies[0].rows[step]?.cells[column + 1];

  // Say the weight of a cell in words.
  function tell(t, s) {
    const { sourceTokens, steps } = state.view, w = weights(steps[t])[s];
    const head = at("head").value;
    const who = head === "mean" ? "all heads together give" : `head ${Number(head) + 1} gives`;
    at("says").replaceChildren("To write “", ...words(steps[t].token), `”, ${who} “`,
      ...words(sourceTokens[s]), `” a weight of ${w.toFixed(2)}.`);
  }

  // One step is chosen at a time, in the map and below it.
  function choose(step, column = state.column) {
    cellAt(state.step, state.column)?.setAttribute("tabindex", -1);
    Object.assign(state, { step, column });
    cellAt(step, column)?.setAttribute("tabindex", 0);
    for (const row of at("map").tBodies[0].rows) {
      row.classList.toggle("t-chosen", row.sectionRowIndex === step);
    }
    showStep();
  }

  // ---- the likeliest tokens ----

  function showStep() {
    const { steps } = state.view, step = steps[state.step];
    at("step").value = state.step + 1;
    at("step").disabled = !step;
    at("step-says").value = step ? `${state.step + 1} of ${steps.length}` : "";
    at("top").replaceChildren();
    at("so-far").textContent = "";
    if (!step) return;
    const before = steps.slice(0, state.step).map(({ token }) => token).join("");
    const text = element("span", { textContent: before.replaceAll("▁", " ").trim() });
    at("so-far").append(before ? "After " : "At the beginning", text);
    const rank = step.top.findIndex(([token]) => token === step.token);
    const rows = rank < 0 ? [...step.top, [step.token, step.p]] : step.top;
    at("top").append(...rows.map(([token, p]) => {
      const bar = element("i"), written = token === step.token;
      bar.style.setProperty("--w", `${100 * p}%`);
      const says = written ? `${percent(p)}, written` : percent(p);
      const go = element("button", { type: "button", disabled: written }, ...words(token));
      go.setAttribute("aria-label", `${token}, ${says}${written ? "" : ": go on from here"}`);
      go.onclick = () => {
        const before = steps.slice(0, state.step).map((one) => one.token);
        if (!state.busy) translate([...before, token]);
      };
      return element("li", { className: written ? "t-written" : "" },
        element("b", {}, go), bar, element("span", { textContent: says }));
    }));
  }

  // ---- listening ----

  // If the model is there already, a new choice shows at once what it changes.
  const changed = () => { if (loaded.has(chosen())) anew(); };

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    if (!state.busy) translate();
    else state.stop = true;
  });
  at("go").addEventListener("click", (event) => {
    if (event.detail > 1) event.preventDefault(); // a double click begins, and does not stop
  });
  at("source").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    if (!state.busy || tidy(at("source").value).slice(0, MOST) !== state.text) anew();
  });
  at("source").addEventListener("input", () => {
    if (state.busy) return;
    at("output").classList.add("t-stale");
    say("The English has changed. Press Translate.");
  });
  for (const radio of form.elements["t-model"]) radio.addEventListener("change", changeModel);
  for (const id of ["beam", "temperature", "seed"]) {
    at(id).addEventListener("input", showChoices);
    at(id).addEventListener("change", changed);
  }
  at("again").addEventListener("click", () => {
    at("seed").value = choices().seed + 1;
    anew();
  });
  for (const id of ["layer", "head"]) {
    at(id).addEventListener("change", () => {
      drawMap();
      choose(state.step);
      if (state.view.steps.length) tell(state.step, state.column);
    });
  }
  at("step").addEventListener("input", () => choose(Number(at("step").value) - 1));

  // A cell under the pointer is told; a cell with the focus is told and chosen.
  at("map").addEventListener("pointerover", ({ target }) => {
    if (target.dataset.step) tell(Number(target.dataset.step), Number(target.dataset.column));
  });
  at("map").addEventListener("focusin", ({ target }) => {
    const [step, column] = [Number(target.dataset.step), Number(target.dataset.column)];
    choose(step, column);
    tell(step, column);
  });
  at("map").addEventListener("keydown", (event) => {
    const { step, column } = state, length = Math.min(WIDE, state.view.sourceTokens.length);
    const moves = {
      ArrowUp: [step - 1, column], ArrowDown: [step + 1, column],
      ArrowLeft: [step, column - 1], ArrowRight: [step, column + 1],
      Home: [step, 0], End: [step, length - 1],
    };
    const cell = moves[event.key] && moves[event.key][1] >= 0 && cellAt(...moves[event.key]);
    if (moves[event.key]) event.preventDefault();
    cell?.focus?.();
  });

  box.addEventListener("scroll", fade, { passive: true });
  const resized = new ResizeObserver(fade);
  for (const one of [box, at("map")]) resized.observe(one);

  // Another model: its own examples. A sentence that the reader typed stays.
  function changeModel() {
    const typed = tidy(at("source").value), examples = Object.values(Translator.examples).flat();
    at("language").textContent = LANGUAGES[chosen().slice(-2)];
    showSize();
    listExamples();
    if (!typed || examples.some(({ source }) => source === typed)) {
      showExample(Translator.examples[chosen()][0]);
    } else {
      clear();
      say("Press Translate to see what the other model makes of it.");
      changed();
    }
  }

  const says = new URLSearchParams(location.search), text = says.get("text");
  at("source").value = "";
  take(says);
  changeModel();
  if (text) {
    take(says); // the example that is shown first has choices of its own
    const example = Translator.examples[chosen()].find(({ source }) => source === text);
    if (example && choices().beam === 4 && !choices().temperature) {
      showExample(example);
    } else {
      at("source").value = text;
      translate();
    }
  }
  showChoices();
}
