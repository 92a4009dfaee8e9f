"""Results of units: one sealed file each, which outlives the networks and can be copied to another machine."""

import base64
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..runs.store import UNIT
from ..system.files import json_of, key_of, write

SCHEMA = 1
DAMAGED = ".damaged"


@dataclass(frozen=True)
class Result:
    """A unit's metrics, or the reason for having none."""

    key: str
    unit: dict[str, Any]
    """Result of `Unit.to_json`"""
    title: str
    command: str
    inputs: dict[str, str]
    """Role -> digest of each available input"""
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
        """The machine and versions."""
        numbers = [(self.machine[name], name) for name in ("cores", "threads") if self.machine.get(name)]
        counts = [f"{number} {name.removesuffix('s') if number == 1 else name}" for number, name in numbers]
        versions = [
            f"{name} {self.machine[name]}" for name in ("python", "torch", "retrofit") if self.machine.get(name)
        ]
        return ", ".join([str(self.machine.get("device", "unknown machine")), *counts, *versions])

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


def machine_words(results: Sequence[Result]) -> str:
    """The machine and versions of results, and their commits in this order."""
    commits = list(dict.fromkeys(commit for result in results if (commit := result.machine.get("commit"))))
    return results[0].measured_on + (
        f", commit{'s' if len(commits) > 1 else ''} {', '.join(commits)}" if commits else ""
    )


def share_below(histogram: Mapping[str, Sequence[float]], score: float) -> float:
    """Percentage of a histogram's neurons below a score, assuming an even distribution within bins."""
    counts, edges = np.array(histogram["counts"], dtype=float), np.array(histogram["edges"], dtype=float)
    below = np.interp(score, edges, np.concatenate([[0.0], counts.cumsum()]))
    return 100 * float(below) / float(counts.sum())


def packed(correct: np.ndarray) -> str:
    """The inverse of `Result.knows`."""
    return base64.b64encode(np.packbits(correct).tobytes()).decode()


def rounded(content: Any, digits: int) -> Any:
    """Plain JSON types, with at most this many decimals."""
    return json.loads(json.dumps(content), parse_float=lambda text: round(float(text), digits))


def path_of(root: str | Path, key: str) -> Path:
    """Path of a unit's result in a runs folder."""
    return Path(root, UNIT.folder, key, UNIT.last)


def write_result(root: str | Path, result: Result) -> None:
    """Write a result atomically, with a seal."""
    content = asdict(result)
    path = path_of(root, result.key)
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path, json.dumps({"schema": SCHEMA, "seal": seal_of(content), **content}, indent=1) + "\n")


def read_result(root: str | Path, key: str) -> Result | None:
    """A unit's result; None if there is none. A damaged file is renamed, so that the unit is measured again."""
    path = path_of(root, key)
    try:
        content = json_of(path)
        schema, seal = content.pop("schema"), content.pop("seal")
        result = Result(**content)
        if schema != SCHEMA or seal != seal_of(content) or result.key != key:
            raise ValueError("its content does not match its seal")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        with suppress(OSError):  # another process has renamed it
            path.replace(path.with_name(f"{path.name}{DAMAGED}"))
        return None
    return result


def all_results(root: str | Path) -> dict[str, Result]:
    """All valid results of a runs folder, by key."""
    keys = sorted(path.parent.name for path in Path(root, UNIT.folder).glob(f"*/{UNIT.last}"))
    return {key: result for key in keys if (result := read_result(root, key))}


def seal_of(content: Mapping[str, Any]) -> str:
    """SHA-256 of a file's content in plain JSON types, which reveals changes."""
    return key_of(content, 64)
