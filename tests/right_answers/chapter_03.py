"""Right answers to the exercises of chapter 3, written in different styles."""

import math

import numpy as np
import torch


def additive_loops(q, k, mask, w_q, w_k, v):
    contexts = torch.zeros(q.shape[0], q.shape[1], k.shape[2])
    for b, t in np.ndindex(*contexts.shape[:2]):
        words = [s for s in range(k.shape[1]) if mask[b, s]]
        scores = [math.exp(torch.tanh(q[b, t] @ w_q + k[b, s] @ w_k) @ v) for s in words]
        for s, score in zip(words, scores, strict=True):
            contexts[b, t] += score / sum(scores) * k[b, s]
    return contexts


def additive_einsum(q, k, mask, w_q, w_k, v):
    hidden = torch.einsum("bqd,da->bqa", q, w_q)[:, :, None] + (k @ w_k)[:, None]
    scores = torch.einsum("btsa,a->bts", hidden.tanh(), v)
    weights = torch.where(mask[:, None, :], scores, torch.tensor(float("-inf"))).softmax(2)
    return torch.einsum("bts,bsk->btk", weights, k)


def additive_numpy(q, k, mask, w_q, w_k, v):
    q, k, w_q, w_k, v = (x.double().numpy() for x in (q, k, w_q, w_k, v))
    both = np.expand_dims(q @ w_q, 2) + np.expand_dims(k @ w_k, 1)
    shares = np.exp((np.tanh(both) * v).sum(-1)) * mask.numpy()[:, None]
    return shares / shares.sum(-1, keepdims=True) @ k


def left_out_one_by_one(places, heights, widths):
    errors = []
    for width in widths:
        total = 0.0
        for i in range(len(places)):
            others = [j for j in range(len(places)) if j != i]
            bells = torch.exp(-((places[i] - places[others]) ** 2) / 2 / width**2)
            total += (heights[i] - (bells * heights[others]).sum() / bells.sum()).item() ** 2
        errors.append(total / len(places))
    return errors


def left_out_numpy(places, heights, widths):
    x, y, sigma = (np.asarray(a, dtype="float64") for a in (places, heights, widths))
    bells = np.exp(-0.5 * ((x[:, None] - x) / sigma[:, None, None]) ** 2)
    bells[:, range(len(x)), range(len(x))] = 0
    guesses = (bells * y).sum(-1) / bells.sum(-1)
    return np.square(guesses - y).mean(1)


def left_out_from_the_whole(places, heights, widths):
    for width in widths:
        weights = (-((places - places[:, None]) ** 2) / (2 * width**2)).softmax(1)
        own = weights.diag()
        yield (((weights @ heights - heights) / (1 - own)) ** 2).mean()


def masked_by_hand(scores, mask):
    scores = scores.masked_fill(~mask[:, None], float("-inf"))
    highest = scores.amax(-1, keepdim=True).clamp(min=-1e30)
    shares = (scores - highest).exp()
    return shares / shares.sum(-1, keepdim=True).clamp(min=1e-30)


def masked_nan_to_num(scores, mask):
    scores = torch.where(mask[:, None, :], scores, torch.tensor(float("-inf")))
    return torch.nan_to_num(torch.softmax(scores, dim=2))


def masked_in_place(scores, mask):
    weights = torch.zeros_like(scores)
    for b in range(len(scores)):
        if mask[b].any():
            weights[b][:, mask[b]] = scores[b][:, mask[b]].softmax(dim=1)
    return weights


def greedy_one_by_one(step, batch_size, bos, eos, max_length):
    done, tokens = [False] * batch_size, torch.full((batch_size, 1), bos)
    answers = [[] for _ in range(batch_size)]
    for _ in range(max_length):
        best = step(tokens)[:, -1].argmax(dim=1)
        for i, token in enumerate(best.tolist()):
            done[i] = done[i] or token == eos
            if not done[i]:
                answers[i].append(token)
        if all(done):
            break
        tokens = torch.hstack([tokens, best[:, None]])
    return answers


def greedy_padded(step, batch_size, bos, eos, max_length):
    tokens = torch.full((batch_size, max_length + 1), eos)
    tokens[:, 0] = bos
    for t in range(max_length):
        tokens[:, t + 1] = step(tokens[:, : t + 1])[:, t].max(-1).indices
    return [
        row[: (row == eos).nonzero()[0]] if (row == eos).any() else row for row in tokens[:, 1:]
    ]


def greedy_softmax(step, batch_size, bos, eos, max_length):
    rows = [[bos] for _ in range(batch_size)]
    while len(rows[0]) <= max_length:
        probabilities = torch.softmax(step(torch.tensor(rows))[:, -1], dim=-1)
        for row, p in zip(rows, probabilities, strict=True):
            row.append(int(p.argmax()))
    return tuple(row[1 : (row + [eos]).index(eos)] for row in rows)


def test_by_loop(attention):
    torch.manual_seed(1)
    scores, values = torch.randn(2, 3, 4), torch.randn(2, 4, 5)
    mask = torch.tensor([[True, True, True, True], [True, True, False, False]])
    for b in range(2):
        for t in range(3):
            parts = [math.exp(scores[b, t, s]) if mask[b, s] else 0.0 for s in range(4)]
            want = sum(p / sum(parts) * values[b, s] for s, p in enumerate(parts))
            if not torch.allclose(attention(scores, values, mask)[b, t], want, atol=1e-4):
                return False
    return True


