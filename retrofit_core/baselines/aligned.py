"""Shared parts of methods that align neurons and then average weights: options, plans, scores, averages, reports."""

import copy
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..fusion.alignment import AlignedGroup, Alignment
from ..fusion.eligibility import check_inputs, output_shape
from ..fusion.grouping import Grouping
from ..fusion.importance import importance_name
from ..fusion.importance.parents import check_parents_data
from ..fusion.results import Fitted, FusionResult, LevelReport, level_report
from ..fusion.task import Algorithm, Cost, Shown, Takes, Task, shown_neurons
from ..networks.code import check_same_code, parent_names
from ..networks.levels.folds import folded
from ..networks.levels.tracing import trace
from ..networks.norm_statistics import has_statistics, reset_statistics
from ..networks.outputs import say_what_is_left
from ..networks.symmetry import (
    Group,
    Sums,
    TensorPart,
    check_rest,
    group_sums,
    mapped,
    matching,
    neuron_groups,
    tensors,
)
from ..system.device import Stopwatch, of, on_device
from ..system.monitor import Monitor
from ..system.refusals import Refusal
from ..system.settings import setting
from .repair import mapped_goals, rescale
from .scores import group_scores, levels_of_groups

#: For one parent, group -> T and U, (n_k, d) each: T makes the fused neurons, U passes their values on.
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
class AlignmentPlan(Shown):
    """Parents whose neurons can be aligned, checked before any computation."""

    task: Task
    parents: list[nn.Module]
    """On the device, with BatchNorm folded if requested"""
    fused: nn.Module
    """The future fused network: a copy of the target or of parent 0"""
    groups: list[list[Group]]
    """The neuron groups of each parent"""
    targets: list[Group]
    """The fused network's groups"""
    leaves: Sequence[str]
    folded: bool
    """Whether the parents' BatchNorms are folded, so that they are identities"""

    @property
    def inputs(self) -> Tensor:
        """(B, ...) fusion data in the networks' precision."""
        return self.task.inputs.to(self.task.dtype)

    @property
    def monitor(self) -> Monitor:
        """Gets events, and may cancel."""
        return self.task.runtime.monitor

    def lines(self) -> list[str]:
        """The task, and each group's neurons."""
        return [self.task.headline, *shown_neurons(self.groups, self.targets)]

    def widths(self, index: int) -> list[int]:
        """The parents' widths of a group."""
        return [groups[index].width for groups in self.groups]

    def cost(self) -> Cost:
        """One pass through the parents; does not count transport or matching."""
        return Cost(
            passes=len(self.task.inputs),
            groups=tuple(tuple(self.widths(index)) for index in range(len(self.targets))),
        )

    def scored(self) -> "Aligning":
        """Add the importance of all neurons."""
        start, task = time.perf_counter(), self.task
        scores = []
        for index, (parent, groups, (x, y)) in enumerate(
            zip(self.parents, self.groups, task.parents_data(), strict=True)
        ):
            self.monitor.emit("phase", name="importance", parent=index, parents=len(self.parents))
            x, y = x.to(task.device, task.dtype), y.to(task.device) if y is not None else None
            scores.append(group_scores(parent, groups, x, y, task.importance, monitor=self.monitor, leaves=self.leaves))
        return Aligning(
            **vars(self),
            scores=[parent.values for parent in scores],
            importance=[parent.report for parent in scores],
            start=start,
            clock=Stopwatch(of(self.fused)),
        )


