"""Right answers to the exercises of chapter 15, written in different styles."""

import math
from fractions import Fraction

import numpy as np
import torch


def disagreement_xlogy(weights):
    def entropy(rows):
        return -torch.xlogy(rows, rows).sum(-1)

    return entropy(weights.mean(dim=1)) - entropy(weights).mean(dim=1)


def disagreement_divergence(weights):
    mean = weights.mean(1, keepdim=True)
    ratio = torch.where(weights > 0, weights / mean, 1.0)
    return (weights * ratio.log()).sum(-1).mean(1)


def disagreement_numpy(weights):
    w = weights.double().numpy()

    def entropy(rows):
        return -(rows * np.log(np.where(rows > 0, rows, 1.0))).sum(-1)

    return entropy(w.mean(1)) - entropy(w).mean(1)


def disagreement_loops(weights):
    B, H, T, S = weights.shape
    result = torch.zeros(B, T)
    for b in range(B):
        for t in range(T):
            heads = [weights[b, h, t].tolist() for h in range(H)]
            mean = [sum(row[s] for row in heads) / H for s in range(S)]
            each = [-sum(x * math.log(x) for x in row if x > 0) for row in (mean, *heads)]
            result[b, t] = each[0] - sum(each[1:]) / H
    return result


def even_fractions(lengths):
    count = sum(n - 1 for n in lengths)
    source = sum(Fraction(n - 1, n) for n in lengths)
    target = sum(Fraction(1, t) for n in lengths for t in range(2, n + 1))
    return source / count, target / count


def even_maps(lengths):
    scores = []
    for causal in (False, True):
        found = []
        for n in lengths:
            weights = torch.ones(n, n, dtype=torch.float64)
            weights = weights.tril() if causal else weights
            weights = weights / weights.sum(-1, keepdim=True)
            found += weights.diagonal(-1).tolist()
        scores.append(sum(found) / len(found))
    return scores


def even_numpy(lengths):
    n = np.repeat(lengths, np.array(lengths) - 1)
    t = np.concatenate([np.arange(2, length + 1) for length in lengths])
    return np.array([(1 / n).mean(), (1 / t).mean()])


def gentle_view(weight, n_heads, head, outputs):
    pieces = weight.unflatten(1, (n_heads, -1)).clone()
    mean = outputs.unflatten(1, (n_heads, -1)).mean(0)
    bias = pieces[:, head] @ mean[head]
    pieces[:, head] = 0
    return pieces.flatten(1), bias


def gentle_difference(weight, n_heads, head, outputs):
    d_v = weight.shape[1] // n_heads
    left = weight.clone()
    left[:, d_v * head : d_v * (head + 1)] = 0
    return [left, (outputs @ (weight - left).T).mean(0)]


def gentle_numpy(weight, n_heads, head, outputs):
    weight, outputs = weight.double().numpy(), outputs.double().numpy()
    there = np.arange(weight.shape[1]) // (weight.shape[1] // n_heads) == head
    return np.where(there, 0.0, weight), (weight * there) @ outputs.mean(0)


def agreed_loops(weights):
    rows = [row[:-1] for row in weights.tolist()[:-1]]
    return [
        (t, s)
        for t, row in enumerate(rows)
        for s, x in enumerate(row)
        if x == max(row) and x == max(other[s] for other in rows)
    ]


def agreed_tensor(weights):
    inner = weights[:-1, :-1]
    both = (inner == inner.amax(1, keepdim=True)) & (inner == inner.amax(0, keepdim=True))
    return both.nonzero()


def agreed_sets(weights):
    inner = weights.numpy()[:-1, :-1]
    wants = set(enumerate(inner.argmax(1).tolist()))
    return wants & {(t, s) for s, t in enumerate(inner.argmax(0).tolist())}


def agreed_numpy_backwards(weights):
    inner = weights.numpy()[:-1, :-1]
    best = (inner == inner.max(0)) & (inner == inner.max(1, keepdims=True))
    return np.argwhere(best)[::-1]


def stays_product(layers, tokens, own):
    mixed = np.eye(tokens)
    for _ in range(layers):
        mixed = (own * np.eye(tokens) + (1 - own) / tokens) @ mixed
    return mixed[0, 0]


def stays_steps(layers, tokens, own):
    share = 1.0
    for _ in range(layers):
        share = own * share + (1 - own) / tokens
    return share


def stays_formula(layers, tokens, own):
    return torch.tensor(1 / tokens + own**layers * (1 - 1 / tokens))


def correlation_scipy_like(a, b):
    def place(x):
        values, inverse, counts = np.unique(x.numpy(), return_inverse=True, return_counts=True)
        last = np.cumsum(counts)
        return (last - (counts - 1) / 2)[inverse]

    return np.corrcoef(place(a), place(b))[0, 1]


def correlation_loops(a, b):
    def place(x):
        return [sum(y < z for y in x) + sum(y == z for y in x) / 2 for z in x]

    a, b = place(a.tolist()), place(b.tolist())
    mean = sum(a) / len(a)
    top = sum((x - mean) * (y - mean) for x, y in zip(a, b, strict=True))
    return top / math.sqrt(sum((x - mean) ** 2 for x in a) * sum((y - mean) ** 2 for y in b))


def correlation_signs(a, b):
    rows = [(x[:, None] - x).sign().sum(1).double() for x in (a, b)]
    return torch.cosine_similarity(*rows, dim=0)


