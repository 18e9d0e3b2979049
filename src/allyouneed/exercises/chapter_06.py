"""The exercises of chapter 6, dividing by the root: references, cases and known mistakes."""

from __future__ import annotations

import torch
from torch import Tensor

from .core import Exercise, Invariant, mistakes

ROOT_BEFORE = "Divide the scores, before they go into the softmax."
SUMS_TO_ONE = "Each query shares its attention among the keys: the softmax runs over the last axis."
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
    ("divided by d_k, without the root", look_by_hand(3**0.5),
     "The scores were divided by 4. It is the root of d_k that equation (1) divides by."),
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
    ("the values not weighted", [0.75, 0.25, 6.0],
     "The weights are right. The output is the sum of the values, each times its weight."),
    ("the values added up", [0.75, 0.25, 12.0],
     "The weights are right. The output is the sum of the values, each times its weight."),
    ("the keys share alike", [0.5, 0.5, 6.0],
     "The scores of the two keys differ, and so do their weights."),
    ("the output before the weights", [7.0, 0.75, 0.25],
     "All three numbers are right. The task asks for the two weights first."),
    ("the weights in percent", [75.0, 25.0, 7.0],
     "Weights are shares of one, not of a hundred: they sum to one."),
)  # fmt: skip

# 6.2 scaled scores


def scaled_scores(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.transpose(1, 2) / q.shape[-1] ** 0.5


def scores_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(62)
    sizes = [(2, 3, 6, 5), (3, 4, 5, 7), (1, 1, 3, 2), (2, 3, 1, 4)]  # B, T, S, K
    return [
        tuple(torch.randn(*shape, generator=draw) for shape in ((b, t, d), (b, s, d)))
        for b, t, s, d in sizes
    ]


def _raw(q: Tensor, k: Tensor) -> Tensor:
    return q @ k.transpose(-2, -1)


SCORES_MISTAKES = mistakes(
    ("no division by the root", lambda q, k: _raw(q, k),
     "These are the plain dot products. Their spread grows with the root of d_k."),
    ("divided by d_k, without the root", lambda q, k: _raw(q, k) / q.shape[-1],
     "It is the variance that grows like d_k. The spread of the scores grows like its root, and "
     "that is what to divide by. (Dividing q and k by the root each comes to the same.)"),
    ("multiplied by the root", lambda q, k: _raw(q, k) * q.shape[-1] ** 0.5,
     "The scores are too large already. They are divided by the root of d_k."),
    ("half of a d_k-th instead of a root", lambda q, k: _raw(q, k) / q.shape[-1] / 2, HALF),
    ("the root taken twice", lambda q, k: _raw(q, k) / q.shape[-1] ** 0.25,
     "One square root is enough. (If q alone was divided by the fourth root, so should k be.)"),
    ("the root of the number of queries", lambda q, k: _raw(q, k) / q.shape[1] ** 0.5,
     "d_k is the width of a query, its last axis. How many queries there are does not matter."),
    ("the root of the number of keys", lambda q, k: _raw(q, k) / k.shape[1] ** 0.5,
     "d_k is the width of a key, its last axis. How many keys there are does not matter."),
    ("always divided by 2", lambda q, k: _raw(q, k) / 2,
     "2 is the root of d_k in the example, where d_k = 4. Take d_k from the shape of q."),
    ("always divided by 8", lambda q, k: _raw(q, k) / 8, BASE_MODEL),
    ("the root of the batch size", lambda q, k: _raw(q, k) / q.shape[0] ** 0.5,
     "d_k is the last axis of q, not the first."),
    ("cosines", lambda q, k: _raw(q, k) / (q.norm(dim=-1)[:, :, None] * k.norm(dim=-1)[:, None]),
     "The dot products were divided by the lengths of their vectors. The scale of equation (1) is "
     "one number for all, so that a net can still make some vectors longer than others."),
    ("queries and keys exchanged", lambda q, k: _raw(k, q) / q.shape[-1] ** 0.5,
     "Rows are queries and columns are keys: the shape is (B, T, S), not (B, S, T)."),
    ("keys reshaped, not transposed",
     lambda q, k: q @ k.reshape(k.shape[0], k.shape[2], k.shape[1]) / q.shape[-1] ** 0.5,
     "A reshape gives the right shape and the wrong numbers: it cuts the same row of numbers anew, "
     "so that each column holds pieces of several keys. A transpose exchanges the axes."),
    ("weights instead of scores", lambda q, k: (_raw(q, k) / q.shape[-1] ** 0.5).softmax(-1),
     "The scores are asked for, as they go into the softmax."),
    ("exponentials of the scores", lambda q, k: (_raw(q, k) / q.shape[-1] ** 0.5).exp(),
     "The exponential is a part of the softmax, which comes next. Asked are the scores."),
    ("divided after the softmax", lambda q, k: _raw(q, k).softmax(-1) / q.shape[-1] ** 0.5,
     "There should be no softmax here, and the division comes before it."),
)  # fmt: skip

# 6.3 another variance: of q . k, the standard deviation after the root, the right divisor

SPREAD_MISTAKES = mistakes(
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
    ("a factor in place of the divisor", [576.0, 6.0, 1 / 24],
     "That is what to multiply q . k by. The task asks for what to divide it by."),
    ("the variance as the divisor", [576.0, 6.0, 576.0],
     "A divisor divides the standard deviation, and the variance by its square."),
)  # fmt: skip

# 6.4 attention


def scaled_attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return (_raw(q, k) / q.shape[-1] ** 0.5).softmax(-1) @ v


def attention_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(64)
    sizes = [(2, 3, 4, 5, 6, 7), (1, 2, 3, 3, 8, 5), (2, 1, 1, 3, 2, 1)]  # B, H, T, S, K, V
    return [
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
    return x / x.norm(dim=-1, keepdim=True)


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
     SUMS_TO_ONE + " Axis 1 is that of the heads."),
    ("the softmax over the batch", lambda q, k, v: _over(q, k, v, 0),
     SUMS_TO_ONE + " Axis 0 is that of the sentences."),
    ("the softmax over the whole table", _over_all,
     "All queries of a head together sum to one. Each of them should."),
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
    ("the keys averaged instead of the values", lambda q, k, v: scaled_attention(q, k, k),
     "Keys are there to be compared with the query. What is averaged are the values."),
)  # fmt: skip


