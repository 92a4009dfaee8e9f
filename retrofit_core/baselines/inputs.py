"""The networks of a task as graphs, on what they are called with: without the wrappers that pack it, or hooks that only look."""

import warnings
from collections.abc import Sequence
from contextlib import suppress

from torch import Tensor, nn

from ..fusion.task import Task
from ..graph.graph import Graph, weights_of
from ..graph.network import Network, networks_of
from ..graph.tracing import Inputs, leaves_of, trace_all
from ..networks.copies import fed, sharing_parameters
from ..networks.hooks import hooks_of, remove_looking_hooks
from ..networks.outputs import GivingLogits
from ..networks.packing import TakingPacked
from ..networks.wrappers import Wrapper, wrapper_of
from ..system import device as devices
from ..system.refusals import Notice


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
    samples, taking = samples.to(task.dtype), wrapper_of(task.parents[0], TakingPacked)
    if taking is None:
        return samples
    args, kwargs = taking.packing.unpack(samples)
    return kwargs or tuple(args)


def _example(task: Task, model: nn.Module) -> Inputs:
    return given(task, task.inputs[:3].to(devices.of(model)))


def _plain(model: nn.Module, task: Task) -> nn.Module:
    """The network, with the same parameters."""
    if hooks := hooks_of(model, fed(model, task.inputs[:2])):
        model = sharing_parameters(model)
        for hook in hooks:
            hook.read |= hook.changes
        remove_looking_hooks(model, hooks)
    return _unpacking(model)


def _unpacking(model: nn.Module) -> nn.Module:
    if isinstance(model, TakingPacked):
        return model.wrapped
    return model.around(_unpacking(model.wrapped)) if isinstance(model, Wrapper) else model


def say_what_is_left(task: Task, model: nn.Module) -> None:
    """Warn (`Notice`) of layers that do not lead to the output which is fused: they do not fit the fused neurons that they read.

    Args:
        model: the network whose weights the fused network starts from.
    """
    chosen = wrapper_of(model, GivingLogits)
    if chosen is None:
        return
    with suppress(ValueError):  # what cannot be traced is refused where that matters
        graph = graph_of(task, model)
        left = [name.rpartition(".")[0] or name for name in weights_of(model) if name not in graph.weights]
        layers = [repr(name) for name in dict.fromkeys(left)]
        if layers:
            more = f" and {len(layers) - 3} more" if len(layers) > 3 else ""
            warnings.warn(
                Notice(
                    f"only the output {chosen.which!r} is fused. {', '.join(layers[:3])}{more} do not lead to it and are not "
                    "fused: they read neurons that have changed. Do not use other outputs, or train these layers anew."
                ),
                stacklevel=2,
            )
