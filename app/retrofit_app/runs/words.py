"""A run in words: its line in the picker, its details, the settings in which runs differ, whether this version made it, how it
ended."""

import signal
import time
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

from retrofit_app.figures import letter, lettered, percent
from retrofit_core.runs.store import notes_of, worker_of
from retrofit_core.runs.worker import LOG, exit_code, was_ended
from retrofit_core.system import files
from retrofit_core.system.extras import library_version

from .methods import auto_words, decided, weighs
from .records import Entry, architecture, runs_folder

LICENCE = "The data set's own licence holds for what is derived from it."
STATES = {"created": "in progress", "running": "in progress"}


def label(entry: Entry) -> str:
    """A run's short line in the picker; `details` has the rest."""
    config = entry.config
    result = percent(entry.accuracy) if entry.accuracy is not None else STATES.get(entry.state, entry.state)
    # Without torch only a finished run's record says whether its method weighs neurons.
    weighed = f"{config.get('importance')}, " if "importance" in decided(entry) else ""
    kind = "shipped" if entry.shipped else f"{weighed}seed {config.get('seed')}"
    arch = f"{name}, " if (name := architecture(entry)) else ""
    return f"{config['method']}{auto_words(entry)} {result} · {arch}{kind}"


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
    return " · ".join([*words, "shipped" if entry.shipped else entry.name])


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


# --- settings -------------------------------------------------------------------------------------

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


# --- how a run or its analysis ended --------------------------------------------------------------


def failure(entry: Entry) -> str:
    """One sentence on why a run ended early, without this machine's paths."""
    if entry.state == "cancelled":
        return f"Cancelled. {_finished_part(entry)}"
    if entry.state == "interrupted" and was_ended(entry.folder):
        return f"Cancelled. The worker did not stop on its own, so it was ended. {_finished_part(entry)}"
    if entry.state == "interrupted":
        code = exit_code(worker_of(entry.folder).get("pid", -1)) or 0
        how = f" by {signal.Signals(-code).name}" if code < 0 else ""
        return f"The worker was killed{how} before it finished. {_finished_part(entry)}"
    return f"Failed: {lettered(without_folders(entry.status.get('error') or 'no reason was recorded.'))} {_finished_part(entry)}"


def error_of(folder: Path) -> str:
    """Why work in a folder failed, without this machine's folders."""
    return lettered(without_folders(notes_of(folder).get("error") or ""))


def without_folders(text: object, *paths: Path | str) -> str:
    """A message without this machine's folders.

    Args:
        paths: further files and folders, which get their bare names.
    """
    words = str(text)
    for path in paths:
        words = words.replace(str(path), PurePath(path).name)
    return words.replace(f"{runs_folder()}/", "").replace(str(runs_folder()), "RUNS").replace(str(Path.home()), "~")


def _finished_part(entry: Entry) -> str:
    status = entry.status
    if status.get("stage") == "training" and "epochs" in status:
        return (
            f"Network {letter(status.get('parent', 0))}, one of {status.get('parents', 1)}, was being trained, in epoch "
            f"{status['epoch']} of {status['epochs']}; finished epochs are kept."
        )
    total = status.get("levels")
    return f"{status.get('level', 0)} of {total} levels were fused." if total else "No level was fused."


def log_tail(folder: Path, lines: int = 12) -> str:
    """The last lines of the worker's output, without this machine's folders."""
    try:
        text = files.read(folder / LOG).decode(errors="replace")
    except OSError:
        return ""
    return without_folders("\n".join(text.splitlines()[-lines:]))
