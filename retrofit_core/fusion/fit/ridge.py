"""The closed form for affine levels (paper sec. 4.2.2 a)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from ...networks.levels import Level, compose, places_read, reads_one_by_one
from ...system.settings import setting
from ..grouping import Grouping
from ..moments import (
    Moments,
    PartMoments,
    Rows,
    Solution,
    approximation_error,
    cross_error,
    product_dtype,
    ridge_strength,
    solve,
    squared_misses,
    unavoidable_error,
)
from ..targets import Targets
from .base import Fit, Fitting, Prepared, check_mapped
from .repair import repaired

#: The ridge "auto" of networks with levels inside of blocks, and of those with attentions; measured, docs/defaults.md.
IN_BLOCKS, WITH_ATTENTIONS = "0.03x", "0.003x"
#: A target that varies by less, as a share of the largest deviation, is not made to vary more.
DEAD = 1e-6


def why_no_ridge(value: Any) -> str:
    """What a ridge may be, for anything else; see `Setting.check`."""
    try:
        ridge_strength(value, 1.0, "zero")
    except (ValueError, TypeError):
        return "'auto', a number from 0, or a multiple of the mean input energy such as '0.1x'"
    return ""


@dataclass(frozen=True)
class Ridge(Fit):
    """Least squares in closed form, with a ridge; for levels that are affine in their weights.

    Minimises sum_k S_k |x v_k - T_k|^2 + lambda x the penalty of docs/method.md; equals numpy.linalg.lstsq on the
    targets at lambda = 0 and full rank. The scores decide the targets only: per output they cancel.
    """

    needs_affine: ClassVar[bool] = True
    needs_inputs: ClassVar[bool] = True
    levels: ClassVar[str] = "layers"

    ridge: float | str = setting(
        "auto",
        "auto, a multiple of the mean input energy such as 0.1x, or lambda on sums as in the paper",
        check=why_no_ridge,
    )
    toward: Literal["zero", "parents"] = setting("zero", "where the ridge pulls: zero, or parents (their own weights)")
    project: bool = setting(
        True, "neurons are grouped by what the fused inputs can tell of them; false: by raw outputs"
    )
    refit: bool = setting(True, "false: each group's mean of the parents' own weights, without any fit")
    active: bool = setting(
        False, "neurons are grouped by what they hand on behind the activation function; of chains of layers only"
    )
    repair: bool = setting(
        False, "targets vary as much as the neurons they stand for (REPAIR), for means vary less; not in blocks"
    )

    @property
    def needs_parents_weights(self) -> bool:
        """Whether the parents' own weights are mapped onto the fused inputs."""
        return self.toward == "parents" or not self.refit

    def check(self, fused: Sequence[Level], parents: Sequence[Sequence[Level]], example: Tensor) -> None:
        """Refuse levels that are not affine; towards the parents, also theirs."""
        for index, (level, *others) in enumerate(zip(fused, *parents, strict=True)):
            if level.affine is None and not level.tables:
                raise ValueError(
                    f"level {level.name!r} is not affine in its weights: {level.why_not_affine}. Use fit='gradient' "
                    "(HF-Gradient, KF-Gradient); if you named boundaries, leave them out: then every layer ends a level."
                )
            if self.active and not level.head:
                _check_reading(
                    level.name, [net[index + 1] for net in parents], [net[: index + 1] for net in parents], example
                )
            reasons = [other.why_not_affine for other in others if other.affine is None and not other.tables]
            if self.needs_parents_weights and reasons:
                asked, instead = ("toward='parents'", "toward='zero'") if self.refit else ("refit=False", "refit=True")
                raise ValueError(
                    f"level {level.name!r}: {asked} needs affine levels in every parent, but in one {reasons[0]}. "
                    f"Use {instead}."
                )
        if self.needs_parents_weights:
            check_mapped(fused, parents, example)

    def products(self, weights: torch.dtype, device: torch.device) -> torch.dtype:
        """float32 where the ridge outweighs their rounding; see `product_dtype`."""
        return product_dtype(self.ridge, weights, device)

    def _strength(self, fitting: Fitting) -> float | str:
        if self.ridge == "auto" and fitting.branched:
            return WITH_ATTENTIONS if fitting.attends else IN_BLOCKS
        return self.ridge

    def prepare(self, fitting: Fitting, sums: Moments | Rows) -> Prepared:
        """Solve for every parent neuron; grouping happens in the solution's Gram matrix, or in that of the raw outputs."""
        level, m = fitting.step.level, sum(fitting.step.widths)
        if level.tables:
            return Prepared(sums.zz, partial(_look_up, fitting))
        with fitting.clock.phase("solve"):
            W0 = fitting.parents_weights() if self.needs_parents_weights else None
            if W0 is not None and level.adds:  # no weights make the stream
                sides = [W0, W0.new_zeros(len(W0), level.width), W0]
                W0 = torch.cat(sides if level.function is not None else sides[:2], 1)
            solution = solve(sums, self._strength(fitting), toward=W0 if self.toward == "parents" else None)
            if W0 is not None and not self.refit:
                solution = _without_refit(sums, solution, W0)
        gram = solution.gram if self.project else sums.zz
        if self.active and not level.head:
            gram = fitting.step.activity()
        if self.repair and not (level.head or level.adds or level.heads):
            solution = _as_varied(sums, solution)
        return Prepared(gram[:m, :m], partial(_fit, fitting, sums, solution))


