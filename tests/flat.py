"""`fuse` as the tests call it: any grouping and fit, their settings in flat keywords, as METHODS take them."""

from typing import Any

from retrofit_core.baselines import Averaging, Ensembling
from retrofit_core.catalogue import CONTROL
from retrofit_core.fusion.algorithm import Retrofit
from retrofit_core.fusion.results import FusionResult
from retrofit_core.methods import METHODS, Method

CONTROLS = [name for name, method in METHODS.items() if method.kind == CONTROL]
#: Methods of each kind, which go through one preparation.
KINDS = ("KF-Linear", "HF-Gradient", "OTFusion", "PLeaS", "RegMean", "Ensemble", "KD", "Auto")
FLAT = Method("fuse", "Retrofitting.", "", Retrofit, {"grouping": "kmeans", "fit": "ridge"})
#: All their options are free.
averaging = Method("averaging", "Mean of weights.", "", Averaging)
ensembling = Method("ensembling", "Mean of outputs.", "", Ensembling)


def fuse(models: Any, data: Any, **keywords: Any) -> FusionResult:
    return FLAT(models, data, **keywords)
