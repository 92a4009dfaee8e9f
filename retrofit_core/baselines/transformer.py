"""Transformer OTFusion: every layer of a transformer with a soft map of its own (Imfeld et al. 2024).

Legend: as in `otfusion`; at a sum of a residual stream the plans of its two sides are joined, w (1 or d) is the share of the
skip.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..device import Stopwatch, of
from ..monitor import Monitor
from ..ranges import check_ranges
from ..registry import check_words
from ..results import FusionResult
from ..symmetry import Group, Junction, Sums, Watched, group_sums, groups_apart, tensors
from ..symmetry.watch import MOST_SAMPLES
from ..training_flags import keeps_training_flags
from .aligned import Aligning, lines_of, mean_of, prepare
from .otfusion import Mode, Pairs, Solver, align, anchor_of, mapped_states, strength, weight_gram

Residual = Literal["mean", "only_resid", "no_resid", "resid_as_identity", "weighted_scalar", "weighted_matrix"]
#: Sinkhorn's strength that the authors found best.
STRENGTHS: dict[Mode, str] = {"activations": "0.08max", "weights": "0.06max"}
#: The share of the skip where it is given by the policy.
SHARES = {"mean": 0.5, "only_resid": 1.0, "no_resid": 0.0}


@keeps_training_flags
@torch.no_grad()
def transformer_otfusion(
    models: Sequence[nn.Module],
    data: Any,
    *,
    mode: Mode = "activations",
    solver: Solver = "sinkhorn",
    regularisation: float | str | None = None,
    residual: Residual = "mean",
    joint_qk: bool = False,
    window: int = 6,
    standardise: bool = True,
    unit_rows: bool = True,
    importance: str | Callable[..., Any] = "uniform",
    importance_data: Any = None,
    importance_options: dict[str, Any] | None = None,
    target: nn.Module | None = None,
    seed: int = 0,
    device: str | torch.device | None = None,
    monitor: Monitor | None = None,
    leaves: Sequence[str] = (),
    repair: bool = False,
) -> FusionResult:
    """Fuse every parent with the anchor, layer by layer by soft transport, and average. Parents are left as they are.

    What is added to a residual stream (patches, class token, positions, attentions, MLPs) has a map of its own, as
    have queries, keys and values, over all heads together; `residual` says what the readers of a sum take. The anchor is
    the first parent that has the fused widths. The layers are read off the trace (`groups_apart`), so any network
    that OTFusion takes will do; without skips and attentions only the defaults differ from OTFusion's.

    Differences from the authors' code: a class token and positions are compared by their entries in both modes (scaled to
    unit length, a class token's would be signs); weights count with their biases; the window is not narrowed to the
    class token in the last block, and applies to any square of patches; weighted sums use raw activations of the anchor
    (standardised ones are nearly equal everywhere); outgoing weights are handed out by the source's marginal, which
    is the same for equal widths and uniform scores (but for "weighted_matrix"); class c stays class c; of n parents the
    anchor counts half and the others equally, in embeddings and classifier too; no map over queries and keys as one
    another's neurons ("joint" there; `joint_qk` is "eq_t_map").

    Args:
        data: fusion data; they show the neurons (activations) and serve the reports (both modes).
        mode: "activations": a neuron is its pre-activations on the fusion data, all tokens as rows; "weights": its
            incoming weights and bias, inputs aligned before.
        solver: "sinkhorn" or "exact", on distances that are not squared.
        regularisation: of Sinkhorn: a multiple of the largest cost ("0.08max"), of the mean cost ("0.05x"), or a number.
            None: the paper's, "0.08max" for activations and "0.06max" for weights.
        residual: behind a sum the "mean" of both maps, that of the skip ("only_resid") or of what is added to it
            ("no_resid"), no map at all ("resid_as_identity"), or a mean by the sizes of what is added: of all neurons
            ("weighted_scalar") or of each ("weighted_matrix"). The skip is the side with fewer operations behind it.
        joint_qk: one map for queries and keys.
        window: side of the central square of patches whose tokens count, beside the class token.
        standardise: activations of a neuron minus their mean, over their deviation.
        unit_rows: weights scaled to unit length before they are compared.
        importance: scores are the marginals; each head has the same mass.
        target: network of one parent's widths.
        seed: of no use: nothing is random.
        repair: correct the statistics of the fused network's layers (REPAIR); see `repair`.
    Raises:
        ValueError: unknown options, networks that differ in more than widths, or an operation without a rule.
    """
    check_words(mode=(mode, Mode), solver=(solver, Solver), residual=(residual, Residual))
    check_ranges(window=window)
    regularisation = STRENGTHS[mode] if regularisation is None else regularisation
    strength(regularisation, torch.ones(1))  # refuses a wrong one before any work
    plan = prepare(
        models,
        data,
        "Transformer OTFusion",
        target=target,
        importance=importance,
        importance_data=importance_data,
        importance_options=importance_options,
        device=device,
        monitor=monitor,
        leaves=leaves,
    )
    anchor = anchor_of(plan)
    if anchor is None:
        raise ValueError(
            "Transformer OTFusion aligns the parents to one of them, and none has the widths of the target. Use a parent's "
            "widths, or OTFusion."
        )
    plan = _apart(plan, joint_qk, leaves)
    if residual == "resid_as_identity":
        _check_widths(plan)
    clock = Stopwatch(of(plan.fused))
    states = [tensors(parent) for parent in plan.parents]
    with clock.phase("forward"):
        sums = _sums(plan, states, window, leaves)
        shares = _shares(plan, anchor, residual, leaves)

    def gram(index: int, maps: Sequence[Pairs]) -> Tensor:
        group = plan.targets[index]
        if not group.points:  # a token's entries
            return sums[index].zz
        if mode == "weights" and group.junction is None:
            return weight_gram(plan, states, index, maps, unit_rows=unit_rows)
        return sums[index].correlation() if standardise else sums[index].zz

    def joined(index: int, flows: Mapping[str, Tensor]) -> Tensor | None:
        junction = plan.groups[anchor][index].junction
        if junction is None or residual != "resid_as_identity":
            return junction and _joined(junction, flows, shares)
        return torch.diag(plan.scores[anchor][index])

    reports, maps = align(plan, sums, gram, clock, solver=solver, regularisation=regularisation, joined=joined)
    aligned = mapped_states(plan, states, maps)
    others = [own for k, own in enumerate(aligned) if k != anchor]
    plan.write([mean_of([own, aligned[anchor]]) for own in others] or aligned)
    corrected = plan.repaired(_repair_maps(maps, anchor), leaves) if repair else None
    return plan.result(
        reports,
        method="Transformer OTFusion",
        repair=corrected,
        mode=mode,
        solver=solver,
        residual=residual,
        seed=seed,
        regularisation=regularisation if solver == "sinkhorn" else None,
        joint_qk=joint_qk,
        window=window,
        standardise=standardise,
        unit_rows=unit_rows,
        importance=getattr(importance, "__name__", importance),
    )


def _apart(plan: Aligning, joint_qk: bool, leaves: Sequence[str]) -> Aligning:
    """The same parents, with the neurons of every layer by themselves."""
    example = plan.inputs[:1].to(of(plan.fused))
    *groups, targets = [
        groups_apart(model, example, joint_qk=joint_qk, leaves=leaves) for model in (*plan.parents, plan.fused)
    ]
    scores = [
        [_scores_of(group, coarse, values) for group in own]
        for own, coarse, values in zip(groups, plan.groups, plan.scores, strict=True)
    ]
    return replace(plan, groups=groups, targets=targets, scores=scores)


def _scores_of(group: Group, coarse: Sequence[Group], scores: Sequence[Tensor]) -> Tensor:
    """(width,) the scores of a group's neurons, which are found in one or several of the groups that were scored."""
    first = group.places[0]
    found: dict[int, Tensor] = {}
    for own, values in zip(coarse, scores, strict=True):
        for place in own.places:
            if (place.name, place.axis) == (first.name, first.axis):
                for positions, value in zip(place.index.tolist(), values, strict=True):
                    found.update(dict.fromkeys(positions, value))
    picked = torch.stack([found[position] for position in first.index[:, 0].tolist()])
    return picked / picked.sum()


