"""Attention row by row (Chapter 4): what the picture says equals what the package computes."""

from __future__ import annotations

import pytest
import torch

from allyouneed import pictures
from allyouneed.similarity import dot_product

WORDS = ["Bark", "is", "a", "dog"]


@pytest.fixture
def numbers():
    X = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    weights = dot_product(X, X).softmax(-1)
    names = {"queries": WORDS, "keys": WORDS}
    return {**names, "weights": weights, "values": X, "outputs": weights @ X}


@pytest.fixture
def rows(stage, numbers):
    return stage(pictures.interactive("attention-rows", **numbers))


def shows(rows, numbers, query: int) -> None:
    assert rows.state["query"] == query
    assert rows.state["weights"] == pytest.approx(numbers["weights"][query].tolist(), abs=1e-3)
    assert rows.state["output"] == pytest.approx(numbers["outputs"][query].tolist(), abs=1e-3)
    assert f"“{WORDS[query]}”" in rows.says
    best = numbers["weights"][query].argmax()
    assert f"“{WORDS[best]}” ({numbers['weights'][query].max():.2f})" in rows.says


def test_by_keyboard(rows, numbers):
    shows(rows, numbers, 0)
    rows.press("Tab")
    for key, query in [("ArrowDown", 1), ("ArrowRight", 1), ("ArrowDown", 2), ("ArrowDown", 3)]:
        rows.press(key)
        shows(rows, numbers, query)
    rows.press("ArrowDown", "End", "ArrowUp")
    shows(rows, numbers, 2)


def test_by_mouse(rows, numbers):
    rows.tab.get_by_role("gridcell", name="dog, a:").hover()
    shows(rows, numbers, 3)
    rows.tab.get_by_role("gridcell", name="is, Bark:").click()
    shows(rows, numbers, 1)


def test_by_touch(stage, numbers):
    rows = stage(
        pictures.interactive("attention-rows", **numbers),
        has_touch=True, is_mobile=True, viewport={"width": 390, "height": 844},
    )  # fmt: skip
    rows.tab.get_by_role("gridcell", name="dog, is:").tap()
    shows(rows, numbers, 3)


def test_the_bars_are_the_weights(rows, numbers):
    widths = rows.tab.eval_on_selector_all(
        ".bar", "bars => bars.map(bar => parseFloat(getComputedStyle(bar).getPropertyValue('--w')))"
    )
    assert widths == pytest.approx(numbers["weights"][0].tolist(), abs=1e-3)
