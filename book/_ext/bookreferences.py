"""What the text names, it leads to: equations, chapters, exercises, figures, words of the glossary
and symbols of the notation become links, and what such a link, or one to a section, leads to is
kept for the card that book/_static/cards.js shows.

Not in headings, code or other links. "Figure 6.3" is ours; sections, tables and figures with one
number are those of the papers, and stay text. A section of the same page is a link where its title
stands between quotation marks. A word of the glossary, or a symbol that stands alone, is a link
where a page first has it. A plain letter is none: it has several meanings. The link of a symbol has
its name in words, since a screen reader finds none in a formula.
"""

from __future__ import annotations

import json
import re
from html import escape, unescape
from pathlib import Path

from bookpatch import outdated
from docutils import nodes
from sphinx import addnodes

CARDS = "cards-data.js"
TAG = re.compile(r"\\tag\{([\d.]+)\}")
CLOSED = (
    nodes.reference, nodes.literal, nodes.literal_block, nodes.title, nodes.raw,
    nodes.math, nodes.math_block, nodes.term, nodes.image, nodes.citation, nodes.label,
    addnodes.pending_xref, addnodes.desc_signature, addnodes.toctree,
)  # fmt: skip
NUMBERED = re.compile(
    r"(?P<equation>\((?P<tag>\d+\.\d+)\)|(?<=[Ee]quation )\((?P<one>\d)\))"
    r"|(?P<exercise>[Ee]xercise (?P<number>\d+\.\d+))"
    r"|(?P<figure>[Ff]igure (?P<drawn>\d+\.\d+))"
    r"|(?P<chapter>[Cc]hapter (?P<which>\d+)(?!\.?\d))"
    r"|(?P<chapters>[Cc]hapters \d+(?:(?:, | and | to |, and )\d+)*)"
)
QUOTED = re.compile("“([^“”]+)”")
LONGEST = 400  # letters of a card that shows the beginning of a section
NO_CARD = {"exercises", "further-reading"}
CAPITALS = re.compile(r".[A-Z]")
NOTATION = "book/notation"
# Words of the glossary that are words of everyday English, too: links only where they stand bold.
EVERYDAY = {
    "batch", "buffer", "gate", "head", "hypothesis", "key", "launch", "leak", "mask", "memory",
    "overlap", "projection", "query", "rank", "reach", "ring", "sampling", "shift", "signature",
    "source and target", "token", "value", "vocabulary", "attention", "bidirectional",
    "decoder", "encoder", "embedding", "padding", "saturation", "temperature", "convolution",
    "accumulation", "alignment", "utilisation", "bottleneck",
}  # fmt: skip


def as_html(node: nodes.Node) -> str:
    """A node as a card shows it: words, code and formulas."""
    if isinstance(node, nodes.Text):
        return escape(str(node), quote=False)
    if isinstance(node, nodes.math | nodes.math_block):
        display = isinstance(node, nodes.math_block)
        tag = "div" if display else "span"
        tex = escape(node.astext(), quote=False)
        return f'<{tag} class="math">{tex}</{tag}>'
    inner = "".join(map(as_html, node.children))
    tag = {nodes.literal: "code", nodes.strong: "b", nodes.emphasis: "i"}.get(type(node))
    return f"<{tag}>{inner}</{tag}>" if tag else inner


def symbol(formula: nodes.math) -> str:
    r"""The name of a symbol as a target; d_k and d_{k} are one, so are d_{ff} and d_\text{ff}."""
    return "symbol " + re.sub(r"\\text\b|[{}\s]", "", formula.astext())


def aloud(key: str, says: str) -> str:
    """What a link to a symbol is called, from its card: "d k: width of a query and of a key"."""
    meaning = unescape(re.sub(r"<[^>]*>", "", says)).partition(": ")[2]
    return f"{re.sub(r'[^a-zA-Z]+', ' ', key.removeprefix('symbol ')).strip()}: {meaning}"


