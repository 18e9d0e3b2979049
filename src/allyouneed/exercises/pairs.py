"""Slips of an answer by hand, alone and two at a time: each changes one step of the way."""

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
    """What the slips make of `way`, alone and in pairs that change different steps.

    What is `known` already, the right answer among it, is left out. An answer that several pairs
    give has all their names: nobody can tell which it was.
    """
    found: dict[int, list[str]] = {}  # the names, by the place in `values`
    whys: dict[int, list[str]] = {}
    values = [*known]
    alone = set(range(len(known)))  # the places of what is known, or is one slip's
    for few in (*((slip,) for slip in slips), *combinations(slips, 2)):
        changes = [name for _, change, _ in few for name in change]
        if len({*changes}) < len(changes):
            continue
        value = way(**{name: step for _, change, _ in few for name, step in change.items()})
        twin = next((i for i, other in enumerate(values) if near(value, other, rtol, atol)), None)
        if twin in alone and (twin not in found or len(few) == 2):
            continue  # it is known, or one slip is enough for it
        if twin is None:
            twin = len(values)
            values.append(value)
            found[twin], whys[twin] = [], []
            if len(few) == 1:
                alone.add(twin)
        found[twin].append(", and ".join(name for name, _, _ in few))
        whys[twin] += [why for _, _, why in few if why not in whys[twin]]
    return [Mistake("; or ".join(found[i]), values[i], " ".join(whys[i])) for i in found]


def near(a: list[float], b: list[float], rtol: float, atol: float) -> bool:
    """Whether one may be taken for the other."""
    return len(a) == len(b) and all(
        abs(x - y) <= atol + rtol * max(abs(x), abs(y)) for x, y in zip(a, b, strict=True)
    )
