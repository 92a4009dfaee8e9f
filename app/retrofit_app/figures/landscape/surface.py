"""The plane as a relief: height is the loss or the accuracy, cut off flat and grey where the loss is clipped."""

from typing import Any

import numpy as np

from ..drawing import Trace, drawn, line, mark, scatter
from ..palette import DARK, FONT, TEXT, VIRIDIS, Palette
from ..picture import Picture
from ..words import lettered, listing
from .marks import shape
from .scale import Scale, interpolated, key_of
from .words import plane_words, short, values_words

#: Points per side, interpolated between measured ones.
POINTS = 61
HEIGHT = 420  # px
#: The light and dark theme's grey above the clip.
CUT = ("#B8B8B2", "#4A4A47")
#: The viewpoint: the first network's side, from above.
EYE = {"x": -0.95, "y": -1.5, "z": 1.15}
#: px from a network up to its name, px more if another is near, and how near, as a share of the plane's width.
LEAST, STEP, NEAR = 34, 26, 0.3
#: Plotly has fewer marks in space than in the plane.
IN_SPACE = {"triangle-up": "diamond", "pentagon": "circle", "star": "diamond", "star-diamond": "diamond-open"}


def landscape_surface(
    survey: Any,
    kind: str,
    palette: Palette,
    scale: Scale | None = None,
    *,
    path: tuple[str, str] | None = None,
    ratio: float = 1.0,
    hidden: bool = False,
) -> Picture:
    """A relief of the loss or the accuracy with the networks on it, to turn by hand.

    Args:
        survey: a `landscape.Survey` with a finished grid.
        kind: "loss" or "accuracy".
        path: two networks to join by a line, if it is measured.
        ratio: how much its text will be enlarged, see `enlarged`; names are further apart by the same factor.
        hidden: show the networks' names without numbers.
    """
    scale = scale or Scale()
    low, high = getattr(scale, kind)
    xs, ys, values = interpolated(survey, kind, POINTS)
    grid = {"type": "surface", "x": xs.tolist(), "y": ys.tolist(), "hoverinfo": "skip"}
    lines = {"show": True, "start": low, "end": high, "size": (high - low) / 10, "color": "rgba(255,255,255,.45)"}
    relief = {
        **grid,
        "z": np.clip(values, low, high).tolist(),
        "cmin": low,
        "cmax": high,
        "colorscale": VIRIDIS,
        "reversescale": kind == "accuracy",
        "colorbar": {**key_of(kind, scale, palette), "len": 0.8},
        "contours": {"z": lines},
        "lighting": {"ambient": 0.75, "diffuse": 0.5, "specular": 0.05},
    }
    traces = [relief]
    above = values > scale.clip if kind == "loss" and scale.clip is not None else np.zeros_like(values, dtype=bool)
    if above.any():
        cut = {
            **grid,
            # A little above the colours, so that neither shows through.
            "z": np.where(above, high + 0.004 * (high - low), np.nan).tolist(),
            "colorscale": [[end, CUT[palette is DARK]] for end in (0, 1)],
            "showscale": False,
            "lighting": {"ambient": 0.9, "diffuse": 0.2, "specular": 0},
        }
        traces.append(cut)
    # Each network at its own value, a little higher so that the relief does not hide half of the mark.
    tops = [min(max(getattr(marker, kind), low), high) + 0.015 * (high - low) for marker in survey.markers]
    # Axes without text: the colour key and the networks give heights, the flat picture distances.
    bare = {"showbackground": False, "gridcolor": palette.line, "zeroline": False, "showticklabels": False, "nticks": 5}
    bare |= {"title": {"text": ""}, "showspikes": False}
    return drawn(
        palette,
        [*traces, *_line(survey, kind, path, (low, high)), _networks(survey, tops, palette)],
        HEIGHT,
        f"Relief of the {kind} on the plane through {listing([lettered(name) for name in survey.through])}",
        "" if hidden else plane_words(survey, kind, scale).replace("Hatched: ", "Cut off flat and grey: "),
        margin=(0, 0, 0, 8),
        dragmode="turntable",
        uirevision="surface",
        scene={
            "xaxis": bare,
            "yaxis": bare,
            "zaxis": {**bare, "range": [low, high + 0.02 * (high - low)]},
            "camera": {"eye": EYE, "center": {"x": 0, "y": 0, "z": -0.08}},
            "aspectmode": "manual",
            "aspectratio": {"x": 1.25, "y": 1.25 * _ratio(survey), "z": 0.75},
            "annotations": _names(survey, kind, tops, palette, ratio, hidden),
        },
    )


def _ratio(survey: Any) -> float:
    """The plane's height over its width, limited to 0.5 to 2."""
    width, height = (float(ends[-1] - ends[0]) for ends in (survey.xs, survey.ys))
    return min(max(height / width, 0.5), 2.0)


def _line(survey: Any, kind: str, path: tuple[str, str] | None, ends: tuple[float, float]) -> list[Trace]:
    """The line between two networks at its measured values, a little above the relief."""
    (low, high), corners = ends, {marker.name: marker for marker in survey.markers}
    measured = next((each for each in survey.paths if (each.first, each.last) == path), None)
    if measured is None:
        return []
    first, last = corners[measured.first], corners[measured.last]
    t, values = np.array(measured.t), np.array(getattr(measured, kind))
    z = (np.clip(values, low, high) + 0.012 * (high - low)).tolist()
    return [
        line(first.x + t * (last.x - first.x), first.y + t * (last.y - first.y), "#FFFFFF", 7, type="scatter3d", z=z)
    ]


def _networks(survey: Any, heights: list[float], palette: Palette) -> Trace:
    """A mark for each network."""
    marks = mark(
        [IN_SPACE.get(shape(marker.name), shape(marker.name)) for marker in survey.markers],
        6,
        ["#FFFFFF" if survey.is_on_plane(marker) else palette.grey for marker in survey.markers],
        "#000000",
        2,
    )
    x, y = [marker.x for marker in survey.markers], [marker.y for marker in survey.markers]
    return scatter(x, y, "markers", type="scatter3d", z=heights, marker=marks)


def _names(
    survey: Any, kind: str, heights: list[float], palette: Palette, ratio: float, hidden: bool
) -> list[dict[str, Any]]:
    """Each network's name and value above its mark, on its own background, so that no hill hides it; near ones apart."""
    width = float(survey.xs[-1] - survey.xs[0])
    lengths: list[int] = []
    for index, marker in enumerate(survey.markers):
        near = [
            lengths[other]
            for other, before in enumerate(survey.markers[:index])
            if abs(before.x - marker.x) + abs(before.y - marker.y) < NEAR * width
        ]
        lengths.append(max(near) + STEP if near else LEAST)
    return [
        {
            "x": marker.x,
            "y": marker.y,
            "z": height,
            "text": f"<b>{short(marker.name)}</b>"
            + ("" if hidden else f" {values_words(kind, getattr(marker, kind))}")
            + ("" if survey.is_on_plane(marker) else ", off the plane"),
            "font": {"color": palette.ink, "size": TEXT, "family": FONT},
            "bgcolor": palette.paper,
            "opacity": 0.9,
            "borderpad": 2,
            "ax": 0,
            "ay": -round(length * ratio),
            "arrowhead": 0,
            "arrowwidth": 1.5,
            "arrowcolor": palette.ink,
        }
        for marker, height, length in zip(survey.markers, heights, lengths, strict=True)
    ]
