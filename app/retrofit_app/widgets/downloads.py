"""A picture's or table's origin, and files to download, which state it."""

import io
from typing import Any

import pandas as pd

from retrofit_app import runs
from retrofit_app.figures import CONFIG

Origin = runs.Entry | str
"""A run, or a sentence without its full stop on several: which, and the library's version"""

#: One button, the camera.
CAMERA: dict[str, Any] = {**CONFIG, "modeBarButtons": [["toImage"]]}


def csv(table: pd.DataFrame, entry: Origin) -> bytes:
    """A table with its origin in a last line that starts with # (pandas: comment="#")."""
    text = io.StringIO()
    table.to_csv(text, index=False)
    return f"{text.getvalue()}# {source(entry)}. {runs.LICENCE}\n".encode()


def source(entry: Origin) -> str:
    """Which run or runs, and the library's version."""
    return entry if isinstance(entry, str) else runs.source(entry)
