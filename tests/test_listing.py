"""The package's source as chapters show it: what is left out, and that the rest is as it was."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

import pytest

from allyouneed import listing
from allyouneed.attention import attention
from allyouneed.positions import LearnedPositions
from allyouneed.transformer import TransformerConfig

SOURCE = '''\
    class A(B):
        """Words.

        More words.
        """

        size: int = 3

        def __post_init__(self):
            """Only checks."""
            for name in ("a", "b"):
                value = getattr(self, name)
                if value < 1:
                    raise ValueError(f"{name}: {value}")

        def f(self, x):
            """Words."""
            check_vectors(x)
            if x < 0:
                raise ValueError("x")
            elif x > 3:
                x = 3
            if x is None:
                check_more(x)
                x = 1  # a comment
            for y in x:
                self.z = y
            return """not a docstring"""
'''
LEFT = '''class A(B):
    size: int = 3

    def f(self, x):
        if x < 0:
            raise ValueError("x")
        elif x > 3:
            x = 3
        if x is None:
            x = 1  # a comment
        for y in x:
            self.z = y
        return """not a docstring"""'''


def test_docstrings_and_checks_are_left_out_and_counted():
    text, count = listing.shortened(SOURCE)
    assert text == LEFT
    assert count == {"docstrings": 5, "checks": 8}


@pytest.mark.parametrize("thing", [attention, LearnedPositions, TransformerConfig])
def test_every_line_is_the_packages(thing):
    lines = inspect.getsource(inspect.unwrap(thing)).splitlines()
    shown = listing.of(thing).code.splitlines()
    places = iter(lines)
    assert len(shown) < len(lines) and all(line in places for line in shown)  # and in its order
    assert "Raises" not in "".join(shown) and "expected" not in "".join(shown)


@dataclass(frozen=True)
class Sizes:
    """Words."""

    width: int = 8


def test_what_a_notebook_gets():
    # of a class of the package, the check of shapes can hide the decorator
    both = listing.of(attention, Sizes)
    text = both._repr_markdown_()
    assert repr(both) == "source of attention, Sizes"
    assert text.startswith("```python\n# allyouneed/attention.py, test_listing.py, without")
    assert text.endswith("\n```") and "lines of checks" in text
    assert "\n\n\n@dataclass(frozen=True)\nclass Sizes:\n    width: int = 8\n" in text


def test_what_has_no_source():
    with pytest.raises(TypeError, match="things: expected functions or classes, got builtin"):
        listing.of(len)
