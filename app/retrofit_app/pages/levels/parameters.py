"""The page Levels' parameters in the address: a level, a step, and how to look at the level's neurons."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from retrofit_app.address.rule import Parameter, option
from retrofit_app.address.session import Scope

LEVELS = Scope("levels")
#: Pictures of a grouping.
VIEWS = {"ribbon": "Ribbon into groups", "plane": "Plane (PCA)"}
STEPS = ("activations", "importance", "grouping", "targets", "fit")


def where(names: Sequence[str], default: str) -> Any:
    """`level`, one of these names, and `step`."""

    def level(text: str) -> str:
        numbers = {str(number): name for number, name in enumerate(names, 1)}
        if text not in names and text not in numbers:
            raise ValueError("no such level of this run")
        return text if text in names else numbers[text]

    step = option("step", STEPS, "grouping", "step")
    return LEVELS.read(SimpleNamespace, [Parameter("level", default, level, of_run=True), step])


def look(scores: Sequence[str], first: str, width: int, densest: int) -> Any:
    """How to look at a level: its `view`, the `score` that it follows, and the fused `neuron` to look at in detail.

    Args:
        scores, width: the level's scores, and its number of fused neurons.
        first: the default score.
        densest: the default fused neuron.
    """
    return LEVELS.read(
        SimpleNamespace,
        [
            option("view", list(VIEWS), "ribbon", "picture"),
            option("score", scores, first, "importance score of this run"),
            option("neuron", list(map(str, range(width))), str(densest), "fused neuron of this level", of_run=True),
        ],
    )
