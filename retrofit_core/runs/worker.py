"""Processes that do kept work: one at a time in a runs folder, whichever server starts it; asked to stop first, then ended.

A worker is the command line's own code in a process of its own, which outlives page, tab and server. In the folder in which
it writes lie worker.json (pid and birth, against reused pids) and worker.log.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from ..system import files
from . import store
from .store import CANCEL, NOTES, WORKER, Work, lives, worker_lives, worker_of

LOG = "worker.log"
#: Seconds that a worker has for its current step, and then for ending when it is told to.
PATIENCE, GRACE = 30.0, 5.0
POLL = 0.1
#: Seconds in which a worker that has said its last line is gone.
FAREWELL = 5.0
#: Of workers, where it is a number: 19 is the lowest priority.
NICENESS = 10
#: The workers that this process started, by pid, to be reaped when they have ended.
CHILDREN: dict[int, subprocess.Popen] = {}


class Busy(ValueError):
    """Other work is going on; this machine does one at a time."""

    def __init__(self, work: Work) -> None:
        super().__init__(f"{work.kind.words} {work.name} is still running. Wait for it, or cancel it first.")
        self.run = work.name


@dataclass(frozen=True)
class Job:
    """A piece of work for a worker."""

    work: Work
    words: tuple[str, ...]
    """Of the command line, behind the command"""
    base: Path
    """Where it starts: file names in its configuration are relative to it"""
    runs: Path
    """The runs folder, in which one worker is at work at a time"""


def command_of(job: Job) -> list[str]:
    """What a worker runs: the command line's own code."""
    return [sys.executable, "-m", "retrofit_core", job.work.kind.verb, *job.words, "--json"]


def begin(job: Job) -> None:
    """Start any work, unless it is going on already.

    Raises:
        Busy: other work is going on.
        ValueError: the folder cannot be written to, or another server is starting something.
    """
    with store.alone(job.runs):
        if job.work.going:
            return
        check_idle(job.runs)
        job.work.folder.mkdir(parents=True, exist_ok=True)
        files.write(job.work.folder / NOTES, json.dumps({"state": "running", "name": "starting the worker"}))
        launch(job)


def check_idle(runs: Path) -> None:
    """One worker at a time, and one run of the command line.

    Raises:
        Busy: other work is going on.
    """
    for folder in store.noting_a_process(runs):
        _end_overdue(folder)
        if store.is_going(folder):
            raise Busy(store.work_in(folder))


def launch(job: Job) -> None:
    """Start the worker; the runs folder is held.

    Raises:
        Busy: an earlier worker of this work does not go.
    """
    folder = job.work.folder
    (folder / CANCEL).unlink(missing_ok=True)
    deadline = time.monotonic() + FAREWELL
    while worker_lives(folder):
        if time.monotonic() > deadline:
            raise Busy(store.work_in(folder))
        time.sleep(POLL)
    own, note = os.getpid(), {"started": time.time(), "work": job.work.kind.verb}
    # A busy machine may take long to start a process: until then its starter stands for it.
    files.write(folder / WORKER, json.dumps({**note, "starter": own, "birth": store.birth_of(own)}))
    try:
        with (folder / LOG).open("w") as log:
            child = subprocess.Popen(
                command_of(job),
                cwd=job.base,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # survives the server, and Ctrl-C in its terminal
            )
    except OSError:
        (folder / WORKER).unlink()
        raise
    CHILDREN[child.pid] = child
    _step_back(child.pid)
    birth = store.birth_of(child.pid)
    files.write(folder / WORKER, json.dumps({**note, "pid": child.pid, "birth": birth}))


def exit_code(pid: int) -> int | None:
    """How a worker of this process ended (below zero: minus the signal); None while it lives and for other processes."""
    child = CHILDREN.get(pid)
    return None if child is None else child.poll()


def _step_back(pid: int) -> None:
    """Give a process a low priority: whoever works at this machine goes first."""
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        lower = getattr(psutil, "BELOW_NORMAL_PRIORITY_CLASS", None)  # on Windows
        process.nice(lower or max(NICENESS, process.nice()))


# --- stopping -------------------------------------------------------------------------------------


def cancel(folder: Path) -> None:
    """Ask the worker to stop after its current step; what is finished is kept. One that does not is ended later."""
    (folder / CANCEL).touch()
    threading.Thread(target=_insist, args=(folder,), daemon=True).start()


def was_asked(folder: Path) -> bool:
    """Whether somebody wants the worker to stop."""
    return (folder / CANCEL).exists()


def was_ended(folder: Path) -> bool:
    """Whether the last worker did not stop when it was asked to, and was ended."""
    return bool(worker_of(folder).get("ended"))


def _end_overdue(folder: Path) -> None:
    """End a worker that was asked to stop long ago, by a server that has ended meanwhile, too."""
    with suppress(OSError):
        asked = (folder / CANCEL).stat().st_mtime
        if time.time() - asked > PATIENCE and worker_lives(folder):
            _end(folder, worker_of(folder))


def _insist(folder: Path) -> None:
    worker = worker_of(folder)
    if not _gone(worker, PATIENCE):
        _end(folder, worker)


def _end(folder: Path, worker: dict[str, Any]) -> None:
    """Tell a worker's group of processes to end, end what is left of it after GRACE, and note that."""
    if _gone(worker, 0.0):
        return
    _signal_group(worker["pid"], hard=False)
    _gone(worker, GRACE)
    _signal_group(worker["pid"], hard=True)
    _gone(worker, float("inf"))  # the system is at it
    if worker_of(folder) == worker:  # no other one was started meanwhile
        files.write(folder / WORKER, json.dumps({**worker, "ended": True}))
        (folder / CANCEL).unlink(missing_ok=True)


def _gone(worker: dict[str, Any], seconds: float) -> bool:
    """Whether a worker ends within so many seconds."""
    deadline = time.monotonic() + seconds
    while "pid" in worker and lives(worker["pid"], worker.get("birth")):
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL)
    return True


def _signal_group(pid: int, hard: bool) -> None:
    if hasattr(os, "killpg"):  # a worker leads a group of its own
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL if hard else signal.SIGTERM)
        return
    with suppress(psutil.Error):
        process = psutil.Process(pid)
        for each in [*process.children(recursive=True), process]:
            with suppress(psutil.Error):
                each.kill() if hard else each.terminate()
