"""The closed form for affine levels (paper sec. 4.2.2 a)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from ...networks.levels import (
    Activated,
    Heads,
    Level,
    Lookup,
    Tied,
    compose,
    is_branched,
)
from ...system.refusals import Refusal
from ...system.settings import setting
from ..grouping import Grouping
from ..joint_spaces import Levels
from ..mapping import check_mapped, is_mapped_chain, parents_weights
from ..moments import (
    Moments,
    MomentSums,
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
from ..results import Fitted
from ..targets import Targets
from ..walk import Step
from .activated import fit_activated
from .base import Fit

#: The ridge "auto" of networks with levels inside blocks, and of those with attention; measured, docs/defaults.md.
IN_BLOCKS, WITH_ATTENTIONS = "0.03x", "0.003x"
#: Targets with a smaller deviation, relative to the largest, are not rescaled.
DEAD = 1e-6


def why_no_ridge(value: object) -> str:
    """Allowed ridges, if the value is none; see `Setting.check`."""
    try:
        ridge_strength(value, torch.ones(()))  # type: ignore[arg-type]
    except (ValueError, TypeError):
        return "'auto', a number from 0, or a multiple of the mean input energy such as '0.1x'"
    return ""


@dataclass(frozen=True)
class Ridge(Fit):
    """Ridge regression in closed form, for levels that are affine in their weights.

    Minimises sum_k S_k |x v_k - T_k|^2 + lambda x the penalty of docs/method.md; equals numpy.linalg.lstsq on the
    targets at lambda = 0 and full rank. The scores determine only the targets: per output they cancel.
    """

    needs_inputs: ClassVar[bool] = True
    levels: ClassVar[str] = "layers"

    ridge: float | str = setting(
        "auto",
        "strength of the ridge: auto, a multiple of the mean input energy such as 0.1x, or lambda on sums as in the paper",
        check=why_no_ridge,
        title="Ridge strength",
    )
    toward: Literal["auto", "zero", "parents"] = setting(
        "auto",
        "where the ridge pulls the weights: to zero, or to the parents' own weights; auto: to these in plain chains of layers",
        title="Ridge pulls towards",
    )
    project: bool = setting(
        True,
        "group neurons by the part of their outputs that the fused inputs can reproduce; if false, by their raw "
        "outputs",
        title="Group by what can be fitted",
    )
    refit: bool = setting(
        True,
        "fit each level; if false, a group gets the mean of the parents' own weights",
        title="Fit each level",
    )
    active: bool = setting(
        False,
        "group neurons by their outputs after the activation function; only in plain chains of layers",
        title="Group by activations",
    )
    repair: bool = setting(
        False,
        "scale targets to the variance of their neurons (REPAIR), since means vary less; not in blocks",
        title="Keep the spread (REPAIR)",
    )

    @property
    def needs_parents_weights(self) -> bool:
        """Whether the parents' weights must be mapped to the fused inputs; "auto" maps them only where it can."""
        return self.toward == "parents" or not self.refit

    def check(self, levels: Levels, example: Tensor) -> None:
        """Check that all levels, and the parents' if needed, are affine, and readable if `active`."""
        for index, level in enumerate(levels.fused):
            if not level.form.closed:
                raise ValueError(
                    f"level {level.name!r} is not affine in its weights: {level.why_not_affine}. Use fit='gradient' "
                    "(HF-Gradient, KF-Gradient); if you named boundaries, leave them out: then every layer ends a "
                    "level."
                )
            reasons = [parent[index].why_not_affine for parent in levels.parents if not parent[index].form.closed]
            if self.needs_parents_weights and reasons:
                asked, cure = (
                    ("toward='parents'", ("toward", "zero")) if self.refit else ("refit=False", ("refit", True))
                )
                raise Refusal(
                    f"level {level.name!r}: {asked} needs affine levels in every parent, but in one {reasons[0]}. "
                    f"Use {cure[0]}={cure[1]!r}.",
                    cure,
                )
        if self.needs_parents_weights:
            check_mapped(levels)
        if self.active:
            _check_reading(levels, example)

    def products(self, weights: torch.dtype, device: torch.device) -> torch.dtype:
        """float32 if the ridge outweighs its rounding; see `product_dtype`."""
        return product_dtype(self.ridge, weights, device)

    def _strength(self, step: Step) -> float | str:
        if self.ridge == "auto" and is_branched(step.walk.fused):
            attends = any(isinstance(level.blocks, Heads) for level in step.walk.fused)
            return WITH_ATTENTIONS if attends else IN_BLOCKS
        return self.ridge

    def solve(self, step: Step, sums: Moments | Rows) -> Solution:
        """Solve for every parent neuron; grouping uses the Gram matrix of the solution, raw outputs or activations."""
        level, m = step.level, sum(step.widths)
        if isinstance(level.form, (Lookup, Tied)):
            return solve_tables(step, sums)
        with step.walk.stopwatch.phase("solve"):
            pulls = self.toward == "parents" or (self.toward == "auto" and is_mapped_chain(step.walk.levels))
            W0 = _parents_weights(step) if pulls or not self.refit else None
            solution = solve(sums, self._strength(step), toward=W0 if pulls else None)
            if W0 is not None and not self.refit:  # means of the parents' weights in place of fitted ones
                solution = replace(solution, weights=lambda A: W0 @ A, missed=partial(squared_misses, sums))
        gram = solution.gram if self.project else sums.zz
        if self.active and not level.head:
            gram = _activity(step)
        if self.repair and not (level.head or level.form.adds or isinstance(level.blocks, Heads)):
            solution = _as_varied(sums, solution)
        return replace(solution, gram=gram[:m, :m])

    def fit(self, step: Step, sums: Moments | Rows, solution: Solution, groups: Grouping, s: Tensor) -> Fitted:
        """Write the solution for the targets into the level."""
        if isinstance(step.level.form, (Lookup, Tied)):
            return fit_tables(step, solution, groups.targets(s))
        if isinstance(step.level.form, Activated):
            return fit_activated(step, sums, solution, groups.targets(s))
        level, clock = step.level, step.walk.stopwatch
        missing = missing_targets(level, groups.targets(s))
        with clock.phase("solve"):
            V = solution.weights(missing.A)
            level.write(V)
        with clock.phase("report"):
            return closed_form_report(sums, groups, s, solution, missing, V, bool(level.form.adds))


