"""Slips two at a time, of an answer by hand or of a function: each changes one step of the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

from .core import Mistake

Slip = tuple[str, dict[str, Any], str]  # its name, what it hands to the way, and why it is wrong


def pairs(
    way: Callable[..., list[float]],
    slips: Sequence[Slip],
    known: Sequence[Any],
    rtol: float,
    atol: float,
) -> list[Mistake]:
    """The mistakes that two of the slips, which change different steps, make of `way`.

    What is `known` already is left out: the right answer, and what each slip makes alone. An answer
    that several pairs give has all their names: nobody can tell which it was.
    """
    found: list[tuple[list[float], list[str], list[str]]] = []  # an answer, its names, the reasons
    for (one, first, why), (two, second, because) in combinations(slips, 2):
        if first.keys() & second.keys():
            continue
        value = way(**first, **second)
        if any(near(value, other, rtol, atol) for other in known):
            continue
        twin = next((each for each in found if near(value, each[0], rtol, atol)), None)
        if twin is None:
            twin = value, [], []
            found.append(twin)
        _, names, reasons = twin
        names.append(f"{one}, and {two}")
        reasons += [each for each in (why, because) if each not in reasons]
    return [
        Mistake("; or ".join(names), value, " ".join(reasons)) for value, names, reasons in found
    ]


def combined(
    make: Callable[..., Any], slips: Sequence[Slip], but: Sequence[tuple[str, str]] = ()
) -> list[tuple[str, Any, str]]:
    """The rows that two of the slips, which change different steps, make of a function: `make`
    builds it, with what a slip hands over.

    `but`: pairs that are left out, as they have a row of their own or do what one slip does.
    """
    return [
        (f"{one}, and {two}", make(**first, **second), " ".join(dict.fromkeys((why, because))))
        for (one, first, why), (two, second, because) in combinations(slips, 2)
        if not first.keys() & second.keys() and not {(one, two), (two, one)} & {*but}
    ]


def near(a: list[float], b: list[float], rtol: float, atol: float) -> bool:
    """Whether one may be taken for the other."""
    return len(a) == len(b) and all(
        abs(x - y) <= atol + rtol * max(abs(x), abs(y)) for x, y in zip(a, b, strict=True)
    )
