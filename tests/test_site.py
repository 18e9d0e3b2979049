"""The built book in a browser, with the network off: every page, wide and narrow, light and dark.

Needs Chromium (on Debian: `apt install chromium`) and the packages that `make book` installs.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import sys
import threading
import tomllib
from functools import cache, partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest

ROOT = Path(__file__).parents[1]
HTML = ROOT / "_build" / "html"
LIMIT = 900_000  # bytes of a first visit, compressed
SOURCES = ["_config.yml", "_toc.yml", "pyproject.toml", "book", "notebooks", "src/allyouneed"]
CHROMIUM = next(
    filter(None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])), None
)
needs_chromium = pytest.mark.skipif(
    CHROMIUM is None and os.environ.get("CI") != "true",
    reason="no page was opened: there is no Chromium here (Debian: apt install chromium)",
)


def build() -> None:
    """Build the site if it is missing or older than what it is made from. Warnings are errors."""
    files = [f for name in SOURCES for f in [ROOT / name, *(ROOT / name).rglob("*")]]
    newest = max(f.stat().st_mtime for f in files if f.is_file() and "__pycache__" not in f.parts)
    done = ROOT / "_build" / "built"
    if done.exists() and done.stat().st_mtime > newest and (HTML / "index.html").exists():
        return
    command = "import sys; from jupyter_book.cli.main import main; sys.exit(main())"
    built = subprocess.run(
        [sys.executable, "-c", command, "build", ".", "-W", "-n", "--keep-going", "--quiet"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert built.returncode == 0, (built.stdout + built.stderr)[-5000:]
    done.touch()


class Page(HTMLParser):
    """The links, anchors and pictures of a page."""

    def __init__(self, file: Path):
        super().__init__()
        self.links, self.anchors, self.images = [], set(), []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.anchors.add(attributes.get("id"))
        if tag == "img":
            self.images.append(attributes)
        self.links += [attributes[key] for key in ("href", "src") if attributes.get(key)]


@cache
def parsed(file: Path) -> Page:
    return Page(file)


@pytest.fixture(scope="module")
def site() -> list[str]:
    """The names of all pages, without index.html, which only sends the reader on."""
    build()
    files = [file for file in sorted(HTML.rglob("*.html")) if "_static" not in file.parts]
    return [file.relative_to(HTML).as_posix() for file in files if file != HTML / "index.html"]


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def address(site):
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=HTML)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    assert CHROMIUM, "CI needs Chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


class Visit:
    """A browser tab that lets no request out and writes down what goes wrong and what comes in."""

    def __init__(self, browser, home: str, **context):
        self.home, self.wrong, self.loaded = home, [], set()
        self.tab = browser.new_context(**context).new_page()
        self.tab.route("**/*", self.gate)
        self.tab.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.tab.on("console", self.listen)
        self.tab.on("requestfailed", self.failed)

    def listen(self, message):
        if message.type in ("error", "warning"):
            self.wrong.append(f"{message.text} {message.location.get('url', '')}")

    def failed(self, request):
        if request.failure != "net::ERR_ABORTED":  # the reader went on to another page
            self.wrong.append(f"failed: {request.url}")

    def gate(self, route):
        url = route.request.url
        if url.startswith((self.home, "data:", "blob:")):
            self.loaded.add(url.split("?")[0].split("#")[0])
            route.continue_()
        else:
            self.wrong.append(f"asks for {url}")
            route.abort()

    def open(self, page: str):
        self.wrong, self.loaded = [], set()
        self.tab.goto(self.home + page, wait_until="load")
        self.tab.evaluate("window.mathematicsIsSet?.then(() => null)")
        self.tab.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")
        self.tab.evaluate("document.fonts.ready.then(() => null)")
        return self.tab


def scroll_through(tab) -> None:
    """Make the browser fetch everything that is on the page."""
    tab.evaluate(
        """async () => { for (let y = 0; y < document.body.scrollHeight; y += 2000) {
             scrollTo({top: y, behavior: "instant"}); await new Promise(r => setTimeout(r, 10)); }
           const shown = image => image.decode().catch(() => null);
           await Promise.all([...document.images].map(shown)); }"""
    )


def weight(urls: set[str], home: str) -> dict[str, int]:
    """What each file weighs on its way: what is compressed already is not compressed again."""
    sizes = {}
    for url in urls:
        if url.startswith(home):
            path = unquote(url[len(home) :]) or "index.html"
            data = (HTML / path).read_bytes()
            packed = path.endswith((".woff", ".woff2", ".png", ".jpg"))
            sizes[path] = len(data) if packed else len(gzip.compress(data, 6))
    return sizes


def violations(tab, options: str = "{rules: {'color-contrast': {enabled: false}}}") -> list[str]:
    """What axe-core finds, but for contrast and for matters that it calls minor."""
    return axe(tab, "document", options)


def broken_equations(tab) -> list[str]:
    """What MathJax could not read."""
    marked = """[...document.querySelectorAll("[data-mjx-error]")]
                .map(one => one.getAttribute("data-mjx-error"))"""
    return [f"equation: {what}" for what in tab.evaluate(marked)]


def faint_text(tab) -> list[str]:
    """What axe-core says about contrast, asked once for each pair of colours on the page.

    A chapter has thousands of coloured words of code; asking about each takes a minute.
    """
    pairs = """(() => {
      const pairs = new Map();
      for (const element of document.querySelectorAll("body *")) {
        const text = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
        if (!text || !element.checkVisibility()) continue;
        const style = getComputedStyle(element);
        const clear = one => /, 0\\)$/.test(getComputedStyle(one).backgroundColor);
        let paper = element;
        while (paper.parentElement && clear(paper)) paper = paper.parentElement;
        const colours = [style.color, getComputedStyle(paper).backgroundColor, style.opacity];
        const pair = [...colours, style.fontSize, style.fontWeight].join();
        if (!pairs.has(pair)) pairs.set(pair, element);
      }
      return {include: [...pairs.values()]};
    })()"""
    return axe(tab, pairs, "{runOnly: ['color-contrast']}")


def axe(tab, context: str, options: str) -> list[str]:
    import axe_playwright_python

    if not tab.evaluate("typeof axe === 'object'"):
        folder = Path(axe_playwright_python.__file__).parent
        tab.evaluate(next(folder.glob("**/axe.min.js")).read_text(encoding="utf-8") + "; null")
    found = tab.evaluate(f"axe.run({context}, {options}).then(result => result.violations)")
    return [
        f"{v['impact']}: {v['id']}: {v['help']}: {[node['target'] for node in v['nodes'][:3]]}"
        for v in found
        if v["impact"] != "minor"
    ]


@needs_chromium
def test_every_page_on_a_wide_screen(site, address, browser):
    """No request out, a clean console, sound equations, axe-core content, light enough."""
    wide = {"width": 1280, "height": 900}
    visit = Visit(browser, address, viewport=wide, color_scheme="light", reduced_motion="reduce")
    problems, weights = [], {}
    for page in site:
        tab = visit.open(page)
        scroll_through(tab)
        sizes = weight(visit.loaded, address)
        weights[page] = sum(sizes.values())
        if weights[page] > LIMIT:
            heavy = sorted(sizes.items(), key=lambda item: -item[1])[:8]
            problems.append(f"{page}: weighs {weights[page]:,} bytes compressed: {heavy}")
        found = violations(tab) + faint_text(tab) + broken_equations(tab)
        tab.emulate_media(color_scheme="dark")
        if page != "404.html":
            tab.wait_for_selector("html[data-theme=dark]", state="attached")
        found += [f"dark: {v}" for v in faint_text(tab)]
        tab.emulate_media(color_scheme="light")
        problems += [f"{page}: {what}" for what in visit.wrong + found]
    print("\ncompressed bytes of a first visit, by page:")
    print(*(f"{size:>9,}  {page}" for page, size in weights.items()), sep="\n")
    assert not problems, "\n".join(problems)


@needs_chromium
def test_every_page_on_a_phone(site, address, browser):
    """Nothing is wider than the screen, and boxes that scroll can be reached with the keyboard."""
    phone = {"width": 390, "height": 844}
    visit = Visit(browser, address, viewport=phone, is_mobile=True, has_touch=True)
    differ = "{runOnly: ['scrollable-region-focusable', 'button-name', 'link-name', 'region']}"
    problems = []
    for page in site:
        tab = visit.open(page)
        width = tab.evaluate("document.documentElement.scrollWidth")
        if width > 390:
            problems.append(f"{page}: {width} pixels wide")
        problems += [f"{page}: {what}" for what in visit.wrong + violations(tab, differ)]
    assert not problems, "\n".join(problems)


@needs_chromium
@pytest.mark.parametrize("how", ["http", "file"])
def test_search_and_mathematics(site, address, browser, how):
    """Also when the book is opened as a file."""
    home = address if how == "http" else HTML.as_uri() + "/"
    visit = Visit(browser, home)
    tab = visit.open("search.html?q=softmax")
    tab.wait_for_selector('#search-results a[href*="notation"]')  # results come one by one
    assert not visit.wrong
    tab = visit.open("book/notation.html")
    assert tab.locator("mjx-container").count() > 5
    assert tab.locator("mjx-merror").count() == 0
    tab.click("a.right-next")
    tab.wait_for_load_state("load")
    assert "/notebooks/" in tab.url and not visit.wrong, visit.wrong


@needs_chromium
@pytest.mark.parametrize("how", ["http", "file"])
def test_the_translator_is_in_the_book(site, address, browser, how):
    """What else it does, tests/test_translator.py holds."""
    home = address if how == "http" else HTML.as_uri() + "/"
    visit = Visit(browser, home)
    tab = visit.open("book/translator.html")
    assert not any("translator/models/" in url for url in visit.loaded)
    tab.fill("#t-source", "A dog.")
    tab.press("#t-source", "Enter")
    tab.wait_for_function(
        "document.getElementById('t-output').textContent === 'Ein Hund.'", timeout=60_000
    )
    assert not visit.wrong, visit.wrong


def test_links_and_pictures(site):
    """Links inside the book lead somewhere, also to the place in the page; pictures have words."""
    problems = []
    site_path = urlsplit(booksite().SITE).path
    for name in site:
        page = parsed(HTML / name)
        problems += [
            f"{name}: no alt text: {i.get('src')}"
            for i in page.images
            if not i.get("alt", "").strip()
        ]
        for link in page.links:
            if urlsplit(link).scheme or link.startswith("//") or link == "#":
                continue
            link = link.removeprefix(site_path) if link.startswith("/") else urljoin(name, link)
            target, anchor = (
                HTML / unquote(urlsplit(link).path or "index.html"),
                urlsplit(link).fragment,
            )
            if not target.is_file():
                problems.append(f"{name}: {link} is not there")
            elif (
                anchor
                and target.suffix == ".html"
                and unquote(anchor) not in parsed(target).anchors
            ):
                problems.append(f"{name}: {link} has no such place")
    assert not problems, "\n".join(sorted(set(problems)))


@cache
def booksite():
    sys.path.insert(0, str(ROOT / "book" / "_ext"))
    import booksite

    return booksite


def test_chapters_link_to_colab_notebook_and_module(site):
    url = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Repository"]
    colab = url.replace("https://github.com/", "https://colab.research.google.com/github/")
    chapters = sorted((ROOT / "notebooks").glob("*.ipynb"))
    assert chapters
    for chapter in chapters:
        name = f"notebooks/{chapter.stem}"
        links = parsed(HTML / f"{name}.html").links
        assert f"{colab}/blob/main/{name}.ipynb" in links
        assert f"../_sources/{name}.ipynb" in links
        assert (HTML / "_sources" / f"{name}.ipynb").read_bytes() == chapter.read_bytes()
        module = re.search(r"#\| *default_exp (\w+)", chapter.read_text(encoding="utf-8"))
        assert not module or f"../book/api.html#module-allyouneed.{module[1]}" in links


def test_chapters_have_their_numbers(site):
    for chapter in (ROOT / "notebooks").glob("*.ipynb"):
        page = (HTML / "notebooks" / f"{chapter.stem}.html").read_text(encoding="utf-8")
        assert re.search(
            rf"<h1><span class=\"section-number\">{int(chapter.stem[:2])}</span>", page
        )


def test_the_package_page_has_every_public_module(site):
    """A new module needs two lines in book/api.md."""
    package = ROOT / "src" / "allyouneed"
    names = {f.stem for f in package.glob("*.py")} | {
        f.parent.name for f in package.glob("*/__init__.py")
    }
    public = {name for name in names if not name.startswith("_")}
    assert {f"module-allyouneed.{name}" for name in public} <= parsed(
        HTML / "book" / "api.html"
    ).anchors


def test_address_comes_from_pyproject():
    assert "github.com" not in (ROOT / "_config.yml").read_text(encoding="utf-8")
