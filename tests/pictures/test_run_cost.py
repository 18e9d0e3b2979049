"""What a training takes (Chapter 19): the browser's cost model is the package's."""

from __future__ import annotations

import dataclasses

import pytest

from allyouneed import pictures, scaling
from allyouneed.transformer import TransformerConfig

DEVICES = [scaling.V100, scaling.A100, scaling.H100]
REST = {"vocabulary": 37_000, "length": 30, "utilisation": 0.35, "loading": 2.8e6}
MODELS = [
    {"name": "base", "d": 512, "layers": 6, "steps": 100_000},
    {"name": "big", "d": 1024, "layers": 6, "steps": 300_000},
]


def config(d: int, layers: int) -> TransformerConfig:
    return TransformerConfig(37_000, d, 4 * d, d // 64, layers, dropout=0.1)


@pytest.fixture
def picture():
    devices = [dataclasses.asdict(device) for device in DEVICES]
    return pictures.interactive("run-cost", devices=devices, models=MODELS, **REST)


@pytest.mark.parametrize("d, layers, tokens, n, device", [
    (512, 6, 25_000, 8, scaling.H100), (1024, 6, 25_000, 32, scaling.A100),
    (2048, 24, 400_000, 256, scaling.V100), (256, 1, 3_125, 1, scaling.H100),
])  # fmt: skip
def test_the_same_numbers_as_the_package(core, d, layers, tokens, n, device):
    model, fields = config(d, layers), dataclasses.asdict(device)
    P = scaling.parameter_count(model)
    assert core("parameters", d, layers, 37_000, kind="run-cost") == P
    found = core("update", d, layers, tokens, n, fields, REST, kind="run-cost")
    wanted = scaling.project(model, device, n, 1, tokens=tokens)
    for name in ("compute", "host", "exposed", "step"):
        assert found[name] == pytest.approx(getattr(wanted, name), rel=1e-9), name
    held = core("memory", d, layers, 37_000, tokens, n, kind="run-cost")
    state = scaling.state_bytes(P)
    assert {name: held[name] for name in state} == pytest.approx(state)
    activations = scaling.activation_bytes(model, tokens / n, tokens / n)
    assert held["activations"] == pytest.approx(activations, rel=1e-9)


def shows(page, device, n: int, tokens: int, d: int, layers: int, steps: int) -> None:
    state, wanted = page.state, scaling.project(config(d, layers), device, n, steps, tokens=tokens)
    assert (state["device"], state["n"], state["tokens"]) == (device.name, n, tokens)
    assert state["hours"] == pytest.approx(wanted.hours, rel=1e-3)
    if device.price is not None:
        assert state["price"] == pytest.approx(wanted.price, rel=1e-3)
    assert ("wait for their hosts" in page.says) == (wanted.host > wanted.compute)
    assert ("does not fit" in page.says) == (state["total"] > device.memory)


def test_by_keyboard(stage, picture):
    page = stage(picture)
    shows(page, scaling.H100, 8, 25_000, 512, 6, 100_000)
    page.press("Tab", "ArrowLeft")
    shows(page, scaling.A100, 8, 25_000, 512, 6, 100_000)
    page.press("ArrowLeft", "Tab", "Tab", "Enter")
    shows(page, scaling.V100, 8, 25_000, 1024, 6, 300_000)
    page.tab.get_by_role("slider", name="GPUs", exact=True).focus()
    page.press("Home")
    shows(page, scaling.V100, 1, 25_000, 1024, 6, 300_000)
    assert not page.state["fits"]
    page.press("Tab", "ArrowLeft", "ArrowLeft")
    shows(page, scaling.V100, 1, 6_250, 1024, 6, 300_000)
    assert page.state["fits"]


def test_by_mouse_and_touch(stage, picture):
    page = stage(picture)
    page.tab.get_by_role("button", name="big").click()
    shows(page, scaling.H100, 8, 25_000, 1024, 6, 300_000)
    page = stage(picture, has_touch=True, is_mobile=True, viewport={"width": 390, "height": 844})
    page.tab.get_by_role("radio", name="A100").tap()
    box = page.tab.get_by_role("slider", name="GPUs", exact=True).bounding_box()
    page.tab.touchscreen.tap(box["x"] + box["width"] - 3, box["y"] + box["height"] / 2)
    shows(page, scaling.A100, 1_024, 25_000, 512, 6, 100_000)
    assert page.tab.evaluate("document.documentElement.scrollWidth") <= 390
