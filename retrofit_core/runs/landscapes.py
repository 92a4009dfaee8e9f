"""Landscapes of finished runs: settings, networks and images.

Each landscape has its own folder (`store.FollowUp`), with the files of `Survey.save`.
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
    """Settings that repeat a landscape of a run."""

    kind: ClassVar[Kind] = LANDSCAPE

    through: tuple[str, ...]
    """The networks that span the plane"""
    align: str | None = None
    """Alignment whose parents are among the networks"""
    landscape: Landscape = dataclasses.field(default_factory=Landscape)
    tuned: str | None = None
    """Key of the run's fine-tuning whose network is included"""

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {**vars(self), "through": list(self.through), "landscape": self.landscape.to_json()}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "LandscapeConfig":
        """The inverse of `to_json`.

        Raises:
            ValueError: missing or invalid content.
        """
        try:
            landscape = Landscape(**content["landscape"])
            return cls(tuple(content["through"]), content["align"], landscape, content["tuned"])
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"these are not settings of a landscape: {error}") from error

    def command(self, record: str) -> str:
        """The command line that measures it from the record's parent folder, with the fine-tuning in the record."""
        tuned = ["--tuned", f"{record}/{FINETUNING.folder}/{self.tuned}"] if self.tuned else []
        return shlex.join([*shlex.split(super().command(record)), *tuned])

    def words(self) -> list[str]:
        """The options of `retrofit landscape` that differ from their defaults, without record, fine-tuned network and output."""
        align = ["--align", self.align] if self.align else []
        return ["--through", ", ".join(self.through), *align, *option_words(self.landscape)]

    def decisive(self) -> dict[str, Any]:
        """All settings but the clip, which only affects drawings."""
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
        base: folder that file names in the run's config are relative to.
    Raises:
        ValueError: the run is not finished, one of its files is missing or has changed, or its networks have different
            architectures.
    """
    run = read_finished(folder, base)
    samples = read_inputs(run.config).fusion if align else None
    networks = networks_of(run.parents, run.fused, tuned, align=align, data=samples, device=device, monitor=monitor)
    return dataclasses.replace(run, networks=networks)
