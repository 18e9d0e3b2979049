"""Moving about in the built book: links land where they lead and stay there, and a reader finds the
place again.

Needs Chromium (on Debian: `apt install chromium`) and the packages that `make book` installs.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager

import pytest
from chromium import drawn, served, wait
from pages import HTML, PHONE, build

LONG = {  # chapters whose contents once landed far away, and the package's page
    6: "notebooks/06_attention.html",
    1: "notebooks/01_tokens.html",
    11: "notebooks/11_transformer.html",
    14: "notebooks/14_translation.html",
    19: "notebooks/19_scaling.html",
    "API": "book/api.html",
}
NEAR = 20  # pixels
ENTRIES = "#pst-page-toc-nav a[href^='#']"
AWAY = """name => {
  const head = document.getElementById(name), root = document.documentElement;
  const { top } = head.getBoundingClientRect();
  const end = root.scrollHeight - innerHeight - scrollY < 2;  // the page goes no further
  return end && top > 0 && top < innerHeight ? 0 : Math.round(top - 80);
}"""


@pytest.fixture(scope="module")
def address():
    build()
    with served(HTML) as address:
        yield address


@pytest.fixture
def tab(browser):
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    yield context.new_page()
    context.close()


@contextmanager
def slowed(tab):
    """Four times as slow a processor."""
    session = tab.context.new_cdp_session(tab)
    session.send("Emulation.setCPUThrottlingRate", {"rate": 4})
    yield
    session.detach()


def entries(tab, url: str) -> list[str]:
    tab.goto(url, wait_until="commit")
    tab.wait_for_selector(ENTRIES, state="attached")
    return tab.eval_on_selector_all(ENTRIES, "all => all.map(one => one.hash.slice(1))")


def jump(tab, url: str, name: str, seconds: float) -> list[int]:
    """Click an entry so long after loading began; how far away it lands, and a second later.

    A click that is too early for place.js lands when that is there, with its line of progress."""
    tab.goto("about:blank")
    tab.goto(url, wait_until="commit")
    tab.wait_for_timeout(1000 * seconds)
    link = f"#pst-page-toc-nav a[href='#{name}']"
    tab.wait_for_selector(link, state="attached")
    tab.evaluate("link => document.querySelector(link).click()", link)
    tab.wait_for_selector(".progress-line", state="attached")
    landed(tab)
    first = drawn(tab, AWAY, name)
    tab.wait_for_timeout(1000)
    return [first, drawn(tab, AWAY, name)]


def landed(tab) -> None:
    """Let the page go where a click leads: it does so in a timer, and timers come in turn."""
    tab.evaluate("new Promise((turn) => setTimeout(turn))")


def missed(tab, url: str, names: list[str], times: list[float]) -> list[str]:
    found = {(name, time): jump(tab, url, name, time) for name in names for time in times}
    return [
        f"{url}#{name} after {time} s: {away}"
        for (name, time), away in found.items()
        if max(map(abs, away)) > NEAR
    ]


def test_a_click_in_the_contents_lands_where_it_leads(tab, address):
    url = address + LONG[6]
    names = entries(tab, url)
    with slowed(tab):
        assert not missed(tab, url, [names[-2]], [0.3, 3])


SHORTEN = """forced => {  // lay a section out shorter; at once, or in the next frame
  const one = document.querySelector(".bd-article > section > section:not([hidden])");
  one.hidden = true;
  if (forced) document.body.offsetHeight;
}"""


def test_what_the_browser_scrolls_does_not_let_the_place_go(tab, address):
    """Where a script asks for a size, the browser lays out the page and keeps what it shows in its
    place before place.js is told: that is not the reader's scrolling."""
    tab.goto(address + LONG[6])
    tab.mouse.move(600, 500)
    wait(tab, "window.mathematicsIsSet")
    tab.evaluate("document.querySelector(\"#pst-page-toc-nav a[href='#exercises']\").click()")
    landed(tab)
    before = tab.evaluate("scrollY")
    tab.evaluate(SHORTEN, True)
    assert tab.evaluate("scrollY") < before - 500
    assert abs(drawn(tab, AWAY, "exercises")) <= NEAR
    tab.evaluate("document.documentElement.style.overflowAnchor = 'none'")  # now it does not
    tab.evaluate(SHORTEN, False)
    assert abs(drawn(tab, AWAY, "exercises")) <= NEAR
    # by a scroll bar, say, the reader goes back, while the page is still being laid out
    tab.evaluate("document.documentElement.style.overflowAnchor = ''")
    tab.evaluate(f"forced => {{ scrollBy(0, -600); ({SHORTEN})(forced); }}", False)
    tab.evaluate("new Promise((drawn) => requestAnimationFrame(() => setTimeout(drawn)))")
    assert abs(drawn(tab, AWAY, "exercises") - 600) <= NEAR


