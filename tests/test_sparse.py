"""Sparse attention: fast forms = mask forms, reach = gradients, flash = attention."""

from __future__ import annotations

import importlib.util
import itertools
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.profiler import ProfilerActivity, profile

from allyouneed.attention import attention
from allyouneed.masks import causal_mask, padding_mask
from allyouneed.multihead import MultiHeadAttention
from allyouneed.sparse import (
    SparseAttention,
    dilated_attention,
    dilated_mask,
    flash_attention,
    global_attention,
    global_mask,
    neighbourhoods,
    reach,
    windowed_attention,
    windowed_mask,
)
from allyouneed.tokens import PAD
from allyouneed.transformer import EncoderLayer, TransformerConfig

LENGTHS = st.integers(1, 40)
WINDOWS = st.integers(1, 50)
SMALL = st.integers(1, 9)
SEEDS = st.integers(0, 999)


def draw(seed: int, n: int, s: int | None = None, d_v=5, lead=(2, 3), dtype=torch.float64):
    g = torch.Generator().manual_seed(seed)
    q, k, v = (
        torch.randn(*lead, length, d, generator=g, dtype=dtype).requires_grad_()
        for length, d in ((n, 4), (s or n, 4), (s or n, d_v))
    )
    padding = torch.rand(*lead[:1], 1, 1, n, generator=g) < 0.8  # holes too, not only at the end
    return q, k, v, padding


def assert_same(fast, mask, q, k, v):
    out, right = fast(q, k, v), attention(q, k, v, mask)
    torch.testing.assert_close(out, right)
    upstream = torch.randn_like(right)
    ours, theirs = (torch.autograd.grad(y, (q, k, v), upstream) for y in (out, right))
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b)


@settings(max_examples=30)
@given(n=LENGTHS, w=WINDOWS, d=SMALL, g=SMALL, causal=st.booleans())
def test_masks_by_definition(n, w, d, g, causal):
    for t in range(0, n, 3):
        for s in range(n):
            away, past = t - s, s <= t or not causal
            near = abs(away) < w
            holes = away % d == 0 and abs(away) < w * d
            assert windowed_mask(n, w, causal)[t, s] == (near and past)
            assert dilated_mask(n, w, d, causal)[t, s] == (holes and past)
            assert global_mask(n, w, g, causal)[t, s] == ((near or t < g or s < g) and past)


def test_masks_have_special_cases():
    assert torch.equal(windowed_mask(7, 7, causal=True), causal_mask(7))
    assert windowed_mask(7, 7).all()
    assert torch.equal(windowed_mask(7, 1), torch.eye(7, dtype=torch.bool))
    assert torch.equal(dilated_mask(9, 3, 1), windowed_mask(9, 3))
    strided = dilated_mask(20, 20, 4, causal=True)
    assert strided[19].nonzero().flatten().tolist() == [3, 7, 11, 15, 19]


def test_neighbourhoods_by_hand():
    x = torch.arange(1, 8)[:, None]
    rows = neighbourhoods(x, block=3, before=2, after=1)[..., 0].tolist()
    assert rows == [[0, 0, 1, 2, 3, 4], [2, 3, 4, 5, 6, 7], [5, 6, 7, 0, 0, 0]]


@given(n=LENGTHS, w=WINDOWS, causal=st.booleans(), padded=st.booleans(), seed=SEEDS)
def test_windows_equal_their_mask(n, w, causal, padded, seed):
    q, k, v, padding = draw(seed, n)
    padding, mask = (padding, padding) if padded else (None, torch.ones(1, n, dtype=torch.bool))
    fast = partial(windowed_attention, window=w, causal=causal, padding=padding)
    assert_same(fast, windowed_mask(n, w, causal) & mask, q, k, v)


@given(n=LENGTHS, w=WINDOWS, d=SMALL, causal=st.booleans(), padded=st.booleans(), seed=SEEDS)
def test_holes_equal_their_mask(n, w, d, causal, padded, seed):
    q, k, v, padding = draw(seed, n)
    padding, mask = (padding, padding) if padded else (None, torch.ones(1, n, dtype=torch.bool))
    fast = partial(dilated_attention, window=w, dilation=d, causal=causal, padding=padding)
    assert_same(fast, dilated_mask(n, w, d, causal) & mask, q, k, v)


@given(n=LENGTHS, w=WINDOWS, g=SMALL, causal=st.booleans(), padded=st.booleans(), seed=SEEDS)
def test_global_positions_equal_their_mask(n, w, g, causal, padded, seed):
    q, k, v, padding = draw(seed, n)
    padding, mask = (padding, padding) if padded else (None, torch.ones(1, n, dtype=torch.bool))
    fast = partial(global_attention, window=w, n_global=g, causal=causal, padding=padding)
    assert_same(fast, global_mask(n, w, g, causal) & mask, q, k, v)


