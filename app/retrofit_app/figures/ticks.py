"""A table of ticks: the properties of each method, and where another source disagrees."""

from collections.abc import Mapping
from textwrap import wrap
from typing import Any

from .drawing import cell_words, cells, drawn, named, room, rows
from .palette import TEXT, Palette, scale
from .picture import Picture

ROW = 28  # px
#: Letters after which a column's title breaks.
WIDTH = 12
PALE = 2.5  # the shade at the scale's full colour, so that all used shades are light enough for the page's ink


def tick_grid(table: Any, palette: Palette, signs: Mapping[object, tuple[float, str]]) -> Picture:
    """A cell for each row and column of a frame.

    Args:
        table: a `DataFrame`.
        signs: a cell's value -> its shade from 0 to 1, and its text.
    """
    marked = [[signs[value] for value in row] for row in table.to_numpy().tolist()]
    methods, titles = [str(name) for name in table.index], [str(title) for title in table.columns]
    tips = [
        [f"{name}, {title}: {words}" for title, (_, words) in zip(titles, row, strict=True)]
        for name, row in zip(methods, marked, strict=True)
    ]
    shades = [[shade for shade, _ in row] for row in marked]
    broken = [_broken(title) for title in titles]
    top = 12 + 18 * max(title.count("<br>") + 1 for title in broken)
    counts = [f"{name}: {sum(map(bool, row))} of {len(titles)}" for name, row in zip(methods, shades, strict=True)]
    return drawn(
        palette,
        [
            cells(shades, scale(palette), PALE, tips, 3),
            cell_words(
                [[words for _, words in row] for row in marked], [[palette.ink] * len(titles)] * len(marked), TEXT
            ),
        ],
        top + ROW * len(methods) + 6,
        f"Table of ticks. {', '.join(counts)}",
        title="What each method can fuse",
        margin=(room(methods), 4, top, 6),
        xaxis=named(palette, broken, side="top", tickangle=0),
        yaxis=rows(palette, methods),
    )


def _broken(title: str) -> str:
    """A title in lines of about WIDTH letters."""
    return "<br>".join(wrap(title, WIDTH, break_long_words=False, break_on_hyphens=False) or [""])
