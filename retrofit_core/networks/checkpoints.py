"""Checkpoints: safetensors with facts as JSON in the metadata; strict reading, also of strangers' files.

A checkpoint's metadata may hold "architecture" (a spec, see `architectures` and `composites`), "recipe", "classes", "mean",
"std", "class_counts" and other facts; each value is JSON text in the file and decoded when read.
"""

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from torch import Tensor, nn

from ..data import Images
from ..system import files
from ..system.notices import Notice
from . import architectures, classnames, composites, statedicts, user_code, weightfiles, wrappers
from .statedicts import AUTO, NamedTensors

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
NAMED = 3  # keys listed in an error
OTHER_ARCH = "Name another one with --arch (arch= in Python)."
INTEGERS = ("num_batches_tracked", "entry")  # BatchNorm's counter, and which neurons a tail reads (`composites`)
Architecture = str | Mapping[str, Any] | Callable[[], nn.Module]


def load_model(
    path: str | Path,
    arch: Architecture | None = None,
    *,
    like: Images | None = None,
    weights: str = AUTO,
    classes: Sequence[str] = (),
) -> tuple[nn.Module, dict[str, Any]]:
    """The network in a checkpoint, float32 and in eval mode, and what the file says of it.

    The content decides how a file is read, not its name. Wrappers' prefixes and keys are taken off where the network's own names
    come out (`statedicts`).

    Args:
        path: safetensors, or what torch.save wrote with tensors only (pickled objects are refused, never run); or a folder of
            shards, or their index.
        arch: a spec, its JSON text, a name such as "vgg11-half", "timm:resnet18" or "mynet:make", or a function that builds
            the module. By default the metadata's spec, else what keys and shapes tell. A module of a user's own that only the
            metadata name is not imported: see `user_code`.
        like: images that it takes, from which factories of others get channels, size and classes where nothing else tells. Where
            the file names its classes in another order, its outputs are brought into that of the images.
        weights: which ones, where a training saved several: "auto" (averaged, EMA, ones where there are some, as timm does),
            "ema", "model" (those that are not averaged), or the key under which they lie. A `Notice` says which were read.
        classes: the order of classes, in place of that of `like`, see `classes_of`.
    Returns:
        (model, metadata); metadata["architecture"] is the spec that was used, but for a module built by
        `arch`; metadata["weights"] the key of the weights that were read, where there were several.
    Raises:
        NotAllowed: its network is of somebody's own code, which `arch` does not name.
        ValueError: a file that is missing, damaged or no checkpoint, tensors that are no finite
            floating-point numbers, or that do not fit the architecture; other classes than those of the images.
    """
    path = Path(path)
    metadata, content = weightfiles.facts_of(path), weightfiles.content_of(path)
    found = _found(path, content)
    model, fits = _fitted(path, arch, metadata, found, like)
    try:
        read = statedicts.chosen(fits, weights)
    except ValueError as error:
        raise ValueError(f"{path} {error}") from error
    notices: list[str] = []
    if len(fits) > 1 and (words := statedicts.words(fits, read)):
        metadata["weights"] = read.label
        notices += [words] if weights == AUTO else []
    elif weights == AUTO and not read.averaged and (left := statedicts.averaged_in(content, model.state_dict())):
        notices.append(f"the averaged (EMA) weights under {left} do not have the network's names and were not read.")
    if read.left:
        left_out = f"{len(read.left)} matrices beside the network's tensors were left out, such as {read.left[0]}"
        notices.append(f"{left_out}: if they belong to it, name the whole network with --arch (arch= in Python).")
    for notice in notices:
        warnings.warn(Notice(f"{path}: {notice}"), stacklevel=2)
    expected, state = model.state_dict(), dict(read.tensors)
    _check_fit(expected, state, path)
    state = {name: _usable(name, tensor, expected[name].dtype, path) for name, tensor in state.items()}
    for first, second in statedicts.untied(model, state):
        raise ValueError(
            f"{path}: {first!r} and {second!r} are one tensor in the network and differ in the file. {OTHER_ARCH}"
        )
    # Into its own tensors where it has some: layers may share them.
    model.load_state_dict(state, assign=any(tensor.is_meta for tensor in expected.values()))
    try:
        composites.check_entries(model)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    for parameter in model.parameters():
        parameter.requires_grad_(True)
    model = model.float().eval()
    if like is not None:
        _order_classes(model, metadata, classes or like.classes, like, path)
    return model, metadata


