"""PLeaS: neurons paired by permutations, then weights by least squares (Nasery et al. 2025, arXiv 2407.02447).

Legend: x (N, p) rows of a layer's inputs, means over the members of each fused neuron; z (N, c) rows of the targets, means of
their outputs; W0 (p, c) the mean of the aligned weights.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..fusion.fit.ridge import why_no_ridge
from ..fusion.grouping import PRECISION, assigned
from ..fusion.moments import Moments, product_dtype, solve
from ..fusion.moments.layersums import LayerSums
from ..fusion.results import FusionResult
from ..fusion.task import Takes, Task
from ..networks.copies import watching
from ..networks.levels import rows
from ..networks.symmetry import Group, mapped, tensors
from ..system.device import of
from ..system.settings import same_as, setting
from .aligned import AlignmentPlan, Averager, Pairs, averaging_maps, check_pair, check_widths, plan_alignment
from .layers import BATCH, AffineLayer, affine_layers, form_of, refuse_other_numbers, refuse_shared_layers
from .zipit import ZipIt


@dataclass(frozen=True)
class PLeaS(Averager):
    """Pairs two parents' neurons by their activations, then fits every layer to the mean of both by least squares.

    Neurons are compared after their activation functions. Each layer's weights are the least-squares solution from the
    mean of the parents' (aligned) inputs to the mean of their outputs; layers are independent of each other, unlike
    HF-Linear's, whose inputs are the fused network's. With a wider target (partial merging), the least similar pairs stay
    apart; neurons of parent 0 alone are not connected to neurons of parent 1 alone. Nothing is random.

    Differences from the authors' code: the least squares are solved in closed form with a ridge towards the mean of the
    aligned weights, where theirs runs some hundred steps of Adam from there on all layers at once; the target
    says how many pairs stay apart in each group, where theirs may be found by integer programming;
    residual streams and heads come from `neuron_groups`; layers inside nn.MultiheadAttention keep the mean.
    """

    takes: ClassVar[Takes] = Takes(parents=(2, 2), equal_widths=True, target=True)
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
        """Find the neuron groups and refuse what cannot be paired; see `Algorithm`."""
        check_pair(task, self.title, "ZipIt", "OTFusion", "KF-Linear")
        plan = plan_alignment(task, self)
        for index, model in enumerate(task.parents):
            refuse_shared_layers(model, f"PLeaS, parent {index}", task.inputs[:1].to(task.dtype))
        refuse_other_numbers(task.parents, self.title, task.inputs[:1].to(task.dtype))
        check_widths(
            plan,
            lambda widths, width: len(set(widths)) == 1 and widths[0] <= width <= 2 * widths[0],
            "PLeaS pairs parents of equal widths and needs from one to two times as many fused neurons; found widths "
            "{widths} and fused width {width}. Use ZipIt or KF-Linear.",
        )
        return plan

    @torch.no_grad()
    def run(self, plan: AlignmentPlan) -> FusionResult:
        """Pair, fit, and correct the statistics on request."""
        plan = plan.with_scores()
        sums = plan.sums(after=True)

        def find(index: int) -> tuple[Tensor, dict[str, Any]]:
            group, n = plan.targets[index], plan.widths(index)[0]
            alike = torch.arange(n).repeat(2)
            labels = alike if group.fixed else paired(sums[index].zz[:n, n:], group.width)
            return labels, {"algorithm": "linear_sum_assignment", "apart": group.width - n}

        reports = plan.assign(sums, find)
        maps = averaging_maps(reports)
        plan.combine(maps)
        layers = fit_layers(plan, maps, self.ridge)
        return plan.finish(self, reports, maps, reset_norms=self.reset_norms, layers=layers)


def paired(similarity: Tensor, width: int) -> Tensor:
    """(2 n,) labels: the pairing with the largest sum of similarities (n, n), with its best 2 n - width pairs merged.

    Fused neuron i < n contains neuron i of the first parent; unmerged neurons of the second follow.
    """
    n = len(similarity)
    left, right = assigned(similarity.double(), maximize=True)
    steps = similarity.double().cpu()[left, right] / (PRECISION * similarity.abs().max().clamp_min(1e-300).item())
    order = steps.round().argsort(descending=True, stable=True)  # equal pairs: the lower number
    merged, alone = order[: 2 * n - width], order[2 * n - width :].sort().values
    second = torch.empty(n, dtype=torch.int64)
    second[right[merged]] = left[merged]
    second[right[alone]] = torch.arange(n, width)
    return torch.cat([torch.arange(n), second])


# --- least squares --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Side:
    """One side of a layer: its inputs or its outputs, which are an axis of its weight."""

    plan: AlignmentPlan
    maps: Sequence[Pairs]
    name: str
    """Of the weight"""
    axis: int

    def onto(self, k: int, values: Tensor) -> Tensor:
        """Parent k's contribution (N, fused entries) to the fused values; values (N, entries). Entries of no group are
        averaged over all parents."""
        T = {name: (T, T) for name, (T, _) in self.maps[k].items()}
        values = values.T if self.axis == 0 else values
        mapped_values = mapped(
            {self.name: values},
            tensors(self.plan.fused),
            self._only(self.plan.groups[k]),
            self._only(self.plan.targets),
            T,
        )[self.name]
        return (mapped_values.T if self.axis == 0 else mapped_values) / len(self.maps)

    def mean(self, values: Sequence[Tensor], at: int) -> Tensor:
        """The sum of all parents' contributions, to values with the side's entries on an axis."""
        each = [self.onto(k, rows(part, at)) for k, part in enumerate(values)]
        shape = values[0].movedim(at, -1).shape[:-1]
        return torch.stack(each).sum(0).unflatten(0, shape).movedim(-1, at)

    def holders(self) -> Tensor:
        """(fused entries, parents) bool: whether a fused entry contains any of a parent's."""
        own = [tensors(parent)[self.name] for parent in self.plan.parents]
        each = [self.onto(k, weight.new_ones(1, weight.shape[self.axis])) for k, weight in enumerate(own)]
        return torch.cat(each).T > 0

    def _only(self, groups: Sequence[Group]) -> list[Group]:
        """The groups with their parts on this axis alone."""
        place = self.name, self.axis
        return [replace(g, parts=tuple(part for part in g.parts if (part.name, part.axis) == place)) for g in groups]


