"""What can be taken from a finished run: a page to send, the network, and the run as a command."""

import streamlit as st

from retrofit_app import runs, share
from retrofit_app.widgets import copies


def downloads(entry: runs.Entry) -> None:
    """Draw the downloads."""
    st.header("Take it with you", anchor=False)
    name = f"{entry.name}-{entry.config['method'].lower()}"
    with st.container(horizontal=True):
        st.download_button(
            "Page to send",
            lambda: share.page(entry),
            f"{name}-run.html",
            key="get-page",
            on_click="ignore",
            icon=":material/download:",
            help="This run as one HTML file: it opens in any browser without the workbench or a connection, and its figures are "
            "interactive (5 MB).",
        )
        st.download_button(
            "Network",
            lambda: (entry.folder / "fused.safetensors").read_bytes(),
            f"{name}-fused.safetensors",
            key="get-network",
            on_click="ignore",
            icon=":material/download:",
            help="The checkpoint with its configuration, classes and normalisation.",
        )
    copies.show(lambda: copies.of_entry(entry), "the shown run", runs.where(entry))
