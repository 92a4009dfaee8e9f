"""The content of a landscape, finished or not: grid, networks, paths with barriers, flatness."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from math import isfinite
from pathlib import Path as FilePath
from typing import Any

import torch
from torch import Tensor

from ...system import files

SCHEMA = 1
#: Least seconds between two writes of a growing survey, and the largest share of time for writing.
INTERVAL, SHARE = 0.4, 0.1
JSON = "landscape.json"
#: A network counts as on the plane within this share of the plane's extent.
ON_PLANE = 1e-3
SCALING = (
    "Flatness depends on how weights are scaled: neurons scaled up in one layer and down in the next compute the "
    "same but have a different landscape (Dinh et al. 2017). Compare networks of one architecture and training only."
)


@dataclass(frozen=True)
class Marker:
    """A network among the plane's contours."""

    name: str
    x: float
    y: float
    """x, y: its projection onto the plane"""
    distance: float
    """Euclidean distance of its weights from the plane"""
    loss: float
    """Loss of the network itself, on or off the plane, with its own BatchNorm statistics"""
    accuracy: float
    """Accuracy (%) of the network itself"""


@dataclass(frozen=True)
class Path:
    """The straight line between two networks."""

    first: str
    last: str
    t: tuple[float, ...]
    """From 0 (first network) to 1"""
    loss: tuple[float, ...]
    accuracy: tuple[float, ...]

    @property
    def rises(self) -> tuple[float, ...]:
        """How far the loss is above the linear interpolation of its ends."""
        start, end = self.loss[0], self.loss[-1]
        return tuple(loss - (1 - t) * start - t * end for t, loss in zip(self.t, self.loss, strict=True))

    @property
    def barrier(self) -> float:
        """The largest rise (Frankle et al. 2020), at least 0 because the path includes its ends."""
        return max(self.rises)

    @property
    def top(self) -> float:
        """Position of the barrier, 0 to 1."""
        return self.t[self.rises.index(self.barrier)]


@dataclass(frozen=True)
class Rise:
    """The rise of the loss around a network, at one distance in directions of the plane."""

    name: str
    radius: float
    mean: float
    most: float


@dataclass(frozen=True, eq=False)
class Survey:
    """The known part of a landscape."""

    through: tuple[str, str, str]
    """The networks that span the plane: the first is the origin, the second is on the first axis"""
    xs: Tensor
    """(n,) float64 coordinates of the columns, in distances between weights"""
    ys: Tensor
    """(n,) coordinates of the rows"""
    loss: Tensor
    """(rows, columns) float64, unclipped; NaN in unfinished cells"""
    accuracy: Tensor
    """(rows, columns) in %"""
    finished: Tensor
    """(rows, columns) bool"""
    markers: tuple[Marker, ...]
    facts: dict[str, Any]
    """Facts for a caption: data, split, images, resolution, seed, norms, device, radius, clip"""
    paths: tuple[Path, ...] = ()
    rises: tuple[Rise, ...] = ()
    done: int = 0
    """Number of evaluations"""
    total: int = 0
    seconds: float = 0.0

    @property
    def clipped(self) -> Tensor:
        """(rows, columns) bool: finished cells whose loss a drawing clips and hatches."""
        clip = self.facts.get("clip")
        return self.finished & (self.loss > clip) if clip is not None else torch.zeros_like(self.finished)

    def is_on_plane(self, marker: Marker) -> bool:
        """Whether a network is on the plane up to rounding."""
        extent = max((self.xs[-1] - self.xs[0]).item(), (self.ys[-1] - self.ys[0]).item())
        return marker.distance < ON_PLANE * extent

    def caption(self) -> str:
        """What the picture shows, and how it was measured."""
        facts = self.facts
        rows, columns = self.loss.shape
        estimated = facts["norms"] == "estimated"
        norms = " BatchNorm: statistics re-estimated at each point, on the same images." if estimated else ""
        first, second, third = self.through
        return (
            f"The plane through {first}, {second} and {third}; {columns} x {rows} points, {facts['images']} images "
            f"of {facts['data']} ({facts['split']}), seed {facts['seed']}.{norms}"
        )

    def to_json(self) -> dict[str, Any]:
        """All content in plain JSON types; losses that are not finite become null, also in finished cells."""
        content = {name: _plain(value) for name, value in vars(self).items()}
        paths = [
            {**path, "barrier": _plain(line.barrier)} for path, line in zip(content["paths"], self.paths, strict=True)
        ]
        return {"schema": SCHEMA, **content, "paths": paths, "caption": self.caption(), "warning": SCALING}

    @classmethod
    def from_json(cls, content: dict[str, Any]) -> "Survey":
        """The inverse of `to_json`.

        Raises:
            ValueError: another schema, or missing content.
        """
        try:
            if content["schema"] != SCHEMA:
                raise ValueError(f"the landscape has schema {content['schema']}, this version reads {SCHEMA}.")
            finished = torch.tensor(content["finished"], dtype=torch.bool)
            names = ("loss", "accuracy", "markers", "paths", "rises")
            loss, accuracy, markers, paths, rises = (_infinite(content[name]) for name in names)
            for path in paths:
                del path["barrier"]

            def numbers(values: object) -> Tensor:
                return torch.tensor(values, dtype=torch.float64)

            return cls(
                tuple(content["through"]),
                numbers(content["xs"]),
                numbers(content["ys"]),
                torch.where(finished, numbers(loss), float("nan")),
                torch.where(finished, numbers(accuracy), float("nan")),
                finished,
                tuple(Marker(**marker) for marker in markers),
                content["facts"],
                tuple(Path(**path) for path in paths),
                tuple(Rise(**rise) for rise in rises),
                *(content[name] for name in ("done", "total", "seconds")),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"this is not a landscape: {error} is missing or of the wrong type.") from error

    def save(self, folder: str | FilePath) -> None:
        """Write landscape.json."""
        folder = FilePath(folder)
        folder.mkdir(parents=True, exist_ok=True)
        files.write(folder / JSON, json.dumps(self.to_json(), indent=1, allow_nan=False))

    @classmethod
    def load(cls, folder: str | FilePath) -> "Survey":
        """Read what `save` wrote.

        Raises:
            ValueError: landscape.json is missing or damaged.
        """
        path = FilePath(folder) / JSON
        try:
            content = files.json_of(path)
        except (OSError, ValueError) as error:
            raise ValueError(f"{path} is missing or broken. Compute the landscape again.") from error
        return cls.from_json(content)


def keep(surveys: Iterator[Survey], folder: str | FilePath) -> Survey:
    """Write surveys at intervals as they come, and always the last one, even if the work is stopped.

    Returns:
        The last one.
    """
    latest = next(surveys)
    latest.save(folder)
    start, took = time.monotonic(), 0.0
    try:
        for latest in surveys:
            if (now := time.monotonic()) - start >= max(INTERVAL, took / SHARE):
                latest.save(folder)
                start = time.monotonic()
                took = start - now
    finally:
        latest.save(folder)
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


def _infinite(value: object) -> Any:
    """A value in JSON types with infinity for null, and tuples for lists."""
    if isinstance(value, dict):
        return {name: _infinite(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return tuple(map(_infinite, value))
    return float("inf") if value is None else value