@pytest.mark.weekly
@pytest.mark.parametrize("page", LONG)
def test_every_entry_of_the_contents_lands_where_it_leads(tab, address, page):
    url = address + LONG[page]
    with slowed(tab):
        assert not missed(tab, url, entries(tab, url), [0.3, 1, 3])


SEEN = """() => {  // the block at the top, in words, and how far it is from the window's
  const { left, width } = document.querySelector(".bd-article").getBoundingClientRect();
  for (let y = 72; y < innerHeight; y += 8) {
    const at = document.elementFromPoint(left + width / 2, y);
    const block = at?.closest("section > :not(section)");
    if (block) return [block.textContent.trim().slice(0, 40), block.getBoundingClientRect().top];
  }
}"""


REMEMBERED = """() => {  // whether place.js has written down where the page is now
  const place = history.state?.place, block = ".bd-article section > :not(section)";
  const found = place && document.querySelectorAll(`${block}, .bd-article dl.py > *`)[place.index];
  return found && Math.abs(found.getBoundingClientRect().top - place.top) < 1;
}"""


def same_place(a: list, b: list) -> bool:
    return a[0] == b[0] and abs(a[1] - b[1]) <= NEAR


def scroll(tab, pixels: int) -> None:
    """Turn the wheel, until the page stands still again."""
    ends = "addEventListener('scrollend', go, {once: true})"
    tab.evaluate(f"() => {{ window.standsStill = new Promise((go) => {ends}); }}")
    tab.mouse.wheel(0, pixels)
    wait(tab, "window.standsStill")


def read_on(tab, url: str) -> list:
    """Open a page and read far into it: the place."""
    tab.goto(url)
    tab.mouse.move(600, 500)
    wait(tab, "window.mathematicsIsSet")
    scroll(tab, 24_000)
    assert tab.evaluate("scrollY") > 20_000
    tab.wait_for_function(REMEMBERED)
    return drawn(tab, SEEN)


def kept(tab, place: list) -> bool:
    """Whether the page shows this place when it is loaded, and when all of it is set."""
    soon = drawn(tab, SEEN)
    tab.mouse.move(700, 500)
    wait(tab, "window.mathematicsIsSet")
    return same_place(place, soon) and same_place(place, drawn(tab, SEEN))


def reload_and_back(tab, place: list) -> None:
    """The place is kept, and nothing jumps afterwards."""
    with slowed(tab):
        tab.reload()
        assert kept(tab, place)
        # not by the mouse: it would bring the link into sight first, and scroll the page with it
        tab.evaluate("document.querySelector('.bd-sidebar-primary a[href*=multihead]').click()")
        tab.wait_for_url("**/07_multihead.html")
        tab.go_back()
        assert kept(tab, place)


@pytest.mark.weekly
@pytest.mark.parametrize("page", LONG)
def test_every_long_page_keeps_the_place(tab, address, page):
    reload_and_back(tab, read_on(tab, address + LONG[page]))


def test_reload_and_back_keep_the_place(tab, address):
    place = read_on(tab, address + LONG[6])
    reload_and_back(tab, place)
    tab.click(f"{ENTRIES} >> nth=1")  # within the page, and back
    landed(tab)
    assert not same_place(place, drawn(tab, SEEN))
    tab.go_back()
    assert kept(tab, place)
    scroll(tab, 3000)  # the reader goes on, and nothing draws him back
    assert not same_place(place, drawn(tab, SEEN))
    # the contents follow: one entry is marked, and it is in sight
    marked = tab.locator("#pst-page-toc-nav a.active")
    assert marked.count() == 1
    tab.evaluate("scrollTo(0, 1e7)")
    share = "() => getComputedStyle(document.querySelector('.progress-line')).transform"
    assert drawn(tab, share).startswith("matrix(1,")
    box, entry = tab.locator(".bd-sidebar-secondary").bounding_box(), marked.bounding_box()
    assert box["y"] <= entry["y"] and entry["y"] + entry["height"] <= min(
        box["y"] + box["height"], 900
    )
    # the first page knows where to go on
    name = marked.get_attribute("href")
    tab.wait_for_function(REMEMBERED)
    tab.goto(address + "book/intro.html")
    link = tab.locator(".go-on a")
    assert link.inner_text().startswith("Chapter 6, ")
    assert link.get_attribute("href") == f"../notebooks/06_attention.html{name}"