@pytest.mark.parametrize("n, w", [(200, 100), (193, 65), (129, 64), (128, 64), (300, 70)])
@pytest.mark.parametrize("causal", [False, True])
def test_windows_wider_than_a_block(n, w, causal):
    q, k, v, padding = draw(1, n)
    near = partial(windowed_attention, window=w, causal=causal, padding=padding)
    assert_same(near, windowed_mask(n, w, causal) & padding, q, k, v)
    some = partial(global_attention, window=w, n_global=3, causal=causal, padding=padding)
    assert_same(some, global_mask(n, w, 3, causal) & padding, q, k, v)


@pytest.mark.parametrize("lead", [(), (2,), (2, 3), (2, 3, 2)])
@pytest.mark.parametrize("padded", [False, True])
def test_the_fused_kernel_is_taken(lead, padded):
    """Spelled out, they would hold tables again: PyTorch's kernels want four axes."""
    q, k, v = torch.randn(3, *lead, 50, 8).requires_grad_()
    padding = (torch.arange(50) < 40).expand(*lead[:1], *[1] * max(1, len(lead)), 50)
    kind = {"causal": True, "padding": padding if padded else None}
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):  # an error, where it cannot be taken
        windowed_attention(q, k, v, 7, **kind).sum().backward()
        dilated_attention(q, k, v, 4, 3, **kind).sum().backward()
        if len(lead) == 2:  # the global queries come as they are
            global_attention(q, k, v, 7, 2, **kind).sum().backward()


