"""Right answers to the exercises of chapter 17, written in different styles."""

import itertools
import math

import numpy as np
import torch

from allyouneed.masks import causal_mask
from allyouneed.sparse import dilated_mask, flash_attention, reach, windowed_mask


def count_by_rows(length, window, causal):
    total = 0
    for t in range(length):
        first = max(0, t - window + 1)
        last = t if causal else min(length - 1, t + window - 1)
        total += last - first + 1
    return total


def count_by_triangles(length, window, causal):
    n = length
    outside = max(0, n - window)
    below = n * (n + 1) // 2 - outside * (outside + 1) // 2
    return below if causal else 2 * below - n


def count_with_tensors(length, window, causal):
    t = torch.arange(length)
    back = torch.minimum(t, torch.tensor(window - 1)).sum()
    return length + (back if causal else 2 * back)


def fixed_loops(length, stride, n_summary):
    rows = []
    for t in range(length):
        row = []
        for s in range(length):
            same = t // stride == s // stride
            row.append(s <= t and (same or s % stride >= stride - n_summary))
        rows.append(row)
    return torch.tensor(rows)


def fixed_in_place(length, stride, n_summary):
    mask = torch.zeros(length, length, dtype=torch.bool)
    for start in range(0, length, stride):
        end = start + stride
        mask[start:end, start:end] = True
        mask[:, max(start, end - n_summary) : end] = True
    return mask & causal_mask(length)


