"""Symmetry: which neurons of a network may change places, and networks in which they did."""

from .groups import Group, Place, Point, neuron_groups, tensors
from .maps import Maps, mapped, matching, permuted, reordered, shuffled
from .watch import Sums, Watched, group_sums

__all__ = [
    "Group",
    "Maps",
    "Place",
    "Point",
    "Sums",
    "Watched",
    "group_sums",
    "mapped",
    "matching",
    "neuron_groups",
    "permuted",
    "reordered",
    "shuffled",
    "tensors",
]
