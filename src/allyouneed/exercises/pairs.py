"""Slips two at a time, of an answer by hand or of a function: each changes one step of the way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

from .core import Case, Mistake, Naming

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


def by_place(
    right: Sequence[Any],
    bank: Sequence[Mistake],
    follows: Callable[[int, Sequence[Any]], bool] = lambda i, said: False,
) -> Naming:
    """Names for an answer that has several mistakes, each in a place of its own, of which every one
    stands alone in a row of the bank.

    `follows(i, answers)`: whether what is said in place i is rightly made of what stands before it.
    If that is wrong, it is named, and not what follows from it.
    """

    def is_the_same(a: Any, b: Any) -> bool:
        if isinstance(a, str) or isinstance(b, str):
            return bool(a == b)
        return abs(float(a) - float(b)) < 0.01

    def alone(mistake: Mistake) -> list[int]:
        return [
            i
            for i, (a, b) in enumerate(zip(mistake.wrong, right, strict=True))
            if not is_the_same(a, b)
        ]

    def named(
        cases: Sequence[Case], got: Sequence[Any], want: Sequence[Any]
    ) -> tuple[str, str] | None:
        answers = got[0]
        if not isinstance(answers, list) or len(answers) != len(right):
            return None
        found, derived = [], False
        for i, (one, other) in enumerate(zip(answers, right, strict=True)):
            if is_the_same(one, other):
                continue
            if found and follows(i, answers):
                derived = True
                continue
            fits = (m for m in bank if alone(m) == [i] and is_the_same(m.wrong[i], one))
            if (mistake := next(fits, None)) is None:
                return None
            found.append(mistake)
        if not found:
            return None
        names, reasons = ([getattr(m, each) for m in found] for each in ("name", "why"))
        name = "; ".join(names) + "; what else is wrong follows from it" * derived
        return name, " ".join(dict.fromkeys(reasons))

    return named


def near(a: list[float], b: list[float], rtol: float, atol: float) -> bool:
    """Whether one may be taken for the other."""
    return len(a) == len(b) and all(
        abs(x - y) <= atol + rtol * max(abs(x), abs(y)) for x, y in zip(a, b, strict=True)
    )
