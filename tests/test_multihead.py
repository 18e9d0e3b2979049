"""Multi-head attention: equal to a loop over heads, and to nn.MultiheadAttention."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from allyouneed.masks import additive_mask, causal_mask, flip_polarity, padding_mask
from allyouneed.multihead import MultiHeadAttention, fused_linear, merge_heads, split_heads
from allyouneed.sublayers import FeedForward

BATCH, D_MODEL = 3, 8


def twins(n_heads, bias, dtype, batch_first=True, seed=0):
    """Ours and PyTorch's with the same weights, none of them zero."""
    torch.manual_seed(seed)
    theirs = nn.MultiheadAttention(
        D_MODEL, n_heads, bias=bias, batch_first=batch_first, dtype=dtype
    )
    ours = MultiHeadAttention(D_MODEL, n_heads, bias=bias).to(dtype)
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.normal_(std=D_MODEL**-0.5)  # small, so that no softmax is saturated
        theirs.in_proj_weight.copy_(torch.cat([ours.w_q.weight, ours.w_k.weight, ours.w_v.weight]))
        theirs.out_proj.weight.copy_(ours.w_o.weight)
        if bias:
            theirs.in_proj_bias.copy_(torch.cat([ours.w_q.bias, ours.w_k.bias, ours.w_v.bias]))
            theirs.out_proj.bias.copy_(ours.w_o.bias)
    return ours, theirs


def gradients(module: nn.Module) -> dict[str, torch.Tensor]:
    """The gradients of all weights, by PyTorch's names."""
    if isinstance(module, nn.MultiheadAttention):
        return {name: p.grad for name, p in module.named_parameters()}
    found = {
        "in_proj_weight": torch.cat([w.weight.grad for w in (module.w_q, module.w_k, module.w_v)]),
        "out_proj.weight": module.w_o.weight.grad,
    }
    if module.w_o.bias is not None:
        biases = [w.bias.grad for w in (module.w_q, module.w_k, module.w_v)]
        found |= {"in_proj_bias": torch.cat(biases), "out_proj.bias": module.w_o.bias.grad}
    return found


COMBINATIONS = list(
    itertools.product(
        [1, 2, 4, 8],  # heads
        [False, True],  # bias
        ["boolean", "additive"],  # form of their masks
        [False, True],  # batch_first
        [torch.float32, torch.float64],
        [False, True],  # training
    )
)


@pytest.mark.parametrize("kind", ["none", "padding", "causal", "padding and causal", "random"])
@pytest.mark.parametrize("t, s", [(5, 5), (4, 6)], ids=["self", "cross"])
def test_parity_with_pytorch(kind, t, s):
    """Outputs, weights, and gradients of inputs and weights, for every combination."""
    for n_heads, bias, form, batch_first, dtype, training in COMBINATIONS:
        ours, theirs = twins(n_heads, bias, dtype, batch_first)
        ours.train(training)
        theirs.train(training)
        q = torch.randn(BATCH, t, D_MODEL, dtype=dtype)
        kv = q if t == s else torch.randn(BATCH, s, D_MODEL, dtype=dtype)
        tokens = torch.ones(BATCH, s, dtype=torch.long)
        tokens[1, 3:] = tokens[2, 1:] = 0
        padding = padding_mask(tokens, pad=0)
        mask, attn_mask, key_padding = None, None, None
        if "causal" in kind:
            mask = causal_mask(s)[:t]  # (T, S): the first t queries of s positions
            attn_mask = flip_polarity(mask)
        if kind == "random":
            mask = torch.rand(BATCH, n_heads, t, s) < 0.6
            mask[..., 0] = True  # theirs gives NaN where there is nothing to attend to
            attn_mask = flip_polarity(mask).flatten(0, 1)
        if "padding" in kind:
            mask = padding if mask is None else mask & padding
            key_padding = flip_polarity(padding)[:, 0, 0]
        if form == "additive":
            attn_mask = None if attn_mask is None else additive_mask(~attn_mask, dtype)
            key_padding = None if key_padding is None else additive_mask(~key_padding, dtype)

        inputs = [x.clone().requires_grad_() for x in ((q,) if kv is q else (q, kv))]
        out = ours(inputs[0], inputs[-1], inputs[-1], mask)
        again, weights = ours(inputs[0], inputs[-1], inputs[-1], mask, return_weights=True)
        other = [x.clone().requires_grad_() for x in ((q,) if kv is q else (q, kv))]
        turned = other if batch_first else [x.transpose(0, 1) for x in other]
        expected, their_weights = theirs(
            turned[0], turned[-1], turned[-1], key_padding_mask=key_padding,
            attn_mask=attn_mask, average_attn_weights=False,
        )  # fmt: skip
        expected = expected if batch_first else expected.transpose(0, 1)
        close = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {}
        torch.testing.assert_close(out, expected, **close)
        torch.testing.assert_close(again, expected, **close)
        torch.testing.assert_close(weights, their_weights, **close)
        upstream = torch.randn_like(out)
        expected.backward(upstream)
        for ours_out in (out, again):  # the fast path, and the one spelled out
            ours.zero_grad()
            for x in inputs:
                x.grad = None
            ours_out.backward(upstream)
            for a, b in zip(inputs, other, strict=True):
                torch.testing.assert_close(a.grad, b.grad, **close)
            for name, gradient in gradients(ours).items():
                torch.testing.assert_close(gradient, gradients(theirs)[name], **close)


