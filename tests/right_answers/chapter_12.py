"""Right answers to the exercises of chapter 12, written in different styles."""

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

PAD, BOS, EOS = 0, 2, 3
torch.optim.Adam([torch.zeros(1, requires_grad=True)])  # the first one imports much


def shift_slices(targets):
    longest = max(len(ids) for ids in targets) + 2
    tgt = torch.zeros(len(targets), longest, dtype=torch.long)
    for row, ids in zip(tgt, targets, strict=True):
        row[: len(ids) + 2] = torch.tensor([BOS, *ids, EOS])
    return tgt[:, :-1], tgt[:, 1:]


def shift_lists(targets):
    width = max(map(len, targets)) + 1
    fill = lambda row: row + [PAD] * (width - len(row))  # noqa: E731
    return [fill([BOS] + ids) for ids in targets], [fill(ids + [EOS]) for ids in targets]


def shift_sequences(targets):
    inputs = [torch.tensor([BOS, *ids]) for ids in targets]
    labels = [torch.tensor([*ids, EOS]) for ids in targets]
    return tuple(pad_sequence(rows, batch_first=True) for rows in (inputs, labels))


def shift_numpy(targets):
    longest = max(map(len, targets))
    tgt = np.array([[BOS, *ids, EOS] + [PAD] * (longest - len(ids)) for ids in targets])
    labels = tgt[:, 1:]
    return np.where(labels == PAD, PAD, tgt[:, :-1]), labels


def loss_distribution(logits, targets, smoothing):
    vocab_size = logits.shape[-1]
    q = F.one_hot(targets, vocab_size) * (1 - smoothing) + smoothing / (vocab_size - 1)
    q[..., PAD] = 0
    q[targets == PAD] = 0
    return F.cross_entropy(logits.flatten(0, 1), q.flatten(0, 1), reduction="sum")


def loss_two_parts(logits, targets, smoothing):
    keep = targets != PAD
    log_p = F.log_softmax(logits[keep], dim=1)
    right = F.nll_loss(log_p, targets[keep], reduction="sum")
    return (1 - smoothing) * right - smoothing * log_p[:, 1:].mean(1).sum()


def loss_loops(logits, targets, smoothing):
    total = 0.0
    for b, t in np.ndindex(*targets.shape):
        if targets[b, t] == PAD:
            continue
        z = logits[b, t].tolist()
        log_sum = math.log(sum(math.exp(x) for x in z))
        for i in range(1, len(z)):
            q = smoothing / (len(z) - 1) + (1 - smoothing) * (i == int(targets[b, t]))
            total -= q * (z[i] - log_sum)
    return total


def loss_where(logits, targets, smoothing):
    p = torch.softmax(logits.double(), -1)
    right = p.gather(-1, targets.unsqueeze(-1)).squeeze(-1).log()
    rest = p[..., 1:].log().sum(-1) / (logits.size(-1) - 1)
    losses = (1 - smoothing) * right + smoothing * rest
    return -torch.where(targets == PAD, 0.0, losses).sum().item()


def rate_if(step, d_model, warmup_steps):
    if step < warmup_steps:
        return step / (math.sqrt(d_model) * warmup_steps**1.5)
    return 1 / math.sqrt(d_model * step)


def rate_numpy(step, d_model, warmup_steps):
    return np.minimum(1 / np.sqrt(step), step / np.sqrt(float(warmup_steps) ** 3)) / np.sqrt(
        d_model
    )


def rate_tensor(step, d_model, warmup_steps):
    step = torch.tensor(float(step), dtype=torch.float64)
    return d_model**-0.5 * torch.minimum(step.rsqrt(), step * warmup_steps**-1.5)


def rate_peak(step, d_model, warmup_steps):
    peak = (d_model * warmup_steps) ** -0.5
    return peak * min(step / warmup_steps, (warmup_steps / step) ** 0.5)


