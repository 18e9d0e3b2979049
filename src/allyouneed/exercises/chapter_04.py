"""The exercises of chapter 4, self-attention with nothing to learn: cases and known mistakes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from .compare import kind
from .core import Case, Exercise, Family, Invariant, Mistake, mistakes
from .pairs import by_place, combined, near, pairs
from .predictions import items
from .suspects import Lack, Spoilt, each, rules, verdicts_on

# 4.1 one look by hand: "very" in "very cute dog", three weights and the new vector

VERY_CUTE_DOG = [[0.0, 1.0, 0.0, 1.0], [0.0, 2.0, 0.0, 0.0], [2.0, 1.0, 0.0, 0.0]]


def look_by_hand(weights: list[float]) -> list[float]:
    """The weights, and the average of the three vectors with them."""
    columns = zip(*VERY_CUTE_DOG, strict=True)
    return [*weights, *(sum(w * v for w, v in zip(weights, c, strict=True)) for c in columns)]


def shares(*scores: float) -> list[float]:
    parts = [math.exp(score) for score in scores]
    return [part / sum(parts) for part in parts]


VERY = shares(2.0, 2.0, 1.0)
HAND_MISTAKES = mistakes(
    ("scores as weights, without the softmax", look_by_hand([2.0, 2.0, 1.0]),
     "These are the dot products. Their softmax is missing: weights must sum to one."),
    ("scores divided by their sum, or powers of 2 in place of e", look_by_hand([0.4, 0.4, 0.2]),
     "2 : 2 : 1 are the scores, and 4 : 4 : 2 their powers of 2. The softmax takes the powers of e "
     "first, then divides by their sum."),
    ("the new vector with exponentials that were not divided",
     [*VERY, *look_by_hand([math.exp(2), math.exp(2), math.exp(1)])[3:]],
     "The weights are right. Take them, not the exponentials, times the three vectors."),
    ("exponentials that were not divided by their sum",
     look_by_hand([math.exp(2), math.exp(2), math.exp(1)]),
     "These are the exponentials of the scores. Divide each by the sum of all three."),
    ("the softmax over the wrong axis",
     look_by_hand([VERY[0], shares(2.0, 4.0, 2.0)[0], shares(1.0, 2.0, 5.0)[0]]),
     "These are the weights with which the three words look at very: a column of the table. Asked "
     "for is its row, how very looks at the three words. The row sums to one."),
    ("the same weight for every word", look_by_hand([1 / 3, 1 / 3, 1 / 3]),
     "The scores are not all the same: dog shares less with very than very and cute do."),
    ("only the most similar words looked at", look_by_hand([0.5, 0.5, 0.0]),
     "The softmax gives every word a share, the less similar ones, too."),
    ("the word itself left out", look_by_hand([0.0, *shares(2.0, 1.0)]),
     "In self-attention a word looks at all words of its sentence, itself included."),
    ("the row of cute", look_by_hand(shares(2.0, 4.0, 2.0)),
     "The word that looks around is very: all three scores are dot products with its vector."),
    ("the row of dog", look_by_hand(shares(1.0, 2.0, 5.0)),
     "The word that looks around is very: all three scores are dot products with its vector."),
    ("the nine words of the running sentence",
     [0.2109, 0.2109, 0.0776, 0.2407, 0.7103, 0.1631, 0.8655],
     "This is very in the long sentence. Here the sentence has three words, and three shares."),
    ("the cosine in place of the dot product",
     look_by_hand(shares(1.0, math.sqrt(0.5), math.sqrt(0.1))),
     "The scores were divided by the lengths of the vectors. The dot product is not."),
    ("the distance in place of the dot product", look_by_hand(shares(0.0, -2.0, -5.0)),
     "These scores are equation (4.3). Words look around with dot products, equation (4.1)."),
    ("scores divided by the root of the width", look_by_hand(shares(1.0, 1.0, 0.5)),
     "The division by a root comes in Chapter 6. Here the scores are plain dot products."),
    ("the own score under a root", look_by_hand(shares(math.sqrt(2), 2.0, 1.0)),
     "very with itself is the square of its length, 0 + 1 + 0 + 1 = 2, without a root."),
    ("only two digits", [round(number, 2) for number in look_by_hand(VERY)],
     "The way is right. Give three digits after the point."),
    ("the old vector added",
     [*VERY, *(a + b for a, b in zip(look_by_hand(VERY)[3:], VERY_CUTE_DOG[0], strict=True))],
     "The new vector is the average alone, equation (4.5). It takes the place of the old one."),
    ("the vectors summed without their weights", [*VERY, 2.0, 4.0, 0.0, 1.0],
     "The weights are right. The new vector is the sum of the three, each times its weight."),
    ("the new vector before the weights", [*look_by_hand(VERY)[3:], *VERY],
     "All seven numbers are right. The task asks for the three weights first."),
    ("the weights in percent", [*(100 * w for w in VERY), *look_by_hand(VERY)[3:]],
     "Weights are shares of one, not of a hundred: they sum to one."),
    ("the new vector left out", VERY,
     "The weights are right. The four entries of the new vector come behind them."),
    ("the weights left out", look_by_hand(VERY)[3:],
     "The new vector is right. Its three weights come before it."),
    ("the new vector as a plain mean", [*VERY, *look_by_hand([1 / 3] * 3)[3:]],
     "The weights are right. The new vector is the sum of the three, each times its weight."),
    ("dog first", [*VERY[::-1], *look_by_hand(VERY)[3:]],
     "The order is that of the sentence: the weights on very, on cute, on dog."),
    ("quality before being", [*VERY, *(look_by_hand(VERY)[i] for i in (4, 3, 5, 6))],
     "The entries are being, quality, reference, link. Only dog has something in the first."),
    ("scores of 1, 2 and 1", look_by_hand(shares(1.0, 2.0, 1.0)),
     "The dot product of very with itself is 0 + 1 + 0 + 1: the link counts, too."),
    ("scores of 2, 2 and 0", look_by_hand(shares(2.0, 2.0, 0.0)),
     "Very and dog share one thing: the second entry, 1 times 1."),
    ("scores of 2, 1 and 1", look_by_hand(shares(2.0, 1.0, 1.0)),
     "The dot product of very and cute is 1 times 2: the entries are multiplied."),
    ("the new vector times the old one",
     [*VERY, *(a * b for a, b in zip(look_by_hand(VERY)[3:], VERY_CUTE_DOG[0], strict=True))],
     "The new vector is the average of the three, and nothing more."),
    ("the old vector kept", [*VERY, *VERY_CUTE_DOG[0]],
     "The weights are right. The new vector is the average of the three vectors with them."),
    ("all weight on the word itself", look_by_hand([1.0, 0.0, 0.0]),
     "Very looks at cute and dog, too: the softmax gives every word a share."),
    ("a sigmoid of each score", look_by_hand([1 / (1 + math.exp(-s)) for s in (2.0, 2.0, 1.0)]),
     "The softmax divides each exponential by the sum of all three: the shares sum to one."),
    ("squares of the scores in place of exponentials", look_by_hand([4 / 9, 4 / 9, 1 / 9]),
     "The softmax takes e to the power of the score, not the score to the power of 2."),
    ("the weights of cute and dog exchanged", look_by_hand([VERY[0], VERY[2], VERY[1]]),
     "Cute has the score 2 and dog the score 1, so cute has the larger share."),
    ("the 2 of dog overlooked", [*VERY, VERY[2], *look_by_hand(VERY)[4:]],
     "The first entry of dog is 2, so being gets twice the weight on dog."),
    ("the 2 of cute overlooked, or the quality of very", [*VERY, 2 * VERY[2], 1.0, 0.0, VERY[0]],
     "The second entry of cute is 2, so quality gets twice the weight on cute."),
    ("the new vector divided by three", [*VERY, *(a / 3 for a in look_by_hand(VERY)[3:])],
     "The weights sum to one already. The weighted sum is the average."),
    ("the new vector with scores for weights", [*VERY, *look_by_hand([2.0, 2.0, 1.0])[3:]],
     "The weights are right. Take them, not the scores, times the three vectors."),
    ("scores in place of weights, and the right vector", [2.0, 2.0, 1.0, *look_by_hand(VERY)[3:]],
     "The vector is right. Asked for first are the weights, the softmax of these scores."),
    ("exponentials in place of weights, and the right vector",
     [math.exp(2), math.exp(2), math.exp(1), *look_by_hand(VERY)[3:]],
     "The vector is right. Asked for first are the weights: divide by the sum of all three."),
    ("scores of 0, 2 and 1", look_by_hand(shares(0.0, 2.0, 1.0)),
     "The first score is very with itself: (0, 1, 0, 1) times (0, 1, 0, 1) is 2."),
    ("scores of 4, 2 and 1", look_by_hand(shares(4.0, 2.0, 1.0)),
     "The first score is very with itself: (0, 1, 0, 1) times (0, 1, 0, 1) is 2, and is not "
     "squared."),
    ("scores of 2, 2 and 3", look_by_hand(shares(2.0, 2.0, 3.0)),
     "Very with dog is 1 times 1: where one of the two has a zero, nothing is added."),
    ("the link of very left out", [*look_by_hand(VERY)[:6], 0.0],
     "The last entry of the new vector is made of the last entries, 1, 0 and 0."),
    ("the quality of dog left out",
     [*VERY, 2 * VERY[2], VERY[0] + 2 * VERY[1], 0.0, VERY[0]],
     "Dog has quality, too: its vector is (2, 1, 0, 0)."),
    ("a quarter for every word", look_by_hand([0.25, 0.25, 0.25]),
     "There are three words, and their weights sum to one. (Four is the number of entries.)"),
    ("the last word left out of the new vector", [
        *look_by_hand(VERY)[:3], 0.0, 3 * look_by_hand(VERY)[0], 0.0, look_by_hand(VERY)[0]],
     "The weights are right. The vector of dog comes in, too, with its weight."),
    ("scores divided by the width", look_by_hand(shares(0.5, 0.5, 0.25)),
     "Four is the number of entries. Here the scores are plain dot products."),
    ("the old vector taken off",
     [*VERY, *(a - b for a, b in zip(look_by_hand(VERY)[3:], VERY_CUTE_DOG[0], strict=True))],
     "The new vector is the average alone, equation (4.5). It takes the place of the old one."),
    ("the softmax taken twice", look_by_hand(shares(*VERY)),
     "The softmax of the scores are the weights. A second one makes them more even."),
)  # fmt: skip


def look_way(
    scores: tuple = (2.0, 2.0, 1.0),
    weigh: Callable[..., list[float]] = shares,
    out: Callable[..., list[float]] = lambda w: look_by_hand(w)[3:],
    averaged: Callable[..., list[float]] = lambda weights, scores: weights,
) -> list[float]:
    """The answer, right by default; each argument makes one slip."""
    weights = weigh(*scores)
    return [*weights, *out(averaged(weights, scores))]


HAND_SLIPS = [
    ("the row of cute", {"scores": (2.0, 4.0, 2.0)}, "The word that looks around is very."),
    ("the row of dog", {"scores": (1.0, 2.0, 5.0)}, "The word that looks around is very."),
    ("scores of 1, 2 and 1", {"scores": (1.0, 2.0, 1.0)}, "Very with itself is 0 + 1 + 0 + 1."),
    ("scores of 2, 1 and 1", {"scores": (2.0, 1.0, 1.0)}, "Very with cute is 1 times 2."),
    ("scores of 0, 2 and 1", {"scores": (0.0, 2.0, 1.0)}, "Very with itself is 2."),
    ("scores of 2, 2 and 0", {"scores": (2.0, 2.0, 0.0)}, "Very with dog is 1 times 1."),
    ("the cosine in place of the dot product", {"scores": (1.0, 0.5**0.5, 0.1**0.5)},
     "Equation (4.4) has the dot product."),
    ("the link of very left out",
     {"out": lambda w: [2 * w[2], w[0] + 2 * w[1] + w[2], 0.0, 0.0]},
     "The last entry is made of 1, 0 and 0."),
    ("the new vector divided by three",
     {"out": lambda w: [a / 3 for a in look_by_hand(w)[3:]]}, "The weights sum to one already."),
    ("the new vector left out", {"out": lambda w: []}, "Its four entries are asked for, too."),
    ("scores divided by the root of the width", {"scores": (1.0, 1.0, 0.5)},
     "The division comes in Chapter 6."),
    ("scores as weights, without the softmax", {"weigh": lambda *s: [*s]},
     "The softmax of the scores is missing."),
    ("scores divided by their sum", {"weigh": lambda *s: [a / sum(s) for a in s]},
     "The softmax takes the exponential of each score first."),
    ("exponentials not divided by their sum", {"weigh": lambda *s: [math.exp(a) for a in s]},
     "Divide each exponential by the sum of all three."),
    ("the vectors summed without their weights", {"out": lambda w: [2.0, 4.0, 0.0, 1.0]},
     "Each vector is multiplied by its weight."),
    ("the old vector added", {"out": lambda w: [
        2 * w[2], w[0] + 2 * w[1] + w[2] + 1, 0.0, w[0] + 1]},
     "The new vector is the average alone."),
    ("the 2 of cute overlooked", {"out": lambda w: [2 * w[2], sum(w), 0.0, w[0]]},
     "The second entry of cute is 2."),
    ("the 2 of dog overlooked", {"out": lambda w: [w[2], w[0] + 2 * w[1] + w[2], 0.0, w[0]]},
     "The first entry of dog is 2."),
    ("the new vector with scores for weights", {"averaged": lambda w, s: [*s]},
     "What multiplies the three vectors are the weights, not the scores."),
    ("the new vector with exponentials that were not divided",
     {"averaged": lambda w, s: [math.exp(a) for a in s]},
     "What multiplies the three vectors are the weights: the exponentials divided by their sum."),
    ("the new vector as a plain mean", {"averaged": lambda w, s: [1 / 3] * 3},
     "Each of the three vectors is multiplied by its weight."),
]  # fmt: skip
SINGLE_HAND_MISTAKES = [*HAND_MISTAKES]
HAND_MISTAKES += pairs(
    look_way, HAND_SLIPS, [look_by_hand(VERY), *(mistake.wrong for mistake in HAND_MISTAKES)],
    rtol=5e-3, atol=2e-3,
)  # fmt: skip


def _weights_first(
    cases: Sequence[Case], got: Sequence[Any], want: Sequence[Any]
) -> tuple[str, str] | None:
    """The name of what is wrong with the three weights, where the vector has other mistakes."""
    answer = got[0]
    if not isinstance(answer, list) or len(answer) != 7:
        return None
    weights = [*map(float, answer[:3])]
    for mistake in SINGLE_HAND_MISTAKES:
        known = [*mistake.wrong]
        if len(known) == 7 and near(weights, known[:3], 5e-3, 2e-3):
            if near(known[3:], look_by_hand(known[:3])[3:], 5e-3, 2e-3):
                why = "The new vector does not follow from these weights, either."
                return f"in the weights: {mistake.name}", f"{mistake.why} {why}"
    return None


# 4.2 cosines from a table of dot products


def cosines_of(products: Tensor) -> Tensor:
    lengths = products.diag().sqrt()
    below = torch.outer(lengths, lengths)
    return torch.where(below > 0, products / below, 0.0)


def cosine_cases() -> list[tuple[Tensor]]:
    draw = torch.Generator().manual_seed(42)
    x, far, tiny, one = (torch.randn(t, 3, generator=draw) for t in (4, 5, 3, 1))
    zero = torch.randn(4, 2, generator=draw)
    zero[:3] = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    printed = torch.tensor([[2.0, 0.0], [1.0, 1.0], [0.0, 0.0]])
    vectors = printed, x, 5 * far, 0.02 * tiny, one, zero, torch.zeros(2, 2)
    return [(v @ v.T,) for v in vectors]


def _unsafe(p: Tensor) -> Tensor:
    return p / _roots(p)


def _roots(p: Tensor) -> Tensor:
    return torch.outer(p.diag().sqrt(), p.diag().sqrt())


def _between(output: Tensor, *_: Tensor) -> bool:
    return not bool((torch.as_tensor(output).abs() > 1 + 1e-4).any())  # a NaN breaks no rule


def _own(table: Tensor, value: float) -> Tensor:
    return table.masked_fill(torch.eye(len(table), dtype=torch.bool), value)


def _bounded(
    cases: Sequence[Case], got: Sequence[Any], want: Sequence[Any]
) -> tuple[str, str] | None:
    """That all products that come out wrong were divided by one number, larger than theirs."""
    below = []
    for (products,), one, right in zip(cases, got, want, strict=True):
        if not isinstance(one, Tensor) or one.shape != products.shape:
            return None
        wrong = ~torch.isclose(one.double(), right.double(), 1e-3, 1e-5)
        below += (products.double()[wrong] / one.double()[wrong]).tolist()
        if (one[wrong].abs() > right[wrong].abs()).any():
            return None
    if len(below) < 4 or not 0 < min(below) <= max(below) < 1.001 * min(below):
        return None
    return "a bound that is felt by short vectors", (
        f"Some products were divided by {min(below):.3g}, as if their vectors were longer than "
        "they are: the bound must be much smaller, or hold for lengths of 0 alone."
    )


COSINE_MISTAKES = mistakes(
    ("vectors of zeros left out", lambda p: cosines_of(p)[p.diag() > 0][:, p.diag() > 0],
     "The table keeps its shape, (T, T): where a vector was all zeros, there are zeros."),
    ("the table as it was", lambda p: p,
     "A cosine knows nothing of lengths: each product is divided by the two lengths, which stand "
     "in the table, too."),
    ("divided by the squares of the lengths",
     lambda p: torch.nan_to_num(p / torch.outer(p.diag(), p.diag()), nan=0.0),
     "On the diagonal stands the dot product of a vector with itself: the square of its length. "
     "The root is missing."),
    ("divided by the square of the row's length",
     lambda p: torch.nan_to_num(p / p.diag().unsqueeze(1), nan=0.0),
     "Both lengths stand below the line, that of the row's vector and that of the column's, each "
     "once."),
    ("divided by the square of the column's length",
     lambda p: torch.nan_to_num(p / p.diag(), nan=0.0),
     "Both lengths stand below the line, that of the row's vector and that of the column's, each "
     "once."),
    ("only the rows divided by their length",
     lambda p: torch.nan_to_num(p / p.diag().sqrt().unsqueeze(1), nan=0.0),
     "Both lengths stand below the line: divide the columns by theirs as well."),
    ("only the columns divided by their length",
     lambda p: torch.nan_to_num(p / p.diag().sqrt(), nan=0.0),
     "Both lengths stand below the line: divide the rows by theirs as well."),
    ("the rows of the table taken for the vectors",
     lambda p: normalize(p, dim=1) @ normalize(p, dim=1).T,
     "The rows hold dot products, not the vectors. No vector is needed: where in the table stands "
     "the length of each?"),
    ("each row divided by its own norm", lambda p: normalize(p, dim=1),
     "The norm of a row of products is not the length of a vector. That is the root of the "
     "vector's product with itself."),
    ("each column divided by its own norm", lambda p: normalize(p, dim=0),
     "The norm of a column of products is not the length of a vector. That is the root of the "
     "vector's product with itself."),
    ("divided by the largest of the table", lambda p: p / p.abs().max().clamp(min=1e-12),
     "Each product has two lengths of its own below the line."),
    ("each column divided by its largest",
     lambda p: p / p.abs().amax(0, keepdim=True).clamp(min=1e-12),
     "Each product has two lengths of its own below the line."),
    ("a tenth added below the line", lambda p: p / (_roots(p) + 0.1),
     "That is felt by short vectors. Where both lengths are above 0, nothing is added; where one "
     "is 0, the cosine is 0."),
    ("each row divided by its largest",
     lambda p: p / p.abs().amax(1, keepdim=True).clamp(min=1e-12),
     "Each product has two lengths of its own below the line."),
    ("each row divided by its sum",
     lambda p: torch.nan_to_num(p / p.sum(1, keepdim=True), nan=0.0),
     "That makes shares. Below the line of a cosine stand two lengths."),
    ("NaN for a vector of zeros", _unsafe,
     "The length of such a vector is 0, and 0/0 is not a number. The task asks for 0 there."),
    ("one for a vector of zeros", lambda p: torch.nan_to_num(_unsafe(p), nan=1.0),
     "A vector of zeros points nowhere, so it is like nothing. The task asks for 0 there."),
    ("one for a vector of zeros with itself", lambda p: _own(cosines_of(p), 1.0),
     "A vector of zeros points nowhere, and is not even like itself. The task asks for 0 there."),
    ("zero on the diagonal", lambda p: _own(cosines_of(p), 0.0),
     "The cosine of a vector with itself is 1, unless it is all zeros."),
    ("the root of every product", lambda p: torch.nan_to_num(p.sqrt() / _roots(p), nan=0.0),
     "The root belongs to the products on the diagonal, which are squares of lengths."),
    ("the cosine squared", lambda p: cosines_of(p).square(),
     "Squares have lost the sign. The product itself stands above the line."),
    ("a lower bound of one below the line", lambda p: p / _roots(p).clamp(min=1),
     "This changes every cosine for which the product of the lengths is below 1, not only those of "
     "vectors of zeros."),
    *(
        (f"lengths kept from falling below {words}", lambda p, least=least: p / torch.outer(
            p.diag().sqrt().clamp(min=least), p.diag().sqrt().clamp(min=least)),
         "The cosines of all vectors that are shorter than that come out too small: they, too, are "
         "to be divided by their own length. Only a length of 0 needs care.")
        for words, least in (("one", 1.0), ("a half", 0.5), ("0.05", 0.05))
    ),
    ("squares of lengths kept from falling below a thousandth, or lengths from below 0.03",
     lambda p: p / (root := p.diag().clamp(min=1e-3).sqrt()) / root.unsqueeze(1),
     "The cosines of all vectors that are shorter than that come out too small: they, too, are to "
     "be divided by their own length. Only a length of 0 needs care."),
    *(
        (f"{words} added to every length", lambda p, more=more: p / torch.outer(
            p.diag().sqrt() + more, p.diag().sqrt() + more),
         "That makes every cosine smaller, not only those of vectors of zeros. Only a length of 0 "
         "needs care.")
        for words, more in (("one", 1.0), ("a tenth", 0.1))
    ),
    ("one added to every square of a length",
     lambda p: p / (root := (p.diag() + 1).sqrt()) / root.unsqueeze(1),
     "That makes every cosine smaller, not only those of vectors of zeros. Only a length of 0 "
     "needs care."),
    ("one added below the line", lambda p: p / (_roots(p) + 1),
     "This makes every cosine smaller, not only those of vectors of zeros."),
    ("a bound that is felt by short vectors", lambda p: p / _roots(p).clamp(min=1e-2),
     "This changes the cosines of short vectors, too: the bound must be much smaller, or hold for "
     "lengths of 0 alone."),
    ("a small number that is felt by short vectors", lambda p: p / (_roots(p) + 1e-2),
     "This changes the cosines of short vectors, too: add much less, or treat lengths of 0 alone."),
    ("negative cosines set to zero", lambda p: cosines_of(p).clamp(min=0),
     "Vectors that point apart have a cosine below 0. Only those of a vector of zeros are 0."),
    ("divided by the sum of the two lengths",
     lambda p: torch.nan_to_num(p / (p.diag().sqrt() + p.diag().sqrt().unsqueeze(1)), nan=0.0),
     "The dot product is divided by the product of the two lengths."),
    ("divided by the mean of the two squares",
     lambda p: torch.nan_to_num(2 * p / (p.diag() + p.diag().unsqueeze(1)), nan=0.0),
     "The dot product is divided by the product of the two lengths."),
    ("the angle in place of its cosine", lambda p: cosines_of(p).clamp(-1, 1).arccos(),
     "The angle is small where two vectors are alike. Its cosine is large there."),
    ("one minus the cosine", lambda p: 1 - cosines_of(p),
     "This is a distance, 0 for equal directions. A measure of likeness is 1 there."),
    ("the sign lost", lambda p: cosines_of(p).abs(),
     "Vectors that point apart are not alike: their cosine is below 0."),
    ("the softmax applied", lambda p: cosines_of(p).softmax(-1),
     "These are weights. What is asked for are the cosines themselves."),
    ("divided by the sum of the diagonal", lambda p: p / p.trace().clamp(min=1e-12),
     "Each product has two lengths of its own below the line."),
    ("divided by the norm of the table", lambda p: p / p.norm().clamp(min=1e-12),
     "Each product has two lengths of its own below the line."),
    ("the cosines of the first word alone", lambda p: cosines_of(p)[0],
     "The table of all cosines is asked for, (T, T)."),
    ("the coefficients of correlation of the rows",
     lambda p: torch.corrcoef(p.double()).reshape(p.shape).nan_to_num(),
     "The rows hold dot products, not the vectors. And no mean is subtracted in a cosine."),
    *(
        (f"the cosines, {name}", lambda p, turn=turn: turn(cosines_of(p)), why)
        for name, turn, why in (
            ("and zeros below the diagonal", torch.triu, "The whole table is asked for."),
            ("and zeros above the diagonal", torch.tril, "The whole table is asked for."),
            ("with the sign turned", torch.neg, "Equal directions have the cosine 1."),
            ("normalised by rows", lambda c: normalize(c, dim=1),
             "A cosine is divided by both lengths, and by nothing more."),
            ("as shares of their row", lambda c: (c / c.sum(1, keepdim=True)).nan_to_num(),
             "A cosine is divided by both lengths, and by nothing more."),
        )
    ),
    ("rows and then columns of the table normalised",
     lambda p: normalize(normalize(p, dim=1), dim=0),
     "The lengths are those of the vectors, whose squares stand on the diagonal."),
    ("columns and then rows of the table normalised",
     lambda p: normalize(normalize(p, dim=0), dim=1),
     "The lengths are those of the vectors, whose squares stand on the diagonal."),
    ("divided by the mean of the two lengths", lambda p: (
        2 * p / (p.diag().sqrt() + p.diag().sqrt().unsqueeze(1))).nan_to_num(),
     "Divide by the product of the two lengths."),
    ("divided by the larger of the two squares", lambda p: (
        p / torch.maximum(p.diag(), p.diag().unsqueeze(1))).nan_to_num(),
     "Divide by the product of the two lengths."),
    ("the softmax of the table", lambda p: p.softmax(-1),
     "A cosine is the dot product divided by both lengths; nothing is shared out."),
    ("the squared distances",
     lambda p: p.diag() + p.diag().unsqueeze(1) - 2 * p,
     "That is the distance of every two words, squared. Asked for are cosines."),
    ("minus the squared distances",
     lambda p: 2 * p - p.diag() - p.diag().unsqueeze(1),
     "That is equation (4.3). Asked for are cosines."),
    ("the root of the cosine", lambda p: cosines_of(p).sqrt().nan_to_num(),
     "The roots belong to the squares of the lengths, below the line, and not to the product."),
    ("the root of the cosine, and NaN below zero", lambda p: cosines_of(p).sqrt(),
     "The roots belong to the squares of the lengths, below the line, and not to the product."),
    ("divided by the length of the diagonal", lambda p: p / p.diag().norm().clamp(min=1e-12),
     "The diagonal holds one square for each word. Divide each product by the roots of its two."),
    ("divided by the square of the diagonal's length",
     lambda p: p / p.diag().norm().square().clamp(min=1e-24),
     "The diagonal holds one square for each word. Divide each product by the roots of its two."),
    *(
        (name, lambda p, wrong=wrong: torch.nan_to_num(
            wrong(p, p.diag().sqrt()[:, None], p.diag().sqrt()), nan=0.0, posinf=0.0, neginf=0.0),
         f"{why} A cosine is the product of two words, divided by the lengths of both.")
        for name, wrong, why in (
            ("divided by the row's length, multiplied by the column's",
             lambda p, own, other: p / own * other, "Each word's length stands below the line."),
            ("divided by the column's length, multiplied by the row's",
             lambda p, own, other: p / other * own, "Each word's length stands below the line."),
            ("upside down", lambda p, own, other: own * other / p,
             "The product stands above the line."),
            ("the square of the diagonal for its root",
             lambda p, own, other: p / (own * other) ** 4,
             "On the diagonal stand the squares of the lengths: take their *root*."),
            ("one over the lengths alone, without the products",
             lambda p, own, other: 1 / (own * other), "The products are missing."),
        )
    ),
    ("zeros everywhere", lambda p: 0 * p, "Only the cosines of a vector of zeros are 0."),
    ("minus one for a vector of zeros", lambda p: torch.nan_to_num(_unsafe(p), nan=-1.0),
     "Where a vector was all zeros, its cosines are 0."),
    ("zero for all words whose lengths multiplied are at most one",
     lambda p: torch.where(_roots(p) > 1, p / _roots(p), 0.0),
     "Only a length of 0 makes cosines of 0: compare with 0."),
    ("the products of the table with itself", lambda p: p @ p.T,
     "The table holds the dot products already."),
    ("the lengths multiplied, not divided by", lambda p: p * _roots(p),
     "A cosine is the dot product *divided* by the two lengths."),
    ("divided by the root of one of the two lengths multiplied",
     lambda p: (p / _roots(p).sqrt()).nan_to_num(),
     "The diagonal holds squares: one root of each gives the lengths."),
    ("a thousandth below the line", lambda p: p / (_roots(p) + 1e-3),
     "This changes the cosines of short vectors, too: add much less, or treat lengths of 0 alone."),
    ("each row divided by its sum, kept above zero",
     lambda p: p / p.sum(-1, keepdim=True).clamp(min=1e-12),
     "Cosines are no shares. Each product is divided by the lengths of its two vectors."),
    ("each row divided by its sum, and 0/0", lambda p: p / p.sum(-1, keepdim=True),
     "Cosines are no shares. Each product is divided by the lengths of its two vectors."),
    ("divided by the largest product", lambda p: p / p.max(),
     "Each product is divided by the lengths of its own two vectors. One number for all leaves "
     "long vectors before short ones."),
    ("divided by the root of the sum of both squares",
     lambda p: p / (p.diag()[:, None] + p.diag()).sqrt().clamp(min=1e-12),
     "Below the line stands the product of the two lengths, each the root of an entry of the "
     "diagonal."),
    ("a hundredth added to every length", lambda p: p / torch.outer(
        p.diag().sqrt() + 0.01, p.diag().sqrt() + 0.01),
     "This changes the cosines of short vectors, too: what is added must be much smaller, or be "
     "added for lengths of 0 alone."),
    ("divided by the norms of rows and columns of the table", lambda p: torch.nan_to_num(
        p / torch.outer(p.norm(dim=1), p.norm(dim=0))),
     "The norm of a row of products is not the length of a vector. That is the root of the "
     "vector's product with itself."),
    ("divided by the squares of the lengths, and NaN for a vector of zeros",
     lambda p: p / (p.diag()[:, None] * p.diag()),
     "A length is the root of a word's product with itself; and 0/0 is not a number."),
    ("only the rows divided by their length, and NaN for a vector of zeros",
     lambda p: p / p.diag().sqrt()[:, None],
     "Divide by both lengths; and 0/0 is not a number: the task asks for 0 there."),
)  # fmt: skip

# 4.3 negative distance


def minus_squared_distance(q: Tensor, k: Tensor) -> Tensor:
    return -(q.unsqueeze(2) - k.unsqueeze(1)).pow(2).sum(-1)


def distance_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(43)
    sizes = [(2, 3, 4, 3), (3, 4, 2, 5), (2, 4, 4, 3), (1, 1, 3, 2), (2, 3, 1, 1)]  # B, T, S, K
    printed = torch.tensor([[[1.0, 0.0]]]), torch.tensor([[[1.0, 0.0], [0.0, 2.0]]])
    far = torch.tensor([[[12.0, -7.0]]]), torch.tensor([[[-4.0, 5.0], [10.0, -9.0]]])
    return [printed, far] + [
        (torch.randn(b, t, d, generator=draw), torch.randn(b, s, d, generator=draw))
        for b, t, s, d in sizes
    ]


def _squares(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    products = q @ k.transpose(1, 2)
    return q.pow(2).sum(-1).unsqueeze(2), k.pow(2).sum(-1).unsqueeze(1), products


def _not_above_zero(output: Tensor, *_: Tensor) -> bool:
    return not bool((torch.as_tensor(output) > 1e-4).any())


DISTANCE_MISTAKES = mistakes(
    ("the keys reshaped, not transposed", lambda q, k: (
        2 * q @ k.reshape(len(k), k.shape[2], k.shape[1])
        - _squares(q, k)[0] - _squares(q, k)[1]),
     "A reshape gives the right shape and the wrong numbers: it cuts the same row of numbers anew, "
     "so that a column holds pieces of several keys. A transpose exchanges the axes."),
    *(
        (f"{what} of the entries, not their squares, summed{side}",
         lambda q, k, factor=factor: factor * (q.unsqueeze(2) - k.unsqueeze(1)).sum(-1),
         "Differences up and down cancel so. Each is squared (`** 2`, not `* 2`), and then they "
         "are summed.")
        for what, size in (("the differences", 1), ("the doubled differences", 2))
        for side, factor in ((", and the sign turned", -size), ("", size))
    ),
    ("the squares of the keys alone",
     lambda q, k: -k.pow(2).sum(-1).unsqueeze(1).expand(-1, q.shape[1], -1),
     "It is the *difference* of query and key that is squared."),
    ("the squares of the queries alone",
     lambda q, k: -q.pow(2).sum(-1).unsqueeze(2).expand(-1, -1, k.shape[1]),
     "It is the *difference* of query and key that is squared."),
    ("both squares, and no product", lambda q, k: _squares(q, k)[0] + _squares(q, k)[1],
     "Between the two squares stands twice the dot product; and a score is minus the distance."),
    ("the squares of the keys with the wrong sign",
     lambda q, k: 2 * _squares(q, k)[2] - _squares(q, k)[0] + _squares(q, k)[1],
     "Both squares are subtracted."),
    ("the sums of the keys in place of their squares", lambda q, k: (
        2 * _squares(q, k)[2] - _squares(q, k)[0] - k.sum(-1).unsqueeze(1)),
     "The entries of a key are squared before they are summed."),
    ("the sums of the queries in place of their squares", lambda q, k: (
        2 * _squares(q, k)[2] - _squares(q, k)[1] - q.sum(-1).unsqueeze(2)),
     "The entries of a query are squared before they are summed."),
    ("the minus sign missing", lambda q, k: -minus_squared_distance(q, k),
     "The farthest key got the highest score. Distance must make a key less alike."),
    ("the distance not squared", lambda q, k: -(-minus_squared_distance(q, k)).sqrt(),
     "This is minus the distance. Equation (4.3) has its square, which needs no root."),
    ("the distance, neither squared nor negative",
     lambda q, k: (-minus_squared_distance(q, k)).sqrt(),
     "The farthest key got the highest score. Equation (4.3) has a minus and a square."),
    ("the minus sign before the first square only",
     lambda q, k: _squares(q, k)[1] - _squares(q, k)[0] - 2 * _squares(q, k)[2],
     "The minus belongs to the whole squared distance: it needs a bracket."),
    ("the squares of the queries with the wrong sign",
     lambda q, k: _squares(q, k)[0] - _squares(q, k)[1] + 2 * _squares(q, k)[2],
     "Minus the squared distance takes both squares off: - q . q - k . k + 2 q . k."),
    ("the lengths not squared",
     lambda q, k: 2 * _squares(q, k)[2] - _squares(q, k)[0].sqrt() - _squares(q, k)[1].sqrt(),
     "The dot product of a vector with itself is the square of its length, without a root."),
    ("the mean over the entries instead of the sum",
     lambda q, k: minus_squared_distance(q, k) / q.shape[-1],
     "The squared distance of two vectors is the sum of the squared differences."),
    ("absolute differences instead of squares",
     lambda q, k: -(q.unsqueeze(2) - k.unsqueeze(1)).abs().sum(-1),
     "The differences are squared, so that large ones count for more."),
    ("the square of the sum instead of the sum of the squares",
     lambda q, k: -(q.unsqueeze(2) - k.unsqueeze(1)).sum(-1).pow(2),
     "Square each difference first, then sum. Else differences of opposite sign cancel."),
    ("only the largest difference counted",
     lambda q, k: -(q.unsqueeze(2) - k.unsqueeze(1)).pow(2).amax(-1),
     "All entries count: the squares of the differences are summed."),
    ("half the squared distance", lambda q, k: minus_squared_distance(q, k) / 2,
     "The division by 2 belongs to the Gaussian kernel of Chapter 3. Equation (4.3) has none."),
    ("queries and keys exchanged", lambda q, k: minus_squared_distance(q, k).transpose(1, 2),
     "Rows are queries and columns are keys: the shape is (B, T, S), not (B, S, T)."),
    ("the dot product", lambda q, k: q @ k.transpose(1, 2),
     "That is equation (4.1). The distance looks at the difference of the two vectors."),
    ("the wrong sign before the dot product",
     lambda q, k: -(_squares(q, k)[0] + _squares(q, k)[1] + 2 * _squares(q, k)[2]),
     "This is the square of the sum of the vectors. In the square of the difference the dot "
     "product has the other sign than the two squares."),
    ("the factor two of the dot product missing",
     lambda q, k: _squares(q, k)[2] - _squares(q, k)[0] - _squares(q, k)[1],
     "In the square of a difference the product of the two stands twice."),
    ("the squares of the queries missing", lambda q, k: 2 * _squares(q, k)[2] - _squares(q, k)[1],
     "The softmax would not see it, since it is the same for all keys, but the score of a vector "
     "with itself must be 0."),
    ("the squares of the keys missing", lambda q, k: 2 * _squares(q, k)[2] - _squares(q, k)[0],
     "Without them long keys are favoured, as by the dot product, and the softmax sees it."),
    ("the softmax applied", lambda q, k: minus_squared_distance(q, k).softmax(-1),
     "These are weights. What is asked for are the scores themselves."),
    ("the Gaussian bell", lambda q, k: minus_squared_distance(q, k).exp(),
     "The exponential belongs to the softmax. The score is the negative squared distance."),
    ("the keys of the first sentence for all",
     lambda q, k: minus_squared_distance(q, k[:1].expand_as(k)),
     "Each sentence of the batch has its own keys."),
    ("the sum of the absolute differences, squared",
     lambda q, k: -(q.unsqueeze(2) - k.unsqueeze(1)).abs().sum(-1).pow(2),
     "Square each difference first, then sum."),
    ("the minus signs before the squares lost",
     lambda q, k: _squares(q, k)[0] + _squares(q, k)[1] + 2 * _squares(q, k)[2],
     "This is the square of the *sum* of the two vectors. In minus the square of their difference "
     "the two squares have a minus, and the dot product has none."),
    ("the sum over the keys in place of the entries",
     lambda q, k: -(q.unsqueeze(2) - k.unsqueeze(1)).pow(2).sum(2),
     "Axis 2 of the differences (B, T, S, K) is that of the keys. Sum over the entries, the last."),
    ("the sum over the queries in place of the entries",
     lambda q, k: -(q.unsqueeze(2) - k.unsqueeze(1)).pow(2).sum(1),
     "Axis 1 of the differences (B, T, S, K) is that of the queries. Sum over the entries, the "
     "last."),
    ("only the largest difference counted, and not squared",
     lambda q, k: -(q.unsqueeze(2) - k.unsqueeze(1)).abs().amax(-1),
     "All differences are squared and added."),
    ("the difference of the squares",
     lambda q, k: _squares(q, k)[1] - _squares(q, k)[0],
     "The square of a difference is another thing than the difference of squares: subtract first."),
    ("twice the squared distance", lambda q, k: 2 * minus_squared_distance(q, k),
     "The squared distance counts once."),
    ("the squares of the queries twice, those of the keys missing",
     lambda q, k: 2 * _squares(q, k)[2] - 2 * _squares(q, k)[0],
     "Each square is taken off once: that of the query and that of the key."),
    ("the squares of the keys twice, those of the queries missing",
     lambda q, k: 2 * _squares(q, k)[2] - 2 * _squares(q, k)[1],
     "Each square is taken off once: that of the query and that of the key."),
    ("the difference of the two lengths", lambda q, k: -(
        _squares(q, k)[0].sqrt() - _squares(q, k)[1].sqrt()).abs(),
     "Take the difference of the vectors first, then its length, squared."),
    ("the root of the sum of the absolute differences",
     lambda q, k: -(q.unsqueeze(2) - k.unsqueeze(1)).abs().sum(-1).sqrt(),
     "The differences are squared and added, without a root."),
    ("the cosine less one",
     lambda q, k: normalize(q, dim=-1) @ normalize(k, dim=-1).mT - 1,
     "The distance knows the lengths as well."),
    ("the logarithm of one plus the squared distance",
     lambda q, k: -(-minus_squared_distance(q, k)).log1p(), "Nothing but the square is taken."),
    ("the sentences added up",
     lambda q, k: minus_squared_distance(q, k).sum(0, keepdim=True).expand(len(q), -1, -1),
     "Each sentence has its own scores."),
    ("differences to the power of three", lambda q, k: -(
        q.unsqueeze(2) - k.unsqueeze(1)).pow(3).sum(-1), "The differences are squared."),
    ("the squares of both missing", lambda q, k: 2 * _squares(q, k)[2],
     "The squares of both lengths are taken off."),
    ("minus twice the dot product", lambda q, k: -2 * _squares(q, k)[2],
     "Multiply out minus the square: the dot product has a plus, the squares of the lengths a "
     "minus."),
    ("the softmax of the distance", lambda q, k: (-minus_squared_distance(q, k)).softmax(-1),
     "Scores are asked for, before the softmax, and the distance has a minus sign."),
    ("the difference of the lengths, squared", lambda q, k: -(
        _squares(q, k)[0].sqrt() - _squares(q, k)[1].sqrt()).square(),
     "Take the difference of the vectors first, then its length."),
    ("one number for all", lambda q, k: -(q.unsqueeze(2) - k.unsqueeze(1)).pow(2).sum(),
     "Sum over the last axis alone, the entries: each pair of query and key has its own score."),
    ("one over one plus the distance", lambda q, k: 1 / (1 - minus_squared_distance(q, k)),
     "That falls with the distance, too, but equation (4.3) is minus the square of it."),
    ("divided by the root of the width",
     lambda q, k: minus_squared_distance(q, k) / q.shape[-1] ** 0.5,
     "The division by a root comes in Chapter 6. Equation (4.3) has none."),
    ("the cosine", lambda q, k: normalize(q, dim=-1) @ normalize(k, dim=-1).mT,
     "That is equation (4.2). The distance looks at the difference of the two vectors."),
    ("the difference of the squared lengths", lambda q, k: -(
        _squares(q, k)[0] - _squares(q, k)[1]).abs(),
     "Take the difference of the vectors first, then the square of its length."),
    ("the squares summed over the words as well",
     lambda q, k: (
         2 * q @ k.mT - (q**2).sum((1, 2), keepdim=True) - (k**2).sum((1, 2), keepdim=True)
     ),
     "Each vector has its own square: it is summed over the entries alone."),
)  # fmt: skip

# 4.4 predict, then try: whom a word attends to most

FAVOURITES = ["always", "sometimes", "always", "never", "never"]


def small_letters(answers: list[str]) -> list[str]:
    return [answer.strip().lower() for answer in items(answers)]


def _instead(place: int, answer: str) -> list[str]:
    return [*FAVOURITES[:place], answer, *FAVOURITES[place + 1 :]]


SINGLE_FAVOURITES = mistakes(
    ("a vector taken to be most like itself", _instead(1, "always"),
     "By the cosine, yes. A dot product also grows with the other's length: in the text, \"is\" "
     "attends to \"and\" more than to itself."),
    ("no word taken to come first in its own row", _instead(1, "never"),
     "Bark does in the text: 5 with itself, at most 4 with the others."),
    ("another word taken to win sometimes at equal length", _instead(0, "sometimes"),
     "At equal length the dot product is the cosine times the same number in every score, and no "
     "cosine is above that of a vector with itself."),
    ("another word taken to win at equal length", _instead(0, "never"),
     "At equal length the dot product is the cosine times the same number in every score, and no "
     "cosine is above that of a vector with itself."),
    ("the longest taken to be beaten sometimes in its own row", _instead(2, "sometimes"),
     "A dot product is at most the product of the two lengths. For the longest word, that is less "
     "than the square of its own."),
    ("the longest taken to attend to others most", _instead(2, "never"),
     "A dot product is at most the product of the two lengths. For the longest word, that is less "
     "than the square of its own."),
    ("two taken to prefer each other sometimes", _instead(3, "sometimes"),
     "a . b > a . a and b . a > b . b would make the squared distance of a and b, which is "
     "a . a - 2 a . b + b . b, less than zero."),
    ("two taken to prefer each other always", _instead(3, "always"),
     "The scores are the same both ways, but each is compared with another: a . a in one row, "
     "b . b in the other. a . b cannot be above both."),
    ("twice the length taken to change the order sometimes", _instead(4, "sometimes"),
     "Every score becomes four times as large. That makes the weights harder, and leaves the order "
     "of the keys as it was."),
    ("twice the length taken to change the order", _instead(4, "always"),
     "Every score becomes four times as large. That makes the weights harder, and leaves the order "
     "of the keys as it was."),
    ("the cosine in place of the dot product, and symmetric weights",
     ["always", "always", "always", "always", "never"],
     "The dot product also counts lengths; and symmetric scores do not make symmetric weights."),
    ("every word taken to be for itself, whatever the others are",
     ["always", "always", "always", "never", "sometimes"],
     "\"is\" attends to \"and\" more than to itself. And a common factor never changes an order."),
    ("every answer taken to depend on the vectors", ["sometimes"] * 5,
     "Four of the five are settled by one inequality: a . b is at most the product of the two "
     "lengths."),
    ("always, whatever is asked", ["always"] * 5,
     "Take two vectors in one direction, one twice as long as the other, and work out their four "
     "scores."),
    ("never, whatever is asked", ["never"] * 5,
     "Take two vectors in one direction, one twice as long as the other, and work out their four "
     "scores."),
)  # fmt: skip


def _both(one: Mistake, two: Mistake) -> tuple[str, list[str], str] | None:
    """Two wrong answers of the five at once, if each of the mistakes makes one."""
    places = [[i for i in range(5) if mistake.wrong[i] != FAVOURITES[i]] for mistake in (one, two)]
    if list(map(len, places)) != [1, 1] or places[0] == places[1]:
        return None
    answer = [*one.wrong]
    answer[places[1][0]] = two.wrong[places[1][0]]
    return f"{one.name}; {two.name}", answer, " ".join(dict.fromkeys((one.why, two.why)))


NAMED_FAVOURITES = {tuple(mistake.wrong) for mistake in SINGLE_FAVOURITES}
FAVOURITE_MISTAKES = [
    *SINGLE_FAVOURITES,
    *mistakes(
        *(
            row
            for one, two in combinations(SINGLE_FAVOURITES, 2)
            if (row := _both(one, two)) and tuple(row[1]) not in NAMED_FAVOURITES
        )
    ),
]


def _is(place: int, answer: str) -> Callable[[list], bool]:
    return lambda answers: small_letters(answers)[place] == answer


FAVOURITE_RULES = [
    Invariant('five words, each "always", "sometimes" or "never"',
              lambda answers: len(answers) == 5 and {*answers} <= {"always", "sometimes", "never"},
              "Each of the five questions has one of these three answers."),
    Invariant("at equal length a word gives itself most", _is(0, "always"),
              "No cosine is above that of a vector with itself."),
    Invariant("at any length it may or may not", _is(1, "sometimes"),
              "In the text, Bark gives itself most, and \"is\" gives \"and\" more."),
    Invariant("the longest gives itself most", _is(2, "always"),
              "A dot product is at most the product of the two lengths."),
    Invariant("no two prefer each other", _is(3, "never"),
              "Else their squared distance, a . a - 2 a . b + b . b, would be less than zero."),
    Invariant("a common factor leaves the order of the scores", _is(4, "never"),
              "All vectors twice as long make every score four times as large."),
]  # fmt: skip


def weights_of_word(x: Tensor, t: int) -> Tensor:
    return (x @ x[t]).softmax(0)


def _without_itself(scores: Tensor) -> Tensor:
    return scores.masked_fill(torch.eye(scores.shape[-1], dtype=torch.bool), -math.inf)


# self-attention, for 4.5 to 4.8


def self_attend(x: Tensor) -> Tensor:
    return _products(x).softmax(-1) @ x


def _products(x: Tensor) -> Tensor:
    return x @ x.transpose(1, 2)


def attend_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(45)
    return [(torch.eye(2)[None],)] + [
        (0.8 * torch.randn(*size, generator=draw),)
        for size in ((2, 4, 3), (3, 2, 5), (1, 3, 2), (2, 1, 3))
    ]


def _between_the_words(output: Tensor, x: Tensor) -> bool:
    output = torch.as_tensor(output).double()
    least, most = x.double().amin(1, keepdim=True), x.double().amax(1, keepdim=True)
    return not bool(((output < least - 1e-4) | (output > most + 1e-4)).any())


def _laid_end_to_end(x: Tensor) -> Tensor:
    return self_attend(x.reshape(1, -1, x.shape[-1])).view_as(x)


def _later(x: Tensor) -> Tensor:
    return torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)


def _overwriting(x: Tensor) -> Tensor:
    for sentence in x:
        for t in range(len(sentence)):
            sentence[t] = weights_of_word(sentence, t) @ sentence
    return x


def _counted_overwriting(x: Tensor, counts: Tensor) -> Tensor:
    for sentence, n in zip(x, counts, strict=True):
        for t in range(len(sentence)):
            sentence[t] = (sentence @ sentence[t] + n.log()).softmax(0) @ sentence
    return x


def _hard(x: Tensor) -> Tensor:
    best = _products(x).argmax(-1)
    return torch.nn.functional.one_hot(best, x.shape[1]).to(x.dtype) @ x


# 4.5 words that come several times


def attend_counted(x: Tensor, counts: Tensor) -> Tensor:
    return _counted(x, counts)


def _counted(
    x: Tensor,
    counts: Tensor,
    score: Callable[[Tensor, Tensor], Tensor] = lambda s, n: s + n.log(),
    axis: int = -1,
) -> Tensor:
    """The layer, right by default; `score` makes of scores and counts (B, 1, T) what is shared."""
    return score(_products(x), counts.unsqueeze(1).to(x.dtype)).softmax(axis) @ x


def _counted_with(
    product: Callable[[Tensor], Tensor] = _products,
    score: Callable[[Tensor, Tensor], Tensor] = lambda s, n: s + n.log(),
    axis: int = -1,
    after: Callable[[Tensor, Tensor], Tensor] = lambda y, n: y,
) -> Callable[[Tensor, Tensor], Tensor]:
    """The layer, right by default; each argument makes one slip."""

    def attend(x: Tensor, counts: Tensor) -> Tensor:
        n = counts.to(x.dtype)
        return after(score(product(x), n.unsqueeze(1)).softmax(axis) @ x, n.unsqueeze(2))

    return attend


def counted_cases() -> list[tuple[Tensor, Tensor]]:
    draw = torch.Generator().manual_seed(45)
    cases = [(torch.eye(2)[None], torch.tensor([[3, 1]]))]
    for b, t, d in ((2, 4, 3), (3, 2, 5), (1, 3, 2), (2, 1, 3), (2, 3, 1)):
        counts = torch.randint(1, 6, (b, t), generator=draw)
        cases.append((0.8 * torch.randn(b, t, d, generator=draw), counts))
    many = torch.tensor([[2_000_000_000, 1, 1_000_000_000], [1, 2_000_000_000, 3_000_000_000]])
    return [*cases, (0.8 * torch.randn(2, 3, 3, generator=draw), many)]


def _with_counts(
    of: Callable[[Tensor, Tensor, Tensor], Tensor],
) -> Callable[[Tensor, Tensor], Tensor]:
    """A mistake, from the weights without counts, the counts (B, 1, T) and the words."""
    return lambda x, counts: of(_products(x).softmax(-1), counts.unsqueeze(1).to(x.dtype), x)


def _shared(parts: Tensor, axis: int = -1) -> Tensor:
    return parts / parts.sum(axis, keepdim=True)


def _exponentials(x: Tensor, counts: Tensor) -> Tensor:
    return _products(x).exp() * counts.unsqueeze(1)


COUNTED_MISTAKES = mistakes(
    ("powers of 2",
     lambda x, counts: _counted(x, counts, lambda s, n: math.log(2) * s + n.log()),
     "The softmax takes the exponential, with base e."),
    ("exponentials times counts, multiplied by their sum",
     lambda x, counts: (e := _exponentials(x, counts)) * e.sum(-1, keepdim=True) @ x,
     "Weights are shares: *divide* by the sum over all words."),
    ("the weights multiplied by the counts, and by their sum", _with_counts(
        lambda w, n, x: w * n * (w * n).sum(-1, keepdim=True) @ x),
     "Weights are shares: *divide* by the sum over all words."),
    ("shares upside down",
     lambda x, counts: (e := _exponentials(x, counts)).sum(-1, keepdim=True) / e @ x,
     "A weight is what a word has, divided by the sum of all: not the sum divided by it."),
    ("the scores times the counts, without the exponential, and not divided",
     lambda x, counts: _products(x) * counts.unsqueeze(1) @ x,
     "Scores are no shares: the softmax takes exponentials, and divides them by their sum."),
    ("the scores times the counts divided by their sum, without the exponential",
     lambda x, counts: _shared(_products(x) * counts.unsqueeze(1)) @ x,
     "Scores can be negative, and their sum can be zero. The softmax takes exponentials first."),
    ("the logarithms of the counts added, and no softmax",
     lambda x, counts: (_products(x) + counts.unsqueeze(1).to(x.dtype).log()) @ x,
     "Scores are no shares: the softmax makes weights of them."),
    ("the weights added up, without the words", lambda x, counts: torch.ones_like(x),
     "The weights of a word sum to one. Each is to be multiplied by the word it belongs to."),
    ("the words as they were", lambda x, counts: x,
     "Nothing has moved: each word takes the weighted average of all."),
    ("zeros", lambda x, counts: 0 * x,
     "Nothing is added to the zeros: each word, times its weight, belongs there."),
    ("old vectors overwritten too early", _counted_overwriting,
     "The later words looked at the new vectors of the earlier ones. Keep the old sentence until "
     "the last has looked."),
    ("the softmax over the words that ask, and then shared out by counts",
     lambda x, counts: _shared(_products(x).softmax(-2) * counts.unsqueeze(1)) @ x,
     "Each word that asks shares among the words that are found: the last axis, in both places."),
    ("the softmax over the batch, and then shared out by counts",
     lambda x, counts: _shared(_products(x).softmax(0) * counts.unsqueeze(1)) @ x,
     "Each word that asks shares among the words that are found: the last axis, in both places."),
    ("the counts have no effect", lambda x, counts: self_attend(x),
     "A word that stands there three times is looked at three times: the counts belong to the "
     "words that are looked at, the columns. (What is the same in a whole row, such as the count "
     "of the word that asks, the softmax does not see.)"),
    ("the weights multiplied, and not shared out again", _with_counts(lambda w, n, x: w * n @ x),
     "The weights of the long sentence sum to one, those of all copies together: after the counts "
     "have come in, divide by the sum of the row."),
    ("the scores multiplied by the counts",
     lambda x, counts: _counted(x, counts, lambda s, n: s * n),
     "Three copies have the same score each, and three times the exponential together. What is "
     "multiplied is the exponential."),
    ("the counts added to the scores", lambda x, counts: _counted(x, counts, lambda s, n: s + n),
     "Three more in the score is e to the power of 3 more in the weight, twenty times as much. A "
     "factor of the exponential is a logarithm in the score."),
    ("one added before the logarithm",
     lambda x, counts: _counted(x, counts, lambda s, n: s + n.log1p()),
     "The logarithm of the count itself is what makes a factor of the exponential."),
    ("logarithms to the base 2", lambda x, counts: _counted(x, counts, lambda s, n: s + n.log2()),
     "The softmax has the base e: it takes the natural logarithm to make a factor."),
    ("the root of the count in place of the count",
     lambda x, counts: _counted(x, counts, lambda s, n: s + n.log() / 2),
     "Three copies weigh three times as much as one."),
    ("the counts squared", lambda x, counts: _counted(x, counts, lambda s, n: s + 2 * n.log()),
     "The copies count once: in the weights, or in the words that are averaged, not in both."),
    ("the counts of the word that asks, and not shared out again",
     _with_counts(lambda w, n, x: w * n.mT @ x),
     "The counts belong to the words that are looked at, the columns; and each row must sum to "
     "one."),
    ("the weights transposed",
     lambda x, counts: (_products(x) + counts.unsqueeze(1).log()).softmax(-1).mT @ x,
     "The rows of the weights belong to the words that ask, and sum to one. Turned on its side, "
     "the table hands each word to the wrong ones."),
    ("the softmax over the wrong axis", lambda x, counts: _counted(
        x, counts, lambda s, n: s + n.log(), axis=1),
     "Each word that asks shares its attention among the words it looks at: the rows of the "
     "weights sum to one, not the columns."),
    ("the counts below the line alone",
     lambda x, counts: _products(x).exp() / _exponentials(x, counts).sum(-1, keepdim=True) @ x,
     "Three equal exponentials stand three times above the line, too: each word, times its count."),
    ("the words multiplied by their counts", lambda x, counts: self_attend(x * counts.unsqueeze(2)),
     "Three copies of a word are not one word that is three times as long: its scores stay."),
    ("the words that are averaged multiplied by their counts, and nothing divided",
     lambda x, counts: _products(x).exp() * counts.unsqueeze(1) @ x,
     "That is the sum above the line. Below it stands the sum of all exponentials, each times its "
     "count."),
    ("shares of the counts multiplied, and not shared out again",
     _with_counts(lambda w, n, x: w * _shared(n) @ x),
     "After the counts have come in, divide by the sum of the row: weights sum to one."),
    ("the mean of all copies", _with_counts(lambda w, n, x: _shared(n).expand_as(w) @ x),
     "Every word got the same average. The weights follow the scores as well."),
    ("the counts as shares in the scores",
     lambda x, counts: _counted(x, counts, lambda s, n: s + _shared(n)),
     "A factor of the exponential is a logarithm in the score."),
    ("the counts in 32 bits, which billions do not fit into",
     lambda x, counts: _counted(x, counts.int()),
     "Whole numbers of 32 bits end at 2,147,483,647: 3,000,000,000 becomes negative there, and the "
     "logarithm of what is negative is NaN. The counts come in 64 bits: take their logarithm as "
     "they are, or of `counts.double()`."),
    ("the counts in 32 bits, which billions do not fit into, times the exponentials",
     lambda x, counts: _shared(_exponentials(x, counts.int())) @ x,
     "Whole numbers of 32 bits end at 2,147,483,647: 3,000,000,000 becomes negative there. The "
     "counts come in 64 bits: multiply by them as they are, or by `counts.double()`."),
    ("the counts in half precision, which billions do not fit into",
     lambda x, counts: _counted(x, counts.half()),
     "Half precision ends at 65,504: a count of billions is infinite there. Take its logarithm in "
     "float32 or float64."),
    ("the logarithms of the counts made whole numbers",
     lambda x, counts: _counted(x, counts, lambda s, n: s + n.log().long()),
     "A logarithm is rarely a whole number: what is behind the point was cut off."),
    ("counts of more than a thousand taken for a thousand",
     lambda x, counts: _counted(x, counts.clamp(max=1000)),
     "A count may be in the billions, and weighs as much. In the logarithm it is a small number."),
    ("divided by the counts", lambda x, counts: _counted(x, counts, lambda s, n: s - n.log()),
     "Words that come often get more attention, not less."),
    ("the counts of the first sentence for all",
     lambda x, counts: attend_counted(x, counts[:1].expand_as(counts)),
     "Each sentence of the batch has its own counts."),
    ("the word itself once, whatever its count", lambda x, counts: _counted(
        x, counts, lambda s, n: s + n.log().expand_as(s).masked_fill(
            torch.eye(s.shape[-1], dtype=torch.bool), 0.0)),
     "A word looks at its own copies as well, at all of them."),
    ("the word itself alone by its count", lambda x, counts: _counted(
        x, counts, lambda s, n: s + torch.diag_embed(n.squeeze(1).log())),
     "The copies of every word that is looked at count, not those of the word that asks alone."),
    *combined(_counted_with, [
        ("scores divided by the root of the width",
         {"product": lambda x: _products(x) / x.shape[-1] ** 0.5}, "Equation (4.6) has no scale."),
        ("the cosine in place of the dot product",
         {"product": lambda x: _products(normalize(x, dim=-1))},
         "Equation (4.6) has the dot product."),
        ("the counts have no effect", {"score": lambda s, n: s},
         "Three equal exponentials are three times one."),
        ("the scores multiplied by the counts", {"score": lambda s, n: s * n},
         "It is the exponential that counts so many times."),
        ("the counts added to the scores", {"score": lambda s, n: s + n},
         "It is the logarithm of the count that is added."),
        ("one added before the logarithm", {"score": lambda s, n: s + n.log1p()},
         "The logarithm of the count itself."),
        ("the softmax over the wrong axis", {"axis": 1}, "Each word that asks shares."),
        ("the new vectors multiplied by the counts", {"after": lambda y, n: y * n},
         "Each copy gets the same new vector."),
        ("the new vectors divided by the counts", {"after": lambda y, n: y / n},
         "Each copy gets the same new vector."),
    ], but=[
        ("the counts have no effect", "the softmax over the wrong axis"),
        ("one added before the logarithm", "the softmax over the wrong axis"),
        ("the counts have no effect", "the new vectors multiplied by the counts"),
    ]),
    ("the new vectors divided by the counts", _counted_with(after=lambda y, n: y / n),
     "Each copy gets the same new vector, the whole of it."),
    ("the cosine in place of the dot product",
     _counted_with(product=lambda x: _products(normalize(x, dim=-1))),
     "Equation (4.6) has the dot product."),
    ("a hard look at the most frequent of the likest", lambda x, counts: x.gather(
        1, (_products(x) + counts.unsqueeze(1).log()).argmax(-1, keepdim=True).expand_as(x)),
     "The softmax gives every word its share."),
    ("the counts less one", lambda x, counts: _counted(
        x, counts, lambda s, n: s + (n - 1).clamp(min=1e-30).log()),
     "A word that comes three times has three equal exponentials, not two."),
    ("the counts of the word that asks, in the scores",
     lambda x, counts: (_products(x) * counts.unsqueeze(2)).softmax(-1) @ x,
     "What counts is how often the word comes that is *looked at*."),
    ("the counts cubed", lambda x, counts: _counted(x, counts, lambda s, n: s + 3 * n.log()),
     "Three equal exponentials are three times one: the count itself."),
    ("the scores multiplied by the logarithms of the counts",
     lambda x, counts: _counted(x, counts, lambda s, n: s * n.log()),
     "The logarithm of the count is *added* to the score."),
    ("the plain mean of the different words",
     lambda x, counts: x.mean(1, keepdim=True).expand_as(x),
     "The weights are the softmax of the scores, with the counts."),
    ("its own other copies alone", lambda x, counts: _counted(
        x, counts, lambda s, n: s + (n - torch.eye(s.shape[-1])).clamp(min=1e-30).log()),
     "Each copy looks at itself, too: all copies count."),
    ("the softmax taken twice",
     lambda x, counts: _shared(_products(x).softmax(-1) * counts.unsqueeze(1)).softmax(-1) @ x,
     "The weights are shares already. Another softmax makes them nearly equal."),
    ("scores divided by the root of the width", lambda x, counts: _counted(
        x, counts, lambda s, n: s / x.shape[-1] ** 0.5 + n.log()),
     "The division by a root comes in Chapter 6. Here the scores are plain dot products."),
    ("the weights instead of the average",
     lambda x, counts: (_products(x) + counts.unsqueeze(1).log()).softmax(-1),
     "The weights are right. The last step is missing: with them the words are averaged."),
    ("the new vectors multiplied by the counts",
     lambda x, counts: attend_counted(x, counts) * counts.unsqueeze(2),
     "Every copy gets the same new vector. Asked for is that vector, once."),
    ("the old vector added", lambda x, counts: x + attend_counted(x, counts),
     "That is a residual connection, which comes in Chapter 10. Equation (4.6) has none."),
    ("the words multiplied by their counts before anything else",
     lambda x, counts: self_attend(x * counts.unsqueeze(2)) / counts.unsqueeze(2),
     "Three copies of a word are not one word that is three times as long: its scores stay."),
    ("the scores multiplied by the counts of both words",
     lambda x, counts: _products(x * counts.unsqueeze(2)).softmax(-1) @ x,
     "Three copies of a word are not one word that is three times as long: its scores stay."),
    ("the counted weights put through another softmax",
     _with_counts(lambda w, n, x: (w * n).softmax(-1) @ x),
     "The softmax takes exponentials, and these were taken. Divide by the sum of the row."),
    ("logarithms to the base 10",
     lambda x, counts: _counted(x, counts, lambda s, n: s + n.log10()),
     "The softmax has the base e: it takes the natural logarithm to make a factor."),
    ("divided by the number of different words",
     lambda x, counts: _products(x).exp() * counts.unsqueeze(1) @ x / x.shape[1],
     "Below the line stands the sum of all exponentials, each times its count."),
    ("divided by the number of all words",
     lambda x, counts: (
         _products(x).exp() * counts.unsqueeze(1) @ x / counts.sum(1)[:, None, None]
     ),
     "Below the line stands the sum of all exponentials, each times its count."),
    ("the counts in the scores and in the words",
     lambda x, counts: (
         (_products(x) + counts.unsqueeze(1).log()).softmax(-1) @ (x * counts.unsqueeze(2))
     ),
     "The copies count once: in the weights. They are in the sum below the line, too."),
    ("shares of the counts, given to the word that asks",
     lambda x, counts: self_attend(x) * (counts / counts.sum(1, keepdim=True)).unsqueeze(2),
     "The counts belong to the words that are looked at, before the weights are shared out."),
    ("the word itself left out",
     lambda x, counts: _without_itself(_products(x) + counts.unsqueeze(1).log())
     .softmax(-1).nan_to_num() @ x,
     "A word looks at itself as at any other, and at its copies."),
    ("divided by the sum over all words of all sentences", lambda x, counts: (
        (e := _products(x).exp() * counts.unsqueeze(1)) @ x / e.sum()),
     "Each word that asks has a whole of its own: divide by the sum of its row."),
    ("divided by the sum over all words of the sentence", lambda x, counts: (
        (e := _products(x).exp() * counts.unsqueeze(1)) @ x / e.sum((1, 2), keepdim=True)),
     "Each word that asks has a whole of its own: divide by the sum of its row."),
    ("shared out along the words that ask", _with_counts(
        lambda w, n, x: _shared(w * n, 1) @ x),
     "Each word that asks shares one among the words it looks at: divide by the sum of its row."),
)  # fmt: skip

# 4.6 words in another order


def reordered(weights: Tensor, order: Tensor) -> Tensor:
    return weights[order][:, order]


def order_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(46)
    orders = ([2, 0, 4, 1, 3], [1, 2, 3, 0], [0])  # the long ones are not their own inverse
    printed = torch.tensor([[0.9, 0.1], [0.4, 0.6]]), torch.tensor([1, 0])
    return [printed] + [
        (torch.randn(len(o), len(o), generator=draw).softmax(-1), torch.tensor(o)) for o in orders
    ]


def _rows_sum_to_one(output: Tensor, *_: Tensor) -> bool:
    sums = torch.as_tensor(output).double().sum(-1)
    return bool(torch.allclose(sums, torch.ones_like(sums), atol=1e-4))


def _overwritten(weights: Tensor, order: Tensor) -> Tensor:
    for table in (weights, weights.T):
        for new, old in enumerate(order.tolist()):
            table[new] = table[old]
    return weights


def _rows_overwritten(weights: Tensor, order: Tensor) -> Tensor:
    for new, old in enumerate(order.tolist()):
        weights[new] = weights[old]
    return weights


ORDER_MISTAKES = mistakes(
    ("only the rows reordered", lambda weights, order: weights[order],
     "The words that are looked at have moved as well: the columns need the new order, too."),
    ("only the columns reordered", lambda weights, order: weights[:, order],
     "The words that look have moved as well: the rows need the new order, too."),
    ("`weights[order, order]`", lambda weights, order: weights[order, order],
     "Two lists of places are read in pairs: this gives the weights of the words on themselves, T "
     "numbers. Reorder one axis, then the other."),
    ("the opposite order", lambda weights, order: reordered(weights, order.argsort()),
     "`order[i]` is where the new word i comes from, not where the old word i goes."),
    ("the table as it was", lambda weights, order: weights,
     "A word keeps its weights, but its row and its columns stand elsewhere now."),
    ("the table transposed", lambda weights, order: reordered(weights.T, order),
     "Rows are the words that look, before and after. They do not become columns."),
    ("rows in the new order, columns in the opposite one",
     lambda weights, order: weights[order][:, order.argsort()],
     "Rows and columns stand for the same words, so both take the same order."),
    ("columns in the new order, rows in the opposite one",
     lambda weights, order: weights[order.argsort()][:, order],
     "Rows and columns stand for the same words, so both take the same order."),
    ("the rows reordered twice", lambda weights, order: weights[order][order],
     "Both indices went to the rows. The second belongs to the columns."),
    ("only the rows reordered, and in the opposite order",
     lambda weights, order: weights[order.argsort()],
     "`order[i]` is where the new word i comes from. And the columns have moved as well."),
    ("only the columns reordered, and in the opposite order",
     lambda weights, order: weights[:, order.argsort()],
     "`order[i]` is where the new word i comes from. And the rows have moved as well."),
    ("old rows overwritten too early", _overwritten,
     "A row that is still needed was overwritten. Write into a new table."),
    ("the softmax applied again", lambda weights, order: reordered(weights, order).softmax(-1),
     "The weights are weights already. They only have to be moved."),
    ("the columns reordered twice", lambda weights, order: weights[:, order][:, order],
     "Both indices went to the columns. The first belongs to the rows."),
    ("rows and columns turned round", lambda weights, order: weights.flip(0, 1),
     "That is one order, the reverse. `order` says which."),
    ("only the rows reordered, and the table transposed",
     lambda weights, order: weights[order].T,
     "Rows and columns are taken in the new order, and stay rows and columns."),
    ("only the columns reordered, and the table transposed",
     lambda weights, order: weights[:, order].T,
     "Rows and columns are taken in the new order, and stay rows and columns."),
    ("the opposite order, and the table transposed",
     lambda weights, order: reordered(weights, order.argsort()).T,
     "Word i of the new sentence is word order[i] of the old one. And rows stay rows."),
    ("the table transposed, and nothing reordered", lambda weights, order: weights.T,
     "Row i is what word i gives. Take rows and columns in the new order."),
    ("each row sorted", lambda weights, order: weights.sort(-1).values,
     "`order` holds numbers of words, not an order by size."),
    ("the rows reordered, and the softmax applied",
     lambda weights, order: weights[order].softmax(-1),
     "The weights are weights already. And the columns have moved as well as the rows."),
    ("rows overwritten before they were read", lambda weights, order: (
        _rows_overwritten(weights, order)[:, order]),
     "A row that was replaced is no longer there when a later one needs it: write into a new "
     "table."),
    ("everything one place on", lambda weights, order: weights.roll((1, 1), (0, 1)),
     "`order` says which word comes from where. It was not used."),
    ("everything one place back", lambda weights, order: weights.roll((-1, -1), (0, 1)),
     "`order` says which word comes from where. It was not used."),
    ("the new order taken twice", lambda weights, order: reordered(weights, order[order]),
     "Rows and columns each take the order once."),
)  # fmt: skip

# 4.7 find the mistakes


def _batch(x: Tensor, apart: bool, turned: bool, over_keys: bool) -> Tensor:
    """The layer with each of its three mistakes mended or not."""
    words = x if apart else x.flatten(0, 1)
    shape = (*words.shape[:-2], words.shape[-1], words.shape[-2])
    keys = words.transpose(-2, -1) if turned else words.reshape(shape)
    weights = (words @ keys).softmax(-1 if over_keys else -2)
    return (weights @ words).view(x.shape)


def _attend_with(
    keys: Callable[[Tensor], Tensor] = lambda x: x.mT,
    axis: int = -1,
    scale: Callable[[Tensor], float] = lambda x: 1.0,
    give: Callable[[Tensor, Tensor], Tensor] = lambda w, x: w @ x,
) -> Callable[[Tensor], Tensor]:
    """The layer, right by default; each argument makes one slip."""
    return lambda x: give((x @ keys(x) * scale(x)).softmax(axis), x)


BATCH_MISTAKES = mistakes(
    ("the logarithms of the weights", lambda x: (x @ x.mT).log_softmax(-1) @ x,
     "The words are averaged with the weights themselves, not with their logarithms."),
    ("the words of the first sentence averaged by all", lambda x: (x @ x.mT).softmax(-1) @ x[:1],
     "Each sentence averages its own words."),
    ("as it was", lambda x: _batch(x, False, False, False),
     "Nothing has changed. What do the rows of `weights` sum to? What is the first column of "
     "`keys`? And how many words does one word attend to?"),
    ("the sentences still read each other", lambda x: _batch(x, False, True, True),
     "Two are mended. But `flatten(0, 1)` makes one long sentence of the whole batch."),
    ("the keys still cut anew", lambda x: _batch(x, True, False, True),
     "Two are mended. But a reshape does not transpose: it cuts the same row of numbers anew, so "
     "that a column holds pieces of several words."),
    ("the softmax still over the words that ask", lambda x: _batch(x, True, True, False),
     "Two are mended. But here the columns sum to one: the softmax must run over the last axis, "
     "and its weights must not be transposed behind it."),
    ("only the softmax mended", lambda x: _batch(x, False, False, True),
     "Rows sum to one now. But are the columns of `keys` words? And whose words are they?"),
    ("only the transpose mended", lambda x: _batch(x, False, True, False),
     "The scores are right now. But which sums are one, and how many words does one attend to?"),
    ("only the batch mended", lambda x: _batch(x, True, False, False),
     "Sentences are apart now. But are the columns of `keys` words? And which sums are one?"),
    ("the softmax over the batch", lambda x: _products(x).softmax(0) @ x,
     "With three axes, `dim=0` is the batch. Each word shares its attention among the words of its "
     "sentence: the last axis."),
    ("the axes of words and batch exchanged",
     lambda x: self_attend(x.transpose(0, 1)).transpose(0, 1),
     "A word must attend to the words of its own sentence, along the second axis."),
    ("entries in place of words", lambda x: x @ (x.transpose(1, 2) @ x).softmax(-1),
     "The scores have shape (B, D, D). Words are compared with words: (B, T, T)."),
    ("a scale added", lambda x: (_products(x) / x.shape[-1] ** 0.5).softmax(-1) @ x,
     "That no scale is there is no mistake in this chapter: it comes in Chapter 6."),
    ("the words normalised", lambda x: (_products(normalize(x, dim=-1))).softmax(-1) @ x,
     "The plain dot product is meant. It was no mistake."),
    ("without the softmax", lambda x: _products(x) @ x,
     "The softmax was no mistake, only its axis."),
    ("the softmax over the whole table",
     lambda x: _products(x).flatten(1).softmax(-1).view_as(_products(x)) @ x,
     "All words of a sentence together share one. Each should have a whole one to share."),
    ("scores divided by their sum, without the exponential",
     lambda x: _products(x) / _products(x).sum(-1, keepdim=True) @ x,
     "Scores can be negative, and their sum can be zero. The softmax takes exponentials first."),
    ("weights that were not divided by their sum", lambda x: _products(x).exp() @ x,
     "The exponentials must be divided by their sum along each row, or vectors grow."),
    ("the mean of all words", lambda x: x.mean(1, keepdim=True).expand_as(x),
     "Every word got the same average. The weights must follow the scores."),
    ("a hard look", _hard,
     "Each word took the word with the highest score. The softmax averages all of them."),
    ("the weights instead of the average", lambda x: _products(x).softmax(-1),
     "The weights are right. The last step is missing: with them the words are averaged."),
    ("the word itself left out, unless it stands alone",
     lambda x: (_products(x) - 1e9 * torch.eye(x.shape[1])).softmax(-1) @ x,
     "In self-attention a word looks at all words of its sentence, itself included."),
    ("the scores instead of the average", _products,
     "The scores are right. Two steps are missing: the softmax and the average."),
    ("scores divided by the width", lambda x: (_products(x) / x.shape[-1]).softmax(-1) @ x,
     "The dot product is a sum, not a mean, and the task has no scale."),
    ("the words themselves normalised", lambda x: self_attend(normalize(x, dim=-1)),
     "Neither the scores nor the words that are averaged are divided by a length."),
    ("the distance in place of the dot product",
     lambda x: minus_squared_distance(x, x).softmax(-1) @ x,
     "The score of this exercise is the dot product, equation (4.1)."),
    ("the sign of the scores turned", lambda x: (-_products(x)).softmax(-1) @ x,
     "A higher score must give a higher weight."),
    ("the word itself left out", lambda x: _without_itself(_products(x)).softmax(-1) @ x,
     "A word looks at all words of its sentence, itself included."),
    ("the word's own score set to zero",
     lambda x: (_products(x) * (1 - torch.eye(x.shape[1]))).softmax(-1) @ x,
     "A word looks at itself as at any other, with its own score. And a score of 0 is not nothing: "
     "its exponential is 1."),
    ("powers of 2", lambda x: (math.log(2) * _products(x)).softmax(-1) @ x,
     "The softmax takes the exponential, with base e."),
    ("exponentials of scores less the highest, not divided by their sum",
     lambda x: (_products(x) - _products(x).amax(-1, keepdim=True)).exp() @ x,
     "The exponentials must be divided by their sum along each row."),
    ("exponentials multiplied by their sum",
     lambda x: (e := _products(x).exp()) * e.sum(-1, keepdim=True) @ x,
     "The exponentials must be *divided* by their sum along each row."),
    ("shares upside down",
     lambda x: (e := _products(x).exp()).sum(-1, keepdim=True) / e @ x,
     "A weight is an exponential divided by the sum of all: not the sum divided by it."),
    ("the weights added up, without the words", lambda x: torch.ones_like(x),
     "The weights of a word sum to one. Each is to be multiplied by the word it belongs to."),
    ("zeros", lambda x: 0 * x,
     "Nothing is added to the zeros: each word, times its weight, belongs there."),
    ("old vectors overwritten too early", _overwriting,
     "The later words looked at the new vectors of the earlier ones. All look at the old sentence "
     "at once, so keep it until the last has looked."),
    ("two rounds", lambda x: self_attend(self_attend(x)),
     "The words looked around twice. The layer is one round."),
    ("the weights of the first sentence for all", lambda x: _products(x)[:1].softmax(-1) @ x,
     "Each sentence of the batch has its own weights."),
    ("the old vector added", lambda x: x + self_attend(x),
     "That is a residual connection, which comes in Chapter 10. Equation (4.6) has none."),
    ("the words as they were", lambda x: x,
     "Nothing has moved. Each word was perhaps multiplied by the sum of its own weights, which is "
     "one: weight (t, s) belongs to word s, and the sum runs over s."),
    ("only the words up to its own place",
     lambda x: _products(x).masked_fill(_later(x), -math.inf).softmax(-1) @ x,
     "That is a causal mask, which comes in Chapter 8. Here a word looks at all words."),
    ("the softmax after the average", lambda x: (_products(x) @ x).softmax(-1),
     "The softmax belongs to the scores. The average comes after it."),
    ("the softmax taken twice", lambda x: _products(x).softmax(-1).softmax(-1) @ x,
     "Taken twice, the softmax makes the weights nearly equal."),
    ("the words of the sentence before it", lambda x: (
        (x @ x.roll(1, 0).mT).softmax(-1) @ x.roll(1, 0)),
     "Each sentence looks at its own words."),
    ("the words of the sentence behind it", lambda x: (
        (x @ x.roll(-1, 0).mT).softmax(-1) @ x.roll(-1, 0)),
     "Each sentence looks at its own words."),
    ("scores divided by the number of words",
     lambda x: (_products(x) / x.shape[1]).softmax(-1) @ x, "Equation (4.6) has no scale."),
    ("scores divided by the root of the number of words",
     lambda x: (_products(x) / x.shape[1] ** 0.5).softmax(-1) @ x,
     "Equation (4.6) has no scale."),
    ("scores divided by the number of sentences",
     lambda x: (_products(x) / len(x)).softmax(-1) @ x, "Equation (4.6) has no scale."),
    ("the scores divided by the number of words, without the softmax",
     lambda x: _products(x) @ x / x.shape[1], "The weights are the softmax of the scores."),
    ("a sigmoid in place of the softmax", lambda x: _products(x).sigmoid() @ x,
     "The weights of a row must sum to one."),
    ("the ReLU in place of the exponential", lambda x: _shared(_products(x).relu()) @ x,
     "The softmax shares out exponentials."),
    ("the first sentence's words for all", lambda x: (x @ x[:1].mT).softmax(-1) @ x[:1],
     "Each sentence looks at its own words."),
    ("the first sentence's words looked at by all",
     lambda x: (x @ x[:1].mT).softmax(-1) @ x,
     "Each sentence compares its words with its own words."),
    *combined(_attend_with, [
        ("the softmax over the words that ask", {"axis": 1}, "Each word that asks shares."),
        ("the softmax over the batch", {"axis": 0}, "Each word that asks shares."),
        ("the keys cut anew",
         {"keys": lambda x: x.reshape(x.shape[0], x.shape[2], x.shape[1])},
         "A reshape cuts the rows anew: transpose."),
        ("a scale added", {"scale": lambda x: x.shape[-1] ** -0.5},
         "Equation (4.6) has no scale."),
        ("the weights instead of the average", {"give": lambda w, x: w},
         "The weights average the words."),
        ("the old vector added", {"give": lambda w, x: x + w @ x},
         "The new vector is the average alone."),
        ("the weights transposed", {"give": lambda w, x: w.mT @ x},
         "Row t of the weights belongs to word t."),
        ("the mean over the words at the end", {"give": lambda w, x: (w @ x).mean(1)},
         "One new vector for each word is asked for."),
    ], but=[
        ("the softmax over the words that ask", "the keys cut anew"),
        ("the softmax over the words that ask", "the weights transposed"),
        ("the softmax over the batch", "the weights transposed"),
        ("a scale added", "the weights transposed"),
    ]),
    ("the softmax of exponentials", lambda x: _products(x).exp().softmax(-1) @ x,
     "`softmax` takes the exponentials itself."),
    ("the mean over the words at the end", lambda x: self_attend(x).mean(1),
     "One new vector for each word is asked for, (B, T, D)."),
    ("the word itself hidden",
     lambda x: torch.nan_to_num(
         _products(x).masked_fill(torch.eye(x.shape[1], dtype=torch.bool), -math.inf).softmax(-1)
     ) @ x,
     "In self-attention a word looks at all words of its sentence, itself included."),
    ("the last sentence for all", lambda x: self_attend(x[-1:]).expand_as(x),
     "Each sentence of the batch has its own new vectors. Is one left over from a loop?"),
    ("the new vectors brought to length one", lambda x: normalize(self_attend(x), dim=-1),
     "Nothing is normalised after the average."),
)  # fmt: skip

# 4.8 a test that finds it


def keeps_apart(layer: Callable[[Tensor], Tensor]) -> bool:
    x = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(48))
    alone = torch.cat([layer(x[b : b + 1].clone()) for b in range(3)])
    return torch.allclose(layer(x.clone()), alone, atol=1e-4)


def _the_one_before(x: Tensor) -> Tensor:
    return (x @ x.roll(1, 0).transpose(1, 2)).softmax(-1) @ x


def _the_one_behind(x: Tensor) -> Tensor:
    asked = torch.cat([x[1:], x[-1:]])
    return (x @ asked.transpose(1, 2)).softmax(-1) @ x


def _first_for_all(x: Tensor) -> Tensor:
    return _products(x)[:1].softmax(-1) @ x


def _one_entry_of_all(x: Tensor) -> Tensor:
    x[:, -1, 0] = x[:, -1, 0].mean()
    return x


_SOME = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(51))


def _of_a_batch(layer: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """The layer, which says so where it is given anything but a batch of sentences."""

    def called(x: Tensor) -> Tensor:
        if x.ndim != 3:
            raise ValueError(
                f"the layer takes a batch, (B, T, D), and got {kind(x)} (x[b] drops the axis of "
                "the batch, x[b : b + 1] keeps it)"
            )
        return layer(x)

    return called


LAYERS: dict[str, Callable[[Tensor], Tensor]] = {name: _of_a_batch(layer) for name, layer in (
        ("right: self-attention", self_attend),
        ("right: the softmax over the wrong axis", lambda x: _products(x).softmax(1) @ x),
        ("right: the mean of each sentence subtracted first",
         lambda x: self_attend(x - x.mean(1, keepdim=True))),
        ("right: twice the input", lambda x: 2 * x),
        ("right: twice the input, times and divided by the length of the whole batch",
         lambda x: 2 * x * (1 + x.norm()) / (1 + x.norm())),
        ("self-attention over the whole batch as one sentence", _laid_end_to_end),
        ("the softmax over the batch", lambda x: _products(x).softmax(0) @ x),
        ("the mean of the batch subtracted first", lambda x: self_attend(x - x.mean(0))),
        ("each sentence asks the one before it", _the_one_before),
        ("all sentences with the weights of the first", _first_for_all),
        ("each sentence asks the one behind it, and the last itself", _the_one_behind),
        ("the directions of all sentences added to each",
         lambda x: self_attend(x) + 0.1 * normalize(x, dim=-1).sum(0)),
        ("a little of all sentences added to each",
         lambda x: self_attend(x) + 1e-3 * x.sum((0, 1))),
        ("half of each sentence taken from the one before it",
         lambda x: (x + x.roll(1, 0)) / 2),
        ("each sentence in the place of the one behind it", lambda x: x.roll(1, 0)),
        ("the last sentence mixed with the first, and no other",
         lambda x: torch.cat([x[:-1], (x[-1:] + x[:1]) / 2])),
        ("the first sentence mixed with the last, and no other",
         lambda x: torch.cat([(x[:1] + x[-1:]) / 2, x[1:]])),
        ("the first words of all sentences averaged, and no other words",
         lambda x: torch.cat([x[:, :1].mean(0, keepdim=True).expand_as(x[:, :1]), x[:, 1:]], 1)),
        ("the first entries of the last words averaged, and no other numbers",
         lambda x: _one_entry_of_all(x.clone())),
)}  # fmt: skip
APART_RULES = rules(
    [name for name in LAYERS if name.startswith("right")],
    {
        "self-attention over the whole batch as one sentence": "It shows in each sentence when "
        "another one changes.",
        "the softmax over the batch": "It shows in each sentence when another one changes.",
        "the mean of the batch subtracted first": "It shows in each sentence when another one "
        "changes.",
        "each sentence asks the one before it": "It shows in a sentence when the one before it "
        "changes, and no other.",
        "all sentences with the weights of the first": "It shows in all others when the first "
        "sentence changes.",
        "each sentence asks the one behind it, and the last itself": "It shows in a sentence when "
        "the one behind it changes, and no other.",
        "the directions of all sentences added to each": "It shows when another sentence changes, "
        "and not only its length.",
        "a little of all sentences added to each": "It is little, but far above rounding.",
        "half of each sentence taken from the one before it": "It shows in a sentence when the one "
        "before it changes.",
        "each sentence in the place of the one behind it": "It shows in a sentence when the one "
        "before it changes: compare number by number.",
        "the last sentence mixed with the first, and no other": "It shows in the last sentence "
        "when the first changes: look at all of them.",
        "the first sentence mixed with the last, and no other": "It shows in the first sentence "
        "when the last changes: look at all of them.",
        "the first words of all sentences averaged, and no other words": "It shows in the first "
        "word of each sentence when another sentence changes: look at all words.",
        "the first entries of the last words averaged, and no other numbers": "It shows in one "
        "entry of the last word when another sentence changes: look at all numbers.",
    },
    "Its sentences do not read each other. Do you compare only sentences that you have not "
    "changed, and leave room for rounding?",
)


def _changed(layer: Callable, look: slice, change: slice) -> bool:
    x = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(49))
    other = x.clone()
    other[change] = torch.randn_like(other[change])
    return torch.allclose(layer(x)[look], layer(other)[look], atol=1e-4)


def _zeros_and_ones(layer: Callable) -> bool:
    x = torch.zeros(2, 3, 4)
    other = x.clone()
    other[1] = 1.0
    return torch.allclose(layer(x)[0], layer(other)[0], atol=1e-5)


def _copies(layer: Callable) -> bool:
    x = torch.randn(1, 4, 5, generator=torch.Generator().manual_seed(50)).repeat(3, 1, 1)
    return torch.allclose(layer(x)[0], layer(x[:1])[0], atol=1e-4)


def _other(b: int) -> Tensor:
    """Other numbers in the place of sentence number b."""
    x = _SOME.clone()
    x[b] = torch.randn(x[b].shape, generator=torch.Generator().manual_seed(52 + b))
    return x


def _longer(b: int) -> Tensor:
    x = _SOME.clone()
    x[b] *= 2
    return x


def _only_watched(place: int) -> Lack:
    """That one sentence alone ever stays as it is where others change."""

    def lacks(calls: list[tuple]) -> bool:
        batches = [x for (x,) in calls[:20]]
        if len({x.shape for x in batches}) > 1 or len(batches[0]) < 2:
            return False
        still = {
            b
            for one, other in combinations(batches, 2)
            for b in range(len(one))
            if torch.equal(one[b], other[b]) and not torch.equal(one, other)
        }
        return still == {place % len(batches[0])}

    return lacks


def _only_reordered(calls: list[tuple]) -> bool:
    """That the batches hold the same sentences, in several orders."""
    batches = [sorted(x.flatten(1).tolist()) for (x,) in calls]
    orders = {tuple(x.flatten().tolist()) for (x,) in calls}
    return len(orders) > 1 and all(batch == batches[0] for batch in batches)


APART_LACKS: dict[str, Lack] = {
    "zeros": each(lambda x: any(not sentence.any() for sentence in x)),
    "copies": each(lambda x: bool((x == x[:1]).all())),
    "another order": _only_reordered,
    "one word in each sentence": each(lambda x: x.shape[1] == 1),
    "the first": _only_watched(0),
    "the last": _only_watched(-1),
}
MIXED = Spoilt(  # what depends on the other sentences, and on where its own stands among them
    ("sentence", "word", "entry"),
    lambda out, x: out + x.pow(2).sum() + x.pow(4).sum(),
    lambda out, x: out + 0.002 * x.pow(2).sum(),
)
APART_MISTAKES = mistakes(
    ("True for every layer", lambda layer: True,
     "The faulty layer of 4.7 must fail: there, sentences read each other. Shapes do not show it, "
     "nor does a batch of one sentence, nor do zeros."),
    ("False for every layer", lambda layer: False,
     "Self-attention on each sentence by itself must pass. Is a sentence that you have changed "
     "compared, too? It comes out otherwise, as it should."),
    ("the other way round", lambda layer: not keeps_apart(layer),
     "True is for layers whose sentences do not read each other."),
    ("only the first sentence looked at, while others change",
     lambda layer: _changed(layer, slice(0, 1), slice(1, 3)),
     "Sentences may read those before them, or the first of the batch: change the first, too, and "
     "look at all that you have not changed."),
    ("only the last sentence looked at, while others change",
     lambda layer: _changed(layer, slice(2, 3), slice(0, 2)),
     "Sentences may read those behind them, or the last of the batch: change the last, too, and "
     "look at all that you have not changed."),
    ("the second of three changed, and only the first looked at",
     lambda layer: _changed(layer, slice(0, 1), slice(1, 2)),
     "Sentences may read those before them, or the first of the batch: look at all of them."),
    ("the first of three changed, and only the last looked at",
     lambda layer: _changed(layer, slice(2, 3), slice(0, 1)),
     "The last may read others than the one that you changed, and others may read the last."),
    ("zeros, and ones beside them", _zeros_and_ones,
     "A sentence of zeros attends evenly to its words, which are all zeros, so that many a mixture "
     "leaves it as it is. Take random numbers."),
    ("copies of one sentence", _copies,
     "Where all sentences are alike, many a mixture looks like the sentence itself. Take different "
     "ones."),
    ("equal to the last bit",
     lambda layer: torch.equal(layer(_SOME), torch.cat([layer(s[None]) for s in _SOME])),
     "Sums that are taken in another order differ in their last bits, and rounding is no "
     "dependence. Compare with allclose."),
    ("the means of all compared",
     lambda layer: bool(
         (layer(_SOME).mean() - torch.cat([layer(s[None]) for s in _SOME]).mean()).abs() < 1e-4
     ),
     "What one sentence gains another may lose. Compare number by number."),
    ("words apart, in place of sentences",
     lambda layer: torch.allclose(
         layer(_SOME), torch.cat([layer(_SOME[:, t : t + 1]) for t in range(4)], 1), atol=1e-4
     ),
     "Words of one sentence may read each other. It is the sentences that are to be kept apart: "
     "axis 0."),
    ("the sentences in another order, and nothing else", lambda layer: torch.allclose(
        layer(_SOME.flip(0)), layer(_SOME).flip(0), atol=1e-4),
     "A layer that mixes all sentences alike does not see their order. Change one sentence, or "
     "leave the others out."),
    ("compared with the right layer", lambda layer: torch.allclose(
        layer(_SOME), self_attend(_SOME), atol=1e-4),
     "A layer may compute something else and still keep sentences apart: that was the question."),
    ("a tolerance that hides everything",
     lambda layer: torch.allclose(
         layer(_SOME), torch.cat([layer(_SOME[b : b + 1]) for b in range(3)]), atol=1.0),
     "Your test lets differences pass that are far above rounding. A tolerance near 1e-5 is wide "
     "enough."),
    ("the others only made longer", lambda layer: all(
        torch.allclose(layer(_SOME)[a], layer(_longer(b))[a], atol=1e-4)
        for a in range(3) for b in range(3) if a != b),
     "A layer may look at the directions of others, which stay as they are when a sentence is "
     "doubled. Put other numbers in its place."),
    ("only a sentence behind the changed one looked at", lambda layer: all(
        torch.allclose(layer(_SOME)[b + 1], layer(_other(b))[b + 1], atol=1e-4) for b in (0, 1)),
     "A sentence may read those behind it, or all of them: look at all sentences but the one that "
     "you changed."),
    ("one word in each sentence", lambda layer: torch.allclose(
        layer(_SOME[:, :1]), torch.cat([layer(s[None, :1]) for s in _SOME]), atol=1e-4),
     "A single word gets all the attention of its sentence, however the weights are made. Take "
     "sentences of several words."),
    ("only the first sentence alone, or only the last one changed", lambda layer: torch.allclose(
        layer(_SOME)[0], layer(_SOME[:1])[0], atol=1e-4),
     "Some layers mix earlier sentences into later ones and leave the first as it is: change each "
     "of them in turn, the first too, and look at all the others."),
)  # fmt: skip

# 4.9 the distance as a dot product


def widen(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    return _joined(2 * q, torch.ones(len(q))), _joined(k, -k.pow(2).sum(-1))


def _joined(x: Tensor, column: Tensor) -> Tensor:
    return torch.cat([x, column.unsqueeze(-1)], dim=-1)


def _table(x: object) -> Tensor:
    return torch.as_tensor(x).double()


def weights_of_widened(answer: Callable, q: Tensor, k: Tensor) -> Tensor:
    """Weights by the dot products; each side is made while the other holds other vectors."""
    pairs = answer(q, k.flip(0) + 1), answer(q.flip(0) - 1, k)
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"expected two tables, got {kind(pairs[0])}")
    new_q, new_k = _table(pairs[0][0]), _table(pairs[1][1])
    if new_q.shape[1:] != new_k.shape[1:]:
        shapes = f"{tuple(new_q.shape)} and {tuple(new_k.shape)}"
        raise ValueError(f"expected two tables of one width, (T, L) and (S, L), got {shapes}")
    return (new_q @ new_k.T).softmax(-1)


def widen_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(49)
    cases = [(torch.tensor([[0.0]]), torch.tensor([[1.0], [2.0]]))]
    for t, s, d in ((3, 4, 2), (2, 5, 3), (4, 1, 2)):
        cases.append((torch.randn(t, d, generator=draw), torch.randn(s, d, generator=draw)))
    return cases


def _squared(x: Tensor) -> Tensor:
    return x.pow(2).sum(-1)


def _widened(
    twice: float = 2.0, own: Callable[[Tensor], Tensor] = lambda k: -_squared(k), by: float = 0.0
) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """The two tables, right by default; each argument makes one slip."""

    def widen_so(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        return _joined(twice * q, torch.ones(len(q))) / q.shape[-1] ** by, _joined(k, own(k))

    return widen_so


WIDEN_SLIPS = [
    ("the factor two missing", {"twice": 1.0},
     "In the square of a difference, the dot product stands twice."),
    ("doubled on both sides", {"twice": 4.0},
     "Twice here and twice there makes four times the dot product."),
    ("the sign of the product turned", {"twice": -2.0},
     "Minus the square of q - k has *plus* twice the dot product."),
    ("the key's square added, not subtracted", {"own": _squared},
     "The square of a key's length makes it farther: it is subtracted."),
    ("the key's length not squared", {"own": lambda k: -k.norm(dim=-1)},
     "What is subtracted is k . k, the length squared."),
    ("the key's square halved", {"own": lambda k: -_squared(k) / 2},
     "In the square of a difference each square stands once."),
    ("the mean of the key's squares", {"own": lambda k: -k.pow(2).mean(-1)},
     "What is subtracted is k . k, the sum of the squares, not their mean."),
    ("the sum of the key in place of its square", {"own": lambda k: -k.sum(-1)},
     "What is subtracted is k . k, the sum of the *squares*."),
    ("the key's length, not squared, added", {"own": lambda k: k.norm(dim=-1)},
     "What is subtracted is k . k, the length squared."),
    ("divided by the root of the width", {"by": 0.5},
     "The division by a root comes in Chapter 6."),
]  # fmt: skip


WIDEN_MISTAKES = mistakes(
    ("the two extra entries in different places", lambda q, k: (
        torch.cat([torch.ones(len(q), 1), 2 * q], 1), widen(q, k)[1]),
     "The 1 of the query must meet the key's own entry: if the one stands first, so must the other."
     ),
    ("the dot product as it was", lambda q, k: (q, k),
     "Longer keys still get more. What does the square of q - k have beside q . k?"),
    ("twice the dot product, and no more", lambda q, k: (2 * q, k),
     "The square of each key's length is missing: it differs from key to key. (That of the query "
     "is the same in all its scores, and the softmax does not see it.)"),
    ("the factor two missing",
     lambda q, k: (_joined(q, torch.ones(len(q))), _joined(k, -_squared(k))),
     "In the square of a difference, the dot product stands twice."),
    ("the keys doubled, not squared",
     lambda q, k: (_joined(2 * q, torch.ones(len(q))), _joined(k, -2 * k.sum(-1))),
     "The square of a key's length is the sum of the squares of its entries: `** 2`."),
    ("half the squared distance",
     lambda q, k: (_joined(q, torch.ones(len(q))), _joined(k, -_squared(k) / 2)),
     "This ranks the keys rightly, but gives the weights of half the squared distance."),
    ("long keys favoured even more",
     lambda q, k: (_joined(2 * q, torch.ones(len(q))), _joined(k, _squared(k))),
     "The square of a key's length makes it farther: it is subtracted."),
    ("the key's length not squared",
     lambda q, k: (_joined(2 * q, torch.ones(len(q))), _joined(k, -k.norm(dim=-1))),
     "What is subtracted is k . k, the length squared."),
    ("the two extra entries multiplied",
     lambda q, k: (_joined(2 * q, -_squared(q)), _joined(k, -_squared(k))),
     "The extra entries are multiplied with each other, too. Let one of them be 1."),
    ("doubled on both sides",
     lambda q, k: (_joined(2 * q, torch.ones(len(q))), _joined(2 * k, -_squared(k))),
     "Twice here and twice there makes four times the dot product."),
    ("the sign of everything turned",
     lambda q, k: (_joined(-2 * q, torch.ones(len(q))), _joined(k, _squared(k))),
     "The farthest key gets most: it is minus the squared distance that is wanted."),
    ("the cosine", lambda q, k: (normalize(q, dim=-1), normalize(k, dim=-1)),
     "At length one, distance and dot product agree. But these vectors have lengths of their own, "
     "and the weights must be those of their distances."),
    ("the mean over the entries",
     lambda q, k: (widen(q, k)[0] / q.shape[-1], widen(q, k)[1]),
     "The squared distance is the sum over the entries, not their mean."),
    ("the sum of the key in place of its square",
     lambda q, k: (_joined(2 * q, torch.ones(len(q))), _joined(k, -k.sum(-1))),
     "What is subtracted is k . k, the sum of the *squares*."),
    ("the square of the key's sum",
     lambda q, k: (_joined(2 * q, torch.ones(len(q))), _joined(k, -k.sum(-1).square())),
     "What is subtracted is k . k, the sum of the squares."),
    ("the mean of the key's squares",
     lambda q, k: (_joined(2 * q, torch.ones(len(q))), _joined(k, -k.pow(2).mean(-1))),
     "What is subtracted is k . k, the sum of the squares, not their mean."),
    ("the key's square twice, the product once",
     lambda q, k: (_joined(q, torch.ones(len(q))), _joined(k, -2 * _squared(k))),
     "In the square of a difference the dot product stands twice and each square once."),
    ("the sign of the product turned",
     lambda q, k: (_joined(-2 * q, torch.ones(len(q))), _joined(k, -_squared(k))),
     "Minus the square of q - k has *plus* twice the dot product."),
    ("the two tables exchanged", lambda q, k: widen(q, k)[::-1],
     "The queries' table comes first, then that of the keys."),
    ("the key's square halved", lambda q, k: (
        _joined(2 * q, torch.ones(len(q))), _joined(k, -_squared(k) / 2)),
     "In the square of a difference the dot product stands twice and each square once."),
    ("the fourth power of the key's length, entry by entry", lambda q, k: (
        _joined(2 * q, torch.ones(len(q))), _joined(k, -k.pow(4).sum(-1))),
     "What is subtracted is k . k, the sum of the squares."),
    ("the square of the key's square", lambda q, k: (
        _joined(2 * q, torch.ones(len(q))), _joined(k, -_squared(k) ** 2)),
     "What is subtracted is k . k, the sum of the squares."),
    ("the means taken off both", lambda q, k: (2 * (q - q.mean(0)), k - k.mean(0)),
     "The square of each key's length is missing: it differs from key to key."),
    ("the largest entry of the key in place of its square", lambda q, k: (
        _joined(2 * q, torch.ones(len(q))), _joined(k, -k.amax(-1))),
     "What is subtracted is k . k, the sum of the squares."),
    ("the key's square twice",
     lambda q, k: (_joined(2 * q, torch.full((len(q),), 2.0)), _joined(k, -_squared(k))),
     "The two extra entries, multiplied, give minus k . k, once for twice the product q . k."),
    ("made for these keys only",
     lambda q, k: (minus_squared_distance(q[None], k[None])[0], torch.eye(len(k))),
     "What becomes of a query must not depend on the keys: the check makes the two with others "
     "beside them."),
    ("the query's square in the place of 1",
     lambda q, k: (_joined(2 * q, _squared(q)), _joined(k, -_squared(k))),
     "The extra entry of the query is 1, so that the key's square counts once, whoever asks."),
    ("the extra entry last in one table and first in the other",
     lambda q, k: (_joined(2 * q, torch.ones(len(q))), _joined(k, -_squared(k)).roll(1, 1)),
     "Entry meets entry: the 1 of the query must stand where the key has its square."),
    ("divided by the root of the new width", lambda q, k: (
        widen(q, k)[0] / (q.shape[-1] + 1) ** 0.5, widen(q, k)[1]),
     "The division by a root comes in Chapter 6. Here the softmax is that of the dot products."),
    ("divided by the root of the old width", lambda q, k: (
        widen(q, k)[0] / q.shape[-1] ** 0.5, widen(q, k)[1]),
     "The division by a root comes in Chapter 6. Here the softmax is that of the dot products."),
    ("the first entry of the key squared, and no other",
     lambda q, k: (_joined(2 * q, torch.ones(len(q))), _joined(k, -k[:, 0] ** 2)),
     "What is subtracted is k . k, the sum of the squares of all entries."),
    ("the mean of the keys subtracted first", lambda q, k: widen(q, k - k.mean(0)),
     "A distance is the same only if queries and keys are moved alike. And what becomes of a key "
     "must not depend on the others."),
    ("queries and keys brought to length one", lambda q, k: widen(
        normalize(q, dim=-1), normalize(k, dim=-1)),
     "The distance is that of the vectors as they are, with their lengths."),
    ("queries and keys brought to length one, but not in the key's square", lambda q, k: (
        _joined(normalize(q, dim=-1), torch.ones(len(q))),
        _joined(normalize(k, dim=-1), -_squared(k))),
     "The distance is that of the vectors as they are, with their lengths."),
    ("rows of ones below, in place of a column beside", lambda q, k: (
        torch.cat([2 * q, torch.ones(1, q.shape[1])]),
        torch.cat([k, -k.pow(2).sum(0, keepdim=True)])),
     "A table keeps its rows: T queries and S keys. What is added is an entry to each, a column."),
    ("the root of two on one side alone",
     lambda q, k: (_joined(2**0.5 * q, torch.ones(len(q))), _joined(k, -_squared(k))),
     "The dot product stands twice: the root of two belongs to both sides."),
    *combined(_widened, WIDEN_SLIPS, but=[
        ("the factor two missing", "the key's square halved"),
        ("the sign of the product turned", "the key's square added, not subtracted"),
    ]),
)  # fmt: skip

# 4.10 a chain


def chain(n: int) -> Tensor:
    lengths = 2 * 3.0 ** torch.arange(n, dtype=torch.float64).unsqueeze(1)
    return lengths * (torch.eye(n, n + 1) + torch.eye(n, n + 1).roll(1, 1))


ZEROS = "everybody alike, as zeros do"


def whom(answer: Callable, n: int) -> list[str] | str:
    """For each word where more than nine tenths of its attention go, if anywhere."""
    x = torch.as_tensor(answer(n)).double()
    if x.ndim != 2:
        raise ValueError(f"expected a table, ({n}, D), got {kind(x)}")
    if len(x) != n:
        return f"not of shape ({n}, D), but {('otherwise', f'(D, {n})')[x.shape[1] == n]}"
    if not x.isfinite().all():
        raise ValueError("expected finite numbers, got infinity or NaN among them")
    if not (x @ x.T).isfinite().all():
        raise ValueError("expected finite scores, got infinite ones: the numbers are too large")
    names = []
    for word, row in enumerate((x @ x.T).softmax(-1)):
        weight, other = float(row.max()), int(row.argmax())
        side = "an earlier one" if other < word else "a later one"
        name = "itself" if other == word else side
        name = "as asked" if other == min(word + 1, n - 1) else name
        softly = "nobody more than others" if weight - row.min() < 0.1 else f"{name}, too softly"
        zeros = not x[word].any()
        names.append(ZEROS if zeros else name if weight > 0.9 else softly)
    return names


def _line(n: int, factor: float) -> Tensor:
    return factor ** torch.arange(n, dtype=torch.float64).unsqueeze(1)


def _grown(factor: float, start: float) -> Callable[[int], Tensor]:
    """The chain with lengths that grow by this factor."""
    return lambda n: (
        start
        * factor ** torch.arange(n, dtype=torch.float64).unsqueeze(1)
        * (torch.eye(n, n + 1) + torch.eye(n, n + 1).roll(1, 1))
    )


CHAIN_MISTAKES = mistakes(
    ("nobody gets nine tenths: too little between the scores", _grown(2.0, 0.3),
     "Word i with itself is 2 a^2 and with the next one a b, if a and b are their entries. With b "
     "= 2 a the two are equal, and with small numbers they differ too little: let b be three times "
     "a, and a large."),
    ("every word for itself", lambda n: 3 * torch.eye(n),
     "x_i . x_i is the highest score of each row. The next word must share something with x_i, and "
     "be so much longer that x_i . x_(i + 1) is above x_i . x_i: at equal length nobody can come "
     "before oneself, whatever two neighbours share."),
    ("all attend to the longest", lambda n: 2 * _line(n, 3.0),
     "In one direction the longest vector wins in every row. A word must share something with the "
     "next one that it does not share with those behind."),
    ("too little between the scores", lambda n: chain(n) / 12,
     "The order is right, the weights are shared too evenly. The scores of a row must differ by "
     "more: make the vectors longer."),
    ("all alike, or nearly", lambda n: torch.ones(n, 3),
     "Where vectors are equal, or nearly, so are their scores, and the softmax gives all about the "
     "same."),
    ("1, 2, 3 in one direction", lambda n: torch.arange(1.0, n + 1).unsqueeze(1),
     "In one direction the longest vector wins in every row, and the scores of the first word "
     "differ too little. A word must share something with the next one that it does not share with "
     "those behind."),
    ("1, 2, 4 in one direction", lambda n: _line(n, 2.0),
     "In one direction the longest vector wins in every row, and the scores of the first word "
     "differ too little. A word must share something with the next one that it does not share with "
     "those behind."),
    ("a first vector of zeros", lambda n: 5 * torch.arange(float(n)).unsqueeze(1),
     "Zeros have the score 0 with everybody, so that the first word shares its attention evenly."),
    ("the chain the other way", lambda n: chain(n).flip(0),
     "Each attends to the one before. Word i should attend to word i + 1."),
    ("one vector for each column", lambda n: chain(n).T,
     "A word is a row: the shape is (n, D), with n rows."),
    ("another number of vectors than n", lambda n: chain(n + 1),
     "There should be n vectors, as many as words. The last one attends to itself."),
    ("two words, whatever n is", lambda n: chain(2)[:, :2],
     "There should be n vectors."),
    ("lengths that grow too slowly",
     lambda n: 1.4 ** torch.arange(n).unsqueeze(1) * (
         torch.eye(n, n + 1) + torch.eye(n, n + 1).roll(1, 1)
     ),
     "Compare x_i . x_i with x_i . x_(i + 1): the next one must be so much longer that the second "
     "is larger."),
    ("the order right, the weights too even", lambda n: chain(n) / 8,
     "The order is right, the weights are shared too evenly. The scores of a row must differ by "
     "more: make the vectors longer."),
    ("the word itself no less than the next one", _grown(2.0, 1.0),
     "With a factor of 2 the scores of a word with itself, 2 a^2, and with the next, a times 2 a, "
     "are the same: let lengths grow faster."),
)  # fmt: skip


def _nobody(*names: str) -> Callable[..., bool]:
    """That no word attends to one of these, sharply or softly."""
    some = {*names, *(f"{name}, too softly" for name in names)}
    return lambda found, n: not some & {*found}


CHAIN_RULES = [
    Invariant("no vector of zeros", _nobody(ZEROS),
              "Zeros have the score 0 with everybody, so that this word shares its attention "
              "evenly, however long the next one is."),
    Invariant("nobody attends to a word behind the next one", _nobody("a later one"),
              "There the score of a word with one behind the next is the highest. A word must "
              "share an entry with the next one that it does not share with those behind; and no "
              "chain closes to a circle."),
    Invariant("nobody but the last attends to itself", _nobody("itself"),
              "Compare x_i . x_i with x_i . x_(i + 1): the next one must be so much longer that "
              "the second is larger."),
    Invariant("nobody attends to an earlier word", _nobody("an earlier one"),
              "There the score of a word with one before it is the highest. The next one must be "
              "longer, and share more with the word than those before."),
    Invariant("more than nine tenths",
              lambda found, n: not any("softly" in name or "nobody" in name for name in found),
              "Nobody wrong is attended to, but the scores of a row lie too close: the next word "
              "must be longer by a larger factor, or all vectors longer."),
]  # fmt: skip


EXERCISES = [
    Exercise(
        number="4.1",
        title="one look by hand",
        section="One word looks around",
        reference=look_by_hand(VERY),
        cases=[()],
        mistakes=HAND_MISTAKES,
        invariants=Family(_weights_first),
        rtol=5e-3,
        atol=2e-3,
    ),
    Exercise(
        number="4.2",
        title="cosines without the vectors",
        section="The cosine",
        reference=cosines_of,
        cases=cosine_cases,
        mistakes=COSINE_MISTAKES,
        invariants=Family(
            _bounded,
            [Invariant("cosines lie between -1 and 1", _between, "No angle has a larger cosine.")],
        ),
        rtol=1e-3,
        atol=1e-5,
    ),
    Exercise(
        number="4.3",
        title="negative distance",
        section="The distance",
        reference=minus_squared_distance,
        cases=distance_cases,
        mistakes=DISTANCE_MISTAKES,
        invariants=[
            Invariant(
                "no score is above zero",
                _not_above_zero,
                "A sum of squares is never negative, so minus one is never positive.",
            )
        ],
        atol=1e-5,
    ),
    Exercise(
        number="4.4",
        title="predict, then try: whom a word attends to most",
        section="By matrix, and over which axis?",
        reference=FAVOURITES,
        mistakes=FAVOURITE_MISTAKES,
        invariants=Family(by_place(FAVOURITES, SINGLE_FAVOURITES), FAVOURITE_RULES),
        canonical=small_letters,
    ),
    Exercise(
        number="4.5",
        title="words that come several times",
        section="By matrix, and over which axis?",
        reference=attend_counted,
        cases=counted_cases,
        mistakes=COUNTED_MISTAKES,
        invariants=[
            Invariant(
                "new vectors lie between the old ones",
                lambda output, x, counts: _between_the_words(output, x),
                "Each is an average with positive weights that sum to one, so no entry can be "
                "above the largest or below the smallest of its sentence.",
            )
        ],
    ),
    Exercise(
        number="4.6",
        title="words in another order",
        section="No order, no distance, and shares that shrink",
        reference=reordered,
        cases=order_cases,
        mistakes=ORDER_MISTAKES,
        invariants=[
            Invariant(
                "rows sum to one",
                _rows_sum_to_one,
                "The words are the same, so each still has one to share among them.",
            )
        ],
    ),
    Exercise(
        number="4.7",
        title="find the mistakes",
        section="A batch of sentences",
        reference=self_attend,
        cases=attend_cases,
        mistakes=BATCH_MISTAKES,
        invariants=[
            Invariant(
                "new vectors lie between the old ones",
                _between_the_words,
                "Each is an average with positive weights that sum to one, so no entry can be "
                "above the largest or below the smallest of its sentence.",
            )
        ],
    ),
    Exercise(
        number="4.8",
        title="a test that finds it",
        section="A batch of sentences",
        reference=keeps_apart,
        cases=[()],
        mistakes=APART_MISTAKES,
        invariants=APART_RULES,
        probe=verdicts_on(LAYERS, APART_LACKS, one_task=False, spoilt=MIXED),
    ),
    Exercise(
        number="4.9",
        title="derive: the distance as a dot product",
        section="The distance",
        reference=widen,
        cases=widen_cases,
        mistakes=WIDEN_MISTAKES,
        probe=weights_of_widened,
    ),
    Exercise(
        number="4.10",
        title="design: a chain",
        section="What the length of a vector does",
        reference=chain,
        cases=[(2,), (3,), (6,)],
        mistakes=CHAIN_MISTAKES,
        invariants=CHAIN_RULES,
        probe=whom,
    ),
]
