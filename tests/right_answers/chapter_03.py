"""Right answers to the exercises of chapter 3, written in different styles."""

import math

import numpy as np
import torch


def general_einsum(q, k, w):
    return torch.einsum("btq,qk,bsk->bts", q, w, k)


def general_loops(q, k, w):
    return [
        [[float(a @ w @ b) for b in keys] for a in queries]
        for queries, keys in zip(q, k, strict=True)
    ]


def general_numpy(q, k, w):
    return q.numpy().astype("float64") @ (w.numpy() @ k.numpy().transpose(0, 2, 1))


def additive_loops(q, k, w_q, w_k, v):
    scores = torch.empty(q.shape[0], q.shape[1], k.shape[1])
    for b, t, s in np.ndindex(*scores.shape):
        scores[b, t, s] = torch.tanh(q[b, t] @ w_q + k[b, s] @ w_k) @ v
    return scores


def additive_einsum(q, k, w_q, w_k, v):
    hidden = torch.einsum("bqd,da->bqa", q, w_q)[:, :, None] + (k @ w_k)[:, None]
    return torch.einsum("btsa,a->bts", hidden.tanh(), v)


def additive_numpy(q, k, w_q, w_k, v):
    q, k, w_q, w_k, v = (x.double().numpy() for x in (q, k, w_q, w_k, v))
    both = np.expand_dims(q @ w_q, 2) + np.expand_dims(k @ w_k, 1)
    return (np.tanh(both) * v).sum(-1)


def kernel_cdist(q, k, sigma):
    return torch.softmax(-(torch.cdist(q, k) ** 2) / (2 * sigma * sigma), dim=-1)


def kernel_bells(q, k, sigma):
    bells = torch.exp(-0.5 * (((q[:, :, None] - k[:, None]) / sigma) ** 2).sum(-1))
    return bells / bells.sum(dim=2, keepdim=True)


def kernel_loops(q, k, sigma):
    table = []
    for queries, keys in zip(q.tolist(), k.tolist(), strict=True):
        rows = []
        for a in queries:
            row = [math.exp(-(math.dist(a, b) ** 2) / 2 / sigma**2) for b in keys]
            rows.append([x / sum(row) for x in row])
        table.append(rows)
    return table


def masked_by_hand(scores, mask):
    scores = scores.masked_fill(~mask[:, None], float("-inf"))
    highest = scores.amax(-1, keepdim=True).clamp(min=-1e30)
    shares = (scores - highest).exp()
    return shares / shares.sum(-1, keepdim=True).clamp(min=1e-30)


def masked_nan_to_num(scores, mask):
    scores = torch.where(mask[:, None, :], scores, torch.tensor(float("-inf")))
    return torch.nan_to_num(torch.softmax(scores, dim=2))


def masked_in_place(scores, mask):
    weights = torch.zeros_like(scores)
    for b in range(len(scores)):
        if mask[b].any():
            weights[b][:, mask[b]] = scores[b][:, mask[b]].softmax(dim=1)
    return weights


def greedy_one_by_one(step, batch_size, bos, eos, max_length):
    done, tokens = [False] * batch_size, torch.full((batch_size, 1), bos)
    answers = [[] for _ in range(batch_size)]
    for _ in range(max_length):
        best = step(tokens)[:, -1].argmax(dim=1)
        for i, token in enumerate(best.tolist()):
            done[i] = done[i] or token == eos
            if not done[i]:
                answers[i].append(token)
        if all(done):
            break
        tokens = torch.hstack([tokens, best[:, None]])
    return answers


def greedy_padded(step, batch_size, bos, eos, max_length):
    tokens = torch.full((batch_size, max_length + 1), eos)
    tokens[:, 0] = bos
    for t in range(max_length):
        tokens[:, t + 1] = step(tokens[:, : t + 1])[:, t].max(-1).indices
    return [
        row[: (row == eos).nonzero()[0]] if (row == eos).any() else row for row in tokens[:, 1:]
    ]


def greedy_softmax(step, batch_size, bos, eos, max_length):
    rows = [[bos] for _ in range(batch_size)]
    while len(rows[0]) <= max_length:
        probabilities = torch.softmax(step(torch.tensor(rows))[:, -1], dim=-1)
        for row, p in zip(rows, probabilities, strict=True):
            row.append(int(p.argmax()))
    return tuple(row[1 : (row + [eos]).index(eos)] for row in rows)


RIGHT = {
    "3.1": [
        [0.125, 0.25, 0.625, 0.1733, 1.0059],
        (1 / 8, 1 / 4, 5 / 8, math.log(2) / 4, 5 / 8 * math.log(5)),
        torch.tensor([0.125, 0.25, 0.625, 0.173, 1.006]),
    ],
    "3.2": [general_einsum, general_loops, general_numpy],
    "3.3": [additive_loops, additive_einsum, additive_numpy],
    "3.4": [kernel_cdist, kernel_bells, kernel_loops],
    "3.5": [masked_by_hand, masked_nan_to_num, masked_in_place],
    "3.6": [greedy_one_by_one, greedy_padded, greedy_softmax],
}
