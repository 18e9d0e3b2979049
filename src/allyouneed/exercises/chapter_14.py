"""The exercises of chapter 14, translation for real: references, cases, mistakes."""

from __future__ import annotations

import copy
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from itertools import combinations, combinations_with_replacement, product
from operator import mul
from statistics import fmean, mean, median, median_high, pstdev
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import gelu

from .compare import kind, show
from .core import Case, Exercise, Family, Invariant, mistakes
from .faults import some
from .pairs import combined
from .suspects import Lack, each, rules, says_yes, verdicts_on

# 14.1 which number may be reported


def reported(valid: Sequence[float], test: Sequence[float]) -> float:
    return test[max(range(len(valid)), key=lambda i: valid[i])]


REPORT_CASES = [
    ([30.0, 32.0, 31.0], [29.0, 30.5, 33.0]),
    ([31.0, 33.5, 33.1, 32.0], [30.2, 31.4, 32.6, 29.0]),
    ([28.0, 29.5, 29.5, 27.1, 29.5, 29.5], [30.0, 28.9, 28.2, 31.3, 29.1, 28.8]),  # ties
    ([40.1, 39.0, 39.9], [39.5, 41.0, 38.8]),
    ([33.0, 33.4, 32.1], [34.6, 34.2, 35.0]),  # test is the easier set
    ([20.4, 24.1, 22.3, 23.2, 21.0], [20.9, 23.4, 24.6, 22.2, 21.7]),
    ([31.5, 31.5, 30.2], [30.6, 30.1, 31.2]),  # the first two tie
    ([30.0, 31.0, 30.5, 33.0, 32.2], [29.2, 30.9, 31.4, 31.8, 32.3]),  # it falls before its best
    ([9.5, 12.0, 11.1], [9.9, 11.2, 11.6]),
]


def _before_it_falls(valid: Sequence[float], test: Sequence[float]) -> float:
    falls = (i for i in range(len(valid) - 1) if valid[i + 1] < valid[i])
    return test[next(falls, len(valid) - 1)]


def _better_than_the_first(valid: Sequence[float], test: Sequence[float], which: int) -> float:
    return test[[0, *(i for i, score in enumerate(valid) if score > valid[0])][which]]


def _of_the_best(valid: Sequence[float], choose: Callable) -> int | float:
    best = max(valid)
    return choose([i for i, score in enumerate(valid) if score == best])


