"""Fits: how a level's weights are brought to its targets (paper sec. 4.2.2).

A fit is a class of `Fit` whose fields are its options, and one line in FITS.
"""

from .base import Fit, Fitting, Prepared
from .gradient import Gradient
from .mapping import Groups, is_channel_major, mapped_weights
from .ridge import Ridge, write_weights

FITS: dict[str, type[Fit]] = {"ridge": Ridge, "gradient": Gradient}

__all__ = [
    "FITS",
    "Fit",
    "Fitting",
    "Gradient",
    "Groups",
    "Prepared",
    "Ridge",
    "is_channel_major",
    "mapped_weights",
    "write_weights",
]
