"""Attention: spelled out = fast = PyTorch's, for values and gradients, and its properties."""

from __future__ import annotations

import itertools
import math
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import scaled_dot_product_attention

from allyouneed.attention import attention, masked_softmax

LENGTHS = st.integers(1, 6)


def draw(seed: int, t=3, s=5, d_k=4, d_v=6, lead=(2, 3), dtype=torch.float64):
    """Queries, keys, values and a mask with holes, all asking for gradients."""
    g = torch.Generator().manual_seed(seed)
    q, k, v = (
        torch.randn(*lead, n, d, generator=g, dtype=dtype).requires_grad_()
        for n, d in ((t, d_k), (s, d_k), (s, d_v))
    )
    return q, k, v, torch.rand(*lead, t, s, generator=g) < 0.7


def by_loop(q, k, v, mask):
    """Equation (1), one query and one key at a time, in plain numbers; nothing to see gives 0."""
    out = torch.zeros(q.shape[0], v.shape[1], dtype=v.dtype)
    for t, query in enumerate(q):
        shares = [
            math.exp(
                sum(a * b for a, b in zip(query.tolist(), key.tolist(), strict=True))
                / len(query) ** 0.5
            )
            if mask[t, s]
            else 0.0
            for s, key in enumerate(k)
        ]
        for share, value in zip(shares, v, strict=True):
            if share:
                out[t] += share / sum(shares) * value
    return out


@given(t=LENGTHS, s=LENGTHS, d_k=LENGTHS, d_v=LENGTHS, seed=st.integers(0, 999))
def test_equal_to_the_loop(t, s, d_k, d_v, seed):
    q, k, v, mask = (a.detach() for a in draw(seed, t, s, d_k, d_v, lead=()))
    torch.testing.assert_close(attention(q, k, v, mask), by_loop(q, k, v, mask))


@pytest.mark.parametrize(
    "dtype, masked, lead",
    [*itertools.product([torch.float32, torch.float64], [False, True], [(), (2,), (2, 3)])],
)
def test_spelled_out_is_fast_is_pytorch(dtype, masked, lead):
    q, k, v, mask = draw(1, lead=lead, dtype=dtype)
    mask = mask if masked else None
    fast = attention(q, k, v, mask)
    slow, weights = attention(q, k, v, mask, return_weights=True)
    theirs = scaled_dot_product_attention(q, k, v, attn_mask=mask)
    torch.testing.assert_close(slow, fast)
    torch.testing.assert_close(slow, theirs)
    torch.testing.assert_close(weights @ v, slow)
    upstream = torch.randn_like(fast)
    ours = torch.autograd.grad(slow, (q, k, v), upstream)
    for other in (fast, theirs):
        for a, b in zip(ours, torch.autograd.grad(other, (q, k, v), upstream), strict=True):
            torch.testing.assert_close(a, b)


@given(t=LENGTHS, s=LENGTHS, seed=st.integers(0, 999))
def test_rows_share_all_they_have_and_hidden_keys_get_nothing(t, s, seed):
    q, k, v, mask = draw(seed, t, s)
    _, weights = attention(q, k, v, mask, return_weights=True)
    assert (weights >= 0).all() and (weights[~mask] == 0).all()
    torch.testing.assert_close(weights.sum(-1), mask.any(-1).double())


@given(seed=st.integers(0, 999), permutation=st.permutations(range(5)))
def test_permuting_keys_and_values_changes_nothing(seed, permutation):
    q, k, v, mask = draw(seed)
    p = torch.tensor(permutation)
    torch.testing.assert_close(
        attention(q, k[..., p, :], v[..., p, :], mask[..., p]), attention(q, k, v, mask)
    )


