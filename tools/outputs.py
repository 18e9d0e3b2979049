"""Whether a cell says what it said when it was written, on another processor too.

Sums that are taken in another order differ in their last bits, and what was 7.395 is printed as
7.39 on one machine and as 7.40 on another. So two texts are the same if their words are, and each
number lies within one unit of its last printed place or within a thousandth of its size, whichever
is wider. What has no decimal point, no exponent and no per cent sign is a count: it stays exact.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from itertools import zip_longest
from typing import Any

UNITS = 1  # of the last printed place
RELATIVE = Decimal("0.001")
OF_LARGEST = Decimal("0.0001")  # in a picture, of the largest number in the same list

NUMBER = re.compile(  # but not 2.13.0, which is a name
    r"(?<![\w.])[-+−]?\d++(?:,\d{3})*+(?:\.\d*+)?+(?:e[-+]?\d++(?!\w))?+(?!\.\d)(?: ?%)?", re.I
)
PICTURE = re.compile(
    r'(<div class="moving [\w-]+" id="[\w-]+">\n<script type="application/json">)'
    r"(.*?)(</script>.*)",
    re.S,
)


def is_rounded(number: str) -> bool:
    return not number.lstrip("-+−").replace(",", "").isdigit()


def value_and_unit(number: str) -> tuple[Decimal, Decimal]:
    """What is printed, and one in its last place: 0.01 for 7.40, 1e4 for 1.5e+05, 1 for 12 %.

    A whole number such as the 2. of a tensor has no last place; its unit is 0.
    """
    value = Decimal(number.rstrip(" %").replace(",", "").replace("−", "-"))
    whole = not is_rounded(number.rstrip("."))
    return value, Decimal(0) if whole else Decimal(1).scaleb(value.as_tuple().exponent)


def same_number(a: str, b: str, slack: Decimal = Decimal(0)) -> bool:
    if not (is_rounded(a) or is_rounded(b)) or a.endswith("%") != b.endswith("%"):
        return a == b
    (x, unit), (y, other) = value_and_unit(a), value_and_unit(b)
    finer = min(filter(None, (unit, other)), default=Decimal(0))  # that of 0.659, beside 0.66
    relative = RELATIVE if finer else 0  # two whole numbers, as at a sentence's end, are counts
    return abs(x - y) <= max(UNITS * finer, relative * max(abs(x), abs(y)), slack)


def same_text(a: str, b: str) -> bool:
    """True if two printed texts differ in nothing but the last digits of rounded numbers."""
    words = [[" ".join(part.split()) for part in NUMBER.split(text)] for text in (a, b)]
    return words[0] == words[1] and all(map(same_number, NUMBER.findall(a), NUMBER.findall(b)))


def same_data(a: Any, b: Any, slack: Decimal = Decimal(0)) -> bool:
    """The same for the data of a picture, read with its fractions as they are written."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return list(a) == list(b) and all(same_data(a[key], b[key]) for key in a)
    if isinstance(a, list):
        fractions = [abs(one) for one in a + b if isinstance(one, Decimal)]
        slack = OF_LARGEST * max(fractions, default=Decimal(0))
        return all(same_data(x, y, slack) for x, y in zip_longest(a, b))
    if isinstance(a, Decimal):
        return same_number(str(a), str(b), slack)
    return same_text(a, b) if isinstance(a, str) else a == b


def same_html(a: str, b: str) -> bool:
    """Pictures have the same data; their styles and scripts, and all other HTML, the same text."""
    one, other = PICTURE.fullmatch(a), PICTURE.fullmatch(b)
    if not (one and other):
        return same_text(a, b)
    data = [json.loads(picture[2], parse_float=Decimal) for picture in (one, other)]
    return (one[1], one[3]) == (other[1], other[3]) and same_data(*data)


SAME: dict[str, Callable[[str, str], bool]] = {"text/html": same_html}
WIDGET = "application/vnd.jupyter.widget-view+json"


def forgive(shown: list[dict], expected: list[dict]) -> None:
    """Where an output shows the same as was expected, write what was expected in its place.

    What is left then differs in earnest. Drawings are left out: what the text says of one is held
    where a cell prints or asserts it, and nowhere else. So are widgets, which do nothing without a
    kernel and stand in no committed output.
    """
    shown[:] = [output for output in shown if WIDGET not in output.get("data", {})]
    for output in shown + expected:
        output.get("data", {}).pop("image/svg+xml", None)
    for a, b in zip(shown, expected, strict=False):
        for new, old in ((a, b), (a.get("data", {}), b.get("data", {}))):
            for kind in new:
                both = new[kind], old.get(kind)
                if (kind == "text" or kind.startswith("text/")) and isinstance(both[1], str):
                    if SAME.get(kind, same_text)(*both):
                        new[kind] = old[kind]
