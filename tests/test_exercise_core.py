"""The teacher itself: it ends what does not end, raises nothing, and says the true reason."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import replace

import nbformat
import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from nbclient import NotebookClient
from roundings import outside  # of tools, as conftest.py finds them

from allyouneed.exercises import check, core, progress
from allyouneed.exercises.compare import apart, outline, parting, same, show
from allyouneed.exercises.core import Exercise, Invariant, Mistake, examine
from allyouneed.exercises.likeness import turns


def scaled(x, factor):
    return x * factor


def rowwise(x):
    return torch.softmax(x, -1)


class Doubled(torch.nn.Module):
    def forward(self, x):
        return 2 * x


EXERCISES = [
    Exercise(
        "99.1", "scale", "Scaling", scaled,
        cases=lambda: [(torch.tensor([1.0, -2.0, 3.0]), 2.5), (torch.ones(2, 3), -1.0)],
        mistakes=[
            Mistake("adds", lambda x, factor: x + factor, "It multiplies: it is not added."),
            Mistake("divides", lambda x, factor: x / factor, "It multiplies."),
        ],
        seconds=1.0,
    ),
    Exercise("99.2", "count", "Counting", 42, mistakes=[Mistake("off by one", 41, "Both ends.")]),
    Exercise(
        "99.3", "softmax", "Softmax", rowwise,
        cases=[(torch.tensor([[1.0, 2.0, 0.5], [0.0, 1.0, 3.0]]),)],
        invariants=[
            Invariant(
                "the rows sum to one", lambda out, x: torch.allclose(out.sum(-1), torch.ones(2)),
                "Every query shares out a weight of one among the keys.",
            )
        ],
        seconds=1.0,
    ),
    Exercise(
        "99.4", "module", "Modules", Doubled, cases=[(torch.ones(3),), (torch.zeros(2, 1),)],
        probe=lambda answer, x: answer()(x),
    ),
    Exercise(
        "99.6", "turns", "Scaling", scaled,
        cases=[
            (torch.tensor([[0.3, -1.7], [2.9, 0.45], [1.1, 0.8]]), 2.5),
            (torch.tensor([[0.7, 1.3, -0.2, 4.4]]), -1.5),
            (torch.tensor([[-0.6, 1.9], [0.4, 3.1]]), 0.7),
            (torch.tensor([[5.3, 1.2], [0.9, -3.7], [0.2, 0.1]]), 1.3),
        ],
        mistakes=[
            Mistake("adds", lambda x, factor: x + factor, "It multiplies: it is not added."),
            Mistake("divides", lambda x, factor: x / factor, "It multiplies."),
        ],
    ),
    Exercise("99.7", "three", "Counting", [4, 1, 2], mistakes=[Mistake("no", [4, 3, 3], "No.")]),
    Exercise("99.5", "broken", "Ours", lambda x: missing, cases=[(1,)]),  # noqa: F821
]  # fmt: skip


@pytest.fixture(autouse=True)
def made_exercises(monkeypatch, tmp_path):
    monkeypatch.setattr(core, "chapters", lambda: ["99"])
    monkeypatch.setattr(core, "exercises", lambda chapter: EXERCISES if chapter == "99" else [])
    monkeypatch.setattr(core.diary, "_memory", set())
    monkeypatch.setenv("ALLYOUNEED_HOME", str(tmp_path))


@pytest.mark.parametrize(
    "right",
    [
        lambda x, factor: factor * x,
        lambda x, factor: (x.double() * factor).numpy(),
        lambda x, factor: (x * factor).tolist(),
        lambda x, factor: x.mul_(factor),  # in place: the inputs are the call's own
        lambda x, factor: (x * factor).requires_grad_(),
        lambda x, factor: (x * factor).half(),
    ],
)
def test_right_in_any_style(right):
    verdict = examine("99.1", right)
    assert verdict.status == "correct", verdict.message


def said(answer, number="99.1") -> str:
    verdict = examine(number, answer)
    assert verdict.status == "wrong"
    assert all(len(line) <= 100 for line in verdict.message.splitlines())
    return " ".join(verdict.message.split())


def test_names_the_mistake_and_where_to_look():
    message = said(lambda x, factor: torch.add(x, factor))
    assert "Adds." in message and "it is not added" in message and '"Scaling"' in message
    assert examine("99.2", 41.0).mistake == "off by one"


def test_names_the_broken_rule():
    assert "the rows sum to one" in said(lambda x: torch.softmax(x, 0), "99.3")


def test_says_where_values_part():
    message = said(
        lambda x, factor: torch.cat([(x * factor).flatten()[:-1], x.flatten()[-1:]]).view_as(x)
    )
    assert "At [2]: got 3, expected 7.5" in message and "factor = 2.5" in message


@pytest.mark.parametrize(
    "answer, words",
    [
        (lambda x, factor: (x * factor)[..., :1], "shape"),
        (lambda x, factor: "hello", "got a string"),
        (lambda x, factor: scaled, "got a function"),
        (lambda x, factor: {1: 2}, "got a dict"),
        (lambda x, factor: float("nan") * x, "got nan"),
        (lambda x: x, "cannot be called with the arguments of the task, (x, factor)"),
        (lambda x, factor: x @ torch.ones(7, 7), "RuntimeError"),
        (lambda x, factor: 1 / 0, "ZeroDivisionError"),
        (lambda x, factor: sys.exit(), "SystemExit"),
        (3, "without calling it"),
        ("text", "expected a function"),
    ],
)
def test_says_what_is_wrong(answer, words):
    assert words.lower() in said(answer).lower()


@pytest.mark.parametrize(
    "answer, name",
    [
        (lambda x, factor: -x * factor, "with the opposite sign"),
        (lambda x, factor: 3 * x * factor, "3 times as large"),
        (lambda x, factor: x * factor * len(x), "multiplied by the length of axis 0 of `x`"),
        (lambda x, factor: x * factor / x.shape[-1], "divided by the length of axis 1 of `x`"),
        (lambda x, factor: x * factor / np.log(2), "large, as with logarithms to the base 2"),
        (lambda x, factor: torch.stack([x * factor] * 3), "but several times over"),
        (lambda x, factor: x * factor + 1, "1 more everywhere"),
        (lambda x, factor: x * factor + x, "with `x` added"),
        (lambda x, factor: x * factor - x, "with `x` subtracted"),
        (lambda x, factor: (x * factor).flip(0), "in reverse order"),
        (lambda x, factor: (x * factor).mT, "with the axes -2 and -1 exchanged"),
        (lambda x, factor: (x * factor)[1:], "without the first"),
        (lambda x, factor: (x * factor)[0], "only the first of all"),
        (lambda x, factor: (x * factor).sum(-1), "added up over the last axis"),
        (lambda x, factor: (x * factor).softmax(-1), "with a softmax too many"),
        (lambda x, factor: (x * factor).exp(), "as an exponential"),
        (lambda x, factor: (x * factor)[None], "with axes of length 1 too many or too few"),
        (lambda x, factor: -x * factor if len(x) > 2 else x * factor, "sign (in 2 of 4 cases)"),
    ],
)
def test_names_one_turn_of_the_right_answer(answer, name):
    assert examine("99.6", answer).mistake.endswith(name)


def test_shapes_are_told_where_they_differ_in_all_that_is_wrong():
    message = said(lambda x, factor: (x * factor).flatten(), "99.6")
    assert "numbers in another shape" in message and "Got shape (" in message
    assert "Got shape" not in said(lambda x, factor: -x * factor, "99.6")
    assert "Got a single number, expected shape" in said(lambda x, f: (x * f).sum(), "99.6")


def test_names_a_known_mistake_that_is_made_in_some_cases():
    answer = lambda x, factor: x + factor if factor > 0.5 else x * factor  # noqa: E731
    assert examine("99.6", answer).mistake == "adds (in 3 of 4 cases)"
    assert (
        examine("99.6", lambda x, factor: x + factor if factor > 1 else x * factor).mistake is None
    )


def both_slips(x, factor):
    return (x + factor) / factor


@pytest.mark.parametrize(
    "answer",
    [
        lambda x, factor: both_slips(x, factor) if factor > 0.5 else x * factor,
        lambda x, factor: -both_slips(x, factor),
    ],
)
@pytest.mark.parametrize("name", ["adds, and divides", "divides the sum"])
def test_two_slips_are_named_only_where_both_are_seen_in_every_case(monkeypatch, answer, name):
    """Of one mistake it is said that it is made in some cases, or with a turn."""
    one = [exercise for exercise in EXERCISES if exercise.number == "99.6"]
    pair = replace(one[0], mistakes=[Mistake(name, both_slips, "It multiplies.")])
    monkeypatch.setattr(core, "exercises", lambda chapter: [pair])
    assert examine("99.6", both_slips).mistake == name
    assert (examine("99.6", answer).mistake is None) == (", and " in name)


def test_where_nothing_is_expected_one_may_be_too_many(monkeypatch):
    upto = Exercise(
        "99.8", "up to", "Counting", lambda n: list(range(1, n)), cases=[(5,), (1,), (9,)]
    )
    monkeypatch.setattr(core, "exercises", lambda chapter: [upto])
    name = "the right answer, but with one too many in front"
    assert examine("99.8", lambda n: [0, *range(1, n)]).mistake == name
    assert examine("99.8", lambda n: [0, *range(1, n)] if n > 1 else [0, 0]).mistake is None
    empty = replace(upto, cases=[(5,), (1,), (0,), (-1,)])
    monkeypatch.setattr(core, "exercises", lambda chapter: [empty])  # in front of nothing?
    assert examine("99.8", lambda n: [*range(1, n)] or [n + 0.5]).mistake is None


@pytest.mark.parametrize(
    "answer",
    [
        lambda x, factor: -x * factor if len(x) > 2 else 2 * x * factor,  # two things
        lambda x, factor: x * factor * torch.tensor([1.0, -1.0, -1.0])[: x.shape[-1]],
        lambda x, factor: x * factor + torch.arange(x.shape[-1]),
        lambda x, factor: x * factor - 2 * (x * factor > 0),
        lambda x, factor: (x * factor).roll(1, 0)[:, :1],
        lambda x, factor: x + 2 * factor,
        lambda x, factor: (x + factor) / (x + factor).sum(),  # a mistake, and its sum forgotten
    ],
)
def test_names_nothing_that_is_not_so_in_every_case(answer):
    verdict = examine("99.6", answer)
    assert (verdict.status, verdict.mistake) == ("wrong", None)


@pytest.mark.parametrize(
    "answer, name",
    [
        (lambda x, factor: -x - factor, "adds, and the result with the opposite sign"),
        (lambda x, factor: x**2 * factor, "what would be right for the squares of `x`"),
        (lambda x, factor: x * (1 - factor), "what would be right for 1 less `factor`"),
        (
            lambda x, factor: (x * factor, x),
            "the right answer is part 1 of what came, and it alone is asked for",
        ),
    ],
)
def test_names_what_else_the_answer_would_be_right_for(answer, name):
    assert examine("99.6", answer).mistake == name


def shares(x, lengths):
    """A softmax of the first few of each row."""
    behind = torch.arange(x.shape[1]) >= lengths[:, None]
    return x.masked_fill(behind, -torch.inf).softmax(-1)


@pytest.mark.parametrize(
    "answer, name",
    [
        (lambda x, n: shares(x / x.shape[1] ** 0.5, n), "`x` divided by the root of the length of"),
        (lambda x, n: shares(x * len(n) ** 0.5, n), "`x` multiplied by the root of the length of"),
        (lambda x, n: shares(x, n + 1), "one more than `lengths`"),
        (lambda x, n: shares(x, n.max().expand_as(n)), "the largest of `lengths` alone"),
        (lambda x, n: shares(x, n.min().expand_as(n)), "the smallest of `lengths` in place of all"),
        (lambda x, n: shares(x / (1 + len(n)) ** 0.5, n), None),
    ],
)
def test_names_the_root_or_the_count_that_was_taken(monkeypatch, answer, name):
    draw = torch.Generator().manual_seed(0)
    cases = [
        (torch.randn(len(some), size, generator=draw), torch.tensor(some))
        for size, some in ((5, [1, 3, 2]), (7, [4, 2]), (6, [2, 5, 3, 1, 4]))
    ]
    masked = Exercise("99.8", "shares", "Scaling", shares, cases=cases)
    monkeypatch.setattr(core, "exercises", lambda chapter: [masked])
    assert (name or "None") in str(examine("99.8", answer).mistake)


@pytest.mark.parametrize(
    "answer, name",
    [
        (lambda x, factor: 0 * x, "nothing but 0, in every case"),
        (lambda x, factor: x[:0], "nothing in it, in every case"),
        (lambda x, factor: [], "nothing in it, in every case"),
        (lambda x, factor: x / 0 - x / 0, "no number (nan), in every case"),
        (lambda x, factor: x.abs() / 0, "infinite, in every case"),
        (lambda x, factor: x / x + (factor > 1), None),  # 1 or 2, as it comes
    ],
)
def test_names_what_is_the_same_for_all_arguments(answer, name):
    assert examine("99.6", answer).mistake == name


def test_names_a_mistake_in_each_part(monkeypatch):
    both = Exercise(
        "99.8", "parts", "Scaling", lambda x: (2 * x, x**2), cases=[(0.3,), (1.7,), (2.9,), (4.1,)],
        mistakes=[
            Mistake("halved", lambda x: (x / 2, x**2), "Twice."),
            Mistake("cubed", lambda x: (2 * x, x**3), "The square."),
        ],
    )  # fmt: skip
    monkeypatch.setattr(core, "exercises", lambda chapter: [both])
    verdict = examine("99.8", lambda x: (x / 2, x**3))
    assert verdict.mistake == "in part 1: halved; in part 2: cubed"
    called = core.by_their_names("in parts 1 and 3: cut; in part 2: cubed", ("x", "y", "z"))
    assert called == "in x and z: cut; in y: cubed"
    came = "the right answer is part 2 of what came, and it alone is asked for"
    assert core.by_their_names(came, ("x", "y")) == came
    assert "Twice. The square." in verdict.message
    assert examine("99.8", lambda x: (x / 2, x**4 - x)).mistake is None
    assert examine("99.8", lambda x: x**2).mistake == "only part 2 of what is asked for"


def words_and_masks(rows):
    """Ids with an end, and which of them are words."""
    return [[*row, 3] for row in rows], [[True] * len(row) + [False] * 2 for row in rows]


SENTENCES = [([[5, 6], [7, 8]],), ([[9, 4, 5, 6]],)]


@pytest.mark.parametrize("probe", [None, lambda answer, rows: list(answer(rows))])
def test_parts_that_hold_ids_or_yes_and_no_have_names_of_their_own(monkeypatch, probe):
    batch = Exercise(
        "99.8", "batch", "Scaling", words_and_masks, cases=SENTENCES, probe=probe,
        mistakes=[
            Mistake("no end", lambda rows: (rows, words_and_masks(rows)[1]), "It ends."),
            Mistake(
                "turned",
                lambda rows: (words_and_masks(rows)[0], [[not w for w in row] for row in
                                                         words_and_masks(rows)[1]]),
                "True is a word.",
            ),
        ],
    )  # fmt: skip
    monkeypatch.setattr(core, "exercises", lambda chapter: [batch])

    def both(rows):
        return rows, [[not word for word in row] for row in words_and_masks(rows)[1]]

    verdict = examine("99.8", both)
    assert verdict.mistake == "in part 1: no end; in part 2: turned"
    assert "It ends. True is a word." in verdict.message


def lower(size, back):
    return torch.ones(size, size).tril(-back).bool()


def added(mask, low=-torch.inf):
    """A mask of numbers that are added to scores."""
    return torch.zeros(mask.shape).masked_fill(~mask, low)


@pytest.mark.parametrize(
    "answer, name",
    [
        (lambda size, back: lower(size, back).flip(0), "in reverse order"),
        (lambda size, back: lower(size, back)[None], "with axes of length 1 too many or too few"),
        (lambda size, back: lower(size, back)[1:], "without the first"),
        (lambda size, back: lower(size, back + 1), "what would be right for one more than `back`"),
        (lambda size, back: ~lower(size, back).mT, "the axes -2 and -1 exchanged"),
        (lambda size, back: lower(size, back).float(), "numbers in place of True and False"),
        (lambda size, back: added(lower(size, back)), "0 where it is True and minus infinity"),
        (lambda size, back: added(~lower(size, back)), "0 where it is False and minus infinity"),
        (lambda size, back: added(lower(size, back), -1e9), "0 where it is True and minus inf"),
        (lambda size, back: added(lower(size, back), -1.0), None),
        (lambda size, back: lower(size, back) & lower(size, back).sin().bool(), None),
        (lambda size, back: torch.ones(size, size).tril(-1 if back == 2 else 0).bool(), None),
    ],
)
def test_of_a_mask_it_is_named_what_has_been_done_to_it(monkeypatch, answer, name):
    """Nobody takes an offset from 1, or its root."""
    mask = Exercise(
        "99.8", "mask", "Scaling", lower, cases=[(4, 0), (5, 2), (6, 1), (5, 4)],
        mistakes=[Mistake("turned", lambda size, back: ~lower(size, back), "The other way.")],
    )  # fmt: skip
    monkeypatch.setattr(core, "exercises", lambda chapter: [mask])
    said = examine("99.8", answer)
    assert (name or "None") in str(said.mistake), said.message


def test_a_set_is_not_said_to_stand_in_a_wrong_order(monkeypatch):
    order = Exercise(
        "99.8", "order", "Scaling", lambda n: list(range(n)), cases=[(4,), (7,)],
        mistakes=[Mistake("from the end", lambda n: list(range(n))[::-1], "From the first.")],
    )  # fmt: skip
    monkeypatch.setattr(core, "exercises", lambda chapter: [order])
    verdict = examine("99.8", lambda n: set(range(n)))
    assert (
        verdict.mistake is None
        and "got a set of 4, expected a list of 4" in verdict.message.lower()
    )


def test_names_the_properties_that_lack(monkeypatch):
    def properties(answer, x):
        return {"even": answer(x) % 2 == 0, "above 10": answer(x) > 10, "negative": answer(x) < 0}

    design = Exercise(
        "99.9", "design", "Scaling", lambda x: 12, cases=[(1,), (2,)], probe=properties
    )
    monkeypatch.setattr(core, "exercises", lambda chapter: [design])
    assert examine("99.9", lambda x: 20).status == "correct"
    verdict = examine("99.9", lambda x: -3)
    words = 'asked for, and not so: "even", "above 10"; so, and not asked for: "negative"'
    assert verdict.mistake == words


def test_few_numbers_may_be_alike_by_chance():
    assert examine("99.2", -42).mistake is None
    assert examine("99.7", [4, 3, 2]).mistake is None  # one of the two numbers of a mistake
    assert examine("99.7", [2, 1, 4]).mistake == "the right answer, but in reverse order"


def test_a_class_is_handed_over_as_a_class():
    class Mine(Doubled):
        """All is inherited."""

    class Stub(torch.nn.Module):
        def __init__(self):
            super().__init__()

    assert examine("99.4", Mine).status == "correct"
    assert examine("99.4", Stub).status == "not attempted"
    assert "an object of the class Doubled. Hand over the class itself" in said(Doubled(), "99.4")


def test_nothing_passes_where_the_reference_fails(capsys):
    check("99.5", lambda x: missing)  # noqa: F821
    assert "99.5 could not be checked (RuntimeError)" in capsys.readouterr().out


def test_whatever_is_drawn_at_random_is_told():
    drawn = examine("99.1", lambda x, factor: x * factor + torch.rand_like(x))
    assert "Called twice with the same input" in drawn.message
    assert drawn.mistake == "called twice with the same input, it gives two results"
    calls = []

    def counted(x, factor):
        calls.append(x)
        return x * factor + len(calls)

    assert "Called twice with the same input" in examine("99.1", counted).message
    assert "twice" not in examine("99.1", lambda x, factor: x * factor + 0.3 * x**2).message


def test_forgotten_return():
    def forgets(x, factor):
        x * factor

    assert "Is a `return` missing?" in said(forgets)


@pytest.mark.parametrize(
    "value, text",
    [
        (torch.tensor([[True, False]]), "[[True, False]]"),
        (torch.tensor([1, 2]), "[1, 2]"),
        (torch.tensor(0.123456), "0.1235"),
        (torch.zeros(4, 5), "a tensor of shape (4, 5), float32"),
    ],
)
def test_shows_small_tensors_by_their_numbers(value, text):
    assert show(value) == text


@outside  # an imagined processor is a line more
def test_shows_the_line_of_the_reader():
    def fails(x, factor):
        half = x.reshape(5, 5)
        return half * factor

    message = said(fails)
    assert "half = x.reshape(5, 5)" in message and "of fails" in message and "factor" in message


def test_raises_on_one_case_only():
    def picky(x, factor):
        if x.ndim == 2:
            raise ValueError("two axes")
        return x * factor

    assert "two axes" in said(picky) and "(2, 3)" in said(picky)


@pytest.mark.parametrize("swallow", [False, True])
def test_endless_loop_ends(swallow):
    def endless(x, factor):
        while True:
            try:
                pass
            except Exception:
                if not swallow:
                    raise

    assert "did not end within 1 seconds" in said(endless)


@pytest.mark.skipif(not os.path.exists("/proc/thread-self/schedstat"), reason="Linux says it")
def test_the_clock_stands_still_while_others_have_the_processor():
    """0.4 seconds of work, of which four others take four fifths of one core, are not too long."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    try:

        def slow(x, factor):
            end = time.thread_time() + 0.4
            while time.thread_time() < end:
                pass
            return x * factor

        began = time.monotonic()
        verdict = examine("99.1", slow)
        assert verdict.status == "correct", verdict.message
        assert time.monotonic() - began > 1  # or the test would show nothing
    finally:
        for other in others:
            other.kill()
            other.wait()
        os.sched_setaffinity(0, cores)


