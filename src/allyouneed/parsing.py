"""Parsing: sentences become constituency trees with the Transformer, and trees are scored."""

# Made from notebooks/18_parsing.ipynb by `make export`: edit the notebook, not this file.
# fmt: off

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from allyouneed.cache import FastCache
from allyouneed.checks import (
    check_kind,
    check_parsing,
    check_several,
    check_text,
    check_tree,
    check_trees,
)
from allyouneed.decoding import unfinished
from allyouneed.modes import eval_mode
from allyouneed.tokens import BOS, EOS, SPECIALS, UNK, pad
from allyouneed.transformer import Transformer

WORD = "XX"  # stands for a word in a tree that is written as a sequence

__all__ = [
    "WORD",
    "Tree",
    "read_tree",
    "normalise_tree",
    "linearise",
    "may_follow",
    "rebuild",
    "brackets",
    "BracketScore",
    "bracket_score",
    "word_shape",
    "Vocabulary",
    "repair",
    "write_trees",
    "parse",
]

END = SPECIALS[EOS]


@dataclass(frozen=True)
class Tree:
    """A bracket: its label, and the smaller trees in it; or a
    word's tag, and the word."""

    label: str
    inside: tuple[Tree, ...] | str

    @property
    def leaves(self) -> list[Tree]:
        """The brackets of the words, from left to right."""
        if isinstance(self.inside, str):
            return [self]
        return [leaf for tree in self.inside for leaf in tree.leaves]

    @property
    def words(self) -> list[str]:
        """The sentence."""
        return [leaf.inside for leaf in self.leaves]

    def __str__(self) -> str:
        inside = (
            self.inside
            if isinstance(self.inside, str)
            else " ".join(map(str, self.inside))
        )
        return f"({self.label} {inside})"


def read_tree(text: str) -> Tree:
    """The tree of a text such as "(S (NP (NNP Jane)) (VP (VBZ sleeps)))".

    Raises TypeError unless it is a string, ValueError unless it is one tree.
    """
    check_text(text=text)
    # the open brackets: label, and what is inside
    found: list[tuple[str, list]] = [("", [])]
    for mark in re.findall(r"\(\s*[^\s()]*|\)|[^\s()]+", text):
        if mark[0] == "(":
            found.append((mark[1:].strip(), []))
        elif mark != ")":
            found[-1][1].append(mark)
        else:
            label, inside = found.pop()
            word = len(inside) == 1 and isinstance(inside[0], str)
            if not found or not inside or not word and str in map(type, inside):
                raise ValueError(
                    f"text: expected trees or one word in each bracket, got {text!r}"
                )
            found[-1][1].append(Tree(label, inside[0] if word else tuple(inside)))
    if len(found) != 1 or [type(tree) for tree in found[0][1]] != [Tree]:
        raise ValueError(
            f"text: expected one tree with all brackets closed, got {text!r}"
        )
    return found[0][1][0]


def normalise_tree(tree: Tree) -> Tree | None:
    """The tree as parsers learn it, or None if nothing is left of it.

    Empty elements (-NONE-) go, and with them the brackets that they leave empty. Of a
    label the part before the first "-", "=" or "|" stays: NP-SBJ-1 is NP. A bracket
    without a label, which the Penn Treebank has around every tree, goes, or is called
    TOP if several trees are in it.
    """
    check_tree(tree)
    if tree.label == "-NONE-":
        return None
    if isinstance(tree.inside, str):
        return tree
    inside = tuple(small for part in tree.inside if (small := normalise_tree(part)))
    if not inside:
        return None
    if not tree.label:
        return inside[0] if len(inside) == 1 else Tree("TOP", inside)
    return Tree(re.split(r"[-=|]", tree.label)[0], inside)


def linearise(tree: Tree) -> list[str]:
    """The tree as a sequence: (S (NP XX )NP (VP XX )VP )S. After
    Vinyals et al. (2015)."""
    check_tree(tree)
    if isinstance(tree.inside, str):
        return [WORD]
    inside = [symbol for small in tree.inside for symbol in linearise(small)]
    return [f"({tree.label}", *inside, f"){tree.label}"]


