"""`python -m retrofit_core` and the command `retrofit`."""

import sys


def main() -> int:
    """Run the command line; imported here, for an interruption is to be quiet from the first second on."""
    try:
        from .cli import main as run
    except KeyboardInterrupt:
        return 130
    return run()


if __name__ == "__main__":
    sys.exit(main())