def _check_reading(name: str, readers: Sequence[Level], before: Sequence[Sequence[Level]], example: Tensor) -> None:
    """Refuse networks in which it is not known what the next level's layers read of each of a level's neurons.

    Raises:
        ValueError: names the level.
    """
    seen = []
    for reader, levels in zip(readers, before, strict=True):
        boundary = compose(levels, example)
        one = isinstance(boundary, Tensor) and reads_one_by_one(reader, levels[-1].width)
        seen.append(places_read(reader, levels[-1].axis, boundary) if one else None)
    orders = [found[1] for found in seen if found is not None]
    if len(orders) < len(seen) or any(
        order.shape != orders[0].shape or not torch.allclose(order, orders[0], rtol=1e-4, atol=1e-5) for order in orders
    ):
        raise ValueError(
            f"level {name!r}: active=True compares neurons by what the next layer reads of them, which is known of chains of "
            "layers only, each of which reads every neuron at the same places. Leave it out."
        )


def _without_refit(sums: Moments | Rows, solution: Solution, W0: Tensor) -> Solution:
    """The solution's groups, with the groups' means of the parents' weights W0 (p, m) in place of fitted weights."""
    return replace(solution, weights=lambda A: W0 @ A, missed=partial(squared_misses, sums))


def _as_varied(sums: Moments | Rows, solution: Solution) -> Solution:
    """The solution for targets that have the mean deviation of the neurons they stand for, about their own mean; without a bias
    about zero.

    A mean of neurons that agree only in part varies less than they do, and the activation function behind it passes less on
    (Jordan et al. 2023). The fit is linear in its targets, so its columns are rescaled.
    """
    means = sums.sz / sums.rows if sums.bias else torch.zeros_like(sums.sz)
    deviations = (sums.zz.diagonal() / sums.rows - means**2).clamp_min(0).sqrt()

    def weights(A: Tensor) -> Tensor:
        centre = means @ A
        own = ((A * (sums.zz @ A)).sum(0) / sums.rows - centre**2).clamp_min(0).sqrt()
        alive = own > DEAD * deviations.max()
        factor = torch.where(alive, (deviations @ A) / own.clamp_min(1e-300), 1.0)
        V = solution.weights(A) * factor
        if sums.bias:
            V[-1] += (1 - factor) * centre
        return V

    return replace(solution, weights=weights, missed=partial(squared_misses, sums))