def test_by_numbers(attention):
    scores = torch.log(torch.tensor([[[1.0, 3.0, 8.0], [2.0, 2.0, 5.0]], [[1.0, 4.0, 5.0]] * 2]))
    mask = torch.tensor([[True, True, False], [True, True, True]])
    contexts = attention(scores, torch.eye(3).expand(2, 3, 3), mask)
    want = [[[0.25, 0.75, 0], [0.5, 0.5, 0]], [[0.1, 0.4, 0.5]] * 2]
    return np.allclose(contexts.numpy(), want, atol=1e-5)


def test_by_the_library(attention):
    scores, values = torch.randn(3, 2, 5), torch.randn(3, 5, 2)
    mask = torch.arange(5) < torch.tensor([[2], [5], [3]])
    hidden = torch.zeros(3, 1, 5).masked_fill(~mask[:, None], float("-inf"))
    try:
        torch.testing.assert_close(
            attention(scores, values, mask), (scores + hidden).softmax(-1).bmm(values)
        )
    except AssertionError:
        return False
    return True


def slopes_with_jacobian(scores, values):
    return torch.autograd.functional.jacobian(lambda e: e.softmax(0) @ values, scores).T


def slopes_by_weights(scores, values):
    a = torch.softmax(scores, 0)
    return (torch.diag(a) - a[:, None] * a[None]) @ values


def slopes_loops(scores, values):
    shares = [math.exp(e) for e in scores.tolist()]
    a = [x / sum(shares) for x in shares]
    c = [sum(a[i] * h[d] for i, h in enumerate(values.tolist())) for d in range(values.shape[1])]
    return [[a[j] * (x - c[d]) for d, x in enumerate(h)] for j, h in enumerate(values.tolist())]


def query_least_squares(keys, place):
    wanted = torch.full((len(keys),), -5.0)
    wanted[place] = 5.0
    return torch.linalg.lstsq(keys, wanted).solution


def query_numpy(keys, place):
    k = keys.double().numpy()
    return (k.T @ np.linalg.inv(k @ k.T))[:, place] * 30


def query_projected(keys, place):
    """What is left of the key when all that the others span has been taken off."""
    others = torch.cat([keys[:place], keys[place + 1 :]]).double()
    q, _ = torch.linalg.qr(others.T)
    rest = keys[place].double() - q @ (q.T @ keys[place].double())
    return (12 * rest / (rest @ keys[place].double())).tolist()


def query_descended(keys, place):
    query = torch.zeros(keys.shape[1], requires_grad=True)
    for _ in range(400):
        loss = -(keys @ query).log_softmax(0)[place]
        query.data -= 3.0 * torch.autograd.grad(loss, query)[0]
    return query.detach()


def back_with_autograd(q, h, g):
    q.requires_grad_(), h.requires_grad_()
    return torch.autograd.grad(torch.softmax(h @ q, 0) @ h @ g, (q, h))


def back_with_jacobian(q, h, g):
    a = torch.softmax(h @ q, 0)
    e = (torch.diag(a) - torch.outer(a, a)) @ (h @ g)
    return [h.T @ e, e[:, None] * q + a[:, None] * g]


def back_loops(q, h, g):
    shares = [math.exp(float(row @ q)) for row in h]
    a = [x / sum(shares) for x in shares]
    c = sum(x * row for x, row in zip(a, h, strict=True))
    dq, dh = torch.zeros_like(q), torch.zeros_like(h)
    for j, row in enumerate(h):
        e = a[j] * float((row - c) @ g)
        dq += e * row
        dh[j] = a[j] * g + e * q
    return dq.numpy(), dh.numpy()


def query_of_weights(keys, place):
    """The logarithms of weights of which one is 0.9, and no more."""
    weights = torch.full((len(keys),), 0.1 / (len(keys) - 1))
    weights[place] = 0.9
    return torch.linalg.pinv(keys) @ weights.log()


RIGHT = {
    "3.1": [
        [0.125, 0.25, 0.625, 0.1733, 1.0059],
        (1 / 8, 1 / 4, 5 / 8, math.log(2) / 4, 5 / 8 * math.log(5)),
        torch.tensor([0.125, 0.25, 0.625, 0.173, 1.006]),
    ],
    "3.2": [[">", "=", "<"], ("larger", "equal", "smaller"), "> = <"],
    "3.3": [additive_loops, additive_einsum, additive_numpy],
    "3.4": [left_out_one_by_one, left_out_numpy, left_out_from_the_whole],
    "3.5": [masked_by_hand, masked_nan_to_num, masked_in_place],
    "3.6": [greedy_one_by_one, greedy_padded, greedy_softmax],
    "3.7": [test_by_loop, test_by_numbers, test_by_the_library],
    "3.8": [slopes_with_jacobian, slopes_by_weights, slopes_loops],
    "3.9": [
        query_least_squares,
        query_numpy,
        query_projected,
        query_descended,
        query_of_weights,
    ],
    "3.10": [back_with_autograd, back_with_jacobian, back_loops],
}
