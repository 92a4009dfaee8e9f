"""PLeaS: neurons paired by permutations, then weights by least squares (Nasery et al. 2025, arXiv 2407.02447).

Legend: x (N, p) rows of a layer's inputs, means over the members of each fused neuron; z (N, c) rows of the targets, means of
their outputs; W0 (p, c) the mean of the aligned weights.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, fx

from ..fusion.alignment import Group, Part, mapped
from ..fusion.fit.ridge import why_no_ridge
from ..fusion.grouping import assigned
from ..fusion.moments import Moments, product_dtype, solve
from ..fusion.results import FusionResult
from ..fusion.task import Takes, Task
from ..graph.layers import Operation
from ..networks.inputs import batches_of
from ..system.device import of
from ..system.settings import same_as, setting
from .aligned import AlignmentPlan, Averager, Pairs, averaging_maps
from .groups import places_of
from .layers import OperationSums, batch_for, refuse_other_numbers, solved_layers, values_of
from .zipit import ZipIt


@dataclass(frozen=True)
class PLeaS(Averager):
    """Pairs two parents' neurons by their activations, then fits every layer to the mean of both by least squares.

    Neurons are compared after their activation functions. Each layer's weights are the least-squares solution from the
    mean of the parents' (aligned) inputs to the mean of their outputs; layers are independent of each other, unlike
    HF-Linear's, whose inputs are the fused network's. Nothing is random.

    Differences from the authors' code: the least squares are solved in closed form with a ridge towards the mean of the
    aligned weights, where theirs runs some hundred steps of Adam from there on all layers at once; all pairs merge (theirs
    may keep some apart in a wider network); residual streams and heads are groups of their own.
    """

    takes: ClassVar[Takes] = Takes(parents=(2, 2), equal_widths=True)
    title: ClassVar[str] = "PLeaS"

    repair: bool = same_as(ZipIt, "repair")
    ridge: float | str = setting(
        "auto",
        "auto, a multiple of the mean input energy such as 0.1x, or lambda on sums; 0: plain least squares",
        check=why_no_ridge,
        title="Ridge strength",
    )
    reset_norms: bool = same_as(ZipIt, "reset_norms")

    def plan(self, task: Task) -> AlignmentPlan:
        """Also refuse layers that cannot be solved each on its own; see `Averager`."""
        plan = super().plan(task)
        for index, net in enumerate(plan.nets[:-1]):
            solved_layers(net, f"PLeaS, parent {index}")
        refuse_other_numbers(plan.nets[:-1], plan.parents[0], self.title, aligning=True)
        return plan

    @torch.no_grad()
    def run(self, plan: AlignmentPlan) -> FusionResult:
        """Pair, fit, and correct the statistics on request."""
        plan = plan.with_scores()
        sums = plan.sums(after=True)

        def find(index: int) -> tuple[Tensor, dict[str, Any]]:
            group, n = plan.targets[index], plan.widths(index)[0]
            alike = torch.arange(n).repeat(2)
            labels = alike if group.fixed else paired(sums[index].zz[:n, n:])
            return labels, {"algorithm": "linear_sum_assignment"}

        reports = plan.assign(sums, find)
        maps = averaging_maps(reports)
        plan.combine(maps)
        layers = fit_layers(plan, maps, self.ridge)
        return plan.finish(self, reports, maps, reset_norms=self.reset_norms, layers=layers)


def paired(similarity: Tensor) -> Tensor:
    """(2 n,) labels: the pairing with the largest sum of similarities (n, n); fused neuron i contains neuron i of the first."""
    left, right = assigned(similarity.double(), maximize=True)
    second = torch.empty(len(left), dtype=torch.int64)
    second[right] = left
    return torch.cat([torch.arange(len(left)), second])


# --- least squares --------------------------------------------------------------------------------------------------


class Side:
    """One side of an operation, its inputs or its outputs: which of its channels are which neurons.

    Args:
        nodes: in each network, the node of the tensor; axis: of its channels.
    """

    def __init__(self, plan: AlignmentPlan, maps: Sequence[Pairs], nodes: Sequence[fx.Node], axis: int) -> None:
        *_, self.shape = (net.spaces.neurons.real[node] for net, node in zip(plan.nets, nodes, strict=True))
        self.axis = axis % self.shape.ndim
        self.maps = [{name: (T, T) for name, (T, _) in pairs.items()} for pairs in maps]
        self.columns = [net.spaces.columns(node, axis) for net, node in zip(plan.nets, nodes, strict=True)]
        self.groups = []
        for columns, of_net in zip(self.columns, [*plan.groups, plan.targets], strict=True):
            free = {group.name: places_of(columns, group.space, group.width) for group in of_net if group.space >= 0}
            parts = {name: Part("", self.axis, index, "holds") for name, index in free.items() if index is not None}
            self.groups.append([Group(name, "", len(part.index), (part,), ()) for name, part in parts.items()])

    def mean(self, values: Sequence[Tensor]) -> Tensor:
        """The mean of all parents' values in the places of the fused neurons; entries of no group are averaged."""
        return torch.stack([self._onto(k, value) for k, value in enumerate(values)]).sum(0)

    def _onto(self, k: int, values: Tensor) -> Tensor:
        """Parent k's contribution."""
        found = mapped({"": values}, {"": self.shape}, self.groups[k], self.groups[-1], self.maps[k])
        return found[""] / len(self.maps)


