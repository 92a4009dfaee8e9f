"""Shared parts of methods that align neurons and then average weights: options, plans, scores, averages, reports."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from ..fusion.alignment import AlignedGroup, Alignment
from ..fusion.eligibility import check_inputs
from ..fusion.grouping import Grouping
from ..fusion.importance import Neurons, Scores, importance_name
from ..fusion.importance.scoring import check_parents_data
from ..fusion.moments import Moments
from ..fusion.results import Fitted, FusionResult, LevelReport, level_report
from ..fusion.task import Algorithm, Plan, Takes, Task
from ..networks.code import check_same_code, parent_names
from ..networks.levels import code_of
from ..networks.levels.partition import say_what_is_left
from ..networks.norm_statistics import has_statistics, reset_statistics
from ..networks.symmetry import (
    Group,
    TensorPart,
    check_rest,
    mapped,
    matching,
    neuron_groups,
    tensors,
)
from ..system.device import Stopwatch, in_units, of, on_device
from ..system.duplicates import duplicate
from ..system.monitor import Monitor
from ..system.refusals import Refusal
from ..system.settings import setting
from .repair import mapped_goals, rescale
from .scores import group_scores, neurons_of_groups
from .watch import group_sums

#: For one parent, group -> T and U, (n_k, d) each: fused neurons are the mean of T' over the parents, U passes their values on.
Pairs = dict[str, tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Averager(Algorithm):
    """Base of methods that align neurons and then average weights, with their common options."""

    takes: ClassVar[Takes] = Takes(target=True, importance=True)

    leaves: tuple[str, ...] = setting(
        (),
        "names of submodules to fuse as a whole, for code that torch.fx cannot trace",
        title="Modules fused as a whole",
    )
    repair: bool = setting(
        False,
        "correct the statistics of the fused network's layers (REPAIR) and estimate new running statistics for "
        "BatchNorm",
        title="Correct statistics (REPAIR)",
    )


@dataclass(frozen=True, eq=False, repr=False)
class AlignmentPlan(Plan):
    """Parents whose neurons can be aligned, and the fused network that is made of them."""

    parents: list[nn.Module] = field(kw_only=True)
    """On the device"""
    fused: nn.Module = field(kw_only=True)
    """The future fused network: a copy of the target or of parent 0"""
    groups: list[list[Group]] = field(kw_only=True)
    """The neuron groups of each parent"""
    targets: list[Group] = field(kw_only=True)
    """The fused network's groups"""
    leaves: Sequence[str] = field(kw_only=True)
    neurons: Sequence[Neurons] = field(kw_only=True)
    """Where each parent's neurons are scored"""
    scored: Sequence[Scores] = field(default=(), kw_only=True)
    """The importance of each parent's neurons, group by group, float64; each sums to 1 if normalised"""

    @property
    def inputs(self) -> Tensor:
        """(B, ...) fusion data in the networks' precision."""
        return self.task.inputs.to(self.task.dtype)

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
        scored, task = [], self.task
        for index, (x, y) in enumerate(task.parents_data()):
            self.monitor.emit("phase", name="importance", parent=index, parents=len(self.parents))
            x, y = x.to(task.device, task.dtype), y.to(task.device) if y is not None else None
            neurons, groups = self.neurons[index], self.groups[index]
            scored.append(group_scores(neurons, groups, x, y, task.importance, monitor=self.monitor))
        return replace(self, scored=scored)

    def scores(self, index: int) -> list[Tensor]:
        """The scores of each parent's neurons in a group."""
        return [parent.values[index] for parent in self.scored]

    def sums(self, *, after: bool = False) -> list[Moments]:
        """Sums of the neurons' values per group on the fusion data, after or before the activation function."""
        with self.clock.phase("forward"):
            return group_sums(
                self.parents, self.groups, self.inputs, after=after, monitor=self.monitor, leaves=self.leaves
            )

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
        fused = tensors(self.fused)
        written = [name for name, value in fused.items() if value.is_floating_point()]
        states = []
        for parent, groups, pairs in zip(self.parents, self.groups, maps, strict=True):
            state = {name: tensors(parent)[name].double() for name in written}
            states.append(mapped(state, fused, groups, self.targets, pairs))
        for name in written:
            each = zip(shares or self.equal, states, strict=True)
            fused[name].copy_(torch.stack([share * state[name] for share, state in each]).sum(0))

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
        repaired, shares = None, shares or self.equal
        passing = {"monitor": self.monitor, "leaves": self.leaves}
        if has_statistics(self.fused):
            if reset_norms:
                repaired = reset_statistics(self.fused, self.inputs, keep_function=False, **passing)
        elif value.repair:
            each = zip(shares, maps, strict=True)
            shared = [{name: share * T for name, (T, _) in pairs.items()} for share, pairs in each]
            networks = self.fused, self.parents, self.groups, self.targets
            goals = mapped_goals(*networks, shared, self.inputs, monitor=self.monitor)
            repaired = rescale(self.fused, goals, self.inputs, **passing)
        task = self.task
        scoring = {"importance": importance_name(task.importance), **task.importance.to_json()}
        facts = {
            **(scoring if value.takes.importance else {}),
            "target": task.target_spec,
            "seed": task.seed,
            "samples": len(task.inputs),
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
    monitor, device, leaves = task.runtime.monitor, task.device, value.leaves
    check_inputs(task.parents, task.inputs, target=task.target, least=1, method=value.title)
    target = {} if task.target is None else {"the target": task.target}
    networks = {**target, **dict(zip(parent_names(len(task.parents)), task.parents, strict=True))}
    check_same_code(list(networks.values()), task.inputs, list(networks))
    fused = duplicate(task.target if task.target is not None else task.parents[0]).to(device)
    parents = [on_device(parent, device) for parent in task.parents]
    example = task.inputs[:2].to(device, task.dtype)
    monitor.check()
    monitor.emit("phase", name="groups")
    groups, targets = groups_of(parents, fused, lambda network: _watchable(network, example[:1], leaves))
    for k, (parent, of_network) in enumerate(zip(parents, groups, strict=True)):
        matching(of_network, targets, f"parent {k}")
        _check_tied(of_network, targets, f"parent {k}")
        check_rest(tensors(parent), tensors(fused), of_network, targets, f"parent {k}")
    neurons = [
        neurons_of_groups(parent, of_network, example, task.importance, leaves)
        for parent, of_network in zip(parents, groups, strict=True)
    ]
    check_parents_data(task)
    say_what_is_left(task.parents[0] if task.target is None else task.target, task.inputs)
    for target, *alike in zip(targets, *groups, strict=True):
        count = sum(group.width for group in alike)
        if (need := 2 * 8 * count**2) > task.runtime.memory:
            raise ValueError(
                f"{value.title}: the {count} neurons of all parents at {target.name!r} need {in_units(need)} for their "
                f"inner products, but the budget is {in_units(task.runtime.memory)}. Use KF-Linear, which fits very many classes "
                "some at a time, or Average."
            )
    return AlignmentPlan(
        task,
        parents=parents,
        fused=fused,
        groups=groups,
        targets=targets,
        leaves=leaves,
        neurons=neurons,
    )


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


def check_widths(plan: AlignmentPlan, fit: Callable[[list[int], int], bool], refusal: str) -> None:
    """Refuse neuron groups of unsuitable widths.

    Args:
        fit: (the parents' widths, the fused width) -> whether they fit.
        refusal: message with {widths}, {together} (their sum) and {width}.
    Raises:
        ValueError: names the group.
    """
    for index, group in enumerate(plan.targets):
        widths = plan.widths(index)
        if not fit(widths, group.width):
            words = refusal.format(widths=tuple(widths), together=sum(widths), width=group.width)
            raise ValueError(f"level {group.name!r}: {words}")


def check_enough(plan: AlignmentPlan) -> None:
    """Refuse a fused network with more neurons than all parents together; see `check_widths`."""
    check_widths(
        plan,
        lambda widths, width: width <= sum(widths),
        "{width} fused neurons for {together} parents' neurons; some would represent nothing. Use a target of at "
        "most {together} there.",
    )


def check_pair(task: Task, method: str, *others: str) -> None:
    """Require exactly two parents.

    Args:
        others: methods that take any number.
    Raises:
        ValueError: another number.
    """
    if len(task.parents) != 2:
        *most, last = others
        raise Refusal(
            f"{method} pairs exactly two parents; found {len(task.parents)}. Use {', '.join(most)} or {last}: each "
            "takes any number.",
            *(("method", other) for other in others),
        )


def groups_of(
    parents: Sequence[nn.Module], fused: nn.Module, find: Callable[[nn.Module], list[Group]]
) -> tuple[list[list[Group]], list[Group]]:
    """The neuron groups of each parent, and of the fused network; networks that run the same code have the same."""
    found, codes = dict[Hashable, list[Group]](), list[Hashable]()
    for name, network in zip([*parent_names(len(parents)), "the target"], [*parents, fused], strict=True):
        codes.append(code := code_of(network) or name)
        try:
            found[code] = found[code] if code in found else find(network)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from error
    *groups, targets = (found[code] for code in codes)
    return groups, targets


def _watchable(model: nn.Module, example: Tensor, leaves: Sequence[str]) -> list[Group]:
    groups = neuron_groups(model, example, leaves=leaves)
    for group in groups:
        if not group.points:
            raise ValueError(
                f"no module computes the neurons of {group.name!r}, so they cannot be recorded. Compute them "
                "with a module such as nn.Linear, or use KF-Gradient, which aligns whole blocks by their outputs."
            )
    return groups


def lines_of(tensor: Tensor, part: TensorPart) -> Tensor:
    """(width, ...) entries of a tensor that belong to each neuron."""
    return tensor.movedim(part.axis, 0)[part.index.to(tensor.device)].flatten(1)
