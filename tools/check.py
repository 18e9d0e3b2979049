"""What a contributor runs between two edits: style, modules, links, the tests of what has changed.

python tools/check.py        `make check`; all there is to test is run by `make test`

What has changed is what differs from the main branch (on it: from the last commit), committed or
not. The tests of a file bear its name, or that of its module or folder; a notebook is run too.
Where none does, they are those that import it, or those of the table below. Tests that take longest
run last; when the time is over, what was not run is named.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tempfile
from fnmatch import fnmatch
from functools import cache
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
RUFF = [sys.executable, "-m", "ruff"]
PYTEST = [sys.executable, "-m", "pytest", "-q", "-rs", "-n", "2", "--dist", "loadfile"]
PYTEST += ["--no-loadscope-reorder", "--nbval", "--nbval-cell-timeout", "300"]
PYTEST += ["-o", "junit_family=xunit1"]  # a report that names files
SECONDS = 80  # for tests; with the style, the modules and a last long test, two minutes
TESTS = {  # of what bears no test's name and is imported by none: the first line that fits
    "src/allyouneed/__init__.py": ["release"],
    "src/allyouneed/__main__.py": ["command"],
    "src/allyouneed/history.py": ["command"],
    "src/allyouneed/modes.py": ["training", "alignment"],
    "src/allyouneed/provenance.py": ["results"],
    "src/allyouneed/py.typed": ["release"],
    "src/allyouneed/weights/*": ["results"],
    "experiments/*": ["results"],
    "recipes/*": ["settings"],
    "tests/right_answers/project_*": ["project"],
    "tests/right_answers/*": ["exercises"],
    "tests/colab.txt": ["alone"],
    "tests/conftest.py": ["site"],
    "tests/faked.py": ["pretend"],
    "tests/queries.toml": ["search"],
    "tests/everyday.toml": ["translator"],
    "conftest.py": ["outputs"],
    "book/_ext/*": ["extensions"],
    "book/requirements.txt": ["commands"],
    "book/*": ["site"],
    "_*.yml": ["site"],
    "tools/*": ["commands"],
    "requirements.txt": ["commands"],
    "Makefile": ["commands"],
    ".github/*": ["workflows"],
    "LICENSE*": ["results", "release"],
    "pyproject.toml": ["release"],
    "C*": ["release"],  # CHANGELOG.md, CITATION.cff, CONTRIBUTING.md
}


def git(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, encoding="utf-8")
    return done.stdout.split("\0")[:-1] if "-z" in words else done.stdout.split()


def changed() -> list[Path]:
    """The files that differ from the main branch and are still there."""
    base = git("merge-base", "HEAD", "main") or ["HEAD"]
    names = git("diff", "--name-only", "-z", *base)
    names += git("ls-files", "--others", "--exclude-standard", "-z")
    return [ROOT / name for name in names if (ROOT / name).is_file()]


@cache
def imports() -> dict[Path, set[str]]:
    """By each file of tests, the modules that it imports."""
    found = {}
    for test in ROOT.glob("tests/**/test_*.py"):
        names = found.setdefault(test, set())
        for node in ast.walk(ast.parse(test.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                names.update(node.module.split("."))
            if isinstance(node, ast.Import) or getattr(node, "module", "") == "allyouneed":
                names.update(part for one in node.names for part in one.name.split("."))
    return found


def tests_of(file: Path) -> set[Path]:
    """The tests of one file, and the file itself if it is one or is a notebook."""
    names = {file.stem, *file.relative_to(ROOT).parent.parts}
    found = {file} if file.match("test_*.py") or file.suffix == ".ipynb" else set()
    if file.suffix == ".ipynb":
        names |= set(re.findall(r"default_exp (\w+)", file.read_text(encoding="utf-8")))
    for name in names:
        found |= set(ROOT.glob(f"tests/**/test_{name.lower().replace('-', '_')}.py"))
    if not found and file.suffix == ".py":
        found = {test for test, names in imports().items() if file.stem in names}
    if not found:
        fits = (pattern for pattern in TESTS if fnmatch(file.relative_to(ROOT).as_posix(), pattern))
        found = {ROOT / "tests" / f"test_{name}.py" for name in TESTS.get(next(fits, ""), [])}
    return found


def pass_in_time(tests: list[str]) -> bool:
    """Run tests for as long as there is time; False if one has failed. Says what was not run."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        limits = [f"--session-timeout={SECONDS}", f"--junitxml={report}"]
        code = subprocess.run([*PYTEST, *limits, *tests], cwd=ROOT).returncode
        if code != 2 or not report.exists():  # not broken off
            return code in (0, 5)  # 5: there were none, but weekly ones
        cases = list(ElementTree.parse(report).iter("testcase"))
    begun = {case.get("file") for case in cases}
    left = " ".join(test for test in tests if test not in begun)
    print(f"The time is over. `make test` runs the rest{left and f', and all of {left}'}.")
    return not any(case.find(kind) is not None for case in cases for kind in ("failure", "error"))


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
    tests = {file.relative_to(ROOT).as_posix(): tests_of(file) for file in changed()}
    broken = broken_links([*ROOT.glob("*.md"), *ROOT.glob("*/*.md"), *ROOT.glob("*/*.ipynb")])
    print("\n".join(["Checking style, modules and links ...", *broken]), flush=True)
    codes = [subprocess.run(command, cwd=ROOT).returncode for command in commands]
    for file in [file for file, found in tests.items() if not found]:
        print(f"No test was found for {file}.", flush=True)
    found = sorted(test.relative_to(ROOT).as_posix() for test in set().union(*tests.values()))
    passed = not found or pass_in_time(found)
    return bool(broken or any(codes) or not passed)


if __name__ == "__main__":
    sys.exit(main())
