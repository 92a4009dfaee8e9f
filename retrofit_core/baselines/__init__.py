"""Methods that the paper compares with; one file each. All take what `fuse` takes, as far as they know it."""

from .averaging import Averaging, Ensembling, average
from .distillation import distillation
from .linear_probe import linear_probe
from .otfusion import otfusion
from .pleas import pleas
from .rebasin import rebasin
from .regmean import RegMean
from .repair import repair
from .transformer import transformer_otfusion
from .zipit import zipit

__all__ = [
    "Averaging",
    "Ensembling",
    "RegMean",
    "average",
    "distillation",
    "linear_probe",
    "otfusion",
    "pleas",
    "rebasin",
    "repair",
    "transformer_otfusion",
    "zipit",
]
