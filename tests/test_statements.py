"""What a statement prints as an example is a case of the check, and comes out as it is printed."""

from __future__ import annotations

import inspect
import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from allyouneed.exercises.compare import array
from allyouneed.exercises.core import Exercise, chapters, exercises

ROOT = Path(__file__).parents[1]
BUILDING = [e for c in chapters() for e in exercises(c) if callable(e.reference)]
CODE = re.compile(r"`([^`]+)`")
NUMBER = r"-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:e-?\d+)?"
RESULT = re.compile(  # "it is `[1, 2]`", "the weights are `[[1]]` and `[2]`", "gives 0.9"
    rf"\b(?:is|are|gives|give) (`[^`]+`(?:(?:,| and|, and) `[^`]+`)*|{NUMBER}(?!\.?[\w^/]| [·+*/]))"
)
WORDS = {"inf": math.inf, "log": math.log, "torch": torch, "tensor": torch.tensor}


@dataclass(frozen=True)
class Example:
    """Arguments by name, and what comes out (None if the sentence does not say it so)."""

    given: dict[str, Any]
    printed: list[Any] | None

    def __str__(self) -> str:
        return f"{self.given} -> {self.printed}"


@cache
def statements() -> dict[str, str]:
    """The words of every exercise, without its blocks of code."""
    found = {}
    for file in (ROOT / "notebooks").glob("[0-9]*.ipynb"):
        for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]:
            lines = re.sub(r"^> ?```.*?^> ?```", "", "".join(cell["source"]), flags=re.M | re.S)
            quoted = re.findall(r"(?:^>.*\n?)+", lines, re.M)
            for text in (re.sub(r"^> ?", "", block, flags=re.M) for block in quoted):
                if number := re.match(r"\*\*Exercise (\d+\.\d+) ", text):
                    found[number[1]] = " ".join(text.split())
    return found


def value(text: str, known: dict[str, Any]) -> Any:
    """What a printed value is. Raises an exception of any kind where it is none."""
    text = re.sub(r"\b0+(?=\d)", "", text) if re.fullmatch("[01, ]+", text) else text
    return eval(text, {"__builtins__": {"True": True, "range": range}}, {**WORDS, **known})


def values(text: str, known: dict[str, Any]) -> list[Any] | None:
    try:
        return [value(part.strip("`"), known) for part in CODE.findall(text) or [text]]
    except Exception:
        return None


def examples(exercise: Exercise) -> Iterator[Example]:
    """Every example of a statement that gives all arguments: by `name = value`, or by a call."""
    text = statements()[exercise.number]
    names = list(inspect.signature(exercise.reference).parameters)
    given: dict[str, Any] = {}
    end = 0
    codes = list(CODE.finditer(text))
    for code, following in zip_longest(codes, codes[1:]):
        if given and ". " in text[end : code.start()]:  # a new sentence
            given = {}
        end = code.end()
        rest = re.split(r"[:;?]|\. ", text[code.end() :])[0]
        result = RESULT.search(rest)
        printed = values(result[1], {}) if result else None
        if call := re.fullmatch(r"\w+\((.*)\)", code[1]):
            got = values(f"`({call[1]},)`", given)
            if got and len(got[0]) == len(names) and rest.startswith((" is", " gives", " ret")):
                yield Example(dict(zip(names, got[0], strict=True)), printed)
        elif one := re.fullmatch(r"(\w+(?: = \w+)*) = ([^=].*)", code[1]):
            some, got = one[1].split(" = "), values(f"`{one[2]}`", {})
            if not got or not set(some) <= set(names):
                continue
            given |= dict.fromkeys(some, got[0])
            goes_on = following and re.fullmatch(rf"({'|'.join(names)}) = .*", following[1])
            near_by = following and ". " not in text[code.end() : following.start()]
            if set(given) == set(names) and not (goes_on and near_by and not result):
                yield Example(dict(given), printed)


FOUND = [
    pytest.param(exercise, example, id=f"{exercise.number}-{i}")
    for exercise in BUILDING
    for i, example in enumerate(examples(exercise))
]


def near(a: Any, b: Any) -> bool:
    one, two = array(a), array(b)
    if one is None or two is None:
        rows = isinstance(a, list | tuple) and isinstance(b, list | tuple)
        return len(a) == len(b) and all(map(near, a, b)) if rows else a == b
    if one.size == two.size == 1:
        one, two = one.reshape(()), two.reshape(())
    return one.shape == two.shape and np.allclose(one, two, rtol=1e-3, atol=6e-4)


def equal(out: Any, printed: list[Any]) -> bool:
    """One value, several, or the first of several."""
    if isinstance(out, torch.Tensor):
        out = out.tolist()
    if isinstance(out, dict):
        out = list(out.values())
    some = isinstance(out, list | tuple) and len(out) and near(out[0], printed[0])
    several = isinstance(out, list | tuple) and len(out) == len(printed)
    return near(out, printed[0]) or some or several and all(map(near, out, printed))


def test_examples_are_found():
    """The search understands the way in which most statements are written."""
    assert len({param.values[0].number for param in FOUND}) >= 0.4 * len(BUILDING)
    assert sum(param.values[1].printed is not None for param in FOUND) >= 0.7 * len(FOUND)


@pytest.mark.parametrize("exercise, example", FOUND)
def test_a_printed_example_is_a_case(exercise: Exercise, example: Example):
    if any(map(callable, example.given.values())):
        return  # functions cannot be compared
    given = list(example.given[name] for name in inspect.signature(exercise.reference).parameters)
    case = next((c for c in exercise.all_cases() if all(map(near, c, given))), None)
    assert case, f"{exercise.number} is not tried with {example}"
    if example.printed is not None and not exercise.probe:
        out = exercise.output(exercise.reference, case)
        assert equal(out, example.printed), f"{example}, but it is {out}"


def test_what_a_check_printed_has_the_titles_of_today():
    """A renamed exercise whose notebook was not run again would fail only when all of it runs."""
    titles = {e.number: e.title for c in chapters() for e in exercises(c)}
    said = re.compile(r'"Exercise (\d+\.\d+) \((.+?)\): (?:correct|not )')
    files = sorted((ROOT / "notebooks").glob("*.ipynb"))
    found = [pair for file in files for pair in said.findall(file.read_text(encoding="utf-8"))]
    assert len(found) > 300
    assert [pair for pair in found if titles[pair[0]] != pair[1]] == []
