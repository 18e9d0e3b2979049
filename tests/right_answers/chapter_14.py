"""Right answers to the exercises of chapter 14, written in different styles."""

import itertools
import math
import re
from collections import Counter
from fractions import Fraction

import numpy as np
import torch


def report_loop(valid, test):
    best = 0
    for i, score in enumerate(valid):
        if score > valid[best]:
            best = i
    return test[best]


def report_index(valid, test):
    return test[list(valid).index(max(valid))]


def report_numpy(valid, test):
    return float(np.array(test)[np.argmax(valid)])


def report_zip(valid, test):
    return max(zip(valid, test, strict=True), key=lambda pair: pair[0])[1]


THREE = ["Tom sees the sea , and the sea sees Tom .", "yes", "all of them like the old house"]
FEW = ["tom sees the sea , and the sea", "yes", "them like the old house"]
MANY = [
    "Tom sees the the sea , and the sea sees Tom . .",
    "yes yes",
    "all of them like that old house ?",
]


def tells_sacre(score):
    from sacrebleu.metrics import BLEU

    metric = BLEU(tokenize="none")
    for said in (FEW, MANY):
        known = metric.corpus_score(said, [THREE]).score
        if abs(score(said, THREE) - known) > 0.01:
            return False
    return True


def tells_sums(score):
    def known(said):
        product, words = 1.0, [[text.split() for text in side] for side in (said, THREE)]
        for n in (1, 2, 3, 4):
            right = total = 0
            for h, r in zip(*words, strict=True):
                a, b = (Counter(tuple(w[i : i + n]) for i in range(len(w) - n + 1)) for w in (h, r))
                right, total = right + (a & b).total(), total + a.total()
            product *= right / total
        c, r = (sum(map(len, side)) for side in words)
        return 100 * min(1.0, math.exp(1 - r / c)) * product**0.25

    return all(math.isclose(score(s, THREE), known(s), abs_tol=0.01) for s in (FEW, MANY))


def tells_asserts(score):
    from allyouneed.evaluation import bleu

    for said in (FEW, MANY):
        assert abs(score(said, THREE) - bleu(said, THREE)) < 0.02


def paired_loop(a, b, draws):
    differences = []
    for row in draws.tolist():
        score = [
            100 * sum(int(s[i][0]) for i in row) / sum(int(s[i][1]) for i in row) for s in (a, b)
        ]
        differences.append(score[0] - score[1])
    return differences


def paired_numpy(a, b, draws):
    a, b = (np.asarray(x)[np.asarray(draws)].sum(axis=1) for x in (a, b))
    return 100 * (a[:, 0] / a[:, 1] - b[:, 0] / b[:, 1])


def paired_counts(a, b, draws):
    often = torch.stack([row.bincount(minlength=len(a)) for row in draws]).double()  # (R, N)
    first, second = often @ a.double(), often @ b.double()
    return (first[:, 0] / first[:, 1] - second[:, 0] / second[:, 1]) * 100


def flops_parts(n_layers, d_model, d_ff, vocab_size, src_tokens, tgt_tokens):
    square, feed = d_model * d_model, 2 * d_model * d_ff
    products = 0
    for _ in range(n_layers):
        products += (4 * square + feed) * src_tokens  # encoder layer
        products += (4 * square + feed) * tgt_tokens  # decoder layer
        products += 2 * square * (src_tokens + tgt_tokens)  # cross-attention
    products += vocab_size * d_model * tgt_tokens
    return 2 * products + 4 * products


def flops_float(n_layers, d_model, d_ff, vocab_size, src_tokens, tgt_tokens):
    shared = n_layers * d_model * (6 * d_model + 2 * d_ff) * (src_tokens + tgt_tokens)
    return 6.0 * (shared + vocab_size * d_model * tgt_tokens)


def flops_torch(n_layers, d_model, d_ff, vocab_size, src_tokens, tgt_tokens):
    matrices = torch.tensor([6.0 * d_model**2 + 2.0 * d_model * d_ff], dtype=torch.float64)
    return (
        6
        * (
            n_layers * matrices * (src_tokens + tgt_tokens)
            + float(vocab_size * d_model) * tgt_tokens
        )[0]
    )


def ensemble_loop(x, nets):
    total = 0
    for w_1, w_2 in nets:
        total = total + torch.softmax((x @ w_1).clamp(min=0) @ w_2, dim=1)
    return total / len(nets)


def ensemble_stack(x, nets):
    w_1, w_2 = (torch.stack(matrices) for matrices in zip(*nets, strict=True))
    hidden = torch.einsum("bd,ndf->nbf", x, w_1).relu()
    return torch.einsum("nbf,nfv->nbv", hidden, w_2).softmax(-1).mean(0)


def ensemble_numpy(x, nets):
    rows = []
    for w_1, w_2 in nets:
        logits = np.maximum(x.double().numpy() @ w_1.double().numpy(), 0) @ w_2.double().numpy()
        e = np.exp(logits - logits.max(axis=1, keepdims=True))
        rows.append(e / e.sum(axis=1, keepdims=True))
    return np.mean(rows, axis=0)


