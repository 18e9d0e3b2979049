"""What the chapters' functions ask of their arguments: each check is one line in a chapter.

This module is plumbing written by hand. Every error names the argument, what was expected and what
came: a TypeError for a wrong type, a ValueError for a wrong size, shape or value.
"""

from __future__ import annotations

import json
import math
import operator
import os
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


def check_sizes(**sizes: object) -> None:
    """Each size is an integer of at least 1."""
    check_integers(**sizes)
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name}: expected at least 1, got {size}")


def check_counts(**counts: object) -> None:
    """Each count is an integer of at least 0."""
    check_integers(**counts)
    for name, count in counts.items():
        if count < 0:
            raise ValueError(f"{name}: expected at least 0, got {count}")


def check_even(**sizes: object) -> None:
    """Each size is an even integer of at least 2."""
    check_integers(**sizes)
    for name, size in sizes.items():
        if size < 2 or size % 2:
            raise ValueError(f"{name}: expected an even number of at least 2, got {size}")


def check_positive(**numbers: object) -> None:
    """Each number is finite and above 0."""
    check_numbers(**numbers)
    for name, number in numbers.items():
        if not 0 < number < math.inf:
            raise ValueError(f"{name}: expected a finite number above 0, got {number}")


def check_not_negative(**numbers: object) -> None:
    """Each number is finite and at least 0."""
    check_numbers(**numbers)
    for name, number in numbers.items():
        if not 0 <= number < math.inf:
            raise ValueError(f"{name}: expected a finite number of at least 0, got {number}")


def check_probability(**probabilities: object) -> None:
    """Each number is at least 0 and below 1."""
    check_numbers(**probabilities)
    for name, p in probabilities.items():
        if not 0 <= p < 1:
            raise ValueError(f"{name}: expected a probability below 1, got {p}")


def check_shares(**shares: object) -> None:
    """Each number is above 0 and at most 1."""
    check_numbers(**shares)
    for name, share in shares.items():
        if not 0 < share <= 1:
            raise ValueError(f"{name}: expected a share above 0 and at most 1, got {share}")


def check_choice(choices: Iterable, **chosen: object) -> None:
    """Each is one of the choices."""
    choices = tuple(choices)
    for name, one in chosen.items():
        if one not in choices:
            raise ValueError(f"{name}: expected one of {', '.join(choices)}, got {one!r}")


def check_booleans(**switches: object) -> None:
    """Each is True or False: a string such as "no" would count as True."""
    for name, switch in switches.items():
        if not isinstance(switch, bool):
            raise TypeError(f"{name}: expected True or False, got {switch!r}")


def check_function(**functions: object) -> None:
    """Each is a function, or a module to be called; its name is none, nor a class of modules."""
    for name, one in functions.items():
        if isinstance(one, type) and issubclass(one, torch.nn.Module):
            raise TypeError(f"{name}: expected a function, got the class {one.__name__}")
        if not callable(one):
            told = repr(one) if isinstance(one, str) else type(one).__name__
            raise TypeError(f"{name}: expected a function, got {told}")


def check_score(score: object) -> None:
    """A score is a function of queries and keys, or None."""
    if score is not None:
        check_function(score=score)


def check_module(**modules: object) -> None:
    """Each is a module, and not its parameters."""
    for name, one in modules.items():
        if not isinstance(one, torch.nn.Module):
            raise TypeError(f"{name}: expected a module of PyTorch, got {type(one).__name__}")


def check_generator(generator: object) -> None:
    """None, or a generator: a seed is none."""
    if not (generator is None or isinstance(generator, torch.Generator)):
        raise TypeError(
            f"generator: expected torch.Generator().manual_seed(...) or the like, got {generator!r}"
        )


def check_text(**texts: object) -> None:
    """Each is one string."""
    for name, text in texts.items():
        if not isinstance(text, str):
            raise TypeError(f"{name}: expected a string, got {type(text).__name__}")


def check_kind(kind: type, **given: object) -> None:
    """Each is of this class, or of a reader's own that has all that the class has."""
    public = [name for name in vars(kind) if not name.startswith("_")]
    for name, one in given.items():
        if isinstance(one, type):
            raise TypeError(f"{name}: expected a {kind.__name__}, got the class {one.__name__}")
        ours = type(one).__module__.startswith("allyouneed.")
        alike = not ours and all(hasattr(one, part) for part in public)
        if not (isinstance(one, kind) or alike):
            same = type(one).__name__ == kind.__name__
            told = f"one of {type(one).__module__}" if same else type(one).__name__
            raise TypeError(f"{name}: expected a {kind.__name__}, got {told}")


