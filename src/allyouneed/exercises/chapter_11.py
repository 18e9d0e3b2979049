"""The exercises of chapter 11, the whole machine: references, cases, mistakes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from allyouneed.masks import causal_mask, padding_mask
from allyouneed.tokens import BOS, EOS, PAD, pad
from allyouneed.transformer import Transformer, TransformerConfig

from .compare import kind, show
from .core import Case, Exercise, Family, Invariant, mistakes
from .pairs import combined

# 11.1 narrow heads: count the parameters

SIZES = [
    (10, 4, 8, 2, 1, 3, 1, 2), (37, 6, 10, 3, 2, 5, 3, 1), (11, 8, 7, 4, 3, 1, 2, 4),
    (41_100, 512, 2048, 8, 16, 64, 6, 6),
]  # fmt: skip


def count(
    vocab_size: int,
    d_model: int,
    d_ff: int,
    n_heads: int,
    d_k: int,
    d_v: int,
    n_encoder: int,
    n_decoder: int,
    *,
    attention: Callable[[int, int, int, int], int] = lambda d, h, k, v: 2 * d * h * (k + v),
    embeddings: int = 1,
    attentions: tuple[int, int] = (1, 2),
    norms: tuple[int, int] = (2, 3),
    norm_width: int = 2,
    feed_forwards: tuple[int, int] = (1, 1),
    feed_forward_bias: Callable[[int, int], int] = lambda d, f: d + f,
    more: Callable[[int, int], int] = lambda v, d: 0,
) -> int:
    """Equation (11.4) for heads of other widths, with something to get wrong in every term."""
    net = 2 * d_model * d_ff + feed_forward_bias(d_model, d_ff)
    total = embeddings * vocab_size * d_model + more(vocab_size, d_model)
    for i, layers in enumerate((n_encoder, n_decoder)):
        looks = attentions[i] * attention(d_model, n_heads, d_k, d_v)
        rest = feed_forwards[i] * net + norms[i] * norm_width * d_model
        total += layers * (looks + rest)
    return total


def parameters(
    vocab_size: int,
    d_model: int,
    d_ff: int,
    n_heads: int,
    d_k: int,
    d_v: int,
    n_encoder: int,
    n_decoder: int,
) -> int:
    return count(vocab_size, d_model, d_ff, n_heads, d_k, d_v, n_encoder, n_decoder)


def _counted(**wrong) -> Callable:
    return lambda *sizes: count(*sizes, **wrong)


def _layers(change: Callable) -> Callable:
    """The right count of other numbers of layers."""
    return lambda *sizes: count(*sizes[:6], *change(*sizes[6:]))


COUNT_SLIPS = [
    ("square matrices", {"attention": lambda d, h, k, v: 4 * d * d},
     "W^Q and W^K are (D, h d_k), W^V is (D, h d_v) and W^O (h d_v, D)."),
    ("one head only", {"attention": lambda d, h, k, v: 2 * d * (k + v)},
     "Each head has matrices of its own."),
    ("W^O, or W^V, left out", {"attention": lambda d, h, k, v: d * h * (2 * k + v)},
     "W^O mixes the heads."),
    ("W^O square", {"attention": lambda d, h, k, v: d * h * (2 * k + v) + d * d},
     "W^O is (h d_v, D)."),
    ("W^O for one head", {"attention": lambda d, h, k, v: d * h * (2 * k + v) + d * v},
     "W^O is (h d_v, D): it takes all heads side by side."),
    ("d_model / n_heads in place of d_k",
     {"attention": lambda d, h, k, v: 2 * d * h * (d // h + v)}, "d_k is given."),
    ("biases in the attention",
     {"attention": lambda d, h, k, v: 2 * d * h * (k + v) + 2 * h * k + h * v + d},
     "The projections have no biases."),
    ("the shared matrix counted twice", {"embeddings": 2}, "One matrix is shared; it counts once."),
    ("three embedding matrices", {"embeddings": 3}, "One matrix is shared; it counts once."),
    ("the embedding left out", {"embeddings": 0}, "The embedding matrix is learned, too."),
    ("cross-attention forgotten", {"attentions": (1, 1)}, "A decoder layer has two attentions."),
    ("no biases in the feed-forward net", {"feed_forward_bias": lambda d, f: 0},
     "Equation (2) has the biases b_1 and b_2."),
    ("b_2 forgotten", {"feed_forward_bias": lambda d, f: f}, "b_2 has d_model numbers."),
    ("b_1 forgotten", {"feed_forward_bias": lambda d, f: d}, "b_1 has d_ff numbers."),
    ("two norms in the decoder layer", {"norms": (2, 2)}, "A decoder layer has three LayerNorms."),
    ("the norms forgotten", {"norms": (0, 0)}, "Each sub-layer has a LayerNorm."),
    ("one vector in each norm", {"norm_width": 1}, "A LayerNorm learns gamma and beta."),
    ("three vectors in each norm", {"norm_width": 3}, "A LayerNorm learns gamma and beta."),
    ("final norms", {"more": lambda v, d: 4 * d}, "Post-norm has no norm behind the last layer."),
    ("a bias in the logits", {"more": lambda v, d: v}, "Nothing is added to the logits."),
]  # fmt: skip
COUNT_BUT = [
    ("two norms in the decoder layer", "three vectors in each norm"),  # as three norms everywhere
    ("the norms forgotten", "three vectors in each norm"),
    ("the norms forgotten", "one vector in each norm"),
    ("cross-attention forgotten", "two norms in the decoder layer"),  # all layers encoder layers
    ("two norms in the decoder layer", "one vector in each norm"),  # one norm in each layer
    ("b_2 forgotten", "three vectors in each norm"),  # as a bias behind each W^O
]

COUNT_MISTAKES = mistakes(
    ("square matrices", _counted(attention=lambda d, h, k, v: 4 * d * d),
     "This is equation (11.4), where all heads together are as wide as the model. Here W^Q and W^K "
     "are (D, h d_k), W^V is (D, h d_v) and W^O (h d_v, D)."),
    ("all four matrices of width d_k", _counted(attention=lambda d, h, k, v: 4 * d * h * k),
     "The values have d_v entries, and W^O takes h d_v numbers."),
    ("all four matrices of width d_v", _counted(attention=lambda d, h, k, v: 4 * d * h * v),
     "Queries and keys have d_k entries."),
    ("one head only", _counted(attention=lambda d, h, k, v: 2 * d * (k + v)),
     "Each of the n_heads heads has matrices of its own."),
    ("W^O square", _counted(attention=lambda d, h, k, v: d * h * (2 * k + v) + d * d),
     "W^O takes the heads side by side, h d_v numbers, back to d_model: (h d_v, D)."),
    ("W^O, or W^V, of width d_k", _counted(attention=lambda d, h, k, v: d * h * (3 * k + v)),
     "Values have d_v entries, and W^O takes the heads' results, which are means of values: h d_v "
     "numbers."),
    ("W^V and W^O as wide as the model", _counted(
        attention=lambda d, h, k, v: 2 * d * h * k + 2 * d * d),
     "The values of a head have d_v entries: W^V is (D, h d_v) and W^O (h d_v, D)."),
    ("d_model / n_heads in place of d_k",
     _counted(attention=lambda d, h, k, v: 2 * d * h * (d // h + v)),
     "That is the chapter's d_k. Here it is given, as `d_k`, and may be any number."),
    ("narrow queries, and keys as wide as values",
     _counted(attention=lambda d, h, k, v: d * h * (k + 3 * v)),
     "A key is multiplied with a query, so it has d_k entries, too."),
    ("W^O for one head", _counted(attention=lambda d, h, k, v: d * h * (2 * k + v) + d * v),
     "W^O takes all heads side by side, h d_v numbers, back to d_model: (h d_v, D)."),
    ("W^O, or W^V, left out", _counted(attention=lambda d, h, k, v: d * h * (2 * k + v)),
     "Attention has four matrices: for queries, keys, values, and the one that mixes the heads, "
     "W^O."),
    ("a W^O for each head, of the model's width",
     _counted(attention=lambda d, h, k, v: d * h * (2 * k + v) + h * d * d),
     "There is one W^O, which takes all heads side by side: (h d_v, D)."),
    ("biases in the attention",
     _counted(attention=lambda d, h, k, v: 2 * d * h * (k + v) + 2 * h * k + h * v + d),
     "The four projections of attention have no biases here, as in the paper's formulas. PyTorch's "
     "have."),
    ("encoder and decoder in each other's place", _layers(lambda e, d: (d, e)),
     "The first number of layers is the encoder's, the second the decoder's. A decoder layer is "
     "the larger one."),
    ("as many decoder layers as encoder layers", _layers(lambda e, d: (e, e)),
     "The decoder has n_decoder layers."),
    ("as many encoder layers as decoder layers", _layers(lambda e, d: (d, d)),
     "The encoder has n_encoder layers."),
    ("one layer in each stack", _layers(lambda e, d: (1, 1)),
     "There are n_encoder encoder layers and n_decoder decoder layers, each with its own weights."),
    ("the encoder only", _layers(lambda e, d: (e, 0)),
     "The decoder has n_decoder layers as well, and they are larger than those of the encoder."),
    ("the decoder only", _layers(lambda e, d: (0, d)),
     "The encoder has n_encoder layers as well."),
    ("all layers encoder layers", _layers(lambda e, d: (e + d, 0)),
     "A decoder layer has a second attention and a third LayerNorm."),
    ("all layers decoder layers", _layers(lambda e, d: (0, e + d)),
     "An encoder layer has one attention and two LayerNorms."),
    ("the shared matrix counted twice", _counted(embeddings=2),
     "Source, target and logits share one matrix (section 3.4 of the paper): it counts once. And "
     "the positions are computed, not learned."),
    ("three embedding matrices", _counted(embeddings=3),
     "Source, target and logits share one matrix. It counts once."),
    ("the embedding left out", _counted(embeddings=0),
     "The embedding matrix has vocab_size rows of d_model numbers, all of them learned."),
    ("cross-attention forgotten", _counted(attentions=(1, 1)),
     "A decoder layer has two attentions: one to its own words and one to the memory."),
    ("two attentions in the encoder layer, too", _counted(attentions=(2, 2)),
     "Only the decoder looks at the memory. An encoder layer has one attention."),
    ("no biases in the feed-forward net", _counted(feed_forward_bias=lambda d, f: 0),
     "Equation (2) has two: b_1 with d_ff numbers and b_2 with d_model."),
    ("b_2 forgotten", _counted(feed_forward_bias=lambda d, f: f),
     "Equation (2) has two biases: b_2 has d_model numbers."),
    ("both biases d_model wide", _counted(feed_forward_bias=lambda d, f: 2 * d),
     "b_1 is added to the hidden layer and has d_ff numbers. Only b_2 has d_model."),
    ("both biases d_ff wide", _counted(feed_forward_bias=lambda d, f: 2 * f),
     "b_2 is added to what goes back to the stream and has d_model numbers. Only b_1 has d_ff."),
    ("no feed-forward net in the decoder", _counted(feed_forwards=(1, 0)),
     "An encoder layer has a feed-forward net, and a decoder layer has one, too."),
    ("two norms in the decoder layer", _counted(norms=(2, 2)),
     "A decoder layer has three LayerNorms, one for each sub-layer."),
    ("three norms in the encoder layer", _counted(norms=(3, 3)),
     "An encoder layer has two sub-layers, and one LayerNorm for each. Three are the decoder's."),
    ("the norms forgotten", _counted(norms=(0, 0)),
     "Each LayerNorm learns a gamma and a beta, d_model numbers each."),
    ("one vector in each norm", _counted(norm_width=1),
     "A LayerNorm learns two vectors, gamma and beta."),
    ("three vectors in each norm", _counted(norm_width=3),
     "A LayerNorm learns two vectors, gamma and beta."),
    ("queries and keys of one head only",
     _counted(attention=lambda d, h, k, v: 2 * d * (k + h * v)),
     "Each of the n_heads heads has matrices of its own."),
    ("values of one head only, and W^O for one",
     _counted(attention=lambda d, h, k, v: 2 * d * (h * k + v)),
     "Each of the n_heads heads has values of its own, and W^O takes them side by side."),
    ("final norms", _counted(more=lambda v, d: 4 * d),
     "In post-norm the last layer has just normalised, and no norm comes after it. "
     "(`nn.Transformer` has one all the same.)"),
    ("biases in the projections to queries, keys and values",
     _counted(attention=lambda d, h, k, v: 2 * d * h * (k + v) + 2 * h * k + h * v),
     "The projections of attention have no biases here, as in the paper's formulas."),
    ("b_1 forgotten", _counted(feed_forward_bias=lambda d, f: d),
     "Equation (2) has two biases: b_1 has d_ff numbers."),
    ("three matrices in the feed-forward net",
     lambda *sizes: count(*sizes) + (sizes[6] + sizes[7]) * sizes[1] * sizes[2],
     "The paper's net has two matrices, to d_ff and back. Three are those of a gated net."),
    ("two feed-forward nets in the decoder layer", _layers(lambda a, b: (a + 2 * b, 0)),
     "A decoder layer has a second attention, and no second net: it is no two encoder layers."),
    ("W^O of cross-attention left out",
     lambda *sizes: count(*sizes) - sizes[7] * sizes[1] * sizes[3] * sizes[5],
     "Cross-attention has the four matrices of an attention."),
    ("a bias behind W^O, or b_2 forgotten and three vectors in each norm",
     _counted(attention=lambda d, h, k, v: 2 * d * h * (k + v) + d),
     "Both make one number. The projections of attention have no biases here; the feed-forward net "
     "has two, b_1 and b_2; a LayerNorm learns gamma and beta."),
    ("four norms in the decoder layer", _counted(norms=(2, 4)),
     "A decoder layer has three sub-layers, and one LayerNorm for each."),
    ("a bias in the logits", _counted(more=lambda v, d: v),
     "The logits are the states times the shared matrix, and nothing is added."),
    ("one norm in each layer", _counted(norms=(1, 1)),
     "Each sub-layer has a norm: two in an encoder layer, three in a decoder layer."),
    ("one matrix in the feed-forward net",
     lambda *sizes: count(*sizes) - (sizes[6] + sizes[7]) * sizes[1] * sizes[2],
     "The feed-forward net has two matrices: to d_ff and back."),
    ("one matrix for queries and keys", _counted(attention=lambda d, h, k, v: d * h * (k + 2 * v)),
     "Queries and keys have matrices of their own."),
    *combined(_counted, COUNT_SLIPS, but=COUNT_BUT),
    ("keys and values of the memory for one layer of the decoder",
     lambda v, d, f, h, k, w, n, m: (
         parameters(v, d, f, h, k, w, n, m) - (m - 1) * h * d * (k + w)
     ),
     "Each layer of the decoder has matrices of its own for the keys and values of the memory."),
    ("the encoder's number of layers for all but the decoder's attentions",
     lambda v, d, f, h, k, w, n, m: (
         parameters(v, d, f, h, k, w, n, m) + (n - m) * (2 * d * f + f + d + 6 * d)
     ),
     "All parts of the decoder's layers are there n_decoder times."),
    ("keys and values of cross-attention left out",
     lambda v, d, f, h, k, w, n, m: parameters(v, d, f, h, k, w, n, m) - m * h * d * (k + w),
     "The memory has no keys and values of its own: cross-attention has all four matrices."),
    ("4 d_model in place of d_ff",
     lambda v, d, f, h, k, w, n, m: parameters(v, d, 4 * d, h, k, w, n, m),
     "The width of the feed-forward net is given, as `d_ff`."),
)  # fmt: skip


TERMS: list[tuple[str, Callable, str]] = [
    ("a whole attention", lambda d, f, h, k, w: 2 * d * h * (k + w),
     "An encoder layer has one attention, a decoder layer two."),
    ("a whole feed-forward net", lambda d, f, h, k, w: 2 * d * f + f + d,
     "An encoder layer has one feed-forward net, and a decoder layer has one."),
    ("d_model n_heads d_k", lambda d, f, h, k, w: d * h * k,
     "So many numbers have W^Q and W^K each, once in each attention."),
    ("d_model n_heads d_v", lambda d, f, h, k, w: d * h * w,
     "So many numbers have W^V and W^O each, once in each attention."),
    ("d_model d_ff", lambda d, f, h, k, w: d * f,
     "So many numbers has each of the two matrices of the feed-forward net."),
    ("d_ff", lambda d, f, h, k, w: f, "So many numbers has b_1, once in each layer."),
    ("d_model", lambda d, f, h, k, w: d,
     "So many numbers have b_2, once in each layer, and gamma and beta, once in each LayerNorm."),
]  # fmt: skip


def _one_term(
    cases: Sequence[Case], got: Sequence[Any], want: Sequence[Any]
) -> tuple[str, str] | None:
    """One term of the layers counted too often or too seldom."""
    apart = [int(a) - int(b) for a, b in zip(got, want, strict=True)]
    for term, numbers, why in TERMS:
        for layers, where in (((1, 0), "each encoder layer"), ((0, 1), "each decoder layer"),
                              ((1, 1), "each layer")):  # fmt: skip
            every = [numbers(*n[1:6]) * (layers[0] * n[6] + layers[1] * n[7]) for n in cases]
            times, rest = divmod(apart[0], every[0])
            if rest == 0 and apart == [times * one for one in every] and 1 <= abs(times) <= 6:
                often = {1: "", 2: "twice "}.get(abs(times), f"{abs(times)} times ")
                return f"{often}{term} too {'many' if times > 0 else 'few'} in {where}", why
    return None


def _counted_wrong(
    cases: Sequence[Case], got: Sequence[Any], want: Sequence[Any]
) -> tuple[str, str] | None:
    if any(isinstance(a, list | tuple | str) or a is None or int(a) != a for a in got):
        return None
    return _table_counted(cases, got, want) or _one_term(cases, got, want)


def _table_counted(
    cases: Sequence[Case], got: Sequence[Any], want: Sequence[Any]
) -> tuple[str, str] | None:
    """A table of positions besides, of any length."""
    rows = {(int(a) - int(b)) / sizes[1] for sizes, a, b in zip(cases, got, want, strict=True)}
    if len(rows) > 1 or not (number := rows.pop()).is_integer() or number < 16:
        return None
    return (
        f"a table of {number:g} positions counted",
        "The positions are sinusoids: they are computed, not learned.",
    )


# 11.2 the gradient of the shared matrix


def shared_gradient(tokens: Tensor, states: Tensor, dx: Tensor, dlogits: Tensor) -> Tensor:
    return _below(tokens, dx, dlogits, _root(dx)) + _above(states, dlogits)


def _root(dx: Tensor) -> float:
    return math.sqrt(dx.shape[-1])


def _below(tokens: Tensor, dx: Tensor, dlogits: Tensor, factor: float) -> Tensor:
    """What arrives at each row of the matrix through the embedding: (V, D)."""
    rows = dx.new_zeros(dlogits.shape[-1], dx.shape[-1])
    return rows.index_add(0, tokens.flatten(), factor * dx.flatten(0, 1))


def _above(states: Tensor, dlogits: Tensor) -> Tensor:
    """What arrives at each row of the matrix through the logits: (V, D)."""
    return dlogits.flatten(0, 1).T @ states.flatten(0, 1)


def shared_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(112)
    cases = [
        (
            torch.tensor([[1, 1]]),
            torch.tensor([[[1.0, 0, 0, 0], [0, 1, 0, 0]]]),
            torch.tensor([[[1.0, 0, 0, 0], [1, 1, 0, 0]]]),
            torch.tensor([[[1.0, 0, 0], [0, 0, -1]]]),
        )
    ]
    for B, T, D, V in ((2, 4, 6, 5), (3, 1, 9, 9), (1, 5, 3, 1)):
        vectors = torch.randn(2, B, T, D, generator=draw)
        tokens = torch.randint(V, (B, T), generator=draw)
        cases.append((tokens, *vectors, torch.randn(B, T, V, generator=draw)))
    return cases


def _overwritten(tokens: Tensor, states: Tensor, dx: Tensor, dlogits: Tensor) -> Tensor:
    rows = dx.new_zeros(dlogits.shape[-1], dx.shape[-1])
    for token, row in zip(tokens.flatten().tolist(), _root(dx) * dx.flatten(0, 1), strict=True):
        rows[token] = row
    return rows + _above(states, dlogits)


def _set(tokens: Tensor, dx: Tensor, rows: Tensor) -> Tensor:
    for token, row in zip(tokens.flatten().tolist(), dx.flatten(0, 1), strict=True):
        rows[token] = row
    return rows


def _shared(
    factor: Callable[[Tensor, Tensor], float] = lambda dx, dlogits: _root(dx),
    below: Callable = _below,
    above: Callable = lambda tokens, states, dx, dlogits: _above(states, dlogits),
    end: Callable[[Tensor, Tensor], Tensor] = lambda rows, tokens: rows,
) -> Callable[..., Tensor]:
    """The gradient, right by default; each argument makes one mistake."""

    def gradient(tokens: Tensor, states: Tensor, dx: Tensor, dlogits: Tensor) -> Tensor:
        rows = below(tokens, dx, dlogits, factor(dx, dlogits))
        return end(rows + above(tokens, states, dx, dlogits), tokens)

    return gradient


def _last_one_stays(tokens: Tensor, dx: Tensor, dlogits: Tensor, factor: float) -> Tensor:
    return _overwritten(tokens, 0 * dx, factor / _root(dx) * dx, dlogits)


def _own_logit(tokens: Tensor, states: Tensor, dx: Tensor, dlogits: Tensor) -> Tensor:
    slope = dlogits.gather(-1, tokens[..., None])
    return _below(tokens, slope * states, dlogits, 1.0)


def _once_in_each_sentence(tokens: Tensor, states: Tensor, dx: Tensor, dlogits: Tensor) -> Tensor:
    rows = _above(states, dlogits)
    for row, vectors in zip(tokens, _root(dx) * dx, strict=True):
        rows = rows + _set(row[None], vectors[None], torch.zeros_like(rows))
    return rows


def _rows_read(tokens: Tensor, states: Tensor, dx: Tensor, dlogits: Tensor) -> Tensor:
    read = torch.zeros(dlogits.shape[-1], 1).index_fill(0, tokens.flatten(), 1.0)
    return _above(states, dlogits) * read


SHARED_SLIPS = [
    ("the root forgotten", {"factor": lambda dx, dlogits: 1.0}, "x is the row times the root."),
    ("divided by the root", {"factor": lambda dx, dlogits: 1 / _root(dx)},
     "The factor is the root of D, as on the way forward."),
    ("D in place of its root", {"factor": lambda dx, dlogits: dx.shape[-1]}, "The root of D."),
    ("the factor 2, whatever the width", {"factor": lambda dx, dlogits: 2.0},
     "In the example the width is 4, and its root 2. The factor is the root of D."),
    ("a token that is read twice counted once", {"below": _last_one_stays},
     "A row that was used at several places gets the sum of what arrives there."),
    ("the logit of the token that was read alone", {"above": _own_logit},
     "Every token has a logit at every place, so every row gets a gradient."),
    ("only the tokens that were read", {"above": _rows_read},
     "Every token has a logit at every place, so every row gets a gradient."),
    ("the logits' way averaged over the places",
     {"above": lambda tokens, states, dx, dlogits: _above(states, dlogits) / tokens.numel()},
     "Gradients of several places are added up."),
    ("the logits' way averaged over the sentences",
     {"above": lambda tokens, states, dx, dlogits: _above(states, dlogits) / len(tokens)},
     "Gradients of several sentences are added up."),
    ("the states one place too late",
     {"above": lambda tokens, states, dx, dlogits: _above(states[:, 1:], dlogits[:, :-1])},
     "The logits of a place are made of the state of the same place. The labels are shifted, and "
     "these are in dlogits already."),
    ("the states one place too early",
     {"above": lambda tokens, states, dx, dlogits: _above(states[:, :-1], dlogits[:, 1:])},
     "The logits of a place are made of the state of the same place. The labels are shifted, and "
     "these are in dlogits already."),
    ("every place with every other",
     {"above": lambda tokens, states, dx, dlogits: dlogits.sum(1).T @ states.sum(1)},
     "Each place's logits are made of its own state: the product is taken place by place, and then "
     "summed."),
    ("dx one place too late",
     {"below": lambda tokens, dx, dlogits, factor: _below(
         tokens[:, 1:], dx[:, :-1], dlogits, factor)},
     "dx belongs to the token that was read at its own place."),
    ("dx where the states were wanted",
     {"above": lambda tokens, states, dx, dlogits: _above(dx, dlogits)},
     "A logit is the product of a state and a row."),
    ("the mean over the places", {"end": lambda rows, tokens: rows / tokens.numel()},
     "Gradients of several places are added up."),
    ("the mean of the two ways", {"end": lambda rows, tokens: rows / 2},
     "Gradients of several uses are added up."),
]  # fmt: skip
SHARED_BUT = [("the root forgotten", "a token that is read twice counted once")]
SHARED_ALONE = (
    "the factor 2, whatever the width", "the logit of the token that was read alone",
    "the logits' way averaged over the places", "the logits' way averaged over the sentences",
    "the states one place too late", "the states one place too early",
    "every place with every other", "dx one place too late",
)  # fmt: skip


SHARED_MISTAKES = mistakes(
    *((name, _shared(**slip), why) for name, slip, why in SHARED_SLIPS if name in SHARED_ALONE),
    *combined(_shared, SHARED_SLIPS, but=SHARED_BUT),
    *((f"the rows of the tokens overwritten{also}",
       lambda tokens, states, dx, dlogits, f=factor: _set(
           tokens, f(dx) * dx, _above(states, dlogits)),
       "Both ways are added up, and so are all places at which a token was read." + more)
      for also, factor, more in (
          ("", _root, ""),
          (", and the root forgotten", lambda dx: 1.0, " x is the row times the root."),
      )),
    ("the last sentence alone on the way through the logits",
     lambda tokens, states, dx, dlogits: (
         _below(tokens, dx, dlogits, _root(dx)) + _above(states[-1:], dlogits[-1:])),
     "Gradients of all sentences are added up."),
    ("the way through the logits apart for each sentence",
     lambda tokens, states, dx, dlogits: (
         _below(tokens, dx, dlogits, _root(dx)) + dlogits.transpose(1, 2) @ states),
     "E is one matrix, (V, D): the gradients of all sentences are added up."),
    ("the mean over the places on the way through the embedding",
     lambda tokens, states, dx, dlogits: (
         _below(tokens, dx, dlogits, _root(dx) / tokens.numel()) + _above(states, dlogits)),
     "Gradients of several places are added up."),
    ("the states of the place before",
     lambda tokens, states, dx, dlogits: _shared()(tokens, states.roll(1, 1), dx, dlogits),
     "The logits of a place are made of the state of the same place."),
    ("the next token's row",
     lambda tokens, states, dx, dlogits: _shared()(
         (tokens + 1) % dlogits.shape[-1], states, dx, dlogits
     ),
     "Token 0 has row 0: ids are counted from 0."),
    ("made as long as 1",
     lambda *case: (lambda rows: rows / rows.norm())(_shared()(*case)),
     "Asked for is the gradient as it is. To shorten it is the optimizer's affair."),
    ("nothing for token 0 from what was read",
     lambda tokens, states, dx, dlogits: _shared()(
         tokens, states, dx * (tokens != 0)[..., None], dlogits
     ),
     "Nothing in the task is padding: the row of token 0 learns as the others do."),
    ("every place with every other, in all sentences",
     lambda tokens, states, dx, dlogits: (
         _below(tokens, dx, dlogits, _root(dx))
         + torch.outer(dlogits.sum((0, 1)), states.sum((0, 1)))
     ),
     "Each place's logits are made of its own state: the product is taken place by place, and then "
     "summed."),
    ("only the way through the embedding",
     lambda tokens, states, dx, dlogits: _below(tokens, dx, dlogits, _root(dx)),
     "The matrix is used a second time, for the logits. What arrives there is added."),
    ("only the way through the logits",
     lambda tokens, states, dx, dlogits: _above(states, dlogits),
     "The matrix is used a second time, for the embedding. What arrives at x goes to the rows of "
     "the tokens that were read."),
    ("the root forgotten",
     lambda tokens, states, dx, dlogits: (
         _below(tokens, dx, dlogits, 1.0) + _above(states, dlogits)
     ),
     "x is the root of D times the row, so the gradient of the row is the root of D times that of "
     "x."),
    ("divided by the root",
     lambda tokens, states, dx, dlogits: (
         _below(tokens, dx, dlogits, 1 / _root(dx)) + _above(states, dlogits)
     ),
     "The factor of the way forward is the factor of the way back: times the root of D."),
    ("D in place of its root",
     lambda tokens, states, dx, dlogits: (
         _below(tokens, dx, dlogits, _root(dx) ** 2) + _above(states, dlogits)
     ),
     "The factor is the root of D."),
    ("the root of V",
     lambda tokens, states, dx, dlogits: (
         _below(tokens, dx, dlogits, dlogits.shape[-1] ** 0.5) + _above(states, dlogits)
     ),
     "The factor is the root of D, the width, and not of the vocabulary."),
    ("the root on both ways",
     lambda tokens, states, dx, dlogits: (
         _root(dx) * (_below(tokens, dx, dlogits, 1.0) + _above(states, dlogits))
     ),
     "The factor belongs to the embedding. The logits use the matrix as it is."),
    ("the root on the wrong way",
     lambda tokens, states, dx, dlogits: (
         _below(tokens, dx, dlogits, 1.0) + _root(dx) * _above(states, dlogits)
     ),
     "The factor belongs to the embedding, not to the logits."),
    ("a token that is read twice counted once", _overwritten,
     "A row that was used at several places gets the sum of what arrives there. Assigning to "
     "`rows[tokens]`, also with `+=`, keeps one of them: use `index_add`, or a loop over the "
     "places."),
    ("the mean of the two ways",
     lambda tokens, states, dx, dlogits: shared_gradient(tokens, states, dx, dlogits) / 2,
     "Gradients of several uses are added up, not averaged."),
    ("the mean over the places",
     lambda tokens, states, dx, dlogits: (
         shared_gradient(tokens, states, dx, dlogits) / tokens.numel()
     ),
     "Gradients of several places are added up. Where a mean is wanted, it is in dlogits already."),
    ("only the first sentence read",
     _shared(below=lambda tokens, dx, *rest: _below(tokens[:1], dx[:1], *rest)),
     "The embedding is read in all sentences of the batch."),
    ("the mean over the sentences",
     lambda tokens, states, dx, dlogits: (
         shared_gradient(tokens, states, dx, dlogits) / tokens.shape[0]
     ),
     "Gradients of several sentences are added up. Where a mean is wanted, it is in dlogits "
     "already."),
    ("transposed", lambda *case: shared_gradient(*case).T,
     "E has a row for each token: (V, D)."),
    ("the two ways apart",
     lambda tokens, states, dx, dlogits: (
         _below(tokens, dx, dlogits, _root(dx)), _above(states, dlogits)
     ),
     "It is one matrix, and it learns from both: return their sum."),
    ("nothing for token 0",
     lambda *case: shared_gradient(*case).index_fill(0, torch.tensor([0]), 0.0),
     "No token is left out here. (Row 0 of the chapter's machine learns from its logits, too.)"),
    ("one way subtracted",
     lambda tokens, states, dx, dlogits: (
         _below(tokens, dx, dlogits, _root(dx)) - _above(states, dlogits)
     ),
     "Both ways are added."),
    ("dx where the states were wanted",
     lambda tokens, states, dx, dlogits: (
         _below(tokens, dx, dlogits, _root(dx)) + _above(dx, dlogits)
     ),
     "A logit is the product of a state and a row, so its slope in the row is the state."),
    ("the states laid on the rows of the tokens",
     lambda tokens, states, dx, dlogits: (
         _below(tokens, states, dlogits, _root(dx)) + _above(states, dlogits)
     ),
     "What the rows of the tokens get is dx, the gradient that arrives at x."),
    ("only the tokens that were read",
     lambda tokens, states, dx, dlogits: (
         _below(tokens, dx, dlogits, _root(dx))
         + _above(states, dlogits)
         * torch.zeros(dlogits.shape[-1], 1).index_fill(0, tokens.flatten(), 1.0)
     ),
     "Every token has a logit at every place, so every row gets a gradient, whether it was read "
     "or not."),
    ("the first sentence only",
     lambda tokens, states, dx, dlogits: shared_gradient(
         tokens[:1], states[:1], dx[:1], dlogits[:1]
     ),
     "All sentences of the batch use the one matrix."),
    ("the sign turned", lambda *case: -shared_gradient(*case),
     "Both gradients arrive with their sign. Add what they give, and turn nothing."),
    ("the root forgotten, and the way through the logits",
     lambda tokens, states, dx, dlogits: _below(tokens, dx, dlogits, 1.0),
     "x is the row times the root of D, and the matrix is used a second time, for the logits."),
    ("the root of the length", lambda tokens, states, dx, dlogits: (
         _below(tokens, dx, dlogits, tokens.shape[1] ** 0.5) + _above(states, dlogits)),
     "The factor is the root of D, the width, and not of the number of tokens."),
    ("the root forgotten, and a token that is read twice counted once",
     lambda tokens, states, dx, dlogits: _overwritten(tokens, states, dx / _root(dx), dlogits),
     "x is the root of D times the row. And a row that was used at several places gets the sum of "
     "what arrives there."),
    ("a token that is read twice counted once, and only the way through the embedding",
     lambda tokens, states, dx, dlogits: _overwritten(tokens, 0 * states, dx, dlogits),
     "A row that was used at several places gets the sum of what arrives there. And the matrix is "
     "used a second time, for the logits."),
    ("the mean of what arrives at a token's places",
     lambda tokens, states, dx, dlogits: (
         _below(tokens, dx, dlogits, _root(dx))
         / tokens.flatten().bincount(minlength=dlogits.shape[-1]).clamp(min=1)[:, None]
         + _above(states, dlogits)
     ),
     "A token that was read at several places gets the sum of what arrives there, not the mean."),
    ("dx and the states in each other's place",
     lambda tokens, states, dx, dlogits: shared_gradient(tokens, dx, states, dlogits),
     "dx belongs to the embedding, and goes to the rows of the tokens. The states belong to the "
     "logits."),
    ("a softmax of what arrives at the logits",
     lambda tokens, states, dx, dlogits: shared_gradient(tokens, states, dx, dlogits.softmax(-1)),
     "`dlogits` is the gradient already: the softmax and its slope are in it."),
    ("half of D in place of its root",
     lambda tokens, states, dx, dlogits: (
         _below(tokens, dx, dlogits, dx.shape[-1] / 2) + _above(states, dlogits)
     ),
     "x is the row times the root of D: `D ** 0.5`."),
    ("the way through the embedding averaged over all of dx",
     lambda tokens, states, dx, dlogits: (
         _below(tokens, dx, dlogits, _root(dx) / dx.numel()) + _above(states, dlogits)
     ),
     "Gradients of several places are added up. Where a mean is wanted, it is in dx already."),
    ("the way through the logits averaged over all of dlogits",
     lambda tokens, states, dx, dlogits: (
         _below(tokens, dx, dlogits, _root(dx)) + _above(states, dlogits) / dlogits.numel()
     ),
     "Gradients of several places are added up. Where a mean is wanted, it is in dlogits already."),
    ("the way through the logits divided by the root",
     lambda tokens, states, dx, dlogits: (
         _below(tokens, dx, dlogits, _root(dx)) + _above(states, dlogits) / _root(dx)
     ),
     "The logits use the matrix as it is, without a factor."),
    ("a token that is read twice in one sentence counted once", _once_in_each_sentence,
     "Sentences are added up, and so are the places of one sentence: `rows[tokens] += ...` keeps "
     "one of two equal tokens. Use `index_add`, or a loop over the places."),
    ("the logits of the last place alone",
     lambda tokens, states, dx, dlogits: _shared()(
         tokens, states, dx, torch.cat([0 * dlogits[:, :-1], dlogits[:, -1:]], 1)),
     "In training every place is asked for the next token: logits arrive at all of them."),
    ("the logits' way averaged over the places of a sentence",
     lambda tokens, states, dx, dlogits: _shared()(
         tokens, states, dx, dlogits / dlogits.shape[1]),
     "Gradients of several places are added up."),
    ("a reshape in place of the transpose, on the way through the logits",
     lambda tokens, states, dx, dlogits: (
         _below(tokens, dx, dlogits, _root(dx))
         + dlogits.reshape(dlogits.shape[-1], -1) @ states.flatten(0, 1)),
     "A reshape reads the numbers on, row after row, and mixes places with tokens. `.T` turns rows "
     "into columns."),
    ("a reshape in place of the transpose, of the whole",
     lambda tokens, states, dx, dlogits: (
         _below(tokens, dx, dlogits, _root(dx))
         + (states.flatten(0, 1).T @ dlogits.flatten(0, 1)).reshape(dlogits.shape[-1], -1)),
     "A reshape reads the numbers on, row after row. `.T` turns rows into columns."),
    ("the product of the two ways",
     lambda tokens, states, dx, dlogits: (
         _below(tokens, dx, dlogits, _root(dx)) * _above(states, dlogits)),
     "A matrix that is used twice gets the sum of two gradients."),
    ("the token that was read taken off its logit",
     lambda tokens, states, dx, dlogits: _shared()(
         tokens, states, dx, dlogits - nn.functional.one_hot(tokens, dlogits.shape[-1])),
     "`dlogits` is the gradient already: softmax, labels and all. Nothing is taken off."),
    ("of a token that is read twice the first place alone",
     lambda tokens, states, dx, dlogits: _overwritten(
         tokens.flip(0, 1), 0 * states, dx.flip(0, 1), dlogits) + _above(states, dlogits),
     "A row that was used at several places gets the sum of what arrives there."),
)  # fmt: skip


# 11.3 and 11.4: the layers, with sub-layers that are neither linear nor alike


class Attention:
    """Scaled dot-product attention with matrices of its own, for the cases."""

    def __init__(self, d_model: int, seed: int):
        draw = torch.Generator().manual_seed(seed)
        self.w = torch.randn(4, d_model, d_model, generator=draw) * d_model**-0.5 * 1.5

    def __call__(self, q, k, v, mask=None) -> Tensor:
        for name, one in (("q", q), ("k", k), ("v", v)):
            if not (isinstance(one, Tensor) and one.is_floating_point()):
                came = "True and False" if getattr(one, "dtype", None) is torch.bool else kind(one)
                raise TypeError(f"expected attention(q, k, v, mask), got {came} as {name}")
        w_q, w_k, w_v, w_o = self.w.to(q.dtype)
        scores = (q @ w_q) @ (k @ w_k).transpose(-2, -1) / math.sqrt(q.shape[-1])
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        return scores.softmax(-1).nan_to_num() @ (v @ w_v) @ w_o

    def __repr__(self) -> str:
        return "attention(q, k, v, mask)"


class Net:
    """A feed-forward net for the cases."""

    def __init__(self, d_model: int, seed: int):
        draw = torch.Generator().manual_seed(seed)
        self.w_1 = torch.randn(d_model, 3 * d_model, generator=draw)
        self.w_2 = torch.randn(3 * d_model, d_model, generator=draw) * d_model**-0.5

    def __call__(self, x: Tensor) -> Tensor:
        return (x @ self.w_1.to(x.dtype)).relu() @ self.w_2.to(x.dtype) + 0.3

    def __repr__(self) -> str:
        return "a feed-forward net"


class Norm:
    """A layer norm for the cases, with a gamma and a beta of its own."""

    def __init__(self, d_model: int, seed: int):
        draw = torch.Generator().manual_seed(seed)
        self.gamma = 0.5 + torch.rand(d_model, generator=draw)
        self.beta = torch.randn(d_model, generator=draw)

    def __call__(self, x: Tensor) -> Tensor:
        width = (x.shape[-1],)
        return nn.functional.layer_norm(x, width, self.gamma.to(x.dtype), self.beta.to(x.dtype))

    def __repr__(self) -> str:
        return "a layer norm"


class Plain:
    """What the statements' examples are made of: a function with a name."""

    def __init__(self, name: str, function: Callable):
        self.name, self.function = name, function

    def __call__(self, *arguments, **named):
        return self.function(*arguments, **named)

    def __repr__(self) -> str:
        return self.name


