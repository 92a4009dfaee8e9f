"""Shared parts of methods that align neurons and then average weights: options, plans, scores, averages, reports."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from ..fusion.alignment import AlignedGroup, Alignment, Group, Part, mapped
from ..fusion.eligibility import check_inputs, check_outputs
from ..fusion.grouping import Grouping, check_enough
from ..fusion.importance import Scores, importance_name
from ..fusion.importance.scoring import check_scores
from ..fusion.moments import Moments
from ..fusion.results import Fitted, FusionResult, LevelReport, level_report
from ..fusion.task import Algorithm, Plan, Takes, Task
from ..graph.graph import Weights, load
from ..graph.network import Network
from ..networks.code import check_same_code, parent_names
from ..networks.inputs import count_of
from ..networks.norm_statistics import has_statistics
from ..networks.outputs import say_what_is_left
from ..system.device import Stopwatch, in_units, of, on_device
from ..system.duplicates import duplicate
from ..system.monitor import Monitor
from ..system.refusals import Refusal
from ..system.settings import setting
from .groups import groups_of
from .inputs import leaves, networks
from .repair import mapped_goals, rescale
from .repair import reset_norms as reset_norms_of
from .scores import group_scores
from .watch import group_sums

#: For one parent, group -> T and U, (n_k, d) each: fused neurons are the mean of T' over the parents, U passes their values on.
Pairs = dict[str, tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Averager(Algorithm):
    """Base of methods that align neurons and then average weights, with their common options."""

    takes: ClassVar[Takes] = Takes(target=True, importance=True)

    repair: bool = setting(
        False,
        "correct the statistics of the fused network's layers (REPAIR) and estimate new running statistics for "
        "BatchNorm",
        title="Correct statistics (REPAIR)",
    )

    def plan(self, task: Task) -> "AlignmentPlan":
        """Find the neuron groups and refuse what cannot be aligned; see `Algorithm`."""
        paired = self.takes.parents == (2, 2)
        if paired and len(task.parents) != 2:
            others = ("OTFusion", "ZipIt", "KF-Linear")
            raise Refusal(
                f"{self.title} pairs exactly two parents; found {len(task.parents)}. Use OTFusion, ZipIt or KF-Linear: each "
                "takes any number.",
                *(("method", other) for other in others),
            )
        plan = plan_alignment(task, self)
        for index, group in enumerate(plan.targets):
            widths, width = plan.widths(index), group.width
            if paired and set(widths) != {width}:
                raise ValueError(
                    f"level {group.name!r}: {self.title} pairs parents of equal widths; found widths {tuple(widths)} and fused "
                    f"width {width}. Use OTFusion, ZipIt or KF-Linear."
                )
            check_enough(f"level {group.name!r}", widths, width)
        return plan


@dataclass(frozen=True, eq=False, repr=False)
class AlignmentPlan(Plan):
    """Parents whose neurons can be aligned, and the fused network that is made of them."""

    parents: list[nn.Module] = field(kw_only=True)
    """On the device"""
    fused: nn.Module = field(kw_only=True)
    """The future fused network: a copy of the target or of parent 0"""
    nets: list[Network] = field(kw_only=True)
    """The parents and, last, the fused network"""
    groups: list[list[Group]] = field(kw_only=True)
    """The neuron groups of each parent"""
    targets: list[Group] = field(kw_only=True)
    """The fused network's groups"""
    scored: Sequence[Scores] = field(default=(), kw_only=True)
    """The importance of each parent's neurons, group by group, float64; each sums to 1 if normalised"""

    @property
    def leaves(self) -> list[Tensor]:
        """(B, ...) what the networks read, in their precision."""
        return leaves(self.task, self.task.inputs)

    @property
    def monitor(self) -> Monitor:
        """Gets events, and may cancel."""
        return self.task.runtime.monitor

    def lines(self) -> list[str]:
        """The task, and each group's neurons: those of the parents and of the fused network."""
        neurons = [
            f"{target.name}: {' + '.join(map(str, self.widths(index)))} -> {target.width}"
            for index, target in enumerate(self.targets)
        ]
        return [self.task.headline, *neurons]

    def widths(self, index: int) -> list[int]:
        """The parents' widths of a group."""
        return [groups[index].width for groups in self.groups]

    @cached_property
    def clock(self) -> Stopwatch:
        """Measures the phases of a group."""
        return Stopwatch(of(self.fused))

    def with_scores(self) -> Self:
        """The plan with the importance of all neurons."""
        task, data = self.task, self.task.parents_data()
        return replace(self, scored=group_scores(self.nets[:-1], self.groups, task.importance, data, self.monitor))

    def scores(self, index: int) -> list[Tensor]:
        """The scores of each parent's neurons in a group."""
        return [parent.values[index] for parent in self.scored]

    def sums(self, *, after: bool = False) -> list[Moments]:
        """Sums of the neurons' values per group on the fusion data, after or before the activation function."""
        with self.clock.phase("forward"):
            return group_sums(self.nets[:-1], self.groups, self.leaves, after=after, monitor=self.monitor)

    def assign(
        self,
        sums: Sequence[Moments],
        find: Callable[[int], tuple[Tensor, dict[str, Any]]],
    ) -> list[LevelReport]:
        """Assign the parents' neurons to fused ones, group by group.

        Args:
            sums: of each group, for the reports.
            find: group number -> (m,) the fused neuron of each of the parents' neurons, and facts about the search.
        Returns:
            A report of each group, with its labels.
        """
        reports = []
        for index, group in enumerate(self.monitor.each("level", self.targets)):
            with self.clock.phase("group"):
                labels, facts = find(index)
            device = sums[index].zz.device
            s, assigned = torch.cat(self.scores(index)).double().to(device), labels.to(device)
            grouping = Grouping(assigned, group.width, 0.0, facts)
            report = level_report(group, self.widths(index), sums[index], s, grouping, Fitted("aligned"))
            reports.append(replace(report, seconds=self.clock.read()))
        return reports

    @property
    def equal(self) -> list[float]:
        """Equal shares of the parents in a mean."""
        return [1 / len(self.parents)] * len(self.parents)

    def combine(self, maps: Sequence[Pairs], shares: Sequence[float] | None = None) -> None:
        """Write the parents' mean, with weights T' W U, into the fused network.

        Args:
            shares: the parents' weights in the mean; None: equal.
        """
        fused = self.nets[-1].weights
        written = [name for name, value in fused.items() if value.is_floating_point()]
        states = []
        for net, groups, pairs in zip(self.nets[:-1], self.groups, maps, strict=True):
            state = {name: net.weights[name].double() for name in written}
            states.append(mapped(state, fused, groups, self.targets, pairs))
        for name in written:
            each = zip(shares or self.equal, states, strict=True)
            fused[name] = torch.stack([share * state[name] for share, state in each]).sum(0).to(fused[name])

    def finish(
        self,
        value: Averager,
        reports: Sequence[LevelReport],
        maps: Sequence[Pairs],
        *,
        reset_norms: bool,
        soft: bool = False,
        shares: Sequence[float] | None = None,
        **facts: object,
    ) -> FusionResult:
        """Correct the statistics of the fused network: BatchNorm's, or by REPAIR without BatchNorm; and make the result.

        Args:
            maps: as for `combine`.
            reset_norms: whether to correct BatchNorm's.
            soft: whether maps split neurons among fused ones.
            shares: the parents' weights in the mean; None: equal.
            facts: for the configuration.
        """
        repaired, shares, fused = None, shares or self.equal, self.nets[-1]
        passing = {"monitor": self.monitor, "memory": self.task.runtime.memory}
        if has_statistics(self.fused):
            if reset_norms:
                repaired = reset_norms_of(fused.graph, fused.weights, self.leaves, **passing)
        elif value.repair:
            each = zip(shares, maps, strict=True)
            shared = [{name: share * T for name, (T, _) in pairs.items()} for share, pairs in each]
            goals = mapped_goals(self.nets, [*self.groups, self.targets], shared, self.leaves, self.monitor)
            repaired = rescale(fused, goals, self.leaves, **passing)
        load(self.fused, fused.weights)
        task = self.task
        scoring = {"importance": importance_name(task.importance), **task.importance.to_json()}
        facts = {
            **(scoring if value.takes.importance else {}),
            "target": task.target_spec,
            "seed": task.seed,
            "samples": count_of(task.inputs),
            **facts,
            "repaired": repaired,
        }
        return replace(
            value.result(self.fused, task, **facts),
            levels=list(reports),
            importance=[scores.report for scores in self.scored],
            alignment=Alignment(
                aligned_groups(reports, maps if soft else None),
                tuple(shares),
                tuple(self.parents),
                tuple(self.groups),
                self.fused,
                self.targets,
            ),
        )


