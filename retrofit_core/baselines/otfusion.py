"""OTFusion: neurons aligned by optimal transport, then averaged (Singh and Jaggi 2020).

Legend: parent k has n_k neurons in a group and the anchor d; T (n_k, d) makes each fused neuron from the parent's, U (n_k, d)
passes the parent's outgoing weights to fused neurons; mu (n_k,) and nu (d,) are marginals.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from ..fusion.alignment import Group, mapped
from ..fusion.grouping import KMeans, first_least
from ..fusion.moments import Moments
from ..fusion.results import FusionResult, LevelReport
from ..fusion.task import Task
from ..system.extras import require
from ..system.settings import setting
from .aligned import AlignmentPlan, Averager, Pairs, lines_of
from .watch import precision

Mode = Literal["activations", "weights"]
Solver = Literal["exact", "sinkhorn"]
#: Share of the largest cost that decides between plans which cost the same.
TIE = 2.0**-24
#: Costs up to this multiple of the regularisation need no log domain, which is ten times slower: exp(-200) = 1e-87.
MOST_EXPONENT = 200


def strength(regularisation: float | str, cost: Tensor) -> float:
    """Sinkhorn's regularisation in units of the cost.

    Raises:
        ValueError: not a positive number, or a multiple such as "0.05x" or "0.08max".
    """
    unit = {"max": cost.max, "x": cost.mean}
    text = str(regularisation)
    suffix = next((end for end in unit if text.endswith(end)), "")
    try:
        factor = float(text.removesuffix(suffix))
    except ValueError:
        factor = 0.0
    if not 0 < factor < float("inf"):
        raise ValueError(f"regularisation is {regularisation!r}. Use {STRENGTH}.")
    return factor * max(unit[suffix]().item(), 1e-12) if suffix else factor


#: Valid regularisations.
STRENGTH = "a positive number, a multiple of the mean cost such as '0.05x', or of the largest such as '0.08max'"


def why_no_strength(value: object) -> str:
    """What a regularisation may be, if `value` is invalid; see `Setting.check`."""
    if not isinstance(value, (str, Real)):
        return STRENGTH
    try:
        strength(value if isinstance(value, str) else float(value), torch.ones(1))
    except ValueError:
        return STRENGTH
    return ""


@dataclass(frozen=True)
class OTFusion(Averager):
    """Aligns every parent to an anchor by optimal transport, group by group, and averages.

    The anchor is the first parent with the fused widths: parent 0 unless there is a target. If no parent has them, the
    anchor's neurons are weighted k-means centres of all parents' neurons. Groups and their consistent use (biases,
    flattened convolutions, BatchNorm, one map per residual stream, separate heads) come from `groups_of`. Scores are
    the marginals; the seed is for the anchor's k-means.

    Differences from the authors' code: a residual stream has one map, found where it begins (weights) or at all its sums
    (activations), where theirs averages two; outgoing weights are divided by the source's marginal, which is the same
    for equal widths and uniform scores, and keeps the function if widths differ; class c stays class c (theirs
    transports the classes too); Sinkhorn's strength may be relative to the mean cost.
    """

    title: ClassVar[str] = "OTFusion"

    mode: Mode = setting(
        "activations",
        "compare neurons by their pre-activations on the fusion data (activations), or by their incoming weights and "
        "bias, with inputs already aligned (weights)",
    )
    solver: Solver = setting(
        "exact", "solver of the transport: exact (network simplex) or sinkhorn", title="Solver of the transport"
    )
    regularisation: float | str = setting(
        "0.05x",
        "Sinkhorn regularisation: a number, or a multiple of the mean cost (0.05x) or of the largest (0.05max)",
        check=why_no_strength,
        title="Sinkhorn regularisation",
    )

    def plan(self, task: Task) -> AlignmentPlan:
        """Also ask for the solver; see `Averager`."""
        require("ot", "baselines")
        return super().plan(task)

    @torch.no_grad()
    def run(self, plan: AlignmentPlan) -> FusionResult:
        """Align, average, and correct the statistics on request."""
        plan = plan.with_scores()
        sums = plan.sums()

        def gram(index: int, maps: Sequence[Pairs]) -> Tensor:
            if self.mode == "activations":
                return sums[index].zz
            return weight_gram(plan, index, maps)

        reports, maps = align_by_transport(plan, sums, gram, self)
        plan.combine(maps)
        return plan.finish(self, reports, maps, reset_norms=self.repair, soft=True)


def align_by_transport(
    plan: AlignmentPlan,
    sums: Sequence[Moments],
    gram: Callable[[int, Sequence[Pairs]], Tensor],
    value: OTFusion,
    joined: Callable[[int, Mapping[str, Tensor]], Tensor | None] | None = None,
) -> tuple[list[LevelReport], list[Pairs]]:
    """Find the plan from each parent's neurons to the anchor's, group by group.

    Args:
        sums: of each group, for the reports and the precision of the costs.
        gram: (group number, maps so far) -> (m, m) inner products of all parents' neurons, for the costs.
        value: the settings of the transport.
        joined: (group number, a parent's plans so far) -> its plan, or None to find it by transport.
    Returns:
        Reports, and for each parent T and U of every group.
    """
    anchor = anchor_of(plan)
    maps: list[Pairs] = [{} for _ in plan.parents]
    flows: list[dict[str, Tensor]] = [{} for _ in plan.parents]

    def find(index: int) -> tuple[Tensor, dict[str, Any]]:
        group, widths, scores = plan.targets[index], plan.widths(index), plan.scores(index)
        inner, s = gram(index, maps), torch.cat(scores)
        seed = plan.task.seed * 1_000_003 + index
        centres, nu = _centres(inner, s, widths, group.width, anchor, group.fixed, seed)
        algorithm = "emd" if value.solver == "exact" else "sinkhorn"
        facts: dict[str, Any] = {"algorithm": algorithm, "cost": 0.0}
        labels = []
        for k, part in enumerate(_parts(widths)):
            cost = _distances(inner, part, centres, precision(sums[index]))
            stays = k == anchor or group.fixed
            flow = joined and joined(index, flows[k])
            if flow is not None:
                facts["algorithm"] = "joined"
            elif stays:
                flow = torch.diag(nu)
            else:
                flow, converged = transport(cost, scores[k], nu, value.solver, value.regularisation)
                facts["converged"] = facts.get("converged", True) and converged
            flows[k][group.name], maps[k][group.name] = flow, _normalised(flow)
            labels.append(first_least(-flow, flow.max()))
            facts["cost"] += (flow * cost).sum().item()
        return torch.cat(labels), facts

    return plan.assign(sums, find), maps


def anchor_of(plan: AlignmentPlan) -> int | None:
    """The first parent with the fused widths, if any."""
    fused_widths = [group.width for group in plan.targets]
    return next((k for k, groups in enumerate(plan.groups) if [group.width for group in groups] == fused_widths), None)


def _parts(widths: Sequence[int]) -> list[slice]:
    """The slice of each parent's neurons among all."""
    ends = torch.tensor(widths).cumsum(0).tolist()
    return [slice(end - width, end) for end, width in zip(ends, widths, strict=True)]


def _centres(
    gram: Tensor, s: Tensor, widths: list[int], width: int, anchor: int | None, fixed: bool, seed: int
) -> tuple[Tensor, Tensor]:
    """(m, d) anchor's neurons as means of the parents' neurons, and their marginal nu."""
    if anchor is not None:
        part = _parts(widths)[anchor]
        return torch.eye(len(s), dtype=torch.float64, device=gram.device)[:, part], s[part] / s[part].sum()
    if fixed:
        eye = torch.eye(width, dtype=torch.float64, device=gram.device)
        return eye.repeat(len(widths), 1) / len(widths), torch.full_like(s[:width], 1 / width)
    groups = KMeans()(gram, s, tuple(widths), width, generator=torch.Generator().manual_seed(seed))
    totals = torch.zeros(width, dtype=s.dtype, device=s.device).index_add_(0, groups.labels.to(s.device), s)
    return groups.targets(s).A, totals / totals.sum()


def _distances(gram: Tensor, part: slice, centres: Tensor, rounding: float) -> Tensor:
    """(n_k, d) distances between a parent's neurons and the anchor's, from inner products; 0 where rounding may be all that
    differs (`watch.precision`)."""
    norms = gram.diagonal()[part]
    against = gram @ centres
    energies = (centres * against).sum(0)
    distances = norms[:, None] + energies - 2 * against[part]
    return distances.where(distances > rounding * (norms[:, None] + energies), 0.0).sqrt()


def weight_gram(plan: AlignmentPlan, index: int, maps: Sequence[Pairs], *, unit_rows: bool = False) -> Tensor:
    """(m, m) inner products of all parents' incoming weights, with inputs already aligned; of unit length if asked."""
    lines = []
    shapes = plan.nets[-1].weights
    for net, groups, pairs in zip(plan.nets[:-1], plan.groups, maps, strict=True):
        read = {part.name: net.weights[part.name] for part in groups[index].parts}
        # Some other groups on these axes are already mapped.
        axes = [(part.name, part.axis) for part in groups[index].parts]
        aligned = mapped(read, shapes, groups, plan.targets, pairs, skip=axes)
        lines.append(incoming(groups, index, aligned, groups[:index]))
    z = torch.cat(lines).double()
    z = z / z.norm(dim=1, keepdim=True).clamp_min(1e-12) if unit_rows else z
    return z @ z.T


def incoming(groups: Sequence[Group], index: int, state: dict[str, Tensor], done: Sequence[Group]) -> Tensor:
    """(width, columns) incoming weights of a group's neurons from groups in `done`, and biases."""
    group = groups[index]
    known = [*done, *(other for other in groups if other.fixed)]  # class c is class c
    ready = {(part.name, part.axis) for other in known for part in other.parts}
    open_ = {(part.name, part.axis) for other in groups for part in other.parts} - ready
    rows, makers = [], set()
    reading = group.fixed and all(part.role != "makes" for part in group.parts)  # the head is an embedding's weight
    for part in group.parts:
        others = {(name, axis) for name, axis in open_ if name == part.name and axis != part.axis}
        tensor = state[part.name]
        if (part.role == "reads" and not reading) or others or (part.role == "holds" and tensor.ndim == 1):
            continue
        makers.add(part.name.rpartition(".")[0])
        rows.append(lines_of(tensor, part))
    for part in group.parts:
        module, _, name = part.name.rpartition(".")
        if part.role == "holds" and module in makers and name.endswith("bias"):
            rows.append(lines_of(state[part.name], part))
    return torch.cat(rows, 1)


def transport(cost: Tensor, mu: Tensor, nu: Tensor, solver: Solver, regularisation: float | str) -> tuple[Tensor, bool]:
    """(n, d) optimal plan between two marginals, by POT; and whether the solver converged.

    Where several plans are optimal (silent or equal neurons), the exact solver's goes to equal numbers first, then to near ones.
    """
    import ot  # here, because it takes a second

    a, b, M = (tensor.double().cpu().numpy() for tensor in (mu / mu.sum(), nu / nu.sum(), cost))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # convergence goes into the report
        if solver == "exact":
            away = np.subtract.outer(np.arange(len(a)), np.arange(len(b)))
            among_equals = TIE * M.max() * ((away != 0) + np.square(away / max(M.shape)))
            flow, log = ot.emd(a, b, M + among_equals, numItermax=10_000_000, log=True)
            converged = log["warning"] is None
        else:
            reg = strength(regularisation, cost)
            method = "sinkhorn" if M.max() <= MOST_EXPONENT * reg else "sinkhorn_log"
            flow, log = ot.sinkhorn(a, b, M, reg, method=method, numItermax=2000, stopThr=1e-9, log=True)
            converged = bool(log["err"] and log["err"][-1] <= 1e-6)
    return torch.from_numpy(flow).to(cost.device), converged


def _normalised(plan: Tensor) -> tuple[Tensor, Tensor]:
    """T and U: the plan divided by its sums over the source's neurons (columns), so that constant functions stay constant, and
    over the target's (rows)."""
    return plan / plan.sum(0).clamp_min(1e-300), plan / plan.sum(1, keepdim=True).clamp_min(1e-300)
