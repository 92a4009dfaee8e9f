"""The settings printed in the paper (App. E and F) next to `preset="paper"`, our recipes and networks, and our defaults."""

from typing import Any

import pandas as pd
import torch

from ..fusion.fit import Gradient, Ridge
from ..networks.architectures.vit import SIZES, ViT
from ..system.presets import preset_settings
from ..training.recipes import recipe

#: The table "Hyperparameters used for HF-Gradient and KF-Gradient", with our names.
GRADIENT: dict[str, float] = {
    "learning_rate": 1e-3,
    "epochs": 100,
    "weight_decay": 1e-4,
    "perturbation": 1.0,
    "batch_size": 32,
    "validation": 0.1,
}
#: The paragraph on linear variants: lambda by grouping.
LINEAR: dict[str, float] = {"hungarian": 1e-3, "kmeans": 10.0}
#: The table of training, the same for VGGs, ViTs and ResNets.
TRAINING: dict[str, float] = {"warmup": 5, "floor": 1e-5, "learning_rate": 1e-3, "label_smoothing": 0.1, "batch": 128}
#: The table of fine-tuning, by data set.
TUNING: dict[str, dict[str, float]] = {
    "cifar100": {"learning_rate": 3e-4, "floor": 1e-6, "label_smoothing": 0.1, "epochs": 200},
    "tiny-imagenet": {"learning_rate": 1e-5, "floor": 1e-6, "label_smoothing": 0.1, "epochs": 200},
}
#: The table of vision transformers, by our preset.
TRANSFORMERS: dict[str, dict[str, float]] = {
    "vit": {"patch": 4, "depth": 7, "heads": 12, "hidden": 384, "mlp_width": 1536},
    "vit-tiny-imagenet": {"patch": 8, "depth": 7, "heads": 12, "hidden": 384, "mlp_width": 384},
}


def printed_settings() -> pd.DataFrame:
    """One row per setting: its table, the paper's value, ours for reproducing the paper, and our default.

    "default" is None for recipes and networks, which have no other value than ours.
    """
    lines = [
        *_lines("gradient fits", GRADIENT, preset_settings("paper", "kmeans", "gradient"), vars(Gradient())),
        *(
            {
                "table": "linear fits",
                "setting": f"lambda, {grouping}",
                "paper": value,
                "ours": preset_settings("paper", grouping, "ridge")["ridge"],
                "default": Ridge().ridge,
            }
            for grouping, value in LINEAR.items()
        ),
        *_lines("training of parents", TRAINING, recipe("paper", "cifar100", architecture="vit"), {}),
    ]
    for data, printed in TUNING.items():
        lines += _lines(f"fine-tuning, {data}", printed, recipe("finetune", data), {})
    for name, printed in TRANSFORMERS.items():
        with torch.device("meta"):  # without weights
            lines += _lines(f"network {name}", printed, ViT(**SIZES[name]).spec, {})
    frame = pd.DataFrame(lines, dtype=object)  # keeps 128 an integer next to 0.0003
    frame["same"] = frame["paper"] == frame["ours"]
    return frame


def _lines(
    table: str, printed: dict[str, float], ours: dict[str, Any], defaults: dict[str, Any]
) -> list[dict[str, Any]]:
    return [
        {"table": table, "setting": name, "paper": value, "ours": ours[name], "default": defaults.get(name)}
        for name, value in printed.items()
    ]
