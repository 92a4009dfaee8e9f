"""Which network is better, and at what? Any runs side by side: their table, their differences, and each class."""

from collections.abc import Sequence

import streamlit as st

from retrofit_app import runs, widgets
from retrofit_app.address.readers import Series, one_of
from retrofit_app.address.rule import Parameter
from retrofit_app.address.session import Scope
from retrofit_app.figures import Network, Palette, claimed, escaped
from retrofit_app.figures.classes import class_sources, forgotten
from retrofit_app.runs import compared
from retrofit_app.runs.compared import Group, Row
from retrofit_app.shell import picker
from retrofit_app.shell.picker import Choice
from retrofit_app.widgets.errors import guarded

from . import table

COMPARE = Scope("compare")
MOST_RUNS = 150  # so that an address has room for them
MOST = 20  # most networks in one picture


def page() -> None:
    """Draw the comparison."""
    with st.container(key="heading"):
        st.title("Which network is better, and at what?", anchor=False)
    side(picker.choice(), widgets.palette())


@st.fragment
@guarded
def side(choice: Choice, palette: Palette) -> None:
    """Draw all but the sidebar: other runs redraw only this."""
    by_name = {entry.name: entry for entry in choice.entries if entry.state == "done"}
    default = compared.default(choice.entries, choice.entry)
    read = Series("|", one_of(by_name, "finished run"), MOST_RUNS, once=True, otherwise=default)
    names = COMPARE.one(Parameter("runs", default, read))
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
    for group in groups:
        st.markdown(f"**{escaped(table.heading(group))}**")
        alt = "Compared runs and what they are measured against"
        st.dataframe(
            table.side_by_side(group), hide_index=True, height="content", alt=alt, column_config=table.configured()
        )
    settings(groups)
    versions = sorted({entry.status.get("version") or runs.library() for entry in map(by_name.__getitem__, names)})
    by_class(groups, palette, f"Runs {', '.join(names)}; retrofit-workbench {', '.join(versions)}")


def settings(groups: Sequence[Group]) -> None:
    """Draw the settings in which the compared runs differ."""
    st.header("How do they differ?", anchor=False)
    if sum(len(group.rows) for group in groups) < 2:
        st.caption("There is only one row. Choose another run above.")
        return
    differing = table.settings(groups)
    if len(differing):
        st.dataframe(differing, height="content", alt="Settings of the compared runs")
    st.caption(f"All {'other' if len(differing) else 'their'} settings are the same.")


def by_class(groups: Sequence[Group], palette: Palette, origin: str) -> None:
    """Draw which parent's knowledge survived, a picture for each set of parents with measured networks."""
    measured = [group for group in groups if group.parents and any(row.n for row in group.rows)]
    if measured:
        st.header("What came from whom?", anchor=False)
    for index, group in enumerate(measured):
        parents, fused = map(_network, group.parents), [_network(row) for row in group.rows if row.n][:MOST]
        parents = list(parents)
        widgets.chart(
            f"classes{index}",
            class_sources(parents, fused, group.classes, palette),
            origin,
            heading=f"**Accuracy per class**, in per cent: {escaped(group.title)}",
            below=escaped(forgotten(fused, parents, group.classes)),
        )


def _network(row: Row) -> Network:
    return Network(row.name, row.role, row.accuracy or 0.0, row.per_class)
