"""`python -m allyouneed`: see `command`."""

import sys

from allyouneed.command import main

if __name__ == "__main__":
    sys.exit(main())
