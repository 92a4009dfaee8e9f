"""Read weight files: detect the format by content, not by name, and run no code in them.

safetensors files hold tensors by name; torch.save files may hold them under any key, nested and among other things.
"""

import argparse
import collections
import json
import pathlib
import re
import types
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from ..system.files import json_of, read
from ..system.registry import first_line
from .headers import LARGEST, metadata_of

PICKLED = (".pt", ".pth", ".bin", ".ckpt", ".tar")  # timm's training writes .pth.tar
#: If a folder has several, the first is read.
INDEXES = ("model.safetensors.index.json", "pytorch_model.bin.index.json", "*.safetensors.index.json", "*.index.json")
DEEPEST = 6  # levels of nested mappings to search
_ARRAYS: Any = getattr(np, "_core", None) or getattr(np, "core")  # noqa: B009 - of NumPy 1
_ARRAYS = _ARRAYS.multiarray
#: Safe types, besides tensors and Python's built-ins, that training scripts save with settings and metrics.
HARMLESS = [
    argparse.Namespace,
    types.SimpleNamespace,
    collections.defaultdict,
    pathlib.PosixPath,
    pathlib.PurePosixPath,
    np.ndarray,
    np.dtype,
    *(type(np.dtype(name)) for name in ("float32", "float64", "int32", "int64", "bool")),
    (_ARRAYS.scalar, "numpy.core.multiarray.scalar"),
    (_ARRAYS.scalar, "numpy._core.multiarray.scalar"),
    (_ARRAYS._reconstruct, "numpy.core.multiarray._reconstruct"),
    (_ARRAYS._reconstruct, "numpy._core.multiarray._reconstruct"),
]
PACKED = "is a packed archive: unpack it, and name the checkpoint in it."
WEB_PAGE = "is a web page in place of the file: download it again."
#: First bytes of other kinds of files, and what to do about them.
STRANGERS = {
    b"\x89HDF\r\n\x1a\n": "is an HDF5 file, as Keras writes them: only weights of PyTorch are read.",
    b"GGUF": "is a GGUF file, whose weights are quantised: name the network that it was made from.",
    b"\x1f\x8b": PACKED,  # gzip
    b"version https://git-lfs": "is a pointer of Git LFS in place of the file: fetch that with `git lfs pull`.",
    b"<!DOCTYPE": WEB_PAGE,
    b"<html": WEB_PAGE,
}


def kind_of(path: Path) -> str:
    """ "safetensors", "torch" or "index", by content or, if that is inconclusive, by name.

    Raises:
        ValueError: missing, or another kind of file; the message says what to do.
    """
    if path.is_dir():
        return _kind_of_folder(path)
    if not path.is_file():
        raise ValueError(f"there is no checkpoint at {path}.")
    try:
        with path.open("rb") as file:
            head = file.read(300)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}.") from error
    if head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= LARGEST:
        return "safetensors"
    if head.startswith(b"PK\x03\x04"):
        return _kind_of_archive(path)
    if head[:1] == b"\x80" and head[1:2] in b"\x02\x03\x04\x05":
        return "torch"
    for start, sentence in STRANGERS.items():
        if head.lower().startswith(start.lower()):
            raise ValueError(f"{path} {sentence}")
    if head.lstrip()[:1] == b"{" and path.suffix == ".json":
        return "index"
    if path.suffix in PICKLED:
        return "torch"
    if path.suffix == ".safetensors":
        return "safetensors"
    raise ValueError(f"{path} is no checkpoint by its name: .safetensors, .pt, .pth, .pth.tar, .ckpt or .bin are read.")


def _kind_of_folder(path: Path) -> str:
    if _index_in(path):
        return "index"
    if (path / ".metadata").is_file() and any(path.glob("*.distcp")):
        raise ValueError(
            f"{path} is a distributed checkpoint. In Python: from torch.distributed.checkpoint.format_utils import "
            f"dcp_to_torch_save; dcp_to_torch_save({str(path)!r}, 'tensors.pt')."
        )
    if (path / "adapter_config.json").is_file():
        raise ValueError(f"{path} {_adapter_words(path)}")
    endings = (".safetensors", *PICKLED)
    inside = next((f", such as {file}" for end in endings for file in sorted(path.glob(f"*{end}"))), "")
    raise ValueError(f"{path} is a folder. Name the checkpoint in it{inside}.")


