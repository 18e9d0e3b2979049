"""The exercises of chapter 2, "What recurrence costs", and the mistakes they know."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from .core import Exercise, Invariant, Mistake

# 2.1: one step by hand


def step_by_hand() -> dict[str, list[float]]:
    """The right state, and what each slip makes of it."""
    x, h = torch.tensor([1.0, 2.0]), torch.tensor([0.5, -1.0])
    w, u = torch.tensor([[0.3, -0.2], [0.1, 0.4]]), torch.tensor([[0.5, -0.3], [0.2, 0.6]])
    b = torch.tensor([0.1, -0.2])
    states = {
        "right": torch.tanh(x @ w + h @ u + b),
        "no tanh": x @ w + h @ u + b,
        "no bias": torch.tanh(x @ w + h @ u),
        "no old state": torch.tanh(x @ w + b),
        "no word": torch.tanh(h @ u + b),
        "U transposed": torch.tanh(x @ w + h @ u.T + b),
        "W transposed": torch.tanh(x @ w.T + h @ u + b),
        "both transposed": torch.tanh(x @ w.T + h @ u.T + b),
        "no U": torch.tanh(x @ w + h + b),
        "sigmoid": torch.sigmoid(x @ w + h @ u + b),
    }
    return {name: state.tolist() for name, state in states.items()}


BY_HAND = step_by_hand()

# 2.2: a plain recurrent net over a batch of sequences


def read(
    step: Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor],
) -> Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]:
    """A net that makes each state of (B, T, hidden) by `step(x_t, h, w, u, b)`."""

    def rnn(x: Tensor, h: Tensor, w: Tensor, u: Tensor, b: Tensor) -> Tensor:
        states = []
        for t in range(x.shape[1]):
            h = step(x[:, t], h, w, u, b)
            states.append(h)
        return torch.stack(states, dim=1)

    return rnn


rnn = read(lambda x, h, w, u, b: torch.tanh(x @ w + h @ u + b))


def rnn_always_first_state(x, h, w, u, b):
    return torch.tanh(x @ w + (h @ u)[:, None] + b)


def rnn_carries_over(x, h, w, u, b):
    """The state of one sentence goes on into the next."""
    states, state = [], h[:1]
    for sentence in x.split(1):
        states.append(rnn(sentence, state, w, u, b))
        state = states[-1][:, -1]
    return torch.cat(states)


def rnn_cases() -> list[tuple[Tensor, ...]]:
    g = torch.Generator().manual_seed(22)
    return [
        tuple(
            0.5 * torch.randn(shape, generator=g)
            for shape in ((batch, t, d), (batch, s), (d, s), (s, s), (s,))
        )
        for batch, t, d, s in ((2, 4, 3, 5), (3, 2, 4, 2), (1, 5, 2, 3), (1, 2, 1, 1), (2, 1, 3, 1))
    ]


# 2.3: one step of the GRU as published, with the reset before the product


def gates(x: Tensor, h: Tensor, w: Tensor, u: Tensor, b: Tensor) -> tuple[Tensor, Tensor, int]:
    """Reset and update gates (B, hidden), and the column where the candidate's part begins."""
    last = 2 * h.shape[1]
    r, z = torch.sigmoid(x @ w[:, :last] + h @ u[:, :last] + b[:last]).chunk(2, dim=1)
    return r, z, last


def gru_step(x, h, w, u, b):
    r, z, n = gates(x, h, w, u, b)
    candidate = torch.tanh(x @ w[:, n:] + (r * h) @ u[:, n:] + b[n:])
    return z * h + (1 - z) * candidate


def gru_reset_after(x, h, w, u, b):
    r, z, n = gates(x, h, w, u, b)
    candidate = torch.tanh(x @ w[:, n:] + r * (h @ u[:, n:]) + b[n:])
    return z * h + (1 - z) * candidate


def gru_update_swapped(x, h, w, u, b):
    r, z, n = gates(x, h, w, u, b)
    candidate = torch.tanh(x @ w[:, n:] + (r * h) @ u[:, n:] + b[n:])
    return (1 - z) * h + z * candidate


