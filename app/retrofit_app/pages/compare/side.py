"""Any runs side by side: the choice, their table, and their differences."""

import streamlit as st

from retrofit_app import runs
from retrofit_app.figures import Palette, claimed, escaped
from retrofit_app.runs import compared
from retrofit_app.runs.compared import Group
from retrofit_app.shell.picker import Choice
from retrofit_app.widgets.errors import guarded

from . import by_class, parameters, table, taking
from .parameters import COMPARE


@st.fragment
@guarded
def side(choice: Choice, palette: Palette) -> None:
    """Draw all but the sidebar: other runs redraw only this."""
    by_name = {entry.name: entry for entry in choice.entries if entry.state == "done"}
    default = compared.default(choice.entries, choice.entry)
    names = parameters.compared_runs(by_name, default)
    st.multiselect(
        "Runs",
        list(by_name),
        **COMPARE.control("runs", lambda names: tuple(names) or default),
        format_func=lambda name: f"{name}: {runs.label(by_name[name])}",
        placeholder="Choose runs",
        help="Choose any finished runs. You can also tick runs in *Your runs* on Fuse. Runs that differ only in the seed of the "
        "fusion form one row, with mean and standard deviation.",
    )
    groups = compared.groups([by_name[name] for name in names])
    st.markdown("  \n".join(map(claimed, table.findings(groups))))
    runs_table = table.side_by_side(groups)
    st.html(runs_table.html(palette))
    st.caption(escaped(" ".join(runs_table.notes)))
    origin = taking.several(groups)
    taking.notations(runs_table, origin, "runs")
    settings(groups, palette)
    by_class.by_class(groups, palette, origin)


def settings(groups: list[Group], palette: Palette) -> None:
    """Draw the settings in which the compared runs differ."""
    st.header("How do they differ?", anchor=False)
    if sum(len(group.rows) for group in groups) < 2:
        st.caption("There is only one row. Choose another run above.")
        return
    differing = table.settings(groups)
    if differing.lines:
        st.html(differing.html(palette))
    st.caption(f"All {'other' if differing.lines else 'their'} settings are the same.")
