"""The built book in a browser, with the network off: every page, wide and narrow, light and dark.

Needs Chromium (on Debian: `apt install chromium`) and the packages that `make book` installs.
"""

from __future__ import annotations

import gzip
import re
import sys
import tomllib
from functools import cache
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
import tinycss2
from chromium import (
    Visit,
    axe,
    faint_text,
    in_theme,
    plain_page,
    resize,
    sample_colours,
    served,
    violations,
    wait,
)
from pages import HTML, PHONE, ROOT, build

from allyouneed import results

sys.path.insert(0, str(ROOT / "tools"))
import card  # noqa: E402
import pdf  # noqa: E402

LIMIT = 900_000  # bytes of a first visit, compressed


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


@pytest.fixture(scope="module")
def address(site):
    with served(HTML) as address:
        yield address


def scroll_through(tab) -> None:
    """Make the browser fetch everything that is on the page."""
    tab.evaluate(
        """async () => { for (let y = 0; y < document.body.scrollHeight; y += 2000) {
             scrollTo({top: y, behavior: "instant"}); await new Promise(r => setTimeout(r, 10)); }
           const shown = image => image.decode().catch(() => null);
           await Promise.all([...document.images].map(shown)); }"""
    )


@cache
def weight_of(path: str) -> int:
    """What a file weighs on its way: what is compressed already is not compressed again."""
    data = (HTML / path).read_bytes()
    packed = path.endswith((".woff", ".woff2", ".png", ".jpg"))
    return len(data) if packed else len(gzip.compress(data, 6))


def weight(urls: set[str], home: str) -> dict[str, int]:
    """What each file of a page weighs."""
    paths = [unquote(url[len(home) :]) for url in urls if url.startswith(home)]
    return {path: weight_of(path) for path in paths}


def broken_equations(tab) -> list[str]:
    """What MathJax could not read."""
    marked = """[...document.querySelectorAll("[data-mjx-error]")]
                .map(one => one.getAttribute("data-mjx-error"))"""
    return [f"equation: {what}" for what in tab.evaluate(marked)]


def moving_pictures(tab) -> list[str]:
    """What is wrong with the interactive pictures of a page, on the screen and on paper."""
    look = """[...document.querySelectorAll(".moving")].map(one => {
      const still = one.closest("figure")?.querySelector("img");
      const [started, moves, stays] = [one.dataset.state, one.checkVisibility(),
        still?.checkVisibility()];
      return [one.className, {started: started !== undefined, moves, stays}]; })"""
    wrong = []
    if not tab.locator(".moving").count():
        return wrong
    for medium, moves in [("print", False), ("screen", True)]:
        tab.emulate_media(media=medium)
        right = {"started": True, "moves": moves, "stays": not moves}
        wrong += [f"{medium}: {kind}: {is_}" for kind, is_ in tab.evaluate(look) if is_ != right]
    return wrong


def late_picture(tab, page: str) -> list[str]:
    """A chapter opens with its question and the picture that asks it, what is folded being so."""
    look = """() => {
      const open = [...document.querySelectorAll("details[open]")];
      for (const one of open) one.open = false;
      const top = document.querySelector("main figure").getBoundingClientRect().top + scrollY;
      for (const one of open) one.open = true;  // where the page is scrolled to may change
      return top / 800; }"""
    if not page.startswith("notebooks/"):
        return []
    screens = tab.evaluate(look)
    return [f"its first picture begins {screens:.2f} screens down"] if screens > 1.25 else []


def code_that_scrolls(tab, where: str) -> list[str]:
    """Code that is wider than its box: a screen has room for it, and on a phone it wraps."""
    wide = f"""[...document.querySelectorAll("{where} pre")].filter(one => one.checkVisibility()
      && one.scrollWidth > one.clientWidth).map(one => one.textContent.slice(0, 60))"""
    return [f"code scrolls: {what}" for what in tab.evaluate(wide)]


def without_shadows(tab) -> list[str]:
    """What scrolls sideways and shows no shadow at its edge, in light and in dark."""
    wide = """[...document.querySelectorAll(".bd-article :is(pre, .broad, div.math, span.math.wide,"
      + ".table-wrap, .pst-scrollable-table-container)")].filter(one => one.checkVisibility()
        && one.scrollWidth > one.clientWidth)"""
    bare = f"""{wide}.filter(one => !getComputedStyle(one).backgroundImage.includes("gradient"))
      .map(one => one.className + ": " + one.textContent.slice(0, 60))"""
    wrong = [] if tab.evaluate(f"{wide}.length") else ["nothing scrolls"]
    for theme in ("dark", "light"):
        in_theme(tab, theme)
        wrong += [f"{theme}: no shadow: {what}" for what in tab.evaluate(bare)]
    return wrong


