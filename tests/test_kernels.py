"""The fast operations equal the ones they replace: values and gradients."""

from __future__ import annotations

import inspect
import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from allyouneed import kernels
from allyouneed.kernels import ahead, few_bits, half_dtype, in_dtype, linear_cross_entropy
from allyouneed.tokens import PAD
from allyouneed.training import label_smoothed_loss


def case(n: int, d: int, v: int, seed: int = 0, scale: float = 1.0):
    g = torch.Generator().manual_seed(seed)
    x = (torch.randn(n, d, generator=g) * scale).requires_grad_()
    weight = torch.randn(v, d, generator=g).requires_grad_()
    targets = torch.randint(PAD + 1, v, (n,), generator=g)
    return x, weight, targets


def spelled_out(x, weight, targets, smoothing):
    return label_smoothed_loss(x @ weight.T, targets, smoothing)[0]


@settings(max_examples=40)
@given(
    st.integers(0, 40), st.integers(1, 8), st.integers(3, 30), st.floats(0, 0.9), st.integers(0, 99)
)
def test_equals_spelled_out(n, d, v, smoothing, seed):
    before = kernels.CHUNK["cpu"], kernels.ROWS["cpu"]
    kernels.CHUNK["cpu"], kernels.ROWS["cpu"] = 7, 3  # several of each, the last one uneven
    try:
        x, weight, targets = case(n, d, v, seed)
        fast_loss = linear_cross_entropy(x, weight, targets, smoothing)
        fast_grads = torch.autograd.grad(3 * fast_loss, (x, weight))
    finally:
        kernels.CHUNK["cpu"], kernels.ROWS["cpu"] = before
    loss = spelled_out(x, weight, targets, smoothing)
    torch.testing.assert_close(fast_loss, loss, rtol=1e-4, atol=1e-4)
    for a, b in zip(fast_grads, torch.autograd.grad(3 * loss, (x, weight)), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


def test_in_bfloat16():
    x, weight, targets = case(600, 32, 100)
    half = x.detach().bfloat16().requires_grad_()
    fast_loss = linear_cross_entropy(half, weight, targets, 0.1)
    assert fast_loss.dtype == torch.float32  # the sum is not rounded
    loss = spelled_out(x, weight, targets, 0.1)
    torch.testing.assert_close(fast_loss, loss, rtol=0.01, atol=0.0)
    fast_grads = torch.autograd.grad(fast_loss, (half, weight))
    for a, b in zip(fast_grads, torch.autograd.grad(loss, (x, weight)), strict=True):
        assert (a.float() - b).norm() < 0.03 * b.norm()


def test_gradients_of_what_is_learned_already():
    """Where p is near the smoothed target, their difference is what must not be rounded first."""
    _, weight, targets = case(600, 256, 1000)
    rows = (weight / weight.norm(dim=1, keepdim=True)).bfloat16()
    x = 9 * rows[targets]  # p of the right token is 0.87, to be 0.9
    found = []
    for dtype in (torch.bfloat16, torch.float32):
        x, rows = (each.detach().to(dtype).requires_grad_() for each in (x, rows))
        loss = linear_cross_entropy(x, rows, targets, 0.1)
        found.append(torch.autograd.grad(loss, (x, rows)))
    for a, b in zip(*found, strict=True):
        assert (a.float() - b).norm() < 0.03 * b.norm()  # 0.08, rounded first


def test_very_wrong_and_very_right():
    x = torch.tensor([[1.0], [-1.0]], requires_grad=True)
    weight = torch.tensor([[0.0], [0.0], [200.0]], requires_grad=True)
    targets = torch.tensor([2, 2])  # sure of it, then sure of something else
    loss = linear_cross_entropy(x, weight, targets, 0.0)
    loss.backward()
    assert loss.isfinite() and loss > 80 and x.grad.isfinite().all()
    assert x.grad[0] == pytest.approx(0, abs=1e-4) and x.grad[1] == pytest.approx(-200, rel=1e-4)


def test_padding_gets_no_mass():
    """The logit of PAD is in the softmax, and nowhere else."""
    x, weight, targets = case(1, 4, 6)
    (grad,) = torch.autograd.grad(linear_cross_entropy(x, weight, targets, 0.3), weight)
    p = (x @ weight.T).softmax(-1)[0, PAD]
    torch.testing.assert_close(grad[PAD], p * x[0])  # p - 0


@pytest.mark.parametrize(
    "change, named",
    [
        ({"x": torch.ones(2, 3, 4)}, "x: expected"),
        ({"x": torch.ones(2, 5)}, "x: expected"),
        ({"targets": torch.ones(3, dtype=torch.long)}, "targets: expected"),
        ({"smoothing": 1.0}, "smoothing: expected"),
        ({"smoothing": float("nan")}, "smoothing: expected"),
    ],
)
def test_bad_input_is_named(change, named):
    right = {"x": torch.ones(2, 4), "weight": torch.ones(9, 4), "targets": torch.tensor([1, 2])}
    with pytest.raises(ValueError, match=named):
        # as readers see it: without jaxtyping's checks, which tests switch on
        inspect.unwrap(linear_cross_entropy)(**{**right, **change})


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_in_dtype_is_the_module_in_that_type(dtype):
    """Its output, and the gradients, which come back to the weights in their own type."""
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 3))
    x = torch.randn(5, 6).to(dtype)
    own = dict(module.named_parameters())
    with in_dtype(module, dtype):
        y = module(x)
    assert all(p is own[name] for name, p in module.named_parameters())
    y.float().square().sum().backward()
    assert y.dtype == dtype and all(p.dtype == torch.float32 for p in module.parameters())
    grads = [p.grad.clone() for p in module.parameters()]
    cast = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 3))
    cast.load_state_dict(module.state_dict())
    expected = cast.to(dtype)(x)
    expected.float().square().sum().backward()
    assert torch.equal(y, expected)
    for ours, p in zip(grads, cast.parameters(), strict=True):
        assert ours.dtype == torch.float32 and torch.equal(ours, p.grad.float())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_in_dtype_leaves_what_is_in_it(dtype):
    module = nn.Linear(2, 2).to(dtype)
    weight = module.weight
    with in_dtype(module, dtype):
        assert module.weight is weight


