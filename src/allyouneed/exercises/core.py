"""The teacher behind the exercises: `check("1.2", answer)` says which mistake an answer makes.

An exercise is data: the right answer, the cases it is tried on, and its known mistakes. What is
right or wrong is decided by comparing what comes out, so that right answers pass in any style.
"""

from __future__ import annotations

import ast
import copy
import inspect
import re
import textwrap
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

from . import diary
from .compare import (
    alike,
    apart,
    array,
    has_nan,
    inert,
    kind,
    kind_of,
    outline,
    parting,
    plain,
    same,
    show,
)  # fmt: skip
from .guard import GIB, MEMORY, Failure, run, surroundings
from .likeness import (
    ENOUGH,
    MANY,
    NAN,
    distinct,
    named_turn,
    nothing_but,
    telling,
    unfilled,
    yes_or_no,
)
from .misread import misread, rescaled

WIDTH = 88
Case = tuple[Any, ...]


@dataclass(frozen=True)
class Mistake:
    """A wrong answer that people really give: its name, what it computes, and why it is wrong."""

    name: str
    wrong: Any  # a function like the reference, or a plain value like it
    why: str
    section: str = ""  # where to look again, if not in the exercise's own section


def mistakes(*rows: tuple[str, Any, str] | tuple[str, Any, str, str]) -> list[Mistake]:
    """A bank as a table, of which each row is (name, wrong, why), or has a section as well."""
    return [Mistake(*row) for row in rows]


@dataclass(frozen=True)
class Invariant:
    """Something that holds for every right answer: `holds(output, *case)`."""

    name: str
    holds: Callable[..., bool]
    why: str


Naming = Callable[[Sequence[Case], Sequence[Any], Sequence[Any]], tuple[str, str] | None]


class Family(list[Invariant]):
    """Rules, and how a wrong answer is named by what it gives in all cases, a whole family of them
    at once: `named(cases, got, want)` returns a name and why that is wrong, or None."""

    def __init__(self, named: Naming, rows: Iterable[Invariant] = ()):
        super().__init__(rows)
        self.named = named


@dataclass(frozen=True)
class Exercise:
    """One exercise.

    `reference`: the right answer, a function of a case's arguments or a plain value.
    `cases`: argument tuples, or a function that makes them; none for a plain value.
    `section`: the heading in the chapter where to look again, or one of the exercise's own hints.
    `probe(answer, *case)`: what to compare, if not `answer(*case)`: a class is built and run there.
    `together(outputs)`: what the outputs of all cases, seen side by side, amount to.
    `canonical(output)`: brings equal answers into equal form (sorting, sets).
    `raised`: rows (pattern, why): what an error comes of here, if the pattern is found in its kind,
    its text and the reader's line, as in "ValueError: not enough values: a, b = c".
    `seconds`: how long one call may take. `parts`: what the parts of an answer that has several are
    called. `known` and `outlines`: what is kept of the outputs of
    known mistakes.
    """

    number: str
    title: str
    section: str
    reference: Any
    cases: Sequence[Case] | Callable[[], Sequence[Case]] = ()
    mistakes: Sequence[Mistake] = ()
    invariants: Sequence[Invariant] = ()
    probe: Callable[..., Any] | None = None
    together: Callable[[list[Any]], list[Any]] | None = None
    canonical: Callable[[Any], Any] | None = None
    raised: Sequence[tuple[str, str]] = ()
    rtol: float = 1e-4
    atol: float = 1e-6
    seconds: float = 10.0
    parts: Sequence[str] = ()
    known: dict[tuple[str | None, int], Any] = field(default_factory=dict, init=False, repr=False)
    outlines: dict[tuple[str, int], Any] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self):
        if not re.fullmatch(r"\d+\.\d+|project\.\w+", self.number):
            raise ValueError(f'number: expected a form like "1.2", got {self.number!r}')
        if callable(self.reference) and not self.all_cases():
            raise ValueError(f"cases: expected at least one for exercise {self.number}, got none")
        names = [mistake.name for mistake in self.mistakes]
        if len(set(names)) < len(names):
            raise ValueError(f"mistakes: expected different names, got {names}")

    def all_cases(self) -> list[Case]:
        """The cases, new each time; a plain value has one, without arguments."""
        if not callable(self.reference):
            return [()]
        return list(self.cases() if callable(self.cases) else self.cases)

    def output(self, answer: Any, case: Case, seed: int = 0) -> Any:
        """What an answer gives for one case, in canonical form, or a `Failure`."""
        whole = not callable(self.reference)  # a number by hand may be 4 or 4.0
        if whole and self.canonical is None and inert(answer):
            return plain(answer, whole)  # nothing of the reader's runs: no guard is needed
        return run(lambda: self.tidy(plain(self.call(answer, case), whole)), self.seconds, seed)

    def tidy(self, value: Any) -> Any:
        """The value in canonical form; one of another kind is compared as it is."""
        if self.canonical is None or value is None:
            return value
        try:
            return self.canonical(value)
        except Exception:
            return value

    def call(self, answer: Any, case: Case) -> Any:
        """What an answer gives for a copy of one case."""
        if not callable(self.reference):
            return answer
        if self.probe:
            return self.probe(answer, *copied(case))
        return answer(*copied(case))

    def known_output(self, mistake: Mistake | None, i: int, case: Case) -> Any:
        """What a known mistake, or the reference, gives for case number i: computed once, kept."""
        name, answer = (mistake.name, mistake.wrong) if mistake else (None, self.reference)
        if (name, i) in self.known:
            return self.known[name, i]
        value = self.output(answer, case)
        if not isinstance(value, Failure):  # it may have been the machine that was slow
            self.known[name, i] = value
        return value

    def known_outline(self, mistake: Mistake, i: int, case: Case) -> Any:
        """The outline of what a known mistake gives for case number i: computed once, kept."""
        key = mistake.name, i
        if key not in self.outlines:
            self.outlines[key] = outline(self.known_output(mistake, i, case))
        return self.outlines[key]

    def agree(self, a: Any, b: Any) -> bool:
        """Whether two outputs are the same: both of one value, or both of one kind of failure."""
        if isinstance(a, Failure) or isinstance(b, Failure):
            return isinstance(a, Failure) and isinstance(b, Failure) and a.kind == b.kind
        by_hand = not callable(self.reference)  # 9.0001 beside whole numbers is near 9
        if inert(a) and inert(b):  # nothing of the reader's runs: no guard is needed
            return same(a, b, self.rtol, self.atol, by_hand)
        return run(lambda: same(a, b, self.rtol, self.atol, by_hand), self.seconds) is True


