"""Scores: sacreBLEU's own numbers and signatures, and what they must do."""

from __future__ import annotations

import inspect

import pytest
import sacrebleu

from allyouneed.evaluation import bleu, check_sentences, papers_bleu, scores, tokenised

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
    with pytest.raises(TypeError, match="references: expected strings, got list for one"):
        inspect.unwrap(check_sentences)(["a dog"], [["a dog"]])
    with pytest.raises(TypeError, match="got one string"):
        bleu("abc", ["a", "b", "c"])


# As the papers before 2018 have it


@pytest.mark.parametrize(
    "language, sentence, words",
    [
        ("de", "Ein Mann, 1,5 m groß.", "Ein Mann , 1,5 m groß ."),
        ("de", "„Nein“, sagt er: ‚z.B. so‘ ...", "„ Nein “ , sagt er : ‚ z.B. so ‘ ..."),
        ("de", "Das Rich-Text-Format.", "Das Rich ##AT##-##AT## Text ##AT##-##AT## Format ."),
        ("de", "A-b-c-d", "A ##AT##-##AT## b-c ##AT##-##AT## d"),
        ("de", "Ende.. 10.000 (U.S.A.)!", "Ende .. 10.000 ( U.S.A. ) !"),
        ("de", "Gibt's  5\u00a0% - ja?", "Gibt ' s 5 % - ja ?"),
        ("de", "ca. zwei a_b.", "ca. zwei a _ b ."),
        ("fr", "L'homme a dit : « c'est l'été »", "L' homme a dit : « c' est l' été »"),
        ("fr", "n'est-ce pas ? '68.", "n' est-ce pas ? ' 68 ."),
        ("fr", "les amis' maison", "les amis ' maison"),
        ("de", "vgl. eBay hier.", "vgl. eBay hier ."),
        ("de", "Er geht. Sie kommt.", "Er geht . Sie kommt ."),
        ("de", "", ""),
    ],
)
def test_tokenised(language, sentence, words):
    """What the Moses tokenizer gives, then tensor2tensor's split of compounds."""
    assert tokenised(sentence, language) == words


def test_papers_bleu():
    right, other = RIGHT[:2], ["Ein Mann reitet auf einem Pferd!", RIGHT[1]]
    score = papers_bleu(other, right, "de")
    plain = [[tokenised(s, "de") for s in side] for side in (other, right)]
    assert (
        score.value
        == sacrebleu.corpus_bleu(
            plain[0], [plain[1]], tokenize="none", smooth_method="none", force=True
        ).score
    )
    assert score.signature.startswith(
        "nrefs:1|case:mixed|eff:no|tok:moses-like-de+hyphens|smooth:none|version:"
    )
    assert papers_bleu(right, right, "fr").value == pytest.approx(100.0)
    assert papers_bleu(["a"], ["b"], "fr").value == 0.0


def test_compounds_give_more_to_match():
    one, other = ["Das Rich-Text-Format ist alt."], ["Das Rich-Text-Dokument ist alt."]
    assert papers_bleu(one, other, "de").value > papers_bleu(one, other, "fr").value


@pytest.mark.parametrize("translations, references", [([], []), (["a"], ["a", "b"])])
def test_papers_bleu_of_bad_numbers(translations, references):
    with pytest.raises(ValueError, match="translations: expected one for each"):
        papers_bleu(translations, references, "de")
