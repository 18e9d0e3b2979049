"""Right answers to the exercises of chapter 10, written in different styles."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


def norm_test_pytorch(norm):
    torch.manual_seed(3)
    x, gamma, beta = 3 * torch.randn(2, 3, 5), torch.randn(5), torch.randn(5)
    for eps in (2.0, 0.01):
        wanted = nn.functional.layer_norm(x, (5,), gamma, beta, eps)
        torch.testing.assert_close(norm(x, gamma, beta, eps), wanted)


def norm_test_double(norm):
    x = torch.linspace(-2, 3, 36, dtype=torch.float64).sin().reshape(3, 4, 3)
    gamma, beta = torch.tensor([2.0, -1.0, 0.5]), torch.tensor([0.1, 0.2, -0.3])
    mean, var = x.mean(-1, keepdim=True), x.var(-1, unbiased=False, keepdim=True)
    for eps in (1e-5, 0.1, 1.0):
        wanted = (x - mean) / (var + eps) ** 0.5 * gamma + beta
        if (norm(x, gamma, beta, eps) - wanted).abs().max() > 1e-3:
            return False
    return True


def norm_test_loops(norm):
    draw = np.random.default_rng(0)
    x, gamma, beta = (draw.normal(size=size).astype("float32") for size in ((3, 2, 6), 6, 6))
    same = []
    for eps in (0.7, 0.001):
        got = norm(*(torch.tensor(part) for part in (x, gamma, beta)), eps).numpy()
        same += [
            np.allclose(got[b, t], (w - w.mean()) / (w.var() + eps) ** 0.5 * gamma + beta, 0, 1e-4)
            for b, sentence in enumerate(x)
            for t, w in enumerate(sentence)
        ]
    return np.all(same)


def norm_numpy(x, gamma, beta, eps):
    x, gamma, beta = (array.double().numpy() for array in (x, gamma, beta))
    return (x - x.mean(2, keepdims=True)) / np.sqrt(x.var(-1)[..., None] + eps) * gamma + beta


def batch_counts(x, mask, eps):
    keep = mask[:, :, None].to(x.dtype)
    count = keep.sum()
    x = torch.where(mask[:, :, None], x, 0.0)
    mean = x.sum(dim=(0, 1)) / count
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


def nets_cat(first, second):
    joined = [
        torch.cat(pair, dim)
        for pair, dim in zip(zip(first[:3], second[:3], strict=True), (1, 0, 0), strict=True)
    ]
    return [*joined, first[3].add(second[3])]


def nets_second_first(first, second):
    (a, b, c, d), (e, f, g, h) = second, first
    return torch.hstack((a, e)), torch.hstack((b, f)), torch.vstack((c, g)), d + h


def nets_with_an_idle_unit(first, second):
    F, G = len(first[1]), len(second[1])
    D = len(first[3])
    w_1, b_1, w_2 = torch.zeros(D, F + G + 1), torch.zeros(F + G + 1), torch.zeros(F + G + 1, D)
    w_1[:, :F], w_1[:, F : F + G] = first[0], second[0]
    b_1[:F], b_1[F:-1] = first[1], second[1]
    w_2[:F], w_2[F:-1] = first[2], second[2]
    return w_1, b_1, w_2, first[3] + second[3]


def nets_numpy(first, second):
    a, b = ([part.numpy() for part in net] for net in (first, second))
    w_1 = np.concatenate([a[0], b[0]], 1)
    return w_1, np.r_[a[1], b[1]], np.r_[a[2], b[2]], (a[3] + b[3]).tolist()


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
    "10.2": [norm_test_pytorch, norm_test_double, norm_test_loops],
    "10.3": [batch_counts, batch_module, batch_loops, batch_where],
    "10.4": [add_steps, add_words, add_double, add_in_place],
    "10.5": [stack_index, stack_recursive, stack_stream, stack_in_place],
    "10.6": [nets_cat, nets_second_first, nets_with_an_idle_unit, nets_numpy],
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
