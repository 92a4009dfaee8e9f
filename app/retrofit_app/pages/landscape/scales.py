"""In which colours and in which frame a landscape is drawn, so that two of them can be compared."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from retrofit_app import runs
from retrofit_app.figures.landscape import PAPER, Scale, extent_of, own_scale
from retrofit_app.runs import followups
from retrofit_app.shell import picker
from retrofit_core.runs.store import LANDSCAPE, Work

from . import parameters, readings


def others(entry: runs.Entry) -> dict[str, Work]:
    """The newest whole landscape of each other run, by the run's name."""
    newest = {}
    for other in picker.choice().entries:
        if other.state == "done" and other.name != entry.name:
            whole = [work for work in followups.works_of(other, LANDSCAPE) if work.state == "done"]
            newest |= {other.name: whole[0]} if whole else {}
    return newest


def scale(survey: Any, chosen: str, likes: Mapping[str, Work]) -> Scale:
    """The chosen one.

    Raises:
        ValueError: the other landscape is damaged.
    """
    if chosen == parameters.OWN:
        return own_scale(survey)
    if chosen.startswith(parameters.LIKE):
        other = readings.survey(likes[chosen.removeprefix(parameters.LIKE)])
        return replace(own_scale(other), extent=extent_of([survey, other]))
    return Scale()


def words(chosen: str) -> str:
    """A scale in the list."""
    if chosen.startswith(parameters.LIKE):
        return f"as in run {chosen.removeprefix(parameters.LIKE)}"
    return {parameters.PAPER: f"loss 0 to {PAPER:g}, as in the paper", parameters.OWN: "its own"}[chosen]
