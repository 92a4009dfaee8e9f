"""Git Re-Basin: two parents' neurons paired one to one, then averaged (Ainsworth et al. 2023)."""

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ..fusion.grouping import assigned, pairwise_costs
from ..fusion.results import FusionResult
from ..fusion.task import Takes
from .aligned import AlignmentPlan, Averager, Pairs


@dataclass(frozen=True)
class GitReBasin(Averager):
    """Pairs parent 1's neurons with parent 0's by their activations and takes the importance-weighted mean.

    Groups (one per residual stream, separate heads, BatchNorm included) come from `groups_of`. A fused neuron's
    incoming weights are (s0 w0 + s1 w1) / (s0 + s1). Nothing is random.

    Difference from the authors' code: the cost, squared distances of activations, is weighted by scores, as Luenam et al. do;
    with uniform scores it maximises the inner product, as theirs does. Of their three strategies this is "matching activations",
    the one that the paper compares with.
    """

    takes: ClassVar[Takes] = Takes(parents=(2, 2), equal_widths=True, target=True, importance=True)
    title: ClassVar[str] = "Git Re-Basin"

    @torch.no_grad()
    def run(self, plan: AlignmentPlan) -> FusionResult:
        """Pair, average, and correct the statistics on request."""
        plan = plan.with_scores()
        sums = plan.sums(after=True)
        maps: list[Pairs] = [{}, {}]

        def find(index: int) -> tuple[Tensor, dict[str, Any]]:
            group, (s0, s1) = plan.targets[index], plan.scores(index)
            line = order = torch.arange(group.width)
            if not group.fixed:
                costs = pairwise_costs(sums[index].zz, torch.cat([s0, s1]), group.width)
                order = assigned(costs.double())[1]
            shares = torch.stack([s0, s1[order.to(s1.device)]])
            shares = shares / shares.sum(0)
            for pairs, share, members in zip(maps, shares, (line, order), strict=True):
                U = nn.functional.one_hot(members.argsort(), group.width).to(share)
                pairs[group.name] = 2 * U * share, U
            return torch.cat([line, order.argsort()]), {"algorithm": "linear_sum_assignment"}

        reports = plan.assign(sums, find)
        plan.combine(maps)
        return plan.finish(self, reports, maps, reset_norms=self.repair)
