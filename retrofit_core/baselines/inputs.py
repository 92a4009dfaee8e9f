"""The networks of a task as graphs, on what they are called with: without the wrappers that pack it, or hooks that only look."""

from collections.abc import Sequence

from torch import Tensor, nn

from ..fusion.task import Task, unpacking
from ..graph.graph import Graph
from ..graph.network import Network, networks_of
from ..graph.tracing import Inputs, leaves_of, trace_all
from ..networks.copies import fed, sharing_parameters
from ..networks.hooks import hooks_of, remove_looking_hooks
from ..system import device as devices


def networks(task: Task, models: Sequence[nn.Module]) -> list[Network]:
    """The networks of some models on one device.

    Raises:
        ValueError: see `networks_of`.
    """
    plain, example = [_plain(model, task) for model in models], _example(task, models[0])
    return networks_of(plain, example, parts=False)


def graph_of(task: Task, model: nn.Module) -> Graph:
    """The graph alone of a model, whose neurons need not be known.

    Raises:
        ValueError: see `trace_all`.
    """
    return trace_all(_plain(model, task), _example(task, model))


def leaves(task: Task, samples: Tensor) -> list[Tensor]:
    """The tensors (B, ...) that networks read, in their precision, of packed samples."""
    return leaves_of(given(task, samples))


def given(task: Task, samples: Tensor) -> Inputs:
    """What networks are called with, in their precision, for packed samples."""
    return task.given(samples.to(task.dtype))


def _example(task: Task, model: nn.Module) -> Inputs:
    return given(task, task.inputs[:3].to(devices.of(model)))


def _plain(model: nn.Module, task: Task) -> nn.Module:
    """The network, with the same parameters."""
    if hooks := hooks_of(model, fed(model, task.inputs[:2])):
        model = sharing_parameters(model)
        for hook in hooks:
            hook.read |= hook.changes
        remove_looking_hooks(model, hooks)
    return unpacking(model)
