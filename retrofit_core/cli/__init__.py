"""The command line.

Commands: train | fuse | compare | landscape | reproduce | evaluate | app | learn.
"""

from collections.abc import Sequence

# Importing a module registers its commands, in the order of the help.
from . import training  # noqa: F401  # isort: skip
from . import fusing  # noqa: F401  # isort: skip
from . import comparing  # noqa: F401  # isort: skip
from . import landscape  # noqa: F401  # isort: skip
from . import experiments  # noqa: F401  # isort: skip
from . import commands  # noqa: F401  # isort: skip
from .application import app

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit code: 0 success, 1 no method of a comparison gave a network or a unit of
    `reproduce` failed, 2 error, 130 interrupted."""
    try:
        app(args=None if arguments is None else list(arguments), prog_name="retrofit")
    except SystemExit as end:
        return int(end.code or 0)
    return 0
