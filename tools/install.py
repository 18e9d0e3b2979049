"""Make the virtual environment and install into it what a step needs: no more, and only once.

    python tools/install.py book     what builds the pages (no torch)
    python tools/install.py all      also what runs, trains and tests

Run by the system's own Python, so it uses nothing but the standard library.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / ".venv"
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
LOG = VENV / "install.log"
NEEDS = {
    "book": [["-r", "book/requirements.txt", "-c", "requirements.txt"]],
    "all": [["-r", "requirements.txt"], ["--no-deps", "--editable", "."]],
}
# What pip's last words mean, and what to do about it.
REASONS = [
    (
        "No space left on device",
        "The disk is full. Free some space (1 GB for the book, 4 GB for the tests)",
    ),
    ("No matching distribution", "The package index has no fitting version, or cannot be reached"),
    (
        "Failed to establish a new connection",
        "The package index cannot be reached: is there a network?",
    ),
    (
        "Temporary failure in name resolution",
        "The package index cannot be reached: is there a network?",
    ),
    (
        "Connection refused",
        "The package index cannot be reached: is there a network, or a proxy to set?",
    ),
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
    done = subprocess.run([sys.executable, "-m", "venv", str(VENV)], capture_output=True, text=True)
    if done.returncode:
        words = done.stdout + done.stderr
        if "No space left" in words:
            fail("The disk is full: no room for the virtual environment.")
        fail(
            words
            + "\nPython could not make a virtual environment. On Debian and Ubuntu: apt install python3-venv"
        )


def install(what):
    stamp = VENV / f"{what}.installed"
    if stamp.exists() and stamp.read_text() == fingerprint(what):
        return
    size = {"book": "about 250 MB, a minute", "all": "about 2 GB, some minutes"}[what]
    print(
        f"Installing what {'the book' if what == 'book' else 'the tests'} need ({size}) ...",
        flush=True,
    )
    with LOG.open("w") as log:
        for needs in NEEDS[what]:
            command = [str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check", *needs]
            done = subprocess.run(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
            if done.returncode:
                log.flush()
                words = LOG.read_text(errors="replace")
                reason = next(
                    (why for sign, why in REASONS if sign in words), "pip could not install"
                )
                print("\n".join(words.strip().splitlines()[-5:]))
                fail(
                    f"{reason}. All that pip said: {LOG.relative_to(ROOT)}. Then run the same command again."
                )
    stamp.write_text(fingerprint(what))


def main():
    if len(sys.argv) != 2 or sys.argv[1] not in NEEDS:
        fail("usage: python tools/install.py book|all")
    if sys.version_info < (3, 11):
        fail("Python 3.11 or newer is needed; this one is " + sys.version.split()[0] + ".")
    try:
        make_venv()
        install(sys.argv[1])
    except OSError as error:
        fail(f"Could not write to {VENV}: {error.strerror}.")


main()
