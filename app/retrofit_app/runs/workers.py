"""Starting, resuming and cancelling the workers of runs."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from retrofit_core import files
from retrofit_core.runs.standing import ACTIVE, NOTES, WORKER, birth_of, worker_lives

from .children import CHILDREN
from .listing import entries, same_work
from .records import Entry, home, read_entry, runs_folder

_LOCK = threading.Lock()


class Busy(ValueError):
    """Another run or analysis is going on; this machine does one at a time."""

    def __init__(self, run: str, what: str = "run") -> None:
        super().__init__(f"{what} {run} is still going on. Wait for it, or cancel it first.")
        self.run = run


def worker_command(folder: Path, work: str = "fuse") -> list[str]:
    """What a worker runs: the command line's own code."""
    words = ["analyse"] if work == "analyse" else ["fuse", "--resume"]
    return [sys.executable, "-m", "retrofit_core", *words, str(folder), "--json"]


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
    if training is not None:
        _check_pair(config, training)
    with _LOCK:
        if same := _existing(config, folder):
            return same
        base = home(wanted, folder)
        record = record_folder(folder, config, base)
        with _writing():
            if training is not None:
                _note_training(training, folder)
            _check_files(wanted, folder)
            create(record, config, base)
            _launch(record, base)
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
    wanted = config.to_json()
    with _LOCK:
        if same := _existing(config, folder.parent):
            return same
        _check_files(wanted, folder.parent)
        base = home(wanted, folder.parent)
        with _writing():
            try:
                create(folder, config, base)
            except ValueError as error:
                raise ValueError(str(error).replace(str(folder), f"run {folder.name}")) from error
            _launch(folder, base)
    return folder


def analyse(folder: Path) -> None:
    """Start the worker that adds the analysis to a finished run, unless it is at work already.

    Raises:
        Busy: another run or analysis is going on.
        ValueError: the record cannot be read, a checkpoint is missing, or the folder cannot be written to.
    """
    folder = folder.absolute()
    entry = read_entry(folder)
    with _LOCK:
        if entry.analysing:
            return
        _check_idle(entries(folder.parent)[0])
        _check_files(entry.config, folder.parent)
        with _writing():
            files.write(folder / NOTES, json.dumps({"state": "running", "name": "starting the worker"}))
            _launch(folder, home(entry.config, folder.parent), "analyse")


def _existing(config: Any, folder: Path) -> Path | None:
    """The run of this work that is done or going on.

    Raises:
        Busy: none, and other work is going on.
    """
    recorded, _ = entries(folder)
    if same := same_work(config, recorded, folder):
        return same.folder
    _check_idle(recorded)
    return None


def _check_idle(runs: list[Entry]) -> None:
    """One worker at a time."""
    for entry in runs:
        if entry.analysing:
            raise Busy(entry.name, "the analysis of run")
        if not entry.shipped and entry.state in ACTIVE:
            raise Busy(entry.name)


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


def _check_files(config: dict[str, Any], folder: Path) -> None:
    """Refuse, before a worker starts, networks that it could neither read nor train."""
    base = home(config, folder)
    for name in config["models"]:
        path = base / name
        if not path.exists() and not (path.parent / "training.json").exists():
            raise ValueError(
                f"there is no checkpoint {name} in the runs folder. Train the networks again, or choose others."
            )


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ValueError(
            f"the runs folder cannot be written to ({error.strerror}). Name another one: retrofit app --runs FOLDER."
        ) from error


def _launch(record: Path, base: Path, work: str = "fuse") -> None:
    (record / "cancel").unlink(missing_ok=True)
    _wait_for_exit(record)
    _spawn(record, base, work)


def _spawn(record: Path, base: Path, work: str = "fuse") -> None:
    """Start the worker in the folder `base`, unless a server beside this one has just done so."""
    note = record / WORKER
    if note.exists() and not worker_lives(record):
        note.unlink()
    try:
        file = note.open("x")  # exclusive: of two servers one gets it
    except FileExistsError:
        return
    with file, (record / "worker.log").open("w") as log:
        child = subprocess.Popen(
            worker_command(record, work),
            cwd=base,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # survives the server, and Ctrl-C in its terminal
        )
        CHILDREN[child.pid] = child
        json.dump({"pid": child.pid, "birth": birth_of(child.pid), "started": time.time(), "work": work}, file)


def _wait_for_exit(record: Path) -> None:
    """Wait, for five seconds at most, until the last worker of a record is gone: it outlives its last line a little."""
    for _ in range(50):
        if not worker_lives(record):
            return
        time.sleep(0.1)


def cancel(folder: Path) -> None:
    """Ask the worker to stop after its current step; it keeps the finished levels."""
    (folder / "cancel").touch()
