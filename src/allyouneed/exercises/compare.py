"""Are two answers the same? Tensors, arrays and lists of numbers count as one thing here."""

from __future__ import annotations

import math
from collections.abc import Callable, ItemsView, Iterator, KeysView, ValuesView
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch import Tensor

NUMBERS = "biufc"  # numpy's kinds of numeric dtype
PLAIN = {bool, int, float, complex, str, bytes, type(None)}
INERT = *PLAIN, Tensor, np.ndarray, torch.nn.Parameter
MANY = 10_000  # items, beyond which a comparison may take its time
SUMMED = 1e-9  # how far, relatively, two orders of adding may part sums of the same numbers
Outline = tuple[tuple[int, ...], complex, float] | list["Outline"] | dict[Any, "Outline"] | None


def plain(value: Any, whole: bool = False) -> Any:
    """The value with lists for whatever else gives one item after another, and with Python's own
    numbers for fractions and decimals; if `whole`, also for floats that are whole."""
    if isinstance(value, Fraction):
        value = int(value) if value.denominator == 1 else float(value)
    if isinstance(value, Decimal):
        is_whole = value.is_finite() and value == value.to_integral_value()
        value = int(value) if is_whole else float(value)
    if isinstance(value, Iterator | KeysView | ValuesView | ItemsView | range):
        value = list(value)
    if whole and isinstance(value, Tensor | np.ndarray | np.generic):
        value = value.tolist()
    if whole and isinstance(value, float) and value.is_integer():
        return int(value)
    if type(value) in (list, tuple):
        return type(value)(plain(item, whole) for item in value)
    return value


def inert(value: Any) -> bool:
    """Whether a value is small and of Python's, NumPy's and PyTorch's own types through and
    through, so that to compare it runs no code of a reader's and takes no time."""
    if type(value) is dict:
        return inert(list(value)) and inert(list(value.values()))
    if type(value) in (list, tuple, set, frozenset):
        return len(value) < MANY and (set(map(type, value)) <= PLAIN or all(map(inert, value)))
    if isinstance(value, np.generic):
        return type(value).__module__ == "numpy"
    if type(value) is np.ndarray and value.dtype.kind not in NUMBERS:
        return False
    return type(value) in INERT and getattr(value, "nbytes", 0) < 2**24


def array(value: Any) -> np.ndarray | None:
    """The value as an array of numbers, or None if it is something else (or ragged)."""
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        value = (value.double() if value.is_floating_point() else value).resolve_conj().numpy()
    if isinstance(value, list | tuple):
        if not value or any(isinstance(item, str | dict | set) for item in value):
            return None
        if set(map(type, value)) <= {int, float} and (quick := np.array(value)).dtype.kind in "if":
            return quick
        items = [array(item) for item in value]
        if any(item is None for item in items) or len({item.shape for item in items}) > 1:
            return None
        if len({item.dtype.kind == "b" for item in items}) > 1:
            return None
        value = np.stack(items)
    if isinstance(value, bool | int | float | complex | np.generic):
        value = np.asarray(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in NUMBERS:
        return value
    return None


def outline(value: Any) -> Outline:
    """Of numbers their shape, their sum and the sum of their magnitudes; of other lists and of
    dicts, the outline of each item; else None. By it most values that differ are told apart at
    once."""
    if not inert(value):
        return None
    if isinstance(value, dict):
        return {key: outline(item) for key, item in value.items()}
    numbers = array(value)
    if numbers is None:
        return [outline(item) for item in value] if isinstance(value, list | tuple) else None
    if grain(value):
        return None
    numbers = numbers.astype(complex if numbers.dtype.kind == "c" else float)
    with np.errstate(all="ignore"):
        total, size = numbers.sum().item(), np.abs(numbers).sum().item()
    return (numbers.shape, total, size) if math.isfinite(size) else None


def apart(a: Outline, b: Outline, rtol: float, atol: float) -> bool:
    """Whether values of these outlines cannot be the same, whichever of the two is expected: their
    sums differ by more than all their numbers may together. False says nothing."""
    if a is None or b is None or type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() != b.keys() or any(apart(a[key], b[key], rtol, atol) for key in a)
    if isinstance(a, list):
        return len(a) != len(b) or any(apart(*two, rtol, atol) for two in zip(a, b, strict=True))
    numbers = math.prod(a[0])
    if a[0] != b[0] and (numbers != 1 or math.prod(b[0]) != 1):
        return True
    return abs(a[1] - b[1]) > (rtol + SUMMED) * max(a[2], b[2]) + atol * numbers


def has_nan(value: Any) -> bool:
    """Whether a value is NaN somewhere."""
    numbers = array(value)
    if numbers is None:
        return isinstance(value, list | tuple) and any(map(has_nan, value))
    return numbers.dtype.kind in "fc" and bool(np.isnan(numbers).any())


def kind(value: Any) -> str:
    """What a value is, in words: "a tensor of shape (2, 3)", "a list of 3", "a string"."""
    if isinstance(value, Tensor | np.ndarray) and value.ndim:
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, bool | np.bool_):
        return "True or False"
    if isinstance(value, int | float | np.number | Tensor | np.ndarray):
        return "a number"
    if isinstance(value, str):
        return "a string"
    if isinstance(value, dict):
        return f"a dict of {len(value)}"
    if isinstance(value, list | tuple | set | frozenset):
        name = "set" if isinstance(value, set | frozenset) else type(value).__name__
        return f"a {name} of {len(value)}"
    if value is None:
        return "None"
    if isinstance(value, type):
        return f"the class {value.__name__} itself"
    if isinstance(value, torch.nn.Module):
        return "a module"
    if callable(value):
        return "a function"
    return f"an object of type {type(value).__name__}"


