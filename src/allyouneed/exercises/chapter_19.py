"""The exercises of chapter 19, scaling out: references, cases, mistakes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, reduce
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

from allyouneed.scaling import (
    H100,
    V100,
    Projection,
    activation_bytes,
    parameter_count,
    project,
    state_bytes,
    steps_needed,
)
from allyouneed.transformer import BASE, BIG

from .compare import kind
from .core import Case, Exercise, Family, Invariant, Mistake, mistakes
from .pairs import combined

# 19.1 gradients of shares put together


def combine(gradients: list[Tensor], tokens: list[int]) -> Tensor:
    return _weighted(lambda n, tokens: n / sum(tokens))(gradients, tokens)


def combine_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(191)
    cases = [([torch.tensor([4.0]), torch.tensor([2.0])], [1, 3])] + [
        ([torch.randn(p, generator=draw) for _ in tokens], list(tokens))
        for p, tokens in ((4, (7, 2, 6)), (6, (3, 0, 9, 4)), (1, (5, 2)))
    ]
    nothing = torch.full((3,), math.nan)  # the mean over no tokens
    return [
        *cases,
        ([torch.randn(3, generator=draw), nothing, torch.randn(3, generator=draw)], [2, 0, 6]),
        ([torch.full((3,), math.inf), torch.randn(3, generator=draw)], [0, 5]),
    ]


def _weighted(
    weight: Callable[[int, list[int]], float], empty: Callable[[Tensor], bool] = lambda g: False
) -> Callable[[list[Tensor], list[int]], Tensor]:
    """The sum with weights; `empty`: which of the shares without tokens are multiplied, too."""

    def put(gradients: list[Tensor], tokens: list[int]) -> Tensor:
        rows = zip(gradients, tokens, strict=True)
        return sum(g * weight(n, tokens) for g, n in rows if n or empty(g))

    return put


def _any(g: Tensor) -> bool:
    return True


def _no_nan(g: Tensor) -> bool:
    return not g.isnan().any()


def _before_empty(gradients: list[Tensor], tokens: list[int]) -> tuple[list[Tensor], list[int]]:
    """The shares in front of the first one without tokens; zeros if there are none."""
    end = tokens.index(0) if 0 in tokens else len(tokens)
    return (gradients[:end], tokens[:end]) if end else ([0.0 * gradients[-1]], [1])


def _softmax(n: int, tokens: list[int]) -> float:
    return math.exp(n - max(tokens)) / sum(math.exp(m - max(tokens)) for m in tokens)


COMBINE_WEIGHTS = (
    ("the sum of the losses", lambda n, tokens: n,
     "That is the gradient of the summed loss. Divide by the number of all tokens."),
    ("divided by the number of processes", lambda n, tokens: n / len(tokens),
     "The weighted gradients are sums over tokens, so they are divided by the number of tokens."),
    ("divided by the number of shares that have tokens",
     lambda n, tokens: n / sum(m > 0 for m in tokens),
     "The weighted gradients are sums over tokens, so they are divided by the number of tokens."),
    ("weighted by one over the tokens",
     lambda n, tokens: 1 / n / sum(1 / m for m in tokens if m) if n else 0.0,
     "A share with more tokens counts for more: its weight is t_i / t."),
    ("an empty share counted as a token of all",
     lambda n, tokens: n / sum(max(m, 1) for m in tokens),
     "t is the number of all tokens, the plain sum: an empty share adds none."),
    ("divided by the largest share", lambda n, tokens: n / max(tokens),
     "The weights t_i / t add up to one: t is the number of tokens of all shares together."),
    ("divided twice, by all tokens and by the processes",
     lambda n, tokens: n / sum(tokens) / len(tokens),
     "Once all tokens have divided the sum it is a mean. `DistributedDataParallel` takes a mean "
     "over the processes by itself, which is why `gradients` of chapter 12 multiplies by their "
     "number; here nobody does."),
    ("divided by the mean number of tokens",
     lambda n, tokens: n / sum(tokens) * sum(m > 0 for m in tokens),
     "The weights t_i / t add up to one: t is the number of all tokens."),
    ("weighted by the squares of the tokens",
     lambda n, tokens: n**2 / sum(m**2 for m in tokens),
     "A gradient is multiplied by its number of tokens once: the weights are t_i / t."),
    ("weighted by what is left of the tokens", lambda n, tokens: 1 - n / sum(tokens),
     "A share with more tokens counts for more: its weight is t_i / t."),
    ("each share with one token more",
     lambda n, tokens: (n + 1) / sum(m + 1 for m in tokens if m),
     "The weights are t_i / t, as they are; an empty share is left out."),
    ("weighted by the roots of the tokens",
     lambda n, tokens: n**0.5 / sum(m**0.5 for m in tokens),
     "The weights are shares of the tokens, t_i / t, without a root."),
    ("weighted by softmax", _softmax,
     "The weights are shares of the tokens, t_i / t. Nothing is exponentiated."),
    ("a plain sum", lambda n, tokens: 1,
     "Each gradient is that of a mean. Weighted by the tokens they add up to the gradient of the "
     "whole mean; unweighted they do not."),
    ("divided by the tokens twice", lambda n, tokens: 1 / sum(tokens),
     "The gradients are those of means: each has been divided by its tokens. Undo that before you "
     "divide by all tokens."),
    ("the mean of the means", lambda n, tokens: 1 / len(tokens),
     "Shares with few tokens count as much as those with many. Each gradient is to be weighted by "
     "its number of tokens."),
    ("zeros in every case", lambda n, tokens: n // sum(tokens),
     "Does `//` stand where `/` is meant? It rounds down, and a share of the tokens is less than "
     "one. Or is nothing added up?"),
)  # fmt: skip
EMPTY = "And a share without tokens must be left out, whatever it is: 0 times NaN is NaN."
COMBINE_MISTAKES = [
    *(Mistake(name, _weighted(weight), why) for name, weight, why in COMBINE_WEIGHTS),
    *(
        Mistake(f"{name}, and {which} added", _weighted(weight, empty), f"{why} {EMPTY}")
        for name, weight, why in COMBINE_WEIGHTS
        for which, empty in (
            ("empty shares are", _any),
            ("an empty share that is not NaN is", _no_nan),
        )
    ),
    *mistakes(
        ("the length of the gradient",
         lambda gradients, tokens: combine(gradients, tokens).norm(),
         "Asked for is the gradient itself, (P,), not its length."),
        ("left out for NaN, not for having no tokens",
         _weighted(lambda n, tokens: n / sum(tokens), _no_nan),
         "The gradient of an empty share does not count, whatever it is, and 0 times infinity is "
         "NaN as well. Leave it out by its number of tokens."),
        ("zero times NaN", _weighted(lambda n, tokens: n / sum(tokens), _any),
         "The mean over no tokens is 0/0, NaN, and 0 times NaN is NaN. Leave the empty share out."),
        ("divided by the tokens, not multiplied, and by the processes",
         _weighted(lambda n, tokens: 1 / n / len(tokens)),
         "The gradients are those of means: they have been divided by their tokens already. "
         "Multiply, to undo it."),
        ("divided by the tokens, not multiplied", _weighted(lambda n, tokens: 1 / n),
         "The gradients are those of means: they have been divided by their tokens already. "
         "Multiply, to undo it."),
        ("divided by the tokens, not multiplied, and by all of them",
         _weighted(lambda n, tokens: 1 / n / sum(tokens)),
         "The gradients are those of means: they have been divided by their tokens already. "
         "Multiply, to undo it."),
        ("shares without tokens counted as one token",
         _weighted(lambda n, tokens: max(n, 1) / sum(max(m, 1) for m in tokens), _any),
         "A share without tokens has the weight 0. It must change nothing."),
        ("shares without tokens counted as one token, unless they are NaN",
         _weighted(lambda n, tokens: max(n, 1) / sum(max(m, 1) for m in tokens), _no_nan),
         "A share without tokens has the weight 0, above and below the fraction bar."),
        ("the mean of the shares that have tokens",
         _weighted(lambda n, tokens: 1 / sum(1 for m in tokens if m)),
         "Leaving out the empty shares is not enough: each of the others is to be weighted by its "
         "number of tokens."),
        ("zeros for NaN in the result",
         lambda gradients, tokens: _weighted(lambda n, tokens: n / sum(tokens), _any)(
             gradients, tokens
         ).nan_to_num(),
         "NaN in one share makes NaN of the whole sum, and its zeros are none of the gradient: "
         "leave the empty share out before you add up."),
        ("all shares left out from the first empty one on",
         lambda gradients, tokens: sum(
             (g * (n / sum(tokens)) * (0 not in tokens[:i])
              for i, (g, n) in enumerate(zip(gradients, tokens, strict=True)) if n),
             0 * gradients[-1],
         ),
         "An empty share is left out, and those behind it count: `continue`, not `break`."),
        ("stopped at the first empty share",
         lambda gradients, tokens: combine(*_before_empty(gradients, tokens)),
         "An empty share is left out, and those behind it count: `continue`, not `break`."),
        ("stopped at the first empty share, and zero divided by zero",
         lambda gradients, tokens: (
             combine(*_before_empty(gradients, tokens)) / torch.tensor(float(tokens[0] > 0))
         ),
         "An empty share is left out, and those behind it count: `continue`, not `break`."),
        ("the last share left out",
         lambda gradients, tokens: combine(gradients[:-1], tokens[:-1])
         if sum(tokens[:-1]) else 0 * gradients[-1],
         "All shares count, the last one too: does a loop end too early?"),
        ("the first share left out",
         lambda gradients, tokens: combine(gradients[1:], tokens[1:]),
         "All shares count, the first one too: places are counted from 0."),
        ("the mean of those that are not NaN",
         lambda gradients, tokens: torch.stack(gradients).nanmean(0),
         "Each gradient is to be weighted by its number of tokens. And a share without tokens does "
         "not count, whatever its gradient is."),
        ("the mean of the means, with zero for NaN",
         lambda gradients, tokens: torch.stack(gradients).nan_to_num().mean(0),
         "Each gradient is to be weighted by its number of tokens, and a share without any has "
         "the weight 0, whatever its gradient is."),
        ("shares without tokens counted as one token, with zero for NaN",
         lambda gradients, tokens: (
             sum(g.nan_to_num() * max(n, 1) for g, n in zip(gradients, tokens, strict=True))
             / sum(max(n, 1) for n in tokens)
         ),
         "A share without tokens has the weight 0, above and below the fraction bar."),
        ("a plain sum, with zero for NaN",
         lambda gradients, tokens: torch.stack(gradients).nan_to_num().sum(0),
         "Each gradient is that of a mean, and is to be weighted by its number of tokens; a share "
         "without any has the weight 0."),
        ("weighted by softmax, with zero for NaN",
         lambda gradients, tokens: sum(
             g.nan_to_num() * _softmax(n, tokens) for g, n in zip(gradients, tokens, strict=True)
         ),
         "The weights are shares of the tokens, t_i / t. Nothing is exponentiated."),
        ("the lower median of the shares that have tokens",
         lambda gradients, tokens: torch.stack(
             [g for g, n in zip(gradients, tokens, strict=True) if n]
         ).median(0).values,
         "Asked for is the mean over all tokens: each gradient is weighted by its number of them."),
        ("the largest entries of all shares",
         lambda gradients, tokens: torch.stack(
             [g for g, n in zip(gradients, tokens, strict=True) if n]
         ).amax(0),
         "Asked for is the mean over all tokens: each gradient is weighted by its number of them."),
        ("a mean of two at a time",
         lambda gradients, tokens: reduce(
             lambda a, b: (a + b) / 2,
             [g for g, n in zip(gradients, tokens, strict=True) if n],
         ),
         "So the last share has half of the say. Each is to be weighted by its number of tokens."),
        ("the parts of the sum, not added up",
         lambda gradients, tokens: torch.stack(
             [g * n / sum(tokens) for g, n in zip(gradients, tokens, strict=True)]
         ),
         "Asked for is one gradient, (P,): add the weighted ones up. And 0 times NaN is NaN: leave "
         "empty shares out."),
        ("the parts of the sum, not added up, without the empty shares",
         lambda gradients, tokens: [
             g * n / sum(tokens) for g, n in zip(gradients, tokens, strict=True) if n
         ],
         "Asked for is one gradient, (P,): add the weighted ones up."),
        ("the gradient of the largest share only",
         lambda gradients, tokens: gradients[tokens.index(max(tokens))],
         "Every token counts, in whatever share it stands."),
    ),
]  # fmt: skip


def _between(output: Tensor, rows: Tensor) -> bool:
    return bool(((output <= rows.amax(0) + 1e-4) & (output >= rows.amin(0) - 1e-4)).all())


# 19.2 bytes sent in a ring


def bytes_sent(parameters: int, n: int, sharded: bool) -> float:
    return (3 if sharded else 2) * (n - 1) / n * 4 * parameters


def bytes_sent_cases() -> list[tuple]:
    return [(1000, 4, False), (215, 7, True), (216, 7, True), (50, 1, False)]


def _sent(
    rounds: tuple[int, int] = (2, 3), part: Callable[[int], float] = lambda n: (n - 1) / n,
    size: int = 4,
) -> Callable[[int, int, bool], float]:  # fmt: skip
    """What is sent, right by default; each argument makes one mistake."""
    return lambda parameters, n, sharded: rounds[bool(sharded)] * part(n) * size * parameters


SENT_SLIPS = [
    ("only half of the ring", {"rounds": (1, 2)},
     "All-reduce is two rounds, and stage 3 has three."),
    ("three rounds always", {"rounds": (3, 3)}, "Only stage 3 has three rounds."),
    ("sharding costs nothing more", {"rounds": (2, 2)}, "Stage 3 has three rounds."),
    ("sharding costs twice as much", {"rounds": (2, 4)}, "Stage 3 has three rounds, not four."),
    ("sharding and not sharding exchanged", {"rounds": (3, 2)},
     "It is the sharded run that has three rounds."),
    ("the piece that a process keeps is sent as well", {"part": lambda n: 1},
     "A process sends n - 1 of the n pieces in each round."),
    ("all processes together, or whole gradients", {"part": lambda n: n - 1},
     "A piece is an n-th, and the question is what *each* process sends."),
    ("one n-th in place of all but one n-th", {"part": lambda n: 1 / n},
     "A process sends n - 1 pieces in each round."),
    ("numbers in place of bytes", {"size": 1}, "A float32 number has 4 bytes."),
    ("twice as many bytes", {"size": 8}, "A float32 number has 4 bytes."),
    ("bits in place of bytes", {"size": 32}, "A float32 number has 4 bytes."),
]  # fmt: skip


SENT_KNOWN = [
    ("only half of the ring", "twice as many bytes"),
    ("sharding costs twice as much", "numbers in place of bytes"),
]


SHARDED = "Sharding"  # the section in which stage 3 stands
BYTES_MISTAKES = mistakes(
    ("an n-th of the parameters where they are sharded",
     lambda parameters, n, sharded: bytes_sent(parameters / (n if sharded else 1), n, sharded),
     "Each holds an n-th, and needs the weights of all: it passes on n - 1 pieces in each round.",
     SHARDED),
    ("one round in plain data parallelism", _sent(rounds=(1, 3)),
     "Without sharding the gradients are all-reduced: a reduce-scatter and an all-gather, two "
     "rounds."),
    ("a division that drops what is behind the point",
     lambda parameters, n, sharded: (3 if sharded else 2) * (n - 1) // n * 4 * parameters,
     "`//` makes a whole number of rounds times (n - 1) / n: divide by `/`."),
    ("all 16 bytes of a parameter in stage 3", _sent(rounds=(2, 8)),
     "Moments are never sent: each process updates its own part. What is sent are the weights, "
     "twice, and the gradients, once.", SHARDED),
    ("a third less in stage 3", _sent(rounds=(2, 4 / 3)),
     "Stage 3 sends half as much *again*: three rounds, where plain data parallelism has two.",
     SHARDED),
    ("five rounds in stage 3, or the moments sent as well", _sent(rounds=(2, 5)),
     "The weights are collected forwards and backwards, the gradients scattered once: three "
     "rounds of 4 bytes. Adam's moments stay where they are.", SHARDED),
    ("a round more in both", _sent(rounds=(3, 4)),
     "All-reduce is reduce-scatter and all-gather, two rounds. Stage 3 gathers weights twice and "
     "scatters gradients once: three."),
    ("the gradient once, whole", lambda parameters, n, sharded: 4 * parameters,
     "In each round a process sends n - 1 of n pieces, and there are two rounds, or three."),
    ("the weights sent once more, whole, in stage 3",
     lambda parameters, n, sharded: (
         bytes_sent(parameters, n, False) + 4 * parameters * bool(sharded)
     ),
     "Of what is collected, too, a process sends n - 1 of n pieces.", SHARDED),
    ("moments sent in stage 3", _sent(rounds=(2, 6)),
     "Moments are never sent: each process updates its own part.", SHARDED),
    ("in thousands of bytes, of 1,024 each", lambda *case: bytes_sent(*case) / 1024,
     "The task asks for bytes."),
    ("one round and a half in stage 3, or numbers of two bytes", _sent(rounds=(2, 1.5)),
     "Stage 3 sends half as much *again*: three rounds, where plain data parallelism has two. And "
     "a float32 number has 4 bytes."),
    ("numbers of two bytes, and sharding costs nothing more", _sent(rounds=(2, 2), size=2),
     "A float32 number has 4 bytes. Stage 3 has three rounds."),
    ("the whole gradient to each of the others",
     lambda parameters, n, sharded: 4 * parameters * (n - 1),
     "In the ring a process sends one piece in each step, a share of 1 / n."),
    ("in thousands of bytes",
     lambda parameters, n, sharded: bytes_sent(parameters, n, sharded) / 1000,
     "The task asks for bytes."),
    ("n and n - 1 exchanged",
     lambda parameters, n, sharded: (
         4 * (3 if sharded else 2) * parameters * n / (n - 1) if n > 1 else 0.0
     ),
     "There are n pieces, and n - 1 steps in each round: (n - 1) / n."),
    ("the logarithm of n in place of (n - 1) / n", _sent(part=math.log2),
     "In a ring a round has n - 1 steps, in each of which a process sends an n-th."),
    ("a sharded process sends whole gradients in each step",
     lambda parameters, n, sharded: 2 * (n - 1) / n * 4 * parameters * (n if sharded else 1),
     "Sharded or not, what is sent in a step is a piece, an n-th; stage 3 has three rounds.",
     SHARDED),
    ("the whole state is sent where it is sharded",
     lambda parameters, n, sharded: bytes_sent(parameters, n, sharded) * (4 if sharded else 1),
     "Stage 3 sends weights twice and gradients once, 4 bytes for each parameter. Moments stay.",
     SHARDED),
    ("n and n - 1 exchanged, and an error for one process", _sent(part=lambda n: n / (n - 1)),
     "There are n pieces, and n - 1 steps in each round: (n - 1) / n."),
    ("n + 1 in place of n - 1", _sent(part=lambda n: (n + 1) / n),
     "In each round a process sends n - 1 of the n pieces: the factor is (n - 1) / n."),
    ("only half of the ring",
     lambda parameters, n, sharded: (2 if sharded else 1) * (n - 1) / n * 4 * parameters,
     "All-reduce is reduce-scatter and all-gather: two rounds. Stage 3 has three."),
    ("numbers in place of bytes",
     lambda parameters, n, sharded: bytes_sent(parameters, n, sharded) / 4,
     "The gradients are float32 numbers, and each has 4 bytes."),
    ("half of what is sent", lambda parameters, n, sharded: bytes_sent(parameters, n, sharded) / 2,
     "Either the numbers have 2 bytes each, where float32 has 4, or half of the rounds is missing: "
     "all-reduce has two, reduce-scatter and all-gather, and stage 3 has three."),
    ("twice as many bytes",
     lambda parameters, n, sharded: bytes_sent(parameters, n, sharded) * 2,
     "The gradients are float32, 4 bytes each. And what is received is sent by another process."),
    ("bits in place of bytes",
     lambda parameters, n, sharded: bytes_sent(parameters, n, sharded) * 8,
     "The question is for bytes: a float32 number has 4 of them, 32 bits."),
    ("all processes together, or whole gradients in each step",
     lambda parameters, n, sharded: bytes_sent(parameters, n, sharded) * n,
     "In each of the n - 1 steps of a round a process sends one *piece*, an n-th of the gradient. "
     "The question is what each process sends, not all of them together."),
    ("the piece that a process keeps is sent as well",
     lambda parameters, n, sharded: (3 if sharded else 2) * 4 * parameters,
     "In each round a process sends n - 1 of the n pieces: the factor is (n - 1) / n."),
    ("pieces cut down to whole numbers",
     lambda parameters, n, sharded: (3 if sharded else 2) * (n - 1) * 4 * (parameters // n),
     "Equation (19.5) as it stands: a piece has an n-th of the bytes, whole or not."),
    ("pieces rounded up to whole numbers",
     lambda parameters, n, sharded: (3 if sharded else 2) * (n - 1) * 4 * -(-parameters // n),
     "Equation (19.5) as it stands: a piece has an n-th of the bytes, whole or not."),
    ("pieces cut down to whole bytes",
     lambda parameters, n, sharded: (3 if sharded else 2) * (n - 1) * (4 * parameters // n),
     "Equation (19.5) as it stands: a piece has an n-th of the bytes, whole or not."),
    ("the whole state is sent",
     lambda parameters, n, sharded: bytes_sent(parameters, n, sharded) * 4,
     "Of the 16 bytes of equation (19.2) only gradients are sent, and in stage 3 weights: 4 bytes "
     "for each parameter."),
    ("rounded down to whole bytes",
     lambda parameters, n, sharded: (3 if sharded else 2) * (n - 1) * 4 * parameters // n,
     "Equation (19.5) as it stands: nothing is rounded. In Python / divides, // rounds down."),
    ("rounded to the nearest byte",
     lambda parameters, n, sharded: round(bytes_sent(parameters, n, sharded)),
     "Equation (19.5) as it stands: nothing is rounded, pieces need not be whole numbers."),
    ("rounded up to whole bytes",
     lambda parameters, n, sharded: math.ceil(bytes_sent(parameters, n, sharded)),
     "Equation (19.5) as it stands: nothing is rounded, pieces need not be whole numbers."),
    ("pieces rounded to the nearest byte",
     lambda parameters, n, sharded: (3 if sharded else 2) * (n - 1) * round(4 * parameters / n),
     "Equation (19.5) as it stands: a piece has an n-th of the bytes, whole or not."),
    ("pieces rounded up to whole bytes",
     lambda parameters, n, sharded: (3 if sharded else 2) * (n - 1) * -(-4 * parameters // n),
     "Equation (19.5) as it stands: a piece has an n-th of the bytes, whole or not."),
    ("three rounds always", lambda parameters, n, sharded: 3 * (n - 1) / n * 4 * parameters,
     "Plain data parallelism has two rounds, reduce-scatter and all-gather. Only stage 3 has "
     "three."),
    ("sharding costs nothing more", lambda parameters, n, sharded: 2 * (n - 1) / n * 4 * parameters,
     "In stage 3 the weights are collected twice, forwards and backwards, and the gradients "
     "scattered once: three rounds.", SHARDED),
    ("sharding costs twice as much",
     lambda parameters, n, sharded: (4 if sharded else 2) * (n - 1) / n * 4 * parameters,
     "Two all-gathers and one reduce-scatter are three rounds, not four.", SHARDED),
    ("sharding costs less",
     lambda parameters, n, sharded: (1 if sharded else 2) * (n - 1) / n * 4 * parameters,
     "Sharding saves memory, not messages: weights that one does not hold must be sent for.",
     SHARDED),
    ("a sharded process sends its own part only",
     lambda parameters, n, sharded: 2 * (n - 1) / n * 4 * parameters / (n if sharded else 1),
     "It owns an n-th of the weights, but it needs all of them twice, and has gradients for all of "
     "them: three rounds of (n - 1) / n of the bytes.", SHARDED),
    ("sharding and not sharding exchanged",
     lambda parameters, n, sharded: bytes_sent(parameters, n, not sharded),
     "It is the sharded run that sends half as much again.", SHARDED),
    ("divided by n - 1",
     lambda parameters, n, sharded: (3 if sharded else 2) * n / max(n - 1, 1) * 4 * parameters,
     "The factor is (n - 1) / n: alone, a process sends nothing."),
    ("one n-th in place of all but one n-th",
     lambda parameters, n, sharded: (3 if sharded else 2) / n * 4 * parameters,
     "A piece is an n-th of the gradient, and a process sends n - 1 of them in each round."),
    ("as many steps as processes",
     lambda parameters, n, sharded: (3 if sharded else 2) * (n - 2) / n * 4 * parameters,
     "A round has n - 1 steps: a piece must come to all others."),
    ("the moments are sent, too",
     lambda parameters, n, sharded: bytes_sent(parameters, n, sharded) * 3,
     "Adam's moments stay where they are. What is sent are gradients, and in stage 3 weights."),
    *combined(_sent, SENT_SLIPS, SENT_KNOWN),
    ("half of the ring and two bytes for a number, or sharding that costs twice as much and one",
     _sent((2, 4), size=1),
     "All-reduce has two rounds, stage 3 three, and a float32 number has 4 bytes."),
    ("multiplied by n, not divided",
     lambda parameters, n, sharded: (3 if sharded else 2) * (n - 1) * n * 4 * parameters,
     "A piece is an n-th of the gradient, and a process sends n - 1 of them in each round."),
    ("the parameters forgotten",
     lambda parameters, n, sharded: (3 if sharded else 2) * (n - 1) / n * 4,
     "That is what is sent for one parameter."),
    ("divided by the bytes of a number",
     lambda parameters, n, sharded: (3 if sharded else 2) * (n - 1) / n * parameters / 4,
     "A float32 number has 4 bytes: multiply by 4."),
)  # fmt: skip


# 19.3 operations of a decoder-only model of today


def modern_flops(
    d_model: int, d_ff: int, n_heads: int, n_groups: int, n_layers: int, vocab_size: int, T: int
) -> int:
    return _modern(d_model, d_ff, n_heads, n_groups, n_layers, vocab_size, T)


def _modern(
    d, f, h, g, n, v, t, *, kv=None, net=3, out=2, look=4, add=2, logits=None, keys=None
):  # fmt: skip
    """The count, with its parts to be changed: `kv` for the width of keys and values."""
    kv = d // h * g if kv is None else kv
    matrices = add * t * (out * d * d + 2 * d * kv + net * d * f)
    look = look(h, g) if callable(look) else look
    return n * (matrices + look * t * (t if keys is None else keys) * d) + (
        add * t * d * v if logits is None else logits
    )


def modern_cases() -> list[tuple]:
    return [
        (64, 160, 8, 2, 3, 100, 10),
        (96, 256, 6, 3, 2, 50, 7),
        (1, 1, 1, 1, 1, 1, 1),
    ]


def _m(**changes):
    return lambda d, f, h, g, n, v, t: _modern(d, f, h, g, n, v, t, **changes)


def _changed(
    width: Callable = lambda d, h, g: d // h * g, last: Any = None, each: float = 1, **changes
):
    """The count, with a mistake in the width of keys and values, in the logits, or in `changes`."""

    def count(d, f, h, g, n, v, t):
        more = {} if last is None else {"logits": last(d, n, v, t)}
        return each * _modern(d, f, h, g, n, v, t, kv=width(d, h, g), **more, **changes)

    return count


def _m_with_logits(logits: Callable) -> Callable:
    return lambda d, f, h, g, n, v, t: _modern(d, f, h, g, n, v, t, logits=logits(d, v, t))


MODERN_SLIPS = [
    ("keys and values for every head", {"width": lambda d, h, g: d},
     "Keys and values are made for n_groups sets only."),
    ("one set of keys and values", {"width": lambda d, h, g: d // h}, "There are n_groups sets."),
    ("keys and values as wide as one group's share", {"width": lambda d, h, g: d // g},
     "A set has d_model / n_heads entries, and there are n_groups sets."),
    ("one entry for each group of keys and values", {"width": lambda d, h, g: g},
     "A set has d_model / n_heads entries, and there are n_groups sets."),
    ("multiplications without additions", {"each": 0.5},
     "Each entry takes a multiplication and an addition."),
    ("two matrices in the feed-forward net", {"net": 2}, "A gated net has three."),
    ("the net's multiplications without additions", {"net": 1.5},
     "In the feed-forward net, too, each entry takes a multiplication and an addition."),
    ("additions in the logits forgotten", {"last": lambda d, n, v, t: t * d * v},
     "Each entry of the logits takes d_model multiplications and as many additions."),
    ("one matrix for queries and output", {"out": 1}, "The queries have one, and W^O is another."),
    ("half of the products of attention", {"look": 2},
     "Scores and weighted sums are 2 T T d_model operations each, in full."),
    ("no products of attention", {"look": 0},
     "Scores and weighted sums are 2 T T d_model operations each."),
    ("scores for the groups only", {"look": lambda h, g: 4 * g / h},
     "Every query head looks at all keys, also where it shares them."),
    ("scores times the heads", {"look": lambda h, g: 4 * h},
     "All heads together take 2 T T d_model operations for their scores, and as many for their "
     "sums."),
    ("scores of one head", {"look": lambda h, g: 4 / h},
     "There are n_heads heads, which together are d_model wide."),
    ("no logits", {"last": lambda d, n, v, t: 0}, "The logits are a product at every position."),
    ("logits of the last position only", {"last": lambda d, n, v, t: 2 * d * v},
     "The logits are a product at every position."),
    ("logits in every layer", {"last": lambda d, n, v, t: 2 * n * t * d * v},
     "The logits come once."),
]  # fmt: skip


MODERN_MISTAKES = mistakes(
    ("one matrix in the feed-forward net", _m(net=1),
     "A gated net has three: the gate, what it lets through, and the way back."),
    ("four square matrices of cross-attention as well",
     lambda d, f, h, g, n, v, t: _modern(d, f, h, g, n, v, t) + 8 * n * t * d * d,
     "A decoder-only model has no memory to look at: one attention in each layer."),
    ("the gate's product as well",
     lambda d, f, h, g, n, v, t: _modern(d, f, h, g, n, v, t) + n * t * f,
     "The gate is multiplied entry by entry, and the task counts products of matrices."),
    ("the softmax as well",
     lambda d, f, h, g, n, v, t: _modern(d, f, h, g, n, v, t) + n * h * t * t,
     "A softmax is no product of matrices, and the task counts those alone."),
    ("the net of one layer alone",
     lambda d, f, h, g, n, v, t: _modern(d, f, h, g, n, v, t) - (n - 1) * 6 * t * d * f,
     "Each of the layers has a feed-forward net."),
    ("scores and weighted sums of one layer alone",
     lambda d, f, h, g, n, v, t: _modern(d, f, h, g, n, v, t) - (n - 1) * 4 * t * t * d,
     "Each of the layers attends."),
    ("queries, or the output, for the groups only",
     lambda d, f, h, g, n, v, t: _modern(d, f, h, g, n, v, t) - 2 * n * t * d * (d - d // h * g),
     "Keys and values are made for the groups. Queries and W^O are those of all heads."),
    ("one addition less for each logit",
     lambda d, f, h, g, n, v, t: _modern(d, f, h, g, n, v, t) - t * v,
     "Each multiplication counts with an addition, the first as well: two for each."),
    ("logits without d_model", _m_with_logits(lambda d, v, t: 2 * t * v),
     "Each logit is a product of d_model entries."),
    ("four bytes for each operation", lambda *sizes: 4 * _modern(*sizes),
     "Operations are counted, not bytes."),
    ("in thousands of millions", lambda *sizes: _modern(*sizes) / 1e9,
     "Asked for is the number itself."),
    ("biases as well",
     lambda d, f, h, g, n, v, t: _modern(d, f, h, g, n, v, t) + n * t * (2 * f + 2 * d),
     "The task counts products of matrices. A bias is added."),
    ("twice as many", lambda *sizes: 2 * _modern(*sizes),
     "A multiplication and an addition are two operations for each entry of a product, counted "
     "once; and there is one stack of layers."),
    ("three products of attention", _m(look=6),
     "Attention has two products: queries with keys, and weights with values."),
    ("four matrices in the feed-forward net", _m(net=4),
     "A gated net has three: the gate, what it lets through, and the way back."),
    ("the backward pass as well, and no products of attention",
     lambda *sizes: 3 * _m(look=0)(*sizes),
     "Six operations for each parameter and token are a step of training, without scores and "
     "weighted sums. The task asks for one forward pass, with them."),
    ("for each token", lambda *sizes: _modern(*sizes) / sizes[-1],
     "Asked for are the operations of the whole text of T tokens."),
    ("one entry for each group of keys and values",
     lambda d, f, h, g, n, v, t: _modern(d, f, h, g, n, v, t, kv=g),
     "A set of keys has d_model / n_heads entries, not one: n_groups times that."),
    ("of keys and values only one in groups",
     lambda d, f, h, g, n, v, t: _modern(d, f, h, g, n, v, t, kv=(d + d // h * g) / 2),
     "Keys and values both are made for n_groups sets only."),
    ("the net's multiplications without additions", _m(net=1.5),
     "Each entry takes a multiplication and an addition, in the feed-forward net, too."),
    ("additions in the logits forgotten", _changed(last=lambda d, n, v, t: t * d * v),
     "Each entry of the logits takes d_model multiplications and as many additions."),
    ("no matrix for queries, and none for the output", _changed(out=0),
     "Queries and output have a matrix of d_model times d_model each."),
    ("multiplications without additions in the layers' matrices",
     lambda d, f, h, g, n, v, t: (
         modern_flops(d, f, h, g, n, v, t) / 2 + n * 2 * t * t * d + t * d * v
     ),
     "Each entry takes a multiplication and an addition, in every product."),
    ("the matrices counted for one token",
     lambda d, f, h, g, n, v, t: (
         (modern_flops(d, f, h, g, n, v, t) - n * 4 * t * t * d - 2 * t * d * v) / t
         + n * 4 * t * t * d + 2 * t * d * v
     ),
     "Every one of the T tokens goes through the matrices of each layer."),
    ("multiplications without additions", lambda *sizes: _modern(*sizes) / 2,
     "Each entry of a product takes a multiplication and an addition: two operations."),
    ("keys and values for every head",
     lambda d, f, h, g, n, v, t: _modern(d, f, h, g, n, v, t, kv=d),
     "Keys and values are made for n_groups sets only: their matrices give n_groups times d_model "
     "/ n_heads entries."),
    ("one set of keys and values",
     lambda d, f, h, g, n, v, t: _modern(d, f, h, g, n, v, t, kv=d // h),
     "That is multi-query attention. Here there are n_groups sets."),
    ("keys and values as wide as one group's share of the heads",
     lambda d, f, h, g, n, v, t: _modern(d, f, h, g, n, v, t, kv=d // g),
     "A set of keys has d_model / n_heads entries, and there are n_groups sets."),
    ("keys and values as wide as the model in each group",
     lambda d, f, h, g, n, v, t: _modern(d, f, h, g, n, v, t, kv=d * g),
     "A set of keys has the width of one head, d_model / n_heads, and there are n_groups sets."),
    ("six matrices of attention",
     lambda d, f, h, g, n, v, t: _modern(d, f, h, g, n, v, t, kv=2 * d),
     "Equation (19.1) counts a decoder with cross-attention. Here a layer has one attention, and "
     "its keys and values are as wide as n_groups heads."),
    ("keys without values",
     lambda d, f, h, g, n, v, t: _modern(d, f, h, g, n, v, t, kv=d / h * g / 2),
     "Keys and values have a matrix each."),
    ("two matrices in the feed-forward net", _m(net=2),
     "A gated net has three: the gate, what it lets through, and the way back."),
    ("one matrix in place of two for queries and output", _m(out=1),
     "The queries have a matrix, and W^O behind the heads is another one, as wide."),
    ("the products of attention counted twice", _m(look=8),
     "Scores are 2 T T d_model operations, and the weighted sums as many: 4 T T d_model."),
    *combined(_changed, MODERN_SLIPS, but=[
        ("multiplications without additions", "the net's multiplications without additions"),
        ("multiplications without additions", "additions in the logits forgotten"),
    ]),
    ("half of the products of attention", _m(look=2),
     "Either the weighted sums are missing, or the mask has halved them and the scores. Each query "
     "multiplies all keys, and then all values, 2 T T d_model operations each, and the task counts "
     "what is masked as well."),
    ("no scores", _m(look=0),
     "The products of queries with keys, and of weights with values, have no parameters, but they "
     "are matrix products."),
    ("scores for the groups only",
     lambda d, f, h, g, n, v, t: _modern(d, f, h, g, n, v, t, look=4 * g / h),
     "Sharing keys saves memory, not scores: every query head looks at all keys."),
    ("scores of one head", lambda d, f, h, g, n, v, t: _modern(d, f, h, g, n, v, t, look=4 / h),
     "There are n_heads heads of d_model / n_heads entries: together d_model."),
    ("a query looks at one key", _m(keys=1),
     "Each of the T queries looks at T keys: the scores grow with the square of T."),
    ("half of the scores, as the mask hides half",
     lambda d, f, h, g, n, v, t: _modern(d, f, h, g, n, v, t, keys=(t + 1) / 2),
     "The task counts causal attention in full: it is computed, and then masked."),
    ("scores times the heads", lambda d, f, h, g, n, v, t: _modern(d, f, h, g, n, v, t, look=4 * h),
     "A head has d_model / n_heads entries, so all heads together take 2 T T d_model operations "
     "for their scores."),
    ("no logits", _m(logits=0),
     "The logits are a product with a (d_model, vocab_size) matrix, at every position."),
    ("logits of the last position only",
     lambda d, f, h, g, n, v, t: _modern(d, f, h, g, n, v, t, logits=2 * d * v),
     "In training every position predicts the token that follows: T times d_model times "
     "vocab_size."),
    ("logits in every layer",
     lambda d, f, h, g, n, v, t: _modern(d, f, h, g, n, v, t, logits=2 * n * t * d * v),
     "The logits come once, after the last layer."),
    ("the embedding counted as a product, or the logits twice",
     lambda d, f, h, g, n, v, t: _modern(d, f, h, g, n, v, t, logits=4 * t * d * v),
     "To look up an embedding takes no operation. Only the logits are a product."),
    ("one layer", lambda d, f, h, g, n, v, t: _modern(d, f, h, g, 1, v, t),
     "There are n_layers layers, and each takes the same operations."),
    ("one token", lambda d, f, h, g, n, v, t: _modern(d, f, h, g, n, v, 1),
     "A text of T tokens: every matrix meets T of them, and every token looks at T."),
    ("the backward pass as well", lambda *sizes: 3 * _modern(*sizes),
     "The task asks for one forward pass. A training step takes three times as many."),
    ("cross-attention as well",
     lambda d, f, h, g, n, v, t: (
         2 * _modern(d, f, h, g, n, v, t, net=0, logits=0)
         + _modern(d, f, h, g, n, v, t, out=0, kv=0, look=0)
     ),
     "A decoder-only model has one attention in each layer: there is no memory to look at."),
    ("each head as wide as the model",
     lambda d, f, h, g, n, v, t: _modern(d, f, h, g, n, v, t, kv=d * g, look=4 * h),
     "A head has d_model / n_heads entries."),
    ("three square matrices in attention", _m(out=3),
     "The queries have one, and W^O is another; keys and values are as wide as their groups."),
    ("three matrices for keys and values",
     lambda d, f, h, g, n, v, t: _modern(d, f, h, g, n, v, t, out=2 + d // h * g / d),
     "Keys have one, and values have one."),
)  # fmt: skip


# 19.4 the fewest GPUs that hold a model


def fewest(parameters: int, activations: int, memory: int, stage: int) -> int:
    return _fewest(parameters, activations, memory, (16, 8, 4, 0)[stage])


def _fewest(parameters, activations, memory, full, all_bytes=16, shared_activations=True):
    """`full` of the bytes for each parameter are in every GPU, the rest is shared."""
    shared, fixed = (all_bytes - full) * parameters, full * parameters
    if shared_activations:
        shared += activations
    else:
        fixed += activations
    room = memory - fixed
    if room < 0 or room == 0 < shared:
        return 0
    return max(1, -(-shared // room)) if shared else 1


def fewest_cases() -> list[tuple]:
    return [
        (10, 100, 90, 1),
        (10, 100, 170, 0),
        (100, 1000, 5000, 0),
        (100, 1000, 1500, 0),
        (100, 700, 1900, 0),
        (100, 1000, 650, 2),
        (100, 1000, 807, 1),
        (100, 1000, 1300, 1),
        (100, 1000, 400, 2),
        (100, 900, 500, 3),
        (10**10, 10**6, 8 * 10**5, 3),
        (1, 3 * (2**25 + 1) - 15, 2**25 + 1, 3),  # one byte too many, which float32 cannot hold
    ]


def _loop(most):
    def search(parameters, activations, memory, stage):
        wanted = fewest(parameters, activations, memory, stage)
        return wanted if wanted <= most else 0

    return search


SOON = "The number may be larger than the search goes. One can divide instead of trying."


def _held(full: tuple[int, int, int, int]) -> Callable[[int, int, int, int], int]:
    """With so many bytes for each parameter in every GPU, stage by stage."""
    return lambda parameters, activations, memory, stage: _fewest(
        parameters, activations, memory, full[stage]
    )


def _gpus(
    full: tuple[int, int, int, int] = (16, 8, 4, 0),
    rounded: Callable[[int, int], float] = lambda shared, room: -(-shared // room),
    none: int = 0,
    activations_count: bool = True,
) -> Callable[[int, int, int, int], float]:
    """How many GPUs, right by default; each argument makes one mistake."""

    def answer(parameters: int, activations: int, memory: int, stage: int) -> float:
        shared = (16 - full[stage]) * parameters + activations * activations_count
        room = memory - full[stage] * parameters
        return max(1, rounded(shared, room)) if room > 0 else none

    return answer


GPU_SLIPS = [
    ("four bytes shared in stage 1, eight in stage 2", {"full": (16, 12, 8, 0)},
     "The moments come first, 8 bytes, and the weights last."),
    ("one moment stays in full", {"full": (16, 12, 8, 4)},
     "Stage 1 shares both of Adam's moments, 8 bytes."),
    ("stages counted from one too low", {"full": (16, 16, 8, 4)}, "Stage 1 shares the moments."),
    ("stages counted from one too high", {"full": (8, 4, 0, 0)}, "Stage 0 shares nothing."),
    ("everything shared at every stage", {"full": (0, 0, 0, 0)},
     "Only stage 3 shares everything."),
    ("not rounded up", {"rounded": lambda shared, room: shared // room}, "Round up."),
    ("one more when it fits exactly", {"rounded": lambda shared, room: shared // room + 1},
     "A GPU that is full to the last byte will do."),
    ("-1 where there is none", {"none": -1}, "The task asks for 0."),
    ("1 where there is none", {"none": 1}, "The task asks for 0."),
    ("no activations", {"activations_count": False}, "The activations need room as well."),
]  # fmt: skip


GPU_KNOWN = [  # with these there is always a number
    (full, none)
    for full in ("stages counted from one too high", "everything shared at every stage")
    for none in ("-1 where there is none", "1 where there is none")
]


def _of_bytes(full: tuple[int, ...], shared: tuple[int, ...]) -> Callable[..., int]:
    """The bytes for each parameter that stay in full at each stage, and those that are shared."""

    def wrong(parameters: int, activations: int, memory: int, stage: int) -> int:
        room = memory - parameters * full[stage]
        return max(1, -(-(activations + parameters * shared[stage]) // room)) if room > 0 else 0

    return wrong


FEWEST_MISTAKES = mistakes(
    ("rounded up, in numbers of 32 bits",
     lambda parameters, activations, memory, stage: _gpus(
         rounded=lambda shared, room: math.ceil(np.float32(shared) / np.float32(room))
     )(parameters, activations, memory, stage),
     "A float32 number has seven digits. Count bytes in whole numbers, or in float64."),
    ("the activations forgotten, and no GPU where nothing else is shared",
     lambda parameters, activations, memory, stage: (
         lambda full: -(-(16 - full) * parameters // (memory - full * parameters))
         if memory > full * parameters else 0
     )((16, 8, 4, 0)[stage]),
     "The activations of the whole batch are spread over the GPUs: they are among the shared "
     "bytes."),
    ("activations only where something else is shared",
     lambda parameters, activations, memory, stage: fewest(
         parameters, activations * (stage > 0), memory, stage
     ),
     "Each GPU has its part of the sentences at any stage, and so a share of the activations."),
    ("the bytes of one GPU",
     lambda parameters, activations, memory, stage: (
         (16, 8, 4, 0)[stage] * parameters + activations
     ),
     "Asked for is the number of GPUs with which each has room."),
    ("four bytes for each byte of the activations",
     lambda parameters, activations, memory, stage: fewest(
         parameters, 4 * activations, memory, stage
     ),
     "`activations` are bytes already."),
    ("two GPUs at least", lambda *case: max(2, fewest(*case)) if fewest(*case) else 0,
     "Where one GPU has room for everything the smallest n is 1."),
    ("rounded to the nearest, even to no GPU at all",
     lambda parameters, activations, memory, stage: (
         lambda full: round(((16 - full) * parameters + activations) / (memory - full * parameters))
         if memory > full * parameters else 0
     )((16, 8, 4, 0)[stage]),
     "With fewer than the quotient the last bytes have no place: round up."),
    ("None where no number will do", _gpus(none=None),
     "Where no number will do the task asks for 0."),
    ("twenty bytes for each parameter", _of_bytes((20, 12, 8, 4), (0, 8, 12, 16)),
     "Weights and gradients have four bytes each, the two moments eight: 16."),
    ("twelve bytes for each parameter", _of_bytes((12, 4, 0, 0), (0, 8, 12, 12)),
     "Weights and gradients have four bytes each, the two moments eight: 16."),
    ("the stages from the other end", _of_bytes((0, 4, 8, 16), (16, 12, 8, 0)),
     "Stage 0 shares nothing, and stage 3 everything."),
    ("rounded up to a multiple of eight",
     lambda p, a, m, s: -(-fewest(p, a, m, s) // 8) * 8,
     "The smallest number is asked for; it need not fill machines of eight."),
    *combined(_gpus, GPU_SLIPS, GPU_KNOWN),
    ("only four bytes shared in stage 1", _held((16, 12, 4, 0)),
     "Stage 1 shares the moments, 8 bytes for each parameter. The gradients, 4 bytes, come next, "
     "and the weights last."),
    ("four bytes shared in stage 1, eight in stage 2", _held((16, 12, 8, 0)),
     "Stage 1 shares Adam's moments, two numbers for each parameter, 8 bytes; stage 2 the "
     "gradients as well. The weights come last."),
    ("the weights shared in stage 2", _held((16, 8, 0, 0)),
     "Stage 2 shares moments and gradients. The weights stay in full until stage 3."),
    ("everything shared in stage 0", _held((0, 8, 4, 0)),
     "Stage 0 shares nothing: all 16 bytes are in every GPU."),
    ("what is shared and what is held in full exchanged", _held((0, 8, 12, 16)),
     "Stage 1 shares 8 of the 16 bytes, stage 2 shares 12, stage 3 all of them."),
    ("infinity where there is none",
     lambda parameters, activations, memory, stage: (
         fewest(parameters, activations, memory, stage) or math.inf
     ),
     "The task asks for 0 if no number will do."),
    ("an error where what is held in full fills the memory",
     lambda parameters, activations, memory, stage: (
         fewest(parameters, activations, memory, stage)
         if memory - parameters * (16, 8, 4, 0)[stage]
         else 1 // 0
     ),
     "No room is left then, and by 0 nothing can be divided: return 0."),
    ("an error where it fills the memory, and 1 where it is more than that",
     lambda parameters, activations, memory, stage: max(
         1,
         -(
             -(activations + parameters * (0, 8, 12, 16)[stage])
             // (memory - parameters * (16, 8, 4, 0)[stage])
         ),
     ),
     "If what every GPU holds in full leaves no room, no number will do: return 0."),
    ("an error where it fills the memory, and a number below 1 where it is more than that",
     lambda parameters, activations, memory, stage: -(
         -(activations + parameters * (0, 8, 12, 16)[stage])
         // (memory - parameters * (16, 8, 4, 0)[stage])
     ),
     "If what every GPU holds in full leaves no room, no number will do: return 0."),
    ("the activations in every GPU in full",
     lambda parameters, activations, memory, stage: _fewest(
         parameters, activations, memory, (16, 8, 4, 0)[stage], shared_activations=False
     ),
     "Each GPU has an n-th of the batch, and so an n-th of its activations."),
    ("no activations",
     lambda parameters, activations, memory, stage: _fewest(
         parameters, 0, memory, (16, 8, 4, 0)[stage]
     ),
     "The activations need room as well, an n-th of them in each GPU."),
    ("rounded down",
     lambda parameters, activations, memory, stage: (
         0
         if (wanted := fewest(parameters, activations, memory, stage)) == 0
         else max(
             1,
             (activations + parameters * (0, 8, 12, 16)[stage])
             // max(1, memory - parameters * (16, 8, 4, 0)[stage]),
         )
         if wanted > 1
         else 1
     ),
     "With the number rounded down the last bytes have no place: round up."),
    ("rounded to the nearest",
     lambda parameters, activations, memory, stage: (
         0
         if (room := memory - parameters * (16, 8, 4, 0)[stage]) <= 0
         else max(1, round((activations + parameters * (0, 8, 12, 16)[stage]) / room))
     ),
     "With the number rounded down the last bytes have no place: round up, always."),
    ("a number below zero where there is none",
     lambda parameters, activations, memory, stage: (
         0
         if (room := memory - parameters * (16, 8, 4, 0)[stage]) == 0
         else max(1, wanted)
         if (wanted := -(-(activations + parameters * (0, 8, 12, 16)[stage]) // room)) > 0
         else wanted
     ),
     "If what every GPU holds in full is more than its memory, no number will do: return 0."),
    ("1 where what is held in full is too much",
     lambda parameters, activations, memory, stage: (
         0
         if (room := memory - parameters * (16, 8, 4, 0)[stage]) == 0
         else max(1, -(-(activations + parameters * (0, 8, 12, 16)[stage]) // room))
     ),
     "If what every GPU holds in full is more than its memory, no number will do: return 0."),
    ("-1 where there is none",
     lambda parameters, activations, memory, stage: (
         fewest(parameters, activations, memory, stage) or -1
     ),
     "The task asks for 0 if no number will do."),
    ("one more when it fits exactly",
     lambda parameters, activations, memory, stage: (
         0
         if (room := memory - parameters * (16, 8, 4, 0)[stage]) <= 0
         else (activations + parameters * (0, 8, 12, 16)[stage]) // room + 1
     ),
     "At most `memory` bytes: a GPU that is full to the last byte will do."),
    ("everything shared at every stage",
     lambda parameters, activations, memory, stage: _fewest(parameters, activations, memory, 0),
     "Only stage 3 shares everything. Before it, weights are in every GPU in full, and more."),
    ("nothing shared but the activations",
     lambda parameters, activations, memory, stage: _fewest(parameters, activations, memory, 16),
     "Stage 1 shares the moments, 2 also the gradients, 3 also the weights."),
    ("stages counted from one too low",
     lambda parameters, activations, memory, stage: _fewest(
         parameters, activations, memory, (16, 16, 8, 4)[stage]
     ),
     "Stage 1 shares Adam's moments already."),
    ("stages counted from one too high",
     lambda parameters, activations, memory, stage: _fewest(
         parameters, activations, memory, (8, 4, 0, 0)[stage]
     ),
     "Stage 0 shares nothing, and stage 1 the moments only."),
    ("only stage 3 shares anything",
     lambda parameters, activations, memory, stage: _fewest(
         parameters, activations, memory, (16, 16, 16, 0)[stage]
     ),
     "Stage 1 shares the moments already, and stage 2 the gradients as well."),
    ("one of the two moments stays in full",
     lambda parameters, activations, memory, stage: _fewest(
         parameters, activations, memory, (16, 12, 8, 4)[stage]
     ),
     "Adam has two moments, of four bytes each. From stage 1 on both are shared."),
    ("only the moments shared in stage 2",
     lambda parameters, activations, memory, stage: _fewest(
         parameters, activations, memory, (16, 8, 8, 0)[stage]
     ),
     "Stage 2 shares the gradients as well as the moments."),
    ("the weights shared second",
     lambda parameters, activations, memory, stage: _fewest(
         parameters, activations, memory, (16, 8, 4, 4)[stage]
     ),
     "In stage 3 nothing is left in full: moments, gradients and weights are all shared."),
    ("one moment in place of two",
     lambda parameters, activations, memory, stage: _fewest(
         parameters, activations, memory, (12, 8, 4, 0)[stage], all_bytes=12
     ),
     "Adam keeps two averages, of the gradient and of its square: 8 bytes for each parameter."),
    ("no gradients",
     lambda parameters, activations, memory, stage: _fewest(
         parameters, activations, memory, (12, 4, 4, 0)[stage], all_bytes=12
     ),
     "The gradients have 4 bytes for each parameter, too: 16 in all."),
    ("numbers of two bytes",
     lambda parameters, activations, memory, stage: _fewest(
         parameters, activations, memory, (8, 4, 2, 0)[stage], all_bytes=8
     ),
     "In float32 a number has 4 bytes."),
    ("the next power of two",
     lambda parameters, activations, memory, stage: (
         0
         if (wanted := fewest(parameters, activations, memory, stage)) == 0
         else 2 ** math.ceil(math.log2(wanted))
     ),
     "The task asks for the smallest number, which need not be a power of two."),
    ("1 where there is none",
     lambda parameters, activations, memory, stage: (
         fewest(parameters, activations, memory, stage) or 1
     ),
     "If what every GPU holds in full leaves no room, no number of GPUs will do: 0."),
    ("the gradients shared in stage 1",
     lambda parameters, activations, memory, stage: _fewest(
         parameters, activations, memory, (16, 4, 4, 0)[stage]
     ),
     "Stage 1 shares Adam's moments only, 8 of the 16 bytes. The gradients come in stage 2."),
    ("each stage shares one thing only, or every stage the moments only",
     lambda parameters, activations, memory, stage: _fewest(
         parameters, activations, memory, (16, 8, 12, 12)[stage]
     ),
     "The stages add up: stage 2 shares gradients and moments, stage 3 weights as well."),
    ("activations shared from stage 1 on",
     lambda parameters, activations, memory, stage: _fewest(
         parameters, activations, memory, (16, 8, 4, 0)[stage], shared_activations=stage > 0
     ),
     "Each GPU has its part of the sentences, and so an n-th of the activations, in stage 0 too."),
    ("0 in every case",
     lambda parameters, activations, memory, stage: (
         0
         if stage == 0
         else _fewest(
             parameters, activations, memory, (16, 8, 4, 0)[stage], shared_activations=False
         )
     ),
     "Some of these models fit. Of the activations, too, each GPU has an n-th only; and where one "
     "GPU has room for all, n is 1."),
    ("one where what is held in full fills the memory",
     lambda parameters, activations, memory, stage: (
         1
         if memory == parameters * (16, 8, 4, 0)[stage]
         else fewest(parameters, activations, memory, stage)
     ),
     "No room is left for the activations then, and their n-th is never nothing: 0."),
    ("rounded down, even to no GPU at all",
     lambda parameters, activations, memory, stage: (
         0
         if (room := memory - parameters * (16, 8, 4, 0)[stage]) <= 0
         else (activations + parameters * (0, 8, 12, 16)[stage]) // room
     ),
     "With the number rounded down the last bytes have no place: round up."),
    ("a fraction, below one as well",
     lambda parameters, activations, memory, stage: (
         0
         if (room := memory - parameters * (16, 8, 4, 0)[stage]) <= 0
         else (activations + parameters * (0, 8, 12, 16)[stage]) / room
     ),
     "GPUs come in whole numbers: round up."),
    ("a search that ends too soon", _loop(12), SOON),
    ("a search up to a hundred", _loop(100), SOON),
    ("a search that does not reach 200,000", _loop(100_000), SOON),
    ("a fraction",
     lambda parameters, activations, memory, stage: (
         0
         if (room := memory - parameters * (16, 8, 4, 0)[stage]) <= 0
         else max(1.0, (activations + parameters * (0, 8, 12, 16)[stage]) / room)
     ),
     "GPUs come in whole numbers: round up."),
    ("the whole divided by the memory",
     lambda parameters, activations, memory, stage: (
         0
         if memory <= parameters * (16, 8, 4, 0)[stage]
         else -(-(16 * parameters + activations) // memory)
     ),
     "What every GPU holds in full takes its room from each of them. Subtract it from the memory, "
     "and divide what is shared by what is left."),
    ("only the activations shared",
     lambda parameters, activations, memory, stage: _fewest(
         0, activations, memory - (16, 8, 4, 0)[stage] * parameters, 0
     ),
     "What a stage shares needs room as well, an n-th of it on each GPU."),
    ("what is held in full forgotten",
     lambda parameters, activations, memory, stage: max(
         1, -(-((0, 8, 12, 16)[stage] * parameters + activations) // memory)
     ),
     "What a stage does not share is on every GPU, and takes its part of the memory."),
    ("multiplied by the room, not divided",
     lambda parameters, activations, memory, stage: (
         lambda full: (
             ((16 - full) * parameters + activations) * (memory - full * parameters)
             if memory > full * parameters else 0
         )
     )((16, 8, 4, 0)[stage]),
     "n GPUs have n times the room of one: divide by it."),
)  # fmt: skip


# 19.5 the noise scale


def noise_scale(gradients: Tensor, b: int) -> float:
    small, large = _lengths(gradients)
    return float(_trace(gradients, b) / _squared(len(gradients), small, large))


def _lengths(gradients: Tensor) -> tuple[Tensor, Tensor]:
    """The mean squared length of a share's gradient, and that of the whole batch."""
    return gradients.pow(2).sum(1).mean(), gradients.mean(0).pow(2).sum()


