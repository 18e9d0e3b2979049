"""BPE-dropout: the same words, cut in more ways."""

from __future__ import annotations

import random
from collections import Counter
from math import sqrt

import pytest

from allyouneed import pretrained
from allyouneed.subwords import LETTERS, VARIANTS, BPEDropout

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


def one_merge_after_the_other(cut: BPEDropout, word: str, draws: random.Random) -> list[int]:
    """Algorithm 1 of Provilkov and others (2020), as it stands: all pairs drawn for each merge."""
    pieces = list(word)
    while True:
        pairs = enumerate(zip(pieces, pieces[1:], strict=False))
        kept = [(cut.ranks[p], i) for i, p in pairs if p in cut.ranks and draws.random() >= cut.p]
        if not kept:
            return [cut.ids[piece] for piece in pieces]
        _, i = min(kept)
        pieces[i : i + 2] = ["".join(pieces[i : i + 2])]


@pytest.mark.parametrize("p", [0.1, 0.5])
def test_each_cut_comes_as_often_as_in_the_papers_algorithm(tokenizer, p):
    cut, counts = BPEDropout(tokenizer, p), []
    for form, seed in ((one_merge_after_the_other, 0), (BPEDropout._cut, 1)):
        draws = random.Random(seed)
        counts.append(Counter(tuple(form(cut, "▁horses", draws)) for _ in range(4000)))
    for ids in counts[0] | counts[1]:
        a, b = counts[0][ids], counts[1][ids]
        assert abs(a - b) < 5 * sqrt(a + b + 1), (ids, a, b)
    assert len(counts[0]) > 5


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


def test_one_word_of_20_000_letters(tokenizer):
    """Pairs are looked up n log n times, not n^2, and not in 32 cuts: seconds, not minutes."""

    class Counted(dict):
        looked_up = 0

        def get(self, pair):
            self.looked_up += 1
            return super().get(pair)

    letters = random.Random(0)
    for word in ("ha" * 10_000, "".join(letters.choices("aehinorst", k=20_000))):
        cut = BPEDropout(tokenizer, 0.1)
        cut.ranks = ranks = Counted(cut.ranks)
        ids = cut.encode(word, random.Random(0))
        assert tokenizer.decode(ids) == word
        assert ranks.looked_up < 10 * len(word)


@pytest.mark.parametrize("length", [LETTERS // VARIANTS, LETTERS // 2, LETTERS + 1])
def test_long_words_have_the_first_of_their_variants(tokenizer, length):
    word, cut = "▁" + "horse" * (length // 5), BPEDropout(tokenizer, 0.1)
    word = word[:length]
    cut.encode(word[1:], random.Random(0))
    (variants,) = cut.variants.values()
    assert len(variants) == max(1, LETTERS // length)
    draws = random.Random(f"0/{word}")
    assert variants[:2] == [cut._cut(word, draws) for _ in variants[:2]]


@pytest.mark.parametrize("p", [-0.1, 1.0, float("nan")])
def test_a_wrong_probability(tokenizer, p):
    with pytest.raises(ValueError, match="p: expected a probability below 1"):
        BPEDropout(tokenizer, p)
