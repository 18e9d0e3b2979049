"""Shards: millions of pairs as token ids on the disk, read a batch at a time.

This module is plumbing written by hand. `wmt.prepare_shards` leaves a folder of them; `Shards`
opens such a folder; `ShardBatches` makes batches of it. (`mosaicml-streaming` knows no batches of
so many tokens, `datasets` loses its shuffle buffer on resuming; they bring 105 and 23 packages,
this needs NumPy.)

The folder. tokenizer.json; valid.tsv and test.tsv; for so many rows of the set a shard:

    train-00000.tokens   the ids of source, target, source, target, ..., 16 bits each
    train-00000.starts   where each of them starts, and the last one ends, 32 bits each

and manifest.json, which names the set, the rule, the counts and the sha256 of every file. All
numbers are little-endian.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from allyouneed.data import Pairs
from allyouneed.sources import DataError
from allyouneed.tokens import BOS, EOS, PAD, Batch, Tokenizer

SHARDS_FORMAT = "allyouneed shards 1"
ENTRIES = {"set": str, "source": str, "rule": str, "vocabulary": str, "rows": int,
           "complete": bool, "files": dict, "shards": list}  # fmt: skip
LONGEST = 250  # tokens of a side
REPAIR = "; `prepare_shards` with the same set and folder puts it right"


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