def on_doctree_read(app, doctree) -> None:
    """Give each numbered equation an anchor, and keep what the cards of this document say."""
    name, targets = app.env.docname, {}
    chapter = re.match(r"notebooks/(\d+)_", name)
    if chapter:
        title = next(doctree.findall(nodes.title))
        beside = title.parent.children[:4]
        motto = next((one for one in beside if isinstance(one, nodes.block_quote)), None)
        says = "".join(map(as_html, motto.children)) if motto else ""
        number = int(chapter[1])
        targets[f"chapter {number}"] = ["", f"Chapter {number}: {title.astext()}", says]
    for equation in doctree.findall(nodes.math_block):
        for tag in TAG.findall(equation.astext()):
            anchor = f"equation-{tag.replace('.', '-')}"
            if chapter and not any(
                anchor in one.get("ids", ()) for one in doctree.findall(nodes.Element)
            ):
                equation["ids"].append(anchor)
                targets[f"equation {tag}"] = [anchor, "", as_html(equation)]
    for box in doctree.findall(nodes.admonition):
        title = next(box.findall(nodes.title)).astext()
        number = re.match(r"Exercise ([\d.]*\d)", title)
        if number:
            anchor = f"exercise-{number[1].replace('.', '-')}"
            targets[f"exercise {number[1]}"] = [anchor, title, as_html(box[1])]
    for item in doctree.findall(nodes.definition_list_item):
        if str(next(iter(item[0].get("ids", ())), "")).startswith("term-"):
            word = item[0].astext()
            says = re.sub(r"\s*Chapter \d+\.?$", "", as_html(item[-1]))
            targets[f"term {word.lower()}"] = [item[0]["ids"][0], word, says]
    for section in doctree.findall(nodes.section) if chapter else ():
        first = next(
            (one for one in section.children[1:] if isinstance(one, nodes.paragraph)), None
        )
        if section.parent is not doctree and first and section["ids"][0] not in NO_CARD:
            says = as_html(first)
            targets[f"section {name} {section['ids'][0]}"] = [
                section["ids"][0],
                section[0].astext(),
                says if len(says) < LONGEST else as_html(nodes.Text(sentence(first.astext()))),
            ]
    for figure in doctree.findall(nodes.figure):
        caption = next(figure.findall(nodes.caption), None)
        if chapter and caption and figure["ids"]:
            targets[f"drawn {name} {figure['ids'][0]}"] = [figure["ids"][0], "", as_html(caption)]
    for row in doctree.findall(nodes.row) if name == NOTATION else ():
        for formula in row[0].findall(nodes.math):
            if re.search("[_^]", formula.astext()):
                row["ids"] = row["ids"] or [nodes.make_id(symbol(formula))]
                says = f"{as_html(row[0])}: {as_html(row[-1])}"
                targets[symbol(formula)] = [row["ids"][0], "", says]
    app.env.metadata[name]["targets"] = targets


def sentence(text: str) -> str:
    """The first of a text, and not more than a card has room for."""
    first = re.split(r"(?<=[.?!:]) (?=[A-Z“])", text.replace("\n", " "))[0]
    return first if len(first) < LONGEST else first[:LONGEST].rsplit(" ", 1)[0] + " …"


def all_targets(env) -> dict[str, tuple[str, str]]:
    """Where everything is that can be named: a name, its document and its anchor."""
    found = {
        key: (name, anchor)
        for name in sorted(env.found_docs)
        for key, (anchor, *_) in env.metadata[name].get("targets", {}).items()
    }
    for name, kinds in getattr(env, "toc_fignumbers", {}).items():
        for anchor, number in kinds.get("figure", {}).items():
            if name.startswith("notebooks/"):
                found["figure " + ".".join(map(str, number))] = (name, anchor)
    return found


def all_cards(env) -> dict[str, list[str]]:
    """Of everything that can be named its anchor, its title and what its card says."""
    kept = (env.metadata[name].get("targets", {}) for name in env.found_docs)
    return {key: card for targets in kept for key, card in targets.items()}