def test_runaway_memory_ends():
    def grows(x, factor):
        rows = [0]
        while True:
            rows += rows

    message = said(grows)
    assert "memory" in message or "did not end" in message  # a slow machine's clock strikes first
    assert "memory" in said(lambda x, factor: torch.zeros(10**12))


def test_deep_recursion_ends():
    def deep(x, factor):
        return deep(x, factor)

    assert "recursion" in said(deep)


def test_a_recursion_as_deep_as_a_right_one_needs_it_passes():
    """Memoised, in two functions that call each other in sums: more than Python's 1,000 calls."""

    def down(n):
        return 0 if n == 0 else 1 + max(down(n - 1) for _ in range(1))

    depth = sys.getrecursionlimit()
    assert examine("99.1", lambda x, factor: x * (down(600) == 600) * factor).status == "correct"
    assert sys.getrecursionlimit() == depth


def test_settings_are_put_back():
    def meddles(x, factor):
        torch.set_default_dtype(torch.float64), torch.set_grad_enabled(False)
        print("noise")
        return x * factor

    assert examine("99.1", meddles).status == "correct"
    assert torch.get_default_dtype() == torch.float32 and torch.is_grad_enabled()


def test_surroundings_are_put_back(tmp_path):
    def meddles(x, factor):
        os.chdir(tmp_path)
        os.environ["MEDDLED"] = "yes"
        np.seterr(all="raise"), np.set_printoptions(precision=1)
        torch.set_printoptions(precision=1), torch.use_deterministic_algorithms(True)
        torch.softmax, torch.Tensor.softmax = torch.exp, torch.Tensor.exp
        return x * factor

    def state():
        printed = str(torch.tensor(1 / 3)), str(np.array([1 / 3])), np.geterr()
        strict = torch.are_deterministic_algorithms_enabled()
        return os.getcwd(), dict(os.environ), printed, strict, torch.softmax, torch.Tensor.softmax

    torch.use_deterministic_algorithms(False)  # imports much, once: not on the reader's time
    before = state()
    assert examine("99.1", meddles).status == "correct"
    assert state() == before


