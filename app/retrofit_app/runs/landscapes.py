"""Landscapes of runs on disk: which there are, and starting the worker that computes one."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from . import finetunings, jobs, keeping
from .records import Entry

FOLDER, SETTINGS, SURVEY = "landscapes", keeping.SETTINGS, "landscape.json"


@dataclass(frozen=True)
class Kept(keeping.Kept):
    """A landscape of a run, finished or not."""

    KIND: ClassVar[str] = "landscape"
    FOLDER: ClassVar[str] = FOLDER
    GROWING: ClassVar[str] = SURVEY
    LAST: ClassVar[str] = SURVEY


def kept(entry: Entry) -> list[Kept]:
    """The landscapes of a run, the one that was begun last first."""
    return Kept.of(entry)


def survey(entry: Entry, config: Any) -> Kept:
    """Start the worker that computes a landscape or goes on with it, or return the one that is done.

    Args:
        config: a `LandscapeConfig`.
    Raises:
        Busy: other work is going on.
        ValueError: the runs folder cannot be written to, or the run is not finished.
    """
    wanted = Kept.at(entry, config.key(entry.folder), config.to_json())
    device = entry.config.get("device") or "auto"
    tuned = finetunings.Kept.at(entry, config.tuned).folder if config.tuned else None

    def job(runs: Path) -> jobs.Job:
        return jobs.landscape(config, entry.folder, entry.base, wanted.folder, runs, device, tuned)

    keeping.begin(wanted, job, entry)
    return wanted
