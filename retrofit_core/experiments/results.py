"""Results of units: a file each in a runs folder, or many in a file that comes with the project."""

import base64
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ..runs.store import UNIT
from ..system.files import json_of, key_of, write
from .units import ParentSource

#: What results in one file share is written once there, with its number in its place.
SHARED = ("training", "given", "machine")


@dataclass(frozen=True)
class Result:
    """A unit's metrics, or the reason for having none."""

    key: str
    unit: dict[str, Any]
    """Result of `Unit.to_json`"""
    title: str
    command: str
    refusal: str | None = None
    """Why the method does not apply"""
    metrics: dict[str, Any] = field(default_factory=dict)
    """accuracy (%), per_class, loss, calibration_error, samples, per_part (% on the classes of each part), seconds,
    processor_seconds (of all threads, of fusions)"""
    correct: str = ""
    """Which test images the network gets right: packed bits, base64"""
    machine: dict[str, Any] = field(default_factory=dict)
    finished: float = field(default_factory=time.time)
    """Seconds since 1970"""

    @property
    def command_today(self) -> str:
        """The command that repeats it; empty for what only `retrofit reproduce` does."""
        return "" if self.command.startswith(("retrofit finetune ", "retrofit landscape ")) else self.command

    @property
    def measured_on(self) -> str:
        """The machine, versions and commit."""
        return ", ".join(f"{name} {value}" for name, value in self.machine.items() if value)

    def metric(self, metric: tuple[str, ...]) -> float | None:
        """The number of a cell; None if refused or missing.

        Args:
            metric: a name in `metrics`, such as ("accuracy",); ("part", its index); ("rand", two scores); ("below", a bound, a
                score); of a landscape ("loss", a network), ("accuracy", a network), ("rise", a network), ("barrier", the two ends
                of a path).
        """
        if self.refusal is not None:
            return None
        match metric:
            case "part", part:
                return dict(enumerate(self.metrics["per_part"])).get(int(part))
            case "rand", *scores:
                rows = self.metrics["agreement"]
                return next(row["mean"] for row in rows if {row["first"], row["second"]} == set(scores))
            case "below", bound, score:
                return share_below(self.metrics["histograms"][score], float(bound))
            case "barrier", *ends:
                paths = self.metrics["landscape"]["paths"]
                return next(path["barrier"] for path in paths if [path["first"], path["last"]] == ends)
            case "rise", network:
                return next(rise["mean"] for rise in self.metrics["landscape"]["rises"] if rise["name"] == network)
            case name, network:
                return next(
                    marker[name] for marker in self.metrics["landscape"]["markers"] if marker["name"] == network
                )
        return self.metrics.get(metric[0])

    def knows(self) -> np.ndarray:
        """(test images,) bool: which images the network gets right."""
        bits = np.unpackbits(np.frombuffer(base64.b64decode(self.correct), dtype=np.uint8))
        return bits[: int(self.metrics.get("samples", 0))].astype(bool)


def share_below(histogram: Mapping[str, Sequence[float]], score: float) -> float:
    """Percentage of a histogram's neurons below a score, assuming an even distribution within bins."""
    counts, edges = np.array(histogram["counts"], dtype=float), np.array(histogram["edges"], dtype=float)
    below = np.interp(score, edges, np.concatenate([[0.0], counts.cumsum()]))
    return 100 * float(below) / float(counts.sum())


def packed_bits(correct: np.ndarray) -> str:
    """The inverse of `Result.knows`."""
    return base64.b64encode(np.packbits(correct).tobytes()).decode()


@dataclass(frozen=True)
class GivenParents:
    """Parents given as files, and the table columns that were measured with them."""

    columns: tuple[tuple[str, str], ...]
    """Names of table and column"""
    source: ParentSource
    """Identified by digests of the files"""
    about: str = ""
    """Description: network, width, training"""


