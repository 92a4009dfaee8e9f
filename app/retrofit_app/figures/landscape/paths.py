"""The straight lines between the networks that span a plane."""

from itertools import combinations
from typing import Any

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from ..palette import TEXT, Palette
from ..picture import Picture, axis, layout, percent, titled
from .grid import capped
from .words import loss_words, short, who


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
    loss = capped(np.array(path.loss))
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
