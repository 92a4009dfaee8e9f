"""Importance: how much each neuron matters to its parent's decisions (paper sec. 2.2 and App. F).

A score is a function `(levels, x, y, **options) -> Scores`, or a list of one (width,) tensor per level; a user's own
is passed in place of a name.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from ..labels import as_labels
from ..levels import Level, partition
from ..monitor import Monitor
from ..registry import find
from .base import EPSILON, Scores
from .conductance import conductance
from .deeplift import deeplift
from .uniform import uniform

IMPORTANCE = {"uniform": uniform, "conductance": conductance, "deeplift": deeplift}

__all__ = [
    "EPSILON",
    "IMPORTANCE",
    "Scores",
    "check_data",
    "check_labels",
    "conductance",
    "deeplift",
    "importance_scores",
    "uniform",
]


def check_data(method: str | Callable[..., Any], data: Any) -> None:
    """Refuse scores that need data where none are given.

    Raises:
        ValueError: unknown method, or no data.
    """
    if find(IMPORTANCE, method, "importance") is not uniform and data is None:
        raise ValueError(
            f"importance {method!r} needs data. Pass importance_data=[(inputs, labels), ...], one pair per parent "
            "(the paper: its own training data), or importance_data='fusion' to use the fusion data."
        )


def check_labels(y: Tensor | None, score: str | Callable[..., Any]) -> Tensor:
    """The labels as int64, unless they name no classes.

    Raises:
        ValueError: no labels, or other than whole numbers.
    """
    name = getattr(score, "__name__", score)
    if y is None:
        raise ValueError(
            f"importance {name!r} needs labels. Pass (inputs, labels) as importance data or use importance='uniform'."
        )
    if y.dtype.is_floating_point or y.dtype.is_complex or y.dtype == torch.bool:
        raise ValueError(
            f"importance {name!r}: the labels are {y.dtype}, and classes are whole numbers. Pass labels.long()."
        )
    return as_labels(y)


def importance_scores(
    model: nn.Module | Sequence[Level],
    x: Tensor,
    y: Tensor | None,
    method: str | Callable[..., Any] = "conductance",
    *,
    normalise: bool = True,
    monitor: Monitor | None = None,
    **options: Any,
) -> Scores:
    """Scores of one parent's neurons at every level, + 1e-8, normalised to sum 1 per level.

    Args:
        model: a module, or its levels.
        x: (B, ...) inputs on the model's device.
        y: (B,) labels; attributions explain the logit of the true class.
        method: a name in IMPORTANCE or a function `(levels, x, y, **options)`.
        normalise: False keeps the raw scores (a parent with larger logits then weighs more).
    Raises:
        ValueError: unknown method, missing labels, or scores that are negative, not finite or of the wrong shape.
    """
    levels = partition(model, x[:2]) if isinstance(model, nn.Module) else list(model)
    score = find(IMPORTANCE, method, "importance")
    if score is uniform:
        found = uniform(levels)
    else:
        y = check_labels(y, score)
        extra = {"monitor": monitor} if score in IMPORTANCE.values() else {}
        found = score(levels, x, y, **extra, **options)
    found = found if isinstance(found, Scores) else Scores(list(found))
    _check(found.values, levels, score)
    values = [value.to(x.device, torch.float64) + EPSILON for value in found.values]
    return Scores([value / value.sum() for value in values] if normalise else values, found.report)


def _check(values: list[Tensor], levels: Sequence[Level], score: Callable[..., Any]) -> None:
    name = getattr(score, "__name__", str(score))
    if len(values) != len(levels):
        raise ValueError(f"importance {name!r} returned {len(values)} tensors for {len(levels)} levels.")
    for value, level in zip(values, levels, strict=True):
        if value.shape != (level.width,):
            raise ValueError(
                f"importance {name!r} returned shape {tuple(value.shape)} for level {level.name!r}; "
                f"it has {level.width} neurons."
            )
        if not torch.isfinite(value).all() or (value < 0).any():
            raise ValueError(f"importance {name!r} returned negative or non-finite scores for level {level.name!r}.")
