"""Right answers to the exercises of chapter 1, written in different styles."""

import random
import re
from collections import defaultdict
from fractions import Fraction

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from allyouneed.data import normalise


def merge_by_appending(symbols, pair):
    merged, taken = [], False
    for left, right in zip(symbols, [*symbols[1:], None], strict=True):
        if taken:
            taken = False
        elif (left, right) == tuple(pair):
            merged.append(left + right)
            taken = True
        else:
            merged.append(left)
    return merged


def merge_by_pattern(symbols, pair):
    pattern = r"(?<!\S)" + re.escape(" ".join(pair)) + r"(?!\S)"
    return tuple(re.sub(pattern, "".join(pair), " ".join(symbols)).split())


def merge_by_yielding(symbols, pair):
    places = iter(range(len(symbols)))
    for i in places:
        two = symbols[i : i + 2]
        if len(two) == 2 and two == [*pair]:
            next(places)
        yield "".join(pair) if two == [*pair] else symbols[i]


def merge_in_place(symbols, pair):
    i = 0
    while i < len(symbols) - 1:
        if symbols[i] == pair[0] and symbols[i + 1] == pair[1]:
            symbols[i : i + 2] = [pair[0] + pair[1]]
        i += 1
    return symbols


def batch_stacked(pairs):
    ordered = sorted(pairs, key=lambda pair: len(pair[0]))
    src = pad_sequence([torch.tensor([*s, 3]) for s, _ in ordered], batch_first=True)
    tgt = pad_sequence([torch.tensor([2, *t, 3]) for _, t in ordered], batch_first=True)
    return src, tgt, src.ne(0)


def batch_loops(pairs):
    pairs.sort(key=lambda pair: len(pair[0]))
    B = len(pairs)
    S, T = max(len(s) for s, _ in pairs) + 1, max(len(t) for _, t in pairs) + 2
    src, tgt = torch.zeros(B, S, dtype=torch.long), torch.zeros(B, T, dtype=torch.long)
    mask = torch.zeros(B, S, dtype=torch.bool)
    for b, (s, t) in enumerate(pairs):
        src[b, : len(s) + 1] = torch.tensor(s + [3])
        tgt[b, : len(t) + 2] = torch.tensor([2] + t + [3])
        mask[b, : len(s) + 1] = True
    return src, tgt, mask


def batch_lists(pairs):
    order = sorted(range(len(pairs)), key=lambda i: (len(pairs[i][0]), i))
    sides = []
    for side, head in ((0, []), (1, [2])):
        rows = [[*head, *pairs[i][side], 3] for i in order]
        width = max(map(len, rows))
        sides.append([row + [0] * (width - len(row)) for row in rows])
    return [*sides, [[i > 0 for i in row] for row in sides[0]]]


def fill(lengths, max_tokens):
    batches, batch = [], []
    for i, length in enumerate(lengths):
        if batch and max(length, *(lengths[j] for j in batch)) * (len(batch) + 1) > max_tokens:
            batches.append(batch)
            batch = []
        batch = [*batch, i]
    return [*batches, batch]


def tell_by_a_copy(other):
    random.seed(5)
    lists = [[random.randint(1, 6) for _ in range(n)] for n in range(1, 40)]
    return all(other(lengths, 12) == fill(lengths, 12) for lengths in lists)


def tell_by_properties(other):
    for seed in range(60):
        draw = random.Random(seed)
        lengths = [draw.randint(1, 7) for _ in range(25)]
        most = draw.randint(7, 20)
        found = other(lengths, most)
        if sum(found, []) != list(range(25)):
            return False
        for batch, after in zip(found, [*found[1:], None], strict=True):
            if not batch or max(lengths[i] for i in batch) * len(batch) > most:
                return False
            if after:
                more = [*batch, after[0]]
                if max(lengths[i] for i in more) * len(more) <= most:
                    return False
    return True


def tell_by_asserts(other):
    assert other([3, 5, 4, 6], 10) == [[0, 1], [2], [3]]
    assert other([6, 1, 1, 1, 2, 1, 1], 7) == [[0], [1, 2, 3], [4, 5, 6]]
    assert other([1, 5, 2, 2, 5, 1, 1], 10) == [[0, 1], [2, 3], [4, 5], [6]]
    assert other([2, 2, 3, 1, 1, 1], 6) == [[0, 1], [2, 3], [4, 5]]