def gru_gates_swapped(x, h, w, u, b):
    z, r, n = gates(x, h, w, u, b)
    candidate = torch.tanh(x @ w[:, n:] + (r * h) @ u[:, n:] + b[n:])
    return z * h + (1 - z) * candidate


def gru_candidate_sigmoid(x, h, w, u, b):
    r, z, n = gates(x, h, w, u, b)
    candidate = torch.sigmoid(x @ w[:, n:] + (r * h) @ u[:, n:] + b[n:])
    return z * h + (1 - z) * candidate


def gru_no_reset(x, h, w, u, b):
    _, z, n = gates(x, h, w, u, b)
    return z * h + (1 - z) * torch.tanh(x @ w[:, n:] + h @ u[:, n:] + b[n:])


def gru_no_bias(x, h, w, u, b):
    return gru_step(x, h, w, u, torch.zeros_like(b))


def gru_gates_tanh(x, h, w, u, b):
    n = 2 * h.shape[1]
    r, z = torch.tanh(x @ w[:, :n] + h @ u[:, :n] + b[:n]).chunk(2, dim=1)
    candidate = torch.tanh(x @ w[:, n:] + (r * h) @ u[:, n:] + b[n:])
    return z * h + (1 - z) * candidate


def gru_only_candidate(x, h, w, u, b):
    r, _, n = gates(x, h, w, u, b)
    return torch.tanh(x @ w[:, n:] + (r * h) @ u[:, n:] + b[n:])


def gru_plain_candidate(x, h, w, u, b):
    r, z, n = gates(x, h, w, u, b)
    return z * h + (1 - z) * (x @ w[:, n:] + (r * h) @ u[:, n:] + b[n:])


def gru_raw_gates(x, h, w, u, b):
    n = 2 * h.shape[1]
    r, z = (x @ w[:, :n] + h @ u[:, :n] + b[:n]).chunk(2, dim=1)
    candidate = torch.tanh(x @ w[:, n:] + (r * h) @ u[:, n:] + b[n:])
    return z * h + (1 - z) * candidate


def gru_reset_on_word(x, h, w, u, b):
    r, z, n = gates(x, h, w, u, b)
    candidate = torch.tanh(r * (x @ w[:, n:] + h @ u[:, n:] + b[n:]))
    return z * h + (1 - z) * candidate


def gru_cases() -> list[tuple[Tensor, ...]]:
    g = torch.Generator().manual_seed(23)
    return [
        tuple(
            0.8 * torch.randn(shape, generator=g)
            for shape in ((batch, d), (batch, s), (d, 3 * s), (s, 3 * s), (3 * s,))
        )
        for batch, d, s in ((2, 3, 4), (3, 4, 2), (1, 2, 3), (2, 1, 1))
    ]


# 2.4: clipping by the norm of all gradients together


def norm_of_all(gradients: list[Tensor]) -> Tensor:
    return torch.cat([g.flatten() for g in gradients]).norm()


def clip(gradients: list[Tensor], limit: float) -> list[Tensor]:
    factor = min(1.0, limit / float(norm_of_all(gradients)))
    return [g * factor for g in gradients]


def clip_with(
    norm: Callable[[list[Tensor]], float],
) -> Callable[[list[Tensor], float], list[Tensor]]:
    """Clipping with another idea of the length of all gradients."""
    return lambda gradients, limit: [g * min(1.0, limit / norm(gradients)) for g in gradients]


def clip_each(gradients, limit):
    return [g * min(1.0, limit / float(g.norm())) for g in gradients]


def clip_to_one(gradients, limit):
    norm = float(norm_of_all(gradients))
    return [g / norm if norm > limit else g for g in gradients]


def clip_first(gradients, limit):
    return [clip(gradients, limit)[0], *gradients[1:]]


def clip_cases() -> list[tuple[list[Tensor], float]]:
    g = torch.Generator().manual_seed(24)

    def draw(size: float) -> list[Tensor]:
        shapes = ((2, 3), (4,), (3, 1))
        return [size * (1 + i) * torch.randn(s, generator=g) for i, s in enumerate(shapes)]

    return [(draw(2.0), 1.5), (draw(0.01), 1.5), (draw(0.6), 2.0), (draw(5.0), 0.25)]


