"""Right answers to the exercises of chapter 16, written in different styles."""

import math

import numpy as np
import torch
from torch.nn import functional as F


def perplexity_power(nats, tokens, words):
    return math.exp(nats) ** (tokens / words)


def perplexity_total(nats, tokens, words):
    total = nats * tokens
    per_word = total / words
    return np.exp(per_word)


def perplexity_tensor(nats, tokens, words):
    return torch.tensor(nats * tokens / words).exp()


def perplexity_bits(nats, tokens, words):
    return 2 ** (nats / math.log(2) * tokens / words)


def prefix_loops(prefix, length):
    masks = []
    for p in prefix.tolist():
        masks.append([[s < p or s <= t for s in range(length)] for t in range(length)])
    return masks


def prefix_slices(prefix, length):
    mask = torch.ones(length, length).tril().bool().repeat(len(prefix), 1, 1)
    for row, p in zip(mask, prefix, strict=True):
        row[:, :p] = True
    return mask


def prefix_numpy(prefix, length):
    place = np.arange(length)
    open_to_all = place[None, None, :] < prefix.numpy()[:, None, None]
    return open_to_all | (place[:, None] >= place)


def prefix_maximum(prefix, length):
    t = torch.arange(length)
    last = torch.maximum(t[None, :], prefix[:, None] - 1)
    return t[None, None, :] <= last[:, :, None]


def prefix_numbers(prefix, length):
    t = torch.arange(length)
    return ((t[None, None] < prefix[:, None, None]) | (t <= t[:, None])).int()


def loss_loops(logits, tokens, lengths):
    total, count = 0.0, 0
    for b in range(len(tokens)):
        for t in range(int(lengths[b]) - 1):
            p = torch.softmax(logits[b, t], dim=-1)
            total -= math.log(float(p[tokens[b, t + 1]]))
            count += 1
    return total / count


def loss_ignore(logits, tokens, lengths):
    labels = tokens[:, 1:].clone()
    for row, n in zip(labels, lengths, strict=True):
        row[n - 1 :] = -100
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels.flatten(), ignore_index=-100)


def loss_gather(logits, tokens, lengths):
    log_p = logits.log_softmax(-1)[:, :-1].gather(2, tokens[:, 1:].unsqueeze(2)).squeeze(2)
    real = torch.arange(1, tokens.size(1)) < lengths.unsqueeze(1)
    return -(log_p * real).sum() / (lengths - 1).sum()


def loss_rows(logits, tokens, lengths):
    rows = [
        F.cross_entropy(z[: n - 1], x[1:n], reduction="none")
        for z, x, n in zip(logits, tokens, lengths.tolist(), strict=True)
    ]
    return torch.cat(rows).mean()


def loss_weights(logits, tokens, lengths):
    place = torch.arange(tokens.shape[1])
    weight = ((place >= 1) & (place < lengths[:, None])).double()[:, 1:]
    p = logits.double().softmax(-1)[:, :-1].gather(2, tokens[:, 1:, None])[..., 0]
    return -(p.log() * weight).sum() / weight.sum()


def loss_weighted(logits, tokens, lengths):
    means = [
        F.cross_entropy(z[: n - 1], x[1:n]) * (n - 1)
        for z, x, n in zip(logits, tokens, lengths.tolist(), strict=True)
    ]
    return (sum(means) / float(lengths.sum() - len(lengths))).numpy()


def keys_view(c_attn, n_heads, head):
    return c_attn.view(len(c_attn), 3, n_heads, -1)[:, 1, head]


def keys_split(c_attn, n_heads, head):
    d = c_attn.shape[0]
    _, k, _ = c_attn.split(d, dim=1)
    return k.split(d // n_heads, dim=1)[head]


def keys_numpy(c_attn, n_heads, head):
    return np.split(np.split(c_attn.numpy(), 3, axis=-1)[1], n_heads, axis=-1)[head]


def keys_loops(c_attn, n_heads, head):
    d = len(c_attn)
    width = d // n_heads
    return [[float(row[d + head * width + i]) for i in range(width)] for row in c_attn]


def pseudo_loop(model, tokens, mask_token):
    total = 0.0
    for t in range(len(tokens)):
        covered = tokens.clone()
        covered[t] = mask_token
        total = total + model(covered[None])[0, t].log_softmax(-1)[tokens[t]]
    return total


def pseudo_loss(model, tokens, mask_token):
    eye = torch.eye(len(tokens), dtype=torch.bool)
    logits = model(torch.where(eye, mask_token, tokens))
    return -F.cross_entropy(logits[eye], tokens, reduction="sum")


def pseudo_in_place(model, tokens, mask_token):
    found = []
    for t in range(len(tokens)):
        right = int(tokens[t])
        tokens[t] = mask_token
        found.append(float(model(tokens.unsqueeze(0)).log_softmax(2)[0, t, right]))
        tokens[t] = right
    return math.fsum(found)


def pseudo_softmax(model, tokens, mask_token):
    batch = tokens.expand(len(tokens), -1).clone().fill_diagonal_(mask_token)
    p = model(batch).softmax(-1)
    return sum(math.log(p[t, t, tokens[t]]) for t in range(len(tokens)))


RIGHT = {
    "16.1": [perplexity_power, perplexity_total, perplexity_tensor, perplexity_bits],
    "16.2": [prefix_loops, prefix_slices, prefix_numpy, prefix_maximum, prefix_numbers],
    "16.3": [loss_loops, loss_ignore, loss_gather, loss_rows, loss_weighted, loss_weights],
    "16.4": [keys_view, keys_split, keys_numpy, keys_loops],
    "16.5": [pseudo_loop, pseudo_loss, pseudo_in_place, pseudo_softmax],
}