class Evil:
    def __eq__(self, other):
        raise RuntimeError("no")

    def __repr__(self):
        raise RuntimeError("no")

    __hash__ = None


class Unfriendly:
    def __getattr__(self, name):
        raise RuntimeError(name)


things = [Evil(), Unfriendly(), Evil, torch.ones(2), torch.ones(()), np.zeros(3), object(), int]
simple = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3)
junk = st.recursive(
    simple | st.binary(max_size=2) | st.integers(0, 7).map(lambda i: things[i]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=2), inner, max_size=2)
        | st.tuples(inner, inner)
    ),
    max_leaves=6,
)


@settings(max_examples=60)
@given(junk)
def test_never_raises(value):
    for number in ("99.1", "99.2", "99.3", "99.9", "x", ""):
        check(number, value, record=False)
    check("99.1", lambda x, factor: value, record=False)
    check("99.3", lambda x: value, record=False)


def test_unknown_number_names_those_that_exist(capsys):
    check("99.8", scaled)
    assert (
        "expected one of 99.1, 99.2, 99.3, 99.4, 99.6, 99.7, 99.5; got '99.8'"
        in capsys.readouterr().out
    )
    check("hello", scaled)
    assert "got 'hello'" in capsys.readouterr().out


def test_a_number_is_an_exercise_too(capsys):
    check(99.1, lambda x, factor: x * factor)
    assert "correct" in capsys.readouterr().out


