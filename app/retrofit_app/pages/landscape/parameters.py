"""The page Landscape's parameters in the address: a landscape, how to draw it, and the form of the next one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from retrofit_app.address.readers import one_of
from retrofit_app.address.rule import Parameter, amount, choice, declared, option
from retrofit_app.address.session import Scope
from retrofit_app.widgets.works import Shelf
from retrofit_core.runs import store

#: The form's choices of points per side and images.
RESOLUTIONS = {points: f"{points} × {points}" for points in ("5", "7", "11", "15", "21", "31", "51")}
IMAGES = ("32", "64", "128", "256", "512", "1024")
PATHS = ("0", "1", "2")
#: Help texts of the form's fields.
HELP = {
    "first": "The origin of the plane.",
    "second": "It is on the horizontal axis.",
    "third": "It is above that axis.",
    "resolution": "Points along each side of the picture.",
    "images": "Each point is measured on these, balanced over the classes.",
    "seed": "Decides which images are drawn. Same seed, same picture.",
}


@dataclass(frozen=True)
class Drawing:
    """The shown landscape, and how to draw it."""

    map: str
    """Its key; "" if there is none"""
    path: str = declared("0", one_of(PATHS, "line between two networks"))
    """The shown line: between the first two networks, the first and the third, or the last two"""


@dataclass(frozen=True)
class LandscapeForm:
    """What the form asks."""

    first: str
    second: str
    third: str
    resolution: str = choice("15", RESOLUTIONS, "Points per side")
    images: str = choice("256", IMAGES, "Test images")
    seed: int = amount(0, 0, 10**6, "Seed")


LANDSCAPE = Scope("landscape")


def drawing(key: Parameter) -> Drawing:
    """The landscape that this parameter names."""
    return LANDSCAPE.read(Drawing, [key])


def form_values(names: Sequence[str]) -> LandscapeForm:
    """What to measure next, with at least three networks of these names."""
    usual = [name for name in ("parent 0", "parent 1", "fused", *names) if name in names]
    defaults = zip(("first", "second", "third"), dict.fromkeys(usual), strict=False)
    through = [option(name, names, default, "network of this run", of_run=True) for name, default in defaults]
    return LANDSCAPE.read(LandscapeForm, through)


def _config(settings: Mapping[str, Any]) -> Any:
    from retrofit_core.runs.landscapes import LandscapeConfig

    return LandscapeConfig.from_json(settings)


LANDSCAPES = Shelf(store.LANDSCAPE, "landscape", LANDSCAPE, "map", _config)