def _check_widths(plan: Aligning) -> None:
    for together, group in zip(zip(*plan.groups, strict=True), plan.targets, strict=True):
        widths = [own.width for own in together]
        if group.junction and set(widths) != {group.width}:
            raise ValueError(
                f"residual='resid_as_identity' leaves the stream at {group.name!r} in its order, but its widths are "
                f"{tuple(widths)}. Use residual='mean'."
            )


def _sums(plan: Aligning, states: Sequence[Mapping[str, Tensor]], window: int, leaves: Sequence[str]) -> list[Sums]:
    """What the neurons of each group compute; the entries of tokens, which nothing computes."""
    seen = [index for index, group in enumerate(plan.targets) if group.points]
    groups = [[own[index] for index in seen] for own in plan.groups]
    sums = group_sums(plan.parents, groups, plan.inputs, window=window, monitor=plan.monitor, leaves=leaves)
    found = dict(zip(seen, sums, strict=True))
    for index in range(len(plan.targets)):
        if index not in found:
            places = [own[index].places[0] for own in plan.groups]
            z = torch.cat([lines_of(state[p.name], p) for state, p in zip(states, places, strict=True)]).double()
            found[index] = Sums(z.shape[1], z @ z.T, z.sum(1))
    return [found[index] for index in range(len(plan.targets))]


