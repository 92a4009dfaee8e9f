"""Networks: plain nn.Modules, each described by a spec (a JSON object).

Under "architecture", a spec names an entry of ARCHITECTURES or a foreign factory (`user_code`); the other entries
are the builder's keywords. A built model keeps its spec as `model.spec`.
"""

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from ...system.registry import find, first_line
from ...system.settings import SEED_SETTING, check_setting
from .. import user_code
from ..outputs import giving_logits
from . import cnn, mlp, resnet, vgg, vit
from .base import Architecture
from .cnn import CNN
from .mlp import MLP
from .resnet import ResNet
from .vgg import VGG
from .vit import ViT

__all__ = [
    "ARCHITECTURES",
    "CNN",
    "MLP",
    "PRESETS",
    "VGG",
    "Architecture",
    "ResNet",
    "ViT",
    "build",
    "fitted",
    "input_shape",
    "input_shape_of",
    "is_count",
    "is_foreign",
    "parse",
    "recognise",
]

ARCHITECTURES: dict[str, type[Architecture]] = {"mlp": MLP, "cnn": CNN, "vgg": VGG, "resnet": ResNet, "vit": ViT}
# The first match wins: cnn comes before vgg, which is more general.
RECOGNISERS = {
    "mlp": mlp.recognise,
    "cnn": cnn.recognise,
    "vgg": vgg.recognise,
    "resnet": resnet.recognise,
    "vit": vit.recognise,
}
WIDTHS = {"": 1.0, "-half": 0.5, "-double": 2.0, "-quad": 4.0}  # the paper's 1x, 0.5x, 2x, 4x
# The data set channels, image size and classes.
PRESETS: dict[str, dict[str, Any]] = {
    **{
        f"{name}{suffix}": {"architecture": "vgg", "plan": vgg.scaled(plan, width)}
        for name, plan in vgg.PLANS.items()
        for suffix, width in WIDTHS.items()
    },
    **{name: {"architecture": "resnet", **depth} for name, depth in resnet.DEPTHS.items()},
    **{
        f"{name}-imagenet": {"architecture": "resnet", **depth, "imagenet_stem": True}
        for name, depth in resnet.DEPTHS.items()
    },
    **{name: {"architecture": "vit", **sizes} for name, sizes in vit.SIZES.items()},
}
LARGEST = 1 << 20  # largest number in a spec
DEEPEST = 1000  # most entries in a plan or list of sizes, most blocks
#: Other values that `--arch` and `arch=` accept.
OTHERS = "package.module:function, FILE.py:function"


def is_foreign(name: object) -> bool:
    """Whether an architecture is a user's own factory."""
    return user_code.is_own(name)


def build(spec: str | Mapping[str, Any], seed: int | None = None) -> Any:
    """Build the network of a spec, freshly initialised.

    Args:
        spec: architecture and its keywords, or text for `parse`, such as the name of a preset.
        seed: for the initial weights; leaves the global random state untouched. None draws from the global
            state.

    Examples:
        >>> build({"architecture": "mlp", "sizes": [784, 256, 10]}, seed=0).fc2.out_features
        10

    Returns:
        An `Architecture`, or the module that a foreign factory returned.
    Raises:
        NotAllowed: the factory is a user's own, and this process's user did not name it (`user_code.allow`).
        ValueError: unknown architecture or keyword, missing keyword, numbers that make no network.
    """
    keywords = parse(spec) if isinstance(spec, str) else dict(spec)
    name = keywords.pop("architecture", None)
    foreign = is_foreign(name)
    if foreign:
        builder: Any = user_code.factory(str(name))
    else:
        builder = find(ARCHITECTURES, str(name), "architecture")
        _check(name, builder, keywords)
    with torch.random.fork_rng(devices=[]) if seed is not None else nullcontext():
        if seed is not None:
            check_setting(SEED_SETTING, seed)
            torch.default_generator.manual_seed(seed)
        try:
            return _built(str(name), builder, keywords) if foreign else builder(**keywords)
        except RuntimeError as error:  # out of memory, or integer overflow
            reason = first_line(error)
            raise ValueError(f"architecture {name!r} cannot be built with these numbers: {reason}.") from error


def _built(name: str, make: Callable[..., object], spec: dict[str, Any]) -> nn.Module:
    """Call a foreign factory, always on the CPU: not every one can build on the meta device."""
    keywords = {key: value for key, value in spec.items() if key not in user_code.OURS}
    try:
        with torch.device("cpu"):
            model = make(**keywords)
    except Exception as error:  # whatever the factory's own code raises
        said = ", ".join(f"{key}={value!r}" for key, value in keywords.items())
        raise ValueError(
            f"architecture {name!r} cannot be built with ({said}): {type(error).__name__}: {first_line(error)}."
        ) from error
    if not isinstance(model, nn.Module):
        raise ValueError(f"architecture {name!r} gives {type(model).__name__}. Let it return a torch.nn.Module.")
    if hasattr(model, "spec") and not isinstance(model, Architecture):
        raise ValueError(
            f"architecture {name!r}: the network has an attribute 'spec', the name under which Retrofit notes how it "
            "was built. Rename it."
        )
    if spec.get("logits") is not None:
        model = giving_logits(model, spec["logits"])
    model.spec = {"architecture": name, **spec}  # type: ignore[assignment]
    return model


