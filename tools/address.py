"""The repository's address stands in pyproject.toml; this writes it wherever else it is needed.

python tools/address.py            write it, and the set-up cell of all notebooks
python tools/address.py --check    write nothing; fail if a file has another one

The set-up cell names the release that the notebook is of, by the version in src/allyouneed; between
releases (a version with "dev" in it) it names main.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

import execute
import nbformat

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ADDRESS = PROJECT["urls"]["Repository"]
OWNER = urlsplit(ADDRESS).path.split("/")[1]
ANY_ADDRESS = re.compile(r"https://github\.com/[\w.-]+/allyouneed(?![\w-])")
ANY_SITE = re.compile(r"https://[\w-]+\.github\.io/allyouneed(?![\w-])")
INIT = (ROOT / "src" / "allyouneed" / "__init__.py").read_text(encoding="utf-8")
VERSION = re.search(r'^__version__ = "(.+)"$', INIT, re.M)[1]


def ref_of(version: str) -> str:
    """What the set-up cell installs: the release of that name, or main between releases."""
    return "main" if "dev" in version else f"v{version}"


REF = ref_of(VERSION)
SET_UP = f"""\
import importlib.util

if not importlib.util.find_spec("allyouneed"):  # as on Colab
    get_ipython().run_line_magic("pip", "install -q git+{ADDRESS}@{REF}")
if not importlib.util.find_spec("allyouneed"):
    raise SystemExit("allyouneed {REF} did not come. Connect to the network, or %pip install "
                     "a copy (its folder, or git+https://...); then run this cell again.")
import allyouneed; device = allyouneed.start()"""


def set_up(text: str) -> str:
    """A notebook's text with today's set-up cell. If it was fresh, it still is: see `execute`."""
    notebook = nbformat.reads(text, as_version=4)
    fresh = notebook.metadata.get("source_hash") == execute.source_hash(notebook)
    for cell in notebook.cells:
        if "setup" in cell.metadata.get("tags", []) and cell.source != SET_UP:
            cell.source = SET_UP
            if fresh:
                notebook.metadata.source_hash = execute.source_hash(notebook)
            text = nbformat.writes(notebook) + "\n"
    return text


def differences(write: bool = False) -> list[str]:
    """The files in which another address than pyproject's stands (and, if asked, mend them)."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, encoding="utf-8", check=True,
    ).stdout.split("\0")  # fmt: skip
    found = []
    for name in filter(None, listed):
        file = ROOT / name
        if (
            file.suffix not in {".md", ".ipynb", ".yml", ".toml", ".cff", ".py", ".html", ".js"}
            or not file.exists()
        ):
            continue
        text = file.read_text(encoding="utf-8")
        mended = ANY_ADDRESS.sub(ADDRESS, text)
        mended = ANY_SITE.sub(f"https://{OWNER.lower()}.github.io/allyouneed", mended)
        if file.suffix == ".ipynb":
            mended = set_up(mended)
        if mended != text:
            found.append(name)
            if write:
                file.write_text(mended, encoding="utf-8")
    return found


if __name__ == "__main__":
    check = "--check" in sys.argv[1:]
    for name in differences(write=not check):
        print(("differs: " if check else "wrote ") + name)
    sys.exit(bool(check and differences()))