def copied(case: Case) -> Case:
    """A copy of all that a case holds. Most tensors fill their memory: `clone` copies them twenty
    times as fast as `copy.deepcopy`, which keeps what is special about the others. Most time of
    what is left goes into the empty dicts of modules, unless they are made here."""
    memo = {
        id(each): each.clone()
        for each in case
        if type(each) is Tensor
        and not each.requires_grad
        and each.is_contiguous()
        and each.nbytes == each.untyped_storage().nbytes()
    }
    modules = (part for each in case if isinstance(each, nn.Module) for part in each.modules())
    for kept in (kept for part in modules for kept in vars(part).values()):
        if type(kept) in (dict, set, OrderedDict) and not kept:  # a module has a dozen of them
            memo[id(kept)] = type(kept)()
    return copy.deepcopy(case, memo)


@dataclass(frozen=True)
class Verdict:
    """What `examine` found: "not attempted", "correct" or "wrong", and the reader's message."""

    status: str
    message: str
    mistake: str | None = None  # the known mistake's name
    done: tuple[str, ...] = ()  # the numbers of what is right


def find(number: str | float) -> Exercise:
    """The exercise of that number. Raises KeyError, naming those of its chapter that exist."""
    chapter = str(number).split(".")[0]
    known = {exercise.number: exercise for exercise in exercises(chapter)}
    if str(number) not in known:
        some = list(known) or [f"{chapter}.1" for chapter in chapters()]
        raise KeyError(
            f"expected {'one of' if known else 'such as'} {', '.join(some)}; got {number!r}"
        )
    return known[str(number)]


@cache
def chapters() -> list[str]:
    """The numbers of the chapters that have exercises."""
    files = sorted(Path(__file__).parent.glob("chapter_[0-9][0-9].py"))
    return [str(int(file.stem[-2:])) for file in files]


def exercises(chapter: str) -> list[Exercise]:
    if chapter not in chapters():
        return []
    return import_module(f".chapter_{int(chapter):02d}", __package__).EXERCISES


def check(number: str | float, answer: Any = ..., record: bool = True) -> None:
    """Say whether an answer is right and, if not, which mistake it makes. Raises only Ctrl-C.

    `number`: the exercise, such as "1.2", or 1.2. `answer`: the function, class or value asked for.
    A right answer goes into the reader's diary (see `progress`) unless `record` is False.
    """
    try:
        verdict = examine(number, answer)
    except KeyError as error:
        print(f"check(number, answer): number: {error.args[0]}")
        return
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # ours, not the reader's; still no reason to stop a notebook
        print(f"Exercise {number} could not be checked ({type(error).__name__}); please tell us.")
        return
    print(verdict.message)
    if record and not name_of(answer).endswith("_solution"):
        for right in verdict.done:
            diary.ANSWERS[right] = answer
            diary.write(right)


def examine(number: str | float, answer: Any) -> Verdict:
    """What `check` finds, as a `Verdict`. Raises KeyError for an exercise that does not exist."""
    if str(number).split(".")[0] == "project":
        with surroundings():
            return import_module(".project", __package__).examine(str(number), answer)
    exercise = find(number)
    with surroundings():
        return judge(exercise, answer, f"Exercise {number} ({exercise.title})")


