"""Processes that fuse one run together under `torchrun`, each with its share of the samples.

Every level's sums, or every step's gradients, are added over all processes (`contributors.Processes`), so each ends with the
network of all samples.
"""

import dataclasses
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ..fusion.contributors import Contributors, Parties, Processes
from ..fusion.results import FusionResult, LevelReport
from ..methods import METHODS
from ..system import ranks
from ..system.device import pick
from ..system.monitor import Monitor
from ..system.registry import find
from ..system.runtime import Journal
from .config import RunConfig, naming
from .inputs import Inputs
from .options import needs_parents_data
from .recorder import Recorder, finished_levels


def parties_of(config: RunConfig, party: str | None, folder: Path | None, monitor: Monitor) -> Parties | None:
    """The parties of `retrofit fuse --party K/N --shared FOLDER`; None if neither is given.

    Raises:
        ValueError: one without the other, no such party, a folder in use, a method that needs all samples, or scores on data
            that only one party has.
    """
    if party is None and folder is None:
        return None
    number, slash, parties = (party or "").partition("/")
    if folder is None or not (slash and number.isdecimal() and parties.isdecimal()):
        raise ValueError("--party K/N and --shared FOLDER belong together, as --party 0/2 --shared exchange.")
    _check_shareable(config)
    if needs_parents_data(config) and config.splits and config.importance_data != "fusion":
        raise ValueError("parties score neurons on their fusion samples together. Add --importance-data fusion.")
    return Parties(folder, int(number), int(parties), monitor=monitor)


def _check_shareable(config: RunConfig) -> None:
    """Refuse a method that needs all samples in one process."""
    if not find(METHODS, config.method, "method").takes.contributors:
        able = ", ".join(name for name, method in METHODS.items() if method.takes.contributors)
        raise ValueError(
            f"{config.method} needs all samples in one process. Use one of {able}, or one process."
            f"{naming(config.method)}"
        )


@dataclass(frozen=True)
class Follower:
    """The journal of a process that reuses levels but keeps none: process 0 does."""

    finished: Sequence[tuple[LevelReport, dict[str, Tensor]]]

    def add(self, index: int, report: LevelReport, weights: dict[str, Tensor]) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class Team:
    """This process among those of one run; rank 0 of 1 if it reads all given samples."""

    rank: int = 0
    size: int = 1
    device: str | None = None
    """Overrides the config's"""
    contributors: Contributors | None = None

    def fuse(
        self, config: RunConfig, inputs: Inputs, monitor: Monitor, recorder: Recorder | None, folder: Path | None
    ) -> FusionResult:
        """Run the config's method.

        Args:
            folder: of the run; process 0 writes it (`recorder`), the others read the finished levels of an interrupted run.
        Raises:
            ValueError: as the method; fewer samples than processes; or another process ended.
        """
        if isinstance(self.contributors, Parties):
            self.contributors.settings = repr((inputs.train.mean, inputs.train.std)).encode()
        method, share = find(METHODS, config.method, "method"), self._share(inputs)
        keywords = share.keywords(config) | {"monitor": monitor, "journal": self._journal(recorder, folder)}
        keywords |= {"contributors": self.contributors} if self.contributors else {}
        keywords |= {"device": self.device} if self.device else {}
        try:
            return method(share.models, share.fusion, **keywords)
        except RuntimeError as error:
            if self.size == 1 or ("gloo" not in str(error) and not isinstance(error, torch.distributed.DistError)):
                raise
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # so that the message is printed
            raise ValueError("another process of this run ended, so the run ended too. Start it again.") from error

    def _share(self, inputs: Inputs) -> Inputs:
        """The run's inputs with every `size`-th sample, so that each process sees all classes."""
        if self.size == 1:
            return inputs
        importance = inputs.importance
        if isinstance(importance, list):
            importance = list(map(self._pair, importance))
        return dataclasses.replace(inputs, fusion=self._pair(inputs.fusion), importance=importance)

    def _pair(self, pair: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        x, labels = pair
        if len(x) < self.size:
            raise ValueError(
                f"{self.size} processes cannot share {len(x)} samples. Start fewer processes, or take more samples."
            )
        return x[self.rank :: self.size], labels[self.rank :: self.size]

    def _journal(self, recorder: Recorder | None, folder: Path | None) -> Journal | None:
        """Process 0's recorder; for the others, the finished levels of an interrupted run."""
        if self.size == 1 or self.contributors is None:
            return recorder
        if not self.contributors.largest(len(recorder.finished) if recorder else 0):
            return recorder
        return recorder or (Follower(finished_levels(folder)) if folder else None)


@contextmanager
def team(config: RunConfig, parties: Parties | None = None) -> Iterator[Team]:
    """Join the other processes under torchrun, one per CUDA device; or the other parties.

    Raises:
        ValueError: the run's method needs all samples in one process.
    """
    if ranks.size() == 1 and parties is None:
        yield Team()
        return
    _check_shareable(config)
    if parties is not None:
        yield Team(contributors=parties)
        return
    on_cuda = pick(config.device).type == "cuda"
    device = f"cuda:{os.environ['LOCAL_RANK']}" if on_cuda else "cpu"
    if on_cuda:
        torch.cuda.set_device(device)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # torchrun sends it to the others when one dies
    torch.distributed.init_process_group("nccl" if on_cuda else "gloo")
    try:
        yield Team(ranks.rank(), ranks.size(), device, Processes(device))
    finally:
        torch.distributed.destroy_process_group()
