"""Keep the numbers of a long run: `record(name, data)` writes results/<name>.json."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any

from allyouneed.files import write_file
from allyouneed.provenance import circumstances

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "src" / "allyouneed" / "results"


def without_places(command: str) -> str:
    """A command that means the same on every machine: what lies elsewhere is in runs/."""
    return re.sub(r"(?<![^\s=])(?:~|\.\.|[A-Za-z]:)?[/\\](?:\S*[/\\])?", "runs/", command)


def record(name: str, data: dict[str, Any]) -> Path:
    """Write `data` with the command, machine, versions, date and commit it came from."""
    words = [os.path.relpath(w, ROOT) if os.path.isabs(w) else w for w in sys.argv[1:]]
    script = os.path.relpath(sys.argv[0], ROOT)
    command = shlex.join(["python", script, *map(without_places, words)])
    file = FOLDER / f"{name}.json"
    body = {**circumstances(command), "data": data}
    write_file(file, (json.dumps(body, indent=1, ensure_ascii=False) + "\n").encode())
    print(f"wrote {os.path.relpath(file)}")
    return file
