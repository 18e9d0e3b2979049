"""Print the book: each chapter as a PDF, and all of it as one, with contents and page numbers.

python tools/pdf.py                  everything, into _build/html/pdf, with links on the pages
python tools/pdf.py 06 14            only these chapters, and not the book

The pages must be built (`make pdf` builds them). They are printed by Chromium, as a reader's
browser would print them: see "print" in book/_static/book.css. pdf.js joins them.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from chromium import opened, served, wait  # noqa: E402

HTML = ROOT / "_build" / "html"
FOLDER = HTML / "pdf"
JOIN = ROOT / "tools" / "pdf.js"
BOOK = "all-you-need.pdf"
FIRST = "book/intro.html"
MARK = "<!-- the book as a PDF -->"  # in book/intro.md
OPTIONS = {"format": "A4", "prefer_css_page_size": True, "outline": True, "tagged": True}
PAGE = re.compile(rb"(\d+) 0 obj\n<</Type /Page\b")
PLACE = rb"/%s \[(\d+) 0 R /XYZ"  # where a name leads to, as Chromium writes it
NUMBERED = """starts => document.querySelectorAll(".printed-contents .page").forEach(
  (one, i) => { one.textContent = starts[i]; })"""
NO_PAPER = {"book/intro", "book/translator", "book/api"}  # what they are for, paper cannot do


def in_order() -> list[str]:
    """The pages that are printed, in the order of _toc.yml."""
    names = re.findall(r"file: (\S+)", (ROOT / "_toc.yml").read_text(encoding="utf-8"))
    return [f"{name}.html" for name in names if name not in NO_PAPER]


def pages_of(file: Path) -> int:
    return len(PAGE.findall(file.read_bytes()))


def first_pages(file: Path, names: list[str]) -> list[int]:
    """On which page of a PDF each of these places is."""
    content = file.read_bytes()
    pages = PAGE.findall(content)
    found = [re.search(PLACE % re.escape(name.encode()), content) for name in names]
    return [pages.index(one[1]) + 1 for one in found]


def ready(tab, address: str) -> None:
    """Open a page and wait until all of it is there."""
    tab.goto(address, wait_until="load")
    tab.mouse.move(1, 1)  # a reader: see book.js
    wait(tab, "window.mathematicsIsSet")
    tab.evaluate("Promise.all([...document.images].map(one => one.decode().catch(() => null)))")


def link(page: Path, before: str, line: str) -> None:
    """Put a line into a built page, in the place of that of an earlier run."""
    text = page.read_text(encoding="utf-8")
    start = line[: line.index(">") + 1]
    text = re.sub(rf"{re.escape(start)}.*?(?={re.escape(before)})", "", text, flags=re.S)
    page.write_text(text.replace(before, line + before, 1), encoding="utf-8")


def print_book(tab, home: str, pages: list[str], file: Path) -> None:
    """Print the pages as one, after their contents: printed once to see where each begins."""
    ready(tab, home + FIRST)
    tab.evaluate(JOIN.read_text(encoding="utf-8"), pages)
    tab.pdf(path=file, **OPTIONS)
    tab.evaluate(NUMBERED, first_pages(file, [Path(page).stem for page in pages]))
    tab.pdf(path=file, **OPTIONS)


def main(chapters: list[str]) -> None:
    FOLDER.mkdir(exist_ok=True)
    pages = [
        page
        for page in in_order()
        if not chapters or any(page.startswith(f"notebooks/{one}") for one in chapters)
    ]
    with served(HTML) as home, opened() as browser:
        tab = browser.new_context(viewport={"width": 1000, "height": 1400}).new_page()
        for page in pages:
            file = FOLDER / f"{Path(page).stem}.pdf"
            ready(tab, home + page)
            tab.pdf(path=file, **OPTIONS)
            print(f"{pages_of(file):5} pages  {file.relative_to(ROOT)}", flush=True)
            if page.startswith("notebooks/"):
                line = f'<li class="pdf"><a href="../pdf/{file.name}">PDF</a></li>'
                link(HTML / page, '<li class="minutes">', line)
        if not chapters:
            print_book(tab, home, pages, FOLDER / BOOK)
            count = pages_of(FOLDER / BOOK)
            print(f"{count:5} pages  {(FOLDER / BOOK).relative_to(ROOT)}")
            words = f'<a href="../pdf/{BOOK}">The whole book as a PDF</a>, {count} pages.'
            link(HTML / FIRST, MARK, f'<p class="pdf">{words}</p>')


if __name__ == "__main__":
    main(sys.argv[1:])
