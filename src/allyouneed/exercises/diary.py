"""Which exercises the reader has solved: a file in the home folder, or memory if that fails."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from allyouneed.files import write_json

ANSWERS: dict[str, Any] = {}  # the right ones of this session, for `live` to draw with
_memory: set[str] = set()


def file() -> Path:
    """~/.allyouneed/progress.json; ALLYOUNEED_HOME names another folder."""
    return Path(os.environ.get("ALLYOUNEED_HOME") or Path.home() / ".allyouneed") / "progress.json"


def stored() -> set[str] | None:
    """The numbers that the file holds, none if there is no file yet; None if it cannot be read."""
    try:
        return set(map(str, json.loads(file().read_text(encoding="utf-8"))["done"]))
    except FileNotFoundError:
        return set()
    except (OSError, ValueError, TypeError, KeyError, RuntimeError):
        return None


def read() -> tuple[set[str], bool]:
    """The numbers of the exercises done, and whether all of them are kept in the file."""
    done = stored()
    return (done or set()) | _memory, done is not None and _memory <= done


def write(number: str) -> None:
    """Add an exercise. Whatever goes wrong with the file, the diary lives on in memory."""
    _memory.add(number)
    done = stored() or set()
    if number in done:
        return
    try:
        path = file()
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"done": sorted(done | _memory)})
    except (OSError, RuntimeError):
        pass
