"""Loaded by Dask's workers: the first of them that makes a network while the file HOLD lies in the runs folder makes it never.

It is then in the middle of a unit, whose lock it holds, until somebody ends it.
"""

import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from retrofit_core.experiments import work as working

#: In the runs folder, and the beginning of its name once a process holds still; its number follows.
HOLD, HELD = "hold", "held-by-"
LONG = 600.0  # seconds
make = working._network


def _held(unit: Any, root: Path, *rest: Any) -> Any:
    with suppress(FileNotFoundError):  # another worker was first, or nobody asked for it
        Path(root, HOLD).rename(Path(root, f"{HELD}{os.getpid()}"))
        time.sleep(LONG)
    return make(unit, root, *rest)


def dask_setup(worker: Any) -> None:
    """What Dask calls in each worker; the tests import this file for its names alone."""
    working._network = _held
