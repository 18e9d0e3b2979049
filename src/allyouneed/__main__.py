"""`python -m allyouneed` and the command `allyouneed`: see `command`."""

import os
import sys


def run() -> int:
    """Run the command line; returns the exit code."""
    # oneDNN keeps a kernel for each of the last 1024 shapes. Hardly two batches have the same:
    # with 64, training on a CPU takes as long, and two thirds of the memory.
    os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64")
    try:
        from allyouneed.command import main

        return main()
    except KeyboardInterrupt:  # before `main` could take care of it
        return 130


if __name__ == "__main__":
    sys.exit(run())
