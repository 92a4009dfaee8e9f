"""Data sets on this machine, and how configs name files."""

import os
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import streamlit as st

from retrofit_app import runs
from retrofit_core.system.files import is_hidden

#: Further folders with data sets, besides `data` next to the runs folder; separated as in PATH.
VARIABLE = "RETROFIT_DATA"


@dataclass(frozen=True)
class Source:
    """A data set as a config names it."""

    data: str
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    size: int = 0
    """Pixels per side; 0 keeps them"""


def data_folders() -> list[Path]:
    """Folders with data sets: `data` next to the runs folder, and those in RETROFIT_DATA."""
    named = [Path(word) for word in os.environ.get(VARIABLE, "").split(os.pathsep) if word]
    return list(dict.fromkeys([runs.runs_folder().parent / "data", *named]))


def data_sets() -> list[str]:
    """ "digits" and every folder in the data folders, as configs name them."""
    paths = [path for folder in data_folders() if folder.is_dir() for path in sorted(folder.iterdir())]
    return ["digits", *[short_name(path) for path in paths if path.is_dir() and not is_hidden(path.name)]]


def short_name(path: str | Path) -> str:
    """A path as a config names it: relative to the runs folder, where workers start, if that has the same parent."""
    path = Path(os.path.abspath(Path(path).expanduser()))
    beside = runs.runs_folder().parent
    return os.path.relpath(path, runs.runs_folder()) if path.is_relative_to(beside) else str(path)


def located(name: str) -> str:
    """The inverse of `named`, for this process; "digits" is not a path."""
    return name if name == "digits" else os.path.normpath(runs.runs_folder() / Path(name).expanduser())


def title(path: str) -> str:
    """A data set's or file's name without folders."""
    return PurePath(path).name or path


def changed(name: str) -> float:
    """When a data set's folder or one of its entries last changed: a key for caches.

    It does not walk deeper: folders can have a million images.
    """
    if name == "digits":
        return 0.0
    folder = located(name)
    try:
        return max(os.stat(folder).st_mtime, *(entry.stat().st_mtime for entry in os.scandir(folder)))
    except (OSError, TypeError):  # TypeError: it is empty
        return 0.0


def source_of(entry: runs.Entry) -> Source:
    """A run's data set."""
    config = entry.config
    pixels = (tuple(config.get("mean") or ()), tuple(config.get("std") or ()), config.get("size") or 0)
    data = config.get("data", "")
    beside = entry.base / data
    is_there = data != "digits" and entry.base == runs.runs_folder().parent and beside.exists()
    return Source(short_name(beside) if is_there else data, *pixels)


@st.cache_resource(max_entries=4, show_spinner="Looking at the data set…")
def _loaded(source: Source, split: str, changed: float) -> Any:
    from retrofit_core.data import load

    path, bare = located(source.data), PurePath(source.data).name == source.data
    # A bare name that is no folder here may be that of a known data set elsewhere.
    name = source.data if bare and not Path(path).exists() else path
    return load(name, split, source.mean or None, source.std or None, source.size or None)


def images(picks: Any, split: str = "train") -> Any:
    """A split ("train" or "test") of a data set (shared by all sessions: do not modify it).

    Args:
        picks: a `Source`, or the form's picks, which have data and size.
    Raises:
        ValueError: it is missing, incomplete or damaged.
    """
    source = picks if isinstance(picks, Source) else Source(picks.data, size=picks.size)
    return _loaded(source, split, changed(source.data))


def test_images(entry: runs.Entry) -> Any:
    """The test images of a run; see `images`."""
    return images(source_of(entry), "test")
