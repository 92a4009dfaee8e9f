"""Runs on disk and the workers that write them: list, start, watch, cancel. No Streamlit, and no torch until a start.

A run's folder is named after its config's key, so the same work has one place. A worker is a process of its own
(`python -m retrofit_core fuse --resume FOLDER`): it outlives page, tab and server. Beside the record it has worker.json
(pid and birth, against reused pids) and worker.log.

File names in a config are relative to where its worker starts: the folder of the shipped parents for a config that names
those, so that it has the same key wherever the package is installed, else the runs folder. There, parents that a run
trains itself lie in parents-KEY (the key of their `TrainConfig`, which is in training.json); runs share them.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BUNDLED = Path(__file__).parent / "bundled"
ACTIVE = ("created", "running")
NOTES = "analysing.json"  # as retrofit_core.runs writes them, which is not imported here: it needs torch
GRACE = 10.0  # seconds in which a worker may be about to be started by another tab
_LOCK = threading.Lock()
#: Popen objects of this server's workers: polling them reaps them.
_CHILDREN: dict[int, subprocess.Popen] = {}


class Busy(ValueError):
    """Another run or analysis is going on; this machine does one at a time."""

    def __init__(self, run: str, what: str = "run") -> None:
        super().__init__(f"{what} {run} is still going on. Wait for it, or cancel it first.")
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
    training: dict[str, Any] | None = None
    """The TrainConfig of its parents as JSON, where they were trained by the workbench or the command line"""

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
    def active(self) -> bool:
        """Whether a worker is at it."""
        return self.state in ACTIVE

    @property
    def analysing(self) -> bool:
        """Whether a worker adds the analysis to this finished run."""
        return not self.shipped and _worker(self.folder).get("work") == "analyse" and worker_is_alive(self.folder)

    @property
    def resumable(self) -> bool:
        """Whether it ended early, so that `resume` goes on with it."""
        return self.state in ("failed", "cancelled", "killed")

    @property
    def phase(self) -> str:
        """What goes on, or where it ended: starting, reading, training, fusion, measuring, analysis."""
        return "starting" if self.state == "created" else self.status.get("stage", "fusion")

    @property
    def progress(self) -> float:
        """How much of the phase is done, 0 to 1."""
        if self.state == "done":
            return 1.0
        return 0.0 if self.phase == "starting" else _share(self.status, self.phase)

    @property
    def left(self) -> float | None:
        """Seconds until the phase ends, at its pace so far; None where that cannot be told yet."""
        if self.state != "running" or "stage_started" not in self.status:
            return None
        begun = _share(self.status["first"], self.phase) if "first" in self.status else 0.0
        done, spent = self.progress - begun, self.status["updated"] - self.status["stage_started"]
        if done < 0.01 or spent < 1:
            return None
        return max(0.0, spent / done * (1 - self.progress) - (time.time() - self.status["updated"]))

    @property
    def accuracy(self) -> float | None:
        """Of the fused network, in per cent, where it was measured."""
        return self.metrics.get("networks", {}).get("fused", {}).get("accuracy")

    @property
    def version(self) -> tuple[str, float]:
        """Changes with the record: what caches go by."""
        return str(self.folder), float(self.status.get("updated", 0))


def _share(status: dict[str, Any], phase: str) -> float:
    """The part of a phase that is done, from what the status tells of it."""

    def ratio(part: str, whole: str, before: int = 0) -> float:
        return (status.get(part, before) - before) / (status.get(whole) or 1)

    if phase == "training":  # the epoch that is going on counts from 1
        epoch = (status.get("epoch", 1) - 1 + ratio("step", "steps")) / (status.get("epochs") or 1)
        done = (status.get("parent", 0) + epoch) / (status.get("parents") or 1)
    elif phase == "fusion":
        inside = ratio("epoch", "epochs") if "epochs" in status else ratio("step", "steps") / 2
        done = (status.get("level", 0) + inside) / status["levels"] if status.get("levels") else 0.0
    else:
        done = ratio("step", "steps")
    return min(max(done, 0.0), 1.0)


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
        return Entry(folder, dict(config), status, metrics, shipped, _training(dict(config), folder.parent))
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


def past(known: list[Entry]) -> list[dict[str, Any]]:
    """What `estimate` learns from: finished runs of this machine, newest first, with the seconds of their stages."""
    return [
        {"config": entry.config, "training": entry.training, "stages": entry.status["stages"]}
        for entry in known
        if entry.state == "done" and not entry.shipped and entry.status.get("stages")
    ]


def _order(folder: Path) -> list[Path]:
    facts = folder / "bundle.json"
    return [folder / name for name in json.loads(facts.read_text())["runs"]] if facts.exists() else []


def _age(entry: Entry) -> float:
    return float(entry.status.get("started") or (entry.folder / "config.json").stat().st_mtime)


def home(config: dict[str, Any], folder: Path | None = None) -> Path:
    """The folder from which the file names in a config are read, and in which its worker starts."""
    names = [Path(name) for name in config["models"]]
    shipped = all(len(name.parts) == 1 and (BUNDLED / name).exists() for name in names)
    return BUNDLED if shipped else (folder or runs_folder())


def _training(config: dict[str, Any], folder: Path) -> dict[str, Any] | None:
    """What training.json beside the parents says; nothing where there is none that can be read."""
    try:
        path = (home(config, folder) / config["models"][0]).parent / "training.json"
        return dict(json.loads(path.read_text())["training"])
    except (OSError, ValueError, KeyError, TypeError, IndexError):
        return None


def class_counts(config: dict[str, Any], folder: Path | None = None) -> list[list[int]] | None:
    """Training images per class of each parent, where the run's splits file is at hand."""
    if not config.get("splits"):
        return None
    try:
        parts = json.loads((home(config, folder) / config["splits"]).read_text())["parts"]
        named = {part.get("model"): part["class_counts"] for part in parts}
        return [named[Path(model).name] for model in config["models"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None


# --- start, watch, cancel -------------------------------------------------------------------------


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
    from retrofit_core import runs

    folder = (folder or runs_folder()).absolute()
    wanted = config.to_json()
    if training is not None:
        _check_pair(config, training)
    with _LOCK:
        if same := _existing(wanted, folder):
            return same
        place = folder / config.key()
        with _writing():
            if training is not None:
                _note_training(training, folder)
            _check_files(wanted, folder)
            runs.create(place, config)
            _launch(place, home(wanted, folder))
        return place


def resume(folder: Path) -> Path:
    """Go on with a run that ended early, as its record says, after its last finished epoch or level.

    Raises:
        Busy: another run is going on.
        ValueError: the record cannot be read, a checkpoint is missing, or the folder cannot be written to.
    """
    folder = folder.absolute()
    wanted = read_entry(folder).config
    with _LOCK:
        if same := _existing(wanted, folder.parent):
            return same
        _check_files(wanted, folder.parent)
        with _writing():
            _launch(folder, home(wanted, folder.parent))
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
            (folder / NOTES).write_text(json.dumps({"state": "running", "name": "starting the worker"}))
            _launch(folder, home(entry.config, folder.parent), "analyse")


def analysis_notes(folder: Path) -> dict[str, Any]:
    """How an analysis stands or ended: state ("running", "failed", "cancelled" or "killed"), name, index, total, error.
    Empty where none was begun, or the last one is in the record."""
    try:
        notes = json.loads((folder / NOTES).read_text())
    except (OSError, ValueError):
        return {}
    return {**notes, "state": "killed"} if notes.get("state") == "running" and not worker_is_alive(folder) else notes


def _existing(wanted: dict[str, Any], folder: Path) -> Path | None:
    """The run of this work that is done or going on.

    Raises:
        Busy: none, and other work is going on.
    """
    known, _ = entries(folder)
    if same := [entry for entry in known if entry.config == wanted and entry.state in ("done", *ACTIVE)]:
        return same[0].folder
    _check_idle(known)
    return None


def _check_idle(known: list[Entry]) -> None:
    """One worker at a time."""
    for entry in known:
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

    place = folder / training.folder
    known = read_training(place)
    if known is None:
        place.mkdir(parents=True, exist_ok=True)
        write_training(training, place)
    elif known != training:
        raise ValueError(f"{training.folder} holds the parents of another training. Remove that folder.")


def _check_files(config: dict[str, Any], folder: Path) -> None:
    """Refuse, before a worker starts, what it could neither find nor train."""
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


def _launch(place: Path, base: Path, work: str = "fuse") -> None:
    (place / "cancel").unlink(missing_ok=True)
    _wait_for_exit(place)
    _spawn(place, base, work)


def _spawn(place: Path, base: Path, work: str = "fuse") -> None:
    """Start the worker in the folder `base`, unless a server beside this one has just done so."""
    note = place / "worker.json"
    if note.exists() and not worker_is_alive(place):
        note.unlink()
    try:
        file = note.open("x")  # exclusive: of two servers one gets it
    except FileExistsError:
        return
    with file, (place / "worker.log").open("w") as log:
        child = subprocess.Popen(
            worker_command(place, work), cwd=base, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            start_new_session=True,  # survives the server, and Ctrl-C in its terminal
        )  # fmt: skip
        _CHILDREN[child.pid] = child
        json.dump({"pid": child.pid, "birth": _birth(child.pid), "started": time.time(), "work": work}, file)


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
    status = entry.status
    if status.get("stage") == "training" and "epochs" in status:
        return (
            f"Network {status.get('parent', 0) + 1} of {status.get('parents', 1)} was being trained, in epoch "
            f"{status['epoch']} of {status['epochs']}; finished epochs are kept."
        )
    done = status.get("levels_done", status.get("level", 0))
    total = status.get("levels")
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
