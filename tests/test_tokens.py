"""Tokens: round trips, vocabulary files, padding and batches."""

from __future__ import annotations

import copy
import json
import pickle
import random
import unicodedata

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from allyouneed.tokens import BOS, EOS, PAD, SPECIALS, UNK, Batch, Tokenizer, pad, token_batches

TEXT = [
    "The black cat is sleeping.",
    "Le chat noir dort.",
    "Qu'est-ce que c'est ?",
    "« Là-bas, à l'école », dit-elle !",
    "Does he know? No, he doesn't.",
] * 3


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(TEXT, vocab_size=90)


# the tokenizer


def test_special_tokens_have_the_first_ids(tokenizer):
    assert (PAD, UNK, BOS, EOS) == (0, 1, 2, 3)
    assert [tokenizer.bpe.id_to_token(i) for i in range(4)] == SPECIALS


@pytest.mark.parametrize(
    "sentence",
    [
        *TEXT[:5],
        "",
        "a",
        "?",
        "l'école",
        "chat ",  # a space at the end stays
        "chat  noir",  # and so do two in a row
        "que ?!",
        "c'est-c'est",
    ],
)
def test_round_trip(tokenizer, sentence):
    assert tokenizer.decode(tokenizer.encode(sentence)) == sentence


def test_what_does_not_survive(tokenizer):
    """One space at the beginning, unknown characters, and accents in two pieces."""
    assert tokenizer.decode(tokenizer.encode(" chat")) == "chat"
    assert UNK in tokenizer.encode("chat 猫")
    assert tokenizer.decode(tokenizer.encode("chat 猫")) == "chat "
    in_two_pieces = unicodedata.normalize("NFD", "école")
    assert tokenizer.decode(tokenizer.encode(in_two_pieces)) == "école"


@settings(max_examples=100)
@given(sentence=st.text(alphabet=sorted(set("".join(TEXT))), max_size=40))
def test_round_trip_of_any_known_text(tokenizer, sentence):
    assert tokenizer.decode(tokenizer.encode(sentence)) == sentence.removeprefix(" ")


def test_tokens_are_readable_and_fit_the_ids(tokenizer):
    tokens = tokenizer.tokens("Le chat noir dort.")
    assert "".join(tokens) == "▁Le▁chat▁noir▁dort."
    assert [tokenizer.bpe.token_to_id(t) for t in tokens] == tokenizer.encode("Le chat noir dort.")


def test_punctuation_stands_alone(tokenizer):
    assert tokenizer.tokens("c'est ?")[-1] in ("▁?", "?")
    for sentence in TEXT:
        for token in tokenizer.tokens(sentence):
            bare = token.removeprefix("▁")
            assert len(bare) <= 1 or bare.isalnum(), token


def test_special_tokens_in_a_text_are_text(tokenizer):
    ids = tokenizer.encode("le <eos> chat <pad>")
    assert not {PAD, BOS, EOS} & set(ids)


def test_decode_stops_at_eos_and_drops_specials(tokenizer):
    ids = tokenizer.encode("Le chat")
    more = tokenizer.encode("noir")
    assert tokenizer.decode([BOS, *ids, EOS, *more]) == "Le chat"
    assert tokenizer.decode(torch.tensor([BOS, *ids, EOS, PAD, PAD])) == "Le chat"
    assert tokenizer.decode([]) == tokenizer.decode([EOS]) == ""


def test_training_is_deterministic_and_exact(tokenizer):
    again = Tokenizer.train(iter(TEXT), vocab_size=90)
    assert len(again) == len(tokenizer) == 90
    assert again.bpe.to_str() == tokenizer.bpe.to_str()


def test_training_stops_when_no_pair_is_left():
    assert len(Tokenizer.train(["ab ab"], vocab_size=1000)) < 20


def test_save_and_load(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "tokenizer.json")
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert len(again) == len(tokenizer)
    for sentence in [*TEXT, "le <eos>", "猫"]:
        assert again.encode(sentence) == tokenizer.encode(sentence)


def test_tokenizer_errors_say_what_is_wrong(tokenizer, tmp_path):
    with pytest.raises(ValueError, match=r"vocab_size: expected at least \d+.* got 10"):
        Tokenizer.train(TEXT, vocab_size=10)
    with pytest.raises(ValueError, match="sentences: expected text to learn from, got none"):
        Tokenizer.train([], vocab_size=100)
    with pytest.raises(ValueError, match="sentences: expected text"):
        Tokenizer.train(["", ""], vocab_size=100)
    with pytest.raises(TypeError, match="sentences: expected several"):
        Tokenizer.train("one sentence", vocab_size=100)
    for ids in ([-1], [len(tokenizer)], torch.tensor([5, 10_000])):
        with pytest.raises(ValueError, match="ids: expected numbers from 0 to 89, got"):
            tokenizer.decode(ids)
    with pytest.raises(TypeError, match="sentence"):
        tokenizer.encode(["a", "b"])
    with pytest.raises(FileNotFoundError):
        Tokenizer.load(tmp_path / "none.json")


def test_a_foreign_vocabulary_is_refused():
    import tokenizers

    with pytest.raises(ValueError, match="bpe: expected .* ids 0 to 3"):
        Tokenizer(tokenizers.Tokenizer(tokenizers.models.BPE()))