def test_progress_keeps_what_is_done(capsys, tmp_path):
    check("99.1", lambda x, factor: x * factor)
    check("99.2", 40)
    progress()
    out = capsys.readouterr().out
    assert "[x] 99.1" in out and "[ ] 99.2" in out and "1 of 7" in out
    assert json.loads((tmp_path / "progress.json").read_text("utf-8")) == {"done": ["99.1"]}


def test_what_the_file_has_is_not_written_again(monkeypatch, tmp_path):
    check("99.1", lambda x, factor: x * factor)
    before = (tmp_path / "progress.json").stat()
    check("99.1", lambda x, factor: x * factor)
    monkeypatch.setattr(core.diary, "_memory", set())  # another session
    check("99.1", lambda x, factor: x * factor)
    after = (tmp_path / "progress.json").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    (tmp_path / "progress.json").unlink()
    check("99.2", 42)
    assert json.loads((tmp_path / "progress.json").read_text("utf-8")) == {"done": ["99.1", "99.2"]}


def test_solutions_do_not_count_as_the_readers(capsys):
    def scaled_solution(x, factor):
        return x * factor

    check("99.1", scaled_solution)
    check("99.2", 42, record=False)
    progress()
    assert "0 of 7" in capsys.readouterr().out


@pytest.mark.parametrize("content", ["", "{", "[]", '{"done": 3}'])
def test_progress_survives_a_broken_file(content, capsys, tmp_path):
    (tmp_path / "progress.json").write_text(content, "utf-8")
    check("99.2", 42)
    progress()
    assert "[x] 99.2" in capsys.readouterr().out


