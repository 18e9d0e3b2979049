"""The pairs that a run of training reads: from a set, a file or shards to the batches of an epoch.

This module is plumbing written by hand.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import tokenizers
from torch import distributed

from allyouneed.data import SPLITS, Pairs, clean, load_pairs
from allyouneed.processes import Process, wait_for_the_first
from allyouneed.settings import Settings
from allyouneed.shards import ShardBatches, Shards
from allyouneed.subwords import BPEDropout
from allyouneed.tokens import Batch, Tokenizer, token_batches
from allyouneed.wmt import CORPORA, newstest

WORD = 10_000  # letters; what cuts words into tokens takes the square of it, and hears no Ctrl-C


def read_pairs(data: str, split: str) -> Pairs:
    """The pairs of a set, or of a file with a sentence, a tab and its translation in each line.

    Of a file, `split` may be "all"; "valid" are about 5 % of it, at most about 2,000 pairs,
    chosen by the source sentence, and "train" the others. Of WMT 2014, by name or by its folder
    of shards, there are "valid" and "test". Raises ValueError for what is no set or file of pairs,
    and for a split it has not.
    """
    if data in SPLITS:
        return load_pairs(data, split)
    if data in CORPORA:
        return newstest(data, split)
    if data and Path(data).is_dir():
        if split not in ("valid", "test"):
            raise ValueError(f"split: expected valid or test of {data}, got {split!r}")
        return Shards(data).pairs(split)
    if not Path(data).is_file():
        known = ", ".join([*SPLITS, *CORPORA])
        raise ValueError(
            f"data: expected {known}, a folder of shards or a file of pairs, got {data!r}"
        )
    pairs = pairs_in_file(data)
    if split == "all":
        return pairs
    if split not in ("train", "valid"):
        raise ValueError(f"split: expected train, valid or all of a file, got {split!r}")
    one_in = max(20, len(pairs) // 2000)
    held = [int(hashlib.sha256(s.encode()).hexdigest()[:8], 16) % one_in == 0 for s, _ in pairs]
    return [p for p, out in zip(pairs, held, strict=True) if out == (split == "valid")]


def pairs_in_file(data: str) -> Pairs:
    """All pairs of a file. Raises ValueError that names the first line that is no text or pair, or
    has a word without end."""
    try:
        lines = Path(data).read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ValueError(f"{data}, line {line}: expected text in UTF-8, got {error}") from None
    pairs = []
    for number, line in enumerate(lines, 1):
        source, _, rest = line.partition("\t")
        pair = tuple(clean(sentence) for sentence in (source, rest.partition("\t")[0]))
        if (long := max(map(len, f"{pair[0]} {pair[1]}".split()), default=0)) > WORD:
            raise ValueError(
                f"{data}, line {number}: expected words of at most {WORD:,} letters, "
                f"got one of {long:,}"
            )
        if all(pair):
            pairs.append(pair)
        elif line.strip():
            raise ValueError(
                f"{data}, line {number}: expected a sentence, a tab and its translation, "
                f"got {line[:60]!r}"
            )
    if not pairs:
        raise ValueError(f"{data}: expected at least one pair of sentences, got none")
    return pairs


def training_pairs(
    data: str, process: Process, say: Callable[[str], None]
) -> tuple[Pairs | Shards, Pairs]:
    """The pairs to train on, and those to validate on.

    Raises ValueError for what holds no such pairs, DataError for what cannot be read or, of
    shards, is not to the last bit what was prepared.
    """
    if data in CORPORA:
        raise ValueError(
            f"data: {data} does not fit into memory. Prepare it with "
            f"`prepare_shards('{data}', 'FOLDER')`, and train with FOLDER as the data"
        )
    if Path(data).is_dir():
        shards = Shards(data)
        if process.local_rank == 0:  # one process of each machine
            shards.verify()
        return shards, shards.pairs("valid")
    pairs, valid = read_pairs(data, "train"), read_pairs(data, "valid")
    if not pairs or not valid:
        say(f"{data} is too small to hold pairs out: validating on those it is trained on")
        pairs = valid = read_pairs(data, "all")
    return pairs, valid


def fingerprint(*several: Pairs | Shards) -> str:
    """The sha256 of pairs, or of what a folder of shards says about all its files."""
    if isinstance(several[0], Shards):
        return several[0].sha256
    return hashlib.sha256(json.dumps(several).encode()).hexdigest()


def learn_tokenizer(pairs: Pairs | Shards, vocabulary: int, process: Process) -> Tokenizer:
    """One vocabulary for both languages; of several processes, the first process's for all.

    Shards have theirs already. Raises ValueError for a vocabulary smaller than the characters.
    """
    if isinstance(pairs, Shards):
        return pairs.tokenizer
    text = [""]
    if process.first:
        text = [Tokenizer.train((s for p in pairs for s in p), vocabulary).bpe.to_str()]
    wait_for_the_first()
    if distributed.is_initialized():
        distributed.broadcast_object_list(text)
    return Tokenizer(tokenizers.Tokenizer.from_str(text[0]))


def check_tokenizer(path: Path, tokenizer: Tokenizer) -> None:
    """Raise ValueError if there is another tokenizer in the folder than the run's."""
    try:
        same = not path.exists() or Tokenizer.load(path).bpe.to_str() == tokenizer.bpe.to_str()
    except Exception:  # tokenizers raises plain Exception
        same = False
    if not same:
        raise ValueError(
            f"{path}: not the tokenizer this run began with; put that back, or remove the file "
            "(the checkpoint has it too)"
        )


