"""Networks with their neurons in another order."""

import torch
from torch import nn

from ..networks.packing import as_given
from ..networks.symmetry import shuffled
from ..system import device as devices
from .task import Task


def permuted(network: nn.Module, data: object, seed: int = 0, *, logits: str | int | None = None) -> nn.Module:
    """A copy that computes the same, with the neurons of every layer in random order.

    It tests whatever should not depend on the order of neurons: fusing a network with its permuted copy must return the network,
    and the plain average must not.

    Args:
        data: samples that the network takes, in any form that methods take; the first one is run.
        seed: of the order.
        logits: see `fuse`.
    Raises:
        ValueError: the network cannot be traced, its neurons cannot be followed, or it does not take the data.
    """
    task = Task.of([network], data, logits=logits, seed=seed)
    (parent,) = task.parents
    with devices.exact(), torch.inference_mode(False):
        example = task.inputs[:2].to(devices.of(parent), task.dtype)
        copied = shuffled(parent, example, torch.Generator().manual_seed(seed))
    return as_given(copied, task.packing)
