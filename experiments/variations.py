"""The paper's Table 3 in small: what each part of the Transformer is worth.

    python experiments/variations.py                    # every row, seed 0 (the base with three)
    python experiments/variations.py --rows base heads-1

Everyday English to French (tatoeba-en-fr). Each row changes one thing of a small base model and is
trained for the same number of updates, with the paper's Adam and schedule. Loss and BLEU are those
of the valid split, of the weights after the last update, without averaging, as in the paper's
Table 3. Every row is kept as soon as it is done; rows that are there are not run again.
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
from allyouneed.positions import LearnedPositions
from allyouneed.tokens import Tokenizer, token_batches
from allyouneed.training import learning_rate, train, validation_loss
from allyouneed.transformer import Transformer, TransformerConfig

BASE = TransformerConfig(vocab_size=4000, d_model=128, d_ff=512, n_heads=4, n_layers=3, dropout=0.1)
STEPS, WARMUP, MAX_TOKENS, VALID = 600, 250, 2048, 500


def narrower_keys(d_k: int, model: Transformer) -> None:
    """Give all heads queries and keys of width d_k; values keep theirs (rows (B))."""
    d_model, heads = model.config.d_model, model.config.n_heads
    for layer in [*model.encoder.layers, *model.decoder.layers]:
        for attention in [layer.self_attention, getattr(layer, "cross_attention", None)]:
            if attention:
                for name in ("w_q", "w_k"):
                    weight = nn.Linear(d_model, heads * d_k, bias=False)
                    nn.init.xavier_uniform_(weight.weight)
                    setattr(attention, name, weight)


def learned_positions(model: Transformer) -> None:
    """Row (E): a table of positions that is learned."""
    model.positions = LearnedPositions(model.config.d_model, 256)


def no_positions(model: Transformer) -> None:
    """Words without their order."""
    model.positions = nn.Identity()


# name: (the paper's row, what changes in the configuration, how the model is changed, smoothing);
# what says most comes first, for a machine that may be needed for something else before the end
Row = tuple[str, dict[str, Any], Callable[[Transformer], None] | None, float]
ROWS: dict[str, Row] = {
    "base": ("base", {}, None, 0.1),
    "heads-1": ("A", {"n_heads": 1}, None, 0.1),
    "no-positions": ("ours", {}, no_positions, 0.1),
    "learned-positions": ("E", {}, learned_positions, 0.1),
    "pre-norm": ("ours", {"norm_first": True}, None, 0.1),
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


def run(name: str, seed: int, tokenizer: Tokenizer, ids: dict[str, list], valid) -> dict[str, Any]:
    """Train one row; what it costs and how good it is."""
    letter, changes, alter, smoothing = ROWS[name]
    torch.manual_seed(seed)
    model = Transformer(replace(BASE, **changes))
    if alter:
        alter(model)

    start = time.process_time()
    batches = partial(token_batches, ids["train"], MAX_TOKENS, seed)
    schedule = partial(learning_rate, d_model=model.config.d_model, warmup_steps=WARMUP)
    losses = [
        r.loss
        for r in train(
            model, batches, STEPS, schedule=schedule, smoothing=smoothing,
            dtype=torch.bfloat16, seed=seed,
        )
    ]  # fmt: skip
    seconds = time.process_time() - start
    loss = validation_loss(model, token_batches(ids["valid"], MAX_TOKENS), torch.bfloat16)
    written = translate(model, tokenizer, [source for source, _ in valid], beam=1)
    row = {
        "row": letter,
        "name": name,
        "seed": seed,
        "parameters": sum(p.numel() for p in model.parameters()),
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
    args = parser.parse_args()
    pairs, valid = load_pairs("tatoeba-en-fr", "train"), load_pairs("tatoeba-en-fr", "valid")
    valid = valid[:: len(valid) // VALID][:VALID]
    tokenizer = Tokenizer.train((s for pair in pairs for s in pair), BASE.vocab_size)
    ids = {
        split: [(tokenizer.encode(a), tokenizer.encode(b)) for a, b in some]
        for split, some in (("train", pairs), ("valid", valid))
    }
    settings = {
        "data": "tatoeba-en-fr", "steps": STEPS, "warmup": WARMUP, "batch tokens": MAX_TOKENS,
        "vocabulary": BASE.vocab_size, "d_model": BASE.d_model, "d_ff": BASE.d_ff,
        "heads": BASE.n_heads, "layers": BASE.n_layers, "dropout": BASE.dropout,
        "smoothing": 0.1, "valid pairs": len(valid), "precision": "bf16",
    }  # fmt: skip
    try:
        rows = results.load("variations")["data"]["rows"]
    except FileNotFoundError:
        rows = []
    for name in args.rows:
        for seed in (0, 1, 2) if name == "base" else (0,):
            if (name, seed) not in {(row["name"], row["seed"]) for row in rows}:
                rows.append(run(name, seed, tokenizer, ids, valid))
                record("variations", {"settings": settings, "rows": rows})


if __name__ == "__main__":
    main()
