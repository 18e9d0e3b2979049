"""The learning rate (Chapter 12): the browser's equation (3) is the package's."""

from __future__ import annotations

import pytest
import torch

from allyouneed import pictures
from allyouneed.training import learning_rate

LEFT, ACROSS = 44, 620 - 44 - 16  # the field of the drawing


@pytest.fixture
def picture():
    return pictures.interactive(
        "schedule", widths=[256, 512, 1024], steps=20_000, highest=2e-3,
        warmups={"min": 1000, "max": 8000, "step": 500},
    )  # fmt: skip


def test_the_same_rate_as_the_package(core):
    generator = torch.Generator().manual_seed(0)
    for _ in range(20):
        step, d_model, warmup = torch.randint(1, 10_000, (3,), generator=generator).tolist()
        rate = core("learningRate", step, d_model, warmup, kind="schedule")
        assert rate == pytest.approx(learning_rate(step, d_model, warmup), rel=1e-9)


def shows(page, step: int, d_model: int, warmup: int) -> None:
    state = page.state
    assert (state["step"], state["dModel"], state["warmup"]) == (step, d_model, warmup)
    assert state["rate"] == pytest.approx(learning_rate(step, d_model, warmup), rel=1e-9)
    assert state["peak"] == pytest.approx((d_model * warmup) ** -0.5, rel=1e-9)
    assert f"At step {step:,} the rate is" in page.says
    assert f"at step {warmup:,}." in page.says
    assert ("still rises" in page.says) == (step < warmup)
    knob = page.tab.get_by_role("slider", name="step", exact=True)
    x, y = (float(n) for n in knob.get_attribute("transform")[10:-1].split(","))
    assert x == pytest.approx(LEFT + ACROSS * step / 20_000)
    assert y == pytest.approx(254 - 220 * state["rate"] / 2e-3)


def test_by_keyboard(stage, picture):
    page = stage(picture)
    shows(page, 2000, 512, 4000)
    page.press("Tab", "ArrowRight")
    shows(page, 2000, 1024, 4000)
    page.press("ArrowLeft", "ArrowLeft", "Tab", "ArrowLeft", "ArrowLeft")
    shows(page, 2000, 256, 3000)
    page.press("Home", "Tab", "ArrowRight", "Shift+ArrowRight")
    shows(page, 3100, 256, 1000)
    for _ in range(4):
        page.press("Shift+ArrowLeft")
    shows(page, 1, 256, 1000)
    page.press("ArrowRight")
    shows(page, 100, 256, 1000)


def test_by_mouse(stage, picture):
    page = stage(picture)
    box = page.tab.locator(".moving svg").bounding_box()
    knob = page.tab.get_by_role("slider", name="step", exact=True)
    here = knob.locator("circle").last.bounding_box()
    page.tab.mouse.move(here["x"] + here["width"] / 2, here["y"] + here["height"] / 2)
    page.tab.mouse.down()
    page.tab.mouse.move(box["x"] + box["width"] * (LEFT + ACROSS * 0.6) / 620, box["y"], steps=4)
    page.tab.mouse.up()
    shows(page, 12_000, 512, 4000)
    page.tab.get_by_role("radio", name="1024").click()
    shows(page, 12_000, 1024, 4000)


def test_by_touch(stage, picture):
    page = stage(picture, has_touch=True, is_mobile=True, viewport={"width": 390, "height": 844})
    page.tab.get_by_role("radio", name="256").tap()
    box = page.tab.get_by_role("slider", name="warm-up steps").bounding_box()
    page.tab.touchscreen.tap(box["x"] + box["width"] - 3, box["y"] + box["height"] / 2)
    shows(page, 2000, 256, 8000)
    assert page.tab.evaluate("document.documentElement.scrollWidth") <= 390


def test_after_the_warm_up_its_length_is_forgotten(stage, picture):
    page = stage(picture)
    page.tab.get_by_role("slider", name="step", exact=True).focus()
    for _ in range(8):
        page.press("Shift+ArrowRight")
    rates = []
    page.press("Shift+Tab")
    for key in ("Home", "End"):
        page.press(key)
        rates.append(page.state["rate"])
    assert rates[0] == rates[1] == pytest.approx(learning_rate(10_000, 512, 4000))
