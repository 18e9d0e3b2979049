"""The exercises of chapter 15, looking inside: references, cases, mistakes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import product

import torch
from torch import Tensor

from .core import Exercise, Invariant, mistakes

# 15.1 entropy


def entropy(weights: Tensor) -> Tensor:
    return torch.special.entr(weights).sum(-1)


def entropy_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(151)
    plain = torch.randn(2, 3, 5, generator=draw).softmax(-1)
    hidden = torch.randn(2, 4, 4, generator=draw).masked_fill(
        torch.ones(4, 4).triu(1).bool(), -math.inf
    )
    one = torch.tensor([[0.0, 1.0, 0.0], [0.25, 0.0, 0.75]])
    example = torch.tensor([[0.5, 0.5, 0.0], [0.0, 1.0, 0.0]])
    return [(example,), (plain,), (2 * hidden.softmax(-1) / 2,), (one,), (plain[:1, :1],)]


def _products(weights: Tensor) -> Tensor:
    return torch.special.entr(weights)


def _log(weights: Tensor) -> Tensor:
    return weights.clamp(min=1e-30).log()


ENTROPY_MISTAKES = mistakes(
    ("zero times the logarithm of zero", lambda weights: -(weights * weights.log()).sum(-1),
     "The logarithm of 0 is minus infinity, and 0 times it is not a number. A weight of 0 adds 0 "
     "to the entropy: leave it out."),
    ("rows that hold a zero set to 0",
     lambda weights: (-(weights * weights.log()).sum(-1)).nan_to_num(0.0),
     "One weight of 0 makes the sum of its row not a number. It is the single product that has to "
     "become 0, before the sum is taken."),
    ("in bits", lambda weights: _products(weights).sum(-1) / math.log(2),
     "The task asks for nats, with the natural logarithm. With base 2 the entropy comes out in "
     "bits."),
    ("with the logarithm to base 10", lambda weights: _products(weights).sum(-1) / math.log(10),
     "The task asks for nats, with the natural logarithm."),
    ("over the queries", lambda weights: _products(weights).sum(-2),
     "A row of weights belongs to one query. The sum runs over its keys, the last axis."),
    ("the mean in place of the sum", lambda weights: _products(weights).mean(-1),
     "The products are added up. Divided by the number of keys, an even row of S weights has no "
     "longer log S."),
    ("the minus sign missing", lambda weights: -_products(weights).sum(-1),
     "Logarithms of weights are negative. The minus sign makes the entropy positive."),
    ("averaged over the queries", lambda weights: _products(weights).sum(-1).mean(-1),
     "Each query has its entropy; the task asks for all of them, in the shape of the weights "
     "without the last axis."),
    ("one number for everything", lambda weights: _products(weights).sum(),
     "Each query has its entropy: sum over the last axis only."),
    ("divided by the logarithm of the number of keys",
     lambda weights: _products(weights).sum(-1) / math.log(weights.shape[-1]),
     "That is the share of the greatest possible entropy. The task asks for the entropy itself."),
    ("not weighted", lambda weights: torch.where(weights > 0, -_log(weights), 0.0).sum(-1),
     "Each logarithm is multiplied by its weight before the sum is taken."),
    ("the logarithm of 1 + weight", lambda weights: -(weights * weights.log1p()).sum(-1),
     "Adding 1 avoids the logarithm of zero and changes every other one. Only the zeros need "
     "care."),
    ("a visible number added under the logarithm",
     lambda weights: -(weights * (weights + 1e-2).log()).sum(-1),
     "A small number under the logarithm avoids minus infinity, but 0.01 is large enough to be "
     "seen in the result. Treat the zeros by themselves, or add far less."),
    ("only the largest weight", lambda weights: -weights.amax(-1).log(),
     "All keys count: the entropy is the mean of the logarithms, each taken with its weight."),
    ("the exponential of the entropy", lambda weights: _products(weights).sum(-1).exp(),
     "That is to how many keys the row spreads, a telling number. The task asks for the entropy "
     "itself."),
    ("a softmax over the weights", lambda weights: _products(weights.softmax(-1)).sum(-1),
     "The weights have been through their softmax already. A second one evens them out."),
    ("one minus the sum of squares", lambda weights: 1 - weights.pow(2).sum(-1),
     "That is another measure of spread, Gini's. The entropy takes logarithms."),
)  # fmt: skip


# 15.2 a head's score for the previous token


def previous(weights: Tensor, mask: Tensor) -> Tensor:
    found = weights.diagonal(-1, dim1=2, dim2=3).transpose(1, 2)  # (B, T - 1, H)
    return found[mask[:, 1:]].mean(0)


def previous_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(152)
    example = torch.tensor([[1.0, 0.0, 0.0], [0.7, 0.2, 0.1], [0.4, 0.5, 0.1]])
    cases = [(example.view(1, 1, 3, 3), torch.ones(1, 3, dtype=torch.bool))]
    for heads, lengths in ((2, (5, 3)), (3, (2, 6, 4)), (1, (4,))):
        T = max(lengths)
        mask = torch.arange(T) < torch.tensor(lengths)[:, None]
        scores = 2 * torch.randn(len(lengths), heads, T, T, generator=draw)
        scores = scores.masked_fill(~mask[:, None, None], -math.inf)
        cases.append((scores.softmax(-1), mask))
    return cases


def _shifted(weights: Tensor, mask: Tensor, offset: int, rows: Tensor) -> Tensor:
    """The mean over some rows, (B, T - |offset|), of the weights along a diagonal."""
    return weights.diagonal(offset, dim1=2, dim2=3).transpose(1, 2)[rows].mean(0)


def _found(weights: Tensor, mask: Tensor) -> Tensor:
    """The weights on the previous token, (B, H, T - 1), 0 where the query is padding."""
    return weights.diagonal(-1, dim1=2, dim2=3) * mask[:, None, 1:]


def _wrapped(weights: Tensor) -> Tensor:
    """The weights on the key t - 1, (B, H, T), with the last key before the first query."""
    t = torch.arange(weights.shape[-1])
    return weights[:, :, t, t - 1]


def _sentence_means(weights: Tensor, mask: Tensor) -> Tensor:
    return _found(weights, mask).sum(-1) / mask[:, None, 1:].sum(-1)


PREVIOUS_MISTAKES = mistakes(
    ("the next token", lambda weights, mask: _shifted(weights, mask, 1, mask[:, 1:]),
     "Rows are queries, columns keys: query t finds the token before it in column t - 1, under the "
     "diagonal."),
    ("the next token, with padding as a query",
     lambda weights, mask: weights.diagonal(1, dim1=2, dim2=3).mean((0, 2)),
     "Two mistakes: the token before stands in column t - 1, and the rows of padding count for "
     "nothing."),
    ("the token itself", lambda weights, mask: _shifted(weights, mask, 0, mask),
     "The diagonal holds the weight of each token on itself. The token before stands one column to "
     "the left of it."),
    ("the token two places before", lambda weights, mask: _shifted(weights, mask, -2, mask[:, 2:]),
     "The token before query t is key t - 1."),
    ("padding counted as a query",
     lambda weights, mask: weights.diagonal(-1, dim1=2, dim2=3).mean((0, 2)),
     "A row whose query is padding belongs to no token. Leave it out of the mean."),
    ("the first padding counted as a query",
     lambda weights, mask: _shifted(weights, mask, -1, mask[:, :-1]),
     "Off by one: the query is the later of the two tokens, so the mask of the positions 1 to T - "
     "1 decides, not that of 0 to T - 2."),
    ("the padding taken as 0, and divided by all places",
     lambda weights, mask: _found(weights, mask).mean((0, 2)),
     "The sum leaves the padding out; the number it is divided by must leave it out, too."),
    ("the first token counted as a query",
     lambda weights, mask: _found(weights, mask).sum((0, 2)) / mask.sum(),
     "The first token has none before it. It does not belong into the number that the sum is "
     "divided by."),
    ("divided by every place of the batch",
     lambda weights, mask: _found(weights, mask).sum((0, 2)) / mask.numel(),
     "The sum is divided by the number of queries that it holds: tokens that have a token before "
     "them."),
    ("a mean of the sentences' means", lambda weights, mask: _sentence_means(weights, mask).mean(0),
     "Every query counts the same, so a long sentence counts more than a short one. Add up first, "
     "divide once."),
    ("one score for each sentence", _sentence_means,
     "The score is one number for each head, over the queries of all sentences."),
    ("the sum in place of the mean", lambda weights, mask: _found(weights, mask).sum((0, 2)),
     "Divide by the number of queries, so that the score lies between 0 and 1."),
    ("divided by the number of heads as well",
     lambda weights, mask: previous(weights, mask) / weights.shape[1],
     "The score is the mean over one head's queries. A mask spread over the heads counts each "
     "query once for every head."),
    ("the padding counted in place of the tokens",
     lambda weights, mask: (
         (weights.diagonal(-1, dim1=2, dim2=3) * ~mask[:, None, 1:]).sum((0, 2))
         / (~mask[:, 1:]).sum()
     ),
     "True in the mask means a token, and those are the queries that count."),
    ("the last token taken as the one before the first",
     lambda weights, mask: (_wrapped(weights) * mask[:, None]).sum((0, 2)) / mask.sum(),
     "In Python the index -1 is the last entry. The first token has none before it: begin with the "
     "second."),
    ("one score for all heads", lambda weights, mask: previous(weights, mask).mean(),
     "Each head has its own score: the axis of the heads stays."),
    ("the largest weight in place of the mean",
     lambda weights, mask: _found(weights, mask).amax((0, 2)),
     "One good row makes no head. The score is the mean over all queries."),
    ("how often the token before gets the largest weight",
     lambda weights, mask: (
         (weights.argmax(-1)[..., 1:] == torch.arange(mask.shape[1] - 1))
         .transpose(1, 2)[mask[:, 1:]]
         .double()
         .mean(0)
     ),
     "That is a score as well, but the task asks for the mean weight."),
)  # fmt: skip


# 15.3 a matrix W^O that leaves out one head


def deaf(weight: Tensor, n_heads: int, head: int) -> Tensor:
    d_v = weight.shape[1] // n_heads
    result = weight.clone()
    result[:, head * d_v : (head + 1) * d_v] = 0.0
    return result


def deaf_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(153)
    sizes = ((6, 6, 2, 1), (8, 12, 4, 2), (6, 12, 3, 0), (9, 9, 3, 2), (4, 8, 4, 1), (1, 2, 2, 1))
    example = (torch.tensor([[1.0, 2.0, 3.0, 4.0]]), 2, 1)
    return [example, *((torch.randn(d, hv, generator=draw), h, i) for d, hv, h, i in sizes)]


def _zeroed(weight: Tensor, rows: slice, columns: slice) -> Tensor:
    result = weight.clone()
    result[rows, columns] = 0.0
    return result


def _block(weight: Tensor, n_heads: int, head: int, axis: int = 1) -> slice:
    size = weight.shape[axis] // n_heads
    return slice(head * size, (head + 1) * size)


ALL = slice(None)
DEAF_MISTAKES = mistakes(
    ("rows in place of columns",
     lambda weight, n_heads, head: _zeroed(weight, _block(weight, n_heads, head, 0), ALL),
     "`nn.Linear` multiplies by the transposed weight: each column belongs to one *input*, and the "
     "inputs of W^O are the heads. Without rows, parts of the output are missing, for all heads."),
    ("rows in place of columns, as many as d_v",
     lambda weight, n_heads, head: _zeroed(weight, _block(weight, n_heads, head), ALL),
     "`nn.Linear` multiplies by the transposed weight: each column belongs to one *input*, and the "
     "inputs of W^O are the heads. The width d_v is right; the axis is not."),
    ("rows and columns",
     lambda weight, n_heads, head: _zeroed(
         _zeroed(weight, ALL, _block(weight, n_heads, head)),
         _block(weight, n_heads, head, 0),
         ALL,
     ),
     "The columns alone take the head out. The rows belong to the output, which all heads share."),
    ("only one block",
     lambda weight, n_heads, head: _zeroed(
         weight, _block(weight, n_heads, head, 0), _block(weight, n_heads, head)
     ),
     "A head's vector goes into all entries of the output: its columns are to be zeroed from top "
     "to bottom."),
    ("every n_heads-th column",
     lambda weight, n_heads, head: _zeroed(weight, ALL, slice(head, None, n_heads)),
     "The heads stand side by side: the d_v columns of one head are neighbours, as `split_heads` "
     "and `merge_heads` lay them out."),
    ("heads counted from 1",
     lambda weight, n_heads, head: deaf(weight, n_heads, (head - 1) % n_heads),
     "Heads are counted from 0: head 0 has the first d_v columns."),
    ("heads counted from 1, and none before the first",
     lambda weight, n_heads, head: deaf(weight, n_heads, head - 1) if head else weight,
     "Heads are counted from 0: the slice runs from head d_v to (head + 1) d_v."),
    ("heads counted from the right",
     lambda weight, n_heads, head: deaf(weight, n_heads, n_heads - 1 - head),
     "Head 0 has the first d_v columns, those on the left."),
    ("all other heads taken out",
     lambda weight, n_heads, head: weight - deaf(weight, n_heads, head),
     "That keeps the one head and silences the others. It should be the other way round."),
    ("the other heads made louder",
     lambda weight, n_heads, head: deaf(weight, n_heads, head) * n_heads / (n_heads - 1),
     "Dropout scales up what is left, and an ablation does not: the other heads are to do what "
     "they do in the whole model."),
    ("only one column", lambda weight, n_heads, head: _zeroed(weight, ALL, slice(head, head + 1)),
     "A head has d_v = (number of columns) / n_heads columns, not one."),
    ("n_heads columns in place of d_v",
     lambda weight, n_heads, head: _zeroed(
         weight, ALL, slice(head * n_heads, (head + 1) * n_heads)
     ),
     "A head's width is d_v = (number of columns) / n_heads."),
    ("the width taken from the rows",
     lambda weight, n_heads, head: _zeroed(weight, ALL, _block(weight, n_heads, head, 0)),
     "The number of columns is h d_v, and that of the rows d_model. They need not be equal."),
    ("the head's last column left in",
     lambda weight, n_heads, head: _zeroed(
         weight,
         ALL,
         slice(
             head * (weight.shape[1] // n_heads), (head + 1) * (weight.shape[1] // n_heads) - 1
         ),
     ),
     "A slice leaves out its end already: no 1 is to be taken off."),
    ("every column from this head on",
     lambda weight, n_heads, head: _zeroed(
         weight, ALL, slice(head * (weight.shape[1] // n_heads), None)
     ),
     "The slice has an end: (head + 1) d_v."),
    ("every column up to this head",
     lambda weight, n_heads, head: _zeroed(
         weight, ALL, slice(0, (head + 1) * (weight.shape[1] // n_heads))
     ),
     "The slice has a start: head d_v. What lies before it are the heads before."),
    ("the columns removed",
     lambda weight, n_heads, head: torch.cat(
         [
             weight[:, : head * (weight.shape[1] // n_heads)],
             weight[:, (head + 1) * (weight.shape[1] // n_heads) :],
         ],
         dim=1,
     ),
     "The matrix is to keep its shape, so that it fits where it came from. Set the columns to "
     "zero."),
    ("the matrix transposed", lambda weight, n_heads, head: deaf(weight, n_heads, head).T,
     "The right columns are zero, but the matrix has been turned: it is to keep its shape."),
    ("minus infinity in place of 0",
     lambda weight, n_heads, head: weight.masked_fill(
         _zeroed(torch.ones_like(weight), ALL, _block(weight, n_heads, head)) == 0, -math.inf
     ),
     "That is for scores before a softmax. A weight is multiplied with what comes in: with 0 the "
     "head is not heard."),
    ("only the piece that was taken out",
     lambda weight, n_heads, head: 0 * weight[:, _block(weight, n_heads, head)],
     "The zeros stand where the head was. Return the whole matrix, in its shape."),
    ("nothing changed", lambda weight, n_heads, head: weight.clone(),
     "The matrix comes back as it was. Are the zeros written into a copy that is not returned?"),
)  # fmt: skip


# 15.4 an alignment from cross-attention


def aligned(weights: Tensor) -> list[int]:
    return weights[:-1, :-1].argmax(-1).tolist()


def aligned_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(154)
    cases = [(torch.tensor([[0.2, 0.1, 0.7], [0.1, 0.6, 0.3], [0.3, 0.1, 0.6]]),)]
    for T, S, likes_eos in ((5, 4, 1.0), (4, 6, 0.0), (6, 6, 1.5), (3, 3, 2.0)):
        scores = 2 * torch.randn(T, S, generator=draw)
        scores[:, -1] += likes_eos
        cases.append((scores.softmax(-1),))
    return cases


ALIGNED_MISTAKES = mistakes(
    ("the row that reads the token, not the one that predicts it",
     lambda weights: weights[1:, :-1].argmax(-1).tolist(),
     "Off by one: row t reads token t and predicts token t + 1. Token y_1 is written by the row of "
     "`<bos>`, the first."),
    ("the wrong row, and the end of the source allowed",
     lambda weights: weights[1:].argmax(-1).tolist(),
     "Two mistakes: y_1 is written by the row of `<bos>`, and the last column, `<eos>`, is to be "
     "left out."),
    ("the end of the source allowed", lambda weights: weights[:-1].argmax(-1).tolist(),
     "The last column is that of `<eos>`, which is not a word. Leave it out before the largest "
     "weight is looked for."),
    ("one entry too many", lambda weights: weights[:, :-1].argmax(-1).tolist(),
     "The last row reads y_n and predicts `<eos>`, which is not asked for."),
    ("one entry too many, and the end of the source allowed",
     lambda weights: weights.argmax(-1).tolist(),
     "The last row predicts `<eos>`, and the last column is that of `<eos>`. Both are to be left "
     "out."),
    ("the first source token left out", lambda weights: weights[:-1, 1:].argmax(-1).tolist(),
     "The source has no `<bos>`. What is to be left out is its `<eos>`, the last column."),
    ("the first source token left out, and the indices put right",
     lambda weights: (weights[:-1, 1:].argmax(-1) + 1).tolist(),
     "The source has no `<bos>`. What is to be left out is its `<eos>`, the last column."),
    ("the wrong row, and the first source token left out",
     lambda weights: weights[1:, 1:].argmax(-1).tolist(),
     "Two mistakes: y_1 is written by the row of `<bos>`, the first. And the source has no "
     "`<bos>`: its `<eos>`, the last column, is to be left out."),
    ("for each source token the target token", lambda weights: weights[:-1, :-1].argmax(0).tolist(),
     "That looks down the columns. Each *row* is a distribution over the source: look for the "
     "largest weight in each row."),
    ("the first row left out at both ends", lambda weights: weights[1:-1, :-1].argmax(-1).tolist(),
     "The row of `<bos>` is the one that writes y_1. Only the last row is to be left out."),
    ("counted from 1", lambda weights: (weights[:-1, :-1].argmax(-1) + 1).tolist(),
     "The first source token has the index 0."),
    ("the smallest weight", lambda weights: weights[:-1, :-1].argmin(-1).tolist(),
     "A token is aligned to where its weight is largest."),
    ("the weights in place of their places", lambda weights: weights[:-1, :-1].amax(-1).tolist(),
     "Asked for is where the largest weight stands, `argmax`, not how large it is."),
    ("tokens that look most at the end left out",
     lambda weights: [s for s in weights[:-1].argmax(-1).tolist() if s < weights.shape[1] - 1],
     "Every token gets a place. Leave out the column of `<eos>` first, then look for the largest "
     "weight of what is left."),
    ("pairs in place of places",
     lambda weights: list(enumerate(weights[:-1, :-1].argmax(-1).tolist())),
     "Asked for is one whole number for each token: the place in the list says for which."),
    ("the order turned round", lambda weights: weights[:-1, :-1].argmax(-1).flip(0).tolist(),
     "The first entry belongs to y_1, the last to y_n."),
)  # fmt: skip


# 15.5 attention rollout


def rollout(maps: list[Tensor]) -> Tensor:
    I = torch.eye(len(maps[0]), dtype=maps[0].dtype)  # noqa: E741
    mixed = I
    for weights in maps:
        mixed = (weights + I) / 2 @ mixed
    return mixed


def rollout_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(155)
    return [
        ([torch.tensor([[0.0, 1.0], [1.0, 0.0]])],),
        *_random_rollouts(draw),
    ]


def _random_rollouts(draw: torch.Generator) -> list[tuple]:
    return [
        ([(2 * torch.randn(T, T, generator=draw)).softmax(-1) for _ in range(L)],)
        for T, L in ((3, 2), (4, 3), (2, 4), (5, 3), (1, 2))
    ]


def _eye(maps: list[Tensor]) -> Tensor:
    return torch.eye(len(maps[0]))


def _product(maps: list[Tensor]) -> Tensor:
    """The last map times the one before it, and so on down to the first."""
    result = _eye(maps)
    for weights in maps:
        result = weights @ result
    return result


def _half(maps: list[Tensor]) -> list[Tensor]:
    return [(weights + _eye(maps)) / 2 for weights in maps]


def _onto_the_words(maps: list[Tensor]) -> Tensor:
    result = _eye(maps)
    for weights in maps:
        result = (weights @ result + _eye(maps)) / 2
    return result


ROLLOUT_MISTAKES = mistakes(
    ("the residual connection forgotten", _product,
     "Each layer adds to what was there: half of the new vector is the old one. Add the identity "
     "to every map and halve it."),
    ("the layers multiplied in the other order", lambda maps: _product(_half(maps)[::-1]),
     "The first layer works on the words, so its matrix stands on the right: what a higher layer "
     "does is multiplied from the left."),
    ("no residual, and the other order", lambda maps: _product(maps[::-1]),
     "Two mistakes: the identity is missing in each map, and the first layer's matrix belongs on "
     "the right."),
    ("not halved", lambda maps: _product([weights + _eye(maps) for weights in maps]),
     "With the identity added a row sums to 2. Halve it, so that it is an average again."),
    ("halved once, at the end",
     lambda maps: _product([weights + _eye(maps) for weights in maps]) / 2,
     "Every layer's rows sum to 2 once the identity is added. Each of them is to be halved."),
    ("only the map halved", lambda maps: _product([weights / 2 + _eye(maps) for weights in maps]),
     "Old and new count one half each: the sum of both is halved, or a row sums to 1.5."),
    ("what stood below all layers in place of what stood before the layer", _onto_the_words,
     "The residual connection of a layer adds what came into *this* layer, and that has been mixed "
     "already: it is the layer's whole matrix that is multiplied with what is below."),
    ("only the identity halved",
     lambda maps: _product([weights + _eye(maps) / 2 for weights in maps]),
     "The sum is halved, the map and the identity, so that rows sum to 1."),
    ("1 added to every entry", lambda maps: _product([(weights + 1) / 2 for weights in maps]),
     "I is the identity: 1 on the diagonal and 0 beside it. `weights + 1` adds 1 everywhere."),
    ("the first map without the residual", lambda maps: _product(_half(maps)[1:]) @ maps[0],
     "The first layer has a residual connection, too. Start with the identity, or with half of the "
     "first map and the identity."),
    ("the identity added to the product", lambda maps: (_product(maps) + _eye(maps)) / 2,
     "Every layer has a residual connection of its own: add the identity to each map before they "
     "are multiplied."),
    ("the mean of the maps", lambda maps: torch.stack(_half(maps)).mean(0),
     "Layers work on each other's output. That is a product of matrices, not a mean."),
    ("the mean of the maps without the residual", lambda maps: torch.stack(list(maps)).mean(0),
     "Layers work on each other's output, a product of matrices, and each has a residual "
     "connection."),
    ("the sum of the maps", lambda maps: torch.stack(_half(maps)).sum(0),
     "Layers work on each other's output. That is a product of matrices, not a sum."),
    ("multiplied entry by entry", lambda maps: torch.stack(_half(maps)).prod(0),
     "`*` multiplies entry by entry. What one layer does to another's output is `@`."),
    ("multiplied entry by entry, from the identity on",
     lambda maps: torch.stack([_eye(maps), *_half(maps)]).prod(0),
     "`*` multiplies entry by entry. What one layer does to another's output is `@`."),
    ("only the last layer", lambda maps: _half(maps)[-1],
     "The last layer averages what the layers below have mixed already. Multiply all of them."),
    ("only the first layer", lambda maps: _half(maps)[0],
     "Above the first layer the words are mixed further. Multiply all maps."),
    ("the first layer left out", lambda maps: _product(_half(maps)[1:]),
     "Start with the first map, or with the identity, and multiply by every map."),
    ("the last layer left out", lambda maps: _product(_half(maps)[:-1]),
     "Every map counts, the last one included."),
    ("rows and columns in each other's place", lambda maps: _product(_half(maps)).T,
     "Rows stand for the vectors at the top, columns for the words at the bottom, as in each map."),
    ("the maps transposed before they are multiplied",
     lambda maps: _product([weights.T for weights in _half(maps)]),
     "Rows are queries: each row of a map says of which vectors the new one is made. Multiply the "
     "maps as they are."),
)  # fmt: skip


# 15.6 rank correlation


def ranks(x: Tensor) -> Tensor:
    return x.argsort().argsort().double()


def _pearson(a: Tensor, b: Tensor) -> Tensor:
    a, b = a.double() - a.double().mean(), b.double() - b.double().mean()
    return (a * b).sum() / (a.norm() * b.norm())


def rank_correlation(a: Tensor, b: Tensor) -> Tensor:
    return _pearson(ranks(a), ranks(b))


def rank_cases() -> list[tuple]:
    first = (torch.tensor([0.1, 0.5, 0.2, 0.15, 0.05]), torch.tensor([0.3, 9.0, -1.0, 2.0, 0.0]))
    draw = torch.Generator().manual_seed(156)
    cases = [(torch.tensor([0.1, 0.7, 0.2]), torch.tensor([5.0, 6.0, 1.0])), first]
    for n in (4, 6, 7, 9):
        a = torch.randn(n, generator=draw)
        b = a + torch.randn(n, generator=draw)
        cases.append((a.softmax(0), (2 * b).exp()))
    cases.append((torch.tensor([0.4, 0.3, 0.2, 0.1]), torch.tensor([1.0, 3.0, 2.0, 9.0])))
    return cases


def _distance(a: Tensor, b: Tensor) -> tuple[Tensor, int]:
    return (ranks(a) - ranks(b)).pow(2).sum(), len(a)


def _kendall(a: Tensor, b: Tensor) -> Tensor:
    i, j = torch.triu_indices(len(a), len(a), 1)
    return ((a[i] - a[j]).sign() * (b[i] - b[j]).sign()).double().mean()


RANK_MISTAKES = mistakes(
    ("the values in place of their ranks", _pearson,
     "That is the ordinary correlation, in which one large value decides. Put the rank in the "
     "place of each value first."),
    ("argsort once", lambda a, b: _pearson(a.argsort(), b.argsort()),
     "`argsort` tells which value comes first, not in which place a value comes. The rank is the "
     "argsort of the argsort."),
    ("one of the two ranked from the other end", lambda a, b: -rank_correlation(a, b),
     "Both are to be ranked in the same direction. As it is, equal orders give -1."),
    ("only the first ranked", lambda a, b: _pearson(ranks(a), b),
     "Both lists are to be replaced by their ranks."),
    ("only the second ranked", lambda a, b: _pearson(a, ranks(b)),
     "Both lists are to be replaced by their ranks."),
    ("the cosine of the values",
     lambda a, b: torch.nn.functional.cosine_similarity(a.double(), b.double(), dim=0),
     "Put the rank in the place of each value, and take the mean off both lists of ranks."),
    ("the sum of the squared differences of the ranks", lambda a, b: _distance(a, b)[0],
     "That is 0 for equal orders. The short form is 1 - 6 (sum of squared differences of ranks) / "
     "(n (n^2 - 1))."),
    ("the mean not taken off",
     lambda a, b: (ranks(a) * ranks(b)).sum() / (ranks(a).norm() * ranks(b).norm()),
     "A correlation is the cosine of the *differences from the mean*. Ranks that are all positive "
     "always look alike without it."),
    ("the mean not taken off, with ranks from 1",
     lambda a, b: (
         ((ranks(a) + 1) * (ranks(b) + 1)).sum()
         / ((ranks(a) + 1).norm() * (ranks(b) + 1).norm())
     ),
     "A correlation is the cosine of the *differences from the mean*. Ranks that are all positive "
     "always look alike without it."),
    ("the sum of products, not divided",
     lambda a, b: ((ranks(a) - ranks(a).mean()) * (ranks(b) - ranks(b).mean())).sum(),
     "Divided by the lengths of both lists of differences it lies between -1 and 1."),
    ("sorted values in place of ranks", lambda a, b: _pearson(a.sort().values, b.sort().values),
     "Sorting forgets which entry stood where. Each entry keeps its place, and its rank takes the "
     "place of its value."),
    ("not divided by the spread",
     lambda a, b: ((ranks(a) - ranks(a).mean()) * (ranks(b) - ranks(b).mean())).mean(),
     "That is the covariance of the ranks. Divided by both standard deviations it lies between -1 "
     "and 1."),
    ("divided by n once and by n - 1 once",
     lambda a, b: (
         ((ranks(a) - ranks(a).mean()) * (ranks(b) - ranks(b).mean())).mean()
         / (ranks(a).std() * ranks(b).std())
     ),
     "`mean` divides by n and `std` by n - 1: equal orders then give less than 1. Use the same "
     "number in both places."),
    ("the factor 6 forgotten", lambda a, b: 1 - _distance(a, b)[0] / (len(a) * (len(a) ** 2 - 1)),
     "The short form is 1 - 6 (sum of squared differences of ranks) / (n (n^2 - 1))."),
    ("not taken off 1", lambda a, b: 6 * _distance(a, b)[0] / (len(a) * (len(a) ** 2 - 1)),
     "That fraction is 0 for equal orders. The correlation is 1 minus it."),
    ("n forgotten under the fraction", lambda a, b: 1 - 6 * _distance(a, b)[0] / (len(a) ** 2 - 1),
     "The short form divides by n (n^2 - 1)."),
    ("n squared in place of n squared minus 1",
     lambda a, b: 1 - 6 * _distance(a, b)[0] / len(a) ** 3,
     "The short form divides by n (n^2 - 1). Only with it do opposite orders give -1."),
    ("differences of ranks not squared",
     lambda a, b: 1 - 6 * (ranks(a) - ranks(b)).abs().sum() / (len(a) * (len(a) ** 2 - 1)),
     "The short form takes the squares of the differences of the ranks."),
    ("pairs in the same order, minus pairs in the other", _kendall,
     "That is Kendall's rank correlation, another one. Asked for is Spearman's, the correlation of "
     "the ranks."),
    ("the square of the correlation", lambda a, b: rank_correlation(a, b) ** 2,
     "The square hides the sign: opposite orders would look like equal ones."),
    ("without its sign", lambda a, b: rank_correlation(a, b).abs(),
     "Opposite orders have the correlation -1. The sign says so."),
)  # fmt: skip


# 15.7 what heads are worth

GUESSES = (
    (False, "loss and BLEU taken for one judge",
     "1: the loss asks for the probability of the true words, BLEU for what is written. The "
     "dearest head in nats is one of the decoder's first layer, in BLEU one of the encoder's "
     "second."),
    (True, "every head held to be useful",
     "2: nothing in training makes each head help in greedy BLEU. Without a few of them it is "
     "higher by some tenths, which is within the luck of 300 sentences."),
    (True, "heads of one kind held to be worth no more than any",
     "3: heads of one kind stand in for each other, and nobody stands in for the whole kind. "
     "Twelve at random leave something of each."),
    (False, "the loss taken for BLEU, step by step",
     "4: the order was chosen by the loss on other sentences. BLEU goes down with it, and up again "
     "at some steps."),
    (False, "one kind held to be all that counts",
     "5: the twelve that are left belong to all three kinds: no kind can be done without."),
)  # fmt: skip
true_of_heads = [truth for truth, _, _ in GUESSES]


def _misjudged() -> Iterator[tuple[str, list[bool], str]]:
    """Every wrong answer, with what is wrong in it."""
    for wrong in product((False, True), repeat=len(GUESSES)):
        if any(wrong):
            told = [guess for guess, is_wrong in zip(GUESSES, wrong, strict=True) if is_wrong]
            answer = [
                truth != is_wrong for truth, is_wrong in zip(true_of_heads, wrong, strict=True)
            ]
            name = ", and ".join(name for _, name, _ in told)
            yield name, answer, " ".join(why for _, _, why in told)


# 15.8 a rollout without some heads, three mistakes


def mixed_without(maps: list[Tensor], removed: list[tuple[int, int]]) -> Tensor:
    return _mixed()(maps, removed)


def mixed_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(158)

    def layers(n: int, h: int, t: int) -> list[Tensor]:
        return [(1.5 * torch.randn(h, t, t, generator=draw)).softmax(-1) for _ in range(n)]

    turn = torch.tensor([[[0.0, 1.0], [1.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]])
    return [
        ([turn], [(0, 1)]),
        (layers(3, 2, 4), [(0, 1), (2, 0)]),
        (layers(2, 3, 3), [(1, 0), (1, 2), (0, 1)]),
        (layers(2, 2, 3), [(0, 0), (0, 1)]),  # a whole layer
        (layers(3, 3, 5), []),
        (layers(2, 1, 1), [(1, 0)]),
    ]


def _mixed(
    share: str = "all",
    residual: bool = True,
    above: bool = True,
    gone: str = "removed",
    halved: bool = True,
    total: bool = False,
) -> Callable[..., Tensor]:
    """The rollout, right by default; each argument makes one mistake."""

    def answer(maps: list[Tensor], removed: list[tuple[int, int]]) -> Tensor:
        T = maps[0].shape[-1]
        removed = {tuple(int(x) for x in one) for one in removed}
        mixed = torch.eye(T)
        for i, layer in enumerate(maps):
            heads = range(len(layer))
            out = {
                "removed": [(i, h) in removed for h in heads],
                "turned": [(h, i) in removed for h in heads],
                "kept": [(i, h) not in removed for h in heads],
                "from 1": [(i + 1, h + 1) in removed for h in heads],
                "any layer": [any(h == head for _, head in removed) for h in heads],
                "none": [False for _ in heads],
            }[gone]
            left = [layer[h] for h in heads if not out[h]]
            weights = sum(left, torch.zeros(T, T))
            if share == "left":
                weights = weights / len(left)
            elif not total:
                weights = weights / len(layer)
            if residual:
                weights = (weights + torch.eye(T)) / (2 if halved else 1)
            mixed = weights @ mixed if above else mixed @ weights
        return mixed

    return answer


def _guarded(answer: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The same, where a layer without heads counts as zeros, not as an error."""

    def wrong(maps: list[Tensor], removed: list[tuple[int, int]]) -> Tensor:
        try:
            return answer(maps, removed)
        except ZeroDivisionError:
            return torch.full_like(maps[0][0], math.nan)

    return wrong


