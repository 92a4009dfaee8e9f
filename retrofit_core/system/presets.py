"""The paper's hyper-parameters (App. F.1); docs/defaults.md says where and why ours differ."""

from typing import Any, Literal

Preset = Literal["default", "paper"]
#: Paragraph on linear variants: lambda in units of a sum over rows; scores and outputs not normalised.
PAPER_LINEAR: dict[str, dict[str, Any]] = {
    "hungarian": {"ridge": 1e-3, "toward": "zero", "normalise_scores": False},
    "kmeans": {"ridge": 10.0, "toward": "zero", "normalise_scores": False},
}
#: Table "Hyperparameters used for HF-Gradient and KF-Gradient".
PAPER_GRADIENT: dict[str, Any] = {
    "normalise_scores": False,
    "learning_rate": 1e-3,
    "weight_decay": 1e-4,
    "epochs": 100,
    "batch_size": 32,
    "validation": 0.1,
    "perturbation": 1.0,
}


def preset_settings(preset: Preset, grouping: str, fit: str) -> dict[str, Any]:
    """Settings of a preset for a retrofit; {} for "default".

    Raises:
        ValueError: unknown preset.
    """
    if preset == "default":
        return {}
    if preset != "paper":
        raise ValueError(f"unknown preset {preset!r}. Known: default, paper.")
    return PAPER_GRADIENT if fit == "gradient" else PAPER_LINEAR.get(grouping, PAPER_LINEAR["kmeans"])
