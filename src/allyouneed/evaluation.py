"""How good are translations? BLEU and chrF by sacreBLEU, with their signatures.

This module is plumbing written by hand. A score without its signature cannot be compared: it says
how the text was cut into words and whether case counts (Post 2018, https://aclanthology.org/W18-6319).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sacrebleu.metrics import BLEU, CHRF


@dataclass(frozen=True)
class Score:
    """A score from 0 to 100, and how it was computed."""

    name: str
    value: float
    signature: str


def scores(translations: Sequence[str], references: Sequence[str]) -> list[Score]:
    """BLEU with case, as one reports it; BLEU without; and chrF. One reference per translation.

    Papineni et al. (2002) and Popović (2015). Raises ValueError unless there are as many
    translations as references, at least one.
    """
    if isinstance(translations, str) or isinstance(references, str):
        raise TypeError("translations and references: expected several sentences, got one string")
    if len(translations) != len(references) or not translations:
        raise ValueError(
            f"translations: expected one for each of the references, at least one, "
            f"got {len(translations)} for {len(references)}"
        )
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
