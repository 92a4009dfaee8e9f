"""Group the neurons of each space: which of the parents' neurons each fused neuron represents.

A part of a fused grouped convolution reads only the parents' parts assigned to it, so a neuron can only be grouped with neurons
of these: parts are grouped first, then the neurons within each group of parts. Comparing parts must not depend on the order of
neurons within them: they are compared by Z Z' (rows x rows), with Z the outputs of a part's neurons, whose inner products are
|Z_g' Z_h|^2 (docs/method.md).

Legend: n neurons of a space in all parents, m neurons of a level in all parents, d fused neurons.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from ..networks.levels import Heads, Parts
from .fit.heads import head_groupings, read_back
from .grouping import Grouping, SameIndex, grouped
from .joint_spaces import JointSpace, Levels
from .moments import Moments, Rows
from .walk import Step


@dataclass(frozen=True, eq=False)
class Search:
    """Groups the neurons of each space."""

    levels: Levels
    grouping: Callable[..., Grouping]
    scores: Sequence[Sequence[Tensor]]
    """Scores of each parent's neurons at each level"""
    heads: dict[int, Grouping] = field(default_factory=dict)
    """Level -> targets of its queries, keys or values, of attentions so far"""

    def groups(self, step: Step, gram: Tensor, sums: Moments | Rows, s: Tensor) -> Grouping:
        """Groups of a level's neurons: known ones, and those of each space that begins there.

        Args:
            gram: (m, m) inner products for grouping neurons that no other level makes.
            sums: of the level; zz may hold a stream after the parents' neurons.
            s: (m,) scores.
        """
        level, index, zz = step.level, step.index, sums.zz[: len(s), : len(s)]
        if isinstance(level.blocks, Heads):  # targets of the queries, keys or values of an attention
            if index not in self.heads:
                self.heads.update(head_groupings(step, self.scores, self.grouping))
            of_heads = self.heads[index]
            assert of_heads.weights is not None
            return replace(of_heads, reading=read_back(of_heads.weights, zz))
        if level.fixed:
            return SameIndex()(gram, s, step.widths, level.width)
        begun = [space for space in self.levels.written(index) if space.first == index]
        if not begun:
            return Grouping(step.known, level.width, math.nan, {"algorithm": "stream"})
        labels, cost, report = step.known.clone(), 0.0, dict[str, Any]()
        later = {k for space in begun for k in space.compared} | set(
            self.levels.in_parts(index) if step.parts is None else ()
        )
        grams = {index: zz, **step.grams(sorted(later - {index}))}
        for space in begun:
            theirs, ours = (places.to(s.device) for places in space.places[index])
            found = self._found(space, step, gram, grams, s[theirs[:, 0]])
            labels[theirs] = ours[found.labels]
            cost, report = cost + found.cost, found.report
        if not level.plain:
            report = {"algorithm": report.get("algorithm"), "kinds": len(level.writes)}
        return Grouping(labels, level.width, cost, report)

    def _found(self, space: JointSpace, step: Step, gram: Tensor, grams: Mapping[int, Tensor], s: Tensor) -> Grouping:
        """Groups of a space's neurons.

        Args:
            grams: inner products of the parents' outputs at the compared levels.
            s: (n,) scores.
        """
        compared = {k: among(grams[k], space.places[k][0]) for k in space.compared}
        raw = compared[step.index]
        products = alike(compared.values()) if len(compared) > 1 else among(gram, space.places[step.index][0])
        if space.fixed:
            return SameIndex()(products, s, space.widths, space.width)
        if isinstance(step.level.blocks, Parts):
            assigned = self._parts(step, grams) if step.parts is None else step.parts
            return grouped_within(
                self.grouping, products, s, assigned, space.widths, step.level.blocks.places, step.generator
            )
        # Gradient fits start at parent 0's weights, so they need its order; for other fits, any order will do.
        nearness = products if step.level.plain and len(compared) > 1 else raw
        return grouped(self.grouping, products, s, space.widths, space.width, step.generator, nearness=nearness)

    def _parts(self, step: Step, grams: Mapping[int, Tensor]) -> Tensor:
        """(m,) the fused network's part to which each neuron's part of a grouped convolution is assigned."""
        of_neurons = {k: self.levels.parts_of(k).to(step.device) for k in self.levels.in_parts(step.index)}
        sums = [
            torch.zeros(int(parts.max()) + 1, dtype=torch.float64, device=step.device).index_add_(
                0, parts, torch.cat([parent[k] for parent in self.scores]).to(step.device).double()
            )
            for k, parts in of_neurons.items()
        ]
        gram = alike(part_gram(grams[k], parts) for k, parts in of_neurons.items())
        parts = [levels[step.index].blocks for levels in self.levels.networks]
        *counts, count = [len(blocks.places) for blocks in parts if isinstance(blocks, Parts)]
        groups = grouped(self.grouping, gram, torch.stack(sums).mean(0), tuple(counts), count, step.generator)
        return groups.labels[of_neurons[step.index]]


def alike(grams: Iterable[Tensor]) -> Tensor:
    """(m, m) the sum of Gram matrices, each divided by its trace, so that the scale of a state does not matter."""
    return torch.stack([gram / gram.trace().clamp_min(1e-300) for gram in grams]).sum(0)


def among(gram: Tensor, places: Tensor) -> Tensor:
    """(n, n) inner products of some neurons, summed over their copies.

    Args:
        places: (n, copies) their positions.
    """
    places = places.to(gram.device)
    return torch.stack([gram[copy][:, copy] for copy in places.T]).sum(0)


def part_gram(zz: Tensor, parts: Tensor) -> Tensor:
    """(G, G) <Z_g Z_g', Z_h Z_h'> = |Z_g' Z_h|^2 of all parents' parts.

    Args:
        zz: (m, m) inner products of neurons.
        parts: (m,) the part of each, with all parents' parts numbered consecutively.
    """
    members = one_hot(parts).to(zz)
    return members.T @ zz.square() @ members


def grouped_within(
    grouping: Callable[..., Grouping],
    gram: Tensor,
    scores: Tensor,
    assigned: Tensor,
    widths: Sequence[int],
    places: Tensor,
    generator: torch.Generator,
) -> Grouping:
    """Group a level's neurons within each part of the fused network.

    Args:
        assigned: (m,) the fused network's part to which each neuron's part is assigned.
        widths: number of neurons of each parent.
        places: (parts, neurons of each) of the fused network's level.
    """
    parents = torch.arange(len(widths)).repeat_interleave(torch.tensor(widths)).to(gram.device)
    labels, cost, report = torch.empty_like(assigned), 0.0, dict[str, Any]()
    for part, slots in enumerate(places.to(gram.device)):
        inside = (assigned == part).nonzero()[:, 0]
        counts = tuple(count for count in parents[inside].bincount().tolist() if count)
        groups = grouped(grouping, gram[inside][:, inside], scores[inside], counts, len(slots), generator)
        labels[inside] = slots[groups.labels]
        cost, report = cost + groups.cost, groups.report
    algorithm = {name: value for name, value in report.items() if name == "algorithm"}
    return Grouping(labels, places.numel(), cost, {**algorithm, "parts": len(places)})