def narrower(tab, width: int) -> list[str]:
    """Make the window narrower: nothing may be wider than it."""
    resize(tab, width, 844)
    found = tab.evaluate("document.documentElement.scrollWidth")
    wrong = [f"{found} pixels wide on a screen of {width}"] if found > width else []
    wide = """[...document.querySelectorAll(".moving")]
              .filter(one => one.scrollWidth > one.clientWidth).map(one => one.className)"""
    return wrong + [f"{what} is wider than its box at {width}" for what in tab.evaluate(wide)]


def test_every_page(site, address, browser):
    """No request out, a clean console, sound equations, pictures that move, axe-core content in
    light and dark, light enough; on a tablet and a phone nothing is wider than the screen."""
    settings = {"color_scheme": "light", "reduced_motion": "reduce"}
    small = "{runOnly: ['scrollable-region-focusable', 'button-name', 'link-name', 'region']}"
    visit = Visit(browser, address, **settings)  # a tab for all: scripts and fonts are kept
    problems, weights, colours = [], {}, set()
    for page in site:
        visit.tab.goto("about:blank")  # which is soon drawn anew
        visit.tab.emulate_media(color_scheme="light")
        resize(visit.tab, 1280, 900)
        tab = visit.open(page)
        scroll_through(tab)
        sizes = weight(visit.loaded, address)
        weights[page] = sum(sizes.values())
        if weights[page] > LIMIT:
            heavy = sorted(sizes.items(), key=lambda item: -item[1])[:8]
            problems.append(f"{page}: weighs {weights[page]:,} bytes compressed: {heavy}")
        found = broken_equations(tab) + late_picture(tab, page)
        found += code_that_scrolls(tab, ":is(.cell, .admonition)")  # and what cells print
        sample_colours(tab, colours)
        plain_page(tab)
        found += violations(tab, colours) + moving_pictures(tab)
        in_theme(tab, "dark")
        if sample_colours(tab, colours):  # else all of its pairs were looked at on pages before
            found += [f"dark: {what}" for what in faint_text(tab, colours)]
        found += narrower(tab, 320) + narrower(tab, 768) + narrower(tab, 390)
        found += [f"phone: {what}" for what in axe(tab, small)]
        problems += [f"{page}: {what}" for what in visit.wrong + found]
    visit.tab.context.close()
    print("\ncompressed bytes of a visit, by page:")
    print(*(f"{size:>9,}  {page}" for page, size in weights.items()), sep="\n")
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize(
    "page", ["notebooks/06_attention.html", "book/intro.html", "book/notation.html"]
)
def test_the_page_keeps_still_on_a_phone(address, browser, page):
    """While it loads on a slow processor: what moves before a reader's eyes, as browsers count."""
    tab = browser.new_context(**PHONE).new_page()
    tab.add_init_script(
        "window.moved = 0; new PerformanceObserver(list => { for (const one of list.getEntries())"
        " if (!one.hadRecentInput) moved += one.value; })"
        ".observe({type: 'layout-shift', buffered: true})"
    )
    session = tab.context.new_cdp_session(tab)
    session.send("Emulation.setCPUThrottlingRate", {"rate": 4})
    tab.goto(address + page)
    wait(tab, "window.mathematicsIsSet")
    moved = tab.evaluate("moved")
    over = """[...document.querySelectorAll(".section-line")].filter(one => one.nextElementSibling
      && one.getBoundingClientRect().bottom > one.nextElementSibling.getBoundingClientRect().top)
      .map(one => one.previousElementSibling?.textContent)"""
    over = tab.evaluate(over)  # "Suggest an edit", which a finger cannot hover over
    tab.context.close()
    assert moved < 0.05 and not over