def parting(
    got: Any, want: Any, rtol: float, atol: float, place: str = "", tell: bool = True
) -> str | None:
    """Where two values part, in words, or None where they are the same.

    Without `tell`, the words say what kind of value was expected, but no value itself.
    """

    def values(got: Any, want: Any, place: str) -> str:
        return f"{at(place)}got {show(got)}" + f", expected {show(want)}" * tell

    numbers = array(want)
    rows = (list, tuple)
    ragged = isinstance(got, rows) and isinstance(want, rows) and array(got) is None
    if numbers is not None and not ragged:  # of what is ragged, each part is looked at
        return _parting_numbers(got, numbers, want, rtol, atol, place, values, tell)
    if isinstance(want, str):
        same = isinstance(got, str) and (got == want or not place and got.strip() == want.strip())
        return None if same else values(got, want, place)
    if isinstance(want, dict):
        if not isinstance(got, dict):
            return f"{at(place)}got {kind(got)}, expected {kind(want)}"
        missing = [key for key in want if key not in got]
        extra = [key for key in got if key not in want]
        if missing or extra:
            what, key = ("is missing", missing[0]) if missing else ("should not be there", extra[0])
            return f"{at(place)}the key {show(key)} {what}"
        parts = (parting(got[k], want[k], rtol, atol, f"{place}[{k!r}]", tell) for k in want)
        return next(filter(None, parts), None)
    if isinstance(want, list | tuple):
        if isinstance(got, Tensor | np.ndarray) and got.ndim:
            got = got.tolist()
        if not isinstance(got, list | tuple):
            return f"{at(place)}got {kind(got)}, expected {kind(want)}"
        for i, (a, b) in enumerate(zip(got, want, strict=False)):
            if part := parting(a, b, rtol, atol, f"{place}[{i}]", tell):
                return part
        if len(got) != len(want):
            return f"{at(place)}got {len(got)} item{'s' * (len(got) != 1)}, expected {len(want)}"
        return None
    if isinstance(want, set | frozenset):
        if isinstance(got, set | frozenset | list | tuple):
            return _parting_sets(set(got), set(want), place, tell)
        return values(got, want, place)
    same = type(got) is type(want) and bool(got == want)
    return None if same else values(got, want, place)


def _parting_sets(got: set, want: set, place: str, tell: bool) -> str | None:
    if got == want:
        return None
    if not tell:
        return f"{at(place)}got {show(got)}"
    parts = (("too much", got - want), ("missing", want - got))
    said = [f"{words}: {', '.join(sorted(map(show, some)))}" for words, some in parts if some]
    return at(place) + "; ".join(said)


