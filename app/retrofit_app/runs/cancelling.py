"""Cancelling a worker: it is asked first, and ended with all that it has started where it does not answer in time."""

import json
import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from retrofit_core.runs.standing import WORKER, lives, worker_lives, worker_of
from retrofit_core.system import files

#: Its existence asks the worker of a folder to stop after its current step.
ASKED = "cancel"
#: Seconds that a worker has for its current step, and then for ending when it is told to.
PATIENCE, GRACE = 30.0, 5.0
POLL = 0.1


def cancel(folder: Path) -> None:
    """Ask the worker to stop after its current step; it keeps the finished levels. One that does not is ended later."""
    (folder / ASKED).touch()
    threading.Thread(target=_insist, args=(folder,), daemon=True).start()


def was_asked(folder: Path) -> bool:
    """Whether somebody wants the worker to stop."""
    return (folder / ASKED).exists()


def was_ended(folder: Path) -> bool:
    """Whether the last worker did not stop when it was asked to, and was ended."""
    return bool(worker_of(folder).get("ended"))


def end_overdue(folder: Path) -> None:
    """End a worker that was asked to stop long ago, by a server that has ended meanwhile, too."""
    try:
        asked = (folder / ASKED).stat().st_mtime
    except OSError:
        return
    if time.time() - asked > PATIENCE and worker_lives(folder):
        _end(folder, worker_of(folder))


def _insist(folder: Path) -> None:
    worker, deadline = worker_of(folder), time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if "pid" not in worker or not lives(worker["pid"], worker.get("birth")):
            return
        time.sleep(POLL)
    _end(folder, worker)


def _end(folder: Path, worker: dict[str, Any]) -> None:
    """Tell a worker's group of processes to end, end what is left of it after GRACE, and note that."""
    pid, birth = worker.get("pid"), worker.get("birth")
    if pid is None or not lives(pid, birth):
        return
    _signal_group(pid, hard=False)
    deadline = time.monotonic() + GRACE
    while lives(pid, birth) and time.monotonic() < deadline:
        time.sleep(POLL)
    _signal_group(pid, hard=True)
    while lives(pid, birth):  # the system is at it
        time.sleep(POLL)
    if worker_of(folder) == worker:  # no other one was started meanwhile
        files.write(folder / WORKER, json.dumps({**worker, "ended": True}))
        (folder / ASKED).unlink(missing_ok=True)


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
