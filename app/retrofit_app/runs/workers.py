"""Starting, resuming and cancelling workers: one at a time in a runs folder, whichever server starts it."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from retrofit_core.runs.standing import NOTES, WORKER, birth_of, worker_lives, worker_of
from retrofit_core.system import files

from . import cancelling, jobs
from .children import CHILDREN
from .jobs import WORDS, Job
from .listing import entries, same_work
from .records import home, read_entry, runs_folder

#: Held in the runs folder while somebody looks whether a worker may start, and starts it.
STARTING = ".starting"
#: Where workers note themselves in a runs folder: runs, parents, leaderboards, what is kept of shipped runs and of its own.
ANYWHERE = (
    f"*/{WORKER}",
    f"comparisons/*/{WORKER}",
    *(f"{of}{what}/*/{WORKER}" for what in ("landscapes", "finetunings") for of in ("", "*/")),
)
#: Seconds that a start waits for that of another session or server.
PATIENCE = 60.0
#: Of workers, where it is a number: 19 is the lowest priority.
NICENESS = 10


class Busy(ValueError):
    """Other work is going on; this machine does one at a time."""

    def __init__(self, run: str, kind: str = "fuse") -> None:
        what = WORDS.get(kind, f"the work ({kind}) in")
        super().__init__(f"{what} {run} is still going on. Wait for it, or cancel it first.")
        self.run = run


def worker_command(job: Job) -> list[str]:
    """What a worker runs: the command line's own code."""
    return [sys.executable, "-m", "retrofit_core", *job.words, "--json"]


def begin(job: Job) -> None:
    """Start any work, unless it is going on already.

    Raises:
        Busy: other work is going on.
        ValueError: the folder cannot be written to, or another server is starting something.
    """
    with alone(job.within):
        if worker_lives(job.folder) and worker_of(job.folder).get("work") == job.kind:
            return
        _check_idle(job.within)
        job.folder.mkdir(parents=True, exist_ok=True)
        _launch(job)


def start(config: Any, training: Any = None, folder: Path | None = None) -> Path:
    """Start a run, go on with one that was stopped, or return the one that exists; the same work never runs twice.

    Args:
        config: a `runs.RunConfig`; for file names see `home`.
        training: the `TrainConfig` of its parents, if the worker shall train those that are not there yet.
        folder: the runs folder.
    Returns:
        The run's folder, which may be a shipped one.
    Raises:
        Busy: another run is going on.
        ValueError: config and training do not belong together, a checkpoint is missing, or the runs folder cannot be
            written to.
    """
    from retrofit_core.runs import create, record_folder

    folder = (folder or runs_folder()).absolute()
    wanted = config.to_json()
    base = home(wanted, folder)
    if training is not None:
        _check_pair(config, training)
    else:
        _check_files(wanted, base)
    if same := same_work(config, entries(folder)[0], base):  # nothing is written for it, not even a lock
        return same.folder
    with alone(folder):
        if same := _existing(config, folder, base):
            return same
        record = record_folder(folder, config, base)
        if training is not None:
            _note_training(training, folder)
        _check_files(wanted, base)
        create(record, config, base)
        _launch(jobs.fusion(record, base))
    return record


def resume(folder: Path) -> Path:
    """Go on with a run that ended early, as its record says, after its last finished epoch or level.

    Raises:
        Busy: another run is going on.
        ValueError: the record cannot be read, its files have changed since, a checkpoint is missing, or the folder cannot be
            written to.
    """
    from retrofit_core.runs import create, read_config

    folder = folder.absolute()
    config = read_config(folder)
    base = read_entry(folder).base
    with alone(folder.parent):
        if same := _existing(config, folder.parent, base):
            return same
        _check_files(config.to_json(), base)
        try:
            create(folder, config, base)
        except ValueError as error:
            raise ValueError(str(error).replace(str(folder), f"run {folder.name}")) from error
        _launch(jobs.fusion(folder, base))
    return folder


def analyse(folder: Path) -> None:
    """Start the worker that adds the analysis to a finished run, unless it is at work already.

    Raises:
        Busy: another run or analysis is going on.
        ValueError: the record cannot be read, a checkpoint is missing, or the folder cannot be written to.
    """
    folder = folder.absolute()
    entry = read_entry(folder)
    with alone(folder.parent):
        if entry.analysing:
            return
        _check_idle(folder.parent)
        _check_files(entry.config, entry.base)
        files.write(folder / NOTES, json.dumps({"state": "running", "name": "starting the worker"}))
        _launch(jobs.analysis(folder, entry.base))


