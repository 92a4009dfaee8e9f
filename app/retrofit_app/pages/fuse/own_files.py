"""The user's checkpoints in the form: paths, uploads, and the splits file that lists each network's images."""

from contextlib import suppress

import streamlit as st

from retrofit_app import runs
from retrofit_app.figures import escaped
from retrofit_app.models import sources, uploads
from retrofit_app.widgets import controls
from retrofit_core.networks import user_code

from . import presets
from .parameters import HELP, Picks
from .presets import FORM

UPLOADS, REFUSED, KEPT, STAYING = (FORM.key(name) for name in ("uploads", "refused", "kept", "staying"))


def ask(picks: Picks) -> None:
    """Draw the fields for files on this machine or from the browser; the address holds their names."""
    left, right = st.columns(2)
    with left:
        controls.text(
            FORM,
            "files",
            "Checkpoints on this machine, one path a line",
            "\n".join(line for line, _ in _lines(picks.files)),
            _paths,
            st.text_area,
            height=110,
            placeholder="/path/to/network-a.safetensors\n/path/to/network-b.safetensors",
            help="The first one is network A: the fused network gets its shape. Name .safetensors files, or .pt files that hold "
            "tensors only.",
        )
        controls.ask(FORM, HELP, "rows", read=_rows)
        _code(picks)
    with right:
        if st.session_state.get(UPLOADS) is None:  # a new control, without files
            st.session_state.pop(KEPT, None)
        limit = uploads.LARGEST_UPLOAD // 2**20
        st.file_uploader(
            f"Or upload them (.safetensors, up to {limit} MB each)",
            type=["safetensors"],
            accept_multiple_files=True,
            key=UPLOADS,
            on_change=_upload,
            max_upload_size=limit,
            help="Uploads stay on this machine, in the folder `uploads` of your runs folder. Nothing in them is executed.",
        )
        for sentence in (*st.session_state.get(REFUSED, ()), *st.session_state.get(STAYING, ())):
            st.error(escaped(sentence))
    if any(uploads.is_upload(name) for name in picks.files):
        st.button(
            "Delete the uploaded files",
            icon=":material/delete:",
            key=FORM.key("forget"),
            on_click=_forget,
            help="Removes these uploads from the runs folder. Finished runs keep their fused networks. Files that an unfinished "
            "run reads are kept.",
        )


def refusal() -> str:
    """Why Start is refused although the other files would do: an upload was not accepted; else empty."""
    count = len(st.session_state.get(REFUSED, ()))
    if not count:
        return ""
    what = "an upload was not taken" if count == 1 else f"{count} uploads were not taken"
    return (
        f"{what}. Remove it (✕) or upload it again." if count == 1 else f"{what}. Remove them (✕) or upload them again."
    )


def _lines(names: tuple[str, ...]) -> list[tuple[str, str]]:
    """(a file's name in the form, its name in configs): an upload has its own name, whatever its folder."""
    lines: list[tuple[str, str]] = []
    for name in names:
        same = sum(uploads.is_upload(other) and uploads.title(other) == uploads.title(name) for _, other in lines)
        note = f" (uploaded{f', {same + 1}' if same else ''})"
        lines.append((uploads.title(name) + note if uploads.is_upload(name) else name, name))
    return lines


def _paths(text: str) -> tuple[str, ...]:
    """Names in configs, one per line that is not empty."""
    known = dict(_lines(presets.last().files))
    lines = [line.strip().strip("'\"") for line in text.splitlines()]
    return tuple(
        known.get(line) or (line if uploads.is_upload(line) else sources.short_name(line)) for line in lines if line
    )


def _rows(path: str) -> str:
    """A splits file's name in configs."""
    return sources.short_name(path) if path.strip() else ""


def _code(picks: Picks) -> None:
    """Draw the choice of the architecture: what the start of the workbench named, or another text."""
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


def _upload() -> None:
    """Update the files from the list of uploads; refusals appear beside the control."""
    picks = presets.last()
    kept, refused = [], []
    for file in st.session_state.get(UPLOADS) or ():
        try:
            kept.append(uploads.keep(file.name, file.getvalue()))
        except ValueError as error:
            refused.append(f"{file.name} is not taken: {error}")
    gone = set(st.session_state.get(KEPT, ())) - set(kept)  # removed with ✕
    for name in gone:
        _drop(name)
    st.session_state[REFUSED] = refused
    st.session_state[KEPT] = kept
    names = dict.fromkeys([name for name in picks.files if name not in gone] + kept)
    FORM.change(files=tuple(names))


def _drop(name: str) -> None:
    """Delete an upload, unless a run used it."""
    path = runs.runs_folder() / name
    if not any(entry.base / model == path for entry in runs.entries()[0] for model in entry.config["models"]):
        with suppress(ValueError):  # something is starting: an extra upload does no harm
            uploads.forget(name)


def _forget() -> None:
    """Delete the uploads among the files; those that a run reads stay, and a sentence says so."""
    picks, kept = presets.last(), {}
    for name in filter(uploads.is_upload, picks.files):
        try:
            if reader := uploads.forget(name):
                kept[name] = f"run {reader.name} reads it and is not finished. Delete that run first."
        except ValueError as error:
            kept[name] = str(error)
    st.session_state[STAYING] = [f"{uploads.title(name)} is kept: {why}" for name, why in kept.items()]
    FORM.change(files=tuple(name for name in picks.files if name in kept or not uploads.is_upload(name)))
