"""Interactive pictures, each opened alone in a browser, with the network off."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest
from chromium import opened

from allyouneed.pictures import Interactive

ROOT = Path(__file__).parents[2]
PAGE = """<!doctype html><html lang="en" data-theme="light"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>picture</title>
<style>body {{ margin: 1rem; }} </style>
<body><main><h1>picture</h1>{}</main></body></html>"""


class Stage:
    """A picture on a page of its own: `state` is what it says is to be seen, `tab` the page."""

    def __init__(self, tab, html: str):
        self.wrong = []
        self.tab = tab
        tab.mouse.move(0, 0)  # where it hovers over nothing
        tab.goto("about:blank")  # a new window: nothing of another test's picture is left
        tab.on("pageerror", lambda error: self.wrong.append(str(error)))
        tab.on("console", lambda message: self.wrong.append(message.text))
        tab.on("request", lambda request: self.wrong.append(request.url))
        tab.set_content(PAGE.format(html))
        assert not self.wrong, self.wrong

    @property
    def state(self) -> dict:
        return json.loads(self.tab.locator(".moving").get_attribute("data-state"))

    @property
    def says(self) -> str:
        return self.tab.locator(".moving .says").inner_text()

    def press(self, *keys: str) -> None:
        for key in keys:
            self.tab.keyboard.press(key)


@functools.cache
def committed(chapter: int, kind: str) -> list[str]:
    """The pictures of one kind as they stand in a chapter's committed outputs."""
    file = next((ROOT / "notebooks").glob(f"{chapter:02d}_*.ipynb"))
    found = []
    for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]:
        for output in cell.get("outputs", []):
            html = "".join(output.get("data", {}).get("text/html", ""))
            if html.startswith(f'<div class="moving {kind}"'):
                found.append(html)
    return found


@pytest.fixture(scope="package")
def browser():
    """One for all pictures; it is closed before a notebook is run."""
    with opened() as browser:
        yield browser


@pytest.fixture(scope="module")
def tabs(browser):
    """tabs(**context) is a page of such a context: one for all tests of a file, as a new context
    costs five times what a new picture costs."""
    opened = {}

    def tab(**context):
        name = json.dumps(context, sort_keys=True)
        if name not in opened:
            opened[name] = browser.new_context(offline=True, **context).new_page()
        return opened[name]

    yield tab
    for one in opened.values():
        one.context.close()


@pytest.fixture
def stage(tabs):
    """stage(picture) opens an `Interactive`; stage(4, "attention-rows") what chapter 4 shows.

    A picture takes the place of one that was opened before it for the same sort of screen."""
    opened = []

    def open_one(picture: Interactive | int, kind: str = "", which: int = 0, **context) -> Stage:
        if isinstance(picture, Interactive):
            html = picture._repr_html_()
        else:
            html = committed(picture, kind)[which]
        opened.append(Stage(tabs(**context), html))
        return opened[-1]

    yield open_one
    for one in opened:
        assert not one.wrong, one.wrong


@pytest.fixture(scope="module")
def core(browser):
    """core("softmax", [1, 2]): what a function of core.js, or of another kind's file, returns."""
    tab = browser.new_context(offline=True).new_page()

    def call(name: str, *arguments, kind: str | None = None):
        folder = ROOT / "src" / "allyouneed" / "pictures"
        for file in ("core", kind):
            if file and not tab.evaluate("key => window[key]", f"has-{file}"):
                tab.add_script_tag(content=(folder / f"{file}.js").read_text(encoding="utf-8"))
                tab.evaluate("key => { window[key] = true; }", f"has-{file}")
        return tab.evaluate(f"(all) => {name}(...all)", list(arguments))

    yield call
    tab.context.close()
