"""The exercises of chapter 18, parsing: references, cases, mistakes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import partial
from itertools import accumulate, combinations, count, product
from typing import Any

import numpy as np
from torch import Tensor

from .core import Case, Exercise, Family, Invariant, Mistake, mistakes
from .pairs import combined
from .predictions import words
from .suspects import moved, plain_word, rules, said_of, spoken

Span = tuple[str, int, int]


# 18.1 a score by hand: true are S 0-5, NP 0-1, VP 1-5, ADVP 2-3, NP 3-5 and NP 3-4,
# and all but the last are given

BY_HAND_MISTAKES = mistakes(
    ("the full stop counted as a word", 6 / 11,
     "The full stop is deleted before spans are counted. With it, VP and the longer NP end in "
     "different places in the two trees; without it, they agree."),
    ("ADVP and PRT taken for different labels", 8 / 11,
     "By EVALB's settings the two count as the same label."),
    ("the full stop counted, and ADVP and PRT taken for different labels", 4 / 11,
     "Two of the rules are left out: punctuation is deleted first, and ADVP and PRT are the same "
     "label."),
    ("the precision", 1.0,
     "All that the parser gives is true, but F1 also asks how much of what is true was given."),
    ("the recall, or the common brackets as a share of all", 5 / 6,
     "Five of six true brackets are found. F1 is 2 both / (true + given)."),
    ("the full stop counted as a word, and the recall", 1 / 2,
     "The full stop is deleted before spans are counted; and F1 is 2 both / (true + given)."),
    ("the full stop counted as a word, and the precision", 3 / 5,
     "The full stop is deleted before spans are counted; and F1 is 2 both / (true + given)."),
    ("ADVP and PRT taken for different labels, and the recall", 4 / 6,
     "ADVP and PRT count as one label; and F1 is 2 both / (true + given)."),
    ("ADVP and PRT taken for different labels, and the precision", 4 / 5,
     "ADVP and PRT count as one label; and F1 is 2 both / (true + given)."),
    ("the plain mean of precision and recall", 11 / 12,
     "F1 is the harmonic mean: 2 both / (true + given)."),
    ("tags counted as brackets", 20 / 21,
     "The five words have tags, and both trees have them at the same places. Tags do not count."),
    ("tags counted as brackets, that of the full stop too", 22 / 23,
     "Tags do not count, and punctuation is deleted altogether."),
    ("tags counted as brackets, and the full stop as a word", 18 / 23,
     "Tags do not count, and the full stop is deleted before spans are counted."),
    ("the outermost S left out", 8 / 9,
     "Only a bracket called TOP is left out. S is a label like the others."),
    ("the geometric mean of precision and recall", (5 / 6) ** 0.5,
     "F1 is the harmonic mean: 2 both / (true + given)."),
    ("rounded to one place", 0.9, "Give the fraction, or two places of it."),
    ("in percent", 1000 / 11, "The task asks for a number between 0 and 1."),
    ("the factor 2 forgotten", 5 / 11,
     "A bracket that both have counts in both sums: 2 both / (true + given)."),
    ("the full stop counted as a word, in percent", 600 / 11,
     "The full stop is deleted before spans are counted; and the number is between 0 and 1."),
    ("ADVP and PRT taken for different labels, in percent", 800 / 11,
     "By EVALB's settings the two count as the same label; and the number is between 0 and 1."),
    ("the recall, in percent", 500 / 6,
     "F1 is 2 both / (true + given), a number between 0 and 1."),
    ("the precision, in percent", 100.0,
     "F1 is 2 both / (true + given), a number between 0 and 1."),
    ("the outermost S left out, and the full stop counted as a word", 4 / 9,
     "Only a bracket called TOP is left out; and the full stop is deleted first."),
    ("whether the trees are the same", 0.0, "They are not, but F1 gives credit for each bracket."),
)  # fmt: skip


def other_counts() -> Iterable[Mistake]:
    """F1 with other numbers of brackets, where no row above has that value."""
    taken = [10 / 11, *(mistake.wrong for mistake in BY_HAND_MISTAKES)]
    for total, both in product(range(7, 16), range(1, 8)):
        value = 2 * both / total
        if value <= 1.5 and all(abs(value - other) > 2e-3 for other in taken):
            taken.append(value)
            yield Mistake(
                f"another count of brackets, {Fraction(2 * both, total)}", value,
                "The true tree has six brackets and the given one five. Write each with its label, "
                "its start and its end, without the full stop, and look which are in both.",
            )  # fmt: skip


# 18.2 from spans back to a tree


def spans(symbols: list[str]) -> list[Span]:
    """The brackets of a tree with their spans, the outer one first."""
    found, opened, words = [], [], 0
    for symbol in symbols:
        if symbol == "XX":
            words += 1
        elif symbol[0] == "(":
            opened.append(len(found))
            found.append((symbol[1:], words, words))
        else:
            place = opened.pop()
            found[place] = (*found[place][:2], words)
    return found


SENTENCES = [
    "(S (NP XX )NP XX )S",
    "(S (NP XX XX )NP (VP XX (NP (NP XX XX )NP (PP XX (NP XX )NP )PP )NP )VP XX )S",
    "(S XX (NP (NP XX )NP )NP (VP XX )VP )S",
    "(S (SBAR XX (S (NP XX )NP (VP XX XX )VP )S )SBAR XX (NP XX XX )NP (VP XX )VP XX )S",
    "(NP (NP (NP XX XX )NP XX (NP XX )NP )NP (PP XX (NP XX XX XX )NP )PP )NP",
    "(S (VP XX (ADVP (ADVP XX )ADVP )ADVP )VP )S",
    "(TOP (S (VP XX (PRT XX )PRT )VP (NP XX XX XX XX XX XX XX XX XX XX XX )NP XX )S )TOP",
]


def symbol_cases() -> list[tuple]:
    return [(text.split(),) for text in SENTENCES]


def _inside_out(spans: list[Span]) -> list[str]:
    found = []
    for w in range(max(end for _, _, end in spans)):
        found += ["(" + x[0] for x in sorted(spans, key=lambda x: x[2]) if x[1] == w]
        found.append("XX")
        found += [")" + x[0] for x in sorted(spans, key=lambda x: -x[1]) if x[2] == w + 1]
    return found


def span_cases() -> list[tuple]:
    """The spans of those trees in several orders; where two are equal, the outer one first."""
    cases: list[tuple] = [([("NP", 0, 1), ("S", 0, 2)],), ([("S", 0, 1), ("VP", 0, 1)],)]
    for i, (symbols,) in enumerate(symbol_cases()):
        orders = (lambda x: x[2] - x[1], lambda x: (x[2], x[0]), lambda x: -x[1], lambda x: 0)
        cases.append((sorted(spans(symbols), key=orders[i % 4]),))
    return cases


def write_tree(spans: list[Span]) -> list[str]:
    return _written(spans)


def _inside(span: Span) -> tuple[int, int]:
    return span[1], -span[2]


def _written(
    spans: list[Span],
    opening: Callable | None = _inside,  # the order in which brackets open, None for the list's
    closing: Callable | None = _inside,  # those that open last in this order close first
    late: int = 0,  # how many words late a bracket closes
    first: int = 0,  # the number of the first word
    swapped: bool = False,  # of two over the same words, the later one is the outer
    more: int = 0,
) -> list[str]:
    spans = [tuple(span) for span in spans]  # type: ignore[misc]
    spans = spans[::-1] if swapped else spans
    opens = sorted(spans, key=opening) if opening else spans
    closes = sorted(spans, key=closing)[::-1] if closing else spans
    n, found = max(end for _, _, end in spans), []
    for i in range(n + more):
        found += ["(" + label for label, start, _ in opens if start == i + first]
        found.append("XX")
        found += [")" + label for label, _, end in closes if end == i + 1 + first - late]
    return found


def _by_end(spans: list[Span]) -> list[str]:
    """Bracket after bracket, each in full: words in several brackets are written several times."""
    return [x for label, a, b in spans for x in ["(" + label, *["XX"] * (b - a), ")" + label]]


def _with_stack(
    spans: list[Span],
    order: Callable,
    loose: bool = False,  # what lay under a longer one closes late
    late: int = 0,  # how many words late a bracket closes
    once: bool = False,  # behind each word one bracket closes at most
    words: int = 0,  # how many are written, if not all
    whole: bool = False,  # what is open behind the last word closes there
    ended: int = -1,  # which of those that are open is looked at, the top of the stack or its foot
    closes: int = -1,  # and which one then closes
) -> list[str]:
    """What opens goes on a stack, and only its top can close."""
    rest, opened, found = sorted(spans, key=order), [], []
    for word in range(words or max(end for _, _, end in spans) + late):
        while rest and rest[0][1] == word:
            opened.append(rest.pop(0))
            found.append("(" + opened[-1][0])
        found.append("XX")
        ends = [span[2] + late for span in opened]
        while ends and (ends[-1] <= word + 1 if loose else ends[ended] == word + 1):
            ends.pop(closes)
            found.append(")" + opened.pop(closes)[0])
            ends = [] if once else ends
    return found + [")" + label for label, _, _ in opened[::-1] if whole]


def _closed_at_the_end(spans: list[Span]) -> list[str]:
    found = [symbol for symbol in _written(spans) if symbol[0] != ")"]
    return found + [")" + symbol[1:] for symbol in found[::-1] if symbol[0] == "("]


def _first_label(spans: list[Span]) -> list[str]:
    """Every closing bracket takes the first of the labels that are open."""
    opened: list[str] = []
    found = []
    for symbol in _written(spans):
        if symbol[0] == "(":
            opened.append(symbol[1:])
        found.append(")" + opened.pop(0) if symbol[0] == ")" else symbol)
    return found


def _closed_before_words(spans: list[Span]) -> list[str]:
    """Before each word brackets open first, and then those close that end there."""
    inner, found = sorted(spans, key=_inside), []
    n = max(end for _, _, end in spans)
    for word in range(n + 1):
        found += ["(" + label for label, start, _ in inner if start == word]
        found += [")" + label for label, _, end in inner[::-1] if end == word]
        found += ["XX"] if word < n else []
    return found


def _closed_late_on_a_stack(
    spans: list[Span], loose: bool = False, whole: bool = True
) -> list[str]:
    """Before each word brackets open first; then those close that end there, from the top of a
    stack on which the new ones lie. What is left closes at the end, or stays open."""
    rest, opened, found = sorted(spans, key=_inside), [], []
    for word in range(max(end for _, _, end in spans)):
        while rest and rest[0][1] == word:
            opened.append(rest.pop(0))
            found.append("(" + opened[-1][0])
        while opened and (opened[-1][2] <= word if loose else opened[-1][2] == word):
            found.append(")" + opened.pop()[0])
        found.append("XX")
    return found + [")" + label for label, _, _ in opened[::-1] if whole]


def _without_words(spans: list[Span], lost: Callable[[int, int], bool]) -> list[str]:
    """A tree without some of the words that stand beside a smaller bracket: `lost` is told how many
    smaller brackets stand before the word in the same one, and how many there are in all."""
    symbols, opened, gone = _written(spans), [], set()
    for i, symbol in enumerate(symbols):
        if symbol == "XX":
            opened[-1][1].append((i, opened[-1][0]))
        elif symbol[0] == ")":
            brackets, words = opened.pop()
            gone |= {place for place, before in words if lost(before, brackets)}
        else:
            if opened:
                opened[-1][0] += 1
            opened.append([0, []])
    return [symbol for i, symbol in enumerate(symbols) if i not in gone]


def _one_at_each_place(spans: list[Span]) -> list[str]:
    opens = {start: ["(" + label] for label, start, _ in spans}
    closes = {end: [")" + label] for label, _, end in spans}
    words = range(max(end for _, _, end in spans))
    return [x for i in words for x in [*opens.get(i, []), "XX", *closes.get(i + 1, [])]]


def _word_left_out(spans: list[Span], which: int) -> list[str]:
    symbols = _written(spans)
    place = [i for i, symbol in enumerate(symbols) if symbol == "XX"][which]
    return symbols[:place] + symbols[place + 1 :]


WRITE_MISTAKES = mistakes(
    ("the number of each word in place of XX",
     lambda s: (lambda number: [next(number) if x == "XX" else x for x in _written(s)])(count()),
     "A word is written as XX, whichever it is."),
    ("a space behind each bracket",
     lambda s: [x[0] + " " + x[1:] if x != "XX" else x for x in _written(s)],
     'Bracket and label are one symbol without a space: "(NP".'),
    ("one bracket at most closes behind a word", lambda s: _with_stack(s, _inside, once=True),
     "Several brackets may end behind the same word: close as long as the one opened last ends "
     "there, with `while`, not `if`."),
    ("one bracket at most closes behind a word, and the rest at the end",
     lambda s: _with_stack(s, _inside, once=True, whole=True),
     "Several brackets may end behind the same word: close as long as the one opened last ends "
     "there, with `while`, not `if`."),
    ("the end taken for the last word of a bracket, and what is left closes at the end",
     lambda s: _with_stack(s, _inside, late=1, words=max(x[2] for x in s), whole=True),
     "`end` is the number of the first word *after* the bracket."),
    ("brackets open in the order of the list, and only the one opened last closes",
     lambda s: _with_stack(s, lambda x: x[1], whole=True),
     "Where several brackets open at one word, the longest is the outermost and comes first; the "
     "list may have any order."),
    ("one bracket at most opens at a word",
     lambda s: _with_stack([*{x[1]: x for x in s}.values()], _inside, words=max(x[2] for x in s)),
     "Several brackets may begin at the same word; a dictionary by starts keeps one of them."),
    *((f"the bracket opened first {words}", lambda s, more=more: _with_stack(s, _inside, **more),
       "Brackets are nested: the one opened last closes first.")
      for words, more in (
          ("closes first", {"closes": 0}),
          ("is looked at, and closes first", {"ended": 0, "closes": 0}),
          ("is looked at and closes first, and what is left closes at the end",
           {"ended": 0, "closes": 0, "whole": True}),
      )),
    ("brackets around one word left out",
     lambda s: _written([x for x in s if x[2] - x[1] > 1] or s),
     "A bracket around a single word is a bracket, too."),
    ("one text without spaces", lambda s: "".join(_written(s)),
     "The result is a list of symbols."),
    ("from right to left", lambda s: _written(s)[::-1],
     "The symbols stand in the order of the words: what opens comes before what closes."),
    ("<eos> behind the tree", lambda s: [*_written(s), "<eos>"],
     "The end is written by a decoder. The tree itself has brackets and words."),
    ("the end taken for the last word of a bracket",
     lambda s: _with_stack(s, _inside, late=1),
     "`end` is the number of the first word *after* the bracket."),
    ("bracket after bracket, each with all its words",
     lambda s: _by_end(sorted(s, key=_inside)),
     "A word stands in several brackets, and is written once. Walk along the words, not along the "
     "brackets."),
    ("as many words as the first bracket of the list reaches",
     lambda s: _with_stack(s, _inside, words=s[0][2]),
     "The spans come in any order. How many words there are says the largest end."),
    ("as many words as the last bracket of the list reaches",
     lambda s: _with_stack(s, _inside, words=s[-1][2], loose=True),
     "The spans come in any order. How many words there are says the largest end."),
    ("as many words as there are brackets",
     lambda s: _with_stack(s, _inside, words=len(s), loose=True),
     "How many words there are says the largest end, not the number of brackets."),
    ("the bracket behind the label where it closes",
     lambda s: [x[1:] + ")" if x[0] == ")" else x for x in _written(s)],
     'The bracket stands in front of the label, also where it closes: ")NP".'),
    ("a space behind each bracket that opens",
     lambda s: [x.replace("(", "( ") for x in _written(s)],
     'Bracket and label are one symbol without a space: "(NP".'),
    ("a list within a list", lambda s: [_written(s)], "The result is one list of symbols."),
    ("a bracket around each word",
     lambda s: [y for x in _written(s) for y in (["(XX", "XX", ")XX"] if x == "XX" else [x])],
     "A word is written as XX alone: its tag is no bracket here."),
    ("words with their numbers",
     lambda s: [
         f"XX{_written(s)[:i].count('XX')}" if x == "XX" else x for i, x in enumerate(_written(s))
     ],
     'A word is written as "XX", whichever it is.'),
    ("all brackets close at the end", _closed_at_the_end,
     "A bracket closes behind its last word, not behind the last word of all."),
    ("the shortest opens first and closes last", _inside_out,
     "Where several begin or end at one word, the longest opens first and closes last."),
    ("brackets open in the order of the list", lambda s: _written(s, opening=lambda x: x[1]),
     "Where several brackets open at one word, the longest is the outermost and comes first."),
    ("brackets close in the order of the list", lambda s: _written(s, closing=None),
     "Where several brackets close behind one word, the one opened last closes first."),
    ("brackets open and close in the order of the list",
     lambda s: _written(s, opening=None, closing=None),
     "Where several begin or end at one word, the longest opens first and closes last."),
    ("the shorter bracket opens first", lambda s: _written(s, opening=lambda x: (x[1], x[2])),
     "Of two that begin at one word, the longer is the outer one, and opens first."),
    ("brackets open in alphabetical order", lambda s: _written(s, opening=lambda x: x),
     "Where several open at one word, the length decides, not the label."),
    ("brackets open in the order of the list, and close the other way round",
     lambda s: _written(s, opening=lambda x: x[1], closing=lambda x: 0),
     "Where several brackets open at one word, the longest is the outermost and comes first; the "
     "list may have any order."),
    ("each bracket around one word of its own",
     lambda s: [y for x in sorted(s, key=_inside) for y in ("(" + x[0], "XX", ")" + x[0])],
     "Walk along the words: a bracket closes only behind the last of its words."),
    ("labels without the bracket that opens",
     lambda s: [x.removeprefix("(") for x in _written(s)],
     'A label opens as "(NP" and closes as ")NP".'),
    ("the last word left out", lambda s: _word_left_out(s, -1),
     "The words are those from 0 to n - 1, where n is the `end` of the outermost bracket."),
    ("the first word left out", lambda s: _word_left_out(s, 0), "Words are counted from 0."),
    ("what opens first closes first",
     lambda s: _written(s, closing=lambda x: (-x[1], x[2])),
     "Brackets are nested: the one opened last closes first."),
    ("of two over the same words, the later is outside", lambda s: _written(s, swapped=True),
     "Of two brackets over the same words, the one that is earlier in the list is the outer one. "
     "(A sort that is told to reverse, or a stack, turns equal ones round.)"),
    ("of two over the same words, one is lost",
     lambda s: _written([(x[0], *key) for key, x in {x[1:]: x for x in s}.items()]),
     "Several brackets may be around the same words; a dictionary by spans keeps one of them."),
    ("equal brackets lost", lambda s: _written(list(dict.fromkeys(map(tuple, s)))),
     "An NP around an NP of the same words is there twice. A set keeps it once."),
    ("one bracket for each label", lambda s: _written(list({x[0]: x for x in s}.values())),
     "A tree may have many brackets with one label; a dictionary by labels keeps one of them."),
    ("a bracket closes one word late", lambda s: _written(s, late=1),
     "`end` is the number of the first word *behind* the bracket: it closes before that word."),
    ("a bracket closes one word late, and there is a word more",
     lambda s: _written(s, late=1, more=1),
     "`end` is the number of the first word *behind* the bracket, so a tree that ends at n has "
     "the words 0 to n - 1."),
    ("words counted from 1", lambda s: _written(s, first=1),
     "The first word has the number 0."),
    ("the words left out", lambda s: [x for x in _written(s) if x != "XX"],
     "Each word is an XX between the brackets."),
    ("closing brackets without a label", lambda s: [")" if x[0] == ")" else x for x in _written(s)],
     'A closing bracket has its label: ")NP".'),
    ("labels without brackets", lambda s: [x.strip("()") for x in _written(s)],
     'A label opens as "(NP" and closes as ")NP".'),
    ("no bracket closes", lambda s: [x for x in _written(s) if x[0] != ")"],
     "Every bracket that opens has to close, behind its last word."),
    ("the outermost bracket stays open", lambda s: _written(s)[:-1],
     "The outermost bracket has to close, too, behind the last word."),
    ("the outermost bracket left out", lambda s: _written(s)[1:-1],
     "The bracket over all words belongs to the tree."),
    ("bracket after bracket", _by_end,
     "A word in several brackets is written once: walk along the words, not along the list."),
    ("one text in place of a list", lambda s: " ".join(_written(s)),
     "The result is a list of symbols."),
    ("a bracket in place of its symbols", lambda s: list(s), "The result is a list of symbols."),
    ("the shorter bracket opens first, and lies under the longer on a stack",
     lambda s: _with_stack(s, lambda x: (x[1], x[2])),
     "Of two that begin at one word, the longer is the outer one, and opens first. As it is, it "
     "lies on the shorter one, which then cannot close."),
    ("the list as it comes, on a stack", lambda s: _with_stack(s, lambda x: 0),
     "The list may come in any order: sort it by where the brackets begin, the longest first."),
    ("of two over the same words, the label decides",
     lambda s: _with_stack(s, lambda x: (x[1], -x[2], x[0])),
     "Of two brackets over the same words, the one that is earlier in the list is the outer one."),
    ("brackets close in the order in which they open",
     lambda s: _written(s, closing=lambda x: (-x[1], x[2], -s.index(x))),
     "Brackets are nested: the one opened last closes first."),
    ("brackets close behind those that open at the next word", _closed_before_words,
     "What ends before a word closes *before* other brackets open there."),
    *(
        (f"what ends at a word closes behind the brackets that open there, from a stack{name}",
         lambda s, more=more: _closed_late_on_a_stack(s, **more),
         "Behind a word first close what ends there, and then go on: as it is, what opens next "
         "lies on the bracket that is to close, and hides it.")
        for name, more in (
            ("", {}),
            (", and what it hides closes later", {"loose": True}),
            (", and the end closes nothing", {"whole": False}),
        )
    ),
    *(
        (f"words {which} lost", lambda s, lost=lost: _without_words(s, lost),
         "A bracket may hold words and smaller brackets side by side: whatever a smaller one does "
         "not hold is written by the bracket around it.")
        for which, lost in (
            ("beside a smaller bracket", lambda before, brackets: brackets > 0),
            ("in front of a smaller bracket", lambda before, brackets: before < brackets),
            ("behind a smaller bracket", lambda before, brackets: before > 0),
            ("in front of the first smaller bracket",
             lambda before, brackets: brackets > 0 and before == 0),
            ("behind the last smaller bracket",
             lambda before, brackets: brackets > 0 and before == brackets),
            ("between two smaller brackets", lambda before, brackets: 0 < before < brackets),
        )
    ),
    ("one bracket opens, and one closes, at each place", _one_at_each_place,
     "Several brackets may begin or end at one word; a dictionary by places keeps one of them."),
    ("the shorter bracket opens first, and closes with the longer",
     lambda s: _with_stack(s, lambda x: (x[1], x[2]), loose=True),
     "Of two that begin at one word, the longer is the outer one, and opens first."),
    ("of those that begin at one word, the list's order", lambda s: _with_stack(s, lambda x: x[1]),
     "Where several brackets open at one word, the longest is the outermost and comes first."),
    ("of those that begin at one word, the list's order, and the shorter closes with the longer",
     lambda s: _with_stack(s, lambda x: x[1], loose=True),
     "Where several brackets open at one word, the longest is the outermost and comes first."),
    ("`end` read as the last word of the bracket",
     lambda s: _with_stack(s, _inside, loose=True, late=1),
     "`end` is the number of the first word *behind* the bracket."),
    ("`end` read as the last word of the bracket, and what is left closes at the end",
     lambda s: _with_stack(
         s, _inside, loose=True, late=1, words=max(x[2] for x in s), whole=True
     ),
     "`end` is the number of the first word *behind* the bracket: it closes before that word."),
    ("a bracket closes one word early",
     lambda s: _with_stack(s, _inside, loose=True, late=-1, words=max(x[2] for x in s)),
     "`end` is the number of the first word *behind* the bracket: behind word i close those with "
     "`end` = i + 1."),
    ("brackets open in alphabetical order, and the shorter closes with the longer",
     lambda s: _with_stack(s, lambda x: (x[1], x[0], x[2]), loose=True),
     "Tuples are sorted by their first entry, the label. Where several open at one word, the "
     "longest comes first."),
    ("the shorter bracket opens first and closes with the longer, and no label closes",
     lambda s: [
         ")" if x[0] == ")" else x
         for x in _with_stack(s, lambda x: (x[1], x[2]), loose=True)
     ],
     "Of two that begin at one word, the longer is the outer one, and opens first. And a closing "
     'bracket has its label: ")NP".'),
    ("the label of the bracket opened first closes",
     _first_label,
     "Brackets are nested: the one opened last closes first, `opened.pop()`."),
    ("two over the same words close in the order in which they open",
     lambda s: _written(s, closing=lambda x: (x[1], -x[2], -s.index(x))),
     "Also of two brackets over the same words, the one opened last closes first."),
    ("of two over the same words, the later is lost",
     lambda s: _written([(x[0], *key) for key, x in {x[1:]: x for x in s[::-1]}.items()][::-1]),
     "Several brackets may be around the same words, and all of them are written."),
    ("equal brackets lost, and of two over the same words the label decides",
     lambda s: _written(sorted(set(map(tuple, s)))),
     "A set keeps equal brackets once, and forgets the order of the list."),
    ("one word too many at the end", lambda s: [*_written(s)[:-1], "XX", _written(s)[-1]],
     "A tree that ends at n has the words 0 to n - 1."),
    ("a word before the first bracket", lambda s: ["XX", *_written(s)],
     "Words are counted from 0, and every one of them stands in the outermost bracket."),
    ("numbers in place of XX",
     lambda s: [str(_written(s)[:i].count("XX")) if x == "XX" else x
                for i, x in enumerate(_written(s))],
     'A word is written as "XX".'),
    ("of two over the same words, the later is outside, and no label closes",
     lambda s: [")" if x[0] == ")" else x for x in _written(s, swapped=True)],
     'A closing bracket has its label, ")NP". And of two brackets over the same words, the one '
     "that is earlier in the list is the outer one."),
)  # fmt: skip


# 18.3 is it a tree


def well_formed(
    symbols: list[str],
    n_words: int,
    empty: bool = False,  # what is let through
    labels: bool = False,
    outside: bool = False,
    forest: bool = False,
    unclosed: bool = False,
    nothing: bool = False,
    counted: bool = True,
    raises: bool = False,  # an error where a bracket closes and none is open
) -> bool:
    opened, before, trees = [], "", 0
    if not symbols:
        return nothing and (not n_words or not counted)
    for symbol in symbols:
        if symbol[0] == "(":
            if not opened:
                trees += 1
            opened.append(symbol[1:])
        elif symbol == "XX":
            if not opened and not outside:
                return False
        else:
            if not opened and not raises or before[:1] == "(" and not empty:
                return False
            if opened.pop() != symbol[1:] and not labels:
                return False
        before = symbol
    if opened and not unclosed or trees != 1 and not forest:
        return False
    return symbols.count("XX") == n_words or not counted


TREES = [
    ("(S (NP XX )NP XX )S", 2, True),
    ("(S (NP XX )NP XX )S", 3, False),
    ("(S (NP XX )NP XX )S", 1, False),
    ("(NP (NP (NP XX )NP )NP )NP", 1, True),
    ("(S (NP XX XX )NP (VP XX (NP XX )NP )VP XX )S", 5, True),
    ("(VP XX (NP XX XX )NP )VP", 3, True),
    ("(S (NP XX )VP (VP XX )NP )S", 2, False),  # labels crossed
    ("(S (NP XX )S )NP", 1, False),  # the same labels, but crossed
    ("(S (NP )NP XX )S", 1, False),  # empty
    ("(S )S", 0, False),
    ("(S XX (NP )NP )S", 1, False),  # empty, behind a word
    ("(S XX )S (S XX )S", 2, False),  # two trees
    ("(S XX )S (NP )NP", 1, False),  # two trees, one of them empty
    ("(S XX )S XX", 2, False),  # a word outside
    ("XX (S XX )S", 2, False),
    ("XX", 1, False),
    ("(S (NP XX )NP", 1, False),  # not closed
    ("(S XX", 1, False),
    ("(S XX )S )S", 1, False),  # closed too often
    (")S (S XX )S", 1, False),
    (")S XX (S", 1, False),
    ("", 0, False),
    ("(S (NP XX )VP )S", 1, False),
    ("(S (NP XX )NP XX (VP XX )VP )S", 3, True),
    ("(S (NP XX (VP XX )NP )VP )S", 2, False),  # closed in the wrong order
    ("(S XX (NP XX )NP )S", 2, True),
    ("(S XX )S", 1, True),
    ("(S XX XX )S", 2, True),
    ("(S (NP XX )NP (VP XX )VP )S", 2, True),
    ("(NP (S XX )S )VP", 1, False),
    ("XX XX )X", 2, False),  # as if the first XX were an opening bracket with the label X
    ("(S )NP XX (NP )S", 1, False),  # as many of each label, and one closes before it opens
    ("(S (NP XX )S (S XX )NP )S", 2, False),  # as many of each label, crossed, in one bracket
]


def tree_cases() -> list[tuple]:
    return [(text.split(), n) for text, n, _ in TREES]


def _balanced(s: list[str], n: int) -> bool:
    depth = sum((x[0] == "(") - (x[0] == ")") for x in s)
    return depth == 0 and s.count("XX") == n


def _each_label_balanced(s: list[str], n: int) -> bool:
    opened = Counter(x[1:] for x in s if x[0] == "(")
    return opened == Counter(x[1:] for x in s if x[0] == ")") and s.count("XX") == n


def _queue(s: list[str], n: int) -> bool:
    opened, before = [], ""
    for i, symbol in enumerate(s):
        if i and not opened:
            return False
        if symbol[0] == "(":
            opened.append(symbol[1:])
        elif symbol == "XX":
            if not opened:
                return False
        elif before[0:1] == "(" or not opened or opened.pop(0) != symbol[1:]:
            return False
        before = symbol
    return bool(s) and not opened and s.count("XX") == n


def _closing_ignored(s: list[str], n: int) -> bool:
    """A closing bracket without an open one is passed over."""
    depth, kept = 0, []
    for symbol in s:
        depth += (symbol[0] == "(") - (symbol[0] == ")")
        if depth < 0:
            depth = 0
        else:
            kept.append(symbol)
    return well_formed(kept, n)


def _stack_alone(s: list[str], n: int, raises: bool = False) -> bool:
    """Labels are compared as they close, and nothing else is looked at."""
    opened: list[str] = []
    for symbol in s:
        if symbol[0] == "(":
            opened.append(symbol[1:])
        elif symbol != "XX" and (not opened and not raises or opened.pop() != symbol[1:]):
            return False
    return not opened and s.count("XX") == n


def _raises(s: list[str], n: int) -> bool:
    _stack_alone(s, n, raises=True)
    return well_formed(s, n)


TREE_SLIPS = [
    ("empty brackets let through", {"empty": True}, "A bracket must hold something."),
    ("labels not compared", {"labels": True}, "A bracket closes with its own label."),
    ("words outside of all brackets let through", {"outside": True},
     "Every word stands inside of the outermost bracket."),
    ("several trees let through", {"forest": True}, "There is one outermost bracket."),
    ("open brackets at the end let through", {"unclosed": True},
     "At the end every bracket must be closed."),
    ("no symbols taken for a tree", {"nothing": True}, "No symbols are no tree."),
    ("words not counted", {"counted": False}, "XX must stand there exactly `n_words` times."),
    ("an error where a bracket closes and none is open", {"raises": True},
     "Look before you `pop()`: a bracket may close where none is open."),
]  # fmt: skip
TREE_KNOWN = [("words outside of all brackets let through", "several trees let through")]


def _lenient(**slips: bool) -> Callable[[list[str], int], bool]:
    return lambda symbols, n_words: well_formed(symbols, n_words, **slips)


def _deep_enough(s: list[str], n: int) -> bool:
    depth = _depth_along(s)
    return bool(s) and min(depth) >= 0 and depth[-1] == 0 and s.count("XX") == n


def _depth_along(s: list[str]) -> list[int]:
    return list(accumulate((x[0] == "(") - (x[0] == ")") for x in s))


def _never_below(s: list[str]) -> bool:
    return min(_depth_along(s)) >= 0


def _in_one(s: list[str]) -> bool:
    return min(_depth_along(s)[:-1], default=0) > 0


def _none_empty(s: list[str]) -> bool:
    return not any(a[0] == "(" and b[0] == ")" for a, b in zip(s, s[1:], strict=False))


def _mirrored(s: list[str], n: int) -> bool:
    opens, closes = ([x[1:] for x in s if x[0] == side] for side in "()")
    return bool(s) and opens == closes[::-1] and s.count("XX") == n


def _framed(s: list[str], n: int) -> bool:
    """Only the first and the last symbol, and the number of words, are looked at."""
    framed = bool(s) and s[0][0] == "(" and s[-1] == ")" + s[0][1:]
    return framed and s.count("XX") == n


def _words_in_front(s: list[str], n: int) -> bool:
    front = next((i for i, x in enumerate(s) if x != "XX"), len(s))
    return well_formed(s[front:], n - front)


def _with_several_parts(symbols: list[str], n_words: int) -> bool:
    parts: list[int] = []
    for symbol in symbols:
        if symbol[0] == ")":
            if parts and parts.pop() < 2:
                return False
        elif parts:
            parts[-1] += 1
        if symbol[0] == "(":
            parts.append(0)
    return well_formed(symbols, n_words)


def _with_words(s: list[str], n: int) -> bool:
    """Every bracket has to hold a word directly."""
    own = []
    for symbol in s if well_formed(s, n) else [")"]:
        if symbol[0] == ")" and not (own and own.pop()):
            return False
        if symbol[0] == "(":
            own.append(0)
        own[-1:] = [own[-1] + (symbol == "XX")] if own else []
    return True


def _read_along(
    s: list[str],
    n: int,
    outside: bool = False,
    surplus: bool = False,
    first: bool = False,
    differ: bool = False,
) -> bool:
    """Symbol after symbol, with words outside let through, or what closes nothing; or with
    nothing known of the outermost bracket but that the first symbol opens one; or each bracket is
    to close with another label."""
    opened: list[str] = []
    for i, symbol in enumerate(s):
        if symbol == "XX":
            if not (opened or outside or first and i):
                return False
        elif symbol[0] == "(":
            if i and not opened and not first:
                return False
            opened.append(symbol[1:])
        elif opened or not surplus:
            if not opened or (opened.pop() != symbol[1:]) != differ or s[i - 1][0] == "(":
                return False
    return bool(s) and not opened and s.count("XX") == n


def _no_two_close(s: list[str], n: int) -> bool:
    return well_formed(s, n) and not any(
        a[0] == b[0] == ")" for a, b in zip(s, s[1:], strict=False)
    )


def _one_of_those_open(s: list[str], n: int) -> bool:
    """A bracket closes if one with its label is open anywhere."""
    opened: list[str] = []
    for i, symbol in enumerate(s):
        if i and not opened:
            return False
        if symbol[0] == "(":
            opened.append(symbol[1:])
        elif symbol != "XX":
            if symbol[1:] not in opened or s[i - 1][0] == "(":
                return False
            opened.remove(symbol[1:])
        elif not opened:
            return False
    return bool(s) and not opened and s.count("XX") == n


def _empty_behind_words(s: list[str], n: int) -> bool:
    """Nothing is known of empty brackets but that a tree may not begin with one."""
    begins = any(
        a[0] == "(" and b[0] == ")" and "XX" not in s[:i]
        for i, (a, b) in enumerate(zip(s, s[1:], strict=False))
    )
    return well_formed(s, n, empty=True) and not begins


TREE_MISTAKES = mistakes(
    ("an error where the first symbol closes a bracket",
     lambda s, n: [].pop() if s and s[0][0] == ")" else well_formed(s, n),
     "A closing bracket may come although none is open: look before you `pop()`."),
    ("an error where a bracket closes and none is open", _lenient(raises=True),
     "Look before you `pop()`: a bracket may close where none is open."),
    ("words and trees side by side let through, and an error where a bracket closes and none is "
     "open", _lenient(outside=True, forest=True, raises=True),
     "There is one outermost bracket, and everything is in it. And look before you `pop()`: a "
     "bracket may close where none is open."),
    ("a bracket closes if one of its label is open anywhere", _one_of_those_open,
     "Brackets are nested: the one opened *last* closes first, with its own label."),
    ("empty brackets behind a word let through", _empty_behind_words,
     "A bracket must hold something of its own: it may not close right after it opened."),
    ("False for everything", lambda s, n: False, "There are sequences that are trees."),
    ("words outside of all brackets let through, also without any bracket",
     lambda s, n: _read_along(s, n, outside=True),
     "There is one outermost bracket, and every word stands inside of it."),
    ("closing brackets that close nothing let through",
     lambda s, n: _read_along(s, n, surplus=True),
     "Every closing bracket closes one that is open. Where none is, it is no tree."),
    ("what follows the outermost bracket let through",
     lambda s, n: _read_along(s, n, first=True),
     "There is one outermost bracket, and everything is in it: behind it nothing may come."),
    ("two brackets of one label refused",
     lambda s, n: well_formed(s, n) and max(Counter(x for x in s if x[0] == "(").values()) == 1,
     "A tree may have many brackets of one label, also inside of each other."),
    ("the labels that open and close counted",
     lambda s, n: bool(s) and s.count("XX") == n and (
         Counter(x[1:] for x in s if x[0] == "(") == Counter(x[1:] for x in s if x[0] == ")")
     ),
     "As many of each label is not enough: the one opened last closes first, everything is in one "
     "bracket, and none is empty."),
    *(
        (f"the labels that open and close counted, and {name}",
         lambda s, n, more=more: _each_label_balanced(s, n) and bool(s) and more(s),
         "As many of each label, in any order, are no tree yet: a bracket closes with the label "
         "that was opened last. Keep the open ones on a stack.")
        for name, more in (
            ("the first and the last symbol looked at",
             lambda s: s[0][0] == "(" and s[-1] == ")" + s[0][1:]),
            ("the first symbol looked at", lambda s: s[0][0] == "("),
            ("the depth looked at", _never_below),
            ("empty brackets refused", _none_empty),
            ("the first and the last symbol looked at, and empty brackets refused",
             lambda s: s[0][0] == "(" and s[-1] == ")" + s[0][1:] and _none_empty(s)),
            ("the depth looked at, and empty brackets refused",
             lambda s: _never_below(s) and _none_empty(s)),
            ("that everything is in one bracket", _in_one),
            ("that everything is in one bracket, and empty ones refused",
             lambda s: _in_one(s) and _none_empty(s)),
        )
    ),
    ("a bracket around one word alone refused", lambda s, n: len(s) > 3 and well_formed(s, n),
     "(S XX )S is a tree over one word."),
    ("a bracket whose parts are words alone refused",
     lambda s, n: any(x[0] == "(" for x in s[1:]) and well_formed(s, n),
     "The outermost bracket may hold words alone: (S XX XX )S is a tree."),
    ("only the brackets and the words counted", lambda s, n: bool(s) and _balanced(s, n),
     "As many that close as open is not enough: each closes with its own label, after it has "
     "opened, none is empty, and all is in one outermost bracket."),
    ("an error where the list is empty", lambda s, n: s[0][0] == "(" and well_formed(s, n),
     "The list may be empty: look whether there is a first symbol before you read it."),
    ("only the depth looked at", _deep_enough,
     "Brackets may not close before they open, which you see. But every one closes with its own "
     "label, none is empty, and all is in one outermost bracket."),
    ("labels that close read backwards as those that open", _mirrored,
     "A bracket may close before the next one opens: keep those that are open on a stack."),
    ("only the first and the last symbol looked at", _framed,
     "What stands between them has to be nested as well: every bracket closes with its own label, "
     "and none is empty."),
    ("two brackets that close together refused", _no_two_close,
     "A bracket may end with another bracket: )NP )S is right if both are open."),
    ("an error where nothing is open to close", _raises,
     "A closing bracket may come although none is open: look before you `pop()`."),
    ("only nesting looked at, with an error where nothing is open",
     lambda s, n: _stack_alone(s, n, raises=True),
     "Look before you `pop()`. And nested brackets are not enough: none may be empty, and all "
     "is in one outermost bracket."),
    ("only nesting looked at", _stack_alone,
     "Nested brackets are not enough: none may be empty, and all is in one outermost bracket."),
    ("words in front of the tree let through", _words_in_front,
     "A word may come only when a bracket is open."),
    ("a bracket of one part refused", _with_several_parts,
     "A bracket may hold one word, or one smaller bracket: only an empty one is none."),
    ("a bracket without a word of its own refused", _with_words,
     "A bracket may hold smaller brackets alone. Empty is one that closes right after it opened."),
    ("only the depth looked at, and no symbols taken for a tree",
     lambda s, n: not s and n == 0 or _deep_enough(s, n),
     "No symbols are no tree. And every bracket closes with its own label, none is empty, and all "
     "is in one outermost bracket."),
    ("only the words counted", lambda s, n: s.count("XX") == n,
     "Brackets are to be nested, each with its own label, none empty, and all in one."),
    ("a word alone taken for a tree", lambda s, n: s == ["XX"] and n == 1 or well_formed(s, n),
     "There is an outermost bracket, also around a single word."),
    ("empty brackets let through", lambda s, n: well_formed(s, n, empty=True),
     "A bracket must hold something: it may not close right after it opened."),
    ("labels not compared", lambda s, n: well_formed(s, n, labels=True),
     "A bracket closes with its own label: after (NP comes )NP, not )VP."),
    ("words not counted", lambda s, n: well_formed(s, s.count("XX")),
     "XX must stand there exactly `n_words` times."),
    ("one word more asked for", lambda s, n: well_formed(s, n + 1),
     "XX must stand there exactly `n_words` times."),
    ("too few words let through", lambda s, n: s.count("XX") <= n and well_formed(s, s.count("XX")),
     "Exactly `n_words` words, not at most so many."),
    ("too many words let through",
     lambda s, n: s.count("XX") >= n and well_formed(s, s.count("XX")),
     "Exactly `n_words` words, not at least so many."),
    ("several trees let through", lambda s, n: well_formed(s, n, forest=True),
     "There is one outermost bracket, and everything is in it."),
    ("words outside of all brackets let through",
     lambda s, n: bool(s) and s != ["XX"] and well_formed(s, n, outside=True),
     "Every word stands inside of the outermost bracket."),
    ("words and trees side by side let through",
     lambda s, n: well_formed(s, n, outside=True, forest=True),
     "There is one outermost bracket, and all words are in it."),
    ("open brackets at the end let through", lambda s, n: well_formed(s, n, unclosed=True),
     "At the end every bracket must be closed."),
    ("no symbols taken for a tree", lambda s, n: well_formed(s, n, nothing=True),
     "A tree has an outermost bracket. No symbols are no tree, even of no words."),
    ("closing brackets without an open one let through", _closing_ignored,
     "What closes must have been opened before."),
    ("only as many closing brackets as opening ones", _balanced,
     "Equal numbers are not enough: order, labels, and what is inside matter as well."),
    ("only as many closing brackets as opening ones of each label", _each_label_balanced,
     "Equal numbers are not enough: brackets must be nested."),
    ("the bracket opened first closes first", _queue,
     "Brackets are nested: the one opened last closes first."),
    ("the outermost bracket must be S", lambda s, n: s[:1] == ["(S"] and well_formed(s, n),
     "A tree may have any label at its top: headlines are often an NP."),
    ("a bracket around one bracket refused",
     lambda s, n: (
         well_formed(s, n)
         and not any(a[0] == b[0] == "(" for a, b in zip(s, s[1:], strict=False))
     ),
     "A bracket may begin with another bracket."),
    ("True for everything", lambda s, n: True, "There are sequences that are no trees."),
    ("the other way round", lambda s, n: not well_formed(s, n),
     "True means that it is a tree, False that it is none."),
    *combined(_lenient, TREE_SLIPS, TREE_KNOWN),
    ("the number of words asked to differ",
     lambda s, n: s.count("XX") != n and well_formed(s, s.count("XX")),
     "XX must stand there `n_words` times: what has another number is no tree."),
    ("the other way round, but for the number of words",
     lambda s, n: s.count("XX") == n and not well_formed(s, n),
     "True means that it is a tree, False that it is none."),
    ("labels asked to differ", lambda s, n: _read_along(s, n, differ=True),
     "A bracket closes with its *own* label: after (NP comes )NP."),
    ("the first symbol taken for an opening bracket, whatever it is",
     lambda s, n: well_formed(["(" + s[0][1:], *s[1:]] if s else s, n - (s[:1] == ["XX"])),
     "It must be one: a tree begins with its outermost bracket."),
)  # fmt: skip


# 18.4 a test for a score


def corpus_f1(true: list, given: list) -> float | int:
    both = total = 0
    for a, b in zip(true, given, strict=True):
        x, y = Counter(a), Counter(b or ())
        both += (x & y).total()
        total += x.total() + y.total()
    return 2 * both / total if total else 0.0


def _counts(true: list, given: list, form=Counter) -> tuple[int, ...]:
    """How many brackets are true, given, and both; `form` collects those of a sentence."""
    total = [0, 0, 0]
    for a, b in zip(true, given, strict=True):
        x, y = form(a), form(b or ())
        for i, found in enumerate((x, y, x & y)):
            total[i] += sum(found.values()) if isinstance(found, Counter) else len(found)
    return tuple(total)


def _ratio(a: float | int, b: float | int) -> float | int:
    return a / b if b else 0.0


def _f(counts: tuple[int, ...]) -> float | int:
    return _ratio(2 * counts[2], counts[0] + counts[1])


def _read(true: list, given: list) -> list:
    return [(a, b) for a, b in zip(true, given, strict=True) if b is not None]


def _skipped(true: list, given: list) -> float | int:
    pairs = _read(true, given)
    return corpus_f1([a for a, _ in pairs], [b for _, b in pairs])


def _mean(values: list) -> float | int:
    return _ratio(sum(values), len(values))


def _each(true: list, given: list) -> list:
    return [corpus_f1([a], [b]) for a, b in zip(true, given, strict=True)]


def _parts(true: list, given: list) -> tuple:
    t, g, both = _counts(true, given)
    return _ratio(both, g), _ratio(both, t)


def _cut(spans: list, part: slice) -> list:
    return [None if s is None else [x[part] for x in s] for s in spans]  # type: ignore[misc]


def _without_top(spans: list) -> list:
    return [None if s is None else [x for x in s if x[0] != "TOP"] for s in spans]


def _renamed(spans: list) -> list:
    return [
        None if s is None else [(x[0].replace("PRT", "ADVP"), *x[1:]) for x in s] for s in spans
    ]


def _reused(true: list, given: list) -> float | int:
    """Every true bracket that is somewhere in the given ones, however often it was used."""
    both = sum(x in (b or []) for a, b in zip(true, given, strict=True) for x in a)
    t, g, _ = _counts(true, given)
    return _ratio(2 * both, t + g)


def _reused_given(true: list, given: list) -> float | int:
    both = sum(x in a for a, b in zip(true, given, strict=True) for x in b or [])
    t, g, _ = _counts(true, given)
    return _ratio(2 * both, t + g)


def _pooled(true: list, given: list) -> float | int:
    return corpus_f1([[x for a in true for x in a]], [[x for b in given for x in b or []]])


def _place_by_place(true: list, given: list) -> float | int:
    pairs = list(zip(true, given, strict=True))
    both = sum(x == y for a, b in pairs for x, y in zip(a, b or [], strict=False))
    t, g, _ = _counts(true, given)
    return _ratio(2 * both, t + g)


def _by_means(true: list, given: list) -> float | int:
    """Right, but for the last digits."""
    p, r = _parts(true, given)
    return round(_ratio(2 * p * r, p + r), 12)


ODD = slice(0, 3, 2)  # label and end
A_LITTLE_MORE = moved(corpus_f1, 0.03)
SCORES: dict[str, Callable] = {
    "2 both / (true + given)": corpus_f1,
    "the harmonic mean of precision and recall": _by_means,
    "outputs that are no trees left out": _skipped,
    "a mean of the sentences' F1": lambda t, g: _mean(_each(t, g)),
    "brackets in a set": lambda t, g: _f(_counts(t, g, set)),
    "a given bracket used several times": _reused,
    "a true bracket used several times": _reused_given,
    "the precision": lambda t, g: _parts(t, g)[0],
    "the recall": lambda t, g: _parts(t, g)[1],
    "the plain mean of precision and recall": lambda t, g: sum(_parts(t, g)) / 2,
    "labels not compared": lambda t, g: corpus_f1(_cut(t, slice(1, 3)), _cut(g, slice(1, 3))),
    "the start not compared": lambda t, g: corpus_f1(_cut(t, ODD), _cut(g, ODD)),
    "the end not compared": lambda t, g: corpus_f1(_cut(t, slice(0, 2)), _cut(g, slice(0, 2))),
    "compared place by place": _place_by_place,
    "all sentences in one heap": _pooled,
    "TOP left out": lambda t, g: corpus_f1(_without_top(t), _without_top(g)),
    "PRT taken for ADVP": lambda t, g: corpus_f1(_renamed(t), _renamed(g)),
    "the share that is in both": lambda t, g: _ratio(
        _counts(t, g)[2], sum(_counts(t, g)[:2]) - _counts(t, g)[2]
    ),
    "1 if there is nothing to count": lambda t, g: corpus_f1(t, g) if any(_counts(t, g)) else 1.0,
    "0 / 0 if there is nothing to count": lambda t, g: (
        2 * _counts(t, g)[2] / sum(_counts(t, g)[:2])
    ),
    A_LITTLE_MORE[0]: A_LITTLE_MORE[1],
}  # fmt: skip

# cases of a good test, each with what it is there for
_S, _NP, _VP = ("S", 0, 3), ("NP", 0, 2), ("VP", 2, 3)
TEST_CASES: dict[str, tuple[list, list]] = {
    "unreadable": ([[_S], [_S]], [[_S], None]),
    "unequal": ([[_S, _NP, _VP], [_S]], [[_S, _NP, _VP], [_VP]]),
    "twice true": ([[_NP, _NP]], [[_NP, _VP]]),
    "twice given": ([[_NP, _VP]], [[_NP, _NP]]),
    "missed": ([[_S, _NP, _VP]], [[_S]]),
    "label": ([[_NP]], [[("VP", 0, 2)]]),
    "start": ([[_NP]], [[("NP", 1, 2)]]),
    "end": ([[_NP]], [[("NP", 0, 1)]]),
    "order": ([[_S, _NP]], [[_NP, _S]]),
    "exchanged": ([[_S], [_NP]], [[_NP], [_S]]),
    "TOP": ([[_S, ("TOP", 0, 3)]], [[_S]]),
    "PRT": ([[("PRT", 2, 3)]], [[("ADVP", 2, 3)]]),
    "nothing": ([[]], [None]),
}


def scores_right(f1: Callable) -> bool:
    return _tried_on(TEST_CASES)(f1)


def _tried_on(names: Iterable[str], close: bool = True) -> Callable:
    """A test on these cases alone."""

    def test(f1: Callable) -> bool:
        for name in names:
            got, want = f1(*TEST_CASES[name]), corpus_f1(*TEST_CASES[name])
            if abs(got - want) > 1e-9 if close else got != want:
                return False
        return True

    return test


def _without(*names: str) -> Callable:
    return _tried_on([name for name in TEST_CASES if name not in names])


def _to_the_last_bit(f1: Callable) -> bool:
    tree = [("NP", i, i + 1) for i in range(5)]
    return scores_right(f1) and f1([tree], [tree[:2]]) == 4 / 7 and f1([tree[:3]], [tree]) == 6 / 8


RIGHT_SCORES = list(SCORES)[:2]
MISSED_SCORES = {
    A_LITTLE_MORE[0]: A_LITTLE_MORE[2],
    "outputs that are no trees left out": "Let one of two outputs be None.",
    "a mean of the sentences' F1": "Take a long and a short sentence, of which one is right.",
    "brackets in a set": "Let a bracket be there twice.",
    "a given bracket used several times": "Let a bracket be true twice and given once.",
    "a true bracket used several times": "Let a bracket be given twice and true once.",
    "the precision": "Let a true bracket be missed.",
    "the recall": "Let a wrong bracket be given.",
    "the plain mean of precision and recall": "Let precision and recall be different.",
    "labels not compared": "Give a bracket in its place with a wrong label.",
    "the start not compared": "Give a bracket with a wrong start.",
    "the end not compared": "Give a bracket with a wrong end.",
    "compared place by place": "Give the brackets in another order.",
    "all sentences in one heap": "Give a bracket of one sentence in another.",
    "TOP left out": "Let there be a bracket TOP that is not given.",
    "PRT taken for ADVP": "Let PRT be true and ADVP given.",
    "the share that is in both": "Let some brackets be right and some wrong.",
    "1 if there is nothing to count": "Try sentences without any brackets.",
    "0 / 0 if there is nothing to count": "Try sentences without any brackets.",
}


def run_score_test(answer: Callable, score: str) -> Any:
    return said_of(answer, SCORES[score], right=score in RIGHT_SCORES)


def _forgiving(f1: Callable) -> bool:
    try:
        return scores_right(f1)
    except ZeroDivisionError:
        return True


EXAMPLE = (
    [[("S", 0, 2), ("NP", 0, 1)], [("S", 0, 3)]],
    [[("S", 0, 2), ("VP", 0, 1)], None],
)

SCORE_TEST_MISTAKES = mistakes(
    ("the example alone", lambda f1: abs(f1(*EXAMPLE) - 2 / 5) < 1e-9,
     "Many wrong functions give 2 / 5 there. For each rule of the statement, make an input on "
     "which breaking it shows."),
    ("what leaves out None passes, and what gives no 0 for no brackets",
     _without("unreadable", "nothing"),
     "`given` may have None in it, which counts as no brackets, and there may be no brackets at "
     "all: ask for the right F1 of both."),
    ("what leaves out None passes", _without("unreadable"),
     "Let an output be None beside a good one, and compare with the right F1: None counts as no "
     "brackets."),
    ("a mean of the sentences' F1 passes", _without("unequal", "unreadable"),
     "A mean of the sentences' F1 is found out by a long and a short sentence, one of them right."),
    ("brackets in a set pass", _without("twice true", "twice given"),
     "An NP around an NP of the same words is there twice; a set keeps it once."),
    ("what finds a given bracket several times passes", _without("twice true"),
     "If a bracket is true twice and given once, one of the two is missed."),
    ("what finds a true bracket several times passes", _without("twice given"),
     "If a bracket is given twice and true once, one of the two is wrong."),
    ("labels that are not compared pass",
     _without("label", "PRT", "twice true", "twice given", "unequal"),
     "A bracket over the right words with a wrong label is not found: give one."),
    ("a start that is not compared passes", _without("start"),
     "A bracket with the right label and the right end, but a wrong start, is not found: give "
     "one."),
    ("an end that is not compared passes", _without("end"),
     "A bracket with the right label and the right start, but a wrong end, is not found: give "
     "one."),
    ("what compares place by place passes", _without("order", "exchanged"),
     "The brackets of a tree may be listed in any order: true and given in two different ones."),
    ("all sentences in one heap pass", _without("exchanged"),
     "A bracket counts in its own sentence alone: let a bracket of one sentence be given in "
     "another, over the same words."),
    ("what leaves out TOP passes", _without("TOP"),
     "Every bracket counts, TOP as well: let F1 depend on one."),
    ("what takes PRT for ADVP passes", _without("PRT"),
     "Every label is taken as it stands: PRT and ADVP over the same words are two brackets."),
    ("what leaves out TOP passes, and what takes PRT for ADVP", _without("TOP", "PRT"),
     "Every bracket counts and every label is taken as it stands: EVALB's rules 3 and 4 are not "
     "those of this function."),
    ("what gives no 0 for no brackets passes", _without("nothing"),
     "Where there are no brackets at all, 0 is asked for: 1 and 0 / 0 are wrong."),
    ("to the last bit", _to_the_last_bit,
     "Right functions round in different orders: compare with a tolerance, by `math.isclose`."),
    ("what takes sentence by sentence passes", _without("unreadable", "unequal", "exchanged"),
     "What distinguishes a corpus from a sentence needs several sentences in one call."),
    ("an error taken for a right answer", _forgiving,
     "0 / 0 is an error. Where there are no brackets at all, the function should return 0."),
    ("everything passes", lambda f1: True,
     "A test that says yes to everything tests nothing; so does one that tries perfect trees "
     "alone, where precision, recall and every mean of them are 1."),
    ("nothing passes", lambda f1: False,
     "The right functions must pass, in any style. Is F1 between 0 and 1, is rounding let through, "
     "and is every label taken as it stands, TOP and PRT, too?"),
    ("yes and no exchanged", lambda f1: not scores_right(f1),
     "True is for a right function, False for a wrong one."),
)  # fmt: skip


# 18.5 bottom up


def bottom_up(symbols: list[str]) -> list[str]:
    found, counts = [], [0]
    for symbol in symbols:
        if symbol[0] == "(":
            counts.append(0)
            continue
        found.append("XX" if symbol == "XX" else f"{symbol[1:]}/{counts.pop()}")
        counts[-1] += 1
    return found


def _labels_by_opening(symbols: list[str]) -> list[str]:
    labels = iter([symbol[1:] for symbol in symbols if symbol[0] == "("])
    return [
        symbol if symbol == "XX" else f"{next(labels)}/{symbol.rpartition('/')[2]}"
        for symbol in bottom_up(symbols)
    ]


def _walk(symbols: list[str], count, form="{label}/{n}".format, after=True) -> list[str]:
    """As asked for, with another count of what is in a bracket, or another way to write it.

    `count(words, brackets, all_words, all_brackets)`: of the parts, and of all that is inside.
    """

    def tree(place: int) -> tuple[list[str], tuple[int, int, int, int], int]:
        """The bracket that opens there: what is written, its counts, the place after it."""
        written, words, brackets, all_words, all_brackets = [], 0, 0, 0, 0
        label, i = symbols[place][1:], place + 1
        while symbols[i][0] != ")":
            if symbols[i] == "XX":
                written, words, all_words, i = [*written, "XX"], words + 1, all_words + 1, i + 1
            else:
                more, (_, _, w, b), i = tree(i)
                written, brackets = written + more, brackets + 1
                all_words, all_brackets = all_words + w, all_brackets + b + 1
        counts = (words, brackets, all_words, all_brackets)
        own = form(label=label, n=count(*counts))
        own = [own] if isinstance(own, str) else own
        return written + own if after else own + written, counts, i + 1

    return tree(0)[0]


def _parts_of(w: int, b: int, all_w: int, all_b: int) -> int:
    return w + b


def _one_count_a_label(symbols: list[str]) -> list[str]:
    found, opened, counts = [], [""], {"": 0}
    for symbol in symbols:
        if symbol[0] == "(":
            opened.append(symbol[1:])
            counts[symbol[1:]] = 0
            continue
        found.append("XX" if symbol == "XX" else f"{symbol[1:]}/{counts[opened.pop()]}")
        counts[opened[-1]] += 1
    return found


def _depths(symbols: list[str]) -> list[str]:
    found, depth = [], 0
    for symbol in symbols:
        depth += symbol[0] == "("
        if symbol[0] != "(":
            found.append("XX" if symbol == "XX" else f"{symbol[1:]}/{depth}")
        depth -= symbol[0] == ")"
    return found


def _words_so_far(symbols: list[str]) -> list[str]:
    found, words = [], 0
    for symbol in symbols:
        words += symbol == "XX"
        if symbol[0] != "(":
            found.append("XX" if symbol == "XX" else f"{symbol[1:]}/{words}")
    return found


def _since_it_opened(symbols: list[str]) -> list[str]:
    """One count, set to 0 by each bracket that opens."""
    found, count = [], 0
    for symbol in symbols:
        if symbol[0] == "(":
            count = 0
            continue
        found.append("XX" if symbol == "XX" else f"{symbol[1:]}/{count}")
        count += 1
    return found


def _since_it_closed(symbols: list[str]) -> list[str]:
    """One count, set to 0 by each bracket that opens, to 1 by each that closes."""
    found, count = [], 0
    for symbol in symbols:
        if symbol[0] != "(":
            found.append("XX" if symbol == "XX" else f"{symbol[1:]}/{count}")
        count = {"(": 0, ")": 1}.get(symbol[0], count + 1)
    return found


def _never_at_0(symbols: list[str]) -> list[str]:
    """One count, set to 1 by each bracket that closes."""
    found, count = [], 0
    for symbol in symbols:
        if symbol[0] != "(":
            found.append("XX" if symbol == "XX" else f"{symbol[1:]}/{count}")
            count = 1 if symbol[0] == ")" else count + 1
    return found


def _first_count(symbols: list[str]) -> list[str]:
    """What closes takes the first of the counts, not the last."""
    found, counts = [], [0]
    for symbol in symbols:
        if symbol[0] == "(":
            counts[-1] += 1
            counts.append(0)
        else:
            counts[-1] += symbol == "XX"
            found.append("XX" if symbol == "XX" else f"{symbol[1:]}/{counts.pop(1)}")
    return found


def _first_count_of_what_closes(symbols: list[str]) -> list[str]:
    """What closes takes the first of the counts, and is counted in the last of those left."""
    found, counts = [], []
    for symbol in symbols:
        if symbol[0] == "(":
            counts.append(0)
            continue
        found.append("XX" if symbol == "XX" else f"{symbol[1:]}/{counts.pop(0)}")
        if counts:
            counts[-1] += 1
    return found


BOTTOM_UP_SLIPS = [
    ("all words inside counted", {"count": lambda w, b, aw, ab: aw},
     "The parts of a bracket are what stands in it directly."),
    ("everything inside counted", {"count": lambda w, b, aw, ab: aw + ab},
     "The parts of a bracket are what stands in it directly."),
    ("only smaller brackets counted", {"count": lambda w, b, aw, ab: b}, "A word is a part, too."),
    ("only words counted", {"count": lambda w, b, aw, ab: w}, "A smaller bracket is a part, too."),
    ("one part too many", {"count": lambda w, b, aw, ab: w + b + 1}, "The count begins at 0."),
    ("the number before the label", {"form": "{n}/{label}".format}, 'It is "NP/2".'),
    ("the bracket left in the label", {"form": "){label}/{n}".format}, 'It is "NP/2".'),
    ("label and number as two symbols", {"form": lambda label, n: [label, str(n)]},
     'It is one symbol, "NP/2".'),
    ("written where the bracket begins", {"after": False},
     "The symbol of a bracket stands after its parts."),
]  # fmt: skip


def _upwards(**slips: Any) -> Callable[[list[str]], list[str]]:
    return lambda symbols: _walk(symbols, **{"count": _parts_of, **slips})


BOTTOM_UP_MISTAKES = mistakes(
    ("nothing changed", lambda symbols: symbols,
     'Brackets that open are not written, and one that closes becomes "NP/1".'),
    ("all words inside, and the brackets that are parts",
     lambda symbols: _walk(symbols, lambda w, b, all_w, all_b: all_w + b),
     "A word in a smaller bracket is a part of that one alone."),
    ("all symbols inside",
     lambda symbols: _walk(symbols, lambda w, b, all_w, all_b: all_w + 2 * all_b),
     "A smaller bracket is one part, with all that it holds and with both its symbols."),
    ("small letters", lambda symbols: [symbol.lower() for symbol in bottom_up(symbols)],
     "Words and labels stay as they are written."),
    ("all words first",
     lambda symbols: sorted(bottom_up(symbols), key=lambda symbol: symbol != "XX"),
     "The symbol of a bracket comes right behind its last part, before the words that follow."),
    ("the number alone", _upwards(form="{n}".format),
     'The symbol of a bracket has its label as well: "NP/1".'),
    ("one count, not set to 0 by a bracket that opens", _never_at_0,
     "A bracket that opens begins a count of its own, at 0; the one around it goes on when it has "
     "closed."),
    ("the labels in the order in which brackets open", _labels_by_opening,
     "A bracket that opened later closes first: take the label of the one that closes."),
    ("the depth in place of the number of parts", _depths,
     "The number says how many parts the bracket has, not how deep it stands."),
    ("an opening bracket in front of the label", _upwards(form="({label}/{n}".format),
     'The symbol has no bracket any more: "NP/2".'),
    ("closing brackets as they are", lambda s: [x for x in s if x[0] != "("],
     'A bracket is written with its label and the number of its parts: "NP/2".'),
    ("all words of the tree counted",
     lambda s: [f"{x[1:]}/{s.count('XX')}" if x[0] == ")" else x for x in s if x[0] != "("],
     "Each bracket counts the parts that stand in it directly, words and smaller brackets."),
    ("a space before the slash", lambda s: _walk(s, _parts_of, "{label} /{n}".format),
     'A bracket is written as one symbol, without spaces: "NP/2".'),
    ("a dash in place of the slash", lambda s: _walk(s, _parts_of, "{label}-{n}".format),
     'Label and number are written with a slash: "NP/2".'),
    ("the outermost bracket left out", lambda s: bottom_up(s)[:-1],
     "The bracket around all has a symbol as well, the last one."),
    ("a backslash in place of the slash", lambda s: _walk(s, _parts_of, "{label}\\{n}".format),
     'Label and number are written with a slash: "NP/2".'),
    ("labels in small letters", lambda s: [x if x == "XX" else x.lower() for x in bottom_up(s)],
     "Labels stay as they are written."),
    ("all smaller brackets inside counted, and no words",
     lambda s: _walk(s, lambda w, b, aw, ab: ab),
     "The parts of a bracket are what stands in it directly, words as well as brackets."),
    ("label and number without a slash", lambda s: _walk(s, _parts_of, "{label}{n}".format),
     'Label and number are written with a slash between them: "NP/2".'),
    ("smaller brackets counted twice", lambda s: _walk(s, lambda w, b, aw, ab: w + 2 * b),
     "A smaller bracket is one part: count it where it opens, or where it closes."),
    ("only words counted, from 1 on", lambda s: _walk(s, lambda w, b, aw, ab: w + 1),
     "The count begins at 0, and a bracket that closes is a part of the one around it."),
    ("the count of the bracket opened first, and what closes counted for the one opened last",
     _first_count_of_what_closes,
     "The bracket that closes is the one opened last: its count is the last of the list."),
    ("a colon in place of the slash", lambda s: _walk(s, _parts_of, "{label}:{n}".format),
     'Label and number are written with a slash: "NP/2".'),
    ("all words so far counted", _words_so_far,
     "Each bracket counts its own parts, from 0 on: keep a list of counts, one for each that is "
     "open."),
    ("one count for all brackets, from 0 at each that opens", _since_it_opened,
     "A bracket goes on counting when a smaller one has closed in it: keep a list of counts."),
    ("all words inside counted", lambda s: _walk(s, lambda w, b, aw, ab: aw),
     "The parts of a bracket are what stands in it directly: a smaller bracket is one part, "
     "however many words it has."),
    ("everything inside counted", lambda s: _walk(s, lambda w, b, aw, ab: aw + ab),
     "The parts of a bracket are what stands in it directly: what is inside of a smaller bracket "
     "belongs to that one."),
    ("only smaller brackets counted", lambda s: _walk(s, lambda w, b, aw, ab: b),
     "A word that stands in the bracket directly is a part as well."),
    ("only words counted", lambda s: _walk(s, lambda w, b, aw, ab: w),
     "A bracket that closes is a part of the one around it: add one to the count there."),
    ("all smaller brackets counted, at any depth, and the words in it directly",
     lambda s: _walk(s, lambda w, b, aw, ab: w + ab),
     "Of the smaller brackets only those count that stand in the bracket directly."),
    ("one part too many", lambda s: _walk(s, lambda w, b, aw, ab: w + b + 1),
     "The count begins at 0 when the bracket opens; the bracket is no part of itself."),
    ("one part too few", lambda s: _walk(s, lambda w, b, aw, ab: w + b - 1),
     "Every word and every smaller bracket that stands in it directly is a part."),
    ("one count for each label", _one_count_a_label,
     "An NP may hold another NP, and each has its own count: keep a list of counts."),
    ("no numbers", lambda s: _walk(s, _parts_of, "{label}".format),
     "Without the number nobody knows how many parts belong to the bracket."),
    ("written where the bracket begins", lambda s: _walk(s, _parts_of, after=False),
     "The symbol of a bracket stands after its parts."),
    ("from right to left", lambda s: bottom_up(s)[::-1],
     "The words stay in their order, and a bracket comes after its parts."),
    ("the bracket left in the label", lambda s: _walk(s, _parts_of, "){label}/{n}".format),
     'The label of ")NP" is "NP", without the bracket.'),
    ("the number before the label", lambda s: _walk(s, _parts_of, "{n}/{label}".format),
     'First comes the label, then the number: "NP/2".'),
    ("label and number as two symbols",
     lambda s: _walk(s, _parts_of, lambda label, n: [label, str(n)]),
     'A bracket is written as one symbol: "NP/2".'),
    ("words left out", lambda s: [x for x in bottom_up(s) if x != "XX"],
     "Each word is written as XX, where it stands."),
    ("words with a number", lambda s: [x + "/1" * (x == "XX") for x in bottom_up(s)],
     'A word is "XX", without a number.'),
    ("brackets with one part left out", lambda s: [x for x in bottom_up(s) if not x.endswith("/1")],
     "A bracket around one part is written as well."),
    ("opening brackets left in",
     lambda s: [y for x in s for y in ([x] if x[0] == "(" else [])] + bottom_up(s),
     "Only words and the ends of brackets are written."),
    ("one text in place of a list", lambda s: " ".join(bottom_up(s)),
     "The result is a list of symbols, as the input is."),
    ("opening brackets kept, closing ones left out", lambda s: [x for x in s if x[0] != ")"],
     "That is written where a bracket begins. Here its symbol stands behind its parts, and says "
     "how many they are."),
    ("a slash between spaces", lambda s: _walk(s, _parts_of, "{label} / {n}".format),
     'A bracket is written as one symbol, without spaces: "NP/2".'),
    ("label and number with a space between them",
     lambda s: _walk(s, _parts_of, "{label} {n}".format),
     'Label and number are written with a slash: "NP/2".'),
    ("label and number as a pair of strings",
     lambda s: [tuple(x.split("/")) if "/" in x else x for x in bottom_up(s)],
     'A bracket is written as one symbol, a string: "NP/2".'),
    ("one count for all brackets, from 1 behind each that closes", _since_it_closed,
     "A bracket goes on counting when a smaller one has closed in it: keep a list of counts."),
    ("the count of the bracket opened first", _first_count,
     "The bracket that closes is the one opened last: its count is the last of the list."),
    ("label and number as a pair",
     lambda s: [(x[:x.index("/")], int(x[x.index("/") + 1:])) if "/" in x else x
                for x in bottom_up(s)],
     'A bracket is written as one symbol, a string: "NP/2".'),
    *combined(_upwards, BOTTOM_UP_SLIPS),
    ("no part counted", lambda s: _walk(s, lambda w, b, aw, ab: 0),
     "Each word and each smaller bracket adds one to the count of the bracket that it stands in, "
     "the one opened last."),
    ("two for each part", lambda s: _walk(s, lambda w, b, aw, ab: 2 * (w + b)),
     "Each part counts once."),
)  # fmt: skip


# 18.6 predict: what costs a point

CHANGES = ["same", "same", "fall", "same", "same", "fall", "same", "fall"]


def _with(**others: str) -> list[str]:
    """The right words, but for those that are named by their number: _3="same"."""
    return [others.get(f"_{i}", word) for i, word in enumerate(CHANGES, 1)]


SLIPS = {
    1: "ADVP and PRT count as one label",
    2: "a bracket TOP around everything does not count",
    3: "a second S is not left out as TOP is, and costs precision",
    4: "punctuation is deleted before spans are counted, and so is a bracket around nothing else",
    5: "what is left out counts nowhere",
    6: "counted as empty, a sentence's true brackets are all missed",
    7: "tags are no brackets",
    8: "a bracket around one word is no tag, and costs precision",
}
NAMED = ({1, 2}, {3, 8}, {2, 4}, {5, 6}, {1, 7})  # pairs that have a row of their own


def several_slips() -> Iterable[tuple[str, list[str], str]]:
    """Rows for several wrong words at once."""
    for n in range(2, 8):
        for wrong in combinations(SLIPS, n):
            other = {f"_{i}": "fall" if CHANGES[i - 1] == "same" else "same" for i in wrong}
            alone = len({*_with(**other)}) == 1  # everything costs, or nothing does
            if set(wrong) in NAMED or alone:
                continue
            why = "; ".join(f"{i}. {SLIPS[i]}" for i in wrong)
            title = f"{', '.join(map(str, wrong[:-1]))} and {wrong[-1]} are wrong"
            yield title, _with(**other), why[:1].upper() + why[1:] + "."


CHANGE_MISTAKES = mistakes(
    ("as if everything cost a point", ["fall"] * 8,
     "Read EVALB's five rules again: most of these changes are about what they take out."),
    ("as if nothing cost a point", ["same"] * 8,
     "A bracket that the true tree does not have costs precision, and a sentence without brackets "
     "costs recall."),
    ("as if PRT were another label",
     _with(_1="fall"), "By rule 4, ADVP and PRT are the same label."),
    ("as if TOP counted", _with(_2="fall"),
     "By rule 3, a bracket TOP around everything does not count."),
    ("as if TOP and PRT counted", _with(_1="fall", _2="fall"),
     "By rules 3 and 4, TOP does not count, and PRT is ADVP."),
    ("as if S were left out as TOP is", _with(_3="same"),
     "Only TOP is left out. A second S is one bracket more that is not in the true tree."),
    ("as if a bracket more were free", _with(_3="same", _8="same"),
     "All true brackets are found, so the recall stays. The precision falls, and F1 with it."),
    ("as if the full stop counted", _with(_4="fall"),
     "By rule 2 punctuation is deleted first, and FRAG around nothing else goes with it. S then "
     "ends where it always did."),
    ("as if punctuation and TOP counted", _with(_2="fall", _4="fall"),
     "By rules 2 and 3, TOP does not count, and neither does a bracket around punctuation only."),
    ("as if what is left out were lost", _with(_5="fall"),
     "Left out means that the sentence counts nowhere. What is left is perfect."),
    ("as if what is unreadable cost nothing", _with(_6="same"),
     "Counted as empty, the sentence's true brackets are all missed: the recall is about a half."),
    ("left out and empty exchanged", _with(_5="fall", _6="same"),
     "Left out, a sentence counts nowhere. Counted as empty, its true brackets are all missed."),
    ("as if tags counted", _with(_7="fall"),
     "By rule 1 tags are no brackets; and punctuation is known by the true tree's tags."),
    ("as if tags and PRT counted", _with(_1="fall", _7="fall"),
     "By rule 1 tags are no brackets, and by rule 4 PRT is ADVP."),
    ("as if brackets around one word were tags", _with(_8="same"),
     "X is a bracket around a tag with its word, and counts as any other: the precision falls."),
    ("the other way round", ["fall", "fall", "same", "fall", "fall", "same", "fall", "same"],
     "Asked is whether F1 stays the same or falls below 100."),
    *several_slips(),
)  # fmt: skip


# 18.7 which symbols may come next, four mistakes


def next_symbols(written: list[str], n_words: int, openings: set[str]) -> set[str]:
    return _next()(written, n_words, openings)


def _open(written: list[str]) -> list[str]:
    """The labels of the brackets that are open, the last one last."""
    labels: list[str] = []
    for symbol in written:
        if symbol[0] == "(":
            labels.append(symbol[1:])
        elif symbol[0] == ")":
            labels.pop()
    return labels


def _next(
    first: bool = False,  # the bracket opened first closes
    late: bool = False,  # brackets open when no word is left
    outside: bool = False,  # words outside of all brackets
    early: bool = False,  # the outermost bracket closes too early
    empty: bool = False,
    never: bool = False,
    end: str = "<eos>",
    label: bool = False,
    inside: bool = False,
) -> Callable[..., set[str]]:
    """The rule, right by default; each argument makes one mistake."""

    def rule(written: list[str], n_words: int, openings: set[str]) -> set[str]:
        opened, words = [], 0
        for symbol in written:
            if symbol == "XX":
                words += 1
            elif symbol[0] == "(":
                opened.append(symbol[1:])
            else:
                opened.pop(0 if first else -1)
        if written and not opened:
            return {end} if end else set()
        left = words < n_words
        following = set(openings) if left or late else set()
        if left and (opened or outside):
            following.add("XX")
        fresh = bool(written) and written[-1][0] == "("
        only = len(opened) == 1 and left
        if opened and (empty or not fresh) and (early or not only):
            following.add(")" + opened[-1])
            if label:
                following |= {")" + name[1:] for name in openings}
        if never and left:
            following = {symbol for symbol in following if symbol[0] != ")"}
        if inside and opened and left:
            following -= set(openings)
        return following

    return rule


def next_cases() -> list[tuple]:
    whole = [
        "(S (NP XX )NP (VP XX (NP (NP XX )NP XX )NP )VP XX )S",
        "(S (NP (NP XX )NP XX )NP )S",
        "(NP XX )NP",
        "(S XX (VP (NP XX )NP )VP )S",
    ]
    cases: list[tuple] = [(["(S"], 1, {"(S"})]
    for text in whole:
        symbols = text.split()
        n = symbols.count("XX")
        cases += [(symbols[:i], n, {"(S", "(NP", "(VP"}) for i in range(len(symbols) + 1)]
    return cases


def _set_of_symbols(output: object) -> set[str] | str:
    if isinstance(output, str):  # one symbol, not a set of its letters
        return output
    return {str(symbol) for symbol in output}  # type: ignore[attr-defined]


FOUR = {
    "first": ("the bracket opened first closes",
              "Brackets are nested: the one opened last closes first, `opened.pop()`."),
    "late": ("brackets open when no word is left",
             "A bracket that opens has to get a word, or it can never close: as long as words are "
             "left."),
    "outside": ("words outside of all brackets",
                "The first symbol opens the outermost bracket; every word is in it."),
    "early": ("the outermost bracket closes while words are left",
              "Behind it only the end may come, and the words that are left stand nowhere."),
}  # fmt: skip


def still_wrong(names: tuple[str, ...]) -> tuple[str, Callable[..., set[str]], str]:
    """A row of the bank in which these of the four mistakes are left."""
    known = " and ".join(FOUR[name][0] for name in names)
    left = (
        f"{len(FOUR) - len(names)} mended, left is" if len(names) < len(FOUR) else "nothing mended"
    )
    title = f"{left}: {known}" if len(names) < len(FOUR) else "nothing mended"
    why = FOUR[names[0]][1] if len(names) < len(FOUR) else (
        "Read the four rules and look for the line of each: two conditions are missing, one is too "
        "weak, and one pop takes the wrong end."
    )  # fmt: skip
    return title, _next(**dict.fromkeys(names, True)), why


def _end_early(written: list[str], n_words: int, openings: set[str]) -> set[str]:
    last = written[-1:] == ["XX"] and written.count("XX") == n_words
    return next_symbols(written, n_words, openings) | ({"<eos>"} if last else set())


ALSO_WRONG = [
    *((name, {key: True}, why) for key, (name, why) in FOUR.items()),
    ("empty brackets close", {"empty": True}, "A bracket must hold something."),
    ("no bracket closes while words are left", {"never": True},
     "Only the outermost bracket waits for the last word."),
    ("no end", {"end": ""}, "When the outermost bracket has closed, <eos> may come."),
    ("another sign for the end", {"end": "</s>"}, 'The end is "<eos>".'),
    ("any label closes", {"label": True}, "A bracket closes with its own label."),
    ("no bracket opens in a bracket", {"inside": True},
     "A smaller bracket may open wherever a word may stand."),
]  # fmt: skip
NEXT_KNOWN = [
    *combinations([name for name, _ in FOUR.values()], 2),
    ("the outermost bracket closes while words are left", "no bracket closes while words are left"),
    ("no bracket closes while words are left", "any label closes"),
    ("the bracket opened first closes", "any label closes"),
    ("empty brackets close", "no bracket closes while words are left"),
]


def _complete(written: list[str]) -> bool:
    return sum({"(": 1, ")": -1}.get(symbol[0], 0) for symbol in written) == 0


def _closes_at_once(written: list[str], n_words: int, openings: set[str]) -> set[str]:
    fresh = bool(written) and written[-1][0] == "("
    more = {")" + written[-1][1:]} if fresh else set()
    return next_symbols(written, n_words, openings) | more


def _opens_first_alone(written: list[str], n_words: int, openings: set[str]) -> set[str]:
    found = next_symbols(written, n_words, openings)
    return found if not written or written[-1][0] == "(" else found - {*openings}


def _more_behind(written: list[str], n_words: int, openings: set[str], kinds: str) -> set[str]:
    found = next_symbols(written, n_words, openings)
    if "<eos>" in found:
        more = {"(": openings, "X": {"XX"}, ")": {written[-1]}}
        found = found.union(*(more[kind] for kind in kinds))
    return found


NEXT_MISTAKES = mistakes(
    ("the bracket that has just opened does not open again",
     lambda w, n, o: next_symbols(w, n, o) - ({w[-1]} if w and w[-1][0] == "(" else set()),
     "A bracket may begin with one of its own label: `(NP (NP XX )NP XX )NP`."),
    *((f"{words} behind the complete tree", partial(_more_behind, kinds=kinds),
       "Where the outermost bracket has closed, only the end may come.")
      for words, kinds in (
          ("opening brackets", "("), ("words", "X"), ("words and opening brackets", "X("),
          ("a closing bracket", ")"), ("all symbols", "X()"),
      )),
    ("words without an end",
     lambda w, n, o: next_symbols(w, n, o) | ({"XX"} if w and not _complete(w) else set()),
     "A tree over `n_words` words has so many, and not one more."),
    ("no bracket opens right behind another",
     lambda w, n, o: next_symbols(w, n, o) - ({*o} if w and w[-1][0] == "(" else set()),
     "A bracket may begin with a smaller one: `(S (NP XX )NP )S`."),
    ("an error where nothing is written", lambda w, n, o: next_symbols(w, n, o) if w[-1] else set(),
     "At the beginning nothing is written: look whether there is a last symbol before you read "
     "it."),
    ("the end where nothing is written yet",
     lambda w, n, o: next_symbols(w, n, o) | (set() if w else {"<eos>"}),
     "No symbols are no tree: first the outermost bracket opens."),
    ("the end in place of the closing brackets",
     lambda w, n, o: {"<eos>"} if w and w.count("XX") == n else next_symbols(w, n, o),
     "When the last word is written the open brackets close, one after the other; the end comes "
     "behind the outermost."),
    ("one symbol alone", lambda w, n, o: min(next_symbols(w, n, o)),
     "Asked for is the set of all symbols that may come next."),
    ("a bracket closes right after it has opened, the outermost as well", _closes_at_once,
     "A bracket must hold something: after an opening one come a word or another opening one."),
    ("brackets open behind an opening one alone", _opens_first_alone,
     "A bracket may also open behind a word, or behind one that has closed, as long as words are "
     "left."),
    ("closing brackets without a label",
     lambda w, n, o: {")" if x[0] == ")" else x for x in next_symbols(w, n, o)},
     'A closing bracket has the label of the one opened last: ")NP".'),
    ("the end at any time", lambda w, n, o: next_symbols(w, n, o) | {"<eos>"},
     "The end comes when the outermost bracket has closed; before that it cannot."),
    ("the outermost bracket never closes",
     lambda w, n, o: {
         x for x in next_symbols(w, n, o)
         if x[0] != ")" or sum((y[0] == "(") - (y[0] == ")") for y in w) > 1
     },
     "When the last word is written and all others have closed, the outermost bracket closes."),
    ("no bracket opens behind a word",
     lambda w, n, o: next_symbols(w, n, o) - (set(o) if w[-1:] == ["XX"] else set()),
     "A smaller bracket may open wherever a word may stand, behind another word as well."),
    ("no word behind a bracket that has closed",
     lambda w, n, o: next_symbols(w, n, o) - ({"XX"} if w and w[-1][0] == ")" else set()),
     "A word may stand behind a smaller bracket, as long as the one around it is open."),
    *[still_wrong(names) for n in (4, 3, 2, 1) for names in combinations(FOUR, n)],
    ("empty brackets close", _next(empty=True),
     "A bracket must hold something: it may not close right after it opened."),
    ("no bracket closes while words are left", _next(never=True),
     "Only the *outermost* bracket waits for the last word. Others may close before."),
    ("no end", _next(end=""),
     "When the outermost bracket has closed, <eos> may come, and only that."),
    ("another sign for the end", _next(end="</s>"), 'The end is "<eos>".'),
    ("the end with the last word", _end_early,
     "The end comes when the outermost bracket has closed; before that it cannot."),
    ("the outermost bracket must be S",
     lambda w, n, o: next_symbols(w, n, o) if w else {"(S"},
     "A tree may have any label at its top: every opening bracket may come first."),
    ("nothing may come first", lambda w, n, o: next_symbols(w, n, o) if w else set(),
     "At the beginning any opening bracket may come."),
    ("any label closes", _next(label=True),
     "A bracket closes with its own label, that of the bracket opened last."),
    ("no bracket opens in a bracket", _next(inside=True),
     "A smaller bracket may open wherever a word may stand."),
    ("the end as soon as no word is left",
     lambda w, n, o: next_symbols(w, n, o) | ({"<eos>"} if w and w.count("XX") == n else set()),
     "The end comes when the outermost bracket has closed; before that it cannot."),
    ("no bracket opens behind one that has closed",
     lambda w, n, o: next_symbols(w, n, o) - (set(o) if w and w[-1][0] == ")" else set()),
     "A bracket may have several smaller ones in it, one behind the other."),
    ("no word right behind a bracket that opens",
     lambda w, n, o: next_symbols(w, n, o) - ({"XX"} if w and w[-1][0] == "(" else set()),
     "A bracket may hold a word at once: with words left, XX may follow."),
    ("a bracket may not hold one of its own label",
     lambda w, n, o: next_symbols(w, n, o) - {"(" + label for label in _open(w)[-1:]},
     "Labels do not matter for what may open: an NP often holds an NP."),
    ("the end beside the last bracket that closes",
     lambda w, n, o: next_symbols(w, n, o) | (
         {"<eos>"} if len(_open(w)) == 1 and any(x[0] == ")" for x in next_symbols(w, n, o))
         else set()
     ),
     "The outermost bracket closes first, and the end comes behind it."),
    ("every open bracket may close",
     lambda w, n, o: next_symbols(w, n, o) | (
         {")" + x[1:] for x in w if x[0] == "("}
         if any(x[0] == ")" for x in next_symbols(w, n, o)) else set()
     ),
     "Only the bracket opened last may close; those around it come after."),
    ("a bracket opens only for two words",
     lambda w, n, o: next_symbols(w, n, o) - (
         set(o) if w and n - w.count("XX") < 2 else set()
     ),
     "A bracket around a single word is a bracket, too: one word that is left is enough."),
    ("a bracket opens only for two words, the outermost too",
     lambda w, n, o: next_symbols(w, n, o) - (set(o) if n - w.count("XX") < 2 else set()),
     "A bracket around a single word is a bracket, too: one word that is left is enough."),
    ("one word too many", lambda w, n, o: next_symbols(w, n + 1, o),
     "With `n_words` words written, no other may come: `words < n_words`."),
    ("one word too few", lambda w, n, o: next_symbols(w, n - 1, o),
     "As long as fewer than `n_words` words are written, another may come: `words < n_words`."),
    ("one word too many let through",
     lambda w, n, o: next_symbols(w, n, o) | (
         {"XX", *o} if _open(w) and w.count("XX") == n else set()
     ),
     "Where `n_words` words are written, no other may come, and no bracket that would need one: "
     "`words < n_words`."),
    ("where the bracket opened last may close, all may",
     lambda w, n, o: (
         lambda right: right | {
             ")" + label for label in _open(w) if any(x[0] == ")" for x in right)
         }
     )(next_symbols(w, n, o)),
     "Only the bracket that was opened last may close next."),
    ("no bracket closes behind one that has closed",
     lambda w, n, o: {
         x for x in next_symbols(w, n, o) if x[0] != ")" or not w or w[-1][0] != ")"
     },
     "A bracket may close with another one: only one that holds nothing may not."),
    ("the label of the outermost bracket closes",
     lambda w, n, o: {")" + w[0][1:] if x[0] == ")" else x for x in next_symbols(w, n, o)},
     "Brackets are nested: the one opened last closes first, with its own label."),
    *combined(_next, ALSO_WRONG, NEXT_KNOWN),
    ("never a word", lambda w, n, o: next_symbols(w, n, o) - {"XX"},
     "In a bracket that is open a word may come, as long as fewer than `n_words` are written."),
    ("never a closing bracket",
     lambda w, n, o: {x for x in next_symbols(w, n, o) if x[0] != ")"},
     'The bracket opened last may close, if it holds something: ")" with its label.'),
    ("never an opening bracket", lambda w, n, o: next_symbols(w, n, o) - set(o),
     "As long as a word is left, a bracket may open."),
    ("nothing but the end", lambda w, n, o: {"<eos>"},
     "The end comes when something is written and no bracket is open any more."),
    ("the end as soon as anything is written",
     lambda w, n, o: {"<eos>"} if w else next_symbols(w, n, o),
     "The end comes when no bracket is open any more."),
    ("the end before anything is written",
     lambda w, n, o: next_symbols(w, n, o) if w else {"<eos>"},
     "At the beginning nothing is open either, and the outermost bracket is to open."),
    ("what closes written as what opens",
     lambda w, n, o: {x.replace(")", "(") for x in next_symbols(w, n, o)},
     'A closing bracket is written ")NP", with the bracket that closes.'),
    ("a word alone taken for a tree of one word",
     lambda w, n, o: next_symbols(w, n, o) | ({"XX"} if not w and n == 1 else set()),
     "There is an outermost bracket, also around a single word."),
    ("a word at any time",
     lambda w, n, o: (lambda right: right if right == {"<eos>"} else right | {"XX"})(
         next_symbols(w, n, o)
     ),
     "A word needs an open bracket around it, and there are `n_words` of them."),
)  # fmt: skip


# 18.8 a case in which two means disagree


TURNED = "the two parsers exchanged: the first is the second, and the second the first"
ORDERS = {  # in which a parser stands where the true brackets should
    (1, 0, 2): "(first, true, second)",
    (1, 2, 0): "(first, second, true)",
    (2, 0, 1): "(second, true, first)",
    (2, 1, 0): "(second, first, true)",
}


class Found(list):
    """What is found of a paradox, and the numbers that say why."""

    f1: tuple[list[float], list[float]] = ([], [])
    orders: Sequence[str] = ()  # in which the three lists would be one


def _f1_of(true: list, first: list, second: list) -> tuple[list[float], list[float]]:
    """F1 of the two parsers over all brackets together, and their means of the sentences' F1."""
    pooled = [corpus_f1(true, given) for given in (first, second)]
    return pooled, [_mean(_each(true, given)) for given in (first, second)]


