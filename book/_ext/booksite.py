"""What the site needs beyond its pages: addresses, links to each chapter's code, less weight.

The repository's address stands in pyproject.toml ([project.urls] Repository) and is read here.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

from pygments.formatters import HtmlFormatter
from pygments.token import Name, Punctuation, Text, Whitespace
from sphinx.highlighting import PygmentsBridge

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
REPOSITORY = PROJECT["urls"]["Repository"].rstrip("/")
OWNER, NAME = urlsplit(REPOSITORY).path.strip("/").split("/")
SITE = f"https://{OWNER.lower()}.github.io/{NAME}/"
COLAB = f"https://colab.research.google.com/github/{OWNER}/{NAME}/blob/main"
THEBE = re.compile(r'<script type="text/x-thebe-config">.*?</script>\s*<script>.*?</script>', re.S)
NUMBER = re.compile(r'(?<=<h1><span class="section-number">)(\d+)\. ')
SEARCH = re.compile(r'<script (src="(?:_static/(?:searchtools|language_data)|searchindex)\.js)')
MEASURES = re.compile(
    r'(function \w+\(\)\{)(?=const e=\(\)=>\{document\.querySelectorAll\(\["pre"\s*,)'
)
FIGURE = re.compile(r'<img (?=[^>]* src="\.\./_images/([^"]+\.svg)")')
SIZE = re.compile(r'<svg[^>]* width="([\d.]+)pt" height="([\d.]+)pt"')
FONTS = [  # of what every page shows first
    "source-serif-4-latin-400-normal",
    "source-serif-4-latin-600-normal",
    "source-sans-3-latin-wght-normal",
]
UNUSED = re.compile(r"thebe|sphinx-design|design-tabs|togglebutton|toggleHint|toggleOpen", re.I)


class Marked(HtmlFormatter):
    """Code in which only what has a colour of its own is marked: two thirds of what pygments marks
    are names, brackets and spaces in the colour of the text, and each is an element of the page."""

    PLAIN = Name, Punctuation, Whitespace

    def format_unencoded(self, tokensource, outfile) -> None:
        plain = ((Text if kind in self.PLAIN else kind, text) for kind, text in tokensource)
        super().format_unencoded(plain, outfile)


def on_config_inited(app, config) -> None:
    config.html_theme_options["repository_url"] = REPOSITORY
    config.html_baseurl = config.ogp_site_url = SITE


def on_outdated(app, env, added, changed, removed) -> list[str]:
    """The first page is always made anew: if no page is, Sphinx copies no changed script either."""
    return [app.config.root_doc]


def chapter_links(app, pagename: str, module: str | None) -> str:
    """The line of links under a chapter's title."""
    links = [
        (f"{COLAB}/{pagename}.ipynb", "Open in Colab", ""),
        (f"../_sources/{pagename}.ipynb", "Download notebook", " download"),
    ]
    if module:
        api = app.builder.get_relative_uri(pagename, "book/api")
        links.append((f"{api}#module-{module}", f"Module <code>{module}</code>", ""))
    items = "".join(f'<li><a href="{url}"{more}>{text}</a></li>' for url, text, more in links)
    return f'<ul class="chapter-links">{items}</ul>'


def figures_later(app, body: str) -> str:
    """Figures come when the reader comes near, or begins to read (see book.js): each is a drawing
    of a thousand lines to be read and laid out. Their places are kept for them."""
    files = {name: path for path, (_, name) in app.env.images.items()}

    def size(found: re.Match) -> str:
        text = (Path(app.srcdir) / files[found[1]]).read_text(encoding="utf-8")
        width, height = (round(float(points) * 4 / 3) for points in SIZE.search(text).groups())
        return f'<img loading="lazy" width="{width}" height="{height}" '

    return FIGURE.sub(size, body)


def fonts_first(folder: str) -> str:
    """A script that asks for the fonts at once, and not when the style sheets have been read: else
    the text is set in another font first, and all of it moves when the right one comes.

    Not on a phone, where little moves and the style sheets would come later for it. A script, since
    a page that is opened as a file may not ask ahead.
    """
    urls = json.dumps([f"{folder}/{name}.woff2" for name in FONTS])
    link = (
        '{rel: "preload", as: "font", type: "font/woff2", crossOrigin: "", '
        'media: "(min-width: 600px)", href}'
    )
    ask = f'document.head.append(Object.assign(document.createElement("link"), {link}))'
    return f'<script>if (location.protocol !== "file:") for (const href of {urls}) {ask};</script>'


def later(asset) -> None:
    """No script stands in the way of the text: all run when the page has been read."""
    if getattr(asset, "attributes", {}).get("body", "").startswith("DOCUMENTATION_OPTIONS"):
        body = asset.attributes["body"]
        asset.attributes["body"] = f'addEventListener("DOMContentLoaded", () => {{ {body} }});'
    elif str(asset.filename).endswith(".js"):
        asset.attributes["defer"] = "defer"


def on_page(app, pagename: str, templatename: str, context: dict, doctree) -> None:
    context["site_path"] = urlsplit(SITE).path
    fonts = context["pathto"]("_static/fonts", resource=True)
    context["metatags"] = context.get("metatags", "") + fonts_first(fonts)
    if pagename.startswith("notebooks/"):
        links = chapter_links(app, pagename, (context.get("meta") or {}).get("exports_to"))
        body = context["body"].replace("</h1>", f"</h1>\n{links}", 1)
        body = figures_later(app, body)
        context["body"] = NUMBER.sub(r"\1", body, count=1)  # "4. " stands above the title as "4"
    # What axe-core finds in the markup of MyST-NB and bibtex: a fold is named by its words, and a
    # list holds list items.
    body = context.get("body", "").replace(' aria-label="Toggle hidden content"', "")
    context["body"] = THEBE.sub("", body.replace('role="doc-biblioentry"', 'role="listitem"'))
    for kind in ("script_files", "css_files"):
        kept = {}
        for asset in context[kind]:
            body = getattr(asset, "attributes", {}).get("body") or ""
            if not UNUSED.search(f"{asset.filename or ''} {body}"):
                kept.setdefault((asset.filename, body), asset)  # each of them once
                later(asset)
        context[kind] = list(kept.values())


def on_build_finished(app, exception) -> None:
    """Mend two files that are written once for all pages.

    The scripts of the search page stand in its template: they wait for the others, too. And the
    theme measures every box of code, also those out of sight, which takes a phone a second and
    comes again with every change in the page: book.js does it, once.
    """
    if exception or app.builder.format != "html":
        return
    for name, pattern, better in [
        ("search.html", SEARCH, r"<script defer \1"),
        ("_static/scripts/pydata-sphinx-theme.js", MEASURES, r"\1return;"),
    ]:
        file = Path(app.outdir) / name
        text = file.read_text(encoding="utf-8")
        file.write_text(pattern.sub(better, text), encoding="utf-8")


def setup(app):
    PygmentsBridge.html_formatter = Marked
    app.connect("build-finished", on_build_finished)
    app.connect("config-inited", on_config_inited)
    app.connect("env-get-outdated", on_outdated)
    app.connect("html-page-context", on_page, priority=900)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
