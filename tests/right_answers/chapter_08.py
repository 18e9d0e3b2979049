"""Right answers to the exercises of chapter 8, written in different styles."""

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from allyouneed import masks
from allyouneed.attention import masked_softmax


def packed_loops(tokens, eos, pad):
    masks = []
    for row in tokens.tolist():
        sentence, which = 0, []
        for token in row:
            which.append(None if token == pad else sentence)
            sentence += token == eos
        masks.append([[[q is not None and q == k for k in which] for q in which]])
    return masks


def packed_padding_apart(tokens, eos, pad):
    sentence = torch.zeros_like(tokens)
    sentence[:, 1:] = (tokens == eos).cumsum(1)[:, :-1]
    sentence = sentence.masked_fill(tokens == pad, -1)
    same = sentence.unsqueeze(2).eq(sentence.unsqueeze(1)) & sentence.ge(0).unsqueeze(1)
    return same.unsqueeze(1)


def packed_numpy(tokens, eos, pad):
    ids = tokens.numpy()
    behind = np.cumsum((ids == eos)[:, ::-1], axis=1)[:, ::-1]  # ends from here on; paddings: 0
    return ((behind[:, :, None] == behind[:, None]) & (behind[:, None] > 0))[:, None]


def packed_blocks(tokens, eos, pad):
    mask = torch.zeros(len(tokens), 1, tokens.shape[1], tokens.shape[1], dtype=torch.bool)
    for b, row in enumerate(tokens):
        start = 0
        for end in (row == eos).nonzero().flatten().tolist():
            mask[b, 0, start : end + 1, start : end + 1] = True
            start = end + 1
    return mask


def weights_logsumexp(scores, mask):
    seen = torch.where(mask, scores, torch.full_like(scores, -math.inf))
    return (seen - seen.logsumexp(-1, keepdim=True)).exp().nan_to_num(0.0)


def buffer_rows_of_triangle(filled, new, size):
    return torch.ones(size, size).tril()[filled : filled + new].bool()


def buffer_tril(filled, new, size):
    return torch.ones(new, size, dtype=torch.bool).tril(filled)


def buffer_loops(filled, new, size):
    return [[s <= filled + i for s in range(size)] for i in range(new)]


def buffer_numpy(filled, new, size):
    return ~np.triu(np.ones((new, size), dtype=bool), k=filled + 1)


def weights_nan_to_num(scores, mask):
    return torch.nan_to_num(torch.where(mask, scores, -torch.inf).softmax(dim=-1))


def weights_additive(scores, mask):
    added = torch.zeros(mask.shape).masked_fill(mask.logical_not(), float("-inf"))
    return torch.softmax(scores + added, dim=-1).nan_to_num(0.0)


def weights_by_hand(scores, mask):
    highest = scores.masked_fill(~mask, -math.inf).amax(-1, keepdim=True).clamp(min=-1e30)
    shares = (scores - highest).clamp(max=0).exp() * mask
    return shares / shares.sum(-1, keepdim=True).clamp(min=1e-30)


def weights_low_and_struck(scores, mask):
    low = torch.finfo(scores.dtype).min
    return scores.masked_fill(~mask, low).softmax(-1) * mask


def weights_loops(scores, mask):
    mask = mask.expand_as(scores)
    weights = torch.zeros_like(scores, dtype=torch.float64)
    for b, h, t in np.ndindex(*scores.shape[:3]):
        seen = mask[b, h, t]
        if seen.any():
            weights[b, h, t, seen] = scores[b, h, t, seen].double().softmax(0)
    return weights


TEST_IDS = [[5, 5, 4, 6, 3], [9, 2, 5, 4, 5], [4, 6, 3, 5, 5], [7, 8, 9, 6, 3]]  # padding: 5


def masks_test_by_the_package(weigh):
    tokens = torch.tensor(TEST_IDS)
    mask = masks.padding_mask(tokens, 5) & masks.causal_mask(5)
    for seed, size in enumerate((1, 10, 250)):
        draw = torch.Generator().manual_seed(seed)
        scores = size * torch.randn(4, 3, 5, 5, generator=draw)
        if not torch.allclose(weigh(scores, tokens, 5), masked_softmax(scores, mask), atol=1e-4):
            return False
    return True


