"""Fits: how a level's weights are brought to its targets (paper sec. 4.2.2)."""

from .gradient import gradient
from .mapping import mapped_weights
from .ridge import ridge

FITS = {"ridge": ridge, "gradient": gradient}

__all__ = ["FITS", "gradient", "mapped_weights", "ridge"]
