"""Groups of neurons and the tensor entries that belong to them, as data; permuted, or mapped onto those of another network."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

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
class Junction:
    """A sum in a residual stream whose sides have groups of their own (`groups_apart`)."""

    skip: "str | Junction"
    """The side with the shorter path from the input: a group's name, or another sum that nothing else reads"""
    branch: "str | Junction"


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
    junction: Junction | None = None
    """The sum that makes it, if both sides have their own groups"""


def tensors(model: nn.Module) -> dict[str, Tensor]:
    """Every parameter and buffer, detached, under its first name."""
    return {name: tensor.detach() for name, tensor in (*model.named_parameters(), *model.named_buffers())}


#: Group name -> two (source neurons, target neurons) matrices, for tensors that make neurons and those that read them.
Maps = Mapping[str, tuple[Tensor, Tensor]]


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
    groups: Sequence[Group],
    orders: Mapping[str, Tensor],
    skip: tuple[str, int] | None = None,
) -> dict[str, Tensor]:
    """Permute the neurons of groups in the given tensors (a state or part of one), leaving the axis `skip`."""
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


@torch.no_grad()
def mapped(
    source: Mapping[str, Tensor],
    shapes: Mapping[str, Tensor],
    groups: Sequence[Group],
    targets: Sequence[Group],
    maps: Maps,
    skip: Collection[tuple[str, int]] = (),
) -> dict[str, Tensor]:
    """Map the source's tensors to the target's shapes.

    With maps (T, U) of a group, W becomes T' W U along its rows and columns: T makes each target neuron from source
    neurons (columns sum to one: an average), U passes each source neuron's outgoing weights to target neurons.

    Args:
        source: some or all tensors of the source; those outside the groups of `maps` stay as they are.
        shapes: tensors of the target; only their shapes are read.
        groups, targets: the groups of both, in the same order (`matching`).
        maps: by names of the targets' groups; other groups stay as they are.
        skip: (tensor, axis) pairs to leave unmapped.
    """
    pairs: dict[str, dict[int, list[tuple[TensorPart, TensorPart, Tensor]]]] = {}
    for group, target in zip(groups, targets, strict=True):
        for start, end in zip(group.parts, target.parts, strict=True) if target.name in maps else ():
            T = maps[target.name][start.kind == "in"]
            if start.name in source and (end.name, end.axis) not in skip:
                pairs.setdefault(start.name, {}).setdefault(start.axis, []).append((start, end, T))
    state = dict(source)
    for name, axes in pairs.items():
        for axis, on_axis in axes.items():
            state[name] = _mapped_axis(state[name], axis, shapes[name].shape[axis], on_axis)
    return state


def _mapped_axis(tensor: Tensor, axis: int, size: int, on_axis: list[tuple[TensorPart, TensorPart, Tensor]]) -> Tensor:
    """Map one axis, which may hold several groups; copies entries of no group."""
    lines = tensor.movedim(axis, 0)
    result = lines.new_zeros(size, *lines.shape[1:])
    copied, copies = torch.ones(len(lines), dtype=torch.bool), torch.ones(size, dtype=torch.bool)
    for start, end, T in on_axis:
        copied[start.index.flatten()] = False
        copies[end.index.flatten()] = False
        old = lines[start.index.to(lines.device)].flatten(1)  # (source neurons, copies x rest)
        new = T.T.to(lines) @ old
        result[end.index.to(lines.device)] = new.view(len(new), end.index.shape[1], *lines.shape[1:])
    if copied.any():
        result[copies] = lines[copied]
    return result.movedim(0, axis)


def matching(groups: Sequence[Group], targets: Sequence[Group], name: str) -> None:
    """Refuse networks whose groups do not correspond one to one.

    Raises:
        ValueError: names the first difference.
    """
    for group, target in zip(groups, targets, strict=False):
        parts = [(part.name, part.axis, part.index.shape[1]) for part in group.parts]
        target_parts = [(part.name, part.axis, part.index.shape[1]) for part in target.parts]
        if parts != target_parts:
            raise ValueError(
                f"{name}: its neurons at {group.name!r} have no counterpart in the fused network, which has "
                f"{target.name!r} there. Aligned averaging needs networks that differ in widths only; KF methods take others."
            )
        if group.fixed and group.width != target.width:
            raise ValueError(
                f"{name} has {group.width} classes and the fused network {target.width}; class c is fused with class c. "
                "Give all of them the same classes (joined_heads)."
            )
    if len(groups) != len(targets):
        raise ValueError(
            f"{name} has {len(groups)} groups of neurons and the fused network {len(targets)}. Aligned averaging needs "
            "networks that differ in widths only; KF methods take others."
        )


def check_rest(
    source: Mapping[str, Tensor],
    shapes: Mapping[str, Tensor],
    groups: Sequence[Group],
    targets: Sequence[Group],
    name: str,
) -> None:
    """Refuse networks whose tensors differ in more than the neurons of their groups, such as in a layer that is never called.

    Args:
        source, shapes, groups, targets: as for `mapped`.
    Raises:
        ValueError: names the tensor and its axis.
    """
    for key, tensor in source.items():
        shape, other = tuple(tensor.shape), tuple(shapes[key].shape) if key in shapes else None
        if other is None or len(shape) != len(other):
            raise ValueError(
                f"{name} has a tensor {key!r} of shape {shape}, and the fused network {other}. Use KF-Gradient."
            )
        for axis in range(len(shape)):
            if shape[axis] - _held(groups, key, axis) != other[axis] - _held(targets, key, axis):
                raise ValueError(
                    f"{name}: {key!r} has the shape {shape}, and {other} in the fused network, and Retrofit does "
                    f"not know which neurons are along its axis {axis}. Use KF-Gradient, which aligns whole blocks "
                    "by what they compute."
                )


def _held(groups: Sequence[Group], key: str, axis: int) -> int:
    """Number of entries along a tensor's axis that belong to groups."""
    parts = [part.index.flatten() for group in groups for part in group.parts if (part.name, part.axis) == (key, axis)]
    return len(torch.cat(parts).unique()) if parts else 0
