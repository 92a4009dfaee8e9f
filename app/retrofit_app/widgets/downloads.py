"""A picture's or table's origin, and files to download, which state it."""

import io
from dataclasses import dataclass
from typing import Any

import pandas as pd

from retrofit_app import runs
from retrofit_app.figures import CONFIG


@dataclass(frozen=True)
class Several:
    """Runs side by side, as the origin in place of a single run."""

    name: str
    """For file names"""
    source: str
    """A sentence without its full stop: which runs, and the library's version"""


Origin = runs.Entry | Several


#: One button, the camera.
CAMERA: dict[str, Any] = {**CONFIG, "modeBarButtons": [["toImage"]]}


def csv(table: pd.DataFrame, entry: Origin) -> bytes:
    """A table with its origin in a last line that starts with # (pandas: comment="#")."""
    text = io.StringIO()
    table.to_csv(text, index=False)
    return f"{text.getvalue()}# {origin(entry)}\n".encode()


def origin(entry: Origin) -> str:
    """Run, date, library version and the data's licence."""
    return f"{source(entry)}. {runs.LICENCE}"


def source(entry: Origin) -> str:
    """Which run or runs, and the library's version."""
    if isinstance(entry, Several):
        return entry.source
    return runs.source(entry)