def _fitted(
    path: Path, arch: Architecture | None, metadata: dict[str, Any], found: list[NamedTensors], like: Images | None
) -> tuple[nn.Module, list[NamedTensors]]:
    """The network without its weights, and all that fits it; into the metadata goes its spec."""
    refusal: ValueError | None = None
    built: dict[str, nn.Module] = {}
    for each in found:
        try:
            spec = None if callable(arch) else _spec(arch, metadata, each.tensors, like)
            key = json.dumps(spec, sort_keys=True, default=str)
            if key not in built:
                # A foreign initialisation must not disturb the caller's seeds.
                with torch.random.fork_rng(devices=[]):
                    built[key] = wrappers.unwrapped(arch()) if callable(arch) else _without_memory(spec or {})
            model = built[key]
            fits = statedicts.fitting(model, found)
            if not fits:
                largest = max(found, key=lambda one: len(one.tensors))
                _check_fit(model.state_dict(), _nearest(model, largest.tensors), path)
        except user_code.NotAllowed as error:
            raise user_code.NotAllowed(f"{path}: {error}") from error
        except ValueError as error:
            refusal = refusal or error
            continue
        if fits:
            if spec is not None:
                metadata["architecture"] = spec
            return model, fits
    if sentence := next((words for each in found if (words := weightfiles.other_kind(path, each.tensors))), ""):
        raise ValueError(sentence)
    text = str(refusal)
    raise ValueError(text if text.startswith(str(path)) else f"{path}: {text}") from refusal


def _without_memory(spec: Mapping[str, Any]) -> nn.Module:
    """A hostile spec costs nothing, and every tensor comes from the file; networks of others have memory all the same."""
    with torch.device("meta"):
        return composites.build(spec)


def _nearest(model: nn.Module, state: Mapping[str, Any]) -> dict[str, Any]:
    """Tensors that fit no network of this kind, under the names that are most like its own, for a refusal."""
    expected = model.state_dict().keys()
    nearest = max(statedicts.unwrapped(state), key=lambda level: len(level.keys() & expected), default={})
    return {name: tensor for name, tensor in nearest.items() if name in expected or not name.endswith(statedicts.STEPS)}


def _found(path: Path, content: Mapping[str, Any]) -> list[NamedTensors]:
    """All named tensors in what a file holds."""
    if found := statedicts.found_in(content):
        return found
    if weightfiles.kind_of(path) != "torch":
        return [NamedTensors("", content)]
    if not isinstance(content, Mapping) or not content:
        raise ValueError(f"{path} holds a {type(content).__name__} instead of a state_dict of tensors.")
    name, value = next(iter(content.items()))
    raise ValueError(f"{path}: entry {name!r} is a {type(value).__name__}, only named tensors are read.")


def classes_of(paths: Sequence[str | Path], images: Images) -> tuple[str, ...]:
    """The order of classes into which the outputs of several checkpoints are brought: that of the images, or, where these have
    numbers for names, of the first checkpoint that names its classes."""
    if classnames.are_names(images.classes):
        return images.classes
    for path in paths:
        with suppress(ValueError):  # whoever reads the network says what is wrong
            stored = classnames.stored(read_metadata(path))
            if classnames.are_names(stored) and len(stored) == len(images.classes):
                return stored
    return images.classes


