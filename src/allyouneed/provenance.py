"""Where numbers come from: the command, the machine, the versions, the date and the commit.

This module is plumbing written by hand. Every run of training and every record in `results` has it.
"""

from __future__ import annotations

import datetime
import os
import platform
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from allyouneed import __version__

PACKAGES = ("torch", "numpy", "tokenizers", "sacrebleu")
# What a commit is marked for, if it has changed since: code, and no numbers that code has left
CODE = (":/src", ":/experiments", ":/benchmarks", ":!/src/allyouneed/results",
        ":!/src/allyouneed/weights")  # fmt: skip


def circumstances(command: str) -> dict[str, Any]:
    """What the numbers of a command depend on, as JSON can hold it."""
    return {
        "command": command,
        "machine": {
            "processor": processor_name(),
            "cores": os.cpu_count(),
            "threads": torch.get_num_threads(),
            "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        },
        "versions": {
            "python": platform.python_version(),
            "allyouneed": __version__,
            **{package: version(package) for package in PACKAGES},
        },
        "date": datetime.date.today().isoformat(),
        "commit": commit(),
    }


def processor_name() -> str:
    """The processor's name, as the system tells it."""
    lines = [line.partition(":") for line in processor().splitlines()]
    names = [name.strip() for what, _, name in lines if what.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def processor() -> str:
    """What Linux tells about the processor; nothing elsewhere."""
    info = Path("/proc/cpuinfo")
    return info.read_text(encoding="utf-8") if info.exists() else ""


def commit() -> str | None:
    """The commit of the code that runs, marked "-changed" if code has changed since.

    A copy that git does not know says it in ALLYOUNEED_COMMIT; else it has none.
    """
    if named := os.environ.get("ALLYOUNEED_COMMIT"):
        return named
    if not shutil.which("git") or not git("ls-files", Path(__file__).name):
        return None  # or the repository that we lie in is another's
    changed = git("status", "--porcelain", "--", *CODE)
    return git("rev-parse", "--short=12", "HEAD") + "-changed" * bool(changed)


def git(*words: str) -> str:
    """What git says about the repository of this file."""
    command = ["git", "-C", str(Path(__file__).parent), *words]
    return subprocess.run(command, capture_output=True, encoding="utf-8").stdout.strip()
