"""Training and decoding for the project: a toy machine, what is right, and what is often wrong."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from allyouneed.tokens import BOS, EOS, PAD, UNK

Faults = frozenset[str]
Rows = list[list[int]]


class Toy(nn.Module):
    """A machine for which all that is asked of one holds: logits from the source and a prefix.

    What it says depends on all tokens up to each place, and on whether it is in training mode.
    """

    def __init__(self, seed: int, eos: float = 0.0, vocab: int = 9, steep: float = 0.7):
        super().__init__()
        self.steep = steep  # in training
        draw = torch.Generator().manual_seed(seed)
        self.source, self.target = (
            nn.Parameter(torch.randn(vocab, vocab, generator=draw) * 1.5) for _ in range(2)
        )
        bias = torch.zeros(vocab)
        bias[[PAD, UNK, BOS]], bias[EOS] = -20.0, eos
        self.register_buffer("bias", bias)
        self.eval()

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        real = (src != PAD).to(self.source.dtype)[..., None]
        x = (self.source[src] * real).sum(1, keepdim=True) / real.sum(1, keepdim=True)
        past = self.target[tgt]
        before = past.cumsum(1) - past
        places = torch.arange(1, tgt.shape[1] + 1, device=tgt.device)[:, None]
        logits = x + past + 0.6 * before / places + self.bias
        return logits.flip(-1) * self.steep if self.training else logits

    def __repr__(self) -> str:
        return "a small machine of the check's"


# Training


def train(
    model: Toy, batches: Iterable, d_model: int, warmup_steps: int, faults: Faults = frozenset(),
    loss: Callable = ..., rate: Callable = ...,
) -> None:  # fmt: skip
    """Adam as in section 5.3, one update for each batch."""
    if "mode" not in faults:
        model.train()
    betas = (0.9, 0.999) if "betas" in faults else (0.9, 0.98)
    betas = betas[::-1] if "betas exchanged" in faults else betas
    kind = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
    kind = next((kind[f] for f in faults if f in kind), torch.optim.Adam)
    how = {} if "sgd" in faults else {"betas": betas, "eps": 1e-9}
    optimizer = kind(model.parameters(), lr=1.0, **how)
    for step, (src, tgt) in enumerate(batches, 1):
        number = step + ("one ahead" in faults) - ("one behind" in faults)
        number = max(step - 1, 1) if "first twice" in faults else number
        lr = rate(number, d_model, warmup_steps) if number else 0.0
        if "constant" in faults:
            lr = rate(warmup_steps, d_model, warmup_steps)
        if "first rate" in faults:
            lr = rate(1, d_model, warmup_steps)
        if "anew" in faults:
            optimizer = kind(model.parameters(), lr=1.0, **how)
        optimizer.param_groups[0]["lr"] = lr * (0.001 if "thousandth" in faults else 1)
        inputs, labels = tgt[:, :-1], tgt[:, 1:]
        if "no shift" in faults:
            inputs, labels = tgt, tgt
        if "read the labels" in faults:
            inputs = labels
        if "no shift, cut" in faults:
            labels = inputs
        if "shifted back" in faults:
            inputs, labels = labels, inputs
        if "shifted twice" in faults:
            inputs, labels = tgt[:, :-2], tgt[:, 2:]
        if "source for target" in faults:
            inputs = src[:, : labels.shape[1]]
        src = inputs if "target for source" in faults else src
        if "gradients kept" not in faults:
            optimizer.zero_grad()
        logits = model(src, inputs)
        if "logits too late" in faults:
            logits = model(src, tgt)[:, 1:]
        value = loss(logits, labels, 0.0 if "no smoothing" in faults else 0.1, PAD)
        if faults & {"padding counted", "torch's smoothing"}:
            value = nn.functional.cross_entropy(
                logits.flatten(0, 1), labels.flatten(), label_smoothing=0.1,
                ignore_index=PAD if "torch's smoothing" in faults else -100,
            )  # fmt: skip
        value.backward()
        if "no step" not in faults:
            optimizer.step()
        if "one batch" in faults:
            return


def moved(model: Toy, before: Toy) -> dict[str, Any]:
    """What training has done to the weights."""
    return {
        "source": (model.source - before.source).detach(),
        "target": (model.target - before.target).detach(),
    }


# Decoding, one sentence at a time


class Remembered:
    """A machine as a function of source and target, for one sentence that is asked for again and
    again."""

    def __init__(self, speak: Callable):
        self.speak = speak
        self.known: dict[tuple, Tensor] = {}
        self.sorted: dict[tuple, list[tuple[float, int]]] = {}

    def __call__(self, src: Tensor, tgt: Tensor) -> Tensor:
        key = (*src.flatten().tolist(), None, *tgt.flatten().tolist())
        if key not in self.known:
            self.known[key] = self.speak(src, tgt)
        return self.known[key]

    def likely(
        self, src: Tensor, written: list[int], raw: str = "", place: int = -1
    ) -> list[tuple[float, int]]:
        """The next tokens with their log-probabilities (or `raw`), likely ones first."""
        key = (raw, place, *src.tolist(), None, *written)
        if key not in self.sorted:
            log_p = next_log_p(self, src, written, raw, place)
            values, tokens = log_p.sort(descending=True, stable=True)
            self.sorted[key] = list(zip(values.tolist(), tokens.tolist(), strict=True))
        return self.sorted[key]


def next_log_p(
    model: Callable, src: Tensor, written: list[int], raw: str = "", place: int = -1
) -> Tensor:
    with torch.no_grad():
        logits = model(src[None], torch.tensor([written]))[0, place]
    if raw == "probabilities":
        return logits.softmax(-1)
    return logits if raw else logits.log_softmax(-1)


def beginning(faults: Faults) -> int:
    """The token that stands in front of what is written."""
    ids = {"begins with EOS": EOS, "begins with PAD": PAD, "begins with UNK": UNK}
    return next((ids[fault] for fault in faults if fault in ids), BOS)


def greedy(model: Any, src: Tensor, max_length: int, faults: Faults = frozenset()) -> Rows:
    """The ids of each sentence, without BOS and EOS."""
    rows = []
    begin = beginning(faults)
    if "first sentence" in faults:
        src = src[:1].expand_as(src)
    for one in src:
        written = [begin]
        for _ in range(max_length + 1):
            log_p = next_log_p(model, one, written)
            if "newest only" in faults:
                log_p = next_log_p(model, one, written[-1:])
            if "first place" in faults:
                log_p = next_log_p(model, one, written, place=0)
            if "second last" in faults:
                log_p = next_log_p(model, one, written, place=max(len(written) - 2, 0))
            written.append(int((-log_p if "least likely" in faults else log_p).argmax()))
        rows.append(written[1:])
    if "one too many" not in faults:
        rows = [row[:max_length] for row in rows]
    ends = [row.index(EOS) + 1 if EOS in row else len(row) for row in rows]
    if "EOS ignored" in faults:
        ends = [max_length] * len(rows)
    if "goes on" in faults:
        ends = [max(ends)] * len(rows)
    if "stops with the first" in faults:
        ends = [min(ends)] * len(rows)
    if "one too few" in faults:
        ends = [min(end, max_length - 1) for end in ends]
    if "source's length" in faults:
        ends = [min(end, src.shape[1]) for end in ends]
    rows = [row[:end] for row, end in zip(rows, ends, strict=True)]
    if "taken out" in faults:
        rows = [[token for token in row if token != EOS] for row in rows]
    if "cut before EOS" in faults:
        rows = [row[:-2] if row[-1:] == [EOS] else row for row in rows]
    rows = tidy(rows)
    if "last cut" in faults:
        return [row[:-1] for row in rows]
    return [row[1:] for row in rows] if "first cut" in faults else rows


def tidy(rows: Any) -> Any:
    """Ids without a BOS in front, and without the EOS and the padding at the end."""
    if isinstance(rows, Tensor):
        rows = rows.tolist()
    if not isinstance(rows, list | tuple):
        return rows
    kept = []
    for row in rows:
        row = row.tolist() if isinstance(row, Tensor) else row
        if not isinstance(row, list | tuple):
            return rows
        row = [int(token) for token in row]
        row = row[1:] if row[:1] == [BOS] else row
        while row[-1:] == [PAD]:
            row = row[:-1]
        kept.append(row[:-1] if row[-1:] == [EOS] else row)
    return kept


def penalty(length: int, alpha: float) -> float:
    return ((5 + length) / 6) ** alpha


def score(model: Remembered, src: Tensor, row: list[int], alpha: float, max_length: int) -> float:
    """log P / penalty of a translation, its EOS included if there was room for one."""
    written, total = [BOS], 0.0
    for token in [*row, EOS][:max_length]:
        total += next(value for value, next_ in model.likely(src, written) if next_ == token)
        written.append(token)
    return total / penalty(len(written) - 1, alpha)


def worth(total: float, length: int, alpha: float, faults: Faults = frozenset()) -> float:
    """The score of a hypothesis: log P / penalty."""
    if "no length penalty" in faults:
        return total
    if "penalty multiplied" in faults:
        return total * penalty(length, alpha)
    if "plain length" in faults:
        return total / length
    if "alpha as a factor" in faults:
        return total / ((5 + length) / 6 * alpha)
    if "no 5" in faults:
        return total / (length / 6) ** alpha
    length += ("with BOS" in faults) - ("without EOS" in faults)
    return total / penalty(length, 0.6 if "fixed alpha" in faults else alpha)


def beam_search(
    model: Remembered, src: Tensor, beam: int, alpha: float, max_length: int,
    faults: Faults = frozenset(),
) -> Rows:  # fmt: skip
    """The best by log P / penalty, by one of nine ways of closing the search, all of them right.

    `beam` open ones go on, whatever has ended, until none can overtake; or ("wide") the same, with
    all that end among the best 2 `beam`; or ("enough") until `beam` have ended; or ("late") until
    twice as many have, of which each may be one of the best 2 `beam`; or ("kept") those that have
    ended keep their places in the beam, which may be ranked by the score that counts in the end
    ("ranked"); or ("leaving") those that have ended leave their places empty for one step, and the
    search goes on as long as one is open; or ("narrowing") those that have ended keep their places
    for good, so that fewer and fewer go on; or ("all steps") `beam` open ones go on to the end.
    """
    pick = min if "the worst" in faults else max
    if "first sentence" in faults:
        src = src[:1].expand_as(src)
    if "one sentence" in faults:
        src = src[:1]
    rows = []
    for one in src:
        ended = finished(model, one, beam, alpha, max_length, faults)
        best = pick(ended, key=lambda x: worth(x[1], len(x[0]) - 1, alpha, faults))[0][1:]
        rows.append([i for i in best if i != EOS] if "ended go on" in faults else best)
    return tidy(rows)


def finished(
    model: Remembered, src: Tensor, beam: int, alpha: float, room: int, faults: Faults = frozenset()
) -> list[tuple[list[int], float]]:
    """The hypotheses that a search has to choose from, each with its log P."""
    ways = ("kept", "enough", "ranked", "late", "wide", "leaving", "narrowing", "all steps")
    closing = next((way for way in ways if way in faults), "open")
    beam = 1 if "greedy" in faults else beam
    raw = next((f for f in ("logits for log-probabilities", "probabilities") if f in faults), "")

    share = 2 * beam if closing == "wide" else beam + 1  # tokens that one hypothesis may give
    share = beam if "unlikely go on" in faults else share

    def rank(written: list[int], total: float) -> float:
        ranked = closing == "ranked"
        return worth(total, len(written) - 1, alpha, faults) if ranked else total

    room += ("one too many" in faults) - ("one too few" in faults)
    place = 0 if "first place" in faults else -1
    least = "unlikely go on" in faults
    enough = {"enough": beam, "late": 2 * beam}.get(closing, math.inf)
    open_ = [([beginning(faults)], 0.0)]
    ended: list[tuple[list[int], float]] = []
    for _ in range(room):
        grown = []
        for written, total in open_:
            base = 0.0 if "only the last" in faults else total
            for value, token in model.likely(src, written, raw, place)[:share]:
                total = base + value
                if "penalised sums" in faults:
                    total = worth(total, len(written), alpha)
                grown.append(([*written, token], total))
        if closing in ("kept", "ranked"):
            grown += ended
            ended = []
        grown.sort(key=lambda each: rank(*each), reverse=not least)
        if "EOS ignored" in faults:
            open_ = grown[:beam]
            continue
        if "ended go on" in faults:
            open_ = grown[:beam]
            ended = [] if "last one counts" in faults else ended
            ended += [each for each in open_ if each[0][-1] == EOS]
            if "last one counts" not in faults and len(ended) >= enough:
                break
            continue
        if closing in ("kept", "ranked"):
            grown = grown[:beam]
            ended = [each for each in grown if each[0][-1] == EOS]
            open_ = [each for each in grown if each[0][-1] != EOS]
            if not open_:
                break
            continue
        best = grown[: beam if closing == "leaving" else 2 * beam]
        if closing == "narrowing":
            best = grown[: beam - len(ended)]
        kept = len(best) if closing in ("late", "wide") else beam
        ended += [each for each in best[:kept] if each[0][-1] == EOS]
        open_ = [each for each in best if each[0][-1] != EOS][:beam]
        if "first that ends" in faults and ended:
            break
        if len(ended) >= enough:
            break
        top = max((worth(p, len(ids) - 1, alpha, faults) for ids, p in ended), default=-math.inf)
        if closing in ("leaving", "narrowing", "all steps") and not open_:
            break
        if closing in ("open", "wide") and (not open_ or top >= open_[0][1] / penalty(room, alpha)):
            break
    return (open_ or ended) if "open first" in faults else (ended or open_)
