"""Attention for long inputs: windows, holes, positions that all see, one pass over tiles."""

# Made from notebooks/17_sparse.ipynb by `make export`: edit the notebook, not this file.
# fmt: off

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float, Shaped
from torch import Tensor
from torch.nn import functional as F

from allyouneed.attention import attention
from allyouneed.checks import (
    check_attention,
    check_booleans,
    check_function,
    check_mask,
    check_multihead,
    check_self_attention,
    check_sizes,
    check_squares,
)
from allyouneed.multihead import MultiHeadAttention, merge_heads, split_heads

__all__ = [
    "dilated_mask",
    "windowed_mask",
    "neighbourhoods",
    "windowed_attention",
    "reach",
    "dilated_attention",
    "global_mask",
    "global_attention",
    "SparseAttention",
    "flash_attention",
]


def dilated_mask(
    length: int,
    window: int,
    dilation: int,
    causal: bool = False,
    device: torch.device | str | None = None,
) -> Bool[Tensor, "T T"]:
    """`windowed_mask` with holes: only positions that are a
    multiple of `dilation` away.

    A window that is wider than the sequence gives the strided pattern of Child et al.
    (2019). Raises ValueError if length, window or dilation is not at least 1.
    """
    check_sizes(length=length, window=window, dilation=dilation)
    check_booleans(causal=causal)
    place = torch.arange(length, device=device)
    s, t, farthest = place, place[:, None], window * dilation
    mask = s > t - farthest  # tables of single bytes: of numbers they would be larger
    mask &= s <= t if causal else s < t + farthest
    mask &= s % dilation == t % dilation
    return mask


def windowed_mask(
    length: int,
    window: int,
    causal: bool = False,
    device: torch.device | str | None = None,
) -> Bool[Tensor, "T T"]:
    """True where query and key are fewer than `window` positions
    apart: equation (17.2).

    A query sees itself and window - 1 positions on either side, if `causal` only on
    the left. Vaswani et al. (2017), section 4. Raises ValueError if length or
    window is not at least 1.
    """
    return dilated_mask(length, window, 1, causal, device)


def neighbourhoods(
    x: Shaped[Tensor, "... T K"], block: int, before: int, after: int
) -> Shaped[Tensor, "... N size K"]:
    """For each block of positions the block itself, `before` positions
    before it, `after` after.

    N = T / block, rounded up; size = before + block + after. What
    lies outside is 0 or False.
    """
    x = F.pad(x, (0, 0, before, -x.shape[-2] % block + after))
    return x.unfold(-2, before + block + after, block).transpose(-2, -1)


def real_keys(
    q: Float[Tensor, "... T K"],
    k: Float[Tensor, "... T K"],
    v: Float[Tensor, "... T d_v"],
    padding: Tensor | None,
) -> Bool[Tensor, "... 1 T"]:
    """The padding mask, all True if there is none, once everything
    fits: self-attention only.

    Raises TypeError unless the padding is boolean; ValueError unless q, k and v have
    one length above 0 and the padding has the shape (..., 1, T) of `padding_mask`.
    """
    check_self_attention(q, k, v, padding)
    if padding is None:
        return torch.ones(1, q.shape[-2], dtype=torch.bool, device=q.device)
    return padding


