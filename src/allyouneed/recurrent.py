"""Recurrent nets: the plain one, the LSTM and the GRU; a recall task; how fast gradients fade."""

# Made from notebooks/02_recurrent.ipynb by `make export`: edit the notebook, not this file.
# fmt: off

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from allyouneed.checks import check_generator, check_graph, check_sizes, check_states

__all__ = ["RNN", "LSTM", "GRU", "recall_batch", "gradient_norms", "longest_chain"]


def _start(
    x: Tensor, state: Tensor | None, w: nn.Linear, u: nn.Linear, name: str = "h"
) -> Tensor:
    """The state to start from, zeros if none is given, once x and
    it are what w and u can multiply."""
    check_states(x, state, w, u, name)
    return x.new_zeros(x.shape[0], u.in_features) if state is None else state


class RNN(nn.Module):
    """h_t = tanh(x_t W + h_{t-1} U + b), for one t after another (Elman, 1990).

    Reads x (B, T, D) from the state h (B, hidden), zeros if not given. Returns
    every state (B, T, hidden) and the last one (B, hidden). Raises ValueError if
    x or h has another shape, TypeError if another dtype.
    """

    def __init__(self, d_in: int, d_hidden: int):
        super().__init__()
        check_sizes(d_in=d_in, d_hidden=d_hidden)
        self.w = nn.Linear(d_in, d_hidden)
        self.u = nn.Linear(d_hidden, d_hidden, bias=False)

    def forward(
        self, x: Float[Tensor, "B T D"], h: Float[Tensor, "B hidden"] | None = None
    ) -> tuple[Float[Tensor, "B T hidden"], Float[Tensor, "B hidden"]]:
        h = _start(x, h, self.w, self.u)
        inputs = self.w(x)  # for all words at once
        states = []
        for t in range(x.shape[1]):  # for one word at a time
            h = torch.tanh(inputs[:, t] + self.u(h))
            states.append(h)
        return torch.stack(states, dim=1), h


class LSTM(nn.Module):
    """A recurrent net with a protected cell c and three gates (Hochreiter and
    Schmidhuber, 1997; forget gate: Gers, Schmidhuber and Cummins, 2000).

    Reads x (B, T, D) from the pair (h, c), each (B, hidden), zeros if not given.
    Returns every state h (B, T, hidden) and the last pair. Raises ValueError if x,
    h or c has another shape, TypeError if another dtype.
    """

    def __init__(self, d_in: int, d_hidden: int):
        super().__init__()
        check_sizes(d_in=d_in, d_hidden=d_hidden)
        self.w = nn.Linear(d_in, 4 * d_hidden)  # rows: input, forget, candidate, output
        self.u = nn.Linear(d_hidden, 4 * d_hidden, bias=False)

    def forward(
        self,
        x: Float[Tensor, "B T D"],
        state: tuple[Float[Tensor, "B hidden"], Float[Tensor, "B hidden"]]
        | None = None,
    ) -> tuple[
        Float[Tensor, "B T hidden"],
        tuple[Float[Tensor, "B hidden"], Float[Tensor, "B hidden"]],
    ]:
        h, c = (None, None) if state is None else state
        h = _start(x, h, self.w, self.u)
        c = _start(x, c, self.w, self.u, name="c")
        inputs, states = self.w(x), []
        for t in range(x.shape[1]):
            # before sigmoid and tanh: (2.2)
            i, f, g, o = (inputs[:, t] + self.u(h)).chunk(4, dim=-1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            states.append(h)
        return torch.stack(states, dim=1), (h, c)


class GRU(nn.Module):
    """A recurrent net with two gates and no cell (Cho et al., 2014),
    computed as PyTorch does.

    Reads x (B, T, D) from the state h (B, hidden), zeros if not given. Returns
    every state (B, T, hidden) and the last one (B, hidden). Raises ValueError if
    x or h has another shape, TypeError if another dtype.
    """

    def __init__(self, d_in: int, d_hidden: int):
        super().__init__()
        check_sizes(d_in=d_in, d_hidden=d_hidden)
        self.w = nn.Linear(d_in, 3 * d_hidden)  # rows: reset, update, candidate
        # its bias for the candidate is reset, too
        self.u = nn.Linear(d_hidden, 3 * d_hidden)

    def forward(
        self, x: Float[Tensor, "B T D"], h: Float[Tensor, "B hidden"] | None = None
    ) -> tuple[Float[Tensor, "B T hidden"], Float[Tensor, "B hidden"]]:
        h = _start(x, h, self.w, self.u)
        inputs, states = self.w(x), []
        for t in range(x.shape[1]):
            (r, z, n), (u_r, u_z, u_n) = (
                inputs[:, t].chunk(3, dim=-1),
                self.u(h).chunk(3, dim=-1),
            )
            candidate = torch.tanh(n + torch.sigmoid(r + u_r) * u_n)
            keep = torch.sigmoid(z + u_z)
            h = keep * h + (1 - keep) * candidate
            states.append(h)
        return torch.stack(states, dim=1), h


def recall_batch(
    distance: int, batch: int, generator: torch.Generator
) -> tuple[Int[Tensor, "B T"], Int[Tensor, " B"]]:
    """The recall task: a capital (0 to 7), small letters (8 to
    15), a question mark (16).

    Returns the symbols (B, distance + 1), and the capital that each row opens with
    (B,). Raises ValueError if distance < 1: the question comes after the capital.
    """
    check_sizes(distance=distance)
    check_generator(generator)
    symbols = torch.randint(8, 16, (batch, distance + 1), generator=generator)
    capitals = torch.randint(0, 8, (batch,), generator=generator)
    symbols[:, 0], symbols[:, -1] = capitals, 16
    return symbols, capitals


def gradient_norms(
    read: Callable[[Tensor], Tensor], start: Float[Tensor, "1 hidden"]
) -> Float[Tensor, " T"]:
    """Largest factor by which a small change of the start grows
    or shrinks, at every step.

    `read` maps a starting state (1, hidden) to the states (1, T, hidden). Entry t of
    the result is the spectral norm of the Jacobian dh_t/dh_0 (Pascanu, Mikolov and
    Bengio, 2013, section 2).
    """
    jacobian = torch.func.jacfwd(read)(start)  # (1, T, hidden, 1, hidden)
    return torch.linalg.matrix_norm(jacobian[0, :, :, 0], ord=2).detach()


def longest_chain(
    tensor: Tensor, kinds: tuple[str, ...] = ("Addmm", "Mm", "Bmm", "Convolution")
) -> int:
    """The number of operations of these kinds on the longest path
    that leads to the tensor.

    Kinds are beginnings of the names in PyTorch's graph of the backward pass;
    the usual ones multiply matrices. Raises ValueError for a tensor without a graph.
    """
    check_graph(tensor)
    length, waiting = {}, [tensor.grad_fn]
    while waiting:
        node = waiting[-1]
        before = [n for n, _ in node.next_functions if n is not None]
        unknown = [n for n in before if n not in length]
        if unknown:
            waiting.extend(unknown)
        else:
            longest = max([length[n] for n in before], default=0)
            length[waiting.pop()] = longest + node.name().startswith(kinds)
    return length[tensor.grad_fn]
