"""Pictures of a run's levels, drawn once per run, level, score and theme."""

from typing import Any

from retrofit_app import figures, runs
from retrofit_app.figures import Palette, Picture
from retrofit_app.models.keep import keep

from .readings import analysis, grouping, overview, record


@keep(300)
def picture(entry: runs.Entry, kind: str, palette: Palette, level: int = 0, **options: Any) -> Picture:
    """A picture of a run's levels.

    Args:
        options: arguments of this kind of picture; all take `large`, the height for a projector and how much larger
            everything is than on a page of 720 px.
    """
    large = options.pop("large", None)
    drawn = _drawn(entry, kind, level, palette, options)
    return figures.enlarged(drawn, *large) if large else drawn


def _drawn(entry: Any, kind: str, level: int, palette: Palette, chosen: dict[str, Any]) -> Picture:
    if kind == "strip":
        levels = overview(entry)
        return figures.level_losses(levels.table, levels.course, palette, level)
    if kind == "agreement":
        return figures.agreement_matrix(analysis(entry).levels[level].agreement, palette, **chosen)
    if kind in ("ribbon", "clusters"):
        grouped, run = grouping(entry, level, chosen.pop("score")), grouping(entry, level)
        return getattr(figures, kind)(grouped, palette, reference=run, height=360, **chosen)
    report = record(entry).levels[level]
    if kind == "curve":
        return figures.loss_curve(report.curve, palette, **chosen)
    if kind == "residual":
        return figures.residual_bars(report, palette, overview(entry).table["form"].iloc[level])
    if kind == "activations":
        return figures.activations(grouping(entry, level), palette, height=400)
    if kind == "scores":
        grouped = grouping(entry, level, chosen.pop("score", None), chosen.pop("seed", 0))
        return figures.score_histogram(grouped, chosen["name"], palette)
    level_analysis = analysis(entry).levels[level]
    if kind == "plane":
        return figures.loss_plane(level_analysis.plane, palette, overview(entry).table["form"].iloc[level])
    neuron = chosen["neuron"]
    return figures.fit_scatter(
        level_analysis.targets[:, neuron].double().numpy(),
        level_analysis.outputs[:, neuron].double().numpy(),
        f"Fused neuron {neuron}",
        palette,
    )