def fit_layers(plan: AlignmentPlan, maps: Sequence[Pairs], ridge: float | str) -> list[str]:
    """Write least-squares weights into every fused layer; returns the layers' names."""
    *parents, fused = (solved_layers(net, PLeaS.title) for net in plan.nets)
    weights, device, sums = plan.nets[-1].weights, of(plan.fused), dict[str, OperationSums]()
    dtype = product_dtype(ridge, next(iter(weights.values())).dtype, device)
    sides = dict[str, list[tuple[Side, Side]]]()
    for name, operations in fused.items():
        sums[name] = OperationSums(operations[0], operations[0].width, dtype=dtype, device=device)
        sides[name] = []
        for calls in zip(*(of_net[name] for of_net in (*parents, fused)), strict=True):
            x, z = (
                Side(plan, maps, nodes, calls[0].axis) for nodes in ([op.x for op in calls], [op.node for op in calls])
            )
            sides[name].append((x, z))
    wanted = [[node for ops in of_net.values() for op in ops for node in (op.x, op.node)] for of_net in parents]
    size = min(batch_for(net, nodes) for net, nodes in zip(plan.nets, wanted, strict=False))
    for batch in plan.monitor.each("step", batches_of(plan.leaves, size), name="moments"):
        seen = [values_of(net, batch, nodes) for net, nodes in zip(plan.nets, wanted, strict=False)]
        for name, of_calls in sides.items():
            for number, (reads, makes) in enumerate(of_calls):
                calls = [of_net[name][number] for of_net in parents]
                inputs, outputs = (
                    [values[node] for values, node in zip(seen, nodes, strict=True)]
                    for nodes in ([op.x for op in calls], [op.node for op in calls])
                )
                z = makes.mean(outputs).movedim(makes.axis, -1).flatten(0, -2)
                sums[name].add(reads.mean(inputs), z)
    for number, (name, collected) in enumerate(sums.items()):
        plan.monitor.check()
        plan.monitor.emit("step", index=number, total=len(sums), name="solve")
        _solve_layer(fused[name][0], weights, collected.finish(), ridge)
    return [name.removesuffix(".weight") for name in sums]


def _solve_layer(op: Operation, weights: dict[str, Tensor], sums: Moments, ridge: float | str) -> None:
    """Solve for a layer's weights and bias."""
    W0 = op.weight.read(weights).double().T
    if op.bias is not None:
        W0 = torch.cat([W0, op.bias.read(weights).double()[None]])
    W = solve(sums, ridge, toward=W0).weights(torch.eye(op.width, dtype=W0.dtype, device=W0.device))
    dtype = weights[op.weight.names[0]].dtype
    op.weight.write(weights, W[: op.weight.shape[1]].T.to(dtype))
    if op.bias is not None:
        op.bias.write(weights, W[-1].to(dtype))