def may_follow(
    written: Sequence[str],
    n_words: int,
    openings: Iterable[str],
    most: int | None = None,
) -> set[str]:
    """Which symbols may come next in a half-written tree over
    n_words words: never none.

    `openings`: the opening brackets that exist; `most`: how many a
    tree may have, if limited.
    """
    opened, words, brackets = [], 0, 0
    for symbol in written:
        if symbol == WORD:
            words += 1
        elif symbol[0] == "(":
            opened.append(symbol[1:])
            brackets += 1
        else:
            opened.pop()
    if written and not opened:
        return {END}
    left, fresh = words < n_words, bool(written) and written[-1][0] == "("
    room = most is None or brackets < most
    following = set(openings) if left and room else set()
    if opened and left:
        following.add(WORD)
    if opened and not fresh and not (left and len(opened) == 1):
        following.add(")" + opened[-1])
    return following


def rebuild(symbols: Sequence[str], leaves: Sequence[Tree]) -> Tree:
    """The tree that `linearise` wrote, over these words;
    `rebuild(linearise(t), t.leaves) == t`.

    Raises ValueError, naming the first symbol that may not stand where it does.
    """
    openings = {symbol for symbol in symbols if symbol[0] == "("}
    for i, symbol in enumerate([*symbols, END]):
        following = may_follow(symbols[:i], len(leaves), openings)
        if symbol not in following or (symbol == END) != (i == len(symbols)):
            raise ValueError(
                f"symbols: expected a tree over {len(leaves)} words, "
                f"got {symbol!r} in place {i}"
            )
    rest, found = iter(leaves), [[]]  # what is inside of each open bracket
    for symbol in symbols:
        if symbol == WORD:
            found[-1].append(next(rest))
        elif symbol[0] == "(":
            found.append([])
        else:
            inside = found.pop()
            found[-1].append(Tree(symbol[1:], tuple(inside)))
    return found[0][0]


PUNCTUATION = {",", ":", "``", "''", "."}  # tags whose words do not count: COLLINS.prm
SAME = {"PRT": "ADVP"}  # labels that count as one


def brackets(tree: Tree, tags: Sequence[str]) -> Counter[tuple[str, int, int]]:
    """The brackets that EVALB compares: label, start and end, where
    words are counted from 0.

    `tags`: those of the true tree, for they say which words are punctuation and do not
    count. Neither do brackets called TOP, nor those around nothing but punctuation.
    """
    found: Counter[tuple[str, int, int]] = Counter()
    opened, place, rest = [], 0, iter(tags)
    for symbol in linearise(tree):
        if symbol == WORD:
            place += next(rest) not in PUNCTUATION
        elif symbol[0] == "(":
            opened.append((SAME.get(symbol[1:], symbol[1:]), place))
        else:
            label, start = opened.pop()
            if start < place and label != "TOP":
                found[label, start, place] += 1
    return found


@dataclass(frozen=True)
class BracketScore:
    """How many brackets are in the true trees, in the parser's, and in both."""

    true: int
    given: int
    both: int
    exact: int  # sentences without a mistake
    sentences: int

    @property
    def recall(self) -> float:
        """Which share of the true brackets was found."""
        return self.both / self.true if self.true else 0.0

    @property
    def precision(self) -> float:
        """Which share of the brackets given is true."""
        return self.both / self.given if self.given else 0.0

    @property
    def f1(self) -> float:
        """The harmonic mean of recall and precision, equation (18.2)."""
        return (
            2 * self.both / (self.true + self.given) if self.true + self.given else 0.0
        )


