"""Find the logits among a network's outputs, and check that outputs are class scores.

Dicts, tuples and objects may hold logits among other outputs. Class scores are one row per sample with a column per class.
"""

import copy
import warnings
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from ..system.notices import Notice
from ..system.refusals import Cure, Refusal
from ..system.registry import first_line
from .copies import evaluating
from .wrappers import Wrapper, class_name, wrapper_of

#: The key or field that is taken by default.
USUAL = "logits"


class GivingLogits(Wrapper):
    """A network that returns only one of its outputs."""

    which: str | int

    def __init__(self, network: nn.Module, which: str | int) -> None:
        super().__init__(network)
        vars(self)["which"] = which

    def forward(self, *args: object, **kwargs: object) -> Any:
        """The chosen output, usually logits (B, classes)."""
        return _entry(super().forward(*args, **kwargs), self.which)


class CopyingInput(Wrapper):
    """A network that writes into a copy of its input."""

    def forward(self, *args: Tensor, **kwargs: object) -> Any:
        """The network's outputs."""
        return super().forward(*(arg.clone() for arg in args), **kwargs)


def giving_logits(model: nn.Module, which: str | int) -> nn.Module:
    """Wrap a network so that its forward returns only one of its outputs.

    Args:
        which: a key of the dict, a field of the object, or an index into the tuple that it returns.
    Returns:
        A network that contains `model` and shares everything with it.
    """
    return GivingLogits(model, which)


def as_classifier(model: nn.Module, example: Tensor, which: str | int | None = None, network: str = "") -> nn.Module:
    """Wrap a network, if necessary, so that it returns only the logits and does not write into its input.

    A network that writes into its input (`x -= mean`) gets a copy, because others read that input too.

    Args:
        example: (B, ...) input; the first sample is run.
        which: see `giving_logits`; None: the entry named logits, or the only tensor.
        network: its name, to start the error message.
    Raises:
        ValueError: several outputs to choose from, or no such output.
    """
    if wrapper_of(model, GivingLogits):
        return model
    first = next(model.parameters(), None)
    with torch.inference_mode(False):
        sample = example[:1].clone() if first is None else example[:1].to(first.device, copy=True)
        if first is not None and sample.dtype.is_floating_point and first.dtype.is_floating_point:
            sample = sample.to(first.dtype)
    before = sample._version
    try:
        with torch.inference_mode(False), torch.no_grad(), evaluating(model):
            output = model(sample)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # whatever the network's code raises
        if which is None:
            return model  # the next run reports the error
        raise ValueError(
            f"{class_name(model)} does not run on an input of shape {tuple(sample.shape)}: {first_line(error)}. Pass data of "
            "the shape that it was trained on."
        ) from error
    network = network or class_name(model)
    chosen = None if isinstance(output, Tensor) and which is None else _found(output, which, network)
    if sample._version != before:
        model = CopyingInput(model)
    return model if chosen is None else giving_logits(model, chosen)


def logits_in(output: object, network: str = "the network", which: str | int | None = None) -> Tensor:
    """The logits among a network's outputs.

    Args:
        network: its name, to start the error message.
    Raises:
        ValueError: as in `as_classifier`.
    """
    if isinstance(output, Tensor) and which is None:
        return output
    chosen = _found(output, which, network)
    return output if chosen is None else _entry(output, chosen)  # type: ignore[return-value]


def say_what_is_left(model: nn.Module, example: Tensor) -> None:
    """Warn (`Notice`) of layers that only lead to outputs which are not fused: they do not fit the fused neurons that they read.

    Args:
        model: the network whose weights the fused network starts from.
        example: (B, ...) input; the first two samples are run.
    """
    chosen = wrapper_of(model, GivingLogits)
    if chosen is None:
        return
    layers = _only_for_others(copy.deepcopy(chosen), example)
    if layers:
        more = f" and {len(layers) - 3} more" if len(layers) > 3 else ""
        warnings.warn(
            Notice(
                f"only the output {chosen.which!r} is fused. {', '.join(map(repr, layers[:3]))}{more} lead to other outputs "
                "alone and are not fused: they read neurons that have changed. Do not use these outputs, or train the layers "
                "anew."
            ),
            stacklevel=2,
        )