def as_list(output: object) -> object:
    return list(output) if isinstance(output, tuple) else output


# 2.5: layers until the first word is seen


def layers_needed(n: int, k: int, dilated: bool) -> int:
    if not dilated:
        return -(-(n - 1) // (k - 1))
    layers = 0
    while k**layers < n:
        layers += 1
    return layers


def layers_with(
    contiguous: Callable[[int, int], float], dilated: Callable[[int, int], float]
) -> Callable[[int, int, bool], int]:
    return lambda n, k, holes: int(dilated(n, k) if holes else contiguous(n, k))


def right_contiguous(n: int, k: int) -> int:
    return layers_needed(n, k, False)


def right_dilated(n: int, k: int) -> int:
    return layers_needed(n, k, True)


def doubled(n: int, k: int) -> int:
    """Layers needed when the gaps are 1, 2, 4, ..."""
    layers = 0
    while 1 + (k - 1) * (2**layers - 1) < n:
        layers += 1
    return layers


def whole(output: object) -> object:
    return int(output) if isinstance(output, float) and output.is_integer() else output


# 2.6: what a layer multiplies


def multiply_adds(layer: str, n: int, d: int, k: int) -> int:
    counts = {"self-attention": 2 * n * n * d, "recurrent": 2 * n * d * d}
    return {**counts, "convolutional": k * n * d * d}[layer]


def counting(**wrong: Callable[[int, int, int], int]) -> Callable[[str, int, int, int], int]:
    """As `multiply_adds`, but for the layers named: self_attention, recurrent, convolutional."""

    def count(layer: str, n: int, d: int, k: int) -> int:
        formula = wrong.get(layer.replace("-", "_"))
        return formula(n, d, k) if formula else multiply_adds(layer, n, d, k)

    return count


EXERCISES = [
    Exercise(
        number="2.1",
        title="one step by hand",
        section="A net that reads",
        reference=BY_HAND["right"],
        cases=[()],
        mistakes=[
            Mistake(
                "tanh is missing",
                BY_HAND["no tanh"],
                "The sum is right, but the state is its hyperbolic tangent, between -1 and 1.",
            ),
            Mistake(
                "the bias is missing",
                BY_HAND["no bias"],
                "Equation (2.1) adds b before tanh is taken.",
            ),
            Mistake(
                "the old state is missing",
                BY_HAND["no old state"],
                "Without h U the net forgets all it has read before this word.",
            ),
            Mistake(
                "the word is missing",
                BY_HAND["no word"],
                "Without x W the net does not read the new word.",
            ),
            Mistake(
                "U is transposed",
                BY_HAND["U transposed"],
                "h is a row and stands on the left: entry j of h U comes from column j of U.",
            ),
            Mistake(
                "W is transposed",
                BY_HAND["W transposed"],
                "x is a row and stands on the left: entry j of x W comes from column j of W.",
            ),
            Mistake(
                "both matrices are transposed",
                BY_HAND["both transposed"],
                "Vectors are rows in this book: x W and h U, not W x and U h.",
            ),
            Mistake(
                "the old state does not pass through U",
                BY_HAND["no U"],
                "The state is multiplied by U before it is added.",
            ),
            Mistake(
                "a sigmoid in place of tanh",
                BY_HAND["sigmoid"],
                "The plain net uses tanh, which maps to (-1, 1). The sigmoid is for gates.",
            ),
        ],
        atol=2e-3,
    ),
    Exercise(
        number="2.2",
        title="read a batch of sentences",
        section="The plain recurrent net",
        reference=rnn,
        cases=rnn_cases,
        mistakes=[
            Mistake(
                "tanh is missing",
                read(lambda x, h, w, u, b: x @ w + h @ u + b),
                "Without tanh the whole net is one linear map, and its states may grow and grow.",
            ),
            Mistake(
                "every step starts from the first state",
                rnn_always_first_state,
                "h must be replaced by the new state at each step; here each word is read alone.",
            ),
            Mistake(
                "starts from zeros",
                lambda x, h, w, u, b: rnn(x, torch.zeros_like(h), w, u, b),
                "The state to start from is given as h.",
            ),
            Mistake(
                "U is transposed",
                read(lambda x, h, w, u, b: torch.tanh(x @ w + h @ u.T + b)),
                "States are rows: h @ u. (It is nn.Linear that keeps matrices transposed.)",
            ),
            Mistake(
                "the bias is missing",
                read(lambda x, h, w, u, b: torch.tanh(x @ w + h @ u)),
                "b is added at every step, before tanh.",
            ),
            Mistake(
                "tanh is taken of the word alone",
                read(lambda x, h, w, u, b: torch.tanh(x @ w + b) + h @ u),
                "Take tanh of the whole sum: word, state and bias.",
            ),
            Mistake(
                "returns only the last state",
                lambda *case: rnn(*case)[:, -1],
                "All states are asked for, (B, T, hidden).",
            ),
            Mistake(
                "states are stacked along the first axis",
                lambda *case: rnn(*case).transpose(0, 1),
                "The result is (B, T, hidden), so stack with dim=1.",
            ),
            Mistake(
                "the starting state is among the results",
                lambda x, h, w, u, b: torch.cat([h[:, None], rnn(x, h, w, u, b)], dim=1),
                "T words make T states; h itself was there before the first word.",
            ),
            Mistake(
                "a sentence goes on where the one before it ended",
                rnn_carries_over,
                "Each sentence of the batch starts from its own row of h. Loop over the words, not "
                "over the sentences.",
            ),
            Mistake(
                "the states are one step late",
                lambda x, h, w, u, b: torch.cat([h[:, None], rnn(x, h, w, u, b)[:, :-1]], dim=1),
                "The state kept for word t is the one after reading it, not before.",
            ),
            Mistake(
                "returns a pair",
                lambda *case: (rnn(*case), rnn(*case)[:, -1]),
                "The classes of the chapter do. Here only the states are asked for.",
            ),
            Mistake(
                "tanh is taken of what is kept, and not of what is carried on",
                lambda *case: torch.tanh(read(lambda x, h, w, u, b: x @ w + h @ u + b)(*case)),
                "The state that goes on to the next word is the one after tanh.",
            ),
            Mistake(
                "reads backwards",
                lambda x, h, w, u, b: rnn(x.flip(1), h, w, u, b),
                "The first state belongs to the first word. Reading starts there.",
            ),
            Mistake(
                "reads from right to left",
                lambda x, h, w, u, b: rnn(x.flip(1), h, w, u, b).flip(1),
                "The state at t may depend on words 1 to t, so reading starts with the first word.",
            ),
        ],
        invariants=[
            Invariant(
                "states lie between -1 and 1",
                lambda output, *case: bool((torch.as_tensor(output).abs() <= 1).all()),
                "They come out of a hyperbolic tangent.",
            )
        ],
    ),
    Exercise(
        number="2.3",
        title="the GRU as published",
        section="Gates: the GRU",
        reference=gru_step,
        cases=gru_cases,
        mistakes=[
            Mistake(
                "the reset gate acts after the product",
                gru_reset_after,
                "That is PyTorch's GRU, equation (2.6). The published one resets the state first "
                "and multiplies the result by U.",
            ),
            Mistake(
                "the parts of z and 1 - z are swapped",
                gru_update_swapped,
                "In equation (2.7) z keeps the old state and 1 - z lets the candidate in.",
            ),
            Mistake(
                "reset and update gates are swapped",
                gru_gates_swapped,
                "The columns come in the order reset, update, candidate.",
            ),
            Mistake(
                "the candidate is a sigmoid",
                gru_candidate_sigmoid,
                "Gates are sigmoids. The candidate is a new state, so it is a tanh.",
            ),
            Mistake(
                "the reset gate is not used",
                gru_no_reset,
                "The candidate sees r * h in place of h.",
            ),
            Mistake(
                "the reset gate acts on the word as well",
                gru_reset_on_word,
                "Only the old state is reset. The word and the bias enter the candidate in full.",
            ),
            Mistake(
                "the gates are made with tanh",
                gru_gates_tanh,
                "A gate is a share between 0 and 1, so it is a sigmoid.",
            ),
            Mistake(
                "the biases are missing",
                gru_no_bias,
                "b has three parts too, one for each gate and one for the candidate.",
            ),
            Mistake(
                "the candidate has no tanh",
                gru_plain_candidate,
                "The candidate is a new state: the tanh of its sum.",
            ),
            Mistake(
                "the gates have no sigmoid",
                gru_raw_gates,
                "A gate is a share between 0 and 1. The sigmoid makes it one.",
            ),
            Mistake(
                "returns the candidate alone",
                gru_only_candidate,
                "The new state is a mixture of the old one and the candidate, equation (2.7).",
            ),
        ],
    ),
    Exercise(
        number="2.4",
        title="clip a gradient",
        section="Trouble two: gradients vanish or explode",
        reference=clip,
        cases=clip_cases,
        canonical=as_list,
        mistakes=[
            Mistake(
                "each tensor is clipped by itself",
                clip_each,
                "Then long tensors shrink and short ones do not, and the direction of the step "
                "changes. One factor for all keeps it.",
            ),
            Mistake(
                "values are clipped, not the length",
                lambda gradients, limit: [g.clamp(-limit, limit) for g in gradients],
                "Cutting each entry to the limit changes the direction. Equation (2.10) shortens "
                "the whole vector.",
            ),
            Mistake(
                "short gradients are made longer",
                lambda gradients, limit: [g * limit / norm_of_all(gradients) for g in gradients],
                "A gradient within the limit stays as it is: the factor is at most 1.",
            ),
            Mistake(
                "the lengths of the tensors are added",
                clip_with(lambda gradients: sum(float(g.norm()) for g in gradients)),
                "The length of joined vectors is the root of the sum of the squared lengths.",
            ),
            Mistake(
                "the root is missing",
                clip_with(lambda gradients: float(norm_of_all(gradients)) ** 2),
                "The norm is the square root of the sum of squares.",
            ),
            Mistake(
                "the largest entry is taken for the length",
                clip_with(lambda gradients: max(float(g.abs().max()) for g in gradients)),
                "The norm of equation (2.10) is the Euclidean length of all entries together.",
            ),
            Mistake(
                "the largest tensor is taken for the whole",
                clip_with(lambda gradients: max(float(g.norm()) for g in gradients)),
                "All tensors count as one long vector, and its length is larger than any part's.",
            ),
            Mistake(
                "long gradients get length 1",
                clip_to_one,
                "They should get the length `limit`.",
            ),
            Mistake(
                "only the first tensor is shortened",
                clip_first,
                "The factor belongs to every tensor of the list.",
            ),
        ],
        invariants=[
            Invariant(
                "the result is no longer than the limit",
                lambda output, gradients, limit: (
                    float(norm_of_all([torch.as_tensor(g) for g in output])) <= limit * 1.0001
                ),
                "That is what clipping is for.",
            )
        ],
    ),
    Exercise(
        number="2.5",
        title="how deep to see all",
        section="Convolutions must be deep to see far",
        reference=layers_needed,
        cases=[
            (n, k, dilated)
            for n, k in (
                (1, 3),
                (2, 3),
                (9, 3),
                (10, 3),
                (25, 5),
                (26, 5),
                (125, 5),
                (126, 5),
                (243, 3),
            )
            for dilated in (False, True)
        ]
        + [(100, 2, False), (100, 2, True), (1000, 10, True), (1001, 10, True)],
        canonical=whole,
        mistakes=[
            Mistake(
                "counts n words to cross, not n - 1",
                layers_with(lambda n, k: math.ceil(n / (k - 1)), right_dilated),
                "The last word sees itself for nothing: n - 1 others are left.",
            ),
            Mistake(
                "each layer adds k words",
                layers_with(lambda n, k: math.ceil((n - 1) / k), right_dilated),
                "A window of k words holds the word itself and k - 1 new ones.",
            ),
            Mistake(
                "windows side by side",
                layers_with(lambda n, k: math.ceil(n / k), right_dilated),
                "Windows of stacked layers overlap by one word, so each layer adds k - 1 words.",
            ),
            Mistake(
                "rounds down",
                layers_with(
                    lambda n, k: (n - 1) // (k - 1), lambda n, k: right_dilated(n + 1, k) - 1
                ),
                "If words are left over, one more layer is needed: round up.",
            ),
            Mistake(
                "trusts a rounded logarithm",
                layers_with(right_contiguous, lambda n, k: math.ceil(math.log(n) / math.log(k))),
                "log(125) / log(5) comes out a little above 3, and rounding up makes 4. Multiply "
                "whole numbers until n is reached.",
            ),
            Mistake(
                "takes the logarithm to base 2",
                layers_with(right_contiguous, lambda n, k: (n - 1).bit_length()),
                "With dilations 1, k, k**2, ... each layer multiplies the reach by k: base k.",
            ),
            Mistake(
                "gaps that double",
                layers_with(right_contiguous, doubled),
                "Here the gaps grow by the factor k from layer to layer: 1, k, k**2, ...",
            ),
            Mistake(
                "one layer for a single word",
                lambda n, k, dilated: max(1, layers_needed(n, k, dilated)),
                "A single word sees itself without any layer.",
            ),
            Mistake(
                "the two cases are swapped",
                lambda n, k, dilated: layers_needed(n, k, not dilated),
                "With `dilated` true the reach is multiplied, with false it is added to.",
            ),
            Mistake(
                "ignores the dilation",
                layers_with(right_contiguous, right_contiguous),
                "With dilations the reach is multiplied by k at every layer.",
            ),
            Mistake(
                "one layer too many",
                layers_with(
                    lambda n, k: right_contiguous(n, k) + 1, lambda n, k: right_dilated(n, k) + 1
                ),
                "A single word needs no layer at all to see itself; k words need one.",
            ),
        ],
    ),
    Exercise(
        number="2.6",
        title="what a layer multiplies",
        section="Trouble four: one word after another",
        reference=multiply_adds,
        cases=[
            (layer, n, d, k)
            for layer in ("self-attention", "recurrent", "convolutional")
            for n, d, k in ((10, 64, 3), (100, 16, 5), (7, 11, 4))
        ],
        canonical=whole,
        mistakes=[
            Mistake(
                "the entries of Table 1, without their constants",
                counting(
                    self_attention=lambda n, d, k: n * n * d, recurrent=lambda n, d, k: n * d * d
                ),
                "O(...) hides constants. Self-attention and recurrence make two products each.",
            ),
            Mistake(
                "only the positions where the window fits",
                counting(convolutional=lambda n, d, k: k * (n - k + 1) * d * d),
                "The layer gives n words for n words; where the window sticks out, it is padded.",
            ),
            Mistake(
                "one step of the recurrent layer",
                counting(recurrent=lambda n, d, k: 2 * d * d),
                "The layer reads n words, and each costs two products.",
            ),
            Mistake(
                "self-attention counted with one product",
                counting(self_attention=lambda n, d, k: n * n * d),
                "There are two: all pairs of words are compared, and then all rows are mixed.",
            ),
            Mistake(
                "self-attention grows with the square of d",
                counting(self_attention=lambda n, d, k: 2 * n * d * d),
                "Each of n * n pairs of words costs d multiplications, in each of two products.",
            ),
            Mistake(
                "the recurrent layer counted with one product",
                counting(recurrent=lambda n, d, k: n * d * d),
                "Each step makes two: x W and h U.",
            ),
            Mistake(
                "the recurrent layer grows with the square of n",
                counting(recurrent=lambda n, d, k: 2 * n * n * d),
                "Each of n steps multiplies two vectors of width d by d x d matrices.",
            ),
            Mistake(
                "the convolution's width is missing",
                counting(convolutional=lambda n, d, k: n * d * d),
                "Each output word is made from k input words.",
            ),
            Mistake(
                "the convolution counted channel by channel",
                counting(convolutional=lambda n, d, k: k * n * d),
                "Every output channel reads every input channel, which makes d * d. (One that does "
                "not is called separable.)",
            ),
            Mistake(
                "multiplications and additions counted apart",
                lambda layer, n, d, k: 2 * multiply_adds(layer, n, d, k),
                "A multiplication together with its addition counts as one here.",
            ),
            Mistake(
                "projections are counted too",
                counting(self_attention=lambda n, d, k: 2 * n * n * d + 4 * n * d * d),
                "A real attention layer has them. Here only what mixes the words is counted.",
            ),
        ],
    ),
]
