"""Checkpoints: safetensors with JSON facts in the metadata, and strict reading of untrusted files.

A checkpoint's metadata may hold "architecture" (a spec, see `architectures` and `composites`), "recipe", "classes", "mean",
"std", "class_counts" and other facts, each stored as JSON text.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from ..data import Images
from ..system import files
from . import architectures, classnames, composites, statedicts, user_code, weightfiles, wrappers

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
NAMED = 3  # keys listed in an error
OTHER_ARCH = "Name another one with --arch (arch= in Python)."
INTEGERS = ("num_batches_tracked",)
Architecture = str | Mapping[str, Any] | Callable[[], nn.Module]


def load_model(
    path: str | Path,
    arch: Architecture | None = None,
    *,
    like: Images | None = None,
) -> tuple[nn.Module, dict[str, Any]]:
    """Load the network of a checkpoint, float32 and in eval mode, and the file's metadata.

    The file's content, not its name, determines its format. The prefixes of DataParallel and torch.compile are stripped.

    Args:
        path: safetensors, or a torch.save file with a state dict, alone or under "state_dict" or "model" (pickled objects are
            refused, never run).
        arch: a spec, its JSON text, a name such as "vgg11-half" or "mynet:make", or a function that builds
            the module. Default: the metadata's spec, else inferred from keys and shapes. Modules that only the metadata name
            are not imported: see `user_code`.
        like: images that the network takes. Foreign factories get channels, size and classes from them if nothing else
            gives these. The classes that the file names must be theirs.
    Returns:
        (model, metadata); metadata["architecture"] is the spec that was used, unless a function `arch` built the module.
    Raises:
        NotAllowed: the network is user code that `arch` does not name.
        ValueError: the file is missing, damaged or no checkpoint; its tensors are not finite floating-point numbers or do
            not fit the architecture; its classes are not those of the images.
    """
    path = Path(path)
    metadata, state = weightfiles.content_of(path)
    model, state = _fitted(path, arch, metadata, state, like)
    expected = model.state_dict()
    state = {name: _usable(name, tensor, expected[name].dtype, path) for name, tensor in state.items()}
    for first, second in statedicts.untied(model, state):
        raise ValueError(
            f"{path}: {first!r} and {second!r} are one tensor in the network and differ in the file. {OTHER_ARCH}"
        )
    # Copy into the network's own tensors where they have memory: layers may share them.
    model.load_state_dict(state, assign=any(tensor.is_meta for tensor in expected.values()))
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    model = model.float().eval()
    if like is not None:
        classnames.check_data_classes(classnames.stored(metadata), like.classes, f"{path}", f"data set {like.name!r}")
    return model, metadata


def _fitted(
    path: Path, arch: Architecture | None, metadata: dict[str, Any], state: Mapping[str, Tensor], like: Images | None
) -> tuple[nn.Module, dict[str, Tensor]]:
    """The network without its weights, and the tensors under its names; puts the spec into the metadata."""
    try:
        spec = None if callable(arch) else _spec(arch, metadata, state, like)
        # Foreign initialisation must not disturb the caller's seeds. On the meta device a hostile spec costs no memory;
        # foreign networks are built on the CPU all the same.
        with torch.random.fork_rng(devices=[]), nullcontext() if callable(arch) else torch.device("meta"):
            model = wrappers.unwrapped(arch()) if callable(arch) else composites.build(spec or {})
    except ValueError as error:
        kind = user_code.NotAllowed if isinstance(error, user_code.NotAllowed) else ValueError
        raise kind(f"{path}: {error}") from error
    if spec is not None:
        metadata["architecture"] = spec
    names, found = (
        model.state_dict().keys(),
        [statedicts.state_for(model, each) for each in statedicts.unwrapped(state)],
    )
    nearest = max(found, key=lambda each: len(names & each.keys()))
    _check_fit(model.state_dict(), nearest, path)
    return model, nearest


def save_model(model: nn.Module, path: str | Path, **metadata: object) -> None:
    """Write a network and its metadata as safetensors, atomically.

    Args:
        metadata: any JSON values; "architecture" defaults to `model.spec` if the model has one.
    Raises:
        ValueError: the name does not end in .safetensors or is a folder's, the metadata are not JSON, or writing fails.
    """
    spec = getattr(model, "spec", None)
    facts = {**({"architecture": spec} if isinstance(spec, dict) else {}), **metadata}
    write_tensors(path, model.state_dict(), facts)


def write_tensors(path: str | Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write tensors and metadata as safetensors, atomically.

    Raises:
        ValueError: as in `save_model`.
    """
    path = Path(path)
    if path.suffix != ".safetensors":
        raise ValueError(f"checkpoints are written as safetensors: let the name {path} end in .safetensors.")
    if path.is_dir():
        raise ValueError(f"{path} is a folder: give a file's name.")
    if strange := next((name for name, tensor in tensors.items() if not isinstance(tensor, Tensor)), None):
        raise ValueError(
            f"{strange!r} is extra state of type {type(tensors[strange]).__name__}, and {path} holds tensors only. Save the "
            "network with torch.save(network.state_dict(), FILE)."
        )
    try:
        texts = {name: json.dumps(value, allow_nan=False) for name, value in facts.items()}
    except (TypeError, ValueError) as error:
        raise ValueError(f"the metadata of {path} cannot be written as JSON: {error}.") from error
    # Clone: safetensors refuses tensors that share memory.
    state = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format) for name, tensor in tensors.items()
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write(path, _in_order(safetensors.torch.save(state, texts)))
    except OSError as error:
        raise ValueError(f"{path} cannot be written: {error.strerror}.") from error


