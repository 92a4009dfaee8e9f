"""Groups of neurons and the tensor entries that belong to them, as data; permuted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ...system.duplicates import duplicate


@dataclass(frozen=True, eq=False)
class TensorPart:
    """The entries of one tensor of the state dict that belong to a group's neurons."""

    name: str
    """Name of the tensor"""
    axis: int
    """Neuron axis"""
    index: Tensor
    """(width, copies) positions of each neuron on the axis; several copies if a flattened convolution is read"""
    kind: str
    """"out": rows that make the neurons; "in": columns that read them; "vector": one number or more per neuron"""
    tied: bool = False
    """Whether one layer makes the neurons with this tensor and another reads them with it"""


@dataclass(frozen=True, eq=False)
class Point:
    """Where to record a group while the network runs."""

    node: str
    after: str
    """The activation function after the node, or the node itself"""
    axis: int
    index: Tensor
    """(width, copies) positions on the axis"""
    part: str
    """"output"; "in_proj" or "out_proj" inside an attention module"""


@dataclass(frozen=True, eq=False)
class Group:
    """Neurons that are permuted among themselves."""

    name: str
    """The module that makes them, the first one for a residual stream"""
    kind: str
    """Type of that module, for tables"""
    width: int
    parts: tuple[TensorPart, ...]
    points: tuple[Point, ...]
    fixed: bool = False
    """True for the classes: class c stays class c"""


def tensors(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter and buffer, detached, under its first name."""
    return {name: tensor.detach() for name, tensor in (*model.named_parameters(), *model.named_buffers())}


@torch.no_grad()
def reordered(model: nn.Module, groups: Sequence[Group], orders: Mapping[str, Tensor]) -> nn.Module:
    """A copy with the same function and, in each group, neuron orders[group][i] at position i."""
    moved, copies = reordered_tensors(tensors(model), groups, orders), dict[int, Tensor]()
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        own = moved[name].clone() if moved[name].data_ptr() == tensor.data_ptr() else moved[name]
        is_parameter = isinstance(tensor, nn.Parameter)
        copies[id(tensor)] = nn.Parameter(own, tensor.requires_grad) if is_parameter else own
    return duplicate(model, dict(copies))  # each tensor is copied once, in its new order


def reordered_tensors(
    state: Mapping[str, Tensor],
    groups: Sequence[Any],
    orders: Mapping[str, Tensor],
    skip: tuple[str, int] | None = None,
) -> dict[str, Tensor]:
    """Permute the neurons of groups, whose parts have a name, an axis and an index, in the given tensors (a state or part of
    one), leaving the axis `skip`."""
    new, lines = dict(state), dict[tuple[str, int], Tensor]()
    for group in groups:
        for part in group.parts if group.name in orders else ():
            key = (part.name, part.axis)
            if part.name in new and key != skip:
                line = lines.setdefault(key, torch.arange(new[part.name].shape[part.axis]))
                line[part.index] = part.index[orders[group.name].cpu()]
    if not lines:
        return new
    together = torch.cat(list(lines.values())).to(next(iter(new.values())).device)  # one copy: each one to a GPU waits
    for (name, axis), line in zip(lines, together.split([len(line) for line in lines.values()]), strict=True):
        new[name] = new[name].index_select(axis, line)
    return new
