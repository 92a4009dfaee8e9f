"""Fits of a level's weights to its targets (paper sec. 4.2.2).

A fit is a subclass of `Fit`, whose fields are its options, and one line in FITS.
"""

from .base import Fit
from .gradient import Gradient
from .ridge import Ridge

FITS: dict[str, type[Fit]] = {"ridge": Ridge, "gradient": Gradient}
