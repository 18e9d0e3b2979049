"""The built book, for the tests that open it: built once, and again when its sources change."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from filelock import FileLock

ROOT = Path(__file__).parents[1]
HTML = ROOT / "_build" / "html"
SOURCES = ["_config.yml", "_toc.yml", "pyproject.toml", "book", "notebooks", "src/allyouneed"]
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}


def build() -> None:
    """Build the site if it is missing or older than what it is made from. Warnings are errors.

    Of several processes that ask for it one builds, and the others wait."""
    HTML.parent.mkdir(exist_ok=True)
    with FileLock(HTML.parent / "building"):
        build_if_old()


def newest(names: list[str]) -> float:
    """When the newest of these files, or of the files in these folders, was written."""
    files = [f for name in names for f in [ROOT / name, *(ROOT / name).rglob("*")]]
    return max(f.stat().st_mtime for f in files if f.is_file() and "__pycache__" not in f.parts)


def build_if_old() -> None:
    done = ROOT / "_build" / "built"
    if done.exists() and done.stat().st_mtime > newest(SOURCES) and (HTML / "index.html").exists():
        return
    # Sphinx writes no page anew because an extension has changed.
    changed = done.exists() and done.stat().st_mtime < newest(["book/_ext", "book/_templates"])
    more = ["--all"] if changed else []
    command = "import sys; from jupyter_book.cli.main import main; sys.exit(main())"
    built = subprocess.run(
        [sys.executable, "-c", command, "build", ".", "-W", "-n", "--keep-going", "--quiet", *more],
        cwd=ROOT, capture_output=True, encoding="utf-8",
    )  # fmt: skip
    assert built.returncode == 0, (built.stdout + built.stderr)[-5000:]
    done.touch()
