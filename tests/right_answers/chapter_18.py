"""Right answers to the exercises of chapter 18, written in different styles."""

import functools
import math
import re
from collections import Counter, deque
from fractions import Fraction

import numpy as np

from allyouneed.parsing import may_follow


def spans_stack(symbols):
    found, opened, words = [], deque(), 0
    for symbol in symbols:
        if symbol.startswith("("):
            opened.append([symbol.lstrip("("), words])
        elif symbol.startswith(")"):
            label, start = opened.pop()
            found.append([label, start, words])
        else:
            words += 1
    return found[::-1]


def spans_search(symbols):
    found = []
    for i, symbol in enumerate(symbols):
        if symbol[0] == "(":
            depth, j = 1, i
            while depth:
                j += 1
                depth += {"(": 1, ")": -1}.get(symbols[j][0], 0)
            found.append((symbol[1:], symbols[:i].count("XX"), symbols[:j].count("XX")))
    return found


def spans_recursive(symbols):
    found = []

    def visit(i, word):
        label, start = symbols[i][1:], word
        i += 1
        while symbols[i][0] != ")":
            if symbols[i] == "XX":
                i, word = i + 1, word + 1
            else:
                i, word = visit(i, word)
        found.append((label, start, word))
        return i + 1, word

    visit(0, 0)
    return tuple(found)


def spans_numpy(symbols):
    words = np.cumsum([symbol == "XX" for symbol in symbols])
    found, opened = [], []
    for i, symbol in enumerate(symbols):
        if symbol[0] == "(":
            opened.append(i)
        elif symbol[0] == ")":
            start = opened.pop()
            found.append((symbol[1:], int(words[start]), int(words[i])))
    return found


def tree_stack(symbols, n_words):
    opened, closed = [], False
    if symbols.count("XX") != n_words:
        return False
    for before, symbol in zip(["", *symbols], symbols, strict=False):
        if closed:
            return False
        if symbol[0] == "(":
            opened.append(symbol[1:])
        elif not opened:
            return False
        elif symbol[0] == ")":
            if before[0] == "(" or opened.pop() != symbol[1:]:
                return False
            closed = not opened
    return closed


def tree_shrink(symbols, n_words):
    """Replace the innermost brackets by words until one word is left."""
    text = " ".join(symbols)
    if symbols.count("XX") != n_words or not text.startswith("("):
        return False
    while True:
        shorter = re.sub(r"\((\S+)( (?:XX|OK))+ \)\1(?=\s|$)", "OK", text)
        if shorter == text:
            return text == "OK"
        text = shorter


def tree_recursive(symbols, n_words):
    def visit(i):
        """The place after the bracket that opens at i."""
        start = i + 1
        i = start
        while i < len(symbols) and symbols[i][0] != ")":
            i = visit(i) if symbols[i][0] == "(" else i + 1
        if i >= len(symbols) or i == start or symbols[i][1:] != symbols[start - 1][1:]:
            raise ValueError
        return i + 1

    try:
        if not symbols or symbols[0][0] != "(" or visit(0) != len(symbols):
            return False
    except ValueError:
        return False
    return sum(symbol == "XX" for symbol in symbols) == n_words


def tree_numpy(symbols, n_words):
    return np.bool_(tree_stack(symbols, n_words))


def f1_counter(true, given):
    both = t = g = 0
    for a, b in zip(true, given, strict=True):
        b = [] if b is None else b
        both += sum((Counter(a) & Counter(b)).values())
        t, g = t + len(a), g + len(b)
    return 0 if t + g == 0 else 2 * both / (t + g)


def f1_marked(true, given):
    """Mark each bracket with its sentence, then compare two large collections."""
    a = Counter((i, *x) for i, tree in enumerate(true) for x in tree)
    b = Counter((i, *x) for i, tree in enumerate(given) for x in tree or [])
    both = sum(min(n, b[x]) for x, n in a.items())
    total = sum(a.values()) + sum(b.values())
    return float(Fraction(2 * both, total)) if total else 0


def f1_means(true, given):
    both = t = g = 0
    for a, b in zip(true, given, strict=True):
        rest = list(b) if b else []
        t, g = t + len(a), g + len(rest)
        for x in a:
            if x in rest:
                rest.remove(x)
                both += 1
    if not both:
        return 0.0
    precision, recall = both / g, both / t
    return 2 * precision * recall / (precision + recall)


def f1_numpy(true, given):
    return np.float32(f1_counter(true, given))


def up_stack(symbols):
    found, opened = [], []
    for symbol in symbols:
        if symbol.startswith("("):
            opened.append(0)
            continue
        if symbol == "XX":
            found += ["XX"]
        else:
            found += [symbol[1:] + "/" + str(opened.pop())]
        if opened:
            opened[-1] += 1
    return found


def up_recursive(symbols):
    rest = iter(symbols)

    def visit():
        found, n = [], 0
        for symbol in rest:
            if symbol[0] == ")":
                return [*found, f"{symbol[1:]}/{n}"]
            found += ["XX"] if symbol == "XX" else visit()
            n += 1
        return found

    return visit()


