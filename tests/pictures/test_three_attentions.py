"""The three attentions (Chapter 8): each word may see what the package's masks let it see."""

from __future__ import annotations

import pytest
import torch

from allyouneed.masks import causal_mask, padding_mask
from allyouneed.tokens import BOS, EOS, PAD

KIND = "three-attentions"
PHONE = {"has_touch": True, "is_mobile": True, "viewport": {"width": 390, "height": 844}}
SOURCE, TARGET = ["he", "is", "a", "dog", "<eos>", "<pad>"], ["<bos>", "c'est", "un", "chien"]
SRC, TGT = torch.tensor([[4, 5, 6, 7, EOS, PAD]]), torch.tensor([[BOS, 8, 9, 10]])
OF_SOURCE = padding_mask(SRC, PAD)[0, 0, 0]
OF_TARGET = (padding_mask(TGT, PAD) & causal_mask(4))[0, 0]


def shows(stage, side: str, place: int) -> None:
    state = stage.state
    assert (state["side"], state["place"]) == (side, place)
    keys = OF_SOURCE.nonzero().flatten().tolist()
    if side == "source":
        assert state["encoder"] == keys and state["asked"] == bool(OF_SOURCE[place])
        assert stage.says.startswith(
            f"“{SOURCE[place]}” asks in the encoder" if OF_SOURCE[place] else "Nobody may see"
        )
    else:
        own = OF_TARGET[place].nonzero().flatten().tolist()
        assert state["causal"] == own and state["cross"] == keys
        assert ", ".join(f"“{TARGET[t]}”" for t in own) + ". Then" in stage.says
    lit = stage.tab.eval_on_selector_all(
        ".arrow:not(.off)", "all => all.map(one => one.classList[1]).join('')"
    )
    if side == "target":  # its own sentence, then the memory
        assert lit == "qkvqkv"
    else:  # in cross-attention a source word is asked, unless it is a padding
        assert lit == ("qkvkv" if OF_SOURCE[place] else "qkv")


@pytest.fixture
def three(stage):
    return stage(8, KIND)


def test_the_hidden_cells_are_those_of_the_masks(three):
    expected = [OF_SOURCE.expand(6, 6), OF_TARGET, OF_SOURCE.expand(4, 6)]
    for grid, mask in zip(three.tab.get_by_role("grid").all(), expected, strict=True):
        shut = [
            "shut" in (cell.get_attribute("class") or "")
            for cell in grid.locator("td[tabindex]").all()
        ]
        assert shut == (~mask).flatten().tolist()


def test_by_keyboard_all_words(three):
    three.press("Tab")
    shows(three, "target", 1)
    three.press("Home")
    for place in range(6):
        shows(three, "source", place)
        three.press("ArrowRight")
    for place in range(4):
        shows(three, "target", place)
        three.press("ArrowRight")


def test_by_mouse_over_a_row(three):
    three.tab.get_by_role("gridcell", name="dog may see is", exact=True).hover()
    shows(three, "source", 3)
    three.tab.get_by_role("gridcell", name="un may see he", exact=True).hover()
    shows(three, "target", 2)
    assert three.tab.get_by_role("radio", name="un").get_attribute("aria-checked") == "true"
    three.tab.get_by_role("radio", name="<pad>").click()
    shows(three, "source", 5)


def test_by_touch(stage):
    three = stage(8, KIND, **PHONE)
    three.tab.get_by_role("radio", name="chien").tap()
    shows(three, "target", 3)
    three.tab.get_by_role("gridcell", name="he may see a", exact=True).tap()
    shows(three, "source", 0)
    assert three.tab.evaluate("document.documentElement.scrollWidth") == 390


def test_mistakes_in_the_masks(three):
    """Each changes the masks that it names, marks the cells, and says what a word sees of it."""
    tab = three.tab

    def marked(name: str) -> int:
        return tab.locator(f"td.{name}").count()

    assert marked("leak") == marked("lost") == 0
    tab.get_by_role("radio", name="causal left out").click()
    assert three.state["mistake"] == "causal left out"
    assert three.state["causal"] == [0, 1, 2, 3] and marked("leak") == 6 and marked("lost") == 0
    assert "“un”, “chien”, which it has yet to write" in three.says
    tab.get_by_role("radio", name="padding left out").click()
    assert three.state["cross"] == [0, 1, 2, 3, 4, 5] and marked("leak") == 6 + 4
    assert "“<pad>”, which is no word" in three.says
    tab.get_by_role("radio", name="causal in cross-attention").click()
    assert three.state["cross"] == [0, 1] and marked("leak") == 0
    lost = int((OF_SOURCE.expand(4, 6) & ~torch.ones(4, 6).tril().bool()).sum())
    assert marked("lost") == lost
    assert "It may not see “a”, “dog”, “<eos>”" in three.says
    tab.get_by_role("radio", name="all right").click()
    shows(three, "target", 1)
    assert marked("leak") == marked("lost") == 0
