"""Exercises that ask to mend a function: what is still wrong with it, as rows of a bank."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import combinations
from typing import Any

import torch

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


# What a query sees that may attend to nothing, if its row is opened: which keys, of the scores.
OPENED = (
    ("empty rows opened to all keys, or a large finite number added in place of minus infinity",
     lambda s: torch.ones(s.shape[-2:]).bool(),
     "A query that may attend to nothing then looks at the hidden keys, by their scores as they "
     "are, and should find zeros. What is opened against NaN, or hidden by a finite number, has to "
     "be closed again, in the weights."),
    ("empty rows opened to the first key", lambda s: torch.arange(s.shape[-1]) == 0,
     "A query that may attend to nothing then finds the first value, and should find zeros. What "
     "is opened against NaN has to be closed again, in the weights."),
    ("empty rows opened to the query's own place", lambda s: torch.eye(*s.shape[-2:]).bool(),
     "A query that may attend to nothing then finds the value at its own place, and should find "
     "zeros. What is opened against NaN has to be closed again, in the weights."),
)  # fmt: skip
