"""Beam search as a tree (Chapter 13): what the picture says is what `beam_search` does."""

from __future__ import annotations

import math

import pytest
import torch

import allyouneed
from allyouneed.decoding import Beam, Cache, beam_search, length_limits
from allyouneed.modes import eval_mode
from allyouneed.tokens import BOS, EOS

KIND = "beam-tree"


@pytest.fixture(scope="module")
def translator():
    return allyouneed.pretrained("tatoeba-en-fr", "cpu")


@pytest.fixture(scope="module")
def searched(translator):
    """searched[n]: after each step what is open, and the best log P of what has ended so far."""
    model, tokenizer = translator
    src = torch.tensor([[*tokenizer.encode("Please turn off the TV."), EOS]])
    found = {}
    for n in (1, 2, 3):
        with eval_mode(model):
            limit = length_limits(model, src, 15)
            beam, cache = Beam(src, n, limit, 0.0), Cache(model, src, n)
            tokens, steps, ended = src.new_full((1, n), BOS), [], 0
            while not (steps and beam.done()):
                logits = cache.step(tokens[0])
                log_p = beam.scores[0, :, None] + logits.log_softmax(-1)
                best = log_p.flatten().topk(n)
                ended += int((best.indices[best.values > -math.inf] % logits.shape[1] == EOS).sum())
                parents, tokens = beam.grow(logits[None])
                cache.select(parents[0])
                texts = [tokenizer.decode(row) for row in beam.ids[0, :, : beam.length].tolist()]
                steps.append((texts, beam.scores[0].tolist(), float(beam.best), ended))
            answer = tokenizer.decode(beam.result()[0].tolist())
            assert answer == tokenizer.decode(beam_search(model, src, n, 0.0, max_length=15)[0])
        found[n] = steps, answer
    return found


@pytest.fixture
def tree(stage):
    return stage(13, KIND)


def shows(tree, searched, beam: int, step: int) -> None:
    texts, scores, best, ended = searched[beam][0][step - 1]
    state = tree.state
    assert (state["beam"], state["step"]) == (beam, step)
    assert [one["text"] for one in state["open"]] == texts
    assert [one["log_p"] for one in state["open"]] == pytest.approx(scores, abs=6e-3)
    assert len(state["ended"]) == ended
    if ended:
        assert state["ended"][0]["log_p"] == pytest.approx(best, abs=6e-3)


@pytest.mark.parametrize("beam", [1, 2, 3])
def test_every_step_by_keyboard(tree, searched, beam):
    tree.tab.get_by_role("radio", name="3").focus()
    tree.press(*["ArrowLeft"] * (3 - beam))
    tree.tab.get_by_role("slider", name="Step").focus()
    tree.press("Home")
    steps, answer = searched[beam]
    for step in range(1, len(steps) + 1):
        tree.press("ArrowRight")
        shows(tree, searched, beam, step)
    assert tree.state["over"] and f"“{answer}”" in tree.says
    assert tree.tab.get_by_role("button", name="Next").is_disabled()
    assert tree.tab.locator(".node.best").count() >= 5


def test_by_mouse(tree, searched):
    following = tree.tab.get_by_role("button", name="Next")
    tree.tab.get_by_role("slider", name="Step").press("Home")
    following.click()
    shows(tree, searched, 3, 1)
    assert "“Veuillez” (−1.73) go on" in tree.says
    tree.tab.get_by_role("radio", name="2").click()
    shows(tree, searched, 2, 1)
    assert "Veuillez" in [one["text"] for one in tree.state["cut"]]
    following.click()
    tree.tab.get_by_role("button", name="Back").click()
    shows(tree, searched, 2, 1)


def test_by_touch_the_tree_fits(stage, searched):
    phone = {"has_touch": True, "is_mobile": True, "viewport": {"width": 390, "height": 844}}
    tree = stage(13, KIND, **phone)
    shows(tree, searched, 3, 9)
    tree.tab.get_by_role("button", name="Back").tap()
    shows(tree, searched, 3, 8)
    assert "has ended: −3.12" in tree.says
    assert tree.tab.evaluate("document.documentElement.scrollWidth") <= 390
    assert tree.tab.locator("svg.tree").bounding_box()["width"] <= 340


WIDE = """nodes => nodes.map(node => node.querySelector("text").getBoundingClientRect().width
                - node.querySelector("rect").getBoundingClientRect().width)"""


@pytest.mark.parametrize("width", [390, 1200])
def test_it_opens_at_the_end_and_no_token_spills_over(stage, searched, width):
    tree = stage(13, KIND, viewport={"width": width, "height": 844})
    shows(tree, searched, 3, 9)
    assert tree.state["over"] and tree.tab.locator(".node").count() == 55
    assert "The winner is" in tree.says
    assert max(tree.tab.eval_on_selector_all(".node", WIDE)) <= 0


def test_one_edge_and_one_box_for_each_candidate(tree):
    tree.tab.get_by_role("slider", name="Step").focus()
    tree.press("End")
    assert tree.tab.locator(".node.open").count() == 1 + 8 * 3  # in the last step none goes on
    assert tree.tab.locator(".edge").count() == 54 and tree.tab.locator(".node").count() == 55
