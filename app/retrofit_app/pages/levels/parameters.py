"""What the page Levels shows, as its address says it: a level and a step, and how the neurons of that level are looked at."""

from collections.abc import Sequence
from dataclasses import dataclass

from retrofit_app.address import neurons
from retrofit_app.address.readers import one_of
from retrofit_app.address.rule import Parameter, declared, option, switch
from retrofit_app.address.session import Scope

LEVELS = Scope("levels")
#: One at a time: what is not shown is neither sent nor drawn when the level changes.
PANELS = {
    "images": "What excites them?",
    "scores": "Do the scores group differently?",
    "sizes": "Cluster sizes",
    "cluster": "Follow one cluster",
    "neurons": "All neurons",
}
#: Those that are opened under *Expert*.
EXPERT = ("cluster", "neurons")
STEPS = ("activations", "importance", "grouping", "targets", "fit")


@dataclass(frozen=True)
class Where:
    """What is shown of all levels."""

    level: str
    step: str = declared("grouping", one_of(STEPS, "step"))


@dataclass(frozen=True)
class Look:
    """How the neurons of a level are looked at."""

    score: str
    """Whose grouping tables follow"""
    seed: str
    neuron: str
    """Of the fused level, looked at in detail"""
    pair: str
    """Two groupings side by side; "" for all"""
    pick: str
    """Neurons of this level that stay bright, as `address.neurons` writes them"""
    mark: str
    """Neurons with a ring"""
    panel: str = declared("images", one_of(PANELS, "closer look"))
    outliers: bool = switch("frame with outliers")
    same_images: bool = switch("choice of images")
    """Whether all members of a group are shown the images that excite its fused neuron"""


def where(names: Sequence[str], default: str) -> Where:
    """The level, of these, and the step."""

    def level(text: str) -> str:
        numbers = {str(number): name for number, name in enumerate(names, 1)}
        if text not in names and text not in numbers:
            raise ValueError("no such level of this run")
        return text if text in names else numbers[text]

    return LEVELS.read(Where, [Parameter("level", default, level, of_run=True)])


def to_level(name: str, **more: str) -> None:
    """Open a level; the picked neurons are those of the level that is left. For callbacks.

    Args:
        more: parameters that change with it.
    """
    LEVELS.change(level=name, **more, **{each: "" for each in ("pick", "mark") if LEVELS.knows(each)})


def look(
    scores: Sequence[str],
    first: str,
    seeds: Sequence[str],
    width: int,
    densest: int,
    pairs: Sequence[str],
    parents: int,
) -> Look:
    """How a level of so many fused neurons and parents is looked at, with these scores, seeds and pairs.

    Args:
        first: the score, and
        densest: the fused neuron, where the address names none.
    """
    return LEVELS.read(
        Look,
        [
            option("score", scores, first, "importance score of this run"),
            option("seed", seeds, "0", "seed of the grouping", of_run=True),
            option("neuron", list(map(str, range(width))), str(densest), "fused neuron of this level", of_run=True),
            option("pair", ["", *pairs], "", "pair of scores"),
            neurons.parameter("pick", parents),
            neurons.parameter("mark", parents),
        ],
    )


def followed(clusters: Sequence[str], largest: str) -> str:
    """The cluster whose members are followed to other scores, of these."""
    return LEVELS.one(option("cluster", clusters, largest, "cluster of this level"))
