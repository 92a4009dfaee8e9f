"""Stored work: kinds, locations, states, workers. No torch, so that lists load quickly.

A piece of work is a folder. Its writer holds the lock, records progress, and stops if a file `cancel` appears. A runs folder
contains:

    RUN                                     a fusion: config.json, status.json and the files of `record`
    RUN/finetunings/KEY, finetunings/KEY    of that run; the latter if the run's folder is read-only
    RUN/landscapes/KEY, landscapes/KEY      likewise
    comparisons/KEY                         a leaderboard, whose runs are records next to it
    RUN/comparisons/ingredients             a leaderboard of a run's ingredients, without records
    parents-KEY                             a training
    experiments/TABLE.csv                   results of a table of the paper, beside the records that they need
"""

import json
import shlex
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import psutil

from ..system import files
from ..system.monitor import Cancelled, Event, Monitor

#: Layout of a run's config.json and status.json.
SCHEMA = 3
STATES = ("created", "running", "done", "failed", "cancelled")
#: A process works on it, or is about to.
ACTIVE = ("created", "running")
#: The status of a run before its worker has written one.
NEW = {"state": "created"}
SETTINGS, STATUS = "settings.json", "status.json"
#: If this file exists, the process working in the folder stops after its current step.
CANCEL = "cancel"
#: Written by the process that starts a worker: {"pid", "birth", "started", "work"}; during the start, of the starter:
#: {"starter", "birth", "started", "work"}.
WORKER = "worker.json"
WORKER_FACTS = {"pid": int, "starter": int, "birth": float | int, "started": float | int, "work": str}
#: Progress of work without status.json: state, name of the step, index, total, error; removed when done.
NOTES = "analysing.json"
#: Seconds between two writes of such a file: frequent enough for a progress bar, rare enough for any disk.
INTERVAL = 0.3
#: Seconds by which two readings of a process's start may differ because of clock adjustments.
CLOCK = 2.0
#: Lock of the runs folder for starting or deleting something there, and the seconds that others wait for it.
STARTING, PATIENCE = ".starting", 60.0


@dataclass(frozen=True)
class Kind:
    """A kind of stored work."""

    verb: str
    """What is done, as in worker.json"""
    words: str
    """Its name in sentences, with an article"""
    folder: str = ""
    """Its subfolder in a runs folder or a run; "": the runs folder itself"""
    growing: str = ""
    """The file that shows progress"""
    last: str = ""
    """The file that exists once it is done"""
    of: str = ""
    """The command that does it, if that is not the verb"""

    @property
    def command(self) -> str:
        """The command that does it."""
        return self.of or self.verb


FUSION = Kind("fuse", "run")
ANALYSIS = Kind("analyse", "the analysis of run", of="fuse")
TRAINING = Kind("train", "the training")
LANDSCAPE = Kind("landscape", "the landscape", "landscapes", "landscape.json", "landscape.json")
FINETUNING = Kind("finetune", "the fine-tuning", "finetunings", "curve.json", "metrics.json", "train")
COMPARISON = Kind("compare", "the leaderboard", "comparisons", "leaderboard.json", "leaderboard.json")
KINDS = {kind.verb: kind for kind in (FUSION, ANALYSIS, TRAINING, LANDSCAPE, FINETUNING, COMPARISON)}


@dataclass(frozen=True)
class Work:
    """A piece of stored work, finished or not."""

    kind: Kind
    folder: Path
    settings: Mapping[str, Any] = field(default_factory=dict)
    """As requested; empty while its worker is starting"""

    @property
    def name(self) -> str:
        """Its key."""
        return self.folder.name

    @property
    def words(self) -> str:
        """Its name in sentences: "run 3f2a", "this landscape"."""
        return f"run {self.name}" if self.kind == FUSION else f"this {self.kind.words.removeprefix('the ')}"

    @property
    def going(self) -> bool:
        """Whether a worker is working on it."""
        return worker_of(self.folder).get("work") == self.kind.verb and worker_lives(self.folder)

    @property
    def state(self) -> str:
        """new, running, done, cancelled, failed or interrupted."""
        if self.going:
            return "running"
        if not self.folder.exists():
            return "new"
        ended = notes_of(self.folder).get("state")
        return ended or ("done" if (self.folder / self.kind.last).exists() else "interrupted")

    @property
    def has_content(self) -> bool:
        """Whether there is something to show."""
        return (self.folder / self.kind.growing).exists()

    @property
    def version(self) -> tuple[str, int]:
        """Changes with the content, for caches."""
        return str(self.folder), (self.folder / self.kind.growing).stat().st_mtime_ns


