"""A lecture's slides on the paper: how many of its claims hold, and the differences in a table's columns, one by one."""

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from retrofit_app.figures import Palette, escaped
from retrofit_app.figures.booktable import MINUS, Column, Line, Table
from retrofit_app.figures.paper.totals import bars, count, groups
from retrofit_app.shell.lectures import HIDDEN, Slide

#: Opponents of the paper's methods on slides: those that do not lose everywhere.
OPPONENTS = ("best parent", "Ensemble", "LP")
COLUMNS = (Column("difference", is_number=False), Column("paper"), Column("ours"), Column("95 %"), Column("verdict"))


def of_all(summary: Any, palette: Palette) -> list[Slide]:
    """The report's summary, which reveals one group of opponents at a time; no slide if nothing can be compared."""
    if not summary.decided():
        return []
    reached = count(summary.decided())

    def draw(shown: int, _: float) -> None:
        st.html(bars(summary, palette, shown))

    return [
        Slide(
            "claims",
            f"{len(summary.decided())} claims of the paper, that one method is ahead of another, can be compared here. How many "
            "of them hold?",
            escaped(
                f"{reached['agreed']} agreed, {reached['undecided']} undecided, {reached['contradicted']} contradicted."
            ),
            len(groups(summary.decided())),
            draw,
        )
    ]


def of_table(columns: Sequence[Any], palette: Palette) -> list[Slide]:
    """A slide for each column that compares the paper's methods with OPPONENTS and counts."""
    from retrofit_core.experiments.claims import OURS

    slides = []
    for column in (column for column in columns if column.counts):
        claims = [claim for claim in column.claims if claim.ours is not None and claim.left in OURS]
        claims = [claim for claim in claims if claim.right in OPPONENTS]
        if claims:
            slides.append(_slide(column, claims, palette))
    return slides


def _slide(column: Any, claims: Sequence[Any], palette: Palette) -> Slide:
    reached = count(claims)
    return Slide(
        column.name,
        f"Points of accuracy in the paper, {escaped(column.name)}. Which sign has each difference here "
        f"({escaped(column.badge)})?",
        escaped(
            f"Of {len(claims)} differences {reached['agreed']} have the paper's sign, {reached['contradicted']} the other one, "
            f"and {reached['undecided']} are undecided ({column.badge})."
        ),
        len(claims),
        _rows(claims, palette),
    )


def _rows(claims: Sequence[Any], palette: Palette) -> Callable[[int, float], None]:
    """A function that draws the differences, the first `shown` with ours."""

    def draw(shown: int, _: float) -> None:
        lines = []
        for index, claim in enumerate(claims):
            name, printed, *ours = claim.words
            cells = printed, *(ours if index < shown else [HIDDEN] * len(ours))
            lines.append(Line((name, *(cell.replace("-", MINUS) for cell in cells))))
        st.html(Table("The paper's differences and ours", COLUMNS, tuple(lines)).html(palette))

    return draw