def _trace(gradients: Tensor, b: int) -> Tensor:
    small, large = _lengths(gradients)
    return (small - large) / (1 / b - 1 / (len(gradients) * b))


def _squared(N: int, small: Tensor, large: Tensor) -> Tensor:
    return (N * large - small) / (N - 1)


def noise_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(196)
    cases = [(torch.tensor([[3.0, 0.0], [1.0, 0.0]]), 10)]
    for N, P, b in ((3, 6, 7), (8, 12, 25)):
        mean = 2 * torch.randn(P, generator=draw)
        cases.append((mean + torch.randn(N, P, generator=draw), b))
    return [*cases, (torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]]), 6)]  # below zero


def _noise(change):
    """A wrong noise scale from the trace, |g|^2, the two lengths, N and b."""

    def wrong(gradients, b):
        small, large = _lengths(gradients)
        N = len(gradients)
        trace, squared = _trace(gradients, b), _squared(N, small, large)
        return float(change(trace, squared, small, large, N, b))

    return wrong


def _from_lengths(small: Tensor, large: Tensor, N: int, b: int) -> float:
    return float((small - large) / (1 / b - 1 / (N * b)) / _squared(N, small, large))


def _unsquared(gradients: Tensor, b: int) -> float:
    small, large, N = gradients.norm(dim=1).mean(), gradients.mean(0).norm(), len(gradients)
    return float((small - large) / (1 / b - 1 / (N * b)) / _squared(N, small, large))


