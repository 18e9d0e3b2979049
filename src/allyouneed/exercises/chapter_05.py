"""The exercises of chapter 5, queries, keys and values: references, cases and known mistakes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .compare import kind, same
from .core import Case, Exercise, Family, Invariant, mistakes
from .pairs import combined, pairs

# 5.1 a head by hand: two scores of word 1, then its output

LN2, LN3 = math.log(2), math.log(3)


def head_by_hand(first: float, second: float, values: tuple = (4.0, 8.0)) -> list[float]:
    a, b = math.exp(first), math.exp(second)
    return [first, second, (values[0] * a + values[1] * b) / (a + b)]


def _flat(answer: Any) -> list:
    if isinstance(answer, Tensor | np.ndarray):
        return answer.reshape(-1).tolist()
    if isinstance(answer, list | tuple):
        return [number for part in answer for number in _flat(part)]
    return [answer]


HAND_MISTAKES = mistakes(
    ("word 2 asks", head_by_hand(3 * LN2, LN2),
     "These are the scores and the output of word 2. The query of word 1 is x_1 times the query "
     "matrix."),
    ("the two scores exchanged", [2 * LN3, 0.0, 7.6],
     "The first number is the score for word 1, the second the score for word 2."),
    ("query and key exchanged", head_by_hand(0.0, 3 * LN2),
     "Word 1 asks, so its query meets the keys of both words. Here its key meets the queries."),
    ("the query matrix transposed", head_by_hand(0.0, 2 * LN2),
     "Vectors are rows: x = (1, 0) times a matrix is the matrix's first row, not its first "
     "column."),
    ("the key matrix transposed", head_by_hand(LN3, 2 * LN3),
     "Vectors are rows: x = (1, 0) times a matrix is the matrix's first row, not its first "
     "column."),
    ("ln 6 in place of 2 ln 3", head_by_hand(0.0, math.log(6)),
     "2 ln 3 is the logarithm of 3 squared: ln 9."),
    ("ln left out of the query", head_by_hand(0.0, 6.0),
     "The query of word 1 is (0, ln 3), and not (0, 3)."),
    ("powers of 2 in place of exponentials", [0.0, 2 * LN3, 8 - 4 / (1 + 2 ** (2 * LN3))],
     "The scores are right. The softmax takes powers of e, and e to the power of 2 ln 3 is 9."),
    ("the query matrix forgotten", head_by_hand(3.0, 1.0),
     "Word 1 asked with its own vector. Its query is its vector times the query matrix."),
    ("the key matrix forgotten, or the 2 before ln 3, or scores divided by 2",
     head_by_hand(0.0, LN3),
     "A key is the vector times the key matrix, that of word 2 is (1, 2). And nothing divides the "
     "scores here."),
    ("both matrices of the scores forgotten", head_by_hand(1.0, 0.0),
     "These are the scores of Chapter 4, a word's vector times a word's vector."),
    ("scores used as weights", [0.0, 2 * LN3, 8 * 2 * LN3],
     "The scores are right. Before they can weigh the values, the softmax makes shares of them."),
    ("exponentials that were not divided by their sum", [0.0, 2 * LN3, 4 + 9 * 8],
     "The exponentials are 1 and 9. Shares must sum to one: divide by 10."),
    ("all attention to one word", [0.0, 2 * LN3, 8.0],
     "The scores are right. A score of 0 still has the exponential 1, and gets its share. (Scores "
     "that are divided by their sum, without exponentials, give this, too.)"),
    ("the plain average of the values", [0.0, 2 * LN3, 6.0],
     "The scores are right and differ, so the weights do, too."),
    ("the values exchanged", [0.0, 2 * LN3, 0.9 * 4 + 0.1 * 8],
     "The weight of each word belongs to its own value: 0.1 to the first, 0.9 to the second."),
    ("weights instead of scores", [0.1, 0.9, 7.6],
     "These weights and the output are right. The task asks for the scores, before the softmax."),
    ("exponentials instead of scores", [1.0, 9.0, 7.6],
     "The output is right. The task asks for the scores, before the exponential."),
    ("scores divided by the root of 2", head_by_hand(0.0, 2 * LN3 / math.sqrt(2)),
     "That division comes in Chapter 6. Here a score is the dot product as it is."),
    ("the output left out", head_by_hand(0.0, 2 * LN3)[:2],
     "The two scores are right. The output comes behind them: the average of the values."),
    ("the weight in place of the output", [0.0, 2 * LN3, 0.9],
     "The scores are right, and 0.9 is the weight of word 2. The output is the average of the two "
     "values, with both weights."),
    ("the values added up", [0.0, 2 * LN3, 12.0],
     "The scores are right. Each value is multiplied by its weight before they are added."),
    ("logarithms to the base 10", [0.0, 2 * math.log10(3), head_by_hand(0.0, 2 * LN3)[2]],
     "ln is the natural logarithm: ln 3 is 1.099."),
    ("logarithms to the base 10, in the weights as well", head_by_hand(0.0, 2 * math.log10(3)),
     "ln is the natural logarithm: ln 3 is 1.099."),
    ("the two scores and their weights exchanged", head_by_hand(2 * LN3, 0.0),
     "The first number is the score for word 1."),
    ("both matrices of the scores transposed", head_by_hand(LN2, 2 * LN2),
     "Vectors are rows: a row with a single 1 picks a *row* of each matrix."),
    ("the entries of the query exchanged", head_by_hand(3 * LN3, LN3),
     "The query of word 1 is (0, ln 3): its first entry is 0."),
    ("the first value left out", [0.0, 2 * LN3, 7.2],
     "Word 1 has the weight 0.1, and its value 4 counts, too."),
    ("the second value left out", [0.0, 2 * LN3, 0.4],
     "Word 2 has the weight 0.9, and its value 8 counts, too."),
    ("exponentials of 1 and 3 in place of 1 and 9", [0.0, 2 * LN3, 7.0],
     "The scores are right. e to the power of 2 ln 3 is 3 squared, 9."),
    ("ln 9 taken for 9", head_by_hand(0.0, 9.0),
     "The second score is 2 ln 3 = ln 9, about 2.197. Its exponential is 9."),
    ("exponentials of 1 and 6 in place of 1 and 9", [0.0, 2 * LN3, (4 + 6 * 8) / 7],
     "2 ln 3 is ln 9, not ln 6: a factor before a logarithm is a power inside."),
    ("the output halved", [0.0, 2 * LN3, 3.8], "The weights sum to one already."),
    ("the weight of word 1 in place of the output", [0.0, 2 * LN3, 0.1],
     "The scores are right, and 0.1 is the weight of word 1. The output is the average of the two "
     "values, with both weights."),
    ("scores divided by the root of 2 for the weights, and handed over undivided",
     [0.0, 2 * LN3, head_by_hand(0.0, 2 * LN3 / math.sqrt(2))[2]],
     "The scores are right. The division comes in Chapter 6: the softmax is taken of them as they "
     "are."),
    ("the words' numbers in place of their values", [0.0, 2 * LN3, 1.9],
     "The scores are right. What is averaged are the values 4 and 8, the words times W^V."),
    ("the 2 added to ln 3", head_by_hand(0.0, 2 + LN3),
     "The second key is (1, 2), and its 2 meets ln 3 in a product: 2 ln 3."),
    ("the square of ln 3", head_by_hand(0.0, LN3**2),
     "The second score is 2 ln 3, which is the logarithm of 3 squared, not the square of ln 3."),
    ("the first value alone", [0.0, 2 * LN3, 4.0],
     "The scores are right. Both values count, each with its weight."),
)  # fmt: skip


def average(a: float, b: float) -> float:
    return 4 + 4 * math.exp(b) / (math.exp(a) + math.exp(b))


def head_way(
    scores: tuple = (0.0, 2 * LN3), by: float = 1.0, out: Callable[..., float] = average
) -> list[float]:
    """The answer, right by default; each argument makes one slip."""
    scores = tuple(score / by for score in scores)
    return [*scores, out(*scores)]


HAND_SLIPS = [
    ("word 2 asks", {"scores": (3 * LN2, LN2)}, "Word 1 asks."),
    ("the two scores and their weights exchanged", {"scores": (2 * LN3, 0.0)},
     "The first number is the score for word 1."),
    ("query and key exchanged", {"scores": (0.0, 3 * LN2)},
     "The query of word 1 meets the keys of both words."),
    ("the query matrix transposed", {"scores": (0.0, 2 * LN2)},
     "x_1 = (1, 0) times the query matrix is its first row."),
    ("the key matrix transposed", {"scores": (LN3, 2 * LN3)},
     "x_1 = (1, 0) times the key matrix is its first row."),
    ("the query matrix forgotten", {"scores": (3.0, 1.0)}, "The query is x_1 W^Q."),
    ("the key matrix or the 2 before ln 3 forgotten, or scores halved", {"scores": (0.0, LN3)},
     "A key is x W^K."),
    ("scores divided by the root of 2", {"by": math.sqrt(2)},
     "The division comes in Chapter 6."),
    ("both matrices of the scores transposed", {"scores": (LN2, 2 * LN2)},
     "Vectors are rows: a row with a single 1 picks a row of each matrix."),
    ("the entries of the query exchanged", {"scores": (3 * LN3, LN3)},
     "The query of word 1 is (0, ln 3)."),
    ("both matrices of the scores forgotten", {"scores": (1.0, 0.0)},
     "The query is x_1 W^Q, a key is x W^K."),
    ("the first value left out", {"out": lambda a, b: 2 * average(a, b) - 8},
     "The value of word 1 counts, too."),
    ("the plain average of the values", {"out": lambda a, b: 6.0}, "The weights differ."),
    ("all attention to the word with the higher score",
     {"out": lambda a, b: 4.0 if a > b else 8.0}, "The other one gets its share, too."),
    ("the values exchanged", {"out": lambda a, b: 12 - average(a, b)},
     "The first weight belongs to the first value, 4."),
    ("the values added up", {"out": lambda a, b: 12.0}, "Each value has its weight."),
    ("scores used as weights", {"out": lambda a, b: 4 * a + 8 * b},
     "The softmax makes weights of scores."),
    ("exponentials not divided by their sum",
     {"out": lambda a, b: 4 * math.exp(a) + 8 * math.exp(b)}, "Shares must sum to one."),
]  # fmt: skip
HAND_MISTAKES += pairs(
    head_way, HAND_SLIPS,
    [head_by_hand(0.0, 2 * LN3), *(mistake.wrong for mistake in HAND_MISTAKES)],
    rtol=2e-3, atol=2e-3,
)  # fmt: skip

# 5.2 soft look-up


def look_up(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    return (keys @ query).softmax(-1) @ values


def look_up_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(52)
    sizes = [(3, 2, 4), (5, 3, 3), (3, 3, 3), (4, 2, 1)]  # S, K, V
    printed = [2.0, 0.0], [[0.0, 2.0], [1.0, 0.0], [2.0, 0.0]], [[0.0], [1.0], [2.0]]
    return [tuple(map(torch.tensor, printed))] + [
        tuple(torch.randn(*shape, generator=draw) for shape in ((k,), (s, k), (s, v)))
        for s, k, v in sizes
    ]


NORMALISED = [  # what is divided by its sum in the place of exponentials
    ("sigmoids", torch.sigmoid),
    ("squares of the scores", torch.square),
    ("scores less the lowest", lambda s: s - s.min()),
    ("softplus of the scores", F.softplus),
    ("powers of ten", lambda s: 10**s),
]

LOOK_UP_MISTAKES = mistakes(
    ("the exponential of each product, and then the sum over the entries",
     lambda query, keys, values: (e := (keys * query).exp().sum(-1)) / e.sum() @ values,
     "First the entries are multiplied and added, `keys @ query`. The exponential is taken of "
     "these scores."),
    ("divided by the sum so far",
     lambda query, keys, values: (e := (keys @ query).exp()) / e.cumsum(0) @ values,
     "Each exponential is divided by the sum of all: the sum must be complete first."),
    ("a hard look-up", lambda query, keys, values: values[(keys @ query).argmax()],
     "Only the best key answers. A soft look-up gives every value its share."),
    ("the keys handed over", lambda query, keys, values: (keys @ query).softmax(-1) @ keys,
     "A key says by what something is found. What is handed over is its value."),
    ("the keys made equally long", lambda query, keys, values: (
        (F.normalize(keys, dim=-1) @ query).softmax(-1) @ values),
     "The score is the dot product, in which the lengths count."),
    ("the values compared with the query",
     lambda query, keys, values: (values @ query).softmax(-1) @ values,
     "The query is compared with the keys. The values are only averaged."),
    ("scores used as weights", lambda query, keys, values: (keys @ query) @ values,
     "The softmax is missing. Scores may be negative, and do not sum to one."),
    ("scores divided by their sum, without the exponential",
     lambda query, keys, values: (keys @ query) / (keys @ query).sum() @ values,
     "The sum of scores may be zero or negative. The softmax takes the exponential first."),
    ("exponentials that were not divided by their sum",
     lambda query, keys, values: (keys @ query).exp() @ values,
     "Weights are shares: the exponentials must be divided by their sum."),
    ("the plain average of the values", lambda query, keys, values: values.mean(0),
     "The query was not heard. Values whose keys fit better count more."),
    ("scores divided by the root of the width",
     lambda query, keys, values: (keys @ query / len(query) ** 0.5).softmax(-1) @ values,
     "That division comes in Chapter 6. Equation (5.2) has the dot product as it is."),
    ("powers of 2",
     lambda query, keys, values: (keys @ query * math.log(2)).softmax(-1) @ values,
     "Softmax takes the exponential, with base e."),
    ("the query made of length 1",
     lambda query, keys, values: (keys @ F.normalize(query, dim=-1)).softmax(-1) @ values,
     "The score is the dot product, in which the lengths count: a longer query asks louder."),
    ("the scores without their sign, divided by their sum",
     lambda query, keys, values: F.normalize((keys @ query).abs(), p=1, dim=-1) @ values,
     "The softmax takes the exponential: a score far below zero counts for less than zero does."),
    ("the weights squared", lambda query, keys, values: (keys @ query).softmax(-1) ** 2 @ values,
     "A value is multiplied by its weight, once."),
    ("the softmax taken twice",
     lambda query, keys, values: (keys @ query).softmax(-1).softmax(-1) @ values,
     "The weights went through a second softmax, which makes them nearly equal."),
    ("the softmax of the scores with the sign turned",
     lambda query, keys, values: (-(keys @ query)).softmax(-1) @ values,
     "The key that fits worst got the highest weight."),
    ("the softmax of the keys", lambda query, keys, values: keys.softmax(0) @ query @ values,
     "The softmax makes weights of the scores. It comes after the query has met the keys."),
    ("keys transposed", lambda query, keys, values: (keys.T @ query).softmax(-1) @ values,
     "Each row is a key. Transposed, each row holds one entry of all keys."),
    ("the cosine instead of the dot product",
     lambda query, keys, values: F.cosine_similarity(keys, query, dim=-1).softmax(-1) @ values,
     "The lengths of query and key count in a dot product: a longer query asks louder."),
    ("the distance instead of the dot product",
     lambda query, keys, values: (-(keys - query).norm(dim=-1)).softmax(-1) @ values,
     "Equation (5.2) compares by the dot product. The nearest key in space need not have the "
     "highest."),
    ("the squared distance instead of the dot product",
     lambda query, keys, values: (-(keys - query).pow(2).sum(-1)).softmax(-1) @ values,
     "Equation (5.2) compares by the dot product. The nearest key in space need not have the "
     "highest."),
    ("the scores without their sign",
     lambda query, keys, values: (keys @ query).abs().softmax(-1) @ values,
     "A key that points the other way fits worst: its score is negative, and stays so."),
    ("keys and values exchanged",
     lambda query, keys, values: (values @ query).softmax(-1) @ keys,
     "The keys are compared with the query, and the values are averaged."),
    ("the first key left out",
     lambda query, keys, values: (keys[1:] @ query).softmax(-1) @ values[1:],
     "All keys share the weights, the first as well. Does the loop begin at 0?"),
    ("the last key left out",
     lambda query, keys, values: (keys[:-1] @ query).softmax(-1) @ values[:-1],
     "All keys share the weights, the last as well."),
    ("every weight one, as of a softmax along the wrong axis",
     lambda query, keys, values: values.sum(0),
     "Every weight is one, so the values are added as they are. The softmax must run over the "
     "keys."),
    ("the sigmoid instead of the softmax",
     lambda query, keys, values: (keys @ query).sigmoid() @ values,
     "The sigmoid judges each key by itself, so the weights do not sum to one."),
    ("weights instead of the output", lambda query, keys, values: (keys @ query).softmax(-1),
     "The weights are right. The third step is missing: the weighted sum of the values."),
    ("values weighted, but not added",
     lambda query, keys, values: (keys @ query).softmax(-1).unsqueeze(1) * values,
     "Each value has its weight. The output is one vector, their sum."),
    ("the mean of the weighted values",
     lambda query, keys, values: ((keys @ query).softmax(-1).unsqueeze(1) * values).mean(0),
     "The weights are shares already. Their sum, and not their mean, is the average."),
    ("exponentials of the scores less the highest, not divided by their sum",
     lambda query, keys, values: (keys @ query - (keys @ query).max()).exp() @ values,
     "Less the highest score the exponentials are small enough. Weights are shares: divide them by "
     "their sum."),
    ("exponentials multiplied by their sum",
     lambda query, keys, values: (keys @ query).exp() * (keys @ query).exp().sum() @ values,
     "Weights are shares: the exponentials must be *divided* by their sum."),
    ("exponentials of the scores less the highest, multiplied by their sum",
     lambda query, keys, values: (less := (keys @ query - (keys @ query).max()).exp()) @ (
         less.sum() * values),
     "Weights are shares: the exponentials must be *divided* by their sum."),
    ("shares upside down",
     lambda query, keys, values: (keys @ query).exp().sum() / (keys @ query).exp() @ values,
     "A weight is the exponential of a score, divided by the sum of all: not the sum divided by "
     "it."),
    ("the scores less the highest, divided by their sum, without the exponential",
     lambda query, keys, values: (less := keys @ query - (keys @ query).max()) @ (
         values / less.sum()),
     "The softmax takes the exponential first."),
    ("nothing but ones", lambda query, keys, values: torch.ones(values.shape[1]),
     "What sums to one was added up. First come the weights, by a softmax of the scores, then each "
     "times its value, then the sum."),
    ("zeros", lambda query, keys, values: torch.zeros(values.shape[1]),
     "Nothing is added to the zeros: each value, times its weight, belongs there."),
    ("an axis too many", lambda query, keys, values: look_up(query, keys, values)[None],
     "One query gives one output, of shape (d_v): a vector, not a table of one row."),
    *(
        (name, lambda query, keys, values, of=of: of(keys @ query).softmax(-1) @ values, why)
        for name, of, why in (
            ("the scores squared", lambda s: s**2, "The scores go into the softmax as they are."),
            ("the scores doubled", lambda s: 2 * s, "The scores go into the softmax as they are."),
            ("the scores halved", lambda s: s / 2, "The scores go into the softmax as they are."),
            ("negative scores set to zero", torch.relu,
             "The scores go into the softmax as they are."),
            ("tanh of the scores", torch.tanh, "The scores go into the softmax as they are."),
            ("the scores divided by their sum, and then the softmax", lambda s: s / s.sum(),
             "The scores go into the softmax as they are."),
            ("the scores divided by their length, and then the softmax", lambda s: s / s.norm(),
             "The scores go into the softmax as they are."),
        )
    ),
    ("the ReLU of the scores, divided by their sum",
     lambda query, keys, values: (s := (keys @ query).relu()) / s.sum() @ values,
     "The softmax shares out *exponentials*."),
    ("the softmax of the query", lambda query, keys, values: (
        keys @ query.softmax(-1)).softmax(-1) @ values,
     "The softmax is taken of the scores, and of nothing before."),
    ("the softmax of each key", lambda query, keys, values: (
        keys.softmax(-1) @ query).softmax(-1) @ values,
     "The softmax is taken of the scores, and of nothing before."),
    ("the softmax of the values", lambda query, keys, values: (
        (keys @ query).softmax(-1) @ values.softmax(0)),
     "The softmax is taken of the scores, and of nothing else."),
    ("the softmax behind the values",
     lambda query, keys, values: ((keys @ query) @ values).softmax(-1),
     "The softmax is taken of the scores. The average comes after it."),
    ("the value of the key that fits worst",
     lambda query, keys, values: values[(keys @ query).argmin()],
     "A soft look-up gives every value its share, and the best key's the largest."),
    ("the best key's value times its weight",
     lambda query, keys, values: (w := (keys @ query).softmax(-1)).max() * values[w.argmax()],
     "All values are averaged, each with its weight."),
    ("the two best keys alone",
     lambda query, keys, values: (
         (top := (keys @ query).topk(min(2, len(keys)))).values.softmax(-1) @ values[top.indices]),
     "Every key gets its share, however small."),
    ("the entries of a key summed, or their differences from the query's",
     lambda query, keys, values: (keys - query).sum(-1).softmax(-1) @ values,
     "The score is the dot product of query and key."),
    ("the softmax over the keys, entry by entry, and then the sum",
     lambda query, keys, values: (keys * query).softmax(0).sum(1) @ values,
     "First the entries are multiplied and added, `keys @ query`. The softmax is taken of these "
     "scores."),
    ("the logarithms of the weights",
     lambda query, keys, values: (keys @ query).log_softmax(-1) @ values,
     "`log_softmax` gives logarithms. The values are averaged with the weights themselves."),
    ("scores divided by the number of keys",
     lambda query, keys, values: (keys @ query / len(keys)).softmax(-1) @ values,
     "Nothing divides these scores."),
    ("scores divided by the width",
     lambda query, keys, values: (keys @ query / len(query)).softmax(-1) @ values,
     "Nothing divides these scores."),
    ("scores divided by the root of the number of keys",
     lambda query, keys, values: (keys @ query / len(keys) ** 0.5).softmax(-1) @ values,
     "Nothing divides these scores."),
    ("the cosine instead of the dot product, used as weights",
     lambda query, keys, values: F.cosine_similarity(keys, query, dim=-1) @ values,
     "The scores are dot products, and the weights their softmax."),
    ("the softmax along the entries, and then the sum",
     lambda query, keys, values: (keys * query).softmax(1)[:, 0] @ values,
     "First the entries are multiplied and added, `keys @ query`. The softmax is taken of these "
     "scores."),
    ("the highest weight for all",
     lambda query, keys, values: (keys @ query).softmax(0).max() * values.sum(0),
     "Each value has a weight of its own."),
    *(
        (f"{name} made to sum to one",
         lambda query, keys, values, of=of: (w := of(keys @ query)) / w.sum() @ values,
         "The softmax takes the *exponential* of each score and divides it by the sum of all.")
        for name, of in NORMALISED
    ),
    ("the softmax of the sigmoids",
     lambda query, keys, values: (keys @ query).sigmoid().softmax(0) @ values,
     "The scores go into the softmax as they are."),
)  # fmt: skip

# 5.3 predict, then try: what leaves the weights as they are

UNCHANGED = ["same", "same", "changed", "same", "changed", "same", "changed"]


def small_letters(answers: list[str]) -> list[str]:
    return [answer.strip().lower() for answer in answers]


def _but(*places: int) -> list[str]:
    """The right answers, but for those at these places (counted from 1)."""
    other = {"same": "changed", "changed": "same"}
    return [other[a] if i in places else a for i, a in enumerate(UNCHANGED, 1)]


FACTOR = "A score is q . k: twice the query and half the key give the same product."
TURN = "Turned alike, query and key keep their lengths and the angle between them."
EXCHANGE = (
    "Then the keys ask: the table of scores is transposed, and the softmax runs along what were "
    "its columns."
)
AS_LAYERS = '("As layers of a network" has both biases.)'
ON_KEYS = f"q . (k + b) = q . k + q . b adds the same to all scores of one query. {AS_LAYERS}"
ON_QUERIES = f"(q + b) . k = q . k + b . k adds to each key's score something else. {AS_LAYERS}"
VALUES = "The values meet the weights only after the softmax. The outputs double, the weights stay."
SHIFT = (
    "Both sides move: what is added to the key is the same for its whole row, but what is added to "
    "the query differs from key to key."
)
PICTURES = [
    ("twice and half taken not to cancel", FACTOR),
    ("a rotation of both taken to be felt", TURN),
    ("queries and keys taken to play one role", EXCHANGE),
    ("a bias on the keys taken to be felt", ON_KEYS),
    ("a bias on the queries taken not to be felt", ON_QUERIES),
    ("the values taken to change the weights", VALUES),
    ("a shift of all words taken not to be felt", SHIFT),
]


def _once(text: str) -> str:
    """The text, in which both biases are looked up at the end alone."""
    return text.replace(f" {AS_LAYERS}", "", text.count(AS_LAYERS) - 1)


TOGETHER = mistakes(
    ("any bias taken to be felt, on the keys too, and a rotation", _but(2, 4),
     f"{TURN} And {ON_KEYS}"),
    ("the two biases exchanged", _but(4, 5),
     _once(f"{ON_KEYS} The softmax does not see it. {ON_QUERIES}")),
    ("no bias and no shift taken to be felt", _but(5, 7), f"{ON_QUERIES} {SHIFT}"),
    ("every other vector taken to make other weights", _but(1, 2, 4), f"{FACTOR} {TURN} {ON_KEYS}"),
    ("the weights taken to change, whatever is done", ["changed"] * 7,
     f"Look at the scores alone. {FACTOR} {ON_KEYS}"),
    ("the weights taken to stay, whatever is done", ["same"] * 7, f"{EXCHANGE} {ON_QUERIES}"),
    ("all the other way round", _but(*range(1, 8)),
     "\"same\" means that the weights stay as they were. " + FACTOR),
)  # fmt: skip
UNCHANGED_MISTAKES = [
    *TOGETHER,
    *mistakes(
        *(
            ("; ".join(PICTURES[i - 1][0] for i in places), _but(*places),
             _once(" ".join(PICTURES[i - 1][1] for i in places)))
            for n in (1, 2, 3)
            for places in combinations(range(1, 8), n)
            if _but(*places) not in [mistake.wrong for mistake in TOGETHER]
        )
    ),
]  # fmt: skip


def _is(place: int) -> Callable[[list], bool]:
    return lambda answers: small_letters(answers)[place] == UNCHANGED[place]


UNCHANGED_RULES = [
    Invariant(
        'seven words, each "same" or "changed"',
        lambda answers: len(answers) == 7 and {*answers} <= {"same", "changed"},
        "Each of the seven questions has one of these two answers.",
    )
] + [
    Invariant(f"number {i + 1}", _is(i), why)
    for i, why in enumerate((FACTOR, TURN, EXCHANGE, ON_KEYS, ON_QUERIES, VALUES, SHIFT))
]

# 5.4 another normaliser


def relu_weights(scores: Tensor) -> Tensor:
    parts = scores.relu()
    total = parts.sum(-1, keepdim=True)
    return parts / total.masked_fill(total == 0, 1.0)


def relu_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(54)
    mixed = torch.randn(3, 4, generator=draw)
    mixed[1] = -mixed[1].abs()
    small = 0.3 * torch.randn(4, 4, generator=draw)
    small[2] = 0.0
    tiny = torch.tensor([[0.05, -0.2, 0.03], [0.4, 0.3, -0.1]])
    positive = torch.rand(2, 5, generator=draw) + 0.1
    smallest = torch.tensor([[3e-4, -1.0, 2e-4], [2.0, 1e-4, 1e-4]])
    printed = torch.tensor([[3.0, 1.0, -2.0], [-1.0, 0.0, -1.0]])
    large = torch.tensor([[20.0, 5.0, -3.0], [7.0, -9.0, 9.0]])
    few = [(mixed[:1],), (printed,), (smallest,), (large,)]
    return [(mixed,), (small,), (positive,), (tiny,), *few]


def _shares_of(parts: Tensor, whole: Tensor, dim: int = -1) -> Tensor:
    total = whole.sum(dim, keepdim=True)
    return parts / total.masked_fill(total == 0, 1.0)


def _shares(parts: Tensor, dim: int = -1) -> Tensor:
    return _shares_of(parts, parts, dim)


RELU_MISTAKES = mistakes(
    ("NaN where no score is above zero",
     lambda scores: scores.relu() / scores.relu().sum(-1, keepdim=True),
     "A query with no score above zero has the sum 0, and 0/0 is NaN. It should get zeros."),
    ("a hard look-up", lambda scores: F.one_hot(scores.argmax(-1), scores.shape[-1]).float(),
     "All scores above zero get a share, and not the highest alone."),
    ("infinity where no score is above zero", lambda scores: (
        scores.relu() / scores.relu().sum(-1, keepdim=True)
     ).nan_to_num(nan=math.inf),
     "A query with no score above zero gets a row of zeros."),
    ("the sum goes on from row to row", lambda scores: (
        scores.relu() / scores.relu().sum(-1, keepdim=True).cumsum(0).clamp(min=1e-30)),
     "Each query has a sum of its own: it begins with 0 in every row."),
    ("NaN where the highest score is zero", lambda scores: (
        scores.relu() / scores.relu().sum(-1, keepdim=True)
     ).masked_fill((scores < 0).all(-1, keepdim=True), 0.0),
     "A score of 0 is not above zero, either: the sum of such a row is 0 as well."),
    ("NaN where no score is above zero, but in some other row", lambda scores: (
        scores.relu() / scores.relu().sum(-1, keepdim=True).clamp(
            min=0.0 if bool((scores > 0).any()) else 1.0)),
     "A single row may be without a score above zero: ask it of each row, and not of the whole "
     "table."),
    ("one for each score above zero", lambda scores: (scores > 0).float(),
     "What divides is the *sum* of the row, one number for all of its scores: divided by itself "
     "each is 1."),
    ("one for each score above zero, and NaN for the others",
     lambda scores: scores.relu() / scores.relu(),
     "What divides is the *sum* of the row, one number for all of its scores: divided by itself "
     "each is 1."),
    ("the sum without its axis", lambda scores: torch.where(
        (total := scores.relu().sum(-1)) > 0, scores.relu() / total, 0.0),
     "The sums are to divide row by row: (T, 1), with keepdim=True. (T,) is laid along the keys."),
    ("multiplied by the sum", lambda scores: scores.relu() * scores.relu().sum(-1, keepdim=True),
     "A weight is a share: *divided* by the sum of the row."),
    ("zeros everywhere", lambda scores: 0 * scores,
     "Only a query with no score above zero gets zeros."),
    ("an empty list", lambda scores: [], "Nothing is put into the list: each row belongs there."),
    ("one in place of what is below zero", lambda scores: _shares(
        scores.masked_fill(scores < 0, 1.0)), "What is below zero becomes zero."),
    ("minus one in place of what is below zero", lambda scores: _shares(
        scores.masked_fill(scores < 0, -1.0)), "What is below zero becomes zero."),
    ("what is below one taken for zero", lambda scores: _shares(
        scores.masked_fill(scores < 1, 0.0)), "What is below *zero* becomes zero."),
    ("what is between minus one and zero kept", lambda scores: _shares(
        scores.masked_fill(scores < -1, 0.0)), "What is below *zero* becomes zero."),
    ("one in place of all that is below one", lambda scores: _shares(scores.clamp(min=1)),
     "The ReLU puts zero in place of what is below zero."),
    ("minus one in place of all that is below it", lambda scores: _shares(scores.clamp(min=-1)),
     "The ReLU puts zero in place of what is below zero."),
    ("divided by the sum of the sizes, without the ReLU",
     lambda scores: _shares_of(scores, scores.abs()),
     "What is below zero becomes zero first. Then the weights are divided by their sum."),
    ("the softmax", lambda scores: scores.softmax(-1),
     "The softmax takes the exponential. Here the ReLU stands in its place."),
    ("the softmax of the ReLU", lambda scores: scores.relu().softmax(-1),
     "The exponential of zero is one, so what the ReLU has struck out gets a share again."),
    ("the softmax of the scores above zero",
     lambda scores: scores.masked_fill(scores <= 0, -math.inf).softmax(-1).nan_to_num(),
     "Those above zero are shared out by their exponentials. They should be shared out as they "
     "are."),
    ("divided by the sum, without the ReLU", lambda scores: _shares(scores),
     "Scores below zero become weights below zero, or, if the sum is negative, above."),
    ("the ReLU after the division", lambda scores: _shares(scores).relu(),
     "The scores below zero were still in the sum. They must go before the sum is taken."),
    ("the ReLU after the division, and NaN",
     lambda scores: (scores / scores.sum(-1, keepdim=True)).relu(),
     "The scores below zero were still in the sum. They must go before the sum is taken."),
    ("divided by the sum of all scores", lambda scores: _shares_of(scores.relu(), scores),
     "The ReLU stands above the line only. Below it, too, what is below zero must be zero."),
    ("divided by the sum of all scores, and NaN",
     lambda scores: scores.relu() / scores.sum(-1, keepdim=True),
     "The ReLU stands above the line only. Below it, too, what is below zero must be zero."),
    ("equal shares for all scores above zero", lambda scores: _shares((scores > 0).float()),
     "A score of 3 should weigh three times as much as a score of 1."),
    ("absolute values instead of the ReLU", lambda scores: _shares(scores.abs()),
     "A score of -3 is no fit at all, and must not count like a score of 3."),
    ("squares instead of the ReLU", lambda scores: _shares(scores**2),
     "A score of -3 is no fit at all, and must not count like a score of 3."),
    ("the sum over the queries", lambda scores: _shares(scores.relu(), dim=0),
     "Each query must share its attention among the keys: the sum runs over the last axis."),
    ("the sum over the queries, and NaN",
     lambda scores: scores.relu() / scores.relu().sum(0, keepdim=True),
     "Each query must share its attention among the keys: the sum runs over the last axis."),
    ("the sum over the whole table", lambda scores: scores.relu() / scores.relu().sum(),
     "All queries together sum to one. Each of them should."),
    ("not divided", lambda scores: scores.relu(),
     "The ReLU is there. The weights of a query must still be divided by their sum."),
    ("divided by the number of keys", lambda scores: scores.relu() / scores.shape[-1],
     "Some nets do this, and then the weights need not sum to one. Here they should."),
    ("divided by the highest",
     lambda scores: scores.relu() / scores.relu().amax(-1, keepdim=True).clamp(min=1e-12),
     "The highest weight is one, and the sum more. Divide by the sum."),
    ("divided by the length of the row instead of its sum",
     lambda scores: F.normalize(scores.relu(), dim=-1),
     "The length is the root of the sum of the squares, which is the default of F.normalize. "
     "Divide by the sum."),
    ("the lowest score moved to zero",
     lambda scores: _shares(scores - scores.amin(-1, keepdim=True)),
     "The lowest score of a row is not the zero of the ReLU: what is below zero becomes zero, and "
     "what is above stays as it is."),
    ("the sigmoid instead of the ReLU", lambda scores: _shares(scores.sigmoid()),
     "The sigmoid is above zero for every score, so nothing is struck out."),
    ("the sum kept from falling below 1",
     lambda scores: scores.relu() / scores.relu().sum(-1, keepdim=True).clamp(min=1.0),
     "A sum between 0 and 1 is a good sum and must be divided by. Only 0 needs care."),
    ("absolute values instead of the ReLU, and NaN in a row of zeros",
     lambda scores: scores.abs() / scores.abs().sum(-1, keepdim=True),
     "A score of -3 is no fit at all, and must not count like a score of 3. And 0/0 is NaN."),
    ("one added to the sum",
     lambda scores: scores.relu() / (scores.relu().sum(-1, keepdim=True) + 1),
     "This avoids 0/0, but no row sums to one any more. Only a sum of 0 needs care."),
    ("equal shares where no score is above zero",
     lambda scores: torch.where(
         (scores > 0).any(-1, keepdim=True), _shares(scores.relu()), 1 / scores.shape[-1]
     ),
     "The softmax would do this. Here a query that finds nothing should get nothing."),
    ("a sum without its axis",
     lambda scores: (scores.relu() / scores.relu().sum(-1)).nan_to_num(),
     "The sums have the shape (T), and stand along the keys then. With `keepdim=True` they have "
     "the shape (T, 1), one for each row."),
    ("a small number that is felt by small sums", lambda scores: _shares_of(
        scores.relu(), scores.relu().sum(-1, keepdim=True) + 1e-3),
     "Where scores are small, so is their sum, and a thousandth is felt. Add much less, or treat "
     "sums of 0 alone."),
    ("the sum kept from falling below a thousandth",
     lambda scores: scores.relu() / scores.relu().sum(-1, keepdim=True).clamp(min=1e-3),
     "The bound must be felt where the sum is zero, and nowhere else: sums may be small."),
    ("the sum kept from falling below a hundredth",
     lambda scores: scores.relu() / scores.relu().sum(-1, keepdim=True).clamp(min=1e-2),
     "The bound must be felt where the sum is zero, and nowhere else: sums may be small."),
    ("a hundredth added to the sum",
     lambda scores: scores.relu() / (scores.relu().sum(-1, keepdim=True) + 1e-2),
     "What is added must not be felt where the sum is not zero: put it there alone."),
    ("a hundred-thousandth added to the sum",
     lambda scores: scores.relu() / (scores.relu().sum(-1, keepdim=True) + 1e-5),
     "What is added must not be felt where the sum is not zero: put it there alone."),
    ("a millionth added to the sum",
     lambda scores: scores.relu() / (scores.relu().sum(-1, keepdim=True) + 1e-6),
     "Sums may be as small as a thousandth, and a millionth is felt there."),
    ("divided by the sum of the absolute values",
     lambda scores: _shares_of(scores.relu(), scores.abs()),
     "The denominator is the sum of what the ReLU has left."),
    ("divided by how many are above zero",
     lambda scores: scores.relu() / (scores > 0).sum(-1, keepdim=True).clamp(min=1),
     "The denominator is the sum of what the ReLU has left."),
    ("one where no score is above zero",
     lambda scores: (scores.relu() / scores.relu().sum(-1, keepdim=True)).nan_to_num(1.0),
     "A query with no score above zero gets a row of zeros."),
    ("scores cut at one", lambda scores: _shares(scores.clamp(0, 1)),
     "The ReLU cuts below zero, and nowhere else."),
    ("the exponential less one", lambda scores: _shares(scores.relu().expm1()),
     "The ReLU stands in the *place* of the exponential."),
    ("all weight on the highest, if above zero",
     lambda scores: F.one_hot(scores.argmax(-1), scores.shape[-1]).float()
     * (scores.amax(-1, keepdim=True) > 0),
     "All scores above zero get their share."),
    ("the root of the ReLU", lambda scores: _shares(scores.relu().sqrt()),
     "The parts are what the ReLU leaves, as it is."),
    ("a ten-thousandth added to the sum",
     lambda scores: scores.relu() / (scores.relu().sum(-1, keepdim=True) + 1e-4),
     "What is added must not be felt where the sum is not zero: put it there alone."),
    ("the columns divided by their sums, and by the number of queries", lambda scores: (
        _shares(scores.relu(), dim=0) / scores.shape[0]),
     "Each query's weights are divided by *their* sum: the last axis."),
    ("the ReLU of the softmax less even shares", lambda scores: _shares(
        (scores.softmax(-1) - 1 / scores.shape[-1]).relu()),
     "The ReLU stands in the place of the exponential."),
    ("divided by the mean", lambda scores: (
        scores.relu() / scores.relu().mean(-1, keepdim=True)).nan_to_num(),
     "Divide by the sum, so that the weights sum to one."),
    ("a leaky ReLU", lambda scores: _shares(F.leaky_relu(scores)),
     "What is below zero becomes zero, and not a little less than zero."),
    ("another function that is nearly a ReLU, GELU", lambda scores: _shares(F.gelu(scores)),
     "What is below zero becomes zero."),
    ("softplus in place of the ReLU", lambda scores: _shares(F.softplus(scores)),
     "What is below zero becomes zero."),
    ("the ReLU's negative side", lambda scores: _shares((-scores).relu()),
     "What is *below* zero becomes zero."),
    ("divided along the wrong axis, without its axis",
     lambda scores: (scores.relu() / scores.relu().sum(-1)).nan_to_num()
     if scores.shape[0] == scores.shape[1] else (
         scores.relu().T / scores.relu().sum(-1)).T.nan_to_num(),
     "Without keepdim=True the sums of the rows stand along the columns of a square table."),
    ("the ReLU squared", lambda scores: _shares(scores.relu().square()),
     "Above zero, the ReLU leaves a score as it is."),
    ("the softmax with the negative ones struck out",
     lambda scores: torch.where(scores > 0, scores.softmax(-1), 0.0),
     "The softmax takes the exponential. Here the ReLU stands in its place, and the sum is that "
     "of what is left."),
    ("zeros for all queries where one finds nothing", lambda scores: (
        torch.zeros_like(scores)
        if (scores.relu().sum(-1) == 0).any() else _shares(scores.relu())),
     "Each query is on its own: only the row of the one that finds nothing is zeros."),
    ("a small share for what is below zero", lambda scores: _shares(F.elu(scores)),
     "What is below zero becomes zero, all of it."),
    ("a leaky ReLU of slope 0.1", lambda scores: _shares(F.leaky_relu(scores, 0.1)),
     "What is below zero becomes zero, all of it."),
    ("the lowest score taken off in place of the ReLU",
     lambda scores: (
         (up := scores - scores.amin(-1, keepdim=True)) / up.sum(-1, keepdim=True)
     ),
     "Then a score below zero gets a share, too. The ReLU makes it zero, and leaves the others as "
     "they are."),
    *(
        (f"a row emptied {when}", lambda scores, keep=keep: _shares(scores.relu()) * keep(scores),
         f"A row is empty only if *no* score in it is above zero. {why}")
        for when, keep, why in (
            ("where the scores as they came sum to zero or less",
             lambda s: s.sum(-1, keepdim=True) > 0,
             "Those below zero may outweigh the others: what decides is the sum after the ReLU."),
            ("where any score is below zero", lambda s: (s >= 0).all(-1, keepdim=True),
             "Is it `all`, where `any` is meant?"),
            ("where the first score is not above zero", lambda s: s[..., :1] > 0,
             "Look at all of its scores."),
            ("where the last score is not above zero", lambda s: s[..., -1:] > 0,
             "Look at all of its scores."),
        )
    ),
    *(
        (f"{name}, but zeros where no score is above zero",
         lambda scores, of=of: of(scores) * (scores > 0).any(-1, keepdim=True), why)
        for name, of, why in (
            ("a leaky ReLU", lambda s: _shares(F.leaky_relu(s)),
             "The rows of zeros are right. In the others, too, what is below zero becomes zero, "
             "and not a little less than zero."),
            ("a leaky ReLU of slope 0.1", lambda s: _shares(F.leaky_relu(s, 0.1)),
             "The rows of zeros are right. In the others, too, what is below zero becomes zero."),
            ("GELU", lambda s: _shares(F.gelu(s)),
             "The rows of zeros are right. In the others, too, what is below zero becomes zero."),
            ("SiLU", lambda s: _shares(F.silu(s)),
             "The rows of zeros are right. In the others, too, what is below zero becomes zero."),
            ("ELU", lambda s: _shares(F.elu(s)),
             "The rows of zeros are right. In the others, too, what is below zero becomes zero."),
            ("softplus", lambda s: _shares(F.softplus(s)),
             "The rows of zeros are right. In the others, too, what is below zero becomes zero."),
            ("the sigmoid", lambda s: _shares(s.sigmoid()),
             "The rows of zeros are right. In the others, too, what is below zero becomes zero."),
            ("the softmax", lambda s: s.softmax(-1),
             "The rows of zeros are right. In the others the ReLU stands in the place of the "
             "exponential."),
            ("absolute values", lambda s: _shares(s.abs()),
             "The rows of zeros are right. In the others, too, a score of -3 is no fit at all."),
            ("squares", lambda s: _shares(s**2),
             "The rows of zeros are right. In the others, too, a score of -3 is no fit at all."),
            ("divided by the sum, without the ReLU", _shares,
             "The rows of zeros are right. In the others, too, what is below zero becomes zero."),
        )
    ),
)  # fmt: skip


def _not_negative(output: Tensor, scores: Tensor) -> bool:
    return not (torch.as_tensor(output) < 0).any()


def _one_or_zero(output: Tensor, scores: Tensor) -> bool:
    sums = torch.as_tensor(output).double().sum(-1)
    return bool(torch.allclose(sums, (scores > 0).any(-1).double(), atol=1e-4))


# 5.5 and 5.6 a head of one sequence, and of two


def weigh(q: Tensor, k: Tensor) -> Tensor:
    return (q @ k.transpose(-2, -1)).softmax(-1)


def head_across(y: Tensor, x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> Tensor:
    return weigh(y @ w_q, x @ w_k) @ (x @ w_v)


def one_head(x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> Tensor:
    return head_across(x, x, w_q, w_k, w_v)


def _draw(seed: int, *shapes: tuple) -> tuple:
    draw = torch.Generator().manual_seed(seed)
    return tuple(0.7 * torch.randn(*shape, generator=draw) for shape in shapes)


def head_cases() -> list[tuple]:
    sizes = [(2, 3, 4, 2, 5), (3, 5, 4, 4, 4), (1, 4, 3, 2, 2), (2, 1, 3, 2, 1)]  # B, T, D, K, V
    return [_draw(55 + b, (b, s, d), (d, k), (d, k), (d, v)) for b, s, d, k, v in sizes]


def across_cases() -> list[tuple]:
    sizes = [(2, 3, 5, 4, 2, 3), (3, 4, 4, 3, 3, 3), (1, 2, 3, 4, 2, 5)]  # B, T, S, D, K, V
    sizes.append((2, 1, 3, 2, 2, 1))
    return [
        _draw(56 + b, (b, t, d), (b, s, d), (d, k), (d, k), (d, v)) for b, t, s, d, k, v in sizes
    ]


def _table(y: Tensor, x: Tensor, w_q: Tensor, w_k: Tensor) -> Tensor:
    return (y @ w_q) @ (x @ w_k).transpose(-2, -1)


def _of_one(mistake: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A mistake of two sequences, made with one."""
    return lambda x, *matrices: mistake(x, x, *matrices)