def _parting_numbers(
    got: Any, want: np.ndarray, shown: Any, rtol: float, atol: float, place: str,
    values: Callable[[Any, Any, str], str], tell: bool,
) -> str | None:  # fmt: skip
    found = array(got)
    if found is None:
        return f"{at(place)}got {kind(got)}{uneven(got)}, expected {kind(shown)}"
    if want.ndim == 0 and found.size == 1:
        found = found.reshape(())
    if found.shape != want.shape:
        return (
            f"{at(place)}got {kind_of(found)}, expected {kind_of(want)}{other_order(found, want)}"
        )
    if (found.dtype.kind == "b") != (want.dtype.kind == "b"):
        names = {True: "True and False", False: "numbers"}
        kinds = names[found.dtype.kind == "b"], names[want.dtype.kind == "b"]
        return f"{at(place)}got {kinds[0]}, expected {kinds[1]}"
    if tell and want.ndim and want.dtype.kind in "iu" and found.dtype.kind == "f":
        return f"{at(place)}got floating-point numbers, expected whole numbers"
    if want.dtype.kind in "biu" and found.dtype.kind in "biu":  # counted, so never nearly right
        near = found == want
    else:
        if want.dtype.kind in "iu":
            rtol = 0.0
        rtol, atol = rtol + grain(got), atol + grain(got)
        near = np.isclose(found, want, rtol=rtol, atol=atol, equal_nan=True)
    if near.all():
        return None
    first = tuple(int(i) for i in np.argwhere(~near)[0])
    place += f"[{', '.join(map(str, first))}]" if first else ""
    return values(found[first].item(), want[first].item(), place)


def uneven(value: Any) -> str:
    """What keeps rows within rows from being a table of numbers."""
    rows = [value]
    while rows and all(isinstance(row, list | tuple) for row in rows):
        lengths = {len(row) for row in rows}
        if len(lengths) > 1:
            return ", in which rows have different lengths"
        if lengths == {0}:
            return ", in which rows are empty" * (rows != [value])
        rows = [item for row in rows for item in row]
    return ""


def grain(value: Any) -> float:
    """How coarse the numbers of a half-precision answer are; 0 for all finer ones."""
    if isinstance(value, list | tuple):
        return max(map(grain, value), default=0.0)
    if isinstance(value, np.ndarray | np.generic):
        return 4 * float(np.finfo(value.dtype).eps) if value.dtype == np.float16 else 0.0
    coarse = isinstance(value, Tensor) and value.is_floating_point() and value.itemsize <= 2
    return 4 * torch.finfo(value.dtype).eps if coarse else 0.0


def same(got: Any, want: Any, rtol: float, atol: float, by_hand: bool = False) -> bool:
    return parting(got, want, rtol, atol, tell=not by_hand) is None


def alike(got: Any, want: Any) -> bool:
    """Whether a rule about values can be asked: both are numbers of one shape, or neither is; and
    NaN, of which no rule holds, is not in the one alone."""
    a, b = array(got), array(want)
    if a is None or b is None:
        return a is b and kind(got).split(" of")[0] == kind(want).split(" of")[0]
    return a.shape == b.shape and bool(np.isnan(a).any() <= np.isnan(b).any())


def kind_of(a: np.ndarray) -> str:
    return f"shape {a.shape}" if a.ndim else "a single number"


def other_order(found: np.ndarray, want: np.ndarray) -> str:
    if found.ndim == want.ndim and sorted(found.shape) == sorted(want.shape):
        return " (of the same lengths, in another order)"
    return ""


def at(place: str) -> str:
    return f"at {place}: " if place else ""


def show(value: Any, width: int = 200) -> str:
    """A short text of any value; never raises."""
    try:
        if isinstance(value, Tensor | np.ndarray):
            numbers = array(value)
            if numbers is None or numbers.size > 12:
                return f"{kind(value)}, {str(value.dtype).removeprefix('torch.')}"
            value = (numbers if numbers.dtype == bool else numbers.round(4)).tolist()
        if isinstance(value, float):
            return f"{value:.6g}"
        text = repr(value)
    except BaseException:
        return f"an object of type {type(value).__name__}"
    return text if len(text) <= width else f"{text[: width - 4]} ..."
