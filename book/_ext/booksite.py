"""What the site needs beyond its pages: addresses, links to each chapter's code, less weight.

The repository's address stands in pyproject.toml ([project.urls] Repository) and is read here.
"""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import replace
from html import escape, unescape
from pathlib import Path
from textwrap import shorten
from urllib.parse import urlsplit

from bookpatch import Patch, chapter, outdated
from docutils import nodes
from plainmath import plain
from pygments.formatters import HtmlFormatter
from pygments.token import Name, Punctuation, Text, Whitespace
from sphinx.highlighting import PygmentsBridge

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REPOSITORY = PROJECT["urls"]["Repository"].rstrip("/")
OWNER, NAME = urlsplit(REPOSITORY).path.strip("/").split("/")
SITE = f"https://{OWNER.lower()}.github.io/{NAME}/"
COLAB = f"https://colab.research.google.com/github/{OWNER}/{NAME}/blob/main"
LINKS = Patch("LINKS", "a chapter's links stand under its title", re.compile("</h1>"))
NUMBER = Patch(
    "NUMBER",
    "a chapter's number stands above its title without a point",
    re.compile(r'(?<=<h1><span class="section-number">)(\d+)\. '),
    r"\1",
)
FIGURE = Patch(
    "FIGURE",
    "figures come when the reader comes near, their places are kept, and a phone shows them large",
    re.compile(r'<img (?=[^>]* src="(\.\./_images/([^"]+\.svg))")([^>]*)>'),
)
GLYPHS = re.compile(r"scale\((0?\.\d+) -\1\)")  # matplotlib's, of a text: its size in points / 100
WRITTEN = re.compile(r'<text [^>]*font-size="([\d.]+)"')
TAG = re.compile(r"<[^>]*>")
NARROW = 32  # columns of code that any phone has room for
SHORT = 10  # em: a formula that any phone has room for
LABEL = 10  # pixels of the smallest label, on any screen
FOLD = Patch(
    "FOLD", "a fold is named by its words", re.compile(' aria-label="Toggle hidden content"')
)
REFERENCE = Patch(
    "REFERENCE",
    "the list of references holds list items",
    re.compile('role="doc-biblioentry"'),
    'role="listitem"',
)
THEBE = Patch(
    "THEBE",
    "no page carries the settings of Thebe, which is not used",
    re.compile(r'<script type="text/x-thebe-config">.*?</script>\s*<script>.*?</script>', re.S),
)
SEARCH = Patch(
    "SEARCH",
    "the book's own search stands in the place of Sphinx's (see booksearch), and its scripts wait "
    "for the others",
    re.compile(
        r'<script src="(_static/searchtools|_static/language_data|searchindex)\.js"></script>'
    ),
    lambda found: f'<script defer src="{SEARCHES[found[1]]}"></script>',
)
SEARCHES = {
    "_static/searchtools": "_static/language_data.js",
    "_static/language_data": "_static/search.js",
    "searchindex": "_static/search-index.js",
}
INLINE = re.compile(
    r'<span class="math notranslate nohighlight">\\\((.*?)\\\)</span>([,.;:?!)’”]*)', re.S
)
DISPLAY = re.compile(
    r'<div class="math notranslate nohighlight"([^>]*)>\s*\\\[(.*?)\\\]</div>', re.S
)
NAME_IN_CODE = re.compile(r'(?<=<span class="pre">)[^<\s]{12,}(?=</span>)')
JOINT = re.compile(r"(?<=[^\W_])(_+|/|\.(?!\d))(?=[^\W_])")
PIECE = re.compile(r"<[^>]*>|&[^;]+;|.", re.S)
UNBROKEN = re.compile(r"\S{20,}")
LONG_NAME = re.compile(r"\w{16,}")
BETWEEN = re.compile(r"(?<=[^\W_])\.(?!\d)|(?<=[)\]])\.|[(\[,=](?=[^\s)\],=])")
BARE = re.compile(r'<(?:span|div) class="math\b')
ADDRESS = re.compile(r'(?<=">)https?://[^<]+(?=</a>)')
SIGN = re.compile(r"(//|[/._-])(?=\w)")
ABOUT = re.compile(r'(?<=description" content=")[^"]*')  # once for search engines, once for sharing
CORNER = re.compile(r'<th class="head[^"]*"><p></p></th>')
EMPTY = re.compile(r"<th\b[^>]*>(?:\s|</?p>)*</th>")
MEASURES = Patch(
    "MEASURES",
    "the theme does not measure every box of code, which takes a phone a second and comes again "
    "with every change in the page: book.js does it, once",
    re.compile(r'(function \w+\(\)\{)(?=const e=\(\)=>\{document\.querySelectorAll\(\["pre"\s*,)'),
    r"\1return;",
)
PLAIN = re.compile(r'<pre>(?:(?!</pre>).)*<span class="[npw]">', re.S)  # see Marked
AT_ONCE = re.compile(r"<script (?![^>]*\bdefer\b)[^>]*\bsrc=")
OPTIONS = "DOCUMENTATION_OPTIONS"  # how a script begins that must wait for the others
SIZE = re.compile(r'<svg[^>]* width="([\d.]+)pt" height="([\d.]+)pt"')
FONT = re.compile(
    r'font-family: "([^"]+)".*? font-weight: ([\d ]+);( font-style: italic;)? '
    r"src: url\(fonts/([^)]+)\)"
)
FIRST = [
    "serif-4-latin-400-normal",
    "serif-4-latin-600-normal",
    "sans-3",
]  # what a page shows first
# What the names or the words of scripts and style sheets hold that no page has a use for.
UNUSED = {
    "thebe", "sphinx_highlight", "sphinx-design", "design-tabs", "togglebutton", "togglehint",
    "toggleopen",
}  # fmt: skip


