"""Deleting runs, and bringing back what was deleted last."""

import shutil
from pathlib import Path

from .finetunings import Kept as Finetuning
from .keeping import is_worked_on
from .landscapes import Kept as Landscape
from .records import read_entry
from .workers import alone

TRASH = ".deleted"


def delete(folder: Path, with_others: bool = False) -> None:
    """Move a run to the trash; what was there before is gone for good.

    Args:
        with_others: it belongs to those that are in the trash already, and they stay.
    Raises:
        ValueError: it is going on by now, it cannot be read, or the runs folder cannot be written to.
    """
    trash = folder.parent / TRASH
    with alone(folder.parent):
        if not folder.exists():
            raise ValueError(f"run {folder.name} is not there any more.")
        entry = read_entry(folder)
        if entry.active or entry.analysing or any(is_worked_on(entry, kind) for kind in (Landscape, Finetuning)):
            raise ValueError(f"run {folder.name} is going on. Cancel it first.")
        if not with_others:
            shutil.rmtree(trash, ignore_errors=True)
        trash.mkdir(exist_ok=True)
        folder.rename(trash / folder.name)


def restore(folder: Path) -> None:
    """Bring back a run from the trash.

    Raises:
        ValueError: it is not in the trash, has been started anew since, or the runs folder cannot be written to.
    """
    with alone(folder.parent):
        if folder.exists():
            raise ValueError(f"the same work was started again since, as run {folder.name}.")
        if not (folder.parent / TRASH / folder.name).exists():
            raise ValueError(f"run {folder.name} is not kept any more.")
        (folder.parent / TRASH / folder.name).rename(folder)
