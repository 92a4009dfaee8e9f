"""Downloads of a finished run: a page to send, the network, the record, and the run as a command or Python."""

import io
import zipfile
from pathlib import Path

import streamlit as st

from retrofit_app import runs, share
from retrofit_app.widgets import copies


def downloads(entry: runs.Entry) -> None:
    """Draw the downloads."""
    st.header("Take it with you", anchor=False)
    name = f"{entry.name}-{entry.config['method'].lower()}"
    files = (
        (
            "Page to send",
            "run.html",
            "page",
            lambda: share.page(entry),
            "This run as one HTML file: it opens in any browser without the workbench or a connection, and its figures are "
            "interactive (5 MB).",
        ),
        (
            "Network",
            "fused.safetensors",
            "safetensors",
            lambda: (entry.folder / "fused.safetensors").read_bytes(),
            "The checkpoint with its configuration, classes and normalisation.",
        ),
        (
            "Run record",
            "record.zip",
            "zip",
            lambda: record_zip(entry.folder),
            "The whole record: configuration, levels, network and measurements.",
        ),
    )
    with st.container(horizontal=True):
        for label, ending, kind, read, words in files:
            st.download_button(
                label,
                read,
                f"{name}-{ending}",
                key=f"get-{kind}",
                on_click="ignore",
                help=words,
                icon=":material/download:",
            )
    copies.of_run(entry)


def record_zip(folder: Path) -> bytes:
    """The record's files, without the worker's notes, which name this machine."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.iterdir()):
            if path.is_file() and not path.name.startswith("worker."):
                archive.write(path, f"{folder.name}/{path.name}")
    return packed.getvalue()
