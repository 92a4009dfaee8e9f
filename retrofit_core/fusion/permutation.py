"""Networks with their neurons in another order."""

import torch
from torch import nn

from ..graph.graph import load
from ..graph.network import networks_of
from ..graph.spaces import permuted_weights, random_orders
from ..networks.inputs import moved
from ..networks.outputs import Which, as_given
from ..system import device as devices
from .task import Task


def permuted(network: nn.Module, data: object, seed: int = 0, *, logits: Which | None = None) -> nn.Module:
    """A copy that computes the same, with the neurons of every layer in random order.

    Neurons of a head stay in it, and those of a part of a grouped convolution in their part, which moves as a whole. It tests
    whatever should not depend on the order of neurons: fusing a network with its permuted copy must return the network, and
    the plain average must not.

    Args:
        data: samples that the network takes, in any form that methods take.
        seed: of the order.
        logits: see `fuse`.
    Raises:
        ValueError: the network cannot be traced, its neurons cannot be followed, or it does not take the data.
    """
    task = Task.of([network], data, logits=logits, seed=seed)
    (parent,) = task.parents
    with devices.exact(), torch.inference_mode(False):
        (net,) = networks_of([parent], moved(task.inputs, devices.of(parent), task.dtype))
        made = {space for columns in net.columns for space in columns[:, 0].tolist()}
        spaces = [
            space
            for number, space in enumerate(net.spaces.spaces)  # but coordinates in a buffer, which all networks share
            if number in made or space.family is not None or {name for name, _ in space.axes} <= net.graph.trained
        ]
        orders = random_orders(spaces, torch.Generator().manual_seed(seed))
        load(parent, permuted_weights(net.weights, net.spaces.neurons, spaces, orders))
    return as_given(parent)
