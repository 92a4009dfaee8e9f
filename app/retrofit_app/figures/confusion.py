"""Which classes a network mistakes for which."""

from collections.abc import Sequence

import numpy as np

from .drawing import Trace, axis_of_names, cells, lettering, plot, room
from .palette import Palette, mixed, scale
from .picture import Picture, number, percent

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
    places = [(row, column) for row in columns for column in columns]
    traces: list[Trace] = []
    for mask, colours in ((right, scale(palette)), (~right, (scale(palette)[0], palette.grouping))):
        tints = np.maximum(np.where(right, shares, shares**0.5), PALEST)
        z = np.where(mask & (counts > 0), tints, np.where(mask, 0, np.nan)).tolist()
        tips = [[_tip(counts, classes, row, column) for column in columns] for row in columns]
        hover = {"customdata": tips, "hovertemplate": "%{customdata}<extra></extra>"}
        traces.append(cells(columns, columns, z, colours, 1, 1, **hover))
    if lettered:
        text = [str(int(counts[place])) if counts[place] else "" for place in places]
        inks = [_ink(counts, shares, row, column, palette) for row, column in places]
        font = {"size": 13, "color": inks}
        traces.append(lettering([column for _, column in places], [row for row, _ in places], text, textfont=font))
    upright = lettered and max(map(len, classes)) > 3
    left, top = (room(classes) + 22 if lettered else 30), ((room(classes) if upright else 26) + 22 if lettered else 30)
    ticks = {"tickvals": columns if lettered else [], "ticktext": list(classes) if lettered else []}
    across = {"title": {"text": "class that it names"}, "side": "top", "tickangle": -90 if upright else 0}
    figure = plot(
        palette,
        traces,
        top + 10 + 27 * min(len(classes), 16),
        (left, 4, top, 10),
        xaxis=axis_of_names(palette, **across, **ticks),
        yaxis=axis_of_names(palette, title={"text": "true class"}, autorange="reversed", **ticks),
    )
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