def mixed_zeroed(maps, removed):
    mixed = torch.eye(maps[0].shape[-1])
    for i, layer in enumerate(maps):
        layer = layer.clone()
        for at, head in removed:
            if at == i:
                layer[head] = 0
        mixed = (layer.mean(0) + torch.eye(len(mixed))) / 2 @ mixed
    return mixed


def mixed_numpy(maps, removed):
    gone = set(map(tuple, removed))
    factors = []
    for i, layer in enumerate(maps):
        keep = np.array([(i, h) not in gone for h in range(len(layer))], dtype=float)
        a = np.einsum("h,hts->ts", keep, layer.numpy()) / len(layer)
        factors.append(0.5 * a + 0.5 * np.eye(a.shape[0]))
    return np.linalg.multi_dot([*factors[::-1], np.eye(a.shape[0])])


def mixed_recursive(maps, removed):
    if not maps:
        return None
    *lower, top = maps
    kept = torch.ones(len(top))
    for layer, head in removed:
        if layer == len(lower):
            kept[head] = 0.0
    here = (torch.tensordot(kept, top, 1) / len(top) + torch.eye(top.shape[-1])) / 2
    below = mixed_recursive(lower, removed)
    return here if below is None else here @ below


def rollout_test_recursive(mixed):
    torch.manual_seed(1)
    for heads, removed in ((3, [(0, 2), (1, 0)]), (3, [(2, 0), (2, 1), (2, 2)]), (2, [(1, 0)])):
        maps = [(2 * torch.randn(heads, 5, 5)).softmax(-1) for _ in range(3)]
        if not torch.allclose(mixed(maps, removed), mixed_recursive(maps, removed), atol=1e-5):
            return False
    return True


def rollout_test_asserts(mixed):
    draw = np.random.default_rng(15)
    for t in (2, 3, 4):
        maps = [torch.tensor(draw.dirichlet([0.5] * t, (2, t))).float() for _ in range(4)]
        for removed in ([], [(0, 1), (3, 0)], [(2, 0), (2, 1), (1, 1)]):
            got = np.array(mixed([layer.clone() for layer in maps], list(removed)))
            assert np.abs(got - mixed_numpy(maps, removed)).max() < 1e-4


def rollout_test_by_hand(mixed):
    """Heads that look elsewhere altogether, so that each entry of the result tells its way."""
    look = torch.eye(6)
    maps = [torch.stack([look.roll(i + 2 * h, 1) for h in range(2)]) for i in (1, 3)]
    maps.append(torch.stack([look[[1, 0, 2, 3, 5, 4]], look[[0, 0, 0, 3, 4, 5]]]))
    cases = [(0, 1), (2, 0)], [(1, 1)], [(1, 0), (1, 1)]
    return all(torch.allclose(mixed(maps, out), mixed_zeroed(maps, out)) for out in cases)


def range_rows(largest, keys):
    few, left = [], 1.0
    while left > 1e-9:
        few.append(min(largest, left))
        left -= few[-1]
    many = [largest, *[(1 - largest) / (keys - 1)] * (keys - 1)]
    return [-sum(w * math.log(w) for w in row if w > 1e-9) for row in (few, many)]


def range_torch(largest, keys):
    row = torch.zeros(keys, dtype=torch.float64)
    n = int(1 / largest + 1e-9)
    row[:n] = largest
    if n < keys:
        row[n] = 1 - n * largest
    even = torch.full((keys,), (1 - largest) / (keys - 1), dtype=torch.float64)
    even[0] = largest
    return torch.stack([torch.special.entr(x.clamp(min=0)).sum() for x in (row, even)])


def range_two_steps(largest, keys):
    def choice(*weights):
        return -sum(w * np.log(w) for w in weights if w > 1e-9)

    n = math.floor(1 / largest + 1e-9)
    least = n * largest * -np.log(largest) + choice(max(0.0, 1 - n * largest))
    return least, choice(largest, 1 - largest) + (1 - largest) * np.log(keys - 1)


def opinions_first(width):
    return [0.45, 0.35, 0.2], [[x] + [0] * (width - 1) for x in (0.7, 1.0, -1.7)]


def opinions_tensor(width):
    vectors = torch.zeros(4, width, dtype=torch.float64)
    vectors[:, -1] = torch.tensor([0.7, 1.0, -1.7, 0.3], dtype=torch.float64)
    return torch.tensor([0.45, 0.35, 0.19, 0.01], dtype=torch.float64), vectors


def opinions_scaled(width):
    return np.array([0.45, 0.35, 0.2]), -10 * np.outer([0.7, 1.0, -1.7], np.eye(width)[0])


RIGHT = {
    "15.1": [
        disagreement_xlogy,
        disagreement_divergence,
        disagreement_numpy,
        disagreement_loops,
    ],
    "15.2": [even_fractions, even_maps, even_numpy],
    "15.3": [gentle_view, gentle_difference, gentle_numpy],
    "15.4": [agreed_loops, agreed_tensor, agreed_sets, agreed_numpy_backwards],
    "15.5": [stays_product, stays_steps, stays_formula],
    "15.6": [correlation_scipy_like, correlation_loops, correlation_signs],
    "15.8": [mixed_zeroed, mixed_numpy, mixed_recursive],
    "15.9": [range_rows, range_torch, range_two_steps],
    "15.10": [opinions_first, opinions_tensor, opinions_scaled],
    "15.11": [rollout_test_recursive, rollout_test_asserts, rollout_test_by_hand],
}
