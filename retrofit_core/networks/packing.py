"""Batches of several tensors, and of whole numbers, as one tensor of floating-point numbers.

Every method hands one such tensor through networks. A dict, a tuple or integer tokens are packed into one, and a network is
given a forward that takes them out again: its own code sees what it is used to. Whole numbers up to 2^24 are exact in float32.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from ..system.labels import why_no_labels
from ..system.registry import first_line
from .training_flags import evaluating
from .wrappers import Wrapper, class_name, wrapper_of

#: What a network is run on: a tensor (B, ...), or several by keyword or in order.
Inputs = Tensor | Mapping[str, Tensor] | tuple[Tensor, ...]
#: The largest whole number up to which float32 holds all of them.
LARGEST = 1 << 24


@dataclass(frozen=True)
class Packing:
    """How the tensors of a sample lie side by side in a row of numbers."""

    names: tuple[str, ...]
    """Keywords of the network's forward; empty: the tensors are handed over in order"""
    shapes: tuple[tuple[int, ...], ...]
    """Of a sample's tensors"""
    dtypes: tuple[torch.dtype, ...]
    """Those of whole numbers and truth values are given back; floating-point numbers have the network's precision"""

    @property
    def is_alone(self) -> bool:
        """Whether there is one tensor, which keeps its shape."""
        return len(self.shapes) == 1

    @property
    def whole(self) -> Tensor | None:
        """Which numbers of a packed sample are whole, (K,), or one flag for a tensor alone; None where none are."""
        flags = [not dtype.is_floating_point for dtype in self.dtypes]
        if not any(flags):
            return None
        sizes = [1] if self.is_alone else [prod(shape) for shape in self.shapes]
        return torch.tensor(flags).repeat_interleave(torch.tensor(sizes))

    def pack(self, inputs: Inputs) -> Tensor:
        """(B, K) numbers in float32, or float64 where the floating-point ones are; one tensor alone keeps its shape.

        Raises:
            ValueError: other tensors than those of this packing, or whole numbers that float32 does not hold.
        """
        if isinstance(inputs, Mapping) and self.names and set(inputs) == set(self.names):
            inputs = {name: inputs[name] for name in self.names}
        tensors = tensors_of(inputs)
        names = tuple(inputs) if isinstance(inputs, Mapping) else ()
        if names != self.names or tuple(tuple(tensor.shape[1:]) for tensor in tensors) != self.shapes:
            raise ValueError(
                f"these inputs are {said(inputs)}; the fusion data are {self._said()}. Pass the same tensors everywhere."
                f"{_or_labels(inputs)}"
            )
        for tensor in tensors:
            _check_whole(tensor)
        kinds = [tensor.dtype for tensor in tensors if tensor.dtype.is_floating_point]
        dtype = torch.float64 if torch.float64 in kinds else torch.float32
        if self.is_alone:
            return tensors[0].to(dtype)
        return torch.cat([tensor.flatten(1).to(dtype) for tensor in tensors], 1)

    def unpack(self, packed: Tensor) -> tuple[list[Tensor], dict[str, Tensor]]:
        """The arguments and keywords of a network's forward."""
        tensors, start = [], 0
        for shape, dtype in zip(self.shapes, self.dtypes, strict=True):
            tensor = packed
            if not self.is_alone:
                tensor, start = packed[:, start : start + prod(shape)], start + prod(shape)
                tensor = tensor.unflatten(1, shape) if len(shape) > 1 else tensor.flatten(1)
                tensor = tensor if shape else tensor[:, 0]
            tensors.append(tensor if dtype.is_floating_point else tensor.to(dtype))
        return ([], dict(zip(self.names, tensors, strict=True))) if self.names else (tensors, {})

    def _said(self) -> str:
        return _listed(self.names, self.shapes, self.dtypes)


def _check_whole(tensor: Tensor) -> None:
    """Refuse whole numbers that become others in float32."""
    if tensor.dtype.is_floating_point or tensor.dtype == torch.bool or not tensor.numel():
        return
    least, most = tensor.min().item(), tensor.max().item()
    if max(-least, most) > LARGEST:
        raise ValueError(
            f"the inputs hold whole numbers up to {max(-least, most)}, and methods pass them through networks as "
            f"float32, which is exact only up to 2^24 = {LARGEST}. Renumber them first, from 0 to their count "
            "(torch.unique), "
            "or move what the networks do first, such as ids % buckets, out of them into the data."
        )


def packing_of(inputs: Inputs) -> Packing | None:
    """How to pack these inputs; None for one tensor of floating-point numbers, which every method takes as it is."""
    if isinstance(inputs, Tensor) and inputs.dtype.is_floating_point:
        return None
    tensors = tensors_of(inputs)
    shapes = tuple(tuple(tensor.shape[1:]) for tensor in tensors)
    return Packing(
        tuple(inputs) if isinstance(inputs, Mapping) else (),
        shapes,
        tuple(torch.float32 if tensor.dtype.is_floating_point else tensor.dtype for tensor in tensors),
    )


def packing_for(models: Sequence[nn.Module], inputs: Inputs) -> Packing | None:
    """How to pack these inputs for these networks; None where they take one tensor of floating-point numbers.

    Raises:
        ValueError: several tensors that a network's forward does not take, or labels of a form that is taken for an input.
    """
    packing = packing_of(inputs)
    if packing is None or any(wrapper_of(model, TakingPacked) for model in models):
        return None
    for index, model in enumerate(models):
        error = _why_not(model, inputs)
        _refuse_labels(model, inputs, f"parent {index}", taken=error is None)
        if error is not None and isinstance(inputs, Tensor):  # pixels that nobody has normalised: refused as such
            return None
        if error is not None:
            raise ValueError(
                f"parent {index} ({class_name(model)}) does not run on the tensors of the data, {said(inputs)}: "
                f"{first_line(error)}. Name them as its forward does, and leave out what it does not take."
            ) from error
    return packing


