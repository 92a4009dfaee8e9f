"""The place of this process among those that `torchrun` started. No torch: the command line asks before it loads any."""

import os


def rank() -> int:
    """The number of this process; 0 where torchrun started none."""
    return int(os.environ["RANK"]) if "TORCHELASTIC_RUN_ID" in os.environ else 0


def size() -> int:
    """How many processes torchrun started; 1 where it started none."""
    return int(os.environ["WORLD_SIZE"]) if "TORCHELASTIC_RUN_ID" in os.environ else 1