OVER_THE_KEYS = (
    "Each query must share its attention among the keys: what do the weights of one query sum to? "
    "The softmax runs over the axis of the keys. Of q k^T that is the last, of k q^T, with the "
    "keys as rows, the one before it."
)

# (name, what is computed, why): mistakes that both exercises share
SHARED = [
    ("the query matrix forgotten", lambda y, x, w_q, w_k, w_v: weigh(y, x @ w_k) @ (x @ w_v),
     "The words ask with their own vectors. A query is the vector times its matrix."),
    ("the key matrix forgotten", lambda y, x, w_q, w_k, w_v: weigh(y @ w_q, x) @ (x @ w_v),
     "The words are found by their own vectors. A key is the vector times its matrix."),
    ("the value matrix forgotten", lambda y, x, w_q, w_k, w_v: weigh(y @ w_q, x @ w_k) @ x,
     "The weights are right, but what is averaged is the words' own vectors. A value is the vector "
     "times its matrix."),
    ("the query matrix used for the keys as well",
     lambda y, x, w_q, w_k, w_v: weigh(y @ w_q, x @ w_q) @ (x @ w_v),
     "With one matrix for both, no word can ask for what it is not. Keys have their own."),
    ("the key matrix used for the queries as well",
     lambda y, x, w_q, w_k, w_v: weigh(y @ w_k, x @ w_k) @ (x @ w_v),
     "With one matrix for both, no word can ask for what it is not. Queries have their own."),
    ("keys handed over as values", lambda y, x, w_q, w_k, w_v: weigh(y @ w_q, x @ w_k) @ (x @ w_k),
     "A key says by what a word is found. What is averaged is the values."),
    ("the matrices transposed", lambda y, x, w_q, w_k, w_v: head_across(y, x, w_q.T, w_k.T, w_v.T),
     "The matrices have the shape (D, K), so a row x is multiplied as it is: x W. It is nn.Linear "
     "that stores them transposed. If D = K, no shape complains."),
    ("the softmax over the queries",
     lambda y, x, w_q, w_k, w_v: _table(y, x, w_q, w_k).softmax(-2) @ (x @ w_v),
     OVER_THE_KEYS),
    ("no softmax", lambda y, x, w_q, w_k, w_v: _table(y, x, w_q, w_k) @ (x @ w_v),
     "The scores weigh the values as they are. The softmax must make shares of them first."),
    ("scores divided by the root of the width",
     lambda y, x, w_q, w_k, w_v: (
         (_table(y, x, w_q, w_k) / w_q.shape[1] ** 0.5).softmax(-1) @ (x @ w_v)
     ),
     "That division comes in Chapter 6. Equation (5.4) has none."),
    ("weights transposed",
     lambda y, x, w_q, w_k, w_v: (_table(y, x, w_q, w_k).softmax(-1).transpose(-2, -1) @ (x @ w_v)),
     "The rows of the weights belong to the queries. Turned on its side, the table hands each "
     "value to the wrong words."),
    ("weights instead of outputs", lambda y, x, w_q, w_k, w_v: weigh(y @ w_q, x @ w_k),
     "The weights are right. What is asked for is the weighted sums of the values."),
    ("a hard look-up",
     lambda y, x, w_q, w_k, w_v: (
         F.one_hot(_table(y, x, w_q, w_k).argmax(-1), x.shape[1]).float() @ (x @ w_v)
     ),
     "Each query takes the best key only. The softmax gives every value its share."),
    ("keys reshaped, not transposed",
     lambda y, x, w_q, w_k, w_v: (
         ((y @ w_q) @ (x @ w_k).reshape(x.shape[0], w_k.shape[1], -1)).softmax(-1) @ (x @ w_v)
     ),
     "A reshape gives the right shape and the wrong numbers: it cuts the same row of numbers anew, "
     "so that each column holds pieces of several keys. A transpose exchanges the axes."),
    ("a causal mask",
     lambda y, x, w_q, w_k, w_v: (
         _table(y, x, w_q, w_k)
         .masked_fill(torch.ones(y.shape[1], x.shape[1]).triu(1).bool(), -math.inf)
         .softmax(-1)
         @ (x @ w_v)
     ),
     "The words behind were hidden, which comes in Chapter 8. Here each query may attend to all "
     "keys."),
    ("scores of the words' own vectors", lambda y, x, w_q, w_k, w_v: weigh(y, x) @ (x @ w_v),
     "The values have their matrix. The scores are still those of Chapter 4: queries and keys have "
     "matrices, too."),
    ("the plain average of the values",
     lambda y, x, w_q, w_k, w_v: (x @ w_v).mean(1, keepdim=True).expand(-1, y.shape[1], -1),
     "Every query got the same. Values whose keys fit better count more."),
]  # fmt: skip

