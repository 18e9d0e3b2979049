"""What the pictures compute themselves equals what PyTorch computes."""

from __future__ import annotations

import pytest
import torch

PHONE = {"has_touch": True, "is_mobile": True, "viewport": {"width": 390, "height": 844}}


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
    assert core("thousands", 20_000) == "20,000"


@pytest.mark.parametrize(
    "x, digits, text",
    [
        (6.99e-4, 2, "6.99 × 10⁻⁴"), (1e-7, 2, "1.00 × 10⁻⁷"), (3.21e-13, 1, "3.2 × 10⁻¹³"),
        (25_000, 1, "2.5 × 10⁴"),
    ],
)  # fmt: skip
def test_powers_of_ten(core, x, digits, text):
    assert core("power", x, digits).replace("\u00a0", " ") == text


def test_tokens_as_text(core):
    assert core("written", ["▁Le", "▁ch", "at", ".", "<eos>"]) == "Le chat."


def test_on_a_phone_the_sentence_is_always_in_sight(stage):
    blocks = stage(10, "norm-blocks", **PHONE)
    picture, said = (blocks.tab.locator(part) for part in (".moving", ".moving .says"))
    assert picture.bounding_box()["height"] > 844
    for scrolled in (0, 100):
        blocks.tab.evaluate(f"scrollTo(0, {scrolled})")
        box = said.bounding_box()
        assert box["y"] + box["height"] == pytest.approx(844, abs=1)
    blocks.tab.evaluate("scrollTo(0, 9999)")  # at its end it stands below the picture
    stands = blocks.tab.locator(".stage").bounding_box()
    assert said.bounding_box()["y"] == pytest.approx(stands["y"] + stands["height"], abs=1)


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize(
    "chapter, kind, name, below",
    [
        (3, "alignment", "Sentence", ".says"),
        (11, "machine-steps", "Step", ".plan"),
        (14, "word-by-word", "Sentence", ".says"),
        (15, "trained-heads", "Sentence", ".says"),
    ],
)
def test_nothing_below_jumps(stage, chapter, kind, name, below, width):
    page = stage(chapter, kind, viewport={"width": width, "height": 4000})
    first = page.tab.get_by_role("radiogroup", name=name).get_by_role("radio").first
    (page.tab.get_by_role("slider", name=name) if kind == "machine-steps" else first).focus()
    heights = set()
    for _ in range(20 if kind == "machine-steps" else 8):
        heights.add(round(page.tab.locator(below).bounding_box()["y"]))
        page.press("ArrowRight")
    assert len(heights) == 1, heights
