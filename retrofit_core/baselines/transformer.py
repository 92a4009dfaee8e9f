"""Transformer OTFusion: a separate soft map for every layer of a transformer (Imfeld et al. 2024).

Legend: as in `otfusion`; at a sum in a residual stream, the plan is the mean of those of its two sides.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isqrt
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, fx, nn

from ..fusion.alignment import Group
from ..fusion.moments import Moments
from ..fusion.results import FusionResult
from ..fusion.task import Task
from ..graph.graph import name_of
from ..graph.ids import on_axis, varying
from ..graph.network import Network
from ..graph.neurons import Neurons
from ..graph.spaces import assembled
from ..system.extras import require
from ..system.settings import setting
from .aligned import AlignmentPlan, Averager, Pairs, lines_of, plan_alignment
from .groups import groups_of
from .otfusion import Mode, OTFusion, Solver, align_by_transport, anchor_of, weight_gram, why_no_strength
from .watch import correlation, group_sums

#: The authors' best Sinkhorn strengths.
STRENGTHS: dict[Mode, str] = {"activations": "0.08max", "weights": "0.06max"}
#: Side of the central square of patches whose tokens are compared, besides the class token.
WINDOW = 6


def _why_no_strength(value: object) -> str:
    """What a regularisation may be, if `value` is invalid; see `Setting.check`."""
    reason = "" if value is None else why_no_strength(value)
    return f"{reason}, or none for the paper's" if reason else ""


#: Two sides of a sum, each a group's name, or another sum that nothing else reads.
Junction = tuple[Any, Any]


@dataclass(frozen=True, eq=False, repr=False)
class ApartPlan(AlignmentPlan):
    """Parents that can be fused, with separate groups for every layer."""

    joined: AlignmentPlan = field(kw_only=True)
    """The plan with groups of neurons that may be permuted, which are scored"""
    junctions: list[dict[str, Junction]] = field(kw_only=True)
    """In each parent, groups that a sum makes -> its two sides"""

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
    is the first parent with the fused widths. The layers come from the graph (`apart`), so any network that
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

    def plan(self, task: Task) -> ApartPlan:
        """Find the layers' neurons and refuse what cannot be fused; see `Algorithm`."""
        require("ot", "baselines")
        joined = plan_alignment(task, self)
        if anchor_of(joined) is None:
            raise ValueError(
                "Transformer OTFusion aligns the parents to one of them, and none has the widths of the target. Use "
                "a parent's widths, or OTFusion."
            )
        known = dict[int, tuple[list[Group], dict[str, Junction]]]()
        for net, model in zip(joined.nets, [*joined.parents, joined.fused], strict=True):
            if id(net.spaces) not in known:  # networks that differ in weights alone share them
                known[id(net.spaces)] = apart(net, model)
        each = [known[id(net.spaces)] for net in joined.nets]
        *groups, targets = (groups for groups, _ in each)
        facts = {**vars(joined), "groups": groups, "targets": targets}
        return ApartPlan(**facts, joined=joined, junctions=[junctions for _, junctions in each])

    @torch.no_grad()
    def run(self, plan: ApartPlan) -> FusionResult:
        """Align, average, and correct the statistics on request."""
        plan, anchor = plan.with_scores(), anchor_of(plan.joined)
        assert anchor is not None
        regularisation = STRENGTHS[self.mode] if self.regularisation is None else self.regularisation
        with plan.clock.phase("forward"):
            sums = _sums(plan)

        def gram(index: int, maps: Sequence[Pairs]) -> Tensor:
            group = plan.targets[index]
            if not group.points:  # a token's entries
                return sums[index].zz
            if self.mode == "weights" and group.name not in plan.junctions[-1]:
                return weight_gram(plan, index, maps, unit_rows=True)
            return correlation(sums[index])

        def joined(index: int, flows: Mapping[str, Tensor]) -> Tensor | None:
            sides = plan.junctions[anchor].get(plan.groups[anchor][index].name)
            return sides and _joined(sides, flows)

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
    places = first.index[:, 0].tolist()
    picked = torch.stack([score_at.get(place, scores[0].new_tensor(1 / len(places))) for place in places])
    return picked / picked.sum()


def _sums(plan: AlignmentPlan) -> list[Moments]:
    """Sums of each group's values, or of a token's entries, which no layer computes."""
    seen = [index for index, group in enumerate(plan.targets) if group.points]
    groups = [[of_parent[index] for index in seen] for of_parent in plan.groups]
    computed = group_sums(plan.nets[:-1], groups, plan.leaves, counted=central, monitor=plan.monitor)
    sums = dict(zip(seen, computed, strict=True))
    for index in range(len(plan.targets)):
        if index not in sums:
            parts = [of_parent[index].parts[0] for of_parent in plan.groups]
            each = zip(plan.nets, parts, strict=False)
            z = torch.cat([lines_of(net.weights[part.name], part) for net, part in each]).double()
            sums[index] = Moments(z @ z.T, z.sum(1), rows=z.shape[1], rounding=torch.finfo(z.dtype).eps)
    return [sums[index] for index in range(len(plan.targets))]


