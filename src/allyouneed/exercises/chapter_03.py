"""The exercises of chapter 3, attention as alignment: references, cases and known mistakes."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import zip_longest

import torch
from torch import Tensor

from .core import Exercise, Family, Invariant, mistakes
from .likeness import nearly
from .pairs import combined, pairs
from .predictions import signs, wrong_predictions
from .suspects import Lack, Spoilt, each, rules, verdicts_on

# 3.1 one look by hand: three weights, then the two entries of the context


def look_by_hand(weights: list[float]) -> list[float]:
    return [*weights, weights[1] * math.log(2), weights[2] * math.log(5)]


LOG_SUM = math.log(2) + math.log(5)
HAND_MISTAKES = mistakes(
    ("exponentials that were not divided by their sum", look_by_hand([1.0, 2.0, 5.0]),
     "These are the exponentials of the scores. Weights must sum to one: divide by 1 + 2 + 5."),
    ("scores divided by their sum, without the exponential",
     look_by_hand([0.0, math.log(2) / LOG_SUM, math.log(5) / LOG_SUM]),
     "The softmax takes the exponential of each score first, then divides by the sum."),
    ("a hard look-up", look_by_hand([0.0, 0.0, 1.0]),
     "All weight went to the best state. A soft look-up gives every state its share."),
    ("the same weight for every state", look_by_hand([1 / 3, 1 / 3, 1 / 3]),
     "The scores differ, so the weights do. They would all be 1/3 if the query were zero."),
    ("the context not weighted", [1 / 8, 2 / 8, 5 / 8, math.log(2), math.log(5)],
     "The weights are right. The context is the sum of the states, each times its weight."),
    ("the softmax of the scores with the sign turned", look_by_hand([10 / 17, 5 / 17, 2 / 17]),
     "A higher score must give a higher weight: the exponential is that of e, not of -e."),
    ("the entries of the context exchanged",
     [1 / 8, 2 / 8, 5 / 8, 5 / 8 * math.log(5), 2 / 8 * math.log(2)],
     "The first entry of the context comes from the first entries of the states. Only the second "
     "state has one that is not zero."),
    ("the context before the weights",
     [2 / 8 * math.log(2), 5 / 8 * math.log(5), 1 / 8, 2 / 8, 5 / 8],
     "All five numbers are right. The task asks for the three weights first."),
    ("scores divided by the root of their width",
     look_by_hand([x / (1 + 2**0.5**0.5 + 5**0.5**0.5) for x in (1, 2**0.5**0.5, 5**0.5**0.5)]),
     "The division by a root belongs to the Transformer. Here the score is the dot product."),
    ("the weights in percent", [12.5, 25.0, 62.5, 2 / 8 * math.log(2), 5 / 8 * math.log(5)],
     "Weights are shares of one, not of a hundred: they sum to one."),
    ("the exponential of zero taken for zero", look_by_hand([0.0, 2 / 7, 5 / 7]),
     "The score of the first state is 0, and the exponential of 0 is 1: it has a share, too."),
    ("the context as a plain mean",
     [1 / 8, 2 / 8, 5 / 8, math.log(2) / 3, math.log(5) / 3],
     "The weights are right. The context is the sum of the states, each times its weight."),
    ("the context's two entries summed",
     [1 / 8, 2 / 8, 5 / 8, 2 / 8 * math.log(2) + 5 / 8 * math.log(5)],
     "The states have two entries, and so has the context: add the states entry by entry."),
    ("the context left out", [1 / 8, 2 / 8, 5 / 8],
     "The weights are right. The two entries of the context come behind them."),
    ("logarithms to the base 2", [1 / 8, 2 / 8, 5 / 8, 2 / 8, 5 / 8 * math.log2(5)],
     "The weights are right. ln is the natural logarithm: ln 2 is 0.693, ln 5 is 1.609."),
    ("logarithms to the base 10",
     [1 / 8, 2 / 8, 5 / 8, 2 / 8 * math.log10(2), 5 / 8 * math.log10(5)],
     "The weights are right. ln is the natural logarithm: ln 2 is 0.693, ln 5 is 1.609."),
    ("the exponentials averaged", [1 / 8, 2 / 8, 5 / 8, 2 / 8 * 2, 5 / 8 * 5],
     "The weights are right. What is averaged with them are the states, not their exponentials."),
    ("the query added to the context",
     [1 / 8, 2 / 8, 5 / 8, 1 + 2 / 8 * math.log(2), 1 + 5 / 8 * math.log(5)],
     "The query decides where to look. The context is made of the states alone."),
    ("the weights in place of the context, or the logarithms left out",
     [1 / 8, 2 / 8, 5 / 8, 2 / 8, 5 / 8],
     "The weights are right. The context is the sum of the states, each times its weight: their "
     "entries are ln 2 and ln 5."),
    ("scores in place of weights, and each state times its score",
     look_by_hand([0.0, math.log(2), math.log(5)]),
     "These are the scores. The softmax makes weights of them: shares of one."),
    ("powers of 2 in place of e", [
        *(two := [1 / (1 + 2 ** math.log(2) + 2 ** math.log(5)) * 2**e
                  for e in (0.0, math.log(2), math.log(5))]),
        two[1] * math.log(2), two[2] * math.log(5)],
     "The softmax takes powers of e: the exponential of ln 2 is 2."),
    ("the first entry of the context not weighted",
     [1 / 8, 1 / 4, 5 / 8, math.log(2), 5 / 8 * math.log(5)],
     "The weights are right. The first entry comes from h_2, which has the weight 1/4."),
    ("the second entry of the context not weighted",
     [1 / 8, 1 / 4, 5 / 8, 1 / 4 * math.log(2), math.log(5)],
     "The weights are right. The second entry comes from h_3, which has the weight 5/8."),
    ("the weights exchanged in the context",
     [1 / 8, 1 / 4, 5 / 8, 5 / 8 * math.log(2), 1 / 4 * math.log(5)],
     "The weights are right. h_2, with ln 2, has the weight 1/4, and h_3, with ln 5, has 5/8."),
    ("a softmax of the exponentials", look_by_hand(
        [math.exp(x) / sum(map(math.exp, (1, 2, 5))) for x in (1, 2, 5)]),
     "The softmax takes the exponentials itself: 1, 2 and 5 are divided by their sum, no more."),
    ("the first weight left at 0", [0.0, 2 / 8, 5 / 8, *look_by_hand([1 / 8, 2 / 8, 5 / 8])[3:]],
     "The exponential of the score 0 is 1, not 0. In the sum, 8, you have counted it."),
    ("only two digits", [0.13, 0.25, 0.63, 0.17, 1.01],
     "The way is right. Give three digits after the point."),
    ("only two digits, from weights of two digits", [0.13, 0.25, 0.63, 0.17, 1.0],
     "The way is right. Give three digits after the point."),
    ("the weights of the first and the last state exchanged",
     look_by_hand([5 / 8, 2 / 8, 1 / 8]),
     "The exponentials of the scores 0, ln 2 and ln 5 are 1, 2 and 5, in this order."),
)  # fmt: skip


def look_way(
    weights: tuple = (1 / 8, 2 / 8, 5 / 8),
    out: Callable[[float, float], list[float]] = lambda a, b: [a * math.log(2), b * math.log(5)],
) -> list[float]:
    """The answer, right by default; each argument makes one slip."""
    return [*weights, *out(*weights[1:])]


HAND_SLIPS = [
    ("exponentials not divided by their sum", {"weights": (1.0, 2.0, 5.0)},
     "Weights sum to one: divide by 8."),
    ("scores divided by their sum",
     {"weights": (0.0, math.log(2) / LOG_SUM, math.log(5) / LOG_SUM)},
     "Take the exponentials of the scores first."),
    ("a hard look-up", {"weights": (0.0, 0.0, 1.0)}, "Every state gets its share."),
    ("the same weight for every state", {"weights": (1 / 3, 1 / 3, 1 / 3)}, "The scores differ."),
    ("the exponential of zero taken for zero", {"weights": (0.0, 2 / 7, 5 / 7)},
     "The exponential of 0 is 1."),
    ("the sign of the scores turned", {"weights": (10 / 17, 5 / 17, 2 / 17)},
     "The highest score gets the largest weight."),
    ("the context not weighted", {"out": lambda a, b: [math.log(2), math.log(5)]},
     "Each state is multiplied by its weight."),
    ("the entries of the context exchanged",
     {"out": lambda a, b: [b * math.log(5), a * math.log(2)]},
     "The first entry comes from the second state."),
    ("the context divided by three",
     {"out": lambda a, b: [a * math.log(2) / 3, b * math.log(5) / 3]},
     "The weights sum to one already."),
    ("the context's two entries summed, for both",
     {"out": lambda a, b: [a * math.log(2) + b * math.log(5)] * 2},
     "The context has two entries of its own, as the states have."),
    ("the logarithms left out", {"out": lambda a, b: [a, b]},
     "The states hold ln 2 and ln 5."),
    ("the exponentials averaged", {"out": lambda a, b: [2 * a, 5 * b]},
     "What is averaged are the states, with ln 2 and ln 5."),
    ("logarithms to the base 10", {"out": lambda a, b: [a * math.log10(2), b * math.log10(5)]},
     "ln is the natural logarithm."),
    ("the best state alone for the context", {"out": lambda a, b: [0.0, math.log(5)]},
     "Every state is in the context, with its weight."),
    ("the query averaged, not the states", {"out": lambda a, b: [1.0, 1.0]},
     "The query is only compared: what is averaged are the states."),
    ("the context divided by the sum once more",
     {"out": lambda a, b: [a * math.log(2) / 8, b * math.log(5) / 8]},
     "The weights are divided by the sum already."),
    ("the exponentials as weights of the context",
     {"out": lambda a, b: [2 * math.log(2), 5 * math.log(5)]},
     "In the context, too, a weight is an exponential divided by the sum."),
    ("the weights applied twice",
     {"out": lambda a, b: [a * a * math.log(2), b * b * math.log(5)]},
     "Each state is multiplied by its weight once."),
    ("the query added", {"out": lambda a, b: [1 + a * math.log(2), 1 + b * math.log(5)]},
     "The context is made of the states alone."),
]  # fmt: skip
HAND_MISTAKES += mistakes(
    ("the context divided by three", look_way(out=HAND_SLIPS[8][1]["out"]),
     "The weights sum to one already, so that nothing more is divided."),
    ("the context's two entries summed, for both", look_way(out=HAND_SLIPS[9][1]["out"]),
     "The context has two entries of its own, as the states have."),
    *(
        (name, look_way(**change), f"The weights are right. {why}")
        for name, change, why in HAND_SLIPS if name in (
            "the best state alone for the context", "the query averaged, not the states",
            "the context divided by the sum once more",
            "the exponentials as weights of the context", "the weights applied twice")
    ),
    ("the cosine in place of the dot product", look_by_hand(
        torch.tensor([0.0, 0.5**0.5, 0.5**0.5]).softmax(0).tolist()),
     "The scores were divided by the lengths of the vectors. The dot product is not."),
    ("the distance in place of the dot product", look_by_hand(
        torch.tensor([-2, -(1 - math.log(2)) ** 2 - 1, -(1 - math.log(5)) ** 2 - 1])
        .softmax(0).tolist()),
     "The score is the dot product, and not minus the squared distance."),
    ("one digit", [0.1, 0.2, 0.6, 0.2, 1.0], "The way is right. Give three digits."),
    ("one digit, and 0.25 rounded up", [0.1, 0.3, 0.6, 0.2, 1.0],
     "The way is right. Give three digits."),
)  # fmt: skip
HAND_MISTAKES += pairs(
    look_way, HAND_SLIPS,
    [look_by_hand([1 / 8, 2 / 8, 5 / 8]), *(mistake.wrong for mistake in HAND_MISTAKES)],
    rtol=5e-3, atol=2e-3,
)  # fmt: skip

# 3.2 three comparisons, to be predicted

PREDICTED = [">", "=", "<"]
WRONG_PICTURES = [
    {
        "=": ("padding taken to have no share, or a fixed one",
              "(a) Every padding has the exponential of its score in the sum, and so its share: "
              "ten of them have more together than one."),
        "<": ("more padding taken to get less",
              "(a) One padding gets less where there are ten, but together they get more: ten "
              "times the same exponential above, and all of it below."),
    },
    {
        "<": ("the last padding taken to get less",
              "(b) Attention knows no distance: equal keys get equal scores from a query, "
              "wherever they stand."),
        ">": ("the last padding taken to get more",
              "(b) Attention knows no distance: equal keys get equal scores from a query, "
              "wherever they stand."),
    },
    {
        "=": ("zeros taken to change nothing",
              "(c) They add nothing to the sum, but their shares are missing from the words: the "
              "context is the right one times the share that is left."),
        ">": ("more states taken to give a longer context",
              "(c) A context is an average, not a sum. What is averaged with zeros gets shorter."),
    },
]  # fmt: skip


# 3.3 additive attention, three mistakes

Contexts = Callable[..., Tensor]


def additive_attention(
    q: Tensor, k: Tensor, mask: Tensor, w_q: Tensor, w_k: Tensor, v: Tensor
) -> Tensor:
    return _additive()(q, k, mask, w_q, w_k, v)


def _inside(sums: Tensor, v: Tensor) -> Tensor:
    return sums.tanh() @ v


def _outside(sums: Tensor, v: Tensor) -> Tensor:
    return (sums @ v).tanh()


def _before(scores: Tensor, hidden: Tensor, axis: int) -> Tensor:
    return scores.masked_fill(hidden, -math.inf).softmax(axis).nan_to_num()


def _after(scores: Tensor, hidden: Tensor, axis: int) -> Tensor:
    return scores.softmax(axis).masked_fill(hidden, 0.0)


def _additive(
    score: Callable[[Tensor, Tensor], Tensor] = _inside,
    weigh: Callable[[Tensor, Tensor, int], Tensor] = _before,
    axis: int = -1,
    give: Callable[[Tensor, Tensor], Tensor] = lambda weights, k: weights @ k,
) -> Contexts:
    """The function, right by default; each argument makes one mistake."""

    def attention(
        q: Tensor, k: Tensor, mask: Tensor, w_q: Tensor, w_k: Tensor, v: Tensor
    ) -> Tensor:
        sums = (q @ w_q).unsqueeze(2) + (k @ w_k).unsqueeze(1)
        return give(weigh(score(sums, v), ~mask.unsqueeze(1), axis), k)

    return attention


def additive_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(33)
    one = [[[1.0, 0.0]]], [[[0.0, 1.0], [0.0, 3.0]]], [[True, False]]
    cases = [(*map(torch.tensor, one), torch.eye(2), torch.eye(2), torch.ones(2))]
    for (b, t, s, d, e, a), lengths in (
        ((2, 3, 4, 3, 2, 5), (3, 2)),
        ((3, 4, 2, 2, 3, 3), (1, 2, 2)),
        ((1, 1, 3, 4, 4, 4), (2,)),
        ((2, 3, 1, 1, 1, 1), (1, 1)),
        ((1, 2, 5, 3, 1, 2), (3,)),
    ):
        shapes = (b, t, d), (b, s, e), (d, a), (e, a), (a,)
        q, k, w_q, w_k, v = (1.5 * torch.randn(*shape, generator=draw) for shape in shapes)
        cases.append((q, k, torch.arange(s) < torch.tensor(lengths).unsqueeze(1), w_q, w_k, v))
    cases[1][2][1] = cases[1][2][1].flip(0)  # padding in front
    return cases


def _hidden(layer: Callable[[Tensor, Tensor], Tensor]) -> Contexts:
    """With another hidden layer, of the projected queries (B, T, 1, A) and keys (B, 1, S, A)."""

    def attention(
        q: Tensor, k: Tensor, mask: Tensor, w_q: Tensor, w_k: Tensor, v: Tensor
    ) -> Tensor:
        scores = layer((q @ w_q).unsqueeze(2), (k @ w_k).unsqueeze(1)) @ v
        return _before(scores, ~mask.unsqueeze(1), -1) @ k

    return attention


def _projected_values(
    q: Tensor, k: Tensor, mask: Tensor, w_q: Tensor, w_k: Tensor, v: Tensor
) -> Tensor:
    weights = _additive(give=lambda weights, k: weights)(q, k, mask, w_q, w_k, v)
    return weights @ (k @ w_k)


ADDITIVE_SLIPS = [
    ("tanh stands outside", {"score": _outside}, "Of a hidden layer tanh is taken, and then v."),
    ("tanh is missing", {"score": lambda sums, v: sums @ v}, "The hidden layer has a tanh."),
    ("v is left out", {"score": lambda sums, v: sums.tanh().sum(-1)},
     "v weighs the entries of the hidden layer."),
    ("a sigmoid in place of tanh", {"score": lambda sums, v: sums.sigmoid() @ v},
     "The hidden layer has a tanh."),
    ("scores divided by the root of the width",
     {"score": lambda sums, v: sums.tanh() @ v / len(v) ** 0.5}, "Nothing divides these scores."),
    ("the mask comes after the softmax", {"weigh": _after},
     "What is hidden had its share before it was struck out."),
    ("the mask is left out", {"weigh": lambda scores, hidden, axis: scores.softmax(axis)},
     "Padding must get no weight."),
    ("zero in place of minus infinity",
     {"weigh": lambda scores, hidden, axis: scores.masked_fill(hidden, 0.0).softmax(axis)},
     "The exponential of zero is one: padding gets a share."),
    ("the mask is turned round",
     {"weigh": lambda scores, hidden, axis: _before(scores, ~hidden, axis)},
     "True in the mask means a token."),
    ("the softmax runs over the queries", {"axis": 1}, "Each query shares among the keys."),
    ("the weights are returned", {"give": lambda weights, k: weights}, "Asked for are contexts."),
]  # fmt: skip
ADDITIVE_MISTAKES = mistakes(
    ("tanh stands outside, and the softmax runs over the queries",
     _additive(_outside, _after, axis=1),
     "Of what is tanh taken in equation (3.3)? And who shares attention among whom? (When these "
     "are right, it also matters that the padding is hidden before the softmax.)"),
    ("tanh stands outside still, and the padding is hidden after the softmax",
     _additive(_outside, _after),
     "The axis is right. tanh belongs to the hidden layer, before v; and padding that is struck "
     "out after the softmax has had its share."),
    ("tanh stands outside still", _additive(_outside),
     "Two are mended. Outside, tanh holds every score between -1 and 1, so that no weight can "
     "ever be more than e squared times another: the net cannot look sharply."),
    ("the padding is hidden after the softmax still", _additive(weigh=_after),
     "Two are mended. The padding had its share before it was struck out: what is left sums to "
     "less than one. Hide the scores, by minus infinity."),
    ("the softmax runs over the queries still", _additive(weigh=_after, axis=1),
     "tanh is in its place. Each query shares its attention among the keys, the last axis. (Then "
     "it also matters that the padding is hidden before the softmax.)"),
    ("the softmax runs over the queries still, and NaN in the columns of padding",
     _additive(
         weigh=lambda scores, hidden, axis: scores.masked_fill(hidden, -math.inf).softmax(axis),
         axis=1,
     ),
     "Each query shares its attention among the keys, the last axis. Along the queries, a column "
     "of padding is minus infinity alone, and gives 0/0."),
    ("no tanh at all", _additive(lambda sums, v: sums @ v),
     "Without the tanh the score is one number for the query plus one for the key, and the query's "
     "number cancels in the softmax: every query looks at the same place."),
    ("tanh inside and outside", _additive(lambda sums, v: (sums.tanh() @ v).tanh()),
     "tanh is taken of the hidden layer, and of nothing else."),
    ("zero in place of minus infinity",
     _additive(weigh=lambda scores, hidden, axis: scores.masked_fill(hidden, 0.0).softmax(axis)),
     "A score of 0 is not nothing: its exponential is 1."),
    ("the mask turned round",
     _additive(weigh=lambda scores, hidden, axis: _before(scores, ~hidden, axis)),
     "The mask is True where there is a token. Here the words are hidden."),
    ("the mask left out",
     _additive(weigh=lambda scores, hidden, axis: scores.softmax(axis)),
     "The padding is looked at like a word."),
    ("the weights in place of the contexts", _additive(give=lambda weights, k: weights),
     "Asked for are the contexts: the weights times the keys, which are the values here."),
    ("weights that were not divided by their sum",
     _additive(weigh=lambda scores, hidden, axis: scores.exp().masked_fill(hidden, 0.0)),
     "Weights must sum to one for each query."),
    ("v without its signs", _additive(lambda sums, v: sums.tanh() @ v.abs()),
     "v weighs the hidden layer, with its signs."),
    ("the mean of the contexts over the queries",
     _additive(give=lambda weights, k: (weights @ k).mean(1)),
     "Every query has a context of its own: (B, T, K)."),
    ("a sigmoid in place of tanh", _additive(lambda sums, v: sums.sigmoid() @ v),
     "Bahdanau's hidden layer has tanh, which runs from -1 to 1."),
    ("v left out", _additive(lambda sums, v: sums.tanh().sum(-1)),
     "The entries of the hidden layer are weighed with v."),
    ("a ReLU in place of tanh", _additive(lambda sums, v: sums.relu() @ v),
     "Bahdanau's hidden layer has tanh, equation (3.3)."),
    ("scores divided by the root of the width",
     _additive(lambda sums, v: sums.tanh() @ v / len(v) ** 0.5),
     "The division by a root belongs to the dot product of the Transformer. Equation (3.3) has "
     "none."),
    ("the mean over the hidden layer", _additive(lambda sums, v: (sums.tanh() * v).mean(-1)),
     "v and the hidden layer meet in a dot product: a sum, not a mean."),
    ("the exponential taken twice", _additive(lambda sums, v: (sums.tanh() @ v).exp()),
     "The softmax takes the exponential itself."),
    ("the softmax taken twice", _additive(give=lambda weights, k: weights.softmax(-1) @ k),
     "The weights are shares already. Another softmax makes them nearly equal, and gives padding "
     "a share."),
    ("a hard look",
     _additive(give=lambda weights, k: torch.nn.functional.one_hot(
         weights.argmax(-1), weights.shape[-1]).to(k.dtype) @ k),
     "All words are averaged, each with its weight."),
    ("the softmax over the batch", _additive(axis=0),
     "Each query shares its attention among the keys of its own sentence, the last axis."),
    ("the mask of the first sentence for all",
     _additive(weigh=lambda scores, hidden, axis: _before(
         scores, hidden[:1].expand_as(hidden), axis)),
     "Each sentence of the batch has its own mask."),
    ("the query's part subtracted", _hidden(lambda q, k: (k - q).tanh()),
     "Query and key are added in the hidden layer."),
    ("query and key multiplied", _hidden(lambda q, k: (q * k).tanh()),
     "Additive attention *adds* the two parts before tanh, equation (3.3)."),
    ("tanh of query and key apart, or the query left out",
     _hidden(lambda q, k: q.tanh() + k.tanh()),
     "tanh is taken of the sum. Taken apart, the query's part is the same in all scores of its "
     "row, and the softmax does not see it."),
    ("the projected keys averaged", _projected_values,
     "w_k serves the scores. What is averaged are the keys themselves, which are the values here."),
    ("the softmax runs over the queries still, where the padding is hidden by a large number",
     _additive(
         weigh=lambda scores, hidden, axis: scores.masked_fill(hidden, -1e9).softmax(axis),
         axis=1,
     ),
     "Each query shares its attention among the keys, the last axis."),
    ("the mask turned round, and NaN where nothing is left",
     _additive(weigh=lambda scores, hidden, axis: (
         scores.masked_fill(~hidden, -math.inf).softmax(axis))),
     "The mask is True where there is a token: hide where it is False. Here the words are hidden."),
    ("the softmax runs over the queries still, and the rows divided by their sums",
     _additive(weigh=lambda scores, hidden, axis: (
         (shares := scores.softmax(1).masked_fill(hidden, 0.0)) / shares.sum(-1, keepdim=True))),
     "The rows sum to one again, but the exponentials were divided by the sums of the columns "
     "first. Take the softmax over the keys, the last axis."),
    ("the sign of v turned", _additive(lambda sums, v: -(sums.tanh() @ v)),
     "The score is tanh(q W_q + k W_k) . v, with its sign."),
    ("the mean of the words, as where the key's part is left out", lambda q, k, mask, w_q, w_k, v: (
        (k * mask.unsqueeze(2)).sum(1) / mask.sum(1, keepdim=True)
     ).unsqueeze(1).expand(-1, q.shape[1], -1),
     "The context is an average with the weights of each query."),
    ("the mean of all places, padding too",
     lambda q, k, mask, w_q, w_k, v: k.mean(1, keepdim=True).expand(-1, q.shape[1], -1),
     "The context is an average with the weights of each query, of words alone."),
    ("twice the scores", _additive(lambda sums, v: 2 * sums.tanh() @ v),
     "The score is tanh(q W_q + k W_k) . v, once."),
    ("v put on before tanh", _additive(lambda sums, v: (sums * v).tanh().sum(-1)),
     "tanh is the hidden layer's. v weighs what comes out of it."),
    ("the mask turned round, by a large number",
     _additive(weigh=lambda scores, hidden, axis: scores.masked_fill(~hidden, -1e9).softmax(axis)),
     "True in the mask means a token."),
    *combined(_additive, ADDITIVE_SLIPS, but=[
        ("tanh stands outside", "the mask comes after the softmax"),
        ("tanh stands outside", "the softmax runs over the queries"),
        ("zero in place of minus infinity", "the softmax runs over the queries"),
        ("the mask comes after the softmax", "the softmax runs over the queries"),
    ]),
    *(
        (name, _additive(weigh=lambda scores, hidden, axis, shares=shares: (
            shares(scores.exp().masked_fill(hidden, 0.0), scores.masked_fill(hidden, 0.0)))), why)
        for name, shares, why in (
            ("the scores divided by their sum, without the exponential",
             lambda e, s: s / s.sum(-1, keepdim=True),
             "Scores may be below zero, and so may their sum. The softmax takes exponentials."),
            ("the scores as weights, zero for the padding", lambda e, s: s,
             "Scores are no shares: the softmax makes weights of them, (3.2)."),
            ("exponentials multiplied by their sum", lambda e, s: e * e.sum(-1, keepdim=True),
             "Weights are shares: exponentials *divided* by their sum."),
            ("shares upside down", lambda e, s: (
                e.sum(-1, keepdim=True) / e.masked_fill(e == 0, math.inf)),
             "A weight is an exponential divided by the sum of all, not the sum divided by it."),
            ("one for each token in place of its weight", lambda e, s: (e > 0).float(),
             "A weight is an exponential divided by the *sum* over the keys (not by itself)."),
        )
    ),
    ("the padding's keys set to zero, and not hidden", lambda q, k, mask, *more: (
        additive_attention(q, k * mask.unsqueeze(2), torch.ones_like(mask), *more)),
     "A key of zeros still has a score, and its share. Hide the score, by minus infinity."),
    ("the first query for all", lambda q, *more: (
        additive_attention(q[:, :1].expand_as(q), *more)),
     "Each query has its own scores, and its own context."),
    ("powers of 2", _additive(weigh=lambda scores, hidden, axis: _before(
        math.log(2) * scores, hidden, axis)), "The softmax takes the exponential, with base e."),
    ("the weights added up, without the keys", _additive(
        give=lambda weights, k: torch.ones(*weights.shape[:2], k.shape[2])),
     "The weights of a query sum to one. Each is to be multiplied by its key."),
    ("contexts of zeros", _additive(give=lambda weights, k: 0 * (weights @ k)),
     "Nothing is added to the zeros: each key, times its weight, belongs there."),
    ("a sigmoid in place of the softmax",
     _additive(weigh=lambda scores, hidden, axis: scores.sigmoid().masked_fill(hidden, 0.0)),
     "A sigmoid looks at each score on its own. Weights must sum to one for each query."),
    ("the softmax runs over the sentences, and NaN where all have padding", _additive(
        weigh=lambda scores, hidden, axis: scores.masked_fill(hidden, -math.inf).softmax(axis),
        axis=0),
     "Each query shares its attention among the keys of its own sentence, the last axis."),
    *(
        (f"{value} in place of minus infinity", _additive(
            weigh=lambda scores, hidden, axis, value=value: (
                scores.masked_fill(hidden, value).softmax(axis))),
         "Such a score is not nothing: its exponential is small, and not 0.")
        for value in (-1.0, -10.0)
    ),
    ("keys brought to length one before they are averaged",
     _additive(give=lambda weights, k: weights @ torch.nn.functional.normalize(k, dim=-1)),
     "What is averaged are the keys as they are."),
    ("tanh stands outside, and the softmax runs over the queries still", _additive(
        _outside, axis=1,
        weigh=lambda scores, hidden, axis: scores.masked_fill(hidden, -math.inf).softmax(axis)),
     "The padding is hidden before the softmax. tanh is taken of the hidden layer, before v; and "
     "each query shares its attention among the keys, the last axis."),
    *(
        (f"the softmax over the hidden layer{more}", _additive(
            lambda sums, v: sums.tanh().softmax(-1) @ v, weigh),
         "The last axis of the sums is that of the hidden layer, A. v turns it into one score for "
         "each query and key, and the softmax runs over the keys of these scores.")
        for more, weigh in (
            (" in place of the keys", lambda scores, hidden, axis: scores.masked_fill(hidden, 0.0)),
            (" in place of the keys, and no mask", lambda scores, hidden, axis: scores),
            (" as well", _before),
            (" as well, and the padding hidden after it", _after),
        )
    ),
    ("plus in place of minus infinity", _additive(
        weigh=lambda scores, hidden, axis: scores.masked_fill(hidden, 1e9).softmax(axis)),
     "So the padding takes all. What is hidden gets the *lowest* score, minus infinity."),
    ("plus infinity, and so NaN, at the padding", _additive(
        weigh=lambda scores, hidden, axis: scores.masked_fill(hidden, math.inf).softmax(axis)),
     "What is hidden gets the *lowest* score, minus infinity. (Infinity less infinity is NaN.)"),
    ("NaN in every place", _additive(
        weigh=lambda scores, hidden, axis: (scores + hidden * -math.inf).softmax(axis)),
     "0 times infinity is NaN, no number, and so is whatever is computed with it: minus infinity "
     "is filled in where the mask says so, and multiplied by nothing."),
    ("the logarithms of the weights", _additive(
        weigh=lambda scores, hidden, axis: scores.masked_fill(hidden, -math.inf).log_softmax(axis)),
     "`log_softmax` gives logarithms. The keys are averaged with the weights themselves."),
)  # fmt: skip

# 3.4 each measurement guessed from the others

Table = Callable[[Tensor], Tensor]


def left_out(places: Tensor, heights: Tensor, widths: list[float]) -> Tensor:
    return _left_out()(places, heights, widths)


def _without_itself(scores: Tensor) -> Tensor:
    return scores.masked_fill(torch.eye(len(scores), dtype=torch.bool), -math.inf)


def _mean_square(errors: Tensor) -> Tensor:
    return errors.pow(2).mean(-1)


def _left_out(
    score: Callable[[Tensor, float], Tensor] = lambda d, width: -d.pow(2) / (2 * width**2),
    weigh: Table = lambda scores: _without_itself(scores).softmax(-1),
    blame: Table = _mean_square,
    give: Callable[[Tensor, list[float]], object] = lambda errors, widths: errors,
    apart: Callable[[Tensor, Tensor], Tensor] = lambda own, other: (own - other).abs(),
) -> Callable[[Tensor, Tensor, list[float]], object]:
    """The function, right by default; each argument makes one mistake."""

    def errors_of(places: Tensor, heights: Tensor, widths: list[float]) -> object:
        distances = apart(places[:, None], places)
        tables = torch.stack([weigh(score(distances, width)) for width in widths])
        return give(blame(tables @ heights - heights), widths)

    return errors_of


def _shares_without_itself(scores: Tensor) -> Tensor:
    return scores.exp().fill_diagonal_(0.0)


def left_out_cases() -> list[tuple[Tensor, Tensor, list[float]]]:
    draw = torch.Generator().manual_seed(34)
    cases = [(torch.tensor([0.0, 1.0]), torch.tensor([3.0, 5.0]), [0.5, 2.0])]
    for size, widths in ((5, [0.6, 1.7, 4.0]), (3, [0.8]), (7, [3.0, 0.9]), (4, [1.3, 2.1, 0.7])):
        places = torch.arange(size) + 0.6 * torch.rand(size, generator=draw)
        places = places[torch.randperm(size, generator=draw)]
        cases.append((places, 3 * torch.randn(size, generator=draw), widths))
    cases[1][0][3] = cases[1][0][0]  # two measurements at one place
    return cases


def _shifted_heights(places: Tensor, heights: Tensor, widths: list[float]) -> Tensor:
    """The own place is cut out of the keys, and the last height out of the values."""
    S = len(places)
    others = ~torch.eye(S, dtype=torch.bool)
    scores = -(places[:, None] - places)[others].view(S, S - 1).pow(2)
    guesses = [(scores / (2 * width**2)).softmax(-1) @ heights[:-1] for width in widths]
    return torch.stack([_mean_square(guess - heights) for guess in guesses])


def _guesses_without_their_own(places: Tensor, heights: Tensor, widths: list) -> list[Tensor]:
    apart = places.unsqueeze(1) - places
    scores = (-(apart**2) / (2 * width**2) for width in widths)
    return [one.fill_diagonal_(-math.inf).softmax(-1) @ heights for one in scores]


LEFT_OUT_MISTAKES = mistakes(
    ("all measurements at the same place hidden", _left_out(
        score=lambda d, width: (-d.pow(2) / (2 * width**2)).masked_fill(d == 0, -math.inf),
        weigh=lambda scores: scores.softmax(-1)),
     "Two measurements may have been made at one place. Its *own* is left out alone: hide the "
     "diagonal, not every distance of 0."),
    ("every measurement helps to guess itself", _left_out(weigh=lambda s: s.softmax(-1)),
     "At its own place its score is 0, the highest there is, and the narrower the kernel, the "
     "more of the weight it gets. Hide it from itself."),
    ("the own weight is struck out after the softmax",
     _left_out(weigh=lambda s: s.softmax(-1).fill_diagonal_(0.0)),
     "The own measurement had its share before it was struck out, so what is left sums to less "
     "than one. Hide the own score before the softmax."),
    ("weights that were not divided by their sum", _left_out(weigh=_shares_without_itself),
     "These are the heights of the bells. The weights of all others must sum to one."),
    ("the softmax over the places that ask",
     _left_out(weigh=lambda s: _without_itself(s).softmax(0)),
     "Each place that is guessed shares its attention among the others: the rows sum to one."),
    ("the sum of the squared errors", _left_out(blame=lambda e: e.pow(2).sum(-1)),
     "Asked for is their mean: divide by the number of measurements."),
    ("divided by one measurement less",
     _left_out(blame=lambda e: e.pow(2).sum(-1) / (e.shape[-1] - 1)),
     "Every measurement is guessed once: the mean is over all S of them."),
    ("the root of the mean square", _left_out(blame=lambda e: _mean_square(e).sqrt()),
     "The mean squared error is asked for, without the root."),
    ("the mean of the absolute errors", _left_out(blame=lambda e: e.abs().mean(-1)),
     "The errors are squared before the mean is taken."),
    ("the mean of the errors, with their signs", _left_out(blame=lambda e: e.mean(-1)),
     "Errors up and down cancel so. Square them first."),
    ("the variance of the errors", _left_out(blame=lambda e: e.var(-1, correction=0)),
     "A variance forgets the mean of the errors, which is an error as well. Take the mean of the "
     "squares."),
    ("one error for all widths", _left_out(give=lambda errors, widths: errors.mean()),
     "Each width has an error of its own: (W,)."),
    ("the best width in place of the errors",
     _left_out(give=lambda errors, widths: widths[int(errors.argmin())]),
     "Asked for are the errors of all widths, (W,)."),
    ("the number of the best width", _left_out(give=lambda errors, widths: int(errors.argmin())),
     "Asked for are the errors of all widths, (W,)."),
    ("the guesses in place of their errors", lambda places, heights, widths: (
        _left_out(blame=lambda e: e + heights)(places, heights, widths)),
     "The guesses are right. Compare them with the heights."),
    ("sigma not squared", _left_out(lambda d, width: -d.pow(2) / (2 * width)),
     "The squared distance is divided by 2 sigma squared, equation (3.6)."),
    ("the 2 below the line missing", _left_out(lambda d, width: -d.pow(2) / width**2),
     "Equation (3.6) divides by 2 sigma squared."),
    ("the 2 squared as well", _left_out(lambda d, width: -d.pow(2) / (2 * width) ** 2),
     "Only sigma is squared: the distance is divided by 2 sigma squared, not by 4."),
    ("multiplied by sigma squared instead of divided",
     _left_out(lambda d, width: -d.pow(2) / 2 * width**2),
     "Python reads x / 2 * y as (x / 2) * y. What stands below the line needs brackets."),
    ("sigma ignored", _left_out(lambda d, width: -d.pow(2) / 2),
     "This is the kernel of width 1, for every width."),
    ("the distance not squared", _left_out(lambda d, width: -d / (2 * width**2)),
     "The Gaussian bell falls with the square of the distance."),
    ("the minus sign missing", _left_out(lambda d, width: d.pow(2) / (2 * width**2)),
     "The farthest measurement counts most. Distance must make a place less alike."),
    ("the nearest of the others alone",
     _left_out(weigh=lambda s: torch.nn.functional.one_hot(
         _without_itself(s).argmax(-1), len(s)).to(s.dtype)),
     "All others are averaged, each with its weight."),
    ("the plain mean of the others",
     _left_out(weigh=lambda s: _without_itself(torch.zeros_like(s)).softmax(-1)),
     "Near measurements count more: the softmax of the scores gives their weights."),
    ("heights compared in place of places",
     lambda places, heights, widths: left_out(heights, heights, widths),
     "The places are queries and keys. The heights are the values, which are averaged."),
    ("the errors of the first width for all",
     _left_out(give=lambda errors, widths: errors[:1].expand(len(widths))),
     "Every width has its own scores, weights and guesses."),
    ("the own score set to -1",
     _left_out(weigh=lambda s: s.clone().fill_diagonal_(-1.0).softmax(-1)),
     "Scores are all below zero here, and many are below -1. Only minus infinity gets the weight "
     "0."),
    ("one taken off the own weight",
     _left_out(weigh=lambda s: s.softmax(-1) - torch.eye(len(s))),
     "The own weight is less than one, and the weights of the others must sum to one. Hide the "
     "own score before the softmax."),
    ("only the places before it in the list", _left_out(weigh=lambda s: s.masked_fill(
        torch.ones_like(s, dtype=torch.bool).triu(), -math.inf).softmax(-1).nan_to_num()),
     "All other measurements answer, those behind it in the list as well: hide the diagonal "
     "alone."),
    ("the softmax over the whole table",
     _left_out(weigh=lambda s: _without_itself(s).flatten().softmax(0).view_as(s)),
     "All places together share one. Each should have a whole one to share."),
    ("the largest squared error", _left_out(blame=lambda e: e.pow(2).amax(-1)),
     "The mean of the squared errors is asked for."),
    ("the median of the squared errors", _left_out(blame=lambda e: e.pow(2).median(-1).values),
     "The mean of the squared errors is asked for."),
    ("half the mean square", _left_out(blame=lambda e: _mean_square(e) / 2),
     "The squared errors are averaged, and not halved."),
    ("the square of the mean error", _left_out(blame=lambda e: e.mean(-1).square()),
     "Errors up and down cancel so. Square them first."),
    ("the variance of the errors, over one less", _left_out(blame=lambda e: e.var(-1)),
     "The errors are squared as they are: their mean is not taken off."),
    ("the standard deviation of the errors", _left_out(blame=lambda e: e.std(-1)),
     "The mean of the squared errors is asked for."),
    ("errors in shares of the heights", lambda places, heights, widths: (
        _left_out(blame=lambda e: (e / heights).pow(2).mean(-1))(places, heights, widths)),
     "The error is the guess less the height, and nothing divides it."),
    ("the widths sorted first",
     lambda places, heights, widths: left_out(places, heights, sorted(widths)),
     "One error for each width, in the order of `widths`."),
    ("the first width alone", lambda places, heights, widths: (
        left_out(places, heights, widths)[:1]),
     "One error for each width is asked for."),
    ("the error of the first measurement alone", _left_out(blame=lambda e: e[..., 0].pow(2)),
     "Every measurement is guessed once, and the mean is over all of them."),
    ("the error of the last measurement alone", _left_out(blame=lambda e: e[..., -1].pow(2)),
     "Every measurement is guessed once, and the mean is over all of them."),
    *combined(_left_out, [
        ("every measurement helps to guess itself", {"weigh": lambda s: s.softmax(-1)},
         "The own measurement is left out: its score becomes minus infinity."),
        ("the own weight struck out after the softmax",
         {"weigh": lambda s: s.softmax(-1).fill_diagonal_(0.0)},
         "Then the weights of the others sum to less than one."),
        ("the softmax over the places that ask",
         {"weigh": lambda s: _without_itself(s).softmax(0)}, "Each place shares among the others."),
        ("sigma not squared", {"score": lambda d, width: -d.pow(2) / (2 * width)},
         "Equation (3.6) has sigma squared below the line."),
        ("the 2 below the line missing", {"score": lambda d, width: -d.pow(2) / width**2},
         "Equation (3.6) has 2 sigma squared below the line."),
        ("neither 2 nor square below the line", {"score": lambda d, width: -d.pow(2) / width},
         "Equation (3.6) has 2 sigma squared below the line."),
        ("the distance not squared", {"score": lambda d, width: -d / (2 * width**2)},
         "Equation (3.6) has the squared distance."),
        ("the minus sign missing", {"score": lambda d, width: d.pow(2) / (2 * width**2)},
         "Near places get more."),
        ("the sum of the squared errors", {"blame": lambda e: e.pow(2).sum(-1)},
         "The mean is asked for."),
        ("the root of the mean square", {"blame": lambda e: _mean_square(e).sqrt()},
         "The mean of the squares is asked for, without a root."),
        ("the mean of the absolute errors", {"blame": lambda e: e.abs().mean(-1)},
         "The errors are squared."),
    ]),
    ("neither 2 nor square below the line", _left_out(lambda d, width: -d.pow(2) / width),
     "Equation (3.6) has 2 sigma squared below the line."),
    ("the errors sorted",
     _left_out(give=lambda errors, widths: errors.sort().values),
     "The errors stand in the order of the widths."),
    ("the heights not left out with the places", _shifted_heights,
     "Where a place is left out, its height must be, too: else the weights meet the heights of "
     "other places."),
    ("the first measurement left out for all",
     lambda places, heights, widths: _left_out(weigh=lambda s: s.softmax(-1))(
         places[1:], heights[1:], widths),
     "Every place is guessed once, without its own measurement and with all others."),
    *(
        (f"{name}, {side}", _left_out(score, apart=apart),
         "Near places get more, on both sides: it is the *squared* distance that is divided by 2 "
         "sigma squared.")
        for name, score in (
            ("the distance with its sign, not squared", lambda d, width: -d / (2 * width**2)),
            ("the distance with its sign, not squared, by sigma squared",
             lambda d, width: -d / width**2),
            ("the distance over twice sigma with its sign, not squared",
             lambda d, width: -d / (2 * width)),
            ("the distance over sigma with its sign, not squared", lambda d, width: -d / width),
        )
        for side, apart in (("so that what lies to the right gets more", lambda a, b: a - b),
                            ("so that what lies to the left gets more", lambda a, b: b - a))
    ),
    ("the places added, not subtracted", _left_out(apart=lambda own, other: own + other),
     "A distance is a difference."),
    ("the other place alone in place of the distance",
     _left_out(apart=lambda own, other: 0 * own + other),
     "The score is of the *distance* of the two places, equation (3.6)."),
    ("the width divided by the distance", _left_out(lambda d, width: -(width**2) / (2 * d**2)),
     "The distance stands above the line, and sigma below it: near places get more."),
    ("twice the width's square divided by the distance's",
     _left_out(lambda d, width: -2 * width**2 / d**2),
     "The distance stands above the line, and sigma below it: near places get more."),
    ("sigma doubled, not squared", _left_out(lambda d, width: -d.pow(2) / (4 * width)),
     "Equation (3.6) has sigma *squared* below the line."),
    ("powers of 2", _left_out(lambda d, width: -math.log(2) * d.pow(2) / (2 * width**2)),
     "The softmax takes the exponential, with base e."),
    ("the scores divided by their sum, without the exponential",
     _left_out(weigh=lambda s: s / s.sum(-1, keepdim=True)),
     "These scores are highest where the place is far. The softmax takes the exponential first."),
    ("exponentials multiplied by their sum", _left_out(
        weigh=lambda s: _shares_without_itself(s) * _shares_without_itself(s).sum(-1, True)),
     "Weights are shares: exponentials *divided* by their sum."),
    ("the error doubled, not squared", _left_out(blame=lambda e: 2 * e.mean(-1)),
     "Errors up and down cancel so. `** 2` squares, `* 2` doubles."),
    ("the error doubled, not squared, as height less guess",
     _left_out(blame=lambda e: -2 * e.mean(-1)),
     "Errors up and down cancel so. `** 2` squares, `* 2` doubles."),
    *(
        (name, lambda places, heights, widths, wrong=wrong: _left_out(
            blame=lambda e: wrong(e + heights, heights).pow(2).mean(-1))(places, heights, widths),
         f"{why} An error is the guess less the height.")
        for name, wrong, why in (
            ("guess and height added", lambda guess, height: guess + height, "Subtract."),
            ("the guesses squared", lambda guess, height: guess,
             "The heights are not compared with."),
            ("the heights squared", lambda guess, height: 0 * guess + height,
             "The guesses are not looked at."),
            ("the weights added up, without the heights", lambda guess, height: (
                0 * guess + 1 - height), "The weights sum to one: each is times a height."),
            ("the mean of the weighted heights, not their sum", lambda guess, height: (
                guess / len(height) - height), "The weights sum to one already."),
            ("the mean of the others' weighted heights, not their sum", lambda guess, height: (
                guess / (len(height) - 1) - height), "The weights sum to one already."),
            ("divided by the mean of the bells, not their sum", lambda guess, height: (
                guess * len(height) - height), "The weights are to sum to one."),
            ("divided by the mean of the others' bells, not their sum", lambda guess, height: (
                guess * (len(height) - 1) - height), "The weights are to sum to one."),
        )
    ),
    ("errors of zero", _left_out(blame=lambda e: 0 * e.mean(-1)),
     "Nothing is added to the zeros: the squared error of each measurement belongs there."),
    ("an empty list", lambda *case: [],
     "Nothing is put into the list: each width's mean squared error belongs there."),
    ("the places sorted, and the heights not",
     lambda places, heights, widths: left_out(places.sort().values, heights, widths),
     "Each height belongs to its place. No order is needed here."),
    ("the smallest error alone",
     _left_out(give=lambda errors, widths: errors.min()),
     "Asked for are the errors of all widths, (W,)."),
    ("the table of weights", lambda places, heights, widths: torch.stack([
        _without_itself(-(places[:, None] - places).pow(2) / (2 * width**2)).softmax(-1)
        for width in widths]),
     "The weights are right. Guess the heights with them, and compare."),
    ("the distance not squared, and divided by sigma alone",
     _left_out(lambda d, width: -d.abs() / width),
     "The Gaussian bell falls with the square of the distance, divided by 2 sigma squared."),
    ("the distance not squared, and divided by twice sigma",
     _left_out(lambda d, width: -d.abs() / (2 * width)),
     "The Gaussian bell falls with the square of the distance, divided by 2 sigma squared."),
    ("multiplied by the width's square, in place of divided",
     _left_out(lambda d, width: -d.pow(2) * 2 * width**2),
     "A wide kernel falls slowly: the squared distance is *divided* by 2 sigma squared."),
    ("divided by sigma squared over 2", _left_out(lambda d, width: -2 * d.pow(2) / width**2),
     "The 2 stands below the line, with sigma squared."),
    ("the guesses compared with the places", lambda places, heights, widths: torch.stack([
        (torch.as_tensor(guess) - places).pow(2).mean()
        for guess in _guesses_without_their_own(places, heights, widths)]),
     "What is guessed are the heights: compare with them."),
    ("the guesses compared with the mean of all heights", lambda places, heights, widths: (
        torch.stack([(guess - heights.mean()).pow(2).mean()
                     for guess in _guesses_without_their_own(places, heights, widths)])),
     "Each guess is compared with the height that was measured at its place."),
    ("the last measurement left out for all",
     lambda places, heights, widths: [
         float(((scores.softmax(-1) @ heights[:-1] - heights) ** 2).mean())
         for scores in (
             -((places[:, None] - places[:-1]) ** 2) / (2 * width**2) for width in widths
         )
     ],
     "At each place its own measurement is left out, another one each time."),
)  # fmt: skip

# 3.5 masked softmax


Weigher = Callable[[Tensor, Tensor], Tensor]


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    hidden = ~mask.unsqueeze(1)
    return scores.masked_fill(hidden, -math.inf).softmax(-1).masked_fill(hidden, 0.0)


def masked_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(35)
    scores = torch.randn(2, 3, 4, generator=draw)
    some = torch.tensor([[True, True, True, False], [True, False, True, False]])
    more = torch.randn(3, 2, 4, generator=draw)
    none_in_one = torch.tensor(
        [[False, True, True, False], [False, False, False, False], [True, True, True, True]]
    )
    last_hidden = torch.tensor([[True, True, False]])
    example = torch.tensor([[[1.0, 1.0, 5.0]]])
    far = ([-200.0, -201.0, 300.0], [100.0, 101.0, 5.0], [1.0, 2.0, 300.0])
    extreme = [(torch.tensor([[row]]), last_hidden) for row in far]
    far_apart = torch.tensor([[[-300.0, -301.0, -310.0], [300.0, 299.0, 5.0]]])
    extreme.append((far_apart, last_hidden))
    square = torch.randn(2, 4, 4, generator=draw), some  # as many queries as keys
    small = torch.tensor([[[7.5, 0.0, 0.0]]]), last_hidden  # a share of 0.00055
    return [(scores, some), (more, none_in_one), (example, last_hidden), *extreme, square, small]


def _shares(parts: Tensor, least: float) -> Tensor:
    return parts / parts.sum(-1, keepdim=True).clamp(min=least)


def _renormalised(scores: Tensor, mask: Tensor, least: float) -> Tensor:
    return _shares(scores.softmax(-1) * mask.unsqueeze(1), least)


def _shared_exponentials(scores: Tensor, mask: Tensor, fill: bool) -> Tensor:
    parts = (scores - scores.amax(-1, keepdim=True)).exp() * mask.unsqueeze(1)
    hidden = ~(mask if fill else mask.any(-1, keepdim=True)).unsqueeze(1)
    return (parts / parts.sum(-1, keepdim=True)).masked_fill(hidden, 0.0)


def _exponentials(scores: Tensor, mask: Tensor) -> Tensor:
    """Less the highest score of the tokens, 0 for the padding."""
    scores = scores.masked_fill(~mask.unsqueeze(1), -math.inf)
    return (scores - scores.amax(-1, keepdim=True).clamp(min=-1e30)).exp()


def _hidden_by(number: Callable[[Tensor], Tensor], struck: bool) -> Weigher:
    """Some number in place of the padding's scores, and zeros for its weights, if `struck`."""

    def weights(scores: Tensor, mask: Tensor) -> Tensor:
        hidden = ~mask.unsqueeze(1)
        shares = torch.where(hidden, number(scores), scores).softmax(-1)
        return shares.masked_fill(hidden, 0.0) if struck else shares

    return weights


