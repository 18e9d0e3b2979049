"""WMT 2014 in shards: read as others have published it, cleaned, cut into tokens, and kept.

This module is plumbing written by hand. `prepare_shards` streams a set from the Hugging Face hub,
cleans it, learns a vocabulary and leaves a folder, which `shards` reads. The sets are "wmt14-en-de"
(4.5 million pairs) and "wmt14-en-fr" (41 million), as the hub has them: Europarl, Common Crawl,
News Commentary, and for French also the documents of the United Nations and the 10^9 corpus;
newstest2013 is valid, newstest2014 test.

The rule. Text is cleaned as in `data`: Unicode NFC, no soft hyphens and zero-width spaces, every
run of white space is one space. Then a pair is dropped if a side is empty, if a side has more than
250 tokens, or if one side has more than three times the tokens of the other; the manifest counts
them. Pairs that stand there twice are kept, as nothing in the paper says otherwise. Pairs of valid
and test are kept all, and but for white space as they are: scores are compared with other people's.

The vocabulary is byte-pair encoding of both languages together (section 5.1), 37,000 tokens with
German and 32,000 with French, learnt from every 5th pair with German, every 45th with French:
about 900,000 pairs, from all parts of the set alike.

A shard stands for 500,000 rows of the set. The manifest is written anew after each file, and files
are written whole or not at all: who is killed goes on with the same command, and gets the same
bytes.

A folder named by ALLYOUNEED_DATA is looked in before the hub: wmt14/de-en and wmt14/fr-en may hold
train, validation and test as .parquet or .jsonl, rows as on the hub:
{"translation": {"de": "...", "en": "..."}}.
"""

from __future__ import annotations

import hashlib
import itertools
import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from allyouneed.checks import check_choice
from allyouneed.data import Pairs, clean
from allyouneed.files import lock_folder, write_file, write_json
from allyouneed.shards import LONGEST, SHARDS_FORMAT, Shards, read_manifest
from allyouneed.sources import DataError
from allyouneed.tokens import UNK, Tokenizer

HUB, REVISION = "wmt/wmt14", "b199e406369ec1b7634206d3ded5ba45de2fe696"
ROWS = 500_000  # of the set, behind each shard
RATIO = 3  # tokens of one side for each of the other, at most
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


def prepare_shards(
    name: str, folder: str | Path, say: Callable[[str], None] = print, rows: int = ROWS
) -> Shards:
    """Make the shards of a set, or go on where it was broken off; a whole folder is verified.

    Raises ValueError for another set or a folder that holds something else, DataError if the set
    cannot be read.
    """
    check_choice(CORPORA, name=name)
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    lock = lock_folder(folder)
    try:
        return _Preparation(name, folder, say, rows).run()
    finally:
        lock.release()


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

    Raises ValueError for another set or split, DataError if there is no network.
    """
    check_choice(CORPORA, name=name)
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