def _does_it(f1: tuple[list[float], list[float]]) -> tuple[bool, bool]:
    pooled, means = f1
    return pooled[0] > pooled[1] + 1e-9, means[0] < means[1] - 1e-9


def disagreement(paradox: Any) -> list[object]:
    """What is unfit in the three lists, if anything, and whether each method prefers its own."""
    try:
        lists = [
            [[(label, int(a), int(b)) for label, a, b in brackets] for brackets in trees]
            for trees in paradox
        ]
        true, first, second = lists
    except (TypeError, ValueError):
        return ["the form", False, False]
    every = [brackets for trees in lists for brackets in trees]
    if any(len(trees) != 2 for trees in lists):
        return ["the form", False, False]
    if not all(every):
        return ["empty", False, False]
    if any(len(set(x)) < len(x) for x in every) or any(a >= b for x in every for _, a, b in x):
        return ["brackets", False, False]
    f1 = _f1_of(true, first, second)
    done = _does_it(f1)
    if all(_does_it(_f1_of(true, second, first))):
        return [TURNED, *done]
    found = Found(["fit", *done])
    found.f1 = f1
    for order, name in ORDERS.items():  # where which list stands in a triple that does it
        if not all(done) and all(_does_it(_f1_of(*(lists[order.index(k)] for k in range(3))))):
            found.orders = [*found.orders, name]
    return found


