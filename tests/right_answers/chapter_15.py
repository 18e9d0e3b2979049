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
    factors = [(w.double() + eye) / 2 for w in maps[::-1]]
    return torch.linalg.multi_dot([*factors, eye])


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


def mixed_zeroed(maps, removed):
    mixed = torch.eye(maps[0].shape[-1])
    for i, layer in enumerate(maps):
        layer = layer.clone()
        for at, head in removed:
            if at == i:
                layer[head] = 0
        mixed = (layer.mean(0) + torch.eye(len(mixed))) / 2 @ mixed
    return mixed


def mixed_numpy(maps, removed):
    gone = set(map(tuple, removed))
    factors = []
    for i, layer in enumerate(maps):
        keep = np.array([(i, h) not in gone for h in range(len(layer))], dtype=float)
        a = np.einsum("h,hts->ts", keep, layer.numpy()) / len(layer)
        factors.append(0.5 * a + 0.5 * np.eye(a.shape[0]))
    return np.linalg.multi_dot([*factors[::-1], np.eye(a.shape[0])])


def mixed_recursive(maps, removed):
    if not maps:
        return None
    *lower, top = maps
    kept = torch.ones(len(top))
    for layer, head in removed:
        if layer == len(lower):
            kept[head] = 0.0
    here = (torch.tensordot(kept, top, 1) / len(top) + torch.eye(top.shape[-1])) / 2
    below = mixed_recursive(lower, removed)
    return here if below is None else here @ below


def range_rows(largest, keys):
    few, left = [], 1.0
    while left > 1e-9:
        few.append(min(largest, left))
        left -= few[-1]
    many = [largest, *[(1 - largest) / (keys - 1)] * (keys - 1)]
    return [-sum(w * math.log(w) for w in row if w > 1e-9) for row in (few, many)]


def range_torch(largest, keys):
    row = torch.zeros(keys, dtype=torch.float64)
    n = int(1 / largest + 1e-9)
    row[:n] = largest
    if n < keys:
        row[n] = 1 - n * largest
    even = torch.full((keys,), (1 - largest) / (keys - 1), dtype=torch.float64)
    even[0] = largest
    return torch.stack([torch.special.entr(x.clamp(min=0)).sum() for x in (row, even)])


def range_two_steps(largest, keys):
    def choice(*weights):
        return -sum(w * np.log(w) for w in weights if w > 1e-9)

    n = math.floor(1 / largest + 1e-9)
    least = n * largest * -np.log(largest) + choice(max(0.0, 1 - n * largest))
    return least, choice(largest, 1 - largest) + (1 - largest) * np.log(keys - 1)


def opinions_first(width):
    return [0.45, 0.35, 0.2], [[x] + [0] * (width - 1) for x in (0.7, 1.0, -1.7)]


def opinions_tensor(width):
    vectors = torch.zeros(4, width, dtype=torch.float64)
    vectors[:, -1] = torch.tensor([0.7, 1.0, -1.7, 0.3], dtype=torch.float64)
    return torch.tensor([0.45, 0.35, 0.19, 0.01], dtype=torch.float64), vectors


def opinions_scaled(width):
    return np.array([0.45, 0.35, 0.2]), -10 * np.outer([0.7, 1.0, -1.7], np.eye(width)[0])


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
    "15.8": [mixed_zeroed, mixed_numpy, mixed_recursive],
    "15.9": [range_rows, range_torch, range_two_steps],
    "15.10": [opinions_first, opinions_tensor, opinions_scaled],
}