def masks_test_asserts(weigh):
    """By what holds: nothing hidden is seen, rows sum to one or zero, shares go by the scores."""
    for pad in (5, 4):
        tokens = torch.tensor(TEST_IDS)
        draw = torch.Generator().manual_seed(pad)
        for size in (0.5, 300.0):
            scores = size * torch.randn(4, 3, 5, 5, generator=draw)
            out = weigh(scores.clone(), tokens.clone(), pad)
            may = (tokens != pad)[:, None, None] & torch.ones(5, 5).tril().bool()
            may = may.expand_as(scores)
            assert (out[~may] == 0).all()
            assert torch.allclose(out.sum(-1), may.any(-1).float(), atol=1e-4)
            seen = scores.masked_fill(~may, -torch.inf)
            shares = (seen - seen.amax(-1, keepdim=True)).exp()[may]
            best = out.amax(-1, keepdim=True).expand_as(out)[may]
            assert torch.allclose(out[may], shares * best, atol=1e-4)


def masks_test_numpy(weigh):
    ids = np.array([[1, 1, 1, 8, 3], [2, 7, 1, 0, 3], [0, 3, 1, 1, 1]])
    draw = np.random.default_rng(0)
    for low, high in ((-2, 2), (-900, 900)):
        scores = draw.uniform(low, high, (3, 2, 5, 5)).astype(np.float32)
        got = np.asarray(weigh(torch.tensor(scores), torch.tensor(ids), 1))
        for b, h, t in np.ndindex(3, 2, 5):
            want, seen = np.zeros(5), [s for s in range(t + 1) if ids[b, s] != 1]
            if seen:
                parts = np.exp(scores[b, h, t, seen] - scores[b, h, t, seen].max())
                want[seen] = parts / parts.sum()
            if not np.allclose(got[b, h, t], want, atol=1e-4):
                return False
    return True


class Plain(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.h, self.d_k = n_heads, d_model // n_heads
        self.w_q = nn.Linear(d_model, d_model, bias=False)
        self.w_k = nn.Linear(d_model, d_model, bias=False)
        self.w_v = nn.Linear(d_model, d_model, bias=False)
        self.w_o = nn.Linear(d_model, d_model, bias=False)

    def forward(self, q, k, v, mask=None):
        batch = q.size(0)
        q = self.w_q(q).view(batch, -1, self.h, self.d_k).transpose(1, 2)
        k = self.w_k(k).view(batch, -1, self.h, self.d_k).transpose(1, 2)
        v = self.w_v(v).view(batch, -1, self.h, self.d_k).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.d_k)
        if mask is not None:
            scores = scores.masked_fill(mask == 0, float("-inf"))
        weights = torch.nan_to_num(scores.softmax(dim=-1))
        out = (
            torch.matmul(weights, v)
            .transpose(1, 2)
            .contiguous()
            .view(batch, -1, q.size(1) * q.size(3))
        )
        return self.w_o(out)