NOISE_MISTAKES = mistakes(
    ("multiplied by what is to divide the difference",
     _noise(lambda trace, squared, small, large, N, b: (
         (small - large) * (1 / b - 1 / (N * b)) / squared
     )),
     "The difference of the lengths is the trace times 1 / b - 1 / (n b): divide by that."),
    ("NaN where |g|^2 is below zero",
     _noise(lambda trace, squared, small, large, N, b: (
         trace / squared if squared > 0 else math.nan
     )),
     "The estimates are right on average only if all of them stay as they are, those below zero as "
     "well."),
    ("multiplied by (n - 1) / n, not divided",
     _noise(lambda trace, squared, small, large, N, b: (small - large) * b * (N - 1) / N / squared),
     "1 / b - 1 / (n b) is (n - 1) / (n b), and the difference is divided by it."),
    ("the first share's length in place of the mean", lambda gradients, b: _from_lengths(
         gradients[0].pow(2).sum(), _lengths(gradients)[1], len(gradients), b),
     "The squared length of a share is a mean over all shares."),
    ("the lower median of the lengths in place of the mean", lambda gradients, b: _from_lengths(
         gradients.pow(2).sum(1).median(), _lengths(gradients)[1], len(gradients), b),
     "The squared length of a share is a mean over all shares: a median is not right on average."),
    ("infinity where |g|^2 is below zero",
     _noise(lambda trace, squared, small, large, N, b: (
         trace / squared if squared > 0 else math.inf
     )),
     "The estimates are right on average only if all of them stay as they are, those below zero as "
     "well."),
    ("the two estimates, not divided", lambda gradients, b: (
         _trace(gradients, b), _squared(len(gradients), *_lengths(gradients))),
     "The noise scale is the one divided by the other, equation (19.11)."),
    ("lengths along the columns, with the number of the rows", lambda gradients, b: (
         _from_lengths(*_lengths(gradients.T), len(gradients), b)),
     "A row is the gradient of a share: its length is a sum along the row, and the mean of all is "
     "taken over the rows."),
    ("summed over the shares, axis 0, for a share's length", lambda gradients, b: _from_lengths(
         gradients.pow(2).sum(0).mean(), _lengths(gradients)[1], len(gradients), b),
     "A row is the gradient of a share: its squared length is a sum over the P entries, axis 1, "
     "and the mean of all is taken over the shares."),
    ("the mean of all entries for the whole gradient", lambda gradients, b: _from_lengths(
         _lengths(gradients)[0], gradients.mean().pow(2), len(gradients), b),
     "The gradient of the whole batch is the mean of the rows, (P,): a mean over the shares alone, "
     "axis 0."),
    ("the variance of all entries together", lambda gradients, b: float(
         b * gradients.var() / (gradients.mean(0).pow(2).sum() - gradients.var() / len(gradients))),
     "The noise is how far the shares differ from each other, entry by entry: the variance over "
     "axis 0, summed over the entries."),
    ("the mean of the variances in place of their sum", lambda gradients, b: float(
         b * gradients.var(0).mean()
         / (gradients.mean(0).pow(2).sum() - gradients.var(0).mean() / len(gradients))),
     "The trace is a *sum* over the entries of the gradient."),
    ("the largest of the lengths in place of the mean", lambda gradients, b: _from_lengths(
         gradients.pow(2).sum(1).max(), _lengths(gradients)[1], len(gradients), b),
     "The squared length of a share is a mean over all shares."),
    ("the last share's length in place of the mean", lambda gradients, b: _from_lengths(
         gradients[-1].pow(2).sum(), _lengths(gradients)[1], len(gradients), b),
     "The squared length of a share is a mean over all shares. Does a loop keep the last alone?"),
    ("the whole gradient as a mean along each row", lambda gradients, b: _from_lengths(
         _lengths(gradients)[0], gradients.mean(1).pow(2).sum(), len(gradients), b),
     "The gradient of the whole batch is the mean of the rows, (P,): a mean over the shares, axis "
     "0."),
    ("the number of parameters for that of the shares", lambda gradients, b: (
         _from_lengths(*_lengths(gradients), gradients.shape[1], b)),
     "n is the number of rows, the shares."),
    ("the difference of the lengths, not divided",
     _noise(lambda trace, squared, small, large, N, b: (small - large) / squared),
     "Between a share and the whole lie 1 / b - 1 / (n b) of the trace: divide by it."),
    ("a plus below the trace",
     _noise(lambda trace, squared, small, large, N, b: (
         (small - large) / (1 / b + 1 / (N * b)) / squared
     )),
     "Both lengths have |g|^2 in them and a part of the trace. Their difference has the difference "
     "of the parts: 1 / b - 1 / (n b)."),
    ("the root of |g|^2", _noise(lambda trace, squared, small, large, N, b: trace / squared**0.5),
     "Equation (19.11) divides by the *squared* length, which is what (19.13) estimates."),
    ("tokens in place of one over them",
     _noise(lambda trace, squared, small, large, N, b: (small - large) / (b - N * b) / squared),
     "Below the trace stands the difference of *one over* the tokens: 1 / b - 1 / (n b)."),
    ("n / b in place of 1 / (n b)",
     _noise(lambda trace, squared, small, large, N, b: (small - large) / (1 / b - N / b) / squared),
     "All n shares together have n b tokens, and one over them is 1 / (n b)."),
    ("the variance within each share, over its entries",
     lambda g, b: float(b * g.var(1).sum() / (g.mean(0).pow(2).sum() - g.var(1).sum() / len(g))),
     "The noise is how far the shares differ from each other, entry by entry: the variance over "
     "axis 0, summed over the entries."),
    ("standard deviations in place of variances",
     lambda g, b: float(b * g.std(0).sum() / g.mean(0).norm()),
     "Equation (19.11) has squares: the sum of the variances, over the squared length, less its "
     "noise."),
    ("the root of the trace",
     lambda g, b: (b * float(g.var(0).sum())) ** 0.5 * noise_scale(g, b)
     / (b * float(g.var(0).sum())),
     "The trace is a sum of variances: it is divided as it is, without a root."),
    ("the difference of the lengths for |g|^2",
     _noise(lambda trace, squared, small, large, N, b: trace / (large - small)),
     "|g|^2 is (n large - small) / (n - 1): the noise alone is taken off the length of the whole."),
    ("the lengths of the shares not squared",
     lambda g, b: _from_lengths(g.norm(dim=1).mean(), _lengths(g)[1], len(g), b),
     "Both lengths are squared: 5 for the example's shares, the mean of 9 and 1."),
    ("the length of the mean not squared",
     lambda g, b: _from_lengths(_lengths(g)[0], _lengths(g)[1] ** 0.5, len(g), b),
     "Both lengths are squared: 4 for the example's mean of all, not 2."),
    ("the quotient of the deviation and the length",
     lambda g, b: float(b * g.var(0).sum().sqrt() / g.mean(0).norm()),
     "The noise scale is the quotient of the variance and the *squared* length."),
    ("deviations in place of variances",
     lambda g, b: float(
         b * g.std(0).sum() / (g.mean(0).pow(2).sum() - g.std(0).sum() / len(g))
     ),
     "The trace is the sum of the variances."),
    ("the variance along each gradient",
     lambda g, b: float(b * g.var(1, unbiased=False).sum() / g.mean(0).pow(2).sum()),
     "Noise is how much the shares differ: the variance is over them, entry by entry."),
    ("small and large exchanged",
     _noise(lambda trace, squared, small, large, N, b: (
         (large - small) / (1 / b - 1 / (N * b)) / _squared(N, large, small)
     )),
     "`small` is the mean squared length of the shares' gradients, `large` that of their mean: a "
     "small batch has the longer gradient."),
    ("small and large exchanged in |g|^2",
     _noise(lambda trace, squared, small, large, N, b: trace / _squared(N, large, small)),
     "|g|^2 is (n large - small) / (n - 1), with `large` for the whole batch."),
    ("the mean of squares in place of the length of the whole",
     lambda gradients, b: _from_lengths(
         gradients.pow(2).sum(1).mean(), gradients.mean(0).pow(2).mean(), len(gradients), b
     ),
     "A squared length is a *sum* over the parameters, for the whole batch as for a share."),
    ("the mean of squares in place of the shares' lengths",
     lambda gradients, b: _from_lengths(
         gradients.pow(2).mean(), gradients.mean(0).pow(2).sum(), len(gradients), b
     ),
     "A squared length is a *sum* over the parameters, for a share as for the whole batch."),
    ("the square of the shares' mean length for the whole",
     lambda gradients, b: _from_lengths(
         gradients.pow(2).sum(1).mean(), gradients.norm(dim=1).mean() ** 2, len(gradients), b
     ),
     "The whole batch has the length of the *mean gradient*: add the vectors before you take the "
     "length."),
    ("the noise of one share taken off the length of the gradient",
     _noise(lambda trace, squared, small, large, N, b: trace / (large - trace / b)),
     "The mean of n shares has the noise of n b tokens: tr Sigma / (n b) is taken off."),
    ("the noise added to the length of the gradient",
     _noise(lambda trace, squared, small, large, N, b: trace / (large + trace / (N * b))),
     "The mean of n shares still holds noise: its squared length is too long by tr Sigma / (n b). "
     "Equation (19.13) takes that out."),
    ("the noise left in the length of the gradient",
     _noise(lambda trace, squared, small, large, N, b: trace / large),
     "The mean of n shares still holds noise: its squared length is too long by tr Sigma / (n b). "
     "Equation (19.13) takes that out."),
    ("the length of a share's gradient",
     _noise(lambda trace, squared, small, large, N, b: trace / small),
     "The gradient of one share is mostly noise. |g| is that of the true gradient, by equation "
     "(19.13)."),
    ("in shares, not in tokens",
     _noise(lambda trace, squared, small, large, N, b: trace / squared / b),
     "The covariance is that of *one token*: a share of b tokens has a b-th of it. The result is "
     "in tokens."),
    ("in shares, and the noise left in the length of the gradient",
     _noise(lambda trace, squared, small, large, N, b: trace / large / b),
     "Two things are missing: the factor b, since the result is in tokens, and the correction of "
     "|g|^2 by equation (19.13)."),
    ("in whole batches",
     _noise(lambda trace, squared, small, large, N, b: trace / squared / (N * b)),
     "The result is in tokens, not in batches of n b of them."),
    ("shares taken for tokens, the other way",
     _noise(lambda trace, squared, small, large, N, b: trace / squared / b**2),
     "1 / b is the noise of a share in units of that of a token, so b multiplies."),
    ("divided by n in place of n - 1",
     _noise(
         lambda trace, squared, small, large, N, b: (
             b * (small - large) / (large - (small - large) / N)
         )
     ),
     "The shares' deviations from their own mean are too small by (n - 1) / n. Equation (19.13) "
     "has 1 / b - 1 / (n b) below."),
    ("the difference of the lengths over the whole length",
     _noise(lambda trace, squared, small, large, N, b: b * (small - large) / large),
     "Both have to be corrected: see equation (19.13) for the trace and for |g|^2."),
    ("upside down", _noise(lambda trace, squared, small, large, N, b: squared / trace),
     "The noise scale is the noise divided by the gradient."),
    ("the trace alone", _noise(lambda trace, squared, small, large, N, b: trace),
     "Divide by the squared length of the true gradient, equation (19.11)."),
    ("the gradient alone", _noise(lambda trace, squared, small, large, N, b: squared),
     "That is |g|^2, what is divided by. Above it stands the trace, equation (19.11)."),
    ("not divided by N - 1",
     _noise(lambda trace, squared, small, large, N, b: trace / (N * large - small)),
     "|g|^2 in equation (19.13) is divided by n - 1."),
    ("|g|^2 divided by n",
     _noise(lambda trace, squared, small, large, N, b: trace / ((N * large - small) / N)),
     "|g|^2 in equation (19.13) is divided by n - 1."),
    ("1 / n in place of 1 / (n b)",
     _noise(lambda trace, squared, small, large, N, b: (small - large) / (1 / b - 1 / N) / squared),
     "The whole batch has n b tokens: below stands 1 / b - 1 / (n b)."),
    ("times the number of shares",
     _noise(lambda trace, squared, small, large, N, b: trace / squared * N),
     "By equation (19.13) the result is in tokens already, whatever the number of shares."),
    ("lengths that are not squared", lambda gradients, b: _unsquared(gradients, b),
     "Equation (19.13) is about squared lengths, of the shares and of the whole."),
    ("the length in place of its square",
     _noise(lambda trace, squared, small, large, N, b: trace / squared.abs().sqrt()),
     "The gradient's length is squared in equation (19.11): noise and gradient must have one "
     "unit."),
    ("the root of the noise scale",
     _noise(lambda trace, squared, small, large, N, b: (trace / squared).abs().sqrt()),
     "The noise scale is a ratio of squared lengths, without a root."),
    ("1 / (n b) left out",
     _noise(lambda trace, squared, small, large, N, b: (small - large) * b / squared),
     "The mean of all shares has noise as well, that of n b tokens: below stands 1 / b - 1 / "
     "(n b). (As a variance: divided by n - 1, not by n.)"),
    ("the signs of the difference exchanged",
     _noise(lambda trace, squared, small, large, N, b: -trace / squared),
     "Small shares have the longer gradients on average. The trace is positive."),
    ("mean of the lengths in place of the squares",
     lambda gradients, b: float(
         (gradients.norm(dim=1).mean() ** 2 - _lengths(gradients)[1])
         / (1 / b - 1 / (len(gradients) * b))
         / _squared(len(gradients), gradients.norm(dim=1).mean() ** 2, _lengths(gradients)[1])
     ),
     "Square first, then take the mean over the shares: the mean of squares is not the square of "
     "the mean."),
    ("the sum of the shares in place of their mean",
     lambda gradients, b: float(
         (_lengths(gradients)[0] - gradients.sum(0).pow(2).sum())
         / (1 / b - 1 / (len(gradients) * b))
         / _squared(len(gradients), _lengths(gradients)[0], gradients.sum(0).pow(2).sum())
     ),
     "Each row is the gradient of a mean. With equal shares the gradient of the whole batch is the "
     "mean of the rows."),
    ("cut off at zero",
     _noise(lambda trace, squared, small, large, N, b: (trace / squared).clamp(min=0)),
     "Where the shares hardly agree, an estimate of |g|^2 may fall below zero. The estimates are "
     "right on average only if such ones are kept as they are."),
    ("the sign dropped",
     _noise(lambda trace, squared, small, large, N, b: (trace / squared).abs()),
     "Where the shares hardly agree, an estimate of |g|^2 may fall below zero. The estimates are "
     "right on average only if such ones are kept as they are."),
    ("the squares added up over the shares",
     lambda gradients, b: float(
         (gradients.pow(2).sum() - _lengths(gradients)[1])
         / (1 / b - 1 / (len(gradients) * b))
         / _squared(len(gradients), gradients.pow(2).sum(), _lengths(gradients)[1])
     ),
     "The first length is a *mean* over the shares: add up the squares of each row, and take the "
     "mean of these n numbers."),
    ("n b in place of n in |g|^2",
     _noise(lambda trace, squared, small, large, N, b: (
         trace / ((N * b * large - b * small) / (N * b - 1))
     )),
     "In the second half of equation (19.13) n is the number of shares, however many tokens they "
     "have."),
    ("means over the parameters of the wrong axis",
     lambda gradients, b: noise_scale(gradients.T, b),
     "Rows are shares, columns parameters: squares are summed along a row, means taken down the "
     "columns."),
    ("trace and length multiplied",
     _noise(lambda trace, squared, small, large, N, b: trace * squared),
     "The noise scale is the trace *over* the squared length."),
    ("the two lengths added in the trace",
     _noise(lambda trace, squared, small, large, N, b: (
         trace * (small + large) / (small - large) / squared
     )),
     "The noise is in what the two lengths differ by."),
    ("the length of the whole alone in the trace",
     _noise(lambda trace, squared, small, large, N, b: (
         trace * large / (small - large) / squared
     )),
     "The noise is in what the two lengths differ by: small - large."),
    ("the length of the shares alone in the trace",
     _noise(lambda trace, squared, small, large, N, b: (
         trace * small / (small - large) / squared
     )),
     "The noise is in what the two lengths differ by: small - large."),
    ("the two lengths added in |g|^2",
     _noise(lambda trace, squared, small, large, N, b: trace / ((N * large + small) / (N - 1))),
     "What the noise adds is taken off: N times the large one, less the small one."),
    ("|g|^2 multiplied by N - 1",
     _noise(lambda trace, squared, small, large, N, b: trace / (squared * (N - 1) ** 2)),
     "(N large - small) is *divided* by N - 1."),
    ("N left out in |g|^2",
     _noise(lambda trace, squared, small, large, N, b: trace / ((large - small) / (N - 1))),
     "It is N times the length of the whole, less that of a share."),
)  # fmt: skip


