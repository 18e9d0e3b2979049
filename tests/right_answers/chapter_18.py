"""Right answers to the exercises of chapter 18, written in different styles."""

import functools
import math
import random
import re
from collections import Counter, deque
from fractions import Fraction

import numpy as np

from allyouneed.parsing import may_follow


def written_stack(spans):
    symbols, opened = [], deque()
    rest = deque(sorted(spans, key=lambda span: (span[1], -span[2])))
    for word in range(max(end for _, _, end in spans)):
        while rest and rest[0][1] == word:
            opened.append(rest.popleft())
            symbols += ["(" + opened[-1][0]]
        symbols += ["XX"]
        while opened and opened[-1][2] == word + 1:
            symbols += [")" + opened.pop()[0]]
    return symbols


def written_recursive(spans):
    def inside(rest, start, end):
        """The symbols of the words from start to end, with these brackets."""
        if not rest:
            return ("XX",) * (end - start)
        a, b = min((s[1], -s[2]) for s in rest)
        first = next(s for s in rest if (s[1], -s[2]) == (a, b))
        rest = [s for s in rest if s is not first]
        below = [s for s in rest if s[2] <= -b]
        behind = [s for s in rest if s[2] > -b]
        label = first[0]
        own = (f"({label}", *inside(below, a, -b), f"){label}")
        return ("XX",) * (a - start) + own + inside(behind, -b, end)

    return inside([tuple(s) for s in spans], 0, max(s[2] for s in spans))


def written_events(spans):
    """One sort of all that happens: closings, openings, words."""
    n, events = max(s[2] for s in spans), []
    for i, (label, start, end) in enumerate(spans):
        events.append((start, 1, -end, i, "(" + label))
        events.append((end, 0, -start, -i, ")" + label))
    events += [(i, 2, 0, 0, "XX") for i in range(n)]
    return [event[-1] for event in sorted(events)]


def written_insert(spans):
    """The longest first, each put around its words."""
    words = [["XX"] for _ in range(max(s[2] for s in spans))]
    for label, start, end in sorted(reversed(spans), key=lambda s: s[2] - s[1]):
        words[start].insert(0, "(" + label)
        words[end - 1].append(")" + label)
    return np.concatenate(words).tolist()


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


def f1(true, given):
    both = t = g = 0
    for a, b in zip(true, given, strict=True):
        b = [] if b is None else b
        both += sum((Counter(a) & Counter(b)).values())
        t, g = t + len(a), g + len(b)
    return 0 if t + g == 0 else 2 * both / (t + g)


def score_test_random(score):
    """Small random corpora, compared with a function of one's own."""
    draw = random.Random(0)
    every = [(name, a, b) for name in ("TOP", "PRT", "ADVP") for a in (0, 1) for b in (2, 3)]
    for i in range(400):
        true = [draw.choices(every, k=draw.randint(0, i % 5)) for _ in range(draw.randint(1, 3))]
        true = [tree + tree[:1] if draw.random() < 0.3 else tree for tree in true]
        given = [
            draw.choice([draw.choices(every, k=i % 3), [*t], t[::-1], t[1:], t + t[-1:], None])
            for t in true
        ]
        if not math.isclose(score(true, given), f1(true, given), abs_tol=1e-9):
            return False
    return True


def score_test_asserts(score):
    a, b, c = [("S", 0, 4), ("NP", 0, 2), ("NP", 0, 2)], [("S", 0, 3)], [("VP", 1, 3)]
    close = math.isclose
    assert close(score([a, b], [a, c]), 6 / 8)
    assert close(score([a, b], [a, None]), 6 / 7)
    assert close(score([a], [a[:2]]), 4 / 5)
    assert close(score([a[:2]], [a]), 4 / 5)
    assert close(score([b, c], [c, b]), 0)
    assert close(score([a[:2]], [a[1::-1]]), 1)
    for wrong in (("X", 0, 3), ("S", 1, 3), ("S", 0, 2)):
        assert close(score([b], [[wrong]]), 0)
    assert close(score([b + [("TOP", 0, 3)]], [b]), 2 / 3)
    assert close(score([[("PRT", 0, 1)]], [[("ADVP", 0, 1)]]), 0)
    assert score([[], []], [None, []]) == 0


def score_test_fractions(score):
    try:
        nothing = score([[]], [[]])
    except ZeroDivisionError:
        return False
    x, y, z = ("A", 0, 1), ("B", 0, 1), ("A", 0, 2)
    table = {
        Fraction(2, 3): ([[x], [x]], [[x], None]),
        Fraction(3, 4): ([[x, y, z], [x]], [[z, y, x], [y]]),
        Fraction(1, 2): ([[x, x]], [[x, y]]),
        Fraction(6, 12): ([[x, y]], [[y, y]]),
        Fraction(4, 7): ([[x, y, z, ("C", 0, 1)]], [[x, y, ("D", 2, 3)]]),
        Fraction(0): ([[x], [y], [("PRT", 0, 1)]], [[y], [x], [("ADVP", 0, 1)]]),
        Fraction(2, 5): ([[("TOP", 0, 3), ("B", 1, 2)]], [[("TOP", 0, 3), z, ("B", 0, 2)]]),
        Fraction(0, 5): ([[("E", 0, 3)], [("E", 0, 3)]], [[("E", 1, 3)], [("F", 0, 3)]]),
    }
    extra = [([[("E", 0, 3)]], [[("E", 1, 3)]], 0), ([[x]], [[y]], 0), ([[x]], [[z]], 0)]
    extra += [([[x, x]], [[x, y]], 0.5), ([[x], [y]], [[y], [x]], 0)]
    extra += [([[("PRT", 0, 1)]], [[("ADVP", 0, 1)]], 0)]
    rows = [*((t, g, float(f)) for f, (t, g) in table.items()), *extra]
    return nothing == 0 and all(abs(score(t, g) - f) < 1e-9 for t, g, f in rows)


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


def count_rows_recursively(n, labels):
    @functools.cache
    def tree(k):
        return 1 if k == 1 else labels * several(k)

    @functools.cache
    def several(k):
        return sum(tree(i) * row(k - i) for i in range(1, k))

    def row(k):
        return tree(k) + (several(k) if k > 1 else 0)

    return tree(n)


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
    "18.2": [written_stack, written_recursive, written_events, written_insert],
    "18.3": [tree_stack, tree_shrink, tree_recursive, tree_numpy],
    "18.4": [score_test_random, score_test_asserts, score_test_fractions],
    "18.5": [up_stack, up_recursive, up_search],
    "18.6": [CHANGES, tuple(CHANGES), [word.upper() for word in CHANGES]],
    "18.7": [next_package, next_list, next_by_trial],
    "18.8": PARADOXES,
    "18.9": [count_memo, count_by_shapes, count_numpy, count_rows_recursively],
}
