"""The user's checkpoints in the form: paths, uploads, and the splits file with the images that each network saw."""

from dataclasses import replace

import streamlit as st

from retrofit_app.models import checkpoints, sources, uploads

from . import presets
from .controls import HELP, KEY, changed, to_address
from .presets import Picks


def ask(picks: Picks) -> None:
    """Files that are on this machine, or come from the browser; the address holds their names."""
    left, right = st.columns(2, gap="medium")
    with left:
        st.session_state[KEY + "files"] = "\n".join(picks.files)
        st.text_area(
            "Checkpoints on this machine, one path a line",
            key=KEY + "files",
            height=110,
            on_change=changed("files", _paths),
            placeholder="/path/to/network-a.safetensors\n/path/to/network-b.safetensors",
            help="The first one is network A: the fused network takes its shape, and the samples are its training images. "
            ".safetensors, or .pt files that hold tensors only.",
        )
        st.session_state[KEY + "rows"] = picks.rows
        st.text_input(
            "Splits file (if you have one)",
            key=KEY + "rows",
            help=HELP["rows"],
            placeholder="splits.json",
            on_change=changed("rows", lambda text: sources.named(text) if text.strip() else ""),
        )
    with right:
        limit = uploads.LARGEST_UPLOAD // 2**20
        st.file_uploader(
            f"Or upload them (.safetensors, up to {limit} MB each)",
            type=["safetensors"],
            accept_multiple_files=True,
            key=KEY + "uploads",
            on_change=_upload,
            max_upload_size=limit,
            help="Uploads stay on this machine, in the folder `uploads` of your runs folder, named after their content. "
            "Nothing in them is executed.",
        )
        for sentence in st.session_state.get(KEY + "refused", ()):
            st.error(sentence)
    if not picks.files:
        st.info(
            "No networks yet: give two or more checkpoints to fuse, or one to compress. No own network at hand? "
            "The preset “Sharded digits” trains two in under a minute."
        )
    if any(uploads.is_upload(name) for name in picks.files) and st.button(
        "Delete the uploaded files",
        icon=":material/delete:",
        key=KEY + "forget",
        help="Removes these uploads from the runs folder. Runs that are finished keep their fused network.",
    ):
        _forget(picks)
        st.rerun(scope="fragment")


def _paths(text: str) -> tuple[str, ...]:
    """Names as configs have them, one for each line with something on it."""
    lines = [line.strip().strip("'\"") for line in text.splitlines()]
    return tuple(line if uploads.is_upload(line) else sources.named(line) for line in lines if line)


def _upload() -> None:
    """Make the files follow the list of uploads; refusals are shown beside the control."""
    preset, picks, _ = presets.read_address(st.query_params)
    kept, refused = [], []
    for file in st.session_state[KEY + "uploads"] or ():
        name = ""
        try:
            name = uploads.keep(file.getvalue())
            checkpoints.described(name)
        except ValueError as error:
            reason = (
                checkpoints.form_words(str(error)).removeprefix(f"{sources.located(name)}: ").removeprefix(f"{name}: ")
            )
            refused.append(f"{file.name} is not taken: {reason}")
            _drop(name)
            continue
        kept.append(name)
    gone = set(st.session_state.get(KEY + "kept", ())) - set(kept)  # their ✕ was pressed
    for name in gone:
        _drop(name)
    st.session_state.update({KEY + "refused": refused, KEY + "kept": kept})
    names = dict.fromkeys([name for name in picks.files if name not in gone] + kept)
    to_address(preset, replace(picks, files=tuple(names)))


def _drop(name: str) -> None:
    """Delete an upload, unless a run used it."""
    if not any(name in entry.config["models"] for entry in st.session_state.entries):
        uploads.forget(name)


def _forget(picks: Picks) -> None:
    preset, _, _ = presets.read_address(st.query_params)
    for name in picks.files:
        uploads.forget(name)
    to_address(preset, replace(picks, files=tuple(n for n in picks.files if not uploads.is_upload(n))))
