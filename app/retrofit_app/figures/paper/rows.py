"""What pictures of a column of the paper share: the rows that are methods, and how a list of rows is drawn."""

from collections.abc import Sequence
from typing import Any

from ..palette import TEXT, Palette
from ..picture import rows

#: Height of a row, of an entry of the legend, and of the axis' numbers and title, in px.
ROW, ENTRY, NUMBERS, TITLE = 25, 21, 28, 24
#: The paper's own methods, and the rows that are no methods.
OURS = ("HF-", "KF-")
PARENT, REFERENCES, BEST = "Parent ", ("Ensemble", "Average"), ", best"


def is_repeated(column: Any, line: Any) -> bool:
    """Whether a "best" is that of a row which the paper prints, too."""
    return line.row.endswith(BEST) and column.line(line.stands_for).paper is not None


def mean(line: Any) -> float:
    return line.mean


def listed(names: Sequence[str], palette: Palette) -> dict[str, Any]:
    """The vertical axis of rows in this order, from the top."""
    apart = {"ticklabelstandoff": 9}  # px: a mark at the axis' end does not touch its name
    order = {"type": "category", "categoryorder": "array", "categoryarray": names}
    return {**rows(palette), **apart, **order, "autorange": False}


def legend(palette: Palette) -> dict[str, Any]:
    """Below everything, an entry a line."""
    font = {"size": TEXT, "color": palette.ink}
    return {"y": 0, "yref": "container", "yanchor": "bottom", "x": 0, "bgcolor": "rgba(0,0,0,0)", "font": font}
