// Fetching a model: its weights, sizes and vocabulary in one compressed file, which
// book/_ext/booktranslator.py makes from the model that ships with the package.
"use strict";
globalThis.Translator ??= {};

{
  const { Matrix, Tokenizer, Transformer } = Translator;
  const HERE = new URL(".", document.currentScript.src);

  // The unpacked file: the length of the header (4 bytes), the header (JSON), the high bytes of
  // all weights, the low bytes of all weights. A weight is a bfloat16: the first two bytes of a
  // float32, whose other two are zero. So nothing is lost, and nothing is rounded.
  function read(bytes) {
    const length = new DataView(bytes.buffer).getUint32(0, true);
    const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
    const count = (bytes.length - 4 - length) / 2;
    const high = bytes.subarray(4 + length), low = high.subarray(count);
    const bits = new Uint32Array(count);
    for (let i = 0; i < count; i++) bits[i] = (high[i] << 24) | (low[i] << 16);
    const weights = named(header.tensors, new Float32Array(bits.buffer));
    return {
      model: new Transformer(header.config, weights),
      tokenizer: new Tokenizer(header.tokens, header.merges),
    };
  }

  // Matrices under their names: "encoder.layers.0.feed_forward.w_1.weight" becomes
  // weights.encoder.layers[0].feed_forward.w_1.weight. A vector is a matrix of one row.
  function named(tensors, values) {
    const weights = {};
    let from = 0;
    for (const [name, shape] of tensors) {
      const [rows, cols] = shape.length === 2 ? shape : [1, shape[0]];
      const path = name.split("."), last = path.pop();
      const place = path.reduce((node, key, i) => {
        return (node[key] ??= /^\d+$/.test(path[i + 1] ?? last) ? [] : {});
      }, weights);
      place[last] = new Matrix(rows, cols, values.subarray(from, from + rows * cols));
      from += rows * cols;
    }
    return weights;
  }

  // Unpack as it comes in, and say how much has come. The packed file carries a checksum of its
  // content, so that the browser refuses a file that is damaged or cut short.
  async function unpack(stream, onProgress) {
    let received = 0;
    const counter = new TransformStream({
      transform(chunk, controller) {
        received += chunk.length;
        onProgress(received);
        controller.enqueue(chunk);
      },
    });
    const unpacked = stream.pipeThrough(counter).pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(unpacked).arrayBuffer());
  }

  // On a page opened as a file, nothing may be fetched, but a script may be added that hands over
  // the same bytes as text.
  const waiting = new Map();
  function receive(name, base64) {
    waiting.get(name)?.(base64);
  }

  function fromScript(name) {
    return new Promise((resolve, reject) => {
      const script = document.createElement("script");
      waiting.set(name, (base64) => resolve(fetch(`data:;base64,${base64}`)));
      script.src = new URL(`models/${name}.js`, HERE);
      script.onload = () => script.remove();
      script.onerror = () => reject(new Error("The file of the model is not there."));
      document.head.append(script);
    });
  }

  async function fromServer(name, version) {
    const url = new URL(`models/${name}.bin?v=${version}`, HERE);
    const response = await fetch(url).catch(() => {
      throw new Error("The model could not be fetched. Is there a network?");
    });
    if (!response.ok) throw new Error(`The model could not be fetched (${response.status}).`);
    return response;
  }

  // A model by its name in Translator.models: {model, tokenizer}. `onProgress(bytes received)`.
  // Raises an Error whose message can be shown.
  async function load(name, onProgress = () => {}) {
    if (!globalThis.DecompressionStream) {
      throw new Error("This browser cannot unpack the model: it has no DecompressionStream.");
    }
    const { version } = Translator.models[name];
    const local = location.protocol === "file:";
    const response = await (local ? fromScript(name) : fromServer(name, version));
    try {
      return read(await unpack(response.body, onProgress));
    } catch (error) {
      throw new Error("The file of the model came in damaged. Please try again.", { cause: error });
    }
  }

  Object.assign(Translator, { read, unpack, load, receive });
}
