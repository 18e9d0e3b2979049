"""How good are translations? BLEU and chrF by sacreBLEU, with their signatures.

This module is plumbing written by hand. A score without its signature cannot be compared: it says
how the text was cut into words and whether case counts (Post 2018, https://aclanthology.org/W18-6319).

Papers before 2018, "Attention Is All You Need" among them, report BLEU of text that they had cut
into words themselves; their scores are higher. `tokenised` cuts as their scripts do (get_ende_bleu
of tensor2tensor): by the rules of the Moses tokenizer, here without its list of abbreviations, and
German compounds with a hyphen into their parts, which gives more n-grams to match.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics import BLEU, CHRF

from allyouneed.checks import check_list, check_text


@dataclass(frozen=True)
class Score:
    """A score from 0 to 100, and how it was computed."""

    name: str
    value: float
    signature: str


def tokenised(sentence: str, language: str) -> str:
    """The words of a German ("de"), French ("fr") or other sentence, with spaces between them.

    Raises TypeError unless it is a string."""
    check_text(sentence=sentence)
    text = re.sub(r"[^\w\s.'`,-]|_", r" \g<0> ", " ".join(sentence.split()))
    text = re.sub(r"\.{2,}", r" \g<0> ", text)
    text = re.sub(r"(?<!\d),|,(?!\d)", " , ", text)  # not the comma of 1,5
    if language == "fr":  # l'homme: l' homme
        text = re.sub(r"(?<=[^\W\d_])('(?=[^\W\d_]))|'", lambda m: "' " if m[1] else " ' ", text)
    else:
        text = text.replace("'", " ' ")
    words = text.split()
    for i in reversed(range(len(words))):
        stem, after = words[i][:-1], words[i + 1] if i + 1 < len(words) else ""
        short = "." in stem and any(map(str.isalpha, stem))  # z.B. and U.S. keep their dots
        if words[i].endswith(".") and stem.strip(".") and not short and not after[:1].islower():
            words[i : i + 1] = [stem, "."]
    text = " ".join(words)
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", text) if language == "de" else text


def papers_bleu(translations: Sequence[str], references: Sequence[str], language: str) -> Score:
    """Cased BLEU of `tokenised` text, without smoothing: to compare with papers before 2018 only.

    Raises ValueError as `scores` does.
    """
    check_sentences(translations, references)
    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    hypotheses, truth = (
        [tokenised(s, language) for s in side] for side in (translations, references)
    )
    value = metric.corpus_score(hypotheses, [truth]).score
    hyphens = "+hyphens" if language == "de" else ""
    signature = metric.get_signature().format()
    signature = signature.replace("tok:none", f"tok:moses-like-{language}{hyphens}")
    return Score("BLEU, tokenised", value, signature)


def check_sentences(translations: Sequence[str], references: Sequence[str]) -> None:
    """Raise TypeError or ValueError unless each reference has its translation, at least one, and
    all are strings."""
    if isinstance(translations, str) or isinstance(references, str):
        raise TypeError("translations and references: expected several sentences, got one string")
    check_list(translations=translations, references=references)
    if len(translations) != len(references) or not translations:
        raise ValueError(
            f"translations: expected one for each of the references, at least one, "
            f"got {len(translations)} for {len(references)}"
        )
    for name, side in (("translations", translations), ("references", references)):
        if other := [one for one in side if not isinstance(one, str)]:
            raise TypeError(f"{name}: expected strings, got {type(other[0]).__name__} for one")


def scores(translations: Sequence[str], references: Sequence[str]) -> list[Score]:
    """BLEU with case, as one reports it; BLEU without; and chrF. One reference per translation.

    Papineni et al. (2002) and Popović (2015). Raises ValueError unless there are as many
    translations as references, at least one.
    """
    check_sentences(translations, references)
    metrics = {  # `force` only says that we know what we do: no warning about spaces before dots
        "BLEU": BLEU(force=True),
        "BLEU, lower-cased": BLEU(lowercase=True, force=True),
        "chrF2": CHRF(),
    }
    return [
        Score(
            name,
            metric.corpus_score(list(translations), [list(references)]).score,
            metric.get_signature().format(),
        )
        for name, metric in metrics.items()
    ]


def bleu(translations: Sequence[str], references: Sequence[str]) -> float:
    """Cased BLEU alone, the first of `scores`."""
    return scores(translations, references)[0].value
