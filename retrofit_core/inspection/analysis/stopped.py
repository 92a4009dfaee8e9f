"""Where knowledge is lost: what the networks say if the fusion had stopped after each layer.

Then every parent continues with its own remaining layers, and reads each neuron from the fused neuron that represents it.
"""

from collections.abc import Iterator, Sequence

from torch import Tensor, fx

from ...fusion.grouping import SameIndex
from ...fusion.results import LevelReport
from ...graph.groups import Groups
from ...graph.heads import read_back
from ...graph.ids import varying
from ...graph.network import Network
from ...graph.walk import Batch, Walk


def stopped(groups: Groups, reports: Sequence[LevelReport], batch: Batch) -> Iterator[list[Tensor]]:
    """After each layer, the logits (B, classes) of each parent, stopped there.

    Args:
        groups: see `groups_of`.
        reports: of the fusion's layers.
    Raises:
        ValueError: more than the last layer's output is read behind it, and the networks are not of one code; or neurons lie
            along several axes there.
    """
    *parents, fused = groups.nets
    walk = Walk(fused.graph, [batch], next(iter(fused.weights.values())).device, 1 << 62)
    for number, layer in enumerate(fused.layers):
        walk.go([layer.end], walk.memory)
        walk.values(0, fused.weights)
        constant = {other.end for other in fused.layers[: number + 1]} - fused.graph.of_data
        alive = constant | {node for node in walk.kept if node not in fused.graph.inputs}
        values, found = walk.ahead(0, fused.weights, alive), list[Tensor]()
        for k, net in enumerate(parents):
            given = net.graph.input_values([tensor.to(walk.device) for tensor in batch])
            for node, value in values.items():
                given[_counterpart(fused, net, node)] = _read(groups, reports, k, node, value)
            found += net.graph.run(net.weights, given, net.graph.outputs[:1]).values()
        yield found


def groups_of(nets: Sequence[Network], reports: Sequence[LevelReport]) -> Groups:
    """The groups of all spaces, and of the parts that hold their neurons, as a fusion's reports have them."""
    groups = Groups(nets, SameIndex())
    for space, writers in groups.writers.items():
        groups.keep(space)
        for number in writers[:1] if not (writers and reports[writers[0]].weights is not None) else ():
            theirs, ours = groups.places(space, number)
            groups.labels[space] = (reports[number].labels[theirs[:, 0], None] == ours[:, 0]).int().argmax(1)
        if (family := nets[-1].spaces[space].family) is not None:
            own, parts = groups.parts_in(space), nets[-1].spaces[space].parts
            assert parts is not None  # it has a family
            fused = parts[groups.labels[space]]
            groups.parts[family] = fused.new_empty(int(own.max()) + 1).index_copy_(0, own, fused)
    return groups


def _counterpart(fused: Network, net: Network, node: fx.Node) -> fx.Node:
    """The node of a parent that corresponds to a node of the fused network."""
    for ours, theirs in zip(fused.layers, net.layers, strict=True):
        if ours.place is node:
            return theirs.place
    if len(net.graph.nodes) != len(fused.graph.nodes):
        raise ValueError("the networks have other operations, so none can go on where another one stopped.")
    return net.graph.nodes[fused.graph.place[node]]


def _read(groups: Groups, reports: Sequence[LevelReport], k: int, node: fx.Node, value: Tensor) -> Tensor:
    """A parent's value of a node from the fused network's."""
    fused, net = groups.fused, groups.nets[k]
    number = next(
        (number for number, layer in enumerate(fused.layers) if layer.place is node and not layer.mixes), None
    )
    if number is not None:
        report, axis = reports[number], fused.axes[number]
        if report.weights is None:
            return value.index_select(axis, report.labels.split(report.widths)[k].to(value.device))
        reading = read_back(report.weights.double(), report.gram.double()).split(report.widths, 1)[k]  # heads
        return (value.movedim(axis, -1) @ reading.to(value)).movedim(-1, axis)
    axes = varying(fused.spaces.neurons.ids.of(fused.spaces.neurons.twins[node]))
    if not axes:
        return value
    if len(axes) > 1:
        raise ValueError("its neurons lie along several axes of a tensor where the fusion stops.")
    theirs = net.spaces.columns(_counterpart(fused, net, node), axes[0])
    return value.index_select(axes[0], groups.across(k, theirs, fused.spaces.columns(node, axes[0])).to(value.device))
