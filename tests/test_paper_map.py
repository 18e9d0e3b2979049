"""The page that maps the paper to the book is complete, and what it points to exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "book" / "paper.md"
TEXT = PAGE.read_text(encoding="utf-8")
ENTRIES = [
    re.split(r"(?<!\\)\|", line)[1].strip() for line in TEXT.splitlines() if line.startswith("|")
]

SECTIONS = [
    "Abstract",
    "1 Introduction",
    "2 Background",
    "3 Model Architecture",
    "3.1 Encoder and Decoder Stacks",
    "3.2 Attention",
    "3.2.1 Scaled Dot-Product Attention",
    "3.2.2 Multi-Head Attention",
    "3.2.3 Applications of Attention in our Model",
    "3.3 Position-wise Feed-Forward Networks",
    "3.4 Embeddings and Softmax",
    "3.5 Positional Encoding",
    "4 Why Self-Attention",
    "5 Training",
    "5.1 Training Data and Batching",
    "5.2 Hardware and Schedule",
    "5.3 Optimizer",
    "5.4 Regularization",
    "6 Results",
    "6.1 Machine Translation",
    "6.2 Model Variations",
    "6.3 English Constituency Parsing",
    "7 Conclusion",
    "Attention Visualizations",
]
EQUATIONS = [
    "Equation (1)", "Equation (2)", "Equation (3)",
    "MultiHead", "head_i", "Sub-layer", "PE, even", "PE, odd",
]  # fmt: skip
FIGURES = ["Figure 1", "Figure 2, left", "Figure 2, right", "Figure 3", "Figure 4", "Figure 5"]
TABLES = ["Table 1", "Table 2", "Table 3, variations", "Table 4"]
TABLES += [f"Table 3, rows ({letter})" for letter in "ABCD"] + ["Table 3, row (E)"]


def mentions(text: str) -> list[tuple[int, str | None]]:
    """Return (chapter, the notebook it links to or None)."""
    found = re.findall(r"\[Chapter (\d+)\]\(([^)]*)\)|\bChapter (\d+)", text)
    return [(int(linked or plain), link or None) for linked, link, plain in found]


def defined(module: str) -> set[str]:
    """Return the public names that `allyouneed.<module>` defines, read without importing it."""
    package = ROOT / "src" / "allyouneed"
    file = package / f"{module}.py"
    file = file if file.exists() else package / module / "__init__.py"
    if not file.exists():
        return set()
    names = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {
                n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)
            }
        elif isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
    return names


@pytest.mark.parametrize("section", SECTIONS)
def test_every_section_has_a_row(section: str) -> None:
    assert section in ENTRIES


@pytest.mark.parametrize("item", EQUATIONS + FIGURES + TABLES)
def test_every_equation_figure_and_table_has_a_row(item: str) -> None:
    rows = [entry for entry in ENTRIES if re.match(rf"{re.escape(item)}(?!\d)[,: ]", entry + " ")]
    assert len(rows) == 1, f"{item}: expected one row, got {rows}"


def test_every_row_says_where() -> None:
    map_ = TEXT.split("## The numbers to remember")[0]
    for line in map_.splitlines():
        if line.startswith("|") and not line.startswith(("|---", "| in the paper")):
            assert mentions(line), f"names no chapter: {line}"


def test_every_chapter_is_linked() -> None:
    """Wherever one is named, by a link to its notebook."""
    assert mentions(TEXT)
    for chapter, link in mentions(TEXT):
        assert link, f"Chapter {chapter} is named without a link"
        file = (PAGE.parent / link).resolve()
        assert file.exists(), f"{link} does not exist"
        assert file.name.startswith(f"{chapter:02}_"), f"Chapter {chapter} links to {link}"


def test_every_name_exists() -> None:
    names = re.findall(r"`(?:allyouneed\.)?([a-z]\w*)\.(\w+)`", TEXT)
    assert names
    for module, name in names:
        assert name in defined(module), f"allyouneed.{module}.{name} does not exist"


def test_the_first_page_shows_what_check_says(capsys: pytest.CaptureFixture[str]) -> None:
    from allyouneed.exercises import check

    intro = (ROOT / "book" / "intro.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", intro, re.S)[1]
    shown = re.search(r"```text\n(.*?)```", intro, re.S)[1]
    exec(code, {"check": check})
    assert capsys.readouterr().out.split() == shown.split()  # long lines are broken on the page
