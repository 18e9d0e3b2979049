"""What a wrong answer has to do with the right one: one turn, by which it is made of it.

A turn is named only if it gives exactly what came, in every case in which the answer is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any

import numpy as np
from torch import Tensor

from .compare import array

ENOUGH = 3  # different numbers, from which on they are not alike by chance
MANY = 8  # entries of a table of True and False, or of whole numbers, for the same
Turn = Callable[[np.ndarray], Any]


def softmax(a: np.ndarray) -> np.ndarray:
    weights = np.exp(a - a.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True)


def last(a: np.ndarray, turn: Turn) -> Any:
    return turn(a) if a.ndim and a.size else None


# What is made of what was expected ...
TURNS: dict[str, Turn] = {
    "with the opposite sign": lambda b: -b,
    "taken from 1": lambda b: 1 - b,
    "turned into its reciprocal": lambda b: 1 / b if np.isfinite(b).all() else None,
    "squared": lambda b: b**2,
    "under a root": lambda b: b**0.5,
    "as an exponential": np.exp,
    "as a logarithm": np.log,
    "without its sign": np.abs,
    "rounded to whole numbers": np.round,
    "rounded down to whole numbers": np.floor,
    "rounded to one place": lambda b: np.round(b, 1),
    "rounded to two places": lambda b: np.round(b, 2),
    "rounded to three places": lambda b: np.round(b, 3),
    "with a softmax too many": lambda b: last(b, softmax),
    "in reverse order": lambda b: last(b, lambda b: b[::-1]),
    "in reverse order along the last axis": lambda b: last(b, lambda b: b[..., ::-1]),
    "shifted by one place": lambda b: last(b, lambda b: np.roll(b, 1, -1)),
    "shifted by one place, backwards": lambda b: last(b, lambda b: np.roll(b, -1, -1)),
    "divided by its sum": lambda b: b / b.sum(),
    "without the first": lambda b: last(b, lambda b: b[1:]),
    "without the last": lambda b: last(b, lambda b: b[:-1]),
    "only the first of all": lambda b: b[0] if b.ndim > 1 else None,
    "only the last of all": lambda b: b[-1] if b.ndim > 1 else None,
    "added up over the first axis": lambda b: b.sum(0) if b.ndim > 1 else None,
    "added up over the last axis": lambda b: b.sum(-1) if b.ndim > 1 else None,
    "averaged over the first axis": lambda b: b.mean(0) if b.ndim > 1 else None,
    "averaged over the last axis": lambda b: b.mean(-1) if b.ndim > 1 else None,
    "added up to one number": lambda b: last(b, np.sum),
    "averaged to one number": lambda b: last(b, np.mean),
    "with zero in place of what is below zero": lambda b: np.maximum(b, 0),
    "with zeros below the diagonal": lambda b: np.triu(b) if b.ndim > 1 else None,
    "with zeros above the diagonal": lambda b: np.tril(b) if b.ndim > 1 else None,
    "times its absolute value": lambda b: b * abs(b),
}
# Of these, what a table of True and False may be, too.
MOVES = [
    name for name in TURNS if re.match("in reverse|shifted|without the (first|last)|only the", name)
]
# ... or what would have to be made of the answer.
UNDONE: dict[str, Turn] = {
    "without the softmax": lambda a: last(a, softmax),
    "not divided by its sum": lambda a: last(a, lambda a: a / a.sum(-1, keepdims=True)),
    "not added up over the first axis": lambda a: a.sum(0) if a.ndim > 1 else None,
    "not added up over the last axis": lambda a: a.sum(-1) if a.ndim > 1 else None,
    "not added up to one number": lambda a: last(a, np.sum),
    "several times over": lambda a: (
        a[0] if a.ndim > 1 and len(a) > 1 and (a == a[0]).all() else None
    ),
    "not averaged to one number": lambda a: last(a, np.mean),
    "not averaged over the first axis": lambda a: a.mean(0) if a.ndim > 1 else None,
    "not averaged over the last axis": lambda a: a.mean(-1) if a.ndim > 1 else None,
    "with one too many in front": lambda a: last(a, lambda a: a[1:]),
    "with one too many at the end": lambda a: last(a, lambda a: a[:-1]),
}


def turns(
    got: np.ndarray, want: np.ndarray, arguments: dict[str, Any], rtol: float, atol: float
) -> Iterator[str]:
    """The names of the turns that make what came of what was expected, in one case."""

    def near(a: Any, b: Any) -> bool:
        if a is None or b is None or np.shape(a) != np.shape(b):
            return False
        apart = np.abs(a - b)  # several times as fast as `np.allclose`
        return bool((apart <= atol + rtol * np.abs(b)).all() and np.isfinite(apart).all())

    got, want = (a.astype(float) if a.dtype.kind in "iu" else a for a in (got, want))
    booleans = (got.dtype.kind == "b") + (want.dtype.kind == "b")
    if booleans == 2 and got.shape == want.shape and (got != want).all():
        yield "with True and False exchanged"
    if booleans == 2:
        a, b = got * 1.0, want * 1.0
        yield from [short_axes(a, b)] * (a.shape != b.shape and near(a.squeeze(), b.squeeze()))
        yield from (name for name in MOVES if near(a, TURNS[name](b)))
    if booleans == 1 and near(got * 1.0, want * 1.0):
        yield "with numbers in place of True and False, or the other way round"
    if want.dtype.kind == "b" and booleans == 1 and got.shape == want.shape:
        low = got < -1e3  # minus infinity, or a number that stands for it
        added = ("where it is True and minus infinity where it is False", want), (
            "where it is False and minus infinity where it is True", ~want)  # fmt: skip
        for words, seen in added:
            if ((got == 0) == seen).all() and (low != seen).all():
                yield f"as numbers to be added to scores, 0 {words}"
    if not booleans:
        if got.shape != want.shape and near(got.squeeze(), want.squeeze()):
            yield short_axes(got, want)
        yield from (name for name, turn in TURNS.items() if near(got, turn(want)))
        yield from (name for name, turn in UNDONE.items() if near(turn(got), want))
        yield from factors(got, want, arguments, near)
        for i in range(1, want.ndim - 1):
            yield from [f"in reverse order along axis {i}"] * near(got, np.flip(want, i))
            for name, over in (("added up", np.sum), ("averaged", np.mean)):
                yield from [f"{name} over axis {i}"] * near(got, over(want, axis=i))
        for i in range(want.ndim):
            for name, over in (("added up", np.sum), ("averaged", np.mean)):
                some = over(want, axis=i, keepdims=True)
                yield from [f"{name} over axis {i}, and that axis kept"] * near(got, some)
                same = np.broadcast_to(some, want.shape)
                yield from [f"{name} over axis {i}, the same all along it"] * near(got, same)
        if got.shape == want.shape and want.ndim and len(want) > 1:
            rows = "rows" if want.ndim > 1 else "numbers"
            yield from [f"with its {rows} in another order"] * near(in_order(got), in_order(want))
        for i, axis in ((-1, "the last axis"), (-2, "the last axis but one")):
            if got.ndim == want.ndim >= -i and got.shape[i] < want.shape[i]:
                some = want.take(range(got.shape[i]), i)
                yield from [f"cut short along {axis}"] * near(got, some)
        for i in range(1, want.ndim - 2):
            if got.ndim == want.ndim and got.shape[i] < want.shape[i]:
                some = want.take(range(got.shape[i]), i)
                yield from [f"cut short along axis {i}"] * near(got, some)
        if got.shape != want.shape and got.size == want.size > 0:
            yield from ["with its numbers in another shape"] * near(got.ravel(), want.ravel())
    for i in range(-want.ndim, 0):
        for j in range(i + 1, 0):
            if near(got * 1.0, want.swapaxes(i, j) * 1.0):
                yield f"with the axes {i} and {j} exchanged"


def short_axes(got: np.ndarray, want: np.ndarray) -> str:
    if got.ndim == want.ndim:
        return "with its axes of length 1 in another place"
    return "with axes of length 1 too many or too few"


def in_order(a: np.ndarray) -> np.ndarray:
    """The rows in the order of their numbers."""
    return a[np.lexsort(a.reshape(len(a), -1).T[::-1])] if a.size else a


def unfilled(got: Any, want: Any) -> bool:
    """Whether what came are the right rows, without what fills them up to the longest."""
    fill: set[Any] = set()

    def fits(got: Any, want: Any) -> bool:
        got, want = (a.tolist() if isinstance(a, Tensor | np.ndarray) else a for a in (got, want))
        if not (isinstance(got, list | tuple) and isinstance(want, list | tuple)):
            return False
        if not all(isinstance(row, list | tuple | Tensor | np.ndarray) for row in want):
            fill.update(want[len(got) :])
            return [*got] == [*want[: len(got)]]
        return len(got) == len(want) and all(map(fits, got, want))

    def full(got: Any, want: Any) -> bool:
        """Whether the longest row of each table lacks nothing."""
        table = all(array(row) is not None and array(row).ndim == 1 for row in (*got, *want))
        return max(map(len, got)) == max(map(len, want)) if table else all(map(full, got, want))

    items = (list, tuple, Tensor, np.ndarray)
    table = isinstance(want, items) and any(isinstance(row, items) for row in want)
    return table and fits(got, want) and len(fill) == 1 and full(got, want)


def factors(
    got: np.ndarray, want: np.ndarray, arguments: dict[str, Any], near: Callable[[Any, Any], bool]
) -> Iterator[str]:
    """By which number, or which size of the input, all is multiplied; what is added to all."""
    if got.shape != want.shape or not want.any():
        return
    top = np.abs(want).argmax()
    factor, more = got.flat[top] / want.flat[top], got.flat[top] - want.flat[top]
    if factor and near(got, factor * want):
        base = {
            1.4427: ", as with logarithms to the base 2",
            0.4343: ", as with those to the base 10",
        }
        if (written := f"{factor:.4g}") != "1":  # so near to it, it is no factor
            yield f"{written} times as large{base.get(round(factor.real, 4), '')}"
        yield from by_size(factor, arguments)
    if near(got, want + more):
        yield f"{abs(more):.4g} {'more' if more > 0 else 'less'}" + " everywhere" * bool(want.ndim)
    for name, value in arguments.items():
        other = array(value) if isinstance(value, Tensor | np.ndarray) else None
        if other is not None and other.ndim and other.shape == want.shape:
            yield from [f"with `{name}` added"] * near(got, want + other)
            yield from [f"with `{name}` subtracted"] * near(got, want - other)


def by_size(factor: float, arguments: dict[str, Any]) -> Iterator[str]:
    """Which sizes of the input a factor may be: positive numbers, and the lengths of axes."""
    for name, value in arguments.items():
        named: list[tuple[str, float]] = []
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            named = [(f"`{name}`", value)]
        elif isinstance(value, Tensor | np.ndarray):
            named = [(f"the length of axis {i} of `{name}`", n) for i, n in enumerate(value.shape)]
        elif isinstance(value, list):
            named = [(f"the length of `{name}`", len(value))]
        for words, size in named:
            if size <= 0:
                continue
            for way, power in (("multiplied by", 1), ("divided by", -1)):
                for root, one in (("", size**power), ("the root of ", size ** (power / 2))):
                    yield from [f"{way} {root}{words}"] * bool(abs(factor - one) < 1e-5 * one)


def distinct(values: list[Any], odd: bool = False) -> int:
    """How many different numbers there are; if `odd`, only those that do not come by chance: what
    is no whole number, or a large one."""
    found: set[complex] = set()
    values = [*values]
    for value in values:
        if isinstance(value, list | tuple) and array(value) is None:
            values += value  # of parts in several shapes, the numbers of each
        if (numbers := array(value)) is not None and numbers.dtype.kind in "iuf":
            numbers = numbers[np.isfinite(numbers)]
            numbers = numbers[(numbers % 1 != 0) | (abs(numbers) >= 100)] if odd else numbers
            found |= {*np.unique(numbers.round(4)).tolist()}
    return len(found)


def yes_or_no(value: Any) -> int:
    """How many entries a table of True and False has."""
    numbers = array(value)
    return numbers.size if numbers is not None and numbers.dtype.kind == "b" else 0


def telling(values: list[Any]) -> bool:
    """Whether there are so many numbers, or so many rows, that values which agree in all of them do
    not agree by chance."""
    if distinct(values, odd=True) >= ENOUGH:
        return True
    arrays = [array(value) for value in values]
    return sum(a.size for a in arrays if a is not None) >= MANY


def named_turn(
    got: list[Any], want: list[Any], arguments: list[dict[str, Any]], rtol: float, atol: float
) -> str | None:
    """The name of the one turn that makes what came of what was expected, or of some of its parts,
    in all cases where the two differ; None where there is none, or where it may be by chance."""
    number = len(want[0]) if isinstance(want[0], list | tuple) else 0
    each = (*got, *want)
    name = named_turn_of_whole(got, want, arguments, rtol, atol)
    if name and not (number and re.search(r"axis \d", name)):  # axes are counted in a part
        return name
    if number < 2 or not all(isinstance(a, list | tuple) and len(a) == number for a in each):
        return name
    parts = [[[a[i] for a in side] for side in (got, want)] for i in range(number)]
    if any(array(a) is None for part in parts for side in part for a in side):
        return name
    names = {
        i: named_turn_of_whole(*part, arguments, rtol, atol)
        for i, part in enumerate(parts, 1)
        if not all(alike_arrays(a, b, rtol, atol) for a, b in zip(*part, strict=True))
    }
    for places in permutations(range(number)) if number <= 4 else ():
        moved = (
            alike_arrays(a[i], b[j], rtol, atol)
            for a, b in zip(got, want, strict=True)
            for i, j in enumerate(places)
        )
        if names and all(moved):
            return "the right answer, but with its parts in another order"
    if not names or None in names.values() or len({*names.values()}) > 1:
        return name
    words = " and ".join(f"part {i}" for i in names)
    return str(names[min(names)]).replace("the right answer, but", f"the right answer, but {words}")


def nearly(why: str, within: float = 0.05) -> Callable[..., tuple[str, str] | None]:
    """For a `Family`: names an answer that is near the right one in all cases, and not exact."""

    def named(cases: Any, got: list[Any], want: list[Any]) -> tuple[str, str] | None:
        both = [(array(a), array(b)) for a, b in zip(got, want, strict=True)]
        near = all(
            a is not None and a.shape == b.shape and (abs(a - 1.0 * b) <= within).all()
            for a, b in both
        )
        return ("near in every case, and not exact", why) if near else None

    return named


NAN = (
    "NaN, no number, comes of 0 / 0, of infinity less infinity, of 0 times infinity, and of a root "
    "or a logarithm of what is below 0; and of whatever is computed with it."
)


def nothing_but(got: list[Any]) -> tuple[str, str] | None:
    """That what came is the same number in all places of all cases, or nothing, and why it may."""
    found = [np.zeros(0) if isinstance(v, list | tuple) and not v else array(v) for v in got]
    if len(found) < ENOUGH or any(a is None or a.dtype.kind == "c" for a in found):
        return None
    numbers = np.unique(np.concatenate([a.ravel() for a in found if a is not None]))
    if len(numbers) > 1:
        return None
    one = numbers.item() if len(numbers) else None
    if one is None:
        why = "Is nothing appended, or does a slice or a range end where it begins?"
        return "nothing in it, in every case", why
    if np.isnan(one):
        return "no number (nan), in every case", NAN
    if np.isinf(one):
        why = "It comes of a division by 0, of the logarithm of 0, or of too large a power."
        return "infinite, in every case", why
    written = one if isinstance(one, bool) else f"{one + 0:g}"
    why = "It is the same for all arguments. Is a line missing, or is one of them not used?"
    return f"nothing but {written}, in every case", why


def alike_arrays(a: Any, b: Any, rtol: float, atol: float) -> bool:
    one, two = array(a), array(b)
    assert one is not None and two is not None
    return one.shape == two.shape and np.allclose(one, two, rtol, atol)


def named_turn_of_whole(
    got: list[Any], want: list[Any], arguments: list[dict[str, Any]], rtol: float, atol: float
) -> str | None:
    """The name of the one turn that makes what came of what was expected, in all cases where the
    two differ; None where there is none, or where it may be by chance."""
    differ, rights, elsewhere, names, places = [], [], [], None, 0
    with np.errstate(all="ignore"):
        for x, y, named in zip(got, want, arguments, strict=True):
            a, b = (np.zeros(0) if isinstance(v, list) and not v else array(v) for v in (x, y))
            if a is None or b is None:
                return None
            found = [*turns(a, b, named, rtol, atol)]
            kinds = {a.dtype.kind == "b", b.dtype.kind == "b"}
            if a.shape == b.shape and len(kinds) == 1 and np.allclose(a, b, rtol, atol):
                elsewhere.append(found)
            else:
                differ.append(a)
                rights.append(b)
                places += a.size * ("b" in (a.dtype.kind, b.dtype.kind))
                names = [name for name in found if names is None or name in names]
                if not names:
                    return None
    for found in elsewhere:  # where a size is 1, nothing is multiplied
        always = (" by ", "exchanged")
        names = names and [n for n in names if n in found or not any(w in n for w in always)]
    if distinct(differ) < ENOUGH and places < MANY:
        return None
    if not names or not any(b.size for b in rights):
        return None
    some = f" (in {len(differ)} of {len(got)} cases)"
    return f"the right answer, but {names[0]}" + some * any(names[0] not in f for f in elsewhere)
