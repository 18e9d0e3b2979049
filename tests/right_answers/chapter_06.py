"""Right answers to the exercises of chapter 6, written in different styles."""

import math

import numpy as np
import torch
from torch.nn import functional as F


def scores_einsum(q, k):
    return torch.einsum("btk,bsk->bts", q, k) * q.size(-1) ** -0.5


def scores_loops(q, k):
    root = math.sqrt(len(q[0][0]))
    return [
        [[float(a @ b) / root for b in keys] for a in queries]
        for queries, keys in zip(q, k, strict=True)
    ]


def scores_queries_first(q, k):
    q /= np.sqrt(k.shape[-1])
    return torch.bmm(q, k.mT)


def scores_fourth_roots(q, k):
    q, k = (x.double().numpy() / x.shape[2] ** 0.25 for x in (q, k))
    return q @ k.swapaxes(1, 2)


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


def jacobian_autograd(scores):
    return torch.autograd.functional.jacobian(lambda s: torch.softmax(s, 0), scores)


def jacobian_loops(scores):
    shares = [math.exp(s) for s in scores]
    p = [share / sum(shares) for share in shares]
    return [[a * ((i == j) - b) for j, b in enumerate(p)] for i, a in enumerate(p)]


def jacobian_broadcast(scores):
    p = scores.double().softmax(0)
    return p[:, None] * (torch.eye(len(p)) - p[None])


def jacobian_in_place(scores):
    p = F.softmax(scores, dim=0)
    table = -p.unsqueeze(1) * p.unsqueeze(0)
    table.diagonal().add_(p)
    return table


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
    "6.2": [scores_einsum, scores_loops, scores_queries_first, scores_fourth_roots],
    "6.3": [[576, 6, 24], (576.0, 6.0, 24.0), np.array([576, 6, 24])],
    "6.4": [attention_fused, attention_loops, attention_keys_first, attention_numpy],
    "6.5": [jacobian_autograd, jacobian_loops, jacobian_broadcast, jacobian_in_place],
    "6.6": [gradient_autograd, gradient_by_table, gradient_by_output, gradient_numpy],
}