def check_path(**paths: object) -> None:
    """Each says where a file is."""
    for name, path in paths.items():
        if not isinstance(path, str | os.PathLike):
            raise TypeError(f"{name}: expected a path, got {type(path).__name__}")


def check_place(device: object) -> None:
    """Tensors can be put there, on this machine."""
    try:
        torch.empty(0, device=device)
    except Exception as error:  # of several kinds, each in PyTorch's own words
        raise ValueError(f"device: expected one of this machine, got {device!r}") from error


def check_card(card: object) -> None:
    """What is said about a model is a dict that JSON can hold, or None."""
    if not (card is None or isinstance(card, dict)):
        raise TypeError(f"card: expected a dict, got {type(card).__name__}")
    try:
        json.dumps(card)
    except (TypeError, ValueError) as error:
        raise TypeError(f"card: expected what JSON can hold, got: {error}") from error


def check_several(**lists: Iterable) -> None:
    """Several sentences, or what else a name says, not one."""
    for name, several in lists.items():
        if isinstance(several, str) or not isinstance(several, Iterable):
            told = "one string" if isinstance(several, str) else type(several).__name__
            raise TypeError(f"{name}: expected several {name}, got {told}")


def check_list(**lists: object) -> None:
    """Each is a list or the like, which has a length and can be gone through twice."""
    for name, one in lists.items():
        if isinstance(one, str) or not isinstance(one, Sized):
            raise TypeError(f"{name}: expected a list, got {type(one).__name__}")


def check_specials(found: list[int | None], expected: list[str]) -> None:
    """The special tokens have the first ids."""
    if found != list(range(len(expected))):
        last = len(expected) - 1
        raise ValueError(f"bpe: expected {expected} to have the ids 0 to {last}, got {found}")


def check_cutting(bpe: Any, plain: Any) -> None:
    """Before and after its merges, a tokenizer does with text what `plain` does."""
    got, expected = (json.loads(one.to_str()) for one in (bpe, plain))
    own = {"version", "added_tokens", "model"}
    for name in sorted(expected.keys() - own):
        if got.get(name) != expected[name]:
            raise ValueError(
                f"bpe: expected the {name} of this book, {expected[name]}, got {got.get(name)}"
            )


def check_learnt(size: int, vocab_size: int, n_specials: int) -> None:
    """A vocabulary has more than the special tokens, and no more than were asked for."""
    if size == n_specials:
        raise ValueError("sentences: expected text to learn from, got none")
    if size > vocab_size:
        raise ValueError(
            f"vocab_size: expected at least {size}, room for the special tokens and every "
            f"character of the text, got {vocab_size}"
        )


def check_whole(ids: Iterable) -> None:
    """All ids are integers, of Python, of NumPy or of a tensor."""
    for each in ids:
        try:
            operator.index(each)
        except TypeError:
            raise TypeError(f"ids: expected an integer for each, got {each!r}") from None


def check_known(ids: Sequence | Tensor, size: int) -> None:
    """All ids are integers, in a vocabulary of that size."""
    check_whole(ids)
    if outside := [i for i in ids if not 0 <= i < size]:
        raise ValueError(f"ids: expected numbers from 0 to {size - 1}, got {int(outside[0])}")


def check_some(**lists: Sized) -> None:
    """Each holds at least one list of ids; whether these are integers, its first one tells."""
    check_list(**lists)
    for name, one in lists.items():
        if not len(one):
            raise ValueError(f"{name}: expected at least one list of ids, got none")
        if other := [x for x in one if isinstance(x, str) or not isinstance(x, Sized)]:
            raise TypeError(f"{name}: expected lists of ids, got {other[0]!r} for one")
        for ids in one:
            check_whole(ids[:1])


def check_pairs(pairs: Sequence) -> None:
    """At least one pair, of lists of ids and not of sentences."""
    check_list(pairs=pairs)
    if not len(pairs):
        raise ValueError("pairs: expected at least one pair of id lists, got none")
    for pair in pairs:
        try:
            source, target = pair
            len(source), len(target)
        except (TypeError, ValueError):
            raise ValueError(f"pairs: expected two lists of ids in each, got {pair!r}") from None
        if isinstance(source, str) or isinstance(target, str):
            raise TypeError("pairs: expected lists of ids, got sentences; encode them first")


def check_room(max_tokens: int, longest: int) -> None:
    """The longest sentence fits into a batch."""
    check_integers(max_tokens=max_tokens)
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


def check_merge(x: Tensor) -> None:
    """x is (B, H, T, K)."""
    check_tensor(x=x)
    if x.dim() != 4:
        raise ValueError(f"x: expected shape (B, H, T, K), got {tuple(x.shape)}")


