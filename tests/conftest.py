"""The browser that all tests of pages share, and the order of all files."""

from __future__ import annotations

import os

import pytest
import torch
from chromium import CHROMIUM, OFFLINE

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
    """Chromium without a network; meanwhile torch has one thread, for the browser needs a core."""
    if CHROMIUM is None and os.environ.get("CI") != "true":
        pytest.skip("no page was opened: there is no Chromium here (Debian: apt install chromium)")
    assert CHROMIUM, "CI needs Chromium"
    from playwright.sync_api import sync_playwright

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", OFFLINE]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()
    torch.set_num_threads(threads)