def test_progress_lives_in_memory_where_nothing_can_be_written(capsys, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("", "utf-8")
    monkeypatch.setenv("ALLYOUNEED_HOME", str(tmp_path / "file" / "folder"))
    check("99.2", 42)
    progress()
    assert "[x] 99.2" in capsys.readouterr().out


def test_bad_exercises_are_refused():
    with pytest.raises(ValueError, match="number"):
        Exercise("one", "t", "s", 1)
    with pytest.raises(ValueError, match="cases"):
        Exercise("1.1", "t", "s", scaled)
    with pytest.raises(ValueError, match="mistakes"):
        Exercise("1.1", "t", "s", 1, mistakes=[Mistake("a", 2, ""), Mistake("a", 3, "")])


# In a process of its own, since the shape checks of the tests use random numbers themselves.
READER = """
import random
import numpy, torch
from allyouneed.exercises import check, progress
from allyouneed.exercises.core import chapters, exercises

exercise = next(e for e in exercises(chapters()[0]) if callable(e.reference))

def stub(*args):
    raise NotImplementedError  # your code here

def endless(*args):
    while True:
        pass

def fails(*args):
    torch.manual_seed(1), random.seed(1), numpy.random.seed(1)
    return undefined_name

def states():
    return torch.get_rng_state().tolist(), random.getstate(), numpy.random.get_state()[1].tolist()

object.__setattr__(exercise, "seconds", 0.5)
before = states()
for answer in (stub, endless, fails, exercise.reference):
    check(exercise.number, answer)
progress()
check(None, 1)
check(1.2, 1)
assert states() == before
"""


def assert_reader_was_served(text: str) -> None:
    for words in ("not attempted yet", "did not end", "while True:", "undefined_name", "correct"):
        assert words in text, text
    assert "Traceback" not in text


def test_plain_python(tmp_path):
    (tmp_path / "reader.py").write_text(textwrap.dedent(READER), "utf-8")
    done = subprocess.run(
        [sys.executable, tmp_path / "reader.py"], capture_output=True, encoding="utf-8"
    )
    assert_reader_was_served(done.stdout + done.stderr)


def test_in_a_kernel():
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(READER)])
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    outputs = notebook.cells[0].outputs
    assert_reader_was_served("".join(output.get("text", "") for output in outputs))


