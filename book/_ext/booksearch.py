"""What the search looks through: one entry for each section, word of the glossary, name of the
notation, exercise and exported name, with its text. book/_static/search.js ranks them.
What readers type where the book has other words stands in book/search.toml, by pages and sections.

Sphinx's own index knows words of pages only, and has to fetch each page to show an extract. This
one is a script, so that a page that is opened as a file can read it, too.
"""

from __future__ import annotations

import builtins
import json
import keyword
import re
import tomllib
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.errors import ExtensionError

INDEX = "search-index.js"
TYPED = Path(__file__).parents[1] / "search.toml"
NAME = re.compile(r"[^\W\d]\w{2,}")
PYTHONS = {*keyword.kwlist, *dir(builtins), "self"}  # names that stand in all code
SPACE = re.compile(r"\s+")
PART = r"{((?:[^{}]|{[^{}]*})*)}"
FRACTION = re.compile(rf"\\d?frac{PART}{PART}")
WORD = re.compile(r"\\(sin|cos|exp|log|max|min)\b")  # what of TeX's commands is read as a word
DOTS = re.compile(r"\\[cl]?dots\b")
SILENT = nodes.title | nodes.comment | nodes.raw | nodes.system_message
NOTATION = "book/notation"
KINDS = {
    "notebooks/project": "project",
    "notebooks/": "chapter",
    "book/glossary": "glossary",
    "book/api": "api",
}


def kind_of(docname: str) -> str:
    return next((kind for start, kind in KINDS.items() if docname.startswith(start)), "page")


def plain(node: nodes.Node) -> str:
    """The words of a node as they stand in the page, TeX without its signs."""
    if isinstance(node, nodes.Text):
        return str(node)
    if isinstance(node, nodes.math | nodes.math_block):
        tex = FRACTION.sub(r"(\1)/(\2)", DOTS.sub("…", node.astext()).replace(r"\sqrt", "√"))
        return " " + re.sub(r"\\[a-zA-Z]+\*?|\\[!,;:]|[\\{}$&]", "", WORD.sub(r"\1", tex)) + " "
    if isinstance(node, nodes.raw):
        return " "  # the words on both sides of a line's end are two
    if isinstance(node, nodes.comment | nodes.literal_block | nodes.image | nodes.system_message):
        return ""
    between = "" if isinstance(node, nodes.TextElement) else " "
    return between.join(map(plain, node.children))


def numbered(box: nodes.admonition) -> str | None:
    """The number of an exercise, "6-1" for 6.1."""
    found = re.match(r"Exercise ([\d.]*\d)", plain(next(box.findall(nodes.title))))
    return found and found[1].replace(".", "-")


def named(row: nodes.row) -> str:
    """What a row of the notation explains, in its last cell: "d_ff", "BOS <bos>"."""
    names = [plain(name) for cell in row[:-1] for name in cell.findall(nodes.literal)]
    longer = len(row) > 3 and any(len(name) > 1 for name in names)
    return ", ".join(dict.fromkeys(names)) if longer else ""


class Entries:
    """The entries of one document: [anchor, title, kind, text, names in its code, chapter]."""

    def __init__(self, docname: str):
        self.docname, self.found = docname, []

    def add(self, anchor: str, title: str, kind: str | None = None, chapter: str = "") -> list:
        self.found.append([anchor, title.strip(), kind or kind_of(self.docname), [], [], chapter])
        return self.found[-1]

    def read(self, node: nodes.Node, entry: list | None) -> None:
        """Put what a node says into its section's entry, or into one of its own."""
        for child in node.children:
            if isinstance(child, nodes.section):
                title = plain(next(child.findall(nodes.title)))
                self.read(child, self.add(child["ids"][0], title))
            elif isinstance(child, SILENT) or entry is None:
                continue
            elif isinstance(child, nodes.literal_block):
                code = "cell_output" not in child.parent.parent.get("classes", [])
                entry[4] += NAME.findall(child.astext()) if code else []
            elif isinstance(child, nodes.admonition) and (number := numbered(child)):
                title = plain(next(child.findall(nodes.title)))
                self.read(child, self.add(f"exercise-{number}", title, "exercise"))
            elif isinstance(child, nodes.definition_list_item) and child[0].get("ids"):
                leads = [link["reftarget"] for link in child.findall(addnodes.pending_xref)]
                chapter = next((link for link in leads if "notebooks/" in link), "")
                term = self.add(child[0]["ids"][0], plain(child[0]), "term", Path(chapter).stem)
                term[3].append(plain(child[-1]))
            elif isinstance(child, nodes.row) and self.docname == NOTATION and named(child):
                anchor = next(iter(child["ids"]), entry[0])
                self.add(anchor, named(child), "symbol")[3].append(plain(child[-1]))
            elif isinstance(child, addnodes.desc):
                name = child[0].get("fullname", "") if child[0].get("ids") else ""
                own = self.add(child[0]["ids"][0], name, "name") if name else entry
                self.read(child[-1], own)
            elif isinstance(child, nodes.TextElement):
                entry[3].append(plain(child))
            elif isinstance(child, nodes.Element):
                self.read(child, entry)


def entries(docname: str, doctree: nodes.document) -> list[list]:
    """The entries of a document; the first is that of the page as a whole."""
    reader = Entries(docname)
    reader.read(doctree, None)
    for entry in reader.found:
        entry[3] = SPACE.sub(" ", " ".join(entry[3])).strip()
        entry[4] = " ".join(sorted({*entry[4]} - PYTHONS))
    return reader.found


def on_doctree_read(app, doctree) -> None:
    app.env.metadata[app.env.docname]["search"] = entries(app.env.docname, doctree)


def typed() -> dict[str, dict[str, list[str]]]:
    """What is typed by those who look for a page (its anchor is "") or for a section of it."""
    kept = tomllib.loads(TYPED.read_text(encoding="utf-8"))
    return {
        page: {
            "" if place == "page" else place: SPACE.sub(" ", text).split(", ")
            for place, text in places.items()
        }
        for page, places in kept.items()
    }


def on_build_finished(app, exception) -> None:
    if exception or app.builder.name != "html":
        return
    pages, words = [], typed()
    for name in sorted(app.env.found_docs):
        number = app.env.toc_secnumbers.get(name, {}).get("", ())
        chapter = number[0] if name.startswith("notebooks/") and number else 0
        title, found = app.env.titles[name].astext(), app.env.metadata[name]["search"]
        also = words.pop(Path(name).name, {})
        if lost := {*also} - {"", *(anchor for anchor, *_ in found)}:
            raise ExtensionError(f"{TYPED.name}: {name} has no section {', '.join(lost)}")
        pages.append([app.builder.get_target_uri(name), chapter, title, found, also])
    if words:
        raise ExtensionError(f"{TYPED.name}: no page is named {', '.join(words)}")
    text = json.dumps(pages, ensure_ascii=False, separators=(",", ":"))
    file = Path(app.outdir) / "_static" / INDEX
    file.write_text(f"BookSearch.receive({text});\n", encoding="utf-8")


def setup(app):
    app.connect("doctree-read", on_doctree_read)
    app.connect("build-finished", on_build_finished)
    # env_version: that of what is kept in `env.metadata`. Another one has all pages read anew.
    return {
        "version": "1",
        "env_version": 6,
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
