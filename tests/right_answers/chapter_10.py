"""Right answers to the exercises of chapter 10, written in different styles."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


def norm_pytorch(x, gamma, beta, eps):
    return F.layer_norm(x, (x.shape[-1],), gamma, beta, eps)


def norm_var(x, gamma, beta, eps):
    variance, mean = torch.var_mean(x, dim=2, correction=0, keepdim=True)
    return torch.addcmul(beta, gamma, (x - mean) * torch.rsqrt(variance + eps))


def norm_loops(x, gamma, beta, eps):
    result = torch.zeros_like(x)
    for b, t in np.ndindex(*x.shape[:2]):
        word = x[b, t].tolist()
        mean = sum(word) / len(word)
        variance = sum((entry - mean) ** 2 for entry in word) / len(word)
        for i, entry in enumerate(word):
            result[b, t, i] = gamma[i] * (entry - mean) / (variance + eps) ** 0.5 + beta[i]
    return result


def norm_numpy(x, gamma, beta, eps):
    x, gamma, beta = (array.double().numpy() for array in (x, gamma, beta))
    return (x - x.mean(2, keepdims=True)) / np.sqrt(x.var(-1)[..., None] + eps) * gamma + beta


def norm_in_place(x, gamma, beta, eps):
    x -= x.mean(-1).unsqueeze(-1)
    x /= ((x * x).mean(-1, keepdim=True) + eps) ** 0.5
    x *= gamma
    x += beta
    return x


def norm_squares(x, gamma, beta, eps):
    x = x.double()
    mean = torch.einsum("btd->bt", x)[..., None] / x.shape[-1]
    variance = (x**2).mean(-1, keepdim=True) - mean**2
    return ((x - mean) / torch.sqrt(variance + eps)) * gamma + beta


def batch_counts(x, mask, eps):
    keep = mask[:, :, None].to(x.dtype)
    count = keep.sum()
    mean = (x * keep).sum(dim=(0, 1)) / count
    variance = (((x - mean) * keep) ** 2).sum(dim=(0, 1)) / count
    return keep * (x - mean) / torch.sqrt(variance + eps)


def batch_module(x, mask, eps):
    result = torch.zeros_like(x)
    result[mask] = nn.BatchNorm1d(x.shape[-1], eps=eps)(x[mask]).detach()
    return result


def batch_loops(x, mask, eps):
    result = np.zeros(tuple(x.shape))
    for d in range(x.shape[2]):
        entries = [float(x[b, t, d]) for b, t in np.ndindex(*mask.shape) if mask[b, t]]
        mean, variance = np.mean(entries), np.var(entries)
        for b, t in np.ndindex(*mask.shape):
            if mask[b, t]:
                result[b, t, d] = (float(x[b, t, d]) - mean) / (variance + eps) ** 0.5
    return result


def batch_where(x, mask, eps):
    words = torch.cat([sentence[keep] for sentence, keep in zip(x, mask, strict=True)])
    std, mean = (words.var(dim=0, unbiased=False) + eps) ** 0.5, words.mean(dim=0)
    return torch.where(mask.unsqueeze(2), (x - mean) / std, torch.tensor(0.0))


def add_steps(x, sublayer, keep, p, gamma, beta, eps):
    y = sublayer(x).masked_fill(~keep, 0.0) / (1 - p)
    y += x
    return F.layer_norm(y, y.shape[-1:], gamma, beta, eps)


def add_words(x, sublayer, keep, p, gamma, beta, eps):
    y = x + torch.where(keep, sublayer(x) / (1 - p), 0.0)
    for b, t in np.ndindex(*x.shape[:2]):
        std = (((y[b, t] - y[b, t].mean()) ** 2).mean() + eps) ** 0.5
        y[b, t] = (y[b, t] - y[b, t].mean()) / std * gamma + beta
    return y


def add_double(x, sublayer, keep, p, gamma, beta, eps):
    scale = keep.double() * (1 / (1 - p))
    return norm_numpy(x.double() + sublayer(x).double() * scale, gamma, beta, eps)


def add_in_place(x, sublayer, keep, p, gamma, beta, eps):
    given = sublayer(x)
    given[~keep] = 0
    x += given / (1.0 - p)
    variance, mean = torch.var_mean(x, dim=-1, correction=0, keepdim=True)
    return (x - mean) * (variance + eps).rsqrt() * gamma + beta


def stack_index(x, sublayers, norms, final_norm):
    for i in range(len(sublayers)):
        x = x + sublayers[i](norms[i](x))
    return final_norm(x)


def stack_recursive(x, sublayers, norms, final_norm):
    if not sublayers:
        return final_norm(x)
    return stack_recursive(x + sublayers[0](norms[0](x)), sublayers[1:], norms[1:], final_norm)


def stack_stream(x, sublayers, norms, final_norm):
    added = [x]
    for f, norm in zip(sublayers, norms, strict=True):
        added.append(f(norm(sum(added))))
    return final_norm(torch.stack(added).sum(0))


def stack_in_place(x, sublayers, norms, final_norm):
    while sublayers:
        x += sublayers.pop(0)(norms.pop(0)(x))
    return final_norm(x).numpy()


def feed_functional(x, w_1, b_1, w_2, b_2):
    return F.linear(F.relu(F.linear(x, w_1.T, b_1)), w_2.T, b_2)


def feed_einsum(x, w_1, b_1, w_2, b_2):
    hidden = torch.einsum("btd,df->btf", x, w_1) + b_1
    hidden[hidden < 0] = 0
    return torch.einsum("btf,fd->btd", hidden, w_2) + b_2


def feed_positions(x, w_1, b_1, w_2, b_2):
    result = []
    for t in range(x.shape[1]):
        hidden = torch.maximum(torch.zeros(()), x[:, t] @ w_1 + b_1)
        result.append(hidden @ w_2 + b_2)
    return torch.stack(result, dim=1)


def feed_numpy(x, w_1, b_1, w_2, b_2):
    x, w_1, b_1, w_2, b_2 = (a.double().numpy() for a in (x, w_1, b_1, w_2, b_2))
    return np.maximum(0, x @ w_1 + b_1) @ w_2 + b_2


def feed_convolutions(x, w_1, b_1, w_2, b_2):
    hidden = F.conv1d(x.transpose(1, 2), w_1.T[:, :, None], b_1).relu()
    return F.conv1d(hidden, w_2.T[:, :, None], b_2).transpose(1, 2)


def xor_two_ways():
    w_1 = torch.tensor([[1.0, -1.0], [-1.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
    return w_1, torch.zeros(2), torch.tensor([[0.0, 0, 0, 1], [0, 0, 0, 1]]), torch.zeros(4)


def xor_lists():
    w_1 = [[2, 2], [2, 2], [0, 0], [0, 0]]
    return [w_1, [0, -2], [[0, 0, 0, 0.5], [0, 0, 0, -1.0]], [0, 0, 0, 0]]


def xor_numpy():
    w_1, w_2 = np.zeros((4, 5)), np.zeros((5, 4))
    w_1[:2, 0], w_1[:2, 1] = 1, -1  # how many are on; nothing
    w_1[:2, 2] = 3
    w_2[0, 3], w_2[2, 3] = 1, -2 / 3
    return w_1, np.array([0.0, 0, -3, 0, 0]), w_2, np.zeros(4)


def xor_from_above():
    w_1 = torch.zeros(4, 2)
    w_1[:2] = torch.tensor([[-1.0, 1.0], [-1.0, 1.0]])  # 1 - on, and on - 1
    w_2 = torch.zeros(2, 4)
    w_2[:, 3] = -1
    return w_1, torch.tensor([1.0, -1.0]), w_2, torch.tensor([0, 0, 0, 1.0])


def back_autograd(x, gamma, eps, above):
    given = [x.requires_grad_(), gamma.requires_grad_(), torch.zeros_like(gamma).requires_grad_()]
    result = F.layer_norm(given[0], x.shape[-1:], given[1], given[2], eps)
    return torch.autograd.grad(result, given, above)


def back_matrix(x, gamma, eps, above):
    D = x.shape[-1]
    centre = torch.eye(D) - torch.full((D, D), 1 / D)
    rows = []
    for word, up in zip(x.reshape(-1, D), above.reshape(-1, D), strict=True):
        c = centre @ word
        root = (c @ c / D + eps) ** 0.5
        jacobian = centre / root - torch.outer(c, c) / (D * root**3)
        rows.append((jacobian.T @ (gamma * up), up * c / root))
    dx = torch.stack([row for row, _ in rows]).view_as(x)
    return [dx, sum(row for _, row in rows), above.reshape(-1, D).sum(0)]


def back_numpy(x, gamma, eps, above):
    x, gamma, above = (array.double().numpy() for array in (x, gamma, above))
    root = np.sqrt(x.var(-1, keepdims=True) + eps)
    normal = (x - x.mean(-1, keepdims=True)) / root
    g = above * gamma
    dx = g / root - (g.mean(-1, keepdims=True) + normal * (g * normal).mean(-1)[..., None]) / root
    return dx, (above * normal).sum(axis=(0, 1)), above.sum(axis=(0, 1))


RIGHT = {
    "10.1": [
        [0.5, 0.25, -1, 1, -2, 3],
        (1 / 2, 1 / 4, -1.0, 1.0, -2.0, 3.0),
        torch.tensor([0.5, 0.25, -1.0, 1.0, -2.0, 3.0]),
        np.array([0.5, 0.25, -0.99998, 0.99998, -1.99996, 2.99996]),
    ],
    "10.2": [norm_pytorch, norm_var, norm_loops, norm_numpy, norm_in_place, norm_squares],
    "10.3": [batch_counts, batch_module, batch_loops, batch_where],
    "10.4": [add_steps, add_words, add_double, add_in_place],
    "10.5": [stack_index, stack_recursive, stack_stream, stack_in_place],
    "10.6": [feed_functional, feed_einsum, feed_positions, feed_numpy, feed_convolutions],
    "10.7": [
        [4194304, 8393728, 4096, 12592128],
        (4 * 1024**2, 2 * 1024 * 4096 + 4096 + 1024, 4 * 1024, 12_592_128),
        torch.tensor([4194304, 8393728, 4096, 12592128]),
        [4194304, 8393728, 8192 / 2, 12592128.0],
    ],
    "10.8": [[1, -1, 0, 0], (1.0, -1.0, 0.0, 0.0), torch.tensor([1, -1, 0, 0])],
    "10.9": [xor_two_ways, xor_lists, xor_numpy, xor_from_above],
    "10.10": [back_autograd, back_matrix, back_numpy],
}
