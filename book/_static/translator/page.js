// The page of the translator: its controls, the map of the attention, the likeliest tokens.
//
// Whether it comes from an example or was made here, a translation is shown from one object, the
// view: {source, sourceTokens, text, steps}, where a step is {token, p, top, cross}.
// Texts are put in as text, never as markup.
"use strict";

{
  const { EOS, LANGUAGES, MOST, Ribbons, UNK, again, astray, kept, linked, madeUp, refusal, remarks, tidy, unsure } = Translator;
  const WIDE = 60; // tokens: the map shows no more, for a browser must draw each of its cells
  const KINDS = { encoder: "Encoder", decoder: "Decoder", cross: "Cross-attention" };
  const at = (id) => document.getElementById(`t-${id}`);
  const form = document.getElementById("translator");

  // What is loaded, shown and chosen.
  const loaded = new Map(); // name: {model, tokenizer}
  const state = { view: null, step: 0, column: 0, text: "", key: "", tried: new Map() };
  Object.assign(state, { busy: false, stop: false, again: false }); // see `anew`

  const chosen = () => form.elements["t-model"].value;
  const language = () => chosen().slice(-2);
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

  function viewOf(tokenizer, src, { ids, steps, ended = [] }, off = null) {
    const token = (id) => tokenizer.vocabulary[id];
    return {
      off,
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

  // The address says what is shown, so that a link shows the same. `beginning` as in `translate`.
  function keepAddress(beginning) {
    const { beam, temperature, seed } = choices(), url = new URL(location);
    const says = { model: chosen(), beam, text: tidy(at("source").value).slice(0, MOST) };
    if (temperature) Object.assign(says, { temperature, seed });
    if (offChosen()) says.off = offChosen();
    if (beginning) says.begin = beginning.join(" "); // a token has no space
    url.search = new URLSearchParams(says);
    history.replaceState(history.state, "", url);
  }

  // Choose what a link says. Anyone may have written it: what makes no sense is left out.
  function take(says) {
    const models = [...form.elements["t-model"]];
    const model = models.find(({ value }) => value === says.get("model"));
    if (model) model.checked = true;
    for (const id of ["beam", "temperature", "seed"]) {
      const number = parseFloat(says.get(id));
      if (Number.isFinite(number)) at(id).value = number;
    }
    switchOff(says.get("off") ?? "");
  }

  // The ids of a beginning; nothing if there is none, or no translation could begin so.
  function idsOf(beginning, tokenizer) {
    const ids = (beginning ?? []).map((token) => tokenizer.ids.get(token));
    const last = ids.length - 1;
    const fine = ids.every((id, i) => id > EOS || id === UNK || (id === EOS && i === last));
    return ids.length && fine ? ids : undefined;
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
  async function write(decoding, show) {
    let last = performance.now();
    for (;;) {
      const { value, done } = decoding.next();
      if (done) return value;
      if (performance.now() - last < 15) continue;
      if (value) show(value.ids);
      await breathe();
      if (state.stop) return value ?? null;
      last = performance.now();
    }
  }

  // What is the same for two translations if they are, and all heads are on.
  function keyOf(text, beginning = []) {
    const { beam, temperature, seed } = choices();
    return JSON.stringify([chosen(), text, beginning, temperature ? [temperature, seed] : beam]);
  }

  // Do something with the reader's sentence: `act({model, tokenizer, src, first, key, said})`. The
  // ids of the beginning are `first`, and what was remarked is `said`.
  async function work(act, beginning) {
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
      const said = remarks(at("source").value, name, tokenizer);
      showRemarks(said);
      if (why) {
        clear();
        return say(why);
      }
      const src = [...tokenizer.encode(text), EOS], first = idsOf(beginning, tokenizer);
      keepAddress(first && beginning);
      await act({ model, tokenizer, src, first, key: keyOf(text, first), said });
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

  // `beginning`: the tokens with which the translation shall begin, if any.
  const translate = (beginning) => work(async ({ model, tokenizer, src, first, key, said }) => {
    const off = headOf(offChosen());
    const whole = off && (await wholeFor(key, model, tokenizer, src, first));
    if (off && !whole) return say("Stopped before the head was switched off.");
    if (key !== state.key) clear(); // where a head alone is switched, the view stays till then
    writing(true);
    const start = performance.now();
    const decoding = decoder(off ? model.without(off) : model, src, first);
    const result = await write(decoding, (ids) => {
      at("output").textContent = tokenizer.decode(ids);
    });
    const seconds = (performance.now() - start) / 1000;
    if (off && (state.stop || !result)) {
      if (!state.again) switchOff("");
      show(whole, key);
      return say("Stopped: all heads are on.");
    }
    if (!result) return say("Stopped before the first token.");
    const view = viewOf(tokenizer, src, result, off);
    if (!off && !state.stop) state.whole = { key, view };
    show(view, key);
    const invented = state.stop ? [] : madeUp(state.text, view.text, chosen()); // no word is cut off
    const likeliest = !first && !off && !state.stop && !choices().temperature; // of its own choice, and whole
    const doubts = likeliest ? unsure(state.text, view.steps, chosen()) : [];
    showRemarks([...said, ...astray(view.text, language()), ...again(state.text, view.text, language()),
      ...invented, ...doubts]);
    const count = result.steps.length, rate = Math.round(count / seconds);
    if (first) choose(Math.min(first.length, count) - 1, 0);
    const how = state.stop ? "Stopped" : !first ? "Translated"
      : first.at(-1) === EOS ? "Ended where you chose" : "Gone on from your choice";
    say(`${how}: ${count} tokens in ${seconds.toFixed(2)} seconds, ${rate} a second.`);
  }, beginning);

  // What the model writes with all heads on: kept, for the heads are compared with it. Nothing if
  // the reader stopped it.
  async function wholeFor(key, model, tokenizer, src, first) {
    if (state.whole?.key === key) return state.whole.view;
    const result = await write(decoder(model, src, first), () => {});
    if (!result || state.stop) return null;
    state.whole = { key, view: viewOf(tokenizer, src, result) };
    return state.whole.view;
  }

  // What is being translated is not what is wanted any more: stop it, and begin again.
  function anew() {
    if (state.busy) Object.assign(state, { stop: true, again: true });
    else translate();
  }

  // The reader wants nothing more, nor what was to begin again.
  function stop() {
    Object.assign(state, { stop: true, again: false });
  }

  // While it changes with every token, a screen reader is asked to wait.
  function writing(now) {
    at("output").classList.toggle("t-writing", now);
    at("output").setAttribute("aria-busy", now);
  }

  function busy(now) {
    Object.assign(state, { busy: now, stop: false });
    at("go").textContent = now ? "Stop" : "Translate";
    at("try").textContent = now ? "Stop" : "Try each head";
    for (const radio of form.elements["t-model"]) radio.disabled = now;
  }

  // ---- showing ----

  function clear() {
    show({ sourceTokens: [], text: "", steps: [] });
  }

  // What is shown belongs to another sentence than the one that stands there now.
  function stale(now) {
    for (const id of ["output", "links"]) at(id).classList.toggle("t-stale", now);
  }

  // `key` as in `keyOf`.
  function show(view, key) {
    if (key && key !== state.key) Object.assign(state, { key, tried: new Map() });
    Object.assign(state, { view, step: 0, column: 0 });
    at("output").textContent = view.text;
    at("output").lang = language();
    stale(false);
    const nothing = !view.steps.length;
    at("links").parentElement.hidden = nothing;
    at("linked").textContent = POINT;
    links.show(view, language());
    for (const id of ["look", "next"]) at(id).classList.toggle("t-empty", nothing);
    at("step").max = Math.max(1, view.steps.length);
    drawMap();
    choose(0, 0);
    const cut = Math.max(view.sourceTokens.length, view.steps.length) > WIDE;
    at("says").textContent = nothing ? "Nothing is translated yet."
      : cut ? `The map shows the first ${WIDE} tokens.` : "";
    listEnded(view.ended ?? []);
    showHeads();
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
    for (const text of at("ended-list").querySelectorAll("b")) text.lang = language();
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
    showRemarks([...again(example.source, example.text, language()), ...unsure(example.source, example.steps, chosen())]);
    switchOff("");
    at("beam").value = 4;
    at("temperature").value = 0;
    showChoices();
    const key = keyOf(example.source);
    state.whole = { key, view: example };
    show(example, key);
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

  // Whether a head of the cross-attention that the map shows is switched off.
  function isOff(head) {
    const { off } = state.view;
    return off?.kind === "cross" && off.layer === Number(at("layer").value) && off.head === head;
  }

  // The weights of a step over the source: of one head, or the mean of all that are on.
  function weights(step) {
    const all = step.cross[Number(at("layer").value)], head = at("head").value;
    if (head !== "mean") return Array.from(all[Number(head)]);
    const heads = all.filter((_, h) => !isOff(h));
    return Array.from(heads[0], (_, s) => heads.reduce((sum, w) => sum + w[s], 0) / heads.length);
  }

  function drawMap() {
    const sourceTokens = state.view.sourceTokens.slice(0, WIDE);
    const steps = state.view.steps.slice(0, WIDE);
    listLayers(steps[0]);
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
  function listLayers(step) {
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
    const head = at("head").value, off = head !== "mean" && isOff(Number(head));
    const who = head === "mean" ? "all heads together give"
      : `head ${Number(head) + 1}${off ? ", which is off, still" : ""} gives`;
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

  // ---- what a head is for ----

  const radios = () => [...document.querySelectorAll("input[name='t-off']")];
  const offChosen = () => radios().find((radio) => radio.checked)?.value ?? "";

  // "cross.2.1" is head 1 in layer 2 of cross-attention, counted from 1 as in chapter 15.
  function headOf(name) {
    const [kind, layer, head] = name.split(".");
    return name ? { kind, layer: layer - 1, head: head - 1 } : null;
  }

  function called({ kind, layer, head }) {
    return `${KINDS[kind]}, layer ${layer + 1}, head ${head + 1}`;
  }

  // Choose a head, or none if there is no such head.
  function switchOff(name) {
    const all = radios();
    (all.find(({ value }) => value === name) ?? all[0]).checked = true;
  }

  // A radio button for each head of the model; an example says how many there are.
  function listHeads(step) {
    const layers = step.cross.length, heads = step.cross[0].length;
    at("heads").replaceChildren(...Object.entries(KINDS).map(([kind, title]) => {
      const rows = Array.from({ length: layers }, (_, i) => element("tr", {},
        element("th", { scope: "row", textContent: i + 1 }),
        ...Array.from({ length: heads }, (_, h) => {
          const value = `${kind}.${i + 1}.${h + 1}`, name = called(headOf(value));
          const radio = element("input", { type: "radio", name: "t-off", value });
          radio.setAttribute("aria-label", `Switch off: ${name}`);
          return element("td", {}, element("label", { title: name }, radio, element("span")));
        })));
      return element("table", {}, element("caption", { textContent: title }),
        element("tbody", {}, ...rows));
    }));
  }

  // Under the translation, and below with all heads on and without one.
  const POINT = "Point at a word or touch it, or go there and use the arrow keys.";
  const ribbons = (id, told) => {
    return new Ribbons(at(id), (sentence) => { at(told).textContent = sentence; });
  };
  const links = ribbons("links", "linked"), all = ribbons("all", "told");
  const rest = ribbons("rest", "told");

  // The translation with all heads on, and without the one that is off: which words differ?
  function compared(whole, view) {
    const [a, b] = [whole, view].map((one) => linked(one, language()).written);
    const { count, of, marks } = kept(a, b);
    return { changed: Math.max(...of) - count, stay: count, all: of[0], marks };
  }

  function showHeads() {
    const { view, whole, tried } = state, { off } = view;
    const result = off ? compared(whole.view, view) : null;
    if (result) tried.set(`${off.kind}.${off.layer + 1}.${off.head + 1}`, result.changed);
    const most = Math.max(3, ...tried.values());
    for (const radio of radios()) {
      const changed = tried.get(radio.value), cell = radio.nextElementSibling;
      if (!radio.value) continue;
      cell.textContent = changed ?? "";
      cell.style.setProperty("--w", `${Math.round(100 * (changed ?? 0) / most)}%`);
    }
    const empty = !view.steps.length;
    at("changed").replaceChildren(...(result ? verdict(off, result)
      : [empty ? "Nothing is translated yet." : "All heads are on."]));
    at("told").textContent = off ? POINT : "";
    for (const one of ["all", "rest"]) at(one).parentElement.hidden = !off;
    if (!off) return;
    all.show(whole.view, language(), result.marks[0]);
    rest.show(view, language(), result.marks[1]);
  }

  const counted = (n) => (n === 1 ? "1 word changes" : `${n} words change`);

  function verdict(off, { changed, stay, all }) {
    const head = element("b", { textContent: called(off) });
    if (!changed) return [head, " is off, and no word changes: the other heads do without it."];
    const which = `Of the ${all} that all heads write, ${stay} stay.`;
    return [head, ` is off: ${counted(changed)}. ${which}`];
  }

  // Each head off in turn, and how many words that changes.
  const tryEach = () => work(async ({ model, tokenizer, src, key }) => {
    const whole = await wholeFor(key, model, tokenizer, src);
    if (!whole) return say("Stopped.");
    switchOff("");
    keepAddress();
    show(whole, key);
    const heads = radios().map(({ value }) => value).filter(Boolean);
    for (const [i, name] of heads.entries()) {
      const off = headOf(name);
      const result = await write(decoder(model.without(off), src), () => {});
      if (!result || state.stop) return say(`Stopped after ${i} heads.`);
      state.tried.set(name, compared(whole, viewOf(tokenizer, src, result, off)).changed);
      showHeads();
      at("changed").textContent = `Tried ${i + 1} of ${heads.length} heads …`;
      await breathe();
    }
    const needless = heads.filter((name) => !state.tried.get(name)).length;
    const [dearest] = [...heads].sort((a, b) => state.tried.get(b) - state.tried.get(a));
    const most = needless === heads.length ? ""
      : ` At most ${counted(state.tried.get(dearest))}, as without ${called(headOf(dearest))}.`;
    at("changed").textContent = `${needless} of ${heads.length} heads can be switched off without `
      + `a word that changes.${most}`;
    say(`Tried ${heads.length} heads.`);
  });

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
      const ends = token === "<eos>"; // here the translation ends
      const shown = ends ? [element("em", { textContent: "the end" })] : words(token);
      const go = element("button", { type: "button", disabled: written }, ...shown);
      const does = written ? "" : ends ? ": end here" : ": go on from here";
      go.setAttribute("aria-label", `${ends ? "the end" : token}, ${says}${does}`);
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
    else stop();
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
    stale(true);
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
  at("without").addEventListener("change", anew);
  at("try").addEventListener("click", () => {
    if (state.busy) stop();
    else tryEach();
  });

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
    at("language").textContent = LANGUAGES[language()];
    listHeads(Translator.examples[chosen()][0].steps[0]);
    switchOff("");
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
    const plain = choices().beam === 4 && !choices().temperature && !offChosen();
    if (example && plain && !says.has("begin")) {
      showExample(example);
    } else {
      at("source").value = text;
      translate(says.get("begin")?.split(" "));
    }
  }
  showChoices();
}