def aligned_groups(reports: Sequence[LevelReport], soft: Sequence[Pairs] | None = None) -> tuple[AlignedGroup, ...]:
    """The groups of some reports, with each parent's maps if these split neurons."""
    return tuple(
        AlignedGroup(
            level.name,
            level.width,
            level.labels.split(list(level.widths)),
            None if soft is None else tuple(pairs[level.name] for pairs in soft),
        )
        for level in reports
    )


def averaging_maps(reports: Sequence[LevelReport]) -> list[Pairs]:
    """For each parent, the map of each group that averages the members of a fused neuron."""
    groups = aligned_groups(reports)
    return [{group.name: group.maps(k) for group in groups} for k in range(len(reports[0].widths))]


@torch.no_grad()
def plan_alignment(task: Task, value: Averager) -> AlignmentPlan:
    """Find the neuron groups of parents and fused network; refuse what cannot be aligned.

    Args:
        value: the method.
    Raises:
        ValueError: unsuitable data, networks that differ in more than widths, an operation without a rule, or neurons that
            cannot be scored.
    """
    monitor, device = task.runtime.monitor, task.device
    check_inputs(task.parents, task.inputs, target=task.target, least=1, method=value.title)
    check_outputs(task.parents, task.inputs)
    target = {} if task.target is None else {"the target": task.target}
    named = {**target, **dict(zip(parent_names(len(task.parents)), task.parents, strict=True))}
    check_same_code(list(named.values()), task.inputs, list(named))
    fused = duplicate(task.target if task.target is not None else task.parents[0]).to(device)
    parents = [on_device(parent, device) for parent in task.parents]
    monitor.check()
    monitor.emit("phase", name="groups")
    nets = networks(task, [*parents, fused])
    *groups, targets = (watchable(net, model) for net, model in zip(nets, [*parents, fused], strict=True))
    for k, (net, of_net) in enumerate(zip(nets, groups, strict=False)):
        _check_matching(of_net, targets, f"parent {k}")
        _check_tied(of_net, targets, f"parent {k}")
        _check_rest(net.weights, nets[-1].weights, of_net, targets, f"parent {k}")
    check_scores(nets[:-1], task.importance, task.parents_data())
    say_what_is_left(fused, nets[-1].graph.weights)
    for target, *alike in zip(targets, *groups, strict=True):
        count = sum(group.width for group in alike)
        if (need := 2 * 8 * count**2) > task.runtime.memory:
            raise ValueError(
                f"{value.title}: the {count} neurons of all parents at {target.name!r} need {in_units(need)} for their "
                f"inner products, but the budget is {in_units(task.runtime.memory)}. Use Average."
            )
    return AlignmentPlan(task, parents=parents, fused=fused, nets=nets, groups=groups, targets=targets)


