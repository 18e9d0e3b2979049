"""Two models, two masks (Chapter 16): the guesses are the models' own, and what is read shows."""

from __future__ import annotations

import dataclasses
import functools
import json

import pytest
import torch

from allyouneed.families import LanguageModel, load_language_model
from allyouneed.tokens import EOS

KIND = "mask-switch"
PHONE = {"has_touch": True, "is_mobile": True, "viewport": {"width": 390, "height": 844}}
SENTENCES = [
    "The album was released in 2007 .",
    "The film was directed by John Ford .",
    "She was the first woman to win the prize .",
]
BOTH = [(model, mask) for model in ("GPT", "BERT") for mask in ("causal", "full")]


@functools.cache
def model_of(name: str, mask: str):
    model, tokenizer = load_language_model(name.lower())
    other = LanguageModel(dataclasses.replace(model.config, causal=mask == "causal")).eval()
    other.load_state_dict(model.state_dict())
    return other, tokenizer


@pytest.fixture
def picture(stage):
    return stage(16, KIND)


def probabilities(name: str, mask: str, sentence: str, place: int) -> torch.Tensor:
    """Of the token at a place, counted without the EOS in front; one stands at the end, too."""
    model, tokenizer = model_of(name, mask)
    tokens = torch.tensor([[EOS, *tokenizer.encode(sentence), EOS]])
    if name == "BERT":
        tokens[0, place + 1] = len(tokenizer) - 1
    with torch.no_grad():
        return model(tokens)[0, place + (name == "BERT")].softmax(-1)  # GPT: one place before


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("name, mask", BOTH)
def test_every_guess_is_the_models(picture, which, name, mask):
    data = json.loads(picture.tab.locator("script[type='application/json']").text_content())
    tokens, guesses = (data["sentences"][which][key] for key in ("tokens", "guesses"))
    _, tokenizer = model_of(name, mask)
    sentence = SENTENCES[which]
    ids = tokenizer.encode(sentence)
    assert [tokenizer.bpe.id_to_token(i).lstrip("▁") for i in ids] == tokens
    found = guesses[f"{name}, {mask}"]
    for place, i in enumerate(ids):
        p = probabilities(name, mask, sentence, place)
        assert found["right"][place] == pytest.approx(p[i].item(), rel=2e-2, abs=2e-3)
        best = [q for _, q in found["best"][place]]
        assert best == pytest.approx(p.topk(4).values.tolist(), rel=2e-2, abs=2e-3)


def shows(picture, name: str, mask: str, asked: int) -> None:
    state = picture.state
    assert (state["model"], state["mask"], state["asked"]) == (name, mask, asked)
    for place, seen in enumerate(state["seen"]):
        itself = place == asked and mask == "full" and name == "GPT"
        assert seen == (itself or place < asked or (mask == "full" and place > asked))
    struck = picture.tab.locator(".sentence button.hidden").count()
    assert struck == state["seen"].count(False)
    open_fields = picture.tab.locator(".who rect.open").count()
    n = len(state["seen"])
    assert open_fields == (n * n if mask == "full" else n * (n + 1) // 2)


def test_the_switch_by_keyboard(picture):
    shows(picture, "GPT", "causal", 4)
    picture.tab.get_by_role("radio", name="GPT", exact=True).focus()
    picture.press("Tab", "ArrowRight")
    shows(picture, "GPT", "full", 4)
    assert "with the word itself in view" in picture.says
    picture.press("Shift+Tab", "ArrowRight")
    shows(picture, "BERT", "full", 4)
    picture.press("Tab", "Tab", "ArrowRight", "Tab", "ArrowRight")
    shows(picture, "BERT", "full", 5)
    assert picture.state["sentence"] == 1


def test_by_mouse(picture):
    group = picture.tab.get_by_role("radiogroup", name="Asked for")
    group.get_by_role("radio").nth(2).hover()
    shows(picture, "GPT", "causal", 2)
    assert picture.tab.locator(".shares tr").count() == 4


def test_by_touch(stage):
    picture = stage(16, KIND, **PHONE)
    picture.tab.get_by_role("radio", name="BERT", exact=True).tap()
    picture.tab.get_by_role("radio", name="full", exact=True).tap()
    shows(picture, "BERT", "full", 4)
    assert picture.tab.evaluate("document.documentElement.scrollWidth") <= 390
