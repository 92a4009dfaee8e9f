"""Landscapes of finished runs: what is asked for, and the networks and images that they are made of.

A landscape lies in a folder of its own (`store.FollowUp`), with what `Survey.save` writes.
"""

import dataclasses
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from torch import nn

from ..inspection.landscape import Landscape, networks_of
from ..system.monitor import Monitor
from ..system.texts import option_words
from .finished import Finished, read_finished
from .inputs import read_inputs
from .store import FINETUNING, LANDSCAPE, FollowUp, Kind


@dataclass(frozen=True)
class LandscapeConfig(FollowUp):
    """A landscape of a run, as it can be asked for again."""

    kind: ClassVar[Kind] = LANDSCAPE
    version: ClassVar[int] = 1

    through: tuple[str, str, str]
    """The networks that span the plane"""
    align: str | None = None
    """Whose aligned parents are among the networks"""
    landscape: Landscape = dataclasses.field(default_factory=Landscape)
    tuned: str | None = None
    """The key of the run's fine-tuning whose network is among the networks; of another checkpoint, what it is known by"""

    def to_json(self) -> dict[str, Any]:
        """In plain JSON types; without a fine-tuned network as earlier versions wrote it, so that keys stay the same."""
        tuned = {"tuned": self.tuned} if self.tuned else {}
        return {"through": list(self.through), "align": self.align, "landscape": self.landscape.to_json(), **tuned}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "LandscapeConfig":
        """The inverse of `to_json`.

        Raises:
            ValueError: something is missing or of another kind.
        """
        try:
            first, second, third = content["through"]
            landscape = Landscape(**content["landscape"])
            return cls((first, second, third), content["align"], landscape, content.get("tuned"))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"these are no settings of a landscape: {error}") from error

    def command(self, record: str) -> str:
        """The command line that measures it from the folder in which the record lies, with the fine-tuning in it."""
        tuned = ["--tuned", f"{record}/{FINETUNING.folder}/{self.tuned}"] if self.tuned else []
        return shlex.join([*shlex.split(super().command(record)), *tuned])

    def words(self) -> list[str]:
        """The options of `retrofit landscape` that are not as by default; record, fine-tuned network and output aside."""
        align = ["--align", self.align] if self.align else []
        return ["--through", ", ".join(self.through), *align, *option_words(self.landscape)]

    def decisive(self) -> dict[str, Any]:
        """All but the clip, which is for drawings."""
        return dataclasses.replace(self, landscape=dataclasses.replace(self.landscape, clip=None)).to_json()


def material_of(
    folder: str | Path,
    tuned: nn.Module | None = None,
    *,
    align: str | None = None,
    base: str | Path = ".",
    device: str = "auto",
    monitor: Monitor | None = None,
) -> Finished:
    """A finished run with its networks, see `landscape.networks_of`.

    Args:
        base: the folder from which file names in the run's config are read.
    Raises:
        ValueError: the run is not finished, one of its files is missing or has changed, or its networks are of different
            architectures.
    """
    run = read_finished(folder, base)
    samples = read_inputs(run.config).fusion if align else None
    networks = networks_of(run.parents, run.fused, tuned, align=align, data=samples, device=device, monitor=monitor)
    return dataclasses.replace(run, networks=networks)
