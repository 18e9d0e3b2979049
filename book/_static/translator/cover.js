// The first page: the translator at work on the reader's own sentence, with ribbons that grow as it
// writes. Until the reader asks for it, the page has this script alone and the picture is a still
// one; then come the other scripts, and the model.
"use strict";

{
  const NAME = "tatoeba-en-fr", BEAM = 4;
  const SCRIPTS = [
    "models", "words", "tokenizer", "transformer", "decoding", "weights", "remarks", "ribbons",
  ];
  const HERE = new URL(".", document.currentScript.src);
  const form = document.querySelector("form.try"), figure = document.querySelector("figure.cover");
  const input = form.elements.text, pause = (ms) => new Promise((go) => setTimeout(go, ms));

  function element(tag, properties = {}, ...children) {
    const node = Object.assign(document.createElement(tag), properties);
    node.append(...children);
    return node;
  }

  const bar = element("progress", { hidden: true, ariaLabel: "Loading the model" });
  const status = element("small", { className: "try-says", role: "status" });
  const say = (text) => { status.textContent = text; };
  form.append(bar, status);

  function script(name) {
    return new Promise((resolve, reject) => {
      const onerror = () => reject(new Error("It could not be fetched. Is there a network?"));
      const src = new URL(`${name}.js`, HERE);
      document.head.append(element("script", { src, async: false, onload: resolve, onerror }));
    });
  }

  // The model, fetched once; after a failure the next try begins anew.
  let coming = null;
  async function fetched() {
    await Promise.all(SCRIPTS.map(script));
    const { bytes } = Translator.models[NAME];
    say(`Loading the model, ${(bytes / 1e6).toFixed(1)} MB …`);
    Object.assign(bar, { max: bytes, value: 0, hidden: false });
    return Translator.load(NAME, (received) => { bar.value = received; });
  }
  function model() {
    coming ??= fetched().catch((error) => {
      coming = null;
      throw error;
    }).finally(() => { bar.hidden = true; });
    return coming;
  }

  // The figure, live: it moves up, under the reader's sentence.
  let ribbons = null;
  const text = element("b", { lang: "fr" }), told = element("p", { role: "status" });
  const more = element("a", { className: "cover-more" }, "what it might have written");
  const notes = element("p", { className: "cover-notes" });
  function live() {
    if (ribbons) return;
    const place = element("div");
    const caption = figure.querySelector("figcaption");
    figure.replaceChildren(place, caption);
    caption.replaceChildren(
      element("p", {}, "In French: ", text), notes, told,
      element("p", {}, "Written in your browser by the Transformer that Chapter 14 trains. The "
        + "wider a ribbon, the more of its attention: point at a word. See also ", more,
        ", and what each of its heads is for."),
    );
    form.after(figure);
    ribbons = new Translator.Ribbons(place, (sentence) => { told.textContent = sentence; });
  }

  function show({ tokenizer }, src, { ids, steps }) {
    const token = (id) => tokenizer.vocabulary[id];
    live();
    text.textContent = tokenizer.decode(ids);
    told.textContent = "";
    ribbons.show({
      sourceTokens: src.map(token),
      steps: steps.map(({ token: id, cross }) => ({ token: token(id), cross })),
    }, "fr");
  }

  // What the reader tried is there again when the page is.
  const kept = history.state?.sentence;

  // The newest sentence is translated; one that is at work when it comes is left.
  let newest = 0, asked = false;
  async function translate() {
    const mine = ++newest;
    asked = true;
    try {
      const loaded = await model(), { tokenizer } = loaded;
      if (mine !== newest) return;
      form.classList.add("loaded");
      const typed = Translator.tidy(input.value), sentence = typed.slice(0, Translator.MOST);
      const why = sentence ? Translator.refusal(sentence, tokenizer) : "Type an English sentence.";
      say(why ?? "");
      if (why) return;
      history.replaceState({ ...history.state, sentence: typed }, "");
      const src = [...tokenizer.encode(sentence), Translator.EOS];
      const decoding = Translator.beamSearch(loaded.model, src, BEAM);
      const begun = performance.now();
      for (let last = begun; ;) {
        const { value, done } = decoding.next(), now = performance.now();
        if (value && (done || (now - begun > 300 && now - last > 15))) show(loaded, src, value);
        if (done) break;
        if (now - last < 15) continue;
        last = now;
        await pause(0);
        if (mine !== newest) return;
      }
      const said = Translator.remarks(typed, NAME, tokenizer);
      const { again, astray, madeUp } = Translator, french = text.textContent;
      notes.textContent = [...said, ...astray(french, "fr"), ...again(sentence, french, "fr"),
        ...madeUp(sentence, french, NAME)].join(" ");
      const shown = new URLSearchParams({ model: NAME, beam: BEAM, text: sentence });
      if (!more.href && !kept) figure.scrollIntoView({ block: "nearest" });
      more.href = `translator.html?${shown}`;
    } catch (error) {
      asked = false;
      say(error.message);
    }
  }

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    translate();
  });
  input.addEventListener("input", async () => {
    const mine = ++newest; // once asked, the ribbons follow what is typed
    await pause(250);
    if (asked && mine === newest) translate();
  });
  figure.querySelector(".to-try")?.addEventListener("click", (event) => {
    event.preventDefault();
    input.focus();
    input.select();
  });
  if (kept) {
    input.value = kept;
    form.after(figure); // before place.js counts what stands above the reader
    translate();
  }
}
