"""Choices before any sum: the strength of the ridge, the precision of products, and the primal or dual form."""

import math
from typing import TypeVar

import torch
from torch import Tensor

from ...system import device as devices

#: A number, or one for each part of a grouped convolution.
Energy = TypeVar("Energy", float, Tensor)
AUTO_STRENGTH = {"zero": 1e-2, "parents": 1e-1}
"""Ridge strengths relative to the mean of the diagonal of xx; measured, docs/defaults.md."""
#: A relative ridge this many times the products' rounding error makes it harmless: 1e-3 for float32.
_OUTWEIGHS = 8000


def ridge_strength(ridge: float | str, diagonal: Energy, toward: str) -> Energy | float:
    """lambda of a level, in units of a sum over rows; zero is always a float.

    Args:
        ridge: a number (the paper's convention); "0.1x" for 0.1 times the mean diagonal of xx; "auto" for the relative
            strength in AUTO_STRENGTH.
        diagonal: mean of the diagonal of xx over the weight columns.
        toward: "zero" or "parents".
    Raises:
        ValueError: another ridge, or a negative one.
    """
    try:
        relative = isinstance(ridge, str) and ridge.endswith("x")
        factor = AUTO_STRENGTH[toward] if ridge == "auto" else float(ridge[:-1] if relative else ridge)  # type: ignore
    except ValueError:
        factor = math.nan
    if not 0 <= factor < math.inf:
        raise ValueError(
            f"ridge must be 'auto', a number from 0, or a multiple of the mean input energy such as '0.1x'. Found {ridge!r}."
        )
    return factor * diagonal if factor and (ridge == "auto" or relative) else factor


def product_dtype(ridge: float | str | None, weights: torch.dtype, device: torch.device) -> torch.dtype:
    """Precision of the products whose sums are the moments.

    float64 for float64 networks, and where it is as fast. Else, for float32 networks, float32 if the ridge outweighs its
    rounding errors or is None, at twice the speed; else the device's `sum_dtype`. Sums are float64 anyway.
    """
    if weights == torch.float64 or ridge is None:
        return weights
    if devices.float64_is_as_fast(device):
        return torch.float64
    relative = ridge if isinstance(ridge, str) else "0x"
    strength = min(AUTO_STRENGTH.values()) if relative == "auto" else float(relative[:-1])
    needed = _OUTWEIGHS * torch.finfo(torch.float32).eps
    return torch.float32 if strength >= needed else devices.sum_dtype(device)


def dual_is_cheaper(rows: int, p: int, m: int) -> bool:
    """Compare the floating-point operations of both forms (docs/method.md)."""
    primal = rows * p * p + 2 * rows * p * m + p**3 / 3 + 2 * p * p * m
    dual = 2 * rows * rows * p + rows**3 / 3 + 2 * rows * rows * m + 4 * rows * p * m + 2 * p * m * m
    return rows < p and dual < primal
