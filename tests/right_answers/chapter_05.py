"""Right answers to the exercises of chapter 5, written in different styles."""

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


def look_up_loop(query, keys, values):
    shares = [math.exp(sum(a * b for a, b in zip(query, key, strict=True))) for key in keys]
    output = torch.zeros(values.shape[1])
    for share, value in zip(shares, values, strict=True):
        output += share / sum(shares) * value
    return output


def look_up_einsum(query, keys, values):
    weights = F.softmax(torch.einsum("k,sk->s", query, keys), dim=0)
    return torch.einsum("s,sv->v", weights, values)


def look_up_numpy(query, keys, values):
    scores = keys.double().numpy() @ query.double().numpy()
    shares = np.exp(scores - scores.max())
    return (shares[:, None] * values.numpy()).sum(0) / shares.sum()


def look_up_pytorch(query, keys, values):
    return F.scaled_dot_product_attention(query[None], keys, values, scale=1.0)[0]


def variance_trace(w_q, w_k, covariance):
    m = w_q @ w_k.T
    return torch.trace(m.T @ covariance @ m @ covariance)


def variance_loops(w_q, w_k, covariance):
    c_q, c_k = (w.T @ covariance @ w for w in (w_q, w_k))
    return sum(float(c_q[i, j] * c_k[i, j]) for i in range(len(c_q)) for j in range(len(c_k)))


def variance_einsum(w_q, w_k, covariance):
    c = covariance.double().numpy()
    q, k = w_q.double().numpy(), w_k.double().numpy()
    return np.einsum("di,de,ej,fi,fg,gj->", q, c, q, k, c, k)


def variance_by_root(w_q, w_k, covariance):
    values, vectors = torch.linalg.eigh(covariance.double())
    root = vectors * values.clamp(min=0).sqrt()
    return (root.T @ w_q.double() @ w_k.double().T @ root).norm() ** 2


def colour_loops(names, colours):
    d_model = 2 * names + colours
    w_q, w_k = torch.zeros(d_model, d_model), torch.eye(d_model)
    for i in range(names):
        w_q[i, i] = -100
    for i in range(2 * names, d_model):
        w_q[i, i] = 30
    return w_q, w_k


def colour_numpy(names, colours):
    asks = np.diag([-5.0] * names + [0.0] * names + [3.0] * colours)
    return 3 * asks, 3 * np.eye(2 * names + colours)


def colour_between(names, colours):
    """The one matrix of equation (5.5) as the query matrix; the keys are the words."""
    one = torch.block_diag(
        -40 * torch.eye(names), torch.zeros(names, names), 20 * torch.eye(colours)
    )
    return one.tolist(), torch.eye(len(one)).tolist()


def colour_minus_in_the_keys(names, colours):
    """Asks for one's own name, which every key denies."""
    w_q = np.zeros((2 * names + colours, names + colours))
    w_k = w_q.copy()
    for i in range(names):
        w_q[i, i], w_k[i, i] = 1, -40
    for c in range(colours):
        w_q[2 * names + c, names + c] = w_k[2 * names + c, names + c] = 4
    return w_q, w_k


def colour_with_pointed(names, colours):
    """Name before colour, with a direction nobody uses."""
    zero = torch.zeros(names, names + colours + 1)
    name = torch.cat([torch.eye(names), torch.zeros(names, colours + 1)], 1)
    hat = torch.cat([torch.zeros(colours, names), torch.eye(colours), torch.zeros(colours, 1)], 1)
    return torch.cat([-60 * name, zero, 9 * hat]), torch.cat([name, zero, 2 * hat])


def relu_loops(scores):
    table = []
    for row in scores.tolist():
        parts = [max(score, 0.0) for score in row]
        table.append([part / sum(parts) if sum(parts) else 0.0 for part in parts])
    return table


def relu_nan_to_num(scores):
    parts = scores.clamp(min=0)
    return torch.nan_to_num(parts / parts.sum(1, keepdim=True))


def relu_normalize(scores):
    return F.normalize(F.relu(scores), p=1, dim=-1)


def relu_in_place(scores):
    scores[scores < 0] = 0
    scores /= scores.sum(-1, keepdim=True) + 1e-9
    return scores


def head_einsum(x, w_q, w_k, w_v):
    q, k, v = (torch.einsum("bsd,dk->bsk", x, w) for w in (w_q, w_k, w_v))
    return torch.einsum("bts,bsv->btv", torch.einsum("btk,bsk->bts", q, k).softmax(2), v)


def head_loops(x, w_q, w_k, w_v):
    outputs = torch.zeros(*x.shape[:2], w_v.shape[1])
    for b, t in np.ndindex(*x.shape[:2]):
        scores = torch.stack([(x[b, t] @ w_q) @ (word @ w_k) for word in x[b]])
        for weight, word in zip(scores.softmax(0), x[b], strict=True):
            outputs[b, t] += weight * (word @ w_v)
    return outputs


def head_between(x, w_q, w_k, w_v):
    """Through the one matrix of equation (5.5), and the values after the average."""
    shares = torch.exp(x.double() @ (w_q @ w_k.T).double() @ x.double().mT)
    return (shares / shares.sum(-1, keepdim=True)) @ x.double() @ w_v.double()


