"""What one call of gpu.py is given, and how long it may go on."""

import time
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import torch

from retrofit_core.data import Images, load
from retrofit_core.system.monitor import Monitor

#: Rows of the training and test split that are left in a smoke test.
FEW = {"train": 800, "test": 300}


@dataclass
class Call:
    """One call: its inputs, its folders, its end, and what earlier calls measured."""

    data: str
    """Folder of CIFAR-10, or "digits" """
    models: Path | None
    """Folder with the checkpoints of `pairs.PAIRS`; in a smoke test a tiny pair is trained instead"""
    work: Path
    """What may be lost: checkpoints, states of unfinished trainings, records of unfinished fusions"""
    device: torch.device
    until: float
    """`time.time()` at which it stops"""
    smoke: bool = False
    epochs: int | None = None
    """Of the parents; None: the paper's"""
    seed: int = 0
    """Of the parents and their split"""
    seeds: int = 3
    """Fusions of the same parents, with other samples"""
    processes: int = 1
    """Parents trained side by side"""
    compile: bool | None = None
    """Whether parents are trained compiled; None: if that is measured to be faster"""
    results: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By unit"""

    def over(self) -> bool:
        """Whether its time is up."""
        return time.time() > self.until

    @cached_property
    def monitor(self) -> Monitor:
        """Cancels what still runs when the time is up."""
        return Monitor(cancelled=self.over)

    @cached_property
    def test(self) -> Images:
        """The test images, decoded once."""
        return load(self.data, "test")

    @property
    def samples(self) -> int:
        """Fusion samples, and samples for scores."""
        return 40 if self.smoke else 400

    def settings(self) -> dict[str, Any]:
        """What results must share to stand in one record."""
        return {
            "scale": "smoke" if self.smoke else "full",
            "data": Path(self.data).name,
            "device": self.device.type,
            "epochs": self.epochs or "the paper's",
            "parents' seed": self.seed,
        }


def few_images(data: str, work: Path) -> str:
    """A data set of a few rows of the CIFAR-10 in a folder's parquet files; "digits" where there is none."""
    source, target = Path(data, "cifar10"), work / "cifar10"
    if not source.is_dir():
        return "digits"
    target.mkdir(parents=True, exist_ok=True)
    for split, count in FEW.items():
        whole = parquet.read_table(source / f"{split}.parquet")
        rows = np.random.default_rng(0).permutation(len(whole))[:count]
        parquet.write_table(whole.take(rows), target / f"{split}.parquet")
    return str(target)
