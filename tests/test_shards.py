"""Shards: killed while they are made, damaged, foreign; and the batches that come of them."""

from __future__ import annotations

import errno
import filecmp
import json
import os
import random
import shutil
import sys
import time
import tracemalloc
from pathlib import Path

import killed
import numpy as np
import pytest
import torch

from allyouneed import command
from allyouneed.shards import ShardBatches, Shards
from allyouneed.sources import DataError
from allyouneed.tokens import BOS, EOS, PAD, Batch, token_batches
from allyouneed.wmt import CORPORA, newstest, prepare_shards

WORDS = "der ein Mann Frau Hund geht läuft sieht groß klein und im auf Haus Ball".split()


def published(folder: Path, number: int, config: str = "de-en") -> Path:
    """A set as on the hub, of `number` rows: words, and the same backwards. One in ten is bad."""
    draw, there = random.Random(0), folder / "wmt14" / config
    there.mkdir(parents=True)

    def row(i: int) -> dict:
        words = draw.choices(WORDS, k=draw.randint(1, 6))
        one, other = " ".join(words), " ".join(reversed(words))
        if i % 20 == 7:
            one = ["", None, "\u200b \t"][i % 3]
        if i % 20 == 9:
            other = "Mann " * 260
        if i % 20 == 13:
            one, other = "Mann", "Frau " * 4
        return {"translation": {"en": f" {one}\u00a0" if one else one, config[:2]: f"\t{other}"}}

    for split, count in (("train", number), ("validation", 6), ("test", 8)):
        rows = (row(i) if split == "train" else row(0) for i in range(count))
        lines = "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in rows)
        (there / f"{split}.jsonl").write_text(lines, encoding="utf-8")
    return folder


@pytest.fixture(scope="module", autouse=True)
def offline():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HF_HUB_OFFLINE", "1")
        yield


@pytest.fixture(scope="module")
def wmt(tmp_path_factory) -> Path:
    return published(tmp_path_factory.mktemp("data"), 640)


@pytest.fixture(autouse=True)
def local(wmt, monkeypatch):
    monkeypatch.setenv("ALLYOUNEED_DATA", str(wmt))


@pytest.fixture(scope="module")
def whole(wmt, tmp_path_factory) -> Path:
    """A folder of seven shards that nothing disturbed."""
    folder = tmp_path_factory.mktemp("whole") / "shards"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ALLYOUNEED_DATA", str(wmt))
        prepare_shards("wmt14-en-de", folder, print, rows=100)
    return folder


@pytest.fixture
def copy(whole, tmp_path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "copy"))


def assert_same_folder(one: Path, other: Path) -> None:
    """The same files to the last byte."""
    names = sorted(f.name for f in other.iterdir() if f.name != ".lock")
    assert sorted(f.name for f in one.iterdir() if f.name != ".lock") == names
    assert filecmp.cmpfiles(one, other, names, shallow=False)[0] == names


def ids(folder: Shards) -> list[tuple[list[int], list[int]]]:
    """All pairs, read in the plainest way."""
    pairs = []
    for tokens, starts in zip(folder.tokens, folder.starts, strict=True):
        parts = [tokens[a:b].tolist() for a, b in zip(starts[:-1], starts[1:], strict=True)]
        pairs += zip(parts[::2], parts[1::2], strict=True)
    return pairs