# 19.6 what makes an update faster: predicted


def faster() -> list[str]:
    """Base, then big, on eight H100: twice the operations, half the time of a launch, twice the
    wires within the machine. What each does to the time of an update, by the cost model."""
    device = replace(H100, launch=10e-6)  # as the exercise says
    changes = (
        {"flops": 2 * device.flops},
        {"launch": device.launch / 2},
        {"link": 2 * device.link},
    )
    found = []
    for config in (BASE, BIG):
        before = project(config, device, 8, 1).step
        for change in changes:
            factor = project(config, replace(device, **change), 8, 1).step / before
            found.append("shorter" if factor < 0.9 else "the same")
    return found


_S, _N = "shorter", "the same"
FASTER_WHOLE = (
    ("computing as the only floor", [_S, _N, _N, _S, _N, _N],
     "Base waits for its host on eight GPUs: 628 launches take longer than an eighth of the batch. "
     "A GPU that computes faster waits longer."),
    ("launching as the only floor", [_N, _S, _N, _N, _S, _N],
     "For base that is so. An update of big has as many launches, but three and a half times the "
     "operations: its hosts wait for the GPUs."),
    ("sending as the only floor", [_N, _N, _S, _N, _N, _S],
     "Most of what is sent is hidden behind the backward pass. What is not, the embedding's "
     "gradient, is a twentieth of an update within one machine."),
    ("base and big exchanged", [_S, _N, _N, _N, _S, _N],
     "The smaller model has as many layers, so as many launches, and less to compute behind them."),
    ("everything helps", [_S, _S, _S, _S, _S, _S],
     "An update takes as long as the longer of computing and launching, and a little sending. To "
     "shorten what is not the longest shortens nothing."),
    ("nothing helps", [_N, _N, _N, _N, _N, _N],
     "Something is the longest part of each update, and shortening that shortens the update."),
    ("the sum in place of the maximum", [_S, _S, _N, _S, _S, _N],
     "Host and GPU work beside each other: the maximum of the two counts, equation (19.9), not "
     "their sum."),
    ("big, which sends more, waits for its wires as well", [_N, _S, _N, _S, _N, _S],
     "Big sends three times as much, and computes longer, behind which nearly all of it hides."),
    ("big waits for its wires and not for its products", [_N, _S, _N, _N, _N, _S],
     "Of 14 milliseconds of big's update less than one is sending that nothing hides."),
    ("base waits for its wires", [_N, _N, _S, _S, _N, _N],
     "Less than half a millisecond of base's eight is sending that nothing hides. What takes the "
     "other seven?"),
    ("base computes and launches", [_S, _S, _N, _S, _N, _N],
     "For base only one of the two can be the longer one."),
    ("big computes and launches", [_N, _S, _N, _S, _S, _N],
     "For big only one of the two can be the longer one."),
    ("each thing for base and big, or base launches and sends", [_N, _S, _S, _N, _N, _N],
     "The list has base's three first, then big's. In this order it says that wires help base, "
     "whose sending is short, and that nothing helps big, which waits for its GPUs."),
)  # fmt: skip
BASE_PICTURES = {
    (_S, _N, _N): ("base computes", "Base waits for its hosts: faster GPUs wait longer."),
    (_N, _N, _S): ("base sends", "Of base's eight milliseconds less than half a one is sending "
                                 "that nothing hides."),
    (_N, _N, _N): ("nothing helps base", "Something is the longest part, and base's is launching."),
    (_S, _S, _N): ("base computes and launches", "For base only one of the two is the longer one, "
                                                 "and it is launching."),
    (_N, _S, _S): ("base launches and sends", "Base waits for its hosts, as you say. What nothing "
                                              "hides of sending is a twentieth of its update."),
    (_S, _N, _S): ("base computes and sends", "Base launches: its GPUs wait for their hosts."),
    (_S, _S, _S): ("everything helps base", "To shorten what is not the longest shortens nothing, "
                                            "and base's longest part is launching."),
}  # fmt: skip
BIG_PICTURES = {
    (_N, _S, _N): ("big launches", "Big has as many launches as base, and three and a half times "
                                   "the operations: its hosts wait for the GPUs."),
    (_N, _N, _S): ("big sends", "Of big's fourteen milliseconds less than one is sending that "
                                "nothing hides."),
    (_N, _N, _N): ("nothing helps big", "Something is the longest part, and big's is computing."),
    (_S, _S, _N): ("big computes and launches", "For big only one of the two is the longer one, "
                                                "and it is computing."),
    (_N, _S, _S): ("big launches and sends", "Big computes: its hosts wait for the GPUs."),
    (_S, _N, _S): ("big computes and sends", "That big computes is right. Of sending, nearly "
                                             "all is hidden behind that."),
    (_S, _S, _S): ("everything helps big", "To shorten what is not the longest shortens nothing, "
                                           "and big's longest part is computing."),
}  # fmt: skip