def judge(exercise: Exercise, answer: Any, title: str) -> Verdict:
    """What is to be said of one answer to one exercise."""
    if early := not_tried(exercise, answer, title):
        return early
    cases = exercise.all_cases()
    got = []
    for case in cases:
        got.append(exercise.output(answer, case))
        if isinstance(got[-1], Failure) and got[-1].kind in ("OutOfTime", "OutOfMemory"):
            return wrong(title, *explain_failure(exercise, answer, got[-1], case))
    if got and all(isinstance(g, Failure) and g.stub for g in got):
        return Verdict("not attempted", f"{title}: not attempted yet.")
    got = exercise.together(got) if exercise.together else got
    want = [exercise.known_output(None, i, case) for i, case in enumerate(cases)]
    if broken := next((w for w in want if isinstance(w, Failure)), None):
        raise RuntimeError(f"the reference of {exercise.number} fails: {broken}")
    bad = [i for i in range(len(cases)) if not exercise.agree(got[i], want[i])]
    if not bad:
        return Verdict("correct", f"{title}: correct.", done=(exercise.number,))
    bad.sort(key=lambda i: extent(cases[i]))  # one is shown: the smallest
    return why_wrong(exercise, answer, title, cases, got, want, bad)


def not_tried(exercise: Exercise, answer: Any, title: str) -> Verdict | None:
    """What is to be said of an answer that cannot be tried."""
    if is_blank(answer):
        return Verdict("not attempted", f"{title}: not attempted yet.")
    if callable(exercise.reference) and not callable(answer):
        words = f"expected a function or a class, got {kind(answer)}: {show(answer)}."
        hint = " Hand over the function itself, without calling it."
        return wrong(title, words + hint)
    if inspect.isclass(exercise.reference) and isinstance(answer, nn.Module):
        words = f"expected a class, got an object of the class {type(answer).__name__}."
        return wrong(title, words, "Hand over the class itself, without its arguments.")
    return None


def why_wrong(
    exercise: Exercise, answer: Any, title: str, cases: list[Case], got: list[Any],
    want: list[Any], bad: list[int],
) -> Verdict:  # fmt: skip
    """Why the cases in `bad` came out wrong: a known mistake, what was raised, or what is near."""
    first = bad[0]
    if found := known_mistake(exercise, cases, got):
        section = f'Look again at "{found.section or exercise.section}".'
        return wrong(title, f"{found.name}.", found.why, section, mistake=found.name)
    if callable(exercise.reference) and all(got[i] is None for i in bad):
        some = any(g is not None for g in got)
        what = SOME_NONE if some else NONE_FOUND if searches(answer) else FORGOTTEN
        return wrong(title, what, inputs(exercise, cases[first]))
    failed = next((i for i in bad if isinstance(got[i], Failure)), None)
    if failed is not None:
        return wrong(title, *explain_failure(exercise, answer, got[failed], cases[failed]))
    near = run(lambda: near_mistake(exercise, cases, got, want), exercise.seconds)
    if isinstance(near, tuple):
        section = f'Look again at "{exercise.section}".'
        part = near[1] or shapes(exercise, got, want, bad) + inputs(exercise, cases[first])
        name = by_their_names(near[0], exercise.parts)
        return wrong(title, f"{name}.", part, section, mistake=name)
    if (i := changing(exercise, answer, cases, got, bad)) is not None:
        what = "called twice with the same input, it gives two results."
        why = "Is something drawn at random, or left over from the call before?"
        return wrong(title, what, why, inputs(exercise, cases[i]), mistake=what.removesuffix("."))
    return where_wrong(exercise, title, cases, got, want, bad)


def shapes(exercise: Exercise, got: list[Any], want: list[Any], bad: list[int]) -> str:
    """Two shapes that should be one, in the first case that is wrong, where they differ in all."""
    pairs = [(array(got[i]), array(want[i])) for i in bad]
    as_it_came = not exercise.probe and not exercise.together and exercise.canonical is None
    if not callable(exercise.reference) or not as_it_came:
        return ""
    if any(a is None or b is None or a.shape == b.shape for a, b in pairs):
        return ""
    a, b = (kind_of(each) for each in pairs[0])
    return f"Got {a}, expected {b}.\n"


def changing(
    exercise: Exercise, answer: Any, cases: list[Case], got: list[Any], bad: list[int]
) -> int | None:
    """The number of a case in which an answer gives something else when it is called again, where
    the right one does not."""
    if exercise.together or not callable(exercise.reference):
        return None
    for i in bad[:4]:
        again, right = (
            exercise.output(one, cases[i], seed=1) for one in (answer, exercise.reference)
        )
        if isinstance(again, Failure) or not exercise.agree(
            right, exercise.known_output(None, i, cases[i])
        ):
            return None
        if not exercise.agree(again, got[i]):
            return i
    return None


