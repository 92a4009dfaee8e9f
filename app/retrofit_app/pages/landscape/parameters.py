"""The page Landscape's parameters in the address: a landscape, how to draw it, and the form of the next one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from retrofit_app.address.readers import matching, one_of
from retrofit_app.address.rule import Parameter, amount, choice, declared, option
from retrofit_app.address.session import Scope
from retrofit_app.widgets.works import Shelf
from retrofit_core.runs import store

#: The form's choices of points per side and images: odd numbers of points centre the coarse picture.
RESOLUTIONS = {points: f"{points} × {points}" for points in ("5", "7", "11", "15", "21", "31", "51")}
IMAGES = ("32", "64", "128", "256", "512", "1024")
NONE = "none"
ALIGNMENTS = (NONE, "Git-Re-Basin", "OTFusion")
NORMS = ("estimated", "interpolated")
PATHS = ("0", "1", "2")
#: Help texts of the form's fields.
HELP = {
    "first": "The origin of the plane.",
    "second": "It is on the horizontal axis.",
    "third": "It is above that axis.",
    "align": "Adds each further parent with its neurons reordered by this method to match the first one's: the same "
    "function at another point. It takes longer.",
    "tuned": "Adds the fused network after one of this run's fine-tunings, which the page Fuse makes.",
    "resolution": "The coarse picture, 3 × 3, comes first.",
    "images": "Each point is measured on these, balanced over the classes.",
    "norms": (
        "Estimated: computed anew at every point, on the same images. Interpolated: mixed like the weights. "
        "Without BatchNorm both are the same."
    ),
    "seed": "Decides which images are drawn. Same seed, same picture.",
}


@dataclass(frozen=True)
class Drawing:
    """The shown landscape, and how to draw it."""

    map: str
    """Its key; "" if there is none"""
    path: str = declared("0", one_of(PATHS, "line between two networks"))
    """The shown line: between the first two networks, the first and the third, or the last two"""
    point: str = declared("", matching(r"\d{1,3}-\d{1,3}", "it is a row and a column, such as 3-7"), of_run=True)
    """Row and column of the clicked point; "" for none"""


@dataclass(frozen=True)
class LandscapeForm:
    """What the form asks."""

    first: str
    second: str
    third: str
    resolution: str = choice("15", RESOLUTIONS, "Points per side")
    images: str = choice("256", IMAGES, "Test images")
    norms: str = choice("estimated", NORMS, "BatchNorm")
    seed: int = amount(0, 0, 10**6, "Seed")


@dataclass(frozen=True)
class Among:
    """Further networks besides parents, average and fused network."""

    align: str
    """The method that aligns parents to the first one"""
    tuned: str
    """The key of one of the run's fine-tunings"""


LANDSCAPE = Scope("landscape")


def drawing(key: Parameter) -> Drawing:
    """The landscape that this parameter names."""
    return LANDSCAPE.read(Drawing, [key])


def among(tuned: Sequence[str]) -> tuple[str | None, str | None]:
    """The chosen alignment, and the chosen one of these fine-tunings."""
    align = option("align", ALIGNMENTS, NONE, "alignment")
    tuning = option("tuned", [NONE, *tuned], NONE, "fine-tuning of this run", of_run=True)
    chosen = LANDSCAPE.read(Among, [align, tuning])
    return (None if chosen.align == NONE else chosen.align), (None if chosen.tuned == NONE else chosen.tuned)


def form_values(names: Sequence[str]) -> LandscapeForm:
    """What to measure next, with at least three networks of these names."""
    usual = [name for name in ("parent 0", "parent 1", "fused", *names) if name in names]
    defaults = zip(("first", "second", "third"), dict.fromkeys(usual), strict=False)
    through = [option(name, names, default, "network of this run", of_run=True) for name, default in defaults]
    return LANDSCAPE.read(LandscapeForm, through)


def _config(settings: Mapping[str, Any]) -> Any:
    from retrofit_core.runs.landscapes import LandscapeConfig

    return LandscapeConfig.from_json(settings)


LANDSCAPES = Shelf(store.LANDSCAPE, "landscape", LANDSCAPE, "map", _config, elsewhere={"point": ""})
