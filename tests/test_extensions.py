"""The book's Sphinx extensions, on small pieces."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "book" / "_ext"))
import bookapi  # noqa: E402
import booknotebooks  # noqa: E402


def test_a_quote_with_a_kind_becomes_a_box():
    text = "Before.\n\n> **Exercise 1.2 (count, easy).** Write `f`.\n>\n> More.\n\n> plain quote\n"
    expected = (
        "Before.\n\n:::::{admonition} Exercise 1.2 (count, easy)\n:class: exercise\n"
        ":name: exercise-1-2\n\nWrite `f`.\n\nMore.\n:::::\n\n> plain quote\n"
    )
    assert booknotebooks.QUOTE.sub(booknotebooks.box, text) == expected
    note = booknotebooks.QUOTE.sub(booknotebooks.box, "> **From the paper.** Words.")
    assert ":class: from-the-paper\n\nWords." in note


def test_exported_cells_lose_the_directive_and_gain_a_tag():
    cell = {"cell_type": "code", "source": "#| export\nx = 1", "metadata": {}}
    page = booknotebooks.page_cell(cell)
    assert page["source"] == "x = 1" and page["metadata"]["tags"] == ["exported"]
    assert cell["source"].startswith("#|")


def test_a_solution_is_folded_with_its_output():
    source = '#@title Solution {display-mode: "form"}\nf = 1'
    cell = {"cell_type": "code", "source": source, "metadata": {"tags": ["hide-input", "solution"]}}
    page = booknotebooks.page_cell(cell)
    assert page["source"] == "f = 1" and "hide-cell" in page["metadata"]["tags"]
    assert page["metadata"]["mystnb"]["code_prompt_show"] == "Show a solution"


def test_signatures_are_as_written():
    code = 'def f(q: Float[Tensor, "B T K"], *, mask=None) -> Float[Tensor, "B T"]: ...'
    wanted = "(q: Float[Tensor, 'B T K'], *, mask=None) -> Float[Tensor, 'B T']"
    assert bookapi.signature(ast.parse(code).body[0]) == wanted
    method = ast.parse("class A:\n    def f(self, x: int = 3): ...").body[0].body[0]
    assert bookapi.signature(method, method=True) == "(x: int=3)"
