"""Which classes a network confuses."""

from collections.abc import Sequence

import numpy as np

from .drawing import cell_words, cells, class_axis, drawn, room, rows
from .palette import Palette, mixed, scale
from .picture import Picture
from .words import number, percent, quoted

LETTERED = 20  # most classes for which cells have numbers and axes names
PALEST = 0.08  # of the full tint, so that a single mistake shows


def confusion_matrix(counts: np.ndarray, classes: Sequence[str], name: str, palette: Palette) -> Picture:
    """Test images by true class (rows) and predicted class (columns).

    Right answers are on the diagonal in the accent's shades; mistakes have the colour of errors. Shades follow the share
    of the row; those of mistakes its root, because they are few.

    Args:
        counts: (classes, classes) images.
    """
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    right, lettered = np.eye(len(classes), dtype=bool), len(classes) <= LETTERED
    tints = np.where(counts > 0, np.maximum(np.where(right, shares, shares**0.5), PALEST), 0)
    columns = range(len(classes))
    tips = [[_tip(counts, classes, row, column) for column in columns] for row in columns]
    empty, shades = scale(palette)[0], {True: scale(palette)[1], False: palette.grouping}
    traces = [
        cells(np.where(right, tints, np.nan), (empty, shades[True]), 1, tips, 1),
        cells(np.where(~right & (counts > 0), tints, np.nan), (empty, shades[False]), 1, tips, 1),
    ]
    if lettered:
        text = [[str(int(count)) if count else "" for count in row] for row in counts]
        shade = [[mixed(empty, shades[row == column], tints[row, column])[1] for column in columns] for row in columns]
        traces.append(cell_words(text, shade))
    named = list(map(quoted, classes)) if lettered else []
    top, across = class_axis("class that it names", named, palette)
    finding = _finding(counts, classes, name)
    return drawn(
        palette,
        traces,
        top + 10 + 27 * min(len(classes), 16),
        "Confusion matrix",
        finding,
        margin=(room(named) + 22 if lettered else 30, 4, top, 10),
        xaxis=across,
        yaxis=rows(palette, named, title={"text": "true class"}, ticklabelstandoff=0),
    )


def _finding(counts: np.ndarray, classes: Sequence[str], name: str) -> str:
    images, right = int(counts.sum()), int(np.trace(counts))
    if images == right:
        return f"{name} gets all {images:,} images right."
    mistakes = np.where(np.eye(len(classes), dtype=bool), 0, counts)
    row, column = divmod(int(mistakes.argmax()), len(classes))
    most = int(mistakes[row, column])
    times = "once" if most == 1 else f"{most:,} times"
    return (
        f"{name} gets {right:,} of {images:,} images right ({percent(100 * right / images)}). Most often it takes "
        f"{classes[row]} for {classes[column]}, {times}."
    )


def _tip(counts: np.ndarray, classes: Sequence[str], row: int, column: int) -> str:
    total = int(counts[row].sum())
    part = f" ({number(100 * counts[row, column] / total)} %)" if total else ""
    return f"{int(counts[row, column])} of {total} images of {classes[row]}{part}<br>are named {classes[column]}"