@given(
    t=st.integers(1, 5), s=st.integers(1, 5), n_heads=st.integers(1, 4), d_k=st.integers(1, 4),
    seed=st.integers(0, 999),
)  # fmt: skip
def test_equal_to_a_loop_over_heads(t, s, n_heads, d_k, seed):
    torch.manual_seed(seed)
    ours = MultiHeadAttention(n_heads * d_k, n_heads).double()
    q, k, v = (torch.randn(2, n, n_heads * d_k, dtype=torch.float64) for n in (t, s, s))
    mask = torch.rand(2, n_heads, t, s) < 0.7
    total = 0  # the sum over the heads of head_i times its rows of W^O
    for h in range(n_heads):
        own = slice(h * d_k, (h + 1) * d_k)
        q_h, k_h, v_h = (
            x @ w.weight.T[:, own] for x, w in ((q, ours.w_q), (k, ours.w_k), (v, ours.w_v))
        )
        scores = (q_h @ k_h.mT / math.sqrt(d_k)).masked_fill(~mask[:, h], -math.inf)
        total = total + scores.softmax(-1).nan_to_num(0.0) @ v_h @ ours.w_o.weight.T[own]
    torch.testing.assert_close(ours(q, k, v, mask), total)


@given(length=st.integers(1, 6), seed=st.integers(0, 99), data=st.data())
def test_without_positions_permuted_words_give_permuted_outputs(length, seed, data):
    torch.manual_seed(seed)
    ours = MultiHeadAttention(D_MODEL, 2).double()
    x = torch.randn(2, length, D_MODEL, dtype=torch.float64)
    p = torch.tensor(data.draw(st.permutations(range(length))))
    torch.testing.assert_close(ours(x[:, p], x[:, p], x[:, p]), ours(x, x, x)[:, p])


def test_one_word_does_not_touch_the_head_rows_of_another():
    """What a split by view alone would break."""
    x = torch.randn(1, 5, D_MODEL)
    changed = x.clone()
    changed[0, 2] += 1
    different = (split_heads(x, 4) != split_heads(changed, 4)).any(-1)
    assert different.any(1).tolist() == [[False, False, True, False, False]]
    assert split_heads(x, 4)[0, 1, 3].tolist() == x[0, 3, 2:4].tolist()


@given(n_heads=st.integers(1, 4), d_k=st.integers(1, 4), length=st.integers(1, 5))
def test_merging_undoes_splitting(n_heads, d_k, length):
    x = torch.randn(2, length, n_heads * d_k)
    assert split_heads(x, n_heads).shape == (2, n_heads, length, d_k)
    assert torch.equal(merge_heads(split_heads(x, n_heads)), x)


def test_dropout_in_training_only():
    torch.manual_seed(0)
    ours = MultiHeadAttention(D_MODEL, 2, dropout=0.5)
    x = torch.randn(2, 5, D_MODEL)
    assert not torch.equal(ours(x, x, x), ours(x, x, x))
    ours.eval()
    assert torch.equal(ours(x, x, x), ours(x, x, x))


