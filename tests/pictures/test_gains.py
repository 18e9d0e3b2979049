"""What a change gains (Chapter 20): the guess, what was measured, and what luck is."""

from __future__ import annotations

import pytest

from allyouneed import pictures

CHANGES = [
    {"name": "rotary", "before": "x + PE", "after": "turn q, k", "gains": [0.4, 0.34, 0.39]},
    {"name": "RMSNorm", "before": "x / std", "after": "x / rms", "gains": [0.0, 0.01, -0.02]},
    {"name": "worse", "before": "a", "after": "b", "gains": [-0.05, -0.06, -0.04]},
]  # fmt: skip


@pytest.fixture
def picture():
    return pictures.interactive("gains", changes=CHANGES, lowest=-0.1, highest=0.5)


@pytest.mark.parametrize("change, word", [*zip(CHANGES, ("gains", "luck", "loses"), strict=True)])
def test_luck_is_told_from_gain(core, change, word):
    assert core("verdict", change["gains"], kind="gains") == word


def test_by_keyboard(stage, picture):
    page = stage(picture)
    assert (page.state["name"], page.state["shown"]) == ("rotary", False)
    page.press("Tab", "ArrowRight", "Tab", "ArrowLeft", "ArrowLeft")
    assert page.state["guess"] == pytest.approx(0.08)
    assert "RMSNorm: what does it gain? You expect +0.08 nats" in page.says
    page.press("Tab", "Enter")
    assert page.state["shown"] and page.state["verdict"] == "luck"
    assert "0.000, +0.010, −0.020, 0.030 apart: three seeds do not decide" in page.says
    assert page.tab.locator(".seed").count() == 3


def test_by_mouse_and_touch(stage, picture):
    page = stage(picture)
    page.tab.get_by_role("button", name="what was measured").click()
    assert "each a gain larger than that" in page.says
    page.tab.get_by_role("radio", name="worse").click()
    assert not page.state["shown"] and page.tab.locator(".seed").count() == 0
    page = stage(picture, has_touch=True, is_mobile=True, viewport={"width": 390, "height": 844})
    page.tab.get_by_role("radio", name="worse").tap()
    box = page.tab.get_by_role("slider", name="your guess").bounding_box()
    page.tab.touchscreen.tap(box["x"] + box["width"] - 3, box["y"] + box["height"] / 2)
    assert page.state["guess"] == pytest.approx(0.5)
    page.tab.get_by_role("button", name="what was measured").tap()
    assert "each a loss larger than that" in page.says
    assert page.tab.evaluate("document.documentElement.scrollWidth") <= 390
