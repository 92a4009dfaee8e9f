"""`python -m retrofit_core` is `retrofit`."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
