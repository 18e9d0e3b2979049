"""What the chapters' functions ask of their arguments: each check is one line in a chapter.

This module is plumbing written by hand. Every error names the argument, what was expected and what
came: a TypeError for a wrong type, a ValueError for a wrong size, shape or value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence, Sized
from numbers import Integral, Real
from typing import Any

import torch
from torch import Tensor


def check_integers(**sizes: object) -> None:
    """Each is an integer; a length that a graph keeps open is one."""
    for name, size in sizes.items():
        if isinstance(size, bool) or not isinstance(size, Integral | torch.SymInt):
            raise TypeError(f"{name}: expected an integer, got {size!r}")


def check_numbers(**numbers: object) -> None:
    """Each is a number: True and a tensor with one entry are none."""
    for name, number in numbers.items():
        if isinstance(number, bool) or not isinstance(number, Real):
            raise TypeError(f"{name}: expected an integer or a float, got {number!r}")


def check_sizes(**sizes: int) -> None:
    """Each size is an integer of at least 1."""
    check_integers(**sizes)
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name}: expected at least 1, got {size}")


def check_even(**sizes: int) -> None:
    """Each size is an even integer of at least 2."""
    check_integers(**sizes)
    for name, size in sizes.items():
        if size < 2 or size % 2:
            raise ValueError(f"{name}: expected an even number of at least 2, got {size}")


def check_positive(**numbers: float) -> None:
    """Each number is finite and above 0."""
    check_numbers(**numbers)
    for name, number in numbers.items():
        if not 0 < number < math.inf:
            raise ValueError(f"{name}: expected a finite number above 0, got {number}")


def check_probability(**probabilities: float) -> None:
    """Each number is at least 0 and below 1."""
    check_numbers(**probabilities)
    for name, p in probabilities.items():
        if not 0 <= p < 1:
            raise ValueError(f"{name}: expected a probability below 1, got {p}")


def check_booleans(**switches: object) -> None:
    """Each is True or False: a string such as "no" would count as True."""
    for name, switch in switches.items():
        if not isinstance(switch, bool):
            raise TypeError(f"{name}: expected True or False, got {switch!r}")


def check_text(**texts: object) -> None:
    """Each is one string."""
    for name, text in texts.items():
        if not isinstance(text, str):
            raise TypeError(f"{name}: expected a string, got {type(text).__name__}")


def check_several(sentences: Iterable[str]) -> None:
    """Several sentences, not one."""
    if isinstance(sentences, str):
        raise TypeError("sentences: expected several sentences, got one string")


def check_specials(found: list[int | None], expected: list[str]) -> None:
    """The special tokens have the first ids."""
    if found != list(range(len(expected))):
        last = len(expected) - 1
        raise ValueError(f"bpe: expected {expected} to have the ids 0 to {last}, got {found}")


def check_learnt(size: int, vocab_size: int, n_specials: int) -> None:
    """A vocabulary has more than the special tokens, and no more than were asked for."""
    if size == n_specials:
        raise ValueError("sentences: expected text to learn from, got none")
    if size > vocab_size:
        raise ValueError(
            f"vocab_size: expected at least {size}, room for the special tokens and every "
            f"character of the text, got {vocab_size}"
        )


def check_known(ids: list[int], size: int) -> None:
    """All ids are in a vocabulary of that size."""
    if outside := [i for i in ids if not 0 <= i < size]:
        raise ValueError(f"ids: expected numbers from 0 to {size - 1}, got {outside[0]}")


def check_some(**lists: Sized) -> None:
    """Each holds at least one list of ids."""
    for name, one in lists.items():
        if not len(one):
            raise ValueError(f"{name}: expected at least one list of ids, got none")


def check_pairs(pairs: Sequence) -> None:
    """At least one pair, of ids and not of sentences."""
    if not len(pairs):
        raise ValueError("pairs: expected at least one pair of id lists, got none")
    if isinstance(pairs[0][0], str):
        raise TypeError("pairs: expected lists of ids, got sentences; encode them first")


def check_room(max_tokens: int, longest: int) -> None:
    """The longest sentence fits into a batch."""
    if max_tokens < longest:
        raise ValueError(
            f"max_tokens: expected at least {longest}, the longest sentence with its BOS and EOS, "
            f"got {max_tokens}"
        )


def check_heads(d_model: int, n_heads: int) -> None:
    """d_model can be cut into n_heads equal pieces."""
    check_integers(d_model=d_model, n_heads=n_heads)
    if d_model < 1 or n_heads < 1 or d_model % n_heads:
        raise ValueError(f"n_heads: expected a divisor of d_model = {d_model}, got {n_heads}")


def check_floating(**vectors: Tensor) -> None:
    """Each tensor has floating-point entries."""
    for name, x in vectors.items():
        if not x.is_floating_point():
            raise TypeError(f"{name}: expected floating-point vectors, got {x.dtype}")


def check_vectors(q: Tensor, k: Tensor) -> None:
    """q (..., T, K) and k (..., S, K) are vectors of one width."""
    check_floating(q=q, k=k)
    for name, x in (("q", q), ("k", k)):
        if x.dim() < 2:
            raise ValueError(
                f"{name}: expected at least 2 axes, (..., length, width), got {tuple(x.shape)}"
            )
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(
            f"k: expected keys as wide as the queries, {q.shape[-1]}, got {k.shape[-1]}"
        )


def check_attention(q: Tensor, k: Tensor, v: Tensor, dropout: float = 0.0) -> None:
    """q (..., T, K), k (..., S, K) and v (..., S, d_v) have the same leading axes."""
    check_probability(dropout=dropout)
    check_vectors(q, k)
    check_floating(v=v)
    if q.shape[:-2] != k.shape[:-2]:
        raise ValueError(
            f"k: expected the queries' leading axes {tuple(q.shape[:-2])}, "
            f"got {tuple(k.shape[:-2])}"
        )
    if k.shape[:-1] != v.shape[:-1]:
        raise ValueError(
            f"v: expected one value for each key, (..., S) = {tuple(k.shape[:-1])}, "
            f"got {tuple(v.shape[:-1])}"
        )


def check_boolean(mask: Tensor) -> None:
    """The mask is boolean, whichever of its two values may attend."""
    if mask.dtype != torch.bool:
        raise TypeError(f"mask: expected a boolean tensor, got {mask.dtype}")


def check_mask(mask: Tensor, shape: tuple[int, ...]) -> None:
    """The mask is boolean and broadcasts to `shape`, that of the scores, (..., T, S)."""
    if mask.dtype != torch.bool:
        raise TypeError(
            f"mask: expected a boolean tensor, True = may attend, got {mask.dtype}. "
            "If 1 means may attend, pass mask.bool(); "
            "if 0 means may attend and -inf hidden, pass mask == 0"
        )
    sizes = zip(reversed(mask.shape), reversed(shape), strict=False)
    if mask.dim() > len(shape) or any(m not in (1, n) for m, n in sizes):
        raise ValueError(
            f"mask: expected a shape that broadcasts to (..., T, S) = {tuple(shape)}, "
            f"got {tuple(mask.shape)}"
        )


def check_source_mask(mask: Tensor, scores: Tensor) -> None:
    """The mask of the source, (B, S), has an entry for each key of the scores, (B, T, S)."""
    expected = (scores.shape[0], scores.shape[2])
    if mask.shape != expected:
        raise ValueError(f"mask: expected shape (B, S) = {expected}, got {tuple(mask.shape)}")


def check_multihead(d_model: int, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> None:
    """q, k and v are (B, length, d_model), and the axes of the mask (T, S) or (B, H, T, S)."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.dim() != 3 or x.shape[-1] != d_model:
            raise ValueError(
                f"{name}: expected shape (B, length, d_model = {d_model}), got {tuple(x.shape)}"
            )
    check_floating(q=q, k=k, v=v)
    if mask is not None and mask.dim() not in (2, 4):
        raise ValueError(
            f"mask: expected 2 axes (T, S) or 4 axes (B, H, T, S), got {tuple(mask.shape)}"
        )


