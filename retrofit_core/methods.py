"""The one table of methods that command line, app, worker and tests read."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from .baselines import averaging, distillation, ensembling, linear_probe, otfusion, pleas, rebasin, regmean, zipit
from .fusion import fuse
from .registry import find
from .results import FusionResult
from .settings import DEFAULTS

METHODS: dict[str, Callable[..., FusionResult]] = {
    "HF-Linear": partial(fuse, grouping="hungarian", fit="ridge"),
    "KF-Linear": partial(fuse, grouping="kmeans", fit="ridge"),
    "HF-Gradient": partial(fuse, grouping="hungarian", fit="gradient"),
    "KF-Gradient": partial(fuse, grouping="kmeans", fit="gradient"),
    "Average": averaging,
    "FedAvg": partial(averaging, weighting="samples"),
    "Ensemble": ensembling,
    "Ensemble-Logits": partial(ensembling, combine="logits"),
    "Ensemble-Shares": partial(ensembling, combine="shares"),
    "OTFusion": otfusion,
    "OTFusion-Weights": partial(otfusion, mode="weights"),
    "Git-Re-Basin": rebasin,
    "Git-Re-Basin-Weights": partial(rebasin, mode="weights"),
    "ZipIt": zipit,
    "RegMean": regmean,
    "PLeaS": pleas,
    "KD": distillation,
    "LP": linear_probe,
}
#: The paper's own, which go level by level; the others are what it compares with.
RETROFITTING = tuple(name for name, method in METHODS.items() if getattr(method, "func", None) is fuse)


def settings_of(name: str) -> set[str]:
    """The keywords that a method takes besides models and data."""
    parameters = inspect.signature(find(METHODS, name, "method")).parameters.values()
    known = {parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}
    return known | (set(DEFAULTS) if any(p.kind is p.VAR_KEYWORD for p in parameters) else set())


def suited(name: str, wanted: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The wanted settings that a method knows.

    Args:
        wanted: keyword -> value.
        defaults: the values at which a setting that the method does not know is left out; one without a default is
            always left out, for it is no wish of the user's.
    Raises:
        ValueError: another value for a setting that the method does not know.
    """
    known = settings_of(name)
    for keyword, value in wanted.items():
        if keyword not in known and keyword in defaults and value != defaults[keyword]:
            raise ValueError(
                f"{name} has no setting {keyword!r} ({value!r} is asked for). Leave it at {defaults[keyword]!r}; it is a "
                f"setting of {', '.join(other for other in METHODS if keyword in settings_of(other))}."
            )
    return {keyword: value for keyword, value in wanted.items() if keyword in known}
