"""Create, read and seal a run's folder."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from ..fusion.results import LevelReport, load_levels
from ..inspection import analysis as analysing
from ..system.files import digest, write
from . import identities
from .config import RunConfig
from .identities import Identity
from .store import NEW, SCHEMA, STATES, STATUS, check_schema, state_of

SEALED = ("config.json", "levels.parquet", "arrays.npz", "fused.safetensors", "result.json", "metrics.json")


def create(folder: Path, config: RunConfig, base: str | Path = ".") -> Identity:
    """Create a run's folder with its config, or accept one with the same work, or one that failed before any level.

    A record without finished levels adopts the current content of its files; otherwise their content must not have changed.

    Args:
        base: folder that relative file names start from.
    Returns:
        The identity of the run with the current content of its files.
    Raises:
        ValueError: the folder holds another run, or the run's files or method have changed.
    """
    current = identities.identity(config, base)
    if not (folder / "config.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        write_identity(folder, current)
        return current
    stored = read_identity(folder)
    refused = read_status(folder)["state"] == "failed" and not _has_levels(folder)  # nothing of it is kept
    if not refused and (why := identities.other_settings(stored.config, config)):
        raise ValueError(f"{folder} holds another run: {why}. Choose a new folder, or resume it with its own settings.")
    if why := identities.difference(stored, current):
        if _has_levels(folder):
            raise ValueError(f"{folder} cannot be continued: {why}. Choose a new folder for a new run.")
        write_identity(folder, current)
    return current


def _has_levels(folder: Path) -> bool:
    return read_status(folder)["state"] == "done" or (folder / "partial.safetensors").exists()


def write_identity(folder: Path, identity: Identity, **facts: object) -> None:
    """Write config.json with the identity and further `facts`."""
    write(folder / "config.json", json.dumps({"schema": SCHEMA, **identities.to_json(identity), **facts}, indent=1))


def read_config(folder: str | Path) -> RunConfig:
    """The config of a run's folder; raises as `read_identity`."""
    return read_identity(folder).config


def read_identity(folder: str | Path) -> Identity:
    """The identity of a recorded run.

    Raises:
        ValueError: missing, damaged, or of another schema.
    """
    try:
        content = json.loads((Path(folder) / "config.json").read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"{folder} is not a run record: config.json is missing or broken.") from error
    check_schema(folder, content)
    try:
        return identities.from_json(content)
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
    current, stored = identities.identity(config, base), read_identity(usual)
    same = not identities.difference(stored, current)
    return usual if same or not _has_levels(usual) else Path(parent) / current.key()


def checksums(folder: Path, names: Iterable[str]) -> dict[str, str]:
    return {name: digest(folder / name) for name in names}


def seal_analysis(folder: Path, status: dict[str, Any], analysis: analysing.Analysis) -> None:
    """Write an analysis into a sealed record; first removes the old one's seal, so that a kill leaves a record without one."""
    sums = {name: sum_ for name, sum_ in status["checksums"].items() if name not in analysing.FILES}
    status = {key: value for key, value in status.items() if key != "analysis"} | {"checksums": sums}
    write(folder / STATUS, json.dumps(status))
    analysis.save(folder)
    status["checksums"] = sums | checksums(folder, analysing.FILES)
    write(folder / STATUS, json.dumps(status))


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
    """Read a record; a finished one must match the checksums of its seal.

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
        ValueError: damaged.
    """
    path = Path(folder) / STATUS
    if not path.exists():
        return dict(NEW)
    try:
        status = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(f"{folder}: status.json is broken.") from error
    check_schema(folder, status)
    if status.get("state") not in STATES:
        raise ValueError(f"{folder}: status.json is broken.")
    return status


def list_runs(folder: str | Path) -> tuple[list[Run], list[str]]:
    """All readable records in a folder, newest first, and one sentence per unreadable one."""
    good, problems = [], []
    for path in sorted(Path(folder).glob("*/config.json")):
        try:
            good.append(read_run(path.parent))
        except ValueError as error:
            problems.append(str(error).replace(str(path.parent), path.parent.name))
    return sorted(good, key=lambda run: run.status.get("started", 0), reverse=True), problems
