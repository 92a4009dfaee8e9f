"""What users see if a page or a part of it fails."""

import sys
import traceback
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import streamlit as st

from retrofit_app import runs
from retrofit_app.address.session import ALL
from retrofit_app.figures import escaped


def guarded(body: Callable[..., None]) -> Callable[..., None]:
    """Wrap a page or a fragment (which also runs without its page): show an error in place of the part.

    Streamlit's signals to stop or rerun are not `Exception`s and pass through.
    """

    @wraps(body)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            body(*arguments, **options)
        except Exception as error:  # the last resort
            panel(error)

    return run


def panel(error: Exception) -> None:
    """Show what went wrong, for the user to read and report, without this machine's folders."""
    traceback.print_exc(file=sys.stderr)
    text = str(error) or type(error).__name__
    st.error(f"This part of the page could not be shown. {escaped(runs.without_folders(text))}")
    st.markdown("Choose another run on the left, or reload the page. You can paste the lines below into a report.")
    frames = [
        f"{Path(frame.filename).name}:{frame.lineno} {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
    ]
    lines = [f"run: {ALL.address().get('run', 'default')}", f"{type(error).__name__}: {text}", *frames[-8:]]
    st.code(runs.without_folders("\n".join(lines)), language=None)
