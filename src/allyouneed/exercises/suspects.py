"""Exercises that ask for a test: it is put to suspects, of which some are right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def said_of(test: Callable, suspect: Any, right: bool) -> Any:
    """What a reader's test says of one suspect: an error is a no, if the suspect is wrong, and to
    return nothing a yes."""
    try:
        said = test(suspect)
    except AssertionError:
        return False
    except Exception:
        if right:
            raise
        return False
    return True if said is None else said


def verdicts_on(suspects: dict[str, Any]) -> Callable[[Callable], dict[str, Any]]:
    """What a reader's test says of each suspect. The names of the right ones begin with "right".

    An error with a wrong suspect says False. Where a test ever asserts, to return nothing is True.
    """

    def verdicts(test: Callable) -> dict[str, Any]:
        said, silence = {}, None
        for name, suspect in suspects.items():
            try:
                said[name] = test(suspect)
            except AssertionError:
                said[name], silence = False, True
            except Exception:
                if name.startswith("right"):
                    raise
                said[name] = False
        return {name: silence if word is None else bool(word) for name, word in said.items()}

    return verdicts
