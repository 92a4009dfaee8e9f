"""The rank of this process under `torchrun`. Imports no torch: the command line needs it before."""

import os


def rank() -> int:
    """The number of this process; 0 without torchrun."""
    return int(os.environ["RANK"]) if "TORCHELASTIC_RUN_ID" in os.environ else 0


def size() -> int:
    """Number of processes; 1 without torchrun."""
    return int(os.environ["WORLD_SIZE"]) if "TORCHELASTIC_RUN_ID" in os.environ else 1
