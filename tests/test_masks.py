"""Masks: who may attend to whom, and that nothing comes through where nobody may."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from allyouneed.attention import attention
from allyouneed.masks import additive_mask, causal_mask, flip_polarity, padding_mask
from allyouneed.multihead import MultiHeadAttention
from allyouneed.tokens import PAD

LENGTHS = st.integers(1, 7)


def self_attention(seed: int, d_model: int = 8, n_heads: int = 2):
    torch.manual_seed(seed)
    attend = MultiHeadAttention(d_model, n_heads).double()
    return lambda x, mask=None: attend(x, x, x, mask)


@given(t=LENGTHS)
def test_causal_mask_shows_the_past_and_itself(t):
    mask = causal_mask(t)
    assert mask.dtype == torch.bool and mask.shape == (t, t)
    for query in range(t):
        for key in range(t):
            assert bool(mask[query, key]) == (key <= query)
    theirs = nn.Transformer.generate_square_subsequent_mask(t)
    assert torch.equal(additive_mask(mask), theirs)


@given(tokens=st.lists(st.lists(st.integers(0, 3), min_size=4, max_size=4), min_size=1, max_size=3))
def test_padding_mask_is_true_at_tokens(tokens):
    tokens = torch.tensor(tokens)
    mask = padding_mask(tokens, PAD)
    assert mask.dtype == torch.bool and mask.shape == (len(tokens), 1, 1, 4)
    assert torch.equal(mask[:, 0, 0], tokens != PAD)
    assert torch.equal(padding_mask(tokens, 2)[:, 0, 0], tokens != 2)


@given(t=st.integers(2, 7), seed=st.integers(0, 99), data=st.data())
def test_the_future_does_not_matter_and_gets_no_gradient(t, seed, data):
    attend = self_attention(seed)
    now = data.draw(st.integers(0, t - 2))
    x = torch.randn(2, t, 8, dtype=torch.float64, requires_grad=True)
    other = x.detach().clone()
    other[:, now + 1 :] = torch.randn(2, t - now - 1, 8, dtype=torch.float64)
    out = attend(x, causal_mask(t))
    torch.testing.assert_close(attend(other, causal_mask(t))[:, : now + 1], out[:, : now + 1])
    (gradient,) = torch.autograd.grad(out[:, now].sum(), x)
    assert (gradient[:, now + 1 :] == 0).all()
    assert (gradient[:, : now + 1] != 0).any(dim=(0, 2)).all()


@given(t=LENGTHS, seed=st.integers(0, 99))
def test_one_pass_equals_a_pass_for_every_prefix(t, seed):
    attend = self_attention(seed)
    x = torch.randn(1, t, 8, dtype=torch.float64)
    at_once = attend(x, causal_mask(t))
    for n in range(1, t + 1):
        torch.testing.assert_close(attend(x[:, :n], causal_mask(n))[:, -1], at_once[:, n - 1])


@given(length=LENGTHS, extra=st.integers(0, 5), seed=st.integers(0, 99), causal=st.booleans())
def test_padding_changes_nothing(length, extra, seed, causal):
    attend = self_attention(seed)
    tokens = torch.ones(2, length + extra, dtype=torch.long)
    tokens[0, length:] = PAD
    x = torch.randn(2, length + extra, 8, dtype=torch.float64)
    mask = padding_mask(tokens, PAD)
    alone = None
    if causal:
        mask, alone = mask & causal_mask(length + extra), causal_mask(length)
    torch.testing.assert_close(attend(x, mask)[:1, :length], attend(x[:1, :length], alone))


def test_a_sentence_of_padding_gives_zeros_and_finite_gradients():
    torch.manual_seed(0)
    attend = MultiHeadAttention(8, 2)
    x = torch.randn(2, 4, 8, requires_grad=True)
    mask = padding_mask(torch.tensor([[5, 6, PAD, PAD], [PAD] * 4]), PAD)
    for out in (attend(x, x, x, mask), attend(x, x, x, mask, return_weights=True)[0]):
        assert (out[1] == 0).all()
        (gradient,) = torch.autograd.grad(out.pow(2).sum(), x)
        assert gradient.isfinite().all() and (gradient[1] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_masks_work_in_half_precision(dtype):
    q = torch.randn(1, 3, 4).to(dtype)
    mask = causal_mask(3)
    out, weights = attention(q, q, q, mask, return_weights=True)
    assert (weights[0][~mask] == 0).all() and out.isfinite().all()
    torch.testing.assert_close(out, attention(q, q, q, mask), rtol=2e-2, atol=2e-2)
    assert additive_mask(mask, dtype).dtype == dtype


@given(bits=st.lists(st.booleans(), min_size=1, max_size=9))
def test_bridges_lead_there_and_back(bits):
    mask = torch.tensor(bits)
    assert torch.equal(flip_polarity(mask), ~mask)
    assert torch.equal(flip_polarity(flip_polarity(mask)), mask)
    assert additive_mask(mask).tolist() == [0.0 if bit else -math.inf for bit in bits]
    assert torch.equal(additive_mask(mask) == 0, mask)


TOKENS = torch.zeros(2, 3, dtype=torch.long)
BAD = [
    ("tokens of floats", "tokens", lambda: padding_mask(TOKENS.float(), PAD)),
    ("a mask for tokens", "tokens", lambda: padding_mask(TOKENS.bool(), PAD)),
    ("one sentence without a batch", "tokens", lambda: padding_mask(TOKENS[0], PAD)),
    ("length 0", "length", lambda: causal_mask(0)),
    ("floats to flip", "mask", lambda: flip_polarity(torch.ones(3))),
    ("bytes to flip", "mask", lambda: flip_polarity(torch.ones(3, dtype=torch.uint8))),
    ("floats to add", "mask", lambda: additive_mask(torch.ones(3))),
]


@pytest.mark.parametrize("name, call", [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_bad_input_is_named(name, call):
    # jaxtyping, switched on in tests, may speak first
    with pytest.raises((ValueError, TypeError), match=rf"^{name}: expected|parameter '{name}'"):
        call()