def _compared(a: float, b: float) -> str:
    size = "equal to" if abs(a - b) <= 1e-9 else "more than" if a > b else "less than"
    return f"{a:.4g} for the first, {size} {b:.4g} for the second"


def _which_is_ahead(
    cases: Sequence[Case], got: Sequence[Any], want: Sequence[Any]
) -> tuple[str, str] | None:
    """The numbers of a paradox that is none."""
    if not isinstance(got[0], Found):
        return None
    pooled, means = got[0].f1
    first_ahead, second_ahead = _does_it(got[0].f1)
    names, reasons = [], []
    if not first_ahead:
        names.append("the sum of all counts does not prefer the first")
        reasons.append("Let the first parser have more brackets right in all.")
    if not second_ahead:
        names.append("the mean of the sentences does not prefer the second")
        reasons.append(
            "Let one sentence be much smaller than the other, and the second parser be better "
            "there: in a mean of sentences it weighs as much."
        )
    if all(abs(a - b) <= 1e-9 for a, b in zip(pooled, means, strict=True)):
        reasons = ["The two ways do not differ here: make one sentence much larger than the other."]
    numbers = (
        f"F1 over all brackets together is {_compared(*pooled)}; the mean of the sentences' F1 is "
        f"{_compared(*means)}."
    )
    if got[0].orders:
        reasons.append(
            f"(Read as {' or '.join(got[0].orders)} the three lists would do. Do the true brackets "
            "stand first, as you meant them?)"
        )
    return ", and ".join(names), " ".join([numbers, *reasons])


