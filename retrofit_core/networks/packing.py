"""Pack batches of several tensors or of integers into one floating-point tensor.

Every method passes one such tensor through networks. A dict, a tuple or integer tokens are packed, and a wrapper unpacks them
for the network's own forward. Integers up to 2^24 are exact in float32.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from ..system.registry import first_line
from .composites import Ensemble
from .copies import fed, tried
from .wrappers import Wrapper, class_name, wrapper_of

#: A network's inputs: a tensor (B, ...), or several by keyword or position.
Inputs = Tensor | Mapping[str, Tensor] | tuple[Tensor, ...]
#: float32 represents all integers up to this one.
LARGEST = 1 << 24


@dataclass(frozen=True)
class Packing:
    """How the tensors of a sample are laid out in one row of numbers."""

    names: tuple[str, ...]
    """Keywords of the network's forward; empty: positional arguments"""
    shapes: tuple[tuple[int, ...], ...]
    """Shapes of a sample's tensors"""
    dtypes: tuple[torch.dtype, ...]
    """Integers and booleans are converted back; floating-point numbers have the network's precision"""

    @property
    def is_alone(self) -> bool:
        """Whether there is one tensor of several numbers a sample, which keeps its shape."""
        return len(self.shapes) == 1 and self.shapes[0] != ()

    @property
    def whole(self) -> Tensor | None:
        """Which numbers of a packed sample are integers, (K,), or one flag for a single tensor; None if none are."""
        flags = [not dtype.is_floating_point for dtype in self.dtypes]
        if not any(flags):
            return None
        sizes = [1] if self.is_alone else [prod(shape) for shape in self.shapes]
        return torch.tensor(flags).repeat_interleave(torch.tensor(sizes))

    def pack(self, inputs: Inputs) -> Tensor:
        """(B, K) in float32, or float64 if an input is; a single tensor (B, ...) keeps its shape.

        Raises:
            ValueError: the tensors do not match this packing, or integers are too large for float32.
        """
        if isinstance(inputs, Mapping) and self.names and set(inputs) == set(self.names):
            inputs = {name: inputs[name] for name in self.names}
        tensors = tensors_of(inputs)
        names = tuple(inputs) if isinstance(inputs, Mapping) else ()
        if names != self.names or tuple(tuple(tensor.shape[1:]) for tensor in tensors) != self.shapes:
            raise ValueError(
                f"these inputs are {said(inputs)}; the fusion data are {_listed(self.names, self.shapes, self.dtypes)}. "
                "Pass the same tensors everywhere."
            )
        for tensor in tensors:
            _check_whole(tensor)
        kinds = [tensor.dtype for tensor in tensors if tensor.dtype.is_floating_point]
        dtype = torch.float64 if torch.float64 in kinds else torch.float32
        if self.is_alone:
            return tensors[0].to(dtype)
        return torch.cat([tensor[:, None].flatten(1).to(dtype) for tensor in tensors], 1)  # (B,) has one number

    def unpack(self, packed: Tensor) -> tuple[list[Tensor], dict[str, Tensor]]:
        """The positional and keyword arguments of a network's forward."""
        tensors, start = [], 0
        for shape, dtype in zip(self.shapes, self.dtypes, strict=True):
            tensor = packed
            if not self.is_alone:
                tensor, start = packed[:, start : start + prod(shape)], start + prod(shape)
                tensor = tensor.unflatten(1, shape) if len(shape) > 1 else tensor.flatten(1)
                tensor = tensor if shape else tensor[:, 0]
            tensors.append(tensor if dtype.is_floating_point else tensor.to(dtype))
        return ([], dict(zip(self.names, tensors, strict=True))) if self.names else (tensors, {})

    def tokens(self, packed: Tensor) -> Tensor | None:
        """(B, T) which tokens are not padding, by the input `attention_mask` (B, T) of zeros and ones.

        None if there is no such input, all are the same, or a decoder reads tokens of its own.
        """
        if "attention_mask" not in self.names or any(name.startswith("decoder") for name in self.names):
            return None
        mask = self.unpack(packed)[1]["attention_mask"]
        if mask.ndim != 2 or not ((mask == 0) | (mask == 1)).all() or (mask == mask[:1, :1]).all():
            return None
        return mask == 1


