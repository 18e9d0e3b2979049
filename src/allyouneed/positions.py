"""Positions for words: fixed sinusoids, and a table that is learned."""

# Made from notebooks/09_positions.ipynb by `make export`: edit the notebook, not this file.
# fmt: off

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from allyouneed.checks import check_embeddings, check_even, check_sizes

__all__ = ["sinusoids", "SinusoidalPositions", "LearnedPositions"]


def sinusoids(length: int, d_model: int) -> Float[Tensor, "T D"]:
    """PE(pos, 2i) = sin(pos / 10000^(2i/d_model)), PE(pos, 2i+1) = cos of the same.

    Vaswani et al. (2017), section 3.5; positions count from 0. Computed in
    float64, returned in float32. Raises ValueError if length is not at least 1, or
    d_model not even and at least 2.
    """
    check_sizes(length=length)
    check_even(d_model=d_model)
    position = torch.arange(length, dtype=torch.float64)[:, None]  # (T, 1)
    even = torch.arange(0, d_model, 2, dtype=torch.float64)  # 2i, (D / 2)
    angle = position / 10000 ** (even / d_model)  # (T, D / 2)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(1).float()


class SinusoidalPositions(nn.Module):
    """Add to each embedding the sinusoids of its position: Vaswani
    et al. (2017), section 3.5.

    The table is a buffer: it moves with the module, and is neither learned
    nor saved. Raises ValueError if max_length is not at least 1, or
    d_model not even and at least 2.
    """

    def __init__(self, d_model: int, max_length: int = 5000):
        super().__init__()
        self.table: Tensor
        self.register_buffer("table", sinusoids(max_length, d_model), persistent=False)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Raises TypeError for integers, ValueError for another
        width or beyond max_length."""
        check_embeddings(x, self.table)
        return x + self.table[: x.shape[1]].to(x.dtype)


class LearnedPositions(nn.Module):
    """Add to each embedding a learned vector of its position: Gehring
    et al. (2017), section 3.1.

    Row (E) of the paper's Table 3. Raises ValueError if max_length or
    d_model is not at least 1.
    """

    def __init__(self, d_model: int, max_length: int):
        super().__init__()
        check_sizes(d_model=d_model, max_length=max_length)
        self.table = nn.Parameter(torch.randn(max_length, d_model) * d_model**-0.5)

    def forward(self, x: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        """Raises TypeError for integers, ValueError for another
        width or beyond max_length."""
        check_embeddings(x, self.table)
        return x + self.table[: x.shape[1]].to(x.dtype)
