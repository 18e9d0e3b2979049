"""The directive {module}: one module of the package, read from its source without importing it.

    ```{module} allyouneed.tokens
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
    fence, lines = ":" * (9 - depth), []
    options = [f":{d}:" for d in ("classmethod", "staticmethod") if d in decorators]
    if decorators & {"property", "cached_property"}:
        kind, head = "property", node.name
    lines = [f"{fence}{{py:{kind}}} {head}", *options, "", ast.get_docstring(node) or "", ""]
    if isinstance(node, ast.ClassDef):
        for item in filter(is_public, node.body):
            if isinstance(item, FUNCTIONS):
                lines += entry(item, "method", depth + 1)
    return [*lines, fence, ""]


class Module(SphinxDirective):
    required_arguments = 1

    def run(self):
        name = self.arguments[0]
        file = ROOT / "src" / Path(*name.split("."))
        file = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
        if not file.exists():
            raise self.error(f"module: there is no {file.relative_to(ROOT)}")
        self.env.note_dependency(str(file))
        text = file.read_text(encoding="utf-8")
        tree = ast.parse(text)
        source = file.relative_to(ROOT).as_posix()
        links = f"[source]({self.config.html_theme_options['repository_url']}/blob/main/{source})"
        notebook = re.search(r"^# Made from notebooks/(\S+)", text, re.M)
        if notebook:
            links = f"made in [](../notebooks/{notebook[1]}), " + links
        lines = [f":::{{py:module}} {name}", ":::", ""]
        lines += [ast.get_docstring(tree) or "", "", links[0].upper() + links[1:], ""]
        for node in filter(is_public, tree.body):
            lines += entry(node, "class" if isinstance(node, ast.ClassDef) else "function", 0)
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app):
    app.add_directive("module", Module)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
