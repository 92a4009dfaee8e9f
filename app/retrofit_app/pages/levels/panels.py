"""Below the cluster pictures: picked neurons, and one closer look: scores, sizes, one cluster, all neurons."""

from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from retrofit_app import figures, widgets
from retrofit_app.address import neurons
from retrofit_app.figures import Neurons, escaped, title

from .parameters import EXPERT, LEVELS, PANELS
from .view import View


def panel(view: View) -> None:
    """Draw the chosen closer look."""
    st.segmented_control(
        "A closer look",
        [name for name in PANELS if name not in EXPERT or name == view.look.panel],
        **LEVELS.control("panel"),
        required=True,
        format_func=PANELS.__getitem__,
        help=(
            "Shows how alike the groupings are, or how large the groups are. Expert, above, has more. The score whose name "
            "is bold above the pictures decides; click another name to change it."
        ),
    )
    if view.look.panel == "scores":
        agreement(view)
    elif view.look.panel == "sizes":
        options = {} if view.analysis is None else dict(zip(("score", "seed"), view.chosen(), strict=True))
        view.chart("sizes", f"**Group sizes**, {escaped(title(view.look.score))}", **options)
    elif view.look.panel == "cluster":
        one_cluster(view)
    else:
        st.markdown("**All neurons**, the most important first. Tick rows to ring these neurons in the pictures.")
        neuron_rows(view, view.neurons().sort_values("importance × mean", ascending=False), "all")


# --- two groupings --------------------------------------------------------------------------------


def expert() -> None:
    """Draw the looks under *Expert*."""
    helps = {
        "cluster": "Shows where the members of one group are under the other scores.",
        "neurons": "Shows every neuron as a row, the most important first.",
    }
    for name in EXPERT:
        st.button(
            PANELS[name],
            key=f"look-{name}",
            on_click=LEVELS.change,
            kwargs={"panel": name},
            help=helps[name],
            type="tertiary",
        )


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
    seed = int(view.look.seed)
    scores = _scores_of(view, view.look.pair)
    if scores is None:
        return [(score, seed) for score in view.scores]
    first, second = scores
    return [(first, 0), (first, seed or 1)] if first == second else [(first, seed), (second, seed)]


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


# --- one cluster ----------------------------------------------------------------------------------


def followed(view: View) -> list[int]:
    """The followed cluster's members, which get spokes in every picture."""
    if view.look.panel != "cluster":
        return []
    return np.flatnonzero(view.grouping().labels == view.cluster).tolist()


def one_cluster(view: View) -> None:
    """Draw where one cluster's members are under other scores."""
    grouped = view.grouping()
    ranked = np.argsort(-grouped.counts, kind="stable")
    st.selectbox(
        f"A group of {escaped(title(view.look.score))}",
        [str(cluster) for cluster in ranked.tolist() if grouped.counts[cluster]],
        **LEVELS.control("cluster"),
        width=260,
        format_func=lambda cluster: (
            f"{cluster} · {grouped.counts[int(cluster)]} member" + ("" if grouped.counts[int(cluster)] == 1 else "s")
        ),
        help="The largest come first. To choose another one, you can also click a neuron in a picture (Pick neurons by: click).",
    )
    rows = followed(view)
    st.markdown(f"{figures.members_words(grouped, view.cluster)} Lines join them in the pictures above.")
    if len(view.scores) < 2:
        widgets.why("This run has no other score under which to follow it.")
        return
    st.markdown("**Where are its members under the other scores?**")
    st.dataframe(
        flow_table(view, rows),
        hide_index=True,
        alt="Where the members of the group are under the other scores.",
        column_config={
            "under": st.column_config.TextColumn("under", help="The score that groups the same neurons."),
            "most go to": st.column_config.NumberColumn("most go to", help="The group that holds most of them."),
            "stayed": st.column_config.NumberColumn("stayed", help="Members that are in that group."),
            "left": st.column_config.NumberColumn("left", help="Members that are elsewhere."),
            "joined": st.column_config.NumberColumn("joined", help="Other neurons that are in that group."),
            "spread over": st.column_config.NumberColumn("spread over", help="Number of groups that hold members."),
        },
    )


def flow_table(view: View, rows: list[int]) -> pd.DataFrame:
    """Stayed, left, joined: a row for each other score."""
    lines = []
    for score in view.scores:
        if score != view.look.score:
            other = view.grouping(score)
            destinations = figures.destinations(other, rows)
            most, stayed = destinations[0]
            lines.append(
                {
                    "under": title(score),
                    "most go to": most,
                    "stayed": stayed,
                    "left": len(rows) - stayed,
                    "joined": int(other.counts[most]) - stayed,
                    "spread over": len(destinations),
                }
            )
    return pd.DataFrame(lines)


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
    key = f"neurons-{view.index}-{view.look.score}-{view.look.seed}-{what}"
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
