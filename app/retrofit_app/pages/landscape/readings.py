"""What the page reads: surveys, a run's networks, what a landscape evaluates."""

from typing import Any

import pandas as pd

from retrofit_app import runs
from retrofit_app.figures import lettered
from retrofit_app.models.keep import keep
from retrofit_app.runs import followups
from retrofit_core.runs.store import FINETUNING, Work


@keep(32)
def survey_of(work: Work) -> Any:
    """A landscape so far, a `landscape.Survey`.

    Raises:
        ValueError: it is damaged.
    """
    from retrofit_core.inspection.landscape import Survey

    try:
        return Survey.load(work.folder)
    except ValueError as error:
        raise ValueError(runs.without_folders(error, work.folder.parent)) from error


@keep(2, "Reading the networks…")
def material(entry: runs.Entry, tuned: str | None = None) -> Any:
    """A run's networks and images, a `runs.finished.Finished`.

    Args:
        tuned: the key of a fine-tuning whose network to include.
    Raises:
        ValueError: they have no common plane, or a file is missing or has changed.
    """
    from retrofit_core.runs.finetunings import read_tuned
    from retrofit_core.runs.landscapes import material_of

    try:
        network = read_tuned(followups.work_at(entry, FINETUNING, tuned).folder) if tuned else None
        return material_of(entry.folder, network, base=entry.base)
    except ValueError as error:
        raise ValueError(runs.without_folders(error)) from error


def names(entry: runs.Entry, align: str | None, tuned: str | None) -> list[str]:
    """A run's networks that can span a plane.

    Raises:
        ValueError: as `material`.
    """
    networks = list(material(entry, tuned).networks)
    parents = [name for name in networks if name.startswith("parent ")]
    return networks + ([f"aligned {name}" for name in parents[1:]] if align else [])


def evaluations(entry: runs.Entry, config: Any) -> dict[str, int]:
    """Purpose -> number of points in weight space; checks the plane unless a network has to be aligned first.

    Raises:
        ValueError: three networks on a line, too few images, or networks that cannot take these images.
    """
    of_run = list(material(entry, config.tuned).networks)
    spanning = config.through
    if not set(spanning) <= set(of_run):
        spanning = tuple([*(name for name in ("parent 0", "parent 1", "fused") if name in of_run), *of_run][:3])
    landscape = config.landscape
    _check(entry, spanning, landscape.images, config.tuned)
    networks = len(of_run) + (sum(name.startswith("parent ") for name in of_run) - 1 if config.align else 0)
    return {
        "networks": networks,
        "the grid": landscape.resolution**2,
        "the lines": 3 * landscape.path_points,
        "flatness": networks * (landscape.directions + 1),
    }


@keep(64, "Checking the plane…")
def _check(entry: runs.Entry, through: tuple[str, ...], images: int, tuned: str | None) -> None:
    from retrofit_core.inspection.landscape import Landscape

    shared = material(entry, tuned)
    Landscape(resolution=2, images=images).plan(shared.networks, through, shared.images(), device="cpu")


# --- tables ---------------------------------------------------------------------------------------


def network_table(survey: Any) -> pd.DataFrame:
    """Each network's loss, accuracy, distance off the plane and flatness."""
    rises = {rise.name: rise for rise in survey.rises}
    nothing = float("nan")
    return pd.DataFrame(
        [
            {
                "network": lettered(marker.name),
                "loss": marker.loss,
                "accuracy %": marker.accuracy,
                "off the plane": 0.0 if survey.is_on_plane(marker) else marker.distance,
                "mean rise": rises[marker.name].mean if marker.name in rises else nothing,
                "largest rise": rises[marker.name].most if marker.name in rises else nothing,
            }
            for marker in survey.markers
        ]
    )
