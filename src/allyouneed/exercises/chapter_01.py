"""The exercises of chapter 1, from text to batches: references, cases and known mistakes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from .compare import array
from .core import Exercise, Invariant, mistakes

Pair = tuple[str, str]

# 1.1 three merges by hand: tea 4, sea 3, seat 2, eat 1

HAND_MISTAKES = mistakes(
    ("every word counted once", ["ea", "eat", "▁s"],
     "A pair counts as often as its word occurs: four times in tea, once in eat."),
    ("the pairs not counted again after a merge", ["ea", "se", "▁s"],
     "After the first merge the e of sea is gone: its s now stands beside the symbol ea."),
    ("the tie decided the other way", ["ea", "▁s", "▁sea"],
     "In the second round two pairs occur equally often. The first in the order of Python's "
     "strings is taken, in which ▁ comes after all letters."),
    ("the tie decided the other way, and the pairs not counted again", ["ea", "▁s", "▁t"],
     "In the second round two pairs occur equally often, and the alphabet decides. After each "
     "merge the new symbol makes new pairs, which must be counted."),
    ("no mark, and the pairs not counted again", ["ea", "se", "te"],
     "After the first merge the e of sea and tea is gone: count anew. And ▁ is a symbol, too."),
    ("the mark of the beginning of a word left out", ["ea", "sea", "tea"],
     "▁ is a symbol like the letters: it stands before every word and can be merged."),
    ("the mark at the end of the words", ["ea", "ea▁", "tea▁"],
     "In this chapter ▁ marks the beginning of a word. (Sennrich and his co-authors mark the end, "
     "which gives other merges.)"),
    ("the words in the order of their counts", ["tea", "sea", "seat"],
     "A merge joins two symbols that stand side by side, and in the first round every symbol is "
     "one character."),
)  # fmt: skip


def _merge_names(answer: Any) -> list[str]:
    """Merges as plain symbols: ("e", "a"), "e a" and "e + a" are "ea", and _ will do for ▁."""
    items = answer.replace(",", " ").split() if isinstance(answer, str) else answer
    joined = ["".join(item) for item in items]
    return [item.replace(" ", "").replace("+", "").replace("_", "▁") for item in joined]


def _symbols(output: Any) -> Any:
    """What a generator gives as a list, and any string as one and the same wrong answer."""
    if isinstance(output, str):
        return "one string"
    return list(output) if isinstance(output, Iterator) else output


# 1.2 count pairs

Words = list[tuple[list[str], int]]

PAIR_CASES = [
    ([(["▁", "t", "ea"], 4), (["▁", "s", "ea"], 3), (["ea", "s"], 2)],),
    ([(["a", "a", "a", "b"], 2), (["b", "a", "a"], 5), (["a"], 7)],),
    ([(["a", "b", "c", "b", "c", "d"], 3), (["ab", "c"], 1), (["a", "bc", "b"], 6)],),
    ([(["x"], 3)],),
]


def pair_counts(words: Words) -> dict[Pair, int]:
    counts: Counter[Pair] = Counter()
    for symbols, count in words:
        for left, right in zip(symbols, symbols[1:], strict=False):
            counts[left, right] += count
    return counts


def _by_word(words: Words, pairs_of, weight=lambda count: count) -> dict:
    """Counts of what `pairs_of` finds in each word."""
    counts: Counter = Counter()
    for symbols, count in words:
        for pair in pairs_of(symbols):
            counts[pair] += weight(count)
    return counts


def _neighbours(symbols: list[str]) -> list[Pair]:
    return list(zip(symbols, symbols[1:], strict=False))


def _apart(symbols: list[str]) -> list[Pair]:
    """Pairs that share no symbol with an equal pair before them."""
    pairs, last = [], {}
    for i, pair in enumerate(_neighbours(symbols)):
        if last.get(pair, -2) < i - 1:
            pairs.append(pair)
            last[pair] = i
    return pairs


def _overwritten(words: Words) -> dict[Pair, int]:
    return {pair: count for symbols, count in words for pair in _neighbours(symbols)}


def _no_zeros(counts: Any) -> dict:
    return {key: count for key, count in counts.items() if count}


PAIR_MISTAKES = mistakes(
    ("the counts of the words ignored", lambda words: _by_word(words, _neighbours, lambda count: 1),
     "A word that occurs five times brings each of its pairs five times."),
    ("overlapping pairs counted once", lambda words: _by_word(words, _apart),
     "In a a a the pair (a, a) has two places: first and second symbol, second and third."),
    ("a pair counted once per word",
     lambda words: _by_word(words, lambda symbols: set(_neighbours(symbols))),
     "A pair that stands twice in a word counts twice there."),
    ("left and right not told apart",
     lambda words: _by_word(words, lambda s: [tuple(sorted(p)) for p in _neighbours(s)]),
     "(a, b) and (b, a) are two pairs: merged, one gives ab and the other ba."),
    ("pairs across the border of two words",
     lambda words: _by_word(
         [([s for symbols, count in words for s in symbols * count], 1)], _neighbours
     ),
     "The last symbol of a word and the first of the next are no neighbours: a token never spans "
     "two words."),
    ("symbols taken apart into characters",
     lambda words: _by_word(words, lambda symbols: _neighbours(list("".join(symbols)))),
     "A symbol that was merged before, such as ea, is one symbol now."),
    ("later words overwrite earlier ones", _overwritten,
     "The same pair can come from several places. Add to its count instead of setting it."),
    ("the last pair of each word left out",
     lambda words: _by_word(words, lambda symbols: _neighbours(symbols)[:-1]),
     "n symbols have n - 1 pairs of neighbours. A loop over their left symbols ends at the last "
     "but one."),
    ("the first pair of each word left out",
     lambda words: _by_word(words, lambda symbols: _neighbours(symbols)[1:]),
     "The first symbol, often the mark ▁, has a right neighbour, too."),
    ("the two symbols of a pair joined",
     lambda words: _by_word(words, lambda symbols: ["".join(p) for p in _neighbours(symbols)]),
     "The keys should be tuples of two symbols. Joined, (ab, c) and (a, bc) become the same."),
    ("symbols at any distance",
     lambda words: _by_word(words, lambda s: [(a, b) for i, a in enumerate(s) for b in s[i + 1 :]]),
     "Only symbols side by side can be merged."),
    ("only the first word counted", lambda words: pair_counts(words[:1]),
     "The pairs of all words belong together. A `return` inside the loop ends it too early."),
    ("only the last word counted", lambda words: pair_counts(words[-1:]),
     "The pairs of all words belong together. Make one counter, before the loop over the words."),
    ("the last symbol paired with the first",
     lambda words: _by_word(words, lambda s: list(zip(s, s[1:] + s[:1], strict=True))),
     "A word is no ring: its last symbol has no right neighbour. In Python symbols[-1] is the last "
     "symbol."),
    ("single symbols counted", lambda words: _by_word(words, lambda symbols: symbols),
     "These are the counts of the symbols. What is asked for are pairs of neighbours."),
)  # fmt: skip


def _all_neighbours(counts: Any, words: Words) -> bool:
    if not isinstance(counts, dict) or not all(isinstance(key, tuple) for key in counts):
        return True  # of another kind: not this rule's matter
    return set(counts) <= set(pair_counts(words))


# 1.3 merge a pair

MERGE_CASES = [
    (["▁", "t", "h", "a", "t"], ("a", "t")),
    (["a", "a", "a", "b", "a", "a", "a", "a"], ("a", "a")),
    (["▁", "ch", "a", "t", "h", "a", "b"], ("h", "a")),
    (["x", "y", "x", "z", "x", "y", "y", "x"], ("x", "y")),
    (["q", "ab", "c", "a", "bc", "ab", "cd"], ("ab", "c")),
    (["x"], ("x", "y")),
]


def merge(symbols: list[str], pair: Pair) -> list[str]:
    merged, i = [], 0
    while i < len(symbols):
        if tuple(symbols[i : i + 2]) == tuple(pair):
            merged.append(pair[0] + pair[1])
            i += 2
        else:
            merged.append(symbols[i])
            i += 1
    return merged


def _replaced(symbols: list[str], pair: Pair, new: list[str], most: int | None = None):
    """Left to right; a place of the pair becomes `new`, at most `most` times."""
    merged, i = [], 0
    while i < len(symbols):
        if tuple(symbols[i : i + 2]) == tuple(pair) and most != 0:
            merged += new
            most, i = (None if most is None else most - 1), i + 2
        else:
            merged.append(symbols[i])
            i += 1
    return merged


def _overlapping(symbols: list[str], pair: Pair) -> list[str]:
    """Each place of the pair gives a new symbol, also where places share a symbol."""
    hits = [i for i in range(len(symbols) - 1) if tuple(symbols[i : i + 2]) == tuple(pair)]
    merged = []
    for i, symbol in enumerate(symbols):
        if i in hits:
            merged.append("".join(pair))
        elif i - 1 not in hits:
            merged.append(symbol)
    return merged


def _right_kept(symbols: list[str], pair: Pair) -> list[str]:
    merged = []
    for i, symbol in enumerate(symbols):
        hit = tuple(symbols[i : i + 2]) == tuple(pair)
        merged.append("".join(pair) if hit else symbol)
    return merged


def _right_to_left(symbols: list[str], pair: Pair) -> list[str]:
    return merge(symbols[::-1], pair[::-1])[::-1] if pair[0] == pair[1] else merge(symbols, pair)


def _through_text(symbols: list[str], pair: Pair) -> list[str]:
    return " ".join(symbols).replace(" ".join(pair), "".join(pair)).split()


def _glued(symbols: list[str], pair: Pair) -> list[str]:
    """Looks for the pair in the word without borders: every symbol longer than one is lost."""
    word, new, merged = "".join(symbols), "".join(pair), []
    while word:
        size = len(new) if word.startswith(new) else 1
        merged.append(word[:size])
        word = word[size:]
    return merged


def _last_lost(symbols: list[str], pair: Pair) -> list[str]:
    whole = merge(symbols, pair)
    return whole if symbols and tuple(symbols[-2:]) == tuple(pair) else whole[:-1]


def _either_order(symbols: list[str], pair: Pair) -> list[str]:
    merged, i = [], 0
    while i < len(symbols):
        two = tuple(symbols[i : i + 2])
        hit = two in (tuple(pair), tuple(pair)[::-1])
        merged.append("".join(two) if hit else symbols[i])
        i += 2 if hit else 1
    return merged


def _left_only(symbols: list[str], pair: Pair) -> list[str]:
    """Any symbol after the left one is taken for the right one."""
    merged, i = [], 0
    while i < len(symbols):
        hit = symbols[i] == pair[0] and i + 1 < len(symbols)
        merged.append("".join(symbols[i : i + 2]) if hit else symbols[i])
        i += 2 if hit else 1
    return merged


MERGE_MISTAKES = mistakes(
    ("overlapping places merged twice", _overlapping,
     "In a a a the middle symbol was used up by the first merge and cannot be used again: after a "
     "merge, go on behind both symbols."),
    ("merged from right to left", _right_to_left,
     "a a a becomes aa a from the left, but a aa from the right. The task goes from the left."),
    ("only the first place merged",
     lambda symbols, pair: _replaced(symbols, pair, ["".join(pair)], most=1),
     "The pair is merged wherever it stands."),
    ("replaced in the text, across the borders of symbols", _through_text,
     "h a was also found at the end of the symbol ch. Compare whole symbols."),
    ("the borders of the other symbols lost", _glued,
     "The word was glued together and cut anew, so symbols that were merged before fell apart and "
     "a new one was found across a border."),
    ("the pair removed without its merger", lambda symbols, pair: _replaced(symbols, pair, []),
     "The two symbols are replaced by one, the two written together. Nothing may get lost."),
    ("the right symbol kept beside the new one", _right_kept,
     "The new symbol stands for both. After a merge, go on behind both symbols."),
    ("a blank inside the new symbol",
     lambda symbols, pair: _replaced(symbols, pair, [" ".join(pair)]),
     "The new symbol is the two written together, with nothing between."),
    ("the last symbol lost", _last_lost,
     "The last symbol has no right neighbour. If it is not merged, it is still a symbol."),
    ("merged in either order", _either_order,
     "The pair (x, y) is an x followed by a y. A y followed by an x stays as it is."),
    ("only the left symbol compared", _left_only,
     "Both symbols must be those of the pair, not the left one alone."),
    ("nothing merged", lambda symbols, pair: list(symbols),
     "The pair was never found. In Python a list never equals a tuple: compare two symbols with "
     "two symbols, or make both of one kind."),
    ("one string instead of a list", lambda symbols, pair: "",
     "The answer should be a list of symbols, like the one that was given."),
)  # fmt: skip

# 1.4 encode a word

Merges = list[Pair]

CHAT = [("a", "t"), ("h", "at"), ("▁", "c"), ("▁c", "hat"), ("t", "hat"), ("▁", "that")]
ENCODE_CASES = [
    ("chats", CHAT),
    ("thathat", CHAT),
    ("abcabab", [("b", "c"), ("a", "b"), ("ab", "ab"), ("▁", "ab")]),
    ("aaab", [("a", "a"), ("aa", "b"), ("a", "b"), ("▁", "aa")]),
    ("xyzxy", [("z", "x"), ("y", "zx"), ("x", "y"), ("▁", "x"), ("▁x", "yzx")]),
    ("hchab", [("c", "h"), ("h", "a"), ("ch", "c")]),
    ("abcxab", [("b", "c"), ("a", "b"), ("a", "bc")]),
    ("no", []),
]


def encode(word: str, merges: Merges) -> list[str]:
    symbols = ["▁", *word]
    for pair in merges:
        symbols = merge(symbols, pair)
    return symbols


def _replay(symbols: list[str], merges: Merges, merged=merge) -> list[str]:
    for pair in merges:
        symbols = merged(symbols, pair)
    return symbols


def _in_text_order(word: str, merges: Merges) -> list[str]:
    """Always the leftmost pair that is in the list, whatever its rank."""
    symbols, known = ["▁", *word], {tuple(pair) for pair in merges}
    while True:
        hits = [i for i in range(len(symbols) - 1) if tuple(symbols[i : i + 2]) in known]
        if not hits:
            return symbols
        i = hits[0]
        symbols = [*symbols[:i], symbols[i] + symbols[i + 1], *symbols[i + 2 :]]


def _longest_piece(word: str, merges: Merges) -> list[str]:
    """From the left, always the longest symbol that any merge makes."""
    pieces, rest, found = {"".join(pair) for pair in merges}, "▁" + word, []
    while rest:
        size = next(n for n in range(len(rest), 0, -1) if rest[:n] in pieces or n == 1)
        found.append(rest[:size])
        rest = rest[size:]
    return found


def _first_only(symbols: list[str], pair: Pair) -> list[str]:
    return _replaced(symbols, pair, ["".join(pair)], most=1)


def _one_merge(word: str, merges: Merges) -> list[str]:
    symbols = ["▁", *word]
    for pair in merges:
        if merge(symbols, pair) != symbols:
            return merge(symbols, pair)
    return symbols


def _until_none(word: str, merges: Merges) -> list[str]:
    symbols = ["▁", *word]
    for pair in merges:
        if merge(symbols, pair) == symbols:
            break
        symbols = merge(symbols, pair)
    return symbols


def _mark_dropped(word: str, merges: Merges) -> list[str]:
    return [s for s in (x.replace("▁", "") for x in encode(word, merges)) if s]


ENCODE_MISTAKES = mistakes(
    ("merged in the order of the text, not of the merges", _in_text_order,
     "The leftmost pair was merged, whatever its rank. An earlier merge goes first, wherever in "
     "the word it stands, for that is how the vocabulary was learned."),
    ("the longest known piece from the left", _longest_piece,
     "Greedy cutting uses the same pieces but ignores the order of the merges. (Other tokenizers "
     "do cut this way; byte-pair encoding replays its merges.)"),
    ("the merges from the last to the first",
     lambda word, merges: _replay(["▁", *word], merges[::-1]),
     "A late merge needs the symbols that the early ones make. Begin with the first."),
    ("one place merged per pair", lambda word, merges: _replay(["▁", *word], merges, _first_only),
     "A merge applies wherever its pair stands, also a second time in the word."),
    ("stopped after the first merge that applied", _one_merge,
     "Go on through the whole list: later merges build on what the earlier ones made."),
    ("the mark of the beginning left out before merging",
     lambda word, merges: _replay(list(word), merges),
     "The word begins with the symbol ▁, and merges that contain it must be able to apply."),
    ("the mark of the beginning taken off again", _mark_dropped,
     "▁ belongs to the symbols. Without it nobody could tell where a word begins."),
    ("the mark put at the end", lambda word, merges: _replay([*word, "▁"], merges),
     "▁ marks the beginning of a word, so it is its first symbol."),
    ("replaced in the text, across the borders of symbols",
     lambda word, merges: _replay(["▁", *word], merges, _through_text),
     "A text search finds a pair also where it begins inside a longer symbol. Compare whole "
     "symbols."),
    ("overlapping places merged twice",
     lambda word, merges: _replay(["▁", *word], merges, _overlapping),
     "In a a a the middle symbol was used up by the first merge and cannot be used again."),
    ("merged from right to left",
     lambda word, merges: _replay(["▁", *word], [*merges], _right_to_left),
     "Where places of a pair overlap, the left one is merged."),
    ("one string instead of a list", lambda word, merges: "",
     "The answer should be a list of symbols, so that their borders can be seen."),
    ("stopped at the first merge that does not apply", _until_none,
     "Most merges do not occur in a word. Pass over them and go on with the next."),
    ("the merges sorted", lambda word, merges: _replay(["▁", *word], sorted(merges)),
     "The merges are given in the order in which they were learned, and keep it."),
    ("the mark glued to the first letter",
     lambda word, merges: _replay(["▁" + word[0], *word[1:]], merges),
     "▁ begins as a symbol of its own. Only a merge can join it to the first letter."),
    ("an underscore instead of the mark", lambda word, merges: _replay(["_", *word], merges),
     'The mark is the character ▁, which is written "\\u2581", and not the underscore _.'),
    ("no merge applied", lambda word, merges: ["▁", *word],
     "These are the characters. The merges must be replayed on them."),
)  # fmt: skip

# 1.5 nearest neighbours


def nearest(vectors: Tensor, i: int, k: int) -> list[int]:
    cosines = normalize(vectors, dim=1) @ normalize(vectors[i], dim=0)
    return _best(cosines, i, k)


def nearest_cases() -> list[tuple]:
    draw = torch.Generator().manual_seed(15)
    cases = []
    for size, width, i, k in ((8, 3, 2, 4), (10, 4, 0, 3), (7, 5, 6, 6), (9, 2, 4, 1)):
        vectors = torch.randn(size, width, generator=draw) + 0.4
        cases.append((vectors * torch.rand(size, 1, generator=draw).add(0.2) * 3, i, k))
    parallel = torch.tensor([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    opposite = torch.tensor([[2.0, 0.0], [3.0, 3.0], [0.0, 1.0], [-1.0, 0.0]])
    cases += [(parallel, 1, 1), (parallel, 0, 1)]
    return [*cases, (opposite, 0, 3), (opposite, 3, 3)]


def _best(scores: Tensor, i: int, k: int) -> list[int]:
    """The k highest scores of others than i."""
    return [j for j in scores.argsort(descending=True).tolist() if j != i][:k]


def _cosines(vectors: Tensor, i: int) -> Tensor:
    return normalize(vectors, dim=1) @ normalize(vectors[i], dim=0)


def _marked(vectors: Tensor, i: int, k: int, mark: float) -> list[int]:
    cosines = _cosines(vectors, i)
    cosines[i] = mark
    return cosines.argsort(descending=True, stable=True)[:k].tolist()


def _rows(output: Any) -> Any:
    """A generator as a list; sets and whole results of topk as one and the same wrong answer."""
    if isinstance(output, set | frozenset):
        return "a set"
    if isinstance(output, tuple) and hasattr(output, "indices"):
        return "values and indices"
    return list(output) if isinstance(output, Iterator) else output


def _k_others(output: Any, vectors: Tensor, i: int, k: int) -> bool:
    rows = array(output)
    if rows is None or rows.ndim != 1 or rows.dtype.kind not in "iu":
        return True  # of another kind: not this rule's matter
    return len(rows) == k == len(set(rows.tolist()) - {i})


NEAREST_MISTAKES = mistakes(
    ("the first place struck out instead of the word itself",
     lambda vectors, i, k: (
         _cosines(vectors, i).argsort(descending=True, stable=True)[1 : k + 1].tolist()
     ),
     "A parallel row also has cosine 1: strike out i by its number, not by its place."),
    ("the word itself marked with -1", lambda vectors, i, k: _marked(vectors, i, k, -1.0),
     "-1 is a possible cosine: use minus infinity."),
    ("the word itself marked with 0", lambda vectors, i, k: _marked(vectors, i, k, 0.0),
     "0 is a possible cosine, and many are below it: use minus infinity."),
    ("a set instead of a list", lambda vectors, i, k: set(),
     "A set has no order. The nearest comes first, so a list is needed."),
    ("the whole result of topk", lambda vectors, i, k: vectors.flatten().topk(1),
     "topk returns values and indices. What is asked for are the indices alone."),
    ("counted from 1", lambda vectors, i, k: [j + 1 for j in nearest(vectors, i, k)],
     "The rows of a tensor are counted from 0, in this task, too."),
    ("the vectors instead of their numbers", lambda vectors, i, k: vectors[nearest(vectors, i, k)],
     "These are the right rows. What is asked for are their numbers."),
    ("dot products instead of cosines", lambda vectors, i, k: _best(vectors @ vectors[i], i, k),
     "A long vector has large dot products with everything. Divide by the length of each row."),
    ("the word itself among its neighbours",
     lambda vectors, i, k: _cosines(vectors, i).argsort(descending=True)[:k].tolist(),
     "Every vector is nearest to itself, with cosine 1. Others are asked for."),
    ("the word itself and k others",
     lambda vectors, i, k: _cosines(vectors, i).argsort(descending=True)[: k + 1].tolist(),
     "Every vector is nearest to itself, with cosine 1. Strike it out; k others remain."),
    ("one neighbour too few", lambda vectors, i, k: _best(_cosines(vectors, i), i, k - 1),
     "The word itself takes the first of k places. Take k + 1 before you strike it out."),
    ("the smallest distance instead of the largest cosine",
     lambda vectors, i, k: _best(-(vectors - vectors[i]).norm(dim=1), i, k),
     "The distance depends on how long the vectors are, the cosine on their directions alone."),
    ("the farthest instead of the nearest",
     lambda vectors, i, k: _best(-_cosines(vectors, i), i, k),
     "The larger the cosine, the nearer the word: 1 is the same direction, -1 the opposite."),
    ("the nearest last", lambda vectors, i, k: nearest(vectors, i, k)[::-1],
     "These are the right words in reverse order. The nearest comes first."),
    ("columns of length one instead of rows",
     lambda vectors, i, k: _best(normalize(vectors, dim=0) @ normalize(vectors, dim=0)[i], i, k),
     "A word is a row. Its length is the root of the sum of squares over the last axis."),
    ("the sign of the cosine dropped",
     lambda vectors, i, k: _best(_cosines(vectors, i).abs(), i, k),
     "A cosine of -1 means the opposite direction, which is as far as a word can be."),
    ("divided by the squared length",
     lambda vectors, i, k: _best(vectors @ vectors[i] / vectors.pow(2).sum(1), i, k),
     "The length of a vector is the root of the sum of its squares. The root is missing."),
    ("divided by the sum of the entries",
     lambda vectors, i, k: _best(vectors @ vectors[i] / vectors.abs().sum(1), i, k),
     "The length of a vector is the root of the sum of its squares."),
    ("the cosines instead of the numbers of the words",
     lambda vectors, i, k: _cosines(vectors, i)[nearest(vectors, i, k)].tolist(),
     "These are the right cosines. What is asked for is which rows they belong to."),
)  # fmt: skip

# 1.6 pad with a mask

PAD_CASES = [
    ([[7, 8, 9, 3], [5, 3]],),
    ([[6, 3], [4, 5, 3], [9, 9, 9, 9, 3], [8, 3]],),
    ([[4, 5, 3], [6, 7, 3]],),
    ([[11, 3]],),
    ([[4, 1, 9, 3], [1, 3]],),  # 1 is a word that is not known, and a word
]


def pad_with_mask(sequences: list[list[int]]) -> tuple[Tensor, Tensor]:
    longest = max(map(len, sequences))
    ids = torch.tensor([row + [0] * (longest - len(row)) for row in sequences])
    return ids, ids != 0


def _ids(sequences: list[list[int]], fill: int = 0, extra: int = 0) -> Tensor:
    width = max(map(len, sequences)) + extra
    return torch.tensor([row + [fill] * (width - len(row)) for row in sequences])


def _until(sequences: list[list[int]], change: int) -> Tensor:
    """A mask that ends `change` places after the last token."""
    ids = _ids(sequences)
    ends = torch.tensor([len(row) + change for row in sequences])
    return torch.arange(ids.shape[1]) < ends.unsqueeze(1)


def _left(sequences: list[list[int]]) -> tuple[Tensor, Tensor]:
    ids = _ids([row[::-1] for row in sequences]).flip(1)
    return ids, ids != 0


def _shortest(sequences: list[list[int]]) -> tuple[Tensor, Tensor]:
    width = min(map(len, sequences))
    ids = torch.tensor([row[:width] for row in sequences])
    return ids, ids != 0


def _repeat_last(sequences: list[list[int]]) -> tuple[Tensor, Tensor]:
    width = max(map(len, sequences))
    ids = torch.tensor([row + row[-1:] * (width - len(row)) for row in sequences])
    return ids, _until(sequences, 0)


def _ragged(rows: Any) -> bool:
    if not isinstance(rows, list | tuple) or not all(hasattr(row, "__len__") for row in rows):
        return False
    return len({len(row) for row in rows}) > 1


def _ids_and_mask(output: Any) -> Any:
    """A mask of floats as one of whole numbers, so that both are met with the same words."""
    if not isinstance(output, list | tuple) or not output:
        return output
    if _ragged(output[0]):
        return "not padded"
    if len(output) != 2:
        return output
    ids, mask = output[0], torch.as_tensor(output[1])
    return ids, mask.long() if mask.is_floating_point() else mask


PAD_MISTAKES = mistakes(
    ("padding on the left", _left,
     "Sentences begin in the first column, and the padding comes after them."),
    ("filled with BOS", lambda sequences: (_ids(sequences, 2), _until(sequences, 0)),
     "The filler is PAD, which is 0. A BOS is a token, with a meaning of its own."),
    ("filled with the last token", _repeat_last,
     "The filler is PAD, which is 0. Repeated, an EOS would end the sentence several times."),
    ("cut to the shortest", _shortest,
     "The rectangle must be as wide as the longest list. No token may get lost."),
    ("wider than the longest",
     lambda sequences: (_ids(sequences, extra=1), _ids(sequences, extra=1) != 0),
     "The longest list needs no padding at all: every further column is work on nothing."),
    ("the mask turned round", lambda sequences: (_ids(sequences), _ids(sequences) == 0),
     "In this book True means a token. (PyTorch's key_padding_mask says it the other way.)"),
    ("a mask of numbers", lambda sequences: (_ids(sequences), (_ids(sequences) != 0).long()),
     "The values are right, but a mask should be boolean. Numbers 0 and 1 used as an index would "
     "pick the first and second row."),
    ("a mask that is True everywhere",
     lambda sequences: (_ids(sequences), torch.ones_like(_ids(sequences)).bool()),
     "The padding is no token: the mask must be False there."),
    ("the last token masked", lambda sequences: (_ids(sequences), _until(sequences, -1)),
     "A list of n ids has n tokens, at the positions 0 to n - 1. EOS is one of them."),
    ("the first padding not masked", lambda sequences: (_ids(sequences), _until(sequences, 1)),
     "A list of n ids has tokens at the positions 0 to n - 1; position n is padding."),
    ("the mask before the ids", lambda sequences: pad_with_mask(sequences)[::-1],
     "The ids come first, then the mask."),
    ("sentences in columns", lambda sequences: tuple(x.T for x in pad_with_mask(sequences)),
     "Each list is a row: the shape is (B, S), not (S, B)."),
    ("the mask missing", lambda sequences: _ids(sequences),
     "Return two tensors: the ids, and the mask of the same shape."),
    ("not padded", lambda sequences: (sequences, [[True] * len(row) for row in sequences]),
     "The lists still have different lengths. Fill the short ones up with PAD."),
    ("the ids missing", lambda sequences: _ids(sequences) != 0,
     "Return two tensors: the ids, and the mask of the same shape."),
)  # fmt: skip

# 1.7 batches by tokens


def fill_batches(lengths: list[int], max_tokens: int) -> list[list[int]]:
    batches, longest = [], 0
    for i, length in enumerate(lengths):
        longest = max(longest, length)
        if not batches or longest * (len(batches[-1]) + 1) > max_tokens:
            batches.append([])
            longest = length
        batches[-1].append(i)
    return batches


def batch_cases() -> list[tuple]:
    draw = random.Random(17)
    cases = [([3, 5, 4, 6], 10), ([2, 2, 2, 2, 2], 4), ([4, 1, 1, 1, 3, 3, 2, 2, 6, 1], 8)]
    for size, limit in ((12, 15), (20, 24)):
        cases.append(([draw.randint(1, 9) for _ in range(size)], limit))
    return [*cases, ([5], 5), (sorted(draw.randint(2, 9) for _ in range(16)), 18)]


def _filled(lengths, max_tokens, fits) -> list[list[int]]:
    """Greedy: `fits(lengths in the batch, newcomer)` says whether the newcomer may join."""
    batches = []
    for i, length in enumerate(lengths):
        if batches and fits([lengths[j] for j in batches[-1]], length):
            batches[-1].append(i)
        else:
            batches.append([i])
    return batches


def _rule(size_of, compare=lambda size, limit: size <= limit):
    """A way to fill batches by another idea of their size."""

    def fill(lengths, max_tokens):
        return _filled(lengths, max_tokens, lambda a, b: compare(size_of(a, b), max_tokens))

    return fill


def _sorted_first(lengths, max_tokens):
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    batches = fill_batches([lengths[i] for i in order], max_tokens)
    return [[order[j] for j in batch] for batch in batches]


def _never_reset(lengths, max_tokens):
    batches, longest = [[]], 0
    for i, length in enumerate(lengths):
        longest = max(longest, length)
        if batches[-1] and longest * (len(batches[-1]) + 1) > max_tokens:
            batches.append([])
        batches[-1].append(i)
    return batches


def _reset_to_zero(lengths, max_tokens):
    batches, longest = [[]], 0
    for i, length in enumerate(lengths):
        if batches[-1] and max(longest, length) * (len(batches[-1]) + 1) > max_tokens:
            batches.append([i])
            longest = 0
        else:
            batches[-1].append(i)
            longest = max(longest, length)
    return batches


def _misfits_lost(lengths, max_tokens):
    batches, batch, longest = [], [], 0
    for i, length in enumerate(lengths):
        if max(longest, length) * (len(batch) + 1) > max_tokens:
            batches.append(batch)
            batch, longest = [], 0
        else:
            batch.append(i)
            longest = max(longest, length)
    return [*batches, batch] if batch else batches


def _first_fit(lengths, max_tokens):
    """Each sentence joins the first of all batches that still has room."""
    batches = []
    for i, length in enumerate(lengths):
        for batch in batches:
            if max(length, *(lengths[j] for j in batch)) * (len(batch) + 1) <= max_tokens:
                batch.append(i)
                break
        else:
            batches.append([i])
    return batches


def _equal_numbers(lengths, max_tokens):
    n = max_tokens // max(lengths)
    return [list(range(len(lengths)))[start : start + n] for start in range(0, len(lengths), n)]


def _cleared(lengths, max_tokens):
    batch = fill_batches(lengths, max_tokens)
    return [batch[-1]] * len(batch)


def _nested(output: Any) -> bool:
    return isinstance(output, list) and all(isinstance(batch, list) for batch in output)


BATCH_MISTAKES = mistakes(
    ("the tokens counted without padding", _rule(lambda batch, new: sum(batch) + new),
     "Short sentences are padded up to the longest, and the padding takes room, too: a batch has "
     "as many positions as sentences times the longest."),
    ("the last batch lost", lambda lengths, max_tokens: fill_batches(lengths, max_tokens)[:-1],
     "When the sentences are at an end, the batch in hand must still be handed over."),
    ("as many sentences in every batch", _equal_numbers,
     "The longest sentence of all decides here for every batch. Short ones could be many more."),
    ("the number of sentences limited instead of the positions",
     _rule(lambda batch, new: len(batch) + 1),
     "max_tokens limits the positions: the number of sentences times the longest."),
    ("a batch that fits exactly refused",
     _rule(lambda batch, new: max(*batch, new) * (len(batch) + 1), lambda s, m: s < m),
     "max_tokens positions are allowed; one more is too much."),
    ("one position too many allowed",
     _rule(lambda batch, new: max(*batch, new) * (len(batch) + 1), lambda s, m: s <= m + 1),
     "max_tokens positions are allowed; one more is too much."),
    ("a new batch begun only after the limit is exceeded",
     _rule(lambda batch, new: max(batch) * len(batch)),
     "Ask before the newcomer joins what the batch would be with it."),
    ("the batch closed only when it has reached the limit",
     _rule(lambda batch, new: max(batch) * len(batch), lambda s, m: s < m),
     "Ask before the newcomer joins what the batch would be with it. Here it joins first."),
    ("the newcomer not counted", _rule(lambda batch, new: max(*batch, new) * len(batch)),
     "With the newcomer the batch has one sentence more: its length counts, and so does it."),
    ("the newcomer's length left out", _rule(lambda batch, new: max(batch) * (len(batch) + 1)),
     "A long newcomer makes the whole batch wider: all others must be padded up to it."),
    ("the newcomer taken for the longest", _rule(lambda batch, new: new * (len(batch) + 1)),
     "The lengths need not rise. The widest of the batch counts, which may have come earlier."),
    ("the longest not reset for a new batch", _never_reset,
     "A new batch begins with one sentence, and its longest is that one."),
    ("the first sentence of a new batch not measured", _reset_to_zero,
     "A new batch already holds the sentence that did not fit before: its longest is that one's "
     "length, not 0."),
    ("the sentence that did not fit lost", _misfits_lost,
     "What does not fit into one batch is the first of the next."),
    ("sorted by length first", _sorted_first,
     "The order is given and stays. (Sorting is a good idea, and was done before.)"),
    ("put into the first batch with room", _first_fit,
     "It packs better, but the order is given: once a batch is closed, nothing joins it."),
    ("lengths instead of numbers of sentences",
     lambda lengths, max_tokens: [
         [lengths[i] for i in batch] for batch in fill_batches(lengths, max_tokens)
     ],
     "The batches are right, but they should hold the places of the sentences in the list."),
    ("counted from 1",
     lambda lengths, max_tokens: [
         [i + 1 for i in batch] for batch in fill_batches(lengths, max_tokens)
     ],
     "Places in a list are counted from 0 in Python."),
    ("an empty batch at the beginning",
     lambda lengths, max_tokens: [[], *fill_batches(lengths, max_tokens)],
     "The first sentence begins the first batch. Nothing stands before it."),
    ("an empty batch at the end",
     lambda lengths, max_tokens: [*fill_batches(lengths, max_tokens), []],
     "Begin a new batch only when a sentence is there to be put into it."),
    ("one list instead of a list of batches", lambda lengths, max_tokens: list(range(len(lengths))),
     "Each batch is a list of its own, within the list of batches."),
    ("the sizes of the batches",
     lambda lengths, max_tokens: [len(b) for b in fill_batches(lengths, max_tokens)],
     "The sizes are right, but the batches should hold the places of the sentences."),
    ("the closed batch emptied", _cleared,
     "The closed batch was emptied; begin a new list. `clear` empties the very list that was "
     "handed over."),
    ("every sentence a batch of its own",
     lambda lengths, max_tokens: [[i] for i in range(len(lengths))],
     "A batch takes sentences as long as they fit."),
)  # fmt: skip


def _lists(batches: Any) -> list[list[int]]:
    return [[int(i) for i in batch] for batch in batches]


EXERCISES = [
    Exercise(
        number="1.1",
        title="three merges by hand",
        section="Byte pairs by hand",
        reference=["ea", "sea", "▁sea"],
        mistakes=HAND_MISTAKES,
        canonical=_merge_names,
    ),
    Exercise(
        number="1.2",
        title="count the pairs",
        section="Byte pairs by hand",
        reference=pair_counts,
        cases=PAIR_CASES,
        mistakes=PAIR_MISTAKES,
        canonical=_no_zeros,
        invariants=[
            Invariant(
                "every pair stands in a word",
                _all_neighbours,
                "Only symbols side by side in one word are a pair: nothing across the border of "
                "two words, and nothing from the last symbol back to the first.",
            )
        ],
    ),
    Exercise(
        number="1.3",
        title="merge a pair",
        section="Byte pairs by hand",
        reference=merge,
        cases=MERGE_CASES,
        canonical=_symbols,
        mistakes=MERGE_MISTAKES,
        invariants=[
            Invariant(
                "the letters stay",
                lambda output, symbols, pair: "".join(output) == "".join(symbols),
                "Written together, the symbols must give the same text before and after a merge.",
            )
        ],
    ),
    Exercise(
        number="1.4",
        title="encode a word",
        section="Byte pairs by hand",
        reference=encode,
        cases=ENCODE_CASES,
        canonical=_symbols,
        mistakes=ENCODE_MISTAKES,
        invariants=[
            Invariant(
                "the symbols spell the word",
                lambda output, word, merges: "".join(output) == "▁" + word,
                "Written together, the symbols must give ▁ and the word.",
            )
        ],
    ),
    Exercise(
        number="1.5",
        title="nearest words",
        section="From numbers to vectors",
        reference=nearest,
        cases=nearest_cases,
        canonical=_rows,
        mistakes=NEAREST_MISTAKES,
        invariants=[
            Invariant(
                "k others",
                _k_others,
                "The answer must hold k different rows, and the row itself is none of them.",
            )
        ],
    ),
    Exercise(
        number="1.6",
        title="pad with a mask",
        section="Batches and their padding",
        reference=pad_with_mask,
        cases=PAD_CASES,
        mistakes=PAD_MISTAKES,
        canonical=_ids_and_mask,
    ),
    Exercise(
        number="1.7",
        title="fill by tokens",
        section="Batches and their padding",
        reference=fill_batches,
        cases=batch_cases,
        mistakes=BATCH_MISTAKES,
        invariants=[
            Invariant(
                "every sentence once",
                lambda output, lengths, limit: (
                    not _nested(output) or sorted(sum(output, [])) == list(range(len(lengths)))
                ),
                "No sentence may be lost, and none may come twice.",
            ),
            Invariant(
                "no batch is empty",
                lambda output, lengths, limit: not _nested(output) or all(map(len, output)),
                "A batch begins with a sentence, and keeps it.",
            ),
            Invariant(
                "no batch over the limit",
                lambda output, lengths, limit: (
                    not _nested(output)
                    or all(
                        len(b) * max((lengths[i] for i in b), default=0) <= limit for b in output
                    )
                ),
                "The number of sentences times the longest is at most max_tokens.",
            ),
        ],
        canonical=_lists,
    ),
]
