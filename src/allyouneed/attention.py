"""Scaled dot-product attention, equation (1) of the paper: spelled out, and the fast way."""

# Made from notebooks/06_attention.ipynb by `make export`: edit the notebook, not this file.
# fmt: off

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from allyouneed.similarity import check_vectors, dot_product

__all__ = ["check_mask", "masked_softmax", "attention"]


def check_mask(mask: Tensor, shape: tuple[int, ...]) -> None:
    """Raise TypeError unless a mask is boolean, ValueError unless it
    broadcasts to `shape`."""
    if mask.dtype != torch.bool:
        raise TypeError(
            f"mask: expected a boolean tensor, True = may attend, got {mask.dtype}. "
            "If 1 means may attend, pass mask.bool(); "
            "if 0 means may attend and -inf hidden, pass mask == 0"
        )
    sizes = zip(reversed(mask.shape), reversed(shape), strict=False)
    if mask.dim() > len(shape) or any(m not in (1, n) for m, n in sizes):
        raise ValueError(
            f"mask: expected a shape that broadcasts to (..., T, S) = {tuple(shape)}, "
            f"got {tuple(mask.shape)}"
        )


def masked_softmax(
    scores: Float[Tensor, "... T S"], mask: Tensor | None = None
) -> Float[Tensor, "... T S"]:
    """Share each query's attention among the keys that it may attend to.

    `mask`: boolean, True = may attend, broadcastable to (..., T, S); None hides
    nothing. A hidden key gets exactly 0. A query that may attend to nothing
    gets a row of zeros. Raises TypeError if the mask is not boolean, ValueError
    if it does not broadcast.
    """
    if mask is None:
        return scores.softmax(dim=-1)
    check_mask(mask, scores.shape)
    return scores.masked_fill(~mask, -math.inf).softmax(dim=-1).masked_fill(~mask, 0.0)


def attention(
    q: Float[Tensor, "... T K"],
    k: Float[Tensor, "... S K"],
    v: Float[Tensor, "... S d_v"],
    mask: Tensor | None = None,
    dropout: float = 0.0,
    return_weights: bool = False,
) -> (
    Float[Tensor, "... T d_v"]
    | tuple[Float[Tensor, "... T d_v"], Float[Tensor, "... T S"]]
):
    """softmax(Q K^T / sqrt(d_k)) V: Vaswani et al. (2017), equation (1).

    `mask`: boolean, True = may attend, broadcastable to (..., T, S); None hides
    nothing. A query that may attend to nothing gets zeros. `dropout`: the
    probability with which a weight is dropped; set it to 0 outside training. Returns
    the outputs, and if asked for the weights, as they are before dropout. Raises
    TypeError if q, k or v is not floating-point or the mask not boolean; ValueError
    if widths, lengths or leading axes do not fit, the mask does not broadcast, or
    dropout is not a probability below 1.
    """
    if not 0 <= dropout < 1:
        raise ValueError(f"dropout: expected a probability below 1, got {dropout}")
    check_vectors(q, k)
    if not v.is_floating_point():
        raise TypeError(f"v: expected floating-point vectors, got {v.dtype}")
    if q.shape[:-2] != k.shape[:-2]:
        raise ValueError(
            f"k: expected the queries' leading axes {tuple(q.shape[:-2])}, "
            f"got {tuple(k.shape[:-2])}"
        )
    if k.shape[:-1] != v.shape[:-1]:
        raise ValueError(
            f"v: expected one value for each key, (..., S) = {tuple(k.shape[:-1])}, "
            f"got {tuple(v.shape[:-1])}"
        )
    if mask is not None:
        check_mask(mask, (*q.shape[:-1], k.shape[-2]))
        mask = torch.atleast_2d(mask)
    # spelled out is faster
    half_on_cpu = q.dtype == torch.bfloat16 and q.device.type == "cpu"
    # the fast path: one call, no weights kept
    if not return_weights and not half_on_cpu:
        return F.scaled_dot_product_attention(
            q, k, v, attn_mask=mask, dropout_p=dropout
        )
    weights = masked_softmax(dot_product(q, k) / math.sqrt(q.shape[-1]), mask)
    outputs = F.dropout(weights, dropout) @ v
    return (outputs, weights) if return_weights else outputs
