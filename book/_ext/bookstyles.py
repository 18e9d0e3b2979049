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
from bookpatch import outdated
from sphinx.errors import ExtensionError
from tinycss2.ast import AtRule, Node, QualifiedRule

ONE = "style.css"  # which the template asks for
TEMPLATE = Path(__file__).parents[1] / "_templates" / "static" / "webpack-macros.html"
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
OWN = SHEETS[-2:]
AWESOME = "Awesome"  # the name of the icons that book.css draws itself
NAME = re.compile(r"[\w-]+")
SCRIPT = re.compile(r'<script[^>]* src="([^":?]+)')
DATA = {"search-index.js", "words.js", "examples.js"}  # scripts that make nothing: all their words
ASKED = re.compile(r"pathto\('(_static/[^']+)'")


def words_of(folder: Path) -> set[str]:
    """All that may be the name of a class or of an element: each word of the pages and scripts."""
    files = {file for file in folder.rglob("*.html") if "_static" not in file.parts}
    scripts = {
        (page.parent / name).resolve()
        for page in files
        for name in SCRIPT.findall(page.read_text(encoding="utf-8"))
        if Path(name).name not in DATA
    }
    if not scripts:
        raise outdated("SCRIPT", "rules for what scripts make are kept", "the pages")
    texts = (file.read_text(encoding="utf-8") for file in files | scripts)
    return {word for text in texts for word in NAME.findall(text)}


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


def used(rules: list[Node], words: set[str], idle: list[str]) -> str:
    """The rules that may fit an element of some page, as text; `idle` gets what is left out."""
    kept = []
    for rule in rules:
        if isinstance(rule, QualifiedRule):
            heads = []
            for selector in split(rule.prelude):
                head = tinycss2.serialize(selector).strip()
                (heads if needs(selector) <= words else idle).append(head)
            if heads:
                kept.append(f"{','.join(heads)}{{{tinycss2.serialize(rule.content).strip()}}}")
        elif isinstance(rule, AtRule) and rule.lower_at_keyword in ("media", "supports", "layer"):
            inner = tinycss2.parse_rule_list(rule.content or [], True, True)
            text = used(inner, words, idle)
            if text:
                head = tinycss2.serialize(rule.prelude).strip()
                kept.append(f"@{rule.at_keyword} {head}{{{text}}}")
        else:
            text = rule.serialize()
            if AWESOME in text:
                idle.append(AWESOME)
            else:
                kept.append(text)
    return "\n".join(kept)


def read(sheet: Path, words: set[str], idle: list[str]) -> str:
    """A style sheet as it stands in the one for all."""
    rules = tinycss2.parse_stylesheet(sheet.read_text(encoding="utf-8"), True, True)
    wrong = [rule for rule in rules if rule.type == "error"]
    if wrong:
        where = wrong[0]
        raise ValueError(f"{sheet}:{where.source_line}: expected a rule, {where.message}")
    return used(rules, words, idle)


def one_sheet(static: Path, words: set[str]) -> str:
    """The text of all sheets. Raises ExtensionError where the theme is not what they are for."""
    texts, idle = [], {}
    for name in SHEETS:
        files, idle[name] = sorted(static.glob(name)), []
        if not files:
            why = f"what it says stands in {ONE}"
            raise outdated(f"SHEETS ({name})", why, "_static of the pages")
        texts += [read(file, words, idle[name]) for file in files]
    if not any(AWESOME in left_out for left_out in idle.values()):
        raise outdated("AWESOME", "no page loads the font with the icons", "the theme's sheets")
    for name in OWN:
        if idle[name]:
            raise ExtensionError(
                f"{name}: no page and no script has what {', '.join(idle[name])} is for. If the "
                "theme names it otherwise now, mend the selector; else take the rule out."
            )
    return "\n".join(texts)


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
    page = Path(app.builder.get_outfilename(app.config.root_doc))
    text = page.read_text(encoding="utf-8")
    for name in ASKED.findall(TEMPLATE.read_text(encoding="utf-8")):
        if name not in text:
            why = f"pages load {name} and nothing else"
            raise outdated("_templates/static/webpack-macros.html", why, page.name)
    static = Path(app.outdir) / "_static"
    style = one_sheet(static, words_of(Path(app.outdir)))
    (static / ONE).write_text(style, encoding="utf-8")


def setup(app):
    app.connect("html-page-context", on_page, priority=950)  # after booksite
    app.connect("build-finished", on_build_finished, priority=950)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
