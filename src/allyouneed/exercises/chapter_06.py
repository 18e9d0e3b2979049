"""The exercises of chapter 6, dividing by the root: references, cases and known mistakes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from .compare import kind
from .core import Case, Exercise, Family, Invariant, mistakes
from .likeness import nearly
from .pairs import by_place, combined, pairs
from .predictions import items

ROOT_BEFORE = "Divide the scores, before they go into the softmax."
SUMS_TO_ONE = (
    "Each query shares its attention among the keys: the softmax runs over their axis, the last of "
    "q k^T."
)
OF_HEADS = "Axis 1 is that of the heads. (`F.softmax` without a `dim` takes it, of four axes.)"
HALF = (
    "Python reads x / d_k ** 1 / 2 from left to right, as x / d_k / 2. A root needs brackets, "
    "d_k ** (1 / 2), or d_k ** 0.5, or math.sqrt."
)

BASE_MODEL = (
    "8 is the root of d_k in the paper's base model, where d_k = 64. Take d_k from the shape of q."
)

# 6.1 one scaled look by hand: two weights, then the output


def look_by_hand(first: float | int) -> list[float]:
    """The answer for the exponentials `first` and 1."""
    weight = first / (first + 1)
    return [weight, 1 - weight, weight * 8 + (1 - weight) * 4]


HAND_MISTAKES = mistakes(
    ("no division by the root", look_by_hand(9),
     "The score 2 ln 3 went into the softmax as it was. Equation (1) divides it first."),
    ("divided by d_k, without the root, or one ln 3 left out", look_by_hand(3**0.5),
     "The first score came out as half of ln 3. Was 2 ln 3 divided by 4? It is the root of d_k "
     "that equation (1) divides by. Or does one ln 3 lack in the dot product?"),
    ("divided by the root of the number of keys", look_by_hand(3**2**0.5),
     "d_k is the width of a key, not the number of keys."),
    ("multiplied by the root", look_by_hand(81),
     "The scores are divided by the root of d_k. Multiplied, they become harder still."),
    ("divided after the softmax", [0.45, 0.05, 3.8],
     "The weights no longer sum to one. " + ROOT_BEFORE),
    ("exponentials that were not divided by their sum", [3.0, 1.0, 28.0],
     "These are the exponentials of the scaled scores. Weights must sum to one."),
    ("all weight on the first key", [1.0, 0.0, 8.0],
     "A score of 0 is not nothing: its exponential is 1."),
    ("the two weights exchanged", look_by_hand(1 / 3),
     "The first key has the higher score, so it has the higher weight."),
    ("the values exchanged", [0.75, 0.25, 5.0],
     "The weights are right. The first weight belongs to the first value, 8."),
    ("the values not weighted, or the second left out", [0.75, 0.25, 6.0],
     "The weights are right. The output is the sum of the values, each times its weight."),
    ("the values added up", [0.75, 0.25, 12.0],
     "The weights are right. The output is the sum of the values, each times its weight."),
    ("the keys share alike", [0.5, 0.5, 6.0],
     "The scores of the two keys differ, and so do their weights."),
    ("the output before the weights", [7.0, 0.75, 0.25],
     "All three numbers are right. The task asks for the two weights first."),
    ("the weights in percent", [75.0, 25.0, 7.0],
     "Weights are shares of one, not of a hundred: they sum to one."),
    ("scores in place of weights, and the right output", [math.log(3), 0.0, 7.0],
     "The output is right. Asked for first are the two weights, the softmax of these scores."),
    ("scores used as weights", [math.log(3), 0.0, 8 * math.log(3)],
     "Before scores can weigh the values, the softmax makes shares of them."),
    ("the output left out", look_by_hand(3)[:2],
     "The weights are right. The output comes behind them: the values, averaged with them."),
    ("the output not divided by the sum of the exponentials", [0.75, 0.25, 28.0],
     "The weights are right. The output is made with them: they, not 3 and 1, times the values."),
    ("exponentials in place of weights, and the right output", [3.0, 1.0, 7.0],
     "The output is right. Asked for first are the weights: divide 3 and 1 by their sum."),
    ("the first value left out", [0.75, 0.25, 1.0],
     "The weights are right. The output has a part from both values, 8 and 4."),
    ("the output halved", [0.75, 0.25, 3.5],
     "The weights sum to one already: the weighted sum of the values is their average."),
    ("unscaled scores used as weights", [2 * math.log(3), 0.0, 16 * math.log(3)],
     "These are the dot products. They are divided by the root of d_k, and the softmax is taken."),
    ("ln 3 taken for 3", look_by_hand(math.exp(3)),
     "The scaled score is ln 3, so that its exponential is 3."),
    ("2 ln 3 taken for ln 6, and not divided", look_by_hand(6),
     "2 ln 3 is ln 9, and equation (1) divides it by the root of d_k, 2."),
    ("one of the two values alone, the first", [0.75, 0.25, 8.0],
     "The weights are right. The output is the sum of the values, each times its weight."),
    ("one of the two values alone, the second", [0.75, 0.25, 4.0],
     "The weights are right. The output is the sum of the values, each times its weight."),
    ("the second value left out, and 8 times the exponential", [0.75, 0.25, 24.0],
     "The weights are right. The output has a part from both values, each times its weight."),
    ("the first weight times the second value alone; or the weight 1/4 for both values",
     [0.75, 0.25, 3.0],
     "The weights are right. The first belongs to the value 8, the second to 4; add both parts."),
    ("the second weight times the first value alone", [0.75, 0.25, 2.0],
     "The weights are right. The first belongs to the value 8, the second to 4; add both parts."),
    ("divided by 8, as in the base model", look_by_hand(3**0.25),
     "Here the width is 4, and its root 2."),
    ("divided by 4 times the root of 2", look_by_hand(3 ** (2 / 32**0.5)),
     "Divide by the root of d_k = 4, which is 2."),
    ("the logarithms dropped", look_by_hand(math.e),
     "The first score is 2 ln 3, halved ln 3, and its exponential 3."),
    ("the logarithms dropped, and not divided", look_by_hand(math.e**2),
     "The first score is 2 ln 3, halved ln 3, and its exponential 3."),
    ("logarithms to the base 10", look_by_hand(math.exp(math.log10(3))),
     "ln is the natural logarithm, so that the exponential of ln 3 is 3."),
    ("weights of 2/3 and 1/3", look_by_hand(2),
     "The exponential of ln 3 is 3, beside 1: three quarters and one quarter."),
    ("the weight 3/4 for both values", [0.75, 0.25, 9.0],
     "The weights are right. The first belongs to the value 8, the second to 4."),
    ("the right weights, and the output of undivided scores", [0.75, 0.25, 7.6],
     "The weights are right, and the output is made with them: 3/4 of 8 and 1/4 of 4."),
    ("divided by the length of the key", look_by_hand(math.exp(math.sqrt(2))),
     "Every score is divided by the same number, the root of d_k = 4."),
    ("a sigmoid of each score", [0.75, 0.5, 8.0],
     "Weights are shared: the softmax divides each exponential by the sum of both."),
    ("a sigmoid of the first score, the second left as it is", [0.75, 0.0, 6.0],
     "Weights are shared: the softmax divides each exponential by the sum of both."),
    ("no division by the root in the weights alone", [0.9, 0.1, 7.0],
     "The output is right, and its weights are those of scores that were divided first."),
    ("no division by the root, and the weights exchanged", [0.1, 0.9, 4.4],
     "Equation (1) divides the score 2 ln 3 by 2; and the key with the higher score, the first, "
     "has the higher weight."),
    ("the softmax taken twice", look_by_hand(math.exp(0.5)),
     "3/4 and 1/4 are the weights. A second softmax makes them more even."),
)  # fmt: skip


def look_way(first: float = 3, out: Callable[[float], float] = lambda w: 4 + 4 * w) -> list[float]:
    """The answer, right by default; each argument makes one slip."""
    weight = first / (first + 1)
    return [weight, 1 - weight, out(weight)]


HAND_SLIPS = [
    ("no division by the root", {"first": 9}, "Equation (1) divides the scores first."),
    ("divided by d_k, without the root", {"first": 3**0.5}, "Divide by the root of d_k, 2."),
    ("divided by the root of the number of keys", {"first": 3**2**0.5},
     "d_k is the width of a key, not the number of keys."),
    ("multiplied by the root", {"first": 81}, "The scores are divided by the root of d_k."),
    ("the two weights exchanged", {"first": 1 / 3}, "The first key has the higher score."),
    ("the logarithms dropped", {"first": math.e}, "The exponential of ln 3 is 3."),
    ("divided by 8", {"first": 3**0.25}, "The root of d_k = 4 is 2."),
    ("ln 3 taken for 3", {"first": math.exp(3)}, "The exponential of ln 3 is 3."),
    ("the values exchanged", {"out": lambda w: 8 - 4 * w},
     "The first weight belongs to the first value, 8."),
    ("the values not weighted", {"out": lambda w: 6.0},
     "The output is the sum of the values, each times its weight."),
    ("the values added up", {"out": lambda w: 12.0},
     "The output is the sum of the values, each times its weight."),
    ("the second value left out", {"out": lambda w: 8 * w}, "The second value, 4, counts, too."),
    ("the first value left out", {"out": lambda w: 4 - 4 * w}, "The first value, 8, counts, too."),
    ("the output halved", {"out": lambda w: 2 + 2 * w}, "The weights sum to one already."),
]  # fmt: skip
HAND_MISTAKES += pairs(
    look_way, HAND_SLIPS, [look_by_hand(3), *(mistake.wrong for mistake in HAND_MISTAKES)],
    rtol=5e-3, atol=2e-3,
)  # fmt: skip

# 6.2 predict, then try: vectors four times as wide

WIDER = [4, 2, 1, 0.5, "up", "same", "down", "down"]


def small_letters(answers: list) -> list:
    """Words in small letters, and numbers as numbers (an array of both makes texts of them)."""
    return [_word(a) if isinstance(a, str) else a for a in items(answers)]


def _word(answer: str) -> str | float:
    try:
        return float(Fraction(answer))
    except (ValueError, ZeroDivisionError):
        return answer.strip().lower()


def _but(*changes: tuple[int, object]) -> list:
    """The right answers, but for these (places counted from 1)."""
    changed = dict(changes)
    return [changed.get(i, answer) for i, answer in enumerate(WIDER, 1)]


ADDS_UP = "Equation (6.3): d_k terms of variance 1 add up to the variance d_k."
ROOTED = 'The standard deviation is the root of the variance: see "For any entries".'
ONE = "Equation (6.4): divided by the root of d_k, scores spread alike at every width."
TOO_FAR = "The standard deviation doubles, and the divisor becomes four times as large."
HARDER = "Scores that lie farther apart make a harder softmax."
ALIKE = "The spread of the scores does not change, so the weights are as hard as before."
SOFTER = "Divided by d_k the scores come closer together, and the weights nearer to equal."
MORE_KEYS = (
    "The root takes care of the width. How many keys share the weights is another matter: among "
    "four times as many, the largest share becomes smaller."
)
WIDER_MISTAKES = mistakes(
    ("the standard deviation taken to grow with the width, not with its root",
     [4, 4, 2, 1, "up", "up", "same", "down"],
     "Then d_k would be the right divisor. But terms of both signs partly cancel: it is variances "
     "that add up. " + ROOTED),
    ("the variance taken to grow with the square of the width",
     [16, 4, 2, 1, "up", "up", "same", "down"],
     "That would hold if all products had the same sign. " + ADDS_UP),
    ("the variance taken to grow with the root of the width",
     [2, 2**0.5, 2**0.5 / 2, 2**0.5 / 4, "up", "down", "down", "down"],
     ADDS_UP + " It is the standard deviation that grows with the root."),
    ("nothing taken to change but what is divided",
     [1, 1, 0.5, 0.25, "same", "down", "down", "down"],
     "A sum of more terms strays farther. " + ADDS_UP),
    ("the variances in the place of standard deviations", _but((2, 4), (3, 1), (4, 0.25)),
     ROOTED + " Asked for in 2, 3 and 4 is the standard deviation."),
    ("the variance, or the divisor alone, in the last of the four", _but((4, 0.25)),
     "q . k itself spreads twice as far, and is divided by four times as much."),
    ("a root too few in the second", _but((2, 4)), ROOTED),
    ("d_k taken to bring the spread back", _but((4, 1)), TOO_FAR),
    ("the root taken to change nothing in the spread", _but((3, 2)), ONE),
    ("undivided, the weights taken to stay", _but((5, "same")), HARDER),
    ("undivided, the weights taken to soften", _but((5, "down")), HARDER),
    ("divided by the root, the weights taken to harden", _but((6, "up")), ALIKE),
    ("divided by the root, the weights taken to soften", _but((6, "down")), ALIKE),
    ("divided by d_k, the weights taken to stay", _but((7, "same")), SOFTER),
    ("divided by d_k, the weights taken to harden", _but((7, "up")), SOFTER),
    ("the number of keys taken not to matter", _but((8, "same")), MORE_KEYS),
    ("more keys taken to make a larger share", _but((8, "up")), MORE_KEYS),
    ("factors the other way round", _but((1, 0.25), (2, 0.5), (3, 1), (4, 2)),
     "The factor is new divided by old: what has become four times as large has the factor 4."),
    ("numbers in place of factors", _but((1, 256), (2, 16), (3, 1), (4, 0.0625)),
     "These are the values at width 256. Asked for is the factor from 64 to 256."),
    ("the variance in the first taken to grow with the root of the width", _but((1, 2)), ADDS_UP),
    ("the variance in the first taken to grow with the square of the width",
     _but((1, 16)), ADDS_UP),
    ("the variance taken to grow with the square of the width, and the standard deviation with it",
     _but((1, 16), (2, 4)), f"{ADDS_UP} {ROOTED}"),
    ("the variance taken to stay", _but((1, 1)), ADDS_UP),
    ("the standard deviation taken to stay", _but((2, 1)), ROOTED),
    ("the spread taken to fall once it is divided by the root, or the divisor alone",
     _but((3, 0.5)), ONE),
    ("a width twice as large", _but((1, 2), (2, 2**0.5)),
     "The width goes from 64 to 256, four times as large. " + ADDS_UP),
    ("four times the variance taken for twice the root of 2", _but((2, 2**0.5)), ROOTED),
    ("a standard deviation of the square", _but((2, 16)), ROOTED),
    ("the standard deviation divided by four", _but((3, 0.25)), ONE),
    ("the variance in the third", _but((3, 4)), ONE),
    ("the divisor d_k left out in the fourth", _but((4, 2)), TOO_FAR),
    ("the divisor d_k left out, and the variance, in the fourth", _but((4, 4)), TOO_FAR),
    ("the variance and the divisor of it in the fourth", _but((4, 0.0625)), TOO_FAR),
    ("half the root in the fourth", _but((4, 2**-0.5)), TOO_FAR),
    ("standard deviations in the place of variances", _but((1, 2), (2, 4)), f"{ADDS_UP} {ROOTED}"),
    ("no division taken to bring the spread back", _but((3, 2), (4, 2)), f"{ONE} {TOO_FAR}"),
    ("the root taken to halve the spread, and d_k to make it a quarter", _but((3, 0.5), (4, 0.25)),
     f"{ONE} {TOO_FAR}"),
    ("the weights taken to stay, undivided and divided by d_k", _but((5, "same"), (7, "same")),
     f"{HARDER} {SOFTER}"),
    ("larger scores taken to make softer weights", _but((5, "down"), (7, "up")),
     f"{HARDER} {SOFTER}"),
    ("the weights taken to stay, undivided; the number of keys taken not to matter",
     _but((5, "same"), (8, "same")),
     f"{HARDER} {MORE_KEYS}"),
    ("divided by the root, the weights taken to soften; the number of keys taken not to matter",
     _but((6, "down"), (8, "same")), f"{ALIKE} {MORE_KEYS}"),
    ("divided by the root, the weights taken to harden; the number of keys taken not to matter",
     _but((6, "up"), (8, "same")), f"{ALIKE} {MORE_KEYS}"),
    ("more of anything taken to make a larger share", _but((6, "up"), (8, "up")),
     f"{ALIKE} {MORE_KEYS}"),
    ("divided by d_k, the weights taken to harden; more keys taken to make a larger share",
     _but((7, "up"), (8, "up")),
     f"{SOFTER} {MORE_KEYS}"),
    ("divided by the root, the weights taken to soften; divided by d_k, to stay",
     _but((6, "down"), (7, "same")),
     f"{ALIKE} {SOFTER}"),
    ("divided by the root, the weights taken to harden; divided by d_k, to stay",
     _but((6, "up"), (7, "same")),
     f"{ALIKE} {SOFTER}"),
    ("the weights taken to harden in every case", _but((6, "up"), (7, "up")), f"{ALIKE} {SOFTER}"),
    ("d_k taken to bring spread and weights back", _but((4, 1), (7, "same")),
     f"{TOO_FAR} {SOFTER}"),
    ("only the width taken to count", _but((7, "same"), (8, "same")), f"{SOFTER} {MORE_KEYS}"),
    ("differences in place of factors", _but((1, 192), (2, 8), (3, 0)),
     "Asked for is new divided by old, not what was added: 256 / 64 is 4."),
    ("differences in place of factors, all four", _but((1, 192), (2, 8), (3, 0), (4, -0.0625)),
     "Asked for is new divided by old, not what was added: 256 / 64 is 4."),
    ("percent in place of factors", _but((1, 400), (2, 200), (3, 100), (4, 50)),
     "A factor is new divided by old: 256 / 64 is 4."),
)  # fmt: skip


def _follows(place: int, answers: Sequence[Any]) -> bool:
    """Whether a factor, or what becomes of a weight, is rightly made of the factors before it."""
    *factors, said = answers[: min(place, 4)] + [answers[place]]
    if not all(isinstance(one, float | int) and one > 0 for one in factors):
        return False
    if place in (1, 2, 3):
        made = factors[0] ** 0.5 if place == 1 else factors[1] / 2 ** (place - 1)
        return isinstance(said, float | int) and abs(said - made) < 0.01 * made
    if place in (4, 5, 6):
        spread = factors[place - 3]
        return said == ("same" if abs(spread - 1) < 0.01 else "up" if spread > 1 else "down")
    return False


def _near(place: int) -> Callable[[list], bool]:
    def holds(answers: list) -> bool:
        got, want = small_letters(list(answers))[place], WIDER[place]
        return got == want if isinstance(want, str) else abs(got - want) < 0.01

    return holds


WIDER_RULES = [
    Invariant(
        'four numbers, then four words, each "up", "down" or "same"',
        lambda answers: (
            [type(a) is str for a in answers] == [False] * 4 + [True] * 4
            and {*answers[4:]} <= {"up", "down", "same"}
        ),
        "Four factors are asked for first, and then which way the largest weight goes.",
    )
] + [
    Invariant(f"number {i + 1}", _near(i), why)
    for i, why in enumerate((ADDS_UP, ROOTED, ONE, TOO_FAR, HARDER, ALIKE, SOFTER, MORE_KEYS))
]


def _raw(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.transpose(-2, -1)


# 6.3 another variance: of q . k, the standard deviation after the root, the right divisor


def _floats(answer: list) -> list[float]:
    """Whole numbers by hand are welcome beside others."""
    return [float(number) for number in answer]


def spread_way(
    variance: float = 576.0,
    second: Callable[[float], float] = lambda v: v**0.5 / 4,
    third: Callable[[float], float] = lambda v: v**0.5,
) -> list[float]:
    """The answer, right by default; each argument makes one slip."""
    return [variance, second(variance), third(variance)]


TO_ONE = (
    "The root of d_k brings the scores to 1 only where the entries have variance 1. Here each of "
    "the 16 products has a variance of its own."
)


def pairs_of_spreads() -> list[tuple[str, list[float], str]]:
    return combined(spread_way, [
        ("the two variances added", {"variance": 208.0}, "Variances of factors are multiplied."),
        ("standard deviations in place of variances", {"variance": 96.0},
         "The variances are 4 and 9."),
        ("one product instead of the sum", {"variance": 36.0}, "There are 16 products."),
        ("a variance in the second place", {"second": lambda v: v / 16},
         "The standard deviation is asked for."),
        ("divided by d_k in the second place", {"second": lambda v: v**0.5 / 16},
         "The root of d_k is 4."),
        ("not divided in the second place", {"second": lambda v: v**0.5},
         "Divide by the root of d_k."),
        ("the root taken to bring any scores to 1", {"second": lambda v: 1.0}, TO_ONE),
        ("the root of d_k as the divisor", {"third": lambda v: 4.0},
         "That would do for variances of 1."),
        ("d_k as the divisor", {"third": lambda v: 16.0}, "The standard deviation is the divisor."),
        ("the variance as the divisor", {"third": lambda v: v},
         "The standard deviation is the divisor."),
        ("a divisor for what was already divided", {"third": lambda v: v**0.5 / 4},
         "It is q . k itself that is divided."),
    ], but=[
        ("one product instead of the sum", "not divided in the second place"),
        ("not divided in the second place", "a divisor for what was already divided"),
        ("a variance in the second place", "the variance as the divisor"),
        ("one product instead of the sum", "the root taken to bring any scores to 1"),
    ])  # fmt: skip


SPREAD_MISTAKES = mistakes(
    ("the variance in place of the standard deviation, in both", [576.0, 144.0, 576.0],
     "A divisor divides the standard deviation, which is the root of the variance: 24."),
    ("the footnote's numbers", [16.0, 1.0, 4.0],
     "These hold for entries of variance 1. Here one product has the variance 4 times 9."),
    ("the two variances added", [16 * 13.0, 13**0.5, 208**0.5],
     "The variance of a product of independent numbers with mean 0 is the product of their "
     "variances. It is for sums that variances add."),
    ("standard deviations in place of variances", [16 * 6.0, 6**0.5, 96**0.5],
     "2 and 3 are the standard deviations of the entries. The variance of a product is 4 times 9."),
    ("the variances squared", [16 * 36.0**2, 36.0, 4 * 36.0],
     "E[q^2] is the variance of q itself, since its mean is 0: 4, not 4 squared."),
    ("standard deviations added up", [96.0**2, 24.0, 96.0],
     "The standard deviation of one product is 6, but in a sum of independent terms the variances "
     "add, not the standard deviations. The terms partly cancel."),
    ("one product instead of the sum", [36.0, 1.5, 6.0],
     "36 is the variance of one product q_i k_i. The dot product adds d_k = 16 of them."),
    ("a standard deviation in the first place", [24.0, 6.0, 24.0],
     "24 is the standard deviation of q . k. The task asks for its variance first."),
    ("a variance in the second place", [576.0, 36.0, 24.0],
     "After the division the variance is 36. The standard deviation is its root."),
    ("divided by d_k in the second place", [576.0, 1.5, 24.0],
     "The standard deviation before the division is 24. It is divided by the root of 16."),
    ("not divided in the second place", [576.0, 24.0, 24.0],
     "24 is the standard deviation of q . k. The task asks for it after the division."),
    ("the root of d_k as the divisor", [576.0, 6.0, 4.0],
     "Divided by 4, the scores still have the standard deviation 6, as you found."),
    ("a divisor for what was already divided", [576.0, 6.0, 6.0],
     "6 brings the scores to 1 after they were divided by 4. Asked is the divisor of q . k."),
    ("d_k as the divisor", [576.0, 6.0, 16.0],
     "Divided by 16, the scores would have the standard deviation 1.5."),
    ("the variance of the queries' entries alone", [64.0, 2.0, 8.0],
     "The keys' entries vary, too: the variance of one product is 4 times 9."),
    ("the variance of the keys' entries alone", [144.0, 3.0, 12.0],
     "The queries' entries vary, too: the variance of one product is 4 times 9."),
    ("divided by its own divisor, or the root taken to bring any scores to 1, in the second place",
     [576.0, 1.0, 24.0],
     "One is what the right divisor gives. Asked for second is what the root of d_k leaves."),
    ("one product instead of the sum, and the root taken to bring any scores to 1",
     [36.0, 1.0, 6.0], f"There are 16 products. {TO_ONE}"),
    ("the root taken to bring any scores to 1, and nothing left to divide by", [576.0, 1.0, 1.0],
     TO_ONE),
    ("one product, and not divided", [36.0, 6.0, 6.0],
     "36 is the variance of one product q_i k_i. The dot product adds d_k = 16 of them."),
    ("a factor in place of the divisor", [576.0, 6.0, 1 / 24],
     "That is what to multiply q . k by. The task asks for what to divide it by."),
    ("the variance as the divisor", [576.0, 6.0, 576.0],
     "A divisor divides the standard deviation, and the variance by its square."),
    ("the divisor left out", [576.0, 6.0],
     "Three numbers are asked for: the third is what q . k itself would have to be divided by."),
    ("one product in the first place", [36.0, 6.0, 24.0],
     "36 is the variance of one product q_i k_i, and of the scores after the division. q . k adds "
     "d_k = 16 of them."),
    ("the standard deviations of the two factors added", [16 * 25.0, 5.0, 20.0],
     "In a product of independent numbers with mean 0 variances are multiplied, 4 times 9, and so "
     "are standard deviations, 2 times 3."),
    ("the standard deviations multiplied, and 16 of them added up, in the first place",
     [96.0, 6.0, 24.0],
     "Variances of independent terms add: 16 times 36, not 16 times 6."),
    ("the variance after the division in both the second and the third place",
     [576.0, 36.0, 36.0],
     "After the division the variance is 36, the standard deviation its root. The divisor that "
     "brings q . k to 1 is the standard deviation of q . k."),
    ("the variance divided by the root, in the second place", [576.0, 144.0, 24.0],
     "The standard deviation is divided by the root of d_k: 24 / 4."),
    ("the second and the third exchanged", [576.0, 24.0, 6.0],
     "All three numbers are right. The standard deviation after the division comes second."),
    ("the variance of one product as the divisor", [576.0, 6.0, 36.0],
     "The divisor is the standard deviation of q . k, the root of 576."),
    ("the variances added for one product", [13.0, 13**0.5 / 4, 13**0.5],
     "The variance of a product of independent factors is the product of their variances, 36, and "
     "there are 16 of them."),
    ("the width left out of the sum, and divided by it", [36.0, 36.0 / 4, 6.0],
     "The variance of q . k is 16 times that of one product."),
    ("the variance once more in the third place, under a root of 16", [576.0, 6.0, 144.0],
     "The divisor is the standard deviation, 24."),
    *pairs_of_spreads(),
    ("variances in place of standard deviations, in the second and the third", [576.0, 36.0, 576.0],
     "The second is a standard deviation, and to bring that of q . k to 1 it is divided by it: "
     "both are roots."),
    ("d_k under a root in the variance", [144.0, 6.0, 12.0],
     "The variances of d_k = 16 products add up: 16 times 36."),
    ("divided by the fourth root of d_k in the second place, or the variance by the root",
     [576.0, 12.0, 24.0],
     "The scores are divided by the root of 16, which is 4, and so is their standard deviation."),
    ("a root too many in the third place", [576.0, 6.0, 6**0.5],
     "The divisor is the standard deviation of q . k itself, the root of the variance."),
    ("a variance divided by the root in the second place", [576.0, 9.0, 24.0],
     "The standard deviation of q . k is 24, and is divided by the root of 16."),
    ("the two variances added, and d_k left out", [13.0, 13**0.5, 13**0.5],
     "Variances of factors are multiplied, and q . k has d_k = 16 such products."),
)  # fmt: skip

# 6.4 attention


def scaled_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (_raw(q, k) / q.shape[-1] ** 0.5).softmax(-1) @ v


def attention_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(64)
    sizes = [(2, 3, 4, 5, 6, 7), (1, 2, 3, 3, 8, 5), (2, 1, 1, 3, 2, 1)]  # B, H, T, S, K, V
    printed = [[[[2.0, 0.0]]]], [[[[0.0, 0.0], [1.0, 0.0]]]], [[[[0.0], [1.0]]]]
    return [tuple(map(torch.tensor, printed))] + [
        tuple(
            torch.randn(*shape, generator=draw)
            for shape in ((b, h, t, d), (b, h, s, d), (b, h, s, e))
        )
        for b, h, t, s, d, e in sizes
    ]


def _divided(q: Tensor, k: Tensor, v: Tensor, by: float | int) -> Tensor:
    return (_raw(q, k) / by).softmax(-1) @ v


def _over(q: Tensor, k: Tensor, v: Tensor, dim: int) -> Tensor:
    return (_raw(q, k) / q.shape[-1] ** 0.5).softmax(dim) @ v


def _over_all(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = _raw(q, k) / q.shape[-1] ** 0.5
    return scores.flatten(-2).softmax(-1).view_as(scores) @ v


def _unit(x: Tensor) -> Tensor:
    return normalize(x, dim=-1)


def _attend_with(
    divisor: Callable[[Tensor, Tensor, Tensor], float] = lambda q, k, v: q.shape[-1] ** 0.5,
    keys: Callable[[Tensor], Tensor] = lambda k: k.mT,
    axis: int | None = -1,
    after: Callable[[Tensor, Tensor], Tensor] = lambda w, q: w,
    give: Callable[[Tensor, Tensor], object] = lambda w, v: w @ v,
) -> Callable[[Tensor, Tensor, Tensor], object]:
    """Equation (1), right by default; each argument makes one slip."""

    def attend(q: Tensor, k: Tensor, v: Tensor) -> object:
        scores = q @ keys(k) / divisor(q, k, v)
        return give(after(scores if axis is None else scores.softmax(axis), q), v)

    return attend


ATTENTION_SLIPS = [
    ("no division by the root", {"divisor": lambda q, k, v: 1.0}, "Divide by the root of d_k."),
    ("divided by d_k, without the root", {"divisor": lambda q, k, v: q.shape[-1]},
     "Divide by the root of d_k."),
    ("multiplied by the root", {"divisor": lambda q, k, v: q.shape[-1] ** -0.5},
     "Divide by the root of d_k."),
    ("the root of d_model", {"divisor": lambda q, k, v: (q.shape[1] * q.shape[-1]) ** 0.5},
     "d_k is the width of one head."),
    ("the root of the number of keys", {"divisor": lambda q, k, v: k.shape[-2] ** 0.5},
     "d_k is the last axis of q."),
    ("the root of the number of heads", {"divisor": lambda q, k, v: q.shape[1] ** 0.5},
     "d_k is the last axis of q."),
    ("the root of the values' width", {"divisor": lambda q, k, v: v.shape[-1] ** 0.5},
     "d_k is the last axis of q."),
    ("the softmax over the queries", {"axis": -2}, SUMS_TO_ONE),
    ("the softmax over the heads", {"axis": 1}, SUMS_TO_ONE),
    ("no softmax", {"axis": None}, "Weights are the softmax of the scores."),
    ("keys reshaped, not transposed",
     {"keys": lambda k: k.reshape(*k.shape[:2], k.shape[3], k.shape[2])},
     "A reshape cuts the rows anew."),
    ("divided after the softmax as well", {"after": lambda w, q: w / q.shape[-1] ** 0.5},
     "Weights sum to one: nothing divides them."),
    ("divided after the softmax", {
        "divisor": lambda q, k, v: 1.0, "after": lambda w, q: w / q.shape[-1] ** 0.5},
     ROOT_BEFORE),
    ("the weights instead of the outputs", {"give": lambda w, v: w}, "Outputs are asked for."),
    ("outputs and weights", {"give": lambda w, v: (w @ v, w)}, "Outputs alone are asked for."),
]  # fmt: skip
ATTENTION_BUT = [
    ("no division by the root", "divided after the softmax as well"),
    ("no softmax", "divided after the softmax as well"),
    ("no softmax", "divided after the softmax"),
    ("multiplied by the root", "no softmax"),
    ("no division by the root", "no softmax"),
]


ATTENTION_MISTAKES = mistakes(
    ("no division by the root", lambda q, k, v: _divided(q, k, v, 1),
     "The scores went into the softmax as they were. Equation (1) divides them by the root of d_k, "
     "so that wide vectors look no harder than narrow ones."),
    ("divided by d_k, without the root", lambda q, k, v: _divided(q, k, v, q.shape[-1]),
     "It is the variance that grows like d_k. The spread of the scores grows like its root. "
     "(Dividing q and k by the root each comes to the same as dividing by d_k.)"),
    ("half of a d_k-th instead of a root", lambda q, k, v: _divided(q, k, v, 2 * q.shape[-1]),
     HALF),
    ("the root of d_model", lambda q, k, v: _divided(q, k, v, (q.shape[1] * q.shape[-1]) ** 0.5),
     "A query inside a head has d_k = d_model / n_heads entries, and its dot products have the "
     "variance d_k. The width of the whole model does not come into it."),
    ("divided by d_model", lambda q, k, v: _divided(q, k, v, q.shape[1] * q.shape[-1]),
     "The divisor is the root of d_k, the width of one query inside its head."),
    ("the root of the number of heads", lambda q, k, v: _divided(q, k, v, q.shape[1] ** 0.5),
     "The dot product sums over d_k entries. How many heads there are does not matter."),
    ("divided by the number of heads", lambda q, k, v: _divided(q, k, v, q.shape[1]),
     "In the base model the root of d_k happens to be 8, the number of heads. The dot product sums "
     "over d_k entries, and its root is meant."),
    ("the root of the values' width", lambda q, k, v: _divided(q, k, v, v.shape[-1] ** 0.5),
     "The values are not in the scores. It is the width of queries and keys that counts."),
    ("the root of the number of keys", lambda q, k, v: _divided(q, k, v, k.shape[-2] ** 0.5),
     "d_k is the width of a key, its last axis, and not the length of the sentence."),
    ("the root of the number of queries", lambda q, k, v: _divided(q, k, v, q.shape[-2] ** 0.5),
     "d_k is the width of a query, its last axis, and not the length of the sentence."),
    ("the root of the batch size", lambda q, k, v: _divided(q, k, v, q.shape[0] ** 0.5),
     "d_k is the last axis of q, not the first."),
    ("always divided by 8", lambda q, k, v: _divided(q, k, v, 8), BASE_MODEL),
    ("always divided by the root of 2", lambda q, k, v: _divided(q, k, v, 2**0.5),
     "2 is d_k in the example. Take d_k from the shape of q."),
    ("minus the scores", lambda q, k, v: _divided(q, k, v, -(q.shape[-1] ** 0.5)),
     "The key with the highest score gets the most weight, not the least."),
    ("the future hidden",
     lambda q, k, v: (
         (_raw(q, k) / q.shape[-1] ** 0.5)
         .masked_fill(torch.ones(q.shape[-2], k.shape[-2]).triu(1).bool(), -torch.inf)
         .softmax(-1)
         @ v
     ),
     "There is no mask here: every query may attend to every key, also to later ones."),
    ("divided before the softmax and after it",
     lambda q, k, v: scaled_attention(q, k, v) / q.shape[-1] ** 0.5,
     "The scores are divided once, before the softmax. After it the weights must sum to one."),
    ("divided after the softmax", lambda q, k, v: _raw(q, k).softmax(-1) / q.shape[-1] ** 0.5 @ v,
     "The weights of a query no longer sum to one, and the softmax was as hard as before. "
     + ROOT_BEFORE),
    *(
        (f"divided after the softmax, and by {what}",
         lambda q, k, v, of=of: _raw(q, k).softmax(-1) / of(q, k) @ v,
         "The weights of a query no longer sum to one, and the softmax was as hard as before. "
         f"{ROOT_BEFORE} {more}")
        for what, of, more in (
            ("d_k, without the root", lambda q, k: q.shape[-1], "And by the root of d_k."),
            ("the root of the number of keys", lambda q, k: k.shape[-2] ** 0.5,
             "And by the root of d_k, which is the last axis of q."),
            ("the number of keys", lambda q, k: k.shape[-2],
             "And by the root of d_k, which is the last axis of q."),
            ("the root of d_model", lambda q, k: (q.shape[1] * q.shape[-1]) ** 0.5,
             "And by the root of d_k, the width of one head."),
        )
    ),
    ("multiplied by the root", lambda q, k, v: _divided(q, k, v, q.shape[-1] ** -0.5),
     "The scores are too large already. They are divided by the root of d_k."),
    ("the root taken twice", lambda q, k, v: _divided(q, k, v, q.shape[-1] ** 0.25),
     "One square root is enough. (If q alone was divided by the fourth root, so should k be.)"),
    ("cosines in place of scaled dot products",
     lambda q, k, v: _raw(_unit(q), _unit(k)).softmax(-1) @ v,
     "The dot products were divided by the lengths of their vectors. The scale of equation (1) is "
     "one number for all, so that a net can still make some vectors longer than others."),
    ("the softmax over the queries", lambda q, k, v: _over(q, k, v, -2), SUMS_TO_ONE),
    ("the softmax over the heads", lambda q, k, v: _over(q, k, v, 1),
     f"{SUMS_TO_ONE} {OF_HEADS}"),
    ("the softmax over the batch", lambda q, k, v: _over(q, k, v, 0),
     SUMS_TO_ONE + " Axis 0 is that of the sentences."),
    ("the softmax over the whole table", _over_all,
     "All queries of a head together sum to one. Each of them should."),
    *((f"one sum for {what}",
       lambda q, k, v, axes=axes: (e := (_raw(q, k) / q.shape[-1] ** 0.5).exp())
       / e.sum(axes, keepdim=True) @ v,
       "The exponentials of a query are divided by the sum of its own row: "
       "`sum(-1, keepdim=True)`.")
      for what, axes in (("the whole batch", (0, 1, 2, 3)), ("all heads together", (1, 2, 3)))),
    ("queries and keys exchanged", lambda q, k, v: scaled_attention(k, q, v),
     "Rows are queries and columns are keys. Here the keys ask, which does not even fit when there "
     "are more keys than queries."),
    ("the table of weights turned round",
     lambda q, k, v: (_raw(q, k) / q.shape[-1] ** 0.5).softmax(-1).mT @ v,
     "Rows are queries and columns are keys, and each query averages with its own row."),
    ("the softmax taken twice",
     lambda q, k, v: (_raw(q, k) / q.shape[-1] ** 0.5).softmax(-1).softmax(-1) @ v,
     "The weights were put through the softmax once more, which makes them almost equal."),
    ("a sigmoid in place of the softmax",
     lambda q, k, v: (_raw(q, k) / q.shape[-1] ** 0.5).sigmoid() @ v,
     "A sigmoid looks at each score on its own. Weights must sum to one for each query."),
    ("the logarithm of the softmax",
     lambda q, k, v: (_raw(q, k) / q.shape[-1] ** 0.5).log_softmax(-1) @ v,
     "The weights themselves are needed here, not their logarithms, which are negative."),
    ("no softmax", lambda q, k, v: _raw(q, k) / q.shape[-1] ** 0.5 @ v,
     "The values were weighted with the scores. Scores become weights through the softmax."),
    ("exponentials that were not divided by their sum",
     lambda q, k, v: (_raw(q, k) / q.shape[-1] ** 0.5).exp() @ v,
     "Weights must sum to one for each query: divide by the sum of the exponentials."),
    ("a hard look-up",
     lambda q, k, v: (_raw(q, k) == _raw(q, k).max(-1, keepdim=True).values).to(v.dtype) @ v,
     "Only the value of the best key came back. A soft look-up gives every value its share."),
    ("the plain average of the values",
     lambda q, k, v: v.mean(-2, keepdim=True).expand(*q.shape[:-1], v.shape[-1]),
     "Every query got the same. The weights should depend on queries and keys."),
    ("keys reshaped, not transposed",
     lambda q, k, v: (
         (q @ k.reshape(*k.shape[:2], k.shape[3], k.shape[2]) / q.shape[-1] ** 0.5).softmax(-1)
         @ v
     ),
     "A reshape gives the right shape and the wrong numbers: it cuts the same row of numbers anew, "
     "so that each column holds pieces of several keys. A transpose exchanges the axes."),
    ("the weights instead of the outputs",
     lambda q, k, v: (_raw(q, k) / q.shape[-1] ** 0.5).softmax(-1),
     "The weights are right. Now average the values with them."),
    ("outputs and weights",
     lambda q, k, v: (scaled_attention(q, k, v), (_raw(q, k) / q.shape[-1] ** 0.5).softmax(-1)),
     "Both may be right, but the task asks for the outputs and nothing else."),
    ("the keys of the first head for all", lambda q, k, v: scaled_attention(
        q, k[:, :1].expand_as(k), v
    ),
     "Each head has keys of its own."),
    ("the keys averaged instead of the values", lambda q, k, v: scaled_attention(q, k, k),
     "Keys are there to be compared with the query. What is averaged are the values."),
    ("the mean over the heads", lambda q, k, v: scaled_attention(q, k, v).mean(1),
     "Every head has outputs of its own: (B, H, T, d_v)."),
    ("the root rounded to a whole number",
     lambda q, k, v: _divided(q, k, v, int(k.shape[-1] ** 0.5)),
     "The root of d_k need not be whole: divide by it as it is."),
    ("the root rounded down by //, of half the width",
     lambda q, k, v: _divided(q, k, v, max((k.shape[-1] // 2) ** 0.5, 1.0)),
     "It is the root of d_k, not d_k divided by two."),
    ("half of d_k", lambda q, k, v: _divided(q, k, v, k.shape[-1] / 2),
     "The square root of d_k is meant, not the half of it."),
    ("divided by the root of the values' width after the softmax",
     lambda q, k, v: _raw(q, k).softmax(-1) / v.shape[-1] ** 0.5 @ v, ROOT_BEFORE),
    ("the root of d_k and one more", lambda q, k, v: _divided(q, k, v, (q.shape[-1] + 1) ** 0.5),
     "The variance of q . k is d_k, and its root divides."),
    ("the root of d_k less one",
     lambda q, k, v: _divided(q, k, v, max(q.shape[-1] - 1, 1) ** 0.5),
     "The variance of q . k is d_k, and its root divides."),
    ("the root of twice d_k", lambda q, k, v: _divided(q, k, v, (2 * q.shape[-1]) ** 0.5),
     "The variance of q . k is d_k, and its root divides."),
    ("tanh of the scores",
     lambda q, k, v: (_raw(q, k) / q.shape[-1] ** 0.5).tanh().softmax(-1) @ v,
     "The scores go into the softmax as they are, divided by the root."),
    ("the ReLU in place of the exponential",
     lambda q, k, v: (p := _raw(q, k).relu()) / p.sum(-1, keepdim=True).clamp(min=1e-9) @ v,
     "The weights are the softmax of the scores."),
    ("the heads put side by side",
     lambda q, k, v: scaled_attention(q, k, v).transpose(1, 2).flatten(2),
     "The outputs are asked for head by head, (B, H, T, d_v)."),
    ("scores divided by their largest", lambda q, k, v: (
        (s := _raw(q, k)) / s.abs().amax(-1, keepdim=True).clamp(min=1e-9)).softmax(-1) @ v,
     "The root of d_k divides, the same for all."),
    ("scores divided by their spread", lambda q, k, v: (
        (s := _raw(q, k)) / s.std().clamp(min=1e-9)).softmax(-1) @ v,
     "The root of d_k divides: it is the spread for random vectors, and it is not measured."),
    ("the logarithm of d_k in place of its root",
     lambda q, k, v: _divided(q, k, v, math.log(q.shape[-1]) or 1.0),
     "Divide by the root of d_k, as the variance of q . k is d_k."),
    ("the square of d_k", lambda q, k, v: _divided(q, k, v, q.shape[-1] ** 2),
     "Divide by the *root* of d_k."),
    ("queries, keys and scores divided by the root",
     lambda q, k, v: _divided(q, k, v, q.shape[-1] ** 1.5),
     "The scores are divided by the root of d_k once."),
    ("cosines in place of dot products, and divided by the root",
     lambda q, k, v: (_raw(_unit(q), _unit(k)) / q.shape[-1] ** 0.5).softmax(-1) @ v,
     "Equation (1) has the dot product, with the lengths of query and key."),
    ("the squared distance in place of the dot product",
     lambda q, k, v: (-torch.cdist(q, k).square() / q.shape[-1] ** 0.5).softmax(-1) @ v,
     "Equation (1) has the dot product."),
    *combined(_attend_with, ATTENTION_SLIPS, but=ATTENTION_BUT),
    ("a softmax of the queries as well",
     lambda q, k, v: scaled_attention(q.softmax(-1), k, v),
     "The softmax is taken of the scores alone. Queries and keys enter as they are."),
    ("a softmax of the keys as well",
     lambda q, k, v: scaled_attention(q, k.softmax(-1), v),
     "The softmax is taken of the scores alone. Queries and keys enter as they are."),
    ("a softmax of the queries and of the keys as well",
     lambda q, k, v: scaled_attention(q.softmax(-1), k.softmax(-1), v),
     "The softmax is taken of the scores alone. Queries and keys enter as they are."),
    ("the first head's weights for all", lambda q, k, v: (
        (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)[:, :1] @ v),
     "Each head has its own weights."),
    ("the first sentence's weights for all", lambda q, k, v: (
        (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)[:1] @ v),
     "Each sentence has its own weights."),
    ("the values averaged over the heads",
     lambda q, k, v: _divided(q, k, v.mean(1, keepdim=True).expand_as(v), q.shape[-1] ** 0.5),
     "Each head has values of its own."),
    ("the third root of d_k", lambda q, k, v: _divided(q, k, v, q.shape[-1] ** (1 / 3)),
     "It is the square root that makes the spread 1."),
    ("divided by `//`, which rounds down",
     lambda q, k, v: (q @ k.mT // q.shape[-1] ** 0.5).softmax(-1) @ v,
     "`//` keeps whole numbers alone. Scores are divided by `/`."),
    ("the queries brought to length one",
     lambda q, k, v: scaled_attention(q / q.norm(dim=-1, keepdim=True), k, v),
     "Equation (1) divides by the root of d_k, and by no vector's length."),
    ("the sum of the values",
     lambda q, k, v: v.sum(-2, keepdim=True).expand(*q.shape[:-1], v.shape[-1]),
     "Every query got the same, and every key a weight of one. The weights of a query share one."),
    ("scores divided by their sum, without the exponentials",
     lambda q, k, v: (s := _raw(q, k)) / s.sum(-1, keepdim=True) @ v,
     "A softmax takes the exponential of each score first. Scores have both signs, and so have "
     "such weights."),
    ("powers of 2 in place of exponentials",
     lambda q, k, v: (_raw(q, k) / q.shape[-1] ** 0.5 * math.log(2)).softmax(-1) @ v,
     "The softmax has the natural exponential, with the base e."),
)  # fmt: skip


def _between_the_values(output: Tensor, q: Tensor, k: Tensor, v: Tensor) -> bool:
    output = torch.as_tensor(output).to(v.dtype)
    low, high = v.amin(-2, keepdim=True), v.amax(-2, keepdim=True)
    return bool(((output > low - 1e-4) & (output < high + 1e-4)).all())


# 6.5 find the mistakes


def mended(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor, early=True, root=True, hidden=True
) -> Tensor:
    """Attention under a mask, with each of three mistakes mended or not."""
    divisor = (q if root else k).shape[-1 if root else -2] ** 0.5
    scores = _raw(q, k) / (divisor if early else 1)
    if hidden:
        weights = scores.masked_fill(~mask, -torch.inf).softmax(-1).masked_fill(~mask, 0.0)
    else:
        weights = scores.softmax(-1) * mask
    return weights / (1 if early else divisor) @ v


def masked_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(65)
    cases = []
    for q, k, v in attention_cases():
        mask = torch.rand(*q.shape[:-1], k.shape[-2], generator=draw) < 0.6
        mask[..., 0, :] = mask.any(-1)[..., :1] & mask[..., 0, :]
        if q.shape[-2] > 1:
            mask[0, 0, 1] = False  # a query that may attend to nothing
            mask[0, 0, 0, 0] = True
        cases.append((q, k, v, mask))
    low = [[[[14.0, 0.0]]]], [[[[-4.0, 0.0], [-4.1, 0.0], [1.0, 0.0]]]], [[[[1.0], [3.0], [9.0]]]]
    less = [[[[14.0, 0.0]]]], [[[[-0.4, 0.0], [-0.41, 0.0], [0.0, 0.0]]]], [[[[1.0], [3.0], [9.0]]]]
    two = torch.tensor([[[[True, True, False]]]])
    return [*cases, *((*map(torch.tensor, case), two) for case in (low, less))]


def _fill(value: float, again: bool = False, inverted: bool = False):
    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        off = mask if inverted else ~mask
        weights = (_raw(q, k) / q.shape[-1] ** 0.5).masked_fill(off, value).softmax(-1)
        return (weights.masked_fill(off, 0.0) if again else weights) @ v

    return attend


def _left(why: str, **left: bool) -> tuple:
    return (lambda *case: mended(*case, **left)), why


AFTER = "The division still comes after the softmax, which is as hard as before."
KEYS = "The number of keys is no width. The root of d_k is meant: the last axis of q."
SHARE = (
    "What is hidden had its share before it was struck out, so the rest sums to less than one. "
    "Hide the scores before the softmax, by minus infinity."
)


def _masked_with(
    divisor: Callable[[Tensor, Tensor], float] = lambda q, k: q.shape[-1] ** 0.5,
    late: bool = False,
    weigh: Callable[[Tensor, Tensor, int], Tensor] = lambda s, mask, axis: (
        s.masked_fill(~mask, -torch.inf).softmax(axis).nan_to_num()
    ),
    axis: int = -1,
) -> Callable[..., Tensor]:
    """Attention under a mask, right by default; each argument makes one slip."""

    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        by = divisor(q, k)
        return weigh(_raw(q, k) / (1 if late else by), mask, axis) / (by if late else 1) @ v

    return attend


MASKED_SLIPS = [
    ("the root of the number of keys", {"divisor": lambda q, k: k.shape[-2] ** 0.5}, KEYS),
    ("the root of the number of queries", {"divisor": lambda q, k: q.shape[-2] ** 0.5}, KEYS),
    ("the root of the number of heads", {"divisor": lambda q, k: q.shape[1] ** 0.5}, KEYS),
    ("divided by d_k, without the root", {"divisor": lambda q, k: q.shape[-1]},
     "Divide by the root of d_k."),
    ("no division", {"divisor": lambda q, k: 1.0}, "Divide by the root of d_k."),
    ("the division after the softmax", {"late": True}, AFTER),
    ("the mask after the softmax", {"weigh": lambda s, mask, axis: s.softmax(axis) * mask}, SHARE),
    ("no mask", {"weigh": lambda s, mask, axis: s.softmax(axis)}, "Hide what the mask hides."),
    ("hidden scores set to 0",
     {"weigh": lambda s, mask, axis: s.masked_fill(~mask, 0.0).softmax(axis)},
     "The exponential of 0 is 1: hidden keys get a share."),
    ("the mask inverted",
     {"weigh": lambda s, mask, axis: s.masked_fill(mask, -torch.inf).softmax(axis).nan_to_num()},
     "True means that a query may attend."),
    ("NaN for a query that may attend to nothing",
     {"weigh": lambda s, mask, axis: s.masked_fill(~mask, -torch.inf).softmax(axis)},
     "A row of minus infinities becomes NaN: make it zeros."),
    ("an even share for a query that may attend to nothing",
     {"weigh": lambda s, mask, axis: s.masked_fill(~mask, -1e9).softmax(axis)},
     "A query that may attend to nothing gets zeros."),
    ("the softmax over the queries", {"axis": -2}, SUMS_TO_ONE),
    ("the softmax over the heads", {"axis": 1}, SUMS_TO_ONE),
]  # fmt: skip
MASKED_BUT = [
    ("the root of the number of keys", "the division after the softmax"),
    ("the root of the number of keys", "the mask after the softmax"),
    ("the division after the softmax", "the mask after the softmax"),
    ("no division", "the division after the softmax"),
]


def mended_weights(q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
    scores = _raw(q, k) / q.shape[-1] ** 0.5
    return scores.masked_fill(~mask, -torch.inf).softmax(-1).masked_fill(~mask, 0.0)


def _one_mask(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, before: Tensor) -> Tensor:
    """Attention with one mask before the softmax and another after it."""
    scores = (_raw(q, k) / q.shape[-1] ** 0.5).masked_fill(~before, -torch.inf)
    return scores.softmax(-1).masked_fill(~mask, 0.0) @ v


MENDED_MISTAKES = mistakes(
    ("as it was", *_left(f"{SHARE} {KEYS} {AFTER}", early=False, root=False, hidden=False)),
    ("the division still after the softmax", *_left(AFTER, early=False)),
    ("still the root of the number of keys", *_left(KEYS, root=False)),
    ("the mask still after the softmax", *_left(SHARE, hidden=False)),
    ("only the mask mended", *_left(f"{AFTER} {KEYS}", early=False, root=False)),
    ("only the divisor mended", *_left(f"{AFTER} {SHARE}", early=False, hidden=False)),
    ("only the place of the division mended", *_left(f"{KEYS} {SHARE}", root=False, hidden=False)),
    ("NaN for a query that may attend to nothing", _fill(-torch.inf),
     "There is nothing to share: a softmax of minus infinities alone is 0/0, and so are weights "
     "that are divided by a sum of 0. It should get zeros, as it did before."),
    ("an even share for a query that may attend to nothing", _fill(-1e9),
     "There is nothing to share. (With a large negative number in place of minus infinity, its "
     "scores are all alike.) It should get zeros, as it did before."),
    ("all keys for a query that may attend to nothing",
     lambda q, k, v, mask: (_raw(q, k) / q.shape[-1] ** 0.5 - 1e4 * ~mask).softmax(-1) @ v,
     "Subtracting the same number from all its scores hides none of them. It should get zeros, as "
     "it did before."),
    ("the mask added to the scores as numbers",
     lambda q, k, v, mask: (_raw(q, k) / q.shape[-1] ** 0.5 + mask.float()).softmax(-1) @ v,
     "Adding 1 or 0 hides nothing. What is hidden needs minus infinity."),
    ("hidden scores set to 0", _fill(0.0),
     "A score of 0 is not nothing: its exponential is 1. What is hidden needs minus infinity."),
    ("-10 in place of minus infinity", _fill(-10.0),
     "A hidden key with the score -10 gets more than one whose score is less. What is hidden needs "
     "minus infinity."),
    ("hidden scores set to 0, and struck out after", _fill(0.0, again=True),
     "A score of 0 takes its share of the softmax. What is hidden needs minus infinity."),
    ("the mask inverted", _fill(-torch.inf, again=True, inverted=True),
     "True means: may attend. What is hidden is where the mask is False."),
    ("the weights alone",
     lambda q, k, v, mask: mended(q, k, torch.eye(k.shape[-2]).expand(*k.shape[:2], -1, -1), mask),
     "These are the weights. They are still to average the values."),
    ("no mask", lambda q, k, v, mask: scaled_attention(q, k, v),
     "The mask is not used any more."),
    ("divided by d_k, without the root",
     lambda q, k, v, mask: mended(q / q.shape[-1] ** 0.5, k, v, mask),
     "The variance grows like d_k, the spread like its root: divide by the root."),
    ("no division", lambda q, k, v, mask: mended(q * q.shape[-1] ** 0.5, k, v, mask),
     "The division was in the wrong place, not wrong: the scores are divided by the root of d_k."),
    ("divided before the softmax and after it",
     lambda q, k, v, mask: mended(q, k, v, mask) / q.shape[-1] ** 0.5,
     "Once is enough, before the softmax."),
    ("the softmax over the queries",
     lambda q, k, v, mask: (
         (_raw(q, k) / q.shape[-1] ** 0.5).masked_fill(~mask, -torch.inf).softmax(-2)
         .nan_to_num() @ v
     ),
     SUMS_TO_ONE),
    ("divided by the root of the number of queries",
     lambda q, k, v, mask: _masked_with(divisor=lambda q, k: q.shape[-2] ** 0.5)(q, k, v, mask),
     "The number of queries is no width. The root of d_k is meant: the last axis of q."),
    ("divided by the root of the number of heads",
     lambda q, k, v, mask: _masked_with(divisor=lambda q, k: q.shape[1] ** 0.5)(q, k, v, mask),
     "It is no matter how many heads there are. The root of d_k is meant: the last axis of q."),
    ("outputs of queries that may attend to nothing struck out, and no mask else",
     lambda q, k, v, mask: scaled_attention(q, k, v) * mask.any(-1, keepdim=True),
     "Hide each key that a query may not attend to, before the softmax."),
    ("a hidden score a little lower, and struck out after", lambda q, k, v, mask: (
        (_raw(q, k) / q.shape[-1] ** 0.5).masked_fill(~mask, -3.0).softmax(-1) * mask @ v),
     "Hide by minus infinity: any other number leaves a share, which is then missing."),
    ("a hidden score of minus ten, and struck out after", lambda q, k, v, mask: (
        (_raw(q, k) / q.shape[-1] ** 0.5).masked_fill(~mask, -10.0).softmax(-1) * mask @ v),
     "Hide by minus infinity: any other number leaves a share, which is then missing."),
    ("a mask made of the columns, for all queries alike",
     lambda q, k, v, mask: mended(q, k, v, mask.any(-2, keepdim=True).expand_as(mask)),
     "Each query has its own row in the mask."),
    ("the first query's mask for all",
     lambda q, k, v, mask: mended(q, k, v, mask[..., :1, :].expand_as(mask)),
     "Each query has its own row in the mask."),
    ("the softmax of the weights again",
     lambda q, k, v, mask: mended(q, k, torch.eye(k.shape[-2]).expand(*k.shape[:3], -1), mask)
     .softmax(-1) @ v,
     "The softmax is taken once."),
    ("what is left shared out again, with a thousandth below the line",
     lambda q, k, v, mask: (
         (w := (_raw(q, k) / q.shape[-1] ** 0.5).softmax(-1) * mask)
         / (w.sum(-1, keepdim=True) + 1e-3)
     ) @ v,
     "Weights of one query sum to exactly one. Hide the scores before the softmax."),
    ("hardly anything left where hidden keys score far higher",
     lambda q, k, v, mask: (
         (w := (_raw(q, k) / q.shape[-1] ** 0.5).softmax(-1) * mask)
         / w.sum(-1, keepdim=True).clamp(min=1e-9)
     ) @ v,
     "A hidden key, or a finite number in its place, takes nearly all. What is left is next to "
     "nothing, less than a floor below the line. Hide the scores before, by minus infinity."),
    *combined(_masked_with, MASKED_SLIPS, but=MASKED_BUT),
    ("the mask on the values", lambda q, k, v, mask: (
        (_raw(q, k) / q.shape[-1] ** 0.5).softmax(-1) @ (v * mask.any(-2).unsqueeze(-1))
    ),
     "Setting values to zero leaves their keys a share of the weights. Hide the scores."),
    ("the mask of the first head for all",
     lambda q, k, v, mask: mended(q, k, v, mask[:, :1].expand_as(mask)),
     "The mask is (B, H, T, S): each head has its own."),
    ("the mask of the first sentence for all",
     lambda q, k, v, mask: mended(q, k, v, mask[:1].expand_as(mask)),
     "The mask is (B, H, T, S): each sentence has its own."),
    ("the mean over the heads",
     lambda q, k, v, mask: mended(q, k, v, mask).mean(1, keepdim=True).repeat(1, q.shape[1], 1, 1),
     "Every head has outputs of its own."),
    ("queries that may not see the first key set to zero",
     lambda q, k, v, mask: mended(q, k, v, mask) * mask[..., :1],
     "A query gets zeros only if it may attend to nothing: `mask.any(-1)`."),
    *(
        (f"a hidden score of {low}, and struck out after", lambda q, k, v, mask, low=low: (
            (_raw(q, k) / q.shape[-1] ** 0.5).masked_fill(~mask, low).softmax(-1) * mask @ v),
         "Hide by minus infinity: any other number leaves a share, which is then missing.")
        for low in (-5.0, -1.0)
    ),
    ("a causal mask besides", lambda q, k, v, mask: mended(
        q, k, v, mask & torch.ones_like(mask).tril()),
     "The mask says who may attend to whom, and nothing else does: later keys may be looked at."),
    ("divided by the root of the values' width", lambda q, k, v, mask: (
        _masked_with(divisor=lambda q, k: v.shape[-1] ** 0.5)(q, k, v, mask)),
     "The values have no part in the scores. The root of d_k is meant: the last axis of q."),
    ("zeros in all heads where a query may attend to nothing in one", lambda q, k, v, mask: (
        mended(q, k, v, mask) * mask.any(-1, keepdim=True).all(1, keepdim=True)),
     "A query may attend to nothing in one head alone: look at each head's own row of the mask."),
    ("the mask inverted, and NaN", _fill(-torch.inf, inverted=True),
     "True means: may attend. And a query that may attend to nothing should get zeros."),
    ("the softmax over the heads", lambda q, k, v, mask: (
        (_raw(q, k) / q.shape[-1] ** 0.5).masked_fill(~mask, -torch.inf).softmax(1)
        .nan_to_num() @ v),
     f"{SUMS_TO_ONE} {OF_HEADS}"),
    ("one mask for all heads, from any of them", lambda q, k, v, mask: mended(
        q, k, v, mask.any(1, keepdim=True).expand_as(mask)),
     "The mask is (B, H, T, S): each head has its own."),
    ("the mask added to the scores as numbers, and struck out after",
     lambda q, k, v, mask: (
         (_raw(q, k) / q.shape[-1] ** 0.5 + mask.float()).softmax(-1) * mask) @ v,
     "Adding 1 or 0 hides nothing: what is hidden had its share before it was struck out."),
    ("the first head's mask before the softmax",
     lambda q, k, v, mask: _one_mask(q, k, v, mask, mask[:, :1]),
     "Each head has a mask of its own, before the softmax as after it."),
    ("the first sentence's mask before the softmax",
     lambda q, k, v, mask: _one_mask(q, k, v, mask, mask[:1]),
     "Each sentence has a mask of its own, before the softmax as after it."),
    ("equal shares of what may be seen", lambda q, k, v, mask: mended(0 * q, k, v, mask),
     "The scores say how much each key gets."),
    ("the future hidden besides, after the softmax", lambda q, k, v, mask: mended_weights(
        q, k, mask).tril() @ v,
     "The mask that is handed over says who may attend to whom, and nothing else does."),
    ("what any head may see", lambda q, k, v, mask: _one_mask(
        q, k, v, mask, mask.any(1, keepdim=True)),
     "Each head has a mask of its own, before the softmax as after it."),
    ("ones for a query that may attend to nothing", lambda q, k, v, mask: (
        mended_weights(q, k, mask).masked_fill(~mask.any(-1, keepdim=True), 1.0) @ v),
     "Such a query gets zeros: it has nothing to average."),
    ("-1 in place of minus infinity", _fill(-1.0),
     "A hidden key with the score -1 still gets its share. What is hidden needs minus infinity."),
    *((f"{low:g} in place of minus infinity, and zeros for who sees nothing",
       lambda q, k, v, mask, low=low: (
           (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~mask, low).softmax(-1)
           * mask.any(-1, keepdim=True) @ v),
       "It hides only while the real scores are larger. Next to lower ones, what is hidden takes "
       "the look: only minus infinity is below them all.")
      for low in (-1.0, -10.0)),
    ("the last query's mask for all",
     lambda q, k, v, mask: mended(q, k, v, mask[..., -1:, :].expand_as(mask)),
     "Each query has its own row in the mask."),
    ("multiplied by the root",
     lambda q, k, v, mask: mended(q * q.shape[-1], k, v, mask),
     "The scores are too large already. They are divided by the root of d_k."),
    ("half of d_k", lambda q, k, v, mask: mended(2 * q / q.shape[-1] ** 0.5, k, v, mask),
     "The square root of d_k is meant, not the half of it."),
    ("zeros for all", lambda q, k, v, mask: torch.zeros(*q.shape[:-1], v.shape[-1]),
     "True means: may attend. What is hidden before the softmax, where the mask is False, is what "
     "gets 0 after it."),
    ("NaN wherever something is hidden",
     lambda q, k, v, mask: mended(q, k, v, mask).masked_fill(
         ~mask.all(-1, keepdim=True), torch.nan),
     "Is there a division by the mask, or plus infinity among the scores? What is hidden needs "
     "minus infinity."),
    ("no softmax",
     lambda q, k, v, mask: (_raw(q, k) / q.shape[-1] ** 0.5).masked_fill(~mask, 0.0) @ v,
     "The values were weighted with the scores. Scores become weights through the softmax."),
    ("exponentials that were not divided by their sum",
     lambda q, k, v, mask: (_raw(q, k) / q.shape[-1] ** 0.5).exp().masked_fill(~mask, 0.0) @ v,
     "The weights of a query share one: divide by the sum of those in view."),
    ("every key in view with a weight of one",
     lambda q, k, v, mask: mask.to(v.dtype) @ v,
     "The keys in view share one. Does the sum, or the softmax, run over the last axis?"),
    ("hidden keys with a weight of one",
     lambda q, k, v, mask: mended_weights(q, k, mask).masked_fill(~mask, 1.0) @ v,
     "Hidden keys get exactly 0."),
    ("a plain look for a query that may attend to nothing",
     lambda q, k, v, mask: mended(q, k, v, mask | ~mask.any(-1, keepdim=True)),
     "With all its keys back in view, such a query looks at them all. It should get zeros, as it "
     "did before."),
    ("polarity inverted before the softmax alone",
     lambda q, k, v, mask: (_raw(q, k) / q.shape[-1] ** 0.5).masked_fill(mask, -torch.inf)
     .softmax(-1).masked_fill(~mask, 0.0) @ v,
     "True means: may attend. What is hidden before the softmax, where the mask is False, is what "
     "gets 0 after it."),
    ("polarity inverted after the softmax alone",
     lambda q, k, v, mask: (_raw(q, k) / q.shape[-1] ** 0.5).masked_fill(~mask, -torch.inf)
     .softmax(-1).masked_fill(mask, 0.0) @ v,
     "True means: may attend. What is hidden before the softmax, where the mask is False, is what "
     "gets 0 after it."),
    ("plus infinity in place of minus infinity", _fill(torch.inf, again=True),
     "Plus infinity is the highest of all scores. What is hidden needs the lowest."),
    ("the softmax over the sentences",
     lambda q, k, v, mask: (_raw(q, k) / q.shape[-1] ** 0.5).masked_fill(~mask, -torch.inf)
     .softmax(0).nan_to_num() @ v,
     SUMS_TO_ONE + " Axis 0 is that of the sentences."),
    ("zeros for a query that may not attend to all",
     lambda q, k, v, mask: mended(q, k, v, mask) * mask.all(-1, keepdim=True),
     "A query gets zeros only if it may attend to nothing: is `all` taken for `any`? Or plus "
     "infinity for minus infinity, and NaN made 0?"),
    ("the root of the batch size",
     lambda q, k, v, mask: _masked_with(divisor=lambda q, k: len(q) ** 0.5)(q, k, v, mask),
     "The root of d_k is meant: the last axis of q, not the first."),
    ("outputs of one for a query that may attend to nothing",
     lambda q, k, v, mask: mended(q, k, v, mask).masked_fill(~mask.any(-1, keepdim=True), 1.0),
     "Such a query gets zeros: it has nothing to average."),
    ("always divided by 8",
     lambda q, k, v, mask: mended(q * q.shape[-1] ** 0.5 / 8, k, v, mask), BASE_MODEL),
    ("a mask of as many queries as keys transposed",
     lambda q, k, v, mask: mended(
         q, k, v, mask.mT if mask.shape[-2] == mask.shape[-1] else mask),
     "Its rows are queries and its columns keys, as in the scores."),
    ("powers of 2 in place of exponentials",
     lambda q, k, v, mask: mended(q * math.log(2), k, v, mask),
     "The softmax has the natural exponential, with the base e."),
)  # fmt: skip

# 6.6 back through attention

STEP = (
    "Are two outcomes subtracted, and divided by the step between their scores? Such a step is too "
    "large: derive the slope itself."
)


def scores_gradient(scores: Tensor, v: Tensor, g: Tensor) -> Tensor:
    p, agreement = scores.softmax(-1), v @ g
    return p * (agreement - p @ agreement)


def gradient_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(66)
    sizes = [(4, 3), (3, 3), (5, 2), (1, 2)]  # S, V
    printed = torch.zeros(2), torch.tensor([[1.0], [3.0]]), torch.ones(1)
    return [printed] + [
        tuple(torch.randn(*shape, generator=draw) for shape in ((s,), (s, e), (e,)))
        for s, e in sizes
    ]


def _gradient_with(
    front: Callable[[Tensor, Tensor], Tensor] = lambda p, s: p,
    off: Callable[[Tensor, Tensor], Tensor] = lambda p, a: p @ a,
    after: Callable[[Tensor, Tensor], Tensor] = lambda y, g: y,
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """The gradient, right by default; each argument makes one slip."""

    def gradient(scores: Tensor, v: Tensor, g: Tensor) -> Tensor:
        p, a = scores.softmax(-1), v @ g
        return after(front(p, scores) * (a - off(p, a)), g)

    return gradient


GRADIENT_SLIPS = [
    ("not multiplied by the weights", {"front": lambda p, s: torch.ones_like(p)},
     "Each entry is multiplied by the weight of its key."),
    ("scores in place of weights in front", {"front": lambda p, s: s},
     "In front stands the weight of the key, the softmax of the scores."),
    ("the exponentials in front", {"front": lambda p, s: s.exp()},
     "The weight is the exponential divided by the sum of all."),
    ("p (1 - p) in front", {"front": lambda p, s: p * (1 - p)}, "In front stands the weight."),
    ("1 - p in front", {"front": lambda p, s: 1 - p}, "In front stands the weight."),
    ("the weights multiplied twice", {"front": lambda p, s: p * p},
     "Each entry is multiplied by its weight once."),
    ("the plain mean instead of the weighted one", {"off": lambda p, a: a.mean()},
     "p^T p leaves a mean that is weighted with p."),
    ("the plain sum instead of the weighted mean", {"off": lambda p, a: a.sum()},
     "p^T p leaves a mean that is weighted with p."),
    ("the largest in place of the weighted mean", {"off": lambda p, a: a.max()},
     "p^T p leaves a mean that is weighted with p."),
    ("the mean added", {"off": lambda p, a: -(p @ a)}, "Equation (6.8) has a minus."),
    ("the mean not subtracted", {"off": lambda p, a: torch.zeros_like(a)},
     "What a key gains the others lose: subtract the weighted mean."),
    ("the sign turned", {"after": lambda y, g: -y},
     "Where a value agrees with g better than the average, raising its score raises the loss."),
    ("divided by the number of keys", {"after": lambda y, g: y / len(y)},
     "Nothing divides by S."),
    ("the mean of the entries instead of their sum", {"after": lambda y, g: y / len(g)},
     "v @ g is a sum of products over the entries of a value, not their mean."),
]  # fmt: skip
GRADIENT_BUT = [
    ("not multiplied by the weights", "the mean not subtracted"),
    ("p (1 - p) in front", "the mean not subtracted"),
    ("not multiplied by the weights", "divided by the number of keys"),
]


GRADIENT_MISTAKES = mistakes(
    ("the weighted mean not subtracted", lambda scores, v, g: _p(scores) * (v @ g),
     "This is diag(p) alone. What a key gains the others lose: subtract the weighted mean."),
    ("each key on its own, with p (1 - p)",
     lambda scores, v, g: _p(scores) * (1 - _p(scores)) * (v @ g),
     "This uses the diagonal of the Jacobian alone. Each score moves every weight."),
    ("the other keys alone",
     lambda scores, v, g: _p(scores) * (_p(scores) * (v @ g) - _p(scores) @ (v @ g)),
     "These are the slopes beside the diagonal. A key's own weight moves, too: by p (1 - p)."),
    ("back through the logarithm of the softmax",
     lambda scores, v, g: v @ g - _p(scores) * (v @ g).sum(),
     "`log_softmax` has this slope. The weights themselves have diag(p) - p^T p, equation (6.8)."),
    ("the weighted mean alone", lambda scores, v, g: -_p(scores) * (_p(scores) @ (v @ g)),
     "This is the second half of equation (6.8). Its first half, diag(p), is missing."),
    ("the softmax taken of weights", lambda scores, v, g: scores_gradient(_p(scores), v, g),
     "The softmax was taken twice: of the scores, and of the weights once more."),
    ("the gradient of the weights", lambda scores, v, g: v @ g,
     "v @ g is what arrives at the weights. It still has to go back through the softmax."),
    ("not multiplied by the weights", lambda scores, v, g: v @ g - _p(scores) @ (v @ g),
     "Each entry is multiplied by the weight of its key: a key with no weight has no say."),
    ("the mean subtracted after the weights",
     lambda scores, v, g: _p(scores) * (v @ g) - _p(scores) @ (v @ g),
     "The weighted mean belongs inside the brackets: it is multiplied by p as well."),
    ("the plain mean instead of the weighted one",
     lambda scores, v, g: _p(scores) * (v @ g - (v @ g).mean()),
     "p^T p leaves the sum of p_j times v_j . g: a mean weighted with p."),
    ("the plain sum instead of the weighted mean",
     lambda scores, v, g: _p(scores) * (v @ g - (v @ g).sum()),
     "p^T p leaves the sum of p_j times v_j . g: a mean weighted with p."),
    ("the weights multiplied twice",
     lambda scores, v, g: _p(scores) * scores_gradient(scores, v, g),
     "Each entry is multiplied by its weight once: diag(p) and p^T p hold it already."),
    ("the sign turned", lambda scores, v, g: -scores_gradient(scores, v, g),
     "Where a value agrees with g better than the average, raising its score raises the loss."),
    ("the mean added", lambda scores, v, g: _p(scores) * (v @ g + _p(scores) @ (v @ g)),
     "Equation (6.8) has a minus: a key gains by being better than the average, not by its sum."),
    ("scores in place of weights", lambda scores, v, g: scores * (v @ g - scores @ (v @ g)),
     "The p of equation (6.8) is the softmax of the scores."),
    ("values summed without g", lambda scores, v, g: scores_gradient(scores, v, torch.ones_like(g)),
     "The values were summed over their entries. Each entry must be weighted with g."),
    ("the mean of the entries instead of their sum",
     lambda scores, v, g: scores_gradient(scores, v, g) / len(g),
     "v @ g is a sum of products over the entries of a value, not their mean."),
    ("divided by the root of the width",
     lambda scores, v, g: scores_gradient(scores, v, g) / len(g) ** 0.5,
     "The scores are given as they enter the softmax: no scale is left to pass through."),
    ("gradient times score", lambda scores, v, g: scores * scores_gradient(scores, v, g),
     "The gradient is not multiplied by the scores themselves."),
    ("the values through the Jacobian, without g",
     lambda scores, v, g: (torch.diag(_p(scores)) - torch.outer(_p(scores), _p(scores))) @ v,
     "That is how the output moves with each score, (S, d_v). Its entries meet g in a dot "
     "product."),
    ("the entries not summed",
     lambda scores, v, g: _p(scores)[:, None] * (v - _p(scores) @ v) * g,
     "One number for each score: the entries of a value and of g meet in a dot product, a sum."),
    ("the largest in place of the weighted mean",
     lambda scores, v, g: _p(scores) * (v @ g - (v @ g).max()),
     "p^T p leaves the sum of p_j times v_j . g: a mean weighted with p."),
    ("divided by the number of keys",
     lambda scores, v, g: scores_gradient(scores, v, g) / len(scores),
     "The output is a sum of values times weights. Nothing divides by S."),
    ("the output alone in the bracket",
     lambda scores, v, g: _p(scores) * (_p(scores) @ (v @ g)),
     "y . g is what is subtracted. In front of it stands the key's own agreement, v_i . g."),
    ("the exponentials in place of the weights",
     lambda scores, v, g: scores.exp() * (v @ g - _p(scores) @ (v @ g)),
     "The weight is the exponential divided by the sum of all."),
    ("p (1 - p) in front, and the mean taken off",
     lambda scores, v, g: (
         _p(scores) * (1 - _p(scores)) * (v @ g - _p(scores) @ (v @ g))),
     "The 1 - p is in the mean already, which holds p_j of a_j: p_j (a_j - mean)."),
    ("the sum of all slopes", lambda scores, v, g: scores_gradient(scores, v, g).sum(),
     "One slope for each score is asked for. (Their sum is always zero: why?)"),
    ("twice", lambda scores, v, g: 2 * scores_gradient(scores, v, g), "Nothing is doubled."),
    ("the logarithms of the weights in front",
     lambda scores, v, g: _p(scores).log() * (v @ g - _p(scores) @ (v @ g)),
     "In front stands the weight itself."),
    ("the weight left out, and divided by the number of keys",
     lambda scores, v, g: (v @ g - _p(scores) @ (v @ g)) / len(scores),
     "Each score has its own weight in front."),
    ("the agreement times one less the mean",
     lambda scores, v, g: _p(scores) * (v @ g) * (1 - _p(scores) @ (v @ g)),
     "The mean is taken *from* the agreement: p_j (a_j - mean)."),
    ("p squared times the mean taken off",
     lambda scores, v, g: _p(scores) * (v @ g) - _p(scores) ** 2 * (_p(scores) @ (v @ g)),
     "p_j stands before the bracket, once."),
    ("the values' means in place of v @ g", lambda scores, v, g: (
        _p(scores) * (v.mean(-1) - _p(scores) @ v.mean(-1))),
     "The agreement of a value with g is v @ g."),
    ("the output times g", lambda scores, v, g: (_p(scores) @ v) * g,
     "Its sum is the weighted mean y . g. Asked for is one slope for each score."),
    ("the Jacobian before it was summed", lambda scores, v, g: (
        (torch.diag(_p(scores)) - torch.outer(_p(scores), _p(scores))) * (v @ g)),
     "Multiply the Jacobian *by* v @ g: each row is summed."),
    ("the Jacobian of the weights",
     lambda scores, v, g: torch.diag(_p(scores)) - torch.outer(_p(scores), _p(scores)),
     "That is J itself. Multiply it by V g."),
    ("the exponentials in place of the weights, in both places",
     lambda scores, v, g: scores.exp() * (v @ g - scores.exp() @ (v @ g)),
     "The weights are the exponentials divided by their sum."),
    ("divided by the root of the number of keys",
     lambda scores, v, g: scores_gradient(scores, v, g) / len(scores) ** 0.5,
     "Nothing divides by the number of keys."),
    ("the gradient of the output, p V, with respect to nothing",
     lambda scores, v, g: _p(scores) @ v,
     "That is the output y. Asked for is the gradient with respect to the scores."),
    ("the loss's share y . g for all",
     lambda scores, v, g: (_p(scores) @ (v @ g)).expand(len(scores)),
     "That is the weighted mean. Each score needs p_j (a_j - mean)."),
    ("the root of the weights", lambda scores, v, g: (
        _p(scores).sqrt() * (v @ g - _p(scores) @ (v @ g))),
     "In front stands the weight itself."),
    ("the mean taken off twice", lambda scores, v, g: (
        _p(scores) * (v @ g - 2 * _p(scores) @ (v @ g))),
     "The weighted mean is taken off once."),
    ("half of it", lambda scores, v, g: scores_gradient(scores, v, g) / 2, "Nothing is halved."),
    ("the weights of the sign-turned scores",
     lambda scores, v, g: scores_gradient(-scores, v, g),
     "The weights are the softmax of the scores as they are."),
    ("1 - p in front", lambda scores, v, g: (
        (1 - _p(scores)) * (v @ g - _p(scores) @ (v @ g))),
     "In front stands the weight p_j: a key without weight has no slope."),
    ("the whole output summed, without g",
     lambda scores, v, g: _p(scores) * (v @ g - (_p(scores) @ v).sum()),
     "What is subtracted is the output's own agreement with g, y . g."),
    ("p squared times the sum",
     lambda scores, v, g: _p(scores) * (v @ g) - _p(scores) ** 2 * (v @ g).sum(),
     "p_j stands before the sum of p_i times a_i, over all i: each key's own weight belongs "
     "inside the sum."),
    ("brought to length one",
     lambda scores, v, g: torch.nn.functional.normalize(scores_gradient(scores, v, g), dim=0),
     "The length of a gradient counts: it is handed over as it is."),
    ("scores in place of weights in front", lambda scores, v, g: (
        scores * (v @ g - scores.softmax(0) @ v @ g)),
     "In front stands the weight of the key, the softmax of the scores."),
    ("the plain mean taken off after the weights", lambda scores, v, g: (
        (one := scores.softmax(0) * (v @ g)) - one.mean()),
     "What is taken off is the weighted mean of v . g, and before the weight multiplies: "
     "p_j (v_j . g - sum)."),
    ("the key's own part taken off twice",
     lambda scores, v, g: scores_gradient(scores, v, g) - _p(scores) ** 2 * (v @ g),
     "The weighted mean runs over all keys, and its own part is in it: p (1 - p) is diagonal and "
     "mean at once."),
    ("the gradient of the values", lambda scores, v, g: torch.outer(_p(scores), g),
     "That is the gradient with respect to V. Asked for is that of the scores, (S)."),
    ("the weights", lambda scores, v, g: _p(scores),
     "The weights are the beginning. How does the loss change when a score does?"),
    ("only the second half multiplied by the weights",
     lambda scores, v, g: v @ g - _p(scores) * (_p(scores) @ (v @ g)),
     "Both halves of equation (6.8) hold the weight: p_j (a_j - mean)."),
    ("the terms of the weighted mean averaged, not added up",
     lambda scores, v, g: _p(scores) * (v @ g - _p(scores) @ (v @ g) / len(scores)),
     "p^T p leaves the sum of p_j times v_j . g: the weights sum to one already."),
    ("the key's own weight in place of the weighted mean",
     lambda scores, v, g: _p(scores) * (v @ g - _p(scores)),
     "What is taken off is the sum of p_i times v_i . g, over all keys."),
    ("one in place of the weighted mean",
     lambda scores, v, g: _p(scores) * (v @ g - 1),
     "What is taken off is the sum of p_i times v_i . g, not that of the weights alone."),
    ("without v, g alone",
     lambda scores, v, g: _p(scores) * (1 - _p(scores)) * g.sum(),
     "What arrives at a weight is v_j . g, the agreement of its value with g."),
    ("powers of 2 in place of exponentials",
     lambda scores, v, g: scores_gradient(scores * math.log(2), v, g),
     "The softmax has the natural exponential, with the base e."),
    *combined(_gradient_with, GRADIENT_SLIPS, but=GRADIENT_BUT),
)  # fmt: skip

# 6.7 how the entropy answers


def entropy_gradient(scores: Tensor) -> Tensor:
    p = scores.softmax(-1)
    return -p * (p.log() + torch.special.entr(p).sum())


def entropy_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(67)
    some = [(2 * torch.randn(size, generator=draw),) for size in (4, 3, 6)]
    return [(torch.tensor([math.log(3), 0.0]),), *some, (torch.ones(1),)]


def _h(scores: Tensor) -> Tensor:
    return torch.special.entr(scores.softmax(-1)).sum()


def _p(scores: Tensor) -> Tensor:
    return scores.softmax(-1)


ENTROPY_MISTAKES = mistakes(
    ("the exponentials in place of the weights", lambda s: -s.exp() * (
        s - (s.exp() * s).sum()),
     "The p of equation (6.5) are shares: the exponentials divided by their sum."),
    ("the sign turned", lambda s: -entropy_gradient(s),
     "Raise the largest score, and the weights become harder: the entropy falls. Is there a minus "
     "left of H = - sum of p ln p?"),
    ("the plain mean of the terms for the entropy",
     lambda s: -_p(s) * (_p(s).log() + _h(s) / len(s)),
     "The entropy is the sum of -p ln p, and is not divided by the number of scores."),
    ("divided by ln S", lambda s: entropy_gradient(s) / max(math.log(len(s)), 1e-9),
     "The entropy of equation (6.5) is not a share of the highest one."),
    ("the entropy left out", lambda s: -_p(s) * _p(s).log(),
     "These are the terms of the entropy itself. When a score rises, all weights move."),
    ("the slope in the weight, times the weight", lambda s: -_p(s) * (_p(s).log() + 1),
     "That is the first half of the chain rule with the weight before it. The off-diagonal slopes "
     "of the softmax are missing: the other weights pay."),
    ("the slope in the weights", lambda s: -(_p(s).log() + 1),
     "That is how H answers to a weight. Asked for is the answer to a score: multiply by the "
     "Jacobian, equation (6.8)."),
    ("only the diagonal of the Jacobian", lambda s: -_p(s) * (1 - _p(s)) * (_p(s).log() + 1),
     "The other weights change, too, when a score rises: the entries beside the diagonal."),
    ("the entropy with the other sign", lambda s: -_p(s) * (_p(s).log() - _h(s)),
     "The weighted mean of ln p is minus the entropy: subtracting it adds H."),
    ("the weight before it missing", lambda s: -(_p(s).log() + _h(s)),
     "A score whose weight is 0 changes nothing: each entry is multiplied by its weight."),
    ("scores in place of logarithms", lambda s: -_p(s) * (s + _h(s)),
     "ln p is the score less the logarithm of the sum of all exponentials, and not the score."),
    ("logarithms to the base 2", lambda s: entropy_gradient(s) / math.log(2),
     "The entropy of equation (6.5) is in nats, with the natural logarithm."),
    ("divided by the number of scores", lambda s: entropy_gradient(s) / len(s),
     "The entropy is a sum, not a mean."),
    ("without the scores' own mean", lambda s: -_p(s) * s,
     "Nearly: but shifting all scores must not change anything. Their weighted mean is missing."),
    ("the entropy", _h, "This is the entropy itself. Asked for is a slope for each score."),
    ("the terms of the entropy, with a plus", lambda s: _p(s) * _p(s).log(),
     "When a score rises, all weights move, and the sign of H is missing."),
    ("the Jacobian of the weights", lambda s: torch.diag(_p(s)) - torch.outer(_p(s), _p(s)),
     "This is equation (6.8). Multiply it by the slopes of H in the weights."),
    ("the weights", _p, "The weights are the beginning. How does H change when a score does?"),
    ("p (1 - p) for each", lambda s: _p(s) * (1 - _p(s)),
     "This is how each weight answers to its own score. Asked for is the entropy's answer."),
    ("half of it", lambda s: entropy_gradient(s) / 2,
     "Nothing is halved on the way. Try the formula on the example."),
    ("logarithms to the base 10", lambda s: entropy_gradient(s) / math.log(10),
     "The entropy of equation (6.5) is in nats, with the natural logarithm."),
    ("the logarithm left out", lambda s: -_p(s) * _h(s),
     "That is the second half. The first has the logarithm of the key's own weight."),
    ("1 - p in place of p", lambda s: -(1 - _p(s)) * (_p(s).log() + _h(s)),
     "A score whose weight is 0 changes nothing: each entry is multiplied by its weight."),
    ("the weight before it squared", lambda s: -(_p(s) ** 2) * (_p(s).log() + _h(s)),
     "Each entry is multiplied by its weight once."),
    ("the entropy of even weights", lambda s: -_p(s) * (_p(s).log() + math.log(len(s))),
     "What stands beside ln p is the entropy of *these* weights, not the highest possible one."),
    ("a one that does not cancel", lambda s: -_p(s) * (_p(s).log() + 1 + _h(s)),
     "The ones cancel: the weighted mean of -ln p - 1 is H - 1."),
    ("the scores less their plain mean", lambda s: -_p(s) * (s - s.mean()),
     "Nearly: but the mean is weighted with p. (The logarithm of the sum cancels, so scores will "
     "do in the place of ln p.)"),
    ("logarithms to the base 2 beside an entropy in nats",
     lambda s: -_p(s) * (_p(s).log2() + _h(s)),
     "Both logarithms are natural ones."),
    ("the sum of all slopes", lambda s: entropy_gradient(s).sum(),
     "One slope for each score is asked for. (Their sum is always zero: why?)"),
    ("the entropy times the weight", lambda s: _p(s) * _h(s),
     "That is one part, with the sign turned. The other holds the logarithm of the weight."),
    ("the product of both parts", lambda s: -_p(s) * _p(s).log() * _h(s),
     "The logarithm and the entropy are added, not multiplied."),
    ("even shares less the weights", lambda s: 1 / len(s) - _p(s),
     "The sign is right where a score is high or low. But the slope holds logarithms: derive it."),
    ("the slope of the logarithm, 1 / p", lambda s: -1 / _p(s),
     "The slope of p ln p is ln p + 1, and then the Jacobian."),
    ("only the diagonal of the Jacobian, and without the 1",
     lambda s: -_p(s) * (1 - _p(s)) * _p(s).log(),
     "All weights move with one score: what is taken off is the weighted mean of ln p."),
    ("only the diagonal of the Jacobian, summed",
     lambda s: (-_p(s) * (1 - _p(s)) * (_p(s).log() + 1)).sum(),
     "One slope for each score, and all weights move with each."),
    ("the entropy less the surprise", lambda s: _h(s) + _p(s).log(),
     "Where a weight is 0 the slope is 0: the weight multiplies. And raising the highest score "
     "makes the entropy fall: which sign has it?"),
    ("the sum of the logarithms in place of their weighted mean",
     lambda s: -_p(s) * (_p(s).log() - _p(s).log().sum()),
     "What is taken off is the weighted mean of ln p, which is minus H."),
    ("zero for all", lambda s: torch.zeros_like(s),
     "That holds where all weights are equal. Elsewhere the entropy answers."),
    ("the entropy added to the terms", lambda s: -_p(s) * _p(s).log() + _h(s),
     "The weight multiplies both, the logarithm and the entropy: where it is 0, so is the slope."),
    ("the entropy taken from the terms", lambda s: -_p(s) * _p(s).log() - _h(s),
     "The weight multiplies both, the logarithm and the entropy: where it is 0, so is the slope."),
    ("divided by the weight", lambda s: -(_p(s).log() + _h(s)) / _p(s),
     "The weight multiplies: where it is 0, so is the slope."),
    ("twice", lambda s: 2 * entropy_gradient(s),
     "Nothing is doubled on the way. Try it on the example."),
    ("the size without its sign", lambda s: entropy_gradient(s).abs(),
     "Raising the highest score makes the softmax harder: its slope is below zero."),
    ("the slope of p in place of that of H", lambda s: _p(s) * (1 - _p(s)) * _h(s),
     "Each weight has its own slope in H, -(ln p + 1), and all of them move."),
    ("the slope in the weights, less its plain mean",
     lambda s: -(_p(s).log() - _p(s).log().mean()),
     "The Jacobian weighs: p_j in front, and the weighted mean taken off."),
    ("the softmax of the weights", lambda s: entropy_gradient(_p(s)),
     "The softmax was taken twice."),
    ("a one that does not cancel, and the entropy with the other sign",
     lambda scores: -(p := scores.softmax(-1)) * (p.log() + 1 + (p * p.log()).sum()),
     "The weighted mean of -ln p - 1 is H - 1: the ones cancel, and H is added to ln p."),
    ("divided by the entropy", lambda scores: entropy_gradient(scores) / _h(scores),
     "H is asked for as it is: its slope is not divided by it."),
    ("the entropy in bits, the logarithm in nats",
     lambda scores: -(p := scores.softmax(-1)) * (p.log() + _h(scores) / math.log(2)),
     "Both are in nats: the entropy of equation (6.5) has the natural logarithm."),
    ("p (1 - p) in front", lambda scores: (
        entropy_gradient(scores) * (1 - scores.softmax(0))),
     "The others' weights are in H already: in front stands the weight alone."),
    ("divided by the number of scores, in place of times the weight",
     lambda scores: entropy_gradient(scores) / scores.softmax(0) / len(scores),
     "In front stands the weight p_j, which differs from score to score."),
    ("logarithms to the base 10 beside an entropy in nats",
     lambda s: -_p(s) * (_p(s).log10() + _h(s)),
     "Both logarithms are natural ones."),
    ("the weight in place of its logarithm", lambda s: -_p(s) * (_p(s) + _h(s)),
     "In the brackets stands ln p_j, and beside it the entropy."),
    ("the weighted mean of the slopes alone", lambda s: _p(s) * (_h(s) - 1),
     "That is the second half of equation (6.8), times the slopes in the weights. Its first half, "
     "diag(p), is missing."),
    ("the weighted mean of the scores added", lambda s: -_p(s) * (s + _p(s) @ s),
     "The weighted mean is taken off: shifting all scores must not change anything."),
    ("the weight taken off in place of the weighted mean", lambda s: -_p(s) * (s - _p(s)),
     "What is taken off is the mean of the scores, weighted with p: p @ scores."),
    ("the Jacobian with a plus",
     lambda s: -(torch.diag(_p(s)) + torch.outer(_p(s), _p(s))) @ (_p(s).log() + 1),
     "Equation (6.8) has a minus: what one weight gains the others lose."),
    ("the slopes of the squares of the weights",
     lambda s: -2 * _p(s) * (_p(s) - _p(s) @ _p(s)),
     "The entropy sums p times its logarithm, not p times p."),
    ("one less the logarithm", lambda s: -_p(s) * (_p(s).log() - 1),
     "What is taken off is the weighted mean of ln p, which is minus H."),
)  # fmt: skip

# 6.8 a temperature for an entropy


def entropy_at(scores: Tensor, temperature: float) -> float:
    return float(_h(scores.double() / temperature))


def temperature_for(scores: Tensor, entropy: float) -> float:
    low, high = -40.0, 40.0  # logarithms of the temperature
    for _ in range(80):
        middle = (low + high) / 2
        if entropy_at(scores, math.exp(middle)) < entropy:
            low = middle
        else:
            high = middle
    return math.exp((low + high) / 2)


def reached(answer: Callable, scores: Tensor, entropy: float) -> float | None:
    """The entropy that the answer's temperature gives; -1 for one below 0, -2 for one that is 0 or
    not finite."""
    found = answer(scores.clone(), entropy)
    if found is None:
        return None
    if isinstance(found, list | tuple) or isinstance(found, Tensor) and found.numel() != 1:
        raise ValueError(f"expected one number, the temperature, got {kind(found)}")
    temperature = float(found)
    if not 0 < temperature < math.inf:
        return -1.0 if -math.inf < temperature < 0 else -2.0
    return entropy_at(scores, temperature)


TEMPERATURE_CASES = [
    (torch.tensor([math.log(9), 0.0]), 0.5623),  # at 2: weights 3/4 and 1/4
    (torch.tensor([0.3, -1.2, 2.0, 0.1, 0.9]), 1.2),
    (torch.tensor([3000.0, -1200.0, 800.0, 2500.0]), 0.4),
    (torch.tensor([0.001, 0.004, -0.002]), 0.7),
    (torch.tensor([5.0, 4.0, 4.0, 1.0, 0.0, -3.0]) + 8000, 1.0),
    (torch.tensor([9000.0, -4000.0, 2500.0]), 1.09),  # at some 40,000
    (torch.tensor([0.002, 0.001]), 0.1),
]


def _searched(scores: Tensor, entropy: float, low: float, high: float, steps: int) -> float:
    """The temperature after so many halvings of its logarithm."""
    middle = 0.0
    for _ in range(steps):
        middle = (low + high) / 2
        if entropy_at(scores, math.exp(middle)) < entropy:
            low = middle
        else:
            high = middle
    return math.exp(middle)


def _clamped(low: float, high: float) -> Callable:
    return lambda scores, entropy: min(max(temperature_for(scores, entropy), low), high)


def _root_of(rising: Callable[[float], float]) -> float:
    low, high = -40.0, 40.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(math.exp(middle)) < 0 else (low, middle)
    return math.exp(low)


TEMPERATURE_MISTAKES = mistakes(
    ("the inverse of the temperature", lambda scores, entropy: 1 / temperature_for(scores, entropy),
     "Scores are *divided* by the temperature, equation (6.9): hot is even."),
    ("the search in the wrong direction, to the hot end", lambda scores, entropy: 1e9,
     "The entropy grows with the temperature: where it is too high, look at lower ones."),
    ("the search in the wrong direction, to the cold end", lambda scores, entropy: 1e-9,
     "The entropy grows with the temperature: where it is too low, look at higher ones."),
    ("no temperature, 1", lambda scores, entropy: 1.0,
     "This gives the entropy that the scores have as they are."),
    ("the entropy as the temperature", lambda scores, entropy: entropy,
     "Both grow together, but they are not the same number: scores of another size need another "
     "temperature."),
    ("the root of the number of scores", lambda scores, entropy: len(scores) ** 0.5,
     "The answer depends on the scores and on the entropy that is asked for."),
    ("the spread of the scores", lambda scores, entropy: float(scores.std()),
     "Divided by it, scores have a spread of one. The entropy that is asked for does not come in."),
    ("logarithms to the base 10 in the entropy",
     lambda scores, entropy: temperature_for(scores, entropy * math.log(10)),
     "The entropy of equation (6.5) has the natural logarithm."),
    ("the scores divided by the root of their number as well",
     lambda scores, entropy: temperature_for(scores, entropy) / len(scores) ** 0.5,
     "Equation (6.9) divides the scores by the temperature, and by nothing else."),
    ("bits in place of nats",
     lambda scores, entropy: temperature_for(scores, entropy * math.log(2)),
     "The entropy of equation (6.5) has the natural logarithm: nats, not bits."),
    ("the entropy as a share of the highest",
     lambda scores, entropy: temperature_for(scores, entropy / 3 * math.log(len(scores))),
     "The entropy is given in nats, as it is, and not as a share."),
    ("only temperatures from about 0.1 to 10", _clamped(0.1, 10.0),
     "Large scores need a high temperature and small ones a low one: search over factors, such as "
     "powers of ten."),
    ("only temperatures from 0.01 to 100", _clamped(0.01, 100.0),
     "Large scores need a high temperature and small ones a low one: search over factors, or "
     "widen the limits until the entropy lies between."),
    ("only temperatures above 0.01", _clamped(0.01, 1e9),
     "Small scores need a low temperature: let the lower limit sink until the entropy is below."),
    ("only temperatures below 100", _clamped(1e-9, 100.0),
     "Large scores need a high temperature: let the upper limit rise until the entropy is above."),
    ("the logarithm of the temperature",
     lambda scores, entropy: math.log(temperature_for(scores, entropy)),
     "The search went over logarithms, and its result is one, too: take its exponential."),
    ("the square of the temperature",
     lambda scores, entropy: temperature_for(scores, entropy) ** 2,
     "The scores are divided by the temperature itself."),
    ("the root of the temperature",
     lambda scores, entropy: temperature_for(scores, entropy) ** 0.5,
     "The scores are divided by the temperature itself, without a root."),
    ("the temperature for scores that were made smaller",
     lambda scores, entropy: temperature_for(scores / scores.abs().max(), entropy),
     "The scores were made smaller before the search. Its temperature is for those."),
    ("rounded to whole numbers",
     lambda scores, entropy: max(round(temperature_for(scores, entropy)), 1),
     "The entropy must be met to a thousandth: go on with halving."),
    ("rounded to one digit",
     lambda scores, entropy: float(f"{temperature_for(scores, entropy):.0e}"),
     "The entropy must be met to a thousandth: go on with halving."),
    ("minus the temperature", lambda scores, entropy: -temperature_for(scores, entropy),
     "A temperature is above 0. Below it, the worst key gets most."),
    ("only temperatures below 1,000", _clamped(1e-9, 1e3),
     "Large scores need a high temperature, and an entropy near ln S a still higher one: let the "
     "upper limit rise until the entropy is above."),
    ("only temperatures above 0.001", _clamped(1e-3, 1e9),
     "Small scores need a low temperature: let the lower limit sink until the entropy is below."),
    ("only temperatures from 0.001 to 1,000", _clamped(1e-3, 1e3),
     "Large scores need a high temperature and small ones a low one: widen the limits until the "
     "entropy lies between."),
    ("the search in the wrong direction, from 1",
     lambda scores, entropy: 1e-9 if entropy_at(scores, 1.0) < entropy else 1e9,
     "The entropy grows with the temperature: where it is too low, look at higher ones, where it "
     "is too high, at lower ones."),
    ("the entropy as a share of ln S, for the temperature",
     lambda scores, entropy: entropy / math.log(len(scores)),
     "Scores of another size need another temperature: search."),
    ("the distance of the two highest scores",
     lambda scores, entropy: float(scores.topk(2).values.diff().abs()),
     "The entropy that is asked for does not come in."),
    ("always 2, as in the example", lambda scores, entropy: 2.0,
     "Scores of another size need another temperature: search."),
    ("rounded to two decimals",
     lambda scores, entropy: max(round(temperature_for(scores, entropy), 2), 1e-9),
     "Small scores need a temperature of a few thousandths: give the number as it comes out."),
    ("rounded to three decimals",
     lambda scores, entropy: max(round(temperature_for(scores, entropy), 3), 1e-9),
     "Small scores need a temperature of a few thousandths: give the number as it comes out."),
    ("only temperatures below 1", _clamped(1e-9, 1.0),
     "Where the scores are softer than asked, they need a temperature above 1."),
    ("only temperatures above 1, or above a tenth", _clamped(1.0, 1e9),
     "Small scores need a low temperature: let the lower limit sink until the entropy is below."),
    ("large scores left with an entropy of 0", _clamped(1e-9, 10.0),
     "Their temperature is far too low. Let the upper limit rise until the entropy is above. Or "
     "did the search stop at a NaN, from 0 times ln 0, or from an exponential that overflows?"),
    ("only temperatures from e^-5 to e^5", _clamped(math.exp(-5), math.exp(5)),
     "Large scores need a high temperature and small ones a low one: widen the limits."),
    *(
        (f"a search that ends after {n} halvings", lambda scores, entropy, n=n: _searched(
            scores, entropy, -20.0, 20.0, n),
         "Each step halves what lies between: some fifty are needed for a thousandth.")
        for n in (5, 8, 10)
    ),
    ("the entropy of 1 - the asked share",
     lambda scores, entropy: temperature_for(
         scores, max(math.log(len(scores)) - entropy, 1e-3)),
     "Hot is even: the entropy grows with the temperature, from 0 to ln S."),
    ("the range of the scores",
     lambda scores, entropy: float(scores.max() - scores.min()),
     "The entropy that is asked for does not come in."),
    ("the entropy divided by ln S",
     lambda scores, entropy: temperature_for(scores, entropy * math.log(len(scores))),
     "The entropy is asked for in nats, as it is, and not as a share of the highest."),
    ("the largest weight alone",
     lambda scores, entropy: _root_of(lambda t: -float(
         (scores.double() / t).log_softmax(-1).max()) - entropy),
     "The entropy is the sum over *all* weights, - sum of p ln p, not the logarithm of one."),
    ("the scores multiplied by the temperature, in a search that divides",
     lambda scores, entropy: 1e9 if entropy_at(scores, 1.0) < entropy else 1e-9,
     "With a factor the entropy falls as it grows, and the search runs to its end. Divide the "
     "scores by the temperature, equation (6.9)."),
    ("the mean in place of the sum in the entropy", lambda scores, entropy: (
        temperature_for(scores, entropy * len(scores))),
     "The entropy of equation (6.5) is a sum over the weights, not their mean."),
    ("the entropy of the scores as they are", lambda scores, entropy: entropy_at(scores, 1.0),
     "That is an entropy. Asked for is the temperature at which it is as given: search."),
    ("the temperature for scores divided by their spread",
     lambda scores, entropy: temperature_for(scores / scores.std(), entropy),
     "The scores were made smaller or larger before the search. Its temperature is for those."),
    ("nats in place of bits", lambda scores, entropy: temperature_for(
        scores, entropy / math.log(2)),
     "The entropy is given in nats, as that of equation (6.5) is: nothing is converted."),
    ("multiplied by the largest score", lambda scores, entropy: (
        temperature_for(scores, entropy) * float(scores.abs().max())),
     "The temperature is for the scores as they were searched with: nothing is to be undone."),
)  # fmt: skip


NEAR = 0.1  # nats


def _how_near(
    cases: Sequence[Case], got: Sequence[Any], want: Sequence[Any]
) -> tuple[str, str] | None:
    """That a search ends too early, or that its limits are too near."""
    if not all(isinstance(one, float) and one >= 0 for one in got):
        return None
    off = [
        (float(case[0].max() - case[0].min()), one - case[1])
        for case, one in zip(cases, got, strict=True)
    ]
    far = [(size, by) for size, by in off if abs(by) >= NEAR]
    if not far:
        return (
            "near in every case, and not near enough",
            "The search ends too early, its steps are too coarse, or its limits are too near: "
            "halve what lies between some fifty times, over the logarithm of the temperature.",
        )
    ends = {
        "cold": all(one < NEAR for one, (_, by) in zip(got, off, strict=True) if abs(by) >= NEAR),
        "hot": all(
            one > math.log(len(case[0])) - NEAR
            for one, case, (_, by) in zip(got, cases, off, strict=True)
            if abs(by) >= NEAR
        ),
    }
    stuck = next((end for end, there in ends.items() if there), None)
    between = [  # the temperatures of those that are neither hard nor even
        temperature_for(case[0], one)
        for case, one in zip(cases, got, strict=True)
        if NEAR <= one <= math.log(len(case[0])) - NEAR
    ]
    one_limit = not between or max(between) < 1.01 * min(between)
    if all(abs(by) > 2e-3 for _, by in off) and one_limit and len(far) > len(off) / 2:
        return (
            "in every case an end, as of a search on the wrong side",
            "Does it look on the right side? The entropy grows with the temperature: where it is "
            "too low, look at higher ones, where it is too high, at lower ones. (And are the "
            "scores divided by the temperature?)",
        )
    if stuck and len(far) < len(off) and min(size for size, _ in far) < 10:
        return (
            f"a search that gets stuck at the {stuck} end",
            "Not in every case: is there NaN? Where a weight rounds to 0, 0 times its logarithm is "
            "NaN; the exponential of a large number is infinite; and every comparison with NaN is "
            "False, so that the search goes one way alone. Or was it for other scores than these?",
        )
    if all(by < 0 if size > 1000 else by > 0 and size < 0.01 for size, by in far):
        cold, hot = (any(found) for found in zip(*((by < 0, by > 0) for _, by in far), strict=True))
        names = ["too cold for large scores"] * cold + ["too hot for small scores"] * hot
        why = ["Large scores need temperatures of thousands: is the upper limit high enough? Is "
               "nothing NaN, as 0 times the logarithm of 0 is?"] * cold  # fmt: skip
        why += ["Small scores need temperatures of thousandths: is the lower limit low enough, and "
                "does the search go on until the two limits are near by their *ratio*? With a "
                "difference of a thousandth it ends too early."] * hot  # fmt: skip
        return ", and ".join(names), " ".join(why)
    return None


EXERCISES = [
    Exercise(
        number="6.1",
        title="one scaled look by hand",
        section="Dog again",
        reference=look_by_hand(3),
        mistakes=HAND_MISTAKES,
        rtol=5e-3,
        atol=2e-3,
    ),
    Exercise(
        number="6.2",
        title="predict, then try: vectors four times as wide",
        section="The softmax saturates",
        reference=WIDER,
        mistakes=WIDER_MISTAKES,
        invariants=Family(by_place(WIDER, WIDER_MISTAKES, _follows), WIDER_RULES),
        canonical=small_letters,
        rtol=5e-3,
    ),
    Exercise(
        number="6.3",
        title="another variance",
        section="For any entries",
        reference=[576.0, 6.0, 24.0],
        mistakes=SPREAD_MISTAKES,
        canonical=_floats,
        rtol=5e-3,
    ),
    Exercise(
        number="6.4",
        title="attention",
        section="The formula",
        reference=scaled_attention,
        cases=attention_cases,
        mistakes=ATTENTION_MISTAKES,
        invariants=[
            Invariant(
                "the output is an average of the values",
                _between_the_values,
                "Weights are shares, so no entry of the output can lie above the largest value of "
                "its column or below the smallest.",
            )
        ],
    ),
    Exercise(
        number="6.5",
        title="find the mistakes",
        section="The function",
        reference=mended,
        cases=masked_cases,
        mistakes=MENDED_MISTAKES,
    ),
    Exercise(
        number="6.6",
        title="derive: back through attention",
        section="Many keys",
        reference=scores_gradient,
        cases=gradient_cases,
        mistakes=GRADIENT_MISTAKES,
        invariants=Family(nearly(STEP)),
    ),
    Exercise(
        number="6.7",
        title="derive: how the entropy answers",
        section="Many keys",
        reference=entropy_gradient,
        cases=entropy_cases,
        mistakes=ENTROPY_MISTAKES,
        invariants=Family(nearly(STEP)),
        atol=1e-5,
    ),
    Exercise(
        number="6.8",
        title="design: a temperature for an entropy",
        section="A temperature",
        reference=temperature_for,
        cases=TEMPERATURE_CASES,
        mistakes=TEMPERATURE_MISTAKES,
        invariants=Family(
            _how_near,
            [
                Invariant(
                    "a temperature above 0, and finite",
                    lambda output, *case: output >= 0,
                    "Scores are divided by it. Was a small one rounded to 0?",
                ),
                Invariant(
                    "an entropy as asked, to a thousandth",
                    lambda output, scores, entropy: abs(output - entropy) < 2e-3,
                    "What is compared is not the temperature but the entropy at it. Does the "
                    "search go the right way? The entropy grows with the temperature. Is it the "
                    "entropy in nats, summed over all weights, that you compare? Or has the search "
                    "ended too early, or are its limits too near? Let it run over the logarithm of "
                    "the temperature.",
                ),
            ],
        ),
        probe=reached,
        rtol=1e-3,
        atol=1e-3,
    ),
]