def fixed_numpy(length, stride, n_summary):
    t, s = np.indices((length, length))
    summary = np.isin(s % stride, range(stride - n_summary, stride))
    return np.tril(np.logical_or(t // stride == s // stride, summary))


def first_with_reach(masks):
    first = torch.full(masks[0].shape, -1)
    for layers in range(len(masks), 0, -1):
        first[reach(*masks[:layers])] = layers
    return first.fill_diagonal_(0)


def first_with_sets(masks):
    known = [{t: 0} for t in range(len(masks[0]))]
    for layer, mask in enumerate(masks, 1):
        before = [dict(row) for row in known]
        for t, row in enumerate(mask):
            for j in row.nonzero().flatten().tolist():
                for s in before[j]:
                    known[t].setdefault(s, layer)
    return [[row.get(s, -1) for s in range(len(known))] for row in known]


def first_by_counting(masks):
    known = np.eye(len(masks[0]))
    missing = 1 - known
    for mask in masks:
        known = (mask.numpy() + np.eye(len(mask))) @ known
        missing = missing + (known == 0)
    missing = missing - (1 - np.eye(len(known))) + (known != 0) * (1 - np.eye(len(known)))
    return np.where(known == 0, -1, missing)


def first_by_gradient(masks):
    x = torch.ones(len(masks[0]), dtype=torch.float64, requires_grad=True)
    y, first = x, torch.full(masks[0].shape, -1.0)
    first.fill_diagonal_(0)
    for layer, mask in enumerate(masks, 1):
        y = y + mask.double() @ y
        rows = [torch.autograd.grad(out, x, retain_graph=True)[0] for out in y]
        first[(torch.stack(rows) > 0) & (first < 0)] = layer
    return first


def merge_logs(one, two):
    logs = [top + total.log() for top, total, _ in (one, two)]
    both = torch.logaddexp(*logs)
    out = 0
    for log, (_, total, part) in zip(logs, (one, two), strict=True):
        out = out + (log - both).exp()[:, None] * part / total.clamp(min=1)[:, None]
    return out


def merge_stacked(one, two):
    top, total, out = (torch.stack(x) for x in zip(one, two, strict=True))
    fade = torch.exp(top - top.max(0).values)
    return torch.einsum("ht,htd->td", fade, out) / (fade * total).sum(0).unsqueeze(-1)


def merge_double_loop(one, two):
    rows = []
    for t in range(len(one[0])):
        top = max(float(one[0][t]), float(two[0][t]))
        fades = [np.exp(float(half[0][t]) - top) for half in (one, two)]
        total = sum(f * float(half[1][t]) for f, half in zip(fades, (one, two), strict=True))
        out = sum(f * half[2][t].double() for f, half in zip(fades, (one, two), strict=True))
        rows.append((out / total).tolist())
    return rows


def merge_in_place(one, two):
    (top, total, out), (top2, total2, out2) = one, two
    new = torch.where(top > top2, top, top2)
    total.mul_((top - new).exp()).add_(total2 * (top2 - new).exp())
    out.mul_((top - new).exp().unsqueeze(1)).add_(out2 * (top2 - new).exp().unsqueeze(1))
    return out.div_(total.unsqueeze(1))


def document_loops(documents, window):
    B, T = documents.shape
    mask = torch.zeros(B, T, T, dtype=torch.bool)
    for b, t in itertools.product(range(B), range(T)):
        for s in range(max(0, t - window + 1), t + 1):
            mask[b, t, s] = documents[b, t] == documents[b, s]
    return mask


def document_rows(documents, window):
    length = documents.size(1)
    return torch.stack(
        [(row[:, None] == row) * windowed_mask(length, window, causal=True) for row in documents]
    )


def document_numpy(documents, window):
    d = documents.numpy()
    T = d.shape[1]
    near = np.tril(np.ones((T, T), bool)) & ~np.tril(np.ones((T, T), bool), -window)
    return np.equal(d[:, :, None], d[:, None, :]) & near


def document_triangles(documents, window):
    same = documents.unsqueeze(-1).eq(documents.unsqueeze(-2))
    return same.tril().triu(1 - window)


def missed_with_reach(length, window, dilations):
    heard = reach(*(dilated_mask(length, window, d, causal=True) for d in dilations))[-1]
    return (~heard).nonzero().flatten().tolist()


def missed_with_sums(length, window, dilations):
    ways = itertools.product(*(range(0, window * d, d) for d in dilations))
    gone = {sum(way) for way in ways}
    return [s for s in range(length) if length - 1 - s not in gone]


def missed_with_flags(length, window, dilations):
    heard = torch.zeros(length, dtype=torch.bool)
    heard[-1] = True
    for d in dilations:
        more = heard.clone()
        for i in range(1, window):
            if i * d < length:
                more[: length - i * d] |= heard[i * d :]
        heard = more
    return torch.arange(length)[~heard]


ORDER = ["same", "same", "same", "differs", "differs", "differs"]


def pass_by_keys(q, k, v, tile):
    m = torch.full((len(q),), -math.inf)
    total, out = torch.zeros(len(q)), torch.zeros(len(q), v.shape[1])
    for key, value in zip(k, v, strict=True):
        s = q @ key / math.sqrt(len(key))
        new = torch.maximum(m, s)
        total = (m - new).exp() * total + (s - new).exp()
        out = (m - new).exp()[:, None] * out + (s - new).exp()[:, None] * value
        m = new
    return out / total[:, None]


def pass_package(q, k, v, tile):
    return flash_attention(q, k, v, tile=tile)


def pass_logs(q, k, v, tile):
    logs, outs = [], []
    for some, values in zip(k.double().split(tile), v.double().split(tile), strict=True):
        scores = q.double() @ some.T / k.shape[1] ** 0.5
        logs.append(scores.logsumexp(1))
        outs.append(scores.softmax(1) @ values)
    shares = torch.stack(logs).softmax(0)
    return torch.einsum("nt,ntd->td", shares, torch.stack(outs))


def pass_fused(q, k, v, tile):
    return torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None])[0]


def pass_numpy(q, k, v, tile):
    scores = q.double().numpy() @ k.double().numpy().T / np.sqrt(k.shape[1])
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True) @ v.double().numpy()


def forget_logs(out, L, score, value):
    left = L + torch.log1p(-torch.exp(torch.tensor(score - L, dtype=torch.float64)))
    gone = math.exp(score - L)
    return out + gone / (1 - gone) * (out - value), left


def forget_signed(out, L, score, value):
    """As a merge with a half whose sum is negative."""
    top = max(L, score)
    whole, part = math.exp(L - top), math.exp(score - top)
    return [(whole * out - part * value) / (whole - part), top + math.log(whole - part)]


def forget_entries(out, L, score, value):
    p = np.exp(np.float64(score) - L)
    left = [(o - p * x) / (1 - p) for o, x in zip(out.tolist(), value.tolist(), strict=True)]
    return left, np.float64(L + np.log(1 - p))


def cheapest_search(length):
    total = 2
    while True:
        found = _windows(total, length)
        if found:
            return [(w, math.prod(found[:i])) for i, w in enumerate(found)]
        total += 1