def _fit(
    fitting: Fitting, sums: Moments | Rows, solution: Solution, groups: Grouping, targets: Targets, s: Tensor
) -> dict[str, Any]:
    level = fitting.step.level
    if level.function is not None:
        return _fit_function(fitting, sums, solution, targets)
    missing = missing_targets(level, targets)
    with fitting.clock.phase("solve"):
        V = solution.weights(missing.A)
        level.write(V)
    with fitting.clock.phase("report"):
        labels, missed = groups.labels, solution.missed(missing.A, V)
        facts = {"missing_error": approximation_error(sums, missing, torch.zeros_like(V))} if level.adds else {}
        if groups.reading is not None:  # heads: what the targets, and what is fitted to them, say of each neuron
            missing, V = Targets(missing.A @ groups.reading, s), V @ groups.reading
            labels, missed = torch.arange(len(s), device=s.device), None
        return {
            "approximation_error": approximation_error(sums, missing, V, missed),
            "cross_error": cross_error(sums, s, labels, missing, V),
            "unavoidable_error": unavoidable_error(_beyond_stream(level, sums, labels), s),
            "ridge": solution.strength,
            "form": "dual" if isinstance(sums, Rows) else "primal",
            **facts,
        }


def _fit_function(fitting: Fitting, sums: Moments | Rows, solution: Solution, targets: Targets) -> dict[str, Any]:
    """A level whose outputs go through a function before they are added to a stream: first fitted to what the parents' layers
    make, then to what is missing behind the function."""
    level, m = fitting.step.level, len(targets.A)
    with fitting.clock.phase("solve"):
        first = torch.cat([targets.A.new_zeros(m + level.width, level.width), targets.A])
        V, missed, lacking = repaired(fitting.step, sums, solution.weights(first), targets.A, solution.strength)
        level.write(V)
    return {
        "approximation_error": (targets.totals @ missed).item(),
        "missing_error": (targets.totals @ lacking).item(),
        "unavoidable_error": float("nan"),
        "ridge": solution.strength,
        "form": "dual" if isinstance(sums, Rows) else "primal",
    }


def _look_up(fitting: Fitting, groups: Grouping, targets: Targets, s: Tensor) -> dict[str, Any]:
    """Embeddings: a row for each token, so the groups' means of the parents' rows are the targets themselves, of every token,
    whether it occurs in the fusion data or not."""
    step, level, error = fitting.step, fitting.step.level, torch.zeros_like(targets.totals)
    with fitting.clock.phase("solve"):
        for number, table in enumerate(level.tables):
            side_by_side = torch.cat([parent.tables[number].weight.double() for parent in step.parents], 1)
            table.weight.copy_(side_by_side @ targets.A)
    for (
        fitted,
        z,
    ) in step.fitted():  # what rounding leaves; and, of rows that are added to a stream, the stream's own error
        error += (fitted.double() - z.double() @ targets.A).square().sum(0)
    error = step.walk.pooled(error)
    return {
        "approximation_error": (targets.totals @ error).item(),
        "unavoidable_error": 0.0 if not level.adds else float("nan"),
        "ridge": 0.0,
        "form": "lookup",
    }


def missing_targets(level: Level, targets: Targets) -> Targets:
    """What the level's layers are fitted to, as a weighting of the parents' neurons and, where their outputs are added to a
    stream, of that stream: z A - h, for its neurons stand behind the parents'."""
    if not level.adds:
        return targets
    return Targets(torch.cat([targets.A, -torch.eye(level.width).to(targets.A)]), targets.totals)


def _beyond_stream(level: Level, sums: Moments | Rows, labels: Tensor) -> Moments | Rows:
    """The sums with each parent neuron's z - h in the place of z, h being the stream's neuron of its group."""
    if not level.adds:
        return sums
    if isinstance(sums, PartMoments):
        return sums.minus(labels)
    m = len(labels)
    B = torch.eye(m + level.width, m).to(sums.zz)
    B[m + labels, torch.arange(m, device=labels.device)] = -1
    if isinstance(sums, Rows):
        return replace(sums, z=sums.z @ B)
    assert sums.xz is not None
    return replace(sums, zz=B.T @ sums.zz @ B, sz=sums.sz @ B, xz=sums.xz @ B)