def make_shard_batches(
    shards: Shards, settings: Settings, longest: int, process: Process,
    say: Callable[[str], None],
) -> ShardBatches:  # fmt: skip
    """The batches of each epoch of a folder of shards.

    Raises ValueError for BPE-dropout, and if no pair fits into a batch.
    """
    if settings.bpe_dropout:
        raise ValueError(
            "bpe_dropout: shards hold words that are cut already: expected 0, "
            f"got {settings.bpe_dropout}"
        )
    size, seed = settings.batch_tokens, settings.seed
    batches = ShardBatches(shards, size, seed, longest, process.rank, process.world)
    if batches.left_out:
        message = (
            f"{batches.left_out:,} of {len(shards):,} training pairs have more than "
            f"{min(size, longest):,} tokens (batch_tokens)"
        )
        if not len(batches):
            raise ValueError(message)
        say(f"Left out: {message}")
    return batches


def make_batches(
    pairs: Pairs, tokenizer: Tokenizer, settings: Settings, longest: int, what: str,
    say: Callable[[str], None],
) -> tuple[Pairs, Callable[[int], Iterator[Batch]]]:  # fmt: skip
    """The pairs that fit into a batch and the model, and the batches of each epoch of them.

    Raises ValueError if none fits.
    """
    limit = min(settings.batch_tokens, longest)
    ids = [(tokenizer.encode(source), tokenizer.encode(target)) for source, target in pairs]
    lengths = [max(len(source) + 1, len(target) + 2) for source, target in ids]
    fits = [i for i, length in enumerate(lengths) if length <= limit]
    if len(fits) < len(ids):
        i = next(i for i, length in enumerate(lengths) if length > limit)
        message = (
            f"{len(ids) - len(fits):,} of {len(ids):,} {what} pairs have more than {limit:,} "
            f"tokens (batch_tokens), the first is pair {i + 1}: {pairs[i][0][:40]!r}"
        )
        if not fits:
            raise ValueError(message)
        say(f"Left out: {message}")
    ids, pairs = [ids[i] for i in fits], [pairs[i] for i in fits]
    size, seed = settings.batch_tokens, settings.seed
    if what != "training" or not settings.bpe_dropout:
        return pairs, lambda epoch: token_batches(ids, size, seed, epoch)
    cutter = BPEDropout(tokenizer, settings.bpe_dropout, seed)

    def batches(epoch: int) -> Iterator[Batch]:
        draws = random.Random(f"{seed}/{epoch}")
        cut = [tuple(cutter.encode(sentence, draws) for sentence in pair) for pair in pairs]
        fit = [
            new if max(map(len, new)) + 2 <= limit else old
            for new, old in zip(cut, ids, strict=True)
        ]
        return token_batches(fit, size, seed, epoch)

    return pairs, batches
