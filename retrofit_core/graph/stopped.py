"""Where knowledge is lost: what the networks say if the fusion had stopped after each layer.

Then every parent continues with its own remaining layers, and reads each neuron from the fused neuron that represents it.
"""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, fx

from ..fusion.fit.heads import read_back
from ..fusion.grouping import SameIndex
from ..fusion.results import LevelReport
from .groups import Groups
from .ids import varying
from .network import Network
from .walk import Batch, Walk


def stopped(
    nets: Sequence[Network], reports: Sequence[LevelReport], batches: Sequence[Batch], memory: int
) -> Iterator[list[Tensor]]:
    """After each layer, the logits (B, classes) of each parent, stopped there.

    Args:
        nets: parents and, last, the fused network, all of one code; the widths may differ.
        reports: of the fusion's layers.
        memory: bytes for values of the fused network that are kept between layers.
    Raises:
        ValueError: they are not of one code, or neurons lie along several axes where the fusion stops.
    """
    *parents, fused = nets
    groups = groups_of(nets, reports)
    walk = Walk(fused.graph, batches, next(iter(fused.weights.values())).device, memory)
    for number, layer in enumerate(fused.layers):
        walk.go([layer.end], memory)
        constant = {other.end for other in fused.layers[: number + 1]} - fused.graph.of_data
        alive = constant | {node for node in walk.kept if node not in fused.graph.inputs}
        found: list[list[Tensor]] = [[] for _ in parents]
        for batch, tensors in enumerate(batches):
            walk.values(batch, fused.weights)
            values = walk.ahead(batch, fused.weights, alive)
            for k, net in enumerate(parents):
                given = net.graph.given([tensor.to(walk.device) for tensor in tensors])
                for node, value in values.items():
                    given[net.graph.nodes[fused.graph.place[node]]] = _read(nets, groups, reports, k, node, value)
                output = net.graph.run(net.weights, given, net.graph.outputs[:1])
                found[k] += output.values()
        yield [torch.cat(of_parent) for of_parent in found]


def groups_of(nets: Sequence[Network], reports: Sequence[LevelReport]) -> Groups:
    """The groups of all spaces, as a fusion's reports have them.

    Raises:
        ValueError: the networks are not of one code.
    """
    if len({len(net.graph.nodes) for net in nets}) > 1:
        raise ValueError("the networks have other operations, so none can go on where another one stopped.")
    groups = Groups(nets, SameIndex())
    for space, writers in groups.writers.items():
        groups.keep(space)
        for number in writers[:1] if not (writers and reports[writers[0]].weights is not None) else ():
            theirs, ours = groups.places(space, number)
            groups.labels[space] = (reports[number].labels[theirs[:, 0], None] == ours[:, 0]).int().argmax(1)
    return groups


def _read(
    nets: Sequence[Network], groups: Groups, reports: Sequence[LevelReport], k: int, node: fx.Node, value: Tensor
) -> Tensor:
    """A parent's value of a node from the fused network's."""
    fused, net = nets[-1], nets[k]
    number = next((number for number, layer in enumerate(fused.layers) if layer.end is node), None)
    if number is not None and (weights := reports[number].weights) is not None:  # heads
        reading = read_back(weights.double(), reports[number].gram.double()).split(reports[number].widths, 1)[k]
        return (value.movedim(fused.axes[number], -1) @ reading.to(value)).movedim(-1, fused.axes[number])
    axes = varying(fused.spaces.neurons.ids.of(fused.spaces.neurons.twins[node]))
    if not axes:
        return value
    if len(axes) > 1:
        raise ValueError("its neurons lie along several axes of a tensor where the fusion stops.")
    theirs = net.spaces.columns(net.graph.nodes[fused.graph.place[node]], axes[0])
    return value.index_select(axes[0], groups.across(k, theirs, fused.spaces.columns(node, axes[0])).to(value.device))
