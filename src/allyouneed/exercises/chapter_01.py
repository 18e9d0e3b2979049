"""The exercises of chapter 1, from text to batches: references, cases and known mistakes."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import permutations, product
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from allyouneed.data import normalise

from .compare import array, kind
from .core import Exercise, Family, Invariant, mistakes
from .likeness import nearly
from .pairs import combined
from .predictions import signs, wrong_predictions
from .suspects import Lack, each, rules, verdicts_on

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
    ("the three most frequent pairs of the first count, the tie decided the other way",
     ["ea", "▁s", "se"],
     "After the first merge the e of sea is gone: its s now stands beside the symbol ea. And of "
     "pairs that occur equally often the first in the order of Python's strings is taken, in which "
     "▁ comes after all letters."),
    ("every word counted once, and the pairs not counted again", ["ea", "at", "se"],
     "A pair counts as often as its word occurs. And after each merge the new symbol makes new "
     "pairs, which must be counted."),
    ("the mark at the end of the words, and the pairs not counted again", ["ea", "a▁", "se"],
     "In this chapter ▁ marks the beginning of a word. And after the first merge the a of tea and "
     "sea is gone: count anew."),
    ("sea made of se and a, whose e is used up", ["ea", "se", "sea"],
     "After the first merge the e of sea is gone: its s now stands beside the symbol ea, and the "
     "two are joined at once."),
    ("▁sea made of ▁s and ea, with se before it", ["se", "▁se", "▁sea"],
     "Count each pair over all four words, as often as its word occurs: e and a stand side by "
     "side in all of them, 10 times."),
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
    *(
        (f"the right three in another order, {order[0]} first and {order[1]} second", [*order],
         "They are asked for in the order in which they are made: a symbol needs its parts first.")
        for order in list(permutations(["ea", "sea", "▁sea"]))[1:]
    ),
    *(
        (f"the most frequent word followed, {', '.join(said)}", [*said],
         "tea is the most frequent word, 4 times, but s and ea stand side by side in sea and in "
         "seat, 3 + 2 times. Pairs are counted, over all words.")
        for said in (["ea", "tea", "▁tea"], ["ea", "tea", "sea"], ["ea", "tea", "seat"])
    ),
    ("a pair that comes twice before one that comes five times", ["ea", "sea", "seat"],
     "After the second merge sea and t meet twice, in seat. ▁ and sea meet in sea and in seat."),
    ("a pair that comes four times before one that comes five times", ["ea", "sea", "▁t"],
     "After the second merge ▁ and t meet 4 times, in tea. ▁ and sea meet 3 + 2 times."),
    *(
        (f"{first} first, which comes less often: {first}, {', '.join(rest)}", [first, *rest],
         "Count each pair over all four words, as often as its word occurs: e and a stand side by "
         "side in all of them, 10 times.")
        for first, *rest in (("te", "tea", "▁tea"), ("te", "ea", "sea"), ("se", "sea", "▁sea"),
                             ("at", "ea", "sea"), ("▁t", "ea", "sea"),
                             ("▁s", "ea", "sea"), ("▁t", "ea", "▁tea"), ("at", "eat", "seat"))
    ),
    ("ea and then tea, by the order of the words", ["ea", "tea", "eat"],
     "After ea the pairs are counted anew: t and ea meet 4 times, s and ea 3 + 2 times."),
    ("the tie decided the other way, and sea after it", ["ea", "▁s", "sea"],
     "In the second round s ea and ▁ s occur equally often, and s comes first. Once ▁s is made, s "
     "and ea no longer stand side by side."),
    ("the third merge seat with its mark", ["ea", "sea", "▁seat"],
     "A merge joins two symbols: ▁, sea and t are three. ▁ and sea meet 5 times."),
    ("the mark left out of the third", ["ea", "sea", "sea"],
     "▁ is a symbol like the letters. The third merge joins it to sea."),
    ("the mark joined to tea without a merge of t and ea", ["ea", "sea", "▁tea"],
     "A merge joins two symbols, and t and ea are two still, with the mark before them. Only ▁ and "
     "sea are there to be joined, 5 times."),
    ("one merge for each word", ["ea", "sea", "eat"],
     "ea and t meet in eat alone, once: in seat the e and the a are in sea by then. Count the "
     "pairs over all words, and take the most frequent."),
    ("the example of the task", ["te", "tea", "eat"],
     "These only show how an answer looks. Count every pair over all four words, each as often as "
     "its word occurs: one pair stands in all of them."),
    ("every word counted once, and its pieces with it", ["ea", "at", "sea"],
     "A pair counts as often as its word occurs. And a and t no longer stand side by side once ea "
     "is made."),
    ("a letter that is used up already", ["ea", "at", "▁s"],
     "After the first merge the a of seat and eat is gone: its t now stands beside the symbol ea."),
    *(
        (f"{second} second, which comes {n}: ea, {second}, {third}", ["ea", second, third],
         "After ea the pairs are counted anew: s and ea meet 3 + 2 times, and so do ▁ and s; no "
         "others meet as often.")
        for second, n in (("eat", "3 times"), ("▁t", "4 times"), ("▁ea", "once"))
        for third in ("sea", "▁sea", "seat", "▁tea", "▁seat", "tea", "▁s", "se")
        if (second, third) not in {("eat", "▁s"), ("▁t", "sea"), ("▁t", "tea"), ("▁t", "▁sea")}
    ),
    *(
        (f"tea second, which comes 4 times, {third} third", ["ea", "tea", third],
         "After ea the pairs are counted anew: s and ea meet 3 + 2 times, t and ea 4 times.")
        for third in ("▁s", "▁sea", "▁seat", "▁t", "▁ea")
    ),
)  # fmt: skip


def _merge_names(answer: Any) -> list[str]:
    """Merges as plain symbols: ("e", "a"), "e a" and "e + a" are "ea", and _ will do for ▁."""
    items = answer.replace(",", " ").split() if isinstance(answer, str) else answer
    joined = ["".join(item) for item in items]
    return [item.replace(" ", "").replace("+", "").replace("_", "▁") for item in joined]


MARKED = ["▁tea", "▁sea", "▁seat", "▁eat"]


def _made_of_two(symbols: list[str]) -> bool:
    """Whether each is made of two symbols that stand side by side and are there already."""
    there = set("".join(MARKED))
    for symbol in symbols:
        if not any(symbol in word for word in MARKED) or not any(
            symbol[:i] in there and symbol[i:] in there for i in range(1, len(symbol))
        ):
            return False
        there.add(symbol)
    return True


HAND_RULES = [
    Invariant("three symbols", lambda symbols: len(symbols) == 3,
              "Three merges are asked for, and each makes one new symbol."),
    Invariant("a merge joins two symbols that stand side by side", _made_of_two,
              "Each new symbol is made of two that are there, in this order: at first letters and "
              "▁, later also what was merged before."),
    Invariant("the most frequent pair first", lambda symbols: symbols[0] == "ea",
              "Count every pair over all four words, each as often as its word occurs. One pair "
              "stands in all of them."),
    Invariant("after the first merge the most frequent pair", lambda symbols: symbols[1] == "sea",
              "Count anew with the symbol ea: t and ea meet 4 times, ea and t 3 times, and two "
              "pairs 5 times."),
    Invariant("after the second merge the most frequent pair", lambda symbols: symbols[2] == "▁sea",
              "Count anew with the symbol sea: which pair do sea and seat have in common?"),
]  # fmt: skip


def _symbols(output: Any) -> Any:
    """What a generator gives as a list, and any string as one and the same wrong answer."""
    if isinstance(output, str):
        return "one string"
    return list(output) if isinstance(output, Iterator) else output


# 1.2 three comparisons, to be predicted: the parts of a wrong answer that are wrong, each with why

PREDICTED = ["=", ">", "<"]
WRONG_PICTURES = [
    {
        "<": ("more factors, a smaller product",
              "(a) A longer answer has more factors, and they are larger: after `pas` and `mal` "
              "nothing but the end can come, so that factor is 1. The product is the probability "
              "of the whole answer, 0.25 for both."),
        ">": ("the longer answer taken for the likelier",
              "(a) The product of all factors is the probability of the whole answer, however "
              "many factors it has: 0.25 for both."),
    },
    {
        "=": ("the end mark taken for nothing",
              "(b) Without the factor of `<end>` the product is the probability that an answer "
              "*begins* so, and `pas` begins three of them. The sum is 1.35."),
        "<": ("a factor less taken for a smaller product",
              "(b) No factor is larger than 1. Leaving one out can only make a product larger."),
    },
    {
        "=": ("the likeliest words taken for the likeliest answer",
              "(c) `pas` is the likeliest first word, 0.6, but its share is then divided among "
              "three answers. The likeliest answer begins with a less likely word."),
        ">": ("an answer likelier than the likeliest",
              "(c) Whatever is written is one of the five answers, and none is likelier than the "
              "likeliest. Can it be less likely?"),
    },
]  # fmt: skip


# 1.3 merge a pair

MERGE_CASES = [
    (["▁", "c", "a", "t"], ("a", "t")),
    (["a", "a", "a"], ("a", "a")),
    (["▁", "t", "h", "a", "t"], ("a", "t")),
    (["a", "a", "a", "b", "a", "a", "a", "a"], ("a", "a")),
    (["▁", "ch", "a", "t", "h", "a", "b"], ("h", "a")),
    (["x", "y", "x", "z", "x", "y", "y", "x"], ("x", "y")),
    (["q", "ab", "c", "a", "bc", "ab", "cd"], ("ab", "c")),
    (["▁", "a", "▁", "."], ("▁", ".")),
    (["x"], ("x", "y")),
    (["y", "z"], ("x", "y")),
    (["b", "a", "n", "a", "n", "e"], ("a", "n")),
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
    """The loop ends before the last symbol, which stays only if a merge has used it up."""
    whole = merge(symbols, pair)
    rest = merge(symbols[:-1], pair)
    return whole if len(whole) == len(rest) else rest


def _either_order(symbols: list[str], pair: Pair) -> list[str]:
    merged, i = [], 0
    while i < len(symbols):
        two = tuple(symbols[i : i + 2])
        hit = two in (tuple(pair), tuple(pair)[::-1])
        merged.append("".join(two) if hit else symbols[i])
        i += 2 if hit else 1
    return merged


def _as_letters(symbols: list[str], pair: Pair) -> list[str]:
    merged, i = [], 0
    while i < len(symbols):
        hit = i + 1 < len(symbols) and symbols[i] + symbols[i + 1] == "".join(pair)
        merged.append("".join(pair) if hit else symbols[i])
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


def _past_the_end(symbols: list[str], pair: Pair) -> list[str]:
    merged, i = [], 0
    while i < len(symbols):
        hit = symbols[i] == pair[0] and symbols[i + 1] == pair[1]
        merged.append("".join(pair) if hit else symbols[i])
        i += 2 if hit else 1
    return merged


def _two_by_two(symbols: list[str], pair: Pair) -> list[str]:
    merged = []
    for i in range(0, len(symbols), 2):
        two = symbols[i : i + 2]
        merged += ["".join(pair)] if tuple(two) == tuple(pair) else two
    return merged


def _merged_again(symbols: list[str], pair: Pair) -> list[str]:
    """Joins a symbol to the last one if that one *ends* with the left one of the pair."""
    merged: list[str] = []
    for symbol in symbols:
        if merged and merged[-1].endswith(pair[0]) and symbol == pair[1]:
            merged[-1] += symbol
        else:
            merged.append(symbol)
    return merged


def _into_the_last(symbols: list[str], pair: Pair) -> list[str]:
    """Compares each symbol with the one before it, whether that was used up or not."""
    merged: list[str] = []
    for i, symbol in enumerate(symbols):
        if i and (symbols[i - 1], symbol) == tuple(pair):
            merged[-1] = "".join(pair)
        else:
            merged.append(symbol)
    return merged


def _merged_where(fits: Callable[[list[str], tuple], bool], keep: bool = True) -> Callable:
    """Merges from the left what `fits` says of two symbols and a pair; else keeps the symbol."""

    def merge(symbols: list[str], pair: tuple) -> list[str]:
        merged, i = [], 0
        while i < len(symbols):
            two = fits(symbols[i : i + 2], pair)
            merged += ["".join(pair)] * two or symbols[i : i + 1] * keep
            i += 1 + two
        return merged

    return merge


def _skips(symbols: list[str], pair: tuple[str, str]) -> list[str]:
    left, i = list(symbols), 0
    while i < len(left) - 1:
        if (left[i], left[i + 1]) == tuple(pair):
            left[i : i + 2] = ["".join(pair)]
            i += 1
        i += 1
    return left


def _merges_on(symbols: list[str], pair: tuple[str, str]) -> list[str]:
    found: list[str] = []
    for symbol in symbols:
        found.append(symbol)
        while len(found) > 1 and found[-2].endswith(pair[0]) and found[-1].startswith(pair[1]):
            found[-2:] = ["".join(found[-2:])]
    return found


def _stepping(after_a_merge: int, else_by: int) -> Callable[[list[str], Pair], list[str]]:
    """Goes on by other numbers of places."""

    def merge(symbols: list[str], pair: Pair) -> list[str]:
        merged, i = [], 0
        while i < len(symbols):
            hit = tuple(symbols[i : i + 2]) == tuple(pair)
            merged.append("".join(pair) if hit else symbols[i])
            i += after_a_merge if hit else else_by
        return merged

    return merge


def _in_place(
    fits: Callable[[str, str, Pair], bool], step: int = 1
) -> Callable[[list[str], Pair], list[str]]:
    """Changes the list itself, at each place where two symbols fit."""

    def merge(symbols: list[str], pair: Pair) -> list[str]:
        left, i = list(symbols), 0
        while i < len(left) - 1:
            if fits(left[i], left[i + 1], pair):
                left[i : i + 2] = ["".join(pair)]
            i += step
        return left

    return merge


_every_second = _in_place(lambda one, two, pair: (one, two) == tuple(pair), step=2)
_merged_if_any = _in_place(lambda one, two, pair: one == pair[0] or two == pair[1])


def _grown_shorter(less: int) -> Callable[[list[str], Pair], list[str]]:
    """Changes the list itself, and goes through the places that it had at first."""

    def merge(symbols: list[str], pair: Pair) -> list[str]:
        left = list(symbols)
        for i in range(len(symbols) - less):
            if left[i] == pair[0] and left[i + 1] == pair[1]:
                left[i : i + 2] = ["".join(pair)]
        return left

    return merge


def _at_the_first(side: int, again: bool = False) -> Callable[[list[str], Pair], list[str]]:
    """Merges where the left (0) or right (1) symbol of the pair stands first, once, or as long as
    the pair stands there."""

    def merge(symbols: list[str], pair: Pair) -> list[str]:
        left = list(symbols)
        while pair[side] in left:
            i = left.index(pair[side]) - side
            if i < 0 or tuple(left[i : i + 2]) != tuple(pair):
                break
            left[i : i + 2] = ["".join(pair)]
            if not again:
                break
        return left

    return merge


def _by_index(symbols: list[str], pair: Pair) -> list[str]:
    merged, used = [], False
    for symbol in symbols:
        i = symbols.index(symbol)
        hit = not used and tuple(symbols[i : i + 2]) == tuple(pair)
        merged += [] if used else ["".join(pair) if hit else symbol]
        used = hit
    return merged


def _last_merged(symbols: list[str], pair: Pair) -> list[str]:
    left = list(symbols)
    hits = [i for i in range(len(left) - 1) if tuple(left[i : i + 2]) == tuple(pair)]
    for i in hits[-1:]:
        left[i : i + 2] = ["".join(pair)]
    return left


SHORTER = (
    "`range` has counted the places once, before the loop, and each merge makes the list one "
    "shorter: at the end there is no such place any more, and Python raises an IndexError. "
)
MERGE_MISTAKES = mistakes(
    ("the places of the list counted before it grows shorter", _grown_shorter(1),
     SHORTER + "A `while` asks for the length each time; or put the result into a new list."),
    ("the places of the list counted before it grows shorter, and the last symbol's neighbour "
     "looked at", _grown_shorter(0),
     SHORTER + "And the last symbol has no right neighbour at all. A `while` asks for the length "
     "each time; or put the result into a new list."),
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
    ("the letters compared, not the symbols", _as_letters,
     "Written together, ab and c give the same letters as a and bc. Compare the two symbols with "
     "the two of the pair, each with each."),
    ("every letter a symbol", lambda symbols, pair: list("".join(symbols)),
     "The word was glued together and taken apart into letters. Keep the list, and replace two of "
     "its symbols by one."),
    ("the right symbol kept, and the last one lost",
     lambda symbols, pair: _right_kept(symbols, pair)[:-1],
     "The new symbol stands for both: after a merge, go on behind both symbols. And the last "
     "symbol, which has no right neighbour, is still one."),
    ("nothing merged", lambda symbols, pair: list(symbols),
     "The pair was never found. Are two symbols compared with two? And in Python a list never "
     "equals a tuple: make both of one kind."),
    ("one string instead of a list", lambda symbols, pair: "",
     "The answer should be a list of symbols, like the one that was given."),
    ("the symbol behind the last one looked at", _past_the_end,
     "The last symbol has no right neighbour, and `symbols[i + 1]` raises an IndexError there. A "
     "slice, `symbols[i : i + 2]`, does not."),
    ("two symbols passed after every step", _two_by_two,
     "Only a merge uses up two symbols. Where nothing is merged, go on by one."),
    ("the two symbols exchanged in the new one",
     lambda symbols, pair: _replaced(symbols, pair, ["".join(reversed(pair))]),
     "The new symbol is the left one, then the right one."),
    ("the pair itself in place of the new symbol",
     lambda symbols, pair: _replaced(symbols, pair, [tuple(pair)]),
     "The new symbol is one string, the two written together."),
    ("new symbols merged again", _merged_again,
     "What a merge has made is another symbol than the left one of the pair: after a merge, go on "
     "with the next symbol."),
    ("overlapping places merged into one", _into_the_last,
     "In a a a the middle symbol was used up by the first merge: the last a stays beside aa. "
     "After a merge, go on behind both symbols."),
    ("begins with the second symbol", lambda symbols, pair: merge(symbols[1:], pair),
     "`i` begins at 0: the first symbol stays, too, and may be merged."),
    ("what stands behind the first merge is lost", lambda symbols, pair: next((
        [*symbols[:i], "".join(pair)] for i in range(len(symbols) - 1)
        if (symbols[i], symbols[i + 1]) == tuple(pair)), symbols),
     "The result ends with the first merge. What comes after it belongs to it, too."),
    ("all joined, and cut around the new symbol", lambda symbols, pair: (
        "".join(symbols).replace("".join(pair), f" {''.join(pair)} ").split()),
     "Symbols that are not of the pair stay as they are: do not join them."),
    ("the pair taken in either order", _merged_where(
        lambda two, pair: sorted(two) == sorted(pair)),
     "(a, t) is not (t, a): the first symbol of the pair has to stand on the left."),
    ("a symbol and whatever stands behind it merged, if it is the first of the pair", _merged_where(
        lambda two, pair: len(two) == 2 and two[0] == pair[0]),
     "The symbol behind it has to be the second of the pair, else nothing is merged there."),
    ("a symbol and whatever stands before it merged, if it is the second of the pair",
     _merged_where(lambda two, pair: len(two) == 2 and two[1] == pair[1]),
     "The symbol before it has to be the first of the pair, else nothing is merged there."),
    ("the left symbol kept beside the new one",
     lambda symbols, pair: _replaced(symbols, pair, [pair[0], "".join(pair)]),
     "The new symbol stands for both: the left one was appended before it was known that it is "
     "merged."),
    ("the right symbol put behind the new one",
     lambda symbols, pair: _replaced(symbols, pair, ["".join(pair), pair[1]]),
     "The new symbol stands for both. After a merge, go on behind both symbols."),
    ("both symbols kept beside the new one",
     lambda symbols, pair: _replaced(symbols, pair, [*pair, "".join(pair)]),
     "The new symbol takes the place of both."),
    ("the first symbol of the pair alone compared", _merged_where(
        lambda two, pair: two[:1] == [*pair[:1]]),
     "The symbol behind it has to be the second of the pair, else nothing is merged there."),
    ("the merged symbols alone", _merged_where(
        lambda two, pair: two == [*pair], keep=False),
     "What is not of the pair stays where it is."),
    ("what was merged merges once more", _merges_on,
     "A symbol that was used up by a merge cannot be used again, and the new symbol is none of the "
     "pair's: go on behind it."),
    ("one symbol too many passed after a merge", _skips,
     "Where the list itself is changed, the new symbol stands at i, and the next one at i + 1. In "
     "a text, two places of the pair side by side share a blank: ask for it without using it up."),
    ("the pair read backwards", lambda symbols, pair: merge(symbols, tuple(pair)[::-1]),
     "The first of the pair stands on the left, the second on the right."),
    ("the new symbol letter by letter",
     lambda symbols, pair: _replaced(symbols, pair, [*"".join(pair)]),
     "To a list, `+=` and `extend` add a string letter by letter. The new symbol is one: `append`, "
     "or `+= [...]`."),
    ("the other symbols letter by letter", lambda symbols, pair: [
        one for symbol in merge(symbols, pair)
        for one in ([symbol] if symbol == "".join(pair) else symbol)],
     "To a list, `+=` and `extend` add a string letter by letter. Each symbol is one: `append`, or "
     "`+= [...]`."),
    ("the text letter by letter, with its blanks", lambda symbols, pair: [
        *" ".join(merge(symbols, pair))],
     "A string is its letters to a list. `.split()` cuts it at the blanks."),
    ("the left symbol of the pair in place of the new one",
     lambda symbols, pair: _replaced(symbols, pair, [pair[0]]),
     "The new symbol is both written together, `pair[0] + pair[1]`."),
    ("the right symbol of the pair in place of the new one",
     lambda symbols, pair: _replaced(symbols, pair, [pair[1]]),
     "The new symbol is both written together, `pair[0] + pair[1]`."),
    ("the left symbol of the pair twice",
     lambda symbols, pair: _replaced(symbols, pair, [pair[0] * 2]),
     "The new symbol is both written together, `pair[0] + pair[1]`."),
    ("the right symbol of the pair twice",
     lambda symbols, pair: _replaced(symbols, pair, [pair[1] * 2]),
     "The new symbol is both written together, `pair[0] + pair[1]`."),
    ("only a pair at the end of the list found", lambda symbols, pair: (
        [*symbols[:-2], "".join(pair)] if tuple(symbols[-2:]) == tuple(pair) else symbols),
     "Compared is more than two symbols, so that the pair fits only where the list ends. It is two "
     "at a time, `symbols[i : i + 2]`, that are compared."),
    ("only a pair at the beginning of the list found", lambda symbols, pair: (
        ["".join(pair), *symbols[2:]] if tuple(symbols[:2]) == tuple(pair) else symbols),
     "The pair is looked for at every place i: `symbols[i : i + 2]`, from i on and two of them."),
    ("the end of the last symbol not asked for",
     lambda symbols, pair: re.sub(
         r"(?<!\S)" + re.escape(" ".join(pair)), "".join(pair), " ".join(symbols)).split(),
     "Behind the pair a symbol has to end, `(?!\\S)`: ab c was found in ab cd."),
    ("the beginning of the first symbol not asked for",
     lambda symbols, pair: re.sub(
         re.escape(" ".join(pair)) + r"(?!\S)", "".join(pair), " ".join(symbols)).split(),
     "Before the pair a symbol has to begin, `(?<!\\S)`: h a was found in ch a."),
    ("the pair read as a regular expression",
     lambda symbols, pair: re.sub(
         r"(?<!\S)" + " ".join(pair) + r"(?!\S)", "".join(pair), " ".join(symbols)).split(),
     "There a point stands for any letter, and other marks have meanings of their own: "
     "`re.escape`."),
    ("all merged that is not the pair", _merged_where(
        lambda two, pair: len(two) == 2 and two != [*pair]),
     "`==`, not `!=`: what is the pair is merged, and the rest stays."),
    ("one symbol too many passed after a merge, and lost", _stepping(3, 1),
     "The pair is two symbols: after a merge go on by 2."),
    ("two symbols passed after every step, and one of them lost", _stepping(2, 2),
     "Only a merge uses up two symbols. Where nothing is merged, one was kept: go on by one."),
    ("the first symbol kept, and never merged",
     lambda symbols, pair: [*symbols[:1], *merge(symbols[1:], pair)],
     "The pair may stand at the beginning: the first place is 0."),
    ("a pair at the end of the list not found", lambda symbols, pair: (
        [*merge(symbols[:-1], pair), symbols[-1]]),
     "The last place at which two symbols stand side by side is `len(symbols) - 2`, and a `range` "
     "or a `while` with `<` ends before its bound: it is `len(symbols) - 1`."),
    ("only every second place looked at, where nothing is merged", _every_second,
     "Where nothing is merged, go on by one."),
    ("an empty list", lambda symbols, pair: [],
     "Nothing was put into the result: is the loop ever entered, and does it append?"),
    ("merged where one of the two fits", _merged_if_any,
     "Both symbols must be those of the pair: `and`, not `or`."),
    ("only the first place of the left symbol looked at", _at_the_first(0),
     "`index` finds the first place of a symbol, and there it may stand beside another one. The "
     "pair may stand farther on, and more than once: look at every place."),
    ("only the first place of the right symbol looked at", _at_the_first(1),
     "`index` finds the first place of a symbol, and there it may stand beside another one. The "
     "pair may stand farther on, and more than once: look at every place."),
    ("ended where the left symbol has another neighbour", _at_the_first(0, again=True),
     "`index` finds the first place of a symbol. If it stands beside another one there, the pair "
     "may still stand farther on: go on behind it."),
    ("ended where the right symbol has another neighbour", _at_the_first(1, again=True),
     "`index` finds the first place of a symbol. If it stands beside another one there, the pair "
     "may still stand farther on: go on behind it."),
    ("every symbol's first place looked at, in place of its own", _by_index,
     "`symbols.index(symbol)` is the first place of such a symbol, also when the loop has come to "
     "a later one. `enumerate` counts the places."),
    ("only the last place merged", _last_merged,
     "The pair is merged wherever it stands."),
)  # fmt: skip

# 1.4 design: where the two ways to cut a word part

Merges = list[Pair]
PARTING: Merges = [("b", "c"), ("bc", "d"), ("a", "b"), ("y", "z"), ("x", "y"), ("xy", "z")]
FEWER, EQUAL, MORE = "abcd", "ab", "xyz"  # words, by what replaying needs of these merges


def encode(word: str, merges: Merges) -> list[str]:
    symbols = ["▁", *word]
    for pair in merges:
        symbols = merge(symbols, pair)
    return symbols


def longest_pieces(word: str, merges: Merges) -> list[str]:
    """From the left, always the longest symbol that any merge makes."""
    pieces, rest, found = {"".join(pair) for pair in merges}, "▁" + word, []
    while rest:
        size = next(n for n in range(len(rest), 0, -1) if rest[:n] in pieces or n == 1)
        found.append(rest[:size])
        rest = rest[size:]
    return found


def _what_they_need(answer: Any) -> dict[str, str]:
    """Whether the merges could have been learned, and how the two ways cut the two words."""
    if not isinstance(answer, list | tuple) or len(answer) != 3:
        return {"form": "not three things: a list of merges and two words"}
    merges, words = [tuple(map(str, pair)) for pair in answer[0]], answer[1:]
    merges = [tuple(symbol.replace("_", "▁") for symbol in pair) for pair in merges]
    made: list[str] = []
    for pair in merges:
        if len(pair) != 2:
            return {"form": "a merge that is not a pair of two strings"}
        if any(len(symbol) != 1 and symbol not in made for symbol in pair):
            return {"form": "a symbol that no earlier merge has made"}
        made.append("".join(pair))
    if len(merges) > 6:
        return {"form": "more than six merges"}
    if len(set(made)) < len(made):
        return {"form": "one symbol made twice"}
    if not all(isinstance(word, str) and word.isalpha() for word in words):
        return {"form": "words that are not of letters alone"}
    found = {"form": "as asked"}
    for which, word in zip(("first", "second"), words, strict=True):
        replayed, cut = len(encode(word, merges)), len(longest_pieces(word, merges))
        found[which] = "fewer" if replayed < cut else "more" if replayed > cut else "as many"
    return found


LONGEST = (
    "In the first word the longest piece at the left must spoil what would have come behind it: a "
    "long symbol that begins with the last letter of that piece."
)
REPLAY = (
    "In the second word an early merge must use up a letter that a later, longer symbol would need."
)
PARTING_MISTAKES = mistakes(
    ("the two words exchanged", (PARTING, MORE, FEWER),
     "Both words part the two ways. First comes the one for which replaying needs fewer."),
    ("the first word takes as many both ways", (PARTING, EQUAL, MORE), LONGEST),
    ("the second word takes as many both ways", (PARTING, FEWER, EQUAL), REPLAY),
    ("no difference in either word", (PARTING, EQUAL, EQUAL),
     f"Which pieces come out may differ; asked for is how many. {REPLAY}"),
    ("replaying needs fewer in both words", (PARTING, FEWER, FEWER), REPLAY),
    ("replaying needs more in both words", (PARTING, MORE, MORE), LONGEST),
    ("the first word takes more, the second as many", (PARTING, MORE, EQUAL),
     f"The first word would do as the second. {LONGEST}"),
    ("the first word takes as many, the second fewer", (PARTING, EQUAL, FEWER),
     f"The second word would do as the first. {REPLAY}"),
    ("a symbol that no earlier merge has made", ([("ab", "c")], FEWER, MORE),
     "A merge joins single letters, ▁, or what earlier merges of the list have made."),
    ("more than six merges", ([*PARTING, ("u", "v")], FEWER, MORE),
     "Six are enough: three for each word."),
    ("one symbol made twice", ([("a", "b"), ("a", "b")], FEWER, MORE),
     "Once two symbols are merged everywhere, the same two never stand side by side again; and a "
     "vocabulary has no symbol twice."),
    ("a merge that is not a pair", (["abc"], FEWER, MORE),
     'First comes the list of merges, each a pair of two strings, such as ("a", "b").'),
    ("words that are not of letters alone", (PARTING, "▁abcd", "▁xyz"),
     "A word is one string of letters, not empty, without blanks, and without ▁: both ways put it "
     "in front."),
    ("not three things", (PARTING, FEWER),
     "Give a list of merges and two words, (merges, fewer, more)."),
)  # fmt: skip

# 1.5 design: three opinions on which row is nearest to row 0

OPINIONS = [[1.0, 0.0], [4.0, 0.0], [9.0, 9.0], [1.0, 1.0]]
MEASURES = {"cosine": 1, "dot product": 2, "distance": 3}  # and the row that each should name


def _first(likeness: Tensor) -> int | str:
    """The row of the highest number, counted from 1; "rows 1 and 3" where both are as high."""
    best = float(likeness.max())
    rows = [i for i, one in enumerate(likeness.tolist(), 1) if best - one <= 1e-6 * (1 + abs(best))]
    return (
        rows[0] if len(rows) == 1 else "rows " + ", ".join(map(str, rows[:-1])) + f" and {rows[-1]}"
    )


def _nearest_rows(answer: Any) -> dict[str, Any]:
    """Which row each measure puts nearest to row 0, or what is wrong with the table."""
    table = array(answer)
    if table is not None and table.ndim == 2 and table.shape[1] == 4 and len(table) not in (1, 4):
        return {"form": "the vectors as columns"}
    if table is None or table.ndim != 2 or len(table) != 4:
        return {"form": "not four rows of one width"}
    rows = torch.as_tensor(table).double()
    if not rows.isfinite().all():
        return {"form": "an entry that is no number"}
    if not rows.any(1).all():
        return {"form": "a row of zeros"}
    me, others = rows[0], rows[1:]
    cosines = normalize(others, dim=1) @ normalize(me, dim=0)
    likeness = cosines, others @ me, -(others - me).norm(dim=1)
    found = zip(MEASURES, map(_first, likeness), strict=True)
    return {"form": "as asked", **{f"nearest by the {measure}": row for measure, row in found}}


def _table_for(cosine: int, dot: int, distance: int) -> list[list[float]]:
    """Four rows, of which the three measures name these."""
    if len({cosine, dot, distance}) == 3:
        rows = {cosine: [4.0, 0.0], dot: [9.0, 9.0], distance: [1.0, 1.0]}
    elif dot == distance:
        rows = {cosine: [0.1, 0.0], dot: [1.0, 0.5]} if cosine != dot else {dot: [2.0, 0.0]}
    elif cosine == dot:
        rows = {cosine: [9.0, 0.0], distance: [1.0, 1.0]}
    else:
        rows = {cosine: [2.0, 0.0], dot: [9.0, 9.0]}
    return [[1.0, 0.0], *(rows.get(row, [0.0, -5.0]) for row in (1, 2, 3))]


WAYS = {
    "cosine": "The cosine knows directions alone: let row 1 point exactly as row 0 does, and no "
    "other row.",
    "dot product": "The dot product grows with the length of a row that points to the side of row "
    "0, even a little aside. One that points away has a negative one, and the longer it is the "
    "smaller. Let row 2 point to the side of row 0, and be long.",
    "distance": "By the distance a row is near if it ends near where row 0 ends, wherever it "
    "points. A row in the same direction is far away if it is long.",
}


def _named(said: tuple[int, ...]) -> tuple[str, list[list[float]], str]:
    wrong = [(m, row) for m, row in zip(MEASURES, said, strict=True) if row != MEASURES[m]]
    if len({*said}) == 3:
        name = "the three rows in another order"
        if len(wrong) == 2:
            name = f"rows {' and '.join(str(MEASURES[measure]) for measure, _ in wrong)} exchanged"
        name += f" (nearest is {', '.join(f'row {row} by the {m}' for m, row in wrong)})"
        why = "The vectors are good: the three measures disagree, each with one row of its own. "
        return (
            name,
            _table_for(*said),
            why
            + (
                "Put the row that is nearest by the cosine into place 1, that by the dot product "
                "into place 2, and that by the distance into place 3."
            ),
        )
    name = ", ".join(f"row {row} by the {measure}" for measure, row in wrong)
    return f"nearest is {name}", _table_for(*said), " ".join(WAYS[measure] for measure, _ in wrong)


OPINION_MISTAKES = mistakes(
    *(_named(said) for said in product((1, 2, 3), repeat=3) if said != (1, 2, 3)),
    *(
        (f"rows {rows} are equally near by the cosine", table,
         "They stand at one angle to row 0, and the cosine knows directions alone. " + way)
        for rows, way, table in (
            ("1 and 2", "Let row 2 point farther aside.", [[1, 0], [4, 0], [9, 0], [1, 1]]),
            ("1 and 3", "Let row 3 point farther aside.", [[1, 0], [4, 0], [9, 9], [2, 0]]),
            ("2 and 3", "Let row 1 alone point exactly as row 0 does.",
             [[1, 0], [4, 4], [9, 0], [1.5, 0]]),
            ("1, 2 and 3", "Let rows 2 and 3 point aside.", [[1, 0], [4, 0], [9, 0], [2, 0]]),
        )
    ),
    *(
        (f"rows {rows} are equally near by the dot product", table,
         "Let row 2 reach farther in the direction of row 0, until its dot product is the largest.")
        for rows, table in (
            ("1 and 2", [[1, 0], [4, 0], [4, 9], [1, 1]]),
            ("1 and 3", [[2, 0], [4, 0], [3, 9], [4, 1]]),
            ("2 and 3", [[9, 0], [1, 0], [8, 8], [8, 1]]),
        )
    ),
    *(
        (f"rows {rows} are equally near by the distance", table,
         "A distance is that of two ends. " + way)
        for rows, way, table in (
            ("1 and 2", "Let row 3 alone end near where row 0 ends.",
             [[4, 0], [1, 0], [4, 3], [0, 1]]),
            ("1 and 3", "Move row 3 nearer to where row 0 ends, or row 1 farther away.",
             [[1, 0], [3, 0], [9, 9], [1, 2]]),
            ("2 and 3", "Move row 3 nearer to where row 0 ends, or row 2 farther away.",
             [[4, 0], [1, 0], [5, 2], [3, 2]]),
            ("1, 2 and 3", "Move row 3 nearer to where row 0 ends, or the others farther away.",
             [[3, 0], [1, 0], [3, 2], [1, 1e-9]]),
        )
    ),
    ("the vectors as columns", [[1, 4, 9, 1], [0, 0, 9, 1]],
     "The vectors are the rows of the table, not its columns: `.T` turns it."),
    ("an entry that is not finite", [[1, 0], [4, 0], [float("inf"), 9], [1.0, 1.0]],
     "Infinity and NaN have neither a cosine nor a distance. A large number will do as well."),
    ("a row of zeros", [[1, 0], [4, 0], [9, 9], [0.0, 0.0]],
     "Zeros have no direction, and so no cosine. A short vector will do as well."),
    ("not four rows of one width", [[1, 0], [4, 0], [9, 9]],
     "Give a table of four rows: row 0, which the others are compared with, and the three others."),
)  # fmt: skip


def _names(measure: str) -> Callable[[dict[str, Any]], bool]:
    return lambda found: found.get(f"nearest by the {measure}") == MEASURES[measure]


OPINION_RULES = [
    Invariant(f"by the {measure} row {row} alone is nearest", _names(measure), WAYS[measure])
    for measure, row in MEASURES.items()
]

# 1.6 a batch, three mistakes

Pairs = list[tuple[list[int], list[int]]]
BATCH_PAIRS = [
    ([([7, 8], [9]), ([5], [6, 4])],),
    ([([9, 5, 6], [4]), ([7, 1], [5, 4]), ([5], [4]), ([6, 1], [9]), ([7, 1], [8, 8, 5, 9])],),
    ([([4], [5, 6, 7, 8])],),
    ([([4, 5, 6, 7], [8]), ([9], [1])],),
]


def make_batch(pairs: Pairs) -> tuple[Tensor, Tensor, Tensor]:
    return _batch()(pairs)


def _ascending(pairs: Pairs) -> Pairs:
    return sorted(pairs, key=lambda pair: len(pair[0]))


def _apart(pairs: Pairs) -> Pairs:
    return list(zip(*(sorted(side, key=len) for side in zip(*pairs, strict=True)), strict=True))


def _rectangle(rows: list[list[int]], width: int, fill: int = 0) -> Tensor:
    return torch.tensor([(row + [fill] * width)[:width] for row in rows])


def _batch(
    order: Callable[[Pairs], Pairs] = _ascending,
    widths: Callable[[int, int], tuple[int, int]] = lambda s, t: (s, t),
    mask: Callable[[Tensor, Tensor], Tensor] = lambda src, tgt: src != 0,
    src_marks: tuple[list[int], list[int]] = ([], [3]),
    tgt_marks: tuple[list[int], list[int]] = ([2], [3]),
    fill: int = 0,
) -> Callable[[Pairs], tuple[Tensor, Tensor, Tensor]]:
    """The function, right by default; each argument makes one mistake."""

    def batch(pairs: Pairs) -> tuple[Tensor, Tensor, Tensor]:
        pairs = order(pairs)
        src = [[*src_marks[0], *s, *src_marks[1]] for s, _ in pairs]
        tgt = [[*tgt_marks[0], *t, *tgt_marks[1]] for _, t in pairs]
        wide, broad = widths(max(map(len, src)), max(map(len, tgt)))
        src, tgt = _rectangle(src, wide, fill), _rectangle(tgt, broad, fill)
        return src, tgt, mask(src, tgt)

    return batch


def _of_src(s: int, t: int) -> tuple[int, int]:
    return s, s


def _words_only(src: Tensor, tgt: Tensor) -> Tensor:
    return src > 3


def _flipped(pairs: Pairs) -> tuple[Tensor, Tensor, Tensor]:
    src, tgt, _ = make_batch(pairs)
    src, tgt = (
        torch.stack([torch.cat([row[row == 0], row[row != 0]]) for row in side])
        for side in (src, tgt)
    )
    return src, tgt, src != 0


def _late_ends(*sides: int) -> Callable[[Pairs], tuple[Tensor, Tensor, Tensor]]:
    def batch(pairs: Pairs) -> tuple[Tensor, Tensor, Tensor]:
        marks = ({"src_marks": ([], [])}, {"tgt_marks": ([2], [])})
        made = list(_batch(**{k: v for side in sides for k, v in marks[side].items()})(pairs)[:2])
        for side in sides:
            made[side] = torch.cat([made[side], torch.full((len(pairs), 1), 3)], 1)
        return made[0], made[1], made[0] != 0

    return batch


def _mask_of(src: Tensor, more: int) -> Tensor:
    """The mask with so many places more in each row."""
    places = torch.arange(src.shape[1])
    return places < (src != 0).sum(1, keepdim=True) + more


BATCH_MISTAKES = mistakes(
    ("nothing mended", _batch(order=_apart, widths=_of_src, mask=_words_only),
     "Look at which source stands beside which target, at the ends of the targets, and at which "
     "tokens the mask leaves out."),
    ("the sides are sorted apart still, and the targets cut at the sources' width",
     _batch(order=_apart, widths=_of_src),
     "The mask is right. Does row 0 of the targets translate row 0 of the sources, and does every "
     "target have its EOS?"),
    ("the sides are sorted apart still, and the mask hides tokens",
     _batch(order=_apart, mask=_words_only),
     "The widths are right. Does row 0 of the targets translate row 0 of the sources? And EOS, "
     "and a word that is not known (1), are tokens."),
    ("the targets are cut at the sources' width still, and the mask hides tokens",
     _batch(widths=_of_src, mask=_words_only),
     "The pairs are together again. A long target loses its end, and its EOS. And EOS, and a word "
     "that is not known (1), are tokens."),
    ("the sides are sorted apart still", _batch(order=_apart),
     "Two are mended. Each side was sorted by its own length, so that sentences and translations "
     "no longer belong together: no error, and nothing to learn. Sort the pairs."),
    ("the targets are cut at the sources' width still", _batch(widths=_of_src),
     "Two are mended. Where targets are longer than all sources, they lose their end, and with it "
     "EOS: a translator that never sees it never learns to stop."),
    ("the sources are cut at the targets' width", _batch(widths=lambda s, t: (t, t)),
     "Each side is as wide as its own longest row."),
    ("one width for both sides", _batch(widths=lambda s, t: (max(s, t), max(s, t))),
     "Nothing is lost, but each side should be as wide as its own longest row, no wider."),
    ("the mask hides tokens still", _batch(mask=_words_only),
     "Two are mended. `> EOS` also hides EOS itself, and 1, the word that is not known. Padding "
     "is what equals PAD, and nothing else."),
    ("the mask hides the word that is not known", _batch(mask=lambda src, tgt: src > 1),
     "1 is UNK: a token that stands for a real character. Only PAD is padding."),
    ("the mask hides EOS", _batch(mask=lambda src, tgt: (src != 0) & (src != 3)),
     "EOS is a token like the others. Only PAD is padding."),
    ("the mask turned round", _batch(mask=lambda src, tgt: src == 0),
     "True means a token. (PyTorch's key_padding_mask says it the other way.)"),
    ("the mask of the targets", _batch(mask=lambda src, tgt: tgt != 0),
     "The mask that is asked for is that of the sources."),
    ("a mask of numbers", _batch(mask=lambda src, tgt: (src != 0).long()),
     "The values are right, but a mask should be boolean."),
    ("the pairs in the given order", _batch(order=list),
     "The task asks for the order of the source's length, the shortest first."),
    ("sorted by the target's length",
     _batch(order=lambda pairs: sorted(pairs, key=lambda pair: len(pair[1]))),
     "The order is that of the source's length."),
    ("the longest first",
     _batch(order=lambda pairs: sorted(pairs, key=lambda pair: -len(pair[0]))),
     "The shortest source comes first."),
    *((f"sorted by {what}", _batch(order=lambda pairs, key=key: sorted(pairs, key=key)),
       "The order is that of the source's length alone.")
      for what, key in (
          ("the longer of source and target", lambda pair: max(map(len, pair))),
          ("the longer, and by the source's length where that is the same",
           lambda pair: (max(map(len, pair)), len(pair[0]))),
      )),
    ("sources of equal length in another order",
     _batch(order=lambda pairs: sorted(pairs, key=lambda pair: (len(pair[0]), len(pair[1])))),
     "Pairs whose sources are equally long keep the order in which they were given."),
    ("sorted by the ids", _batch(order=sorted),
     "`sorted(pairs)` compares the ids themselves. The key is the length of the source."),
    ("no EOS behind the source", _batch(src_marks=([], [])),
     "The source ends in EOS, too, as before."),
    ("BOS before the source", _batch(src_marks=([2], [3])),
     "Only the target begins with BOS."),
    ("no BOS before the target", _batch(tgt_marks=([], [3])),
     "The target begins with BOS: the decoder must have something to read first."),
    ("no EOS behind the target", _batch(tgt_marks=([2], [])),
     "The target ends in EOS, else the translator never learns to stop."),
    ("filled on the left", _flipped,
     "The padding stands behind the tokens, on the right."),
    ("the targets before the sources", lambda pairs: (
        (src := make_batch(pairs))[1], src[0], src[2]),
     "The sources come first, then the targets, then the mask."),
    ("a mask that hides nothing", _batch(mask=lambda src, tgt: torch.ones_like(src).bool()),
     "False is for padding, `src != PAD`."),
    ("the longest target first",
     _batch(order=lambda pairs: sorted(pairs, key=lambda pair: -len(pair[1]))),
     "The order is that of the source's length, the shortest first."),
    ("BOS and EOS at the sources, no marks at the targets",
     _batch(src_marks=([2], [3]), tgt_marks=([], [])),
     "Sources end in EOS; targets begin with BOS and end in EOS."),
    ("no marks at all", _batch(src_marks=([], []), tgt_marks=([], [])),
     "Sources end in EOS; targets begin with BOS and end in EOS."),
    ("two masks", lambda pairs: (*make_batch(pairs), make_batch(pairs)[1] != 0),
     "Three things are asked for: sources, targets, and the mask of the sources."),
    ("no mask", lambda pairs: make_batch(pairs)[:2],
     "The mask of the sources is asked for, too."),
    ("a mask with an axis more", _batch(mask=lambda src, tgt: (src != 0).unsqueeze(1)),
     "The mask has the shape of the sources, (B, S)."),
    ("filled with EOS", _batch(fill=3, mask=lambda src, tgt: src != 3),
     "The filler is PAD, which is 0."),
    *((f"{which} {places} too narrow, so that the longest loses {what}",
       _batch(widths=lambda s, t, less=less: (s - less[0], t - less[1])),
       "The width is that of the longest row with its marks: EOS is one place at the sources, BOS "
       "and EOS are two at the targets.")
      for which, places, what, less in (
          ("the sources", "one place", "its EOS", (1, 0)),
          ("the targets", "one place", "its EOS", (0, 1)),
          ("the targets", "two places", "its last word and its EOS", (0, 2)),
          ("both sides", "one place", "its EOS", (1, 1)),
          ("both sides", "by their marks", "its end", (1, 2)))),
    ("sorted by both lengths together",
     _batch(order=lambda pairs: sorted(pairs, key=lambda pair: len(pair[0]) + len(pair[1]))),
     "The order is that of the source's length alone."),
)  # fmt: skip


BATCH_SLIPS = [
    ("the pairs in the given order", {"order": list}, "The shortest source comes first."),
    ("the longest first",
     {"order": lambda pairs: sorted(pairs, key=lambda pair: -len(pair[0]))},
     "The shortest source comes first."),
    ("sorted by the target's length",
     {"order": lambda pairs: sorted(pairs, key=lambda pair: len(pair[1]))},
     "The order is that of the source's length."),
    ("the sides sorted apart", {"order": _apart}, "A pair stays together."),
    ("the targets cut at the sources' width", {"widths": _of_src},
     "Each side is as wide as its own longest row."),
    ("one width for both sides", {"widths": lambda s, t: (max(s, t), max(s, t))},
     "Each side is as wide as its own longest row."),
    ("the mask hides tokens", {"mask": _words_only}, "Only PAD is padding."),
    ("the mask hides the word that is not known", {"mask": lambda src, tgt: src > 1},
     "1 is a token, too: only PAD is padding."),
    ("the mask hides EOS", {"mask": lambda src, tgt: (src != 0) & (src != 3)},
     "EOS is a token like the others."),
    ("the mask turned round", {"mask": lambda src, tgt: src == 0}, "True means a token."),
    ("the mask of the targets", {"mask": lambda src, tgt: tgt != 0},
     "The mask that is asked for is that of the sources."),
    ("a mask that hides nothing", {"mask": lambda src, tgt: torch.ones_like(src).bool()},
     "False is for padding, `src != PAD`."),
    ("no EOS behind the source", {"src_marks": ([], [])}, "The source ends in EOS."),
    ("BOS before the source", {"src_marks": ([2], [3])}, "Only the target begins with BOS."),
    ("no BOS before the target", {"tgt_marks": ([], [3])}, "The target begins with BOS."),
    ("no EOS behind the target", {"tgt_marks": ([2], [])}, "The target ends in EOS."),
]  # fmt: skip
BATCH_MISTAKES += mistakes(
    *((f"{mark} in place of EOS behind the source", _batch(src_marks=([], [mark])),
       "EOS is 3: PAD, UNK, BOS and EOS are 0, 1, 2 and 3.") for mark in (1, 2, 4)),
    *((f"{mark} in place of EOS behind the target", _batch(tgt_marks=([2], [mark])),
       "EOS is 3: PAD, UNK, BOS and EOS are 0, 1, 2 and 3.") for mark in (1, 2, 4)),
    *((f"{mark} in place of EOS behind both", _batch(
        src_marks=([], [mark]), tgt_marks=([2], [mark])),
       "EOS is 3: PAD, UNK, BOS and EOS are 0, 1, 2 and 3.") for mark in (1, 2, 4)),
    *((f"{mark} in place of BOS before the target", _batch(tgt_marks=([mark], [3])),
       "BOS is 2: PAD, UNK, BOS and EOS are 0, 1, 2 and 3.") for mark in (1, 3)),
    ("BOS and EOS of the target exchanged", _batch(tgt_marks=([3], [2])),
     "BOS, 2, begins the target, and EOS, 3, ends it."),
    ("BOS before both sides and EOS behind the target alone",
     _batch(src_marks=([2], [])), "The source has EOS behind it, and no BOS."),
    *((f"filled with {fill}", _batch(
        fill=fill, mask=lambda src, tgt, fill=fill: src != fill), "The filler is PAD, which is 0.")
      for fill in (1, -1)),
    *((f"filled with {fill}, and the mask of what is not 0", _batch(fill=fill),
       "The filler is PAD, which is 0.") for fill in (1, -1)),
    *((f"{which} one place too wide", _batch(widths=widths),
       "The width is that of the longest row with its marks: EOS is one place at the sources, BOS "
       "and EOS are two at the targets.") for which, widths in (
          ("the sources", lambda s, t: (s + 1, t)), ("the targets", lambda s, t: (s, t + 1)),
          ("both sides", lambda s, t: (s + 1, t + 1)))),
    ("no EOS behind the source, and PAD in its place",
     _batch(src_marks=([], []), widths=lambda s, t: (s + 1, t)),
     "Each sentence ends with EOS, the source, too."),
    ("no BOS before the target, and a place more behind it",
     _batch(tgt_marks=([], [3]), widths=lambda s, t: (s, t + 1)), "The target begins with BOS."),
    ("no EOS behind the target, and PAD in its place",
     _batch(tgt_marks=([2], []), widths=lambda s, t: (s, t + 1)),
     "Without EOS a translator never learns to stop."),
    ("no EOS behind either side, and PAD in its place",
     _batch(src_marks=([], []), tgt_marks=([2], []), widths=lambda s, t: (s + 1, t + 1)),
     "Both sides end with EOS."),
    ("no marks, and PAD in their places",
     _batch(src_marks=([], []), tgt_marks=([], []), widths=lambda s, t: (s + 1, t + 2)),
     "The source ends with EOS. The target begins with BOS and ends with EOS."),
    ("floating-point numbers in place of ids", lambda pairs: (
        (made := make_batch(pairs))[0].float(), made[1].float(), made[2]),
     "Ids are whole numbers: `torch.zeros` gives others, unless it gets `dtype=torch.long`."),
    ("the ids in place of the mask", _batch(mask=lambda src, tgt: src),
     "The mask is boolean: `src != PAD`."),
    ("a mask that hides everything", _batch(mask=lambda src, tgt: torch.zeros_like(src).bool()),
     "True is for tokens, `src != PAD`."),
    ("the mask of what is not UNK", _batch(mask=lambda src, tgt: src != 1),
     "1 is UNK, a token. Padding is PAD, which is 0."),
    ("the mask of what is not EOS", _batch(mask=lambda src, tgt: src != 3),
     "3 is EOS, a token. Padding is PAD, which is 0."),
    ("the mask one place too long", _batch(mask=lambda src, tgt: _mask_of(src, 1)),
     "A source with its EOS takes `len(s) + 1` places."),
    ("the mask two places too short", _batch(mask=lambda src, tgt: _mask_of(src, -2)),
     "A source with its EOS takes `len(s) + 1` places."),
    ("the sources with the marks of targets in place of the targets", lambda pairs: (
        _batch()([(s, s) for s, _ in pairs])),
     "The second of each pair is the target."),
    ("the targets with the marks of sources in place of the sources", lambda pairs: (
        _batch()([(t, t) for _, t in _ascending(pairs)], )),
     "The first of each pair is the source."),
    *((f"EOS behind the padding of {which}", _late_ends(*sides),
       "EOS stands behind the last word of each sentence, and the padding behind EOS.")
      for which, sides in (("the sources", (0,)), ("the targets", (1,)), ("both sides", (0, 1)))),
    *combined(_batch, BATCH_SLIPS, but=[
        ("the sides sorted apart", "the targets cut at the sources' width"),
        ("the sides sorted apart", "the mask hides tokens"),
        ("the targets cut at the sources' width", "the mask hides tokens"),
        ("no EOS behind the source", "the mask hides EOS"),
        ("no EOS behind the source", "the mask hides tokens"),
    ]),
)  # fmt: skip


def _three(output: Any) -> Any:
    """A mask of floats as one of whole numbers, so that both are met with the same words."""
    if not isinstance(output, list | tuple) or len(output) != 3:
        return output
    mask = torch.as_tensor(output[2])
    return [*output[:2], mask.long() if mask.is_floating_point() else mask]


# 1.7 a test that tells right batches from wrong

Fill = Callable[[list[int], int], list[list[int]]]


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


SUSPECTS: dict[str, Fill] = {
    "right": fill_batches,
    "right, in another style": _rule(lambda batch, new: max(*batch, new) * (len(batch) + 1)),
    "tokens without padding": _rule(lambda batch, new: sum(batch) + new),
    "last batch lost": lambda lengths, max_tokens: fill_batches(lengths, max_tokens)[:-1],
    "equal numbers of sentences": _equal_numbers,
    "full batches refused": _rule(
        lambda batch, new: max(*batch, new) * (len(batch) + 1), lambda size, most: size < most
    ),
    "closed when it is too large": _rule(lambda batch, new: max(batch) * len(batch)),
    "newcomer's length left out": _rule(lambda batch, new: max(batch) * (len(batch) + 1)),
    "newcomer taken for the longest": _rule(lambda batch, new: new * (len(batch) + 1)),
    "longest never reset": _never_reset,
    "longest reset to 0": _reset_to_zero,
    "misfits lost": _misfits_lost,
    "sorted first": _sorted_first,
    "first batch with room": _first_fit,
    "each sentence for itself": lambda lengths, max_tokens: [[i] for i in range(len(lengths))],
    "counted from 1": lambda lengths, max_tokens: [
        [i + 1 for i in batch] for batch in fill_batches(lengths, max_tokens)
    ],
    "the last batch first": lambda lengths, max_tokens: fill_batches(lengths, max_tokens)[::-1],
    "empty batch at the end": lambda lengths, max_tokens: [*fill_batches(lengths, max_tokens), []],
    "a sentence lost where the fourth batch begins": lambda lengths, max_tokens: [
        batch[i == 3 :] for i, batch in enumerate(fill_batches(lengths, max_tokens))
    ],
}


FILL_WHY = {
    "tokens without padding": "It adds up lengths. A batch has as many positions as sentences "
    "times its longest length.",
    "last batch lost": "Look at whether every sentence comes.",
    "equal numbers of sentences": "It closes batches that still have room.",
    "full batches refused": "It closes a batch too early, where it would come out exactly full.",
    "closed when it is too large": "Its batches grow beyond the limit by one sentence.",
    "newcomer's length left out": "A newcomer may be the longest of its batch.",
    "newcomer taken for the longest": "The longest may have come before: let lengths fall.",
    "longest never reset": "A long sentence counts in later batches, too: have many batches.",
    "longest reset to 0": "The first sentence of a batch is not counted: let lengths fall.",
    "misfits lost": "Look at whether every sentence comes.",
    "sorted first": "The sentences come in another order: let lengths rise and fall.",
    "first batch with room": "A sentence joins an earlier batch: let lengths rise and fall.",
    "each sentence for itself": "It closes batches that still have room.",
    "counted from 1": "Look at the places themselves.",
    "the last batch first": "Look at the order of the batches.",
    "empty batch at the end": "Look at the last batch.",
    "a sentence lost where the fourth batch begins": "Look at whether every sentence comes, also "
    "where there are many batches.",
}
FILL_RULES = rules([name for name in SUSPECTS if name.startswith("right")], FILL_WHY)


def is_right(fill: Fill) -> bool:
    return _agrees()(fill)


def _agrees(
    cases: Callable[[], list[tuple]] = batch_cases,
    seen: Callable[[list], Any] = lambda found: found,
) -> Callable[[Fill], bool]:
    """A test that compares what is `seen` of the batches with what it should be, in each case."""

    def test(fill: Fill) -> bool:
        return all(seen(fill([*a], most)) == seen(fill_batches(a, most)) for a, most in cases())

    return test


def _compared_with(name: str) -> Callable[[Fill], bool]:
    """A test that takes a wrong one for right."""
    wrong = SUSPECTS[name]
    return lambda fill: all(fill([*a], most) == wrong([*a], most) for a, most in batch_cases())


def _holds(
    *rules: Callable[[list[list[int]], list[int], int], bool],
    cases: Callable[[], list[tuple]] = batch_cases,
) -> Callable[[Fill], bool]:
    """A test that asks for properties alone."""
    return lambda fill: all(
        rule(fill([*lengths], most), lengths, most) for lengths, most in cases() for rule in rules
    )


def _no_batch_too_large(batches: list[list[int]], lengths: list[int], most: int) -> bool:
    return all(len(b) * max((lengths[i] for i in b), default=0) <= most for b in batches)


def _each_once(batches: list[list[int]], lengths: list[int], most: int) -> bool:
    return sorted(i for batch in batches for i in batch) == list(range(len(lengths)))


def _none_empty(batches: list[list[int]], lengths: list[int], most: int) -> bool:
    return all(batches)


def _few_tokens(batches: list[list[int]], lengths: list[int], most: int) -> bool:
    return all(sum(lengths[i] for i in batch) <= most for batch in batches)


def _closed_late(batches: list[list[int]], lengths: list[int], most: int) -> bool:
    """Whether the first sentence of each batch would not have fitted into the one before."""
    return all(
        max(lengths[i] for i in [*one, two[0]]) * (len(one) + 1) > most
        for one, two in zip(batches, batches[1:], strict=False)
    )


def _not_each_alone(batches: list[list[int]], lengths: list[int], most: int) -> bool:
    return any(len(batch) > 1 for batch in batches)


def _in_order(batches: list[list[int]], lengths: list[int], most: int) -> bool:
    return [i for batch in batches for i in batch] == list(range(len(lengths)))


def _example() -> list[tuple]:
    return batch_cases()[:1]


def _equal_lengths() -> list[tuple]:
    return [([2] * n, 4) for n in range(1, 6)]


def _rising() -> list[tuple]:
    return [(sorted(lengths), most) for lengths, most in batch_cases()]


def _falling() -> list[tuple]:
    return [(sorted(lengths)[::-1], most) for lengths, most in batch_cases()]


def _one_batch() -> list[tuple]:
    return [([3, 5, 4, 2, 6], 40), ([1, 2, 1], 6)]


def _two_batches() -> list[tuple]:
    return [([2, 3, 2, 5], 9), ([3, 2, 6, 2, 7], 12), ([4, 2], 4)]


def _blocks() -> list[tuple]:
    return [([2, 3, 4, 4, 2, 1, 5, 1, 5], 12)]


def _two_sentences() -> list[tuple]:
    return [([a, b], most) for a in range(1, 5) for b in range(1, 5) for most in (4, 6, 8)]


def _falling_blocks() -> list[tuple]:
    return [([5, 3, 8, 6, 5, 2, 1], 11), ([4, 4, 3, 1, 1, 5], 9)]


def _three_sentences() -> list[tuple]:
    return [([*some], most) for some in product(range(1, 6), repeat=3) for most in (5, 8, 12)]


def _few_batches() -> list[tuple]:
    """At most three batches, of up to five sentences."""
    return [
        ([draw.randint(1, 5) for _ in range(n)], 15)
        for draw in [random.Random(5)] for n in range(1, 8) for _ in range(20)
    ]  # fmt: skip


def _long_lists() -> list[tuple]:
    draw = random.Random(3)
    return [([draw.randint(1, 8) for _ in range(20)], 12) for _ in range(20)]


def _alone() -> list[tuple]:
    return [([n], n) for n in range(1, 6)]


def _never_full() -> list[tuple]:
    """Even lengths and an odd limit: no batch comes out exactly full."""
    return [([2 * n for n in lengths], 2 * most + 1) for lengths, most in batch_cases()]


def _like(name: str) -> Lack:
    """That a wrong one is right on all input that is tried."""
    return each(lambda lengths, most: SUSPECTS[name](lengths, most) == fill_batches(lengths, most))


FILL_LACKS: dict[str, Lack] = {
    "the example": each(lambda lengths, most: (lengths, most) == ([3, 5, 4, 6], 10)),
    "one sentence": each(lambda lengths, most: len(lengths) < 2),
    "equal lengths": each(lambda lengths, most: len({*lengths}) == 1),
    "two sentences": each(lambda lengths, most: len(lengths) < 3),
    "rising": each(lambda lengths, most: lengths == sorted(lengths)),
    "falling": each(lambda lengths, most: lengths == sorted(lengths)[::-1]),
    "one batch": each(lambda lengths, most: len(fill_batches(lengths, most)) == 1),
    "never full": _like("full batches refused"),
    "longest at the end": _like("newcomer taken for the longest"),
    "never shorter": _like("longest never reset"),
    "longest at the beginning": _like("newcomer's length left out"),
    "three sentences": each(lambda lengths, most: len(lengths) < 4),
    "few batches": _like("a sentence lost where the fourth batch begins"),
}
FILL_TESTS = mistakes(
    ("everything passes", lambda fill: True,
     "A test must be able to fail. All of the wrong ones return lists of numbers, and raise "
     "nothing: look at the numbers."),
    ("nothing passes", lambda fill: False,
     "The right ones must pass, in whatever style they are written. Are the batches right that you "
     "compare with? If you compare with none: which of your rules is it that a right filling, such "
     "as `[[0, 1], [2], [3]]` for `[3, 5, 4, 6]` and 10, does not keep? The longest of a batch may "
     "stand anywhere in it."),
    ("right and wrong exchanged", lambda fill: not is_right(fill),
     "True means that the function is right."),
    ("only the example of the task", _agrees(_example),
     "In the example no batch has a sentence before its end that is longer than the last, nor are "
     "there many batches. Longer lists of other lengths tell more apart."),
    ("only sentences of one length", _agrees(_equal_lengths),
     "With equal lengths nobody sees what is taken for the longest. Mix long and short ones."),
    ("only lengths that rise", _agrees(_rising),
     "Sorted, the newcomer is always the longest. In the given order it need not be."),
    ("only lengths that fall", _agrees(_falling),
     "Sorted so, the first of a batch is always its longest, and no newcomer is. In the given "
     "order it need not be."),
    ("only lists that fit into one batch", _agrees(_one_batch),
     "Where does the second batch begin, and with what? Take longer lists, or a smaller limit."),
    ("no long sentence in a batch before shorter ones", _agrees(_two_batches),
     "Nobody sees here whether the longest is forgotten with its batch: after a batch with a long "
     "sentence one must come that is large because its sentences are short. Take longer lists."),
    ("no batch whose longest stands before its end", _agrees(_blocks),
     "In these lists the newcomer decides alone whether it fits. Let a long sentence stand in a "
     "batch, and short ones after it."),
    ("no batch that a longer sentence joins, or fails to join", _agrees(_falling_blocks),
     "In these lists the first sentence of a batch decides alone. Let lengths rise inside of a "
     "batch, too."),
    ("only two sentences", _agrees(_two_sentences),
     "They are one batch or two, and what comes with a third sentence, or with a third batch, is "
     "not seen. Take longer lists."),
    ("never more than three sentences in a list", _agrees(_three_sentences),
     "What comes with a fourth sentence in a batch, or with a fourth batch, is not seen. Take "
     "longer lists."),
    ("never more than three batches", _agrees(_few_batches),
     "What comes later is not seen. Take longer lists, or a smaller limit."),
    ("only one sentence", _agrees(_alone),
     "One sentence is one batch for nearly everyone. Where do two begin? (`any` stops at the first "
     "list that comes out right: `all` asks for all of them.)"),
    ("only whether a batch is too large", _holds(_no_batch_too_large),
     "Nothing lost, nothing in another order, and no batch closed too early: that is asked for, "
     "too."),
    ("only whether a batch is too large, or empty", _holds(_no_batch_too_large, _none_empty),
     "Nothing lost, nothing in another order, and no batch closed too early: that is asked for, "
     "too."),
    ("only whether a batch is too large, on a few lists", lambda fill: all(
        _no_batch_too_large(fill([*a], most), a, most)
        for a, most in (([3, 5, 4, 6], 10), ([1, 1, 1], 2), ([5, 2, 2], 8))),
     "Nothing lost, nothing in another order, and no batch closed too early: that is asked for, "
     "too."),
    ("only whether lengths together are too many", _holds(_few_tokens),
     "A batch has as many positions as sentences times its longest length. And nothing lost, "
     "nothing in another order, and no batch closed too early: that is asked for, too."),
    ("only whether a batch is closed too early", _holds(_closed_late),
     "Nothing lost, nothing in another order, and no batch too large: that is asked for, too."),
    ("each sentence once, and no batch closed too early", _holds(_each_once, _closed_late),
     "And no batch may be too large."),
    ("each sentence once, no batch too large, and none empty",
     _holds(_each_once, _no_batch_too_large, _none_empty),
     "All three hold if each sentence is a batch of its own, too. A batch is closed only when the "
     "next sentence does not fit."),
    ("order and size, none empty, but not whether a batch is full",
     _holds(_in_order, _no_batch_too_large, _none_empty),
     "All three hold if each sentence is a batch of its own, too. A batch is closed only when the "
     "next sentence does not fit."),
    ("size and fullness, but not which sentences", _holds(_no_batch_too_large, _closed_late),
     "A sentence may be lost, or stand in another place. Compare the places themselves."),
    ("only whether each sentence comes once", _holds(_each_once),
     "And how large are the batches?"),
    ("each sentence once and no batch too large", _holds(_each_once, _no_batch_too_large),
     "Both hold if each sentence is a batch of its own, too. A batch is closed only when the next "
     "sentence does not fit."),
    ("order and size, but not whether a batch is full", _holds(_in_order, _no_batch_too_large),
     "Both hold if each sentence is a batch of its own, too. A batch is closed only when the next "
     "sentence does not fit."),
    *(
        (f"{more}, and no batch for each sentence, but not whether a batch is full",
         _holds(*asked, _not_each_alone, cases=_long_lists),
         "A batch may be closed too early in other ways, too: only where the next sentence does "
         "not fit may it end. Ask that of each batch and the first sentence behind it.")
        for more, asked in (
            ("order and size", (_in_order, _no_batch_too_large)),
            ("order and size, none empty", (_in_order, _no_batch_too_large, _none_empty)),
            ("each sentence once, no batch too large", (_each_once, _no_batch_too_large)),
            ("each sentence once, no batch too large, none empty",
             (_each_once, _no_batch_too_large, _none_empty)),
        )
    ),
    ("full batches taken for too large", _compared_with("full batches refused"),
     "A batch fits if its size is *at most* the limit: it may be exactly full."),
    *(
        (f"compared with a wrong one of your own: {name}", _compared_with(name),
         f"So the right ones fail, and it passes. {FILL_WHY[name]}")
        for name in ("tokens without padding", "closed when it is too large",
                     "newcomer's length left out", "newcomer taken for the longest",
                     "longest never reset", "longest reset to 0", "equal numbers of sentences",
                     "sorted first", "first batch with room", "misfits lost", "last batch lost",
                     "counted from 1")
    ),
    ("each sentence once, and lengths together not too many", _holds(_each_once, _few_tokens),
     "A batch has as many positions as sentences times its longest length: the padding counts. And "
     "no batch may be closed too early."),
    ("no sentence lost, and not more",
     _holds(lambda batches, lengths, most: len(sum(batches, [])) == len(lengths)),
     "And which sentences stand where, and how large are the batches?"),
    ("each sentence once and in order, and no more", _holds(_in_order),
     "And how large are the batches?"),
    ("only the number of batches", _agrees(seen=len),
     "Two fillings with as many batches can hold other sentences. Compare the batches."),
    ("only the sizes of the batches", _agrees(seen=lambda found: [len(batch) for batch in found]),
     "Batches of the right sizes can hold other sentences. Compare the places themselves."),
    ("the order of the batches not looked at",
     _agrees(seen=lambda found: sorted(map(sorted, found))),
     "The sentences are to be taken in the given order, so the order of the batches is settled."),
    ("no batch that is exactly full", _agrees(_never_full),
     "Have cases in which a sentence fits exactly: there it shows whether the limit itself is "
     "allowed."),
)  # fmt: skip

# 1.8 how much of a random batch is padding


def padding_share(longest: int, batch: int) -> float:
    width = longest - sum((k / longest) ** batch for k in range(1, longest))
    return 1 - (longest + 1) / 2 / width


SHARE_CASES = [(2, 2), (2, 1), (6, 3), (10, 64), (1, 5), (20, 8), (3, 2), (40, 5)]


def _share(
    width: Callable[[int, int], float], mean: Callable[[int], float] = lambda n: (n + 1) / 2
) -> Callable[[int, int], float]:
    """The share with another idea of the expected width, or of the mean length."""
    return lambda longest, batch: 1 - mean(longest) / width(longest, batch)


def _width(longest: int, batch: int) -> float:
    return longest - sum((k / longest) ** batch for k in range(1, longest))


def _mean_of_shares(longest: int, batch: int) -> float:
    """Each batch's padding divided by its own positions, on average."""
    used = 0.0
    for m in range(1, longest + 1):  # the mean length where the longest is m, times its probability
        up_to, below = (m / longest) ** batch, ((m - 1) / longest) ** batch
        used += ((m + 1) / 2 * up_to - m / 2 * below) / m
    return 1 - used


