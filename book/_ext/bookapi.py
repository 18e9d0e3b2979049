"""The directive {api}: one module of the package, read from its source without importing it.

    ```{api} allyouneed.tokens
    ```

shows what the module is for, links to its chapter and its source, and every public function and
class with its signature and docstring (which is Markdown). Pages are built without PyTorch, so
nothing is imported here; signatures are as they are written, shapes and all.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).parents[2]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def is_public(node: ast.AST) -> bool:
    return isinstance(node, (*FUNCTIONS, ast.ClassDef)) and not node.name.startswith("_")


def signature(function: ast.FunctionDef, method: bool = False) -> str:
    """The parameters and the result as written, without `self` and `cls`."""
    arguments = function.args
    if method and arguments.args and arguments.args[0].arg in {"self", "cls"}:
        arguments.args = arguments.args[1:]
    result = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    return f"({ast.unparse(arguments)}){result}"


def class_signature(node: ast.ClassDef) -> str:
    """The parameters of __init__, or the fields of a dataclass or named tuple."""
    for item in node.body:
        if isinstance(item, FUNCTIONS) and item.name == "__init__":
            item.returns = None
            return signature(item, method=True)
    fields = [ast.unparse(item) for item in node.body if isinstance(item, ast.AnnAssign)]
    return f"({', '.join(fields)})"


def entry(node, kind: str, depth: int) -> list[str]:
    """MyST lines for a function, class or method; a class holds its public methods."""
    decorators = {ast.unparse(d) for d in getattr(node, "decorator_list", [])}
    if isinstance(node, ast.ClassDef):
        head = node.name + class_signature(node)
    else:
        head = node.name + signature(node, method=kind == "method")
    fence = ":" * (9 - depth)
    options = [f":{d}:" for d in ("classmethod", "staticmethod") if d in decorators]
    if decorators & {"property", "cached_property"}:
        kind, head = "property", node.name
    lines = [f"{fence}{{py:{kind}}} {head}", *options, "", ast.get_docstring(node) or "", ""]
    if isinstance(node, ast.ClassDef):
        for item in filter(is_public, node.body):
            if isinstance(item, FUNCTIONS):
                lines += entry(item, "method", depth + 1)
    return [*lines, fence, ""]


def definitions(file: Path) -> list[ast.AST]:
    """What a module defines, and what a package takes from its own submodules."""
    found = []
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if is_public(node):
            found.append(node)
        elif isinstance(node, ast.ImportFrom) and node.level == 1 and file.name == "__init__.py":
            names = {alias.name for alias in node.names}
            there = definitions(file.parent / f"{node.module}.py")
            found += [item for item in there if item.name in names]
    return found


class Module(SphinxDirective):
    """The directive; its argument is the module's full name."""

    required_arguments = 1

    def run(self):
        name = self.arguments[0]
        file = ROOT / "src" / Path(*name.split("."))
        file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
        if not file.exists():
            raise self.error(f"api: there is no {file.relative_to(ROOT)}")
        for source in {file, *file.parent.glob("*.py")}:
            self.env.note_dependency(str(source))
        text, path = file.read_text(encoding="utf-8"), file.relative_to(ROOT).as_posix()
        notebook = re.search(r"^# Made from notebooks/(\S+)", text, re.M)
        origin = f"Made in [](../notebooks/{notebook[1]}), kept" if notebook else "Written by hand"
        url = f"{self.config.html_theme_options['repository_url']}/blob/main/{path}"
        lines = [
            f":::{{py:module}} {name}",
            ":::",
            "",
            ast.get_docstring(ast.parse(text)) or "",
            "",
        ]
        lines += [f"{origin} in [`{path}`]({url}).", ""]
        for node in definitions(file):
            lines += entry(node, "class" if isinstance(node, ast.ClassDef) else "function", 0)
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app):
    app.add_directive("api", Module)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
