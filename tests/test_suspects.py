"""Exercises that ask for a test: where no mistake is known, the one misjudged is named."""

from __future__ import annotations

import pytest
import torch

from allyouneed.exercises import (
    chapter_08,
    chapter_09,
    chapter_10,
    chapter_12,
    chapter_13,
    chapter_14,
)
from allyouneed.exercises.core import examine, find

GIVEN = {
    "9.4": (chapter_09.ALL_EMBEDS, chapter_09.RIGHT_EMBEDS, chapter_09.EMBEDS_WHY),
    "8.5": (chapter_08.ALL_WEIGHTS, chapter_08.RIGHT_WEIGHTS, chapter_08.WEIGHTS_WHY),
    "10.2": (chapter_10.ALL_NORMS, chapter_10.RIGHT_NORMS, chapter_10.NORMS_WHY),
    "12.6": (chapter_12.CLIPS, chapter_12.RIGHT_CLIPS, chapter_12.CLIPS_WHY),
    "13.3": (chapter_13.ALL_SEARCHES, chapter_13.RIGHT_SEARCHES, chapter_13.SEARCHES_WHY),
    "14.2": (chapter_14.SCORES, list(chapter_14.SCORES)[:3], chapter_14.SCORES_WHY),
}


def misjudging(suspects: dict, right: list, *names: str):
    """A test that is right about all suspects but those named."""
    known = {id(suspect): name for name, suspect in suspects.items()}
    return lambda suspect: (known[id(suspect)] in right) != (known[id(suspect)] in names)


@pytest.mark.parametrize("number", GIVEN)
def test_every_suspect_has_its_reason(number):
    suspects, right, why = GIVEN[number]
    assert list(suspects) == [*right, *why]


@pytest.mark.parametrize("number", GIVEN)
def test_the_one_misjudged_is_named_with_what_it_does(number):
    suspects, right, why = GIVEN[number]
    wrong = list(why)
    for names in [(name,) for name in suspects] + [(wrong[3], wrong[-1]), (wrong[-2], wrong[-4])]:
        verdict = examine(number, misjudging(suspects, list(right), *names))
        said = " ".join(verdict.message.split())
        assert verdict.status == "wrong"
        if verdict.mistake not in {one.name for one in find(number).mistakes}:
            name = min(names, key=list(suspects).index)
            assert f'"{name}"' in verdict.mistake, said
            assert (why[name] if name in why else "Does your test ask for more?") in said, said


@pytest.mark.parametrize("number", GIVEN)
def test_one_that_is_wrong_itself_taken_for_right_is_named(number):
    suspects, right, why = GIVEN[number]
    for name in why:
        one = suspects[name]
        verdict = examine(number, lambda suspect, one=one: suspect is one)
        assert verdict.status == "wrong"
        if verdict.mistake not in {one.name for one in find(number).mistakes}:
            assert verdict.mistake == f'"{name}" taken for right, and what is right refused'
            assert " ".join(why[name].split()) in " ".join(verdict.message.split())


def test_a_right_machine_refused_for_its_rounding_is_not_said_to_have_read_words():
    """11.8, with equality and with other tokens than ours."""

    def which_fault(model, vocab_size):
        def said(src, tgt):
            return model(torch.tensor([src]), torch.tensor([tgt]))[:, :2]

        first = said([8, 4, 7, 5, 3], [2, 6, 5])
        if not torch.equal(first, said([8, 4, 7, 5, 3], [2, 6, 5])):
            return "dropout is on"
        if not torch.equal(first, said([8, 4, 7, 5, 3], [2, 6, 8])):
            return "sees the future"
        if not torch.equal(first, said([8, 4, 7, 5, 3, 0, 0, 0], [2, 6, 5])):
            return "sees the padding"
        if torch.equal(first, said([6, 4, 6, 5, 3], [2, 6, 5])):
            return "ignores the source"
        if torch.allclose(first, said([5, 7, 4, 8, 3], [2, 6, 5]), atol=1e-4):
            return "no positions"
        return "right"

    verdict = examine("11.8", which_fault)
    assert verdict.status == "wrong" and verdict.mistake in ("a tolerance of 0", None)
