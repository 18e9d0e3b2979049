"""Numbers of long runs, one JSON file each, with all that is needed to run it again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
LEFT_OUT = "left out here; on "  # how a cell begins that wants a GPU and has none


def load(name: str) -> dict[str, Any]:
    """Return the record `name`: its `data`, and the command, machine, versions, date and commit.

    Raises FileNotFoundError, naming the records that exist.
    """
    file = FOLDER / f"{name}.json"
    if not file.exists():
        known = ", ".join(sorted(path.stem for path in FOLDER.glob("*.json")))
        raise FileNotFoundError(f"name: expected one of {known}; got {name!r}")
    return json.loads(file.read_text(encoding="utf-8"))


def on_a_gpu(notebook: str) -> str:
    """What the cell of a notebook that wants a GPU printed on one, or that it is to be run on one.

    `benchmarks/gpu.py notebooks` makes the record.
    """
    try:
        record = load("gpu_notebooks")
        said = record["data"]["pieces"][notebook]["said"]
    except (FileNotFoundError, KeyError):
        return f"{LEFT_OUT}a GPU this cell measures it"
    where = f"{record['machine']['gpu']}, {record['date']}, {said['seconds']} seconds"
    return f"{LEFT_OUT}{where}:\n{said['text']}"
