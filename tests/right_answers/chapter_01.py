"""Right answers to the exercises of chapter 1, written in different styles."""

import random
import re
from collections import defaultdict
from fractions import Fraction
from itertools import pairwise

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


def merge_in_place(symbols, pair):
    i = 0
    while i < len(symbols) - 1:
        if symbols[i] == pair[0] and symbols[i + 1] == pair[1]:
            symbols[i : i + 2] = [pair[0] + pair[1]]
        i += 1
    return symbols


def encode_by_rank(word, merges):
    rank = {pair: i for i, pair in enumerate(merges)}
    symbols = ["▁", *word]
    while known := [pair for pair in pairwise(symbols) if pair in rank]:
        symbols = merge_by_appending(symbols, min(known, key=rank.get))
    return symbols


def encode_by_pattern(word, merges):
    text = " ".join("▁" + word)
    for left, right in merges:
        whole = rf"(?:^|(?<= )){re.escape(left)} {re.escape(right)}(?= |$)"
        text = re.sub(whole, left + right, text)
    return text.split(" ")


def encode_one_at_a_time(word, merges):
    symbols = ["▁"] + list(word)
    for left, right in merges:
        i = 0
        while i + 1 < len(symbols):
            if symbols[i] == left and symbols[i + 1] == right:
                symbols[i] = left + right
                del symbols[i + 1]
            i += 1
    return tuple(symbols)


def nearest_topk(vectors, i, k):
    cosines = torch.cosine_similarity(vectors, vectors[i][None], dim=1)
    cosines[i] = -2
    return cosines.topk(k).indices


def nearest_numpy(vectors, i, k):
    x = vectors.double().numpy()
    cosines = x @ x[i] / np.linalg.norm(x, axis=1) / np.linalg.norm(x[i])
    cosines[i] = -np.inf
    return np.argsort(-cosines)[:k]


def nearest_without_the_query(vectors, i, k):
    scores = [float(v @ vectors[i] / (v @ v) ** 0.5) for v in vectors]
    others = [j for j in range(len(vectors)) if j != i]
    return sorted(others, key=lambda j: scores[j], reverse=True)[:k]


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


def batches_in_hand(lengths, max_tokens):
    batches, batch = [], []
    for i, length in enumerate(lengths):
        if batch and max(length, *(lengths[j] for j in batch)) * (len(batch) + 1) > max_tokens:
            batches.append(batch)
            batch = []
        batch = [*batch, i]
    return batches + [batch]


def batches_generator(lengths, max_tokens):
    start = 0
    while start < len(lengths):
        end = start + 1
        while end < len(lengths) and (
            max(lengths[start : end + 1]) * (end + 1 - start) <= max_tokens
        ):
            end += 1
        yield range(start, end)
        start = end


def batches_tensors(lengths, max_tokens):
    borders, longest, n = [], 0, 0
    for i, length in enumerate(lengths):
        longest, n = max(longest, length), n + 1
        if longest * n > max_tokens:
            borders.append(i)
            longest, n = length, 1
    return torch.arange(len(lengths)).tensor_split(borders)


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
    "1.3": [merge_by_appending, merge_by_pattern, merge_in_place],
    "1.4": [encode_by_rank, encode_by_pattern, encode_one_at_a_time],
    "1.5": [nearest_topk, nearest_numpy, nearest_without_the_query],
    "1.6": [batch_stacked, batch_loops, batch_lists],
    "1.7": [batches_in_hand, batches_generator, batches_tensors],
    "1.8": [share_by_survival, share_by_distribution, share_exact],
    "1.9": [split_by_walking, split_with_union_find, split_until_nothing_moves],
}
