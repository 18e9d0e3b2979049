"""Draw the cover figure: what the shipped translator of chapter 3 looks at as it writes.

python tools/cover.py        writes book/_static/cover.svg
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt
import torch
from safetensors.torch import load_file

from allyouneed import viz, weights
from allyouneed.alignment import Additive, Translator, translate_greedily
from allyouneed.tokens import EOS, Tokenizer, pad

FILE = Path(__file__).parents[1] / "book" / "_static" / "cover.svg"
SENTENCE = "He has never seen the red house."


def alignment(sentence: str) -> tuple[torch.Tensor, list[str], list[str]]:
    """The weights of the shipped translator, the tokens it writes, the tokens it reads."""
    tokenizer = Tokenizer.load(weights.path("translator-tokenizer.json"))
    state = load_file(weights.path("translator-additive.safetensors"))
    d_model = state["embedding.weight"].shape[1]
    model = Translator(len(tokenizer), d_model, Additive(d_model, 2 * d_model, d_model))
    model.load_state_dict(state)
    ids = tokenizer.encode(sentence)
    written, looked = translate_greedily(model.eval(), pad([[*ids, EOS]]))
    target = [tokenizer.bpe.id_to_token(i) for i in written[0].tolist() if i != EOS]
    source = tokenizer.tokens(sentence)
    return looked[0, : len(target), : len(source)], target, source


def main() -> None:
    viz.use_style()
    looked, target, source = alignment(SENTENCE)
    words = [[token.replace("▁", "") for token in side] for side in (target, source)]
    viz.alignment_ribbons(looked, *words)
    plt.savefig(FILE, metadata={"Date": None}, bbox_inches="tight")
    print("wrote book/_static/cover.svg:", " ".join(words[0]))


if __name__ == "__main__":
    main()
