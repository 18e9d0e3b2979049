"""Label smoothing (Chapter 12): the browser's loss is the package's, and its gradient too."""

from __future__ import annotations

import pytest
import torch

from allyouneed import pictures
from allyouneed.tokens import PAD
from allyouneed.training import label_smoothed_loss

RIGHT = 7


def loss_of(gap: float, smoothing: float, vocabulary: int):
    """The package's loss of one place, and its gradient for the right logit."""
    logits = torch.zeros(1, vocabulary)
    logits[0, PAD], logits[0, RIGHT] = -80.0, gap
    logits.requires_grad_()
    loss, _ = label_smoothed_loss(logits, torch.tensor([RIGHT]), smoothing)
    (gradient,) = torch.autograd.grad(loss, logits)
    return loss.item(), gradient[0, RIGHT].item()


@pytest.fixture
def picture():
    return pictures.interactive("label-smoothing", vocabulary=1000, most=20)


def test_the_same_loss_and_gradient_as_the_package(core):
    numbers = torch.rand(12, 3, generator=torch.Generator().manual_seed(0)).tolist()
    cases = [(20 * a, 0.3 * b, 10 + int(2000 * c)) for a, b, c in numbers]
    for gap, smoothing, vocabulary in [*cases, (0.0, 0.1, 1000), (20.0, 0.0, 1000)]:
        loss, gradient = loss_of(gap, smoothing, vocabulary)
        ours = core("loss", gap, smoothing, vocabulary, kind="label-smoothing")
        assert ours == pytest.approx(loss, rel=1e-4, abs=1e-5)
        q = core("target", smoothing, vocabulary, kind="label-smoothing")
        p = core("model", gap, vocabulary, kind="label-smoothing")
        assert p["right"] - q["right"] == pytest.approx(gradient, abs=1e-5)
        for part in (p, q):
            assert part["right"] + (vocabulary - 2) * part["other"] == pytest.approx(1)


@pytest.mark.parametrize("smoothing", [0.01, 0.1, 0.3])
def test_the_lowest_place_is_the_lowest(core, smoothing):
    best = core("bestGap", smoothing, 1000, kind="label-smoothing")
    loss, gradient = loss_of(best, smoothing, 1000)
    assert abs(gradient) < 1e-5
    assert loss < min(loss_of(best + step, smoothing, 1000)[0] for step in (-0.5, 0.5))


def shows(page, gap: float, smoothing: float) -> None:
    loss, gradient = loss_of(gap, smoothing, 1000)
    state = page.state
    assert (state["gap"], state["smoothing"]) == (pytest.approx(gap), pytest.approx(smoothing))
    assert state["loss"] == pytest.approx(loss, rel=1e-4, abs=1e-5)
    assert f"Smoothing {smoothing:.2f}, gap {gap:.1f}: a loss of {loss:.2f} nats." in page.says
    assert ("right logit up" in page.says) == (gradient < -0.003)
    assert ("right logit down" in page.says) == (gradient > 0.003)
    bars = page.tab.locator(".bar").evaluate_all(
        "bars => bars.map(bar => Number(bar.style.getPropertyValue('--w')))"
    )
    q, p = state["q"], state["p"]
    assert bars == pytest.approx([q["right"], p["right"], q["other"], p["other"]], abs=1e-4)


def test_by_keyboard(stage, picture):
    page = stage(picture)
    shows(page, 4.0, 0.1)
    page.press("Tab", "ArrowRight", "ArrowRight")
    shows(page, 4.0, 0.12)
    page.press("Home")
    shows(page, 4.0, 0.0)
    assert page.state["lowest"] is None
    page.press("End", "Tab", "ArrowRight")
    shows(page, 4.1, 0.3)
    for _ in range(12):
        page.press("Shift+ArrowRight")
    shows(page, 16.1, 0.3)


def test_by_mouse_the_ring_stays_on_the_curve(stage, picture):
    page = stage(picture)
    knob = page.tab.get_by_role("slider", name="right logit minus the others")
    box = page.tab.locator(".moving svg").bounding_box()
    here = knob.locator("circle").last.bounding_box()
    page.tab.mouse.move(here["x"] + here["width"] / 2, here["y"] + here["height"] / 2)
    page.tab.mouse.down()
    page.tab.mouse.move(box["x"] + box["width"] * (44 + 540 * 9.1 / 20) / 600, box["y"], steps=4)
    page.tab.mouse.up()
    shows(page, 9.1, 0.1)
    assert "the loss rests here" in page.says
    assert page.state["lowest"] == pytest.approx(9.1, abs=0.05)
    x, y = (float(n) for n in knob.get_attribute("transform")[10:-1].split(","))
    corners = page.tab.locator("path.smooth").get_attribute("d")[1:].split("L")
    assert [x, y] == pytest.approx([float(n) for n in corners[91].split()], abs=0.1)


def test_by_touch(stage, picture):
    page = stage(picture, has_touch=True, is_mobile=True, viewport={"width": 390, "height": 844})
    page.tab.get_by_role("slider", name="right logit minus the others").tap()
    page.press("ArrowLeft")
    shows(page, 3.9, 0.1)
    box = page.tab.get_by_role("slider", name="smoothing ε").bounding_box()
    page.tab.touchscreen.tap(box["x"] + box["width"] - 3, box["y"] + box["height"] / 2)
    shows(page, 3.9, 0.3)
    assert page.tab.evaluate("document.documentElement.scrollWidth") <= 390