def check_embeddings(x: Tensor, table: Tensor) -> None:
    """x is (B, T, d_model), and the table, (max_length, d_model), has a row for every position."""
    if not x.is_floating_point():
        raise TypeError(f"x: expected embeddings, floating-point vectors, got {x.dtype}")
    if x.dim() != 3 or x.shape[-1] != table.shape[-1]:
        raise ValueError(
            f"x: expected shape (B, T, d_model = {table.shape[-1]}), got {tuple(x.shape)}"
        )
    if x.shape[1] > len(table):
        raise ValueError(
            f"x: expected at most max_length = {len(table)} positions, got {x.shape[1]}"
        )


def check_states(x: Tensor, state: Tensor | None, d_in: int, d_hidden: int, name: str) -> None:
    """x is (B, T, d_in), with at least one word, and the state to start from (B, d_hidden)."""
    if x.ndim != 3 or x.shape[1] == 0 or x.shape[2] != d_in or not x.is_floating_point():
        raise ValueError(
            f"x: expected floats of shape (B, T, {d_in}) with T >= 1, "
            f"got {x.dtype} of shape {tuple(x.shape)}"
        )
    expected = (x.shape[0], d_hidden)
    if state is not None and state.shape != expected:
        raise ValueError(
            f"{name}: expected shape (B, hidden) = {expected}, got {tuple(state.shape)}"
        )


