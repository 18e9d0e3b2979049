"""A tree that grows as it is written (Chapter 18): the rule, the spans and F1 are the package's."""

from __future__ import annotations

import json
import random

import pytest

from allyouneed.parsing import bracket_score, brackets, linearise, may_follow, read_tree, rebuild

KIND = "growing-tree"
PHONE = {"has_touch": True, "is_mobile": True, "viewport": {"width": 390, "height": 844}}
LABELS = ["S", "NP", "VP"]


def random_writings(n: int, count: int = 40) -> list[list[str]]:
    """Half-written and finished trees over n words, by the rule."""
    draw, found = random.Random(n), []
    for _ in range(count):
        written = []
        while True:
            may = may_follow(written, n, {f"({name}" for name in LABELS}, 2 * n + 4)
            found.append(written)
            if may == {"<eos>"}:
                break
            written = [*written, draw.choice(sorted(may))]
    return found


@pytest.mark.parametrize("n", [1, 2, 5])
def test_the_rule_is_the_packages(core, n):
    openings = {f"({name}" for name in LABELS}
    for written in random_writings(n, 12):
        found = core("mayFollow", written, n, LABELS, 2 * n + 4, kind=KIND)
        assert len(set(found)) == len(found)
        assert set(found) == may_follow(written, n, openings, 2 * n + 4)


def test_f1_is_that_of_brackets(core):
    leaves = read_tree("(S (NN a) (NN b) (NN c) (NN d))").leaves
    whole = [
        w for w in random_writings(4, 12) if may_follow(w, 4, set(), 12) == {"<eos>"} and len(w) > 2
    ]
    for one, two in zip(whole, whole[1:], strict=False):
        trees = [rebuild(symbols, leaves) for symbols in (one, two)]
        assert sum(brackets(trees[0], ["NN"] * 4).values()) == sum(s[0] == "(" for s in one)
        score = bracket_score([trees[1]], [trees[0]])
        assert core("f1", one, two, kind=KIND) == pytest.approx(score.f1)


@pytest.fixture
def picture(stage):
    return stage(18, KIND)


@pytest.fixture
def sentences(picture):
    return json.loads(picture.tab.locator("script[type='application/json']").text_content())


def test_it_opens_with_half_of_a_true_tree(picture, sentences):
    symbols = sentences["sentences"][0]["symbols"]
    assert picture.state["written"] == symbols[: len(symbols) // 2] and picture.state["same"]
    picture.tab.get_by_role("button", name="next of the true tree").click()
    assert picture.state["written"] == symbols[: len(symbols) // 2 + 1]
    picture.tab.get_by_role("button", name="from the start").click()
    assert picture.state["written"] == []


def test_the_true_tree_step_by_step(picture, sentences):
    for which, sentence in enumerate(sentences["sentences"]):
        picture.tab.get_by_role("radio", name=f"{which + 1}", exact=True).click()
        picture.tab.get_by_role("button", name="from the start").click()
        button = picture.tab.get_by_role("button", name="next of the true tree")
        for i in range(len(sentence["symbols"])):
            assert picture.state["written"] == sentence["symbols"][:i]
            button.click()
        assert picture.state["over"] and picture.state["f1"] == 1 and button.is_disabled()
        assert picture.says == "A tree, and the true one."


def test_the_sentences_are_trees(sentences):
    for sentence in sentences["sentences"]:
        words = " ".join(f"(NN {word})" for word in sentence["words"])
        leaves = read_tree(f"(S {words})").leaves
        assert linearise(rebuild(sentence["symbols"], leaves)) == sentence["symbols"]
        assert {s[1:] for s in sentence["symbols"] if s[0] == "("} <= set(sentences["labels"])


def test_by_keyboard(picture):
    picture.tab.get_by_role("button", name="from the start").click()
    picture.tab.get_by_role("button", name="(S", exact=True).focus()
    picture.press("Enter")
    assert picture.state["written"] == ["(S"] and picture.state["same"]
    picture.press("Enter")  # the focus stays
    assert picture.state["written"] == ["(S", "(S"] and not picture.state["same"]
    assert "goes another way" in picture.says
    picture.tab.get_by_role("button", name="back").click()
    assert picture.state["written"] == ["(S"]


def test_only_what_may_come_can_be_pressed(picture):
    picture.tab.get_by_role("button", name="from the start").click()
    close = picture.tab.locator(".symbols button").last
    assert close.is_disabled()
    picture.tab.get_by_role("button", name="(S", exact=True).click()
    n = len(picture.tab.locator(".tree text").all()) - 1
    for _ in range(n):
        picture.tab.get_by_role("button", name="the next word").click()
    assert picture.state["may"] == [")S"]
    picture.tab.get_by_role("button", name=")S", exact=True).click()
    assert picture.state["over"] and 0 < picture.state["f1"] < 1
    assert "not the true one" in picture.says


def test_by_touch(stage):
    picture = stage(18, KIND, **PHONE)
    picture.tab.get_by_role("radio", name="2", exact=True).tap()
    picture.tab.get_by_role("button", name="next of the true tree").tap()
    assert picture.state["sentence"] == 1 and len(picture.state["written"]) == 1
    assert picture.tab.evaluate("document.documentElement.scrollWidth") <= 390