def _windows(total, length):
    """Windows with that sum whose product is large enough, or nothing."""
    if length <= 1:
        return [1] * total
    for w in (3, 2, 4):
        if w <= total and (rest := _windows(total - w, -(-length // w))) is not None:
            return [w, *rest]
    return None


def cheapest_from_above(length):
    layers = cheapest_search(length)
    return layers[::-1]  # the order of the layers does not matter


def cheapest_lists(length):
    windows, most = [2], 2
    while most < length:
        total = sum(windows) + 1
        threes = total // 3 - (total % 3 == 1)
        windows = [3] * threes + [2] * ((total - 3 * threes) // 2)
        most = math.prod(windows)
    dilation, layers = 1, []
    for w in sorted(windows):
        layers.append([w, dilation])
        dilation *= w
    return layers


def tells_by_flash(one_pass):
    for shift in (0.0, 60.0, -60.0):
        q = torch.full((3, 4), shift) + torch.tensor([[0.0], [1.0], [-1.0]])
        q[2] = -q[2]
        k, v = torch.arange(1.0, 21).view(5, 4) / 10 + 1, torch.randn(5, 2)
        for keys in (k, k.flip(0)):
            for tile in (1, 2, 7):
                for rows in (q, q[:1]):
                    out = one_pass(rows, keys, v, tile)
                    if not (out - flash_attention(rows, keys, v)).abs().max() < 1e-3:
                        return False
    return True


def tells_numpy(one_pass):
    draw = torch.Generator().manual_seed(5)
    k = 1 + torch.rand(8, 2, generator=draw)
    v = torch.randn(8, 1, generator=draw)
    right = True
    for q in ([[1.0, 1.0]], [[200.0, 90.0], [-150.0, -80.0], [1.0, -2.0]], [[-150.0, -150.0]]):
        scores = np.array(q) @ k.double().numpy().T / np.sqrt(2)
        weights = np.exp(scores - scores.max(1, keepdims=True))
        wanted = weights / weights.sum(1, keepdims=True) @ v.double().numpy()
        for tile in (3, 5):
            found = one_pass(torch.tensor(q), k, v, tile).numpy()
            right = right and np.allclose(found, wanted, atol=2e-3)
    return right


def tells_many(one_pass):
    def wrong(q, k, v, tile):
        return not torch.allclose(one_pass(q, k, v, tile), pass_package(q, k, v, tile), atol=1e-3)

    k, v = torch.rand(11, 6) + 1, torch.rand(11, 4)
    q = torch.linspace(-90, 90, 7)[:, None].expand(7, 6)
    cases = [(rows, t) for rows in (q, q[:1], q[-1:], q / 90) for t in (1, 4, 20)]
    return not any(wrong(rows, k, v, t) for rows, t in cases)


def fixed_of_blocks(length, stride, n_summary):
    """Whole blocks along the diagonal, cut to the length, and whole columns."""
    blocks = torch.block_diag(*[torch.ones(stride, stride)] * math.ceil(length / stride))
    columns = torch.arange(length) % stride >= stride - n_summary
    return (blocks[:length, :length].bool() | columns).tril()


def merge_by_logarithms(one, two):
    """Each half's output, weighed by its share of the sum, by a softmax of logarithms."""
    share = torch.stack([m + total.log() for m, total, _ in (one, two)]).softmax(0)[..., None]
    outputs = torch.stack([torch.nan_to_num(o / total[:, None]) for _, total, o in (one, two)])
    return (share * outputs).sum(0)


RIGHT = {
    "17.1": [count_by_rows, count_by_triangles, count_with_tensors],
    "17.2": [fixed_of_blocks, fixed_loops, fixed_in_place, fixed_numpy],
    "17.3": [first_with_reach, first_with_sets, first_by_counting, first_by_gradient],
    "17.4": [merge_by_logarithms, merge_logs, merge_stacked, merge_double_loop, merge_in_place],
    "17.5": [document_loops, document_rows, document_numpy, document_triangles],
    "17.6": [missed_with_reach, missed_with_sums, missed_with_flags],
    "17.7": [ORDER, tuple(ORDER), ORDER[:], [word.title() for word in ORDER]],
    "17.8": [pass_by_keys, pass_package, pass_logs, pass_numpy, pass_fused],
    "17.9": [forget_logs, forget_signed, forget_entries],
    "17.10": [cheapest_search, cheapest_from_above, cheapest_lists],
    "17.11": [tells_by_flash, tells_numpy, tells_many],
}