MASKED_MISTAKES = mistakes(
    ("exponentials that were not divided by their sum", _exponentials,
     "Weights are shares: the exponentials of each query are divided by their sum."),
    ("exponentials multiplied by their sum",
     lambda scores, mask: (e := _exponentials(scores, mask)) * e.sum(-1, keepdim=True),
     "Weights are shares: the exponentials of each query are *divided* by their sum."),
    *((f"exponentials less the highest score of all, padding included{more}",
       lambda scores, mask, fill=fill: _shared_exponentials(scores, mask, fill),
       "Where the padding has the highest score by far, the exponentials of all words are 0, and "
       "0 / 0 is NaN. Hide the padding by minus infinity before you look for the highest.")
      for more, fill in (("", False), (", and zeros for it", True))),
    ("one for each token", lambda scores, mask: mask.unsqueeze(1).expand(scores.shape).float(),
     "A weight is an exponential divided by the *sum* over the keys (not by itself)."),
    *((f"divided by the sum over the {what}", lambda scores, mask, axis=axis: (
        e := _exponentials(scores, mask)) / e.sum(axis, keepdim=True).clamp(min=1e-30),
       "The weights of each query sum to one: the sum is that over the keys, the last axis.")
      for what, axis in (("queries", 1), ("sentences", 0))),
    ("powers of 2", lambda scores, mask: masked_softmax(math.log(2) * scores, mask),
     "The softmax takes the exponential, with base e."),
    ("infinity in place of minus infinity", lambda scores, mask: scores.masked_fill(
        ~mask.unsqueeze(1), math.inf).softmax(-1),
     "Only *minus* infinity becomes 0: the exponential of infinity is infinite."),
    ("infinity in place of minus infinity, and zeros for the padding", lambda scores, mask: (
        scores.masked_fill(~mask.unsqueeze(1), math.inf).softmax(-1)
        .masked_fill(~mask.unsqueeze(1), 0.0)),
     "Only *minus* infinity becomes 0: the exponential of infinity is infinite."),
    ("weights of zero everywhere", lambda scores, mask: 0 * scores,
     "Only where a sentence has no token all weights are zero."),
    ("the scores left where there is padding", lambda scores, mask: torch.where(
        mask.unsqueeze(1), masked_softmax(scores, mask), scores),
     "The weights of the padding are zero: begin with zeros, not with the scores."),
    ("the mask applied after the softmax",
     lambda scores, mask: scores.softmax(-1) * mask.unsqueeze(1),
     "The padding had its share before it was struck out, so what is left sums to less than one. "
     "Hide the scores before the softmax."),
    ("zero instead of minus infinity",
     lambda scores, mask: (scores * mask.unsqueeze(1)).softmax(-1),
     "A score of 0 is not nothing: its exponential is 1. Only minus infinity becomes 0."),
    ("a mask that hides the words",
     lambda scores, mask: (scores - 1e9 * mask.unsqueeze(1).float()).softmax(-1),
     "True means that the key is a token. Here it is the tokens that are hidden."),
    ("exponentials of the scores as they are, and zeros in place of NaN",
     lambda scores, mask: torch.nan_to_num(
         (scores.exp() * mask.unsqueeze(1))
         / (scores.exp() * mask.unsqueeze(1)).sum(-1, keepdim=True)
     ),
     "The exponential of 300 is infinite and that of -300 is zero. Subtract the largest score of "
     "the tokens first, for each query."),
    ("the largest score of all queries subtracted",
     lambda scores, mask: torch.nan_to_num(
         ((scores - scores.max()).exp() * mask.unsqueeze(1))
         / ((scores - scores.max()).exp() * mask.unsqueeze(1)).sum(-1, keepdim=True)
     ),
     "Far below the largest score of all, on the padding or at another query, every "
     "exponential is zero. Each query needs the largest score of its own tokens."),
    ("the mask turned round", lambda scores, mask: masked_softmax(scores, ~mask),
     "True means that the key is a token and may be looked at. Here the padding is looked at."),
    ("the mask turned round, and applied after the softmax",
     lambda scores, mask: scores.softmax(-1) * ~mask.unsqueeze(1),
     "True means that the key is a token and may be looked at; and what is hidden is hidden before "
     "the softmax."),
    ("the softmax over the queries",
     lambda scores, mask: torch.nan_to_num(
         scores.masked_fill(~mask.unsqueeze(1), -math.inf).softmax(1)
     ),
     "Each query must share its attention among the keys: the softmax runs over the last axis."),
    ("the softmax over the whole table",
     lambda scores, mask: torch.nan_to_num(
         scores.masked_fill(~mask.unsqueeze(1), -math.inf).flatten(1).softmax(-1)
     ).view_as(scores),
     "All queries of a sentence together sum to one. Each of them should."),
    ("the softmax over the queries, and NaN in the columns of padding",
     lambda scores, mask: scores.masked_fill(~mask.unsqueeze(1), -math.inf).softmax(1),
     "Each query must share its attention among the keys: the softmax runs over the last axis. "
     "Along the queries, a column of padding is minus infinity alone, and gives 0/0."),
    ("NaN where there is nothing to look at",
     lambda scores, mask: scores.masked_fill(~mask.unsqueeze(1), -math.inf).softmax(-1),
     "A sentence of padding alone has no score above minus infinity, and its softmax is 0/0. Its "
     "weights should be zero."),
    ("equal weights where there is nothing to look at",
     lambda scores, mask: scores.masked_fill(~mask.unsqueeze(1), -1e9).softmax(-1),
     "A sentence of padding alone should get zeros. (With a large negative number in place of "
     "minus infinity all its scores are the same, and the padding shares one equally.)"),
    ("a negative number that is not low enough",
     lambda scores, mask: scores.masked_fill(~mask.unsqueeze(1), -100.0).softmax(-1),
     "It hides only while the real scores are larger. Next to scores of -200 the padding, at -20 "
     "or -100, takes all the weight. No number is below every score, minus infinity is."),
    ("a finite number in place of minus infinity",
     lambda scores, mask: (
         scores.masked_fill(~mask.unsqueeze(1), -100.0)
         .softmax(-1)
         .masked_fill(~mask.unsqueeze(1), 0.0)
     ),
     "It hides only while the real scores are larger. Next to scores of -200 the padding, at -20 "
     "or -100, takes all the weight, and after it is struck out nothing is left."),
    ("the padding's scores still count, and then its weights are struck out",
     lambda scores, mask: _renormalised(scores, mask, least=1e-9),
     "With a pencil this is right. In floating point a high score on the padding takes all the "
     "weight, and what is left is zero. (So it does with 100 taken off the padding's scores: they "
     "may be 600 higher.) Hide them by minus infinity, before the softmax."),
    ("the softmax over all keys, divided again by what is left, and 0/0",
     lambda scores, mask: _renormalised(scores, mask, least=0.0),
     "With a pencil this is right where there is a word. In floating point a high score on the "
     "padding takes all the weight, and what is left is zero. Hide the scores first."),
    *(
        (f"{low} in place of minus infinity{more}", _hidden_by(number, struck), why)
        for low, number, why in (
            ("-300, which tokens may have,", lambda scores: torch.tensor(-300.0),
             "Scores of -300 are allowed on tokens: there the padding gets as much as they do. No "
             "number is below every score, minus infinity is."),
            ("the lowest score of the sentence", lambda scores: scores.amin((1, 2), keepdim=True),
             "The token that has it gets no more than the padding does. No score is low enough, "
             "minus infinity is."),
            ("the query's lowest score", lambda scores: scores.amin(-1, keepdim=True),
             "The token that has it gets no more than the padding does. No score is low enough, "
             "minus infinity is."),
            ("one less than the lowest of all scores", lambda scores: scores.min() - 1,
             "Where all tokens have low scores the padding still gets a third of what they get. No "
             "score is low enough, minus infinity is."),
        )
        for more, struck in ((", and zeros for the padding afterwards", True), ("", False))
    ),
    ("exponentials without care overflow",
     lambda scores, mask: _shares(scores.exp() * mask.unsqueeze(1), least=1e-9),
     "The exponential of 100 is infinite in 32 bits, and that of -200 is zero. A softmax takes the "
     "highest score off all scores first, which changes no weight."),
    ("exponentials without care overflow, and 0/0 where there is nothing to look at",
     lambda scores, mask: _shares(scores.exp() * mask.unsqueeze(1), least=0.0),
     "The exponential of 100 is infinite in 32 bits, and that of -200 is zero. A softmax takes the "
     "highest score off all scores first. A sentence of padding alone needs care, too."),
    ("exponentials of hidden scores, with the highest not taken off first",
     lambda scores, mask: _shares(
         scores.masked_fill(~mask.unsqueeze(1), -math.inf).exp(), least=1e-9
     ),
     "The padding is hidden well. But the exponential of 100 is infinite in 32 bits, and that of "
     "-200 is zero: take the highest score off all scores first, or use softmax."),
    ("exponentials of hidden scores, with the highest not taken off first, and 0/0",
     lambda scores, mask: _shares(
         scores.masked_fill(~mask.unsqueeze(1), -math.inf).exp(), least=0.0
     ),
     "The padding is hidden well. But the exponential of 100 is infinite in 32 bits, and that of "
     "-200 is zero. A sentence of padding alone needs care, too."),
    ("the mask left out", lambda scores, mask: scores.softmax(-1),
     "The padding is looked at like a word."),
    ("the mask added to the scores",
     lambda scores, mask: (scores + mask.unsqueeze(1).float()).softmax(-1),
     "True and False are 1 and 0 here: a token gets a little more, and padding is still looked "
     "at. Padding needs minus infinity."),
    ("the scores multiplied by minus infinity", lambda scores, mask: (
        scores * torch.where(mask, 1.0, -math.inf).unsqueeze(1)).softmax(-1),
     "A negative score times minus infinity is plus infinity. Put minus infinity in the score's "
     "place, or add it."),
    ("the mask of the first sentence for all",
     lambda scores, mask: masked_softmax(scores, mask[:1].expand_as(mask)),
     "Each sentence of the batch has its own mask."),
    ("a finite number taken off, and struck out after the softmax", lambda scores, mask: (
        (scores - 300.0 * ~mask.unsqueeze(1)).softmax(-1).masked_fill(~mask.unsqueeze(1), 0.0)),
     "A score of 300 on the padding is then 0, and still far above -200: the padding takes all the "
     "weight before it is struck out. Only minus infinity is below every score."),
    ("scores cut at a limit",
     lambda scores, mask: masked_softmax(scores.clamp(-50, 50), mask),
     "Scores beyond the limit become equal, and with them their weights. A softmax takes the "
     "highest score off all scores first, which changes no weight."),
    ("something added below the line", lambda scores, mask: 0.99 * masked_softmax(scores, mask),
     "The weights sum to less than one. A small number in the sum must be so small that no weight "
     "feels it, or stand only where the sum is zero."),
    ("the lowest of all scores in place of minus infinity", lambda scores, mask: (
        scores.masked_fill(~mask.unsqueeze(1), float(scores.min())).softmax(-1)
        * mask.unsqueeze(1)),
     "The lowest score still has an exponential, and where all are alike as much as any. Only "
     "minus infinity becomes 0."),
    ("the lowest of all scores in place of minus infinity, and nothing struck out",
     lambda scores, mask: (
         scores.masked_fill(~mask.unsqueeze(1), float(scores.min())).softmax(-1)),
     "The lowest score still has an exponential, and where all are alike as much as any. Only "
     "minus infinity becomes 0."),
    ("one less for hidden scores, and struck out after", lambda scores, mask: (
        scores + mask.unsqueeze(1).float() - 1).softmax(-1) * mask.unsqueeze(1),
     "One less is not nothing: such a key had its share. Only minus infinity becomes 0."),
    ("exponentials without the highest score taken off first",
     lambda scores, mask: (
         (e := scores.masked_fill(~mask.unsqueeze(1), -math.inf).exp())
         / e.sum(-1, keepdim=True)
     ).masked_fill(~mask.unsqueeze(1), 0.0),
     "The exponential of 300 is infinite and that of -300 is zero. `softmax` takes the highest "
     "score off before it."),
)  # fmt: skip


