"""Signatures are checked while the tests run, also those of functions that are made anew."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from jaxtyping import Float, jaxtyped
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[1] / "tools"))
import shapes  # noqa: E402


def made(factor: int):
    """As inside a function of the package, once for each call."""

    @jaxtyped(typechecker=shapes.checked)
    def twice(x: Float[Tensor, "B 2"], y: int = 1) -> Float[Tensor, "B 2"]:
        return x.repeat(factor, 1)

    @jaxtyped(typechecker=shapes.checked)
    def same(x: Float[Tensor, "B 2"]) -> Float[Tensor, "B 2"]:
        return x.repeat(factor, 1)

    return twice, same


def test_each_is_checked_and_the_check_is_made_once():
    before, counts = len(shapes.known), []
    for factor in (1, 2, 1, 2):
        for function in made(factor):
            with pytest.raises(Exception, match="parameters"):
                function(torch.ones(3, 3))
            if factor == 1:
                assert torch.equal(function(torch.ones(3, 2)), torch.ones(3, 2))
            else:
                with pytest.raises(Exception, match="return value"):
                    function(torch.ones(3, 2))
        counts.append(len(shapes.known))
    assert before < counts[0] and len(set(counts[1:])) == 1


def test_another_signature_is_another_check():
    @jaxtyped(typechecker=shapes.checked)
    def one(x: int) -> int:
        return x

    first = one

    @jaxtyped(typechecker=shapes.checked)
    def one(x: str) -> str:
        return x

    assert first(1) == 1 and one("a") == "a"
    for function, wrong in ((first, "a"), (one, 1)):
        with pytest.raises(Exception, match="parameters"):
            function(wrong)
