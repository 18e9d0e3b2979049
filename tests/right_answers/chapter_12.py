"""Right answers to the exercises of chapter 12, written in different styles."""

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

PAD, BOS, EOS = 0, 2, 3
torch.optim.Adam([torch.zeros(1, requires_grad=True)])  # the first one imports much


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
        log_sum = max(z) + math.log(sum(math.exp(x - max(z)) for x in z))
        for i in range(1, len(z)):
            q = smoothing / (len(z) - 1) + (1 - smoothing) * (i == int(targets[b, t]))
            total -= q * (z[i] - log_sum)
    return total


def loss_where(logits, targets, smoothing):
    z = logits.double()
    log_p = z - z.logsumexp(-1, keepdim=True)
    right = log_p.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    rest = log_p[..., 1:].sum(-1) / (logits.size(-1) - 1)
    losses = (1 - smoothing) * right + smoothing * rest
    return -torch.where(targets == PAD, 0.0, losses).sum().item()


def rate_wave(step, steps, warmup_steps, highest):
    if step < warmup_steps:
        return highest * step / warmup_steps
    done = (step - warmup_steps) / (steps - warmup_steps)
    return highest * 0.5 * (1 + np.cos(np.pi * done))


def rate_two_lines(step, steps, warmup_steps, highest):
    return highest * min(step / warmup_steps, (steps - step) / (steps - warmup_steps))


def rate_late(step, steps, warmup_steps, highest):
    """High for long, then down in a line to a hundredth."""
    turn = warmup_steps + 0.7 * (steps - warmup_steps)
    down = max(0.0, (step - turn) / (steps - turn))
    return torch.tensor(highest) * min(1, step / warmup_steps) * (1 - 0.99 * down)


def rate_parabola(step, steps, warmup_steps, highest):
    rise = 1 - (1 - min(step, warmup_steps) / warmup_steps) ** 2
    done = max(0, step - warmup_steps) / (steps - warmup_steps)
    return highest * rise * (1 - done**2)


def adam_pytorch(theta, g, m, v, t, rate, beta_1, beta_2, eps, decay):
    weight = nn.Parameter(theta)
    weight.grad = g
    betas = (beta_1, beta_2)
    optimizer = torch.optim.AdamW([weight], lr=rate, betas=betas, eps=eps, weight_decay=decay)
    optimizer.state[weight] = {"step": torch.tensor(t - 1.0), "exp_avg": m, "exp_avg_sq": v}
    optimizer.step()
    state = optimizer.state[weight]
    return weight.detach(), state["exp_avg"], state["exp_avg_sq"]


def adam_in_place(theta, g, m, v, t, rate, beta_1, beta_2, eps, decay):
    m.mul_(beta_1).add_(g, alpha=1 - beta_1)
    v.mul_(beta_2).addcmul_(g, g, value=1 - beta_2)
    theta *= 1 - rate * decay
    theta -= rate * (m / (1 - beta_1**t)) / ((v / (1 - beta_2**t)).sqrt() + eps)
    return theta, m, v


def adam_lerp(theta, g, m, v, t, rate, beta_1, beta_2, eps, decay):
    m, v = torch.lerp(m, g, 1 - beta_1), torch.lerp(v, g * g, 1 - beta_2)
    size = rate / (1 - beta_1**t)
    step = size * m / (v.sqrt() / math.sqrt(1 - beta_2**t) + eps) + rate * decay * theta
    return [theta - step, m, v]


def adam_numpy(theta, g, m, v, t, rate, beta_1, beta_2, eps, decay):
    theta, g, m, v = (x.double().numpy() for x in (theta, g, m, v))
    m, v = beta_1 * m + (1 - beta_1) * g, beta_2 * v + (1 - beta_2) * np.square(g)
    step = (m / (1 - beta_1**t)) / (np.sqrt(v / (1 - beta_2**t)) + eps)
    return theta - rate * (step + decay * theta), m, v


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


def clip_test_numbers(clip):
    """By hand: length 5, and a limit of 1 and of 10."""
    for limit, factor in ((1.0, 0.2), (10.0, 1.0), (4.0, 0.8)):
        clipped, before = clip([torch.tensor([3.0, 0.0]), torch.tensor([[-4.0]])], limit)
        a, b = (g.flatten().tolist() for g in clipped)
        if len(a) != 2 or len(b) != 1:
            return False
        errors = [abs(a[0] - 3 * factor), abs(a[1]), abs(b[0] + 4 * factor), abs(before - 5)]
        if max(errors) > 1e-4:
            return False
    return True


