"""Right answers to the exercises of chapter 7, written in different styles."""

import math

import numpy as np
import torch
from torch import nn

from allyouneed.attention import attention


def unfused_view(x, n_heads):
    b, t, d = x.shape
    x = x.view(b, t, n_heads, 3, d // n_heads // 3).double()
    return x.permute(3, 0, 2, 1, 4).unbind(0)


def unfused_slices(x, n_heads):
    d_k = x.shape[-1] // 3 // n_heads
    heads = [x[..., 3 * d_k * i : 3 * d_k * (i + 1)] for i in range(n_heads)]
    return [torch.stack([h[..., j * d_k : (j + 1) * d_k] for h in heads], 1) for j in range(3)]


def unfused_numpy(x, n_heads):
    pieces = np.split(x.numpy(), 3 * n_heads, axis=2)
    return tuple(np.stack(pieces[j::3], axis=1) for j in range(3))


def unfused_lists(x, n_heads):
    d_k = x.shape[2] // 3 // n_heads
    return [
        [
            [[w[d_k * (3 * i + j) : d_k * (3 * i + j + 1)] for w in words] for i in range(n_heads)]
            for words in x.tolist()
        ]
        for j in range(3)
    ]


def pruned_slices(w_q, w_k, w_v, w_o, n_heads, keep):
    d_k = len(w_o) // n_heads
    own = [slice(i * d_k, (i + 1) * d_k) for i in keep]
    three = [torch.cat([w[:, one] for one in own], dim=1) for w in (w_q, w_k, w_v)]
    return *three, torch.cat([w_o[one] for one in own])


def pruned_boolean(w_q, w_k, w_v, w_o, n_heads, keep):
    head = torch.arange(len(w_o)) // (len(w_o) // n_heads)
    kept = torch.isin(head, torch.tensor(keep))
    return [w_q[:, kept], w_k[:, kept], w_v[:, kept], w_o[kept, :]]


def pruned_numpy(w_q, w_k, w_v, w_o, n_heads, keep):
    d_k = w_q.shape[1] // n_heads
    places = np.concatenate([np.arange(i * d_k, (i + 1) * d_k) for i in keep])
    return *(np.take(w.numpy(), places, axis=1) for w in (w_q, w_k, w_v)), w_o.numpy()[places]


def sum_einsum(heads, w_o):
    return torch.einsum("bhtk,hkd->btd", heads, w_o.view(heads.shape[1], heads.shape[3], -1))


def sum_in_place(heads, w_o):
    b, h, t, k = heads.shape
    out = torch.zeros(b, t, w_o.shape[1])
    for i in range(h):
        out += heads[:, i] @ w_o[i * k : (i + 1) * k]
    return out


def sum_numpy(heads, w_o):
    heads, w_o = heads.double().numpy(), w_o.double().numpy()
    return sum(
        a @ b for a, b in zip(heads.swapaxes(0, 1), np.split(w_o, heads.shape[1]), strict=True)
    )


def sum_merged(heads, w_o):
    return heads.transpose(1, 2).flatten(2) @ w_o


def multi_head_loop(x, w_q, w_k, w_v, w_o, n_heads):
    d_k = x.shape[-1] // n_heads
    heads = []
    for i in range(n_heads):
        own = slice(i * d_k, (i + 1) * d_k)
        heads.append(attention(x @ w_q[:, own], x @ w_k[:, own], x @ w_v[:, own]))
    return torch.cat(heads, dim=-1) @ w_o


def multi_head_einsum(x, w_q, w_k, w_v, w_o, n_heads):
    d = x.shape[-1]
    q, k, v = (
        torch.einsum("btd,dhk->bhtk", x, w.reshape(d, n_heads, d // n_heads))
        for w in (w_q, w_k, w_v)
    )
    weights = torch.softmax(torch.einsum("bhtk,bhsk->bhts", q, k) * (d / n_heads) ** -0.5, dim=-1)
    return torch.einsum("bhts,bhsk,hkd->btd", weights, v, w_o.reshape(n_heads, d // n_heads, d))


def multi_head_torch(x, w_q, w_k, w_v, w_o, n_heads):
    module = nn.MultiheadAttention(x.shape[-1], n_heads, bias=False, batch_first=True)
    with torch.no_grad():
        module.in_proj_weight.copy_(torch.cat([w_q, w_k, w_v], dim=1).T)
        module.out_proj.weight.copy_(w_o.T)
    return module(x, x, x)[0]


def multi_head_numpy(x, w_q, w_k, w_v, w_o, n_heads):
    x, w_q, w_k, w_v, w_o = (a.double().numpy() for a in (x, w_q, w_k, w_v, w_o))
    out = np.zeros_like(x)
    for b, sentence in enumerate(x):
        pieces = (np.split(sentence @ w, n_heads, axis=1) for w in (w_q, w_k, w_v))
        found = []
        for q, k, v in zip(*pieces, strict=True):
            shares = np.exp(q @ k.T / math.sqrt(q.shape[1]))
            found.append(shares / shares.sum(1, keepdims=True) @ v)
        out[b] = np.hstack(found) @ w_o
    return out


class FoldedIntoBatch(nn.Module):
    """Heads folded into the batch, as older code does it; batched products."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.h, self.d_k = n_heads, d_model // n_heads
        for name in ("w_q", "w_k", "w_v", "w_o"):
            setattr(self, name, nn.Linear(d_model, d_model, bias=False))

    def fold(self, x):
        b, length, _ = x.shape
        x = x.view(b, length, self.h, self.d_k).permute(0, 2, 1, 3)
        return x.reshape(b * self.h, length, self.d_k)

    def forward(self, q, k, v, mask=None):
        b, t = q.shape[:2]
        q, k, v = self.fold(self.w_q(q)), self.fold(self.w_k(k)), self.fold(self.w_v(v))
        scores = torch.bmm(q, k.transpose(1, 2)).div_(self.d_k**0.5)
        scores = scores.view(b, self.h, t, -1)
        if mask is not None:
            scores = torch.where(mask, scores, torch.tensor(-math.inf))
        weights = torch.nan_to_num(torch.softmax(scores, dim=-1)).view(b * self.h, t, -1)
        heads = torch.bmm(weights, v).view(b, self.h, t, self.d_k)
        return self.w_o(torch.cat(heads.unbind(1), dim=-1))


class OneHeadAfterTheOther(nn.Module):
    """A loop over the heads, with the output as a sum."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.d_k = d_model // n_heads
        self.w_q = nn.Linear(d_model, d_model, bias=False)
        self.w_k = nn.Linear(d_model, d_model, bias=False)
        self.w_v = nn.Linear(d_model, d_model, bias=False)
        self.w_o = nn.Linear(d_model, d_model, bias=False)

    def forward(self, q, k, v, mask=None):
        q, k, v = (
            w(a).split(self.d_k, -1) for w, a in ((self.w_q, q), (self.w_k, k), (self.w_v, v))
        )
        bands, out = self.w_o.weight.T.split(self.d_k), 0
        for i, (one_q, one_k, one_v, band) in enumerate(zip(q, k, v, bands, strict=True)):
            own = mask
            if mask is not None and mask.dim() == 4:
                own = mask[:, i % mask.shape[1]]  # (B, T, S), one for all heads or one for each
            out = out + attention(one_q, one_k, one_v, own) @ band
        return out


class BareMatrices(nn.Module):
    """Parameters instead of layers."""

    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (
            nn.Parameter(torch.randn(d_model, d_model)) for _ in range(4)
        )

    def forward(self, q, k, v, mask=None):
        q, k, v = (
            (x @ w).unflatten(-1, (self.n_heads, -1)).transpose(1, 2)
            for x, w in ((q, self.w_q), (k, self.w_k), (v, self.w_v))
        )
        out = attention(q, k, v, mask)
        return torch.einsum("bhtk,hkd->btd", out, self.w_o.unflatten(0, (self.n_heads, -1)))


def in_heads_sdpa(q, k, v, n_heads):
    q, k, v = (x.unflatten(-1, (n_heads, -1)).transpose(1, 2) for x in (q, k, v))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)


def in_heads_slices(q, k, v, n_heads):
    d_k, found = q.shape[-1] // n_heads, []
    for start in range(0, q.shape[-1], d_k):
        own = slice(start, start + d_k)
        scores = torch.bmm(q[..., own], k[..., own].mT) / d_k**0.5
        found.append(torch.softmax(scores, dim=2) @ v[..., own])
    return torch.cat(found, dim=-1)


def in_heads_einsum(q, k, v, n_heads):
    q, k, v = (x.double().unflatten(-1, (n_heads, -1)) for x in (q, k, v))
    scores = torch.einsum("bthk,bshk->bhts", q, k) / math.sqrt(q.shape[-1])
    return torch.einsum("bhts,bshk->bthk", scores.softmax(-1), v).flatten(2)


def cut_test_slices(split):
    torch.manual_seed(0)
    for b, t, h, d in ((2, 4, 3, 6), (3, 2, 2, 4)):
        x = torch.randn(b, t, d)
        heads = split(x, h)
        if heads.shape != (b, h, t, d // h):
            return False
        for i in range(h):
            if not torch.equal(heads[:, i], x[..., i * d // h : (i + 1) * d // h]):
                return False
    return True


def cut_test_asserts(split):
    for h in (2, 4):
        x = torch.arange(5 * 3 * 8.0).view(5, 3, 8)
        assert torch.equal(split(x, h).transpose(1, 2).reshape(5, 3, 8), x)
        assert split(x, h).shape == (5, h, 3, 8 // h)


def cut_test_by_entries(split):
    x = torch.randn(2, 3, 6)
    heads = split(x, 3)
    return heads.shape == (2, 3, 3, 2) and all(
        bool(heads[b, h, t, k] == x[b, t, 2 * h + k])
        for b in range(2)
        for h in range(3)
        for t in range(3)
        for k in range(2)
    )


def gradients_autograd(heads, w_o, grad):
    heads, w_o = heads.requires_grad_(), w_o.requires_grad_()
    out = heads.transpose(1, 2).flatten(2) @ w_o
    return torch.autograd.grad(out, (heads, w_o), grad)


def gradients_einsum(heads, w_o, grad):
    bands = w_o.unflatten(0, (heads.shape[1], -1))
    of_bands = torch.einsum("bhtk,btd->hkd", heads, grad)
    return [torch.einsum("btd,hkd->bhtk", grad, bands), of_bands.flatten(0, 1)]


def gradients_loop(heads, w_o, grad):
    B, H, T, K = heads.shape
    of_heads, of_w_o = torch.zeros_like(heads), torch.zeros_like(w_o)
    for b in range(B):
        for h in range(H):
            for t in range(T):
                band = w_o[h * K : (h + 1) * K]
                of_heads[b, h, t] = band @ grad[b, t]
                of_w_o[h * K : (h + 1) * K] += torch.outer(heads[b, h, t], grad[b, t])
    return of_heads, of_w_o


def neighbours_parabola(length):
    place = torch.arange(length).double()
    keys = torch.stack([place, place**2], dim=1)
    queries = [torch.stack([2 * (place + d), -torch.ones(length)], dim=1) for d in (-1, 1)]
    return [10 * q for q in queries], [keys, keys]


def neighbours_circle(length):
    angles = np.arange(length) * 2 * np.pi / length
    circle = np.stack([np.cos(angles), np.sin(angles)], axis=-1)
    before, after = np.roll(circle, 1, axis=0), np.roll(circle, -1, axis=0)
    return 500 * np.stack([before, after]), np.stack([circle, circle])


def neighbours_arc(length):
    def at(place):
        return [math.sin(place / 20), math.cos(place / 20)]

    keys = [at(t) for t in range(length)]
    queries = [[[9e3 * entry for entry in at(t + d)] for t in range(length)] for d in (-1, 1)]
    return torch.tensor(queries), torch.tensor([keys, keys])


RIGHT = {
    "7.1": [[7, 1, 7, 9], (7.0, 1.0, 7.0, 9.0), torch.tensor([7.0, 1.0, 7.0, 9.0])],
    "7.2": [
        [32_768, 262_144, 1_048_576, 1_050_624],
        (512 * 64, 512**2, 4 * 512**2, 4 * (512**2 + 512)),
        torch.tensor([32_768, 262_144, 1_048_576, 1_050_624]),
    ],
    "7.3": [unfused_view, unfused_slices, unfused_numpy, unfused_lists],
    "7.4": [pruned_slices, pruned_boolean, pruned_numpy],
    "7.5": [sum_einsum, sum_in_place, sum_numpy, sum_merged],
    "7.6": [multi_head_loop, multi_head_einsum, multi_head_torch, multi_head_numpy],
    "7.7": [FoldedIntoBatch, OneHeadAfterTheOther, BareMatrices],
    "7.8": [["two", "some", "all"], ("Two", "some", "ALL"), [2, "some", 10]],
    "7.9": [in_heads_sdpa, in_heads_slices, in_heads_einsum],
    "7.10": [cut_test_slices, cut_test_asserts, cut_test_by_entries],
    "7.11": [gradients_autograd, gradients_einsum, gradients_loop],
    "7.12": [neighbours_parabola, neighbours_circle, neighbours_arc],
}
