"""Work out the examples that the translator's page shows before its model is loaded.

    python tools/translator_examples.py     writes book/_static/translator/examples.js

Each has what the page would show of a translation that it makes itself: the tokens of the source,
the tokens written, and for each of these its probability, the ten likeliest, and what every head of
every layer of the decoder attends to in the source.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import torch

from allyouneed.decoding import beam_search
from allyouneed.saving import pretrained
from allyouneed.tokens import BOS, EOS, PAD

FILE = Path(__file__).parents[1] / "book" / "_static" / "translator" / "examples.js"
SENTENCES = {
    "multi30k-en-de": [
        "Two dogs are playing with a red ball in the snow.",
        "A woman in a blue dress is singing on a stage.",
        "An old man is reading a newspaper on a park bench.",
        "Children are jumping into the water.",
    ],
    "tatoeba-en-fr": [
        "She lives in a little white house near the sea.",
        "Where did you buy these shoes?",
        "She is not as tall as her brother.",
        "I don't know what to say.",
        "I have never seen such a beautiful garden.",  # in which the model loses its way
    ],
}


def example(model, tokenizer, sentence: str) -> dict[str, Any]:
    """One sentence, translated with a beam of 4 and a length penalty of 0.6."""
    src = torch.tensor([[*tokenizer.encode(sentence), EOS]])
    (ids,) = beam_search(model, src)
    with torch.inference_mode():
        logits, maps = model(src, torch.tensor([[BOS, *ids]]), return_weights=True)
        logits[..., [PAD, BOS]] = -math.inf  # they never follow
    token, steps = tokenizer.bpe.id_to_token, []
    for t, (p, written) in enumerate(zip(logits[0].softmax(-1), [*ids, EOS], strict=True)):
        top = [[token(int(i)), round(float(p[i]), 5)] for i in p.topk(10).indices]
        cross = [
            [[round(w, 3) for w in head[t].tolist()] for head in layer[0]] for layer in maps.cross
        ]
        steps.append(
            {"token": token(written), "p": round(float(p[written]), 5), "top": top, "cross": cross}
        )
    return {
        "source": sentence,
        "sourceTokens": [token(int(i)) for i in src[0]],
        "text": tokenizer.decode(ids),
        "steps": steps,
    }


def script() -> str:
    """The content of examples.js."""
    torch.set_num_threads(1)
    lines = ["// Made by tools/translator_examples.py.", "globalThis.Translator ??= {};"]
    lines.append("Translator.examples = {")
    for name, sentences in SENTENCES.items():
        model, tokenizer = pretrained(name)
        made = [example(model, tokenizer, sentence) for sentence in sentences]
        words = [json.dumps(one, ensure_ascii=False, separators=(",", ":")) for one in made]
        lines += [f'  "{name}": [', *(f"    {one}," for one in words), "  ],"]
    return "\n".join([*lines, "};", ""])


if __name__ == "__main__":
    FILE.write_text(script(), encoding="utf-8")
