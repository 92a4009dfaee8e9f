"""A run as command and Python, for all pages."""

from collections.abc import Sequence
from typing import Any

import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from retrofit_app import runs
from retrofit_app.address import session

from .downloads import Origin, Several

#: What the texts are, and their language.
KINDS = {"Command": "bash", "Python": "python"}
GIVES = "Both give the numbers of this run. Start them {}."


def show(config: Any, training: Any, what: str = "this new run", where: str = "in the runs folder") -> None:
    """Draw both texts, made from the run's configs when the box is opened."""
    box = st.expander(
        f"Copy {what} as command or Python",
        icon=":material/content_copy:",
        key=f"copy {what}",
        on_change="rerun",
    )
    if box.open:
        with box:
            tabs(_texts(config, training), GIVES.format(where))


def tabs(texts: Sequence[str], note: str, *, link: bool = False, first: Sequence[str] = ()) -> list[DeltaGenerator]:
    """Draw texts to copy in tabs, each below a note.

    Args:
        texts: a command and Python.
        link: whether a link to the view comes before them.
        first: further tabs, which come first.
    Returns:
        The further tabs, still empty.
    """
    places = st.tabs([*first, *(["Link"] if link else []), *KINDS])
    if link:
        with places[len(first)]:
            st.caption("This view, with everything that is chosen on the page.")
            st.code(session.link(), language=None, wrap_lines=True)
    for place, language, text in zip(places[-len(KINDS) :], KINDS.values(), texts, strict=True):
        with place:
            st.caption(note)
            st.code(text, language=language, wrap_lines=True)
    return list(places[: len(first)])


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


def of_run(entry: runs.Entry) -> None:
    """Draw a recorded run's texts."""
    from retrofit_core.runs import RunConfig

    show(RunConfig.from_json(entry.config), runs.training_of(entry), "the shown run", runs.where(entry))


def texts(entry: Origin) -> tuple[str, str]:
    """A recorded run, or several, as command and Python."""
    if isinstance(entry, Several):
        return entry.texts()
    from retrofit_core.runs import RunConfig

    return _texts(RunConfig.from_json(entry.config), runs.training_of(entry))


def _texts(config: Any, training: Any) -> tuple[str, str]:
    from retrofit_core.runs import snippets

    return snippets.command(config, training), snippets.python(config, training)
