"""Work in a process of its own, which may be killed in the middle of writing a file.

The process is forked from a server that does nothing else. A fork of the tests' own process may
wait for ever for a lock that one of its threads held.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

# Also what is imported on the way, so that a process is soon in the middle of its work
LATER = ["torch._dynamo", "matplotlib.figure", "tokenizers", "datasets"]
SERVER = multiprocessing.get_context("forkserver" if os.name == "posix" else "spawn")
SERVER.set_forkserver_preload(["allyouneed.command", "allyouneed.wmt", *LATER])


def start(
    work: Callable, *args, dies: tuple[str, int] | None = None, says: str | Path = os.devnull
):
    """Start `work(*args)`; with `dies=("fsync", 3)` it kills itself at its fourth os.fsync.

    What it prints goes to the file `says`.
    """
    if os.name != "posix":
        pytest.skip("nothing is forked on this system")
    return _started(dies, says, work, args)


def _started(*work):
    process = SERVER.Process(target=_work, args=(dict(os.environ), *work))
    process.start()
    return process


def was_killed(process) -> bool:
    """How it ended, which must be soon."""
    process.join(120)
    if process.exitcode is None:
        process.kill()
        raise AssertionError("the process hangs")
    return process.exitcode == -signal.SIGKILL


def said(work: Callable, *args, code: int = 0) -> str:
    """What `work(*args)` prints, in a process that ends with that exit code."""
    with tempfile.TemporaryDirectory() as folder:
        says = Path(folder, "said")
        process = _started(None, says, work, args)
        process.join(120)
        process.kill()  # if it hangs
        process.join()
        words = says.read_text(encoding="utf-8")
    assert process.exitcode == code, words
    return words


def _work(
    environment: dict, dies: tuple[str, int] | None, says: str | Path, work: Callable, args: tuple
) -> None:
    os.environ.update(environment)
    words = os.open(says, os.O_WRONLY | os.O_CREAT)
    os.dup2(words, 1), os.dup2(words, 2)
    if dies:
        function, number = dies
        real, calls = getattr(os, function), iter(range(number))

        def deadly(*args):
            if next(calls, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args)

        setattr(os, function, deadly)
    sys.exit(work(*args))