VALUES = Plain("an attention that returns its values", lambda q, k, v, mask=None: v)
ADDS_1 = Plain("adds 1", lambda x: x + 1)
DOUBLES = Plain("doubles", lambda x: 2 * x)
ONE = torch.ones(1, 1, 1)


def encoder_layer(x, mask, attention, feed_forward, norms, norm_first) -> Tensor:
    if norm_first:
        h = norms[0](x)
        x = x + attention(h, h, h, mask)
        return x + feed_forward(norms[1](x))
    x = norms[0](x + attention(x, x, x, mask))
    return norms[1](x + feed_forward(x))


def encoder_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(113)
    cases = []
    for i, norm_first in enumerate((False, True, False, True)):
        b, s, d = ((2, 5, 4), (2, 5, 4), (1, 3, 6), (1, 3, 6))[i]
        x = torch.randn(b, s, d, generator=draw) * 2
        mask = torch.ones(b, 1, s, dtype=torch.bool)
        mask[0, 0, -2:] = False
        norms = [Norm(d, 3 + i), Norm(d, 13 + i)]
        cases.append((x, mask, Attention(d, i), Net(d, 23 + i), norms, norm_first))
    example = (ONE, ONE.bool(), VALUES, ADDS_1, [DOUBLES] * 2)
    return [*cases, (*example, False), (*example, True)]


def _layer(post: Callable | None = None, pre: Callable | None = None) -> Callable:
    """A wrong encoder layer: wrong in one order or in both; None = as it should be."""

    def layer(x, mask, attention, feed_forward, norms, norm_first):
        wrong = pre if norm_first else post
        if wrong is None:
            return encoder_layer(x, mask, attention, feed_forward, norms, norm_first)
        return wrong(x, lambda *qkv: attention(*qkv, mask), feed_forward, *norms)

    return layer


