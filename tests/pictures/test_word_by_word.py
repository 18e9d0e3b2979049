"""A translation token by token (Chapter 14): the probabilities are the model's own."""

from __future__ import annotations

import math
import re

import pytest
import torch

import allyouneed
from allyouneed.decoding import beam_search
from allyouneed.tokens import BOS, EOS

KIND = "word-by-word"


@pytest.fixture(scope="module")
def translator():
    return allyouneed.pretrained("tatoeba-en-fr", "cpu")


@pytest.fixture
def words(stage):
    return stage(14, KIND)


@pytest.fixture
def expected(translator, words):
    """expected(): probabilities (T, V) and ids of the translation that is now to be seen."""
    model, tokenizer = translator

    def compute():
        source = words.tab.locator(".sentence").first.inner_text().replace("English", "").strip()
        src = torch.tensor([[*tokenizer.encode(source), EOS]])
        ids = [*beam_search(model, src, 4)[0], EOS]
        with torch.no_grad():
            p = model(src, torch.tensor([[BOS, *ids[:-1]]])).softmax(-1)[0]
        return p, ids

    return compute


def shows(words, p, ids, t: int) -> None:
    state = words.state
    assert state["token"] == t
    assert state["p"] == pytest.approx(p[t, ids[t]].item(), rel=2e-2, abs=2e-3)
    best = p[t].topk(5).values.tolist()
    assert [q for _, q in state["likeliest"]] == pytest.approx(best, rel=2e-2, abs=2e-3)
    said = float(re.search(r"has the probability (\d\.\d\d)\.", words.says)[1])
    assert said == pytest.approx(state["p"], abs=0.0051)


@pytest.mark.parametrize("sentence", range(8))
def test_every_token_by_keyboard(words, expected, sentence):
    words.tab.get_by_role("radiogroup", name="Sentence").get_by_role("radio").first.focus()
    words.press(*["ArrowRight"] * sentence)
    assert words.state["sentence"] == sentence
    p, ids = expected()
    words.press("Tab")
    for t in range(len(ids)):
        shows(words, p, ids, t)
        words.press("ArrowRight")
    sure = math.exp(sum(p[t, i].log().item() for t, i in enumerate(ids)) / len(ids))
    assert words.state["certainty"] == pytest.approx(sure, abs=0.01)
    unsure = sum(p[t, i].item() < 0.5 for t, i in enumerate(ids))
    assert words.tab.locator("button.unsure").count() == unsure


def test_by_mouse(words, expected):
    p, ids = expected()
    group = words.tab.get_by_role("radiogroup", name="Ours")
    group.get_by_role("radio").nth(3).hover()
    shows(words, p, ids, 3)
    assert words.tab.locator(".shares tr.taken").count() == 1
    widths = words.tab.locator(".shares .bar").evaluate_all(
        "bars => bars.map(bar => parseFloat(bar.style.getPropertyValue('--w')))"
    )
    assert widths[:5] == [q for _, q in words.state["likeliest"]]


def test_by_touch(stage):
    phone = {"has_touch": True, "is_mobile": True, "viewport": {"width": 390, "height": 844}}
    words = stage(14, KIND, **phone)
    words.tab.get_by_role("radiogroup", name="Sentence").get_by_role("radio").nth(2).tap()
    assert words.state["sentence"] == 2
    words.tab.get_by_role("radiogroup", name="Ours").get_by_role("radio").nth(5).tap()
    assert words.state["token"] == 5
    assert words.tab.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_reader_judges_before_the_reference_is_seen(words):
    assert words.tab.get_by_text("Reference").count() == 0
    yes = words.tab.get_by_role("button", name="yes", exact=True)
    yes.focus()
    words.press("Enter")
    assert words.state["agreement"] == [1, 1]
    assert "You say right, one other person says: right. You agree in 1 of 1." in words.says
    assert words.tab.get_by_text("Reference").count() == 1
    for sentence in (2, 3):
        group = words.tab.get_by_role("radiogroup", name="Sentence")
        group.get_by_role("radio").nth(sentence).click()
        yes.click()
    assert words.state["agreement"] == [1, 3]
    assert "one other person says: wrong word. You agree in 1 of 3." in words.says
