"""A run as a command, for all pages."""

from collections.abc import Callable, Sequence
from typing import Any

import streamlit as st

from retrofit_app import runs

GIVES = "It gives the numbers of this run. Start it {}."


def show(line: Callable[[], str], what: str = "this new run", where: str = "in the runs folder") -> None:
    """Draw a run's command, made when the box is opened."""
    box = st.expander(f"Copy {what} as command", icon=":material/content_copy:", key=f"copy {what}", on_change="rerun")
    if box.open:
        with box:
            command(line(), GIVES.format(where))


def command(text: str, note: str) -> None:
    """Draw a command to copy below a note."""
    st.caption(note)
    st.code(text, language="bash", wrap_lines=True)


def files(title: str, stem: str, key: str, formats: Sequence[tuple[str, str, Any]], help: str, needs: str = "") -> None:
    """Draw buttons that download one table in several formats.

    Args:
        stem: the files' name without ending.
        formats: label, ending, and the content or what makes it.
        help: what the files hold.
        needs: the packages that LaTeX needs for it, if it is one of the formats.
    """
    with st.container(horizontal=True, gap="small", vertical_alignment="center"):
        st.caption(title, width="content")
        for label, ending, content in formats:
            st.download_button(
                label,
                content,
                f"{stem}.{ending}",
                on_click="ignore",
                key=f"take-{key}-{ending}",
                icon=":material/download:",
                help=f"{label}, {help}{f' Needs the {needs}.' if ending == 'tex' else ''}",
            )


def of_entry(entry: runs.Entry) -> str:
    """A recorded run as a command."""
    from retrofit_core.runs.config import RunConfig, commands

    return commands([(RunConfig.from_json(entry.config), runs.training_of(entry))])
