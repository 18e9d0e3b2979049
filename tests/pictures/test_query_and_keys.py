"""A query and keys as arrows (Chapter 5): what the picture computes is what the package does."""

from __future__ import annotations

import math
import re

import pytest
import torch

from allyouneed.attention import attention

KIND = "query-and-keys"
PHONE = {"has_touch": True, "is_mobile": True, "viewport": {"width": 390, "height": 844}}
VALUES = torch.tensor([[2.0, 0], [0, 1], [0, 2], [2, 1]])  # of Bark, very, cute and dog


def by_package(query, keys, values):
    """Weights and output of one query; Chapter 5 does not divide the scores by the root yet."""
    q = torch.tensor([query], dtype=torch.float64) * math.sqrt(2)
    k, v = (torch.as_tensor(one, dtype=torch.float64) for one in (keys, values))
    output, weights = attention(q, k, v, return_weights=True)
    return weights[0].tolist(), output[0].tolist()


@pytest.fixture
def arrows(stage):
    return stage(5, KIND)


def shows(arrows, query=None, **keys) -> None:
    """What is to be seen follows from where the arrows now are."""
    state = arrows.state
    weights, output = by_package(state["query"], state["keys"], VALUES)
    assert state["weights"] == pytest.approx(weights)
    assert state["output"] == pytest.approx(output)
    if query is not None:
        assert state["query"] == pytest.approx(query)
    for word, key in keys.items():
        assert state["keys"][["Bark", "very", "cute", "dog"].index(word)] == pytest.approx(key)
    being, quality = (f"{number:.2f}".replace("-", "−") for number in output)
    assert f"Out comes being\u00a0{being}, quality\u00a0{quality}." in arrows.says
    numbers = arrows.tab.locator("table.shares .number:last-child").all_inner_texts()
    assert [float(number) for number in numbers] == pytest.approx(weights, abs=0.005001)


def test_it_computes_what_the_package_computes(core):
    for seed in range(5):
        torch.manual_seed(seed)
        query, keys, values = 2 * torch.randn(2), 2 * torch.randn(4, 2), torch.randn(4, 3)
        found = core("lookUp", query.tolist(), keys.tolist(), values.tolist(), kind=KIND)
        weights, output = by_package(query.tolist(), keys.tolist(), values.tolist())
        assert found["scores"] == pytest.approx((keys @ query).tolist(), abs=1e-5)
        assert found["weights"] == pytest.approx(weights)
        assert found["output"] == pytest.approx(output)


def test_a_score_is_the_shadow_times_the_length_of_the_query(core):
    for seed in range(5):
        query, key = torch.randn(2, 2, generator=torch.Generator().manual_seed(seed)).double()
        foot = core("shadow", query.tolist(), key.tolist(), kind=KIND)
        foot = torch.tensor(foot, dtype=torch.float64)
        assert float((key - foot) @ query) == pytest.approx(0, abs=1e-9)
        assert float(foot @ query) == pytest.approx(float(key @ query))
        assert float(foot.norm() * query.norm()) == pytest.approx(abs(float(key @ query)))
    assert core("shadow", [0, 0], [1, 2], kind=KIND) == [0, 0]


def test_the_shares_end_at_the_output(core):
    weights = [0.1, 0.2, 0.3, 0.4]
    ends = core("endToEnd", weights, VALUES.tolist(), kind=KIND)
    assert ends[0] == pytest.approx([0.2, 0])
    assert ends[-1] == pytest.approx((torch.tensor(weights) @ VALUES).tolist())


def test_at_the_start_it_shows_the_numbers_of_the_chapter(arrows):
    shows(arrows, query=[2, 0], Bark=[0, 2], very=[1, 0], cute=[2, 0], dog=[1, 2])
    assert "fits “cute” best: score 4.00, weight 0.78" in arrows.says


def test_by_keyboard(arrows):
    query = arrows.tab.get_by_role("slider", name="query")
    query.focus()
    arrows.press("ArrowUp", "ArrowLeft", "ArrowLeft")
    shows(arrows, query=[1.8, 0.1])
    arrows.press("Shift+ArrowDown", "Shift+ArrowLeft")
    shows(arrows, query=[0.8, -0.9])
    assert query.get_attribute("aria-valuetext") == "(0.8,\u00a0−0.9)"
    for _ in range(5):
        arrows.press("Shift+ArrowUp")
    shows(arrows, query=[0.8, 2.5])  # the edge of the plane
    arrows.tab.get_by_role("slider", name="key of very").focus()
    arrows.press("ArrowRight", "ArrowDown")
    shows(arrows, query=[0.8, 2.5], very=[1.1, -0.1])
    arrows.tab.get_by_role("button", name="back to the start").click()
    shows(arrows, query=[2, 0], very=[1, 0])


def test_a_query_of_zero_shares_evenly(arrows):
    arrows.tab.get_by_role("slider", name="query").focus()
    arrows.press("Shift+ArrowLeft", "Shift+ArrowLeft")
    shows(arrows, query=[0, 0])
    assert arrows.state["weights"] == [0.25] * 4
    assert "fits all keys alike: 0.25 to each" in arrows.says