_LARGE = [("NP", i, i + 1) for i in range(8)]
_WRONG = [("X", i, i + 1) for i in range(8)]
_SMALL, _OFF = [("S", 0, 2)], [("VP", 0, 2)]
PARADOX = ([_LARGE, _SMALL], [_LARGE, _OFF], [_LARGE[:4] + _WRONG[4:], _SMALL])

PARADOX_MISTAKES = mistakes(
    (TURNED, tuple(PARADOX[k] for k in (0, 2, 1)),
     "By the sum of all counts your second is ahead, and by the mean of the sentences your first. "
     "The triple is (true, first, second)."),
    ("a sentence without brackets", ([_LARGE, _SMALL], [_LARGE, []], [_LARGE[:4], _SMALL]),
     "Every list has at least one bracket; a wrong one will do."),
    ("not three lists of two sentences each", (_LARGE, _SMALL),
     "`paradox` is a triple (true, first, second). Each of them is a list of two sentences, each "
     "sentence a list of brackets, also where there is one bracket, and a bracket is (label, "
     "start, end)."),
    ("a bracket twice, or one that ends where it starts",
     ([_LARGE, _SMALL], [_LARGE, _SMALL * 2], [_LARGE[:4], _SMALL]),
     "No bracket is twice in a list, and start is below end."),
)  # fmt: skip


