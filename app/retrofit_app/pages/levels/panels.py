"""Below the cluster pictures: picked neurons, and how alike the scores' groupings are."""

from typing import Any

import pandas as pd
import streamlit as st

from retrofit_app import figures, widgets
from retrofit_app.address import neurons
from retrofit_app.figures import Neurons, escaped, title

from .parameters import LEVELS
from .view import View

# --- two groupings --------------------------------------------------------------------------------


def pairs(analysis: Any, names: list[str]) -> list[str]:
    """The pairs to show side by side: two scores, or two seeds of one if its grouping is random."""
    if analysis is None:
        return []
    scores = [f"{first}-{second}" for i, first in enumerate(names) for second in names[i + 1 :]]
    random = [score for score in names if _random(analysis.labels[score])]
    return scores + [f"{score}-{score}" for score in random]


def _random(labels: Any) -> bool:
    return len(labels) > 1 and bool((labels[0] != labels[1]).any())


def pair_words(view: View, pair: str) -> str:
    """A pair's label in the list."""
    first, second = _scores_of(view, pair) or ("", "")
    return f"{title(first)}: two seeds" if first == second else f"{title(first)} and {title(second)}"


def _scores_of(view: View, pair: str) -> tuple[str, str] | None:
    """The two scores of a pair; a score's name may contain a dash."""
    return next(((a, b) for a in view.scores for b in view.scores if f"{a}-{b}" == pair), None)


def compared(view: View) -> list[tuple[str, int]]:
    """Score and seed of every shown picture."""
    scores = _scores_of(view, view.look.pair)
    if scores is None:
        return [(score, 0) for score in view.scores]
    first, second = scores
    return [(first, 0), (second, int(first == second))]


def agreement(view: View) -> None:
    """Draw how similar the scores' groupings are, compared with seeds."""
    if view.analysis is None:
        widgets.why("The analysis contains the groupings of other scores. This run has no analysis.")
        return

    def side_by_side() -> None:
        points = st.session_state["agreement"]["selection"]["points"]
        cells = [point["customdata"][0] for point in points if "customdata" in point]
        if cells and cells[0] in view.pairs:
            LEVELS.change(pair=cells[0])

    left, right = st.columns([3, 2], gap="medium", vertical_alignment="center")
    with left:
        view.chart(
            "agreement",
            "**Do the scores group differently?**",
            below="",
            chosen=view.look.pair,
            on_select=side_by_side,
            selection_mode="points",
        )
    right.markdown(escaped(figures.agreement_words(view.analysis.agreement)))
    view.missing()


# --- neurons --------------------------------------------------------------------------------------


def text_of(grouped: Neurons, rows: list[int]) -> str:
    """Neurons as in the address."""
    return neurons.text_of([(int(grouped.parents[row]), int(grouped.numbers[row])) for row in rows])


def show_picked(view: View) -> None:
    """Draw the picked neurons as a table; ticked rows get rings in the pictures."""
    grouped = view.grouping()
    picked = view.rows("pick")
    if not picked:
        st.caption(
            "The address picks neurons that this level does not have."
            if view.look.pick
            else "Draw around some neurons in a picture to ring them in all pictures and list them in a table here."
        )
        return
    parents = [
        f"{int((grouped.parents[picked] == parent).sum())} of {name}" for parent, name in enumerate(view.parents)
    ]
    mean = float(grouped.weights[picked].mean())
    with st.container(horizontal=True, vertical_alignment="center"):
        st.markdown(
            f"**{len(picked)} neuron{'' if len(picked) == 1 else 's'} picked**: {', '.join(parents)}; "
            f"mean importance {figures.number(mean, 2)} × mean"
        )
        st.button(
            "Clear pick",
            key="clear",
            on_click=LEVELS.change,
            kwargs={"pick": "", "mark": ""},
            icon=":material/close:",
            help="Takes the rings away and shows all neurons bright again.",
        )
    neuron_rows(view, view.neurons().iloc[picked], f"picked-{len(picked)}")


def neuron_rows(view: View, shown: pd.DataFrame, what: str) -> None:
    """Draw neurons as rows."""
    key = f"neurons-{view.index}-{view.look.score}-{what}"
    rows, grouped = shown.index.to_list(), view.grouping()

    def mark() -> None:
        chosen = [rows[row] for row in st.session_state[key]["selection"]["rows"] if row < len(rows)]
        LEVELS.change(mark=text_of(grouped, chosen))

    column = st.column_config.NumberColumn
    st.dataframe(
        shown,
        key=key,
        hide_index=True,
        height=min(36 * len(shown) + 40, 220),
        on_select=mark,
        selection_mode="multi-row",
        alt=f"Neurons of level {view.report.name} with group and importance under {title(view.look.score)}.",
        column_config={
            "neuron": st.column_config.TextColumn(
                "neuron", pinned=True, help="Network and number. A3 is neuron 3 of network A."
            ),
            "importance × mean": column(format="%.2f", help="Importance in multiples of the level's mean."),
            "distance": column(format="%.3g", help="Distance to the group's mean, in the plane of the picture."),
            "kept R²": column(
                format="%.2f", help="Share of the neuron's variance that its fused neuron explains in this run."
            ),
        },
    )