def _pictures() -> list[tuple[str, list[str], str]]:
    """Every wrong answer that has no name of its own: what is believed of base, and of big."""
    right = faster()
    named = [tuple(row[1]) for row in FASTER_WHOLE]
    rows = []
    for base, big in product(product((_S, _N), repeat=3), repeat=2):
        wrong = [
            pictures[said]
            for pictures, said, true in (
                (BASE_PICTURES, base, tuple(right[:3])),
                (BIG_PICTURES, big, tuple(right[3:])),
            )
            if said != true
        ]
        if wrong and base + big not in named:
            names, reasons = zip(*wrong, strict=True)
            rows.append(("; ".join(names), [*base, *big], " ".join(reasons)))
    return rows


FASTER_MISTAKES = mistakes(*FASTER_WHOLE, *_pictures())


def in_words(answer: Any) -> list[str]:
    """Six words, whether by model or in one list, and however they are written."""
    items = answer.values() if isinstance(answer, dict) else answer
    items = items.split(",") if isinstance(items, str) else items
    words = []
    for item in items:
        if isinstance(item, str):
            word = " ".join(item.lower().split())
            words.append({"same": _N, "unchanged": _N, "faster": _S}.get(word, word))
        else:
            words += in_words(item)
    return words


# 19.7 one process or many: two faults


