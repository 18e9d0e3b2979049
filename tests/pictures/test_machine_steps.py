"""The machine step by step (Chapter 11): shapes and rows are those of the package's own modules."""

from __future__ import annotations

import pytest
import torch

from allyouneed.transformer import Transformer, TransformerConfig

KIND = "machine-steps"
SIZES = {"B": 2, "S": 6, "T": 7, "D": 64, "F": 128, "H": 2, "K": 32, "V": 30, "1": 1}
SRC = torch.tensor([[6, 4, 23, 3, 0, 0], [11, 18, 21, 22, 8, 3]])
TGT = torch.tensor([[2, 6, 4, 23, 3, 0, 0], [2, 11, 18, 21, 22, 8, 3]])
MODES = ["training", "writing"]


@pytest.fixture(scope="module")
def model():
    return Transformer(TransformerConfig(30, 64, 128, 2, 2, dropout=0.0)).eval()


@pytest.fixture
def steps(stage):
    return stage(11, KIND)


def choose(steps, mode: str) -> None:
    steps.tab.get_by_role("radio", name=mode, exact=True).click()


def walk(steps) -> list[dict]:
    """The state at every step, from the first to the last."""
    bar = steps.tab.get_by_role("slider", name="Step")
    bar.focus()
    steps.press("Home")
    states = [steps.state]
    while steps.state["step"] < 19:
        steps.press("ArrowRight")
        states.append(steps.state)
    return states


def shapes_of(model, tgt) -> dict[str, list[int]]:
    """Shapes by hooks, here taken anew from the package."""
    found, hooks = {}, []
    for name, module in model.named_modules():
        hooks.append(
            module.register_forward_hook(
                lambda _, given, out, name=name: found.update({name: list(out.shape)})
            )
        )
    model.logits(model.decode(tgt, *model.encode(SRC)))
    for hook in hooks:
        hook.remove()
    return found


@pytest.mark.parametrize("mode, length", [("training", 7), ("writing", 3)])
def test_the_shapes_are_those_of_the_modules(steps, model, mode, length):
    choose(steps, mode)
    found = shapes_of(model, TGT[:, :length])
    _, maps = model(SRC, TGT[:, :length], return_weights=True)
    states = {state["box"]: state["shapes"] for state in walk(steps)}
    assert len(states) == 20
    for stack in ("encoder", "decoder"):
        layer = f"{stack}.layers.0"
        for name in ("self_attention", "feed_forward"):
            assert states[f"{stack} {name}"]["out"] == found[f"{layer}.{name}"]
        assert states[f"{stack} feed_forward"]["hidden"] == found[f"{layer}.feed_forward.w_1"]
        for i in range(2 + (stack == "decoder")):
            assert states[f"{stack} add {i}"]["out"] == found[f"{layer}.residuals.{i}"]
        assert states[f"{stack} layer 2"]["out"] == found[f"{stack}.layers.1"]
    weights = [states[f"{box}_attention"]["weights"] for box in ("encoder self", "decoder self")]
    assert weights == [list(maps.encoder[0].shape), list(maps.decoder[0].shape)]
    assert states["decoder cross_attention"]["weights"] == list(maps.cross[0].shape)


def test_writing_wants_the_last_place_only(steps):
    choose(steps, "writing")
    states = {state["box"]: state for state in walk(steps)}
    assert states["decoder self_attention"]["rows"][0] == ["made", "made", "own"]
    assert states["decoder logits"]["shapes"]["out"] == [2, 1, 30]
    assert {row for rows in states["encoder layer 2"]["rows"] for row in rows} == {"kept"}


@pytest.mark.parametrize("mode", MODES)
def test_letters_and_rows_fit_the_shapes(steps, core, mode):
    choose(steps, mode)
    sizes = SIZES | ({} if mode == "training" else {"T": 3})
    for state in walk(steps)[::2] if mode == "training" else walk(steps)[8:]:
        stack, part = state["box"].split(maxsplit=1)
        if stack == "encoder" and mode != "training":
            assert {kind for rows in state["rows"] for kind in rows} == {"kept"}
        tensors = core("tensorsOf", {"stack": stack, "part": part}, mode, kind=KIND)
        for name, axes, _ in tensors:
            assert state["shapes"][name] == [sizes[letter] for letter in axes.split()], state["box"]
        lengths = [state["shapes"][name][-2 if "D" in axes or "K" in axes else 1]
                   for name, axes, _ in tensors if name not in ("weights",)]  # fmt: skip
        rows = [rows for (name, _, _), rows in zip(tensors, state["rows"], strict=True)
                if name != "weights"]  # fmt: skip
        assert lengths == [len(one) for one in rows], state["box"]


def test_by_mouse_and_by_buttons(steps):
    assert steps.tab.get_by_role("button", name="Back").is_disabled()
    steps.tab.get_by_role("button", name="Next").click()
    assert steps.state["box"] == "encoder embedding"
    steps.tab.locator(".box.cross_attention").click()
    assert steps.state["box"] == "decoder cross_attention"
    assert "“o” asks the memory: keys and values of 6 source places." in steps.says
    steps.tab.get_by_role("button", name="Back").click()
    assert steps.state["box"] == "decoder add 0" and "residuals[0]" in steps.says
    steps.tab.locator(".box.softmax").click()
    assert steps.tab.get_by_role("button", name="Next").is_disabled()
    assert "out (B, T, V) = (2, 7, 30)" in steps.says


def test_by_touch(stage):
    phone = {"has_touch": True, "is_mobile": True, "viewport": {"width": 390, "height": 844}}
    steps = stage(11, KIND, **phone)
    steps.tab.get_by_role("radio", name="writing", exact=True).tap()
    following = steps.tab.get_by_role("button", name="Next")
    for _ in range(3):
        following.tap()
    plan = steps.tab.locator(".plan").bounding_box()  # in sight while one goes on
    assert plan["y"] >= 0 and plan["y"] + plan["height"] <= following.bounding_box()["y"] <= 844
    assert steps.state["mode"] == "writing" and steps.state["box"] == "encoder self_attention"
    assert "read once" in steps.says
    assert steps.tab.evaluate("document.documentElement.scrollWidth") <= 390
