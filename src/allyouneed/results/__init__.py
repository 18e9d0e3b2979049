"""Numbers of long runs, one JSON file each, with all that is needed to run it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


def load(name: str) -> dict[str, Any]:
    """Return the record `name`: its `data`, and the command, machine, versions, date and commit.

    Raises FileNotFoundError, naming the records that exist.
    """
    file = FOLDER / f"{name}.json"
    if not file.exists():
        known = ", ".join(sorted(path.stem for path in FOLDER.glob("*.json")))
        raise FileNotFoundError(f"name: expected one of {known}; got {name!r}")
    return json.loads(file.read_text(encoding="utf-8"))
