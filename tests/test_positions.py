"""Positions: the paper's formula, its rotations, and what the two modules refuse."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from allyouneed.multihead import MultiHeadAttention
from allyouneed.positions import LearnedPositions, SinusoidalPositions, sinusoids

EVEN = st.integers(1, 8).map(lambda n: 2 * n)


@given(length=st.integers(1, 20), d_model=EVEN)
def test_equal_to_the_papers_formula(length, d_model):
    table = sinusoids(length, d_model)
    assert table.shape == (length, d_model) and table.dtype == torch.float32
    for pos in range(length):
        for i in range(d_model // 2):
            angle = pos / 10000 ** (2 * i / d_model)
            assert math.isclose(table[pos, 2 * i], math.sin(angle), abs_tol=1e-6)
            assert math.isclose(table[pos, 2 * i + 1], math.cos(angle), abs_tol=1e-6)


def test_position_zero_and_the_slowest_wave():
    table = sinusoids(5001, 512)
    assert table[0].tolist() == [0.0, 1.0] * 256
    slowest = 10000 ** (510 / 512)
    assert math.isclose(table[5000, 510], math.sin(5000 / slowest), abs_tol=1e-6)


@given(p=st.integers(0, 60), k=st.integers(0, 40), d_model=EVEN)
def test_a_step_is_a_fixed_rotation(p, k, d_model):
    """PE[p + k] = R_k PE[p], and R_k knows nothing of p."""
    table = sinusoids(101, d_model).double()
    rotation = torch.zeros(d_model, d_model, dtype=torch.float64)
    for i in range(0, d_model, 2):
        angle = k / 10000 ** (i / d_model)
        c, s = math.cos(angle), math.sin(angle)
        rotation[i : i + 2, i : i + 2] = torch.tensor([[c, s], [-s, c]])
    torch.testing.assert_close(rotation @ table[p], table[p + k], rtol=0, atol=1e-6)
    torch.testing.assert_close(rotation @ rotation.T, torch.eye(d_model, dtype=torch.float64))


@pytest.mark.parametrize("positions", [SinusoidalPositions(8, 20), LearnedPositions(8, 20)])
def test_every_sentence_gets_the_same_positions(positions):
    x = torch.zeros(3, 7, 8)
    added = positions(x)
    assert torch.equal(added[0], added[1]) and torch.equal(added[0], added[2])
    assert (added[0, 1:] != added[0, :1]).any(-1).all()  # and every word its own
    assert torch.equal(positions(x[:1]), added[:1])  # whatever the batch
    torch.testing.assert_close(positions(x + 1), added + 1)
    assert (x == 0).all()


@pytest.mark.parametrize("positions", [SinusoidalPositions(8, 20), LearnedPositions(8, 20)])
def test_with_positions_order_matters(positions):
    torch.manual_seed(0)
    attend = MultiHeadAttention(8, 2)
    x = torch.randn(1, 5, 8)
    p = torch.tensor([4, 2, 0, 1, 3])

    def run(x):
        x = positions(x)
        return attend(x, x, x)

    assert not torch.allclose(run(x[:, p]), run(x)[:, p], atol=1e-3)


def test_the_sinusoids_are_a_buffer_and_the_learned_table_is_a_parameter():
    fixed, learned = SinusoidalPositions(8, 20), LearnedPositions(8, 20)
    assert list(fixed.parameters()) == [] and fixed.state_dict() == {}
    assert fixed.double().table.dtype == torch.float64
    half = torch.zeros(1, 3, 8, dtype=torch.bfloat16)
    assert fixed(half).dtype == learned(half).dtype == torch.bfloat16
    assert [tuple(p.shape) for p in learned.parameters()] == [(20, 8)]
    learned(torch.zeros(2, 3, 8)).sum().backward()
    gradient = learned.table.grad
    assert (gradient[:3] == 2).all() and (gradient[3:] == 0).all()


def test_the_learned_table_starts_as_large_as_an_embedding():
    torch.manual_seed(0)
    table = LearnedPositions(64, 200).table.detach()
    assert float(table.std()) == pytest.approx(64**-0.5, rel=6 / (2 * table.numel()) ** 0.5)
    assert abs(float(table.mean())) < 6 * 64**-0.5 / table.numel() ** 0.5


def test_sinusoids_of_the_paper_are_long_enough():
    positions, x = SinusoidalPositions(8), torch.randn(2, 20, 8)
    assert torch.equal(positions.table[:20], sinusoids(20, 8)) and len(positions.table) == 5000
    assert torch.equal(positions(x), x + sinusoids(20, 8))


BAD = [
    ("odd width", "d_model", lambda: sinusoids(5, 7)),
    ("no width", "d_model", lambda: SinusoidalPositions(0)),
    ("no length", "length", lambda: sinusoids(0, 8)),
    ("odd width of the module", "d_model", lambda: SinusoidalPositions(7, 20)),
    ("learned: no length", "max_length", lambda: LearnedPositions(8, 0)),
    ("learned: no width", "d_model", lambda: LearnedPositions(0, 8)),
    ("too long", "x", lambda: SinusoidalPositions(8, 4)(torch.zeros(1, 5, 8))),
    ("too long for the learned", "x", lambda: LearnedPositions(8, 4)(torch.zeros(1, 5, 8))),
    ("another width", "x", lambda: SinusoidalPositions(8, 4)(torch.zeros(1, 3, 6))),
    ("no batch", "x", lambda: LearnedPositions(8, 4)(torch.zeros(3, 8))),
    ("tokens", "x", lambda: SinusoidalPositions(8, 4)(torch.zeros(1, 3, 8, dtype=torch.long))),
]


@pytest.mark.parametrize("name, call", [b[1:] for b in BAD], ids=[b[0] for b in BAD])
def test_bad_input_is_named(name, call):
    # jaxtyping, switched on in tests, may speak first
    with pytest.raises((ValueError, TypeError), match=rf"^{name}: expected|parameter '{name}'"):
        call()
