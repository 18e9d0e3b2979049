"""Roads through the book, from book/roads.toml, and the line under each heading: how long the
section takes, on which roads it lies, and where to suggest an edit.

The directive {roads} shows the roads with their minutes; book/_static/progress.js keeps which one a
reader has chosen.
"""

from __future__ import annotations

import json
import re
import tomllib
from html import escape
from pathlib import Path
from urllib.parse import quote

from bookpatch import chapter, outdated
from booksite import REPOSITORY
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

FILE = Path(__file__).parents[1] / "roads.toml"
ALWAYS = "The code so far"
NO_READING = {"exercises", "further-reading"}  # they take as long as one likes
PLACE = "<!-- the roads -->"
SECTION = re.compile(r'<section ([^>]*\bid="([^"]+)"[^>]*)>(\s*<h2>.*?</h2>)', re.S)


def roads() -> dict[str, dict]:
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def on_road(road: dict, number: str, headings: list[str]) -> list[str]:
    """The sections of a chapter on a road; none if the road passes it by."""
    named = road["chapters"].get(number, [])
    if named == "all":
        return headings
    return [heading for heading in headings if heading in named or (named and heading == ALWAYS)]


def on_doctree_read(app, doctree) -> None:
    name = app.env.docname
    chapter = next((child for child in doctree.children if isinstance(child, nodes.section)), None)
    if not name.startswith("notebooks/") or chapter is None:
        return
    app.env.note_dependency(str(FILE))
    parts = [child for child in chapter.children if isinstance(child, nodes.section)]
    app.env.metadata[name]["parts"] = {part[0].astext(): part["ids"][0] for part in parts}


def chapters(env) -> dict[str, str]:
    """The pages of the chapters by their numbers, "00" and on."""
    pages = sorted(page for page in env.found_docs if page.startswith("notebooks/"))
    return {page.split("/")[1][:2]: page for page in pages}


def walked(env, road: dict) -> dict[str, list[str]]:
    """The sections on a road by their pages, as ids, in the order of the book."""
    found = {}
    for number, page in chapters(env).items():
        parts = env.metadata[page]["parts"]
        if ids := [parts[heading] for heading in on_road(road, number, list(parts))]:
            found[page] = ids
    return found


def minutes(env, road: dict) -> int:
    """What a road takes to read: its sections, and what stands before the first of each chapter."""
    total = 0
    for page, ids in walked(env, road).items():
        meta = env.metadata[page]
        before = max(0, meta["minutes"] - sum(meta["sections"].values()))
        total += before + sum(meta["sections"][one] for one in ids if one not in NO_READING)
    return total


def everything(env) -> int:
    return sum(env.metadata[page]["minutes"] for page in chapters(env).values())


def how_long(taken: int) -> str:
    return f"{taken} min" if taken < 150 else f"{round(taken / 60)} hours"


class Roads(SphinxDirective):
    def run(self) -> list[nodes.Node]:
        self.env.note_dependency(str(FILE))
        return [nodes.raw("", PLACE, format="html")]


def on_doctree_resolved(app, doctree, docname: str) -> None:
    """The choice of a road, when the minutes of all chapters are known."""
    for raw in [raw for raw in doctree.findall(nodes.raw) if raw.astext() == PLACE]:
        rows = [
            (key, road["name"], road["about"], minutes(app.env, road), len(walked(app.env, road)))
            for key, road in roads().items()
        ]
        pages = len(chapters(app.env))
        rows.append(("all", "Everything", "each claim tried, each number measured, up to today",
                     everything(app.env), pages))  # fmt: skip
        lines = [
            f'<label><input type="radio" name="road" value="{key}"><b>{escape(name)}</b> '
            f'<span class="minutes">{how_long(taken)} of reading, {count} chapter'
            f"{'s' * (count > 1)}</span><small>{escape(about)}</small></label>"
            for key, name, about, taken, count in rows
        ]
        start = app.builder.get_relative_uri(docname, next(iter(chapters(app.env).values())))
        html = (
            '<fieldset class="roads"><legend>Three roads</legend>'
            + "".join(lines)
            + f'<a class="begin" href="{start}">Begin with Chapter 0</a></fieldset>'
        )
        raw.parent.replace(raw, nodes.raw("", html, format="html"))


def suggestion(pagename: str, heading: str) -> str:
    """Where to suggest an edit: a page can be edited on GitHub, a notebook better by an issue."""
    if not pagename.startswith("notebooks/"):
        return f"{REPOSITORY}/edit/main/{pagename}.md"
    number = chapter(pagename)
    page = "The project" if number is None else f"Chapter {number}"
    title = quote(f"{page}, {heading}: ")
    return f"{REPOSITORY}/issues/new?title={title}&body={quote(f'{pagename}.ipynb')}"


def next_places(app, pagename: str) -> dict[str, list[str]]:
    """For each road, where it goes on after this chapter: address and words."""
    found = {}
    for key, road in roads().items():
        later = [page for page in walked(app.env, road) if page > pagename]
        if later:
            number = chapter(later[0])
            url = app.builder.get_relative_uri(pagename, later[0])
            found[key] = [road["name"], url, f"Chapter {number}"]
        else:
            url = app.builder.get_relative_uri(pagename, app.config.root_doc)
            found[key] = [road["name"], url, "the first page: here it ends"]
    return found


def on_page(app, pagename: str, templatename: str, context: dict, doctree) -> None:
    if doctree is None:
        return
    meta = app.env.metadata[pagename]
    parts = meta.get("parts", {})
    marks = {
        one: [
            key for key, road in roads().items() if one in walked(app.env, road).get(pagename, [])
        ]
        for one in parts.values()
    }
    count = len(meta.get("exercises", []))

    def lined(found: re.Match) -> str:
        attributes, anchor, head = found.groups()
        heading = re.sub(r"<a class=\"headerlink\".*?</a>|<[^>]+>", "", head, flags=re.S).strip()
        says = []
        if anchor in marks and anchor not in NO_READING:
            says = [f"<span>{meta['sections'][anchor]} min</span>"]
            says += [
                f'<span class="road {key}">{escape(roads()[key]["name"]).lower()}</span>'
                for key in marks[anchor]
            ]
        elif anchor == "exercises" and count:
            says = [f'<span class="count" data-words="exercises">{count} exercises</span>']
        url = escape(suggestion(pagename, heading), quote=True)
        says.append(f'<a class="suggest" href="{url}">Suggest an edit</a>')
        if anchor in marks:
            attributes += f' data-roads="{" ".join(marks[anchor])}"'
        return f'<section {attributes}>{head}<p class="section-line">{" ".join(says)}</p>'

    context["body"], times = SECTION.subn(lined, context["body"])
    if times < len(parts):
        raise outdated("SECTION", "a line under a heading says how long it takes", pagename)
    if parts:
        places = json.dumps(next_places(app, pagename), ensure_ascii=False)
        context["body"] += f'<script type="application/json" id="roads">{places}</script>'


def setup(app):
    app.add_directive("roads", Roads)
    app.connect("doctree-read", on_doctree_read)
    app.connect("doctree-resolved", on_doctree_resolved)
    app.connect("html-page-context", on_page, priority=920)  # after bookminutes
    return {
        "version": "1",
        "env_version": 1,
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