def whole_gradient(sums: list[Tensor], tokens: list[int], max_norm: float) -> Tensor:
    return _whole_gradient()(sums, tokens, max_norm)


def _whole_gradient(
    mean: str = "tokens", clip: str = "after", scale: str = "shorter"
) -> Callable[..., Tensor]:
    """The step, right by default; each argument makes one mistake."""

    def clipped(g: Tensor, max_norm: float) -> Tensor:
        norm = g.norm()
        if scale == "entries":
            return g.clamp(-max_norm, max_norm)
        if scale == "sum":
            norm = g.abs().sum()
        if scale == "squared":
            norm = norm**2
        if scale == "largest":
            norm = g.abs().max()
        factor = max_norm / norm if norm > 0 else torch.tensor(1.0)
        if scale == "always":
            return g * factor
        if scale == "one":
            return g / norm if norm > max_norm else g
        if scale == "longer":
            return g * max(1.0, float(factor))
        if scale == "upside down":
            return g * min(1.0, float(norm) / max_norm)
        return g * min(1.0, float(factor))

    def step(sums: list[Tensor], tokens: list[int], max_norm: float) -> Tensor:
        n, N = sum(tokens), len(tokens)
        if mean == "one for nothing":
            n = sum(max(t, 1) for t in tokens)
        if mean == "sums":
            parts = list(sums)
        elif mean in ("tokens", "one for nothing"):
            parts = [g / n for g in sums]
        elif mean == "tokens and processes":
            parts = [g / n / N for g in sums]
        elif mean == "processes with tokens":
            full = sum(t > 0 for t in tokens)
            parts = [g / max(t, 1) / full for g, t in zip(sums, tokens, strict=True)]
        elif mean == "processes":
            parts = [g / N for g in sums]
        elif mean == "multiplied":
            parts = [g * n for g in sums]
        elif mean == "weighted":
            parts = [g * t / n for g, t in zip(sums, tokens, strict=True)]
        else:
            parts = [g / max(t, 1) / N for g, t in zip(sums, tokens, strict=True)]
        if clip == "before":  # each its own, before they are added up
            own = N if mean == "means" else 1
            return sum(clipped(own * g, max_norm) / own for g in parts)
        if clip == "shares":  # each mean its own, before they are weighted
            means = [(g / max(t, 1), t) for g, t in zip(sums, tokens, strict=True)]
            return sum(clipped(g, max_norm) * t / n for g, t in means)
        if clip == "each sum":
            return sum(clipped(g, max_norm) for g in sums) / n
        if clip == "budget":
            return sum(clipped(g, max_norm / N) for g in parts)
        if clip == "sums":
            return clipped(sum(sums), max_norm) / n
        return sum(parts) if clip == "never" else clipped(sum(parts), max_norm)

    return step


def whole_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(197)
    rows = (((5, 1, 4), 6, 2.0, 0.5), ((3, 9), 1, 8.0, 0.4), ((2, 7, 1, 2), 4, 0.2, 3.0),
            ((6,), 3, 20.0, 1.0), ((4, 0, 2), 5, 9.0, 0.75), ((1, 0, 2), 2, 0.2, 3.0))  # fmt: skip
    by_hand = ([torch.tensor([4.0]), torch.tensor([6.0])], [1, 3], 1.0)
    nothing = ([torch.tensor([3.0, -1.0]), torch.tensor([-3.0, 1.0])], [2, 1], 1.0)
    return [
        by_hand,
        nothing,  # the shares cancel each other
        *(
            (
                [size * t * torch.randn(p, generator=draw) for t in tokens],
                list(tokens),
                max_norm,
            )
            for tokens, p, size, max_norm in rows
        ),
    ]


def _longer(sums: list[Tensor], tokens: list[int], max_norm: float) -> Tensor:
    g = _whole_gradient(clip="never")(sums, tokens, max_norm)
    return g * max(1.0, float(g.norm()) / max_norm)


WHOLE_SLIPS = [
    ("the mean of the means", {"mean": "means"}, "Divide the sum by all tokens."),
    ("a sum, not a mean", {"mean": "sums"}, "Divide by the number of all tokens."),
    ("divided by the number of processes", {"mean": "processes"}, "The mean is over tokens."),
    ("weighted as if they were means", {"mean": "weighted"},
     "They are gradients of *summed* losses: each token counts once in them already."),
    ("each share clipped for itself", {"clip": "before"}, "Clip what has been added up."),
    ("each share clipped to its part of the length", {"clip": "budget"},
     "Clip what has been added up."),
    ("made as long as `max_norm` in any case", {"scale": "always"},
     "A gradient that is shorter than `max_norm` stays as it is."),
    ("made as long as 1", {"scale": "one"}, "The length is to be `max_norm`."),
    ("entry by entry", {"scale": "entries"}, "The whole vector is made shorter."),
    ("the length as a sum of sizes", {"scale": "sum"}, "The length is the root of the squares."),
    ("the length without its root", {"scale": "squared"}, "The length is the *root*."),
    ("the factor upside down", {"scale": "upside down"}, "The factor is `max_norm` / length."),
]  # fmt: skip
WHOLE_KNOWN = [
    ("the mean of the means", "each share clipped for itself"),
    ("a sum, not a mean", "each share clipped for itself"),
    ("weighted as if they were means", "each share clipped for itself"),
    ("the mean of the means", "each share clipped to its part of the length"),
    ("a sum, not a mean", "made as long as `max_norm` in any case"),
    ("divided by the number of processes", "made as long as `max_norm` in any case"),
]


NO_MEAN = "What has been clipped is the gradient itself, and no mean over processes is left."
WHOLE_MISTAKES = mistakes(
    ("each divided by its own tokens, and then by all",
     lambda sums, tokens, max_norm: _whole_gradient()(
         [g / max(t, 1) for g, t in zip(sums, tokens, strict=True)], tokens, max_norm
     ),
     "`sums` are not divided yet: divide once, by all tokens."),
    ("the mean of the means, and not clipped", _whole_gradient(mean="means", clip="never"),
     "A process with few tokens counts as much as one with many: divide the sum by all tokens. And "
     "what the optimizer gets is at most `max_norm` long."),
    ("divided by the mean number of tokens",
     lambda sums, tokens, max_norm: (
         lambda g: g * min(1.0, max_norm / max(float(g.norm()), 1e-9))
     )(sum(sums) / sum(tokens) * len(tokens)),
     "Divide by the number of all tokens."),
    ("as long as `max_norm` for each token",
     lambda sums, tokens, max_norm: whole_gradient(sums, tokens, max_norm * sum(tokens)),
     "`max_norm` is for the gradient that the optimizer gets, however many tokens are in it."),
    ("the root of the mean square for the length",
     lambda sums, tokens, max_norm: whole_gradient(
         sums, tokens, max_norm * len(sums[0]) ** 0.5
     ),
     "The length is the root of the *sum* of squares."),
    ("each share clipped, and the sum once more",
     lambda sums, tokens, max_norm: (
         lambda g: g * min(1.0, max_norm / max(float(g.norm()), 1e-9))
     )(_whole_gradient(clip="before")(sums, tokens, max_norm)),
     "Clip once, what has been added up: until then nobody knows how long it is."),
    ("the clipped means of the shares added up",
     lambda sums, tokens, max_norm: (
         len(tokens) * _whole_gradient(mean="means", clip="before")(sums, tokens, max_norm)
     ),
     "Add the sums up, divide by all tokens, and clip that."),
    ("as long as `max_norm` for each process",
     lambda sums, tokens, max_norm: whole_gradient(sums, tokens, max_norm * len(tokens)),
     "`max_norm` is for the gradient that the optimizer gets, however many processes have computed "
     "it."),
    ("always as long as `max_norm`, and zero divided by zero",
     lambda sums, tokens, max_norm: (lambda g: g / g.norm() * max_norm)(sum(sums) / sum(tokens)),
     "Only a gradient that is longer is made shorter. One of length 0 stays as it is: 0/0 is NaN."),
    ("made longer in place of shorter, and no number where it is zero",
     lambda sums, tokens, max_norm: (
         lambda g: g * (max_norm / g.norm()).clamp(min=1)
     )(sum(sums) / sum(tokens)),
     "The factor is the *smaller* of 1 and `max_norm` over the length, never above 1."),
    ("shortened to `max_norm` over the number of processes",
     lambda sums, tokens, max_norm: whole_gradient(sums, tokens, max_norm / len(tokens)),
     "`max_norm` is for the gradient that the optimizer gets, however many processes have computed "
     "it."),
    ("left out where it is too long",
     lambda sums, tokens, max_norm: (
         lambda g: g * (g.norm() <= max_norm)
     )(sum(sums) / sum(tokens)),
     "A gradient that is too long is made shorter, and keeps its direction."),
    ("divided by the processes still, behind the clipping",
     lambda sums, tokens, max_norm: whole_gradient(sums, tokens, max_norm) / len(tokens),
     f"{NO_MEAN} Divided by all tokens it was the mean already."),
    ("divided by the processes with tokens, behind the clipping",
     lambda sums, tokens, max_norm: (
         whole_gradient(sums, tokens, max_norm) / sum(n > 0 for n in tokens)
     ),
     f"{NO_MEAN} Divided by all tokens it was the mean already."),
    ("the sum clipped, and then divided by the processes",
     lambda sums, tokens, max_norm: (
         _whole_gradient("sums")(sums, tokens, max_norm) / len(tokens)
     ),
     f"{NO_MEAN} Divide by the number of all tokens, before you clip."),
    ("the means of the shares added up, clipped, and divided by the processes",
     lambda sums, tokens, max_norm: _whole_gradient("sums")(
         [g / max(n, 1) for g, n in zip(sums, tokens, strict=True)], tokens, max_norm
     ) / len(tokens),
     f"{NO_MEAN} And a process with few tokens counts as much as one with many: divide the sum by "
     "all tokens."),
    ("each share clipped for itself, and then divided by the processes",
     lambda sums, tokens, max_norm: (
         _whole_gradient("tokens", "before")(sums, tokens, max_norm) / len(tokens)
     ),
     f"{NO_MEAN} And what is clipped is the sum: until then nobody knows how long it is."),
    ("not clipped, and divided by all tokens and by the processes",
     _whole_gradient("tokens and processes", "never"),
     "Divided by all tokens it is the mean already. And what the optimizer gets is at most "
     "`max_norm` long."),
    ("multiplied by the processes, behind the clipping",
     lambda sums, tokens, max_norm: whole_gradient(sums, tokens, max_norm) * len(tokens),
     "What the optimizer gets is at most `max_norm` long, however many processes there are."),
    ("zero divided by zero",
     lambda sums, tokens, max_norm: (
         lambda g: g / g.norm() * min(max_norm, float(g.norm()))
     )(sum(sums) / sum(tokens)),
     "A gradient of length 0 is not longer than `max_norm`, and stays as it is. 0/0 is NaN."),
    ("an empty share divided by its tokens",
     lambda sums, tokens, max_norm: whole_gradient(
         [g / t * t for g, t in zip(sums, tokens, strict=True)], tokens, max_norm
     ),
     "The mean over no tokens is 0/0, NaN. Add the sums up as they are."),
    ("the sum of the means of the shares that have tokens",
     lambda sums, tokens, max_norm: _whole_gradient("sums")(
         [g / max(t, 1) for g, t in zip(sums, tokens, strict=True)], tokens, max_norm
     ),
     "A process with few tokens counts as much as one with many: divide the sum by all tokens."),
    ("divided by the number of processes, and not clipped",
     _whole_gradient("processes", "never"),
     "The mean is over tokens, and at most `max_norm` long."),
    ("added up alone", _whole_gradient("sums", "never"),
     "Divide by the number of all tokens, and shorten what is longer than `max_norm`."),
    ("the length of all shares together, not of their sum",
     lambda sums, tokens, max_norm: (
         sum(sums)
         / sum(tokens)
         * min(1.0, max_norm / max(float(torch.stack(list(sums)).norm()) / sum(tokens), 1e-12))
     ),
     "The shares point in different directions: add them up, and take the length of the sum."),
    ("divided by the tokens of the largest share",
     lambda sums, tokens, max_norm: _whole_gradient("sums")(
         [g / max(tokens) for g in sums], tokens, max_norm
     ),
     "Divide by the number of all tokens."),
    ("made as long as 1, not as `max_norm`", _whole_gradient(scale="one"),
     "A gradient that is too long is divided by its length, and multiplied by `max_norm`."),
    *combined(_whole_gradient, WHOLE_SLIPS, WHOLE_KNOWN),
    ("nothing mended", _whole_gradient("means", "before"),
     "Two things depend on how the sentences are shared out: what each gradient is divided by, and "
     "whose length is clipped."),
    ("the mean of the means still", _whole_gradient("means"),
     "The clipping is mended. A process with few tokens still counts as much as one with many: "
     "divide the sum by all tokens."),
    ("the mean of the shares that have tokens", _whole_gradient("processes with tokens"),
     "The clipping is mended. Leaving out empty shares is not enough: a process with few tokens "
     "still counts as much as one with many. Divide the sum by all tokens."),
    ("each share clipped for itself still", _whole_gradient("tokens", "before"),
     "The division is mended. Each share is still clipped by its own length, before anyone knows "
     "how long the sum is."),
    ("each share clipped for itself, and then weighted", _whole_gradient("tokens", "shares"),
     "The weights are right. Each share is still clipped by its own length: a long one counts "
     "less, and which is long depends on how the batch was shared out."),
    ("each sum clipped for itself", _whole_gradient("tokens", "each sum"),
     "Nobody may be clipped before all are added up, and `max_norm` is for the gradient of the "
     "mean: divide first."),
    ("a share without tokens counted as one token", _whole_gradient("one for nothing"),
     "The number of all tokens is the plain sum: an empty share adds none. `max(n, 1)` was needed "
     "only where each share was divided for itself."),
    ("the largest entry for the length", _whole_gradient(scale="largest"),
     "The length is the root of the sum of squares."),
    ("the factor upside down", _whole_gradient(scale="upside down"),
     "To become `max_norm` long, a gradient is multiplied by `max_norm` over its length."),
    ("each share clipped to its part of the length", _whole_gradient("tokens", "budget"),
     "The shares point in different directions, so the length of their sum is not the sum of their "
     "lengths. Clip what has been added up."),
    ("not clipped", _whole_gradient("tokens", "never"),
     "The whole gradient must be at most `max_norm` long."),
    ("the sum clipped, and then divided", _whole_gradient("tokens", "sums"),
     "`max_norm` is for the gradient of the mean, which the optimizer gets. Divide first."),
    ("made as long as `max_norm` in any case", _whole_gradient(scale="always"),
     "A gradient that is shorter than `max_norm` stays as it is."),
    ("short ones made longer, long ones left", _whole_gradient(scale="longer"),
     "The factor is at most one: what is longer than `max_norm` is shortened."),
    ("entry by entry", _whole_gradient(scale="entries"),
     "That bends the direction. The whole vector is made shorter."),
    ("the length as a sum of sizes", _whole_gradient(scale="sum"),
     "The length is the root of the sum of squares."),
    ("the length without its root", _whole_gradient(scale="squared"),
     "The length is the *root* of the sum of squares."),
    ("a sum, not a mean", _whole_gradient("sums"),
     "`sums` are gradients of summed losses. Divide by the number of all tokens."),
    ("divided by the number of processes", _whole_gradient("processes"),
     "The mean is over tokens, however many processes have computed them."),
    ("divided by all tokens and by the processes", _whole_gradient("tokens and processes"),
     "Divided by all tokens it is the mean already."),
    ("weighted as if they were means", _whole_gradient("weighted"),
     "They are gradients of *summed* losses: each token counts once in them already. Equation "
     "(19.4) has weights since its gradients are means."),
    ("what is above `max_norm` cut off, entry by entry",
     lambda sums, tokens, max_norm: (sum(sums) / sum(tokens)).clamp(max=max_norm),
     "The whole vector is made shorter, by one factor, and entries below zero as well."),
    ("long ones made longer, by a factor that is upside down", _longer,
     "The factor is `max_norm` divided by the length, which is below one where it is too long."),
    ("weighted as if they were means, and each clipped for itself",
     _whole_gradient("weighted", "before"),
     "They are gradients of *summed* losses: add them up and divide by all tokens. Then clip."),
    ("a sum, and each clipped for itself", _whole_gradient("sums", "before"),
     "Add up, divide by the number of all tokens, and clip what comes out."),
    ("multiplied by the number of tokens", _whole_gradient("multiplied"),
     "A mean is the sum *divided* by the number of all tokens."),
)  # fmt: skip


