"""The exercises of chapter 20, from 2017 to today: references, cases, mistakes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from allyouneed.attention import attention
from allyouneed.today import rotary_angles, rotate

from .core import Case, Exercise, Family, mistakes
from .pairs import combined
from .suspects import moved, rules, said_closely, spoken

# 20.1 gamma in the next matrix


def absorbed(gamma: Tensor, W: Tensor) -> Tensor:
    return W * gamma


def absorbed_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(201)
    cases = [(torch.tensor([1.0, 2.0]), torch.tensor([[3.0, 4.0], [5.0, 6.0]]))]
    for D in (3, 5, 1):
        gamma = 0.5 + torch.rand(D, generator=draw)
        cases.append((gamma, torch.randn(D, D, generator=draw)))
    signs = torch.tensor([0.5, -1.5, 2.0, -0.7])
    return [*cases, (signs, torch.randn(4, 4, generator=draw))]


ABSORBED_MISTAKES = mistakes(
    ("the diagonal alone", lambda gamma, W: torch.diag(W.diag() * gamma),
     "Every entry of x goes to every query: all of column j is multiplied by gamma_j."),
    ("the rows multiplied",
     lambda gamma, W: W * gamma[:, None],
     "That multiplies what comes *out*, entry by entry. gamma stands in front of the matrix: entry "
     "j of x meets column j of W."),
    ("rows and columns multiplied",
     lambda gamma, W: gamma[:, None] * W * gamma,
     "Once is enough, and only on the side on which x comes in."),
    ("divided by gamma",
     lambda gamma, W: W / gamma,
     "gamma is taken out of the norm, so the matrix has to do the multiplication in its place."),
    ("gamma in every row, and no W", lambda gamma, W: gamma.expand_as(W),
     "The new weight has W in it: its column j is gamma_j times column j of W."),
    ("gamma added to the columns", lambda gamma, W: W + gamma[:, None],
     "gamma multiplies. A beta would be added, and it would become a bias, not a weight."),
    ("the rows divided",
     lambda gamma, W: W / gamma[:, None],
     "gamma is taken out of the norm, so the matrix multiplies by it: column j by gamma_j."),
    ("nothing changed",
     lambda gamma, W: W,
     "Then gamma would be lost: the norm does not make up for it, and the matrix as it stands does "
     "not, either."),
    ("transposed",
     lambda gamma, W: (W * gamma).mT,
     "The weight of an `nn.Linear` is used as x W^T: hand it back the way it came, (out, in)."),
    ("transposed, and the rows multiplied",
     lambda gamma, W: W.mT * gamma,
     "`nn.Linear` computes x W^T from the weight as it stands, (out, in). No transposing: column "
     "j of W is what entry j of x meets."),
    ("gamma squared",
     lambda gamma, W: W * gamma**2,
     "gamma was multiplied once."),
    ("the root of gamma", lambda gamma, W: W * gamma.sqrt(),
     "The root of the mean square stays in the norm. gamma itself has none."),
    ("gamma without its sign", lambda gamma, W: W * gamma.abs(),
     "gamma may be negative: it was learned like any weight, and goes into the matrix as it is."),
    ("the root of gamma without its sign", lambda gamma, W: W * gamma.abs().sqrt(),
     "The root of the mean square stays in the norm. gamma itself has none, and keeps its sign."),
    ("gamma and one",
     lambda gamma, W: W * (1 + gamma),
     "Gemma stores gamma - 1. Here gamma is the factor itself."),
    ("gamma added",
     lambda gamma, W: W + gamma,
     "gamma multiplies. A beta would be added, and it would become a bias, not a weight."),
    ("gamma brought to the mean square 1",
     lambda gamma, W: W * gamma / gamma.pow(2).mean().sqrt(),
     "The norm divides by the root mean square of x, before gamma. gamma itself is not normed."),
    ("gamma of length one",
     lambda gamma, W: W * gamma / gamma.norm(),
     "The norm divides x, before gamma. gamma itself is not normed."),
    ("gamma subtracted",
     lambda gamma, W: W - gamma,
     "gamma multiplies: column j of W becomes gamma_j times as large."),
    ("divided by gamma, and transposed",
     lambda gamma, W: (W / gamma).mT,
     "gamma is taken out of the norm, so the matrix multiplies by it; and the weight of an "
     "`nn.Linear` keeps its form, (out, in)."),
    ("gamma turned round",
     lambda gamma, W: W * gamma.flip(0),
     "Entry j of x meets column j of W: gamma keeps its order."),
    ("the rows multiplied twice", lambda gamma, W: W * gamma[:, None] ** 2,
     "gamma multiplies once, and the *columns*: entry j of x meets column j of W."),
    ("gamma divided by its mean",
     lambda gamma, W: W * gamma / gamma.mean(),
     "gamma goes into the matrix as it is."),
    ("one factor for all",
     lambda gamma, W: W * gamma.mean(),
     "Each entry of x has its own gamma."),
    *(
        (f"one factor for all, {name}", wrong, "Each entry of x has its own gamma: as many "
         "factors as columns.")
        for name, wrong in (
            ("gamma's root mean square", lambda gamma, W: W * gamma.pow(2).mean().sqrt()),
            ("gamma's length", lambda gamma, W: W * gamma.norm()),
            ("gamma's sum", lambda gamma, W: W * gamma.sum()),
            ("gamma's largest entry", lambda gamma, W: W * gamma.max()),
            ("gamma's first entry", lambda gamma, W: W * gamma[0]),
        )
    ),
    ("the columns of a normed matrix",
     lambda gamma, W: W / W.pow(2).mean(-1, keepdim=True).sqrt() * gamma,
     "What is normed is x. The matrix is only multiplied by gamma, column by column."),
    ("a matrix times a vector",
     lambda gamma, W: W @ gamma,
     "That is one vector: it has summed over the columns. The new weight has the shape of W."),
    ("gamma alone, as a matrix",
     lambda gamma, W: torch.diag(gamma),
     "That is gamma as a matrix. The matrix behind it is still to be applied: both together."),
)  # fmt: skip


# 20.2 the width of a gated net


def gated_width(d_model: int, d_ff: int, multiple: int) -> int:
    parameters = 2 * d_model * d_ff + d_ff + d_model
    return parameters // (3 * d_model * multiple) * multiple


WIDTH_CASES = [
    (4, 16, 1),
    (4, 17, 1),
    (4, 16, 5),
    (10, 299, 8),
    (512, 2048, 64),
    (7, 100, 3),
    (3, 29, 1),
    (3, 6, 1),
    (2, 3, 8),
    (1000, 8, 1),
    (2, 1000, 1),
    (6, 10, 4),
    (1, 5, 1),
]


def _width(
    parameters: Callable[[int, int], int] = lambda d, f: 2 * d * f + f + d,
    unit: Callable[[int], int] = lambda d: 3 * d,
    rounded: Callable[[int, int, int], float] = lambda p, u, m: p // (u * m) * m,
) -> Callable[[int, int, int], float]:
    """The width, right by default; each argument makes one mistake."""
    return lambda d_model, d_ff, multiple: rounded(
        parameters(d_model, d_ff), unit(d_model), multiple
    )


WIDTH_SLIPS = [
    ("the biases forgotten", {"parameters": lambda d, f: 2 * d * f},
     "The paper's net has d_ff and d_model biases."),
    ("each bias twice", {"parameters": lambda d, f: 2 * (d * f + f + d)},
     "Each of the two matrices has one bias: d_ff entries, and d_model."),
    ("no bias behind the paper's second matrix, or one in both nets",
     {"parameters": lambda d, f: 2 * d * f + f},
     "The paper's net has d_model of them, the gated net none."),
    ("the first bias forgotten", {"parameters": lambda d, f: 2 * d * f + d},
     "There is a bias behind each of the two matrices."),
    ("one matrix in the paper's net", {"parameters": lambda d, f: d * f + f + d},
     "The paper's net has two matrices."),
    ("two matrices in the gated net", {"unit": lambda d: 2 * d}, "A gated net has three matrices."),
    ("a bias for each unit of the gated net", {"unit": lambda d: 3 * d + 1},
     "The gated net has no biases."),
    ("two biases for each unit of the gated net", {"unit": lambda d: 3 * d + 2},
     "The gated net has no biases."),
    ("rounded up", {"rounded": lambda p, u, m: -(-p // (u * m)) * m},
     "At most as many: round down."),
    ("rounded to the nearest", {"rounded": lambda p, u, m: round(p / (u * m)) * m},
     "At most as many: round down."),
    ("any width", {"rounded": lambda p, u, m: p // u}, "It is to be a multiple of `multiple`."),
    ("the number of multiples", {"rounded": lambda p, u, m: p // (u * m)},
     "Asked for is the width."),
    ("a fraction", {"rounded": lambda p, u, m: p / u}, "A width is a whole number."),
]  # fmt: skip


WIDTH_KNOWN = [
    ("the biases forgotten", "two matrices in the gated net"),
    ("the biases forgotten", "rounded up"),
    ("the biases forgotten", "rounded to the nearest"),
    (
        "no bias behind the paper's second matrix, or one in both nets",
        "two biases for each unit of the gated net",
    ),
    ("the first bias forgotten", "two matrices in the gated net"),
]


WIDTH_MISTAKES = mistakes(
    ("the width rounded up, and then down to a multiple",
     lambda d_model, d_ff, multiple: (
         -(-(2 * d_model * d_ff + d_ff + d_model) // (3 * d_model)) // multiple * multiple
     ),
     "At most as many: round down, both times."),
    ("half of d_ff", lambda d_model, d_ff, multiple: d_ff // (2 * multiple) * multiple,
     "Two matrices of d_ff become three: their width is about two *thirds*."),
    ("a bias for each unit of the gated net", _width(unit=lambda d: 3 * d + 1),
     "The gated net has no biases: a unit costs 3 d_model parameters."),
    ("one matrix in the paper's net", _width(parameters=lambda d, f: d * f + f + d),
     "The paper's net has two matrices, d_model x d_ff and back."),
    ("d_model and d_ff exchanged",
     lambda d_model, d_ff, multiple: gated_width(d_ff, d_model, multiple),
     "The first argument is the width of the model, the second that of the paper's net."),
    ("four thirds of d_ff",
     lambda d_model, d_ff, multiple: 4 * d_ff // (3 * multiple) * multiple,
     "Two matrices of d_ff become three: their width is about *two* thirds."),
    ("the biases subtracted", _width(parameters=lambda d, f: 2 * d * f - f - d),
     "The paper's biases are parameters that the gated net may spend: they are added."),
    ("two thirds of four times d_model",
     lambda d_model, d_ff, multiple: 8 * d_model // (3 * multiple) * multiple,
     "d_ff need not be four times d_model: count the parameters of a net of this d_ff."),
    ("two thirds of d_ff, the biases forgotten",
     lambda d_model, d_ff, multiple: 2 * d_ff // (3 * multiple) * multiple,
     "The paper's net has biases, too: d_ff and d_model of them, which the gated net may spend."),
    ("each bias twice",
     lambda d_model, d_ff, multiple: (
         2 * (d_model * d_ff + d_ff + d_model) // (3 * d_model * multiple) * multiple
     ),
     "Each of the two matrices has one bias: d_ff entries, and d_model."),
    ("no bias behind the paper's second matrix, or one in both nets",
     lambda d_model, d_ff, multiple: (
         (2 * d_model + 1) * d_ff // (3 * d_model * multiple) * multiple
     ),
     "In the paper's net there is a bias behind each of the two matrices: d_ff entries, and "
     "d_model. The gated net has none."),
    ("fewer, and not as many", lambda d_model, d_ff, multiple: (
         (2 * d_model * d_ff + d_ff + d_model - 1) // (3 * d_model * multiple) * multiple),
     "At most as many: exactly as many will do."),
    ("the width rounded down, and then to the nearest multiple", lambda d_model, d_ff, multiple: (
         round((2 * d_model * d_ff + d_ff + d_model) // (3 * d_model) / multiple) * multiple),
     "At most as many: round down to a multiple, too."),
    ("at least one multiple", lambda d_model, d_ff, multiple: (
         max(multiple, gated_width(d_model, d_ff, multiple))),
     "Where not even one multiple fits the width is 0: with one, the net would be larger than the "
     "paper's."),
    ("always below d_ff",
     lambda d_model, d_ff, multiple: min(
         gated_width(d_model, d_ff, multiple), (d_ff - 1) // multiple * multiple
     ),
     "Where d_model is 1 the biases are worth a whole matrix: search up to d_ff, and further."),
    ("three matrices in the paper's net", _width(parameters=lambda d, f: 3 * d * f + f + d),
     "The paper's net has two matrices, d_model x d_ff and back."),
    ("one multiple less", lambda *sizes: max(0, gated_width(*sizes) - sizes[2]),
     "Exactly as many parameters, and any fewer, will do: take the largest width that fits."),
    ("two biases of d_model entries", _width(parameters=lambda d, f: 2 * d * f + 2 * d),
     "The first bias stands behind the matrix that leads to d_ff: d_ff entries."),
    ("three biases for each unit of the gated net", _width(unit=lambda d: 3 * d + 3),
     "The gated net has no biases: a unit costs 3 d_model parameters."),
    ("four matrices in the gated net", _width(unit=lambda d: 4 * d),
     "A gated net has three matrices: the gate, what passes it, and the way back."),
    ("two biases of d_ff entries", lambda d_model, d_ff, multiple: (
         (2 * d_model * d_ff + 2 * d_ff) // (3 * d_model * multiple) * multiple),
     "The second bias stands behind the matrix that leads back: d_model entries."),
    ("the width rounded down, and then up to a multiple", lambda d_model, d_ff, multiple: (
         -(-gated_width(d_model, d_ff, 1) // multiple) * multiple),
     "At most as many: round down, to the multiple as well."),
    ("rounded to the nearest", lambda d_model, d_ff, multiple: (
         round((2 * d_model * d_ff + d_ff + d_model) / (3 * d_model * multiple)) * multiple),
     "At most as many: round down."),
    ("a fraction", lambda d_model, d_ff, multiple: (
         (2 * d_model * d_ff + d_ff + d_model) / (3 * d_model)),
     "A width is a whole number, and a multiple of `multiple`: round down."),
    ("Llama's own rule", lambda d_model, d_ff, multiple: (
         -(-int(2 * d_ff / 3) // multiple) * multiple),
     "Llama takes two thirds of d_ff and rounds up. Here both nets are counted, with the paper's "
     "biases, and the width is rounded down."),
    ("a power of two", lambda d_model, d_ff, multiple: (
         2 ** int(math.log2(max(1, gated_width(d_model, d_ff, 1))))),
     "Asked for is the largest multiple of `multiple`, which need not be a power of two."),
    ("the parameters of the gated net", lambda d_model, d_ff, multiple: (
         3 * d_model * gated_width(d_model, d_ff, multiple)),
     "Asked for is the width, not how many parameters the net has."),
    ("rounded up",
     lambda d_model, d_ff, multiple: (
         -(-(2 * d_model * d_ff + d_ff + d_model) // (3 * d_model * multiple)) * multiple
     ),
     "At most as many: round down."),
    ("any width",
     lambda d_model, d_ff, multiple: gated_width(d_model, d_ff, 1),
     "The width has to be a multiple of `multiple`."),
    ("the number of multiples",
     lambda d_model, d_ff, multiple: gated_width(d_model, d_ff, multiple) // multiple,
     "That is how many multiples fit. Asked for is the width."),
    ("two matrices in the gated net",
     lambda d_model, d_ff, multiple: (
         (2 * d_model * d_ff + d_ff + d_model) // (2 * d_model * multiple) * multiple
     ),
     "A gated net has three matrices: the gate, what passes it, and the way back."),
    ("biases in the gated net",
     lambda d_model, d_ff, multiple: (
         (2 * d_model * d_ff + d_ff) // ((3 * d_model + 2) * multiple) * multiple
     ),
     "The gated net has no biases: a unit costs 3 d_model parameters."),
    ("d_ff itself",
     lambda d_model, d_ff, multiple: d_ff // multiple * multiple,
     "With three matrices of width d_ff the net has half as many parameters again."),
    ("two thirds, rounded to the nearest",
     lambda d_model, d_ff, multiple: round(2 * d_ff / 3 / multiple) * multiple,
     "Two thirds is the rule of thumb. Count both nets, biases too, and round down."),
    ("two thirds, rounded up",
     lambda d_model, d_ff, multiple: -(-2 * d_ff // (3 * multiple)) * multiple,
     "Two thirds is the rule of thumb. Count both nets, biases too, and round down."),
    ("three halves",
     lambda d_model, d_ff, multiple: 3 * d_ff // (2 * multiple) * multiple,
     "Three matrices in place of two: the width becomes smaller, about two thirds."),
    ("the parameters",
     lambda d_model, d_ff, multiple: 2 * d_model * d_ff + d_ff + d_model,
     "That is what the paper's net has. Which width of the gated net comes closest from below?"),
    ("the first bias forgotten",
     lambda d_model, d_ff, multiple: (
         (2 * d_model * d_ff + d_model) // (3 * d_model * multiple) * multiple
     ),
     "There is a bias behind each of the two matrices: d_ff entries, and d_model."),
    *combined(_width, WIDTH_SLIPS, WIDTH_KNOWN),
    ("divided by three, and not by d_model", _width(unit=lambda d: 3),
     "Each unit of the gated net has 3 d_model parameters, d_model in each of its matrices."),
    ("divided by d_model, and not by three", _width(unit=lambda d: d),
     "Each unit of the gated net has 3 d_model parameters, d_model in each of its matrices."),
    ("the parameters, down to a multiple", _width(unit=lambda d: 1),
     "That many parameters there are. Asked for is the width: divide by those of a unit, "
     "3 d_model."),
    ("one multiple more",
     lambda d_model, d_ff, multiple: gated_width(d_model, d_ff, multiple) + multiple,
     "At most as many: the largest width that still fits, not the first that does not."),
)  # fmt: skip


# 20.3 from one pairing to the other


def reordered(W: Tensor, n_heads: int) -> Tensor:
    return W.unflatten(0, (n_heads, -1, 2)).transpose(1, 2).flatten(0, 2)


def reordered_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(203)
    cases = [(torch.arange(6.0)[:, None], 1)]
    for rows, D, heads in ((12, 3, 2), (16, 16, 2), (18, 2, 3)):
        cases.append((torch.randn(rows, D, generator=draw), heads))
    return cases


def _turned(x: Tensor, angle: Tensor) -> Tensor:
    """Pairs of halves, turned by angles (T, K / 2)."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)


