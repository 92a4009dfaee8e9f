"""Runs' settings in words, and those in which runs differ."""

from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from .methods import decided
from .records import Entry

#: Settings that no number depends on, or that others contain.
LEFT_OUT = ("models", "splits", "device", "memory", "evaluate", "analyse", "options")
#: Training settings that `networks` contains.
SAID = ("data", "split", "parts", "twins", "seed", "device")
NONE = "–"


def settings(entry: Entry) -> dict[str, str]:
    """Everything a run's numbers depend on: name -> value in words.

    What a finished run decided itself, such as the score of a method that weighs neurons, overrides what was requested.
    """
    made = {name: value for name, value in decided(entry).items() if isinstance(value, str | int | float | bool)}
    values = {name: value for name, value in {**entry.config, **made}.items() if name not in LEFT_OUT}
    values |= entry.config.get("options") or {}
    values |= {"data": PurePath(entry.config.get("data", "")).name, "networks": _networks(entry)}
    values |= {f"training {name}": value for name, value in (entry.training or {}).items() if name not in SAID}
    return {name.replace("_", " "): in_words(value) for name, value in values.items()}


def differing(entries: Sequence[Entry]) -> dict[str, list[str]]:
    """The settings in which these runs differ: name -> each run's value, in order.

    A setting that a run lacks, such as the epochs of a closed form, makes no difference.
    """
    each = [settings(entry) for entry in entries]
    return {name: [values.get(name, NONE) for values in each] for name in different(each)}


def different(each: Sequence[Mapping[str, str]]) -> list[str]:
    """The names of settings that have several values; see `differing`."""
    names = dict.fromkeys(name for values in each for name in values)
    return [name for name in names if len({values[name] for values in each if name in values}) > 1]


def _networks(entry: Entry) -> str:
    """Which networks were fused: how they were trained if that is known, else their file names."""
    training = entry.training
    if not training:
        return ", ".join(PurePath(name).stem for name in entry.config["models"])
    split = training.get("split", "")
    kind = "twins" if training.get("twins") else {"dirichlet": "non-IID"}.get(split, split)
    return f"{len(entry.config['models'])} {kind}, seed {training.get('seed', NONE)}"


def in_words(value: Any) -> str:
    """A setting's value in words."""
    if value is None or value in ("", [], ()):
        return NONE
    if isinstance(value, list | tuple):
        return ", ".join(map(in_words, value))
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else str(value)
