"""Chapter 2's nets against PyTorch's, their errors, the recall task, and how gradients fade."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from jaxtyping import TypeCheckError
from torch import nn

from allyouneed.recurrent import GRU, LSTM, RNN, gradient_norms, longest_chain, recall_batch

NETS = [(RNN, nn.RNN), (LSTM, nn.LSTM), (GRU, nn.GRU)]
REFUSED = (ValueError, TypeCheckError)  # jaxtyping, switched on in tests, may speak first


def pair(ours: type, theirs: type, d_in: int, d_hidden: int, dtype=torch.float64):
    """Our net and PyTorch's with the same random weights."""
    torch.manual_seed(0)
    theirs = theirs(d_in, d_hidden, batch_first=True, dtype=dtype)
    ours = ours(d_in, d_hidden).to(dtype)
    with torch.no_grad():
        ours.w.weight.copy_(theirs.weight_ih_l0)
        ours.u.weight.copy_(theirs.weight_hh_l0)
        ours.w.bias.copy_(theirs.bias_ih_l0)
        if ours.u.bias is None:
            ours.w.bias += theirs.bias_hh_l0
        else:
            ours.u.bias.copy_(theirs.bias_hh_l0)
    return ours, theirs


def start(net: nn.Module, batch: int, d_hidden: int, dtype=torch.float64):
    """The same random state in our form and in PyTorch's."""
    h, c = torch.randn(2, batch, d_hidden, dtype=dtype)
    return ((h, c), (h[None], c[None])) if isinstance(net, LSTM) else (h, h[None])


@pytest.mark.parametrize(("ours", "theirs"), NETS)
@settings(max_examples=12)
@given(
    batch=st.integers(1, 4),
    words=st.integers(1, 6),
    d_in=st.integers(1, 5),
    hidden=st.integers(1, 5),
)
def test_any_shape_as_in_pytorch(ours, theirs, batch, words, d_in, hidden):
    ours, theirs = pair(ours, theirs, d_in, hidden)
    x = torch.randn(batch, words, d_in, dtype=torch.float64)
    state, their_state = start(ours, batch, hidden)
    for given_state in ((), (state,)):
        states, last = ours(x, *given_state)
        their_states, their_last = theirs(x, *([their_state] if given_state else []))
        assert states.shape == (batch, words, hidden)
        torch.testing.assert_close(states, their_states)
        if isinstance(ours, LSTM):
            torch.testing.assert_close(last, (their_last[0][0], their_last[1][0]))
            assert last[0].equal(states[:, -1])
        else:
            torch.testing.assert_close(last, their_last[0])
            assert last.equal(states[:, -1])


