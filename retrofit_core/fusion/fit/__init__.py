"""Fits: how a level's weights are brought to its targets (paper sec. 4.2.2).

A fit is a class of `Fit` whose fields are its options, and one line in FITS.
"""

from .base import Fit, Fitting, Prepared
from .gradient import Gradient
from .mapping import Groups, mapped_weights, neurons_read
from .ridge import Ridge, missing_targets

FITS: dict[str, type[Fit]] = {"ridge": Ridge, "gradient": Gradient}

__all__ = [
    "FITS",
    "Fit",
    "Fitting",
    "Gradient",
    "Groups",
    "Prepared",
    "Ridge",
    "mapped_weights",
    "missing_targets",
    "neurons_read",
]
