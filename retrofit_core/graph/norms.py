"""BatchNorms: which statistics they have, and exact ones of samples."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx

from .graph import Graph, beside, name_of

#: A neuron is dead if its deviation is below this share of its size, which is rounding.
DEAD = 1e-6

#: Number of rows; sum and sum of squares per channel, float64.
Sums = tuple[int, Tensor, Tensor]


def norms_of(graph: Graph) -> dict[fx.Node, list[str]]:
    """BatchNorm with statistics of its own -> names of its mean, its variance and, if they are its own, its scale and shift."""
    found = {}
    for node in graph.nodes:
        if name_of(node) == "batch_norm":
            args: Any = node.args
            own = [vector in graph.names and graph.users[vector] == [node] for vector in args[1:5]]
            if all(own[2:]):
                vectors = (*args[3:5], *args[1 : 3 * all(own)])
                found[node] = [graph.names[vector] for vector in vectors]
    return found


@torch.no_grad()
def reset_statistics(graph: Graph, weights: dict[str, Tensor], batches: Sequence[Sequence[Tensor]]) -> None:
    """Set each BatchNorm to the exact mean and (population) variance of its inputs over all samples and positions.

    Scale and shift compensate, so that the function in evaluation mode stays: a fused network, whose BatchNorms are arbitrary
    after folding, is fine-tuned from close to it. Those without scale and shift stay.

    Args:
        weights: get the new values.
        batches: a tensor (B, ...) for each input.
    """
    norms = {node: names for node, names in norms_of(graph).items() if len(names) == 4}
    sums = dict[fx.Node, Sums]()
    for batch in batches if norms else ():
        # The function stays, so the inputs of a BatchNorm do not depend on earlier ones: one pass serves all.
        read = graph.run(
            weights, graph.input_values(beside(batch, weights)), [node.all_input_nodes[0] for node in norms]
        )
        for node in norms:
            sums[node] = channel_sums(read[node.all_input_nodes[0]], 1, sums.get(node))
    for node, names in norms.items():
        before, variance, scale, shift = (weights[name].double() for name in names)
        mean, exact = moments_of(sums[node])
        epsilon: Any = node.args[7]
        slope = scale / (variance + epsilon).sqrt()
        new = (mean, exact, slope * (exact + epsilon).sqrt(), shift + slope * (mean - before))
        weights.update({name: value.to(weights[name]) for name, value in zip(names, new, strict=True)})


def channel_sums(values: Tensor, axis: int, before: Sums | None = None) -> Sums:
    """Row count, sums and sums of squares for each channel along an axis, added to those before."""
    rows = values.movedim(axis, -1).flatten(0, -2).double()
    count, total, squares = before or (0, torch.zeros_like(rows[0]), torch.zeros_like(rows[0]))
    return count + len(rows), total + rows.sum(0), squares + rows.square().sum(0)


def moments_of(sums: Sums) -> tuple[Tensor, Tensor]:
    """Mean and variance of each channel, (channels,) float64 each."""
    count, total, squares = sums
    mean = total / count
    return mean, (squares / count - mean.square()).clamp_min(0)


def is_dead(mean: Tensor, variance: Tensor) -> Tensor:
    """(channels,) bool: channels whose variance is only rounding."""
    return variance.sqrt() <= DEAD * (mean.square() + variance).sqrt()
