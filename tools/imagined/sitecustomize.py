"""A Python that has this folder on its path, and ROUNDINGS, begins as an imagined processor."""

import os
import sys
from pathlib import Path

if os.environ.get("ROUNDINGS"):
    sys.path.append(str(Path(__file__).parents[1]))
    import roundings  # noqa: F401  (it begins)
