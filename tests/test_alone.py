"""Each notebook runs from nothing but itself, as it does on Colab.

Every run executes one chapter whole, and what all chapters import. The others are executed by
`pytest tests/test_alone.py -m weekly`.

It starts in an empty folder. A fresh environment holds Colab's versions of what
a chapter touches (tests/colab.txt), and not this package: the set-up cell installs that, from
this checkout, because git is told to read the repository's address here. The cell is the same in
all chapters (test_notebooks.py): it installs for the first that runs, and the others find it.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution, distributions, version
from pathlib import Path

import nbformat
import pytest
from forked import failures
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
ADDRESS = re.search(r'Repository = "(.+)"', (ROOT / "pyproject.toml").read_text("utf-8"))[1]
WHOLE = "04_similarity"  # data, moving pictures, exercises, and it is quick
HERE = "PYTHONPATH PYTHONDONTWRITEBYTECODE VIRTUAL_ENV MPLBACKEND ALLYOUNEED_DATA".split()
IMPORT = ast.Import | ast.ImportFrom
COLAB = re.findall(r"^[\w.-]+==\S+", (ROOT / "tests" / "colab.txt").read_text("utf-8"), re.M)
PYC = "__pycache__"  # of modules of several packages
# torch is the one that the tests run with, and with it comes what it may have of CUDA.
LARGE = re.compile(r"(torch|triton|nvidia|cuda)(-|$)")
RELEASES = {one.name: one.version.split("+")[0] for one in distributions()}
TORCH = [f"{name}=={release}" for name, release in RELEASES.items() if LARGE.match(name)]
sys.path.insert(0, str(ROOT / "tools"))
from address import SET_UP  # noqa: E402


def run(*command: str | Path, **options) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, encoding="utf-8", **options)
    assert done.returncode == 0, f"{' '.join(map(str, command))}\n{done.stdout}\n{done.stderr}"
    return done.stdout


LIST = """import json, importlib.metadata as found
print(json.dumps({one.name: one.version for one in found.distributions()}))"""


def versions(python: Path) -> dict[str, str]:
    """What is installed; pip says the same, in ten times the time."""
    return json.loads(run(python, "-c", LIST))


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    """A git repository with what lies in this checkout now, committed or not, as a release."""
    copy = tmp_path_factory.mktemp("checkout")
    names = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", cwd=ROOT)
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file() and not name.startswith(("book/_vendor", "notebooks")):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
    git = ("git", "-c", "user.name=test", "-c", "user.email=test@localhost")
    run("git", "init", "-q", copy)
    as_they_are = [("core.compression", "0"), ("core.bigFileThreshold", "100k")]  # the weights
    for name, value in [*as_they_are, ("uploadpack.allowFilter", "true")]:  # as on GitHub
        run("git", "config", name, value, cwd=copy)
    run(*git, "add", "-A", cwd=copy)
    run(*git, "commit", "-q", "-m", "now", cwd=copy)
    asked = re.search(rf"{re.escape(ADDRESS)}@([\w.]+)", NOTEBOOKS[0].read_text(encoding="utf-8"))
    run("git", "tag", asked[1], cwd=copy)  # the release that the notebooks are of
    return copy


def given(python: Path, pins: list[str]) -> list[str]:
    """What pip would unpack in that environment, copied from ours where it is the same release (and
    linked if it is large); what is left. pip finds it, and installs what it needs."""
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages, left = Path(run(python, "-c", where).strip()), []
    for name, release in (pin.split("==") for pin in pins):
        try:
            ours = distribution(name)
        except PackageNotFoundError:
            ours = None
        if ours is None or ours.version.split("+")[0] != release:
            left.append(f"{name}=={release}")
            continue
        for top in {file.parts[0] for file in ours.files if file.parts[0] not in ("..", PYC)}:
            here, there = Path(ours.locate_file(top)), packages / top
            if there.is_symlink():  # nvidia/, which several have a part of
                continue
            if LARGE.match(name):
                there.symlink_to(here)
            elif here.is_dir():
                shutil.copytree(here, there, dirs_exist_ok=True)
            else:
                shutil.copy2(here, there)
    return left


@pytest.fixture(scope="module")
def colab(tmp_path_factory) -> Path:
    """The Python of a fresh environment with Colab's versions, and a kernel of that name."""
    folder = tmp_path_factory.mktemp("colab")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv")
    python = folder / "venv" / "bin" / "python"
    given(python, [f"pip=={version('pip')}"])
    # The list is whole, so pip need not look for more; what is imported is compiled then.
    pip = (python, "-m", "pip", "install", "-q", "--no-compile")
    if left := given(python, COLAB):  # none, where the tests themselves run with Colab's list
        run(*pip, "--no-deps", *left)
    given(python, TORCH)
    run(*pip, f"torch=={RELEASES['torch']}")
    kernel = folder / "kernels" / "colab"
    kernel.mkdir(parents=True)
    argv = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": argv, "display_name": "Colab", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(spec), "utf-8")
    return python


@pytest.fixture(autouse=True)
def empty_folder(colab, checkout, tmp_path, monkeypatch) -> Path:
    """Where nothing is known but the environment, and the checkout under the address."""
    settings = {
        "JUPYTER_PATH": str(colab.parents[2]),
        "ALLYOUNEED_HOME": str(tmp_path),
        "ALLYOUNEED_CACHE": str(colab.parents[2] / "cache"),  # fetched once, by the first that asks
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"url.file://{checkout}.insteadOf",
        "GIT_CONFIG_VALUE_0": ADDRESS,
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    for name in HERE:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{colab.parent}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def execute(cells: list, colab: Path, folder: Path) -> None:
    """Run cells as Colab would. They change nothing of what it has."""
    before = versions(colab)
    notebook = nbformat.v4.new_notebook(cells=cells)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []
    resources = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=300, kernel_name="colab", resources=resources).execute()

    after = versions(colab)
    assert "allyouneed" in after
    changed = {
        name: (old, after.get(name)) for name, old in before.items() if after.get(name) != old
    }
    assert changed == {}, "the set-up cell changed what Colab has"


def chapter(file: Path):
    """A chapter that is executed whole, in every run or only in the weekly one."""
    return pytest.param(file, id=file.stem, marks=[pytest.mark.weekly] * (file.stem != WHOLE))


@pytest.mark.parametrize("file", [chapter(file) for file in NOTEBOOKS])
def test_runs_alone(file, colab, empty_folder):
    execute(nbformat.read(file, as_version=4).cells, colab, empty_folder)


def imports(file: Path) -> str:
    """All that a chapter imports, in its functions too."""
    cells = nbformat.read(file, as_version=4).cells
    source = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    found = [node for node in ast.walk(ast.parse(source)) if isinstance(node, IMPORT)]
    return "\n".join(line for line in map(ast.unparse, found) if "__future__" not in line)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="each import is in a fork of one process")
def test_all_chapters_can_import_what_they_need(colab, empty_folder):
    """The set-up cell installs the package with its models, and what a chapter imports is there."""
    model = "import allyouneed; allyouneed.pretrained('tatoeba-en-fr')"
    execute([nbformat.v4.new_code_cell(cell) for cell in (SET_UP, model)], colab, empty_folder)
    pieces = {file.stem: imports(file) for file in NOTEBOOKS}
    assert all("allyouneed" in piece for piece in pieces.values())
    assert not failures(colab, pieces, "matplotlib.pyplot", cwd=empty_folder)