def test_a_mask_takes_one_byte_for_each_pair():
    """At 32,768 positions a table of eight bytes each is more than half of a T4's memory."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as watched:
        mask = dilated_mask(512, 20, 3, causal=True)
    events = [e for e in watched.profiler.kineto_results.events() if e.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())
    assert max(itertools.accumulate(e.nbytes() for e in events)) < 2.2 * mask.numel()


@pytest.mark.parametrize("lead", [(), (2,), (2, 3), (2, 3, 2)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_any_leading_axes_and_types(lead, dtype):
    torch.manual_seed(0)
    q, k, v = torch.randn(3, *lead, 21, 8).to(dtype)
    close = {"rtol": 1e-4, "atol": 1e-5} if dtype == torch.float32 else {"rtol": 0.1, "atol": 0.1}
    for fast, mask in (
        (windowed_attention(q, k, v, 4), windowed_mask(21, 4)),
        (dilated_attention(q, k, v, 4, 3), dilated_mask(21, 4, 3)),
        (global_attention(q, k, v, 4, 2), global_mask(21, 4, 2)),
        (flash_attention(q, k, v, windowed_mask(21, 4), tile=8), windowed_mask(21, 4)),
    ):
        assert fast.dtype == dtype
        torch.testing.assert_close(fast, attention(q, k, v, mask), **close)


def test_a_sentence_of_padding_gives_zeros_and_finite_gradients():
    q, k, v, _ = draw(0, 12)
    padding = padding_mask(torch.tensor([[5] * 12, [PAD] * 12]), PAD)
    for fast in (
        partial(windowed_attention, window=3, padding=padding),
        partial(dilated_attention, window=3, dilation=2, padding=padding),
        partial(global_attention, window=3, n_global=2, padding=padding),
        partial(flash_attention, mask=padding, tile=5),
    ):
        out = fast(q, k, v)
        assert (out[1] == 0).all() and (out[0] != 0).any()
        for gradient in torch.autograd.grad(out.pow(2).sum(), (q, k, v)):
            assert gradient.isfinite().all() and (gradient[1] == 0).all()


@given(t=LENGTHS, s=LENGTHS, tile=st.integers(1, 50), share=st.floats(0, 1), seed=SEEDS)
def test_flash_equals_attention(t, s, tile, share, seed):
    q, k, v, _ = draw(seed, t, s)
    mask = torch.rand(2, 1, t, s, generator=torch.Generator().manual_seed(seed)) < share
    assert_same(partial(flash_attention, mask=mask, tile=tile), mask, q, k, v)
    assert_same(partial(flash_attention, tile=tile), None, q, k, v)


@pytest.mark.parametrize("shape", [(4, 6), (1, 6), (4, 1), (1, 1), (6,), (2, 1, 1, 6)])
def test_flash_takes_masks_that_broadcast(shape):
    q, k, v, _ = draw(0, 4, 6)
    for fill in (True, False):
        mask = torch.full(shape, fill)
        assert_same(partial(flash_attention, mask=mask, tile=4), mask, q, k, v)


def test_flash_is_steady_for_large_scores():
    q, k, v, _ = draw(0, 9, dtype=torch.float32)
    out = flash_attention(1000 * q, k, v, tile=2)
    assert out.isfinite().all()
    torch.testing.assert_close(out, attention(1000 * q, k, v))


def test_flash_gradients_by_differences():
    q, k, v, _ = draw(3, 3, 4, lead=())
    mask = torch.tensor([[1, 1, 0, 1], [0, 0, 0, 0], [0, 0, 1, 1]]).bool()
    assert torch.autograd.gradcheck(partial(flash_attention, mask=mask, tile=2), (q, k, v))


def test_flash_keeps_no_table():
    def kept(n):
        sizes = {}

        def put_aside(x):
            sizes[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
            return x

        q, k, v, _ = draw(0, n, lead=())
        with torch.autograd.graph.saved_tensors_hooks(put_aside, lambda x: x):
            out = flash_attention(q, k, v, tile=8)
        return sum(sizes.values()), out

    assert kept(400)[0] == 2 * kept(200)[0]


@given(n=st.integers(1, 14), layers=st.integers(1, 4), seed=SEEDS)
def test_reach_is_where_gradients_flow(n, layers, seed):
    g = torch.Generator().manual_seed(seed)
    masks = [torch.rand(n, n, generator=g) < 0.2 for _ in range(layers)]
    torch.manual_seed(seed)
    x = torch.randn(1, n, 4, dtype=torch.float64, requires_grad=True)
    y = x
    for mask in masks:
        y = y + MultiHeadAttention(4, 1).double()(y, y, y, mask)
    rows = [torch.autograd.grad(y[0, t].sum(), x, retain_graph=True)[0][0] for t in range(n)]
    assert torch.equal(torch.stack(rows).abs().sum(-1) > 0, reach(*masks))


@given(w=st.integers(1, 6), layers=st.integers(1, 4))
def test_reach_of_windows_and_of_growing_holes(w, layers):
    n = 100
    last = reach(*[windowed_mask(n, w, causal=True)] * layers)[-1]
    assert int(last.sum()) == min(n, layers * (w - 1) + 1)
    last = reach(*[dilated_mask(n, w, w**i, causal=True) for i in range(layers)])[-1]
    assert int(last.sum()) == min(n, w**layers)


def test_window_and_stride_reach_everything_in_two_layers():
    for n, step in ((49, 7), (50, 7), (10, 20)):
        local, stride = windowed_mask(n, step, True), dilated_mask(n, n, step, True)
        assert torch.equal(reach(local, stride), causal_mask(n))


def test_a_global_position_reaches_everything_only_if_it_may_look_ahead():
    assert reach(*[global_mask(60, 4, 1)] * 2).all()
    heard = reach(*[global_mask(60, 4, 1, causal=True)] * 2)[-1]
    assert heard.nonzero().flatten().tolist() == [0, *range(53, 60)]


@pytest.mark.parametrize(
    "pattern, mask",
    [
        (partial(windowed_attention, window=3), windowed_mask(13, 3)),
        (partial(dilated_attention, window=3, dilation=2), dilated_mask(13, 3, 2)),
        (partial(global_attention, window=3, n_global=2), global_mask(13, 3, 2)),
    ],
)
def test_an_encoder_layer_with_a_pattern(pattern, mask):
    torch.manual_seed(0)
    config = TransformerConfig(9, d_model=12, d_ff=8, n_heads=3, n_layers=1, dropout=0.0)
    layer, cheap = EncoderLayer(config), EncoderLayer(config)
    cheap.self_attention = SparseAttention(12, 3, pattern)
    cheap.load_state_dict(layer.state_dict())
    tokens = torch.full((2, 13), 5)
    tokens[1, 9:] = PAD
    x, padding = torch.randn(2, 13, 12), padding_mask(tokens, PAD)
    torch.testing.assert_close(cheap(x, padding), layer(x, padding & mask))
    torch.testing.assert_close(cheap(x), layer(x, mask))


def test_flex_attention_is_the_same():
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 2, 150, 16)
    blocks = flex.create_block_mask(
        lambda b, h, t, s: (t >= s) & (t - s < 20), None, None, 150, 150, device="cpu"
    )
    with pytest.warns(UserWarning, match="without torch.compile"):
        out = flex.flex_attention(q, k, v, block_mask=blocks)
    torch.testing.assert_close(out, windowed_attention(q, k, v, 20, causal=True))


X = torch.randn(2, 3, 6, 4)
TRUE = torch.ones(2, 1, 1, 6, dtype=torch.bool)
ATTEND = MultiHeadAttention(4, 2)
BAD = [
    ("length", lambda: windowed_mask(0, 3)),
    ("window", lambda: windowed_mask(3, 0)),
    ("dilation", lambda: dilated_mask(3, 1, 0)),
    ("n_global", lambda: global_mask(3, 1, 0)),
    ("window", lambda: windowed_attention(X, X, X, 0)),
    ("dilation", lambda: dilated_attention(X, X, X, 2, 0)),
    ("n_global", lambda: global_attention(X, X, X, 2, 0)),
    ("k", lambda: windowed_attention(X, X[..., :5, :], X, 2)),
    ("v", lambda: windowed_attention(X, X, X[:1], 2)),
    ("v", lambda: dilated_attention(X, X, X[..., :5, :], 2, 2)),
    *(
        ("q", partial(form, *[X[..., :0, :]] * 3, 2))
        for form in (
            windowed_attention,
            partial(dilated_attention, dilation=2),
            partial(global_attention, n_global=1),
        )
    ),
    ("padding", lambda: windowed_attention(X, X, X, 2, padding=TRUE.float())),
    ("padding", lambda: windowed_attention(X, X, X, 2, padding=TRUE[..., :5])),
    ("padding", lambda: global_attention(X, X, X, 2, 1, padding=causal_mask(6))),
    ("tile", lambda: flash_attention(X, X, X, tile=0)),
    ("k", lambda: flash_attention(X, X[:1], X[:1])),
    ("v", lambda: flash_attention(X, X, X[..., :5, :])),
    ("mask", lambda: flash_attention(X, X, X, mask=TRUE[..., :5])),
    ("mask", lambda: flash_attention(X, X, X, mask=TRUE.float())),
    ("masks", lambda: reach()),
    ("masks", lambda: reach(causal_mask(3), causal_mask(4))),
    ("n_heads", lambda: SparseAttention(6, 4, windowed_attention)),
    (
        "return_weights",
        lambda: SparseAttention(4, 2, partial(windowed_attention, window=2))(
            X[0], X[0], X[0], return_weights=True
        ),
    ),
]


@pytest.mark.parametrize("name, call", BAD, ids=[f"{i} {b[0]}" for i, b in enumerate(BAD)])
def test_bad_input_is_named(name, call):
    # jaxtyping, switched on in tests, may speak first
    with pytest.raises((ValueError, TypeError), match=rf"^{name}: expected|parameter '{name}'"):
        call()


def test_scores_beyond_the_reach_have_no_influence():
    """A change far away changes nothing, not even by rounding."""
    q, k, v, _ = draw(0, 30)
    with torch.no_grad():
        before = windowed_attention(q, k, v, 4, causal=True)
        k[..., :10, :] += 100
        v[..., :10, :] = 1e6
        after = windowed_attention(q, k, v, 4, causal=True)
    assert torch.equal(before[..., 13:, :], after[..., 13:, :])


def test_the_benchmark_compares_what_is_equal(monkeypatch):
    folder = Path(__file__).parents[1] / "benchmarks"
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    spec = importlib.util.spec_from_file_location("attention_benchmark", folder / "attention.py")
    bench = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(bench)
    monkeypatch.setattr(bench, "flex", lambda *_: ("none", None))  # compiling takes a minute
    qkv = [torch.randn(1, 2, 100, 8, requires_grad=True) for _ in range(3)]
    found = bench.forms(100, 16, torch.device("cpu"), torch.float32)
    bench.require_equal(found, 16, [x.detach() for x in qkv])
    rows = list(bench.measure(found, bench.both, qkv, 1, bench.Clock(torch.device("cpu"))))
    assert len(rows) == 6 and rows[0]["times SDPA"] == 1
    assert all(row["seconds"] > 0 and row["megabytes"] > 0 for row in rows)
    found["wrong"] = (bench.WINDOW, found["SDPA, is_causal"][1])
    with pytest.raises(AssertionError, match="wrong: expected attention with its mask"):
        bench.require_equal(found, 16, [x.detach() for x in qkv])


def test_holes_wider_than_the_text_cost_nothing():
    q = torch.randn(2, 5, 4)
    assert torch.allclose(dilated_attention(q, q, q, 3, 10**12), q)  # each sees itself alone


def test_one_answer_for_all_is_a_mask():
    q = torch.randn(2, 5, 4)
    yes, no = torch.tensor(True), torch.tensor(False)
    assert torch.allclose(flash_attention(q, q, q, yes), attention(q, q, q), atol=1e-6)
    assert not flash_attention(q, q, q, no).any()
