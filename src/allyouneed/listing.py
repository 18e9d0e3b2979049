"""The package's own source as chapters show it: read from the modules, and never copied.

Written by hand. `listing.of(attention)` is the last line of a cell; below it stands the code that
runs, coloured, without docstrings and without the checks of arguments. How many lines are left out
stands at its head. The text is `listing.of(attention).code`. `listing.plainly(attention)` also
leaves out what the paper's machine does without, the options in `PLAIN`.
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


PLAIN = {  # options, the values at which a plain listing has them, and what is left out so
    "return_weights": (False, "returned weights"),
    "maps": (None, "returned weights"),
    "self_maps": (None, "returned weights"),
    "cross_maps": (None, "returned weights"),
    "half_on_cpu": (True, "the fast path"),  # what is spelled out stands under this name
    "fuse": (False, "fused products"),
}
DROPPED = {"to": "changes of type"}  # methods whose calls are left out
WRITTEN_OUT = ("attend_to", "project_qkv")  # functions that stand where they are called


def unparsed(node: ast.AST) -> str:
    return re.sub(r"'([^'\"]*)'", r'"\1"', ast.unparse(node))  # quotes as the package has them


def known(node: ast.expr) -> tuple[object] | None:
    """The value of an expression that the options decide, in a tuple, or None."""
    if isinstance(node, ast.Constant) and hasattr(node, "option"):
        return (node.value,)
    if isinstance(node, ast.Name) and node.id in PLAIN:
        return (PLAIN[node.id][0],)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        value = known(node.operand)
        return value and (not value[0],)
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is):  # `... is None`
        value = known(node.left)
        return value and (value[0] is ast.literal_eval(node.comparators[0]),)
    if isinstance(node, ast.BoolOp):
        either, values = isinstance(node.op, ast.Or), [known(each) for each in node.values]
        decisive = [v for v in values if v and bool(v[0]) is either]
        return decisive[0] if decisive else values[-1] if all(values) else None
    return None


class Plain(ast.NodeTransformer):
    """Expressions with the options of `PLAIN` at their values; `out` is what was left out."""

    def __init__(self, functions: Mapping[str, object]):
        self.functions, self.out = functions, set()

    def visit(self, node: ast.AST) -> ast.AST:
        if isinstance(node, ast.expr) and not isinstance(node, ast.Constant):
            if value := known(node):
                names = (n.id for n in ast.walk(node) if isinstance(n, ast.Name))
                self.out |= {PLAIN[name][1] for name in names if name in PLAIN}
                constant = ast.Constant(value[0])
                constant.option = True
                return constant
        return super().visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.AST:
        self.generic_visit(node)
        node.values = [each for each in node.values if not hasattr(each, "option")]
        return node.values[0] if len(node.values) == 1 else node

    def visit_IfExp(self, node: ast.IfExp) -> ast.AST:
        if value := known(self.visit(node.test)):
            return self.visit(node.body if value[0] else node.orelse)
        return self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        name = getattr(node.func, "id", getattr(node.func, "attr", None))
        while node.args and hasattr(node.args[-1], "option"):
            node.args.pop()
        if name in DROPPED and isinstance(node.func, ast.Attribute):
            self.out.add(DROPPED[name])
            return node.func.value
        if name in WRITTEN_OUT:
            source = shortened(inspect.getsource(inspect.unwrap(self.functions[name])))[0]
            function = ast.parse(self.text(source)).body[0]
            places = dict(zip((a.arg for a in function.args.args), node.args, strict=False))
            return Placed(places).visit(function.body[-1].value)
        return node

    def text(self, source: str) -> str:
        return "\n".join(self.block(ast.parse(source).body, source.split("\n"), 0)[0])

    def block(self, body: list[ast.stmt], lines: list[str], done: int) -> tuple[list[str], bool]:
        """Statements as lines, from line `done` of the source on; whether the last returns."""
        result: list[str] = []
        for one in body:
            first = min([one.lineno, *(d.lineno for d in getattr(one, "decorator_list", []))]) - 1
            before, done = lines[done:first], one.end_lineno
            shown, returns = self.statement(one, lines, first)
            if shown:
                result += [*before, *shown]
            if returns:
                return result, True
        return result, False

    def statement(self, one: ast.stmt, lines: list[str], first: int) -> tuple[list[str], bool]:
        test = self.visit(copy.deepcopy(one.test)) if isinstance(one, ast.If) else None
        if test and (value := known(test)):
            taken = one.body if value[0] else one.orelse
            shown, returns = self.block(taken, lines, taken[0].lineno - 1) if taken else ([], False)
            if taken and taken[0].col_offset == one.col_offset:  # an `elif`
                return [line.replace("elif", "if", 1) for line in shown[:1]] + shown[1:], returns
            return [line.removeprefix("    ") for line in shown], returns
        if isinstance(one, ast.Assign) and getattr(one.targets[0], "id", None) in PLAIN:
            self.out.add(PLAIN[one.targets[0].id][1])
            return [], False
        if inside := getattr(one, "body", None):
            start = inside[0].lineno - 1
            while not lines[start - 1].strip() or lines[start - 1].lstrip().startswith("#"):
                start -= 1
            head = lines[first:start]
            if isinstance(one, ast.FunctionDef):
                head = self.signature(one) or head
            elif test and ast.dump(test) != ast.dump(one.test):
                head = [" " * one.col_offset + f"if {unparsed(test)}:"]
            end = inside[-1].end_lineno
            return head + self.block(inside, lines, start)[0] + lines[end : one.end_lineno], False
        written, returns = lines[first : one.end_lineno], isinstance(one, ast.Return)
        plain = self.visit(copy.deepcopy(one))
        if ast.dump(plain) == ast.dump(one):
            return written, returns
        text = unparsed(plain)
        if returns and isinstance(plain.value, ast.Tuple):
            text = f"return {unparsed(plain.value)[1:-1]}"
        return [" " * one.col_offset + text], returns

    def signature(self, function: ast.FunctionDef) -> list[str] | None:
        """The head of a function without its options, or None if it has none."""
        given = function.args.args
        if not (options := {a.arg for a in given} & set(PLAIN)):
            return None
        self.out |= {PLAIN[name][1] for name in options}
        values = [None] * (len(given) - len(function.args.defaults)) + function.args.defaults
        pairs = [(a, v) for a, v in zip(given, values, strict=True) if a.arg not in options]
        parts = [unparsed(a) + (f" = {unparsed(v)}" if v else "") for a, v in pairs]
        gives = function.returns
        if isinstance(gives, ast.BinOp) and unparsed(gives.right).startswith("tuple"):
            gives = gives.left  # with an option the function gives more
        start = f"def {function.name}("
        end = f") -> {unparsed(gives)}:" if gives else "):"
        room, pad = WIDTH - function.col_offset, " " * function.col_offset
        if len(start + ", ".join(parts) + end) <= room:
            return [pad + start + ", ".join(parts) + end]
        if len(", ".join(parts)) <= room - 4:
            parts = [", ".join(parts)]
        else:
            parts = [f"{part}," for part in parts]
        return [pad + start, *(f"{pad}    {part}" for part in parts), pad + end]


class Placed(ast.NodeTransformer):
    """The body of a function with what it is given in place of its arguments."""

    def __init__(self, places: Mapping[str, ast.expr]):
        self.places = places

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return self.places.get(node.id, node)


class Listing:
    """Functions and classes of the package as text; a notebook shows it coloured."""

    def __init__(self, *things: Callable, plain: bool = False):
        pieces, modules, count, more = [], [], Counter(), set()
        for thing in things:
            text, out = shortened(inspect.getsource(inspect.unwrap(thing)))
            if plain:
                work = Plain(vars(sys.modules[thing.__module__]))
                text = work.text(text)
                more |= work.out
            pieces.append(text)
            count += out
            modules.append(thing.__module__.replace(".", "/") + ".py")
        out = [f"{n} line{'s' * (n > 1)} of {kind}" for kind, n in sorted(count.items())]
        out += sorted(more)
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

    The arguments of options are left out, with the branches that are not taken; so are calls of
    `DROPPED`; the functions in `WRITTEN_OUT` stand where they are called. What is left out stands
    at the head. All else is as in `of`, and it runs. Raises TypeError for what has no source.
    """
    check_source(*things)
    return Listing(*things, plain=True)


def check_source(*things: Callable) -> None:
    for thing in things:
        if not (inspect.isfunction(thing) or inspect.isclass(thing)):
            raise TypeError(f"things: expected functions or classes, got {type(thing).__name__}")
