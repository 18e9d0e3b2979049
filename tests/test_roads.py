"""The roads through the book: each section that book/roads.toml names exists, and on the short road
nothing is used before the road has it.
"""

from __future__ import annotations

import ast
import json
import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROADS = tomllib.loads((ROOT / "book" / "roads.toml").read_text(encoding="utf-8"))
ALWAYS = "The code so far"
BESIDE = (ALWAYS, "Exercises", "Further reading")  # of the whole chapter, whatever road one is on
CODE = re.compile(r"`([^`\n]+)`")
MATH = re.compile(r"\$\$(.+?)\$\$|\$(.+?)\$", re.S)


@cache
def sections(number: str) -> dict[str, list[dict]]:
    """The cells of a chapter by the heading under which they stand, "" for those before the first.
    A cell with several headings is parted."""
    (file,) = (ROOT / "notebooks").glob(f"{number}_*.ipynb")
    found, heading = {"": []}, ""
    for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        parts = (
            re.split(r"^## (.*)$", text, flags=re.M) if cell["cell_type"] == "markdown" else [text]
        )
        for i, part in enumerate(parts):
            if i % 2:
                heading = re.sub(r"[*`]", "", part.strip())
                found[heading] = []
            else:
                found[heading].append(cell | {"source": part})
    return found


def chapters() -> list[str]:
    return sorted(file.name[:2] for file in (ROOT / "notebooks").glob("[0-9]*.ipynb"))


def walked(road: dict) -> list[tuple[str, str]]:
    """The places on a road, in order: chapter and heading."""
    places = []
    for number in chapters():
        named = road["chapters"].get(number, [])
        for heading in sections(number) if named else []:
            if named == "all" or heading in ("", ALWAYS, *named):
                places.append((number, heading))
    return places


def exported() -> set[str]:
    """The names that chapters export: functions, classes, constants."""
    names = set()
    for number in chapters():
        for cells in sections(number).values():
            for cell in cells:
                if cell["cell_type"] == "code" and re.match(r"#\| *export", cell["source"]):
                    names |= defined(cell["source"])
    return names


def defined(source: str) -> set[str]:
    found = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found |= {target.id for target in targets if isinstance(target, ast.Name)}
    return found


def names(cell: dict) -> tuple[set[str], set[str]]:
    """The names that a cell's code uses, or its text sets as code; and those that it makes."""
    if cell["cell_type"] == "markdown":
        return set(re.findall(r"\w+", " ".join(CODE.findall(cell["source"])))), set()
    tree = ast.parse(re.sub(r"^[%!].*$", "", cell["source"], flags=re.M))
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    made = {node.id for node in nodes if isinstance(node.ctx, ast.Store)}
    made |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    made |= {
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)
    }
    return {node.id for node in nodes}, made


def symbols() -> set[str]:
    """Those of the tables of the notation page, and the matrices of attention. Single letters have
    several lives (an n may count anything), and are left out."""
    text = (ROOT / "book" / "notation.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    found = {one for row in rows for one in re.findall(r"\$([^$]+)\$", row)}
    return {one for one in found if len(one) > 1} | {"W^Q", "W^K", "W^V", "W^O"}


def tex(cell: dict) -> str:
    if cell["cell_type"] != "markdown":
        return ""
    return " ".join(a or b for a, b in MATH.findall(cell["source"]))


@pytest.mark.parametrize("key", ROADS)
def test_each_section_of_a_road_exists(key):
    """Where a heading has got another name, book/roads.toml needs it too."""
    wrong = []
    for number, named in ROADS[key]["chapters"].items():
        assert number in chapters()
        there = list(sections(number))
        if named != "all":
            wrong += [
                f"{number}: {one!r} is not among {there}" for one in named if one not in there
            ]
            assert [one for one in there if one in named] == [one for one in named if one in there]
    assert not wrong, "\n".join(wrong)


def left_out(road: dict) -> list[str]:
    """What is used on a road, and was introduced in the book before, but not on the road."""
    on, known, seen, wrong = set(walked(road)), set(), set(), []
    every, signs = exported(), symbols()
    for number in chapters():
        for heading, cells in sections(number).items():
            here = (number, heading) in on and heading not in BESIDE
            used, made = set(), set()
            for cell in cells:
                if heading or cell["cell_type"] == "markdown":  # else it is the set-up
                    uses, makes = names(cell)
                    used |= uses & every
                    made |= makes & every
            math = " ".join(map(tex, cells))
            used |= {sign for sign in signs if sign in math}
            if here:
                missing = sorted((used - known - made) & seen)
                wrong += [f"{number} {heading!r}: {one} was left out" for one in missing]
                known |= used | made
            seen |= used | made
    return wrong


@pytest.mark.parametrize("key", ROADS)
def test_nothing_is_used_that_the_road_has_left_out(key):
    """Exported names and the symbols of the notation page: where the book has introduced one
    before, the road was there, too."""
    assert len(exported()) > 50 and "d_k" in symbols()
    assert not (wrong := left_out(ROADS[key])), "\n".join(wrong)
