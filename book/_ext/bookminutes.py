"""How long a chapter and its sections take to read: under the title, in the contents, on the map.

An estimate: prose at 200 words a minute, a formula or a figure in ten seconds, a line of code that
is not folded in four. Outputs, exercises done and pictures played with are not counted.
"""

from __future__ import annotations

import re

from bookpatch import Patch
from docutils import nodes

WORD, FORMULA, LINE = 60 / 200, 10, 4  # seconds
SECTION = re.compile(r'<section (?:class="[^"]*" )?id="([^"]+)"')


def seconds(node: nodes.Node) -> float:
    """What is in a node and not in its folds, read at the pace above."""
    if isinstance(node, nodes.Text):
        return WORD * len(node.split())
    classes = node.get("classes", []) if isinstance(node, nodes.Element) else []
    if isinstance(node, nodes.raw | nodes.comment) or "cell_output" in classes:
        figures = node.findall(nodes.figure) if isinstance(node, nodes.Element) else []
        return sum(FORMULA for _ in figures)
    if any(name.startswith("tag_hide-") or name == "tag_in-set-up" for name in classes):
        return sum(FORMULA for _ in node.findall(nodes.figure))
    if isinstance(node, nodes.literal_block):
        return LINE * len([line for line in node.astext().splitlines() if line.strip()])
    if isinstance(node, nodes.math_block):
        return FORMULA
    if isinstance(node, nodes.math):
        return WORD
    return sum(map(seconds, node.children))


def minutes(node: nodes.Node) -> int:
    """At least one."""
    return max(1, round(seconds(node) / 60))


def on_doctree_read(app, doctree) -> None:
    name = app.env.docname
    if not name.startswith("notebooks/"):
        return
    (chapter,) = (child for child in doctree.children if isinstance(child, nodes.section))
    parts = [child for child in chapter.children if isinstance(child, nodes.section)]
    app.env.metadata[name]["minutes"] = minutes(chapter)
    app.env.metadata[name]["sections"] = {part["ids"][0]: minutes(part) for part in parts}


def on_page(app, pagename: str, templatename: str, context: dict, doctree) -> None:
    """Each section of a chapter carries its minutes, for place.js to show them in the contents."""
    known = (context.get("meta") or {}).get("sections")
    if doctree is None or not known:
        return

    def timed(found: re.Match) -> str:
        taken = known.pop(found[1], None)
        return found[0] if taken is None else f'{found[0]} data-minutes="{taken}"'

    known = dict(known)
    every = len(SECTION.findall(context["body"]))
    patch = Patch("SECTION", "the contents say how long a section takes", SECTION, timed)
    context["body"] = patch(context["body"], f"{pagename}.html", every or 1)


def on_doctree_resolved(app, doctree, docname: str) -> None:
    """On the first page, each chapter with its minutes."""
    if docname != app.config.root_doc:
        return
    for item in doctree.findall(nodes.list_item):
        for link in item.findall(nodes.reference):
            name = "notebooks/" + link.get("refuri", "").split("#")[0].split("/")[-1][:-5]
            taken = app.env.metadata.get(name, {}).get("minutes")
            if taken and link.parent.parent is item:
                place = link.parent.index(link) + 1
                link.parent.insert(place, nodes.inline("", f" {taken} min", classes=["minutes"]))


def setup(app):
    app.connect("doctree-read", on_doctree_read)
    app.connect("doctree-resolved", on_doctree_resolved)
    app.connect("html-page-context", on_page, priority=910)  # after booksite
    # env_version: that of what is kept in `env.metadata`. Another one has all pages read anew.
    return {
        "version": "1",
        "env_version": 1,
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
