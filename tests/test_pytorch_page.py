"""The page of PyTorch prints what its examples print."""

from __future__ import annotations

import doctest
from pathlib import Path

PAGE = Path(__file__).parent.parent / "book/pytorch.md"


def test_its_examples_print_what_stands_there():
    failed, tried = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert tried > 20 and not failed
