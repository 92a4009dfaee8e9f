"""What pictures of the paper's columns share: which rows are methods, and how rows are picture_of."""

from collections.abc import Sequence
from html import escape
from textwrap import wrap
from typing import Any

from ..drawing import BELOW, Trace, picture_of, room, rows, scatter
from ..palette import Palette
from ..picture import Picture

#: Heights in px: a row, a line of its name, a line of the legend or of the axis' title, the axis' numbers.
ROW, LINE, ENTRY, NUMBERS = 25, 19, 21, 28
#: Letters in a line of a row's name, and of other words, so that a phone has room beside them.
NAME, WORDS = 25, 36
#: Prefixes of the paper's own methods, and rows that are not methods.
OURS = ("HF-", "KF-")
PARENT, REFERENCES, BEST = "Parent ", ("Ensemble", "Average"), ", best"
#: The group of opponents that do not lose nearly everywhere.
INFORMATIVE = "informative"


def short(badge: str) -> str:
    """The first word of a badge, which tells a scale from the column's: "small", "given"."""
    return badge.replace(",", " ").split(" ")[0]


def title_of(column: Any) -> str:
    """A table's subject and its column, for a title."""
    return f"{column.entry.title.split(': ')[0]}, {column.name}"


def at(badge: str) -> str:
    """A badge after a row's name, if the row has its own."""
    return f" ({escape(short(badge))})" if badge else ""


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
    *,
    xaxis: dict[str, Any],
    **more: Any,
) -> Picture:
    """A figure of `dots` with its legend below; see `picture_of`.

    Args:
        names: the rows.
        above: px above the first.
        xaxis: the horizontal axis, with a title.
    """
    lines = [wrap(name, NAME) for name in names]
    traces = [{**trace, "name": "<br>".join(wrap(trace["name"], WORDS))} for trace in traces]
    title = "<br>".join(wrap(xaxis["title"]["text"], WORDS))
    below = [title, *(trace["name"] for trace in traces if trace["showlegend"])]
    bottom = NUMBERS + ENTRY * sum(1 + words.count("<br>") for words in below) + 8
    shown = {"tickvals": list(names), "ticktext": ["<br>".join(each) for each in lines]}
    order = {"type": "category", "categoryorder": "array", "categoryarray": names, "autorange": False}
    return picture_of(
        palette,
        traces,
        above + bottom + max(ROW, *(LINE * len(each) for each in lines)) * len(names),
        what,
        finding,
        margin=(room([line for each in lines for line in each]), 12, above, bottom),
        legend=BELOW,
        xaxis={**xaxis, "title": {"text": title}},
        # px, so that a mark at the axis' end does not touch its name
        yaxis=rows(palette, ticklabelstandoff=9, range=[len(names) - 0.4, -0.6], **order, **shown),
        **more,
    )


def paper_mark(palette: Palette) -> dict[str, Any]:
    """The mark of the paper's numbers."""
    return {"symbol": "diamond-open", "size": 10, "color": palette.muted, "line": {"width": 2}}
