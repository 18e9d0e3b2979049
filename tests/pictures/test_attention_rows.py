"""Attention row by row (Chapter 4): what the picture computes equals what the package does."""

from __future__ import annotations

import pytest
import torch

from allyouneed import pictures
from allyouneed.similarity import dot_product

WORDS = ["Bark", "is", "a", "dog"]
X = torch.tensor([[2.0, 0.0, 1.0], [0.0, 1.0, -0.5], [1.0, 0.5, 0.0], [1.5, 1.0, 0.0]])
PHONE = {"has_touch": True, "is_mobile": True, "viewport": {"width": 390, "height": 844}}


@pytest.fixture
def picture():
    entries = ["being", "quality", "link"]
    return pictures.interactive("attention-rows", words=WORDS, entries=entries, vectors=X)


@pytest.fixture
def rows(stage, picture):
    return stage(picture)


def shows(rows, query: int, x: torch.Tensor = X) -> None:
    weights = dot_product(x, x).softmax(-1)
    assert rows.state["query"] == query
    assert rows.state["weights"] == pytest.approx(weights[query].tolist(), abs=1e-6)
    assert rows.state["output"] == pytest.approx((weights @ x)[query].tolist(), abs=1e-6)
    assert f"“{WORDS[query]}”" in rows.says
    best = weights[query].argmax()
    assert f"“{WORDS[best]}” ({weights[query].max():.2f})" in rows.says
    bars = "bars => bars.map(bar => parseFloat(getComputedStyle(bar).getPropertyValue('--w')))"
    widths = rows.tab.eval_on_selector_all(".bar", bars)
    assert widths == pytest.approx(weights[query].tolist(), abs=1e-3)


def changed(word: int, entry: int, value: float) -> torch.Tensor:
    x = X.clone()
    x[word, entry] = value
    return x


def test_the_map_by_mouse(rows):
    shows(rows, 0)
    rows.tab.get_by_role("gridcell", name="dog, a:").hover()
    shows(rows, 3)
    rows.tab.get_by_role("gridcell", name="is, Bark:").click()
    shows(rows, 1)


def test_the_map_by_keyboard(rows):
    rows.tab.get_by_role("gridcell", name="Bark, Bark:").focus()
    for key, query in [("ArrowDown", 1), ("ArrowRight", 1), ("ArrowDown", 2), ("ArrowDown", 3)]:
        rows.press(key)
        shows(rows, query)
    rows.press("ArrowDown", "End", "ArrowUp")
    shows(rows, 2)


def test_a_vector_is_changed_by_keyboard(rows):
    rows.press("Tab", "ArrowRight", "ArrowRight")  # the word: "a"
    shows(rows, 2)
    rows.press("Tab", "Tab", "Tab")  # past the button, to the second slider
    rows.press("ArrowRight", "ArrowRight")
    shows(rows, 2, changed(2, 1, 1.5))
    rows.tab.get_by_role("gridcell", name="dog, a:").hover()
    shows(rows, 3, changed(2, 1, 1.5))
    rows.tab.get_by_role("button", name="all as in the text").click()
    shows(rows, 2)


def test_a_vector_is_changed_by_mouse(rows):
    rows.tab.get_by_role("radio", name="dog").click()
    shows(rows, 3)
    slider = rows.tab.get_by_role("slider", name="link")
    box = slider.bounding_box()
    rows.tab.mouse.click(box["x"] + box["width"] - 1, box["y"] + box["height"] / 2)
    shows(rows, 3, changed(3, 2, 4.0))
    rows.tab.get_by_role("radio", name="Bark").click()  # the other word has kept its vector
    shows(rows, 0, changed(3, 2, 4.0))


def test_by_touch(stage, picture):
    rows = stage(picture, **PHONE)
    rows.tab.get_by_role("gridcell", name="dog, is:").tap()
    shows(rows, 3)
    rows.tab.get_by_role("radio", name="is").tap()
    slider = rows.tab.get_by_role("slider", name="quality")
    box = slider.bounding_box()
    rows.tab.touchscreen.tap(box["x"] + 1, box["y"] + box["height"] / 2)
    shows(rows, 1, changed(1, 1, -1.0))
    width = rows.tab.evaluate("document.documentElement.scrollWidth")
    assert width <= PHONE["viewport"]["width"]
