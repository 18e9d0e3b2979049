"""Each notebook runs from nothing but itself, as it does on Colab.

The file alone is copied into an empty folder. A fresh environment holds Colab's versions of what
a chapter touches (tests/colab.txt), and not this package: the set-up cell installs that, from
this checkout, because git is told to read the repository's address here. The cell is the same in
all chapters (test_notebooks.py): it installs for the first that runs, and the others find it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
ADDRESS = re.search(r'Repository = "(.+)"', (ROOT / "pyproject.toml").read_text())[1]
TORCH = re.search(r"^torch==\S+", (ROOT / "requirements.txt").read_text(), re.M)[0]


def run(*command: str | Path, **options) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **options)
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
    run(*git, "add", "-A", cwd=copy)
    run(*git, "commit", "-q", "-m", "now", cwd=copy)
    asked = re.search(rf"{re.escape(ADDRESS)}@([\w.]+)", NOTEBOOKS[0].read_text(encoding="utf-8"))
    run("git", "tag", asked[1], cwd=copy)  # the release that the notebooks are of
    return copy


@pytest.fixture(scope="module")
def colab(tmp_path_factory) -> Path:
    """The Python of a fresh environment with Colab's versions, and a kernel of that name."""
    folder = tmp_path_factory.mktemp("colab")
    run(sys.executable, "-m", "venv", folder / "venv")
    python = folder / "venv" / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", TORCH, "-r", ROOT / "tests" / "colab.txt")
    kernel = folder / "kernels" / "colab"
    kernel.mkdir(parents=True)
    argv = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {"argv": argv, "display_name": "Colab", "language": "python"}
    (kernel / "kernel.json").write_text(json.dumps(spec))
    return python


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_runs_alone(file, colab, checkout, tmp_path, monkeypatch):
    before = versions(colab)
    shutil.copy(file, tmp_path)
    notebook = nbformat.read(tmp_path / file.name, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = []

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
    for name in ("PYTHONPATH", "VIRTUAL_ENV", "MPLBACKEND", "ALLYOUNEED_DATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", f"{colab.parent}{os.pathsep}{os.environ['PATH']}")
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=300, kernel_name="colab", resources=resources).execute()

    after = versions(colab)
    assert "allyouneed" in after
    changed = {
        name: (old, after.get(name)) for name, old in before.items() if after.get(name) != old
    }
    assert changed == {}, "the set-up cell changed what Colab has"
