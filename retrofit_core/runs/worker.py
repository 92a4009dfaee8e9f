"""Worker processes: one at a time per runs folder, whichever server starts it; cancelled first by request, then by force.

A worker runs the command line's code in its own process, which outlives page, tab and server. Its folder contains worker.json
(pid and start time, against reused pids) and worker.log.
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
#: Seconds for a worker to finish its current step, and then to end after SIGTERM.
PATIENCE, GRACE = 30.0, 5.0
POLL = 0.1
#: Seconds for a worker to exit after its last line.
FAREWELL = 20.0
#: Niceness of workers; 19 is the lowest priority.
NICENESS = 10
#: Workers that this process started, by pid, to reap when they end.
CHILDREN: dict[int, subprocess.Popen] = {}


class Busy(ValueError):
    """Other work is running; this machine does one piece at a time."""

    def __init__(self, work: Work) -> None:
        super().__init__(f"{work.kind.words} {work.name} is still running. Wait for it, or cancel it first.")
        self.run = work.name


@dataclass(frozen=True)
class Job:
    """A piece of work for a worker."""

    work: Work
    words: tuple[str, ...]
    """Arguments of the command"""
    base: Path
    """Working directory: file names in its configuration are relative to it"""
    runs: Path
    """The runs folder, which allows one worker at a time"""


def command_of(job: Job) -> list[str]:
    """The command line of a worker, which imports nothing from its working folder (-P)."""
    return [sys.executable, "-P", "-m", "retrofit_core", job.work.kind.command, *job.words, "--json"]


def begin(job: Job) -> None:
    """Start work, unless it is already running.

    Raises:
        Busy: other work is running.
        ValueError: the folder is read-only, or another server is starting something.
    """
    with store.alone(job.runs):
        if job.work.going:
            return
        check_idle(job.runs)
        job.work.folder.mkdir(parents=True, exist_ok=True)
        files.write(job.work.folder / NOTES, json.dumps({"state": "running", "name": "starting the worker"}))
        launch(job)


def check_idle(runs: Path) -> None:
    """Require that no worker and no run of the command line is active.

    Raises:
        Busy: other work is running.
    """
    for folder in store.noting_a_process(runs):
        _end_overdue(folder)
        if store.is_going(folder):
            raise Busy(store.work_in(folder))


def launch(job: Job) -> None:
    """Start the worker; call it with the runs folder locked.

    Raises:
        Busy: an earlier worker of this work does not exit.
    """
    folder = job.work.folder
    (folder / CANCEL).unlink(missing_ok=True)
    deadline = time.monotonic() + FAREWELL
    while worker_lives(folder):
        if time.monotonic() > deadline:
            raise Busy(store.work_in(folder))
        time.sleep(POLL)
    own, note = os.getpid(), {"started": time.time(), "work": job.work.kind.verb}
    # A busy machine may take long to start a process: until then, record its starter.
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
    with suppress(psutil.Error):  # so that users of this machine go first
        process = psutil.Process(child.pid)
        process.nice(max(NICENESS, process.nice()))
    birth = store.birth_of(child.pid)
    files.write(folder / WORKER, json.dumps({**note, "pid": child.pid, "birth": birth}))


def exit_code(pid: int) -> int | None:
    """Exit code of a worker of this process (negative: minus the signal); None while it runs and for other processes."""
    child = CHILDREN.get(pid)
    return None if child is None else child.poll()


# --- stopping -------------------------------------------------------------------------------------


def cancel(folder: Path) -> None:
    """Ask the worker to stop after its current step, keeping finished work; kill it later if it does not."""
    (folder / CANCEL).touch()
    threading.Thread(target=_insist, args=(folder,), daemon=True).start()


def was_asked(folder: Path) -> bool:
    """Whether the worker was asked to stop."""
    return (folder / CANCEL).exists()


def was_ended(folder: Path) -> bool:
    """Whether the last worker did not stop on request and was killed."""
    return bool(worker_of(folder).get("ended"))


def _end_overdue(folder: Path) -> None:
    """Kill a worker that was asked to stop long ago, even if by a server that has since ended."""
    with suppress(OSError):
        asked = (folder / CANCEL).stat().st_mtime
        if time.time() - asked > PATIENCE and worker_lives(folder):
            _end(folder, worker_of(folder))


def _insist(folder: Path) -> None:
    worker = worker_of(folder)
    if not _gone(worker, PATIENCE):
        _end(folder, worker)


def _end(folder: Path, worker: dict[str, Any]) -> None:
    """Terminate a worker's process group, kill the rest after GRACE, and record that."""
    if _gone(worker, 0.0):
        return
    _signal_group(worker["pid"], hard=False)
    _gone(worker, GRACE)
    _signal_group(worker["pid"], hard=True)
    _gone(worker, float("inf"))  # the kernel ends it
    if worker_of(folder) == worker:  # no new one was started meanwhile
        files.write(folder / WORKER, json.dumps({**worker, "ended": True}))
        (folder / CANCEL).unlink(missing_ok=True)


def _gone(worker: dict[str, Any], seconds: float) -> bool:
    """Whether a worker ends within this time."""
    deadline = time.monotonic() + seconds
    while "pid" in worker and lives(worker["pid"], worker.get("birth")):
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL)
    return True


def _signal_group(pid: int, hard: bool) -> None:
    with suppress(ProcessLookupError):  # a worker leads its own group
        os.killpg(pid, signal.SIGKILL if hard else signal.SIGTERM)
