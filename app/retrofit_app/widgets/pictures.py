"""Charts of a run as values: the question that each answers and how it is drawn; drawn once per run, level and theme."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from retrofit_app import figures, runs
from retrofit_app.figures import Palette, Picture
from retrofit_app.figures.ingredients import two_by_two
from retrofit_app.models.keep import keep
from retrofit_app.models.outputs import outputs
from retrofit_app.runs import ingredients
from retrofit_core.runs.store import Work

from .readings import analysis, grouping, overview, record, survey


@dataclass(frozen=True)
class Chart:
    """A chart of a run, of one of its levels, or of one of its landscapes."""

    question: str
    draw: Callable[..., Picture]
    """From a run, a level (from 0) and a palette, with options of its own"""


def _losses(entry: runs.Entry, level: int, palette: Palette) -> Picture:
    levels = overview(entry)
    return figures.level_losses(levels.table, levels.course, palette, level)


def _fit(entry: runs.Entry, level: int, palette: Palette, neuron: int) -> Picture:
    of_level = analysis(entry).levels[level]
    targets, outputs = (each[:, neuron].double().numpy() for each in (of_level.targets, of_level.outputs))
    return figures.fit_scatter(targets, outputs, f"Fused neuron {neuron}", palette)


def _members(entry: runs.Entry, level: int, palette: Palette, neuron: int) -> Picture:
    return figures.members_and_target(grouping(entry, level), neuron, outputs(entry, level), palette)


def _plane(kind: str, entry: runs.Entry, level: int, palette: Palette, work: Work, **look: Any) -> Picture:
    return figures.landscape_plane(survey(work), kind, palette, **look)


def _path(entry: runs.Entry, level: int, palette: Palette, work: Work, line: int) -> Picture:
    return figures.loss_path(survey(work).paths[line], palette)


CHARTS = {
    "ingredients": Chart(
        "What does each ingredient bring?", lambda entry, level, palette: two_by_two(*ingredients.read(entry), palette)
    ),
    "levels": Chart("Where is knowledge lost?", _losses),
    "activations": Chart(
        "Who responds alike?",
        lambda entry, level, palette: figures.activations(grouping(entry, level), palette, height=400),
    ),
    "scores": Chart(
        "How much does each neuron count?",
        lambda entry, level, palette, score: figures.score_histogram(
            grouping(entry, level, score), figures.title(score), palette
        ),
    ),
    "ribbon": Chart(
        "Which network's neurons does each group merge?",
        lambda entry, level, palette, score: figures.ribbon(
            grouping(entry, level, score), palette, grouping(entry, level)
        ),
    ),
    "clusters": Chart(
        "Which neurons does each group merge?",
        lambda entry, level, palette, score=None: figures.clusters(
            grouping(entry, level, score), palette, height=360, reference=grouping(entry, level)
        ),
    ),
    "members": Chart("What do a group's members put out, and what is their weighted mean?", _members),
    "curve": Chart(
        "How did the fit go?",
        lambda entry, level, palette: figures.loss_curve(record(entry).levels[level].curve, palette),
    ),
    "fit": Chart("Does it reach its target?", _fit),
    "loss": Chart("Where is the loss low (dark)?", partial(_plane, "loss")),
    "accuracy": Chart("Where is the accuracy high (dark)?", partial(_plane, "accuracy")),
    "path": Chart("Does the loss rise on the straight line between two networks?", _path),
}


@keep(300, of_data=True)
def picture(
    entry: runs.Entry,
    name: str,
    palette: Palette,
    level: int = 0,
    large: tuple[int, float] | None = None,
    **options: Any,
) -> Picture:
    """One of CHARTS of a run, or of its level.

    Args:
        large: the height for a projector, and how much larger everything is than on a page of 720 px.
        options: the chart's own.
    """
    drawn = CHARTS[name].draw(entry, level, palette, **options)
    return figures.enlarged(drawn, *large) if large else drawn
