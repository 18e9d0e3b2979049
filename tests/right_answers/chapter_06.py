"""Right answers to the exercises of chapter 6, written in different styles."""

import math

import numpy as np
import torch
from torch.nn import functional as F


def attention_fused(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


def attention_loops(q, k, v):
    out = torch.empty(*q.shape[:3], v.shape[3])
    for b, h, t in np.ndindex(*q.shape[:3]):
        shares = [math.exp(q[b, h, t] @ key / k.shape[3] ** 0.5) for key in k[b, h]]
        out[b, h, t] = sum(w * value for w, value in zip(shares, v[b, h], strict=True)) / sum(
            shares
        )
    return out


def attention_keys_first(q, k, v):
    """The scores transposed throughout: columns are queries."""
    scores = k @ (q / q.shape[-1] ** 0.5).mT
    return scores.softmax(dim=2).mT @ v


def attention_numpy(q, k, v):
    q, k, v = (x.double().numpy() for x in (q, k, v))
    scores = np.einsum("bhtk,bhsk->bhts", q, k) / np.sqrt(q.shape[-1])
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    return scores / scores.sum(-1, keepdims=True) @ v


def masked_fused(q, k, v, mask):
    empty = ~mask.any(-1, keepdim=True)
    out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask | empty)
    return out.masked_fill(empty, 0.0)


def masked_shares(q, k, v, mask):
    shares = torch.exp(q @ k.mT / math.sqrt(q.size(-1))) * mask
    return shares / shares.sum(-1, keepdim=True).clamp(min=1e-30) @ v


def masked_nan_to_num(q, k, v, mask):
    scores = torch.where(mask, q @ k.mT / k.shape[-1] ** 0.5, torch.tensor(-math.inf))
    return torch.nan_to_num(scores.softmax(-1)) @ v


def masked_renormalised(q, k, v, mask):
    weights = (q.double() @ k.double().mT / q.shape[3] ** 0.5).softmax(-1) * mask
    total = weights.sum(-1, keepdim=True)
    return weights / (total + (total == 0)) @ v.double()


def masked_loops(q, k, v, mask):
    out = torch.zeros(*q.shape[:3], v.shape[3])
    for b, h, t in np.ndindex(*q.shape[:3]):
        may = mask[b, h, t].nonzero().flatten()
        if len(may):
            scores = k[b, h, may] @ q[b, h, t] / math.sqrt(q.shape[-1])
            out[b, h, t] = scores.softmax(0) @ v[b, h, may]
    return out


def entropy_autograd(scores):
    s = scores.clone().requires_grad_()
    p = torch.softmax(s, -1)
    return torch.autograd.grad(-(p * p.log()).sum(), s)[0]


def entropy_by_table(scores):
    p = scores.softmax(0)
    return -(torch.diag(p) - torch.outer(p, p)) @ (p.log() + 1)


def entropy_by_scores(scores):
    p = scores.softmax(0)
    return -p * (scores - p @ scores)


def entropy_numpy(scores):
    p = np.exp(scores.double().numpy())
    p = p / p.sum()
    return -p * (np.log(p) - (p * np.log(p)).sum())


def temperature_doubling(scores, entropy):
    def h(t):
        p = (scores.double() / t).softmax(0)
        return float(torch.special.entr(p).sum())

    low = high = 1.0
    while h(low) > entropy:
        low /= 2
    while h(high) < entropy:
        high *= 2
    while high / low > 1 + 1e-7:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if h(middle) < entropy else (low, middle)
    return torch.tensor(low)


def temperature_grid(scores, entropy):
    spread = float(scores.max() - scores.min())
    grid = spread * np.exp(np.linspace(-9, 9, 40001))
    z = scores.double().numpy()[None] / grid[:, None]
    z = np.exp(z - z.max(1, keepdims=True))
    p = z / z.sum(1, keepdims=True)
    h = -(p * np.log(p, where=p > 0, out=np.zeros_like(p))).sum(1)
    return grid[np.abs(h - entropy).argmin()]


def temperature_inverse(scores, entropy):
    """Searches for one over the temperature, in plain Python."""
    far = [float(s) - float(scores.max()) for s in scores.double()]

    def h(factor):
        parts = [math.exp(factor * s) for s in far]
        shares = [part / sum(parts) for part in parts if part > 0]
        return -sum(share * math.log(share) for share in shares if share > 0)

    low, high = 1e-9, 1e9
    for _ in range(200):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if h(middle) > entropy else (low, middle)
    return 1 / middle


def temperature_newton(scores, entropy):
    """Newton's method on the logarithm of the temperature, halving steps that go too far."""
    scores, log_t = scores.double(), math.log(float(scores.std()))
    for _ in range(200):
        p = (scores / math.exp(log_t)).softmax(0)
        h, mean = torch.special.entr(p).sum(), p @ scores
        slope = (p @ (scores - mean) ** 2) / math.exp(2 * log_t)
        step = float((entropy - h) / slope.clamp(min=1e-6))
        log_t += max(-0.5, min(0.5, step))
    return math.exp(log_t)


def gradient_autograd(scores, v, g):
    scores = scores.clone().requires_grad_()
    (scores.softmax(-1) @ v @ g).backward()
    return scores.grad


def gradient_by_table(scores, v, g):
    p = scores.softmax(0)
    return (v @ g) @ (torch.diag(p) - torch.outer(p, p))


def gradient_by_output(scores, v, g):
    p = scores.softmax(0)
    return [float(weight * (value - p @ v) @ g) for weight, value in zip(p, v, strict=True)]


def gradient_numpy(scores, v, g):
    p = np.exp(scores.double().numpy())
    p /= p.sum()
    a = v.double().numpy() @ g.double().numpy()
    return p * a - p * (p * a).sum()


RIGHT = {
    "6.1": [[0.75, 0.25, 7], (3 / 4, 1 / 4, 7.0), torch.tensor([0.75, 0.25, 7.0])],
    "6.2": [
        [4, 2, 1, 0.5, "up", "same", "down", "down"],
        (4.0, 2.0, 1.0, 1 / 2, "Up", "Same", "Down", "Down"),
        [4, 2, 1.0, 0.5, "up ", "same", "down", "DOWN"],
        np.array([4, 2, 1, 0.5, "up", "same", "down", "down"]),
    ],
    "6.3": [[576, 6, 24], (576.0, 6.0, 24.0), np.array([576, 6, 24])],
    "6.4": [attention_fused, attention_loops, attention_keys_first, attention_numpy],
    "6.5": [
        masked_fused,
        masked_shares,
        masked_nan_to_num,
        masked_renormalised,
        masked_loops,
    ],
    "6.6": [gradient_autograd, gradient_by_table, gradient_by_output, gradient_numpy],
    "6.7": [entropy_autograd, entropy_by_table, entropy_by_scores, entropy_numpy],
    "6.8": [temperature_doubling, temperature_grid, temperature_newton, temperature_inverse],
}
