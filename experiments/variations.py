"""The paper's Table 3 in small: what each part of the Transformer is worth.

    python experiments/variations.py                    # every row with three seeds
    python experiments/variations.py --rows base heads-1 --seeds 0
    python experiments/variations.py --rows base post-norm --rate 0.3 --precision fp32

Everyday English to French (tatoeba-en-fr), pairs of at most six words a side. Each row changes one
thing of a small base model and is trained for the same number of updates, with the paper's Adam and
schedule. The base is pre-norm: with so few updates post-norm, a row of its own, has only begun to
learn. Loss and BLEU are those of the valid split, of the weights after the last update, without
averaging. Every row is kept as soon as it is done; rows that are there are not run again.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from record import record
from torch import nn

from allyouneed import results
from allyouneed.data import load_pairs
from allyouneed.decoding import translate
from allyouneed.evaluation import bleu
from allyouneed.multihead import MultiHeadAttention
from allyouneed.positions import LearnedPositions
from allyouneed.tokens import Tokenizer, token_batches
from allyouneed.training import learning_rate, train, validation_loss
from allyouneed.transformer import Transformer, TransformerConfig

BASE = TransformerConfig(1500, d_model=128, d_ff=512, n_heads=4, n_layers=3, norm_first=True)
STEPS, WARMUP, MAX_TOKENS, WORDS, VALID = 1200, 300, 1024, 6, 500


def attentions(model: Transformer) -> list[MultiHeadAttention]:
    return [part for part in model.modules() if isinstance(part, MultiHeadAttention)]


def narrower_keys(d_k: int, model: Transformer) -> None:
    """Give all heads queries and keys of width d_k; values keep theirs (rows (B))."""
    d_model, heads = model.config.d_model, model.config.n_heads
    for attention in attentions(model):
        for name in ("w_q", "w_k"):
            weight = nn.Linear(d_model, heads * d_k, bias=False)
            nn.init.xavier_uniform_(weight.weight)
            setattr(attention, name, weight)


def full_width(model: Transformer) -> None:
    """Fill narrower queries and keys up with zeros: the same attention, as decoding expects it."""
    d_model, heads = model.config.d_model, model.config.n_heads
    for attention in attentions(model):
        d_k = len(attention.w_q.weight) // heads
        scale = (d_model / heads / d_k) ** 0.5  # 1 / sqrt(d_k) is now that of the full width
        for linear, factor in ((attention.w_q, scale), (attention.w_k, 1.0)):
            filled = torch.zeros(heads, d_model // heads, d_model)
            filled[:, :d_k] = linear.weight.detach().unflatten(0, (heads, d_k)) * factor
            linear.weight = nn.Parameter(filled.flatten(0, 1))


def learned_positions(model: Transformer) -> None:
    """Row (E): a table of positions that is learned."""
    model.positions = LearnedPositions(model.config.d_model, 256)


def no_positions(model: Transformer) -> None:
    """Words without their order."""
    model.positions.table.zero_()


# name: (the paper's row, what changes in the configuration, how the model is changed, smoothing);
# what says most comes first, for a machine that may be needed for something else before the end
Row = tuple[str, dict[str, Any], Callable[[Transformer], None] | None, float]
ROWS: dict[str, Row] = {
    "base": ("base", {}, None, 0.1),
    "heads-1": ("A", {"n_heads": 1}, None, 0.1),
    "no-positions": ("ours", {}, no_positions, 0.1),
    "learned-positions": ("E", {}, learned_positions, 0.1),
    "post-norm": ("ours", {"norm_first": False}, None, 0.1),
    "dropout-0": ("D", {"dropout": 0.0}, None, 0.1),
    "smoothing-0": ("D", {}, None, 0.0),
    "layers-1": ("C", {"n_layers": 1}, None, 0.1),
    "d_k-8": ("B", {}, partial(narrower_keys, 8), 0.1),
    "heads-8": ("A", {"n_heads": 8}, None, 0.1),
    "d_model-64": ("C", {"d_model": 64}, None, 0.1),
    "d_ff-1024": ("C", {"d_ff": 1024}, None, 0.1),
    "dropout-0.2": ("D", {"dropout": 0.2}, None, 0.1),
    "smoothing-0.2": ("D", {}, None, 0.2),
    "layers-2": ("C", {"n_layers": 2}, None, 0.1),
    "d_ff-256": ("C", {"d_ff": 256}, None, 0.1),
    "heads-16": ("A", {"n_heads": 16}, None, 0.1),
    "d_k-16": ("B", {}, partial(narrower_keys, 16), 0.1),
    "heads-2": ("A", {"n_heads": 2}, None, 0.1),
    "layers-4": ("C", {"n_layers": 4}, None, 0.1),
    "d_model-192": ("C", {"d_model": 192}, None, 0.1),
}


def longest(pair: tuple[str, str]) -> int:
    """The number of words of the longer sentence."""
    return max(len(sentence.split()) for sentence in pair)


def loss_of(model: Transformer, ids: dict[str, list], precision: str) -> float:
    """In nats per token of the valid split."""
    return validation_loss(model, token_batches(ids["valid"], MAX_TOKENS), precision)


def run(
    name: str, seed: int, tokenizer: Tokenizer, ids: dict[str, list], valid,
    rate: float, precision: str,
) -> dict[str, Any]:  # fmt: skip
    """Train one row, at `rate` times the schedule's; what it costs and how good it is."""
    letter, changes, alter, smoothing = ROWS[name]
    torch.manual_seed(seed)
    model = Transformer(replace(BASE, **changes))
    if alter:
        alter(model)

    start = time.process_time()
    batches = partial(token_batches, ids["train"], MAX_TOKENS, seed)
    sizes = {"d_model": model.config.d_model, "warmup_steps": WARMUP}
    losses = [
        r.loss
        for r in train(
            model, batches, STEPS, schedule=lambda step: rate * learning_rate(step, **sizes),
            smoothing=smoothing, precision=precision, seed=seed,
        )
    ]  # fmt: skip
    seconds = time.process_time() - start
    loss = loss_of(model, ids, precision)
    parameters = sum(p.numel() for p in model.parameters())
    full_width(model)
    assert math.isclose(loss, loss_of(model, ids, precision), rel_tol=1e-2)
    written = translate(model, tokenizer, [source for source, _ in valid], beam=1)
    row = {
        "row": letter,
        "name": name,
        "seed": seed,
        "parameters": parameters,
        "train loss": round(sum(losses[-100:]) / 100, 4),
        "valid loss": round(loss, 4),
        "perplexity": round(math.exp(loss), 3),
        "BLEU": round(bleu(written, [target for _, target in valid]), 2),
        "processor seconds": round(seconds),
    }
    print(row, flush=True)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", nargs="*", default=list(ROWS), choices=list(ROWS))
    parser.add_argument("--seeds", nargs="*", type=int, default=[0, 1, 2])
    words = "times the schedule's: kept in variations_rate.json"
    parser.add_argument("--rate", type=float, default=1.0, help=words)
    parser.add_argument("--precision", choices=("fp32", "bf16"), default="bf16")
    args = parser.parse_args()
    pairs, valid = (
        [pair for pair in load_pairs("tatoeba-en-fr", split) if longest(pair) <= WORDS]
        for split in ("train", "valid")
    )
    valid = valid[:: len(valid) // VALID][:VALID]
    tokenizer = Tokenizer.train((s for pair in pairs for s in pair), BASE.vocab_size)
    ids = {
        split: [(tokenizer.encode(a), tokenizer.encode(b)) for a, b in some]
        for split, some in (("train", pairs), ("valid", valid))
    }
    settings = {
        "data": "tatoeba-en-fr", "words at most": WORDS, "pairs": len(pairs), "steps": STEPS,
        "warmup": WARMUP, "batch tokens": MAX_TOKENS,
        "vocabulary": BASE.vocab_size, "d_model": BASE.d_model, "d_ff": BASE.d_ff,
        "heads": BASE.n_heads, "layers": BASE.n_layers, "dropout": BASE.dropout,
        "norm first": BASE.norm_first, "smoothing": 0.1, "valid pairs": len(valid),
        "precision": args.precision, "times the rate": args.rate,
    }  # fmt: skip
    file = "variations" if args.rate == 1 else "variations_rate"
    try:
        rows = results.load(file)["data"]["rows"]
    except FileNotFoundError:
        rows = []
    for seed in args.seeds:
        for name in args.rows:
            if (name, seed) not in {(row["name"], row["seed"]) for row in rows}:
                rows.append(run(name, seed, tokenizer, ids, valid, args.rate, args.precision))
                record(file, {"settings": settings, "rows": rows})


if __name__ == "__main__":
    main()