def _post(x, a, f, n1, n2):
    x = n1(x + a(x, x, x))
    return n2(x + f(x))


def _post_normed_again(x, a, f, n1, n2):
    x = n1(x + a(x, x, x))
    return n2(x + f(n1(x)))


def _pre(x, a, f, n1, n2):
    h = n1(x)
    x = x + a(h, h, h)
    return x + f(n2(x))


def _pre_norm_kept(x, a, f, n1, n2):
    h = n1(x)
    return x + a(h, h, h) + f(h)


def _pre_keys_raw(x, a, f, n1, n2):
    x = x + a(n1(x), x, x)
    return x + f(n2(x))


def _pre_norm_lost(x, a, f, n1, n2):
    x = x + a(x, x, x)
    return x + f(x)


def _pre_round_normed(x, a, f, n1, n2):
    x = n1(x)
    x = x + a(x, x, x)
    x = n2(x)
    return x + f(x)


def _pre_final(x, a, f, n1, n2):
    return n2(_pre(x, a, f, n1, n2))


def _pre_on_output(x, a, f, n1, n2):
    x = x + n1(a(x, x, x))
    return x + n2(f(x))


def _post_on_output(x, a, f, n1, n2):
    return _pre_on_output(x, a, f, n1, n2)


def _no_residual_post(x, a, f, n1, n2):
    x = n1(a(x, x, x))
    return n2(f(x))


def _no_residual_pre(x, a, f, n1, n2):
    h = n1(x)
    return f(n2(a(h, h, h)))


def _no_second_residual_post(x, a, f, n1, n2):
    return n2(f(n1(x + a(x, x, x))))


def _no_second_residual_pre(x, a, f, n1, n2):
    h = n1(x)
    return f(n2(x + a(h, h, h)))


def _no_first_residual_post(x, a, f, n1, n2):
    x = n1(a(x, x, x))
    return n2(x + f(x))


def _no_first_residual_pre(x, a, f, n1, n2):
    h = n1(x)
    x = a(h, h, h)
    return x + f(n2(x))


def _residual_from_start_post(x, a, f, n1, n2):
    y = n1(x + a(x, x, x))
    return n2(x + f(y))


def _residual_from_start_pre(x, a, f, n1, n2):
    h = n1(x)
    y = x + a(h, h, h)
    return x + f(n2(y))


def _one_norm_post(x, a, f, n1, n2):
    return _post(x, a, f, n1, n1)


def _one_norm_pre(x, a, f, n1, n2):
    return _pre(x, a, f, n1, n1)


def _swapped_post(x, a, f, n1, n2):
    return _post(x, a, f, n2, n1)


def _swapped_pre(x, a, f, n1, n2):
    return _pre(x, a, f, n2, n1)


def _net_first_post(x, a, f, n1, n2):
    x = n2(x + f(x))
    return n1(x + a(x, x, x))


def _net_first_pre(x, a, f, n1, n2):
    x = x + f(n2(x))
    h = n1(x)
    return x + a(h, h, h)


def _pre_query_raw(x, a, f, n1, n2):
    h = n1(x)
    x = x + a(x, h, h)
    return x + f(n2(x))


def _pre_value_raw(x, a, f, n1, n2):
    h = n1(x)
    x = x + a(h, h, x)
    return x + f(n2(x))


def _pre_first_norm_lost(x, a, f, n1, n2):
    x = x + a(x, x, x)
    return x + f(n2(x))


def _pre_second_norm_lost(x, a, f, n1, n2):
    h = n1(x)
    x = x + a(h, h, h)
    return x + f(x)


def _pre_first_round_normed(x, a, f, n1, n2):
    x = n1(x)
    x = x + a(x, x, x)
    return x + f(n2(x))


def _pre_second_round_normed(x, a, f, n1, n2):
    h = n1(x)
    x = n2(x + a(h, h, h))
    return x + f(x)


def _no_norm_at_end(x, a, f, n1, n2):
    x = n1(x + a(x, x, x))
    return x + f(x)


def _net_first_in_order_post(x, a, f, n1, n2):
    x = n1(x + f(x))
    return n2(x + a(x, x, x))


def _net_first_in_order_pre(x, a, f, n1, n2):
    x = x + f(n1(x))
    h = n2(x)
    return x + a(h, h, h)


def _norm_at_end_only(x, a, f, n1, n2):
    x = x + a(x, x, x)
    return n2(x + f(x))


def _first_norm_for_the_net_alone(x, a, f, n1, n2):
    x = x + a(x, x, x)
    return n2(x + f(n1(x)))


def _first_norm_for_the_stream_alone(x, a, f, n1, n2):
    x = x + a(x, x, x)
    return n2(n1(x) + f(x))


def _side_by_side_post(x, a, f, n1, n2):
    return n2(n1(x + a(x, x, x)) + f(x))


def _side_by_side_pre(x, a, f, n1, n2):
    h = n1(x)
    return x + a(h, h, h) + f(n2(x))


def _pre_key_raw(x, a, f, n1, n2):
    h = n1(x)
    x = x + a(h, x, h)
    return x + f(n2(x))


def _post_net_output_normed(x, a, f, n1, n2):
    x = n1(x + a(x, x, x))
    return x + n2(f(x))


def _pre_net_output_normed(x, a, f, n1, n2):
    h = n1(x)
    x = x + a(h, h, h)
    return x + n2(f(x))


def _pre_first_norm(x, a, f, n1, n2):
    h = n1(x)
    x = x + a(h, h, h)
    return x + f(n1(x))


def _normed_again(x, a, f, n1, n2):
    return n2(_post(x, a, f, n1, n2))


def _layered(
    post: Callable | None = None,
    pre: Callable | None = None,
    mask: Callable[[Tensor], Any] = lambda mask: mask,
) -> Callable:
    """An encoder layer, right by default; each argument makes one mistake."""
    layer = _layer(post, pre)
    return lambda x, given, *rest: layer(x, mask(given), *rest)


ENCODER_SLIPS = [
    ("the mask not handed over", {"mask": lambda mask: None}, "The attention must get the mask."),
    ("the mask turned round", {"mask": lambda mask: ~mask}, "The mask is True where one may look."),
    ("the norms in each other's place", {"post": _swapped_post, "pre": _swapped_pre},
     "norms[0] belongs to the attention, norms[1] to the net."),
    ("one norm for both sub-layers", {"post": _one_norm_post, "pre": _one_norm_pre},
     "Each sub-layer has a norm of its own."),
    ("no residual connections", {"post": _no_residual_post, "pre": _no_residual_pre},
     "Both sub-layers stand in a residual connection."),
    ("the two orders in each other's place", {"post": _pre, "pre": _post},
     "If norm_first is False, the order is the paper's."),
    ("post-norm in both orders", {"pre": _post}, "If norm_first is True, the order is pre-norm."),
    ("pre-norm in both orders", {"post": _pre}, "If norm_first is False, it is the paper's."),
    *((f"in pre-norm, {name}", {"pre": pre}, why) for name, pre, why in (
        ("keys and values of the un-normed x", _pre_keys_raw, "All three read the normed stream."),
        ("queries of the un-normed x", _pre_query_raw, "All three read the normed stream."),
        ("values of the un-normed x", _pre_value_raw, "All three read the normed stream."),
        ("no residual connection round the net", _no_second_residual_pre,
         "Both sub-layers stand in a residual connection."),
        ("no residual connection round the attention", _no_first_residual_pre,
         "Both sub-layers stand in a residual connection."),
        ("the norms lost", _pre_norm_lost, "Each sub-layer reads the normed stream."),
        ("the residual connection round the normed x", _pre_round_normed,
         "What is added to is x before the norm."),
        ("a norm at the end of the layer", _pre_final, "The final norm belongs to the stack."),
        ("the norm on what the sub-layer gives", _pre_on_output,
         "Pre-norm norms what a sub-layer reads."),
        ("the second norm lost", _pre_second_norm_lost, "The net reads the normed stream."),
        ("the second residual connection from the layer's input", _residual_from_start_pre,
         "The net's output is added to what the attention left."),
    )),
    *((f"in post-norm, {name}", {"post": post}, why) for name, post, why in (
        ("the norm before the addition", _post_on_output, "The paper norms the sum."),
        ("the first norm missing", _norm_at_end_only, "Each of the two sums is normed."),
        ("the last norm missing", _no_norm_at_end, "Each of the two sums is normed."),
        ("the second residual connection from the layer's input", _residual_from_start_post,
         "The second sum is x' + FFN(x')."),
        ("no residual connection round the net", _no_second_residual_post,
         "Both sub-layers stand in a residual connection."),
        ("no residual connection round the attention", _no_first_residual_post,
         "Both sub-layers stand in a residual connection."),
    )),
]  # fmt: skip
ENCODER_BUT = [("post-norm in both orders", "pre-norm in both orders")] + [  # one row for both
    (f"in pre-norm, {name}", f"in post-norm, {name}")
    for name in (
        "the second residual connection from the layer's input",
        "no residual connection round the net",
        "no residual connection round the attention",
    )
]


def _in_orders(name: str, change: Callable, why: str) -> list[tuple]:
    """A mistake in pre-norm, in post-norm and in both: `change` of attention, net and norms."""
    post, pre = (
        lambda x, *parts, order=order: order(x, *change(*parts)) for order in (_post, _pre)
    )
    wrong = {"in pre-norm, ": (None, pre), "in post-norm, ": (post, None), "": (post, pre)}
    return [(f"{where}{name}", _layer(*two), why) for where, two in wrong.items()]


def _minus(part: Callable) -> Callable:
    return lambda *given: -part(*given)


def _not_called(part: Callable) -> Callable:
    return lambda *given: given[0]


def _silent(part: Callable) -> Callable:
    return lambda *given: 0 * given[0]


ADDED = "In both sub-layers, in both orders, what comes out is added to the stream."
CALLED = "What is added to the stream is what the sub-layer makes of what it reads."
BOTH = "A layer has two sub-layers in both orders: attention, and behind it the net."
OWN_NORM = "`norms[0]` belongs to the attention, `norms[1]` to the net, in both orders."
ENCODER_MISTAKES = mistakes(
    *_in_orders("what the attention gives subtracted", lambda a, *r: (_minus(a), *r), ADDED),
    *_in_orders("what the net gives subtracted", lambda a, f, *r: (a, _minus(f), *r), ADDED),
    *_in_orders("what both sub-layers give subtracted",
                lambda a, f, *r: (_minus(a), _minus(f), *r), ADDED),
    *_in_orders("the attention's input added, and not what it gives",
                lambda a, *r: (_not_called(a), *r), CALLED),
    *_in_orders("the net's input added, and not what it gives",
                lambda a, f, *r: (a, _not_called(f), *r), CALLED),
    *_in_orders("the inputs of both sub-layers added, and not what they give",
                lambda a, f, *r: (_not_called(a), _not_called(f), *r), CALLED),
    *_in_orders("no attention", lambda a, *r: (_silent(a), *r), BOTH),
    *_in_orders("no feed-forward net", lambda a, f, *r: (a, _silent(f), *r), BOTH),
    *_in_orders("no sub-layers", lambda a, f, *r: (_silent(a), _silent(f), *r), BOTH),
    *_in_orders("the second norm used twice", lambda a, f, n1, n2: (a, f, n2, n2), OWN_NORM),
    ("in post-norm, no norms", _layer(_pre_norm_lost), "Each of the two sums is normalised."),
    ("no norms", _layer(_pre_norm_lost, _pre_norm_lost),
     "Each sub-layer has a norm: pre-norm normalises what it reads, post-norm the sum."),
    ("in post-norm, the attention reads the normed x",
     _layer(lambda x, a, f, n1, n2: (lambda y: n2(y + f(y)))(n1(x + a(*[n1(x)] * 3)))),
     "In post-norm the attention reads x as it is: the norm comes behind the addition."),
    ("in post-norm, the second norm before the net as well",
     _layer(lambda x, a, f, n1, n2: (lambda y: n2(y + f(n2(y))))(n1(x + a(x, x, x)))),
     "In post-norm the net reads x' as it is: that is normed already."),
    ("in post-norm, each norm before its sub-layer as well",
     _layer(lambda x, a, f, n1, n2: (lambda y: n2(y + f(n2(y))))(n1(x + a(*[n1(x)] * 3)))),
     "In post-norm each sub-layer reads what is in the stream, and the norm comes behind the "
     "addition, once."),
    ("in post-norm, the sums normed by the norms in each other's place, and what is read as well",
     _layer(lambda x, a, f, n1, n2: (lambda y: n2(y + f(n1(y))))(n2(x + a(*[n1(x)] * 3)))),
     "In post-norm each sub-layer reads what is in the stream, and its own norm comes behind the "
     "addition, once."),
    ("in pre-norm, the first sum normed as well",
     _layer(None, lambda x, a, f, n1, n2: (lambda y: y + f(n2(y)))(n1(x + a(*[n1(x)] * 3)))),
     "In pre-norm the norm stands before the sub-layer, and the sum is left alone."),
    *combined(_layered, ENCODER_SLIPS, but=ENCODER_BUT),
    ("in pre-norm, the first norm at the end of the layer",
     _layer(None, lambda x, a, f, n1, n2: n1(_pre(x, a, f, n1, n2))),
     "The final norm of pre-norm belongs to the whole stack, not to each layer."),
    ("in pre-norm, the net reads what the attention read",
     _layer(None, lambda x, a, f, n1, n2: x + a(n1(x), n1(x), n1(x)) + f(n2(n1(x)))),
     "The net reads the normed stream as the attention left it."),
    ("the feed-forward net alone",
     _layer(lambda x, a, f, n1, n2: n2(x + f(x)), lambda x, a, f, n1, n2: x + f(n2(x))),
     "A layer has two sub-layers: the attention comes first."),
    ("the two orders in each other's place round the net",
     _layer(lambda x, a, f, n1, n2: (lambda y: y + f(n2(y)))(n1(x + a(x, x, x))),
            lambda x, a, f, n1, n2: (lambda h: (lambda y: n2(y + f(y)))(x + a(h, h, h)))(n1(x))),
     "Both sub-layers stand in one order: pre-norm if `norm_first`, and else the paper's."),
    ("both sub-layers read the layer's input",
     _layer(lambda x, a, f, n1, n2: n2(x + a(x, x, x) + f(x)),
            lambda x, a, f, n1, n2: x + a(n1(x), n1(x), n1(x)) + f(n2(x))),
     "The net computes on what the attention has found: it reads the sum, not the layer's input."),
    ("each norm twice",
     lambda x, mask, attention, feed_forward, norms, norm_first: encoder_layer(
         x, mask, attention, feed_forward, [lambda y, n=n: n(n(y)) for n in norms], norm_first),
     "Each of the two norms is used once."),
    ("in post-norm, the first norm once more before the net", _layer(_post_normed_again, None),
     "The net reads x' as it is: that is normed already."),
    ("in post-norm, no residual connection round the feed-forward net",
     _layer(_no_second_residual_post), "Both sub-layers stand in a residual connection."),
    ("in post-norm, no residual connection round the attention",
     _layer(_no_first_residual_post), "Both sub-layers stand in a residual connection."),
    ("in pre-norm, no residual connection round the attention",
     _layer(pre=_no_first_residual_pre), "Both sub-layers stand in a residual connection."),
    ("in pre-norm, no residual connection round the feed-forward net",
     _layer(pre=_no_second_residual_pre), "Both sub-layers stand in a residual connection."),
    ("in pre-norm, keys of the un-normed x", _layer(None, _pre_key_raw),
     "In pre-norm the sub-layer reads the normed stream: queries, keys and values alike."),
    ("in post-norm, the second norm before the addition", _layer(_post_net_output_normed, None),
     "Only what the net gives was normalised. The paper adds first and normalises the sum."),
    ("in pre-norm, the second norm behind the net", _layer(None, _pre_net_output_normed),
     "In pre-norm the net reads the normed stream, and what it gives is added as it is."),
    ("in pre-norm, the attention's norm before the net as well", _layer(None, _pre_first_norm),
     "norms[0] belongs to the attention, norms[1] to the feed-forward net."),
    ("in post-norm, one more norm at the end", _layer(_normed_again, None),
     "The second sum is normalised once. A norm more belongs to a pre-norm stack, and to its end."),
    ("post-norm in both orders", _layer(None, _post),
     "If norm_first is True, the norm stands before the sub-layer, and nothing after the sum."),
    ("pre-norm in both orders", _layer(_pre, None),
     "If norm_first is False, the order is the paper's: the sum is normalised."),
    ("the two orders in each other's place", _layer(_pre, _post),
     "norm_first means that the norm comes before the sub-layer. Without it, after the sum."),
    ("the mask not handed over",
     lambda x, mask, attention, feed_forward, norms, norm_first: encoder_layer(
         x, None, attention, feed_forward, norms, norm_first
     ),
     "The attention must get the mask, or every word looks at padding."),
    ("the mask turned round",
     lambda x, mask, attention, feed_forward, norms, norm_first: encoder_layer(
         x, ~mask, attention, feed_forward, norms, norm_first
     ),
     "The mask is True where one may attend. Hand it over as it is."),
    ("in pre-norm, keys and values of the un-normed x", _layer(None, _pre_keys_raw),
     "In pre-norm the sub-layer reads the normed stream: queries, keys and values alike."),
    ("in pre-norm, queries of the un-normed x", _layer(None, _pre_query_raw),
     "In pre-norm the sub-layer reads the normed stream: queries, keys and values alike."),
    ("in pre-norm, values of the un-normed x", _layer(None, _pre_value_raw),
     "In pre-norm the sub-layer reads the normed stream: queries, keys and values alike."),
    ("in pre-norm, the first norm lost", _layer(None, _pre_first_norm_lost),
     "The attention read the raw stream. In pre-norm it reads `norms[0](x)`."),
    ("in pre-norm, the second norm lost", _layer(None, _pre_second_norm_lost),
     "The feed-forward net read the raw stream. In pre-norm it reads `norms[1](x)`."),
    ("in pre-norm, the norm that the attention read handed on", _layer(None, _pre_norm_kept),
     "The feed-forward net reads the norm of the stream as it is now: `norms[1](x)`, anew."),
    ("in pre-norm, the norms lost", _layer(None, _pre_norm_lost),
     "The norm was computed and not used, or left out: each sub-layer must read the normed stream. "
     "An outer `x` inside a lambda does this without a word."),
    ("in pre-norm, the residual connection round the normed x", _layer(None, _pre_round_normed),
     "`x = norm(x)` overwrites the stream. What is added to must be x before the norm."),
    ("in pre-norm, the first residual connection round the normed x",
     _layer(None, _pre_first_round_normed),
     "`x = norms[0](x)` overwrites the stream. What is added to must be x before the norm."),
    ("in pre-norm, the second residual connection round the normed x",
     _layer(None, _pre_second_round_normed),
     "What the net gives is added to the stream before `norms[1]`, not to the normed one."),
    ("in pre-norm, a norm at the end of the layer", _layer(None, _pre_final),
     "The final norm of pre-norm belongs to the whole stack, not to each layer."),
    ("in pre-norm, the norm on what the sub-layer gives", _layer(None, _pre_on_output),
     "Pre-norm normalises what the sub-layer reads, not what it gives."),
    ("in post-norm, the norm before the addition", _layer(_post_on_output, None),
     "Only the sub-layer's output was normalised. The paper adds first and normalises the sum."),
    ("in post-norm, the stream of the second addition not normed",
     _layer(_first_norm_for_the_net_alone, None),
     "The first norm makes the stream: what it gives is read by the net, and added to as well."),
    ("in post-norm, the stream normed and the net's input not",
     _layer(_first_norm_for_the_stream_alone, None),
     "The first norm makes the stream: the net reads what it gives, too."),
    ("in post-norm, the first norm missing", _layer(_norm_at_end_only, None),
     "Each of the two sums is normalised, the one after attention, too."),
    ("in post-norm, the last norm missing", _layer(_no_norm_at_end, None),
     "Each of the two sums is normalised, the last one, too."),
    ("no residual connection round the attention",
     _layer(_no_first_residual_post, _no_first_residual_pre),
     "Both sub-layers stand in a residual connection."),
    ("no residual connections", _layer(_no_residual_post, _no_residual_pre),
     "What a sub-layer gives is added to what it was given, and does not replace it."),
    ("no residual connection round the feed-forward net",
     _layer(_no_second_residual_post, _no_second_residual_pre),
     "Both sub-layers stand in a residual connection."),
    ("the second residual connection from the layer's input",
     _layer(_residual_from_start_post, _residual_from_start_pre),
     "What the feed-forward net gives is added to what came out of the first sub-layer. Here it "
     "was added to the old x, and the attention's work was lost from the stream."),
    ("in post-norm, the second residual connection from the layer's input",
     _layer(_residual_from_start_post, None),
     "Equation (11.2) has x' in both places: the second sum is x' + FFN(x')."),
    ("in pre-norm, the second residual connection from the layer's input",
     _layer(None, _residual_from_start_pre),
     "What the net gives is added to the stream as the attention left it, not to the old x."),
    ("one norm used twice", _layer(_one_norm_post, _one_norm_pre),
     "Each sub-layer has a norm of its own, with its own gamma and beta."),
    ("the norms in each other's place", _layer(_swapped_post, _swapped_pre),
     "`norms[0]` belongs to the attention, `norms[1]` to the feed-forward net."),
    ("the feed-forward net first", _layer(_net_first_post, _net_first_pre),
     "Attention comes first: the net computes on what the attention has found."),
    ("the feed-forward net first, with the attention's norm",
     _layer(_net_first_in_order_post, _net_first_in_order_pre),
     "Attention comes first: the net computes on what the attention has found."),
    ("the feed-forward net reads the layer's input", _layer(_side_by_side_post, _side_by_side_pre),
     "The two sub-layers stand one after the other: the net reads what the attention left."),
    ("in pre-norm, the norms in each other's place", _layer(pre=_swapped_pre),
     "`norms[0]` belongs to the attention, `norms[1]` to the feed-forward net, in both orders."),
    ("in post-norm, the norms in each other's place", _layer(_swapped_post),
     "`norms[0]` belongs to the attention, `norms[1]` to the feed-forward net, in both orders."),
    ("in post-norm, the first norm used twice", _layer(_one_norm_post),
     "Each sub-layer has a norm of its own: behind the net it is `norms[1]`."),
    ("in pre-norm, the mask not handed over",
     lambda x, mask, *rest: encoder_layer(x, None if rest[-1] else mask, *rest),
     "In both orders the mask goes to the attention, as its fourth argument."),
    ("in post-norm, the mask not handed over",
     lambda x, mask, *rest: encoder_layer(x, mask if rest[-1] else None, *rest),
     "In both orders the mask goes to the attention, as its fourth argument."),
    ("in post-norm, the normed x added to the sub-layer of the un-normed",
     _layer(lambda x, a, f, n1, n2: (lambda y: n2(y) + f(y))(n1(x) + a(x, x, x))),
     "Post-norm adds first, and norms the sum: norm(x + sub-layer(x))."),
    ("in pre-norm, the two sub-layers side by side", _layer(pre=_side_by_side_pre),
     "One after the other: the net reads what the attention has added to."),
    ("in post-norm, keys and values of the normed x",
     _layer(lambda x, a, f, n1, n2: (lambda y: n2(y + f(y)))(n1(x + a(x, n1(x), n1(x))))),
     "In post-norm the attention reads x as it is: the norm comes behind the addition."),
    ("the attention alone", _layer(lambda x, a, f, n1, n2: n1(x + a(x, x, x)),
                                   lambda x, a, f, n1, n2: x + a(n1(x), n1(x), n1(x))),
     "A layer has two sub-layers: behind the attention comes the feed-forward net."),
    ("in post-norm, x added twice", _layer(post=lambda x, a, f, n1, n2: (
         lambda y: n2(y + f(y)))(n1(x + x + a(x, x, x)))),
     "The residual connection adds x once."),
    ("in pre-norm, the attention's norm taken twice",
     _layer(pre=lambda x, a, f, n1, n2: (
         lambda h: (lambda y: y + f(n2(y)))(x + a(h, h, h)))(n1(n1(x)))),
     "x is normed once before the attention, for queries, keys and values alike."),
    ("in pre-norm, a norm after each sum as well",
     _layer(pre=lambda x, a, f, n1, n2: (
         lambda h: (lambda y: n2(y + f(n2(y))))(n1(x + a(h, h, h))))(n1(x))),
     "That is both orders at once. In pre-norm nothing is normed behind the sum."),
)  # fmt: skip


