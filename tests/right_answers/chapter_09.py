"""Right answers to the exercises of chapter 9, written in different styles."""

import cmath
import math

import numpy as np
import torch

from allyouneed import positions


def sinusoids_loops(length, d_model):
    return [
        [
            (math.cos if j % 2 else math.sin)(pos / 10000 ** ((j - j % 2) / d_model))
            for j in range(d_model)
        ]
        for pos in range(length)
    ]


def sinusoids_numpy(length, d_model):
    angle = np.arange(length)[:, None] / np.power(10000, 2 * (np.arange(d_model) // 2) / d_model)
    angle[:, 1::2] += np.pi / 2  # cos a = sin(a + pi / 2)
    return np.sin(angle)


def places_nearest(rows):
    return torch.cdist(rows, positions.sinusoids(1000, rows.shape[1])).argmin(1)


def places_loops(rows):
    table = sinusoids_numpy(1000, rows.shape[1])
    found = []
    for row in rows.numpy():
        off = [float(((row - whole) ** 2).sum()) for whole in table]
        found.append(off.index(min(off)))
    return found


def places_by_hands(rows):
    """From the slowest hand to the quickest: each says more exactly what the last one said."""
    rows = rows.double()
    width = rows.shape[1]
    place = torch.zeros(len(rows), dtype=torch.float64)
    for i in reversed(range(width // 2)):
        speed = 10000 ** (-2 * i / width)
        angle = torch.atan2(rows[:, 2 * i], rows[:, 2 * i + 1])
        turns = ((place * speed - angle) / (2 * math.pi)).round()
        place = (angle + 2 * math.pi * turns) / speed
    return place.round()


def places_within_the_noise(rows):
    table = torch.tensor(sinusoids_numpy(1000, rows.shape[1]))
    close = ((table - rows[:, None]).abs() < 0.06).all(-1)
    return [hits.nonzero()[0].item() for hits in close]


def placed_package(x):
    return positions.SinusoidalPositions(x.shape[-1])(x * math.sqrt(x.shape[-1]))


def placed_loops(x):
    B, T, D = x.shape
    out = x * D**0.5
    for t in range(T):
        for i in range(0, D, 2):
            out[:, t, i] += math.sin(t / 10000 ** (i / D))
            out[:, t, i + 1] += math.cos(t / 10000 ** (i / D))
    return out


def placed_mended(x):
    B, T, D = x.shape
    entry = torch.arange(D)
    angle = torch.arange(T)[:, None] / 10000 ** ((entry - entry % 2) / D)
    table = torch.where(entry % 2 == 0, angle.sin(), angle.cos())
    return D**0.5 * x + table


def embed_test_compares(embed):
    draw = torch.Generator().manual_seed(1)
    tokens = torch.randint(0, 11, (2, 5), generator=draw)
    embedding, table = torch.randn(11, 6, generator=draw), torch.randn(7, 6, generator=draw)
    wanted = embedding[tokens] * math.sqrt(6) + table[:5]
    found = torch.as_tensor(embed(tokens, embedding, table))
    return found.shape == wanted.shape and torch.allclose(found, wanted, atol=1e-4)


def embed_test_asserts(embed):
    """With numbers that tell which word, which place and which entry each of them came from."""
    tokens = torch.tensor([[4, 0, 3], [2, 5, 1]])
    embedding = torch.arange(6 * 7).float().view(6, 7) + 1
    table = 1000 * torch.arange(5 * 7).float().view(5, 7) + 1000
    found = embed(tokens, embedding, table)
    assert found.shape == (2, 3, 7)
    for b in range(2):
        for t in range(3):
            wanted = 7**0.5 * embedding[tokens[b, t]] + table[t]
            assert (found[b, t] - wanted).abs().max() < 0.1


def embed_test_by_parts(embed):
    """Words alone, positions alone, and both together."""
    tokens = np.array([[3, 1, 1, 0], [2, 4, 0, 3]])
    words, places = np.random.default_rng(0).normal(size=(2, 7, 5))
    words, places = torch.tensor(words[:6]).float(), torch.tensor(places).float()
    ids, nothing = torch.tensor(tokens), torch.zeros(6, 5)
    both, place = embed(ids, words, places), embed(ids, nothing, places)
    if list(both.shape) != [2, 4, 5] or not np.allclose(place, places[:4].expand(2, 4, 5)):
        return 0
    return np.allclose(both - place, 5**0.5 * words.numpy()[tokens], atol=1e-4)


def step_einsum(k, d_model):
    R = np.eye(d_model)
    for i in range(d_model // 2):
        angle = k * 10000 ** (-2 * i / d_model)
        R[2 * i, 2 * i] = R[2 * i + 1, 2 * i + 1] = np.cos(angle)
        R[2 * i, 2 * i + 1], R[2 * i + 1, 2 * i] = -np.sin(angle), np.sin(angle)
    return R


def step_quarters(k, d_model):
    angle = k * 10000 ** (-torch.arange(0, d_model, 2).double() / d_model)
    sin, cos = torch.diag(angle.sin()), torch.diag(angle.cos())
    return torch.cat([torch.cat([cos, -sin], dim=1), torch.cat([sin, cos], dim=1)])


def step_solved(k, d_model):
    """By least squares, from many positions to those k later."""
    rows = torch.tensor(sinusoids_loops(200, d_model), dtype=torch.float64)
    rows = torch.cat([rows[:, 0::2], rows[:, 1::2]], dim=1)
    old, new = (rows[: 200 - k], rows[k:]) if k >= 0 else (rows[-k:], rows[: 200 + k])
    return torch.linalg.pinv(old) @ new


def step_by_hands(k, d_model):
    R, half = np.zeros((d_model, d_model)), d_model // 2
    for i in range(half):
        hand = cmath.exp(1j * k * 10000 ** (-2 * i / d_model))
        R[i, i] = R[half + i, half + i] = hand.real
        R[half + i, i], R[i, half + i] = hand.imag, -hand.imag
    return R


def step_exponential(k, d_model):
    """The exponential of k times the speeds."""
    speed, half = torch.zeros(d_model, d_model, dtype=torch.float64), d_model // 2
    for i in range(half):
        speed[half + i, i] = 10000 ** (-2 * i / d_model)
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


def previous_projected(d_model):
    n = d_model // 4
    turn = torch.zeros(n, n)
    for i in range(0, n, 2):
        a = 10000 ** (-i / d_model)
        turn[i, i] = turn[i + 1, i + 1] = math.cos(a)
        turn[i, i + 1], turn[i + 1, i] = math.sin(a), -math.sin(a)
    keep = torch.eye(d_model)[:, :n]
    return 90 * keep @ turn, keep


def previous_keys_ahead(d_model):
    R = np.zeros((d_model, d_model))
    for i in range(0, d_model // 4, 2):
        s, c = np.sin(10000 ** (-i / d_model)), np.cos(10000 ** (-i / d_model))
        R[i : i + 2, i : i + 2] = [[c, -s], [s, c]]
    return 100 * np.eye(d_model), R


def previous_solved(d_model):
    """A query that is the row one place before, by least squares on the free entries."""
    n = d_model // 4
    rows = torch.tensor(sinusoids_loops(300, d_model))[:, :n].double()
    back = torch.linalg.lstsq(rows[1:], rows[:-1]).solution
    w_q, w_k = torch.zeros(d_model, n).double(), torch.zeros(d_model, n).double()
    w_q[:n], w_k[:n] = 80 * back, torch.eye(n)
    return w_q.tolist(), w_k.tolist()


def previous_keys_freed(d_model):
    """Only the keys are freed of words: what the query has beside meets zeros."""
    w_q, w_k = torch.zeros(2, d_model, d_model).double()
    for i in range(d_model // 2):
        angle = -(10000 ** (-2 * i / d_model))
        c, s = math.cos(angle), math.sin(angle)
        w_q[2 * i : 2 * i + 2, 2 * i : 2 * i + 2] = 100 * torch.tensor([[c, -s], [s, c]])
    w_k[: d_model // 4, : d_model // 4] = torch.eye(d_model // 4)
    return w_q, w_k


RIGHT = {
    "9.1": [
        [-0.544, -0.839, 0.841, 0.540, 0.100, 0.995, 0.010, 1.000],
        (math.sin(10), math.cos(10), math.sin(1), math.cos(1), 0.0998, 0.995, 0.01, 0.99995),
        torch.tensor([-0.54, -0.839, 0.8415, 0.5403, 0.0998, 0.995, 0.01, 0.99995])
        + torch.tensor([-0.004, 0, 0, 0, 0, 0, 0, 0]),
    ],
    "9.2": [places_nearest, places_loops, places_by_hands, places_within_the_noise],
    "9.3": [placed_package, placed_loops, placed_mended],
    "9.4": [embed_test_compares, embed_test_asserts, embed_test_by_parts],
    "9.5": [step_quarters, step_solved, step_by_hands, step_exponential],
    "9.6": [rotate_complex, rotate_matrices, rotate_by_loop, rotate_half_trick, rotate_in_place],
    "9.7": [
        ["equal", "equal", "greater", "smaller"],
        ("Equal", "equal", "GREATER", "smaller"),
        "==><",
    ],
    "9.8": [previous_projected, previous_keys_ahead, previous_keys_freed, previous_solved],
}
