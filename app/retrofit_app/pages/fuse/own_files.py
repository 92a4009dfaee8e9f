"""The user's checkpoints in the form: their paths, the splits file that lists each network's images, their architecture."""

import streamlit as st

from retrofit_app.models import sources
from retrofit_app.widgets import controls
from retrofit_core.networks import user_code

from .parameters import HELP, Picks
from .presets import FORM


def ask(picks: Picks) -> None:
    """Draw the fields for files on this machine; the address holds their names."""
    left, right = st.columns(2)
    with left:
        key = FORM.key("files-text")
        st.session_state[key] = "\n".join(picks.files)
        st.text_area(
            "Checkpoints on this machine, one path a line",
            key=key,
            on_change=lambda: FORM.change(files=_paths(st.session_state[key])),
            height=110,
            placeholder="/path/to/network-a.safetensors\n/path/to/network-b.safetensors",
            help="The first one is network A: the fused network gets its shape. Name .safetensors files, or .pt files that hold "
            "tensors only.",
        )
    with right:
        controls.ask(FORM, HELP, "rows", read=lambda path: sources.short_name(path) if path.strip() else "")
        options = dict.fromkeys(["", *user_code.allowed(), picks.code])
        st.selectbox(
            "Architecture (if the files do not say it)",
            list(options),
            help=HELP["code"],
            accept_new_options=True,
            format_func=lambda name: name or "as the files say",
            placeholder="choose, or type a name",
            **FORM.control("code", str.strip),
        )


def _paths(text: str) -> tuple[str, ...]:
    """Names in configs, one per line that is not empty."""
    lines = [line.strip().strip("'\"") for line in text.splitlines()]
    return tuple(sources.short_name(line) for line in lines if line)
