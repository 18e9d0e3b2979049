"""Changes to what Sphinx, its theme and MyST-NB write.

They are made by patterns, which an update of one of these may leave without a match. So each change
knows how many places it expects, and where it finds others, the build fails and says what to do.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from sphinx.errors import ExtensionError


def chapter(docname: str) -> int | None:
    """The number of a chapter, from its file's name; None for every other page."""
    found = re.match(r"notebooks/(\d\d)_", docname)
    return int(found[1]) if found else None


def outdated(patch: str, why: str, where: str, found: str = "nothing") -> ExtensionError:
    """The error that says which patch no longer fits which file or page, and what to do."""
    return ExtensionError(
        f"{patch} finds {found} to change in {where}. It is there so that {why}. Sphinx, the theme "
        f"or MyST-NB write something else now: look at {where} and mend {patch} in book/_ext, or "
        "take it out if the matter has settled itself."
    )


@dataclass(frozen=True)
class Patch:
    """One change: its name in the source, what it is for, the pattern, and what comes instead."""

    name: str
    why: str
    pattern: re.Pattern[str]
    better: str | Callable[[re.Match[str]], str] = ""

    def __call__(self, text: str, where: str, times: int) -> str:
        """The text with its matches replaced. Raises ExtensionError unless there are `times`."""
        text, found = self.pattern.subn(self.better, text)
        if found != times:
            raise outdated(self.name, self.why, where, f"{found} places (expected: {times})")
        return text