def bare(batches: list[Batch]) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The pairs of batches without padding, BOS and EOS, sorted."""
    pairs = []
    for batch in batches:
        for src, tgt in zip(batch.src.tolist(), batch.tgt.tolist(), strict=True):
            src, tgt = (x[: x.index(EOS) + 1] + [PAD] * x.count(PAD) for x in (src, tgt))
            assert tgt[0] == BOS
            pairs.append(tuple(tuple(i for i in x if i > EOS) for x in (src, tgt)))
    return sorted(pairs)


# What is written


def test_what_is_kept(whole, wmt):
    folder = Shards(whole)
    assert [s["rows"] for s in folder.manifest["shards"]] == [100] * 6 + [40]
    for name in ("empty", "long", "uneven"):
        assert sum(s[name] for s in folder.manifest["shards"]) == 32
    assert len(folder) == 640 - 3 * 32
    rows = [json.loads(x)["translation"] for x in
            (wmt / "wmt14" / "de-en" / "train.jsonl").read_text("utf-8").splitlines()]  # fmt: skip
    kept = [r for i, r in enumerate(rows) if i % 20 not in (7, 9, 13)]
    encode = folder.tokenizer.encode
    assert ids(folder) == [
        (encode(" ".join(r["en"].split())), encode(" ".join(r["de"].split()))) for r in kept
    ]
    assert len(folder.pairs("valid")) == 6 and len(folder.pairs("test")) == 8
    assert sum(s["unknown"] for s in folder.manifest["shards"]) == 0
    folder.verify()


def test_french(tmp_path, monkeypatch):
    monkeypatch.setenv("ALLYOUNEED_DATA", str(published(tmp_path, 60, "fr-en")))
    said = []
    folder = prepare_shards("wmt14-en-fr", tmp_path / "out", said.append)
    assert folder.manifest["set"] == "wmt14-en-fr" and f"{len(folder)} pairs" in said[-1]
    assert 51 <= len(folder) <= 54


def work(folder: Path) -> None:
    prepare_shards("wmt14-en-de", folder, print, rows=100)


def test_killed_and_gone_on_is_the_same_to_the_last_byte(whole, tmp_path):
    """Killed at the second write, then at every fifth, before the file is moved to its place."""
    folder, times = tmp_path / "shards", 0
    while killed.was_killed(killed.start(work, folder, dies=("replace", 4 if times else 1))):
        times += 1
    assert times >= 4
    assert not list(folder.glob("*.part"))
    assert_same_folder(folder, whole)


@pytest.mark.parametrize("name", ["train-00002.tokens", "train-00006.starts", "valid.tsv"])
def test_damaged_files_are_made_anew(copy, whole, name, capsys):
    content = (copy / name).read_bytes()
    (copy / name).write_bytes(content[:-4] + b"\0\1\2\3")
    with pytest.raises(DataError, match=f"{name}: expected sha256 .*puts it right"):
        Shards(copy).verify()
    prepare_shards("wmt14-en-de", copy, print, rows=100)
    assert f"{name} is damaged" in capsys.readouterr().out
    assert_same_folder(copy, whole)
    (copy / name).unlink()
    prepare_shards("wmt14-en-de", copy, print, rows=100)
    assert_same_folder(copy, whole)


def test_a_full_disk(tmp_path, capsys):
    real, left = os.replace, iter(range(7))

    def full(*args):
        if next(left, None) is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(*args)

    words = ["prepare", "--data", "wmt14-en-de", "--out", str(tmp_path / "shards")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "replace", full)
        assert command.main(words) == 2
    assert "the disk is full" in capsys.readouterr().err
    assert command.main(words) == 0


# Folders that are none


def test_folders_that_are_none(copy, tmp_path):
    with pytest.raises(DataError, match="found none at"):
        Shards(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="has no manifest.json"):
        Shards(tmp_path / "empty")
    manifest = json.loads((copy / "manifest.json").read_text("utf-8"))
    for text, named in (
        ("[]", "expected the manifest of shards"),
        ("{", "expected the manifest of shards"),
        (json.dumps(manifest | {"format": "x"}), "expected 'allyouneed shards 1', got 'x'"),
        (json.dumps(manifest | {"complete": False}), "go on with `prepare_shards.*wmt14-en-de"),
        (json.dumps({k: v for k, v in manifest.items() if k != "rule"}), "expected the entries"),
        (json.dumps(manifest | {"set": 3}), "expected the entries"),
        (json.dumps(manifest | {"files": {"valid.tsv": 3}}), "expected the entries"),
        (json.dumps(manifest | {"shards": [{"rows": 100}]}), "expected the entries"),
        (json.dumps(manifest | {"files": {}}), "expected test.tsv in it, got none"),
        (
            json.dumps(manifest | {"shards": [{"pairs": 9}, *manifest["shards"][1:]]}),
            "pairs in a shard, got 9",
        ),
    ):
        (copy / "manifest.json").write_text(text, "utf-8")
        with pytest.raises(DataError, match=named):
            Shards(copy)


def test_truncated_and_missing_shards(copy):
    file = copy / "train-00003.tokens"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(DataError, match="train-00003.tokens: expected .* bytes, got"):
        Shards(copy)
    file.unlink()
    with pytest.raises(DataError, match="train-00003.tokens: expected .* bytes, got none"):
        Shards(copy)


def test_a_run_looks_at_every_byte(copy, tmp_path, capsys):
    """A flipped bit makes another token, and nothing else would notice."""
    content = bytearray((copy / "train-00002.tokens").read_bytes())
    content[100] ^= 1
    (copy / "train-00002.tokens").write_bytes(content)
    words = ["train", "--preset", "tiny", "--data", str(copy), "--out", str(tmp_path / "run")]
    assert command.main([*words, "--steps", "1"]) == 2
    assert "train-00002.tokens: expected sha256" in capsys.readouterr().err


def test_another_tokenizer(copy):
    text = (copy / "tokenizer.json").read_text("utf-8")
    (copy / "tokenizer.json").write_text(text.replace("Hund", "hunD"), "utf-8")
    with pytest.raises(DataError, match="tokenizer.json: expected sha256"):
        Shards(copy)


def test_folders_that_hold_something_else(copy, tmp_path):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ValueError, match="holds other files .*; name another folder"):
        prepare_shards("wmt14-en-de", tmp_path, print)
    with pytest.raises(ValueError, match="was begun with the rows 100, got 500000"):
        prepare_shards("wmt14-en-de", copy, print)
    with pytest.raises(ValueError, match="was begun with the set 'wmt14-en-de'"):
        prepare_shards("wmt14-en-fr", copy, print, rows=100)
    with pytest.raises(ValueError, match="name: expected one of wmt14-en-de, wmt14-en-fr"):
        prepare_shards("wmt14", tmp_path / "new", print)


def test_another_source(copy, tmp_path, monkeypatch):
    monkeypatch.setenv("ALLYOUNEED_DATA", str(published(tmp_path, 700)))
    with pytest.raises(ValueError, match="was begun with the source"):
        prepare_shards("wmt14-en-de", copy, print, rows=100)


# Sets that cannot be read


def test_no_network(tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("ALLYOUNEED_DATA")
    monkeypatch.setattr(time, "sleep", lambda seconds: None)  # it asks six times, in 23 s
    words = ["prepare", "--data", "wmt14-en-de", "--out", str(tmp_path / "out")]
    assert command.main(words) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: WMT 2014 could not be read from the Hugging Face hub")
    assert "Connect to the network" in error and "ALLYOUNEED_DATA" in error
    assert error.count("\n") == 1


def test_datasets_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(DataError, match="pip install datasets"):
        prepare_shards("wmt14-en-de", tmp_path / "out", print)


@pytest.mark.parametrize(
    "text",
    ['{"text": "abc"}\n', '{"translation": {"en": "a", "fr": "b"}}\n', "abc\n", ""],
)
def test_foreign_files(tmp_path, monkeypatch, text):
    folder = published(tmp_path, 5)
    (folder / "wmt14" / "de-en" / "train.jsonl").write_text(text, "utf-8")
    monkeypatch.setenv("ALLYOUNEED_DATA", str(folder))
    with pytest.raises(DataError, match="could not be read|expected text|Expected train"):
        prepare_shards("wmt14-en-de", tmp_path / "out", print)


def test_newstest(wmt):
    assert len(newstest("wmt14-en-de", "valid")) == 6
    assert len(newstest("wmt14-en-de", "test")) == 8
    with pytest.raises(ValueError, match="split: expected valid or test"):
        newstest("wmt14-en-de", "train")
    with pytest.raises(ValueError, match="name: expected one of wmt14-en-de, wmt14-en-fr, got"):
        newstest("wmt14-de-en", "valid")


# Batches


@pytest.mark.parametrize("size", [40, 100, 3000])
def test_batches_are_those_of_token_batches(whole, size):
    folder = Shards(whole)
    batches, pairs = ShardBatches(folder, size, seed=1), ids(folder)
    for epoch in (0, 1):
        found, expected = list(batches(epoch)), list(token_batches(pairs, size, 1, epoch))
        assert len(batches) == len(found) == len(expected)
        shapes = (sorted((b.src.shape, b.tgt.shape) for b in x) for x in (found, expected))
        assert next(shapes) == next(shapes)
        assert bare(found) == bare(expected) == sorted((tuple(a), tuple(b)) for a, b in pairs)
        assert all(max(b.src.numel(), b.tgt.numel()) <= size for b in found)


def test_order_follows_from_seed_and_epoch(whole):
    def order(seed: int, epoch: int) -> list:
        batches = ShardBatches(Shards(whole), 100, seed)(epoch)
        return [b.src.tolist() for b in batches]

    assert order(1, 2) == order(1, 2)
    assert order(1, 2) != order(1, 3) and order(1, 2) != order(2, 2)


def test_processes_share(whole):
    """Each builds its own batches, and knows how many tokens the others have."""
    alone = list(ShardBatches(Shards(whole), 100, 1)(0))
    for rank in range(3):
        part = list(ShardBatches(Shards(whole), 100, 1, rank=rank, world=3)(0))
        assert len(part) == len(alone)
        for i, (one, other) in enumerate(zip(part, alone, strict=True)):
            assert one.tgt_mask[:, 1:].sum() == other.tgt_mask[:, 1:].sum()
            if i % 3 == rank:
                assert torch.equal(one.src, other.src) and torch.equal(one.tgt, other.tgt)
            else:
                assert one.src.shape[1] == 1 and one.tgt.shape[1] == 2


def test_long_pairs_are_left_out(whole):
    folder = Shards(whole)
    batches = ShardBatches(folder, 100, limit=6)
    fit = [p for p in ids(folder) if max(len(p[0]) + 1, len(p[1]) + 2) <= 6]
    assert batches.left_out == len(folder) - len(fit) > 0
    assert bare(list(batches(0))) == sorted((tuple(a), tuple(b)) for a, b in fit)


# Millions of pairs


def test_millions_of_pairs(tmp_path):
    """Two million pairs: little memory, nothing left out, and only the first batches are read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(Path(__file__).parents[1] / "benchmarks"), *sys.path])
        from loader import synthetic
    folder = Shards(synthetic(tmp_path / "many", 2_000_000))
    tracemalloc.start()
    try:
        batches = ShardBatches(folder, 25_000)
        stream = batches(0)
        some = [next(stream) for _ in range(20)]
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held / len(folder) < 12 and peak / len(folder) < 27  # bytes a pair
    assert batches.left_out == 0 and batches.bounds[-1] == len(folder) == 2_000_000
    full = [max(b.src.numel(), b.tgt.numel()) for b in some]
    assert max(full) <= 25_000 and np.median(full) > 24_000
    assert sum(int(b.src_mask.sum()) for b in some) / sum(b.src.numel() for b in some) > 0.8


