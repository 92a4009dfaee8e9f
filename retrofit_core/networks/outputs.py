"""Find the logits among a network's outputs, and check that outputs are class scores.

Dicts, tuples and objects may hold logits among other outputs. Class scores are one row per sample with a column per class.
"""

import warnings
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from ..system.refusals import Cure, Notice, Refusal
from ..system.registry import first_line
from .copies import fed, tried
from .wrappers import Wrapper, class_name, wrapper_of

#: The key or field that is taken by default.
USUAL = "logits"
#: Rounding of a row of probabilities, in total; samples that are run to tell them from logits.
TOTAL, SEVERAL = 1e-3, 16


class GivingLogits(Wrapper):
    """A network that returns only one of its outputs."""

    which: str | int

    def __init__(self, network: nn.Module, which: str | int) -> None:
        super().__init__(network)
        vars(self)["which"] = which

    def forward(self, *args: object, **kwargs: object) -> Any:
        """The chosen output, usually logits (B, classes)."""
        return _entry(super().forward(*args, **kwargs), self.which)


class GivingLogs(Wrapper):
    """A network that returns the logarithms of its probabilities, which are logits."""

    def forward(self, *args: object, **kwargs: object) -> Any:
        """Log-probabilities (B, classes)."""
        return logs(super().forward(*args, **kwargs))


def logs(probabilities: Tensor) -> Tensor:
    """Logarithms, finite also of zero."""
    return probabilities.clamp_min(torch.finfo(probabilities.dtype).tiny).log()


def are_probabilities(outputs: object) -> bool:
    """Whether outputs (B, classes) are probabilities: not negative, and one in total for each sample."""
    if not (isinstance(outputs, Tensor) and outputs.is_floating_point() and outputs.ndim == 2 and outputs.shape[1] > 1):
        return False
    return bool(len(outputs) and (outputs >= 0).all() and (outputs.sum(1) - 1).abs().max() < TOTAL)


def say_probabilities(network: str) -> None:
    """Tell (`Notice`) that a network returns probabilities."""
    notice = f"{network} returns probabilities (each row sums to 1): their logarithms are taken as logits."
    warnings.warn(Notice(notice), stacklevel=3)


def say_what_is_left(model: nn.Module, read: Container[str]) -> None:
    """Warn (`Notice`) of layers that lead to other outputs alone, see `say_left`.

    Args:
        model: the network whose weights the fused network starts from.
        read: names of the parameters that lead to the output which is fused.
    """
    say_left(model, [name.rpartition(".")[0] or name for name, _ in model.named_parameters() if name not in read])


def say_left(model: nn.Module, layers: Iterable[str]) -> None:
    """Warn (`Notice`) that layers of a network of which one output is fused are left: they do not fit the fused neurons that they
    read."""
    chosen, names = wrapper_of(model, GivingLogits), [repr(name) for name in dict.fromkeys(layers)]
    if chosen is not None and names:
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        warnings.warn(
            Notice(
                f"only the output {chosen.which!r} is fused. {', '.join(names[:3])}{more} lead to other outputs alone and are "
                "not fused: they read neurons that have changed. Do not use these outputs, or train the layers anew."
            ),
            stacklevel=3,
        )


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
    """Wrap a network, if necessary, so that it returns only the logits and does not write into its input. Logits of a network
    that returns probabilities are their logarithms.

    A network that writes into its input (`x -= mean`) gets a copy, because others read that input too.

    Args:
        example: (B, ...) input; the first sample is run, and a few more if its outputs look like probabilities.
        which: see `giving_logits`; None: the entry named logits, or the only tensor.
        network: its name, to start the error message.
    Raises:
        ValueError: several outputs to choose from, or no such output.
    """
    which = None if wrapper_of(model, GivingLogits) else which
    with torch.inference_mode(False):
        sample = fed(model, example[:1])
        before = sample._version
        output = tried(model, sample)
    if isinstance(output, Exception):
        if which is None:
            return model  # the next run reports the error
        raise does_not_run(class_name(model), sample, output) from output
    network = network or class_name(model)
    chosen = None if isinstance(output, Tensor) and which is None else _found(output, which, network)
    if sample._version != before:
        model = CopyingInput(model)
    model = model if chosen is None else giving_logits(model, chosen)
    logits = output if chosen is None else _entry(output, chosen)
    if are_probabilities(logits) and are_probabilities(tried(model, fed(model, example[:SEVERAL]))):
        say_probabilities(network)
        model = GivingLogs(model)
    return model


def check_alone(model: nn.Module, two: Tensor, network: str) -> None:
    """Refuse a network whose output for the first of two samples (2, ...) depends on whether the other shares its batch."""
    logits = tried(model, fed(model, two[:1]))

    def differ(other: Any) -> bool:
        return isinstance(other, Tensor) and not torch.allclose(
            other[:1], logits, 1e-2, 1e-3 * logits.abs().max().item()
        )

    if len(two) > 1 and isinstance(logits, Tensor) and len(logits) == 1 and logits.isfinite().all():
        together = tried(model, fed(model, two))
        if isinstance(together, Tensor) and len(together) == 2 and differ(together):
            if differ(tried(model, fed(model, two[:1]))):
                return  # it is random
            raise ValueError(
                f"{network}: its output for a sample depends on the other samples of the batch, as after x - x.mean(0), so there "
                "is no one function to fuse. Let it use numbers that training kept, as BatchNorm does in evaluation mode."
            )


def does_not_run(network: str, inputs: Tensor, error: Exception) -> ValueError:
    """The refusal of a network that does not run on samples."""
    return ValueError(
        f"{network} does not run on an input of shape {tuple(inputs.shape)}: {first_line(error)}. Pass data of the shape that "
        "it was trained on; several inputs are a dict, or ((first, second), targets)."
    )


def answers(model: nn.Module, inputs: Tensor) -> Tensor | None:
    """The logits for samples (B, ...); None if the network does not run on them, or which output holds them is not known."""
    output = tried(model, fed(model, inputs))
    with suppress(ValueError):
        return None if isinstance(output, Exception) else logits_in(output)
    return None


def logits_in(output: object, network: str = "the network") -> Tensor:
    """The logits among a network's outputs.

    Args:
        network: its name, to start the error message.
    Raises:
        ValueError: as in `as_classifier`.
    """
    if isinstance(output, Tensor):
        return output
    return _entry(output, _found(output, None, network))  # type: ignore[arg-type]


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
        'so: logits=NAME in Python (of a tuple the place, from 0), "logits": NAME in the JSON of --arch.'
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