def test_the_open_page_is_in_sight_among_all_pages(tab, address):
    """The theme keeps the list at the left as it stood on the page before."""
    tab.goto(address + "book/bibliography.html")
    tab.evaluate("document.querySelector('.bd-sidebar-primary').scrollTop = 1e7")
    tab.goto(address + "notebooks/00_overview.html")
    box, entry = (
        tab.locator(name).bounding_box()
        for name in (".bd-sidebar-primary", ".bd-sidebar-primary a.current")
    )
    assert box["y"] <= entry["y"] and entry["y"] + entry["height"] <= box["y"] + box["height"]


def test_on_a_phone_the_contents_close(browser, address):
    context = browser.new_context(**PHONE)
    tab = context.new_page()
    tab.goto(address + LONG[6])
    tab.tap("button.secondary-toggle")
    tab.wait_for_selector("#pst-secondary-sidebar-modal[open]")
    tab.tap("#pst-secondary-sidebar-modal a[href='#exercises']")
    tab.wait_for_selector("#pst-secondary-sidebar-modal:not([open])", state="attached")
    landed(tab)
    assert abs(drawn(tab, AWAY, "exercises")) <= NEAR
    wait(tab, "window.mathematicsIsSet")
    assert abs(drawn(tab, AWAY, "exercises")) <= NEAR
    context.close()


def test_chapters_say_how_long_they_take(address):
    chapter = (HTML / LONG[6]).read_text(encoding="utf-8")
    total = int(re.search(r'<li class="minutes">(\d+) minutes', chapter)[1])
    parts = [int(part) for part in re.findall(r' data-minutes="(\d+)"', chapter)]
    assert len(parts) > 8 and abs(sum(parts) - total) <= len(parts)
    first = (HTML / "book" / "intro.html").read_text(encoding="utf-8")
    chapters = list((HTML / "notebooks").glob("*.html"))
    each = re.findall(r'<span class="minutes"> (\d+) min', first)
    assert len(each) == len(chapters) and max(map(int, each)) <= 70


def test_the_road_and_the_exercises_done_are_kept(tab, address):
    """A section that is not on the chosen road says where that goes on. What is marked as done is
    shown at the exercise, in the chapter and on the first page, and goes into a file and back."""
    tab.goto(address + "book/intro.html")
    assert tab.locator(".off-road, svg.plan .share").count() == 0
    tab.check("input[name='road'][value='hours']")
    tab.goto(address + LONG[6])
    off = tab.locator("section[data-roads='weekend'] .off-road").first
    assert off.text_content().startswith("Not on the road “Two hours”, which goes on at")
    assert tab.locator("section[data-roads~='hours'] .off-road").count() == 0
    assert tab.locator(".toc-h2.off").count() == tab.locator(".off-road").count()
    tab.click("[data-exercise='6.2'] button")
    everything = tab.locator("[data-exercise]").count()
    assert tab.inner_text(".chapter-links .count") == f"1 of {everything} exercises done"
    assert tab.get_attribute("[data-exercise='6.2'] button", "aria-pressed") == "true"
    assert tab.locator("#pst-page-toc-nav a.done").get_attribute("href") == "#exercise-6-2"
    tab.goto(address + "book/intro.html")
    assert tab.is_checked("input[name='road'][value='hours']")
    chapter = tab.locator("ol li", has=tab.locator("a[href$='06_attention.html']"))
    done = chapter.locator(".minutes").get_attribute("data-done")
    assert done == f", 1 of {everything} exercises done"
    assert tab.locator("svg.plan a[href$='06_attention.html'] .share").count() == 1
    with tab.expect_download() as download:
        tab.click("#progress button >> nth=0")
    kept = json.loads(download.value.path().read_text("utf-8"))
    assert download.value.suggested_filename == "progress.json" and kept == {"done": ["6.2"]}
    more = {"name": "progress.json", "mimeType": "application/json"}
    tab.set_input_files("#progress input", [more | {"buffer": b'{"done": ["6.1", "10.2"]}'}])
    tab.wait_for_function("document.getElementById('progress-says').textContent.includes('3 of')")
    tab.set_input_files("#progress input", [more | {"buffer": b"[1"}])
    tab.wait_for_function("document.getElementById('progress-says').textContent.includes('not a')")
    assert tab.evaluate("localStorage['allyouneed.done']") == '["6.1","6.2","10.2"]'


def test_the_stages_of_the_project_are_kept_too(tab, address):
    tab.goto(address + "notebooks/project.html")
    stages = tab.locator("[data-exercise^='project.']").count()
    assert stages > 10 and tab.inner_text(".chapter-links .count") == f"{stages} stages"
    tab.click("[data-exercise='project.masks'] button")
    assert tab.inner_text(".chapter-links .count") == f"1 of {stages} stages done"
    tab.goto(address + "book/intro.html")
    line = tab.locator("li", has=tab.locator("a[href$='project.html']"))
    assert line.locator(".minutes").get_attribute("data-done") == f", 1 of {stages} stages done"
