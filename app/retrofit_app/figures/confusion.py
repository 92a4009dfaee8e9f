"""Which classes a network mistakes for which."""

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from .palette import TEXT, Palette, mixed, scale
from .picture import Picture, layout, number, percent, room, titled

LETTERED = 20  # classes up to which cells have numbers and axes names
PALEST = 0.08  # of the full tint: a single mistake is seen


def confusion_matrix(counts: np.ndarray, classes: Sequence[str], name: str, palette: Palette) -> Picture:
    """Test images by their true class (rows) and the class that the network names (columns).

    What is right lies on the diagonal, in the accent's shades; mistakes have the colour of errors. Each shade follows the
    share of its row; those of mistakes its root, for they are few.

    Args:
        counts: (classes, classes) images.
    """
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    right = np.eye(len(classes), dtype=bool)
    lettered = len(classes) <= LETTERED
    columns = list(range(len(classes)))
    figure = go.Figure()
    for mask, colours in ((right, scale(palette)), (~right, (scale(palette)[0], palette.grouping))):
        figure.add_heatmap(
            z=np.where(
                mask & (counts > 0), np.maximum(np.where(right, shares, shares**0.5), PALEST), np.where(mask, 0, np.nan)
            ).tolist(),
            x=columns,
            y=columns,
            colorscale=[[0, colours[0]], [1, colours[1]]],
            zmin=0,
            zmax=1,
            xgap=1,
            ygap=1,
            showscale=False,
            hoverongaps=False,
            customdata=[[_tip(counts, classes, row, column) for column in columns] for row in columns],
            hovertemplate="%{customdata}<extra></extra>",
        )
    if lettered:
        figure.add_scatter(
            x=[column for _ in columns for column in columns],
            y=[row for row in columns for _ in columns],
            text=[
                str(int(counts[row, column])) if counts[row, column] else "" for row in columns for column in columns
            ],
            mode="text",
            textfont={
                "size": 13,
                "color": [_ink(counts, shares, row, column, palette) for row in columns for column in columns],
            },
            hoverinfo="skip",
            showlegend=False,
            cliponaxis=False,
        )
    upright = lettered and max(map(len, classes)) > 3
    left, top = (room(classes) + 22 if lettered else 30), ((room(classes) if upright else 26) + 22 if lettered else 30)
    figure.update_layout(**layout(palette, height=top + 10 + 27 * min(len(classes), 16)))
    names = {
        "tickvals": columns if lettered else [],
        "ticktext": list(classes) if lettered else [],
        "ticks": "",
        "showgrid": False,
        "zeroline": False,
        "fixedrange": True,
        "tickfont": {"size": TEXT, "color": palette.ink},
    }
    figure.update_xaxes(side="top", title=titled("class that it names"), tickangle=-90 if upright else 0, **names)
    figure.update_yaxes(autorange="reversed", title=titled("true class"), **names)
    figure.update_layout(margin={"l": left, "r": 4, "t": top, "b": 10})
    finding = _finding(counts, classes, name)
    return Picture(figure, f"Confusion matrix. {finding}", finding)


def _finding(counts: np.ndarray, classes: Sequence[str], name: str) -> str:
    images, right = int(counts.sum()), int(np.trace(counts))
    if images == right:
        return f"{name} names all {images:,} images right."
    mistakes = np.where(np.eye(len(classes), dtype=bool), 0, counts)
    row, column = divmod(int(mistakes.argmax()), len(classes))
    most = int(mistakes[row, column])
    times = "once" if most == 1 else f"{most:,} times"
    return (
        f"{name} names {right:,} of {images:,} images right ({percent(100 * right / images)}); most often it takes "
        f"{classes[row]} for {classes[column]}, {times}."
    )


def _tip(counts: np.ndarray, classes: Sequence[str], row: int, column: int) -> str:
    total = int(counts[row].sum())
    part = f" ({number(100 * counts[row, column] / total)} %)" if total else ""
    return f"{int(counts[row, column])} of {total} images of {classes[row]}{part}<br>are named {classes[column]}"


def _ink(counts: np.ndarray, shares: np.ndarray, row: int, column: int, palette: Palette) -> str:
    low, high = scale(palette)
    full, share = (high, shares[row, column]) if row == column else (palette.grouping, shares[row, column] ** 0.5)
    return mixed(low, full, max(float(share), PALEST if counts[row, column] else 0))[1]
