"""Right answers to the exercises of chapter 2, each written in three ways."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import nn


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def read_with_numpy(x, h, w, u, b):
    x, h, w, u, b = (a.numpy() for a in (x, h, w, u, b))
    states = np.zeros((*x.shape[:2], len(b)))
    for t in range(x.shape[1]):
        h = states[:, t] = np.tanh(x[:, t] @ w + h @ u + b)
    return states


def read_sentence_by_sentence(x, h, w, u, b):
    result = []
    for sentence, state in zip(x, h, strict=True):
        states = []
        for word in sentence:
            state = (word @ w + state @ u + b).tanh()
            states.append(state.tolist())
        result.append(states)
    return result


def read_with_torch(x, h, w, u, b):
    net = nn.RNN(w.shape[0], w.shape[1], batch_first=True)
    with torch.no_grad():
        net.weight_ih_l0.copy_(w.T)
        net.weight_hh_l0.copy_(u.T)
        net.bias_ih_l0.copy_(b)
        net.bias_hh_l0.zero_()
    return net(x, h[None])[0]


def gru_with_einsum(x, h, w, u, b):
    s = h.shape[1]
    word = torch.einsum("bd,dk->bk", x, w) + b
    r = torch.sigmoid(word[:, :s] + torch.einsum("bi,ij->bj", h, u[:, :s]))
    z = torch.sigmoid(word[:, s : 2 * s] + torch.einsum("bi,ij->bj", h, u[:, s : 2 * s]))
    n = torch.tanh(word[:, 2 * s :] + torch.einsum("bi,ij->bj", r * h, u[:, 2 * s :]))
    return n + z * (h - n)


def gru_with_numpy(x, h, w, u, b):
    x, h, w, u, b = (a.double().numpy() for a in (x, h, w, u, b))
    (w_r, w_z, w_n), (u_r, u_z, u_n) = np.split(w, 3, axis=1), np.split(u, 3, axis=1)
    b_r, b_z, b_n = np.split(b, 3)
    r, z = sigmoid(x @ w_r + h @ u_r + b_r), sigmoid(x @ w_z + h @ u_z + b_z)
    return z * h + (1 - z) * np.tanh(x @ w_n + (r * h) @ u_n + b_n)


def gru_in_place(x, h, w, u, b):
    s = h.shape[1]
    gates = (x @ w[:, : 2 * s]).add_(h @ u[:, : 2 * s]).add_(b[: 2 * s]).sigmoid_()
    r, z = gates[:, :s], gates[:, s:]
    candidate = torch.cat([x, r * h], 1) @ torch.cat([w[:, 2 * s :], u[:, 2 * s :]]) + b[2 * s :]
    return torch.lerp(candidate.tanh(), h, z)


def clip_with_torch(gradients, limit):
    parameters = [nn.Parameter(torch.zeros_like(g)) for g in gradients]
    for p, g in zip(parameters, gradients, strict=True):
        p.grad = g
    nn.utils.clip_grad_norm_(parameters, limit)
    return [p.grad for p in parameters]


def clip_in_place(gradients, limit):
    norm = math.sqrt(sum(float((g * g).sum()) for g in gradients))
    if norm > limit:
        for g in gradients:
            g.mul_(limit / norm)
    return tuple(gradients)


def clip_with_numpy(gradients, limit):
    joined = np.concatenate([g.numpy().ravel() for g in gradients])
    factor = limit / max(limit, np.linalg.norm(joined))
    return [g.numpy() * factor for g in gradients]


def deep_by_growing(n, k, dilated):
    seen, layers, gap = 1, 0, 1
    while seen < n:
        seen, layers = seen + gap * (k - 1), layers + 1
        gap = gap * k if dilated else 1
    return layers


def deep_by_formula(n, k, dilated):
    if dilated:
        return math.ceil(math.log(n, k) - 1e-9)
    return math.ceil((n - 1) / (k - 1))


def deep_with_numpy(n, k, dilated):
    reach = k ** np.arange(12) if dilated else 1 + (k - 1) * np.arange(2000)
    return int(np.searchsorted(reach, n))


def count_by_products(layer, n, d, k):
    def product(a, b, c):
        return a * b * c

    if layer == "self-attention":
        return product(n, d, n) + product(n, n, d)
    if layer == "recurrent":
        return n * (product(1, d, d) + product(1, d, d))
    return product(n, k * d, d)


def count_with_match(layer, n, d, k):
    match layer:
        case "self-attention":
            return n**2 * 2 * d
        case "recurrent":
            return 2 * n * d**2
        case "convolutional":
            return float(k * n * d**2)


def count_from_dict(layer, n, d, k):
    return n * d * {"self-attention": 2 * n, "recurrent": 2 * d, "convolutional": k * d}[layer]


RIGHT = {
    "2.1": [
        [0.572, -0.336],
        torch.tensor([[1.0, 2.0, 0.5, -1.0, 1.0]])
        .matmul(torch.tensor([[0.3, -0.2], [0.1, 0.4], [0.5, -0.3], [0.2, 0.6], [0.1, -0.2]]))
        .tanh()[0],
        np.tanh([0.65, -0.35]),
    ],
    "2.2": [read_with_numpy, read_sentence_by_sentence, read_with_torch],
    "2.3": [gru_with_einsum, gru_with_numpy, gru_in_place],
    "2.4": [clip_with_torch, clip_in_place, clip_with_numpy],
    "2.5": [deep_by_growing, deep_by_formula, deep_with_numpy],
    "2.6": [count_by_products, count_with_match, count_from_dict],
}
