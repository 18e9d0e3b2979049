"""Byte pairs (Chapter 1): every cut that the picture shows is one that the tokenizer makes."""

from __future__ import annotations

import json
import re

import pytest
import tokenizers

from allyouneed import pictures, weights
from allyouneed.tokens import SPECIALS, Tokenizer

TEXT = ["the cat sat on the mat.", "le chat est assis.", "that cat, the chat"] * 3
SENTENCES = ["the chat sat.", "that hat"]


def first(tokenizer: Tokenizer, n: int) -> Tokenizer:
    """The tokenizer as it was after n merges."""
    model = json.loads(tokenizer.bpe.to_str())
    keep = len(model["model"]["vocab"]) - len(model["model"]["merges"]) + n
    vocab = {token: i for token, i in model["model"]["vocab"].items() if i < keep}
    model["model"] |= {"merges": model["model"]["merges"][:n], "vocab": vocab}
    return Tokenizer(tokenizers.Tokenizer.from_str(json.dumps(model)))


def numbers(tokenizer: Tokenizer) -> dict[str, str]:
    """The merges and the letters of a tokenizer, as the picture wants them."""
    model = json.loads(tokenizer.bpe.to_str())["model"]
    letters = list(model["vocab"])[len(SPECIALS) : -len(model["merges"])]
    merges = "\n".join(" ".join(pair) for pair in model["merges"])
    return {"merges": merges, "letters": "".join(letters)}


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(TEXT, 60)


@pytest.fixture(scope="module")
def steps(tokenizer):
    """For each sentence what the picture should show: from the library."""
    merges = json.loads(tokenizer.bpe.to_str())["model"]["merges"]
    all_steps = []
    for sentence in SENTENCES:
        steps, before = [], None
        for n in range(len(merges) + 1):
            tokens = first(tokenizer, n).tokens(sentence)
            if tokens != before:
                steps.append((n, *(merges[n - 1] if n else ("", "")), tokens))
                before = tokens
        all_steps.append(steps)
    assert min(map(len, all_steps)) > 5
    return all_steps


@pytest.fixture
def picture(tokenizer):
    return pictures.interactive("byte-pairs", sentences=SENTENCES, **numbers(tokenizer))


def shows(page, steps, which: int, step: int) -> None:
    n, left, right, pieces = steps[which][step]
    assert page.state == {"sentence": SENTENCES[which], "merges": n, "tokens": pieces}
    assert page.tab.locator(".piece").all_inner_texts() == pieces
    last = {left + right} if n else set()
    assert set(page.tab.locator(".piece.last").all_inner_texts()) == last
    assert page.tab.locator(".slider output").inner_text() == str(n)
    if n:
        assert f"Merge {n} joins “{left}” and “{right}” to “{left + right}”" in page.says
        assert f": {len(pieces)} tokens, from {len(SENTENCES[which]) + 1}." in page.says


def test_by_keyboard(stage, steps, picture):
    page = stage(picture)
    shows(page, steps, 0, 0)
    page.press("Tab", "Tab", "Tab", "ArrowRight", "ArrowRight", "ArrowRight")
    shows(page, steps, 0, 3)
    page.press("ArrowLeft")
    shows(page, steps, 0, 2)
    page.press("End")
    shows(page, steps, 0, len(steps[0]) - 1)
    page.press("Shift+Tab", "Shift+Tab", "ArrowRight")
    shows(page, steps, 1, 0)
    page.press("Tab", "Tab", "End")
    shows(page, steps, 1, len(steps[1]) - 1)


def test_a_sentence_of_ones_own(stage, steps, tokenizer, picture):
    """Typed, it is cut as the tokenizer cuts it; the slider goes back; a choice clears it."""
    page = stage(picture)
    page.press("Tab", "Tab")
    page.tab.keyboard.type("the hat sat, le chat")
    assert page.state["sentence"] == "the hat sat, le chat"
    assert page.state["tokens"] == tokenizer.tokens("the hat sat, le chat")
    assert page.tab.locator("[aria-checked='true']").count() == 0
    page.press("Tab", "Home")
    assert page.state["tokens"] == list("▁the▁hat▁sat,▁le▁chat")
    page.tab.get_by_role("textbox").fill("cat 猫")
    assert page.state["tokens"] == tokenizer.tokens("cat 猫") and "<unk>" in page.says
    page.tab.get_by_role("textbox").fill("")  # nothing to cut: what was there stays
    assert page.state["sentence"] == "cat 猫"
    page.tab.get_by_role("radio", name=SENTENCES[1]).click()
    shows(page, steps, 1, 0)
    assert page.tab.get_by_role("textbox").input_value() == ""


def test_by_mouse_the_dot_is_on_the_stairs(stage, steps, picture):
    page = stage(picture)
    page.tab.get_by_role("radio", name=SENTENCES[1]).click()
    box = page.tab.get_by_role("slider").bounding_box()
    page.tab.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    step = next(i for i, one in enumerate(steps[1]) if one[0] == page.state["merges"])
    assert abs(step - (len(steps[1]) - 1) / 2) <= 1
    shows(page, steps, 1, step)
    x, y = (float(page.tab.locator("circle.now").get_attribute(c)) for c in ("cx", "cy"))
    path = page.tab.locator("path.stairs").get_attribute("d")
    corners = re.findall(r"H([\d.]+)V([\d.]+)", path)
    assert [float(c) for c in corners[step - 1]] == pytest.approx([x, y], abs=0.1)


def test_by_touch(stage, steps, picture):
    page = stage(picture, has_touch=True, is_mobile=True, viewport={"width": 390, "height": 844})
    page.tab.get_by_role("radio", name=SENTENCES[1]).tap()
    box = page.tab.get_by_role("slider").bounding_box()
    page.tab.touchscreen.tap(box["x"] + box["width"] - 3, box["y"] + box["height"] / 2)
    shows(page, steps, 1, len(steps[1]) - 1)
    assert page.tab.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize(
    "sentence",
    [
        "The black cats are sleeping.", "Qu'est-ce que c'est ?", "« Là-bas », dit-elle !",
        "e\u0301te\u0301", "two  spaces", "What a phenomenon, 1,000 times!", "私 is Japanese.",
        "Oui\u202f!", "a_b", "unphotogenic hedgehogs' neighbours", " space first", "x",
    ],
)  # fmt: skip
def test_any_sentence_is_cut_as_the_tokenizer_cuts_it(core, sentence):
    tokenizer = Tokenizer.load(weights.path("translator-tokenizer.json"))
    data = numbers(tokenizer)
    code = """((sentence, merges, letters) => mergeSteps(sentence,
        new Map(merges.split("\\n").map((pair, i) => [pair, i + 1])), letters))"""
    steps = core(code, sentence, data["merges"], data["letters"], kind="byte-pairs")
    assert steps[-1][3] == tokenizer.tokens(sentence)


def test_what_the_chapter_shows(stage):
    page = stage(1, "byte-pairs")
    data = json.loads(page.tab.locator("script[type='application/json']").text_content())
    tokenizer = Tokenizer.load(weights.path("translator-tokenizer.json"))
    assert {name: data[name] for name in ("merges", "letters")} == numbers(tokenizer)
    for sentence in data["sentences"]:
        page.tab.get_by_role("radio", name=sentence).click()
        page.tab.get_by_role("slider").press("End")
        assert page.state["tokens"] == tokenizer.tokens(sentence)
