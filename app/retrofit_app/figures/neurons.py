"""A level's grouped neurons."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .words import letter


@dataclass(frozen=True, eq=False)
class Neurons:
    """A level's m neurons under one grouping."""

    name: str
    widths: tuple[int, ...]
    points: np.ndarray
    """(m, 2) principal components"""
    explained: np.ndarray
    """(2,) shares of the variance"""
    labels: np.ndarray
    """(m,) each neuron's cluster, 0..width-1"""
    width: int
    weights: np.ndarray
    """(m,) importance in multiples of the mean"""
    classes: tuple[str, ...] = ()
    """The neurons' classes, at the level whose neurons are the classes"""

    @cached_property
    def parents(self) -> np.ndarray:
        """(m,) each neuron's parent."""
        return np.repeat(np.arange(len(self.widths)), self.widths)

    @cached_property
    def numbers(self) -> np.ndarray:
        """(m,) each neuron's number within its parent."""
        return np.concatenate([np.arange(width) for width in self.widths])

    @cached_property
    def names(self) -> list[str]:
        """Each neuron's name: A3 is neuron 3 of network A, "A3 (cat)" also names its class."""
        return [
            f"{letter(parent)}{number}{self.class_of(number)}"
            for parent, number in zip(self.parents, self.numbers, strict=True)
        ]

    def class_of(self, number: int) -> str:
        """ " (cat)", a neuron's class; "" if it has none or the number is its name."""
        return f" ({self.classes[number]})" if self.classes and self.classes[number] != str(number) else ""

    @cached_property
    def counts(self) -> np.ndarray:
        """(width,) members of each cluster."""
        return np.bincount(self.labels, minlength=self.width)

    @cached_property
    def mixed(self) -> np.ndarray:
        """(width,) whether a cluster has members of more than one network."""
        table = np.zeros((self.width, len(self.widths)), dtype=bool)
        table[self.labels, self.parents] = True
        return table.sum(1) > 1

    @cached_property
    def densest(self) -> int | None:
        """See `densest_cluster`."""
        return densest_cluster(self.points, self.labels, self.weights)

    @cached_property
    def distances(self) -> np.ndarray:
        """(m,) each neuron's distance to its cluster's centroid in the plane."""
        total = np.bincount(self.labels, self.weights, self.width)
        even = total[self.labels] <= 0  # without importance, members count alike
        weights = np.where(even, 1.0, self.weights)
        sums = [np.bincount(self.labels, weights * axis, self.width) for axis in self.points.T]
        counted = np.maximum(np.bincount(self.labels, weights, self.width), 1e-300)
        centroids = np.stack(sums, axis=1) / counted[:, None]
        return np.where(
            self.counts[self.labels] == 1, 0.0, np.linalg.norm(self.points - centroids[self.labels], axis=1)
        )

    @property
    def hidden(self) -> float:
        """Share of the variance that the plane does not show."""
        return max(0.0, 1 - float(self.explained[:2].sum()))


def neurons(level: Any, labels: Any = None, scores: Any = None) -> Neurons:
    """What cluster pictures need of a `LevelReport`; by default as the run grouped it.

    Args:
        labels, scores: (m,) tensors of another grouping of the same neurons.
    """
    weights = (level.scores if scores is None else scores).double().numpy()
    labels = (level.labels if labels is None else labels).numpy()
    return Neurons(
        level.name,
        tuple(level.widths),
        level.coordinates.numpy()[:, :2],
        level.explained.numpy()[:2],
        labels,
        max(level.width, int(labels.max()) + 1),
        weights / max(weights.mean(), 1e-300),
    )


def recorded(plane: Mapping[str, Any], score: str) -> Neurons:
    """A level's neurons from the table `neuron-importance`, grouped with one score.

    Args:
        plane: "plane" of a clustering's metrics.
        score: uniform, conductance or deeplift.
    """
    labels = np.array(plane["labels"][score])
    return Neurons(
        plane["level"],
        tuple(plane["widths"]),
        np.array(plane["points"]).T,
        np.array(plane["explained"]),
        labels,
        int(labels.max()) + 1,
        np.array(plane["weights"][score]),
    )


def same_numbers(grouped: Neurons) -> bool:
    """Whether every cluster joins neurons of one number, as when a class joins the same class of other networks."""
    sums = np.bincount(grouped.labels, grouped.numbers, grouped.width)
    return bool((sums[grouped.labels] == grouped.numbers * grouped.counts[grouped.labels]).all())


def destinations(grouped: Neurons, rows: Sequence[int]) -> list[tuple[int, int]]:
    """Clusters that hold these neurons, and how many each; most first."""
    clusters, counts = np.unique(grouped.labels[np.asarray(rows, dtype=int)], return_counts=True)
    order = np.argsort(-counts, kind="stable")
    return list(zip(clusters[order].tolist(), counts[order].tolist(), strict=True))


def densest_cluster(points: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> int | None:
    """The cluster with most members, on a tie the one with the lowest mean distance to its weighted centroid; None if
    all are single."""
    counts = np.bincount(labels)
    if counts.max() < 2:
        return None
    tied = np.flatnonzero(counts == counts.max()).tolist()

    def spread(cluster: int) -> float:
        members = labels == cluster
        return float(np.linalg.norm(points[members] - centroid(points, weights, members), axis=1).mean())

    return min(tied, key=spread)


def centroid(points: np.ndarray, weights: np.ndarray, members: np.ndarray) -> np.ndarray:
    """(2,) importance-weighted mean of neurons; without importance all count alike."""
    total = weights[members].sum()
    return np.average(points[members], axis=0, weights=weights[members] if total > 0 else None)
