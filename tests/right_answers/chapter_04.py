"""Right answers to the exercises of chapter 4, written in different styles."""

import math

import numpy as np
import torch


def cosine_scaled(products):
    scale = products.diagonal().rsqrt().nan_to_num(posinf=0.0)
    return scale[:, None] * products * scale


def cosine_loops(products):
    p = products.tolist()
    table = [[0.0] * len(p) for _ in p]
    for i, j in np.ndindex(len(p), len(p)):
        below = math.sqrt(p[i][i] * p[j][j])
        table[i][j] = p[i][j] / below if below else 0
    return table


def cosine_diagonal(products):
    scale = torch.diag(1 / products.diag().clamp(min=1e-16).sqrt())
    return scale @ products @ scale


def cosine_numpy(products):
    p = products.numpy().astype("float64")
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(p / np.sqrt(np.outer(np.diag(p), np.diag(p))))


def cosine_small_epsilon(products):
    lengths = products.diag().sqrt()
    return products / (lengths[:, None] * lengths + 1e-8)


def cosine_in_place(products):
    lengths = torch.einsum("tt->t", products).sqrt() + 1e-12
    products /= lengths
    products /= lengths.unsqueeze(1)
    return products


def cosine_of_vectors_again(products):
    values, directions = torch.linalg.eigh(products.double())
    vectors = directions * values.clamp(min=0).sqrt()
    vectors[products.diag() == 0] = 0
    return torch.cosine_similarity(vectors[:, None], vectors, dim=-1)


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


def counted_by_log(x, counts):
    return torch.softmax(x @ x.mT + torch.log(counts)[:, None], dim=2) @ x


def counted_shared_again(x, counts):
    weights = (x @ x.transpose(1, 2)).softmax(-1) * counts[:, None]
    return weights / weights.sum(2, keepdim=True) @ x


def counted_loops(x, counts):
    new = torch.zeros_like(x)
    for b, t in np.ndindex(*x.shape[:2]):
        shares = [
            math.exp(x[b, t] @ word) * int(n) for word, n in zip(x[b], counts[b], strict=True)
        ]
        new[b, t] = sum(share * word for share, word in zip(shares, x[b], strict=True)) / sum(
            shares
        )
    return new


def counted_numpy(x, counts):
    x, n = x.double().numpy(), counts.numpy()
    bells = np.exp(x @ x.swapaxes(1, 2)) * n[:, None]
    return np.einsum("bts,bsd->btd", bells, x) / bells.sum(2)[..., None]


def counted_built_in(x, counts):
    bias = counts.double().log().float()[:, None].expand(-1, x.shape[1], -1)
    return torch.nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=bias, scale=1.0)


def counted_above_and_below(x, counts):
    above = torch.cat([x, torch.ones_like(x[..., :1])], dim=-1) * counts[..., None]
    both = (x @ x.mT).exp() @ above
    return both[..., :-1] / both[..., -1:]


def batch_bmm(x):
    return torch.bmm(torch.bmm(x, x.transpose(1, 2)).softmax(dim=-1), x)


def batch_one_by_one(x):
    return torch.stack([(s @ s.T).softmax(-1) @ s for s in x])


def batch_shifted(x):
    scores = x @ x.mT
    shares = (scores - scores.amax(2, keepdim=True)).exp()
    return (shares / shares.sum(2)[..., None] @ x).double()


def apart_alone(layer):
    x = torch.rand(4, 3, 2)
    return all(torch.allclose(layer(x)[b], layer(x[b][None])[0], atol=1e-5) for b in range(4))


def apart_changed(layer):
    x = torch.randn(3, 5, 4)
    for changed in range(3):
        other = x.clone()
        other[changed] += torch.randn(5, 4)
        for b in range(3):
            if b != changed and (layer(x)[b] - layer(other)[b]).abs().max() > 1e-5:
                return False
    return True


def apart_by_gradient(layer):
    for b in range(3):
        x = torch.randn(3, 4, 6, requires_grad=True)
        (slope,) = torch.autograd.grad((layer(x)[b] ** 2).sum(), x)
        slope[b] = 0
        if slope.abs().max() > 1e-5:
            return np.bool_(False)
    return np.bool_(True)


def widen_cat(q, k):
    ones = torch.ones(q.shape[0], 1)
    return torch.cat([ones, 2 * q], 1), torch.cat([-(k**2).sum(1, keepdim=True), k], 1)


def widen_both_squares(q, k):
    q_square, k_square = ((x * x).sum(-1, keepdim=True) for x in (q, k))
    one_q, one_k = torch.ones_like(q_square), torch.ones_like(k_square)
    return torch.cat([2 * q, -q_square, one_q], 1), torch.cat([k, one_k, -k_square], 1)


def widen_lists(q, k):
    root = math.sqrt(2)
    return (
        [[*(root * a for a in row), -3.0] for row in q.tolist()],
        [[*(root * a for a in row), sum(a * a for a in row) / 3] for row in k.tolist()],
    )


def widen_numpy(q, k):
    q, k = q.numpy(), k.numpy()
    return np.c_[q, np.full(len(q), 0.5)], np.c_[2 * k, -2 * np.square(k).sum(1)]


def chain_of_doubles(n):
    x = torch.zeros(n, n)
    for i in range(n):
        x[i, i] = 4.0 * 3**i
        if i + 1 < n:
            x[i, i + 1] = 4.0 * 3**i
    return x


def chain_one_by_one(n):
    rows, length = [], 3.0
    for i in range(n):
        row = [0] * (n + 1)
        row[i], row[i + 1] = length, 2
        rows.append(row)
        length = (length + 1) ** 2
    return rows


def chain_spiral(n):
    t = np.arange(n)
    length, angle = 4.0 * 5**t, t * np.pi / 3
    flat = np.stack([length * np.cos(angle), length * np.sin(angle)], axis=1)
    return flat if n < 6 else chain_of_doubles(n).numpy()


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
        cosine_scaled,
        cosine_loops,
        cosine_diagonal,
        cosine_numpy,
        cosine_small_epsilon,
        cosine_in_place,
        cosine_of_vectors_again,
    ],
    "4.3": [
        distance_cdist,
        distance_einsum,
        distance_by_squares,
        distance_in_place,
        distance_lists,
    ],
    "4.4": [
        ["always", "sometimes", "always", "never", "never"],
        ("Always", "Sometimes", "Always", "Never", "Never"),
        ["always ", "sometimes", "ALWAYS", "never", "never"],
    ],
    "4.5": [
        counted_by_log,
        counted_shared_again,
        counted_loops,
        counted_numpy,
        counted_built_in,
        counted_above_and_below,
    ],
    "4.6": [order_indexed, order_matrix, order_loops, order_in_place, order_selected],
    "4.7": [
        batch_bmm,
        batch_one_by_one,
        batch_shifted,
        attend_einsum,
        attend_loops,
        attend_built_in,
        attend_columns,
        attend_numpy,
        attend_per_sentence,
    ],
    "4.8": [apart_alone, apart_changed, apart_by_gradient],
    "4.9": [widen_cat, widen_both_squares, widen_lists, widen_numpy],
    "4.10": [chain_of_doubles, chain_one_by_one, chain_spiral],
}
