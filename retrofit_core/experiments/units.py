"""The units of work of an experiment: trained parents, fusions and fine-tunings, each measured on the test images, and joint
measurements: clusterings and landscapes.

A unit is identified by its whole configuration; its result holds the digests of its inputs (`results.py`).
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ..inspection.landscape import Landscape
from ..runs import RunConfig
from ..runs.store import UNIT
from ..system.files import key_of
from ..training.config import TrainConfig

#: File name in a unit's folder.
NETWORK = "network.safetensors"
#: Fields of a RunConfig that a unit's source of parents determines.
FROM_SOURCE = ("models", "splits", "data", "evaluate", "analyse", "device")


@dataclass(frozen=True)
class ParentSource:
    """The origin of parents: a training; or digests of files, whose results are read and not measured again."""

    training: TrainConfig | None = None
    digests: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """"given", the files' digests, and "data", the data set"""

    def files(self, root: Path) -> tuple[str, ...]:
        """The checkpoints' paths."""
        return self.recipe.files(root / self.recipe.folder)

    def splits(self, root: Path) -> str | None:
        """The splits file's path."""
        return self.recipe.splits(root / self.recipe.folder)

    @property
    def data_set(self) -> str:
        """Name of the data set."""
        return self.recipe.data

    @property
    def recipe(self) -> TrainConfig:
        """The training; only results of other parents are read."""
        assert self.training is not None
        return self.training

    def to_json(self) -> dict[str, Any]:
        """Everything that determines the parents."""
        return dict(self.digests) or {"training": {**_facts(self.recipe), "device": "auto"}}

    def key(self) -> str:
        """Characters that identify the parents."""
        return key_of(self.to_json())


@cache
def _facts(training: TrainConfig) -> dict[str, Any]:
    """A training in plain JSON types, cached for the many units of its parents; do not change it."""
    return training.to_json()


@cache
def _run_facts(run: RunConfig) -> dict[str, Any]:
    """What determines a fusion beside its source, likewise."""
    return {name: value for name, value in run.changed().items() if name not in FROM_SOURCE}


class Unit:
    """Base class of units of work."""

    source: ParentSource
    test_images: int | None

    def to_json(self) -> dict[str, Any]:
        """Everything that determines the numbers, in plain JSON types."""
        raise NotImplementedError

    def needs(self) -> "tuple[Unit, ...]":
        """Units whose networks this one needs."""
        return ()

    def command(self, root: str) -> str:
        """A command line that does only this work; empty if there is none but `retrofit reproduce`."""
        return ""

    def key(self) -> str:
        """Twelve characters that identify the work."""
        return key_of(self.to_json(), 12)

    def folder(self, root: str | Path) -> Path:
        """Folder of its work and result in a runs folder."""
        return Path(root, UNIT.folder, self.key())

    def network(self, root: str | Path) -> Path:
        """File of the network that it makes; parents are instead where their training or the user put them."""
        return self.folder(root) / NETWORK


@dataclass(frozen=True)
class Parent(Unit):
    """One parent, trained if it is missing."""

    source: ParentSource
    index: int
    test_images: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {"parent": self.index, **self.source.to_json(), "test_images": self.test_images}

    def command(self, root: str) -> str:
        training = self.source.recipe
        return f"{training.command(str(Path(root, training.folder)))} --only {self.index}"


@dataclass(frozen=True)
class Fusion(Unit):
    """One fusion of a source's parents."""

    source: ParentSource
    run: RunConfig
    """The config; its files are replaced by the source's"""
    test_images: int | None = None
    parts: int = 2
    only: tuple[int, ...] | None = None
    """The parents to fuse, in this order; None for all"""

    def config(self, root: Path) -> RunConfig:
        """The config with the paths of its files."""
        files = self.source.files(root)
        chosen = files if self.only is None else tuple(files[index] for index in self.only)
        return dataclasses.replace(self.run, models=chosen, splits=self.source.splits(root), data=self.source.data_set)

    def to_json(self) -> dict[str, Any]:
        only = {} if self.only is None else {"only": list(self.only)}
        return {"fusion": _run_facts(self.run), **only, **self.source.to_json(), "test_images": self.test_images}

    def needs(self) -> tuple[Unit, ...]:
        indices = range(self.parts) if self.only is None else self.only
        return tuple(Parent(self.source, index, self.test_images) for index in indices)

    def command(self, root: str) -> str:
        return self.config(Path(root)).command()


@dataclass(frozen=True)
class Clustering(Unit):
    """The clustering of one level's neurons with each score, see `clustering.py`."""

    source: ParentSource
    level: int = 2
    """The third convolution"""
    samples: int = 200
    seeds: int = 5
    test_images: int | None = None

    def config(self, root: Path) -> RunConfig:
        """Parents, data and samples."""
        return RunConfig(
            self.source.files(root),
            self.source.data_set,
            method="KF-Linear",
            importance="conductance",
            splits=self.source.splits(root),
            samples=self.samples,
        )

    def to_json(self) -> dict[str, Any]:
        settings = {"level": self.level, "samples": self.samples, "seeds": self.seeds}
        return {"clustering": settings, **self.source.to_json()}

    def needs(self) -> tuple[Unit, ...]:
        return tuple(Parent(self.source, index, self.test_images) for index in range(2))


class FollowUp(Unit):
    """Work on the networks of other units, with the parents and test images of the first."""

    @property
    def source(self) -> ParentSource:  # type: ignore[override]
        return self.needs()[0].source

    @property
    def test_images(self) -> int | None:  # type: ignore[override]
        return self.needs()[0].test_images


@dataclass(frozen=True)
class LossLandscape(FollowUp):
    """The loss on the plane through the first two parents and a fused network, see `landscape`."""

    fusion: Fusion
    landscape: Landscape

    def to_json(self) -> dict[str, Any]:
        return {"landscape": self.landscape.to_json(), **self.fusion.to_json()}

    def needs(self) -> tuple[Unit, ...]:
        return (self.fusion,)


@dataclass(frozen=True)
class FineTuning(FollowUp):
    """A fine-tuning of a network on the data of all parents."""

    start: Unit
    epochs: int
    learning_rate: float = 3e-4
    seed: int = 0

    def to_json(self) -> dict[str, Any]:
        settings = {"epochs": self.epochs, "learning_rate": self.learning_rate, "seed": self.seed}
        return {"fine-tuning": settings, "start": self.start.to_json()}

    def needs(self) -> tuple[Unit, ...]:
        return (self.start,)


@dataclass(frozen=True)
class TunedEnsemble(FollowUp):
    """The ensemble of all fine-tuned parents."""

    members: tuple[FineTuning, ...]

    def to_json(self) -> dict[str, Any]:
        return {"ensemble": [member.to_json() for member in self.members]}

    def needs(self) -> tuple[Unit, ...]:
        return self.members
