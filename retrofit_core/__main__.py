"""`python -m retrofit_core` and the command `retrofit`."""

import sys


def main() -> int:
    """Run the command line. It is imported here so that interrupting the import prints no traceback."""
    try:
        from .cli import main as run
    except KeyboardInterrupt:
        return 130
    return run()


if __name__ == "__main__":
    sys.exit(main())
