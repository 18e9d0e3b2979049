"""Paths (Chapter 2): the ways are possible, none is shorter, and the cone is what gradients see."""

from __future__ import annotations

import functools
import json

import pytest
import torch
from torch.nn import functional as F

N = 27
GAPS = {"convolution": [1] * 13, "dilated convolution": [1, 3, 9]}


@functools.cache
def reached(name: str, layers: int) -> set[int]:
    """How far back the words lie that reach the last output through so many layers."""
    x = torch.zeros(1, 1, 80, requires_grad=True)
    y = x
    for gap in GAPS[name][:layers]:
        y = F.conv1d(F.pad(y, (2 * gap, 0)), torch.ones(1, 1, 3), dilation=gap)
    (gradient,) = torch.autograd.grad(y[0, 0, -1], x)
    return set((79 - gradient[0, 0].nonzero().flatten()).tolist())


def layers_needed(name: str, distance: int) -> int:
    return next(n for n in range(1, 15) if distance in reached(name, n))


@pytest.fixture
def page(stage):
    return stage(2, "paths")


@pytest.fixture
def nets(page):
    data = json.loads(page.tab.locator("script[type='application/json']").text_content())
    assert data["n"] == N
    return data["nets"]


def counts(start: int, end: int) -> list[dict]:
    conv, dilated = (layers_needed(name, end - start) for name in GAPS)
    found = [(1, end - start + 1), (conv, conv), (dilated, dilated), (1, 1)]
    return [{"layers": layers, "path": path} for layers, path in found]


def shows(page, which: int, start: int, end: int) -> None:
    state = page.state
    names = ["recurrent", *GAPS, "look-up"]
    assert (state["net"], state["from"], state["to"]) == (names[which], start, end)
    assert state["counts"] == counts(start, end)
    assert state["places"][0] == [0, start - 1]
    assert state["places"][-1] == [state["counts"][which]["layers"], end - 1]
    assert f"from word {start} to word {end}, {end - start} further on" in page.says
    assert f"a path of {state['counts'][which]['path']} step" in page.says


def test_ways_are_possible_and_none_is_shorter(nets, core):
    for net in nets:
        for distance, jumps in enumerate(net["ways"], start=1):
            assert sum(jumps) == distance
            if net["name"] == "recurrent":
                assert jumps == [0] + [1] * distance
            elif net["name"] == "look-up":
                assert jumps == [distance]
            else:
                assert len(jumps) == layers_needed(net["name"], distance)
                for jump, gap in zip(jumps, GAPS[net["name"]], strict=False):
                    assert jump in (0, gap, 2 * gap)
            if distance not in (1, 2, 9, 26):
                continue
            places = core("stations", net, 0, distance, kind="paths")
            assert len(places) == len(jumps) + 1
            assert places[-1] == [1 if "jumps" not in net else len(jumps), distance]


@pytest.mark.parametrize("name", GAPS)
@pytest.mark.parametrize("to, layers", [(26, 3), (20, 2), (5, 3)])
def test_the_cone_ends_at_the_words_that_gradients_find(nets, core, name, to, layers):
    net = next(net for net in nets if net["name"] == name)
    lines = core("cone", net, to, layers, N, kind="paths")
    ends = {tail[1] for head, tail in lines if tail[0] == 0}
    assert ends == {to - back for back in reached(name, layers) if back <= to}


def test_by_keyboard(page):
    shows(page, 0, 3, 24)
    page.press("Tab", "ArrowRight")
    shows(page, 1, 3, 24)
    page.press("Tab", "ArrowLeft", "ArrowLeft", "ArrowLeft")
    shows(page, 1, 1, 24)
    page.press("Tab", "ArrowRight", "ArrowRight", "ArrowRight", "ArrowUp")
    shows(page, 1, 1, 27)
    page.press("Shift+Tab", "Shift+ArrowRight", "Shift+ArrowRight", "Shift+ArrowRight")
    shows(page, 1, 26, 27)  # the word stays before the output


def test_by_mouse(page):
    page.tab.get_by_role("radio", name="dilated").click()
    knob = page.tab.get_by_role("slider", name="the output")
    here = knob.locator("circle").last.bounding_box()
    step = page.tab.locator(".moving svg").bounding_box()["width"] / 640 * (640 - 28) / 26
    x, y = here["x"] + here["width"] / 2, here["y"] + here["height"] / 2
    page.tab.mouse.move(x, y)
    page.tab.mouse.down()
    page.tab.mouse.move(x - 13 * step, y + 30, steps=5)
    page.tab.mouse.up()
    shows(page, 2, 3, 11)
    assert knob.get_attribute("aria-valuetext") == "word 11"


def test_by_touch(stage):
    page = stage(2, "paths", has_touch=True, is_mobile=True, viewport={"width": 390, "height": 844})
    page.tab.get_by_role("radio", name="look-up").tap()
    page.tab.get_by_role("slider", name="the word").tap()
    page.press("ArrowRight")
    shows(page, 3, 4, 24)
    reach = page.tab.locator(".handle .reach").first.bounding_box()
    assert min(reach["width"], reach["height"]) >= 24
    assert page.tab.evaluate("document.documentElement.scrollWidth") <= 390