@dataclass(frozen=True, eq=False, repr=False)
class Aligning(AlignmentPlan):
    """Parents whose neurons are being aligned."""

    scores: list[list[Tensor]]
    """scores[parent][group], float64, each summing to 1 if normalised"""
    importance: list[dict[str, Any]]
    """The report of each parent's scores"""
    start: float
    clock: Stopwatch

    def together(self, index: int) -> Tensor:
        """(m,) scores of all neurons in a group, parents side by side."""
        return torch.cat([scores[index] for scores in self.scores])

    def sums(self, *, after: bool = False) -> list[Sums]:
        """Sums of the neurons' values per group on the fusion data, after or before the activation function."""
        with self.clock.phase("forward"):
            return group_sums(
                self.parents, self.groups, self.inputs, after=after, monitor=self.monitor, leaves=self.leaves
            )

    def assign(
        self,
        sums: Sequence[Sums],
        find: Callable[[int], tuple[Tensor, dict[str, Any]]],
        chosen: Sequence[int] | None = None,
    ) -> list[LevelReport]:
        """Assign the parents' neurons to fused ones, group by group.

        Args:
            sums: of each group, for the reports.
            find: group number -> (m,) the fused neuron of each of the parents' neurons, and facts about the search.
            chosen: group numbers; None: all.
        Returns:
            A report of each group, with its labels.
        """
        reports = []
        numbers = range(len(self.targets)) if chosen is None else chosen
        groups = [self.targets[index] for index in numbers]
        for index, group in zip(numbers, self.monitor.each("level", groups), strict=True):
            with self.clock.phase("group"):
                labels, facts = find(index)
            device = sums[index].zz.device
            s, assigned = self.together(index).double().to(device), Grouping(labels.to(device), group.width, 0.0, facts)
            report = level_report(group, self.widths(index), sums[index], s, assigned, Fitted("aligned"))
            reports.append(replace(report, seconds=self.clock.read()))
        return reports

    def corrected(
        self,
        maps: Sequence[Mapping[str, Tensor]],
        *,
        repair: bool,
        reset_norms: bool,
        modules: Collection[str] | None = None,
    ) -> dict[str, Any] | None:
        """Correct the statistics of the fused network after writing its weights: BatchNorm's, or by REPAIR without BatchNorm.

        Args:
            maps: see `mapped_goals`.
            repair, reset_norms: whether to correct, without and with BatchNorm.
            modules: names of modules to correct; None: all.
        """
        facts = {"monitor": self.monitor, "leaves": self.leaves}
        if has_statistics(self.fused) and not self.folded:
            if not reset_norms:
                return None
            return reset_statistics(self.fused, self.inputs, keep_function=False, only=modules, **facts)
        if not repair:
            return None
        goals = mapped_goals(
            self.fused, self.parents, self.groups, self.targets, maps, self.inputs, monitor=self.monitor
        )
        goals = {name: goal for name, goal in goals.items() if modules is None or name in modules}
        return rescale(self.fused, goals, self.inputs, **facts)

    def combine(self, maps: Sequence[Pairs]) -> None:
        """Write the sum over parents of T' W U into the fused network, and averages of tensors that make no neurons.

        Tensors that involve groups without maps stay as they are (after a partial zip).
        """
        aligned = maps[0]
        fused = tensors(self.fused)
        makers = {part.name for group in self.targets for part in group.parts if part.kind != "in"}
        ready = {part.name for group in self.targets if group.name in aligned for part in group.parts}
        ready -= {part.name for group in self.targets if group.name not in aligned for part in group.parts}
        states = [
            mapped(
                {
                    name: value.double() if value.is_floating_point() else value
                    for name, value in tensors(parent).items()
                    if name in ready or name not in makers
                },
                fused,
                _only(groups, ready),
                _only(self.targets, ready),
                pairs,
            )
            for parent, groups, pairs in zip(self.parents, self.groups, maps, strict=True)
        ]
        for name, value in fused.items():
            if name in states[0] and value.is_floating_point():
                total = torch.stack([state[name] for state in states]).sum(0)
                value.copy_(total if name in makers else total / len(states))

    def result(
        self,
        method: str,
        value: Averager,
        reports: list[LevelReport],
        *,
        soft: Sequence[Pairs] | None = None,
        shares: Sequence[float] | None = None,
        **facts: object,
    ) -> FusionResult:
        """The fused network in its current state.

        Args:
            soft: each parent's maps, if they split neurons among fused ones.
            shares: the parents' weights in the mean; None: equal.
            facts: for the configuration.
        """
        n = len(self.parents)
        aligned = [
            AlignedGroup(
                level.name,
                level.width,
                level.labels.split(list(level.widths)),
                None if soft is None else tuple(pairs[level.name] for pairs in soft),
            )
            for level in reports
        ]
        alignment = Alignment(
            tuple(aligned),
            tuple(shares or [1 / n] * n),
            tuple(self.parents),
            tuple(self.groups),
            self.fused,
            self.targets,
        )
        task, target = self.task, self.task.target
        scoring = {"importance": importance_name(task.importance), **task.importance.to_json()}
        config = {
            "method": method,
            **value.to_json(),
            **(scoring if value.takes.importance else {}),
            "target": None if target is None else getattr(target, "spec", type(target).__name__),
            "seed": task.seed,
            "samples": len(task.inputs),
            "device": str(task.device),
            **facts,
        }
        seconds = time.perf_counter() - self.start
        return FusionResult(self.fused, reports, config, seconds, self.importance, alignment)


