"""Exercises that ask for a test: it is put to suspects, of which some are right."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .compare import array, kind, same, show
from .core import Case, Family, Invariant, Naming

FEW = 3  # suspects that are called by their names


SILENT, ASSERTED = "nothing returned", "an assert that failed"
RAISED = np.bool_(False)  # a no, and no word of the test's own, which would be a bool of Python's
NO_YES = "`return True` is missing"
NO_NO = "`return False` is missing"
NO_WORD = "a `return` is missing"
HALF_SAID = {
    NO_YES: "Your test returns False where it finds a mistake, and nothing, None, where it finds "
    "none. Does it end without `return True`?",
    NO_NO: "Your test returns True for what is right, and for some that are wrong nothing, None. "
    "Does it end there without `return False`?",
    NO_WORD: "Your test returns True or False of some, and nothing, None, of others. Let it return "
    "one of the two in every case, or use `assert` alone and return nothing at all.",
}


def plain_word(said: Any) -> bool | None:
    """What a test has returned, as True, False or None. Raises TypeError for all else."""
    numbers = None if said is None else array(said)
    if said is None:
        return None
    if numbers is not None and numbers.size > 1 and numbers.dtype.kind == "b":
        raise TypeError(
            f"expected True or False of your test, got {kind(said)} of them: {makes_one(said)}"
        )
    if numbers is None or numbers.size != 1 or numbers.item() not in (0, 1):
        raise TypeError(f"expected True or False of your test, got {kind(said)}: {show(said)}")
    return bool(numbers.item())


def makes_one(said: Any) -> str:
    """What makes one of several: a list has no method for it."""
    return f"{'`all(...)`' if isinstance(said, list | tuple) else '`.all()`'} makes one"


def said_of(test: Callable, suspect: Any, right: bool) -> bool | str:
    """What a reader's test says of one suspect: True, False, or one of the three above; an error is
    let through if the suspect is right."""
    try:
        said = test(suspect)
    except AssertionError:
        return ASSERTED
    except Exception:
        if right:
            raise
        return RAISED
    return SILENT if (plainly := plain_word(said)) is None else plainly


def said_closely(test: Callable, suspect: Any, right: bool) -> bool | str:
    """As `said_of`; of a right one that passes if its last bits are forgiven, that it asks for
    equal ones."""
    said = said_of(test, suspect, right)
    if right and (said is False or said == ASSERTED):
        aloud = partial(_aloud, test) if said == ASSERTED else test
        if says_yes(aloud, forgiving(suspect)):
            return EXACT
    return said


def silence(said: Iterable[Any]) -> bool | str | None:
    """What it means that a test returns nothing for a suspect, by all that it says of them.

    A test may be written with `assert` alone: where it returns no value for any suspect, and an
    assert fails (or many raise), nothing is a yes. Where it returns values for others, it lacks a
    `return`: the name of that. Where it does neither, nothing is said (a few errors are no words).
    """
    said = [one for one in said if isinstance(one, bool | np.bool_ | str)]
    values = {one for one in said if type(one) is bool}
    if values:
        lacks_no = False not in values and ASSERTED not in said
        return NO_YES if True not in values else NO_NO if lacks_no else NO_WORD
    errors = sum(isinstance(one, np.bool_) for one in said)
    return True if ASSERTED in said or 3 * errors >= len(said) else None


def spoken(said: list[Any]) -> list[Any]:
    """What a test says of all suspects, with the words that stand for what it does not return."""
    known = {SILENT: silence(said), ASSERTED: False}
    said = [known.get(one, one) if isinstance(one, str) else one for one in said]
    return [False if isinstance(one, np.bool_) else one for one in said]


AN_ERROR = "an error taken for a yes"
EXACT = "equal to the last bit"
ONE_IS_ENOUGH = "one right result taken for enough"
Calls = list[tuple]
Lack = Callable[[Calls], bool]
LOOSE, ANY = "a tolerance that is too wide", "one number that fits taken for enough"
SLIPS = {
    LOOSE: "Your test lets errors pass that are far above rounding. Compare with `torch.allclose`, "
    "and a tolerance near 1e-5.",
    ANY: "Your test says yes where all other numbers are wrong. Is it `any`, where `all` is meant?",
}


@dataclass(frozen=True)
class Spoilt:
    """How the output of a right suspect is spoilt to see how a test compares: `loud(out, *given)`
    must not pass, and `quiet`, wrong by far less, neither. `axes`: what its axes are of."""

    axes: tuple[str, ...] = ()
    loud: Callable[..., Tensor] = lambda out, *given: out + 1000
    quiet: Callable[..., Tensor] = lambda out, *given: out + 0.05


class Said(dict):
    """What a test says of each suspect, and which of those it compares that it compares alone."""

    watched: tuple[str, str] | None = None


def verdicts_on(
    suspects: dict[str, Any], lacks: Mapping[str, Lack] | None = None, one_task: bool = True,
    spoilt: Spoilt | None = None,
) -> Callable[[Callable], dict[str, Any] | None]:  # fmt: skip
    """What a reader's test says of each suspect. The names of the right ones begin with "right".

    An error with a wrong suspect says False. What it means to return nothing, `silence` tells.
    `lacks`: what the input of a test may lack, and whether the calls of a right suspect do. Where
    all right ones pass, and of the wrong ones some, the first that holds is all that is said: it
    has one name, whichever they are. So has a test that says the opposite. If the right ones have
    `one_task`, it is said only where those that pass give what is right for this input.
    """
    right = [name for name in suspects if name.startswith("right")]

    def verdicts(test: Callable) -> dict[str, Any] | None:
        heard, calls = {}, []
        for name, suspect in suspects.items():
            handed = noted(suspect, calls) if name == right[0] else suspect
            heard[name] = said_of(test, handed, right=name in right)
        said = dict(zip(heard, spoken([*heard.values()]), strict=True))
        if None in said.values():
            return None
        if half := next((one for one in said.values() if isinstance(one, str)), None):
            return {"said": half}
        if SILENT in heard.values():
            test = partial(_aloud, test)
        passed = sum(one for name, one in said.items() if name not in right)
        if not any(said[name] for name in right) and 2 * passed > len(said) - len(right):
            return {"said": "the opposite"}
        if spoilt and not all(said[name] for name in right):
            spoken_out = partial(_aloud, test) if ASSERTED in heard.values() else test
            if all(says_yes(spoken_out, forgiving(suspects[name])) for name in right):
                return {"said": EXACT}
        if not calls or not passed or not all(said[name] for name in right):
            return said
        if passed < len(said) - len(right) and says_yes(test, lambda *given, **named: None):
            return {"said": AN_ERROR}
        refused = [one for name, one in suspects.items() if not said[name]]
        if refused and all(
            says_yes(test, changing_over(*two))
            for one in refused[:2]
            for two in ((one, suspects[right[0]]), (suspects[right[0]], one))
        ):
            return {"said": ONE_IS_ENOUGH}
        slip = _slip(test, suspects[right[0]], spoilt) if spoilt else None
        name = next((name for name, lack in (lacks or {}).items() if lack(calls)), None)
        unseen = (suspects[name] for name, one in said.items() if one and name not in right)
        if one_task:
            explained = all(_does_the_same(one, suspects[right[0]], calls) for one in unseen)
        else:
            explained = passed < len(said) - len(right)
        if name and explained:
            return {"input": name}
        if slip:
            return {"slip": slip}
        if spoilt and passed < len(said) - len(right):
            said = Said(said)
            said.watched = _watched(test, suspects[right[0]], calls[0], spoilt)
        return said

    return verdicts


def _aloud(test: Callable, suspect: Any) -> Any:
    """What a test with `assert` alone says, with its yes in words."""
    return True if (said := test(suspect)) is None else said


def _slip(test: Callable, right: Callable, spoilt: Spoilt) -> str | None:
    """The name of how a test compares, if it says yes to what differs from the right one."""

    def mixed(place: int) -> Callable:
        """One number of what is right, and all others wrong."""

        def mixture(*given: Any) -> Tensor:
            out = right(*map(_kept, given))
            wrong = spoilt.loud(out, *given).to(out.dtype).contiguous()
            wrong.view(-1)[place] = out.reshape(-1)[place]
            return wrong

        return mixture

    def altered(change: Callable) -> Callable:
        return lambda *given: change(right(*map(_kept, given)), *given)

    if says_yes(test, altered(spoilt.loud)):
        return None  # it does not look at the numbers
    if says_yes(test, altered(spoilt.quiet)):
        return LOOSE
    if says_yes(test, mixed(0)) and says_yes(test, mixed(-1)):
        return ANY
    return None


def _watched(
    test: Callable, right: Callable, call: tuple, spoilt: Spoilt
) -> tuple[str, str] | None:
    """Which slice of an axis alone a test compares, and why that is not enough."""
    shape = right(*map(_kept, call)).shape
    for axis, of in enumerate(spoilt.axes):
        alone = []
        for place, words in ((0, "first"), (-1, "last")):

            def partly(*given: Any, axis: int = axis, place: int = place) -> Tensor:
                out = right(*map(_kept, given))
                wrong = spoilt.loud(out, *given).to(out.dtype).contiguous()
                wrong.select(axis, place).copy_(out.select(axis, place))
                return wrong

            alone += [words] * (shape[axis] > 1 and says_yes(test, partly))
        if len(alone) == 2:
            return f"one {of} that fits taken for enough", "Is it `any`, where `all` is meant?"
        if alone:
            why = "What is wrong with the others is not seen then: compare all of them."
            return f"only the {alone[0]} {of} compared", why
    return None


class _Rounded(Tensor):
    """Numbers that are equal to others if they differ by no more than rounding."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", "").strip("_")
        if name in ("any", "all"):
            args = (args[0].as_subclass(Tensor).double().abs() > 1e-5, *args[1:])
        if name not in ("equal", "eq", "ne") or len(args) < 2:
            return super().__torch_function__(func, types, args, kwargs)
        one, other = (
            (a.as_subclass(Tensor) if isinstance(a, Tensor) else torch.as_tensor(a)).double()
            for a in args[:2]
        )
        if name == "equal":
            return one.shape == other.shape and torch.allclose(one, other, atol=1e-5)
        near = torch.isclose(*torch.broadcast_tensors(one, other), atol=1e-5)
        return near if name == "eq" else ~near


