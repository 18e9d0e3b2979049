// The Transformer of the book's chapter 11, once more: encoder, decoder with a key-value cache
// (chapter 13), and every attention weight at hand. Plain arrays and loops, no library.
//
// Letters as in the book: S source tokens, N hypotheses, D = d_model, H heads, K = D / H,
// V tokens of the vocabulary. Parameters have their names there: w_q, w_k, w_v, w_o, gamma, beta.
"use strict";
globalThis.Translator ??= {};

{
  // Rows of numbers, one after the other in memory.
  class Matrix {
    constructor(rows, cols, data = new Float32Array(rows * cols)) {
      Object.assign(this, { rows, cols, data });
    }
    row(i) {
      return this.data.subarray(i * this.cols, (i + 1) * this.cols);
    }
  }

  // y = x W^T + b for every row of x: (rows, in) to (rows, out). W is (out, in), as nn.Linear
  // keeps it. Nearly all time is spent here, so four rows of W meet two rows of x at a time: six
  // numbers are fetched for eight products, and the eight sums do not wait for each other.
  function linear({ weight, bias }, x) {
    const n = x.cols, y = new Matrix(x.rows, weight.rows);
    const from = new Float64Array((x.rows + (x.rows % 2)) * n); // an odd row has zeros beside it
    from.set(x.data);
    for (let o = 0; o < weight.rows; o += 4) {
      const w0 = weight.row(o), w1 = weight.row(o + 1);
      const w2 = weight.row(o + 2), w3 = weight.row(o + 3);
      for (let r = 0; r < x.rows; r += 2) {
        let a0 = 0, a1 = 0, a2 = 0, a3 = 0, b0 = 0, b1 = 0, b2 = 0, b3 = 0;
        for (let i = 0, at = r * n; i < n; i++, at++) {
          const a = from[at], b = from[at + n];
          a0 += a * w0[i], b0 += b * w0[i];
          a1 += a * w1[i], b1 += b * w1[i];
          a2 += a * w2[i], b2 += b * w2[i];
          a3 += a * w3[i], b3 += b * w3[i];
        }
        let to = r * y.cols + o;
        y.data[to] = a0, y.data[to + 1] = a1, y.data[to + 2] = a2, y.data[to + 3] = a3;
        to += y.cols; // past the end, for the zeros: nothing is written there
        y.data[to] = b0, y.data[to + 1] = b1, y.data[to + 2] = b2, y.data[to + 3] = b3;
      }
    }
    if (bias) {
      for (let i = 0; i < y.data.length; i++) y.data[i] += bias.data[i % y.cols];
    }
    return y;
  }

  // gamma (x - mean) / sqrt(variance + eps) + beta, for every row of x (chapter 10).
  function layerNorm({ gamma, beta }, x, eps = 1e-5) {
    const y = new Matrix(x.rows, x.cols);
    for (let r = 0; r < x.rows; r++) {
      const from = x.row(r), to = y.row(r);
      let mean = 0, variance = 0;
      for (const value of from) mean += value / x.cols;
      for (const value of from) variance += (value - mean) ** 2 / x.cols;
      const scale = 1 / Math.sqrt(variance + eps);
      for (let d = 0; d < x.cols; d++) {
        to[d] = gamma.data[d] * (from[d] - mean) * scale + beta.data[d];
      }
    }
    return y;
  }

  // max(0, x W_1 + b_1) W_2 + b_2: the paper's equation (2).
  function feedForward({ w_1, w_2 }, x) {
    const hidden = linear(w_1, x);
    for (let i = 0; i < hidden.data.length; i++) hidden.data[i] = Math.max(0, hidden.data[i]);
    return linear(w_2, hidden);
  }

  // In place: exp(score) / the sum of all exp(score).
  function softmax(scores) {
    let highest = -Infinity, sum = 0;
    for (let i = 0; i < scores.length; i++) highest = Math.max(highest, scores[i]);
    for (let i = 0; i < scores.length; i++) sum += scores[i] = Math.exp(scores[i] - highest);
    for (let i = 0; i < scores.length; i++) scores[i] /= sum;
    return scores;
  }

  // softmax(q k^T / sqrt(K)) v in each head: the paper's equation (1). q is (N, D), k and v
  // are (S, D), and head h has the columns from h K to (h + 1) K of each.
  // `visible[n]` lists the rows of k and v that query n may attend to. Head number `off`, if there
  // is one, is switched off: it has its weights, and what it would bring is zero.
  // Returns the heads side by side, (N, D), and the weights: weights[h][n] is one row of them.
  function attention(q, k, v, nHeads, visible, off = null) {
    const D = q.cols, K = D / nHeads, y = new Matrix(q.rows, D), weights = [];
    for (let h = 0; h < nHeads; h++) {
      weights.push(visible.map((rows, n) => {
        const w = new Float32Array(rows.length), query = n * D + h * K;
        for (let i = 0; i < rows.length; i++) {
          const key = rows[i] * D + h * K;
          let dot = 0;
          for (let d = 0; d < K; d++) dot += q.data[query + d] * k.data[key + d];
          w[i] = dot / Math.sqrt(K);
        }
        softmax(w);
        for (let i = 0; i < rows.length && h !== off; i++) {
          const value = rows[i] * D + h * K;
          for (let d = 0; d < K; d++) y.data[query + d] += w[i] * v.data[value + d];
        }
        return w;
      }));
    }
    return { y, weights };
  }

  function add(x, y) {
    const sum = new Matrix(x.rows, x.cols);
    for (let i = 0; i < sum.data.length; i++) sum.data[i] = x.data[i] + y.data[i];
    return sum;
  }

  class Transformer {
    // `weights` holds the parameters under their names: weights.encoder.layers[0].self_attention...
    // `off` is the head that is switched off, {kind, layer, head}, if one is (chapter 15).
    constructor(config, weights, off = null) {
      for (const size of ["vocab_size", "d_model", "d_ff"]) {
        if (config[size] % 4) throw new Error(`${size}: expected a multiple of 4`); // see linear
      }
      Object.assign(this, { config, weights, off });
      this.room = 5000; // positions, as in the package
    }

    // The same model with one head switched off: kind is "encoder", "decoder" or "cross".
    without(off) {
      return new Transformer(this.config, this.weights, off);
    }

    // The number of the head that is off in this attention, or null.
    offIn(kind, layer) {
      return this.off?.kind === kind && this.off.layer === layer ? this.off.head : null;
    }

    // x + Sublayer(LayerNorm(x)), or with post-norm LayerNorm(x + Sublayer(x)).
    residual({ norm }, x, sublayer) {
      if (this.config.norm_first) return add(x, sublayer(layerNorm(norm, x)));
      return layerNorm(norm, add(x, sublayer(x)));
    }

    // With pre-norm, a stack of layers ends in one more LayerNorm.
    finalNorm({ norm }, x) {
      return norm ? layerNorm(norm, x) : x;
    }

    // sqrt(D) E[token] + PE[position], a row for each token; all at `position`, or counting up.
    embed(ids, position = null) {
      const D = this.config.d_model, E = this.weights.embedding.weight;
      const x = new Matrix(ids.length, D);
      for (let n = 0; n < ids.length; n++) {
        const embedding = E.row(ids[n]), to = x.row(n);
        for (let d = 0; d < D; d++) {
          const angle = (position ?? n) / 10000 ** ((d - (d % 2)) / D);
          to[d] = Math.sqrt(D) * embedding[d] + (d % 2 ? Math.cos(angle) : Math.sin(angle));
        }
      }
      return x;
    }

    // The memory, (S, D), of source ids that end in EOS; `maps[layer]` gets the encoder's weights.
    // A generator, so that a page can breathe between layers: `run` has it all at once.
    *encode(src, maps = []) {
      const everyone = Array.from(src, (_, s) => s), visible = src.map(() => everyone);
      let x = this.embed(src);
      for (const [i, layer] of this.weights.encoder.layers.entries()) {
        const { w_q, w_k, w_v, w_o } = layer.self_attention, off = this.offIn("encoder", i);
        x = this.residual(layer.residuals[0], x, (x) => {
          const [q, k, v] = [w_q, w_k, w_v].map((w) => linear(w, x));
          const { y, weights } = attention(q, k, v, this.config.n_heads, visible, off);
          maps.push(weights);
          return linear(w_o, y);
        });
        yield;
        x = this.residual(layer.residuals[1], x, (x) => feedForward(layer.feed_forward, x));
        yield;
      }
      return this.finalNorm(this.weights.encoder, x);
    }
  }

  // What half-written translations need for their next token: the keys and values of the memory,
  // computed once, and those of every target token, computed once when it comes in.
  //
  // Each step adds a slot for every hypothesis. A hypothesis reads the slots that its ancestors
  // wrote, `ancestors[n]`: when one hypothesis becomes two, nothing is copied but this list.
  class Cache {
    constructor(model, memory, hypotheses, limit) {
      const D = model.config.d_model;
      this.model = model;
      this.length = 0; // steps so far
      this.layers = model.weights.decoder.layers.map((layer, i) => ({
        layer,
        ownOff: model.offIn("decoder", i),
        crossOff: model.offIn("cross", i),
        memoryKeys: linear(layer.cross_attention.w_k, memory),
        memoryValues: linear(layer.cross_attention.w_v, memory),
        keys: new Matrix(limit * hypotheses, D),
        values: new Matrix(limit * hypotheses, D),
      }));
      this.everyone = Array.from({ length: memory.rows }, (_, s) => s);
      this.ancestors = Array.from({ length: hypotheses }, () => []);
    }

    // The newest token of each hypothesis goes in; the logits of what follows it, (N, V), come out,
    // with the weights of all layers: cross[layer][head][n] over the source, own over the target.
    step(tokens) {
      const { model } = this, N = tokens.length, { n_heads } = model.config;
      const slots = tokens.map((_, n) => this.length * N + n), cross = [], own = [];
      this.ancestors = this.ancestors.map((rows, n) => [...rows, slots[n]]);
      let x = model.embed(tokens, this.length);
      for (const { layer, keys, values, memoryKeys, memoryValues, ...offs } of this.layers) {
        const { self_attention, cross_attention, feed_forward, residuals } = layer;
        const { ownOff, crossOff } = offs;
        x = model.residual(residuals[0], x, (x) => {
          keys.data.set(linear(self_attention.w_k, x).data, slots[0] * x.cols);
          values.data.set(linear(self_attention.w_v, x).data, slots[0] * x.cols);
          const q = linear(self_attention.w_q, x);
          const { y, weights } = attention(q, keys, values, n_heads, this.ancestors, ownOff);
          own.push(weights);
          return linear(self_attention.w_o, y);
        });
        x = model.residual(residuals[1], x, (x) => {
          const q = linear(cross_attention.w_q, x), all = tokens.map(() => this.everyone);
          const { y, weights } = attention(q, memoryKeys, memoryValues, n_heads, all, crossOff);
          cross.push(weights);
          return linear(cross_attention.w_o, y);
        });
        x = model.residual(residuals[2], x, (x) => feedForward(feed_forward, x));
      }
      this.length++;
      // One matrix embeds source and target tokens, and gives the logits (section 3.4).
      const logits = linear(model.weights.embedding, model.finalNorm(model.weights.decoder, x));
      return { logits, cross, own };
    }

    // Hypothesis n goes on from hypothesis parents[n]: it takes over its ancestors.
    descend(parents) {
      this.ancestors = parents.map((parent) => this.ancestors[parent]);
    }
  }

  // All of a generator at once: what it returns.
  function run(generator) {
    for (;;) {
      const { value, done } = generator.next();
      if (done) return value;
    }
  }

  Object.assign(Translator, { Matrix, Transformer, Cache, softmax, run });
}
