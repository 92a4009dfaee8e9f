"""Fine-tuning with the paper's schedule."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from ..data import Images
from ..system.monitor import Monitor
from .config import AUTO
from .loop import train
from .recipes import recipe


def finetune(
    model: nn.Module,
    images: Images,
    rows: Tensor | None = None,
    *,
    epochs: int = 200,
    batch: int = 128,
    learning_rate: float = 3e-4,
    augment: str = AUTO,
    seed: int = 0,
    state: str | Path | None = None,
    monitor: Monitor | None = None,
    device: str | torch.device | None = None,
) -> list[dict[str, Any]]:
    """Continue training a model in place with the paper's schedule: warm restarts, rate 3e-4, 200 epochs.

    Everything else comes from the recipe "finetune"; arguments, results and errors are those of `train`. For
    Tiny-ImageNet the paper's rate is 1e-5. If no epoch beats the start on held-out rows, the model stays bitwise
    unchanged, and the last entry's "best" is 0.

    Args:
        augment: "auto" (the usual one for a known data set, else none), "none", or a list such as
            "crop=4,flip,cutmix", see `recipes.augmentation`.
    """
    settings = recipe("finetune", images.name, images.shape[1], augment=augment)
    settings |= {"epochs": epochs, "batch": batch, "learning_rate": learning_rate}
    return train(model, images, rows, **settings, seed=seed, state=state, monitor=monitor, device=device)
