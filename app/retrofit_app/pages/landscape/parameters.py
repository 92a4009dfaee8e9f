"""What the page Landscape shows, as its address says it: a landscape and how it is drawn, and the form of the next one."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from retrofit_app.address.readers import whole
from retrofit_app.address.rule import Parameter, flag, option
from retrofit_app.address.session import Scope

LANDSCAPE = Scope("landscape")
#: Points a side and images that the form offers: odd numbers of points have their coarse picture in the middle.
RESOLUTIONS = ("5", "7", "11", "15", "21", "31", "51")
IMAGES = ("32", "64", "128", "256", "512", "1024")
NONE = "none"
ALIGNMENTS = (NONE, "Git-Re-Basin", "OTFusion")
NORMS = ("estimated", "interpolated")
#: The colours of the paper's figure, and those of one landscape alone; all others are those of a run, LIKE and its name.
PAPER, OWN, LIKE = "paper", "own", "as "
PATHS = ("0", "1", "2")


@dataclass(frozen=True)
class Shown:
    """Which landscape is shown, and how."""

    map: str
    """Its key; "" where there is none"""
    scale: str
    path: str
    """The line that is looked at: the first two networks, the first and the third, the last two"""
    point: str
    """Row and column of a point that was clicked; "" for none"""
    relief: bool
    """Whether the planes are drawn in space"""
    lecture: bool
    """On a projector: the planes alone"""


@dataclass(frozen=True)
class Asked:
    """What the form asks for."""

    first: str
    second: str
    third: str
    resolution: str
    images: str
    norms: str
    seed: int


@dataclass(frozen=True)
class Among:
    """Which networks are there beside parents, average and fused network."""

    align: str
    """Whose alignment to the first parent aligned parents have"""
    tuned: str
    """The key of a fine-tuning of the run"""


def shown(keys: Sequence[str], is_going: Callable[[str], bool], likes: Sequence[str]) -> Shown:
    """The landscape, of these keys or one that has just been started, and its colours.

    Args:
        likes: names of runs whose landscapes lend their colours.
    """

    def key(text: str) -> str:
        if text not in keys and not (re.fullmatch(r"[0-9a-f]{10}", text) and is_going(text)):
            raise ValueError("no such landscape of this run")
        return text

    def cell(text: str) -> str:
        if text and not re.fullmatch(r"\d{1,3}-\d{1,3}", text):
            raise ValueError("it is a row and a column, such as 3-7")
        return text

    return LANDSCAPE.read(
        Shown,
        [
            Parameter("map", keys[0] if keys else "", key, of_run=True),
            option("scale", [PAPER, OWN, *(LIKE + name for name in likes)], PAPER, "scale of colours"),
            option("path", PATHS, "0", "line between two networks"),
            Parameter("point", "", cell, of_run=True),
            flag("relief", "relief"),
            flag("lecture", "lecture mode"),
        ],
    )


def among(tuned: Sequence[str]) -> tuple[str | None, str | None]:
    """The chosen alignment, and the chosen fine-tuning of these keys."""
    chosen = LANDSCAPE.read(
        Among,
        [
            option("align", ALIGNMENTS, NONE, "alignment"),
            option("tuned", [NONE, *tuned], NONE, "fine-tuning of this run", of_run=True),
        ],
    )
    return tuple(None if value == NONE else value for value in (chosen.align, chosen.tuned))  # type: ignore[return-value]


def asked(names: Sequence[str]) -> Asked:
    """What is to be measured next, of the networks of these names; at least three of them."""
    usual = [name for name in ("parent 0", "parent 1", "fused", *names) if name in names]
    first, second, third = list(dict.fromkeys(usual))[:3]
    return LANDSCAPE.read(
        Asked,
        [
            option("first", names, first, "network of this run", of_run=True),
            option("second", names, second, "network of this run", of_run=True),
            option("third", names, third, "network of this run", of_run=True),
            option("resolution", RESOLUTIONS, "15", "number of points"),
            option("images", IMAGES, "256", "number of images"),
            option("norms", NORMS, "estimated", "handling of BatchNorm"),
            Parameter("seed", 0, whole(0, 10**6)),
        ],
    )