def test_two_keys_that_fit_alike_are_both_named(arrows):
    arrows.tab.get_by_role("slider", name="query").focus()
    arrows.press("Shift+ArrowLeft", "Shift+ArrowLeft", "Shift+ArrowUp")
    shows(arrows, query=[0, 1])
    assert "fits “Bark” and “dog” best: score 2.00, weight 0.44" in arrows.says


def test_one_query_for_two_questions(stage):
    """The answer to what Chapter 7 opens with: each gets less than the one that is asked alone."""
    arrows = stage(7, KIND)
    alone = max(arrows.state["weights"])
    assert arrows.state["query"] == [1.4, 0] and arrows.state["weights"][2] == alone  # "cute"
    arrows.tab.get_by_role("slider", name="query").focus()
    arrows.press("Shift+ArrowUp", *["ArrowUp"] * 4)
    *_, cute, he = arrows.state["weights"]
    assert arrows.state["query"] == pytest.approx([1.4, 1.4])
    assert cute == he < alone / 1.5 and "fits “cute” and “he” best" in arrows.says
    keys = [[0, 1], [1, 0], [2, 0], [0, 2]]  # quality and reference of Bark, very, cute and he
    values = torch.tensor([[2.0, 0], [0, 1], [0, 2], [1, 0]])
    weights, output = by_package([1.4, 1.4], keys, values)
    assert arrows.state["weights"] == pytest.approx(weights)
    assert arrows.state["output"] == pytest.approx(output)


def drag(arrows, name, right, up):
    """Drag the head of an arrow so many units of the plane."""
    knob = arrows.tab.get_by_role("slider", name=name).locator("circle").last
    box, plane = knob.bounding_box(), arrows.tab.locator(".moving svg").first.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    unit = plane["width"] / 6.2
    arrows.tab.mouse.move(x, y)
    arrows.tab.mouse.down()
    arrows.tab.mouse.move(x + right * unit / 2, y)
    arrows.tab.mouse.move(x + right * unit, y - up * unit)
    arrows.tab.mouse.up()


def test_by_mouse(arrows):
    drag(arrows, "query", -1, 2)
    shows(arrows, query=[1, 2])
    assert "fits “dog” best" in arrows.says
    drag(arrows, "key of cute", -3, -1)
    shows(arrows, query=[1, 2], cute=[-1, -1])
    arrows.tab.mouse.move(0, 0)  # nothing is held any more
    shows(arrows, query=[1, 2], cute=[-1, -1])


def test_by_touch(stage):
    arrows = stage(5, KIND, **PHONE)
    knob = arrows.tab.get_by_role("slider", name="key of Bark").locator("circle").last
    box, plane = knob.bounding_box(), arrows.tab.locator(".moving svg").first.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    unit = plane["width"] / 6.2
    finger = arrows.tab.context.new_cdp_session(arrows.tab)
    path = [("touchStart", x, y), ("touchMove", x + unit, y), ("touchMove", x + unit, y + 3 * unit)]
    for kind, *at in path:
        points = [{"x": at[0], "y": at[1]}]
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    shows(arrows, Bark=[1, -1])
    assert arrows.tab.evaluate("scrollY") == 0  # the page stays where it is


def test_what_is_drawn_follows_the_numbers(arrows):
    drag(arrows, "query", -2, 2)
    line = arrows.tab.locator(".output line")
    angle = line.evaluate("e => Math.atan2(e.y1.baseVal.value - e.y2.baseVal.value,"
                          " e.x2.baseVal.value - e.x1.baseVal.value)")  # fmt: skip
    being, quality = arrows.state["output"]  # being to the right and quality upwards
    assert angle == pytest.approx(math.atan2(quality, being), abs=1e-3)
    bars = arrows.tab.locator("table.shares .bar").all()
    widths = [float(re.search(r"--w: ([\d.e-]+)", bar.get_attribute("style"))[1]) for bar in bars]
    assert widths == pytest.approx(arrows.state["weights"])


def test_a_key_under_the_head_of_the_query_can_be_held(arrows):
    drag(arrows, "key of cute", -1, 1)
    shows(arrows, query=[2, 0], cute=[1, 1])


def test_the_name_of_the_output_lies_over_no_other(arrows):
    """Where the query points along the value of a word, its name and "output" are near."""
    names = arrows.tab.locator(".moving svg").nth(1).locator("text:not(.soft)")
    arrows.tab.get_by_role("slider", name="query").focus()
    for keys in ([], ["Shift+ArrowUp"] * 2, ["Shift+ArrowLeft"] * 2, ["Shift+ArrowDown"] * 4):
        arrows.press(*keys)
        *words, output = [name.bounding_box() for name in names.all()]
        for word in words:
            beside = abs(word["x"] - output["x"]) >= max(word["width"], output["width"]) - 1 or (
                output["x"] + output["width"] < word["x"] or word["x"] + word["width"] < output["x"]
            )
            apart = abs(word["y"] - output["y"]) >= 0.8 * word["height"]
            assert beside or apart, arrows.state["query"]
