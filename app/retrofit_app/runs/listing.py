"""All runs on disk: the shipped ones and the user's; which of them did some work already, and what it took."""

from pathlib import Path
from typing import Any

from retrofit_core.runs.standing import ACTIVE

from .records import BUNDLED, Entry, bundle_facts, home, read_entry, runs_folder


def entries(folder: Path | None = None) -> tuple[list[Entry], list[str]]:
    """Shipped runs in their own order, then those of the runs folder, newest first; a sentence for each left out."""
    good, problems = [], []
    folders = [(BUNDLED / name, True) for name in bundle_facts().get("runs", ())]
    folders += [(path.parent, False) for path in (folder or runs_folder()).glob("*/config.json")]
    for path, shipped in folders:
        try:
            good.append(read_entry(path, shipped))
        except ValueError as error:
            problems.append(str(error))
    return sorted(good, key=lambda entry: (not entry.shipped, 0 if entry.shipped else -_age(entry))), problems


def same_work(config: Any, entries: list[Entry], base: Path | None = None) -> Entry | None:
    """The run among these that is done or going on and does what a config would do with the files as they are now.

    Args:
        config: a `runs.RunConfig`.
        base: from where its file names are read; by default see `home`.
    """
    from retrofit_core.runs import Identity, RunConfig, difference, identity
    from retrofit_core.runs.identities import other_settings

    wanted = None
    for entry in entries:
        if entry.inputs is None or entry.state not in ("done", *ACTIVE):
            continue
        try:
            recorded = RunConfig.from_json(entry.config)
        except ValueError:  # of another version
            continue
        if other_settings(recorded, config):
            continue
        # Only now, because it reads the files.
        wanted = wanted or identity(config, base or home(config.to_json()))
        if not difference(Identity(recorded, entry.inputs, entry.method_version), wanted):
            return entry
    return None


def reader_of(path: Path) -> Entry | None:
    """A run that goes on, or can be gone on with, and reads this file."""
    for entry in entries()[0]:
        config = entry.config
        names = [*config["models"], config.get("splits"), config.get("target")]
        if (entry.active or entry.analysing or entry.resumable) and path in [
            entry.base / name for name in names if name
        ]:
            return entry
    return None


def past(entries: list[Entry]) -> list[dict[str, Any]]:
    """What `estimate` learns from: finished runs of this machine, newest first, with the seconds of their stages."""
    return [
        {"config": entry.config, "training": entry.training, "stages": entry.status["stages"]}
        for entry in entries
        if entry.state == "done" and not entry.shipped and entry.status.get("stages")
    ]


def _age(entry: Entry) -> float:
    return float(entry.status.get("started") or (entry.folder / "config.json").stat().st_mtime)