def decoder_layer(
    x, memory, src_mask, tgt_mask, self_attention, cross_attention, feed_forward, norms
) -> Tensor:
    h = norms[0](x)
    x = x + self_attention(h, h, h, tgt_mask)
    x = x + cross_attention(norms[1](x), memory, memory, src_mask)
    return x + feed_forward(norms[2](x))


def decoder_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(114)
    cases = []
    for i, (b, s, t, d) in enumerate(((2, 4, 4, 6), (3, 5, 5, 4))):
        x, memory = (torch.randn(b, n, d, generator=draw) * 1.5 for n in (t, s))
        src_mask, tgt_mask = torch.ones(b, 1, s).bool(), torch.ones(b, 1, t).bool()
        src_mask[0, 0, -1:], tgt_mask[-1, 0, -2:] = False, False
        tgt_mask = tgt_mask & torch.ones(t, t).bool().tril()
        parts = (Attention(d, 30 + i), Attention(d, 40 + i), Net(d, 50 + i))
        cases.append((x, memory, src_mask, tgt_mask, *parts, [Norm(d, 60 + n) for n in range(3)]))
    # at last, two lengths that differ
    x, memory = (torch.randn(2, n, 4, generator=draw) for n in (3, 5))
    parts = (Attention(4, 70), Attention(4, 71), Net(4, 72))
    masks = torch.tensor([[[True] * 4 + [False]], [[True] * 5]]), torch.ones(3, 3).bool().tril()
    cases.append((x, memory, *masks, *parts, [Norm(4, 73 + n) for n in range(3)]))
    one = x[:1, :1], memory[:1], masks[0][:1], masks[1][:1, :1]
    cases.append((*one, *parts, [Norm(4, 76 + n) for n in range(3)]))
    mask = ONE.bool()
    return [*cases, (ONE, 10 * ONE, mask, mask, VALUES, VALUES, ADDS_1, [DOUBLES] * 3)]


def _steps(
    first: Callable | None = None, cross: Callable | None = None, end: Callable | None = None
):
    """A wrong decoder layer: one of its three steps done in another way.

    first(x, a, norm, masks), cross(x, memory, c, norm, masks, start), end(x, f, norm, start)."""

    def layer(x, memory, src_mask, tgt_mask, self_attention, cross_attention, feed_forward, norms):
        masks, start = (src_mask, tgt_mask), x
        if first:
            x = first(x, self_attention, norms[0], masks)
        else:
            h = norms[0](x)
            x = x + self_attention(h, h, h, tgt_mask)
        if cross:
            x = cross(x, memory, cross_attention, norms[1], masks, start)
        else:
            x = x + cross_attention(norms[1](x), memory, memory, src_mask)
        return end(x, feed_forward, norms[2], start) if end else x + feed_forward(norms[2](x))

    return layer


def _norm_kept(x, memory, src_mask, tgt_mask, a, c, f, norms) -> Tensor:
    """The feed-forward net reads what cross-attention has read."""
    h = norms[0](x)
    x = x + a(h, h, h, tgt_mask)
    h = norms[1](x)
    return x + c(h, memory, memory, src_mask) + f(h)


def _rewired(change: Callable) -> Callable:
    """A right layer on wrong arguments: change(arguments by name)."""

    names = "x memory src_mask tgt_mask self_attention cross_attention feed_forward norms".split()

    def layer(*arguments):
        given = dict(zip(names, arguments, strict=True))
        return decoder_layer(**{**given, **change(given)})

    return layer


def _self(read: Callable, mask: int | None = 1, keep: Callable = lambda x, n: x) -> Callable:
    """A first step that reads something else: `read(x, norm)` gives query, key and value."""
    return _steps(
        first=lambda x, a, n, masks: (
            keep(x, n) + a(*read(x, n), None if mask is None else masks[mask])
        )
    )


def _cross(
    read: Callable = lambda h, m: (h, m, m),
    mask: Callable | None = lambda masks, x, m: masks[0],
    keep: Callable = lambda x, h, m, start: x,
) -> Callable:
    """A second step that reads something else: `read(h, memory)` gives query, key and value."""
    return _steps(
        cross=lambda x, m, c, n, masks, start: (
            keep(x, n(x), m, start) + c(*read(n(x), m), mask and mask(masks, x, m))
        )
    )


def _post_norm_layer(x, memory, src_mask, tgt_mask, a, c, f, norms):
    x = norms[0](x + a(x, x, x, tgt_mask))
    x = norms[1](x + c(x, memory, memory, src_mask))
    return norms[2](x + f(x))


def _cross_first(x, memory, src_mask, tgt_mask, a, c, f, norms):
    x = x + c(norms[0](x), memory, memory, src_mask)
    h = norms[1](x)
    x = x + a(h, h, h, tgt_mask)
    return x + f(norms[2](x))


def _norm_outputs(x, memory, src_mask, tgt_mask, a, c, f, norms):
    x = x + norms[0](a(x, x, x, tgt_mask))
    x = x + norms[1](c(x, memory, memory, src_mask))
    return x + norms[2](f(x))


def _no_norms(x, memory, src_mask, tgt_mask, a, c, f, norms):
    x = x + a(x, x, x, tgt_mask)
    x = x + c(x, memory, memory, src_mask)
    return x + f(x)


def _round_the_normed(x, memory, src_mask, tgt_mask, a, c, f, norms):
    x = norms[0](x)
    x = x + a(x, x, x, tgt_mask)
    x = norms[1](x)
    x = x + c(x, memory, memory, src_mask)
    x = norms[2](x)
    return x + f(x)


def _no_residuals(x, memory, src_mask, tgt_mask, a, c, f, norms):
    h = norms[0](x)
    x = a(h, h, h, tgt_mask)
    x = c(norms[1](x), memory, memory, src_mask)
    return f(norms[2](x))


def _net_second(x, memory, src_mask, tgt_mask, a, c, f, norms):
    h = norms[0](x)
    x = x + a(h, h, h, tgt_mask)
    x = x + f(norms[1](x))
    return x + c(norms[2](x), memory, memory, src_mask)


def _net_first(x, memory, src_mask, tgt_mask, a, c, f, norms):
    x = x + f(norms[0](x))
    h = norms[1](x)
    x = x + a(h, h, h, tgt_mask)
    return x + c(norms[2](x), memory, memory, src_mask)


def _memory_twice(x, memory, src_mask, tgt_mask, a, c, f, norms):
    x = x + a(norms[0](x), memory, memory, src_mask)
    x = x + c(norms[1](x), memory, memory, src_mask)
    return x + f(norms[2](x))


def _past_cross(x, memory, src_mask, tgt_mask, a, c, f, norms, reads=True):
    h = norms[0](x)
    x = x + a(h, h, h, tgt_mask)
    y = x + c(norms[1](x), memory, memory, src_mask)
    return x + f(norms[2](y)) if reads else y + f(norms[2](x))


def _asks_with_the_input(x, memory, src_mask, tgt_mask, a, c, f, norms):
    h = norms[0](x)
    y = x + a(h, h, h, tgt_mask)
    y = y + c(norms[1](x), memory, memory, src_mask)
    return y + f(norms[2](y))


def _asks_with_the_first_norm(x, memory, src_mask, tgt_mask, a, c, f, norms):
    h = norms[0](x)
    x = x + a(h, h, h, tgt_mask)
    x = x + c(h, memory, memory, src_mask)
    return x + f(norms[2](x))


def _layer_with(change: Callable = lambda given: {}, **steps: Callable) -> Callable:
    """A decoder layer, right by default: its steps, and the arguments that they get."""
    names = "x memory src_mask tgt_mask self_attention cross_attention feed_forward norms".split()

    def layer(*arguments):
        given = dict(zip(names, arguments, strict=True))
        return _steps(**steps)(**{**given, **change(given)})

    return layer


DECODER_SLIPS = [
    ("the first residual connection round the normed x",
     {"first": lambda x, a, n, masks: n(x) + a(n(x), n(x), n(x), masks[1])},
     "What is added to is x before the norm."),
    ("keys and values of the un-normed x",
     {"first": lambda x, a, n, masks: x + a(n(x), x, x, masks[1])},
     "All three read the normed stream."),
    ("the first norm lost", {"first": lambda x, a, n, masks: x + a(x, x, x, masks[1])},
     "A sub-layer reads the normed stream."),
    ("no mask in self-attention", {"first": lambda x, a, n, masks: x + a(n(x), n(x), n(x), None)},
     "tgt_mask hides the future."),
    ("the memory normed",
     {"cross": lambda x, m, c, n, masks, start: x + c(n(x), n(m), n(m), masks[0])},
     "The memory is normed already."),
    *((f"the {which} of the memory normed",
       {"cross": lambda x, m, c, n, masks, start, k=k, v=v: (
           x + c(n(x), n(m) if k else m, n(m) if v else m, masks[0]))},
       "The memory is normed already.") for which, k, v in (("keys", 1, 0), ("values", 0, 1))),
    ("the query of cross-attention not normed",
     {"cross": lambda x, m, c, n, masks, start: x + c(x, m, m, masks[0])},
     "Its query is the normed stream."),
    ("keys and values from the target, with the source's mask",
     {"cross": lambda x, m, c, n, masks, start: x + c(n(x), n(x), n(x), masks[0])},
     "Keys and values of cross-attention are the memory."),
    ("the memory as query, with the source's mask",
     {"cross": lambda x, m, c, n, masks, start: x + c(m, n(x), n(x), masks[0])},
     "Queries come from x, keys and values from the memory."),
    ("the second residual connection round the normed x",
     {"cross": lambda x, m, c, n, masks, start: n(x) + c(n(x), m, m, masks[0])},
     "What is added to is x before the norm."),
    ("keys from the memory, values from the target",
     {"cross": lambda x, m, c, n, masks, start: x + c(n(x), m, n(x), masks[0])},
     "Keys and values of cross-attention are the memory."),
    ("no residual connection round cross-attention",
     {"cross": lambda x, m, c, n, masks, start: c(n(x), m, m, masks[0])},
     "All three sub-layers stand in a residual connection."),
    ("no mask in cross-attention",
     {"cross": lambda x, m, c, n, masks, start: x + c(n(x), m, m, None)},
     "src_mask hides the source's padding."),
    ("a norm at the end of the layer", {"end": lambda x, f, n, start: n(x + f(n(x)))},
     "The final norm belongs to the stack."),
    ("the last norm lost", {"end": lambda x, f, n, start: x + f(x)},
     "The net reads the normed stream."),
    ("no residual connection round the net",
     {"end": lambda x, f, n, start: f(n(x))},
     "All three sub-layers stand in a residual connection."),
    ("the two masks in each other's place",
     {"change": lambda g: {"src_mask": g["tgt_mask"], "tgt_mask": g["src_mask"]}},
     "tgt_mask belongs to self-attention and src_mask to cross-attention."),
    ("the norms in reverse order", {"change": lambda g: {"norms": g["norms"][::-1]}},
     "The norms are given in the order of use."),
    ("the second norm used twice",
     {"change": lambda g: {"norms": [g["norms"][i] for i in (0, 1, 1)]}},
     "Each sub-layer has a norm of its own."),
    ("one norm used three times", {"change": lambda g: {"norms": [g["norms"][0]] * 3}},
     "Each sub-layer has a norm of its own."),
    ("the two attentions in each other's place",
     {"change": lambda g: {
         "self_attention": g["cross_attention"], "cross_attention": g["self_attention"]
     }},
     "Each attention has weights of its own."),
]  # fmt: skip
DECODER_BUT = [
    ("no mask in self-attention", "the two masks in each other's place"),
    ("no mask in cross-attention", "the two masks in each other's place"),
    ("the last norm lost", "the second norm used twice"),
]