MASKED_MISTAKES += mistakes(
    ("zero instead of minus infinity, and struck out after",
     lambda s, m: (s * m.unsqueeze(1)).softmax(-1) * m.unsqueeze(1),
     "A hidden score of zero has the exponential 1 and its share, which is missing once it is "
     "struck out. Hide by minus infinity."),
    ("scores divided by the root of the number of keys",
     lambda s, m: masked_softmax(s / s.shape[-1] ** 0.5, m),
     "The scores go into the softmax as they are."),
    ("scores divided by the number of keys",
     lambda s, m: masked_softmax(s / s.shape[-1], m),
     "The scores go into the softmax as they are."),
    ("negative scores set to zero", lambda s, m: masked_softmax(s.clamp(min=0), m),
     "Scores may be below zero: their exponentials are then below one."),
    ("the scores without their sign", lambda s, m: masked_softmax(s.abs(), m),
     "Scores may be below zero: their exponentials are then below one."),
    ("equal weights for all tokens", lambda s, m: masked_softmax(0 * s, m),
     "The weights are the softmax of the scores, among the tokens."),
    ("one row of weights for all queries",
     lambda s, m: masked_softmax(s.mean(1, keepdim=True).expand_as(s), m),
     "Each query has its own scores, and its own weights."),
    ("the weights of the first query for all",
     lambda s, m: masked_softmax(s[:, :1].expand_as(s), m),
     "Each query has its own scores, and its own weights."),
    ("zeros for all of a sentence that has any padding",
     lambda s, m: s.softmax(-1) * m.all(1)[:, None, None],
     "Padding is hidden key by key, by a score of minus infinity. (Plus infinity makes all weights "
     "NaN, which are zeros only afterwards.)"),
    ("padding hidden only where a sentence has no token",
     lambda s, m: s.softmax(-1) * m.any(1)[:, None, None],
     "Padding is hidden key by key: `mask.unsqueeze(1)`."),
    ("everything behind the first padding hidden",
     lambda s, m: masked_softmax(s, m.cummin(1).values),
     "The mask says of each key whether it is a token: one may stand behind padding."),
    ("the softmax taken twice", lambda s, m: masked_softmax(masked_softmax(s, m), m),
     "The softmax is taken once."),
    ("one where there is nothing to look at",
     lambda s, m: s.masked_fill(~m.unsqueeze(1), -math.inf).softmax(-1).nan_to_num(1.0),
     "If a sentence has no token, all its weights are zero."),
    ("a thousand taken off, and what is hidden left as it is",
     lambda s, m: (s - 1000.0 * ~m.unsqueeze(1)).softmax(-1),
     "Where nothing else is left, even the lowest score gets a share. And weights of padding "
     "must be exactly zero."),
    ("a finite number, and zeros only where nothing is to be looked at",
     lambda s, m: s.masked_fill(~m.unsqueeze(1), -100.0).softmax(-1) * m.any(1)[:, None, None],
     "Scores of tokens may be lower than -100. Only minus infinity is below all of them."),
    ("the softmax over the sentences",
     lambda s, m: s.masked_fill(~m.unsqueeze(1), -math.inf).softmax(0).nan_to_num(),
     "Axis 0 is that of the sentences. Each query shares among the keys: the last axis."),
    ("the softmax over the sentences, and NaN",
     lambda s, m: s.masked_fill(~m.unsqueeze(1), -math.inf).softmax(0),
     "Axis 0 is that of the sentences. Each query shares among the keys: the last axis."),
    ("the logarithms of the weights, and zeros for padding",
     lambda s, m: s.masked_fill(~m.unsqueeze(1), -math.inf).log_softmax(-1).nan_to_num(0, 0, 0),
     "Asked for are the weights themselves, not their logarithms."),
    ("the logarithms of the weights",
     lambda s, m: s.masked_fill(~m.unsqueeze(1), -math.inf).log_softmax(-1),
     "Asked for are the weights themselves, not their logarithms."),
    ("a thousandth added below the line",
     lambda s, m: (e := (s - s.amax(-1, keepdim=True)).exp() * m.unsqueeze(1)) / (
         e.sum(-1, keepdim=True) + 1e-3),
     "Weights sum to exactly one. Only where nothing is to be looked at may another number stand "
     "below the line."),
    *(
        (f"{more} added below the line", lambda s, m, more=more: (
            (e := _exponentials(s, m)) / (e.sum(-1, keepdim=True) + more)),
         "Weights sum to exactly one. Only where nothing is to be looked at may another number "
         "stand below the line.")
        for more in (0.001, 0.01, 0.1, 1)
    ),
    ("plus in place of minus infinity",
     lambda s, m: s.masked_fill(~m.unsqueeze(1), 1e9).softmax(-1),
     "So the padding takes all. What is hidden gets the *lowest* score, minus infinity."),
    ("NaN in every place", lambda s, m: (s + ~m.unsqueeze(1) * -math.inf).softmax(-1),
     "0 times infinity is NaN, no number, and so is whatever is computed with it: minus infinity "
     "is filled in where the mask says so, and multiplied by nothing."),
    ("a sigmoid in place of the softmax", lambda s, m: s.sigmoid() * m.unsqueeze(1),
     "A sigmoid looks at each score on its own. The weights of a query sum to one."),
    ("all weight on the highest score", lambda s, m: torch.nn.functional.one_hot(
        s.masked_fill(~m.unsqueeze(1), -math.inf).argmax(-1), s.shape[-1]) * m.unsqueeze(1),
     "The softmax gives a share to every token, to those with lower scores, too."),
    ("the mask after the softmax, divided again along the wrong axis",
     lambda s, m: (w := s.softmax(-1) * m.unsqueeze(1)) / w.sum(1, keepdim=True).clamp(min=1e-9),
     "The weights of one query sum to one: the last axis. And hide before the softmax."),
)  # fmt: skip


