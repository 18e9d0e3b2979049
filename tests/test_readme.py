"""The README's promises: its example prints what it shows, and its links lead somewhere."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_example_prints_what_it_shows(monkeypatch, tmp_path):
    monkeypatch.setenv("ALLYOUNEED_HOME", str(tmp_path))
    code, shown = re.search(r"```python\n(.*?)```\n\n```\n(.*?)```", README, re.S).groups()
    assert len([line for line in code.splitlines() if line.strip()]) <= 6
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {})
    assert printed.getvalue() == shown


def test_links_and_files_exist():
    for target in re.findall(r"\]\((?!http)([^)#]+)", README):
        assert (ROOT / target).exists(), target
    tree = README.split("## Where things live")[1].split("```")[1]
    for line in tree.strip().splitlines():
        name = line.split()[0]
        place = ROOT / "src/allyouneed" / name if line.startswith("  ") else ROOT / name
        assert place.exists(), name


def test_commands_exist():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    for target in re.findall(r"\bmake (\w+)", README):
        assert re.search(rf"^{target}:", makefile, re.M), target
