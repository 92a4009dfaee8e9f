"""Find the logits among a network's outputs, and check that outputs are class scores.

Dicts, tuples and objects may hold logits among other outputs. Class scores are one row per sample with a column per class.
"""

import warnings
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from ..system.refusals import Cure, Notice, Refusal
from ..system.registry import first_line
from .copies import tried
from .inputs import Inputs, count_of, in_words, rows_of

#: The key or field that is taken by default.
USUAL = "logits"
#: Rounding of a row of probabilities, in total; samples that are run to tell them from logits.
TOTAL, SEVERAL = 1e-3, 16


#: Key, field or place of an output, or of several that are all fused.
Which = str | int | list[str | int] | tuple[str | int, ...]


class Several(tuple[Tensor, ...]):
    """Outputs of a network that are all fused."""

    __slots__ = ()


@dataclass(frozen=True)
class OneOutput:
    """A forward hook by which a network returns one of its outputs (or some), or the logarithms of its probabilities."""

    which: Which | None
    """None: the network returns one tensor"""
    probabilities: bool = False
    """Whether these are its outputs, whose logarithms are logits"""
    added: bool = False
    """Whether a task added it: results come without it"""

    def __call__(self, network: nn.Module, args: object, output: object) -> Any:
        logits = _output_at(output, self.which)
        return logs(logits) if self.probabilities else logits


def one_output(model: nn.Module) -> OneOutput | None:
    """The hook of a network that returns one of its outputs, else None."""
    return next((hook for hook in model._forward_hooks.values() if isinstance(hook, OneOutput)), None)


def _hooked(model: nn.Module, hook: OneOutput) -> nn.Module:
    """The network with a hook, which shares everything else with it."""
    hooked = object.__new__(type(model))
    vars(hooked).update(vars(model), _forward_hooks=model._forward_hooks.copy())
    hooked.register_forward_hook(hook)
    return hooked


def as_given(model: nn.Module) -> nn.Module:
    """The network of a result, which returns what the parents return, without the hook that a task added."""
    hooks = model._forward_hooks
    for key in [key for key, hook in hooks.items() if isinstance(hook, OneOutput) and hook.added]:
        del hooks[key]
    return model


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
    """Warn (`Notice`) of layers that lead to other outputs alone: they do not fit the fused neurons that they read.

    Args:
        model: the network whose weights the fused network starts from.
        read: names of the parameters that lead to the output which is fused.
    """
    left = dict.fromkeys(name.rpartition(".")[0] or name for name, _ in model.named_parameters() if name not in read)
    names, chosen = [repr(name) for name in left], one_output(model)
    if chosen is not None and chosen.which is not None and names:
        more = f" and {len(names) - 3} more" if len(names) > 3 else ""
        warnings.warn(
            Notice(
                f"only the output {chosen.which!r} is fused. {', '.join(names[:3])}{more} lead to other outputs alone and are "
                "not fused: they read neurons that have changed. Do not use these outputs, or train the layers anew."
            ),
            stacklevel=3,
        )


def giving_logits(model: nn.Module, which: Which) -> nn.Module:
    """A network that returns only one of the outputs of another, with which it shares everything.

    Args:
        which: a key of the dict, a field of the object, or an index into the tuple that it returns; or some of them.
    """
    return _hooked(model, OneOutput(which))


def as_classifier(
    model: nn.Module, example: Inputs, which: Which | None = None, network: str = "", *, added: bool = False
) -> nn.Module:
    """The network, if necessary with a hook by which it returns only the logits: those of a network that returns probabilities
    are their logarithms.

    Args:
        example: samples; the first one is run, and a few more if its outputs look like probabilities.
        which: see `giving_logits`; None: the entry named logits, or the only tensor.
        network: its name, to start the error message.
        added: see `OneOutput`.
    Raises:
        ValueError: it does not run on the sample, there are several outputs to choose from, or no such output.
    """
    which = None if one_output(model) else which
    network, one = network or type(model).__name__, rows_of(example, slice(1))
    output = tried(model, one)
    if isinstance(output, Exception):
        raise does_not_run(network, one, output) from output
    chosen: Which | None = None
    if isinstance(which, (list, tuple)):
        chosen = tuple(_place_of(output, each, network) for each in which)
    elif which is not None or not isinstance(output, (Tensor, Several)):
        chosen = _place_of(output, which, network)
    logits = _output_at(output, chosen)
    giving = model if chosen is None else _hooked(model, OneOutput(chosen, added=added))
    if are_probabilities(logits) and are_probabilities(tried(giving, rows_of(example, slice(SEVERAL)))):
        say_probabilities(network)
        return _hooked(model, OneOutput(chosen, probabilities=True, added=added))
    return giving


def check_alone(model: nn.Module, two: Inputs, network: str) -> None:
    """Refuse a network whose output for the first of two samples depends on whether the other shares its batch."""
    one = rows_of(two, slice(1))
    logits = tried(model, one)

    def differ(other: Any) -> bool:
        return isinstance(other, Tensor) and not torch.allclose(
            other[:1], logits, 1e-2, 1e-3 * logits.abs().max().item()
        )

    if count_of(two) > 1 and isinstance(logits, Tensor) and len(logits) == 1 and logits.isfinite().all():
        together = tried(model, two)
        if isinstance(together, Tensor) and len(together) == 2 and differ(together):
            if differ(tried(model, one)):
                return  # it is random
            raise ValueError(
                f"{network}: its output for a sample depends on the other samples of the batch, as after x - x.mean(0), so there "
                "is no one function to fuse. Let it use numbers that training kept, as BatchNorm does in evaluation mode."
            )


def does_not_run(network: str, inputs: Inputs, error: Exception) -> ValueError:
    """The refusal of a network that does not run on samples."""
    reason = first_line(error)
    if not isinstance(inputs, Tensor):
        return ValueError(
            f"{network} does not run on the tensors of the data, {in_words(inputs)}: {reason}. Name them as its forward does, "
            "and leave out what it does not take."
        )
    if not inputs.dtype.is_floating_point:
        return ValueError(
            f"{network} does not run on these data, which are {inputs.dtype}, not floating-point: {reason}. Normalise them as "
            "its training did."
        )
    return ValueError(
        f"{network} does not run on an input of shape {tuple(inputs.shape)}: {reason}. Pass data of the shape that "
        "it was trained on; several inputs are a dict, or ((first, second), targets)."
    )


def answers(model: nn.Module, inputs: Inputs) -> Tensor | None:
    """The logits for samples; None if the network does not run on them, or which output holds them is not known."""
    output = tried(model, inputs)
    with suppress(ValueError):
        return None if isinstance(output, Exception) else logits_in(output)
    return None


def logits_in(output: object, network: str = "the network", which: str | int | None = None) -> Tensor:
    """The logits among a network's outputs.

    Args:
        network: its name, to start the error message.
        which: see `giving_logits`; None: the entry named logits, or the only tensor.
    Raises:
        ValueError: as in `as_classifier`.
    """
    if isinstance(output, Tensor) and which is None:
        return output
    if isinstance(output, Several):
        raise ValueError(
            f"{network} gives {len(output)} outputs, of which one is read here. Name one, or use HF- or KF-Linear."
        )
    return _entries(output)[_place_of(output, which, network)]


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


def _output_at(output: object, which: Which | None) -> Any:
    """What is chosen of an output."""
    if isinstance(which, (list, tuple)):
        return Several(_entries(output)[each] for each in which)
    return output if which is None else _entries(output)[which]


def _place_of(output: object, which: str | int | None, network: str) -> str | int:
    """The key or index of the logits."""
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
    kind = type(output).__name__
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
