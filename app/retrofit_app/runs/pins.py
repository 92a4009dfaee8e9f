"""Pinned runs, for all sessions: a small file in the runs folder."""

import json
from collections.abc import Collection

from retrofit_core.system import files

from .records import runs_folder

PINNED = ".pinned.json"


def pinned() -> frozenset[str]:
    """Names of the pinned runs; none if the file is missing or broken."""
    try:
        names = json.loads((runs_folder() / PINNED).read_text())
    except (OSError, ValueError):
        return frozenset()
    return frozenset(map(str, names)) if isinstance(names, list) else frozenset()


def pin(names: Collection[str], on: bool) -> None:
    """Pin or unpin these runs.

    Raises:
        OSError: the runs folder is not writable.
    """
    folder = runs_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with files.locked(folder, "the pins", name=".pinned.lock"):
        kept = pinned() | set(names) if on else pinned() - set(names)
        files.write(folder / PINNED, json.dumps(sorted(kept)))