def bracket_score(
    true: Sequence[Tree], given: Sequence[Tree | None], max_words: int | None = None
) -> BracketScore:
    """Labelled bracketing over all sentences together, as EVALB
    counts with COLLINS.prm.

    None in `given` is a tree that cannot be read: it has no brackets, and all true ones
    are missed. With `max_words`, only sentences of so many words count, punctuation
    included. Raises ValueError for another number of trees, or of words in a tree.
    """
    check_trees(true, given)
    counts = [(0, 0, 0, 0, 0)]
    for a, b in zip(true, given, strict=True):
        tags = [leaf.label for leaf in a.leaves]
        if max_words is None or len(tags) <= max_words:
            x, y = brackets(a, tags), Counter() if b is None else brackets(b, tags)
            counts.append(
                (x.total(), y.total(), (x & y).total(), x == y and b is not None, 1)
            )
    return BracketScore(*map(sum, zip(*counts, strict=True)))


def word_shape(word: str) -> str:
    """What a rare word is known by: a digit, a capital or not, a
    hyphen, the last two letters."""
    if any(letter.isdigit() for letter in word):
        return "0"
    case = "A" if word[0].isupper() else "a"
    return case + "-" * ("-" in word) + (word[-2:].lower() if len(word) > 3 else "")


class Vocabulary:
    """One vocabulary for sentences and trees: special tokens, symbols of
    trees, words, their shapes.

    Ids: the SPECIALS, then `symbols`, then `words`, then `kinds`, which are
    what `word_shape` gives. With `copying`, a tree is written with the words
    themselves in the places of XX.
    """

    def __init__(
        self,
        symbols: Sequence[str],
        words: Sequence[str],
        kinds: Sequence[str],
        copying: bool = False,
    ):
        self.table = [*SPECIALS, *symbols, *words, *kinds]
        places = iter(range(len(SPECIALS), len(self.table)))
        self.symbol_ids = {symbol: next(places) for symbol in symbols} | {END: EOS}
        self.word_ids = {word: next(places) for word in words}
        self.kind_ids = {kind: next(places) for kind in kinds}
        self.openings = {symbol for symbol in symbols if symbol[0] == "("}
        self.copying = copying
        first = len(SPECIALS) + len(symbols)
        self.word_places = [UNK, *range(first, len(self.table))]  # the ids of words

    @classmethod
    def learn(
        cls, trees: Iterable[Tree], min_count: int = 1, copying: bool = False
    ) -> Vocabulary:
        """From trees for training: all their labels, and words
        that occur min_count times.

        Of the shapes of words, those that at least two different words share.
        """
        trees = list(trees)
        check_tree(*trees)
        counts = Counter(word for tree in trees for word in tree.words)
        symbols = sorted({symbol for tree in trees for symbol in linearise(tree)})
        words = [word for word, count in counts.items() if count >= min_count]
        kinds = [
            kind
            for kind, count in Counter(map(word_shape, counts)).items()
            if count > 1
        ]
        return cls(symbols, words, kinds, copying)

    def __len__(self) -> int:
        return len(self.table)

    def encode_words(self, words: Iterable[str]) -> list[int]:
        """The ids of a sentence: of each word, else of its shape, else UNK."""
        check_several(words=words)
        ids, kinds = self.word_ids, self.kind_ids
        return [
            ids[word] if word in ids else kinds.get(word_shape(word), UNK)
            for word in words
        ]

    def encode_tree(self, tree: Tree) -> list[int]:
        """The ids of a tree's symbols, UNK for a label that is not known."""
        check_tree(tree)
        words = iter(self.encode_words(tree.words))
        return [
            next(words)
            if self.copying and symbol == WORD
            else self.symbol_ids.get(symbol, UNK)
            for symbol in linearise(tree)
        ]

    def decode_tree(self, ids: Iterable[int]) -> list[str]:
        """The symbols of these ids; with `copying`, XX for every word."""
        words = set(self.word_places) if self.copying else ()
        return [WORD if i in words else self.table[i] for i in ids]


def repair(symbols: Sequence[str], n_words: int) -> list[str]:
    """A tree out of any symbols: what may not follow is dropped,
    and what lacks is added."""
    openings = {symbol for symbol in symbols if symbol[0] == "("}
    kept: list[str] = []
    for symbol in symbols:
        if symbol in may_follow(kept, n_words, openings) - {END}:
            kept.append(symbol)
    kept = kept or ["(S"]
    while END not in (following := may_follow(kept, n_words, ())):
        kept.append(WORD if WORD in following else following.pop())
    return kept


