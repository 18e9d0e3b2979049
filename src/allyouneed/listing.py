"""The package's own source as chapters show it: read from the modules, and never copied.

Written by hand. `listing.of(attention)` is the last line of a cell; below it stands the code that
runs, coloured, without docstrings and without the checks of arguments. How many lines are left out
stands at its head. The text is `listing.of(attention).code`.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator


def is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def is_check(node: ast.stmt) -> bool:
    """Whether a statement does nothing but raise an error for arguments that do not fit."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return getattr(node.value.func, "id", "").startswith("check_")
    if isinstance(node, ast.If):
        return not node.orelse and all(isinstance(s, ast.Raise) or is_check(s) for s in node.body)
    if isinstance(node, ast.For):  # what it gives names to, it checks
        checks = [is_check(s) for s in node.body if not isinstance(s, ast.Assign)]
        return not node.orelse and bool(checks) and all(checks)
    return False


def left_out(statements: list[ast.stmt]) -> Iterator[tuple[str, int, int]]:
    """What is left out of some statements: what it is, its first line and its last."""
    for one in statements:
        inside = getattr(one, "body", []) + getattr(one, "orelse", [])
        essence = [each for each in inside if not is_docstring(each)]
        is_function = isinstance(one, ast.FunctionDef)
        if is_docstring(one):
            yield "docstrings", one.lineno, one.end_lineno
        elif is_check(one) or (is_function and all(map(is_check, essence))):
            yield "checks", one.lineno, one.end_lineno
        else:
            yield from left_out(inside)


def shortened(source: str) -> tuple[str, Counter[str]]:
    """Source without docstrings and checks, every other line as it is; how many lines are out."""
    lines, count = textwrap.dedent(source).rstrip().split("\n"), Counter()
    for kind, first, last in left_out(ast.parse(textwrap.dedent(source)).body):
        count[kind] += last - first + 1
        lines[first - 1 : last] = [None] * (last - first + 1)
    text = "\n".join(line for line in lines if line is not None)
    text = re.sub(r"(?<=:)\n\n+(?= )", "\n", text)  # what followed a docstring
    return re.sub(r"\n\n\n+(?= )", "\n\n", text).rstrip(), count


class Listing:
    """Functions and classes of the package as text; a notebook shows it coloured."""

    def __init__(self, *things: Callable):
        pieces, modules, count = [], [], Counter()
        for thing in things:
            text, out = shortened(inspect.getsource(inspect.unwrap(thing)))
            pieces.append(text)
            count += out
            modules.append(thing.__module__.replace(".", "/") + ".py")
        without = " and ".join(
            f"{lines} line{'s' * (lines > 1)} of {kind}" for kind, lines in sorted(count.items())
        )
        head = (
            "# " + ", ".join(dict.fromkeys(modules)) + (f", without {without}" if without else "")
        )
        self.names = [thing.__qualname__ for thing in things]
        self.code = "\n\n\n".join(pieces) + "\n"
        self.head = "\n# ".join(textwrap.wrap(head, 86))

    def __repr__(self) -> str:
        return f"source of {', '.join(self.names)}"

    def _repr_markdown_(self) -> str:
        return f"```python\n{self.head}\n\n{self.code}```"


def of(*things: Callable) -> Listing:
    """The source of functions and classes of the package, without docstrings and checks.

    A check is a call of a function named `check_...`, or an `if` that only raises. What is left is
    the package's own text, line by line, and runs. Raises TypeError for what has no source.
    """
    for thing in things:
        if not (inspect.isfunction(thing) or inspect.isclass(thing)):
            raise TypeError(f"things: expected functions or classes, got {type(thing).__name__}")
    return Listing(*things)
