"""Loss and accuracy on the plane through three networks.

Dark is good in both pictures: Viridis for the loss, reversed for the accuracy. Losses above the clip are hatched.
"""

from typing import Any

import numpy as np

from ..drawing import NOTHING, Trace, axis, edge, line, picture_of, scatter, targets
from ..palette import VIRIDIS, Palette
from ..picture import Picture
from ..words import lettered, percent
from .marks import networks
from .scale import KINDS, PAPER, frame, interpolated, key_of
from .words import loss_words, place_words, plane_words

#: Points per side of the picture, interpolated between measured ones.
FINE, FINER = 61, 121
#: Points per side to hover over: more marks are slow to draw.
MARKS = 31
HEIGHT = 380  # px


def landscape_plane(
    survey: Any,
    kind: str,
    palette: Palette,
    *,
    path: tuple[str, str] | None = None,
    hidden: bool = False,
) -> Picture:
    """Contours of the loss or the accuracy with the networks on them.

    Args:
        survey: a whole `landscape.Survey`.
        kind: "loss" or "accuracy".
        path: two networks to join by a line.
        hidden: show the networks' names without numbers.
    """
    first, second, third = map(lettered, survey.through)
    bare: dict[str, Any] = {"showgrid": False, "nticks": 6}
    left, right, bottom, top = frame(survey)
    return picture_of(
        palette,
        [
            *_contours(survey, kind, palette),
            *([] if path is None else _line(survey, path)),
            _targets(survey),
            *networks(survey, kind, hidden),
        ],
        HEIGHT,
        f"Contours of the {kind} on the plane through {first}, {second} and {third}",
        "" if hidden else plane_words(survey, kind),
        title=f"{kind.capitalize()} on the plane through {first}, {second} and {third}",
        margin=(4, 4, 8, 46),
        hoverdistance=-1,  # the nearest point responds, however coarse the grid
        xaxis=axis(f"{first} → {second}", range=[left, right], **bare),
        yaxis=axis(f"towards {third} →", range=[bottom, top], automargin=True, **bare),
    )


def _contours(survey: Any, kind: str, palette: Palette) -> list[Trace]:
    low, high = KINDS[kind]
    xs, ys, values = interpolated(survey, kind, FINE)
    contours = {
        "type": "contour",
        "x": xs.tolist(),
        "y": ys.tolist(),
        "z": np.clip(values, low, high).tolist(),
        "zmin": low,
        "zmax": high,
        "colorscale": VIRIDIS,
        "reversescale": kind == "accuracy",
        "colorbar": key_of(kind, palette),
        "hoverinfo": "skip",
        "autocontour": False,
        "contours": {"start": low, "end": high, "size": (high - low) / 20},
        "line": edge("rgba(255,255,255,.5)", 0.5),
    }
    if kind != "loss":
        return [contours]
    xs, ys, values = interpolated(survey, kind, FINER)
    return [contours, *_hatch(xs, ys, values > PAPER)]


def _hatch(xs: np.ndarray, ys: np.ndarray, mask: np.ndarray) -> list[Trace]:
    """Hatching over a mask's cells; neighbours in a row form one rectangle."""
    if not mask.any():
        return []
    across, up = _edges(xs), _edges(ys)
    x: list[float | None] = []
    y: list[float | None] = []
    for row in range(len(ys)):
        ends = np.flatnonzero(np.diff(np.concatenate([[0], mask[row].astype(int), [0]])))
        for begin, end in zip(ends[::2], ends[1::2], strict=True):
            left, right, bottom, top = across[begin], across[end], up[row], up[row + 1]
            x += [left, right, right, left, left, None]
            y += [bottom, bottom, top, top, bottom, None]
    pattern = {"shape": "/", "fgcolor": "rgba(0,0,0,.75)", "bgcolor": NOTHING, "size": 9, "solidity": 0.15}
    return [scatter(x[:-1], y[:-1], "none", fill="toself", fillcolor=NOTHING, fillpattern=pattern)]


def _edges(centres: np.ndarray) -> np.ndarray:
    """Edges halfway between cells; the outer ones at the outer cells' centres, where the grid ends."""
    middles = (centres[1:] + centres[:-1]) / 2
    return np.concatenate([centres[:1], middles, centres[-1:]])


def _line(survey: Any, path: tuple[str, str]) -> list[Trace]:
    """The line whose losses are shown below."""
    ends = [marker for name in path for marker in survey.markers if marker.name == name]
    if len(ends) < 2:
        return []
    x, y = [end.x for end in ends], [end.y for end in ends]
    return [line(x, y, "rgba(0,0,0,.8)", 5), line(x, y, "#FFFFFF", 2.5, "dash")]


def _targets(survey: Any) -> Trace:
    """Targets over the grid: contours cannot show two values at once."""
    rows, columns = (range(0, len(ends), -(-len(ends) // MARKS)) for ends in (survey.ys, survey.xs))
    points = [(row, column) for row in rows for column in columns]
    tips = []
    for row, column in points:
        loss, accuracy = float(survey.loss[row, column]), float(survey.accuracy[row, column])
        where = place_words(survey, float(survey.xs[column]), float(survey.ys[row]))
        tips.append(f"loss {loss_words(loss)}, accuracy {percent(accuracy)}<br>{where}")
    x, y = [float(survey.xs[column]) for _, column in points], [float(survey.ys[row]) for row, _ in points]
    return targets(x, y, 16, tips)
