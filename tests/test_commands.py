"""The two commands on machines where something is missing: what they say, and how they end."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools"))
import check  # noqa: E402


@pytest.fixture
def tree(tmp_path) -> Path:
    """A checkout with what the commands need to start, and nothing installed."""
    for name in ("Makefile", "requirements.txt", "pyproject.toml", "book/requirements.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(
        ROOT / "tools", tmp_path / "tools", ignore=shutil.ignore_patterns("__pycache__")
    )
    return tmp_path


def make(tree: Path, *words: str, **environment: str) -> tuple[int, str]:
    environment = {**os.environ, **environment}
    done = subprocess.run(
        ["make", *words],
        cwd=tree,
        env=environment,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    return done.returncode, done.stdout + done.stderr


def pretend_pip_says(tree: Path, words: str) -> None:
    python = tree / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\necho '{words}'\nexit 1\n", "utf-8")
    python.chmod(0o755)


def test_help_names_every_target(tree):
    code, said = make(tree, "help")
    assert code == 0
    targets = re.search(r"^\.PHONY: (.*)", (tree / "Makefile").read_text("utf-8"), re.M)[1].split()
    for target in [name for name in targets if name != "help" and not name.startswith("setup")]:
        assert f"\n  {target} " in said
    assert len({len(left) for left in re.findall(r"^  \w+ +", said, re.M)}) == 1  # one column


def test_no_python(tree):
    code, said = make(tree, "book", "PYTHON=")
    assert code != 0 and "Python 3.11 or newer is needed" in said and "PYTHON=/path" in said


def test_old_python(tree):
    old = tree / "old-python"  # this Python, telling another version than it has
    old.write_text(
        f"#!{sys.executable}\nimport runpy, sys\n"
        "sys.version_info, sys.version, sys.argv = (3, 9), '3.9.1', sys.argv[1:]\n"
        "runpy.run_path(sys.argv[0])\n",
        "utf-8",
    )
    old.chmod(0o755)
    code, said = make(tree, "book", f"PYTHON={old}")
    assert code != 0 and "Python 3.11 or newer is needed; this one is 3.9.1" in said


def test_byte_code_is_written_where_a_container_forbids_it(tree):
    """Without it each process compiles all that it imports: of torch that takes a second or two."""
    python = tree / "python"
    python.write_text('#!/bin/sh\necho "forbidden: [$PYTHONDONTWRITEBYTECODE]"\n', "utf-8")
    python.chmod(0o755)
    code, said = make(tree, "setup-book", f"PYTHON={python}", PYTHONDONTWRITEBYTECODE="1")
    assert code == 0 and "forbidden: []" in said


def test_no_network(tree):
    closed = "http://127.0.0.1:9/simple"
    code, said = make(
        tree, "book", PIP_INDEX_URL=closed, PIP_EXTRA_INDEX_URL="", PIP_RETRIES="0",
        PIP_FIND_LINKS="", PIP_CONFIG_FILE=os.devnull,
    )  # fmt: skip
    assert code != 0 and "package index" in said and ".venv/install.log" in said
    assert "Traceback" not in said


def test_disk_full(tree):
    pretend_pip_says(tree, "ERROR: Could not install packages: [Errno 28] No space left on device")
    code, said = make(tree, "book")
    assert code != 0 and "The disk is full" in said and "Traceback" not in said


def test_second_run_installs_nothing(tree):
    sys.path.insert(0, str(tree / "tools"))
    pretend_pip_says(tree, "should not have been asked")
    script = (tree / "tools" / "install.py").read_text("utf-8").removesuffix("main()\n")
    names: dict = {"__file__": str(tree / "tools" / "install.py"), "__name__": "install"}
    exec(script, names)
    (tree / ".venv" / "book.installed").write_text(names["fingerprint"]("book"), "utf-8")
    names["install"]("book")
    assert not (tree / ".venv" / "install.log").exists()


def test_port_taken():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, ROOT / "tools" / "serve.py", str(port)],
            capture_output=True, encoding="utf-8", timeout=20,
        )  # fmt: skip
    assert done.returncode != 0
    assert f"Port {port} is taken" in done.stderr and f"PORT={port + 1}" in done.stderr


def test_port_is_no_number():
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "serve.py", "web"], capture_output=True, encoding="utf-8"
    )
    assert done.returncode != 0 and "got 'web'" in done.stderr


@pytest.mark.parametrize(
    "changed, tests",
    [
        ("src/allyouneed/masks.py", "tests/test_masks.py"),
        ("src/allyouneed/pictures/beam-tree.js", "tests/pictures/test_beam_tree.py"),
        ("src/allyouneed/exercises/chapter_03.py", "tests/test_exercises.py"),
        ("notebooks/06_attention.ipynb", "notebooks/06_attention.ipynb"),
        ("notebooks/06_attention.ipynb", "tests/test_attention.py"),
        ("tests/test_rooms.py", "tests/test_rooms.py"),
        ("README.md", "tests/test_readme.py"),
        ("book/_ext/booksite.py", "tests/test_extensions.py"),
        ("src/allyouneed/runs.py", "tests/test_command.py"),
        ("src/allyouneed/weights/multi30k-en-de.json", "tests/test_results.py"),
        ("tests/right_answers/chapter_03.py", "tests/test_exercises.py"),
        (".github/workflows/weekly.yml", "tests/test_workflows.py"),
        ("LICENSES/CC-BY-SA-3.0.txt", "tests/test_release.py"),
    ],
)
def test_check_tests_what_has_changed(changed, tests):
    assert ROOT / tests in check.tests_of(ROOT / changed)
    assert ROOT / "tests" / "test_data.py" not in check.tests_of(ROOT / changed)


def test_check_knows_the_tests_of_nearly_everything():
    files = [ROOT / name for name in check.git("ls-files", "-z") if (ROOT / name).is_file()]
    none = [file.relative_to(ROOT).as_posix() for file in files if not check.tests_of(file)]
    assert len(files) > 400 and set(none) <= {".ci/run", ".gitattributes", ".gitignore"}


SLOW = "import pytest, time\n@pytest.mark.parametrize('i', range(9))\n"
SLOW += "def test_waits(i):\n    time.sleep(0.5)\n    assert i != %d\n"


@pytest.mark.parametrize("wrong, passes", [(9, True), (0, False)])
def test_check_says_what_there_was_no_time_for(wrong, passes, tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(check, "ROOT", tmp_path)
    monkeypatch.setattr(check, "SECONDS", 1)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # those that are not needed take long
    monkeypatch.setenv("PYTEST_PLUGINS", "xdist.plugin,pytest_timeout,nbval.plugin")
    names = ["test_a.py", "test_b.py", "test_c.py"]
    for name in names:
        (tmp_path / name).write_text(SLOW % wrong, encoding="utf-8")
    assert check.pass_in_time(names) == passes
    over = r"The time is over\. `make test` runs the rest, and all of (.*)\."
    assert re.search(over, capfd.readouterr().out)[1] in names  # each worker had begun another


def test_check_sees_what_has_changed(monkeypatch, tmp_path):
    monkeypatch.setattr(check, "ROOT", tmp_path)
    git = ("git", "-c", "user.name=test", "-c", "user.email=test@localhost", "-C", tmp_path)
    subprocess.run([*git, "init", "-q", "-b", "first"], check=True)
    for branch in ("main", "mine"):
        subprocess.run([*git, "switch", "-q", "-c", branch], check=True)
        (tmp_path / branch).touch()
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-q", "-m", branch], check=True)
    (tmp_path / "new").touch()
    assert check.changed() == [tmp_path / "mine", tmp_path / "new"]


def test_check_finds_broken_links(monkeypatch, tmp_path):
    monkeypatch.setattr(check, "ROOT", tmp_path)
    page, notebook = tmp_path / "page.md", tmp_path / "chapter.ipynb"
    text = "[a](page.md#there) [b](https://localhost/x) `c[0](x)` [d](gone.md)"
    page.write_text(text, encoding="utf-8")
    cells = [{"cell_type": kind, "source": [text]} for kind in ("markdown", "code")]
    notebook.write_text(json.dumps({"cells": cells}), encoding="utf-8")
    assert check.broken_links([page, notebook]) == [
        "page.md: gone.md is not there", "chapter.ipynb: gone.md is not there"
    ]  # fmt: skip
