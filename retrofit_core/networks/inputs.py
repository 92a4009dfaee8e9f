"""What networks are called with: a tensor (B, ...), or several of them by name or in order."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

#: A tensor (B, ...), several by position of forward's arguments, or several by their names.
Inputs = Tensor | Sequence[Any] | Mapping[str, Any]


def arguments(inputs: Inputs) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments of a network's forward."""
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    return ((inputs,), {}) if isinstance(inputs, Tensor) else (tuple(inputs), {})


def leaves_of(inputs: Any) -> list[Tensor]:
    """The tensors among what a network is called with, in order."""
    return [leaf for leaf in pytree.tree_leaves(inputs) if isinstance(leaf, Tensor)]


def count_of(inputs: Inputs) -> int:
    """Number of samples."""
    return len(leaves_of(inputs)[0])


def each_of(inputs: Inputs, change: Callable[[Tensor], Tensor]) -> Any:
    """Inputs of the same form, with a function of each tensor."""
    return pytree.tree_map_only(Tensor, change, inputs)


def rows_of(inputs: Inputs, rows: slice | Tensor) -> Any:
    """Some of the samples."""
    return each_of(inputs, lambda tensor: tensor[rows])


def batches_of(inputs: Inputs, size: int) -> list[Any]:
    """The samples in batches."""
    return [rows_of(inputs, slice(start, start + size)) for start in range(0, count_of(inputs), size)]


def moved(inputs: Inputs, device: torch.device | str, dtype: torch.dtype) -> Any:
    """The samples on a device, floating-point tensors in this precision."""
    return each_of(inputs, lambda tensor: tensor.to(device, dtype if tensor.is_floating_point() else None))


def joined(parts: Sequence[Inputs]) -> Any:
    """The samples of several inputs of one form."""
    first, *others = parts
    return pytree.tree_map(lambda *tensors: torch.cat(tensors), first, *others)


def contents(inputs: Inputs) -> Iterator[tuple[bytes, ...]]:
    """What each sample holds, to find equal ones."""
    columns = [leaf.detach().cpu().numpy() for leaf in leaves_of(inputs)]
    return (tuple(entry.tobytes() for entry in sample) for sample in zip(*columns, strict=True))


def like(inputs: Inputs, others: Inputs) -> Any:
    """The inputs in the order of others, with their kinds of integers.

    Raises:
        ValueError: they are other tensors.
    """
    if isinstance(inputs, Mapping) and isinstance(others, Mapping) and inputs.keys() == others.keys():
        inputs = {name: inputs[name] for name in others}
    forms = [(pytree.tree_structure(each), [leaf.shape[1:] for leaf in leaves_of(each)]) for each in (inputs, others)]
    if forms[0] != forms[1]:
        raise ValueError(
            f"these inputs are {in_words(inputs)}; the fusion data are {in_words(others)}. Pass the same tensors everywhere."
        )
    return pytree.tree_map(lambda one, other: one if other.is_floating_point() else one.to(other.dtype), inputs, others)


def in_words(inputs: Inputs) -> str:
    """The tensors, with their names, shapes and types."""
    words = [
        f"{'x'.join(map(str, leaf.shape[1:])) or 'one number'} {str(leaf.dtype).removeprefix('torch.')}"
        for leaf in leaves_of(inputs)
    ]
    named = zip(inputs, words, strict=True) if isinstance(inputs, Mapping) else ()
    return ", ".join([f"{name} ({word})" for name, word in named] or words)
