"""What the text names, it leads to, with a card on hover and focus.

Needs Chromium (on Debian: `apt install chromium`) and the packages that `make book` installs.
"""

from __future__ import annotations

import re
import sys
from types import SimpleNamespace

import pytest
from chromium import Visit, served
from docutils import nodes
from pages import HTML, PHONE, ROOT, build

sys.path.insert(0, str(ROOT / "book" / "_ext"))
import bookreferences  # noqa: E402

TARGETS = {
    "chapter 3": ["", "3 Attention as alignment", ""],
    "equation 6.1": ["equation-6-1", "", ""],
    "exercise 6.2": ["exercise-6-2", "", ""],
    "figure 6.3": ["fig-x", "", ""],
    "term softmax": ["term-Softmax", "Softmax", ""],
    "term zero": ["term-ZeRO", "ZeRO", ""],
    "term key": ["term-Key", "Key", ""],
    "symbol d_k": ["symbol-d-k", "", '<span class="math">d_k</span>: width of <b>a</b> key'],
}


def linked(*children: nodes.Node) -> str:
    """The children of a paragraph after it has got its links, each link as [words](where)."""
    env = SimpleNamespace(found_docs=["all"], metadata={"all": {"targets": TARGETS}})
    builder = SimpleNamespace(get_relative_uri=lambda here, there: f"{there}.html")
    linker = bookreferences.Linker(
        SimpleNamespace(env=env, builder=builder),
        "here",
        bookreferences.all_targets(env),
        {"Why soft?": "why-soft"},
    )
    paragraph = nodes.paragraph("", "", *children)
    linker.visit(nodes.container("", paragraph))
    for link in list(paragraph.findall(nodes.reference)):
        link.parent.replace(link, nodes.Text(f"[{link.astext()}]({link['refuri']})"))
    return paragraph.astext()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("by equation (6.1), so", "by equation [(6.1)](all.html#equation-6-1), so"),
        ("equation (9.9) is not there", "equation (9.9) is not there"),
        ("see Exercise 6.2.", "see [Exercise 6.2](all.html#exercise-6-2)."),
        ("Chapter 3 has it", "[Chapter 3](all.html) has it"),
        ("chapters 3 and 4", "chapters [3](all.html) and 4"),
        ("Figure 6.3 shows", "[Figure 6.3](all.html#fig-x) shows"),
        ("its Figure 2 and 6.4", "its Figure 2 and 6.4"),
        ("section 3.2 of the paper", "section 3.2 of the paper"),
        ("A softmax, two softmaxes", "A [softmax](all.html#term-Softmax), two softmaxes"),
        ("from zero to ZeRO", "from zero to [ZeRO](all.html#term-ZeRO)"),
        ("the key idea", "the key idea"),
        ("as in “Why soft?”, and “Why”", "as in [“Why soft?”](#why-soft), and “Why”"),
    ],
)
def test_what_is_named_becomes_a_link(text, expected):
    assert linked(nodes.Text(text)) == expected


def test_everyday_words_are_links_where_they_are_set_bold_and_code_never():
    key = nodes.strong("", "", nodes.Text("key"))
    assert linked(key, nodes.literal("", "softmax")) == "[key](all.html#term-Key)softmax"


def test_a_symbol_of_the_notation_is_a_link_where_a_page_first_has_it():
    """With a name in words, since nobody hears a formula."""
    formulas = [nodes.math("", tex) for tex in (r"d_\text{k}", "d_{k}", r"\sqrt{d_k}")]
    link, rest = linked(*formulas).split("</a>")
    assert link == (
        '<a class="to-symbol reference internal" href="all.html#symbol-d-k"'
        r' aria-label="d k: width of a key">d_\text{k}'
    )
    assert rest == r"d_{k}\sqrt{d_k}"


@pytest.fixture(scope="module")
def address():
    build()
    with served(HTML) as address:
        yield address


def test_no_link_in_code_or_headings_and_no_equation_without(address):
    links = 0
    for page in (HTML / "notebooks").glob("*.html"):
        text = page.read_text(encoding="utf-8")
        links += len(re.findall(r'class="to-', text))
        closed = re.findall(r"<(?:pre|h[1-6]|code)\b.*?</(?:pre|h[1-6]|code)>", text, re.S)
        assert not [part for part in closed if 'class="to-' in part], page.name
        prose = "".join(re.findall(r"<p>(.*?)</p>", text, re.S))
        anchors = set(re.findall(r'id="equation-(\d+-\d+)"', text))
        bare = {tag.replace(".", "-") for tag in re.findall(r"quation \((\d+\.\d+)\)", prose)}
        assert not bare & anchors, page.name
    assert links > 500


