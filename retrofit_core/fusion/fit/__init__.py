"""Fits of a level's weights to its targets (paper sec. 4.2.2): their options."""

from .base import Fit
from .gradient import Gradient
from .ridge import Ridge

FITS: dict[str, type[Fit]] = {"ridge": Ridge, "gradient": Gradient}