def _check_matching(groups: Sequence[Group], targets: Sequence[Group], name: str) -> None:
    """Refuse networks whose groups do not correspond one to one.

    Raises:
        ValueError: names the first difference.
    """
    for group, target in zip(groups, targets, strict=False):
        parts, others = (
            [(part.name, part.axis, part.index.shape[1]) for part in each.parts] for each in (group, target)
        )
        if parts != others:
            raise ValueError(
                f"{name}: its neurons at {group.name!r} have no counterpart in the fused network, which has "
                f"{target.name!r} there. Aligned averaging needs networks that differ in widths only; KF methods take others."
            )
        if group.fixed and group.width != target.width:
            raise ValueError(
                f"{name} has {group.width} classes and the fused network {target.width}; class c is fused with class c. "
                "Give all of them the same classes."
            )
    if len(groups) != len(targets):
        raise ValueError(
            f"{name} has {len(groups)} groups of neurons and the fused network {len(targets)}. Aligned averaging needs "
            "networks that differ in widths only; KF methods take others."
        )


def _check_rest(source: Weights, shapes: Weights, groups: Sequence[Group], targets: Sequence[Group], name: str) -> None:
    """Refuse networks whose tensors differ in more than the neurons of their groups, such as in a layer that is never called.

    Raises:
        ValueError: names the tensor and its axis.
    """
    for key, tensor in source.items():
        shape, other = tuple(tensor.shape), tuple(shapes[key].shape) if key in shapes else None
        if other is None or len(shape) != len(other):
            raise ValueError(
                f"{name} has a tensor {key!r} of shape {shape}, and the fused network {other}. Use KF-Gradient."
            )
        for axis in range(len(shape)):
            if shape[axis] - _held(groups, key, axis) != other[axis] - _held(targets, key, axis):
                raise ValueError(
                    f"{name}: {key!r} has the shape {shape}, and {other} in the fused network, and Retrofit does "
                    f"not know which neurons are along its axis {axis}. Use KF-Gradient, which aligns whole blocks "
                    "by what they compute."
                )


def _held(groups: Sequence[Group], key: str, axis: int) -> int:
    """Number of entries along a tensor's axis that belong to groups."""
    parts = [part.index.flatten() for group in groups for part in group.parts if (part.name, part.axis) == (key, axis)]
    return len(torch.cat(parts).unique()) if parts else 0


def _check_tied(groups: Sequence[Group], targets: Sequence[Group], name: str) -> None:
    """Refuse other widths if one tensor makes and reads the neurons: merged neurons would be averaged where they are made and
    summed where they are read."""
    for group, target in zip(groups, targets, strict=True):
        tied = next((part.name for part in target.parts if part.tied), None)
        if tied is not None and group.width != target.width:
            raise ValueError(
                f"{name}: {tied!r} both makes and reads the neurons at {group.name!r} (tied layers), which can be "
                f"paired but not merged; {name} has {group.width} of them and the fused network {target.width}. Take "
                "networks of equal widths, or give each layer its own weights."
            )


def watchable(net: Network, model: nn.Module) -> list[Group]:
    """The groups of a network, all of which can be recorded.

    Raises:
        ValueError: names one that cannot.
    """
    groups = groups_of(net, model)
    for group in groups:
        if not group.points:
            raise ValueError(
                f"no module computes the neurons of {group.name!r}, so they cannot be recorded. Compute them "
                "with a module such as nn.Linear, or use KF-Gradient, which aligns whole blocks by their outputs."
            )
    return groups


def lines_of(tensor: Tensor, part: Part) -> Tensor:
    """(width, ...) entries of a tensor that belong to each neuron."""
    return tensor.movedim(part.axis, 0)[part.index.to(tensor.device)].flatten(1)
