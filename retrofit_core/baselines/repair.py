"""Statistics of a merged network's layers: those of BatchNorm anew, and REPAIR, which restores the variance of its neurons to
that of the parents' (Jordan et al. 2023).

Averages of partly correlated neurons vary less than either, and more so from layer to layer. Statistics are exact over all
samples, layer by layer, after correcting the layers before; so nothing is random, and batches do not matter.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx

from ..fusion.alignment import Group, mapped
from ..graph.graph import Graph, name_of
from ..graph.layers import Operation
from ..graph.network import Network
from ..graph.norms import Sums, channel_sums, is_dead, moments_of, norms_of
from ..graph.walk import Walk
from ..networks.inputs import batches_of
from ..system.device import MEMORY
from ..system.monitor import Monitor
from .watch import MOST_SAMPLES

#: Weight -> (mean, deviation) of the outputs of its layer, (channels,) each, float64.
Statistics = dict[str, tuple[Tensor, Tensor]]


@torch.no_grad()
def reset_norms(
    graph: Graph, weights: dict[str, Tensor], leaves: Sequence[Tensor], monitor: Monitor, memory: int = MEMORY
) -> dict[str, Any]:
    """Set each BatchNorm's statistics to the exact mean and (population) variance of its inputs over all samples and positions,
    in order, so that later ones read corrected ones; scale and shift stay. A BatchNorm that runs more than once stays.

    Args:
        weights: get the statistics.
        leaves: the network's inputs, (B, ...) each.
    Returns:
        Facts: kind "reset", number of "layers" that were set, and of their "dead" neurons, which do not vary.
    """
    norms = {node.all_input_nodes[0]: names[:2] for node, names in norms_of(graph).items()}
    facts = {"kind": "reset", "layers": len(norms), "dead": 0}
    for x, walk in _in_order(graph, weights, leaves, list(norms), monitor, memory):
        sums = None
        for number in range(len(walk.batches)):
            sums = channel_sums(walk.values(number, weights)[x], 1, sums)
        assert sums is not None  # there are samples
        moments = moments_of(sums)
        weights.update({name: value.to(weights[name]) for name, value in zip(norms[x], moments, strict=True)})
        facts["dead"] += int(is_dead(*moments).sum())
    return facts


def _in_order(
    graph: Graph,
    weights: dict[str, Tensor],
    leaves: Sequence[Tensor],
    nodes: Sequence[fx.Node],
    monitor: Monitor,
    memory: int,
) -> Iterator[tuple[fx.Node, Walk]]:
    """A walk that stands at one node after another, each of which weights that changed in between have reached."""
    device = next(iter(weights.values())).device
    walk = Walk(graph, batches_of(leaves, MOST_SAMPLES), device, memory)
    for number in monitor.each("step", range(len(nodes)), name="repair"):
        walk.go([nodes[number]], memory)
        yield nodes[number], walk


# --- REPAIR -------------------------------------------------------------------------------------------------------------


def _affine(net: Network) -> dict[str, Operation]:
    """Weight -> its operation, of those that no other reads, with a row for each output."""
    operations = [op for layer in net.layers if not layer.table for op in layer.operations]
    operations.sort(key=lambda op: net.graph.place[op.node])
    return {
        op.weight.names[0]: op
        for op in operations
        if len(net.weights[op.weight.names[0]]) == op.width and name_of(op.node) != "batch_norm"
    }


@torch.no_grad()
def statistics(net: Network, leaves: Sequence[Tensor], monitor: Monitor | None = None) -> Statistics:
    """Mean and deviation of the outputs of every affine layer, over all samples and positions.

    Args:
        leaves: the network's inputs, (B, ...) each.
    """
    device, operations = next(iter(net.weights.values())).device, _affine(net)
    sums = dict[str, Sums]()
    for batch in (monitor or Monitor()).each("step", batches_of(leaves, MOST_SAMPLES), name="statistics"):
        given = net.graph.input_values([tensor.to(device) for tensor in batch])
        values = net.graph.run(net.weights, given, [op.node for op in operations.values()])
        for name, op in operations.items():
            sums[name] = channel_sums(values[op.node], op.axis, sums.get(name))
    moments = {name: moments_of(of_layer) for name, of_layer in sums.items()}
    return {name: (mean, variance.sqrt()) for name, (mean, variance) in moments.items()}


@torch.no_grad()
def mapped_goals(
    nets: Sequence[Network],
    groups: Sequence[Sequence[Group]],
    maps: Sequence[Mapping[str, Tensor]],
    leaves: Sequence[Tensor],
    monitor: Monitor | None = None,
) -> Statistics:
    """Goals for parents with neurons in different orders: mean statistics of the members of each fused neuron.

    Args:
        nets, groups: of each parent and, last, of the fused network.
        maps: maps[k][group] (n_k, d): the share of each of parent k's neurons in each fused one; a fused neuron's shares
            sum to one over all parents. Missing groups and the classes get no goals.
    """
    of_parents = [statistics(net, leaves, monitor) for net in nets[:-1]]
    targets = groups[-1]
    names = {
        part.name
        for group in targets
        for part in group.parts
        if all(group.name in shares for shares in maps) and not group.fixed and part.role == "makes"
    }
    names = {name for name in of_parents[0] if name in names}

    def makers(of_net: Sequence[Group]) -> list[Group]:
        return [
            replace(group, parts=tuple(p for p in group.parts if p.name in names and not p.axis)) for group in of_net
        ]

    def joined(which: int) -> dict[str, Tensor]:
        each = [
            mapped(
                {name: stats[name][which] for name in names},
                nets[-1].weights,
                makers(of_net),
                makers(targets),
                {name: (len(maps) * T, T) for name, T in shares.items()},
            )
            for stats, of_net, shares in zip(of_parents, groups[:-1], maps, strict=True)
        ]
        return {name: torch.stack([stats[name] for stats in each]).mean(0) for name in names}

    means, deviations = joined(0), joined(1)
    return {name: (means[name], deviations[name]) for name in names}


@torch.no_grad()
def rescale(
    net: Network, goals: Statistics, leaves: Sequence[Tensor], monitor: Monitor | None = None, memory: int = MEMORY
) -> dict[str, Any]:
    """Scale and shift the layers that have goals, in order, so that their outputs have exactly these statistics.

    Differences from the authors' code: exact statistics, one layer after another, where theirs come from training-mode
    batches of all layers at once; no + 1e-5 in the division; dead neurons are shifted, not scaled; in a layer without a
    bias only the deviation is corrected; layers that run more than once, or share a weight, stay.

    Args:
        net: its weights change.
        leaves: its inputs, (B, ...) each.
    Returns:
        Facts: kind "rescale", number of "layers" and of their "dead" neurons.
    """
    weights, facts = net.weights, {"kind": "rescale", "layers": 0, "dead": 0}
    operations = {name: op for name, op in _affine(net).items() if name in goals}
    steps = zip(
        operations.items(),
        _in_order(net.graph, weights, leaves, [op.x for op in operations.values()], monitor or Monitor(), memory),
        strict=True,
    )
    for (name, op), (_, walk) in steps:
        sums = None
        for number in range(len(walk.batches)):
            walk.values(number, weights)
            sums = channel_sums(walk.ahead(number, weights, [op.node])[op.node], op.axis, sums)
        assert sums is not None  # there are samples
        (mean, variance), (goal_mean, goal) = moments_of(sums), goals[name]
        dead, deviation = is_dead(mean, variance), variance.sqrt()
        scale = torch.where(dead, 1.0, goal / deviation.where(~dead, torch.ones_like(deviation)))
        rows = op.weight.read(weights)
        op.weight.write(weights, rows * scale.to(rows)[:, None])
        if op.bias is not None:
            bias = op.bias.read(weights)
            op.bias.write(weights, ((bias.double() - mean) * scale + goal_mean).to(bias))
        facts["layers"] += 1
        facts["dead"] += int(dead.sum())
    return facts
