"""A run as command, Python and notebook cell, for all pages."""

from typing import Any

import streamlit as st

from retrofit_app import runs

from .downloads import Origin, Several


def show(config: Any, training: Any, what: str = "this new run") -> None:
    """Draw the three texts, made from the run's configs when the box is opened."""
    box = st.expander(
        f"Copy {what} as command, Python or notebook cell",
        icon=":material/content_copy:",
        key=f"copy {what}",
        on_change="rerun",
    )
    if not box.open:
        return
    with box:
        tabs(*_texts(config, training))


def tabs(in_shell: str, in_python: str, in_cell: str) -> None:
    """Draw the three texts in tabs."""
    st.caption("Each of them gives the numbers of this run. Start them in the runs folder.")
    command, python, cell = st.tabs(["Command", "Python", "Notebook cell"])
    command.code(in_shell, language="bash", wrap_lines=True)
    python.code(in_python, language="python", wrap_lines=True)
    cell.code(in_cell, language="python", wrap_lines=True)


def of_run(entry: runs.Entry) -> None:
    """Draw a recorded run's texts."""
    from retrofit_core.runs import RunConfig

    show(RunConfig.from_json(entry.config), training_of(entry), "the shown run")


def texts(entry: Origin) -> tuple[str, str, str]:
    """A recorded run, or several, as command, Python and notebook cell."""
    if isinstance(entry, Several):
        return entry.texts()
    from retrofit_core.runs import RunConfig

    return _texts(RunConfig.from_json(entry.config), training_of(entry))


def _texts(config: Any, training: Any) -> tuple[str, str, str]:
    from retrofit_core.runs import snippets

    writers = (snippets.command, snippets.python, snippets.notebook_cell)
    command, python, cell = (make(config, training) for make in writers)
    return command, python, cell


def training_of(entry: runs.Entry) -> Any:
    """The `TrainConfig` of a run's parents if the app or `retrofit train` made them; else None."""
    from retrofit_core.training.parents import TrainConfig

    try:
        return TrainConfig.from_json(entry.training) if entry.training else None
    except ValueError:
        return None
