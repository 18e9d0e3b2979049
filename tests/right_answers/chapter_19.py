"""Differently written right answers to the exercises of chapter 19."""

from __future__ import annotations

import math

import numpy as np
import torch


def combine_matrix(gradients, tokens):
    weights = torch.tensor(tokens, dtype=torch.float64)
    full = weights > 0
    return (weights[full] / weights.sum()) @ torch.stack(gradients)[full].double()


def combine_loops(gradients, tokens):
    total = [0.0] * len(gradients[0])
    for g, n in zip(gradients, tokens, strict=True):
        for j, value in enumerate(g.tolist()):
            total[j] += value * n if n else 0
    return [value / sum(tokens) for value in total]


def combine_numpy(gradients, tokens):
    rows = np.nan_to_num([g.numpy() for g in gradients])
    return np.average(rows, axis=0, weights=tokens)


def combine_in_place(gradients, tokens):
    result = torch.zeros_like(gradients[0])
    for g, n in zip(gradients, tokens, strict=True):
        if n == 0:
            continue
        result += g.mul_(n / sum(tokens))
    return result


def sent_steps(parameters, n, sharded):
    piece = 4 * parameters / n
    return sum(piece for _ in range((3 if sharded else 2) * (n - 1)))


def sent_sharded(parameters, n, sharded):
    half = 4 * parameters - 4 * parameters / n
    return 2 * half + (half if sharded else 0)


def sent_tensor(parameters, n, sharded):
    return torch.tensor(2.0 + bool(sharded)) * 4 * parameters * (1 - 1 / n)


def flops_products(d_model, d_ff, n_heads, n_groups, n_layers, vocab_size, T):
    d_k = d_model // n_heads
    product = lambda m, k, n: 2 * m * k * n  # noqa: E731
    layer = product(T, d_model, d_model) * 2 + 2 * product(T, d_model, n_groups * d_k)
    layer += n_heads * (product(T, d_k, T) + product(T, T, d_k))
    layer += 2 * product(T, d_model, d_ff) + product(T, d_ff, d_model)
    return layer * n_layers + product(T, d_model, vocab_size)


def flops_by_layer(d_model, d_ff, n_heads, n_groups, n_layers, vocab_size, T):
    total = 0
    for _ in range(n_layers):
        total += 4 * T * d_model**2 * (1 + n_groups / n_heads)
        total += 6 * T * d_model * d_ff
        total += 4 * T**2 * d_model
    return total + 2 * T * d_model * vocab_size


def flops_float(d_model, d_ff, n_heads, n_groups, n_layers, vocab_size, T):
    width = d_model / n_heads * n_groups
    per_token = n_layers * (2 * d_model + 2 * width + 3 * d_ff + 2 * T) + vocab_size
    return torch.tensor(2.0 * T * d_model * per_token, dtype=torch.float64)


def fewest_search(parameters, activations, memory, stage):
    parts = {"weights": 4, "gradients": 4, "moments": 8}
    shared = {0: [], 1: ["moments"], 2: ["moments", "gradients"], 3: list(parts)}[stage]
    n, step = 0, 2**40
    in_full = sum(size * parameters for name, size in parts.items() if name not in shared)
    if in_full >= memory:
        return 0
    while step:
        held = activations + sum(parts[name] * parameters for name in shared)
        if held > (n + step) * (memory - in_full):
            n += step
        step //= 2
    return n + 1


def fewest_ceil(parameters, activations, memory, stage):
    share = [0, 8, 12, 16][stage]
    left = memory - (16 - share) * parameters
    if left <= 0:
        return 0
    return max(math.ceil((share * parameters + activations) / left), 1)


