"""How alike are two words? Three measures with nothing to learn, for all pairs at once."""

# Made from notebooks/04_similarity.ipynb by `make export`: edit the notebook, not this file.
# fmt: off

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import normalize

from allyouneed.checks import check_vectors

__all__ = ["dot_product", "cosine", "negative_distance"]


def dot_product(
    q: Float[Tensor, "... T K"], k: Float[Tensor, "... S K"]
) -> Float[Tensor, "... T S"]:
    """q . k for every query and key: the sum of the products of their entries.

    Raises TypeError unless q and k are floating-point, ValueError
    unless they are equally wide.
    """
    check_vectors(q, k)
    return q @ k.transpose(-2, -1)


def cosine(
    q: Float[Tensor, "... T K"], k: Float[Tensor, "... S K"]
) -> Float[Tensor, "... T S"]:
    """The cosine of the angle between every query and key, from -1 to
    1; 0 for a vector of zeros.

    Raises TypeError unless q and k are floating-point, ValueError
    unless they are equally wide.
    """
    check_vectors(q, k)
    return normalize(q, dim=-1) @ normalize(k, dim=-1).transpose(-2, -1)


def negative_distance(
    q: Float[Tensor, "... T K"], k: Float[Tensor, "... S K"]
) -> Float[Tensor, "... T S"]:
    """Minus the squared distance of every query and key: 0 for
    equal vectors, else below 0.

    Raises TypeError unless q and k are floating-point, ValueError
    unless they are equally wide.
    """
    check_vectors(q, k)
    return -(q.unsqueeze(-2) - k.unsqueeze(-3)).pow(2).sum(dim=-1)
