"""The page of PyTorch prints what its examples print."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

PAGE = Path(__file__).parent.parent / "book/pytorch.md"


def test_its_examples_print_what_stands_there():
    blocks = re.findall(r"^```pycon\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    examples = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, PAGE.name, str(PAGE), 0)
    assert len(blocks) == 11 and len(examples.examples) > 20
    assert doctest.DocTestRunner().run(examples).failed == 0
