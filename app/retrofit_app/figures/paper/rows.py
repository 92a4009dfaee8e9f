"""What pictures of the paper's columns share: which rows are methods, and how rows are drawn."""

from collections.abc import Sequence
from html import escape
from typing import Any

from ..drawing import BELOW, Trace, drawn, room, rows, scatter
from ..palette import Palette
from ..picture import Picture

#: Heights in px: a row, a legend entry, the axis' numbers, its title.
ROW, ENTRY, NUMBERS, TITLE = 25, 21, 28, 24
#: Prefixes of the paper's own methods, and rows that are not methods.
OURS = ("HF-", "KF-")
PARENT, REFERENCES, BEST = "Parent ", ("Ensemble", "Average"), ", best"
#: The group of opponents that do not lose nearly everywhere.
INFORMATIVE = "informative"


def is_repeated(column: Any, line: Any) -> bool:
    """Whether a "best" row repeats one that the paper prints, too."""
    return line.row.endswith(BEST) and column.line(line.stands_for).paper is not None


def short(badge: str) -> str:
    """The first word of a badge, which tells a scale from the column's: "small", "given"."""
    return badge.replace(",", " ").split(" ")[0]


def titled(column: Any) -> str:
    """A table's subject and its column, for a title."""
    return f"{column.setting.table.title.split(': ')[0]}, {column.name}"


def at(badge: str) -> str:
    """A badge after a row's name, if the row has its own."""
    return f" ({escape(short(badge))})" if badge else ""


def mean(line: Any) -> float:
    return line.mean


def listed(names: Sequence[str], palette: Palette, **settings: Any) -> dict[str, Any]:
    """The vertical axis of rows in this order, from the top."""
    # px, so that a mark at the axis' end does not touch its name
    order = {"type": "category", "categoryorder": "array", "categoryarray": names, "autorange": False}
    return rows(palette, ticklabelstandoff=9, **order, **settings)


def dots(places: Sequence[tuple[float, str]], name: str, tip: str, marker: dict[str, Any], **settings: Any) -> Trace:
    """Marks in rows, with one legend entry if there are any.

    Args:
        places: numbers and their rows.
    """
    marks = scatter(
        [x for x, _ in places], [y for _, y in places], "markers", tip, name=name, marker=marker, **settings
    )
    return {**marks, "showlegend": bool(places)}


def dot_plot(
    palette: Palette,
    traces: Sequence[Trace],
    names: Sequence[str],
    what: str,
    finding: str = "",
    above: int = 12,
    **more: Any,
) -> Picture:
    """A figure of `dots` with its legend below; see `drawn`.

    Args:
        names: the rows.
        above: px above the first.
    """
    bottom = NUMBERS + TITLE + ENTRY * sum(trace["showlegend"] for trace in traces) + 8
    return drawn(
        palette,
        traces,
        above + bottom + ROW * len(names),
        what,
        finding,
        margin=(room(names), 12, above, bottom),
        legend=BELOW,
        yaxis=listed(names, palette, range=[len(names) - 0.4, -0.6]),
        **more,
    )


def paper_mark(palette: Palette) -> dict[str, Any]:
    """The mark of the paper's numbers."""
    return {"symbol": "diamond-open", "size": 10, "color": palette.muted, "line": {"width": 2}}
