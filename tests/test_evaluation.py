"""Scores: sacreBLEU's own numbers and signatures, and what they must do."""

from __future__ import annotations

import pytest
import sacrebleu

from allyouneed.evaluation import bleu, scores

RIGHT = ["Ein Mann reitet auf einem Pferd.", "Zwei Hunde spielen im Schnee.", "Größe: 3,5 m!"]
OTHER = ["ein Mann reitet ein Pferd.", "Zwei Hunde spielen in dem Schnee.", ""]


def test_equal_to_sacrebleu():
    found = scores(OTHER, RIGHT)
    assert [s.name for s in found] == ["BLEU", "BLEU, lower-cased", "chrF2"]
    assert found[0].value == sacrebleu.corpus_bleu(OTHER, [RIGHT]).score
    assert found[1].value == sacrebleu.corpus_bleu(OTHER, [RIGHT], lowercase=True).score
    assert found[2].value == sacrebleu.corpus_chrf(OTHER, [RIGHT]).score
    assert found[0].value < found[1].value
    assert bleu(OTHER, RIGHT) == found[0].value


def test_signatures():
    cased, lower, chrf = [s.signature for s in scores(RIGHT, RIGHT)]
    assert cased.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert lower == cased.replace("mixed", "lc")
    assert chrf.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:")


def test_perfect_and_empty():
    assert [s.value for s in scores(RIGHT, RIGHT)] == pytest.approx([100.0] * 3)
    assert [s.value for s in scores([""] * 3, RIGHT)] == [0.0] * 3


def test_order_of_sentences_does_not_matter():
    assert bleu(OTHER[::-1], RIGHT[::-1]) == pytest.approx(bleu(OTHER, RIGHT))


@pytest.mark.parametrize("translations, references", [([], []), (["a"], []), (["a"], ["a", "b"])])
def test_bad_numbers(translations, references):
    with pytest.raises(ValueError, match="translations: expected one for each"):
        scores(translations, references)


def test_a_string_is_not_several():
    with pytest.raises(TypeError, match="got one string"):
        bleu("abc", ["a", "b", "c"])
