"""Which processes are at work: worker.json, and reused pids told apart."""

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

GRACE = 10.0  # seconds in which a worker may be about to be started by another tab
#: Popen objects of this server's workers: polling them reaps them.
CHILDREN: dict[int, subprocess.Popen] = {}


def worker_is_alive(folder: Path) -> bool:
    """Whether the record's worker is at work (or, for a moment, about to be). Runs of the command line have no
    worker.json; their own status tells the process."""
    note = folder / "worker.json"
    try:
        if not note.exists():
            status = json.loads((folder / "status.json").read_text())
            return _exists(int(status["pid"]))
        content = note.read_text()
        if not content:
            return time.time() - note.stat().st_mtime < GRACE
        worker = json.loads(content)
    except (OSError, ValueError, KeyError):
        return False
    return _exists(worker["pid"]) and worker["birth"] in (None, birth_of(worker["pid"]))


def _exists(pid: int) -> bool:
    child = CHILDREN.get(pid)
    if child is not None:
        return child.poll() is None
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return _stat(pid)[:1] != ["Z"]


def _stat(pid: int) -> list[str]:
    """Fields of /proc/PID/stat from the state on; nothing where there is no /proc."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def birth_of(pid: int) -> str | None:
    """When the process started, in the system's ticks: a pid alone may be reused."""
    fields = _stat(pid)
    return fields[19] if len(fields) > 19 else None


def worker_note(folder: Path) -> dict[str, Any]:
    """worker.json, or nothing."""
    try:
        return json.loads((folder / "worker.json").read_text())
    except (OSError, ValueError):
        return {}