def test_dark_pages_are_printed_light(address, browser, tmp_path):
    """And tools/pdf.py reads in what is printed how many pages there are, and what is where."""
    tab = browser.new_context(color_scheme="dark").new_page()
    tab.goto(address + "book/notation.html")
    seen = "document.documentElement.dataset.theme"
    tab.evaluate(f"addEventListener('beforeprint', () => window.printed = {seen})")
    file = tmp_path / "notation.pdf"
    tab.pdf(path=file, **pdf.OPTIONS)
    assert pdf.pages_of(file) > 2 and pdf.first_pages(file, ["main-content"]) == [1]
    assert [tab.evaluate("window.printed"), tab.evaluate(seen)] == ["light", "dark"]
    tab.emulate_media(media="print")
    tab.wait_for_function(f"{seen} === 'light'")
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    tab.emulate_media(media="screen")
    tab.wait_for_function(f"{seen} === 'dark'")
    tab.context.close()


def test_the_printed_book_has_contents_with_page_numbers(address, browser, tmp_path):
    """Each number is that of the page on which the part begins, and a link leads there."""
    tab = browser.new_context().new_page()
    names, file = ["notation", "pytorch", "glossary"], tmp_path / "book.pdf"
    pdf.print_book(tab, address, [f"book/{name}.html" for name in names], file)
    lines = tab.locator(".printed-contents li")
    printed = [int(text) for text in lines.locator(".page").all_text_contents()]
    links = [one.get_attribute("href") for one in lines.locator("a").all()]
    tab.context.close()
    assert printed == pdf.first_pages(file, names) and links == [f"#{name}" for name in names]
    assert 2 < printed[0] < printed[1] < printed[2] < pdf.pages_of(file)
    assert b"/Outlines" in file.read_bytes()


def test_the_words_on_the_card_for_sharing_end_before_its_map(site, browser):
    tab = card.shown(browser)
    words = "[...document.querySelectorAll('body > svg > g > text')]"
    ends = tab.evaluate(f"{words}.map(one => one.getBoundingClientRect().right)")
    tab.close()
    assert len(ends) > 5 and max(ends) < card.MAP - 30
    assert (HTML / "_static" / "card.svg").read_text(encoding="utf-8") == card.drawing()


def test_what_is_shown_where_a_page_is_shared(site):
    """The card in full width, and the page's first words, with formulas as they are read."""
    said = {}
    for page in set(site) - {"404.html", "search.html"}:
        text = (HTML / page).read_text(encoding="utf-8")
        assert '<meta name="twitter:card" content="summary_large_image"' in text, page
        said[page], again = re.findall(r'description" content="([^"]*)"', text)
        assert said[page] == again and 100 < len(unescape(again)) <= 200, page
        assert not re.search(r"[\\{}]|\( ", again), f"{page}: {again}"
    assert said["book/intro.html"].startswith("This book builds a Transformer")
    assert "1/√dₖ" in said["notebooks/06_attention.html"]


def test_the_404_page_keeps_the_theme(address, browser):
    tab = browser.new_context(color_scheme="light").new_page()
    tab.goto(address + "404.html")
    tab.evaluate("localStorage.setItem('mode', 'dark')")
    tab.reload()
    assert tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 29)"
    tab.context.close()


def test_a_chapter_opened_on_a_phone(address, browser):
    """Not only made narrower. Fonts come from the second page on: on the first, the text would
    move when they come."""
    visit = Visit(browser, address, **PHONE)
    tab = visit.open("notebooks/06_attention.html")
    assert not visit.wrong + moving_pictures(tab) + narrower(tab, 390)
    links = "document.querySelectorAll('figcaption .headerlink')"  # wherever the last word ends
    tab.evaluate(f"{links}.forEach(one => {{ one.style.paddingLeft = '100vw'; }})")
    assert not narrower(tab, 390)
    assert not code_that_scrolls(tab, ".cell_input")
    style = "e => getComputedStyle(e).fontFeatureSettings"
    figures = f"[...document.querySelectorAll('pre, code')].map({style})"
    assert set(tab.evaluate(figures)) == {"normal"}  # in code no old-style ones
    assert not without_shadows(tab)
    tab.wait_for_function("localStorage.getItem('fonts')")
    assert "Source" not in tab.evaluate("[...document.fonts].map(one => one.family).join()")
    tab = visit.open("book/glossary.html")
    tab.wait_for_function("document.fonts.check('16px \"Source Serif 4\"')")
    assert any(url.endswith("source-serif-4-latin-400-normal.woff2") for url in visit.loaded)
    visit.tab.context.close()


