// From text to tokens and back, as `allyouneed.tokens` does it (chapter 1): byte-pair encoding,
// in which ▁ stands for the space before a word.
"use strict";
globalThis.Translator ??= {};

{
  const PAD = 0, UNK = 1, BOS = 2, EOS = 3; // the ids of the special tokens, in every vocabulary

  // Punctuation stands alone, with the ▁ before it. Where Python's tokenizer says \w it means
  // letters, marks, digits and connectors of all scripts; JavaScript's \w is only [A-Za-z0-9_].
  // The brackets make `split` keep what it splits at.
  const PUNCTUATION = /(▁?[^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}▁])/u;

  class Tokenizer {
    // `tokens`: id to token. `merges`: pairs "left right", the one that was learned first first.
    constructor(tokens, merges) {
      this.vocabulary = tokens;
      this.ids = new Map(tokens.map((token, id) => [token, id]));
      this.ranks = new Map(merges.map((pair, rank) => [pair, rank]));
    }

    // The pieces that merges do not cross: words, each with its ▁, and punctuation.
    pieces(text) {
      let line = text.replace(/\p{Surrogate}/gu, "\ufffd").normalize("NFC").replaceAll(" ", "▁");
      if (line && !line.startsWith("▁")) line = "▁" + line;
      const words = line.split(/(?=▁)/u);
      return words.flatMap((word) => word.split(PUNCTUATION)).filter((piece) => piece);
    }

    // Byte-pair encoding of one piece: of all neighbours, join those that were learned first.
    cut(piece) {
      const parts = [...piece]; // characters, not UTF-16 units: an emoji is one
      for (;;) {
        let best = Infinity, at = -1;
        for (let i = 0; i + 1 < parts.length; i++) {
          const rank = this.ranks.get(`${parts[i]} ${parts[i + 1]}`) ?? Infinity;
          if (rank < best) [best, at] = [rank, i];
        }
        if (at < 0) return parts;
        parts.splice(at, 2, parts[at] + parts[at + 1]);
      }
    }

    // The ids of a text, without BOS and EOS.
    encode(text) {
      const parts = this.pieces(text).flatMap((piece) => this.cut(piece));
      return parts.map((part) => this.ids.get(part) ?? UNK);
    }

    // The characters of a text that the model has never seen, each once.
    unknown(text) {
      const parts = this.pieces(text).flatMap((piece) => this.cut(piece));
      return [...new Set(parts.filter((part) => !this.ids.has(part)))];
    }

    // The text of ids up to EOS; special tokens give no text.
    decode(ids) {
      const end = ids.indexOf(EOS);
      const words = (end < 0 ? ids : ids.slice(0, end)).filter((id) => id > EOS);
      const [first = "", ...rest] = words.map((id) => this.vocabulary[id]);
      return first.replaceAll("▁", "") + rest.join("").replaceAll("▁", " ");
    }
  }

  Object.assign(Translator, { PAD, UNK, BOS, EOS, Tokenizer });
}
