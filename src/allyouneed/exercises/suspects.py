"""Exercises that ask for a test: it is put to suspects, of which some are right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .core import Case, Family, Invariant, Naming

FEW = 3  # suspects that are called by their names


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


def judged(right: Sequence[str], wrong: Mapping[str, str]) -> Naming:
    """A name for every way to misjudge the suspects, and what there is to see in them."""

    def named(
        cases: Sequence[Case], got: Sequence[Any], want: Sequence[Any]
    ) -> tuple[str, str] | None:
        said = (
            got[0]
            if isinstance(got[0], dict)
            else {c[0]: g for c, g in zip(cases, got, strict=True)}
        )
        refused = [name for name in right if said[name] is False]
        passed = [name for name in wrong if said[name] is True]
        if not refused and not passed:  # something is said that is no yes and no no
            return None
        if refused and passed:
            if len(refused) < len(right) or len(passed) > FEW:
                return None
            name = f"{listed(passed)} taken for right, and what is right refused"
            return name, f"{wrong[passed[0]]} What do you compare with?"
        if refused:
            more = "It gives what the task asks for, up to rounding. Does your test ask for more?"
            return f"{listed(refused)} refused", more
        others = f" Not found, either: {listed(passed[1:])}." if passed[1:] else ""
        return f"{listed(passed[:1])} not found", wrong[passed[0]] + others

    return named


def listed(these: Sequence[str]) -> str:
    """Some names in quotes, the first few of them."""
    some = ", ".join(f'"{name}"' for name in these[:FEW])
    return some + f" and {len(these) - FEW} more" * (len(these) > FEW)


def rules(right: Iterable[str], wrong: Mapping[str, str]) -> Family:
    """For each suspect, that a test judges it as it should: said where no mistake is known.

    `wrong`: name: what it does, and on which input that shows.
    """
    right = list(right)

    def judges(name: str, truth: bool) -> Callable[..., bool]:
        def holds(said: Any, *case: Any) -> bool:
            if isinstance(said, dict):
                return bool(said[name]) == truth
            return case != (name,) or bool(said) == truth

        return holds

    refused = [
        Invariant(
            f'what is right passes, and your test refuses one: "{name}"',
            judges(name, True),
            "It gives what the task asks for, up to rounding. Does your test ask for more?",
        )
        for name in right
    ]
    passed = [
        Invariant(f'what is wrong is found, and your test lets one pass: "{name}"',
                  judges(name, False), why)
        for name, why in wrong.items()
    ]  # fmt: skip
    return Family(judged(right, wrong), refused + passed)
