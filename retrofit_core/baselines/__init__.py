"""Methods that the paper compares with; one file each. All take what `fuse` takes, as far as they know it."""

from .averaging import average, averaging, ensembling
from .distillation import distillation
from .linear_probe import linear_probe
from .otfusion import OTFusion
from .pleas import PLeaS
from .rebasin import GitReBasin
from .regmean import regmean
from .repair import repair
from .transformer import TransformerOTFusion
from .zipit import ZipIt

__all__ = [
    "GitReBasin",
    "OTFusion",
    "PLeaS",
    "TransformerOTFusion",
    "ZipIt",
    "average",
    "averaging",
    "distillation",
    "ensembling",
    "linear_probe",
    "regmean",
    "repair",
]
