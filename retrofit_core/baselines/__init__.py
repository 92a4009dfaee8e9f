"""Methods that the paper compares with; one file each. Each takes the arguments of `fuse` that apply to it."""

from .averaging import Averaging, Ensembling, average
from .distillation import Distillation
from .linear_probe import LinearProbe
from .otfusion import OTFusion
from .pleas import PLeaS
from .rebasin import GitReBasin
from .regmean import RegMean
from .repair import repair
from .transformer import TransformerOTFusion
from .zipit import ZipIt

__all__ = [
    "Averaging",
    "Distillation",
    "Ensembling",
    "GitReBasin",
    "LinearProbe",
    "OTFusion",
    "PLeaS",
    "RegMean",
    "TransformerOTFusion",
    "ZipIt",
    "average",
    "repair",
]
