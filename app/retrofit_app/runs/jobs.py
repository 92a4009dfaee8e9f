"""Work for a worker, whatever its kind, made from its configuration.

A worker is the command line's own code in a process of its own; a job says with what words, in which folder it starts, and
which folder it writes. Another kind of work is another function here.
"""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .records import home

#: What has to end first, where something else is to start.
WORDS = {"fuse": "run", "analyse": "the analysis of run", "train": "the training", "landscape": "the landscape"}


@dataclass(frozen=True)
class Job:
    """One piece of work."""

    kind: str
    """One of WORDS; worker.json notes it"""
    folder: Path
    """That it writes, where worker.json and worker.log lie, too"""
    words: tuple[str, ...]
    """Of the command line"""
    base: Path
    """Where it starts: file names in its configuration are relative to it"""
    runs: Path
    """The runs folder, in which one worker is at work at a time"""


def fusion(config: dict[str, Any], record: Path) -> Job:
    """A `RunConfig` (as JSON) whose record is created; parents that are described beside them are trained first."""
    return Job("fuse", record, ("fuse", "--resume", str(record)), home(config, record.parent), record.parent)


def analysis(config: dict[str, Any], record: Path) -> Job:
    """What pictures need beside a finished record of this `RunConfig` (as JSON)."""
    return Job("analyse", record, ("analyse", str(record)), home(config, record.parent), record.parent)


def training(config: Any, folder: Path) -> Job:
    """The parents of a `TrainConfig`, in their own folder in the runs folder; what is finished is kept."""
    words = shlex.split(config.command(config.folder))[1:]
    return Job("train", folder / config.folder, (*words, "--resume"), folder, folder)


def landscape(config: Any, record: Path, folder: Path, run: dict[str, Any], runs: Path) -> Job:
    """The landscape of a `LandscapeConfig` of a finished record.

    Args:
        folder: where it is kept.
        run: the `RunConfig` of the record (as JSON).
    """
    device = ("--device", run.get("device") or "auto")
    words = ("landscape", "--record", str(record), *config.words(), *device, "--out", str(folder))
    return Job("landscape", folder, words, home(run, runs), runs)