def check_width(x: Tensor, d_model: int) -> None:
    """x is (..., d_model), with floating-point entries."""
    check_floating(x=x)
    if x.shape[-1] != d_model:
        raise ValueError(f"x: expected vectors of width d_model = {d_model}, got {tuple(x.shape)}")


def check_rotation(x: Tensor, angles: Tensor) -> None:
    """x is (..., T, K), and there is an angle for each place and pair, (T, K / 2)."""
    if x.shape[-2:] != (len(angles), 2 * angles.shape[1]):
        raise ValueError(
            "x: expected shape (..., T, K) with one angle for each place and pair, "
            f"(T, K / 2) = {tuple(angles.shape)}, got {tuple(x.shape)}"
        )


def check_sublayer(y: Tensor, x: Tensor) -> None:
    """y, what a sub-layer made of x, has the shape of x."""
    if y.shape != x.shape:
        raise ValueError(
            f"sublayer: expected an output of shape {tuple(x.shape)}, got {tuple(y.shape)}"
        )


def check_machine(config: Any) -> None:
    """The sizes of a `TransformerConfig` are whole numbers that fit together."""
    names = ("vocab_size", "d_model", "d_ff", "n_heads", "n_layers")
    check_sizes(**{name: getattr(config, name) for name in names})
    if config.d_model % 2:
        raise ValueError(f"d_model: expected an even number, got {config.d_model}")
    check_heads(config.d_model, config.n_heads)
    check_probability(dropout=config.dropout)
    check_booleans(norm_first=config.norm_first)


def check_decoding(tgt: Tensor, memory: Tensor, src_mask: Tensor | None) -> None:
    """The memory holds as many sentences as tgt, and the mask, if any, is (B, 1, 1, S)."""
    if not isinstance(memory, Tensor):
        raise TypeError(
            "memory: expected a tensor, the first of the two that `encode` gives, "
            f"got {type(memory).__name__}"
        )
    asked, given = memory.shape[0], tgt.shape[0]  # `len` would make an exported graph keep it
    if given != asked:
        raise ValueError(f"tgt: expected {asked} sentences as in src, got {given}")
    if src_mask is not None and src_mask.dim() != 4:
        raise ValueError(f"src_mask: expected shape (B, 1, 1, S), got {tuple(src_mask.shape)}")