def check_split(x: Tensor, n_heads: int) -> None:
    """x is (B, T, D), and D can be cut into n_heads equal pieces."""
    check_tensor(x=x)
    if x.dim() != 3:
        raise ValueError(f"x: expected shape (B, T, D), got {tuple(x.shape)}")
    check_heads(x.shape[-1], n_heads)


def check_tensor(**tensors: object) -> None:
    """Each is a tensor: a list is none."""
    for name, x in tensors.items():
        if not isinstance(x, Tensor):
            raise TypeError(f"{name}: expected a tensor, got {type(x).__name__}")


def check_floating(**vectors: object) -> None:
    """Each is a tensor with floating-point entries."""
    check_tensor(**vectors)
    for name, x in vectors.items():
        if not x.is_floating_point():
            raise TypeError(f"{name}: expected floating-point vectors, got {x.dtype}")


def check_device(whose: str, like: Tensor, **others: Tensor) -> None:
    """All are where `like` is."""
    for name, x in others.items():
        if x.device != like.device:
            raise ValueError(f"{name}: expected the {whose} device, {like.device}, got {x.device}")


def check_one_dtype(whose: str, like: Tensor, **others: Tensor) -> None:
    """All are where `like` is, and of its dtype, to which autocast sees itself."""
    check_device(whose, like, **others)
    for name, x in others.items():
        if x.dtype != like.dtype and not torch.is_autocast_enabled(like.device.type):
            raise TypeError(f"{name}: expected the {whose} dtype, {like.dtype}, got {x.dtype}")


def check_vectors(q: Tensor, k: Tensor) -> None:
    """q (..., T, K) and k (..., S, K) are vectors of one width and dtype."""
    check_floating(q=q, k=k)
    check_one_dtype("queries'", q, k=k)
    for name, x in (("q", q), ("k", k)):
        if x.dim() < 2:
            raise ValueError(
                f"{name}: expected at least 2 axes, (..., length, width), got {tuple(x.shape)}"
            )
    if q.shape[-1] != k.shape[-1]:
        raise ValueError(
            f"k: expected keys as wide as the queries, {q.shape[-1]}, got {k.shape[-1]}"
        )
    axes, others = q.shape[:-2], k.shape[:-2]
    sizes = zip(reversed(axes), reversed(others), strict=False)
    if any(a != b and 1 not in (a, b) for a, b in sizes):
        raise ValueError(
            f"k: expected leading axes that broadcast with the queries' {tuple(axes)}, "
            f"got {tuple(others)}"
        )


def check_attention(q: Tensor, k: Tensor, v: Tensor, dropout: float = 0.0) -> None:
    """q (..., T, K), k (..., S, K) and v (..., S, d_v) have the same leading axes."""
    check_probability(dropout=dropout)
    check_vectors(q, k)
    check_floating(v=v)
    check_one_dtype("queries'", q, v=v)
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


def check_squares(*masks: Tensor) -> None:
    """At least one mask, and all are squares of one size."""
    for mask in masks:
        check_tensor(masks=mask)
    if not masks or any(mask.shape != (len(masks[0]),) * 2 for mask in masks):
        shapes = [tuple(mask.shape) for mask in masks]
        raise ValueError(f"masks: expected squares of one size, at least one, got {shapes}")


def check_boolean(mask: object) -> None:
    """The mask is boolean, whichever of its two values may attend."""
    check_tensor(mask=mask)
    if mask.dtype != torch.bool:
        raise TypeError(f"mask: expected a boolean tensor, got {mask.dtype}")


def check_mask(mask: Tensor, shape: tuple[int, ...], device: torch.device | None = None) -> None:
    """The mask is boolean, broadcasts to `shape`, that of the scores, (..., T, S), and is on their
    device, if that is given."""
    check_tensor(mask=mask)
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
    if device not in (None, mask.device):
        raise ValueError(f"mask: expected the scores' device, {device}, got {mask.device}")


def check_self_attention(q: Tensor, k: Tensor, v: Tensor, padding: Tensor | None) -> None:
    """q, k and v have one length above 0; the padding, True = a token, is (..., 1, length)."""
    check_floating(q=q, k=k, v=v)
    if q.dim() < 2 or not q.shape[-2]:
        raise ValueError(f"q: expected at least one word, (..., T, K), got {tuple(q.shape)}")
    for name, x in (("k", k), ("v", v)):
        if x.shape[:-1] != q.shape[:-1]:
            expected = (*q.shape[:-1], *x.shape[-1:])
            raise ValueError(f"{name}: expected the queries' axes {expected}, got {tuple(x.shape)}")
    if padding is None:
        return
    check_tensor(padding=padding)
    if padding.dtype != torch.bool:
        raise TypeError(f"padding: expected a boolean tensor, True = a token, got {padding.dtype}")
    if padding.shape[-2:] != (1, q.shape[-2]):
        raise ValueError(
            f"padding: expected (..., 1, T = {q.shape[-2]}), got {tuple(padding.shape)}"
        )
    check_mask(padding, (*q.shape[:-2], 1, q.shape[-2]))


