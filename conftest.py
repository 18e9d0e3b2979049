"""How nbval compares notebooks here: floats within a tolerance, pictures not at all.

Figures are checked by asserts on their data in the notebooks. Everything else that nbval
compares, it compares as it is. Hypothesis draws the same examples every time, without a clock.
"""

from __future__ import annotations

import math
import re

from hypothesis import settings

settings.register_profile("untimed", deadline=None, derandomize=True)
settings.load_profile("untimed")

NUMBER = re.compile(r"(?<![\w.])[-+]?\d+\.\d*(?:e[-+]?\d+)?", re.I)
RTOL, ATOL = 1e-3, 1e-4


def close_enough(test: str, reference: str) -> bool:
    """True if two texts differ in nothing but the last digits of their floats."""

    def words(text: str) -> str:
        return NUMBER.sub("#", re.sub(r"\s+", " ", text))

    if words(test) != words(reference):
        return False
    pairs = zip(NUMBER.findall(test), NUMBER.findall(reference), strict=True)
    return all(math.isclose(float(a), float(b), rel_tol=RTOL, abs_tol=ATOL) for a, b in pairs)


def pytest_configure(config):
    try:
        from nbval.plugin import IPyNbCell
    except ImportError:
        return
    original = IPyNbCell.compare_outputs

    def compare_outputs(self, test, ref, skip_compare=None):
        for outputs in (test, ref):
            for output in outputs:
                output.get("data", {}).pop("image/svg+xml", None)
        for a, b in zip(test, ref, strict=False):
            if isinstance(a.get("text"), str) and isinstance(b.get("text"), str):
                if close_enough(a["text"], b["text"]):
                    a["text"] = b["text"]
            for mime, text in a.get("data", {}).items():
                other = b.get("data", {}).get(mime)
                if (
                    mime.startswith("text/")
                    and isinstance(other, str)
                    and close_enough(text, other)
                ):
                    a["data"][mime] = other
        return original(self, test, ref, skip_compare)

    IPyNbCell.compare_outputs = compare_outputs