# and those that only the first looks for
ALONE = [
    ("scores divided by their sum, without the exponential",
     lambda y, x, w_q, w_k, w_v: (table := _table(y, x, w_q, w_k)) / table.sum(-1, keepdim=True) @ (
         x @ w_v),
     "The sum of scores may be zero or negative. The softmax takes the exponential first."),
    ("powers of 2", lambda y, x, w_q, w_k, w_v: (
        (math.log(2) * _table(y, x, w_q, w_k)).softmax(-1) @ (x @ w_v)),
     "Softmax takes the exponential, with base e."),
    ("exponentials multiplied by their sum",
     lambda y, x, w_q, w_k, w_v: (e := _table(y, x, w_q, w_k).exp()) * e.sum(-1, keepdim=True) @ (
         x @ w_v),
     "Weights are shares: the exponentials of each query must be *divided* by their sum."),
    ("shares upside down",
     lambda y, x, w_q, w_k, w_v: (e := _table(y, x, w_q, w_k).exp()).sum(-1, keepdim=True) / e @ (
         x @ w_v),
     "A weight is the exponential of a score, divided by the sum of all: not the sum divided by "
     "it."),
    ("the weights added up, without the values", lambda y, x, w_q, w_k, w_v: (
        (x @ w_v)[:, :1].mul(0).add(1).expand(-1, y.shape[1], -1)),
     "The weights of a query sum to one. Each is to be multiplied by its value."),
    ("one for each key in place of its weight", lambda y, x, w_q, w_k, w_v: (
        torch.ones_like(_table(y, x, w_q, w_k)) @ (x @ w_v)),
     "A weight is an exponential divided by the *sum* over the keys (not by itself)."),
    ("zeros", lambda y, x, w_q, w_k, w_v: 0 * head_across(y, x, w_q, w_k, w_v),
     "Nothing is added to the zeros: each value, times its weight, belongs there."),
    ("no matrix at all", lambda y, x, w_q, w_k, w_v: weigh(y, x) @ x,
     "This is Chapter 4: one vector plays all three roles."),
    ("queries compared with the values",
     lambda y, x, w_q, w_k, w_v: weigh(y @ w_q, x @ w_v) @ (x @ w_v),
     "Scores come from queries and keys. The values are only averaged."),
    ("keys and values exchanged", lambda y, x, w_q, w_k, w_v: weigh(y @ w_q, x @ w_v) @ (x @ w_k),
     "Scores come from queries and keys, and what is averaged is the values."),
    ("the softmax over the batch",
     lambda y, x, w_q, w_k, w_v: _table(y, x, w_q, w_k).softmax(0) @ (x @ w_v),
     "The sentences of a batch have nothing to do with each other. The softmax runs over the "
     "keys."),
    ("the softmax over the whole table",
     lambda y, x, w_q, w_k, w_v: (
         _table(y, x, w_q, w_k).flatten(1).softmax(-1).view(*y.shape[:2], -1) @ (x @ w_v)
     ),
     "All queries of a sentence together sum to one. Each of them should."),
    ("the softmax after the values",
     lambda y, x, w_q, w_k, w_v: (_table(y, x, w_q, w_k) @ (x @ w_v)).softmax(-1),
     "The softmax makes weights of the scores. It comes before the values are averaged."),
    ("scores divided by the width",
     lambda y, x, w_q, w_k, w_v: (_table(y, x, w_q, w_k) / w_q.shape[1]).softmax(-1) @ (x @ w_v),
     "Equation (5.4) divides the scores by nothing."),
    ("scores divided by the root of the words' width",
     lambda y, x, w_q, w_k, w_v: (
         (_table(y, x, w_q, w_k) / x.shape[-1] ** 0.5).softmax(-1) @ (x @ w_v)
     ),
     "Equation (5.4) divides the scores by nothing. Where Chapter 6 does, it is another width."),
    ("exponentials that were not divided by their sum",
     lambda y, x, w_q, w_k, w_v: _table(y, x, w_q, w_k).exp() @ (x @ w_v),
     "Weights are shares: the exponentials of each query must be divided by their sum."),
    ("the sigmoid instead of the softmax",
     lambda y, x, w_q, w_k, w_v: _table(y, x, w_q, w_k).sigmoid() @ (x @ w_v),
     "The sigmoid judges each key by itself, so the weights of a query do not sum to one."),
    *(
        (f"{name} made to sum to one",
         lambda y, x, w_q, w_k, w_v, of=of: (w := of(_table(y, x, w_q, w_k)))
         / w.sum(-1, keepdim=True) @ (x @ w_v),
         "The softmax takes the *exponential* of each score and divides it by the sum of all of "
         "its query.")
        for name, of in (
            ("sigmoids", torch.sigmoid), ("absolute values of the scores", torch.abs),
            ("squares of the scores", torch.square), ("softplus of the scores", F.softplus),
        )
    ),
    ("the ReLU in place of the softmax",
     lambda y, x, w_q, w_k, w_v: relu_weights(_table(y, x, w_q, w_k)) @ (x @ w_v),
     "That is the normaliser of Exercise 5.4. Equation (5.4) takes the softmax of the scores."),
    ("the ReLU in place of the softmax, not divided by the sum",
     lambda y, x, w_q, w_k, w_v: _table(y, x, w_q, w_k).relu() @ (x @ w_v),
     "Equation (5.4) takes the softmax of the scores."),
    ("scores divided by the root of the words' width, and the softmax over the queries",
     lambda y, x, w_q, w_k, w_v: (
         (_table(y, x, w_q, w_k) / x.shape[-1] ** 0.5).softmax(1) @ (x @ w_v)
     ),
     "Equation (5.4) divides the scores by nothing. Each query shares among the keys."),
]  # fmt: skip