def _hides_padding(output: Tensor, scores: Tensor, mask: Tensor) -> bool:
    return bool(torch.as_tensor(output).masked_select(~mask.unsqueeze(1)).eq(0).all())


# 3.6 greedy decoding


LONGEST = 24  # more than any answer needs


class Step:
    """A decoder made of a table: the next word depends on sentence, position and last word."""

    writes = ""

    def __init__(self, stops: list[int], vocab_size: int, eos: int, seed: int):
        draw = torch.Generator().manual_seed(seed)
        size = (len(stops), LONGEST, vocab_size, vocab_size)
        self.table = torch.randn(*size, generator=draw)
        self.table[..., eos] = -10.0
        for sentence, stop in enumerate(stops):  # how many words each sentence gets
            self.table[sentence, stop, :, eos] = 10.0

    def __repr__(self) -> str:
        words = self.table.shape[2]
        return f"a decoder of {words} words{self.writes}"

    def __call__(self, tokens: Tensor) -> Tensor:
        """(B, t) tokens, the first word included, to (B, t, V) logits of the words after each.

        Raises ValueError unless all rows come at once, if they are longer than any answer, and if
        a token is no word.
        """
        tokens = torch.as_tensor(tokens)
        rows, longest = self.table.shape[:2]
        if tokens.ndim != 2 or tokens.shape[0] != rows:
            raise ValueError(
                f"tokens: expected all {rows} rows at once, shape ({rows}, t), got shape "
                f"{tuple(tokens.shape)}"
            )
        if tokens.shape[1] > longest:
            raise ValueError(
                f"tokens: got {tokens.shape[1]} of them in each row, more than any answer needs: "
                "does the writing end after max_length tokens?"
            )
        words = self.table.shape[2]
        if not (0 <= int(tokens.min()) and int(tokens.max()) < words):
            raise ValueError(
                f"tokens: expected numbers of words, 0 to {words - 1}, got {int(tokens.max())}: is "
                "the argmax taken over all logits at once? It runs over the last axis"
            )
        sentences = torch.arange(rows).unsqueeze(1)
        return self.table[sentences, torch.arange(tokens.shape[1]).unsqueeze(0), tokens]


