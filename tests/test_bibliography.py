"""Whatever a chapter cites stands in the bibliography."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BIB = (ROOT / "book" / "references.bib").read_text(encoding="utf-8").lower()
PAPERS = re.compile(
    r"https?://(?:doi\.org/|arxiv\.org/abs/|(?=aclanthology\.org|proceedings\.))([^\s)>\]]+)"
)


@pytest.mark.parametrize("file", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda f: f.stem)
def test_cited_papers_are_listed(file):
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    cited = set(PAPERS.findall(text))
    assert cited
    assert [paper for paper in sorted(cited) if paper.lower() not in BIB] == []


def test_every_entry_is_spoken_of():
    keys = re.findall(r"^@\w+\{(\w+),", BIB, re.M)
    page = (ROOT / "book" / "bibliography.md").read_text(encoding="utf-8")
    assert [key for key in keys if f"`{key}`" not in page] == []
