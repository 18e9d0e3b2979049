// What a reader should be told about a text before it is translated.
"use strict";
globalThis.Translator ??= {};

{
  const { UNK } = Translator;
  const LONG = 30; // tokens: of a hundred sentences in training, fewer than one was longer
  const MOST = 500; // characters

  // As the data was cleaned that the models know: soft hyphens, zero-width spaces and other marks that
  // nobody sees go, line breaks and runs of spaces become one space. And the signs that phones put in
  // the place of plain ones become those again: of the data's English, hardly a sentence has them.
  // `plain_signs` in allyouneed/data.py reads them alike.
  const tidy = (text) => text.replace(/[\u00ad\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g, "")
    .replace(/[‘’‚‛`´′]/g, "'").replace(/[“”„‟″]/g, '"').replace(/[‐‑]/g, "-").replaceAll("…", "...")
    .replace(/\s+/g, " ").trim();

  // What the reader should know about a text before trusting what the model called `name` makes of
  // it: sentences, none if all is well.
  function remarks(typed, name, tokenizer) {
    const whole = tidy(typed), text = whole.slice(0, MOST);
    const found = [], ids = tokenizer.encode(text), unknown = tokenizer.unknown(text);
    const isWhole = (word) => tokenizer.ids.has(`▁${word}`), small = (word) => word.toLowerCase();
    if (/<[a-z!/][^>]*>/i.test(text)) found.push("Markup is read as plain text, and never run.");
    if (unknown.length) {
      const named = unknown.slice(0, 6).map((character) => {
        const code = character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0");
        return `“${character}” (U+${code})`;
      });
      const more = unknown.length > 6 ? ` and ${unknown.length - 6} more` : "";
      found.push(`Unknown to the model: ${named.join(", ")}${more}. <unk> stands in their place.`);
    }
    if (refusal(text, tokenizer)) return found; // it will not be translated
    const letters = text.match(/\p{L}/gu) ?? [], latin = text.match(/\p{Script=Latin}/gu) ?? [];
    const capitals = text.match(/\p{Lu}/gu) ?? [];
    if (!letters.length) {
      found.push(`There are no words here, only ${/\d/.test(text) ? "numbers" : "signs"}. ` +
        "The model has read sentences, and may make one up.");
    } else {
      // either all is shouted or a word that the model knows small; NASA in a sentence may stay
      const shouted = text.match(/\p{L}+/gu).filter((word) => /^\p{Lu}{3,}$/u.test(word));
      const inPieces = shouted.some((word) => isWhole(small(word)) && !isWhole(word));
      if (inPieces || (letters.length > 2 && capitals.length > 0.6 * letters.length)) {
        found.push("The model has read hardly any words in capitals, and cuts these into pieces " +
          "that mean little to it. Write them small.");
      }
    }
    if (letters.length > 2 * latin.length) {
      found.push("This is hardly English. The model knows English alone, and will guess.");
    }
    if (ids.length > LONG) {
      found.push(`${ids.length} tokens is long. The model has seen few sentences of more than ` +
        `${LONG}, and may lose the thread.`);
    }
    if (whole.length > MOST) {
      found.push(`At most ${MOST} characters are read. What comes after them is left out.`);
    }
    const [, first] = text.match(/^\P{L}*(\p{Lu}\p{Ll}+)(?!\p{L})/u) ?? [];
    if (latin.length && strange(text, name)) {
      found.push("This is far from what the model has read: its words are rarer " +
        "there than those of 98 in a hundred of its own sentences. Do not trust what it writes.");
    } else if (latin.length && unread(text, name).length > 1) {
      const named = unread(text, name).map((word) => `“${word}”`);
      const last = named.pop();
      found.push(`The model has hardly ever read ${named.join(", ")} and ${last}. ` +
        "What it makes of them is a guess.");
    } else if (first && isWhole(small(first)) && !begins(first, name)) {
      const tried = text.length > 80 ? `${small(first)} …` : text.replace(first, small(first));
      found.push(`Hardly a sentence that the model has read begins with “${first}”, and with a ` +
        `capital it may not know the word. Compare “${tried}”`);
    }
    return found;
  }

  // What the reader should know about what was written in French: "la" is "l'" before a vowel, and
  // so are others. Not so after a hyphen, nor before "onze", "oui", "un" or a letter by its name.
  const VOWELS = "aàâæeéèêëiîïoôœuùû";
  const ELISION = new RegExp("(?:^|[^-\\p{L}\\p{N}'’])(([Ll]a|(?:[DdJjLlMmNnSsTt]|[Qq]u)e) "
    + "(?!(?:[Oo]nz\\p{L}*|[Oo]ui|[Uu]ne?|\\p{Lu})(?!\\p{L}))"
    + `[${VOWELS}${VOWELS.toUpperCase()}]\\p{L}*)`, "u");
  function astray(written, language) {
    const [, pair, word] = (language === "fr" && written.match(ELISION)) || [];
    return pair ? [`“${pair}” cannot be French: before a vowel “${word}” becomes ` +
      `“${word.slice(0, -1)}'”. The model has lost its way here; try other words.`] : [];
  }

  // What the reader should know about what was written twice in French, where the English repeats no word of four letters:
  // a word of five letters, or two words side by side. Of what people wrote hardly anything is so, and of
  // what the model writes so nearly all is wrong.
  const SHORTEST = { once: 4, twice: 5, pair: 6 };
  function again(source, written, language) {
    if (language !== "fr") return []; // German has "in einem Hemd auf einem Rad"
    const all = (text) => text.normalize("NFC").toLowerCase().match(/\p{L}+/gu) ?? [];
    const repeated = (list) => list.filter((one, i) => list.indexOf(one) < i);
    if (repeated(all(source)).some((word) => word.length >= SHORTEST.once)) return [];
    const words = all(written), pairs = words.slice(1).map((word, i) => `${words[i]} ${word}`);
    const twice = repeated(words).filter((word) => word.length >= SHORTEST.twice);
    const beside = repeated(pairs).filter((pair) => pair.length > SHORTEST.pair);
    const [said] = [...twice, ...beside];
    return said ? [`“${said}” is written twice, and the English repeats no such word. The model has probably lost ` +
      "its way here; try other words."] : [];
  }

  // What the reader should know about words written that no translation in training has, but for those
  // that stand in the source: names. One in ten of them falls upon the place of a word that was read,
  // and goes unremarked; see tools/translator_words.py.
  const PLACES = 262139;
  const read = new Map(); // name: bytes
  function wasRead(word, name) {
    if (!read.has(name)) {
      read.set(name, Uint8Array.from(atob(Translator.words[name].written), (one) => one.charCodeAt(0)));
    }
    let place = 2166136261;
    for (const letter of word) place = Math.imul(place ^ letter.codePointAt(0), 16777619);
    place = (place >>> 0) % PLACES;
    return read.get(name)[place >> 3] >> (place & 7) & 1;
  }
  const lettersOf = (text) => new Set(text.normalize("NFC").toLowerCase().match(/\p{L}+/gu));
  const LANGUAGES = { de: "German", fr: "French" };
  function madeUp(source, written, name) {
    const given = lettersOf(source);
    const strangers = [...lettersOf(written)].filter((word) => !given.has(word) && !wasRead(word, name));
    if (!strangers.length) return [];
    const [are, them] = strangers.length > 1 ? ["are", "them"] : ["is", "it"];
    const named = strangers.slice(0, 3).map((word) => `“${word}”`).join(", ");
    return [`${named} ${are} in none of the ${LANGUAGES[name.slice(-2)]} sentences that the model has ` +
      `read. It may have made ${them} up.`];
  }

  // What the reader should know about a translation whose tokens the model itself held for unlikely: the
  // geometric mean of their probabilities. Of held-out sentences of its own kind fewer than one in ten fall
  // below this, and these are translated worse than the others; short greetings fall below it more often.
  // Of a sentence with a word that it has hardly ever read, it is to be surer: below that nearly all is wrong.
  const SURE = { "tatoeba-en-fr": 0.6, "multi30k-en-de": 0.45 }, SURER = 0.1;
  function unsure(source, steps, name) {
    const mean = Math.exp(steps.reduce((sum, { p }) => sum + Math.log(p), 0) / steps.length);
    const rare = unread(source, name), limit = SURE[name] + (rare.length ? SURER : 0);
    const told = rare.length === 1 ? `has hardly ever read “${rare[0]}” and ` : ""; // of more, see `remarks`
    const share = (p) => `${Math.round(100 * p)}\u00a0%`;
    return mean < limit ? [`The model ${told}is unsure here: in the mean it gave each token that it wrote ` +
      `${share(mean)}, and where it gives less than ${share(limit)}, it is often wrong.`] : [];
  }

  // Whether a text's words are rare in what a model has read: the mean of
  // log2(all words / times this word occurs), against a limit that tools/translator_words.py sets.
  // Of one word or two that is no mean: "Goodbye." is no stranger for being a rare sentence.
  const levels = new Map(); // name: Map of word: log2 of its count, rounded down
  function level(name) {
    if (!levels.has(name)) {
      const all = Translator.words[name].words.flatMap((group, k) =>
        group.split(" ").map((word) => [word, k]));
      levels.set(name, new Map(all));
    }
    return levels.get(name);
  }
  const wordsOf = (text) =>
    text.toLowerCase().replaceAll("’", "'").match(/\p{L}+(?:'\p{L}+)*/gu) ?? [];
  function strange(text, name) {
    const { total, limit } = Translator.words[name];
    const words = wordsOf(text);
    if (words.length < 3 && words.every((word) => level(name).has(word))) return false;
    const bits = words.map((word) => Math.log2(total) - (level(name).get(word) ?? 0));
    return bits.reduce((sum, one) => sum + one, 0) > limit * bits.length;
  }

  // The words, each once, that a model has read so rarely that they are not even counted.
  const unread = (text, name) =>
    [...new Set(wordsOf(text))].filter((word) => !level(name).has(word));

  // Whether sentences that a model has read begin with a word, written so.
  const begins = (word, name) => Translator.words[name].first.split(" ").includes(word);

  // Why a text cannot be translated, or nothing.
  function refusal(text, tokenizer) {
    const blank = new Set([UNK, tokenizer.ids.get("▁")]);
    if (tokenizer.encode(text).some((id) => !blank.has(id))) return null;
    return "The model knows none of these characters, so there is nothing to translate.";
  }

  Object.assign(Translator, { LANGUAGES, MOST, tidy, remarks, astray, again, madeUp, unsure, refusal });
}
