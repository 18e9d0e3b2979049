"""Keep the numbers of a long run: `record(name, data)` writes results/<name>.json."""

from __future__ import annotations

import datetime
import json
import os
import platform
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "src" / "allyouneed" / "results"


def processor() -> str:
    """The processor's name, as the system tells it."""
    info = Path("/proc/cpuinfo")
    names = (
        [line for line in info.read_text(encoding="utf-8").splitlines() if "model name" in line]
        if info.exists()
        else []
    )
    return names[0].split(":")[1].strip() if names else platform.processor() or platform.machine()


def commit() -> str:
    """The commit of the code that runs, marked if code has changed since.

    A copy that git does not know says it in ALLYOUNEED_COMMIT.
    """
    if named := os.environ.get("ALLYOUNEED_COMMIT"):
        return named
    code = [
        "src",
        "experiments",
        "benchmarks",
        ":!src/allyouneed/results",
        ":!src/allyouneed/weights",
    ]
    head, changed = (
        subprocess.run(["git", *words], capture_output=True, encoding="utf-8", cwd=ROOT).stdout
        for words in (["rev-parse", "--short=12", "HEAD"], ["status", "--porcelain", "--", *code])
    )
    return head.strip() + "-changed" * bool(changed)


def without_places(command: str) -> str:
    """A command that means the same on every machine: what lies elsewhere is in runs/."""
    return re.sub(r"(?<![^\s=])(?:~|\.\.|[A-Za-z]:)?[/\\](?:\S*[/\\])?", "runs/", command)


def record(name: str, data: dict[str, Any]) -> Path:
    """Write `data` with the command, machine, versions, date and commit it came from."""
    packages = ("torch", "numpy", "tokenizers", "sacrebleu")
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else None
    words = [os.path.relpath(w, ROOT) if os.path.isabs(w) else w for w in sys.argv[1:]]
    body = {
        "command": without_places(" ".join(["python", os.path.relpath(sys.argv[0], ROOT), *words])),
        "machine": {
            "processor": processor(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "gpu": gpu,
        },
        "versions": {"python": platform.python_version(), **{p: version(p) for p in packages}},
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
        "data": data,
    }
    file = FOLDER / f"{name}.json"
    part = file.with_suffix(".part")
    part.write_text(json.dumps(body, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    part.replace(file)
    print(f"wrote {os.path.relpath(file)}")
    return file