def test_a_value_to_work_out_is_not_given_away():
    assert "42" not in said(40, "99.2")


def test_whole_numbers_are_exact_and_half_precision_is_enough():
    assert not core.same(100_001, 100_000, 1e-4, 1e-6)
    third = torch.rand(5) / 3
    assert core.same(third.half(), third, 1e-4, 1e-6)
    assert not core.same(third * 1.001, third, 1e-4, 1e-6)


FORMS = [
    torch.tensor, np.array, tuple, lambda rows: torch.tensor(rows).mT.contiguous().mT,
    lambda rows: torch.tensor(rows).to(torch.bfloat16), lambda rows: [*rows[:-1], [rows[-1], 1]],
]  # fmt: skip
ROWS = st.lists(st.tuples(st.floats(-99, 99), st.just(float("nan")) | st.floats(-9, 9)), min_size=1)


@given(ROWS, st.sampled_from(FORMS), st.sampled_from(FORMS), st.sampled_from([0, 1e-4, 0.1]))
@example([(0.0, 0.0)], tuple, tuple, 0.1)  # near in the absolute
@example([(50.0, 9.0)] * 3, tuple, tuple, 0.1)  # and relatively
def test_what_is_the_same_is_not_apart(rows, one, other, slack):
    near = [tuple(x * (1 + 0.9 * slack) + 0.9 * slack for x in row) for row in rows]
    for a, b in [(one(rows), other(rows)), (one(rows), other(near)), (one(rows), other(rows[:1]))]:
        if same(a, b, slack, slack) or same(b, a, slack, slack):
            assert not apart(outline(a), outline(b), slack, slack)
            assert not apart(outline(b), outline(a), slack, slack)


