"""What the page reads: surveys, a run's networks, how many points a landscape has."""

from typing import Any

from retrofit_app import runs
from retrofit_app.models.keep import keep
from retrofit_core.runs.store import Work


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
