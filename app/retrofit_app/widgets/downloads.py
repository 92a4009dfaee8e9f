"""A picture's or table's origin, and files to download, which state it."""

import io
import re
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

import pandas as pd
import plotly.graph_objects as go

from retrofit_app import runs
from retrofit_app.figures import CONFIG, Picture


@dataclass(frozen=True)
class Several:
    """Runs side by side, as the origin in place of a single run."""

    name: str
    """For file names"""
    source: str
    """A sentence without its full stop: which runs, and the library's version"""
    texts: Callable[[], tuple[str, str]]
    """The comparison as command and Python"""
    what: str = "Makes these runs again and ranks them, in the runs folder."


Origin = runs.Entry | Several


#: One button, the camera, hidden by the page and pressed by a picture's menu.
CAMERA: dict[str, Any] = {**CONFIG, "displayModeBar": "hover", "modeBarButtons": [["toImage"]]}


def csv(table: pd.DataFrame, entry: Origin) -> bytes:
    """A table with its origin in a last line that starts with # (pandas: comment="#")."""
    text = io.StringIO()
    table.to_csv(text, index=False)
    return f"{text.getvalue()}# {origin(entry)}\n".encode()


def html(picture: Picture, heading: str, entry: Origin) -> bytes:
    """A picture as one HTML page with texts, key, origin and Plotly's script."""
    unsigned = go.Figure(picture.figure).update_layout(title_text="")  # the page has it as text
    figure = unsigned.to_html(full_html=False, include_plotlyjs="inline", config=CAMERA)
    return (
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{escape(heading)}</title>"
        f"<body style='font-family:Arial,sans-serif;max-width:900px;margin:24px auto'><h1 style='font-size:20px'>"
        f"{escape(heading)}</h1><div role='img' "
        f"aria-label='{escape(picture.alt, quote=True)}'>{figure}</div>{picture.key}<p>{escape(picture.alt)}</p>"
        f"<p style='color:#595955;font-size:14px'>{escape(origin(entry))}</p></body></html>"
    ).encode()


def file_stem(run: str, level: str, picture: str) -> str:
    """The name of a picture's files: run, level (none for pictures of all levels) and picture."""
    words = [run, level, picture] if level else [run, picture]
    return "-".join(re.sub(r"[^\w.-]+", "_", word) for word in words)


def origin(entry: Origin) -> str:
    """Run, date, library version and the data's licence."""
    return f"{source(entry)}. {runs.LICENCE}"


def source(entry: Origin) -> str:
    """Which run or runs, and the library's version."""
    if isinstance(entry, Several):
        return entry.source
    return runs.source(entry)
