"""Other sources of a level's sums besides this walk: none, other processes, or parties that send files of sums.

Moments add up, so fusing distributed data differs from fusing data in one place only in what `total` does.
"""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from .moments import Moments, Rows


class Contributors(Protocol):
    """Adds the sums of others to those of one walk."""

    share_rows: bool
    """Whether rows may be handed over, as the dual form needs them, or sums alone"""
    adds_up: bool
    """Whether they add up anything, as functions before a residual sum need it, or moments of levels alone"""

    def samples(self, samples: int) -> int:
        """Samples of all contributors together; `samples` are this walk's own."""
        ...

    def total(self, index: int, sums: Moments | Rows) -> Moments | Rows:
        """The sums (or rows) of level `index` over all contributors, from this walk's own."""
        ...

    def add_up(self, tensor: Tensor) -> Tensor:
        """Any other sum over rows, over all contributors: of the shape of `tensor`, such as (m, m)."""
        ...

    def largest(self, number: float) -> float:
        """The largest of all contributors' numbers."""
        ...


class Alone:
    """No others: this walk has all data."""

    share_rows = adds_up = True

    def samples(self, samples: int) -> int:
        return samples

    def total(self, index: int, sums: Moments | Rows) -> Moments | Rows:
        return sums

    def add_up(self, tensor: Tensor) -> Tensor:
        return tensor

    def largest(self, number: float) -> float:
        return number


class Processes:
    """Every process of torch.distributed walks with samples of its own, all of them level by level together.

    Args:
        device: on which the processes' backend adds up numbers of samples ("cuda" for NCCL).
    """

    share_rows = adds_up = True

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self.device = device

    def samples(self, samples: int) -> int:
        return int(self.add_up(torch.tensor(samples, device=self.device)))

    def total(self, index: int, sums: Moments | Rows) -> Moments | Rows:
        return sums.all_gather() if isinstance(sums, Rows) else sums.all_reduce()

    def add_up(self, tensor: Tensor) -> Tensor:
        import torch.distributed as dist

        total = tensor.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total

    def largest(self, number: float) -> float:
        import torch.distributed as dist

        most = torch.tensor(number, dtype=torch.float64, device=self.device)
        dist.all_reduce(most, dist.ReduceOp.MAX)
        return most.item()


class Parties:
    """Others send the sums of their own data, level by level, and keep the data.

    Args:
        read: the others' moments of a level, added up; waits for them, if need be. For one file a level:
            `lambda index: Moments.load(folder / f"{index}.safetensors")`.
        others: samples that the others have together.
    """

    share_rows = adds_up = False

    def __init__(self, read: Callable[[int], Moments], others: int) -> None:
        self.read, self.others = read, others

    def samples(self, samples: int) -> int:
        return samples + self.others

    def total(self, index: int, sums: Moments | Rows) -> Moments | Rows:
        return (sums.moments() if isinstance(sums, Rows) else sums) + self.read(index)

    def add_up(self, tensor: Tensor) -> Tensor:
        raise ValueError(
            "levels on a residual stream are grouped by the sums of all of them at once, and active=True by what neurons hand "
            "on, which other parties' sums do not contain. Leave active out, use networks without skips, or bring the data "
            "together."
        )

    def largest(self, number: float) -> float:
        raise ValueError("other parties send sums of their rows, not the largest number.")
