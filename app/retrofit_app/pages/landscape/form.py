"""The landscapes of a run in the address, and the form of the next one: plane, resolution, images."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import streamlit as st

from retrofit_app import runs
from retrofit_app.address.rule import Control, amount, choice, option
from retrofit_app.address.session import Scope
from retrofit_app.figures import lettered
from retrofit_app.figures.landscape import short
from retrofit_app.models.keep import keep
from retrofit_app.widgets import controls
from retrofit_app.widgets.works import Shelf
from retrofit_core.runs import store
from retrofit_core.runs.store import Work

#: The form's choices of points per side and images.
RESOLUTIONS = {points: f"{points} × {points}" for points in ("5", "7", "11", "15", "21", "31", "51")}
IMAGES = ("32", "64", "128", "256", "512", "1024")
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
class LandscapeForm:
    """What the form asks."""

    first: str
    second: str
    third: str
    resolution: str = choice("15", RESOLUTIONS, "Points per side")
    images: str = choice("256", IMAGES, "Test images")
    seed: int = amount(0, 0, 10**6, "Seed")


def _config(settings: Mapping[str, Any]) -> Any:
    from retrofit_core.runs.landscapes import LandscapeConfig

    return LandscapeConfig.from_json(settings)


def _title(work: Work) -> str:
    facts, spanning = work.settings["landscape"], ", ".join(map(short, work.settings["through"]))
    return f"{spanning} · {facts['resolution']}² points, {facts['images']} images, seed {facts['seed']}"


LANDSCAPE = Scope("landscape")
LANDSCAPES = Shelf(
    store.LANDSCAPE,
    LANDSCAPE,
    "map",
    _config,
    _title,
    "nothing of it is shown",
    "Measure again",
    " --clip 4.6 --out landscape",
)


def asked(entry: runs.Entry) -> tuple[Any, str]:
    """Draw the choice of three networks and of the measurement; return the `LandscapeConfig`, and what it takes.

    Raises:
        ValueError: the run has no such plane.
    """
    from retrofit_core.inspection.landscape import Landscape
    from retrofit_core.runs.landscapes import LandscapeConfig

    names = list(material(entry).networks)
    if len(names) < 3:
        raise ValueError(f"a plane needs three networks, and this run has {len(names)}.")
    usual = [name for name in ("parent 0", "parent 1", "fused", *names) if name in names]
    labels = {"first": "From", "second": "to", "third": "and through"}
    through = [
        option(name, names, default, "network of this run", of_run=True)
        for name, default in zip(labels, dict.fromkeys(usual), strict=False)
    ]
    form = LANDSCAPE.read(LandscapeForm, through)
    for column, (name, label) in zip(st.columns(3), labels.items(), strict=True):
        with column:
            controls.draw(LANDSCAPE, name, Control(label, options=names, words=lettered), HELP[name])
    for column, name in zip(st.columns(3), ("resolution", "images", "seed"), strict=True):
        with column:
            controls.ask(LANDSCAPE, HELP, name)
    measured = Landscape(resolution=int(form.resolution), images=int(form.images), seed=form.seed)
    config = LandscapeConfig((form.first, form.second, form.third), landscape=measured)
    count = evaluations(entry, config.through, config.landscape)
    return config, f"**{count} evaluations** of {config.landscape.images} images each."


@keep(2, "Reading the networks…")
def material(entry: runs.Entry) -> Any:
    """A run's networks and images, a `runs.finished.Finished`.

    Raises:
        ValueError: they have no common plane, or a file is missing or has changed.
    """
    from retrofit_core.runs.landscapes import material_of

    try:
        return material_of(entry.folder, base=entry.base)
    except ValueError as error:
        raise ValueError(runs.without_folders(error)) from error


@keep(64, "Checking the plane…")
def evaluations(entry: runs.Entry, through: tuple[str, ...], landscape: Any) -> int:
    """The number of points in weight space.

    Raises:
        ValueError: not three networks, or three on a line; too few images, or networks that cannot take these images.
    """
    shared = material(entry)
    return sum(landscape.plan(shared.networks, through, shared.images(), device="cpu").evaluations.values())
