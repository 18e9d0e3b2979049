"""Pictures that answer to the hand: a little JavaScript over numbers that the notebook computed.

Written by hand. `interactive("attention-rows", vectors=x, ...)` is the last line of a cell that has
drawn a still picture of the same numbers. Where scripts run (on the book's pages, in JupyterLab,
in Colab) the reader gets the one that moves; elsewhere, and on paper, the still one. Nothing is
fetched: the script stands in the cell's output.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
KINDS = sorted(file.stem for file in FOLDER.glob("*.js") if file.stem != "core")
SHOWN: Counter[str] = Counter()  # pictures of each kind that this notebook has made so far


def plain(value: Any, digits: int) -> Any:
    """Tensors and arrays as lists, floats rounded to so many significant digits."""
    if isinstance(value, dict):
        return {key: plain(one, digits) for key, one in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(one, digits) for one in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"numbers: expected finite ones, got {value}")
        return float(f"{value:.{digits}g}")
    return value


def script(kind: str, name: str) -> str:
    """The style and the script of a picture of one kind, which starts in the element `name`."""
    style, code = (
        "\n".join(
            file.read_text(encoding="utf-8").strip()
            for file in (FOLDER / f"core.{end}", FOLDER / f"{kind}.{end}")
            if file.exists()
        )
        for end in ("css", "js")
    )
    begin = f"begin({json.dumps(name)}, draw);"
    return f"<style>\n{style}\n</style>\n<script>\n(() => {{\n{code}\n{begin}\n}})();\n</script>"


class Interactive:
    """An interactive picture; a notebook shows it as HTML."""

    def __init__(self, kind: str, numbers: dict[str, Any]):
        self.kind, self.numbers = kind, numbers
        SHOWN[kind] += 1
        self.name = f"{kind}-{SHOWN[kind]}"  # the same on every machine, whatever the numbers

    def __repr__(self) -> str:
        return f"interactive picture: {self.kind}"

    def _repr_html_(self) -> str:
        data = json.dumps(self.numbers, ensure_ascii=False, separators=(",", ":"))
        data = data.replace("</", "<\\/")  # no word of the data ends the element it stands in
        return (
            f'<div class="moving {self.kind}" id="{self.name}">\n'
            f'<script type="application/json">{data}</script>\n'
            f"{script(self.kind, self.name)}\n</div>"
        )


def interactive(kind: str, digits: int = 4, **numbers: Any) -> Interactive:
    """The interactive picture `kind`, over the numbers it needs: see the head of its .js file.

    `numbers` may be tensors, arrays, lists, texts; floats keep `digits` significant digits.
    Raises ValueError for a kind that is not there or a number that is not finite.
    """
    if kind not in KINDS:
        raise ValueError(f"kind: expected one of {', '.join(KINDS)}, got {kind!r}")
    return Interactive(kind, plain(numbers, digits))