class Following:
    """A decoder that always prefers the number that follows, of 0 to 4."""

    def __repr__(self) -> str:
        return "a decoder that always prefers the number that follows, of 0 to 4"

    def __call__(self, tokens: Tensor) -> Tensor:
        return torch.nn.functional.one_hot((torch.as_tensor(tokens) + 1) % 5, 5).float()


following = Following()


def greedy_cases() -> list[tuple]:
    again = Step([2, 6], 9, 3, seed=39)
    again.table[0, 4, :, 3] = 20.0  # the first ends, and then ends once more
    cases = [
        (Step([3, 5, 0], 9, 3, seed=36), 3, 2, 3, 8),  # step, batch_size, bos, eos, max_length
        (Step([2, 20], 7, 1, seed=37), 2, 0, 1, 5),  # the second never ends by itself
        (Step([3], 9, 3, seed=38), 1, 2, 3, 8),
        (again, 2, 2, 3, 8),
        (following, 2, 0, 3, 10),
        (following, 2, 0, 3, 1),
    ]
    for step, *others in cases:
        if isinstance(step, Step):
            step.writes = f" that writes {greedy_decode(step, *others)}"
    return cases


def _write(step, batch_size, first, max_length, choose) -> Tensor:
    tokens = torch.full((batch_size, 1), first)
    for _ in range(max_length):
        tokens = torch.cat([tokens, choose(step(tokens)).reshape(batch_size, 1)], dim=1)
    return tokens


def _cut(row: list[int], eos: int) -> list[int]:
    return row[: row.index(eos)] if eos in row else row


def _likeliest(logits: Tensor) -> Tensor:
    return logits[:, -1].argmax(-1)


def greedy_decode(step, batch_size: int, bos: int, eos: int, max_length: int) -> list[list[int]]:
    tokens = _write(step, batch_size, bos, max_length, _likeliest)
    return [_cut(row, eos) for row in tokens[:, 1:].tolist()]


def _stop_with_the_first(step, batch_size, bos, eos, max_length):
    rows = _write(step, batch_size, bos, max_length, _likeliest)[:, 1:].tolist()
    shortest = min(len(_cut(row, eos)) for row in rows)
    return [row[:shortest] for row in rows]


def _stop_early(step, batch_size, bos, eos, max_length, over, keep_last):
    """Write until `over(what was chosen)`, with or without the words that were chosen last."""
    tokens = torch.full((batch_size, 1), bos)
    for _ in range(max_length):
        best = _likeliest(step(tokens))
        stop = over(best == eos)
        if keep_last or not stop:
            tokens = torch.cat([tokens, best.unsqueeze(1)], dim=1)
        if stop:
            break
    return [_cut(row, eos) for row in tokens[:, 1:].tolist()]


def _only_last_token(step, batch_size, bos, eos, max_length):
    tokens = torch.full((batch_size, 1), bos)
    for _ in range(max_length):
        best = _likeliest(step(tokens[:, -1:]))
        tokens = torch.cat([tokens, best.unsqueeze(1)], dim=1)
    return [_cut(row, eos) for row in tokens[:, 1:].tolist()]


def _with_eos(step, batch_size, bos, eos, max_length):
    rows = _write(step, batch_size, bos, max_length, _likeliest)[:, 1:].tolist()
    return [row[: row.index(eos) + 1] if eos in row else row for row in rows]


def _until_all(step, batch_size, bos, eos, max_length, cut):
    """Write until each sentence has an EOS, and cut the rows in some way."""
    tokens = torch.full((batch_size, 1), bos)
    while tokens.shape[1] <= max_length and not (tokens == eos).any(1).all():
        tokens = torch.cat([tokens, _likeliest(step(tokens)).unsqueeze(1)], dim=1)
    return [cut(row, eos) for row in tokens[:, 1:].tolist()]


def _while_not(step, batch_size, bos, eos, max_length, over, cut):
    """Write until `over(the words chosen last, eos)`, and cut the rows in some way."""
    tokens = torch.full((batch_size, 1), bos)
    for _ in range(max_length):
        best = _likeliest(step(tokens))
        tokens = torch.cat([tokens, best.unsqueeze(1)], dim=1)
        if over(best, eos):
            break
    return [cut(row, eos) for row in tokens[:, 1:].tolist()]


def _over_the_sentences(logits: Tensor) -> Tensor:
    return logits[:, -1].argmax(0)[: len(logits)]


def _without_each(word: Callable[[int, int], int]) -> Callable[..., list[list[int]]]:
    """Right, and then all tokens deleted that are equal to one, made of bos and eos."""
    return lambda step, n, bos, eos, most: [
        [one for one in row if one != word(bos, eos)]
        for row in greedy_decode(step, n, bos, eos, most)
    ]


GREEDY_MISTAKES = mistakes(
    ("the argmax over the sentences", lambda step, batch_size, bos, eos, max_length: [
        _cut(row, eos) for row in _write(
            step, batch_size, bos, max_length, _over_the_sentences)[:, 1:].tolist()],
     "The logits of the last position are (B, V): the words are the last axis, `argmax(-1)`. Along "
     "axis 0 the sentences are compared with each other."),
    ("every `bos` deleted, also those that the decoder has written",
     _without_each(lambda bos, eos: bos),
     "Only the first one was handed to the decoder. One that it has written is a token of the "
     "answer, as any other: leave out the place, and not the number."),
    ("does not stop at the end of a sentence",
     lambda step, batch_size, bos, eos, max_length: _write(
         step, batch_size, bos, max_length, _likeliest
     )[:, 1:].tolist(),
     "What comes after EOS is no part of the translation: cut each sentence there."),
    ("BOS kept in the answer",
     lambda step, batch_size, bos, eos, max_length: [
         [bos, *row] for row in greedy_decode(step, batch_size, bos, eos, max_length)
     ],
     "BOS is what the decoder reads first. It was not written by it."),
    ("EOS kept in the answer", _with_eos,
     "EOS says that the translation is over, and is no word of it."),
    ("starts from EOS",
     lambda step, batch_size, bos, eos, max_length: [
         _cut(row, eos)
         for row in _write(step, batch_size, eos, max_length, _likeliest)[:, 1:].tolist()
     ],
     "In training the first word read was BOS. Started from another one, the decoder is lost."),
    ("takes the first position of the logits",
     lambda step, batch_size, bos, eos, max_length: [
         _cut(row, eos)
         for row in _write(
             step, batch_size, bos, max_length, lambda logits: logits[:, 0].argmax(-1)
         )[:, 1:].tolist()
     ],
     "The next word follows from the last position, logits[:, -1]. The first position always says "
     "what comes after BOS."),
    ("stops all sentences when the first one ends", _stop_with_the_first,
     "The sentences of a batch end at different places. Go on until all have ended."),
    ("stops as soon as any sentence ends",
     lambda *task: _stop_early(*task, over=lambda ended: ended.any(), keep_last=True),
     "The sentences of a batch end at different places. Go on until all have ended."),
    ("stops when the first sentence of the batch ends",
     lambda *task: _stop_early(*task, over=lambda ended: ended[0], keep_last=True),
     "Only the first row is asked whether it has ended. Go on until all rows have."),
    ("stops when the first sentence of the batch ends, without the last words of the others",
     lambda *task: _stop_early(*task, over=lambda ended: ended[0], keep_last=False),
     "Only the first row is asked whether it has ended. Go on until all rows have."),
    ("only the last token passed to step", _only_last_token,
     "`step` has no memory of earlier calls: give it all tokens so far."),
    ("EOS deleted, what follows it kept",
     lambda step, batch_size, bos, eos, max_length: [
         [token for token in row if token != eos]
         for row in _write(step, batch_size, bos, max_length, _likeliest)[:, 1:].tolist()
     ],
     "A translation ends at EOS. What comes after it is no part of it, so cut there."),
    ("max_length ignored",
     lambda step, batch_size, bos, eos, max_length: greedy_decode(
         step, batch_size, bos, eos, LONGEST
     ),
     "A sentence that does not end by itself is cut after max_length tokens."),
    ("takes the choice of the first sentence for all",
     lambda step, batch_size, bos, eos, max_length: [
         _cut(row, eos)
         for row in _write(
             step,
             batch_size,
             bos,
             max_length,
             lambda logits: _likeliest(logits)[:1].expand(batch_size),
         )[:, 1:].tolist()
     ],
     "Each sentence of the batch chooses its own word: the argmax runs over the last axis."),
    ("takes the least likely word",
     lambda step, batch_size, bos, eos, max_length: [
         _cut(row, eos)
         for row in _write(
             step, batch_size, bos, max_length, lambda logits: logits[:, -1].argmin(-1)
         )[:, 1:].tolist()
     ],
     "The highest logit belongs to the likeliest word: argmax, not argmin."),
    ("one word too few",
     lambda step, batch_size, bos, eos, max_length: [
         row[: max_length - 1] for row in greedy_decode(step, batch_size, bos, eos, max_length)
     ],
     "A sentence that does not end by itself has max_length tokens. BOS does not count."),
    ("one word too many",
     lambda step, batch_size, bos, eos, max_length: greedy_decode(
         step, batch_size, bos, eos, max_length + 1
     ),
     "A sentence that does not end by itself is cut after max_length tokens."),
    ("not cut, where the writing has stopped with the last sentence",
     lambda *task: _until_all(*task, cut=lambda row, eos: row),
     "Sentences that end earlier go on in the tensor until the last has ended. What comes after "
     "EOS is no part of them: cut each sentence there."),
    ("only an EOS at the very end cut off",
     lambda *task: _until_all(*task, cut=lambda row, eos: row[:-1] if row[-1] == eos else row),
     "Sentences that end earlier go on in the tensor until the last has ended: cut each at its "
     "first EOS, wherever that is."),
    ("EOS deleted, what follows it kept, where the writing has stopped",
     lambda *task: _until_all(*task, cut=lambda row, eos: [x for x in row if x != eos]),
     "A translation ends at EOS. What comes after it is no part of it, so cut there."),
    ("not cut, where the writing stops once all sentences end together",
     lambda *task: _while_not(*task, over=lambda best, eos: (best == eos).all(),
                              cut=lambda row, eos: row),
     "Return what stands before the first EOS of each sentence: what comes after it is no part of "
     "the translation."),
    ("EOS deleted, what follows it kept, where the writing stops once all sentences end together",
     lambda *task: _while_not(*task, over=lambda best, eos: (best == eos).all(),
                              cut=lambda row, eos: [x for x in row if x != eos]),
     "A translation ends at EOS. What comes after it is no part of it, so cut there."),
    ("cut at the last EOS", lambda step, batch_size, bos, eos, max_length: [
        row[: len(row) - 1 - row[::-1].index(eos)] if eos in row else row
        for row in _write(step, batch_size, bos, max_length, _likeliest)[:, 1:].tolist()
     ],
     "A sentence that has ended may end once more in the tensor. It is over at its *first* EOS."),
    ("no words where the sentence has no EOS",
     lambda step, batch_size, bos, eos, max_length: [
         row if len(row) < max_length else []
         for row in greedy_decode(step, batch_size, bos, eos, max_length)
     ],
     "A sentence that reaches max_length without EOS has all of its words."),
    ("sentences without an EOS left out",
     lambda step, batch_size, bos, eos, max_length: [
         row
         for row in greedy_decode(step, batch_size, bos, eos, max_length)
         if len(row) < max_length
     ],
     "A sentence that reaches max_length without EOS has all of its words. One list for each."),
    ("BOS kept, and counted as a word",
     lambda step, batch_size, bos, eos, max_length: [
         [bos, *row][:max_length]
         for row in greedy_decode(step, batch_size, bos, eos, max_length)
     ],
     "BOS is no word: leave it out, and do not count it."),
    *(
        (name, lambda *task, choose=choose: [
            _cut(row, task[3])
            for row in _write(task[0], task[1], task[2], task[4], choose)[:, 1:].tolist()
        ], why)
        for name, choose, why in (
            ("takes the second likeliest word",
             lambda logits: logits[:, -1].topk(2).indices[:, 1], "Greedy means the likeliest."),
            ("takes the likeliest word at any position",
             lambda logits: logits.amax(1).argmax(-1),
             "Only the last position of the logits speaks of the next word."),
            ("takes the likeliest word of all positions together",
             lambda logits: logits.sum(1).argmax(-1),
             "Only the last position of the logits speaks of the next word."),
            ("takes the position before the last",
             lambda logits: logits[:, max(logits.shape[1] - 2, 0)].argmax(-1),
             "The last position of the logits speaks of the next word."),
        )
    ),
    ("rows filled up to max_length with zeros",
     lambda *task: [[*row, *[0] * (task[4] - len(row))] for row in greedy_decode(*task)],
     "A sentence that has ended is shorter: nothing is filled up."),
    ("rows filled up to max_length with EOS",
     lambda *task: [[*row, *[task[3]] * (task[4] - len(row))] for row in greedy_decode(*task)],
     "A sentence that has ended is shorter: nothing is filled up."),
    ("the words in reverse", lambda *task: [row[::-1] for row in greedy_decode(*task)],
     "The words come in the order in which they were written."),
    ("stops as soon as any sentence ends, and EOS kept",
     lambda *task: _while_not(*task, over=lambda best, eos: (best == eos).any(),
                              cut=lambda row, eos: row),
     "Go on until *each* sentence has ended. And EOS is no word of the translation."),
    ("stops when the first sentence ends, and EOS kept",
     lambda *task: _while_not(*task, over=lambda best, eos: best[0] == eos,
                              cut=lambda row, eos: row),
     "Go on until *each* sentence has ended. And EOS is no word of the translation."),
    ("BOS kept, and stops as soon as any sentence ends",
     lambda *task: [[task[2], *row] for row in _while_not(
         *task, over=lambda best, eos: (best == eos).any(), cut=_cut)],
     "BOS is no word, and the writing goes on until each sentence has ended."),
    ("BOS kept, and stops when the first sentence ends",
     lambda *task: [[task[2], *row] for row in _while_not(
         *task, over=lambda best, eos: best[0] == eos, cut=_cut)],
     "BOS is no word, and the writing goes on until each sentence has ended."),
    ("one word too few, and EOS kept",
     lambda *task: [row[: task[4] - 1] for row in _with_eos(*task)],
     "max_length words may be written, BOS and EOS not counted."),
    ("BOS kept, and EOS counted as a word", lambda *task: [
        [task[2], *row][: task[4]] for row in _with_eos(*task)],
     "Neither BOS nor EOS is a word, and neither is counted."),
    ("BOS and EOS kept", lambda step, batch_size, bos, eos, max_length: [
        [bos, *row] for row in _with_eos(step, batch_size, bos, eos, max_length)
     ],
     "Neither BOS nor EOS is a word of the translation."),
    ("the first word lost as well", lambda *task: [row[1:] for row in greedy_decode(*task)],
     "BOS is taken off once: what comes after it is the first word."),
    ("one word for each sentence", lambda *task: [row[:1] for row in greedy_decode(*task)],
     "The writing ends after one step: go on until *all* sentences have ended, or max_length words "
     "are there."),
    ("no words at all", lambda step, batch_size, *task: [[] for _ in range(batch_size)],
     "Nothing is put into the lists, or nothing is left of them: each word belongs there, up to "
     "the first EOS."),
    ("the first sentence alone", lambda *task: greedy_decode(*task)[:1],
     "Return one list for each sentence of the batch."),
    ("the first sentence alone, not in a list of its own",
     lambda *task: greedy_decode(*task)[0],
     "Return one list for each sentence of the batch."),
    ("all sentences in one flat list",
     lambda *task: [word for row in greedy_decode(*task) for word in row],
     "Return one list for each sentence of the batch, not all words in one."),
    ("starts from the number 0", lambda step, batch_size, bos, eos, max_length: [
        _cut(row, eos)
        for row in _write(step, batch_size, 0, max_length, _likeliest)[:, 1:].tolist()
     ],
     "The first word read is `bos`, whichever number that is."),
    ("starts from the number 2", lambda step, batch_size, bos, eos, max_length: [
        _cut(row, eos)
        for row in _write(step, batch_size, 2, max_length, _likeliest)[:, 1:].tolist()
     ],
     "The first word read is `bos`, whichever number that is."),
    ("ends at the number 3", lambda step, batch_size, bos, eos, max_length: greedy_decode(
        step, batch_size, bos, 3, max_length),
     "A sentence ends with `eos`, whichever number that is."),
    ("the first word cut off with BOS, before the end is looked for",
     lambda step, batch_size, bos, eos, max_length: [
         _cut(row, eos) for row in _write(
             step, batch_size, bos, max_length, _likeliest)[:, 2:].tolist()],
     "BOS is one token: the first word stands behind it."),
    ("one list for all sentences", lambda step, batch_size, bos, eos, max_length: [
        [word for column in zip_longest(*greedy_decode(step, batch_size, bos, eos, max_length))
         for word in column if word is not None]] * batch_size,
     "`[[]] * n` is one list n times, and so is a list that is never begun anew: make one for each "
     "sentence."),
    ("all rows of one length, filled with EOS",
     lambda step, batch_size, bos, eos, max_length: [
         row + [eos] * (n - len(row))
         for rows in [greedy_decode(step, batch_size, bos, eos, max_length)]
         for n in [min(max_length, 1 + max(map(len, rows)))]
         for row in rows
     ],
     "Cut each row at its EOS: the lists may have different lengths."),
)  # fmt: skip


