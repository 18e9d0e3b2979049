"""The notebooks as files: executed, fresh, in the one form, and in step with the package."""

from __future__ import annotations

import ast
import functools
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
sys.path.insert(0, str(ROOT / "tools"))
import address  # noqa: E402
import execute  # noqa: E402
import export  # noqa: E402

each_notebook = pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)


def code_cells(file: Path) -> list[nbformat.NotebookNode]:
    return [cell for cell in nbformat.read(file, as_version=4).cells if cell.cell_type == "code"]


def test_modules_equal_their_notebooks():
    done = subprocess.run(
        [sys.executable, "tools/export.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stdout + done.stderr


@each_notebook
def test_exported_code_is_not_cut_off(file):
    cells = [cell.source for cell in code_cells(file) if re.match(r"#\| *export", cell.source)]
    lines = [line for source in cells for line in source.splitlines()]
    assert not [line for line in lines if len(line) > export.WIDTH]


@each_notebook
def test_an_open_cell_is_short(file):
    """At most 40 lines, blank ones not counted; what takes more is folded."""
    cells = [cell for cell in code_cells(file) if "hide-input" not in cell.metadata.get("tags", [])]
    assert max(sum(map(bool, cell.source.splitlines())) for cell in cells) <= 40


@each_notebook
def test_executed_and_fresh(file):
    notebook = nbformat.read(file, as_version=4)
    assert notebook.metadata.get("source_hash") == execute.source_hash(notebook), (
        f"{file.name} was changed after it was run: `make execute`"
    )
    counts = [cell.execution_count for cell in code_cells(file) if cell.source.strip()]
    assert counts == list(range(1, len(counts) + 1))
    for cell in code_cells(file):
        for output in cell.outputs:
            assert output.output_type != "error" or "raises-exception" in cell.metadata.get(
                "tags", []
            )


@each_notebook
def test_in_the_one_form(file):
    text = file.read_text(encoding="utf-8")
    notebook = nbformat.reads(text, as_version=4)
    nbformat.validate(notebook)
    in_form = execute.normalise(nbformat.reads(text, as_version=4), file)
    assert nbformat.writes(in_form) == text.rstrip("\n")
    outputs = json.dumps([cell.get("outputs", []) for cell in notebook.cells])
    assert not re.search(r"0x[0-9a-f]{6,}|\b\d+(\.\d+)?it/s|/(home|root|tmp)/", outputs)


def test_widgets_are_left_out():
    """A widget does nothing without a kernel; what stands beside it in the output is kept."""
    view = {"application/vnd.jupyter.widget-view+json": {"model_id": "a" * 32}, "text/plain": "w"}
    both = ({"text/plain": "still"}, view)
    outputs = [nbformat.v4.new_output("display_data", data=data) for data in both]
    cell = nbformat.v4.new_code_cell("look_inside()", outputs=outputs)
    notebook = nbformat.v4.new_notebook(cells=[cell], metadata={"widgets": {"state": {}}})
    done = execute.normalise(notebook, NOTEBOOKS[0])
    assert [output.data for output in done.cells[0].outputs] == [{"text/plain": "still"}]
    assert "widgets" not in done.metadata


@each_notebook
def test_what_is_not_compared_asserts(file):
    for cell in code_cells(file):
        tags = set(cell.metadata.get("tags", []))
        if tags & {"nbval-ignore-output", "nbval-skip"} and "setup" not in tags:
            nodes = ast.walk(ast.parse(cell.source))
            assert any(isinstance(node, ast.Assert) for node in nodes), (
                f"not compared, and asserts nothing: {cell.source[:60]!r}"
            )


@each_notebook
def test_set_up_cell_is_the_same(file):
    cells = [cell for cell in code_cells(file) if "setup" in cell.metadata.get("tags", [])]
    assert [cell.source for cell in cells] == [address.SET_UP]


@each_notebook
def test_colab_is_asked_for_a_gpu_where_it_serves(file):
    """Where something is computed on the reader's `device`: Colab reads these entries, and no
    others. (The project hands `device` to its check, with all its names.)"""
    sources = [cell.source for cell in code_cells(file) if not cell.source.startswith("#| export")]
    there = r"\.to\(\s*device\s*\)|device=device\b|, device\)|check\(\"project.translation"
    serves = any(re.search(there, source) for source in sources)
    asked = {"accelerator": "GPU", "colab": {"gpuType": "T4"}}
    metadata = nbformat.read(file, as_version=4).metadata
    found = {key: metadata[key] for key in asked if key in metadata}
    assert found == (asked if serves else {})
    assert serves == (execute.chapter(file) in execute.ON_A_GPU)


@each_notebook
def test_what_a_gpu_gave_is_that_of_the_same_cell(file):
    """One cell of a notebook wants a GPU or shows what it said on one: benchmarks/gpu.py."""
    sources = [cell.source for cell in code_cells(file) if "on_a_gpu(" in cell.source]
    assert len(sources) == (execute.chapter(file) in (2, 16, 18))
    for source in sources:
        assert "else:\n    print(" in source and f'results.on_a_gpu("{file.stem}"))' in source


@each_notebook
def test_plain_commonmark(file):
    for cell in nbformat.read(file, as_version=4).cells:
        if cell.cell_type == "markdown":
            assert not re.search(
                r"^:::|^```\{|\{(eq|ref|cite|py:\w+|doc|numref)[:\w]*\}`", cell.source, re.M
            ), cell.source[:200]


@each_notebook
def test_nothing_is_said_twice(file):
    said = []
    for cell in nbformat.read(file, as_version=4).cells:
        parts = cell.source.split("\n\n") if cell.cell_type == "markdown" else [cell.source]
        said += [part for part in parts if len(part) > 80]
    assert not [part for part, times in Counter(said).items() if times > 1]


@each_notebook
def test_figures_speak(file):
    """Every figure has a caption and a text for those who cannot see it."""
    for cell in code_cells(file):
        if any(
            "image/svg+xml" in o.get("data", {}) or "image/png" in o.get("data", {})
            for o in cell.outputs
        ):
            figure = cell.metadata.get("mystnb", {})
            assert len(figure.get("image", {}).get("alt", "")) > 20, cell.source[:80]
            assert len(figure.get("figure", {}).get("caption", "")) > 20, cell.source[:80]


def test_the_running_sentence_is_the_same():
    """Part II follows nine words and their numbers by hand, in every chapter."""
    part_two = [file for file in NOTEBOOKS if execute.chapter(file) in range(4, 11)]
    cells = [
        [cell.source for cell in code_cells(file) if cell.source.startswith('words = "Bark is')]
        for file in part_two
    ]
    assert len(part_two) == 7 and all(found == cells[0] and len(found) == 1 for found in cells)


ELSEWHERE = {  # words of others' programs, of the exercises, of the shell, and a piece of a word
    "01_tokens": {"cha", "progress"},
    "10_sublayers": {"transformer_base_v1", "transformer_base_v2"},
    "12_training": {"LambdaLR", "autocast"},
    "13_decoding": {"_is_not_finished", "eff", "patience", "smooth"},
    "14_translation": {"sacremoses"},
    "16_families": {"ALLYOUNEED_DATA"},
    "19_scaling": {"RANK", "WORLD_SIZE", "nccl"},
    "project": {"MHA", "PositionalEncoding", "subsequent_mask"},
}


@functools.cache
def names_of_the_package() -> set[str]:
    trees = [ast.parse(f.read_text("utf-8")) for f in (ROOT / "src/allyouneed").glob("*.py")]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    found = (getattr(node, kind, 0) for node in nodes for kind in ("id", "attr", "name", "arg"))
    return {name for name in found if isinstance(name, str)}


@each_notebook
def test_names_in_the_text_are_names_of_code(file):
    """A name in the text is one of the chapter's code or of the package: none is left
    over from before a renaming."""
    code = "\n".join(cell.source for cell in code_cells(file))
    known, named = names_of_the_package() | set(re.findall(r"\w+", code)), set()
    for cell in nbformat.read(file, as_version=4).cells:
        if cell.cell_type == "markdown":
            prose = re.sub(r"```.*?```", "", cell.source, flags=re.DOTALL)
            named |= set(re.findall(r"`([A-Za-z_]\w*)(?:\(\))?`", prose))
    assert named - known <= ELSEWHERE.get(file.stem, set())


def test_address_stands_in_one_place():
    assert address.differences() == []