FOCUS = """() => {
  const one = document.activeElement, box = one.getBoundingClientRect();
  if (one === document.body) return null;
  const ring = ({ outlineStyle, outlineWidth, boxShadow }) =>
    (outlineStyle !== "none" && outlineWidth !== "0px") || boxShadow !== "none";
  const around = [one, one.parentElement, one.closest("label")].filter(Boolean);
  const shown = around.some(element => ring(getComputedStyle(element)));
  return [one.outerHTML.slice(0, 90), box.right > 0 && box.left < innerWidth && shown];
}"""


@pytest.mark.parametrize("width", [390, 1280])
def test_the_keyboard_goes_nowhere_unseen(address, browser, width):
    """Not into the drawer that is closed, and where the focus is, there is a ring."""
    tab = browser.new_context(viewport={"width": width, "height": 900}).new_page()
    tab.goto(address + "book/translator.html")
    unseen, count = [], 0
    for _ in range(150):
        tab.keyboard.press("Tab")
        if (found := tab.evaluate(FOCUS)) is None:
            break
        count += 1
        unseen += [] if found[1] else [found[0]]
    tab.context.close()
    assert count > 30 and not unseen


def test_what_is_out_of_sight_waits_for_the_reader(address, browser):
    """What is near is set at once, the rest when the reader begins. The theme measures no box."""
    tab = browser.new_context(**PHONE).new_page()
    tab.add_init_script(  # the three seconds do not pass
        "{ const set = setTimeout; window.setTimeout = (go, ms) => ms === 3000 ? 0 : set(go, ms); }"
    )
    tab.goto(address + "notebooks/06_attention.html")
    count = """() => ({set: document.querySelectorAll(".math mjx-container").length,
        all: document.querySelectorAll(".math").length,
        near: [...document.querySelectorAll(".math")].filter(one => !one.firstElementChild
            && one.getBoundingClientRect().top < innerHeight).length,
        boxes: document.querySelectorAll(":is(pre, .broad)[tabindex='0']").length,
        others: document.querySelectorAll("pre[tabindex='-1']").length})"""
    tab.wait_for_function(f"() => {{ const {{set, near}} = ({count})(); return set && !near; }}")
    tab.wait_for_timeout(300)  # nothing else follows
    loaded = "[...document.querySelectorAll('figure img')].map(one => one.naturalWidth > 0)"
    found = tab.evaluate(count)
    assert found["near"] == 0 < found["set"] < found["all"] and found["boxes"] == 0, found
    assert not all(tab.evaluate(loaded))
    tab.keyboard.press("Tab")
    wait(tab, "window.mathematicsIsSet")
    found = tab.evaluate(count)
    assert found["set"] == found["all"] and found["boxes"] > 0 == found["others"], found
    tab.wait_for_function(f"{loaded}.every(Boolean)")


def test_figures_keep_their_places(site):
    """Each has its size before it comes, and the size is its own."""
    sized = re.compile(r'loading="lazy" width="(\d+)" height="(\d+)" .*src="\.\./(_images/[^"]+)"')
    chapters = [page for page in site if page.startswith("notebooks/")]
    assert len(chapters) == len(list((ROOT / "notebooks").glob("*.ipynb")))
    for page in chapters:
        text = (HTML / page).read_text(encoding="utf-8")
        assert "_images/" in text, page
        for figure in re.findall(r"<img [^>]*_images/[^>]*>", text):
            width, height, name = sized.search(figure).groups()
            head = (HTML / name).read_text(encoding="utf-8")[:2000]
            own = re.search(r'<svg[^>]* viewBox="0 0 ([\d.]+) ([\d.]+)"', head).groups()
            assert [int(width), int(height)] == pytest.approx(
                [float(x) * 4 / 3 for x in own], abs=0.6
            )


def test_labels_of_figures_can_be_read_on_a_phone(address, browser):
    """At least ten pixels high; where the figure is wider than the page, it scrolls, the keyboard
    reaches it, and a link leads to the whole."""
    visit = Visit(browser, address, **PHONE)
    tab = visit.open("notebooks/15_heads.html")
    found = tab.evaluate(
        """[...document.querySelectorAll(".broad")].filter(one => one.checkVisibility()).map(one =>
          ({wide: one.scrollWidth > one.clientWidth, reached: one.tabIndex === 0,
            link: one.nextElementSibling.checkVisibility(),
            small: one.scrollWidth + 1 < parseFloat(one.style.getPropertyValue("--least"))}))"""
    )
    assert len(found) > 5 and any(one["wide"] for one in found)
    for one in found:
        assert not one["small"] and one["wide"] == one["reached"] == one["link"], one
    visit.tab.context.close()


