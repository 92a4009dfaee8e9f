"""The page Levels' parameters in the address: a level, a step, and how to look at the level's neurons."""

from collections.abc import Sequence
from dataclasses import dataclass

from retrofit_app.address.readers import one_of
from retrofit_app.address.rule import Parameter, declared, option
from retrofit_app.address.session import Scope

LEVELS = Scope("levels")
#: Pictures of a grouping.
VIEWS = {"ribbon": "Ribbon into groups", "plane": "Plane (PCA)"}
STEPS = ("activations", "importance", "grouping", "targets", "fit")


@dataclass(frozen=True)
class Where:
    """The shown level and step."""

    level: str
    step: str = declared("grouping", one_of(STEPS, "step"))


@dataclass(frozen=True)
class Look:
    """How to look at a level's neurons."""

    score: str
    """Tables follow its grouping"""
    neuron: str
    """The fused neuron to look at in detail"""
    view: str = declared("ribbon", one_of(VIEWS, "picture"))


def where(names: Sequence[str], default: str) -> Where:
    """The level, one of these, and the step."""

    def level(text: str) -> str:
        numbers = {str(number): name for number, name in enumerate(names, 1)}
        if text not in names and text not in numbers:
            raise ValueError("no such level of this run")
        return text if text in names else numbers[text]

    return LEVELS.read(Where, [Parameter("level", default, level, of_run=True)])


def look(scores: Sequence[str], first: str, width: int, densest: int) -> Look:
    """How to look at a level with these scores and fused neurons (`width`).

    Args:
        first: the default score.
        densest: the default fused neuron.
    """
    return LEVELS.read(
        Look,
        [
            option("score", scores, first, "importance score of this run"),
            option("neuron", list(map(str, range(width))), str(densest), "fused neuron of this level", of_run=True),
        ],
    )
