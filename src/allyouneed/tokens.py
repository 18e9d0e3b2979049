"""PROTOTYPE: chapter 1's notebook generates this; the public names and signatures stay."""

from __future__ import annotations
from dataclasses import dataclass
from collections.abc import Iterable, Iterator
from pathlib import Path
import random
import torch
from jaxtyping import Bool, Int
from torch import Tensor
import tokenizers

PAD, UNK, BOS, EOS = 0, 1, 2, 3
SPECIALS = ["<pad>", "<unk>", "<bos>", "<eos>"]


class Tokenizer:
    def __init__(self, bpe: tokenizers.Tokenizer):
        self.bpe = bpe

    @classmethod
    def train(cls, sentences: Iterable[str], vocab_size: int) -> Tokenizer:
        from tokenizers import Regex, models, normalizers, pre_tokenizers, decoders, trainers

        bpe = tokenizers.Tokenizer(models.BPE(unk_token="<unk>"))
        bpe.normalizer = normalizers.NFC()
        bpe.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Metaspace(), pre_tokenizers.Split(Regex(r"[^\w▁]"), "isolated")]
        )
        bpe.decoder = decoders.Metaspace()
        bpe.train_from_iterator(
            sentences,
            trainers.BpeTrainer(
                vocab_size=vocab_size, special_tokens=SPECIALS, show_progress=False
            ),
        )
        return cls(bpe)

    def encode(self, sentence: str) -> list[int]:
        """ids without BOS and EOS"""
        return self.bpe.encode(sentence).ids

    def tokens(self, sentence: str) -> list[str]:
        return self.bpe.encode(sentence).tokens

    def decode(self, ids: Iterable[int]) -> str:
        """up to the first EOS; specials dropped"""
        ids = [int(i) for i in ids]
        if EOS in ids:
            ids = ids[: ids.index(EOS)]
        return self.bpe.decode(ids)

    def __len__(self):
        return self.bpe.get_vocab_size()

    def save(self, path):
        self.bpe.save(str(path))

    @classmethod
    def load(cls, path):
        return cls(tokenizers.Tokenizer.from_file(str(path)))


@dataclass(frozen=True)
class Batch:
    src: Tensor  # (B, S) ids ... EOS, padded with PAD
    tgt: Tensor  # (B, T) BOS ids ... EOS, padded with PAD

    @property
    def src_mask(self):
        return self.src != PAD  # True = a token

    @property
    def tgt_mask(self):
        return self.tgt != PAD


def pad(sequences: list[list[int]]) -> Tensor:
    n = max(map(len, sequences))
    return torch.tensor([list(s) + [PAD] * (n - len(s)) for s in sequences])


def token_batches(
    pairs: list[tuple[list[int], list[int]]], max_tokens: int, seed: int = 0, epoch: int = 0
) -> Iterator[Batch]:
    """pairs of ids without specials; every batch holds at most max_tokens source and at most max_tokens target positions, padding included; order fixed by seed and epoch"""
    rng = random.Random(f"{seed}/{epoch}")
    order = list(range(len(pairs)))
    rng.shuffle(order)
    order.sort(key=lambda i: (len(pairs[i][1]), len(pairs[i][0])))
    groups, group, s, t = [], [], 0, 0
    for i in order:
        ls, lt = len(pairs[i][0]) + 1, len(pairs[i][1]) + 2
        if group and max(max(s, ls), max(t, lt)) * (len(group) + 1) > max_tokens:
            groups.append(group)
            group, s, t = [], 0, 0
        group.append(i)
        s, t = max(s, ls), max(t, lt)
    if group:
        groups.append(group)
    rng.shuffle(groups)
    for g in groups:
        yield Batch(
            pad([[*pairs[i][0], EOS] for i in g]), pad([[BOS, *pairs[i][1], EOS] for i in g])
        )
