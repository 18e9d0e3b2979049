"""Turn notebooks, which are plain CommonMark and code, into the book's pages.

- A quote that starts `> **Exercise 1.2 (title).**` (or another of KINDS) becomes a box.
- `#| export` and `#@title` lines are dropped, and the cell says to which module it goes.
- A picture that moves is put into the figure of the still one that its cell has drawn.
- A chapter that stands before the numbered parts has the number in its file's name, 0. The project
  has none.
- Folded cells say what is folded; a solution is folded together with what it prints.
- The cells that set a chapter up, and those after them that are folded and show nothing (its
  imports, its data), are folded into one line.
"""

from __future__ import annotations

import json
import re

from bookpatch import outdated
from docutils import nodes
from sphinx_external_toc.collectors import TocTreeCollectorWithStyles

KINDS = [
    "Exercise", "Note", "Departure from the paper", "From the paper", "Predict", "Open question",
]  # fmt: skip
QUOTE = re.compile(rf"^> \*\*({'|'.join(KINDS)})\b(.*?)\.?\*\*.*(?:\n>.*)*", re.M)
DIRECTIVE = re.compile(r"^(#\|.*|#@title.*|# NBVAL_.*)\n?", re.M)
MOVING = '<div class="moving '
FOLDED = {"solution": "Show a solution"}
SET_UP = "in-set-up"
IMPORT = re.compile(r"(import|from) ")


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


def is_folded(cell: dict) -> bool:
    tags = cell["metadata"].get("tags", [])
    return any(tag.startswith("hide-") for tag in tags) and SET_UP not in tags


def sets_up(cell: dict) -> bool:
    """Whether a cell shows nothing and is folded, or begins with an import under comments."""
    if cell["cell_type"] != "code" or cell.get("outputs"):
        return False
    lines = "".join(cell["source"]).splitlines()
    code = [line for line in lines if line.strip() and not line.startswith("#")]
    return bool(IMPORT.match(code[0])) or "hide-input" in cell["metadata"].get("tags", [])


def with_set_up(cells: list[dict]) -> list[dict]:
    """The cells, those that set the chapter up tagged so: the first, and all that follow it."""
    marked, open_ = [], False
    for cell in cells:
        tags = cell["metadata"].get("tags", [])
        open_ = "setup" in tags or (open_ and ("remove-cell" in tags or sets_up(cell)))
        if open_:
            tags = [tag for tag in tags if not tag.startswith("hide-")] + [SET_UP]
            cell = cell | {"metadata": cell["metadata"] | {"tags": tags}}
        marked.append(cell)
    return marked


def fold_set_up(doctree) -> None:
    """Fold them into one line."""
    cells = [
        one for one in doctree.findall(nodes.container) if f"tag_{SET_UP}" in one.get("classes", [])
    ]
    if cells:
        parent = cells[0].parent
        fold = '<details class="set-up"><summary>Set-up</summary>'
        parent.insert(parent.index(cells[-1]) + 1, nodes.raw("", "</details>", format="html"))
        parent.insert(parent.index(cells[0]), nodes.raw("", fold, format="html"))


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
    long_lines(doctree)
    fold_set_up(doctree)
    for raw in [raw for raw in doctree.findall(nodes.raw) if raw.astext().startswith(MOVING)]:
        cell = raw.parent
        while cell and "cell" not in cell.get("classes", []):
            cell = cell.parent
        before = cell and cell.parent[cell.parent.index(cell) - 1]
        figure = before and next(before.findall(nodes.figure), None)
        if figure is None:
            why = "a picture that moves stands in the figure of the still one"
            raise outdated("on_doctree_read", why, app.env.docname)
        figure.insert(0, raw.deepcopy())
        cell.parent.remove(cell)


def title_with_root(app, doctree) -> None:
    """The root of d_k, in a title, as √ and a lowered k: also in lists of chapters."""
    title = next(doctree.findall(nodes.title), None)
    words = title.astext() if title else ""
    if "the root of d_k" in words:
        before, after = words.split("the root of d_k")
        title.children = [nodes.Text(f"{before}√d"), nodes.subscript("", "k"), nodes.Text(after)]
        for child in title.children:
            child.parent = title


