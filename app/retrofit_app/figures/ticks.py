"""A table of ticks: what each method has, and where somebody else says otherwise."""

from collections.abc import Mapping
from typing import Any

import plotly.graph_objects as go

from .palette import TEXT, Palette, scale
from .picture import Picture, layout, room, rows

ROW = 28  # px
#: How wide a title of a column may be before it is broken, in letters.
WIDTH = 12


def tick_grid(table: Any, palette: Palette, signs: Mapping[object, tuple[float, str]]) -> Picture:
    """A cell for each row and column of a frame.

    Args:
        table: a `DataFrame`.
        signs: a cell's value -> its shade from 0 to 1, and what is written on it.
    """
    cells = [[signs[value] for value in row] for row in table.to_numpy().tolist()]
    names, titles = [str(name) for name in table.index], [str(title) for title in table.columns]
    low, high = scale(palette)
    figure = go.Figure(
        go.Heatmap(
            z=[[shade for shade, _ in row] for row in cells],
            x=titles,
            y=names,
            text=[[words for _, words in row] for row in cells],
            texttemplate="%{text}",
            textfont={"size": TEXT, "color": palette.ink},
            colorscale=[[0, low], [1, high]],
            zmin=0,
            zmax=2.5,  # light enough for the page's ink
            xgap=3,
            ygap=3,
            showscale=False,
            hovertemplate="%{y}, %{x}: %{text}<extra></extra>",
        )
    )
    broken = [_broken(title) for title in titles]
    top = 12 + 18 * max(title.count("<br>") + 1 for title in broken)
    figure.update_layout(
        **layout(palette, height=top + ROW * len(names) + 6), margin={"l": room(names), "r": 4, "t": top, "b": 6}
    )
    figure.update_xaxes(
        side="top",
        type="category",
        tickvals=titles,
        ticktext=broken,
        tickangle=0,
        ticks="",
        showgrid=False,
        zeroline=False,
        fixedrange=True,
        tickfont={"size": TEXT, "color": palette.ink},
    )
    figure.update_yaxes(**rows(palette))
    counts = [
        f"{name}: {sum(bool(shade) for shade, _ in row)} of {len(titles)}"
        for name, row in zip(names, cells, strict=True)
    ]
    return Picture(figure, f"Table of ticks. {', '.join(counts)}.")


def _broken(title: str) -> str:
    """A title in lines of about WIDTH letters."""
    lines = [""]
    for word in title.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > WIDTH:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return "<br>".join(lines)
