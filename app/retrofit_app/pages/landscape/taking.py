"""Link, files, and the command that measures it again."""

from collections.abc import Mapping
from typing import Any

import streamlit as st

from retrofit_app import runs
from retrofit_app.widgets import copies, works
from retrofit_core.runs.store import Work


def everything(entry: runs.Entry, work: Work) -> None:
    """Draw this landscape's downloads, folded."""
    with st.expander("Take it with you", icon=":material/download:"):
        st.download_button(
            "Everything (JSON)",
            (work.folder / "landscape.json").read_bytes(),
            f"{entry.name}-landscape.json",
            on_click="ignore",
            icon=":material/download:",
            key="take-landscape.json",
            help="As `retrofit landscape --out` writes it: networks, grid, lines, flatness and how they were measured.",
        )
        note = f"Start it in the folder of the run. The same settings give the same numbers.{where(entry)}"
        copies.command(command_of(entry, work.settings), note)


def where(entry: runs.Entry) -> str:
    """What a shipped run needs first, because its record is inside the program's folder."""
    if not entry.shipped:
        return ""
    return " First make the record: its command is on Fuse, under Copy the shown run."


def command_of(entry: runs.Entry, settings: Mapping[str, Any]) -> str:
    """The command that measures a landscape with these settings again."""
    from retrofit_core.runs.landscapes import LandscapeConfig

    return f"{LandscapeConfig.from_json(settings).command(works.record_of(entry))} --clip 4.6 --out landscape"