def _between_the_values(output: Tensor, q: Tensor, k: Tensor, v: Tensor) -> bool:
    output = torch.as_tensor(output).to(v.dtype)
    low, high = v.amin(-2, keepdim=True), v.amax(-2, keepdim=True)
    return bool(((output > low - 1e-4) & (output < high + 1e-4)).all())


# 6.5 the Jacobian of the softmax


def softmax_jacobian(scores: Tensor) -> Tensor:
    p = scores.softmax(-1)
    return torch.diag(p) - torch.outer(p, p)


def jacobian_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(65)
    return [(torch.randn(4, generator=draw),), (torch.tensor([0.5, -1.0, 2.0]),), (torch.ones(1),)]


def _p(scores: Tensor) -> Tensor:
    return scores.softmax(-1)


def _table(p: Tensor) -> Tensor:
    return torch.diag(p) - torch.outer(p, p)


JACOBIAN_MISTAKES = mistakes(
    ("the slopes beside the diagonal left out",
     lambda scores: torch.diag(_p(scores) * (1 - _p(scores))),
     "Every weight answers to every score: they share one sum. Beside the diagonal stands minus "
     "the product of the two weights."),
    ("the diagonal alone, as a vector", lambda scores: _p(scores) * (1 - _p(scores)),
     "p (1 - p) is how a weight answers to its own score. The Jacobian has a row for each weight "
     "and a column for each score."),
    ("the weights missing on the diagonal", lambda scores: -torch.outer(_p(scores), _p(scores)),
     "On the diagonal stands p (1 - p): add the weight itself there."),
    ("plus instead of minus",
     lambda scores: torch.diag(_p(scores)) + torch.outer(_p(scores), _p(scores)),
     "What one weight gains the others lose: beside the diagonal the slopes are negative."),
    ("the sign turned", lambda scores: -_table(_p(scores)),
     "A higher score gives its own key a higher weight: the diagonal is positive."),
    ("the weights alone on the diagonal", lambda scores: torch.diag(_p(scores)),
     "diag(p) is the first half of equation (6.8). The products are to be subtracted from it."),
    ("the weight on the diagonal in place of p (1 - p)",
     lambda scores: _table(_p(scores)) + torch.diag(_p(scores) ** 2),
     "Beside the diagonal all is right. On it, the product p p must be subtracted as well."),
    ("the identity in place of diag(p)",
     lambda scores: torch.eye(len(scores)) - torch.outer(_p(scores), _p(scores)),
     "On the diagonal stands p (1 - p), which is p - p p, and not 1 - p p."),
    ("the product p (1 - p) for every pair", lambda scores: torch.outer(_p(scores), 1 - _p(scores)),
     "That is right on the diagonal. For two different keys the slope is minus p_i p_j."),
    ("plus beside the diagonal",
     lambda scores: 2 * torch.diag(_p(scores) * (1 - _p(scores))) - _table(_p(scores)),
     "The diagonal is right. What one weight gains the others lose: beside it the slopes are "
     "negative."),
    ("the product subtracted twice on the diagonal",
     lambda scores: _table(_p(scores)) - torch.diag(_p(scores) ** 2),
     "Beside the diagonal all is right. p (1 - p) has the product p p subtracted already: take "
     "diag(p), or leave the diagonal out of the table of products."),
    ("one number in place of the table of products",
     lambda scores: torch.diag(_p(scores)) - _p(scores) @ _p(scores),
     "For p of one axis, p @ p is a single number, the sum of the squares. Make the table of all "
     "products p_i p_j, of shape (S, S)."),
    ("slopes of the logarithm", lambda scores: torch.eye(len(scores)) - _p(scores),
     "These are the slopes of ln p_i. The slopes of p_i itself have p_i as a factor, which is "
     "another one in each row."),
    ("squares subtracted in place of the table of products",
     lambda scores: torch.diag(_p(scores)) - _p(scores) * _p(scores),
     "p * p has shape (S), and was subtracted from every row. Make the table of all products p_i "
     "p_j, of shape (S, S)."),
    ("scores in place of weights", lambda scores: _table(scores),
     "The p of equation (6.8) is the softmax of the scores."),
    ("exponentials that were not divided by their sum", lambda scores: _table(scores.exp()),
     "The p of equation (6.8) is the softmax: exponentials, divided by their sum."),
    ("a sigmoid for each score",
     lambda scores: torch.diag(scores.sigmoid() * (1 - scores.sigmoid())),
     "With two keys the weight is a sigmoid of the difference of the scores. Here every score was "
     "treated on its own, as if the weights shared no sum."),
    ("the softmax taken of weights", lambda scores: _table(_p(_p(scores))),
     "The softmax was taken twice: of the scores, and of the weights once more."),
    ("weights instead of slopes", lambda scores: _p(scores),
     "The weights are the beginning. Asked is how each changes when a score changes."),
)  # fmt: skip


