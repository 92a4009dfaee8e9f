"""Work on finished runs that is kept in folders of its own: which there is, where it lies, starting, deleting.

It lies in RUN/FOLDER/KEY; that of a shipped run which is not shipped itself in FOLDER/KEY of the runs folder.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

from retrofit_app.figures import lettered
from retrofit_core.runs.standing import WORKER, analysis_notes, worker_lives, worker_of

from . import workers
from .jobs import WORDS, Job
from .records import Entry, runs_folder

SETTINGS, TRASH = "settings.json", ".deleted"


@dataclass(frozen=True)
class Kept:
    """A piece of such work, finished or not."""

    KIND: ClassVar[str]
    """Of its job"""
    FOLDER: ClassVar[str]
    GROWING: ClassVar[str]
    """The file that shows what is done so far"""
    LAST: ClassVar[str]
    """The file that is there once it is done"""

    folder: Path
    settings: dict[str, Any]
    """As its config's `to_json` writes them; empty as long as its worker is starting"""

    @classmethod
    def of(cls, entry: Entry) -> list[Self]:
        """All of a run, the one that was begun last first."""
        folders = [path.parent for path in (entry.folder / cls.FOLDER).glob(f"*/{SETTINGS}")]
        if entry.shipped:
            folders += [path.parent for path in cls._of_shipped(entry)]
        kept = []
        for folder in sorted(folders, key=lambda path: -(path / SETTINGS).stat().st_mtime):
            try:
                kept.append(cls(folder, dict(json.loads((folder / SETTINGS).read_text()))))
            except (OSError, ValueError, TypeError):
                continue  # half written by a foreign hand: nothing that could be shown
        # A shipped one may have been made again.
        return list({one.name: one for one in reversed(kept)}.values())[::-1]

    @classmethod
    def _of_shipped(cls, entry: Entry) -> list[Path]:
        """Settings in the runs folder that are of a shipped run."""
        from retrofit_core.runs.kept import content_of

        settings = list((runs_folder() / cls.FOLDER).glob(f"*/{SETTINGS}"))
        if not settings:
            return []
        content = content_of(entry.folder)
        return [path for path in settings if content in path.read_text()]

    @classmethod
    def at(cls, entry: Entry, key: str, settings: dict[str, Any] | None = None) -> Self:
        """The one of this key, which may not exist yet."""
        inside = entry.folder / cls.FOLDER / key
        folder = runs_folder() / cls.FOLDER / key if entry.shipped and not inside.exists() else inside
        return cls(folder, settings or {})

    @property
    def name(self) -> str:
        """Its key."""
        return self.folder.name

    @property
    def going(self) -> bool:
        """Whether a worker is at it."""
        return worker_of(self.folder).get("work") == self.KIND and worker_lives(self.folder)

    @property
    def state(self) -> str:
        """running, done, cancelled, failed or interrupted."""
        if self.going:
            return "running"
        ended = analysis_notes(self.folder).get("state")
        if ended:
            return ended
        return "done" if (self.folder / self.LAST).exists() else "interrupted"

    @property
    def error(self) -> str:
        """Why it failed, without this machine's folders."""
        text = str(analysis_notes(self.folder).get("error") or "")
        return lettered(text.replace(str(runs_folder()), "RUNS").replace(str(Path.home()), "~"))

    @property
    def is_drawn(self) -> bool:
        """Whether there is something to show."""
        return (self.folder / self.GROWING).exists()

    @property
    def version(self) -> tuple[str, int]:
        """Changes with what there is to show: what caches go by."""
        return str(self.folder), (self.folder / self.GROWING).stat().st_mtime_ns

    def is_shipped(self, entry: Entry) -> bool:
        """Whether it came with the workbench, and so cannot be deleted."""
        return entry.shipped and self.folder.is_relative_to(entry.folder)


def within(entry: Entry) -> Path:
    """The runs folder in which work on a run is done."""
    return runs_folder() if entry.shipped else entry.folder.parent


def begin(wanted: Kept, job: Callable[[Path], Job], entry: Entry) -> None:
    """Start the worker that does a piece of work or goes on with it, unless it is done.

    Args:
        job: made of the runs folder.
    Raises:
        Busy: other work is going on.
        ValueError: the runs folder cannot be written to.
    """
    if not (wanted.folder.exists() and wanted.state == "done"):
        workers.begin(job(within(entry)))


def is_worked_on(entry: Entry, kind: type[Kept]) -> bool:
    """Whether a worker is at such work in the folder of this run."""
    return any(kind(path.parent, {}).going for path in (entry.folder / kind.FOLDER).glob(f"*/{WORKER}"))


def delete(kept: Kept, entry: Entry) -> None:
    """Move a piece of work to the trash beside it; what was there before is gone for good.

    Raises:
        ValueError: it is shipped, going on, or not there any more, or its folder cannot be written to.
    """
    what = WORDS[kept.KIND].removeprefix("the ")
    if kept.is_shipped(entry):
        raise ValueError(f"this {what} came with the workbench and stays.")
    with workers.alone(within(entry)):
        if kept.going:
            raise ValueError(f"this {what} is going on. Cancel it first.")
        if not kept.folder.exists():
            raise ValueError(f"this {what} is not there any more.")
        trash = kept.folder.parent / TRASH
        shutil.rmtree(trash, ignore_errors=True)
        trash.mkdir()
        kept.folder.rename(trash / kept.name)


def restore(kept: Kept, entry: Entry) -> None:
    """Bring back what was deleted last.

    Raises:
        ValueError: it is not in the trash, or has been started anew since, or its folder cannot be written to.
    """
    what = WORDS[kept.KIND].removeprefix("the ")
    with workers.alone(within(entry)):
        if kept.folder.exists():
            raise ValueError(f"this {what} was started again since.")
        deleted = kept.folder.parent / TRASH / kept.name
        if not deleted.exists():
            raise ValueError(f"this {what} is not kept any more.")
        deleted.rename(kept.folder)
