"""Right answers to the exercises of chapter 4, written in different styles."""

import math

import numpy as np
import torch


def cosine_where(q, k):
    lengths = torch.outer(q.norm(dim=1), k.norm(dim=1))
    return torch.where(lengths > 0, q @ k.T / lengths, torch.zeros(()))


def cosine_loops(q, k):
    table = []
    for a in q.tolist():
        row = []
        for b in k.tolist():
            below = math.hypot(*a) * math.hypot(*b)
            row.append(sum(i * j for i, j in zip(a, b, strict=True)) / below if below else 0.0)
        table.append(row)
    return table


def cosine_built_in(q, k):
    return torch.cosine_similarity(q[:, None], k[None], dim=-1)


def cosine_numpy(q, k):
    q, k = (x.numpy().astype("float64") for x in (q, k))
    with np.errstate(invalid="ignore"):
        q, k = (x / np.sqrt(np.square(x).sum(1, keepdims=True)) for x in (q, k))
    return np.nan_to_num(q) @ np.nan_to_num(k).T


def cosine_small_epsilon(q, k):
    return (q @ k.T) / (q.norm(dim=1)[:, None] * k.norm(dim=1)[None] + 1e-8)


def cosine_in_place(q, k):
    for x in (q, k):
        x /= x.norm(dim=1, keepdim=True).clamp(min=1e-12)
    return torch.einsum("tk,sk->ts", q, k)


def distance_cdist(q, k):
    return -torch.cdist(q, k).square()


def distance_einsum(q, k):
    difference = q[:, :, None] - k[:, None]
    return -torch.einsum("btsd,btsd->bts", difference, difference)


def distance_by_squares(q, k):
    lengths = q.square().sum(-1)[:, :, None] + k.square().sum(-1)[:, None]
    return 2 * q @ k.mT - lengths


def distance_in_place(q, k):
    scores = torch.empty(q.shape[0], q.shape[1], k.shape[1])
    for b, t, s in np.ndindex(*scores.shape):
        scores[b, t, s] = -((q[b, t] - k[b, s]) ** 2).sum()
    return scores


def distance_lists(q, k):
    return [
        [[-(math.dist(a, b) ** 2) for b in keys] for a in queries]
        for queries, keys in zip(q.tolist(), k.tolist(), strict=True)
    ]


def row_of_table(x, t):
    return torch.softmax(x @ x.T, dim=1)[t]


def row_by_loop(x, t):
    shares = [math.exp(sum(a * b for a, b in zip(x[t], word, strict=True))) for word in x]
    return [share / sum(shares) for share in shares]


def row_in_numpy(x, t):
    x = x.double().numpy()
    shares = np.exp(x @ x[t] - (x @ x[t]).max())
    return shares / shares.sum()


def row_as_batch(x, t):
    return torch.einsum("d,sd->s", x[t], x).softmax(-1)


def attend_einsum(x):
    weights = torch.einsum("btd,bsd->bts", x, x).softmax(dim=2)
    return torch.einsum("bts,bsd->btd", weights, x)


def attend_loops(x):
    new = torch.zeros_like(x)
    for b in range(x.shape[0]):
        for t in range(x.shape[1]):
            shares = [math.exp(x[b, t] @ x[b, s]) for s in range(x.shape[1])]
            for s, share in enumerate(shares):
                new[b, t] += share / sum(shares) * x[b, s]
    return new


def attend_built_in(x):
    return torch.nn.functional.scaled_dot_product_attention(x, x, x, scale=1.0)


def attend_columns(x):
    scores = torch.bmm(x, x.mT)
    return torch.bmm(scores.softmax(1).mT, x)  # symmetric scores: two turns make a right one


def attend_numpy(x):
    x = x.numpy().astype("float64")
    shares = np.exp(x @ x.swapaxes(1, 2))
    return (shares / shares.sum(-1, keepdims=True)) @ x


def attend_per_sentence(x):
    return [torch.softmax(sentence @ sentence.T, -1) @ sentence for sentence in x]


def order_indexed(weights, order):
    return weights[order.unsqueeze(1), order]


def order_matrix(weights, order):
    p = torch.eye(len(order))[order]
    return p @ weights @ p.T


def order_loops(weights, order):
    order = order.tolist()
    return [[weights[i, j].item() for j in order] for i in order]


def order_in_place(weights, order):
    weights[:] = weights[order]
    weights[:] = weights[:, order]
    return weights


def order_selected(weights, order):
    return weights.index_select(0, order).index_select(1, order).double()


RIGHT = {
    "4.1": [
        [0.4223, 0.4223, 0.1554, 0.3107, 1.4223, 0.0, 0.4223],
        (0.422, 0.422, 0.155, 0.311, 1.422, 0, 0.422),
        torch.tensor([0.4223, 0.4223, 0.1554, 0.3107, 1.4223, 0.0, 0.4223]),
    ],
    "4.2": [
        cosine_where,
        cosine_loops,
        cosine_built_in,
        cosine_numpy,
        cosine_small_epsilon,
        cosine_in_place,
    ],
    "4.3": [
        distance_cdist,
        distance_einsum,
        distance_by_squares,
        distance_in_place,
        distance_lists,
    ],
    "4.4": [row_of_table, row_by_loop, row_in_numpy, row_as_batch],
    "4.5": [
        attend_einsum,
        attend_loops,
        attend_built_in,
        attend_columns,
        attend_numpy,
        attend_per_sentence,
    ],
    "4.6": [order_indexed, order_matrix, order_loops, order_in_place, order_selected],
}
