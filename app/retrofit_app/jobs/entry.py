"""Runs on disk as lists need them: their small JSON files, read without torch."""

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from retrofit_core.runs.standing import ACTIVE, state_of, worker_lives, worker_of

BUNDLED = Path(__file__).parents[1] / "bundled"


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
    inputs: dict[str, str | None] | None = None
    """Digest of each file, see `runs.Identity`; None for a record of an earlier version"""
    method_version: int = 1

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def state(self) -> str:
        """created, running, done, failed, cancelled or interrupted, see `runs.state_of`."""
        return self.status["state"] if self.shipped else state_of(self.folder, self.status)

    @property
    def active(self) -> bool:
        """Whether a worker is at it."""
        return self.state in ACTIVE

    @property
    def analysing(self) -> bool:
        """Whether a worker adds the analysis to this finished run."""
        return not self.shipped and worker_of(self.folder).get("work") == "analyse" and worker_lives(self.folder)

    @property
    def resumable(self) -> bool:
        """Whether it ended early, so that `resume` goes on with it."""
        return self.state in ("failed", "cancelled", "interrupted")

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
        """Seconds until the phase ends, at its pace so far; None as long as too little of it is done."""
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
    """The part of a phase that is done, by its status."""

    def ratio(part: str, whole: str, before: int = 0) -> float:
        return (status.get(part, before) - before) / (status.get(whole) or 1)

    if phase == "training":  # the epoch that is going on counts from 1
        epoch = (status.get("epoch", 1) - 1 + ratio("step", "steps")) / (status.get("epochs") or 1)
        done = (status.get("parent", 0) + epoch) / (status.get("parents") or 1)
    elif phase == "fusion":
        inside = ratio("epoch", "epochs") if "epochs" in status else ratio("step", "steps") / 2
        done = (status.get("level", 0) + inside) / status["levels"] if status.get("levels") else inside
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
        content = json.loads((folder / "config.json").read_text())
        config = dict(content["config"])
        path = folder / "status.json"
        status = json.loads(path.read_text()) if path.exists() else {"state": "created"}
        done = status["state"] == "done"
        metrics = json.loads((folder / "metrics.json").read_text()) if done else {}
        training = content["training"] if "training" in content else _training(config, folder.parent)
        inputs, version = content.get("inputs"), content.get("method_version", 1)
        return Entry(folder, config, status, metrics, shipped, training, inputs, version)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"run {folder.name} cannot be read and is left out ({type(error).__name__}: {error})."
        ) from error


def bundle_facts() -> dict[str, Any]:
    """What bundle.json says of the shipped runs, see `bundle.build`; empty where it is missing."""
    path = BUNDLED / "bundle.json"
    return json.loads(path.read_text()) if path.exists() else {}


def entries(folder: Path | None = None) -> tuple[list[Entry], list[str]]:
    """Shipped runs in their own order, then those of the runs folder, newest first; a sentence for each left out."""
    good, problems = [], []
    folders = [(BUNDLED / name, True) for name in bundle_facts().get("runs", ())]
    folders += [(path.parent, False) for path in (folder or runs_folder()).glob("*/config.json")]
    for path, shipped in folders:
        try:
            good.append(read_entry(path, shipped))
        except ValueError as error:
            problems.append(str(error))
    return sorted(good, key=lambda entry: (not entry.shipped, 0 if entry.shipped else -_age(entry))), problems


def same_work(config: Any, entries: list[Entry], folder: Path | None = None) -> Entry | None:
    """The run among these that is done or going on and does what a config would do with the files as they are now.

    Args:
        config: a `runs.RunConfig`; for file names see `home`.
        folder: the runs folder.
    """
    from retrofit_core.runs import Identity, RunConfig, difference, identity
    from retrofit_core.runs.identities import other_settings

    wanted = None
    for entry in entries:
        if entry.inputs is None or entry.state not in ("done", *ACTIVE):
            continue
        try:
            recorded = RunConfig.from_json(entry.config)
        except ValueError:  # of another version
            continue
        if other_settings(recorded, config):
            continue
        # Only now, because it reads the files.
        wanted = wanted or identity(config, home(config.to_json(), folder))
        if not difference(Identity(recorded, entry.inputs, entry.method_version), wanted):
            return entry
    return None


def past(entries: list[Entry]) -> list[dict[str, Any]]:
    """What `estimate` learns from: finished runs of this machine, newest first, with the seconds of their stages."""
    return [
        {"config": entry.config, "training": entry.training, "stages": entry.status["stages"]}
        for entry in entries
        if entry.state == "done" and not entry.shipped and entry.status.get("stages")
    ]


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
