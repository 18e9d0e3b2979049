"""What all tests share: how nbval compares outputs, and how hypothesis draws its examples."""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import settings

sys.path.insert(0, str(Path(__file__).parent / "tools"))
from outputs import forgive  # noqa: E402

# The same examples every time, without a clock.
settings.register_profile("untimed", deadline=None, derandomize=True)
settings.load_profile("untimed")


def pytest_configure(config):
    try:
        from nbval.plugin import IPyNbCell
    except ImportError:
        return
    compare = IPyNbCell.compare_outputs

    def compare_outputs(self, test, ref, skip_compare=None):
        forgive(test, ref)
        return compare(self, test, ref, skip_compare)

    IPyNbCell.compare_outputs = compare_outputs
