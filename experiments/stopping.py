"""Chapter 13's comparison: when may a beam search stop, and which penalty goes with it?

    python experiments/stopping.py

The shipped captions model translates the validation set and the three test sets, stopping when N
hypotheses have ended (count) and when nothing open can overtake the best that has (bound). The
penalties are compared on the validation set. The test sets are read with three settings that were
fixed before: the paper's, and the first edition's beam with a penalty of 1 and with its own.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from record import record
from torch import Tensor

from allyouneed import decoding
from allyouneed.data import load_pairs
from allyouneed.decoding import Beam, penalty
from allyouneed.evaluation import bleu
from allyouneed.saving import pretrained
from allyouneed.tokens import BOS, EOS, PAD, Tokenizer, pad
from allyouneed.transformer import Transformer

DATA = "multi30k-en-de"
VALID = [(5, alpha) for alpha in (0.0, 0.6, 1.0, 1.4, 1.8, 2.2)] + [(4, 0.6)]
TEST = [(4, 0.6), (5, 1.0), (5, 1.8)]
SETS = {
    "valid": VALID,
    "test": TEST,
    "test-2017-flickr": TEST,
    "test-2017-mscoco": TEST,
}


class Counted(Beam):
    """A Beam that also stops when as many hypotheses have ended as it is wide."""

    def __init__(self, *arguments: Any):
        super().__init__(*arguments)
        self.ended = torch.zeros_like(self.limit)

    def finish(self, log_p: Tensor, parent: Tensor) -> None:
        self.ended += log_p.isfinite().sum(1)
        super().finish(log_p, parent)

    def done(self) -> Tensor:
        return super().done() | (self.ended >= self.n)

    def select(self, sentences: Tensor) -> None:
        super().select(sentences)
        self.ended = self.ended[sentences]


RULES = {"count": Counted, "bound": Beam}


def searched(model: Transformer, sources: list[list[int]], beam: int, alpha: float) -> list:
    """The ids of each translation and its log P / penalty."""
    order = sorted(range(len(sources)), key=lambda i: len(sources[i]))
    found: dict[int, tuple[list[int], float]] = {}
    for start in range(0, len(order), 64):
        chosen = order[start : start + 64]
        src = pad([sources[i] for i in chosen])
        rows = decoding.beam_search(model, src, beam, alpha)
        tgt = pad([[BOS, *ids, EOS] for ids in rows])
        with torch.inference_mode():
            log_p = model(src, tgt[:, :-1]).index_fill(-1, torch.tensor([PAD, BOS]), -math.inf)
            log_p = log_p.log_softmax(-1).gather(2, tgt[:, 1:, None])[..., 0]
        total = log_p.masked_fill(tgt[:, 1:] == PAD, 0).sum(1)
        for i, ids, one in zip(chosen, rows, total.tolist(), strict=True):
            found[i] = ids, one / penalty(len(ids) + 1, alpha)
    return [found[i] for i in range(len(sources))]


def compare(model: Transformer, tokenizer: Tokenizer, split: str) -> list[dict[str, Any]]:
    """A row for each setting and rule."""
    pairs, rows = load_pairs(DATA, split), []
    sources = [[*tokenizer.encode(source), EOS] for source, _ in pairs]
    targets = [target for _, target in pairs]
    words = sum(len(target.split()) for target in targets)
    for beam, alpha in SETS[split]:
        found = {}
        for rule, kind in RULES.items():
            decoding.Beam = kind
            found[rule] = searched(model, sources, beam, alpha)
            written = [tokenizer.decode(ids) for ids, _ in found[rule]]
            pairs_of = zip(found[rule], found["count"], strict=True)
            rows.append(
                {
                    "set": split,
                    "beam": beam,
                    "length penalty": alpha,
                    "rule": rule,
                    "BLEU": round(bleu(written, targets), 2),
                    "length": round(sum(len(text.split()) for text in written) / words, 3),
                    "worse in score": sum(mine[1] < other[1] - 1e-4 for mine, other in pairs_of),
                    "others": sum(
                        mine[0] != other[0]
                        for mine, other in zip(found[rule], found["count"], strict=True)
                    ),
                }
            )
            print(rows[-1], flush=True)
        decoding.Beam = Beam
    return rows


def main() -> None:
    torch.set_num_threads(1)
    model, tokenizer = pretrained(DATA)
    model.eval()
    rows = [row for split in SETS for row in compare(model, tokenizer, split)]
    sentences = {split: len(load_pairs(DATA, split)) for split in SETS}
    record("stopping", {"data": DATA, "sentences": sentences, "rows": rows})


if __name__ == "__main__":
    main()
