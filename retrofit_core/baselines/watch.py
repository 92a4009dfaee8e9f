"""Sum the values of each group's neurons into Gram matrices.

Legend: N rows = samples x positions, m neurons of all networks side by side.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..fusion.alignment import Group
from ..fusion.moments import Moments, MomentSums
from ..graph.network import Network
from ..networks.inputs import batches_of
from ..system.device import CHUNK_BYTES, check_sums
from ..system.monitor import Monitor

MOST_SAMPLES = 100  # per batch, for visible progress and quick cancelling
#: Roundings by which products of equal neurons may differ.
ROUNDINGS = 256


def precision(sums: Moments) -> float:
    """What is smaller, relative to the neurons' squares, may be rounding alone."""
    return ROUNDINGS * sums.rounding


def correlation(sums: Moments) -> Tensor:
    """(m, m) Pearson correlations. Constant neurons, such as embeddings of the only kind of token, have none: in a direction of
    their own they are compared by their values, relative to the largest; silent ones have 0, also with themselves."""
    mean, square = sums.sz / sums.rows, sums.zz.diagonal() / sums.rows
    covariance = sums.zz / sums.rows - mean[:, None] * mean
    variance = covariance.diagonal()
    constant = variance <= precision(sums) * square
    scale = torch.where(constant, 0.0, variance.where(~constant, 1.0).rsqrt())
    values = torch.where(constant, mean, 0.0)
    values = values / values.abs().max().clamp_min(torch.finfo(values.dtype).tiny)
    return covariance * scale[:, None] * scale + values[:, None] * values


@torch.no_grad()
def group_sums(
    nets: Sequence[Network],
    groups: Sequence[Sequence[Group]],
    leaves: Sequence[Tensor],
    *,
    after: bool = False,
    counted: Callable[[Tensor], Tensor] = lambda lines: lines,
    monitor: Monitor | None = None,
) -> list[Moments]:
    """Sums over all samples and positions, one per group.

    Args:
        groups: of each network, in the same order.
        leaves: the networks' inputs, (B, ...) each.
        after: whether to record after activation functions.
        counted: which of the values (B, ..., width) of some neurons count.
    Raises:
        ValueError: a group has different numbers of positions in different networks.
    """
    wanted = [
        {point: point.after if after else point.node for group in of_net for point in group.points} for of_net in groups
    ]
    device = next(iter(nets[0].weights.values())).device
    size = sum(
        net.spaces.neurons.shape(node).numel() * leaves[0].element_size()
        for net, nodes in zip(nets, wanted, strict=True)
        for node in set(nodes.values())
    )
    totals = dict[int, MomentSums]()
    batch = max(1, min(MOST_SAMPLES, CHUNK_BYTES // max(1, size)))
    for tensors in (monitor or Monitor()).each("step", batches_of(leaves, batch), name="forward"):
        given = [tensor.to(device) for tensor in tensors]
        values = [
            net.graph.run(net.weights, net.graph.input_values(given), nodes.values())
            for net, nodes in zip(nets, wanted, strict=True)
        ]
        for number, together in enumerate(zip(*groups, strict=True)):
            rows = []
            for group, nodes, of_net in zip(together, wanted, values, strict=True):
                parts = []
                for point in group.points:
                    lines = counted(of_net[nodes[point]].movedim(point.axis, -1)).flatten(0, -2)
                    in_order = torch.equal(point.index[:, 0], torch.arange(lines.shape[1]))  # avoids a copy
                    parts += [lines] if in_order else [lines[:, copy] for copy in point.index.to(lines.device).T]
                rows.append(parts[0] if len(parts) == 1 else torch.cat(parts))
            if len({len(z) for z in rows}) > 1:
                raise ValueError(
                    f"the neurons at {together[0].name!r} have {[len(z) // len(given[0]) for z in rows]} positions per sample in "
                    "the parents; they can be compared only position by position. Use a KF method."
                )
            z = torch.cat(rows, 1)
            totals.setdefault(number, MomentSums(z.shape[1], device=device)).add(z)
    found = [sums.finish() for sums in totals.values()]
    for group, sums in zip(groups[0], found, strict=True):
        check_sums(group.name, sums.zz, sums.sz)
    return found
