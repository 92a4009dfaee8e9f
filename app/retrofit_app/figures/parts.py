"""Which part of the method earns the gain: what changing one part costs or gains against the whole method."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import plotly.express as px

from .drawing import faceted
from .palette import Palette
from .picture import Picture
from .words import listing, number, signed

ROW, TOP, BOTTOM = 30, 56, 90  # px: a row, above the panels, the axis and the legend
#: Default ends of the axis, in points; dots beyond are drawn at the end, with their number.
FARTHEST = (-12.0, 5.0)
UNDECIDED = "undecided: the 95 % interval contains 0"
SYMBOLS = {"worse than the whole": "circle", "better": "diamond", UNDECIDED: "circle-open"}


def parts(
    columns: Sequence[Any], changes: Sequence[Any], palette: Palette, farthest: tuple[float, float] = FARTHEST
) -> Picture:
    """A dot with a 95 % interval over test images for each change, one panel per kind of parents; 0 is the whole method.

    Args:
        columns: `ReproducedColumn`s of the tables `ablation` or `beyond`; those without any of the changes are left out.
        changes: `Change`s; if all change one whole, its accuracy is shown; those in no column are left out.
        farthest: the axis' outermost ends, in points.
    Raises:
        ValueError: none of the changes is measured.
    """
    frame = pd.DataFrame([row for column in columns for row in _rows(column.main, changes, farthest)])
    if frame.empty:
        raise ValueError("none of these changes is measured: there is nothing to draw.")
    shown = [f"{change.part}: {change.words}" for change in changes]
    shown = [name for name in dict.fromkeys(shown) if name in set(frame["change"])]
    colours = dict(zip(SYMBOLS, (palette.grouping, palette.accent, palette.ink), strict=True))
    figure = px.scatter(
        frame,
        x="place",
        y="change",
        text="points",
        color="verdict",
        symbol="verdict",
        facet_col="panel",
        error_x="above",
        error_x_minus="below",
        hover_name="tip",
        hover_data=dict.fromkeys(("place", "change", "points", "verdict", "panel"), False),
        color_discrete_map=colours,
        symbol_map=SYMBOLS,
        category_orders={"change": shown, "verdict": list(SYMBOLS)},
        labels={"place": "points", "change": ""},
    )
    figure.for_each_annotation(lambda note: note.update(text=note.text.removeprefix("panel="), align="left"))
    figure.update_traces(textposition="top center", marker_size=8)
    figure.add_vline(0, line_color=palette.muted, line_width=1)
    faceted(figure, palette, TOP + BOTTOM + ROW * (len(shown) + 1), l=4, r=8, t=TOP, b=BOTTOM)
    figure.update_yaxes(automargin=True, showgrid=False, range=(-0.6, len(shown) - 0.2))
    badges = listing(list(dict.fromkeys(column.badge for column in columns if column.name in set(frame["column"]))))
    most = frame.loc[frame.groupby("column", sort=False)["size"].idxmax()]
    found = [f"{row.column}: {row.change.replace(':', ',', 1)} ({row.points} points)" for row in most.itertuples()]
    names = listing(list(dict.fromkeys(frame["column"])))
    return Picture(
        figure,
        f"Dot plot of changes in accuracy ({badges}), one panel each for {names}. What changes most: {'; '.join(found)}.",
        f"What changes most: {'; '.join(found)}.",
        title=f"{columns[0].entry.title.split(':')[0]}: points of accuracy",
    )


def _rows(column: Any, changes: Sequence[Any], farthest: tuple[float, float]) -> list[dict[str, Any]]:
    """A panel's dots; those beyond the axis are at its end, without an interval."""
    known, one = {line.row for line in column.all_lines}, {change.whole for change in changes}
    rows = []
    for change in changes:
        gap = column.gap(change.row, change.whole) if {change.row, change.whole} <= known else None
        if gap is None:
            continue
        (low, high), place = gap.interval, min(max(gap.points, farthest[0]), farthest[1])
        inside = place == gap.points
        whole = f"<br>the whole: {number(column.number(change.whole))}\N{NO-BREAK SPACE}%" if len(one) == 1 else ""
        seeds = f", {len(gap.seeds)} seeds" if len(gap.seeds) > 1 else ""
        verdict = UNDECIDED if low <= 0 <= high else "better" if gap.points > 0 else "worse than the whole"
        rows.append(
            {
                "column": column.name,
                "panel": f"<b>{column.name}</b>{whole}",
                "change": f"{change.part}: {change.words}",
                "place": place,
                "points": signed(gap.points),
                "size": abs(gap.points),
                "above": high - gap.points if inside else 0.0,
                "below": gap.points - low if inside else 0.0,
                "verdict": verdict,
                "tip": f"{signed(gap.points)} points ({signed(low)} to {signed(high)}{seeds})",
            }
        )
    return rows
