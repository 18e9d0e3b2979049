"""The project without a class: functions, and dicts of parameters that they close over."""

import torch
import torch.nn.functional as F


def scaled_dot_product_attention(query, key, value, mask=None):
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) * d_k**-0.5
    if mask is not None:
        scores = scores + torch.zeros_like(scores).masked_fill(~mask, float("-inf"))
    weights = F.softmax(scores, dim=-1)
    return weights @ value, weights


def matrix(rows, columns):
    bound = (6 / (rows + columns)) ** 0.5
    return torch.empty(rows, columns).uniform_(-bound, bound).requires_grad_()


def leaves(p):
    for value in p.values() if isinstance(p, dict) else p:
        if isinstance(value, torch.Tensor):
            yield value
        else:
            yield from leaves(value)


def new_attention(d_model):
    return {name: matrix(d_model, d_model) for name in ("o", "v", "k", "q")}


def new_norm(d_model):
    ones, zeros = torch.ones(d_model), torch.zeros(d_model)
    return {"gain": ones.requires_grad_(), "shift": zeros.requires_grad_()}


def new_net(d_model, d_ff):
    biases = {"b": torch.zeros(d_ff).requires_grad_(), "c": torch.zeros(d_model).requires_grad_()}
    return {"in": matrix(d_model, d_ff), "out": matrix(d_ff, d_model), **biases}


def attend(p, heads, q, k, v, mask):
    def cut(x):
        return torch.stack(x.chunk(heads, dim=-1), dim=1)

    v, k, q = v @ p["v"], k @ p["k"], q @ p["q"]
    out, _ = scaled_dot_product_attention(cut(q), cut(k), cut(v), mask)
    return torch.cat(out.unbind(1), dim=-1) @ p["o"]


def normed(p, x):
    centred = x - x.mean(-1, keepdim=True)
    return p["gain"] * centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-5).sqrt() + p["shift"]


def net(p, x):
    return torch.clamp(x @ p["in"] + p["b"], min=0) @ p["out"] + p["c"]


def with_parameters(function, p):
    function.parameters = lambda: list(leaves(p))
    return function


def mha(d_model, h):
    p = new_attention(d_model)
    return with_parameters(lambda q, k, v, mask=None: attend(p, h, q, k, v, mask), p)


def padding_mask(ids, pad_id=0):
    return ids.ne(pad_id).unsqueeze(1).unsqueeze(1)


def subsequent_mask(size):
    steps = torch.arange(size)
    return steps[None, :] <= steps[:, None]


def positional_encoding(max_len, d_model):
    rows = []
    for place in range(max_len):
        angles = [place / 10000 ** (2 * (i // 2) / d_model) for i in range(d_model)]
        turned = [torch.tensor(a).sin() if i % 2 == 0 else torch.tensor(a).cos()
                  for i, a in enumerate(angles)]  # fmt: skip
        rows.append(torch.stack(turned))
    return torch.stack(rows)


def encoder_layer(d_model, h, d_ff, dropout=0.0):
    p = {"a": new_attention(d_model), "n": [new_norm(d_model), new_norm(d_model)],
         "f": new_net(d_model, d_ff)}  # fmt: skip

    def run(x, mask=None):
        x = normed(p["n"][0], x + attend(p["a"], h, x, x, x, mask))
        return normed(p["n"][1], x + net(p["f"], x))

    return with_parameters(run, p)


def decoder_layer(d_model, h, d_ff, dropout=0.0):
    p = {"own": new_attention(d_model), "cross": new_attention(d_model),
         "n": [new_norm(d_model) for _ in range(3)], "f": new_net(d_model, d_ff)}  # fmt: skip

    def run(y, memory, memory_mask=None, causal=None):
        y = normed(p["n"][0], y + attend(p["own"], h, y, y, y, causal))
        y = normed(p["n"][1], y + attend(p["cross"], h, y, memory, memory, memory_mask))
        return normed(p["n"][2], y + net(p["f"], y))

    return with_parameters(run, p)


def make_transformer(vocab_size, d_model, h, d_ff, N, dropout=0.0):
    table = (torch.randn(vocab_size, d_model) * d_model**-0.5).requires_grad_()
    down = [decoder_layer(d_model, h, d_ff) for _ in range(N)]
    up = [encoder_layer(d_model, h, d_ff) for _ in range(N)]
    places = positional_encoding(64, d_model)

    def embed(ids):
        return table[ids] * d_model**0.5 + places[: ids.size(1)]

    def run(source, target):
        hidden = padding_mask(source)
        x = embed(source)
        for layer in up:
            x = layer(x, hidden)
        y = embed(target)
        for layer in down:
            y = layer(y, x, hidden, subsequent_mask(target.size(1)))
        return torch.einsum("btd,vd->btv", y, table)

    every = [table, *(p for layer in (*up, *down) for p in layer.parameters())]
    run.parameters = lambda: every
    return run


def label_smoothed_loss(logits, labels, epsilon, pad_id=0):
    size = logits.size(-1)
    flat, labels = logits.reshape(-1, size), labels.reshape(-1)
    share = torch.full_like(flat, epsilon / (size - 1))
    share[torch.arange(len(flat)), labels] += 1 - epsilon
    share[:, pad_id] = 0
    each = -(share * F.log_softmax(flat, -1)).sum(-1)
    real = (labels != pad_id).float()
    return (each * real).sum() / real.sum()


def noam(step, d_model, warmup):
    return d_model**-0.5 * (step * warmup**-1.5 if step < warmup else step**-0.5)


def fit(model, data, d_model, warmup):
    if hasattr(model, "train"):
        model.train()
    state = [(p, torch.zeros_like(p), torch.zeros_like(p)) for p in model.parameters()]
    for t, (source, target) in enumerate(data, start=1):
        value = label_smoothed_loss(model(source, target[:, :-1]), target[:, 1:], 0.1)
        slopes = torch.autograd.grad(value, [p for p, _, _ in state])
        with torch.no_grad():
            for (p, m, v), g in zip(state, slopes, strict=True):
                m.mul_(0.9).add_(0.1 * g)
                v.mul_(0.98).add_(0.02 * g * g)
                move = (m / (1 - 0.9**t)) / ((v / (1 - 0.98**t)).sqrt() + 1e-9)
                p -= noam(t, d_model, warmup) * move


def resting(model):
    if hasattr(model, "eval"):
        model.eval()


def greedy_decode(model, source, max_len, bos=2, eos=3):
    resting(model)
    rows = []
    for one in source:
        ids = [bos]
        while len(ids) <= max_len and (len(ids) == 1 or ids[-1] != eos):
            with torch.no_grad():
                ids.append(model(one[None], torch.tensor([ids]))[0, -1].argmax().item())
        rows.append(torch.tensor(ids))
    return rows


def beam_decode(model, source, k, alpha, max_len):
    resting(model)
    out = []
    for one in source:
        beam = [([2], 0.0)]
        for _ in range(max_len):
            more = [each for each in beam if each[0][-1] == 3]
            for ids, total in beam:
                if ids[-1] != 3:
                    with torch.no_grad():
                        log_p = model(one[None], torch.tensor([ids]))[0, -1].log_softmax(-1)
                    more += [([*ids, i], total + p) for i, p in enumerate(log_p.tolist())]
            beam = sorted(more, key=lambda each: each[1])[-k:]
        ended = [each for each in beam if each[0][-1] == 3] or beam
        out.append(max(ended, key=lambda each: each[1] / ((4 + len(each[0])) / 6) ** alpha)[0])
    return out
