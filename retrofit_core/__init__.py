"""Model fusion via retrofitting: fuses trained networks level by level, with few samples, without retraining."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .fusion.algorithm import fuse
    from .fusion.fit import Gradient, Ridge
    from .fusion.grouping import Hungarian, KMeans
    from .fusion.importance import Conductance, Custom, DeepLift, Uniform
    from .fusion.importance.scoring import importance_scores
    from .fusion.moments import Moments
    from .fusion.permutation import permuted
    from .fusion.results import FusionResult
    from .graph.centring import centred
    from .methods import METHODS
    from .networks.architectures import build
    from .networks.checkpoints import load_model, save_model
    from .networks.outputs import giving_logits
    from .runs.leaderboard import compare
    from .system.runtime import Runtime
    from .training import train
    from .training.evaluation import ensemble, evaluate

    __version__: str

__all__ = [
    "Conductance",
    "Custom",
    "DeepLift",
    "FusionResult",
    "Gradient",
    "Hungarian",
    "KMeans",
    "METHODS",
    "Moments",
    "Ridge",
    "Runtime",
    "Uniform",
    "__version__",
    "build",
    "centred",
    "compare",
    "ensemble",
    "evaluate",
    "fuse",
    "giving_logits",
    "importance_scores",
    "load_model",
    "permuted",
    "save_model",
    "train",
]
#: Names are imported on first access: importing torch takes seconds, during which the command line must already handle
#: an interruption.
_HOMES = {
    "Conductance": "fusion.importance",
    "Custom": "fusion.importance",
    "DeepLift": "fusion.importance",
    "FusionResult": "fusion.results",
    "Gradient": "fusion.fit",
    "Hungarian": "fusion.grouping",
    "KMeans": "fusion.grouping",
    "METHODS": "methods",
    "Moments": "fusion.moments",
    "Ridge": "fusion.fit",
    "Runtime": "system.runtime",
    "Uniform": "fusion.importance",
    "build": "networks.architectures",
    "centred": "graph.centring",
    "compare": "runs.leaderboard",
    "ensemble": "training.evaluation",
    "evaluate": "training.evaluation",
    "fuse": "fusion.algorithm",
    "giving_logits": "networks.outputs",
    "importance_scores": "fusion.importance.scoring",
    "load_model": "networks.checkpoints",
    "permuted": "fusion.permutation",
    "save_model": "networks.checkpoints",
    "train": "training",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module(".system.extras", __name__).library_version()
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
