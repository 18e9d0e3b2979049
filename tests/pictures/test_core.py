"""What the pictures compute themselves equals what PyTorch computes."""

from __future__ import annotations

import pytest
import torch


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_softmax_and_dot(core, scale):
    for seed in range(5):
        a, b = scale * torch.randn(2, 7, generator=torch.Generator().manual_seed(seed)).double()
        assert core("dot", a.tolist(), b.tolist()) == pytest.approx(float(a @ b))
        assert core("softmax", a.tolist()) == pytest.approx(a.softmax(0).tolist())


def test_nothing_to_look_at_gives_zeros(core):
    assert core("(() => softmax([-Infinity, -Infinity]))") == [0, 0]


def test_numbers_are_printed_as_in_the_book(core):
    assert core("show", -0.001) == "0.00"
    assert core("show", -1.5, 1) == "−1.5"
