"""The one table of methods that command line, app, worker and tests read."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from .baselines import (
    averaging,
    distillation,
    ensembling,
    linear_probe,
    otfusion,
    pleas,
    rebasin,
    regmean,
    transformer_otfusion,
    zipit,
)
from .eligibility import check_models
from .fusion import fuse
from .ranges import check_ranges
from .registry import find, known_name
from .results import FusionResult
from .settings import DEFAULTS


class Method(partial[FusionResult]):
    """A function of the table with some keywords bound; what all methods refuse alike is refused here."""

    def __call__(self, models: Any, data: Any, /, **options: Any) -> FusionResult:
        """Fuse.

        Raises:
            ValueError: models that are none, a keyword that the method does not have, a seed or memory out of range.
        """
        check_models(models)
        name = next((name for name, method in METHODS.items() if method is self), "this method")
        known = {**dict.fromkeys(_keywords(self)), **self.keywords}
        for keyword in options:
            if keyword not in known:
                known_name(known, keyword, f"keyword of {name}:")
        check_ranges(**{keyword: options[keyword] for keyword in ("seed", "memory") if keyword in options})
        return super().__call__(models, data, **options)


class Methods(dict[str, Callable[..., FusionResult]]):
    """The table; a name is found however it is written, and another one is refused with the nearest."""

    def __missing__(self, name: str) -> Callable[..., FusionResult]:
        return self[known_name(self, name, "method")]


METHODS = Methods(
    {
        "HF-Linear": Method(fuse, grouping="hungarian", fit="ridge"),
        "KF-Linear": Method(fuse, grouping="kmeans", fit="ridge"),
        "HF-Gradient": Method(fuse, grouping="hungarian", fit="gradient"),
        "KF-Gradient": Method(fuse, grouping="kmeans", fit="gradient"),
        "Average": Method(averaging, weighting="equal"),
        "FedAvg": Method(averaging, weighting="samples"),
        "Ensemble": Method(ensembling, combine="softmax"),
        "Ensemble-Logits": Method(ensembling, combine="logits"),
        "Ensemble-Shares": Method(ensembling, combine="shares"),
        "OTFusion": Method(otfusion, mode="activations"),
        "OTFusion-Weights": Method(otfusion, mode="weights"),
        "Transformer-OTFusion": Method(transformer_otfusion, mode="activations"),
        "Transformer-OTFusion-Weights": Method(transformer_otfusion, mode="weights"),
        "Git-Re-Basin": Method(rebasin, mode="activations"),
        "Git-Re-Basin-Weights": Method(rebasin, mode="weights"),
        "ZipIt": Method(zipit),
        "RegMean": Method(regmean),
        "PLeaS": Method(pleas),
        "KD": Method(distillation),
        "LP": Method(linear_probe),
    }
)
SENTENCES: dict[str, str] = {
    "HF-Linear": "Retrofitting: pairs the neurons of two equal networks, closed form (Luenam et al.).",
    "KF-Linear": "Retrofitting: clusters the neurons of any number of networks of any widths, closed form (Luenam et al.).",
    "HF-Gradient": "Retrofitting: pairs neurons and trains each level; any architecture (Luenam et al.).",
    "KF-Gradient": "Retrofitting: clusters neurons and trains each level; any architecture (Luenam et al.).",
    "Average": "Mean of all weights, neurons as they lie.",
    "FedAvg": "The same, weighted by the number of training samples (McMahan et al. 2017).",
    "Ensemble": "All networks side by side, mean of their probabilities: what one network can be asked to reach.",
    "Ensemble-Logits": "The same with the mean of logits.",
    "Ensemble-Shares": "The same, each class weighted by who saw how much of it.",
    "OTFusion": "Neurons aligned by optimal transport of what they compute, then averaged (Singh and Jaggi 2020).",
    "OTFusion-Weights": "The same by their weights: no data decide.",
    "Transformer-OTFusion": "Every layer of a transformer aligned by soft transport of what it computes (Imfeld et al. 2024).",
    "Transformer-OTFusion-Weights": "The same by their weights: no data decide.",
    "Git-Re-Basin": "Neurons of two networks paired by what they compute, then averaged (Ainsworth et al. 2023).",
    "Git-Re-Basin-Weights": "The same by all weights: no data decide.",
    "ZipIt": "The most alike neurons merged, also within one network (Stoica et al. 2024).",
    "RegMean": "Each layer by least squares on the networks' own inputs, neurons as they lie (Jin et al. 2023).",
    "PLeaS": "Neurons paired, then each layer by least squares (Nasery et al. 2025).",
    "KD": "A student trained towards the mean prediction, on the fusion samples (Hinton et al. 2015).",
    "LP": "The first network with a new last layer, trained towards the mean prediction.",
}
#: The paper's own, which go level by level; the others are what it compares with.
RETROFITTING = tuple(name for name, method in METHODS.items() if getattr(method, "func", None) is fuse)


def settings_of(name: str) -> set[str]:
    """The keywords that a method takes besides models and data."""
    return _keywords(find(METHODS, name, "method"))


def _keywords(method: Callable[..., Any]) -> set[str]:
    parameters = inspect.signature(method).parameters.values()
    known = {parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}
    return known | (set(DEFAULTS) if any(p.kind is p.VAR_KEYWORD for p in parameters) else set())


def needs_own_data(name: str) -> bool:
    """Whether a method looks at each parent's own data without scores, as RegMean does."""
    known = settings_of(name)
    return "importance_data" in known and "importance" not in known


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
