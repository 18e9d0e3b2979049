"""Right answers to the exercises of chapter 13, written in different styles."""

import math
from collections import Counter

import numpy as np
import torch
from torch.nn import functional as F


def read_try(model, x):
    mode = model.training
    try:
        model.eval()
        with torch.inference_mode():
            return model(x)
    finally:
        model.train(mode)


def read_if(model, x):
    was_training = model.training
    if was_training:
        model.eval()
    y = model(x).detach()
    if was_training:
        model.train()
    return y


def read_parts(model, x):
    modes = {part: part.training for part in model.modules()}
    for part in modes:
        part.training = False
    with torch.no_grad():
        y = model(x).numpy()
    for part, mode in modes.items():
        part.training = mode
    return y


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


def score_loop(logits, ids, alpha):
    total = 0.0
    for row, token in zip(logits.tolist(), ids.tolist(), strict=True):
        total += row[token] - math.log(sum(math.exp(z) for z in row))
    return total / ((5 + len(ids)) ** alpha / 6**alpha)


def score_entropy(logits, ids, alpha):
    return -F.cross_entropy(logits, ids, reduction="sum") / ((5 + ids.numel()) / (5 + 1)) ** alpha


def score_product(logits, ids, alpha):
    p = logits.double().softmax(-1)[torch.arange(len(ids)), ids].prod()
    return float(p.log()) * (6 / (5 + len(ids))) ** alpha


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


def top_p_loop(p, threshold):
    kept, total = {}, 0.0
    for i in sorted(range(len(p)), key=lambda i: -float(p[i])):
        kept[i] = float(p[i])
        total += kept[i]
        if total >= threshold:
            break
    return [kept.get(i, 0.0) / total for i in range(len(p))]


def top_p_scatter(p, threshold):
    values, ids = torch.sort(p, descending=True)
    drop = values.cumsum(-1) - values >= threshold
    values[drop] = 0
    return torch.zeros_like(p).scatter(0, ids, values / values.sum())


def top_p_numpy(p, threshold):
    p = p.double().numpy()
    order = np.argsort(-p)
    n = int(np.searchsorted(np.cumsum(p[order]), threshold)) + 1
    result = np.where(np.isin(np.arange(len(p)), order[:n]), p, 0.0)
    return result / result.sum()


def top_p_logits(p, threshold):
    logits = p.log()
    larger = (p[None, :] > p[:, None]).to(p.dtype) @ p  # of all likelier ones
    return logits.masked_fill(larger >= threshold, -math.inf).softmax(0)


def cache_sdpa(token, embedding, positions, w_q, w_k, w_v, keys, values):
    x = embedding[token] * math.sqrt(embedding.shape[1]) + positions[keys.shape[0]]
    keys = torch.vstack([keys, x @ w_k])
    values = torch.vstack([values, x @ w_v])
    y = F.scaled_dot_product_attention((x @ w_q)[None, None], keys[None], values[None])
    return y[0, 0], keys, values


def cache_numpy(token, embedding, positions, w_q, w_k, w_v, keys, values):
    embedding, positions, w_q, w_k, w_v, keys, values = (
        a.double().numpy() for a in (embedding, positions, w_q, w_k, w_v, keys, values)
    )
    x = embedding[token] * len(w_q) ** 0.5 + positions[len(keys)]
    keys, values = np.vstack([keys, x @ w_k]), np.vstack([values, x @ w_v])
    scores = np.exp(keys @ (x @ w_q) / w_q.shape[1] ** 0.5)
    return scores / scores.sum() @ values, keys, values


def cache_loop(token, embedding, positions, w_q, w_k, w_v, keys, values):
    t, d_k = len(keys), w_k.shape[1]
    x = (embedding[token] * w_q.shape[0] ** 0.5 + positions[t])[None]
    all_keys, all_values = torch.empty(t + 1, d_k), torch.empty(t + 1, d_k)
    all_keys[:t], all_keys[t] = keys, (x @ w_k)[0]
    all_values[:t], all_values[t] = values, (x @ w_v)[0]
    weights = (x @ w_q @ all_keys.T / d_k**0.5).softmax(-1)
    return [sum(weights[0, i] * all_values[i] for i in range(t + 1)), all_keys, all_values]


def bleu_sacre(hypotheses, references):
    import sacrebleu

    joined = [" ".join(words) for words in hypotheses]
    true = [" ".join(words) for words in references]
    return sacrebleu.corpus_bleu(
        joined, [true], tokenize="none", smooth_method="none", force=True
    ).score


def bleu_logs(hypotheses, references):
    logs, c, r = [], 0, 0
    for n in range(1, 5):
        right = said = 0
        for h, true in zip(hypotheses, references, strict=True):
            left = Counter(zip(*(true[i:] for i in range(n)), strict=False))
            for gram in zip(*(h[i:] for i in range(n)), strict=False):
                said += 1
                if left[gram] > 0:
                    left[gram] -= 1
                    right += 1
        if not right:
            return 0.0
        logs.append(math.log(right / said))
    c, r = sum(len(h) for h in hypotheses), sum(len(t) for t in references)
    return 100 * math.exp(min(0, 1 - r / c) + sum(logs) / 4)


def bleu_strings(hypotheses, references):
    product = 1.0
    for n in (1, 2, 3, 4):
        matches = total = 0
        for h, t in zip(hypotheses, references, strict=True):
            h_grams = [" ".join(h[i : i + n]) for i in range(len(h) - n + 1)]
            t_grams = [" ".join(t[i : i + n]) for i in range(len(t) - n + 1)]
            matches += sum(min(h_grams.count(g), t_grams.count(g)) for g in set(h_grams))
            total += len(h_grams)
        product *= matches / total if total else 0
    c, r = len(sum(hypotheses, [])), len(sum(references, []))
    return np.float64(100 * (1 if c > r else math.exp(1 - r / c)) * product**0.25)


RIGHT = {
    "13.1": [read_try, read_if, read_parts],
    "13.2": [greedy_loop, greedy_tensor, greedy_recursive],
    "13.3": [score_loop, score_entropy, score_product],
    "13.4": [step_flat, step_heap, step_masked],
    "13.5": [top_p_loop, top_p_scatter, top_p_numpy, top_p_logits],
    "13.6": [cache_sdpa, cache_numpy, cache_loop],
    "13.7": [bleu_sacre, bleu_logs, bleu_strings],
}
