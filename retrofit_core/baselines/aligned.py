"""What all methods share that align neurons and then average weights: checks, scores, averages, reports."""

import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from .. import device as devices
from ..batchnorm import put_back
from ..eligibility import check_inputs, on_device
from ..importance import EPSILON, IMPORTANCE, Scores, check_data, check_labels, conductance, importance_scores, uniform
from ..importance.conductance import conductance_at
from ..levels import partition
from ..levels.tracing import trace
from ..monitor import Monitor
from ..norm_statistics import has_statistics, reset_statistics
from ..registry import find
from ..results import FusionResult, LevelReport, level_report
from ..samples import as_tensors, parents_data
from ..symmetry import Group, Place, Sums, Watched, matching, neuron_groups, tensors
from ..targets import weighted_means
from .repair import mapped_goals, rescale

NAN = float("nan")


@dataclass(frozen=True, eq=False)
class Aligning:
    """Parents whose neurons are about to be aligned, checked."""

    parents: list[nn.Module]
    fused: nn.Module
    """The network that becomes the fused one: a copy of the target or of parent 0"""
    groups: list[list[Group]]
    """The neuron groups of each parent"""
    targets: list[Group]
    """Those of the fused network"""
    inputs: Tensor
    scores: list[list[Tensor]]
    """scores[parent][group], float64, each summing to 1"""
    importance: list[dict[str, Any]]
    """What the scores tell about themselves, for each parent"""
    monitor: Monitor
    start: float
    folded: bool = False
    """Whether the parents' BatchNorms are folded and do nothing"""

    def repaired(self, maps: Sequence[Mapping[str, Tensor]], leaves: Sequence[str]) -> dict[str, Any]:
        """REPAIR the fused network once its weights are there; see `mapped_goals` for the maps."""
        if has_statistics(self.fused) and not self.folded:
            return reset_statistics(self.fused, self.inputs, keep_function=False, monitor=self.monitor, leaves=leaves)
        goals = mapped_goals(
            self.fused, self.parents, self.groups, self.targets, maps, self.inputs, monitor=self.monitor
        )
        return rescale(self.fused, goals, self.inputs, monitor=self.monitor, leaves=leaves)

    def write(self, states: Sequence[Mapping[str, Tensor]], weights: Any = None) -> None:
        """Give the fused network the mean of the parents' mapped tensors; see `mean_of`."""
        own = tensors(self.fused)
        for name, value in mean_of(states, weights).items():
            own[name].copy_(value)

    def result(self, reports: list[LevelReport], **config: Any) -> FusionResult:
        """The fused network as it is now."""
        facts = {"samples": len(self.inputs), "device": str(devices.of(self.fused)), **config}
        return FusionResult(self.fused, reports, facts, time.perf_counter() - self.start, self.importance)


def prepare(
    models: Sequence[nn.Module],
    data: Any,
    who: str,
    *,
    target: nn.Module | None,
    importance: str | Callable[..., Any],
    importance_data: Any,
    importance_options: dict[str, Any] | None,
    device: str | torch.device | None,
    monitor: Monitor | None,
    leaves: Sequence[str],
    fold_norms: bool = False,
) -> Aligning:
    """Find the neuron groups of parents and fused network and score their neurons; refuse what cannot work."""
    start, monitor, place = time.perf_counter(), monitor or Monitor(), devices.pick(device)
    inputs, labels = as_tensors(data)
    check_inputs(models, inputs, target=target, least=1, who=who)
    fused = copy.deepcopy(target if target is not None else models[0]).to(place).eval()
    parents = [on_device(model, place).eval() for model in models]
    inputs = inputs.to(next(fused.parameters()).dtype)
    example = inputs[:1].to(place)
    parents = [without_norms(parent, leaves, example) for parent in parents] if fold_norms else parents
    monitor.check()
    monitor.emit("phase", name="groups")
    groups = [_groups(model, example, leaves, f"parent {index}") for index, model in enumerate(parents)]
    targets = _groups(fused, example, leaves, "the target")
    for index, own in enumerate(groups):
        matching(own, targets, f"parent {index}")
    importance = importance.lower() if isinstance(importance, str) else importance
    check_data(importance, importance_data)
    pairs = parents_data(importance_data, (inputs, labels), len(parents))
    found = []
    for index, (model, own, (x, y)) in enumerate(zip(parents, groups, pairs, strict=True)):
        monitor.emit("phase", name="importance", parent=index, parents=len(parents))
        x = x.to(place, inputs.dtype)
        with torch.enable_grad():
            found.append(
                group_scores(
                    model,
                    own,
                    x,
                    y.to(place) if y is not None else None,
                    importance,
                    monitor=monitor,
                    leaves=leaves,
                    **(importance_options or {}),
                )
            )
    return Aligning(
        parents,
        fused,
        groups,
        targets,
        inputs,
        [scores.values for scores in found],
        [scores.report for scores in found],
        monitor,
        start,
        fold_norms,
    )


def without_norms(model: nn.Module, leaves: Sequence[str] = (), example: Tensor | None = None) -> nn.Module:
    """A copy that computes the same: each BatchNorm behind a layer is folded into it and does nothing any more."""
    twin = copy.deepcopy(model).eval()
    for layer, affine, norm in trace(twin, leaves, example=example)[2].values():
        put_back(layer, affine, norm)
    return twin


