"""Alignment (Chapter 3): weights light up the words read; ribbons are as wide as they should be."""

from __future__ import annotations

import re

import pytest
import torch

from allyouneed import pictures

SENTENCES = [
    {"name": "The cat.", "source": ["The", "cat", ".", "<eos>"], "target": ["Le", "chat", "."]},
    {"name": "I do not.", "source": ["I", "do", "not"], "target": ["Je", "ne", "pas", "<eos>"]},
]


@pytest.fixture
def numbers():
    generator = torch.Generator().manual_seed(3)
    numbers = []
    for one in SENTENCES:
        scores = torch.randn(len(one["target"]), len(one["source"]), generator=generator)
        numbers.append(one | {"weights": (2 * scores).softmax(-1)})
    return numbers


@pytest.fixture
def picture(numbers):
    return pictures.interactive("alignment", sentences=numbers)


def shows(page, numbers, which: int, t: int) -> None:
    one = numbers[which]
    weights = one["weights"][t].tolist()
    assert page.state == {
        "sentence": which, "word": t, "weights": pytest.approx(weights, abs=1e-3)
    }  # fmt: skip
    assert page.tab.locator(".pair .number").all_inner_texts() == [f"{w:.2f}" for w in weights]
    fills = page.tab.locator(".read").evaluate_all(
        "words => words.map(word => Number(word.style.getPropertyValue('--w')))"
    )
    assert fills == pytest.approx(weights, abs=1e-3)
    best = one["source"][one["weights"][t].argmax()]
    assert f"To write “{one['target'][t]}”" in page.says
    assert f"weight {max(weights):.2f} to “{best}”," in page.says
    bands = page.tab.locator("svg g").evaluate_all("all => all.map(one => one.className.baseVal)")
    assert bands == ["before"] * t + ["now"] + ["later"] * (len(one["target"]) - t - 1)


def test_by_keyboard(stage, numbers, picture):
    page = stage(picture)
    shows(page, numbers, 0, 0)
    page.press("Tab", "Tab", "ArrowDown")
    shows(page, numbers, 0, 1)
    page.press("ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp")
    shows(page, numbers, 0, 1)
    page.press("Shift+Tab", "ArrowRight")
    shows(page, numbers, 1, 0)
    page.press("Tab", "End")
    shows(page, numbers, 1, 3)


def test_by_mouse(stage, numbers, picture):
    page = stage(picture)
    page.tab.get_by_role("radio", name="chat").hover()
    shows(page, numbers, 0, 1)
    page.tab.get_by_role("radio", name="I do not.").click()
    page.tab.get_by_role("radio", name="pas").click()
    shows(page, numbers, 1, 2)


def test_by_touch(stage, numbers, picture):
    page = stage(picture, has_touch=True, is_mobile=True, viewport={"width": 390, "height": 844})
    page.tab.get_by_role("radio", name="I do not.").tap()
    page.tab.get_by_role("radio", name="ne").tap()
    shows(page, numbers, 1, 1)
    assert page.tab.locator(".pair button").first.bounding_box()["height"] >= 24


def test_ribbons_fill_the_row_and_do_not_overlap(core, numbers):
    weights = numbers[0]["weights"].tolist()
    for t, row in enumerate(weights):
        used = t + 0.1
        for s, path in enumerate(core("ribbons", row, t, kind="alignment")):
            if path is None:
                assert row[s] < 0.0051
            else:
                points = [float(x) for x in re.findall(r"-?[\d.]+", path)]
                top, far, far_end, end = points[1], points[7], points[8], points[-1]
                assert top == pytest.approx(used, abs=2e-3)
                assert far_end - far == pytest.approx(0.8 * row[s], abs=2e-3)
                assert (far + far_end) / 2 == pytest.approx(s + 0.5, abs=2e-3)
                assert end - top == pytest.approx(0.8 * row[s], abs=2e-3)
            used += 0.8 * row[s]
        assert used == pytest.approx(t + 0.9, abs=1e-3)


def test_what_the_chapter_says(stage):
    """Both halves of a negation look at one word, adjectives back at theirs."""
    page = stage(3, "alignment")
    page.tab.get_by_role("radio", name="noir").click()
    assert re.search(r"gave weight 0\.\d+ to “▁black”", page.says)
    page.tab.get_by_role("radio", name="He doesn't speak French.").click()
    for half in ("▁ne", "▁pas"):
        page.tab.get_by_role("radio", name=half, exact=True).click()
        assert re.search(r"gave weight 0\.\d+ to “t”", page.says)
