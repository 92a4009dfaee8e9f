"""What a landscape holds, finished or not: the grid, the networks on it, paths with their barriers, flatness."""

import csv
import io
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path as FilePath
from typing import Any

import torch
from torch import Tensor

from ...system import files

SCHEMA = 1
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
    """Of the network itself, wherever it lies, with the statistics of BatchNorm that it holds"""
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
    """The networks that span the plane: the first is the origin, the second lies on the first axis"""
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
            "estimated": " BatchNorm: statistics estimated anew at each point, on the same images.",
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
        return {
            "schema": SCHEMA,
            "through": list(self.through),
            "xs": self.xs.tolist(),
            "ys": self.ys.tolist(),
            "loss": [[_number(value) for value in row] for row in self.loss.tolist()],
            "accuracy": [[_number(value) for value in row] for row in self.accuracy.tolist()],
            "finished": self.finished.tolist(),
            "markers": [{**vars(marker), "loss": _number(marker.loss)} for marker in self.markers],
            "paths": [
                {**vars(path), "loss": [_number(value) for value in path.loss], "barrier": _number(path.barrier)}
                for path in self.paths
            ],
            "rises": [{**vars(rise), "mean": _number(rise.mean), "most": _number(rise.most)} for rise in self.rises],
            "caption": self.caption(),
            "warning": SCALING,
            "facts": self.facts,
            "done": self.done,
            "total": self.total,
            "seconds": self.seconds,
        }

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
                (content["through"][0], content["through"][1], content["through"][2]),
                torch.tensor(content["xs"], dtype=torch.float64),
                torch.tensor(content["ys"], dtype=torch.float64),
                _grid(content["loss"], finished),
                _grid(content["accuracy"], finished),
                finished,
                tuple(Marker(**{**marker, "loss": _loss(marker["loss"])}) for marker in content["markers"]),
                content["facts"],
                tuple(_path(path) for path in content["paths"]),
                tuple(Rise(**{name: _loss(value) for name, value in rise.items()}) for rise in content["rises"]),
                content["done"],
                content["total"],
                content["seconds"],
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
            names = ("name", "x", "y", "loss", "accuracy")
            yield {"kind": "network", **{name: getattr(marker, name) for name in names}}
        for row, column in self.finished.nonzero().tolist():
            yield {
                "kind": "grid",
                "x": self.xs[column].item(),
                "y": self.ys[row].item(),
                "loss": self.loss[row, column].item(),
                "accuracy": self.accuracy[row, column].item(),
            }
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


@dataclass(eq=False)
class Sheet:
    """A survey under way: what is measured is written here, and `survey` copies it."""

    through: tuple[str, str, str]
    xs: Tensor
    ys: Tensor
    facts: dict[str, Any]
    total: int
    markers: list[Marker] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)
    rises: list[Rise] = field(default_factory=list)
    done: int = 0

    def __post_init__(self) -> None:
        shape = (len(self.ys), len(self.xs))
        self.values = torch.full((*shape, 2), float("nan"), dtype=torch.float64)
        self.finished = torch.zeros(shape, dtype=torch.bool)

    def take(self, known: Survey) -> None:
        """Begin with what is known already, of the same plan."""
        self.values = torch.stack([known.loss, known.accuracy], -1)
        self.finished = known.finished.clone()
        self.markers, self.paths, self.rises = list(known.markers), list(known.paths), list(known.rises)
        self.done = known.done

    def survey(self, seconds: float) -> Survey:
        """What is known now."""
        values = self.values.clone()
        return Survey(
            self.through,
            self.xs,
            self.ys,
            values[..., 0],
            values[..., 1],
            self.finished.clone(),
            tuple(self.markers),
            self.facts,
            tuple(self.paths),
            tuple(self.rises),
            self.done,
            self.total,
            seconds,
        )


def _number(value: float) -> float | None:
    return value if isfinite(value) else None


def _loss(value: Any) -> Any:
    """A loss that was no number is one that is too large."""
    return float("inf") if value is None else value


def _grid(rows: list[list[float | None]], finished: Tensor) -> Tensor:
    grid = torch.tensor([[_loss(value) for value in row] for row in rows], dtype=torch.float64)
    return torch.where(finished, grid, float("nan"))


def _path(facts: dict[str, Any]) -> Path:
    losses = tuple(_loss(value) for value in facts["loss"])
    return Path(facts["first"], facts["last"], tuple(facts["t"]), losses, tuple(facts["accuracy"]))