def _angle(x: Tensor, places: Tensor, theta: float) -> Tensor:
    K = x.shape[-1]
    return places[:, None] * theta ** (-torch.arange(0, K, 2) / K)


def _neighbours(x: Tensor, angle: Tensor) -> Tensor:
    a, b = x[..., 0::2], x[..., 1::2]
    turned = (a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos())
    return torch.stack(turned, -1).flatten(-2)


def _head_by_head(change: Callable[[Tensor], Tensor]) -> Callable[[Tensor, int], Tensor]:
    """A mistake in each head alone: `change` of its rows."""
    return lambda W, n_heads: torch.cat([change(head) for head in W.chunk(n_heads)])


def _all_as_one(change: Callable[[Tensor], Tensor]) -> Callable[[Tensor, int], Tensor]:
    """The same mistake over the whole matrix, as if there were one head."""
    return lambda W, n_heads: change(W)


def _odd_first(head: Tensor) -> Tensor:
    return torch.cat([head[1::2], head[0::2]])


def _reversed_pairs(head: Tensor) -> Tensor:
    return torch.cat([head[0::2].flip(0), head[1::2].flip(0)])


def _halves_exchanged(head: Tensor) -> Tensor:
    return torch.cat([head[len(head) // 2 :], head[: len(head) // 2]])


def _columns_by_number(W: Tensor, n_heads: int) -> Tensor:
    K = W.shape[1] // n_heads
    order = torch.cat([torch.arange(0, K, 2), torch.arange(1, K, 2)])
    return W[:, torch.cat([h * K + order for h in range(n_heads)])]


def _in_place(head: Tensor, odd_first: bool) -> Tensor:
    """A half written over, and the other one read after that."""
    half = len(head) // 2
    for odd in (odd_first, not odd_first):
        head[half * odd : half * (1 + odd)] = head[int(odd) :: 2].clone()
    return head


def _row_by_row(head: Tensor) -> Tensor:
    """Each row written where it belongs, over one that may be read later."""
    for i in range(len(head) // 2):
        head[i] = head[2 * i].clone()
        head[i + len(head) // 2] = head[2 * i + 1].clone()
    return head


AS_ONE = "And head by head: each has K / 2 pairs of its own."
REORDERED_MISTAKES = mistakes(
    ("a matrix that reorders",
     lambda W, n: reordered(torch.eye(len(W)), n),
     "Multiplied with W it gives the rows in order. Asked for are these rows themselves."),
    ("rows and columns alike",
     lambda W, n: (lambda rows: torch.cat([rows[:, ::2], rows[:, 1::2]], 1))(reordered(W, n)),
     "The columns belong to x, which nobody turns: only rows change their places."),
    ("the even rows alone", lambda W, n_heads: W[::2],
     "Behind the even rows of each head come its odd ones."),
    ("one half with the sign turned",
     lambda W, n_heads: torch.cat(
         [half * (-1) ** i for i, half in ((1, W[1::2]), (0, W[::2]))]
     ).unflatten(0, (2, n_heads, -1)).transpose(0, 1).flatten(0, 2),
     "Only the order of the rows changes. The turning is done by the rotation, later."),
    ("the rows dealt to the heads in turn",
     lambda W, n_heads: W.unflatten(0, (-1, n_heads)).transpose(0, 1).flatten(0, 1),
     "The rows of a head stand together in W: it has n_heads blocks of K rows. They change places "
     "within their block."),
    ("the pairs of all heads in turn",
     lambda W, n_heads: W.unflatten(0, (n_heads, -1, 2)).transpose(0, 1).flatten(0, 2),
     "The heads stay one below the other. Within a head the first entries of all pairs come "
     "first, then the second ones."),
    ("the odd rows first, all heads as one", _all_as_one(_odd_first),
     f"The first entry of a pair goes into the first half. {AS_ONE}"),
    ("the pairs in reverse, all heads as one", _all_as_one(_reversed_pairs),
     f"Pair 0 turns fastest and must remain pair 0. {AS_ONE}"),
    ("the rows in reverse, all heads as one", _all_as_one(lambda W: W.flip(0)),
     f"The first entries of all pairs come first, in their order. {AS_ONE}"),
    ("the halves exchanged, all heads as one", _all_as_one(_halves_exchanged),
     f"The pairs of these weights are neighbours, not halves. {AS_ONE}"),
    ("the even rows twice",
     _head_by_head(lambda head: torch.cat([head[0::2], head[0::2]])),
     "The second half holds the odd rows: `1::2`."),
    ("reordered twice", lambda W, n_heads: reordered(reordered(W, n_heads), n_heads),
     "Once brings neighbours K / 2 apart. Twice makes something else of them."),
    ("the way back, the odd rows first, all heads as one",
     _all_as_one(lambda W: torch.stack(W.chunk(2)[::-1], 1).flatten(0, 1)),
     f"Asked for is the other way, and the first entries first. {AS_ONE}"),
    ("the way back, and the odd rows first",
     _head_by_head(lambda head: torch.stack(head.chunk(2)[::-1], 1).flatten(0, 1)),
     "That makes neighbours of halves, and turns each pair backwards. Asked for is the other way."),
    ("the heads in reverse", lambda W, n_heads: torch.cat(
        [reordered(head, 1) for head in W.chunk(n_heads)][::-1]),
     "Each head's rows are right; the heads stay in their order."),
    ("the numbers of the rows in place of the rows",
     lambda W, n_heads: reordered(torch.arange(len(W))[:, None], n_heads)[:, 0],
     "That is the order. Asked for are the rows of W in this order: W[order]."),
    ("the heads taken to stand in turns, each with a block of its own",
     lambda W, n_heads: W.unflatten(0, (-1, 2, n_heads)).permute(2, 1, 0, 3).flatten(0, 2),
     "The rows of a head stand together in W: it has n_heads blocks of K rows."),
    ("columns in place of rows, the way back",
     lambda W, n_heads: torch.cat(
         [torch.stack(W.T.chunk(2), 1).flatten(0, 1).T], 0) if W.shape[1] % 2 == 0 else W,
     "The columns belong to x, which nobody turns; and neighbours are to become halves."),
    ("the way back, transposed",
     lambda W, n_heads: W.unflatten(0, (n_heads, 2, -1)).transpose(1, 2).flatten(0, 2).mT,
     "The weight keeps its shape; and neighbours are to become halves, not the other way."),
    ("all heads as one, transposed", lambda W, n_heads: torch.cat([W[0::2], W[1::2]]).mT,
     f"The weight keeps its shape. {AS_ONE}"),
    ("all heads as one",
     lambda W, n_heads: torch.cat([W[0::2], W[1::2]]),
     "Head by head: each has K / 2 pairs of its own. Over the whole matrix, rows of one head come "
     "into another."),
    ("the way back",
     lambda W, n_heads: W.unflatten(0, (n_heads, 2, -1)).transpose(1, 2).flatten(0, 2),
     "That makes neighbours of halves. Asked for is the other way: rows 0 and 1 of a head are a "
     "pair, and shall stand K / 2 apart."),
    ("the way back, all heads as one",
     lambda W, n_heads: W.unflatten(0, (2, -1)).transpose(0, 1).flatten(0, 1),
     "That makes neighbours of halves, and of all heads one. Asked for is the other way, head by "
     "head."),
    ("the odd rows first",
     _head_by_head(lambda head: torch.cat([head[1::2], head[0::2]])),
     "The first entry of a pair goes into the first half. The other way round each pair turns "
     "backwards."),
    ("the second half turned round",
     _head_by_head(lambda head: torch.cat([head[0::2], head[1::2].flip(0)])),
     "Pair i has the entries i and i + K / 2: both halves run in the same order."),
    ("the pairs in reverse",
     _head_by_head(lambda head: torch.cat([head[0::2].flip(0), head[1::2].flip(0)])),
     "Pair 0 turns fastest and must remain pair 0."),
    ("the rows in reverse",
     _head_by_head(lambda head: head.flip(0)),
     "The pairs would still be neighbours. The first entries of all pairs come first."),
    ("nothing changed",
     lambda W, n_heads: W,
     "Then code that pairs halves takes rows 0 and K / 2 for a pair, and they are not. (`view` and "
     "`reshape` move no row: what exchanges two axes is `transpose`.)"),
    ("the halves exchanged",
     _head_by_head(lambda head: torch.cat([head[len(head) // 2 :], head[: len(head) // 2]])),
     "The pairs of these weights are neighbours, not halves: even rows first, then the odd ones."),
    ("neighbours exchanged",
     _head_by_head(lambda head: head.unflatten(0, (-1, 2)).flip(1).flatten(0, 1)),
     "The pairs are still neighbours, and turn backwards. Even rows first, then the odd ones."),
    ("columns in place of rows",
     lambda W, n_heads: torch.cat([W[:, 0::2], W[:, 1::2]], 1),
     "The columns belong to x, which nobody turns. The entries of a query are the *rows* of an "
     "`nn.Linear`'s weight."),
    *(
        (f"the columns reordered, head by head{name}", wrong,
         "The columns belong to x, which nobody turns. The entries of a query are the *rows* of an "
         "`nn.Linear`'s weight.")
        for name, wrong in (
            ("", lambda W, n: torch.cat(
                [torch.cat([head[:, 0::2], head[:, 1::2]], 1) for head in W.chunk(n, 1)], 1)),
            (", and an error where they have no pairs",
             lambda W, n: reordered(W.mT.contiguous(), n).mT),
            (", by their numbers", _columns_by_number),
        )
    ),
    *(
        (f"rows written over that were still to be read, {name}", _head_by_head(wrong),
         "What is written over is lost: read from W, and write into another tensor.")
        for name, wrong in (
            ("the first half first", lambda head: _in_place(head, False)),
            ("the second half first", lambda head: _in_place(head, True)),
            ("pair by pair", _row_by_row),
        )
    ),
    ("the first head only",
     lambda W, n_heads: torch.cat(
         [reordered(W[: len(W) // n_heads], 1), W[len(W) // n_heads :]]
     ),
     "Every head is turned, so every head is reordered."),
    ("the second half negated",
     _head_by_head(lambda head: torch.cat([head[0::2], -head[1::2]])),
     "Nothing is negated in the weights: the minus of a rotation is in the code that turns."),
    ("n_heads taken for the rows of a head",
     lambda W, n_heads: torch.cat(
         [torch.cat([head[0::2], head[1::2]]) for head in W.split(n_heads)]
     ),
     "`n_heads` is how many heads there are. A head has len(W) / n_heads rows."),
    ("the heads taken to stand in turns",
     lambda W, n_heads: W.unflatten(0, (-1, 2, n_heads)).transpose(0, 1).flatten(0, 2),
     "The rows of a head stand together: W has n_heads blocks of K rows."),
    ("heads and entries exchanged",
     lambda W, n_heads: W.unflatten(0, (n_heads, -1)).transpose(0, 1).flatten(0, 1),
     "The heads stay in their order. Within each, even rows come first, then the odd ones."),
    ("n_heads taken for the pairs of a head",
     lambda W, n_heads: W.unflatten(0, (-1, n_heads, 2)).transpose(1, 2).flatten(0, 2)
     if len(W) % (2 * n_heads) == 0 else W,
     "`n_heads` is how many heads there are. A head has len(W) / n_heads rows."),
    ("transposed",
     lambda W, n_heads: reordered(W, n_heads).mT,
     "The weight keeps its shape: only the order of its rows changes."),
    ("the rows of the first head for every head",
     lambda W, n_heads: reordered(W[: len(W) // n_heads], 1).repeat(n_heads, 1),
     "The rows of head h begin h K rows further on."),
)  # fmt: skip


# 20.4 attention with grouped heads


def grouped(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    times = q.shape[1] // k.shape[1]
    return _attend(q, k.repeat_interleave(times, 1), v.repeat_interleave(times, 1))


def _attend(q: Tensor, k: Tensor, v: Tensor, scale: float | None = None) -> Tensor:
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    return (q @ k.transpose(-1, -2) * scale).softmax(-1) @ v


def _tiled(x: Tensor, q: Tensor) -> Tensor:
    return x.repeat(1, q.shape[1] // x.shape[1], 1, 1)


def _spread(x: Tensor, q: Tensor) -> Tensor:
    return x.repeat_interleave(q.shape[1] // x.shape[1], 1)


def grouped_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(204)
    cases = []
    for B, H, G, T, S, K in ((2, 6, 2, 3, 5, 4), (1, 8, 4, 4, 3, 2), (2, 4, 2, 1, 3, 6)):
        sizes = ((B, H, T, K), (B, G, S, K), (B, G, S, K))
        cases.append(tuple(2 * torch.randn(*size, generator=draw) for size in sizes))
    return cases


def _averaged(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    means = q.unflatten(1, (k.shape[1], -1)).mean(2)
    return _spread(_attend(means, k, v), q)


def _with_groups(
    shared: Callable[[Tensor, Tensor], Tensor] = _spread,
    scale: Callable[[Tensor, Tensor], float] = lambda q, k: q.shape[-1] ** -0.5,
    axis: int = -1,
    causal: bool = False,
    values: Callable[[Tensor, Tensor], Tensor] | None = None,
) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Grouped attention, right by default; each argument makes one mistake."""

    def answer(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = q @ shared(k, q).mT * scale(q, k)
        if causal:
            later = torch.ones(scores.shape[-2:]).triu(1).bool()
            scores = scores.masked_fill(later, -math.inf)
        return scores.softmax(axis) @ (values or shared)(v, q)

    return answer


def _in_groups(slip: dict[str, Any]) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
    """Grouped attention whose result is (B, G, H / G, T, K) still."""
    way = _with_groups(**slip)
    return lambda q, k, v: way(q, k, v).unflatten(1, (k.shape[1], -1))


def _set_of(which: Callable[[Tensor, int, int], Tensor]) -> Callable[..., Tensor]:
    """Another set of keys and values for each head: `which(h, H, G)`."""

    def answer(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        sets = which(torch.arange(q.shape[1]), q.shape[1], k.shape[1])
        return _attend(q, k[:, sets], v[:, sets])

    return answer


GROUPED_SLIPS = [
    ("the sets dealt out like cards", {"shared": _tiled},
     "*Neighbouring* heads share a set: `repeat_interleave`."),
    ("the values dealt out like cards", {"shared": _spread, "values": _tiled},
     "The values of a head belong to the same set as its keys."),
    ("the keys dealt out like cards", {"shared": _tiled, "values": _spread},
     "The values of a head belong to the same set as its keys."),
    ("one set for all heads", {"shared": lambda x, q: x[:, :1]}, "There are G sets."),
    ("the mean of all sets", {"shared": lambda x, q: x.mean(1, keepdim=True)},
     "Each head has the set of its group."),
    ("the groups in reverse order", {"shared": lambda x, q: _spread(x.flip(1), q)},
     "The first H / G heads use the first set."),
    ("not scaled", {"scale": lambda q, k: 1.0}, "Scores are divided by the root of K."),
    ("divided by K", {"scale": lambda q, k: 1 / q.shape[-1]}, "Divide by the *root* of K."),
    ("multiplied by the root of K", {"scale": lambda q, k: q.shape[-1] ** 0.5},
     "Divide, do not multiply."),
    ("divided by the root of the number of keys", {"scale": lambda q, k: k.shape[-2] ** -0.5},
     "The scale is the root of the width of a key."),
    ("the softmax over the queries", {"axis": -2},
     "The softmax runs over the keys, the last axis."),
    ("the softmax over the heads", {"axis": 1}, "The softmax runs over the keys, the last axis."),
    ("a causal mask", {"causal": True}, "The task has no mask."),
]  # fmt: skip
GROUPED_KNOWN = [
    ("a causal mask", "the softmax over the heads"),  # no number, whatever the other slip
    ("a causal mask", "the softmax over the queries"),
]


GROUPED_MISTAKES = mistakes(
    ("divided by the root of the number of queries",
     _with_groups(scale=lambda q, k: q.shape[-2] ** -0.5),
     "The width of a head is meant: the root of K."),
    ("divided by the root of the number of heads",
     _with_groups(scale=lambda q, k: q.shape[1] ** -0.5),
     "The width of a head is meant: the root of K."),
    ("the values' sets in reverse order", _with_groups(values=lambda x, q: _spread(x.flip(1), q)),
     "The values of a head belong to the same set as its keys."),
    ("the queries of a group added up",
     lambda q, k, v: _attend(q.unflatten(1, (k.shape[1], -1)).sum(2), k, v),
     "Heads share keys and values, not queries: all H heads ask, each for itself."),
    ("what all sets give, added up",
     lambda q, k, v: sum(
         _attend(q, k[:, g : g + 1], v[:, g : g + 1]) for g in range(k.shape[1])
     ),
     "Each head looks at one set, that of its group."),
    ("the logarithm of the weights",
     lambda q, k, v: (
         (q @ _spread(k, q).mT / q.shape[-1] ** 0.5).log_softmax(-1) @ _spread(v, q)
     ),
     "Values are weighed by the softmax itself."),
    ("divided by the fourth root of K", _with_groups(scale=lambda q, k: q.shape[-1] ** -0.25),
     "The root of K, once. (The fourth root is for those who divide queries and keys each.)"),
    ("keys and values exchanged", lambda q, k, v: _attend(q, _spread(v, q), _spread(k, q)),
     "The weights come from queries and keys; what they weigh are the values."),
    ("divided by the root of the number of heads that share",
     _with_groups(scale=lambda q, k: (q.shape[1] // k.shape[1]) ** -0.5),
     "The width of a head is meant: the root of K."),
    ("the last set for all heads",
     lambda q, k, v: _attend(q, *(x[:, -1:].expand(-1, q.shape[1], -1, -1) for x in (k, v))),
     "There are G sets, and H / G heads share one. Does a loop overwrite them?"),
    ("the likeliest key alone",
     lambda q, k, v: _spread(v, q).gather(
         2, (q @ _spread(k, q).mT).argmax(-1, keepdim=True).expand(-1, -1, -1, v.shape[-1])
     ),
     "The weights are a softmax of the scores: all keys bring their values."),
    ("one head of each group for all its heads",
     lambda q, k, v: grouped(q, k, v)[:, :: q.shape[1] // k.shape[1]].repeat_interleave(
         q.shape[1] // k.shape[1], 1
     ),
     "Heads share keys and values, and each has queries of its own."),
    ("every head sees the keys of all sets",
     lambda q, k, v: _attend(q, *(
         x.flatten(1, 2)[:, None].expand(-1, q.shape[1], -1, -1) for x in (k, v)
     )),
     "A head attends to the keys of one set, that of its group. The sets are not put behind each "
     "other."),
    ("the groups moved on by one",
     lambda q, k, v: _attend(q, _spread(k.roll(1, 1), q), _spread(v.roll(1, 1), q)),
     "The first H / G heads use the first set."),
    ("the outputs of a group added up",
     lambda q, k, v: grouped(q, k, v).unflatten(1, (k.shape[1], -1)).sum(2),
     "Each head has an output of its own: (B, H, T, K)."),
    ("the keys of another group",
     lambda q, k, v: _attend(q, _spread(k.roll(1, 1), q), _spread(v, q)),
     "The keys of a head belong to the same set as its values."),
    ("the values of another group",
     lambda q, k, v: _attend(q, _spread(k, q), _spread(v.roll(1, 1), q)),
     "The values of a head belong to the same set as its keys."),
    ("the softmax taken twice",
     lambda q, k, v: (
         (q @ _spread(k, q).mT / q.shape[-1] ** 0.5).softmax(-1).softmax(-1) @ _spread(v, q)
     ),
     "The weights went through a second softmax, which makes them nearly equal."),
    ("the values of the first set for all heads",
     lambda q, k, v: _attend(q, _spread(k, q), v[:, :1]),
     "The values of a head belong to the same set as its keys."),
    ("the keys of the first set for all heads",
     lambda q, k, v: _attend(q, k[:, :1], _spread(v, q)),
     "The keys of a head belong to the same set as its values."),
    ("the queries dealt out like cards, and handed over in that order",
     lambda q, k, v: grouped(
         q.unflatten(1, (-1, k.shape[1])).transpose(1, 2).flatten(1, 2), k, v
     ),
     "The first H / G query heads use the first set, and come first in the output."),
    ("the queries of a group averaged, and a head for each group",
     lambda q, k, v: _attend(q.unflatten(1, (k.shape[1], -1)).mean(2), k, v),
     "Heads share keys and values, not queries: all H heads ask, each for itself."),
    *(
        (f"the axis of the groups left in{name}", _in_groups(slip),
         f"{why}The heads of all groups stand in one axis, (B, H, T, K): put the two axes, groups "
         "and heads of a group, together again.")
        for name, slip, why in (
            ("", {}, ""),
            (", and not scaled", {"scale": lambda q, k: 1.0},
             "Scores are divided by the root of K. "),
            (", and divided by K", {"scale": lambda q, k: 1 / q.shape[-1]},
             "Divide by the *root* of K. "),
            (", and the softmax over the queries", {"axis": -2},
             "The softmax runs over the keys. "),
            (", and a causal mask", {"causal": True}, "The task has no mask. "),
        )
    ),
    ("the axis of the groups left in, behind that of its heads",
     lambda q, k, v: grouped(q, k, v).unflatten(1, (k.shape[1], -1)).transpose(1, 2),
     "The heads of all groups stand in one axis, (B, H, T, K), those of the first group first."),
    ("the axis of the groups joined to that of the batch",
     lambda q, k, v: grouped(q, k, v).unflatten(1, (k.shape[1], -1)).flatten(0, 1),
     "The result has B rows again, (B, H, T, K): groups are parts of the heads, not of the batch."),
    *combined(_with_groups, GROUPED_SLIPS, GROUPED_KNOWN),
    ("G heads for each set, not H / G",
     lambda q, k, v: _attend(q, *(x.repeat_interleave(k.shape[1], 1) for x in (k, v))),
     "There are G sets for H heads, so H / G heads share one: `q.shape[1] // k.shape[1]`."),
    ("the sets dealt out like cards, G times, not H / G times",
     lambda q, k, v: _attend(q, *(x.repeat(1, k.shape[1], 1, 1) for x in (k, v))),
     "There are G sets for H heads, so H / G heads share one, and *neighbouring* heads do."),
    *(
        (f"head h has set {name}", _set_of(which),
         "The first H / G heads share set 0, the next H / G set 1: head h has set h // (H / G).")
        for name, which in (
            ("h // G, as far as there are sets", lambda h, H, G: (h // G).clamp(max=G - 1)),
            ("h // G", lambda h, H, G: h // G),
            ("h % (H / G)", lambda h, H, G: h % (H // G)),
            ("h % (H / G), as far as there are sets",
             lambda h, H, G: (h % (H // G)).clamp(max=G - 1)),
            ("h, as far as there are sets", lambda h, H, G: h.clamp(max=G - 1)),
        )
    ),
    ("the sets dealt out like cards", lambda q, k, v: _attend(q, _tiled(k, q), _tiled(v, q)),
     "`repeat` puts copies of all sets behind each other, so head 1 gets the second set. "
     "*Neighbouring* heads share one: `repeat_interleave`."),
    ("keys in one order, values in another",
     lambda q, k, v: _attend(q, _spread(k, q), _tiled(v, q)),
     "The keys are in place. The values of a head belong to the same set as its keys."),
    ("values in place, keys dealt out like cards",
     lambda q, k, v: _attend(q, _tiled(k, q), _spread(v, q)),
     "The values are in place. The keys of a head belong to the same set as its values."),
    ("one set for all heads", lambda q, k, v: _attend(q, k[:, :1], v[:, :1]),
     "That is multi-query attention. There are G sets, and H / G heads share one."),
    ("the mean of all sets for all heads",
     lambda q, k, v: _attend(q, k.mean(1, keepdim=True), v.mean(1, keepdim=True)),
     "Each head has a set of keys and values, that of its group. Sets are not averaged."),
    ("the queries of a group averaged", _averaged,
     "Heads share keys and values, not queries: each head asks for itself."),
    ("not scaled", lambda q, k, v: _attend(q, _spread(k, q), _spread(v, q), 1.0),
     "Scores are divided by the square root of K, as in equation (1)."),
    ("divided by K", lambda q, k, v: _attend(q, _spread(k, q), _spread(v, q), 1 / q.shape[-1]),
     "Divide by the square root of K."),
    ("multiplied by the root of K",
     lambda q, k, v: _attend(q, _spread(k, q), _spread(v, q), q.shape[-1] ** 0.5),
     "Divide by the square root of K, do not multiply."),
    ("divided by the root of d_model",
     lambda q, k, v: _attend(q, _spread(k, q), _spread(v, q), (q.shape[1] * q.shape[-1]) ** -0.5),
     "The scale is the root of the width of *one* head, K, not of all heads together."),
    ("the softmax over the queries",
     lambda q, k, v: (
         (q @ _spread(k, q).transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-2) @ _spread(v, q)
     ),
     "Each query shares its attention among the keys: the softmax runs over the last axis."),
    ("the softmax over the heads",
     lambda q, k, v: (
         (q @ _spread(k, q).transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(1) @ _spread(v, q)
     ),
     "Each query shares its attention among the keys: the softmax runs over the last axis."),
    ("divided by the root of the number of keys",
     lambda q, k, v: _attend(q, _spread(k, q), _spread(v, q), k.shape[-2] ** -0.5),
     "The scale is the root of K, the width of a key, not of S, how many there are."),
    ("the outputs in another order",
     lambda q, k, v: (
         grouped(q, k, v).unflatten(1, (k.shape[1], -1)).transpose(1, 2).flatten(1, 2)
     ),
     "Each output is right, and its place is not: head h of the output belongs to head h of q."),
    ("no softmax",
     lambda q, k, v: (q @ _spread(k, q).transpose(-1, -2) / q.shape[-1] ** 0.5) @ _spread(v, q),
     "The scores become weights by a softmax over the keys."),
    ("a sigmoid in place of the softmax",
     lambda q, k, v: (
         (q @ _spread(k, q).transpose(-1, -2) / q.shape[-1] ** 0.5).sigmoid() @ _spread(v, q)
     ),
     "A query's weights sum to one: they are a softmax of its scores."),
    ("a causal mask",
     lambda q, k, v: (
         (q @ _spread(k, q).transpose(-1, -2) / q.shape[-1] ** 0.5)
         .masked_fill(torch.ones(q.shape[2], k.shape[2]).triu(1).bool(), -math.inf)
         .softmax(-1)
         @ _spread(v, q)
     ),
     "The task has no mask: every query may attend to every key."),
    ("the weights in place of the outputs",
     lambda q, k, v: (q @ _spread(k, q).transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1),
     "The outputs are the weights times the values."),
    ("keys in the place of values", lambda q, k, v: _attend(q, _spread(k, q), _spread(k, q)),
     "The weights come from queries and keys; what they weigh are the values, v."),
    ("the groups in reverse order",
     lambda q, k, v: _attend(q, _spread(k.flip(1), q), _spread(v.flip(1), q)),
     "The first H / G heads use the first set."),
    ("the heads joined", lambda q, k, v: grouped(q, k, v).transpose(1, 2).flatten(2),
     "To join the heads is the next step. Asked for are they one by one, (B, H, T, K)."),
    ("the outputs of a group averaged",
     lambda q, k, v: grouped(q, k, v).unflatten(1, (k.shape[1], -1)).mean(2),
     "Each head has an output of its own: (B, H, T, K)."),
    ("only as many heads as there are sets", lambda q, k, v: _attend(q[:, : k.shape[1]], k, v),
     "All H heads ask: the output has shape (B, H, T, K)."),
    ("divided by half of K", _with_groups(scale=lambda q, k: 2 / q.shape[-1]),
     "The root is a power, `** 0.5`; `* 0.5` is a half."),
    ("not divided by the sum",
     lambda q, k, v: (q @ _spread(k, q).mT * q.shape[-1] ** -0.5).exp() @ _spread(v, q),
     "The weights of a query sum to one: divide the exponentials by their sum."),
    ("the softmax over the batch", _with_groups(axis=0),
     "The softmax runs over the keys, the last axis."),
)  # fmt: skip


# 20.5 what the slots of a rolling cache hold


def in_slots(t: int, window: int, sinks: int) -> list[int]:
    slots = [-1] * (sinks + window)
    for p in range(t + 1):
        slots[p if p < sinks else sinks + (p - sinks) % window] = p
    return slots


SLOT_CASES = [(10, 4, 2), (9, 4, 2), (2, 3, 1), (0, 2, 2), (7, 5, 0), (12, 1, 3), (1, 4, 3)]


def _written(t: int, slots: int, where: Callable[[int], int], empty: int = -1) -> list[int]:
    held = [empty] * slots
    for p in range(t + 1):
        held[where(p)] = p
    return held


def _in_order(t: int, window: int, sinks: int) -> list[int]:
    held = sorted(p for p in in_slots(t, window, sinks) if p >= 0)
    return held + [-1] * (sinks + window - len(held))


def _slots(
    upto: int = 0,
    where: Callable[[int, int, int], int] = lambda p, w, s: p if p < s else s + (p - s) % w,
    written: Callable[[list[int], int], list] = lambda held, s: held,
) -> Callable[[int, int, int], list]:
    """What the slots hold, right by default; each argument makes one mistake."""
    return lambda t, window, sinks: written(
        _written(t + upto, sinks + window, lambda p: where(p, window, sinks)), sinks
    )


SLOT_SLIPS = [
    ("the newest left out", {"upto": -1}, "Places 0 to t have been written."),
    ("one place too many", {"upto": 1}, "The last place that was written is t."),
    ("the sinks not kept", {"where": lambda p, w, s: p % (s + w)}, "The sinks stay for ever."),
    ("the ring begins at place 0", {"where": lambda p, w, s: p if p < s else s + p % w},
     "The slot is sinks + (p - sinks) % window."),
    ("the ring begins in slot 0", {"where": lambda p, w, s: p if p < s else (p - s) % w},
     "The slot is sinks + (p - sinks) % window."),
    ("0 for an empty slot", {"written": lambda held, s: [max(p, 0) for p in held]},
     "An empty slot is -1."),
    ("None for an empty slot", {"written": lambda held, s: [None if p < 0 else p for p in held]},
     "An empty slot is -1."),
    ("empty slots left out", {"written": lambda held, s: [p for p in held if p >= 0]},
     "An empty slot is -1."),
    ("the ring alone", {"written": lambda held, s: held[s:]}, "The sinks stand in front."),
    ("the sinks behind the ring", {"written": lambda held, s: held[s:] + held[:s]},
     "The sinks stand in front."),
    ("in the order of the text",
     {"written": lambda held, s: sorted(held, key=lambda p: (p < 0, p))},
     "Nothing is moved."),
    ("counted from 1", {"written": lambda held, s: [p + 1 if p >= 0 else p for p in held]},
     "Places are counted from 0."),
]  # fmt: skip


SLOT_MISTAKES = mistakes(
    ("all places in one ring, and no sinks", _slots(where=lambda p, w, s: p % w),
     "The first `sinks` places have slots of their own, in front, and stay there."),
    ("window and sinks exchanged, where there are sinks",
     lambda t, window, sinks: in_slots(t, *((sinks, window) if sinks else (window, sinks))),
     "The arguments are t, window, sinks."),
    *(
        (f"window and sinks exchanged, and {name} where there are no sinks", wrong,
         "`sinks` is the number of the places that are kept, `window` that of the others. And "
         "`sinks` may be 0.")
        for name, wrong in (
            ("a slot too many", lambda t, window, sinks: _written(
                t, sinks + window,
                lambda p: p if p < window else window + ((p - window) % sinks if sinks else 0))),
            ("nothing written again", lambda t, window, sinks: (
                in_slots(t, sinks, window) if sinks else in_slots(min(t, window - 1), window, 0))),
            ("one of one slot", lambda t, window, sinks: in_slots(t, max(sinks, 1), window)),
        )
    ),
    ("slots with their numbers",
     lambda t, window, sinks: [*enumerate(in_slots(t, window, sinks))],
     "The list has a place for each slot: its index is the number of the slot."),
    ("a dictionary of slots",
     lambda t, window, sinks: dict(enumerate(in_slots(t, window, sinks))),
     "Asked for is a list, slot after slot."),
    ("a ring as long as the whole cache",
     lambda t, window, sinks: in_slots(t, window + sinks, sinks),
     "There are `sinks + window` slots in all, and the ring has `window` of them."),
    ("how many slots are taken",
     lambda t, window, sinks: sum(p >= 0 for p in in_slots(t, window, sinks)),
     "Asked for are the places that the slots hold."),
    ("places in the ring counted from the sinks on",
     lambda t, window, sinks: [
         p - sinks if p >= sinks else p for p in in_slots(t, window, sinks)
     ],
     "A place is counted from the beginning of the text, in the ring as well."),
    ("the slot of the newest place",
     lambda t, window, sinks: t if t < sinks else sinks + (t - sinks) % window,
     "That is where the newest was written. Asked for are the places that all slots hold."),
    ("what the ring would hold if it had been full before",
     lambda t, window, sinks: [
         i if i < sinks else t - (t - i) % window for i in range(sinks + window)
     ],
     "Places begin at 0, and sinks stay where they are: a slot that has not been written yet is "
     "-1."),
    ("all places that have been written", lambda t, window, sinks: list(range(t + 1)),
     "The cache has only `sinks + window` slots: most places have been written over."),
    ("a ring of one slot more", lambda t, window, sinks: in_slots(t, window + 1, sinks),
     "There are `sinks + window` slots."),
    ("the slot of the newest, for all", lambda t, window, sinks: [
         t if t < sinks else sinks + (t - sinks) % window] * (sinks + window),
     "Asked for are the places that the slots hold, slot after slot."),
    ("fewer slots in the ring, for the sinks",
     lambda t, window, sinks: in_slots(t, max(1, window - sinks), sinks),
     "There are `sinks + window` slots: the ring has `window` of its own."),
    ("the window moved on, and the newest left out",
     lambda t, window, sinks: [*range(min(sinks, t)), *range(max(sinks, t - window), t)],
     "Places 0 to t have been written. And nothing moves: a new place is written over the oldest "
     "one, where that stands."),
    ("no slots for the sinks", lambda t, window, sinks: in_slots(t, window, 0),
     "The first `sinks` places have slots of their own, in front of the window's."),
    ("window and sinks exchanged", lambda t, window, sinks: in_slots(t, sinks, window),
     "`sinks` is the number of the places that are kept, `window` that of the others."),
    ("sinks added, not subtracted",
     _slots(where=lambda p, w, s: p if p < s else s + (p + s) % w),
     "The first place behind the sinks goes into the first slot of the ring: (p - sinks) % "
     "window."),
    ("the newest always in the last slot", _slots(where=lambda p, w, s: min(p, s + w - 1)),
     "When the ring is full it goes round: the newest is written over the oldest."),
    ("all places in the ring, and none in the slots of the sinks",
     _slots(where=lambda p, w, s: s + p % w),
     "Place p below `sinks` is written into slot p."),
    ("the last sink's slot in the ring",
     _slots(where=lambda p, w, s: (
         p if p < s - 1 else max(s - 1, 0) + (p - max(s - 1, 0)) % (w + (s > 0))
     )),
     "There are `sinks` slots that are never written over, those of the places 0 to sinks - 1."),
    ("the ring written from its last slot on",
     _slots(where=lambda p, w, s: p if p < s else s + w - 1 - (p - s) % w),
     "The first place behind the sinks goes into the first slot of the ring."),
    ("the sinks, and then the newest first, without empty slots", lambda t, window, sinks: [
         *range(min(sinks, t + 1)), *range(t, max(sinks, t - window + 1) - 1, -1)
     ],
     "Nothing is moved: a new place is written over the oldest one, where that stands. And there "
     "are `sinks + window` slots, empty ones with -1."),
    ("how often each slot has been written",
     lambda t, window, sinks: [
         sum((p if p < sinks else sinks + (p - sinks) % window) == i for p in range(t + 1))
         for i in range(sinks + window)
     ],
     "Asked for are the places that the slots hold."),
    ("a ring of one slot fewer",
     _slots(where=lambda p, w, s: p if p < s else s + (p - s) % max(1, w - 1)),
     "The window has `window` slots, and all of them are used."),
    ("the window moved on in place of a ring",
     lambda t, window, sinks: [
         *range(min(sinks, t + 1)), *range(max(sinks, t - window + 1), t + 1)
     ],
     "Nothing moves: a new place is written over the oldest one, where that stands. And there are "
     "`sinks + window` slots, empty ones with -1."),
    ("places counted from 1", _slots(written=lambda held, s: [p + (p >= 0) for p in held]),
     "The first place is 0."),
    ("the ring written backwards",
     _slots(where=lambda p, w, s: p if p < s else s + (s - p) % w),
     "Place p goes into slot sinks + (p - sinks) % window: the ring fills from the front."),
    ("the ring begins in its last slot",
     _slots(where=lambda p, w, s: p if p < s else s + (p - s - 1) % w),
     "The first place behind the sinks goes into the first slot of the ring."),
    ("the ring begins in its second slot",
     _slots(where=lambda p, w, s: p if p < s else s + (p - s + 1) % w),
     "The first place behind the sinks goes into the first slot of the ring."),
    ("the newest first", _slots(written=lambda held, s: held[:s] + sorted(held[s:])[::-1]),
     "The newest is written over the oldest, where that stands. Nothing is moved."),
    ("everything sorted", _slots(written=lambda held, s: sorted(held)),
     "The slots stay where they are: nothing is moved, and empty ones stand in their places."),
    ("the newest first of all", _slots(written=lambda held, s: sorted(held)[::-1]),
     "Slots are listed one after the other, the sinks in front: nothing is moved."),
    ("the ring as long as all slots",
     lambda t, window, sinks: _written(
         t, 2 * sinks + window,
         lambda p: p if p < sinks else sinks + (p - sinks) % (sinks + window),
     )[: sinks + window],
     "The ring has `window` slots; the sinks are not among them."),
    ("a window that holds the sinks",
     lambda t, window, sinks: _written(
         t, max(window, sinks + 1),
         lambda p: p if p < sinks else sinks + (p - sinks) % max(window - sinks, 1),
     )[:window],
     "There are `sinks + window` slots: the window has its own."),
    *combined(
        _slots, SLOT_SLIPS, [("the ring begins at place 0", "in the order of the text")]
    ),
    ("in the order of the text",
     _in_order,
     "The newest is written over the oldest, where that stands. Nothing is moved."),
    ("the sinks not kept",
     lambda t, window, sinks: _written(t, sinks + window, lambda p: p % (sinks + window)),
     "The first `sinks` places stay for ever: only the slots behind them are written again."),
    ("the ring begins at place 0",
     lambda t, window, sinks: _written(
         t, sinks + window, lambda p: p if p < sinks else sinks + p % window
     ),
     "The first place behind the sinks goes into the first slot of the ring: (p - sinks) % "
     "window."),
    ("the newest left out",
     lambda t, window, sinks: in_slots(t - 1, window, sinks),
     "Places 0 to t have been written, t among them."),
    ("one place too many",
     lambda t, window, sinks: in_slots(t + 1, window, sinks),
     "The last place that was written is t."),
    ("0 for an empty slot",
     lambda t, window, sinks: [max(p, 0) for p in in_slots(t, window, sinks)],
     "0 is a place. An empty slot is -1."),
    ("empty slots left out",
     lambda t, window, sinks: [p for p in in_slots(t, window, sinks) if p >= 0],
     "The list has `sinks + window` entries, -1 for those that are empty."),
    ("only the last ones written, the sinks lost",
     lambda t, window, sinks: [
         -1 if 0 <= p < t + 1 - window - sinks else p for p in in_slots(t, window, sinks)
     ],
     "Begin at place 0: what stands in the first slots was written long ago and stays."),
    ("the ring in the order of the text",
     lambda t, window, sinks: [*range(sinks), *range(t - window + 1, t + 1)],
     "The newest is written over the oldest, where that stands. Nothing is moved, and what was "
     "not written yet is -1."),
    ("never written again",
     lambda t, window, sinks: [p if p <= t else -1 for p in range(sinks + window)],
     "When the ring is full, the newest place is written over the oldest."),
    ("the ring alone",
     lambda t, window, sinks: in_slots(t, window, sinks)[sinks:],
     "The slots of the sinks belong to it, in front."),
    ("the sinks behind the ring",
     lambda t, window, sinks: (
         in_slots(t, window, sinks)[sinks:] + in_slots(t, window, sinks)[:sinks]
     ),
     "The first slots are those of the sinks."),
    ("the sinks counted into the window",
     lambda t, window, sinks: (
         _written(
             t,
             window,
             lambda p: p if p < sinks else sinks + (p - sinks) % max(window - sinks, 1),
         )
         if window > sinks
         else list(range(window))
     ),
     "There are `sinks + window` slots: the window has its own."),
    ("the ring begins in slot 0",
     lambda t, window, sinks: _written(
         t, sinks + window, lambda p: p if p < sinks else (p - sinks) % window
     ),
     "That writes over the sinks: the ring stands behind them, sinks + (p - sinks) % window."),
    ("the ring sorted",
     lambda t, window, sinks: (
         in_slots(t, window, sinks)[:sinks] + sorted(in_slots(t, window, sinks)[sinks:])
     ),
     "The newest is written over the oldest, where that stands. Nothing is moved."),
    ("the ring sorted, and all sinks taken",
     lambda t, window, sinks: [*range(sinks), *sorted(in_slots(t, window, sinks)[sinks:])],
     "Nothing is moved in the ring, and a sink that was not written yet is -1."),
    ("all sinks taken",
     lambda t, window, sinks: [*range(sinks), *in_slots(t, window, sinks)[sinks:]],
     "A sink that has not been written yet is empty, too: -1."),
    ("None for an empty slot",
     lambda t, window, sinks: [p if p >= 0 else None for p in in_slots(t, window, sinks)],
     "An empty slot is -1."),
    ("the slot of each place",
     lambda t, window, sinks: [p if p < sinks else sinks + (p - sinks) % window
                               for p in range(t + 1)],
     "That is where each place was written. Asked for is what stands there in the end, slot after "
     "slot."),
    ("True and False",
     lambda t, window, sinks: [p >= 0 for p in in_slots(t, window, sinks)],
     "Asked for are the places, not whether a slot is taken."),
    ("the two newest left out", _slots(upto=-2), "Places 0 to t have been written: t + 1 of them."),
    ("place 0 alone", lambda t, window, sinks: _slots()(0, window, sinks),
     "Places 0 to t have been written: `range(t + 1)`."),
    ("no place of its own for a sink", _slots(where=lambda p, w, s: s + (p - s) % w),
     "Place p is written into slot p if p is below `sinks`; only the others go round."),
    ("all behind the sinks into one slot", _slots(where=lambda p, w, s: min(p, s)),
     "They go round: slot sinks + (p - sinks) % window."),
)  # fmt: skip


# 20.6 what a pass of speculative decoding gives


def tokens_per_pass(p: Tensor, q: Tensor, guesses: int) -> float:
    kept = torch.minimum(p, q).sum()
    return sum(kept**i for i in range(guesses + 1))


def pass_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(206)
    cases = [(torch.tensor([0.5, 0.5]), torch.tensor([1.0, 0.0]), 2)]
    for size, guesses in ((5, 4), (7, 1), (3, 6)):
        p, q = torch.randn(2, size, generator=draw).softmax(-1)
        cases.append((p, q, guesses))
    neither = torch.tensor([0.5, 0.5, 0.0]), torch.tensor([0.25, 0.75, 0.0]), 3
    return [*cases, (torch.tensor([0.25, 0.75]), torch.tensor([0.25, 0.75]), 3), neither]


def _over(p: Tensor, q: Tensor) -> Tensor:
    """p / q, and 0 where both are 0."""
    return torch.where(p > 0, p / q, 0.0)


def _from_kept(kept: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., float]:
    """A mistake in the probability that a guess is kept."""

    def wrong(p: Tensor, q: Tensor, guesses: int) -> float:
        return float(sum(kept(p, q) ** i for i in range(guesses + 1)))

    return wrong


def _with_kept(count: Callable[[float, int], float]) -> Callable[..., float]:
    """A mistake in what follows from that probability."""
    return lambda p, q, guesses: float(count(float(torch.minimum(p, q).sum()), guesses))


KEPT_SLIPS = [
    ("kept only if both draw the same", {"kept": lambda p, q: (p * q).sum()},
     "A guess x is kept with min(1, p(x) / q(x))."),
    ("weighed by the large model", {"kept": lambda p, q: (p * _over(p, q).clamp(max=1)).sum()},
     "The small model guesses: weigh by q."),
    ("the distance not halved", {"kept": lambda p, q: 1 - (p - q).abs().sum()},
     "One minus *half* of the sum of |p - q| is the sum of min(p, q)."),
    ("the probability that a guess is refused",
     {"kept": lambda p, q: 1 - torch.minimum(p, q).sum()}, "That is the share that is refused."),
    ("the large model's own token forgotten",
     {"count": lambda a, n: sum(a**i for i in range(1, n + 1))},
     "A pass always gives one token of the large model."),
    ("one guess too few", {"count": lambda a, n: sum(a**i for i in range(n))},
     "If all are kept, there is one token more."),
    ("one guess too many", {"count": lambda a, n: sum(a**i for i in range(n + 2))},
     "The most that can come out is guesses + 1."),
    ("a refused guess does not end the row", {"count": lambda a, n: 1 + a * n},
     "What stands behind a refused guess is dropped."),
    ("what is kept, and one more only if not all", {"count": lambda a, n: a * n + 1 - a},
     "The guesses behind a refused one are dropped, and one token more always comes."),
    ("as if it never ended", {"count": lambda a, n: 1 / (1 - a) if a < 1 else math.inf},
     "There are `guesses` guesses."),
    ("each guess for itself", {"count": lambda a, n: a * n},
     "What stands behind a refused guess is dropped."),
    ("all or nothing", {"count": lambda a, n: 1 + n * a**n},
     "The first guesses count even if a later one is refused."),
]  # fmt: skip


def _speculated(
    kept: Callable[[Tensor, Tensor], Tensor] = lambda p, q: torch.minimum(p, q).sum(),
    count: Callable[[float, int], float] = lambda a, n: sum(a**i for i in range(n + 1)),
) -> Callable[..., float]:
    """Tokens of a pass, right by default; each argument makes one mistake."""
    return lambda p, q, guesses: float(count(float(kept(p, q)), guesses))


PASS_MISTAKES = mistakes(
    ("the plain mean of the ratios of what may be guessed",
     _from_kept(lambda p, q: (p[q > 0] / q[q > 0]).clamp(max=1).mean()),
     "Tokens are guessed with the probabilities q: weigh min(1, p / q) by q."),
    ("what is kept, and one more only if not all", _with_kept(lambda a, n: a * n + 1 - a),
     "The guesses behind a refused one are dropped, and one token more always comes: behind the "
     "last if all are kept."),
    ("the mean of the smaller of the two",
     _from_kept(lambda p, q: torch.minimum(p, q).mean()),
     "The probability that a guess is kept is the *sum* of the smaller of p and q."),
    ("0/0 where neither has the token",
     _from_kept(lambda p, q: (q * (p / q).clamp(max=1)).sum()),
     "A token that both give the probability 0 is never guessed, and adds 0. But 0/0 is not a "
     "number: the sum of the smaller of p and q needs no division."),
    ("weighed by the large model, and 0/0 where neither has the token",
     _from_kept(lambda p, q: (p * (p / q).clamp(max=1)).sum()),
     "The small model guesses: weigh by q. And 0/0 is not a number."),
    ("the ratio without its weight, and 0/0 where neither has the token",
     _from_kept(lambda p, q: (p / q).clamp(max=1).mean()),
     "Tokens are guessed with the probabilities q: weigh min(1, p / q) by q. And 0/0 is not a "
     "number."),
    ("divided by the most that can come out",
     _with_kept(lambda a, n: sum(a**i for i in range(n + 1)) / (n + 1)),
     "Asked for is how many tokens a pass gives, not which share of those that are possible."),
    ("divided by the guesses", _with_kept(lambda a, n: sum(a**i for i in range(n + 1)) / n),
     "Asked for is how many tokens a pass gives, not how many for each guess."),
    ("every guess held to be kept", lambda p, q, guesses: guesses + 1.0,
     "So it is where p and q are equal. Else a guess x is kept with min(1, p(x) / q(x)), and what "
     "stands behind a refused one is dropped."),
    ("the smaller over the larger of the two",
     _from_kept(lambda p, q: torch.minimum(p, q).sum() / torch.maximum(p, q).sum()),
     "A guess is drawn from q, and kept with min(1, p / q): the sum of min(p, q) alone."),
    ("the likeliest guess alone",
     _from_kept(lambda p, q: (p[q.argmax()] / q.max()).clamp(max=1)),
     "The guess is drawn from q: take the mean over all tokens, weighed by q."),
    ("one more where all are kept, and else one", _with_kept(lambda a, n: 1 + a**n),
     "i guesses that are kept, before one is refused, give i + 1 tokens."),
    ("the likeliest guess in place of what is kept", _from_kept(lambda p, q: q.max()),
     "A guess x is kept with min(1, p(x) / q(x)): sum q min(1, p / q)."),
    ("the root of p q in place of the smaller", _from_kept(lambda p, q: (p * q).sqrt().sum()),
     "q min(1, p / q) is the *smaller* of p and q, not their geometric mean."),
    ("only the pass that keeps all", _with_kept(lambda a, n: (n + 1) * a**n),
     "A pass in which a guess is refused gives tokens, too: those before it, and its "
     "replacement."),
    ("only the pass that keeps all, and without the large model's token",
     _with_kept(lambda a, n: n * a**n),
     "A pass in which a guess is refused gives tokens, too; and the large model adds one."),
    ("the row without its first and its last term",
     _with_kept(lambda a, n: sum(a**i for i in range(1, n))),
     "The large model always gives one token, and if all guesses are kept there are guesses + 1."),
    ("the probability that all are kept", _with_kept(lambda a, n: a**n),
     "That is how often all guesses are kept. How many tokens does a pass give on average?"),
    *combined(_speculated, KEPT_SLIPS),
    ("the large model's own token forgotten",
     _with_kept(lambda a, n: sum(a**i for i in range(1, n + 1))),
     "A pass always gives one token of the large model as well: in place of the first that is "
     "refused, or behind the last."),
    ("one guess too few",
     _with_kept(lambda a, n: sum(a**i for i in range(n))),
     "If all guesses are kept, there is one token more: guesses + 1."),
    ("one guess too many",
     _with_kept(lambda a, n: sum(a**i for i in range(n + 2))),
     "The most that can come out is guesses + 1."),
    ("a refused guess does not end the row",
     _with_kept(lambda a, n: 1 + a * n),
     "What stands behind a refused guess is dropped, even if it would have been kept."),
    ("as if it never ended",
     _with_kept(lambda a, n: 1 / (1 - a) if a < 1 else math.inf),
     "That is the sum without end. There are `guesses` guesses."),
    ("as if it never ended, and divided by zero",
     _with_kept(lambda a, n: 1 / (1 - a)),
     "That is the sum without end. There are `guesses` guesses. And where p and q are equal, no "
     "guess is refused."),
    ("0/0 where p and q are equal",
     _with_kept(lambda a, n: (1 - a ** (n + 1)) / (1 - a) if a < 1 else math.nan),
     "The formula of a geometric sum divides by 1 - a. Where every guess is kept, a is 1 and there "
     "are guesses + 1 tokens: take that case by itself, or add the terms up."),
    ("divided by zero where p and q are equal",
     _with_kept(lambda a, n: (1 - a ** (n + 1)) / (1 - a)),
     "The formula of a geometric sum divides by 1 - a. Where every guess is kept, a is 1 and there "
     "are guesses + 1 tokens: take that case by itself, or add the terms up."),
    ("two tokens more if all are kept",
     _with_kept(lambda a, n: sum((i + 1) * a**i * (1 - a) for i in range(n)) + (n + 2) * a**n),
     "If all guesses are kept the large model adds one token: guesses + 1."),
    ("a refused guess is not replaced",
     _with_kept(lambda a, n: sum(i * a**i * (1 - a) for i in range(n)) + (n + 1) * a**n),
     "In place of the first guess that is refused comes a token of the large model: i kept ones "
     "give i + 1."),
    ("the guesses that would be kept, each for itself",
     _with_kept(lambda a, n: a * n),
     "What stands behind a refused guess is dropped, and a token of the large model always "
     "comes."),
    ("the places of a refusal, without the pass that keeps all",
     _with_kept(lambda a, n: sum((i + 1) * a**i * (1 - a) for i in range(n))),
     "That leaves out the passes in which all guesses are kept, which give guesses + 1."),
    ("guesses + 1 of them refused at the latest",
     _with_kept(lambda a, n: sum((i + 1) * a**i * (1 - a) for i in range(n + 1))),
     "There is no guess behind the last to be refused: with the probability a^guesses all are "
     "kept, and guesses + 1 tokens come."),
    ("the guesses that are kept, without the pass that keeps all",
     _with_kept(lambda a, n: sum(i * a**i * (1 - a) for i in range(n + 1))),
     "A refused guess is replaced, so i kept ones give i + 1 tokens. And all may be kept."),
    ("all or nothing",
     _with_kept(lambda a, n: 1 + n * a**n),
     "The first guesses count even if a later one is refused."),
    ("guesses + 1 times the probability of one guess", _with_kept(lambda a, n: (n + 1) * a),
     "What stands behind a refused guess is dropped; and the large model's token comes in any "
     "case."),
    ("the probability of one guess",
     _with_kept(lambda a, n: a),
     "With that probability a guess is kept. How many tokens does a pass give?"),
    ("kept only if both draw the same",
     _from_kept(lambda p, q: (p * q).sum()),
     "Nobody draws twice. A guess x is kept with min(1, p(x) / q(x)): sum q min(1, p / q)."),
    ("the ratio without its weight",
     _from_kept(lambda p, q: _over(p, q).clamp(max=1).mean()),
     "Tokens are guessed with the probabilities q: weigh min(1, p / q) by q."),
    ("the ratios added up without their weight",
     _from_kept(lambda p, q: _over(p, q).clamp(max=1).sum()),
     "Tokens are guessed with the probabilities q: weigh min(1, p / q) by q."),
    ("the ratios upside down, without their weight",
     _from_kept(lambda p, q: _over(q, p).clamp(max=1).sum()),
     "A guess is kept with min(1, p / q), p that of the large model. And tokens are guessed with "
     "the probabilities q: weigh by q."),
    ("the ratio not cut at 1",
     _from_kept(lambda p, q: (q * torch.where(q > 0, p / q, 0.0)).sum()),
     "A guess is kept with the probability min(1, p / q), and no probability is above 1."),
    ("weighed by the large model",
     _from_kept(lambda p, q: (p * _over(p, q).clamp(max=1)).sum()),
     "The small model guesses: weigh by q."),
    ("the ratio upside down",
     _from_kept(lambda p, q: (q * (q / p.clamp(min=1e-9)).clamp(max=1)).sum()),
     "A guess is kept with min(1, p / q), p that of the large model."),
    ("the distance not halved",
     _from_kept(lambda p, q: 1 - (p - q).abs().sum()),
     "One minus *half* of the sum of |p - q| is the sum of min(p, q)."),
    ("the probability that a guess is refused",
     _from_kept(lambda p, q: 1 - torch.minimum(p, q).sum()),
     "That is the share of guesses that are refused."),
    ("the plain mean of the ratios",
     _from_kept(lambda p, q: torch.where(q > 0, (p / q).clamp(max=1), 0.0).mean()),
     "The small model guesses a token with the probability q: weigh by it."),
    ("what the large model gives to the likeliest guess",
     _from_kept(lambda p, q: p[q.argmax()]),
     "Guesses are drawn, and kept with min(1, p / q): sum over all tokens."),
    ("as many tokens as guesses", lambda p, q, guesses: float(guesses),
     "A guess is kept with min(1, p / q), and the first that is refused ends the row."),
    ("as if it never ended, cut at guesses + 1",
     _with_kept(lambda a, n: min(n + 1, 1 / (1 - a)) if a < 1 - 1e-6 else n + 1),
     "The mean of what is cut is not the mean, cut: add up a^0 to a^guesses."),
    ("each guess for itself, and one more where all are kept",
     _with_kept(lambda a, n: n * a + a**n),
     "What stands behind a refused guess is dropped, and a token comes in its place."),
    ("each length times its power", _with_kept(lambda a, n: sum(i * a**i for i in range(1, n + 2))),
     "That all of i guesses are kept has the probability a^i: add these up, each once."),
    ("1 less the largest difference", _from_kept(lambda p, q: 1 - (p - q).abs().max()),
     "Refused are all that q has too much: half of the *sum* of |p - q|."),
    ("one guess too few where all are kept",
     _with_kept(lambda a, n: n if a > 1 - 1e-6 else sum(a**i for i in range(n + 1))),
     "If all guesses are kept, there is one token more: guesses + 1."),
    ("the larger of the two",
     _from_kept(lambda p, q: torch.maximum(p, q).sum()),
     "q min(1, p / q) is the *smaller* of p and q."),
    ("the likeliest tokens compared",
     _from_kept(lambda p, q: (p.argmax() == q.argmax()).double()),
     "That is greedy. Here one samples: a guess is kept with min(1, p / q)."),
    ("not divided by 1 - a", _with_kept(lambda a, n: 1 - a ** (n + 1)),
     "The sum of a geometric row is (1 - a^(n + 1)) *divided* by 1 - a."),
    ("one token for the pass that keeps all",
     _with_kept(lambda a, n: sum((i + 1) * a**i * (1 - a) for i in range(n)) + a**n),
     "The pass that keeps all guesses gives all of them and one more: guesses + 1 tokens."),
    ("the lengths not weighed by a refusal",
     _with_kept(lambda a, n: sum((i + 1) * a**i for i in range(n)) + (n + 1) * a**n),
     "i guesses are kept and the next refused with a^i *(1 - a)*."),
)  # fmt: skip


# 20.7 a step with a cache, three mistakes


def newest(q: Tensor, k: Tensor, v: Tensor, kept_k: Tensor, kept_v: Tensor) -> Tensor:
    return _newest()(q, k, v, kept_k, kept_v)


def _at(
    x: Tensor,
    place: int,
    turned: Callable[[Tensor, Tensor], Tensor] = _turned,
    theta: float = 10000.0,
) -> Tensor:
    """(H, K) at a place: (H, 1, K), turned."""
    return turned(x[:, None], _angle(x, torch.tensor([place]), theta))


def _newest(
    place: int | str | None = None,
    query_place: int | None = None,
    key_place: int | None = None,
    theta: float = 10000.0,
    values: bool = False,
    width: str = "K",
    kept: bool = False,
    turned: Callable[[Tensor, Tensor], Tensor] = _turned,
    crossed: bool = False,
    own: bool = True,
    axis: int = -1,
    front: bool = False,
) -> Callable[..., Tensor]:
    """The step, right by default; each argument makes one mistake."""

    def step(q: Tensor, k: Tensor, v: Tensor, kept_k: Tensor, kept_v: Tensor) -> Tensor:
        S, K = kept_k.shape[1:]
        places = {None: S, 0: 0, -1: S - 1, 1: S + 1, "H": len(q), "K": K}
        here = places[place]
        q = _at(q, here if query_place is None else query_place, turned, theta)
        k = _at(k, here if key_place is None else key_place, turned, theta)
        v = _at(v, here, turned) if values else v[:, None]
        if kept:
            kept_k = _turned(kept_k, _angle(kept_k, torch.arange(S), 10000.0))
        if own:
            kept_k = torch.cat([k, kept_k] if front else [kept_k, k], 1)
            kept_v = torch.cat([v, kept_v] if crossed else [kept_v, v], 1)
        scale = {
            "K": K, "K^2": K * K, "S": kept_k.shape[1], "S - 1": S, "1": 1, "H": K * len(q),
            "heads": len(q), "4": 4, "1 / K": 1 / K, "half": K / 2,
        }[width]  # fmt: skip
        return ((q @ kept_k.mT / scale**0.5).softmax(axis) @ kept_v)[:, 0]

    return step


def newest_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(207)
    cases = []
    for H, S, K in ((2, 5, 4), (3, 2, 6), (1, 7, 2), (2, 3, 8)):
        sizes = ((H, K), (H, K), (H, K), (H, S, K), (H, S, K))
        cases.append(tuple(1.5 * torch.randn(*size, generator=draw) for size in sizes))
    return cases


def _heads_as_places(q: Tensor, k: Tensor, v: Tensor, kept_k: Tensor, kept_v: Tensor) -> Tensor:
    """(H, K) is turned as if it were (T, K): head number h at place h."""
    angles = _angle(q, torch.arange(len(q)), 10000.0)
    keys = torch.cat([kept_k, _turned(k, angles)[:, None]], 1)
    return _attend(_turned(q, angles)[:, None], keys, torch.cat([kept_v, v[:, None]], 1))[:, 0]


def _all_values_turned(q: Tensor, k: Tensor, v: Tensor, kept_k: Tensor, kept_v: Tensor) -> Tensor:
    kept = _turned(kept_v, _angle(kept_v, torch.arange(kept_v.shape[1]), 10000.0))
    return _newest(values=True)(q, k, v, kept_k, kept)


def _one_softmax(q: Tensor, k: Tensor, v: Tensor, kept_k: Tensor, kept_v: Tensor) -> Tensor:
    """One softmax over the keys of all heads."""
    place = kept_k.shape[1]
    keys = torch.cat([kept_k, _at(k, place)], 1)
    scores = _at(q, place) @ keys.mT / q.shape[-1] ** 0.5
    weights = scores.flatten().softmax(0).view_as(scores)
    return (weights @ torch.cat([kept_v, v[:, None]], 1))[:, 0]


NEWEST_SLIPS = [
    ("as if the newest stood at place 0", {"place": 0}, "The newest token stands at place S."),
    ("one place too early", {"place": -1}, "The newest token stands at place S."),
    ("one place too late", {"place": 1}, "The newest token stands at place S."),
    ("the values turned", {"values": True}, "Values are never turned."),
    ("divided by the number of keys", {"width": "S"}, "Divide by the root of d_k."),
    ("not scaled", {"width": "1"}, "Divide by the root of d_k."),
    ("divided by d_k, without the root", {"width": "K^2"}, "Divide by the *root* of d_k."),
    ("the kept keys turned again", {"kept": True}, "They were turned when they were kept."),
    ("neighbours turned", {"turned": _neighbours}, "The kept keys were turned in halves."),
    ("keys in one order, values in another", {"crossed": True},
     "The order must be the same for keys and values."),
    ("the newest does not see itself", {"own": False}, "It sees itself, too."),
    ("the softmax over the heads", {"axis": 0}, "The softmax runs over the last axis."),
    ("the query not turned", {"query_place": 0}, "Query and key of the newest stand at S."),
    ("the new key not turned", {"key_place": 0}, "Query and key of the newest stand at S."),
]  # fmt: skip
NEWEST_KNOWN = [
    ("one place too early", "the values turned"),
    ("one place too early", "divided by the number of keys"),
    ("the query not turned", "the new key not turned"),
    *(
        ("as if the newest stood at place 0", slip)
        for slip in (
            "the values turned",
            "the query not turned",
            "the new key not turned",
            "divided by the number of keys",
            "neighbours turned",
        )
    ),
    ("the values turned", "divided by the number of keys"),
    *(
        ("the newest does not see itself", slip)
        for slip in (
            "the values turned",
            "keys in one order, values in another",
            "the query not turned",
            "the new key not turned",
        )
    ),
]


NEWEST_MISTAKES = mistakes(
    ("the values turned, the kept ones as well", _all_values_turned,
     "Positions say where a token looks, not what it brings: values are never turned."),
    ("one softmax for all heads", _one_softmax,
     "Each head shares its attention among the keys: the softmax runs over the last axis."),
    ("theta of 100, or half of the exponent", _newest(theta=100.0),
     "Theta is 10000, and pair i turns by place / theta^(2 i / K): the 2 belongs to it."),
    ("divided by the root of half the width", _newest(width="half"),
     "Equation (1) divides by the root of d_k, all K entries of a key: two for each pair."),
    ("every head at the place of its number", _heads_as_places,
     "The first axis of q is the heads, and all of them stand at place S: `x[:, None]` makes room "
     "for the axis of places."),
    ("the softmax over the one query", _newest(axis=1),
     "Along an axis of length 1 every weight is 1. The softmax runs over the keys, the last axis."),
    ("the newest key in place of its value",
     lambda q, k, v, kept_k, kept_v: newest(q, k, _at(k, kept_k.shape[1])[:, 0], kept_k, kept_v),
     "What is mixed are values: behind `kept_v` comes v."),
    ("divided by the root of the number of heads", _newest(width="heads"),
     "Equation (1) divides by the root of d_k, the width of a key: the last axis, not the first."),
    ("the newest at place 1", _newest(query_place=1, key_place=1),
     "The newest token stands behind S others, at place S."),
    ("the plain mean of the values",
     lambda q, k, v, kept_k, kept_v: torch.cat([kept_v, v[:, None]], 1).mean(1),
     "The values are weighed by the softmax of the scores."),
    ("degrees in place of radians",
     lambda q, k, v, kept_k, kept_v: (lambda place: _newest()(
         _turned(q[:, None], place - _angle(q, torch.tensor([kept_k.shape[1]]), 10000.0))[:, 0],
         _turned(k[:, None], place - _angle(k, torch.tensor([kept_k.shape[1]]), 10000.0))[:, 0],
         v, kept_k, kept_v,
     ))(_angle(q, torch.tensor([kept_k.shape[1]]), 10000.0) * math.pi / 180),
     "`cos` and `sin` take radians, and place / theta^(2i / d_k) is in radians."),
    ("the newest key turned twice",
     lambda q, k, v, kept_k, kept_v: newest(
         q, _at(k, kept_k.shape[1])[:, 0], v, kept_k, kept_v
     ),
     "It is turned once, by the angle of place S."),
    ("the query turned twice",
     lambda q, k, v, kept_k, kept_v: newest(
         _at(q, kept_k.shape[1])[:, 0], k, v, kept_k, kept_v
     ),
     "It is turned once, by the angle of place S."),
    ("no softmax",
     lambda q, k, v, kept_k, kept_v: (
         _at(q, kept_k.shape[1]) @ torch.cat([kept_k, _at(k, kept_k.shape[1])], 1).mT
         / q.shape[-1] ** 0.5 @ torch.cat([kept_v, v[:, None]], 1)
     )[:, 0],
     "The scores become weights by a softmax over the keys."),
    ("the oldest dropped",
     lambda q, k, v, kept_k, kept_v: (lambda S: _attend(
         _at(q, S), torch.cat([kept_k[:, 1:], _at(k, S)], 1),
         torch.cat([kept_v[:, 1:], v[:, None]], 1),
     )[:, 0])(kept_k.shape[1]),
     "Causal attention over the whole text sees all that is kept."),
    ("the oldest dropped, and one place too early",
     lambda q, k, v, kept_k, kept_v: newest(q, k, v, kept_k[:, 1:], kept_v[:, 1:]),
     "Causal attention over the whole text sees all that is kept; and the newest stands at S."),
    ("divided by the number of kept keys, and the values turned",
     _newest(width="S - 1", values=True),
     "Equation (1) divides by the root of d_k. And values are never turned."),
    ("a causal mask that shows the first key alone",
     lambda q, k, v, kept_k, kept_v: kept_v[:, 0],
     "A triangle of one row and S + 1 columns shows one key, the first. The newest may look at "
     "all: no mask is needed."),
    ("a causal mask that shows the newest alone", lambda q, k, v, kept_k, kept_v: v,
     "All that is kept lies before the newest, which may look at all of it: no mask is needed."),
    ("the kept values turned",
     lambda q, k, v, kept_k, kept_v: newest(
         q, k, v, kept_k, _turned(kept_v, _angle(kept_v, torch.arange(kept_v.shape[1]), 10000.0))
     ),
     "Positions say where a token looks, not what it brings: values stay."),
    ("the newest value left out", lambda q, k, v, kept_k, kept_v: (
        newest(q, k, torch.zeros_like(v), kept_k, kept_v)),
     "The newest key has weight, so its value counts, too."),
    ("the newest key in front, its value behind", _newest(front=True),
     "Any order will do, but it must be the same for keys and values."),
    *combined(_newest, NEWEST_SLIPS, NEWEST_KNOWN),
    ("nothing mended that shows",
     _newest(place=0, values=True, width="S"),
     "Look at the place of the newest token, at what is turned, and at what the scores are divided "
     "by. (At place 0 nothing turns, so whether values are turned does not show yet.)"),
    ("the values are turned still, and divided by the number of keys",
     _newest(values=True, width="S"),
     "The place is right. Values are never turned, and scores are divided by the root of the "
     "width of a key."),
    ("as if the newest stood at place 0",
     _newest(place=0),
     "The newest token stands behind S others. At place 0 nothing turns, so that whether the "
     "values are turned does not even show."),
    ("the values are turned still",
     _newest(values=True),
     "Two are mended. Positions say where a token looks, not what it brings: values stay."),
    ("divided by the number of keys",
     _newest(width="S"),
     "Two are mended. Equation (1) divides by the root of d_k, the width of a key."),
    ("one place too early",
     _newest(place=-1),
     "The kept keys have the places 0 to S - 1, so the newest has S."),
    ("one place too late",
     _newest(place=1),
     "Places count from 0: the kept keys have 0 to S - 1, so the newest has S."),
    ("the key turned, the query not",
     _newest(query_place=0),
     "Query and key of the newest token stand at the same place."),
    ("the query turned, the key not",
     _newest(key_place=0),
     "Query and key of the newest token stand at the same place. What is kept is turned already; "
     "the new key is not."),
    ("one place too early, and the values turned",
     _newest(place=-1, values=True),
     "The kept keys have the places 0 to S - 1, so the newest has S. And values are never turned."),
    ("divided by the number of kept keys",
     _newest(width="S - 1"),
     "Equation (1) divides by the root of d_k, the width of a key, however many keys there are."),
    ("theta of a million",
     _newest(theta=1e6),
     "The kept keys were turned with theta = 10000. Both must be turned by the same angles."),
    ("the number of heads for the place",
     _newest(place="H"),
     "The first axis of q is the heads. How many tokens stand before the newest is kept_k's "
     "second."),
    ("the kept keys turned again",
     _newest(kept=True),
     "They were turned when they were kept. Turned twice, they stand at twice their places."),
    ("turned backwards",
     _newest(turned=lambda x, angles: _turned(x, -angles)),
     "The kept keys were turned the other way: (a cos - b sin, a sin + b cos) for a pair (a, b)."),
    ("neighbours turned",
     _newest(turned=_neighbours),
     "The kept keys were turned in halves. Both must be turned in the same pairing."),
    ("keys in one order, values in another",
     _newest(crossed=True),
     "Any order will do, but it must be the same for keys and values."),
    ("the newest does not see itself",
     _newest(own=False),
     "Causal attention sees up to the query's own place, itself included."),
    ("not scaled",
     _newest(width="1"),
     "Equation (1) divides by the root of d_k."),
    ("one place too early, and divided by the number of keys",
     _newest(place=-1, width="S"),
     "The kept keys have the places 0 to S - 1, so the newest has S. And equation (1) divides by "
     "the root of d_k."),
    ("divided by d_k, without the root",
     _newest(width="K^2"),
     "Equation (1) divides by the *root* of d_k."),
    ("the softmax over the heads",
     _newest(axis=0),
     "Each head shares its attention among the keys: the softmax runs over the last axis."),
    ("divided by the root of all heads' width",
     _newest(width="H"),
     "Each head divides by the root of its own width, K."),
    ("the newest at the place K", _newest(place="K"),
     "The newest token stands at place S, the number of the kept keys: `kept_k.shape[1]`."),
    ("multiplied by the root of d_k", _newest(width="1 / K"),
     "Equation (1) *divides* by the root of d_k."),
    ("keys and values exchanged",
     lambda q, k, v, kept_k, kept_v: (
         lambda keys, values: (
             (_at(q, kept_k.shape[1]) @ values.mT / q.shape[-1] ** 0.5).softmax(-1) @ keys
         )[:, 0]
     )(
         torch.cat([kept_k, _at(k, kept_k.shape[1])], 1),
         torch.cat([kept_v, v[:, None]], 1),
     ),
     "The query is compared with the keys, and the values are added up."),
)  # fmt: skip


# 20.8 back through RMSNorm


def rms_backward(x: Tensor, gamma: Tensor, dy: Tensor, eps: float) -> Tensor:
    return _rms_backward()(x, gamma, dy, eps)


def _rms_backward(
    first: str = "gamma",
    second: str = "gamma",
    sign: float = -1,
    power: int = 3,
    over: str = "D",
    eps_in: bool = True,
    axis: int | None = -1,
    centred: bool = False,
    summed: bool = False,
    root: Callable[[Tensor], Tensor] = torch.sqrt,
    against: str = "x",
) -> Callable[..., Tensor]:
    """The gradient, right by default; each argument makes one mistake."""

    def backward(x: Tensor, gamma: Tensor, dy: Tensor, eps: float) -> Tensor:
        squares = x.pow(2).sum(-1, keepdim=True) / (1 if summed else x.shape[-1])
        r = root(squares + (eps if eps_in else 0.0))
        g = dy * gamma if first == "gamma" else dy
        h = dy * gamma if second == "gamma" else dy * gamma**2 if second == "twice" else dy
        h = h * (x if against == "x" else r)
        inner = h.sum() if axis is None else h.sum(axis, keepdim=True)
        inner = inner / {"D": x.shape[-1], "1": 1, "D^2": x.shape[-1] ** 2}[over]
        found = g / r + (sign * x * inner / r**power if second else 0.0)
        return found - (found.mean(-1, keepdim=True) if centred else 0.0)

    return backward


def _layer_norm_backward(x: Tensor, gamma: Tensor, dy: Tensor, eps: float) -> Tensor:
    x = x - x.mean(-1, keepdim=True)
    r = (x.pow(2).mean(-1, keepdim=True) + eps).sqrt()
    g, n = gamma * dy, x / r
    return (g - g.mean(-1, keepdim=True) - n * (g * n).mean(-1, keepdim=True)) / r


def rms_backward_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(208)
    normal = lambda *size: torch.randn(*size, generator=draw)  # noqa: E731
    cases = [(torch.tensor([3.0, 4.0]), torch.ones(2), torch.tensor([1.0, 0.0]), 0.0)]
    for size, scale, eps in (((3, 5), 1.0, 1e-5), ((2, 3, 4), 0.2, 0.1), ((4, 1), 2.0, 0.5)):
        x, dy = scale * normal(*size), normal(*size)
        cases.append((x, 1 + 0.5 * normal(size[-1]), dy, eps))
    return cases


RMS_SLIPS = [
    ("gamma forgotten", {"first": "none", "second": "none"}, "All of dy passes gamma."),
    ("gamma in the first term only", {"second": "none"}, "All of dy passes gamma."),
    ("gamma in the second term only", {"first": "none"}, "All of dy passes gamma."),
    ("added, not subtracted", {"sign": 1}, "The derivative of 1/r has a minus."),
    ("the second term twice", {"sign": -2}, "The square's 2 and the root's half make 1."),
    ("half of the second term", {"sign": -0.5}, "The square's 2 and the root's half make 1."),
    ("a sum in place of a mean", {"over": "1"}, "The root holds a *mean* of squares."),
    ("divided by D twice", {"over": "D^2"}, "The mean of squares brings one D."),
    ("1 / r in the second term", {"power": 1}, "The second term has 1 / r^3."),
    ("1 / r^2 in the second term", {"power": 2}, "The second term has 1 / r^3."),
    ("1 / r^4 in the second term", {"power": 4}, "The second term has 1 / r^3."),
    ("eps forgotten", {"eps_in": False}, "r is the root of the mean square *plus eps*."),
    ("summed over all places", {"axis": None}, "Each vector has a root of its own."),
    ("the mean subtracted", {"centred": True}, "RMSNorm subtracts no mean."),
]  # fmt: skip
RMS_KNOWN = [("gamma in the first term only", "gamma in the second term only")]


RMS_BACKWARD_MISTAKES = mistakes(
    ("as if dy were 1",
     lambda x, gamma, dy, eps: rms_backward(x, gamma, torch.ones_like(dy), eps),
     "The gradient of the sum of y is for a dy of ones. Each y_i counts by its dy_i."),
    ("dy multiplied afterwards",
     lambda x, gamma, dy, eps: dy * rms_backward(x, gamma, torch.ones_like(dy), eps),
     "dy belongs to y, under the sum: an x_j reaches every y_i, each with a dy_i of its own."),
    ("divided by the number of all entries",
     lambda x, gamma, dy, eps: (
         lambda first, whole: first + (whole - first) * x.shape[-1] / x.numel()
     )(_rms_backward(second="")(x, gamma, dy, eps), rms_backward(x, gamma, dy, eps)),
     "Each vector has a mean of its own, over D entries, `x.shape[-1]`."),
    ("as if the root were a constant, and eps forgotten",
     lambda x, gamma, dy, eps: gamma * dy / x.pow(2).mean(-1, keepdim=True).sqrt(),
     "The root depends on x as well: there is a second term. And eps stands under it."),
    ("as if the mean square were a constant, and not drawn",
     lambda x, gamma, dy, eps: gamma * dy / (x.pow(2).mean(-1, keepdim=True) + eps),
     "The *root* of the mean square divides, and it depends on x: there is a second term."),
    ("the mean of gamma dy without x",
     lambda x, gamma, dy, eps: (
         lambda r: gamma * dy / r - x * (dy * gamma).mean(-1, keepdim=True) / r**3
     )((x.pow(2).mean(-1, keepdim=True) + eps).sqrt()),
     "The root depends on every x: its derivative brings an x into the mean, gamma dy x."),
    ("the second term alone", lambda x, gamma, dy, eps: (
        (lambda r: -x * (gamma * dy * x).mean(-1, keepdim=True) / r**3)(
            (x.pow(2).mean(-1, keepdim=True) + eps).sqrt())),
     "That is what the root does. x also stands above the line: gamma dy / r."),
    ("1 / r^3 in the first term", lambda x, gamma, dy, eps: (
        (lambda r: (gamma * dy - x * (gamma * dy * x).mean(-1, keepdim=True)) / r**3)(
            (x.pow(2).mean(-1, keepdim=True) + eps).sqrt())),
     "The first term is gamma dy / r; only the second one has r^3."),
    ("divided by gamma", lambda x, gamma, dy, eps: _rms_backward()(x, 1 / gamma, dy, eps),
     "Backwards, too, gamma multiplies: y_i has the factor gamma_i."),
    ("the length in place of the root in the first term", lambda x, gamma, dy, eps: (
        (lambda r, n: gamma * dy / n - x * (gamma * dy * x).mean(-1, keepdim=True) / r**3)(
            (x.pow(2).mean(-1, keepdim=True) + eps).sqrt(), x.norm(dim=-1, keepdim=True))),
     "One root stands in both terms: that of the mean square, plus eps."),
    ("1 / r^4 in the second term", _rms_backward(power=4),
     "The derivative of 1/r is -1/r^2, times that of r, which is x / (D r): together r^3."),
    ("dy in place of x in front of the second term", lambda x, gamma, dy, eps: (
        (lambda r: gamma * dy / r - dy * (gamma * dy * x).mean(-1, keepdim=True) / r**3)(
            (x.pow(2).mean(-1, keepdim=True) + eps).sqrt())),
     "The derivative of the root with respect to x_j is x_j / (D r): x_j stands in front."),
    ("the mean of the first term subtracted", lambda x, gamma, dy, eps: (
        (lambda r: _rms_backward()(x, gamma, dy, eps) - (gamma * dy / r).mean(-1, keepdim=True))(
            (x.pow(2).mean(-1, keepdim=True) + eps).sqrt())),
     "A mean is taken off on the way back only if one was taken off on the way there. RMSNorm "
     "takes none."),
    *combined(_rms_backward, RMS_SLIPS, RMS_KNOWN),
    ("as if the root were a constant", _rms_backward(second=""),
     "The root depends on x as well: each entry of x changes all entries of y through it."),
    ("as if the root were a constant, and without gamma", _rms_backward("", ""),
     "dy passes gamma first. And the root depends on x: each entry changes all entries through "
     "it."),
    ("gamma forgotten", _rms_backward("none", "none"),
     "y = gamma x / r, so whatever comes back is multiplied by gamma first."),
    ("gamma in the first term only", _rms_backward(second="none"),
     "The sum in the second term is over dy gamma x: all of dy passes gamma."),
    ("gamma in the second term only", _rms_backward(first="none"),
     "The first term is gamma dy / r."),
    ("gamma twice in the second term", _rms_backward(second="twice"),
     "One gamma stands there: sum of dy gamma x."),
    ("gamma in front of the sum", lambda x, gamma, dy, eps: (
        gamma * _rms_backward("none", "none")(x, gamma, dy, eps)),
     "In the second term gamma belongs under the sum, with dy: each y_i has its own."),
    ("each entry alone, without the sum", lambda x, gamma, dy, eps: (
        (lambda r: gamma * dy / r - gamma * dy * x * x / (x.shape[-1] * r**3))(
            (x.pow(2).mean(-1, keepdim=True) + eps).sqrt())),
     "x_j changes the root, and by it *all* y_i. The second term sums over all of them."),
    ("each entry alone, and not divided by D", lambda x, gamma, dy, eps: (
        (lambda r: gamma * dy / r - gamma * dy * x * x / r**3)(
            (x.pow(2).mean(-1, keepdim=True) + eps).sqrt())),
     "x_j changes the root, and by it *all* y_i: the second term sums over all of them and divides "
     "by D, as the root holds a mean."),
    ("without x in the second term", lambda x, gamma, dy, eps: (
        (lambda r: gamma * dy / r - (gamma * dy * x).mean(-1, keepdim=True) / r**3)(
            (x.pow(2).mean(-1, keepdim=True) + eps).sqrt())),
     "The derivative of the root with respect to x_j is x_j / (D r): x_j stands in front."),
    ("the second term twice", _rms_backward(sign=-2),
     "The square brings a 2, and the root a half: together x / (D r)."),
    ("half of the second term", _rms_backward(sign=-0.5),
     "The root brings a half, and the square a 2: together x / (D r)."),
    ("eps outside of the root", lambda x, gamma, dy, eps: (
        (lambda r: gamma * dy / r - x * (gamma * dy * x).mean(-1, keepdim=True) / r**3)(
            x.pow(2).mean(-1, keepdim=True).sqrt() + eps)),
     "Equation (20.1) adds eps to the mean square, under the root."),
    ("one root for all vectors", lambda x, gamma, dy, eps: (
        (lambda r: gamma * dy / r - x * (gamma * dy * x).mean(-1, keepdim=True) / r**3)(
            (x.pow(2).mean() + eps).sqrt())),
     "Each vector has a root of its own: take the mean over the last axis only, and keep it."),
    ("one mean for all vectors in the second term", lambda x, gamma, dy, eps: (
        (lambda r: gamma * dy / r - x * (gamma * dy * x).mean() / r**3)(
            (x.pow(2).mean(-1, keepdim=True) + eps).sqrt())),
     "Each vector has a root of its own: take the mean over the last axis only, and keep it."),
    ("not divided by the root in the end", lambda x, gamma, dy, eps: (
        _rms_backward()(x, gamma, dy, eps) * (x.pow(2).mean(-1, keepdim=True) + eps).sqrt()),
     "What is subtracted and what it is subtracted from are both divided by r once more."),
    ("gamma once more in the end", lambda x, gamma, dy, eps: (
        gamma * _rms_backward()(x, gamma, dy, eps)),
     "gamma stands between x / r and y: dy passes it once, and that is in both terms."),
    ("LayerNorm's gradient", lambda x, gamma, dy, eps: _layer_norm_backward(x, gamma, dy, eps),
     "That is the gradient through LayerNorm, with a mean and a deviation. RMSNorm has no mean."),
    ("multiplied by the root", lambda x, gamma, dy, eps: (
        gamma * dy * (x.pow(2).mean(-1, keepdim=True) + eps).sqrt()),
     "y divides by the root, so its derivative does too. And the root depends on x."),
    ("added, not subtracted", _rms_backward(sign=1),
     "A longer x makes the root larger and y smaller: the derivative of 1/r has a minus."),
    ("a sum in place of a mean", _rms_backward(over="1"),
     "The root holds a *mean* of squares, so its derivative is x / (D r)."),
    ("divided by D twice", _rms_backward(over="D^2"),
     "The mean of squares brings one D."),
    ("1 / r in the second term", _rms_backward(power=1),
     "The derivative of 1/r is -1/r^2, times that of r, which is x / (D r): together r^3."),
    ("1 / r^2 in the second term", _rms_backward(power=2),
     "The derivative of 1/r is -1/r^2, times that of r, which is x / (D r): together r^3."),
    ("a sum in place of the mean under the root", _rms_backward(summed=True),
     "r is the root of the *mean* of the squares, plus eps."),
    ("summed over the first axis", _rms_backward(axis=0),
     "Each vector has a root of its own: sum over the last axis only, and keep it."),
    ("y in place of x under the mean", lambda x, gamma, dy, eps: (
        (lambda r: gamma * dy / r - x * (gamma * dy * gamma * x / r).mean(-1, keepdim=True)
         / r**3)((x.pow(2).mean(-1, keepdim=True) + eps).sqrt())),
     "The mean is of gamma dy x: dy passes gamma once, and x is not divided yet."),
    ("y in place of x / r in the second term", lambda x, gamma, dy, eps: (
        (lambda r, y: (gamma * dy - y * (gamma * dy * y).mean(-1, keepdim=True)) / r)(
            (x.pow(2).mean(-1, keepdim=True) + eps).sqrt(),
            gamma * x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt())),
     "Normalised, x is x / r, without gamma; dy passes gamma once."),
    ("x squared in front of the second term", lambda x, gamma, dy, eps: (
        (lambda r: gamma * dy / r - x * x * (gamma * dy).mean(-1, keepdim=True) / r**3)(
            (x.pow(2).mean(-1, keepdim=True) + eps).sqrt())),
     "One x stands in front, x_j, and the other one under the mean: x_j times the mean of "
     "gamma dy x."),
    ("eps under the root, and beside it", lambda x, gamma, dy, eps: (
        (lambda r: gamma * dy / r - x * (gamma * dy * x).mean(-1, keepdim=True) / r**3)(
            (x.pow(2).mean(-1, keepdim=True) + eps).sqrt() + eps)),
     "eps is added once, to the mean square, under the root."),
    ("divided by D - 1 under the root", lambda x, gamma, dy, eps: (
        (lambda r: gamma * dy / r - x * (gamma * dy * x).mean(-1, keepdim=True) / r**3)(
            (x.pow(2).sum(-1, keepdim=True) / max(x.shape[-1] - 1, 1) + eps).sqrt())),
     "The root holds the *mean* of the squares: it is divided by D."),
    ("x * x in place of r^2 in the second term",
     lambda x, gamma, dy, eps: (
         dy * gamma - x * (dy * gamma * x).sum(-1, keepdim=True) / x.pow(2).sum(-1, keepdim=True)
     ) / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt(),
     "The derivative of 1 / r has r^3 below the bar, with eps in it: x * x alone is not r^2."),
    ("eps forgotten", _rms_backward(eps_in=False),
     "r is the root of the mean square *plus eps*; where x is small eps is most of it."),
    *(
        (f"{name} in place of the eps given",
         lambda x, gamma, dy, eps, own=own: rms_backward(x, gamma, dy, own),
         "eps is the last argument: it may be large where x is small, and then is most of the "
         "root. (PyTorch's functions take their own where they are given none.)")
        for name, own in (
            ("PyTorch's own eps, 1.2e-7,", torch.finfo(torch.float32).eps),
            ("an eps of 1e-8", 1e-8), ("an eps of 1e-6", 1e-6), ("an eps of 1e-5", 1e-5),
        )
    ),
    ("the root of eps under the root",
     lambda x, gamma, dy, eps: rms_backward(x, gamma, dy, eps**0.5),
     "eps is added to the mean square as it is, under the root."),
    ("eps squared under the root",
     lambda x, gamma, dy, eps: rms_backward(x, gamma, dy, eps**2),
     "eps is added to the mean square as it is, under the root."),
    ("summed over all places", _rms_backward(axis=None),
     "Each vector has a root of its own: sum over the last axis only, and keep it."),
    ("LayerNorm's: the mean subtracted", _rms_backward(centred=True),
     "LayerNorm subtracts a mean forwards, and so backwards. RMSNorm does not."),
    ("the forward pass", lambda x, gamma, dy, eps: (
        gamma * x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt()),
     "That is y. The question is for the gradient that reaches x when dy reaches y."),
    ("the forward pass times dy", lambda x, gamma, dy, eps: (
        dy * gamma * x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt()),
     "That is y times dy, entry by entry. The gradient has the derivative of y, not y."),
    ("the gradient of gamma", lambda x, gamma, dy, eps: (
        dy * x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt()),
     "dy x / r, summed over all vectors, is the gradient of *gamma*. Asked is that of x."),
    ("gamma in front of x in the second term as well", lambda x, gamma, dy, eps: (
        (lambda r: gamma * dy / r - gamma * x * (gamma * dy * x).mean(-1, keepdim=True) / r**3)(
            (x.pow(2).mean(-1, keepdim=True) + eps).sqrt())),
     "gamma stands under the sum, with dy. The x in front comes from the root, which has none."),
    ("eps forgotten in the second term", lambda x, gamma, dy, eps: (
        gamma * dy / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt()
        - x * (gamma * dy * x).mean(-1, keepdim=True) / x.pow(2).mean(-1, keepdim=True) ** 1.5),
     "One root stands in both terms, with eps in it."),
    ("the gradient of gamma, summed over all vectors", lambda x, gamma, dy, eps: (
        (dy * x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt())
        .reshape(-1, x.shape[-1]).sum(0)),
     "That is what gamma learns. Asked for is the gradient with respect to x."),
    ("one root and one mean for all vectors", lambda x, gamma, dy, eps: (
        (lambda r: gamma * dy / r - x * (gamma * dy * x).mean() / r**3)(
            (x.pow(2).mean() + eps).sqrt())),
     "Each vector has its own root and its own mean: they run over the last axis alone."),
    ("the root not drawn", lambda x, gamma, dy, eps: (
        (lambda r: gamma * dy / r - x * (gamma * dy * x).mean(-1, keepdim=True) / r**3)(
            x.pow(2).mean(-1, keepdim=True) + eps)),
     "r is the *root* of the mean square plus eps."),
    ("the length in place of the root of the mean square", lambda x, gamma, dy, eps: (
        (lambda r: gamma * dy / r - x * (gamma * dy * x).sum(-1, keepdim=True) / r**3)(
            (x.pow(2).sum(-1, keepdim=True) + eps).sqrt())),
     "The root in (20.1) holds the mean of the squares, not their sum."),
    ("divided by D - 1", lambda x, gamma, dy, eps: (
        (lambda r: gamma * dy / r - x * (gamma * dy * x).sum(-1, keepdim=True)
         / (max(x.shape[-1] - 1, 1) * r**3))((x.pow(2).mean(-1, keepdim=True) + eps).sqrt())),
     "The mean of squares is divided by D."),
    ("the first term without its root", lambda x, gamma, dy, eps: (
        (lambda r: gamma * dy / r**2 - x * (gamma * dy * x).mean(-1, keepdim=True) / r**3)(
            (x.pow(2).mean(-1, keepdim=True) + eps).sqrt())),
     "y is x over the *root* of the mean square plus eps."),
    ("x with its mean taken off", lambda x, gamma, dy, eps: (
        rms_backward(x - x.mean(-1, keepdim=True), gamma, dy, eps)),
     "RMSNorm takes no mean off, and so x stays as it is on the way back."),
    ("a mean taken off in place of the second term", lambda x, gamma, dy, eps: (
        (lambda first: first - first.mean(-1, keepdim=True))(
            gamma * dy / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt())),
     "That is how a mean comes back. RMSNorm has none: what comes back of the root is x times the "
     "mean of gamma dy x, over r^3."),
    ("added up over the entries",
     lambda x, gamma, dy, eps: rms_backward(x, gamma, dy, eps).sum(-1),
     "The gradient has the shape of x."),
    ("roots and means along the first axis", lambda x, gamma, dy, eps: (
        (lambda r: gamma * dy / r - x * (gamma * dy * x).sum(0, keepdim=True)
         / (x.shape[-1] * r**3))((x.pow(2).mean(0, keepdim=True) + eps).sqrt())),
     "Each vector has a root and a mean of its own: they run over the last axis."),
    ("the root taken along the first axis", lambda x, gamma, dy, eps: (
        (lambda r: gamma * dy / r - x * (gamma * dy * x).mean(-1, keepdim=True) / r**3)(
            (x.pow(2).mean(0, keepdim=True) + eps).sqrt())),
     "Each vector has a root of its own: its mean runs over the last axis."),
    ("the mean of what comes in taken off first", lambda x, gamma, dy, eps: (
        (lambda u, r: u / r - x * (u * x).mean(-1, keepdim=True) / r**3)(
            gamma * dy - (gamma * dy).mean(-1, keepdim=True),
            (x.pow(2).mean(-1, keepdim=True) + eps).sqrt())),
     "A mean is taken off on the way back only if one was taken off on the way there. RMSNorm "
     "takes none."),
    ("half of the mean square for its root", _rms_backward(root=lambda squares: 0.5 * squares),
     "The root is a power, `** 0.5`; `* 0.5` is a half."),
    ("the right gradient of a norm without its root",
     lambda x, gamma, dy, eps: (
         lambda r, g: g / r - 2 * x * (g * x).mean(-1, keepdim=True) / r**2
     )(x.pow(2).mean(-1, keepdim=True) + eps, dy * gamma),
     "RMSNorm divides by the *root* of the mean square plus eps."),
    ("multiplied by r",
     lambda x, gamma, dy, eps: (
         rms_backward(x, gamma, dy, eps) * (x.pow(2).mean(-1, keepdim=True) + eps)
     ),
     "All is *divided* by r: where x is twice as large, y is the same, and the gradient half."),
    ("the mean of gamma dy alone in the second term", _rms_backward(against="r"),
     "The root depends on x: what counts is the mean of gamma dy *times x*."),
)  # fmt: skip


# 20.9 a sink, designed


def sink(K: int, n: int, match: float) -> tuple[Tensor, Tensor]:
    """Its score lies half-way between all idle keys together and the match."""
    key, value = torch.zeros(K), torch.zeros(K)
    key[-1] = math.sqrt(K) * (match + math.log(n)) / 2
    return key, value


SINK_CASES = [
    (8, 20, 14.0),
    (4, 6, 12.0),
    (16, 50, 16.0),
    (2, 1, 10.0),
    (4, 3000, 10 + math.log(3000)),
]
SINK_SLIPS: tuple[tuple[str, Callable[[Tensor, int], Tensor], str], ...] = (
    ("the division by the root of K forgotten", lambda key, K: key * K**0.5,
     "The score is the product divided by the root of K: the key's entry is the root of K times "
     "the score you want."),
    ("divided by the root of K once more", lambda key, K: key * K,
     "The score is divided by the root of K. To undo a division, *multiply*: the key's entry is "
     "the root of K times the score you want."),
    ("multiplied by K, and not by its root", lambda key, K: key / K**0.5,
     "The score is divided by the *root* of K: the key's entry is the root of K times the score "
     "you want."),
    ("entry 0 of the key answers the one that asks",
     lambda key, K: torch.cat([0 * key[:1], key[1:]]),
     "A query that asks has an entry 0, and meets that of the key. The last entry, 1 in every "
     "query, is the sink's: the key has no other."),
    ("its score is negative", lambda key, K: -key,
     "The sink must outweigh n keys of score 0: its score has to be above 0, well above log n."),
    ("its score is negative, and the division by the root of K forgotten",
     lambda key, K: -key * K**0.5,
     "The sink's score has to be above 0, and the key's entry is the root of K times that score."),
)  # fmt: skip
SINK_SCORES: tuple[tuple[str, Callable[[int, float], float], str], ...] = (
    *(
        (f"a logarithm to the base {base}", score,
         "n keys of score 0 weigh n together, as one of score ln n does: the exponential goes with "
         "the natural logarithm, `math.log(n)`.")
        for base in (2, 10)
        for score in (
            lambda n, match, base=base: math.log(n) / math.log(base),
            lambda n, match, base=base: (match + math.log(n) / math.log(base)) / 2,
        )
    ),
    ("half of the distance, and not half-way", lambda n, match: (match - math.log(n)) / 2,
     "Half-way between log n and `match` is half of their *sum*."),
    *(
        ("log n taken off", score,
         "The more keys an idle query sees, the higher the sink's score must be.")
        for score in (lambda n, match: -math.log(n), lambda n, match: match - math.log(n))
    ),
    ("the root of n in place of log n", lambda n, match: n**0.5,
     "n keys of score 0 weigh n together, as one of score log n does."),
    ("the root of n in place of log n", lambda n, match: (match + n**0.5) / 2,
     "n keys of score 0 weigh n together, as one of score log n does."),
)  # fmt: skip
EXCHANGED = ", exchanged"
EXACTLY = ", by exactly 95 per cent", ", by exactly 5 per cent"


def served(answer: Callable[..., Any], K: int, n: int, match: float) -> tuple[str, str, str]:
    """What a head does with such a sink, for a query that asks and for one that does not."""
    key, value = _key_and_value(answer(K, n, match), K)
    idle, asks = _weights(key, n, match)
    if not key.any() and value.norm() >= 0.05:
        if turned := _value_first(answer):
            return f"speaks unasked{turned}", "answers", f"adds something of its own{turned}"
    slip = "" if idle > 0.95 and asks < 0.05 else _sink_slip(answer)
    elsewhere = ", by an entry that is no query's" * (not key[-1] and bool(key[1:].any()))
    unasked = EXACTLY[0] if abs(idle - 0.95) < 1e-6 else slip or elsewhere
    drowned = EXACTLY[1] if abs(asks - 0.05) < 1e-6 else slip
    small = ", though each entry is small" * bool(value.abs().max() < 0.05)
    return (
        "idle" if idle > 0.95 else f"speaks unasked{unasked}",
        "answers" if asks < 0.05 else f"drowned{drowned}",
        "adds nothing" if float(value.norm()) < 0.05 else f"adds something of its own{small}",
    )


def _key_and_value(made: Any, K: int) -> list[Tensor]:
    if isinstance(made, Tensor) and made.ndim == 1:
        raise ValueError("expected a key and a value, got one vector alone")
    pair = [torch.as_tensor(one).double() for one in made]
    if [tuple(one.shape) for one in pair] != [(K,), (K,)]:
        shapes = [tuple(one.shape) for one in pair]
        raise ValueError(f"expected a key and a value of shape ({K},), got shapes {shapes[:4]}")
    if not all(one.isfinite().all() for one in pair):
        raise ValueError("expected finite numbers, got an infinite one or NaN")
    return pair


def _weights(key: Tensor, n: int, match: float) -> tuple[float, float]:
    """The sink's weight from a query that is idle, and from one that asks."""
    K = len(key)
    keys = torch.zeros(n, K).double()
    keys[n // 2, 0] = 1.0
    idle, asks = torch.zeros(2, K).double()
    idle[-1] = asks[-1] = 1.0
    asks[0] = math.sqrt(K) * match
    weights = torch.stack([idle, asks]) @ torch.cat([key[None], keys]).mT / math.sqrt(K)
    weights = weights.softmax(-1)
    longer, gently = 100 * keys, torch.cat([asks[:1] / 100, asks[1:]])  # the same match
    softly = (gently @ torch.cat([key[None], longer]).mT / math.sqrt(K)).softmax(-1)
    return float(weights[0, 0]), float(max(weights[1, 0], softly[0]))


def _sink_slip(answer: Callable[..., Any]) -> str:
    """The slip without which such a sink would hold in all cases, or that its scores show."""
    try:
        made = [(_key_and_value(answer(*case), case[0])[0], *case) for case in SINK_CASES]
    except Exception:
        return ""
    for name, undo, _ in SINK_SLIPS:
        new = (_weights(undo(key, K), n, match) for key, K, n, match in made)
        if all(idle > 0.95 and asks < 0.05 for idle, asks in new):
            return f", {name}"
    for name, score, _ in SINK_SCORES:
        less = [float(key[-1]) / K**0.5 - score(n, match) for key, K, n, match in made]
        if max(less) - min(less) < 1e-3:  # and something more, the same for all
            return f", {name}"
    return ""


def _value_first(answer: Callable[..., Any]) -> str:
    """That the value comes first and then the key, if such a key holds, or but for one slip."""

    def turned(*case: Any) -> list[Tensor]:
        return _key_and_value(answer(*case), case[0])[::-1]

    try:
        found = [_weights(turned(*case)[0], *case[1:]) for case in SINK_CASES]
    except Exception:
        return ""
    if all(idle > 0.95 and asks < 0.05 for idle, asks in found):
        return EXCHANGED
    slip = _sink_slip(turned)
    return f"{EXCHANGED}{slip}" if slip else ""


def _sink(
    score: Callable[[int, int, float], float], value: float = 0.0, entry: int = -1
) -> Callable[..., tuple[Tensor, Tensor]]:
    """A sink with such a score after scaling, and such a value."""

    def made(K: int, n: int, match: float) -> tuple[Tensor, Tensor]:
        key = torch.zeros(K)
        key[entry] = math.sqrt(K) * score(K, n, match)
        return key, torch.full((K,), value)

    return made


_MIDDLE = lambda K, n, match: (match + math.log(n)) / 2  # noqa: E731

SINK_MISTAKES = mistakes(
    ("in another entry than the last", _sink(_MIDDLE, entry=1),
     "The last entry of every query is 1. Where K is above 2, entry 1 is another one, and zero in "
     "all queries: whatever the key has there scores 0."),
    ("it attracts too little among many keys, as half of `match` does",
     _sink(lambda K, n, match: match / 2),
     "That is enough for few keys. An idle query gives all n of them together n times the weight "
     "of one: the score must grow with the logarithm of n as well."),
    ("it attracts too little, but for few keys, as does a score without n",
     _sink(lambda K, n, match: 5.0),
     "That is enough for few keys. The keys of an idle query weigh n together: the score must lie "
     "some way above the logarithm of n."),
    ("it attracts too much among many keys, as does n in place of log n",
     _sink(lambda K, n, match: (match + n) / 2),
     "The n keys of an idle query score 0, so together they weigh n, and a score of log n weighs "
     "as much. n itself may be far above `match`."),
    ("it attracts too little", _sink(lambda K, n, match: 0.0),
     "A query that asks nothing scores 0 with each of the n keys, and gives each of them as much "
     "as a sink of score 0. It must outweigh all n together: exp(s) so far above n that it has "
     "more than 95 per cent of both."),
    ("it attracts too much", _sink(lambda K, n, match: 2 * match),
     "Who asks must still be answered: the sink's score has to stay well below `match`."),
    ("it adds something of its own", _sink(_MIDDLE, value=1.0),
     "The weight goes where it should. But what gets the weight is summed: only a value of zero "
     "adds nothing."),
    ("a value that is small, but not in a wide head", _sink(_MIDDLE, value=0.02),
     "The length of the value grows with the root of K. Zero has the length zero in any head."),
    ("it attracts too little, and adds something of its own",
     _sink(lambda K, n, match: 0.0, value=1.0),
     "Its value must be zero, and its score well above the logarithm of n. (The key comes first, "
     "then the value.)"),
    ("it attracts too much, and adds something of its own",
     _sink(lambda K, n, match: 2 * match, value=1.0),
     "Its value must be zero, and its score well below `match`."),
    ("it attracts who asks, and not who is idle",
     _sink(lambda K, n, match: 1.0, entry=0),
     "Entry 0 is the one that asks. The last entry of a query is 1 whether it asks or not: that is "
     "what a sink can always answer."),
    ("it attracts who asks, not who is idle, and adds something of its own",
     _sink(lambda K, n, match: 1.0, value=1.0, entry=0),
     "The last entry of every query is 1, and a value of zero adds nothing."),
)  # fmt: skip


SINK_SHOULD = (
    ("idle", "it attracts too little",
     "Idle, a query scores 0 with each of the n keys: together they weigh n. The sink's score must "
     "lie so far above log n that its exponential outweighs them."),
    ("answers", "it attracts too much",
     "The sink's score must lie so far below `match` that its exponential is small beside that of "
     "the match."),
    ("adds nothing", "it adds something of its own", "Only a value of zero adds nothing."),
)  # fmt: skip


SINK_SAID = {
    **{f", {name}": (name, why) for name, _, why in (*SINK_SLIPS, *SINK_SCORES)},
    EXCHANGED: (
        "right in another order: what you give is (value, key)",
        "Asked for are the key first, and then the value.",
    ),
    **{
        f"{EXCHANGED}, {name}": (
            f"the value first, and then the key; and in it {name}",
            f"Asked for are the key first, and then the value. {why}",
        )
        for name, _, why in (*SINK_SLIPS, *SINK_SCORES)
    },
    EXACTLY[0]: ("exactly 95 per cent", "An idle query is to give the sink *more* than that."),
    EXACTLY[1]: ("exactly 5 per cent", "Who asks is to give the sink *less* than that."),
    ", though each entry is small": (
        "each entry of the value is small, and its length is not",
        "The length of K entries of the same size is their size times the root of K. Only a value "
        "of zero adds nothing in any head.",
    ),
}


def _sink_said(cases: Sequence[Case], got: Sequence, want: Sequence) -> tuple[str, str] | None:
    """What a sink does wrong, and in how many cases."""
    if not all(isinstance(said, tuple) for said in got):
        return None
    found = {}  # a name and why it is wrong
    for part, (right, name, why) in enumerate(SINK_SHOULD):
        wrong = [said[part] for said in got if said[part] != right]
        slips = {said[said.find(",") :] if "," in said else "" for said in wrong}
        if len(slips) == 1 and (known := SINK_SAID.get(*slips)):
            found[known[0]] = known[1]
        elif wrong:
            of = f" (in {len(wrong)} of {len(got)} cases)" * (len(wrong) < len(got))
            found[name + of] = why
    return (", and ".join(found), " ".join(found.values())) if found else None


# 20.10 a test that finds them

Step = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def _relative(q: Tensor, k: Tensor, v: Tensor, kept_k: Tensor, kept_v: Tensor) -> Tensor:
    """Right, without turning what is new: the kept keys are turned back by S places."""
    S = kept_k.shape[1]
    past = _turned(kept_k, _angle(kept_k, torch.full((S,), -S), 10000.0))
    keys, values = torch.cat([past, k[:, None]], 1), torch.cat([kept_v, v[:, None]], 1)
    return _attend(q[:, None], keys, values)[:, 0]


def _one_head_for_all(q: Tensor, k: Tensor, v: Tensor, kept_k: Tensor, kept_v: Tensor) -> Tensor:
    one = (x[:1].expand_as(x) for x in (k, kept_k))
    return newest(q, next(one), v, next(one), kept_v)


def _last_four(q: Tensor, k: Tensor, v: Tensor, kept_k: Tensor, kept_v: Tensor) -> Tensor:
    """Looks at four kept keys at most, at their right places."""
    S = kept_k.shape[1]
    q, k = _at(q, S), _at(k, S)
    keys = torch.cat([kept_k[:, -4:], k], 1)
    return _attend(q, keys, torch.cat([kept_v[:, -4:], v[:, None]], 1))[:, 0]


def _last_head_right(q: Tensor, k: Tensor, v: Tensor, kept_k: Tensor, kept_v: Tensor) -> Tensor:
    out = newest(q, k, v, kept_k, kept_v)
    return torch.cat([out[:-1] + 1, out[-1:]])


def _for_all_places(q: Tensor, k: Tensor, v: Tensor, kept_k: Tensor, kept_v: Tensor) -> Tensor:
    """Right, with as many queries as keys, as in a text that is read at once: to the last bit."""
    S, K = kept_k.shape[1:]
    angles = rotary_angles(torch.tensor([S]), K)
    q, k = (rotate(x[:, None], angles) for x in (q, k))
    keys, values = torch.cat([kept_k, k], 1), torch.cat([kept_v, v[:, None]], 1)
    return attention(q.repeat(1, S + 1, 1), keys, values)[:, -1]


def _without_places(q: Tensor, k: Tensor, v: Tensor, kept_k: Tensor, kept_v: Tensor) -> Tensor:
    """Attention without positions: the kept keys turned back, and nothing turned."""
    past = _turned(kept_k, -_angle(kept_k, torch.arange(kept_k.shape[1]), 10000.0))
    keys, values = torch.cat([past, k[:, None]], 1), torch.cat([kept_v, v[:, None]], 1)
    return _attend(q[:, None], keys, values)[:, 0]


def _one_number_right(*case: Tensor) -> Tensor:
    out = newest(*case)
    wrong = out + 1
    wrong[0, 0] = out[0, 0]
    return wrong


def _exchanged(q: Tensor, k: Tensor, v: Tensor, kept_k: Tensor, kept_v: Tensor) -> Tensor:
    """The values asked, and the keys added up."""
    S = kept_k.shape[1]
    keys, values = torch.cat([kept_k, _at(k, S)], 1), torch.cat([kept_v, v[:, None]], 1)
    return _attend(_at(q, S), values, keys)[:, 0]


A_LITTLE_MORE = moved(newest, 0.05)
A_LITTLE_LESS = "what is right, and 0.05 less", lambda *case: newest(*case) - 0.05
STEPS: dict[str, Step] = {
    "right": newest,
    "right, the newest in front": lambda q, k, v, kept_k, kept_v: _attend(
        _at(q, kept_k.shape[1]),
        torch.cat([_at(k, kept_k.shape[1]), kept_k], 1),
        torch.cat([v[:, None], kept_v], 1),
    )[:, 0],
    "right, only distances turned": _relative,
    "right, with as many queries as keys": _for_all_places,
    "the step of 20.7": _newest(place=0, values=True, width="S"),
    "only one number right": _one_number_right,
    "query and key exchanged": lambda q, k, v, kept_k, kept_v: newest(k, q, v, kept_k, kept_v),
    "the newest key in place of its value":
        lambda q, k, v, kept_k, kept_v: newest(q, k, k, kept_k, kept_v),
    "the newest query in place of its value":
        lambda q, k, v, kept_k, kept_v: newest(q, k, q, kept_k, kept_v),
    "keys and values exchanged": _exchanged,
    "the newest key in place of its query":
        lambda q, k, v, kept_k, kept_v: newest(k, k, v, kept_k, kept_v),
    "nothing turned, and what is kept turned back": _without_places,
    "the newest taken for kept": _newest(own=False, place=-1),
    "the first value alone": lambda q, k, v, kept_k, kept_v: kept_v[:, 0],
    "the newest at place 0": _newest(place=0),
    "values turned": _newest(values=True),
    "divided by the number of keys": _newest(width="S"),
    "divided by the number of kept keys": _newest(width="S - 1"),
    "one place too early": _newest(place=-1),
    "one place too late": _newest(place=1),
    "the number of heads for the place": _newest(place="H"),
    "query not turned": _newest(query_place=0),
    "key not turned": _newest(key_place=0),
    "kept keys turned again": _newest(kept=True),
    "neighbours turned": _newest(turned=_neighbours),
    "keys in one order, values in another": _newest(crossed=True),
    "the newest does not see itself": _newest(own=False),
    "not scaled": _newest(width="1"),
    "divided by 2, whatever the width": _newest(width="4"),
    "divided by the root of the number of heads": _newest(width="heads"),
    "divided by the root of all heads' width": _newest(width="H"),
    "softmax over the heads": _newest(axis=0),
    "the first head's keys for all": _one_head_for_all,
    "the last four kept keys only": _last_four,
    "only the last head right": _last_head_right,
    "the heads in reverse order": lambda *case: newest(*case).flip(0),
    A_LITTLE_MORE[0]: A_LITTLE_MORE[1],
    A_LITTLE_LESS[0]: A_LITTLE_LESS[1],
}  # fmt: skip
MISSED_STEPS = {
    A_LITTLE_MORE[0]:
        "0.05 is far above rounding, which is a millionth here: is the tolerance too wide? Near "
        "1e-5 is wide enough. Or are the numbers not compared one by one?",
    A_LITTLE_LESS[0]:
        "Compare all numbers with what is right. Is a difference below zero taken for a small one? "
        "`abs`, or `torch.allclose`.",
    "only one number right":
        "Your test says yes where all numbers but one are wrong. `any` is content with one: all "
        "must agree.",
    "query and key exchanged": "Let queries and keys be different.",
    "the newest key in place of its query": "Let queries and keys be different.",
    "the newest key in place of its value": "Let values and keys be different.",
    "the newest query in place of its value": "Let values and queries be different.",
    "keys and values exchanged": "Let values and keys be different.",
    "nothing turned, and what is kept turned back":
        "What is right has turned queries and keys, each by its place. Take several kept keys.",
    "the newest taken for kept":
        "What is kept is of the places before the newest. Take several kept keys.",
    "the first value alone": "Compare with the last place, and not with the first.",
    "the step of 20.7": "It is wrong for every text of three tokens or more.",
    "the newest at place 0": "Take several kept keys, turned by their places.",
    "values turned":
        "The newest token stands at a place that is not 0, and has some weight, so that its value "
        "shows: there it is turned.",
    "divided by the number of keys": "Let the number of keys and the width of a key be different.",
    "divided by the number of kept keys":
        "Let the number of kept keys and the width of a key be different.",
    "one place too early": "Take several kept keys, turned by their places.",
    "one place too late": "Take several kept keys, turned by their places.",
    "the number of heads for the place": "Let the number of heads not be that of the kept keys.",
    "query not turned": "Take several kept keys, turned by their places.",
    "key not turned": "Take several kept keys, turned by their places.",
    "kept keys turned again": "Hand over several kept keys, each turned by its own place.",
    "neighbours turned": "Let a key have four entries or more.",
    "keys in one order, values in another": "Take several kept keys, with different values.",
    "the newest does not see itself": "Let the newest token's value be as large as others.",
    "not scaled": "Let the scores be large enough that their scale shows.",
    "divided by 2, whatever the width": "That is right for keys of four entries. Take others.",
    "divided by the root of the number of heads":
        "Let the number of heads and the width of a key be different.",
    "divided by the root of all heads' width": "Take several heads.",
    "softmax over the heads": "Take several heads.",
    "the first head's keys for all": "Take several heads, and compare all of them.",
    "the last four kept keys only": "Take a text of more than five tokens.",
    "only the last head right":
        "Compare the outputs of all heads. Is it `any`, where `all` is meant?",
    "the heads in reverse order": "Compare the outputs head by head and entry by entry.",
}  # fmt: skip


def run_step_test(answer: Callable, step: str) -> Any:
    return said_closely(answer, STEPS[step], right=step.startswith("right"))


def _text(H: int = 2, T: int = 9, K: int = 6, seed: int = 210) -> tuple[Tensor, ...]:
    """Queries, keys and values of a text, each (H, T, K), with the queries and keys turned."""
    q, k, v = 1.5 * torch.randn(3, H, T, K, generator=torch.Generator().manual_seed(seed))
    angle = _angle(q, torch.arange(T), 10000.0)
    return q, k, v, _turned(q, angle), _turned(k, angle)


def _last(text: tuple[Tensor, ...]) -> Tensor:
    """What attention gives at the last place: all of the text is before it."""
    _, _, v, turned_q, turned_k = text
    return _attend(turned_q[:, -1:], turned_k, v)[:, 0]


def _asked(step: Step, text: tuple[Tensor, ...]) -> Tensor:
    q, k, v, _, turned_k = text
    return step(q[:, -1], k[:, -1], v[:, -1], turned_k[:, :-1], v[:, :-1])


def _all_kept(step: Step, text: tuple[Tensor, ...]) -> Tensor:
    q, k, v, _, turned_k = text
    return step(q[:, -1], k[:, -1], v[:, -1], turned_k, v)


def _last_unturned(text: tuple[Tensor, ...]) -> Tensor:
    q, k, v, _, _ = text
    return _attend(q[:, -1:], k, v)[:, 0]


def _text_from_one() -> tuple[Tensor, ...]:
    q, k, v, _, _ = _text()
    angle = _angle(q, torch.arange(1, q.shape[1] + 1), 10000.0)
    return q, k, v, _turned(q, angle), _turned(k, angle)


def _alike(*which: int) -> tuple[Tensor, ...]:
    """A text of which some of q, k and v are one tensor."""
    return _placed(*(_text()[i] for i in which))


def _placed(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
    angle = _angle(q, torch.arange(q.shape[1]), 10000.0)
    return q, k, v, _turned(q, angle), _turned(k, angle)


def _all_of(number: float, values: Tensor | None = None) -> tuple[Tensor, ...]:
    one = torch.full_like(_text()[0], number)
    return _placed(one, one, one if values is None else values)


def _one_token() -> tuple[Tensor, ...]:
    return _placed(*(x[:, :1].expand_as(x).contiguous() for x in _text()[:3]))


def _keys_for_values() -> tuple[Tensor, ...]:
    q, k, _, turned_q, turned_k = _text()
    return q, k, turned_k, turned_q, turned_k


def writes_alike(step: Step) -> bool:
    return _step_test()(step)


def _step_test(
    text: Callable[[], tuple[Tensor, ...]] = _text,
    same: Callable[[Tensor, Tensor], bool] = lambda a, b: torch.allclose(a, b, atol=1e-4),
    asked: Callable[[Step, tuple[Tensor, ...]], Tensor] = _asked,
    last: Callable[[tuple[Tensor, ...]], Tensor] = _last,
) -> Callable[[Step], bool]:
    return lambda step: bool(same(torch.as_tensor(asked(step, text())), last(text())))


def _plain_keys(step: Step, text: tuple[Tensor, ...]) -> Tensor:
    q, k, v, _, _ = text
    return step(q[:, -1], k[:, -1], v[:, -1], k[:, :-1], v[:, :-1])


def _turned_before(step: Step, text: tuple[Tensor, ...]) -> Tensor:
    _, _, v, turned_q, turned_k = text
    return step(turned_q[:, -1], turned_k[:, -1], v[:, -1], turned_k[:, :-1], v[:, :-1])


def _values_of_one() -> tuple[Tensor, ...]:
    q, k, v, turned_q, turned_k = _text()
    return q, k, torch.ones_like(v), turned_q, turned_k


TOO_SMALL = {"H": "one head", "K": "one pair", "T": "two tokens"}


def _sizes(small: str) -> dict[str, int]:
    """The sizes of a text, of which some are as small as they may be."""
    least, enough = {"H": 1, "K": 2, "T": 2}, {"H": 3, "K": 6, "T": 9}
    return {name: (least if name in small else enough)[name] for name in enough}


STEP_MISTAKES = mistakes(
    ("everything passes", lambda step: True,
     "A test must be able to fail, and the step of 20.7 must fail it. All of the wrong ones give "
     "the right shape: look at the numbers."),
    ("nothing passes", lambda step: False,
     "The right steps must pass, however they are written. Is the last place compared, and with "
     "allclose? Is a step handed what stands before the newest, and nothing else? Are all queries "
     "and keys turned in the attention that it is compared with, by halves and with theta 10000?"),
    ("the newest handed over as a kept one, too", _step_test(asked=_all_kept),
     "`kept_k` and `kept_v` are of the places before the newest. Among them the newest is there "
     "twice, and the right steps take it for a later place."),
    ("compared with an attention without positions", _step_test(last=_last_unturned),
     "A step turns the newest by its place. In the attention that it is compared with all queries "
     "and keys are turned as well, each by its own."),
    ("the first place compared", _step_test(last=lambda text: text[2][:, 0]),
     "The newest token is the last of its text: compare with the last place."),
    ("the kept keys at the places 1 to S", _step_test(_text_from_one),
     "Places are counted from 0: the kept keys are turned by 0 to S - 1, and the newest stands at "
     "S."),
    ("queries and keys alike", _step_test(lambda: _alike(0, 0, 2)),
     "With one tensor for queries and keys nobody sees which of the two a step takes. Let them "
     "differ."),
    ("keys and values alike", _step_test(lambda: _alike(0, 1, 1)),
     "With one tensor for keys and values nobody sees which of the two a step takes. Let them "
     "differ."),
    ("queries and values alike", _step_test(lambda: _alike(0, 1, 0)),
     "With one tensor for queries and values nobody sees which of the two a step takes. Let them "
     "differ."),
    ("queries, keys and values alike", _step_test(lambda: _alike(0, 0, 0)),
     "With one tensor for all three nobody sees which of them a step takes. Let them differ."),
    ("the turned keys for values", _step_test(_keys_for_values),
     "With values that are the keys nobody sees which of the two a step takes. Let them differ."),
    ("a difference without its size, from below", _step_test(
        same=lambda a, b: bool((a - b).max() < 1e-4)),
     "A difference below zero is no small one: take its size, `abs`, or `torch.allclose`."),
    ("a difference without its size, from above", _step_test(
        same=lambda a, b: bool((b - a).max() < 1e-4)),
     "A difference below zero is no small one: take its size, `abs`, or `torch.allclose`."),
    ("yes and no exchanged", lambda step: not writes_alike(step),
     "True is for a right step, False for a wrong one."),
    ("the kept keys handed over as they were", _step_test(asked=_plain_keys),
     "A step gets the kept keys turned, each by its own place. Handed over unturned, the right "
     "steps fail, and the one that turns them again passes."),
    ("query and key turned before they are handed over, or compared with an attention without "
     "positions", _step_test(asked=_turned_before),
     "A step turns what is new by itself: q and k are handed over unturned, and in the attention "
     "that it is compared with all queries and keys are turned. Otherwise the right steps turn "
     "once too often."),
    ("as many keys as a key is wide", _step_test(lambda: _text(T=6, K=6)),
     "With as many keys as a key has entries, their number and d_k are one. Take two numbers."),
    ("as many kept keys as a key is wide", _step_test(lambda: _text(T=9, K=8)),
     "With as many kept keys as a key has entries, their number and d_k are one. Take two "
     "numbers."),
    ("one head", _step_test(lambda: _text(H=1)),
     "With one head nobody sees whether heads mix, or by whose width is divided. Take several."),
    ("one pair", _step_test(lambda: _text(K=2)),
     "With K = 2 there is one pair, and neighbours are halves. Take more entries."),
    *((", ".join(TOO_SMALL[name] for name in names),
       _step_test(lambda names=names: _text(**_sizes(names), seed=211)),
       "Such a text is too small to tell: take several heads, more places and more than one pair, "
       "no two of these numbers equal.")
      for names in ("HK", "HT", "KT", "HKT")),
    ("as many heads as a key is wide", _step_test(lambda: _text(H=6)),
     "With as many heads as a key has entries, one number can stand for the other. Take two "
     "numbers."),
    ("keys of four entries alone", _step_test(lambda: _text(K=4)),
     "With K = 4 the root is 2, and one of the wrong steps divides by 2 whatever K is. Take "
     "another width."),
    ("as many kept keys as heads", _step_test(lambda: _text(H=6, T=7)),
     "With as many heads as kept keys, one number can stand for the other. Take two numbers."),
    ("a text of one token", _step_test(lambda: _text(T=1)),
     "With nothing before it the newest gets its own value, whatever is turned or divided. Take a "
     "longer text."),
    ("a text of two tokens", _step_test(lambda: _text(T=2)),
     "The one kept key has place 0, where nothing turns, and one order is as good as another. "
     "Take a longer text."),
    ("short texts only", _step_test(lambda: _text(T=4, K=6)),
     "One of the wrong steps sees a few of the kept keys only. Take a text longer than that."),
    ("values of one", _step_test(_values_of_one),
     "With equal values every mixture is the same. Let them differ."),
    ("ones everywhere", _step_test(lambda: _all_of(1.0)),
     "With equal values every mixture is the same, and with equal queries, keys and values nobody "
     "sees which of them a step takes. Draw them at random."),
    ("zeros everywhere", _step_test(lambda: _all_of(0.0)),
     "Of zeros every mixture is zero, whatever a step does. Draw queries, keys and values at "
     "random."),
    ("one token all along the text", _step_test(_one_token),
     "With equal values every mixture is the same. Let the tokens of the text differ."),
    ("queries and keys of one", _step_test(lambda: _all_of(1.0, values=_text()[2])),
     "With equal queries and keys nobody sees which of the two a step takes, and in which order "
     "they stand. Draw them at random."),
    ("the first head alone", _step_test(same=lambda a, b: torch.allclose(a[0], b[0], atol=1e-4)),
     "The other heads may be wrong. Compare all of them."),
    ("one number that fits taken for enough", _step_test(
        same=lambda a, b: bool(torch.isclose(a, b, atol=1e-4).any())),
     "All outputs have to be right: `all`, not `any`."),
    ("the last head alone", _step_test(same=lambda a, b: torch.allclose(a[-1], b[-1], atol=1e-4)),
     "The other heads may be wrong. Compare all of them."),
    ("one number in place of all outputs", _step_test(
        same=lambda a, b: torch.allclose(a.sum(), b.sum(), atol=1e-4)),
     "Different outputs may have one sum, or one length. Compare entry by entry."),
    ("a tolerance that hides everything",
     _step_test(same=lambda a, b: torch.allclose(a, b, atol=3.0)),
     "Rounding is a millionth here. A tolerance near 1e-5 is wide enough."),
)  # fmt: skip


EXERCISES = [
    Exercise(
        number="20.1",
        title="gamma in the next matrix",
        section="A norm without a mean",
        reference=absorbed,
        cases=absorbed_cases,
        mistakes=ABSORBED_MISTAKES,
    ),
    Exercise(
        number="20.2",
        title="as wide as is fair",
        section="A net with a gate",
        reference=gated_width,
        cases=WIDTH_CASES,
        mistakes=WIDTH_MISTAKES,
        canonical=float,
        rtol=1e-9,
    ),
    Exercise(
        number="20.3",
        title="from neighbours to halves",
        section="Positions that turn, in two pairings",
        reference=reordered,
        cases=reordered_cases,
        mistakes=REORDERED_MISTAKES,
    ),
    Exercise(
        number="20.4",
        title="grouped heads",
        section="Heads that share keys and values",
        reference=grouped,
        cases=grouped_cases,
        mistakes=GROUPED_MISTAKES,
    ),
    Exercise(
        number="20.5",
        title="what the slots hold",
        section="Windows, sinks, and a cache that rolls",
        reference=in_slots,
        cases=SLOT_CASES,
        mistakes=SLOT_MISTAKES,
    ),
    Exercise(
        number="20.6",
        title="predict, then try: how many tokens a pass is worth",
        section="Speculative decoding",
        reference=tokens_per_pass,
        cases=pass_cases,
        mistakes=PASS_MISTAKES,
        canonical=float,
        rtol=1e-3,
    ),
    Exercise(
        number="20.7",
        title="find the mistakes",
        section="Positions that turn, in two pairings",
        reference=newest,
        cases=newest_cases,
        mistakes=NEWEST_MISTAKES,
    ),
    Exercise(
        number="20.8",
        title="back through RMSNorm",
        section="A norm without a mean",
        reference=rms_backward,
        cases=rms_backward_cases,
        mistakes=RMS_BACKWARD_MISTAKES,
        rtol=1e-3,
        atol=1e-5,
    ),
    Exercise(
        number="20.9",
        title="a sink by hand",
        section="Windows, sinks, and a cache that rolls",
        reference=sink,
        cases=SINK_CASES,
        invariants=Family(_sink_said),
        mistakes=SINK_MISTAKES,
        probe=served,
    ),
    Exercise(
        number="20.10",
        title="a test that finds them",
        section="Positions that turn, in two pairings",
        reference=writes_alike,
        cases=[(name,) for name in STEPS],
        mistakes=STEP_MISTAKES,
        invariants=rules([name for name in STEPS if name.startswith("right")], MISSED_STEPS),
        probe=run_step_test,
        together=spoken,
    ),
]