def check_source_mask(mask: Tensor, scores: Tensor) -> None:
    """The mask of the source, (B, S), has an entry for each key of the scores, (B, T, S)."""
    check_boolean(mask)
    check_floating(scores=scores)
    if scores.dim() != 3:
        raise ValueError(f"scores: expected shape (B, T, S), got {tuple(scores.shape)}")
    expected = (scores.shape[0], scores.shape[2])
    if mask.shape != expected:
        raise ValueError(f"mask: expected shape (B, S) = {expected}, got {tuple(mask.shape)}")


def weight_of(layer: Any) -> Tensor | None:
    """What a linear layer multiplies by; None where another stands in its place, as one of low rank
    or of few bits, that keeps no such tensor."""
    weight = getattr(layer, "weight", None)
    return weight if isinstance(weight, Tensor) else None


def check_multihead(layer: Any, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> None:
    """q, k and v are (B, length, d_model), as the layer's weights are; and the axes of the mask
    (T, S) or (B, H, T, S)."""
    d_model = layer.d_model
    check_floating(q=q, k=k, v=v)
    if (weight := weight_of(layer.w_o)) is not None:
        check_one_dtype("weights'", weight, q=q, k=k, v=v)
    for name, x in (("q", q), ("k", k), ("v", v)):
        if x.dim() != 3 or x.shape[-1] != d_model:
            raise ValueError(
                f"{name}: expected shape (B, length, d_model = {d_model}), got {tuple(x.shape)}"
            )
    if mask is None:
        return
    check_tensor(mask=mask)
    if mask.dim() not in (2, 4):
        raise ValueError(
            f"mask: expected 2 axes (T, S) or 4 axes (B, H, T, S), got {tuple(mask.shape)}"
        )


def check_embeddings(x: Tensor, table: Tensor) -> None:
    """x is (B, T, d_model), and the table, (max_length, d_model), has a row for every position."""
    check_tensor(x=x)
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
    check_device("table's", table, x=x)


def check_states(x: Tensor, state: Tensor | None, w: Any, u: Any, name: str) -> None:
    """x is (B, T, d_in), with at least one word, and the state to start from (B, hidden); both are
    of the dtype and on the device of the layers that multiply them, w and u."""
    check_tensor(x=x)
    d_in = w.in_features
    if x.ndim != 3 or x.shape[1] == 0 or x.shape[2] != d_in or not x.is_floating_point():
        raise ValueError(
            f"x: expected floats of shape (B, T, {d_in}) with T >= 1, "
            f"got {x.dtype} of shape {tuple(x.shape)}"
        )
    if (weight := weight_of(w)) is not None:
        check_one_dtype("weights'", weight, x=x)
    if state is None:
        return
    check_tensor(**{name: state})
    expected = (x.shape[0], u.in_features)
    if state.shape != expected:
        raise ValueError(
            f"{name}: expected shape (B, hidden) = {expected}, got {tuple(state.shape)}"
        )
    check_one_dtype("words'", x, **{name: state})


def check_width(x: Tensor, layer: Any) -> None:
    """x is (..., d_model), as the rows of a linear layer or the weights (d_model,) of a norm."""
    check_floating(x=x)
    weight = layer if isinstance(layer, Tensor) else weight_of(layer)
    d_model = layer.in_features if weight is None else weight.shape[-1]
    if x.shape[-1:] != (d_model,):
        raise ValueError(f"x: expected vectors of width d_model = {d_model}, got {tuple(x.shape)}")
    if weight is not None:
        check_one_dtype("weights'", weight, x=x)


def check_rotation(x: Tensor, angles: Tensor) -> None:
    """x is (..., T, K), and there is an angle for each place and pair, (T, K / 2)."""
    check_floating(x=x, angles=angles)
    if angles.dim() != 2 or x.shape[-2:] != (len(angles), 2 * angles.shape[1]):
        raise ValueError(
            "x: expected shape (..., T, K) with one angle for each place and pair, "
            f"(T, K / 2) = {tuple(angles.shape)}, got {tuple(x.shape)}"
        )


def check_sublayer(y: Tensor, x: Tensor) -> None:
    """y, what a sub-layer made of x, has the shape of x."""
    check_tensor(x=x, sublayer=y)
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
    if src_mask is not None:
        check_tensor(src_mask=src_mask)
        if src_mask.dim() != 4:
            raise ValueError(f"src_mask: expected shape (B, 1, 1, S), got {tuple(src_mask.shape)}")


def check_product(x: Tensor, weight: Tensor) -> None:
    """x is (N, D), and the weight (V, D)."""
    check_floating(x=x, weight=weight)
    if x.dim() != 2 or weight.dim() != 2 or x.shape[1] != weight.shape[1]:
        raise ValueError(
            f"x: expected (N, D) for a weight (V, D) = {tuple(weight.shape)}, got {tuple(x.shape)}"
        )
    check_device("weight's", weight, x=x)


def check_logits(logits: Tensor, targets: Tensor) -> None:
    """The logits are (..., V), and finite where that can be seen; the targets (...) ids below V."""
    check_floating(logits=logits)
    check_targets(logits, targets, logits.shape[-1])
    if can_be_seen(logits) and not logits.isfinite().all():
        odd = logits[~logits.isfinite()][0].item()
        raise ValueError(f"logits: expected finite numbers, got {odd}")


def check_targets(predictions: Tensor, targets: Tensor, vocab_size: int) -> None:
    """The predictions are (..., states or logits), the targets (...) ids of the vocabulary."""
    check_floating(predictions=predictions)
    check_range("targets", targets, vocab_size)
    if predictions.shape[:-1] != targets.shape:
        raise ValueError(
            f"targets: expected shape {tuple(predictions.shape[:-1])}, got {tuple(targets.shape)}"
        )
    check_device("predictions'", predictions, targets=targets)


def check_target_tokens(count: int) -> None:
    """There is a target token for the loss to be the mean of."""
    if not count:
        raise ValueError("batches: expected target tokens after BOS, got none")


def check_epoch(used: int, epoch: int) -> None:
    """An epoch has a batch."""
    if not used:
        raise ValueError(f"batches: expected at least one batch in epoch {epoch}, got none")


def check_batches(batches: object) -> None:
    """Several batches: one of them, or the function that gives them, is none of that."""
    if not isinstance(batches, Iterable):
        raise TypeError(f"batches: expected several batches, got {type(batches).__name__}")


def check_batch(batch: Any, vocab_size: int) -> None:
    """A batch has the ids of source and target, all in the vocabulary."""
    if not (hasattr(batch, "src") and hasattr(batch, "tgt")):
        raise TypeError(
            f"batches: expected a Batch for each, with src and tgt, got {type(batch).__name__}"
        )
    check_tokens("src", batch.src, vocab_size)
    check_tokens("tgt", batch.tgt, vocab_size)


def check_run(
    model: object, batches: object, steps: int, schedule: object, accumulate: int, max_norm: float,
    seed: int, after: object,
) -> None:  # fmt: skip
    """A training has a model, functions that give batches and rates, at least no update, each of at
    least one batch, a length above 0, a seed that PyTorch takes, and where it begins."""
    if not hasattr(model, "config"):
        raise TypeError(
            f"model: expected one with a config, as a Transformer, got {type(model).__name__}"
        )
    check_function(batches=batches)
    if schedule is not None:
        check_function(schedule=schedule)
    check_integers(accumulate=accumulate, steps=steps, seed=seed)
    check_numbers(max_norm=max_norm)
    if accumulate < 1 or steps < 0:
        raise ValueError(
            f"accumulate and steps: expected at least 1 and 0, got {accumulate} and {steps}"
        )
    if not max_norm > 0:
        raise ValueError(f"max_norm: expected a length above 0, got {max_norm}")
    if abs(seed) >= 2**33:
        raise ValueError(f"seed: expected less than {2**33}, got {seed}")
    if not hasattr(after, "step"):
        raise TypeError(f"after: expected a Record, got {type(after).__name__}")


def check_objective(objective: Any, model: Any, smoothing: float, dtype: torch.dtype) -> None:
    """An objective that is given is of this model, this smoothing and this dtype."""
    if getattr(objective, "model", None) is not model:
        raise ValueError("objective: expected that of this model, got that of another")
    if objective.smoothing != smoothing:
        raise ValueError(f"objective: expected smoothing {smoothing}, got {objective.smoothing}")
    if objective.dtype != dtype:
        raise ValueError(f"objective: expected {dtype}, got {objective.dtype}")


def check_optimizer(optimizer: torch.optim.Optimizer, model: torch.nn.Module) -> None:
    """The optimiser moves weights of this model."""
    if not hasattr(optimizer, "param_groups"):
        raise TypeError(
            f"optimizer: expected an optimizer of PyTorch, got {type(optimizer).__name__}"
        )
    moved = {id(p) for group in optimizer.param_groups for p in group["params"]}
    if moved.isdisjoint(map(id, model.parameters())):
        raise ValueError("optimizer: expected one of this model's weights, got one of others")


def check_rate(rate: Any, step: int) -> None:
    """What a schedule gives is a learning rate."""
    if not isinstance(rate, Real | Tensor) or not 0 <= rate < math.inf:
        raise ValueError(f"schedule: expected a rate of at least 0, got {rate} at step {step}")


def check_cosine(
    step: object, steps: object, peak: object, warmup_steps: object, floor: object
) -> None:
    """A step of a schedule with steps behind its warm-up, and rates that are not below 0."""
    check_sizes(step=step, warmup_steps=warmup_steps)
    check_numbers(steps=steps)
    if not steps > warmup_steps:
        raise ValueError(f"steps: expected more than warmup_steps = {warmup_steps}, got {steps}")
    check_not_negative(peak=peak, floor=floor)


def check_limits(lengths: Tensor, max_length: int | None, room: int) -> None:
    """No source is padding alone, and as many tokens may be written as there are positions."""
    if not lengths.all():
        raise ValueError("src: expected a token in every sentence, got one of padding alone")
    if max_length is not None:
        check_integers(max_length=max_length)
        if not 1 <= max_length <= room:
            raise ValueError(f"max_length: expected 1 to {room} positions, got {max_length}")


def check_beam(beam: int, length_penalty: object) -> None:
    """At least one hypothesis is kept, and a longer one is not at a disadvantage.

    A penalty of more than 10 is a slip, and that of a long sentence would be infinite.
    """
    check_sizes(beam=beam)
    check_not_negative(length_penalty=length_penalty)
    if length_penalty > 10:
        raise ValueError(f"length_penalty: expected at most 10, got {length_penalty}")


def check_vocabulary(vocab_size: int, **given: Sized) -> None:
    """Each tokenizer or vocabulary has the ids that the model knows."""
    for name, one in given.items():
        if not isinstance(one, Sized):
            raise TypeError(
                f"{name}: expected one with {vocab_size} tokens, got {type(one).__name__}"
            )
        if len(one) != vocab_size:
            raise ValueError(
                f"{name}: expected {vocab_size} tokens as the model has, got {len(one)}"
            )


def check_lengths(ids: Sequence[Sequence[int]], room: int) -> None:
    """Every sentence, with its EOS, fits into the model's positions."""
    for i, row in enumerate(ids):
        if len(row) > room:
            raise ValueError(
                f"sentences: expected at most {room - 1} tokens, the model's positions less EOS, "
                f"got {len(row) - 1} in sentence {i}"
            )


def check_filter(
    temperature: object, top_k: object, top_p: object, logits: Tensor | None = None
) -> None:
    """What is drawn from: a temperature, and if given, how many tokens and how likely together;
    and logits, (B, V), once they are there."""
    if logits is not None:
        check_floating(logits=logits)
        if logits.dim() != 2:
            raise ValueError(f"logits: expected shape (B, V), got {tuple(logits.shape)}")
    check_not_negative(temperature=temperature)
    if top_k is not None:
        check_numbers(top_k=top_k)
        if not (1 <= top_k < math.inf and top_k == int(top_k)):
            raise ValueError(f"top_k: expected a whole number of at least 1, got {top_k}")
    if top_p is not None:
        check_shares(top_p=top_p)


def check_completion(
    tokens: Tensor, count: int, temperature: object, top_k: object, top_p: object
) -> None:
    """There is a text to go on with, and settings in range."""
    check_tensor(tokens=tokens)
    if tokens.dim() != 2 or tokens.shape[1] == 0:
        raise ValueError(f"tokens: expected shape (B, T), T at least 1, got {tuple(tokens.shape)}")
    check_counts(count=count)
    check_filter(temperature, top_k, top_p)


def check_same_states(states: Sequence[dict[str, Tensor]]) -> None:
    """At least one checkpoint, and all with the same names and shapes."""
    check_list(states=states)
    if not states:
        raise ValueError("states: expected at least one, got none")
    for state in states:
        if not isinstance(state, dict):
            raise TypeError(f"states: expected dicts of tensors, got {type(state).__name__}")
    first, *others = ({name: tuple(x.shape) for name, x in state.items()} for state in states)
    for one in others:
        for name in sorted(one.keys() | first.keys()):
            if (found := one.get(name)) != (known := first.get(name)):
                raise ValueError(f"states: expected shape {known} of {name} in each, got {found}")


def check_ids(tokens: Tensor) -> None:
    """The tokens are integers of shape (B, S)."""
    check_tensor(tokens=tokens)
    if tokens.is_floating_point() or tokens.is_complex() or tokens.dtype == torch.bool:
        raise TypeError(f"tokens: expected integer ids, got {tokens.dtype}")
    if tokens.dim() != 2:
        raise ValueError(f"tokens: expected shape (B, S), got {tuple(tokens.shape)}")


def check_padding(tokens: Tensor, pad: int) -> None:
    """The tokens are integers of shape (B, S), and so is the one that pads."""
    check_ids(tokens)
    check_integers(pad=pad)


def can_be_seen(x: Tensor) -> bool:
    """Whether the entries of a tensor may be looked at.

    They are on the CPU only: elsewhere looking costs time, and where a graph is recorded or
    `torch.func` is at work, it cannot be done.
    """
    wrapped = torch._C._functorch.is_functorch_wrapped_tensor(x)
    return x.device.type == "cpu" and not (wrapped or torch.compiler.is_compiling())


def check_range(
    name: str, ids: object, vocab_size: int, device: torch.device | None = None
) -> None:
    """Integers from 0 to vocab_size - 1, as far as they can be seen; on the device, if any."""
    if not isinstance(ids, Tensor):
        raise TypeError(f"{name}: expected a tensor of ids, got {type(ids).__name__}")
    if ids.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"{name}: expected integer ids, got {ids.dtype}")
    if device is not None and ids.device != device:
        raise ValueError(f"{name}: expected the model's device, {device}, got {ids.device}")
    if can_be_seen(ids) and ids.numel():
        low, high = (int(limit) for limit in ids.aminmax())
        if low < 0 or high >= vocab_size:
            raise ValueError(
                f"{name}: expected ids from 0 to {vocab_size - 1}, got {low if low < 0 else high}"
            )


