"""The one table of methods that command line, app, worker and tests read."""

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

PAPER, CONTROL = "Luenam et al.", "ours, a control"
SINGH, IMFELD, AINSWORTH = "Singh and Jaggi 2020", "Imfeld et al. 2024", "Ainsworth et al. 2023"

_ALL = (
    Method(
        "HF-Linear",
        "Retrofitting: pairs the neurons of two equal networks, closed form.",
        PAPER,
        Retrofit,
        {"grouping": "hungarian", "fit": "ridge"},
    ),
    Method(
        "KF-Linear",
        "Retrofitting: clusters the neurons of any number of networks of any widths, closed form.",
        PAPER,
        Retrofit,
        {"grouping": "kmeans", "fit": "ridge"},
    ),
    Method(
        "HF-Gradient",
        "Retrofitting: pairs neurons and trains each level; any architecture.",
        PAPER,
        Retrofit,
        {"grouping": "hungarian", "fit": "gradient"},
    ),
    Method(
        "KF-Gradient",
        "Retrofitting: clusters neurons and trains each level; any architecture.",
        PAPER,
        Retrofit,
        {"grouping": "kmeans", "fit": "gradient"},
    ),
    Method(
        "Random-Linear",
        "The fit of KF-Linear to random groups: what is left of it if groups know nothing of the neurons.",
        CONTROL,
        Retrofit,
        {"grouping": "random", "fit": "ridge"},
    ),
    Method(
        "Same-Index-Linear",
        "The same fit to the mean of the neurons as they lie: what refitting level by level brings without any search.",
        CONTROL,
        Retrofit,
        {"grouping": "same_index", "fit": "ridge"},
    ),
    Method("Average", "Mean of all weights, neurons as they lie.", "", Averaging, {"weighting": "equal"}),
    Method(
        "FedAvg",
        "The same, weighted by the number of training samples.",
        "McMahan et al. 2017",
        Averaging,
        {"weighting": "samples"},
    ),
    Method(
        "Ensemble",
        "All networks side by side, mean of their probabilities: what one network can be asked to reach.",
        "",
        Ensembling,
        {"combine": "softmax"},
    ),
    Method("Ensemble-Logits", "The same with the mean of logits.", "", Ensembling, {"combine": "logits"}),
    Method(
        "Ensemble-Shares",
        "The same, each class weighted by who saw how much of it.",
        "",
        Ensembling,
        {"combine": "shares"},
    ),
    Method(
        "OTFusion",
        "Neurons aligned by optimal transport of what they compute, then averaged.",
        SINGH,
        OTFusion,
        {"mode": "activations"},
    ),
    Method("OTFusion-Weights", "The same by their weights: no data decide.", SINGH, OTFusion, {"mode": "weights"}),
    Method(
        "Transformer-OTFusion",
        "Every layer of a transformer aligned by soft transport of what it computes.",
        IMFELD,
        TransformerOTFusion,
        {"mode": "activations"},
    ),
    Method(
        "Transformer-OTFusion-Weights",
        "The same by their weights: no data decide.",
        IMFELD,
        TransformerOTFusion,
        {"mode": "weights"},
    ),
    Method(
        "Git-Re-Basin",
        "Neurons of two networks paired by what they compute, then averaged.",
        AINSWORTH,
        GitReBasin,
        {"mode": "activations"},
    ),
    Method(
        "Git-Re-Basin-Weights", "The same by all weights: no data decide.", AINSWORTH, GitReBasin, {"mode": "weights"}
    ),
    Method("ZipIt", "The most alike neurons merged, also within one network.", "Stoica et al. 2024", ZipIt),
    Method(
        "RegMean",
        "Each layer by least squares on the networks' own inputs, neurons as they lie.",
        "Jin et al. 2023",
        RegMean,
    ),
    Method("PLeaS", "Neurons paired, then each layer by least squares.", "Nasery et al. 2025", PLeaS),
    Method(
        "KD",
        "A student trained towards the mean prediction, on the fusion samples.",
        "Hinton et al. 2015",
        Distillation,
    ),
    Method("LP", "The first network with a new last layer, trained towards the mean prediction.", "", LinearProbe),
)
METHODS = Methods({method.name: method for method in _ALL})
#: The paper's own four, and our controls of them; all of these go level by level. The others are what it compares with.
RETROFITTING = tuple(name for name, method in METHODS.items() if method.source == PAPER)
CONTROLS = tuple(name for name, method in METHODS.items() if method.source == CONTROL)


def methods_with(keyword: str) -> list[str]:
    """Names of the methods that have a keyword, whatever their parts."""
    return [name for name, method in METHODS.items() if keyword in {**method.settings(), **method.keywords()}]
