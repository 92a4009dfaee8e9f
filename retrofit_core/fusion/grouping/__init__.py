"""Grouping: which of the parents' neurons each fused neuron represents (paper sec. 4.2.1), in Gram space.

Legend: m neurons of all parents, G (m, m) their inner products, s (m,) scores, d groups, R_k group k. A grouping is a
subclass of `Grouper`, whose fields are its options, and one line in GROUPINGS. Users pass their own as a function
`(gram, scores, widths, width, *, generator) -> Grouping`.
"""

from .assignment import PRECISION, assigned, first_least
from .base import (
    Grouper,
    Grouping,
    check_enough,
    check_grouping,
    grouped,
    grouped_cost,
    level_generator,
    ordered_like,
    pairwise_costs,
)
from .controls import Random, SameIndex
from .hungarian import Hungarian
from .kmeans import KMeans

GROUPINGS: dict[str, type[Grouper]] = {
    "hungarian": Hungarian,
    "kmeans": KMeans,
    "same_index": SameIndex,
    "random": Random,
}

__all__ = [
    "GROUPINGS",
    "Grouper",
    "Grouping",
    "Hungarian",
    "KMeans",
    "PRECISION",
    "Random",
    "SameIndex",
    "assigned",
    "check_enough",
    "check_grouping",
    "first_least",
    "grouped",
    "grouped_cost",
    "level_generator",
    "ordered_like",
    "pairwise_costs",
]