def where_wrong(
    exercise: Exercise, title: str, cases: list[Case], got: list[Any], want: list[Any],
    bad: list[int],
) -> Verdict:  # fmt: skip
    """The rule that a mistake without a name breaks, or the place where it shows."""
    first = bad[0]
    section = f'The section to read again is "{exercise.section}".'
    if exercise.section.startswith("Hint"):
        section = f'Have a look at "{exercise.section}".'
    none = [i for i in bad if got[i] is None]
    if none and callable(exercise.reference):
        return wrong(title, SOME_NONE, inputs(exercise, cases[none[0]]), section)
    for rule in exercise.invariants:
        broken = (
            i
            for i in bad
            if alike(got[i], want[i]) and not holds(rule, got[i], cases[i], exercise.seconds)
        )
        if (i := next(broken, None)) is not None:
            arguments = inputs(exercise, cases[i])
            return wrong(title, f"broken rule: {rule.name}.", rule.why, arguments, section)
    tell = callable(exercise.reference)  # else the value that was expected is the solution
    as_it_came = not exercise.probe and exercise.canonical in (None, float)
    same = run(lambda: nothing_but(got), exercise.seconds) if tell and as_it_came else None
    if isinstance(same, tuple):
        arguments = inputs(exercise, cases[first])
        return wrong(title, f"{same[0]}.", same[1], arguments, section, mistake=same[0])
    part = run(
        lambda: parting(got[first], want[first], exercise.rtol, exercise.atol, tell=tell),
        exercise.seconds,
    )
    part = part if isinstance(part, str) else f"got {kind(got[first])}, which cannot be compared"
    if got[first] is None and not tell:
        part = "got None, which is no answer yet"
    some, nan = "", NAN * ("got nan" in part)
    if not tell:
        some = numbers_right(got[first], want[first], exercise)
    if len(cases) > 1:
        some = f"It is right in {len(cases) - len(bad)} of {len(cases)} cases."
    return wrong(title, part + ".", nan, some, inputs(exercise, cases[first]), section)


def numbers_right(got: Any, want: Any, exercise: Exercise) -> str:
    """How many numbers of an answer by hand are right, if some are."""
    a, b = array(got), array(want)
    if a is None or b is None or a.shape != b.shape or a.ndim != 1 or {a.dtype, b.dtype} == {bool}:
        return ""
    rtol = 0.0 if b.dtype.kind in "iu" else exercise.rtol  # whole numbers are counted exactly
    right = int(np.isclose(a.astype(float), b.astype(float), rtol, exercise.atol).sum())
    return f"{right} of the {len(b)} numbers are right." if right > 1 else ""


def known_mistake(exercise: Exercise, cases: list[Case], got: list[Any]) -> Mistake | None:
    """The first mistake of the bank that gives what the answer gives, in every case."""
    if all(isinstance(g, Failure) for g in got):
        return None
    tried = list(enumerate(zip(cases, got, map(outline, got), strict=True)))
    for mistake in exercise.mistakes:
        if not any(
            apart(exercise.known_outline(mistake, i, case), seen, exercise.rtol, exercise.atol)
            for i, (case, _, seen) in tried
        ) and all(
            either_way(exercise, exercise.known_output(mistake, i, case), g)
            for i, (case, g, _) in tried
        ):
            return mistake
    return None


def either_way(exercise: Exercise, a: Any, b: Any) -> bool:
    """Whether two outputs agree: whole numbers or floats, whichever of the two has them."""
    if isinstance(b, set | frozenset):  # it has no order: only what is a set itself is as it is
        return exercise.agree(b, a)
    one_kind = isinstance(a, Tensor) and isinstance(b, Tensor) and a.dtype == b.dtype
    return exercise.agree(a, b) or (not one_kind and exercise.agree(b, a))


FEW_WORDS = 4
FORGOTTEN = "your function returned None. Is a `return` missing?"
NONE_FOUND = "your function returned None. Is a `return` missing, or has its search found nothing?"
SOME_NONE = (
    "in some cases your function returned None. Is a `return` missing there, or has a search found "
    "nothing?"
)
# Of a mistake this may be said of quite another answer: it forgets too much of what came.
BY_CHANCE = (
    "in another order", "cut short", "not added up", "not averaged", "one too many",
    "divided by its sum", "without the softmax", "the same all along it", "to one place",
    "to two places", "to three places",
)  # fmt: skip