def test_without_scripts_a_formula_can_be_read(address, browser):
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(address + "notebooks/06_attention.html")
    style = "getComputedStyle(document.querySelector('span.math'), '::before')"
    shown = context.new_cdp_session(tab).send(
        "Runtime.evaluate", {"expression": f"{style}.content"}
    )
    assert shown["result"]["value"] == '"1/√dₖ"'
    context.close()


def test_code_is_marked_where_it_has_a_colour(site):
    """Names, brackets and spaces have the colour of the text. All words stay as they were."""
    page = (HTML / "notebooks" / "06_attention.html").read_text(encoding="utf-8")
    marks = set(re.findall(r'<span class="(\w{1,2})">', page))
    assert {"k", "nf", "mi", "o", "s2", "c1"} <= marks and not {"n", "p", "w"} & marks
    code = "".join(re.findall(r"<pre><span></span>(.*?)</pre>", page, re.S))
    line = "scores = q @ k.transpose(-2, -1)"
    assert line in unescape(re.sub(r"<[^>]*>", "", code))


def test_one_style_sheet(site):
    """It has what pages need, and not the theme's three hundred kilobytes for other books. A phone
    does not wait for the other one, with the fonts."""
    for page in set(site) - {"404.html"}:
        links = re.findall(r"<link[^>]*stylesheet[^>]*>", (HTML / page).read_text(encoding="utf-8"))
        assert len(links) == 2 and "_static/style.css" in links[0], page
        assert "_static/fonts.css" in links[1] and 'media="(min-width: 600px)"' in links[1], page
    text = (HTML / "_static" / "style.css").read_text(encoding="utf-8")
    named = re.findall(r"""url\(["']?(?!data:|#)([^"')]+)""", text)
    assert named and all((HTML / "_static" / name).is_file() for name in named), named
    for rule in (".admonition", ".bd-sidebar-primary", ".highlight", ".exercise", ".math"):
        assert rule in text, rule  # of Sphinx, the theme, pygments, the book
    assert ".carousel-item" not in text and ".fa-yin-yang" not in text
    assert len(text) < 200_000


def test_rules_that_no_page_has_a_use_for(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "book" / "_ext")
    import bookstyles

    sheet = """.gone, .here > p { a: 1 } .gone.here { b: 2 } #gone { c: 3 } p:not(.gone) { d: 4 }
      @media print { .gone { e: 5 } } @media print { .here { f: 6 } } @font-face { g: 7 }"""
    rules = tinycss2.parse_stylesheet(sheet, True, True)
    kept = re.sub(r"\s", "", bookstyles.used(rules, {"here"}, []))
    assert kept == ".here>p{a:1}p:not(.gone){d:4}@mediaprint{.here{f:6}}@font-face{g:7}"


@pytest.fixture(params=["http", "file"])
def home(request, address):
    """Where the book is: on a server, or opened as a file."""
    return address if request.param == "http" else HTML.as_uri() + "/"


def test_search_and_mathematics(home, browser):
    visit = Visit(browser, home)
    tab = visit.open("search.html?q=softmax")
    tab.wait_for_selector('#search-results a[href*="attention"]')
    assert not visit.wrong
    tab = visit.open("book/notation.html")
    assert tab.locator("mjx-container").count() > 5
    assert tab.locator("mjx-merror").count() == 0
    tab.click("a.right-next")
    tab.wait_for_url("**/book/pytorch.html")
    assert not visit.wrong, visit.wrong


def test_the_translator_is_in_the_book(home, browser):
    """What else it does, tests/test_translator.py holds."""
    visit = Visit(browser, home)
    tab = visit.open("book/translator.html")
    assert not any("translator/models/" in url for url in visit.loaded)
    tab.fill("#t-source", "A dog.")
    tab.press("#t-source", "Enter")
    tab.wait_for_function(
        "document.getElementById('t-output').textContent === 'Un chien.'", timeout=60_000
    )
    assert not visit.wrong, visit.wrong