def check_tokens(
    name: str, tokens: Tensor, vocab_size: int, device: torch.device | None = None
) -> None:
    """Ids of the vocabulary, of shape (B, length), with at least one column; on the device, if one
    is named."""
    check_range(name, tokens, vocab_size, device)
    if tokens.dim() != 2 or not tokens.shape[1]:
        raise ValueError(f"{name}: expected shape (B, length), got {tuple(tokens.shape)}")


def check_text_ids(
    config: Any, tokens: Tensor, mask: Tensor | None, segments: Tensor | None
) -> None:
    """What a `LanguageModel` reads: ids in its positions, a mask (B, H, T, T), segments of ids."""
    check_tokens("tokens", tokens, config.vocab_size)
    B, T = tokens.shape
    if T > config.max_length:
        raise ValueError(f"tokens: expected at most max_length = {config.max_length}, got {T}")
    if mask is not None:
        check_mask(mask, (B, config.n_heads, T, T))
    if segments is None:
        return
    if not config.n_segments:
        raise ValueError(
            "segments: expected None for a model without segment embeddings, "
            f"got {type(segments).__name__}"
        )
    check_tokens("segments", segments, config.n_segments)
    if segments.shape != tokens.shape:
        raise ValueError(
            f"segments: expected shape {tuple(tokens.shape)}, got {tuple(segments.shape)}"
        )


