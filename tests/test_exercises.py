"""Every exercise of every chapter: the right passes, each known mistake is named, none confused."""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import math
import re
from collections import Counter
from decimal import Decimal
from fractions import Fraction
from itertools import permutations
from pathlib import Path

import pytest
import torch
from jaxtyping import config
from torch import Tensor

from allyouneed.exercises import chapter_05, core, examine
from allyouneed.exercises.compare import apart, outline
from allyouneed.exercises.core import Exercise, chapters, exercises

ROOT = Path(__file__).parents[1]
EVERY = [exercise for chapter in chapters() for exercise in exercises(chapter)]
BUILDING = [exercise for exercise in EVERY if callable(exercise.reference)]
NO_SHORT_AXIS = ("9.5",)  # an even width of at least 2
each = pytest.mark.parametrize("exercise", EVERY, ids=lambda e: e.number)
each_building = pytest.mark.parametrize("exercise", BUILDING, ids=lambda e: e.number)
each_chapter = pytest.mark.parametrize("chapter", chapters())


@pytest.fixture(autouse=True, scope="module")
def unchecked():
    """As for a reader: shapes in the package's signatures are not checked (see conftest.py)."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


def notebook(chapter: str) -> list[dict]:
    (file,) = (ROOT / "notebooks").glob(f"{int(chapter):02d}_*.ipynb")
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    return [{**cell, "source": "".join(cell["source"])} for cell in cells]


def right_answers(chapter: str) -> dict:
    return importlib.import_module(f"right_answers.chapter_{int(chapter):02d}").RIGHT


def solution_lines(exercise: Exercise) -> set[str]:
    """The telling lines of the reference: long ones that set something."""
    try:
        lines = inspect.getsource(exercise.reference).splitlines()[1:]
    except (OSError, TypeError):
        return set()
    return {line.strip() for line in lines if len(line.strip()) > 15 and "=" in line}


@each
def test_reference_passes(exercise: Exercise):
    assert examine(exercise.number, exercise.reference).status == "correct"


@each
def test_every_mistake_is_named(exercise: Exercise):
    """By its own name, with where to look, and without a line of the solution."""
    solution = solution_lines(exercise)
    for mistake in exercise.mistakes:
        verdict = examine(exercise.number, mistake.wrong)
        assert (verdict.status, verdict.mistake) == ("wrong", mistake.name), verdict.message
        assert mistake.name.lower() in " ".join(verdict.message.split()).lower()
        assert (mistake.section or exercise.section) in " ".join(verdict.message.split())
        assert not [line for line in solution if line in verdict.message]


@each
def test_no_two_mistakes_are_confused(exercise: Exercise, monkeypatch):
    cases = list(enumerate(exercise.all_cases()))
    outputs = {
        m.name: [exercise.known_output(m, i, case) for i, case in cases] for m in exercise.mistakes
    }
    monkeypatch.setattr(core, "run", lambda compare, seconds: compare())  # ours need no guard
    outlines = {name: list(map(outline, one)) for name, one in outputs.items()}
    close = exercise.rtol, exercise.atol
    for name, other in permutations(outputs, 2):
        if any(apart(*two, *close) for two in zip(outlines[name], outlines[other], strict=True)):
            continue
        alike = all(map(exercise.agree, outputs[name], outputs[other]))
        assert not alike, f"{name} = {other}"


@each
def test_rules_hold_for_what_is_right(exercise: Exercise):
    for i, case in enumerate(exercise.all_cases()):
        output = exercise.known_output(None, i, case)
        for rule in exercise.invariants:
            assert core.holds(rule, output, case, exercise.seconds), rule.name


def squeezed(value):
    if isinstance(value, Tensor):
        return value.squeeze()
    return type(value)(map(squeezed, value)) if isinstance(value, list | tuple) else value


@each_building
def test_axes_of_length_one_are_tried(exercise: Exercise):
    """A right answer with `.squeeze()` behind it does not pass, if its result has any axes."""
    outputs = [exercise.output(exercise.reference, case) for case in exercise.all_cases()]
    axes = {output.ndim for output in outputs if isinstance(output, Tensor)}
    if exercise.probe or max(axes, default=0) == 0 or exercise.number in NO_SHORT_AXIS:
        return
    answer = functools.wraps(exercise.reference)(lambda *case: squeezed(exercise.reference(*case)))
    assert examine(exercise.number, answer).status == "wrong"


@each_building
def test_right_answers_in_other_styles_pass(exercise: Exercise):
    answers = right_answers(exercise.number.split(".")[0])[exercise.number]
    assert len(answers) >= 3
    for answer in answers:
        verdict = examine(exercise.number, answer)
        assert verdict.status == "correct", verdict.message


@each_building
def test_blank_is_not_attempted(exercise: Exercise):
    def dots(*args): ...

    def nothing(*args):
        """Only words."""
        pass

    def not_implemented(*args):
        raise NotImplementedError  # your code here

    for stub in (dots, nothing, not_implemented):
        assert examine(exercise.number, stub).status == "not attempted"


@each
def test_blank_value_is_not_attempted(exercise: Exercise):
    assert examine(exercise.number, ...).status == "not attempted"


@each_chapter
def test_enough_exercises_with_numbers_of_their_own(chapter):
    numbers = Counter(exercise.number for exercise in exercises(chapter))
    assert len(numbers) >= 4 and set(numbers.values()) == {1}
    assert all(number.startswith(f"{chapter}.") for number in numbers)


@each_chapter
def test_notebook_and_bank_agree(chapter):
    cells = notebook(chapter)
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    text = "\n".join(cell["source"] for cell in cells if cell["cell_type"] == "markdown")
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    for exercise in exercises(chapter):
        number = exercise.number
        own = text.partition(f"> **Exercise {number} (")[2].partition("\n> **Exercise ")[0]
        hints = re.findall(r"<summary>(Hint.*?)</summary>", own)
        for section in {exercise.section, *(m.section for m in exercise.mistakes if m.section)}:
            assert section in (*headings, *hints), f"{number}: no section {section!r}"
        assert len(re.findall(rf"^> \*\*Exercise {re.escape(number)} \(", text, re.M)) == 1
        checks = [cell for cell in code if f'check("{number}"' in cell["source"]]
        stubs = [c for c in checks if "solution" not in c["metadata"].get("tags", [])]
        solutions = [c for c in checks if "solution" in c["metadata"].get("tags", [])]
        assert len(stubs) == len(solutions) == 1, number
        assert "not attempted" in str(stubs[0]["outputs"]), number
        assert "correct" in str(solutions[0]["outputs"]), number
        assert solutions[0]["source"].startswith("#@title Solution"), number
        metadata = solutions[0]["metadata"]
        assert metadata["cellView"] == "form" and metadata["jupyter"]["source_hidden"], number
        assert "_solution" in solutions[0]["source"]


@each_chapter
def test_every_exercise_has_a_hint(chapter):
    source = "\n".join(
        cell["source"] for cell in notebook(chapter) if cell["cell_type"] == "markdown"
    )
    parts = re.split(r"^> \*\*Exercise (\d+\.\d+) \(", source, flags=re.M)
    for number, part in zip(parts[1::2], parts[2::2], strict=True):
        assert "<details><summary>Hint" in part, number


def test_numbers_of_any_kind_and_items_of_any_source_are_welcome():
    whole = core.find("7.2").reference
    for answer in (
        iter(whole),
        [float(x) for x in whole],
        map(Fraction, whole),
        torch.tensor(whole),
    ):
        assert examine("7.2", answer).status == "correct"
    shares = core.find("3.1").reference
    for number in (Fraction, Decimal):
        assert examine("3.1", [number(x) for x in shares]).status == "correct"
    assert examine("7.2", [str(x) for x in whole]).status == "wrong"


def test_the_smallest_differing_case_is_shown():
    for answer in (lambda q, k: (q @ k.mT).sin(), lambda q, k: None):
        message = " ".join(examine("4.3", answer).message.split())
        assert "of shape (1, 1, 2)" in message and "of shape (1, 2, 2)" in message


def test_a_factor_in_a_single_case_is_no_name():
    """Divided by the tokens of the second batch: in one case of six that is not the largest."""
    second = lambda gradients, tokens: (  # noqa: E731
        sum(g * n for g, n in zip(gradients, tokens, strict=True)) / tokens[1 % len(tokens)]
    )
    assert "largest" not in examine("12.5", second).message


def test_a_softmax_that_nobody_has_taken_is_not_said_to_be_missing():
    """Scores that differ from the right ones by one number in each row have the same softmax."""
    mean = lambda q, k: 2 * q @ k.mT - q.pow(2).mean(-1, True) - k.pow(2).sum(-1)[:, None]  # noqa: E731
    assert "softmax" not in examine("4.3", mean).message


def test_a_part_that_is_right_in_a_mistake_does_not_name_another():
    """Floating-point numbers in part 1 are no mistake in part 2, beside which part 1 is right."""
    counts = torch.arange(9)
    bank = core.mistakes(("one less in part 2", lambda n: (counts, counts), "Count from 1."))
    pair = Exercise("1.1", "", "", lambda n: (counts, counts + 1), [(9,)], bank)
    got, want = (counts.double(), counts + 1), (counts, counts + 1)
    assert core.part_by_part(pair, [(9,)], [got], [want]) is None
    assert core.part_by_part(pair, [(9,)], [(counts, counts)], [want])


def test_a_share_that_is_no_number_is_not_near():
    verdict = examine("1.8", lambda longest, batch: float("nan"))
    assert verdict.mistake == "no number (nan), in every case"


def test_no_rule_about_numbers_is_broken_by_nan():
    """3.4: a mean of squares is never negative, which NaN is not, either."""
    message = examine("3.4", lambda *case: [-1.0] * len(case[2])).message
    assert "no error below zero" in message
    message = examine("3.4", lambda *case: [math.nan] * len(case[2])).message
    assert "no error below zero" not in message and "nan" in message


@pytest.mark.parametrize("number", ["3.8", "6.6", "6.7"])
def test_a_difference_with_a_large_step_is_near_and_not_exact(number):
    """A slope as the difference of two outcomes, a twentieth apart."""
    (exercise,) = (e for e in EVERY if e.number == number)

    def outcome(scores, v=None, g=None):
        p = scores.softmax(-1)
        if v is None:
            return torch.special.entr(p).sum()
        return p @ v if g is None else p @ v @ g

    def difference(scores, *rest):
        steps = 0.05 * torch.eye(len(scores))
        return torch.stack(
            [(outcome(scores + step, *rest) - outcome(scores, *rest)) / 0.05 for step in steps]
        )

    assert core.examine(number, difference).mistake == "near in every case, and not exact"
    assert core.examine(number, exercise.reference).status == "correct"


def test_what_an_answer_is_turned_into_is_not_told_as_what_came():
    """12.2 compares infinity in place of NaN."""
    message = examine("12.2", lambda *case: torch.tensor(float("nan"))).message
    assert "nfinite, in every case" not in message


def test_what_cannot_be_tried_is_told_so():
    verdict = examine("2.9", lambda noise: (math.nan, 3, 0))
    assert "expected numbers that are finite" in verdict.message.lower()
    w_q, w_k = chapter_05.same_colour(8, 4)
    verdict = examine("5.9", lambda names, colours: (w_q[: 2 * names + colours], w_k[:, 1:]))
    assert "w_q and w_k of one width" in verdict.message


def test_a_layer_that_holds_another_matrix_is_named():
    from allyouneed.exercises.chapter_05 import LoadedHead

    class Half(LoadedHead):
        def __init__(self, w_q, w_k, w_v):
            super().__init__(w_q, w_k / 2, w_v)

    assert examine("5.7", Half).mistake == "another matrix than the one given in w_k"


def test_numbers_by_hand_are_counted():
    said = examine("10.1", [0.5, 0.25, -1.0, 1.0, -2.0, 2.6]).message
    assert "5 of the 6 numbers are right." in said


def test_a_slip_of_the_pencil_is_not_taken_for_a_scaled_mistake():
    said = examine("10.7", [4194304, 8393728, 4096, 12592000])
    assert said.mistake is None and "3 of the 4 numbers are right." in said.message
    assert examine("6.1", [0.6, 0.4, 6.4]).mistake is None


def test_forgotten_sum():
    from allyouneed.exercises.chapter_12 import smoothed_loss

    def each(logits, targets, smoothing):
        return torch.stack([
            smoothed_loss(z[None, None], y[None, None], smoothing)
            for z, y in zip(logits.flatten(0, 1), targets.flatten(), strict=True)
        ])  # fmt: skip

    assert examine("12.2", each).mistake == "the right answer, but not added up to one number"


def test_a_term_counted_wrong_is_named():
    """Whatever the slip: so many of one term too few or too many, in all cases."""
    count, flops = core.find("11.1").reference, core.find("14.4").reference
    few = examine("11.1", lambda *n: count(*n) - 6 * n[7] * n[1])
    assert few.mistake == "6 times d_model too few in each decoder layer"
    many = examine("14.4", lambda *n: flops(*n) + 12 * n[0] * n[1] * n[2] * n[5])
    assert many.mistake == "12 times n_layers d_model d_ff too many for each target token"
    assert examine("11.1", lambda *n: str(count(*n))).mistake is None


def test_dropout_left_on_has_one_name_in_every_style():
    def encodes_each_time(model, src, length):
        written = torch.full((len(src), 1), 2)
        for _ in range(length):
            written = torch.cat([written, model(src, written)[:, -1:].argmax(-1)], 1)
        return written[:, 1:]

    assert examine("11.7", encodes_each_time).mistake == "dropout left on"


def test_a_mask_without_the_axis_of_the_heads_does_not_pass():
    masks = core.find("11.5").reference
    one = lambda *case: (masks(*case)[0], masks(*case)[1][:, 0], masks(*case)[2])  # noqa: E731
    assert examine("11.5", one).mistake == "the axis of the heads missing in the decoder"


def test_a_word_that_is_none_of_the_task_is_named():
    words = ["future", "none", "sorce", "padding", "none", "source", "none"]
    said = examine("8.6", words)
    assert said.mistake == "'sorce' is none of the words of the task"
    assert '"future", "none", "padding", "source"' in said.message
    assert "'unchanged' is none" in examine("5.3", ["unchanged"] * 7).message


def test_an_axis_in_another_place_is_told_from_one_too_many():
    mask = core.find("8.2").reference
    moved = examine("8.2", lambda *case: mask(*case).movedim(1, -1))
    assert moved.mistake == "the right answer, but with its axes of length 1 in another place"


def test_two_slips_in_two_parts_do_not_name_one_part():
    """A row for two slips is of both parts: of one of them alone it says too much."""
    batch = core.find("11.6").reference

    def two_parts(pairs):
        read = batch([([], t[:-1]) for _, t in pairs])[1]
        return [batch([(s[::-1], []) for s, _ in pairs])[0], read, batch(pairs)[2]]

    one, other = "the source in reverse", "the last token not read, BOS always"
    names = f"in what the encoder reads: {one}; in what the decoder reads: {other}"
    assert examine("11.6", two_parts).mistake == names


def test_no_endless_loop_on_input_that_check_makes_up():
    depth = core.find("2.5").reference
    with pytest.raises(ValueError, match="at least 2"):
        depth(9, 1, True)


def test_what_would_be_normalised_again_is_no_name():
    """Rows of any sum are the same once they are divided by it: that tells nothing."""
    mixed = core.find("15.8").reference
    thirds = lambda maps, removed: mixed(maps, removed) * (2 / 3) ** len(maps)  # noqa: E731
    assert "divided by its sum" not in str(examine("15.8", thirds).mistake)


@pytest.mark.parametrize(
    ("width", "said"),
    [
        (64, "In some cases your function returned None. Is a `return` missing there, or has a"),
        (
            128,
            "Your function returned None. Is a `return` missing, or has its search found nothing?",
        ),
    ],
)
def test_a_search_that_finds_nothing_need_not_be_a_forgotten_return(width, said):
    """It has its `return`, and comes to its end for some of the budgets, or for all."""

    def six_layers(budget):
        for d_model in range(width, 1025, width):
            heads = d_model // width
            sizes = 8000, d_model, 4 * d_model, heads, width, width, 6, 6
            if 0.9 * budget <= core.find("11.1").reference(*sizes) <= budget:
                return d_model, 4 * d_model, heads, 6

    assert said in " ".join(examine("11.10", six_layers).message.split())


@pytest.mark.parametrize(
    "answer",
    [
        lambda score: score.flip(0).numpy(),
        lambda score: [[*pair] for pair in score.numpy()[::-1]],
        lambda score: {(int(y), int(x)) for y, x in score.numpy()},
    ],
)
def test_links_may_come_in_any_order_and_form(answer):
    def links(weights):
        some = weights[:-1, :-1]
        both = (some == some.amax(0)) & (some == some.amax(1, keepdim=True))
        return answer(both.nonzero())

    assert examine("15.4", links).status == "correct"


def test_a_mask_of_a_shape_that_does_not_fit_is_not_said_to_show_padding():
    def two_axes(src, tgt, pad):
        return src != pad, *core.find("11.5").reference(src, tgt, pad)[1:]

    message = examine("11.5", two_axes).message
    assert "no padding is seen" not in message and "the axes of length 1 missing" in message


def test_a_symbol_keeps_its_case():
    """Beside a matrix U a number u is another thing."""
    assert "  u of 0." in examine("2.9", lambda noise: (1.0, 0.0, 0.0)).message
    assert core.begun("a tolerance") == "A tolerance" and core.begun("a (1 - a)") == "a (1 - a)"
    assert core.begun("u's slope") == "U's slope" and core.begun("z for both") == "z for both"
    for name in ("n_heads taken for the rows", "d_k forgotten", "w_1 added", "dx alone", "ln 3"):
        assert core.begun(name) == name
    assert core.begun("dxa, lnb") == "Dxa, lnb" and core.begun("ids given") == "Ids given"


def test_one_mistake_in_several_parts_is_said_once():
    assert core.counted([2]) == "part 2" and core.counted([1, 2, 4]) == "parts 1, 2 and 4"


def test_an_error_says_what_it_comes_of():
    def by_rows(x, h, w, u, b):
        w_r, w_z, w_n = w.chunk(3)
        return h @ w_r, w_z, w_n

    assert "unless `dim=1` is given" in examine("2.3", by_rows).message
    inverse = lambda keys, place: 10 * torch.inverse(keys)[:, place]  # noqa: E731
    assert "may be fewer keys than entries" in examine("3.9", inverse).message

    def shortened(sums, tokens, max_norm):
        g = sum(sums) / sum(tokens)
        return g * min(1.0, max_norm / g.norm().item())

    assert "The whole gradient may be zero." in examine("19.7", shortened).message


def test_a_split_that_leaks_shows_the_sentence():
    split = core.find("1.9").reference

    def cut(pairs, n_test):
        train, test = split(pairs, n_test)
        return train + test[n_test:], test[:n_test]

    verdict = examine("1.9", cut)
    assert verdict.mistake == "a group cut in two at n_test pairs"
    assert " sentence `" in verdict.message


def test_of_a_tie_the_rows_are_named():
    verdict = examine("1.5", [[1, 0], [4, 0], [9, 9], [2, 0]])
    assert verdict.mistake == "rows 1 and 3 are equally near by the cosine"
    assert "Let row 3 point farther aside" in " ".join(verdict.message.split())
    assert examine("1.5", [[1, 0], [1, 1], [9, 9], [4, 0]]).mistake.startswith("rows 1 and 3 exch")
