// The search: sections, words of the glossary, exercises and exported names of the book, those first
// that a reader is likeliest to mean. `BookSearch.rank` does it; the rest shows what it finds.
//
// An entry counts more for a word in its title than for one in its text, and rare words count more
// (BM25, with titles as a field of their own). What book/search.toml keeps for a page is such a field,
// too, and lifts the page the more, the more a query is like one of its phrases. A word of the glossary
// points to the chapter that makes it. Chapters come before the package's page, unless the query is
// written as a name in code is: `beam_search`, `MultiHeadAttention`.
"use strict";

const BookSearch = (() => {
  const WEIGHT = {
    chapter: 1, project: 0.5, exercise: 0.3, term: 0.12, name: 0.3, symbol: 0.5, glossary: 0.4, page: 0.5, api: 0.15,
  };
  const [HEAD, PAGE, CODE, ASKED, KEPT] = [4, 1.5, 0.2, 4, 0.6]; // beside a word in the text
  const CHAPTER = /([^/]+)\.html/;
  const NAME = /[\p{L}\p{N}]([_(]|\.\p{L})|\p{Ll}\p{Lu}/u; // a query that is written as a name in code is
  const THEIRS = /(?<![\p{L}\p{N}_.])(?:(?:torch|nn|F|functional|optim|Tensor)\.)+(?=[A-Za-z])/u; // PyTorch's: nn.Linear
  const SIDE = /^(exercises|the code so far|further reading)$/i; // they name much, and explain little
  const SAME = { // what people type, and the book's word for it
    "\\[(mask|cls|sep)\\]": "$1 token", eq: "equation", eps: "epsilon", rope: "rotary", kv: "key value", bpe: "byte pair",
    bptt: "backpropagation through time", ln: "layer norm", hf: "hugging face", ffn: "feed forward",
    mha: "multi head attention", multihead: "multi head", mlm: "masked language model", ddp: "data parallel",
    nmt: "translation", sqrt: "root", layernorm: "layer normalisation",
    batchnorm: "batch normalisation", "positional embedding": "positional encoding",
    "position embedding": "positional encoding", "sliding window": "windowed attention",
    nucleus: "top p", "weight tying": "shared embeddings", "tied weights": "shared embeddings",
    "tied embeddings": "shared embeddings", "(huge|too big)": "large", tiny: "small",
    "transformer ((neural )?network|model|ai)(?=\\W*($|basics|explained|tutorial|overview))": "transformer",
    "rotary embeddings": "rotary", tokeniser: "tokenizer",
    tokenization: "token", "skip connection": "residual connection", warmup: "warm up",
    moe: "mixture of experts", lr: "learning rate", "pre-ln": "pre norm", "post-ln": "post norm", prenorm: "pre norm", postnorm: "post norm",
  };
  const CLIPPED = { // words as they are cut short; a name in code keeps them: attn_mask, nn.init, len(
    attn: "attention", "pos enc|pe": "positional encoding", ff: "feed forward", "pos(?! tag)": "positional",
    params: "parameters", param: "parameter", num: "number", seq: "sequence", len: "length",
    std: "standard deviation", "ckpt(s?)": "checkpoint$1", val: "validation", "embe?d?(s?)": "embedding$1", enc: "encoder", dec: "decoder",
    temp: "temperature", concat: "concatenate", init: "initialization", "res(?= conn| stream)": "residual", resid: "residual", dims: "dimensions",
    stats: "statistical", mem: "memory", avg: "average", "spec(?= dec)": "speculative", multigpu: "multi gpu", ffw: "feed forward",
    qkv: "queries keys values", "q,? k,? (and )?v": "queries keys values", "log ?prob(s?)": "log probability", "(?<!-)en[- ]de": "english to german",
    "(?<!-)en[- ]fr": "english to french", "pretrain(ed|ing|s)?": "pre train$1", autoregressive: "auto regressive", "maths?(?!\\.)": "mathematics",
    eqn: "equation", "fig(?=\\.? ?\\d)": "figure", "tab(?=\\.? ?\\d)": "table", "sec(?=\\.? ?\\d)": "section",
  };
  const SPOKEN = Object.entries(CLIPPED).map(([from, to]) => [new RegExp(`(?<![\\p{L}\\p{N}_.])(?:${from})(?![\\p{L}\\p{N}_(])`, "gu"), to])
    .concat(Object.entries(SAME).map(([from, to]) => [new RegExp(`(?<![\\p{L}\\p{N}])${from}(?![\\p{L}\\p{N}])`, "gu"), to]));
  const spoken = (text) => SPOKEN.reduce((all, [from, to]) => all.replace(from, to), text);
  const SHORT = { oov: "out of vocabulary" }; // first letters of what is no term of the glossary
  const stemmer = new Stemmer();
  const stems = new Map();
  // Words of a question, which say nothing of what it is about.
  const ASKING = new Set(
    ("why what how when which who whose where whats whys hows do does did dont doesnt didnt is isnt arent wont cannot cant " +
      "can could should would may might must am were been has have had we you i me my your our us im ive from so than any " +
      "some need needed work works difference between vs versus et al know knows mean means stands signify use used using " +
      "get gets got give gives make makes happens thing things something please help question about like want during via actually " +
      "exactly really only own forgot forgotten just simply explain explained understand transformer transformers").split(" ").map(stem),
  );
  // Words that say in which form an answer is wanted: beside its subject they count little.
  const FORM = new Set(
    ("role purpose definition tutorial intuition example basics simple formula advantages disadvantages drawbacks " +
      "benefits problem idea behind concept bug implementation visualised visualization diagram picture " +
      "overview summary invented proposed introduced beginners dummies detail wrong students pupils teachers lecture slides " +
      "homework quiz full complete entire evidence results").split(" ").map(stem),
  );
  const ORDERS = new Set("define describe derive discuss outline state sketch draw prove show compare implement visualise"
    .split(" ").map(stem)); // where a query begins with one
  const TAILS = new Set(["code", "python", "pytorch", "paper", "lecture"].map(stem)); // where it ends with one
  const LIGHT = 0.15, HOME = 1.8;
  const FIELD = new RegExp("(?<=\\S\\s+)(" + [
    "in (nlp|ai|llms?|(large )?language models|natural language processing|(deep|machine) learning|(deep )?neural net(work)?s)",
    "((deep|artificial) )?neural net(work)?s?", "step by step|line by line|from scratch",
    "(an? )?(simple|easy|short|intuitive) explanation", "(an? )?(numerical|worked|simple) examples?",
  ].join("|") + ")\\W*$", "i"); // so does the end of a query, unless it is kept for a page
  const THING = /^transform/; // of these words one that is looked for, too: nn.Transformer
  let entries = [], lengths = 0;
  const counts = new Map(); // in how many entries a stem occurs
  const known = new Set(); // the phrases of book/search.toml
  const kept = new Map(); // in how many of a page's phrases a stem occurs
  const spread = new Map(); // how few pages have it
  const written = new Map(); // how often a word stands in the book, as it is written

  // "Normalization" and "normalisation" are one word, so are "token" and "tokens".
  function stem(word) {
    if (!stems.has(word)) {
      const one = word.replace(/is(e[srd]?|ing|ations?)$/, "iz$1");
      const agent = one.match(/^([a-z]{4,}izer|[a-z]+coder)s?$/); // a tokenizer is no token, a decoder no decoding
      stems.set(word, agent ? agent[1] : /^[a-z]+$/.test(one) ? stemmer.stemWord(one) : one);
    }
    return stems.get(word);
  }

  const letters = (word) => [...word].sort().join("");
  const GREEK = { α: "alpha", β: "beta", γ: "gamma", ε: "epsilon", ϵ: "epsilon", λ: "lambda", μ: "mu", σ: "sigma", θ: "theta", τ: "tau", η: "eta" };
  const split = (text) => text.toLowerCase().replace(/[αβγεϵλμσθτη]/g, (sign) => GREEK[sign]).match(/\d+(\.\d+)+(?!\p{L})|[\p{L}\p{N}_]+/gu) ?? [];

  // Words in lower case; of a_name_in_code, the whole and its parts.
  function words(text) {
    return split(text).flatMap((word) => {
      const parts = word.includes("_") ? word.split("_").filter((part) => part.length > 1) : [];
      return [word, ...parts].map(stem);
    });
  }

  const bare = (title) => title.toLowerCase().replace(/^(the|an?|\d+\.) /, "").trim();

  const tally = (list) => {
    const found = new Map();
    for (const word of list) found.set(word, (found.get(word) ?? 0) + 1);
    return found;
  };
  const plain = (text) => ` ${split(text).map(stem).join(" ")} `;

  // Whether one letter is too many, missing or another, or two neighbours have changed places.
  function near(a, b) {
    if (a.length > b.length) return near(b, a);
    let i = 0;
    while (i < a.length && a[i] === b[i]) i++;
    if (a.length < b.length) return a.slice(i) === b.slice(i + 1);
    return a.slice(i + 1) === b.slice(i + 1) ||
      (a[i] === b[i + 1] && a[i + 1] === b[i] && a.slice(i + 2) === b.slice(i + 2));
  }

  const initials = (term) => split(term).map((word) => word[0]).join("");

  // Two words that the book has side by side, where they are typed as one: "beamsearch", "reducescatter".
  function apart(word) {
    const cuts = Array.from(word).slice(3, -2).map((_, i) => [word.slice(0, i + 3), word.slice(i + 3)]);
    const known = cuts.filter((pair) => pair.every((one) => written.has(one)));
    const beside = (pair) => entries.filter(({ flat }) => flat.text.includes(` ${pair.map(stem).join(" ")} `)).length;
    const often = known.map((pair) => [pair.join(" "), beside(pair)]).filter(([, n]) => n);
    return often.sort((a, b) => b[1] - a[1])[0]?.[0];
  }

  // One word that the book has, where it is typed as two that the book has not side by side: "soft max".
  function together(pair, one, other) {
    const all = [one, other].map((word) => stem(word.toLowerCase()));
    const joint = (one + other).toLowerCase();
    const beside = ` ${all.join(" ")} `;
    const has = ({ flat, asked }) => [flat.text, flat.head, ...asked.map((words) => ` ${words.join(" ")} `)].some((text) => text.includes(beside));
    return written.has(joint) && !entries.some(has) ? joint : pair;
  }

  // A name in code that the book has not, as the words of which it is made: PagedAttention, num_beams.
  function parted(name) {
    const parts = name.replace(/_+/g, " ").replace(/(\p{Ll})(?=\p{Lu})/gu, "$1 ").trim();
    const all = split(parts);
    return written.has(name.toLowerCase()) || counts.has(stem(name.toLowerCase())) || !all.some((one) => one.length > 2 && written.has(one)) ? name : parts;
  }

  // A query with each word that the book has not, nor one that begins so, as the book has it: as the
  // term of the glossary of which it has the first letters, as two words, or as one that differs by a slip.
  function spelled(query) {
    return query.replace(/[\p{L}\p{N}]*(\p{Ll}\p{Lu}|[\p{L}\p{N}]_[\p{L}\p{N}])[\p{L}\p{N}_]*/gu, parted)
      .replace(/(\p{L}{3,}) (\p{L}{3,})/gu, together).replace(/[\p{L}\p{N}]{3,}/gu, (typed) => {
      const word = typed.toLowerCase();
      if (written.has(word) || spoken(word) !== word) return typed;
      const two = word === typed && apart(word); // "crossattention", though a name in code is CrossAttention
      if (two) return two;
      if (counts.has(stem(word))) return typed;
      const terms = entries.filter(({ kind }) => kind === "term").map(({ head }) => head.toLowerCase());
      const term = SHORT[word] ?? terms.find((one) => initials(one) === word);
      if (term) return term;
      const all = [...written.keys()];
      if (word.length < 4 || /\d/.test(word) || all.some((one) => one.startsWith(word))) return typed;
      const close = all.filter((one) => one.length > 3 && Math.abs(one.length - word.length) < 2 && near(word, one));
      // "nrom": norm before from; and a slip at a word's first letter is rare: "prunning", pruning before running
      const likely = (one) => [letters(one) === letters(word), one[0] === word[0], written.get(one)];
      const better = (a, b) => b[1] - a[1] || b[2] - a[2] || b[3] - a[3];
      return close.map((one) => [one, ...likely(one)]).sort(better)[0]?.[0] ?? typed;
    });
  }

  function receive(pages) {
    for (const [address, chapter, title, list, asked] of pages) {
      list.forEach(([anchor, head, kind, text, code, leads], i) => {
        const entry = { address, anchor: i ? anchor : "", chapter, page: title, head, kind, text, leads };
        entry.asked = (asked[entry.anchor] ?? []).map(meant);
        entry.told = entry.asked.map((all) => all.filter((word) => !ASKING.has(word))).map((some, i) => some.length ? some : entry.asked[i]);
        entry.in = {
          head: tally(words(head)), text: tally(words(text)), code: tally(words(code)),
          page: tally(words(title)),
        };
        entry.size = text.length;
        entry.flat = { head: plain(head), text: plain(text), title: plain(bare(head)) };
        entries.push(entry);
        lengths += entry.size;
        for (const word of split(`${head} ${text} ${asked[entry.anchor] ?? ""}`)) written.set(word, (written.get(word) ?? 0) + 1);
        const all = new Set(["head", "text", "code"].flatMap((field) => [...entry.in[field].keys()])
          .concat(entry.asked.flat()));
        for (const one of all) counts.set(one, (counts.get(one) ?? 0) + 1);
      });
      const phrases = entries.slice(-list.length).flatMap((entry) => entry.asked);
      kept.set(address, tally(phrases.flatMap((all) => [...new Set(all)])));
      for (const all of phrases) known.add(all.join(" "));
    }
  }

  // The word, or those that begin with it: "norm" finds "normalisation", for less.
  function matches(word) {
    if (counts.has(word) || word.length < 3) return new Map([[word, 1]]);
    const longer = [...counts.keys()].filter((one) => one.startsWith(word));
    return new Map(longer.map((one) => [one, 0.7]));
  }

  const rare = (one) => Math.log(1 + (entries.length + 0.5) / ((counts.get(one) ?? 0) + 0.5));

  // A word that is kept for a page counts less where many pages have it.
  function keeps(page, word) {
    const n = kept.get(page).get(word);
    if (!n) return 0;
    if (!spread.has(word)) spread.set(word, Math.log(1 + kept.size / [...kept.values()].filter((one) => one.has(word)).length));
    return n / (n + 2) * spread.get(word);
  }

  // How like a query is to what is kept for an entry: the cosine with the phrase that is nearest to it.
  function likeness(entry, asked, terms, weigh) {
    const weight = (list) => list.reduce((sum, word) => sum + weigh(word) * rare(word), 0);
    const own = weight(asked);
    return Math.max(0, ...entry.told.map((told) => {
      const shared = told.filter((word) => terms.some((forms) => forms.has(word)));
      return shared.length && weight(shared) / Math.sqrt(weight(told) * own);
    }));
  }

  // Words of a query that ask nothing there: "only" of the term "decoder-only", and "need" of "what do I
  // need to know", which is kept, and has no other words.
  function firmly(asked) {
    const all = ` ${asked.join(" ")} `;
    const terms = entries.filter(({ kind }) => kind === "term").map(({ flat }) => flat.head.trim().split(" "));
    const asking = [...known].map((one) => one.split(" ")).filter((one) => one.length > 2 && one.every((word) => ASKING.has(word)));
    const inside = [...terms, ...asking].filter((one) => one.length > 1 && all.includes(` ${one.join(" ")} `));
    return new Set(inside.flat());
  }

  // What is kept, where words of a question stand around it: "attention is all you need, explained"
  function within(asked) {
    for (let from = 0; from < asked.length - 1 && (!from || ASKING.has(asked[from - 1])); from++) {
      for (let to = asked.length; to > from + 1 && (to === asked.length || ASKING.has(asked[to])); to--) {
        if (known.has(asked.slice(from, to).join(" "))) return asked.slice(from, to);
      }
    }
    return asked;
  }

  // Of what is kept for a page and has this word, the share that is asked for: of "query vector" a half.
  function asks(entry, word, terms) {
    const shares = entry.asked.filter((all) => all.includes(word))
      .map((all) => all.filter((part) => terms.some((forms) => forms.has(part))).length / all.length);
    return Math.max(0, ...shares);
  }

  function score(entry, terms, weights, phrase, glossary, share, named, foreign) {
    let sum = 0, seen = 0, all = 0;
    const long = entry.size / (lengths / entries.length);
    for (const [i, forms] of terms.entries()) {
      let best = 0;
      for (const [form, worth] of forms) {
        const n = entry.in.text.get(form) ?? 0;
        const field = (n * 2.2) / (n + 1.2 * (0.4 + 0.6 * long)) +
          HEAD * (entry.in.head.has(form) ? entry.in.head.size ** -0.5 : 0) + PAGE * (entry.in.page.has(form) ? 1 : 0) +
          (foreign ? 8 : 1) * CODE * (entry.in.code.has(form) ? 1 : 0) + ASKED * asks(entry, form, terms) +
          KEPT * keeps(entry.address, form);
        best = Math.max(best, worth * rare(form) * field);
      }
      sum += weights[i] * best;
      all += weights[i];
      if (best) seen += weights[i];
    }
    if (!seen) return 0;
    const chapter = entry.address.match(CHAPTER)[1];
    sum *= (seen / all) ** (glossary.get(chapter) > 2 ? 1 : 2);
    if (!entry.anchor && entry.flat.head.includes(phrase)) sum *= 1.6; // the title of a chapter
    if (entry.flat.title === phrase) sum *= 2.2;
    else if (entry.flat.head.includes(phrase)) sum *= 1.4;
    else if (entry.flat.text.includes(phrase)) sum *= 1.25;
    if (!entry.anchor && bare(entry.head) === named) sum *= 3; // a page by its name, not only its stem
    if (glossary.has(chapter)) sum *= glossary.get(chapter);
    if (SIDE.test(entry.head)) sum *= 0.35;
    if (chapter === "00_overview") sum *= 0.75; // each of its parts has its chapter
    return sum * WEIGHT[entry.kind] * (1 + 1.5 * (share.get(entry.address) ?? 0));
  }

  const WITHOUT = /\bif (i|we|you) (forgot|forget|omit|skip|leave out|left out)( to)?\b/g; // what follows is meant

  // The stems of a query, in the book's words, with "of" and "the".
  function said(query) {
    const asked = query.toLowerCase().replace(/['’]/g, "").replace(/\bhow (many|much)\b/g, "how").replace(WITHOUT, "");
    return split(spoken(asked));
  }

  const meant = (query) => said(query).filter((word, _, all) => all.length < 2 || !stopwords.includes(word)).map(stem);
  const joined = (name) => name.toLowerCase().replace(/[^a-z0-9]/g, ""); // Multi-head attention, MultiheadAttention

  // Beside a name in code these say nothing: "nn.MultiheadAttention equivalent", "MultiHeadAttention class".
  const ASIDE = /\s(class|function|source|code|equivalent|implementation|examples?|usage|docs|documentation|speedup)(?!\S)/gi;
  const BEFORE = /^\s*compar(e|ed|ison)\s+(with|to|of)\s+(?=(torch|nn|F)\.)/i; // "compare with nn.Transformer"

  const NUMBERS = ("zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen " +
    "seventeen eighteen nineteen twenty").split(" ");
  const NUMBERED = new RegExp("(?<![\\p{L}\\p{N}])(?:(?:in|of|from|to) )?(?:chapter|chap\\.?|ch\\.?|notebook) ?" +
    `(\\d+|${NUMBERS.join("|")})(?![\\p{L}\\p{N}]|\\.\\d)`, "giu");
  const EXERCISE = /(?<!\p{L})(?:exercise|ex\.?|check)[ (]*["']?(\d+)\.(\d+)(?!\d)/iu;

  // The places of a chapter that is asked for by its number: "chapter 7", "masks in chapter 8".
  function numbered(query) {
    const found = [...query.matchAll(NUMBERED)];
    if (found.length !== 1 || entries.some(({ flat }) => flat.head.includes(plain(query)))) return null; // "Chapter 4 as a special case"
    const [all, one] = found[0];
    const number = /\d/.test(one) ? Number(one) : NUMBERS.indexOf(one.toLowerCase());
    const there = entries.filter(({ address, chapter }) => number ? chapter === number : address.includes("/00_"));
    if (!there.length) return null;
    const rest = query.replace(all, " ").trim();
    const ranked = likeliest(rest);
    const inside = ranked.filter(({ entry }) => there.includes(entry)) // whoever knows the chapter looks for a place in it
      .map(({ entry, score }) => ({ entry, score: entry.anchor ? score : score / 2 })).sort((a, b) => b.score - a.score);
    const subject = inside.length && meant(rest).some((word) => !ASKING.has(word) && !FORM.has(word));
    const whole = there.map((entry) => ({ entry, score: 1 }));
    return [...(subject ? inside : whole), ...ranked.filter(({ entry }) => !there.includes(entry))];
  }

  // The entries for a query, the likeliest first: [{entry, score}]. What is asked for by its number comes first.
  function rank(query) {
    const ranked = numbered(query) ?? likeliest(query);
    const [, chapter, number] = query.match(EXERCISE) ?? [];
    const box = entries.find(({ kind, anchor }) => kind === "exercise" && anchor === `exercise-${chapter}-${number}`);
    return box ? [{ entry: box, score: 2 * (ranked[0]?.score ?? 1) }, ...ranked.filter(({ entry }) => entry !== box)] : ranked;
  }

  function likeliest(query) {
    query = query.replace(/\b(torch\.)?nn\.functional\./g, "F.").replace(/\btorch\.(?=(nn|optim)\.)/g, ""); // as people import them
    if ((NAME.test(query) || THEIRS.test(query)) && !known.has(meant(query).join(" "))) query = query.replace(ASIDE, "").replace(BEFORE, "");
    if (!known.has(meant(query).join(" "))) query = query.replace(FIELD, "").trim();
    const theirs = THEIRS.test(query), code = NAME.test(query) && !theirs, named = bare(query);
    let asked = meant(query.replace(THEIRS, ""));
    const firm = firmly(asked);
    asked = within(asked);
    const whole = known.has(asked.join(" "));
    const empty = (word) => !whole && ASKING.has(word) && !firm.has(word) && !((code || theirs) && THING.test(word));
    const form = (word, i, all) => FORM.has(word) || (!i && ORDERS.has(word)) || (i === all.length - 1 && TAILS.has(word));
    const about = asked.filter((word) => !empty(word));
    const only = about.every(form) && asked.some((word) => THING.test(word)); // "transformer tutorial"
    if (about.length && !only) asked = about;
    if (!asked.length) return [];
    const terms = asked.map(matches);
    const formal = new Set(whole ? [] : asked.filter(form).filter((word) => !firm.has(word)));
    const subject = asked.some((word) => !formal.has(word));
    const weigh = (word) => subject && formal.has(word) ? LIGHT : 1;
    const weights = asked.map(weigh), core = asked.filter((word) => weigh(word) === 1);
    // As it would stand in a text: "query in attention" is no "query attention".
    const inside = said(query).map((word) => [stem(word), stopwords.includes(word)]);
    const idle = ([word, stop]) => stop || empty(word) || weigh(word) < 1;
    while (inside.length > 1 && idle(inside[0])) inside.shift();
    while (inside.length > 1 && idle(inside.at(-1))) inside.pop();
    const phrase = ` ${inside.map(([word]) => word).join(" ")} `;
    const behind = ({ anchor, kind }) => !code && anchor && (kind === "name" || kind === "api");
    const trimmed = inside.filter(([, stop]) => !stop).map(([word]) => word);
    const exact = [asked, meant(query), trimmed].map((words) => words.join(" "));
    const name = query.split(".").at(-1);
    // PyTorch's name leads somewhere, whatever is asked of it: "nn.MultiheadAttention same result"
    const alone = theirs && query.match(/(torch|nn|F|functional|optim|Tensor)\.[\w.]+/)?.[0];
    const home = alone && alone !== query ? likeliest(alone)[0]?.entry.address : null;
    const own = ({ kind, head }) => !theirs && kind === "name" && head === name;
    const ours = entries.some(own);
    const glossary = new Map();
    for (const entry of entries) {
      const chapter = entry.address.match(CHAPTER)[1];
      const same = entry.asked.some((all) => exact.includes(all.join(" ")));
      const lift = same ? 10 : code && ours ? 1 : 1 + 3 * likeness(entry, asked, terms, weigh) ** 1.5;
      if (lift > (glossary.get(chapter) ?? 1)) glossary.set(chapter, lift);
      if (entry.kind !== "term" || !entry.leads) continue;
      const term = entry.flat.head === phrase || (!ours && joined(entry.head) === joined(name));
      const part = phrase.includes(entry.flat.head) && (entry.flat.head.trim().includes(" ") ? 1.6 : 1.2);
      const worth = term ? 2 : entry.flat.head.startsWith(phrase) ? 1.4 : part || 1;
      if (worth > (glossary.get(entry.leads) ?? 1)) glossary.set(entry.leads, worth);
    }
    // how much of what the book says of it a page says
    const share = new Map();
    let all = 0;
    for (const entry of entries) {
      if (!core.every((word) => ["text", "head", "code"].some((field) => entry.in[field].has(word)))) continue;
      const inCode = theirs && asked.some((word) => entry.in.code.has(word)) ? 1 : 0;
      const n = entry.flat.text.split(phrase).length - 1 + 3 * (entry.flat.head.split(phrase).length - 1) + inCode;
      share.set(entry.address, (share.get(entry.address) ?? 0) + n);
      all += n;
    }
    for (const [page, n] of share) share.set(page, n / Math.max(1, all));
    const found = entries.map((entry) => {
      const full = score(entry, terms, weights, phrase, glossary, share, named, theirs);
      return { entry, score: full * (behind(entry) ? 0.2 : code && own(entry) ? 2 : entry.address === home ? HOME : 1) };
    });
    const list = found.filter(({ score }) => score > 0).sort((a, b) => b.score - a.score);
    // Who types a word of the glossary may want to know what it means: that is the third answer, if not an earlier one.
    const means = list.findIndex(({ entry }) => entry.kind === "term" && entry.flat.head === phrase);
    if (means > 2) list.splice(2, 0, ...list.splice(means, 1));
    return list;
  }

  // ---- the page ----

  const LIMIT = 40, PER_PAGE = 4;
  const KIND = { term: "Glossary", name: "The package", exercise: "Exercise" };

  // A part of the text around the first place of a word, the words marked.
  function extract(text, asked) {
    const starts = asked.map((word) => `(?<![\\p{L}\\p{N}])${word.replace(/[^\p{L}\p{N}_]/gu, "")}`);
    const pattern = new RegExp(starts.join("|"), "giu");
    const first = Math.max(0, text.search(pattern));
    const from = first < 90 ? 0 : text.indexOf(" ", first - 80) + 1;
    const to = text.length - from < 240 ? text.length : text.lastIndexOf(" ", from + 230);
    const line = document.createElement("p");
    const part = text.slice(from, to);
    let at = 0;
    line.append(from ? "… " : "");
    for (const { 0: word, index } of part.matchAll(pattern)) {
      if (!word) continue;
      line.append(part.slice(at, index), Object.assign(document.createElement("mark"), { textContent: word }));
      at = index + word.length;
    }
    line.append(part.slice(at), to < text.length ? " …" : "");
    return line;
  }

  // The words of a query that are worth a mark: in "what is a query" one.
  function telling(query) {
    const all = query.match(/[\p{L}\p{N}_]+/gu) ?? [];
    const says = (word) => !stopwords.includes(word) && (!ASKING.has(stem(word)) || THING.test(word));
    const some = all.filter((word) => says(word.toLowerCase()));
    return some.length ? some : all;
  }

  function result(entry, asked) {
    const item = document.createElement("li"), link = document.createElement("a");
    const where = `?highlight=${encodeURIComponent(asked.join(" "))}`;
    link.href = `${entry.address}${where}${entry.anchor ? `#${entry.anchor}` : ""}`;
    link.textContent = entry.head;
    const page = entry.chapter ? `Chapter ${entry.chapter}` : entry.page;
    const of = Object.assign(document.createElement("span"), { className: "of" });
    of.textContent = entry.anchor ? page : entry.chapter ? page : "";
    if (entry.kind === "name") of.textContent = KIND.name;
    item.append(link, of, extract(entry.text, asked));
    return item;
  }

  function show(typed) {
    const out = document.getElementById("search-results");
    const query = spelled(typed);
    const asked = telling(query);
    const taken = new Map();
    const found = rank(query).filter(({ entry }) => {
      taken.set(entry.address, (taken.get(entry.address) ?? 0) + 1);
      return taken.get(entry.address) <= PER_PAGE;
    }).slice(0, LIMIT);
    const title = Object.assign(document.createElement("h2"), { textContent: "Search results" });
    const says = document.createElement("p");
    says.setAttribute("role", "status");
    const other = query === typed ? "" : `The book does not say “${typed}”. `;
    says.textContent = found.length ? `${other}The best ${found.length} places for “${query}”.`
      : `Nothing was found for “${query}”. Fewer words may find more; the glossary lists all terms.`;
    const list = document.createElement("ol");
    list.className = "found";
    list.append(...found.map(({ entry }) => result(entry, asked)));
    out.replaceChildren(title, says, list);
  }

  addEventListener("DOMContentLoaded", () => {
    const query = new URLSearchParams(location.search).get("q")?.trim();
    for (const field of document.querySelectorAll('input[name="q"]')) field.value = query ?? "";
    if (query) show(query);
  });
  return { receive, rank, spelled };
})();
