"""Loss and accuracy on the plane through three networks.

Dark is good in both pictures: Viridis for the loss, reversed for the accuracy. Losses above the clip are hatched; cells not
measured yet are hatched crosswise.
"""

from typing import Any

import numpy as np

from ..drawing import NOTHING, Trace, axis, edge, line, mark, picture_of, scatter, targets
from ..palette import VIRIDIS, Palette
from ..picture import Picture
from ..words import lettered, percent
from .marks import networks
from .scale import KINDS, PAPER, capped, frame, interpolated, key_of
from .words import loss_words, place_words, plane_words

#: Points per side of the picture, interpolated between measured ones.
FINE, FINER = 61, 121
#: Points per side to hover over and click: more marks are slow to draw.
MARKS = 31
HEIGHT = 380  # px


def landscape_plane(
    survey: Any,
    kind: str,
    palette: Palette,
    *,
    path: tuple[str, str] | None = None,
    point: tuple[int, int] | None = None,
    hidden: bool = False,
) -> Picture:
    """Contours of the loss or the accuracy with the networks on them; for an unfinished landscape, its cells so far.

    Args:
        survey: a `landscape.Survey`.
        kind: "loss" or "accuracy".
        path: two networks to join by a line.
        point: row and column of a grid point that gets a ring.
        hidden: show the networks' names without numbers.
    """
    is_whole = bool(survey.finished.all())
    first, second, third = map(lettered, survey.through)
    bare: dict[str, Any] = {"showgrid": False, "nticks": 6}
    left, right, bottom, top = frame(survey)
    return picture_of(
        palette,
        [
            *(_contours if is_whole else _cells)(survey, kind, palette),
            *([] if path is None else _line(survey, path)),
            _targets(survey),
            *([] if point is None else [_ring(survey, point)]),
            *networks(survey, kind, hidden),
        ],
        HEIGHT,
        f"{'Contours' if is_whole else 'Unfinished picture'} of the {kind} on the plane through {first}, {second} and {third}",
        "" if hidden else plane_words(survey, kind),
        title=f"{kind.capitalize()} on the plane through {first}, {second} and {third}",
        margin=(4, 4, 8, 46),
        clickmode="event+select",
        hoverdistance=-1,  # the nearest point responds, however coarse the grid
        xaxis=axis(f"{first} → {second}", range=[left, right], **bare),
        yaxis=axis(f"towards {third} →", range=[bottom, top], automargin=True, **bare),
    )


def _contours(survey: Any, kind: str, palette: Palette) -> list[Trace]:
    low, high = KINDS[kind]
    xs, ys, values = interpolated(survey, kind, FINE)
    contours = {
        **_coloured("contour", xs, ys, np.clip(values, low, high), kind, palette),
        "autocontour": False,
        "contours": {"start": low, "end": high, "size": (high - low) / 20},
        "line": edge("rgba(255,255,255,.5)", 0.5),
    }
    if kind != "loss":
        return [contours]
    xs, ys, values = interpolated(survey, kind, FINER)
    return [contours, *_hatch(xs, ys, values > PAPER, "/", "rgba(0,0,0,.75)")]


def _cells(survey: Any, kind: str, palette: Palette) -> list[Trace]:
    """Every cell in the colour of the nearest measured one; unmeasured cells are hatched."""
    finished = survey.finished.numpy()
    xs, ys = survey.xs.numpy(), survey.ys.numpy()
    if not finished.any():
        return _hatch(xs, ys, ~finished, "x", palette.muted)
    rows, columns = np.nonzero(finished)
    grid = np.indices(finished.shape).reshape(2, -1).T
    nearest = np.square(grid[:, None] - np.stack([rows, columns], 1)[None]).sum(2).argmin(1)
    values = capped(getattr(survey, kind).numpy())[rows, columns][nearest].reshape(finished.shape)
    measured = _coloured("heatmap", xs, ys, values, kind, palette)
    return [measured, *_hatch(xs, ys, ~finished, "x", "rgba(255,255,255,.85)")]


def _coloured(form: str, xs: np.ndarray, ys: np.ndarray, values: np.ndarray, kind: str, palette: Palette) -> Trace:
    """Values (ys, xs) in the scale's colours: contours or a heat map."""
    low, high = KINDS[kind]
    return {
        "type": form,
        "x": xs.tolist(),
        "y": ys.tolist(),
        "z": values.tolist(),
        "zmin": low,
        "zmax": high,
        "colorscale": VIRIDIS,
        "reversescale": kind == "accuracy",
        "colorbar": key_of(kind, palette),
        "hoverinfo": "skip",
    }


def _hatch(xs: np.ndarray, ys: np.ndarray, mask: np.ndarray, shape: str, colour: str) -> list[Trace]:
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
    pattern = {"shape": shape, "fgcolor": colour, "bgcolor": NOTHING, "size": 9, "solidity": 0.15}
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
    """Targets over the grid: contours can neither be clicked nor show two values at once."""
    step = -(-len(survey.xs) // MARKS)
    points = [
        (row, column) for row, column in survey.finished.nonzero().tolist() if not row % step and not column % step
    ]
    tips = []
    for row, column in points:
        loss, accuracy = float(survey.loss[row, column]), float(survey.accuracy[row, column])
        where = place_words(survey, float(survey.xs[column]), float(survey.ys[row]))
        tips.append(f"loss {loss_words(loss)}, accuracy {percent(accuracy)}<br>{where}")
    x, y = [float(survey.xs[column]) for _, column in points], [float(survey.ys[row]) for row, _ in points]
    return targets(x, y, 16, tips, customdata=[list(point) for point in points])


def _ring(survey: Any, point: tuple[int, int]) -> Trace:
    row, column = point
    x, y = [float(survey.xs[column])], [float(survey.ys[row])]
    return scatter(
        x, y, "markers", marker=mark("circle", 16, NOTHING, "#FFFFFF", 3), unselected={"marker": {"opacity": 1}}
    )
