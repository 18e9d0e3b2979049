"""Files that are written whole or not at all.

This module is plumbing written by hand. What runs, models, shards, results and the readers' diary
leave on a disk goes through here. (A download does not: it goes on from the half that it has, and
whatever is read of it is checked, `sources`.)
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout


@contextmanager
def new_file(path: str | Path) -> Iterator[BinaryIO]:
    """A file to write, whole or not at all, so that not even a power cut leaves half of it.

    It is written beside its place, forced onto the disk, and then moved.
    """
    path = Path(path)
    part = path.with_name(f"{path.name}.part")
    try:
        with open(part, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
    if os.name == "posix":  # the move itself, too
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def write_file(path: str | Path, content: bytes) -> None:
    """Write a file, whole or not at all."""
    with new_file(path) as file:
        file.write(content)


def write_json(path: str | Path, value: Any) -> None:
    """Write a value as JSON, whole or not at all."""
    write_file(path, json.dumps(value, indent=1, ensure_ascii=False).encode())


def lock_folder(folder: Path) -> FileLock:
    """Keep other runs out of a folder until the lock is released.

    Raises ValueError if another run is at work there.
    """
    lock = FileLock(folder / ".lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise ValueError(
            f"folder: expected one in which no other run is at work, got {folder}"
        ) from None
    return lock
