"""Any runs side by side: the choice, their table, and their differences."""

import streamlit as st

from retrofit_app import runs
from retrofit_app.figures import Palette, claimed, escaped
from retrofit_app.runs import compared
from retrofit_app.runs.compared import Group
from retrofit_app.shell import lectures
from retrofit_app.shell.picker import Choice
from retrofit_app.widgets.errors import guarded

from . import by_class, lecture, parameters, table, taking
from .parameters import COMPARE, ORDERS, RunTable


@st.fragment
@guarded
def side(choice: Choice, palette: Palette) -> None:
    """Draw all but the sidebar: another order or pair reruns only this."""
    finished = [entry for entry in choice.entries if entry.state == "done"]
    by_name = {entry.name: entry for entry in finished}
    default = compared.default(choice.entries, choice.entry)
    chosen = parameters.run_table(by_name, default)
    groups = compared.groups([by_name[name] for name in chosen.runs], finished, chosen.apart)
    if lectures.read().lecture:
        names = dict.fromkeys(group.title for group in groups)
        lectures.show("; ".join(names), lecture.of_runs(groups, chosen.order, palette))
        return
    controls(by_name, default)
    layout(groups, chosen)
    results(groups, chosen, palette)


def controls(by_name: dict[str, runs.Entry], default: tuple[str, ...]) -> None:
    """Draw the choice of runs."""
    st.multiselect(
        "Runs",
        list(by_name),
        **COMPARE.control("runs", lambda names: tuple(names) or default),
        format_func=lambda name: f"{name}: {runs.label(by_name[name])}",
        placeholder="Choose runs",
        help="Choose any finished runs; the table lists them in this order. You can also tick runs in *Your runs* on Fuse.",
    )


def layout(groups: list[Group], chosen: RunTable) -> None:
    """Draw the choice of the rows' order and of joining seeds, if there is one."""
    rows = [row for group in groups for row in group.rows]
    if len(rows) < 2:
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        st.selectbox(
            "Order",
            list(ORDERS),
            **COMPARE.control("order"),
            format_func=ORDERS.__getitem__,
            width=210,
            help="Order of the rows, the best first.",
        )
        if chosen.apart or any(len(row.networks) > 1 for row in rows):
            st.toggle(
                "Each seed apart",
                **COMPARE.control("apart"),
                help="Off: runs that differ only in the seed of the fusion form one row, with mean and standard deviation.",
            )


def results(groups: list[Group], chosen: RunTable, palette: Palette) -> None:
    """Draw finding and table, and the runs' differences."""
    st.markdown("  \n".join(map(claimed, table.findings(groups))))
    runs_table = table.side_by_side(groups, chosen.order)
    st.html(runs_table.html(palette))
    st.caption(escaped(" ".join(runs_table.notes)))
    origin = taking.several(groups)
    taking.notations(runs_table, origin, "runs")
    settings(groups, chosen, palette)
    by_class.by_class(groups, palette, origin)
    st.divider()
    taking.copy(groups, "this comparison", "runs")


def settings(groups: list[Group], chosen: RunTable, palette: Palette) -> None:
    """Draw the compared runs' settings, by default only those that differ."""
    with st.container(horizontal=True, vertical_alignment="center", horizontal_alignment="distribute"):
        st.header("How do they differ?", anchor=False, width="stretch")
        st.toggle(
            "All settings",
            **COMPARE.control("every"),
            help="Off: only the settings that differ between these runs.",
        )
    differing = table.settings(groups, chosen.every)
    if differing.lines:
        st.html(differing.html(palette))
    rows = sum(len(group.rows) for group in groups)
    if not chosen.every:
        st.caption(
            "All other settings are the same."
            if differing.lines and rows > 1
            else "All their settings are the same."
            if rows > 1
            else "There is only one row. Choose another run above."
        )