def near_mistake(
    exercise: Exercise, cases: list[Case], got: list[Any], want: list[Any]
) -> tuple[str, str] | None:
    """The name of what an answer has to do with the right one or with known mistakes, and why that
    is wrong: it is one turn away from the right one, or from a mistake; it is, where not right, as
    the mistake; it has a mistake in each part; or it is right for another input."""
    family = exercise.invariants
    if isinstance(family, Family) and (member := family.named(cases, got, want)):
        return member
    named = [arguments(exercise, case) for case in cases]
    if turn := named_turn(got, want, named, exercise.rtol, exercise.atol):
        return turn, ""
    if some := part_of_the_other(exercise, got, want):
        return some, ""
    if parts := part_by_part(exercise, cases, got, want):
        return parts
    if not callable(exercise.reference):
        if (flat := unpacked(got[0])) != got[0] and exercise.agree(flat, want[0]):
            return "the right answer, but in lists within the list", ""
        if form := other_form(got[0], want[0]):
            return form, ""
    if word := other_word(exercise, got[0], want[0]):
        return word
    bad = [i for i in range(len(cases)) if not exercise.agree(got[i], want[i])]
    if all(unfilled(got[i], want[i]) for i in bad):
        return "the right rows, but not filled up to one length", ""
    if held := but_for_nan(exercise, cases, got, bad):
        return held
    if not exercise.invariants and (lack := lacking(got[bad[0]], want[bad[0]])):
        return lack, ""
    numbers = distinct([got[i] for i in bad], odd=True)
    places = sum(map(yes_or_no, (got[i] for i in bad))) // MANY
    sure = max(numbers, places) >= ENOUGH
    if exercise.probe or not (sure or min(len(bad), numbers) >= 2):
        return None
    if any(has_nan(got[i]) and not has_nan(want[i]) for i in bad):
        return None  # NaN is made by too many inputs
    for changed in (partial(misread, simple=places > 0), rescaled):
        if swap := changed(
            lambda **case: exercise.output(exercise.reference, tuple(case.values())),
            named,
            lambda value, i: exercise.agree(value, got[i]),
            bad,
        ):
            return swap, ""
    if not (sure and len(bad) >= min(ENOUGH, len(cases))):
        return None  # a few numbers may be alike by chance
    single = [mistake for mistake in exercise.mistakes if ", and " not in mistake.name]
    for mistake in single:  # of two slips one would show in the other cases, too
        if all(exercise.agree(exercise.known_output(mistake, i, cases[i]), got[i]) for i in bad):
            return f"{mistake.name} (in {len(bad)} of {len(cases)} cases)", mistake.why
    for mistake in single:  # with two slips and a turn nearly everything can be made
        known = [exercise.known_output(mistake, i, case) for i, case in enumerate(cases)]
        turn = named_turn(got, known, named, exercise.rtol, exercise.atol)
        by_hand = (" more", " less", " times as large") * (not callable(exercise.reference))
        by_chance = BY_CHANCE + by_hand
        if turn and not any(words in turn for words in (*by_chance, " cases)")):
            more = turn.removeprefix("the right answer, but ")
            result = "" if re.match(r"part \d", more) else "the result "
            return f"{mistake.name}, and {result}{more}", mistake.why
    return None


LOST = (
    "NaN and infinity come of exponentials that are too large, of 0 / 0, and of 0 times infinity."
)
NAN_GIVEN = (
    "Where NaN comes out, the input has it already, and NaN times 0 is NaN: what must not count is "
    "left out by `torch.where` or `masked_fill`, and not by a product."
)


def but_for_nan(
    exercise: Exercise, cases: list[Case], got: list[Any], bad: list[int]
) -> tuple[str, str] | None:
    """The mistake that an answer makes wherever it gives numbers, if in some cases it gives NaN or
    infinity: an exponential written out overflows where the softmax of the mistake does not."""
    arrays = [array(g) for g in got]
    finite = [i for i, a in enumerate(arrays) if a is not None and np.isfinite(a).all()]
    if exercise.probe or len(finite) < 2 or any(a is None for a in arrays):
        return None
    shown = [i for i in bad if i in finite]
    if len(finite) == len(got) or not telling([got[i] for i in shown]):
        return None
    for mistake in exercise.mistakes:
        if all(exercise.agree(exercise.known_output(mistake, i, cases[i]), got[i]) for i in finite):
            lost = f"NaN or infinity in {len(got) - len(finite)} of {len(got)} cases"
            odd = [any(map(has_nan, case)) for case in cases]
            given = odd == [i not in finite for i in range(len(cases))]
            return f"{mistake.name}, and {lost}", f"{mistake.why} {NAN_GIVEN if given else LOST}"
    return None


def lacking(got: Any, want: Any) -> str | None:
    """Which properties an answer should have and has not, or has and should not have."""
    both = isinstance(got, dict) and isinstance(want, dict) and got.keys() == want.keys()
    if not both or {type(each) for each in (*got.values(), *want.values())} != {bool}:
        return None
    less = [f'"{name}"' for name in want if want[name] and not got[name]]
    more = [f'"{name}"' for name in want if got[name] and not want[name]]
    said = [f"asked for, and not so: {', '.join(less)}"] * bool(less)
    return "; ".join(said + [f"so, and not asked for: {', '.join(more)}"] * bool(more))


