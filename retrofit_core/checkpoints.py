"""Checkpoints: safetensors with facts as JSON in the metadata; strict reading, also of strangers' files.

A checkpoint's metadata may hold "architecture" (a spec, see `architectures` and `composites`), "recipe", "classes", "mean",
"std", "class_counts" and other facts; each value is JSON text in the file and decoded when read.
"""

import json
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from . import architectures, composites, files, own
from .data import Images
from .registry import first_line

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
PICKLED = (".pt", ".pth", ".bin", ".ckpt", ".tar")  # timm's training writes .pth.tar
LARGEST_HEADER = 100_000_000  # bytes, the limit of the safetensors format
NAMED = 3  # keys listed in an error
OTHER_ARCH = "Name another one with --arch."
INTEGERS = ("num_batches_tracked", "entry")  # BatchNorm's counter, and which neurons a tail reads (`composites`)
WRAPPERS = ("state_dict", "model_state_dict", "model")  # where training scripts put the tensors
PREFIXES = ("module.", "model.", "_orig_mod.")  # of DataParallel, of Lightning's usual attribute, of torch.compile
Architecture = str | Mapping[str, Any] | Callable[[], nn.Module]


def load_model(
    path: str | Path, arch: Architecture | None = None, *, like: Images | None = None
) -> tuple[nn.Module, dict[str, Any]]:
    """The network in a checkpoint, float32 and in eval mode, and the file's metadata.

    Args:
        path: .safetensors, or .pt/.pth/.bin/.ckpt/.pth.tar with tensors only (pickled objects are refused, never run).
        arch: a spec, its JSON text, a name such as "vgg11-half", "timm:resnet18" or "mynet:make", or a function that builds
            the module. By default the metadata's spec, else what keys and shapes tell. A module of a user's own that only the
            metadata name is not imported: see `architectures.own`.
        like: images that it takes, from which factories of others get channels, size and classes where nothing else tells.
    Returns:
        (model, metadata); metadata["architecture"] is the spec that was used, but for a module built by
        `arch`.
    Raises:
        NotAllowed: its network is of somebody's own code, which `arch` does not name.
        ValueError: a file that is missing, damaged or no checkpoint, tensors that are no finite
            floating-point numbers, or that do not fit the architecture.
    """
    path = Path(path)
    metadata, state = read_metadata(path), read_tensors(path)
    if callable(arch):
        # A foreign initialisation must not disturb the caller's seeds.
        with torch.random.fork_rng(devices=[]):
            model = arch()
    else:
        try:
            spec = _spec(arch, metadata, state, like)
            # Without memory: a hostile spec costs nothing, and every tensor comes from the file. Networks of others have it,
            # and their first weights must not disturb the caller's seeds.
            with torch.device("meta"), torch.random.fork_rng(devices=[]):
                model = composites.build(spec)
        except own.NotAllowed as error:
            raise own.NotAllowed(f"{path}: {error}") from error
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from error
        metadata["architecture"] = spec
    state = _named_as(model, state)
    expected = model.state_dict()
    _check_fit(expected, state, path)
    state = {name: _usable(name, tensor, expected[name].dtype, path) for name, tensor in state.items()}
    # Into its own tensors where it has some: layers may share them.
    model.load_state_dict(state, assign=any(tensor.is_meta for tensor in expected.values()))
    try:
        composites.check_entries(model)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    return model.float().eval(), metadata


def save_model(model: nn.Module, path: str | Path, **metadata: Any) -> None:
    """Write a network and facts about it as safetensors; the file appears whole or not at all.

    Args:
        metadata: anything JSON can hold; "architecture" defaults to `model.spec` where the model has one.
    Raises:
        ValueError: the name does not end in .safetensors, a folder is in the way, or a fact is not JSON.
    """
    spec = getattr(model, "spec", None)
    facts = {**({"architecture": spec} if isinstance(spec, dict) else {}), **metadata}
    write_tensors(path, model.state_dict(), facts)


