"""Symmetry: which neurons of a network may be permuted, and how to permute them."""

from .apart import groups_apart
from .groups import IN_PLACE, NeuronTrace, neuron_groups, shuffled
from .maps import Group, Junction, Point, TensorPart, check_rest, mapped, matching, reordered, tensors