def unpacked(value: Any) -> Any:
    """The items of lists within a list as one list."""
    if not isinstance(value, list | tuple):
        return value
    rows = (unpacked(one) if isinstance(one, list | tuple) else [one] for one in value)
    return [one for row in rows for one in row]


def other_form(got: Any, want: Any) -> str | None:
    """That an answer by hand has too few or too many items, or items of another kind."""
    if not (isinstance(got, list | tuple) and isinstance(want, list | tuple)):
        return None
    if {*map(type, want)} == {str} and sorted({*want}) == [*want]:
        return None  # names in any order: how many there are is for the reader to find
    if len(got) != len(want):
        return f"{len(got)} given, and {len(want)} asked for"
    kinds = {str: "strings", bool: "True and False", int: "numbers", float: "numbers"}
    one, other = ({kinds.get(type(each)) for each in items} for items in (got, want))
    if len(one) != 1 or len(other) != 1 or one == other or None in one | other:
        return None
    return f"{one.pop()} in place of {other.pop()}"


def other_word(exercise: Exercise, got: Any, want: Any) -> tuple[str, str] | None:
    """That an answer by hand, a list of words, has one that no answer known to us has."""
    rows = [want, *(mistake.wrong for mistake in exercise.mistakes)]
    words = [{*row} if isinstance(row, list) and {*map(type, row)} == {str} else None
             for row in (got, *rows)]  # fmt: skip
    said, *known = words
    if callable(exercise.reference) or said is None or known[0] is None:
        return None
    ours = sorted({word for row in known if row for word in row})
    other = [word for word in got if word not in ours]
    if not other or len(ours) > 2 * FEW_WORDS:
        return None
    listed = ", ".join(f'"{word}"' for word in ours)
    return f"{show(other[0])} is none of the words of the task", f"They are {listed}."


def part_of_the_other(exercise: Exercise, got: list[Any], want: list[Any]) -> str | None:
    """That the right answer is one part of what came, or what came one part of the right answer."""
    for words, whole, part in (
        ("the right answer is part {} of what came, and it alone is asked for", got, want),
        ("only part {} of what is asked for", want, got),
    ):
        rows = all(isinstance(each, list | tuple) for each in whole)
        number = min(map(len, whole)) if rows else 0
        for k in range(number if 2 <= number <= 4 else 0):
            alike = (exercise.agree(a[k], b) for a, b in zip(whole, part, strict=True))
            if distinct(part) >= ENOUGH and all(alike):
                return words.format(k + 1)
    return None


def part_by_part(
    exercise: Exercise, cases: list[Case], got: list[Any], want: list[Any]
) -> tuple[str, str] | None:
    """The names of the mistakes of an answer that has several parts, and one in each of some."""
    number = len(want[0]) if isinstance(want[0], list | tuple) else 0
    if not 2 <= number <= 4:
        return None
    if not all(isinstance(a, list | tuple) and len(a) == number for a in (*got, *want)):
        return None

    def alike(one: list[Any], other: list[Any], k: int) -> bool:
        return all(exercise.agree(a[k], b[k]) for a, b in zip(one, other, strict=True))

    def parts_right(known: list[Any]) -> int:
        """How many parts of a mistake are right."""
        return sum(alike(known, want, k) for k in range(number))

    names: dict[str, list[int]] = {}  # of each mistake the parts in which it is
    reasons: list[str] = []
    for k in range(number):
        if alike(got, want, k):
            continue
        if not telling([each[k] for each in got]):
            return None
        fitting = []
        single = [mistake for mistake in exercise.mistakes if ", and " not in mistake.name]
        for mistake in single:
            known = [exercise.known_output(mistake, i, case) for i, case in enumerate(cases)]
            whole = all(isinstance(a, list | tuple) and len(a) == number for a in known)
            if whole and alike(known, got, k) and not alike(known, want, k):
                fitting.append((-parts_right(known), len(mistake.name), mistake))
        if not fitting:
            return None
        *_, mistake = min(fitting, key=lambda each: each[:2])  # of two slips one may be elsewhere
        names.setdefault(mistake.name, []).append(k + 1)
        reasons += [mistake.why] * (mistake.why not in reasons)
    said = [f"in {counted(parts)}: {name}" for name, parts in names.items()]
    return ("; ".join(said), " ".join(reasons)) if said else None


def counted(parts: list[int]) -> str:
    """Some parts by their numbers: "part 2", "parts 1, 2 and 4"."""
    *some, last = map(str, parts)
    return f"parts {', '.join(some)} and {last}" if some else f"part {last}"


