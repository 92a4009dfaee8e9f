"""What the pages share: the chosen run, state in the URL, cached records, the current palette."""

import sys
import time
import traceback
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Any

import streamlit as st
from retrofit_app import jobs
from retrofit_app.figures import DARK, LIGHT, Palette, percent

STATES = {"created": "starting", "running": "in progress"}


def palette() -> Palette:
    """The colours of the theme in which the page is seen."""
    return DARK if st.context.theme.type == "dark" else LIGHT


def choice(name: str, options: Sequence[str], default: str, what: str) -> str:
    """The value of a URL parameter, which is the truth; the widget with the key `name` is set to it.

    A value that is no option is removed, and a line says so. The default is not written: clean addresses stay clean.
    """
    asked = st.query_params.get(name)
    if asked is not None and asked not in options:
        st.warning(f"Ignored {name}={asked[:60]} in the address: no such {what}. Shown instead: {default}.")
        del st.query_params[name]
        asked = None
    st.session_state[name] = asked or default
    return st.session_state[name]


def written(name: str, default: str) -> Callable[[], None]:
    """A callback that writes a widget's new value to the URL."""

    def write() -> None:
        open_in_url(name, st.session_state[name], default)

    return write


def open_in_url(name: str, value: str, default: str | None = None) -> None:
    """Set a URL parameter, or remove it where it has its default."""
    if value == default:
        st.query_params.pop(name, None)
    else:
        st.query_params[name] = value


def label(entry: jobs.Entry) -> str:
    """A run's line in the picker: short, the rest is `details`."""
    config = entry.config
    result = percent(entry.accuracy) if entry.accuracy is not None else STATES.get(entry.state, entry.state)
    kind = "shipped" if entry.shipped else f"{config.get('importance')}, seed {config.get('seed')}"
    return f"{config['method']} {result} · {kind}"


def details(entry: jobs.Entry) -> str:
    """What a run was, in a line."""
    config = entry.config
    words = [
        f"{config['method']}, {config.get('importance')} importance",
        f"{config.get('samples')} samples",
        f"seed {config.get('seed')}",
        f"{len(config['models'])} networks on {Path(config.get('data', '')).name}",
    ]
    if entry.status.get("started"):
        words.append(time.strftime("%d %b %Y", time.localtime(entry.status["started"])))
    return " · ".join([*words, "shipped" if entry.shipped else entry.name])


@st.cache_resource(max_entries=16, show_spinner="Reading the run's levels…")
def _record(folder: str, updated: float) -> Any:
    from retrofit_core.runs import read_run

    return read_run(folder)


def record(entry: jobs.Entry) -> Any:
    """The whole record (a `runs.Run`), checked and read once. It is shared by all sessions: do not change it.

    Raises:
        ValueError: it is damaged.
    """
    return _record(*entry.version)


def guarded(body: Callable[..., None]) -> Callable[..., None]:
    """Wrap a page or a fragment (which also runs without its page): what goes wrong is said in its place.

    Streamlit's own signals to stop or to run again are no `Exception`s and pass through.
    """

    @wraps(body)
    def run(*arguments: Any, **options: Any) -> None:
        try:
            body(*arguments, **options)
        except Exception as error:  # the last resort
            panel(error)

    return run


def panel(error: Exception) -> None:
    """What went wrong, for the user to read and to pass on, without this machine's folders."""
    traceback.print_exc(file=sys.stderr)
    text = str(error) or type(error).__name__
    st.error(f"This part of the page could not be shown. {text.replace(str(Path.home()), '~')}")
    st.markdown("Choose another run on the left, or reload the page. The lines below can go into a report as they are.")
    places = [
        f"{Path(frame.filename).name}:{frame.lineno} {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
    ]
    lines = [f"run: {st.query_params.get('run', 'default')}", f"{type(error).__name__}: {text}", *places[-8:]]
    st.code("\n".join(lines).replace(str(Path.home()), "~"), language=None)
