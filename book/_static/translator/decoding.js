// From logits to a sentence, as `allyouneed.decoding` does it (chapter 13): greedy, sampling and
// beam search. Each is a generator that yields after every token, so that the page can show it.
"use strict";
globalThis.Translator ??= {};

{
  const { PAD, BOS, EOS, Cache, softmax } = Translator;

  // How many tokens a translation may have, EOS included: the source + 50 (section 6.1).
  const limitOf = (model, src) => Math.min(src.length + 50, model.room);

  // PAD and BOS never follow.
  function possible(logits) {
    logits[PAD] = logits[BOS] = -Infinity;
    return logits;
  }

  // The ids of the k largest values, largest first.
  function likeliest(values, k) {
    const ids = [];
    let least = -Infinity; // of those found, once there are k of them
    for (let id = 0; id < values.length; id++) {
      if (values[id] <= least) continue;
      let at = ids.length;
      while (at > 0 && values[ids[at - 1]] < values[id]) at--;
      ids.splice(at, 0, id);
      if (ids.length > k) ids.pop();
      if (ids.length === k) least = values[ids[k - 1]];
    }
    return ids;
  }

  // What a reader may want to see of one step: the ten likeliest tokens, how likely the token
  // written was, and what every head of every layer attended to in the source.
  function record(token, probabilities, cross, n) {
    return {
      token,
      p: probabilities[token],
      top: likeliest(probabilities, 10).map((id) => ({ id, p: probabilities[id] })),
      cross: cross.map((heads) => heads.map((rows) => rows[n])),
    };
  }

  // One token after the other: `choose` takes it from the probabilities, a Float32Array of V. Those
  // of the `beginning` are written first, whatever their probability.
  // Yields and returns {ids, steps}: the tokens so far and the record of each, EOS included.
  function* tokenByToken(model, src, temperature, choose, beginning = []) {
    const limit = limitOf(model, src), ids = [], steps = [];
    const cache = new Cache(model, yield* model.encode(src), 1, limit);
    for (let token = BOS; token !== EOS && ids.length < limit;) {
      const { logits, cross } = cache.step([token]);
      const scores = possible(logits.row(0));
      for (let id = 0; id < scores.length; id++) scores[id] /= temperature;
      const probabilities = softmax(scores);
      token = beginning[ids.length] ?? choose(probabilities);
      ids.push(token);
      steps.push(record(token, probabilities, cross, 0));
      yield { ids, steps };
    }
    return { ids, steps };
  }

  // The likeliest token, again and again, until EOS.
  function greedy(model, src, beginning) {
    const first = (probabilities) => likeliest(probabilities, 1)[0];
    return tokenByToken(model, src, 1, first, beginning);
  }

  // Each token is drawn from softmax(logits / temperature). The same seed, the same draws.
  function sample(model, src, temperature, seed) {
    const random = mulberry32(seed);
    return tokenByToken(model, src, temperature, (probabilities) => {
      let left = random();
      const token = probabilities.findIndex((p) => (left -= p) < 0);
      return token < 0 ? EOS : token; // rounding may leave a crumb
    });
  }

  // Random numbers from 0 to 1, always the same for a seed (Tommy Ettinger's "mulberry32").
  function mulberry32(seed) {
    let state = seed >>> 0;
    return () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let x = Math.imul(state ^ (state >>> 15), state | 1);
      x = (x + Math.imul(x ^ (x >>> 7), x | 61)) ^ x;
      return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
    };
  }

  // ((5 + length) / 6)^alpha: long translations are not at a disadvantage (Wu et al. 2016).
  const penalty = (length, alpha) => ((5 + length) / 6) ** alpha;

  // The n open hypotheses of a sentence, and those that have ended: `allyouneed.decoding.Beam`.
  // A hypothesis is {ids, steps, score}; its score is log P.
  class Beam {
    constructor(n, limit, alpha) {
      Object.assign(this, { n, limit, alpha, length: 0, best: null });
      this.ended = []; // with their final score, log P / penalty
      const start = { ids: [], steps: [], score: 0 };
      this.open = Array.from({ length: n }, (_, i) => (i ? { ...start, score: -Infinity } : start));
    }

    // One step: of all continuations of all hypotheses, the best 2n are looked at. Those among the
    // first n that end leave the beam; the best n of the others go on.
    // Returns the parent of each hypothesis that goes on, and its new token.
    grow({ logits, cross }) {
      this.length++;
      const probabilities = this.open.map((_, n) => softmax(possible(logits.row(n))));
      const candidates = this.open.flatMap(({ score }, parent) =>
        likeliest(probabilities[parent], 2 * this.n).map((token) => {
          return { parent, token, score: score + Math.log(probabilities[parent][token]) };
        }));
      candidates.sort((a, b) => b.score - a.score || 0); // -Infinity less itself is no number
      const top = candidates.slice(0, 2 * this.n);
      for (const end of top.slice(0, this.n).filter(({ token }) => token === EOS)) {
        if (end.score > -Infinity) this.end(this.child(end, probabilities, cross));
      }
      const going = top.filter(({ token }) => token !== EOS).slice(0, this.n);
      this.open = going.map((one) => this.child(one, probabilities, cross));
      return { parents: going.map((one) => one.parent), tokens: going.map((one) => one.token) };
    }

    child({ parent, token, score }, probabilities, cross) {
      const { ids, steps } = this.open[parent];
      const step = record(token, probabilities[parent], cross, parent);
      return { ids: [...ids, token], steps: [...steps, step], score };
    }

    end(hypothesis) {
      const final = hypothesis.score / penalty(this.length, this.alpha);
      const one = { ...hypothesis, final };
      this.ended.push(one);
      if (!this.best || final > this.best.final) this.best = one;
    }

    // Nothing that is open can overtake the best that has ended, or there is no more room.
    get done() {
      const reach = this.open[0].score / penalty(this.limit, this.alpha);
      return this.best?.final >= reach || this.length === this.limit;
    }
  }

  // The best translation that a beam of n finds, by log P / penalty.
  // Yields the beam after every step; returns {ids, steps} and the hypotheses that have ended.
  function* beamSearch(model, src, n, alpha = 0.6) {
    const limit = limitOf(model, src), beam = new Beam(n, limit, alpha);
    const cache = new Cache(model, yield* model.encode(src), n, limit);
    let tokens = Array(n).fill(BOS);
    for (;;) {
      const { parents, tokens: next } = beam.grow(cache.step(tokens));
      yield beam.open[0];
      if (beam.done) break;
      cache.descend(parents);
      tokens = next;
    }
    const { ids, steps } = beam.best ?? beam.open[0];
    return { ids, steps, ended: beam.ended };
  }

  Object.assign(Translator, { greedy, sample, beamSearch, likeliest });
}