def _shares(
    plan: Aligning, anchor: int, residual: Residual, leaves: Sequence[str]
) -> Callable[[Junction], float | Tensor]:
    """For each sum the share of the skip."""
    if residual in SHARES or residual == "resid_as_identity":
        return lambda junction: SHARES[residual]
    sides = {
        point: Group("", "", len(point.index), (), (point,))
        for group in plan.groups[anchor]
        for junction in _nested(group.junction)
        for point in junction.points
    }
    watched = Watched(plan.parents[anchor], list(sides.values()), leaves=leaves)
    totals: dict[Any, Tensor | float] = dict.fromkeys(sides, 0.0)
    for x in plan.inputs.split(MOST_SAMPLES):
        plan.monitor.check()
        values, _ = watched.watch(x.to(of(plan.fused)))
        for point, side in sides.items():
            rows = watched.rows(side, values)
            totals[point] = totals[point] + len(x) * rows.abs().double().mean(0)

    def share(junction: Junction) -> Tensor:
        skip, branch = (torch.as_tensor(totals[point]) for point in junction.points)
        if residual == "weighted_scalar":
            skip, branch = skip.mean(), branch.mean()
        return torch.where(skip + branch > 0, skip / (skip + branch).clamp_min(1e-300), 0.5)

    return share


def _nested(junction: Junction | None) -> list[Junction]:
    """A sum and the sums that it reads directly."""
    if junction is None:
        return []
    inner = [side for side in (junction.skip, junction.branch) if isinstance(side, Junction)]
    return [junction, *(one for side in inner for one in _nested(side))]


def _joined(junction: Junction, flows: Mapping[str, Tensor], shares: Callable[[Junction], float | Tensor]) -> Tensor:
    """(n_k, d) the plan behind a sum."""
    skip, branch = (
        flows[side] if isinstance(side, str) else _joined(side, flows, shares)
        for side in (junction.skip, junction.branch)
    )
    w = shares(junction)
    return w * skip + (1 - w) * branch


def _repair_maps(maps: Sequence[Pairs], anchor: int) -> list[dict[str, Tensor]]:
    """The share of each parent's neurons in the fused ones: the mean over the pairs with the anchor."""
    several = max(1, len(maps) - 1)
    counts = [1.0 if len(maps) == 1 else 0.5 if k == anchor else 0.5 / several for k in range(len(maps))]
    return [{name: count * T for name, (T, _) in own.items()} for own, count in zip(maps, counts, strict=True)]
