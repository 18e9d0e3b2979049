"""Draw the card that shared links show: what the book is, a mistake that has a name, the map.

python tools/card.py        writes book/_static/card.svg, and card.png by Chromium (after make book)
"""

from __future__ import annotations

import re
import sys
from html import escape
from pathlib import Path

from allyouneed import plan

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from chromium import opened, wait  # noqa: E402

STATIC = ROOT / "book" / "_static"
BUILT = ROOT / "_build" / "html" / "_static"
WIDTH, HEIGHT = 1200, 630  # what the sites that show cards ask for
MAP = 812  # where the map begins
SAYS = [
    "Exercise 3.5 (masked softmax): not yet right.",
    "  Zero instead of minus infinity.",
    "  A score of 0 is not nothing:",
    "  its exponential is 1.",
]


def drawing() -> str:
    machine = plan.drawing().svg
    view = re.search(r'viewBox="([^"]+)"', machine)[1]
    inner = machine[machine.index(">") + 1 : machine.rindex("</svg>")]
    lines = "".join(
        f'<text x="108" y="{412 + 36 * i}" font-size="24" xml:space="preserve" '
        f'fill="{"#a3305e" if i == 1 else "#22262b"}">{escape(line)}</text>'
        for i, line in enumerate(SAYS)
    )
    size = f'width="{WIDTH}" height="{HEIGHT}"'
    serif = "font-family=\"'Source Serif 4', Georgia, serif\""
    rows = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {WIDTH} {HEIGHT}">',
        "<!-- Made by tools/card.py. The picture that shared links show is card.png, the same. -->",
        f'<rect {size} fill="#fff"/><rect width="14" height="{HEIGHT}" fill="#005e93"/>',
        f'<g {serif} fill="#22262b">',
        '<text x="82" y="166" font-size="98" font-weight="600" letter-spacing="-1">',
        "All You Need</text>",
        '<text x="86" y="234" font-size="42" fill="#005e93" font-style="italic">',
        "The Transformer, cell by cell</text>",
        '<text x="86" y="310" font-size="26" fill="#59636e">',
        "Notebooks, a package, exercises that name the mistake</text></g>",
        '<rect x="84" y="362" width="690" height="184" rx="8" fill="#f6f5f1"/>',
        f"<g font-family=\"'Source Code Pro', monospace\">{lines}</g>",
        f'<svg x="{MAP}" y="36" width="372" height="558" viewBox="{view}" '
        f'font-family="{plan.FONT}">{inner}</svg>',
        "</svg>",
    ]
    return "\n".join(rows) + "\n"


def shown(browser):
    """A tab with the card in it."""
    page = BUILT / "card.html"  # beside the fonts
    head = '<meta charset="utf-8"><link rel="stylesheet" href="fonts.css">'
    page.write_text(f'{head}<body style="margin: 0">{drawing()}', encoding="utf-8")
    tab = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
    tab.goto(page.as_uri())
    wait(tab, "document.fonts.ready")
    page.unlink()
    return tab


def main() -> None:
    (STATIC / "card.svg").write_text(drawing(), encoding="utf-8")
    with opened() as browser:
        shown(browser).screenshot(path=STATIC / "card.png")


if __name__ == "__main__":
    main()