def check_causal(model: Any) -> None:
    """A `LanguageModel` that is to write has a next token."""
    if not hasattr(getattr(model, "config", None), "causal"):
        raise TypeError(f"model: expected a LanguageModel, got {type(model).__name__}")
    if not model.config.causal:
        raise ValueError("model: expected a causal one; a bidirectional one has no next token")


def check_masking(
    tokens: Tensor, maskable: Tensor, mask_token: int, vocab_size: int, share: object
) -> None:
    """Some of the tokens may be masked, and a share of these is to be."""
    check_ids(tokens)
    check_tensor(maskable=maskable)
    check_counts(mask_token=mask_token)
    check_sizes(vocab_size=vocab_size)
    check_shares(share=share)
    if maskable.dtype != torch.bool:
        raise TypeError(f"maskable: expected a boolean tensor, got {maskable.dtype}")
    if maskable.shape != tokens.shape:
        raise ValueError(
            f"maskable: expected shape {tuple(tokens.shape)}, got {tuple(maskable.shape)}"
        )


def check_angles(places: Tensor, d_k: int, theta: object) -> None:
    """The places of one text, (T), pairs of entries to turn, and a base."""
    check_tensor(places=places)
    if places.dim() != 1:
        raise ValueError(f"places: expected shape (T,), got {tuple(places.shape)}")
    check_even(d_k=d_k)
    check_positive(theta=theta)