def _head_with(
    pair: Callable = lambda y, x, w_q, w_k: (y @ w_q, x @ w_k),
    keys: Callable[[Tensor], Tensor] = lambda k: k.mT,
    scale: Callable[[Tensor, Tensor], float] = lambda q, k: 1.0,
    axis: int | None = -1,
    values: Callable = lambda y, x, w_q, w_k, w_v: x @ w_v,
    give: Callable[[Tensor, Tensor], Tensor] = lambda w, v: w @ v,
) -> Callable[..., Tensor]:
    """The head of two sequences, right by default; each argument makes one slip."""

    def head(y: Tensor, x: Tensor, w_q: Tensor, w_k: Tensor, w_v: Tensor) -> Tensor:
        q, k = pair(y, x, w_q, w_k)
        scores = q @ keys(k) / scale(q, k)
        weights = scores if axis is None else scores.softmax(axis)
        return give(weights, values(y, x, w_q, w_k, w_v))

    return head


HEAD_SLIPS = [
    ("the matrices of queries and keys exchanged",
     {"pair": lambda y, x, w_q, w_k: (y @ w_k, x @ w_q)},
     "W^Q makes the queries of those who ask."),
    ("the key matrix used for the queries",
     {"pair": lambda y, x, w_q, w_k: (y @ w_k, x @ w_k)},
     "Queries are made by W^Q."),
    ("the query matrix used for the keys",
     {"pair": lambda y, x, w_q, w_k: (y @ w_q, x @ w_q)}, "Keys are made by W^K."),
    ("the query matrix forgotten", {"pair": lambda y, x, w_q, w_k: (y, x @ w_k)},
     "A query is a word's vector times W^Q."),
    ("scores of the words' own vectors", {"pair": lambda y, x, w_q, w_k: (y, x)},
     "Compared are queries and keys, made by W^Q and W^K."),
    ("keys reshaped, not transposed",
     {"keys": lambda k: k.reshape(k.shape[0], k.shape[2], k.shape[1])},
     "A reshape cuts the rows anew."),
    ("scores divided by the root of the width", {"scale": lambda q, k: q.shape[-1] ** 0.5},
     "Nothing divides the scores in this chapter."),
    ("scores divided by the width", {"scale": lambda q, k: q.shape[-1]},
     "Nothing divides the scores in this chapter."),
    ("the softmax over the queries", {"axis": 1}, "Each query shares among the keys."),
    ("the softmax over the batch", {"axis": 0}, "Each query shares among the keys."),
    ("no softmax", {"axis": None}, "Weights are the softmax of the scores."),
    ("the value matrix forgotten", {"values": lambda y, x, w_q, w_k, w_v: x},
     "What is handed over is x W^V."),
    ("keys handed over as values", {"values": lambda y, x, w_q, w_k, w_v: x @ w_k},
     "What is handed over is x W^V."),
    ("weights instead of outputs", {"give": lambda w, v: w}, "The weights average the values."),
]  # fmt: skip
HEAD_BUT = [
    ("the value matrix forgotten", "weights instead of outputs"),
    ("keys handed over as values", "weights instead of outputs"),
    ("scores of the words' own vectors", "the value matrix forgotten"),
    ("scores of the words' own vectors", "scores divided by the root of the width"),
    ("the query matrix forgotten", "scores divided by the root of the width"),
    ("the query matrix forgotten", "scores divided by the width"),
    ("scores of the words' own vectors", "scores divided by the width"),
]
HEAD_PAIRS = combined(_head_with, HEAD_SLIPS, but=HEAD_BUT)

