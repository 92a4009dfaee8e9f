"""Symmetry: which neurons of a network may be permuted, and how to permute them."""

from .groups import IN_PLACE, NeuronTrace, neuron_groups, shuffled
from .maps import Group, Point, TensorPart, reordered, tensors
