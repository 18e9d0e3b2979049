// What a training takes: equations (19.1) to (19.9) for a model, a batch and GPUs to choose.
// data: devices [{name, flops, memory, bandwidth, link, network, per_machine, delay, launch,
// price}]; models [{name, d, layers, steps}]; vocabulary; length, of a sentence; utilisation, of
// the peak; loading, tokens a second. d_ff is four times d_model, a head has 64 entries.

/** The parameters of a post-norm Transformer with one matrix for embeddings and logits. */
function parameters(d, layers, vocabulary) {
  const f = 4 * d;
  return vocabulary * d + layers * (12 * d * d + 2 * (2 * d * f + f + d) + 10 * d);
}

/** Operations of an update for each target token: three times equation (19.1). */
function operations(d, layers, vocabulary, length) {
  const matrices = layers * (24 * d * d + 8 * 4 * d * d + 12 * d * length);
  return 3 * (matrices + 2 * d * vocabulary);
}

/** Bytes that one of n GPUs holds: equations (19.2) and (19.3), with dropout. */
function memory(d, layers, vocabulary, tokens, n) {
  const [P, heads, f, each] = [parameters(d, layers, vocabulary), d / 64, 4 * d, tokens / n];
  const numbers = layers * (22 * d + 2 * f + 3 * heads + 10) + 2 * d;
  const dropped = d * (5 * layers + 2);
  return { weights: 4 * P, gradients: 4 * P, moments: 8 * P,
    activations: each * (4 * numbers + dropped) };
}

/** Seconds to add up so many bytes over n GPUs: equation (19.8). */
function allReduce(bytes, device, n) {
  const inside = Math.min(n, device.per_machine);
  const machines = n / inside;
  return 2 * (inside - 1) / inside * bytes / device.link +
    2 * (machines - 1) / machines * bytes / inside / device.network +
    2 * (inside + machines - 2) * device.delay;
}

/** Seconds of one update: equations (19.6) to (19.9). */
function update(d, layers, tokens, n, device, { vocabulary, length, utilisation, loading }) {
  const P = parameters(d, layers, vocabulary);
  const work = tokens * operations(d, layers, vocabulary, length);
  const products = Math.max(work / (n * utilisation * device.flops), 6 * P / device.bandwidth);
  const compute = products + 28 * P / device.bandwidth;
  const host = (94 + 89 * layers) * device.launch + tokens / n / loading;
  const others = Math.max(compute - 2 / 3 * products, host - 50 * layers * device.launch);
  const last = vocabulary * d;
  const further = Math.ceil(4 * (P - last) / 25e6) - 1; // buckets, each with its own delays
  const rest = allReduce(4 * (P - last), device, n) + further * allReduce(0, device, n);
  const beside = allReduce(4 * last, device, n) +
    Math.max(0, others + rest - Math.max(compute, host));
  const exposed = Math.min(beside, allReduce(4 * P, device, n)); // or all at the end
  return { compute, host, exposed, step: Math.max(compute, host) + exposed };
}

/** 1234567 as 1.2 million. */
function large(x) {
  const [size, word] = x >= 1e9 ? [1e9, "billion"] : [1e6, "million"];
  return `${show(x / size, x / size < 10 ? 1 : 0)} ${word}`;
}

/** Hours or minutes or days, whatever is read most easily. */
function duration(hours) {
  if (hours < 1) return `${show(60 * hours, 0)} minutes`;
  return hours < 48 ? `${show(hours, 1)} hours` : `${show(hours / 24, 1)} days`;
}

function draw(stage, data) {
  const { devices, models, vocabulary } = data;
  let [device, d, layers, steps, gpus, fold] = [devices[devices.length - 1], 0, 0, 0, 3, 3];
  const [spent, held] = [table("spent"), table("held")];

  const look = () => {
    const [n, tokens] = [2 ** gpus, 3125 * 2 ** fold];
    const time = update(d, layers, tokens, n, device, data);
    const bytes = memory(d, layers, vocabulary, tokens, n);
    const total = Object.values(bytes).reduce((sum, x) => sum + x, 0);
    const floor = time.host > time.compute ? "launching" : "computing";
    const most = Math.max(time.compute, time.host, time.exposed);
    spent.set([["computing", time.compute], ["launching", time.host], ["sending", time.exposed]]
      .map(([name, s]) => line(name, [bar(s / most, name === floor ? "rules" : "quiet"),
        `${show(1e3 * s, 1)} ms`])));
    const room = Math.max(total, device.memory);
    held.set([...Object.entries(bytes), ["all", total], ["there is", device.memory]]
      .map(([name, b]) => line(name, [
        bar(b / room, name === "all" ? "rules" : "quiet"), `${show(b / 1e9, 1)} GB`])));
    const hours = steps * time.step / 3600;
    const price = device.price == null ? null : hours * n * device.price;
    const fits = total <= device.memory;
    stage.tell(
      { parameters: parameters(d, layers, vocabulary), n, tokens, steps, ...time, total, hours,
        price, fits, device: device.name },
      `${large(parameters(d, layers, vocabulary))} parameters, ${thousands(steps)} updates on ` +
      `${thousands(n)} ${device.name}: ${duration(hours)}` +
      (price == null ? "." : `, ${thousands(Math.ceil(price))} dollars.`) +
      ` An update takes ${show(1e3 * time.step, 1)} ms; ` + (floor === "launching"
        ? "the GPUs wait for their hosts, and faster ones would gain nothing."
        : "the GPUs compute, and their hosts wait.") +
      (fits ? "" : " But it does not fit: take more GPUs, or a smaller batch."));
  };

  const width = slider("d_model", { min: 256, max: 4096, step: 256, value: 512, text: thousands },
    (x) => (d = x, look()));
  const depth = slider("layers", { min: 1, max: 48, value: 6 }, (x) => (layers = x, look()));
  const length = slider("updates", {
    min: 10000, max: 500000, step: 10000, value: 100000, text: thousands,
  }, (x) => (steps = x, look()));
  const known = (model) => {
    [d, layers, steps] = [model.d, model.layers, model.steps];
    [[width, d], [depth, layers], [length, steps]].forEach(([bar, x]) => bar.set(x));
  };
  stage.add(
    make("div", { class: "controls" },
      choice("GPU", devices.map((one) => one.name), devices.length - 1,
        (i) => (device = devices[i], look())).element,
      ...models.map((model) => button(model.name, () => known(model)).element)),
    width, depth, length,
    slider("GPUs", { min: 0, max: 10, value: gpus, text: (k) => thousands(2 ** k) },
      (k) => (gpus = k, look())),
    slider("tokens in an update", { min: 0, max: 9, value: fold,
      text: (k) => thousands(3125 * 2 ** k) }, (k) => (fold = k, look())),
    panel("one update", spent.element), panel("memory of one GPU", held.element));
  known(models[0]);
}
