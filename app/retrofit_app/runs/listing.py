"""All runs on disk, shipped and the user's; which of them already did given work, and how long it took."""

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from retrofit_app.figures import margin
from retrofit_core.runs.store import ACTIVE

from . import words
from .records import BUNDLED, Entry, bundle_facts, home, read_entry, runs_folder, unreadable


def entries(folder: Path | None = None) -> tuple[list[Entry], dict[Path, str]]:
    """Shipped runs in fixed order, then those of the runs folder, newest first; and a sentence on each unreadable one, by folder.

    Finished records are read again only when they change. Callers share the entries: do not modify them.
    """
    shipped = [(str(BUNDLED / name), True) for name in bundle_facts().get("runs", ())]
    good, problems = [], {}
    for path, is_shipped in [*shipped, *_records(folder or runs_folder())]:
        try:
            entry = _read(path, is_shipped, _stamp(path))
            # The stamp's files hold all of a finished run, but not of another.
            good.append(entry if entry.status["state"] == "done" else _listed(path, is_shipped))
        except ValueError as error:
            problems[Path(path)] = str(error)
    return sorted(good, key=lambda entry: (not entry.shipped, 0 if entry.shipped else -_age(entry))), problems


@lru_cache(maxsize=20_000)
def _read(path: str, shipped: bool, _stamp: Any) -> Entry:
    return _listed(path, shipped)


def _listed(path: str, shipped: bool) -> Entry:
    """A run that has all that lists show: one of them must not stop the page of another.

    Raises:
        ValueError: as in `read_entry`.
    """
    entry = read_entry(Path(path), shipped)
    try:
        words.label(entry), words.networks_words(entry), words.settings(entry), words.source(entry), entry.version
        margin(entry.accuracy or 0.0, entry.images)
    except Exception as error:  # a damaged file can hold anything
        raise ValueError(unreadable(entry.folder, error)) from error
    return entry


def _records(folder: Path) -> list[tuple[str, bool]]:
    try:
        with os.scandir(folder) as inside:
            return [(each.path, False) for each in inside if os.path.exists(os.path.join(each.path, "config.json"))]
    except OSError:
        return []


def _stamp(path: str) -> tuple[tuple[int, ...], ...] | None:
    """Changes with a record's settings and its status, which is written last."""
    try:
        facts = [os.stat(os.path.join(path, name)) for name in ("config.json", "status.json")]
    except OSError:
        return None
    return tuple((each.st_mtime_ns, each.st_ctime_ns, each.st_size, each.st_ino) for each in facts)


def same_work(config: Any, entries: list[Entry], base: Path | None = None) -> Entry | None:
    """The finished or running run among these that does what a config would do with the current files.

    Args:
        config: a `runs.RunConfig`.
        base: the folder its file names are relative to; by default see `home`.
    """
    from retrofit_core.runs.identities import first_alike

    return first_alike(config, _identities(entries), base or home(config.to_json()))


def _identities(entries: list[Entry]) -> Iterator[tuple[Entry, Any]]:
    """Finished and running runs with settings that this version knows."""
    from retrofit_core.runs import Identity, RunConfig

    for entry in entries:
        if entry.state in ("done", *ACTIVE):
            try:
                config = RunConfig.from_json(entry.config)
            except ValueError:
                continue
            yield entry, Identity(config, entry.inputs)


def _age(entry: Entry) -> float:
    return float(entry.status.get("started") or (entry.folder / "config.json").stat().st_mtime)
