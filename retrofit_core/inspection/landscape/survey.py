"""What a landscape holds, finished or not: the grid, the networks on it, paths with their barriers, flatness."""

import csv
import io
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import isfinite
from pathlib import Path as FilePath
from typing import Any

import torch
from torch import Tensor

from ...system import files

SCHEMA = 1
#: Seconds between two writings of a survey that grows, at least; and the share of the time between two that they may take.
INTERVAL, SHARE = 0.4, 0.1
JSON, CSV = "landscape.json", "landscape.csv"
#: A network is drawn on the plane if it lies less than this share of the plane's extent away from it.
ON_PLANE = 1e-3
FIELDS = ("kind", "name", "x", "y", "t", "loss", "accuracy")
SCALING = (
    "Flatness depends on how weights are scaled: neurons scaled up here and down in the next layer compute the same and have "
    "another landscape (Dinh et al. 2017). Compare networks of one architecture and training only."
)


@dataclass(frozen=True)
class Marker:
    """A network beside the plane's contours."""

    name: str
    x: float
    y: float
    """Of its projection onto the plane"""
    distance: float
    """Off the plane, Euclidean distance between weights"""
    loss: float
    """Of the network itself, wherever it is, with its own BatchNorm statistics"""
    accuracy: float
    """Per cent, of the network itself"""


@dataclass(frozen=True)
class Path:
    """The straight line between two networks."""

    first: str
    last: str
    t: tuple[float, ...]
    """From 0, the first network, to 1"""
    loss: tuple[float, ...]
    accuracy: tuple[float, ...]

    @property
    def rises(self) -> tuple[float, ...]:
        """How far the loss lies above the straight line between its ends."""
        start, end = self.loss[0], self.loss[-1]
        return tuple(loss - (1 - t) * start - t * end for t, loss in zip(self.t, self.loss, strict=True))

    @property
    def barrier(self) -> float:
        """The largest rise (Frankle et al. 2020), which is 0 or above, for the ends are points of the path."""
        return max(self.rises)

    @property
    def top(self) -> float:
        """Where the barrier is, 0 to 1."""
        return self.t[self.rises.index(self.barrier)]


@dataclass(frozen=True)
class Rise:
    """How much the loss rises around a network, at one distance in the plane's directions."""

    name: str
    radius: float
    mean: float
    most: float


