"""Targets of the fused neurons: weighted sums of the parents' neurons.

Legend: m neurons of all parents, d fused neurons, s (m,) scores, k(j) the group of neuron j, S_k the sum of s over group k.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

#: Of the parents' softmax in the ensemble's answer, as in distillation; measured, docs/findings_beyond.md.
TEMPERATURE = 2.0


@dataclass(frozen=True, eq=False)
class Targets:
    """T = z A, with the total score of each."""

    A: Tensor
    """(m, d): weight of each parent neuron in each target"""
    totals: Tensor
    """(d,) S_k: total score of the neurons that target k represents, whether or not they have weight in it"""


def of_ensemble(logits: Tensor, votes: Tensor, temperature: float = TEMPERATURE) -> Tensor:
    """(N, classes) the ensemble's logits: T log of the weighted mean of the parents' softmax at a temperature T.

    At high temperatures they are the weighted mean of the parents' logits, at low ones the maximum of their log-probabilities.
    A softmax ignores the mean over classes; here it is that of all parents' logits, which a level can fit.

    Args:
        logits: (N, n, classes) of n parents.
        votes: (n, classes) weights; only ratios within a class matter, and zeros alone count as equal.
    """
    votes = votes.double() + 1e-300
    answers = (logits / temperature).log_softmax(2) + (votes / votes.sum(0)).log().to(logits)
    said = temperature * answers.logsumexp(1)
    return said + (logits.mean((1, 2)) - said.mean(1))[:, None]


def adds_in_order(tensor: Tensor) -> bool:
    """Whether scattered additions (index_add_, scatter_add_) are deterministic, which they are not on a GPU."""
    return not tensor.is_cuda


def group_sums(values: Tensor, labels: Tensor, width: int) -> Tensor:
    """(..., width) sums of values (..., m) over groups labels (..., m), deterministic on every device.

    If scattered additions are not, it multiplies by the memberships instead.
    """
    if adds_in_order(values):
        return values.new_zeros(*labels.shape[:-1], width).scatter_add_(-1, labels, values.expand_as(labels))
    members = labels[..., None, :] == torch.arange(width, device=labels.device)[:, None]
    return (members.to(values) @ values.expand_as(labels)[..., None])[..., 0]


def group_counts(labels: Tensor, width: int) -> Tensor:
    """(..., width) int64 sizes of groups labels (..., m)."""
    return labels.new_zeros(*labels.shape[:-1], width).scatter_add_(-1, labels, torch.ones_like(labels))


def shares(labels: Tensor, scores: Tensor, width: int) -> Tensor:
    """(..., m) weight of each neuron in its group's mean, for groupings (..., m): s_j / S_k, or equal weights in a group
    whose scores are all zero."""
    totals = group_sums(scores, labels, width).gather(-1, labels)
    counts = group_counts(labels, width).to(scores).gather(-1, labels)
    return torch.where(totals > 0, scores / totals.clamp_min(1e-300), 1 / counts)


def weighted_means(labels: Tensor, scores: Tensor, width: int) -> Targets:
    """The importance-weighted mean of each group, its best single representative; a plain mean if its scores are all zero.
    Column k of A holds s_j / S_k over group k and sums to one.

    Args:
        labels: (m,) groups, 0 to width - 1, none empty.
        scores: (m,) not negative.
    """
    A = scores.new_zeros(len(labels), width)
    A[torch.arange(len(labels), device=labels.device), labels] = shares(labels, scores, width)
    return Targets(A, group_sums(scores, labels, width))


def excess(targets: Targets, labels: Tensor, scores: Tensor) -> Tensor | None:
    """(m, d) S_k A_jk - s_j [k(j) = k], or None if it is zero because targets are the groups' weighted means.

    z times column k is the sum over the group of s_j (T_k - z_j), which must be zero for Theorem 1.
    """
    width = targets.A.shape[1]
    members = one_hot(labels, width).to(scores) * scores[:, None]
    difference = targets.A * targets.totals - members
    rounding = len(labels) * torch.finfo(difference.dtype).eps
    return None if (difference.abs() <= rounding * targets.totals).all() else difference
