"""Exercises on the page: a place in the contents, an anchor, links to where to look again and to
Colab, and what book/_static/progress.js needs to keep which are done. The stages of the project are
such exercises, too; they have no box, and a section each.
"""

from __future__ import annotations

import ast
import json
import re
from html import escape
from pathlib import Path

from bookpatch import chapter, outdated
from booksite import COLAB
from docutils import nodes
from sphinx import addnodes

CHECKS = Path(__file__).parents[2] / "src" / "allyouneed" / "exercises"
NUMBER = re.compile(r"Exercise (\d+\.\d+)")
TASK = re.compile(r"^> \*\*Exercise (\d+\.\d+)", re.M)
STAGE = re.compile(r'^check\("(project\.\w+)"', re.M)
MARK = re.compile(r", (easy|medium|hard)\b.*$")
PLACE = '<div id="progress"></div>'  # on the first page


def boxes(doctree) -> list[tuple[str, nodes.admonition]]:
    """The exercises of a page, by number."""
    found = []
    for box in doctree.findall(nodes.admonition):
        number = NUMBER.match(next(box.findall(nodes.title)).astext())
        if number and "exercise" in box["classes"]:
            found.append((number[1], box))
    return found


def sections(chapter: int) -> dict[str, str]:
    """Where each exercise of a chapter says to look again: its `section`, read from the source."""
    file = CHECKS / f"chapter_{chapter:02}.py"
    tree = ast.parse(file.read_text(encoding="utf-8")) if file.exists() else ast.Module([], [])
    kept = {}
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        said = {
            one.arg: one.value.value
            for one in call.keywords
            if one.arg in ("number", "section") and isinstance(one.value, ast.Constant)
        }
        if len(said) == 2:
            kept[said["number"]] = said["section"]
    return kept


def on_source_read(app, docname: str, source: list[str]) -> None:
    """Keep which cell holds an exercise: Colab opens the notebook there."""
    if not docname.startswith("notebooks/"):
        return
    cells = {}
    for cell in json.loads(source[0])["cells"]:
        if cell["cell_type"] == "markdown" and "id" in cell:
            cells |= dict.fromkeys(TASK.findall("".join(cell["source"])), cell["id"])
        elif cell["cell_type"] == "code" and "id" in cell:
            cells |= dict.fromkeys(STAGE.findall("".join(cell["source"])), cell["id"])
    app.env.metadata[docname]["cells"] = cells


def stages(doctree) -> list[tuple[str, nodes.container]]:
    """The stages of the project, each with the cell in which it is checked."""
    cells = [one for one in doctree.findall(nodes.container) if "cell" in one["classes"]]
    code = {one: next(one.findall(nodes.literal_block), None) for one in cells}
    found = ((STAGE.search(block.astext()), cell) for cell, block in code.items() if block)
    return [(stage[1], cell) for stage, cell in found if stage]


def links(number: str, docname: str, cell: str, *others: str) -> nodes.raw:
    """The line below an exercise, for progress.js to put a button into."""
    said = [*others, f'<a href="{COLAB}/{docname}.ipynb#scrollTo={cell}">Open in Colab</a>']
    line = f'<p class="exercise-links" data-exercise="{number}">{" ".join(said)}</p>'
    return nodes.raw("", line, format="html")


def on_doctree_read(app, doctree) -> None:
    """Put the exercises into the contents of the page, under their section."""
    name = app.env.docname
    if not name.startswith("notebooks/"):
        return
    titles = {one.astext(): one.parent["ids"][0] for one in doctree.findall(nodes.title)
              if isinstance(one.parent, nodes.section)}  # fmt: skip
    meta = app.env.metadata[name]
    meta["headings"] = titles
    meta["exercises"] = [number for number, _ in [*boxes(doctree), *stages(doctree)]]
    entries = {one["anchorname"]: one for one in app.env.tocs[name].findall(nodes.reference)}
    for number, box in boxes(doctree):
        anchor, section = f"#exercise-{number.replace('.', '-')}", box.parent
        while not isinstance(section, nodes.section):
            section = section.parent
        entry = entries[f"#{section['ids'][0]}"].parent.parent
        title = next(box.findall(nodes.title)).astext()
        title = f"{number} {MARK.sub('', title.removeprefix(f'Exercise {number}')).strip(' ()')}"
        link = nodes.reference("", title, internal=True, refuri=name, anchorname=anchor)
        item = nodes.list_item("", addnodes.compact_paragraph("", "", link))
        below = next((one for one in entry.children if isinstance(one, nodes.bullet_list)), None)
        if below is None:
            below = nodes.bullet_list()
            entry += below
        below += item


def on_doctree_resolved(app, doctree, docname: str) -> None:
    """The anchor and the links of each exercise; on the first page, which there are."""
    if app.builder.format != "html":
        return
    meta = app.env.metadata
    for raw in [raw for raw in doctree.findall(nodes.raw) if raw.astext().strip() == PLACE]:
        numbers = {
            app.builder.get_relative_uri(docname, page): meta[page]["exercises"]
            for page in sorted(app.env.found_docs)
            if page.startswith("notebooks/")
        }
        data = f'<script type="application/json" id="all-exercises">{json.dumps(numbers)}</script>'
        raw.parent.replace(raw, nodes.raw("", PLACE + data, format="html"))
    if docname.startswith("notebooks/"):
        for number, cell in stages(doctree):
            place = cell.parent.index(cell) + 1
            cell.parent.insert(place, links(number, docname, meta[docname]["cells"][number]))
    if (number := chapter(docname)) is None:
        return
    look = sections(number)
    for number, box in boxes(doctree):
        anchor = f"exercise-{number.replace('.', '-')}"
        title = next(box.findall(nodes.title))
        sign = f'<a class="headerlink" href="#{anchor}" title="Link to this exercise">#</a>'
        title += nodes.raw("", sign, format="html")
        others = []
        heading = look.get(number)
        if heading in meta[docname]["headings"]:
            where = meta[docname]["headings"][heading]
            others.append(
                f'<a class="internal" href="#{where}">Look again at “{escape(heading)}”</a>'
            )
        if number not in meta[docname]["cells"]:
            raise outdated("TASK", f"exercise {number} leads to Colab", docname)
        box += links(number, docname, meta[docname]["cells"][number], *others)


def setup(app):
    app.connect("source-read", on_source_read, priority=400)  # as the notebook stands
    app.connect("doctree-read", on_doctree_read, priority=700)  # when Sphinx has the contents
    app.connect("doctree-resolved", on_doctree_resolved, priority=700)
    return {
        "version": "1",
        "env_version": 2,
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
