"""Results: one CSV a table, a line a cell, in a runs folder and in `benchmarks/results/experiments`."""

import csv
import io
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from ..runs.answers import from_bits
from ..system.files import locked, replacing
from ..system.files import read as content_of

#: Folder of the tables, and of what they need, in a runs folder.
FOLDER = "experiments"


@dataclass(frozen=True)
class Result:
    """The number of a cell, or the reason for having none."""

    column: str
    row: str
    scale: str
    """Such as "small"; with what replaces the paper's data set, "smoke, digits for cifar10"; or "given VGG11s of full width" """
    parents: int = 0
    """Set of parents: the seed of their split and training"""
    seed: int = 0
    value: Any = None
    """A float in the unit of the column's metric; None if it was refused"""
    refusal: str = ""
    """Why the method does not apply"""
    images: int = 0
    """Test images"""
    bits: str = ""
    """Which test images the network gets right, see `answers.from_bits`"""
    seconds: float | None = None
    """Of the fusion or training"""
    machine: str = ""
    """Processor or GPU, threads, versions and commit"""
    date: str = ""
    metrics: dict[str, Any] = field(default_factory=dict)
    """per_class (%); of a landscape and of clusterings all that is drawn, in the first of the cells that share it"""

    @property
    def place(self) -> tuple[Any, ...]:
        """Its cell."""
        return self.column, self.row, self.scale, self.parents, self.seed

    def knows(self) -> np.ndarray:
        """(test images,) bool: which images the network gets right."""
        return from_bits(self.bits, self.images)


def share_below(histogram: Mapping[str, Sequence[float]], score: float) -> float:
    """Percentage of a histogram's neurons below a score, assuming an even distribution within bins."""
    counts, edges = np.array(histogram["counts"], dtype=float), np.array(histogram["edges"], dtype=float)
    below = np.interp(score, edges, np.concatenate([[0.0], counts.cumsum()]))
    return 100 * float(below) / float(counts.sum())


def results_of(table: str, runs: str | Path = "runs", others: Iterable[str | Path] = ()) -> list[Result]:
    """A table's results in a runs folder, which need not exist, and in further places; of two of a cell the former's.

    Args:
        others: files of results, folders of them, and runs folders.
    Raises:
        ValueError: one of the others is missing or holds no results, or a file is damaged.
    """
    files = []
    for path in others:
        files += (found := files_in(path))
        if not found and not Path(path, FOLDER).is_dir():
            raise ValueError(
                f"{path} holds no results: it is no CSV file of `retrofit reproduce`, and no folder of them."
            )
    return latest(file for file in [*files, *files_in(runs)] if file.stem == table)


def files_in(path: str | Path) -> list[Path]:
    """The files of results in a folder or a runs folder; or the file itself."""
    path = Path(path)
    return [path] if path.is_file() else sorted([*path.glob("*.csv"), *(path / FOLDER).glob("*.csv")])


def latest(files: Iterable[Path]) -> list[Result]:
    """The results in a table's files, of two of a cell the later one; raises as `read`."""
    return list({result.place: result for file in files for result in read(file)}.values())


def path_of(runs: str | Path, table: str) -> Path:
    """The file of a table in a runs folder."""
    return Path(runs, FOLDER, f"{table}.csv")


def read(file: Path) -> list[Result]:
    """The results in a file; raises ValueError if it holds something else."""
    csv.field_size_limit(sys.maxsize)  # the points of a figure are one field
    kinds = {"parents": int, "seed": int, "value": float, "images": int, "seconds": float, "metrics": json.loads}
    try:
        lines = csv.DictReader(io.StringIO(content_of(file).decode(), newline=""), strict=True)
        return [Result(**{name: kinds.get(name, str)(text) for name, text in line.items() if text}) for line in lines]
    except OSError as error:
        raise ValueError(f"the results in {file} cannot be read: {error.strerror}.") from error
    except (ValueError, TypeError, csv.Error) as error:
        raise ValueError(
            f"{file} does not hold results of `retrofit reproduce`: it contains other data. Delete it, or copy it again from "
            "where it came."
        ) from error


def add(runs: str | Path, table: str, results: Iterable[Result]) -> None:
    """Add results to a table's file in a runs folder, whole or not at all."""
    file = path_of(runs, table)
    with locked(file.parent, f"the file {file}", f"{file.name}.lock", patience=60):
        every = {result.place: result for result in [*(read(file) if file.exists() else []), *results]}
        lines = [asdict(result) for result in every.values()]
        for line in lines:
            line["metrics"] = json.dumps(line["metrics"], separators=(",", ":")) if line["metrics"] else ""
        with replacing(file) as temporary, temporary.open("w", encoding="utf-8", newline="") as content:
            writer = csv.DictWriter(content, [each.name for each in fields(Result)], lineterminator="\n")
            writer.writeheader()
            writer.writerows(lines)