REPORT_MISTAKES = mistakes(
    ("the mean of both scores, the best of these",
     lambda valid, test: max((a + b) / 2 for a, b in zip(valid, test, strict=True)),
     "Choose by `valid` alone, and report `test` alone: a score that chose is flattered."),
    ("the median of the test scores", lambda valid, test: sorted(test)[len(test) // 2],
     "One setting is chosen, by `valid`, and its own test score is reported."),
    ("the best test score", lambda valid, test: max(test),
     "This chooses on the test set, and its score is then flattered by luck. Choose by `valid`, "
     "then read the test score of that one setting."),
    ("the best validation score", lambda valid, test: max(valid),
     "The setting was chosen by this very number, so it is flattered. What may be reported is the "
     "same setting's score on the test set."),
    ("the validation score of the setting that is best on test",
     lambda valid, test: valid[max(range(len(test)), key=lambda i: test[i])],
     "The roles are exchanged: `valid` chooses, `test` is read."),
    ("the last one of those that tie",
     lambda valid, test: test[_of_the_best(valid, lambda tied: tied[-1])],
     "Of settings that tie on validation the first counts. (`>=` in a loop keeps the last.)"),
    ("ties broken by the test set",
     lambda valid, test: _of_the_best(valid, lambda tied: max(test[i] for i in tied)),
     "The test set must not choose, not even between settings that tie on validation."),
    ("of those that tie the worst on test",
     lambda valid, test: _of_the_best(valid, lambda tied: min(test[i] for i in tied)),
     "That is cautious, and the test set chooses all the same. The first of those that tie "
     "counts."),
    ("the mean of those that tie",
     lambda valid, test: _of_the_best(valid, lambda tied: mean(test[i] for i in tied)),
     "One setting is chosen, the first of those that tie."),
    ("chosen by both sets together",
     lambda valid, test: test[max(range(len(valid)), key=lambda i: valid[i] + test[i])],
     "The sum of both scores lets the test set choose as well."),
    ("the mean of all test scores", lambda valid, test: mean(test),
     "One setting is chosen, and its own test score is reported."),
    ("the setting that is worst on validation",
     lambda valid, test: test[min(range(len(valid)), key=lambda i: valid[i])],
     "BLEU is better when it is higher: take the largest validation score."),
    ("the number of the setting, not its score",
     lambda valid, test: max(range(len(valid)), key=lambda i: valid[i]),
     "This is where the best validation score stands. Return the test score that stands there."),
    ("the number of the setting, counted from 1, not its score",
     lambda valid, test: valid.index(max(valid)) + 1,
     "This says where the best validation score stands. Return the test score that stands there."),
    ("the number of the setting, and its score",
     lambda valid, test: (valid.index(max(valid)), reported(valid, test)),
     "The setting is the right one. Return its test score alone."),
    ("the number of the setting that is best on test, not a score",
     lambda valid, test: test.index(max(test)),
     "Two things: `valid` chooses, and what is returned is the test score of the chosen setting, "
     "not its number."),
    ("the best validation score and where it stands",
     lambda valid, test: (max(valid), valid.index(max(valid))),
     "The setting is the right one. Return its *test* score, and that alone."),
    ("the smaller of the two scores",
     lambda valid, test: min(max(valid), reported(valid, test)),
     "Caution is no rule here. The score on the test set is the one that nobody chose by, also "
     "where it is the higher of the two."),
    ("the mean of both scores of the chosen setting",
     lambda valid, test: (max(valid) + reported(valid, test)) / 2,
     "The validation score was chosen for being high. It has no part in what is reported."),
    ("of the first two that tie, the second",
     lambda valid, test: test[max((1, 0, *range(2, len(valid))), key=lambda i: valid[i])],
     "Of settings that tie on validation the first counts. (A search that begins with the second "
     "must not keep it against the first.)"),
    ("the test score with the difference to validation taken off",
     lambda valid, test: 2 * reported(valid, test) - max(valid),
     "The test score is reported as it is: nothing is added or taken off."),
    ("the highest of all scores", lambda valid, test: max(*valid, *test),
     "Choose by `valid` alone, and report the test score of that one setting."),
    ("one setting before the chosen one", lambda valid, test: test[
        max(range(len(valid)), key=lambda i: valid[i]) - 1],
     "Places are counted from 0, and nothing is taken off: `test` has the same order as `valid`."),
    ("the first setting", lambda valid, test: test[0],
     "Look for the highest number in `valid`: it need not be the first."),
    ("the last setting", lambda valid, test: test[-1],
     "Look for the highest number in `valid`: it need not be the last."),
    ("the lowest test score", lambda valid, test: min(test),
     "Choose by `valid`, then read the test score of that one setting."),
    ("the median of all test scores", lambda valid, test: median(test),
     "Choose one setting by `valid`, and read its test score."),
    ("both scores of the chosen setting",
     lambda valid, test: (max(valid), reported(valid, test)),
     "The validation score chose the setting, so it is flattered. Return the test score alone."),
    ("rounded", lambda valid, test: round(reported(valid, test)),
     "It is the right score. Do not round it."),
    ("what validation has more than test",
     lambda valid, test: max(valid) - reported(valid, test),
     "Return the test score of the chosen setting, not a difference."),
    ("the mean of all validation scores", lambda valid, test: mean(valid),
     "Choose one setting by `valid`, and read its test score."),
    ("the sum of all test scores", lambda valid, test: sum(test),
     "Choose one setting by `valid`, and read its test score."),
    ("the setting whose scores lie nearest to each other",
     lambda valid, test: min(zip(valid, test, strict=True), key=lambda p: abs(p[0] - p[1]))[1],
     "The choice is made by validation alone: the best there."),
    ("the second best on validation",
     lambda valid, test: test[sorted(range(len(valid)), key=lambda i: -valid[i])[:2][-1]],
     "The best on validation is chosen, not the next."),
    ("the middle one on validation",
     lambda valid, test: test[sorted(range(len(valid)), key=lambda i: valid[i])[len(valid) // 2]],
     "The best on validation is chosen."),
    ("the one that loses most from validation to test",
     lambda valid, test: test[max(range(len(valid)), key=lambda i: valid[i] - test[i])],
     "The best on validation is chosen, whatever test says of it."),
    ("the last one before the first fall", _before_it_falls,
     "That is for epochs of one training. These are settings in any order: look through them all."),
    ("the first one that is better than the first setting",
     lambda valid, test: _better_than_the_first(valid, test, int(max(valid) > valid[0])),
     "Another one may be better still. Compare each with the best so far, not with the first."),
    ("the last one that is better than the first setting",
     lambda valid, test: _better_than_the_first(valid, test, -1),
     "Compare each with the best so far: is it kept when a better one is found?"),
    ("one setting behind the chosen one",
     lambda valid, test: test[(valid.index(max(valid)) + 1) % len(test)],
     "Places are counted from 0, and nothing is added: `test` has the same order as `valid`."),
    ("rounded before they are compared",
     lambda valid, test: test[[*map(round, valid)].index(max(map(round, valid)))],
     "Compare the scores as they are: tenths count."),
    ("the last one that is better than the one before",
     lambda valid, test: test[max(
         [0, *(i for i in range(1, len(valid)) if valid[i] > valid[i - 1])])],
     "Compare each with the best so far, not with its neighbour."),
    ("the mean of the two that are best on validation",
     lambda valid, test: mean(
         test[i] for i in sorted(range(len(valid)), key=lambda i: -valid[i])[:2]),
     "One setting is chosen, and its own test score is reported."),
)  # fmt: skip

# 14.2 a test for a BLEU: what it is tried on stands behind 14.7, whose parts it takes

# 14.3 paired bootstrap


def paired(a: Tensor, b: Tensor, draws: Tensor) -> Tensor:
    sums_a, sums_b = a.double()[draws].sum(1), b.double()[draws].sum(1)
    return 100 * (sums_a[:, 0] / sums_a[:, 1] - sums_b[:, 0] / sums_b[:, 1])


def paired_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(143)
    example = [[[1, 2], [3, 3]], [[1, 1], [1, 4]], [[0, 1], [1, 1]]]
    cases = [tuple(torch.tensor(x) for x in example)]
    for n, r in ((6, 5), (9, 7), (4, 1)):
        totals = torch.randint(3, 12, (2, n), generator=draw)
        matches = (torch.rand(2, n, generator=draw) * (totals + 1)).long()
        systems = torch.stack([matches, totals], dim=-1)  # (2, n, 2)
        cases.append((systems[0], systems[1], torch.randint(0, n, (r, n), generator=draw)))
    return cases


def _ratio(counts: Tensor, draws: Tensor) -> Tensor:
    sums = counts.double()[draws].sum(1)
    return 100 * sums[:, 0] / sums[:, 1]


def _by_sentence(counts: Tensor, draws: Tensor) -> Tensor:
    return 100 * (counts[:, 0] / counts[:, 1].double())[draws].mean(1)


def _everything(counts: Tensor, draws: Tensor) -> Tensor:
    return _ratio(counts, torch.arange(len(counts)).expand_as(draws))


def _distinct(counts: Tensor, draws: Tensor) -> Tensor:
    return torch.cat([_ratio(counts, row.unique()[None]) for row in draws])


def _shared_total(a: Tensor, b: Tensor, draws: Tensor) -> Tensor:
    sums_a, sums_b = a.double()[draws].sum(1), b.double()[draws].sum(1)
    return 100 * (sums_a[:, 0] - sums_b[:, 0]) / sums_a[:, 1]


def _as_weights(counts: Tensor, draws: Tensor) -> Tensor:
    sums = draws.double() @ counts.double()
    return 100 * sums[:, 0] / sums[:, 1]


PAIRED_MISTAKES = mistakes(
    ("the second score alone", lambda a, b, draws: _ratio(b, draws),
     "Asked for is the difference: the score of `a` minus that of `b`."),
    ("the words of the second right, undivided",
     lambda a, b, draws: _ratio(a, draws) - 100.0 * b[draws, 0].sum(1),
     "A score is the words right over the words said, for both systems."),
    ("the words of the first right, undivided",
     lambda a, b, draws: 100.0 * a[draws, 0].sum(1) - _ratio(b, draws),
     "A score is the words right over the words said, for both systems."),
    ("the same column of the first in both places", lambda a, b, draws: 100 - _ratio(b, draws),
     "A score is the words right over the words said: columns 0 and 1."),
    ("the same column of the second in both places", lambda a, b, draws: _ratio(a, draws) - 100,
     "A score is the words right over the words said: columns 0 and 1."),
    ("divided by the words of all sentences",
     lambda a, b, draws: 100 * (
         a[draws, 0].sum(1) / a[:, 1].sum() - b[draws, 0].sum(1) / b[:, 1].sum()
     ),
     "Each draw is a test set of its own: its words that are right are divided by its words said."),
    ("both scores of each draw",
     lambda a, b, draws: torch.stack([_ratio(a, draws), _ratio(b, draws)], 1),
     "The scores are right. Asked for is their difference, one number for each draw."),
    ("both scores of each draw, a row for each system",
     lambda a, b, draws: torch.stack([_ratio(a, draws), _ratio(b, draws)]),
     "The scores are right. Asked for is their difference, one number for each draw."),
    ("the spread of the differences", lambda a, b, draws: paired(a, b, draws).std(),
     "Return the difference of every draw, R numbers. Their spread can be read off them."),
    ("divided in whole numbers",
     lambda a, b, draws: 100 * (
         _ratio(a, draws).div(100).floor() - _ratio(b, draws).div(100).floor()
     ),
     "`//` cuts each score down to a whole number, mostly 0. Divide with `/`."),
    ("the draws read as how often each sentence counts",
     lambda a, b, draws: _as_weights(a, draws) - _as_weights(b, draws),
     "In the chapter `resample` gives such numbers. Here a row of `draws` holds the numbers of the "
     "drawn sentences themselves: index with it."),
    ("another draw for the second system",
     lambda a, b, draws: _ratio(a, draws) - _ratio(b, draws.roll(1, 0)),
     "Both systems are scored on the same sentences in every draw: that is what makes the test "
     "paired."),
    ("the second system not resampled",
     lambda a, b, draws: _ratio(a, draws) - _everything(b, draws),
     "Both systems are scored on the sentences that were drawn."),
    ("nothing resampled", lambda a, b, draws: _everything(a, draws) - _everything(b, draws),
     "Each row of `draws` names the sentences of one resampled test set, some of them several "
     "times."),
    ("each sentence at most once", lambda a, b, draws: _distinct(a, draws) - _distinct(b, draws),
     "A sentence that was drawn twice counts twice. Index with the draws; do not mask."),
    ("the mean of the sentences' scores",
     lambda a, b, draws: _by_sentence(a, draws) - _by_sentence(b, draws),
     "The counts of all drawn sentences are summed first, then divided: a corpus score."),
    ("the second minus the first", lambda a, b, draws: -paired(a, b, draws),
     "The difference is the score of `a` minus that of `b`."),
    ("differences without their sign", lambda a, b, draws: paired(a, b, draws).abs(),
     "Whether the second system wins in some draws is the very question: keep the sign."),
    ("only who wins", lambda a, b, draws: (paired(a, b, draws) > 0).double(),
     "Return the differences themselves. The share of wins can be read off them."),
    ("one number for all draws", lambda a, b, draws: paired(a, b, draws).mean(),
     "Return the difference of every draw, R numbers. Their spread is what one wants."),
    ("both divided by the words of the first", _shared_total,
     "Each system said a number of words of its own, and is divided by that."),
    ("both divided by the words of the second", lambda a, b, draws: -_shared_total(b, a, draws),
     "Each system said a number of words of its own, and is divided by that."),
    ("parts of 1, not per cent", lambda a, b, draws: paired(a, b, draws) / 100,
     "Scores are given from 0 to 100 here."),
    ("words said divided by words right",
     lambda a, b, draws: _ratio(a.flip(1), draws) - _ratio(b.flip(1), draws),
     "The first column holds the words that are right, the second those that were said."),
    ("in per cent of the second score",
     lambda a, b, draws: 100 * paired(a, b, draws) / _ratio(b, draws),
     "The difference is taken in points, not in parts of one of the scores."),
    ("the difference on all sentences taken off",
     lambda a, b, draws: paired(a, b, draws) - _everything(a, draws) + _everything(b, draws),
     "That moves the middle of the draws to zero. Their middle is the difference one asks for."),
    ("sorted", lambda a, b, draws: paired(a, b, draws).sort().values,
     "The differences come in the order of the draws. To read an interval off them one sorts "
     "later."),
    ("rounded down", lambda a, b, draws: _ratio(a, draws).floor() - _ratio(b, draws).floor(),
     "Divide with `/`: `//` throws away what comes behind the point."),
    ("the first score alone", lambda a, b, draws: _ratio(a, draws),
     "This is how good the first system is in each draw. Take the second one's score off."),
    ("true where the first is ahead",
     lambda a, b, draws: paired(a, b, draws) > 0,
     "Return the differences themselves, one number for each draw."),
    ("one score divided by the other",
     lambda a, b, draws: _ratio(a, draws) / _ratio(b, draws),
     "The task asks for the difference, not for the quotient."),
    ("rounded", lambda a, b, draws: paired(a, b, draws).round(),
     "The differences are right. Do not round them."),
    ("the second minus the first, in parts of 1",
     lambda a, b, draws: -paired(a, b, draws) / 100,
     "It is the score of a minus that of b, and scores go from 0 to 100."),
    ("the numbers counted from 1",
     lambda a, b, draws: paired(a, b, (draws - 1) % len(a)),
     "The draws count the sentences from 0."),
    ("the two scores added",
     lambda a, b, draws: _ratio(a, draws) + _ratio(b, draws),
     "The task asks for the difference."),
    ("100 times too much", lambda a, b, draws: 100 * paired(a, b, draws),
     "The scores go from 0 to 100 already."),
    ("the sum of the sentences' scores",
     lambda a, b, draws: len(draws[0]) * (_by_sentence(a, draws) - _by_sentence(b, draws)),
     "The score divides the words that are right over all sentences by the words said."),
    ("the mean of the sentences' scores, in parts of 1",
     lambda a, b, draws: (_by_sentence(a, draws) - _by_sentence(b, draws)) / 100,
     "Words are added up over the sentences before they are divided, and the score is 100 times "
     "that."),
    ("100 times the words right, undivided",
     lambda a, b, draws: 100 * (a[draws].sum(1) - b[draws].sum(1))[:, 0].double(),
     "The words that are right are divided by the words said, for each system by its own."),
    ("the difference of the words right, undivided",
     lambda a, b, draws: (a[draws].sum(1) - b[draws].sum(1))[:, 0].double(),
     "The score is 100 times the words that are right, divided by the words said."),
    ("both divided by the words of both",
     lambda a, b, draws: (lambda one, two: 100 * (one - two)[:, 0] / (one + two)[:, 1])(
         a[draws].sum(1).double(), b[draws].sum(1).double()),
     "Each system's words that are right are divided by the words that it said itself."),
    ("the share of the draws in which the first is ahead",
     lambda a, b, draws: (paired(a, b, draws) > 0).double().mean(),
     "Asked for are the differences of all R draws. The share comes after that."),
    ("the sentences' own differences", lambda a, b, draws: 100 * (
         a[draws].double()[..., 0] / a[draws][..., 1] - b[draws].double()[..., 0] / b[draws][..., 1]
     ),
     "A draw is one test set: its words are added up over the N sentences, and one number comes "
     "out."),
    ("added up over the draws in place of the sentences",
     lambda a, b, draws: paired(a, b, draws.T),
     "`a[draws]` has the shape (R, N, 2). Sum over the sentences, the axis 1."),
    ("added up as they come", lambda a, b, draws: paired(a, b, draws).cumsum(0),
     "Each draw has a difference of its own."),
    ("the numbers counted from 1, and 0 taken for the first",
     lambda a, b, draws: paired(a, b, (draws - 1).clamp(min=0)),
     "The numbers in `draws` begin with 0, as indices do."),
    ("the second system on other draws",
     lambda a, b, draws: _ratio(a, draws) - _ratio(b, draws.flip(0)),
     "Both are scored on the same sentences of a draw: that is what pairs them."),
    ("per cent of the first system alone",
     lambda a, b, draws: _ratio(a, draws) - _ratio(b, draws) / 100,
     "Both scores go from 0 to 100: does 100 stand before the difference, in brackets?"),
    ("words right divided by words wrong",
     lambda a, b, draws: (lambda of: of(a) - of(b))(lambda x: (
         lambda sums: 100 * sums[:, 0] / (sums[:, 1] - sums[:, 0]).clamp(min=1))(
             x.double()[draws].sum(1))),
     "The words that are right are divided by all words said, the right ones among them."),
    ("the median of the draws", lambda a, b, draws: paired(a, b, draws).median(),
     "Return the difference of every draw, R numbers."),
    ("only which of the two is ahead", lambda a, b, draws: paired(a, b, draws).sign(),
     "Asked for is by how much: the score of `a` minus that of `b`."),
    ("the interval in place of the differences",
     lambda a, b, draws: paired(a, b, draws).quantile(
         torch.tensor([0.025, 0.975], dtype=torch.float64)),
     "Return the difference of every draw, R numbers. An interval is read off them later."),
    ("all draws taken for one", lambda a, b, draws: paired(
         a, b, draws.reshape(1, -1)).expand(len(draws)),
     "Each row of `draws` is a test set of its own."),
    ("the last sentence of each draw left out",
     lambda a, b, draws: paired(a, b, draws[:, :-1]),
     "All N numbers of a row belong to the draw."),
)  # fmt: skip

# 14.4 the operations of a training


def _flops(
    n: int, d: int, f: int, v: int, src: int, tgt: int, *, each: int = 6, kv: str | None = "src",
    qo: str = "tgt", cross: int = 1, logits: str | None = "tgt", lookups: int = 0,
    attention: int = 4, matrices: int = 2,
) -> int:  # fmt: skip
    """The count with its parts as options, of which the defaults are right."""
    tokens = {"src": src, "tgt": tgt, None: 0}
    encoder = n * (attention * d * d + matrices * d * f) * src
    decoder = n * (attention * d * d + matrices * d * f) * tgt
    cross_kv = cross * n * 2 * d * d * tokens[kv]
    cross_qo = cross * n * (attention - 2) * d * d * tokens[qo]
    return each * (
        encoder + decoder + cross_kv + cross_qo + v * d * (tokens[logits] + lookups * (src + tgt))
    )


def training_flops(
    n_layers: int, d_model: int, d_ff: int, vocab_size: int, src_tokens: int, tgt_tokens: int
) -> int:
    layer = 4 * d_model**2 + 2 * d_model * d_ff
    on_src = n_layers * (layer + 2 * d_model**2)
    on_tgt = n_layers * (layer + 2 * d_model**2) + vocab_size * d_model
    return 6 * (on_src * src_tokens + on_tgt * tgt_tokens)


PARTS: list[tuple[str, Callable[[int, int, int, int], int], str]] = [
    ("n_layers d_model^2", lambda n, d, f, v: n * d * d,
     "A layer has 4 d_model^2 numbers in its self-attention, for its own tokens, and 2 d_model^2 "
     "of cross-attention work on the source tokens, 2 on the target tokens."),
    ("n_layers d_model d_ff", lambda n, d, f, v: n * d * f,
     "The feed-forward net of a layer has 2 d_model d_ff numbers, for its own tokens."),
    ("the weights of a whole layer", lambda n, d, f, v: n * (6 * d * d + 2 * d * f),
     "Each token goes through the layers of its own stack."),
    ("vocab_size d_model", lambda n, d, f, v: v * d,
     "Each target token is multiplied with the whole embedding matrix once, for the logits."),
    ("n_layers d_model", lambda n, d, f, v: n * d, "Matrices count, and no vectors."),
]  # fmt: skip


def _one_part(
    cases: Sequence[tuple], got: Sequence[Any], want: Sequence[Any]
) -> tuple[str, str] | None:
    """One part of the count too often or too seldom."""
    if any(isinstance(a, list | tuple | str) or a is None for a in got):
        return None
    apart = [float(a) - float(b) for a, b in zip(got, want, strict=True)]
    for part, numbers, why in PARTS:
        for sides, where in (((1, 0), "source token"), ((0, 1), "target token"),
                             ((1, 1), "token of both sides")):  # fmt: skip
            every = [numbers(*n[:4]) * (sides[0] * n[4] + sides[1] * n[5]) for n in cases]
            times = round(apart[-1] / every[-1])
            fits = (abs(a - times * e) <= 1e-9 * abs(w) + 1e-6
                    for a, e, w in zip(apart, every, want, strict=True))  # fmt: skip
            if times and abs(times) <= 36 and all(fits):
                less = f"{abs(times)} times {part} too {'many' if times > 0 else 'few'}"
                return f"{less} for each {where}", f"{why} And each weight counts 6 times."
    return None


FLOPS_KNOWN = [
    (
        "the attention to the memory forgotten",
        "keys and values of the memory computed for target tokens",
    ),
    ("the attention to the memory forgotten", "keys and values of the memory forgotten"),
    ("the logits forgotten", "looking up embeddings counted as a product"),
]


def _all_by_all(n: int, d: int, f: int, v: int, src: int, tgt: int) -> int:
    parameters = n * (12 * d * d + 4 * d * f) + v * d
    return 6 * parameters * (src + tgt)


def _flops_with(**changes: Any) -> Callable:
    return lambda *sizes: _flops(*sizes, **changes)


FLOPS_SLIPS = [
    ("only forwards", {"each": 2}, "A training step also goes backwards: 6 in all, not 2."),
    ("a multiplication with its addition counted as one", {"each": 3},
     "A multiplication and an addition are two operations: 6, not 3."),
    ("keys and values of the memory computed for target tokens", {"kv": "tgt"},
     "In cross-attention keys and values are made from the memory: the source tokens."),
    ("keys and values of the memory forgotten", {"kv": None},
     "Cross-attention has four matrices as well."),
    ("the attention to the memory forgotten", {"cross": 0}, "A decoder layer has two attentions."),
    ("the logits forgotten", {"logits": None},
     "Each target token is multiplied with the whole embedding matrix."),
    ("logits of the source tokens", {"logits": "src"}, "Only target tokens are predicted."),
    ("looking up embeddings counted as a product", {"lookups": 1},
     "To embed a token is to read one row."),
    ("one matrix in the net", {"matrices": 1}, "The feed-forward net has two."),
]  # fmt: skip


FLOPS_MISTAKES = mistakes(
    ("queries with keys, and weights with values, as well",
     lambda n, d, f, v, src, tgt: (
         _flops(n, d, f, v, src, tgt) + 12 * n * d * (src * src + tgt * tgt + src * tgt)
     ),
     "Products of queries with keys and of weights with values do not count, only those with "
     "weight matrices."),
    ("queries and output of cross-attention forgotten",
     lambda n, d, f, v, src, tgt: _flops(n, d, f, v, src, tgt) - 12 * n * d * d * tgt,
     "Cross-attention has four matrices as well. Two of them work on the target tokens."),
    ("the logits only forwards",
     lambda n, d, f, v, src, tgt: _flops(n, d, f, v, src, tgt) - 4 * v * d * tgt,
     "Their matrix is multiplied backwards as well, twice, as every other."),
    ("of cross-attention the keys alone on the source tokens",
     lambda n, d, f, v, src, tgt: _flops(n, d, f, v, src, tgt) + 6 * n * d * d * (tgt - src),
     "The values, too, are made of the memory, once for each source token."),
    ("the output projection of cross-attention forgotten",
     lambda n, d, f, v, src, tgt: _flops(n, d, f, v, src, tgt) - 6 * n * d * d * tgt,
     "Cross-attention has four matrices as well: queries, keys, values and W^O."),
    ("the decoder's self-attention forgotten",
     lambda n, d, f, v, src, tgt: _flops(n, d, f, v, src, tgt) - 24 * n * d * d * tgt,
     "A layer of the decoder has two attentions, over itself and over the memory."),
    ("only forwards", _flops_with(each=2),
     "A training step also goes backwards, which costs twice as much as forwards: 6 in all, not "
     "2."),
    ("the way back as dear as the way there", _flops_with(each=4),
     "Or the way back alone. Backwards there are two products for each matrix, one for the "
     "gradient of its input and one for that of its weights; forwards there is one: 2 + 4 = 6."),
    ("a multiplication with its addition counted as one", _flops_with(each=3),
     "A multiplication and an addition are two operations: 6 for each entry and token, not 3."),
    ("keys and values of the memory computed for target tokens", _flops_with(kv="tgt"),
     "In cross-attention keys and values are made from the memory: the source tokens."),
    ("all of cross-attention on the source tokens", _flops_with(qo="src"),
     "In cross-attention the queries and the output projection belong to the target tokens."),
    ("cross-attention forgotten", _flops_with(cross=0),
     "A decoder layer has two attentions: its own and the one to the memory."),
    ("keys and values of cross-attention forgotten", _flops_with(kv=None),
     "Cross-attention has four matrices as well. Two of them, for keys and values, meet the source "
     "tokens in every layer of the decoder."),
    ("the embedding matrix for source tokens as well",
     lambda n, d, f, v, src, tgt: training_flops(n, d, f, v, src, tgt) + 6 * v * d * src,
     "Source tokens have no logits, and to embed them is to read one row. Only target tokens are "
     "multiplied with the embedding matrix."),
    ("the embedding matrix twice for target tokens",
     lambda n, d, f, v, src, tgt: training_flops(n, d, f, v, src, tgt) + 6 * v * d * tgt,
     "To embed a token is to read one row. Target tokens are multiplied with the matrix once, when "
     "logits are made."),
    ("the logits forgotten", _flops_with(logits=None),
     "Each target token is multiplied with the whole embedding matrix, V rows of d_model."),
    ("logits of the source tokens", _flops_with(logits="src"),
     "Only target tokens are predicted: the logits are theirs. (Or are the two numbers of tokens "
     "exchanged? All else is alike on both sides.)"),
    ("looking up embeddings counted as a product", _flops_with(lookups=1),
     "To embed a token is to read one row. Nothing is multiplied with the matrix."),
    ("the output projections forgotten", _flops_with(attention=3),
     "An attention has four matrices: for queries, keys, values and the output."),
    ("one matrix in the feed-forward net", _flops_with(matrices=1),
     "The feed-forward net has two matrices: d_model by d_ff, and back."),
    ("keys and values of cross-attention for both kinds of tokens",
     lambda n, d, f, v, src, tgt: _flops(n, d, f, v, src, tgt) + 6 * n * 2 * d * d * tgt,
     "Each matrix counts for the tokens that meet it. Keys and values of cross-attention are made "
     "from the memory alone."),
    ("half of the layers in each stack", lambda n, *sizes: _flops(n / 2, *sizes),
     "There are n_layers in the encoder, and as many again in the decoder."),
    ("one layer only", lambda n, *sizes: _flops(1, *sizes),
     "Encoder and decoder have n_layers layers each."),
    ("every weight for every token", _all_by_all,
     "Source tokens go through the encoder, target tokens through the decoder. Count each matrix "
     "for the tokens that meet it."),
    ("one decoder layer, whatever the depth",
     lambda n, d, f, v, src, tgt: (
         training_flops(n, d, f, 0, src, 0) + training_flops(1, d, f, v, 0, tgt)
     ),
     "The decoder has `n_layers` layers, as the encoder has."),
    ("one encoder layer, whatever the depth",
     lambda n, d, f, v, src, tgt: (
         training_flops(1, d, f, 0, src, 0) + training_flops(n, d, f, v, 0, tgt)
     ),
     "The encoder has `n_layers` layers, as the decoder has."),
    ("the logits once for each layer",
     lambda n, d, f, v, src, tgt: training_flops(n, d, f, v, src, tgt) + 6 * (n - 1) * v * d * tgt,
     "The logits are made once, at the end of the stack."),
    ("biases counted",
     lambda n, d, f, v, src, tgt: (
         training_flops(n, d, f, v, src, tgt) + 6 * n * (d + f) * (src + tgt)
     ),
     "Products with matrices count, and biases do not."),
    ("the queries of cross-attention counted for source tokens",
     lambda n, d, f, v, src, tgt: (
         training_flops(n, d, f, v, src, tgt) + 6 * n * d * d * (src - tgt)
     ),
     "Keys and values come from the source; the query of cross-attention comes from the target."),
    ("the feed-forward net forgotten",
     lambda n, d, f, v, src, tgt: training_flops(n, d, 0, v, src, tgt),
     "Each layer has a feed-forward net, of two matrices."),
    ("the encoder alone",
     lambda n, d, f, v, src, tgt: 6 * n * (4 * d * d + 2 * d * f) * src,
     "The decoder has weights as well, and the logits."),
    ("twice as much", lambda *sizes: 2 * training_flops(*sizes),
     "A multiplication and an addition are 2, forwards and twice backwards: 6 in all."),
    ("8 for each weight and token", lambda *sizes: training_flops(*sizes) * 4 // 3,
     "2 forwards and 4 backwards: 6 for each weight and token."),
    ("weights times tokens, without the 6", lambda *sizes: training_flops(*sizes) // 6,
     "Each weight and token takes 2 operations forwards and 4 backwards."),
    ("the decoder alone",
     lambda n, d, f, v, src, tgt: training_flops(n, d, f, v, 0, tgt),
     "The encoder has weights as well, and the keys and values of the memory."),
    ("three matrices in the attention", lambda n, d, f, v, src, tgt: (
         training_flops(n, d, f, v, src, tgt) - 6 * n * d * d * (src + tgt)),
     "Self-attention has four matrices: for queries, keys, values, and the heads' output."),
    ("the encoder on the target tokens", lambda n, d, f, v, src, tgt: (
         training_flops(n, d, f, v, src, tgt) + 6 * n * (4 * d * d + 2 * d * f) * (tgt - src)),
     "The encoder reads the source: its layers see the source tokens."),
    ("the width of the net squared", lambda n, d, f, v, src, tgt: (
         training_flops(n, d, f, v, src, tgt) + 12 * n * (f * f - d * f) * (src + tgt)),
     "The two matrices of the feed-forward net have d_model times d_ff entries."),
    ("source and target tokens multiplied",
     lambda n, d, f, v, src, tgt: training_flops(n, d, f, v, src * tgt, src * tgt),
     "Each token meets the weights on its own side, once: tokens are counted, not pairs of them."),
    ("all of cross-attention for both kinds of tokens", lambda n, d, f, v, src, tgt: (
         training_flops(n, d, f, v, src, tgt) + 12 * n * d * d * (src + tgt)),
     "Keys and values are made of the source, queries and output of the target: two matrices for "
     "each."),
    ("the decoder's feed-forward net forgotten", lambda n, d, f, v, src, tgt: (
         training_flops(n, d, f, v, src, tgt) - 12 * n * d * f * tgt),
     "A decoder layer has a feed-forward net, too."),
    ("the encoder's layers forgotten", lambda n, d, f, v, src, tgt: (
         training_flops(n, d, f, v, src, tgt) - 6 * n * (4 * d * d + 2 * d * f) * src),
     "The encoder has as many layers as the decoder, which see the source tokens."),
    ("queries with keys counted", lambda n, d, f, v, src, tgt: (
         training_flops(n, d, f, v, src, tgt) + 12 * n * d * src * tgt),
     "Only products with weight matrices count."),
    *combined(_flops_with, FLOPS_SLIPS, FLOPS_KNOWN),
    ("a bias for the logits, or their softmax", lambda n, d, f, v, src, tgt: (
         training_flops(n, d, f, v, src, tgt) + 6 * v * tgt),
     "The logits have no bias, and neither biases nor the softmax count."),
    ("the norms counted",
     lambda n, d, f, v, src, tgt: (
         _flops(n, d, f, v, src, tgt) + 6 * n * d * (4 * src + 6 * tgt)
     ),
     "A norm's gamma and beta are vectors. Products with matrices count, and norms do not."),
    ("keys and values of the memory for one layer of the decoder",
     lambda n, d, f, v, src, tgt: _flops(n, d, f, v, src, tgt) - 12 * (n - 1) * d * d * src,
     "The memory is one, but each layer of the decoder has matrices of its own for its keys and "
     "values."),
    ("one layer in the decoder",
     lambda n, d, f, v, src, tgt: (
         _flops(n, d, f, v, src, tgt)
         - 6 * (n - 1) * (2 * d * d * src + (6 * d * d + 2 * d * f) * tgt)
     ),
     "The decoder has n_layers layers, as many as the encoder."),
    ("d_ff squared in the feed-forward net",
     lambda n, d, f, v, src, tgt: (
         _flops(n, d, f, v, src, tgt) + 6 * n * (f * f - 2 * d * f) * (src + tgt)
     ),
     "A feed-forward net has two matrices, d_model by d_ff and d_ff by d_model."),
    ("2 d_ff in the feed-forward net",
     lambda n, d, f, v, src, tgt: (
         _flops(n, d, f, v, src, tgt) + 12 * n * (f - d * f) * (src + tgt)
     ),
     "A matrix has as many entries as rows times columns: 2 d_model d_ff in all."),
    ("vocab_size operations for the logits",
     lambda n, d, f, v, src, tgt: _flops(n, d, f, v, src, tgt) - 6 * v * (d - 1) * tgt,
     "Each logit is a product of d_model numbers: the matrix has vocab_size d_model entries."),
)  # fmt: skip

# 14.5 an ensemble is not an average

Net = tuple[Tensor, Tensor]


def _probabilities(x: Tensor, net: Net) -> Tensor:
    return _logits(x, net).softmax(-1)


def _logits(x: Tensor, net: Net) -> Tensor:
    return torch.relu(x @ net[0]) @ net[1]


def _mean(tensors: Iterable[Tensor]) -> Tensor:
    return torch.stack(list(tensors)).mean(0)


def ensemble(x: Tensor, nets: list[Net]) -> Tensor:
    return _mean(_probabilities(x, net) for net in nets)


def ensemble_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(145)
    cases = []
    for b, d, f, v, n in ((3, 4, 5, 6, 3), (4, 3, 4, 5, 2), (1, 2, 3, 4, 1)):
        nets = [
            (torch.randn(d, f, generator=draw), torch.randn(f, v, generator=draw)) for _ in range(n)
        ]
        cases.append((torch.randn(b, d, generator=draw), nets))
    return cases


def _votes(x: Tensor, nets: list[Net]) -> Tensor:
    return _mean(
        torch.nn.functional.one_hot(_logits(x, net).argmax(-1), net[1].shape[1]).float()
        for net in nets
    )


ENSEMBLE_MISTAKES = mistakes(
    ("divided by 2, however many nets there are",
     lambda x, nets: sum(_probabilities(x, net) for net in nets) / 2,
     "The mean of the nets' probabilities: divide by `len(nets)`."),
    ("the ReLU behind the second matrix",
     lambda x, nets: _mean(torch.relu(x @ a @ b).softmax(-1) for a, b in nets),
     "The ReLU stands between the two matrices."),
    ("the weights averaged",
     lambda x, nets: _probabilities(x, (_mean(n[0] for n in nets), _mean(n[1] for n in nets))),
     "That is one net with averaged weights. An ensemble lets every net compute, and averages what "
     "comes out."),
    ("the logits averaged before the softmax",
     lambda x, nets: _mean(_logits(x, net) for net in nets).softmax(-1),
     "Each net gives its own probabilities first; then they are averaged. Averaged logits give the "
     "geometric mean."),
    ("logits instead of probabilities", lambda x, nets: _mean(_logits(x, net) for net in nets),
     "The softmax of each net is missing."),
    ("probabilities multiplied, not averaged",
     lambda x, nets: _mean(_probabilities(x, net).log() for net in nets).exp(),
     "The mean of log-probabilities is the log of a geometric mean; its rows do not sum to one."),
    ("the product of the probabilities, rescaled",
     lambda x, nets: (len(nets) * _mean(_logits(x, net) for net in nets)).softmax(-1),
     "Logits that are added, or probabilities that are multiplied, make another mixture. Here the "
     "probabilities are averaged."),
    ("log-probabilities", lambda x, nets: ensemble(x, nets).log(),
     "Return the averaged probabilities themselves."),
    ("divided by the number of texts, not of nets",
     lambda x, nets: ensemble(x, nets) * len(nets) / len(x),
     "The mean of the nets' probabilities: divide by `len(nets)`."),
    ("the sum, not the mean", lambda x, nets: ensemble(x, nets) * len(nets),
     "Divide by the number of nets, or the rows do not sum to one."),
    ("the hidden layers averaged",
     lambda x, nets: _mean(
         (_mean(torch.relu(x @ net[0]) for net in nets) @ w_2).softmax(-1) for _, w_2 in nets
     ),
     "Each net goes from x to its softmax by itself. Only what comes out is averaged."),
    ("the first matrices averaged",
     lambda x, nets: _mean(
         _probabilities(x, (_mean(net[0] for net in nets), w_2)) for _, w_2 in nets
     ),
     "No weights are averaged: each net goes from x to its softmax with its own."),
    ("the second matrices averaged",
     lambda x, nets: _mean(
         _probabilities(x, (w_1, _mean(net[1] for net in nets))) for w_1, _ in nets
     ),
     "No weights are averaged: each net goes from x to its softmax with its own."),
    ("the median of the nets",
     lambda x, nets: torch.stack([_probabilities(x, net) for net in nets]).quantile(0.5, dim=0),
     "Take the mean over the nets: medians need not sum to one."),
    ("a vote", _votes,
     "Each net gives only its first choice here. Its probabilities say more, and they are to be "
     "averaged."),
    ("the first net alone", lambda x, nets: _probabilities(x, nets[0]),
     "All nets take part, with the same weight."),
    ("the last net alone", lambda x, nets: _probabilities(x, nets[-1]),
     "All nets take part. Does a loop overwrite the result of the net before?"),
    ("softmax over the batch", lambda x, nets: _mean(_logits(x, net).softmax(0) for net in nets),
     "The softmax runs over the V tokens, the last axis."),
    ("softmax twice", lambda x, nets: ensemble(x, nets).softmax(-1),
     "The averaged probabilities already sum to one."),
    ("without the ReLU", lambda x, nets: _mean((x @ net[0] @ net[1]).softmax(-1) for net in nets),
     "Each net is softmax(relu(x w_1) w_2)."),
    ("the largest probability of any net",
     lambda x, nets: torch.stack([_probabilities(x, net) for net in nets]).amax(0),
     "Take the mean over the nets, not the maximum."),
    ("one set of probabilities for each net",
     lambda x, nets: torch.stack([_probabilities(x, net) for net in nets]),
     "The probabilities are right. Take their mean over the nets."),
    ("the likeliest only", lambda x, nets: ensemble(x, nets).argmax(-1),
     "Return the probabilities, (B, V)."),
    ("the mean over the batch as well", lambda x, nets: ensemble(x, nets).mean(0),
     "Each row of x has probabilities of its own: take the mean over the nets alone."),
    ("the mean of the log-probabilities",
     lambda x, nets: _mean(_probabilities(x, net).log() for net in nets),
     "The mean is taken of the probabilities themselves."),
    ("a ReLU behind the logits as well",
     lambda x, nets: _mean(torch.relu(_logits(x, net)).softmax(-1) for net in nets),
     "The ReLU stands between the two matrices only. Logits may be negative."),
    ("the product of the probabilities",
     lambda x, nets: torch.stack([_probabilities(x, net) for net in nets]).prod(0),
     "That is how probable it is that all nets say the same. Take the mean over the nets."),
    ("the lower median of the nets",
     lambda x, nets: torch.stack([_probabilities(x, net) for net in nets]).median(0).values,
     "Take the mean over the nets: medians need not sum to one."),
    ("the mean over the batch in place of the nets", lambda x, nets: (
         torch.stack([_probabilities(x, net) for net in nets]).mean(1)),
     "The mean is over the nets: each text of the batch keeps its own probabilities."),
    ("the largest probability of any net, rescaled", lambda x, nets: (lambda p: p / p.sum(
         -1, keepdim=True))(torch.stack([_probabilities(x, net) for net in nets]).amax(0)),
     "The ensemble says the mean of what the nets say, which sums to one by itself."),
    ("the smallest probability of any net", lambda x, nets: (
         torch.stack([_probabilities(x, net) for net in nets]).amin(0)),
     "The ensemble says the mean of what the nets say."),
    ("a mean of two at a time", lambda x, nets: reduce(
         lambda one, two: (one + two) / 2, [_probabilities(x, net) for net in nets]),
     "The last net has half of the say, and the first the least. Add all up, and divide once."),
    ("hidden layers and second matrices averaged", lambda x, nets: (
         _mean(torch.relu(x @ net[0]) for net in nets) @ _mean(net[1] for net in nets)).softmax(-1),
     "Every net goes all the way to its probabilities by itself. These are averaged."),
    ("a GELU in place of the ReLU", lambda x, nets: _mean(
         (gelu(x @ net[0]) @ net[1]).softmax(-1) for net in nets),
     "The nets of this exercise have a ReLU."),
    ("a hyperbolic tangent in place of the ReLU", lambda x, nets: _mean(
         (torch.tanh(x @ net[0]) @ net[1]).softmax(-1) for net in nets),
     "The nets of this exercise have a ReLU."),
    ("a sigmoid in place of the ReLU", lambda x, nets: _mean(
         (torch.sigmoid(x @ net[0]) @ net[1]).softmax(-1) for net in nets),
     "The nets of this exercise have a ReLU."),
    ("a sigmoid in place of the softmax", lambda x, nets: _mean(
         torch.sigmoid(_logits(x, net)) for net in nets),
     "The softmax makes probabilities of the logits of a row, which sum to one."),
    ("the ReLU of the input", lambda x, nets: _mean(
         (torch.relu(x) @ net[0] @ net[1]).softmax(-1) for net in nets),
     "The ReLU stands between the two matrices: ReLU(x w_1) w_2."),
    ("without the ReLU, and the logits averaged", lambda x, nets: _mean(
         x @ net[0] @ net[1] for net in nets).softmax(-1),
     "There is a ReLU between the two matrices. And every net goes all the way to its "
     "probabilities."),
    ("a softmax in place of the ReLU", lambda x, nets: _mean(
         ((x @ net[0]).softmax(-1) @ net[1]).softmax(-1) for net in nets),
     "The hidden layer has a ReLU, and the softmax comes behind the second matrix."),
    ("the more sure a net, the more it counts", lambda x, nets: (
         lambda p, sure: (p * sure).sum(0) / sure.sum(0))(
         *(lambda p: (p, p.amax(-1, keepdim=True)))(
             torch.stack([_probabilities(x, net) for net in nets]))),
     "All nets have the same say: their plain mean is asked for."),
    ("the exponentials not divided by their sum",
     lambda x, nets: _mean(_logits(x, net).exp() for net in nets),
     "Probabilities sum to one: each net's exponentials are divided by their sum over the V "
     "tokens."),
    ("divided by the sum over the batch as well",
     lambda x, nets: _mean(
         (e := _logits(x, net).exp()) / e.sum() for net in nets),
     "Each text has a softmax of its own: the sum runs over the last axis, with `keepdim=True`."),
    ("the exponentials of all nets added before they are divided",
     lambda x, nets: (lambda e: e / e.sum(-1, keepdim=True))(
         sum(_logits(x, net).exp() for net in nets)),
     "So a net with large logits has more to say. Each net goes to its own probabilities, which "
     "sum to one; then they are averaged."),
    ("divided by one net less than there are",
     lambda x, nets: sum(_probabilities(x, net) for net in nets) / max(1, len(nets) - 1),
     "The mean of the nets' probabilities: divide by `len(nets)`."),
    ("the signs of the logits turned",
     lambda x, nets: _mean((-_logits(x, net)).softmax(-1) for net in nets),
     "The larger the logit, the likelier the token: nothing is turned."),
    ("a softmax over the nets",
     lambda x, nets: torch.stack([_logits(x, net) for net in nets]).softmax(0).mean(0),
     "In the stack of all nets the tokens are the last axis: softmax(-1), then the mean over the "
     "nets."),
    ("the first two nets alone", lambda x, nets: ensemble(x, nets[:2]),
     "All nets take part, with the same weight."),
    ("the last net left out", lambda x, nets: ensemble(x, nets[:-1] or nets),
     "All nets take part: where does the loop end?"),
    ("the last net alone, divided by the number of nets",
     lambda x, nets: _probabilities(x, nets[-1]) / len(nets),
     "Does the loop overwrite the result of the net before? Add them up, and divide once."),
)  # fmt: skip

# 14.6 the seeds of two recipes, dealt anew


def dealt_share(a: Sequence[float], b: Sequence[float]) -> float:
    return _dealt()(a, b)


DEALT_CASES = [
    ([18.0, 19.0, 20.0], [16.0]),
    ([18.1, 19.5, 18.1], [15.0, 18.1]),
    # equal distances that rounding tells apart; in the second and third also from Python 3.12 on,
    # whose sums are compensated
    ([20.7, 20.4, 21.9], [20.7, 21.3]),
    ([37.96, 39.07, 39.7], [37.96, 39.51, 38.15]),
    ([39.52, 37.45, 37.63], [37.87, 40.65, 40.34, 38.48, 38.78]),
    ([24.0, 26.5, 25.2, 25.9], [24.4, 23.1, 24.9]),
    ([21.0, 22.0], [21.0, 22.0]),
    ([25.4, 24.8], [24.4, 25.4, 24.6, 24.7]),  # by spread another order than by means
    ([33.3], [31.0]),
    ([27.0], [29.0, 27.5, 26.8, 28.1]),
    ([20.0, 20.6], [23.0, 21.0, 20.2]),
]


def _apart(one: Sequence[float], two: Sequence[float]) -> float:
    return sum(one) / len(one) - sum(two) / len(two)  # rounded as readers' are


def _deals(a: Sequence[float], b: Sequence[float], first: int | None = None) -> list[tuple]:
    """All ways to deal the scores to two groups, the first of `first`, or as many as `a` has."""
    scores = [*a, *b]
    places = range(len(scores))
    return [
        ([scores[i] for i in places if i in some], [scores[i] for i in places if i not in some])
        for some in combinations(places, first or len(a))
    ]


def _dealt(
    far: Callable = lambda one, two: abs(_apart(one, two)),
    beyond: Callable = lambda x, found: x > found - 1e-9,
    deals: Callable = _deals,
    share: Callable = lambda count, n: count / n,
) -> Callable[..., float]:
    """The share, right by default; each argument makes one mistake."""

    def answer(a: Sequence[float], b: Sequence[float]) -> float:
        found, all_deals = far(a, b), deals(a, b)
        return share(sum(beyond(far(*deal), found) for deal in all_deals), len(all_deals))

    return answer


def _some_of_the_equal(
    cases: Sequence[tuple], got: Sequence[Any], want: Sequence[Any]
) -> tuple[str, str] | None:
    """Of equal distances some taken for smaller ones: which, depends on how they are computed."""
    if not all(isinstance(share, float) for share in got):
        return None
    tolerance = (
        "Two distances that are equal on paper may differ in their last digit. Count what is at "
        "least the found distance, less 1e-9."
    )
    for name, why, deals in (("", "", _deals), *ALIKE):
        beyond = [_dealt(beyond=_further, deals=deals)(*case) for case in cases]
        whole = [_dealt(deals=deals)(*case) for case in cases]
        if not all(less - 1e-9 <= g <= most + 1e-9
                   for less, g, most in zip(beyond, got, whole, strict=True)):  # fmt: skip
            continue
        if any(abs(g - most) < 1e-9 for g, most in zip(got, whole, strict=True)):
            return f"{name}not all deals counted that lie equally far apart", why + tolerance
    return None


def _further(x: float, found: float) -> bool:
    return x > found + 1e-9


def _swapped(a: Sequence[float], b: Sequence[float]) -> list[tuple]:
    """Each pair of seeds with the same number kept or exchanged."""
    n, deals = min(len(a), len(b)), []
    for way in product((0, 1), repeat=n):
        pairs = [(x, y)[:: -1 if turn else 1] for x, y, turn in zip(a, b, way, strict=False)]
        one, two = zip(*pairs, strict=True)
        deals.append(([*one, *a[n:]], [*two, *b[n:]]))
    return deals


def _no_doubles(a: Sequence[float], b: Sequence[float]) -> list[tuple]:
    scores = sorted({*a, *b})
    n = len(a)
    return _deals(scores[:n], scores[n:]) if len(scores) > n else [(a, b)]


def _drawn(a: Sequence[float], b: Sequence[float]) -> list[tuple]:
    """Drawn with replacement."""
    scores = [*a, *b]
    return [(way[: len(a)], way[len(a) :]) for way in product(scores, repeat=min(len(scores), 6))]


def _repeated(a: Sequence[float], b: Sequence[float]) -> list[tuple]:
    """All choices of places that may come twice."""
    scores = [*a, *b]
    places = range(len(scores))
    deals = [
        ([scores[i] for i in some], [scores[i] for i in places if i not in some])
        for some in combinations_with_replacement(places, len(a))
    ]
    return [deal for deal in deals if deal[1]]


def _by_score(a: Sequence[float], b: Sequence[float]) -> list[tuple]:
    """The others are those whose score has not been chosen."""
    scores = [*a, *b]
    chosen = combinations(scores, len(a))
    return [(some, [x for x in scores if x not in some] or [0.0]) for some in chosen]


def _different(a: Sequence[float], b: Sequence[float]) -> list[tuple]:
    """Each row of scores that may be chosen, once."""
    return list({one: (one, two) for one, two in map(_tupled, _deals(a, b))}.values())


def _tupled(deal: tuple) -> tuple:
    one, two = deal
    return tuple(one), tuple(two)


def _no_order(a: Sequence[float], b: Sequence[float]) -> list[tuple]:
    """Deals that have the same scores in each group, once."""
    return list(dict.fromkeys((tuple(sorted(x)), tuple(sorted(y))) for x, y in _deals(a, b)))


def _as_found(a: Sequence[float], b: Sequence[float]) -> float:
    return _dealt(_apart if _apart(a, b) > 0 else lambda x, y: _apart(y, x))(a, b)


def _whole_number_of_deals(share: float, a: Sequence[float], b: Sequence[float]) -> bool:
    count = share * math.comb(len(a) + len(b), len(a))
    return abs(count - round(count)) < 1e-6


def _hundred_deals(a: Sequence[float], b: Sequence[float]) -> float:
    draw, scores = random.Random(0), [*a, *b]
    dealt = [draw.sample(scores, len(scores)) for _ in range(100)]
    return _dealt(deals=lambda *_: [(one[: len(a)], one[len(a) :]) for one in dealt])(a, b)


DEALT_RULES = [
    Invariant(
        "the deal that was found counts",
        lambda share, a, b: share > 0,
        "It lies as far apart as it was found, so the share is above 0. Is it left out, lost to a "
        "rounding, or divided by `//`?",
    ),
    Invariant(
        "the share is a number of deals over the number of all, comb(n, len(a))",
        _whole_number_of_deals,
        "No number of deals gives this share. Are some left out, as with a set of those that look "
        "alike, or drawn, or counted more than once? Seeds with equal scores are different seeds.",
    ),
]
SEEDS = "Two seeds may have the same score and are still two: choose places, not scores. "
ALIKE = [  # deals that look alike taken for one: what begins their names, why, and what is left
    ("equal scores taken for one seed, and ", SEEDS, _no_order),
    ("equal choices of scores counted once, and ", SEEDS, _different),
]
DEALT_MISTAKES = mistakes(
    ("the found distance with its sign",
     lambda a, b: (lambda far: sum(x > _apart(a, b) - 1e-9 for x in far) / len(far))(
         [abs(_apart(*deal)) for deal in _deals(a, b)]),
     "In either direction: the found distance is without its sign, too, as `abs` gives it."),
    ("the share of the pairs in which the second group is ahead",
     lambda a, b: sum(x <= y for x in a for y in b) / len(a) / len(b),
     "Asked for is a share of the deals: all ways to choose which scores are called `a`."),
    ("distances with their sign, so in one direction alone, without the deal that was found",
     lambda a, b: _dealt(far=_apart, share=lambda count, n: (count - 1) / max(n - 1, 1))(a, b),
     "The distance counts, on either side, and the deal that was found belongs to those that are "
     "counted."),
    ("what is further apart, and the deal that was found",
     lambda a, b: _dealt(beyond=lambda x, found: x > found + 1e-9,
                         share=lambda count, n: (count + 1) / n)(a, b),
     "At least as far: other deals may lie just as far apart as the one that was found."),
    ("signs turned, seed by seed",
     lambda a, b: (lambda d: mean(
         abs(sum(map(mul, d, signs))) > abs(sum(d)) - 1e-9
         for signs in product((1, -1), repeat=len(d))
     ))([x - y for x, y in zip(a, b, strict=False)]),
     "That is for pairs. Here no seed belongs to another: go through all ways to choose which "
     "scores are called `a`."),
    ("divided by all subsets",
     lambda a, b: dealt_share(a, b) * math.comb(len(a) + len(b), len(a)) / 2 ** len([*a, *b]),
     "Only deals of `len(a)` scores count: there are `comb(len(a) + len(b), len(a))` of them."),
    ("only deals just as far apart", _dealt(beyond=lambda x, found: abs(x - found) < 1e-9),
     "At least as far: the larger distances count, too."),
    ("one direction twice",
     lambda a, b: min(1.0, 2 * _dealt(far=_apart)(a, b)),
     "With groups of two sizes, the two directions need not have the same share: count both."),
    ("distances with their sign, so in one direction alone",
     _dealt(lambda one, two: _apart(one, two)),
     "The distance counts, on either side: without a difference between the recipes the luck could "
     "as well have gone to the other one."),
    ("only deals in which the one that was ahead is ahead again", _as_found,
     "Nobody said beforehand which recipe should win. A deal with the same distance the other way "
     "round counts, too."),
    ("the direction that was found, twice",
     lambda a, b: min(1.0, 2 * _as_found(a, b)),
     "With groups of two sizes, the two directions need not have the same share: count both."),
    ("equal choices of scores counted once", _dealt(deals=_different),
     "Two seeds may have the same score and are still two: choose places, not scores."),
    ("only what is further apart", _dealt(beyond=lambda x, found: x > found + 1e-9),
     "At least as far: the deal that was found counts itself, and so do others with its distance."),
    ("compared without tolerance", _dealt(beyond=lambda x, found: x >= found),
     "Two distances that are equal on paper may differ in their last digit. Count what is at "
     "least the found distance, less 1e-9."),
    ("the deal that was found left out",
     _dealt(share=lambda count, n: (count - 1) / max(1, n - 1)),
     "It is one of the ways to deal, and belongs to those that are counted and to their number."),
    ("one added above and below", _dealt(share=lambda count, n: (count + 1) / (n + 1)),
     "That is done where deals are drawn at random. Here all of them are counted, the found one "
     "among them."),
    ("the count in place of the share", _dealt(share=lambda count, n: count),
     "Divide by the number of all deals."),
    ("the share of the deals that are nearer", _dealt(share=lambda count, n: 1 - count / n),
     "That is the share of the others. Small means: luck alone seldom gives so much."),
    *((f"the sum of the {which} group in place of its mean", _dealt(
           lambda one, two, i=i: abs((sum(one), fmean(one))[i] - (fmean(two), sum(two))[i])),
       "The distance asked for is that of the two means: each sum is divided by its own number.")
      for i, which in enumerate(("first", "second"))),
    ("sums in place of means", _dealt(lambda one, two: abs(sum(one) - sum(two))),
     "Where one recipe has more seeds than the other, its sum is larger by that alone. Take "
     "means."),
    ("medians in place of means", _dealt(lambda one, two: abs(median(one) - median(two))),
     "The distance asked for is that of the means."),
    ("the best of each", _dealt(lambda one, two: abs(max(one) - max(two))),
     "The best seed is the lucky one. The distance asked for is that of the means."),
    ("divided by the spread of the groups",
     _dealt(lambda one, two: abs(_apart(one, two)) / (pstdev(one) + pstdev(two) + 1e-9)),
     "That is nearly Student's t, another measure. Asked for is the distance of the means itself."),
    ("in per cent", _dealt(share=lambda count, n: 100 * count / n),
     "A share lies between 0 and 1."),
    ("only deals in which the second group is ahead by as much",
     _dealt(lambda one, two: _apart(two, one)),
     "The distance counts, on either side: without a difference between the recipes the luck could "
     "as well have gone to the other one."),
    ("halves", _dealt(deals=lambda a, b: _deals(a, b, (len(a) + len(b)) // 2)),
     "The first group has as many scores as `a`, not half of all."),
    ("groups of any size",
     _dealt(deals=lambda a, b: [
         deal for k in range(1, len(a) + len(b)) for deal in _deals(a, b, k)
     ]),
     "Each deal has groups of the sizes that were found."),
    ("equal scores taken for one seed", _dealt(deals=_no_order),
     "Two seeds may have the same score and are still two: choose places, not scores."),
    *((f"{name}the one direction alone", _dealt(_apart, deals=deals),
       f"{why}And the distance counts on either side.") for name, why, deals in ALIKE),
    *((f"{name}only what is further apart", _dealt(beyond=_further, deals=deals),
       f"{why}And the deal that was found counts itself, and so do others with its distance.")
      for name, why, deals in ALIKE),
    ("doubles thrown away before dealing", _dealt(deals=_no_doubles),
     "A set keeps each score once. Two seeds with one score are two."),
    ("pairs exchanged", _dealt(deals=_swapped),
     "That is for sentences, which both systems translate. The seeds of two recipes have nothing "
     "to do with each other, so each may go to either."),
    ("drawn with replacement", _dealt(deals=_drawn),
     "That is the bootstrap. Here every seed is dealt exactly once."),
    ("one deal in all there are",
     lambda a, b: 1 / math.comb(len(a) + len(b), len(a)),
     "That is the share of the found deal alone. Others may be as far apart: count them."),
    ("the distance itself", lambda a, b: abs(mean(a) - mean(b)),
     "This is what each deal is compared with. Return the share of deals that reach it."),
    ("only deals that are no further apart", _dealt(beyond=lambda x, found: x <= found + 1e-9),
     "At least as far apart as they were found: the larger distances count."),
    ("only deals in which the first group is ahead by the found distance",
     lambda a, b: (
         lambda deals: sum(_apart(*x) > abs(_apart(a, b)) - 1e-9 for x in deals) / len(deals)
     )(_deals(a, b)),
     "The distance counts on either side: the absolute value is missing for the deals."),
    ("the upper medians in place of means",
     _dealt(lambda one, two: abs(median_high(one) - median_high(two))),
     "The distance asked for is that of the means."),
    ("the deal that was found taken off the count alone",
     _dealt(share=lambda count, n: (count - 1) / n),
     "It is one of the ways to deal, and belongs to those that are counted."),
    ("divided by the number of orders",
     lambda a, b: dealt_share(a, b) * math.comb(len(a) + len(b), len(a))
     / math.factorial(len(a) + len(b)),
     "The order within a group does not matter: divide by the number of ways to choose the first "
     "group."),
    ("the share doubled", lambda a, b: min(1.0, 2 * dealt_share(a, b)),
     "Both directions are counted already, where distances are compared without their sign."),
    ("chosen with replacement", _dealt(deals=_repeated),
     "A seed is dealt once: choose `len(a)` different places of all."),
    ("the distance of the chosen from the mean of all", lambda a, b: mean([
         abs(mean(one) - mean([*a, *b])) >= abs(mean(a) - mean(b)) - 1e-9
         for one, _ in _deals(a, b)]),
     "In each deal the mean of the chosen is compared with that of the others, not with that of "
     "all."),
    ("only the first group ahead, and further", _dealt(_apart, lambda x, found: x > found + 1e-9),
     "Deals that are as far apart count, too, in either direction."),
    ("the others taken by their scores", _dealt(deals=_by_score),
     "Seeds with equal scores are different seeds: take the others by their places."),
    ("the largest less the smallest of the chosen", lambda a, b: mean([
         max(one) - min(one) >= abs(mean(a) - mean(b)) - 1e-9 for one, _ in _deals(a, b)]),
     "What is compared are the two means: of the chosen, and of the others."),
    ("a draw of a hundred deals", _hundred_deals,
     "There are few enough deals to go through all of them."),
    ("each deal compared with the second group as it was found",
     lambda a, b: _dealt(lambda one, two: abs(fmean(one) - fmean(b)))(a, b),
     "A deal changes both groups: those that are not called `a` are the others."),
    ("divided by one deal less than there are",
     _dealt(share=lambda count, n: count / max(1, n - 1)),
     "The deal that was found is counted, above and below."),
    ("half for the deals that are just as far apart",
     _dealt(beyond=lambda x, found: 0.5 * (x > found - 1e-9) + 0.5 * (x > found + 1e-9)),
     "At least as far: they count in full."),
    ("rounded to two places", lambda a, b: round(dealt_share(a, b), 2),
     "It is the right share. Do not round it."),
    ("distances within a half taken for equal",
     _dealt(beyond=lambda x, found: x > found - 0.5),
     "1e-9 forgives rounding alone."),
    ("one added above alone", _dealt(share=lambda count, n: (count + 1) / n),
     "The found deal is among those that are counted already."),
    ("one added below alone", _dealt(share=lambda count, n: count / (n + 1)),
     "The found deal is among all that there are already."),
    ("each distance counted once",
     lambda a, b: (lambda far: mean(x >= round(abs(_apart(a, b)), 9) for x in far))(
         {round(abs(_apart(*deal)), 9) for deal in _deals(a, b)}),
     "Several deals may lie equally far apart. Each of them counts."),
)  # fmt: skip


# 14.7 a BLEU with three mistakes

SENTENCES = [
    "The small dog runs over the green grass, and then it sleeps.",
    "A man rides a brown horse on the beach.",
    "Where is my father's car?",
    "Two women are talking to each other in the park today.",
    "In Rome the nights are warm, the wine is cold.",
]
TRANSLATIONS = [
    [
        "The small Dog runs over the green grass , and it sleeps.",
        "A man rides a horse on the beach.",
    ],
    ["A man rides a horse on the Beach!", "Where is my car, father?"],
    [
        "where is my father's car?",
        "Two women are talking to each other in the the park today.",
    ],
    ["Two women talk in a park.", "In Rome the nights are warm, the wine is cold."],
    [
        "In Rome the Nights are warm and the wine is cold, cold.",
        "the small dog runs over the grass",
    ],
    ["No.", "A man rides a brown horse."],
    [
        "The small dog runs over the grass, and it sleeps.",
        "A man rides a brown horse on a beach.",
        "Two women are talking in the park today.",
    ],
]
REFERENCES = [[0, 1], [1, 2], [2, 3], [3, 4], [4, 0], [2, 1], [0, 1, 3]]


def text_cases() -> list[tuple]:
    rows = zip(TRANSLATIONS, REFERENCES, strict=True)
    first = (["A man rides a horse."], ["A man rides a brown horse."])
    none = (["A man runs fast."], ["A man runs slowly."])  # no four words right
    single = (["he runs home."], ["Then he runs home."])  # four words, once
    short = (["Yes."], ["Yes."])  # never four words
    more = ((said, [SENTENCES[i] for i in true]) for said, true in rows)
    return [first, *more, none, single, short]


def _cut(sentence: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", sentence)


def _ngrams(words: list[str], n: int) -> Counter:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def _precision(match: Callable, size: Callable, n: int, said: list, true: list) -> float:
    said, true = _ngrams(said, n), _ngrams(true, n)
    return match(said, true) / max(1, size(said, true))


def _text_bleu(
    cut: Callable[[str], list[str]] = _cut,
    lower: bool = False,
    mean: str = "corpus",
    match: Callable = lambda said, true: sum((said & true).values()),
    size: Callable = lambda said, true: sum(said.values()),
    brief: Callable = lambda c, r: math.exp(min(0.0, 1 - r / c)),
    root: float = 0.25,
    factor: float = 100.0,
    orders: int = 4,
) -> Callable[..., float]:
    """BLEU of texts, right by default; each argument makes one mistake."""

    def of(pairs: list[tuple[list[str], list[str]]]) -> float:
        precisions = []
        for n in range(1, orders + 1):
            counts = [(_ngrams(h, n), _ngrams(r, n)) for h, r in pairs]
            total = sum(size(*pair) for pair in counts)
            precisions.append(sum(match(*pair) for pair in counts) / total if total else 0.0)
        c, r = (sum(len(pair[side]) for pair in pairs) for side in (0, 1))
        if mean == "arithmetic":
            return factor * brief(c, r) * sum(precisions) / orders
        return factor * brief(c, r) * math.prod(precisions) ** root

    def answer(hypotheses: list[str], references: list[str]) -> float:
        pairs = [
            tuple(cut(text.lower() if lower else text) for text in pair)
            for pair in zip(hypotheses, references, strict=True)
        ]
        if mean in ("corpus", "arithmetic"):
            return of(pairs)
        lengths = [tuple(map(len, pair)) for pair in pairs]
        whole = brief(*map(sum, zip(*lengths, strict=True)))
        if mean == "brevity":
            return of(pairs) / whole * sum(brief(*both) for both in lengths) / len(pairs)
        if mean == "precisions":
            alone = [
                [_precision(match, size, n, *pair) for pair in pairs] for n in range(1, orders + 1)
            ]
            return factor * whole * math.prod(sum(row) / len(pairs) for row in alone) ** root
        scores = [of([pair]) for pair in pairs]
        if mean == "above zero":
            scores = [score for score in scores if score] or [0.0]
        return sum(scores) / len(scores)

    return answer


def _plus_one(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    pairs = [(_cut(h), _cut(r)) for h, r in zip(hypotheses, references, strict=True)]
    product = 1.0
    for n in range(1, 5):
        grams = [(_ngrams(h, n), _ngrams(r, n)) for h, r in pairs]
        right, said = (
            sum(each)
            for each in zip(
                *((sum((h & r).values()), sum(h.values())) for h, r in grams), strict=True
            )
        )
        product *= (right + 1) / (said + 1)
    c, r = (sum(len(pair[side]) for pair in pairs) for side in (0, 1))
    return 100 * math.exp(min(0.0, 1 - r / c)) * product**0.25


def _lengths_by(cut: Callable[[str], Sequence[str]]) -> Callable[..., float]:
    """With other lengths in the penalty than those of the words."""

    def answer(hypotheses: Sequence[str], references: Sequence[str]) -> float:
        c, r = (sum(len(cut(text)) for text in texts) for texts in (hypotheses, references))
        penalty = math.exp(min(0.0, 1 - r / c))
        return _text_bleu(brief=lambda *lengths: penalty)(hypotheses, references)

    return answer


def _by_length(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    sizes = [len(_cut(r)) for r in references]
    scores = [text_bleu([h], [r]) for h, r in zip(hypotheses, references, strict=True)]
    return sum(map(mul, scores, sizes)) / sum(sizes)


text_bleu = _text_bleu()
TEXT_SLIPS = [
    ("lower-cased, or all in capitals", {"lower": True}, "Case counts."),
    ("cut at spaces", {"cut": str.split}, "A full stop is a word of its own."),
    ("the mean of the sentences' scores", {"mean": "sentences"},
     "BLEU belongs to a corpus: sum the counts of all sentences, and divide at the end."),
    ("no brevity penalty", {"brief": lambda c, r: 1.0}, "What is too short is punished."),
    ("the brevity penalty turned round",
     {"brief": lambda c, r: math.exp(min(0.0, 1 - c / r))},
     "c counts the words said, r those of the references."),
    ("a reward for what is long", {"brief": lambda c, r: math.exp(1 - r / c)},
     "The penalty is never above 1."),
    ("the brevity penalty as the plain ratio", {"brief": lambda c, r: min(1.0, c / r)},
     "The penalty is an exponential: exp(1 - r / c), where c is below r."),
    ("from 0 to 1", {"factor": 1.0}, "BLEU goes from 0 to 100 here."),
    ("no root", {"root": 1.0}, "Of the product of four precisions the fourth root is taken."),
]  # fmt: skip
TEXT_KNOWN = [
    ("lower-cased, or all in capitals", "cut at spaces"),
    ("lower-cased, or all in capitals", "the mean of the sentences' scores"),
    ("cut at spaces", "the mean of the sentences' scores"),
]
UNMENDED, PENALTIES = TEXT_SLIPS[:3], TEXT_SLIPS[3:7]


def _without_the_last(said: int | None, true: int | None) -> Callable[..., float]:
    """So many n-grams missing at the end of each hypothesis and reference; None for the groups
    that are too short at the end as well."""

    def grams(words: list[str], n: int, fewer: int | None) -> Counter:
        ends = len(words) if fewer is None else len(words) - n + 1 - fewer
        return Counter(tuple(words[i : i + n]) for i in range(ends))

    def answer(hypotheses: list[str], references: list[str]) -> float:
        pairs = [(_cut(h), _cut(r)) for h, r in zip(hypotheses, references, strict=True)]
        product = 1.0
        for n in (1, 2, 3, 4):
            some = [(grams(h, n, said), grams(r, n, true)) for h, r in pairs]
            product *= sum((h & r).total() for h, r in some) / max(
                1, sum(h.total() for h, _ in some)
            )
        c, r = (sum(len(pair[side]) for pair in pairs) for side in (0, 1))
        return 100 * min(1.0, math.exp(1 - r / c)) * product**0.25

    return answer


def _from_counts(score: Callable[[list, list, float], float]) -> Callable[..., float]:
    """A score of the matches, the n-grams and the penalty of the corpus."""

    def answer(hypotheses: list[str], references: list[str]) -> float:
        pairs = [(_cut(h), _cut(r)) for h, r in zip(hypotheses, references, strict=True)]
        grams = [[(_ngrams(h, n), _ngrams(r, n)) for h, r in pairs] for n in (1, 2, 3, 4)]
        right = [sum((h & r).total() for h, r in row) for row in grams]
        said = [sum(h.total() for h, _ in row) for row in grams]
        c, r = (sum(len(pair[side]) for pair in pairs) for side in (0, 1))
        return 100 * score(right, said, math.exp(min(0.0, 1 - r / c)))

    return answer


def _one_side_at_spaces(side: int) -> Callable[..., float]:
    def answer(hypotheses: list[str], references: list[str]) -> float:
        texts = [[" ".join(_cut(t)) for t in hypotheses], [" ".join(_cut(t)) for t in references]]
        texts[side] = (hypotheses, references)[side]
        return _text_bleu(str.split)(*texts)

    return answer


def _by_own_length(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    sizes = [len(_cut(h)) for h in hypotheses]
    scores = [text_bleu([h], [r]) for h, r in zip(hypotheses, references, strict=True)]
    return sum(map(mul, scores, sizes)) / sum(sizes)


def _merged(hypotheses: list[str], references: list[str]) -> float:
    product = 1.0
    for n in (1, 2, 3, 4):
        said, true = (
            sum((_ngrams(_cut(text), n) for text in texts), Counter())
            for texts in (hypotheses, references)
        )
        product *= (said & true).total() / max(1, said.total())
    c, r = (sum(len(_cut(text)) for text in texts) for texts in (hypotheses, references))
    return 100 * math.exp(min(0.0, 1 - r / c)) * product**0.25


def _smoothed(cases: Sequence[Case], got: Sequence, want: Sequence) -> tuple[str, str] | None:
    """Right wherever no precision is zero, and something above 0 where one is."""
    if not all(isinstance(score, int | float) for score in got):
        return None
    pairs = [*zip(got, want, strict=True)]
    if any(abs(g - w) > 1e-4 * w + 1e-6 for g, w in pairs if w):
        return None
    if not any(g > 1e-6 for g, w in pairs if not w):
        return None
    return "more than 0 where one of the precisions is zero", (
        "Nothing is smoothed here, and no precision is left out: if one of the four is zero, so is "
        "BLEU."
    )


TEXT_MISTAKES = mistakes(
    *combined(_text_bleu, TEXT_SLIPS, TEXT_KNOWN),
    *((", and ".join(name for name, _, _ in (*left, penalty)),
       _text_bleu(**{key: value for _, slip, _ in (*left, penalty) for key, value in slip.items()}),
       " ".join(why for _, _, why in (*left, penalty)))
      for penalty in PENALTIES for left in some(UNMENDED) if len(left) > 1),
    ("the lengths of the last sentence", lambda said, true: _text_bleu(
         brief=lambda c, r: math.exp(min(0.0, 1 - len(_cut(true[-1])) / len(_cut(said[-1])))))(
             said, true),
     "Lengths, too, are added up over the corpus: `+=`, not `=`."),
    ("lengths counted in letters", _lengths_by(lambda text: text),
     "c and r are numbers of words, those that `pieces` gives."),
    ("up to five words", _text_bleu(orders=5, root=0.2), "BLEU takes groups of up to four."),
    ("three orders under a fourth root", _text_bleu(orders=3),
     "The n-grams go from one to four words."),
    ("nothing mended", _text_bleu(str.split, True, "sentences"),
     "Look at what counts as a word, at what happens to capitals, and at when the division comes."),
    ("words cut at spaces, and the mean of the sentences",
     _text_bleu(str.split, mean="sentences"),
     "Capitals stay now. \"horse.\" is still one word, and each sentence still has its own score."),
    ("lower-cased, and the mean of the sentences", _text_bleu(lower=True, mean="sentences"),
     "The words are right. \"The\" and \"the\" are two, and the counts are summed before "
     "dividing."),
    ("lower-cased, and cut at spaces", _text_bleu(str.split, True),
     "It is one score of the corpus now. Case counts, and a full stop is a word of its own."),
    ("the mean of the sentences' scores", _text_bleu(mean="sentences"),
     "Words and case are right. BLEU belongs to a corpus: sum the counts of all sentences, and "
     "divide at the end."),
    ("lower-cased, or all in capitals", _text_bleu(lower=True),
     "Case counts. To drop it is another recipe, with another signature; scores are higher."),
    ("cut at spaces", _text_bleu(str.split),
     "Two are mended. At spaces alone a full stop sticks to its word: `pieces` takes them apart."),
    ("the sentences joined to one text",
     lambda hypotheses, references: text_bleu([" ".join(hypotheses)], [" ".join(references)]),
     "So n-grams reach over the end of a sentence, and a word may match in another sentence's "
     "reference. Count sentence by sentence, then add."),
    ("the precisions averaged over the sentences", _text_bleu(mean="precisions"),
     "Sum the matches and the n-grams of all sentences, then divide, once for each n."),
    ("a brevity penalty for each sentence", _text_bleu(mean="brevity"),
     "Lengths, too, are summed over the corpus first: a long translation makes up for a short "
     "one."),
    ("hypotheses and references exchanged",
     lambda hypotheses, references: text_bleu(references, hypotheses),
     "A precision is a share of what the hypotheses say, and they are the first argument."),
    ("the arithmetic mean of the precisions", _text_bleu(mean="arithmetic"),
     "The four precisions are multiplied, and of the product the fourth root is taken."),
    ("the hypotheses alone lower-cased",
     lambda hypotheses, references: text_bleu([h.lower() for h in hypotheses], references),
     "Case counts on both sides: nothing is lower-cased."),
    ("the references alone lower-cased",
     lambda hypotheses, references: text_bleu(hypotheses, [r.lower() for r in references]),
     "Case counts on both sides: nothing is lower-cased."),
    ("lengths counted at spaces", _lengths_by(str.split),
     "c and r are numbers of words, those that `pieces` gives."),
    ("the penalty squared", _text_bleu(brief=lambda c, r: math.exp(2 * min(0.0, 1 - r / c))),
     "The penalty is exp(1 - r / c), once."),
    ("c and r exchanged, and the sign turned, in the penalty",
     _text_bleu(brief=lambda c, r: math.exp(min(0.0, c / r - 1))),
     "The penalty is exp(1 - r / c), where c, the words said, is below r."),
    ("the sum of the sentences' scores",
     lambda hypotheses, references: sum(
         text_bleu([h], [r]) for h, r in zip(hypotheses, references, strict=True)),
     "The counts of all sentences are added up, and divided once."),
    ("the highest of the sentences' scores",
     lambda hypotheses, references: max(
         text_bleu([h], [r]) for h, r in zip(hypotheses, references, strict=True)),
     "The counts of all sentences are added up, and divided once."),
    ("at least one group counted for each sentence",
     _text_bleu(size=lambda said, true: max(1, said.total())),
     "A sentence of fewer than n words has no group of n, and adds nothing to their number."),
    ("the larger of the two counts", _text_bleu(match=lambda said, true: (said | true).total()),
     "`&` takes the smaller of the two counts: an n-gram counts at most as often as both have it."),
    ("the mean of the scores above zero", _text_bleu(mean="above zero"),
     "To leave the zeros out flatters, and it is still a mean of sentences."),
    ("not clipped",
     _text_bleu(match=lambda said, true: sum(k for gram, k in said.items() if gram in true)),
     "That was right before: an n-gram counts at most as often as the reference has it."),
    ("each match counted once", _text_bleu(match=lambda said, true: len(said & true)),
     "That was right before: the counts of both, and the smaller of the two."),
    ("divided by the n-grams of the references",
     _text_bleu(size=lambda said, true: sum(true.values())),
     "A precision is a share of what was said."),
    ("no brevity penalty", _text_bleu(brief=lambda c, r: 1.0),
     "That was right before: what is too short is punished by exp(1 - r / c)."),
    ("the brevity penalty turned round",
     _text_bleu(brief=lambda c, r: math.exp(min(0.0, 1 - c / r))),
     "c counts the words said, r those of the references."),
    ("max in place of min in the penalty",
     _text_bleu(brief=lambda c, r: math.exp(max(0.0, 1 - r / c))),
     "What is too short is punished, and what is long is not rewarded: the smaller of 1 and "
     "exp(1 - r / c)."),
    ("the sign turned in the penalty",
     _text_bleu(brief=lambda c, r: min(1.0, math.exp(r / c - 1))),
     "It is exp(1 - r / c): below 1 where c is below r."),
    ("the exponential forgotten in the penalty",
     _text_bleu(brief=lambda c, r: min(1.0, 1 - r / c)),
     "The penalty is exp(1 - r / c), where c is below r."),
    *((f"the last n-gram of each {which} forgotten", _without_the_last(*sides),
       "A sentence of k words has k - n + 1 groups of n: `range(len(words) - n + 1)`.")
      for which, sides in (("hypothesis, or of all sentences,", (1, 0)), ("reference", (0, 1)))),
    *((f"groups of fewer than n words at the end of each {which} counted",
       _without_the_last(*sides),
       "A sentence of k words has k - n + 1 groups of n: `range(len(words) - n + 1)`.")
      for which, sides in (("sentence", (None, None)), ("hypothesis", (None, 0)))),
    ("what is said twice looked up twice",
     _text_bleu(match=lambda said, true: sum(k * min(k, true[g]) for g, k in said.items())),
     "Each different group counts once, with the smaller of its two numbers: go through "
     "`set(said)`."),
    ("the 1 forgotten in the penalty", _text_bleu(brief=lambda c, r: math.exp(-r / c)),
     "The penalty is exp(1 - r / c), where c is below r: 1 where both are as long."),
    ("a reward for what is long", _text_bleu(brief=lambda c, r: math.exp(1 - r / c)),
     "The penalty is never above 1."),
    ("no root", _text_bleu(root=1.0), "The mean is geometric: the fourth root of the product."),
    ("up to three words", _text_bleu(orders=3, root=1 / 3), "BLEU takes groups of up to four."),
    ("from 0 to 1", _text_bleu(factor=1.0), "The score goes from 0 to 100."),
    ("signs thrown away", _text_bleu(lambda text: re.findall(r"\w+", text)),
     "A full stop and a comma are words of their own, and count."),
    ("single characters", _text_bleu(list), "The unit is the word, not the character."),
    ("the brevity penalty as the plain ratio", _text_bleu(brief=lambda c, r: min(1.0, c / r)),
     "The penalty is an exponential: exp(1 - r / c), where c is below r."),
    ("up to two words", _text_bleu(orders=2, root=0.5), "BLEU takes groups of up to four."),
    ("words alone", _text_bleu(orders=1, root=1.0), "BLEU takes groups of up to four."),
    ("one added to matches and to n-grams", _plus_one,
     "Nothing is smoothed here: if one of the precisions is zero, BLEU is 0."),
    ("the third root", _text_bleu(root=1 / 3), "Of four precisions the fourth root is taken."),
    ("the root of 2", _text_bleu(root=0.5), "Of four precisions the fourth root is taken."),
    ("each group of words once", _text_bleu(
         match=lambda said, true: len(said & true), size=lambda said, true: len(said)),
     "A group that is said twice counts twice. It matches as often as the reference has it."),
    ("the mean of the sentences' scores, weighed by their references", _by_length,
     "The counts of all sentences are added up, and divided once."),
    ("the median of the sentences' scores", lambda hypotheses, references: median(
         text_bleu([h], [r]) for h, r in zip(hypotheses, references, strict=True)),
     "The counts of all sentences are added up, and divided once."),
    ("the lowest of the sentences' scores", lambda hypotheses, references: min(
         text_bleu([h], [r]) for h, r in zip(hypotheses, references, strict=True)),
     "The counts of all sentences are added up, and divided once."),
    ("one added to matches and n-grams of more than one word", _from_counts(
         lambda right, said, brief: brief * math.prod(
             (x + (i > 0)) / (y + (i > 0))
             for i, (x, y) in enumerate(zip(right, said, strict=True))) ** 0.25),
     "Nothing is smoothed here: if one of the precisions is zero, BLEU is 0."),
    ("one precision for the n-grams of all lengths", _from_counts(
         lambda right, said, brief: brief * sum(right) / sum(said)),
     "Each n has a precision of its own. The four are multiplied, and the fourth root is taken."),
    ("the penalty under the root as well", _from_counts(
         lambda right, said, brief: (
             brief * math.prod(x / max(1, y) for x, y in zip(right, said, strict=True))) ** 0.25),
     "The root is that of the four precisions. The penalty stands before it."),
    ("the mean of the sentences' scores, weighed by their own words", _by_own_length,
     "The counts of all sentences are added up, and divided once."),
    ("the hypotheses alone cut at spaces", _one_side_at_spaces(0),
     "`pieces` cuts both: else \"horse.\" is never found."),
    ("the references alone cut at spaces", _one_side_at_spaces(1),
     "`pieces` cuts both: else \"horse\" is never found."),
    ("the n-grams of all sentences matched together", _merged,
     "A group of words may then match in another sentence's reference. Match sentence by sentence, "
     "then add."),
    ("signs at the end of a text thrown away",
     _text_bleu(lambda text: text.rstrip(".!?").split()),
     "`pieces` makes a word of each sign, and signs count."),
    ("ten in place of e in the penalty",
     _text_bleu(brief=lambda c, r: 10 ** min(0.0, 1 - r / c)),
     "The penalty is exp(1 - r / c), a power of e."),
)  # fmt: skip


# 14.2 a test for a BLEU


def _split(**changes: Any) -> Callable[..., float]:
    """A score of sentences that are cut at spaces."""
    return _text_bleu(**{"cut": str.split, **changes})


def _sacre(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    from sacrebleu.metrics import BLEU

    return BLEU(tokenize="none").corpus_score(list(hypotheses), [list(references)]).score


def _batches(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    return mean(
        _split()(hypotheses[i : i + 2], references[i : i + 2]) for i in range(0, len(hypotheses), 2)
    )


def _no_signs(text: str) -> list[str]:
    return [word for word in text.split() if re.search(r"\w", word)]


SCORES: dict[str, Callable[..., float]] = {
    "right, by sums": _split(),
    "right, sacreBLEU's": _sacre,
    "right, as whole numbers of a hundredth": lambda h, r: round(_split()(h, r), 2),
    "a mean of sentences": _split(mean="sentences"),
    "a mean of batches of two": _batches,
    "precisions averaged over sentences": _split(mean="precisions"),
    "a penalty for each sentence": _split(mean="brevity"),
    "all joined to one text": lambda h, r: _split()([" ".join(h)], [" ".join(r)]),
    "lower-cased": _split(lower=True),
    "without signs": _split(cut=_no_signs),
    "letters for words": _split(cut=list),
    "no penalty for what is short": _split(brief=lambda c, r: 1.0),
    "a reward for what is long": _split(brief=lambda c, r: math.exp(1 - r / c)),
    "not clipped": _split(
        match=lambda said, true: sum(k for gram, k in said.items() if gram in true)
    ),
    "each match once": _split(match=lambda said, true: len(said & true)),
    "divided by the reference": _split(size=lambda said, true: sum(true.values())),
    "the arithmetic mean": _split(mean="arithmetic"),
    "up to three words": _split(orders=3, root=1 / 3),
    "from 0 to 1": _split(factor=1.0),
    "rounded to whole points": lambda h, r: round(_split()(h, r)),
}


SCORES_WHY = {
    "a mean of sentences":
        "Each sentence has a score, and they are averaged. It shows with two sentences of unequal "
        "lengths, one better than the other, where BLEU is above 0.",
    "a mean of batches of two":
        "Sentences are scored in twos, and the scores averaged. It shows with three sentences, "
        "some better than others, where BLEU is above 0.",
    "precisions averaged over sentences":
        "Each precision is a mean over the sentences. It shows with two sentences of unequal "
        "lengths, one better than the other, where BLEU is above 0.",
    "a penalty for each sentence":
        "The brevity penalty is taken sentence by sentence. It shows where one is too short and "
        "another too long.",
    "all joined to one text":
        "Groups of words run over the ends of sentences. It shows with two sentences that have "
        "mistakes.",
    "lower-cased":
        "Case does not count. It shows where one word has a capital in one of the texts only.",
    "without signs": "Words without a letter do not count. It shows where a full stop is missing.",
    "letters for words": "It counts letters. Any mistake in a word shows it.",
    "no penalty for what is short":
        "What is too short is not punished. It shows with a translation that is shorter than its "
        "reference, and right as far as it goes.",
    "a reward for what is long":
        "The penalty rises above 1. It shows with translations that are longer than the "
        "references.",
    "not clipped":
        "A word counts as often as it is said. It shows where a word is said more often than in "
        "the reference.",
    "each match once":
        "A word counts once, however often it is said. It shows where a sentence has a word twice,"
        " rightly.",
    "divided by the reference":
        "Matches are divided by the reference's groups. It shows with translations that are too "
        "short or too long.",
    "the arithmetic mean":
        "The precisions are added up and divided by four. It shows where they differ: with any "
        "mistake.",
    "up to three words":
        "Groups of four do not count. It shows with a mistake in a sentence of some five words or "
        "more.",
    "from 0 to 1": "The score is 1 where it should be 100. A perfect translation shows it.",
    "rounded to whole points":
        "It has no hundredths. It shows with any mistake, where a hundredth of a point counts.",
}  # fmt: skip


def _no_four(hypotheses: Sequence[str], references: Sequence[str]) -> bool:
    """Whether a precision is zero, and with it BLEU."""
    return _split()(hypotheses, references) < 1e-9


BLEU_LACKS: dict[str, Lack] = {
    "sentences on which every BLEU is 0": each(_no_four),
    "a perfect translation alone": each(lambda hypotheses, references: hypotheses == references),
    "sentences on which BLEU is 0 or 100": each(
        lambda hypotheses, references: hypotheses == references or _no_four(hypotheses, references)
    ),
    "one sentence alone": each(lambda hypotheses, references: len(hypotheses) == 1),
}
hear = verdicts_on(SCORES, BLEU_LACKS)


def score_verdicts(answer: Callable[[Callable], object]) -> dict[str, object] | None:
    """What a test says of each score, and whether it hands the two texts over the wrong way."""
    said = hear(answer)
    right = list(SCORES)[:3]
    if said is not None and all(said.get(name) for name in right) and not all(said.values()):
        if too_wide(answer):
            return {"said": "a wide tolerance"}
    turned = says_yes(answer, lambda hypotheses, references: _split()(references, hypotheses))
    if said is not None and turned and {said.get(name) for name in right} == {False}:
        return {"said": "the texts exchanged"}
    if said is not None and False in {said.get(name) for name in right}:
        passed = (SCORES[name] for name in right if said.get(name))
        for one in passed:
            if not says_yes(answer, lambda h, r, one=one: one(h, r) + 1e-9):
                return {"said": "equal digits asked for"}
    return said


def too_wide(answer: Callable[[Callable], object]) -> bool:
    """Whether a test lets scores pass that are a tenth of a point too high, or too low, but none
    that are far off."""

    def aloud(score: Callable) -> object:
        return True if (heard := answer(score)) is None else heard

    def passes(points: float) -> bool:
        return says_yes(aloud, lambda h, r: _split()(h, r) + points)

    return passes(0.1) and passes(-0.1) and not passes(40) and not passes(-40)


TOLD = [
    "The cat and the cat sleep on the mat .",
    "it is late",
    "we go home now , he says , and we go home now",
]
BRIEF = ["the cat and the cat sleep on the mat .", "it is", "we go home now , he says"]
LONG = [
    "The the cat and the cat sleep on the the mat .",
    "it is late , late",
    "we go home now , he says , and we go home now !",
]


def is_bleu(score: Callable) -> bool:
    return _bleu_test(BRIEF, LONG)(score)


def _bleu_test(
    *translations: list[str], references: list[str] = TOLD, within: float = 0.01
) -> Callable[[Callable], bool]:
    """A test by the sentences it is made of."""

    def answer(score: Callable) -> bool:
        right = _split()
        return all(
            abs(score(list(h), references[: len(h)]) - right(h, references[: len(h)])) < within
            for h in translations
        )

    return answer


def _lowered(sentences: list[str]) -> list[str]:
    return [sentence.lower() for sentence in sentences]


PLAIN = ["a man rides a brown horse along the sea", "two children play", "it snows here today"]
PLAIN_SHORT = ["a man rides a horse along the sea", "two play", "it snows here"]
PLAIN_LONG = [
    "a man rides a brown horse along this sea shore",
    "two big children play it",
    PLAIN[2],
]

BLEU_TEST_MISTAKES = mistakes(
    ("everything passes", lambda score: True,
     "A test must be able to fail: compare a score with a number that you know."),
    ("nothing passes", lambda score: False,
     "The right ones must pass. They agree to a hundredth of a point. Do you compare with the "
     "BLEU of the same two lists, in the same order? `score` takes the hypotheses first."),
    ("hypotheses and references exchanged in the call",
     lambda score: all(abs(score(TOLD, h) - _split()(h, TOLD)) < 0.01 for h in (BRIEF, LONG)),
     "`score` takes the hypotheses first, and the references second. A BLEU of the two in each "
     "other's place is another number, and so no right one passes."),
    ("right and wrong exchanged", lambda score: not is_bleu(score),
     "True means that the score is right."),
    ("the one from 0 to 1 found, and no other", lambda score: 1 < score(BRIEF, TOLD) <= 100,
     "What is perfect gets 100 from nearly every score, and what is not, something below. Make "
     "mistakes in the translation, and compare with a number that you know."),
    ("a perfect translation alone", _bleu_test(TOLD),
     "Where the hypotheses are the references nearly every recipe gives 100. Make mistakes in the "
     "translation, and compare with a number that you know."),
    ("one sentence alone", _bleu_test(BRIEF[:1], LONG[:1]),
     "Whether a score belongs to the corpus or to its sentences shows with several, of unequal "
     "lengths."),
    ("two sentences alone", _bleu_test(BRIEF[:2], LONG[:2]),
     "A mean over batches of two looks right on two sentences. Take three or more."),
    ("never longer than the references", _bleu_test(BRIEF),
     "The penalty is never above 1. Whether it is shows where the translation is too long."),
    ("never shorter than the references", _bleu_test(LONG),
     "The penalty for what is short does not show where nothing is short."),
    ("small letters alone",
     _bleu_test(_lowered(BRIEF), _lowered(LONG), references=_lowered(TOLD)),
     "Whether case counts shows where a capital stands in one of the two texts only."),
    ("plain sentences", _bleu_test(PLAIN_SHORT, PLAIN_LONG, references=PLAIN),
     "No capital, no sign, no word twice: what a score does with these does not show."),
    ("plain sentences that are short", _bleu_test(PLAIN_SHORT, references=PLAIN),
     "No capital, no sign, no word twice, and nothing too long: what a score does with these does "
     "not show."),
    ("exactly equal", lambda score: all(
        score(h, TOLD) == _split()(h, TOLD) for h in (BRIEF, LONG)
     ),
     "Two right ones may differ in their last digit, or round to a hundredth: allow for that."),
    ("sentences on which every BLEU is 0",
     _bleu_test(["the cat", "it is"], references=["The cat and", "it is late"]),
     "On your sentences the score of `bleu` is 0: no group of four words is right in them, and so "
     "most of the wrong ones give 0, too. Take longer sentences, of which some groups of four are "
     "right."),
    ("sentences on which BLEU is 0 or 100",
     _bleu_test(TOLD, ["the cat", "it is", "we go"]),
     "What is perfect gets 100 from nearly every score, and what has no group of four words right "
     "0. Take something between: sentences with mistakes, and with some groups of four right."),
    ("only that it is no mean of sentences",
     lambda score: abs(
         score(BRIEF, TOLD) - mean(score([h], [r]) for h, r in zip(BRIEF, TOLD, strict=True))
     ) > 0.01,
     "That finds one of the wrong ones. Compare with a number that you know."),
    ("only that case counts", lambda score: score(_lowered(TOLD), TOLD) < 99,
     "That finds the one that lowers everything, or none at all. Compare with a number that you "
     "know."),
    ("a tolerance of more than a hundredth of a point", _bleu_test(BRIEF, LONG, within=1.0),
     "Your test lets a score pass that is a tenth of a point off. Right ones agree to a hundredth, "
     "and a wrong one may be off by little. Allow for a hundredth, and see what passes then."),
    ("within less than a hundredth", _bleu_test(BRIEF, LONG, within=1e-3),
     "A right score may be rounded to a hundredth of a point: allow for that much."),
    ("no group of four words right",
     _bleu_test(["The cat sat and the dog", "it is late", "we go there"]),
     "Where one of the precisions is zero, some give 0 and some smooth it, and the task leaves "
     "that open. Let at least one group of four words be right."),
    ("equal lengths", _bleu_test(
        ["The the and the cat sleep on mat mat .", "it was late", TOLD[2].replace("says", "said")]
     ),
     "With equal lengths there is no penalty, whatever its form. Let one translation be too short, "
     "and another too long."),
)  # fmt: skip


# 14.8 how many stars luck gives

stars = [35, 23, 14, 6]
STAR_MISTAKES = mistakes(
    ("as if the deviation were known", [6, 6, 6, 6],
     "Two deviations hold 95 % if one *knows* them. Here mean and deviation come from the same few "
     "seeds, and the fewer they are, the more often they are far too small by luck."),
    ("the number of seeds does not matter", [23, 23, 23, 23],
     "That is the share for three seeds, as the chapter has it. With two the deviation is hardly "
     "known at all, with thirty nearly exactly."),
    ("the more seeds, the more stars", [6, 14, 23, 35],
     "The other way: with more seeds mean and deviation are known better, and luck passes "
     "them more "
     "seldom."),
    ("few seeds, few stars", [0, 6, 14, 23],
     "With two seeds the deviation is often tiny by luck, and nearly everything lies beyond it."),
    ("like a coin", [50, 50, 50, 50],
     "The band is usually wide enough: a star is seldom given, but not as seldom as one thinks."),
    ("no star without a difference", [0, 0, 0, 0],
     "The row is another seed of the same model, and it differs by luck, now and then by much."),
    ("one step too high", [50, 35, 23, 14],
     "The order is right: the fewer seeds, the more stars. For three seeds the chapter has a "
     "number."),
    ("one step too low", [23, 14, 6, 0],
     "The order is right: the fewer seeds, the more stars. For three seeds the chapter has a "
     "number."),
    ("too many for two seeds, and for three", [50, 35, 14, 6],
     "The order is right. Two seeds are not as bad as a coin, and for three the chapter has a "
     "number."),
    ("one step too high but for thirty", [50, 35, 23, 6],
     "The order is right, and so is the last. For three seeds the chapter has a number."),
    ("one step too low but for thirty", [23, 14, 6, 6],
     "The order is right, and so is the last. With few seeds two things are uncertain, the "
     "deviation and the mean itself, and both give stars. For three seeds the chapter has a "
     "number."),
    ("the mean of few seeds held to be known", [35, 14, 14, 6],
     "Not only the deviation of few seeds is uncertain. So is their mean, and the row lies apart "
     "from it for both reasons. For three seeds the chapter has a number."),
    ("the deviation of few seeds held to be known", [14, 6, 6, 6],
     "Not only the mean of few seeds is uncertain. Their deviation is more so: from two seeds it "
     "is one single distance, often far too small by luck."),
    ("three as bad as two", [35, 35, 14, 6],
     "For three seeds the chapter has a number: so many of twenty."),
    ("the same for two and three, and for five and thirty", [23, 23, 14, 14],
     "Each further seed helps: two are much worse than three, and thirty much better than five."),
    ("the same number for all", [14, 14, 14, 14],
     "The number of seeds matters: with two the deviation is hardly known, with thirty nearly "
     "exactly."),
    ("falling too fast", [50, 23, 6, 0],
     "The order is right, and so is the number for three. It falls more slowly, and however many "
     "seeds the base has, one in twenty lies beyond."),
    ("with many seeds none", [35, 23, 14, 0],
     "However many seeds the base has, the row is a single one, and one in twenty lies "
     "further than "
     "two deviations from a mean that is known exactly."),
    ("too few for two seeds", [23, 23, 14, 6],
     "From two seeds the deviation is one single distance, which is often small by luck."),
    ("too many for two seeds", [50, 23, 14, 6],
     "That is a coin. Two seeds are bad, and not as bad as that."),
    ("too few for five seeds", [35, 23, 6, 6],
     "Five seeds are better than three, and still far from knowing the deviation."),
    ("too many for five seeds", [35, 23, 23, 6],
     "Five seeds tell more than three."),
    ("for thirty seeds as for five", [35, 23, 14, 14],
     "From thirty seeds the deviation is known within a seventh: nearly the five per cent of the "
     "books."),
    ("in parts of 1", [0.35, 0.23, 0.14, 0.06],
     "The numbers are right. They count stars in a hundred rows."),
    ("too few for two seeds and for three", [23, 14, 14, 6],
     "The order is right, and so are the last two. For three seeds the chapter has a number."),
    ("too few for three seeds and for five", [35, 14, 6, 6],
     "The first is right, and so is the last. For three seeds the chapter has a number, and five "
     "are still far from knowing the deviation."),
    ("too many for two seeds, too few for three", [50, 14, 14, 6],
     "For three seeds the chapter has a number. Two are not as bad as a coin."),
    ("too many for two seeds and for five", [50, 23, 23, 6],
     "Two seeds are not as bad as a coin, and five tell more than three."),
    ("too many for two seeds, too few for five", [50, 23, 6, 6],
     "The number for three is right. It falls more slowly from there to thirty, and two are not as "
     "bad as a coin."),
    ("too many for two seeds, none for thirty", [50, 23, 14, 0],
     "Two seeds are not as bad as a coin, and however many there are, one in twenty lies beyond."),
    ("too many for five seeds and for thirty", [35, 23, 23, 14],
     "The first two are right. Five seeds tell more than three, and thirty nearly all."),
    ("too few for five seeds, none for thirty", [35, 23, 6, 0],
     "The first two are right. It falls more slowly, and one in twenty lies beyond however many "
     "seeds there are."),
    ("too few for three seeds and for five, none for thirty", [35, 14, 6, 0],
     "For two seeds it is right. For three the chapter has a number, and however many there are, "
     "one in twenty lies beyond."),
    ("the rows without a star", [65, 77, 86, 94], "Asked for is how many get a star."),
)  # fmt: skip


def _near(output: Any) -> Any:
    """Five is meant as six."""
    return [6 if value == 5 else value for value in output]


SEEDS = "two", "three", "five", "thirty"


def _stars_said(cases: Sequence[Case], got: Sequence, want: Sequence) -> tuple[str, str] | None:
    """For which numbers of seeds there are too many stars, and for which too few."""
    said = got[0]
    if not isinstance(said, list | tuple) or len(said) != len(SEEDS):
        return None
    if other := [value for value in said if value not in (0, 6, 14, 23, 35, 50)]:
        return (
            f"{show(other[0])} is none of the six numbers",
            "Choose from 0, 6, 14, 23, 35 and 50.",
        )
    many, few = (
        [seeds for seeds, a, b in zip(SEEDS, said, want[0], strict=True) if sign * (a - b) > 0]
        for sign in (1, -1)
    )
    words = [f"too many for {' and '.join(many)} seeds"] * bool(many)
    words += [f"too few for {' and '.join(few)} seeds"] * bool(few)
    return ", ".join(words), (
        "The fewer the seeds, the worse mean and deviation are known, and the more stars luck "
        "gives; with thirty they are known nearly as well as in the books."
    )


# 14.9 by how much the winner is flattered


def flattered(sigma: float, rho: float) -> float:
    return sigma * math.sqrt((1 - rho) / math.pi)


FLATTERED_CASES = [(1.0, 0.0), (2.0, 0.75), (0.7, 0.4), (1.3, -0.5), (0.5, 1.0), (3.0, 0.19)]


def _drawn_near(cases: Sequence[Case], got: Sequence, want: Sequence) -> tuple[str, str] | None:
    """Near everywhere, and exact nowhere, as what a computer has drawn."""
    if not all(isinstance(share, float) and math.isfinite(share) for share in got):
        return None
    off = [abs(g - w) / case[0] for case, g, w in zip(cases, got, want, strict=True)]
    ratios = [g / w for g, w in zip(got, want, strict=True) if w > 1e-9]
    if max(ratios) - min(ratios) < 1e-3:
        return None
    if max(off) > 0.08 or any(x < 1e-6 for x, w in zip(off, want, strict=True) if w > 1e-9):
        return None
    return "near everywhere, and exact nowhere, as the mean of numbers that were drawn", (
        "Derive it on paper: the mean of |D| is known, for a D that is normal around 0."
    )


def _luck(
    sigma: Callable[[float], float] = lambda s: s,
    left: Callable[[float], float] = lambda rho: math.sqrt(1 - rho),
    rest: float = math.pi**-0.5,
) -> Callable[[float, float], float]:
    return lambda s, rho: sigma(s) * left(rho) * rest


LUCK_SLIPS = [
    ("sigma under the root as well", {"sigma": lambda s: s**0.5},
     "`sigma` is a deviation, and stands outside."),
    ("the variance in place of the deviation", {"sigma": lambda s: s**2},
     "`sigma` is a deviation, and so is the answer."),
    ("the deviation forgotten", {"sigma": lambda s: 1.0}, "It grows with `sigma`."),
    ("rho squared", {"left": lambda rho: math.sqrt(1 - rho**2)},
     "1 - rho^2 is left when one score is guessed from the other. Here they are subtracted: "
     "1 - rho."),
    ("1 + rho", {"left": lambda rho: math.sqrt(1 + rho)},
     "The variance of a difference is that of both less twice what they share: 1 - rho."),
    ("the shared part taken off once", {"left": lambda rho: math.sqrt(1 - rho / 2)},
     "The variance of A - B has twice the covariance taken off."),
    ("twice as much", {"rest": 2 * math.pi**-0.5},
     "The winner is above the mean of the two by half of their distance."),
    ("the root of 2 forgotten", {"rest": (2 * math.pi) ** -0.5},
     "Both scores vary: their difference has twice the variance."),
    ("pi forgotten", {"rest": 1.0},
     "The mean distance from 0 of a normal number is its deviation times the root of 2 / pi."),
]  # fmt: skip
FLATTERED_MISTAKES = mistakes(
    *combined(_luck, LUCK_SLIPS),
    ("half in place of the root", lambda s, rho: s * (1 - rho) / math.pi * 0.5,
     "Deviations are multiplied by roots: to the power of one half, `** 0.5`."),
    ("the number that the example prints, for all", lambda sigma, rho: 0.564,
     "That is the result for `sigma = 1` and `rho = 0`. It grows with `sigma`, and shrinks with "
     "`rho`."),
    ("1 - rho, without roots and without pi", lambda s, rho: s * (1 - rho),
     "Deviations are multiplied by the root of 1 - rho; and the mean distance from 0 of a normal "
     "number is its deviation times the root of 2 / pi."),
    ("rho in place of 1 - rho, and nothing where it is below 0",
     lambda s, rho: s * math.sqrt(max(rho, 0.0) / math.pi),
     "What the two share tells no winner from a loser: the more, the less is left to luck."),
    ("as if they were independent", lambda s, rho: s / math.sqrt(math.pi),
     "The two scores are of the same sentences: what both gain or lose together tells no winner "
     "from a loser."),
    ("1 + rho", lambda s, rho: s * math.sqrt((1 + rho) / math.pi),
     "The variance of a difference is that of both less twice what they share: 2 s^2 (1 - rho)."),
    ("twice as much", lambda s, rho: 2 * s * math.sqrt((1 - rho) / math.pi),
     "That is how far the winner is above the loser. He is above the mean of the two by half "
     "of it."),
    ("the root of 2 forgotten", lambda s, rho: s * math.sqrt((1 - rho) / (2 * math.pi)),
     "Both scores vary: their difference has the variance 2 s^2 (1 - rho)."),
    ("multiplied by the root of 2", lambda s, rho: s * math.sqrt(2 * (1 - rho) / math.pi),
     "The difference D has the variance 2 s^2 (1 - rho), the mean of |D| is its deviation times "
     "the root of 2 / pi, and the winner has half of that. Is the half missing, or both the half "
     "and the 2 of the variance?"),
    ("the deviation of the difference", lambda s, rho: s * math.sqrt(2 * (1 - rho)),
     "That is how far the two typically lie apart. Asked for is the mean of the larger one."),
    ("half the deviation of the difference", lambda s, rho: s * math.sqrt(2 * (1 - rho)) / 2,
     "The mean of |D| is smaller than the deviation of D, by the root of 2 / pi."),
    ("the mean of |D| taken for one score", lambda s, rho: s * math.sqrt(2 / math.pi),
     "It is the difference whose absolute value counts, and half of it."),
    ("1 - rho without its root", lambda s, rho: s * (1 - rho) / math.sqrt(math.pi),
     "Variances are multiplied by 1 - rho, deviations by its root."),
    ("the variance in place of the deviation", lambda s, rho: s**2 * math.sqrt((1 - rho) / math.pi),
     "`sigma` is a standard deviation, in points of BLEU, and so is the answer."),
    ("the shared part taken off once", lambda s, rho: s * math.sqrt((1 - rho / 2) / math.pi),
     "The variance of A - B is that of A, plus that of B, less *twice* their covariance."),
    ("the shared part taken off twice over",
     lambda s, rho: s * math.sqrt(max(0.0, 1 - 2 * rho) / math.pi),
     "2 s^2 - 2 rho s^2 is 2 s^2 (1 - rho), not 2 s^2 (1 - 2 rho)."),
    ("divided by pi", lambda s, rho: s * math.sqrt(1 - rho) / math.pi,
     "It is the root of pi."),
    ("the root of 1 - rho squared", lambda s, rho: s * math.sqrt((1 - rho**2) / math.pi),
     "That is what is left when one score is guessed from the other. Here they are subtracted."),
    ("half of it", lambda s, rho: s * math.sqrt((1 - rho) / math.pi) / 2,
     "The larger of two is their mean plus half of |D|: the half is taken once. And the mean of "
     "|D| is the deviation of D times the root of 2 / pi."),
    ("the variance of the difference in place of its deviation",
     lambda s, rho: s * s * (1 - rho) * math.sqrt(2 / math.pi),
     "The mean of |D| goes with the deviation of D: take the root of 2 s^2 (1 - rho)."),
    ("nothing", lambda s, rho: 0.0,
     "Each score is right on average. The larger of two is not: the maximum picks the lucky one."),
    ("the whole deviation", lambda s, rho: s, "Luck is picked out of two only, and partly shared."),
    ("the sign turned", lambda s, rho: -s * math.sqrt((1 - rho) / math.pi),
     "The better of the two lies above the mean."),
    ("the deviation forgotten", lambda s, rho: math.sqrt((1 - rho) / math.pi),
     "Scores that vary twice as much flatter the winner twice as much."),
    ("pi forgotten", lambda s, rho: s * math.sqrt(1 - rho),
     "The mean distance from 0 of a normal number is its deviation times the root of 2 / pi."),
    ("pi without its root", lambda s, rho: s * (1 - rho) / math.pi,
     "Both 1 - rho and pi stand under a root."),
    ("the example's number for all", lambda s, rho: 0.564 * s * (1 - rho),
     "The example has rho = 0. How does the deviation of a difference go with rho? By a root."),
    ("the sign of rho lost", lambda s, rho: s * math.sqrt((1 - abs(rho)) / math.pi),
     "With a negative correlation the two differ more, and the winner gains more."),
    ("the variance and no root", lambda s, rho: s * s * (1 - rho) / math.sqrt(math.pi),
     "It goes with the deviation, and with the root of 1 - rho."),
    ("rounded to the example's digits", lambda s, rho: 0.564 * s * math.sqrt(1 - rho),
     "The form is right. 0.564 is rounded: put the number itself, with pi, in its place."),
    ("the variance of the difference", lambda s, rho: 2 * s**2 * (1 - rho),
     "The mean of the larger one is asked for: half of the mean of |D|, for D of this variance."),
    ("the variance of the difference, without the square of sigma",
     lambda s, rho: 2 * s * (1 - rho),
     "The mean of the larger one is asked for: half of the mean of |D|, for D of the variance "
     "2 s^2 (1 - rho)."),
    ("the deviation of the better score",
     lambda s, rho: s * math.sqrt(1 - (1 - rho) / math.pi),
     "Asked for is by how much it lies above the mean, not how much it varies."),
    ("1 less the root of rho", lambda s, rho: s * math.sqrt((1 - abs(rho) ** 0.5) / math.pi),
     "rho stands in the variance of the difference as it is: 2 s^2 (1 - rho)."),
    ("sigma under the root as well", lambda s, rho: math.sqrt(s * (1 - rho) / math.pi),
     "The variance is sigma squared, and its root sigma itself."),
    ("rho in place of 1 - rho", lambda s, rho: s * math.sqrt(abs(rho) / math.pi),
     "What is shared cancels in the difference: its variance is 2 sigma^2 (1 - rho)."),
    ("2 over pi without its root",
     lambda s, rho: s * math.sqrt(2 * (1 - rho)) / math.pi,
     "The mean of |D| is the deviation of D times the *root* of 2 / pi."),
    ("the root of pi over 2, turned round",
     lambda s, rho: s * math.sqrt(2 * (1 - rho)) * math.sqrt(math.pi / 2) / 2,
     "The mean of |D| is the deviation of D times the root of 2 / pi, which is below 1."),
    ("the deviation of one score added",
     lambda s, rho: s + s * math.sqrt((1 - rho) / math.pi),
     "Asked for is by how much the better score lies above the mean, and no more."),
    ("rho taken off the variance", lambda s, rho: math.sqrt(max(0.0, s * s - rho) / math.pi),
     "A correlation is a share of the variance: what both have in common is rho sigma^2."),
)  # fmt: skip


# 14.10 two judges that disagree


def disagree(references: list[list[str]]) -> tuple[list, list]:
    return _disagree()(references)


def _listed(given: Any, wanted: str) -> list:
    """The items of what may be any row. Raises ValueError for what is none."""
    if isinstance(given, str | dict | set) or not isinstance(given, Iterable):
        raise ValueError(f"expected {wanted}, got {kind(given)}: {show(given)}")
    return list(given)


class Judged(dict):
    """What two judges say of two systems, where it is not what was asked for."""

    a_all_through, b_in_the_longest = True, False  # right all of it, and above 0 there


def _judged(answer: Callable, references: list[list[str]]) -> dict[str, str] | None:
    """What the corpus's score and the mean of the sentences' say of two systems."""
    given = answer(copy.deepcopy(references))
    if given is None:
        return None
    both = _listed(given, "two systems, (a, b)")
    if len(both) != 2:
        raise ValueError(f"expected two systems, (a, b), got {len(both)}")
    systems = [_listed(system, "systems that are lists of sentences") for system in both]
    a, b = (
        [[*map(str, _listed(words, "sentences that are lists of words"))] for words in system]
        for system in systems
    )
    if not len(a) == len(b) == len(references):
        raise ValueError(f"expected {len(references)} sentences of each, got {len(a)}, {len(b)}")
    score = _text_bleu(cut=lambda words: words)
    alone = _text_bleu(cut=lambda words: words, mean="sentences")
    kept = [_Words(words) for words in references]
    a, b = ([_Words(words or ["-"]) for words in system] for system in (a, b))
    said = {
        "BLEU prefers": _prefers(score(a, kept) - score(b, kept)),
        "the mean prefers": _prefers(alone(a, kept) - alone(b, kept)),
    }
    if [*said.values()] == ["a", "b"]:
        return said
    at = max(range(len(kept)), key=lambda i: len(kept[i]))
    most, other = (score([system[at]], [kept[at]]) for system in (a, b))
    found = Judged({  # why it is so
        **said,
        "BLEU of a is 0": str(score(a, kept) < 1e-6),
        "the mean of b is 0": str(alone(b, kept) < 1e-6),
        "in the longest": "a" if most > other + 1e-6 else "b" if other > most + 1e-6 else "neither",
    })  # fmt: skip
    found.a_all_through, found.b_in_the_longest = most > 100 - 1e-6, other > 1e-6
    return found


def disagree_cases() -> list[tuple]:
    """One sentence is longer than all others together."""
    return [
        ([[f"{letter}{i}" for i in range(n)] for letter, n in zip("bcaed", lengths, strict=False)],)
        for lengths in ((20, 5, 6), (4, 30, 7, 5, 6), (5, 4, 12))
    ]


def _prefers(lead: float) -> str:
    """Which system a judge prefers, if `a` is so far ahead."""
    if abs(lead) < 1e-6:
        return "neither"
    return ("a" if lead > 0 else "b") + (" by less than 10" if abs(lead) < 9.999 else "")


class _Words(list):
    """Words where a text is expected."""


def _disagree(
    turned: bool = False,
    other: str = "the others",
    whole: bool = False,
    longest: int | None = None,
    times: int = 1,
    alphabet: bool = False,
    kept: int | None = None,
) -> Callable[..., tuple[list, list]]:
    def answer(references: list[list[str]]) -> tuple[list, list]:
        place = max(range(len(references)), key=lambda i: len(references[i]))
        if longest is not None:
            place = longest % len(references)
        if alphabet:
            place = references.index(max(references))
        broken = [["no"] * len(words) for words in references]
        a = [list(w) if i == place else n for i, (w, n) in
             enumerate(zip(references, broken, strict=True))]  # fmt: skip
        b = [times * n if i == place else list(w) for i, (w, n) in
             enumerate(zip(references, broken, strict=True))]  # fmt: skip
        if whole:
            a = [list(w) for w in references]
        if kept is not None:
            a[place] = a[place][:kept] + broken[place][kept:]
        if other == "the same":
            b = a
        if other == "everything":
            b = [list(w) for w in references]
        return (b, a) if turned else (a, b)

    return answer


def _which_judge(cases: Sequence[Case], got: Sequence, want: Sequence) -> tuple[str, str] | None:
    """Which of the two judges does not say what it should, and what it says instead."""
    judges = {"BLEU prefers": "BLEU of the corpus", "the mean prefers": "the mean"}
    if not all(isinstance(each, dict) for each in got):
        return None
    names, more = [], []
    for key, judge in judges.items():
        said = [g[key] for g, w in zip(got, want, strict=True) if g[key] != w[key]]
        if said:
            names.append(f"{judge} does not put {want[0][key]} ahead by 10 points")
            some = ", or ".join(dict.fromkeys(said))
            more.append(f"{judge[0].upper()}{judge[1:]} prefers {some}.")
    bad = [g for g, w in zip(got, want, strict=True) if g != w]
    some = f" (in {len(bad)} of {len(got)} cases)" * (len(bad) < len(got))
    if all(g.get("BLEU of a is 0") == "True" for g in bad):
        names.append(f"`a` has a BLEU of 0{some}")
        more.append(ZERO_A)
    elif all(g["in the longest"] == "a" and "BLEU prefers" in g and g["BLEU prefers"] != "a"
             for g in bad):  # fmt: skip
        if all(getattr(g, "b_in_the_longest", False) for g in bad):
            names.append(f"`b` is right in a part of the longest sentence{some}")
        elif not any(getattr(g, "a_all_through", True) for g in bad):
            names.append(f"`a` is not right all through in the longest sentence{some}")
        more.append(
            "In the longest sentence `a` is ahead, and not by enough: there it is to be right, and "
            "`b` wrong, all through."
        )
    if all(g.get("the mean of b is 0") == "True" for g in bad):
        names.append(f"the mean of `b` is 0{some}")
        more.append("In no sentence of `b` are four words in a row right. (Is each item a word?)")
    more.append(
        "`a` has to be right where the corpus has most of its words, and `b` in most of the "
        "sentences, and each wrong where the other is right."
    )
    return ", and ".join(names), " ".join(more)


ZERO_A = (
    "No group of four words is right in `a`, and one precision of zero makes BLEU zero, however "
    "many words are right. Let it be right all through in the longest sentence."
)
ALPHABET = (
    "Which sentence is longer than all the others together differs from corpus to corpus: look "
    "for it. (`max` of lists goes by their words, and not by their lengths: `key=len`.)"
)
DISAGREE_MISTAKES = mistakes(
    ("`a` has a BLEU of 0", _disagree(kept=3), ZERO_A),
    ("another sentence than the longest chosen, by the alphabet", _disagree(alphabet=True),
     ALPHABET),
    ("the last by the alphabet taken for the longest", _disagree(alphabet=True, times=20),
     ALPHABET),
    ("the two exchanged", _disagree(turned=True),
     "It is `a` that BLEU prefers, and `b` that the mean prefers."),
    ("two equal systems", _disagree(other="the same"),
     "No judge can tell them apart. Each must get some sentences right that the other gets wrong: "
     "where does a mistake cost BLEU most, and where the mean?"),
    ("a is better in everything", _disagree(whole=True),
     "BLEU and the mean both prefer `a` now. In most of the sentences it must fail, and be right "
     "where the corpus has most of its words; `b` the other way round."),
    ("another sentence than the longest chosen, as if it were the first", _disagree(longest=0),
     "Which sentence is longer than all the others together differs from corpus to corpus: look "
     "for it."),
    ("another sentence than the longest chosen, as if it were the last", _disagree(longest=-1),
     "Which sentence is longer than all the others together differs from corpus to corpus: look "
     "for it."),
    *((f"the {which} sentence taken for the longest", _disagree(longest=place, times=20),
       "Which sentence is longer than all the others together differs from corpus to corpus: look "
       "for it.")
      for which, place in (("first", 0), ("last", -1))),
    ("b is better in everything", _disagree(other="everything"),
     "Both judges prefer `b` now. It must fail, and all through, where the corpus has most of "
     "its words."),
)  # fmt: skip


EXERCISES = [
    Exercise(
        number="14.1",
        title="which number may be reported",
        section="How not to choose",
        reference=reported,
        cases=REPORT_CASES,
        mistakes=REPORT_MISTAKES,
    ),
    Exercise(
        number="14.2",
        title="a test for a BLEU",
        section="From sums to a score",
        reference=is_bleu,
        cases=[()],
        mistakes=BLEU_TEST_MISTAKES,
        probe=score_verdicts,
        invariants=rules(
            list(SCORES)[:3],
            SCORES_WHY,
            "It gives what the task asks for, up to a hundredth of a point. Does your test ask for "
            "more? Where a precision is zero, right ones may differ.",
        ),
    ),
    Exercise(
        number="14.3",
        title="a paired bootstrap",
        section="How sure is a difference?",
        reference=paired,
        cases=paired_cases,
        mistakes=PAIRED_MISTAKES,
        invariants=[
            Invariant(
                "one difference for each draw",
                lambda output, a, b, draws: tuple(torch.as_tensor(output).shape) == (len(draws),),
                "`draws` has a row for each resampled test set, and each gives one difference.",
            )
        ],
    ),
    Exercise(
        number="14.4",
        title="the operations of a training",
        section="What it cost",
        reference=training_flops,
        cases=[
            (1, 2, 4, 10, 0, 1),
            (2, 8, 20, 50, 7, 11),
            (3, 16, 24, 90, 40, 13),
            (6, 512, 2048, 37_000, 900, 1100),
        ],
        mistakes=FLOPS_MISTAKES,
        invariants=Family(_one_part),
        rtol=1e-6,
    ),
    Exercise(
        number="14.5",
        title="an ensemble",
        section="The curves",
        reference=ensemble,
        cases=ensemble_cases,
        mistakes=ENSEMBLE_MISTAKES,
        invariants=[
            Invariant(
                "rows sum to one",
                lambda output, x, nets: bool(
                    torch.allclose(
                        torch.as_tensor(output).double().sum(-1),
                        torch.ones(len(x)).double(),
                        atol=1e-4,
                    )
                ),
                "A mean of probabilities is again a probability.",
            )
        ],
    ),
    Exercise(
        number="14.6",
        title="seeds dealt anew",
        section="What each part is worth",
        reference=dealt_share,
        cases=DEALT_CASES,
        mistakes=DEALT_MISTAKES,
        invariants=Family(_some_of_the_equal, DEALT_RULES),
        canonical=float,
    ),
    Exercise(
        number="14.7",
        title="find the mistakes in a BLEU",
        section="From sums to a score",
        reference=text_bleu,
        cases=text_cases,
        mistakes=TEXT_MISTAKES,
        invariants=Family(_smoothed),
        canonical=float,
    ),
    Exercise(
        number="14.8",
        title="predict, then try: stars by luck",
        section="What each part is worth",
        reference=stars,
        mistakes=STAR_MISTAKES,
        invariants=Family(_stars_said),
        canonical=_near,
    ),
    Exercise(
        number="14.9",
        title="the luck of the winner",
        section="How not to choose",
        reference=flattered,
        cases=FLATTERED_CASES,
        mistakes=FLATTERED_MISTAKES,
        invariants=Family(_drawn_near),
        canonical=float,
    ),
    Exercise(
        number="14.10",
        title="two judges that disagree",
        section="From sums to a score",
        reference=disagree,
        cases=disagree_cases,
        mistakes=DISAGREE_MISTAKES,
        probe=_judged,
        invariants=Family(_which_judge),
    ),
]
