"""The networks and images of a finished run, for follow-up work."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from ..data import Images
from ..fusion.results import FusionResult
from .config import RunConfig
from .identities import identity
from .inputs import read_images, read_parents
from .record import Run, read_identity, read_run


@dataclass(frozen=True, eq=False)
class Finished:
    """A finished run with its inputs."""

    folder: Path
    config: RunConfig
    """With file names that this process can find"""
    parents: list[nn.Module]
    fused: nn.Module
    networks: dict[str, nn.Module] = dataclasses.field(default_factory=dict)
    """All networks of a landscape, by name"""

    def images(self, split: str = "test") -> Images:
        """A split of its data.

        Raises:
            ValueError: no such split.
        """
        return read_images(self.config, split)


def read_finished(folder: str | Path, base: str | Path = ".") -> Finished:
    """Read a finished run, and check that its files are unchanged.

    Args:
        base: folder that file names in the run's config are relative to.
    Raises:
        NotAllowed: the run's networks are user code that this process's user did not name.
        ValueError: the run is not finished, or one of its files is missing or has changed.
    """
    config = unchanged(folder, base).config.located(base)
    parents = read_parents(config, read_images(config, "train"))
    return Finished(Path(folder), config, parents, FusionResult.load(folder).model)


def unchanged(folder: str | Path, base: str | Path = ".") -> Run:
    """A finished run whose files are unchanged.

    Args:
        base: folder that file names in its config are relative to.
    Raises:
        ValueError: the run is not finished, or a file is missing or has changed.
    """
    run = read_run(folder)
    if run.state != "done":
        raise ValueError(
            f"{run.folder.name} cannot be used: the run is {run.state}. Run it again: retrofit fuse --record {folder}"
        )
    if not read_identity(run.folder).matches(identity(run.config, base)):
        raise ValueError(
            f"{run.folder.name} cannot be used: one of its files has changed since. Restore it, or run it again."
        )
    return run
