"""The repository's address stands in pyproject.toml; this writes it wherever else it is needed.

python tools/address.py            write it
python tools/address.py --check    write nothing; fail if a file has another one
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
ADDRESS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Repository"]
ANY_ADDRESS = re.compile(r"https://github\.com/[\w.-]+/allyouneed(?![\w-])")
INSTALL = f'get_ipython().run_line_magic("pip", "install -q git+{ADDRESS}")'
SET_UP = f"""\
import importlib.util; importlib.util.find_spec("allyouneed") or {INSTALL}
import allyouneed; device = allyouneed.start()"""


def differences(write: bool = False) -> list[str]:
    """The files in which another address than pyproject's stands (and, if asked, mend them)."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
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
        if mended != text:
            found.append(name)
            if write:
                file.write_text(mended, encoding="utf-8")
    return found


if __name__ == "__main__":
    check = "--check" in sys.argv[1:]
    for name in differences(write=not check):
        print(("another address in " if check else "wrote ") + name)
    sys.exit(bool(check and differences()))
