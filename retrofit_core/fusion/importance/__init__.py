"""Importance: how much each neuron matters to its parent's decisions (paper sec. 2.2 and App. F).

A score is a subclass of `Importance`, whose fields are its options, and one line in IMPORTANCE. Users pass their own as a
function `(neurons, x, y) -> list of one (width,) tensor per place`, alone or as `Custom(data, function=...)`. `scoring.py`
computes the scores of a network.
"""

from collections.abc import Callable
from typing import Any

from ...system.registry import as_value, name_of
from .base import EPSILON, Custom, Importance, Neurons, Place, Scores, Uniform
from .conductance import Conductance
from .deeplift import DeepLift

IMPORTANCE: dict[str, type[Importance]] = {
    "uniform": Uniform,
    "conductance": Conductance,
    "deeplift": DeepLift,
}

__all__ = [
    "EPSILON",
    "IMPORTANCE",
    "Conductance",
    "Custom",
    "DeepLift",
    "Importance",
    "Neurons",
    "Place",
    "Scores",
    "Uniform",
    "as_importance",
    "importance_name",
]


def as_importance(importance: str | Importance | Callable[..., Any], **options: object) -> Importance:
    """Make an importance from a name, a class or a function.

    Args:
        options: fields of a name's or class's value, or keywords of a function.
    Raises:
        ValueError: unknown name or field, or a wrong value of a field.
    """
    if callable(importance) and not isinstance(importance, (type, Importance)):
        shared: dict[str, Any] = {name: options.pop(name) for name in ("data", "normalise_scores") if name in options}
        return Custom(function=importance, options=options, **shared)
    return as_value({**IMPORTANCE, "custom": Custom}, importance, "importance", **options)


def importance_name(importance: Importance) -> str:
    """The name of a score in tables, records and messages."""
    return name_of(IMPORTANCE, importance)