@torch.no_grad()
def plan_alignment(task: Task, method: str, *, leaves: Sequence[str], fold_norms: bool = False) -> AlignmentPlan:
    """Find the neuron groups of parents and fused network; refuse what cannot be aligned.

    Args:
        method: name for messages.
        fold_norms: fold each BatchNorm into the layer before it.
    Raises:
        ValueError: unsuitable data, networks that differ in more than widths, an operation without a rule, or neurons that
            cannot be scored.
    """
    monitor, device = task.runtime.monitor, task.device
    check_inputs(task.parents, task.inputs, target=task.target, least=1, method=method)
    target = {} if task.target is None else {"the target": task.target}
    networks = {**target, **dict(zip(parent_names(len(task.parents)), task.parents, strict=True))}
    check_same_code(list(networks.values()), task.inputs, list(networks))
    fused = copy.deepcopy(task.target if task.target is not None else task.parents[0]).to(device)
    parents = [on_device(parent, device) for parent in task.parents]
    example = task.inputs[:2].to(device, task.dtype)
    parents = [without_norms(parent, example, leaves) for parent in parents] if fold_norms else parents
    monitor.check()
    monitor.emit("phase", name="groups")
    groups = [_groups(parent, example[:1], leaves, f"parent {k}") for k, parent in enumerate(parents)]
    targets = _groups(fused, example[:1], leaves, "the target")
    for k, (parent, of_network) in enumerate(zip(parents, groups, strict=True)):
        matching(of_network, targets, f"parent {k}")
        _check_tied(of_network, targets, f"parent {k}")
        check_rest(tensors(parent), tensors(fused), of_network, targets, f"parent {k}")
    for parent, of_network in zip(parents, groups, strict=True) if not task.importance.widths_only else ():
        levels = levels_of_groups(parent, of_network, example, task.importance, leaves)
        if levels is not None:
            task.importance.check(levels)
    check_parents_data(task.importance, task.parents_data(), output_shape(task.parents[0], task.inputs, "parent 0"))
    say_what_is_left(task.parents[0] if task.target is None else task.target, task.inputs)
    return AlignmentPlan(task, parents, fused, groups, targets, leaves, fold_norms)


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


@torch.no_grad()
def without_norms(model: nn.Module, example: Tensor, leaves: Sequence[str] = ()) -> nn.Module:
    """A copy with the same function, in which each BatchNorm after a layer is folded into it and then the identity."""
    twin = copy.deepcopy(model)
    for folds in folded(trace(twin, leaves, example))[1].values():
        for fold in folds:
            fold.put_back()
    return twin


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


def _groups(model: nn.Module, example: Tensor, leaves: Sequence[str], name: str) -> list[Group]:
    try:
        groups = neuron_groups(model, example, leaves=leaves)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
    for group in groups:
        if not group.points:
            raise ValueError(
                f"{name}: no module computes the neurons of {group.name!r}, so they cannot be recorded. Compute them "
                "with a module such as nn.Linear, or use KF-Gradient, which aligns whole blocks by their outputs."
            )
    return groups


def lines_of(tensor: Tensor, part: TensorPart) -> Tensor:
    """(width, ...) entries of a tensor that belong to each neuron."""
    return tensor.movedim(part.axis, 0)[part.index.to(tensor.device)].flatten(1)


def shares_of(maps: Sequence[Pairs], weights: Sequence[float] | None = None) -> list[dict[str, Tensor]]:
    """For each parent, group -> T times the parent's weight."""
    weights = weights or [1.0] * len(maps)
    return [{name: weight * T for name, (T, _) in pairs.items()} for pairs, weight in zip(maps, weights, strict=True)]


def averages(labels: Tensor, widths: Sequence[int], width: int) -> list[tuple[Tensor, Tensor]]:
    """For each parent (T, U), (n_k, d) each: T has each member's share of its fused neuron; U is 0 or 1."""
    counts = torch.bincount(labels, minlength=width)
    U = nn.functional.one_hot(labels, width).double()
    return list(zip((U / counts).split(list(widths)), U.split(list(widths)), strict=True))


def averaging_maps(reports: Sequence[LevelReport]) -> list[Pairs]:
    """The `averages` of each parent and reported group."""
    of_groups = {level.name: averages(level.labels, level.widths, level.width) for level in reports}
    return [dict(zip(of_groups, pairs, strict=True)) for pairs in zip(*of_groups.values(), strict=True)]


def _only(groups: Sequence[Group], names: set[str]) -> list[Group]:
    """Groups restricted to parts in these tensors."""
    return [replace(group, parts=tuple(part for part in group.parts if part.name in names)) for group in groups]


def mean_of(states: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of every floating-point tensor of equal shapes; other tensors are the first parent's."""
    means = dict(states[0])
    for name, value in means.items():
        if value.dtype.is_floating_point:
            means[name] = torch.stack([state[name].double() for state in states]).mean(0).to(value)
    return means
