"""Chapter 14: recurrence with attention and the Transformer, as large, trained on the same batches.

    python experiments/matched.py                # both: three hours on one core
    python experiments/matched.py recurrent      # one of them

Chapter 3's net with attention (width 192) and a Transformer of as many parameters (width 128, three
layers on each side, pre-norm) see the same 2,000 batches of everyday sentences, with chapter 3's
vocabulary, chapter 12's loss, and chapter 3's optimizer: Adam, a rate that rises for 200 updates
and then falls to zero in a line, gradients clipped. All is in float32. Each has the peak rate with
the lowest validation loss of those tried with seed 0, from RATES and on until the best is none of
the ends, and then two seeds more. The test split is translated greedily, by the best rate alone.
Every row is kept as soon as it is done; rows that are there are not run again.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from itertools import count, islice
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
from allyouneed.tokens import PAD, Batch, Tokenizer, token_batches
from allyouneed.training import label_smoothed_loss
from allyouneed.transformer import Transformer, TransformerConfig

UPDATES, MAX_TOKENS, WARMUP, CLIP, SMOOTHING, DROPOUT = 2000, 2048, 200, 1.0, 0.1, 0.1
RATES, SEEDS = (1e-3, 2e-3, 4e-3), (0, 1, 2)
WIDTH = 192
CONFIG = TransformerConfig(
    translator.VOCAB_SIZE, d_model=128, d_ff=512, n_heads=4, n_layers=3,
    dropout=DROPOUT, norm_first=True,
)  # fmt: skip


def build(kind: str) -> nn.Module:
    if kind == "transformer":
        return Transformer(CONFIG)
    return Translator(CONFIG.vocab_size, WIDTH, Additive(WIDTH, 2 * WIDTH, WIDTH), DROPOUT)


@torch.no_grad()
def valid_loss(model: nn.Module, batches: list[Batch]) -> float:
    """Nats per target token, without smoothing."""
    model.eval()
    sums = [label_smoothed_loss(model(b.src, b.tgt[:, :-1]), b.tgt[:, 1:], 0.0) for b in batches]
    model.train()
    return sum(loss.item() for loss, _ in sums) / sum(tokens for _, tokens in sums)


def trained(kind: str, rate: float, seed: int, ids: dict[str, list]) -> tuple[nn.Module, dict]:
    torch.manual_seed(seed)
    model = build(kind)
    adam = torch.optim.Adam(model.parameters(), lr=rate)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        adam, lambda n: min((n + 1) / WARMUP, (UPDATES - n) / (UPDATES - WARMUP))
    )
    batches = (b for epoch in count() for b in token_batches(ids["train"], MAX_TOKENS, seed, epoch))
    losses, tokens, start = [], 0, time.process_time()
    for n, batch in enumerate(islice(batches, UPDATES), start=1):
        total, real = label_smoothed_loss(
            model(batch.src, batch.tgt[:, :-1]), batch.tgt[:, 1:], SMOOTHING
        )
        loss = total / real
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP)
        adam.step()
        schedule.step()
        losses.append(loss.item())
        tokens += int((batch.tgt[:, 1:] != PAD).sum())
        if n % 200 == 0:
            print(kind, rate, seed, n, f"{sum(losses[-200:]) / 200:.4f}", flush=True)
    seconds = time.process_time() - start
    loss = valid_loss(model, list(token_batches(ids["valid"], MAX_TOKENS)))
    return model, {
        "kind": kind, "rate": rate, "seed": seed,
        "parameters": sum(p.numel() for p in model.parameters()), "target tokens": tokens,
        "train loss": round(sum(losses[-100:]) / 100, 4), "valid loss": round(loss, 4),
        "processor seconds": round(seconds),
    }  # fmt: skip


def tested(model: nn.Module, tok: Tokenizer, pairs: list[translator.Pair]) -> dict[str, Any]:
    """BLEU of the test split, all of it and by the length of the source."""
    write = partial(translate, beam=1) if isinstance(model, Transformer) else translator.translate
    start = time.process_time()
    out = write(model, tok, [source for source, _ in pairs])
    rows = []
    for low, high in translator.BINS:
        here = [i for i, (en, _) in enumerate(pairs) if low <= len(en.split()) <= high]
        score = bleu([out[i] for i in here], [pairs[i][1] for i in here])
        rows.append({"low": low, "high": high, "sentences": len(here), "BLEU": round(score, 2)})
    return {
        "BLEU": round(bleu(out, [target for _, target in pairs]), 2),
        "BLEU by length": rows,
        "decoding seconds": round(time.process_time() - start),
    }


def kept() -> list[dict[str, Any]]:
    try:
        return results.load("matched")["data"]["rows"]
    except FileNotFoundError:
        return []


def of(kind: str, seed: int = 0) -> dict[float, dict[str, Any]]:
    return {row["rate"]: row for row in kept() if (row["kind"], row["seed"]) == (kind, seed)}


def next_rate(kind: str) -> float | None:
    """The rate to be tried next with seed 0; None when the best has a neighbour on each side."""
    rows = of(kind)
    for rate in RATES:
        if rate not in rows:
            return rate
    best = min(rows, key=lambda rate: rows[rate]["valid loss"])
    if best == min(rows):
        return best / 2
    return best * 2 if best == max(rows) else None


def best_rate(kind: str) -> float:
    rows = of(kind)
    return min(rows, key=lambda rate: rows[rate]["valid loss"])


def main() -> None:
    torch.set_num_threads(1)
    tok, test = translator.tokenizer(), load_pairs(split="test")
    ids = {
        split: [(tok.encode(en), tok.encode(fr)) for en, fr in load_pairs(split=split)]
        for split in ("train", "valid")
    }
    settings = {
        "data": "tatoeba-en-fr", "pairs": len(ids["train"]), "updates": UPDATES,
        "batch tokens": MAX_TOKENS, "warmup": WARMUP, "clip": CLIP, "smoothing": SMOOTHING,
        "dropout": DROPOUT, "vocabulary": CONFIG.vocab_size, "recurrent width": WIDTH,
        "d_model": CONFIG.d_model, "d_ff": CONFIG.d_ff, "heads": CONFIG.n_heads,
        "layers": CONFIG.n_layers, "norm first": CONFIG.norm_first, "precision": "fp32",
        "test pairs": len(test), "decoding": "greedy",
    }  # fmt: skip

    def keep(row: dict[str, Any]) -> None:
        print(row, flush=True)
        others = [old for old in kept() if any(old[k] != row[k] for k in ("kind", "rate", "seed"))]
        record("matched", {"settings": settings, "rows": [*others, row]})

    for kind in sys.argv[1:] or ("transformer", "recurrent"):
        models = {}  # of seed 0, so that the best is not trained twice
        while (rate := next_rate(kind)) is not None:
            models[rate], row = trained(kind, rate, 0, ids)
            keep(row)
        rate = best_rate(kind)
        for seed in SEEDS:
            row = of(kind, seed).get(rate, {})
            if "BLEU" not in row:
                model = models.get(rate) if seed == 0 else None
                if model is None:
                    model, row = trained(kind, rate, seed, ids)
                keep({**row, **tested(model, tok, test)})


if __name__ == "__main__":
    main()
