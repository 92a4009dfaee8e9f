"""Model fusion via retrofitting: trained networks fused level by level, with few samples, without retraining."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .checkpoints import load_model, save_model
    from .comparing import compare
    from .evaluation import ensemble, evaluate
    from .fusion import fuse
    from .importance import importance_scores
    from .levels import partition
    from .methods import METHODS
    from .moments import Moments
    from .outputs import giving_logits
    from .results import FusionResult
    from .training import finetune, train

    __version__: str

__all__ = [
    "METHODS",
    "FusionResult",
    "Moments",
    "__version__",
    "compare",
    "ensemble",
    "evaluate",
    "finetune",
    "fuse",
    "giving_logits",
    "importance_scores",
    "load_model",
    "partition",
    "save_model",
    "train",
]
#: Names are imported when they are first asked for: torch takes seconds, in which the command line must already be
#: able to answer an interruption.
_HOMES = {
    "METHODS": "methods",
    "FusionResult": "results",
    "Moments": "moments",
    "compare": "comparing",
    "ensemble": "evaluation",
    "evaluate": "evaluation",
    "finetune": "training",
    "fuse": "fusion",
    "giving_logits": "outputs",
    "importance_scores": "importance",
    "load_model": "checkpoints",
    "partition": "levels",
    "save_model": "checkpoints",
    "train": "training",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module(".extras", __name__).library_version()
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
