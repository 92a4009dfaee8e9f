"""Group numbers: their order is free, but may have to match parent 0's weights."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from .assignment import assigned
from .base import Grouping, check_grouping


def grouped(
    grouping: Callable[..., Grouping],
    gram: Tensor,
    scores: Tensor,
    widths: tuple[int, ...],
    width: int,
    generator: torch.Generator,
    *,
    nearness: Tensor | None = None,
) -> Grouping:
    """Group the parents' neurons, check the result, and number the groups like parent 0's neurons.

    Args:
        widths: number of neurons of each parent.
        width: number of groups.
        nearness: (m, m) inner products for numbering the groups; default: `gram`.
    Raises:
        ValueError: see `check_grouping`.
    """
    groups = check_grouping(grouping(gram, scores, widths, width, generator=generator), len(scores), width)
    groups = replace(groups, labels=groups.labels.to(gram.device))  # a user's own may lie on the CPU
    nearness = gram if nearness is None else nearness
    return ordered_like(groups, nearness, scores, torch.arange(widths[0], device=gram.device))


def ordered_like(grouping: Grouping, gram: Tensor, scores: Tensor, reference: Tensor) -> Grouping:
    """The same groups, numbered so that group k's centroid is as near as possible to neuron reference[k].

    Args:
        gram: (m, m) inner products that define the distances.
        reference: (r,) neuron numbers; r may differ from the number of groups, the rest of which keeps its order.
    """
    A = grouping.targets(scores).A
    energy = ((A.T @ gram) * A.T).sum(1)
    energies = gram.diagonal()[reference]
    groups, slots = assigned(energy[:, None] - 2 * A.T @ gram[:, reference] + energies)
    new = len(reference) + torch.arange(grouping.width)  # the rest follows
    new[groups] = slots
    new = new.argsort().argsort().to(grouping.labels.device)  # without gaps
    return Grouping(new[grouping.labels], grouping.width, grouping.cost, grouping.report)
