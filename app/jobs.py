"""Runs on disk and the workers that write them: list, start, watch, cancel. No Streamlit, and no torch until a start.

A run's folder is named after its config's key, so the same work has one place. A worker is a process of its own
(`python -m retrofit_core fuse --resume FOLDER`): it outlives page, tab and server. Beside the record it has worker.json
(pid and birth, against reused pids) and worker.log. Workers start in the folder of the shipped parents, so a config
names those by file name alone and has the same key wherever the package is installed.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BUNDLED = Path(__file__).parent / "bundled"
ACTIVE = ("created", "running")
GRACE = 10.0  # seconds in which a worker may be about to be started by another tab
_LOCK = threading.Lock()
#: Popen objects of this server's workers: polling them reaps them.
_CHILDREN: dict[int, subprocess.Popen] = {}


class Busy(ValueError):
    """Another run is going on; this machine does one at a time."""

    def __init__(self, run: str) -> None:
        super().__init__(f"run {run} is still going on. Wait for it, or cancel it first.")
        self.run = run


@dataclass(frozen=True)
class Entry:
    """A run as the lists and the headline need it: its small JSON files, without the levels.

    `runs.read_run` reads the whole record and checks it; that takes torch and, for many runs, too long.
    """

    folder: Path
    config: dict[str, Any]
    status: dict[str, Any]
    metrics: dict[str, Any]
    shipped: bool

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def state(self) -> str:
        """created, running, done, failed, cancelled, or "killed": it should be working and no worker is there."""
        state = self.status["state"]
        if self.shipped or state == "done":
            return state
        alive = worker_is_alive(self.folder)
        if alive and _worker(self.folder).get("started", 0) > self.status.get("updated", 0):
            return "created"  # the status is that of an earlier attempt: this worker is still loading
        return "killed" if state in ACTIVE and not alive else state

    @property
    def accuracy(self) -> float | None:
        """Of the fused network, in per cent, where it was measured."""
        return self.metrics.get("networks", {}).get("fused", {}).get("accuracy")

    @property
    def version(self) -> tuple[str, float]:
        """Changes with the record: what caches go by."""
        return str(self.folder), float(self.status.get("updated", 0))


def runs_folder() -> Path:
    """Where runs go: RETROFIT_RUNS, or ./runs."""
    return Path(os.environ.get("RETROFIT_RUNS") or "runs").absolute()


def read_entry(folder: Path, shipped: bool = False) -> Entry:
    """The small files of a record.

    Raises:
        ValueError: one of them is missing or broken.
    """
    try:
        config = json.loads((folder / "config.json").read_text())["config"]
        path = folder / "status.json"
        status = json.loads(path.read_text()) if path.exists() else {"state": "created"}
        done = status["state"] == "done"
        metrics = json.loads((folder / "metrics.json").read_text()) if done else {}
        return Entry(folder, dict(config), status, metrics, shipped)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"run {folder.name} cannot be read and is left out ({type(error).__name__}: {error})."
        ) from error


def entries(folder: Path | None = None) -> tuple[list[Entry], list[str]]:
    """Shipped runs in their own order, then those of the runs folder, newest first; a sentence for each left out."""
    good, problems = [], []
    places = [(path, True) for path in _order(BUNDLED)]
    places += [(path.parent, False) for path in (folder or runs_folder()).glob("*/config.json")]
    for path, shipped in places:
        try:
            good.append(read_entry(path, shipped))
        except ValueError as error:
            problems.append(str(error))
    return sorted(good, key=lambda entry: (not entry.shipped, 0 if entry.shipped else -_age(entry))), problems


def _order(folder: Path) -> list[Path]:
    facts = folder / "bundle.json"
    return [folder / name for name in json.loads(facts.read_text())["runs"]] if facts.exists() else []


def _age(entry: Entry) -> float:
    return float(entry.status.get("started") or (entry.folder / "config.json").stat().st_mtime)


def class_counts(config: dict[str, Any]) -> list[list[int]] | None:
    """Training images per class of each parent, where the run's splits file is at hand."""
    if not config.get("splits"):
        return None
    try:
        parts = json.loads((BUNDLED / config["splits"]).read_text())["parts"]
        named = {part.get("model"): part["class_counts"] for part in parts}
        return [named[Path(model).name] for model in config["models"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None


# --- start, watch, cancel -------------------------------------------------------------------------


def worker_command(folder: Path) -> list[str]:
    """What a worker runs: the command line's own code."""
    return [sys.executable, "-m", "retrofit_core", "fuse", "--resume", str(folder), "--json"]


def start(config: Any, folder: Path | None = None) -> Path:
    """Start a run, go on with one that was stopped, or return the one that exists; the same work never runs twice.

    Args:
        config: a `runs.RunConfig`; file names are read from the folder of the shipped parents.
        folder: the runs folder.
    Returns:
        The run's folder, which may be a shipped one.
    Raises:
        Busy: another run is going on.
        ValueError: the runs folder cannot be written to.
    """
    from retrofit_core import runs

    wanted = config.to_json()
    with _LOCK:
        known, _ = entries(folder)
        if same := [entry for entry in known if entry.config == wanted and entry.state in ("done", *ACTIVE)]:
            return same[0].folder
        if busy := [entry for entry in known if not entry.shipped and entry.state in ACTIVE]:
            raise Busy(busy[0].name)
        place = (folder or runs_folder()) / config.key()
        try:
            runs.create(place, config)
            (place / "cancel").unlink(missing_ok=True)
            _wait_for_exit(place)
            _spawn(place)
        except OSError as error:
            raise ValueError(
                f"the runs folder cannot be written to ({error.strerror}). Name another one: retrofit app --runs FOLDER."
            ) from error
        return place


def _spawn(place: Path) -> None:
    """Start the worker, unless a server beside this one has just done so."""
    note = place / "worker.json"
    if note.exists() and not worker_is_alive(place):
        note.unlink()
    try:
        file = note.open("x")  # exclusive: of two servers one gets it
    except FileExistsError:
        return
    with file, (place / "worker.log").open("w") as log:
        child = subprocess.Popen(
            worker_command(place), cwd=BUNDLED, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            start_new_session=True,  # survives the server, and Ctrl-C in its terminal
        )  # fmt: skip
        _CHILDREN[child.pid] = child
        json.dump({"pid": child.pid, "birth": _birth(child.pid), "started": time.time()}, file)


def _wait_for_exit(place: Path) -> None:
    """A worker that has just said how its run ended needs a moment to go."""
    for _ in range(50):
        if not worker_is_alive(place):
            return
        time.sleep(0.1)


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
    return _exists(worker["pid"]) and worker["birth"] in (None, _birth(worker["pid"]))


def _exists(pid: int) -> bool:
    child = _CHILDREN.get(pid)
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


def _birth(pid: int) -> str | None:
    """When the process started, in the system's ticks: a pid alone may be reused."""
    fields = _stat(pid)
    return fields[19] if len(fields) > 19 else None


def cancel(folder: Path) -> None:
    """Ask the worker to stop after its current step; it keeps the finished levels."""
    (folder / "cancel").touch()


def failure(entry: Entry) -> str:
    """Why a run ended early, in a sentence, without this machine's paths."""
    if entry.state == "cancelled":
        return f"Cancelled. {_kept(entry)}"
    if entry.state == "killed":
        child = _CHILDREN.get(_worker(entry.folder).get("pid", -1))
        how = f" by {signal.Signals(-child.returncode).name}" if child and (child.returncode or 0) < 0 else ""
        return f"The worker was killed{how} before it finished. {_kept(entry)}"
    return f"Failed: {entry.status.get('error') or 'no reason was recorded.'} {_kept(entry)}"


def _kept(entry: Entry) -> str:
    done = entry.status.get("levels_done", entry.status.get("level", 0))
    total = entry.status.get("levels")
    return f"{done} of {total} levels were finished and are kept." if total else "No level was finished."


def _worker(folder: Path) -> dict[str, Any]:
    """worker.json, or nothing."""
    try:
        return json.loads((folder / "worker.json").read_text())
    except (OSError, ValueError):
        return {}


def log_tail(folder: Path, lines: int = 12) -> str:
    """The end of the worker's output, with home and runs folder shortened."""
    try:
        text = (folder / "worker.log").read_text(errors="replace")
    except OSError:
        return ""
    tail = "\n".join(text.splitlines()[-lines:])
    return tail.replace(str(folder.parent), "RUNS").replace(str(Path.home()), "~")
