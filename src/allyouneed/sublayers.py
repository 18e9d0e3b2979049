"""What stands around attention: layer normalisation, residual connections, feed-forward."""

# Made from notebooks/10_sublayers.ipynb by `make export`: edit the notebook, not this file.
# fmt: off

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from allyouneed.checks import (
    check_booleans,
    check_function,
    check_positive,
    check_probability,
    check_sizes,
    check_sublayer,
    check_width,
)

__all__ = ["layer_norm", "LayerNorm", "FeedForward", "Residual"]


def layer_norm(
    x: Float[Tensor, "... D"],
    gamma: Float[Tensor, " D"],
    beta: Float[Tensor, " D"],
    eps: float,
) -> Float[Tensor, "... D"]:
    """gamma (x - mean) / sqrt(variance + eps) + beta, over the entries of each vector.

    Ba et al. (2016), equation 4 in section 3.1; the variance
    divides by D, not by D - 1.
    """
    mean = x.mean(dim=-1, keepdim=True)
    variance = (x - mean).pow(2).mean(dim=-1, keepdim=True)
    return gamma * (x - mean) / torch.sqrt(variance + eps) + beta


class LayerNorm(nn.Module):
    """`layer_norm` with a gamma and a beta that are learned, computed
    in one call of PyTorch's.

    Raises ValueError if d_model is not at least 1 or eps not above 0.
    """

    def __init__(self, d_model: int, eps: float = 1e-5):
        super().__init__()
        check_sizes(d_model=d_model)
        check_positive(eps=eps)
        self.gamma = nn.Parameter(torch.ones(d_model))
        self.beta = nn.Parameter(torch.zeros(d_model))
        self.eps = eps

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        """Raises TypeError for integers, ValueError for another width."""
        check_width(x, self.gamma)
        return F.layer_norm(x, self.gamma.shape, self.gamma, self.beta, self.eps)


class FeedForward(nn.Module):
    """max(0, x W_1 + b_1) W_2 + b_2 at every position alike: Vaswani et
    al. (2017), equation (2).

    `activation` may be another function than max(0, .), as `F.gelu` in chapter 16.
    Raises ValueError if d_model or d_ff is not at least 1.
    """

    def __init__(
        self, d_model: int, d_ff: int, activation: Callable[[Tensor], Tensor] = F.relu
    ):
        super().__init__()
        check_sizes(d_model=d_model, d_ff=d_ff)
        check_function(activation=activation)
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.activation = activation

    def forward(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... D"]:
        """Raises TypeError for integers, ValueError for another width."""
        check_width(x, self.w_1)
        return self.w_2(self.activation(self.w_1(x)))


class Residual(nn.Module):
    """LayerNorm(x + Dropout(Sublayer(x))), post-norm: Vaswani et al.
    (2017), sections 3.1 and 5.4.

    With `norm_first`, pre-norm: x + Dropout(Sublayer(LayerNorm(x))). A stack of such
    layers needs one more LayerNorm at its end. Raises ValueError if d_model is not at
    least 1 or dropout is not a probability below 1.
    """

    def __init__(self, d_model: int, dropout: float = 0.0, norm_first: bool = False):
        super().__init__()
        check_probability(dropout=dropout)
        check_booleans(norm_first=norm_first)
        self.norm = LayerNorm(d_model)
        self.dropout = nn.Dropout(dropout)
        self.norm_first = norm_first

    def forward(
        self, x: Float[Tensor, "B T D"], sublayer: Callable[[Tensor], Tensor]
    ) -> Float[Tensor, "B T D"]:
        """Run `sublayer`, a function of one tensor:
        `lambda x: self.attention(x, x, x, mask)`.

        Raises TypeError for what is no function, ValueError if what it returns has
        another shape than x.
        """
        check_function(sublayer=sublayer)
        y = sublayer(self.norm(x) if self.norm_first else x)
        check_sublayer(y, x)
        y = x + self.dropout(y)
        return y if self.norm_first else self.norm(y)
