"""Positions as clocks (Chapter 9): what the picture computes equals `allyouneed.positions`."""

from __future__ import annotations

import math

import pytest
import torch

from allyouneed import pictures
from allyouneed.positions import sinusoids

KIND = "clock-hands"
PHONE = {"has_touch": True, "is_mobile": True, "viewport": {"width": 390, "height": 844}}
TABLE = sinusoids(200, 16)


@pytest.fixture
def clocks(stage):
    return stage(9, KIND)


def angles(clocks, line: str) -> list[float]:
    """Where the hands of one colour point, in radians from the top, clockwise."""
    script = """lines => lines.map(line => Math.atan2(
        line.x2.baseVal.value - line.x1.baseVal.value,
        line.y1.baseVal.value - line.y2.baseVal.value))"""
    return clocks.tab.eval_on_selector_all(f".clock line.{line}", script)


def shows(clocks, position: int, step: int) -> None:
    state = clocks.state
    here, there = TABLE[position], TABLE[position + step]
    assert (state["position"], state["step"]) == (position, step)
    assert state["here"] == pytest.approx(here.tolist(), abs=1e-6)
    assert state["there"] == pytest.approx(there.tolist(), abs=1e-6)
    assert state["product"] == pytest.approx(float(here @ there), abs=1e-5)
    for row, line in ((here, "here"), (there, "there")):
        expected = torch.atan2(row[0::2], row[1::2])
        assert angles(clocks, line) == pytest.approx(expected.tolist(), abs=1e-4)
    parts = (here * there).unflatten(0, (8, 2)).sum(-1)
    shown = clocks.tab.locator(".clock .cosine").all_inner_texts()
    numbers = [float(text.replace("−", "-")) for text in shown]
    assert numbers == pytest.approx(parts.tolist(), abs=0.005001)
    assert f"A step of {step} turns the quickest hand by {step:.2f} radians" in clocks.says
    dot = f"positions {position} and {position + step} is {float(here @ there):.2f}."
    assert dot in clocks.says


@pytest.mark.parametrize("width", [2, 16, 64])
def test_a_row_is_a_row_of_the_table(core, width):
    table = sinusoids(200, width)
    for position in (0, 1, 17, 199):
        row = core("encoding", position, width, kind=KIND)
        assert row == pytest.approx(table[position].tolist(), abs=1e-6)


def test_a_step_is_a_rotation(core):
    for position, step in ((0, 1), (3, 50), (100, 7), (60, -3)):
        row = core("turned", TABLE[position].double().tolist(), step, kind=KIND)
        assert row == pytest.approx(TABLE[position + step].tolist(), abs=1e-6)
    anything = torch.randn(16, generator=torch.Generator().manual_seed(0)).double()
    there = torch.tensor(core("turned", anything.tolist(), 5, kind=KIND))
    assert float(there.norm()) == pytest.approx(float(anything.norm()))
    back = core("turned", there.tolist(), -5, kind=KIND)
    assert back == pytest.approx(anything.tolist(), abs=1e-5)


def test_wavelengths(clocks):
    shown = clocks.tab.locator(".clock .label").all_inner_texts()
    numbers = [float(text.removeprefix("λ ").replace(",", "")) for text in shown]
    expected = [2 * math.pi * 10000 ** (2 * i / 16) for i in range(8)]
    assert numbers == pytest.approx(expected, rel=0.005)


def test_by_keyboard(clocks):
    shows(clocks, 5, 2)
    clocks.press("Tab", "ArrowRight", "ArrowRight")
    shows(clocks, 7, 2)
    clocks.press("Tab", "ArrowRight", "ArrowUp", "ArrowLeft")
    shows(clocks, 7, 3)
    clocks.press("End", "Shift+Tab", "End")
    shows(clocks, 60, 50)
    clocks.press("Home", "Tab", "Home")
    shows(clocks, 0, 0)


def test_the_position_changes_neither_angles_nor_product(clocks):
    def seen():
        hands = zip(angles(clocks, "here"), angles(clocks, "there"), strict=True)
        turns = [b - a for a, b in hands]
        line = clocks.tab.locator(".clocks + svg polyline").get_attribute("points")
        points = [float(number) for number in line.replace(",", " ").split()]
        return [math.cos(turn) for turn in turns], points, clocks.state["product"]

    cosines, points, product = seen()
    clocks.tab.get_by_role("slider", name="position p").press("End")
    shows(clocks, 60, 2)
    after = seen()
    assert after[0] == pytest.approx(cosines, abs=1e-6)
    assert after[1] == pytest.approx(points, abs=1e-6)
    assert after[2] == pytest.approx(product)


def test_by_mouse(clocks):
    box = clocks.tab.get_by_role("slider", name="step k").bounding_box()
    clocks.tab.mouse.click(box["x"] + box["width"] - 2, box["y"] + box["height"] / 2)
    shows(clocks, 5, 50)


def test_by_touch(stage):
    clocks = stage(9, KIND, **PHONE)
    box = clocks.tab.get_by_role("slider", name="position p").bounding_box()
    clocks.tab.touchscreen.tap(box["x"] + box["width"] - 2, box["y"] + box["height"] / 2)
    shows(clocks, 60, 2)
    assert clocks.tab.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_grey_angle_goes_from_one_hand_to_the_other(stage):
    """Clockwise from blue to orange; more than half a turn takes the large arc."""
    clocks = stage(pictures.interactive(KIND, width=4, position=1, step=4, positions=9, steps=9))
    path = clocks.tab.locator(".sector").first.get_attribute("d")
    start, arc = path.removeprefix("M42 42L").removesuffix("Z").split("A25 25 0 ")
    large, sweep, *end = arc.split()
    assert (large, sweep) == ("1", "1")  # 4 radians are more than pi
    for point, angle in ((start.split(), 1), (end, 5)):
        expected = [42 + 25 * math.sin(angle), 42 - 25 * math.cos(angle)]
        assert [float(number) for number in point] == pytest.approx(expected)
