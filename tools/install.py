"""Make the virtual environment and install into it what a step needs: no more, and only once.

    python tools/install.py book     what builds the pages (no torch)
    python tools/install.py all      also what runs, trains and tests

Run by the system's own Python, so it uses nothing but the standard library.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
LOG = VENV / "install.log"
# Byte code is written for the files that are imported, and then: for all of them it takes a minute.
PIP = [str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check", "--no-compile"]
NAMES = {"book": "the book needs", "all": "the tests need"}
SIZES = {"book": "about 250 MB, a minute", "all": "about 2 GB, some minutes"}
NEEDS = {
    "book": [["-r", "book/requirements.txt", "-c", "requirements.txt"]],
    "all": [["-r", "requirements.txt"], ["--no-deps", "--editable", "."]],
}
# What pip's words mean, and what to do about it.
NO_INDEX = "The package index cannot be reached: is there a network, or a proxy to set?"
REASONS = [
    ("No space left on device", "The disk is full (the book needs 1 GB, the tests 4 GB)."),
    ("No module named pip", "The environment in .venv is broken: make clean, then try again."),
    ("Failed to establish a new connection", NO_INDEX),
    ("Temporary failure in name resolution", NO_INDEX),
    ("Connection refused", NO_INDEX),
    ("No matching distribution", "The package index has no fitting version. " + NO_INDEX),
    ("ResolutionImpossible", "The package index has no fitting versions. " + NO_INDEX),
]


def fail(sentence):
    sys.exit(f"\n{sentence}\n")


def fingerprint(what):
    """Changes when the list of what is needed changes."""
    names = ["requirements.txt", "book/requirements.txt"] + ["pyproject.toml"] * (what == "all")
    return hashlib.sha256(b"".join((ROOT / name).read_bytes() for name in names)).hexdigest()


def make_venv():
    if PYTHON.exists():
        return
    print("Making a virtual environment in .venv ...", flush=True)
    done = subprocess.run([sys.executable, "-m", "venv", str(VENV)], capture_output=True)
    if done.returncode:
        words = (done.stdout + done.stderr).decode(errors="replace")
        shutil.rmtree(VENV, ignore_errors=True)  # half an environment would mislead the next run
        if "No space left" in words:
            fail("The disk is full: no room for the virtual environment.")
        print(words)
        fail("Python made no virtual environment. On Debian and Ubuntu: apt install python3-venv")


def install(what):
    stamp = VENV / f"{what}.installed"
    if stamp.exists() and stamp.read_text(encoding="ascii") == fingerprint(what):
        return
    print(f"Installing what {NAMES[what]} ({SIZES[what]}) ...", flush=True)
    with LOG.open("wb") as log:
        for needs in NEEDS[what]:
            done = subprocess.run([*PIP, *needs], cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
            if done.returncode:
                log.flush()
                words = LOG.read_text(encoding="utf-8", errors="replace")
                known = (why for sign, why in REASONS if sign in words)
                print("\n".join(words.strip().splitlines()[-5:]))
                fail(
                    f"{next(known, 'pip could not install what is needed.')}\n"
                    f"All that pip said is in {LOG.relative_to(ROOT)}. "
                    "When it is mended, run the same command again."
                )
    stamp.write_text(fingerprint(what), encoding="ascii")


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in NEEDS:
        fail("usage: python tools/install.py book|all")
    if sys.version_info < (3, 11):  # noqa: UP036 (run by whatever Python is there)
        fail("Python 3.11 or newer is needed; this one is " + sys.version.split()[0] + ".")
    try:
        make_venv()
        install(sys.argv[1])
    except OSError as error:
        fail(f"Could not write to {VENV}: {error.strerror}.")


main()
