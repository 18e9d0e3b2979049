"""The softmax and its gradient against the width (Chapter 6), as the package computes them."""

from __future__ import annotations

import math

import pytest
import torch

from allyouneed import pictures
from allyouneed.attention import attention

KIND = "temperature"
PHONE = {"has_touch": True, "is_mobile": True, "viewport": {"width": 390, "height": 844}}
WIDTHS = [2, 8, 32, 128, 512]
PLAIN, SCALED = "not divided", "divided by the root"


def look(q, k, v, rooted: bool):
    """Weights (9) of one query (1, K), and the length of the gradient that reaches it."""
    q = q.clone().requires_grad_()
    longer = 1 if rooted else math.sqrt(q.shape[-1])  # undoes the division in `attention`
    output, weights = attention(q * longer, k, v, return_weights=True)
    return weights[0].tolist(), torch.autograd.grad(output.sum(), q)[0].norm().item()


@pytest.fixture(scope="module")
def looks():
    """looks[rooted][query][width]: weights and gradient; and the data of the picture."""
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 512), torch.randn(3, 9, 512), torch.randn(3, 9, 4)
    q, k, v = q.double(), k.double(), v.double()
    found = [
        [[look(q[n][:, :d], k[n][:, :d], v[n], rooted) for d in WIDTHS] for n in range(3)]
        for rooted in (False, True)
    ]
    scores = torch.stack([(q[..., :d] @ k[..., :d].mT)[:, 0] for d in WIDTHS], dim=1)
    gradients = {
        name: [[length for _, length in row] for row in found[rooted]]
        for rooted, name in enumerate(("plain", "scaled"))
    }
    data = {"widths": WIDTHS, "scores": scores, "gradients": gradients}
    return found, data


@pytest.fixture
def picture(stage, looks):
    return stage(pictures.interactive(KIND, digits=9, **looks[1]))


def shows(picture, looks, rooted: bool, query: int, width: int) -> None:
    weights, gradient = looks[0][rooted][query][width]
    state = picture.state
    assert (state["rooted"], state["query"], state["wide"]) == (rooted, query, WIDTHS[width])
    assert state["weights"] == pytest.approx(weights, abs=1e-6)
    assert state["gradient"] == pytest.approx(gradient)
    p = torch.tensor(weights)
    entropy = torch.special.entr(p).sum().item()
    assert state["slopes"] == pytest.approx((p * (1 - p)).tolist(), abs=1e-6)
    assert f"Width {WIDTHS[width]}, {SCALED if rooted else PLAIN}:" in picture.says
    assert f"largest weight is {p.max():.2f}, the entropy {entropy:.2f} of" in picture.says
    heights = picture.tab.eval_on_selector_all(
        "rect.weight", "bars => bars.map(bar => Number(bar.getAttribute('height')))"
    )
    assert heights == pytest.approx([130 * weight for weight in weights], abs=1e-3)


def test_it_computes_what_pytorch_computes(core):
    for seed, divisor in enumerate((1.0, 0.3, 8.0, 22.6)):
        scores = 8 * torch.randn(9, generator=torch.Generator().manual_seed(seed)).double()
        found = core("temper", scores.tolist(), divisor, kind=KIND)
        p = (scores / divisor).softmax(-1)
        slopes = torch.autograd.functional.jacobian(lambda s: s.softmax(-1), scores / divisor)
        assert found["weights"] == pytest.approx(p.tolist())
        assert found["entropy"] == pytest.approx(torch.special.entr(p).sum().item())
        assert found["largest"] == pytest.approx(p.max().item())
        assert found["slopes"] == pytest.approx(slopes.diagonal().tolist(), abs=1e-12)


def test_the_entropy_of_a_hard_choice_is_zero(core):
    found = core("temper", [0, 5000], 1, kind=KIND)
    assert (found["entropy"], found["largest"], found["slopes"]) == (0, 1, [0, 0])


def test_the_median_is_that_of_pytorch(core):
    for n in (5, 16):
        numbers = torch.randn(n, generator=torch.Generator().manual_seed(n)).double()
        assert core("median", numbers.tolist(), kind=KIND) == numbers.median().item()


@pytest.mark.parametrize(
    "x, text", [(1.234, "1.23"), (0.00321, "3.2\u00a0×\u00a010⁻³"), (1e-40, "less than 10⁻¹²")]
)
def test_small_numbers(core, x, text):
    assert core("small", x, kind=KIND) == text


def test_by_keyboard(picture, looks):
    shows(picture, looks, False, 0, 2)
    picture.press("Tab", "ArrowRight", "ArrowRight")
    shows(picture, looks, False, 0, 4)
    assert picture.tab.get_by_role("slider").get_attribute("aria-valuetext") == "512"
    picture.press("Tab", "ArrowRight")
    shows(picture, looks, True, 0, 4)
    picture.press("Tab", "Enter", "Enter")
    shows(picture, looks, True, 2, 4)
    picture.press("Enter", "Shift+Tab", "Shift+Tab", "Home")
    shows(picture, looks, True, 0, 0)


def test_by_mouse(picture, looks):
    picture.tab.get_by_role("radio", name=SCALED).click()
    shows(picture, looks, True, 0, 2)
    picture.tab.get_by_role("button", name="another query").click()
    shows(picture, looks, True, 1, 2)
    box = picture.tab.get_by_role("slider").bounding_box()
    picture.tab.mouse.click(box["x"] + box["width"] - 3, box["y"] + box["height"] / 2)
    shows(picture, looks, True, 1, 4)


def test_by_touch(stage, looks):
    picture = stage(pictures.interactive(KIND, digits=9, **looks[1]), **PHONE)
    picture.tab.get_by_role("radio", name=SCALED).tap()
    picture.tab.get_by_role("button", name="another query").tap()
    box = picture.tab.get_by_role("slider").bounding_box()
    picture.tab.touchscreen.tap(box["x"] + 3, box["y"] + box["height"] / 2)
    shows(picture, looks, True, 1, 0)
    assert picture.tab.evaluate("document.documentElement.scrollWidth") <= 390


def test_what_the_chapter_shows(stage):
    """Not divided, most gradients die as the width grows; divided, none does."""
    picture = stage(6, KIND)
    picture.tab.get_by_role("slider").press("End")
    assert picture.state["wide"] == 4096
    assert picture.state["largest"] > 0.99 and picture.state["gradient"] < 1e-6
    low = "dots => dots.filter(dot => Number(dot.getAttribute('cy')) > 100).length"
    assert picture.tab.eval_on_selector_all(".dots circle", low) > 16
    picture.tab.get_by_role("radio", name=SCALED).click()
    assert picture.state["largest"] < 0.5 and picture.state["gradient"] > 0.1
    assert picture.tab.eval_on_selector_all(".dots circle", low) == 0
