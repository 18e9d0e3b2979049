"""Byte pairs (Chapter 1): every cut that the picture shows is one that the tokenizer makes."""

from __future__ import annotations

import json
import re

import pytest
import tokenizers

from allyouneed import pictures
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


@pytest.fixture(scope="module")
def steps():
    """For each sentence what the picture wants: from the library, not from the chapter's loop."""
    tokenizer = Tokenizer.train(TEXT, 60)
    merges = json.loads(tokenizer.bpe.to_str())["model"]["merges"]
    all_steps = []
    for sentence in SENTENCES:
        steps, before = [], None
        for n in range(len(merges) + 1):
            tokens = first(tokenizer, n).tokens(sentence)
            if tokens != before:
                steps.append((n, *(merges[n - 1] if n else ("", "")), " ".join(tokens)))
                before = tokens
        all_steps.append(steps)
    assert min(map(len, all_steps)) > 5
    return len(merges), all_steps


@pytest.fixture
def picture(steps):
    total, all_steps = steps
    sentences = [{"text": t, "steps": s} for t, s in zip(SENTENCES, all_steps, strict=True)]
    return pictures.interactive("byte-pairs", sentences=sentences, total=total)


def shows(page, steps, which: int, step: int) -> None:
    n, left, right, pieces = steps[1][which][step]
    assert page.state == {"sentence": which, "merges": n, "tokens": pieces.split()}
    assert page.tab.locator(".piece").all_inner_texts() == pieces.split()
    last = {left + right} if n else set()
    assert set(page.tab.locator(".piece.last").all_inner_texts()) == last
    assert page.tab.locator(".slider output").inner_text() == str(n)
    if n:
        assert f"Merge {n} joins “{left}” and “{right}” to “{left + right}”" in page.says
        assert f": {len(pieces.split())} tokens, from {len(SENTENCES[which]) + 1}." in page.says


def test_by_keyboard(stage, steps, picture):
    page = stage(picture)
    shows(page, steps, 0, 0)
    page.press("Tab", "Tab", "ArrowRight", "ArrowRight", "ArrowRight")
    shows(page, steps, 0, 3)
    page.press("ArrowLeft")
    shows(page, steps, 0, 2)
    page.press("End")
    shows(page, steps, 0, len(steps[1][0]) - 1)
    page.press("Shift+Tab", "ArrowRight")
    shows(page, steps, 1, 0)
    page.press("Tab", "End")
    shows(page, steps, 1, len(steps[1][1]) - 1)


def test_by_mouse_the_dot_is_on_the_stairs(stage, steps, picture):
    page = stage(picture)
    page.tab.get_by_role("radio", name=SENTENCES[1]).click()
    box = page.tab.get_by_role("slider").bounding_box()
    page.tab.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    step = next(i for i, one in enumerate(steps[1][1]) if one[0] == page.state["merges"])
    assert abs(step - (len(steps[1][1]) - 1) / 2) <= 1
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
    shows(page, steps, 1, len(steps[1][1]) - 1)
    assert page.tab.evaluate("document.documentElement.scrollWidth") <= 390


def test_what_the_chapter_shows(stage):
    page = stage(1, "byte-pairs")
    data = json.loads(page.tab.locator("script[type='application/json']").text_content())
    for sentence in data["sentences"]:
        assert not any(token in sentence["text"] for token in SPECIALS)
        spelled = sentence["steps"][0][3]
        assert spelled.replace(" ", "") == "▁" + sentence["text"].replace(" ", "▁")
        for before, (_, left, right, pieces) in zip(
            sentence["steps"], sentence["steps"][1:], strict=False
        ):
            tokens, i = before[3].split(), 0
            while i < len(tokens) - 1:  # the merge by hand, without a pattern
                if tokens[i : i + 2] == [left, right]:
                    tokens[i : i + 2] = [left + right]
                i += 1
            assert tokens == pieces.split()
