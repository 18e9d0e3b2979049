"""Chromium for the tests: a folder served, a tab that keeps to it, and what axe-core says."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

# The first draws no window and has no profiles: it opens a page in a third of the work.
NAMES = ["chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"]
CHROMIUM = next(filter(None, map(shutil.which, NAMES)), None)
OFFLINE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"  # no other machine is found


@contextmanager
def opened():
    """Chromium without a network; meanwhile torch has one thread, for the browser needs a core."""
    if CHROMIUM is None and os.environ.get("CI") != "true":
        pytest.skip("no page was opened: there is no Chromium here (Debian: apt install chromium)")
    assert CHROMIUM, "CI needs Chromium"
    import torch  # both take their time, and many tests need neither
    from playwright.sync_api import sync_playwright

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", OFFLINE]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()
    torch.set_num_threads(threads)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address at which the folder is served meanwhile."""
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


class Visit:
    """A browser tab that writes down what goes wrong, what comes in, and what it asks of others."""

    def __init__(self, browser, home: str, **context):
        self.home, self.wrong, self.loaded = home, [], set()
        self.tab = browser.new_context(**context).new_page()
        self.tab.on("request", self.asked)
        self.tab.on("pageerror", lambda error: self.wrong.append(f"error: {error}"))
        self.tab.on("console", self.listen)
        self.tab.on("requestfailed", self.failed)

    def listen(self, message):
        url = message.location.get("url", "")
        unasked = url.endswith("/favicon.ico")  # looked for by the browser where no page names it
        if message.type in ("error", "warning") and not unasked:
            self.wrong.append(f"{message.text} {url}")

    def failed(self, request):
        if request.failure != "net::ERR_ABORTED":  # the reader went on to another page
            self.wrong.append(f"failed: {request.url}")

    def asked(self, request):
        if request.url.startswith((self.home, "data:", "blob:")):
            self.loaded.add(request.url.split("?")[0].split("#")[0])
        else:
            self.wrong.append(f"asks for {request.url}")

    def open(self, page: str):
        self.tab.goto("about:blank")  # what the last page still asks for is not this page's
        self.wrong, self.loaded = [], set()
        self.tab.goto(self.home + page, wait_until="load")
        self.tab.mouse.move(1, 1)  # a reader: see book.js
        wait(self.tab, "window.mathematicsIsSet")
        self.tab.evaluate("for (const d of document.querySelectorAll('details')) d.open = true")
        wait(self.tab, "document.fonts.ready")
        return self.tab


def wait(tab, promise: str) -> None:
    """Wait for a promise of the page, but not for ever, as `evaluate` does."""
    late = f"new Promise((_, no) => setTimeout(no, 60000, Error('a minute, and no {promise}')))"
    tab.evaluate(f"Promise.race([{promise}, {late}]).then(() => null)")


def drawn(tab, look: str, arg=None):
    """What a function finds in the page as it is drawn next: after what watches sizes, in the same
    frame, has moved it."""
    return tab.evaluate(
        f"""(arg) => new Promise((seen) => new IntersectionObserver((_, watch) => {{
              watch.disconnect();
              seen();
            }}).observe(document.body)).then(() => ({look})(arg))""",
        arg,
    )


def resize(tab, width: int, height: int) -> None:
    """Make the screen so large, and let the page draw itself anew: what watches a size is told in
    the next frame."""
    tab.set_viewport_size({"width": width, "height": height})
    tab.evaluate("new Promise(drawn => requestAnimationFrame(() => requestAnimationFrame(drawn)))")


def violations(tab, known: set[str]) -> list[str]:
    """What axe-core finds, but for matters that it calls minor. For contrast it looks at one text
    of each pair of colours that is not known.

    Those of this page are known afterwards: what was found on one page is not found again.
    """
    known.update(sample_colours(tab, known))
    return axe(tab, "{}")


def faint_text(tab, known: set[str]) -> list[str]:
    """The same of contrast alone."""
    known.update(sample_colours(tab, known))
    return axe(tab, "{runOnly: ['color-contrast']}")


