"""Byte-pair encoding turns sentences into ids, and padding makes batches of them."""

# Made from notebooks/01_tokens.ipynb by `make export`: edit the notebook, not this file.
# fmt: off

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import tokenizers
import torch
from jaxtyping import Bool, Int
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers
from torch import Tensor

from allyouneed.checks import (
    check_cutting,
    check_kind,
    check_known,
    check_learnt,
    check_pairs,
    check_room,
    check_several,
    check_sizes,
    check_some,
    check_specials,
    check_text,
)

__all__ = [
    "PAD",
    "UNK",
    "BOS",
    "EOS",
    "SPECIALS",
    "Tokenizer",
    "pad",
    "Batch",
    "token_batches",
]

PAD, UNK, BOS, EOS = 0, 1, 2, 3  # the ids of the special tokens, in every vocabulary
SPECIALS = ["<pad>", "<unk>", "<bos>", "<eos>"]


def _untrained() -> tokenizers.Tokenizer:
    """Byte-pair encoding without merges: how text is cut
    beforehand and glued afterwards."""
    bpe = tokenizers.Tokenizer(models.BPE(unk_token=SPECIALS[UNK]))
    bpe.normalizer = normalizers.NFC()
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Metaspace(),  # a space becomes the ▁ of the word after it
            # punctuation stands alone
            pre_tokenizers.Split(Regex(r"▁?[^\w▁]"), "isolated"),
        ]
    )
    bpe.decoder = decoders.Metaspace()
    return bpe


class _Vocabulary:
    """The tokens and merges that a tokenizer keeps, and their file."""

    def __init__(self, bpe: tokenizers.Tokenizer):
        check_kind(tokenizers.Tokenizer, bpe=bpe)
        check_specials([bpe.token_to_id(token) for token in SPECIALS], SPECIALS)
        check_cutting(bpe, _untrained())
        bpe.encode_special_tokens = True  # a "<eos>" in a text is text
        self.bpe, self.size = bpe, bpe.get_vocab_size()

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__init__(state["bpe"])  # a copy of bpe has forgotten what is text

    def __len__(self) -> int:
        return self.size

    def save(self, path: str | Path) -> None:
        """Write the vocabulary and the merges to one JSON file."""
        self.bpe.save(str(path))

    @classmethod
    def load(cls, path: str | Path) -> Tokenizer:
        """Read a tokenizer that `save` wrote."""
        text = Path(path).read_text(encoding="utf-8")
        return cls(tokenizers.Tokenizer.from_str(text))


class Tokenizer(_Vocabulary):
    """Sentences to ids and back, by byte-pair encoding (Sennrich
    et al. 2016; section 5.1).

    `decode(encode(s)) == s` for text in Unicode's NFC form, whose characters were all
    seen in training, that has no ▁ and does not begin with a space. Raises ValueError
    unless the special tokens have the ids 0 to 3 and text is cut and glued as here.
    """

    @classmethod
    def train(cls, sentences: Iterable[str], vocab_size: int) -> Tokenizer:
        """Learn merges from sentences until there are vocab_size tokens, or no pair is
        left. Raises TypeError for one string or a vocab_size that is no integer,
        ValueError for no text or one too small for its characters."""
        check_several(sentences=sentences)
        check_sizes(vocab_size=vocab_size)
        bpe = _untrained()
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size, special_tokens=SPECIALS, show_progress=False
        )
        bpe.train_from_iterator(sentences, trainer)
        check_learnt(bpe.get_vocab_size(), vocab_size, len(SPECIALS))
        return cls(bpe)

    def encode(self, sentence: str) -> list[int]:
        """The ids of the sentence, without BOS and EOS. Not a string: TypeError."""
        check_text(sentence=sentence)
        return self.bpe.encode(sentence).ids

    def tokens(self, sentence: str) -> list[str]:
        """The tokens that `encode` gives ids for, readable."""
        check_text(sentence=sentence)
        return self.bpe.encode(sentence).tokens

    def decode(self, ids: Iterable[int] | Int[Tensor, " T"]) -> str:
        """The sentence of the ids up to the first EOS; special tokens give no text.
        Raises TypeError for an id that is no integer, ValueError for one outside of the
        vocabulary."""
        ids = ids.tolist() if isinstance(ids, Tensor) else list(ids)
        check_known(ids, self.size)
        return self.bpe.decode(ids[: ids.index(EOS)] if EOS in ids else ids)


def pad(sequences: Sequence[Sequence[int]]) -> Int[Tensor, "B S"]:
    """Lists of ids as one tensor, filled with PAD on the right up to the longest.

    Raises ValueError for no lists.
    """
    check_some(sequences=sequences)
    longest = max(map(len, sequences))
    rows = [[*sequence, *[PAD] * (longest - len(sequence))] for sequence in sequences]
    return torch.tensor(rows, dtype=torch.long)


@dataclass(frozen=True)
class Batch:
    """Pairs of sentences as padded ids: src ends in EOS, tgt begins
    with BOS and ends in EOS."""

    src: Int[Tensor, "B S"]
    tgt: Int[Tensor, "B T"]

    @property
    def src_mask(self) -> Bool[Tensor, "B S"]:
        """True = a token, False = padding."""
        return self.src != PAD

    @property
    def tgt_mask(self) -> Bool[Tensor, "B T"]:
        """True = a token, False = padding."""
        return self.tgt != PAD


def token_batches(
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    max_tokens: int,
    seed: int = 0,
    epoch: int = 0,
) -> Iterator[Batch]:
    """Every pair of id lists once, in batches of pairs of similar length (section 5.1).

    No batch has more than max_tokens positions on either side, padding, BOS and EOS
    included. Which pairs come together, and in what order, follows from seed and epoch.
    Raises TypeError for sentences in place of ids, ValueError for no pairs or one that
    is longer than max_tokens.
    """
    check_pairs(pairs)
    # with the marks; the target first, for we sort by it, and then by the source
    lengths = [(len(tgt) + 2, len(src) + 1) for src, tgt in pairs]
    check_room(max_tokens, max(map(max, lengths)))
    rng = random.Random(f"{seed}/{epoch}")
    order = list(range(len(pairs)))
    rng.shuffle(order)  # pairs of equal length come together anew in each epoch
    order.sort(key=lengths.__getitem__)
    groups, width = [[]], 0
    for i in order:
        width = max(width, *lengths[i])
        if width * (len(groups[-1]) + 1) > max_tokens:
            groups.append([])
            width = max(lengths[i])
        groups[-1].append(i)
    rng.shuffle(groups)  # not all short sentences first
    return (
        Batch(
            pad([[*pairs[i][0], EOS] for i in g]),
            pad([[BOS, *pairs[i][1], EOS] for i in g]),
        )
        for g in groups
    )
