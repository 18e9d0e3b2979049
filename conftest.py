"""What all tests share: how outputs are compared, how examples are drawn, the order of files."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from unittest.mock import patch

from hypothesis import settings
from jaxtyping import install_import_hook

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "tools"))
import processors  # noqa: E402
from outputs import forgive  # noqa: E402

# Shapes in signatures are checked while the tests run. The exercises have none, and their proofs
# call them a hundred thousand times.
PARTS = (part.stem for part in (HERE / "src" / "allyouneed").iterdir())
CHECKED = [f"allyouneed.{part}" for part in PARTS if part not in ("__init__", "exercises")]
install_import_hook(CHECKED, "shapes.checked")

# The same examples every time, without a clock.
settings.register_profile("untimed", deadline=None, derandomize=True)
settings.load_profile("untimed")

LONGEST = [
    "test_site", "test_exercises", "test_alone", "test_command", "test_translator",
    "test_distributed", "00_overview", "16_families", "14_translation", "12_training",
    "test_reading", "13_decoding", "11_transformer", "20_today", "18_parsing",
]  # fmt: skip


def pytest_addoption(parser):
    words = "run every second notebook as another processor would (tools/processors.py)"
    parser.addoption("--halves", action="store_true", help=words)


def pytest_configure(config):
    try:
        from nbval.plugin import IPyNbCell, IPyNbFile
    except ImportError:
        return
    compare, start = IPyNbCell.compare_outputs, IPyNbFile.setup

    def compare_outputs(self, test, ref, skip_compare=None):
        forgive(test, ref)
        return compare(self, test, ref, skip_compare)

    IPyNbCell.compare_outputs = compare_outputs

    if config.getoption("halves"):
        others = processors.halves()[1]

        def start_kernel(self):
            setting = processors.another() if self.path in others else "own"
            with patch.dict(os.environ, processors.SETTINGS[setting]):
                start(self)

        IPyNbFile.setup = start_kernel


def pytest_collection_modifyitems(config, items):
    """The longest files first, then the notebooks: no worker is left alone with a long one. Where
    time is limited (`make check`) they come last: what is left then is little else."""

    def place(item) -> int:
        name, is_notebook = item.path.stem, item.path.suffix == ".ipynb"
        return LONGEST.index(name) if name in LONGEST else len(LONGEST) + (not is_notebook)

    items.sort(key=place, reverse=bool(config.getoption("session_timeout", None)))