ONE_HEAD_MISTAKES = mistakes(
    *((name, _of_one(wrong), why) for name, wrong, why in SHARED + ALONE),
    ("queries and keys exchanged", lambda x, w_q, w_k, w_v: weigh(x @ w_k, x @ w_q) @ (x @ w_v),
     "The keys ask and the queries are found. Row t of the table must belong to the query of word "
     "t."),
    ("all sentences of the batch read as one",
     lambda x, *matrices: one_head(x.flatten(0, 1)[None], *matrices),
     "Each sentence of a batch stands for itself, and so do the outputs: (B, T, d_v)."),
    ("the sentences of a batch looked at together",
     lambda x, *matrices: one_head(x.flatten(0, 1)[None], *matrices)[0].view(*x.shape[:2], -1),
     "The words of all sentences share one table. Each sentence of a batch has its own."),
    ("queries handed over as values", lambda x, w_q, w_k, w_v: weigh(x @ w_q, x @ w_k) @ (x @ w_q),
     "A query says what a word looks for. What is averaged is the values."),
    ("scores divided by the number of words",
     lambda x, w_q, w_k, w_v: weigh(x @ w_q / x.shape[1], x @ w_k) @ (x @ w_v),
     "Nothing divides the scores here: the softmax makes shares of them."),
    ("the ReLU of the scores", lambda x, w_q, w_k, w_v: (
        (x @ w_q @ (x @ w_k).mT).relu().softmax(-1) @ (x @ w_v)),
     "A score may be negative: its exponential is small, and no less a share."),
    ("minus the squared distance in place of the dot product",
     lambda x, w_q, w_k, w_v: (-torch.cdist(x @ w_q, x @ w_k) ** 2).softmax(-1) @ (x @ w_v),
     "The score is the dot product of query and key."),
    ("the cosine in place of the dot product",
     lambda x, w_q, w_k, w_v: weigh(F.normalize(x @ w_q, dim=-1), F.normalize(x @ w_k, dim=-1))
     @ (x @ w_v),
     "The score is the dot product of query and key, with their lengths."),
    *(
        (name, lambda x, w_q, w_k, w_v, give=give: give(weigh(x @ w_q, x @ w_k), x @ w_v), why)
        for name, give, why in (
            ("the outputs added up over the words", lambda w, v: (w @ v).sum(1),
             "Each word has its own output."),
            ("the outputs averaged over the words", lambda w, v: (w @ v).mean(1),
             "Each word has its own output."),
            ("the ReLU of the outputs", lambda w, v: (w @ v).relu(), "The average is the output."),
            ("the weights squared", lambda w, v: w**2 @ v, "The weights average the values."),
            ("the word's own weight alone", lambda w, v: (
                w.diagonal(dim1=1, dim2=2).unsqueeze(-1) * v), "All values are averaged."),
            ("the softmax taken twice", lambda w, v: w.softmax(-1) @ v,
             "The softmax is taken once."),
            ("the softmax of the outputs", lambda w, v: (w @ v).softmax(-1),
             "The softmax is taken of the scores, and of nothing else."),
            ("the softmax of the values", lambda w, v: w @ v.softmax(-1),
             "The softmax is taken of the scores, and of nothing else."),
            ("the outputs divided by the number of words", lambda w, v: w @ v / v.shape[1],
             "The weights sum to one already."),
        )
    ),
    ("scores divided by the root of the number of words",
     lambda x, w_q, w_k, w_v: (
         (_table(x, x, w_q, w_k) / x.shape[1] ** 0.5).softmax(-1) @ (x @ w_v)),
     "Nothing divides the scores in this chapter."),
    ("the word's own value added", lambda x, w_q, w_k, w_v: (
        one_head(x, w_q, w_k, w_v) + x @ w_v),
     "The output is the average alone."),
    ("the sign of the scores turned",
     lambda x, w_q, w_k, w_v: weigh(-x @ w_q, x @ w_k) @ (x @ w_v),
     "The higher the score, the larger the weight."),
    *((name, _of_one(wrong), why) for name, wrong, why in HEAD_PAIRS
      if not name.startswith("the matrices of queries and keys exchanged, and the softmax over "
                             "the queries")),
    ("no word looks at itself", lambda x, w_q, w_k, w_v: (
        (s := (x @ w_q) @ (x @ w_k).mT)
        - 1e9 * torch.eye(s.shape[-1]) * (s.shape[-1] > 1)).softmax(-1) @ (x @ w_v),
     "Here a word looks at all words of its sentence, itself included."),
    ("the first sentence's weights for all",
     lambda x, w_q, w_k, w_v: weigh(x @ w_q, x @ w_k)[:1] @ (x @ w_v),
     "Each sentence of a batch has its own weights."),
    ("the values averaged twice",
     lambda x, w_q, w_k, w_v: (w := weigh(x @ w_q, x @ w_k)) @ (w @ (x @ w_v)),
     "The weights meet the values once."),
    ("the last word alone", lambda x, *matrices: one_head(x, *matrices)[:, -1],
     "Every word asks: one output for each, (B, T, d_v)."),
    ("the first sentence for all",
     lambda x, *matrices: one_head(x[:1], *matrices).expand(len(x), -1, -1),
     "Each sentence of a batch has its own queries, keys and values."),
    ("the logarithms of the weights", lambda x, w_q, w_k, w_v: (
        (x @ w_q @ (x @ w_k).mT).log_softmax(-1) @ (x @ w_v)),
     "`log_softmax` gives logarithms. The values are averaged with the weights themselves."),
    ("scores divided by the root of the values' width", lambda x, w_q, w_k, w_v: (
        (x @ w_q @ (x @ w_k).mT / w_v.shape[1] ** 0.5).softmax(-1) @ (x @ w_v)),
     "Equation (5.4) divides by nothing; and values have no part in the scores."),
    ("a softmax of the queries, and none of the scores",
     lambda x, w_q, w_k, w_v: (x @ w_q).softmax(-1) @ ((x @ w_k).mT @ (x @ w_v)),
     "What is shared out are the scores of each query, over the keys."),
)  # fmt: skip


def _again(weights: Tensor) -> Tensor:
    return weights / weights.sum(-1, keepdim=True)


ACROSS_MISTAKES = mistakes(
    ("the table turned on its side, and not turned back",
     lambda y, x, w_q, w_k, w_v: _table(y, x, w_q, w_k).mT.softmax(-1) @ (x @ w_v),
     "Row t of the table belongs to the query of word t: q @ k.transpose(-2, -1), (B, T, S)."),
    ("what the code above gives",
     lambda y, x, w_q, w_k, w_v: _table(y, x, w_k, w_q).softmax(-2) @ (x @ w_v),
     "Both mistakes are still there, in whatever order the rest is written. Which "
     "matrix belongs to those who ask? And what do the weights of one query sum to?"),
    ("the softmax over the queries",
     lambda y, x, w_q, w_k, w_v: _table(y, x, w_q, w_k).softmax(-2) @ (x @ w_v),
     f"The matrices are right now. {OVER_THE_KEYS}"),
    *(row for row in SHARED if row[0] != "the softmax over the queries"),
    ("both mended, and the values made by the wrong matrix",
     lambda y, x, w_q, w_k, w_v: weigh(y @ w_q, x @ w_k) @ (x @ w_q),
     "The values were made by their own matrix already: that was no mistake."),
    ("the two sequences exchanged", lambda y, x, w_q, w_k, w_v: head_across(x, y, w_q, w_k, w_v),
     "Here x asks and y is looked at. Queries come from y; there is one output for each."),
    ("the softmax taken twice",
     lambda y, x, w_q, w_k, w_v: (
         ((y @ w_q) @ (x @ w_k).mT).softmax(-1).softmax(-1) @ (x @ w_v)
     ),
     "The weights went through a second softmax, which makes them nearly equal."),
    ("keys from the asking sequence",
     lambda y, x, w_q, w_k, w_v: weigh(y @ w_q, y @ w_k) @ (x @ w_v),
     "Keys and values belong together in pairs: both come from x. If T = S, no shape complains."),
    ("values from the asking sequence",
     lambda y, x, w_q, w_k, w_v: weigh(y @ w_q, x @ w_k) @ (y @ w_v),
     "Keys and values belong together in pairs: both come from x. If T = S, no shape complains."),
    ("queries from the sequence that is looked at",
     lambda y, x, w_q, w_k, w_v: head_across(x, x, w_q, w_k, w_v),
     "This is self-attention of x: y does not appear. The queries come from y."),
    ("keys and values from the asking sequence",
     lambda y, x, w_q, w_k, w_v: head_across(y, y, w_q, w_k, w_v),
     "This is self-attention of y: x does not appear. Keys and values come from x."),
    ("queries and values from x, keys from y",
     lambda y, x, w_q, w_k, w_v: weigh(x @ w_q, y @ w_k) @ (x @ w_v),
     "y asks and x is looked at: queries come from y, keys and values from x."),
    ("the matrices of queries and keys exchanged",
     lambda y, x, w_q, w_k, w_v: weigh(y @ w_k, x @ w_q) @ (x @ w_v),
     "Each query shares its attention among the keys now. But the matrices are still exchanged: "
     "w_q belongs to those who ask."),
    ("both sequences joined for keys and values",
     lambda y, x, w_q, w_k, w_v: head_across(y, torch.cat([y, x], 1), w_q, w_k, w_v),
     "The asking words look at each other as well. Only x is to be looked at."),
    *(row for row in ALONE if "values" not in row[0] or row[0].startswith("the softmax")),
    ("shared out among the queries, and then again among the keys",
     lambda y, x, w_q, w_k, w_v: _again(_table(y, x, w_q, w_k).softmax(-2)) @ (x @ w_v),
     "The softmax ran over the queries, and its rows were divided by their sums. The exponentials "
     "must be divided by the sum over the keys from the start."),
    ("the softmax over the queries, and then over the keys",
     lambda y, x, w_q, w_k, w_v: _table(y, x, w_q, w_k).softmax(-2).softmax(-1) @ (x @ w_v),
     "One softmax is enough, over the keys."),
    ("the weights as (B, S, T), and not averaged",
     lambda y, x, w_q, w_k, w_v: ((x @ w_k) @ (y @ w_q).mT).softmax(-2),
     "These are the weights, with the keys as rows. The values are averaged with them."),
    ("the weights reshaped, not transposed",
     lambda y, x, w_q, w_k, w_v: (
         (w := ((x @ w_k) @ (y @ w_q).mT).softmax(-2)).reshape(len(w), w.shape[2], w.shape[1])
         @ (x @ w_v)
     ),
     "A reshape moves no numbers: exchange the last two axes."),
    ("the asking sequence's mean value added",
     lambda y, x, w_q, w_k, w_v: head_across(y, x, w_q, w_k, w_v) + (y @ w_v).mean(1, keepdim=True),
     "All values are those of the sequence that is asked."),
    *(row for row in HEAD_PAIRS
      if row[0] != "the matrices of queries and keys exchanged, and the softmax over the queries"),
    ("the sign of the scores turned",
     lambda y, x, w_q, w_k, w_v: weigh(-y @ w_q, x @ w_k) @ (x @ w_v),
     "A higher score must give a higher weight."),
    ("the first sentence's values for all",
     lambda y, x, w_q, w_k, w_v: weigh(y @ w_q, x @ w_k) @ (x @ w_v)[:1],
     "Each sentence of a batch has its own values."),
    ("the asking word's own value added",
     lambda y, x, w_q, w_k, w_v: head_across(y, x, w_q, w_k, w_v) + y @ w_v,
     "The output is the average alone, of the values of the sequence that is asked."),
    ("the sentences of a batch looked at together",
     lambda y, x, *matrices: head_across(
         y.flatten(0, 1)[None], x.flatten(0, 1)[None], *matrices)[0].view(*y.shape[:2], -1),
     "The words of all sentences share one table. Each sentence of a batch has its own."),
)  # fmt: skip

