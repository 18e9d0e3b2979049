"""What is to be predicted, in signs or in True and False: what each wrong one comes from, and the
wrong ones together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from typing import Any

from .core import Mistake

Picture = tuple[str, str]  # the name of what was believed, and why it does not hold
WORDS = {
    "=": ("==", "equal", "equals", "same"),
    "<": ("smaller", "less", "lower", "shorter"),
    ">": ("larger", "greater", "bigger", "more", "longer"),
}
MIRRORED = "perhaps read from the right to the left"
LEFT_FIRST = (
    "Did you say how the second of the two compares with the first? The first stands on the left "
    "of the sign: `>` says that it is larger. If you mean what is written:"
)
SIGNS = {word: sign for sign, words in WORDS.items() for word in words}


def wrong_predictions(right: list[str], pictures: list[dict[str, Picture]]) -> list[Mistake]:
    """Every other list of signs, by the pictures that lead to it: one for each wrong sign. The
    mirror image of the right signs may come of a reading from the right to the left."""
    rows = []
    mirrored = [{"<": ">", ">": "<"}.get(sign, sign) for sign in right]
    for said in product("=><", repeat=len(right)):
        wrong = [pictures[i][sign] for i, sign in enumerate(said) if sign != right[i]]
        if wrong:
            names, reasons = zip(*wrong, strict=True)
            if [*said] == mirrored and len(wrong) > 1:
                rows.append(Mistake(MIRRORED, [*said], f"{LEFT_FIRST} {' '.join(reasons)}"))
                continue
            rows.append(Mistake("; ".join(names), [*said], " ".join(reasons)))
    return rows


def signs(answer: object) -> list[str]:
    """The signs of an answer, which may also be words, in a list, a dict or one string."""
    items = answer.values() if isinstance(answer, dict) else answer
    if isinstance(items, str):
        items = re.findall(r"[<>=]+|\w+", items)
        items = [*items[0]] if len(items) == 1 else items
    return [SIGNS.get(sign.strip().lower(), sign.strip()) for sign in items]


def items(answer: Any) -> list[Any]:
    """The items of an answer by hand, which may also be a dict, one string, or lists in a list."""
    if isinstance(answer, str):
        return re.findall(r"[<>=]+|[\w./-]+", answer)
    some = answer.values() if isinstance(answer, dict) else answer
    nested = (items(one) if isinstance(one, list | tuple | dict) else [one] for one in some)
    return [one for row in nested for one in row]


def words(answer: object) -> list[str]:
    """The words of an answer, which may also be one string."""
    items = re.findall(r"\w+", answer) if isinstance(answer, str) else answer
    return [str(word).strip().lower() for word in items]


def booleans(answer: object) -> list:
    """True and False, which may also be 1 and 0."""
    return [bool(said) if said in (0, 1) else said for said in answer]


def no_signs(
    cases: Sequence[Any], got: Sequence[Any], want: Sequence[Any]
) -> tuple[str, str] | None:
    """Whatever was predicted in other numbers than 1, -1 and 0: ratios, differences, values."""
    said = got[0]
    if not isinstance(said, list) or {*map(type, said)} - {int, float} or {*said} <= {1, -1, 0}:
        return None
    other = next(one for one in said if one not in (1, -1, 0))
    why = "Asked for is a direction: 1 for what grows, 0 for what stays, and -1 for the other way."
    return f"{other:g} in place of 1, -1 or 0", why