def _parents_weights(step: Step) -> Tensor:
    """W0 (p, m), then zeros (p, d) for the stream, which has no weights, and W0 again where the sums hold the outputs of the
    parents' layers."""
    W0, form = parents_weights(step), step.level.form
    stream = W0.new_zeros(len(W0), form.adds * step.level.width)
    return torch.cat([W0, stream, W0[:, : W0.shape[1] * isinstance(form, Activated)]], 1)


def missing_targets(level: Level, targets: Targets) -> Targets:
    """Targets of the level's layers, as weights of the parents' neurons and, if the layers add to a stream h, of its neurons,
    which follow the parents': z A - h."""
    stream = -torch.eye(level.width, dtype=targets.A.dtype, device=targets.A.device)[: level.form.adds * level.width]
    return replace(targets, A=torch.cat([targets.A, stream]))


def closed_form_report(
    sums: Moments | Rows, groups: Grouping, s: Tensor, solution: Solution, missing: Targets, V: Tensor, adds: bool
) -> Fitted:
    """The errors of a layer's weights V (p, d) for what is missing.

    Args:
        s: (m,) scores.
        missing: the groups' targets, less the stream, see `missing_targets`.
        adds: whether the layer adds to a stream.
    """
    labels, missed = groups.labels, solution.missed(missing.A, V)
    untouched = approximation_error(sums, missing, torch.zeros_like(V)) if adds else float("nan")
    if groups.reading is not None:  # heads: compare each neuron with its reconstruction from the targets
        missing, V = Targets(missing.A @ groups.reading, s), V @ groups.reading
        labels, missed = torch.arange(len(s), device=s.device), None
    return Fitted(
        sums.form,
        approximation_error(sums, missing, V, missed),
        unavoidable_error(sums.minus(labels), s),
        solution.strength,
        cross_error(sums, s, labels, missing, V),
        untouched,
    )


def _read(levels: Sequence[Level], index: int) -> Tensor | None:
    """(width, places) where the next level of a chain, a single layer, reads each of a level's neurons on its input axis; None if
    it is another kind of level, or does not read them one by one."""
    level, reader = levels[index], levels[index + 1]
    read = reader.reads[0] if len(reader.reads) == 1 else None
    alone = len(level.alive) == 1 and not reader.form.adds and not reader.form.parts
    return read.index if alone and read is not None and read.maker == index else None


def _rows_read(reader: Level, places: Tensor, boundary: Tensor) -> Tensor:
    """(N, width) what a level reads of each of the neurons before it, at their `_read` places."""
    x = reader.form.read(boundary)[0][0].movedim(-1 if isinstance(reader.affine, nn.Linear) else 1, -1)
    return x[..., places].mT.flatten(0, -2)


