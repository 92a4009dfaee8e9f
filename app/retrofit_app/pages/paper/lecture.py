"""A lecture's slide on the paper: how many of its claims hold."""

from typing import Any

import streamlit as st

from retrofit_app.figures import Palette, escaped
from retrofit_app.figures.paper.totals import bars, count, groups
from retrofit_app.shell.lectures import Slide


def of_all(summary: Any, palette: Palette) -> list[Slide]:
    """The report's summary, which reveals one group of opponents at a time; no slide if nothing can be compared."""
    claims = summary.decided()
    if not claims:
        return []
    reached = count(claims)

    def draw(shown: int, _: float) -> None:
        st.html(bars(summary, palette, shown))

    return [
        Slide(
            "claims",
            f"{len(claims)} claims of the paper, that one method is ahead of another, can be compared here. How many of them "
            "hold?",
            escaped(
                f"{reached['agreed']} agreed, {reached['undecided']} undecided, {reached['contradicted']} contradicted."
            ),
            len(groups(claims)),
            draw,
        )
    ]
