"""Heads, there and back (Chapter 7): every number stands where the package puts it."""

from __future__ import annotations

import pytest
import torch

from allyouneed.multihead import merge_heads, split_heads

PHONE = {"has_touch": True, "is_mobile": True, "viewport": {"width": 390, "height": 844}}
WORDS = torch.tensor([[[10.0 * t + j for j in range(4)] for t in (1, 2, 3, 4)]])
CUTS = {"view, transpose": split_heads(WORDS, 2), "view alone": WORDS.view(1, 2, 4, 2)}
WAYS = {"transpose, reshape": merge_heads, "reshape alone": lambda heads: heads.reshape(1, 4, 4)}


def place(number: int, tensor: torch.Tensor) -> list[int]:
    return (tensor[0] == number).nonzero()[0].tolist()


def shows(stage, number: int, there: str = "view, transpose", home: str = "transpose, reshape"):
    heads = CUTS[there]
    back = WAYS[home](heads)
    state = stage.state
    assert state["number"] == number
    assert state["head"] == place(number, heads)
    assert state["back"] == place(number, back)
    assert state["astray"] == [
        int((heads != CUTS["view, transpose"]).sum()), int((back != WORDS).sum())
    ]  # fmt: skip
    head, row, _ = place(number, heads)
    assert f"head {head + 1}" in stage.says
    right = [head, row] == place(number, CUTS["view, transpose"])[:2]
    assert ("into the row of its own word" in stage.says) == right
    assert ("comes back to where it was" in stage.says) == (
        place(number, back) == place(number, WORDS)
    )
    lit = stage.tab.locator("td.chosen").all_inner_texts()
    assert lit == [str(number)] * (4 if there == "view, transpose" else 3)


@pytest.fixture
def cuts(stage):
    return stage(7, "heads-cut")


def test_by_keyboard(cuts):
    cuts.tab.get_by_role("gridcell").first.focus()
    shows(cuts, 10)
    cuts.press("ArrowDown", "ArrowRight", "ArrowRight")
    shows(cuts, 22)
    cuts.press("End", "ArrowDown", "ArrowDown", "ArrowDown")
    shows(cuts, 43)
    cuts.press("Shift+Tab", "ArrowRight")
    shows(cuts, 43, home="reshape alone")


@pytest.mark.parametrize("there", CUTS)
@pytest.mark.parametrize("home", WAYS)
def test_by_mouse_in_all_ways(cuts, there, home):
    cuts.tab.get_by_role("radio", name=there, exact=True).click()
    cuts.tab.get_by_role("radio", name=home, exact=True).click()
    for number in (10, 12, 21, 31, 43):
        cuts.tab.locator(f".form:nth-child(2) [data-number='{number}']").hover()
        shows(cuts, number, there, home)


def test_the_forms_stand_as_the_tensors_are_printed(cuts):
    cuts.tab.get_by_role("radio", name="view alone", exact=True).click()
    forms = [
        list(map(int, cuts.tab.locator(f".form:nth-child({i}) td.number").all_inner_texts()))
        for i in (1, 2, 3)
    ]
    wrong = CUTS["view alone"]
    assert forms == [one.flatten().tolist() for one in (WORDS, wrong, merge_heads(wrong))]


def test_by_touch(stage):
    cuts = stage(7, "heads-cut", **PHONE)
    cuts.tab.get_by_role("radio", name="view alone", exact=True).tap()
    cuts.tab.get_by_role("gridcell", name="word 3, entry 1: 30").tap()
    shows(cuts, 30, "view alone")
    assert cuts.tab.evaluate("document.documentElement.scrollWidth") == 390