# 19.8 how often to write a checkpoint


def interval(write: float, between: float, n: int) -> tuple[float, float]:
    every = math.sqrt(2 * write * between / n)
    return every, write / every + every * n / (2 * between)


def _interval(
    every: Callable[[float, float], float], lost: Callable[[float, float, float], float]
) -> Callable[..., tuple[float, float]]:
    """A mistake in the interval, or in the share lost; with seconds between failures of any."""

    def wrong(write: float, between: float, n: int) -> tuple[float, float]:
        failure = between / n
        tau = every(write, failure)
        return tau, lost(write, failure, tau)

    return wrong


def _young(write: float, failure: float) -> float:
    return math.sqrt(2 * write * failure)


def _share(write: float, failure: float, tau: float) -> float:
    return write / tau + tau / (2 * failure)


def _of_all(wrong: Callable[..., tuple[float, float]], change: Callable) -> Callable:
    """The same, with other seconds between failures."""
    return lambda write, between, n: wrong(write, change(between, n), 1)


def _checkpoints(
    every: Callable[[float, float], float] = _young,
    lost: Callable[[float, float, float], float] = _share,
    failure: Callable[[float, int], float] = lambda between, n: between / n,
) -> Callable[..., tuple[float, float]]:
    """The interval and the share, right by default; each argument makes one mistake."""
    return lambda write, between, n: _interval(every, lost)(write, failure(between, n), 1)


INTERVAL_SLIPS = [
    ("the half forgotten in the interval", {"every": lambda w, f: math.sqrt(w * f)},
     "t squared is 2 w F."),
    ("the root forgotten", {"every": lambda w, f: 2 * w * f}, "t is the *root* of 2 w F."),
    ("from failure to failure", {"every": lambda w, f: f}, "Minimise w/t + t/(2F)."),
    ("the half forgotten in the share", {"lost": lambda w, f, t: w / t + t / f},
     "A failure destroys half an interval."),
    ("one of the two losses only", {"lost": lambda w, f, t: w / t},
     "Both count: w / t and t / (2 F)."),
    ("only what failures destroy", {"lost": lambda w, f, t: t / (2 * f)},
     "Both count: w / t and t / (2 F)."),
    ("in per cent", {"lost": lambda w, f, t: 100 * _share(w, f, t)},
     "A share is a number between 0 and 1."),
    ("the share that is left", {"lost": lambda w, f, t: 1 - _share(w, f, t)},
     "The question is for the share that is lost."),
    ("the share of the best interval, whatever the interval",
     {"lost": lambda w, f, t: math.sqrt(2 * w / f)}, "With another t it is w / t + t / (2 F)."),
    ("one machine in place of n", {"failure": lambda between, n: between},
     "With n machines a failure comes every between / n seconds."),
    ("more machines, fewer failures", {"failure": lambda between, n: between * n},
     "With n machines a failure comes every between / n seconds."),
]  # fmt: skip
INTERVAL_KNOWN = [
    ("the half forgotten in the interval", "the half forgotten in the share"),
    ("the half forgotten in the interval", "one of the two losses only"),
    ("the root forgotten", "the share of the best interval, whatever the interval"),
    ("the root forgotten", "only what failures destroy"),
    ("the root forgotten", "the half forgotten in the share"),
    *(
        (lost, failure)
        for lost in (
            "only what failures destroy",
            "the share of the best interval, whatever the interval",
        )
        for failure in ("one machine in place of n", "more machines, fewer failures")
    ),
]


INTERVALS: list[tuple[str, Callable[[float, float], float], str]] = [
    ("the root forgotten in the interval", lambda w, f: 2 * w * f, "t is the *root* of 2 w F."),
    ("half in place of the root in the interval", lambda w, f: w * f,
     "The root is `** 0.5`; `* 0.5` is a half."),
    ("the interval turned over", lambda w, f: (2 * w * f) ** -0.5, "t is the root of 2 w F."),
    ("the writing forgotten in the interval", lambda w, f: math.sqrt(2 * f),
     "t is the root of 2 w F."),
    ("the interval as the root of F alone", lambda w, f: math.sqrt(f), "t is the root of 2 w F."),
    ("divided by the writing in the interval", lambda w, f: math.sqrt(2 * f / w),
     "t is the root of 2 w F: where writing takes longer, one writes less often."),
]  # fmt: skip
SHARE = "w / t + t / (2 F), of which the two parts are equal only for the best one"
INTERVAL_MISTAKES = mistakes(
    ("n twice in the share",
     lambda write, between, n: (
         lambda t: (t, write / t + n * n * t / (2 * between))
     )(interval(write, between, n)[0]),
     "Failures come every F = between / n seconds: with F there is no other n in the share."),
    ("n outside of the root",
     lambda write, between, n: (
         lambda t: (t, write / t + n * t / (2 * between))
     )(math.sqrt(2 * write * between) / n),
     "Failures come every between / n seconds, and all of that stands under the root."),
    ("how many checkpoints between two failures", _interval(
         lambda w, f: f / _young(w, f), lambda w, f, tau: _share(w, f, _young(w, f))),
     "The interval is asked for in seconds."),
    ("one half for the share", _interval(_young, lambda w, f, tau: 0.5),
     "Half an interval is lost at each failure, and failures are rare: t / (2 F)."),
    ("without the seconds of writing", _interval(lambda w, f: _young(w, f) - w, _share),
     "The interval is counted from one checkpoint to the next, the writing included: nothing is "
     "taken off."),
    ("the seconds of writing added", _interval(lambda w, f: _young(w, f) + w, _share),
     "The interval is counted from one checkpoint to the next, the writing included: nothing is "
     "added."),
    ("half an interval lost in every second",
     _interval(_young, lambda w, f, tau: w / tau + tau / 2),
     "Half an interval is lost at each *failure*, once in F seconds: t / (2 F)."),
    ("seconds in place of a share", _interval(_young, lambda w, f, tau: w + tau / 2),
     "Writing costs w of every t seconds, and failures t / 2 of every F: divide each by its time."),
    ("half of the time between failures", _interval(lambda w, f: f / 2, _share),
     "Write down the share that is lost, w/t + t/(2F), and ask where its derivative is zero."),
    ("the 2 twice in the interval", _interval(lambda w, f: 2 * math.sqrt(w * f), _share),
     "Differentiate w/t + t/(2F): where it is zero, t squared is 2 w F, not 4 w F."),
    ("the 2 on the other side in the interval",
     _interval(lambda w, f: math.sqrt(w * f / 2), _share),
     "Differentiate w/t + t/(2F): where it is zero, t squared is 2 w F, not w F / 2."),
    ("the 2 outside of the root, or a 4 under it",
     lambda write, between, n: (
         2 * math.sqrt(write * between / n), 2 * math.sqrt(write * n / between)
     ),
     "t squared is 2 w F, so the 2 stands under the root, and so it does in the share, 2 w / F."),
    ("rounded to whole seconds and hundredths",
     lambda write, between, n: (
         round(interval(write, between, n)[0]), round(interval(write, between, n)[1], 2)
     ),
     "Return the numbers as they are computed."),
    ("rounded to the example's digits",
     lambda write, between, n: (
         round(interval(write, between, n)[0], 1), round(interval(write, between, n)[1], 4)
     ),
     "Return the numbers as they are computed."),
    ("the interval alone", lambda write, between, n: interval(write, between, n)[0],
     "Both are asked for, the interval and the share: return a pair."),
    ("the share alone", lambda write, between, n: interval(write, between, n)[1],
     "Both are asked for, the interval and the share: return a pair."),
    ("the interval divided by n, not by its root",
     lambda write, between, n: (
         math.sqrt(2 * write * between) / n, math.sqrt(2 * write / between) * n
     ),
     "n belongs to the time between failures, between / n, under the root with it."),
    ("the share twice, once for each of the losses",
     lambda write, between, n: (
         interval(write, between, n)[0], 2 * interval(write, between, n)[1]
     ),
     "w / t and t / (2 F) are equal at the best interval, and their sum is the share."),
    ("the interval of the best share, without the root of two in the share",
     _interval(_young, lambda w, f, t: math.sqrt(w / f)),
     "w / t and t / (2 F) are each the root of w / (2 F); together they are that of 2 w / F."),
    ("as much is lost as the whole interval",
     _interval(lambda w, f: math.sqrt(w * f), lambda w, f, t: w / t + t / f),
     "A failure comes anywhere between two checkpoints. On average it destroys half an interval."),
    ("the half forgotten in the interval only", _interval(lambda w, f: math.sqrt(w * f), _share),
     "Differentiate w/t + t/(2F) once more: where it is zero, t squared is 2 w F."),
    ("the half forgotten in the share only",
     _interval(_young, lambda w, f, t: w / t + t / f),
     "A failure destroys half an interval on average: t / 2 every F seconds."),
    ("one machine in place of n in the interval, and the share that is lost with it",
     lambda write, between, n: (
         lambda t: (t, _share(write, between / n, t))
     )(_young(write, between)),
     "The share is right for that interval. Failures come every between / n seconds in the "
     "interval, too: it is the root of 2 w between / n."),
    ("twice an interval lost at each failure, in the share only",
     _interval(_young, lambda w, f, t: w / t + 2 * t / f),
     "A failure destroys half an interval on average: t / 2 every F seconds."),
    ("one machine in place of n, in the share alone",
     lambda write, between, n: (
         (2 * write * between / n) ** 0.5,
         _share(write, between, (2 * write * between / n) ** 0.5),
     ),
     "Failures come every between / n seconds in the share, too: w / t + t / (2 F)."),
    ("one machine in place of n", _of_all(_interval(_young, _share), lambda between, n: between),
     "With n machines a failure comes n times as often: every between / n seconds."),
    ("more machines, fewer failures",
     _of_all(_interval(_young, _share), lambda between, n: between * n),
     "One failure stops them all. With n machines it comes n times as often, not n times as "
     "rarely."),
    ("the root of n", _of_all(_interval(_young, _share), lambda between, n: between / math.sqrt(n)),
     "Failures add up: n machines fail n times as often."),
    ("the root forgotten", _interval(lambda w, f: 2 * w * f, _share),
     "t squared is 2 w F. (Seconds times seconds are no seconds.)"),
    ("one of the two losses only", _interval(_young, lambda w, f, t: w / t),
     "Both count: the time of writing, w / t, and the work that failures destroy, t / (2 F). (At "
     "the best interval they are equal.)"),
    ("one of the two losses only, and the half forgotten",
     _interval(lambda w, f: math.sqrt(w * f), lambda w, f, t: w / t),
     "A failure destroys half an interval on average, so t squared is 2 w F. And both losses "
     "count: w / t and t / (2 F)."),
    ("one machine in place of n in the share",
     lambda write, between, n: (interval(write, between, n)[0], interval(write, between, 1)[1]),
     "The interval is right. In the share, too, a failure comes every between / n seconds."),
    ("in per cent", _interval(_young, lambda w, f, t: 100 * _share(w, f, t)),
     "A share of the time is a number between 0 and 1."),
    ("the share that is left", _interval(_young, lambda w, f, t: 1 - _share(w, f, t)),
     "The question is for the share that is lost."),
    ("in minutes", lambda write, between, n: (
        interval(write, between, n)[0] / 60, interval(write, between, n)[1]),
     "The interval is asked for in seconds."),
    ("the writing subtracted from the interval",
     lambda write, between, n: (
         interval(write, between, n)[0] - write, interval(write, between, n)[1]
     ),
     "t is the whole time from one checkpoint to the next, with the writing in it."),
    ("the writing added to the interval",
     lambda write, between, n: (
         interval(write, between, n)[0] + write, interval(write, between, n)[1]
     ),
     "t is the whole time from one checkpoint to the next, with the writing in it."),
    ("the writing added to the time that it is a share of",
     _interval(_young, lambda w, f, t: w / (t + w) + t / (2 * f)),
     "Of every t seconds `write` are lost: w / t. The writing is in the t seconds."),
    ("the root forgotten twice", _interval(lambda w, f: 2 * w * f, lambda w, f, t: 2 * w / f),
     "t squared is 2 w F, and the share is the root of 2 w / F."),
    ("writing counted as free", _interval(lambda w, f: w, _share),
     "Written as often as possible, nothing but writing is done. Minimise w/t + t/(2F)."),
    ("an interval from failure to failure", _interval(lambda w, f: f, _share),
     "So every failure would destroy half of all work. Minimise w/t + t/(2F)."),
    ("seconds lost in place of a share", _interval(_young, lambda w, f, t: w + t * t / (2 * f)),
     "That is what is lost in one interval, in seconds. Divide by the interval."),
    ("the arithmetic mean", _interval(lambda w, f: (w + f) / 2, _share),
     "Minimise w/t + t/(2F): the derivative, -w/t^2 + 1/(2F), is zero where t^2 = 2 w F."),
    ("in the other order", lambda write, between, n: interval(write, between, n)[::-1],
     "The interval comes first, then the share."),
    *combined(_checkpoints, INTERVAL_SLIPS, INTERVAL_KNOWN),
    ("multiplied by the interval in the share",
     _interval(_young, lambda w, f, t: w * t + t / (2 * f)),
     "Of t seconds w are spent on writing: the share is w / t."),
    ("the writing over the time between failures for the share",
     _interval(_young, lambda w, f, t: w / f),
     "One checkpoint is written in every t seconds, and not in every F: the share is w / t + t / "
     "(2 F)."),
    ("the share of the time that is left",
     _interval(_young, lambda w, f, t: _share(w, f, t) / (1 - _share(w, f, t))),
     "Of every second the share w / t + t / (2 F) is lost: it is a share of all the time."),
    ("the writing added to what a failure destroys",
     _interval(_young, lambda w, f, t: w / t + (t + w) / (2 * f)),
     "The writing is in the t seconds already, of which half is lost on average."),
    ("the writing taken out of what a failure destroys",
     _interval(_young, lambda w, f, t: w / t + (t - w) / (2 * f)),
     "The task counts half of the whole interval, t / 2: the writing is in the t seconds."),
    ("the writing over the work alone",
     _interval(_young, lambda w, f, t: w / (t - w) + t / (2 * f)),
     "Of every t seconds, the writing included, `write` are lost: w / t."),
    ("the writing taken out of both losses",
     _interval(_young, lambda w, f, t: w / (t - w) + (t - w) / (2 * f)),
     "Of every t seconds, the writing included, `write` are lost, and t / 2 with each failure."),
    ("the writing lost with each failure as well",
     _interval(_young, lambda w, f, t: w / t + (t / 2 + w) / f),
     "A failure costs t / 2 on average, and the writing is in the t seconds."),
    ("2 w t for the share", _interval(_young, lambda w, f, t: 2 * w * t),
     "Of t seconds w are spent on writing: the share is w / t, and the failures' is as large."),
    ("the writing forgotten in the share", _interval(_young, lambda w, f, t: 1 / t + t / (2 * f)),
     "Of t seconds w are spent on writing: the share is w / t."),
    ("2 / t for the share", _interval(_young, lambda w, f, t: 2 / t),
     "Of t seconds w are spent on writing: the share is w / t, and the failures' is as large."),
    ("2 / (w t) for the share", _interval(_young, lambda w, f, t: 2 / (w * t)),
     "Of t seconds w are spent on writing: the share is w / t, and the failures' is as large."),
    ("the second loss subtracted from the first",
     _interval(_young, lambda w, f, t: w / t - t / (2 * f)),
     "Both are lost, and add up."),
    *(
        (name + words, _interval(every, lost), f"{why} For another interval the share is {SHARE}.")
        for name, every, why in INTERVALS
        for words, lost in (
            (", and the share as w / t + t / (2 F)", _share),
            (", and the share as 2 w / t", lambda w, f, t: 2 * w / t),
            (", and the share as t / F", lambda w, f, t: t / f),
        )
        if not (lost is _share and name == "the root forgotten in the interval")
    ),
)  # fmt: skip


