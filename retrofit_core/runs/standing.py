"""The state of a run, read from its folder. Does not import torch, so that lists of runs are read quickly."""

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from ..system.files import is_locked

STATES = ("created", "running", "done", "failed", "cancelled")
#: A process works on it, or is about to.
ACTIVE = ("created", "running")
#: Written by whoever starts a process for a run: {"pid", "birth", "started", "work"}.
WORKER = "worker.json"
#: Of an analysis that is added later; gone once it is in the record.
NOTES = "analysing.json"
#: Seconds in which an empty worker.json means that a process is just being started.
GRACE = 10.0
#: Seconds by which two readings of a process's start may differ, as the clock is put right in between.
CLOCK = 2.0


def state_of(folder: str | Path, status: Mapping[str, Any]) -> str:
    """One of STATES, or "interrupted" for a run that has not ended and on which no process works.

    A process works on it if it holds the record's lock, or if it was started for the run, is alive and is still loading.

    Args:
        status: the content of status.json.
    """
    state = status["state"]
    if state == "done":
        return state
    started = worker_lives(folder)
    if started and worker_of(folder).get("started", 0) > status.get("updated", 0):
        return "created"  # the status is that of an earlier attempt: this process is still loading
    return "interrupted" if state in ACTIVE and not started and not is_locked(folder) else state


def analysis_notes(folder: str | Path) -> dict[str, Any]:
    """State and progress of an analysis: state ("running", "failed", "cancelled" or "interrupted"), name, index, total,
    error. Empty where none was begun, or the last one is in the record."""
    notes = _read(Path(folder) / NOTES)
    if notes.get("state") == "running" and not worker_lives(folder) and not is_locked(folder):
        return {**notes, "state": "interrupted"}
    return notes


def worker_of(folder: str | Path) -> dict[str, Any]:
    """worker.json, or nothing."""
    return _read(Path(folder) / WORKER)


def worker_lives(folder: str | Path) -> bool:
    """Whether the process that worker.json names is alive or being started."""
    path = Path(folder) / WORKER
    try:
        if not path.stat().st_size:
            return time.time() - path.stat().st_mtime < GRACE
    except OSError:
        return False
    worker = worker_of(folder)
    return "pid" in worker and lives(worker["pid"], worker.get("birth"))


def birth_of(pid: int) -> float | None:
    """When a process started, in seconds since 1970: a pid alone may be used again. None where there is none."""
    try:
        return psutil.Process(pid).create_time()
    except psutil.Error:
        return None


def lives(pid: int, birth: float | None = None) -> bool:
    """Whether a process is there, and is the one that started at this time."""
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return birth is None or abs(process.create_time() - birth) < CLOCK
    except psutil.Error:
        return False


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
