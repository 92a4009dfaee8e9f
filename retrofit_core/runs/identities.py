"""What decides a run's numbers: its settings, the content of its files, and the version of its method.

Two runs are the same work exactly if these are equal, whatever the files are called and whenever they were written.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from ..data import digest as digest_of_data
from ..methods import METHODS
from ..networks import user_code, weightfiles
from ..networks.architectures import parse
from ..networks.checkpoints import read_metadata
from ..system import files
from ..system.registry import find
from ..training.parents import read_training
from .config import FLAGS, RunConfig
from .locations import located

T = TypeVar("T")
#: Fields of a config that name files: an identity holds the files' content, not their names.
NAMES = ("models", "data", "splits", "target", "base")


@dataclass(frozen=True)
class Identity:
    """Everything that decides the numbers of a run."""

    config: RunConfig
    inputs: Mapping[str, str | None]
    """File as the config names it, "DATA train" and "DATA test" -> digest; None: there was no such file (the run may train
    it)"""
    method_version: int

    def key(self) -> str:
        """Ten characters that two runs share exactly if they are the same work."""
        # All settings, as the first records had them, so that keys stay.
        every = {**self.config.to_json(), **FLAGS, "options": None, **self.config.changed()}
        settings = {name: value for name, value in every.items() if name not in NAMES}
        content = [(self._name(role), self.inputs.get(name) or name) for role, name in self.files()]
        return files.key_of([settings, content, self.method_version])

    def files(self) -> list[tuple[str, str]]:
        """(role, name in `inputs`) of each file, in an order that depends on the settings only."""
        config = self.config
        models = [(f"model {index}", name) for index, name in enumerate(config.models)]
        code = [(name, arch) for name, arch in (("arch", config.arch),) if user_code.names_in(arch)]
        others = [("splits", config.splits), ("target", config.target), ("base", config.base), *code]
        data = [(f"data {split}", f"{config.data} {split}") for split in _splits(config)]
        return [*models, *((role, name) for role, name in others if name), *data]

    def _name(self, role: str) -> str:
        """A role with the part of a name that decides numbers: a splits file refers to checkpoints by their names."""
        if role.startswith("model ") and self.config.splits:
            return f"{role} {Path(self.config.models[int(role.split()[1])]).name}"
        return role


def identity(config: RunConfig, folder: str | Path = ".") -> Identity:
    """The identity of a run, with the current content of its files.

    Args:
        folder: where relative names of files are read from.
    """
    here = located(config, folder)
    named = [*zip(config.models, here.models, strict=True), (config.splits, here.splits), (config.base, here.base)]
    inputs = {name: _digest(Path(path)) for name, path in named if name and path}
    if config.target:  # a checkpoint's content, or the words of a preset or spec
        inputs[config.target] = _digest(Path(here.target or "")) or _of_words(config.target, Path(folder))
    if config.arch and user_code.names_in(config.arch):
        inputs[config.arch] = user_code.code_digest(config.arch, folder)
    for split in _splits(config):
        inputs[f"{config.data} {split}"] = _digest_of_data(here.data, split)
    architecture = architecture_of(here.models[0]) if config.models else None
    return Identity(config, inputs, method_version(config.method, architecture))


def of_network(config: RunConfig) -> RunConfig:
    """What decides the fused network alone: runs that measured or analysed it or not share this."""
    return replace(config, evaluate=False, analyse=False)


def _of_words(arch: str, base: Path) -> str:
    """The words of an architecture, and the code that they name."""
    code = user_code.code_digest(arch, base)
    return f"the words {arch}" + (f" {code}" if code else "")


def method_version(name: str, architecture: str | None) -> int:
    """The version of a method with which its numbers of such networks last changed."""
    return find(METHODS, name, "method").version_for(architecture)


def architecture_of(path: str | Path) -> str | None:
    """The name of a checkpoint's architecture, also of one that a run is going to train; None where nothing tells it."""
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
    """The first setting that differs, files aside, as the rest of a sentence; empty where all are equal."""
    before, after = ({**vars(config), **FLAGS, **(config.options or {})} for config in (old, new))
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
    """The first difference, as the rest of a sentence; empty where both are the same work.

    A file that one of them lacks counts as equal if it has the same name: the run may train it itself.
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
    """The first of some pieces of work that is what a config would do with the files as they are now.

    Args:
        known: each with its identity.
        folder: where the config's relative names of files are read from.
        part: of configs that has to be the same, such as `of_network`.
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


def _digest(path: Path) -> str | None:
    try:
        parts = weightfiles.files_of(path)  # of a sharded checkpoint, every file
        return files.digest(path) if parts == [path] else files.digest_of(parts)
    except (OSError, ValueError):
        return None


def _digest_of_data(name: str, split: str) -> str | None:
    with suppress(ValueError):
        return digest_of_data(name, split)
    return None


def to_json(run_identity: Identity) -> dict[str, Any]:
    """An identity in plain JSON types, for config.json."""
    return {
        "config": run_identity.config.to_json(),
        "inputs": dict(run_identity.inputs),
        "method_version": run_identity.method_version,
    }


def from_json(content: Mapping[str, Any]) -> Identity | None:
    """The inverse of `to_json`; None for a record of the first schema, which has no digests of its files.

    Raises:
        ValueError: unknown or missing fields.
    """
    if "inputs" not in content:
        return None
    return Identity(RunConfig.from_json(content["config"]), dict(content["inputs"]), int(content["method_version"]))
