"""Similarities: equal to loops, and refused where they make no sense."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from allyouneed.similarity import cosine, dot_product, negative_distance

SIZES = st.integers(1, 6)


def pair(t: int, s: int, width: int, seed: int, dtype=torch.float64):
    draw = torch.Generator().manual_seed(seed)
    return (torch.randn(2, n, width, generator=draw, dtype=dtype) for n in (t, s))


@pytest.mark.parametrize(
    "similarity, one",
    [
        (dot_product, lambda a, b: a @ b),
        (cosine, lambda a, b: a @ b / (a.norm() * b.norm())),
        (negative_distance, lambda a, b: -((a - b) ** 2).sum()),
    ],
)
@given(t=SIZES, s=SIZES, width=SIZES, seed=st.integers(0, 99))
def test_equal_to_the_loop(similarity, one, t, s, width, seed):
    q, k = pair(t, s, width, seed)
    by_loop = torch.stack(
        [torch.stack([torch.stack([one(a, b) for b in k[i]]) for a in q[i]]) for i in range(2)]
    )
    torch.testing.assert_close(similarity(q, k), by_loop)
    torch.testing.assert_close(similarity(q[0], k[0]), by_loop[0])  # any leading axes
    torch.testing.assert_close(similarity(q[None], k[None]), by_loop[None])


def test_cosine_of_a_zero_vector_is_zero():
    zero, other = torch.zeros(1, 3), torch.ones(2, 3)
    assert cosine(zero, other).tolist() == [[0.0, 0.0]]


@given(seed=st.integers(0, 99))
def test_distance_and_dot_product_agree_for_keys_of_one_length(seed):
    q, k = pair(3, 5, 4, seed)
    k = k / k.norm(dim=-1, keepdim=True)
    torch.testing.assert_close(
        negative_distance(q, k).softmax(-1), (2 * dot_product(q, k)).softmax(-1)
    )


@pytest.mark.parametrize("similarity", [dot_product, cosine, negative_distance])
@pytest.mark.parametrize(
    "q, k, name",
    [
        (torch.zeros(2, 3), torch.zeros(2, 4), "k"),
        (torch.zeros(2, 3, dtype=torch.long), torch.zeros(2, 3), "q"),
        (torch.zeros(2, 3), torch.zeros(2, 3, dtype=torch.long), "k"),
        (torch.zeros(3), torch.zeros(2, 3), "q"),
    ],
)
def test_bad_input_is_named(similarity, q, k, name):
    # jaxtyping, switched on in tests, may speak first
    with pytest.raises((ValueError, TypeError), match=rf"^{name}: expected|parameter '{name}'"):
        similarity(q, k)
