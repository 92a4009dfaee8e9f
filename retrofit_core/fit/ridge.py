"""The closed form for affine levels (paper sec. 4.2.2 a)."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from ..grouping import Grouping
from ..levels import Level
from ..moments import (
    Moments,
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
from ..settings import setting
from ..targets import Targets
from .base import Fit, Fitting, Prepared


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

    @property
    def needs_parents_weights(self) -> bool:
        """Whether the parents' own weights are mapped onto the fused inputs."""
        return self.toward == "parents" or not self.refit

    def check(self, fused: Sequence[Level], parents: Sequence[Sequence[Level]]) -> None:
        """Refuse levels that are not affine; towards the parents, also theirs."""
        for level, *others in zip(fused, *parents, strict=True):
            if level.affine is None:
                raise ValueError(
                    f"level {level.name!r} is not affine in its weights: {level.why_not_affine}. Use fit='gradient' "
                    "(HF-Gradient, KF-Gradient), or cut the model with boundaries='preactivations'."
                )
            reasons = [other.why_not_affine for other in others if other.affine is None]
            if self.needs_parents_weights and reasons:
                asked, instead = ("toward='parents'", "toward='zero'") if self.refit else ("refit=False", "refit=True")
                raise ValueError(
                    f"level {level.name!r}: {asked} needs affine levels in every parent, but in one {reasons[0]}. "
                    f"Use {instead}."
                )

    def products(self, weights: torch.dtype, device: torch.device) -> torch.dtype:
        """float32 where the ridge outweighs their rounding; see `product_dtype`."""
        return product_dtype(self.ridge, weights, device)

    def prepare(self, fitting: Fitting, sums: Moments | Rows) -> Prepared:
        """Solve for every parent neuron; grouping happens in the solution's Gram matrix, or in that of the raw outputs."""
        with fitting.clock.phase("solve"):
            W0 = fitting.parents_weights() if self.needs_parents_weights else None
            solution = solve(sums, self.ridge, toward=W0 if self.toward == "parents" else None)
            if W0 is not None and not self.refit:
                solution = _without_refit(sums, solution, W0)
        return Prepared(solution.gram if self.project else sums.zz, partial(_fit, fitting, sums, solution))


def _without_refit(sums: Moments | Rows, solution: Solution, W0: Tensor) -> Solution:
    """The solution's groups, with the groups' means of the parents' weights W0 (p, m) in place of fitted weights."""
    return dataclasses.replace(solution, weights=lambda A: W0 @ A, missed=partial(squared_misses, sums))


def _fit(
    fitting: Fitting, sums: Moments | Rows, solution: Solution, groups: Grouping, targets: Targets, s: Tensor
) -> dict[str, Any]:
    with fitting.clock.phase("solve"):
        V = solution.weights(targets.A)
        write_weights(fitting.step.level, V)
    with fitting.clock.phase("report"):
        return {
            "approximation_error": approximation_error(sums, targets, V, solution.missed(targets.A, V)),
            "cross_error": cross_error(sums, s, groups.labels, targets, V),
            "unavoidable_error": unavoidable_error(sums, s),
            "ridge": solution.strength,
            "form": "dual" if isinstance(sums, Rows) else "primal",
        }


@torch.no_grad()
def write_weights(level: Level, V: Tensor) -> None:
    """Copy V (p, d) into the level's affine layer, the last row into its bias where it has one."""
    affine = level.affine
    assert affine is not None
    weights = V
    if affine.bias is not None:
        weights = V[:-1]
        affine.bias.copy_(V[-1])
    affine.weight.copy_(weights.T.reshape(affine.weight.shape))
