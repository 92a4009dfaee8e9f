"""Transformer OTFusion: a separate soft map for every layer of a transformer (Imfeld et al. 2024).

Legend: as in `otfusion`; at a sum in a residual stream, the plan is the mean of those of its two sides.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

import torch
from torch import Tensor

from ..fusion.moments import Moments
from ..fusion.results import FusionResult
from ..fusion.task import Task
from ..networks.symmetry import Group, Junction, groups_apart, tensors
from ..system.extras import require
from ..system.settings import COUNT, setting
from .aligned import AlignmentPlan, Averager, Pairs, groups_of, lines_of, plan_alignment
from .otfusion import Mode, OTFusion, Solver, align_by_transport, anchor_of, weight_gram, why_no_strength
from .watch import correlation, group_sums

#: The authors' best Sinkhorn strengths.
STRENGTHS: dict[Mode, str] = {"activations": "0.08max", "weights": "0.06max"}


def _why_no_strength(value: object) -> str:
    """What a regularisation may be, if `value` is invalid; see `Setting.check`."""
    reason = "" if value is None else why_no_strength(value)
    return f"{reason}, or none for the paper's" if reason else ""


@dataclass(frozen=True, eq=False, repr=False)
class ApartPlan(AlignmentPlan):
    """Parents that can be fused, with separate groups for every layer."""

    joined: AlignmentPlan = field(kw_only=True)
    """The plan with groups of neurons that may be permuted, which are scored"""

    def with_scores(self) -> Self:
        """The plan with the importance of the layers' neurons."""
        each = zip(self.groups, self.joined.groups, self.joined.with_scores().scored, strict=True)
        scored = [
            replace(scores, values=[_scores_of(group, coarse, scores.values) for group in groups])
            for groups, coarse, scores in each
        ]
        return replace(self, scored=scored)


@dataclass(frozen=True)
class TransformerOTFusion(Averager):
    """Aligns every parent to an anchor by soft transport, layer by layer of a transformer, and averages.

    Each layer that adds to a residual stream (patches, class token, positions, attentions, MLPs) has its own map, and so
    have queries, keys and values, over all heads together; readers of a sum have the mean of its maps. The anchor
    is the first parent with the fused widths. The layers come from the trace (`groups_apart`), so any network that
    OTFusion takes will do; without skips and attentions only the defaults differ from OTFusion's. Distances are not
    squared; scores are the marginals, and each head has the same mass; nothing is random.

    Differences from the authors' code: class token and positions are compared by their entries in both modes (scaled to
    unit length, a class token's would be signs); weights include their biases; the window is not narrowed to the class
    token in the last block, and applies to any square of patches; outgoing weights are divided by the source's marginal,
    which is the same for equal widths and uniform scores; class c stays class c; of n parents the anchor counts half and
    the others share the rest equally, also in embeddings and classifier; after a sum, both maps count equally, and none mixes
    queries and keys.
    """

    title: ClassVar[str] = "Transformer OTFusion"

    mode: Mode = setting(
        "activations",
        "compare neurons by their pre-activations on the fusion data, with all tokens as rows (activations), or by "
        "their incoming weights and bias, with inputs already aligned (weights)",
    )
    solver: Solver = setting(
        "sinkhorn", "solver of the transport: sinkhorn, or exact (network simplex)", title="Solver of the transport"
    )
    regularisation: float | str | None = setting(
        None,
        "Sinkhorn regularisation: a number, or a multiple of the largest cost (0.08max) or of the mean cost (0.05x); "
        "none: the paper's, 0.08max for activations and 0.06max for weights",
        check=_why_no_strength,
        title="Sinkhorn regularisation",
    )
    window: int = setting(
        6,
        "side of the central square of patches whose tokens count, in addition to the class token",
        COUNT,
        title="Central patches, per side",
    )
    standardise: bool = setting(
        True,
        "subtract the mean of a neuron's activations and divide by their standard deviation",
        title="Standardise activations",
    )
    unit_rows: bool = setting(
        True, "scale weights to unit length before comparing them", title="Scale weights to unit length"
    )

    def plan(self, task: Task) -> ApartPlan:
        """Find the layers' neurons and refuse what cannot be fused; see `Algorithm`."""
        require("ot", "baselines")
        joined = plan_alignment(task, self)
        if anchor_of(joined) is None:
            raise ValueError(
                "Transformer OTFusion aligns the parents to one of them, and none has the widths of the target. Use "
                "a parent's widths, or OTFusion."
            )
        example = joined.inputs[:1].to(task.device)
        groups, targets = groups_of(
            joined.parents,
            joined.fused,
            lambda network: groups_apart(network, example, leaves=self.leaves),
        )
        return ApartPlan(**{**vars(joined), "groups": groups, "targets": targets}, joined=joined)

    @torch.no_grad()
    def run(self, plan: ApartPlan) -> FusionResult:
        """Align, average, and correct the statistics on request."""
        plan, anchor = plan.with_scores(), anchor_of(plan.joined)
        assert anchor is not None
        regularisation = STRENGTHS[self.mode] if self.regularisation is None else self.regularisation
        states = [tensors(parent) for parent in plan.parents]
        with plan.clock.phase("forward"):
            sums = _sums(plan, states, self.window)

        def gram(index: int, maps: Sequence[Pairs]) -> Tensor:
            group = plan.targets[index]
            if not group.points:  # a token's entries
                return sums[index].zz
            if self.mode == "weights" and group.junction is None:
                return weight_gram(plan, states, index, maps, unit_rows=self.unit_rows)
            return correlation(sums[index]) if self.standardise else sums[index].zz

        def joined(index: int, flows: Mapping[str, Tensor]) -> Tensor | None:
            junction = plan.groups[anchor][index].junction
            return junction and _joined(junction, flows)

        value = OTFusion(solver=self.solver, regularisation=regularisation)
        reports, maps = align_by_transport(plan, sums, gram, value, joined)
        others = len(maps) - 1  # each counts as much as the others, together with the anchor
        counts = [0.5 / others if k != anchor else 0.5 if others else 1.0 for k in range(len(maps))]
        plan.combine(maps, counts)
        facts = {"reset_norms": self.repair, "soft": True, "shares": counts, "regularisation": regularisation}
        return plan.finish(self, reports, maps, **facts)