def _index_in(folder: Path) -> Path | None:
    return next((found for pattern in INDEXES for found in sorted(folder.glob(pattern)) if found.is_file()), None)


def _kind_of_archive(path: Path) -> str:
    with suppress(zipfile.BadZipFile, OSError), zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        if any(name.endswith("/constants.pkl") for name in names) and any("/code/" in name for name in names):
            raise ValueError(
                f"{path} is a scripted network (TorchScript), and only its weights can be read. In Python: "
                f"torch.save(torch.jit.load({str(path)!r}).state_dict(), 'tensors.pt')."
            )
        if any(name.endswith("data.pkl") for name in names):
            return "torch"
        if any(name.endswith(("models/model.json", "serialized_exported_program.json")) for name in names):
            raise ValueError(
                f"{path} is an exported program (torch.export), and only its weights can be read. In Python: "
                f"torch.save(torch.export.load({str(path)!r}).state_dict, 'tensors.pt')."
            )
        raise ValueError(f"{path} {PACKED}")
    return "torch"  # truncated: torch reports it


def content_of(path: Path) -> Any:
    """The content of a file, a folder of shards or their index, with tensors as stored.

    Raises:
        ValueError: missing, damaged, or of an unsupported kind; the message says what to do.
    """
    kind = kind_of(path)
    if kind == "safetensors":
        _metadata(path)
        try:  # all of it in memory: a file that is shortened while it is mapped kills the process
            return safetensors.torch.load(read(path))
        # KeyError: a dtype that safetensors knows and torch does not.
        except (SafetensorError, OSError, KeyError, ValueError, RuntimeError) as error:
            raise ValueError(f"{path} is damaged: {first_line(error)}. Copy it again.") from error
    return _sharded(path) if kind == "index" else _unpickled(path)


def facts_of(path: Path) -> dict[str, Any]:
    """The decoded metadata of a safetensors file; for torch files, the class names if present.

    Raises:
        ValueError: as in `content_of`.
    """
    kind = kind_of(path)
    if kind == "safetensors":
        facts = {name: _decoded(text) for name, text in _metadata(path).items()}
        return classes_in(facts) | facts
    if kind == "torch":
        with suppress(ValueError):  # reading the tensors reports the error
            return classes_in(_unpickled(path, mapped=zipfile.is_zipfile(path)))
    return {}


def _metadata(path: Path) -> dict[str, str]:
    try:
        with path.open("rb") as file:
            return metadata_of(file)
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise ValueError(f"{path} {error}") from None


def classes_in(content: object) -> dict[str, Any]:
    """{"classes": names in the order of the outputs} if a torch.save file has them under a usual key, else {}."""
    if not isinstance(content, Mapping):
        return {}
    for key in ("classes", "class_names"):
        names = content.get(key)
        if isinstance(names, list | tuple) and names and all(isinstance(name, str) for name in names):
            return {"classes": list(names)}
    numbers = content.get("class_to_idx")
    if not isinstance(numbers, Mapping):
        turned = content.get("idx_to_class")
        numbers = {name: number for number, name in turned.items()} if isinstance(turned, Mapping) else {}
    with suppress(TypeError, ValueError):  # JSON turns numbers into strings
        by_number = {int(number): name for name, number in numbers.items()}
        if by_number and sorted(by_number) == list(range(len(numbers))) and all(isinstance(n, str) for n in numbers):
            return {"classes": [by_number[number] for number in range(len(numbers))]}
    return {}


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def files_of(path: Path) -> list[Path]:
    """The files of a checkpoint: itself, or an index and its shards.

    Raises:
        ValueError: an invalid index, or missing shards.
    """
    index = _index_in(path) if path.is_dir() else path if path.name.endswith(".index.json") else None
    if index is None:
        return [path]
    return [index, *_shards(index)[1]]


def _shards(index: Path) -> tuple[set[str], list[Path]]:
    """(names of tensors, files that hold them) in an index."""
    try:
        placed = json_of(index)["weight_map"]
        names, files = set(placed), sorted(set(placed.values()))
        if not files or any(file != Path(file).name for file in files):
            raise ValueError("shards are files beside it")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(
            f"{index} is no index of a sharded checkpoint: its weight_map names the file of each tensor ({first_line(error)})."
        ) from error
    shards = [index.parent / file for file in files]
    if missing := [shard for shard in shards if not shard.is_file()]:
        raise ValueError(
            f"{index} names {missing[0].name}, which is not there: put all {len(shards)} shards beside it."
        )
    return names, shards