def fit_layers(plan: AlignmentPlan, maps: Sequence[Pairs], ridge: float | str) -> list[str]:
    """Write least-squares weights into every fused layer that runs in both parents; returns the layers' names."""
    layers, device = affine_layers(plan.fused), of(plan.fused)
    dtype = product_dtype(ridge, next(plan.fused.parameters()).dtype, device)
    sides = {}
    for name, layer in layers.items():
        is_turned = layer is not plan.fused.get_submodule(name)  # the module's weight is (inputs, outputs)
        axes = (0, 1) if is_turned else (1, 0)
        sides[name] = [Side(plan, maps, f"{name}.weight", axis) for axis in axes]
    sums: dict[str, LayerSums] = {}
    for x in plan.monitor.each("step", plan.inputs.split(BATCH), name="moments"):
        seen = [_watched(parent, layers, x.to(device)) for parent in plan.parents]
        for name, layer in layers.items():
            at = -1 if isinstance(layer, nn.Linear) else 1
            for calls in zip(*(calls_of_parent.get(name, []) for calls_of_parent in seen), strict=True):
                inputs, outputs = zip(*calls, strict=True)
                if name not in sums:
                    sums[name] = LayerSums(form_of(layer), len(layer.weight), dtype=dtype)
                sums[name].add([sides[name][0].mean(inputs, at)], rows(sides[name][1].mean(outputs, at), at))
    for number, (name, collected) in enumerate(sums.items()):
        plan.monitor.check()
        plan.monitor.emit("step", index=number, total=len(sums), name="solve")
        moments = collected.finish()
        assert isinstance(moments, Moments)
        _solve_layer(layers[name], moments, sides[name], ridge)
    return list(sums)


def _watched(model: nn.Module, layers: Mapping[str, AffineLayer], x: Tensor) -> dict[str, list[tuple[Tensor, Tensor]]]:
    """(input, output) of every call of the layers."""
    calls: dict[str, list[tuple[Tensor, Tensor]]] = {}
    watched = {name: model.get_submodule(name) for name in layers}
    with watching(watched, lambda name, h, z: calls.setdefault(name, []).append((h.clone(), z.clone()))):
        model(x)
    return calls


def _solve_layer(layer: AffineLayer, sums: Moments, sides: Sequence[Side], ridge: float | str) -> None:
    """Solve for each kind of output neuron, from the inputs that share a parent with it."""
    reads, holds = (side.holders() for side in sides)
    form = form_of(layer)
    W = form.weights()
    for kind in holds.unique(dim=0):
        outs = (holds == kind).all(1).nonzero().flatten()
        columns = (reads & kind).any(1).repeat_interleave(layer.weight[0, 0].numel())
        if form.bias:
            columns = torch.cat([columns, columns.new_ones(1)])
        ins = columns.nonzero().flatten()
        part = _part(sums, ins, outs)
        solution = solve(part, ridge, toward=W[ins][:, outs])
        W[ins[:, None], outs] = solution.weights(torch.eye(len(outs), dtype=W.dtype, device=W.device))
    form.write(W)


def _part(sums: Moments, ins: Tensor, outs: Tensor) -> Moments:
    if len(ins) == len(sums.xx) and len(outs) == len(sums.zz):
        return sums
    return replace(sums, zz=sums.zz[outs][:, outs], sz=sums.sz[outs], xx=sums.xx[ins][:, ins], xz=sums.xz[ins][:, outs])