def parse(text: str) -> dict[str, Any]:
    """Parse a user's spec: a JSON object, a name in ARCHITECTURES, a preset such as "vgg11-half", or a foreign factory.

    Imports nothing.

    Raises:
        ValueError: none of these.
    """
    if text.lstrip().startswith("{"):
        try:
            spec = json.loads(text)
        except ValueError as error:
            raise ValueError(f"the architecture {text!r} is not JSON: {error}.") from error
        if user_code.is_own(spec.get("architecture")):
            spec["architecture"] = user_code.canonical(spec["architecture"])
        return spec
    if is_foreign(text):
        return {"architecture": user_code.canonical(text) if user_code.is_own(text) else text}
    if text in PRESETS:
        return dict(PRESETS[text])
    try:
        find({**ARCHITECTURES, **PRESETS}, text, "architecture")
    except ValueError as error:
        raise ValueError(f"{error} Others: {OTHERS}, or a JSON object.") from None
    return {"architecture": text}


def fitted(spec: Mapping[str, Any], shape: Sequence[int], classes: int) -> dict[str, Any]:
    """Fill in the keywords that the spec leaves to the data.

    Args:
        shape: (channels, height, width) of the images.
    Raises:
        ValueError: unknown architecture; for foreign factories as `build`.
    """
    name = spec["architecture"]
    if user_code.is_own(name):
        return {**user_code.keywords_for(user_code.factory(name), shape, classes), "input": list(shape), **spec}
    return {**find(ARCHITECTURES, name, "architecture").keywords_for(shape, classes), **spec}


def input_shape(spec: str | Mapping[str, Any]) -> tuple[int, ...]:
    """Shape of one input of a spec's network, without allocating it.

    Raises:
        ValueError: as in `build`; or a foreign network whose spec lacks its input shape.
    """
    if not isinstance(spec, str) and is_foreign(name := spec.get("architecture")):
        shape = spec.get("input")
        if not isinstance(shape, list) or not shape or not all(map(is_count, shape)):
            raise ValueError(
                f"the shape of the inputs of {name!r} is unknown. Name a data set whose images it takes with --data "
                "FOLDER, or give the shape: "
                f'--arch \'{{"architecture": "{name}", "input": [3, 32, 32]}}\'.'
            )
        return tuple(shape)
    with torch.device("meta"):
        return build(spec).input_shape


def input_shape_of(model: nn.Module) -> tuple[int, ...]:
    """Shape of one input of a network that `build` made.

    Raises:
        ValueError: as in `input_shape`.
    """
    return model.input_shape if isinstance(model, Architecture) else input_shape(model.spec)  # type: ignore[arg-type]


def recognise(state: Mapping[str, Tensor]) -> dict[str, Any]:
    """Infer the spec of a bare checkpoint from its keys and shapes.

    Raises:
        ValueError: not one of ours; the message names some keys.
    """
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    spec = next(filter(None, (look(shapes) for look in RECOGNISERS.values())), None)
    if spec is None:
        keys = ", ".join(list(shapes)[:4]) + (" ..." if len(shapes) > 4 else "")
        raise ValueError(
            f"the architecture is not recognised from the keys {keys or '(none)'}: name it with --arch "
            f"(arch= in Python): {', '.join([*ARCHITECTURES, *PRESETS])}, {OTHERS}, or a JSON object."
        )
    return spec


def completed(spec: Mapping[str, Any], state: Mapping[str, Tensor]) -> dict[str, Any]:
    """Fill in missing keywords of the spec from the tensors, if they are recognised."""
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    look = RECOGNISERS.get(str(spec.get("architecture")))
    return {**((look(shapes) if look else None) or {}), **spec}


def _check(name: str, builder: type[nn.Module], keywords: dict[str, Any]) -> None:
    """Refuse unknown, missing and unusable keywords."""
    parameters = inspect.signature(builder).parameters
    required = [key for key, entry in parameters.items() if entry.default is entry.empty]
    unknown = [key for key in keywords if key not in parameters]
    missing = [key for key in required if key not in keywords]
    if unknown or missing:
        fault = f"does not know {unknown[0]!r}" if unknown else f"needs {missing[0]!r}"
        raise ValueError(f"architecture {name!r} {fault}. Its keywords: {', '.join(parameters)}.")
    for key, value in keywords.items():
        if not _is_usable(key, value):
            raise ValueError(f"architecture {name!r}: {key!r} cannot be {str(value)[:80]}.")


def _is_usable(key: str, value: object) -> bool:
    if key in ("bias", "batch_norm", "bottleneck", "imagenet_stem"):
        return isinstance(value, bool)
    if key in ("plan", "sizes", "widths", "layers"):
        return _is_list_of_counts(value, key)
    if key == "dropout":
        return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1
    return is_count(value, DEEPEST if key == "depth" else LARGEST)


def is_count(value: object, largest: int = LARGEST) -> bool:
    """Whether a file's value is a number of things."""
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= largest


def _is_list_of_counts(values: object, key: str) -> bool:
    if not isinstance(values, list | tuple) or not 1 <= len(values) <= DEEPEST:
        return False
    counts = [value for value in values if not (key == "plan" and value == vgg.POOL)]
    if not all(map(is_count, counts)) or (key == "layers" and sum(counts) > DEEPEST):
        return False
    return len(counts) >= (2 if key == "sizes" else 1)
