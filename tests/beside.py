"""An environment that has what the tests have, and some packages more, for a test of every week."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path


def python_with(folder: Path, *packages: str) -> Path:
    """The Python of a new environment in that folder. What pip is told comes behind `install`."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    python = folder / "bin" / "python"
    where = next((folder / "lib").glob("*/site-packages"))
    (where / "here.pth").write_text(sysconfig.get_path("purelib"), encoding="utf-8")
    subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True)
    return python
