"""Exercises that ask to mend a function: what is still wrong with it, as rows of a bank."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations
from typing import Any

Row = tuple[str, Any, str]  # name, what is computed, why it is wrong


def some(faults: Iterable[Any]) -> list[tuple]:
    """All choices of at least one fault, the larger ones first."""
    faults = list(faults)
    return [left for n in range(len(faults), 0, -1) for left in combinations(faults, n)]


def changed(faults: dict[str, tuple[Any, str, str]], faulty: Callable[..., Any]) -> list[Row]:
    """`faulty(**changes)` with some arguments wrong; `faults`: argument: (value, name, why)."""
    rows = []
    for left in some(faults):
        values, names, reasons = zip(*(faults[key] for key in left), strict=True)
        name = "nothing mended" if len(left) == len(faults) else " and ".join(names)
        rows.append((name, faulty(**dict(zip(left, values, strict=True))), " ".join(reasons)))
    return rows


def still_there(faults: dict[str, str], faulty: Callable[[tuple], Any]) -> list[Row]:
    """`faulty(left)` with some faults left in; `faults`: name: why."""
    rows = []
    for left in reversed(some(faults)):
        start = "Still there" if len(left) < len(faults) else "All is as it was"
        why = " ".join(faults[name] for name in left)
        rows.append((f"{start}: {'; '.join(left)}", faulty(left), why))
    return rows
