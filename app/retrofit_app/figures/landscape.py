"""Loss and accuracy on the plane through three networks, and on the straight lines between them.

Dark is good in both pictures: Cividis for the loss, the same reversed for the accuracy. What lies above the clip is hatched
and not coloured as if it were known; cells that are not measured yet are hatched the other way.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import isfinite
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from .palette import SHAPES, TEXT, Palette
from .picture import Picture, axis, layout, letter, listing, number, percent, titled

CIVIDIS = "Cividis"
#: Loss at which the paper clips its landscape, and the scale on which landscapes are compared.
PAPER = 4.6
#: Points a side of what is drawn, interpolated between those that were measured.
FINE, FINER = 61, 121
#: Points a side that can be hovered over and clicked: more marks are slow to draw.
MARKS = 31
HALO = "0 0 3px #000, 0 0 3px #000, 0 0 5px #000"
HEIGHT = 380  # px
#: A landscape's own scale goes so far above the losses of its networks and paths.
ROOM = 1.5
#: What a picture is about, which is the word for its values, too.
KINDS = ("loss", "accuracy")


@dataclass(frozen=True)
class Scale:
    """Colours and extent that pictures may share."""

    loss: tuple[float, float] = (0.0, PAPER)
    accuracy: tuple[float, float] = (0.0, 100.0)
    clip: float | None = PAPER
    """Loss above which a picture is hatched"""
    extent: tuple[float, float] | None = None
    """Width and height of the frame, in distances between weights; None: that of the landscape itself"""


def own_scale(survey: Any) -> Scale:
    """The colours that show most of one landscape: from its least loss to well above its networks and paths.

    What rises higher is hatched, for a single loss of some hundreds would leave one colour to all the rest.
    """
    finished = survey.finished.numpy()
    loss, accuracy = (_finite(getattr(survey, kind).numpy(), finished) for kind in KINDS)
    if not loss.size:
        return Scale()
    low, high = float(loss.min()), float(loss.max())
    between = [value for path in survey.paths for value in path.loss] + [marker.loss for marker in survey.markers]
    usual = ROOM * max((value for value in between if isfinite(value)), default=high)
    least, most = float(accuracy.min()), float(accuracy.max())
    top = max(min(high, usual), low + 1e-3)
    return Scale((low, top), (least, max(most, least + 1e-3)), top if high > top else None)


def extent_of(surveys: Sequence[Any]) -> tuple[float, float]:
    """The smallest width and height that hold each of some landscapes."""
    spans = [[float(ends[-1] - ends[0]) for ends in (survey.xs, survey.ys)] for survey in surveys]
    return max(span[0] for span in spans), max(span[1] for span in spans)


# --- words ----------------------------------------------------------------------------------------


def who(name: str) -> str:
    """A network of a landscape as pages name it: "network A", "aligned network B", "average"."""
    return re.sub(r"parent (\d+)", lambda match: f"network {letter(int(match[1]))}", name)


def short(name: str) -> str:
    """The same, for a marker: "A"."""
    return who(name).replace("network ", "")


def caption(survey: Any) -> str:
    """Networks, resolution, images, seed, BatchNorm: how the landscape was measured."""
    none = " No BatchNorm in these networks." if survey.facts["norms"] == "none" else ""
    return who(survey.caption()).replace(" x ", " × ") + none


def headline(survey: Any) -> str:
    """Whether the loss rises between the networks, in a sentence."""
    if not survey.paths:
        return ""
    worst = max(survey.paths, key=lambda path: path.barrier)
    least = min(survey.paths, key=lambda path: path.barrier)
    between = f"{who(worst.first)} and {who(worst.last)}"
    if worst.barrier < 0.01:
        return "No barrier between the networks: on the straight lines the loss nowhere rises above its ends."
    text = f"The highest barrier lies between {between}: the loss rises by {loss_words(worst.barrier)} on the straight line."
    if least is not worst:
        text += f" The lowest, {loss_words(least.barrier)}, lies between {who(least.first)} and {who(least.last)}."
    return text


def loss_words(value: float) -> str:
    """A loss with as many digits as can be told apart."""
    if not isfinite(value):
        return "beyond all numbers"
    return number(value, 2 if abs(value) < 100 else 0)


def place_words(survey: Any, x: float, y: float) -> str:
    """Where a point of the plane lies, as shares of the networks that span it."""
    names = [short(name) for name in survey.through]
    return " + ".join(
        f"{number(100 * share, 0)} % {name}" for share, name in zip(shares(survey, x, y), names, strict=True)
    )


def shares(survey: Any, x: float, y: float) -> tuple[float, float, float]:
    """The mixture of the three networks at a point of the plane; they sum to one."""
    corners = {marker.name: marker for marker in survey.markers}
    try:
        _, second, third = (corners[name] for name in survey.through)
    except KeyError:  # not measured yet
        return 1.0, 0.0, 0.0
    towards_third = y / third.y
    towards_second = (x - towards_third * third.x) / second.x
    return 1 - towards_second - towards_third, towards_second, towards_third


def values_words(kind: str, value: float) -> str:
    """A value of a picture, in words."""
    return loss_words(value) if kind == "loss" else percent(value)


# --- the plane ------------------------------------------------------------------------------------


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
    _draw_networks(figure, survey, kind, scale)
    figure.update_layout(
        **layout(palette, HEIGHT),
        clickmode="event+select",
        hoverdistance=-1,  # the nearest point answers, however coarse the grid is
        margin={"l": 4, "r": 4, "t": 8, "b": 46},
        showlegend=False,
    )
    first, second, third = survey.through
    bare = {**axis(palette), "showgrid": False, "zeroline": False, "nticks": 6}
    left, right, bottom, top = _frame(survey, scale)
    figure.update_xaxes(title=titled(f"{who(first)} → {who(second)}"), range=[left, right], **bare)
    figure.update_yaxes(title=titled(f"towards {who(third)} →"), range=[bottom, top], automargin=True, **bare)
    finding = _finding(survey, kind, scale)
    drawn = "Contours" if is_whole else "Unfinished picture"
    names = listing([who(name) for name in survey.through])
    return Picture(figure, f"{drawn} of the {kind} on the plane through {names}. {finding}", finding)


def _finding(survey: Any, kind: str, scale: Scale) -> str:
    """The networks' values, the extremes of the grid, how much is hatched."""
    at = [f"{who(marker.name)} {values_words(kind, getattr(marker, kind))}" for marker in survey.markers]
    text = f"{kind.capitalize()} of the networks themselves: {listing(at)}." if at else ""
    finished = survey.finished.numpy()
    values = getattr(survey, kind).numpy()[finished]
    if not len(values):
        return f"{text} No point of the grid is measured yet.".strip()
    low, high = float(np.min(values)), float(np.max(values))
    text += f" On the grid from {values_words(kind, low)} to {values_words(kind, high)}."
    if kind == "loss" and scale.clip is not None:
        above = int((values > scale.clip).sum())
        if above:
            hatched = "Hatched: " if finished.all() else ""
            text += f" {hatched}{above} of {len(values)} points above {number(scale.clip, 1)}."
    if not finished.all():
        text += f" {int(finished.sum())} of {finished.size} points are measured; the others are hatched crosswise."
    return text.strip()


