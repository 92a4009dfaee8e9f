"""Git Re-Basin: two parents' neurons paired one to one, then averaged (Ainsworth et al. 2023)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from ..fusion.alignment import Group, reordered_tensors
from ..fusion.grouping import assigned, pairwise_costs
from ..fusion.moments import Moments
from ..fusion.results import FusionResult
from ..fusion.task import Takes
from ..system.monitor import Monitor
from ..system.settings import setting
from .aligned import AlignmentPlan, Averager, Pairs, lines_of
from .otfusion import Mode, incoming
from .watch import correlation

Similarity = Literal["distance", "correlation"]
#: Coordinate descent stops if no pairing gains this much, or after this many rounds (the authors' code).
LEAST_GAIN, MOST_ROUNDS = 1e-12, 100


@dataclass(frozen=True)
class GitReBasin(Averager):
    """Pairs parent 1's neurons with parent 0's and takes the importance-weighted mean.

    Groups (one per residual stream, separate heads, BatchNorm included) come from `groups_of`. A fused neuron's
    incoming weights are (s0 w0 + s1 w1) / (s0 + s1). The seed determines the order in which weight matching visits groups.

    Differences from the authors' code: activation matching weights the cost by scores, as Luenam et al. do (with uniform
    scores it maximises the inner product, as theirs does); weight matching starts from one pass through the network that
    uses incoming weights only, instead of the identity, so that it always recovers a permuted copy; the seed determines
    the order of the rounds.
    """

    takes: ClassVar[Takes] = Takes(parents=(2, 2), equal_widths=True, target=True, importance=True)
    title: ClassVar[str] = "Git Re-Basin"

    mode: Mode = setting(
        "activations",
        "compare neurons by their outputs on the fusion data, after the activation function (activations), or by all "
        "their weights, with coordinate descent on the sum of inner products (weights)",
    )
    similarity: Similarity = setting(
        "distance",
        "similarity of activations: distance (squared), or correlation",
        title="Similarity of neurons",
    )

    @torch.no_grad()
    def run(self, plan: AlignmentPlan) -> FusionResult:
        """Pair, average, and correct the statistics on request."""
        plan = plan.with_scores()
        sums = plan.sums(after=True)
        orders: dict[str, Tensor] = {}
        facts: dict[str, Any] = {}
        if self.mode == "weights":
            with plan.clock.phase("group"):
                states = [net.weights for net in plan.nets[:-1]]
                orders, facts = match_weights(plan.targets, *states, seed=plan.task.seed, monitor=plan.monitor)
        maps: list[Pairs] = [{}, {}]

        def find(index: int) -> tuple[Tensor, dict[str, Any]]:
            group, (s0, s1) = plan.targets[index], plan.scores(index)
            line = torch.arange(group.width)
            if self.mode == "activations" and not group.fixed:
                orders[group.name] = _matched(sums[index], s0, s1, self.similarity)
            order = orders.setdefault(group.name, line)
            shares = torch.stack([s0, s1[order.to(s1.device)]])
            shares = shares / shares.sum(0)
            for pairs, share, members in zip(maps, shares, (line, order), strict=True):
                U = nn.functional.one_hot(members.argsort(), group.width).to(share)
                pairs[group.name] = 2 * U * share, U
            return torch.cat([line, order.argsort()]), {"algorithm": "linear_sum_assignment", **facts}

        reports = plan.assign(sums, find)
        plan.combine(maps)
        return plan.finish(self, reports, maps, reset_norms=self.repair)


def _matched(sums: Moments, s0: Tensor, s1: Tensor, similarity: str) -> Tensor:
    """(n,) the neuron of parent 1 paired with each neuron of parent 0."""
    n = len(s0)
    if similarity == "correlation":
        return assigned(-correlation(sums)[:n, n:].double())[1]
    return assigned(pairwise_costs(sums.zz, torch.cat([s0, s1]), n).double())[1]


def match_weights(
    groups: Sequence[Group], first: Mapping[str, Tensor], second: Mapping[str, Tensor], *, seed: int, monitor: Monitor
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Pair neurons by coordinate descent to maximise the inner product of all weights.

    Returns:
        For each group but the classes, (width,) the neuron of the second network paired with each of the first; and the
        number of rounds and whether the descent converged.
    """
    free = [group for group in groups if not group.fixed]
    first = {name: tensor.double() for name, tensor in first.items()}
    second = {name: tensor.double() for name, tensor in second.items()}
    orders = _forward_pass(groups, first, second)
    generator = torch.Generator().manual_seed(seed)
    rounds, gained = 0, True
    while gained and rounds < MOST_ROUNDS:
        gained, rounds = False, rounds + 1
        for number in torch.randperm(len(free), generator=generator).tolist():
            monitor.check()
            group = free[number]
            gains = _gains(group, groups, first, second, orders)
            new = assigned(gains, maximize=True)[1]
            line = torch.arange(group.width)
            before, after = gains[line, orders[group.name]].sum(), gains[line, new].sum()
            if after > before + LEAST_GAIN * max(1.0, abs(before.item())):
                orders[group.name], gained = new, True
    return orders, {"rounds": rounds, "converged": not gained}


def _forward_pass(
    groups: Sequence[Group], first: Mapping[str, Tensor], second: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Pair each group by its incoming weights, with inputs already paired."""
    orders: dict[str, Tensor] = {}
    for index, group in enumerate(groups):
        if group.fixed:
            continue
        done = groups[:index]
        left = incoming(groups, index, dict(first), done)
        right = incoming(groups, index, reordered_tensors(second, groups, orders), done)
        cost = torch.cdist(left, right).square()
        orders[group.name] = assigned(cost)[1]
    return orders


def _gains(
    group: Group,
    groups: Sequence[Group],
    first: Mapping[str, Tensor],
    second: Mapping[str, Tensor],
    orders: Mapping[str, Tensor],
) -> Tensor:
    """(n, n) inner products of the weights at a group's neurons, with the current pairing of all other groups."""
    total = torch.zeros(group.width, group.width, dtype=torch.float64, device=first[group.parts[0].name].device)
    for part in group.parts:
        if part.name.rpartition(".")[2] in ("running_mean", "running_var"):
            continue  # not weights
        tensor = {part.name: second[part.name]}
        other = reordered_tensors(tensor, groups, orders, (part.name, part.axis))[part.name]
        total += lines_of(first[part.name], part) @ lines_of(other, part).T
    return total
