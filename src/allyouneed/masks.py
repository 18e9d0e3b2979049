"""Who may attend to whom: boolean masks, True = may attend."""

# Made from notebooks/08_masks.ipynb by `make export`: edit the notebook, not this file.
# fmt: off

from __future__ import annotations

import math

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from allyouneed.checks import check_boolean, check_padding, check_sizes

__all__ = ["padding_mask", "causal_mask", "flip_polarity", "additive_mask"]


def padding_mask(tokens: Int[Tensor, "B S"], pad: int) -> Bool[Tensor, "B 1 1 S"]:
    """True where a sentence has a token, for every query of every head.

    What is hidden are keys, so `tokens` are those that the keys and values come
    from: the source in the encoder and in cross-attention, the target in the
    decoder's self-attention. Raises TypeError unless the tokens and pad are integers,
    ValueError unless they have shape (B, S).
    """
    check_padding(tokens, pad)
    return (tokens != pad)[:, None, None, :]


def causal_mask(
    length: int, device: torch.device | str | None = None
) -> Bool[Tensor, "T T"]:
    """True on and below the diagonal: position t may attend to positions
    up to t, itself included.

    Vaswani et al. (2017), section 3.2.3. Raises ValueError if length is not at least 1.
    """
    check_sizes(length=length)
    return torch.ones(length, length, dtype=torch.bool, device=device).tril()


def flip_polarity(mask: Bool[Tensor, "*axes"]) -> Bool[Tensor, "*axes"]:
    """From True = may attend, as here, to True = hidden, as
    `nn.MultiheadAttention`, or back.

    Raises TypeError unless the mask is boolean.
    """
    check_boolean(mask)
    return ~mask


def additive_mask(
    mask: Bool[Tensor, "*axes"], dtype: torch.dtype = torch.float32
) -> Float[Tensor, "*axes"]:
    """The mask as numbers to add to the scores: 0 where it is True,
    minus infinity where False.

    Raises TypeError unless the mask is boolean.
    """
    return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(
        flip_polarity(mask), -math.inf
    )