LONG = 88  # letters that a line has room for on a screen of 1280 pixels: longer ones are broken
WIDE = 105  # and those of a table, which is set smaller there (see book.css)
SET = re.compile(r"\S {2,}\S|^ {4,}\S|^ +[-\[\d]")  # a gap, or a number that is moved to the right


def long_lines(doctree) -> None:
    """Mark outputs with lines that no page has room for: those are broken, not cut. And those set
    in columns: of the others, code among them, a phone breaks long lines, too (see book.css)."""
    for output in doctree.findall(nodes.container):
        if "cell_output" in output["classes"]:
            blocks = list(output.findall(nodes.literal_block))
            lines = "\n".join(b.astext() for b in blocks).splitlines()
            longest = max(map(len, lines), default=0)
            if longest > LONG:
                table = longest <= WIDE and all(in_columns(block.astext()) for block in blocks)
                output["classes"].append("wide-table" if table else "long-lines")
            for block in blocks:
                if block.get("language") != "python" and in_columns(block.astext()):
                    block["classes"].append("columns")


def in_columns(text: str) -> bool:
    """Whether what is printed stands below each other."""
    lines = [line for line in text.splitlines() if line.strip()]
    alike = len({len(line) for line in lines}) == 1
    return len(lines) > 1 and (alike or any(SET.search(line) for line in lines))


def on_source_read(app, docname: str, source: list[str]) -> None:
    if not str(app.env.doc2path(docname)).endswith(".ipynb"):
        source[0] = QUOTE.sub(box, source[0])
        return
    module = re.search(r"#\| *default_exp (\w+)", source[0])
    if module:
        app.env.metadata[docname]["exports_to"] = f"allyouneed.{module[1]}"
    notebook = json.loads(source[0])
    notebook["cells"] = with_set_up(notebook["cells"])
    app.env.metadata[docname]["folds"] = sum(map(is_folded, notebook["cells"]))
    notebook["metadata"].setdefault("language_info", {"name": "python"})
    notebook["cells"] = [part for cell in notebook["cells"] for part in apart(page_cell(cell))]
    source[0] = json.dumps(notebook)


def on_doctree_resolved(app, doctree, docname: str) -> None:
    """Say beside each exported cell where it goes, with a link to that module's page."""
    module = app.env.metadata[docname].get("exports_to")
    if app.builder.format != "html" or not module:
        return
    url = app.builder.get_relative_uri(docname, "book/api") + f"#module-{module}"
    cells = [one for one in doctree.findall(nodes.container) if "tag_exported" in one["classes"]]
    if not cells:
        raise outdated("tag_exported", "exported cells say where they go", docname)
    for cell in cells:
        label = f'<a class="exported-to" href="{url}">exported to {module}</a>'
        cell.append(nodes.raw("", label, format="html"))


def number_the_overview(app, config) -> None:
    """Number the chapters that the parts do not: theirs go on from 1, whatever stands before."""
    assign = TocTreeCollectorWithStyles.assign_section_numbers
    if assign.__module__ == __name__:
        return

    def assign_section_numbers(self, env) -> list[str]:
        chapters = [page for page in sorted(env.found_docs) if page.startswith("notebooks/")]
        for page in chapters:  # else those of the last build count as numbered
            env.titles[page].attributes.pop("secnumber", None)
        changed = assign(self, env)
        for page in set(chapters) - set(env.toc_secnumbers):
            found = re.match(r"notebooks/(\d+)_", page)
            if not found:  # the project has none
                continue
            number = (int(found[1]),)
            places = list(env.tocs[page].findall(nodes.reference))
            env.toc_secnumbers[page] = {one["anchorname"]: None for one in places} | {"": number}
            places[0]["secnumber"] = env.titles[page]["secnumber"] = number
            changed.append(page)
        return changed

    TocTreeCollectorWithStyles.assign_section_numbers = assign_section_numbers


def setup(app):
    app.connect("config-inited", number_the_overview)
    app.connect("source-read", on_source_read)
    app.connect("doctree-read", title_with_root, priority=400)  # before Sphinx keeps the title
    app.connect("doctree-read", on_doctree_read)
    app.connect("doctree-resolved", on_doctree_resolved)
    # env_version: that of what is kept in `env.metadata`. Another one has all pages read anew.
    return {
        "version": "1",
        "env_version": 4,
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