def up_search(symbols):
    found = []
    for i, symbol in enumerate(symbols):
        if symbol[0] == ")":
            depth, parts = 0, 0
            for other in symbols[i - 1 :: -1]:
                if depth == 0 and other == "XX":
                    parts += 1
                depth += {")": 1, "(": -1}.get(other[0], 0)
                if depth == -1:
                    break
                if depth == 0 and other[0] == "(":
                    parts += 1
            found.append(f"{symbol[1:]}/{parts}")
        elif symbol == "XX":
            found.append(symbol)
    return tuple(found)


CHANGES = ["same", "same", "fall", "same", "same", "fall", "same", "fall"]


def next_package(written, n_words, openings):
    return may_follow(written, n_words, openings)


def next_list(written, n_words, openings):
    depth = sum({"(": 1, ")": -1}.get(s[0], 0) for s in written)
    left = n_words - list(written).count("XX")
    if written and depth == 0:
        return ["<eos>"]
    found = sorted(openings) if left else []
    if left and depth:
        found.append("XX")
    if depth and written[-1][0] != "(" and (depth > 1 or not left):
        rest = 0  # of brackets that close behind
        for symbol in reversed(written):
            if symbol[0] == ")":
                rest += 1
            elif symbol[0] == "(":
                if rest == 0:
                    found.append(")" + symbol[1:])
                    break
                rest -= 1
    return found


def next_by_trial(written, n_words, openings):
    """What `well_formed` finds to be no tree however it goes on, is left out."""
    names = {symbol[1:] for symbol in [*openings, *written] if symbol[0] in "()"}
    every = {*openings, "XX", "<eos>", *(f"){name}" for name in names)}
    return {symbol for symbol in every if fits([*written, symbol], n_words)}


def fits(symbols, n_words):
    opened, words = [], 0
    for i, symbol in enumerate(symbols):
        left = words < n_words
        if symbol == "<eos>":
            return i > 0 and not opened and not left
        if i and not opened:
            return False
        if symbol == "XX":
            if not left or not opened:
                return False
            words += 1
        elif symbol[0] == "(":
            if not left:
                return False
            opened.append(symbol[1:])
        elif symbols[i - 1][0] == "(" or not opened or opened.pop() != symbol[1:]:
            return False
        elif not opened and left:
            return False
    return True


BIG = [("A", i, i + 2) for i in range(20)]
PARADOXES = [
    (
        [BIG, [("S", 0, 1)]],
        [BIG, [("T", 0, 1)]],
        [BIG[:10] + [("B", i, i + 1) for i in range(10)], [("S", 0, 1)]],
    ),
    [
        [[["S", 0, 1]], [["NP", i, 9] for i in range(9)]],
        [[["S", 0, 2]], [["NP", i, 9] for i in range(9)]],
        [[["S", 0, 1]], [["NP", i, 9] for i in range(3)]],
    ],
    (
        ([("S", 0, 5), ("NP", 0, 1), ("VP", 1, 5), ("NP", 2, 5)], [("NP", 0, 1)]),
        ([("S", 0, 5), ("NP", 0, 1), ("VP", 1, 5), ("NP", 2, 5)], [("X", 0, 1)]),
        ([("S", 0, 5), ("X", 0, 1), ("VP", 1, 5), ("X", 2, 5)], [("NP", 0, 1)]),
    ),
]


def count_memo(n, labels):
    @functools.cache
    def rows(k, least):
        """Rows of at least that many parts over k words."""
        if k == 0:
            return int(least <= 0)
        return sum(part(i) * rows(k - i, least - 1) for i in range(1, k + (least < 2)))

    @functools.cache
    def part(k):
        return 1 if k == 1 else labels * rows(k, 2)

    for k in range(1, n):  # from below, so that the recursion stays flat
        rows(k, 0), rows(k, 1), part(k)
    return part(n)


def count_by_shapes(n, labels):
    """Add up over the number of brackets: trees with b brackets over n words, labels to the b."""
    total = 0
    for b in range(1, n):
        total += math.comb(n - 2, b - 1) * math.comb(n + b - 1, b) * labels**b // n
    return total


def count_numpy(n, labels):
    f, s = np.zeros(n + 1, dtype=object), np.zeros(n + 1, dtype=object)
    f[1], s[0], s[1] = 1, 1, 1
    for k in range(2, n + 1):
        several = np.dot(f[1:k], s[k - 1 : 0 : -1])
        f[k], s[k] = labels * several, (labels + 1) * several
    return f[n]


RIGHT = {
    "18.1": [10 / 11, 0.9091, np.float32(10 / 11)],
    "18.2": [spans_stack, spans_search, spans_recursive, spans_numpy],
    "18.3": [tree_stack, tree_shrink, tree_recursive, tree_numpy],
    "18.4": [f1_counter, f1_marked, f1_means, f1_numpy],
    "18.5": [up_stack, up_recursive, up_search],
    "18.6": [CHANGES, tuple(CHANGES), [word.upper() for word in CHANGES]],
    "18.7": [next_package, next_list, next_by_trial],
    "18.8": PARADOXES,
    "18.9": [count_memo, count_by_shapes, count_numpy],
}