def _rows_sum_to_zero(output: Tensor, scores: Tensor) -> bool:
    sums = torch.as_tensor(output).double().sum(-1)
    return bool(sums.abs().max() < 1e-4)


# 6.6 back through attention


def scores_gradient(scores: Tensor, v: Tensor, g: Tensor) -> Tensor:
    p, agreement = scores.softmax(-1), v @ g
    return p * (agreement - p @ agreement)


def gradient_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(66)
    sizes = [(4, 3), (3, 3), (5, 2), (1, 2)]  # S, V
    return [
        tuple(torch.randn(*shape, generator=draw) for shape in ((s,), (s, e), (e,)))
        for s, e in sizes
    ]


GRADIENT_MISTAKES = mistakes(
    ("the weighted mean not subtracted", lambda scores, v, g: _p(scores) * (v @ g),
     "This is diag(p) alone. What a key gains the others lose: subtract the weighted mean."),
    ("each key on its own, with p (1 - p)",
     lambda scores, v, g: _p(scores) * (1 - _p(scores)) * (v @ g),
     "This uses the diagonal of the Jacobian alone. Each score moves every weight."),
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
)  # fmt: skip

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
        title="scaled scores",
        section="The formula",
        reference=scaled_scores,
        cases=scores_cases,
        mistakes=SCORES_MISTAKES,
    ),
    Exercise(
        number="6.3",
        title="another variance",
        section="For any entries",
        reference=[576.0, 6.0, 24.0],
        mistakes=SPREAD_MISTAKES,
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
        title="the slopes of a softmax",
        section="Many keys",
        reference=softmax_jacobian,
        cases=jacobian_cases,
        mistakes=JACOBIAN_MISTAKES,
        invariants=[
            Invariant(
                "rows sum to zero",
                _rows_sum_to_zero,
                "Raising all scores by the same amount changes no weight, so the slopes of each "
                "weight sum to zero.",
            )
        ],
    ),
    Exercise(
        number="6.6",
        title="back through attention",
        section="Many keys",
        reference=scores_gradient,
        cases=gradient_cases,
        mistakes=GRADIENT_MISTAKES,
    ),
]
