"""Chapter 14: a Transformer as large as chapter 3's net with attention, trained in its own way.

    python experiments/matched.py                  # all: two and a half hours on one core
    python experiments/matched.py transformer 0 4e-3 0.1    # one alone: seed, peak rate, dropout

All that `experiments/translator.py` chose for the recurrent net holds for both: the vocabulary, the
batches, 4,000 updates, Adam, clipping, no label smoothing, and of the weights at ten looks those
with the lowest validation loss. Its rate holds and twice that, its dropout and, at twice the rate,
half of it (RUNS). The Transformer has width 128, three layers on each side and pre-norm, and a few
parameters less. Everything is in float32 and decoded greedily. Every training is kept as soon as it
is done; those that are there are not run again.
"""

from __future__ import annotations

import copy
import sys
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import translator
from record import record
from torch import nn

from allyouneed import results
from allyouneed.alignment import Additive, Translator
from allyouneed.data import load_pairs
from allyouneed.decoding import translate
from allyouneed.evaluation import bleu
from allyouneed.tokens import Tokenizer
from allyouneed.transformer import Transformer, TransformerConfig

RUNS = [  # kind, seed, peak rate, dropout; `translator.py` has ("recurrent", 0, 2e-3, 0.2)
    ("transformer", 0, 2e-3, 0.2), ("transformer", 1, 2e-3, 0.2), ("recurrent", 1, 2e-3, 0.2),
    ("transformer", 0, 4e-3, 0.2), ("recurrent", 0, 4e-3, 0.2),
    ("transformer", 0, 4e-3, 0.1), ("recurrent", 0, 4e-3, 0.1),
]  # fmt: skip
CONFIG = TransformerConfig(
    translator.VOCAB_SIZE, d_model=128, d_ff=512, n_heads=4, n_layers=3,
    norm_first=True,
)  # fmt: skip


def build(kind: str, seed: int, dropout: float) -> nn.Module:
    torch.manual_seed(seed)
    if kind == "transformer":
        return Transformer(replace(CONFIG, dropout=dropout))
    width = translator.D_MODEL
    score = Additive(width, 2 * width, width)
    torch.manual_seed(seed)
    return Translator(CONFIG.vocab_size, width, score, dropout)


def trained(
    kind: str, seed: int, peak: float, dropout: float, ids: dict[str, list]
) -> tuple[nn.Module, dict[str, Any]]:
    """The best weights of a training as `translator.train` has it, and what it took."""
    model, curve = build(kind, seed, dropout), []
    for look in translator.learn(model, ids, peak, seed):
        print(kind, seed, look, flush=True)
        tokens, seconds = look.pop("tokens"), look.pop("seconds")
        curve.append(look)
        if look["valid"] == min(each["valid"] for each in curve):
            best = copy.deepcopy(model.state_dict())
    model.load_state_dict(best)
    parameters = sum(p.numel() for p in model.parameters())
    return model, {
        "kind": kind, "seed": seed, "peak rate": peak, "dropout": dropout,
        "parameters": parameters, "target tokens": tokens,
        "processor seconds": seconds, "curve": curve,
    }  # fmt: skip


def tested(model: nn.Module, tok: Tokenizer, pairs: list[translator.Pair]) -> dict[str, Any]:
    """BLEU of the test split, all of it and by the length of the source."""
    write = partial(translate, beam=1) if isinstance(model, Transformer) else translator.translate
    model.eval()
    out = write(model, tok, [source for source, _ in pairs])
    rows = []
    for low, high in translator.BINS:
        here = [i for i, (en, _) in enumerate(pairs) if low <= len(en.split()) <= high]
        value = bleu([out[i] for i in here], [pairs[i][1] for i in here])
        rows.append({"low": low, "high": high, "sentences": len(here), "BLEU": round(value, 2)})
    return {"BLEU": round(bleu(out, [target for _, target in pairs]), 2), "by length": rows}


def kept() -> list[dict[str, Any]]:
    try:
        return results.load("matched")["data"]["rows"]
    except FileNotFoundError:
        return []


def main() -> None:
    torch.set_num_threads(1)
    tok, test = translator.tokenizer(), load_pairs(split="test")
    ids = translator.encoded(tok)
    settings = {
        "data": "tatoeba-en-fr", "pairs": len(ids["train"]), "updates": translator.UPDATES,
        "batch tokens": translator.MAX_TOKENS, "warmup": translator.WARMUP,
        "clip": translator.CLIP,
        "smoothing": 0.0, "vocabulary": CONFIG.vocab_size, "recurrent width": translator.D_MODEL,
        "d_model": CONFIG.d_model, "d_ff": CONFIG.d_ff, "heads": CONFIG.n_heads,
        "layers": CONFIG.n_layers, "norm first": CONFIG.norm_first, "precision": "fp32",
        "test pairs": len(test), "decoding": "greedy",
    }  # fmt: skip
    runs = RUNS
    if chosen := sys.argv[1:]:
        kind, seed, peak, dropout = chosen
        runs = [(kind, int(seed), float(peak), float(dropout))]
    for one in runs:
        names = ("kind", "seed", "peak rate", "dropout")
        if one not in {tuple(row[name] for name in names) for row in kept()}:
            model, row = trained(*one, ids)
            row |= tested(model, tok, test)
            print(row, flush=True)
            record("matched", {"settings": settings, "rows": [*kept(), row]})


if __name__ == "__main__":
    main()