@dataclass(frozen=True, eq=False)
class Survey:
    """A landscape as far as it is known."""

    through: tuple[str, str, str]
    """The networks that span the plane: the first is the origin, the second is on the first axis"""
    xs: Tensor
    """(n,) float64 coordinates of the columns, in distances between weights"""
    ys: Tensor
    """(n,) of the rows"""
    loss: Tensor
    """(rows, columns) float64, raw: nothing is clipped; NaN where a cell is not finished"""
    accuracy: Tensor
    """(rows, columns) per cent"""
    finished: Tensor
    """(rows, columns) bool"""
    markers: tuple[Marker, ...]
    facts: dict[str, Any]
    """What belongs into a caption: data, split, images, resolution, seed, norms, precision, device, radius, clip"""
    paths: tuple[Path, ...] = ()
    rises: tuple[Rise, ...] = ()
    done: int = 0
    """Evaluations"""
    total: int = 0
    seconds: float = 0.0

    @classmethod
    def empty(
        cls, through: tuple[str, str, str], xs: Tensor, ys: Tensor, facts: dict[str, Any], total: int
    ) -> "Survey":
        """A survey of which nothing is measured yet; arguments as the fields."""
        unknown = torch.full((len(ys), len(xs)), float("nan"), dtype=torch.float64)
        return cls(through, xs, ys, unknown, unknown, unknown > 0, (), facts, total=total)

    @property
    def is_finished(self) -> bool:
        """Whether nothing is missing."""
        return self.done == self.total

    @property
    def clipped(self) -> Tensor:
        """(rows, columns) bool: finished cells whose loss a drawing clips, to be hatched."""
        clip = self.facts.get("clip")
        return self.finished & (self.loss > clip) if clip is not None else torch.zeros_like(self.finished)

    def is_on_plane(self, marker: Marker) -> bool:
        """Whether a network lies on the plane, but for rounding."""
        extent = max((self.xs[-1] - self.xs[0]).item(), (self.ys[-1] - self.ys[0]).item())
        return marker.distance < ON_PLANE * extent

    def caption(self) -> str:
        """What the picture shows, how it was measured, and what it does not say."""
        facts = self.facts
        rows, columns = self.loss.shape
        norms = {
            "estimated": " BatchNorm: statistics estimated again at each point, on the same images.",
            "interpolated": " BatchNorm: statistics mixed as the weights are.",
        }
        precision = " Products of the grid in bfloat16." if facts["precision"] == "bfloat16" else ""
        first, second, third = self.through
        return (
            f"The plane through {first}, {second} and {third}; {columns} x {rows} points, {facts['images']} images of "
            f"{facts['data']} ({facts['split']}), seed {facts['seed']}.{norms.get(facts['norms'], '')}{precision}"
        )

    def to_json(self) -> dict[str, Any]:
        """Everything, in plain JSON types; a loss that is no number, of a finished cell too, is null."""
        content = {name: _plain(value) for name, value in vars(self).items()}
        paths = [
            {**path, "barrier": _plain(line.barrier)} for path, line in zip(content["paths"], self.paths, strict=True)
        ]
        return {"schema": SCHEMA, **content, "paths": paths, "caption": self.caption(), "warning": SCALING}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "Survey":
        """The inverse of `to_json`.

        Raises:
            ValueError: another schema, or something is missing.
        """
        try:
            if content["schema"] != SCHEMA:
                raise ValueError(f"the landscape has schema {content['schema']}, this version reads {SCHEMA}.")
            finished = torch.tensor(content["finished"], dtype=torch.bool)
            return cls(
                through=(content["through"][0], content["through"][1], content["through"][2]),
                xs=torch.tensor(content["xs"], dtype=torch.float64),
                ys=torch.tensor(content["ys"], dtype=torch.float64),
                loss=_grid(content["loss"], finished),
                accuracy=_grid(content["accuracy"], finished),
                finished=finished,
                markers=tuple(Marker(**{**marker, "loss": _loss(marker["loss"])}) for marker in content["markers"]),
                paths=tuple(_path(path) for path in content["paths"]),
                rises=tuple(Rise(**{name: _loss(value) for name, value in rise.items()}) for rise in content["rises"]),
                **{name: content[name] for name in ("facts", "done", "total", "seconds")},
            )
        except (KeyError, TypeError, IndexError) as error:
            raise ValueError(f"this is no landscape: {error} is missing or of another kind.") from error

    def to_csv(self) -> str:
        """A line for each network, finished cell of the grid, and point of a path."""
        text = io.StringIO()
        writer: csv.DictWriter[str] = csv.DictWriter(text, FIELDS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self._lines())
        return text.getvalue()

    def _lines(self) -> Iterator[dict[str, Any]]:
        for marker in self.markers:
            yield {"kind": "network", **{name: value for name, value in vars(marker).items() if name != "distance"}}
        for row, column in self.finished.nonzero().tolist():
            at = {"x": self.xs[column], "y": self.ys[row], "loss": self.loss[row, column]}
            at["accuracy"] = self.accuracy[row, column]
            yield {"kind": "grid", **{name: value.item() for name, value in at.items()}}
        for path in self.paths:
            for t, loss, accuracy in zip(path.t, path.loss, path.accuracy, strict=True):
                name = f"{path.first} to {path.last}"
                yield {"kind": "path", "name": name, "t": t, "loss": loss, "accuracy": accuracy}

    def save(self, folder: str | FilePath) -> None:
        """Write landscape.json and landscape.csv."""
        folder = FilePath(folder)
        folder.mkdir(parents=True, exist_ok=True)
        files.write(folder / JSON, json.dumps(self.to_json(), indent=1, allow_nan=False))
        files.write(folder / CSV, self.to_csv())

    @classmethod
    def load(cls, folder: str | FilePath) -> "Survey":
        """Read what `save` wrote.

        Raises:
            ValueError: landscape.json is missing or broken.
        """
        path = FilePath(folder) / JSON
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ValueError(f"{path} is missing or broken. Compute the landscape again.") from error
        return cls.from_json(content)


def keep(surveys: Iterable[Survey], folder: str | FilePath) -> Survey:
    """Write surveys as they come, now and then and the last one in any case, also where the work is stopped.

    Returns:
        The last one.
    Raises:
        ValueError: there is none.
    """
    latest, is_written, wait, written = None, True, 0.0, 0.0
    try:
        for latest in surveys:
            start = time.monotonic()
            is_written = start - written >= wait
            if is_written:
                latest.save(folder)
                written = time.monotonic()
                wait = max(INTERVAL, (written - start) / SHARE)
    finally:
        if latest is not None and not is_written:
            latest.save(folder)
    if latest is None:
        raise ValueError("there is no survey to keep.")
    return latest


def _plain(value: object) -> Any:
    """A value of a survey in JSON types."""
    if isinstance(value, Tensor):
        return _plain(value.tolist())
    if isinstance(value, (Marker, Path, Rise)):
        return _plain(vars(value))
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def _loss(value: object) -> Any:
    """A loss that was no number is one that is too large."""
    return float("inf") if value is None else value


def _grid(rows: list[list[float | None]], finished: Tensor) -> Tensor:
    grid = torch.tensor([[_loss(value) for value in row] for row in rows], dtype=torch.float64)
    return torch.where(finished, grid, float("nan"))


def _path(facts: dict[str, Any]) -> Path:
    losses = tuple(_loss(value) for value in facts["loss"])
    return Path(facts["first"], facts["last"], tuple(facts["t"]), losses, tuple(facts["accuracy"]))
