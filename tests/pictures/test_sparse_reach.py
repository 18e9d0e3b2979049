"""Patterns, their reach and their price (Chapter 17): masks are the package's, and so is reach."""

from __future__ import annotations

import pytest
import torch

from allyouneed.masks import causal_mask
from allyouneed.sparse import dilated_mask, global_mask, reach, windowed_mask

KIND, N = "sparse-reach", 48
PHONE = {"has_touch": True, "is_mobile": True, "viewport": {"width": 390, "height": 844}}
PATTERNS = ["full", "window", "holes", "stride", "global", "blocks", "shifted"]


def stack_of(pattern: str, n: int, w: int, causal: bool, layers: int) -> list[torch.Tensor]:
    """The masks by the package's functions, the lowest layer first."""
    place = torch.arange(n)

    def blocks(by: int) -> torch.Tensor:
        mask = (place[:, None] + by) // w == (place + by) // w
        return mask & causal_mask(n) if causal else mask

    one = {
        "full": lambda i: causal_mask(n) if causal else torch.ones(n, n, dtype=torch.bool),
        "window": lambda i: windowed_mask(n, w, causal),
        "holes": lambda i: dilated_mask(n, w, w**i, causal),
        "stride": lambda i: dilated_mask(n, n, w, causal) if i % 2 else windowed_mask(n, w, causal),
        "global": lambda i: global_mask(n, w, 1, causal),
        "blocks": lambda i: blocks(0),
        "shifted": lambda i: blocks(w // 2 * (i % 2)),
    }[pattern]
    return [one(i) for i in range(layers)]


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("causal", [False, True])
def test_masks_reach_and_price(core, pattern, causal):
    for n, w, layers in ((12, 1, 2), (20, 3, 1), (20, 3, 4), (17, 5, 2), (9, 16, 3)):
        expected = stack_of(pattern, n, w, causal, layers)
        found = core("masks", pattern, n, w, causal, layers, kind=KIND)
        assert found == [mask.tolist() for mask in expected]
        assert core("depends", found, kind=KIND) == reach(*expected).tolist()
        full = n * (n + 1) / 2 if causal else n * n
        pairs = sum(int(mask.sum()) for mask in expected)
        assert core("price", found, causal, kind=KIND) == pytest.approx(pairs / full)


@pytest.fixture
def picture(stage):
    return stage(17, KIND)


def shows(picture, pattern: str, w: int, layers: int, causal: bool = True) -> None:
    state, stack = picture.state, stack_of(pattern, N, w, causal, layers)
    assert (state["pattern"], state["window"]) == (pattern, w)
    assert (state["layers"], state["causal"]) == (layers, causal)
    assert state["heard"] == int(reach(*stack)[-1].sum())
    full = N * (N + 1) / 2 if causal else N * N
    assert state["cost"] == pytest.approx(sum(int(mask.sum()) for mask in stack) / full)
    assert f"depends on {state['heard']} of {N}" in picture.says


def test_by_keyboard(picture):
    shows(picture, "window", 4, 3)
    picture.tab.get_by_role("radio", name="window", exact=True).focus()
    picture.press("ArrowRight")
    shows(picture, "holes", 4, 3)
    assert picture.state["heard"] == N
    picture.press("Tab", "Space")
    shows(picture, "holes", 4, 3, causal=False)
    picture.press("Tab", "ArrowRight", "Tab", "ArrowLeft", "ArrowLeft")
    shows(picture, "holes", 5, 1, causal=False)


def test_every_pattern_by_mouse(picture):
    for pattern in PATTERNS:
        picture.tab.get_by_role("radio", name=pattern, exact=True).click()
        shows(picture, pattern, 4, 3)


def test_by_touch(stage):
    picture = stage(17, KIND, **PHONE)
    picture.tab.get_by_role("radio", name="stride", exact=True).tap()
    picture.tab.get_by_role("button", name="causal").tap()
    shows(picture, "stride", 4, 3, causal=False)
    assert picture.tab.evaluate("document.documentElement.scrollWidth") <= 390
