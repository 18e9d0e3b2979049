"""Turn notebooks, which are plain CommonMark and code, into the book's pages.

- A quote that starts `> **Exercise 1.2 (title).**` (or another of KINDS) becomes a box.
- `#| export` and `#@title` lines are dropped, and the cell says to which module it goes.
- A picture that moves is put into the figure of the still one that its cell has drawn.
- Folded cells say what is folded; a solution is folded together with what it prints.
"""

from __future__ import annotations

import json
import re

from docutils import nodes

KINDS = ["Exercise", "Note", "Departure from the paper", "From the paper", "Predict"]
QUOTE = re.compile(rf"^> \*\*({'|'.join(KINDS)})\b(.*?)\.?\*\*.*(?:\n>.*)*", re.M)
DIRECTIVE = re.compile(r"^(#\|.*|#@title.*|# NBVAL_.*)\n?", re.M)
MOVING = '<div class="moving '
FOLDED = {"solution": "Show a solution", "setup": "Show the set-up"}


def box(quote: re.Match) -> str:
    """The MyST admonition for one quote, with a class for its kind and, if numbered, an id."""
    kind, rest = quote[1], quote[2]
    text = re.sub(r"^> ?", "", quote[0], flags=re.M).split("**", 2)[2].lstrip()
    slug = kind.lower().replace(" ", "-")
    number = re.match(r" ([\d.]+\d)", rest)
    name = f":name: {slug}-{number[1].replace('.', '-')}\n" if number else ""
    return f":::::{{admonition}} {kind}{rest}\n:class: {slug}\n{name}\n{text}\n:::::"


def page_cell(cell: dict) -> dict:
    """A cell as the page shows it."""
    source = "".join(cell["source"])
    if cell["cell_type"] == "markdown":
        return cell | {"source": QUOTE.sub(box, source)}
    if cell["cell_type"] != "code":
        return cell
    metadata = dict(cell["metadata"])
    tags = list(metadata.get("tags", []))
    if re.match(r"#\| *export", source):
        tags.append("exported")
    for tag, prompt in FOLDED.items():
        if tag in tags:
            tags = ["hide-cell" if t == "hide-input" else t for t in tags]
            prompts = {
                "code_prompt_show": prompt,
                "code_prompt_hide": prompt.replace("Show", "Hide"),
            }
            metadata["mystnb"] = metadata.get("mystnb", {}) | prompts
    return cell | {"source": DIRECTIVE.sub("", source), "metadata": metadata | {"tags": tags}}


def moves(output: dict) -> bool:
    """Whether an output of a cell is an interactive picture."""
    return "".join(output.get("data", {}).get("text/html", "")).startswith(MOVING)


def apart(cell: dict) -> list[dict]:
    """A cell, and its interactive picture in a cell of its own: else both would be figures."""
    outputs = cell.get("outputs", [])
    picture = [output for output in outputs if moves(output)]
    if not picture:
        return [cell]
    still = [output for output in outputs if not moves(output)]
    unseen = {"source": "moves", "metadata": {"tags": ["remove-input"]}}
    return [
        cell | {"outputs": still},
        cell | unseen | {"outputs": picture, "id": f"{cell['id']}-moves"},
    ]


def on_doctree_read(app, doctree) -> None:
    """Bring the two together again: the moving picture first, then the still one, one caption."""
    for raw in list(doctree.findall(nodes.raw)):
        if not raw.astext().startswith(MOVING):
            continue
        cell = raw.parent
        while "cell" not in cell.get("classes", []):
            cell = cell.parent
        before = cell.parent[cell.parent.index(cell) - 1]
        next(before.findall(nodes.figure)).insert(0, raw.deepcopy())
        cell.parent.remove(cell)


def on_source_read(app, docname: str, source: list[str]) -> None:
    if not app.env.doc2path(docname).endswith(".ipynb"):
        source[0] = QUOTE.sub(box, source[0])
        return
    module = re.search(r"#\| *default_exp (\w+)", source[0])
    if module:
        app.env.metadata[docname]["exports_to"] = f"allyouneed.{module[1]}"
    notebook = json.loads(source[0])
    notebook["metadata"].setdefault("language_info", {"name": "python"})
    notebook["cells"] = [part for cell in notebook["cells"] for part in apart(page_cell(cell))]
    source[0] = json.dumps(notebook)


def on_doctree_resolved(app, doctree, docname: str) -> None:
    """Say beside each exported cell where it goes, with a link to that module's page."""
    module = app.env.metadata[docname].get("exports_to")
    if app.builder.format != "html" or not module:
        return
    url = app.builder.get_relative_uri(docname, "book/api") + f"#module-{module}"
    for cell in doctree.findall(nodes.container):
        if "tag_exported" in cell["classes"]:
            label = f'<a class="exported-to" href="{url}">exported to {module}</a>'
            cell.append(nodes.raw("", label, format="html"))


def setup(app):
    app.connect("source-read", on_source_read)
    app.connect("doctree-read", on_doctree_read)
    app.connect("doctree-resolved", on_doctree_resolved)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