def write_tensors(path: str | Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write tensors and facts as safetensors; the file appears whole or not at all.

    Raises:
        ValueError: as `save_model`.
    """
    path = Path(path)
    if path.suffix != ".safetensors":
        raise ValueError(f"checkpoints are written as safetensors: let the name {path} end in .safetensors.")
    if path.is_dir():
        raise ValueError(f"{path} is a folder: give a file's name.")
    try:
        texts = {name: json.dumps(value, allow_nan=False) for name, value in facts.items()}
    except (TypeError, ValueError) as error:
        raise ValueError(f"the metadata of {path} cannot be written as JSON: {error}.") from error
    # Clones, because safetensors refuses tensors that share memory.
    state = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write(path, _in_order(safetensors.torch.save(state, texts)))
    except OSError as error:
        raise ValueError(f"{path} cannot be written: {error.strerror}.") from error


def _in_order(content: bytes) -> bytes:
    """A safetensors file with its facts by name: they come in a random order, and equal networks shall be equal files."""
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    if facts := header.get("__metadata__"):
        header["__metadata__"] = dict(sorted(facts.items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the tensors begin at a multiple of eight
    return len(text).to_bytes(8, "little") + text + content[end:]


def read_metadata(path: str | Path) -> dict[str, Any]:
    """The metadata of a checkpoint, decoded; values that are no JSON stay text. Empty for .pt files.

    Raises:
        ValueError: the file is missing, damaged or no checkpoint.
    """
    path = Path(path)
    if path.is_dir():
        inside = next((f", such as {file}" for file in sorted(path.glob("*.safetensors"))), "")
        raise ValueError(f"{path} is a folder. Name the checkpoint in it{inside}.")
    if not path.is_file():
        raise ValueError(f"there is no checkpoint at {path}.")
    if path.suffix in PICKLED:
        return {}
    if path.suffix != ".safetensors":
        raise ValueError(
            f"{path} is no checkpoint by its name: .safetensors, .pt, .pth, .pth.tar, .ckpt or .bin are read."
        )
    header = _header(path)
    return {name: _decoded(text) for name, text in header.get("__metadata__", {}).items()}


def _header(path: Path) -> dict[str, Any]:
    """The header of a safetensors file: 8 bytes of length, JSON, then data that must end where it says."""
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
        if length > LARGEST_HEADER or not length:
            raise ValueError(f"{path} is not a safetensors file: it announces a header of {length} bytes.")
        text = file.read(length)
    if len(text) < length:
        if text[:1] != b"{":
            raise ValueError(f"{path} is not a safetensors file: no header follows its length.")
        raise ValueError(f"{path} is truncated within its header ({size} of {8 + length} bytes): copy it again.")
    try:
        header = json.loads(text)
        facts = header.get("__metadata__", {})
        entries = {name: entry for name, entry in header.items() if name != "__metadata__"}
        end = max((int(entry["data_offsets"][1]) for entry in entries.values()), default=0)
        if not all(isinstance(value, str) for value in facts.values()):
            raise TypeError("metadata values must be text")
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise ValueError(f"{path} is not a safetensors file: its header is damaged ({error}).") from error
    held = size - 8 - length
    if held != end:
        fault = "truncated" if held < end else "oversized"
        raise ValueError(f"{path} is {fault}: its header announces {end} bytes of data, the file has {held}.")
    return header


def _decoded(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a checkpoint by name, as they are.

    Raises:
        ValueError: the file is damaged or holds other things than tensors.
    """
    if path.suffix in PICKLED:
        return _read_pickled(path)
    try:
        return safetensors.torch.load_file(path)
    # A KeyError is a dtype that safetensors knows and torch does not.
    except (SafetensorError, OSError, KeyError, ValueError, RuntimeError) as error:
        raise ValueError(f"{path} is not a readable safetensors file: {first_line(error)}.") from error


def _read_pickled(path: Path) -> dict[str, Tensor]:
    """The tensors of a file that torch.save wrote."""
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    # Unpickling damaged bytes raises almost anything; nothing in the file is run in any case.
    except Exception as error:
        raise ValueError(
            f"{path} is damaged, or holds other Python objects than tensors, which are never loaded: save "
            "the model's state_dict() alone, best as safetensors. For a file that you trust: "
            'torch.save(torch.load(FILE, weights_only=False)["state_dict"], "tensors.pt").'
        ) from error
    if isinstance(content, Mapping):
        content = next((content[key] for key in WRAPPERS if isinstance(content.get(key), Mapping)), content)
    if not isinstance(content, Mapping) or not content:
        raise ValueError(f"{path} holds a {type(content).__name__} instead of a state_dict of tensors.")
    for name, value in content.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise ValueError(f"{path}: entry {name!r} is a {type(value).__name__}, only named tensors are read.")
    return _without_prefix(content, "module.")


def _without_prefix(state: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors without a prefix that stands before every key; as they are where it does not."""
    wrapped = all(name.startswith(prefix) for name in state)
    return {name.removeprefix(prefix) if wrapped else name: tensor for name, tensor in state.items()}


def _named_as(model: nn.Module, state: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tensors under the network's own names, where only a wrapper's prefix stands before them.

    What does not belong to the network is left out where all that has the prefix does: Lightning keeps the metrics' and the
    loss's tensors beside it.
    """
    expected = model.state_dict().keys()
    if expected <= state.keys():
        return state
    for prefix in PREFIXES:
        inside = {
            name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix) and prefix
        }
        if inside.keys() == expected:
            return inside
    return state


def _usable(name: str, tensor: Tensor, wanted: torch.dtype, path: Path) -> Tensor:
    """The tensor as float32; INTEGERS, and what the network itself has as whole numbers (a table of positions), stay."""
    if tensor.dtype == wanted and not wanted.is_floating_point and tensor.layout == torch.strided:
        return tensor
    if name.rpartition(".")[2] in INTEGERS and tensor.dtype == torch.int64:
        return tensor
    if tensor.dtype not in FLOATS or tensor.layout != torch.strided:
        kind = str(tensor.dtype).removeprefix("torch.")
        raise ValueError(
            f"{path}: tensor {name!r} has dtype {kind}: only float16, bfloat16, float32 and float64 are "
            "read; convert quantised or integer weights first."
        )
    if not wanted.is_floating_point:  # torch would cut the fractions off
        kinds = (str(dtype).removeprefix("torch.") for dtype in (tensor.dtype, wanted))
        raise ValueError(f"{path}: tensor {name!r} has dtype {next(kinds)}, the network needs {next(kinds)}.")
    converted = tensor.detach().to(torch.float32, memory_format=torch.contiguous_format)
    wrong = int((~torch.isfinite(converted)).sum())
    if wrong:
        raise ValueError(f"{path}: tensor {name!r} has {wrong} values that are NaN or infinite in float32.")
    return converted


def _spec(
    arch: str | Mapping[str, Any] | None, metadata: dict[str, Any], state: Mapping[str, Tensor], like: Images | None
) -> dict[str, Any]:
    """The architecture asked for, else the metadata's, else the recognised one."""
    stored = metadata.get("architecture")
    if arch is None:
        if isinstance(stored, dict):  # in strangers' files it is prose
            return stored
        return _recognised(state)
    if names := own.names_in(arch):
        own.allow(arch)
        if isinstance(stored, dict) and stored.get("architecture") in composites.COMPOSITES:
            return stored  # of networks that are now allowed
        asked = _one_of(arch, names, stored)
    else:
        asked = architectures.parse(arch) if isinstance(arch, str) else dict(arch)
    if not architectures.is_foreign(asked.get("architecture")):
        return architectures.completed(asked, state)
    if isinstance(stored, dict) and stored.get("architecture") == asked["architecture"]:
        return {**stored, **asked}
    return asked if like is None else architectures.fitted(asked, like.shape, len(like.classes))


def _one_of(arch: Any, names: list[str], stored: Any) -> dict[str, Any]:
    """Of several factories that were named: the one that the file says it is of, which may also be another of the module."""
    known = stored.get("architecture") if isinstance(stored, dict) else None
    modules = [own.canonical(name).split(":")[0] for name in names]
    if own.is_own(known) and str(known).split(":")[0] in modules:
        if str(known) not in map(own.canonical, names) or len(names) > 1:
            return dict(stored)
    elif len(names) > 1:
        raise ValueError(
            f"it does not say which of the architectures {', '.join(names)} it has. Name one for this file alone."
        )
    return architectures.parse(arch) if isinstance(arch, str) else {**arch, "architecture": own.canonical(names[0])}


def _recognised(state: Mapping[str, Tensor]) -> dict[str, Any]:
    """The spec of one of our networks, by its keys and shapes, also behind a wrapper's prefix.

    Raises:
        ValueError: as `architectures.recognise`.
    """
    for prefix in PREFIXES:
        inside = {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
        with suppress(ValueError):
            return architectures.recognise(inside)
    return architectures.recognise(state)


def _hugging_face(path: Path) -> str:
    """What to do with a file that Hugging Face's save_pretrained wrote, whose keys may be other ones than the network's."""
    with suppress(OSError, ValueError, AttributeError):
        config = json.loads((path.parent / "config.json").read_text(encoding="utf-8"))
        if "transformers_version" in config:
            return (
                "It was written by save_pretrained, which may rename tensors: read it with from_pretrained in Python, and write "
                "it again with torch.save(model.state_dict(), 'network.pt'). If it is another network, name that one with --arch."
            )
    return ""


def _check_fit(expected: Mapping[str, Tensor], state: Mapping[str, Tensor], path: Path) -> None:
    """Refuse missing and unexpected keys and wrong shapes."""
    missing, unexpected = expected.keys() - state.keys(), state.keys() - expected.keys()
    for fault, names in (("lacks the key(s)", missing), ("has the unexpected key(s)", unexpected)):
        if names:
            rest = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
            listed = ", ".join(sorted(names)[:NAMED]) + rest
            raise ValueError(
                f"{path} does not fit its architecture: it {fault} {listed}. {_hugging_face(path) or OTHER_ARCH}"
            )
    for name, tensor in state.items():
        if tensor.shape != expected[name].shape:
            raise ValueError(
                f"{path} does not fit its architecture: {name!r} has shape {tuple(tensor.shape)}, "
                f"wanted {tuple(expected[name].shape)}. {OTHER_ARCH}"
            )
