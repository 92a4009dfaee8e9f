"""Layers that a method solves on their own (RegMean, PLeaS): which they are, and sums over their rows."""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, fx, nn

from ..fusion.moments import Moments, MomentSums
from ..fusion.moments.lags import MIN_CHANNELS, LagSums
from ..graph.graph import Values, name_of
from ..graph.layers import Layer, Operation
from ..graph.network import Network
from ..graph.walk import rows_in_chunks
from ..system.device import rows_per_batch
from .watch import MOST_SAMPLES

#: Weight -> the operations that read it, one for each time that the layer runs.
Solved = dict[str, list[Operation]]


def solved_layers(net: Network, where: str) -> Solved:
    """Linear layers and ungrouped convolutions.

    Args:
        where: method and network, to start the message.
    Raises:
        ValueError: a layer shares its weight or bias.
    """
    found: Solved = {}
    for op in (op for layer in net.layers for op in layer.operations):
        (name, *others) = op.weight.names
        affine = op.groups == 1 and not op.computed and name_of(op.node) not in ("embedding", "batch_norm")
        if affine and not others and op.weight.shape.numel() == net.weights[name].numel():
            found.setdefault(name, []).append(op)
    for name, operations in found.items():
        modules = dict.fromkeys(op.node.meta.get("module", "") for op in operations)
        if len(modules) > 1:
            raise ValueError(
                f"{where}: the weights of {' and '.join(map(repr, modules))} are one tensor, but this method solves each layer "
                "on its own. Use Git-Re-Basin, OTFusion or ZipIt, which keep it shared, or give each layer its own weights."
            )
        own = {op.product or op.node for op in operations} | {op.node for op in operations}
        names = [name, *(other for op in operations[:1] if op.bias is not None for other in op.bias.names)]
        for shared in names:
            if not _readers(net, net.graph.weights[shared]) <= own:
                raise ValueError(
                    f"{where}: {shared!r} is also read outside its layer, but this method solves each layer on its own. "
                    "Use Git-Re-Basin, OTFusion or ZipIt, which keep it shared, or give each use its own weights."
                )
    return found


def _readers(net: Network, node: fx.Node) -> set[fx.Node]:
    """The operations that read entries of a parameter and do not only move them."""
    found = set[fx.Node]()
    for user in net.graph.users[node]:
        found |= {user} if net.spaces.neurons.parameters.names(user) is None else _readers(net, user)
    return found


def refuse_other_numbers(nets: Sequence[Network], model: nn.Module, method: str, *, aligning: bool = False) -> None:
    """Refuse networks that compute with buffers, or frozen parameters, of other numbers, as where these normalise inputs, for
    methods that take the layers' inputs for those of the averaged network.

    Args:
        model: the first network.
        method: its name, to start the message.
        aligning: whether numbers for neurons go with these, so that they may stand in another order.
    Raises:
        ValueError: names a buffer and the numbers.
    """
    learned = {name for name, parameter in model.named_parameters() if parameter.requires_grad} or nets[0].graph.trained
    of_neurons = {name for space in nets[0].spaces.spaces for name, _ in space.axes if aligning}
    of_layers = {name for layer in nets[0].layers for op in layer.operations for name in op.names}
    for index, net in enumerate(nets[1:], 1):
        for name in sorted(_before_layers(nets[0], learned | of_layers) - of_neurons):
            one, other = nets[0].weights[name], net.weights[name]
            if one.is_floating_point() and not torch.allclose(one, other.to(one), 1e-5, 1e-6):
                place = (one - other.to(one)).abs().argmax()
                here, there = (f"{buffer.flatten()[place].item():.4g}" for buffer in (one, other))
                raise ValueError(
                    f"{method}: parent 0 and parent {index} compute with other numbers ({name!r} holds {here} and {there}), so "
                    "the layers' inputs are not those of the averaged network. Normalise data before the networks, alike for "
                    "all, or use HF-Linear or KF-Linear."
                )


def _before_layers(net: Network, learned: set[str]) -> set[str]:
    """What is not learned and leads to a layer; but statistics of a BatchNorm, and frozen parameters, only before what is."""
    graph, behind = net.graph, set[fx.Node]()
    trained = {node for name, node in graph.weights.items() if name in learned}
    for node in reversed(graph.nodes):
        if any(user in behind or not trained.isdisjoint(user.all_input_nodes) for user in graph.users[node]):
            behind.add(node)

    def normalises(user: fx.Node) -> bool:
        return trained.isdisjoint(graph.between([], [user]))

    return {
        name
        for name, node in graph.weights.items()
        if name not in learned and node in behind
        if all(
            (name not in graph.trained and name_of(user) != "batch_norm") or normalises(user)
            for user in graph.users[node]
        )
    }


def batch_for(net: Network, nodes: Sequence[fx.Node]) -> int:
    """Samples of which the values of some nodes fit into memory."""
    numbers = sum(net.spaces.neurons.shape(node).numel() for node in nodes)
    return min(MOST_SAMPLES, rows_per_batch(next(iter(net.weights.values())).element_size() * max(1, numbers)))


class OperationSums:
    """Sums over the rows of an operation: x its (unfolded) input rows, z rows of targets.

    Args:
        m: number of columns of z, which are zero if `add` gets no targets.
        dtype: precision of products; sums are float64.
        ones: whether x has a column of ones if the layer has a bias.
    """

    def __init__(self, op: Operation, m: int, *, dtype: torch.dtype, device: torch.device, ones: bool = True) -> None:
        op = replace(op, norm=None, bias=op.bias if ones else None)
        self.layer, self.m, self.dtype = Layer([op], op.node), m, dtype
        self.sums: MomentSums | LagSums
        if op.by_lags and op.channels >= MIN_CHANNELS and device.type == "cpu":
            self.sums = LagSums(op.channels, m, bias=self.layer.has_bias, device=device)
        else:
            self.sums = MomentSums(m, self.layer.inputs, bias=self.layer.has_bias, device=device)

    def add(self, x: Tensor, z: Tensor | None = None) -> None:
        """Add a batch of the operation's input tensors and, if there are targets, their rows (N, m)."""
        (op,) = self.layer.operations
        if z is None:
            z = x.new_zeros(len(x) * (op.unfold(x[:1]).numel() // op.weight.shape[1]), self.m)
        z = z.to(self.dtype)
        if isinstance(self.sums, LagSums):
            self.sums.add(z, x)
            return
        for rows, targets in rows_in_chunks(self.layer, [x], z, None, self.dtype):
            self.sums.add(targets, rows[:, 0])

    def finish(self) -> Moments:
        """The moments. Nothing can be added afterwards."""
        return self.sums.finish()


def values_of(net: Network, batch: Sequence[Tensor], nodes: Sequence[fx.Node]) -> Values:
    """The values of some nodes for a batch (B, ...) of inputs on any device."""
    device = next(iter(net.weights.values())).device
    return net.graph.run(net.weights, net.graph.input_values([tensor.to(device) for tensor in batch]), nodes)