def _only_for_others(model: GivingLogits, example: Tensor) -> list[str]:
    """Layers with parameters on which other outputs depend, and the chosen one does not."""
    parameters = dict(model.requires_grad_().named_parameters())
    first = next(iter(parameters.values()))
    try:
        with torch.enable_grad(), evaluating(model):
            output = model.wrapped(example[:2].to(first.device, first.dtype, copy=True))
            which = _entry(output, model.which)
            others = [value for value in _entries(output).values() if isinstance(value, Tensor) and value is not which]
            read, seen = (_reached(values, parameters) for values in ([which], others))
    except torch.OutOfMemoryError:
        raise
    except Exception:  # whatever the network's code raises: refused elsewhere
        return []
    return list(dict.fromkeys(name.rpartition(".")[0] or name for name in parameters if name in seen - read))


def _reached(values: Sequence[Tensor], parameters: Mapping[str, nn.Parameter]) -> set[str]:
    """Names of the parameters on which any of the values depends."""
    values = [value for value in values if value.requires_grad]
    if not values:
        return set()
    total = torch.stack([value.double().sum() for value in values]).sum()
    gradients = torch.autograd.grad(total, list(parameters.values()), allow_unused=True, retain_graph=True)
    return {name for name, gradient in zip(parameters, gradients, strict=True) if gradient is not None}


def check_class_scores(shape: Sequence[int], reader: str, way_out: str, *cures: Cure) -> int:
    """Refuse outputs that are not class scores; returns the number of classes.

    Everything that takes a softmax or argmax over classes, or compares with labels, checks here before any work: with several
    rows per sample the class axis is unknown, (tokens, classes) or (classes, height, width), and the softmax of one number is
    1. Methods that only match values take outputs of any shape.

    Args:
        shape: outputs for one sample.
        reader: who needs class scores, to start the message.
        way_out: what to do instead, a full sentence.
        cures: the same, machine-readable.
    Raises:
        ValueError: not one row of at least two numbers per sample.
    """
    if len(shape) == 1 and shape[0] > 1:
        return shape[0]
    if prod(shape) == 1:
        said = "one number for a sample, as in a regression or from one logit for two classes"
    else:
        said = (
            f"{' x '.join(map(str, shape))} numbers for a sample, as where each token or pixel has classes of its own"
        )
    raise Refusal(
        f"{reader} needs class scores, one row of at least two for a sample, and outputs are {said}. {way_out}", *cures
    )


def _entry(output: object, which: str | int) -> Any:
    """One entry of an output; also works on torch.fx proxies, where neither keys nor types are known."""
    if isinstance(which, str) and not isinstance(output, Mapping) and hasattr(type(output), which):
        return getattr(output, which)
    if isinstance(which, str) and not isinstance(output, Mapping) and which in getattr(output, "__dict__", {}):
        return getattr(output, which)
    return output[which]  # type: ignore[index]


def _found(output: object, which: str | int | None, network: str) -> str | int | None:
    """The key or index of the logits; None if the output is the tensor itself."""
    entries = _entries(output)
    if which is not None and isinstance(output, (tuple, list)) and str(which).lstrip("-").isdigit():
        which = int(which)
        which = which if which >= 0 else len(output) + which
    tensors = [name for name, value in entries.items() if isinstance(value, Tensor)]
    listed = ", ".join(map(str, tensors)) or "none"
    if which is not None:
        if which in tensors:
            return which
        if not entries and isinstance(output, Tensor):
            raise ValueError(f"{network} returns one tensor, so logits={which!r} does nothing. Leave it out.")
        raise ValueError(f"{network} returns no tensor {which!r}. Its tensors: {listed}.")
    if USUAL in tensors:
        return USUAL
    if len(tensors) == 1:
        return tensors[0]
    kind = type(output).__name__.removeprefix("immutable_")  # torch.fx's own lists and dicts
    raise ValueError(
        f"{network} returns {kind}, not one tensor, and which of its tensors ({listed}) holds the logits is not known. Say "
        "so: --logits NAME (logits=... in Python; of a tuple the place, from 0)."
    )


def _entries(output: object) -> dict[str | int, Any]:
    """The outputs by name or index."""
    if isinstance(output, Mapping):
        return dict(output)
    if isinstance(output, tuple) and hasattr(output, "_fields"):
        return {name: getattr(output, name) for name in getattr(output, "_fields")}  # noqa: B009 - pyright does not know it
    if isinstance(output, (tuple, list)):
        return dict(enumerate(output))
    return dict(getattr(output, "__dict__", {})) if not isinstance(output, Tensor) else {}
