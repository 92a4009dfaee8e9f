"""A run's folder: create, read and seal it, and write it during the run."""

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ..fusion.results import FusionResult, LevelReport, load_levels
from ..inspection import analysis as analysing
from ..system.extras import library_version, require
from ..system.files import digest, json_of, locked, write
from ..system.monitor import Event, Monitor
from ..system.position import Position
from . import identities, store
from .config import RunConfig
from .identities import Identity
from .parents import read_training
from .store import CANCEL, INTERVAL, NEW, SCHEMA, STATES, STATUS, check_schema, state_of

#: What the monitor heard, a line an event; it grows during a run.
EVENTS = "events.jsonl"


def create(folder: Path, config: RunConfig, base: str | Path = ".") -> Identity:
    """Write a run's config.json, in place of that of an unfinished run; a finished one must be the same work.

    Args:
        base: folder that relative file names start from.
    Returns:
        The identity of the run with the current content of its files.
    Raises:
        ValueError: the folder holds another finished run, or this one's files have changed since.
    """
    current = identities.identity(config, base)
    if read_status(folder)["state"] != "done":
        folder.mkdir(parents=True, exist_ok=True)
        write_identity(folder, current)
    elif not read_identity(folder).matches(current):
        raise ValueError(f"{folder} holds another run, or this one's files have changed since. Choose a new folder.")
    return current


def write_identity(folder: Path, identity: Identity, **facts: object) -> None:
    """Write config.json with the identity and further `facts`."""
    content = {**vars(identity), "config": identity.config.to_json()}
    write(folder / "config.json", json.dumps({"schema": SCHEMA, **content, **facts}, indent=1))


def read_config(folder: str | Path) -> RunConfig:
    """The config of a run's folder; raises as `read_identity`."""
    return read_identity(folder).config


