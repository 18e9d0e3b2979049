"""The heads of the trained model (Chapter 15): the picture shows what the model computes."""

from __future__ import annotations

import pytest
import torch

import allyouneed
from allyouneed.tokens import BOS, EOS

KIND = "trained-heads"
PAIRS = [
    ("She followed him home.", "Elle le suivit à la maison."),
    ("The facts are not clear.", "Les faits ne sont pas clairs."),
    ("I didn't tell him everything.", "Je ne lui ai pas tout dit."),
]


KINDS = ["encoder", "decoder", "cross"]


@pytest.fixture(scope="module")
def maps():
    """For each sentence {kind: weights (layers, heads, rows, columns)}."""
    model, tokenizer = allyouneed.pretrained("tatoeba-en-fr", "cpu")
    found = []
    for english, french in PAIRS:
        src = torch.tensor([[*tokenizer.encode(english), EOS]])
        tgt = torch.tensor([[BOS, *tokenizer.encode(french)]])
        with torch.no_grad():
            _, weights = model(src, tgt, return_weights=True)
        found.append({kind: torch.cat(getattr(weights, kind)) for kind in KINDS})
    return found


@pytest.fixture
def heads(stage):
    return stage(15, KIND)


def shows(heads, maps) -> None:
    """The row in the picture's state is that row of the model's map."""
    state = heads.state
    layer = maps[state["sentence"]][state["kind"]][state["layer"]]
    expected = layer.mean(0) if state["head"] == len(layer) else layer[state["head"]]
    assert state["weights"] == pytest.approx(expected[state["row"]].tolist(), abs=0.0051)
    assert f"{max(state['weights']):.2f}, to “" in heads.says


@pytest.mark.parametrize("sentence, kind", [(0, "decoder"), (1, "encoder"), (2, "cross")])
def test_all_heads_of_a_kind(heads, maps, sentence, kind):
    heads.tab.get_by_role("radio", name=PAIRS[sentence][0]).click()
    heads.tab.get_by_role("radio", name=kind, exact=True).click()
    for layer in range(3):
        heads.tab.get_by_role("radiogroup", name="Layer").get_by_text(f"{layer + 1}").click()
        for head, name in enumerate(["1", "2", "3", "4", "mean"]):
            heads.tab.get_by_role("radiogroup", name="Head").get_by_text(name).click()
            state = heads.state
            chosen = [state[key] for key in ("sentence", "kind", "layer", "head")]
            assert chosen == [sentence, kind, layer, head]
            shows(heads, maps)


def test_by_keyboard(heads, maps):
    heads.tab.get_by_role("radio", name="cross", exact=True).focus()
    heads.press("ArrowLeft", "Tab", "ArrowRight", "Tab", "End", "Tab")
    heads.press("ArrowDown", "ArrowDown", "ArrowRight")
    state = heads.state
    assert (state["kind"], state["head"], state["row"], state["column"]) == ("decoder", 4, 2, 1)
    shows(heads, maps)


def test_by_mouse_and_the_cells_are_the_weights(heads, maps):
    cell = heads.tab.get_by_role("gridcell").nth(2 * 7 + 3)
    cell.hover()
    state = heads.state
    assert (state["row"], state["column"]) == (2, 3)
    shows(heads, maps)
    fill = float(cell.evaluate("cell => cell.style.getPropertyValue('--w')"))
    assert fill == pytest.approx(state["weights"][3], abs=1e-3)


def test_by_touch(stage, maps):
    phone = {"has_touch": True, "is_mobile": True, "viewport": {"width": 390, "height": 844}}
    heads = stage(15, KIND, **phone)
    heads.tab.get_by_role("radio", name=PAIRS[2][0]).tap()
    heads.tab.get_by_role("gridcell").nth(0).tap()
    assert heads.state["sentence"] == 2 and heads.state["row"] == 0
    shows(heads, maps)
    assert heads.tab.evaluate("document.documentElement.scrollWidth") <= 390


def test_mean_of_heads_and_one_head(core):
    layer = torch.randint(0, 101, (4, 3, 5), generator=torch.Generator().manual_seed(0))
    for head in range(4):
        one = core("mapOf", layer.tolist(), head, kind=KIND)
        assert torch.allclose(torch.tensor(one), layer[head] / 100)
    mean = torch.tensor(core("mapOf", layer.tolist(), 4, kind=KIND))
    assert torch.allclose(mean, layer.double().mean(0).float() / 100)
