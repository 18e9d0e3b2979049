"""Chapter 12: what is each of the paper's four choices worth to its small model?

    python experiments/choices.py     # about fifteen minutes on one core

A model of width 64 makes 150 updates with the chapter's loop on the chapter's easy sentences, from
three beginnings: with the paper's loss, batches, optimiser and schedule, with some of the four put
back to the plain choice, and with all four. Batches drawn by chance hold more places, by their
padding: so the paper's four get more updates, too, until their batches have had as many. Some
schedules are compared over 600 updates, too. What is kept is the loss of held-out tokens, without
smoothing. Each way of stepping is tried with several rates, RATES: of a schedule the number is the
highest rate that it reaches, and the mean over the updates is kept beside it. Every row is kept as
soon as it is done; rows that are there are not run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice

import torch
from confidence import Ids, easy_sentences
from record import record
from torch import Tensor
from torch.nn import functional as F

from allyouneed import results
from allyouneed.tokens import BOS, EOS, PAD, Batch, pad, token_batches
from allyouneed.training import adam, label_smoothed_loss, learning_rate, validation_loss
from allyouneed.transformer import Transformer, TransformerConfig

STEPS, LONGER, SEEDS, WARMUP = 150, 600, range(3), 60
USUAL = 0.008  # about (64 * 60)^-0.5 / 2, for all ways that keep the paper's optimiser and schedule


def cross_entropy(logits: Tensor, labels: Tensor, ignore: int) -> Tensor:
    return F.cross_entropy(
        logits.flatten(0, 1), labels.flatten(), ignore_index=ignore, reduction="sum"
    )


def all_places(logits: Tensor, labels: Tensor) -> tuple[Tensor, int]:
    return cross_entropy(logits, labels, -100), labels.numel()


def tokens_only(logits: Tensor, labels: Tensor) -> tuple[Tensor, int]:
    return cross_entropy(logits, labels, PAD), int((labels != PAD).sum())


def by_chance(ids: Ids, epoch: int, size: int = 63) -> Iterator[Batch]:
    order = torch.randperm(len(ids), generator=torch.Generator().manual_seed(epoch)).tolist()
    for i in range(0, len(order), size):
        some = [ids[j] for j in order[i : i + size]]
        yield Batch(pad([[*s, EOS] for s, _ in some]), pad([[BOS, *t, EOS] for _, t in some]))


def by_tokens(ids: Ids, epoch: int) -> Iterator[Batch]:
    return token_batches(ids, max_tokens=700, seed=0, epoch=epoch)


def four_lengths(ids: Ids, epoch: int) -> Iterator[Batch]:
    """Four batches of like length, each with a quarter of the room, for one update.

    They are padded to one width: without a loss of PAD the gradient is what they would add up to.
    """
    batches = token_batches(ids, max_tokens=175, seed=0, epoch=epoch)
    while four := list(islice(batches, 4)):
        src, tgt = (
            pad([row[row != PAD].tolist() for batch in four for row in side(batch)])
            for side in (lambda batch: batch.src, lambda batch: batch.tgt)
        )
        yield Batch(src, tgt)


def descent(model: Transformer) -> torch.optim.SGD:
    return torch.optim.SGD(model.parameters(), lr=0.1)


def with_momentum(model: Transformer) -> torch.optim.SGD:
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def division_only(model: Transformer) -> torch.optim.Adam:
    """The paper's Adam, each gradient taken as it is: without an average of it."""
    return torch.optim.Adam(model.parameters(), betas=(0.0, 0.98), eps=1e-9)


class OneDivisor(torch.optim.Optimizer):
    """Each gradient divided by one length for all weights: the running mean is over them all."""

    def __init__(self, model: Transformer):
        super().__init__(model.parameters(), {"lr": 0.1})
        self.second, self.steps = 0.0, 0

    @torch.no_grad()
    def step(self) -> None:
        weights = self.param_groups[0]["params"]
        squares = sum(float((p.grad**2).sum()) for p in weights)
        mean = squares / sum(p.numel() for p in weights)
        self.second = 0.98 * self.second + 0.02 * mean
        self.steps += 1
        length = (self.second / (1 - 0.98**self.steps)) ** 0.5 + 1e-9
        for p in weights:
            p -= self.param_groups[0]["lr"] / length * p.grad


def warmed(highest: float) -> Callable[[int], float]:
    """The paper's schedule, equation (3), times what gives it this highest rate."""
    top = learning_rate(WARMUP, d_model=64, warmup_steps=WARMUP)
    return lambda step: highest / top * learning_rate(step, d_model=64, warmup_steps=WARMUP)


def level(rate: float) -> Callable[[int], float]:
    return lambda step: rate


def warmed_level(highest: float) -> Callable[[int], float]:
    """The paper's warm-up, and no fall."""
    return lambda step: highest * min(1.0, step / WARMUP)