def _likeliest_each(output, step, batch_size, bos, eos, max_length) -> bool:
    """Whether after the words before it each word is the one that `step` likes best."""
    longest = max(map(len, output), default=0)
    if len(output) != batch_size or not 0 < longest <= max_length:
        return True  # another mistake
    rows = [[bos, *row, *[bos] * (longest - len(row))] for row in output]
    best = step(torch.tensor(rows)).argmax(-1).tolist()
    return all(row == best[i][: len(row)] for i, row in enumerate(output))


GREEDY_RULES = [
    Invariant("as many lists as sentences",
              lambda output, step, batch_size, *_: len(output) == batch_size,
              "Return one list for each sentence of the batch."),
    Invariant("at most max_length words",
              lambda output, step, n, bos, eos, most: max(map(len, output), default=0) <= most,
              "A sentence that does not end by itself is cut after max_length words."),
    Invariant("no eos among the words",
              lambda output, step, n, bos, eos, most: not any(eos in row for row in output),
              "A sentence is over at its first eos, which is no word of it."),
    Invariant("each word is the likeliest after those before it", _likeliest_each,
              "After the words before it another one has a higher logit, in the last position. "
              "Greedy means the highest: nothing is drawn at random, all words so far are handed "
              "to `step`, and no word but the first `bos` is left out."),
    Invariant("a sentence goes on until it ends",
              lambda output, step, n, bos, eos, most: any(map(len, output)),
              "There are no words at all. Are the words kept that were chosen? And is it the "
              "likeliest that is chosen?"),
]  # fmt: skip


def _lists(output: list) -> list[list[int]]:
    return [[int(token) for token in row] for row in output]


# 3.7 a test that tells right attention from wrong

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]


def _weighted(
    weigh: Callable[[Tensor, Tensor, int], Tensor] = _before, axis: int = -1
) -> Attention:
    return lambda scores, values, mask: weigh(scores, ~mask.unsqueeze(1), axis) @ values


