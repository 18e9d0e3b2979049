"""The directive `plan`: the plan of the machine on a page, each box a link to its chapter. And
beside the opening of each chapter, small, where in it the chapter is.

It is drawn by src/allyouneed/plan.py when the pages are built, so it is the one of the notebooks.
Links work without scripts; the addresses and titles are those of the chapters' own pages.
"""

from __future__ import annotations

import importlib.util
import sys
from html import escape
from pathlib import Path

from bookpatch import chapter
from docutils import nodes
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

FILE = Path(__file__).parents[2] / "src" / "allyouneed" / "plan.py"
PLACE = "<!-- the plan of the machine -->"


def plan():
    """The module, without the package: the pages are built where PyTorch is not installed."""
    spec = importlib.util.spec_from_file_location("plan", FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["plan"] = module  # where a dataclass looks for its module
    spec.loader.exec_module(module)
    return module


class Plan(SphinxDirective):
    """Its content is the caption."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(FILE))
        figure = nodes.figure(classes=["map"], ids=["the-map"])
        figure += nodes.raw("", PLACE, format="html")
        caption = nodes.caption()
        self.state.nested_parse(self.content, self.content_offset, caption)
        caption.children = caption[0].children if len(caption) else []
        figure += caption
        return [figure]


def where(app, doctree, docname: str) -> None:
    """Put the small plan under a chapter's title, as a link to the map of the first page."""
    module, number = plan(), chapter(docname)
    words = list(dict.fromkeys(one.words.replace("|", " ") for one in module.parts(number)))
    if not words:
        return
    attentions = [word for word in words if word.endswith("attention")]
    if len(attentions) == 3:
        words = ["the three attentions"] + [word for word in words if word not in attentions]
    title = next(doctree.findall(nodes.title))
    url = app.builder.get_relative_uri(docname, app.config.root_doc) + "#the-map"
    html = (
        f'<a class="where" href="{url}"><span class="where-plan">{module.small(number)}</span>'
        f"<span><b>The map:</b> {escape(', '.join(words))}</span></a>"
    )
    title.parent.insert(title.parent.index(title) + 1, nodes.raw("", html, format="html"))


def on_doctree_resolved(app, doctree, docname: str) -> None:
    """Draw it when the titles and the places of all chapters are known."""
    if chapter(docname) is not None and app.builder.format == "html":
        where(app, doctree, docname)
    for raw in [raw for raw in doctree.findall(nodes.raw) if raw.astext() == PLACE]:
        module, links = plan(), {}
        for page in app.env.found_docs:
            if (number := chapter(page)) is not None:
                url = app.builder.get_relative_uri(docname, page)
                links[number] = (url, app.env.titles[page].astext())
        if missing := sorted(set(module.CHAPTERS) - set(links)):
            raise ExtensionError(f"src/allyouneed/plan.py names chapters without a page: {missing}")
        raw.parent.replace(raw, nodes.raw("", module.drawing(links=links).svg, format="html"))


def setup(app):
    app.add_directive("plan", Plan)
    app.connect("doctree-resolved", on_doctree_resolved)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