MIXED_MISTAKES = mistakes(
    ("nothing mended", _guarded(_mixed("left", residual=False, above=False)),
     "Look at what the weights are divided by, at what a layer leaves in the stream, and at which "
     "side a higher layer stands."),
    ("the mean over what is left, and no residual", _guarded(_mixed("left", residual=False)),
     "The order is right. A head that is taken out adds nothing, and the others do not grow; and "
     "the stream keeps what was there before the layer."),
    ("the mean over what is left, and the other order", _guarded(_mixed("left", above=False)),
     "The residual is there. A head that is taken out adds nothing, and the others do not grow; a "
     "higher layer works on what the lower ones made, from the left."),
    ("no residual, and the other order", _mixed(residual=False, above=False),
     "The heads are right. Half of each layer is what stood in the stream before, and a higher "
     "layer is multiplied from the left."),
    ("the mean over the heads that are left", _guarded(_mixed("left")),
     "Two are mended. That renormalises: it lets the others bring more than they did. Taken out, a "
     "head adds zero, and the sum is divided by all heads as before."),
    ("no residual", _mixed(residual=False),
     "Two are mended. What was in the stream before the layer is still there: (A + I) / 2."),
    ("the layers in the other order", _mixed(above=False),
     "Two are mended. Row s says what is at place s in the end: a higher layer stands on the "
     "left."),
    ("not divided by the number of heads", _mixed(total=True),
     "The map of a layer is the mean over its heads: the sum divided by how many it has."),
    ("not halved", _mixed(halved=False),
     "The stream and what the layer brings count one half each."),
    ("halved once, at the end",
     lambda maps, removed: _mixed(halved=False)(maps, removed) / 2,
     "Each layer's factor is halved, not their product once."),
    ("a removed head that looks at itself",
     lambda maps, removed: mixed_without(
         [
             torch.stack([
                 torch.eye(layer.shape[-1]) if (i, h) in removed else layer[h]
                 for h in range(len(layer))
             ])
             for i, layer in enumerate(maps)
         ],
         [],
     ),
     "A head that is taken out brings nothing, not what stands at its own place."),
    ("layer and head exchanged", _mixed(gone="turned"),
     "A pair is (layer, head), both counted from 0."),
    ("counted from 1", _mixed(gone="from 1"), "Layers and heads are counted from 0."),
    ("the other heads taken out", _mixed(gone="kept"), "The pairs name the heads that go."),
    ("taken out of every layer", _mixed(gone="any layer"),
     "A pair names one head of one layer."),
    ("nothing taken out", _mixed(gone="none"), "The heads in `removed` bring nothing."),
)  # fmt: skip


