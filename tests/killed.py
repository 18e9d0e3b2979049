"""Work in a process of its own, which may be killed in the middle of writing a file.

The process is forked from a server that does nothing else. A fork of the tests' own process may
wait for ever for a lock that one of its threads held.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable

import pytest

# Also what a run imports on its way, so that a process is soon in the middle of its work
LATER = ["torch._dynamo", "matplotlib.figure", "tokenizers"]
if os.name == "posix":
    SERVER = multiprocessing.get_context("forkserver")
    SERVER.set_forkserver_preload(["allyouneed.command", "allyouneed.wmt", *LATER])


def start(work: Callable, *args, dies: tuple[str, int] | None = None):
    """Start `work(*args)`; with `dies=("fsync", 3)` it kills itself at its fourth os.fsync."""
    if os.name != "posix":
        pytest.skip("nothing is forked on this system")
    process = SERVER.Process(target=_work, args=(dict(os.environ), dies, work, args))
    process.start()
    return process


def was_killed(process) -> bool:
    """How it ended, which must be soon."""
    process.join(120)
    if process.exitcode is None:
        process.kill()
        raise AssertionError("the process hangs")
    return process.exitcode == -signal.SIGKILL


def _work(environment: dict, dies: tuple[str, int] | None, work: Callable, args: tuple) -> None:
    os.environ.update(environment)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1), os.dup2(null, 2)
    if dies:
        function, number = dies
        real, calls = getattr(os, function), iter(range(number))

        def deadly(*args):
            if next(calls, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args)

        setattr(os, function, deadly)
    work(*args)