def sample_colours(tab, known: set[str]) -> list[str]:
    """Mark the first text of each pair of colours that is not known, [data-sample], as the page
    now looks; the pairs."""
    return tab.evaluate(
        """known => {
          const [pairs, found] = [new Set(known), []];
          for (const element of document.querySelectorAll("body *")) {
            const text = [...element.childNodes].some(one => one.nodeType === 3 && one.data.trim());
            if (!text || !element.checkVisibility()) continue;
            const style = getComputedStyle(element);
            const clear = one => /, 0\\)$/.test(getComputedStyle(one).backgroundColor);
            let paper = element;
            while (paper.parentElement && clear(paper)) paper = paper.parentElement;
            const colours = [style.color, getComputedStyle(paper).backgroundColor, style.opacity];
            const size = parseFloat(style.fontSize), bold = style.fontWeight >= 700;
            const large = size >= 24 || (bold && size >= 18.66);  // what less contrast will do for
            const pair = [...colours, large].join();
            if (pairs.has(pair)) continue;
            element.dataset.sample = "";
            pairs.add(pair);
            found.push(pair);
          }
          return found;
        }""",
        sorted(known),
    )


def plain_page(tab) -> None:
    """Take the colours out of code and signatures, but for the samples and the first word of each
    kind, the signs out of equations, but for the first (a box of the same size is left), and the
    shapes out of pictures.

    A chapter has ten thousand coloured words and signs; axe-core looks at each of them for each
    rule, and there is nothing to be found in one that is not in another.
    """
    tab.evaluate(
        """() => {
          const kinds = new Set();  // what colours a word: its class, and those around it
          for (const word of document.querySelectorAll("pre span, .sig span")) {
            if (word.closest("[data-sample]") || word.querySelector("[data-sample], a")) continue;
            const around = [];
            for (let one = word; one !== document.body; one = one.parentElement)
              around.push(one.className);
            const kind = around.join();
            if (!kinds.has(kind)) {
              kinds.add(kind);
              continue;
            }
            word.replaceWith(...word.childNodes);
          }
          document.body.normalize();
          const signs = one => one.querySelector("mjx-math");
          const equations = [...document.querySelectorAll("mjx-container")].slice(1).filter(signs);
          const boxes = equations.map(one => signs(one).getBoundingClientRect());
          equations.forEach((one, i) => {
            const {width, height} = boxes[i], box = document.createElement("span");
            box.style.cssText = `display: inline-block; width: ${width}px; height: ${height}px`;
            one.replaceChildren(box);
          });
          const shapes = "svg :is(circle, line, path, polygon, polyline, rect)";
          for (const one of document.querySelectorAll(shapes))
            if (![...one.attributes].some(({name}) => /^(aria|data-sample|role|tab)/.test(name)))
              one.remove();
        }"""
    )


def in_theme(tab, theme: str) -> None:
    """Light or dark, as the reader's system asks for it."""
    tab.emulate_media(color_scheme=theme)
    tab.wait_for_function(
        "theme => (document.documentElement.dataset.theme ?? theme) === theme", arg=theme
    )


@cache
def axe_core() -> str:
    import axe_playwright_python

    folder = Path(axe_playwright_python.__file__).parent
    return next(folder.glob("**/axe.min.js")).read_text(encoding="utf-8")


def axe(tab, options: str) -> list[str]:
    if not tab.evaluate("typeof axe === 'object'"):
        contrast = "{rules: [{id: 'color-contrast', selector: '[data-sample]'}]}"
        tab.evaluate(f"{axe_core()}; axe.configure({contrast}); null")
    options = f"{{resultTypes: ['violations'], ...{options}}}"  # of the rest, no list is made
    found = tab.evaluate(f"axe.run(document, {options}).then(result => result.violations)")
    return [
        f"{v['impact']}: {v['id']}: {v['help']}: {[node['target'] for node in v['nodes'][:3]]}"
        for v in found
        if v["impact"] != "minor"
    ]
