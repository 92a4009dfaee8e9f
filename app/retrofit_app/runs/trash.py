"""Deleting a run, and bringing back the one that was deleted last."""

import shutil
from pathlib import Path

from .landscapes import is_surveyed
from .records import read_entry
from .workers import alone

TRASH = ".deleted"


def delete(folder: Path) -> None:
    """Move a run to the trash, which holds one: the run before it is gone for good.

    Raises:
        ValueError: it is going on by now, it cannot be read, or the runs folder cannot be written to.
    """
    trash = folder.parent / TRASH
    with alone(folder.parent):
        if not folder.exists():
            raise ValueError(f"run {folder.name} is not there any more.")
        entry = read_entry(folder)
        if entry.active or entry.analysing or is_surveyed(entry):
            raise ValueError(f"run {folder.name} is going on. Cancel it first.")
        shutil.rmtree(trash, ignore_errors=True)
        trash.mkdir()
        folder.rename(trash / folder.name)


def restore(folder: Path) -> None:
    """Bring back the run that was deleted last.

    Raises:
        ValueError: it is not in the trash, has been started anew since, or the runs folder cannot be written to.
    """
    with alone(folder.parent):
        if folder.exists():
            raise ValueError(f"the same work was started again since, as run {folder.name}.")
        if not (folder.parent / TRASH / folder.name).exists():
            raise ValueError(f"run {folder.name} is not kept any more.")
        (folder.parent / TRASH / folder.name).rename(folder)