def check_targets(logits: Tensor, targets: Tensor) -> None:
    """The logits are (..., V), and the targets (...)."""
    if logits.shape[:-1] != targets.shape:
        raise ValueError(
            f"targets: expected shape {tuple(logits.shape[:-1])}, got {tuple(targets.shape)}"
        )


def check_run(steps: int, accumulate: int, max_norm: float) -> None:
    """A training has at least no update, each of at least one batch, and a length above 0."""
    check_integers(accumulate=accumulate, steps=steps)
    check_numbers(max_norm=max_norm)
    if accumulate < 1 or steps < 0:
        raise ValueError(
            f"accumulate and steps: expected at least 1 and 0, got {accumulate} and {steps}"
        )
    if not max_norm > 0:
        raise ValueError(f"max_norm: expected a length above 0, got {max_norm}")


def check_completion(
    tokens: Tensor, count: int, temperature: float, top_k: int | None, top_p: float | None
) -> None:
    """There is a text to go on with, and settings in range."""
    if tokens.dim() != 2 or tokens.shape[1] == 0:
        raise ValueError(f"tokens: expected shape (B, T), T at least 1, got {tuple(tokens.shape)}")
    check_integers(count=count)
    check_numbers(temperature=temperature)
    if count < 0:
        raise ValueError(f"count: expected at least 0, got {count}")
    if not temperature >= 0:
        raise ValueError(f"temperature: expected at least 0, got {temperature}")
    if temperature == math.inf:
        raise ValueError("temperature: expected a finite number, got inf")
    if top_k is not None:
        check_sizes(top_k=top_k)
    if top_p is not None:
        check_numbers(top_p=top_p)
    if top_p is not None and not 0 < top_p <= 1:
        raise ValueError(f"top_p: expected a probability above 0, got {top_p}")


def check_same_states(states: Sequence[dict[str, Tensor]]) -> None:
    """At least one checkpoint, and all with the same names and shapes."""
    if not states:
        raise ValueError("states: expected at least one, got none")
    shapes = [{name: tensor.shape for name, tensor in state.items()} for state in states]
    if any(one != shapes[0] for one in shapes):
        raise ValueError("states: expected the same names and shapes in all of them")


def check_ids(tokens: Tensor) -> None:
    """The tokens are integers of shape (B, S)."""
    if tokens.is_floating_point() or tokens.is_complex() or tokens.dtype == torch.bool:
        raise TypeError(f"tokens: expected integer ids, got {tokens.dtype}")
    if tokens.dim() != 2:
        raise ValueError(f"tokens: expected shape (B, S), got {tuple(tokens.shape)}")


def check_tokens(name: str, tokens: Tensor, vocab_size: int) -> None:
    """Ids of the vocabulary, of shape (B, length), with at least one column.

    Whether ids lie in the vocabulary is looked up on the CPU only: elsewhere looking costs time,
    and where a graph is recorded or `torch.func` is at work, they cannot be looked at.
    """
    if not isinstance(tokens, Tensor):
        raise TypeError(f"{name}: expected a tensor of ids, got {type(tokens).__name__}")
    if tokens.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"{name}: expected integer ids, got {tokens.dtype}")
    if tokens.dim() != 2 or not tokens.shape[1]:
        raise ValueError(f"{name}: expected shape (B, length), got {tuple(tokens.shape)}")
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor(tokens)
    unseen = wrapped or torch.compiler.is_compiling()
    if tokens.device.type == "cpu" and tokens.numel() and not unseen:
        low, high = (int(limit) for limit in tokens.aminmax())
        if low < 0 or high >= vocab_size:
            raise ValueError(
                f"{name}: expected ids from 0 to {vocab_size - 1}, got {low if low < 0 else high}"
            )
