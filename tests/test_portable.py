"""What would differ on another system: text is read and written as UTF-8, whatever the locale."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDERS = ("src", "tests", "tools", "experiments", "benchmarks", "book/_ext")

MODE = r"'[rwaxbt+]+'"


def unnamed_encodings(source: str) -> list[str]:
    """Calls that read or write text and leave its encoding to the system."""
    found = []
    for call in ast.walk(ast.parse(source)):
        if not isinstance(call, ast.Call):
            continue
        text, named = ast.unparse(call), {word.arg for word in call.keywords}
        binary = text.startswith("os.open(") or re.search(r"'[rwax+]*b[rwax+]*'", text)
        a_page = isinstance(call.func, ast.Attribute) and call.args and not re.search(MODE, text)
        texts = {
            "read_text": not call.args,
            "write_text": len(call.args) < 2,
            "open": not binary and not a_page,
            "fdopen": not binary,
            "run": "text" in named,
            "Popen": "text" in named,
        }
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        if texts.get(name) and "encoding" not in named:
            found.append(f"{call.lineno}: {text}")
    return found


def test_calls_without_an_encoding_are_found():
    wrong = """p.read_text(), p.write_text("x"), open(p), open("x.html"), p.open(), p.open("w")
subprocess.run(c, text=True), gzip.open(p, "rt")"""
    assert len(unnamed_encodings(wrong)) == 8
    right = """p.read_text("utf-8"), p.write_text("x", encoding="ascii"), open(p, "rb")
os.open(p, 0), visit.open("x.html"), tarfile.open(p)"""
    assert unnamed_encodings(right) == []


def test_text_names_its_encoding():
    files = [ROOT / "conftest.py"]
    files += [file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")]
    found = {file.name: unnamed_encodings(file.read_text(encoding="utf-8")) for file in files}
    assert len(files) > 200 and {name: calls for name, calls in found.items() if calls} == {}