NORMED = "In pre-norm the sub-layer reads the normed stream: queries, keys and values alike."
KEYS_AND_VALUES = (
    "Keys and values both come from the memory: a key says where to look, its value what is found "
    "there."
)
DECODER_MISTAKES = mistakes(
    *combined(_layer_with, DECODER_SLIPS, but=DECODER_BUT),
    ("post-norm", _post_norm_layer,
     "This is the paper's order. In pre-norm the norm stands before the sub-layer, and the sums "
     "are left alone."),
    ("the memory normed", _steps(
        cross=lambda x, m, c, n, masks, start: x + c(n(x), n(m), n(m), masks[0])),
     "The memory left the encoder through its final norm, and is read as it is."),
    *((f"what {part.replace('_', '-')} gives subtracted",
       _rewired(lambda g, part=part: {part: lambda *a, **k: -g[part](*a, **k)}),
       "What each of the three sub-layers gives is added to the stream.")
      for part in ("self_attention", "cross_attention", "feed_forward")),
    *((f"the input of {part.replace('_', '-')} added, and not what it gives",
       _rewired(lambda g, part=part: {part: lambda q, *a: q}),
       "What is added to the stream is what the sub-layer makes of what it reads.")
      for part in ("self_attention", "cross_attention", "feed_forward")),
    *((f"the norms used in the order {', '.join(map(str, used))}",
       _rewired(lambda g, used=used: {"norms": [g["norms"][i] for i in used]}),
       "The norms are given in the order of use, 0, 1, 2: one for each sub-layer.")
      for used in ((0, 0, 2), (1, 1, 2), (2, 1, 2), (0, 2, 2), (0, 1, 0), (1, 2, 0), (2, 0, 1))),
    ("no self-attention",
     _layer_with(lambda g: {"self_attention": lambda q, k, v, mask: torch.zeros_like(q)}),
     "The first of three sub-layers looks at the target's own words."),
    ("the feed-forward net first", _net_first,
     "It computes on what the attentions have found, and comes last."),
    ("the values of the memory normed", _steps(
        cross=lambda x, m, c, n, masks, start: x + c(n(x), m, n(m), masks[0])),
     "The memory left the encoder through its final norm, and is read as it is."),
    ("the keys of the memory normed", _steps(
        cross=lambda x, m, c, n, masks, start: x + c(n(x), n(m), m, masks[0])),
     "The memory left the encoder through its final norm, and is read as it is."),
    ("the memory read by both attentions", _memory_twice,
     "Self-attention looks at the target's own words: queries, keys and values of the stream."),
    *((f"the memory normed by the {which} norm",
       _layer_with(lambda g, i=i: {"memory": g["norms"][i](g["memory"])}),
       "The memory left the encoder through its final norm, and is read as it is.")
      for i, which in ((0, "first"), (2, "last"))),
    ("the memory normed in place of the query", _steps(
        cross=lambda x, m, c, n, masks, start: x + c(x, n(m), n(m), masks[0])),
     "It is the stream that must be normed before it is read. The memory is normed already."),
    ("the query of cross-attention not normed", _steps(
        cross=lambda x, m, c, n, masks, start: x + c(x, m, m, masks[0])),
     "`norms[1]` stands before cross-attention: its query is the normed stream."),
    ("the norms lost", _no_norms,
     "The norms were computed and not used, or left out: each sub-layer must read the normed "
     "stream. An outer `x` inside a lambda does this without a word."),
    ("the first norm lost", _self(lambda x, n: (x, x, x)), NORMED),
    ("queries of the un-normed x", _self(lambda x, n: (x, n(x), n(x))), NORMED),
    ("keys and values of the un-normed x", _self(lambda x, n: (n(x), x, x)), NORMED),
    ("values of the un-normed x", _self(lambda x, n: (n(x), n(x), x)), NORMED),
    ("the last norm lost", _steps(end=lambda x, f, n, start: x + f(x)),
     "The net reads the normed stream, `norms[2](x)`."),
    ("the residual connections round the normed x", _round_the_normed,
     "`x = norm(x)` overwrites the stream. What is added to must be x before the norm."),
    ("the first residual connection round the normed x",
     _self(lambda x, n: (n(x),) * 3, keep=lambda x, n: n(x)),
     "`x = norms[0](x)` overwrites the stream. What is added to must be x before the norm."),
    ("the second residual connection round the normed x", _cross(keep=lambda x, h, m, start: h),
     "What cross-attention finds is added to the stream, not to its norm."),
    ("the third residual connection round the normed x",
     _steps(end=lambda x, f, n, start: n(x) + f(n(x))),
     "What the net gives is added to the stream, not to its norm."),
    ("the norms on what the sub-layers give", _norm_outputs,
     "Pre-norm normalises what a sub-layer reads, not what it gives."),
    ("a norm at the end of the layer",
     _steps(end=lambda x, f, n, start: n(x + f(n(x)))),
     "The final norm of pre-norm belongs to the whole stack, not to each layer."),
    ("the target's mask in cross-attention", _cross(mask=lambda masks, x, m: masks[1]),
     "The keys of cross-attention come from the source, so it is the source's padding that is "
     "hidden. Where the lengths differ, the target's mask does not even fit."),
    ("no mask in cross-attention", _cross(mask=None),
     "The memory has rows for the source's padding, and src_mask hides them."),
    ("a causal mask on the source",
     _cross(mask=lambda masks, x, m: (
         masks[0] & torch.ones(x.shape[1], m.shape[1]).bool().tril()
     )),
     "The whole source is there from the beginning; cross-attention has no future to hide."),
    ("the source's mask in self-attention", _self(lambda x, n: (n(x),) * 3, mask=0),
     "The keys of self-attention are the target's own words: it takes tgt_mask, which also hides "
     "the future."),
    ("no mask in self-attention", _self(lambda x, n: (n(x),) * 3, mask=None),
     "Without tgt_mask every word sees the words that it is to predict."),
    ("the two masks in each other's place",
     _rewired(lambda g: {"src_mask": g["tgt_mask"], "tgt_mask": g["src_mask"]}),
     "tgt_mask belongs to self-attention and src_mask to cross-attention, where the keys come from "
     "the source."),
    ("the memory as query",
     _cross(lambda h, m: (m, h, h), lambda masks, x, m: masks[1]),
     "The decoder asks and the memory answers: queries come from x, keys and values from the "
     "memory."),
    ("the memory as query, with the source's mask", _cross(lambda h, m: (m, h, h)),
     "The decoder asks and the memory answers: queries come from x, keys and values from the "
     "memory."),
    ("the memory as query, key and value", _cross(lambda h, m: (m, m, m)),
     "Here the source looks at itself once more. Queries must come from x. (Where the lengths "
     "differ, the sum does not even fit.)"),
    ("keys and values from the target",
     _cross(lambda h, m: (h, h, h), lambda masks, x, m: masks[1]),
     "The source is not used at all. Keys and values of cross-attention are the memory."),
    ("keys and values from the target, with the source's mask", _cross(lambda h, m: (h, h, h)),
     "The source is not used at all. Keys and values of cross-attention are the memory."),
    ("keys from the memory, values from the target", _cross(lambda h, m: (h, m, h)),
     KEYS_AND_VALUES),
    ("values from the memory, keys from the target", _cross(lambda h, m: (h, h, m)),
     KEYS_AND_VALUES),
    ("cross-attention asks with what self-attention has read", _asks_with_the_first_norm,
     "Its query is `norms[1]` of what the first sub-layer left. `norms[0](x)` is older."),
    ("cross-attention asks with the layer's input", _asks_with_the_input,
     "The query of cross-attention is what the first sub-layer left, which knows the words "
     "before."),
    ("the second residual connection from the layer's input",
     _cross(keep=lambda x, h, m, start: start),
     "What cross-attention finds is added to what the first sub-layer left, not to the old x."),
    ("the third residual connection from the layer's input",
     _steps(end=lambda x, f, n, start: start + f(n(x))),
     "What the net gives is added to what cross-attention left. Here both attentions are lost from "
     "the stream."),
    ("the third residual connection from what self-attention left", _past_cross,
     "What the net gives is added to what cross-attention left. Here what was found in the source "
     "is lost from the stream."),
    ("the feed-forward net reads what self-attention left",
     lambda *arguments: _past_cross(*arguments, reads=False),
     "The sub-layers stand one after the other: the net reads what cross-attention left."),
    ("the feed-forward net before cross-attention", _net_second,
     "The feed-forward net comes last: it computes on what was found in the source."),
    ("the source's mask turned round", _rewired(lambda g: {"src_mask": ~g["src_mask"]}),
     "The mask is True where one may attend. Hand it over as it is."),
    ("the target's mask turned round", _rewired(lambda g: {"tgt_mask": ~g["tgt_mask"]}),
     "The mask is True where one may attend. Hand it over as it is."),
    ("no residual connection round self-attention",
     _self(lambda x, n: (n(x),) * 3, keep=lambda x, n: 0),
     "All three sub-layers stand in a residual connection."),
    ("the norm on what cross-attention gives", _steps(
        cross=lambda x, m, c, n, masks, start: x + n(c(x, m, m, masks[0]))),
     "Pre-norm normalises what a sub-layer reads, not what it gives."),
    ("the norm that cross-attention read handed on", lambda *given: _norm_kept(*given),
     "The net reads the norm of the stream as it is now: `norms[2](x)`, anew."),
    ("no residual connection round cross-attention", _cross(keep=lambda x, h, m, start: 0),
     "All three sub-layers stand in a residual connection. Without this one the target's own words "
     "are lost."),
    ("no residual connection round the feed-forward net",
     _steps(end=lambda x, f, n, start: f(n(x))),
     "All three sub-layers stand in a residual connection."),
    ("no residual connections", _no_residuals,
     "What a sub-layer gives is added to what was in the stream, and does not replace it."),
    ("the memory added in place of x", _cross(keep=lambda x, h, m, start: m),
     "The residual connection carries the target's own stream, x. (Where the lengths differ, the "
     "sum does not even fit.)"),
    ("one norm used three times", _rewired(lambda g: {"norms": [g["norms"][0]] * 3}),
     "Each sub-layer has a norm of its own, with its own gamma and beta."),
    ("the second norm used twice",
     _rewired(lambda g: {"norms": [g["norms"][i] for i in (0, 1, 1)]}),
     "Each sub-layer has a norm of its own. The last one, `norms[2]`, was not used."),
    ("the last two norms in each other's place",
     _rewired(lambda g: {"norms": [g["norms"][i] for i in (0, 2, 1)]}),
     "The norms are given in the order of use: the second belongs to cross-attention."),
    ("the norms in reverse order", _rewired(lambda g: {"norms": g["norms"][::-1]}),
     "The norms are given in the order of use."),
    ("cross-attention first", _cross_first,
     "First a position looks at its own past, and then, knowing what to ask, at the source."),
    ("the two attentions in each other's place",
     _rewired(
         lambda g: {
             "self_attention": g["cross_attention"],
             "cross_attention": g["self_attention"],
         }
     ),
     "Each attention has weights of its own: `self_attention` for the target's own words, "
     "`cross_attention` for the memory."),
    ("no cross-attention", _steps(cross=lambda x, m, c, n, masks, start: x),
     "The second of three sub-layers looks into the memory. Without it the source is not used."),
    ("no feed-forward net", _steps(end=lambda x, f, n, start: x),
     "The third sub-layer is missing: the feed-forward net, in its residual connection."),
    ("the first two norms in each other's place",
     _rewired(lambda given: {"norms": [given["norms"][i] for i in (1, 0, 2)]}),
     "The norms are in the order of use: the first for self-attention, the second for "
     "cross-attention."),
    ("cross-attention first, each with its own norm",
     lambda x, memory, src_mask, tgt_mask, a, c, f, norms: _cross_first(
         x, memory, src_mask, tgt_mask, a, c, f, [norms[i] for i in (1, 0, 2)]),
     "The decoder looks at its own words first, and at the memory after that."),
    ("all three sub-layers read the layer's input",
     lambda x, memory, src_mask, tgt_mask, self_attention, cross_attention, feed_forward, norms: (
         x + self_attention(*[norms[0](x)] * 3, tgt_mask)
         + cross_attention(norms[1](x), memory, memory, src_mask) + feed_forward(norms[2](x))),
     "The sub-layers stand one after the other: each reads what the one before left."),
    ("the last norm behind the sum",
     lambda x, memory, src_mask, tgt_mask, self_attention, cross_attention, feed_forward, norms: (
         lambda y: norms[2](y + feed_forward(y)))(
             (z := x + self_attention(*[norms[0](x)] * 3, tgt_mask))
             + cross_attention(norms[1](z), memory, memory, src_mask)),
     "So it stands in post-norm. In pre-norm the feed-forward net reads the normed stream, and the "
     "sum is left as it is."),
)  # fmt: skip

# 11.5 three masks


def three_masks(src: Tensor, tgt: Tensor, pad: int) -> tuple[Tensor, Tensor, Tensor]:
    src_mask = (src != pad)[:, None, None, :]
    causal = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool).tril()
    return src_mask, (tgt != pad)[:, None, None, :] & causal, src_mask


MASK_CASES = [
    (
        torch.tensor([[5, 6, 7, 3], [8, 3, 0, 0], [4, 4, 3, 0]]),
        torch.tensor([[2, 9, 0, 0], [2, 5, 6, 7], [2, 8, 3, 0]]),
        0,
    ),
    (torch.tensor([[5, 6, 9, 9, 9], [0, 7, 8, 0, 3]]), torch.tensor([[2, 9, 9], [2, 5, 0]]), 9),
    (torch.tensor([[5, 0]]), torch.tensor([[2, 7]]), 0),
    (torch.tensor([[4, 3, 6]]), torch.tensor([[2, 7, 5, 4, 6]]), 6),  # the longer target
]


def mask_probe(answer: Callable, src: Tensor, tgt: Tensor, pad: int) -> Any:
    """The three masks in full, (B, 1, S, S), (B, 1, T, T) and (B, 1, T, S), for one head."""
    masks = answer(src, tgt, pad)
    masks = list(masks) if isinstance(masks, Iterator) else masks
    if masks is None or not isinstance(masks, tuple | list):
        return masks
    if len(masks) != 3:
        raise ValueError(f"expected three masks, got {len(masks)}")
    (b, s), t = src.shape, tgt.shape[1]
    shapes = ((b, 1, s, s), (b, 1, t, t), (b, 1, t, s))
    full = []
    for mask, shape in zip(masks, shapes, strict=True):
        mask = torch.as_tensor(mask)
        if mask.dtype == torch.bool and mask.dim() == 4 and mask.shape[1] > 1:
            raise ValueError(f"expected one mask for all heads, got shape {tuple(mask.shape)}")
        try:
            full.append(mask.broadcast_to(shape))
        except RuntimeError:
            full.append(mask)  # of a shape that does not fit, and that is said
    return full


def _masks(
    encoder: Callable | None = None, decoder: Callable | None = None, cross: Callable | None = None
) -> Callable:
    """Three masks of which some are made in another way: from (src mask, tgt mask, causal)."""

    def answer(src, tgt, pad):
        s, t = (src != pad)[:, None, None, :], (tgt != pad)[:, None, None, :]
        causal = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool).tril()
        right = (s, t & causal, s)
        made = (encoder, decoder, cross)
        return tuple(f(s, t, causal) if f else r for f, r in zip(made, right, strict=True))

    return answer


def _square(length: int) -> Tensor:
    return torch.ones(length, length, dtype=torch.bool).tril()


def _cut(s: Tensor, t: Tensor) -> Tensor:
    return torch.ones(t.shape[-1], s.shape[-1], dtype=torch.bool).tril()


# The three masks with padded queries hidden as well.
QUERIES_TOO = (
    lambda s, t, causal: s & s.transpose(-2, -1),
    lambda s, t, causal: t & t.transpose(-2, -1) & causal,
    lambda s, t, causal: s & t.transpose(-2, -1),
)


def _added(*masks: Tensor) -> tuple[Tensor, ...]:
    return tuple(torch.zeros(mask.shape).masked_fill(~mask, -math.inf) for mask in masks)


def _eos_hidden(*hidden: int) -> Callable:
    def answer(src, tgt, pad):
        ends = [(tokens != EOS)[:, None, None, :] for tokens in (src, tgt, src)]
        masks = three_masks(src, tgt, pad)
        return tuple(masks[i] & end if i in hidden else masks[i] for i, end in enumerate(ends))

    return answer


def _masks_of_the_first(src: Tensor, tgt: Tensor, pad: int) -> tuple[Tensor, Tensor, Tensor]:
    return three_masks(src[:1].expand_as(src), tgt, pad)


def _along_queries(src: Tensor, tgt: Tensor, pad: int) -> tuple[Tensor, Tensor, Tensor]:
    s, t = ((tokens != pad)[:, None, :, None] for tokens in (src, tgt))
    return s, t & _square(tgt.shape[1]), s


def _ids_hidden(hidden: Callable[[Tensor, int], Tensor]) -> Callable:
    """The masks with other ids hidden than the padding's."""

    def answer(src, tgt, pad):
        s, t = (~hidden(ids, pad)[:, None, None, :] for ids in (src, tgt))
        return s, t & _square(tgt.shape[1]), s

    return answer


def _all_seen(places: tuple[int, ...]) -> Callable:
    """The masks, in which padded queries see more."""

    def answer(src, tgt, pad):
        s, t = ((ids == pad)[:, None, :, None] for ids in (src, tgt))
        more = s, t, t
        return tuple(
            mask | more[i] if i in places else mask
            for i, mask in enumerate(three_masks(src, tgt, pad))
        )

    return answer


def _diagonal(places: tuple[int, ...]) -> Callable:
    """The masks, in which each word of a self-attention sees itself."""

    def answer(src, tgt, pad):
        lengths = src.shape[1], tgt.shape[1]
        return tuple(
            mask | torch.eye(lengths[i]).bool() if i in places else mask
            for i, mask in enumerate(three_masks(src, tgt, pad))
        )

    return answer


MASK_MISTAKES = mistakes(
    ("the padding hidden along the queries' axis", _along_queries,
     "Rows are queries, columns are keys: padding is hidden in the last axis."),
    *((f"EOS hidden {where}", _eos_hidden(*hidden), "EOS is a token like any other: padding alone "
       "is hidden, and the future.") for where, hidden in (
        ("in the encoder", (0,)), ("in the decoder", (1,)), ("in cross-attention", (2,)),
        ("in encoder and cross-attention", (0, 2)), ("everywhere", (0, 1, 2)))),
    ("numbers to be added, 0 and minus infinity", lambda *case: _added(*three_masks(*case)),
     "These are masks M of equation (8.2). Asked for are the boolean ones."),
    ("the first source's padding for all", _masks_of_the_first,
     "Each row has padding of its own: keep the axis of the sentences."),
    ("the decoder's mask first",
     lambda *case: (lambda s, t, cross: (t, s, cross))(*three_masks(*case)),
     "The encoder's comes first, then the decoder's, then that of cross-attention."),
    ("the target's padding in cross-attention",
     _masks(cross=lambda s, t, causal: t),
     "The keys of cross-attention come from the source, so it is the source's padding that is "
     "hidden. Where the lengths differ, the target's mask does not even fit."),
    ("the decoder's mask in cross-attention",
     _masks(cross=lambda s, t, causal: t & causal),
     "Cross-attention looks at the source, all of which is there: only its padding is hidden."),
    ("a causal mask in cross-attention", _masks(cross=lambda s, t, causal: s & _cut(s, t)),
     "The source has no future: every target word may see the whole of it."),
    ("nothing hidden in cross-attention", _masks(cross=lambda s, t, causal: torch.ones_like(s)),
     "The memory has rows for the source's padding, and they must be hidden."),
    ("both paddings in cross-attention", _masks(cross=lambda s, t, causal: s & t.transpose(-2, -1)),
     "A mask hides keys. Padded queries are left alone: their outputs go nowhere, and a row with "
     "nothing to look at makes trouble."),
    ("a causal mask in the encoder", _masks(encoder=lambda s, t, causal: s & _square(s.shape[-1])),
     "The source is read as a whole. Only the target has a future that must be hidden."),
    ("a causal mask in the encoder and in cross-attention",
     _masks(
         encoder=lambda s, t, causal: s & _square(s.shape[-1]),
         cross=lambda s, t, causal: s & _cut(s, t),
     ),
     "The source is read as a whole. Only the target has a future that must be hidden."),
    ("no causal mask", _masks(decoder=lambda s, t, causal: t),
     "The decoder must not see the words that it is to predict."),
    ("no padding in the decoder's mask", _masks(decoder=lambda s, t, causal: causal),
     "With padding on the right the triangle alone would do for real words, but the mask asked for "
     "hides padding, too: a key may be seen if both say so."),
    ("padding or past, in place of and", _masks(decoder=lambda s, t, causal: t | causal),
     "A key may be seen if it is a token and not in the future: `&`, not `|`."),
    ("the upper triangle", _masks(decoder=lambda s, t, causal: t & causal.transpose(0, 1)),
     "This shows the future and hides the past. Row t may look at columns up to t."),
    ("the triangle without its diagonal", _masks(decoder=lambda s, t, causal: t & causal.tril(-1)),
     "A position may look at itself. The shift of the labels takes care of the rest."),
    ("the triangle one diagonal too high",
     _masks(decoder=lambda s, t, causal: t & torch.ones_like(causal).tril(1)),
     "Each word sees one word of its future, and that is the very one it is to predict."),
    ("True where it is hidden",
     lambda src, tgt, pad: tuple(~mask for mask in three_masks(src, tgt, pad)),
     "True = may attend in this book. PyTorch's module says the opposite."),
    ("the paddings turned round",
     lambda src, tgt, pad: (
         (src == pad)[:, None, None],
         (tgt == pad)[:, None, None] & _square(tgt.shape[1]),
         (src == pad)[:, None, None],
     ),
     "`tokens == pad` is True at the padding. The mask should be True at the tokens."),
    ("the padding along the queries",
     lambda src, tgt, pad: (
         (src != pad)[:, None, :, None],
         (tgt != pad)[:, None, :, None] & _square(tgt.shape[1]),
         (tgt != pad)[:, None, :, None],
     ),
     "What is hidden are keys, which lie along the last axis."),
    ("the padding along keys and queries",
     lambda src, tgt, pad: (
         (src != pad)[:, None, None, :] & (src != pad)[:, None, :, None],
         (tgt != pad)[:, None, None, :] & (tgt != pad)[:, None, :, None] & _square(tgt.shape[1]),
         (src != pad)[:, None, None, :] & (tgt != pad)[:, None, :, None],
     ),
     "A mask hides keys. Padded queries are left alone: their outputs go nowhere, and a row with "
     "nothing to look at makes trouble."),
    ("the axis of the heads missing",
     lambda src, tgt, pad: tuple(mask[:, 0] for mask in three_masks(src, tgt, pad)),
     "A mask (B, T, S) does not broadcast to scores (B, H, T, S): its first axis falls on the "
     "heads. Put an axis of length 1 in second place."),
    *((f"the axis of the heads missing {where}",
       lambda src, tgt, pad, places=places: tuple(
           mask[:, 0] if i in places else mask
           for i, mask in enumerate(three_masks(src, tgt, pad))),
       "A mask (B, T, S) does not broadcast to scores (B, H, T, S): its first axis falls on the "
       "heads. Put an axis of length 1 in second place.")
      for where, places in (("in the decoder", (1,)), ("in encoder and cross-attention", (0, 2)))),
    ("nothing seen in the decoder", _masks(decoder=lambda s, t, causal: t & ~causal & causal),
     "A target word sees itself and all before it: the lower triangle of ones."),
    ("the axis of the queries missing, and that of the heads",
     lambda src, tgt, pad: (
         src != pad, (tgt != pad)[:, None, None, :] & _square(tgt.shape[1]), src != pad
     ),
     "A mask (B, S) does not broadcast to scores (B, H, T, S). Put two axes of length 1 between."),
    ("padding taken for 0", lambda src, tgt, pad: three_masks(src, tgt, 0),
     "The id of the padding is given as `pad`, and is not always 0."),
    ("numbers in place of True and False",
     lambda src, tgt, pad: tuple(one.float() for one in three_masks(src, tgt, pad)),
     "The places are right. The masks should be boolean."),
    ("padded queries hidden in the decoder",
     _masks(decoder=lambda s, t, causal: t.transpose(-2, -1) & causal),
     "A mask hides keys, which lie along the last axis: (B, 1, 1, T). With (B, 1, T, 1) it hides "
     "queries, alone or besides, and no query is hidden, not even one that is padding."),
    *((f"padded queries hidden in {names}",
       _masks(*(QUERIES_TOO[i] if i in places else None for i in range(3))),
       "A mask hides keys. Padded queries are left alone: their outputs go nowhere, and a row with "
       "nothing to look at makes trouble.")
      for names, places in (
          ("the encoder", (0,)), ("the encoder and the decoder", (0, 1)),
          ("the encoder and cross-attention", (0, 2)), ("the decoder and cross-attention", (1, 2)),
      )),
    ("the target's padding along the queries of cross-attention",
     _masks(cross=lambda s, t, causal: t.transpose(-2, -1)),
     "A mask hides keys, and those of cross-attention come from the source: (B, 1, 1, S)."),
    ("the decoder's mask turned over its diagonal",
     _masks(decoder=lambda s, t, causal: (t & causal).transpose(-2, -1)),
     "Queries lie along the last axis but one, keys along the last: leave the mask as it was."),
    ("the last two masks in each other's place",
     lambda src, tgt, pad: tuple(three_masks(src, tgt, pad)[i] for i in (0, 2, 1)),
     "First comes the encoder's, then that of the decoder's self-attention, and cross-attention's "
     "last."),
    ("ids above the padding in place of all others",
     lambda src, tgt, pad: tuple(
         (keys > pad)[:, None, None, :] & seen
         for keys, seen in ((src, torch.tensor(True)), (tgt, _square(tgt.shape[1])),
                            (src, torch.tensor(True)))),
     "The padding's id need not be the smallest: compare with `!=`."),
    ("nothing hidden in the encoder", _masks(encoder=lambda s, t, causal: torch.ones_like(s)),
     "The source has padding, which no query of the encoder may see."),
    ("padding in one place hidden only if it is there in both, in cross-attention",
     _masks(cross=lambda s, t, causal: s | t.transpose(-2, -1)),
     "The source's padding is hidden from every query, whether the query is padding or not."),
    ("a word sees itself and the one before it",
     _masks(decoder=lambda s, t, causal: t & causal & ~causal.tril(-2)),
     "All words before are seen: the lower triangle."),
    ("hidden only what is padding in all sentences",
     lambda *case: tuple(mask.any(0, keepdim=True) for mask in three_masks(*case)),
     "Each row has padding of its own: keep the axis of the sentences."),
    ("hidden for all what is padding in any sentence",
     lambda *case: tuple(mask.all(0, keepdim=True) for mask in three_masks(*case)),
     "Each row has padding of its own: keep the axis of the sentences."),
    ("source and target in each other's place",
     lambda src, tgt, pad: three_masks(tgt, src, pad),
     "The encoder reads `src`, the decoder `tgt`, and the keys of cross-attention come from `src`. "
     "Look at the order of your arguments."),
    ("ids up to 3 hidden, and `pad` not asked for", _ids_hidden(lambda ids, pad: ids <= EOS),
     "`BOS` and `EOS` are tokens like any other. Hidden is the padding, whose id is given as "
     "`pad`."),
    ("BOS and EOS hidden as well",
     _ids_hidden(lambda ids, pad: (ids == pad) | (ids == BOS) | (ids == EOS)),
     "They are tokens like any other: padding alone is hidden, and the future."),
    *((f"padded queries see everything, in {names}", _all_seen(places),
       "No query is to be treated in another way: from padding, too, padding is hidden, and the "
       "future.")
      for names, places in (("the encoder", (0,)), ("cross-attention", (2,)),
                            ("encoder and cross-attention", (0, 2)), ("all three", (0, 1, 2)))),
    *((f"the diagonal opened {where}", _diagonal(places),
       "Padding is hidden from every query, from itself as well.")
      for where, places in (("in the encoder", (0,)), ("in encoder and decoder", (0, 1)))),
    ("the source's mask alone", lambda *case: three_masks(*case)[0],
     "Three masks are asked for: for the encoder, the decoder, and cross-attention."),
    ("the future alone",
     _masks(decoder=lambda s, t, causal: t & ~causal),
     "This shows the future and hides the past, and each word itself. Row t may look at columns up "
     "to t: do not turn `tril` round."),
    ("a word sees itself even if it is padding",
     _masks(decoder=lambda s, t, causal: (t & causal) | torch.eye(len(causal), dtype=torch.bool)),
     "Padding is hidden from every query, from itself as well. (In a target that begins with BOS "
     "no row is left with nothing to look at.)"),
    ("the masks of the first pair alone",
     lambda src, tgt, pad: three_masks(src[:1], tgt[:1], pad),
     "Each row has padding of its own: keep the axis of the sentences."),
    ("each target word sees itself alone",
     _masks(decoder=lambda s, t, causal: t & torch.eye(len(causal), dtype=torch.bool)),
     "A target word sees itself and all before it: the lower triangle."),
    ("the axes of length 1 missing",
     lambda src, tgt, pad: (src != pad, three_masks(src, tgt, pad)[1][:, 0], src != pad),
     "Scores are (B, H, T, S). A mask (B, S) needs two axes of length 1 between, and (B, T, T) one "
     "for the heads."),
    ("True where both or neither of padding and triangle say so, in the decoder",
     _masks(decoder=lambda s, t, causal: t == causal),
     "A key may be seen if it is a token and not in the future: `&`."),
    ("padding or future, turned nowhere", _masks(
         encoder=lambda s, t, causal: ~s, decoder=lambda s, t, causal: ~t,
         cross=lambda s, t, causal: ~s),
     "True = may attend: at the tokens, not at the padding. And the decoder's mask hides the "
     "future as well."),
    ("the first column hidden in the decoder",
     _masks(decoder=lambda s, t, causal: t & causal & (torch.arange(len(causal)) > 0)),
     "BOS is a token like any other, and the first word has nothing else to look at."),
    ("ids below the padding in place of all others",
     lambda src, tgt, pad: tuple(
         (keys < pad)[:, None, None, :] & seen
         for keys, seen in ((src, torch.tensor(True)), (tgt, _square(tgt.shape[1])),
                            (src, torch.tensor(True)))),
     "The padding's id need not be the largest: compare with `!=`."),
)  # fmt: skip