def _frame(survey: Any, scale: Scale) -> tuple[float, float, float, float]:
    """Left, right, bottom and top of the axes."""
    sides = []
    for index, ends in enumerate((survey.xs, survey.ys)):
        low, high = float(ends[0]), float(ends[-1])
        beyond = max(scale.extent[index] - (high - low), 0) / 2 if scale.extent else 0.0
        sides += [low - beyond, high + beyond]
    return sides[0], sides[1], sides[2], sides[3]


def _draw_contours(figure: go.Figure, survey: Any, kind: str, scale: Scale, palette: Palette) -> None:
    low, high = getattr(scale, kind)
    xs, ys, values = _interpolated(survey, kind, FINE)
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
            colorbar=_colour_key(kind, scale, palette),
            hoverinfo="skip",
        )
    )
    if kind == "loss" and scale.clip is not None:
        xs, ys, values = _interpolated(survey, kind, FINER)
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
        values = _capped(getattr(survey, kind).numpy())[rows, columns][nearest].reshape(finished.shape)
        figure.add_trace(
            go.Heatmap(
                x=xs.tolist(),
                y=ys.tolist(),
                z=values.tolist(),
                zmin=low,
                zmax=high,
                colorscale=CIVIDIS,
                reversescale=kind == "accuracy",
                colorbar=_colour_key(kind, scale, palette),
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
        place = place_words(survey, float(survey.xs[column]), float(survey.ys[row]))
        texts.append(f"loss {loss_words(loss)}, accuracy {percent(accuracy)}<br>{place}")
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


def _draw_networks(figure: go.Figure, survey: Any, kind: str, scale: Scale) -> None:
    """A marker for each network with its own value beside it; hollow, with its distance, where it lies off the plane."""
    if not survey.markers:
        return
    on_plane = [survey.is_on_plane(marker) for marker in survey.markers]
    texts = [
        f"<b>{short(marker.name)}</b> {values_words(kind, getattr(marker, kind))}"
        + ("" if on else f"<br>{loss_words(marker.distance)} off the plane")
        for marker, on in zip(survey.markers, on_plane, strict=True)
    ]
    hovers = [
        f"{who(marker.name)}: loss {loss_words(marker.loss)}, accuracy {percent(marker.accuracy)}"
        + ("" if on else f"<br>{loss_words(marker.distance)} off the plane, drawn at the nearest point of it")
        for marker, on in zip(survey.markers, on_plane, strict=True)
    ]
    figure.add_scatter(
        x=[marker.x for marker in survey.markers],
        y=[marker.y for marker in survey.markers],
        mode="markers+text",
        cliponaxis=False,
        text=texts,
        textposition=_positions(survey, texts, _frame(survey, scale)),
        textfont={"color": "#FFFFFF", "size": TEXT, "shadow": HALO},
        hovertext=hovers,
        hovertemplate="%{hovertext}<extra></extra>",
        marker={
            "symbol": [_shape(marker.name) for marker in survey.markers],
            "opacity": 1,
            "size": [17 if marker.name == "fused" else 13 for marker in survey.markers],
            "color": ["#FFFFFF" if on else "rgba(0,0,0,.35)" for on in on_plane],
            "line": {
                "color": ["#000000" if on else "#FFFFFF" for on in on_plane],
                "width": [1.5 if on else 2.5 for on in on_plane],
            },
        },
        unselected={"marker": {"opacity": 1}, "textfont": {"color": "#FFFFFF"}},
    )


def _shape(name: str) -> str:
    """Of a network's marker; an aligned parent has that of the parent."""
    if match := re.search(r"parent (\d+)", name):
        return SHAPES[int(match[1]) % len(SHAPES)]
    return {"fused": "star", "fine-tuned": "star-diamond"}.get(name, "cross")


def _positions(survey: Any, texts: Sequence[str], frame: tuple[float, float, float, float]) -> list[str]:
    """Where each label stands: where it covers neither another one nor a marker nor leaves the frame, as far as can be."""
    left, right, bottom, top = frame
    wide, high = 270.0, 300.0  # px of a picture on a telephone: what collides nowhere else may do so there
    centres = [((m.x - left) / (right - left) * wide, (m.y - bottom) / (top - bottom) * high) for m in survey.markers]
    taken = [(x - 8, y - 8, x + 8, y + 8) for x, y in centres]
    chosen = []
    for (x, y), text in zip(centres, texts, strict=True):
        lines = re.sub(r"</?b>", "", text).split("<br>")
        width, height = 7.4 * max(map(len, lines)), 18.0 * len(lines)
        boxes = {
            "bottom center": (x - width / 2, y - 10 - height, x + width / 2, y - 10),
            "top center": (x - width / 2, y + 10, x + width / 2, y + 10 + height),
            "middle right": (x + 12, y - height / 2, x + 12 + width, y + height / 2),
            "middle left": (x - 12 - width, y - height / 2, x - 12, y + height / 2),
        }
        if y > high / 2:  # above what lies above the middle, below what lies below
            boxes = {"top center": boxes.pop("top center"), **boxes}

        def price(box: tuple[float, float, float, float]) -> float:
            outside = max(-box[0], 0) + max(box[2] - wide, 0) + max(-box[1], 0) + max(box[3] - high, 0)
            return 40 * outside + sum(_overlap(box, other) for other in taken)

        best = min(boxes, key=lambda name: price(boxes[name]))
        taken.append(boxes[best])
        chosen.append(best)
    return chosen


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """The area that two boxes share."""
    across, up = min(one[2], other[2]) - max(one[0], other[0]), min(one[3], other[3]) - max(one[1], other[1])
    return max(across, 0.0) * max(up, 0.0)


def _colour_key(kind: str, scale: Scale, palette: Palette) -> dict[str, Any]:
    low, high = getattr(scale, kind)
    values = np.linspace(low, high, 5)
    digits = 0 if high - low >= 40 else 1 if high - low >= 3 else 2
    unit = "" if kind == "loss" else " %"
    texts = [f"{number(float(value), digits)}{unit}" for value in values]
    if kind == "loss" and scale.clip is not None:
        texts[-1] = f"≥ {texts[-1]}"
    return {
        "tickvals": values.tolist(),
        "ticktext": texts,
        "thickness": 12,
        "outlinewidth": 0,
        "tickfont": {"size": TEXT, "color": palette.muted},
    }


def _interpolated(survey: Any, kind: str, points: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Axes and values with at least so many points a side, those that were measured among them.

    Losses are interpolated on a logarithmic scale, on which they rise evenly: next to a loss of 600 a linear one would
    draw the whole cell as if it were lost.
    """
    xs, ys, values = survey.xs.numpy(), survey.ys.numpy(), _capped(getattr(survey, kind).numpy())
    values = np.log(np.maximum(values, 1e-6)) if kind == "loss" else values
    across, up = _denser(xs, points), _denser(ys, points)
    values = np.stack([np.interp(across, xs, row) for row in values])
    values = np.stack([np.interp(up, ys, column) for column in values.T], 1)
    return across, up, np.exp(values) if kind == "loss" else values


def _denser(points: np.ndarray, least: int) -> np.ndarray:
    """Evenly spaced points with the same number of steps between any two of the given ones."""
    steps = -(-(least - 1) // (len(points) - 1))
    return np.linspace(points[0], points[-1], steps * (len(points) - 1) + 1)


def _finite(values: np.ndarray, finished: np.ndarray) -> np.ndarray:
    chosen = values[finished]
    return chosen[np.isfinite(chosen)]


def _capped(values: np.ndarray) -> np.ndarray:
    """Values in which infinity is a number: a little above all others."""
    finite = values[np.isfinite(values)]
    most = 10 * float(finite.max()) if finite.size else 1.0
    return np.where(np.isposinf(values), most, values)


# --- paths ----------------------------------------------------------------------------------------


def paths_of(survey: Any) -> list[tuple[str, str]]:
    """The lines between each two of the networks that span the plane."""
    return list(combinations(survey.through, 2))


def nearest_path(survey: Any, row: int, column: int) -> int:
    """Which of `paths_of` runs closest to a point of the grid."""
    point = np.array([float(survey.xs[column]), float(survey.ys[row])])
    corners = {marker.name: np.array([marker.x, marker.y]) for marker in survey.markers}

    def distance(path: tuple[str, str]) -> float:
        start, end = corners[path[0]], corners[path[1]]
        along = np.clip((point - start) @ (end - start) / ((end - start) @ (end - start)), 0, 1)
        return float(np.linalg.norm(start + along * (end - start) - point))

    return min(range(len(paths_of(survey))), key=lambda index: distance(paths_of(survey)[index]))


def loss_path(path: Any, palette: Palette) -> Picture:
    """Loss and accuracy on the straight line between two networks, with the barrier.

    Args:
        path: a `landscape.Path`.
    """
    t, first, last = list(path.t), who(path.first), who(path.last)
    loss = _capped(np.array(path.loss))
    figure = make_subplots(rows=2, cols=1, shared_xaxes=True, row_heights=[0.62, 0.38], vertical_spacing=0.08)
    figure.add_scatter(
        x=[0, 1],
        y=[float(loss[0]), float(loss[-1])],
        mode="lines",
        line={"width": 1.5, "color": palette.muted, "dash": "dot"},
        hoverinfo="skip",
        row=1,
        col=1,
    )
    _draw_barrier(figure, path, loss, palette)
    for values, colour, symbol, words, row in (
        (loss, palette.ink, "circle", "loss %{y:.3f}", 1),
        (np.array(path.accuracy), palette.accent, "diamond", "accuracy %{y:.1f} %", 2),
    ):
        figure.add_scatter(
            x=t,
            y=values.tolist(),
            mode="lines+markers",
            line={"width": 2, "color": colour},
            marker={"size": 7, "symbol": symbol, "color": colour},
            hovertemplate=f"%{{x:.0%}} of the way to {last}: {words}<extra></extra>",
            row=row,
            col=1,
        )
    figure.update_layout(**layout(palette, height=360), margin={"l": 4, "r": 10, "t": 10, "b": 34}, showlegend=False)
    figure.update_xaxes(range=[-0.03, 1.03], **axis(palette))
    figure.update_xaxes(
        tickvals=[0, 0.5, 1], ticktext=[short(path.first), "half way", short(path.last)], zeroline=False, row=2, col=1
    )
    room = 0.15 * max(float(loss.max() - loss.min()), 1e-3)
    figure.update_yaxes(automargin=True, nticks=5, zeroline=False, **axis(palette))
    figure.update_yaxes(
        title=titled("loss"), range=[float(loss.min()) - room, float(loss.max()) + 2.6 * room], row=1, col=1
    )
    figure.update_yaxes(title=titled("accuracy %"), range=[-4, 104], tickvals=[0, 50, 100], row=2, col=1)
    lowest = min(path.accuracy)
    rise = (
        f"the loss rises by up to {loss_words(path.barrier)} above the line between its ends, "
        f"{percent(100 * path.top).replace('.0', '')} of the way"
        if path.barrier >= 0.005
        else "no barrier: the loss nowhere rises above the line between its ends"
    )
    finding = (
        f"From {first} to {last}: {rise}. Loss {loss_words(path.loss[0])} at one end and {loss_words(path.loss[-1])} at the "
        f"other; the accuracy falls to {percent(lowest)} at its lowest."
    )
    return Picture(figure, f"Lines of loss and accuracy between two networks. {finding}", finding)


def _draw_barrier(figure: go.Figure, path: Any, loss: np.ndarray, palette: Palette) -> None:
    if path.barrier < 0.005:
        return
    index = list(path.t).index(path.top)
    foot = (1 - path.top) * float(loss[0]) + path.top * float(loss[-1])
    figure.add_scatter(
        x=[path.top, path.top],
        y=[foot, float(loss[index])],
        mode="lines",
        line={"width": 3, "color": palette.approximation},
        hoverinfo="skip",
        row=1,
        col=1,
    )
    figure.add_scatter(
        x=[path.top],
        y=[float(loss.max()) + 0.25 * max(float(loss.max() - loss.min()), 1e-3)],
        mode="text",
        text=[f"<b>barrier {loss_words(path.barrier)}</b>"],
        textposition="middle left" if path.top > 0.7 else "middle right" if path.top < 0.3 else "middle center",
        textfont={"color": palette.ink, "size": TEXT},
        cliponaxis=False,
        hoverinfo="skip",
        row=1,
        col=1,
    )
