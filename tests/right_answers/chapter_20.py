"""Differently written right answers to the exercises of chapter 20."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch.nn import functional as F


def absorbed_product(gamma, W):
    return W @ torch.diag(gamma)


def absorbed_numpy(gamma, W):
    return np.einsum("fd,d->fd", W.numpy(), gamma.numpy())


def absorbed_loops(gamma, W):
    return [[w * g for w, g in zip(row, gamma.tolist(), strict=True)] for row in W.tolist()]


def absorbed_tried(gamma, W):
    """What the norm and the matrix make of the unit vectors."""
    return torch.stack([F.linear(gamma * one, W) for one in torch.eye(len(gamma))], 1)


def width_search(d_model, d_ff, multiple):
    most, width = 2 * d_model * d_ff + d_ff + d_model, 0
    while 3 * d_model * (width + multiple) <= most:
        width += multiple
    return width


def width_modules(d_model, d_ff, multiple):
    net = torch.nn.Sequential(torch.nn.Linear(d_model, d_ff), torch.nn.Linear(d_ff, d_model))
    units = sum(p.numel() for p in net.parameters()) // (3 * d_model)
    return units - units % multiple


def width_tensor(d_model, d_ff, multiple):
    whole = torch.tensor(d_model * d_ff * 2 + d_ff + d_model, dtype=torch.float64)
    return torch.floor(whole / (3 * d_model * multiple)) * multiple


def reordered_slices(W, n_heads):
    return torch.cat([part for head in W.chunk(n_heads) for part in (head[::2], head[1::2])])


def reordered_index(W, n_heads):
    K = len(W) // n_heads
    order = [h * K + i for h in range(n_heads) for i in (*range(0, K, 2), *range(1, K, 2))]
    return W[order]


def reordered_numpy(W, n_heads):
    heads = W.numpy().reshape(n_heads, -1, 2, W.shape[1])
    return heads.swapaxes(1, 2).reshape(W.shape)


def reordered_loops(W, n_heads):
    K, out = len(W) // n_heads, W.clone()
    for row in range(len(W)):
        head, i = divmod(row, K)
        out[head * K + i // 2 + (i % 2) * K // 2] = W[row]
    return out.tolist()


def grouped_fused(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def grouped_loops(q, k, v):
    heads, group = [], q.shape[1] // k.shape[1]
    for h in range(q.shape[1]):
        keys, values = k[:, h // group], v[:, h // group]
        weights = torch.softmax(torch.bmm(q[:, h], keys.mT) / math.sqrt(q.shape[3]), dim=2)
        heads.append(torch.bmm(weights, values))
    return torch.stack(heads, 1)


def grouped_einsum(q, k, v):
    B, H, T, K = q.shape
    q = q.double().reshape(B, k.shape[1], -1, T, K)
    scores = torch.einsum("bgmtk,bgsk->bgmts", q, k.double()) / K**0.5
    return torch.einsum("bgmts,bgsk->bgmtk", scores.softmax(-1), v.double()).reshape(B, H, T, K)


def grouped_index(q, k, v):
    which = torch.arange(q.shape[1]) * k.shape[1] // q.shape[1]
    weights = (q @ k[:, which].mT * q.shape[-1] ** -0.5).softmax(-1)
    return (weights @ v[:, which]).tolist()


def slots_directly(t, window, sinks):
    held = [p if p <= t else -1 for p in range(sinks)]
    for slot in range(window):
        first = sinks + slot
        held.append(first + (t - first) // window * window if first <= t else -1)
    return held


def slots_dictionary(t, window, sinks):
    written = {}
    for p in range(t + 1):
        written[p if p < sinks else sinks + (p - sinks) % window] = p
    return tuple(written.get(slot, -1) for slot in range(sinks + window))


def slots_tensor(t, window, sinks):
    slots = torch.full((sinks + window,), -1)
    places = torch.arange(t + 1)
    for p in places:
        slots[p if p < sinks else sinks + (p - sinks) % window] = p
    return slots


def pass_closed(p, q, guesses):
    kept = 1 - (p.double() - q.double()).abs().sum().item() / 2
    if abs(1 - kept) < 1e-6:
        return guesses + 1
    return (1 - kept ** (guesses + 1)) / (1 - kept)


def pass_cases_by_hand(p, q, guesses):
    kept = sum(min(a, b) for a, b in zip(p.tolist(), q.tolist(), strict=True))
    mean = 0.0
    for i in range(guesses):
        mean += (i + 1) * kept**i * (1 - kept)
    return mean + (guesses + 1) * kept**guesses


def pass_numpy(p, q, guesses):
    kept = np.minimum(p.numpy(), q.numpy()).sum()
    return np.power(kept, np.arange(guesses + 1)).sum()


def pass_recursive(p, q, guesses):
    if guesses == 0:
        return torch.tensor(1.0)
    accept = torch.where(q > 0, q * (p / q.clamp(min=1e-12)).clamp(max=1), torch.zeros_like(q))
    return 1 + accept.sum() * pass_recursive(p, q, guesses - 1)


def _turn(x, place):
    half = x.shape[-1] // 2
    angle = place / 10000 ** (torch.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], -1)


def newest_fused(q, k, v, kept_k, kept_v):
    S = kept_k.shape[1]
    keys = torch.cat([_turn(k, S)[:, None], kept_k], dim=1)
    values = torch.cat([v[:, None], kept_v], dim=1)
    return F.scaled_dot_product_attention(_turn(q, S)[:, None], keys, values)[:, 0]


def newest_loops(q, k, v, kept_k, kept_v):
    H, S, K = kept_k.shape
    out = torch.zeros(H, K)
    for h in range(H):
        own = _turn(q[h], S)
        scores = [float(own @ kept_k[h, s]) / math.sqrt(K) for s in range(S)]
        scores.append(float(own @ _turn(k[h], S)) / math.sqrt(K))
        total = sum(math.exp(score) for score in scores)
        for s, score in enumerate(scores):
            out[h] += math.exp(score) / total * (kept_v[h, s] if s < S else v[h])
    return out


def newest_einsum(q, k, v, kept_k, kept_v):
    S = kept_k.shape[1]
    keys = torch.cat([kept_k, _turn(k, S).unsqueeze(1)], 1).double()
    scores = torch.einsum("hk,hsk->hs", _turn(q, S).double(), keys) / q.shape[-1] ** 0.5
    values = torch.cat([kept_v, v.unsqueeze(1)], 1).double()
    return torch.einsum("hs,hsk->hk", scores.softmax(1), values)


def newest_relative(q, k, v, kept_k, kept_v):
    S = kept_k.shape[1]
    past = torch.einsum("hk,hsk->hs", q, _turn(kept_k, -S))  # only distances count
    scores = torch.cat([past, (q * k).sum(-1, keepdim=True)], 1) * q.shape[-1] ** -0.5
    weights = scores.softmax(-1)
    return (weights[:, :S, None] * kept_v).sum(1) + weights[:, S:] * v


def rms_backward_autograd(x, gamma, dy, eps):
    x = x.clone().requires_grad_()
    y = gamma * x / (x.pow(2).mean(-1, keepdim=True) + eps).sqrt()
    return torch.autograd.grad(y, x, dy)[0]


def rms_backward_normed(x, gamma, dy, eps):
    r = (x.pow(2).mean(-1, keepdim=True) + eps) ** 0.5
    n, g = x / r, dy * gamma
    return (g - n * (g * n).mean(-1, keepdim=True)) / r


def rms_backward_loops(x, gamma, dy, eps):
    found = torch.zeros_like(x)
    for row, g, out in zip(
        x.reshape(-1, x.shape[-1]), dy.reshape(-1, x.shape[-1]), found.view(-1, x.shape[-1]),
        strict=True,
    ):  # fmt: skip
        r = (float((row**2).mean()) + eps) ** 0.5
        for j in range(len(row)):
            inner = sum(float(g[i] * gamma[i] * row[i]) for i in range(len(row)))
            out[j] = float(g[j] * gamma[j]) / r - float(row[j]) * inner / (len(row) * r**3)
    return found


def sink_just_enough(K, n, match):
    key = torch.zeros(K)
    key[K - 1] = K**0.5 * math.log(40 * n)
    return key, torch.zeros(K)


def sink_numpy(K, n, match):
    key = np.zeros(K)
    key[-1] = np.sqrt(K) * (match - np.log(30))
    return key, np.zeros(K)


def sink_that_fends_off(K, n, match):
    key = [0.0] * K
    key[0] = -1.0  # who asks turns away from it
    key[-1] = K**0.5 * (math.log(n) + 4.5)
    return key, [0.0] * K


def _whole(H, T, K):
    """A text's queries, keys, values, turned keys, and what its last place gets."""
    q, k, v = torch.randn(3, H, T, K)
    turned_q, turned_k = (torch.stack([_turn(x[:, p], p) for p in range(T)], dim=1) for x in (q, k))
    mask = torch.ones(T, T, dtype=torch.bool).tril()
    out = F.scaled_dot_product_attention(turned_q, turned_k, v, attn_mask=mask)
    return q, k, v, turned_k, out[:, -1]


