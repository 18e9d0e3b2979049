"""How the tests check what signatures say: by beartype, once for each signature.

A function inside a function is made anew in every call, and jaxtyping has it checked anew: more
than half of the time in which a model wrote a translation. The check that was made for the same
signature before is the same check.
"""

from __future__ import annotations

from collections.abc import Callable

from beartype import beartype

known: dict[tuple, Callable] = {}


def checked(function: Callable) -> Callable:
    """What jaxtyping hands over has the signature of a function of ours, and does nothing."""
    if function.__defaults__ or function.__kwdefaults__:
        return beartype(function)
    signature = repr(function.__annotations__)  # jaxtyping makes its types anew, too
    key = function.__code__, function.__module__, function.__qualname__, signature
    if key not in known:
        known[key] = beartype(function)
    return known[key]
