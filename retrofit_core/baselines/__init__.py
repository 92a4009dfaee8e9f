"""Methods that the paper compares with, one per file. Each takes the arguments of `fuse` that apply to it."""

from .averaging import Averaging, Ensembling, average
from .distillation import Distillation
from .linear_probe import LinearProbe
from .otfusion import OTFusion
from .pleas import PLeaS
from .rebasin import GitReBasin
from .regmean import RegMean
from .transformer import TransformerOTFusion
from .zipit import ZipIt