def check_sight(queries: Tensor, keys: Tensor, window: int | None, sinks: int) -> None:
    """The places of queries, (T), and keys, (S), a window of at least 1, if any, and its sinks."""
    check_tensor(queries=queries, keys=keys)
    for name, places in (("queries", queries), ("keys", keys)):
        if places.dim() != 1:
            raise ValueError(f"{name}: expected their places, one axis, got {tuple(places.shape)}")
    if window is not None:
        check_sizes(window=window)
    check_counts(sinks=sinks)


def check_groups(n_heads: int, n_groups: int) -> None:
    """n_heads can be cut into n_groups equal groups."""
    check_sizes(n_heads=n_heads, n_groups=n_groups)
    if n_heads % n_groups:
        raise ValueError(f"n_groups: expected a divisor of n_heads = {n_heads}, got {n_groups}")


def check_parsing(
    vocab_size: int, vocabulary: Sized, sentences: Sequence, batch: int, longest: int
) -> None:
    """The model's own vocabulary, and sentences of 1 to `longest` words, none of them empty."""
    check_vocabulary(vocab_size, vocabulary=vocabulary)
    check_several(sentences=sentences)
    check_list(sentences=sentences)
    check_sizes(batch=batch)
    for i, words in enumerate(sentences):
        if isinstance(words, str) or not isinstance(words, Sized):
            told = "a string" if isinstance(words, str) else type(words).__name__
            raise TypeError(f"sentences: expected lists of words, got {told} in place {i}")
        if not len(words):
            raise ValueError(f"sentences: expected words in each, got none in place {i}")
        if len(words) > longest:
            raise ValueError(
                f"sentences: expected at most {longest} words, for whose tree the model has "
                f"positions, got {len(words)} in place {i}"
            )
        if other := [word for word in words if not (isinstance(word, str) and word)]:
            raise ValueError(f"sentences: expected words in each, got {other[0]!r} in place {i}")