# 15.9 between which bounds an entropy lies


def entropy_range(largest: float, keys: int) -> tuple[float, float]:
    return _least(largest), _most(largest, keys)


RANGE_CASES = [(0.6, 3), (0.5, 2), (0.3, 5), (0.45, 7), (0.24, 8), (1.0, 4), (0.25, 4), (0.7, 2)]


def _part(weight: float) -> float:
    return -weight * math.log(weight) if weight > 1e-12 else 0.0


def _least(largest: float) -> float:
    whole = math.floor(1 / largest + 1e-9)
    return whole * _part(largest) + _part(1 - whole * largest)


def _most(largest: float, keys: int) -> float:
    others = keys - 1
    rest = (1 - largest) / others if others else 0.0
    return _part(largest) + others * _part(rest)


RANGE_MISTAKES = mistakes(
    ("the least entropy without a rest",
     lambda a, n: (math.floor(1 / a + 1e-9) * _part(a), _most(a, n)),
     "As many keys as fit have the largest weight, and what is left over lies on one more."),
    ("the rest on one other key", lambda a, n: (_part(a) + _part(1 - a), _most(a, n)),
     "That is least only if the rest is not more than the largest weight. Else it would be the "
     "largest itself."),
    ("always 0 at least", lambda a, n: (0.0, _most(a, n)),
     "0 needs all weight on one key, and none has more than `largest`."),
    ("the logarithm of the largest", lambda a, n: (-math.log(a), _most(a, n)),
     "That is a bound, and it is reached only where 1 / largest is whole."),
    ("log n at most", lambda a, n: (_least(a), math.log(n)),
     "That needs all weights equal. One of them is `largest`; spread the others evenly."),
    ("the rest spread over all keys",
     lambda a, n: (_least(a), _part(a) + n * _part((1 - a) / n)),
     "n - 1 keys are left for the rest."),
    ("the entropy of the rest, not weighted",
     lambda a, n: (_least(a), _part(a) + (math.log(n - 1) if n > 1 else 0.0)),
     "The other n - 1 keys share 1 - largest, and count by that much."),
    ("the choice between the largest and the rest forgotten",
     lambda a, n: (_least(a), (1 - a) * math.log(n - 1) if n > 1 else 0.0),
     "The entropy of a choice in two steps is that of the first, plus that of the second times how "
     "often it is made."),
    ("the bounds of any row", lambda a, n: (0.0, math.log(n)),
     "That is where the entropy of any row of n weights lies. Here the largest is known."),
    ("the two exchanged", lambda a, n: (_most(a, n), _least(a)), "The least comes first."),
    ("in bits", lambda a, n: tuple(x / math.log(2) for x in entropy_range(a, n)),
     "The chapter's entropy is in nats, with the natural logarithm."),
    ("the sign turned", lambda a, n: tuple(-x for x in entropy_range(a, n)),
     "Entropy is never negative."),
    ("numbers of words", lambda a, n: tuple(math.exp(x) for x in entropy_range(a, n)),
     "Asked for are the entropies themselves, not e to their power."),
    ("the same twice", lambda a, n: (_most(a, n),) * 2,
     "The rest can lie on few keys or on many: two bounds."),
)  # fmt: skip