# --- listing and state ----------------------------------------------------------------------------


def works_of(kind: Kind, record: Path, elsewhere: Path | None = None) -> list[Work]:
    """All work of a kind on a finished run, most recently begun first.

    Args:
        elsewhere: the runs folder with more of it, if the record is read-only.
    """
    paths = list((record / kind.folder).glob(f"*/{SETTINGS}"))
    if elsewhere and (others := list((elsewhere / kind.folder).glob(f"*/{SETTINGS}"))):
        content = content_of(record)
        paths += [path for path in others if read_json(path).get("of") == content]
    newest = sorted(paths, key=lambda path: path.stat().st_mtime)
    # By name, because work shipped with a run may have been repeated. Work with damaged settings cannot be shown.
    found = {path.parent.name: Work(kind, path.parent, content) for path in newest if (content := read_json(path))}
    return list(found.values())[::-1]


def work_at(
    kind: Kind, record: Path, key: str, settings: Mapping[str, Any] | None = None, elsewhere: Path | None = None
) -> Work:
    """The work with this key on a finished run; it may not exist yet. See `works_of`."""
    inside = record / kind.folder / key
    return Work(kind, elsewhere / kind.folder / key if elsewhere and not inside.exists() else inside, settings or {})


def state_of(folder: str | Path, status: Mapping[str, Any]) -> str:
    """One of STATES, or "interrupted" for an unfinished run without a process.

    A process is working on it if it holds the record's lock, or if it was started for the run, is alive and still loading.

    Args:
        status: the content of status.json.
    """
    state = status["state"]
    if state == "done":
        return state
    started, updated = worker_lives(folder), status.get("updated", 0)
    if started and isinstance(updated, float | int) and worker_of(folder).get("started", 0) > updated:
        return "created"  # the status is an earlier attempt's: this process is still loading
    if state not in ACTIVE or started or files.is_locked(folder):
        return state
    # It may have ended since the status was read: read again.
    return "interrupted" if read_json(Path(folder) / STATUS).get("state", state) in ACTIVE else state


def notes_of(folder: str | Path) -> dict[str, Any]:
    """Progress or end of work: state ("running", "failed", "cancelled" or "interrupted"), name, index, total, error. Empty if
    none was begun, or the last one is done."""
    notes = read_json(Path(folder) / NOTES)
    if notes.get("state") == "running" and not worker_lives(folder) and not files.is_locked(folder):
        last = read_json(Path(folder) / NOTES)  # it may have just ended
        return {**notes, "state": "interrupted"} if last == notes else last
    return notes


def worker_of(folder: str | Path) -> dict[str, Any]:
    """worker.json, or {} if it is missing or damaged."""
    worker = read_json(Path(folder) / WORKER)
    return worker if all(isinstance(worker.get(name), kind | None) for name, kind in WORKER_FACTS.items()) else {}


def worker_lives(folder: str | Path) -> bool:
    """Whether the process in worker.json is alive or being started."""
    worker = worker_of(folder)
    pid = worker.get("pid", worker.get("starter"))
    return pid is not None and lives(pid, worker.get("birth"))


def birth_of(pid: int) -> float | None:
    """Start time of a process in seconds since 1970, because pids are reused; None if there is no such process."""
    try:
        return psutil.Process(pid).create_time()
    except psutil.Error:
        return None


