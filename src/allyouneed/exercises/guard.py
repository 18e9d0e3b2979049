"""Run a reader's code so that it can neither hang, nor eat the machine, nor leave a trace.

`run(function, seconds)` returns what the function returned, or a `Failure` that says what went
wrong and on which of the reader's lines. It lets no exception through, ends endless loops and
runaway memory where the machine gives a way to, and puts back whatever the code has changed:
random states, printing, gradient mode, default dtype, number of threads, NumPy's error states,
deterministic mode. `surroundings` does so, for all calls of one check together, with the working
folder, the environment, PyTorch's print options and its functions.
"""

from __future__ import annotations

import _thread
import contextlib
import dis
import io
import linecache
import os
import random
import signal
import sys
import sysconfig
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import is_
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import torch

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

GIB = 2**30
MEMORY = 2 * GIB  # how far a reader's code may grow before it is stopped gently; twice that: hard
DEPTH = 2000  # calls within calls: Python allows half as many, and right recursions may need more
TICK = 0.1  # seconds between two looks at clock and memory

PACKAGE = str(Path(__file__).parents[1])
NOT_THE_READER = tuple(sysconfig.get_path(p) for p in ("stdlib", "purelib", "platlib"))


class OutOfTime(BaseException):
    """Raised inside code that runs too long. No `except Exception` swallows it."""


class OutOfMemory(BaseException):
    """Raised inside code that asks for too much memory."""


@dataclass(frozen=True)
class Failure:
    """An exception, kept as text, so that nothing of the failed call stays alive."""

    kind: str  # "ValueError", "OutOfTime", ...
    text: str
    line: int | None = None  # where in the reader's code, if it was there
    source: str = ""
    where: str = ""  # the function's name
    stub: bool = False  # the reader's own `raise NotImplementedError`


def run(function: Callable[[], Any], seconds: float, seed: int = 0) -> Any:
    """Call `function()` under guard; return its value, or a `Failure`. Ctrl-C is raised."""
    error: BaseException | None = None
    value = None
    try:
        with limits(seconds), untouched(seed):
            try:
                value = function()
            except KeyboardInterrupt:
                raise
            except BaseException as e:
                error = e
    except KeyboardInterrupt:
        raise
    except BaseException as e:  # the clock may strike between two lines of ours
        error = error or e
    return value if error is None else failure(error)


@contextlib.contextmanager
def untouched(seed: int) -> Iterator[None]:
    """Seed every source of randomness, drop what is printed, and put all back afterwards."""
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    depth, device = sys.getrecursionlimit(), torch.get_default_device()
    strict = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    with (
        random_states(),
        np.errstate(),
        np.printoptions(),
        contextlib.redirect_stdout(Nowhere()),
        contextlib.redirect_stderr(Nowhere()),
        warnings.catch_warnings(),
        torch.enable_grad(),
    ):
        warnings.simplefilter("ignore")
        sys.setrecursionlimit(max(depth, DEPTH))
        torch.default_generator.manual_seed(seed), random.seed(seed), np.random.seed(seed)
        if torch.cuda.is_initialized():
            torch.cuda.manual_seed_all(seed)
        try:
            yield
        finally:
            torch.set_default_dtype(dtype)
            if torch.are_deterministic_algorithms_enabled() != strict:
                torch.use_deterministic_algorithms(strict, warn_only=warn_only)
            sys.setrecursionlimit(depth)
            if torch.get_num_threads() != threads:
                torch.set_num_threads(threads)
            if torch.get_default_device() != device:
                torch.set_default_device(device)


kept = False  # whether the random states are kept already, for all calls together


@contextlib.contextmanager
def random_states() -> Iterator[None]:
    """Put back every source of randomness; inside of itself it does nothing, for it takes time."""
    global kept
    if kept:
        yield
        return
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()
    on_gpu = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []
    kept = True
    try:
        yield
    finally:
        kept = False
        torch.set_rng_state(states[0]), random.setstate(states[1]), np.random.set_state(states[2])
        if on_gpu:
            torch.cuda.set_rng_state_all(on_gpu)


@contextlib.contextmanager
def surroundings() -> Iterator[None]:
    """Put back the working folder, the environment, how tensors print, the random states, and what
    a reader's code has put in the place of PyTorch's own functions."""
    folder, environment = os.getcwd(), dict(os.environ)
    options = vars(torch._tensor_str.PRINT_OPTS).copy()
    places = torch, torch.nn.functional, torch.Tensor
    functions = [dict(vars(place)) for place in places]
    try:
        with random_states():
            yield
    finally:
        os.chdir(folder)
        if dict(os.environ) != environment:
            os.environ.clear()
            os.environ.update(environment)
        vars(torch._tensor_str.PRINT_OPTS).update(options)
        for place, before in zip(places, functions, strict=True):
            now = vars(place)
            if len(now) == len(before) and all(map(is_, now.values(), before.values())):
                continue
            for name in [name for name in before if now.get(name, place) is not before[name]]:
                setattr(place, name, before[name])
        for name in vars(torch.Tensor).keys() - functions[-1].keys():  # it hid an inherited one
            delattr(torch.Tensor, name)