def with_joints(line: str) -> str:
    """A line of code, in HTML, with places to break in what has no space for long."""
    pieces = PIECE.findall(line)
    letters = [i for i, piece in enumerate(pieces) if piece[0] != "<"]
    text = "".join(unescape(pieces[i])[0] for i in letters)
    for run in UNBROKEN.finditer(text):
        joints = list(BETWEEN.finditer(text, *run.span()))
        for name in LONG_NAME.finditer(text, *run.span()):
            joints += JOINT.finditer(text, *name.span())
        for joint in joints:
            pieces[letters[joint.end() - 1]] += "<wbr>"
    return "".join(pieces)


class Marked(HtmlFormatter):
    """Code in which only what has a colour of its own is marked: two thirds of what pygments marks
    are names, brackets and spaces in the colour of the text, and each is an element of the page.

    A line that is too long for a phone is marked, with its indentation: where it has no room, it
    goes on below itself, a little to the right (see book.css). Where it has no space for long, it
    may be broken after a bracket, between arguments, and where a word of a name ends."""

    PLAIN = Name, Punctuation, Whitespace

    def format_unencoded(self, tokensource, outfile) -> None:
        plain = ((Text if kind in self.PLAIN else kind, text) for kind, text in tokensource)
        super().format_unencoded(plain, outfile)

    def _format_lines(self, tokensource):
        for is_code, line in super()._format_lines(tokensource):
            text = unescape(TAG.sub("", line)).rstrip("\n")
            if is_code and len(text) > NARROW:
                indent = len(text) - len(text.lstrip(" "))
                line = with_joints(line)
                line = f'<span class="long" style="--in:{indent}">{line}</span>'
            yield is_code, line


def on_config_inited(app, config) -> None:
    config.html_theme_options["repository_url"] = REPOSITORY
    config.html_baseurl = config.ogp_site_url = SITE


def on_outdated(app, env, added, changed, removed) -> list[str]:
    """The first page is always made anew: if no page is, Sphinx copies no changed script either."""
    return [app.config.root_doc]


def chapter_links(app, pagename: str, meta: dict) -> str:
    """The line of links under a chapter's title, how long it takes (see bookminutes) and how many
    exercises it has (see bookexercises)."""
    module, minutes = meta.get("exports_to"), meta.get("minutes")
    links = [
        (f"{COLAB}/{pagename}.ipynb", "Open in Colab", ""),
        (f"../_sources/{pagename}.ipynb", "Download notebook", " download"),
    ]
    if module:
        api = app.builder.get_relative_uri(pagename, "book/api")
        links.append((f"{api}#module-{module}", f"Module <code>{module}</code>", ""))
    items = "".join(f'<li><a href="{url}"{more}>{text}</a></li>' for url, text, more in links)
    if minutes:
        items += f'<li class="minutes">{minutes} minutes</li>'
    if count := len(meta.get("exercises", [])):
        is_project = chapter(pagename) is None
        words, place = ("stages", "attention") if is_project else ("exercises", "exercises")
        more = f'data-words="{words}" href="#{place}"'
        items += f'<li><a class="count" {more}>{count} {words}</a></li>'
    return f'<ul class="chapter-links">{items}</ul>'