# 19.9 a training on small cards, designed

SMALL = replace(V100, price=0.5)


def plan() -> dict[str, int]:
    return {"n": 8, "tokens": 8_000, "parts": 2}


ALONE = (
    "One GPU alone, which waits for nobody, would cost more than 28 dollars with this batch: by "
    "equation (19.12) a training with larger batches reads more tokens in all. Make it smaller."
)


def judged(answer: Callable[[], Any]) -> tuple[str, str, str, str]:
    """What the cost model says of a plan: of memory, hours and price, and of what would mend it."""
    found = answer()
    if isinstance(found, list | tuple):
        if len(found) != 3:
            raise ValueError(f"expected a dict, got {kind(found)}")
        found = dict(zip(("n", "tokens", "parts"), found, strict=True))
    if missing := [name for name in ("n", "tokens", "parts") if name not in found]:
        raise ValueError(f"expected n, tokens and parts, got no {' and no '.join(missing)}")
    numbers = [found[name] for name in ("n", "tokens", "parts")]
    n, tokens, parts = map(int, numbers)
    if [n, tokens, parts] != numbers or min(numbers) < 1 or tokens < n * parts:
        raise ValueError(
            f"expected whole numbers, at least 1, and a token for each part of a batch, got {found}"
        )
    said = of_plan(n, tokens, parts)
    return *said, "" if said == HOLDS else one_change(n, tokens, parts)


HOLDS = "fits", "in time", "paid"


@cache
def of_run(n: int, tokens: int, parts: int) -> Projection:
    return project(BIG, SMALL, n, steps_needed(tokens, 150_000, 25_000), tokens=tokens, parts=parts)


@cache
def of_plan(n: int, tokens: int, parts: int) -> tuple[str, str, str]:
    """What the cost model says of memory, hours and price."""
    steps, run = steps_needed(tokens, 150_000, 25_000), of_run(n, tokens, parts)
    held = sum(state_bytes(parameter_count(BIG)).values())
    held += activation_bytes(BIG, tokens / n / parts, tokens / n / parts)
    return (
        "fits" if held <= 4e9 else "does not fit",
        "in time" if run.hours <= 8 else "too slow",
        "paid" if run.price <= 28 else f"too dear{by_the_batch(steps, tokens)}",
    )


def by_the_batch(steps: float, tokens: int) -> str:
    """Whether one GPU alone, which waits for nobody, would cost too much already."""
    alone = project(BIG, SMALL, 1, steps, tokens=tokens)
    return ", with one GPU as well" if alone.price > 28 else ""


TWO_MACHINES, OF_ONE = "more than one machine", "n times the tokens would do"
FEWER, MORE = "fewer parts would do", "more parts would do"
BATCH_TOO = "and most of each update is sending"
SENDING, LAUNCHING = "most of each update is sending", "most of each update is launching"
ONE_CHANGE = {
    TWO_MACHINES: "Between machines the wires set the pace, and GPUs that wait are paid for: with "
    "these tokens a plan in one machine, n at most 8, holds.",
    OF_ONE: "`tokens` are those of all GPUs together. Are yours the share of one? n times as many, "
    "in parts that fit, would hold.",
    FEWER: "`n` and `tokens` can stay: each part launches everything anew, what is sent hides "
    "behind the last part alone, and a GPU that waits is paid for as well.",
    MORE: "`n` and `tokens` can stay: of each part less is held for the backward pass.",
    SENDING: "For more than half of each update nothing is done but sending: between machines the "
    "wires are slow, and GPUs that wait are paid for. Stay in one machine of eight, and then look "
    "for `tokens` and `parts`.",
    BATCH_TOO: f"{ALONE} And for more than half of each update nothing is done but sending: "
    "between machines the wires are slow, and GPUs that wait are paid for. Stay in one machine, n "
    "at most 8: there a smaller batch, in as few parts as fit, needs less time, too.",
    LAUNCHING: "The GPUs wait for their hosts, longer than they compute: each part launches "
    "everything anew, however small it is. With more tokens in a part a GPU has more to do.",
}


def one_change(n: int, tokens: int, parts: int) -> str:
    """Which single thing, changed, would make the plan hold, with as many parts as it needs; or, if
    none does, what takes most of each update."""

    def held(n: int, tokens: int) -> list[int]:
        return [p for p in range(1, min(33, tokens // n + 1)) if of_plan(n, tokens, p) == HOLDS]

    if found := held(n, tokens):
        return FEWER if min(found) < parts else MORE
    if n > 8 and held(8, tokens):
        return TWO_MACHINES
    if n > 1 and held(n, n * tokens):
        return OF_ONE
    run, (_, *lost) = of_run(n, tokens, parts), of_plan(n, tokens, parts)
    sending = n > 8 and 2 * run.exposed > run.step
    if lost[1].endswith("as well"):  # the batch comes first
        return BATCH_TOO if sending else ""
    if lost == ["in time", "paid"]:
        return ""
    launching = run.host > 2 * run.compute and 2 * run.host > run.step
    return SENDING if sending else LAUNCHING if launching else ""


def _plan_said(cases: Sequence[Case], got: Sequence, want: Sequence) -> tuple[str, str] | None:
    """What is wrong with a plan, and the single change that would mend it, or what it pays for."""
    if not (isinstance(got[0], tuple) and (change := got[0][-1])):
        return None
    first = next(row for row in PLAN_MISTAKES if judged(row.wrong)[:3] == got[0][:3])
    return f"{first.name}; {change}", ONE_CHANGE[change]


def _plan(n: int, tokens: int, parts: int) -> Callable[[], dict[str, int]]:
    return lambda: {"n": n, "tokens": tokens, "parts": parts}


PLAN_MISTAKES = mistakes(
    ("memory: it does not fit", _plan(8, 10_000, 1),
     "Time and price are right. 16 bytes for each parameter are held whatever you choose; what a "
     "batch keeps for its backward pass shrinks with `parts`, and with `n`."),
    ("hours: too slow", _plan(4, 5_000, 2),
     "Memory and price are right. A small batch needs more updates, equation (19.12), and few "
     "GPUs compute each for a long time."),
    ("price: too dear", _plan(8, 16_000, 3),
     "Memory and time are right. A large batch reads more tokens in all, and GPUs that wait for "
     "their hosts or for each other are paid for as well."),
    ("price: too dear by its batch alone", _plan(8, 22_000, 4),
     f"Memory and time are right. {ALONE}"),
    ("memory and hours: does not fit, and too slow", _plan(1, 12_500, 2),
     "More GPUs help both: each holds and computes a smaller share."),
    ("memory and price: does not fit, and too dear", _plan(8, 16_000, 1),
     "It is in time. A smaller batch is cheaper, and fewer tokens are held for the backward pass."),
    ("memory and price: does not fit, and too dear by its batch alone", _plan(8, 22_000, 1),
     f"It is in time. {ALONE} Then less is held for the backward pass, too."),
    ("hours and price: too slow, and too dear", _plan(8, 16_000, 12),
     "It fits. Look at what every update pays, however small: the launches, once for each part, "
     "the weights that are read, the wires, slow ones between machines. A small batch pays it more "
     "often, small parts launch more, and GPUs that wait are paid for as well."),
    ("hours and price: too slow, and too dear by its batch alone", _plan(8, 100_000, 24),
     f"It fits. {ALONE} In one machine, n at most 8, and in as few parts as fit, that needs less "
     "time, too."),
    ("memory, hours and price: all are missed", _plan(3, 20_000, 1),
     "Begin with the price: equation (19.12) says how many tokens a batch of this size reads in "
     "all. Then take as many GPUs as an update keeps busy, and then `parts`."),
    ("memory, hours and price: all are missed, the price by its batch alone", _plan(1, 100_000, 2),
     f"{ALONE} Then take as many GPUs as an update keeps busy, and then `parts`."),
)  # fmt: skip


EXERCISES = [
    Exercise(
        number="19.1",
        title="put gradients together",
        section="One batch, several processes",
        reference=combine,
        cases=combine_cases,
        mistakes=COMBINE_MISTAKES,
        invariants=[
            Invariant(
                "between the smallest and the largest gradient",
                lambda output, gradients, tokens: _between(
                    torch.as_tensor(output),
                    torch.stack([g for g, n in zip(gradients, tokens, strict=True) if n]),
                ),
                "The weights t_i / t are positive and add up to one, so each entry of the result "
                "lies between the smallest and the largest of the shares.",
            )
        ],
    ),
    Exercise(
        number="19.2",
        title="what is sent",
        section="All-reduce, in a ring",
        reference=bytes_sent,
        cases=bytes_sent_cases,
        mistakes=BYTES_MISTAKES,
        canonical=float,
        rtol=1e-6,
    ),
    Exercise(
        number="19.3",
        title="operations of a model of today",
        section="Operations, matrix by matrix",
        reference=modern_flops,
        cases=modern_cases,
        mistakes=MODERN_MISTAKES,
        canonical=float,
        rtol=1e-6,
    ),
    Exercise(
        number="19.4",
        title="how many GPUs",
        section="Sharding",
        reference=fewest,
        cases=fewest_cases,
        mistakes=FEWEST_MISTAKES,
        canonical=float,
        rtol=1e-6,
    ),
    Exercise(
        number="19.5",
        title="the noise scale",
        section="How large may a batch be?",
        reference=noise_scale,
        cases=noise_cases,
        mistakes=NOISE_MISTAKES,
        invariants=[
            Invariant(
                "where |g|^2 is estimated below zero, the noise scale comes out negative",
                lambda output, gradients, b: noise_scale(gradients, b) > 0 or not output >= 0,
                "Estimates are right on average only if all of them stay as they are: no sign is "
                "lost, and nothing is kept above zero.",
            )
        ],
        canonical=float,
        rtol=1e-3,
    ),
    Exercise(
        number="19.6",
        title="predict: what makes it faster",
        section="Time to talk",
        reference=faster(),
        mistakes=FASTER_MISTAKES,
        canonical=in_words,
        invariants=[
            Invariant(
                f'six words, each "{_S}" or "{_N}"',
                lambda words: len(words) == 6 and {*words} <= {_S, _N},
                "Each of the six purchases has one of these two answers.",
            )
        ],
    ),
    Exercise(
        number="19.7",
        title="one process or many",
        section="One batch, several processes",
        reference=whole_gradient,
        cases=whole_cases,
        mistakes=WHOLE_MISTAKES,
        raised=[
            (
                r"ZeroDivisionError.*(norm|length|\*\* ?0?\.5|sqrt)",
                "The whole gradient may be zero. Then nothing is to be shortened: look at its "
                "length before you divide by it.",
            ),
            (
                "ZeroDivisionError",
                "A share may have no tokens, and the whole gradient may be zero: nothing may be "
                "divided by either.",
            ),
        ],  # fmt: skip
        invariants=[
            Invariant(
                "no longer than `max_norm`",
                lambda output, sums, tokens, max_norm: bool(
                    not torch.as_tensor(output).float().norm() > 1.001 * max_norm
                ),
                "What the optimizer gets is at most `max_norm` long.",
            )
        ],
    ),
    Exercise(
        number="19.8",
        title="how often to write a checkpoint",
        section="Hint 1",
        reference=interval,
        cases=[(60.0, 3e6, 100), (12.5, 4e5, 3), (1.0, 2e6, 1), (300.0, 5e7, 4096)],
        mistakes=INTERVAL_MISTAKES,
        rtol=1e-4,
    ),
    Exercise(
        number="19.9",
        title="a training on small cards",
        section="How large may a batch be?",
        reference=plan,
        cases=[()],
        mistakes=PLAN_MISTAKES,
        invariants=Family(_plan_said),
        probe=judged,
    ),
]