class Linker:
    """Puts links into one document."""

    def __init__(self, app, docname: str, targets: dict[str, tuple[str, str]], heads: dict):
        self.app, self.docname, self.targets, self.heads = app, docname, targets, heads
        words = {key[5:] for key in targets if key.startswith("term ")}
        self.words, self.seen = words, set()
        self.cards = all_cards(app.env)
        plain = sorted(words - EVERYDAY, key=len, reverse=True)
        pattern = "|".join(map(re.escape, plain)) or "(?!)"
        self.word = re.compile(rf"(?<![\w-])({pattern})(s?)(?![\w-])", re.I)

    def link(self, key: str, text: str, kind: str) -> nodes.Node:
        """The text as a link, or as it is where nothing has that name, or only this very page."""
        if key not in self.targets:
            return nodes.Text(text)
        document, anchor = self.targets[key]
        if document == self.docname and not anchor:
            return nodes.Text(text)
        uri = (
            ""
            if document == self.docname
            else self.app.builder.get_relative_uri(self.docname, document)
        )
        refuri = f"{uri}#{anchor}" if anchor else uri
        return nodes.reference("", text, refuri=refuri, internal=True, classes=[f"to-{kind}"])

    def numbered(self, text: str) -> list[nodes.Node]:
        parts, at = [], 0
        for found in NUMBERED.finditer(text):
            parts += self.sections(text[at : found.start()])
            at = found.end()
            if found["equation"]:
                tag = found["tag"] or found["one"]
                parts.append(self.link(f"equation {tag}", found[0], "equation"))
            elif found["exercise"]:
                parts.append(self.link(f"exercise {found['number']}", found[0], "exercise"))
            elif found["figure"]:
                parts.append(self.link(f"figure {found['drawn']}", found[0], "figure"))
            elif found["chapter"]:
                parts.append(self.link(f"chapter {found['which']}", found[0], "chapter"))
            else:
                for piece in re.split(r"(\d+)", found[0]):
                    number = piece.isdigit()
                    parts.append(
                        self.link(f"chapter {piece}", piece, "chapter")
                        if number
                        else nodes.Text(piece)
                    )
        return parts + self.sections(text[at:])

    def sections(self, text: str) -> list[nodes.Node]:
        """Sections of this page, where they are named between quotation marks."""
        parts, at = [], 0
        for found in QUOTED.finditer(text):
            if found[1] in self.heads:
                parts += self.terms(text[at : found.start()])
                where, at = f"#{self.heads[found[1]]}", found.end()
                parts.append(nodes.reference("", found[0], refuri=where, internal=True))
        return parts + self.terms(text[at:])

    def terms(self, text: str) -> list[nodes.Node]:
        parts, at = [], 0
        for found in self.word.finditer(text):
            word = found[1].lower()
            written = self.cards[f"term {word}"][1]  # ZeRO is not "zero"
            if word in self.seen or (CAPITALS.search(written) and found[1] != written):
                continue
            self.seen.add(word)
            parts += [
                nodes.Text(text[at : found.start()]),
                self.link(f"term {word}", found[0], "term"),
            ]
            at = found.end()
        return [*parts, nodes.Text(text[at:])]

    def symbols(self, formula: nodes.math) -> list[nodes.Node]:
        """A formula, as a link if it is a symbol that the page has not had yet."""
        key = symbol(formula)
        if key not in self.targets or key in self.seen or self.docname == NOTATION:
            return [formula]
        self.seen.add(key)
        where = escape(self.link(key, "", "symbol")["refuri"])
        name = escape(aloud(key, self.cards[key][2]))
        start = f'<a class="to-symbol reference internal" href="{where}" aria-label="{name}">'
        return [nodes.raw("", start, format="html"), formula, nodes.raw("", "</a>", format="html")]

    def visit(self, node: nodes.Element) -> None:
        for child in list(node.children):
            if isinstance(child, nodes.math):
                node.replace(child, self.symbols(child))
            if isinstance(child, CLOSED):
                continue
            if isinstance(child, nodes.strong) and child.astext().lower() in self.words - self.seen:
                word = child.astext().lower()
                self.seen.add(word)
                child.children = [self.link(f"term {word}", child.astext(), "term")]
                child.children[0].parent = child
            elif isinstance(child, nodes.Text):
                parts = [part for part in self.numbered(str(child)) if part.astext()]
                if len(parts) > 1 or parts and isinstance(parts[0], nodes.reference):
                    node.replace(child, parts)
            elif isinstance(child, nodes.Element):
                self.visit(child)


def on_doctree_resolved(app, doctree, docname: str) -> None:
    if app.builder.format != "html" or docname in ("book/glossary", "book/api"):
        return
    heads = {one[0].astext(): one["ids"][0] for one in doctree.findall(nodes.section)}
    Linker(app, docname, all_targets(app.env), heads).visit(doctree)


CITATION = re.compile(r'<div class="citation" id="([^"]+)".*?</span>\s*<p>(.*?)</p>\s*</div>', re.S)


def on_build_finished(app, exception) -> None:
    """The cards, by the address that they are about: for a paper on the web, where its card is."""
    if exception or app.builder.name != "html":
        return
    cards = {}
    for name in sorted(app.env.found_docs):
        uri = app.builder.get_target_uri(name)
        for anchor, title, says in app.env.metadata[name]["targets"].values():
            cards[f"{uri}#{anchor}" if anchor else uri] = [title, says]
    file = "book/bibliography.html"
    references = CITATION.findall((Path(app.outdir) / file).read_text(encoding="utf-8"))
    if not references:
        raise outdated("CITATION", "a card shows the reference that a text names", file)
    for anchor, text in references:
        for link in re.findall(r'href="(https?://[^"]+)"', text):
            cards[link] = f"{file}#{anchor}"  # chapters link to the paper itself
        cards[f"{file}#{anchor}"] = ["", re.sub(r"<a [^>]*>|</a>", "", text)]
    text = json.dumps(cards, ensure_ascii=False, separators=(",", ":"))
    (Path(app.outdir) / "_static" / CARDS).write_text(
        f"BookCards.receive({text});\n", encoding="utf-8"
    )


def setup(app):
    app.connect("doctree-read", on_doctree_read)
    app.connect("doctree-resolved", on_doctree_resolved, priority=600)
    app.connect("build-finished", on_build_finished)
    # env_version: that of what is kept in `env.metadata`. Another one has all pages read anew.
    return {
        "version": "1",
        "env_version": 3,
        "parallel_read_safe": True,
        "parallel_write_safe": True,
    }
