"""What determines a run's numbers: its settings, the content of its files, and the version of its method.

Two runs are the same work exactly if these are equal, whatever the names and dates of the files.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from ..data import digest as digest_of_data
from ..methods import METHODS
from ..networks import weightfiles
from ..networks.architectures import parse
from ..networks.checkpoints import read_metadata
from ..system import files
from ..training.parents import read_training
from .config import EARLY, RunConfig

T = TypeVar("T")
#: Config fields that name files: an identity contains the files' content, not their names.
NAMES = ("models", "data", "splits", "target", "base")


@dataclass(frozen=True)
class Identity:
    """Everything that determines the numbers of a run."""

    config: RunConfig
    inputs: Mapping[str, str | None]
    """File name in the config, "DATA train" and "DATA test" -> digest; None: the file did not exist (the run may train it)"""
    method_version: int

    def key(self) -> str:
        """Ten characters, equal for two runs exactly if they are the same work."""
        # In the layout of version 0.2.0, so that keys stay.
        every = {**self.config.to_json(), **EARLY, "options": None, **self.config.changed()}
        settings = {name: value for name, value in every.items() if name not in NAMES}
        content = [(self._name(role), self.inputs.get(name) or name) for role, name in self.files()]
        return files.key_of([settings, content, self.method_version])

    def files(self) -> list[tuple[str, str]]:
        """(role, name in `inputs`) of each file, in an order that depends only on the settings."""
        config = self.config
        models = [(f"model {index}", name) for index, name in enumerate(config.models)]
        others = [("splits", config.splits), ("target", config.target), ("base", config.base)]
        data = [(f"data {split}", f"{config.data} {split}") for split in _splits(config)]
        return [*models, *((role, name) for role, name in others if name), *data]

    def _name(self, role: str) -> str:
        """A role, with the file's name if that affects numbers: a splits file refers to checkpoints by name."""
        if role.startswith("model ") and self.config.splits:
            return f"{role} {Path(self.config.models[int(role.split()[1])]).name}"
        return role


def identity(config: RunConfig, folder: str | Path = ".") -> Identity:
    """The identity of a run, with the current content of its files.

    Args:
        folder: folder that relative file names start from.
    """
    here = config.located(folder)
    named = [*zip(config.models, here.models, strict=True), (config.splits, here.splits), (config.base, here.base)]
    inputs = {name: file_digest(Path(path)) for name, path in named if name and path}
    if config.target:  # a checkpoint's content, or a preset or spec as text
        inputs[config.target] = file_digest(Path(here.target or "")) or f"the words {config.target}"
    for split in _splits(config):
        inputs[f"{config.data} {split}"] = data_digest(here.data, split)
    architecture = architecture_of(here.models[0]) if config.models else None
    return Identity(config, inputs, METHODS[config.method].version_for(architecture))


def of_network(config: RunConfig) -> RunConfig:
    """The settings that determine the fused network alone, without evaluation and analysis."""
    return replace(config, evaluate=False, analyse=False)


def architecture_of(path: str | Path) -> str | None:
    """The architecture's name of a checkpoint, even of one to be trained; None if unknown."""
    spec: object = None
    with suppress(OSError, ValueError):
        folder = Path(path).parent
        if not Path(path).exists() and (training := read_training(folder)):
            index = list(map(Path, training.files(folder))).index(Path(path))
            spec = parse(training.arch[index % len(training.arch)])
        else:
            spec = read_metadata(path).get("architecture")
    return spec.get("architecture") if isinstance(spec, dict) else None


def other_settings(old: RunConfig, new: RunConfig) -> str:
    """The first setting that differs, apart from file contents, as the rest of a sentence; empty if all are equal."""
    before, after = ({**vars(config), **EARLY, **(config.options or {})} for config in (old, new))
    for name in before | after:
        if name not in (*NAMES, "options") and before.get(name) != after.get(name):
            return f"its {name} is {before.get(name)}, not {after.get(name)}"
    if len(old.models) != len(new.models):
        return f"it fuses {len(old.models)} networks, not {len(new.models)}"
    for name in ("splits", "target", "base"):
        if (getattr(old, name) is None) != (getattr(new, name) is None):
            return f"its {name} is {getattr(old, name)}, not {getattr(new, name)}"
    if (old.splits or new.splits) and _basenames(old) != _basenames(new):
        return f"its checkpoints are called {', '.join(_basenames(old))}, not {', '.join(_basenames(new))}"
    return ""


def difference(old: Identity, new: Identity) -> str:
    """The first difference, as the rest of a sentence; empty if both are the same work.

    A file that one lacks counts as equal if the names are equal: the run may train it itself.
    """
    if why := other_settings(old.config, new.config):
        return why
    for (role, before), (_, after) in zip(old.files(), new.files(), strict=True):
        first, second = old.inputs.get(before), new.inputs.get(after)
        if first is not None and second is not None:
            if first != second:
                name = f"{after} ({role})" if before == after else f"{role}, {after} instead of {before},"
                return f"the content of {name} has changed since"
        elif before != after:
            return f"its {role} is {before}, not {after}"
    if old.method_version != new.method_version:
        return f"{new.config.method} has changed since (version {old.method_version}, now {new.method_version})"
    return ""


def first_alike(
    config: RunConfig,
    known: Iterable[tuple[T, Identity]],
    folder: str | Path = ".",
    part: Callable[[RunConfig], RunConfig] = lambda config: config,
) -> T | None:
    """The first known piece of work equal to a config's with the current files.

    Args:
        known: pieces of work with their identities.
        folder: folder that relative file names in the config start from.
        part: the part of configs to compare, such as `of_network`.
    """
    asked, wanted = part(config), None
    for work, stored in known:
        recorded = replace(stored, config=part(stored.config))
        if not other_settings(recorded.config, asked):
            wanted = wanted or identity(asked, folder)  # only now, because it reads the files
            if not difference(recorded, wanted):
                return work
    return None


def _splits(config: RunConfig) -> tuple[str, ...]:
    """The splits of the data set that a run reads."""
    return ("train", "test") if config.evaluate or config.analyse else ("train",)


def _basenames(config: RunConfig) -> list[str]:
    return [Path(name).name for name in config.models]


def file_digest(path: Path) -> str | None:
    """Digest of a checkpoint, with all files of a sharded one, or of another file; None if it is missing."""
    try:
        parts = weightfiles.files_of(path)  # every file of a sharded checkpoint
        return files.digest(path) if parts == [path] else files.digest_of(parts)
    except (OSError, ValueError):
        return None


def data_digest(name: str, split: str) -> str | None:
    """Digest of a split of a data set; None if it is missing."""
    with suppress(ValueError):
        return digest_of_data(name, split)
    return None
