"""Landscapes of runs on disk: which there are, where one is kept, starting the worker that computes it.

A landscape lies in RUN/landscapes/KEY; one of a shipped run that is not shipped itself in landscapes/KEY of the runs folder.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retrofit_core.runs.standing import WORKER, analysis_notes, worker_lives, worker_of

from . import jobs, workers
from .records import Entry, runs_folder

FOLDER, SETTINGS, SURVEY = "landscapes", "settings.json", "landscape.json"


@dataclass(frozen=True)
class Kept:
    """A landscape of a run, finished or not."""

    folder: Path
    settings: dict[str, Any]
    """As `LandscapeConfig.to_json` writes them; empty as long as its worker is starting"""

    @property
    def name(self) -> str:
        """Its key."""
        return self.folder.name

    @property
    def going(self) -> bool:
        """Whether a worker is at it."""
        return worker_of(self.folder).get("work") == "landscape" and worker_lives(self.folder)

    @property
    def state(self) -> str:
        """running, done, cancelled, failed or interrupted."""
        if self.going:
            return "running"
        ended = analysis_notes(self.folder).get("state")
        if ended:
            return ended
        return "done" if self.is_drawn else "interrupted"

    @property
    def error(self) -> str:
        """Why it failed."""
        return str(analysis_notes(self.folder).get("error") or "")

    @property
    def is_drawn(self) -> bool:
        """Whether there is something to show."""
        return (self.folder / SURVEY).exists()

    @property
    def version(self) -> tuple[str, int]:
        """Changes with what there is to show: what caches go by."""
        return str(self.folder), (self.folder / SURVEY).stat().st_mtime_ns


def kept(entry: Entry) -> list[Kept]:
    """The landscapes of a run, the one that was begun last first."""
    folders = [path.parent for path in (entry.folder / FOLDER).glob(f"*/{SETTINGS}")]
    if entry.shipped:
        folders += [path.parent for path in _of_shipped(entry)]
    found = []
    for folder in sorted(folders, key=lambda path: -(path / SETTINGS).stat().st_mtime):
        try:
            found.append(Kept(folder, dict(json.loads((folder / SETTINGS).read_text()))))
        except (OSError, ValueError, TypeError):
            continue  # half written by a foreign hand: nothing that could be shown
    return list({one.name: one for one in reversed(found)}.values())[::-1]  # a shipped one may have been measured again


def _of_shipped(entry: Entry) -> list[Path]:
    """Settings of landscapes in the runs folder that are of a shipped run."""
    from retrofit_core.runs.landscapes import content_of

    settings = list((runs_folder() / FOLDER).glob(f"*/{SETTINGS}"))
    if not settings:
        return []
    content = content_of(entry.folder)
    return [path for path in settings if content in path.read_text()]


def landscape_folder(entry: Entry, key: str) -> Path:
    """Where a landscape of this key is, or would be."""
    shipped = entry.folder / FOLDER / key
    return runs_folder() / FOLDER / key if entry.shipped and not shipped.exists() else shipped


def survey(entry: Entry, config: Any) -> Kept:
    """Start the worker that computes a landscape, or return the one that is there.

    Args:
        config: a `LandscapeConfig`.
    Raises:
        Busy: other work is going on.
        ValueError: the runs folder cannot be written to, or the run is not finished.
    """
    folder = landscape_folder(entry, config.key(entry.folder))
    there = Kept(folder, config.to_json())
    if folder.exists() and there.state == "done":
        return there
    runs = runs_folder() if entry.shipped else entry.folder.parent
    device = entry.config.get("device") or "auto"
    workers.begin(jobs.landscape(config, entry.folder, entry.base, folder, runs, device))
    return there


def is_surveyed(entry: Entry) -> bool:
    """Whether a worker is at a landscape in the folder of this run."""
    return any(Kept(path.parent, {}).going for path in (entry.folder / FOLDER).glob(f"*/{WORKER}"))