def central(tokens: Tensor) -> Tensor:
    """The class token and the central patches of a square grid, see `WINDOW`; other tensors stay as they are.

    Args:
        tokens: (B, 1 + side x side, neurons), or anything else.
    """
    side = isqrt(max(0, tokens.shape[1] - 1)) if tokens.ndim == 3 else 0
    if side <= WINDOW or 1 + side**2 != tokens.shape[1]:
        return tokens
    line = torch.arange(WINDOW) + (side - WINDOW) // 2
    central_ones = torch.cat([torch.zeros(1, dtype=torch.int64), 1 + (side * line[:, None] + line).flatten()])
    return tokens[:, central_ones.to(tokens.device)]


def _joined(sides: Junction, flows: Mapping[str, Tensor]) -> Tensor:
    """(n_k, d) plan after a sum."""
    skip, branch = (flows[side] if isinstance(side, str) else _joined(side, flows) for side in sides)
    return (skip + branch) / 2


# --- a group for each layer that adds to a stream ---------------------------------------------------------------------------


def apart(net: Network, model: nn.Module) -> tuple[list[Group], dict[str, Junction]]:
    """The groups of a network, but each layer that adds to a residual stream is its own group, and so are all heads of a layer
    together; and for each group that a sum makes, its two sides.

    A permutation keeps the function only if a residual stream has one order through all blocks, and queries that of their keys.
    Soft maps need neither. Where tokens from different layers are concatenated (class token and patches), the layer with most
    tokens represents that side.

    Raises:
        ValueError: one side of a sum has more than one group.
    """
    neurons = _Apart(net)
    separate = replace(net, spaces=assembled(neurons))
    groups = groups_of(separate, model, alone=True)
    spaces = {group.name: separate.spaces[group.space] for group in groups if group.space >= 0}
    lines = {tuple(space.ids.tolist()): name for name, space in spaces.items()}
    sums = {tuple(neurons.ids.of(made).tolist()): sides for made, sides in reversed(neurons.sums)}

    def junction(made: tuple[int, ...], name: str) -> Junction:
        skip, branch = (side(tuple(neurons.ids.of(line).tolist()), name) for line in sums[made])
        return skip, branch

    def side(made: tuple[int, ...], name: str) -> Any:
        if made in lines:
            return lines[made]
        if made in sums:
            return junction(made, name)
        raise ValueError(
            f"at the sum before {name!r} neurons of several layers are side by side, so their maps cannot be joined. Use "
            "OTFusion, which finds one map for all of them."
        )

    made_by_layers = {group.name for group in groups if any(part.role == "makes" for part in group.parts)}
    return groups, {
        name: junction(made, name) for made, name in lines.items() if made in sums and name not in made_by_layers
    }


class _Apart(Neurons):
    """Neurons, except that a sum makes new ones."""

    def __init__(self, net: Network) -> None:
        self.joined, self.depths = net.spaces.neurons, dict[fx.Node, int]()
        self.sums: list[tuple[Tensor, list[Tensor]]] = []
        """New neurons, and those of both sides, the one with the shorter path from the input first"""
        values = self.joined.real
        super().__init__(net.graph, net.weights, [values[node] for node in net.graph.inputs], whole=self.joined.whole)

    def twin(self, node: Any) -> Any:
        name = self.graph.names.get(node) if isinstance(node, fx.Node) else None
        if name in self.joined.entries and name not in self.entries:  # along the only axis that varies there
            ids = self.joined.ids.of(self.joined.entries[name])
            if len(along := varying(ids)) == 1:
                self.entries[name] = on_axis(self._axis(name, along[0]), along[0], ids.shape)
        return super().twin(node)

    def _follow(self, node: fx.Node) -> Any:
        self.depths[node] = max((1 + self.depths.get(other, 0) for other in node.all_input_nodes), default=0)
        sides = [arg for arg in node.all_input_nodes if isinstance(self.real[arg], Tensor)]
        if name_of(node) != "add" or len(sides) != 2 or any(self.real[side].ndim == 1 for side in sides):
            return super()._follow(node)
        along = varying(self.joined.ids.of(self.joined.twin(node)))
        if len(along) != 1 or any(self._fixed(self.twin(side)) for side in sides):
            return super()._follow(node)
        sides.sort(key=lambda side: self.depths.get(side, 0))
        lines = [self._most(self.twin(side).expand(self.shape(node)), along[0]) for side in sides]
        if torch.equal(*lines):
            return super()._follow(node)
        made = self.ids.fresh(len(lines[0]))
        self.sums.append((made, lines))
        return on_axis(made, along[0], self.shape(node))

    def _most(self, ids: Tensor, axis: int) -> Tensor:
        """(n,) the most frequent line of neurons along an axis."""
        rows = self.ids.of(ids).movedim(axis, -1).reshape(-1, ids.shape[axis])
        lines, counts = rows.unique(dim=0, return_counts=True)
        return lines[counts.argmax()]

    def _mixed(self, ids: Tensor) -> Tensor:
        """All heads of a layer are one group."""
        self.ids.unify(ids, ids[..., :1, :])
        return ids[..., :1, :]

    def _multiplied(self, queries: Tensor, keys: Tensor) -> None:
        self.apart += [side.flatten()[None] for side in (queries, keys)]
