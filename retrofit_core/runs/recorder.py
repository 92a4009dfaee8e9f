"""Write a run's folder during the run."""

import dataclasses
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save
from torch import Tensor

from ..fusion.importance.shared import clocks, since
from ..fusion.results import FusionResult, LevelReport, load_levels, save_levels
from ..inspection import analysis as analysing
from ..system.extras import library_version, require
from ..system.files import locked, write
from ..system.monitor import Event, Monitor
from ..system.position import Position
from ..training.parents import read_training
from . import identities, store
from .config import RunConfig
from .record import SEALED, checksums, create, read_status, write_identity
from .store import CANCEL, INTERVAL, SCHEMA, STATUS


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
        self.identity, earlier = create(folder, config), read_status(folder)
        # An existing file `cancel` counts: a user may cancel before the worker starts. It is deleted when the run ends.
        self.finished = finished_levels(folder)
        self._reports = [report for report, _ in self.finished]
        self._weights = {
            f"{index}/{name}": value for index, (_, state) in enumerate(self.finished) for name, value in state.items()
        }
        self._before: dict[str, Any] = (earlier.get("spent") if self.finished else None) or {}
        if self._before:
            self.status["spent"] = self._before
        self._began = clocks()
        self._write_status()

    def inputs_are_read(self) -> None:
        """Record the digests of the run's files after reading all of them, before the first level.

        Raises:
            ValueError: a file has changed since the run began, so it is unknown which content was read.
        """
        current = identities.identity(self.identity.config)
        if why := identities.difference(self.identity, current):
            raise ValueError(f"{why} the run began. Start it again once its files no longer change.")
        self.identity = current
        write_identity(self.folder, current, training=_training(current.config))
        self._began = clocks()

    def add(self, index: int, report: LevelReport, weights: dict[str, Tensor]) -> None:
        """Keep a finished level, so that the run can resume after it."""
        self._reports.append(report)
        self._weights.update({f"{index}/{name}": value.cpu().clone().contiguous() for name, value in weights.items()})
        # Reports last: a level counts as finished once it is in levels.parquet.
        write(self.folder / "partial.safetensors", save(self._weights, {"levels": str(len(self._reports))}))
        save_levels(self._reports, self.folder)
        spent = since(self._began) | {"attempts": 1}
        self.status["spent"] = {name: self._before.get(name, 0) + value for name, value in spent.items()}
        self._write_status()

    def whole(self, result: FusionResult) -> FusionResult:
        """The result with the seconds of all attempts: until their last finished levels, and of this one."""
        times = {name: getattr(result, name) for name in clocks()}
        sums = {name: value + self._before.get(name, 0) for name, value in times.items() if value is not None}
        return dataclasses.replace(result, **sums)

    def finish(
        self,
        result: FusionResult,
        metrics: dict[str, Any],
        metadata: dict[str, Any],
        analysis: analysing.Analysis | None = None,
        why_not: str = "",
    ) -> None:
        """Write the result and seal the record with checksums; `why_not` explains a missing requested analysis."""
        result.save(self.folder, **metadata)
        write(self.folder / "metrics.json", json.dumps(metrics, indent=1))
        (self.folder / "partial.safetensors").unlink(missing_ok=True)
        self.status.update(state="done", seconds=result.seconds, **({"analysis": why_not} if why_not else {}))
        self.status["checksums"] = checksums(self.folder, SEALED)
        if analysis is not None:
            analysis.save(self.folder)
            self.status["checksums"] |= checksums(self.folder, analysing.FILES)
        self._end()

    def stop(self, error: BaseException) -> None:
        """Record why the run ended early; finished levels stay."""
        self.status.update(store.ending_of(error), levels_done=len(self._reports))
        self._end()

    def _end(self) -> None:
        self._write_status()
        (self.folder / CANCEL).unlink(missing_ok=True)

    def _event(self, event: Event) -> None:
        self.outer.emit(**event)
        if event["kind"] != "batch":  # tens of thousands per training: only for the status
            with (self.folder / "events.jsonl").open("a") as file:
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


def finished_levels(folder: Path) -> list[tuple[LevelReport, dict[str, Tensor]]]:
    """The finished levels of an interrupted run: as many as both reports and weights contain."""
    path = folder / "partial.safetensors"
    if not path.exists():
        return []
    try:
        reports, weights = load_levels(folder), load_file(str(path))
    except Exception:  # ignore damaged remains: the run starts over
        return []
    states: list[dict[str, Tensor]] = [{} for _ in reports]
    for key, value in weights.items():
        index, _, name = key.partition("/")
        if int(index) < len(states):
            states[int(index)][name] = value
    finished = list(zip(reports, states, strict=True))
    return finished[: next((i for i, (_, state) in enumerate(finished) if not state), len(finished))]
