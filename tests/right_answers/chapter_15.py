"""Right answers to the exercises of chapter 15, written in different styles."""

import math

import numpy as np
import torch


def entropy_where(weights):
    logs = torch.where(weights > 0, weights, 1.0).log()
    return -(weights * logs).sum(dim=-1)


def entropy_xlogy(weights):
    return -torch.xlogy(weights, weights).sum(-1)


def entropy_nan(weights):
    return -(weights * torch.log(weights)).nan_to_num().sum(-1)


def entropy_tiny(weights):
    return -(weights * (weights + 1e-12).log()).sum(-1)


def entropy_torch(weights):
    return torch.distributions.Categorical(probs=weights).entropy()


def entropy_loops(weights):
    rows = weights.reshape(-1, weights.shape[-1]).tolist()
    flat = [-sum(w * math.log(w) for w in row if w > 0) for row in rows]
    return torch.tensor(flat).reshape(weights.shape[:-1])


def entropy_numpy(weights):
    weights = weights.double().numpy()
    with np.errstate(all="ignore"):
        products = np.where(weights == 0, 0.0, weights * np.log2(weights))
    return -products.sum(axis=-1) * np.log(2)


def previous_loops(weights, mask):
    B, H, T, _ = weights.shape
    total, count = [0.0] * H, 0
    for b in range(B):
        for t in range(1, T):
            if mask[b, t]:
                count += 1
                for h in range(H):
                    total[h] += float(weights[b, h, t, t - 1])
    return [x / count for x in total]


def previous_gather(weights, mask):
    t = torch.arange(1, weights.shape[-1])
    found = weights[:, :, t, t - 1] * mask[:, None, 1:]
    return found.sum(dim=(0, 2)) / mask[:, 1:].sum()


def previous_lengths(weights, mask):
    rows = [w[:, range(1, n), range(n - 1)] for w, n in zip(weights, mask.sum(1), strict=True)]
    return torch.cat(rows, dim=1).mean(1)


def previous_einsum(weights, mask):
    keep = mask.float()
    keep[:, 0] = 0
    shift = torch.eye(weights.shape[-1]).roll(-1, dims=1)
    shift[0] = 0
    return torch.einsum("bhts,ts,bt->h", weights, shift, keep).numpy() / float(keep.sum())


def deaf_view(weight, n_heads, head):
    heads = weight.unflatten(1, (n_heads, -1)).clone()
    heads[:, head] = 0
    return heads.flatten(1)


def deaf_in_place(weight, n_heads, head):
    weight.chunk(n_heads, dim=1)[head].zero_()
    return weight


def deaf_product(weight, n_heads, head):
    keep = (torch.arange(weight.shape[1]) // (weight.shape[1] // n_heads)) != head
    return weight @ torch.diag(keep.float())


def deaf_numpy(weight, n_heads, head):
    pieces = np.split(weight.numpy(), n_heads, axis=1)
    pieces[head] = np.zeros_like(pieces[head])
    return np.concatenate(pieces, axis=1)


def deaf_columns(weight, n_heads, head):
    d_v = weight.size(1) // n_heads
    for column in range(d_v * head, d_v * head + d_v):
        weight[:, column] = 0
    return weight.tolist()


def aligned_tensor(weights):
    return weights[:-1, :-1].argmax(dim=1)


def aligned_loops(weights):
    rows = weights.tolist()[:-1]
    return [max(range(len(row) - 1), key=lambda s: row[s]) for row in rows]


def aligned_hidden(weights):
    weights[:, -1] = -1.0
    return tuple(weights[: len(weights) - 1].max(-1).indices.tolist())


def aligned_numpy(weights):
    return np.argmax(weights.numpy()[:-1, :-1], axis=-1)


def aligned_sort(weights):
    return [int(row[:-1].argsort(descending=True)[0]) for row in weights[:-1]]


def rollout_reduce(maps):
    eye = torch.eye(len(maps[0]))
    result = maps[0] * 0.5 + eye * 0.5
    for weights in maps[1:]:
        result = torch.matmul(weights * 0.5 + eye * 0.5, result)
    return result


def rollout_chain(maps):
    eye = torch.eye(maps[0].shape[0], dtype=torch.float64)
    return torch.linalg.multi_dot([(w.double() + eye) / 2 for w in maps[::-1]])


def rollout_normalised(maps):
    result = torch.eye(maps[0].shape[0])
    for weights in maps:
        result = (weights + torch.eye(len(weights))) @ result
    return result / result.sum(-1, keepdim=True)


def rollout_numpy(maps):
    result = np.eye(len(maps[0]))
    for weights in maps:
        result = 0.5 * result + 0.5 * weights.numpy() @ result
    return result.tolist()


def rollout_recursive(maps):
    if not maps:
        return 1.0
    *lower, top = maps
    below = rollout_recursive(lower) if lower else torch.eye(len(top))
    return (top @ below + below) / 2


def correlation_short(a, b):
    n = len(a)

    def place(x):
        return torch.argsort(torch.argsort(x))

    return 1 - 6 * float(((place(a) - place(b)) ** 2).sum()) / (n * (n**2 - 1))


def correlation_torch(a, b):
    rows = torch.stack([x.argsort().argsort().float() for x in (a, b)])
    return torch.corrcoef(rows)[0, 1]


def correlation_numpy(a, b):
    def order(x):
        return np.argsort(np.argsort(x.numpy()))

    return np.corrcoef(order(a), order(b))[0, 1]


def correlation_descending(a, b):
    ranks = [x.argsort(descending=True).argsort().double() + 1 for x in (a, b)]
    a, b = (r - r.mean() for r in ranks)
    return torch.cosine_similarity(a, b, dim=0)


def correlation_loops(a, b):
    ranked = [[sum(float(y < x) for y in values) for x in values] for values in (a, b)]
    mean = (len(a) - 1) / 2
    top = sum((x - mean) * (y - mean) for x, y in zip(*ranked, strict=True))
    return top / sum((x - mean) ** 2 for x in ranked[0])


RIGHT = {
    "15.1": [
        entropy_where,
        entropy_xlogy,
        entropy_nan,
        entropy_tiny,
        entropy_torch,
        entropy_loops,
        entropy_numpy,
    ],
    "15.2": [previous_loops, previous_gather, previous_lengths, previous_einsum],
    "15.3": [deaf_view, deaf_in_place, deaf_product, deaf_numpy, deaf_columns],
    "15.4": [aligned_tensor, aligned_loops, aligned_hidden, aligned_numpy, aligned_sort],
    "15.5": [
        rollout_reduce,
        rollout_chain,
        rollout_normalised,
        rollout_numpy,
        rollout_recursive,
    ],
    "15.6": [
        correlation_short,
        correlation_torch,
        correlation_numpy,
        correlation_descending,
        correlation_loops,
    ],
}