# 11.6 a batch with its ends

BATCH_CASES = [
    ([([5, 6], [7]), ([8], [9, 4])],),
    ([([5, 6, 7, 8], [9, 10]), ([11], [12, 13]), ([4, 5], [6])],),
    ([([9], [4, 5, 6, 7])],),
    ([([5], []), ([], [8, 9]), ([4], [7])],),
]


def rows(pairs: list, src: Callable, read: Callable, labels: Callable) -> list[Tensor]:
    sources = [src(list(source)) for source, _ in pairs]
    reads, asked = ([f(list(target)) for _, target in pairs] for f in (read, labels))
    return [pad(sources), pad(reads), pad(asked)]


def make_batch(pairs: list) -> list[Tensor]:
    return rows(pairs, lambda s: [*s, EOS], lambda t: [BOS, *t], lambda t: [*t, EOS])


def batch_form(output):
    """Tuples and lists of tensors or of lists of lists are all one."""
    return [torch.as_tensor(part).long() for part in output]


def _batch(
    src: Callable = lambda s: [*s, EOS],
    read: Callable = lambda t: [BOS, *t],
    labels: Callable = lambda t: [*t, EOS],
) -> Callable:
    return lambda pairs: rows(pairs, src, read, labels)


def _left(sequences: list) -> Tensor:
    return pad([row[::-1] for row in sequences]).flip(1)


def _left_batch(pairs):
    return [
        _left([[*s, EOS] for s, _ in pairs]),
        _left([[BOS, *t] for _, t in pairs]),
        _left([[*t, EOS] for _, t in pairs]),
    ]


def _filled_with(filler: int) -> Callable:
    def answer(pairs):
        filled = []
        for lists in (
            [[*s, EOS] for s, _ in pairs],
            [[BOS, *t] for _, t in pairs],
            [[*t, EOS] for _, t in pairs],
        ):
            width = max(map(len, lists))
            filled.append(torch.tensor([[*r, *[filler] * (width - len(r))] for r in lists]))
        return filled

    return answer


def _one_width(pairs):
    parts = make_batch(pairs)
    width = max(part.shape[1] for part in parts)
    return [nn.functional.pad(part, (0, width - part.shape[1])) for part in parts]


def _cut_columns(pairs):
    src, tgt = pad([[*s, EOS] for s, _ in pairs]), pad([[BOS, *t, EOS] for _, t in pairs])
    return [src, tgt[:, :-1], tgt[:, 1:]]


def _ends_at_the_end(pairs):
    """EOS behind the padding of source and labels alike."""
    end = torch.full((len(pairs), 1), EOS)
    sources, ids = pad([list(s) for s, _ in pairs]), pad([list(t) for _, t in pairs])
    return [torch.cat([sources, end], 1), make_batch(pairs)[1], torch.cat([ids, end], 1)]


def _labels_ignored(pairs):
    src, read, labels = make_batch(pairs)
    return [src, read, labels.masked_fill(labels == PAD, -100)]


def _end_at_the_end(pairs):
    src, read, labels = make_batch(pairs)
    ids = pad([list(t) for _, t in pairs])
    return [src, read, torch.cat([ids, torch.full((len(pairs), 1), EOS)], 1)]


BATCH_SLIPS = [
    ("EOS missing in the source", {"src": lambda s: [*s]}, "The source ends in EOS."),
    ("BOS and EOS round the source", {"src": lambda s: [BOS, *s, EOS]},
     "The source has nothing in front."),
    ("BOS in front of the source, in place of EOS", {"src": lambda s: [BOS, *s]},
     "The source has EOS at its end, and nothing in front."),
    ("BOS missing in what is read", {"read": lambda t: [*t]}, "What is read begins with BOS."),
    ("EOS in what is read", {"read": lambda t: [BOS, *t, EOS]},
     "What is read has no EOS."),
    ("EOS as BOS", {"read": lambda t: [EOS, *t]}, "What is read begins with BOS, which is 2."),
    ("EOS missing in the labels", {"labels": lambda t: [*t]}, "The labels end in EOS."),
    ("no EOS, but BOS in the labels", {"labels": lambda t: [BOS, *t]},
     "The labels end in EOS, and have no BOS."),
]  # fmt: skip

BATCH_MISTAKES = mistakes(
    ("what is read filled with BOS",
     lambda pairs: [make_batch(pairs)[0], _filled_with(BOS)(pairs)[1], make_batch(pairs)[2]],
     "Rows are filled with PAD, which is 0."),
    ("the labels in reverse", _batch(labels=lambda t: [*t[::-1], EOS]),
     "Each place is asked for the token that follows what it has read."),
    ("EOS in the last column of the labels, over what is there",
     lambda pairs: (lambda src, read, labels: [
         src, read, torch.cat([labels[:, :-1], torch.full((len(pairs), 1), EOS)], 1)
     ])(*make_batch(pairs)),
     "EOS comes directly after the last word of each row, and the padding after that: there is one "
     "in each row already."),
    ("filled with -100", _filled_with(-100),
     "-100 is what PyTorch's loss leaves out by default. Here rows are filled with PAD, which is "
     "0."),
    ("no EOS in the labels, and the last token not read",
     _batch(read=lambda t: [BOS, *t[:-1]], labels=lambda t: [*t]),
     "The shift comes by itself, with BOS in front of what is read and EOS behind the labels: no "
     "token is cut off."),
    ("the last token not read, BOS always",
     _batch(read=lambda t: [BOS, *t[:-1]]),
     "What is read has as many places as the labels: BOS and all ids."),
    ("EOS in front of the source", _batch(src=lambda s: [EOS, *s]),
     "EOS ends the source: it stands behind the ids."),
    ("BOS behind what is read", _batch(read=lambda t: [*t, BOS]),
     "BOS begins what is read: it stands in front of the ids."),
    ("1 as BOS", _batch(read=lambda t: [1, *t]), "BOS is 2; 1 is UNK."),
    ("BOS twice in what is read", _batch(read=lambda t: [BOS, BOS, *t]),
     "What is read has as many places as the labels: one BOS, and the ids."),
    ("pairs without a target left out",
     lambda pairs: make_batch([pair for pair in pairs if pair[1]]),
     "A target without ids is a target: BOS is read, and EOS is asked for."),
    ("pairs without a source or a target left out",
     lambda pairs: make_batch([pair for pair in pairs if all(pair)]),
     "A list without ids is a list: BOS and EOS stand there all the same."),
    ("no shift: labels equal what is read", _batch(labels=lambda t: [BOS, *t]),
     "Each place would be asked for the very token it reads. The labels are one step ahead."),
    ("no shift: the labels are read",
     _batch(read=lambda t: [*t, EOS], labels=lambda t: [*t, EOS]),
     "Each place would be asked for the very token it reads. What is read begins with BOS."),
    ("the shift the wrong way round", _batch(read=lambda t: [*t, EOS], labels=lambda t: [BOS, *t]),
     "Here each place is asked for the token before. What is read and the labels have changed "
     "places."),
    ("shifted twice", _batch(labels=lambda t: [*t[1:], EOS, EOS][: len(t) + 1]),
     "Each place is asked for the token after the next. After BOS comes the first token."),
    ("BOS missing in what is read", _batch(read=lambda t: [*t]),
     "Without BOS nothing is there from which the first token could be predicted."),
    ("EOS missing in the labels", _batch(labels=lambda t: [*t]),
     "The decoder is never asked for EOS, and will not know when to stop."),
    ("EOS missing in the source", _batch(src=lambda s: [*s]),
     "The source ends in EOS as well: the encoder is to see where it stops."),
    ("BOS and EOS round the source", _batch(src=lambda s: [BOS, *s, EOS]),
     "The source has EOS at its end, and nothing in front."),
    ("BOS in front of the source, in place of EOS", _batch(src=lambda s: [BOS, *s]),
     "The source has EOS at its end, and nothing in front."),
    ("the last token not read", _batch(read=lambda t: [BOS, *t][:-1]),
     "What is read has as many places as the labels: BOS and all ids."),
    ("the first label lost", _batch(labels=lambda t: [*t, EOS][1:]),
     "The labels are one step ahead of what is read: after BOS comes the first id, and the labels "
     "begin with it."),
    ("PAD in place of BOS", _batch(read=lambda t: [PAD, *t]), "What is read begins with BOS."),
    ("PAD in place of EOS in the labels", _batch(labels=lambda t: [*t, PAD]),
     "The decoder is never asked for EOS, and will not know when to stop."),
    ("PAD in place of EOS in the source", _batch(src=lambda s: [*s, PAD]),
     "The source ends in EOS as well: the encoder is to see where it stops."),
    *((f"a column of padding too many in {names}",
       lambda pairs, places=places: [
           nn.functional.pad(part, (0, int(i in places)))
           for i, part in enumerate(make_batch(pairs))],
       "Rows are filled up to the longest of their kind, with its BOS or EOS counted.")
      for names, places in (("the source", (0,)), ("what is read", (1,)), ("the labels", (2,)),
                            ("what is read and in the labels", (1, 2)), ("all three", (0, 1, 2)))),
    ("no special tokens at all",
     _batch(src=lambda s: [*s], read=lambda t: [*t], labels=lambda t: [*t]),
     "The source ends in EOS, what is read begins with BOS, the labels end in EOS."),
    ("EOS in what is read", _batch(read=lambda t: [BOS, *t, EOS]),
     "What is read has as many places as the labels. After EOS nothing is left to predict."),
    ("cut from the padded batch", _cut_columns,
     "`tgt[:, :-1]` takes EOS away from the longest rows only; shorter ones still read it. That is "
     "harmless, as Chapter 8 says, but it is not what is asked for here: BOS and ids."),
    ("BOS and EOS in what is read and in the labels",
     _batch(read=lambda t: [BOS, *t, EOS], labels=lambda t: [BOS, *t, EOS]),
     "This is the whole target twice. What is read is all but EOS, the labels are all but BOS."),
    ("EOS as BOS", _batch(read=lambda t: [EOS, *t]), "What is read begins with BOS, which is 2."),
    ("BOS as EOS", _batch(src=lambda s: [*s, BOS], labels=lambda t: [*t, BOS]),
     "What ends a row is EOS, which is 3."),
    ("BOS and EOS in each other's place",
     _batch(lambda s: [*s, BOS], lambda t: [EOS, *t], lambda t: [*t, BOS]),
     "BOS is 2 and begins, EOS is 3 and ends."),
    ("BOS in the labels", _batch(labels=lambda t: [BOS, *t, EOS]),
     "The labels have no BOS: nobody predicts it, and they have as many places as what is read."),
    ("labels filled with -100", _labels_ignored,
     "-100 is what PyTorch's loss leaves out by default. Here rows are filled with PAD, which is "
     "0, and the loss is told so."),
    ("EOS behind the padding", _ends_at_the_end,
     "EOS comes directly after the last word of each row, and the padding after that."),
    ("EOS of the labels behind the padding", _end_at_the_end,
     "EOS comes directly after the last word of each row, and the padding after that."),
    ("padding on the left", _left_batch,
     "PAD stands on the right, so that places count from the first word."),
    ("what the decoder reads first", lambda pairs: [make_batch(pairs)[i] for i in (1, 0, 2)],
     "The three are asked for in this order: source, what the decoder reads, labels."),
    ("the last label lost", _batch(labels=lambda t: [*t[1:], EOS]),
     "The labels are one step ahead of what is read: after BOS comes the first id, and the labels "
     "begin with it."),
    ("filled with 1", _filled_with(1), "Rows are filled with PAD, which is 0; 1 is UNK."),
    ("filled with EOS", _filled_with(EOS),
     "Rows are filled with PAD, which is 0; then the loss can leave it out."),
    ("filled with -1", _filled_with(-1), "Rows are filled with PAD, which is 0: -1 is no token."),
    ("source and target filled to one width", _one_width,
     "Source and target are filled up each to its own longest row."),
    ("source and target in each other's place",
     lambda pairs: make_batch([(target, source) for source, target in pairs]),
     "Each pair is source first, then target."),
    ("the source in reverse", _batch(src=lambda s: [*s[::-1], EOS]),
     "Some models of 2014 read it so. Here the source is read from its first word on."),
    ("the first pair alone", lambda pairs: make_batch(pairs[:1]), "All pairs are in the batch."),
    ("the source copied from the target",
     lambda pairs: make_batch([(target, target) for _, target in pairs]),
     "What the encoder reads is the first of each pair."),
    *combined(_batch, BATCH_SLIPS),
    ("the labels rolled, with BOS at their end",
     lambda pairs: (lambda src, read, labels: [src, read, read.roll(-1, 1)])(*make_batch(pairs)),
     "`roll` brings the first to the end. The labels are the ids and EOS."),
    ("no EOS behind an empty sentence",
     _batch(src=lambda s: [*s, EOS] if s else [PAD], labels=lambda t: [*t, EOS] if t else [PAD]),
     "A sentence without words ends as well: EOS stands there alone."),
    ("no BOS before an empty target", _batch(read=lambda t: [BOS, *t] if t else [PAD]),
     "An empty target is begun as well: BOS stands there alone."),
    ("EOS twice in the labels", _batch(labels=lambda t: [*t, EOS, EOS]),
     "The labels are the ids and EOS, as many as the decoder reads."),
    ("the source, and the target with both its ends, alone",
     lambda pairs: rows(pairs, lambda s: [*s, EOS], lambda t: [BOS, *t, EOS], lambda t: [])[:2],
     "Three are asked for: what the encoder reads, what the decoder reads, and the labels, which "
     "are one place ahead."),
    ("BOS and EOS round the source, and filled with EOS",
     lambda pairs: [part.masked_fill(part == PAD, EOS) for part in _batch(
         src=lambda s: [BOS, *s, EOS])(pairs)],
     "The source has nothing in front. And rows are filled with PAD, which is 0."),
)  # fmt: skip

# 11.7 find the bugs

WRITERS = TransformerConfig(12, 16, 32, n_heads=2, n_layers=2, dropout=0.4)


class SameDropout(nn.Dropout):
    """Dropout that drops the same each time: so whoever leaves it on, in whatever style, gets one
    answer."""

    def forward(self, x: Tensor) -> Tensor:
        kept = torch.arange(x.shape[-1], device=x.device) % 3 > 0
        return x * kept / (1 - self.p) if self.training and self.p else x

    def _get_name(self) -> str:
        return "Dropout"


@cache  # each call of an answer gets a copy
def writer(size: float) -> Transformer:
    """An untrained model whose words depend on all it reads; with dropout, in training mode."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(2)
        model = Transformer(WRITERS)
        for name, parameter in model.named_parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=size if "embedding" in name else 0.3)
    for module in [*model.modules()]:
        if isinstance(getattr(module, "dropout", None), nn.Dropout):
            module.dropout = SameDropout(WRITERS.dropout)
        elif hasattr(module, "dropout"):  # of the attention's weights, which are of any length
            module.dropout = 0.0
    return model.train()


def write_out(model: Transformer, src: Tensor, length: int) -> Tensor:
    model.eval()
    memory, mask = model.encode(src)
    tgt = torch.full((len(src), 1), BOS)
    for _ in range(length):
        states = model.decode(tgt, memory, mask)
        tgt = torch.cat([tgt, model.logits(states).argmax(-1)[:, -1:]], dim=1)
    return tgt[:, 1:]


def writing_cases() -> list[tuple]:
    src = torch.tensor([[5, 6, 7, 8, 3], [9, 4, 3, 0, 0], [11, 3, 0, 0, 0], [7, 10, 4, 3, 0]])
    # in the last but one, both sentences begin with an end and go on; one token comes out of many
    # a mask that does not fit
    models = writer(1.0), writer(0.3)
    return [*((model, src, 6) for model in models), (models[0], src[:2], 6), (models[0], src, 1)]


def seeded(answer: Callable, model: Transformer, src: Tensor, length: int) -> Any:
    """Run an answer that draws, if it does, alike for all."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        return answer(model, src, length)


def _targets_padding(src: Tensor, tgt: Tensor) -> Tensor:
    return padding_mask(tgt, PAD)


def _nothing_hidden(src: Tensor, tgt: Tensor) -> Tensor:
    return torch.ones_like(padding_mask(src, PAD))


def _writes(
    evaluate: bool = True,
    first: int = BOS,
    mask: Callable = lambda src, tgt: padding_mask(src, PAD),
    place: Callable = lambda best: best[:, -1:],
    join: Callable = lambda tgt, best: torch.cat([tgt, best], dim=1),
    end: Callable = lambda tgt, length: tgt[:, 1:],
) -> Callable:
    def answer(model, src, length):
        if evaluate:
            model.eval()
        memory, _ = model.encode(src)
        tgt = torch.full((len(src), 1), first)
        for _ in range(length):
            states = model.decode(tgt, memory, mask(src, tgt))
            tgt = join(tgt, place(model.logits(states).argmax(-1)))
        return end(tgt, length)

    return answer


def _asleep_late(model, src, length):
    memory, mask = model.encode(src)
    model.eval()
    tgt = torch.full((len(src), 1), BOS)
    for _ in range(length):
        states = model.decode(tgt, memory, mask)
        tgt = torch.cat([tgt, model.logits(states).argmax(-1)[:, -1:]], dim=1)
    return tgt[:, 1:]


def _half_asleep(model, src, length):
    model.encoder.eval()
    return _writes(evaluate=False)(model, src, length)


def _no_feedback(model, src, length):
    model.eval()
    tgt = torch.full((len(src), length), BOS)
    return model.logits(model.decode(tgt, *model.encode(src))).argmax(-1)


def _last_only(model, src, length):
    model.eval()
    source, last, written = model.encode(src), torch.full((len(src), 1), BOS), []
    for _ in range(length):
        last = model.logits(model.decode(last, *source)).argmax(-1)
        written.append(last)
    return torch.cat(written, 1)