def check_tree(*trees: object) -> None:
    """Each is a tree, and not its text."""
    for tree in trees:
        if isinstance(tree, str):
            raise TypeError("tree: expected a Tree, got a string: read it with `read_tree`")
        if not hasattr(tree, "inside"):
            raise TypeError(f"tree: expected a Tree, got {type(tree).__name__}")


def check_trees(true: Sequence, given: Sequence) -> None:
    """There is a tree, or None, for each true one, and over as many words."""
    check_list(true=true, given=given)
    check_tree(*true, *(tree for tree in given if tree is not None))
    if len(true) != len(given):
        raise ValueError(f"given: expected {len(true)} trees as in true, got {len(given)}")
    for i, (a, b) in enumerate(zip(true, given, strict=True)):
        if b is not None and len(b.leaves) != len(a.leaves):
            raise ValueError(
                f"given: expected {len(a.leaves)} words in tree {i}, got {len(b.leaves)}"
            )


def check_graph(tensor: Tensor) -> None:
    """The tensor knows the operations that it comes from."""
    check_tensor(tensor=tensor)
    if tensor.grad_fn is None:
        raise ValueError("tensor: expected one with a graph (requires_grad), got one without")


def check_ring(vectors: Sequence[Tensor]) -> None:
    """At least one vector, and all of one length."""
    for v in vectors:
        check_tensor(vectors=v)
    if not len(vectors) or len({v.shape for v in vectors}) > 1 or vectors[0].dim() != 1:
        raise ValueError(
            "vectors: expected one of shape (P,) for each process, "
            f"got shapes {[tuple(v.shape) for v in vectors]}"
        )


def check_stage(n: int, stage: int) -> None:
    """At least one process, and a stage of ZeRO."""
    check_integers(n=n, stage=stage)
    if n < 1 or stage not in (0, 1, 2, 3):
        raise ValueError(f"n and stage: expected n >= 1 and a stage from 0 to 3, got {n}, {stage}")


def check_projection(
    config: Any, device: Any, n: int, steps: object, tokens: object, length: object,
    utilisation: object, loading: object,
) -> None:  # fmt: skip
    """At least one device, text to train on, and hosts that send it as fast as one likes."""
    if not hasattr(config, "d_model"):
        raise TypeError(f"config: expected a TransformerConfig, got {type(config).__name__}")
    if not hasattr(device, "flops"):
        raise TypeError(f"device: expected a Device, got {type(device).__name__}")
    check_sizes(n=n)
    check_not_negative(steps=steps)
    check_positive(tokens=tokens, length=length)
    check_shares(utilisation=utilisation)
    check_numbers(loading=loading)
    if not loading > 0:
        raise ValueError(f"loading: expected tokens a second above 0, got {loading}")


def check_machines(n: int, per_machine: int) -> None:
    """n devices are one machine or a part of it, or several that are full."""
    check_integers(n=n)
    if n < 1 or n % min(n, per_machine):
        raise ValueError(f"n: expected whole machines of {per_machine} devices, got {n}")