@pytest.mark.parametrize("return_weights", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_nothing_to_attend_to_gives_zeros_and_finite_gradients(return_weights, dropout):
    q, k, v, mask = draw(3)
    mask[0, 1, 2] = False
    mask[1] = False
    out = attention(q, k, v, mask, dropout, return_weights)
    out = out[0] if return_weights else out
    assert (out[0, 1, 2] == 0).all() and (out[1] == 0).all()
    gradients = torch.autograd.grad(out.pow(2).sum(), (q, k, v))
    assert all(g.isfinite().all() for g in gradients)
    assert (gradients[0][1] == 0).all() and (gradients[2][1] == 0).all()


@given(seed=st.integers(0, 99))
def test_hidden_keys_and_values_do_not_matter(seed):
    q, k, v, _ = draw(seed)
    mask = torch.tensor([True, True, False, True, False])
    k2, v2 = k.detach().clone(), v.detach().clone()
    k2[..., ~mask, :], v2[..., ~mask, :] = 1e3, -1e3
    torch.testing.assert_close(attention(q, k2, v2, mask), attention(q, k, v, mask))


@given(factor=st.sampled_from([1e-3, 1.0, 1e3, 1e4]))
def test_scores_may_be_large(factor):
    q, k, v, mask = draw(7, dtype=torch.float32)
    out, weights = attention(q * factor, k * factor, v, mask, return_weights=True)
    assert out.isfinite().all() and weights.isfinite().all()


def test_dropout_is_of_the_weights_and_keeps_their_mean():
    torch.manual_seed(0)
    q, k, v = (torch.zeros(1, 4, 2), torch.zeros(1, 2000, 2), torch.ones(1, 2000, 1))
    for out in (attention(q, k, v, None, 0.5), attention(q, k, v, None, 0.5, True)[0]):
        assert 0.8 < out.min() and out.max() < 1.2
        assert (out - 1).abs().max() > 2e-3  # a tenth of what dropout does, far above rounding
    _, weights = attention(q, k, v, None, 0.5, return_weights=True)
    torch.testing.assert_close(weights.sum(-1), torch.ones(1, 4))  # as before dropout


def test_masked_softmax_without_a_mask_is_softmax():
    scores = torch.randn(2, 3, 4)
    assert torch.equal(masked_softmax(scores), scores.softmax(-1))
    assert torch.equal(masked_softmax(scores, torch.ones(4, dtype=torch.bool)), scores.softmax(-1))


Q, K, V = torch.zeros(2, 3, 4), torch.zeros(2, 5, 4), torch.zeros(2, 5, 6)
BAD = [
    ("integer queries", "q", TypeError, (Q.long(), K, V)),
    ("integer keys", "k", TypeError, (Q, K.long(), V)),
    ("integer values", "v", TypeError, (Q, K, V.long())),
    ("keys of another width", "k", ValueError, (Q, torch.zeros(2, 5, 3), V)),
    ("another number of values", "v", ValueError, (Q, K, torch.zeros(2, 4, 6))),
    ("another batch", "k", ValueError, (Q, torch.zeros(1, 5, 4), torch.zeros(1, 5, 6))),
    ("a mask of numbers", "mask", TypeError, (Q, K, V, torch.ones(3, 5))),
    ("a mask of bytes", "mask", TypeError, (Q, K, V, torch.ones(3, 5, dtype=torch.uint8))),
    ("a mask of integers", "mask", TypeError, (Q, K, V, torch.ones(3, 5, dtype=torch.long))),
    ("a mask transposed", "mask", ValueError, (Q, K, V, torch.ones(5, 3, dtype=torch.bool))),
    ("too many axes", "mask", ValueError, (Q, K, V, torch.ones(2, 2, 3, 5, dtype=torch.bool))),
    ("negative dropout", "dropout", ValueError, (Q, K, V, None, -0.5)),
    ("dropout that is no number", "dropout", ValueError, (Q, K, V, None, math.nan)),
]


@pytest.mark.parametrize("name, kind, arguments", [b[1:] for b in BAD], ids=[b[0] for b in BAD])
@pytest.mark.parametrize("return_weights", [False, True])
def test_bad_input_is_named(name, kind, arguments, return_weights):
    # jaxtyping, switched on in tests, may speak first: with a TypeError
    with pytest.raises((kind, TypeError), match=rf"^{name}: expected|parameter '{name}'"):
        attention(*arguments, return_weights=return_weights)


def test_our_own_errors_speak_where_shapes_are_not_checked():
    """As readers see them: without jaxtyping's checks."""
    code = """
import torch
from allyouneed.attention import attention
q, k, v = torch.zeros(2, 3, 4), torch.zeros(2, 5, 4), torch.zeros(2, 5, 6)
for arguments in [(q.long(), k, v), (q, k[..., :3], v), (q, k, v[:, :4]), (q, k[:1], v[:1]),
                  (q, k, v, torch.ones(3, 5)), (q, k, v, torch.ones(5, 3).bool())]:
    try:
        attention(*arguments)
    except (TypeError, ValueError) as error:
        print(type(error).__name__, str(error).splitlines()[0])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, encoding="utf-8", check=True
    )
    assert done.stdout.splitlines() == [
        "TypeError q: expected floating-point vectors, got torch.int64",
        "ValueError k: expected keys as wide as the queries, 4, got 3",
        "ValueError v: expected one value for each key, (..., S) = (2, 5), got (2, 4)",
        "ValueError k: expected the queries' leading axes (2,), got (1,)",
        "TypeError mask: expected a boolean tensor, True = may attend, got torch.float32. If 1 "
        "means may attend, pass mask.bool(); if 0 means may attend and -inf hidden, pass mask == 0",
        "ValueError mask: expected a shape that broadcasts to (..., T, S) = (2, 3, 5), got (5, 3)",
    ]