def _stops(model, src, length):
    written = write_out(model, src, length)
    after = (written == EOS).cumsum(1) - (written == EOS).long() > 0
    return written.masked_fill(after, PAD)


def _breaks(model, src, length):
    written = write_out(model, src, length)
    ended = (written == EOS).cumsum(1).gt(0).all(0)  # when all sentences have ended
    return written[:, : int((~ended).sum()) + 1]


def _memory_from_target(model, src, length):
    model.eval()
    tgt = torch.full((len(src), 1), BOS)
    for _ in range(length):
        states = model.decode(tgt, *model.encode(tgt))
        tgt = torch.cat([tgt, model.logits(states).argmax(-1)[:, -1:]], 1)
    return tgt[:, 1:]


def _leaves(model, src, length):
    """Off before the EOS, when all sentences write one."""
    written = write_out(model, src, length)
    ends = (written == EOS).all(0).int()
    return written[:, : int(ends.argmax()) if ends.any() else length]


def _begun_with(first: Tensor) -> Callable:
    def answer(model, src, length):
        model.eval()
        source, tgt = model.encode(src), first
        for _ in range(length):
            states = model.decode(tgt, *source)
            tgt = torch.cat([tgt, model.logits(states).argmax(-1)[:, -1:]], 1)
        return tgt[:, 1:]

    return answer


def _argmax_over(axis: int, best: Callable = torch.argmax) -> Callable:
    def answer(model, src, length):
        model.eval()
        source, tgt = model.encode(src), torch.full((len(src), 1), BOS)
        for _ in range(length):
            logits = model.logits(model.decode(tgt, *source))
            tgt = torch.cat([tgt, best(logits, axis)[:, -1:]], 1)
        return tgt[:, 1:]

    return answer


def _drawn(model, src, length):
    model.eval()
    source, tgt = model.encode(src), torch.full((len(src), 1), BOS)
    for _ in range(length):
        p = model.logits(model.decode(tgt, *source))[:, -1].softmax(-1)
        tgt = torch.cat([tgt, p.multinomial(1)], 1)
    return tgt[:, 1:]


def _second(model, src, length):
    model.eval()
    tgt = torch.full((len(src), 1), BOS)
    for _ in range(length):
        tgt = torch.cat([tgt, model(src, tgt)[:, -1].topk(2).indices[:, 1:]], dim=1)
    return tgt[:, 1:]


def _logits_of_all(model, src, length):
    ids = write_out(model, src, length)
    return model(src, torch.cat([torch.full((len(src), 1), BOS), ids[:, :-1]], dim=1))


WRITING_SLIPS = [
    ("dropout left on", {"evaluate": False}, "Call `model.eval()` first."),
    ("begun with EOS", {"first": EOS}, "Every target begins with BOS."),
    ("begun with PAD", {"first": PAD}, "Every target begins with BOS."),
    ("begun with UNK", {"first": 1}, "Every target begins with BOS, which is 2."),
    ("the source's padding not hidden", {"mask": _nothing_hidden}, "Hand over the encoder's mask."),
    ("the first place read", {"place": lambda best: best[:, :1]},
     "The last state predicts the new token."),
    ("new tokens put in front", {"join": lambda tgt, best: torch.cat([best, tgt], dim=1)},
     "A new token is put behind the others."),
    ("new tokens put in front, and BOS cut off behind them",
     {"join": lambda tgt, best: torch.cat([best, tgt], dim=1),
      "end": lambda tgt, length: tgt[:, :-1]}, "A new token is put behind the others."),
    ("BOS returned", {"end": lambda tgt, length: tgt}, "Cut BOS off."),
    ("BOS returned, and the last token lost", {"end": lambda tgt, length: tgt[:, :-1]},
     "BOS stands in front: cut there."),
]  # fmt: skip
WRITING_BUT = [
    ("dropout left on", "the source's padding not hidden"),
    ("dropout left on", "BOS returned"),
    ("begun with PAD", "the first place read"),  # the first token, again and again, as it is
    ("new tokens put in front", "BOS returned, and the last token lost"),
]


def _never(*ids: int) -> Callable:
    """The likeliest but some."""

    def answer(model, src, length):
        model.eval()
        tgt = torch.full((len(src), 1), BOS)
        for _ in range(length):
            logits = model(src, tgt)[:, -1]
            logits[:, [*ids]] = -math.inf
            tgt = torch.cat([tgt, logits.argmax(-1, keepdim=True)], dim=1)
        return tgt[:, 1:]

    return answer


def _not_encoded(model, src, length):
    """The embedded source in place of the memory."""
    model.eval()
    tgt, mask = torch.full((len(src), 1), BOS), padding_mask(src, PAD)
    for _ in range(length):
        states = model.decode(tgt, model.embed(src), mask)
        tgt = torch.cat([tgt, model.logits(states).argmax(-1)[:, -1:]], dim=1)
    return tgt[:, 1:]


def _first_source(model, src, length):
    return write_out(model, src[:1].expand_as(src), length)


def _breaks_early(model, src, length):
    written = write_out(model, src, length)
    ended = (written == EOS).any(0)  # one of the sentences ends
    return written[:, : int(ended.int().argmax()) + 1 if ended.any() else length]


def _of_the_states(model, src, length):
    model.eval()
    source, tgt = model.encode(src), torch.full((len(src), 1), BOS)
    for _ in range(length):
        best = model.decode(tgt, *source)[:, -1:].argmax(-1)
        tgt = torch.cat([tgt, best.clamp(max=model.config.vocab_size - 1)], dim=1)
    return tgt[:, 1:]


def _decoder_asleep(model, src, length):
    model.decoder.eval()
    return _writes(evaluate=False)(model, src, length)


def _one_for_all(model, src, length):
    model.eval()
    source, tgt = model.encode(src), torch.full((len(src), 1), BOS)
    for _ in range(length):
        logits = model.logits(model.decode(tgt, *source))[:, -1]
        tgt = torch.cat([tgt, logits.sum(0).argmax().expand(len(src), 1)], dim=1)
    return tgt[:, 1:]


WRITING_MISTAKES = mistakes(
    *combined(_writes, WRITING_SLIPS, but=WRITING_BUT),
    ("nothing mended", _writes(
        evaluate=False, first=EOS, mask=_targets_padding, place=lambda best: best[:, :1],
        join=lambda tgt, best: torch.cat([best, tgt], dim=1), end=lambda tgt, length: tgt),
     "With which token does it begin, whose padding does cross-attention hide, which place is "
     "read, where does the new token go, and what is returned?"),
    ("the target's padding hidden, not the source's", _writes(mask=_targets_padding),
     "Cross-attention looks at the source: hand it the mask that `encode` gave. With one token any "
     "mask fits, with more this one raises an error."),
    ("dropout left on, and the target's padding hidden, not the source's",
     _writes(evaluate=False, mask=_targets_padding),
     "Call `model.eval()` first. And cross-attention looks at the source: hand it the mask that "
     "`encode` gave."),
    ("left off before the EOS, when all sentences write one", _leaves,
     "In earnest one stops there. Here the task is to go on for `length` tokens."),
    ("begun with the source's first token",
     lambda model, src, length: _begun_with(src[:, :1])(model, src, length),
     "The decoder begins with BOS, whatever the source is."),
    ("the second likeliest token", _second,
     "Greedy takes the largest of the logits."),
    ("the logits of what is written", _logits_of_all,
     "Asked for are the ids, (B, length)."),
    ("PAD in place of EOS",
     lambda model, src, length: (lambda ids: ids.masked_fill(ids == EOS, PAD))(
         write_out(model, src, length)),
     "Return what the model writes, EOS as well."),
    ("the largest logit looked for along the places", _argmax_over(1),
     "The maximum runs over the vocabulary, the last axis: argmax(-1)."),
    ("a token drawn, and not the likeliest", _drawn,
     "Greedy takes the largest of the logits, and draws nothing."),
    ("the least likely token", _argmax_over(-1, torch.argmin),
     "Greedy takes the largest of the logits."),
    ("the first token cut off with BOS", _writes(end=lambda tgt, length: tgt[:, 2:]),
     "BOS is one token: cut off that alone, `[:, 1:]`."),
    ("begun with BOS twice",
     lambda model, src, length: _begun_with(torch.full((len(src), 2), BOS))(model, src, length),
     "In training every target began with one BOS."),
    ("what all places predict put behind", _writes(place=lambda best: best),
     "Only what the last place predicts is new: one token for each sentence."),
    ("dropout left on", _writes(evaluate=False),
     "Everything else is right. The model comes from training: call `model.eval()` first."),
    ("begun with EOS", _writes(first=EOS),
     "In training every target began with BOS. The model has never seen anything begin with EOS."),
    ("begun with PAD", _writes(first=PAD),
     "In training every target began with BOS, and padding is hidden besides."),
    ("the source's padding not hidden", _writes(mask=_nothing_hidden),
     "Cross-attention must not look at the source's padding: hand it the mask that `encode` gave."),
    ("the mask turned round", _writes(mask=lambda src, tgt: ~padding_mask(src, PAD)),
     "True = may attend: the mask is handed over as `encode` gives it."),
    ("the first place read", _writes(place=lambda best: best[:, :1]),
     "The first state predicts the first token, again and again. The new token is predicted by the "
     "last."),
    ("new tokens put in front",
     _writes(join=lambda tgt, best: torch.cat([best, tgt], dim=1), end=lambda tgt, n: tgt[:, :-1]),
     "A new token is put behind the others: that is the order in which they are read."),
    ("new tokens put in front, and the rest cut at the wrong end",
     _writes(join=lambda tgt, best: torch.cat([best, tgt], dim=1)),
     "A new token is put behind the others. Then BOS stands in front and can be cut there."),
    ("BOS returned", _writes(end=lambda tgt, length: tgt),
     "What is written is right. The BOS that it begins with was not written by the model: cut it "
     "off."),
    ("BOS returned, and the last token lost", _writes(end=lambda tgt, length: tgt[:, :-1]),
     "The cut was made at the wrong end: BOS stands in front."),
    ("every place written at once", _no_feedback,
     "All places read BOS, and none what was written before it. Each new token must be read before "
     "the next is predicted."),
    ("only the newest token read", _last_only,
     "The decoder reads all tokens so far, not the newest alone (unless the rest is cached, with "
     "its positions)."),
    ("only the newest token returned", _writes(end=lambda tgt, length: tgt[:, -1:]),
     "Return all that was written, `length` tokens for each sentence."),
    ("stopped at EOS", _stops,
     "In earnest one stops there. Here the task is to go on for `length` tokens."),
    ("left off when all sentences had ended", _breaks,
     "In earnest one stops there. Here the task is to go on for `length` tokens."),
    ("the memory made of the target", _memory_from_target, "The encoder reads the source, once."),
    ("nothing mended but the beginning and the end",
     _writes(evaluate=False, mask=_nothing_hidden, place=lambda best: best[:, :1]),
     "Still to be mended: dropout, the source's padding, and which place is read."),
    ("dropout left on, and the source's padding not hidden",
     _writes(evaluate=False, mask=_nothing_hidden),
     "Two faults are left: call `model.eval()` first, and hide the source's padding in "
     "cross-attention."),
    ("dropout left on, and BOS returned", _writes(evaluate=False, end=lambda tgt, length: tgt),
     "Two faults are left: call `model.eval()` first, and cut BOS off at the end."),
    ("one token too few", lambda model, src, length: write_out(model, src, length)[:, :-1],
     "`length` tokens are written behind the `BOS`. One step for each."),
    ("one token too many", lambda model, src, length: write_out(model, src, length + 1),
     "`length` tokens are written, and `BOS` is not counted: one step for each."),
    ("the last place but one read", _writes(place=lambda best: best[:, -2:][:, :1]),
     "The newest token stands at the last place, and its state predicts the next: `-1`."),
    ("dropout off in the encoder alone", _half_asleep,
     "The embedding and the decoder have dropout, too: `model.eval()` is for the whole model."),
    ("each new token in the place of all before, and cut off",
     lambda model, src, length: src.new_zeros(len(src), 0),
     "`tgt = best` throws away what was written. Put the new token behind: `torch.cat`."),
    ("the mode set too late", _asleep_late,
     "The encoder has dropout, too: `model.eval()` comes before `model.encode`."),
    *((f"{names} never written", _never(*ids),
       "Nothing is forbidden here: the likeliest of all ids is written.")
      for names, ids in (("PAD and BOS", (PAD, BOS)), ("EOS", (EOS,)),
                         ("PAD, BOS and EOS", (PAD, BOS, EOS)),
                         ("PAD, UNK, BOS and EOS", (PAD, 1, BOS, EOS)))),
    ("the source not encoded", _not_encoded,
     "What cross-attention reads is the memory, which `model.encode` makes of the source, and not "
     "its embedding."),
    ("the first source for all sentences", _first_source,
     "Each sentence of the batch is written from its own source."),
    ("left off when one of the sentences had ended", _breaks_early,
     "The others go on. And here all go on for `length` tokens, also behind their EOS."),
    ("the largest entry of the state", _of_the_states,
     "A state has d_model entries, and none of them is a token. `model.logits` makes scores for "
     "all tokens of it."),
    ("dropout left on outside of the decoder", _decoder_asleep,
     "The encoder and the embedding have dropout, too: `model.eval()` sets the whole model."),
    ("one token for all sentences", _one_for_all,
     "Each sentence has logits of its own: the maximum runs over the vocabulary, the last axis."),
    ("begun with UNK", _writes(first=1),
     "In training every target began with BOS, which is 2."),
)  # fmt: skip


def _no_padding_seen(output, src: Tensor, tgt: Tensor, pad: int) -> bool:
    """No padding is seen, in any of the three."""
    encoder, decoder, cross = output
    if not encoder.dtype == decoder.dtype == cross.dtype == torch.bool:
        return True  # numbers in place of True and False, and that is what is said
    (b, s), t = src.shape, tgt.shape[1]
    if [tuple(mask.shape) for mask in output] != [(b, 1, s, s), (b, 1, t, t), (b, 1, t, s)]:
        return True  # a shape that does not fit, and that is what is said
    columns = [mask[:, 0].mT for mask in output]
    hidden = (columns[0][src == pad], columns[1][tgt == pad], columns[2][src == pad])
    return not any(bool(each.any()) for each in hidden)


def _future_hidden(output, src: Tensor, tgt: Tensor, pad: int) -> bool:
    decoder = output[1]
    fits = decoder.dtype == torch.bool and decoder.shape[-2:] == (tgt.shape[1],) * 2
    return not fits or not (decoder & ~causal_mask(tgt.shape[1])).any()


def _whole(output, *sizes) -> bool:
    return int(output) >= sizes[0] * sizes[1]


# 11.8 which fault has a machine?

FINE = "right"
FUTURE, PADDING, SOURCE = "sees the future", "sees the padding", "ignores the source"
BAG, DROPOUT = "no positions", "dropout is on"


class Machine(Transformer):
    """A machine as it should be, with weights large enough for every fault to show."""

    layers = 1

    def __init__(self, vocab_size: int, seed: int):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            super().__init__(TransformerConfig(vocab_size, 16, 32, 2, self.layers, dropout=0.3))
        self.eval().requires_grad_(False)

    def __call__(self, src: Tensor, tgt: Tensor) -> Tensor:
        return super().__call__(torch.as_tensor(src), torch.as_tensor(tgt))

    def __repr__(self) -> str:
        return "a machine"


class Rounds(Machine):
    """Right; behind a padded source its numbers differ in their last digit."""

    def encode(self, src, maps=None):
        memory, src_mask = super().encode(src, maps)
        return memory * (1 + 2.0**-22 * int((src == PAD).sum())), src_mask


class CutsPadding(Machine):
    """Right, and to the last digit: it reads no padding."""

    def __call__(self, src: Tensor, tgt: Tensor) -> Tensor:
        src = torch.as_tensor(src)
        return super().__call__(src[:, (src != PAD).any(0)], tgt)


class SeesFuture(Machine):
    def decode(self, tgt, memory, src_mask, self_maps=None, cross_maps=None):
        return self.decoder(self.embed(tgt), memory, src_mask, padding_mask(tgt, PAD))


class SeesNext(Machine):
    """Each place sees one word of its future."""

    def decode(self, tgt, memory, src_mask, self_maps=None, cross_maps=None):
        seen = torch.ones(tgt.shape[1], tgt.shape[1], dtype=torch.bool).tril(1)
        return self.decoder(self.embed(tgt), memory, src_mask, padding_mask(tgt, PAD) & seen)


class SeesPadding(Machine):
    def encode(self, src, maps=None):
        return self.encoder(self.embed(src)), None


class IgnoresSource(Machine):
    def decode(self, tgt, memory, src_mask, self_maps=None, cross_maps=None):
        x, own = self.embed(tgt), causal_mask(tgt.shape[1])
        return self.decoder(x, x, own, own)


class Bag(Machine):
    def embed(self, tokens):
        return self.dropout(self.embedding(tokens) * math.sqrt(self.config.d_model))


class DeepBag(Bag):
    """With two layers the causal mask tells the decoder an order, though nothing else does."""

    layers = 2


class DropsOut(Machine):
    def __init__(self, vocab_size: int, seed: int):
        super().__init__(vocab_size, seed)
        self.train()


KINDS = {
    FINE: Machine, FUTURE: SeesFuture, PADDING: SeesPadding, SOURCE: IgnoresSource, BAG: Bag,
    DROPOUT: DropsOut,
}  # fmt: skip


@cache  # each call of an answer gets a copy
def machine_cases() -> list[tuple]:
    return [
        (kind(vocab_size, seed), vocab_size)
        for seed, vocab_size in enumerate((9, 12))
        for kind in (*KINDS.values(), Rounds, CutsPadding, DeepBag, SeesNext)
    ]


def in_words(output: Any) -> Any:
    return " ".join(output.lower().split()).rstrip(".") if isinstance(output, str) else output


def which_fault(model: Callable, vocab_size: int) -> str:
    return _asks()(model, vocab_size)


ASKED = {  # what is asked, in order: whether the two calls must give the same, and the fault if not
    "twice": (DROPOUT, True), "later": (FUTURE, True), "longer": (PADDING, True),
    "other": (SOURCE, False), "turned": (BAG, False),
}  # fmt: skip


def _asks(
    order: Sequence[str] = tuple(ASKED), atol: float = 1e-4, last: str = "", before: int = 2,
    opposite: str = "", **changed: tuple,
) -> Callable:  # fmt: skip
    """The questions of `order`, one by one; `changed` gives pairs of (source, target), and of the
    question `last` the last place alone is looked at; of "later" the first `before` places. The
    answer to the question `opposite` is turned round."""

    def answer(model: Callable, vocab_size: int) -> str:
        src, tgt = [[4, 5, 6, EOS]], [[BOS, 7, 8]]
        pairs = {
            "twice": (src, tgt),
            "later": (src, [[BOS, 7, 4]]),
            "longer": ([[*src[0], PAD, PAD]], tgt),
            "other": ([[7, 8, 5, EOS]], tgt),
            "turned": ([[6, 5, 4, EOS]], tgt),
        } | changed
        with torch.no_grad():
            first = model(torch.tensor(src), torch.tensor(tgt))
            for name in order:
                fault, alike = ASKED[name]
                second = model(*map(torch.tensor, pairs[name]))
                places = slice(0, before if name == "later" else None)
                places = slice(-1, None) if name == last else places
                close = torch.allclose(first[:, places], second[:, places], min(atol, 1e-5), atol)
                if (close != alike) != (name == opposite):
                    return fault
        return FINE

    return answer


def _without(*left: str) -> Callable:
    return _asks([name for name in ASKED if name not in left])


def _renamed(names: dict[str, str]) -> Callable:
    return lambda model, vocab_size: names.get(fault := which_fault(model, vocab_size), fault)