class Nowhere(io.TextIOBase):
    """A place to print to that keeps nothing."""

    def write(self, text: str) -> int:
        return len(text)


@contextlib.contextmanager
def limits(seconds: float) -> Iterator[None]:
    """End what takes longer than `seconds` or grows by more than `MEMORY`, where possible."""
    with memory_limit(), time_limit(seconds):
        yield


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Raise `OutOfTime` (or `OutOfMemory`) in the code that runs inside, on the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield  # signals reach only the main thread: nothing can be done here
        return
    if hasattr(signal, "setitimer"):
        watch = Watch(seconds)
        handler = signal.signal(signal.SIGALRM, watch.tick)
        earlier = signal.setitimer(signal.ITIMER_REAL, TICK, TICK)  # again and again: see `tick`
        try:
            yield
        finally:
            watch.on = False
            signal.setitimer(signal.ITIMER_REAL, *earlier)
            signal.signal(signal.SIGALRM, handler if handler is not None else signal.SIG_DFL)
        return

    struck = threading.Event()
    timer = threading.Timer(seconds, lambda: (struck.set(), _thread.interrupt_main()))
    timer.daemon = True
    with contextlib.suppress(RuntimeError):  # a browser's Python has no threads
        timer.start()
    try:
        yield
    except KeyboardInterrupt:
        raise (OutOfTime if struck.is_set() else KeyboardInterrupt) from None
    finally:
        timer.cancel()


class Watch:
    """What is looked at every `TICK` seconds: the clock, and the memory."""

    def __init__(self, seconds: float):
        self.end, self.most, self.on = time_had() + seconds, memory_used() + MEMORY, True

    def tick(self, signum: int = 0, frame: Any = None) -> None:
        if self.on and memory_used() > self.most:
            raise OutOfMemory
        if self.on and time_had() > self.end:
            raise OutOfTime


def time_had() -> float:
    """Seconds on a clock that stands still while this thread waits for a processor (Linux): where
    others are at work, right code takes longer."""
    waited = 0
    with contextlib.suppress(OSError, IndexError), open("/proc/thread-self/schedstat", "rb") as f:
        waited = int(f.read().split()[1])  # nanoseconds
    return time.monotonic() - waited / 1e9


@contextlib.contextmanager
def memory_limit() -> Iterator[None]:
    """Let no single request for memory take the process beyond twice `MEMORY` (Linux).

    The limit is on data, not on address space, since a GPU's driver reserves addresses by the
    hundred gigabytes without using them.
    """
    try:
        with open("/proc/self/statm", "rb") as f:
            pages = int(f.read().split()[5])
        old = resource.getrlimit(resource.RLIMIT_DATA)
        most = pages * resource.getpagesize() + 2 * MEMORY
        resource.setrlimit(resource.RLIMIT_DATA, (min_limit(most, old[0]), old[1]))
    except (AttributeError, OSError, ValueError, IndexError):
        yield
        return
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, old)


def min_limit(a: int, b: int) -> int:
    return a if b == resource.RLIM_INFINITY else min(a, b)


def memory_used() -> int:
    """Bytes of memory that this process holds (on macOS: the most it has held), 0 if unknown."""
    try:
        with open("/proc/self/statm", "rb") as f:
            return int(f.read().split()[1]) * resource.getpagesize()
    except (OSError, AttributeError):
        if resource is None:
            return 0
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS


def failure(error: BaseException) -> Failure:
    """What went wrong, in words, and on which of the reader's lines."""
    kind, text = type(error).__name__, ""
    with contextlib.suppress(BaseException):
        text = str(error)
    if isinstance(error, MemoryError) or "DefaultCPUAllocator" in text:
        kind = "OutOfMemory"
    last, raised = None, False
    step: TracebackType | None = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        raised = code.co_code[step.tb_lasti] == dis.opmap["RAISE_VARARGS"]
        theirs = readers(code.co_filename)
        if theirs:
            last = (step.tb_lineno, code.co_filename, code.co_name, step.tb_frame.f_globals)
        step = step.tb_next
        raised = raised and theirs
    error.__traceback__ = None
    stub = kind == "NotImplementedError" and raised
    if last is None:
        return Failure(kind, text, stub=stub)
    linecache.checkcache(last[1])  # a file that has been changed since
    source = linecache.getline(last[1], last[0], last[3]).strip()
    where = "" if last[2].startswith("<") else last[2]
    return Failure(kind, text, last[0], source, where, stub)


def readers(filename: str) -> bool:
    """Whether a file (or cell) holds the reader's code: not Python's, not a library's, not ours."""
    if filename.startswith("<frozen") or filename.startswith(PACKAGE):
        return False
    return not filename.startswith(NOT_THE_READER) and "site-packages" not in filename