def _check_whole(tensor: Tensor) -> None:
    """Refuse integers that float32 cannot represent."""
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
    """How to pack these inputs; None for one floating-point tensor (B, ...), which every method takes as it is."""
    if isinstance(inputs, Tensor) and inputs.dtype.is_floating_point and (inputs.ndim > 1 or not len(inputs)):
        return None
    tensors = tensors_of(inputs)
    shapes = tuple(tuple(tensor.shape[1:]) for tensor in tensors)
    return Packing(
        tuple(inputs) if isinstance(inputs, Mapping) else (),
        shapes,
        tuple(torch.float32 if tensor.dtype.is_floating_point else tensor.dtype for tensor in tensors),
    )


def packing_for(models: Sequence[nn.Module], inputs: Inputs) -> Packing | None:
    """How to pack these inputs for these networks; None for one floating-point tensor, or if a network already unpacks.

    Raises:
        ValueError: a network's forward does not take these tensors.
    """
    packing = packing_of(inputs)
    if packing is None or any(wrapper_of(model, TakingPacked) for model in models):
        return None
    for index, model in enumerate(models):
        error = _tried(model, inputs)
        if not isinstance(error, Exception):
            continue
        if isinstance(inputs, Tensor):  # unnormalised pixels: refused later as such
            return None
        raise ValueError(
            f"parent {index} ({class_name(model)}) does not run on the tensors of the data, {said(inputs)}: "
            f"{first_line(error)}. Name them as its forward does, and leave out what it does not take."
        ) from error
    return packing


def _tried(model: nn.Module, inputs: Inputs) -> Any:
    """What a network returns for the first of these samples, or the exception that it raises."""
    packing, one = packing_of(inputs), each_of(inputs, lambda tensor: tensor[:1])
    return tried(taking(model, packing), fed(model, packed(one, packing)))


def packed(inputs: Inputs, packing: Packing | None) -> Tensor:
    """The inputs as one tensor.

    Raises:
        ValueError: they do not match the packing.
    """
    if packing is not None:
        return packing.pack(inputs)
    if isinstance(inputs, Tensor):
        return inputs
    raise ValueError(f"these inputs are {said(inputs)}; the fusion data are one tensor. Pass the same everywhere.")


def each_of(inputs: Inputs, change: Callable[[Tensor], Tensor]) -> Inputs:
    """Apply a function to each tensor of a batch."""
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
        """Run the network on packed samples (B, K)."""
        args, kwargs = self.packing.unpack(packed)
        return super().forward(*args, **kwargs)


def taking(model: nn.Module, packing: Packing | None) -> nn.Module:
    """The network, wrapped to take packed samples unless it already does."""
    return model if packing is None or wrapper_of(model, TakingPacked) else TakingPacked(model, packing)


def added(wrapped: nn.Module, network: nn.Module) -> nn.Module:
    """A wrapped network, whose wrappers around `network` are noted as ours, see `as_given`."""
    inside = wrapped
    while inside is not network and isinstance(inside, Wrapper):
        vars(inside)["is_added"] = True
        inside = inside.wrapped
    return wrapped


def as_given(model: nn.Module, packing: Packing | None) -> nn.Module:
    """The network of a result as users gave the parents, without the wrappers that a task added; an ensemble, which has no
    parent's class, takes what they take."""
    if packing is not None and isinstance(model, Ensemble):
        return Packed(model, packing)
    while vars(model).get("is_added"):
        model = vars(model)["wrapped"]
    return model


class Packed(nn.Module):
    """A network of several networks on packed samples, callable with the unpacked inputs of its parts."""

    def __init__(self, model: nn.Module, packing: Packing) -> None:
        super().__init__()
        self.model, self.inputs = model, packing

    def forward(self, *args: Tensor, **kwargs: Tensor) -> Tensor:
        named = dict(zip(self.inputs.names, args, strict=False)) | kwargs
        whole = len(args) == 1 and not kwargs and not (named and isinstance(args[0], Tensor))
        return self.model(self.inputs.pack(args[0] if whole else named or args))


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
