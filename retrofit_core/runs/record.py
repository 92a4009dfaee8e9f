"""A run's folder: made, read and sealed."""

import hashlib
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from .. import analysis as analysing
from ..results import LevelReport, load_levels, write_atomically
from .config import RunConfig

SCHEMA = 1
STATES = ("created", "running", "done", "failed", "cancelled")
#: A running record whose status is older than this belongs to a worker that was killed.
STALE_AFTER = 60.0
SEALED = ("config.json", "levels.parquet", "arrays.npz", "fused.safetensors", "result.json", "metrics.json")


def library_version() -> str:
    """Of the installed library, for the status of a run; "unknown" where it is not installed."""
    try:
        return version("retrofit-workbench")
    except PackageNotFoundError:
        return "unknown"


def create(folder: Path, config: RunConfig) -> None:
    """Make a run's folder with its config, or accept one that holds the same config.

    Raises:
        ValueError: the folder holds another run.
    """
    path = folder / "config.json"
    content = {"schema": SCHEMA, "config": config.to_json()}
    if path.exists():
        if read_config(folder) != config:
            raise ValueError(f"{folder} holds another run. Choose a new folder, or resume it with its own settings.")
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps(content, indent=1).encode())


def read_config(folder: str | Path) -> RunConfig:
    """The config of a run's folder.

    Raises:
        ValueError: missing, broken, or of another schema.
    """
    path = Path(folder) / "config.json"
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"{folder} is not a run record: config.json is missing or broken.") from error
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        found = content.get("schema") if isinstance(content, dict) else None
        raise ValueError(f"{folder}: the record has schema {found}, this version reads {SCHEMA}.")
    return RunConfig.from_json(content["config"])


def checksums(folder: Path, names: Iterable[str]) -> dict[str, str]:
    return {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}


def seal_analysis(folder: Path, status: dict[str, Any], analysis: analysing.Analysis) -> None:
    """Write an analysis into a sealed record: unsealed first, so that a kill in between leaves a record without one."""
    sums = {name: sum_ for name, sum_ in status["checksums"].items() if name not in analysing.FILES}
    status = {key: value for key, value in status.items() if key != "analysis"} | {"checksums": sums}
    write_atomically(folder / "status.json", json.dumps(status).encode())
    analysis.save(folder)
    status["checksums"] = sums | checksums(folder, analysing.FILES)
    write_atomically(folder / "status.json", json.dumps(status).encode())


@dataclass(frozen=True)
class Run:
    """A run record as it stands on disk."""

    folder: Path
    config: RunConfig
    status: dict[str, Any]
    levels: list[LevelReport]
    metrics: dict[str, Any]

    @cached_property
    def analysis(self) -> analysing.Analysis | None:
        """What the pictures of the levels need; None where it was not asked for or not finished. Read when asked for."""
        sealed = analysing.FILES[0] in self.status.get("checksums", {})
        return analysing.Analysis.load(self.folder) if sealed else None

    @property
    def state(self) -> str:
        """One of STATES, or "interrupted" for a running one whose worker has gone silent."""
        if self.status["state"] == "running" and time.time() - self.status.get("updated", 0) > STALE_AFTER:
            return "interrupted"
        return self.status["state"]


def read_run(folder: str | Path) -> Run:
    """Read a record; one that is done must have the checksums with which it was sealed.

    Raises:
        ValueError: a file is missing, damaged or of another schema.
    """
    folder = Path(folder)
    config, status = read_config(folder), read_status(folder)
    levels, metrics = [], {}
    if status["state"] == "done":
        try:
            names = dict.fromkeys([*SEALED, *status["checksums"]])
            damaged = [name for name, sum_ in checksums(folder, names).items() if status["checksums"].get(name) != sum_]
        except OSError as error:
            raise ValueError(f"{folder}: {Path(str(error.filename)).name} is missing from the record.") from error
        if damaged:
            raise ValueError(f"{folder}: {', '.join(damaged)} changed after the run was finished. Run it again.")
        metrics = json.loads((folder / "metrics.json").read_text())
    if (folder / "levels.parquet").exists():
        levels = load_levels(folder)
    return Run(folder, config, status, levels, metrics)


def read_status(folder: str | Path) -> dict[str, Any]:
    """status.json, or {"state": "created"} before the worker wrote one.

    Raises:
        ValueError: broken.
    """
    path = Path(folder) / "status.json"
    if not path.exists():
        return {"state": "created"}
    try:
        status = json.loads(path.read_text())
        if status["schema"] != SCHEMA or status["state"] not in STATES:
            raise KeyError("schema")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{folder}: status.json is broken or of another schema.") from error
    return status


def list_runs(folder: str | Path) -> tuple[list[Run], list[str]]:
    """All readable records below a folder, newest first, and one sentence for each that was set aside."""
    good, problems = [], []
    for path in sorted(Path(folder).glob("*/config.json")):
        try:
            good.append(read_run(path.parent))
        except ValueError as error:
            problems.append(str(error).replace(str(path.parent), path.parent.name))
    return sorted(good, key=lambda run: run.status.get("started", 0), reverse=True), problems
