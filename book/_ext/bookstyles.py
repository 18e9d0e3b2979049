"""All style sheets of the pages in one, without the rules that no page has a use for.

A browser shows nothing before it has read every style sheet of a page. Sphinx, the theme and the
book have eight of them, 420 KB, of which most is for what this book does not have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import tinycss2
from sphinx.errors import ExtensionError
from tinycss2.ast import AtRule, Node, QualifiedRule

ONE = "style.css"  # which book/_templates/static/webpack-macros.html asks for
SHEETS = [  # in the order in which they stand in it; in `_static`
    "basic.css",
    "styles/pydata-sphinx-theme.css",
    "pygments.css",
    "styles/sphinx-book-theme.css",
    "copybutton.css",
    "mystnb.*.css",
    "book.css",
    "translator/translator.css",
]
NAME = re.compile(r"[\w-]+")
SCRIPT = re.compile(r'<script[^>]* src="([^":?]+)')
UP = re.compile(r"(url\([\"']?)\.\./")


def words_of(folder: Path) -> set[str]:
    """All that may be the name of a class or of an element: each word of the pages and scripts."""
    files = {file for file in folder.rglob("*.html") if "_static" not in file.parts}
    for page in list(files):
        scripts = SCRIPT.findall(page.read_text(encoding="utf-8"))
        files |= {(page.parent / name).resolve() for name in scripts}
    return {word for file in files for word in NAME.findall(file.read_text(encoding="utf-8"))}


def split(prelude: list[Node]) -> Iterator[list[Node]]:
    """The selectors of a rule: "a, b" has two."""
    selector = []
    for node in prelude:
        if node == ",":
            yield selector
            selector = []
        else:
            selector.append(node)
    yield selector


def needs(selector: list[Node]) -> set[str]:
    """The classes and names without which a selector fits nothing. What stands in brackets, as in
    :not(.this), is left out."""
    pairs = zip(selector, selector[1:], strict=False)
    classes = {b.value for a, b in pairs if a == "." and b.type == "ident"}
    return classes | {node.value for node in selector if node.type == "hash"}


def used(rules: list[Node], words: set[str]) -> str:
    """The rules that may fit an element of some page, as text."""
    kept = []
    for rule in rules:
        if isinstance(rule, QualifiedRule):
            selectors = [one for one in split(rule.prelude) if needs(one) <= words]
            if not selectors:
                continue
            heads = [tinycss2.serialize(one).strip() for one in selectors]
            kept.append(f"{','.join(heads)}{{{tinycss2.serialize(rule.content).strip()}}}")
        elif isinstance(rule, AtRule) and rule.lower_at_keyword in ("media", "supports", "layer"):
            inner = tinycss2.parse_rule_list(rule.content or [], True, True)
            text = used(inner, words)
            if text:
                head = tinycss2.serialize(rule.prelude).strip()
                kept.append(f"@{rule.at_keyword} {head}{{{text}}}")
        elif "Awesome" not in rule.serialize():  # icons that book.css draws itself
            kept.append(rule.serialize())
    return "\n".join(kept)


def read(sheet: Path, words: set[str]) -> str:
    """A style sheet as it stands in the one for all, a folder above `_static/styles`."""
    rules = tinycss2.parse_stylesheet(sheet.read_text(encoding="utf-8"), True, True)
    wrong = [rule for rule in rules if rule.type == "error"]
    if wrong:
        where = wrong[0]
        raise ValueError(f"{sheet}:{where.source_line}: expected a rule, {where.message}")
    text = used(rules, words)
    return UP.sub(r"\1", text) if sheet.parent.name == "styles" else text


def on_page(app, pagename: str, templatename: str, context: dict, doctree) -> None:
    """A page has no style sheets beside the one."""
    for sheet in context["css_files"]:
        name = str(sheet.filename).removeprefix("_static/")
        if not any(fnmatch(name, known) for known in SHEETS):
            raise ExtensionError(f"style sheets of {pagename}: {name} is missing in bookstyles.py")
    context["css_files"] = []


def on_build_finished(app, exception) -> None:
    if exception or app.builder.format != "html":
        return
    words, static = words_of(Path(app.outdir)), Path(app.outdir) / "_static"
    files = [file for name in SHEETS for file in sorted(static.glob(name))]
    text = "\n".join(read(file, words) for file in files)
    (static / ONE).write_text(text, encoding="utf-8")


def setup(app):
    app.connect("html-page-context", on_page, priority=950)  # after booksite
    app.connect("build-finished", on_build_finished, priority=950)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
