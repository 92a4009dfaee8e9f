"""Traces: a model's operations on an example, and their interpreter."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, fx, nn

from ...system.device import exact
from ...system.registry import first_line
from ..copies import tried
from ..hooks import hooks_of, refuse_changing_hooks
from ..outputs import does_not_run
from ..wrappers import class_name
from .kinds import held
from .plain import call_layers, erase_unused
from .tracer import Refused, Tracer, describe, inputs_of, traced


@dataclass(eq=False)
class Trace:
    """A model's operations on an example, traced once for cutting levels and following neurons.

    Nodes hold the shapes of their values on the example (`describe`), and what they call (`kinds.held`).
    """

    model: nn.Module
    graph: fx.Graph
    example: Tensor
    """(B, ...)"""
    sizes: bool
    """Whether the model's code reads sizes"""
    rules: Any = field(default=None, init=False)
    """The neurons of its tensors, once they are known, see `symmetry.rules.rules_of`"""

    def copy(self) -> "Trace":
        """A copy whose graph may be changed; nodes keep their names."""
        return replace(self, graph=copy.deepcopy(self.graph))

    @cached_property
    @torch.no_grad()
    def of_one(self) -> "Trace":
        """A copy with the shapes of the first sample alone."""
        if len(self.example) == 1:
            return self
        one = replace(self.copy(), example=self.example[:1])
        record_values(one.graph, one.example)
        return one


@exact()
def trace(model: nn.Module, leaves: Sequence[str], example: Tensor, *, whole: bool = False) -> Trace:
    """Trace a model on an example.

    Args:
        example: (B, ...) input; control flow sees its shapes.
        whole: whether to treat modules that cannot be followed as `leaves`.
    Raises:
        ValueError: `leaves` names no submodule, a forward hook changes values, the model cannot be traced, does not run on the
            example, or takes more than one input.
    """
    unknown = set(leaves) - {name for name, _ in model.named_modules()}
    if unknown:
        raise ValueError(f"leaves={sorted(unknown)} are not submodules of {class_name(model)}.")
    tracer = _traced(model, list(leaves), example, whole)
    if tracer.wrote:
        _check_views(model, example, record_values(tracer.graph, example))
    erase_unused(tracer.graph)
    call_layers(tracer.graph)
    return Trace(model, tracer.graph, example, tracer.sizes)


def _traced(model: nn.Module, leaves: list[str], example: Tensor, whole: bool) -> Tracer:
    name = class_name(model)
    inputs = inputs_of(model)
    if len(inputs) != 1:
        raise ValueError(
            f"{name} takes {len(inputs)} inputs; levels need exactly one. Wrap it in a module whose forward takes "
            "one tensor."
        )
    hooks = hooks_of(model, example)
    refuse_changing_hooks(model, hooks)
    try:
        tracer = traced(model, leaves, example, hooks, whole=whole)
    except Refused:
        raise
    except Exception as error:  # whatever the model's code raises
        reason = tried(model, example.clone())  # may be written into
        if isinstance(reason, Exception):
            raise does_not_run(name, example, reason) from reason
        raise ValueError(
            f"{name} cannot be traced by torch.fx ({first_line(error)}). Name the submodule in which this "
            "happens in leaves=[...], to take it whole, or wrap the model in one whose forward has no data-dependent "
            "branches."
        ) from error
    output = next(node for node in tracer.graph.nodes if node.op == "output")
    if not output.meta["is_tensor"]:
        kind = type(output.meta["value"]).__name__.removeprefix("immutable_")  # torch.fx's own lists and dicts
        raise ValueError(
            f"{name} returns {kind}, not one tensor. Say which of its tensors holds the logits: "
            "retrofit_core.giving_logits(model, NAME)."
        )
    return tracer


class Interpreter(fx.Interpreter):
    """Runs a traced graph node by node; the values are in `env`.

    Args:
        keep: whether values stay after their last reader.
    """

    def __init__(self, graph: fx.Graph, *, keep: bool = False) -> None:
        super().__init__(nn.Module(), not keep, graph)  # a GraphModule would compile code, and copy the graph
        self.targets = {node.target: held(node) for node in graph.nodes if node.op in ("call_module", "get_attr")}

    def fetch_attr(self, target: str) -> Any:
        """The module or tensor of that name."""
        return self.targets[target]


class _Recorder(Interpreter):
    """Describes each node as it runs, so that values need not stay."""

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        describe(n, result)
        return result


@torch.no_grad()
def record_values(graph: fx.Graph, example: Tensor) -> Tensor:
    """Run an example through a graph and `describe` its nodes; returns the output."""
    return _Recorder(graph).run(example.clone())  # may be written into


@torch.no_grad()
def _check_views(model: nn.Module, example: Tensor, output: Tensor) -> None:
    """Refuse a model whose trace without in-place operations differs, because one wrote into a view."""
    expected = model(example.clone())
    if not torch.allclose(output, expected, rtol=0, atol=rounding(expected), equal_nan=True):
        raise ValueError(
            f"{class_name(model)} writes into a part of a tensor that it reads again as a whole (an operation in "
            "place on a view), or is random; its operations cannot be followed. Let it compute a new tensor "
            "instead, as x = x * 2 does where x.mul_(2) writes."
        )


def rounding(numbers: Tensor) -> float:
    """By how much a tensor may differ from one that is computed in another order: half of the digits that its dtype has, of
    the largest finite number in it."""
    digits = torch.finfo(numbers.dtype).eps ** 0.5 if numbers.is_floating_point() else 0.0
    return digits * numbers.double().nan_to_num(0, 0, 0).abs().max().item()
