"""WMT 2014 in shards: millions of pairs as token ids on the disk, read a batch at a time.

This module is plumbing written by hand. `prepare_shards` streams a set from the Hugging Face hub,
cleans it, learns a vocabulary and leaves a folder; `Shards` opens such a folder; `ShardBatches`
makes batches of it. (`mosaicml-streaming` knows no batches of so many tokens, `datasets` loses its
shuffle buffer on resuming; they bring 105 and 23 packages, this needs NumPy.) The sets are
"wmt14-en-de" (4.5 million pairs) and "wmt14-en-fr" (41 million), as the hub has them: Europarl,
Common Crawl, News Commentary, and for French also the documents of the United Nations and the 10^9
corpus; newstest2013 is valid, newstest2014 test.

The rule. Text is cleaned as in `data`: Unicode NFC, no soft hyphens and zero-width spaces, every
run of white space is one space. Then a pair is dropped if a side is empty, if a side has more than
250 tokens, or if one side has more than three times the tokens of the other; the manifest counts
them. Pairs that stand there twice are kept, as nothing in the paper says otherwise. Pairs of valid
and test are kept all, and but for white space as they are: scores are compared with other people's.

The vocabulary is byte-pair encoding of both languages together (section 5.1), 37,000 tokens with
German and 32,000 with French, learnt from every 5th pair with German, every 45th with French:
about 900,000 pairs, from all parts of the set alike.

The folder. tokenizer.json; valid.tsv and test.tsv; for each 500,000 rows of the set a shard:

    train-00000.tokens   the ids of source, target, source, target, ..., 16 bits each
    train-00000.starts   where each of them starts, and the last one ends, 32 bits each

and manifest.json, which names the set, the rule, the counts and the sha256 of every file. It is
written anew after each file, and files are written whole or not at all: who is killed goes on with
the same command, and gets the same bytes. All numbers are little-endian.

A folder named by ALLYOUNEED_DATA is looked in before the hub: wmt14/de-en and wmt14/fr-en may hold
train, validation and test as .parquet or .jsonl, rows as on the hub:
{"translation": {"de": "...", "en": "..."}}.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock, Timeout

from allyouneed.data import Pairs, clean
from allyouneed.files import write_file, write_json
from allyouneed.sources import DataError
from allyouneed.tokens import BOS, EOS, PAD, UNK, Batch, Tokenizer

SHARDS_FORMAT = "allyouneed shards 1"
HUB, REVISION = "wmt/wmt14", "b199e406369ec1b7634206d3ded5ba45de2fe696"
ROWS = 500_000  # of the set, behind each shard
ENTRIES = {"set": str, "source": str, "rule": str, "vocabulary": str, "rows": int,
           "complete": bool, "files": dict, "shards": list}  # fmt: skip
LONGEST, RATIO = 250, 3  # tokens of a side; of one side for each of the other
RULE = (
    "NFC, soft hyphens and zero-width spaces removed, white space to one space; dropped if a side "
    f"is empty, has more than {LONGEST} tokens, or more than {RATIO} times those of the other"
)


@dataclass(frozen=True)
class Corpus:
    """A set of pairs from English: its name on the hub, its language, and its vocabulary."""

    config: str
    target: str
    vocabulary: int
    every: int  # the vocabulary is learnt from every so manieth pair


CORPORA = {
    "wmt14-en-de": Corpus("de-en", "de", 37_000, 5),
    "wmt14-en-fr": Corpus("fr-en", "fr", 32_000, 45),
}


# Reading a folder


class Shards:
    """A folder of shards. What they hold stays on the disk until it is asked for.

    Raises DataError unless the folder is complete and every file has its size (and, for the
    tokenizer, its sha256); `verify` reads them all.
    """

    def __init__(self, folder: str | Path):
        self.folder = Path(folder)
        self.manifest = read_manifest(self.folder)
        if not self.manifest["complete"]:
            raise DataError(
                f"{folder} is not finished; go on with "
                f"`prepare_shards('{self.manifest['set']}', '{folder}')`"
            )
        files, numbers = self.manifest["files"], range(len(self.manifest["shards"]))
        parts = [f"train-{i:05}.{kind}" for i in numbers for kind in ("tokens", "starts")]
        if lost := {"tokenizer.json", "valid.tsv", "test.tsv", *parts} - files.keys():
            raise DataError(f"{self.folder}/manifest.json: expected {min(lost)} in it, got none")
        for name, (size, _) in files.items():
            found = (self.folder / name).stat().st_size if (self.folder / name).is_file() else None
            if found != size:
                got = "none" if found is None else f"{found:,}"
                raise DataError(f"{self.folder / name}: expected {size:,} bytes, got {got}{REPAIR}")
        self._check("tokenizer.json")
        self.name = self.manifest["set"]
        self.tokenizer = Tokenizer.load(self.folder / "tokenizer.json")
        self.sha256 = hashlib.sha256((self.folder / "manifest.json").read_bytes()).hexdigest()
        self.tokens = [_mapped(self.folder / f"train-{i:05}.tokens", "<u2") for i in numbers]
        self.starts = [_mapped(self.folder / f"train-{i:05}.starts", "<u4") for i in numbers]
        for shard, starts in zip(self.manifest["shards"], self.starts, strict=True):
            if len(starts) != 2 * shard["pairs"] + 1:
                raise DataError(
                    f"{self.folder}/manifest.json: expected {len(starts) // 2:,} pairs in a shard, "
                    f"got {shard['pairs']:,}"
                )
        self.first = np.cumsum([0, *(shard["pairs"] for shard in self.manifest["shards"])])

    def __len__(self) -> int:
        """The pairs to train on."""
        return int(self.first[-1])

    def pairs(self, split: str) -> Pairs:
        """The sentences of "valid" or "test"."""
        content = self._check(f"{split}.tsv").decode()
        return [tuple(line.split("\t")) for line in content.splitlines()]

    def verify(self) -> None:
        """Raise DataError unless every file is, to the last bit, what was written."""
        for name in self.manifest["files"]:
            self._check(name)

    def _check(self, name: str) -> bytes:
        content, sha256 = (self.folder / name).read_bytes(), self.manifest["files"][name][1]
        if (found := hashlib.sha256(content).hexdigest()) != sha256:
            raise DataError(
                f"{self.folder / name}: expected sha256 {sha256}, got {found}: it is not the "
                f"file that was prepared{REPAIR}"
            )
        return content

    def lengths(self) -> np.ndarray:
        """Tokens of every source and target, (pairs, 2)."""
        return np.concatenate([np.diff(s).astype(np.uint16).reshape(-1, 2) for s in self.starts])

    def batch(self, rows: np.ndarray) -> Batch:
        """The pairs with these numbers, which must rise, as a batch."""
        cuts = np.searchsorted(rows, self.first)
        sides: tuple[list, list] = ([], [])
        for number in np.flatnonzero(np.diff(cuts)):
            starts, tokens = self.starts[number], self.tokens[number]
            at = 2 * (rows[cuts[number] : cuts[number + 1]] - self.first[number])
            for side, found in enumerate(sides):
                start = starts[at + side].astype(np.int64)
                length = starts[at + side + 1] - start
                shift = np.repeat(start - np.cumsum(length) + length, length)
                found.append((length, tokens[shift + np.arange(len(shift))]))
        src, tgt = (tuple(map(np.concatenate, zip(*found, strict=True))) for found in sides)
        return Batch(_padded(*src, before=0), _padded(*tgt, before=1))


REPAIR = "; `prepare_shards` with the same set and folder puts it right"


def _padded(length: np.ndarray, ids: np.ndarray, before: int) -> torch.Tensor:
    """Sentences, one after another in `ids`, as rows: BOS (if `before` is 1), ids, EOS, PAD."""
    longest = int(length.max())
    table = np.full((len(length), before + longest + 1), PAD, dtype=np.int64)
    table[:, before:-1][np.arange(longest) < length[:, None]] = ids
    table[np.arange(len(length)), before + length] = EOS
    table[:, :before] = BOS
    return torch.from_numpy(table)


def _mapped(path: Path, kind: str) -> np.ndarray:
    """The numbers of a file, which the system reads when they are looked at."""
    size = path.stat().st_size
    return np.memmap(path, kind, "r").view(np.ndarray) if size else np.zeros(0, kind)


class ShardBatches:
    """The batches of each epoch, as `token_batches` makes them, but of millions of pairs.

    `batches(epoch)` goes through all pairs once: pairs of similar length together, no more than
    max_tokens positions on either side, in an order that follows from seed and epoch. Pairs with
    more than `limit` tokens are left out, `left_out` counts them. `len` is the number of batches,
    the same in every epoch.

    Each of `world` processes builds every world-th batch only. In place of the others stands an
    empty sentence for each token that they are to predict (EOS counted, BOS not), so that the
    process knows how many tokens the whole update has.

    Memory: 4 bytes a pair, 8 in the middle of an epoch, 26 for a moment before. What is read of the
    files comes on top, but the system can take that back.
    """

    def __init__(
        self, shards: Shards, max_tokens: int, seed: int = 0, limit: int = LONGEST + 2,
        rank: int = 0, world: int = 1,
    ):  # fmt: skip
        self.shards, self.seed, self.rank, self.world = shards, seed, rank, world
        lengths = shards.lengths() + np.array([1, 2], np.uint16)
        longest = lengths.max(1)
        # target, then source, as token_batches sorts them; what is too long comes last
        self.lengths = lengths[:, 1].astype(np.uint32) << 16 | lengths[:, 0]
        self.lengths[longest > min(max_tokens, limit)] = np.iinfo(np.uint32).max
        self.left_out = int((longest > min(max_tokens, limit)).sum())
        ordered = np.sort(self.lengths)[: len(shards) - self.left_out]
        widths = np.maximum(ordered >> 16, ordered & 0xFFFF).astype(np.int64)
        bounds = [0]
        while bounds[-1] < len(widths):
            some = widths[bounds[-1] :][: max_tokens // widths[bounds[-1]]]
            positions = np.maximum.accumulate(some) * np.arange(1, len(some) + 1)
            bounds.append(bounds[-1] + int((positions <= max_tokens).sum()))
        self.bounds = np.array(bounds)

    def __len__(self) -> int:
        return len(self.bounds) - 1

    def __call__(self, epoch: int) -> Iterator[Batch]:
        draws = np.random.PCG64([self.seed, epoch])  # the same numbers in every version of NumPy
        keys = self.lengths.astype(np.uint64) << np.uint64(32)
        keys |= draws.random_raw(len(keys)) >> np.uint64(32)  # equal lengths anew in each epoch
        order = np.argsort(keys, kind="stable").astype(np.uint32)
        del keys
        turns = np.argsort(draws.random_raw(len(self)), kind="stable")
        for turn, group in enumerate(turns):
            rows = np.sort(order[self.bounds[group] : self.bounds[group + 1]]).astype(np.int64)
            if turn % self.world == self.rank:
                yield self.shards.batch(rows)
            else:
                count = int((self.lengths[rows] >> 16).sum()) - len(rows)
                yield Batch(torch.tensor([[EOS]]).expand(count, 1),
                            torch.tensor([[BOS, EOS]]).expand(count, 2))  # fmt: skip


def read_manifest(folder: Path) -> dict[str, Any]:
    """What a folder of shards says about itself. Raises DataError for what is no such folder."""
    if not folder.is_dir():
        raise DataError(f"expected a folder of shards, found none at {folder}")
    try:
        manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        form = manifest["format"]
    except FileNotFoundError:
        raise DataError(f"{folder} is no folder of shards: it has no manifest.json") from None
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder}/manifest.json: expected the manifest of shards") from error
    if form != SHARDS_FORMAT:
        raise DataError(f"{folder}/manifest.json: expected {SHARDS_FORMAT!r}, got {form!r}")
    if not _has_all_entries(manifest):
        raise DataError(
            f"{folder}/manifest.json: expected the entries that `prepare_shards` writes, got others"
        )
    return manifest


def _has_all_entries(manifest: dict[str, Any]) -> bool:
    """Whether a manifest has all its entries, and of its shards and files what is needed."""
    try:
        kinds = all(type(manifest[name]) is kind for name, kind in ENTRIES.items())
        sizes = all(size >= 0 and len(seal) == 64 for size, seal in manifest["files"].values())
        return kinds and sizes and all(shard["pairs"] >= 0 for shard in manifest["shards"])
    except (KeyError, TypeError, ValueError):
        return False


# Writing a folder


def prepare_shards(
    name: str, folder: str | Path, say: Callable[[str], None] = print, rows: int = ROWS
) -> Shards:
    """Make the shards of a set, or go on where it was broken off; a whole folder is verified.

    Raises ValueError for another set or a folder that holds something else, DataError if the set
    cannot be read.
    """
    if name not in CORPORA:
        raise ValueError(f"name: expected one of {', '.join(CORPORA)}, got {name!r}")
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise ValueError(f"folder: another process is at work in {folder}") from None
    with lock:
        return _Preparation(name, folder, say, rows).run()


class _Preparation:
    """The work on one folder: each file is made unless it stands there whole."""

    def __init__(self, name: str, folder: Path, say: Callable[[str], None], rows: int):
        self.corpus, self.folder, self.say, self.rows = CORPORA[name], folder, say, rows
        self.manifest = {
            "format": SHARDS_FORMAT, "set": name, "source": source_of(self.corpus), "rule": RULE,
            "vocabulary": f"{self.corpus.vocabulary:,} tokens at most, learnt from one pair in "
            f"{self.corpus.every}",
            "rows": rows, "complete": False, "files": {}, "shards": [],
        }  # fmt: skip
        if (folder / "manifest.json").exists():
            found = read_manifest(folder)
            for key in ("set", "source", "rule", "vocabulary", "rows"):
                if found[key] != self.manifest[key]:
                    raise ValueError(
                        f"folder: {folder} was begun with the {key} {found[key]!r}, "
                        f"got {self.manifest[key]!r}; name another folder"
                    )
            self.manifest = found
        elif other := [f.name for f in folder.iterdir() if f.suffix not in (".part", ".lock")
                       and f.name != ".lock"]:  # fmt: skip
            raise ValueError(
                f"folder: {folder} holds other files ({other[0]}); name another folder"
            )

    def run(self) -> Shards:
        self.keep("valid.tsv", lambda: self.sentences("validation"))
        self.keep("test.tsv", lambda: self.sentences("test"))
        self.keep("tokenizer.json", self.learn)
        self.tokenizer = Tokenizer.load(self.folder / "tokenizer.json")
        known, number, rows, at = self.manifest["shards"], 0, None, 0
        while not (self.manifest["complete"] and number == len(known)):
            if number < len(known) and all(map(self.whole, self.names(number))):
                number += 1
                continue
            if rows is None or at != number:  # else the stream stands there already
                rows = read_rows(self.corpus, "train", number * self.rows)
            content, counts = self.shard(itertools.islice(rows, self.rows))
            at = number + 1
            if counts["rows"]:
                known[number : number + 1] = [counts]
                for file, numbers in zip(self.names(number), content, strict=True):
                    self.store(file, numbers.tobytes())
                self.say(f"Shard {number}: {counts['pairs']:,} of {counts['rows']:,} pairs kept")
                number += 1
            if counts["rows"] < self.rows:
                self.manifest["complete"] = True
            self.save_manifest()
        shards = Shards(self.folder)
        if not len(shards):
            raise DataError(f"{self.manifest['source']}: expected pairs to train on, got none")
        tokens = sum(int(s[-1]) for s in shards.starts)
        self.say(
            f"{self.folder}: {len(shards):,} pairs, {tokens:,} tokens, a vocabulary of "
            f"{len(shards.tokenizer):,}; every file has its checksum"
        )
        return shards

    def names(self, number: int) -> tuple[str, str]:
        return f"train-{number:05}.tokens", f"train-{number:05}.starts"

    def whole(self, name: str) -> bool:
        """Whether a file was written, and still is what was written."""
        path, known = self.folder / name, self.manifest["files"].get(name)
        if known is None or not path.is_file():
            return False
        if hashlib.sha256(path.read_bytes()).hexdigest() == known[1]:
            return True
        self.say(f"{path} is damaged: it is made anew")
        return False

    def keep(self, name: str, make: Callable[[], str]) -> None:
        if not self.whole(name):
            content = make().encode()
            if not self.manifest["files"]:
                self.save_manifest()  # first, so that who is killed finds a folder of ours
            self.store(name, content)
            self.save_manifest()

    def store(self, name: str, content: bytes) -> None:
        entry, files = [len(content), hashlib.sha256(content).hexdigest()], self.manifest["files"]
        if files.setdefault(name, entry) != entry:
            raise DataError(
                f"{self.folder / name}: made anew, it is another file than before: the set or the "
                "libraries have changed. Prepare it in another folder"
            )
        write_file(self.folder / name, content)

    def save_manifest(self) -> None:
        write_json(self.folder / "manifest.json", self.manifest)

    def sentences(self, split: str) -> str:
        pairs = (
            "\t".join(" ".join(s.split()) for s in pair) for pair in read_rows(self.corpus, split)
        )
        return "".join(f"{line}\n" for line in pairs)

    def learn(self) -> str:
        """The vocabulary, from a sample of all parts of the set."""
        self.say(f"Learning a vocabulary from one pair in {self.corpus.every} ...")
        some = itertools.islice(read_rows(self.corpus, "train"), 0, None, self.corpus.every)
        texts = (text for pair in some for side in pair if (text := clean(side)))
        try:
            return Tokenizer.train(texts, self.corpus.vocabulary).bpe.to_str(pretty=True)
        except ValueError as error:
            raise DataError(f"{self.manifest['source']}: {error}") from None

    def shard(
        self, rows: Iterator[tuple[str, str]]
    ) -> tuple[tuple[np.ndarray, np.ndarray], dict[str, int]]:
        """Tokens, starts, and what was counted, of the next rows of the set."""
        encode = self.tokenizer.bpe.encode_batch
        tokens, starts, counts = array("H"), array("I", [0]), Counter()
        while block := list(itertools.islice(rows, 1000)):
            texts = [[clean(side) for side in pair] for pair in block]
            full = [pair for pair in texts if all(pair)]
            ids = [x.ids for x in encode([side for pair in full for side in pair])]
            counts += Counter(rows=len(block), empty=len(block) - len(full))
            for pair in zip(ids[::2], ids[1::2], strict=True):
                short, long = sorted(map(len, pair))
                if long > LONGEST or not short:
                    counts["long" if short else "empty"] += 1
                elif long > RATIO * short:
                    counts["uneven"] += 1
                else:
                    counts["pairs"] += 1
                    for side, what in zip(pair, ("source tokens", "target tokens"), strict=True):
                        tokens.extend(side)
                        starts.append(len(tokens))
                        counts[what] += len(side)
                        counts["unknown"] += side.count(UNK)
        names = ("rows", "pairs", "empty", "long", "uneven", "source tokens", "target tokens",
                 "unknown")  # fmt: skip
        content = np.array(tokens, "<u2"), np.array(starts, "<u4")
        return content, {what: counts[what] for what in names}


# The set as others have published it


def local_files(corpus: Corpus) -> Path | None:
    """The folder of a set in ALLYOUNEED_DATA, if there is one."""
    folder = os.environ.get("ALLYOUNEED_DATA")
    path = Path(folder or "nowhere").expanduser() / "wmt14" / corpus.config
    return path if folder and path.is_dir() else None


def source_of(corpus: Corpus) -> str:
    """Where a set is read from: the hub, or files of known sizes."""
    if not (folder := local_files(corpus)):
        return f"{HUB} {corpus.config} at {REVISION}"
    files = sorted(f for f in folder.iterdir() if f.is_file())
    return ", ".join(f"{f.name} ({f.stat().st_size:,} bytes)" for f in files)


def read_rows(corpus: Corpus, split: str, skip: int = 0) -> Iterator[tuple[str, str]]:
    """The pairs of "train", "validation" or "test" as published, one by one, after the first ones.

    Raises DataError if the library `datasets` is missing, or the set cannot be read.
    """
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise DataError(
            f"WMT 2014 is read with the library datasets: pip install datasets ({error})"
        ) from None
    local = local_files(corpus)
    try:
        if local:
            stream = load_dataset(str(local), split=split, streaming=True)
        else:
            stream = load_dataset(
                HUB, corpus.config, split=split, streaming=True, revision=REVISION
            )
        for block in stream.skip(skip).iter(1000):
            for row in block["translation"]:
                yield row["en"] or "", row[corpus.target] or ""
    except Exception as error:  # whatever a network, a hub or a foreign file may bring about
        reason = (str(error).splitlines() or [""])[0][:200]
        raise DataError(
            f"WMT 2014 could not be read from {local or 'the Hugging Face hub'} "
            f"({type(error).__name__}: {reason}). "
            + (
                'Expected train, validation and test as .parquet or .jsonl, rows {"translation": '
                f'{{"{corpus.target}": "...", "en": "..."}}}}.'
                if local
                else "Connect to the network and give the same command again: it goes on where it "
                f"was. Or set ALLYOUNEED_DATA to a folder that holds wmt14/{corpus.config}."
            )
        ) from error


def newstest(name: str, split: str) -> Pairs:
    """newstest2013 ("valid") or newstest2014 ("test"), from ALLYOUNEED_DATA or by sacreBLEU.

    Raises ValueError for another split, DataError if there is no network.
    """
    if split not in ("valid", "test"):
        raise ValueError(f"split: expected valid or test of {name}, got {split!r}")
    corpus = CORPORA[name]
    if local_files(corpus):
        return list(read_rows(corpus, {"valid": "validation"}.get(split, split)))
    from sacrebleu.utils import get_reference_files, get_source_file

    year, languages = {"valid": "wmt13", "test": "wmt14/full"}[split], f"en-{corpus.target}"
    try:
        files = [get_source_file(year, languages), get_reference_files(year, languages)[0]]
    except (Exception, SystemExit) as error:
        raise DataError(
            f"{year} could not be fetched by sacreBLEU ({error}); connect to the network, or name "
            "the folder of prepared shards, which has it too."
        ) from error
    sides = [Path(file).read_text(encoding="utf-8").rstrip("\n").split("\n") for file in files]
    return list(zip(*sides, strict=True))
