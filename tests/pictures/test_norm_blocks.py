"""LayerNorm against BatchNorm (Chapter 10): mean, variance and results equal PyTorch's."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

KIND = "norm-blocks"
PHONE = {"has_touch": True, "is_mobile": True, "viewport": {"width": 390, "height": 844}}
WORD = {
    "Bark": [2, 0, 1, 0], "is": [0, 0, 0, 1], "a": [0, 0, 1, 1], "cute": [0, 2, 0, 0],
    "dog": [2, 1, 0, 0], "he": [1, 0, 2, 0], "and": [0, 0, 0, 2], "very": [0, 1, 0, 1],
    "<pad>": [0, 0, 0, 0],
}  # fmt: skip
NORMS = ["LayerNorm", "BatchNorm", "BatchNorm, words only"]
OTHERS = ["he is cute", "and a dog", "he", "cute and very cute", "a dog and he is"]


def words(which: int) -> list[list[str]]:
    return ["Bark is a cute dog".split(), (OTHERS[which].split() + ["<pad>"] * 4)[:5]]


def is_word(which: int) -> torch.Tensor:
    return torch.tensor([[word != "<pad>" for word in row] for row in words(which)])


def block(which: int) -> torch.Tensor:
    return torch.tensor([[WORD[word] for word in row] for row in words(which)]).double()


def normalised(norm: int, which: int) -> torch.Tensor:
    x, real = block(which), is_word(which)
    if norm == 0:
        return F.layer_norm(x, (4,))
    if norm == 1:
        return F.batch_norm(x.flatten(0, 1), None, None, training=True).view(2, 5, 4)
    out = torch.zeros_like(x)
    out[real] = F.batch_norm(x[real], None, None, training=True)
    return out


def shows(stage, norm: int, which: int, place: tuple[int, int, int]) -> None:
    b, t, d = place
    x, real, state = block(which), is_word(which), stage.state
    assert (state["norm"], state["which"], state["place"]) == (norm, which, [b, t, d])
    assert state["value"] == pytest.approx(float(normalised(norm, which)[place]), abs=1e-3)
    shared = [x[b, t], x[:, :, d].flatten(), x[real][:, d] if real[b, t] else x[0, 0, :0]][norm]
    assert state["group"] == shared.tolist()
    marked = stage.tab.locator("table").first.locator("td.shared").all_inner_texts()
    assert list(map(float, marked)) == shared.tolist()
    if len(shared):
        assert state["mean"] == pytest.approx(float(shared.mean()), abs=1e-3)
        assert state["variance"] == pytest.approx(float(shared.var(correction=0)), abs=1e-3)
        assert f"with {len(shared) - 1} other numbers" in stage.says
    shown = stage.tab.locator("table").nth(1).get_by_role("gridcell").all_inner_texts()
    found = torch.tensor([float(text.replace("−", "-")) for text in shown]).double()
    assert torch.allclose(found, normalised(norm, which).flatten(), atol=0.0051)


@pytest.fixture
def blocks(stage):
    return stage(10, KIND)


@pytest.mark.parametrize("norm", range(3))
@pytest.mark.parametrize("which", range(5))
def test_by_mouse(blocks, norm, which):
    blocks.tab.get_by_role("radio", name=NORMS[norm], exact=True).click()
    blocks.tab.get_by_role("radio", name=OTHERS[which], exact=True).click()
    shows(blocks, norm, which, (0, 0, 0))
    for place in [(0, 3, 1), (1, 2, 3), (1, 4, 2)]:
        index = (place[0] * 5 + place[1]) * 4 + place[2]
        for table in (0, 1):
            blocks.tab.locator("table").nth(table).get_by_role("gridcell").nth(index).hover()
            shows(blocks, norm, which, place)


def test_by_keyboard(blocks):
    blocks.press("Tab", "ArrowRight")  # BatchNorm
    shows(blocks, 1, 0, (0, 0, 0))
    assert "2 of them of paddings" in blocks.says
    blocks.press("Tab", "Tab", "ArrowDown", "ArrowRight", "End")
    shows(blocks, 1, 0, (0, 1, 3))
    blocks.press(*["ArrowDown"] * 20)
    shows(blocks, 1, 0, (1, 4, 3))
    assert "1 of them of paddings" in blocks.says
    blocks.press("Shift+Tab", "ArrowRight")  # the other neighbour; the place stays
    shows(blocks, 1, 1, (1, 4, 3))


def test_the_neighbour_changes_bark_under_batch_norm_only(blocks):
    values = {}
    for norm, name in enumerate(NORMS):
        blocks.tab.get_by_role("radio", name=name, exact=True).click()
        for which, other in enumerate(OTHERS):
            blocks.tab.get_by_role("radio", name=other, exact=True).click()
            values[norm, which] = blocks.state["value"]
    distinct = [len({values[norm, which] for which in range(5)}) for norm in range(3)]
    assert distinct[0] == 1 and min(distinct[1:]) >= 4


def test_by_touch(stage):
    blocks = stage(10, KIND, **PHONE)
    blocks.tab.get_by_role("radio", name="BatchNorm, words only").tap()
    blocks.tab.locator("table").first.get_by_role("gridcell").nth(39).tap()
    shows(blocks, 2, 0, (1, 4, 3))
    assert "left out of the mean" in blocks.says
    assert blocks.tab.evaluate("document.documentElement.scrollWidth") == 390