# Training


@pytest.fixture
def run(whole) -> list[str]:
    return ["train", "--data", str(whole), "--d-model", "8", "--d-ff", "8", "--heads", "2",
            "--layers", "1", "--batch-tokens", "200", "--precision", "fp32", "--steps", "6",
            "--validate-every", "3", "--warmup", "5", "--dropout", "0.1"]  # fmt: skip


def test_train_and_evaluate(run, whole, tmp_path, capsys):
    out = tmp_path / "run"
    assert command.main([*run, "--out", str(out)]) == 0
    assert "544 pairs" in capsys.readouterr().out
    words = ["evaluate", "--beam", "1", "--model", str(out), "--data"]
    assert command.main([*words, str(whole), "--split", "test"]) == 0
    first = capsys.readouterr().out
    assert "8 sentences" in first and "tok:moses-like-de+hyphens|smooth:none" in first
    assert command.main([*words, "wmt14-en-de", "--split", "test"]) == 0
    assert first.split("\n")[1:] == capsys.readouterr().out.split("\n")[1:]
    assert command.main([*words, str(whole), "--split", "train"]) == 2
    assert "--split: expected valid or test" in capsys.readouterr().err


def test_goes_on_from_shards(run, copy, tmp_path, capsys):
    one, two = ([*run, "--data", str(copy), "--out", str(tmp_path / x)] for x in ("one", "two"))
    assert command.main(one) == 0
    assert command.main([*two, "--steps", "3"]) == 0
    assert command.main([*two, "--resume", "--vocabulary", "37000"]) == 0  # theirs is taken
    a, b = ((tmp_path / x / "model.safetensors").read_bytes() for x in ("one", "two"))
    assert len(a) == len(b)
    histories = [
        json.loads((tmp_path / x / "history.json").read_text("utf-8")) for x in ("one", "two")
    ]
    assert histories[0]["losses"] == histories[1]["losses"]
    manifest = (copy / "manifest.json").read_text("utf-8")
    (copy / "manifest.json").write_text(manifest + " ", "utf-8")
    assert command.main([*two, "--resume"]) == 2
    assert "expected the pairs this run began with" in capsys.readouterr().err


def test_what_shards_cannot_do(run, tmp_path, capsys):
    out = ["--out", str(tmp_path / "run")]
    for words, named in (
        (["--bpe-dropout", "0.1"], "--bpe-dropout: shards hold words that are cut already"),
        (["--data", "wmt14-en-de"], " prepare --data wmt14-en-de --out"),
        (["--data", str(tmp_path)], "has no manifest.json"),
        (["--batch-tokens", "2"], "544 of 544 training pairs have more than 2 tokens"),
    ):
        assert command.main([*run, *out, *words]) == 2
        assert named in capsys.readouterr().err


def test_vocabularies_of_the_paper():
    assert {name: c.vocabulary for name, c in CORPORA.items()} == {
        "wmt14-en-de": 37_000, "wmt14-en-fr": 32_000,
    }  # fmt: skip
