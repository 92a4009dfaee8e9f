"""A table of ticks: what each method has, and where somebody else says otherwise."""

from collections.abc import Mapping
from typing import Any

from .drawing import axis_of_names, cells, plot, room, rows
from .palette import Palette, scale
from .picture import Picture

ROW = 28  # px
#: How wide a title of a column may be before it is broken, in letters.
WIDTH = 12


def tick_grid(table: Any, palette: Palette, signs: Mapping[object, tuple[float, str]]) -> Picture:
    """A cell for each row and column of a frame.

    Args:
        table: a `DataFrame`.
        signs: a cell's value -> its shade from 0 to 1, and what is written on it.
    """
    signed = [[signs[value] for value in row] for row in table.to_numpy().tolist()]
    names, titles = [str(name) for name in table.index], [str(title) for title in table.columns]
    grid = cells(
        titles,
        names,
        [[shade for shade, _ in row] for row in signed],
        scale(palette),
        2.5,  # light enough for the page's ink
        3,
        text=[[words for _, words in row] for row in signed],
        texttemplate="%{text}",
        textfont={"color": palette.ink},
        hovertemplate="%{y}, %{x}: %{text}<extra></extra>",
    )
    broken = [_broken(title) for title in titles]
    top = 12 + 18 * max(title.count("<br>") + 1 for title in broken)
    across = {"side": "top", "type": "category", "tickvals": titles, "ticktext": broken, "tickangle": 0}
    figure = plot(
        palette,
        [grid],
        top + ROW * len(names) + 6,
        (room(names), 4, top, 6),
        xaxis=axis_of_names(palette, **across),
        yaxis=rows(palette),
    )
    counts = [
        f"{name}: {sum(bool(shade) for shade, _ in row)} of {len(titles)}"
        for name, row in zip(names, signed, strict=True)
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