def room_for(formula: re.Match) -> str:
    """An inline formula with an estimate of its width, in em: until it is set, its TeX, which is
    much longer, takes no more room, and few lines break anew when it is. And as plain text, for
    those who have no scripts. With the sign that ends it, for no line begins with a comma: a
    browser breaks between the two."""
    tex = unescape(formula[1])
    says = escape(plain(tex), quote=True)
    tex = re.sub(r"\\(?:text|mathrm|mathbf|operatorname|mathbb|sqrt|hat|bar|frac)\b", "", tex)
    lowered = sum(len(part.strip("{}_^")) for part in re.findall(r"[_^](?:\{[^{}]*\}|.)", tex))
    signs = len(re.sub(r"[{}_^ &]", "", re.sub(r"\\([a-zA-Z]+|.)", "x", tex)))
    wide = len(re.findall(r"[=+<>]|\\(?:cdot|times|in|to|approx|le|ge|ne)\b", tex))
    width = 0.58 * (signs - 0.35 * lowered) + 0.6 * wide + 0.75 * formula[1].count(r"\sqrt")
    more = f'<span style="--room:{width:.1f}em" data-plain="{says}" '
    html = formula[0].replace("<span ", more, 1)
    return f'<span class="with-sign">{html}</span>' if formula[2] and width < SHORT else html


def said(formula: re.Match) -> str:
    """A formula on lines of its own, as plain text, too."""
    says = escape(plain(unescape(formula[2])), quote=True)
    return formula[0].replace("<div ", f'<div data-plain="{says}" ', 1)


def broken_at_joints(html: str) -> str:
    """Long names in code may be broken where a word of theirs ends, a path after its slashes, and
    neither anywhere else; an address that is written out, after its signs."""
    html = ADDRESS.sub(lambda address: SIGN.sub(r"\1<wbr>", address[0]), html)
    return NAME_IN_CODE.sub(lambda name: JOINT.sub(r"\1<wbr>", name[0]), html)


def in_words(node: nodes.Node) -> str:
    """What a node says, formulas as they are written by hand."""
    if isinstance(node, nodes.math):
        return plain(node.astext())
    if isinstance(node, nodes.Text | nodes.raw):
        return str(node) if isinstance(node, nodes.Text) else ""
    return "".join(map(in_words, node.children))


def about(doctree: nodes.document) -> str:
    """What is shown where a page is shared: the first 200 letters of its paragraphs, without those
    that are as short as a subtitle."""
    found = ""
    for paragraph in doctree.findall(nodes.paragraph):
        if len(found) > 200:
            break
        said = " ".join(in_words(paragraph).split())
        found += f" {said}" if len(said) > 40 else ""
    return shorten(found, 200, placeholder=" …")


def figures_later(app, body: str, page: str, doctree) -> str:
    """Figures come when the reader comes near, or begins to read (see book.js): each is a drawing
    of a thousand lines to be read and laid out. Their places are kept for them."""
    files = {name: path for path, (_, name) in app.env.images.items()}

    def size(found: re.Match) -> str:
        text = (Path(app.srcdir) / files[found[2]]).read_text(encoding="utf-8")
        width, height = (round(float(points) * 4 / 3) for points in SIZE.search(text).groups())
        sizes = [float(part) * 400 / 3 for part in GLYPHS.findall(text)]
        smallest = min([*sizes, *map(float, WRITTEN.findall(text))], default=LABEL)
        least = min(width, round(width * LABEL / smallest))
        return (
            f'<span class="broad" style="--own:{width}px;--least:{least}px"><img loading="lazy" '
            f'width="{width}" height="{height}" {found[3]}></span>'
            f'<a class="whole" href="{found[1]}">Open the whole figure</a>'
        )

    drawn = sum(image["uri"].endswith(".svg") for image in doctree.findall(nodes.image))
    return replace(FIGURE, better=size)(body, page, drawn)


def fonts_first(folder: str) -> str:
    """A script that loads the fonts of the first view at once, and not when the style sheets have
    been read: else the text is set in another font first, and all of it moves when the right one
    comes. As FontFaces: a <link rel="preload"> is a second way to the same file, and where the
    browser still has the style sheet's font from the page before, it takes that one and complains
    that the link was not used.

    A phone does not wait for them: its first page stays in the phone's own font, and from the next
    on it has them (see book.js). A script, since a page that is opened as a file may not ask ahead.
    """
    rules = FONT.findall((ROOT / "book/_static/fonts.css").read_text(encoding="utf-8"))
    faces = [
        [family, f"{folder}/{file}", weight]
        for family, weight, italic, file in rules
        if not italic and any(name in file for name in FIRST)
    ]
    if len(faces) != len(FIRST):
        raise outdated("FONT", "the fonts of the first view are loaded at once", "fonts.css")
    return (
        f"<script>var bookFonts = {json.dumps(faces)}; if (location.protocol !== 'file:' && "
        "(matchMedia('(min-width: 600px)').matches || localStorage.getItem('fonts'))) {"
        "for (const [family, url, weight] of bookFonts) { const face = new FontFace(family, "
        "`url(${url})`, {weight, display: 'swap'}); document.fonts.add(face); "
        "face.load().catch(() => null); } const sheet = document.createElement('link'); "
        f"Object.assign(sheet, {{rel: 'stylesheet', href: '{folder}.css'}}); "
        "document.head.append(sheet); }</script>"
    )