@torch.no_grad()
def _check_reading(levels: Levels, example: Tensor) -> None:
    """Check that in every parent of a chain, the next level reads each neuron at the same places, in one order: all read the same
    of a boundary on which all neurons are alike."""
    boundaries: list[Any] = [example] * len(levels.parents)
    for index, level in enumerate(levels.fused[:-1]):
        seen: list[Tensor] = []
        for k, parent in enumerate(levels.parents):
            boundaries[k] = compose([parent[index]], boundaries[k])
            if (places := _read(parent, index)) is not None:
                one = boundaries[k].select(level.axis, 0)
                alike = torch.randn(one.shape, generator=torch.Generator().manual_seed(0)).to(one).unsqueeze(level.axis)
                whole = alike.expand_as(boundaries[k]).contiguous()
                seen.append(_rows_read(parent[index + 1], places.to(whole.device), whole))
        if len(seen) < len(levels.parents) or any(
            len(rows) != len(seen[0]) or not torch.allclose(rows, seen[0][:, :1].expand_as(rows), 1e-4, 1e-5)
            for rows in seen
        ):
            raise ValueError(
                f"level {level.name!r}: active=True compares neurons by what the next layer reads of them, which is known "
                "only for chains of layers that read every neuron at the same places. Leave it out."
            )


@torch.no_grad()
def _activity(step: Step) -> Tensor:
    """(m, m) centred inner products of what the next level of a chain reads of each of the parents' neurons, after activation
    functions and pooling."""
    sums, readers = MomentSums(sum(step.widths), device=step.device), list[tuple[Level, Tensor]]()
    for levels in step.walk.parents:
        places = _read(levels, step.index)
        assert places is not None  # see `_check_reading`
        readers.append((levels[step.index + 1], places.to(step.device)))
    for _, outputs in step.walk.batches(step.index):
        with step.walk.stopwatch.phase("moments"):
            read = (_rows_read(*reader, z) for reader, z in zip(readers, outputs, strict=True))
            sums.add(torch.cat(list(read), 1))
    total = sums.finish()
    return total.zz - torch.outer(total.sz, total.sz) / total.rows


def _as_varied(sums: Moments | Rows, solution: Solution) -> Solution:
    """The solution for targets rescaled to the mean standard deviation of their neurons, about the mean, or about zero without
    a bias.

    The mean of neurons that agree only in part varies less than they do, so the activation function after it passes on less
    (Jordan et al. 2023). The fit is linear in its targets, so its columns are rescaled.
    """
    means = sums.sz / sums.rows if sums.bias else torch.zeros_like(sums.sz)
    deviations = (sums.zz.diagonal() / sums.rows - means**2).clamp_min(0).sqrt()

    def weights(A: Tensor) -> Tensor:
        centre = means @ A
        spread = ((A * (sums.zz @ A)).sum(0) / sums.rows - centre**2).clamp_min(0).sqrt()
        alive = spread > DEAD * deviations.max()
        factor = torch.where(alive, (deviations @ A) / spread.clamp_min(1e-300), 1.0)
        V = solution.weights(A) * factor
        if sums.bias:
            V[-1] += (1 - factor) * centre
        return V

    return replace(solution, weights=weights, missed=partial(squared_misses, sums))


# --- embeddings, and what is tied to them -------------------------------------------------------------------------------

# A table has a row for each token, so the groups' means of the parents' rows are the targets of every token, whether it occurs in
# the fusion data or not. A layer tied to a table shares these means; its bias gets means likewise.


def solve_tables(step: Step, sums: Moments | Rows) -> Solution:
    """The parents' rows; nothing is solved."""
    form = step.level.form
    assert isinstance(form, (Lookup, Tied))
    parents = [parent.form.weights() for parent in step.parents if isinstance(parent.form, (Lookup, Tied))]
    tables = torch.cat(parents, 1).split(form.sizes)
    return Solution(sums.zz, 0.0, lambda A: torch.cat([table @ A if len(table) else A[:0] for table in tables]))


def fit_tables(step: Step, solution: Solution, targets: Targets) -> Fitted:
    """Write the means into the tables. The error is that of rounding, plus the stream's own error for rows that are added to a
    stream."""
    form = step.level.form
    assert isinstance(form, (Lookup, Tied))
    with step.walk.stopwatch.phase("solve"):
        form.write(solution.weights(targets.A))
    error = torch.zeros_like(targets.totals)
    for fitted, z in step.fitted():
        error += (fitted.double() - z.double() @ targets.A).square().sum(0)
    missed = (targets.totals @ error).item()
    return Fitted("lookup", missed, float("nan") if form.adds else 0.0, 0.0)