@dataclass(frozen=True)
class Records:
    """Results by key, and the columns of given parents."""

    results: Mapping[str, Result]
    given: tuple[GivenParents, ...] = ()

    @cached_property
    def seeds(self) -> dict[str, dict[int, int]]:
        """`ParentSource.key` of the first set of parents -> set (seed of their training) -> number of fusion seeds."""
        seeds: dict[str, dict[int, int]] = {}
        for unit in (start_of(result.unit) for result in self.results.values()):
            facts = {name: unit[name] for name in ("training", "given", "data") if name in unit}
            index = facts.get("training", {}).get("seed", 0)
            first = {**facts, "training": {**facts["training"], "seed": 0}} if "training" in facts else facts
            of_parents = seeds.setdefault(key_of(first), {})
            of_parents[index] = max(of_parents.get(index, 1), 1 + unit.get("fusion", {}).get("seed", 0))
        return seeds


def start_of(unit: Mapping[str, Any]) -> Mapping[str, Any]:
    """A unit, or the one from which its fine-tuning started; for an ensemble, the first one's."""
    if "ensemble" in unit:
        return start_of(unit["ensemble"][0])
    return start_of(unit["start"]) if "start" in unit else unit


def path_of(root: str | Path, key: str) -> Path:
    """Path of a unit's result in a runs folder."""
    return Path(root, UNIT.folder, key, UNIT.last)


def write_result(root: str | Path, result: Result) -> None:
    """Write a result atomically."""
    path = path_of(root, result.key)
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, json.dumps(asdict(result), indent=1) + "\n")


def measured_in(runs: str | Path, results: Iterable[str | Path] = ()) -> Records:
    """The results of a runs folder, which need not exist, and of further files and folders; raises as `results_in`."""
    return merged_records(map(results_in, [*([runs] if Path(runs, UNIT.folder).is_dir() else []), *results]))


def read_result(root: str | Path, key: str) -> Result | None:
    """A unit's result; None if there is none.

    Raises:
        ValueError: as in `results_in`.
    """
    path = path_of(root, key)
    return results_in(path).results.get(key) if path.exists() else None


def results_in(path: str | Path) -> Records:
    """The results in a file, or in a folder: in its JSON files, and, of a runs folder, in those of its units.

    Raises:
        ValueError: a file is missing or holds something else.
    """
    path = Path(path)
    is_runs = (path / UNIT.folder).is_dir()
    pattern = f"{UNIT.folder}/*/{UNIT.last}" if is_runs else "*.json"
    files = sorted(path.glob(pattern)) if path.is_dir() else [path]
    if not files and not is_runs:
        raise ValueError(
            f"the folder {path} holds no results: neither JSON files nor what a runs folder has, {UNIT.folder}."
        )
    return merged_records(map(_read, files))


def merged_records(records: Iterable[Records]) -> Records:
    """All results, for each key the latest, and all given parents."""
    every = list(records)
    latest = sorted((result for each in every for result in each.results.values()), key=lambda each: each.finished)
    given = dict.fromkeys(parents for each in every for parents in each.given)
    by_key = {result.key: result for result in latest}
    return Records({key: by_key[key] for key in sorted(by_key)}, tuple(given))


def _read(file: Path) -> Records:
    try:
        content = json_of(file)
        entries = content.get("results", [content])
        results = [_result(_whole(entry, content.get("shared", []))) for entry in entries]
        given = [
            GivenParents(tuple(map(tuple, entry["columns"])), ParentSource(None, entry["facts"]), entry["about"])
            for entry in content.get("given", [])
        ]
    except OSError as error:
        raise ValueError(f"the results in {file} cannot be read: {error.strerror}.") from error
    except (ValueError, RecursionError, AttributeError, TypeError, KeyError, IndexError) as error:
        raise ValueError(
            f"{file} does not hold results of `retrofit reproduce`: it contains other data. Delete it, or copy it again from "
            "where it came."
        ) from error
    return Records({result.key: result for result in results}, tuple(given))


def _result(facts: Mapping[str, Any]) -> Result:
    return Result(**{"command": "", **{each.name: facts[each.name] for each in fields(Result) if each.name in facts}})


def _whole(value: Any, shared: Sequence[Any]) -> Any:
    """A value with what results share, such as their training or machine, in place of its number."""
    if isinstance(value, list):
        return [_whole(each, shared) for each in value]
    if isinstance(value, dict):
        return {
            name: shared[each] if name in SHARED and isinstance(each, int) else _whole(each, shared)
            for name, each in value.items()
        }
    return value
