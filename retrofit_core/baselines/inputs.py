"""The networks of a task as graphs, and what they are called with."""

from collections.abc import Sequence

from torch import Tensor, nn

from ..fusion.task import Task
from ..graph.graph import Graph
from ..graph.network import Network, networks_of
from ..graph.tracing import trace_all
from ..networks.inputs import Inputs, leaves_of, moved, rows_of
from ..system import device as devices


def networks(task: Task, models: Sequence[nn.Module]) -> list[Network]:
    """The networks of some models on one device.

    Raises:
        ValueError: see `networks_of`.
    """
    return networks_of(models, _example(task, models[0]), parts=False)


def graph_of(task: Task, model: nn.Module) -> Graph:
    """The graph alone of a model, whose neurons need not be known.

    Raises:
        ValueError: see `trace_all`.
    """
    return trace_all(model, _example(task, model))


def leaves(task: Task, samples: Inputs) -> list[Tensor]:
    """The tensors (B, ...) that networks read, in their precision."""
    return [leaf.to(task.dtype) if leaf.is_floating_point() else leaf for leaf in leaves_of(samples)]


def _example(task: Task, model: nn.Module) -> Inputs:
    return moved(rows_of(task.inputs, slice(3)), devices.of(model), task.dtype)