def _order_classes(model: nn.Module, metadata: dict[str, Any], wanted: Sequence[str], like: Images, path: Path) -> None:
    """Bring the outputs of a network that names its classes into the order wanted."""
    stored = classnames.stored(metadata)
    example = torch.rand(2, *like.shape, generator=torch.Generator().manual_seed(0))
    if classnames.bring_into_order(model, stored, wanted, example, f"{path}", f"data set {like.name!r}"):
        metadata["classes"] = list(wanted)


def save_model(model: nn.Module, path: str | Path, **metadata: object) -> None:
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
    """The metadata of a checkpoint, decoded; values that are no JSON stay text. Of .pt files the class names, if they have any.

    Raises:
        ValueError: the file is missing, damaged or no checkpoint.
    """
    return weightfiles.facts_of(Path(path))


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a checkpoint by name, as they are; of several, the averaged ones or those under the most usual key.

    Raises:
        ValueError: the file is damaged or holds other things than tensors.
    """
    found = _found(path, weightfiles.content_of(path))
    return {name: value for name, value in found[0].tensors.items() if isinstance(value, Tensor)}


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
    if names := user_code.names_in(arch):
        user_code.allow(arch)
        if isinstance(stored, dict) and stored.get("architecture") in composites.COMPOSITES:
            return stored  # of networks that are now allowed
        asked = _one_of(arch, names, stored)
    else:
        asked = architectures.parse(arch) if isinstance(arch, str) else dict(arch)
    if not architectures.is_foreign(asked.get("architecture")):
        return _completed(asked, state)
    if isinstance(stored, dict) and stored.get("architecture") == asked["architecture"]:
        return {**stored, **asked}
    return asked if like is None else architectures.fitted(asked, like.shape, len(like.classes))


def _one_of(arch: str | Mapping[str, Any], names: list[str], stored: object) -> dict[str, Any]:
    """Of several factories that were named: the one that the file says it is of, which may also be another of the module."""
    stored = stored if isinstance(stored, dict) else {}
    known = stored.get("architecture")
    modules = [user_code.canonical(name).split(":")[0] for name in names]
    if user_code.is_own(known) and str(known).split(":")[0] in modules:
        if str(known) not in map(user_code.canonical, names) or len(names) > 1:
            return dict(stored)
    elif len(names) > 1:
        raise ValueError(
            f"it does not say which of the architectures {', '.join(names)} it has. Name one for this file alone."
        )
    return (
        architectures.parse(arch) if isinstance(arch, str) else {**arch, "architecture": user_code.canonical(names[0])}
    )


def _recognised(state: Mapping[str, Any]) -> dict[str, Any]:
    """The spec of one of our networks, by its keys and shapes, also behind wrappers' prefixes.

    Raises:
        ValueError: as `architectures.recognise`.
    """
    refusals = []
    for inside in (*statedicts.unwrapped(state), {}):
        try:
            return architectures.recognise(inside)
        except ValueError as error:
            refusals.append(error)
    raise refusals[0]


def _completed(spec: dict[str, Any], state: Mapping[str, Any]) -> dict[str, Any]:
    """`architectures.completed`, also behind wrappers' prefixes."""
    full = (architectures.completed(spec, inside) for inside in statedicts.unwrapped(state))
    return next((each for each in full if each.keys() != spec.keys()), spec)


def _hugging_face(path: Path) -> str:
    """What to do with a file that Hugging Face's save_pretrained wrote, whose keys may be other ones than the network's."""
    with suppress(OSError, ValueError, AttributeError):
        config = json.loads((path.parent / "config.json").read_text(encoding="utf-8"))
        if "transformers_version" in config:
            return (
                "It was written by save_pretrained, which may rename tensors: read it with from_pretrained in Python, and write "
                "it again with torch.save(model.state_dict(), 'network.pt'). If it is another network, name that one "
                "with --arch (arch= in Python)."
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