# 18.9 how many trees


def count_trees(n: int, labels: int) -> int:
    return _counted(n, labels)


def _counted(
    n: int,
    labels: int,
    least: int = 2,
    binary: bool = False,
    of_part: bool = False,
    chosen: bool = True,
    alone: bool = True,
) -> int:
    """Trees over n words; each argument makes one mistake."""
    parts, rows = [0, labels if of_part else 1], [1, labels if of_part else 1]
    for k in range(2, n + 1):
        if binary:
            several = sum(parts[i] * parts[k - i] for i in range(1, k))
        else:
            several = sum(parts[i] * rows[k - i] for i in range(1, k))
        parts.append((labels if chosen else 1) * several)
        rows.append(several + parts[k] * alone)
    return parts[n]


TREE_COUNT_CASES = [
    (2, 1),
    (3, 1),
    (3, 2),
    (2, 5),
    (4, 1),
    (4, 3),
    (5, 1),
    (6, 2),
    (9, 4),
    (200, 3),
]


def _whole(output: object) -> str:
    """A whole number in digits. A float says that it is one, to ten digits: sums round."""
    if isinstance(output, list | tuple) and len(output) == 1:
        output = output[0]
    if isinstance(output, Tensor | np.ndarray) and math.prod(output.shape) == 1:
        output = output.reshape(-1)[0].item()
    if isinstance(output, str):
        return f"{output} (a string)"
    return f"{output:.10g} (a float)" if isinstance(output, float) else str(output)


