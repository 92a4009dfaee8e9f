"""Loss and accuracy on the plane through three networks.

Dark is good in both pictures: Cividis for the loss, the same reversed for the accuracy. What lies above the clip is hatched
and not coloured as if it were known; cells that are not measured yet are hatched the other way.
"""

from typing import Any

import numpy as np
import plotly.graph_objects as go

from ..palette import Palette
from ..picture import Picture, axis, layout, listing, percent, titled
from .grid import capped, interpolated
from .marks import draw_networks
from .scale import CIVIDIS, Scale, colour_key, frame
from .words import loss_words, place_words, plane_words, who

#: Points a side of what is drawn, interpolated between those that were measured.
FINE, FINER = 61, 121
#: Points a side that can be hovered over and clicked: more marks are slow to draw.
MARKS = 31
HEIGHT = 380  # px


def landscape_plane(
    survey: Any,
    kind: str,
    palette: Palette,
    scale: Scale | None = None,
    *,
    path: tuple[str, str] | None = None,
    point: tuple[int, int] | None = None,
) -> Picture:
    """Contours of the loss or the accuracy with the networks on them; of an unfinished landscape its cells so far.

    Args:
        survey: a `landscape.Survey`.
        kind: "loss" or "accuracy".
        path: the networks between which a line is drawn.
        point: row and column of a point of the grid that gets a ring.
    """
    scale = scale or Scale()
    figure = go.Figure()
    is_whole = bool(survey.finished.all())
    (_draw_contours if is_whole else _draw_cells)(figure, survey, kind, scale, palette)
    if path is not None:
        _draw_line(figure, survey, path)
    _draw_targets(figure, survey)
    if point is not None:
        _draw_ring(figure, survey, point)
    draw_networks(figure, survey, kind, scale)
    figure.update_layout(
        **layout(palette, HEIGHT),
        clickmode="event+select",
        hoverdistance=-1,  # the nearest point answers, however coarse the grid is
        margin={"l": 4, "r": 4, "t": 8, "b": 46},
        showlegend=False,
    )
    first, second, third = survey.through
    bare = {**axis(palette), "showgrid": False, "zeroline": False, "nticks": 6}
    left, right, bottom, top = frame(survey, scale)
    figure.update_xaxes(title=titled(f"{who(first)} → {who(second)}"), range=[left, right], **bare)
    figure.update_yaxes(title=titled(f"towards {who(third)} →"), range=[bottom, top], automargin=True, **bare)
    finding = plane_words(survey, kind, scale)
    drawn = "Contours" if is_whole else "Unfinished picture"
    names = listing([who(name) for name in survey.through])
    return Picture(figure, f"{drawn} of the {kind} on the plane through {names}. {finding}", finding)


def _draw_contours(figure: go.Figure, survey: Any, kind: str, scale: Scale, palette: Palette) -> None:
    low, high = getattr(scale, kind)
    xs, ys, values = interpolated(survey, kind, FINE)
    figure.add_trace(
        go.Contour(
            x=xs.tolist(),
            y=ys.tolist(),
            z=np.clip(values, low, high).tolist(),
            zmin=low,
            zmax=high,
            autocontour=False,
            contours={"start": low, "end": high, "size": (high - low) / 20},
            colorscale=CIVIDIS,
            reversescale=kind == "accuracy",
            line={"width": 0.5, "color": "rgba(255,255,255,.5)"},
            colorbar=colour_key(kind, scale, palette),
            hoverinfo="skip",
        )
    )
    if kind == "loss" and scale.clip is not None:
        xs, ys, values = interpolated(survey, kind, FINER)
        _hatch(figure, xs, ys, values > scale.clip, "/", "rgba(0,0,0,.75)")


