"""The header of a safetensors file, checked and read without torch."""

import json
import os
from typing import IO, Any

LARGEST = 100_000_000  # bytes, the limit of the format


def metadata_of(file: IO[bytes], largest: int = LARGEST) -> dict[str, str]:
    """The metadata of a safetensors file whose header fits its length.

    Args:
        largest: bytes that the header may have.
    Raises:
        ValueError: it is cut off, damaged, or another kind of file; the message continues a sentence about it.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    length = int.from_bytes(file.read(8), "little")
    if size > 8 and not (file.read(1) == b"{" and length <= largest):
        raise ValueError("is no safetensors file: it does not begin with a header.")
    if size < 9 or size - 8 < length:
        raise ValueError(f"is cut off after {size:,} bytes, within its header. Copy it again.")
    file.seek(8)
    try:
        header: dict[str, Any] = dict(json.loads(file.read(length)))
        metadata = dict(header.pop("__metadata__", {}))
        if not all(isinstance(text, str) for text in metadata.values()):
            raise TypeError
        end = max((int(tensor["data_offsets"][1]) for tensor in header.values()), default=0)
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError):
        raise ValueError("is damaged: its header cannot be read. Copy it again.") from None
    if size != (whole := 8 + length + end):
        how = "is cut off" if size < whole else "is damaged"
        raise ValueError(f"{how}: its header announces {whole:,} bytes, and {size:,} are there. Copy it again.")
    return metadata
