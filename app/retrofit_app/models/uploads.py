"""Checkpoints uploaded in the browser: checked and kept in the runs folder, each in a folder named after its content."""

import hashlib
import io
import re
from contextlib import suppress
from pathlib import PurePath

from retrofit_app import runs
from retrofit_core.networks.headers import metadata_of
from retrofit_core.runs.store import alone
from retrofit_core.system import files

UPLOADS = "uploads"
LARGEST_UPLOAD = 256 * 2**20  # bytes, as maxUploadSize in .streamlit/config.toml
LARGEST_HEADER = 2**20  # bytes; a VGG16's has 4 kB
LONGEST_NAME = 100
ENDING = ".safetensors"


def keep(file_name: str, content: bytes) -> str:
    """Store an uploaded checkpoint under its own name, in a folder named after its content; return its name for configs.

    Nothing in it is executed: safetensors are a JSON header and numbers.

    Raises:
        ValueError: it is too large or not safetensors, or the runs folder is not writable.
    """
    check(content)
    name = f"{UPLOADS}/{hashlib.sha256(content).hexdigest()[:16]}/{_plain(file_name)}"
    path = runs.runs_folder() / name
    if not path.exists():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            files.write(path, content)
        except OSError as error:
            raise ValueError(f"the upload cannot be kept in the runs folder ({error.strerror}).") from error
    return name


def is_upload(name: str) -> bool:
    """Whether `keep` gave a config's name."""
    return re.fullmatch(rf"{UPLOADS}/[0-9a-f]{{16}}/[\w(+-][\w .()+-]*{re.escape(ENDING)}", name) is not None


def title(name: str) -> str:
    """The user's name of an upload."""
    return PurePath(name).name


def forget(name: str) -> runs.Entry | None:
    """Delete an upload, unless a run that is in progress or ended early reads it: then return that run.

    Names that are not uploads are left alone.

    Raises:
        ValueError: another session is starting something, or the runs folder is not writable.
    """
    if not is_upload(name):
        return None
    path = runs.runs_folder() / name
    with alone(runs.runs_folder()):
        if reader := runs.reader_of(path):
            return reader
        path.unlink(missing_ok=True)
        with suppress(OSError):  # it holds the same content under another name
            path.parent.rmdir()
    return None


def _plain(file_name: str) -> str:
    """A file's name without folders and special characters."""
    stem = PurePath(file_name.replace("\\", "/")).name.removesuffix(ENDING)
    return (re.sub(r"[^\w .()+-]", "_", stem).lstrip(" .")[:LONGEST_NAME] or "network") + ENDING


def check(content: bytes) -> None:
    """Check an upload's size and header: a sender can bypass the browser's checks.

    Raises:
        ValueError: what is wrong with it, as a sentence about "it".
    """
    if len(content) > LARGEST_UPLOAD:
        raise ValueError(f"it has {len(content) / 2**20:.0f} MiB; the limit is {LARGEST_UPLOAD // 2**20} MiB.")
    try:
        metadata_of(io.BytesIO(content), LARGEST_HEADER)
    except ValueError as error:
        raise ValueError(f"it {error}") from None
