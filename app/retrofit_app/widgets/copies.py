"""A run as a command, for all pages."""

from collections.abc import Callable

import streamlit as st

from retrofit_app import runs


def show(line: Callable[[], str], what: str = "this new run", where: str = "in the runs folder") -> None:
    """Draw a run's command, made when the box is opened."""
    box = st.expander(f"Copy {what} as command", icon=":material/content_copy:", key=f"copy {what}", on_change="rerun")
    if box.open:
        with box:
            st.caption(f"It gives the numbers of this run. Start it {where}.")
            st.code(line(), language="bash", wrap_lines=True)


def of_entry(entry: runs.Entry) -> str:
    """A recorded run as a command."""
    from retrofit_core.runs.config import RunConfig, commands

    return commands([(RunConfig.from_json(entry.config), runs.training_of(entry))])
