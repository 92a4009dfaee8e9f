"""A level's grouped neurons."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .words import letter

NAMED = 6  # clusters with a colour: the densest in ink, and five hues
ALIKE = 0.1  # the least Jaccard index at which two clusters correspond


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
    def centroids(self) -> np.ndarray:
        """(width, 2) each cluster's importance-weighted mean in the plane; without importance its members count alike."""
        total = np.bincount(self.labels, self.weights, self.width)
        weights = np.where(total[self.labels] > 0, self.weights, 1.0)
        counted = np.maximum(np.bincount(self.labels, weights, self.width), 1e-300)
        return np.stack([np.bincount(self.labels, weights * axis, self.width) / counted for axis in self.points.T], 1)

    @cached_property
    def distances(self) -> np.ndarray:
        """(m,) each neuron's distance to its cluster's centroid in the plane."""
        away = np.linalg.norm(self.points - self.centroids[self.labels], axis=1)
        return np.where(self.counts[self.labels] == 1, 0.0, away)

    @cached_property
    def densest(self) -> int | None:
        """The cluster with most members, on a tie the one with the lowest mean distance to its centroid; None if all are
        single."""
        if self.counts.max() < 2:
            return None
        tied = np.flatnonzero(self.counts == self.counts.max()).tolist()
        return min(tied, key=lambda cluster: self.distances[self.labels == cluster].mean())

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


# --- clusters of two groupings that correspond ---------------------------------------------------


def group_order(grouped: Neurons) -> list[int]:
    """A grouping's clusters: its densest, then the largest; among equals the most important."""
    weights = np.bincount(grouped.labels, grouped.weights, grouped.width)
    is_first = np.arange(grouped.width) == (-1 if grouped.densest is None else grouped.densest)
    order = np.lexsort((-weights, -grouped.counts, ~is_first)).tolist()
    return [cluster for cluster in order if grouped.counts[cluster]]


def coloured_clusters(reference: Neurons) -> list[int]:
    """A grouping's coloured clusters: the first of its order with several members."""
    return [cluster for cluster in group_order(reference)[:NAMED] if reference.counts[cluster] > 1]


def counterparts(reference: Neurons, grouped: Neurons) -> np.ndarray:
    """(width,) for each cluster of a grouping, the index in `coloured_clusters(reference)` of its counterpart; -1 for none.

    Pairs are formed greedily by the Jaccard index (members of both over members of either), the most alike first, each
    cluster once.
    """
    places = np.full(grouped.width, -1)
    alike = []
    for number, cluster in enumerate(coloured_clusters(reference)):
        members = reference.labels == cluster
        shared = np.bincount(grouped.labels[members], minlength=grouped.width)
        either = grouped.counts + int(members.sum()) - shared
        others = np.flatnonzero((shared > 0) & (grouped.counts > 1)).tolist()
        alike += [(-shared[other] / either[other], number, other) for other in others]
    joined: set[int] = set()
    for share, number, other in sorted(alike):
        if -share >= ALIKE and number not in joined and places[other] < 0:
            places[other] = number
            joined.add(number)
    return places
