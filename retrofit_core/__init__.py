"""Model fusion via retrofitting: trained networks fused level by level, with few samples, without retraining."""

from .checkpoints import load_model, save_model
from .evaluation import ensemble, evaluate
from .fusion import fuse
from .importance import importance_scores
from .levels import partition
from .methods import METHODS
from .moments import Moments
from .results import FusionResult
from .training import finetune, train

__all__ = [
    "METHODS",
    "FusionResult",
    "Moments",
    "ensemble",
    "evaluate",
    "finetune",
    "fuse",
    "importance_scores",
    "load_model",
    "partition",
    "save_model",
    "train",
]
