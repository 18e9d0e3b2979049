"""What is published: one version, a set-up cell that installs it, a wheel and an sdist."""

from __future__ import annotations

import email
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import allyouneed

ROOT = Path(__file__).parents[1]
VERSION = allyouneed.__version__
sys.path.insert(0, str(ROOT / "tools"))
import address  # noqa: E402


def run(*command: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, *command], cwd=ROOT, capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_version_stands_in_one_place():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    cited = re.search(r'^version: (\S+)\ndate-released: "(\S+)"', citation, re.M).groups()
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    newest = re.search(r"^## \[Unreleased\].*?^## \[(\S+)\] - (\S+)$", changes, re.M | re.S)
    assert cited == newest.groups()
    assert cited[0] == VERSION or "dev" in VERSION


def test_set_up_cell_installs_the_release_that_it_is_of():
    assert f"git+{address.ADDRESS}@{address.ref_of(VERSION)}" in address.SET_UP
    assert address.ref_of("1.2.0") == "v1.2.0" and address.ref_of("1.3.0.dev0") == "main"


def test_set_up_cell_says_in_one_line_what_to_do():
    """Without the package, and with a pip that finds nothing: a fork, no network, no tag yet."""
    away = """
import importlib.util
importlib.util.find_spec = lambda name: None
class get_ipython:
    def run_line_magic(self, *words): print(*words)
"""
    done = subprocess.run(
        [sys.executable, "-c", away + address.SET_UP], capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 1
    assert done.stdout == f"pip install -q git+{address.ADDRESS}@{address.REF}\n"
    assert re.fullmatch(rf"allyouneed {address.REF} did not come\. .*run this cell again\.\n",
                        done.stderr)  # fmt: skip


def test_address_writes_the_set_up_cell_and_keeps_a_stale_notebook_stale():
    import nbformat

    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell("old", metadata={"tags": ["setup"]}, id="a")]
    for known in (address.execute.source_hash(notebook), "of other code"):
        notebook.metadata["source_hash"] = known
        after = nbformat.reads(address.set_up(nbformat.writes(notebook)), as_version=4)
        assert after.cells[0].source == address.SET_UP
        fresh = after.metadata.source_hash == address.execute.source_hash(after)
        assert fresh == (known != "of other code")
        assert address.set_up(nbformat.writes(after)) == nbformat.writes(after)


def test_command_and_module_are_the_same():
    (command,) = entry_points(group="console_scripts", name="allyouneed")
    assert command.value == "allyouneed.__main__:run"
    assert run("-m", "allyouneed", "--version") == f"allyouneed {VERSION}\n"


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> dict[str, Path]:
    """The wheel and the sdist, as they would go to PyPI."""
    folder = tmp_path_factory.mktemp("dist")
    run("-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    return {file.suffix: file for file in folder.iterdir()}


def test_both_are_as_pypi_wants_them(built):
    run("-m", "twine", "check", "--strict", *built.values())
    run("-m", "check_wheel_contents", built[".whl"])


def test_wheel_names_and_holds_every_licence(built):
    with zipfile.ZipFile(built[".whl"]) as wheel:
        names = wheel.namelist()
        info = next(name.split("/")[0] for name in names if name.endswith("/METADATA"))
        metadata = email.message_from_bytes(wheel.read(f"{info}/METADATA"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert metadata["Version"] == VERSION
    assert metadata["License-Expression"] == project["license"]
    licences = {"LICENSE", *(f"LICENSES/{file.name}" for file in (ROOT / "LICENSES").iterdir())}
    assert set(metadata.get_all("License-File")) == licences
    assert {f"{info}/licenses/{name}" for name in licences} <= set(names)
    package = ROOT / "src" / "allyouneed"
    ours = {f.relative_to(package.parent).as_posix() for f in package.rglob("*") if f.is_file()}
    ours = {name for name in ours if "__pycache__" not in name}
    assert {name for name in names if not name.startswith(info)} == ours
    assert "allyouneed/py.typed" in ours
    links = re.findall(r"\]\(([^)#][^)]*)\)", metadata.get_payload())
    assert links and all(link.startswith("https://") for link in links)
    at = f"{project['urls']['Repository']}/raw/v{VERSION}/"
    assert f"]({at}book/_static/cover.svg)" in metadata.get_payload()


def test_sdist_has_what_makes_the_wheel_and_no_book(built):
    with tarfile.open(built[".gz"]) as sdist:
        tops = {name.split("/")[1] for name in sdist.getnames()}
    assert tops == {
        "src", "pyproject.toml", "README.md", "CHANGELOG.md", "CITATION.cff", "LICENSE", "LICENSES",
        "PKG-INFO", ".gitignore",
    }  # fmt: skip