def fewest_halving(parameters, activations, memory, stage):
    share = [0, 8, 12, 16][stage] * parameters + activations
    full = 16 * parameters + activations - share

    def fits(n):
        return full * n + share <= memory * n

    if full >= memory and not (full == memory and share == 0):
        return 0
    low, high = 0, 1
    while not fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def noise_formula(gradients, b):
    N = len(gradients)
    small = (gradients**2).sum(1).mean()
    large = (gradients.mean(0) ** 2).sum()
    trace = (small - large) / (1 / b - 1 / (N * b))
    return trace / ((N * large - small) / (N - 1))


def noise_large_b(gradients, b):
    N = gradients.shape[0]
    B = N * b
    small = gradients.double().norm(dim=1).square().mean()
    large = gradients.double().mean(0).norm().square()
    return ((small - large) / (1 / b - 1 / B) / ((B * large - b * small) / (B - b))).item()


def noise_pairs(gradients, b):
    products = (gradients @ gradients.T).tolist()
    N = len(products)
    apart = [products[i][j] for i in range(N) for j in range(N) if i != j]
    length = sum(apart) / len(apart)  # two shares have the true gradient in common, and no noise
    return b * (sum(products[i][i] for i in range(N)) / N - length) / length


def noise_numpy(gradients, b):
    g = gradients.numpy()
    spread = g.var(axis=0, ddof=1).sum()
    return b * spread / ((g.mean(axis=0) ** 2).sum() - spread / len(g))


def clipped_at_once(sums, tokens, max_norm):
    g = torch.stack(sums).sum(0) / sum(tokens)
    return g * (max_norm / g.norm()).clamp(max=1)


def clipped_by_torch(sums, tokens, max_norm):
    weight = torch.nn.Parameter(torch.zeros_like(sums[0]))
    weight.grad = sum(sums) / sum(tokens)
    torch.nn.utils.clip_grad_norm_(weight, max_norm)
    return weight.grad


def clipped_weighted(sums, tokens, max_norm):
    means = [(g / n, n) for g, n in zip(sums, tokens, strict=True) if n]
    g = sum(mean * n for mean, n in means) / sum(tokens)
    return g if g.norm() <= max_norm else g / g.norm() * max_norm


def clipped_loops(sums, tokens, max_norm):
    g = [sum(float(one[j]) for one in sums) / sum(tokens) for j in range(len(sums[0]))]
    length = math.hypot(*g)
    return [x * max_norm / length for x in g] if length > max_norm else g


def interval_search(write, between, n):
    failure, low, high = between / n, 1e-6, 1e12
    lost = lambda t: write / t + t / (2 * failure)  # noqa: E731
    for _ in range(300):
        a, b = low + (high - low) / 3, high - (high - low) / 3
        low, high = (low, b) if lost(a) < lost(b) else (a, high)
    return low, lost(low)


def interval_short(write, between, n):
    every = (2 * write * between / n) ** 0.5
    return [every, 2 * write / every]


def interval_tensor(write, between, n):
    every = torch.tensor(2 * write * between / n, dtype=torch.float64).sqrt()
    return torch.stack([every, every * n / between])


def whole_by_renorm(sums, tokens, max_norm):
    return torch.renorm(torch.stack(list(sums)).sum(0, keepdim=True) / sum(tokens), 2, 0, max_norm)[
        0
    ]


RIGHT = {
    "19.1": [combine_matrix, combine_loops, combine_numpy, combine_in_place],
    "19.2": [sent_steps, sent_sharded, sent_tensor],
    "19.3": [flops_products, flops_by_layer, flops_float],
    "19.4": [fewest_search, fewest_ceil, fewest_halving],
    "19.5": [noise_formula, noise_large_b, noise_pairs, noise_numpy],
    "19.7": [whole_by_renorm, clipped_at_once, clipped_by_torch, clipped_weighted, clipped_loops],
    "19.8": [interval_search, interval_short, interval_tensor],
    "19.9": [
        lambda: {"n": 8, "tokens": 5_000, "parts": 1},
        lambda: (8, 10_000, 2),
        lambda: {"parts": 2, "tokens": 8_000, "n": 7},
    ],
}