def _why_not(model: nn.Module, inputs: Inputs) -> Exception | None:
    """What a network raises on the first of these samples."""
    packing, one = packing_of(inputs), each_of(inputs, lambda tensor: tensor[:1])
    parameter = next(model.parameters(), None)
    sample = packed(one, packing).to(_place(model))
    if packing is None and parameter is not None and parameter.dtype.is_floating_point:
        sample = sample.to(parameter.dtype)
    try:
        with torch.no_grad(), evaluating(model):
            taking(model, packing)(sample)
    except torch.OutOfMemoryError:
        raise
    except Exception as error:  # whatever the network's own code raises
        return error
    return None


def _refuse_labels(model: nn.Module, inputs: Inputs, network: str, *, taken: bool) -> None:
    """Refuse a last tensor that is no input of a network but labels in another form than one whole number for each sample.

    Args:
        taken: whether the network runs on all tensors: then only what looks like labels is doubted, (n, 1) or one-hot.
    Raises:
        ValueError: says what to pass.
    """
    if not isinstance(inputs, tuple) or len(inputs) < 2:
        return
    *others, last = inputs
    why = why_no_labels(last)
    if (
        why is None
        or (taken and "Pass" not in why)
        or _why_not(model, others[0] if len(others) == 1 else tuple(others))
    ):
        return
    also = " Where it is an input, name it: pass a dict with the names of forward's arguments." if taken else ""
    raise ValueError(f"{network} ({class_name(model)}) runs without the last tensor of the data: {why}{also}")


def _place(model: nn.Module) -> torch.device:
    return next((parameter.device for parameter in model.parameters()), torch.device("cpu"))


def packed(inputs: Inputs, packing: Packing | None) -> Tensor:
    """The inputs as one tensor.

    Raises:
        ValueError: they do not fit the packing.
    """
    if packing is not None:
        return packing.pack(inputs)
    if isinstance(inputs, Tensor):
        return inputs
    raise ValueError(
        f"these inputs are {said(inputs)}; the fusion data are one tensor. Pass the same everywhere.{_or_labels(inputs)}"
    )


def _or_labels(inputs: Inputs) -> str:
    """What helps where the last tensor should have been labels."""
    why = why_no_labels(inputs[-1]) if isinstance(inputs, tuple) and len(inputs) > 1 else None
    return f" If the last of them should be labels: {why}" if why else ""


def each_of(inputs: Inputs, change: Callable[[Tensor], Tensor]) -> Inputs:
    """A batch with each of its tensors changed."""
    if isinstance(inputs, Tensor):
        return change(inputs)
    if isinstance(inputs, Mapping):
        return {name: change(tensor) for name, tensor in inputs.items()}
    return tuple(change(tensor) for tensor in inputs)


def said(inputs: Inputs) -> str:
    """The tensors of a batch in words."""
    tensors = tensors_of(inputs)
    names = tuple(inputs) if isinstance(inputs, Mapping) else ()
    return _listed(names, [tensor.shape[1:] for tensor in tensors], [tensor.dtype for tensor in tensors])


class TakingPacked(Wrapper):
    """A network that takes packed samples."""

    takes_its_own = True
    packing: Packing

    def __init__(self, network: nn.Module, packing: Packing) -> None:
        super().__init__(network)
        vars(self)["packing"] = packing

    def forward(self, packed: Tensor) -> Any:
        """What the network makes of samples (B, K)."""
        args, kwargs = self.packing.unpack(packed)
        return super().forward(*args, **kwargs)


def taking(model: nn.Module, packing: Packing | None) -> nn.Module:
    """The same network, weights and all, whose forward takes packed samples; itself where it does already."""
    return model if packing is None or wrapper_of(model, TakingPacked) else TakingPacked(model, packing)


def taking_batches(model: nn.Module, packing: Packing | None) -> nn.Module:
    """The network of a result, as its user calls it: with its own forward, or with one that packs (ensembles)."""
    if packing is None:
        return model
    taking_packed = wrapper_of(model, TakingPacked)
    return Packed(model, packing) if taking_packed is None else taking_packed.network


class Packed(nn.Module):
    """A network of several networks that takes packed samples, called as its parts are called."""

    def __init__(self, model: nn.Module, packing: Packing) -> None:
        super().__init__()
        self.model, self.inputs = model, packing

    def forward(self, *args: Tensor, **kwargs: Tensor) -> Tensor:
        if len(args) == 1 and not kwargs:
            (first,) = args
            return self.model(self.inputs.pack(first))
        named = dict(zip(self.inputs.names, args, strict=False)) | kwargs
        return self.model(self.inputs.pack(named or args))


def tensors_of(inputs: Inputs) -> list[Tensor]:
    """The tensors of a batch, in order."""
    if isinstance(inputs, Tensor):
        return [inputs]
    return list(inputs.values()) if isinstance(inputs, Mapping) else list(inputs)


def _listed(names: Sequence[str], shapes: Sequence[Sequence[int]], dtypes: Sequence[torch.dtype]) -> str:
    words = [
        f"{'x'.join(map(str, shape)) or 'one number'} {str(dtype).removeprefix('torch.')}"
        for shape, dtype in zip(shapes, dtypes, strict=True)
    ]
    return ", ".join(f"{name} ({word})" for name, word in zip(names, words, strict=True)) if names else ", ".join(words)