TOO_SMALL = (
    "The longest is at least m with the probability 1 - ((m - 1) / L)^B, for m = 1 to L. Where "
    "these are added up, the first, 1, is missing (with m / L, or from m = 2 on); where (k / L)^B "
    "is taken off L, it is taken off once too often: k goes to L - 1."
)
SHARE_MISTAKES = mistakes(
    ("the longest of all taken for the longest of the batch", _share(lambda n, b: n),
     "A batch is as wide as its *own* longest sentence, which need not have length L. Only for "
     "very large batches it nearly always has. (`k // L` is 0 for every k below L: `k / L`.)"),
    ("lengths taken for real numbers from 1", _share(lambda n, b: (n * b + 1) / (b + 1)),
     "Lengths are whole: sum the probabilities that the longest is at least m, for m = 1 to L."),
    ("lengths taken for real numbers from 0", lambda n, b: 1 - (b + 1) / (2 * b),
     "B L / (B + 1) is the mean of the largest of B real numbers between 0 and L, and "
     "B (L + 1) / (B + 1) that of B whole numbers that all differ. Lengths are whole numbers from "
     "1, and may be alike."),
    ("the mean of the longest too small by 1, and 1 where it is 0",
     _share(lambda n, b: _width(n, b) - 1 or 1), TOO_SMALL),
    ("the chance of at most m taken for that of m",
     _share(lambda n, b: sum(m * (m / n) ** b for m in range(1, n + 1))),
     "(m / L)^B is the probability that the longest is *at most* m. That it is m is the difference "
     "of two of these: take off ((m - 1) / L)^B."),
    ("the chance of one length for all that are below",
     _share(lambda n, b: n - sum((1 / n) ** b for k in range(1, n))),
     "One length is at most k with the probability k / L, not 1 / L."),
    ("one sentence less", _share(lambda n, b: _width(n, b - 1) if b > 1 else n),
     "The longest is below m if all B lengths are: the exponent is B."),
    ("no padding at all", lambda n, b: 0.0,
     "So it comes out if the exponent B is forgotten. The longest of B lengths is below m with "
     "the probability ((m - 1) / L)^B."),
    ("the mean length is L / 2", _share(_width, lambda n: n / 2),
     "Of the lengths 1 to L the mean is (L + 1) / 2."),
    ("padding for each token, not for each position",
     lambda n, b: (_width(n, b) - (n + 1) / 2) / ((n + 1) / 2),
     "The share of padding is that of all positions, tokens and padding together."),
    ("the share of the tokens", lambda n, b: 1 - padding_share(n, b),
     "That is what is used. Asked for is what is wasted."),
    ("the padding of one row, in positions", lambda n, b: _width(n, b) - (n + 1) / 2,
     "Divide by the width: a share is asked for."),
    ("the expected width", lambda n, b: _width(n, b),
     "That is how wide the batch is on average. Which share of it is padding?"),
    ("the padding of the whole batch, in positions",
     lambda n, b: b * (_width(n, b) - (n + 1) / 2),
     "Divide by all positions of the batch, B times its width."),
    ("the smallest in place of the largest",
     _share(lambda n, b: sum(((n - m + 1) / n) ** b for m in range(1, n + 1))),
     "That is the mean of the *shortest*. The longest is at least m unless all are below it."),
    ("in percent", lambda n, b: 100 * padding_share(n, b),
     "A share lies between 0 and 1."),
    ("the sign turned", lambda n, b: -padding_share(n, b),
     "A share lies between 0 and 1."),
    ("the two arguments exchanged", lambda n, b: padding_share(b, n),
     "`longest` is L, `batch` is B. The fraction in the sum is k / L, and its exponent B."),
    ("the mean length rounded down", _share(_width, lambda n: (n + 1) // 2),
     "The mean length is (L + 1) / 2, which need not be whole: divide with `/`."),
    ("B counted twice", _share(lambda n, b: b * _width(n, b)),
     "B stands in the positions and in the tokens, and cancels. It stays in the exponent alone."),
    ("the mean of the longest too small by 1", _share(lambda n, b: _width(n, b) - 1), TOO_SMALL),
    ("B less one as the exponent",
     lambda n, b: 1 - (n + 1) / 2 / (n - sum((k / n) ** (b - 1) for k in range(1, n))),
     "The longest is below m if all B lengths are: the exponent is B."),
    ("the mean length is (L - 1) / 2", _share(_width, lambda n: (n - 1) / 2),
     "Of the lengths 1 to L the mean is (L + 1) / 2."),
    ("the lengths 0 to L - 1",
     lambda n, b: 1 - (n - 1) / 2 / (_width(n, b) - 1) if n > 1 else 0.0,
     "Lengths are counted from 1: they are 1 to L, `torch.randint(1, L + 1, ...)`, and 0 to L - 1 "
     "are all of them one less."),
    ("the lengths 0 to L", lambda n, b: 1 - n / 2 / (_width(n + 1, b) - 1),
     "Lengths are counted from 1: an empty sentence is none of the L."),
    ("the lengths 1 to L + 1", lambda n, b: padding_share(n + 1, b),
     "The lengths are 1 to L, L of them."),
    ("the lengths 1 to L - 1", lambda n, b: padding_share(max(n - 1, 1), b),
     "The lengths are 1 to L: `range(1, L)` ends at L - 1."),
    ("one sentence more in the exponent", _share(lambda n, b: _width(n, b + 1)),
     "The longest is below m if all B lengths are: the exponent is B."),
    ("the sum ends one term too early",
     _share(lambda n, b: n - sum((k / n) ** b for k in range(1, n - 1))),
     "What is taken off L are the terms k = 1 to L - 1."),
    ("L + 1 below the line",
     _share(lambda n, b: n - sum((k / (n + 1)) ** b for k in range(1, n))),
     "A length is at most k with the probability k / L."),
    ("the root in place of the power",
     _share(lambda n, b: n - sum((k / n) ** (1 / b) for k in range(1, n))),
     "All B lengths are below m with the B-th *power* of (m - 1) / L."),
    ("times B in place of the power",
     _share(lambda n, b: n - sum(min(b * k / n, 1) for k in range(1, n))),
     "All B lengths are below m with the B-th power of (m - 1) / L: independent chances are "
     "multiplied."),
    ("one less 1 / B", lambda n, b: 1 - 1 / b,
     "That takes one sentence of each batch for full and the others for empty."),
    ("the share of a batch of one word and one of L", lambda n, b: (n - 1) / (n + 1),
     "Find the mean of the longest of B lengths, and compare it with the mean length."),
    ("lengths taken for real numbers, and half a token added",
     _share(lambda n, b: n * b / (b + 1) + 0.5),
     "That is a good approximation for long sentences. Lengths are whole numbers: sum the "
     "probabilities that the longest is at least m."),
    ("the example's answer", lambda n, b: 1 / 7,
     "That is the share for L = 2 and B = 2. For others it is another."),
    ("rounded to two digits", lambda n, b: round(padding_share(n, b), 2),
     "The way is right. Return the number as it comes out."),
    ("rounded to three digits", lambda n, b: round(padding_share(n, b), 3),
     "The way is right. Return the number as it comes out."),
    ("every batch's own share, with the mean length of all",
     lambda n, b: sum(
         ((m / n) ** b - ((m - 1) / n) ** b) * (1 - (n + 1) / 2 / m) for m in range(1, n + 1)
     ),
     "A batch whose longest is short holds short sentences. And asked for is one quotient, of the "
     "expected numbers: a wide batch counts for more than a narrow one."),
    ("one half", lambda n, b: 0.5,
     "That is where it goes for long sentences and large batches. For small ones it is less."),
    ("lengths taken for real numbers, for the longest alone",
     _share(lambda n, b: n * b / (b + 1)),
     "B L / (B + 1) is the mean of the largest of B real numbers between 0 and L. Lengths are "
     "whole numbers from 1: sum the probabilities that the longest is at least m."),
    ("the mean of every batch's own share", _mean_of_shares,
     "Asked for is the expected number of padded positions, divided by the expected number of all: "
     "a wide batch counts for more than a narrow one."),
    ("the width taken for L, and (B - 1) / B of the padding",
     lambda n, b: (n - 1) / 2 / n * (b - 1) / b,
     "A batch is as wide as its own longest sentence, which need not have length L, and more "
     "than one sentence may have no padding."),
    ("B times the share", lambda n, b: b * padding_share(n, b),
     "B stands in the padding and in the positions, and cancels."),
    ("the last term of the sum left out", lambda n, b: 1 - (n + 1) / 2 / sum(
        1 - ((m - 1) / n) ** b for m in range(1, n)),
     "The sum runs over m = 1 to L, and `range(1, L)` ends at L - 1."),
    ("(B - 1) / B of the share", lambda n, b: padding_share(n, b) * (b - 1) / b,
     "That the longest has no padding is in the mean length already."),
    ("the exponent B - 1", lambda n, b: 1 - (n + 1) / 2 / sum(
        1 - ((m - 1) / n) ** (b - 1) for m in range(1, n + 1)),
     "The longest is below m if all B lengths are: the exponent is B."),
    ("the sum added, not taken off", _share(lambda n, b: 2 * n - _width(n, b)),
     "The longest is at least m unless all B lengths are below m: what is below is taken off."),
    ("the mean length not halved", _share(_width, lambda n: n + 1),
     "Of the lengths 1 to L the mean is (L + 1) / 2."),
    ("the mean length is L / 2 + 1", _share(_width, lambda n: n / 2 + 1),
     "Of the lengths 1 to L the mean is (L + 1) / 2."),
    ("the mean length taken for twice L + 1", _share(_width, lambda n: 2 * (n + 1)),
     "Of the lengths 1 to L the mean is (L + 1) / 2: divide."),
    ("the mean length upside down", _share(_width, lambda n: 2 / (n + 1)),
     "Of the lengths 1 to L the mean is (L + 1) / 2."),
    ("the mean length taken for 1 / 2", _share(_width, lambda n: 1 / 2),
     "Of the lengths 1 to L the mean is (L + 1) / 2."),
    ("a sum and a mean confused", _share(_width, lambda n: n * (n + 1) / 2),
     "The mean length is (L + 1) / 2, the sum of all lengths divided by L. The expected width is a "
     "sum, which nothing divides: each width times its probability."),
    ("multiplied by the width", lambda n, b: 1 - (n + 1) / 2 * _width(n, b),
     "The share of the tokens is the mean length *divided* by the expected width."),
    ("the padding of one row multiplied by the width",
     lambda n, b: (_width(n, b) - (n + 1) / 2) * _width(n, b),
     "A share is the padding *divided* by all positions."),
    ("not divided by the width", lambda n, b: 1 - (n + 1) / 2,
     "The share of the tokens is the mean length divided by the expected width."),
    ("all taken for padding", lambda n, b: 1.0,
     "The mean length, divided by the expected width, is the share of the tokens."),
    ("base and exponent exchanged",
     _share(lambda n, b: n - sum(b ** (k / n) for k in range(1, n))),
     "All B lengths are below m with the B-th power of (m - 1) / L."),
    ("the chance not divided by L", _share(lambda n, b: n - sum(k**b for k in range(1, n))),
     "A length is at most k with the probability k / L."),
    ("the chance multiplied by B", _share(lambda n, b: n - sum(k * b / n for k in range(1, n))),
     "All B lengths are below m with the B-th power of (m - 1) / L: independent chances are "
     "multiplied."),
    ("the power of k alone, not of k / L",
     _share(lambda n, b: n - sum(k**b / n for k in range(1, n))),
     "A length is at most k with the probability k / L, and all B lengths with the B-th power of "
     "that."),
    ("the power of L alone, not of k / L",
     _share(lambda n, b: n - sum(k / n**b for k in range(1, n))),
     "A length is at most k with the probability k / L, and all B lengths with the B-th power of "
     "that."),
    ("the first term of those taken off left out",
     _share(lambda n, b: n - sum((k / n) ** b for k in range(2, n))),
     "What is taken off L are the terms k = 1 to L - 1."),
    ("a term for the length 0", _share(lambda n, b: _width(n, b) + 1 - (-1 / n) ** b),
     "Lengths are at least 1: the sum runs over m = 1 to L."),
    ("(m - 2) / L in place of (m - 1) / L",
     _share(lambda n, b: sum(1 - ((m - 2) / n) ** b for m in range(1, n + 1))),
     "A length is below m with the probability (m - 1) / L."),
    ("(m + 1) / L in place of (m - 1) / L",
     _share(lambda n, b: sum(1 - ((m + 1) / n) ** b for m in range(1, n + 1))),
     "A length is below m with the probability (m - 1) / L."),
    ("multiplied by L in place of divided",
     _share(lambda n, b: sum(m * ((m * n) ** b - ((m - 1) * n) ** b) for m in range(1, n + 1))),
     "A length is at most k with the probability k / L."),
)  # fmt: skip

# 1.9 a split that does not leak

Split = Callable[[list[tuple[str, str]], int], tuple[list, list]]
WORDS = "one two three four five six seven eight nine ten eleven twelve".split()


def split_pairs(pairs: list[tuple[str, str]], n_test: int) -> tuple[list, list]:
    group = list(range(len(pairs)))  # which sentences belong together
    for side in (0, 1):
        first: dict[str, int] = {}
        for i, pair in enumerate(pairs):
            j = first.setdefault(normalise(pair[side]), i)
            if group[i] != group[j]:
                old, new = group[i], group[j]
                group = [new if g == old else g for g in group]
    return _dealt(pairs, group, n_test)


def _dealt(pairs: list, group: list, n_test: int) -> tuple[list, list]:
    """Whole groups go to the test until it has n_test pairs."""
    chosen: set = set()
    for g in group:
        if sum(one in chosen for one in group) < n_test:
            chosen.add(g)
    parts: tuple[list, list] = ([], [])
    for g, pair in zip(group, pairs, strict=True):
        parts[g in chosen].append(pair)
    return parts


def split_cases() -> list[tuple]:
    draw = random.Random(19)

    def mixed(pairs: list, n_test: int) -> tuple[list, int]:
        draw.shuffle(pairs)
        return pairs, n_test

    several = [(f"Take {a}.", f"Prends {a} {b}.") for a in WORDS for b in WORDS[:3]]
    back = [(f"Give {a} {b}.", f"Donne {a}.") for a in WORDS for b in WORDS[:3]]
    marks = [
        (f"{('Go', 'go', 'go,')[i]} {a}{'.!?'[i]}", f"Va {a} {i}.") for a in WORDS for i in range(3)
    ]
    written = [
        (f"Look {a} {i}.", f"{('Vois ', 'vois ', 'vois-')[i]}{a}{'.!?'[i]}")
        for a in WORDS
        for i in range(3)
    ]
    chains = [
        (f"Look, {a} {i}.", f"Vois, {a} {i + j}.")
        for a in WORDS[:6]
        for i in range(10)
        for j in (0, 1)
    ]
    twice = [(f"See {a}.", f"Vois {a}.") for a in WORDS] * 2
    names = [(f"{a} {i}", f"{a} {i + 1}") for a in WORDS[:3] for i in range(10)]
    example = [("Hi.", "Salut."), ("hi!", "Bonjour."), ("Bye.", "Bonjour."), ("No.", "Non.")]
    side_by_side = several[:12]
    return [
        mixed(several, 6),
        mixed(back, 6),
        mixed(marks, 6),
        mixed(chains, 20),
        mixed(twice, 4),
        mixed(names, 4),  # what is English here is French there, and not the same sentence
        (example, 3),
        mixed(written, 6),
        (side_by_side, 4),
    ]


def _what_is_wrong(answer: Split, pairs: list[tuple[str, str]], n_test: int) -> dict[str, object]:
    """What must hold for every split, whichever sentences it chooses."""
    given = sorted(pairs)
    both = answer(pairs, n_test)
    both = both if isinstance(both, list | tuple) else [*both]
    if len(both) != 2:
        raise ValueError(f"expected two lists, the training part and the test, got {kind(both)}")
    rows = [part for part in both if isinstance(part, list | tuple)]
    if any(isinstance(one, int) for part in rows for one in part):
        raise ValueError("expected two lists of pairs of sentences, got numbers, as places are")
    train, test = (list(map(tuple, part)) for part in both)
    if any(len(pair) != 2 for pair in train + test):
        raise ValueError("expected two lists of pairs, of two sentences each")
    sides = [
        [{normalise(pair[side]) for pair in part} for part in (train, test)] for side in (0, 1)
    ]
    size = "too few" if len(test) < n_test else "too many" if len(test) > 2 * n_test else "right"
    whole = sorted(train + test)
    found = Parted({
        "sentences in both parts": "some" if any(a & b for a, b in sides) else "none",
        "pairs": "all" if whole == given else "lost" if len(whole) < len(given) else "others",
        "pairs in test": size,
    })  # fmt: skip
    if found["pairs"] == "lost":
        there = Counter(map(tuple, whole))
        lost = [pair for pair, n in Counter(map(tuple, given)).items() if there[pair] < n]
        for part, out, other in (("the training part", test, train), ("the test", train, test)):
            if all(p not in other and any(_share_a_sentence(p, one) for one in out) for p in lost):
                found.dropped = part
    if found["pairs"] == "all":
        found.exact = len(test) == n_test
        found.apart = [
            group for group in _groups(pairs) if {*group} & {*train} and {*group} & {*test}
        ]
        leaked = [sorted(a & b) for a, b in sides]
        found.leaked = next(
            (f"The {which} sentence `{some[0]}`" for which, some in zip(
                ("English", "French"), leaked, strict=True) if some), "")  # fmt: skip
    return found


class Parted(dict):
    """What holds of a split, and whether the test has exactly n_test pairs, which groups stand in
    both parts, and a sentence that does; and the part out of which all pairs that are lost were
    dropped, since they share a sentence with the other."""

    exact, leaked, dropped = False, "", ""
    apart: list[list[tuple[str, str]]] = []


def _groups(pairs: list[tuple[str, str]]) -> list[list[tuple[str, str]]]:
    """The pairs that must stay together."""
    found: list[list[tuple[str, str]]] = []
    for pair in pairs:
        mine = [g for g in found if any(_share_a_sentence(pair, one) for one in g)]
        found = [g for g in found if g not in mine] + [[*sum(mine, []), pair]]
    return found


def _share_a_sentence(one: tuple[str, str], two: tuple[str, str]) -> bool:
    return any(normalise(a) == normalise(b) for a, b in zip(one, two, strict=True))


def _what_leaks(cases: Any, got: Any, want: Any) -> tuple[str, str] | None:
    """Which sentence stands in both parts, and how that has come about; or out of which part pairs
    were dropped, so that none does."""
    dropped = {one.dropped for one in got if isinstance(one, Parted) and one["pairs"] == "lost"}
    kept = all(isinstance(one, Parted) and one["pairs"] in ("all", "lost") for one in got)
    if kept and len(dropped) == 1 and (part := dropped.pop()):
        return f"what leaks dropped from {part}", (
            "Nothing leaks so, but pairs are lost. `load_pairs` may drop some; here each has to be "
            "in one of the two parts. What shares an English sentence with a pair, or a French "
            "one, goes where that pair goes."
        )
    leaks = [one for one in got if isinstance(one, Parted) and one.apart]
    if not leaks or not all(isinstance(one, Parted) and one["pairs"] == "all" for one in got):
        return None
    where = f"{leaks[0].leaked} is in the training part and in the test."
    if all(one.exact and len(one.apart) == 1 for one in leaks):
        return "a group cut in two at n_test pairs", (
            f"{where} The test may have up to 2 n_test pairs, so that its last group stays whole."
        )
    apart = [group for one in leaks for group in one.apart]
    if not any(all(_share_a_sentence(group[0], one) for one in group[1:]) for group in apart):
        return "partners of partners left behind", (
            f"{where} A sentence shares its translation with a second, and that has another, which "
            "it shares with a third. Follow the chain until nothing new comes."
        )
    return "a sentence in both parts", f"{where} All pairs that it is in belong to one part."


def _by(key: Callable[[tuple[str, str]], object]) -> Split:
    """Pairs with the same key stay together, and no others."""

    def split(pairs: list[tuple[str, str]], n_test: int) -> tuple[list, list]:
        return _dealt(pairs, [key(pair) for pair in pairs], n_test)

    return split


def _as_written(pairs: list[tuple[str, str]], n_test: int) -> tuple[list, list]:
    group = list(range(len(pairs)))
    for side in (0, 1):
        first: dict[str, int] = {}
        for i, pair in enumerate(pairs):
            j = first.setdefault(pair[side], i)
            group = [group[j] if g == group[i] else g for g in group]
    return _dealt(pairs, group, n_test)


def _half_normalised(which: int) -> Split:
    """One side compared after `normalise`, the other as it is written."""

    def split(pairs: list[tuple[str, str]], n_test: int) -> tuple[list, list]:
        half = [tuple(normalise(s) if i == which else s for i, s in enumerate(p)) for p in pairs]
        group = list(range(len(pairs)))
        for side in (0, 1):
            first: dict[str, int] = {}
            for i, pair in enumerate(half):
                j = first.setdefault(pair[side], i)
                group = [group[j] if g == group[i] else g for g in group]
        return _dealt(pairs, group, n_test)

    return split


def _leaking(pairs: list[tuple[str, str]], test: list) -> list:
    """Pairs outside of the test that share a sentence with it."""
    seen = [{normalise(pair[side]) for pair in test} for side in (0, 1)]
    return [
        p
        for p in pairs
        if p not in test and any(normalise(p[side]) in seen[side] for side in (0, 1))
    ]


def _one_by_one(pairs: list, n_test: int) -> tuple[list, list]:
    return pairs[n_test:], pairs[:n_test]


def _dropped_from_train(pairs: list, n_test: int) -> tuple[list, list]:
    test = pairs[:n_test]
    out = _leaking(pairs, test)
    return [p for p in pairs[n_test:] if p not in out and p not in test], test


def _dropped_from_test(pairs: list, n_test: int) -> tuple[list, list]:
    train = pairs[n_test:]
    return train, [p for p in pairs[:n_test] if p not in _leaking(pairs, train) and p not in train]


def _moved_once(pairs: list, n_test: int) -> tuple[list, list]:
    """What shares a sentence with the test goes there, too, once, and not what shares with that."""
    test = pairs[:1]
    while len(test) < n_test:
        out = _leaking(pairs, test[-1:])
        left = [p for p in pairs if p not in test and p not in out]
        test = test + [p for p in out if p not in test] + left[:1]
    return [p for p in pairs if p not in test], test


def _first_and_theirs(pairs: list, n_test: int) -> tuple[list, list]:
    test = pairs[:n_test] + _leaking(pairs, pairs[:n_test])
    return [p for p in pairs if p not in test], test


def _partners_of_each(pairs: list, n_test: int) -> tuple[list, list]:
    """From the first pair on, what shares a sentence with each, until there are n_test."""
    test: set[int] = set()
    for pair in pairs:
        if len(test) < n_test:
            test |= {j for j, other in enumerate(pairs) if _share_a_sentence(pair, other)}
    return (
        [pair for i, pair in enumerate(pairs) if i not in test],
        [pairs[i] for i in sorted(test)],
    )


def _one_pass(pairs: list, n_test: int) -> tuple[list, list]:
    test, rest = pairs[:n_test], pairs[n_test:]
    seen = [{normalise(pair[side]) for pair in test} for side in (0, 1)]
    out = [any(normalise(pair[side]) in seen[side] for side in (0, 1)) for pair in rest]
    return (
        [pair for pair, there in zip(rest, out, strict=True) if not there],
        test + [pair for pair, there in zip(rest, out, strict=True) if there],
    )


def _never_over(pairs: list, n_test: int) -> tuple[list, list]:
    """The right groups, of which one is taken only if the test does not grow beyond n_test."""
    group = list(range(len(pairs)))
    for side in (0, 1):
        first: dict[str, int] = {}
        for i, pair in enumerate(pairs):
            j = first.setdefault(normalise(pair[side]), i)
            group = [group[j] if g == group[i] else g for g in group]
    chosen: list[int] = []
    for one in dict.fromkeys(group):
        members = [i for i, g in enumerate(group) if g == one]
        chosen += members if len(chosen) + len(members) <= n_test else []
    return (
        [pair for i, pair in enumerate(pairs) if i not in chosen],
        [pairs[i] for i in chosen],
    )


def _one_too_few(pairs: list, n_test: int) -> tuple[list, list]:
    return split_pairs(pairs, n_test - 1)


def _once_more(pairs: list, n_test: int) -> tuple[list, list]:
    """From the first pair on, the group of each, until the test has n_test pairs, some twice."""
    test: list = []
    for i, _ in enumerate(pairs):
        if len(test) < n_test:
            test += split_pairs(pairs[i:] + pairs[:i], 1)[1]
    return [pair for pair in pairs if pair not in test], test


def _groups_counted(pairs: list, n_test: int) -> tuple[list, list]:
    group = list(range(len(pairs)))
    for side in (0, 1):
        first: dict[str, int] = {}
        for i, pair in enumerate(pairs):
            j = first.setdefault(normalise(pair[side]), i)
            group = [group[j] if g == group[i] else g for g in group]
    chosen = list(dict.fromkeys(group))[:n_test]
    return (
        [pair for g, pair in zip(group, pairs, strict=True) if g not in chosen],
        [pair for g, pair in zip(group, pairs, strict=True) if g in chosen],
    )


def _as_one_language(pairs: list, n_test: int) -> tuple[list, list]:
    """The right groups, joined where a sentence of one language is one of the other, too."""
    group, first = list(range(len(pairs))), {}
    for i, sentence in ((i, normalise(one)) for i, pair in enumerate(pairs) for one in pair):
        j = first.setdefault(sentence, i)
        group = [group[j] if g == group[i] else g for g in group]
    return _dealt(pairs, group, n_test)


def _twice(name: str, split: Split, why: str) -> list[tuple[str, Split, str]]:
    """A mistake with the pairs as they come and from the last to the first: the example is small,
    and such a split of it may be right by chance."""

    def backwards(pairs: list, n_test: int) -> tuple[list, list]:
        return split(pairs[::-1], n_test)

    return [(name, split, why), (f"{name}, in whatever order", backwards, why)]


SPLIT_MISTAKES = mistakes(
    *_twice(
        "pairs dealt out one by one", _one_by_one,
        "The pairs differ, but a sentence with several translations stands in several pairs. All "
        "of them must go to the same part.",
    ),
    (
        "only the English side kept together", _by(lambda pair: normalise(pair[0])),
        "Two English sentences can have one French translation. Then the answer of the test was "
        "seen in training: look at both sides.",
    ),
    *_twice(
        "only the French side kept together", _by(lambda pair: normalise(pair[1])),
        "A French sentence stands in one part, but an English sentence has several of them: look "
        "at both sides.",
    ),
    *_twice(
        "sentences not compared after `normalise`", _as_written,
        "`Go one.`, `go one!` and `go, one?` are the same sentence for a reader: capitals "
        "and punctuation do not count.",
    ),
    ("what leaks taken out of the training part", _dropped_from_train,
     "Nothing leaks, but pairs are lost. Whole groups can go to one part or to the other."),
    ("what leaks taken out of the test", _dropped_from_test,
     "Nothing leaks, but pairs are lost, and the test becomes too small. Whole groups can go to "
     "one part or to the other."),
    ("the test before the training part", lambda pairs, n: split_pairs(pairs, n)[::-1],
     "Return the training part first, then the test."),
    ("pairs that come twice kept once",
     lambda pairs, n: split_pairs(list(dict.fromkeys(pairs)), n),
     "No pair may be lost, also where it stands twice."),
    ("too few pairs in the test, or none", lambda pairs, n: (pairs, []),
     "The test should have at least n_test pairs: add whole groups until it has."),
    ("too many pairs in the test, or all of them", lambda pairs, n: ([], pairs),
     "The test should have at most 2 n_test pairs: add whole groups, and stop once it has n_test."),
    ("the test kept in the training part, too", lambda pairs, n: (pairs, split_pairs(pairs, n)[1]),
     "What is tested on must be taken out of the training part."),
    ("the normalised pairs handed back",
     lambda pairs, n: split_pairs([tuple(map(normalise, pair)) for pair in pairs], n),
     "`normalise` is for comparing. The pairs themselves go to the parts as they were given."),
    ("one step from the test, and no further", _moved_once,
     "A sentence shares its translation with a second, and that has another, which it shares with "
     "a third. Go on until nothing more is connected."),
    ("groups only as long as they fit into n_test", _never_over,
     "A group that goes beyond n_test may be taken as well: a test of up to 2 n_test pairs is "
     "allowed, one of fewer than n_test is not."),
    ("what shares a sentence with each chosen pair, no further", _partners_of_each,
     "What came into the test so has other partners, which are still in the training part. Follow "
     "the chain until nothing new comes."),
    ("one pass over the pairs behind the first, and no further", _one_pass,
     "What came into the test so has other partners, which are still in the training part. Go on "
     "until nothing more is connected."),
    ("the first pairs, and what shares a sentence with these, no further", _first_and_theirs,
     "What came into the test so has other partners, which are still in the training part. Go on "
     "until nothing more is connected."),
    ("only pairs kept together that are the same on both sides",
     _by(lambda pair: (normalise(pair[0]), normalise(pair[1]))),
     "Pairs that share one sentence, English or French, must stay together, and not only those "
     "that share both."),
    (
        "English and French sentences in one list", _as_one_language,
        "The same letters can be a sentence of both languages. Only English ones are compared with "
        "English ones, and French with French: else groups grow that need not stay together.",
    ),
    ("too many pairs in the test where groups are large", _groups_counted,
     "The test should have n_test *pairs*, and at most twice as many. Were groups counted?"),
    ("French sentences not compared after `normalise`", _half_normalised(0),
     "`Vois one.`, `vois one!` and `vois-one?` are the same sentence for a reader. Compare both "
     "sides after `normalise`."),
    *_twice(
        "English sentences not compared after `normalise`", _half_normalised(1),
        "`Go one.`, `go one!` and `go, one?` are the same sentence for a reader. Compare both "
        "sides after `normalise`.",
    ),
    ("a group chosen once more", _once_more,
     "What is in the test already must be passed over, else its pairs are there twice, and take "
     "the place of others."),
    ("too few pairs in the test, in some cases", _one_too_few,
     "The test has at least n_test pairs: groups are added as long as it has fewer."),
)  # fmt: skip

SPLIT_RULES = Family(_what_leaks, [
    Invariant("no sentence in both parts",
              lambda found, pairs, n_test: found["sentences in both parts"] == "none",
              "Some sentence, English or French, was seen in training and is asked for in the "
              "test."),
    Invariant("every pair in one part, as often as it was given",
              lambda found, pairs, n_test: found["pairs"] == "all",
              "Together the two parts must hold the given pairs, each as it was."),
    Invariant("a test of n_test to 2 n_test pairs",
              lambda found, pairs, n_test: found["pairs in test"] == "right",
              "Count pairs, not sentences: add whole groups until the test has n_test pairs."),
])  # fmt: skip


EXERCISES = [
    Exercise(
        number="1.1",
        title="three merges by hand",
        section="Byte pairs by hand",
        reference=["ea", "sea", "▁sea"],
        mistakes=HAND_MISTAKES,
        invariants=HAND_RULES,
        canonical=_merge_names,
    ),
    Exercise(
        number="1.2",
        title="predict, then try: three comparisons",
        section="The task, as a probability",
        reference=PREDICTED,
        mistakes=wrong_predictions(PREDICTED, WRONG_PICTURES),
        canonical=signs,
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
        title="design: where the two ways part",
        section="Byte pairs by hand",
        reference=(PARTING, FEWER, MORE),
        mistakes=PARTING_MISTAKES,
        canonical=_what_they_need,
    ),
    Exercise(
        number="1.5",
        title="design: three opinions on who is near",
        section="From numbers to vectors",
        reference=OPINIONS,
        mistakes=OPINION_MISTAKES,
        invariants=OPINION_RULES,
        canonical=_nearest_rows,
    ),
    Exercise(
        number="1.6",
        title="find the mistakes in a batch",
        section="Batches and their padding",
        reference=make_batch,
        cases=BATCH_PAIRS,
        mistakes=BATCH_MISTAKES,
        canonical=_three,
    ),
    Exercise(
        number="1.7",
        title="a test that tells",
        section="Batches and their padding",
        reference=is_right,
        cases=[()],
        mistakes=FILL_TESTS,
        invariants=FILL_RULES,
        probe=verdicts_on(SUSPECTS, FILL_LACKS),
    ),
    Exercise(
        number="1.8",
        title="derive: how much of a random batch is padding",
        section="Batches and their padding",
        reference=padding_share,
        cases=SHARE_CASES,
        mistakes=SHARE_MISTAKES,
        invariants=Family(
            nearly(
                "Was it drawn at random, or does a length count as a real number? Asked for is the "
                "quotient itself, with a sum over the whole lengths."
            )
        ),
        canonical=float,
    ),
    Exercise(
        number="1.9",
        title="design: a split that does not leak",
        section="What a test must not have seen",
        reference=split_pairs,
        cases=split_cases,
        mistakes=SPLIT_MISTAKES,
        probe=_what_is_wrong,
        invariants=SPLIT_RULES,
    ),
]
