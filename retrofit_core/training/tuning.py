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
    """Train on from the model's weights in place, with the paper's schedule: warm restarts, rate 3e-4, 200 epochs.

    Everything else is the recipe "finetune" of the data set; arguments, results and errors are those of `train`, which
    does the work. For Tiny-ImageNet the paper's rate is 1e-5. A fine-tuning of which no epoch is better than the start on
    held-out rows leaves the model as it was, bit for bit; the last entry's "best" is then 0.

    Args:
        augment: "auto" (as the data set asks for, where it is known by its name; else none), "none", or words such as
            "crop=4,flip,cutmix", see `recipes.augmentation`.
    """
    settings = recipe("finetune", images.name, images.shape[1], augment=augment)
    settings |= {"epochs": epochs, "batch": batch, "learning_rate": learning_rate}
    return train(model, images, rows, **settings, seed=seed, state=state, monitor=monitor, device=device)
