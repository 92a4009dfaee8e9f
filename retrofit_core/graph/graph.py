"""A network as one flat graph of ATen operations, and the one function that runs any part of it.

A graph holds no weights: parameters and buffers are placeholders with names, so every network of the same code can use it, and
weights may be leaves of autograd or many at once.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, fx, nn

from ..networks.inputs import moved

#: Values of nodes.
Values = dict[fx.Node, Any]
#: Parameters and buffers by name.
Weights = Mapping[str, Tensor]


@dataclass(eq=False)
class Graph:
    """Operations in order."""

    nodes: list[fx.Node]
    """Placeholders and operations, those alone that some output needs"""
    weights: dict[str, fx.Node]
    """Name -> placeholder of each parameter or buffer that is used"""
    trained: set[str]
    """Names of parameters"""
    inputs: list[fx.Node]
    """Placeholders of the tensors that the network is called with"""
    outputs: list[fx.Node]
    """What is asked for: the logits, or those of each head"""
    constants: Values = field(default_factory=dict)
    """Values of tensors that are neither weights nor inputs"""
    branches: bool = False
    """Whether the code asks something about the data, and would run other operations of the same weights"""
    owner: fx.Graph | None = None
    """Torch's graph of these nodes, without which they do not live"""

    @property
    def output(self) -> fx.Node:
        """The first output."""
        return self.outputs[0]

    @cached_property
    def names(self) -> dict[fx.Node, str]:
        """Placeholder -> name of the parameter or buffer."""
        return {node: name for name, node in self.weights.items()}

    @cached_property
    def place(self) -> dict[fx.Node, int]:
        """Node -> its number in `nodes`."""
        return {node: number for number, node in enumerate(self.nodes)}

    @cached_property
    def users(self) -> dict[fx.Node, list[fx.Node]]:
        """Node -> the nodes that read it."""
        return {node: [user for user in node.users if user in self.place] for node in self.nodes}

    @cached_property
    def of_data(self) -> set[fx.Node]:
        """Nodes whose values depend on the inputs."""
        found = set(self.inputs)
        for node in self.nodes:
            if not found.isdisjoint(node.all_input_nodes):
                found.add(node)
        return found

    def between(self, given: Iterable[fx.Node], wanted: Iterable[fx.Node]) -> list[fx.Node]:
        """The operations, in order, that compute some nodes from others."""
        given, needed, stack = set(given), set[fx.Node](), list(wanted)
        while stack:
            node = stack.pop()
            if node not in needed and node not in given:
                needed.add(node)
                stack += node.all_input_nodes
        return sorted(needed, key=self.place.__getitem__)

    def run(self, weights: Weights, given: Values, wanted: Iterable[fx.Node]) -> Values:
        """The values of some nodes, computed from those of others; what no later operation reads is freed.

        Autograd runs through it: given values and weights may be leaves.
        """
        wanted = list(wanted)
        work = self.between(given, wanted)
        last = {other: node for node in work for other in node.all_input_nodes}
        values, kept = dict(given), {*wanted, *given}
        for node in work:
            values[node] = self.compute(node, weights, values)
            for other in node.all_input_nodes:
                if last[other] is node and other not in kept:
                    values.pop(other, None)
        return {node: values[node] for node in wanted}

    def compute(self, node: fx.Node, weights: Weights, values: Values) -> Any:
        """The value of a node from those of the nodes that it reads."""
        if node in self.names:
            return weights[self.names[node]]
        if node in self.constants:
            return self.constants[node]
        target, args, kwargs = call_of(node, values.__getitem__)
        return target(*args, **kwargs)

    def input_values(self, batch: Sequence[Tensor]) -> Values:
        """The inputs' values for one batch: a tensor (B, ...) for each."""
        return dict(zip(self.inputs, batch, strict=True))

    def __call__(self, weights: Weights, *batch: Tensor) -> list[Tensor]:
        """The outputs for one batch."""
        values = self.run(weights, self.input_values(batch), self.outputs)
        return [values[node] for node in self.outputs]


def weights_of(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers by name, detached; a shared tensor once, under its first name."""
    return {name: tensor.detach() for name, tensor in _tensors(model).items()}


def beside(inputs: Any, weights: Weights) -> Any:
    """The inputs on the device and in the precision of some weights."""
    first = next(tensor for tensor in weights.values() if tensor.is_floating_point())
    return moved(inputs, first.device, first.dtype)


def samples_axis(node: fx.Node) -> int:
    """The axis of its samples."""
    return node.meta.get("samples") or 0


def load(model: nn.Module, weights: Weights) -> nn.Module:
    """Write weights by name into a network; returns it."""
    with torch.no_grad():
        for name, tensor in _tensors(model).items():
            tensor.copy_(weights[name])
    return model


def _tensors(model: nn.Module) -> dict[str, Tensor]:
    first: dict[int, tuple[str, Tensor]] = {}
    for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
        first.setdefault(id(tensor), (name, tensor))
    return dict(first.values())


def call_of(node: fx.Node, value: Callable[[fx.Node], Any]) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """An operation's function and arguments, with values in place of nodes."""
    args, kwargs = fx.map_arg((node.args, node.kwargs), value)
    return node.target, args, kwargs


def words(text: str) -> set[str]:
    """A set of names from a string."""
    return set(text.split())


def full_name(node: fx.Node) -> str:
    """`add` for aten.add.Tensor, `conv2d` for aten.conv2d."""
    target = getattr(node.target, "overloadpacket", node.target)
    return getattr(target, "__name__", str(target))


def name_of(node: fx.Node) -> str:
    """`add` for aten.add.Tensor, `conv` for aten.conv2d."""
    name = full_name(node)
    return name[:-2] if name[-2:] in ("1d", "2d", "3d") else name
