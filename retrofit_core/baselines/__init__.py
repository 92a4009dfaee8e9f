"""Methods that the paper compares with; one file each. All take what `fuse` takes, as far as they know it."""

from .averaging import Averaging, Ensembling, average
from .distillation import Distillation
from .linear_probe import LinearProbe
from .otfusion import otfusion
from .pleas import pleas
from .rebasin import rebasin
from .regmean import RegMean
from .repair import repair
from .transformer import transformer_otfusion
from .zipit import zipit

__all__ = [
    "Averaging",
    "Distillation",
    "Ensembling",
    "LinearProbe",
    "RegMean",
    "average",
    "otfusion",
    "pleas",
    "rebasin",
    "repair",
    "transformer_otfusion",
    "zipit",
]
