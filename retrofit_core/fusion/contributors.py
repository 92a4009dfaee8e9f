"""Contributors to a level's sums besides this walk: none, other processes, or parties that exchange files of sums.

Moments are additive, so fusing distributed data differs from fusing data in one place only in adding up the sums. A gradient
fit adds up gradients at each step.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Protocol, TypeVar

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from ..system.files import replacing
from ..system.monitor import Monitor
from ..training.descent import Share
from .moments import Moments, Rows

T = TypeVar("T")

POLL = 0.05  # seconds between polls of the parties' shared folder


class Contributors(Protocol):
    """Adds other contributors' sums to those of one walk. All make the same calls in the same order."""

    share_rows: bool
    """Whether rows may be shared, as the dual form needs, and gradients, as gradient fits need; or only sums"""

    def samples(self, samples: int, work: Callable[[], bytes] = bytes) -> int:
        """Total number of samples, given this walk's; `work` returns the digest of what all contributors must share."""
        ...

    def total(self, index: int, sums: Moments | Rows) -> Moments | Rows:
        """Sums (or rows) of level `index` over all contributors, given this walk's."""
        ...

    def add_up(self, tensor: Tensor) -> Tensor:
        """Any other sum over rows, over all contributors, with the shape of `tensor`, such as (m, m)."""
        ...

    def share(self, samples: int, device: torch.device) -> Share | None:
        """This walk's share of all contributors' samples in a gradient fit, given its number of samples; None: it has all."""
        ...

    def largest(self, number: float) -> float:
        """The maximum over all contributors."""
        ...

    def agree(self, tensors: Sequence[Tensor]) -> None:
        """Copy the first contributor's values into a fitted level's tensors, so that rounding does not split the networks."""
        ...


class Alone:
    """No others: this walk has all data."""

    share_rows = True

    def samples(self, samples: int, work: Callable[[], bytes] = bytes) -> int:
        return samples

    def total(self, index: int, sums: Moments | Rows) -> Moments | Rows:
        return sums

    def add_up(self, tensor: Tensor) -> Tensor:
        return tensor

    def share(self, samples: int, device: torch.device) -> Share | None:
        return None

    def largest(self, number: float) -> float:
        return number

    def agree(self, tensors: Sequence[Tensor]) -> None:
        """Do nothing."""


class Processes:
    """The processes of torch.distributed, each with its own samples, in step level by level.

    Args:
        device: where the backend adds up numbers ("cuda" for NCCL).
    """

    share_rows = True

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self.device = device

    def samples(self, samples: int, work: Callable[[], bytes] = bytes) -> int:
        return int(self.add_up(torch.tensor(samples, device=self.device)))

    def total(self, index: int, sums: Moments | Rows) -> Moments | Rows:
        return sums.all_gather() if isinstance(sums, Rows) else sums.all_reduce()

    def add_up(self, tensor: Tensor) -> Tensor:
        import torch.distributed as dist

        total = tensor.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total)
        return total

    def share(self, samples: int, device: torch.device) -> Share | None:
        import torch.distributed as dist

        counts = [0] * dist.get_world_size()
        dist.all_gather_object(counts, samples)
        # Numbered as if dealt one by one: if each process has every N-th sample, the numbers are those of one process.
        dealt = sorted((turn, rank) for rank, count in enumerate(counts) for turn in range(count))
        own = dist.get_rank()
        return Share(torch.tensor([turn if rank == own else -1 for turn, rank in dealt], device=device), self.add_up)

    def largest(self, number: float) -> float:
        import torch.distributed as dist

        most = torch.tensor(number, dtype=torch.float64, device=self.device)
        dist.all_reduce(most, dist.ReduceOp.MAX)
        return most.item()

    def agree(self, tensors: Sequence[Tensor]) -> None:
        import torch.distributed as dist

        for tensor in tensors:
            dist.broadcast(tensor, 0)


