"""The interactive pictures: what all share, and that each chapter's stands as it should."""

from __future__ import annotations

import json
import math
import re
import sys
from collections import Counter
from pathlib import Path

import nbformat
import numpy as np
import pytest
import torch

from allyouneed import pictures

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
START = re.compile(r'<div class="moving ([\w-]+)" id="([\w-]+)">')


def cells_with_pictures(file: Path):
    for cell in nbformat.read(file, as_version=4).cells:
        for output in cell.get("outputs", []):
            html = output.get("data", {}).get("text/html", "")
            if found := START.match(html):
                yield cell, found[1], found[2], html


THREE_PARTS = [file for file in NOTEBOOKS if file.name < "16"]  # and the overview


@pytest.mark.parametrize("file", THREE_PARTS, ids=lambda file: file.stem)
def test_every_chapter_of_three_parts_has_one_that_moves(file):
    assert list(cells_with_pictures(file)), file.name


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_each_has_a_still_one_and_is_of_today(file):
    """Beside the moving picture stands the still one; its script is that of the package."""
    kinds: Counter[str] = Counter()
    for cell, kind, name, html in cells_with_pictures(file):
        kinds[kind] += 1
        assert name == f"{kind}-{kinds[kind]}"
        assert any("image/svg+xml" in output.get("data", {}) for output in cell.outputs), name
        assert pictures.script(kind, name) in html, f"{name}: run tools/redraw.py"


def test_numbers_of_every_sort_become_json():
    picture = pictures.interactive(
        "attention-rows", weights=torch.eye(2), keys=("a", "b"), values=np.array([1 / 3]), n=3
    )
    assert picture.numbers == {
        "weights": [[1.0, 0.0], [0.0, 1.0]],
        "keys": ["a", "b"],
        "values": [0.3333],
        "n": 3,
    }


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_numbers_must_be_finite(bad):
    with pytest.raises(ValueError, match="numbers: expected finite ones, got"):
        pictures.interactive("attention-rows", weights=[bad])


def test_the_kind_must_be_there():
    with pytest.raises(ValueError, match="kind: expected one of .*attention-rows.*, got 'rows'"):
        pictures.interactive("rows")


def test_no_word_ends_the_script():
    html = pictures.interactive("attention-rows", keys=["</script><b>"])._repr_html_()
    assert html.count("</script>") == 2
    data = re.search(r'json">(.*)</script>', html)[1]
    assert json.loads(data)["keys"] == ["</script><b>"]