def head_joined(x, w_q, w_k, w_v):
    d_k, d_v = w_q.shape[1], w_v.shape[1]
    q, k, v = (x @ torch.cat([w_q, w_k, w_v], dim=1)).split([d_k, d_k, d_v], dim=-1)
    return F.scaled_dot_product_attention(q, k, v, scale=1.0)


def head_numpy(x, w_q, w_k, w_v):
    x, w_q, w_k, w_v = (part.numpy() for part in (x, w_q, w_k, w_v))
    shares = np.exp(x @ w_q @ (x @ w_k).transpose(0, 2, 1))
    return shares / shares.sum(-1, keepdims=True) @ (x @ w_v)


def across_baddbmm(y, x, w_q, w_k, w_v):
    return torch.bmm(torch.bmm(y @ w_q, (x @ w_k).permute(0, 2, 1)).softmax(-1), x @ w_v)


def across_linear(y, x, w_q, w_k, w_v):
    q, k, v = F.linear(y, w_q.T), F.linear(x, w_k.T), F.linear(x, w_v.T)
    return F.scaled_dot_product_attention(q, k, v, scale=1.0)


def across_one_by_one(y, x, w_q, w_k, w_v):
    return [
        [(x[b] @ w_k @ (asks @ w_q)).softmax(0) @ x[b] @ w_v for asks in y[b]]
        for b in range(len(y))
    ]


def across_columns(y, x, w_q, w_k, w_v):
    """Columns ask, so the softmax runs over the other axis."""
    weights = ((x @ w_k) @ (y @ w_q).transpose(1, 2)).softmax(dim=1)
    return weights.transpose(1, 2) @ (x @ w_v)


class Copied(nn.Module):
    def __init__(self, w_q, w_k, w_v):
        super().__init__()
        d_model, d_k = w_q.shape
        self.w_q = nn.Linear(d_model, d_k, bias=False)
        self.w_k = nn.Linear(d_model, d_k, bias=False)
        self.w_v = nn.Linear(d_model, w_v.shape[1], bias=False)
        with torch.no_grad():
            self.w_q.weight.copy_(w_q.T)
            self.w_k.weight.copy_(w_k.transpose(0, 1))
            self.w_v.weight.copy_(w_v.t())

    def forward(self, x):
        return torch.softmax(self.w_q(x) @ self.w_k(x).mT, dim=-1) @ self.w_v(x)


class Assigned(nn.Module):
    def __init__(self, w_q, w_k, w_v):
        super().__init__()
        for name, w in (("w_q", w_q), ("w_k", w_k), ("w_v", w_v)):
            layer = nn.Linear(w.size(0), w.size(1), bias=False)
            layer.weight.data = w.T.contiguous()
            setattr(self, name, layer)

    def forward(self, x):
        q, k, v = x @ self.w_q.weight.T, x @ self.w_k.weight.T, x @ self.w_v.weight.T
        return F.scaled_dot_product_attention(q, k, v, scale=1)


class StateDict(nn.Module):
    def __init__(self, w_q, w_k, w_v):
        super().__init__()
        self.w_v = nn.Linear(*w_v.shape, bias=False)
        self.w_k = nn.Linear(*w_k.shape, bias=False)
        self.w_q = nn.Linear(*w_q.shape, bias=False)
        names = ("w_q.weight", "w_k.weight", "w_v.weight")
        self.load_state_dict(dict(zip(names, (w_q.T, w_k.T, w_v.T), strict=True)))

    def forward(self, x):
        weights = torch.einsum("btk,bsk->bts", self.w_q(x), self.w_k(x)).softmax(-1)
        return torch.einsum("bts,bsv->btv", weights, self.w_v(x))


class Double(Copied):
    """Layers of float64, and outputs of float64."""

    def __init__(self, w_q, w_k, w_v):
        super().__init__(w_q, w_k, w_v)
        self.double()

    def forward(self, x):
        return super().forward(x.double())


RIGHT = {
    "5.1": [
        [0, 2.197, 7.6],
        (0.0, math.log(9), [7.6]),
        torch.tensor([0.0, 2.2, 7.6]),
    ],
    "5.2": [look_up_loop, look_up_einsum, look_up_numpy, look_up_pytorch],
    "5.3": [
        ["same", "same", "changed", "same", "changed", "same", "changed"],
        ("Same", "same", "Changed", "same", "changed", "same", "changed"),
        [" same", "same", "changed ", "same", "changed", "SAME", "changed"],
    ],
    "5.4": [relu_loops, relu_nan_to_num, relu_normalize, relu_in_place],
    "5.5": [head_einsum, head_loops, head_between, head_joined, head_numpy],
    "5.6": [across_baddbmm, across_linear, across_one_by_one, across_columns],
    "5.7": [Copied, Assigned, StateDict, Double],
    "5.8": [variance_trace, variance_loops, variance_einsum, variance_by_root],
    "5.9": [
        colour_loops,
        colour_numpy,
        colour_between,
        colour_with_pointed,
        colour_minus_in_the_keys,
    ],
}
