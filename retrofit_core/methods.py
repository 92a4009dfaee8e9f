"""The one table of methods that command line, app, worker and tests read."""

from typing import Any

from .baselines import (
    Averaging,
    Distillation,
    Ensembling,
    GitReBasin,
    LinearProbe,
    OTFusion,
    PLeaS,
    RegMean,
    TransformerOTFusion,
    ZipIt,
)
from .fusion import Retrofit
from .method import Method, Methods
from .settings import Value

PAPER = "Luenam et al."


def _method(name: str, sentence: str, source: str, value: type[Value], version: int = 1, **fixed: Any) -> Method:
    return Method(name, sentence, source, value, fixed, version)


METHODS = Methods(
    {
        method.name: method
        for method in (
            _method(
                "HF-Linear",
                "Retrofitting: pairs the neurons of two equal networks, closed form (Luenam et al.).",
                PAPER,
                Retrofit,
                grouping="hungarian",
                fit="ridge",
            ),
            _method(
                "KF-Linear",
                "Retrofitting: clusters the neurons of any networks, closed form (Luenam et al.).",
                PAPER,
                Retrofit,
                grouping="kmeans",
                fit="ridge",
            ),
            _method(
                "HF-Gradient",
                "Retrofitting: pairs the neurons of two equal networks, each level fitted by gradient descent.",
                PAPER,
                Retrofit,
                grouping="hungarian",
                fit="gradient",
            ),
            _method(
                "KF-Gradient",
                "Retrofitting: clusters the neurons of any networks, each level fitted by gradient descent.",
                PAPER,
                Retrofit,
                grouping="kmeans",
                fit="gradient",
            ),
            _method(
                "Average",
                "Mean of all weights, neurons as they lie.",
                "McMahan et al. 2017",
                Averaging,
                weighting="equal",
            ),
            _method(
                "FedAvg",
                "The same, weighted by the number of training samples.",
                "McMahan et al. 2017",
                Averaging,
                weighting="samples",
            ),
            _method(
                "Ensemble",
                "All networks side by side, mean of their probabilities: what one network can be asked to reach.",
                "Hansen and Salamon 1990",
                Ensembling,
                combine="softmax",
            ),
            _method(
                "Ensemble-Logits",
                "The same with the mean of logits.",
                "Hansen and Salamon 1990",
                Ensembling,
                combine="logits",
            ),
            _method(
                "Ensemble-Shares",
                "The same, each class weighted by who saw how much of it.",
                PAPER,
                Ensembling,
                combine="shares",
            ),
            _method(
                "OTFusion",
                "Neurons aligned by optimal transport of what they compute, then averaged (Singh and Jaggi 2020).",
                "Singh and Jaggi 2020",
                OTFusion,
                mode="activations",
            ),
            _method(
                "OTFusion-Weights",
                "The same by their weights: no data decide.",
                "Singh and Jaggi 2020",
                OTFusion,
                mode="weights",
            ),
            _method(
                "Transformer-OTFusion",
                "Every layer of a transformer aligned by soft transport of what it computes (Imfeld et al. 2024).",
                "Imfeld et al. 2024",
                TransformerOTFusion,
                mode="activations",
            ),
            _method(
                "Transformer-OTFusion-Weights",
                "The same by their weights: no data decide.",
                "Imfeld et al. 2024",
                TransformerOTFusion,
                mode="weights",
            ),
            _method(
                "Git-Re-Basin",
                "Neurons of two networks paired by what they compute, then averaged (Ainsworth et al. 2023).",
                "Ainsworth et al. 2023",
                GitReBasin,
                mode="activations",
            ),
            _method(
                "Git-Re-Basin-Weights",
                "The same by all weights: no data decide.",
                "Ainsworth et al. 2023",
                GitReBasin,
                mode="weights",
            ),
            _method(
                "ZipIt",
                "The most alike neurons merged, also within one network (Stoica et al. 2024).",
                "Stoica et al. 2024",
                ZipIt,
            ),
            _method(
                "RegMean",
                "Each layer by least squares on the networks' own inputs, neurons as they lie.",
                "Jin et al. 2023",
                RegMean,
            ),
            _method(
                "PLeaS",
                "Neurons paired, then each layer by least squares (Nasery et al. 2025).",
                "Nasery et al. 2025",
                PLeaS,
            ),
            _method(
                "KD",
                "A student trained towards the mean prediction, on the fusion samples.",
                "Hinton et al. 2015",
                Distillation,
            ),
            _method(
                "LP",
                "The first network with a new last layer, trained towards the mean prediction.",
                PAPER,
                LinearProbe,
            ),
        )
    }
)


def methods_with(keyword: str) -> list[str]:
    """Names of the methods that have a keyword, whatever their parts."""
    return [name for name, method in METHODS.items() if keyword in {**method.settings(), **method.keywords()}]
