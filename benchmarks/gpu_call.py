"""What one call of gpu.py is given, and how long it may go on."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch

from retrofit_core.data import Images, load
from retrofit_core.system.monitor import Monitor


@dataclass
class Call:
    """One call: its inputs, its folders, its end."""

    work: Path
    """What may be lost: the runs folder, and the parents of stage 1"""
    device: torch.device
    until: float
    """`time.time()` at which it stops"""
    scale: str = "paper"
    """Of the tables; at smoke, stages 1 and 2 are tiny, too"""
    models: Path | None = None
    """Folder with the checkpoints of `pairs.PAIRS`; in a smoke test a tiny pair is trained instead"""
    parents: Sequence[int] = (0,)
    """Sets of parents, by the seed of their split"""
    seeds: int | None = None
    """Fusions of the same parents; None: as many as the scale has"""
    processes: int = 1
    """Parents trained side by side"""
    compile: bool = False
    """Whether parents are trained compiled"""
    beside: bool = False
    """Whether other work runs on the machine, so that the seconds of a fusion are no runtime"""

    def over(self) -> bool:
        """Whether its time is up."""
        return time.time() > self.until

    @cached_property
    def monitor(self) -> Monitor:
        """Cancels what still runs when the time is up."""
        return Monitor(cancelled=self.over)

    @property
    def smoke(self) -> bool:
        """Whether it only shows that everything runs."""
        return self.scale == "smoke"

    @property
    def data(self) -> str:
        """The data set of stages 1 and 2."""
        return "digits" if self.smoke else "cifar10"

    @cached_property
    def test(self) -> Images:
        """The test images, decoded once."""
        return load(self.data, "test")

    @property
    def samples(self) -> int:
        """Fusion samples, and samples for scores, of stages 1 and 2."""
        return 40 if self.smoke else 400
