"""What determines a run's numbers: its settings and the content of its files, whatever their names and dates."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from ..data import digest as digest_of_data
from ..system import files
from .config import RunConfig

T = TypeVar("T")
#: Config fields that name files: an identity contains the files' content, not their names.
NAMES = ("models", "data", "splits")


@dataclass(frozen=True)
class Identity:
    """Everything that determines the numbers of a run."""

    config: RunConfig
    inputs: Mapping[str, str | None]
    """File name in the config, "DATA train" and "DATA test" -> digest; None: the file did not exist (the run may train it)"""

    @property
    def settings(self) -> dict[str, Any]:
        """The settings but for file names, in plain JSON types."""
        return {name: value for name, value in self.config.changed().items() if name not in NAMES}

    def key(self) -> str:
        """Ten characters, equal for two runs exactly if they are the same work. A missing file counts by its name."""
        config = self.config
        # A splits file refers to checkpoints by name.
        models = [(Path(name).name if config.splits else "", name) for name in config.models]
        data = [("data", f"{config.data} {split}") for split in _splits(config)]
        roles = [*models, *([("splits", config.splits)] if config.splits else []), *data]
        return files.key_of([self.settings, [(role, self.inputs.get(name) or name) for role, name in roles]])

    def matches(self, current: "Identity") -> bool:
        """Whether recorded work is that of a config with its current files; those that are missing now count as unchanged."""
        inputs = {name: now or self.inputs.get(name) for name, now in current.inputs.items()}
        return self.key() == Identity(current.config, inputs).key()


def identity(config: RunConfig, folder: str | Path = ".") -> Identity:
    """The identity of a run, with the current content of its files.

    Args:
        folder: folder that relative file names start from.
    """
    here = config.located(folder)
    named = [*zip(config.models, here.models, strict=True), (config.splits, here.splits)]
    inputs = {name: file_digest(Path(path)) for name, path in named if name and path}
    for split in _splits(config):
        inputs[f"{config.data} {split}"] = data_digest(here.data, split)
    return Identity(config, inputs)


def first_alike(config: RunConfig, known: Iterable[tuple[T, Identity]], folder: str | Path = ".") -> T | None:
    """The first known piece of work equal to a config's with the current files.

    Args:
        known: pieces of work with their identities.
        folder: folder that relative file names in the config start from.
    """
    asked, wanted = Identity(config, {}), None
    for work, stored in known:
        if stored.settings == asked.settings:
            wanted = wanted or identity(config, folder)  # only now, because it reads the files
            if stored.matches(wanted):
                return work
    return None


def _splits(config: RunConfig) -> tuple[str, ...]:
    """The splits of the data set that a run reads."""
    return ("train", "test") if config.evaluate or config.analyse else ("train",)


def file_digest(path: Path) -> str | None:
    """Digest of a file; None if it is missing."""
    with suppress(OSError):
        return files.digest(path)
    return None


def data_digest(name: str, split: str) -> str | None:
    """Digest of a split of a data set; None if it is missing."""
    with suppress(ValueError):
        return digest_of_data(name, split)
    return None
