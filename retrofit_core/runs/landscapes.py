"""Landscapes of finished runs: what is asked for, where it is kept, and the networks and images that it is made of.

A landscape lies in a folder of its own, with settings.json beside what `Survey.save` writes. The folder is named after the
settings and the content of the run, so that the same landscape is found again and never computed twice.
"""

import dataclasses
import hashlib
import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from .. import files
from ..checkpoints import load_model
from ..data import Images, load
from ..landscape import Landscape, networks_of
from ..monitor import Monitor
from ..results import FusionResult
from .config import RunConfig
from .identities import difference, identity
from .inputs import read_inputs
from .record import Run, read_identity, read_run

SETTINGS = "settings.json"
#: The folder of a run in which its landscapes lie, a folder each.
FOLDER = "landscapes"
#: Raised when the numbers of a landscape change.
VERSION = 1


@dataclass(frozen=True)
class LandscapeConfig:
    """A landscape of a run, as it can be asked for again."""

    through: tuple[str, str, str]
    """The networks that span the plane"""
    align: str | None = None
    """Whose aligned parents are among the networks"""
    landscape: Landscape = dataclasses.field(default_factory=Landscape)

    def to_json(self) -> dict[str, Any]:
        """In plain JSON types."""
        return {"through": list(self.through), "align": self.align, "landscape": self.landscape.to_json()}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> "LandscapeConfig":
        """The inverse of `to_json`.

        Raises:
            ValueError: something is missing or of another kind.
        """
        try:
            first, second, third = content["through"]
            return cls((first, second, third), content["align"], Landscape(**content["landscape"]))
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"these are no settings of a landscape: {error}") from error

    def words(self) -> list[str]:
        """The options of `retrofit landscape` that are not as by default; record and output aside."""
        words = ["--through", ", ".join(self.through)]
        words += ["--align", self.align] if self.align else []
        for name, value in self.landscape.to_json().items():
            if value != getattr(Landscape, name):
                words += [f"--{name.replace('_', '-')}", str(value)]
        return words

    def command(self, record: str) -> str:
        """The command line that computes it from the folder in which the record lies."""
        return shlex.join(["retrofit", "landscape", "--record", record, *self.words()])

    def key(self, record: str | Path) -> str:
        """Ten characters that two landscapes share exactly if they have the same numbers; a clip is for drawings only.

        Raises:
            ValueError: the record cannot be read.
        """
        settings = dataclasses.replace(self, landscape=dataclasses.replace(self.landscape, clip=None)).to_json()
        facts = json.dumps([settings, content_of(record), VERSION], sort_keys=True)
        return hashlib.sha256(facts.encode()).hexdigest()[:10]

    def save(self, folder: str | Path, record: str | Path) -> None:
        """Write settings.json, which also says of what run the landscape is."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        content = {**self.to_json(), "of": content_of(record)}
        files.write(Path(folder) / SETTINGS, json.dumps(content, indent=1))


def content_of(record: str | Path) -> str:
    """A digest of all that a landscape of a run depends on: parents, data, fused network.

    Raises:
        ValueError: the record cannot be read, or the run is not finished.
    """
    folder = Path(record)
    try:
        content = json.loads((folder / "config.json").read_text())
        status = json.loads((folder / "status.json").read_text())
        facts = [content["config"], content.get("inputs"), status["checksums"]["fused.safetensors"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{folder.name} is no record of a finished run. Finish it first.") from error
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class Material:
    """What landscapes of a run are made of."""

    config: RunConfig
    """Of the run, its files named so that this process finds them"""
    networks: dict[str, nn.Module]

    def images(self, split: str = "test") -> Images:
        """On which losses are measured.

        Raises:
            ValueError: there is no such split.
        """
        config = self.config
        return load(config.data, split, config.mean, config.std, config.size)


def material_of(
    folder: str | Path,
    tuned: nn.Module | None = None,
    *,
    align: str | None = None,
    base: str | Path = ".",
    device: str = "auto",
    monitor: Monitor | None = None,
) -> Material:
    """The networks of a finished run, see `landscape.networks_of`.

    Args:
        base: the folder from which file names in the run's config are read.
    Raises:
        ValueError: the run is not finished, one of its files is missing or has changed, or its networks are of different
            architectures.
    """
    run = read_run(folder)
    if run.state != "done":
        raise ValueError(f"{folder}: the run is {run.state}, so there is no fused network. Finish it first.")
    _check_unchanged(run, Path(base))
    config = _located(run.config, Path(base))
    fused = FusionResult.load(folder).model
    parents = [load_model(path, config.arch)[0] for path in config.models]
    samples = read_inputs(config).fusion if align else None
    networks = networks_of(parents, fused, tuned, align=align, data=samples, device=device, monitor=monitor)
    return Material(config, networks)


def _check_unchanged(run: Run, base: Path) -> None:
    """Refuse a record whose files have changed; records of the first schema have no digests to compare."""
    stored = read_identity(run.folder)
    if stored is None:
        return
    current = dataclasses.replace(identity(run.config, base), method_version=stored.method_version)
    if why := difference(stored, current):
        raise ValueError(
            f"{run.folder.name} has no landscape: {why}. Bring back what the run was made of, or run it again."
        )


def _located(config: RunConfig, base: Path) -> RunConfig:
    """The config with its files named from the current folder."""
    if base == Path():
        return config
    data = [config.data] if config.data == "digits" else [str(base / Path(config.data).expanduser()), config.data]
    return dataclasses.replace(
        config,
        models=tuple(str(base / name) for name in config.models),
        splits=config.splits and str(base / config.splits),
        data=next((name for name in data if Path(name).is_dir()), config.data),
    )
