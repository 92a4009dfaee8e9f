"""What a stage of gpu.py hands to its next call: files of a folder as an archive, cut into a few parts of bounded size."""

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

import torch

from retrofit_core.networks.checkpoints import read_metadata, read_tensors, write_tensors
from retrofit_core.system.files import write

LARGEST = 16_000_000  # bytes of a part
MOST = 62_000_000  # of all parts: with the results they stay below 64 MB
PARTS = "state-*.tar"
HEADERS = 2048  # bytes that an archive adds to a file, at most


def halve(path: Path) -> None:
    """Round a checkpoint's weights to float16 in its file, so that what is fused is what can be handed on."""
    tensors = read_tensors(path)
    if any(tensor.dtype == torch.float32 for tensor in tensors.values()):
        half = {name: tensor.half() if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}
        write_tensors(path, half, read_metadata(path))


def pack(files: Iterable[Path], base: Path, folder: Path) -> list[Path]:
    """Write files below `base` into the parts of a folder, in place of those there.

    Args:
        files: the most important first.
    Returns:
        Those that did not fit.
    """
    archive, left_out, size = io.BytesIO(), [], tarfile.RECORDSIZE
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for path in files:
            needed = path.stat().st_size + HEADERS
            if size + needed > MOST:
                left_out.append(path)
                continue
            tar.add(path, path.relative_to(base).as_posix())
            size += needed
    for old in folder.glob(PARTS):
        old.unlink()
    content = archive.getvalue() if size > tarfile.RECORDSIZE else b""
    pieces = [content[start : start + LARGEST] for start in range(0, len(content), LARGEST)]
    for number, piece in enumerate(pieces, start=1):
        write(folder / f"state-{number}-of-{len(pieces)}.tar", piece)
    return left_out


def unpack(folder: Path, base: Path) -> list[Path]:
    """Write the files in a folder's parts below `base`, but those that are there.

    Returns:
        The files written.
    Raises:
        ValueError: a part is missing.
    """
    parts = sorted(folder.glob(PARTS))
    if parts and len(parts) != int(parts[0].stem.rpartition("-")[2]):
        raise ValueError(f"{folder} has only {', '.join(part.name for part in parts)}. Bring the other parts too.")
    written = []
    if parts:
        with tarfile.open(fileobj=io.BytesIO(b"".join(part.read_bytes() for part in parts))) as tar:
            for member in tar.getmembers():
                if not (base / member.name).exists():
                    tar.extract(member, base, filter="data")
                    written.append(base / member.name)
    return written
