"""Sub-layers: equal to PyTorch's with the same weights, and in the paper's order."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from allyouneed.masks import padding_mask
from allyouneed.multihead import MultiHeadAttention
from allyouneed.sublayers import FeedForward, LayerNorm, Residual, layer_norm


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shape", [(3,), (5, 3), (2, 3, 7), (2, 2, 2, 4)])
@pytest.mark.parametrize("eps", [1e-5, 1e-6, 0.5])
def test_layer_norm_is_pytorchs(dtype, shape, eps):
    torch.manual_seed(0)
    ours = LayerNorm(shape[-1], eps).to(dtype)
    theirs = nn.LayerNorm(shape[-1], eps, dtype=dtype)
    with torch.no_grad():
        for a, b in ((ours.gamma, theirs.weight), (ours.beta, theirs.bias)):
            b.copy_(a.normal_())
    x = torch.randn(shape, dtype=dtype) * 3 + 1
    x, y, z = (x.clone().requires_grad_() for _ in range(3))
    upstream = torch.randn(shape, dtype=dtype)
    close = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {}
    spelled = layer_norm(z, ours.gamma, ours.beta, eps)
    spelled_out = torch.autograd.grad(spelled, (z, ours.gamma, ours.beta), upstream)
    out, expected = ours(x), theirs(y)
    torch.testing.assert_close(out, expected, **close)
    torch.testing.assert_close(spelled, expected, **close)
    mine = torch.autograd.grad(out, (x, ours.gamma, ours.beta), upstream)
    other = torch.autograd.grad(expected, (y, theirs.weight, theirs.bias), upstream)
    for a, b, c in zip(mine, spelled_out, other, strict=True):
        torch.testing.assert_close(a, c, **close)
        torch.testing.assert_close(b, c, **close)


def test_eps_is_pytorchs_where_none_is_given():
    assert LayerNorm(4).eps == nn.LayerNorm(4).eps


@given(d_model=st.integers(2, 9), scale=st.floats(0.1, 50), shift=st.floats(-9, 9))
def test_normalised_vectors_have_mean_zero_and_variance_one(d_model, scale, shift):
    torch.manual_seed(d_model)
    x = torch.randn(2, 3, d_model, dtype=torch.float64)
    x = (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)  # no vector nearly constant
    y = LayerNorm(d_model, eps=1e-12).double()(scale * x + shift)
    torch.testing.assert_close(y.mean(-1), torch.zeros(2, 3).double(), rtol=0, atol=1e-6)
    torch.testing.assert_close(
        y.var(-1, correction=0), torch.ones(2, 3).double(), rtol=1e-6, atol=0
    )


@given(length=st.integers(1, 6), seed=st.integers(0, 99))
def test_a_sentence_is_normalised_alike_alone_and_in_a_batch(length, seed):
    torch.manual_seed(seed)
    norm, x = LayerNorm(4), torch.randn(3, 6, 4)
    torch.testing.assert_close(norm(x)[:1, :length], norm(x[:1, :length]))
    norm.eval()
    torch.testing.assert_close(norm(x)[:1, :length], norm(x[:1, :length]))


@given(length=st.integers(1, 6), seed=st.integers(0, 99), data=st.data())
def test_feed_forward_works_on_each_position_alike(length, seed, data):
    torch.manual_seed(seed)
    net = FeedForward(4, 16).double()
    x = torch.randn(2, length, 4, dtype=torch.float64)
    out = net(x)
    p = torch.tensor(data.draw(st.permutations(range(length))))
    torch.testing.assert_close(net(x[:, p]), out[:, p])
    w_1, b_1, w_2, b_2 = net.w_1.weight.T, net.w_1.bias, net.w_2.weight.T, net.w_2.bias
    torch.testing.assert_close(out, torch.clamp(x @ w_1 + b_1, min=0) @ w_2 + b_2)


def test_post_norm_and_pre_norm():
    """A sub-layer that gives zeros tells them apart, and one that gives x."""
    torch.manual_seed(0)
    x = torch.randn(2, 3, 4) * 5 + 1
    post, pre = Residual(4), Residual(4, norm_first=True)
    norm = LayerNorm(4)
    torch.testing.assert_close(post(x, torch.zeros_like), norm(x))
    torch.testing.assert_close(pre(x, torch.zeros_like), x)
    torch.testing.assert_close(post(x, lambda x: x), norm(2 * x))
    torch.testing.assert_close(pre(x, lambda x: x), x + norm(x))


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_encoder_layer_is_pytorchs(norm_first, dtype):
    torch.manual_seed(0)
    d_model, n_heads, d_ff = 8, 2, 16
    theirs = nn.TransformerEncoderLayer(
        d_model, n_heads, d_ff, dropout=0.0, batch_first=True, norm_first=norm_first, dtype=dtype
    )
    attend = MultiHeadAttention(d_model, n_heads, bias=True).to(dtype)
    feed = FeedForward(d_model, d_ff).to(dtype)
    around, after = (Residual(d_model, norm_first=norm_first).to(dtype) for _ in range(2))
    with torch.no_grad():
        for p in theirs.parameters():
            p.normal_()
        packed = theirs.self_attn
        for i, w in enumerate((attend.w_q, attend.w_k, attend.w_v)):
            w.weight.copy_(packed.in_proj_weight[i * d_model : (i + 1) * d_model])
            w.bias.copy_(packed.in_proj_bias[i * d_model : (i + 1) * d_model])
        attend.w_o.load_state_dict(packed.out_proj.state_dict())
        feed.w_1.load_state_dict(theirs.linear1.state_dict())
        feed.w_2.load_state_dict(theirs.linear2.state_dict())
        for ours, norm in ((around.norm, theirs.norm1), (after.norm, theirs.norm2)):
            ours.gamma.copy_(norm.weight)
            ours.beta.copy_(norm.bias)
    x = torch.randn(2, 5, d_model, dtype=dtype, requires_grad=True)
    y = x.detach().clone().requires_grad_()
    mask = padding_mask(torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]]), 0)
    out = after(around(x, lambda x: attend(x, x, x, mask)), feed)
    expected = theirs(y, src_key_padding_mask=~mask[:, 0, 0])
    close = {"rtol": 1e-3, "atol": 1e-3} if dtype == torch.float32 else {}
    torch.testing.assert_close(out, expected, **close)
    upstream = torch.randn_like(out)
    out.backward(upstream)
    expected.backward(upstream)
    torch.testing.assert_close(x.grad, y.grad, **close)


def test_dropout_is_on_the_sub_layers_output_before_the_sum():
    torch.manual_seed(0)
    residual = Residual(4, dropout=0.5, norm_first=True)
    x = torch.ones(1, 1000, 4)
    out = residual(x, lambda x: torch.ones_like(x))
    assert sorted(out.unique().tolist()) == [1.0, 3.0]  # x + 0, or x + 1 / (1 - 0.5)
    residual.eval()
    assert (residual(x, lambda x: torch.ones_like(x)) == 2).all()


X = torch.zeros(2, 3, 4)
BAD = [
    ("norm: no width", "d_model", lambda: LayerNorm(0)),
    ("norm: eps 0", "eps", lambda: LayerNorm(4, eps=0.0)),
    ("norm: another width", "x", lambda: LayerNorm(6)(X)),
    ("norm: integers", "x", lambda: LayerNorm(4)(X.long())),
    ("feed-forward: no width", "d_ff", lambda: FeedForward(4, 0)),
    ("feed-forward: no model", "d_model", lambda: FeedForward(0, 4)),
    ("feed-forward: another width", "x", lambda: FeedForward(6, 8)(X)),
    ("feed-forward: integers", "x", lambda: FeedForward(4, 8)(X.long())),
    ("residual: dropout of 1", "dropout", lambda: Residual(4, dropout=1.0)),
    ("residual: another shape", "sublayer", lambda: Residual(4)(X, lambda x: x[:, :1])),
]


@pytest.mark.parametrize("name, call", [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_bad_input_is_named(name, call):
    # jaxtyping, switched on in tests, may speak first
    with pytest.raises((ValueError, TypeError), match=rf"^{name}: expected|parameter '{name}'"):
        call()
