"""Where and how a fusion runs: device, memory, progress, journal. None of these should change its numbers."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from . import device as devices
from .monitor import Monitor
from .settings import Range, Value, setting


class Journal(Protocol):
    """Keeps each finished level of a fusion, so that an interrupted one can resume."""

    @property
    def finished(self) -> Sequence[tuple[Any, dict[str, torch.Tensor]]]:
        """(LevelReport, weights) of the levels that an interrupted run finished, bottom-up."""
        ...

    def add(self, index: int, report: Any, weights: dict[str, torch.Tensor]) -> None:
        """Keep a finished level: its index, LevelReport and weights."""
        ...


@dataclass(frozen=True)
class Runtime(Value):
    """Device, memory, monitor and journal of a fusion."""

    device: str | torch.device | None = setting(
        "auto", "where the work is done: auto (CUDA if present), cpu, cuda:1, ...; the result lies where parent 0 lies"
    )
    memory: int = setting(
        devices.MEMORY,
        "bytes for a level's sums and for cached boundary tensors, which are recomputed if they do not fit",
        Range(1, whole=True),
    )
    monitor: Monitor = setting(None, "a Monitor: receives events, and can cancel between steps")
    journal: Journal | None = setting(None, "saves finished levels, so that an interrupted fusion can resume")

    def __post_init__(self) -> None:
        """As in `Value`; without a monitor, one that does nothing."""
        super().__post_init__()
        if self.monitor is None:
            object.__setattr__(self, "monitor", Monitor())