def test_in_dtype_gives_the_weights_back_after_an_error():
    module = nn.Linear(2, 2)
    weight = module.weight
    with pytest.raises(RuntimeError), in_dtype(module, torch.float16):
        assert module.weight.dtype == torch.float16
        module(torch.ones(3))
    assert module.weight is weight and weight.dtype == torch.float32


class Several(nn.Module):
    """Dropout in two places, and one that is somebody's own."""

    def __init__(self, p: float):
        super().__init__()
        self.first, self.layers = nn.Dropout(p), nn.ModuleList([nn.Dropout(p)])
        self.own = type("Own", (nn.Dropout,), {})(p)


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5, 0.9])
def test_few_bits_drop_the_share_that_is_asked_for(p):
    """One entry as often as another, whatever its neighbours do: four come of one number. All
    bounds are six standard deviations."""
    torch.manual_seed(0)
    some, x = Several(p), torch.full((400, 50, 50), 3.0).requires_grad_()
    with few_bits(some, torch.bfloat16):
        y = some.layers[0](x)
    n, kept, largest = x.numel(), y != 0, float(y.detach().max())
    assert {float(v) for v in y.detach().unique()} == {0.0, largest}
    assert largest == pytest.approx(3 / (1 - p), rel=1e-4)  # p in 65,536ths
    one = (p * (1 - p)) ** 0.5
    assert abs(kept.float().mean() - (1 - p)) < 6 * one / n**0.5
    for apart in range(1, 9):
        both = (kept.flatten()[apart:] & kept.flatten()[:-apart]).float().mean()
        assert abs(both - (1 - p) ** 2) < 6 / n**0.5
    (grad,) = torch.autograd.grad((5 * y).sum(), x)
    torch.testing.assert_close(grad, 5 * y.detach() / 3)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_few_bits_are_drawn_by_the_seed_in_any_form(dtype):
    def dropped(x, p=0.4, seed=0):
        torch.manual_seed(seed)
        some = Several(p)
        with few_bits(some, torch.float16):
            return some.first(x)

    x = torch.ones(6, 7, 5, dtype=dtype)
    assert torch.equal(dropped(x), dropped(x)) and not torch.equal(dropped(x), dropped(x, seed=1))
    assert dropped(x).dtype == dtype and dropped(x[:0]).shape == (0, 7, 5)
    assert torch.equal(dropped(x.mT.contiguous().mT), dropped(x))  # another order in memory
    assert torch.equal(dropped(x, 0.0), x) and not dropped(x, 1.0).any()
    assert dropped(x, 1 - 1e-9).isfinite().all() and torch.equal(dropped(x, 1e-9), x)


def test_few_bits_are_for_half_precision_while_it_learns():
    torch.manual_seed(0)
    x, some = torch.ones(1000), Several(0.5)
    with pytest.raises(KeyError), few_bits(some, torch.float16):
        assert type(some.first) is type(some.layers[0]) is kernels._FewBits
        assert type(some.own) is not kernels._FewBits
        some.eval()
        assert torch.equal(some.first(x), x)
        raise KeyError
    assert type(some.first) is type(some.layers[0]) is nn.Dropout
    with few_bits(some, torch.float32):
        assert type(some.first) is nn.Dropout


def test_half_dtype_of_this_machine():
    assert half_dtype(torch.device("cpu")) in (torch.bfloat16, torch.float32)


@pytest.mark.parametrize(
    "flags, half",
    [
        ("flags : fma avx512_bf16 sse", torch.bfloat16),
        ("flags : amx_bf16 amx_tile", torch.bfloat16),
        ("flags : avx512f avx512bw", torch.float32),
        ("", torch.float32),
    ],
)
def test_half_dtype_of_a_processor(monkeypatch, flags, half):
    monkeypatch.setattr(kernels, "processor", lambda: flags)
    assert half_dtype(torch.device("cpu")) == half
    assert half_dtype(torch.device("meta")) == torch.float32  # the processor does not compute there


@pytest.mark.parametrize(
    "capability, half",
    [((7, 5), torch.float16), ((8, 0), torch.bfloat16), ((9, 0), torch.bfloat16)],
)
def test_half_dtype_of_a_gpu(monkeypatch, capability, half):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert half_dtype(torch.device("cuda")) == half


CPU = torch.device("cpu")


def makers() -> list[threading.Thread]:
    return [t for t in threading.enumerate() if t.name == "batches ahead"]


def test_ahead_gives_the_same_in_the_same_order():
    made = []

    def items():
        for i in range(20):
            made.append(i)
            yield i

    found = ahead(items(), CPU)
    assert made == []  # nothing begins before it is asked for
    assert next(found) == 0
    assert [0, *found] == list(range(20)) == made
    assert not makers()


def test_ahead_raises_where_the_item_would_have_come():
    def items():
        yield 1
        raise ValueError("the second is bad")

    found = ahead(items(), CPU)
    assert next(found) == 1
    with pytest.raises(ValueError, match="the second is bad"):
        next(found)
    assert not makers()


def test_ahead_ends_when_it_is_closed():
    found = ahead(iter(int, 1), CPU)  # zeros without end
    assert next(found) == 0 and makers()
    found.close()
    assert not makers()
