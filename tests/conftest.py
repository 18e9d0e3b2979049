"""The browser that all tests of pages share, and the order of all files."""

from __future__ import annotations

import pytest
from chromium import opened

LONGEST = [
    "test_site", "test_exercises", "test_distributed", "test_alone", "test_translator",
    "test_command", "14_translation", "16_families", "18_parsing", "15_heads", "12_training",
]  # fmt: skip


def pytest_collection_modifyitems(items):
    """The longest files first, then the notebooks: no worker is left alone with a long one."""

    def place(item) -> int:
        name, is_notebook = item.path.stem, item.path.suffix == ".ipynb"
        return LONGEST.index(name) if name in LONGEST else len(LONGEST) + (not is_notebook)

    items.sort(key=place)


@pytest.fixture(scope="module")  # not "session": playwright's event loop would be in nbval's way
def browser():
    with opened() as browser:
        yield browser
