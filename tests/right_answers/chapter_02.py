"""Right answers to the exercises of chapter 2, each written in three ways."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import nn


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def last_with_numpy(x, lengths, h, w, u, b):
    x, h, w, u, b = (a.numpy() for a in (x, h, w, u, b))
    result = np.zeros_like(h)
    for t in range(x.shape[1]):
        h = np.tanh(x[:, t] @ w + h @ u + b)
        result[lengths.numpy() == t + 1] = h[lengths.numpy() == t + 1]
    return result


def last_sentence_by_sentence(x, lengths, h, w, u, b):
    result = []
    for sentence, n, state in zip(x, lengths.tolist(), h, strict=True):
        for word in sentence[:n]:
            state = (word @ w + state @ u + b).tanh()
        result.append(state.tolist())
    return result


def last_with_torch(x, lengths, h, w, u, b):
    net = nn.RNN(w.shape[0], w.shape[1], batch_first=True)
    with torch.no_grad():
        net.weight_ih_l0.copy_(w.T)
        net.weight_hh_l0.copy_(u.T)
        net.bias_ih_l0.copy_(b)
        net.bias_hh_l0.zero_()
    packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    return net(packed, h[None])[1][0]


def random_sentences(lengths, seed=0):
    g = torch.Generator().manual_seed(seed)
    B, D, H = len(lengths), 2, 3
    x, h, w, u, b = (
        torch.randn(shape, generator=g)
        for shape in ((B, max(lengths) + 2, D), (B, H), (D, H), (H, H), (H,))
    )
    return x, torch.tensor(lengths), h, w, u, b


def tell_by_a_copy(reader):
    for seed in range(3):
        case = random_sentences([2, 5, 1, 3], seed)
        expected = torch.tensor(last_sentence_by_sentence(*case))
        if not torch.allclose(reader(*case), expected, atol=1e-5):
            return False
    return True


def tell_by_asserts(reader):
    case = random_sentences([3, 1, 4])
    torch.testing.assert_close(reader(*case), last_with_torch(*case), atol=1e-4, rtol=1e-4)


def tell_word_by_word(reader):
    x, lengths, h, w, u, b = random_sentences([2, 4, 3])
    got = reader(x, lengths, h, w, u, b)
    for i, n in enumerate(lengths):
        state = h[i]
        for word in x[i, :n]:
            state = torch.tanh(word @ w + state @ u + b)
        if got.shape != h.shape or (got[i] - state).abs().max() > 1e-5:
            return 0
    return 1


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


def far_with_autograd(x, h, w, u, z):
    first = torch.tensor(h, dtype=torch.float64, requires_grad=True)
    state = first
    for word in x.double():
        state = z * state + (1 - z) * torch.tanh(w * word + u * state)
    return torch.autograd.grad(state, first)[0]


def far_by_loop(x, h, w, u, z):
    slope = 1.0
    for word in x:
        n = torch.tanh(w * word + u * h)
        slope = slope * (z + (1 - z) * u / torch.cosh(w * word + u * h) ** 2)
        h = z * h + (1 - z) * n
    return slope


def far_backwards(x, h, w, u, z):
    states = [h]
    for word in x.tolist():
        states.append(z * states[-1] + (1 - z) * np.tanh(w * word + u * states[-1]))
    d = 1.0
    for t in reversed(range(len(x))):
        n = np.tanh(w * float(x[t]) + u * states[t])
        d = z * d + (1 - z) * (1 - n * n) * u * d
    return d


def keep_strongly(noise):
    return [1, 100, 0]


def keep_by_noise(noise):
    return torch.tensor([2.0, 3.0 + 4 * noise, 0.0])


def keep_carefully(noise):
    return np.float32(0.7), 2.5, 0.01


def time_with_autograd(x, h, w, u, b, g):
    leaves = [a.clone().requires_grad_() for a in (w, u, b, h)]
    w, u, b, h = leaves
    for word in x:
        h = torch.tanh(word @ w + h @ u + b)
    return torch.autograd.grad(h @ g, leaves)


def time_with_numpy(x, h, w, u, b, g):
    x, h, w, u, b, g = (a.double().numpy() for a in (x, h, w, u, b, g))
    states = [h]
    for word in x:
        states.append(np.tanh(word @ w + states[-1] @ u + b))
    slopes, rows = [1 - s**2 for s in states[1:]], []
    for slope in reversed(slopes):
        rows.insert(0, g * slope)
        g = u @ rows[0]
    a = np.stack(rows)
    return x.T @ a, np.stack(states[:-1]).T @ a, a.sum(0), g


def time_with_jacobians(x, h, w, u, b, g):
    states = [h]
    for word in x:
        states.append(torch.tanh(word @ w + states[-1] @ u + b))
    grads, way = [torch.zeros_like(a) for a in (w, u, b)], torch.eye(len(h))
    for t in range(len(x), 0, -1):
        a = (g @ way) * (1 - states[t] ** 2)  # `way` is dh_T / dh_t
        for grad, part in zip(
            grads, (x[t - 1][:, None] * a, states[t - 1][:, None] * a, a), strict=True
        ):
            grad += part
        way = way @ torch.diag(1 - states[t] ** 2) @ u.T
    return [*grads, g @ way]


RIGHT = {
    "2.1": [
        [0.572, -0.336],
        torch.tensor([[1.0, 2.0, 0.5, -1.0, 1.0]])
        .matmul(torch.tensor([[0.3, -0.2], [0.1, 0.4], [0.5, -0.3], [0.2, 0.6], [0.1, -0.2]]))
        .tanh()[0],
        np.tanh([0.65, -0.35]),
    ],
    "2.2": [last_with_numpy, last_sentence_by_sentence, last_with_torch],
    "2.3": [gru_with_einsum, gru_with_numpy, gru_in_place],
    "2.4": [tell_by_a_copy, tell_by_asserts, tell_word_by_word],
    "2.5": [deep_by_growing, deep_by_formula, deep_with_numpy],
    "2.6": [count_by_products, count_with_match, count_from_dict],
    "2.7": [[">", "=", "<"], ("larger", "equal", "smaller"), "> = <"],
    "2.8": [far_with_autograd, far_by_loop, far_backwards],
    "2.9": [keep_strongly, keep_by_noise, keep_carefully],
    "2.10": [time_with_autograd, time_with_numpy, time_with_jacobians],
}