def forgiving(suspect: Callable) -> Callable:
    """The suspect, whose numbers pass where a test asks for equal ones, if they are near."""
    return lambda *given, **named: suspect(*given, **named).as_subclass(_Rounded)


def says_yes(test: Callable, suspect: Callable) -> bool:
    try:
        return plain_word(test(suspect)) is True
    except Exception:
        return False


def changing_over(first: Callable, then: Callable) -> Callable:
    """A suspect that does as the one at its first call, and as the other from then on."""
    todo = [first]
    return lambda *given, **named: (todo.pop() if todo else then)(*given, **named)


def _does_the_same(one: Callable, other: Callable, calls: Calls) -> bool:
    try:
        return all(
            same(one(*map(_kept, call)), other(*map(_kept, call)), 1e-3, 1e-4) for call in calls
        )
    except Exception:
        return False


def noted(suspect: Callable, calls: Calls) -> Callable:
    """The suspect, which keeps what it is called with."""

    def called(*arguments: Any, **named: Any) -> Any:
        given = (*arguments, *named.values())
        calls.append(tuple(map(_kept, given)))
        return suspect(*arguments, **named)

    called.__wrapped__ = suspect  # type: ignore[attr-defined]
    return called


def _kept(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().clone()
    return [*map(_kept, value)] if isinstance(value, list | tuple) else value


def each(lack: Callable[..., bool]) -> Lack:
    """That the arguments of every call lack something."""

    def lacks(calls: Calls) -> bool:
        try:
            return all(lack(*arguments) for arguments in calls)
        except Exception:  # of another kind than ours
            return False

    return lacks


def judged(right: Sequence[str], wrong: Mapping[str, str], refused: str) -> Naming:
    """A name for every way to misjudge the suspects, and what there is to see in them.

    `refused`: why a right one passes.
    """

    def named(
        cases: Sequence[Case], got: Sequence[Any], want: Sequence[Any]
    ) -> tuple[str, str] | None:
        said = (
            got[0]
            if isinstance(got[0], dict)
            else {c[0]: g for c, g in zip(cases, got, strict=True)}
        )
        words = [one for one in said.values() if isinstance(one, str)]
        if half := next((one for one in words if one in HALF_SAID), None):
            return half, HALF_SAID[half]
        refused_for = {said.get(name) for name in right} - {True}
        if said.get("said") == AN_ERROR:
            return AN_ERROR, (
                "Your test says yes to a function that returns nothing. What raises an error is "
                "not right: return False there, or let it raise."
            )
        if said.get("said") == EXACT or refused_for == {EXACT}:
            return EXACT, (
                "Sums that are taken in another order differ in their last bits, and are as right. "
                "Compare with `torch.allclose`."
            )
        if said.get("slip") in SLIPS:
            return said["slip"], SLIPS[said["slip"]]
        if isinstance(got[0], Said) and got[0].watched:
            return got[0].watched
        if said.get("said") == ONE_IS_ENOUGH:
            return ONE_IS_ENOUGH, (
                "Your test says yes to a function that is right at its first call and wrong from "
                "then on, and to one that is wrong first and then right. All results have to be "
                "right: `all`, not `any`."
            )
        missed = [name for name in right if said.get(name) is False]
        passed = [name for name in wrong if said.get(name) is True]
        if not missed and not passed:  # something is said that is no yes and no no
            return None
        if missed and passed:
            if len(missed) == len(right) and 2 * len(passed) > len(wrong):
                return "yes and no exchanged", "True is for what is right, False for what is wrong."
            if len(missed) < len(right):
                name = f"{listed(missed[:1])} refused, and {listed(passed[:1])} not found"
                return name, f"{refused} {wrong[passed[0]]}"
            if len(passed) > FEW:
                return None
            name = f"{listed(passed)} taken for right, and what is right refused"
            return name, f"{wrong[passed[0]]} What do you compare with?"
        if missed:
            return f"{listed(missed)} refused", refused
        others = f" Not found, either: {listed(passed[1:])}." if passed[1:] else ""
        return f"{listed(passed[:1])} not found", wrong[passed[0]] + others

    return named


def moved(right: Callable, more: float) -> tuple[str, Callable, str]:
    """A suspect that gives a little more than what is right, with its name and how it is found:
    the first to be named of those that a wide tolerance lets pass."""
    return (
        f"what is right, and {more} more",
        lambda *given: right(*given) + more,
        f"Compare all numbers with what is right, and let rounding pass alone: {more} is far more.",
    )


def listed(these: Sequence[str]) -> str:
    """Some names in quotes, the first few of them."""
    some = ", ".join(f'"{name}"' for name in these[:FEW])
    return some + f" and {len(these) - FEW} more" * (len(these) > FEW)


def rules(
    right: Iterable[str],
    wrong: Mapping[str, str],
    refused: str = "It gives what the task asks for, up to rounding. Does your test ask for more?",
) -> Family:
    """For each suspect, that a test judges it as it should: said where no mistake is known.

    `wrong`: name: what it does, and on which input that shows. `refused`: why a right one passes.
    """
    right = list(right)

    def judges(name: str, truth: bool) -> Callable[..., bool]:
        def holds(said: Any, *case: Any) -> bool:
            if isinstance(said, dict):
                return bool(said.get(name, truth)) == truth
            return case != (name,) or bool(said) == truth

        return holds

    accepted = [
        Invariant(
            f'what is right passes, and your test refuses one: "{name}"',
            judges(name, True),
            refused,
        )
        for name in right
    ]
    passed = [
        Invariant(f'what is wrong is found, and your test lets one pass: "{name}"',
                  judges(name, False), why)
        for name, why in wrong.items()
    ]  # fmt: skip
    return Family(judged(right, wrong, refused), accepted + passed)