def by_their_names(words: str, parts: Sequence[str]) -> str:
    """The words, with the names of parts in place of their numbers."""
    if not parts:
        return words

    def called(numbers: re.Match) -> str:
        return re.sub(r"\d", lambda one: parts[int(one[0]) - 1], numbers[1])

    return re.sub(r"(?<!is )\bparts? ((?:\d, )*(?:\d and )?\d)\b", called, words)


def holds(rule: Invariant, output: Any, case: Case, seconds: float) -> bool:
    return run(lambda: bool(rule.holds(output, *copied(case))), seconds) is True


ERRORS = {  # what they often come of, and never only: so they ask
    "must match the size of tensor":
        "Has a sum or a maximum lost its axis? `keepdim=True` keeps it, and `[:, None]` adds one.",
    "Boolean value of Tensor with more than one value is ambiguous":
        "Does Python's `max`, `if` or `and` get a whole tensor? They take one number: for all of "
        "them there are `torch.maximum`, `torch.where` and `&`.",
}  # fmt: skip


def explain_failure(exercise: Exercise, answer: Any, failure: Failure, case: Case) -> list[str]:
    """In words: what was raised, on which line of the reader's, and for which inputs."""
    ours = exercise.probe and not failure.line and inspect.isfunction(answer)  # when it was read
    if failure.kind == "OutOfTime":
        what = (
            f"it did not end within {exercise.seconds:g} seconds of processor time. Is there a "
            "loop that never stops, or one that does the same again and again?"
        )
    elif failure.kind == "OutOfMemory":
        what = (
            f"it asked for more than {MEMORY / GIB:g} GB of memory. Does something become as long "
            "as a number in the input says, where counting would do, or grow without end?"
        )
    elif failure.kind == "RecursionError":
        what = (
            "it called itself too deeply. Has the recursion an end? If it has, a loop that begins "
            "at the small ones needs no depth."
        )
    elif not failure.line and (ours_said := re.match(r"((\w+): )?expected ", failure.text)):
        about = f"`{ours_said[2]}`: " if ours_said[1] else ""  # by us, of what came
        said = shorten(failure.text.removeprefix(ours_said[1] or ""))
        what = f"{about}{said}{'' if said.endswith('?') else '.'}"
    elif ours and re.search("positional argument|keyword argument", failure.text):
        what = f"it cannot be called as the task says: {shorten(failure.text)}."
    elif ours and "NoneType" in failure.text:
        what = "your function returned None, or None is in what it returned. Is a `return` missing?"
    elif ours:
        what = f"what it returned cannot be read ({failure.kind}: {shorten(failure.text)})."
    else:
        what = f"it raised {failure.kind}: {shorten(failure.text)}"
    if failure.kind == "TypeError" and not exercise.probe and case and not fits(answer, case):
        names = list(inspect.signature(exercise.reference).parameters)
        what = f"it cannot be called with the arguments of the task, ({', '.join(names)})."
    lines = [what]
    if failure.line:
        where = f" of {failure.where}" if failure.where else ""
        lines.append(f"Line {failure.line}{where}: `{shorten(failure.source)}`")
    return [*lines, inputs(exercise, case), why_raised(exercise, failure)]


def why_raised(exercise: Exercise, failure: Failure) -> str:
    """What an error comes of in this exercise, or what one of its kind may come of anywhere."""
    said = f"{failure.kind}: {failure.text}: {failure.source}"
    for pattern, why in exercise.raised:
        if re.search(pattern, said):
            return why
    words = (why for words, why in ERRORS.items() if failure.line and words in failure.text)
    return next(words, "")


def fits(answer: Any, case: Case) -> bool:
    try:
        inspect.signature(answer).bind(*case)
    except (TypeError, ValueError):
        return False
    return True


def arguments(exercise: Exercise, case: Case) -> dict[str, Any]:
    """The arguments of a case by their names."""
    if not case:
        return {}
    return dict(zip(inspect.signature(exercise.reference).parameters, case, strict=False))


def inputs(exercise: Exercise, case: Case) -> str:
    """The arguments of a case in short, one to a line: what the answer is handed, and what a probe
    then tries it with."""
    if not case:
        return ""
    building = inspect.isclass(exercise.reference)
    named, more = arguments(exercise, case), tried_with(exercise, case)
    hidden = any(name.startswith("_") for name in more)  # then numbers would tell nothing
    rows = ["Built with" if building and more else "Called with"]
    rows += [f"  {name} = {show(value)}{size(value)}" for name, value in named.items()]
    if more:
        rows.append("Called with" if building else "Then tried with")
    for name, value in more.items():
        short = hidden and isinstance(value, Tensor) and value.is_floating_point()
        said = kind(value) if short else f"{show(value)}{size(value)}"
        rows += [f"  {name} = {said}"] * (not name.startswith("_"))
    return "\n".join(rows)


