"""The package's own source as chapters show it: read from the modules, and never copied.

Written by hand. `listing.of(attention)` is the last line of a cell; below it stands the code that
runs, coloured, without docstrings and without the checks of arguments. How many lines are left out
stands at its head. The text is `listing.of(attention).code`. `listing.plainly(attention)` also
leaves out what the paper's machine does without, the options in `PLAIN`; its head names these.
"""

from __future__ import annotations

import ast
import copy
import inspect
import re
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

WIDTH = 88  # of the package's exported code


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


PLAIN = {  # options, and the values at which a plain listing has them
    "return_weights": False,
    "maps": None,
    "self_maps": None,
    "cross_maps": None,
    "half_on_cpu": True,  # what is spelled out stands under this name
    "fuse": False,
}
WRITTEN_OUT = ("attend_to", "project_qkv")  # functions that stand where they are called
NAMED = {  # what the head says is left out, and in what it stood
    "return_weights": "returned weights",
    "maps": "returned weights",
    "half_on_cpu": "the fast path",
    "project_qkv": "fused products",
    ".to(": "changes of type",
}


def decided(node: ast.expr) -> tuple[object, ...]:
    """The value of an expression that the options decide, in a tuple, or else none."""
    if not any(isinstance(each, ast.Name) and each.id in PLAIN for each in ast.walk(node)):
        return ()
    try:
        return (eval(ast.unparse(node), {"__builtins__": {}} | PLAIN),)
    except NameError:  # it needs more than the options
        return ()


class Plain(ast.NodeTransformer):
    """Functions with the options at their values; `functions` are those of their module."""

    def __init__(self, functions: Mapping[str, object]):
        self.functions = functions

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        self.generic_visit(node)
        if options := len({each.arg for each in node.args.args} & set(PLAIN)):  # they stand last
            del node.args.args[-options:], node.args.defaults[-options:]
            node.returns = getattr(node.returns, "left", node.returns)  # without `| tuple[...]`
        for i, one in enumerate(node.body):
            if isinstance(one, ast.Return):
                del node.body[i + 1 :]
        return node

    def visit_If(self, node: ast.If | ast.IfExp) -> ast.AST | list[ast.stmt]:
        self.generic_visit(node)
        value = decided(node.test)
        return (node.body if value[0] else node.orelse) if value else node

    visit_IfExp = visit_If

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        return None if getattr(node.targets[0], "id", None) in PLAIN else self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        node.args = [each for each in node.args if not decided(each)]
        name = getattr(node.func, "id", getattr(node.func, "attr", None))
        if name == "to":
            return node.func.value
        if name in WRITTEN_OUT:
            source = inspect.getsource(inspect.unwrap(self.functions[name]))
            function = self.visit(ast.parse(source).body[0])
            given = dict(zip((a.arg for a in function.args.args), node.args, strict=False))
            return Placed(given).visit(function.body[-1].value)
        return node


class Placed(ast.NodeTransformer):
    """An expression with what a function is given in place of its arguments."""

    def __init__(self, given: Mapping[str, ast.expr]):
        self.given = given

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self.given.get(node.id, node)


def plain_text(source: str, functions: Mapping[str, object]) -> str:
    """Source with the options at their values; what they do not change stays as it is."""
    lines = source.split("\n")
    found = [one for one in ast.walk(ast.parse(source)) if isinstance(one, ast.FunctionDef)]
    for old in sorted(found, key=lambda one: -one.lineno):  # from below: the numbers above stay
        new = Plain(functions).visit(copy.deepcopy(old))
        if ast.dump(new) == ast.dump(old):
            continue
        same = len(new.args.args) == len(old.args.args)
        text = lines[old.lineno - 1 : old.body[0].lineno - 1] if same else signature(new)
        for one in new.body:
            text += statement(one, lines, " " * (old.col_offset + 4))
        lines[old.lineno - 1 : old.end_lineno] = text
    return "\n".join(lines)


def unparsed(node: ast.AST) -> str:
    return re.sub(r"'([^'\"]*)'", r'"\1"', ast.unparse(node))  # quotes as the package has them


def statement(one: ast.stmt, lines: list[str], pad: str) -> list[str]:
    """A statement with the comment above it: its own lines if it has not changed."""
    text = textwrap.dedent("\n".join(lines[one.lineno - 1 : one.end_lineno]))
    if ast.dump(ast.parse(text).body[0]) != ast.dump(one):
        text = unparsed(one)
        if isinstance(one, ast.Return) and isinstance(one.value, ast.Tuple):
            text = f"return {', '.join(map(unparsed, one.value.elts))}"
    above = lines[one.lineno - 2].lstrip()
    return [pad + line for line in ([above] if above.startswith("#") else []) + text.split("\n")]


def signature(function: ast.FunctionDef) -> list[str]:
    """The head of a function as lines: the arguments in one, or one a line."""
    arguments = function.args
    parts = [unparsed(each) for each in arguments.args]
    for i, value in enumerate(reversed(arguments.defaults), 1):
        parts[-i] += f" = {unparsed(value)}"
    pad, inside = " " * function.col_offset, ", ".join(parts)
    below = [inside] if len(pad + inside) <= WIDTH - 4 else [f"{part}," for part in parts]
    end = f") -> {unparsed(function.returns)}:"
    return [pad + line for line in (f"def {function.name}(", *("    " + x for x in below), end)]


class Listing:
    """Functions and classes of the package as text; a notebook shows it coloured."""

    def __init__(self, *things: Callable, plain: bool = False):
        pieces, modules, count, options = [], [], Counter(), set()
        for thing in things:
            text, out = shortened(inspect.getsource(inspect.unwrap(thing)))
            count += out
            if plain:
                options |= {what for name, what in NAMED.items() if name in text}
                text = plain_text(text, vars(sys.modules[thing.__module__]))
            pieces.append(text)
            modules.append(thing.__module__.replace(".", "/") + ".py")
        lines = [f"{n} line{'s' * (n > 1)} of {kind}" for kind, n in sorted(count.items())]
        out = sorted(options) if plain else lines
        without = " and ".join([", ".join(out[:-1]), out[-1]] if len(out) > 1 else out)
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
    check_source(*things)
    return Listing(*things)


def plainly(*things: Callable) -> Listing:
    """The source of functions and classes with the options in `PLAIN` at their values.

    The arguments of options are left out, with the branches that are not taken, and so are changes
    of type; the functions in `WRITTEN_OUT` stand where they are called. The head names these. All
    else is as in `of`, and it runs. Raises TypeError for what has no source.
    """
    check_source(*things)
    return Listing(*things, plain=True)


def check_source(*things: Callable) -> None:
    for thing in things:
        if not (inspect.isfunction(thing) or inspect.isclass(thing)):
            raise TypeError(f"things: expected functions or classes, got {type(thing).__name__}")