@pytest.mark.parametrize("part", ["normalizer", "pre_tokenizer", "decoder", "truncation"])
def test_a_file_that_cuts_text_in_another_way_is_refused(tmp_path, part):
    """Such as one whose normaliser makes 65,536 letters of sixteen."""
    file = tmp_path / "own.json"
    Tokenizer.train(["a man", "a woman"], 30).save(file)
    content = json.loads(file.read_text(encoding="utf-8"))
    other = {
        "normalizer": {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"},
        "truncation": {"max_length": 3, "strategy": "LongestFirst", "stride": 0,
                       "direction": "Right"},
    }  # fmt: skip
    content[part] = other.get(part)
    file.write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(ValueError, match=f"bpe: expected the {part} of this book, .* got"):
        Tokenizer.load(file)


# padding


def test_pad():
    assert pad([[5, 6, 7], [8]]).tolist() == [[5, 6, 7], [8, PAD, PAD]]
    assert pad([[5]]).dtype == pad([[]]).dtype == torch.long
    assert pad([[], []]).shape == (2, 0)
    with pytest.raises(ValueError, match="sequences: expected at least one"):
        pad([])


def test_masks_are_true_at_tokens():
    batch = Batch(pad([[5, 6, EOS], [7, EOS]]), pad([[BOS, EOS], [BOS, 5, 6, EOS]]))
    assert batch.src_mask.tolist() == [[True, True, True], [True, True, False]]
    assert batch.tgt_mask.tolist() == [[True, True, False, False], [True, True, True, True]]


# batches

ids = st.lists(st.integers(4, 50), max_size=12)
many_pairs = st.lists(st.tuples(ids, ids), min_size=1, max_size=60)


def contents(batches) -> list[tuple[list[int], list[int]]]:
    """The pairs in the batches, in order, after checking that the marks are in their places."""
    pairs = []
    for batch in batches:
        for src, tgt, src_mask, tgt_mask in zip(
            batch.src, batch.tgt, batch.src_mask, batch.tgt_mask, strict=True
        ):
            src, tgt = src[src_mask].tolist(), tgt[tgt_mask].tolist()
            assert src[-1] == EOS and tgt[0] == BOS and tgt[-1] == EOS
            pairs.append((src[:-1], tgt[1:-1]))
    return pairs


@settings(max_examples=60)
@given(many_pairs, st.integers(14, 80), st.integers(0, 3), st.integers(0, 3))
def test_every_pair_once_and_the_limit_kept(pairs, max_tokens, seed, epoch):
    batches = list(token_batches(pairs, max_tokens, seed, epoch))
    assert sorted(contents(batches)) == sorted(pairs)
    for batch in batches:
        assert max(batch.src.numel(), batch.tgt.numel()) <= max_tokens
        assert len(batch.src) == len(batch.tgt) > 0
        assert batch.src_mask.any(0).all() and batch.tgt_mask.any(0).all()  # no empty column


PAIRS = [([4 + i % 7] * (1 + i % 9), [20 + i % 5] * (1 + i % 8)) for i in range(200)]


def test_order_follows_from_seed_and_epoch():
    first = contents(token_batches(PAIRS, 60, seed=1, epoch=0))
    assert contents(token_batches(PAIRS, 60, seed=1, epoch=0)) == first
    assert contents(token_batches(PAIRS, 60, seed=1, epoch=1)) != first
    assert contents(token_batches(PAIRS, 60, seed=2, epoch=0)) != first


def test_other_pairs_come_together_in_each_epoch():
    """Not the same batches in another order."""
    pairs = [([4 + i], [4 + i]) for i in range(40)]  # of one length
    first, second = (
        {tuple(sorted(b.src[:, 0].tolist())) for b in token_batches(pairs, 15, 0, epoch)}
        for epoch in (0, 1)
    )
    assert len(first) == 8 and first != second


def test_the_global_random_state_has_no_say():
    random.seed(3)
    first = contents(token_batches(PAIRS, 60))
    random.seed(4)
    assert contents(token_batches(PAIRS, 60)) == first


def test_similar_lengths_come_together():
    batches = list(token_batches(PAIRS, 60))
    used = sum(int(b.src_mask.sum() + b.tgt_mask.sum()) for b in batches)
    assert used / sum(b.src.numel() + b.tgt.numel() for b in batches) > 0.75


def test_short_batches_do_not_come_first():
    for epoch in range(3):
        widths = [b.tgt.shape[1] for b in token_batches(PAIRS, 60, 0, epoch)]
        early, late = widths[: len(widths) // 2], widths[len(widths) // 2 :]
        assert max(early) > min(late) and max(late) > min(early)


def test_batch_errors_come_at_once_and_say_what_is_wrong():
    with pytest.raises(ValueError, match="pairs: expected at least one"):
        token_batches([], 10)
    with pytest.raises(ValueError, match="max_tokens: expected at least 12, .* got 11"):
        token_batches([([5] * 3, [6] * 10)], 11)
    assert len(list(token_batches([([5] * 3, [6] * 10)], 12))) == 1
    assert len(list(token_batches([([5] * 11, [6] * 10)], 12))) == 1  # a source has no BOS
    with pytest.raises(TypeError, match="pairs"):
        token_batches([("Hello.", "Bonjour.")], 100)


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda t: pickle.loads(pickle.dumps(t))])
def test_a_copy_encodes_alike(way):
    tokenizer = Tokenizer.train(["a man sleeps", "<eos> is a word"], 60)
    twin = way(tokenizer)
    for text in ("a man sleeps", "a <eos> man", "<pad><bos>"):
        assert twin.encode(text) == tokenizer.encode(text)
        assert EOS not in twin.encode(text)
    assert len(twin) == len(tokenizer)
