"""Right answers to the exercises of chapter 16, written in different styles."""

import math

import numpy as np
import torch
from torch.nn import functional as F


def perplexity_power(bits, size, words):
    return (2**bits) ** (size / words)


def perplexity_total(bits, size, words):
    total = bits * size * np.log(2)
    return np.exp(total / words)


def perplexity_tensor(bits, size, words):
    return torch.tensor(bits * size / words).exp2()


def perplexity_nats(bits, size, words):
    return math.exp(bits * math.log(2) * size / words)


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


def leaks_by_reach(layers, length):
    seen = torch.ones(length, length)
    for t in range(length - 1):
        seen[t, t + 1] = 0
    heard = torch.linalg.matrix_power(seen, layers) > 0
    return [t for t in range(length - 1) if heard[t, t + 1]]


def leaks_with_sets(layers, length):
    known = [{t} for t in range(length)]
    for _ in range(layers):
        known = [
            set().union(*(known[s] for s in range(length) if s != t + 1)) for t in range(length)
        ]
    return tuple(t for t in range(length) if t + 1 in known[t])


def leaks_in_words(layers, length):
    return torch.arange(length - 1) if min(layers, length - 1) >= 2 else []


def answer_loops(logits, tokens, prompts, lengths):
    total, count = 0.0, 0
    for b in range(len(tokens)):
        for t in range(int(prompts[b]), int(lengths[b])):
            total -= float(logits[b, t - 1].log_softmax(-1)[tokens[b, t]])
            count += 1
    return total / count


def answer_ignored(logits, tokens, prompts, lengths):
    labels = tokens.clone()
    for row, start, end in zip(labels, prompts.tolist(), lengths.tolist(), strict=True):
        row[:start], row[end:] = -100, -100
    return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())


def answer_gathered(logits, tokens, prompts, lengths):
    log_p = logits.double().log_softmax(-1)[:, :-1].gather(2, tokens[:, 1:, None]).squeeze(2)
    place = torch.arange(1, tokens.size(1)).expand_as(log_p)
    answer = (prompts[:, None] <= place).logical_and(place < lengths[:, None])
    return -(log_p * answer).sum() / (lengths - prompts).sum()


def least_by_sum(faces, covered, random):
    stays = 1 - covered - random
    total = covered * math.log(faces)
    for face in range(faces):  # the face in view is face 0
        joint = stays * (face == 0) + random / faces
        total -= joint * math.log(joint / (stays + random))
    return total


def least_numpy(faces, covered, random):
    p = np.full(faces, random / faces)
    p[0] += 1 - covered - random
    p /= p.sum()
    return covered * np.log(faces) - (1 - covered) * np.sum(p * np.log(p))


def least_torch(faces, covered, random):
    p = torch.full((faces,), random / faces, dtype=torch.float64)
    p[0] += 1 - covered - random
    entropy = torch.distributions.Categorical(p).entropy()
    return covered * torch.tensor(float(faces)).log() + (1 - covered) * entropy


def edit_inverse(W, x, y, others):
    keys = torch.cat([x[None], others])
    return (y - W @ x).unsqueeze(1), torch.linalg.pinv(keys)[:, 0].unsqueeze(0)


def edit_gram_schmidt(W, x, y, others):
    base = []
    for key in [*others, x]:
        for other in base:
            key = key - (key @ other) * other
        base.append(key / key.norm())
    left = base[-1]
    return ((y - W @ x) / (left @ x))[:, None], left[None]


def edit_null_space(W, x, y, others):
    _, _, rows = torch.linalg.svd(others.double(), full_matrices=True)
    free = rows[len(others) :]  # orthogonal to all the others
    A = (free.T @ (free @ x.double()))[None]
    return ((y - W @ x).double() / (A @ x.double()))[:, None].numpy(), A.numpy()


def edit_solved(W, x, y, others):
    keys = torch.cat([x[None], others])
    wanted = torch.zeros(len(keys), 1)
    wanted[0] = -2.0  # A x may be anything but 0
    A = torch.linalg.lstsq(keys, wanted).solution.T
    return ((W @ x - y) / 2)[:, None], A


def asks_by_changes(loss):
    tokens = torch.randint(9, (3, 7), generator=torch.Generator().manual_seed(1))
    prompts, lengths = torch.tensor([3, 1, 2]), torch.tensor([5, 6, 4])
    logits = torch.randn(3, 7, 9, dtype=torch.float64)
    before = float(loss(logits, tokens, prompts, lengths))
    for b in range(3):
        for t in range(7):
            other = logits.clone()
            other[b, t] = torch.randn(9)
            changed = abs(float(loss(other, tokens, prompts, lengths)) - before) > 1e-6
            if changed != (prompts[b] <= t + 1 < lengths[b]):
                return False
    return True


def asks_at_once(loss):
    tokens, logits = torch.randint(4, (2, 9)), torch.randn(2, 9, 4)
    prompts, lengths = torch.tensor([2, 5]), torch.tensor([6, 8])
    place = torch.arange(9) + 1
    wanted = (place >= prompts[:, None]).logical_and(place < lengths[:, None])

    def of(x):
        return loss(x, tokens, prompts, lengths).item()

    others = torch.where(wanted[..., None], logits, torch.randn(2, 9, 4))
    alone = abs(of(others) - of(logits)) < 1e-5
    each = []
    for b, t in wanted.nonzero().tolist():
        moved = logits.clone()
        moved[b, t] = moved[b, t] * 3 + torch.arange(4)
        each.append(abs(of(moved) - of(logits)) > 1e-5)
    return alone and all(each)


def asks_by_backward(loss):
    logits = torch.zeros(2, 6, 3).normal_().requires_grad_()
    prompts, lengths = torch.tensor([3, 2]), torch.tensor([5, 4])
    loss(logits, torch.ones(2, 6, dtype=torch.long), prompts, lengths).backward()
    found = [sorted(row.abs().amax(1).nonzero().flatten().tolist()) for row in logits.grad]
    return found == [[2, 3], [1, 2]]


RIGHT = {
    "16.1": [perplexity_power, perplexity_total, perplexity_tensor, perplexity_nats],
    "16.2": [prefix_loops, prefix_slices, prefix_numpy, prefix_maximum, prefix_numbers],
    "16.3": [loss_loops, loss_ignore, loss_gather, loss_rows, loss_weighted, loss_weights],
    "16.4": [keys_view, keys_split, keys_numpy, keys_loops],
    "16.5": [pseudo_loop, pseudo_loss, pseudo_in_place, pseudo_softmax],
    "16.6": [leaks_by_reach, leaks_with_sets, leaks_in_words],
    "16.7": [answer_loops, answer_ignored, answer_gathered],
    "16.8": [least_by_sum, least_numpy, least_torch],
    "16.9": [edit_inverse, edit_gram_schmidt, edit_null_space, edit_solved],
    "16.10": [asks_by_changes, asks_at_once, asks_by_backward],
}