A = torch.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    "a, b, told",
    [
        (A, A + 0.01, True),
        (A, A[:1], True),
        (A, A.mT, True),
        ([A, [1, [2, 3]]], [A + 1, [1, [2, 3]]], True),
        ([1, "a"], [2, "a"], True),
        ([1, "a"], [1, "b"], False),  # words have no sum
        (A, A.flip(0), False),
        (A, A / 0, False),
        ({"a": A, "b": True}, {"b": True, "a": A + 1}, True),
        ({"a": A, "b": True}, {"b": True, "a": A.clone()}, False),
        ({"a": A}, {"b": A}, True),
        ({"a": "x"}, {"a": "y"}, False),
        ({"a": A}, [A + 1], False),
    ],
)
def test_what_is_apart_at_once(a, b, told):
    assert apart(outline(a), outline(b), 1e-4, 1e-6) == told


def test_a_case_is_copied_with_what_is_special_about_it():
    """One tensor handed over twice, others that do not lie in memory row by row, and a slope."""
    base = torch.arange(6.0).view(2, 3)
    slope = torch.ones(2, requires_grad=True)
    case = base, base, base.mT, torch.ones(3, 1).expand(3, 2), base[:1], slope, [base]
    copied = core.copied(case)
    assert copied[0] is copied[1] is copied[-1][0] and copied[5].is_leaf and copied[5].requires_grad
    assert [x.stride() for x in copied[:-1]] == [x.stride() for x in case[:-1]]
    copied[0].fill_(-1.0), copied[2].fill_(-1.0), copied[4].fill_(-1.0)
    assert base.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def test_of_a_tuple_the_part_that_differs_is_named():
    want = torch.zeros(2, 3), torch.zeros(2, 3)
    got = torch.zeros(2, 3), torch.zeros(2, 4)
    part = parting(got, want, 1e-5, 1e-6)
    assert part == "at [1]: got shape (2, 4), expected shape (2, 3)"


