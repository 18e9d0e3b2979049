"""Pieces of code, each alone, without a new Python for each: torch is imported once, for seconds.

Every piece then runs in a fork of that process, so that none sees what another has imported.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

SCRIPT = """
import importlib, json, os, sys, traceback
import torch

for name in sys.argv[1:]:
    importlib.import_module(name)
for name, piece in json.load(sys.stdin).items():
    if child := os.fork():
        if os.waitpid(child, 0)[1]:
            print(name)
        continue
    try:
        exec(piece, {})
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
"""


def failures(python: str | Path, pieces: dict[str, str], *known: str, **options) -> str:
    """The names of the pieces that raise something, and what they raise; "" if all is well.

    The modules `known` are imported once, as torch is."""
    done = subprocess.run(
        [str(python), "-c", SCRIPT, *known],
        input=json.dumps(pieces), capture_output=True, encoding="utf-8", **options,
    )  # fmt: skip
    return done.stdout + done.stderr if done.returncode or done.stdout else ""
