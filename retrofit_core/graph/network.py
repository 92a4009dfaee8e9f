"""A network ready to be fused: its graph, weights, spaces and layers, which networks of the same code share."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, fx, nn

from ..networks.inputs import Inputs, leaves_of
from ..system.device import rows_per_batch
from .graph import Graph, weights_of
from .ids import varying
from .layers import Layer, Operation, layers_of
from .spaces import Spaces, spaces_of
from .tracing import of_samples, trace_all

#: Samples per forward pass at most: large enough for full-speed convolutions and long sums.
BATCH = 400


@dataclass(eq=False)
class Network:
    """A graph with weights, and what is known of its neurons and layers."""

    graph: Graph
    weights: dict[str, Tensor]
    spaces: Spaces
    layers: list[Layer]

    @cached_property
    def axes(self) -> list[int]:
        """The axis of each layer's neurons at its `place`: that of its outputs, unless it mixes positions."""
        neurons = self.spaces.neurons
        return [
            varying(neurons.ids.of(neurons.twins[layer.place]))[0] if layer.mixes else layer.axis
            for layer in self.layers
        ]

    @cached_property
    def columns(self) -> list[Tensor]:
        """For each layer, (d, 3) space, place in it and copy of each neuron, see `Spaces.columns`."""
        return [self.spaces.columns(layer.place, axis) for layer, axis in zip(self.layers, self.axes, strict=True)]

    @cached_property
    def widths(self) -> list[int]:
        """Outputs of each layer."""
        return [
            layer.width if layer.mixes else len(columns)
            for layer, columns in zip(self.layers, self.columns, strict=True)
        ]

    def inputs(self, op: Operation) -> tuple[Tensor, int]:
        """(channels, 3) what an operation reads, see `Spaces.columns`, and the kernel positions of each channel."""
        columns = self.spaces.columns(op.x, op.axis)
        return columns, op.weight.shape[1] * op.groups // len(columns)

    def alive(self, *, inputs: bool) -> dict[fx.Node, int]:
        """Node that depends on the inputs or on a layer -> how many such tensors are read behind it.

        Args:
            inputs: whether the inputs themselves count.
        """
        place, made, ends = self.graph.place, dict.fromkeys(self.graph.inputs), {layer.end for layer in self.layers}
        for node in self.graph.nodes:
            if node in ends or (node.target is not of_samples and any(other in made for other in node.all_input_nodes)):
                made[node] = None
        change = [0] * (len(place) + 1)
        for node in made if inputs else made.keys() - set(self.graph.inputs):
            until = [place[user] for user in self.graph.users[node] if user.target is not of_samples]
            change[place[node]] += 1
            change[max([place[node] + (node in self.graph.outputs), *until])] -= 1
        counts = [*accumulate(change)]
        return {node: counts[place[node]] for node in made}

    @cached_property
    def branched(self) -> bool:
        """Whether several tensors are alive at some layer's end, as inside blocks."""
        ends = [layer.end for number, layer in enumerate(self.layers) if number not in self.last]
        alive = self.alive(inputs=True)
        return any(alive[end] > 1 for end in ends)

    @cached_property
    def last(self) -> set[int]:
        """The last layer before each output if its neurons are classes, which stay in place."""
        before = [set(self.graph.between([], [output])) for output in self.graph.outputs]
        last = [max(k for k, layer in enumerate(self.layers) if layer.end in nodes) for nodes in before]
        return {number for number in last if self.columns[number][:, 0].max() < 0}

    def batch(self) -> int:
        """Samples per forward pass."""
        size = next(iter(self.weights.values())).element_size()
        values = map(self.spaces.neurons.real.get, self.graph.of_data)
        tensors = (value for value in values if isinstance(value, Tensor))
        return min(BATCH, rows_per_batch(size * max(value.numel() for value in tensors)))


def networks_of(
    models: Sequence[nn.Module],
    inputs: Inputs,
    *,
    parts: bool = True,
    opaque: bool = False,
) -> list[Network]:
    """The networks of some models, in order.

    Args:
        inputs: what they are called with.
        parts, opaque: see `spaces_of`.
    Raises:
        ValueError: names the model, the reason and a way out.
    """
    sample = [leaf[:1] for leaf in leaves_of(inputs)]
    found: list[Network] = []
    for number, model in enumerate(models):
        try:
            graph, weights = trace_all(model, inputs), weights_of(model)
            other = next((net for net in found if _same_code(graph, net.graph, weights, net.weights)), None)
            if other is not None:
                found.append(replace(other, weights=weights))
                continue
            spaces = spaces_of(graph, weights, sample, parts=parts, opaque=opaque)
            found.append(Network(graph, weights, spaces, layers_of(graph, spaces.neurons)))
        except ValueError as error:
            raise ValueError(f"parent {number}: {error}") from error
    return found


def _same_code(one: Graph, other: Graph, weights: dict[str, Tensor], others: dict[str, Tensor]) -> bool:
    """Whether two graphs differ in weights alone."""
    shapes = ({name: tensor.shape for name, tensor in each.items()} for each in (weights, others))
    if len(one.nodes) != len(other.nodes) or one.weights.keys() != other.weights.keys() or len({*map(str, shapes)}) > 1:
        return False

    def code(graph: Graph) -> list[Any]:
        return [
            (node.op, node.target if node.op == "call_function" else "", graph.names.get(node))
            + tuple(map(str, fx.map_arg((node.args, node.kwargs), lambda node: graph.place[node])))
            for node in graph.nodes
        ]

    alike = all(
        torch.equal(value, other.constants[other.nodes[one.place[node]]])
        for node, value in one.constants.items()
        if node in one.place and other.nodes[one.place[node]] in other.constants
    )
    return code(one) == code(other) and alike
