"""Grouping for grouped convolutions: the parts are grouped first, then the neurons within each group of parts.

A part of the fused network reads only the parents' parts assigned to it, so a neuron can only be grouped with neurons of these.
Comparing parts must not depend on the order of neurons within them: they are compared by Z Z' (rows x rows), with Z the outputs
of a part's neurons, whose inner products are |Z_g' Z_h|^2 (docs/method.md).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from .base import Grouping
from .order import grouped

Group = Callable[..., Grouping]


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
    grouping: Group,
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