def lives(pid: int, birth: float | None = None) -> bool:
    """Whether a process exists and started at this time."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return birth is None or abs(process.create_time() - birth) < CLOCK
    except (psutil.Error, ValueError, OverflowError):  # no process has such a number
        return False


def is_going(folder: Path) -> bool:
    """Whether a process is working in a folder; the worker of a fusion may outlive its end by a moment."""
    status = read_json(folder / STATUS)
    return state_of(folder, status if "state" in status else NEW) in ACTIVE or is_noted(folder)


def is_noted(folder: Path) -> bool:
    """Whether a process notes its progress there: an analysis of a finished run, or other work without status.json."""
    return notes_of(folder).get("state") == "running"


def work_in(folder: Path) -> Work:
    """The work that a process was started for in a folder, or that is stored there."""
    lying = next((kind for kind in KINDS.values() if kind.folder == folder.parent.name), FUSION)
    verb = str(worker_of(folder).get("work", lying.verb))
    return Work(KINDS.get(verb, Kind(verb, f"the work ({verb}) in")), folder)


def noting_a_process(runs: Path) -> list[Path]:
    """The folders in a runs folder where a process is working, or worked until it was killed."""
    deeper = [f"{within}{kind.folder}/*" for kind in KINDS.values() if kind.folder for within in ("", "*/")]
    notes = [note for place in ("*", *deeper) for name in (WORKER, files.LOCK) for note in runs.glob(f"{place}/{name}")]
    return list(dict.fromkeys(note.parent for note in notes))


def read_json(path: Path) -> dict[str, Any]:
    """A small JSON file; {} if missing or damaged."""
    try:
        content = files.json_of(path)
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


# --- writing --------------------------------------------------------------------------------------


def ending_of(error: BaseException) -> dict[str, str]:
    """The state and reason of work that an error stopped."""
    cancelled = isinstance(error, Cancelled | KeyboardInterrupt)
    message = "" if cancelled else str(error) or type(error).__name__
    return {"state": "cancelled" if cancelled else "failed", "error": message}


def asked_to_stop(folder: Path, outer: Monitor) -> bool:
    """Whether there is a file `cancel`; the outer monitor raises if it was cancelled itself."""
    outer.check()
    return (folder / CANCEL).exists()


@contextmanager
def noted(folder: Path, outer: Monitor, what: str = "", patience: float = files.PATIENCE) -> Iterator[Monitor]:
    """Hold the lock of a folder, with a monitor that also writes NOTES and obeys a file `cancel`.

    Args:
        what: what is written there, for the error message; default: the record.
        patience: seconds to wait.
    Raises:
        Locked: another process writes there.
    """
    notes: dict[str, Any] = {"state": "running", "started": time.time(), "name": "reading the record"}

    def write_notes() -> None:
        notes["updated"] = time.time()
        files.write(folder / NOTES, json.dumps(notes))

    def take(event: Event) -> None:
        outer.emit(**event)
        if event["kind"] in ("phase", "step"):
            if event["kind"] == "phase":
                notes["name"] = str(event.get("name", "")).removeprefix("analysis: ")
            notes.update(index=event.get("index"), total=event.get("total"))
            if time.time() - notes["updated"] > INTERVAL:
                write_notes()

    with files.locked(folder, what or f"the record {folder}", patience=patience):
        write_notes()
        try:
            monitor = Monitor(take, lambda: asked_to_stop(folder, outer))
            monitor.check()
            yield monitor
        except BaseException as error:
            notes.update(ending_of(error))
            write_notes()
            raise
        else:
            (folder / NOTES).unlink()
        finally:
            (folder / CANCEL).unlink(missing_ok=True)


@contextmanager
def alone(runs: Path) -> Iterator[None]:
    """Hold the exclusive right to start or delete something in a runs folder, against other sessions and servers.

    Raises:
        ValueError: the folder is read-only, or another process holds the right for PATIENCE seconds.
    """
    try:
        with files.locked(runs, "the runs folder", name=STARTING, patience=PATIENCE):
            yield
    except OSError as error:
        raise ValueError(
            f"the runs folder cannot be written to ({error.strerror}). Name another one: retrofit app --runs FOLDER."
        ) from error


# --- deleting -------------------------------------------------------------------------------------


def delete(work: Work, runs: Path) -> None:
    """Delete a piece of work for good. It leaves the list before its files go, so that none is seen in part.

    Args:
        runs: the runs folder, which is locked meanwhile.
    Raises:
        ValueError: it no longer exists, a process is working on it or in it, or the runs folder is read-only.
    """
    folder, leaving = work.folder, work.folder.parent / ".deleted"
    with alone(runs):
        if not folder.exists():
            raise ValueError(f"{work.words} no longer exists.")
        if is_going(folder) or any(worker_lives(note.parent) for note in folder.glob(f"*/*/{WORKER}")):
            raise ValueError(f"{work.words} is still running. Cancel it first.")
        leaving.mkdir(exist_ok=True)
        folder.rename(leaving / work.name)
        shutil.rmtree(leaving, ignore_errors=True)


# --- work on finished runs ------------------------------------------------------------------------


class FollowUp(ABC):
    """Work on a finished run: settings that repeat it, and the name of its folder.

    The folder has settings.json next to the work's files. Its name depends on the settings and the content of the run, so that
    the same work is found again and never repeated.
    """

    kind: ClassVar[Kind]
    tuned: str | None = None
    """Key of the run's fine-tuning that the work includes"""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The settings in plain JSON types."""

    @abstractmethod
    def words(self) -> list[str]:
        """The command's options that differ from their defaults, without record and output."""

    def decisive(self) -> dict[str, Any]:
        """The settings that affect numbers, in plain JSON types."""
        return self.to_json()

    def is_done(self, work: Work) -> bool:
        """Whether its folder contains everything requested."""
        return work.state == "done"

    def command(self, record: str) -> str:
        """The command line that does it, from the record's parent folder."""
        return shlex.join(["retrofit", self.kind.command, "--record", record, *self.words()])

    def key(self, record: str | Path) -> str:
        """Ten characters, equal for two pieces of such work exactly if they have the same numbers.

        Raises:
            ValueError: the record cannot be read.
        """
        return files.key_of([self.decisive(), content_of(record)])

    def save(self, folder: str | Path, record: str | Path) -> None:
        """Write settings.json, which also identifies the run."""
        Path(folder).mkdir(parents=True, exist_ok=True)
        files.write(Path(folder) / SETTINGS, json.dumps(self._stored(record), indent=1))

    def check_same(self, folder: str | Path, record: str | Path) -> None:
        """Refuse a folder with other work.

        Raises:
            ValueError: other settings, or another run.
        """
        stored = read_json(Path(folder) / SETTINGS)
        if stored and stored != self._stored(record):
            raise ValueError(
                f"{folder} holds a {self.kind.verb} with other settings, or of another run. Name a new folder."
            )

    def _stored(self, record: str | Path) -> dict[str, Any]:
        return {**self.to_json(), "of": content_of(record)}


def check_schema(folder: str | Path, content: object) -> None:
    """Refuse a run's config.json or status.json in another layout.

    Raises:
        ValueError: what to do with it.
    """
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise ValueError(
            f"{folder}: another version wrote this record. Run it again into a new folder, or read it with that version."
        )


def content_of(record: str | Path) -> str:
    """Digest of everything that work on a finished run depends on: parents, data, fused network.

    Raises:
        ValueError: the record is unreadable, or the run is not finished.
    """
    folder = Path(record)
    content, status = read_json(folder / "config.json"), read_json(folder / STATUS)
    try:
        facts = [content["config"], content["inputs"], status["checksums"]["fused.safetensors"]]
    except (KeyError, TypeError) as error:
        raise ValueError(f"{folder.name} is not the record of a finished run. Finish it first.") from error
    return files.key_of(facts, 64)
