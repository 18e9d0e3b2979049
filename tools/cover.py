"""Draw the cover figure: what the book's translator, shipped and trained as in chapter 14, looks at
as it writes. The first page draws the same for a reader's own sentence (see ribbons.js).

python tools/cover.py        writes book/_static/cover.svg
"""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("svg")

import matplotlib.pyplot as plt
import torch

from allyouneed import pretrained, viz
from allyouneed.decoding import beam_search
from allyouneed.tokens import BOS, EOS

FILE = Path(__file__).parents[1] / "book" / "_static" / "cover.svg"
SENTENCE = "He has never seen the red house."
LAYER = 1  # the second of cross-attention: it links words best (chapter 15)


def words(tokens: list[str]) -> dict[str, list[int]]:
    """The words of a sentence, none of which may come twice, each with the places of its tokens."""
    found: list[tuple[str, list[int]]] = []
    for place, token in enumerate(tokens):
        if token[0] in "▁." or found[-1][0].endswith("'"):  # "n'" is a word
            found.append(("", []))
        word, places = found[-1]
        found[-1] = (word + token.replace("▁", ""), [*places, place])
    return dict(found)


def alignment() -> tuple[torch.Tensor, list[str], list[str]]:
    """How much of its attention each word written gives to each word read: the mean over heads and
    over the tokens of the word. What is missing from one goes to the end of the sentence."""
    model, tokenizer = pretrained("tatoeba-en-fr")
    ids = tokenizer.encode(SENTENCE)
    src = torch.tensor([[*ids, EOS]])
    (out,) = beam_search(model, src)
    with torch.inference_mode():
        maps = model(src, torch.tensor([[BOS, *out]]), return_weights=True)[1]
    weights = maps.cross[LAYER][0].mean(0)  # (T, S)
    read, written = (words([tokenizer.bpe.id_to_token(i) for i in side]) for side in (ids, out))
    rows = [weights[places].mean(0) for places in written.values()]
    looked = [[float(row[places].sum()) for places in read.values()] for row in rows]
    return torch.tensor(looked), list(written), list(read)


def main() -> None:
    viz.use_style()
    looked, written, read = alignment()
    viz.alignment_ribbons(looked, written, read)
    plt.savefig(FILE, metadata={"Date": None}, bbox_inches="tight")
    print("wrote book/_static/cover.svg:", " ".join(written))


if __name__ == "__main__":
    main()