class Einsum(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        for name in ("w_q", "w_k", "w_v", "w_o"):
            setattr(self, name, nn.Linear(d_model, d_model, bias=False))

    def forward(self, q, k, v, mask):
        def split(x):
            return x.reshape(*x.shape[:2], self.n_heads, -1)

        q, k, v = split(self.w_q(q)), split(self.w_k(k)), split(self.w_v(v))
        scores = torch.einsum("bthk,bshk->bhts", q, k) * q.shape[-1] ** -0.5
        weights = torch.where(mask, scores, torch.finfo(scores.dtype).min).softmax(-1) * mask
        return self.w_o(torch.einsum("bhts,bshk->bthk", weights, v).flatten(2))


class HeadByHead(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads, self.d_k = n_heads, d_model // n_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (
            nn.Linear(d_model, d_model, bias=False, dtype=torch.float64) for _ in range(4)
        )

    def forward(self, q, k, v, mask):
        full = torch.broadcast_to(mask, (q.shape[0], self.n_heads, q.shape[1], k.shape[1]))
        heads = []
        for i in range(self.n_heads):
            own = slice(i * self.d_k, (i + 1) * self.d_k)
            a, b, c = self.w_q(q)[..., own], self.w_k(k)[..., own], self.w_v(v)[..., own]
            scores = (a @ b.mT / self.d_k**0.5).masked_fill(~full[:, i], -torch.inf)
            weights = scores.softmax(-1).masked_fill(~full[:, i], 0)
            heads.append(weights @ c)
        return self.w_o(torch.cat(heads, dim=-1))


class Fused(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.w_q, self.w_k, self.w_v, self.w_o = (
            nn.Linear(d_model, d_model, bias=False) for _ in range(4)
        )

    def forward(self, q, k, v, mask):
        q, k, v = (
            w(x).unflatten(2, (self.n_heads, -1)).swapaxes(1, 2)
            for w, x in ((self.w_q, q), (self.w_k, k), (self.w_v, v))
        )
        heads = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.w_o(heads.swapaxes(1, 2).flatten(2))


def decoder_two_steps(scores, tokens, pad):
    scores = scores.masked_fill((tokens == pad)[:, None, None], -torch.inf)
    future = torch.ones(scores.shape[-2:]).triu(1).bool()
    return scores.masked_fill(future, -torch.inf).softmax(-1).nan_to_num()


def decoder_package(scores, tokens, pad):
    mask = masks.padding_mask(tokens, pad) & masks.causal_mask(tokens.shape[1])
    return masked_softmax(scores, mask)


def decoder_loops(scores, tokens, pad):
    weights = torch.zeros_like(scores)
    for b, row in enumerate(tokens.tolist()):
        for t in range(len(row)):
            seen = [s for s in range(t + 1) if row[s] != pad]
            if seen:
                weights[b, :, t, seen] = scores[b, :, t, seen].softmax(-1)
    return weights


def paddings_search(scores, share):
    words, n = scores.double().exp().sum().item(), 0
    while n / (n + words) < share - 1e-12:
        n += 1
    return n


def paddings_logs(scores, share):
    log_words = torch.logsumexp(scores.double(), 0)
    n = (math.log(share) - math.log1p(-share) + log_words).exp().item()
    return int(-((-n + 1e-9) // 1))


def paddings_numpy(scores, share):
    odds = share / (1 - share)
    return np.ceil(odds * np.exp(scores.numpy().astype(float)).sum() - 1e-9)


def copy_slices(n):
    mask = torch.eye(3 * n).bool()
    mask[n:] = False
    mask[n : 2 * n, :n] = torch.eye(n).bool()
    mask[2 * n :, :n] = torch.eye(n).flip(1).bool()
    return mask


def copy_of_the_copy(n):
    """The way back looks at the copy, n + 1 to 2n, where it can."""
    mask = np.tril(np.ones((3 * n, 3 * n), dtype=bool))
    mask[n:] = False
    for j in range(n):
        mask[n + j, j] = True
        mask[2 * n + j, n - 1 - j] = j % 2 == 0
        mask[2 * n + j, 2 * n - j] = True
    return mask


def copy_lists(n):
    rows = [[s == 0 for s in range(3 * n)] for _ in range(n)]
    rows += [[s == j for s in range(3 * n)] for j in range(n)]
    return rows + [[s == n - 1 - j for s in range(3 * n)] for j in range(n)]


RIGHT = {
    "8.1": [
        [0, 0.25, 0.75, 0, 0],
        (0.0, 1 / 4, 3 / 4, 0.0, 0.0),
        torch.tensor([0, math.log(1), math.log(3), 0, 0]).exp() * torch.tensor([0, 1, 1, 0, 0]) / 4,
    ],
    "8.2": [packed_loops, packed_padding_apart, packed_numpy, packed_blocks],
    "8.3": [buffer_rows_of_triangle, buffer_tril, buffer_loops, buffer_numpy],
    "8.4": [
        weights_logsumexp,
        weights_nan_to_num,
        weights_additive,
        weights_by_hand,
        weights_low_and_struck,
        weights_loops,
    ],
    "8.5": [masks_test_by_the_package, masks_test_asserts, masks_test_numpy],
    "8.6": [
        ["future", "none", "source", "padding", "none", "source", "none"],
        ("Future", None, "Source", "Padding", None, "Source", None),
        "future nothing source padding nothing source nothing".split(),
    ],
    "8.7": [Plain, Einsum, HeadByHead, Fused],
    "8.8": [
        [False, False, False, True, True, False],
        (0, 0, 0, 1, 1, 0),
        torch.tensor([0, 0, 0, 1, 1, 0]).bool(),
    ],
    "8.9": [decoder_two_steps, decoder_package, decoder_loops],
    "8.10": [paddings_search, paddings_logs, paddings_numpy],
    "8.11": [copy_slices, copy_of_the_copy, copy_lists],
}
