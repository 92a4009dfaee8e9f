"""Record the values of each group's neurons as rows, and sum them into Gram matrices.

Legend: N rows = samples x positions, m neurons of all networks side by side.
"""

from collections.abc import Sequence
from math import isqrt
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from ..fusion.moments import Moments
from ..networks.levels.tracing import Interpreter, Trace, trace
from ..networks.symmetry import Group, Point
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


class Watched(Interpreter):
    """A network that records the values at the points of its groups."""

    def __init__(
        self,
        trace: Trace,
        groups: Sequence[Group],
        *,
        after: bool = False,
        window: int | None = None,
    ):
        super().__init__(trace.graph)
        self.after, self.window = after, window
        self.points = {self._key(point): point for group in groups for point in group.points}
        self.watched: dict[tuple[str, str], Tensor] = {}

    def _key(self, point: Point) -> tuple[str, str]:
        return (point.after if self.after else point.node), point.part

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if (n.name, "output") in self.points:
            self.watched[n.name, "output"] = result
        if (n.name, "out_proj") in self.points:
            self.watched[n.name, "out_proj"] = result[0]
        if (n.name, "in_proj") in self.points:
            args, _ = self.fetch_args_kwargs_from_env(n)
            layer = self.fetch_attr(str(n.target))
            self.watched[n.name, "in_proj"] = F.linear(args[0], layer.in_proj_weight, layer.in_proj_bias)
        return result

    def watch(self, x: Tensor) -> tuple[dict[tuple[str, str], Tensor], Tensor]:
        """The values at all points, and the outputs."""
        self.watched = {}
        return self.watched, self.run(x)

    def rows(self, group: Group, values: dict[tuple[str, str], Tensor]) -> Tensor:
        """(N, width) values of a group's neurons, its points stacked."""
        parts = []
        for point in group.points:
            lines = values[self._key(point)].movedim(point.axis, -1)
            lines = (lines if self.window is None else central(lines, self.window)).flatten(0, -2)
            whole = len(point.index) == lines.shape[1]  # all neurons once: avoid a copy if in order
            if whole and torch.equal(point.index[:, 0].cpu(), torch.arange(lines.shape[1])):
                parts.append(lines)
                continue
            parts += [lines[:, copy] for copy in point.index.to(lines.device).T]
        return parts[0] if len(parts) == 1 else torch.cat(parts)


def central(tokens: Tensor, window: int) -> Tensor:
    """The class token and the central window x window patches of a square grid; other tensors stay as they are.

    Args:
        tokens: (B, 1 + side x side, neurons), or anything else.
    """
    side = isqrt(max(0, tokens.shape[1] - 1)) if tokens.ndim == 3 else 0
    if side <= window or 1 + side**2 != tokens.shape[1]:
        return tokens
    line = torch.arange(window) + (side - window) // 2
    chosen = torch.cat([torch.zeros(1, dtype=torch.int64), 1 + (side * line[:, None] + line).flatten()])
    return tokens[:, chosen.to(tokens.device)]


@torch.no_grad()
def group_sums(
    models: Sequence[nn.Module],
    groups: Sequence[Sequence[Group]],
    inputs: Tensor,
    *,
    after: bool = False,
    window: int | None = None,
    monitor: Monitor | None = None,
    leaves: Sequence[str] = (),
) -> list[Moments]:
    """Sums over all samples and positions, one per group.

    Args:
        models: in evaluation mode, on one device.
        groups: of each model, in the same order.
        inputs: (B, ...).
        after: whether to record after activation functions.
        window: which tokens count, see `central`; None: all.
    Raises:
        ValueError: a group has different numbers of positions in different models.
    """
    device = next(models[0].parameters()).device
    example = inputs[:1].to(device)
    watched = [
        Watched(trace(model.eval(), leaves, example), of_network, after=after, window=window)
        for model, of_network in zip(models, groups, strict=True)
    ]
    size = sum(
        value.numel() * value.element_size() for network in watched for value in network.watch(example)[0].values()
    )
    batch = max(1, min(MOST_SAMPLES, CHUNK_BYTES // max(1, size)))
    totals = dict[int, Moments]()
    for x in (monitor or Monitor()).each("step", inputs.split(batch), name="forward"):
        values = [network.watch(x.to(device))[0] for network in watched]
        for number, together in enumerate(zip(*groups, strict=True)):
            rows = [
                network.rows(group, watched_values)
                for network, group, watched_values in zip(watched, together, values, strict=True)
            ]
            if len({len(z) for z in rows}) > 1:
                raise ValueError(
                    f"the neurons at {together[0].name!r} have {[len(z) // len(x) for z in rows]} positions per sample in "
                    "the parents; they can be compared only position by position. Use a KF method."
                )
            z = torch.cat(rows, 1)  # products in the networks' precision, sums in float64
            new = Moments((z.T @ z).double(), z.sum(0).double(), rows=len(z), rounding=torch.finfo(z.dtype).eps)
            totals[number] = totals[number] + new if number in totals else new
    for number, total in totals.items():
        check_sums(groups[0][number].name, total.zz, total.sz)
    return list(totals.values())
