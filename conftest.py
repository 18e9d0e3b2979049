"""What all tests share: how outputs are compared, how examples are drawn, the order of files."""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import settings
from jaxtyping import install_import_hook

sys.path.insert(0, str(Path(__file__).parent / "tools"))
from outputs import forgive  # noqa: E402

# Shapes in signatures are checked while the tests run. The exercises have none, and their proofs
# call them a hundred thousand times.
PARTS = (part.stem for part in (Path(__file__).parent / "src" / "allyouneed").iterdir())
CHECKED = [f"allyouneed.{part}" for part in PARTS if part not in ("__init__", "exercises")]
install_import_hook(CHECKED, "beartype.beartype")

# The same examples every time, without a clock.
settings.register_profile("untimed", deadline=None, derandomize=True)
settings.load_profile("untimed")

LONGEST = [
    "test_site", "test_exercises", "test_distributed", "test_alone", "test_translator",
    "test_command", "14_translation", "16_families", "18_parsing", "15_heads", "12_training",
]  # fmt: skip


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


def pytest_collection_modifyitems(items):
    """The longest files first, then the notebooks: no worker is left alone with a long one."""

    def place(item) -> int:
        name, is_notebook = item.path.stem, item.path.suffix == ".ipynb"
        return LONGEST.index(name) if name in LONGEST else len(LONGEST) + (not is_notebook)

    items.sort(key=place)
