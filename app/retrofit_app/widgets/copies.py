"""A run as command, Python and notebook cell, for all pages."""

from collections.abc import Sequence
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from retrofit_app import runs
from retrofit_app.address import session

from .downloads import Origin, Several

#: What the texts are, and their language.
KINDS = {"Command": "bash", "Python": "python", "Notebook cell": "python"}
GIVES = "Each of them gives the numbers of this run. Start it in the runs folder."


def show(config: Any, training: Any, what: str = "this new run") -> None:
    """Draw the three texts, made from the run's configs when the box is opened."""
    box = st.expander(
        f"Copy {what} as command, Python or notebook cell",
        icon=":material/content_copy:",
        key=f"copy {what}",
        on_change="rerun",
    )
    if box.open:
        with box:
            tabs(_texts(config, training), GIVES)


def tabs(texts: Sequence[str], note: str, *, link: bool = False, first: Sequence[str] = ()) -> list[DeltaGenerator]:
    """Draw texts to copy in tabs, each below a note.

    Args:
        texts: a command, Python and, if there are three, a notebook cell.
        link: whether a link to the view comes before them.
        first: further tabs, which come first.
    Returns:
        The further tabs, still empty.
    """
    kinds = list(KINDS)[: len(texts)]
    places = st.tabs([*first, *(["Link"] if link else []), *kinds])
    if link:
        with places[len(first)]:
            st.caption("This view, with everything that is chosen on the page.")
            st.code(session.link(), language=None, wrap_lines=True)
    for place, kind, text in zip(places[-len(kinds) :], kinds, texts, strict=True):
        with place:
            st.caption(note)
            st.code(text, language=KINDS[kind], wrap_lines=True)
    return list(places[: len(first)])


def files(title: str, stem: str, key: str, formats: Sequence[tuple[str, str, Any]], help: str, needs: str) -> None:
    """Draw buttons that download one table in several formats.

    Args:
        stem: the files' name without ending.
        formats: label, ending, and the content or what makes it.
        help: what the files hold.
        needs: the packages that LaTeX needs for it.
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


def of_run(entry: runs.Entry) -> None:
    """Draw a recorded run's texts."""
    from retrofit_core.runs import RunConfig

    show(RunConfig.from_json(entry.config), runs.training_of(entry), "the shown run")


def texts(entry: Origin) -> tuple[str, str, str]:
    """A recorded run, or several, as command, Python and notebook cell."""
    if isinstance(entry, Several):
        return entry.texts()
    from retrofit_core.runs import RunConfig

    return _texts(RunConfig.from_json(entry.config), runs.training_of(entry))


def _texts(config: Any, training: Any) -> tuple[str, str, str]:
    from retrofit_core.runs import snippets

    writers = (snippets.command, snippets.python, snippets.notebook_cell)
    command, python, cell = (make(config, training) for make in writers)
    return command, python, cell
