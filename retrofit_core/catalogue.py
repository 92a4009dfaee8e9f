"""The table of methods: names, descriptions and publications, without importing torch."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

PAPER = "Luenam et al."
#: Kinds of methods.
RETROFIT, OURS, CONTROL, REFERENCE, BASELINE = "retrofit", "ours", "control", "reference", "baseline"

V = TypeVar("V")


@dataclass(frozen=True)
class Line(Generic[V]):
    """One line of the table of methods."""

    name: str
    sentence: str
    """What it does"""
    source: str
    """The publication; empty if there is none"""
    value: V
    """The class of its value, here by name: `Retrofit`, `Auto`, or one of `baselines`"""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the value that the name fixes; parts by their names in the tables"""
    kind: str = BASELINE
    """retrofit (the paper's own), ours (beyond it), control, reference (all networks side by side) or baseline"""

    @property
    def description(self) -> str:
        """What it does, and who published it."""
        return f"{self.sentence.removesuffix('.')} ({self.source})." if self.source else self.sentence


_LINES = (
    Line(
        "HF-Linear",
        "Retrofitting: pairs the neurons of two equal networks, closed form.",
        PAPER,
        "Retrofit",
        {"grouping": "hungarian", "fit": "ridge"},
        RETROFIT,
    ),
    Line(
        "KF-Linear",
        "Retrofitting: groups the neurons of any number of networks of any widths, closed form.",
        PAPER,
        "Retrofit",
        {"grouping": "kmeans", "fit": "ridge"},
        RETROFIT,
    ),
    Line(
        "HF-Gradient",
        "Retrofitting: pairs neurons and trains each level; any architecture.",
        PAPER,
        "Retrofit",
        {"grouping": "hungarian", "fit": "gradient"},
        RETROFIT,
    ),
    Line(
        "KF-Gradient",
        "Retrofitting: groups neurons and trains each level; any architecture.",
        PAPER,
        "Retrofit",
        {"grouping": "kmeans", "fit": "gradient"},
        RETROFIT,
    ),
    Line(
        "Auto",
        "Tries up to four fusions and returns the best of them and the parents, judged on samples that no fusion saw.",
        "ours",
        "Auto",
        kind=OURS,
    ),
    Line(
        "Random-Linear",
        "The fit of KF-Linear to random groups: a control for the grouping.",
        "ours, a control",
        "Retrofit",
        {"grouping": "random", "fit": "ridge"},
        CONTROL,
    ),
    Line(
        "Average",
        "Mean of all weights, neuron i with neuron i: a uniform soup.",
        "",
        "Averaging",
    ),
    Line(
        "Ensemble",
        "All networks side by side, mean of their probabilities: the goal for a single network.",
        "",
        "Ensembling",
        {"combine": "softmax"},
        REFERENCE,
    ),
    Line(
        "Ensemble-Logits",
        "All networks side by side, mean of their logits.",
        "",
        "Ensembling",
        {"combine": "logits"},
        REFERENCE,
    ),
    Line(
        "OTFusion",
        "Neurons aligned by optimal transport of what they compute, or of their weights, then averaged.",
        "Singh and Jaggi 2020",
        "OTFusion",
    ),
    Line(
        "Transformer-OTFusion",
        "Every layer of a transformer aligned by soft transport of what it computes, or of its weights.",
        "Imfeld et al. 2024",
        "TransformerOTFusion",
    ),
    Line(
        "Git-Re-Basin",
        "Neurons of two networks paired by what they compute, or by all weights, then averaged.",
        "Ainsworth et al. 2023",
        "GitReBasin",
    ),
    Line("ZipIt", "Merges the most similar neurons, also within one network.", "Stoica et al. 2024", "ZipIt"),
    Line(
        "RegMean",
        "Fits each layer by least squares on the networks' own inputs, neuron i with neuron i.",
        "Jin et al. 2023",
        "RegMean",
    ),
    Line("PLeaS", "Pairs neurons, then fits each layer by least squares.", "Nasery et al. 2025", "PLeaS"),
    Line(
        "KD",
        "A student trained towards the mean prediction, on the fusion samples.",
        "Hinton et al. 2015",
        "Distillation",
    ),
    Line("LP", "The first network with a new last layer, trained towards the mean prediction.", "", "LinearProbe"),
)
CATALOGUE: dict[str, Line[str]] = {line.name: line for line in _LINES}
