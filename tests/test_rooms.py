"""The house: every module stands in one room, and imports run downwards only."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from forked import failures

PACKAGE = Path(__file__).parents[1] / "src" / "allyouneed"
NAMES = sorted(
    {p.stem for p in PACKAGE.glob("*.py")} | {p.parent.name for p in PACKAGE.glob("*/__init__.py")}
)
NAMES = [name for name in NAMES if not name.startswith("__")]

# From the top of the house to the bottom: a module imports only from rooms below its own,
# or from modules that stand before it in its own room.
ROOMS = [
    ("pictures", ["viz", "pictures", "plan", "listing", "live"]),
    ("exercises", ["exercises"]),
    ("command", ["settings", "history", "processes", "pairs", "runs", "command"]),
    ("family", ["published", "families", "sparse", "parsing", "scaling", "today"]),
    ("inference", ["cache", "decoding", "evaluation"]),
    ("training", ["kernels", "training", "checkpoints"]),
    ("model", ["transformer", "saving"]),
    ("before", ["recurrent", "alignment"]),
    ("parts", ["similarity", "attention", "multihead", "masks", "positions", "sublayers", "modes"]),
    ("text", ["sources", "data", "tokens", "subwords", "shards", "wmt"]),
    ("records", ["files", "provenance", "results", "weights"]),
    ("checks", ["checks"]),
]
NEVER_IMPORTED = {
    "viz",
    "pictures",
    "plan",
    "listing",
    "live",
    "exercises",
}  # by notebooks and readers only


def files(name: str) -> list[Path]:
    return (
        [PACKAGE / f"{name}.py"]
        if (PACKAGE / f"{name}.py").exists()
        else list((PACKAGE / name).glob("*.py"))
    )


def imported(name: str) -> set[str]:
    """The modules of the package that a module imports, anywhere in its text."""
    found = set()
    for file in files(name):
        inside = file.parent != PACKAGE
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                up = node.level - inside
                if node.level and up == 1:  # from .tokens import x, from . import tokens
                    found |= (
                        {node.module.split(".")[0]} if node.module else {a.name for a in node.names}
                    )
                elif (node.module or "").split(".")[0] == "allyouneed":
                    found |= (
                        {node.module.split(".")[1]}
                        if "." in node.module
                        else {a.name for a in node.names}
                    )
            elif isinstance(node, ast.Import):
                found |= {
                    a.name.split(".")[1] for a in node.names if a.name.startswith("allyouneed.")
                }
    return found & set(NAMES)


def test_every_module_has_one_room():
    counts = Counter(name for _, modules in ROOMS for name in modules)
    assert counts == Counter(NAMES)


def test_the_api_page_groups_alike():
    page = (PACKAGE.parents[1] / "book" / "api.md").read_text(encoding="utf-8")
    groups = [re.findall(r"^### (\w+)", group, re.M) for group in page.split("\n## ")[1:]]
    assert sorted(map(sorted, groups)) == sorted(sorted(modules) for _, modules in ROOMS)


@pytest.mark.parametrize("name", NAMES)
def test_imports_run_downwards(name):
    order = [module for _, modules in ROOMS for module in modules]
    floor = {module: level for level, (_, modules) in enumerate(ROOMS) for module in modules}
    for other in imported(name) - {name}:
        assert other not in NEVER_IMPORTED or name == "live", f"{name} imports {other}"
        below = floor[other] > floor[name]
        earlier = floor[other] == floor[name] and order.index(other) < order.index(name)
        assert below or earlier, f"{name} imports upwards: {other}"


# Colab's matplotlib calls a deprecated part of its pyparsing: that is between those two.
STRICT = """import warnings
warnings.simplefilter("error")
warnings.simplefilter("ignore", DeprecationWarning)
warnings.filterwarnings("error", module=".*allyouneed")
import allyouneed."""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="each import is in a fork of one process")
def test_imports_alone():
    """Each module after torch and nothing else, without a warning."""
    assert not failures(sys.executable, {name: STRICT + name for name in NAMES})


def test_package_itself_is_light():
    code = "import sys, allyouneed; assert not {'torch', 'matplotlib'} & set(sys.modules)"
    env = {name: value for name, value in os.environ.items() if name != "ROUNDINGS"}
    subprocess.run([sys.executable, "-c", code], check=True, env=env)  # it brings torch


def test_no_name_is_defined_twice():
    owners: dict[str, list[str]] = {}
    for name in NAMES:
        if name == "exercises":  # wrong answers there carry the names of right ones
            continue
        for file in files(name):
            for node in ast.parse(file.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith(
                    "_"
                ):
                    owners.setdefault(node.name, []).append(name)
    owners.pop("load", None)  # results.load is called by its module's name
    assert {name: where for name, where in owners.items() if len(where) > 1} == {}