def _scores_of(group: Group, coarse: Sequence[Group], scores: Sequence[Tensor]) -> Tensor:
    """(width,) scores of a group's neurons, picked from the scored groups that contain them."""
    first = group.parts[0]
    score_at: dict[int, Tensor] = {}
    for joined, values in zip(coarse, scores, strict=True):
        for part in joined.parts:
            if (part.name, part.axis) == (first.name, first.axis):
                for positions, value in zip(part.index.tolist(), values, strict=True):
                    score_at.update(dict.fromkeys(positions, value))
    picked = torch.stack([score_at[position] for position in first.index[:, 0].tolist()])
    return picked / picked.sum()


def _sums(plan: AlignmentPlan, states: Sequence[Mapping[str, Tensor]], window: int) -> list[Moments]:
    """Sums of each group's values, or of a token's entries, which no layer computes."""
    seen = [index for index, group in enumerate(plan.targets) if group.points]
    groups = [[of_parent[index] for index in seen] for of_parent in plan.groups]
    computed = group_sums(plan.parents, groups, plan.inputs, window=window, monitor=plan.monitor, leaves=plan.leaves)
    sums = dict(zip(seen, computed, strict=True))
    for index in range(len(plan.targets)):
        if index not in sums:
            first_parts = [of_parent[index].parts[0] for of_parent in plan.groups]
            z = torch.cat([lines_of(state[p.name], p) for state, p in zip(states, first_parts, strict=True)]).double()
            sums[index] = Moments(z @ z.T, z.sum(1), rows=z.shape[1], rounding=torch.finfo(z.dtype).eps)
    return [sums[index] for index in range(len(plan.targets))]


def _joined(junction: Junction, flows: Mapping[str, Tensor]) -> Tensor:
    """(n_k, d) plan after a sum."""
    sides = (junction.skip, junction.branch)
    skip, branch = (flows[side] if isinstance(side, str) else _joined(side, flows) for side in sides)
    return (skip + branch) / 2
