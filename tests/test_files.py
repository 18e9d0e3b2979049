"""Files: whole or not at all."""

from __future__ import annotations

import errno
import os

import pytest

from allyouneed.files import new_file, write_file


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    file = tmp_path / "m"
    write_file(file, b"old")

    def full(number):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_file(file, b"new")
    assert file.read_bytes() == b"old" and os.listdir(tmp_path) == ["m"]


def test_what_stops_in_the_middle_leaves_the_old_file(tmp_path):
    file = tmp_path / "m"
    write_file(file, b"old")
    with pytest.raises(KeyboardInterrupt), new_file(file) as half:
        half.write(b"new")
        raise KeyboardInterrupt
    assert file.read_bytes() == b"old" and os.listdir(tmp_path) == ["m"]
