"""Checkpoints that come from the browser: checked, and kept in the runs folder under their content."""

import hashlib
import json
import re
import struct

from retrofit_app import runs
from retrofit_core import files

UPLOADS = "uploads"
LARGEST_UPLOAD = 256 * 2**20  # bytes, as maxUploadSize in .streamlit/config.toml
LARGEST_HEADER = 2**20  # of an uploaded checkpoint: that of a VGG16 has 4 kB


def keep(content: bytes) -> str:
    """Store an uploaded checkpoint under the hash of its content and return its name as configs have it.

    The file's name is ignored, and nothing in it is executed: safetensors are a JSON header and numbers.

    Raises:
        ValueError: too large, not safetensors by its header, or the runs folder cannot be written to.
    """
    check(content)
    name = f"{UPLOADS}/{hashlib.sha256(content).hexdigest()[:16]}.safetensors"
    path = runs.runs_folder() / name
    if not path.exists():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            files.write(path, content)
        except OSError as error:
            raise ValueError(f"the upload cannot be kept in the runs folder ({error.strerror}).") from error
    return name


def is_upload(name: str) -> bool:
    """Whether a config's name is one that `keep` gave."""
    return re.fullmatch(rf"{UPLOADS}/[0-9a-f]{{16}}\.safetensors", name) is not None


def forget(name: str) -> None:
    """Delete an upload; other names are left alone."""
    if is_upload(name):
        (runs.runs_folder() / name).unlink(missing_ok=True)


def check(content: bytes) -> None:
    """Check size and header of an upload: whoever sends the bytes can leave out the browser's checks.

    Raises:
        ValueError: naming what is wrong.
    """
    if len(content) > LARGEST_UPLOAD:
        raise ValueError(f"it has {len(content) / 2**20:.0f} MiB; the limit is {LARGEST_UPLOAD // 2**20} MiB.")
    length = struct.unpack("<Q", content[:8])[0] if len(content) >= 8 else 0
    if not 2 <= length <= min(LARGEST_HEADER, len(content) - 8):
        raise ValueError("it is not a safetensors file: no header of a sensible length comes first.")
    try:
        header = json.loads(content[8 : 8 + length])
        ends = [int(entry["data_offsets"][1]) for name, entry in header.items() if name != "__metadata__"]
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        raise ValueError("it is not a safetensors file: its header is damaged.") from None
    if not ends or max(ends) != len(content) - 8 - length:
        raise ValueError("it is incomplete: its header announces another length. Copy it again.")