@pytest.mark.parametrize(
    "got, said",
    [
        ([[1, 2], [3]], "a list of 2, in which rows have different lengths"),
        ([[[], []]], "a list of 1, in which rows are empty"),
        ([], "a list of 0"),
        ([[1, 2], [3, "a"]], "a list of 2"),
    ],
)
def test_rows_that_are_no_table_are_told_of(got, said):
    part = parting(got, torch.zeros(2, 2), 1e-5, 1e-6)
    assert part == f"got {said}, expected a tensor of shape (2, 2)"


def test_zeros_are_no_reciprocals_of_infinity():
    name, finite = "turned into its reciprocal", np.array([2.0, 4.0, 8.0])
    hidden = np.array([2.0, 4.0, -np.inf])
    with np.errstate(all="ignore"):
        assert name in [*turns(1 / finite, finite, {}, 1e-4, 1e-6)]
        assert name not in [*turns(1 / hidden, hidden, {}, 1e-4, 1e-6)]


def test_what_nan_comes_of_is_said_where_it_came():
    told = "comes of 0 / 0"
    assert told in examine("99.6", lambda x, factor: x * factor / 0 * 0).message
    assert told not in examine("99.6", lambda x, factor: x + 2 * factor).message


@pytest.mark.parametrize("number", ["99.1", "99.3"])
def test_ctrl_c_ends_the_check(number, request):
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # under nohup it is ignored
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    calls = []

    def stopped(*case):
        calls.append(case)
        signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        check(number, stopped)
    assert len(calls) == 1