def share_by_survival(longest, batch):
    width = sum(1 - ((m - 1) / longest) ** batch for m in range(1, longest + 1))
    return (width - (longest + 1) / 2) / width


def share_by_distribution(longest, batch):
    below = (np.arange(longest + 1) / longest) ** batch
    width = np.sum(np.arange(1, longest + 1) * np.diff(below))
    return 1 - np.mean(np.arange(1, longest + 1)) / width


def share_exact(longest, batch):
    powers = sum(k**batch for k in range(longest))
    width = longest - Fraction(powers, longest**batch)
    return 1 - Fraction(longest + 1, 2) / width


def split_by_walking(pairs, n_test):
    """From pair to pair that shares a sentence, until a group is at its end."""
    sides = [[normalise(one) for one in pair] for pair in pairs]
    meets = [defaultdict(list), defaultdict(list)]
    for i, names in enumerate(sides):
        for side in (0, 1):
            meets[side][names[side]].append(i)
    test, seen = [], set()
    for start in range(len(pairs)):
        if start in seen or len(test) >= n_test:
            continue
        waiting = [start]
        seen.add(start)
        while waiting:
            i = waiting.pop()
            test.append(i)
            for side in (0, 1):
                for j in meets[side][sides[i][side]]:
                    if j not in seen:
                        seen.add(j)
                        waiting.append(j)
    return [p for i, p in enumerate(pairs) if i not in test], [pairs[i] for i in test]


def split_with_union_find(pairs, n_test):
    parent = {}

    def root(one):
        parent.setdefault(one, one)
        while parent[one] != one:
            one = parent[one]
        return one

    for english, french in pairs:
        parent[root(("en", normalise(english)))] = root(("fr", normalise(french)))
    groups = defaultdict(list)
    for pair in pairs:
        groups[root(("en", normalise(pair[0])))].append(pair)
    train, test = [], []
    for group in sorted(groups.values(), key=len):
        (test if len(test) < n_test else train).extend(group)
    return tuple(train), tuple(test)


def split_until_nothing_moves(pairs, n_test):
    pairs = list(pairs)
    random.Random(3).shuffle(pairs)
    test, train = [], pairs
    while len(test) < n_test:
        test.append(train.pop())
        moved = True
        while moved:
            english = {normalise(e) for e, _ in test}
            french = {normalise(f) for _, f in test}
            out = [p for p in train if normalise(p[0]) in english or normalise(p[1]) in french]
            train = [p for p in train if p not in out]
            test, moved = test + out, bool(out)
    return np.array(train), [list(pair) for pair in test]


RIGHT = {
    "1.1": [
        ["ea", "sea", "▁sea"],
        (("e", "a"), ("s", "ea"), ("▁", "sea")),
        ["e a", "s ea", "_ sea"],
        "ea, sea, _sea",
    ],
    "1.2": [["=", ">", "<"], ("equal", "larger", "smaller"), "= > <"],
    "1.3": [merge_by_appending, merge_by_pattern, merge_in_place, merge_by_yielding],
    "1.4": [
        (
            [("h", "e"), ("▁", "h"), ("▁h", "e"), ("n", "o"), ("no", "t"), ("a", "n")],
            "anot",
            "he",
        ),
    ],
    "1.5": [
        [[1, 0], [0.01, 0], [3, 3], [1, 0.1]],
        torch.tensor([[0.0, 2.0, 0.0], [0.0, 9.0, 0.0], [0.0, 9.5, 20.0], [1.0, 2.0, 0.0]]),
        np.array([[-1.0, -1.0], [-5.0, -5.0], [-30.0, 0.0], [-1.0, -0.5]]),
        ((3,) * 4, (9, 9, 9, 9), (50, 0, 0, 0), (3, 3, 3, 2)),
    ],
    "1.6": [batch_stacked, batch_loops, batch_lists],
    "1.7": [tell_by_a_copy, tell_by_properties, tell_by_asserts],
    "1.8": [share_by_survival, share_by_distribution, share_exact],
    "1.9": [split_by_walking, split_with_union_find, split_until_nothing_moves],
}
