"""Symmetry: which neurons of a network may change places, and networks in which they did."""

from .apart import groups_apart
from .group import Group, Junction, Place, Point, tensors
from .groups import neuron_groups
from .maps import Maps, mapped, matching, reordered
from .orders import permuted, shuffled
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
