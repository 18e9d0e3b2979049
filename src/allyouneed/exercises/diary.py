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


def read() -> tuple[set[str], bool]:
    """The numbers of the exercises done, and whether they are kept in the file."""
    try:
        done = json.loads(file().read_text(encoding="utf-8"))["done"]
        return {str(number) for number in done} | _memory, True
    except FileNotFoundError:
        return set(_memory), not _memory
    except (OSError, ValueError, TypeError, KeyError, RuntimeError):
        return set(_memory), False


def write(number: str) -> None:
    """Add an exercise. Whatever goes wrong with the file, the diary lives on in memory."""
    done, _ = read()
    _memory.add(number)
    if number in done - _memory:
        return
    try:
        path = file()
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"done": sorted(done | {number})})
    except (OSError, RuntimeError):
        pass
