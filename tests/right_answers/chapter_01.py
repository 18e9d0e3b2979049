"""Right answers to the exercises of chapter 1, written in different styles."""

import re
from collections import defaultdict
from itertools import pairwise

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence


def pairs_with_a_dict(words):
    counts = {}
    for symbols, count in words:
        for i in range(len(symbols) - 1):
            pair = (symbols[i], symbols[i + 1])
            counts[pair] = counts.get(pair, 0) + count
    return counts


def pairs_spelled_out(words):
    counts = defaultdict(int)
    for symbols, count in words:
        for _ in range(count):
            for pair in pairwise(symbols):
                counts[pair] += 1
    return counts


def pairs_by_looking_up(words):
    every = {(a, b) for symbols, _ in words for a, b in pairwise(symbols)}
    return {
        pair: sum(count * list(pairwise(symbols)).count(pair) for symbols, count in words)
        for pair in every
    }


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


def pad_loop(sequences):
    ids = torch.zeros(len(sequences), max(len(row) for row in sequences), dtype=torch.long)
    mask = torch.zeros_like(ids, dtype=torch.bool)
    for b, row in enumerate(sequences):
        ids[b, : len(row)] = torch.tensor(row)
        mask[b, : len(row)] = True
    return ids, mask


def pad_torch(sequences):
    ids = pad_sequence([torch.tensor(row) for row in sequences], batch_first=True)
    return [ids.int(), ids > 0]


def pad_lists(sequences):
    width = max(map(len, sequences))
    ids = [[row[i] if i < len(row) else 0 for i in range(width)] for row in sequences]
    return ids, [[i < len(row) for i in range(width)] for row in sequences]


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


RIGHT = {
    "1.1": [
        ["ea", "sea", "▁sea"],
        (("e", "a"), ("s", "ea"), ("▁", "sea")),
        ["e a", "s ea", "_ sea"],
        "ea, sea, _sea",
    ],
    "1.2": [pairs_with_a_dict, pairs_spelled_out, pairs_by_looking_up],
    "1.3": [merge_by_appending, merge_by_pattern, merge_in_place],
    "1.4": [encode_by_rank, encode_by_pattern, encode_one_at_a_time],
    "1.5": [nearest_topk, nearest_numpy, nearest_without_the_query],
    "1.6": [pad_loop, pad_torch, pad_lists],
    "1.7": [batches_in_hand, batches_generator, batches_tensors],
}