def test_a_figure_that_is_named_by_its_number_is_on_the_page(address):
    """And the link leads to the one of that number."""
    named = 0
    for page in (HTML / "notebooks").glob("*.html"):
        text = page.read_text(encoding="utf-8")
        prose = "".join(re.findall(r"<p>(.*?)</p>", text, re.S))
        said = re.findall(r"Figure (\d+\.\d+)", re.sub(r"<[^>]*>", "", prose))
        links = re.findall(r'class="to-figure[^>]*href="(.*?)#(.*?)".*?Figure (\d+\.\d+)', prose)
        assert sorted(said) == sorted(number for *_, number in links), page.name
        for file, anchor, number in links:
            there = (page.parent / (file or page.name)).read_text(encoding="utf-8")
            figure = there.partition(f'<figure class="align-default" id="{anchor}"')[2]
            assert f"Fig. {number} " in figure.partition("</figure>")[0], f"{page.name}: {number}"
        named += len(links)
    assert named > 40


def test_a_section_that_a_page_names_between_quotation_marks_is_a_link(address):
    linked = 0
    for page in (HTML / "notebooks").glob("*.html"):
        text = page.read_text(encoding="utf-8")
        heads = set(re.findall(r'<h[23]>([^<]+)<a class="headerlink"', text))
        prose = "".join(re.findall(r"<p>(.*?)</p>", text, re.S))
        linked += len([name for name in re.findall(r">“([^”<]+)”</a>", prose) if name in heads])
        bare = re.sub(r"<a\b.*?</a>", "", prose, flags=re.S)
        assert not heads & set(re.findall("“([^“”]+)”", bare)), page.name
    assert linked > 5


def test_a_card_shows_what_a_link_leads_to(browser, address):
    visit = Visit(browser, address, viewport={"width": 1280, "height": 900})
    tab = visit.open("notebooks/06_attention.html")
    tab.locator("a.to-equation").first.scroll_into_view_if_needed()
    tab.hover("a.to-equation >> nth=0")
    tab.wait_for_selector(".hover-card mjx-container")
    tab.keyboard.press("Escape")
    assert not tab.locator(".hover-card").count()
    term = tab.locator("a.to-term").first
    term.focus()
    tab.keyboard.press("Shift+Tab")
    tab.keyboard.press("Tab")
    tab.wait_for_selector(".hover-card")
    assert term.get_attribute("aria-describedby") == "hover-card"
    assert len(tab.inner_text(".hover-card")) > 30
    tab.dispatch_event("h1", "pointerover")  # the page has moved under a pointer at rest
    tab.wait_for_timeout(300)
    assert tab.locator(".hover-card").count()
    tab.keyboard.press("Escape")
    tab.evaluate(  # a pointer on its way over the signs of a formula
        """() => document.querySelectorAll("a.to-symbol mjx-c").forEach((sign, i) =>
             i < 2 && sign.dispatchEvent(new PointerEvent("pointerover", {bubbles: true})))"""
    )
    tab.wait_for_selector(".hover-card")
    tab.locator("a[href='https://arxiv.org/abs/1706.03762']").first.hover()
    tab.wait_for_function("/20\\d\\d/.test(document.querySelector('.hover-card')?.textContent)")
    assert not visit.wrong
    tab.context.close()


def test_a_tap_on_a_word_of_the_glossary_shows_its_card_and_a_second_goes_there(browser, address):
    visit = Visit(browser, address, **PHONE)
    tab = visit.open("notebooks/06_attention.html")
    first, second = (tab.locator("p a.to-term").nth(i) for i in (0, 1))
    first.tap()
    tab.wait_for_selector(".hover-card >> text=Tap again to go there.")
    second.tap()  # its card comes in place of the first one's
    tab.wait_for_selector("a.to-term[aria-describedby] >> nth=0")
    assert second.get_attribute("aria-describedby") and not first.get_attribute("aria-describedby")
    tab.wait_for_timeout(400)  # longer than a card waits for the pointer to come back
    assert tab.locator(".hover-card").count() == 1
    tab.locator(".bd-article h1").tap()
    tab.wait_for_selector(".hover-card", state="detached")
    assert "06_attention" in tab.url
    second.tap()
    tab.wait_for_selector(".hover-card")
    with tab.expect_navigation(url="**/glossary.html#term-*"):
        second.tap()
    assert not visit.wrong
    tab.context.close()