SRC = [[4, 5, 6, EOS]]
FAULT_MISTAKES = mistakes(
    ("dropout is not asked for first", _without("twice"),
     "With dropout two calls on the same input differ, and so any later question goes wrong. Call "
     "it twice before anything else."),
    ("the future is never asked for, or with PAD alone, which is hidden", _without("later"),
     "Change the last target token to another word: the logits at the places before it must not "
     "move."),
    ("the padding of the source is never asked for", _without("longer"),
     "Put padding behind the source: nothing may move."),
    ("the source asked for with the same words in another order",
     _asks(other=([[6, 5, 4, EOS]], [[BOS, 7, 8]])),
     "A machine without positions answers the same to these: it sees the words, and not their "
     "order. Ask with other words."),
    *((f"the answer to the question for {of} turned round", _asks(opposite=name), why)
      for name, of, why in (
        ("twice", "dropout", "Dropout is on where two calls on the same input differ."),
        ("later", "the future", "The future is seen where the places before the change move."),
        ("longer", "the padding", "The padding is seen where more of it moves something."),
        ("other", "the source",
         "The source is ignored where other source tokens give the same logits."),
        ("turned", "the order",
         "There are no positions where the words turned round give the same logits."))),
    *((f"a tolerance of {atol}", _asks(atol=atol),
       "Differences that are meant are as small as that. Equal numbers differ by 0.0001 at most.")
      for atol in (0.5, 1.0)),
    ("the source not asked for before the order", _without("other"),
     "A machine that ignores its source does not notice its order either. Ask first whether other "
     "source tokens change anything."),
    ("the order is never asked for", _without("turned"),
     "Turn the source round: a machine with positions must notice."),
    ("a place looked at that may see the change", _asks(later=(SRC, [[BOS, 4, 8]])),
     "Every place may look at itself and at what stands before it. Change the *last* token, and "
     "look at the places before."),
    ("the place next to the change not looked at", _asks(before=1),
     "A machine may see no more than the next word. Change the last token, and look at all places "
     "before it."),
    ("the padding put in front", _asks(longer=([[PAD, PAD, *SRC[0]]], [[BOS, 7, 8]])),
     "In front of the source padding moves every word to another place. Put it behind."),
    ("padding by more words, or beside another word",
     _asks(longer=([[*SRC[0], 5, 5]], [[BOS, 7, 8]])),
     "What is put behind the source must be PAD, which no query may look at, and all else must "
     "stay. Words may change something."),
    ("a tolerance of 0", _asks(atol=0.0),
     "Where a source is longer by paddings, the numbers of a right machine may differ in their "
     "last digits. `torch.allclose` forgives them."),
    ("the source compared with itself", _asks(other=(SRC, [[BOS, 7, 8]])),
     "Give it other source tokens. With the same ones no machine can answer differently."),
    ("no positions said of right machines, as with a source that reads the same both ways",
     _asks(turned=(SRC, [[BOS, 7, 8]])),
     "Turned round, the source must be another one; and a machine without faults is right."),
    ("the order of the target asked for, at the last place",
     _asks(last="turned", turned=([[4, 5, 6, EOS]], [[7, BOS, 8]])),
     "A decoder of several layers has a causal mask, which tells it the order of its words without "
     "any positions (Exercise 8.8). Turn the source round: there no mask tells."),
    ("always right", lambda model, vocab_size: FINE,
     "Five of the machines have a fault."),
    ("only the future is asked for", _asks(["later"]), "There are four other faults."),
    ("only dropout and the future are asked for", _asks(["twice", "later"]),
     "There are three other faults: padding, source and order."),
    ("padding and future in each other's place", _renamed({FUTURE: PADDING, PADDING: FUTURE}),
     "Padding behind the *source* is the question for the padding, a later *target* token that "
     "for the future."),
    ("source and order in each other's place", _renamed({SOURCE: BAG, BAG: SOURCE}),
     "Without positions, the tokens of the source still count, but not their order."),
)  # fmt: skip

ASK = {
    FINE: "A right machine passes all questions, up to roundings of 0.0001.",
    FUTURE: "Change the last target token: the logits at the places before it must not move.",
    PADDING: "Put PAD behind the source, and nothing else: nothing may move.",
    SOURCE: "Give it other source tokens: what it says must move.",
    BAG: "Turn the words of the source round, and keep all else: with positions it must move, and "
    "without them it may not, but for roundings.",
    DROPOUT: "Call it twice, as it is handed over, before anything else: the two must not differ.",
}


def _mistaken(
    cases: Sequence[Case], got: Sequence[Any], want: Sequence[Any]
) -> tuple[str, str] | None:
    """Which fault is taken for which."""
    wrong: dict[str, list[str]] = {}
    for said, is_ in zip(got, want, strict=True):
        if said not in ASK:
            return None
        if said != is_ and is_ not in wrong.setdefault(said, []):
            wrong[said].append(is_)
    if sum(map(len, wrong.values())) > 3 and len(wrong) > 2:
        return None
    names = [
        f'"{said}" said where it is ' + " or ".join(f'"{one}"' for one in is_)
        for said, is_ in wrong.items()
    ]
    missed = [one for one in KINDS if any(one in some for some in wrong.values())]
    return ", and ".join(names), " ".join(ASK[one] for one in missed)


# 11.9 prediction: what gets no gradient from a source of one token


STACKS = ("encoder", "decoder", "cross")


def _matrices(stacks: Sequence[str], letters: str) -> list[str]:
    return sorted(f"{stack} w_{letter}" for stack in stacks for letter in letters)


def as_set(output: Any) -> Any:
    """Names in any order, each once."""
    return output if isinstance(output, str) else sorted({str(name).strip() for name in output})


def _as_spelt(name: str) -> str:
    """A name as the task spells it, if it is one of its names in another spelling."""
    return in_words(re.sub(r"[.\s_]*(w[_^\s]*)?(?=[qkvo]$)", " w_", name.lower(), count=1))


def _learns_or_not(cases: Sequence[Case], got: Sequence, want: Sequence) -> tuple[str, str] | None:
    """Which of those that are named do learn, and how many are not named."""
    every, said = _matrices(STACKS, "qkvo"), got[0]
    if isinstance(said, str):
        return "one string in place of a list", "Each name is a string of its own."
    if not isinstance(said, list):
        return None
    if other := [name for name in said if name not in every]:
        if _as_spelt(other[0]) in every:
            return f"not spelt as in the task: {other[0]!r}", 'They are spelt as "decoder w_o".'
        which = " Which attention is it of?" * (other[0] in ("w_q", "w_k", "w_v", "w_o"))
        return f"no matrix of the task: {other[0]!r}", f'They are spelt as "decoder w_o".{which}'
    more, less = [name for name in said if name not in want[0]], {*want[0]} - {*said}
    words = [f"named, and learns: {', '.join(more)}"] * bool(more)
    words += [f"missing: {len(less)} of those that learn nothing"] * bool(less)
    return "; ".join(words), ONE_KEY


ONE_KEY = (
    "One source token is one key in the encoder and in cross-attention: its weight is 1 whatever "
    "the score."
)
GRADIENT_MISTAKES = mistakes(
    ("none", [],
     "Where there is one key, softmax gives it the weight 1 whatever the score. What makes the "
     "score then learns nothing."),
    ("the encoder alone", _matrices(["encoder"], "qk"),
     "In cross-attention the keys come from the source, too: one key."),
    ("cross-attention alone", _matrices(["cross"], "qk"),
     "In the encoder the source token has only itself to look at."),
    ("queries and keys everywhere", _matrices(STACKS, "qk"),
     "The target has three tokens: the second and the third have a choice, and their scores "
     "matter."),
    ("queries and keys of both self-attentions", _matrices(["encoder", "decoder"], "qk"),
     "The decoder's self-attention has up to three keys. Cross-attention has one: the source's."),
    ("queries and keys of the decoder's two attentions", _matrices(["decoder", "cross"], "qk"),
     "The decoder's self-attention has up to three keys. The encoder has one."),
    ("the decoder's self-attention alone", _matrices(["decoder"], "qk"),
     "It has up to three keys. Which attentions have one?"),
    ("the keys only", _matrices(["encoder", "cross"], "k"),
     "The score is a product of query and key. If it does not matter, neither of them learns."),
    ("the queries only", _matrices(["encoder", "cross"], "q"),
     "The score is a product of query and key. If it does not matter, neither of them learns."),
    ("the values, too", _matrices(["encoder", "cross"], "qkv"),
     "The one key has the weight 1, so its value is what comes out: it learns."),
    ("the output matrices, too", _matrices(["encoder", "cross"], "qko"),
     "W^O stands behind the weighted sum, which is not zero: it learns."),
    ("everything in encoder and cross-attention", _matrices(["encoder", "cross"], "qkvo"),
     "The one value comes through with weight 1, and W^O behind it: both learn."),
    ("everything in the encoder", _matrices(["encoder"], "qkvo"),
     "The value and W^O of the encoder carry the source to the memory. They learn."),
    ("everything in the encoder, and queries and keys of cross-attention",
     sorted(_matrices(["encoder"], "qkvo") + _matrices(["cross"], "qk")),
     "The memory reaches the loss through the values of cross-attention, so the encoder's values "
     "and W^O learn."),
    ("keys and values of cross-attention", _matrices(["cross"], "kv"),
     "The value of the one key comes through with weight 1: it learns. Query and key do not."),
    ("values in place of queries and keys", _matrices(["encoder", "cross"], "v"), ONE_KEY
     + " The value is what comes through; query and key make the score."),
    ("the values of cross-attention, too",
     sorted([*_matrices(["encoder", "cross"], "qk"), "cross w_v"]),
     "The one key has the weight 1, so its value is what comes out: it learns."),
    ("the values of the encoder, too",
     sorted([*_matrices(["encoder", "cross"], "qk"), "encoder w_v"]),
     "The one key has the weight 1, so its value is what comes out: it learns."),
    ("the decoder's queries, too", sorted([*_matrices(["encoder", "cross"], "qk"), "decoder w_q"]),
     "The first target token has one key, but the second and the third have a choice."),
    ("the decoder's keys, too", sorted([*_matrices(["encoder", "cross"], "qk"), "decoder w_k"]),
     "The first target token has one key, but the second and the third have a choice."),
    ("everything of cross-attention, and queries and keys of the encoder",
     sorted(_matrices(["cross"], "qkvo") + _matrices(["encoder"], "qk")),
     "The one value comes through with weight 1, and W^O behind it: both learn."),
    ("everything", _matrices(STACKS, "qkvo"),
     "The loss falls in training on such pairs, so something learns. " + ONE_KEY),
    ("the words the other way round",
     ["w_q encoder", "w_k encoder", "w_q cross", "w_k cross"],
     'The matrices are right. Write them as in the task, the attention first: "decoder w_o".'),
    ("everything in cross-attention",
     ["cross w_q", "cross w_k", "cross w_v", "cross w_o"],
     "One key has the weight 1: what makes the score learns nothing, but the value passes. And the "
     "encoder has one key, too."),
    ("what does learn",
     ["encoder w_v", "encoder w_o", "cross w_v", "cross w_o",
      "decoder w_q", "decoder w_k", "decoder w_v", "decoder w_o"],
     "These eight get a gradient. The others do not."),
    *((f"{one} held to learn",
       sorted({*_matrices(["encoder", "cross"], "qk")} - {one}), ONE_KEY)
      for one in _matrices(["encoder", "cross"], "qk")),
)  # fmt: skip

# 11.10 design: a budget of parameters

VOCABULARY = 8000
BUDGETS = [(2_000_000,), (5_000_000,), (20_000_000,), (65_000_000,)]


def spend(budget: int) -> tuple[int, int, int, int]:
    """(d_model, d_ff, n_heads, n_layers) of a machine that uses most of a budget."""
    return max(_choices(budget), key=lambda sizes: _size(*sizes))


def _size(d_model: int, d_ff: int, n_heads: int, n_layers: int) -> int:
    return parameters(VOCABULARY, d_model, d_ff, 1, d_model, d_model, n_layers, n_layers)


def _choices(
    budget: int, most: int = 12, size: Callable = _size, times: int = 4, width: int = 64
) -> list[tuple]:
    """Everything that fits, by a size of its own, or the smallest machine."""
    every = [(d, times * d, d // width, n) for d in range(64, 1025, 64) for n in range(2, most + 1)]
    return [sizes for sizes in every if size(*sizes) <= budget] or every[:1]


class Spent(dict):
    """Which of the wanted properties the sizes have, and the sizes."""

    sizes: tuple[int, int, int, int]


LAYERS = "2 to 12 layers"
NAMES = ("d_model", "d_ff", "n_heads", "n_layers")


def spent(answer: Callable, budget: int) -> Spent | None:
    sizes = answer(budget)
    if sizes is None:
        return None
    if not isinstance(sizes, list | tuple | Tensor | np.ndarray) or len(sizes) != len(NAMES):
        came = kind(sizes) + f" ({type(sizes).__name__})" * isinstance(sizes, TransformerConfig)
        raise ValueError(f"expected four whole numbers, ({', '.join(NAMES)}), got {came}")
    for name, size in zip(NAMES, sizes, strict=True):
        number = isinstance(size, int | float | np.number | Tensor)
        if not number or not float(size).is_integer():
            raise ValueError(f"expected four whole numbers, got {name} = {show(size)}")
    return properties(budget, *(int(size) for size in sizes))


def properties(
    budget: int, d_model: int, d_ff: int, n_heads: int, n_layers: int, size: Callable = _size
) -> Spent:
    total = size(d_model, d_ff, n_heads, n_layers)
    found = Spent({
        "within the budget": total <= budget,
        "at least nine tenths of it": total >= 0.9 * budget,
        "heads of width 64": d_model == 64 * n_heads,
        "d_ff is four times d_model": d_ff == 4 * d_model,
        LAYERS: 2 <= n_layers <= 12,
    })  # fmt: skip
    found.sizes = d_model, d_ff, n_heads, n_layers
    return found


MISCOUNTED: list[tuple[str, Callable, str]] = [
    ("cross-attention is not counted", lambda d, f, h, n: -4 * n * d * d,
     "A decoder layer has two attentions."),
    ("the embedding is not counted", lambda d, f, h, n: -VOCABULARY * d,
     "The shared matrix has 8,000 times d_model numbers."),
    ("the decoder is not counted", lambda d, f, h, n: -n * (8 * d * d + 2 * d * f + f + 7 * d),
     "Both stacks have n_layers layers."),
    ("W^O is not counted", lambda d, f, h, n: -3 * n * d * d, "An attention has four matrices."),
    ("the embedding is counted twice", lambda d, f, h, n: VOCABULARY * d,
     "One matrix serves source, target and logits."),
    ("three embeddings are counted", lambda d, f, h, n: 2 * VOCABULARY * d,
     "One matrix serves source, target and logits."),
    ("37,000 tokens are counted", lambda d, f, h, n: (37_000 - VOCABULARY) * d,
     "The vocabulary has 8,000 tokens."),
]  # fmt: skip


def _how_spent(
    cases: Sequence[Case], got: Sequence[Any], want: Sequence[Any]
) -> tuple[str, str] | None:
    """What is counted wrong, or which properties are missing, and for which budgets."""
    given = [(*case, one) for case, one in zip(cases, got, strict=True) if isinstance(one, Spent)]
    if len(given) > 1 and len({one.sizes for _, one in given}) == 1:
        return "the same machine for every budget", "Search anew for each: `budget` is handed over."
    if len(given) > 1 and all(
        one.sizes[3] % 2 == 0
        and all(
            fine or name == LAYERS
            for name, fine in properties(budget, *one.sizes[:3], one.sizes[3] // 2).items()
        )
        for budget, one in given
    ):
        return (
            "the layers of both stacks counted together",
            "`n_layers` is the number of layers in each stack.",
        )
    if len(given) > 1 and all(
        all(properties(budget, *one.sizes[:2], *one.sizes[:1:-1]).values()) for budget, one in given
    ):
        return (
            "heads and layers exchanged",
            "The order is d_model, d_ff, n_heads, n_layers.",
        )
    fit = [
        (name, why)
        for name, more, why in MISCOUNTED
        if len(given) > 1
        and all(
            all(properties(budget, *one.sizes, size=lambda *n, m=more: _size(*n) + m(*n)).values())
            for budget, one in given
        )
    ]
    lacks = []
    for name in want[0]:
        bad = [f"{budget // 10**6}" for budget, one in given if not one[name]]
        some = f" (for {', '.join(bad)} million)" * (len(bad) < len(cases))
        lacks += [f'"{name}"{some}'] * bool(bad)
    if not lacks:
        return None
    name = f"asked for, and not so: {', '.join(lacks)}"
    if len(given) < len(cases):
        name += f"; and nothing returned for {len(cases) - len(given)} of the budgets"
    over = any(not one["within the budget"] for _, one in given)
    if len(fit) == 1 and (len(given) == len(cases) or not over):
        return f"{name}. So it comes out where {fit[0][0]}", fit[0][1]
    return name, "`budget` is the most that the machine may have." * over


def _best(**how) -> Callable:
    size = how.get("size", _size)
    return lambda budget: max(_choices(budget, **how), key=lambda sizes: size(*sizes))


BUDGET_MISTAKES = mistakes(
    ("always the base model", lambda budget: (512, 2048, 8, 6),
     "With 8,000 tokens the base model has 48 million parameters. It is too large for three of the "
     "budgets, and too small for the last."),
    ("over each budget, as when parameters are left out of the count",
     _best(size=lambda *sizes: _size(*sizes) - VOCABULARY * sizes[0]),
     "At most `budget`. Count the embedding, 8,000 times d_model, and the layers of both stacks: "
     "each has n_layers, and the decoder's are larger than the encoder's."),
    ("the embedding counted twice",
     _best(size=lambda *sizes: _size(*sizes) + VOCABULARY * sizes[0]),
     "One matrix serves source, target and logits: it is paid for once."),
    ("d_ff twice d_model", _best(times=2), "As in the paper: d_ff is four times d_model."),
    ("d_ff equal to d_model", _best(times=1), "As in the paper: d_ff is four times d_model."),
    ("heads of another width than 64", _best(width=32),
     "As in the paper: d_model / n_heads is 64, so the number of heads grows with d_model."),
    ("too little of the budget spent", lambda budget: (64, 256, 1, 2),
     "It is within every budget, and spends less than nine tenths of it. Try more sizes. (If all "
     "seem too large, is the one shared matrix counted once?)"),
    ("fewer than two layers", lambda budget: (*spend(budget)[:3], 1),
     "At least two layers, so that one can build on another."),
    ("as deep as can be, 64 wide",
     lambda budget: (64, 256, 1, (budget - VOCABULARY * 64) // (_size(64, 256, 1, 1) - 512_000)),
     "At most 12 layers. Where they are not enough, the machine must become wider."),
    ("d_model where d_ff belongs",
     lambda budget: (spend(budget)[1], spend(budget)[0], *spend(budget)[2:]),
     "The order is d_model, d_ff, n_heads, n_layers."),
    ("layers where heads belong",
     lambda budget: (*spend(budget)[:2], spend(budget)[3], spend(budget)[2]),
     "The order is d_model, d_ff, n_heads, n_layers."),
    ("heads where d_ff belongs",
     lambda budget: (lambda d, f, h, n: (d, h, f, n))(*spend(budget)),
     "The order is d_model, d_ff, n_heads, n_layers."),
)  # fmt: skip


EXERCISES = [
    Exercise(
        number="11.1",
        title="narrow heads",
        section="Every parameter",
        reference=parameters,
        cases=SIZES,
        mistakes=COUNT_MISTAKES,
        invariants=Family(
            _counted_wrong,
            [
                Invariant(
                    "the embedding alone has vocab_size times d_model",
                    _whole,
                    "The whole cannot have fewer parameters than the embedding matrix.",
                )
            ],
        ),
    ),
    Exercise(
        number="11.2",
        title="the gradient of the shared matrix",
        section="Words in, words out",
        reference=shared_gradient,
        cases=shared_cases,
        mistakes=SHARED_MISTAKES,
    ),
    Exercise(
        number="11.3",
        title="the encoder layer in both orders",
        section="The encoder",
        reference=encoder_layer,
        cases=encoder_cases,
        mistakes=ENCODER_MISTAKES,
    ),
    Exercise(
        number="11.4",
        title="the decoder layer in pre-norm",
        section="The decoder",
        reference=decoder_layer,
        cases=decoder_cases,
        mistakes=DECODER_MISTAKES,
    ),
    Exercise(
        number="11.5",
        title="three masks",
        section="The whole",
        reference=three_masks,
        cases=MASK_CASES,
        probe=mask_probe,
        mistakes=MASK_MISTAKES,
        parts=("the encoder's mask", "the decoder's mask", "the mask of cross-attention"),
        invariants=[
            Invariant(
                "no padding is seen",
                _no_padding_seen,
                "A key that is padding must be hidden from every query. Padding masks are made "
                "from the tokens that the keys come from.",
            ),
            Invariant(
                "no word sees its future",
                _future_hidden,
                "Row t of the decoder's mask must be False behind column t.",
            ),
        ],
    ),
    Exercise(
        number="11.6",
        title="a batch with its ends",
        section="The whole",
        reference=make_batch,
        cases=BATCH_CASES,
        canonical=batch_form,
        parts=("what the encoder reads", "what the decoder reads", "the labels"),
        mistakes=BATCH_MISTAKES,
    ),
    Exercise(
        number="11.7",
        title="find the bugs",
        section="Copy",
        reference=write_out,
        cases=writing_cases,
        probe=seeded,
        mistakes=WRITING_MISTAKES,
    ),
    Exercise(
        number="11.8",
        title="which fault?",
        section="What to check when a model does not learn",
        reference=which_fault,
        cases=machine_cases,
        canonical=in_words,
        mistakes=FAULT_MISTAKES,
        invariants=Family(_mistaken),
    ),
    Exercise(
        number="11.9",
        title="predict, then try: what learns nothing",
        section="4. Does a gradient reach every parameter?",
        reference=_matrices(["encoder", "cross"], "qk"),
        canonical=as_set,
        mistakes=GRADIENT_MISTAKES,
        invariants=Family(_learns_or_not),
    ),
    Exercise(
        number="11.10",
        title="spend a budget",
        section="Every parameter",
        reference=spend,
        cases=BUDGETS,
        probe=spent,
        mistakes=BUDGET_MISTAKES,
        invariants=Family(_how_spent),
    ),
]
