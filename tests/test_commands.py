"""The two commands on machines where something is missing: what they say, and how they end."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


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
        ["make", *words], cwd=tree, env=environment, capture_output=True, text=True, timeout=120
    )
    return done.returncode, done.stdout + done.stderr


def pretend_pip_says(tree: Path, words: str) -> None:
    python = tree / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!/bin/sh\necho '{words}'\nexit 1\n")
    python.chmod(0o755)


def test_help_names_every_target(tree):
    code, said = make(tree, "help")
    assert code == 0
    for target in ("book", "test", "matrix", "serve", "execute", "export", "address", "clean"):
        assert f"\n  {target} " in said


def test_no_python(tree):
    code, said = make(tree, "book", "PYTHON=")
    assert code != 0 and "Python 3.11 or newer is needed" in said and "PYTHON=/path" in said


def test_old_python(tree):
    old = tree / "old-python"  # this Python, telling another version than it has
    old.write_text(
        f"#!{sys.executable}\nimport runpy, sys\n"
        "sys.version_info, sys.version, sys.argv = (3, 9), '3.9.1', sys.argv[1:]\n"
        "runpy.run_path(sys.argv[0])\n"
    )
    old.chmod(0o755)
    code, said = make(tree, "book", f"PYTHON={old}")
    assert code != 0 and "Python 3.11 or newer is needed; this one is 3.9.1" in said


def test_no_network(tree):
    closed = "http://127.0.0.1:9/simple"
    code, said = make(
        tree, "book", PIP_INDEX_URL=closed, PIP_EXTRA_INDEX_URL="", PIP_RETRIES="1",
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
    script = (tree / "tools" / "install.py").read_text().removesuffix("main()\n")
    names: dict = {"__file__": str(tree / "tools" / "install.py"), "__name__": "install"}
    exec(script, names)
    (tree / ".venv" / "book.installed").write_text(names["fingerprint"]("book"))
    names["install"]("book")
    assert not (tree / ".venv" / "install.log").exists()


def test_port_taken():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = subprocess.run(
            [sys.executable, ROOT / "tools" / "serve.py", str(port)],
            capture_output=True, text=True, timeout=20,
        )  # fmt: skip
    assert done.returncode != 0
    assert f"Port {port} is taken" in done.stderr and f"PORT={port + 1}" in done.stderr


def test_port_is_no_number():
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "serve.py", "web"], capture_output=True, text=True
    )
    assert done.returncode != 0 and "got 'web'" in done.stderr
