"""The browser that all tests of pages share."""

from __future__ import annotations

import pytest
from chromium import opened


@pytest.fixture(scope="module")  # not "session": playwright's event loop would be in nbval's way
def browser():
    with opened() as browser:
        yield browser
