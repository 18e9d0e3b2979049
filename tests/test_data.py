"""The loader of sentence pairs, and its splits."""

from __future__ import annotations

import hashlib
import inspect
import os
import re
import subprocess
import time
import unicodedata
from pathlib import Path

import pytest

from allyouneed import data, pretrained, sources
from allyouneed.data import (
    TYPED,
    clean,
    load_pairs,
    load_treebank,
    load_wikitext2,
    normalise,
    plain_signs,
)

USUAL_CACHE = sources.cache_folder()


# The splits


def where(*files: str) -> Path | None:
    """The local folder or the cache (they are laid out alike), if all these files lie there."""
    folders = [Path(os.environ.get("ALLYOUNEED_DATA") or USUAL_CACHE), USUAL_CACHE]
    full = [folder for folder in folders if all((folder / file).exists() for file in files)]
    return full[0] if full else None


MULTI30K_IS_HERE = where(*(file for file in sources.SHA256 if file.startswith("multi30k")))


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


def test_signs_that_are_typed_are_read_as_plain_ones():
    known = set("'\".- abcdefghijklmnopqrstuvwxyz")
    typed = " “don’t”  … ´a` „b‟ ‚c‛ d′ e″ t‑shirt\u2010x \u202ea\u200e b.\u2060\u202c\ufeff"
    plain = "\"don't\" ... 'a' \"b\" 'c' d' e\" t-shirt-x a b."
    assert plain_signs(typed, known) == plain == plain_signs(plain, known)
    assert plain_signs("–—«»x²", known) == "–—«»x²"  # nothing else
    # a model whose data had these alone would not know the plain ones
    assert plain_signs(typed, known - set("'\".-")).startswith("“don’t” … ´a`")
    assert plain_signs("a\u200db", known | {"\u200d"}) == "a\u200db"


def test_what_a_shipped_model_has_read_stays_as_it_is(splits):
    """But for the few sentences in which somebody typed such signs; the data keep even these."""
    name, pairs = splits
    tokenizer = pretrained(name)[1]
    known, changed = tokenizer.bpe.get_vocab(), {}
    assert all(sign in known for sign in "'\"-.")
    for split in pairs:
        other = [s for s, _ in pairs[split] if (text := plain_signs(s, known)) != s or text == ""]
        assert all(set(source) & TYPED.keys() and clean(source) == source for source in other)
        changed[split] = len(other)
    if name == "tatoeba-en-fr":
        assert changed == {"train": 42, "valid": 1, "test": 1}
    else:
        assert changed.pop("train") == 2 and not any(changed.values())


def test_second_load_is_quick_offline_and_a_list_of_its_own(monkeypatch):
    first = load_pairs()
    first.clear()
    monkeypatch.setattr(subprocess, "run", None)  # neither pip ...
    monkeypatch.setattr(sources, "urlopen", None)  # ... nor a download
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
    with pytest.raises(ValueError, match="name: expected one of tatoeba-en-fr, multi30k-en-de"):
        load_pairs("tatoeba")
    with pytest.raises(ValueError, match="split: expected one of train, valid, test, got 'val"):
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
    with pytest.raises(ValueError, match="split: expected one of train, valid, test, got 'dev"):
        load("dev")