@pytest.mark.parametrize(("ours", "theirs"), NETS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_as_in_pytorch(ours, theirs, dtype):
    ours, theirs = pair(ours, theirs, 3, 5, dtype)
    x, weights = torch.randn(2, 4, 3, dtype=dtype), torch.randn(2, 4, 5, dtype=dtype)
    gradients = []
    for net in (ours, theirs):
        inputs = x.clone().requires_grad_()
        (net(inputs)[0] * weights).sum().backward()
        by_shape = {p.shape: p.grad for p in net.parameters() if p.ndim == 2}
        gradients.append([inputs.grad, *by_shape.values()])
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("net", [RNN, LSTM, GRU])
def test_reading_can_be_continued(net):
    torch.manual_seed(0)
    net, x = net(3, 5), torch.randn(2, 7, 3)
    states, last = net(x)
    first, middle = net(x[:, :4])
    second, end = net(x[:, 4:], middle)
    torch.testing.assert_close(torch.cat([first, second], dim=1), states)
    torch.testing.assert_close(end, last)


@pytest.mark.parametrize("net", [RNN, LSTM, GRU])
def test_states_do_not_see_what_follows(net):
    torch.manual_seed(0)
    net, x = net(3, 5), torch.randn(2, 7, 3)
    changed = x.clone()
    changed[:, 4:] = 9.0
    assert net(changed)[0][:, :4].equal(net(x)[0][:, :4])


@pytest.mark.parametrize("net", [RNN, LSTM, GRU])
@pytest.mark.parametrize(
    ("x", "words"),
    [
        (torch.zeros(2, 4, 5), r"x: expected floats of shape \(B, T, 3\).*got .*\(2, 4, 5\)"),
        (torch.zeros(4, 3), "x: expected"),
        (torch.zeros(2, 0, 3), "T >= 1"),
        (torch.zeros(2, 4, 3, dtype=torch.int64), "torch.int64"),
    ],
)
def test_wrong_inputs_are_named(net, x, words):
    with pytest.raises(REFUSED) as error:
        net(3, 5)(x)
    if error.type is ValueError:
        error.match(words)


@pytest.mark.parametrize("net", [RNN, GRU])
def test_a_wrong_state_is_named(net):
    with pytest.raises(
        ValueError, match=r"h: expected shape \(B, hidden\) = \(2, 5\), got \(2, 4\)"
    ):
        net(3, 5)(torch.zeros(2, 4, 3), torch.zeros(2, 4))


def test_a_wrong_cell_is_named():
    with pytest.raises(REFUSED, match="c"):
        LSTM(3, 5)(torch.zeros(2, 4, 3), (torch.zeros(2, 5), torch.zeros(2, 6)))


def test_recall_asks_for_the_capital():
    symbols, capitals = recall_batch(9, 50, torch.Generator().manual_seed(0))
    assert symbols.shape == (50, 10) and capitals.shape == (50,)
    assert symbols[:, 0].equal(capitals) and set(capitals.tolist()) == set(range(8))
    assert (symbols[:, -1] == 16).all()
    assert ((symbols[:, 1:-1] >= 8) & (symbols[:, 1:-1] < 16)).all()


def test_recall_is_fixed_by_its_generator():
    first, second = (recall_batch(4, 8, torch.Generator().manual_seed(3)) for _ in range(2))
    assert first[0].equal(second[0]) and first[1].equal(second[1])


def test_recall_refuses_no_distance():
    with pytest.raises(ValueError, match="distance: expected at least 1, got 0"):
        recall_batch(0, 2, torch.Generator())


def test_gradient_norms_are_those_of_the_product_of_jacobians():
    torch.manual_seed(0)
    net, x = RNN(3, 4).double(), torch.randn(1, 6, 3, dtype=torch.float64)
    norms = gradient_norms(lambda h: net(x, h)[0], torch.zeros(1, 4, dtype=torch.float64))
    product = torch.eye(4, dtype=torch.float64)
    for t, h in enumerate(net(x)[0][0]):
        product = torch.diag(1 - h**2) @ net.u.weight @ product
        torch.testing.assert_close(norms[t], torch.linalg.matrix_norm(product, ord=2))


@settings(max_examples=10)
@given(gain=st.floats(0.1, 2.0), words=st.integers(1, 20))
def test_gradient_norms_keep_to_the_bound(gain, words):
    torch.manual_seed(0)
    net, x = RNN(3, 4).double(), torch.randn(1, words, 3, dtype=torch.float64)
    nn.init.orthogonal_(net.u.weight, gain)
    norms = gradient_norms(lambda h: net(x, h)[0], torch.zeros(1, 4, dtype=torch.float64))
    assert norms.shape == (words,)
    assert (norms <= gain ** torch.arange(1, words + 1) * (1 + 1e-9)).all()


@pytest.mark.parametrize("net", [RNN, LSTM, GRU])
def test_the_longest_chain_grows_with_every_word(net):
    x = torch.randn(2, 9, 4)
    for words in (1, 2, 9):
        states, _ = net(4, 4)(x[:, :words])
        assert longest_chain(states) == words


def test_the_longest_chain_counts_one_path_and_the_kinds_asked_for():
    x = torch.randn(4, 4, requires_grad=True)
    long, short = x @ x @ x @ x, x @ x
    assert longest_chain(long + short) == longest_chain(short + long) == 3
    assert longest_chain((long * short).tanh() @ short) == 4
    assert longest_chain(x[None] @ x[None]) == 1 and longest_chain(x.tanh() + x) == 0
    assert longest_chain(x.tanh().tanh() @ x, kinds=("Tanh",)) == 2
    for _ in range(60):  # 2^60 paths, of which each has one product for each round
        x = x + x @ x
    assert longest_chain(x) == 60