# 15.10 three opinions on one row


def three_opinions(width: int) -> tuple[list, list]:
    return _opinions()(width)


def _asked(answer: Callable, width: int) -> dict[str, bool]:
    """Which key has most weight, which brings the longest vector, which is missed most."""
    weights, vectors = answer(width)
    a = torch.tensor([float(x) for x in weights], dtype=torch.float64)
    f = torch.tensor([[float(x) for x in row] for row in vectors], dtype=torch.float64)
    if f.shape != (len(a), width):
        raise ValueError(f"vectors: expected ({len(a)}, {width}), got {tuple(f.shape)}")
    proper = bool((a > 0).all() and (a < 1).all() and abs(a.sum() - 1) < 1e-5)
    output = a @ f
    views = [a, (a[:, None] * f).norm(dim=1), a / (1 - a) * (output - f).norm(dim=1)]
    first = [int(view.argmax()) for view in views]
    gaps = [float(view.topk(2).values.diff().abs()) if len(a) > 1 else 0.0 for view in views]
    return {
        "weights above 0 that sum to one": proper,
        "each view has one key on top": min(gaps) > 1e-3,
        "weight and length disagree": first[0] != first[1],
        "weight and effect disagree": first[0] != first[2],
        "length and effect disagree": first[1] != first[2],
    }


