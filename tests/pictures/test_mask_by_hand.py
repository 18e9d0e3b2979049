"""A mask by hand (Chapter 8): weights and influence equal what the package computes."""

from __future__ import annotations

import math

import pytest
import torch

from allyouneed.attention import attention, masked_softmax
from allyouneed.masks import causal_mask
from allyouneed.multihead import MultiHeadAttention

KIND = "mask-by-hand"
PHONE = {"has_touch": True, "is_mobile": True, "viewport": {"width": 390, "height": 844}}
WORDS = ["he", "is", "a", "dog", "<pad>", "<pad>"]
X = torch.tensor([[1.0, 0, 2, 0], [0, 0, 0, 1], [0, 0, 1, 1], [2, 1, 0, 0], [0] * 4, [0] * 4])
QUERIES, KEYS = X[:, [0, 2]], X[:, [1, 0]]  # (being, reference) meets (quality, being)
PADDING = torch.tensor([True] * 4 + [False] * 2).expand(6, 6)
BOTH = PADDING & causal_mask(6)


def random_mask(seed: int) -> torch.Tensor:
    mask = torch.rand(6, 6, generator=torch.Generator().manual_seed(seed)) < 0.3
    mask[seed % 6] = False  # at least one query with nothing
    return mask


def test_the_weights_are_those_of_attention(core):
    for seed in range(6):
        torch.manual_seed(seed)
        q, k, v, mask = *torch.randn(3, 6, 4).double(), random_mask(seed)
        _, weights = attention(q, k, v, mask, return_weights=True)
        scores = (q @ k.T / 2).tolist()
        found = torch.tensor(core("maskedSoftmax", scores, mask.tolist(), kind=KIND))
        assert torch.allclose(found.double(), weights, atol=1e-12)


@pytest.mark.parametrize("layers", [1, 2, 6])
def test_what_is_felt_is_where_the_derivative_is_not_zero(core, layers):
    for seed in range(4):
        torch.manual_seed(seed)
        mask = random_mask(seed)
        nets = [MultiHeadAttention(8, 2).double() for _ in range(layers)]

        def through(x, mask=mask, nets=nets):
            for net in nets:
                x = x + net(x, x, x, mask)
            return x[0]

        x = torch.randn(1, 6, 8).double()
        jacobian = torch.autograd.functional.jacobian(through, x)  # (T, D, 1, S, D)
        depends = jacobian.abs().amax(dim=(1, 2, 4)) > 1e-12  # more than rounding
        assert core("felt", mask.tolist(), layers, kind=KIND) == depends.tolist()


def test_faults_are_found(core):
    mask = BOTH.clone()
    mask[0, 3] = mask[2, 5] = mask[4, 5] = True  # a leak, a padding, a row that nobody reads
    mask[1] = False
    found = core("faults", mask.tolist(), [True] * 4 + [False] * 2, kind=KIND)
    assert found == {"leaks": [[0, 3]], "paddings": [[2, 5]], "empty": [1], "unread": 1}


@pytest.fixture
def masks(stage):
    return stage(8, KIND)


def cell(masks, query: int, key: int):
    return masks.tab.get_by_role("grid").first.get_by_role("gridcell").nth(6 * query + key)


def shows(masks, mask: torch.Tensor) -> None:
    assert masks.state["mask"] == mask.tolist()
    weights = masked_softmax(QUERIES @ KEYS.T / math.sqrt(2), mask)
    assert torch.allclose(torch.tensor(masks.state["weights"]), weights, atol=1e-3)
    texts = masks.tab.get_by_role("grid").first.get_by_role("gridcell").all_inner_texts()
    for text, weight, may in zip(texts, weights.flatten(), mask.flatten(), strict=True):
        assert (float(text) == pytest.approx(float(weight), abs=0.006)) if may else text == ""


def test_the_four_masks(masks):
    four = {
        "no mask": torch.ones_like(BOTH),
        "padding mask": PADDING,
        "causal mask": causal_mask(6),
    }
    for name, mask in {**four, "both": BOTH}.items():
        button = masks.tab.get_by_role("button", name=name, exact=True)
        button.click()
        shows(masks, mask)
        assert masks.state["known"] == name and button.get_attribute("aria-pressed") == "true"
        assert len(masks.state["leaks"]) == int(mask[:4, :4].triu(1).sum())
        assert len(masks.state["paddings"]) == int(mask[:4, 4:].sum())
        if not mask[:4].triu(1).any():  # no word is wronged: the two masks differ in other rows
            assert masks.says.startswith("No word sees a later one, none a padding, and each has")
            what = "The 2 rows in which a padding sees" if mask[4:, 4:].any() else "Paddings see no"
            assert what in masks.says


def test_a_leak_by_mouse(masks):
    mask = BOTH.clone()
    mask[0, 3] = True
    cell(masks, 0, 3).click()
    shows(masks, mask)
    assert masks.says == (
        "“he” may see “dog”, which comes later: right in an encoder, a leak in a decoder. "
        "After 2 layers 3 words feel a later one."
    )
    masks.tab.get_by_role("radio", name="1", exact=True).click()
    assert masks.says.endswith("After 1 layer 1 word feels a later one.")
    cell(masks, 0, 3).click()
    shows(masks, BOTH)
    assert masks.state["leaks"] == [] and masks.state["known"] == "both"


def test_by_keyboard_the_triangle_one_word_too_far(masks):
    cell(masks, 0, 0).focus()
    masks.press("ArrowRight", "Enter", "ArrowDown", "ArrowRight", " ")
    masks.press("ArrowDown", "ArrowRight", "Enter")
    shows(masks, torch.ones(6, 6, dtype=torch.bool).tril(1) & PADDING)
    assert masks.says.startswith("This is the triangle, one word too far. 3 cells let a word")


def test_a_padding_and_an_empty_row_by_touch(stage):
    masks = stage(8, KIND, **PHONE)
    mask = BOTH.clone()
    mask[0, 0], mask[2, 4] = False, True
    cell(masks, 0, 0).tap()
    cell(masks, 2, 4).tap()
    shows(masks, mask)
    assert masks.state["empty"] == [0] and masks.state["weights"][0] == [0] * 6
    assert masks.says.startswith("“a” may see a padding. “he” may see nothing")
    assert masks.tab.evaluate("document.documentElement.scrollWidth") == 390
