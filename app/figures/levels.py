"""What is lost over the levels."""

from typing import Any

import numpy as np
import plotly.graph_objects as go

from .palette import TEXT, Palette
from .picture import Picture, axis, layout, number, percent


def level_errors(table: Any, palette: Palette, chosen: int | None = None) -> Picture:
    """Grouping and approximation error of each level, stacked, in per cent of the parents' weighted energy there.

    Args:
        table: `results.frame(levels)`.
    """
    names = [f"{index + 1}" for index in range(len(table))]
    figure = go.Figure()
    for column, label, colour, pattern in (
        ("grouping share", "grouping", palette.grouping, ""),
        ("approximation share", "approximation", palette.approximation, "/"),
    ):
        figure.add_bar(
            x=names, y=100 * table[column], name=label, width=0.62, customdata=table[["level"]],
            marker={"color": colour, "line": {"color": palette.outline, "width": 1},
                    "pattern": {"shape": pattern, "fillmode": "overlay", "fgcolor": palette.outline, "size": 6, "solidity": 0.3}},
            hovertemplate="level %{x}, %{customdata[0]}<br>" + label + ": %{y:.2f} %<extra></extra>",
        )  # fmt: skip
    total = 100 * (table["grouping share"] + table["approximation share"])
    figure.add_scatter(
        x=names, y=total, mode="text", text=[number(value) for value in total], textposition="top center",
        textfont={"color": palette.ink, "size": TEXT}, showlegend=False, hoverinfo="skip", cliponaxis=False,
    )  # fmt: skip
    if chosen is not None:
        figure.add_shape(type="rect", xref="x", yref="paper", x0=chosen - 0.42, x1=chosen + 0.42, y0=0, y1=1,
                         line={"color": palette.accent, "width": 2}, fillcolor="rgba(0,0,0,0)")  # fmt: skip
    figure.update_layout(**layout(palette, height=250), barmode="stack",
                         legend={"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "traceorder": "normal",
                                 "font": {"size": TEXT, "color": palette.ink}})  # fmt: skip
    figure.update_layout(margin={"l": 4, "r": 4, "t": 40, "b": 40})
    figure.update_xaxes(
        title={"text": "level", "standoff": 4, "font": {"size": TEXT}},
        type="category",
        **axis(palette),
        showgrid=False,
    )
    figure.update_yaxes(
        range=[0, max(float(total.max()) * 1.22, 1e-9)], ticksuffix=" %", automargin=True, **axis(palette)
    )
    worst = int(np.argmax(total))
    row = table.iloc[worst]
    part = row["grouping share"] / max(row["grouping share"] + row["approximation share"], 1e-300)
    finding = (
        f"Level {worst + 1} ({row['level']}) loses most: {percent(total.iloc[worst])} of its neurons' energy, "
        f"{100 * part:.0f}\N{NO-BREAK SPACE}% of that by grouping."
    )
    return Picture(
        figure, f"Stacked bars of grouping and approximation error over {len(table)} levels. {finding}", finding
    )
