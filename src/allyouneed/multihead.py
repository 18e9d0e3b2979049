"""Multi-head attention: several looks at once, each in a subspace of its own."""

# Made from notebooks/07_multihead.ipynb by `make export`: edit the notebook, not this file.
# fmt: off

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from allyouneed.attention import attention
from allyouneed.checks import (
    check_booleans,
    check_heads,
    check_merge,
    check_multihead,
    check_probability,
    check_split,
)

__all__ = [
    "split_heads",
    "merge_heads",
    "fused_weights",
    "fused_linear",
    "project_qkv",
    "MultiHeadAttention",
]


def split_heads(x: Float[Tensor, "B T D"], n_heads: int) -> Float[Tensor, "B H T K"]:
    """Cut each vector into n_heads pieces of d_k = D / n_heads entries,
    and give each head its own.

    Raises ValueError unless n_heads divides D.
    """
    check_split(x, n_heads)
    return x.unflatten(-1, (n_heads, -1)).transpose(1, 2)


def merge_heads(x: Float[Tensor, "B H T K"]) -> Float[Tensor, "B T D"]:
    """Concat(head_1, ..., head_h): put the heads' vectors for each
    position side by side. Raises ValueError unless x has 4 axes."""
    check_merge(x)
    return x.transpose(1, 2).flatten(2)


def fused_weights(*layers: nn.Linear) -> tuple[Tensor, Tensor | None]:
    """Several linear layers of the same vectors as the weight and the bias of one."""
    biases = [layer.bias for layer in layers if layer.bias is not None]
    weight = torch.cat([layer.weight for layer in layers])
    return weight, torch.cat(biases) if biases else None


def fused_linear(x: Float[Tensor, "B T D"], *layers: nn.Linear) -> tuple[Tensor, ...]:
    """What each of several linear layers makes of x, in one product."""
    return F.linear(x, *fused_weights(*layers)).chunk(len(layers), dim=-1)


def project_qkv(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    w_q: nn.Linear,
    w_k: nn.Linear,
    w_v: nn.Linear,
    training: bool,
) -> tuple[Tensor, ...]:
    """The queries, keys and values of all heads, side by side.

    In training on a GPU, layers that multiply the same vectors make one product: the
    same in fewer operations. (Their hooks are called in every other case.)
    """
    fuse = training and q.device.type != "cpu"
    if fuse and q is k is v:
        return fused_linear(q, w_q, w_k, w_v)
    if fuse and k is v:
        return w_q(q), *fused_linear(k, w_k, w_v)
    return w_q(q), w_k(k), w_v(v)


class MultiHeadAttention(nn.Module):
    """Concat(head_1, ..., head_h) W^O: Vaswani et al. (2017), section 3.2.2.

    `dropout` is for the weights, in training. Raises ValueError unless n_heads divides
    d_model and dropout is a probability, TypeError for a bias that is not a bool.
    """

    def __init__(
        self, d_model: int, n_heads: int, dropout: float = 0.0, bias: bool = False
    ):
        super().__init__()
        check_heads(d_model, n_heads)
        check_probability(dropout=dropout)
        check_booleans(bias=bias)
        self.d_model, self.n_heads, self.dropout = d_model, n_heads, dropout
        self.w_q = nn.Linear(d_model, d_model, bias)
        self.w_k = nn.Linear(d_model, d_model, bias)
        self.w_v = nn.Linear(d_model, d_model, bias)
        self.w_o = nn.Linear(d_model, d_model, bias)

    def forward(
        self,
        q: Float[Tensor, "B T D"],
        k: Float[Tensor, "B S D"],
        v: Float[Tensor, "B S D"],
        mask: Tensor | None = None,
        return_weights: bool = False,
    ) -> (
        Float[Tensor, "B T D"] | tuple[Float[Tensor, "B T D"], Float[Tensor, "B H T S"]]
    ):
        """Let every query look at all keys, in each head; weights only if asked.

        `mask`: boolean, True = may attend, (T, S) or broadcastable to (B, H, T, S).
        Raises as `attention` does."""
        check_multihead(self, q, k, v, mask)
        q, k, v = (split_heads(x, self.n_heads) for x in self.project(q, k, v))
        found = attention(q, k, v, mask, self.dropout * self.training, return_weights)
        if not return_weights:
            return self.w_o(merge_heads(found))
        return self.w_o(merge_heads(found[0])), found[1]

    def project(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        """The queries, keys and values of all heads, side by side."""
        return project_qkv(q, k, v, self.w_q, self.w_k, self.w_v, self.training)
