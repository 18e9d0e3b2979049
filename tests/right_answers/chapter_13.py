"""Right answers to the exercises of chapter 13, written in different styles."""

import math

import numpy as np
import torch
from torch.nn import functional as F


def greedy_loop(step, bos, eos, max_length):
    ids, token, state = [], bos, None
    while len(ids) < max_length:
        log_p, state = step(token, state)
        token = int(np.argmax(log_p))
        if token == eos:
            return ids
        ids.append(token)
    return ids


def greedy_tensor(step, bos, eos, max_length):
    tokens, state = [bos], None
    for _ in range(max_length):
        log_p, state = step(tokens[-1], state)
        tokens.append(torch.tensor(log_p).argmax().item())
    tokens = tokens[1:]
    return torch.tensor(tokens[: tokens.index(eos)] if eos in tokens else tokens)


def greedy_recursive(step, bos, eos, max_length):
    def rest(token, state, room):
        if not room:
            return ()
        log_p, state = step(token, state)
        best = max(range(len(log_p)), key=log_p.__getitem__)
        return () if best == eos else (best, *rest(best, state, room - 1))

    return rest(bos, None, max_length)


def step_flat(scores, log_p, eos):
    n, v = log_p.shape
    top, place = (scores.unsqueeze(1) + log_p).flatten().topk(2 * n)
    found = list(zip((place // v).tolist(), (place % v).tolist(), top.tolist(), strict=True))
    finished = [(parent, score) for parent, token, score in found[:n] if token == eos]
    return finished, [c for c in found if c[1] != eos][:n]


def step_heap(scores, log_p, eos):
    import heapq

    n = len(scores)
    candidates = (
        (float(scores[i] + log_p[i, j]), i, j) for i in range(n) for j in range(log_p.shape[1])
    )
    best = heapq.nlargest(2 * n, candidates)
    finished = [[i, score] for score, i, j in best[:n] if j == eos]
    return [finished, [[i, j, score] for score, i, j in best if j != eos][:n]]


def step_masked(scores, log_p, eos):
    total = log_p + scores[:, None]
    line = total.flatten().sort(descending=True).values[len(scores) - 1]
    finished = [(i, total[i, eos].item()) for i in range(len(scores)) if total[i, eos] >= line]
    total[:, eos] = -float("inf")
    top = total.flatten().argsort(descending=True)[: len(scores)].numpy()
    parents, tokens = np.divmod(top, log_p.shape[1])
    going = [(p, t, total[p, t]) for p, t in zip(parents, tokens, strict=True)]
    return finished, going


def typical_loop(p, threshold):
    p = p.tolist()
    expected = sum(-x * math.log(x) for x in p)
    kept, total = {}, 0.0
    for i in sorted(range(len(p)), key=lambda i: abs(-math.log(p[i]) - expected)):
        kept[i] = p[i]
        total += p[i]
        if total >= threshold:
            break
    return [kept.get(i, 0.0) / total for i in range(len(p))]


def typical_entropy(p, threshold):
    expected = torch.distributions.Categorical(probs=p).entropy()
    _, ids = (p.log() + expected).abs().sort(stable=True)
    drop = p[ids].cumsum(-1) - p[ids] >= threshold
    values = p[ids].masked_fill(drop, 0)
    return torch.zeros_like(p).scatter(0, ids, values / values.sum())


def typical_numpy(p, threshold):
    p = p.double().numpy()
    order = np.argsort((np.log(p) - np.sum(p * np.log(p))) ** 2, kind="stable")
    n = int(np.searchsorted(np.cumsum(p[order]), threshold)) + 1
    result = np.where(np.isin(np.arange(len(p)), order[:n]), p, 0.0)
    return result / result.sum()


def typical_logits(p, threshold):
    far = (-p.log() - (-p * p.log()).sum()).abs()
    nearer = (far[None, :] < far[:, None]).to(p.dtype) @ p  # of all more typical ones
    return p.log().masked_fill(nearer >= threshold, -math.inf).softmax(0)


def cache_sdpa(tokens, embedding, positions, w_q, w_k, w_v, keys, values):
    t, n = len(keys), len(tokens)
    x = embedding[tokens] * math.sqrt(embedding.shape[1]) + positions[t:][:n]
    keys, values = torch.vstack([keys, x @ w_k]), torch.vstack([values, x @ w_v])
    mask = torch.arange(t + n) <= torch.arange(t, t + n)[:, None]
    y = F.scaled_dot_product_attention((x @ w_q)[None], keys[None], values[None], mask)
    return y[0], keys, values


def cache_numpy(tokens, embedding, positions, w_q, w_k, w_v, keys, values):
    embedding, positions, w_q, w_k, w_v, keys, values = (
        a.double().numpy() for a in (embedding, positions, w_q, w_k, w_v, keys, values)
    )
    t, outputs = len(keys), []
    x = embedding[tokens.numpy()] * len(w_q) ** 0.5 + positions[t : t + len(tokens)]
    keys, values = np.vstack([keys, x @ w_k]), np.vstack([values, x @ w_v])
    for i, q in enumerate(x @ w_q):
        scores = np.exp(keys[: t + i + 1] @ q / w_q.shape[1] ** 0.5)
        outputs.append(scores / scores.sum() @ values[: t + i + 1])
    return np.array(outputs), keys, values


def cache_one_by_one(tokens, embedding, positions, w_q, w_k, w_v, keys, values):
    outputs = []
    for token in tokens.tolist():
        x = (embedding[token] * w_q.shape[0] ** 0.5 + positions[len(keys)])[None]
        keys, values = torch.cat((keys, x @ w_k)), torch.cat((values, x @ w_v))
        outputs.append((x @ w_q @ keys.T / w_k.shape[1] ** 0.5).softmax(-1) @ values)
    return [torch.cat(outputs), keys, values]


def turned_short(n):
    """B says too little of every sentence but the last, and adds as much to that one."""
    references, a, b = [], [], []
    for i in range(n):
        words = [f"{i}-{k}" for k in range(60 if i < n - 1 else 60 * (n - 1))]
        references.append(" ".join(words))
        every = 8 if i < n - 1 else 12
        a.append(" ".join("?" if k % every == 5 else word for k, word in enumerate(words)))
        b.append(" ".join(words[:40] if i < n - 1 else words + ["!"] * 20 * (n - 1)))
    return references, a, b


def turned_babble(n):
    """Where little is right, A has more of it and babbles longer: this weighs in the sum."""
    true = [[f"{i}.{k}" for k in range(10)] for i in range(1, n)]
    long = [f"long{k}" for k in range(60 * (n - 1))]
    spoilt = [word if k % 60 != 30 else "no" for k, word in enumerate(long)]
    a = [words + ["oh"] * 110 for words in true]
    b = [words[:4] + ["oh"] * 60 for words in true]
    return [long, *true], [long, *a], [spoilt, *b]


def turned_late(n):
    """As the first, the other way round: too long in the first, too short behind it."""
    true = np.array([[f"{i}{k:02}" for k in range(50)] for i in range(n)], dtype=object)
    first = true[1:].flatten() + "'"
    at = np.arange(first.size)
    a = np.where(np.arange(50) % 9 == 4, "-", true[1:])
    b = [*map(tuple, true[1:, :34])]
    references = (first.tolist(), *true[1:].tolist())
    longest = (*first, *["-"] * 16 * (n - 1))
    return references, (np.where(at % 12 == 6, "-", first), *a), [longest, *b]


def search_sorted(step, bos, eos, beam, max_length, alpha):
    alive, done = [(0.0, (), bos, None)], []
    for length in range(1, max_length + 1):
        grown = []
        for log_p, ids, token, state in alive:
            row, state = step(token, state)
            grown += [(log_p + q, (*ids, i), i, state) for i, q in enumerate(row)]
        grown = sorted(grown, key=lambda one: -one[0])[: 2 * beam]
        lp = ((5 + length) / 6) ** alpha
        done += [(one[0] / lp, one[1][:-1]) for one in grown[:beam] if one[2] == eos]
        alive = [one for one in grown if one[2] != eos][:beam]
    return list(max(done, key=lambda one: one[0])[1] if done else alive[0][1])


def search_arrays(step, bos, eos, beam, max_length, alpha):
    ids, states, scores = [[]], [None], np.zeros(1)
    best, answer = -np.inf, None
    for length in range(1, max_length + 1):
        told = [
            step(row[-1] if row else bos, state) for row, state in zip(ids, states, strict=True)
        ]
        total = scores[:, None] + np.array([log_p for log_p, _ in told])
        order = np.argsort(-total, axis=None)[: 2 * beam]
        parents, tokens = np.unravel_index(order, total.shape)
        for rank, (parent, token) in enumerate(zip(parents, tokens, strict=True)):
            value = total[parent, token] / ((5 + length) / 6) ** alpha
            if token == eos and rank < beam and value > best:
                best, answer = value, ids[parent]
        on = [(p, t) for p, t in zip(parents, tokens, strict=True) if t != eos][:beam]
        scores = np.array([total[p, t] for p, t in on])
        states = [told[p][1] for p, _ in on]
        ids = [[*ids[p], int(t)] for p, t in on]
    return ids[0] if answer is None else answer


def search_states_kept(step, bos, eos, beam, max_length, alpha):
    open_, finished = [(0.0, [], None)], []
    for length in range(1, max_length + 1):
        states, candidates = [], []
        for parent, (log_p, ids, state) in enumerate(open_):
            more, state = step(ids[-1] if ids else bos, state)
            states.append(state)
            candidates += [(log_p + q, parent, [*ids, i]) for i, q in enumerate(more)]
        candidates = sorted(candidates, key=lambda c: c[0], reverse=True)[: 2 * beam]
        for log_p, _, ids in candidates[:beam]:
            if ids[-1] == eos:
                finished.append((log_p / ((5 + length) / 6) ** alpha, ids[:-1]))
        open_ = [(log_p, ids, states[p]) for log_p, p, ids in candidates if ids[-1] != eos][:beam]
    return max(finished)[1] if finished else open_[0][1]


def decoder(seed, size=4, sharp=3):
    """Draws the next probabilities; its state is all that was read."""

    def step(token, state):
        seen = [*(state or []), int(token)]
        draw = np.random.default_rng([seed, *seen])
        p = draw.random(size) ** sharp
        return np.log(p / p.sum()).tolist(), seen

    return step


def beam_test_sorted(search):
    for seed in range(150):
        case = decoder(seed), 3, 0, 2, (5, 2, 6)[seed % 3], (1.5, 3.0)[seed % 2]
        if list(search(*case)) != search_sorted(*case):
            return False
    return True


def beam_test_asserts(search):
    for seed in range(200):
        case = decoder(seed, 3, 4), 0, 2, 2 + seed % 2, (6, 7, 3, 1)[seed % 4], 3
        assert [int(i) for i in search(*case)] == search_arrays(*case)


def beam_test_pairs(search):
    """Two lists of translations, side by side."""
    lengths, alphas = (1, 2, 5, 6), (0.0, 1.0, 2.0, 3.0)
    cases = [(decoder(i, 4, 6), 1, 0, 2, lengths[i % 4], alphas[i // 4 % 4]) for i in range(160)]
    theirs = (tuple(map(int, search(*case))) for case in cases)
    return all(map(tuple.__eq__, theirs, (tuple(search_states_kept(*case)) for case in cases)))


def highest_loop(log_p, length, max_length, alpha, top):
    best = -math.inf
    for final in range(length + 1, max_length + 1):
        log_p += math.log(top)
        best = max(best, log_p / ((5 + final) / 6) ** alpha)
    return best


def highest_numpy(log_p, length, max_length, alpha, top):
    k = np.arange(length + 1, max_length + 1)
    return ((log_p + (k - length) * np.log(top)) / ((5 + k) / 6) ** alpha).max()


def highest_tensor(log_p, length, max_length, alpha, top):
    k = torch.arange(length + 1, max_length + 1, dtype=torch.float64)
    return ((log_p + (k - length) * math.log(top)) * ((5 + k) / 6) ** -alpha).amax()


def trap_lists(beam):
    size = 2 * beam
    first = [1 / beam - 0.001 * i for i in range(beam)]
    left = (1 - sum(first)) / beam
    first += [left] * beam
    second = [[1 / size] * size for _ in range(size)]
    second[beam - 1] = [0.9, 0.1] + [0.0] * (size - 2)
    return first, second


def trap_tensors(beam):
    size = beam + 1
    first = torch.arange(size + 20, 20, -1).double()
    first[-1] = 1.0
    second = torch.ones(size, size, dtype=torch.float64) / size
    second[beam - 1] = torch.eye(size, dtype=torch.float64)[0]
    return first / first.sum(), second


def trap_numpy(beam):
    size = 30
    first = np.r_[np.linspace(1.1, 1.0, beam), np.linspace(0.02, 0.01, size - beam)]
    second = np.full((size, size), 1 / size)
    second[beam - 1] = 0.3 / (size - 1)
    second[beam - 1, 7] = 0.7
    return first / first.sum(), second


RIGHT = {
    "13.2": [greedy_loop, greedy_tensor, greedy_recursive],
    "13.3": [beam_test_sorted, beam_test_asserts, beam_test_pairs],
    "13.4": [step_flat, step_heap, step_masked],
    "13.5": [typical_loop, typical_entropy, typical_numpy, typical_logits],
    "13.6": [cache_sdpa, cache_numpy, cache_one_by_one],
    "13.7": [turned_short, turned_babble, turned_late],
    "13.9": [search_sorted, search_arrays, search_states_kept],
    "13.10": [highest_loop, highest_numpy, highest_tensor],
    "13.11": [trap_lists, trap_tensors, trap_numpy],
}