def _opinions(numbers: str = "right", factor: float = 1.0) -> Callable[..., tuple[list, list]]:
    """In one dimension; the others are filled with zeros."""
    weights, along = {
        "right": ([0.45, 0.35, 0.2], [0.7, 1.0, -1.7]),
        "equal vectors": ([0.5, 0.3, 0.2], [1.0, 1.0, 1.0]),
        "one short": ([0.6, 0.3, 0.1], [0.1, 1.0, 0.5]),
        "one far": ([0.5, 0.3, 0.2], [0.2, 0.3, -3.0]),
        "no effect": ([0.5, 0.3, 0.2], [0.9, 1.0, -0.6]),
    }[numbers]

    def answer(width: int) -> tuple[list, list]:
        return [factor * w for w in weights], [[x] + [0.0] * (width - 1) for x in along]

    return answer


OPINIONS_MISTAKES = mistakes(
    ("all vectors equal", _opinions("equal vectors"),
     "Then the longest contribution is that of the largest weight, and whichever key is "
     "hidden, the "
     "output stays where it is."),
    ("one short vector", _opinions("one short"),
     "Weight and length disagree now. But the key with most weight is also the one that is missed "
     "most, for the output lies far from its short vector."),
    ("one vector far away", _opinions("one far"),
     "The third key is missed most, and it also brings the longest vector. What is hidden "
     "matters by "
     "its distance from the *output*, not by its length."),
    ("the longest is the heaviest", _opinions("no effect"),
     "The third view has a key of its own now. But the key with most weight also brings the "
     "longest "
     "vector: make its vector shorter."),
    ("not a row of weights", _opinions(factor=2.0), "Weights are above 0 and sum to one."),
)  # fmt: skip


