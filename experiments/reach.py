"""The long run of chapter 17, "Long inputs": recall over up to 8,000 symbols, in eleven patterns.

python experiments/reach.py 1                  all patterns with one seed, one core; 3: with three
python experiments/reach.py 1 global stride    only those with such a word in their names, once more
"""

from __future__ import annotations

import math
import sys
import time
from functools import partial
from itertools import product

import torch
from record import record
from torch import Tensor, nn
from torch.nn import functional as F

from allyouneed import results
from allyouneed.attention import attention
from allyouneed.recurrent import recall_batch
from allyouneed.sparse import (
    SparseAttention,
    dilated_attention,
    dilated_mask,
    global_attention,
    global_mask,
    windowed_attention,
    windowed_mask,
)
from allyouneed.transformer import EncoderLayer, TransformerConfig

SUMMARY = 17  # one symbol more than chapter 2 has: it opens every sequence, and means nothing
CONFIG = TransformerConfig(18, d_model=32, d_ff=64, n_heads=1, n_layers=1, dropout=0.0)
DISTANCES = [16, 125, 250, 500, 1000, 2000, 4000, 8000]
TOKENS, WARMUP, STEPS, LEAST, LOOK = 8192, 50, 1500, 200, 50
RATES = 5e-3, 2e-3  # the second is tried where the first leaves something unanswered
TESTED = 64  # examples for each distance, at the end


def full(q: Tensor, k: Tensor, v: Tensor, padding: Tensor | None = None) -> Tensor:
    return attention(q, k, v, padding)


# A layer is its fast form, and its mask for a length.
FULL = full, lambda n: torch.ones(n, n, dtype=torch.bool)


def window(w: int) -> tuple:
    return partial(windowed_attention, window=w), lambda n: windowed_mask(n, w)


def dilation(w: int, d: int) -> tuple:
    return partial(dilated_attention, window=w, dilation=d), lambda n: dilated_mask(n, w, d)


def everybody(w: int, g: int) -> tuple:
    return partial(global_attention, window=w, n_global=g), lambda n: global_mask(n, w, g)


WHOLE = 10_000  # a window wider than any input: dilation becomes a stride
PATTERNS = {
    "full, 1 layer": [FULL],
    "windows of 301, 1 layer": [window(301)],
    "windows of 301, 2 layers": [window(301)] * 2,
    "windows of 301, 4 layers": [window(301)] * 4,
    "windows of 601, 2 layers": [window(601)] * 2,
    "dilated 1": [dilation(21, 1)],
    "dilated 1, 21": [dilation(21, 1), dilation(21, 21)],
    "dilated 1, 21, 441": [dilation(21, 1), dilation(21, 21), dilation(21, 441)],
    "window of 90, stride of 90": [window(90), dilation(WHOLE, 90)],
    "windows of 64, 1 global, 1 layer": [everybody(64, 1)],
    "windows of 64, 1 global, 2 layers": [everybody(64, 1)] * 2,
}


class Reader(nn.Module):
    """Embed, encoder layers with another attention in each, an answer from the last position."""

    def __init__(self, pattern: list[tuple]):
        super().__init__()
        self.embed, self.answer = nn.Embedding(18, 32), nn.Linear(32, 8)
        self.layers = nn.ModuleList(EncoderLayer(CONFIG) for _ in pattern)
        for layer, (attend, _) in zip(self.layers, pattern, strict=True):
            layer.self_attention = SparseAttention(CONFIG.d_model, CONFIG.n_heads, attend)

    def forward(self, symbols: Tensor) -> Tensor:
        x = self.embed(symbols)
        for layer in self.layers:
            x = layer(x)
        return self.answer(x[:, -1])


def examples(distance: int, batch: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Chapter 2's task with the summary symbol in front: the capital stands at position 1."""
    symbols, capitals = recall_batch(distance, batch, generator)
    return F.pad(symbols, (1, 0), value=SUMMARY), capitals


def reaches(pattern: list[tuple], distance: int) -> bool:
    """Whether the question at the end can hear of the capital: its row of `sparse.reach`."""
    heard = torch.zeros(distance + 2, dtype=torch.bool)
    heard[-1] = True
    for _, mask in reversed(pattern):
        heard |= mask(distance + 2)[heard].any(0)
    return bool(heard[1])


@torch.no_grad()
def accuracy(model: nn.Module, distance: int, number: int, seed: int) -> float:
    """The share of right answers, on examples of one seed, a few at a time."""
    generator, right = torch.Generator().manual_seed(seed), 0
    for _ in range(number // 8):
        symbols, capitals = examples(distance, 8, generator)
        right += int((model(symbols).argmax(1) == capitals).sum())
    return right / number


def train(pattern: list[tuple], within: list[int], seed: int, learning_rate: float) -> dict:
    """Distances from 2 to 8,000 mixed, evenly in their logarithm, about 8,192 symbols a step.

    Every 50 steps it is tried at all test distances within reach, on 16 examples each; when all
    are answered, or after 1,500 steps, training ends.
    """
    torch.manual_seed(seed)
    model, generator = Reader(pattern), torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    rise = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) / WARMUP))
    start = time.process_time()
    for step in range(1, STEPS + 1):
        share = torch.rand((), generator=generator).item()
        distance = round(math.exp(math.log(2) + share * math.log(8000 / 2)))
        batch = max(1, min(64, TOKENS // distance))
        symbols, capitals = examples(distance, batch, generator)
        optimizer.zero_grad()
        F.cross_entropy(model(symbols), capitals).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step(), rise.step()
        if step >= LEAST and step % LOOK == 0:
            looks = [accuracy(model, distance, 16, 1000 + step) for distance in within]
            if min(looks) == 1:
                break
    found = {str(d): round(accuracy(model, d, TESTED, 999), 3) for d in DISTANCES}
    seconds = round(time.process_time() - start)
    run = {"seed": seed, "learning_rate": learning_rate, "steps": step, "cpu_seconds": seconds}
    return run | {"last_look": round(sum(looks) / len(looks), 3), "accuracy": found}


def best_run(pattern: list[tuple], within: list[int], seed: int) -> dict:
    """With the first learning rate that answers all; if none does, the better at the last look."""
    runs: list[dict] = []
    for learning_rate in RATES:
        runs.append(train(pattern, within, seed, learning_rate))
        if runs[-1]["last_look"] == 1:
            break
    return max(runs, key=lambda run: run["last_look"])


def main() -> None:
    torch.set_num_threads(1)
    seeds, words = range(int(sys.argv[1])), sys.argv[2:] or [""]
    settings = {"d_model": 32, "symbols_per_step": TOKENS, "learning_rates": RATES}
    settings |= {"warmup": WARMUP, "most_steps": STEPS, "tested": TESTED, "chance": 1 / 8}
    patterns = results.load("reach")["data"]["patterns"] if sys.argv[2:] else {}
    for seed, name in product(seeds, PATTERNS):
        if not any(word in name for word in words):
            continue
        pattern, found = PATTERNS[name], patterns.setdefault(name, {"runs": []})
        found["layers"] = len(pattern)
        found["reaches"] = {str(d): reaches(pattern, d) for d in DISTANCES}
        within = [d for d in DISTANCES if found["reaches"][str(d)]]
        runs = [run for run in found["runs"] if run["seed"] != seed]
        found["runs"] = [*runs, best_run(pattern, within, seed)]
        print(name, found["runs"][-1], flush=True)
        kept = {name: patterns[name] for name in PATTERNS if name in patterns}
        record("reach", {**settings, "distances": DISTANCES, "patterns": kept})


if __name__ == "__main__":
    main()