def _rounded(output: str, true: int) -> bool:
    """Whether so many digits are right as a float has, and not many more: a count that is wrong by
    one tree, or by a few, has most of 200 digits right."""
    off = abs(int(output) - true) if output.isdigit() else 0
    return true / 10**20 < off < true / 10**9


def _rows_of_rows(n: int, labels: int) -> int:
    rows, tree = [1, 1], 0
    for k in range(2, n + 1):
        several = sum(rows[i] * rows[k - i] for i in range(1, k))
        tree = labels * several
        rows.append(several + tree)
    return tree


def _two_or_three(n: int, labels: int) -> int:
    found, two = [0, 1], [0, 0]
    for k in range(2, n + 1):
        two.append(sum(found[i] * found[k - i] for i in range(1, k)))
        three = sum(found[i] * two[k - i] for i in range(1, k - 1))
        found.append(labels * (two[k] + three))
    return found[n]


def _flat_or_two(n: int, labels: int) -> int:
    found = [0, 1, labels]
    for k in range(3, n + 1):
        found.append(labels * (1 + sum(found[i] * found[k - i] for i in range(1, k))))
    return found[n]


def _with_unary(n: int, labels: int) -> int:
    parts, rows = [0, 1 + labels], [1, 1 + labels]
    for k in range(2, n + 1):
        several = sum(parts[i] * rows[k - i] for i in range(1, k))
        parts.append(labels * several)
        rows.append(several + parts[k])
    return parts[n]