EXERCISES = [
    Exercise(
        number="15.1",
        title="entropy",
        section="How many words does a head attend to?",
        reference=entropy,
        cases=entropy_cases,
        mistakes=ENTROPY_MISTAKES,
        invariants=[
            Invariant(
                "entropy lies between 0 and the logarithm of the number of keys",
                lambda output, weights: bool(
                    (torch.as_tensor(output) > -1e-4).all()
                    and (torch.as_tensor(output) < math.log(weights.shape[-1]) + 1e-4).all()
                ),
                "It is 0 for all weight on one key, and log S for even weights on S keys.",
            )
        ],
    ),
    Exercise(
        number="15.2",
        title="a score for the previous token",
        section="Scores in place of pictures",
        reference=previous,
        cases=previous_cases,
        mistakes=PREVIOUS_MISTAKES,
        invariants=[
            Invariant(
                "a mean of weights lies between 0 and 1",
                lambda output, *_: bool(
                    ((torch.as_tensor(output) >= 0) & (torch.as_tensor(output) <= 1)).all()
                ),
                "Each weight lies between 0 and 1, and so does the mean of some of them.",
            )
        ],
    ),
    Exercise(
        number="15.3",
        title="take out a head",
        section="Taking heads out",
        reference=deaf,
        cases=deaf_cases,
        mistakes=DEAF_MISTAKES,
    ),
    Exercise(
        number="15.4",
        title="an alignment from a map",
        section="Which row writes a word?",
        reference=aligned,
        cases=aligned_cases,
        mistakes=ALIGNED_MISTAKES,
    ),
    Exercise(
        number="15.5",
        title="rollout",
        section="Mixed before it is looked at",
        reference=rollout,
        cases=rollout_cases,
        mistakes=ROLLOUT_MISTAKES,
        invariants=[
            Invariant(
                "rows sum to one",
                lambda output, maps: bool((torch.as_tensor(output).sum(-1) - 1).abs().max() < 1e-3),
                "Each layer's matrix has rows that sum to one, and so has any product of such "
                "matrices.",
            )
        ],
    ),
    Exercise(
        number="15.6",
        title="rank correlation",
        section="Taking words out",
        reference=rank_correlation,
        cases=rank_cases,
        mistakes=RANK_MISTAKES,
        invariants=[
            Invariant(
                "a correlation lies between -1 and 1",
                lambda output, *_: bool(abs(float(output)) <= 1 + 1e-4),
                "It is a cosine: of the ranks, less their mean.",
            )
        ],
    ),
    Exercise(
        number="15.7",
        title="predict, then try: what heads are worth",
        section="Taking heads out",
        reference=true_of_heads,
        mistakes=mistakes(*_misjudged()),
    ),
    Exercise(
        number="15.8",
        title="find the mistakes in a rollout",
        section="Mixed before it is looked at",
        reference=mixed_without,
        cases=mixed_cases,
        mistakes=MIXED_MISTAKES,
    ),
    Exercise(
        number="15.9",
        title="how wide, if so much lies on one",
        section="How many words does a head attend to?",
        reference=entropy_range,
        cases=RANGE_CASES,
        mistakes=RANGE_MISTAKES,
        atol=1e-5,
    ),
    Exercise(
        number="15.10",
        title="three opinions on one row",
        section="A weight and what it weighs",
        reference=three_opinions,
        cases=[(1,), (2,), (5,)],
        mistakes=OPINIONS_MISTAKES,
        probe=_asked,
    ),
]
