"""What each part of fast training gains: `python experiments/levers.py`.

The small model of the benchmarks trains on the CPU, one thread, in several ways, turn by turn on
batches of the same sentences: with everything, and with one thing left out at a time. What is
recorded is the time of the process for a target token, padding not counted, as a multiple of that
with everything. Chapter 12 shows the table.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from statistics import median

import torch
from record import record
from torch import Tensor, nn

from allyouneed.data import load_pairs
from allyouneed.tokens import BOS, EOS, PAD, Batch, Tokenizer, pad, token_batches
from allyouneed.training import Objective, adam, label_smoothed_loss
from allyouneed.transformer import Transformer, TransformerConfig

DATA, MAX_TOKENS, GROUPS, ROUNDS = "multi30k-en-de", 2048, 2, 3
CONFIG = TransformerConfig(8_000, d_model=256, d_ff=1024, n_heads=4, n_layers=3)
LEFT_OUT = (
    *("nothing", "bucketing", "bfloat16", "the loss in chunks", "dropout from few bits"),
    "the fused optimiser",
)


class AllLogits(Objective):
    """The same loss from all logits, held at once."""

    def loss(self, states: Tensor, targets: Tensor) -> Tensor:
        weight = self.model.embedding.weight.to(states.dtype)
        return label_smoothed_loss(states @ weight.T, targets, self.smoothing)[0]


class PyTorchs(nn.Dropout):
    """Dropout that stays as PyTorch has it: `few_bits` changes only what is `nn.Dropout` itself."""


def update(left_out: str) -> Callable[[Batch], int]:
    """One update, as `train` makes it, without one thing; returns the number of tokens."""
    torch.manual_seed(0)
    model = Transformer(CONFIG).train()
    for part in model.modules():
        if left_out == "dropout from few bits" and type(part) is nn.Dropout:
            part.__class__ = PyTorchs
    dtype = torch.float32 if left_out == "bfloat16" else torch.bfloat16
    kind = AllLogits if left_out == "the loss in chunks" else Objective
    objective, optimizer = kind(model, 0.1, dtype), adam(model)
    if left_out == "the fused optimiser":
        optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9, foreach=False)
    for settings in optimizer.param_groups:
        settings["lr"] = 1e-4

    def step(batch: Batch) -> int:
        optimizer.zero_grad()
        tokens = int(batch.tgt_mask[:, 1:].sum())
        (objective(batch.src, batch.tgt) / tokens).backward()
        nn.utils.clip_grad_norm_(model.parameters(), float("inf"))
        optimizer.step()
        return tokens

    return step


def batches() -> tuple[list[Batch], list[Batch]]:
    """Batches of sentences of like length, and batches of sentences as they come by chance."""
    pairs = load_pairs(DATA)
    tokenizer = Tokenizer.train(
        (sentence for pair in pairs for sentence in pair), CONFIG.vocab_size
    )
    ids = [(tokenizer.encode(src), tokenizer.encode(tgt)) for src, tgt in pairs]
    bucketed = list(token_batches(ids, MAX_TOKENS))
    bucketed = [bucketed[i * len(bucketed) // GROUPS] for i in range(GROUPS)]
    number = round(sum(len(batch.src) for batch in bucketed) / GROUPS)
    random.Random(0).shuffle(ids)
    mixed = [ids[i * number : (i + 1) * number] for i in range(GROUPS)]
    return bucketed, [
        Batch(pad([[*src, EOS] for src, _ in some]), pad([[BOS, *tgt, EOS] for _, tgt in some]))
        for some in mixed
    ]


def padding(some: list[Batch]) -> float:
    """The share of places that hold no token, on both sides together."""
    places = torch.cat([side.flatten() for batch in some for side in (batch.src, batch.tgt)])
    return float((places == PAD).float().mean())


def main() -> None:
    torch.set_num_threads(1)
    bucketed, mixed = batches()
    steps = {name: update(name) for name in LEFT_OUT}
    seconds: dict[str, list[float]] = {name: [] for name in LEFT_OUT}  # per token, one for a round
    for turn in range(ROUNDS + 1):
        for i in range(len(steps)):  # each round begins with another one
            name = LEFT_OUT[(i + turn) % len(steps)]
            some = mixed if name == "bucketing" else bucketed
            begun = time.process_time()
            tokens = sum(steps[name](batch) for batch in some)
            if turn:  # the first round warms up
                seconds[name].append((time.process_time() - begun) / tokens)
    full = seconds["nothing"]
    times = {
        name: median(own / best for own, best in zip(taken, full, strict=True))
        for name, taken in seconds.items()
    }
    speed = {name: 1 / median(taken) for name, taken in seconds.items()}
    for name in LEFT_OUT:
        print(f"without {name:22}{speed[name]:>8,.0f} target tokens/s{times[name]:>7.2f} times")
    record(
        "levers",
        {
            "data": DATA, "max_tokens": MAX_TOKENS, "threads": 1, "config": vars(CONFIG),
            "padding": {"bucketed": padding(bucketed), "by chance": padding(mixed)},
            "tokens per second": speed, "times": times, "rounds": ROUNDS,
        },
    )  # fmt: skip


if __name__ == "__main__":
    main()
