"""Symmetry: which neurons of a network may change places, and networks in which they did."""

from .apart import groups_apart
from .groups import Group, Junction, Place, Point, neuron_groups, tensors
from .maps import Maps, mapped, matching, permuted, reordered, shuffled
from .watch import Sums, Watched, group_sums

__all__ = [
    "Group",
    "Junction",
    "Maps",
    "Place",
    "Point",
    "Sums",
    "Watched",
    "group_sums",
    "groups_apart",
    "mapped",
    "matching",
    "neuron_groups",
    "permuted",
    "reordered",
    "shuffled",
    "tensors",
]