def read_identity(folder: str | Path) -> Identity:
    """The identity of a recorded run.

    Raises:
        ValueError: missing, damaged, or of another schema.
    """
    try:
        content = json_of(Path(folder) / "config.json")
    except (OSError, ValueError) as error:
        raise ValueError(f"{folder} is not a run record: config.json is missing or broken.") from error
    check_schema(folder, content)
    try:
        config = RunConfig.from_json(content["config"])
        return Identity(config, content["inputs"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"{folder} is not a run record: config.json is broken.") from error


def record_folder(parent: str | Path, config: RunConfig, base: str | Path = ".") -> Path:
    """The folder of a run's record in a folder of records; it may not exist yet.

    Its name is the key of the config or, if that folder has the same config with other file contents (retrained parents), the
    key of the identity.
    """
    usual = Path(parent) / config.key()
    if not (usual / "config.json").exists():
        return usual
    current = identities.identity(config, base)
    is_other = read_status(usual)["state"] == "done" and not read_identity(usual).matches(current)
    return Path(parent) / current.key() if is_other else usual


def checksums(folder: Path, names: Iterable[str]) -> dict[str, str]:
    return {name: digest(folder / name) for name in names}


def seal_analysis(folder: Path, status: dict[str, Any], analysis: analysing.Analysis) -> None:
    """Write an analysis into a sealed record; first removes the old one's seal, so that a kill leaves a record without one."""
    sums = {name: sum_ for name, sum_ in status["checksums"].items() if name not in analysing.FILES}
    write(folder / STATUS, json.dumps(status | {"checksums": sums}))
    analysis.save(folder)
    write(folder / STATUS, json.dumps(status | {"checksums": sums | checksums(folder, analysing.FILES)}))


@dataclass(frozen=True)
class Run:
    """A run record read from disk."""

    folder: Path
    config: RunConfig
    status: dict[str, Any]
    levels: list[LevelReport]
    metrics: dict[str, Any]

    @cached_property
    def analysis(self) -> analysing.Analysis | None:
        """The analysis of the levels, read on first use; None if not requested or not finished."""
        sealed = analysing.FILES[0] in self.status.get("checksums", {})
        return analysing.Analysis.load(self.folder) if sealed else None

    @property
    def state(self) -> str:
        """One of STATES, or "interrupted" for an unfinished run without a process; see `state_of`."""
        return state_of(self.folder, self.status)


def read_run(folder: str | Path) -> Run:
    """Read a record.

    Raises:
        ValueError: a file is missing, damaged or of another schema.
    """
    folder = Path(folder)
    config, status = read_config(folder), read_status(folder)
    levels, metrics = [], {}
    if status["state"] == "done":
        try:
            metrics, levels = json_of(folder / "metrics.json"), load_levels(folder)
        except OSError as error:
            raise ValueError(f"{folder}: metrics.json is missing from the record.") from error
    return Run(folder, config, status, levels, metrics)


def read_status(folder: str | Path) -> dict[str, Any]:
    """status.json, or {"state": "created"} before the worker wrote one.

    Raises:
        ValueError: damaged.
    """
    path = Path(folder) / STATUS
    if not path.exists():
        return dict(NEW)
    try:
        status = json_of(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"{folder}: status.json is broken.") from error
    check_schema(folder, status)
    if status.get("state") not in STATES:
        raise ValueError(f"{folder}: status.json is broken.")
    return status


@contextmanager
def recording(folder: Path, config: RunConfig, monitor: Monitor | None = None) -> Iterator["Recorder"]:
    """A recorder that holds the record's lock, and records an error of the block.

    Raises:
        Locked: another process writes this record.
        ValueError: as in `create`, or a required package is missing.
    """
    require("pyarrow", "data")
    with locked(folder, f"the record {folder}"):
        recorder = Recorder(folder, config, monitor)
        try:
            yield recorder
        except BaseException as error:
            recorder.stop(error)
            raise


class Recorder:
    """Writes a run's folder during the run; see `recording`."""

    def __init__(self, folder: Path, config: RunConfig, monitor: Monitor | None = None) -> None:
        self.folder = folder
        self.outer = monitor or Monitor()
        self.monitor = Monitor(self._event, lambda: store.asked_to_stop(folder, self.outer))
        self.status: dict[str, Any] = {
            "schema": SCHEMA,
            "state": "running",
            "started": time.time(),
            "version": library_version(),
        }
        self._written, self.position = 0.0, Position()
        # An existing file `cancel` counts: a user may cancel before the worker starts. It is deleted when the run ends.
        self.identity = create(folder, config)
        (folder / EVENTS).unlink(missing_ok=True)
        self._write_status()

    def inputs_are_read(self) -> None:
        """Record the digests of the run's files after reading all of them, which it may have trained itself."""
        config = self.identity.config
        write_identity(self.folder, identities.identity(config), training=_training(config))

    def finish(self, result: FusionResult, metrics: dict[str, Any], metadata: dict[str, Any]) -> None:
        """Write the result and seal the record with checksums."""
        result.save(self.folder, **metadata)
        write(self.folder / "metrics.json", json.dumps(metrics, indent=1))
        self.status.update(state="done", seconds=result.seconds)
        self.status["checksums"] = checksums(self.folder, ["fused.safetensors"])
        self._end()

    def stop(self, error: BaseException) -> None:
        """Record why the run ended early."""
        self.status.update(store.ending_of(error))
        self._end()

    def _end(self) -> None:
        self._write_status()
        (self.folder / CANCEL).unlink(missing_ok=True)

    def _event(self, event: Event) -> None:
        self.outer.emit(**event)
        if event["kind"] != "batch":  # tens of thousands per training: only for the status
            with (self.folder / EVENTS).open("a") as file:
                file.write(json.dumps({"time": time.time(), **event}, default=str) + "\n")
        self.position.take(event)
        if event["kind"] == "level" or time.time() - self._written > INTERVAL:
            self._write_status()

    def _write_status(self) -> None:
        self._written = time.time()
        self.status["updated"] = self._written
        write(self.folder / STATUS, json.dumps({**self.status, **self.position.facts()}, default=str))


def _training(config: RunConfig) -> dict[str, Any] | None:
    """How the parents were trained, if training.json in their folder covers all of them. A copy, as it may be overwritten."""
    folder = Path(config.models[0]).parent
    try:
        training = read_training(folder)
    except ValueError:
        return None
    trained = set() if training is None else set(map(Path, training.files(folder)))
    return training.to_json() if training is not None and set(map(Path, config.models)) <= trained else None