def _sharded(path: Path) -> dict[str, Tensor]:
    index = (_index_in(path) or path) if path.is_dir() else path
    names, shards = _shards(index)
    tensors: dict[str, Tensor] = {}
    for shard in shards:
        content = content_of(shard)
        if not isinstance(content, Mapping):
            raise ValueError(f"{shard} holds a {type(content).__name__} instead of named tensors.")
        tensors.update(content)
    if missing := sorted(names - tensors.keys()):
        raise ValueError(f"{index} names {missing[0]!r}, which is in none of its shards: copy them again.")
    return tensors


def _unpickled(path: Path, mapped: bool = False) -> Any:
    """Load a torch.save file; with `mapped`, without reading the tensors, for the metadata alone."""
    try:
        with torch.serialization.safe_globals(HARMLESS), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns about quantised tensors, which are refused later
            if mapped and path.suffix != ".safetensors":
                return torch.load(path, map_location="cpu", weights_only=True, mmap=True)
            with path.open("rb") as file:  # from a path, torch may mistake it for safetensors
                return torch.load(file, map_location="cpu", weights_only=True)
    # Unpickling damaged bytes raises almost anything; no code of the file runs in any case.
    except Exception as error:
        raise ValueError(_why_not(path, str(error))) from error


def _why_not(path: Path, error: str) -> str:
    """The message for a torch.save file that `torch.load(weights_only=True)` refuses, from torch's own."""
    foreign = re.search(r"nsupported (?:global: )?GLOBAL (\S+)", error)
    if foreign is None:
        return (
            f"{path} is damaged, or no file that torch.save wrote: save the model's state_dict(), best as safetensors."
        )
    return (
        f"{path} holds an object of {foreign[1]}, whose code would have to be run; pickled code is never run here. Where you "
        f"trust it, in Python beside that code: content = torch.load({str(path)!r}, weights_only=False); then "
        "torch.save(content.state_dict(), 'tensors.pt'), or torch.save(content[KEY], 'tensors.pt') with the entry that holds "
        "the tensors."
    )


def nested(content: object) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """(keys, value) of everything in nested mappings, breadth-first, including the content itself."""
    todo: list[tuple[tuple[Any, ...], Any]] = [((), content)]
    while todo:
        keys, value = todo.pop(0)
        yield keys, value
        if isinstance(value, Mapping) and len(keys) < DEEPEST:
            todo += [((*keys, key), inner) for key, inner in value.items()]


#: Name components of quantised weights.
QUANTISED = (
    "_packed_params",
    "zero_point",
    "qweight",
    "qzeros",
    "SCB",
    "absmax",
    "quant_map",
    "weight_format",
    "g_idx",
)
#: Prefixes of name components of adapters.
ADAPTERS = ("lora_", "lokr_", "loha_", "hada_", "ia3_", "oft_", "vera_lambda", "prompt_embeddings")


def other_kind(path: Path, state: Mapping[str, Any]) -> str:
    """The message for tensors that are not a network's plain weights; empty for others."""
    for name, value in state.items():
        parts = name.split(".")
        if any(part.startswith(ADAPTERS) for part in parts):
            return f"{path} {_adapter_words(path.parent)}"
        whole = isinstance(value, Tensor) and value.is_quantized
        if whole or any(part in QUANTISED or "bitsandbytes" in part for part in parts):
            return (
                f"{path} holds quantised weights ({name}), which are not read: name the checkpoint from before they were "
                "quantised, fuse, and quantise the fused network."
            )
    return ""


def _adapter_words(folder: Path) -> str:
    base = "BASE"
    with suppress(OSError, ValueError, AttributeError):
        config = json_of(folder / "adapter_config.json")
        base = config.get("base_model_name_or_path") or base
    return (
        f"holds an adapter (LoRA or the like) in place of a whole network. In Python, with {base} loaded as `base`: "
        f"torch.save(peft.PeftModel.from_pretrained(base, {str(folder)!r}).merge_and_unload().state_dict(), 'merged.pt')."
    )
