"""Exercises that ask for a test: where no mistake is known, the one misjudged is named."""

from __future__ import annotations

import random

import pytest
import torch

from allyouneed.exercises import (
    chapter_01,
    chapter_02,
    chapter_03,
    chapter_04,
    chapter_07,
    chapter_08,
    chapter_10,
    chapter_12,
    chapter_13,
    chapter_14,
)
from allyouneed.exercises.core import examine, find
from allyouneed.exercises.suspects import verdicts_on

GIVEN = {
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
        if verdict.mistake is None:
            name = min(names, key=list(suspects).index)
            assert f'"{name}"' in said, said
            assert (why[name] if name in why else "your test refuses one") in said, said


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


TOLD = {  # what the input of a reader's test may lack, by what it is called with
    "1.7": (chapter_01.SUSPECTS, chapter_01.FILL_LACKS, True),
    "2.4": (chapter_02.READERS, chapter_02.READER_LACKS, True),
    "3.7": (chapter_03.SUSPECTS, chapter_03.TEST_LACKS, True),
    "4.8": (chapter_04.LAYERS, chapter_04.APART_LACKS, False),
    "7.10": (chapter_07.CUTS, chapter_07.CUT_LACKS, True),
}


@pytest.mark.parametrize("number", TOLD)
def test_whatever_input_may_lack_has_a_row(number):
    suspects, lacks, one_task = TOLD[number]
    verdicts = verdicts_on(suspects, lacks, one_task)
    said = [verdicts(mistake.wrong) for mistake in find(number).mistakes]
    assert {one["input"] for one in said if "input" in one} == {*lacks}
    assert {"said": "the opposite"} in said


def filled_alike(seed: int, draw) -> object:
    """A test of 1.7 that compares with the right batches, on lists of one kind."""
    lists = [draw(random.Random(seed + i)) for i in range(3)]
    right = chapter_01.fill_batches
    return lambda fill: all(fill(some, 12) == right(some, 12) for some in lists)


@pytest.mark.parametrize("seed", range(0, 30, 3))
def test_input_that_lacks_something_is_named_whatever_passes(seed):
    """Other lists let other wrong ones pass; what they have in common is said."""
    some = lambda draw: [draw.randint(1, 8) for _ in range(9)]  # noqa: E731
    for name, draw in (
        ("only lengths that rise", lambda draw: sorted(some(draw))),
        ("only lengths that fall", lambda draw: sorted(some(draw))[::-1]),
        ("only sentences of one length", lambda draw: [draw.randint(1, 8)] * 9),
    ):
        assert examine("1.7", filled_alike(seed, draw)).mistake == name


def test_input_is_not_blamed_for_what_a_test_does_not_look_at():
    """Whoever looks at shapes alone is not told that the input has no padding."""
    mask = torch.ones(2, 4, dtype=torch.bool)

    def shapes(attention):
        return attention(torch.randn(2, 3, 4), torch.randn(2, 4, 5), mask).shape == (2, 3, 5)

    assert examine("3.7", shapes).mistake == "everything passes"


def test_a_test_that_returns_nothing_is_told_so():
    said = examine("1.7", lambda fill: print(end=str(fill([3], 5))[:0])).message
    assert "returned None" in said