def fewer_assets(page: str, context: dict) -> None:
    """Of the scripts and style sheets those that the page has a use for, each of them once."""
    missing = set(UNUSED)
    for kind in ("script_files", "css_files"):
        kept = {}
        for asset in context[kind]:
            body = asset.attributes.get("body") or ""
            text = f"{asset.filename or ''} {body}".lower()
            unused = {word for word in UNUSED if word in text}
            missing -= unused
            if not unused:
                kept.setdefault((asset.filename, body), asset)
        context[kind] = list(kept.values())
    if missing:
        raise outdated("UNUSED", f"no page loads {', '.join(sorted(missing))}", page)


def later(page: str, scripts: list) -> None:
    """No script stands in the way of the text: all run when the page has been read."""
    settings = [s for s in scripts if (s.attributes.get("body") or "").startswith(OPTIONS)]
    if not settings:
        raise outdated("OPTIONS", "the page's settings wait for the script that they set", page)
    for script in scripts:
        if script in settings:
            body = script.attributes["body"]
            script.attributes["body"] = f'addEventListener("DOMContentLoaded", () => {{ {body} }});'
        elif str(script.filename).endswith(".js"):
            script.attributes["defer"] = "defer"


def on_page(app, pagename: str, templatename: str, context: dict, doctree) -> None:
    context["site_path"] = urlsplit(SITE).path
    fonts = context["pathto"]("_static/fonts", resource=True)
    context["metatags"] = context.get("metatags", "") + fonts_first(fonts)
    page = f"{pagename}.html"
    fewer_assets(page, context)
    later(page, context["script_files"])
    if doctree is None:  # the search page and the like
        return
    told = escape(about(doctree), quote=True)
    context["metatags"] = ABOUT.sub(lambda _: told, context["metatags"])
    meta, body = context.get("meta") or {}, context["body"]
    if pagename.startswith("notebooks/"):
        links = chapter_links(app, pagename, meta)
        body = replace(LINKS, better=f"</h1>\n{links}")(body, page, 1)
        if pagename.split("/")[1][0].isdigit():  # the project has no number
            body = NUMBER(body, page, 1)
    if pagename.startswith("notebooks/") or pagename == app.config.root_doc:
        body = figures_later(app, body, page, doctree)
    body = FOLD(body, page, meta.get("folds", 0))
    body = REFERENCE(body, page, sum(1 for _ in doctree.findall(nodes.citation)))
    body = broken_at_joints(DISPLAY.sub(said, INLINE.sub(room_for, body)))
    context["toc"] = broken_at_joints(INLINE.sub(room_for, context.get("toc", "")))
    body = CORNER.sub("<td></td>", body)  # an empty cell heads no column
    context["body"] = body = THEBE(body, page, 1)
    if PLAIN.search(body):
        raise outdated("Marked", "only code with a colour of its own is marked", page)


def on_build_finished(app, exception) -> None:
    """Mend two files that are written once for all pages, and see that no page has what others
    add to it after `on_page`, or write in another way than it knows: scripts that do not wait,
    formulas that are no text, heads of columns without a word."""
    if exception or app.builder.name != "html":
        return
    for name, patch, times in [
        ("search.html", SEARCH, 3),
        ("_static/scripts/pydata-sphinx-theme.js", MEASURES, 1),
    ]:
        file = Path(app.outdir) / name
        file.write_text(patch(file.read_text(encoding="utf-8"), name, times), encoding="utf-8")
    for page in (f"{app.config.root_doc}.html", "search.html"):
        found = len(AT_ONCE.findall((Path(app.outdir) / page).read_text(encoding="utf-8")))
        if found:
            raise outdated("later", "all scripts wait for the text", page, f"{found} scripts more")
    for file in sorted(Path(app.outdir).rglob("*.html")):
        html, page = file.read_text(encoding="utf-8"), file.relative_to(app.outdir).as_posix()
        if bare := len(BARE.findall(html)):
            why = "a formula can be read without scripts"
            raise outdated("INLINE", why, page, f"{bare} formulas more")
        if empty := len(EMPTY.findall(html)):
            raise outdated("CORNER", "an empty cell heads no column", page, f"{empty} cells more")


def setup(app):
    PygmentsBridge.html_formatter = Marked
    app.connect("build-finished", on_build_finished)
    app.connect("config-inited", on_config_inited)
    app.connect("env-get-outdated", on_outdated)
    app.connect("html-page-context", on_page, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
