"""One menu for each picture or table: its numbers, its files, a link to the view, the run as a command."""

from collections.abc import Callable

import pandas as pd
import streamlit as st

from retrofit_app import runs
from retrofit_app.address import session
from retrofit_app.figures import LIGHT, Palette, Picture

from . import copies
from .downloads import csv, file_stem, html
from .saver import saver


def menu(
    key: str,
    table: Callable[[], pd.DataFrame],
    entry: runs.Entry,
    draw: Callable[[Palette], Picture] | None = None,
    heading: str = "",
    level: str = "",
) -> None:
    """The menu of a picture or (without `draw`) of a table; nothing is made before it is opened.

    Args:
        key: of the picture.
        table: the numbers behind it.
        heading: as plain text, for the HTML file.
        level: of the run, whose picture it is; files carry its name.
    """
    stem = file_stem(entry.name, level, key)
    box = st.popover(
        "Table and files",
        icon=":material/more_horiz:",
        type="tertiary",
        key=f"menu-{key}",
        on_change="rerun",
        help="The numbers behind it as a table; files (CSV, SVG, PNG, HTML); a link to this view; the run as a command.",
    )
    if not box.open:
        return
    with box:
        numbers = table()
        with st.container(horizontal=True, gap="xsmall", vertical_alignment="center"):
            st.download_button(
                "CSV",
                lambda: csv(numbers, entry),
                f"{stem}.csv",
                "text/csv",
                on_click="ignore",
                key=f"{key}-csv",
                help="The table below, with a last line that says where it comes from.",
            )
            if draw is not None:
                saver(key, stem, f"{key}-saver")
                st.download_button(
                    "HTML",
                    lambda: html(draw(LIGHT), heading, entry),
                    f"{stem}.html",
                    "text/html",
                    on_click="ignore",
                    key=f"{key}-html",
                    help="The picture as one page that opens without a network (about 5 MB).",
                )
        numbers_tab, link, command, python = st.tabs(["Table", "Link", "Command", "Python"])
        numbers_tab.dataframe(
            numbers, hide_index=True, height=min(36 * len(numbers) + 40, 320), alt=f"The numbers of {stem}."
        )
        with link:
            st.caption("This view: run, level, step, score, and what is picked.")
            st.code(session.link(), language=None, wrap_lines=True)
        in_shell, in_python, _ = copies.texts(entry)
        with command:
            st.caption("Makes this run again, in the runs folder.")
            st.code(in_shell, language="bash", wrap_lines=True)
        with python:
            st.caption("Makes this run again, in the runs folder.")
            st.code(in_python, language="python", wrap_lines=True)