def _draw_cells(figure: go.Figure, survey: Any, kind: str, scale: Scale, palette: Palette) -> None:
    """Every cell in the colour of the nearest one that is measured; those that are not themselves are hatched."""
    low, high = getattr(scale, kind)
    finished = survey.finished.numpy()
    xs, ys = survey.xs.numpy(), survey.ys.numpy()
    if finished.any():
        rows, columns = np.nonzero(finished)
        grid = np.indices(finished.shape).reshape(2, -1).T
        nearest = np.square(grid[:, None] - np.stack([rows, columns], 1)[None]).sum(2).argmin(1)
        values = capped(getattr(survey, kind).numpy())[rows, columns][nearest].reshape(finished.shape)
        figure.add_trace(
            go.Heatmap(
                x=xs.tolist(),
                y=ys.tolist(),
                z=values.tolist(),
                zmin=low,
                zmax=high,
                colorscale=CIVIDIS,
                reversescale=kind == "accuracy",
                colorbar=colour_key(kind, scale, palette),
                hoverinfo="skip",
            )
        )
    _hatch(figure, xs, ys, ~finished, "x", "rgba(255,255,255,.85)" if finished.any() else palette.muted)


def _hatch(figure: go.Figure, xs: np.ndarray, ys: np.ndarray, mask: np.ndarray, shape: str, colour: str) -> None:
    """Lines over the cells of a mask; neighbours in a row are one rectangle."""
    if not mask.any():
        return
    across, up = _edges(xs), _edges(ys)
    x: list[float | None] = []
    y: list[float | None] = []
    for row in range(len(ys)):
        ends = np.flatnonzero(np.diff(np.concatenate([[0], mask[row].astype(int), [0]])))
        for begin, end in zip(ends[::2], ends[1::2], strict=True):
            left, right, bottom, top = across[begin], across[end], up[row], up[row + 1]
            x += [left, right, right, left, left, None]
            y += [bottom, bottom, top, top, bottom, None]
    figure.add_scatter(
        x=x[:-1],
        y=y[:-1],
        mode="none",
        fill="toself",
        fillcolor="rgba(0,0,0,0)",
        fillpattern={"shape": shape, "fgcolor": colour, "bgcolor": "rgba(0,0,0,0)", "size": 9, "solidity": 0.15},
        hoverinfo="skip",
    )


def _edges(centres: np.ndarray) -> np.ndarray:
    """Between each two cells, and as far beyond the outer ones as the grid goes: their centres."""
    middles = (centres[1:] + centres[:-1]) / 2
    return np.concatenate([centres[:1], middles, centres[-1:]])


def _draw_line(figure: go.Figure, survey: Any, path: tuple[str, str]) -> None:
    """The straight line whose losses stand below."""
    ends = [marker for name in path for marker in survey.markers if marker.name == name]
    if len(ends) < 2:
        return
    for width, colour, dash in ((5, "rgba(0,0,0,.8)", "solid"), (2.5, "#FFFFFF", "dash")):
        figure.add_scatter(
            x=[end.x for end in ends],
            y=[end.y for end in ends],
            mode="lines",
            line={"width": width, "color": colour, "dash": dash},
            hoverinfo="skip",
        )


def _draw_targets(figure: go.Figure, survey: Any) -> None:
    """See-through marks over the grid: contours can neither be clicked nor say two values at once."""
    step = -(-len(survey.xs) // MARKS)
    cells = [
        (row, column) for row, column in survey.finished.nonzero().tolist() if not row % step and not column % step
    ]
    texts = []
    for row, column in cells:
        loss, accuracy = float(survey.loss[row, column]), float(survey.accuracy[row, column])
        where = place_words(survey, float(survey.xs[column]), float(survey.ys[row]))
        texts.append(f"loss {loss_words(loss)}, accuracy {percent(accuracy)}<br>{where}")
    invisible = {"marker": {"opacity": 0}}
    figure.add_scatter(
        x=[float(survey.xs[column]) for _, column in cells],
        y=[float(survey.ys[row]) for row, _ in cells],
        mode="markers",
        customdata=[list(cell) for cell in cells],
        text=texts,
        hovertemplate="%{text}<extra></extra>",
        marker={"symbol": "square", "size": 16, "color": "rgba(0,0,0,0)", "line": {"width": 0}},
        selected=invisible,
        unselected=invisible,
    )


def _draw_ring(figure: go.Figure, survey: Any, point: tuple[int, int]) -> None:
    row, column = point
    figure.add_scatter(
        x=[float(survey.xs[column])],
        y=[float(survey.ys[row])],
        mode="markers",
        marker={"symbol": "circle", "size": 16, "color": "rgba(0,0,0,0)", "line": {"width": 3, "color": "#FFFFFF"}},
        unselected={"marker": {"opacity": 1}},
        hoverinfo="skip",
    )