def clip_test_asserts(clip):
    torch.manual_seed(0)
    for limit in (0.7, 3.0, 50.0):
        some = [torch.randn(3, 2), torch.randn(5) / 10, 2 * torch.randn(1)]
        parameters = [nn.Parameter(torch.zeros_like(g)) for g in some]
        for parameter, g in zip(parameters, some, strict=True):
            parameter.grad = g.clone()
        norm = nn.utils.clip_grad_norm_(parameters, limit)
        clipped, before = clip([g.clone() for g in some], limit)
        torch.testing.assert_close(torch.as_tensor(before), norm, check_dtype=False)
        for parameter, g in zip(parameters, clipped, strict=True):
            torch.testing.assert_close(parameter.grad, g)


def clip_test_properties(clip):
    """The direction, the new length and the old one."""
    rng = np.random.default_rng(1)
    for limit in (0.5, 2.0, 99.0):
        some = [torch.tensor(rng.normal(size=n)) for n in (4, (1, 2), 3)]
        whole = torch.cat([g.flatten() for g in some])
        clipped, before = clip([g.clone() for g in some], limit)
        if [g.shape for g in clipped] != [g.shape for g in some]:
            return False
        new = torch.cat([g.flatten() for g in clipped])
        straight = torch.dot(new, whole) > 0.99999 * new.norm() * whole.norm()
        long = abs(new.norm() - min(limit, whole.norm())) < 1e-3
        if not (straight and long and abs(before - whole.norm()) < 1e-3):
            return False
    return np.True_


def loop_sums(model, batches, optimizer):
    model.train()
    total = tokens = 0
    for src, tgt in batches:
        labels = tgt[:, 1:]
        real = labels != PAD
        loss = F.cross_entropy(model(src, tgt[:, :-1])[real], labels[real], reduction="sum")
        optimizer.zero_grad()
        (loss / real.sum()).backward()
        optimizer.step()
        total += loss.item()
        tokens += real.sum().item()
    return total / tokens


def loop_clears_after(model, batches, optimizer):
    model.train()
    losses = []
    for src, tgt in batches:
        log_p = model(src, tgt[:, :-1]).log_softmax(-1)
        each = F.nll_loss(log_p.mT, tgt[:, 1:], ignore_index=PAD, reduction="none")
        each = each[tgt[:, 1:] != PAD]
        each.mean().backward()
        optimizer.step()
        model.zero_grad()
        losses += each.tolist()
    return np.mean(losses)


def loop_by_hand(model, batches, optimizer):
    model.train(True)
    sums, counts = [], []
    for src, tgt in batches:
        for parameter in model.parameters():
            parameter.grad = None
        states = model.states(src, tgt[:, :-1])
        log_p = torch.log_softmax(model.logits(states), dim=2)
        right = log_p.gather(2, tgt[:, 1:, None])[..., 0]
        keep = tgt[:, 1:].ne(PAD)
        loss = -(right * keep).sum()
        (loss / keep.sum()).backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= optimizer.param_groups[0]["lr"] * parameter.grad
        sums.append(loss.detach())
        counts.append(keep.sum())
    return sum(sums) / sum(counts)


def grad_autograd(logits, targets, smoothing):
    logits.requires_grad_()
    V = logits.shape[-1]
    q = F.one_hot(targets, V) * (1 - smoothing) + smoothing / (V - 1)
    q[:, PAD] = 0
    loss = -(q * logits.log_softmax(-1)).sum(-1)[targets != PAD].sum()
    return torch.autograd.grad(loss, logits)[0]


def grad_loops(logits, targets, smoothing):
    rows = []
    for z, y in zip(logits.tolist(), targets.tolist(), strict=True):
        z = [x - max(z) for x in z]
        total = sum(math.exp(x) for x in z)
        row = [
            math.exp(x) / total - (smoothing / (len(z) - 1) if i else 0) for i, x in enumerate(z)
        ]
        row[y] -= 1 - smoothing
        rows.append(row if y != PAD else [0.0] * len(z))
    return rows


def grad_in_place(logits, targets, smoothing):
    p = torch.softmax(logits, dim=1)
    p[:, 1:] -= smoothing / (p.shape[1] - 1)
    p[torch.arange(len(p)), targets] -= 1 - smoothing
    p[targets == PAD] = 0
    return p.numpy()


RIGHT = {
    "12.1": [[1, 1, 0], (1.0, 1.0, 0.0), torch.tensor([1, 1, 0])],
    "12.2": [loss_distribution, loss_two_parts, loss_loops, loss_where],
    "12.3": [rate_wave, rate_two_lines, rate_late, rate_parabola],
    "12.4": [adam_pytorch, adam_in_place, adam_lerp, adam_numpy],
    "12.5": [merge_numpy, merge_loop, merge_shares],
    "12.6": [clip_test_numbers, clip_test_asserts, clip_test_properties],
    "12.7": [loop_sums, loop_clears_after, loop_by_hand],
    "12.8": [grad_autograd, grad_loops, grad_in_place],
}