def warmed_line(highest: float, steps: int = STEPS) -> Callable[[int], float]:
    """The paper's warm-up, then a line that is at zero one update after the last."""
    left = steps + 1 - WARMUP
    return lambda step: highest * min(step / WARMUP, (steps + 1 - step) / left)


PAPER = {"loss": label_smoothed_loss, "batches": by_tokens, "optimiser": adam, "schedule": warmed}
PLAIN = {"loss": all_places, "batches": by_chance, "optimiser": descent, "schedule": level}
WAYS = {
    "the paper's four": {},
    "the paper's four, as many places": {},
    "no smoothing": {"loss": tokens_only},
    "by chance": {"batches": by_chance},
    "by chance, no smoothing": {"batches": by_chance, "loss": tokens_only},
    "by chance, no smoothing, all places": {"batches": by_chance, "loss": all_places},
    "Adam, level rate": {"schedule": level},
    "momentum, level rate": {"optimiser": with_momentum, "schedule": level},
    "gradient descent, level rate": {"optimiser": descent, "schedule": level},
    "the plain four": PLAIN,
    "division only, level rate": {"optimiser": division_only, "schedule": level},
    "division by one number, level rate": {"optimiser": OneDivisor, "schedule": level},
    "warm-up, then level": {"schedule": warmed_level},
    "warm-up, then a line to zero": {"schedule": warmed_line},
    "by tokens, four lengths to an update": {"batches": four_lengths},
    "four lengths to an update, as many places": {"batches": four_lengths},
    "warm-up, then a line to zero, 600 updates": {"schedule": partial(warmed_line, steps=LONGER)},
    "Adam, level rate, 600 updates": {"schedule": level},
    "the paper's four, 600 updates": {},
}
RATES = {
    "the paper's four": (0.004, USUAL, 0.012, 0.016),
    "Adam, level rate": (0.002, 0.003, 0.005, 0.008, 0.012),
    "momentum, level rate": (0.05, 0.1, 0.2, 0.3),
    "gradient descent, level rate": (0.2, 0.4, 0.8),
    "the plain four": (0.2, 0.4, 0.8),
    "division only, level rate": (0.002, 0.004, USUAL),
    "division by one number, level rate": (0.0005, 0.001, 0.002, 0.004, USUAL),
    "warm-up, then level": (0.004, 0.006, USUAL, 0.012),
    "warm-up, then a line to zero": (USUAL, 0.012, 0.016),
    "warm-up, then a line to zero, 600 updates": (0.005, USUAL, 0.012, 0.016),
    "Adam, level rate, 600 updates": (0.002, 0.003, 0.005, USUAL),
    "the paper's four, 600 updates": (0.005, USUAL, 0.012, 0.016),
}


def one_run(
    seed: int, way: dict, rate: float, steps: int, ids: Ids, held_out: list[Batch], vocab_size: int
) -> float:
    choices = PAPER | way
    torch.manual_seed(seed)
    model = Transformer(TransformerConfig(vocab_size, 64, 128, 4, 1, 0.0))
    optimizer, schedule = choices["optimiser"](model), choices["schedule"](rate)
    step, epoch = 0, 0
    while step < steps:
        for batch in choices["batches"](ids, epoch):
            step += 1
            total, count = choices["loss"](model(batch.src, batch.tgt[:, :-1]), batch.tgt[:, 1:])
            optimizer.zero_grad()
            (total / count).backward()
            for settings in optimizer.param_groups:
                settings["lr"] = schedule(step)
            optimizer.step()
            if step == steps:
                break
        epoch += 1
    return validation_loss(model, held_out)


def main() -> None:
    torch.set_num_threads(1)
    ids, valid_ids, vocab_size = easy_sentences()
    held_out = list(token_batches(valid_ids, max_tokens=2000))
    places = {
        kind: sum(b.src.numel() + b.tgt.numel() for b in islice(kind(ids, 0), STEPS))
        for kind in (by_chance, by_tokens)
    }
    more = round(STEPS * places[by_chance] / places[by_tokens])
    try:
        rows = results.load("choices")["data"]["rows"]
    except FileNotFoundError:
        rows = []
    done = {(row["way"], row["rate"]) for row in rows}
    for label, way in WAYS.items():
        steps = more if label.endswith("as many places") else STEPS
        steps = LONGER if label.endswith(f"{LONGER} updates") else steps
        for rate in RATES.get(label, (USUAL,)):
            if (label, rate) not in done:
                losses = [one_run(s, way, rate, steps, ids, held_out, vocab_size) for s in SEEDS]
                rows.append({"way": label, "rate": rate, "updates": steps, "held out": losses})
                print(rows[-1], flush=True)
                keep(rows)


def keep(rows: list[dict]) -> None:
    """Write the rows, each with the mean of its rate over its updates."""
    for row in rows:
        rate = (PAPER | WAYS[row["way"]])["schedule"](row["rate"])
        row["mean rate"] = sum(map(rate, range(1, row["updates"] + 1))) / row["updates"]
    record("choices", {"warm-up": WARMUP, "usual": USUAL, "rows": rows})


if __name__ == "__main__":
    main()
