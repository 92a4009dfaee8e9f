"""Where and how a fusion runs: device, memory, progress. None of these should change its numbers."""

from dataclasses import dataclass

import torch

from . import device as devices
from .monitor import Monitor
from .settings import Range, Value, setting


@dataclass(frozen=True)
class Runtime(Value):
    """Device, memory and monitor of a fusion."""

    device: str | torch.device | None = setting(
        "auto", "where the work is done: auto (CUDA if present), cpu, cuda:1, ...; the result lies where parent 0 lies"
    )
    memory: int = setting(
        devices.MEMORY,
        "bytes for a level's sums and for cached boundary tensors, which are recomputed if they do not fit",
        Range(1, whole=True),
    )
    monitor: Monitor = setting(None, "a Monitor: receives events, and can cancel between steps")

    def __post_init__(self) -> None:
        """As in `Value`; without a monitor, one that does nothing."""
        super().__post_init__()
        if self.monitor is None:
            object.__setattr__(self, "monitor", Monitor())
