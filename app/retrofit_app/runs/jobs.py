"""Work for a worker, whatever its kind, made from its configuration.

A worker is the command line's own code in a process of its own; a job says with what words, in which folder it starts, and
which folder it writes. Another kind of work is another function here.
"""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

#: What has to end first, where something else is to start.
WORDS = {
    "fuse": "run",
    "analyse": "the analysis of run",
    "train": "the training",
    "landscape": "the landscape",
    "finetune": "the fine-tuning",
    "compare": "the leaderboard",
}


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
    runs: Path | None = None
    """The runs folder, where `folder` lies deeper in it"""

    @property
    def within(self) -> Path:
        """The runs folder, in which one worker is at work at a time."""
        return self.runs or self.folder.parent


def fusion(record: Path, base: Path) -> Job:
    """What a record that is created asks for; parents that are described beside them are trained first."""
    return Job("fuse", record, ("fuse", "--resume", str(record)), base)


def analysis(record: Path, base: Path) -> Job:
    """What pictures need beside a finished record."""
    return Job("analyse", record, ("analyse", str(record)), base)


def training(config: Any, folder: Path) -> Job:
    """The parents of a `TrainConfig`, in their own folder in the runs folder; what is finished is kept."""
    words = shlex.split(config.command(config.folder))[1:]
    return Job("train", folder / config.folder, (*words, "--resume"), folder)


def landscape(
    config: Any, record: Path, base: Path, folder: Path, runs: Path, device: str = "auto", tuned: Path | None = None
) -> Job:
    """The landscape of a `LandscapeConfig` of a finished record; measured points are kept.

    Args:
        folder: where it is kept.
        runs: the runs folder.
        tuned: the folder of the fine-tuning whose network is among the networks.
    """
    words = ("landscape", "--record", str(record), *config.words(), *(("--tuned", str(tuned)) if tuned else ()))
    words = (*words, "--device", device, "--out", str(folder), "--resume")
    return Job("landscape", folder, words, base, runs)


def finetuning(config: Any, record: Path, base: Path, folder: Path, runs: Path, device: str = "auto") -> Job:
    """The fine-tuning of a `FinetuneConfig` of a finished record; finished epochs are kept.

    Args:
        folder: where it is kept.
        runs: the runs folder.
    """
    words = ("finetune", "--record", str(record), *config.words(), "--device", device, "--out", str(folder), "--resume")
    return Job("finetune", folder, words, base, runs)


def comparison(words: Sequence[str], base: Path, folder: Path, runs: Path) -> Job:
    """A leaderboard of many methods, whose records go into the runs folder.

    Args:
        words: of `retrofit compare`, but for where the leaderboard is written.
        folder: where that is.
    """
    return Job("compare", folder, ("compare", *words, "--out", str(folder)), base, runs)