# 5.7 weights from another net


class LoadedHead(nn.Module):
    def __init__(self, w_q: Tensor, w_k: Tensor, w_v: Tensor):
        super().__init__()
        self.w_q, self.w_k, self.w_v = (self.layer(w) for w in (w_q, w_k, w_v))

    def layer(self, w: Tensor) -> nn.Linear:
        linear = nn.Linear(*w.shape, bias=False)
        linear.weight = nn.Parameter(w.T)
        return linear

    def roles(self, x: Tensor) -> tuple:
        return self.w_q(x), self.w_k(x), self.w_v(x)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.roles(x)
        return weigh(q, k) @ v


class NotTransposed(LoadedHead):
    def layer(self, w):
        linear = nn.Linear(*w.shape, bias=False)
        linear.weight = nn.Parameter(w)
        return linear


class TimesWeight(LoadedHead):
    def roles(self, x):
        return x @ self.w_q.weight, x @ self.w_k.weight, x @ self.w_v.weight


class NotTransposedTwice(NotTransposed):
    roles = TimesWeight.roles


class WithBias(LoadedHead):
    def layer(self, w):
        linear = nn.Linear(*w.shape)
        linear.weight = nn.Parameter(w.T)
        return linear


class NotLoaded(LoadedHead):
    def layer(self, w):
        return nn.Linear(*w.shape, bias=False)


class NotUsed(LoadedHead):
    def __init__(self, *matrices):
        super().__init__(*matrices)
        self.matrices = matrices

    def roles(self, x):
        return tuple(x @ w for w in self.matrices)


class Reshaped(LoadedHead):
    def layer(self, w):
        linear = nn.Linear(*w.shape, bias=False)
        linear.weight = nn.Parameter(w.reshape(linear.weight.shape))
        return linear


class KeysAsk(LoadedHead):
    def roles(self, x):
        return self.w_k(x), self.w_q(x), self.w_v(x)


class KeysLayerForTwo(LoadedHead):
    def roles(self, x):
        return self.w_k(x), self.w_k(x), self.w_v(x)


class Exchanged(LoadedHead):
    def __init__(self, w_q, w_k, w_v):
        super().__init__(w_k, w_q, w_v)


class KeysHandedOver(LoadedHead):
    def roles(self, x):
        return self.w_q(x), self.w_k(x), self.w_k(x)


class WordsHandedOver(LoadedHead):
    def roles(self, x):
        return self.w_q(x), self.w_k(x), x


class OneLayerForTwo(LoadedHead):
    def roles(self, x):
        return self.w_q(x), self.w_q(x), self.w_v(x)


class OverTheQueries(LoadedHead):
    def forward(self, x):
        q, k, v = self.roles(x)
        return (q @ k.transpose(-2, -1)).softmax(-2) @ v


class NoSoftmax(LoadedHead):
    def forward(self, x):
        q, k, v = self.roles(x)
        return q @ k.transpose(-2, -1) @ v


class Scaled(LoadedHead):
    def forward(self, x):
        q, k, v = self.roles(x)
        return F.scaled_dot_product_attention(q, k, v)


class OnlyTheLayers(LoadedHead):
    def forward(self, x):
        return self.roles(x)


class OnlyWeights(LoadedHead):
    def forward(self, x):
        q, k, _ = self.roles(x)
        return weigh(q, k)


def loaded_cases() -> list[tuple]:
    return [(*matrices, x) for x, *matrices in head_cases()]


def use_head(answer: Any, w_q: Tensor, w_k: Tensor, w_v: Tensor, x: Tensor) -> dict | None:
    """Whether there is a bias, what the module gives, and what its layers give."""
    torch.manual_seed(0)  # layers that were not loaded are random: the same for every answer
    head = answer(w_q, w_k, w_v)
    made_of = {"queries": "w_q", "keys": "w_k", "values": "w_v"}
    layers = {role: getattr(head, name, None) for role, name in made_of.items()}
    for name, layer in zip(made_of.values(), layers.values(), strict=True):
        if not isinstance(layer, nn.Linear):
            came = "none" if layer is None else type(layer).__name__
            raise TypeError(f"{name}: expected an attribute that is an nn.Linear, got {came}")
    biases = [layer.bias for layer in layers.values() if layer.bias is not None]
    with torch.no_grad():
        for bias in biases:  # no matter how they were set: they would be learned
            bias.fill_(0.5)
        made = {name: layer(x.to(layer.weight.dtype)) for name, layer in layers.items()}
        outputs = head(x)
        if outputs is None:
            return None
        for layer in layers.values():
            layer.weight = nn.Parameter(layer.weight / 2)  # the given matrices stay as they are
        return {
            "a bias in one of the layers": bool(biases),
            "outputs": outputs,
            **made,
            "outputs, once the weights of the layers are halved": head(x),
        }


class FirstSentence(LoadedHead):
    def forward(self, x):
        return super().forward(x)[0]


class QueriesTwice(LoadedHead):
    def __init__(self, w_q, w_k, w_v):
        super().__init__(w_q, w_q, w_v)


class KeysTwice(LoadedHead):
    def __init__(self, w_q, w_k, w_v):
        super().__init__(w_q, w_k, w_k)


def _loaded_with(**change: Any) -> type:
    """The module, right by default; each argument makes one slip."""
    return type("Changed", (LoadedHead,), change)


def _causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q @ k.mT
    return scores.masked_fill(torch.ones_like(scores).triu(1) > 0, -math.inf).softmax(-1) @ v


def _which_layers(
    cases: Sequence[Case], got: Sequence[Any], want: Sequence[Any]
) -> tuple[str, str] | None:
    """Which of the layers are not what they should be, whatever the outputs are."""

    def off_by(role: str, more: float) -> bool:
        both = zip(got, want, strict=True)
        return all(same(one[role], other[role] + more, 1e-4, 1e-5) for one, other in both)

    if not all(isinstance(g, dict) for g in got):
        return None
    roles = {"queries": "w_q", "keys": "w_k", "values": "w_v"}
    biased = [name for role, name in roles.items() if off_by(role, 0.5)]
    good = [name for role, name in roles.items() if off_by(role, 0.0)]
    wrong = [name for name in roles.values() if name not in biased + good]
    said = [f"a bias in {' and '.join(biased)}"] * bool(biased)
    said += [f"another matrix than the one given in {' and '.join(wrong)}"] * bool(wrong)
    why = ["The matrices have no bias, and the layers should have none: bias=False."] * bool(biased)
    why += ["The layer computes x @ weight.T, so its weight is the given matrix transposed. Is it "
            "put in, and into its own layer?"] * bool(wrong)  # fmt: skip
    return ("; ".join(said), " ".join(why)) if said else None


LOADED_BUT = [
    ("the weights not transposed", name)
    for name in ("queries and keys exchanged", "keys handed over as values",
                 "the words' own vectors handed over", "scores divided by the root of the width",
                 "the softmax over the queries", "no softmax")
] + [("queries and keys exchanged", "the softmax over the queries")]  # fmt: skip
LOADED_MISTAKES = mistakes(
    ("the weights not transposed", NotTransposed,
     "nn.Linear computes x @ weight.T, so its weight is our matrix transposed. If the matrix is "
     "square, no shape complains."),
    ("multiplied by the weight as it is stored", TimesWeight,
     "The layers hold the right weights, but nn.Linear stores them transposed: call the layer, or "
     "multiply by its weight transposed."),
    ("transposed neither in the layer nor in the product", NotTransposedTwice,
     "The two faults cancel in the outputs, but the layers are not what their name says: w_q(x) is "
     "not the query."),
    ("layers with a bias", WithBias,
     "The matrices have no bias, and the layers should have none: bias=False."),
    ("the matrices not put into the layers", NotLoaded,
     "The layers have the right shapes and their first random weights. Copy the matrices."),
    ("the layers not used", NotUsed,
     "The outputs come from the matrices that were given. Training changes the layers, and the "
     "outputs would not follow."),
    ("the weights reshaped, not transposed", Reshaped,
     "A reshape gives the right shape and the wrong numbers. A transpose exchanges the axes."),
    ("queries and keys exchanged", KeysAsk,
     "The keys ask and the queries are found. Row t of the table belongs to the query of word t."),
    ("the table of weights transposed", _loaded_with(forward=lambda self, x: (
        weigh(self.w_q(x), self.w_k(x)).mT @ self.w_v(x))),
     "Row t of the table holds the shares that the query of word t gives the keys: its rows meet "
     "the values as they are."),
    ("two matrices in each other's layers", Exchanged,
     "The layer w_q holds the key matrix, and w_k that of the queries."),
    ("keys handed over as values", KeysHandedOver,
     "A key says by what a word is found. What is averaged is the values."),
    ("the words' own vectors handed over", WordsHandedOver,
     "The layer of the values is there, but not used."),
    ("the keys' layer for the queries as well", KeysLayerForTwo,
     "With one layer for both, no word can ask for what it is not."),
    ("one layer for queries and keys", OneLayerForTwo,
     "With one layer for both, no word can ask for what it is not."),
    ("the softmax over the queries", OverTheQueries,
     OVER_THE_KEYS),
    ("no softmax", NoSoftmax,
     "The scores weigh the values as they are. The softmax must make shares of them first."),
    ("scores divided by the root of the width", Scaled,
     "That division comes in Chapter 6, and PyTorch's function makes it unless it is given "
     "scale=1.0."),
    ("queries, keys and values returned", OnlyTheLayers,
     "The three layers are the beginning. The three steps are missing: scores, softmax, sum."),
    ("the weights instead of the outputs", OnlyWeights,
     "The weights are right. The third step is missing: the weighted sums of the values."),
    *combined(_loaded_with, [
        ("layers with a bias", {"layer": WithBias.layer}, "The bias is left out: bias=False."),
        ("the weights not transposed", {"layer": NotTransposed.layer},
         "The weight of a layer is (d_out, d_in)."),
        ("the weights reshaped, not transposed", {"layer": Reshaped.layer},
         "A reshape cuts the rows anew."),
        ("the matrices not put into the layers", {"layer": NotLoaded.layer},
         "The layers' weights are to be those given."),
        ("queries and keys exchanged", {"roles": KeysAsk.roles}, "w_q makes the queries."),
        ("the keys' layer for the queries as well", {"roles": KeysLayerForTwo.roles},
         "w_q makes the queries."),
        ("the queries' layer for the keys as well", {"roles": OneLayerForTwo.roles},
         "w_k makes the keys."),
        ("keys handed over as values", {"roles": KeysHandedOver.roles},
         "w_v makes what is handed over."),
        ("the words' own vectors handed over", {"roles": WordsHandedOver.roles},
         "w_v makes what is handed over."),
        ("scores divided by the root of the width", {"forward": Scaled.forward},
         "Nothing divides the scores in this chapter."),
        ("the softmax over the queries", {"forward": OverTheQueries.forward},
         "Each query shares among the keys."),
        ("no softmax", {"forward": NoSoftmax.forward}, "Weights are the softmax of the scores."),
        ("the sigmoid instead of the softmax", {"forward": lambda self, x: (
            (roles := self.roles(x))[0] @ roles[1].mT).sigmoid() @ roles[2]},
         "Weights are the softmax of the scores."),
        ("the softmax over the batch", {"forward": lambda self, x: (
            (roles := self.roles(x))[0] @ roles[1].mT).softmax(0) @ roles[2]},
         "Each query shares among the keys."),
        ("a causal mask", {"forward": lambda self, x: _causal(*self.roles(x))},
         "Each word looks at all words."),
    ], but=LOADED_BUT),
    ("the keys' layer holds the query's matrix", QueriesTwice,
     "Each of the three layers holds its own matrix: w_k that of the keys."),
    ("the values' layer holds the key's matrix", KeysTwice,
     "Each of the three layers holds its own matrix: w_v that of the values."),
    ("the first sentence alone", FirstSentence,
     "The outputs of all sentences are asked for, (B, T, d_v)."),
    ("the weights returned as well", _loaded_with(forward=lambda self, x: (
        LoadedHead.forward(self, x), weigh(*self.roles(x)[:2]))),
     "The outputs alone are asked for, (B, T, d_v)."),
    *(
        (f"{name} made to sum to one", _loaded_with(forward=lambda self, x, of=of: (
            w := of((roles := self.roles(x))[0] @ roles[1].mT)) / w.sum(-1, True) @ roles[2]),
         "The softmax takes the *exponential* of each score and divides it by the sum of all of "
         "its query.")
        for name, of in (("sigmoids", torch.sigmoid), ("scores as they are", lambda s: s))
    ),
    ("the sigmoid instead of the softmax", _loaded_with(forward=lambda self, x: (
        (roles := self.roles(x))[0] @ roles[1].mT).sigmoid() @ roles[2]),
     "The sigmoid judges each key by itself, so the weights of a query do not sum to one."),
    ("the softmax over the batch", _loaded_with(forward=lambda self, x: (
        (roles := self.roles(x))[0] @ roles[1].mT).softmax(0) @ roles[2]),
     OVER_THE_KEYS),
    ("the queries alone returned", _loaded_with(forward=lambda self, x: self.roles(x)[0]),
     "The queries are the beginning. The three steps are missing: scores, softmax, sum."),
    ("scores divided by the root of the words' width", _loaded_with(forward=lambda self, x: (
        (roles := self.roles(x)) and (
            roles[0] @ roles[1].mT / x.shape[-1] ** 0.5).softmax(-1) @ roles[2])),
     "Nothing divides the scores in this chapter. Where Chapter 6 does, it is another width."),
    ("a causal mask", _loaded_with(forward=lambda self, x: _causal(*self.roles(x))),
     "Here each word looks at all words: the mask comes in Chapter 8."),
    ("the outputs averaged over the words", _loaded_with(
        forward=lambda self, x: LoadedHead.forward(self, x).mean(1)),
     "Each word has its own output, (B, T, d_v)."),
    ("the word's own value added", _loaded_with(
        forward=lambda self, x: LoadedHead.forward(self, x) + self.roles(x)[2]),
     "The output is the average alone."),
)  # fmt: skip