def in_blocks(
    q: Float[Tensor, "... T K"],
    k: Float[Tensor, "... T K"],
    v: Float[Tensor, "... T d_v"],
    window: int,
    causal: bool,
    real: Bool[Tensor, "... 1 T"],
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Queries in N blocks, with each block the keys and values within
    its reach, and their mask.

    Shapes: (..., N, block, K), (..., N, size, K), (..., N, size,
    d_v), (..., N, block, size).
    """
    window = min(window, q.shape[-2])
    block, before = min(window, 64), window - 1
    after = 0 if causal else before
    rows = neighbourhoods(q, block, 0, 0)
    keys, values = (neighbourhoods(x, block, before, after) for x in (k, v))
    near = windowed_mask(keys.shape[-2], window, causal, q.device)[
        before : before + block
    ]
    there = neighbourhoods(real.transpose(-2, -1), block, before, after).transpose(
        -2, -1
    )
    return rows, keys, values, near & there


def attend_in_blocks(
    q: Float[Tensor, "... N block K"],
    k: Float[Tensor, "... N size K"],
    v: Float[Tensor, "... N size d_v"],
    mask: Bool[Tensor, "... N block size"],
) -> Float[Tensor, "... N block d_v"]:
    """`attention` within each block, with the axes before N as one: PyTorch's fast
    path has four axes."""
    before = q.shape[:-3]
    if mask.dim() > 3:  # else it is the same for all
        mask = mask.expand(*before, *mask.shape[-3:])
    q, k, v, mask = (x.reshape(-1, *x.shape[-3:]) for x in (q, k, v, mask))
    return attention(q, k, v, mask).view(*before, *q.shape[1:3], v.shape[-1])


def windowed_attention(
    q: Float[Tensor, "... T K"],
    k: Float[Tensor, "... T K"],
    v: Float[Tensor, "... T d_v"],
    window: int,
    causal: bool = False,
    padding: Bool[Tensor, "... 1 T"] | None = None,
) -> Float[Tensor, "... T d_v"]:
    """`attention` with `windowed_mask`, computed near the diagonal only:
    T * window in place of T².

    `padding`: True where there is a token, as `padding_mask` gives it.
    Raises TypeError or ValueError for inputs that do not fit, or a window below 1.
    """
    check_sizes(window=window)
    blocks = in_blocks(q, k, v, window, causal, real_keys(q, k, v, padding))
    return attend_in_blocks(*blocks).flatten(-3, -2)[..., : q.shape[-2], :]


def reach(*masks: Bool[Tensor, "T T"]) -> Bool[Tensor, "T T"]:
    """Which inputs (columns) can change which outputs (rows) of
    layers with these masks.

    The first mask is that of the lowest layer. Residual connections are counted:
    each position reaches itself. Raises ValueError unless there is a mask and
    all are squares of one size.
    """
    check_squares(*masks)
    reached = torch.eye(len(masks[0]), device=masks[0].device)
    for mask in masks:
        reached = ((mask.float() @ reached + reached) > 0).float()
    return reached.bool()


def dilated_attention(
    q: Float[Tensor, "... T K"],
    k: Float[Tensor, "... T K"],
    v: Float[Tensor, "... T d_v"],
    window: int,
    dilation: int,
    causal: bool = False,
    padding: Bool[Tensor, "... 1 T"] | None = None,
) -> Float[Tensor, "... T d_v"]:
    """`attention` with `dilated_mask`: every dilation-th position in
    one group, windows in each.

    Raises TypeError or ValueError as `windowed_attention`, or for a dilation below 1.
    """
    check_sizes(window=window, dilation=dilation)
    real = real_keys(q, k, v, padding)
    length, dilation = q.shape[-2], min(dilation, q.shape[-2])

    def apart(x: Tensor) -> Tensor:  # (..., T, K) to (..., dilation, T / dilation, K)
        x = F.pad(x, (0, 0, 0, -length % dilation))
        return x.unflatten(-2, (-1, dilation)).transpose(-3, -2)

    if padding is not None or length % dilation:  # else all is real, in every group
        padding = apart(real.transpose(-2, -1)).transpose(-2, -1)
    y = windowed_attention(apart(q), apart(k), apart(v), window, causal, padding)
    return y.transpose(-3, -2).flatten(-3, -2)[..., :length, :]


def global_mask(
    length: int,
    window: int,
    n_global: int,
    causal: bool = False,
    device: torch.device | str | None = None,
) -> Bool[Tensor, "T T"]:
    """`windowed_mask`, and the first n_global positions see all and are seen by all.

    If `causal`, nobody sees the future even so. Beltagy et al. (2020), section 3.1.
    Raises ValueError if length, window or n_global is not at least 1.
    """
    check_sizes(length=length, window=window, n_global=n_global)
    check_booleans(causal=causal)
    first = torch.arange(length, device=device) < n_global
    mask = windowed_mask(length, window, False, device) | first | first[:, None]
    return mask.tril() if causal else mask


def global_attention(
    q: Float[Tensor, "... T K"],
    k: Float[Tensor, "... T K"],
    v: Float[Tensor, "... T d_v"],
    window: int,
    n_global: int,
    causal: bool = False,
    padding: Bool[Tensor, "... 1 T"] | None = None,
) -> Float[Tensor, "... T d_v"]:
    """`attention` with `global_mask`: windows that also hold the
    first n_global positions.

    Raises TypeError or ValueError as `windowed_attention`, or for an n_global below 1.
    """
    check_sizes(window=window, n_global=n_global)
    real = real_keys(q, k, v, padding)
    length, g = q.shape[-2], min(n_global, q.shape[-2])
    first = torch.arange(length, device=q.device) < g
    rows, keys, values, near = in_blocks(q, k, v, window, causal, real & ~first)
    n, block = rows.shape[-3:-1]

    # every block gets the first positions
    def with_first(blocks: Tensor, x: Tensor) -> Tensor:
        seen = x[..., None, :g, :].expand(*x.shape[:-2], n, g, x.shape[-1])
        return torch.cat([seen, blocks], dim=-2)

    def past(queries: int, length: int) -> Tensor:
        return torch.ones(queries, length, dtype=torch.bool, device=q.device).tril()

    seen = real[..., None, :, :g].expand(*real.shape[:-2], n, block, g)
    if causal:
        seen = seen & past(n * block, g).view(n, block, g)
    mask = torch.cat([seen, near.expand(*seen.shape[:-1], -1)], dim=-1)
    y = attend_in_blocks(rows, with_first(keys, k), with_first(values, v), mask)
    whole = real & past(g, length) if causal else real
    first_y = attention(q[..., :g, :], k, v, whole)
    return torch.cat([first_y, y.flatten(-3, -2)[..., g:length, :]], dim=-2)


class SparseAttention(MultiHeadAttention):
    """Multi-head self-attention in which `pattern` takes the place of `attention`.

    `pattern(q, k, v, padding=...)` gets all heads, (B, H, T, K): one of this chapter's
    functions, its window set by `functools.partial`. The weights are those of
    `MultiHeadAttention`. Raises ValueError as that class does.
    """

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        pattern: Callable[..., Tensor],
        bias: bool = False,
    ):
        super().__init__(d_model, n_heads, bias=bias)
        check_function(pattern=pattern)
        self.pattern = pattern

    def forward(
        self,
        q: Float[Tensor, "B T D"],
        k: Float[Tensor, "B T D"],
        v: Float[Tensor, "B T D"],
        mask: Bool[Tensor, "B 1 1 T"] | None = None,
        return_weights: bool = False,
    ) -> Float[Tensor, "B T D"]:
        """`mask`: the padding mask. Raises ValueError for another one, or if weights
        are asked for: a pattern does not hold them in one piece."""
        if return_weights:
            raise ValueError(
                "return_weights: expected False, a pattern keeps no weights, got True"
            )
        check_multihead(self, q, k, v, mask)
        q, k, v = (
            split_heads(w(x), self.n_heads)
            for w, x in ((self.w_q, q), (self.w_k, k), (self.w_v, v))
        )
        return self.w_o(merge_heads(self.pattern(q, k, v, padding=mask)))


def tile_scores(
    q: Tensor, k: Tensor, mask: Tensor | None, start: int, tile: int
) -> Float[Tensor, "... T tile"]:
    """The scores of all queries with `tile` keys from `start` on, minus
    infinity where hidden."""
    scores = q @ k[..., start : start + tile, :].mT / math.sqrt(q.shape[-1])
    if mask is None:
        return scores
    mask = mask if mask.shape[-1] == 1 else mask[..., start : start + tile]
    return scores.masked_fill(~mask, -math.inf)


class Flash(torch.autograd.Function):
    """Attention in one pass over tiles of keys; backward computes the weights again.

    Milakov and Gimelshein (2018), algorithm 3; Dao et al. (2022), algorithms 1 and 4,
    with one division and one number kept for each query, as in Dao (2023).
    """

    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, tile: int
    ) -> Tensor:
        # m, the greatest score so far, and the sums l and o of (17.6)
        top = q.new_full((*q.shape[:-1], 1), torch.finfo(q.dtype).min)
        total, out = torch.zeros_like(top), q.new_zeros(*q.shape[:-1], v.shape[-1])
        for s in range(0, k.shape[-2], tile):
            scores = tile_scores(q, k, mask, s, tile)
            new = torch.maximum(top, scores.amax(-1, keepdim=True))
            fade, weights = (top - new).exp(), (scores - new).exp()
            total = fade * total + weights.sum(-1, keepdim=True)
            out, top = fade * out + weights @ v[..., s : s + tile, :], new
        total = total.clamp(min=1)  # changes only queries that see no key
        out = out / total
        ctx.save_for_backward(q, k, v, mask, out, top + total.log())
        ctx.tile = tile
        return out

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v, mask, out, log_total = ctx.saved_tensors
        scale, along = q.shape[-1] ** -0.5, (grad * out).sum(-1, keepdim=True)
        dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        for s in range(0, k.shape[-2], ctx.tile):
            here = (..., slice(s, s + ctx.tile), slice(None))
            weights = (tile_scores(q, k, mask, s, ctx.tile) - log_total).exp()
            dv[here] = weights.mT @ grad
            ds = weights * (grad @ v[here].mT - along) * scale
            dq += ds @ k[here]
            dk[here] = ds.mT @ q
        return dq, dk, dv, None, None


def flash_attention(
    q: Float[Tensor, "... T K"],
    k: Float[Tensor, "... S K"],
    v: Float[Tensor, "... S d_v"],
    mask: Tensor | None = None,
    tile: int = 128,
) -> Float[Tensor, "... T d_v"]:
    """`attention` in memory that grows with T + S, not with T * S: see `Flash`.

    `mask`: boolean, True = may attend, broadcastable to (..., T, S).
    Raises TypeError or ValueError for inputs that do not fit, or a tile below 1. Not
    for `torch.func`: take `attention` there.
    """
    check_sizes(tile=tile)
    check_attention(q, k, v)
    if mask is not None:
        check_mask(mask, (*q.shape[:-1], k.shape[-2]))
        mask = torch.atleast_2d(mask)
    return Flash.apply(q, k, v, mask, tile)