class Parties:
    """Parties that keep their data: all fuse the same networks and exchange sums through a shared folder.

    A party deletes its file of a round once the next round is complete.

    Args:
        folder: shared folder without files of this party.
        number, parties: this party's number, from 0, and the number of parties.
        settings: what all parties must share besides networks, method and options, such as the normalisation of images.
        monitor: receives the party that this one waits for, and may cancel.
    Raises:
        ValueError: no such party, or the folder holds files of an earlier run.
    """

    share_rows = False

    def __init__(
        self, folder: str | Path, number: int, parties: int, settings: bytes = b"", monitor: Monitor | None = None
    ) -> None:
        if not 0 <= number < parties:
            raise ValueError(f"there is no party {number} of {parties}. Number the parties from 0 to {parties - 1}.")
        self.folder, self.number, self.parties = Path(folder), number, parties
        self.settings, self.monitor, self.round = settings, monitor or Monitor(), 0
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._path(0, number).exists() or next(self.folder.glob(f"*-{number}.safetensors"), None):
            raise ValueError(f"{folder} holds files of party {number} from an earlier run. Choose an empty folder.")

    def samples(self, samples: int, work: Callable[[], bytes] = bytes) -> int:
        """See `Contributors`.

        Raises:
            ValueError: another party fuses other networks or has other settings.
        """
        settings = torch.tensor(list(sha256(self.settings + work()).digest()), dtype=torch.uint8)
        own = {"samples": torch.tensor([samples]), "settings": settings}
        everyone = self._exchanged(lambda path: save_file(own, path), load_file)
        for number, facts in enumerate(everyone):
            if not torch.equal(facts["settings"], own["settings"]):
                raise ValueError(
                    f"party {number} fuses different networks from party {self.number}, or uses different settings. "
                    "Give all parties the same checkpoints, method, options and normalisation (--mean, --std)."
                )
        return sum(int(facts["samples"]) for facts in everyone)

    def total(self, index: int, sums: Moments | Rows) -> Moments | Rows:
        moments = sums.moments() if isinstance(sums, Rows) else sums
        first, *others = self._exchanged(moments.save, Moments.load)
        whole = sum(others, start=first)
        placed = {
            name: tensor.to(moments.zz.device) for name, tensor in vars(whole).items() if isinstance(tensor, Tensor)
        }
        return replace(whole, **placed)

    def add_up(self, tensor: Tensor) -> Tensor:
        held = {"sum": tensor.detach().cpu().contiguous()}
        everyone = self._exchanged(lambda path: save_file(held, path), load_file)
        return torch.stack([each["sum"] for each in everyone]).sum(0).to(tensor.device)

    def share(self, samples: int, device: torch.device) -> Share | None:
        raise NotImplementedError(
            "parties exchange sums once per level, and a gradient fit would need them at every step"
        )

    def largest(self, number: float) -> float:
        held = {"number": torch.tensor([number], dtype=torch.float64)}
        return max(each["number"].item() for each in self._exchanged(lambda path: save_file(held, path), load_file))

    @torch.no_grad()
    def agree(self, tensors: Sequence[Tensor]) -> None:
        held = {str(index): tensor.detach().cpu().contiguous() for index, tensor in enumerate(tensors)}
        first, *_ = self._exchanged(lambda path: save_file(held, path), load_file, senders=1)
        for index, tensor in enumerate(tensors):
            tensor.copy_(first[str(index)])

    def _path(self, round_number: int, number: int) -> Path:
        return self.folder / f"{round_number:05d}-{number}.safetensors"

    def _exchanged(
        self, save: Callable[[Path], None], load: Callable[[Path], T], senders: int | None = None
    ) -> list[T]:
        """What the first `senders` parties (default: all) save in this round, in order."""
        senders = self.parties if senders is None else senders
        if self.number < senders:
            with replacing(self._path(self.round, self.number)) as temporary:
                save(temporary)
        everyone = [load(self._awaited(number)) for number in range(senders)]
        if self.round and senders == self.parties:  # all have read the earlier rounds
            for path in self.folder.glob(f"*-{self.number}.safetensors"):
                if path != self._path(self.round, self.number):
                    path.unlink()
        self.round += 1
        return everyone

    def _awaited(self, number: int) -> Path:
        path = self._path(self.round, number)
        if not path.exists():
            self.monitor.emit("phase", name=f"waiting for party {number}")
        while not path.exists():
            self.monitor.check()
            time.sleep(POLL)
        return path
