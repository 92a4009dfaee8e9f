"""A run in words: its line in the picker, its details, and whether this version made it."""

import time
from collections.abc import Sequence
from pathlib import Path

from retrofit_app.figures import percent
from retrofit_core.system.extras import library_version

from .methods import chosen_words, decided, weighs
from .records import Entry, architecture
from .settings import NONE, differing, in_words

LICENCE = "The data set's own licence holds for what is derived from it."
STATES = {"created": "in progress", "running": "in progress"}


def label(entry: Entry) -> str:
    """A run's short line in the picker; `details` has the rest."""
    config = entry.config
    result = percent(entry.accuracy) if entry.accuracy is not None else STATES.get(entry.state, entry.state)
    # Without torch only a finished run's record says whether its method weighs neurons.
    weighed = f"{config.get('importance')}, " if "importance" in decided(entry) else ""
    kind = "shipped" if entry.shipped else f"{weighed}seed {config.get('seed')}"
    arch, title = architecture(entry), f"{entry.title} · " if entry.title else ""
    return f"{title}{config['method']}{chosen_words(entry)} {result} · {f'{arch}, ' if arch else ''}{kind}"


def labels(entries: Sequence[Entry]) -> dict[str, str]:
    """Picker lines by run name; equal lines get the settings in which their runs differ."""
    alike: dict[str, list[Entry]] = {}
    for entry in entries:
        alike.setdefault(label(entry), []).append(entry)
    lines = {}
    for line, same in alike.items():
        if len(same) == 1:
            lines[same[0].name] = line
            continue
        for entry, words in zip(same, differences(same), strict=True):
            lines[entry.name] = f"{line}, {words}"
    return {entry.name: lines[entry.name] for entry in entries}


def differences(entries: Sequence[Entry]) -> list[str]:
    """What distinguishes each run from the others: the settings in which they differ, or else their names."""
    settings = differing(entries)
    words = [
        ", ".join(f"{name} {values[index]}" for name, values in settings.items() if values[index] != NONE)
        for index in range(len(entries))
    ]
    return [
        each if each and words.count(each) == 1 else ", ".join(filter(None, (each, entry.name)))
        for each, entry in zip(words, entries, strict=True)
    ]


def details(entry: Entry) -> str:
    """A run's settings in a line."""
    config = entry.config
    weighed = f", {config.get('importance')} importance" if weighs(entry) else ""
    options = dict(config.get("options") or {})
    grouped = f", {options.pop('grouping')} grouping" if "grouping" in options else ""
    words = [
        f"{config['method']}{grouped}{weighed}",
        *(f"{name.replace('_', ' ')} {in_words(value)}" for name, value in options.items()),
        f"{config.get('samples')} samples" + (" of all networks" if config.get("fusion_from") == "iid" else ""),
        f"seed {config.get('seed')}",
        f"{networks_words(entry)} on {Path(config.get('data', '')).name}",
    ]
    if entry.status.get("started"):
        words.append(time.strftime("%d %b %Y", time.localtime(entry.status["started"])))
    title = [entry.title] if entry.title else []
    return " · ".join([*title, *words, "shipped" if entry.shipped else entry.name])


def other_version(entry: Entry) -> str:
    """A sentence if another version of the library made a run; empty if this one did, or none was recorded."""
    made, installed = entry.status.get("version"), library_version()
    if not made or made == installed:
        return ""
    return (
        f"Version {made} of the library made this run, and this is version {installed}: the same settings may give other numbers "
        "now."
    )


def source(entry: Entry) -> str:
    """Run, date and library version (this one's if the record has none), without a full stop."""
    library = entry.status.get("version") or library_version()
    day = time.strftime("%Y-%m-%d", time.localtime(entry.status.get("started") or time.time()))
    return f"Run {entry.name} of {day}, retrofit-workbench {library}"


def where(entry: Entry) -> str:
    """Where commands on a run start: its file names are relative to this folder."""
    return "in the folder around the runs folder" if entry.base == entry.folder.parent.parent else "in the runs folder"


def networks_words(entry: Entry) -> str:
    """How many networks of which architecture were fused, and their training split if recorded."""
    n, training = len(entry.config["models"]), entry.training or {}
    kind = {"dirichlet": "non-IID"}.get(training.get("split", ""), training.get("split"))
    split = "twins" if training.get("twins") else f"{kind} split" if kind else ""
    arch = f"{name} " if (name := architecture(entry)) else ""
    return f"{n} {arch}network{'' if n == 1 else 's'}" + (f" ({split})" if split else "")


def duration(seconds: float) -> str:
    """A time in words."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
