"""Scaled dot-product attention, equation (1) of the paper: spelled out, and the fast way."""

# Made from notebooks/06_attention.ipynb by `make export`: edit the notebook, not this file.
# fmt: off

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from allyouneed.checks import check_attention, check_floating, check_mask

__all__ = ["masked_softmax", "attention"]


def masked_softmax(
    scores: Float[Tensor, "... T S"], mask: Tensor | None = None
) -> Float[Tensor, "... T S"]:
    """Share each query's attention among the keys that it may attend to.

    `mask`: boolean, True = may attend, broadcastable to (..., T, S); None hides
    nothing. A hidden key gets exactly 0. A query that may attend to nothing
    gets a row of zeros. Raises TypeError if the scores are not floating-point or
    the mask is not boolean, ValueError if it does not broadcast or is elsewhere.
    """
    check_floating(scores=scores)
    if mask is None:
        return scores.softmax(dim=-1)
    check_mask(mask, scores.shape, scores.device)
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
    if widths, lengths or leading axes do not fit, the mask does not broadcast or is
    on another device, or dropout is not a probability below 1.
    """
    check_attention(q, k, v, dropout)
    half_on_cpu = q.dtype == torch.bfloat16 and q.device.type == "cpu"
    if return_weights or half_on_cpu:  # spelled out: faster on a CPU that has bfloat16
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        weights = masked_softmax(scores, mask)
        outputs = F.dropout(weights, dropout) @ v
        return (outputs, weights) if return_weights else outputs
    # the fast path: one call, no weights kept
    if mask is not None:
        check_mask(mask, (*q.shape[:-1], k.shape[-2]), q.device)
        mask = torch.atleast_2d(mask)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=dropout)