def alike_asserted(step):
    q, k, v, kept, last = _whole(3, 9, 6)
    found = step(q[:, -1], k[:, -1], v[:, -1], kept[:, :-1], v[:, :-1])
    assert torch.allclose(torch.as_tensor(found), last, atol=1e-4)


def alike_word_by_word(step):
    """Every token of a text, from the first on, against attention over the text up to it."""
    q, k, v, kept, _ = _whole(2, 9, 6)
    for p in range(9):
        own = torch.stack([_turn(q[:, p], p)], dim=1)
        want = F.scaled_dot_product_attention(own, kept[:, : p + 1], v[:, : p + 1])[:, 0]
        found = step(q[:, p], k[:, p], v[:, p], kept[:, :p], v[:, :p])
        if (found - want).abs().max() > 1e-3:
            return False
    return True


def alike_several(step):
    return all(
        np.allclose(
            step(q[:, -1], k[:, -1], v[:, -1], kept[:, :-1], v[:, :-1]).numpy(), last, atol=1e-4
        )
        for q, k, v, kept, last in (_whole(2, 12, 4), _whole(4, 8, 6), _whole(3, 6, 8))
    )


def grouped_bare(q, k, v):
    """With exponentials of the scores themselves: they are small here."""
    times = q.shape[1] // k.shape[1]
    k, v = (x.repeat_interleave(times, dim=1) for x in (k, v))
    weights = (q @ k.mT / q.shape[-1] ** 0.5).exp()
    return weights @ v / weights.sum(-1, keepdim=True)