def tried_with(exercise: Exercise, case: Case) -> dict[str, Any]:
    """What a probe takes of a case besides the answer's own arguments, by its names. What begins
    with an underscore is not for the reader."""
    given = [*inspect.signature(exercise.probe).parameters][1:] if exercise.probe else []
    own = len(arguments(exercise, case))
    return dict(list(zip(given, case, strict=False))[own:])


def extent(value: Any) -> int:
    """How many numbers and words a value holds, about."""
    if isinstance(value, Tensor | np.ndarray):
        return len(value.reshape(-1))
    if isinstance(value, dict):
        value = list(value.values())
    return sum(map(extent, value)) if isinstance(value, list | tuple) else 1


def size(value: Any) -> str:
    """The shape of a tensor whose numbers are shown, which do not tell it at a glance."""
    if isinstance(value, Tensor | np.ndarray) and value.ndim and len(value.reshape(-1)) <= 12:
        return f", {kind(value)}"
    return ""


def wrong(title: str, what: str, *more: str, mistake: str | None = None) -> Verdict:
    """The message of a wrong answer, in paragraphs of readable width."""
    lines = [f"{title}: not yet right."]
    for paragraph in (begun(what), *filter(None, more)):
        for line in paragraph.splitlines():
            indent = len(line) - len(line.lstrip()) + 2
            lines += textwrap.wrap(
                line.strip(),
                WIDTH,
                initial_indent=" " * indent,
                subsequent_indent=" " * (indent + 2 * (indent > 2)),
            )
    return Verdict("wrong", "\n".join(lines), mistake)


def begun(what: str) -> str:
    """The words with a capital in front, but for a symbol or a name of the code: `u` and `U` are
    not the same, and there is no `N_heads`."""
    symbol = re.match(r"[b-z]\b(?!')|a \(|[a-z]+_|(dx|dy|ln)\b", what)
    return what if symbol else what[:1].upper() + what[1:]


def shorten(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) < 300 else text[:296] + " ..."


def name_of(answer: Any) -> str:
    name = getattr(answer, "__name__", "")
    return name if isinstance(name, str) else ""


class Empty:
    """What every class has."""


def is_blank(answer: Any) -> bool:
    """Whether an answer is still the stub: `...`, or a body of nothing but `...`, `pass` or
    `raise NotImplementedError`. A class is blank when none of its methods does anything."""
    if answer is ... or answer is NotImplemented:
        return True
    if inspect.isclass(answer):
        if not {*answer.__bases__} <= {object, nn.Module}:  # what it inherits is its answer
            return False
        own = [value for name, value in vars(answer).items() if name not in vars(Empty)]
        return all(
            body is not None and (blank(body) or only_super(body)) for body in map(body_of, own)
        )
    body = body_of(answer)
    return body is not None and blank(body)


def body_of(function: Any) -> list[ast.stmt] | None:
    """The statements of a function, None for anything else and where there is no source."""
    if not inspect.isfunction(function) or function.__code__.co_name == "<lambda>":
        return None
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    except Exception:  # no source to be had
        return None
    return tree.body if isinstance(tree, ast.FunctionDef) else None


def searches(answer: Any) -> bool:
    """Whether a function returns something out of a loop, and so may come to its end without."""
    loops = (
        node
        for statement in body_of(answer) or []
        for node in ast.walk(statement)
        if isinstance(node, ast.For | ast.While)
    )
    inner = (node for loop in loops for node in ast.walk(loop))
    return any(isinstance(node, ast.Return) and node.value is not None for node in inner)


def blank(body: list[ast.stmt]) -> bool:
    body = [statement for statement in body if not says_nothing(statement)]
    return not body or len(body) == 1 and raises_not_implemented(body[0])


def says_nothing(statement: ast.stmt) -> bool:
    """`pass`, `...` and docstrings."""
    is_constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return isinstance(statement, ast.Pass) or is_constant


def raises_not_implemented(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Raise) and "NotImplementedError" in ast.dump(statement)


def only_super(body: list[ast.stmt]) -> bool:
    """The first line that every module has, `super().__init__()`, and nothing else."""
    return len(body) == 1 and ast.unparse(body[0]) == "super().__init__()"


def progress() -> None:
    """Print which exercises are done."""
    done, kept = diary.read()
    print("Exercises done" + ("" if kept else " (kept in memory only)"))
    for chapter in chapters():
        marks = [("[x] " if e.number in done else "[ ] ") + e.number for e in exercises(chapter)]
        count = sum(e.number in done for e in exercises(chapter))
        print(f"  Chapter {chapter:>2}: {count} of {len(marks)}   {'  '.join(marks)}")
    stages = import_module(".project", __package__).NUMBERS
    marks = [f"[{'x' if n in done else ' '}] {n.removeprefix('project.')}" for n in stages]
    count = sum(n in done for n in stages)
    print(f"  Project   : {count} of {len(stages)}   {'  '.join(marks)}")
