"""The closed form for affine levels (paper sec. 4.2.2 a)."""

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal

import torch
from torch import Tensor

from ...system.settings import setting
from ..grouping import Grouping
from ..moments import (
    Moments,
    Rows,
    Solution,
    approximation_error,
    cross_error,
    product_dtype,
    ridge_strength,
    squared_misses,
    unavoidable_error,
)
from ..results import Fitted
from ..targets import Targets
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

    def products(self, weights: torch.dtype, device: torch.device) -> torch.dtype:
        """float32 if the ridge outweighs its rounding; see `product_dtype`."""
        return product_dtype(self.ridge, weights, device)


def closed_form_report(
    sums: Moments | Rows, groups: Grouping, s: Tensor, solution: Solution, missing: Targets, V: Tensor, adds: bool
) -> Fitted:
    """The errors of a layer's weights V (p, d) for what is missing.

    Args:
        s: (m,) scores.
        missing: the groups' targets, less the stream.
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