# 5.8 how far scores spread


def through(w: Tensor, covariance: Tensor) -> Tensor:
    return w.T @ covariance @ w


def score_variance(w_q: Tensor, w_k: Tensor, covariance: Tensor) -> Tensor:
    return (through(w_q, covariance) * through(w_k, covariance)).sum()


def variance_cases() -> list[tuple]:
    cases = [(torch.tensor([[1.0], [0.0]]), torch.tensor([[0.0], [3.0]]),
              torch.tensor([[4.0, 1.0], [1.0, 9.0]]))]  # fmt: skip
    for seed, (d, k) in enumerate(((3, 2), (4, 4), (2, 3))):
        w_q, w_k, root = _draw(580 + seed, (d, k), (d, k), (d, d))
        cases.append((w_q, w_k, root @ root.T))
    return cases


def _variance_with(
    words: Callable[[Tensor], Tensor] = lambda c: c,
    meet: Callable[[Tensor, Tensor], Tensor] = lambda a, b: (a * b).sum(),
    after: Callable[[Tensor, Tensor], Tensor] = lambda v, w: v,
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """The variance of a score, right by default; each argument makes one slip."""

    def variance(w_q: Tensor, w_k: Tensor, covariance: Tensor) -> Tensor:
        c = words(covariance)
        return after(meet(through(w_q, c), through(w_k, c)), w_q)

    return variance


VARIANCE_SLIPS = [
    ("the covariance of the words left out", {"words": lambda c: torch.eye(len(c))},
     "The covariance of the words is given: W^T C W."),
    ("only the variances of the words", {"words": lambda c: c.diag().diag()},
     "What stands beside the diagonal of C counts, too."),
    ("covariances squared", {"words": lambda c: c @ c},
     "The covariance is a variance already: it is not squared again."),
    ("entries taken as independent", {"meet": lambda a, b: (a.diag() * b.diag()).sum()},
     "Two entries of one query go up and down together: their covariance counts, too."),
    ("the two total variances multiplied", {"meet": lambda a, b: a.trace() * b.trace()},
     "Entry i of the query meets entry i of the key only."),
    ("the two covariance matrices multiplied as matrices", {"meet": lambda a, b: (a @ b).sum()},
     "Entry (i, j) of the one meets entry (i, j) of the other."),
    ("all pairs of entries", {"meet": lambda a, b: a.sum() * b.sum()},
     "A dot product multiplies entry by entry."),
    ("divided by the width", {"after": lambda v, w: v / w.shape[1]},
     "A score is a sum of K products and not their mean."),
    ("a mean in place of the sum over i and j", {"after": lambda v, w: v / w.shape[1] ** 2},
     "The variance is the sum over all i and j, not their mean."),
    ("divided by the root of the width", {"after": lambda v, w: v / w.shape[1] ** 0.5},
     "No root yet: the score is the plain dot product."),
    ("the standard deviation", {"after": lambda v, w: v.sqrt()}, "The variance is its square."),
]  # fmt: skip


VARIANCE_MISTAKES = mistakes(
    ("the two total variances multiplied",
     lambda w_q, w_k, c: through(w_q, c).trace() * through(w_k, c).trace(),
     "Entry i of the query meets entry i of the key only: not every variance every other."),
    ("entries taken as independent",
     lambda w_q, w_k, c: (through(w_q, c).diag() * through(w_k, c).diag()).sum(),
     "Two entries of one query are made of the same word and go up and down together: their "
     "covariance counts, too."),
    ("the covariance of the words left out",
     lambda w_q, w_k, c: score_variance(w_q, w_k, torch.eye(len(c))),
     "This holds for words whose entries are independent with variance 1. Theirs is given."),
    ("the words' covariance on the side of the queries only",
     lambda w_q, w_k, c: (through(w_q, c) * (w_k.T @ w_k)).sum(),
     "The words that are found have the same covariance as those that ask."),
    ("the words' covariance on the side of the keys only",
     lambda w_q, w_k, c: ((w_q.T @ w_q) * through(w_k, c)).sum(),
     "The words that ask have the same covariance as those that are found."),
    ("one variance for all entries of the words, their mean", lambda w_q, w_k, c: score_variance(
        w_q, w_k, c.diag().mean() * torch.eye(len(c))),
     "Each entry of a word has a variance of its own, and the entries go together: take C as it "
     "is."),
    ("the product of the matrices squared, entry by entry, times C",
     lambda w_q, w_k, c: ((w_q @ w_k.T) ** 2 * c).sum(),
     "Two words stand in a score, and each has the covariance C: it counts twice."),
    ("only the variances of the words",
     lambda w_q, w_k, c: score_variance(w_q, w_k, c.diag().diag()),
     "The words' entries are not independent: what stands beside the diagonal counts."),
    ("the standard deviation", lambda w_q, w_k, c: score_variance(w_q, w_k, c) ** 0.5,
     "That is the typical size of a score. The variance is its square."),
    ("divided by the width", lambda w_q, w_k, c: score_variance(w_q, w_k, c) / w_q.shape[1],
     "A score is a sum of K products and not their mean."),
    ("divided by the root of the width",
     lambda w_q, w_k, c: score_variance(w_q, w_k, c) / w_q.shape[1] ** 0.5,
     "No root yet: the score is the plain dot product."),
    ("the mean score of a word with itself, squared",
     lambda w_q, w_k, c: (w_q.T @ c @ w_k).trace() ** 2,
     "Asking and found word are two different, independent words. Their mean score is 0."),
    ("the mean score of a word with itself", lambda w_q, w_k, c: (w_q.T @ c @ w_k).trace(),
     "That is the mean of q . k when a word asks itself. Asked for is the variance, for two "
     "independent words."),
    ("queries with keys in place of each with itself",
     lambda w_q, w_k, c: (w_q.T @ c @ w_k).pow(2).sum(),
     "That takes the covariances of a query with a key. The two words are independent: there they "
     "are 0. Multiply the covariances inside the query with those inside the key."),
    ("the two covariance matrices multiplied as matrices",
     lambda w_q, w_k, c: (through(w_q, c) @ through(w_k, c)).sum(),
     "Entry (i, j) of the one meets entry (i, j) of the other: multiply entry by entry, then sum."),
    ("all pairs of entries",
     lambda w_q, w_k, c: through(w_q, c).sum() * through(w_k, c).sum(),
     "This is the variance of (sum of q) times (sum of k). A dot product multiplies entry by "
     "entry."),
    ("covariances squared", lambda w_q, w_k, c: score_variance(w_q, w_k, c @ c),
     "The covariance is a variance already: it is not squared again."),
    ("the query's matrix twice", lambda w_q, w_k, c: score_variance(w_q, w_q, c),
     "The keys have a matrix of their own."),
    ("the key's matrix twice", lambda w_q, w_k, c: score_variance(w_k, w_k, c),
     "The queries have a matrix of their own."),
    ("the sum of the two traces",
     lambda w_q, w_k, c: through(w_q, c).trace() + through(w_k, c).trace(),
     "That is the variance of a sum of queries and keys. A score multiplies them."),
    ("the covariance of the keys", lambda w_q, w_k, c: through(w_k, c),
     "That is half of the way. The score is one number: what does the query do with the key?"),
    ("the number of products", lambda w_q, w_k, covariance: w_q.shape[1],
     "d_k is the variance if the entries of queries and keys are independent with variance 1. "
     "Here they are what the matrices make of the words."),
    ("a word that asks itself", lambda w_q, w_k, covariance: (
        score_variance(w_q, w_k, covariance) + (w_q.T @ covariance @ w_k).pow(2).sum()),
     "The two words are drawn independently: query and key have no covariance."),
    ("the mean of the products", lambda w_q, w_k, c: (through(w_q, c) * through(w_k, c)).mean(),
     "The variance is the sum over all i and j, not their mean."),
    ("the products of different entries alone", lambda w_q, w_k, c: (
        (p := through(w_q, c) * through(w_k, c)).sum() - p.diag().sum()),
     "The sum runs over all i and j, equal ones as well."),
    ("the entries squared", lambda w_q, w_k, c: (through(w_q, c) * through(w_k, c)).pow(2).sum(),
     "The entries are multiplied as they are, and added."),
    ("standard deviations multiplied", lambda w_q, w_k, c: (
        through(w_q, c).diag().sqrt() * through(w_k, c).diag().sqrt()).sum(),
     "Variances, and covariances, are multiplied."),
    ("twice", lambda w_q, w_k, c: 2 * score_variance(w_q, w_k, c), "Nothing is doubled."),
    ("d_k times the mean variance of a word, squared", lambda w_q, w_k, c: (
        w_q.shape[1] * c.diag().mean() ** 2),
     "The matrices change variances and mix entries: W^T C W."),
    ("the squares of the two norms multiplied", lambda w_q, w_k, c: (
        through(w_q, c).norm() ** 2 * through(w_k, c).norm() ** 2),
     "The two matrices are multiplied entry by entry, and the products are added."),
    ("the norms of the two covariance matrices multiplied",
     lambda w_q, w_k, c: through(w_q, c).norm() * through(w_k, c).norm(),
     "The two matrices are multiplied entry by entry, and the products are added."),
    ("the two determinants multiplied",
     lambda w_q, w_k, c: torch.linalg.det(through(w_q, c)) * torch.linalg.det(through(w_k, c)),
     "The two matrices are multiplied entry by entry, and the products are added."),
    ("the query's covariance with that of query and key",
     lambda w_q, w_k, c: (through(w_q, c) * (w_q.T @ c @ w_k)).sum(),
     "The second factor is the covariance of the keys, w_k.T @ C @ w_k."),
    ("one of the two products not transposed",
     lambda w_q, w_k, c: (w_q @ w_k.T @ c @ w_q @ w_k.T @ c).trace(),
     "With M = W^Q (W^K)^T between the two words the variance is the trace of M^T C M C: M stands "
     "there once transposed and once not."),
    ("the trace left out", lambda w_q, w_k, c: (w_q @ w_k.T).T @ c @ (w_q @ w_k.T) @ c,
     "One number is asked for, the sum of the entries on the diagonal."),
    ("a word that asks itself, by all three terms",
     lambda w_q, w_k, c: (
         score_variance(w_q, w_k, c) + ((w_q.T @ c @ w_k) * (w_q.T @ c @ w_k).T).sum()
     ),
     "The two words are drawn independently: no term has a query with its own key."),
    ("the variances of queries and keys summed, and multiplied, over the width",
     lambda w_q, w_k, c: through(w_q, c).trace() * through(w_k, c).trace() / w_q.shape[1],
     "That holds if all entries have one variance and are uncorrelated. Here they are not."),
    ("the largest product alone", lambda w_q, w_k, c: (
        through(w_q, c) * through(w_k, c)).max(),
     "The variance is the sum over all i and j."),
    ("each pair of entries once", lambda w_q, w_k, c: (
        through(w_q, c) * through(w_k, c)).triu().sum(),
     "The sum runs over all i and j: i, j and j, i are two."),
    ("the covariances of a query with a key, added up",
     lambda w_q, w_k, c: (w_q.T @ c @ w_k).sum(),
     "The two words are independent: there they are 0. Multiply the covariances inside the query "
     "with those inside the key."),
    ("the matrices multiplied with the covariance entry by entry",
     lambda w_q, w_k, c: ((w_q @ w_q.T * c) * (w_k @ w_k.T * c)).sum(),
     "The covariance of the queries is a product of matrices, W^T C W."),
    ("the products not summed", lambda w_q, w_k, covariance: (
        through(w_q, covariance) * through(w_k, covariance)),
     "One number is asked for: the sum over all i and j."),
    ("the two covariance matrices multiplied as matrices, and not summed",
     lambda w_q, w_k, c: through(w_q, c) @ through(w_k, c),
     "One number is asked for: multiply the two entry by entry, then sum over all i and j."),
    ("the covariance of the queries", lambda w_q, w_k, c: through(w_q, c),
     "That is half of the way. The score is one number: what does the query do with the key?"),
    ("the variances of the key's entries, summed", lambda w_q, w_k, c: through(w_k, c).trace(),
     "That is half of the way: the key's. What does the query do with it?"),
    ("the variances of the query's entries, summed", lambda w_q, w_k, c: through(w_q, c).trace(),
     "That is half of the way: the query's. What does it do with the key?"),
    ("the covariance squared, on the side of the queries only",
     lambda w_q, w_k, c: ((w_q.T @ c @ c @ w_q) * (w_k.T @ w_k)).sum(),
     "Both words have the covariance C, each once: W^Q^T C W^Q and W^K^T C W^K."),
    ("the matrices left out", lambda w_q, w_k, c: c.pow(2).sum(),
     "That is the variance of x . x', the product of the words. Queries and keys are words times "
     "their matrices."),
    ("the two covariance matrices added", lambda w_q, w_k, c: (
        w_q.T @ c @ w_q + w_k.T @ c @ w_k).sum(),
     "q . k is a sum of products: entry (i, j) of the one covariance meets that of the other, and "
     "they are multiplied."),
    ("queries with keys, and the covariance of the words left out",
     lambda w_q, w_k, c: ((w_q.T @ w_k) ** 2).sum(),
     "The covariance of the queries is W^T C W with their own matrix on both sides, and so is that "
     "of the keys: multiply the two entry by entry, then sum."),
    *combined(_variance_with, VARIANCE_SLIPS, but=[
        ("the two total variances multiplied", "divided by the width"),
    ]),
)  # fmt: skip

# 5.9 those with my colour


def same_colour(names: int, colours: int) -> tuple[Tensor, Tensor]:
    asks, found = torch.zeros(2, 2 * names + colours, names + colours)
    name, colour = torch.eye(names), torch.eye(colours)
    asks[:names, :names], found[:names, :names] = -20 * name, name
    asks[2 * names :, names:], found[2 * names :, names:] = 10 * colour, colour
    return asks, found


def row_of_people(names: int, colours: int, one: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Everybody once, each pointing at the next but one, or all at two: vectors, pointed at,
    colours."""
    who = torch.arange(names)
    at, colour = (who % 3 == 0).long() if one else (who + 2) % names, who.roll(1) % colours
    parts = F.one_hot(who, names), F.one_hot(at, names), F.one_hot(colour, colours)
    return torch.cat(parts, -1).double(), at, colour


def whom(answer: Any, names: int, colours: int) -> list[str] | str:
    """For each person of a row whom its attention goes to."""
    tables = answer(names, colours)
    if len(tables) != 2:
        raise ValueError(f"expected two tables, w_q and w_k, got {kind(tables)}")
    w_q, w_k = (torch.as_tensor(w).double() for w in tables)
    if w_q.ndim != 2 or w_k.ndim != 2:
        raise ValueError(f"expected tables of shape (D, K), got {kind(w_q)} and {kind(w_k)}")
    d_model = 2 * names + colours
    if len(w_q) == len(w_k) and w_q.shape != w_k.shape:
        raise ValueError(f"expected w_q and w_k of one width, got {len(w_q[0])} and {len(w_k[0])}")
    if w_q.shape != w_k.shape or len(w_q) != d_model:
        lie, stand = ([w.shape[i] == d_model for w in (w_q, w_k)] for i in (1, 0))
        if lie == [True, True]:
            how = "turned"
        elif stand != lie and [*map(any, zip(lie, stand, strict=True))] == [True, True]:
            how = f"{'w_q' if lie[0] else 'w_k'} turned"
        else:
            short = len(w_q) == len(w_k) == names + colours
            how = "a name short" if short else "others"
        return f"not two tables of one shape (2 names + colours, K), but {how}"
    if not (w_q.isfinite().all() and w_k.isfinite().all()):
        return "not all numbers are finite"
    rows = (row_of_people(names, colours, one) for one in (False, True))
    return [one for row in rows for one in _whom(weigh(row[0] @ w_q, row[0] @ w_k), *row[1:])]


def _whom(weights: Tensor, at: Tensor, colour: Tensor) -> list[str]:
    names, found = len(weights), []
    for me in range(names):
        mates = (colour == colour[me]) & (torch.arange(names) != me)
        row, others = weights[me], torch.arange(names) != me
        rest = row[~mates & others & (torch.arange(names) != at[me])]
        if row[mates].sum() > 0.9:
            even = row[mates].max() - row[mates].min() < 0.05
            found.append("as asked" if even else "not in equal shares")
        elif row[me] > 0.9:
            found.append("oneself")
        elif row[others].max() - row[others].min() < 1e-6:
            found.append("all others alike" if row[me] < row[others].min() - 1e-6 else "all alike")
        elif row[at[me]] > 0.9:
            found.append("the one pointed at")
        elif row[~mates & others].sum() > 0.9:
            found.append("other colours")
        elif not mates[at[me]] and row[at[me]] > max(0.1, 1.1 * rest.max()):
            found.append("the one pointed at, too")
        elif row[me] > row[mates].max() + 1e-6:
            found.append("oneself most")
        elif row[mates].max() - row[me] < 1e-6 and row[mates].sum() + row[me] > 0.9:
            found.append("oneself as much as the others")
        elif row[me] > row[~mates & others].sum():
            found.append("oneself, too")
        else:
            found.append("too soft")
    return found


def _of_parts(names: int, colours: int, me: float, pointed: float, colour: float) -> tuple:
    """Scores: `me` for oneself, `pointed` for the one pointed at, `colour` for one's colour."""
    d_model = 2 * names + colours
    asks, found = torch.zeros(2, d_model, d_model)
    name, hat = torch.eye(names), torch.eye(colours)
    asks[:names, :names], found[:names, :names] = me * name, name
    asks[names : 2 * names, names : 2 * names] = pointed * name
    found[:names, names : 2 * names] = name
    asks[2 * names :, 2 * names :], found[2 * names :, 2 * names :] = colour * hat, hat
    return asks, found


def _colour_at(names: int, colours: int, row: int) -> tuple[Tensor, Tensor]:
    """The tables with the block for the colour at another row."""
    asks, found = torch.zeros(2, 2 * names + colours, names + colours)
    asks[:names, :names], found[:names, :names] = -20 * torch.eye(names), torch.eye(names)
    block = torch.eye(colours)
    asks[row : row + colours, names:], found[row : row + colours, names:] = 10 * block, block
    return asks, found


SIZES = (
    "The names and the colours are handed in, and differ from call to call: w_q and w_k have the "
    "shape (D, K), with D = 2 names + colours. Is a number written in where `names` or `colours` "
    "belongs, or are the two exchanged?"
)


def _other_sizes(
    cases: Sequence[Case], got: Sequence[Any], want: Sequence[Any]
) -> tuple[str, str] | None:
    """That tables have other sizes than those asked for, in some cases or in all, or that some of
    their numbers are not finite."""
    other = [one for one in got if isinstance(one, str)]
    if not other:
        return None
    some = f" (in {len(other)} of {len(got)} cases)"
    finite = [one for one in other if one.startswith("not two")]
    if not finite:
        why = "Infinity times 0 is not a number. Is something divided by 0, for some sizes?"
        return "numbers that are not finite" + some, why
    return "tables for another number of names or colours" + some * (len(other) < len(got)), SIZES


COLOUR_MISTAKES = mistakes(
    ("oneself not left out", lambda n, c: _of_parts(n, c, 0, 0, 10),
     "My own colour is that of all who wear it, and I am one of them. A score may be negative: ask "
     "against your own name."),
    ("oneself alone", lambda n, c: _of_parts(n, c, 20, 0, 10),
     "The name should count against, not for: whoever has my name is me."),
    ("the scores too small", lambda n, c: _of_parts(n, c, -1, 0, 1),
     "The right questions, asked too softly: people in other colours still get their shares. Make "
     "the queries longer."),
    *(
        (f"the minus on the own name too small{words}",
         lambda n, c, minus=minus, colour=colour: _of_parts(n, c, minus, 0, colour),
         "Other colours get next to nothing, but I still get a share: my colour speaks for me as "
         "loudly as for the others, and the minus on my own name takes too little of it away. Make "
         "that part of the query longer.")
        for words, minus, colour in (
            ("", -1, 10), (" where one other alone wears my colour", -2, 10),
        )
    ),
    ("the colour asked for in the middle part", lambda n, c: _colour_at(n, c, n),
     "The block for the colour lies in the rows of the name pointed at: there are two names before "
     "the colour, so that it begins at row 2 names."),
    ("the colour asked for one row too early", lambda n, c: _colour_at(n, c, 2 * n - 1),
     "Two names stand before the colour, with as many rows each as there are names: it begins at "
     "row 2 names, counted from 0."),
    ("the one pointed at", lambda n, c: _of_parts(n, c, 0, 10, 0),
     "That is the task of the text. Here it does not matter whom one points at."),
    ("any other colour", lambda n, c: _of_parts(n, c, -20, 0, -10),
     "The sign of the colour is turned: those in my colour should score high."),
    ("everybody but oneself", lambda n, c: _of_parts(n, c, -20, 0, 0),
     "Not me, so far so good. But the colour does not count."),
    ("nothing asked, or nothing to find", lambda n, c: _of_parts(n, c, 0, 0, 0),
     "Where all queries are zero, or all keys alike, the scores are equal, and everybody gets the "
     "same."),
    ("those in my colour, the one pointed at first", lambda n, c: _of_parts(n, c, -30, 3, 12),
     "They should get equal shares, whomever I point at."),
    ("numbers that are not finite", lambda n, c: _of_parts(n, c, -math.inf, 0, 10),
     "Infinity times 0 is not a number, and most entries are 0. A number such as -20 will do."),
    ("tables on their side",
     lambda n, c: tuple(w[:, :-1].T for w in _of_parts(n, c, -20, 0, 10)),
     "A row for each entry of the vector: (D, K), as the matrices of the text."),
    ("the table w_q on its side", lambda n, c: ((two := same_colour(n, c))[0].T, two[1]),
     "A row for each entry of the vector: both tables are (D, K), and w_k is one."),
    ("the table w_k on its side", lambda n, c: ((two := same_colour(n, c))[0], two[1].T),
     "A row for each entry of the vector: both tables are (D, K), and w_q is one."),
    ("no rows for the name pointed at", lambda n, c: tuple(
        torch.cat([w[:n], w[2 * n :]]) for w in same_colour(n, c)),
     "The vectors have three parts: the own name, the name pointed at, the colour. So each table "
     "has D = 2 names + colours rows; those for the name pointed at may be zeros."),
    ("tables for another number of names or colours", lambda n, c: same_colour(5, 3), SIZES),
    ("oneself most, as with one matrix for both",
     lambda n, c: (_of_parts(n, c, -20, 0, 10)[1],) * 2,
     "The name should count against, not for: whoever has my name is me. With one matrix for both "
     "it cannot: who asks must be made by other numbers than who is found."),
    ("those who point where I point preferred", lambda n, c: (
        torch.diag(torch.tensor([-20.0] * n + [5.0] * n + [10.0] * c)), torch.eye(2 * n + c)),
     "Whom one points at must not count: leave the middle part of query and key at zero."),
    ("those who point at me", lambda n, c: (
        torch.cat([10 * torch.eye(n), torch.zeros(n + c, n)]),
        torch.cat([torch.zeros(n, n), torch.eye(n), torch.zeros(c, n)])),
     "Asked for are those in my colour: the last part of the vectors."),
    ("the name pointed at in the key, in place of the own", lambda n, c: (
        same_colour(n, c)[0], torch.cat([torch.zeros(n, n + c), same_colour(n, c)[1][:n],
                                         same_colour(n, c)[1][2 * n :]])),
     "The key must hold the *own* name, its first part: against it the query holds minus the own "
     "name."),
    ("against the one pointed at", lambda n, c: _of_parts(n, c, 0, -20, 10),
     "Not the one I point at should be left out, but me: the own name is the first part of the "
     "vector."),
    ("against all who point where I point, and not oneself", lambda n, c: (
        torch.diag(torch.tensor([0.0] * n + [-20.0] * n + [10.0] * c)), torch.eye(2 * n + c)),
     "Whom one points at must not count. The own name is the first part of the vector: ask against "
     "that."),
    ("the parts of the vector in another order", lambda n, c: tuple(
        w.roll(c, 0) for w in _of_parts(n, c, -20, 0, 10)),
     "First stands the own name, then the name pointed at, then the colour."),
)  # fmt: skip


def _never(*names: str) -> Callable[..., bool]:
    """That there is no person of whom this is to be said."""
    return lambda found, *numbers: not {*names} & {*found}


COLOUR_RULES = [
    Invariant("nobody attends to oneself", _never(
                  "oneself", "oneself most", "oneself as much as the others"),
              "My own colour is mine, too, so that I score as high as the others in it. Ask "
              "against your own name, as strongly as for the colour or more."),
    Invariant("whom one points at does not count",
              _never("the one pointed at", "the one pointed at, too", "not in equal shares"),
              "The middle part of the vector, the name pointed at, must have no part in the scores "
              "of query and key."),
    Invariant("other colours get nothing", _never("other colours", "all others alike", "all alike"),
              "The colour of the query must meet the colour of the key, with a high score where "
              "they are the same."),
    Invariant("no share left for oneself", _never("oneself, too"),
              "My colour speaks for me as well, and the minus on my own name takes too little of "
              "it away: make that part of the query longer."),
    Invariant("more than 0.9 for the others in one's colour", _never("too soft"),
              "The right ones come first, but people in other colours still get too much: make "
              "the scores larger."),
]  # fmt: skip


EXERCISES = [
    Exercise(
        number="5.1",
        title="a head by hand",
        section="By hand",
        reference=head_by_hand(0.0, 2 * LN3),
        mistakes=HAND_MISTAKES,
        canonical=_flat,
        rtol=2e-3,
        atol=2e-3,
    ),
    Exercise(
        number="5.2",
        title="soft look-up",
        section="Three steps",
        reference=look_up,
        cases=look_up_cases,
        mistakes=LOOK_UP_MISTAKES,
    ),
    Exercise(
        number="5.3",
        title="predict, then try: what leaves the weights as they are",
        section="One matrix behind the scores",
        reference=UNCHANGED,
        mistakes=UNCHANGED_MISTAKES,
        invariants=UNCHANGED_RULES,
        canonical=small_letters,
    ),
    Exercise(
        number="5.4",
        title="another normaliser",
        section="What else could normalise?",
        reference=relu_weights,
        cases=relu_cases,
        mistakes=RELU_MISTAKES,
        invariants=[
            Invariant(
                "no weight is below zero", _not_negative, "After the ReLU nothing is below zero."
            ),
            Invariant(
                "rows sum to one, or to zero if no score is above zero",
                _one_or_zero,
                "The weights of a query are shares of one, unless it finds nothing.",
            ),
        ],
    ),
    Exercise(
        number="5.5",
        title="a head",
        section="All words at once",
        reference=one_head,
        cases=head_cases,
        mistakes=ONE_HEAD_MISTAKES,
    ),
    Exercise(
        number="5.6",
        title="find the mistakes: a head of two sequences",
        section="From one sequence, or from two",
        reference=head_across,
        cases=across_cases,
        mistakes=ACROSS_MISTAKES,
    ),
    Exercise(
        number="5.7",
        title="weights from another net",
        section="As layers of a network",
        reference=LoadedHead,
        cases=loaded_cases,
        mistakes=LOADED_MISTAKES,
        invariants=Family(_which_layers),
        probe=use_head,
    ),
    Exercise(
        number="5.8",
        title="derive: how far scores spread",
        section="The trouble left: large scores",
        reference=score_variance,
        cases=variance_cases,
        mistakes=VARIANCE_MISTAKES,
    ),
    Exercise(
        number="5.9",
        title="design: the others in my colour",
        section="It learns",
        reference=same_colour,
        cases=[(8, 4), (6, 2), (5, 2), (12, 6)],
        mistakes=COLOUR_MISTAKES,
        invariants=Family(_other_sizes, COLOUR_RULES),
        probe=whom,
    ),
]
