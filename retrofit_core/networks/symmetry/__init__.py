"""Symmetry: which neurons of a network may be permuted, and how to permute them."""

from .apart import groups_apart
from .group import Group, Junction, Point, TensorPart, tensors
from .groups import IN_PLACE, NeuronTrace, neuron_groups, shuffled
from .maps import Maps, check_rest, mapped, matching, reordered
from .watch import Sums, Watched, group_sums

__all__ = [
    "IN_PLACE",
    "Group",
    "Junction",
    "Maps",
    "NeuronTrace",
    "TensorPart",
    "Point",
    "Sums",
    "Watched",
    "check_rest",
    "group_sums",
    "groups_apart",
    "mapped",
    "matching",
    "neuron_groups",
    "reordered",
    "shuffled",
    "tensors",
]
