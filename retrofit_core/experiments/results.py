"""Results of units: one sealed file each, which survives the networks and can be carried to another machine."""

import base64
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..system.files import key_of, write

SCHEMA = 1
FOLDER = "experiments/results"
DAMAGED = ".damaged"


@dataclass(frozen=True)
class Result:
    """What a unit gave: metrics, or the reason why there are none."""

    key: str
    unit: dict[str, Any]
    """The unit, as `Unit.to_json`"""
    title: str
    command: str
    inputs: dict[str, str]
    """Role -> digest of what went in, as far as it was there"""
    refusal: str | None = None
    """Why the method does not apply"""
    metrics: dict[str, Any] = field(default_factory=dict)
    """accuracy (%), per_class, loss, calibration_error, samples, per_part (% on the classes of each part), seconds,
    processor_seconds (of all threads, of fusions)"""
    correct: str = ""
    """Which test images the network knows: bits, packed, base64"""
    machine: dict[str, Any] = field(default_factory=dict)
    finished: float = field(default_factory=time.time)
    """Seconds since 1970"""

    def metric(self, name: str) -> float | None:
        """A metric by the name that a cell gives it; None if refused.

        Names are "accuracy", "part 0", "rand uniform conductance", "below 0.1 conductance" (% of neurons with less than a
        tenth of the uniform score), "loss fused", "accuracy fused", "rise fused", "barrier parent 0 to fused" (of a landscape).
        """
        if self.refusal is not None:
            return None
        kind, *rest = name.split(" ")
        if kind == "part":
            parts = self.metrics["per_part"]
            return parts[int(rest[0])] if int(rest[0]) < len(parts) else None
        if kind == "rand":
            return next(row["mean"] for row in self.metrics["agreement"] if {row["first"], row["second"]} == set(rest))
        if kind == "below":
            return share_below(self.metrics["histograms"][rest[1]], float(rest[0]))
        if "landscape" in self.metrics:
            return landscape_metric(self.metrics["landscape"], kind, " ".join(rest))
        return self.metrics.get(name)

    def knows(self) -> np.ndarray:
        """(test images,) bool: which images the network classifies rightly."""
        bits = np.unpackbits(np.frombuffer(base64.b64decode(self.correct), dtype=np.uint8))
        return bits[: int(self.metrics.get("samples", 0))].astype(bool)


def share_below(histogram: Mapping[str, Sequence[float]], score: float) -> float:
    """Per cent of a histogram's neurons below a score; within a bin they are taken to lie evenly."""
    counts, edges = np.array(histogram["counts"], dtype=float), np.array(histogram["edges"], dtype=float)
    below = np.interp(score, edges, np.concatenate([[0.0], counts.cumsum()]))
    return 100 * float(below) / float(counts.sum())


def landscape_metric(landscape: dict[str, Any], kind: str, name: str) -> float | None:
    """The loss, accuracy or mean rise of a network, or the barrier of a path ("parent 0 to fused")."""
    if kind == "barrier":
        return next(path["barrier"] for path in landscape["paths"] if f"{path['first']} to {path['last']}" == name)
    if kind == "rise":
        return next(rise["mean"] for rise in landscape["rises"] if rise["name"] == name)
    return next(marker[kind] for marker in landscape["markers"] if marker["name"] == name)


def packed(correct: np.ndarray) -> str:
    """The inverse of `Result.knows`."""
    return base64.b64encode(np.packbits(correct).tobytes()).decode()


def path_of(root: str | Path, key: str) -> Path:
    """Where a unit's result lies in a runs folder."""
    return Path(root, FOLDER, f"{key}.json")


def write_result(root: str | Path, result: Result) -> None:
    """Write a result, sealed, whole or not at all."""
    content = asdict(result)
    path = path_of(root, result.key)
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, json.dumps({"schema": SCHEMA, "seal": seal_of(content), **content}, indent=1) + "\n")


def read_result(root: str | Path, key: str) -> Result | None:
    """A unit's result; None where there is none. A damaged file is set aside, so that the unit is measured again."""
    path = path_of(root, key)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        schema, seal = content.pop("schema"), content.pop("seal")
        result = Result(**content)
        if schema != SCHEMA or seal != seal_of(content) or result.key != key:
            raise ValueError("its content does not match its seal")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        _set_aside(path)
        return None
    return result


def all_results(root: str | Path) -> dict[str, Result]:
    """Every sound result of a runs folder, by key."""
    keys = sorted(path.stem for path in Path(root, FOLDER).glob("*.json"))
    return {key: result for key in keys if (result := read_result(root, key))}


def _set_aside(path: Path) -> None:
    """Keep a damaged file under another name; one that is gone meanwhile was set aside by somebody else."""
    try:
        path.replace(path.with_name(f"{path.name}{DAMAGED}"))
    except OSError:
        return


def seal_of(content: Mapping[str, Any]) -> str:
    """SHA-256 of a file's content in plain JSON types, which tells whether it is as it was written."""
    return key_of(content, 64)
