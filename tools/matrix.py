"""Run the package's tests and every notebook under each set of versions that is supported.

    python tools/matrix.py             all legs, one after the other
    python tools/matrix.py floors      the leg that is named

A leg is a Python and what is installed into it beside the package. Its environment is made once,
in .venv/matrix/; beside it lies what pip and pytest said. Run by the system's own Python, so it
uses nothing but the standard library.
"""

import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parents[1]
HOME = ROOT / ".venv" / "matrix"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
NEEDS = [*PROJECT["dependencies"], *(need for extra in EXTRAS.values() for need in extra)]

# Other libraries word their errors and warnings in another way, and count other operations: in a
# leg that is lax each cell runs and its asserts hold, but what it prints is not compared.
# pyarrow comes with datasets; a newer one needs numpy 2, and does not say so to pip.
STRICT, LAX = "--nbval", "--nbval-lax"
FLOORS = [need.replace(">=", "==") for need in NEEDS]
LEGS = {
    "colab": ("3.13", STRICT, ["torch==2.11.*", "datasets==4.0.0", "-r", "tests/colab.txt"]),
    "floors": ("3.11", LAX, [*FLOORS, "pyarrow==18.1.0"]),
    "newest": ("3.13", LAX, ["--upgrade", "--upgrade-strategy=eager"]),
    "pinned": ("3.12", STRICT, ["-c", "requirements.txt"]),
}
TESTS = "pytest pytest-timeout pytest-xdist hypothesis beartype nbval nbclient PYEVALB".split()
# The tests of the site, of the tools and of the texts say nothing about versions or processors.
ELSEWHERE = (
    *("alone", "bibliography", "commands", "extensions", "notebooks", "paper_map", "portable"),
    *("reading", "readme", "references", "release", "search", "site", "translator", "workflows"),
)
ALONE = ["colab"]  # the legs in which each notebook also runs from nothing but itself
SHOWN = (
    *("python", "torch", "numpy", "matplotlib", "tokenizers", "safetensors", "sacrebleu"),
    *("jaxtyping", "beartype", "transformers", "ipywidgets", "ipython", "ipykernel"),
)
VERSIONS = """import json, platform, importlib.metadata as found
versions = {one.name.lower(): one.version for one in found.distributions()}
print(json.dumps(versions | {"python": platform.python_version()}))"""


def said(python: str | Path, code: str) -> str:
    return subprocess.run(
        [python, "-c", code], capture_output=True, encoding="utf-8"
    ).stdout.strip()


def find_python(version: str) -> str | Path:
    """A Python of this version: on PATH, or one of pyenv's."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    on_path = shutil.which(f"python{version}")
    for python in (on_path, *pyenv.glob(f"versions/{version}.*/bin/python")):
        if python and said(python, "import sys; print('%d.%d' % sys.version_info[:2])") == version:
            return python
    sys.exit(f"Python {version} is needed, and was found neither on PATH nor in {pyenv}.")


def run_leg(name: str, base: str | Path, nbval: str, needs: list[str]) -> dict[str, str]:
    """Make the environment, run everything in it, and give what the table shows of it."""
    begin, log = time.monotonic(), HOME / f"{name}.log"
    report, alone = HOME / f"{name}.xml", HOME / f"{name}-alone.xml"
    python = HOME / name / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    print(f"{name}: see {log.relative_to(ROOT)}", flush=True)
    for file in (report, alone):
        file.unlink(missing_ok=True)
    tests = ["tests", "notebooks", nbval, "--nbval-current-env", "--nbval-cell-timeout=600"]
    tests += [f"--ignore=tests/test_{other}.py" for other in ELSEWHERE]
    tests += ["--ignore=tests/pictures", "-q", "-rs", f"--junitxml={report}"]
    tests += ["-n", "2", "--dist", "loadfile", "--no-loadscope-reorder"]
    steps = [
        *([] if python.exists() else [[base, "-m", "venv", python.parents[1]]]),
        [python, "-m", "pip", "install", "--editable", f".[{','.join(EXTRAS)}]", *TESTS, *needs],
    ]
    runs = [[python, "-m", "pytest", *tests]]
    if name in ALONE:
        each = ["tests/test_alone.py", "-m", "", "-q", "-rs", f"--junitxml={alone}"]
        runs.append([python, "-m", "pytest", *each])
    settings = {"OMP_NUM_THREADS": "1", "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}"}
    with log.open("wb") as words:
        options = {"cwd": ROOT, "env": os.environ | settings, "stdout": words, "stderr": words}
        green = all(subprocess.run(step, **options).returncode == 0 for step in steps)
        green = green and not any([subprocess.run(run, **options).returncode for run in runs])
    versions = json.loads(said(python, VERSIONS) or "{}")
    row = {what: versions.get(what, "") for what in SHOWN}
    row |= results(report) if report.exists() else {"tests": "did not run", "notebooks": ""}
    row["alone"] = results(alone)["tests"] if alone.exists() else ""
    minutes = (time.monotonic() - begin) / 60
    return row | {"minutes": f"{minutes:.0f}", "in all": "green" if green else "red"}


def results(report: Path) -> dict[str, str]:
    """How many tests and notebooks failed and passed; those that failed are named."""
    tests, notebooks = Counter(), {}
    for case in ElementTree.parse(report).iter("testcase"):
        file, ends = case.get("classname"), {child.tag for child in case}
        failed = bool(ends & {"failure", "error"})
        if failed:
            print(f"  {file}: {case.get('name')}", flush=True)
        if ".ipynb" in file:  # a case is a cell
            notebooks[file] = "failed" if failed else notebooks.get(file, "passed")
        else:
            tests["failed" if failed else "skipped" if "skipped" in ends else "passed"] += 1
    books = Counter(notebooks.values())
    return {
        "tests": f"{tests['failed']} failed, {tests['passed']} passed, {tests['skipped']} skipped",
        "notebooks": f"{books['failed']} failed, {books['passed']} passed",
    }


def table(rows: dict[str, dict[str, str]]) -> str:
    """What is in the rows, a column for each leg."""
    lines = [("", *rows)]
    lines += [(what, *(row[what] for row in rows.values())) for what in rows[lines[0][1]]]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in lines)


def main():
    names = sys.argv[1:] or list(LEGS)
    if unknown := set(names) - set(LEGS):
        sys.exit(f"No leg is named {', '.join(unknown)}. There are {', '.join(LEGS)}.")
    pythons = {name: find_python(LEGS[name][0]) for name in names}
    HOME.mkdir(parents=True, exist_ok=True)
    rows = {name: run_leg(name, pythons[name], *LEGS[name][1:]) for name in names}
    print(table(rows))
    sys.exit(any(row["in all"] == "red" for row in rows.values()))


if __name__ == "__main__":
    main()