def test_the_cover_translates_when_it_is_asked(home, browser):
    """Until then the picture is still, and of the translator the page has one small script."""
    visit = Visit(browser, home, **PHONE)
    tab = visit.open("book/intro.html")
    scroll_through(tab)
    asked = [url.split("/translator/")[1] for url in visit.loaded if "/translator/" in url]
    assert asked == ["cover.js"] and tab.is_visible("figure.cover .whole")
    size = (HTML / "_static/translator/models/tatoeba-en-fr.bin").stat().st_size
    assert f"({size / 1e6:.1f} MB, once)" in tab.inner_text("form.try")
    tab.press("#try-text", "Enter")
    tab.fill("#try-text", "I have a red house.")  # while the model comes
    tab.wait_for_selector(".cover-more[href$='have+a+red+house.']", timeout=60_000)
    assert tab.inner_text("figure.cover figcaption b") == "J'ai une maison rouge."
    words = tab.locator("figure.cover button").all_inner_texts()
    assert words == [*"I have a red house .".split(), *"J' ai une maison rouge .".split()]
    tab.fill("#try-text", "A dog.")  # the ribbons follow what is typed
    tab.wait_for_selector(".cover-more[href$='A+dog.']", timeout=60_000)
    tab.locator("figure.cover button:text-is('chien')").tap()
    assert "To write “chien”, the model" in tab.inner_text("figure.cover [role=status]")
    tab.fill("#try-text", "I have never seen such a beautiful garden.")
    tab.locator(".cover-notes:text('“jardin” is written twice')").wait_for(timeout=60_000)
    tab.fill("#try-text", "A dog.")
    tab.wait_for_selector(".cover-more[href$='A+dog.']", timeout=60_000)
    assert not visit.wrong + narrower(tab, 390), visit.wrong
    with tab.expect_navigation():
        tab.click(".cover-more")
    filled = "document.getElementById('t-source')?.value === 'A dog.'"  # once its scripts are there
    tab.wait_for_function(filled, timeout=60_000)
    tab.go_back()  # what was tried is there again
    tab.wait_for_selector(".cover-more[href$='A+dog.']", timeout=60_000)
    assert tab.input_value("#try-text") == "A dog."
    assert tab.inner_text("figure.cover figcaption b") == "Un chien."
    tab.context.close()


@pytest.mark.parametrize(("width", "height"), [(1024, 768), (1280, 720), (1366, 768), (1440, 900)])
def test_the_first_page_fits_on_one_screen(address, browser, width, height):
    """What the book is, its roads, its map, its translator, and a mistake that is named."""
    tab = browser.new_context(viewport={"width": width, "height": height}).new_page()
    tab.goto(address + "book/intro.html")
    tab.evaluate("document.fonts.ready")
    for part in ("h1", ".first-words > p", ".roads", "figure.map", "form.try", ".first-mistake"):
        box = tab.locator(f"#all-you-need {part}").first.bounding_box()
        assert box["y"] > 0 and box["y"] + box["height"] <= height, part
    typed = "(one => [one.scrollWidth, one.clientWidth])(document.getElementById('try-text'))"
    wide, room = tab.evaluate(typed)
    assert wide <= room
    tab.context.close()


def test_what_the_first_page_says_of_the_translator_is_what_its_runs_recorded(site):
    page = (HTML / "book/intro.html").read_text(encoding="utf-8")
    table = re.search(r"<td><p>the book’s translator</p></td>.*?</tr>", page, re.S)[0]
    cells = [unescape(re.sub(r"<[^>]+>", "", one)).strip() for one in table.split("</td>")]
    everyday, captions = (
        next(run for run in results.load(name)["data"]["runs"] if "chosen" in run["test"])
        for name in ("tatoeba", "multi30k")
    )
    assert int(re.match(r"[\d,]+", cells[1])[0].replace(",", "")) == everyday["pairs"]["pairs"]
    assert abs(float(cells[2].split()[0]) * 1e6 - everyday["parameters"]) <= 5e4
    assert abs(float(cells[3].split()[0]) * 3600 - everyday["seconds"]) <= 180
    assert everyday["starts"][0]["machine"]["threads"] == 1 and "one core" in cells[3]
    assert abs(float(cells[4]) - everyday["test"]["chosen"]["scores"]["BLEU"]) <= 0.05
    lower = float(re.search(r"ours has ([\d.]+), both lower-cased", page)[1])
    assert abs(lower - captions["test"]["chosen"]["scores"]["BLEU, lower-cased"]) <= 0.05


def test_the_cover_without_scripts(address, browser):
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(address + "book/intro.html")
    assert tab.locator("figure.cover img").is_visible() and not tab.locator(".try").is_visible()
    context.close()


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
    url = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"][
        "Repository"
    ]
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
    for chapter in (ROOT / "notebooks").glob("[0-9]*.ipynb"):
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