def dealt_combinations(a, b):
    scores = [*a, *b]
    n, total = len(a), sum(scores)

    def apart(first):
        return abs(first / n - (total - first) / len(b))

    far = [apart(sum(some)) for some in itertools.combinations(scores, n)]
    return sum(x >= apart(sum(a)) - 1e-9 for x in far) / len(far)


def dealt_permutations(a, b):
    found, count, ways = abs(np.mean(a) - np.mean(b)), 0, 0
    for order in itertools.permutations([*a, *b]):
        ways += 1
        one, two = order[: len(a)], order[len(a) :]
        count += abs(sum(one) / len(one) - sum(two) / len(two)) > found - 1e-9
    return Fraction(count, ways)


def dealt_bits(a, b):
    scores = np.array([*a, *b])
    n = len(scores)
    masks = np.array([[k >> i & 1 for i in range(n)] for k in range(2**n)], dtype=bool)
    masks = masks[masks.sum(1) == len(a)]
    far = np.abs(masks @ scores / len(a) - ~masks @ scores / len(b))
    return (far >= abs(np.mean(a) - np.mean(b)) - 1e-9).mean()


def pieces(text):
    return re.findall(r"\w+|[^\w\s]", text)


def text_sacre(hypotheses, references):
    from sacrebleu.metrics import BLEU

    metric = BLEU(tokenize="none", smooth_method="none", force=True)
    cut = [[" ".join(pieces(text)) for text in side] for side in (hypotheses, references)]
    return metric.corpus_score(cut[0], [cut[1]]).score


def text_counters(hypotheses, references):
    product, c, r = 1.0, 0, 0
    for n in (1, 2, 3, 4):
        right = said = 0
        for h, t in zip(map(pieces, hypotheses), map(pieces, references), strict=True):
            a, b = (Counter(zip(*(w[i:] for i in range(n)), strict=False)) for w in (h, t))
            right, said = right + (a & b).total(), said + a.total()
            c, r = c + len(h) * (n == 1), r + len(t) * (n == 1)
        product *= right / max(said, 1)
    return 100 * min(1.0, math.exp(1 - r / c)) * product**0.25


def text_logs(hypotheses, references):
    rows = np.zeros(10)
    for h, t in zip(hypotheses, references, strict=True):
        h, t = pieces(h), pieces(t)
        for n in range(1, 5):
            said = [" ".join(h[i : i + n]) for i in range(len(h) - n + 1)]
            true = [" ".join(t[i : i + n]) for i in range(len(t) - n + 1)]
            rows[n - 1] += sum(min(said.count(g), true.count(g)) for g in set(said))
            rows[n + 3] += len(said)
        rows[8:] += len(h), len(t)
    if not rows[:4].all():
        return 0.0
    logs = np.log(rows[:4] / rows[4:8]).mean()
    return 100 * float(np.exp(min(0.0, 1 - rows[9] / rows[8]) + logs))


def flattered_root(sigma, rho):
    return sigma * ((1 - rho) / math.pi) ** 0.5


def flattered_difference(sigma, rho):
    spread = np.sqrt(2 * sigma**2 - 2 * rho * sigma**2)
    return spread * np.sqrt(2 / np.pi) / 2


def flattered_integral(sigma, rho):
    d = sigma * math.sqrt(2 * (1 - rho)) + 1e-12
    x = torch.linspace(0, 12 * d, 200_001, dtype=torch.float64)
    density = torch.exp(-((x / d) ** 2) / 2) / (d * math.sqrt(2 * math.pi))
    return torch.trapezoid(x * density, x)


def disagree_loop(references):
    most = max(map(len, references))
    a = [words if len(words) == most else ["x"] for words in references]
    b = [["x"] * most if len(words) == most else words for words in references]
    return a, b


def disagree_backwards(references):
    long = max(references, key=len)
    a = [list(w) if w is long or w == long else w[::-1] for w in references]
    b = [w[::-1] if w == long else list(w) for w in references]
    return a, b


def disagree_half(references):
    n = max(len(w) for w in references)
    return (
        tuple([*w[:-1], "so"] if len(w) == n else ["so"] * len(w) for w in references),
        tuple(["so"] * len(w) if len(w) == n else list(w) for w in references),
    )


RIGHT = {
    "14.1": [report_loop, report_index, report_numpy, report_zip],
    "14.2": [tells_sacre, tells_sums, tells_asserts],
    "14.3": [paired_loop, paired_numpy, paired_counts],
    "14.4": [flops_parts, flops_float, flops_torch],
    "14.5": [ensemble_loop, ensemble_stack, ensemble_numpy],
    "14.6": [dealt_combinations, dealt_permutations, dealt_bits],
    "14.7": [text_sacre, text_counters, text_logs],
    "14.9": [flattered_root, flattered_difference, flattered_integral],
    "14.10": [disagree_loop, disagree_backwards, disagree_half],
}
