"""Right answers to the exercises of chapter 9, written in different styles."""

import cmath
import math

import numpy as np
import torch


def sinusoids_loops(length, d_model):
    return [
        [
            (math.cos if j % 2 else math.sin)(pos / 10000 ** ((j - j % 2) / d_model))
            for j in range(d_model)
        ]
        for pos in range(length)
    ]


def sinusoids_exp(length, d_model):
    pe = torch.zeros(length, d_model)
    position = torch.arange(0, length).float().unsqueeze(1)
    speed = torch.exp(torch.arange(0, d_model, 2).float() * -(math.log(10000.0) / d_model))
    pe[:, 0::2] = torch.sin(position * speed)
    pe[:, 1::2] = torch.cos(position * speed)
    return pe


def sinusoids_numpy(length, d_model):
    angle = np.arange(length)[:, None] / np.power(10000, 2 * (np.arange(d_model) // 2) / d_model)
    angle[:, 1::2] += np.pi / 2  # cos a = sin(a + pi / 2)
    return np.sin(angle)


def sinusoids_complex(length, d_model):
    speed = 10000.0 ** (-torch.arange(0, d_model, 2, dtype=torch.float64) / d_model)
    hands = torch.exp(1j * torch.outer(torch.arange(length).double(), speed))
    return torch.view_as_real(hands).flip(-1).reshape(length, d_model)


def add_in_place(x, table):
    x += table[: x.size(1)]
    return x


def add_loops(x, table):
    for sentence in x:
        for pos, word in enumerate(sentence):
            word.add_(table[pos])
    return x


def add_looked_up(x, table):
    positions = torch.arange(x.shape[1]).expand(x.shape[0], -1)
    return x + torch.nn.functional.embedding(positions, table)


def add_lists(x, table):
    return [
        [[a + b for a, b in zip(word, row, strict=True)] for word, row in zip(s, table.tolist())]  # noqa: B905
        for s in x.tolist()
    ]


def embed_in_place(tokens, embedding, table):
    x = torch.nn.functional.embedding(tokens, embedding)
    x *= embedding.size(-1) ** 0.5
    x += table[: tokens.size(-1)].unsqueeze(0)
    return x


def embed_scaled_first(tokens, embedding, table):
    louder = embedding * np.sqrt(embedding.shape[-1])
    return torch.stack([louder[sentence] + table[: len(sentence)] for sentence in tokens])


def embed_one_hot(tokens, embedding, table):
    one_hot = torch.nn.functional.one_hot(tokens, len(embedding)).double()
    words = one_hot @ embedding.double()
    return math.sqrt(words.shape[-1]) * words + table[torch.arange(words.shape[1])]


def embed_lists(tokens, embedding, table):
    root, rows, places = len(embedding[0]) ** 0.5, embedding.tolist(), table.tolist()
    return [
        [[root * a + b for a, b in zip(rows[i], places[p])] for p, i in enumerate(sentence)]  # noqa: B905
        for sentence in tokens.tolist()
    ]


def step_einsum(k, d_model):
    R = np.eye(d_model)
    for i in range(d_model // 2):
        angle = k * 10000 ** (-2 * i / d_model)
        R[2 * i, 2 * i] = R[2 * i + 1, 2 * i + 1] = np.cos(angle)
        R[2 * i, 2 * i + 1], R[2 * i + 1, 2 * i] = -np.sin(angle), np.sin(angle)
    return R


def step_solved(k, d_model):
    """By least squares, from many positions to those k later."""
    rows = torch.tensor(sinusoids_loops(200, d_model), dtype=torch.float64)
    old, new = (rows[: 200 - k], rows[k:]) if k >= 0 else (rows[-k:], rows[: 200 + k])
    return torch.linalg.pinv(old) @ new


def step_power(k, d_model):
    """One step, k times over."""
    one = torch.zeros(d_model, d_model, dtype=torch.float64)
    for i in range(0, d_model, 2):
        hand = cmath.exp(1j * 10000 ** (-i / d_model))
        one[i, i] = one[i + 1, i + 1] = hand.real
        one[i + 1, i], one[i, i + 1] = hand.imag, -hand.imag
    return torch.linalg.matrix_power(one, k)


def step_exponential(k, d_model):
    """The exponential of k times the speeds."""
    speed = torch.zeros(d_model, d_model, dtype=torch.float64)
    for i in range(0, d_model, 2):
        speed[i + 1, i] = 10000 ** (-i / d_model)
    return torch.linalg.matrix_exp(k * (speed - speed.T))


def rotate_complex(x):
    pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2)).contiguous())
    speed = 10000.0 ** (-torch.arange(0, x.shape[-1], 2).double() / x.shape[-1])
    angle = torch.outer(torch.arange(x.shape[1]).double(), speed)
    turned = pairs * torch.polar(torch.ones_like(angle), angle)
    return torch.view_as_real(turned).flatten(-2).float()


def rotate_matrices(x):
    return torch.stack(
        [
            word @ torch.as_tensor(step_einsum(p, x.shape[-1])).T.to(x)
            for p, word in enumerate(x.unbind(1))
        ],
        dim=1,
    )


def rotate_by_loop(x):
    new = np.zeros(x.shape)
    for b, p, j in np.ndindex(*x.shape):
        theta = p / 10000 ** ((j // 2 * 2) / x.shape[-1])
        other = -x[b, p, j + 1] if j % 2 == 0 else x[b, p, j - 1]
        new[b, p, j] = x[b, p, j] * math.cos(theta) + other * math.sin(theta)
    return new


def rotate_half_trick(x):
    speed = 10000 ** (-torch.arange(0, x.shape[-1], 2) / x.shape[-1])
    angle = (torch.arange(x.shape[1])[:, None] * speed).repeat_interleave(2, dim=-1)
    swapped = torch.stack([-x[..., 1::2], x[..., ::2]], dim=-1).reshape(x.shape)
    return x * angle.cos() + swapped * angle.sin()


def rotate_in_place(x):
    x, speed = x.double(), 10000 ** (-torch.arange(0, x.shape[2], 2).double() / x.shape[2])
    for p in range(x.shape[1]):
        sin, cos = torch.sin(p * speed), torch.cos(p * speed)
        a, b = x[:, p, 0::2].clone(), x[:, p, 1::2].clone()
        x[:, p, 0::2], x[:, p, 1::2] = a * cos - b * sin, a * sin + b * cos
    return x


RIGHT = {
    "9.1": [
        [-0.544, -0.839, 0.841, 0.540, 0.100, 0.995, 0.010, 1.000],
        (math.sin(10), math.cos(10), math.sin(1), math.cos(1), 0.0998, 0.995, 0.01, 0.99995),
        torch.tensor([-0.54, -0.839, 0.8415, 0.5403, 0.0998, 0.995, 0.01, 0.99995])
        + torch.tensor([-0.004, 0, 0, 0, 0, 0, 0, 0]),
    ],
    "9.2": [sinusoids_loops, sinusoids_exp, sinusoids_numpy, sinusoids_complex],
    "9.3": [add_in_place, add_loops, add_looked_up, add_lists],
    "9.4": [embed_in_place, embed_scaled_first, embed_one_hot, embed_lists],
    "9.5": [step_einsum, step_solved, step_power, step_exponential],
    "9.6": [rotate_complex, rotate_matrices, rotate_by_loop, rotate_half_trick, rotate_in_place],
}
