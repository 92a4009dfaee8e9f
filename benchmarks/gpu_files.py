"""What a stage of gpu.py leaves behind: checkpoints as float16, packed into a few files of bounded size.

A part is a safetensors file with tensors of any of the checkpoints ("FILE|TENSOR"); its metadata name the checkpoints
with their facts and their number of tensors, so that what is not complete is known as such.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from retrofit_core.networks.checkpoints import read_metadata, read_tensors, write_tensors

LARGEST = 16_000_000  # bytes of tensors in a part
MOST = 4  # parts: with the record they stay below 64 MiB
PARTS = "weights-*.safetensors"


def halve(path: Path) -> None:
    """Round a checkpoint's weights to float16 in its file, so that what is fused is what can be handed on."""
    tensors = read_tensors(path)
    if any(tensor.dtype == torch.float32 for tensor in tensors.values()):
        write_tensors(path, {name: _half(tensor) for name, tensor in tensors.items()}, read_metadata(path))


def pack(checkpoints: Iterable[Path], base: Path, folder: Path) -> list[Path]:
    """Write checkpoints into the parts of a folder, in place of those there.

    Args:
        checkpoints: safetensors files below `base`, the most important first.
    Returns:
        Those that did not fit.
    """
    parts, facts, left_out = [{}], {}, []
    for path in checkpoints:
        name, tensors = path.relative_to(base).as_posix(), read_tensors(path)
        extended = _filled(parts, {f"{name}|{key}": _half(tensor) for key, tensor in tensors.items()})
        if len(extended) > MOST:
            left_out.append(path)
            continue
        parts, facts[name] = extended, {"tensors": len(tensors), "facts": read_metadata(path)}
    for old in folder.glob(PARTS):
        old.unlink()
    for number, part in enumerate(parts if facts else []):
        write_tensors(folder / f"weights-{number}.safetensors", part, {"checkpoints": facts})
    return left_out


def unpack(folder: Path, base: Path) -> list[Path]:
    """Write the checkpoints in a folder's parts below `base`, but those that are there and those that are not complete.

    Returns:
        The files written.
    """
    tensors: dict[str, Tensor] = {}
    facts = {}
    for part in sorted(folder.glob(PARTS)):
        tensors |= read_tensors(part)
        facts |= read_metadata(part)["checkpoints"]
    written = []
    for name, entry in facts.items():
        prefix, path = f"{name}|", base / name
        own = {key.removeprefix(prefix): tensor for key, tensor in tensors.items() if key.startswith(prefix)}
        if len(own) == entry["tensors"] and not path.exists():
            write_tensors(path, own, entry["facts"])
            written.append(path)
    return written


def _half(tensor: Tensor) -> Tensor:
    return tensor.half() if tensor.is_floating_point() else tensor


def _filled(parts: list[dict[str, Tensor]], tensors: Mapping[str, Tensor]) -> list[dict[str, Tensor]]:
    """The parts with further tensors, the largest first, each in the first part that has room; else in a new one.

    Raises:
        ValueError: a tensor that is larger than a part may be.
    """
    parts = [dict(part) for part in parts]
    room = [LARGEST - sum(tensor.nbytes for tensor in part.values()) for part in parts]
    for name, tensor in sorted(tensors.items(), key=lambda item: -item[1].nbytes):
        if tensor.nbytes > LARGEST:
            raise ValueError(f"tensor {name} has {tensor.nbytes:,} bytes, a part holds {LARGEST:,}.")
        number = next((number for number, left in enumerate(room) if tensor.nbytes <= left), len(parts))
        if number == len(parts):
            parts.append({})
            room.append(LARGEST)
        parts[number][name] = tensor
        room[number] -= tensor.nbytes
    return parts