def adam_pytorch(theta, g, m, v, t, rate, beta_1, beta_2, eps):
    weight = nn.Parameter(theta)
    weight.grad = g
    optimizer = torch.optim.Adam([weight], lr=rate, betas=(beta_1, beta_2), eps=eps)
    optimizer.state[weight] = {"step": torch.tensor(t - 1.0), "exp_avg": m, "exp_avg_sq": v}
    optimizer.step()
    state = optimizer.state[weight]
    return weight.detach(), state["exp_avg"], state["exp_avg_sq"]


def adam_in_place(theta, g, m, v, t, rate, beta_1, beta_2, eps):
    m.mul_(beta_1).add_(g, alpha=1 - beta_1)
    v.mul_(beta_2).addcmul_(g, g, value=1 - beta_2)
    theta -= rate * (m / (1 - beta_1**t)) / ((v / (1 - beta_2**t)).sqrt() + eps)
    return theta, m, v


def adam_lerp(theta, g, m, v, t, rate, beta_1, beta_2, eps):
    m, v = torch.lerp(m, g, 1 - beta_1), torch.lerp(v, g * g, 1 - beta_2)
    size = rate / (1 - beta_1**t)
    return [theta - size * m / (v.sqrt() / math.sqrt(1 - beta_2**t) + eps), m, v]


def adam_numpy(theta, g, m, v, t, rate, beta_1, beta_2, eps):
    theta, g, m, v = (x.double().numpy() for x in (theta, g, m, v))
    m, v = beta_1 * m + (1 - beta_1) * g, beta_2 * v + (1 - beta_2) * np.square(g)
    step = (m / (1 - beta_1**t)) / (np.sqrt(v / (1 - beta_2**t)) + eps)
    return theta - rate * step, m, v


def merge_numpy(gradients, tokens):
    return np.average([g.numpy() for g in gradients], axis=0, weights=tokens)


def merge_loop(gradients, tokens):
    total = torch.zeros_like(gradients[0])
    for g, n in zip(gradients, tokens, strict=True):
        total += g * n
    return total / sum(tokens)


def merge_shares(gradients, tokens):
    shares = torch.tensor(tokens, dtype=torch.float) / sum(tokens)
    return torch.tensordot(shares, torch.stack(gradients), dims=1)


def clip_pytorch(gradients, max_norm):
    parameters = [nn.Parameter(torch.zeros_like(g)) for g in gradients]
    for parameter, g in zip(parameters, gradients, strict=True):
        parameter.grad = g
    norm = nn.utils.clip_grad_norm_(parameters, max_norm)
    return [parameter.grad for parameter in parameters], norm


def clip_vector(gradients, max_norm):
    norm = torch.cat([g.reshape(-1) for g in gradients]).norm()
    factor = torch.clamp(max_norm / norm, max=1.0)
    return tuple(g * factor for g in gradients), norm.item()


def clip_in_place(gradients, max_norm):
    norm = sum(g.pow(2).sum() for g in gradients) ** 0.5
    if norm > max_norm:
        for g in gradients:
            g *= max_norm / norm
    return gradients, norm


def clip_numpy(gradients, max_norm):
    gradients = [g.numpy() for g in gradients]
    norm = np.sqrt(np.sum([np.sum(g**2) for g in gradients]))
    return [g / max(1, norm / max_norm) for g in gradients], norm


def states_stack(states):
    return {k: torch.stack([state[k] for state in states]).mean(0) for k in states[0]}


def states_running(states):
    mean = {name: value.clone() for name, value in states[0].items()}
    for n, state in enumerate(states[1:], 2):
        for name in mean:
            mean[name] += (state[name] - mean[name]) / n
    return mean


def states_numpy(states):
    return {name: np.mean([state[name].numpy() for state in states], axis=0) for name in states[0]}


RIGHT = {
    "12.1": [shift_slices, shift_lists, shift_sequences, shift_numpy],
    "12.2": [loss_distribution, loss_two_parts, loss_loops, loss_where],
    "12.3": [rate_if, rate_numpy, rate_tensor, rate_peak],
    "12.4": [adam_pytorch, adam_in_place, adam_lerp, adam_numpy],
    "12.5": [merge_numpy, merge_loop, merge_shares],
    "12.6": [clip_pytorch, clip_vector, clip_in_place, clip_numpy],
    "12.7": [states_stack, states_running, states_numpy],
}