def check_widths(plan: Aligning) -> None:
    """Refuse a fused network with more neurons than all parents have together."""
    for index, group in enumerate(plan.targets):
        together = sum(own[index].width for own in plan.groups)
        if group.width > together:
            raise ValueError(
                f"level {group.name!r}: {group.width} fused neurons for {together} parents' neurons; some would stand for "
                f"nothing. Use a target of at most {together} there."
            )


def _groups(model: nn.Module, example: Tensor, leaves: Sequence[str], who: str) -> list[Group]:
    try:
        return neuron_groups(model, example, leaves=leaves)
    except ValueError as error:
        raise ValueError(f"{who}: {error}") from error


def group_scores(
    model: nn.Module,
    groups: Sequence[Group],
    x: Tensor,
    y: Tensor | None,
    method: str | Callable[..., Any],
    *,
    monitor: Monitor | None = None,
    leaves: Sequence[str] = (),
    **options: Any,
) -> Scores:
    """`importance_scores` for neuron groups: one (width,) tensor per group that sums to 1.

    Where every group is a level of the network these are the level's scores. Neurons inside a residual block or an
    attention, which no level ends at, get conductances of their own; a residual stream the sum over its points.

    Raises:
        ValueError: as `importance_scores`, or the method knows levels only.
    """
    score = find(IMPORTANCE, method, "importance")
    if score is uniform:
        return Scores(
            [torch.full((group.width,), 1 / group.width, dtype=torch.float64, device=x.device) for group in groups]
        )
    levels = partition(model, x[:2], leaves=leaves)
    makers = [{place.name for place in group.places if place.kind == "out"} for group in groups]
    if len(levels) == len(groups) and all(
        level.affine is not None and names & level.state().keys() for names, level in zip(makers, levels, strict=True)
    ):
        return importance_scores(levels, x, y, method, monitor=monitor, **options)
    if score is not conductance:
        raise ValueError(
            f"importance {getattr(score, '__name__', score)!r} is known at the ends of levels only, and this network has "
            "neurons inside of blocks. Use importance='conductance' or 'uniform'."
        )
    y = check_labels(y, conductance)
    if any(point.part != "output" for group in groups for point in group.points):
        raise ValueError(
            "conductance cannot be taken inside an nn.MultiheadAttention. Use importance='uniform', or a network whose "
            "queries, keys and values are layers of their own."
        )
    watched = Watched(model, groups, leaves=leaves)
    places = [(group, point) for group in groups for point in group.points]

    def run(inputs: Tensor, *, with_gradients: bool) -> list[Tensor]:
        with torch.set_grad_enabled(with_gradients):
            values, outputs = watched.watch(inputs.detach().requires_grad_(with_gradients))
        return [*(values[point.node, "output"] for _, point in places), outputs]

    found = conductance_at(run, [*(point.axis for _, point in places), 1], x, y, monitor=monitor, **options)
    totals = {group.name: torch.zeros(group.width, dtype=torch.float64, device=x.device) for group in groups}
    for (group, point), values in zip(places, found.values[:-1], strict=True):
        totals[group.name] += values[point.index.to(x.device)].sum(1)
    raw = [total + EPSILON for total in totals.values()]
    return Scores(
        [value / value.sum() for value in raw], {k: v for k, v in found.report.items() if k != "completeness_gap"}
    )


def lines_of(tensor: Tensor, place: Place) -> Tensor:
    """(width, ...) what a tensor holds for each neuron at one place."""
    return tensor.movedim(place.axis, 0)[place.index.to(tensor.device)].flatten(1)


@torch.no_grad()
def mean_of(
    states: Sequence[Mapping[str, Tensor]], weights: Mapping[str, tuple[int, Tensor]] | None = None
) -> dict[str, Tensor]:
    """The mean of every floating-point tensor; the others are the first one's.

    Args:
        states: one dict of tensors per parent, of equal shapes.
        weights: tensor -> (axis, (n, size)) weights of the parents for each entry of one axis, which sum to one over
            the parents. Tensors without an entry get the plain mean.
    """
    found = dict(states[0])
    for name, value in found.items():
        if not value.dtype.is_floating_point:
            continue
        together = torch.stack([state[name].double() for state in states])
        if weights and name in weights:
            axis, shares = weights[name]
            shape = [len(states)] + [-1 if place == axis else 1 for place in range(value.ndim)]
            found[name] = (together * shares.to(together).view(shape)).sum(0).to(value)
        else:
            found[name] = together.mean(0).to(value)
    return found


def report(
    group: Group,
    widths: Sequence[int],
    sums: Sums,
    scores: Tensor,
    labels: Tensor,
    facts: dict[str, Any],
    seconds: dict[str, float],
) -> LevelReport:
    """A level report of a group whose parents' neurons were assigned to fused ones."""
    s, zz = scores.double(), sums.zz[: len(scores), : len(scores)]
    targets = weighted_means(labels.to(zz.device), s.to(zz.device), group.width)
    return level_report(
        group,
        widths,
        sums.rows,
        zz,
        s,
        labels,
        targets,
        approximation_error=NAN,
        unavoidable_error=NAN,
        ridge=NAN,
        form="aligned",
        grouping=facts,
        seconds=seconds,
    )
