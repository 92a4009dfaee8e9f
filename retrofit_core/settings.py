"""Defaults and the paper's hyper-parameter tables; docs/defaults.md says where and why they differ."""

from typing import Any

from .moments import ridge_strength
from .ranges import check_ranges

#: Ours (docs/method.md), for every method.
DEFAULTS: dict[str, Any] = {
    "ridge": "auto",
    "normalise_scores": True,
    "learning_rate": 1e-3,
    "weight_decay": 1e-4,
    "epochs": 100,
    "batch_size": 32,
    "validation": 0.1,
    "patience": 15,
    "perturbation": 0.0,
}
HELP: dict[str, str] = {
    "normalise_scores": "importance scores of each level and parent sum to 1",
    "learning_rate": "of AdamW",
    "weight_decay": "of AdamW",
    "epochs": "passes over the fusion data, at most",
    "batch_size": "samples in a step",
    "validation": "share of the samples held out to choose the best epoch",
    "patience": "epochs without improvement before it stops",
    "perturbation": "0: start at parent 0's weights; 1: start afresh",
}
#: App. F.1, the paragraph on linear variants: lambda in units of a sum over rows; scores and outputs not normalised.
PAPER_LINEAR: dict[str, dict[str, Any]] = {
    "hungarian": {"ridge": 1e-3, "normalise_scores": False},
    "kmeans": {"ridge": 10.0, "normalise_scores": False},
}
#: App. F.1, the table "Hyperparameters used for HF-Gradient and KF-Gradient".
PAPER_GRADIENT: dict[str, Any] = {
    "normalise_scores": False,
    "learning_rate": 1e-3,
    "weight_decay": 1e-4,
    "epochs": 100,
    "batch_size": 32,
    "validation": 0.1,
    "perturbation": 1.0,
}
GRADIENT_OPTIONS = (
    "learning_rate",
    "weight_decay",
    "epochs",
    "batch_size",
    "validation",
    "patience",
    "perturbation",
)


def resolve(preset: str, grouping: Any, fit: str, given: dict[str, Any]) -> dict[str, Any]:
    """The settings of a run: the given ones, else the preset's, else ours.

    Raises:
        ValueError: unknown preset or setting, or a value that a setting does not take.
    """
    if preset not in ("default", "paper"):
        raise ValueError(f"unknown preset {preset!r}. Known: default, paper.")
    unknown = set(given) - set(DEFAULTS)
    if unknown:
        raise ValueError(f"unknown settings {sorted(unknown)}. Known: {', '.join(DEFAULTS)}.")
    paper: dict[str, Any] = {}
    if preset == "paper":
        paper = PAPER_GRADIENT if fit == "gradient" else PAPER_LINEAR.get(grouping, PAPER_LINEAR["kmeans"])
    chosen = {**DEFAULTS, **paper, **{name: value for name, value in given.items() if value is not None}}
    # Wrong values are refused before any work.
    ridge_strength(chosen["ridge"], 1.0, "zero")
    check_ranges(**{name: chosen[name] for name in GRADIENT_OPTIONS})
    if not isinstance(chosen["normalise_scores"], bool):
        raise ValueError(f"normalise_scores is {chosen['normalise_scores']!r}. Use True or False.")
    return chosen
