"""Training of classifiers from scratch, and fine-tuning; RECIPES has the settings."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .loop import TrainSettings, train
    from .optimizers import OPTIMIZERS, SCHEDULES
    from .recipes import PAPER_EPOCHS, RECIPES, recipe

__all__ = ["OPTIMIZERS", "PAPER_EPOCHS", "RECIPES", "SCHEDULES", "TrainSettings", "recipe", "train"]
#: Imported on first access, so that the command line can read `config` without importing torch.
_HOMES = ("loop", "optimizers", "recipes")


def __getattr__(name: str) -> Any:
    if name in __all__:
        for home in _HOMES:
            if hasattr(module := import_module(f".{home}", __name__), name):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
