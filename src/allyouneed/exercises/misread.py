"""What a wrong answer would be right for: the same input, with one argument changed or two mixed.

Named only if the right answer for the changed input is what came, in every case.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import combinations, permutations
from typing import Any

import torch
from torch import Tensor

Change = Callable[[Any], Any]

NUMBERS: dict[str, Change] = {
    "one more than `{}`": lambda a: a + 1,
    "one less than `{}`": lambda a: a - 1,
    "`{}` doubled": lambda a: 2 * a,
    "half of `{}`": lambda a: a / 2,
    "`{}` squared": lambda a: a * a,
    "the root of `{}`": lambda a: a**0.5,
    "1 less `{}`": lambda a: 1 - a,
    "one over `{}`": lambda a: 1 / a,
    "`{}` with the sign turned": lambda a: -a,
    "0 in place of `{}`": lambda a: a * 0,
    "1 in place of `{}`": lambda a: type(a)(1),
}
ROWS: dict[str, Change] = {
    "only the first of `{}`": lambda a: a[:1],
    "only the last of `{}`": lambda a: a[-1:],
    "all but the first of `{}`": lambda a: a[1:],
    "all but the last of `{}`": lambda a: a[:-1],
    "`{}` in reverse order": lambda a: a.flip(0) if isinstance(a, Tensor) else a[::-1],
    "`{}` sorted": lambda a: a.sort(0).values if isinstance(a, Tensor) else sorted(a),
    "the largest of `{}` alone": lambda a: a.amax(0)[None] if isinstance(a, Tensor) else [max(a)],
    "each of `{}` once": lambda a: a.unique() if isinstance(a, Tensor) else sorted({*a}),
}
TENSORS: dict[str, Change] = {
    "`{}` in reverse order along the last axis": lambda a: a.flip(-1),
    "`{}` shifted by one place": lambda a: a.roll(1, -1),
    "`{}` shifted by one place, backwards": lambda a: a.roll(-1, -1),
    "`{}` transposed": lambda a: a.transpose(-2, -1),
    "`{}` with the sign turned": lambda a: -a,
    "`{}` with True and False exchanged": lambda a: ~a if a.dtype == torch.bool else a,
    "`{}` without signs": torch.abs,
    "`{}` doubled": lambda a: 2 * a,
    "half of `{}`": lambda a: a / 2,
    "the squares of `{}`": lambda a: a * a,
    "zeros in place of `{}`": torch.zeros_like,
    "a softmax of `{}`": lambda a: a.softmax(-1),
    "`{}` with its first row in place of all": lambda a: a[:1].expand_as(a),
    "the smallest of `{}` in place of all": lambda a: a.amin(0, True).expand_as(a),
}
COUNTS: dict[str, Change] = {  # of a tensor of whole numbers
    "one more than `{}`": lambda a: a + 1,
    "one less than `{}`": lambda a: a - 1,
}


SIMPLE = {name: NUMBERS[name] for name in NUMBERS if re.search("than|doubled|in place of", name)}


def changes(
    given: dict[str, Any], simple: bool = False
) -> Iterator[tuple[str, Callable[[dict], dict]]]:
    """The names of all changes that the arguments of a case allow, and what makes them; of a
    number, if `simple`, only those that are thought of at once."""
    for name, value in given.items():
        some: dict[str, Change] = {}
        if isinstance(value, int | float) and not isinstance(value, bool):
            some = SIMPLE if simple else NUMBERS
        elif isinstance(value, Tensor) and value.ndim:
            some = ROWS | TENSORS
            if not (value.is_floating_point() or value.dtype == torch.bool):
                some |= COUNTS
        elif isinstance(value, list):
            some = ROWS
        for words, change in some.items():
            yield words.format(name), _one(name, change)
    rows = [name for name, value in given.items() if isinstance(value, list | Tensor)]
    if len(rows) > 1:
        for words, change in ROWS.items():
            yield words.replace("`{}`", "each argument"), _all(rows, change)
    for one, two in combinations(given, 2):
        if type(given[one]) is type(given[two]):
            yield f"`{one}` and `{two}` exchanged", _copied({one: two, two: one})
            yield f"`{one}` in place of `{two}`", _copied({two: one})
            yield f"`{two}` in place of `{one}`", _copied({one: two})


def _one(name: str, change: Change) -> Callable[[dict], dict]:
    return lambda given: {**given, name: change(given[name])}


def _all(names: list[str], change: Change) -> Callable[[dict], dict]:
    """The change of all rows that are as many as those of the first."""

    def changed(given: dict) -> dict:
        many = len(given[names[0]])
        some = {name: change(given[name]) for name in names if len(given[name]) == many}
        return {**given, **some}

    return changed


def _copied(places: dict[str, str]) -> Callable[[dict], dict]:
    return lambda given: {**given, **{to: given[source] for to, source in places.items()}}


def misread(
    right: Callable[..., Any],
    cases: list[dict[str, Any]],
    fits: Callable[[Any, int], bool],
    bad: list[int],
    simple: bool = False,
) -> str | None:
    """The change of the input with which the right answer is what came, in every case.

    `right` takes the arguments of a case; `fits(value, i)` says whether a value is what came in
    case number i. The cases in `bad`, where the answer is wrong, are tried first.
    `simple`: see `changes`. To a table of True and False the others lead by chance.
    """
    order = [*bad, *(i for i in range(len(cases)) if i not in bad)]
    for words, change in changes(cases[bad[0]], simple):
        try:
            if all(fits(right(**change(cases[i])), i) for i in order):
                return f"what would be right for {words}"
        except Exception:  # no input for the right answer
            continue
    return None


NO = "no size"


def rescaled(
    right: Callable[..., Any],
    cases: list[dict[str, Any]],
    fits: Callable[[Any, int], bool],
    bad: list[int],
) -> str | None:
    """As `misread`, with an argument divided by the root of a size, or multiplied by the root of
    one size over another: whoever divides by the root of a wrong size, or of one too many, gives
    what is right for such an input."""
    order = [*bad[1:], *(i for i in range(len(cases)) if i not in bad)]
    first = cases[bad[0]]

    def gives(name: str, factor: float, i: int) -> bool:
        return fits(right(**{**cases[i], name: cases[i][name] * factor}), i)

    for name, value in first.items():
        if not (isinstance(value, Tensor) and value.is_floating_point() and value.ndim > 1):
            continue
        tried: dict[float, bool] = {}
        for one, two in permutations([NO, *sizes(first)], 2):
            given = [{NO: 1, **sizes(case)} for case in cases]
            factors = [(each[one] / each[two]) ** 0.5 for each in given]
            if (factor := factors[bad[0]]) == 1:
                continue
            if factor not in tried:
                tried[factor] = gives(name, factor, bad[0])
            if tried[factor] and all(gives(name, factors[i], i) for i in order):
                ways = [f"multiplied by the root of {one}"] * (one != NO)
                ways += [f"divided by the root of {two}"] * (two != NO)
                return f"what would be right for `{name}` {' and '.join(ways)}"
    return None


def sizes(given: dict[str, Any]) -> dict[str, int]:
    """The whole numbers above zero and the lengths of axes among the arguments, by their names."""
    found = {}
    for name, value in given.items():
        if isinstance(value, int) and not isinstance(value, bool):
            found[f"`{name}`"] = value
        elif isinstance(value, Tensor):
            found |= {f"the length of axis {i} of `{name}`": n for i, n in enumerate(value.shape)}
    return {name: size for name, size in found.items() if size > 0}