def test_four_matrices_and_no_bias_by_default():
    ours = MultiHeadAttention(D_MODEL, 2)
    assert {n: tuple(p.shape) for n, p in ours.named_parameters()} == {
        f"w_{n}.weight": (D_MODEL, D_MODEL) for n in "qkvo"
    }


X, Y = torch.zeros(2, 5, D_MODEL), torch.zeros(2, 6, D_MODEL)
BAD = [
    ("not divisible", "n_heads", lambda: MultiHeadAttention(8, 3)),
    ("no head", "n_heads", lambda: MultiHeadAttention(8, 0)),
    ("dropout of 1", "dropout", lambda: MultiHeadAttention(8, 2, dropout=1.0)),
    ("split not divisible", "n_heads", lambda: split_heads(X, 3)),
    ("queries too narrow", "q", lambda: MultiHeadAttention(8, 2)(*[X[..., :6]] * 3)),
    ("keys too narrow", "k", lambda: MultiHeadAttention(8, 2)(X, X[..., :6], X)),
    ("no batch", "q", lambda: MultiHeadAttention(8, 2)(X[0], X[0], X[0])),
    ("integers", "q", lambda: MultiHeadAttention(8, 2)(X.long(), X, X)),
    ("keys without values", "v", lambda: MultiHeadAttention(8, 2)(X, Y, X)),
    ("another batch", "k", lambda: MultiHeadAttention(8, 2)(X, X[:1], X[:1])),
    ("a mask of 3 axes", "mask",
     lambda: MultiHeadAttention(8, 2)(X, X, X, torch.ones(2, 5, 5, dtype=torch.bool))),
    ("a mask of floats", "mask", lambda: MultiHeadAttention(8, 2)(X, X, X, torch.ones(5, 5))),
    ("a mask transposed", "mask",
     lambda: MultiHeadAttention(8, 2)(X, Y, Y, torch.ones(6, 5, dtype=torch.bool))),
]  # fmt: skip


@pytest.mark.parametrize("name, call", [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_bad_input_is_named(name, call):
    # jaxtyping, switched on in tests, may speak first
    with pytest.raises((ValueError, TypeError), match=rf"^{name}: expected|parameter '{name}'"):
        call()


@pytest.mark.parametrize("bias", [False, True])
def test_fused_linear_is_each_layer_on_its_own(bias):
    """Results, and the gradients of inputs, weights and biases."""
    torch.manual_seed(0)
    layers = [nn.Linear(D_MODEL, D_MODEL, bias, dtype=torch.float64) for _ in range(3)]
    x = torch.randn(2, 5, D_MODEL, dtype=torch.float64, requires_grad=True)
    wanted = [x, *(p for layer in layers for p in layer.parameters())]
    direction = torch.randn(3, 2, 5, D_MODEL, dtype=torch.float64)
    found = []
    for results in (fused_linear(x, *layers), tuple(layer(x) for layer in layers)):
        grads = torch.autograd.grad((torch.stack(results) * direction).sum(), wanted)
        found.append([*results, *grads])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("training", [False, True])
def test_hooks_of_every_matrix_are_called_on_a_cpu(training):
    """Also where queries, keys and values are one tensor, which a GPU multiplies once."""
    attention, called = MultiHeadAttention(D_MODEL, 2).train(training), []
    for name, layer in attention.named_children():
        layer.register_forward_hook(lambda *_, name=name: called.append(name))
    for q, k in ((X, X), (X, Y)):
        attention(q, k, k)
    assert called == ["w_q", "w_k", "w_v", "w_o"] * 2


def test_other_layers_in_the_place_of_ours():
    """As those of low rank or of few bits: they keep no weight to compare an input with."""

    class Wrapped(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner, self.in_features = inner, inner.in_features

        def forward(self, x):
            return self.inner(x)

    x = torch.randn(2, 3, 16)
    attention, feed_forward = MultiHeadAttention(16, 2), FeedForward(16, 32)
    expected = attention(x, x, x), feed_forward(x)
    attention.w_o, feed_forward.w_1 = Wrapped(attention.w_o), Wrapped(feed_forward.w_1)
    assert torch.equal(attention(x, x, x), expected[0])
    assert torch.equal(feed_forward(x), expected[1])
    with pytest.raises(ValueError, match="x: expected vectors of width d_model = 16, got"):
        feed_forward(x[..., :8])
