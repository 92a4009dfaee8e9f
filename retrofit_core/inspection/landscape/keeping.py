"""A landscape in a folder that shows it as it grows."""

import time
from collections.abc import Iterable
from pathlib import Path

from .survey import Survey

#: Seconds between two writings, at least.
INTERVAL = 0.4
#: A large grid takes long to write: of the time between two writings it may take this share.
SHARE = 0.1


def keep(surveys: Iterable[Survey], folder: str | Path) -> Survey:
    """Write surveys as they come, now and then and the last one in any case, also where the work is stopped.

    Returns:
        The last one.
    Raises:
        ValueError: there is none.
    """
    latest, is_written, wait, written = None, True, 0.0, 0.0
    try:
        for latest in surveys:
            start = time.monotonic()
            is_written = start - written >= wait
            if is_written:
                latest.save(folder)
                written = time.monotonic()
                wait = max(INTERVAL, (written - start) / SHARE)
    finally:
        if latest is not None and not is_written:
            latest.save(folder)
    if latest is None:
        raise ValueError("there is no survey to keep.")
    return latest