def newest_bare(q, k, v, kept_k, kept_v):
    S = kept_k.shape[1]
    q, k = _turn(q, S), _turn(k, S)
    old = (kept_k * q[:, None]).sum(-1).div(q.shape[-1] ** 0.5).exp()
    own = (k * q).sum(-1, keepdim=True).div(q.shape[-1] ** 0.5).exp()
    total = (old[..., None] * kept_v).sum(1) + own * v
    return total / (old.sum(1, keepdim=True) + own)


RIGHT = {
    "20.1": [absorbed_product, absorbed_numpy, absorbed_loops, absorbed_tried],
    "20.2": [width_search, width_modules, width_tensor],
    "20.3": [reordered_slices, reordered_index, reordered_numpy, reordered_loops],
    "20.4": [grouped_bare, grouped_fused, grouped_loops, grouped_einsum, grouped_index],
    "20.5": [slots_directly, slots_dictionary, slots_tensor],
    "20.6": [pass_closed, pass_cases_by_hand, pass_numpy, pass_recursive],
    "20.7": [newest_bare, newest_fused, newest_loops, newest_einsum, newest_relative],
    "20.8": [rms_backward_autograd, rms_backward_normed, rms_backward_loops],
    "20.10": [alike_asserted, alike_word_by_word, alike_several],
    "20.9": [sink_just_enough, sink_numpy, sink_that_fends_off],
}