def _unlabelled_rows(n: int, labels: int) -> int:
    parts, rows = [0, 1], [1, 1]
    for k in range(2, n + 1):
        several = sum(parts[i] * rows[k - i] for i in range(1, k))
        parts.append(labels * several)
        rows.append(2 * several)
    return parts[n]


def _first_part_short(n: int, labels: int) -> int:
    parts, rows = [0, 1], [1, 1]
    for k in range(2, n + 1):
        several = sum(parts[i] * rows[k - i] for i in range(1, k // 2 + 1))
        parts.append(labels * several)
        rows.append(several + parts[k])
    return parts[n]


COUNT_TREE_MISTAKES = mistakes(
    ("a string", lambda n, labels: str(count_trees(n, labels)),
     "Asked for is a whole number, not its digits in quotes."),
    ("a row in place of the first part", _rows_of_rows,
     "The first part of a bracket is a word or a smaller bracket. With a row there, each row is "
     "counted once for every place where it can be cut."),
    ("brackets around single words as well", _with_unary,
     "Each bracket has at least two parts: a word alone has none around it."),
    ("one label more", lambda n, labels: count_trees(n, labels + 1),
     "A bracket is there or not already: no label stands for none."),
    ("the outermost bracket there or not", lambda n, labels: (labels + 1) * count_trees(n, labels),
     "There is one outermost bracket in every tree."),
    ("the number of spans", lambda n, labels: n * (n + 1) // 2 * labels,
     "So many brackets could be in a tree. Asked for is in how many ways some of them form one."),
    ("the ways to cut a row, without labels", lambda n, labels: 2 ** (n - 1),
     "That cuts the words into parts once. Brackets may hold brackets, to any depth; and each has "
     "a label."),
    ("a bracket or none at each place between words", lambda n, labels: (labels + 1) ** (n - 1),
     "Brackets may hold brackets, to any depth: count by the parts of the outermost one."),
    ("the logarithm", lambda n, labels: math.log(count_trees(n, labels)),
     "Asked for is the number itself."),
    ("as if each bracket had two parts or three", _two_or_three,
     "A bracket may have any number of parts from two on: `(S XX XX XX XX )S` is a tree."),
    ("floating-point numbers", lambda n, labels: float(count_trees(n, labels)),
     "A float has sixteen digits, and for 200 words there are many more. Count in whole numbers, "
     "and divide by `//`."),
    ("one more than there are", lambda n, labels: count_trees(n, labels) + 1,
     "What is counted besides? A tree has one outermost bracket, around at least two parts."),
    ("the brackets that there may be", lambda n, labels: n * (n - 1) // 2 * labels,
     "That is how many brackets a tree may have to choose from. A tree is a set of them that fit "
     "together."),
    ("trees over fewer words counted as well",
     lambda n, labels: sum(_counted(k, labels) for k in range(2, n + 1)),
     "Asked for are the trees over exactly `n` words."),
    ("the rows of one word fewer",
     lambda n, labels: (
         _counted(n - 1, labels) + _counted(n - 1, labels) // labels if n > 2 else 1
     ),
     "Rows of parts over n - 1 words are what stands behind a first word. A first part may also be "
     "a bracket."),
    ("rows of one part left out", lambda n, labels: _counted(n, labels, alone=False),
     "What follows the first part of a bracket may be one part over all that is left: "
     "s(k) counts rows of one part as well."),
    ("an overflow of whole numbers of 64 bits",
     lambda n, labels: (_counted(n, labels) + 2**63) % 2**64 - 2**63,
     "Numbers of numpy and torch have 64 bits, and these are far larger: take Python's whole "
     "numbers, which have no end."),
    ("as if each bracket had two parts", lambda n, labels: _counted(n, labels, binary=True),
     "A bracket may have more than two parts: `(S XX XX XX )S` is a tree."),
    ("an overflow of whole numbers of 64 bits without a sign",
     lambda n, labels: _counted(n, labels) % 2**64,
     "Numbers of numpy and torch have 64 bits, and these are far larger: take Python's whole "
     "numbers, which have no end."),
    ("rows in which a part over all has no label", _unlabelled_rows,
     "A row of one part over all is a bracket with one of its labels: s(k) is the rows of at least "
     "two parts and f(k), not twice the first."),
    ("a first part no longer than what is behind it", _first_part_short,
     "The first part of a bracket may be the longer one, too: `(S (S XX XX )S XX )S` is a tree."),
    ("as if each bracket had two parts, and the tree one label",
     lambda n, labels: labels * _counted(n, 1, binary=True),
     "A bracket may have more than two parts, and each bracket has a label of its own."),
    ("as if each bracket had two parts and no label", lambda n, labels: _counted(n, 1, binary=True),
     "Those are Catalan's numbers. A bracket may have more than two parts, and has a label."),
    ("labels not counted", lambda n, labels: _counted(n, 1),
     "Each bracket has one of `labels` labels, and trees with other labels are others."),
    ("one label for the whole tree", lambda n, labels: labels * _counted(n, 1),
     "Each bracket has a label of its own."),
    ("as many labels as a tree of pairs has", lambda n, labels: labels ** (n - 1) * _counted(n, 1),
     "A tree has n - 1 brackets only if each has two parts. Others have fewer, and fewer labels."),
    ("as if words had labels as well", lambda n, labels: _counted(n, labels, of_part=True),
     "A word is a part as it is, without a label."),
    ("only one level", lambda n, labels: labels * 2 ** (n - 1) - labels,
     "Brackets may hold brackets, to any depth."),
    ("rows of parts in place of trees",
     lambda n, labels: _counted(n, labels) + _counted(n, labels) // labels,
     "That is s(n), in which a row may stand without a bracket around all of it. There is one "
     "outermost bracket."),
    ("one word more", lambda n, labels: _counted(n + 1, labels), "`n` is the number of words."),
    ("one word fewer", lambda n, labels: _counted(n - 1, labels) if n > 2 else 1,
     "`n` is the number of words."),
    ("the outermost label forgotten", lambda n, labels: _counted(n, labels) // labels,
     "The outermost bracket has a label, too."),
    ("a float", lambda n, labels: float(min(_counted(n, labels), 10**15)),
     "The numbers are whole, and soon too large for a float: add and multiply whole numbers."),
    ("a float, infinite where it is too large",
     lambda n, labels: float(_counted(n, labels)) if n < 100 else math.inf,
     "The numbers are whole, and soon too large for a float: add and multiply whole numbers."),
    ("powers of two", lambda n, labels: labels * 2 ** (n - 2),
     "1, 3, 11: the row grows faster. Brackets may hold brackets, to any depth."),
    ("all words in one bracket, or two parts", _flat_or_two,
     "Between a row of words and two parts there are brackets of three parts and more, some of "
     "them brackets."),
    ("powers of the number of labels", lambda n, labels: labels ** (n - 1),
     "A bracket may hold two parts or many, each of them a word or a bracket: count these shapes, "
     "each with its labels."),
    ("one shape for each number of brackets",
     lambda n, labels: sum(labels**b for b in range(1, n)),
     "There are several shapes with the same number of brackets."),
    ("powers of three", lambda n, labels: labels * 3 ** (n - 2),
     "1, 3, and then 11, not 9: the row does not go on as its first two numbers suggest."),
    ("Catalan's numbers", lambda n, labels: math.comb(2 * n, n) // (n + 1),
     "The n-th of them counts the trees over n + 1 words whose brackets have two parts each. A "
     "bracket may have more than two parts, and has a label."),
    ("twice as many", lambda n, labels: 2 * _counted(n, labels),
     "Those are Schröder's *large* numbers: there, a bracket around all is there or not. Here "
     "there is one outermost bracket."),
    ("the ways to cut a row", lambda n, labels: labels * 2 ** (n - 1),
     "That cuts the words into parts once. Brackets may hold brackets, to any depth; and one part "
     "alone is no bracket."),
    ("the outermost label counted twice", lambda n, labels: labels * count_trees(n, labels),
     "The outermost bracket is one of the brackets of the tree, and its label is chosen once."),
    ("labels to the power of the words", lambda n, labels: labels**n * count_trees(n, 1),
     "Words have no labels: a tree has one label for each of its brackets, of which there may be "
     "one or n - 1."),
    ("none at all", lambda n, labels: 0,
     "All begins with a single word, which is one part: it counts 1. Does the loop reach `n`?"),
    ("each tree counted once for each word", lambda n, labels: n * count_trees(n, labels),
     "The number of shapes with b brackets is divided by n."),
    ("labels times the number of brackets",
     lambda n, labels: sum(
         math.comb(n - 2, b - 1) * math.comb(n + b - 1, b) * labels * b // n for b in range(1, n)
     ),
     "Each of the b brackets has one of the labels: labels to the *power* of b."),
    ("the tree of one bracket left out", lambda n, labels: count_trees(n, labels) - labels,
     "All words in one bracket are a tree, too."),
)  # fmt: skip


EXERCISES = [
    Exercise(
        number="18.1",
        title="a score by hand",
        section="How a tree is scored",
        reference=10 / 11,
        mistakes=[*BY_HAND_MISTAKES, *other_counts()],
        rtol=2e-3,
    ),
    Exercise(
        number="18.2",
        title="from spans back to a tree",
        section="A tree as a sequence",
        reference=write_tree,
        cases=span_cases,
        mistakes=WRITE_MISTAKES,
        canonical=lambda output: output if isinstance(output, str) else list(output),
        invariants=[
            Invariant(
                "one list of symbols, each of the three kinds",
                lambda output, spans: all(
                    isinstance(x, str) and (x == "XX" or x[:1] in ("(", ")")) for x in output
                ),
                'A symbol is a string: "(NP" opens, ")NP" closes, and every word is "XX".',
            ),
            Invariant(
                "each word is written once",
                lambda output, spans: output.count("XX") == max(x[2] for x in spans),
                "There are as many words as the outermost bracket has, however many brackets are "
                "around a word.",
            ),
            Invariant(
                "two symbols for each bracket, and one for each word",
                lambda output, spans: len(output) == 2 * len(spans) + max(x[2] for x in spans),
                "A tree of n words and b brackets has n + 2 b symbols.",
            ),
        ],
    ),
    Exercise(
        number="18.3",
        title="is it a tree",
        section="Which sequences are trees",
        reference=lambda symbols, n_words: well_formed(symbols, n_words),
        cases=tree_cases,
        mistakes=TREE_MISTAKES,
        canonical=plain_word,
    ),
    Exercise(
        number="18.4",
        title="a test for a score",
        section="How a tree is scored",
        reference=scores_right,
        cases=[(name,) for name in SCORES],
        mistakes=SCORE_TEST_MISTAKES,
        invariants=rules(RIGHT_SCORES, MISSED_SCORES),
        probe=run_score_test,
        together=spoken,
    ),
    Exercise(
        number="18.5",
        title="another way to write a tree",
        section="A tree as a sequence",
        reference=bottom_up,
        cases=symbol_cases,
        mistakes=BOTTOM_UP_MISTAKES,
        canonical=lambda output: output if isinstance(output, str) else list(output),
        invariants=[
            Invariant(
                "as many symbols as words and brackets",
                lambda output, symbols: (
                    len(output) == len(symbols) - sum(x[0] == "(" for x in symbols)
                ),
                "Each word and each bracket gives one symbol.",
            )
        ],
    ),
    Exercise(
        number="18.6",
        title="predict, then try: what costs a point",
        section="How a tree is scored",
        reference=CHANGES,
        mistakes=CHANGE_MISTAKES,
        canonical=lambda output: [
            word.strip().lower().removesuffix("s") if isinstance(word, str) else word
            for word in (words(output) if isinstance(output, str) else output)
        ],
        invariants=[
            Invariant(
                'eight words, each "same" or "fall"',
                lambda said: len(said) == 8 and {*said} <= {"same", "fall"},
                "After each of the eight changes F1 has one of these two answers.",
            )
        ],
    ),
    Exercise(
        number="18.7",
        title="find the mistakes",
        section="Which sequences are trees",
        reference=next_symbols,
        cases=next_cases,
        mistakes=NEXT_MISTAKES,
        canonical=_set_of_symbols,
    ),
    Exercise(
        number="18.8",
        title="design: which parser is better",
        section="How a tree is scored",
        reference=PARADOX,
        mistakes=PARADOX_MISTAKES,
        canonical=disagreement,
        invariants=Family(_which_is_ahead),
    ),
    Exercise(
        number="18.9",
        title="derive: how many trees",
        section="Hint 2",
        reference=count_trees,
        cases=TREE_COUNT_CASES,
        mistakes=COUNT_TREE_MISTAKES,
        canonical=_whole,
        invariants=[
            Invariant(
                "every digit counts",
                lambda output, n, labels: not _rounded(output, count_trees(n, labels)),
                "The first digits are right, and then a float has no more. Count in whole numbers, "
                "and divide by `//`.",
            )
        ],
        seconds=12.0,  # a right way over rows of every length takes two to five for 200 words
    ),
]
