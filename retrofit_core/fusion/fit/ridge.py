"""The closed form for affine levels (paper sec. 4.2.2 a)."""

from dataclasses import dataclass
from typing import Literal

import torch

from ...system.settings import setting
from ..moments import product_dtype, ridge_strength
from .base import Fit

#: The ridge "auto" of networks with levels inside blocks, and of those with attention; measured, docs/defaults.md.
IN_BLOCKS, WITH_ATTENTIONS = "0.03x", "0.003x"


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
