"""The user's checkpoints in the form: paths, uploads, and the splits file with the images that each network saw."""

import streamlit as st

from retrofit_app.address import session
from retrofit_app.figures import escaped
from retrofit_app.models import checkpoints, sources, uploads
from retrofit_app.shell import picker

from . import permission, presets
from .controls import HELP, text
from .parameters import Picks
from .presets import FORM

UPLOADS, REFUSED, KEPT = (FORM.key(name) for name in ("uploads", "refused", "kept"))


def ask(picks: Picks) -> None:
    """Files that are on this machine, or come from the browser; the address holds their names."""
    left, right = st.columns(2, gap="medium")
    with left:
        text(
            "files",
            "Checkpoints on this machine, one path a line",
            "\n".join(picks.files),
            _paths,
            st.text_area,
            height=110,
            placeholder="/path/to/network-a.safetensors\n/path/to/network-b.safetensors",
            help="The first one is network A: the fused network takes its shape, and the samples are its training images. "
            ".safetensors, or .pt files that hold tensors only.",
        )
        st.text_input(
            "Splits file (if you have one)",
            help=HELP["rows"],
            placeholder="splits.json",
            **FORM.control("rows", _rows),
        )
    with right:
        limit = uploads.LARGEST_UPLOAD // 2**20
        st.file_uploader(
            f"Or upload them (.safetensors, up to {limit} MB each)",
            type=["safetensors"],
            accept_multiple_files=True,
            key=UPLOADS,
            on_change=_upload,
            max_upload_size=limit,
            help="Uploads stay on this machine, in the folder `uploads` of your runs folder, named after their content. "
            "Nothing in them is executed.",
        )
        for sentence in session.recall(REFUSED, ()):
            st.error(escaped(sentence))
    if not picks.files:
        st.info(
            "No networks yet: give two or more checkpoints to fuse, or one to compress. No own network at hand? "
            "The preset “Sharded digits” trains two in under a minute."
        )
    if any(uploads.is_upload(name) for name in picks.files) and st.button(
        "Delete the uploaded files",
        icon=":material/delete:",
        key=FORM.key("forget"),
        help="Removes these uploads from the runs folder. Runs that are finished keep their fused network.",
    ):
        _forget(picks)
        st.rerun(scope="fragment")


def _paths(lines: str) -> tuple[str, ...]:
    """Names as configs have them, one for each line with something on it."""
    names = [line.strip().strip("'\"") for line in lines.splitlines()]
    named = tuple(name if uploads.is_upload(name) else sources.named(name) for name in names if name)
    permission.grant(named)
    return named


def _rows(path: str) -> str:
    """The name of a splits file, as configs have it."""
    name = sources.named(path) if path.strip() else ""
    permission.grant([name])
    return name


def _upload() -> None:
    """Make the files follow the list of uploads; refusals are shown beside the control."""
    picks = presets.last()
    kept, refused = [], []
    for file in session.recall(UPLOADS) or ():
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
    gone = set(session.recall(KEPT, ())) - set(kept)  # their ✕ was pressed
    for name in gone:
        _drop(name)
    session.remember(REFUSED, refused)
    session.remember(KEPT, kept)
    names = dict.fromkeys([name for name in picks.files if name not in gone] + kept)
    FORM.change(files=tuple(names))


def _drop(name: str) -> None:
    """Delete an upload, unless a run used it."""
    if not any(name in entry.config["models"] for entry in picker.shown().entries):
        uploads.forget(name)


def _forget(picks: Picks) -> None:
    for name in picks.files:
        uploads.forget(name)
    FORM.move(files=tuple(n for n in picks.files if not uploads.is_upload(n)))
