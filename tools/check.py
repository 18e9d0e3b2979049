"""What a contributor runs between two edits: style, modules, links, the tests of what has changed.

python tools/check.py        `make check`; all there is to test is run by `make test`

What has changed is what differs from the main branch (on it: from the last commit), committed or
not. The tests of a file bear its name, or that of its module or folder; a notebook is run too.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
RUFF = [sys.executable, "-m", "ruff"]
PYTEST = [sys.executable, "-m", "pytest", "-q", "-rs", "-n", "2", "--dist", "loadfile"]
PYTEST += ["--nbval", "--nbval-cell-timeout", "300"]


def git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, encoding="utf-8")
    return done.stdout.split("\0")[:-1] if "-z" in words else done.stdout.split()


def changed() -> list[Path]:
    """The files that differ from the main branch and are still there."""
    base = git("merge-base", "HEAD", "main") or ["HEAD"]
    names = git("diff", "--name-only", "-z", *base)
    names += git("ls-files", "--others", "--exclude-standard", "-z")
    return [ROOT / name for name in names if (ROOT / name).is_file()]


def tests_of(file: Path) -> set[Path]:
    """The tests of one file, and the file itself if it is one or is a notebook."""
    names = {file.stem, *file.relative_to(ROOT).parent.parts}
    found = {file} if file.match("test_*.py") or file.suffix == ".ipynb" else set()
    if file.suffix == ".ipynb":
        names |= set(re.findall(r"default_exp (\w+)", file.read_text(encoding="utf-8")))
    for name in names:
        found |= set(ROOT.glob(f"tests/**/test_{name.lower().replace('-', '_')}.py"))
    return found


def prose(file: Path) -> str:
    """The text of a page or of a notebook, without its code."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        cells = [cell["source"] for cell in cells if cell["cell_type"] == "markdown"]
        text = "\n\n".join(map("".join, cells))
    return re.sub(r"(`+).*?\1", "", text, flags=re.S)


def broken_links(files: list[Path]) -> list[str]:
    """Links to files that are not there. Other addresses are not asked for."""
    return [
        f"{file.relative_to(ROOT)}: {link} is not there"
        for file in files
        for link in re.findall(r"\]\((?!\w+:|#)([^)#\s]+)", prose(file))
        if not (file.parent / link).exists()
    ]


def main() -> int:
    """Run everything, also after something has failed; 1 if something has."""
    commands = [
        [*RUFF, "check", "--quiet", "."],
        [*RUFF, "format", "--check", "--quiet", "."],
        [sys.executable, "tools/export.py", "--check"],
    ]
    tests = sorted(set().union(*map(tests_of, changed())))
    if tests:
        commands.append([*PYTEST, *(test.relative_to(ROOT).as_posix() for test in tests)])
    broken = broken_links([*ROOT.glob("*.md"), *ROOT.glob("*/*.md"), *ROOT.glob("*/*.ipynb")])
    print("\n".join(["Checking style, modules and links ...", *broken]), flush=True)
    codes = [subprocess.run(command, cwd=ROOT).returncode for command in commands]
    return bool(broken or any(codes))


if __name__ == "__main__":
    sys.exit(main())