def _existing(config: Any, folder: Path, base: Path) -> Path | None:
    """The run of this work that is done or going on.

    Raises:
        Busy: none, and other work is going on.
    """
    if same := same_work(config, entries(folder)[0], base):
        return same.folder
    _check_idle(folder)
    return None


def _check_idle(folder: Path) -> None:
    """One worker at a time, and one run of the command line."""
    recorded, _ = entries(folder)
    for entry in recorded:
        cancelling.end_overdue(entry.folder)
        if entry.analysing:
            raise Busy(entry.name, "analyse")
        if not entry.shipped and entry.active:
            raise Busy(entry.name)
    # The worker of a record may outlive its end by a moment; other work has no record that says when it has ended.
    known = {entry.folder for entry in recorded}
    for note in (note for pattern in ANYWHERE for note in folder.glob(pattern)):
        cancelling.end_overdue(note.parent)
        if note.parent not in known and worker_lives(note.parent):
            raise Busy(note.parent.name, worker_of(note.parent).get("work", ""))


def _check_pair(config: Any, training: Any) -> None:
    """The run must fuse what the training writes, on its data."""
    if tuple(config.models) != training.files() or config.splits != training.splits():
        raise ValueError(
            f"the run fuses {', '.join(config.models)} with the splits {config.splits}, but its training writes "
            f"{', '.join(training.files())} and {training.splits()}: give the run these names."
        )
    for name in ("data", "mean", "std", "size"):
        if getattr(config, name) != getattr(training, name):
            raise ValueError(
                f"the parents are trained with {name} {getattr(training, name)} and fused with {name} "
                f"{getattr(config, name)}: choose one for both."
            )


def _note_training(training: Any, folder: Path) -> None:
    """training.json beside the parents, from which the worker trains those that are missing."""
    from retrofit_core.training.parents import read_training, write_training

    parents = folder / training.folder
    recorded = read_training(parents)
    if recorded is None:
        parents.mkdir(parents=True, exist_ok=True)
        write_training(training, parents)
    elif recorded != training:
        raise ValueError(f"{training.folder} holds the parents of another training. Remove that folder.")


def _check_files(config: dict[str, Any], base: Path) -> None:
    """Refuse, before a worker starts, networks that it could neither read nor train."""
    for name in config["models"]:
        path = base / name
        if not path.exists() and not (path.parent / "training.json").exists():
            raise ValueError(
                f"there is no checkpoint {name} in the runs folder. Train the networks again, or choose others."
            )


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold the right to start something in a runs folder, against other sessions and servers."""
    try:
        with files.locked(folder, "the runs folder", name=STARTING, patience=PATIENCE):
            yield
    except OSError as error:
        raise ValueError(
            f"the runs folder cannot be written to ({error.strerror}). Name another one: retrofit app --runs FOLDER."
        ) from error


def _launch(job: Job) -> None:
    """Start the worker; the runs folder is held."""
    (job.folder / cancelling.ASKED).unlink(missing_ok=True)
    _wait_for_exit(job.folder)
    with (job.folder / WORKER).open("w") as note, (job.folder / "worker.log").open("w") as log:
        child = subprocess.Popen(
            worker_command(job),
            cwd=job.base,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # survives the server, and Ctrl-C in its terminal
        )
        CHILDREN[child.pid] = child
        _step_back(child.pid)
        json.dump({"pid": child.pid, "birth": birth_of(child.pid), "started": time.time(), "work": job.kind}, note)


def _step_back(pid: int) -> None:
    """Give a process a low priority: whoever works at this machine goes first."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        lower = getattr(psutil, "BELOW_NORMAL_PRIORITY_CLASS", None)  # on Windows
        process.nice(lower or max(NICENESS, process.nice()))


def _wait_for_exit(record: Path) -> None:
    """Wait, for five seconds at most, until the last worker of a record is gone: it outlives its last line a little.

    Raises:
        Busy: it does not go.
    """
    for _ in range(50):
        if not worker_lives(record):
            return
        time.sleep(0.1)
    raise Busy(record.name, worker_of(record).get("work", ""))