def _in_order(content: bytes) -> bytes:
    """Sort the metadata of a safetensors file: their order is random, and equal networks should give equal files."""
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    if facts := header.get("__metadata__"):
        header["__metadata__"] = dict(sorted(facts.items()))
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the tensors begin at a multiple of eight
    return len(text).to_bytes(8, "little") + text + content[end:]


def read_metadata(path: str | Path) -> dict[str, Any]:
    """Decode a checkpoint's metadata; values that are not JSON stay text. For .pt files, the class names if present.

    Raises:
        ValueError: the file is missing, damaged or no checkpoint.
    """
    return weightfiles.facts_of(Path(path))


def read_tensors(path: Path) -> dict[str, Tensor]:
    """A checkpoint's tensors by name, unconverted.

    Raises:
        ValueError: the file is damaged or holds no state dict.
    """
    return weightfiles.content_of(path)[1]


def _usable(name: str, tensor: Tensor, wanted: torch.dtype, path: Path) -> Tensor:
    """The tensor as float32; INTEGERS, and tensors that the network itself keeps as integers (position tables), stay."""
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
    if not wanted.is_floating_point:  # torch would truncate
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
    """The requested architecture, else the metadata's, else the recognised one."""
    stored = metadata.get("architecture")
    if arch is None:
        if isinstance(stored, dict):  # in other people's files it is prose
            return stored
        return _recognised(state)
    names = user_code.names_in(arch)
    if isinstance(stored, dict) and names and (len(names) > 1 or stored.get("architecture") in composites.COMPOSITES):
        return stored  # of several, the one that the file names
    asked = architectures.parse(arch if isinstance(arch, str) else json.dumps(dict(arch)))
    if not architectures.is_foreign(asked.get("architecture")):
        return _completed(asked, state)
    if isinstance(stored, dict) and stored.get("architecture") == asked["architecture"]:
        return {**stored, **asked}
    return asked if like is None else architectures.fitted(asked, like.shape, len(like.classes))


def _recognised(state: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of one of our networks by keys and shapes, ignoring wrappers' prefixes.

    Raises:
        ValueError: as in `architectures.recognise`.
    """
    refusals = []
    for inside in (*statedicts.unwrapped(state), {}):
        try:
            return architectures.recognise(inside)
        except ValueError as error:
            refusals.append(error)
    raise refusals[0]


def _completed(spec: dict[str, Any], state: Mapping[str, Any]) -> dict[str, Any]:
    """`architectures.completed`, ignoring wrappers' prefixes."""
    full = (architectures.completed(spec, inside) for inside in statedicts.unwrapped(state))
    return next((each for each in full if each.keys() != spec.keys()), spec)


def _check_fit(expected: Mapping[str, Tensor], state: Mapping[str, Tensor], path: Path) -> None:
    """Refuse missing and unexpected keys and wrong shapes."""
    missing, unexpected = expected.keys() - state.keys(), state.keys() - expected.keys()
    for fault, names in (("lacks the key(s)", missing), ("has the unexpected key(s)", unexpected)):
        if names:
            rest = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
            listed = ", ".join(sorted(names)[:NAMED]) + rest
            raise ValueError(f"{path} does not fit its architecture: it {fault} {listed}. {OTHER_ARCH}")
    for name, tensor in state.items():
        if tensor.shape != expected[name].shape:
            raise ValueError(
                f"{path} does not fit its architecture: {name!r} has shape {tuple(tensor.shape)}, "
                f"wanted {tuple(expected[name].shape)}. {OTHER_ARCH}"
            )
