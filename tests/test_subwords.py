"""BPE-dropout: the same words, cut in more ways."""

from __future__ import annotations

import random

import pytest

from allyouneed import pretrained
from allyouneed.subwords import VARIANTS, BPEDropout

SENTENCES = ["A man rides a brown horse.", "Two dogs are running, aren't they?", "", "x"]


@pytest.fixture(scope="module")
def tokenizer():
    return pretrained("tatoeba-en-fr")[1]


def test_without_dropout_words_are_cut_as_always(tokenizer):
    cut = BPEDropout(tokenizer, 0.0)
    for sentence in [*SENTENCES, "thecatandthehorses" * 500]:
        assert cut.encode(sentence, random.Random(0)) == tokenizer.encode(sentence)


@pytest.mark.parametrize("p", [0.1, 0.9])
def test_words_stay_the_same_and_pieces_become_more(tokenizer, p):
    cut, rng = BPEDropout(tokenizer, p), random.Random(0)
    for sentence in SENTENCES:
        always = tokenizer.encode(sentence)
        drawn = [cut.encode(sentence, rng) for _ in range(20)]
        assert all(tokenizer.decode(ids) == tokenizer.decode(always) for ids in drawn)
        assert all(len(ids) >= len(always) for ids in drawn)
        assert len({tuple(ids) for ids in drawn}) > 1 or len(sentence) < 2


def test_more_dropout_more_pieces(tokenizer):
    def pieces(p: float) -> int:
        cut, rng = BPEDropout(tokenizer, p), random.Random(0)
        return sum(len(cut.encode(SENTENCES[0], rng)) for _ in range(20))

    assert pieces(0.0) < pieces(0.1) < pieces(0.5) < pieces(0.99)


def test_variants_follow_from_word_and_seed(tokenizer):
    def variants(seed: int) -> list[list[int]]:
        cut = BPEDropout(tokenizer, 0.5, seed)
        return [cut.encode("horse", random.Random(i)) for i in range(VARIANTS)]

    assert variants(0) == variants(0) != variants(1)


@pytest.mark.parametrize("p", [-0.1, 1.0, float("nan")])
def test_a_wrong_probability(tokenizer, p):
    with pytest.raises(ValueError, match="p: expected a probability below 1"):
        BPEDropout(tokenizer, p)