def _sentence_by_sentence(scores: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    contexts = torch.zeros(*scores.shape[:2], values.shape[2])
    for b, words in enumerate(mask):
        if words.any():
            contexts[b] = scores[b][:, words].softmax(-1) @ values[b][words]
    return contexts


SUSPECTS: dict[str, Attention] = {
    "right": _weighted(),
    "right, sentence by sentence": _sentence_by_sentence,
    "right, in double precision": lambda scores, values, mask: _weighted()(
        scores.double(), values.double(), mask
    ).float(),
    "softmax over the queries": _weighted(axis=1),
    "mask after the softmax": _weighted(_after),
    "zero for minus infinity": _weighted(
        lambda scores, hidden, axis: scores.masked_fill(hidden, 0.0).softmax(axis)
    ),
    "mask left out": _weighted(lambda scores, hidden, axis: scores.softmax(axis)),
    "mask turned round": _weighted(lambda scores, hidden, axis: _before(scores, ~hidden, axis)),
    "first sentence's mask for all": _weighted(
        lambda scores, hidden, axis: _before(scores, hidden[:1].expand_as(hidden), axis)
    ),
    "last sentence's mask for all": _weighted(
        lambda scores, hidden, axis: _before(scores, hidden[-1:].expand_as(hidden), axis)
    ),
    "queries in reverse": lambda scores, values, mask: _weighted()(scores, values, mask).flip(1),
    "hard": _weighted(
        lambda scores, hidden, axis: torch.nn.functional.one_hot(
            scores.masked_fill(hidden, -math.inf).argmax(-1), scores.shape[-1]
        ).to(scores.dtype)
    ),
    "all words alike": _weighted(
        lambda scores, hidden, axis: _before(torch.zeros_like(scores), hidden, axis)
    ),
    "first query's weights for all": _weighted(
        lambda scores, hidden, axis: _before(scores, hidden, axis)[:, :1].expand_as(scores)
    ),
    "softmax over queries and keys together": _weighted(
        lambda scores, hidden, axis: (
            scores.masked_fill(hidden, -math.inf).flatten(1).softmax(-1).view_as(scores)
        )
    ),
    "padding hidden in the sum alone": _weighted(
        lambda scores, hidden, axis: (
            scores.exp() / scores.exp().masked_fill(hidden, 0.0).sum(axis, keepdim=True)
        )
    ),
    "not divided by the sum": _weighted(
        lambda scores, hidden, axis: scores.exp().masked_fill(hidden, 0.0)
    ),
}


def is_right(attention: Attention) -> bool:
    return _test()(attention)


def _inputs(B: int = 2, T: int = 3, S: int = 4, D: int = 2, padded: bool = True) -> tuple:
    draw = torch.Generator().manual_seed(37)
    scores, values = torch.randn(B, T, S, generator=draw), torch.randn(B, S, D, generator=draw)
    mask = torch.ones(B, S, dtype=torch.bool)
    if padded:
        mask[-1, 2:] = False
    return scores, values, mask


def _test(
    inputs: Callable[[], tuple] = _inputs,
    same: Callable[[Attention, tuple], bool] = lambda f, case: torch.allclose(
        f(*case), _sentence_by_sentence(*case), atol=1e-5
    ),
) -> Callable[[Attention], bool]:
    return lambda attention: same(attention, inputs())


def _sum_to_one(f: Attention, case: tuple) -> bool:
    scores, values, mask = case
    contexts = f(scores, torch.ones_like(values), mask)
    return torch.allclose(contexts, torch.ones_like(contexts), atol=1e-4)


def _padding_is_nothing(f: Attention, case: tuple) -> bool:
    scores, values, mask = case
    changed = values.masked_fill(~mask.unsqueeze(2), 9.0)
    return torch.allclose(f(scores, values, mask), f(scores, changed, mask), atol=1e-5)


def _flat() -> tuple:
    scores, values, mask = _inputs()
    return torch.zeros_like(scores), values, mask


def _same_queries() -> tuple:
    scores, values, mask = _inputs()
    return scores[:, :1].expand_as(scores).clone(), values, mask


def _lone_words() -> tuple:
    scores, values, mask = _inputs()
    return scores, values, torch.eye(2, mask.shape[1], dtype=torch.bool)


def _no_values() -> tuple:
    scores, values, mask = _inputs()
    return scores, values.masked_fill(~mask.unsqueeze(2), 0.0), mask


def _no_weight() -> tuple:
    scores, values, mask = _inputs()
    return scores.masked_fill(~mask.unsqueeze(1), -50.0), values, mask


def _same_mask() -> tuple:
    scores, values, mask = _inputs()
    return scores, values, mask[-1:].expand_as(mask)


TEST_RULES = rules(
    [name for name in SUSPECTS if name.startswith("right")],
    {
        "softmax over the queries": "It shows in the numbers, with several queries and keys.",
        "mask after the softmax": "It shows where a key is hidden.",
        "zero for minus infinity": "It shows where a key is hidden and scores are not zero.",
        "mask left out": "It shows where a key is hidden.",
        "mask turned round": "It shows where a key is hidden.",
        "first sentence's mask for all": "It shows with two sentences that are padded differently.",
        "last sentence's mask for all": "It shows with two sentences that are padded differently.",
        "queries in reverse": "It shows with several queries, place by place, and not in a sum.",
        "hard": "It shows in the numbers, where several keys have different values.",
        "all words alike": "It shows where scores differ.",
        "first query's weights for all": "It shows with several queries whose scores differ.",
        "softmax over queries and keys together": "It shows with several queries.",
        "padding hidden in the sum alone": "It shows where a key is hidden whose value is not "
        "zero.",
        "not divided by the sum": "It shows in the numbers.",
    },
)
TEST_LACKS: dict[str, Lack] = {
    "one query and one key": each(lambda scores, *_: scores.shape[1:] == (1, 1)),
    "one key": each(lambda scores, *_: scores.shape[2] == 1),
    "one query": each(lambda scores, *_: scores.shape[1] == 1),
    "no padding": each(lambda scores, values, mask: bool(mask.all())),
    "padding without values": each(
        lambda scores, values, mask: not values.masked_fill(mask.unsqueeze(2), 0).any()
    ),
    "padding without weight": each(
        lambda scores, values, mask: bool(
            scores.softmax(-1).masked_fill(mask.unsqueeze(1), 0).max() < 1e-6
        )
    ),
    "one word each": each(lambda scores, values, mask: bool((mask.sum(1) == 1).all())),
    "equal scores": each(lambda scores, *_: bool((scores == scores[..., :1]).all())),
    "equal queries": each(lambda scores, *_: bool((scores == scores[:, :1]).all())),
    "equal values": each(lambda scores, values, mask: bool((values == values[:, :1]).all())),
    "one mask": each(lambda scores, values, mask: bool((mask == mask[:1]).all())),
}
TEST_MISTAKES = mistakes(
    ("everything passes", lambda attention: True,
     "A test must be able to fail. All of the wrong ones give contexts of the right shape, and "
     "raise nothing: compare the numbers that come out."),
    ("nothing passes", lambda attention: False,
     "The right ones must pass, in whatever style they are written. Compare with allclose, and let "
     "each sentence have a token: else there may be NaN, which equals nothing. Are the numbers "
     "right that you compare with?"),
    ("right and wrong exchanged", lambda attention: not is_right(attention),
     "True means that the function is right."),
    ("equal values, so that only the sum of the weights shows", _test(same=_sum_to_one),
     "With the same value at every key a context shows the sum of its weights, and no more: "
     "weights that sum to one can still lie on padding, or on one word alone."),
    ("queries that are all alike", _test(_same_queries),
     "With the same scores for each query nobody sees whether each has its own weights. Let them "
     "differ."),
    ("one word in each sentence", _test(_lone_words),
     "A single word gets all weight, however it is shared out. Leave several."),
    ("only whether padding counts", _test(same=_padding_is_nothing),
     "That finds padding that is looked at. It does not find a softmax along the wrong axis, or "
     "weights that do not sum to one."),
    ("sums and padding, but never the numbers",
     lambda f: _sum_to_one(f, _inputs()) and _padding_is_nothing(f, _inputs()),
     "Both must hold, and both hold for a hard look-up and for a plain mean, too. Compare with "
     "numbers that you have worked out."),
    ("no padding in the input", _test(lambda: _inputs(padded=False)),
     "Without padding all kinds of masks look alike. Hide some keys."),
    ("values of zeros at the padding", _test(_no_values),
     "What is zero adds nothing, whatever weight it gets. Let the values at the padding be numbers "
     "like the others."),
    ("padding that has no weight anyway", _test(_no_weight),
     "With scores so low the padding gets no weight, hidden or not. Give it scores like the "
     "others'."),
    ("only the sum of all numbers", _test(same=lambda f, case: torch.allclose(
        f(*case).sum(), _sentence_by_sentence(*case).sum(), atol=1e-5)),
     "Numbers in another order have the same sum. Compare them one by one."),
    ("equal scores", _test(_flat),
     "With equal scores the softmax is the same along every axis but for its length, and a plain "
     "mean is right, too. Let the scores differ."),
    ("one mask for all sentences", _test(_same_mask),
     "With one sentence, or one mask for all, nobody sees whether each sentence has its own. Take "
     "two that differ."),
    ("equal to the last bit",
     lambda f: bool(torch.equal(f(*_inputs()), _weighted()(*_inputs()))),
     "Sums that are taken in another order differ in their last bits, and are as right. Compare "
     "with allclose."),
    ("compared too loosely", _test(same=lambda f, case: torch.allclose(
        f(*case), _sentence_by_sentence(*case), atol=2.0)),
     "Your test lets errors pass that are far above rounding: contexts are averages of numbers "
     "near 1. A tolerance near 1e-5 is wide enough."),
    ("one query", _test(lambda: _inputs(T=1)),
     "With one query nobody sees whether each query has its own weights. Take several."),
    ("one key", _test(lambda: _inputs(S=1, padded=False)),
     "A single key gets all weight, however it is shared out. Take several."),
    ("one query and one key", _test(lambda: _inputs(T=1, S=1, padded=False)),
     "A single key gets all weight, however it is shared out. Take several."),
)  # fmt: skip

# 3.8 how the context moves with a score


def slopes(scores: Tensor, values: Tensor) -> Tensor:
    weights = scores.softmax(0)
    return weights[:, None] * (values - weights @ values)


def slope_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(38)
    cases = [(torch.tensor([0.0, 0.0]), torch.tensor([[1.0], [3.0]]))]
    for S, D in ((3, 2), (4, 3), (5, 1), (1, 2), (3, 3)):
        cases.append((torch.randn(S, generator=draw), torch.randn(S, D, generator=draw)))
    return cases


def _slope(of: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable[[Tensor, Tensor], Tensor]:
    """A mistake, from weights (S, 1), values (S, D) and the context (D,)."""
    return lambda scores, values: of(scores.softmax(0)[:, None], values, scores.softmax(0) @ values)


SLOPE_MISTAKES = mistakes(
    ("the context itself", lambda scores, values: scores.softmax(0) @ values,
     "That is c. Asked for is how it moves with each score, one row for each: a_j (h_j - c)."),
    ("powers of 2 as weights", lambda scores, values: slopes(math.log(2) * scores, values),
     "The softmax takes the exponential, with base e."),
    ("the states themselves, as without a softmax", _slope(lambda a, h, c: h),
     "So it would be if the scores were the weights. The weights are their softmax, and each moves "
     "all of them."),
    ("the sum of the weights in place of the context", _slope(lambda a, h, c: a * (h - 1)),
     "The context is the sum of the states, each times its weight."),
    ("the weights in every row in place of on the diagonal", _slope(lambda a, h, c: (
        (a.T - a @ a.T) @ h)),
     "A weight's own slope is a_j (1 - a_j), the others' -a_i a_j: the single a_j stands on the "
     "diagonal alone, `torch.diag(a)`."),
    ("the other weights held still", _slope(lambda a, h, c: a * h),
     "If one score rises, the weights of all others fall: they sum to one. That is the - c."),
    ("only the weight's own slope", _slope(lambda a, h, c: a * (1 - a) * h),
     "a (1 - a) is how weight j moves with score j. The others move, too: each by -a_i a_j."),
    ("the sign turned", _slope(lambda a, h, c: a * (c - h)),
     "A higher score for state j draws the context towards h_j, not away from it."),
    ("the weight left out", _slope(lambda a, h, c: h - c),
     "A state that has no weight cannot draw the context: times a_j."),
    ("a (1 - a) in front", _slope(lambda a, h, c: a * (1 - a) * (h - c)),
     "The 1 - a is in h_j - c already, since c holds a_j of h_j."),
    ("the weight squared", _slope(lambda a, h, c: a**2 * (h - c)),
     "The weight stands there once."),
    ("the plain mean in place of the context", _slope(lambda a, h, c: a * (h - h.mean(0))),
     "What is subtracted is the context, the *weighted* average."),
    ("the context without its own state",
     _slope(lambda a, h, c: a * (h - (c - a * h) / (1 - a).clamp(min=1e-6))),
     "What is subtracted is the whole context c, with its share of h_j."),
    ("the weights' slopes, not the context's",
     lambda scores, values: torch.diag(scores.softmax(0)) - torch.outer(
         scores.softmax(0), scores.softmax(0)
     ),
     "That is how the weights move with the scores, (S, S). Multiply by the values."),
    ("transposed", lambda scores, values: slopes(scores, values).T,
     "Row j belongs to score j: (S, D)."),
    ("scores in place of weights",
     lambda scores, values: scores[:, None] * (values - scores.softmax(0) @ values),
     "In front stands the weight a_j, the softmax of the scores."),
    ("the context of the scores", lambda scores, values: (
        scores.softmax(0)[:, None] * (values - scores @ values)),
     "c is the average with the weights, not with the scores."),
    ("the exponentials in place of weights",
     lambda scores, values: scores.exp()[:, None] * (values - scores.softmax(0) @ values),
     "The weight is the exponential divided by the sum of all."),
    ("summed over the scores", lambda scores, values: slopes(scores, values).sum(0),
     "One row for each score is asked for. (Their sum is always zero: why?)"),
    ("1 - a in place of a", _slope(lambda a, h, c: (1 - a) * (h - c)),
     "1 - a_j is what the other states have. A state that has no weight cannot draw the context: "
     "times a_j."),
    ("the whole context taken off", _slope(lambda a, h, c: a * h - c),
     "What the others lose is a_j times the context: the weight stands before the bracket, "
     "a_j (h_j - c)."),
    ("the weight twice before the context", _slope(lambda a, h, c: a * (h - a * c)),
     "The weight stands before the bracket, once: a_j (h_j - c)."),
    ("the context added", _slope(lambda a, h, c: a * (h + c)),
     "If one score rises, the weights of all others fall: the context is taken off."),
    ("the logarithm of the weight", _slope(lambda a, h, c: a.log() * (h - c)),
     "In front stands the weight a_j itself."),
    ("divided by the number of states", _slope(lambda a, h, c: a * (h - c) / len(a)),
     "The context is a sum of the states times their weights. Nothing divides by S."),
    ("scores in place of weights, in the context, too",
     lambda scores, values: scores[:, None] * (values - scores @ values),
     "Both in front and in the average stand the weights, the softmax of the scores."),
    ("the exponentials in place of weights, in the context, too",
     lambda scores, values: scores.exp()[:, None] * (values - scores.exp() @ values),
     "The weight is the exponential divided by the sum of all, in both places."),
    ("the other weights alone", _slope(lambda a, h, c: -a * (c - a * h)),
     "Weight j moves with its own score, too: by a_j (1 - a_j)."),
    ("the own slope 1 for a (1 - a)", _slope(lambda a, h, c: h - a * c + a**2 * h - a * h),
     "Weight j moves with its own score by a_j (1 - a_j)."),
    ("the sum of the states in place of the context", _slope(lambda a, h, c: a * (h - h.sum(0))),
     "What is subtracted is the context, the states times their weights."),
    ("the context taken off twice", _slope(lambda a, h, c: a * (h - 2 * c)),
     "a_j a_i is taken off once for every i: together a_j c."),
    ("the other states' part alone, with its sign lost",
     _slope(lambda a, h, c: a * c.expand_as(h)),
     "dc / de_j is a_j h_j, less a_j times the context."),
    ("the context's part alone", _slope(lambda a, h, c: -a * c.expand_as(h)),
     "That is what the others lose. Weight j itself gains: a_j h_j."),
    ("1 - a times the state", _slope(lambda a, h, c: (1 - a) * h),
     "dc / de_j is a_j (h_j - c)."),
    ("the largest state in place of the context", _slope(lambda a, h, c: a * (h - h.amax(0))),
     "What is subtracted is the context, the weighted average."),
    ("the slope of a sigmoid",
     lambda scores, values: (s := scores.sigmoid()[:, None]) * (1 - s) * values,
     "The weights are a softmax: if one rises, all others fall."),
    ("the slope of a sigmoid's own weights",
     lambda scores, values: scores.sigmoid()[:, None] * (values - scores.sigmoid() @ values),
     "The weights are a softmax: they sum to one."),
    ("the weight divided by the number of its others",
     _slope(lambda a, h, c: a * (h - c) / max(len(a) - 1, 1)),
     "Nothing divides: a_j (h_j - c)."),
    ("the state less the context, weighted by what is left",
     _slope(lambda a, h, c: (a - a**2) * h - a * c),
     "The 1 - a is in h_j - c already."),
    ("half of it", _slope(lambda a, h, c: a * (h - c) / 2),
     "Nothing is halved: a_j (h_j - c)."),
    ("the root of the weight", _slope(lambda a, h, c: a.sqrt() * (h - c)),
     "In front stands the weight a_j itself."),
    ("the context for every score", _slope(lambda a, h, c: c.expand_as(h)),
     "That is the context itself. How does it move when one score rises?"),
    ("the share of the other states taken off, not divided again",
     _slope(lambda a, h, c: a * (h - (c - a * h))),
     "What is subtracted is the whole context c, with its share of h_j."),
    ("the weight alone", _slope(lambda a, h, c: a.expand_as(h)),
     "How far the context moves depends on the state that is weighed: a_j (h_j - c)."),
    ("the weights along the columns",
     lambda scores, values: scores.softmax(0) * (values - scores.softmax(0) @ values),
     "A weight belongs to a row. A vector times a table multiplies its columns: the weights need "
     "one more axis behind, (S, 1)."),
    ("all states taken to weigh alike", _slope(lambda a, h, c: (h - c) / len(h)),
     "In front stands the weight a_j of the state, and not one over their number."),
)  # fmt: skip

# 3.9 a query that looks at a given place


def query_for(keys: Tensor, place: int) -> Tensor:
    wanted = torch.zeros(len(keys))
    wanted[place] = 10.0
    return torch.linalg.pinv(keys) @ wanted


def place_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(39)
    long = torch.tensor([[1.0, 0.0, 0.0], [3.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    # No column of zeros: there torch.linalg.lstsq finds the rank 0 now and then (pytorch #92537).
    near = torch.tensor([[1.0, 0.0, 0.0, 0.1], [1.0, 0.2, 0.0, -0.1], [1.0, 0.0, 0.3, 0.05]])
    cases = [(torch.tensor([[1.0, 0.0], [2.0, 1.0]]), 0)]
    cases += [(long, 0), (near, 0), (near, 2), (long, 1)]
    cases += [(torch.randn(4, 6, generator=draw), place) for place in (1, 3)]
    return [*cases, (2 * torch.eye(14), 5)]  # among many keys a lead has to be longer


def _where(answer: Callable[[Tensor, int], Tensor], keys: Tensor, place: int) -> dict[str, object]:
    """Where a query looks, as far as the task asks."""
    query = torch.as_tensor(answer(keys.clone(), place), dtype=torch.float32)
    if query.shape != keys.shape[1:]:
        expected = tuple(keys.shape[1:])
        raise ValueError(
            f"expected a query of shape {expected}, as wide as a key, got {tuple(query.shape)}: as "
            "many numbers as keys are scores, or weights"
            if query.shape == keys.shape[:1]
            else f"expected a query of shape {expected}, got {tuple(query.shape)}"
        )
    weights = (keys @ query).softmax(0)
    if weights.isnan().any():
        raise ValueError("the weights are NaN: are all entries of the query finite?")
    most = int((weights > weights.max() - 1e-4).int().argmax())  # of equal ones the first
    enough = weights.max() >= 0.9 - 1e-6  # rounding is no fault of a query that gives 0.9
    does_it = most == place and enough
    return {
        "looks most at": most,
        "with": "0.9 or more" if enough else "less than 0.9",
        "direction": None if does_it else torch.nn.functional.normalize(query, dim=0).tolist(),
    }


def _one_hot(size: int, place: int, value: float = 1.0) -> Tensor:
    return value * torch.nn.functional.one_hot(torch.tensor(place), size).float()


def _taken_off(keys: Tensor, place: int, in_turn: bool) -> Tensor:
    """The key less its part in the direction of each other key, in turn or all from the key."""
    query = keys[place].clone()
    for i, other in enumerate(keys):
        if i != place:
            of = query if in_turn else keys[place]
            query = query - (of @ other) / (other @ other) * other
    return query


def _taken_off_and_divided(keys: Tensor, place: int) -> Tensor:
    query = _taken_off(keys, place, in_turn=True)
    return 100 * query / (query @ keys[place]).abs().clamp(min=1e-6)


def _perpendicular(
    other: Callable[[Tensor, int], Tensor],
) -> Callable[[Tensor, int], Tensor]:
    """The key less its part along one vector, so long that its own score is 20."""

    def query(keys: Tensor, place: int) -> Tensor:
        key, off = keys[place], other(keys, place)
        left = key - (key @ off) / (off @ off) * off
        return 20 * left / (left @ key).clamp(min=1e-6)

    return query


PLACE_MISTAKES = mistakes(
    ("the key itself", lambda keys, place: keys[place],
     "A key is often most like itself, but not always: a longer key that points nearly the same "
     "way has the larger dot product. And one score must stand well above the others."),
    ("a large multiple of the key", lambda keys, place: 100 * keys[place],
     "It looks sharply, but where a longer key points nearly the same way, it looks there. What "
     "must the query do with the *other* keys?"),
    ("the key minus the mean of all",
     lambda keys, place: 100 * (keys[place] - keys.mean(0)),
     "Better, and not always enough: it lowers the others on average, and not each of them. Ask "
     "for the scores that you want, and solve for the query."),
    ("the key minus the sum of the others",
     lambda keys, place: 100 * (2 * keys[place] - keys.sum(0)),
     "That lowers the others on the whole, and not each of them."),
    ("scores too close to each other",
     lambda keys, place: torch.linalg.pinv(keys) @ _one_hot(len(keys), place),
     "The right direction. But with the scores 1 and 0 the one weight is only 2.7 times the other, "
     "with 2 and 0 only 7.4 times, and weights are no scores: let the wanted score stand further "
     "above the others."),
    ("away from the place", lambda keys, place: -query_for(keys, place),
     "The sign is turned: this query looks everywhere but there."),
    ("the place's number among the numbers of the query",
     lambda keys, place: _one_hot(keys.shape[1], min(place, keys.shape[1] - 1), 20.0),
     "Entry `place` of a query has nothing to do with word `place`. Scores are keys @ query."),
    ("the wanted weights", lambda keys, place: _one_hot(len(keys), place),
     "Asked for is a query, as wide as a key. Which query gives these weights?"),
    ("a query of zeros", lambda keys, place: torch.zeros(keys.shape[1]),
     "With a query of zeros all scores are equal."),
    ("counted from 1", lambda keys, place: query_for(keys, max(place - 1, 0) or len(keys) - 1),
     "Places are counted from 0."),
    ("counted from 1, so that the first place is the last key",
     lambda keys, place: query_for(keys, (place - 1) % len(keys)),
     "Places are counted from 0."),
    ("a small multiple of the key minus the sum of the others",
     lambda keys, place: 10 * (2 * keys[place] - keys.sum(0)),
     "That lowers the others on the whole, and not each of them."),
    ("a small multiple of the key minus the mean",
     lambda keys, place: 10 * (keys[place] - keys.mean(0)),
     "Better, and not always enough: it lowers the others on average, and not each of them. Ask "
     "for the scores that you want, and solve for the query."),
    ("the next key", lambda keys, place: query_for(keys, (place + 1) % len(keys)),
     "Places are counted from 0."),
    ("the key minus one other", lambda keys, place: 100 * (keys[place] - keys[0 if place else 1]),
     "That lowers one other key. All of them must be lowered: ask for the scores that you want, "
     "and solve for the query."),
    ("always the first key", lambda keys, place: query_for(keys, 0),
     "The query must depend on the place: this one always looks at the first key."),
    ("a multiple of the key, which is the wanted scores times the keys",
     lambda keys, place: keys.T @ _one_hot(len(keys), place, 10.0),
     "`keys.T @ wanted` is a multiple of the key itself. The query must *solve* keys @ query = "
     "wanted: `torch.linalg.pinv(keys) @ wanted`."),
    ("a row of the inverse in place of a column",
     lambda keys, place: 10 * torch.linalg.pinv(keys)[place],
     "The columns of the inverse belong to the places, and its rows to the entries of the keys: "
     "keys @ column `place` is 1 there and 0 elsewhere."),
    ("the wanted weights in place of wanted scores", lambda keys, place: (
        torch.linalg.pinv(keys) @ (
            _one_hot(len(keys), place, 0.9)
            + 0.1 / max(1, len(keys) - 1) * (1 - _one_hot(len(keys), place)))),
     "What you solve for are scores, and the softmax comes behind: with the scores 0.9 and 0.1 the "
     "one weight is only e^0.8 times the other. Ask for scores that stand further apart."),
    *(
        (f"the part of each other key taken off{more}", taken_off,
         "The other keys are not at right angles to each other: when the part of the second is "
         "taken off, some of the first is back. All have to be 0 at once: solve for the query.")
        for more, taken_off in (
            (", one after the other", lambda keys, place: 100 * _taken_off(keys, place, True)),
            (", one after the other, and divided by its score", _taken_off_and_divided),
            (", all of them from the key itself",
             lambda keys, place: 100 * _taken_off(keys, place, False)),
        )
    ),
    ("the logarithms of 0.9 and of 0.1, for each of the others",
     lambda keys, place: torch.linalg.pinv(keys) @ (
         math.log(0.9) * _one_hot(len(keys), place)
         + math.log(0.1) * (1 - _one_hot(len(keys), place))),
     "So each of the others has a ninth of what the one has. All of them together may have 0.1: "
     "that is 0.1 divided among them, or less."),
    ("a score that is higher by the logarithm of 9",
     lambda keys, place: torch.linalg.pinv(keys) @ _one_hot(len(keys), place, math.log(9) + 1e-3),
     "So the one has nine times as much as each of the others. It must have nine times as much as "
     "all of them together."),
    *((f"at right angles to {which} alone", _perpendicular(other),
       "That makes one of the scores 0. The product with each of the other keys has to be small: "
       "all of them at once. Ask for the scores that you want, and solve for the query.")
      for which, other in (
          ("the next key", lambda keys, place: keys[(place + 1) % len(keys)]),
          ("the key before", lambda keys, place: keys[place - 1]),
          ("the mean of the other keys", lambda keys, place: (
              (keys.sum(0) - keys[place]) / (len(keys) - 1))),
          ("the mean of all keys", lambda keys, place: keys.mean(0)),
          ("the key with the largest product with it", lambda keys, place: keys[int(
              (keys @ keys[place] - math.inf * (torch.arange(len(keys)) == place)).nan_to_num(
                  nan=0.0).argmax())]),
      )),
    ("a query of ones", lambda keys, place: torch.ones(keys.shape[1]),
     "The query must depend on the keys and on the place."),
)  # fmt: skip

PLACE_RULES = [
    Invariant("the key at the place has the highest score",
              lambda found, keys, place: found["looks most at"] == place,
              "Another key has a larger product with this query. Ask for the scores that you want, "
              "such as 10 there and 0 elsewhere, and solve keys @ query = wanted for the query."),
    Invariant("the highest score stands well above the others",
              lambda found, keys, place: found["with"] == "0.9 or more",
              "The right key comes first, and too softly: 0.9 of the weight is nine times as much "
              "as all others have together. Let its score be higher by more."),
]  # fmt: skip

# 3.10 back through one look


def back_through(q: Tensor, h: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    return _back()(q, h, g)


def _right_errors(a: Tensor, h: Tensor, c: Tensor, g: Tensor) -> Tensor:
    return a * ((h - c) @ g)


def _back(
    errors: Callable[..., Tensor] = _right_errors,
    as_value: bool = True,
    as_key: bool = True,
    give: Callable[[Tensor, Tensor], object] = lambda dq, dh: (dq, dh),
    share: Callable[[Tensor], Tensor] = lambda a: a,
    asked_by: Callable[[Tensor, Tensor], Tensor] = lambda q, g: q,
    root: float = 0.0,
) -> Callable[[Tensor, Tensor, Tensor], object]:
    """The backward pass, right by default; each argument makes one mistake."""

    def back(q: Tensor, h: Tensor, g: Tensor) -> object:
        a = (h @ q / len(q) ** root).softmax(0)
        e = errors(a, h, a @ h, g)  # the gradient with respect to the scores
        dh = torch.zeros_like(h)
        if as_value:
            dh = dh + torch.outer(share(a), g)
        if as_key:
            dh = dh + torch.outer(e, asked_by(q, g))
        return give(e @ h, dh)

    return back


def back_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(310)
    cases = [(torch.tensor([0.0]), torch.tensor([[1.0], [3.0]]), torch.tensor([1.0]))]
    for S, D in ((3, 2), (4, 3), (2, 5), (1, 3), (5, 1), (3, 3)):
        cases.append(tuple(torch.randn(*size, generator=draw) for size in ((D,), (S, D), (D,))))
    return cases


def _as_keys(slope: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable[..., object]:
    """The backward pass with another slope of the scores in the states."""

    def back(q: Tensor, h: Tensor, g: Tensor) -> object:
        a = (h @ q).softmax(0)
        e = _right_errors(a, h, a @ h, g)
        return e @ h, torch.outer(a, g) + e[:, None] * slope(q, h, g)

    return back


def _exchanged(q: Tensor, h: Tensor, g: Tensor) -> Tensor:
    a = (h @ q).softmax(0)
    return torch.outer(_right_errors(a, h, a @ h, g), g) + torch.outer(a, q)


def _as_keys_alone(q: Tensor, h: Tensor, g: Tensor) -> Tensor:
    return _back(as_value=False)(q, h, g)[1]


def _errors(q: Tensor, h: Tensor, g: Tensor) -> Tensor:
    a = (h @ q).softmax(0)
    return _right_errors(a, h, a @ h, g)


def _back_from(
    weigh: Callable[[Tensor], Tensor] = lambda scores: scores.softmax(0),
    context: Callable[[Tensor, Tensor], Tensor] = lambda a, h: a @ h,
    keys: Callable[[Tensor, Tensor], Tensor] = lambda e, q: torch.outer(e, q),
    values: Callable[[Tensor, Tensor], Tensor] = lambda a, g: torch.outer(a, g),
    give: Callable[..., object] = lambda q, dq, dh: (dq, dh),
) -> Callable[[Tensor, Tensor, Tensor], object]:
    """The right backward pass, of other weights or of another context, or with a part changed."""

    def back(q: Tensor, h: Tensor, g: Tensor) -> object:
        a = weigh(h @ q)
        e = a * ((h - context(a, h)) @ g)
        return give(q, e @ h, keys(e, q) + values(a, g))

    return back


BACK_MISTAKES = mistakes(
    ("powers of 2 as weights", _back_from(lambda s: (math.log(2) * s).softmax(0)),
     "The softmax takes the exponential, with base e."),
    ("exponentials as weights, not divided by their sum", _back_from(torch.exp),
     "Weights are shares: exponentials divided by their sum."),
    ("exponentials as weights, multiplied by their sum",
     _back_from(lambda s: s.exp() * s.exp().sum()),
     "Weights are shares: exponentials *divided* by their sum."),
    ("shares upside down", _back_from(lambda s: s.exp().sum() / s.exp()),
     "A weight is an exponential divided by the sum of all: not the sum divided by it."),
    ("scores as weights", _back_from(lambda s: s),
     "The weights are the softmax of the scores, here, too."),
    ("the sum of the states in place of the context", _back_from(context=lambda a, h: h.sum(0)),
     "The context is the sum of the states, each times its weight."),
    ("the states' part as keys without the scores' gradient",
     _back_from(keys=lambda e, q: q.expand(len(e), -1)),
     "A score is q . h_j: the query is multiplied by the gradient of its score."),
    ("the states' part as values without the context's gradient",
     _back_from(values=lambda a, g: a[:, None].expand(-1, len(g))),
     "The context is a sum of a_j h_j: each weight is multiplied by g."),
    ("the query itself added to its gradient", _back_from(give=lambda q, dq, dh: (q + dq, dh)),
     "The gradient is summed up from zeros."),
    ("zeros", _back_from(give=lambda q, dq, dh: (0 * dq, 0 * dh)),
     "Nothing is added to the zeros: each state has its part in both gradients."),
    ("the states' part as values alone", _back(as_key=False),
     "Every h_j stands in two places: it is averaged, and it is compared with the query. Its "
     "gradient is the sum of both parts."),
    ("the states' part as keys alone", _back(as_value=False),
     "Every h_j stands in two places: it is compared with the query, and it is averaged. Its "
     "gradient is the sum of both parts."),
    ("the softmax passed over", _back(lambda a, h, c, g: h @ g),
     "h_j . g is the gradient with respect to the *weight*. On its way to the score it goes "
     "through the softmax: a_j (h_j - c) . g."),
    ("the other weights held still", _back(lambda a, h, c, g: a * (h @ g)),
     "If one score rises, all other weights fall: a_j (h_j - c) . g."),
    ("only the weight's own slope", _back(lambda a, h, c, g: a * (1 - a) * (h @ g)),
     "The other weights move with score j, too: a_j (h_j - c) . g."),
    ("the weight left out", _back(lambda a, h, c, g: (h - c) @ g),
     "The gradient with respect to score j is a_j (h_j - c) . g."),
    ("the sign of the scores' gradient turned", _back(lambda a, h, c, g: a * ((c - h) @ g)),
     "A higher score draws the context towards h_j: a_j (h_j - c) . g."),
    ("the weights squared among the values", _back(share=lambda a: a**2),
     "As a value h_j enters the context a_j times: its part is a_j g."),
    ("the values' part without the weights", _back(share=torch.ones_like),
     "As a value h_j enters the context a_j times: its part is a_j g."),
    ("the values' part shared equally", _back(share=lambda a: torch.full_like(a, 1 / len(a))),
     "As a value h_j enters the context a_j times: its part is a_j g."),
    ("the states first", _back(give=lambda dq, dh: (dh, dq)),
     "The query's gradient comes first, then that of the states."),
    ("the query's gradient alone", _back(give=lambda dq, dh: dq),
     "Two are asked for: with respect to the query, and to the states."),
    ("the states' gradient transposed", _back(give=lambda dq, dh: (dq, dh.T)),
     "Row j belongs to state j: (S, D), like h."),
    ("the signs of a step downhill", _back(give=lambda dq, dh: (-dq, -dh)),
     "Asked for is the gradient itself. The optimizer takes the step against it."),
    ("the states' gradient alone", _back(give=lambda dq, dh: dh),
     "Two are asked for: with respect to the query, and to the states."),
    ("the softmax passed over, and the states as values alone",
     _back(lambda a, h, c, g: h @ g, as_key=False),
     "h_j . g is the gradient with respect to the *weight*; with respect to the score it is "
     "a_j (h_j - c) . g. And every h_j is a key as well: a part is missing."),
    ("the softmax passed over, and the states as keys alone",
     _back(lambda a, h, c, g: h @ g, as_value=False),
     "h_j . g is the gradient with respect to the *weight*; with respect to the score it is "
     "a_j (h_j - c) . g. And every h_j is a value as well: a part is missing."),
    ("the other weights held still, and the states as values alone",
     _back(lambda a, h, c, g: a * (h @ g), as_key=False),
     "If one score rises, all other weights fall: a_j (h_j - c) . g. And every h_j is a key as "
     "well: a part is missing."),
    ("g in the place of the query", _back(asked_by=lambda q, g: g),
     "As a key h_j enters score j by q . h_j, and the slope of that is q, not g."),
    ("the scores divided by the root of the width", _back(root=0.5),
     "Here the score is the dot product itself. The root belongs to the Transformer."),
    ("the plain mean in place of the context",
     _back(lambda a, h, c, g: a * ((h - h.mean(0)) @ g)),
     "What is subtracted is the context, the *weighted* average."),
    ("1 - a in front, twice", _back(lambda a, h, c, g: a * (1 - a) * ((h - c) @ g)),
     "The 1 - a is in h_j - c already, since c holds a_j of h_j: a_j (h_j - c) . g."),
    ("the states in place of the query", _as_keys(lambda q, h, g: h),
     "As a key h_j enters score j by q . h_j, and the slope of that is q."),
    ("query and g exchanged among the states",
     lambda q, h, g: (back_through(q, h, g)[0], _exchanged(q, h, g)),
     "As a value h_j passes on g, times its weight; as a key it passes on q, times the gradient of "
     "its score."),
    ("the keys' part subtracted", _as_keys(lambda q, h, g: -q),
     "The two parts of a state's gradient are added."),
    ("the query's gradient as a mean",
     _back(give=lambda dq, dh: (dq / len(dh), dh)),
     "The query enters every score, and its gradient is the sum of all parts."),
    ("the context for the query's gradient",
     lambda q, h, g: ((h @ q).softmax(0) @ h, back_through(q, h, g)[1]),
     "That is the context itself. The query receives the sum of the states, each times the "
     "gradient of its score."),
    ("the query's gradient without the context, that of the states right",
     lambda q, h, g: (
         _back(lambda a, h, c, g: a * (h @ g))(q, h, g)[0], back_through(q, h, g)[1]),
     "The gradient with respect to a score is a_j (h_j - c) . g, for the query as for the states."),
    ("zeros for the query, such as q times the sum of the scores' gradients",
     lambda q, h, g: (
         (_right_errors(a := (h @ q).softmax(0), h, a @ h, g).sum() * q),
         back_through(q, h, g)[1]),
     "The gradients e_j of the scores sum to zero. The slope of score j in the query is h_j: the "
     "query receives the sum of e_j h_j."),
    ("the scores' gradients for the query's",
     lambda q, h, g: (_errors(q, h, g), back_through(q, h, g)[1]),
     "From each score its gradient goes on to the query, times h_j: (D,), not (S,)."),
    ("g taken for ones", lambda q, h, g: back_through(q, h, torch.ones_like(g)),
     "g is the gradient with respect to the context: what comes after it multiplies."),
    ("g for the query's gradient", lambda q, h, g: (g, back_through(q, h, g)[1]),
     "The query enters the scores: it receives the sum of e_j h_j."),
    ("the query's gradient by the weights, (a . g)",
     lambda q, h, g: ((h @ q).softmax(0) @ h * g, back_through(q, h, g)[1]),
     "The query enters the scores: it receives the sum of e_j h_j."),
    ("the weights in place of the scores' gradients, among the keys",
     lambda q, h, g: (
         back_through(q, h, g)[0],
         torch.outer(a := (h @ q).softmax(0), g) + torch.outer(a, q)),
     "As a key h_j receives q times the gradient of its score, a_j (h_j - c) . g."),
    ("the weights squared in the scores' gradients",
     _back(lambda a, h, c, g: a**2 * ((h - c) @ g)),
     "The gradient of score j is a_j (h_j - c) . g, with a_j once."),
    ("the scores' gradients without g", _back(lambda a, h, c, g: a * (h - c).sum(-1)),
     "The gradient of score j is a_j (h_j - c) . g."),
    ("the states' gradients added up", _back(give=lambda dq, dh: (dq, dh.sum(0))),
     "Each state has its own: (S, D)."),
    ("both parts of the states halved", _back(give=lambda dq, dh: (dq, dh / 2)),
     "The two parts are added. Nothing is halved."),
    ("the plain mean in the place of the context, for the query alone",
     lambda q, h, g: (
         _back(lambda a, h, c, g: a * ((h - h.mean(0)) @ g))(q, h, g)[0],
         back_through(q, h, g)[1]),
     "What is subtracted is the context, the *weighted* average."),
    *combined(_back, [
        ("the states as values alone", {"as_key": False}, "Every h_j is a key, too."),
        ("the states as keys alone", {"as_value": False}, "Every h_j is a value, too."),
        ("only the weight's own slope", {"errors": lambda a, h, c, g: a * (1 - a) * (h @ g)},
         "The gradient of score j is a_j (h_j - c) . g."),
        ("the weight left out", {"errors": lambda a, h, c, g: (h - c) @ g},
         "The gradient of score j is a_j (h_j - c) . g."),
        ("the plain mean in place of the context",
         {"errors": lambda a, h, c, g: a * ((h - h.mean(0)) @ g)},
         "The gradient of score j is a_j (h_j - c) . g."),
        ("the sign of the scores' gradient turned",
         {"errors": lambda a, h, c, g: a * ((c - h) @ g)},
         "The gradient of score j is a_j (h_j - c) . g."),
        ("the other weights held still", {"errors": lambda a, h, c, g: a * (h @ g)},
         "The gradient of score j is a_j (h_j - c) . g."),
        ("the softmax passed over", {"errors": lambda a, h, c, g: h @ g},
         "The gradient of score j is a_j (h_j - c) . g."),
        ("the scores divided by the root of the width", {"root": 0.5},
         "Here the score is the dot product itself."),
        ("the values' part without the weights", {"share": torch.ones_like},
         "As a value h_j passes on a_j g."),
        ("g in the place of the query", {"asked_by": lambda q, g: g},
         "As a key h_j passes on q, times the gradient of its score."),
        ("the states first", {"give": lambda dq, dh: (dh, dq)},
         "The query's gradient comes first."),
        ("the query's gradient alone", {"give": lambda dq, dh: dq}, "Two are asked for."),
    ], but=[
        ("the states as values alone", "the states as keys alone"),
        ("the softmax passed over", "the states as values alone"),
        ("the softmax passed over", "the states as keys alone"),
        ("the other weights held still", "the states as values alone"),
        ("the states as keys alone", "the values' part without the weights"),
        ("the states as values alone", "g in the place of the query"),
        ("the states as keys alone", "the query's gradient alone"),
        ("the states as values alone", "the query's gradient alone"),
        ("the values' part without the weights", "the query's gradient alone"),
        ("g in the place of the query", "the query's gradient alone"),
    ]),
    ("g added to the query's gradient",
     lambda q, h, g: (back_through(q, h, g)[0] + g, back_through(q, h, g)[1]),
     "The query enters the scores alone: it is not averaged."),
    ("the context in place of g among the values",
     lambda q, h, g: (back_through(q, h, g)[0], _as_keys_alone(q, h, g) + torch.outer(
         a := (h @ q).softmax(0), a @ h)),
     "As a value h_j passes on what arrives at the context, g, times its weight a_j."),
    ("the gradients divided by the root of the width", lambda q, h, g: (
        back_through(q, h, g)[0] / len(q) ** 0.5,
        back_through(q, h, g)[1] - (1 - len(q) ** -0.5) * _as_keys_alone(q, h, g)),
     "The slope of q . h_j has no root: that belongs to the Transformer, where the scores are "
     "divided."),
    ("the mean added", _back(lambda a, h, c, g: a * ((h + c) @ g)),
     "What one weight gains the others lose: a_j (h_j - c) . g."),
    ("the context in the place of the query", lambda q, h, g: (
        (a := (h @ q).softmax(0)) is not None and (
            back_through(q, h, g)[0],
            torch.outer(a, g) + torch.outer(a * ((h - a @ h) @ g), a @ h))),
     "As a key h_j was multiplied with the query: that is what it passes on."),
    ("q in place of g where the states are values", lambda q, h, g: (
        back_through(q, h, g)[0],
        back_through(q, h, g)[1] + torch.outer((h @ q).softmax(0), q - g)),
     "c is the average of the h_j: what comes back to c, g, goes on to h_j, times its weight."),
    ("the scores' gradient not multiplied by the query",
     lambda q, h, g: (
         (both := back_through(q, h, g))[0],
         both[1] - torch.outer(_errors(q, h, g), q) + _errors(q, h, g)[:, None],
     ),
     "The score is q . h_j: to h_j its gradient goes times q."),
)  # fmt: skip


EXERCISES = [
    Exercise(
        number="3.1",
        title="one look by hand",
        section="Keep every state, and let the decoder look",
        reference=look_by_hand([1 / 8, 2 / 8, 5 / 8]),
        cases=[()],
        mistakes=HAND_MISTAKES,
        invariants=[],
        rtol=5e-3,
        atol=2e-3,
    ),
    Exercise(
        number="3.2",
        title="predict, then try: without the mask",
        section="Padding",
        reference=PREDICTED,
        mistakes=wrong_predictions(PREDICTED, WRONG_PICTURES),
        canonical=signs,
    ),
    Exercise(
        number="3.3",
        title="find the mistakes in additive attention",
        section="Additive",
        reference=additive_attention,
        cases=additive_cases,
        raised=[
            (
                r"\bm\w*(\.unsqueeze\((2|-1)\)|\[(:, :|\.\.\.), None\])",
                "The mask is (B, S), of keys, and the scores are (B, T, S): the empty axis of the "
                "mask stands at the queries, (B, 1, S).",
            )
        ],
        mistakes=ADDITIVE_MISTAKES,
    ),
    Exercise(
        number="3.4",
        title="the width that fits",
        section="A kernel, and attention fifty years before",
        reference=left_out,
        cases=left_out_cases,
        mistakes=LEFT_OUT_MISTAKES,
        invariants=[
            Invariant(
                "no error below zero",
                lambda output, *case: bool((torch.as_tensor(output) >= 0).all()),
                "A mean of squares is never negative.",
            )
        ],
    ),
    Exercise(
        number="3.5",
        title="masked softmax",
        section="Padding",
        reference=masked_softmax,
        cases=masked_cases,
        raised=[
            (
                r"\bm\w*(\.unsqueeze\((2|-1)\)|\[(:, :|\.\.\.), None\])",
                "The mask is (B, S), of keys, and the scores are (B, T, S): the empty axis of the "
                "mask stands at the queries, (B, 1, S).",
            )
        ],
        mistakes=MASKED_MISTAKES,
        invariants=[
            Invariant(
                "padding gets no weight",
                _hides_padding,
                "Where the mask is False there is no word, and the weight must be exactly zero.",
            )
        ],
    ),
    Exercise(
        number="3.6",
        title="greedy decoding",
        section="Writing",
        reference=greedy_decode,
        cases=greedy_cases,
        mistakes=GREEDY_MISTAKES,
        invariants=GREEDY_RULES,
        canonical=_lists,
    ),
    Exercise(
        number="3.7",
        title="a test that tells",
        section="From scores to weights, for a batch",
        reference=is_right,
        cases=[()],
        mistakes=TEST_MISTAKES,
        invariants=TEST_RULES,
        probe=verdicts_on(SUSPECTS, TEST_LACKS, spoilt=Spoilt(("sentence", "query", "entry"))),
    ),
    Exercise(
        number="3.8",
        title="derive: how the context moves with a score",
        section="Why soft?",
        reference=slopes,
        cases=slope_cases,
        mistakes=SLOPE_MISTAKES,
        invariants=Family(
            nearly(
                "Are two contexts subtracted, and divided by the step between their scores? Such a "
                "step is too large: derive the slope itself."
            ),
            [
                Invariant(
                    "the rows sum to zero",
                    lambda output, *case: bool(
                        torch.as_tensor(output).double().sum(0).abs().max() < 1e-4
                    ),
                    "If all scores rise by the same amount, no weight changes, and no context.",
                )
            ],
        ),
    ),
    Exercise(
        number="3.9",
        title="design: a query that looks there",
        section="How alike are a query and a key?",
        reference=query_for,
        cases=place_cases,
        mistakes=PLACE_MISTAKES,
        invariants=PLACE_RULES,
        probe=_where,
        raised=[
            (
                "square matri",
                "There may be fewer keys than entries, and then the keys have no inverse. "
                "`torch.linalg.pinv` and `torch.linalg.lstsq` take them all the same.",
            ),
            (
                "size mismatch.*(pinv|lstsq)|(pinv|lstsq).*size mismatch",
                "There is one score for each key, and one number of a query for each entry: the "
                "two need not be as many.",
            ),
        ],
    ),
    Exercise(
        number="3.10",
        title="derive: back through one look",
        section="Keep every state, and let the decoder look",
        reference=back_through,
        cases=back_cases,
        mistakes=BACK_MISTAKES,
    ),
]