def most_brackets(n_words: int) -> int:
    """How many brackets a parsed tree may have, so that every tree comes to an end."""
    return 2 * n_words + 4


def most_words(room: int) -> int:
    """Over how many words every parsed tree has room: each word, both ends of each
    bracket and EOS take a position."""
    return (room - 9) // 5  # n + 2 * most_brackets(n) + 1 is 5 * n + 9


def choices(
    written: Sequence[str], ids: Sequence[int], vocabulary: Vocabulary
) -> tuple[list[int], int | None]:
    """What may come next in a half-written tree, in ids: symbols, and with
    `copying` the next word, None if no word may come.

    `ids`: the sentence as the model reads it, EOS at its end.
    """
    n_words, word = len(ids) - 1, None
    limit = most_brackets(n_words)
    following = may_follow(written, n_words, vocabulary.openings, limit)
    if vocabulary.copying and WORD in following:
        following.remove(WORD)
        word = ids[written.count(WORD)]
    return [vocabulary.symbol_ids[symbol] for symbol in following], word


def write_trees(
    model: Transformer, vocabulary: Vocabulary, sentences: Sequence[Sequence[str]]
) -> list[list[str]]:
    """The likeliest symbol among those that `may_follow`, again and
    again: greedy, constrained.

    With `copying`, a word is as likely as all words together, for which one it must
    be is known. `sentences`: lists of words. Returns the symbols of a tree for
    each, well-formed always.
    """
    ids = [[*vocabulary.encode_words(words), EOS] for words in sentences]
    device = model.embedding.weight.device
    written: list[list[str]] = [[] for _ in sentences]
    with eval_mode(model):
        cache = FastCache(model, pad(ids).to(device))
        todo, newest = list(range(len(ids))), torch.full((len(ids),), BOS)
        while todo:
            # a GPU gives the logits, and waits while we choose on the CPU
            logits = cache.step(newest.to(device)).cpu()
            any_word = logits[:, vocabulary.word_places].logsumexp(1)
            chosen = torch.full_like(logits, -math.inf)
            for row, i in enumerate(todo):
                places, word = choices(written[i], ids[i], vocabulary)
                chosen[row, places] = logits[row, places]
                if word is not None:
                    chosen[row, word] = any_word[row]
            newest = chosen.argmax(1)
            for i, symbol in zip(
                todo, vocabulary.decode_tree(newest.tolist()), strict=True
            ):
                written[i].append(symbol)
            done = newest == EOS
            if done.any():
                left = unfinished(done)
                cache.select(left.to(device))
                newest, todo = newest[left], [todo[row] for row in left.tolist()]
    return [symbols[:-1] for symbols in written]


def parse(
    model: Transformer,
    vocabulary: Vocabulary,
    sentences: Sequence[Sequence[str]],
    batch: int = 64,
) -> list[Tree]:
    """A tree for each sentence, a list of words; the tag of every word is XX.

    `batch`: how many sentences are parsed at a time. Raises TypeError or ValueError
    for another model's vocabulary, for sentences that are no lists of words, have none
    or more than the model has positions for, and for a batch below 1.
    """
    check_kind(Transformer, model=model)
    check_kind(Vocabulary, vocabulary=vocabulary)
    longest = most_words(len(model.positions.table))
    check_parsing(model.config.vocab_size, vocabulary, sentences, batch, longest)
    order = sorted(range(len(sentences)), key=lambda i: len(sentences[i]))
    trees: dict[int, Tree] = {}
    for start in range(0, len(order), batch):
        chosen = order[start : start + batch]
        found = write_trees(model, vocabulary, [sentences[i] for i in chosen])
        for i, symbols in zip(chosen, found, strict=True):
            trees[i] = rebuild(symbols, [Tree(WORD, word) for word in sentences[i]])
    return [trees[i] for i in range(len(sentences))]
