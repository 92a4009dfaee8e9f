"""Maps from the parents' neurons to those of a fused network, and the parents reordered by them.

Legend: parent k has n_k neurons in a group and the fused network d; T (n_k, d) makes fused neurons from the parent's, and
U (n_k, d) maps the parent's outgoing weights to fused neurons.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, fx, nn

from ..graph.graph import weights_of
from ..system.device import on_device
from ..system.duplicates import duplicate

#: What a layer does with its neurons.
Role = Literal["makes", "reads", "holds"]


@dataclass(frozen=True, eq=False)
class Part:
    """The entries of one parameter or buffer that belong to a group's neurons."""

    name: str
    axis: int
    """Neuron axis"""
    index: Tensor
    """(width, copies) positions of each neuron on the axis; several copies if a flattened convolution is read"""
    role: Role
    """A layer's rows make neurons, its columns read them; other tensors hold numbers of each"""
    tied: bool = False
    """Whether one layer makes the neurons with this tensor and another reads them with it"""


@dataclass(frozen=True, eq=False)
class Point:
    """Where to record a group while the network runs."""

    node: fx.Node
    after: fx.Node
    """The activation function behind the node, or the node itself"""
    axis: int
    index: Tensor
    """(width, copies) positions on the axis"""


@dataclass(frozen=True, eq=False)
class Group:
    """Neurons of a network that are exchanged among themselves."""

    name: str
    """The module that makes them, the first one for a residual stream"""
    kind: str
    """Type of that module, for tables"""
    width: int
    parts: tuple[Part, ...]
    points: tuple[Point, ...]
    fixed: bool = False
    """True for the classes: class c stays class c"""
    space: int = -1
    """Its number among the network's spaces; -1: the classes"""


#: Group name -> two (source neurons, target neurons) matrices, for tensors that make or hold neurons and those that read them.
Maps = Mapping[str, tuple[Tensor, Tensor]]


@dataclass(frozen=True, eq=False)
class AlignedGroup:
    """One group of neurons in the fused network and all parents."""

    name: str
    width: int
    """d"""
    labels: tuple[Tensor, ...]
    """For each parent (n_k,) int64: the fused neuron that receives each of its neurons, or its largest part"""
    soft: tuple[tuple[Tensor, Tensor], ...] | None = None
    """T and U of each parent, if neurons are split among fused ones; None: each goes into a single one"""

    def maps(self, k: int) -> tuple[Tensor, Tensor]:
        """T and U of parent k, (n_k, d) float64.

        Fused neurons are the mean of T' over n parents, so T holds n times each neuron's share in its fused one: 1 if it
        has n neurons.
        """
        if self.soft is not None:
            return self.soft[k]
        counts = torch.bincount(torch.cat(self.labels), minlength=self.width)
        U = nn.functional.one_hot(self.labels[k], self.width).double()
        return len(self.labels) * U / counts, U

    def on(self, device: torch.device) -> "AlignedGroup":
        """The same on a device."""
        soft = self.soft and tuple((T.to(device), U.to(device)) for T, U in self.soft)
        return replace(self, labels=tuple(labels.to(device) for labels in self.labels), soft=soft)


@dataclass(frozen=True, eq=False)
class Alignment:
    """The neuron groups of a fusion, bottom-up, with a map from each parent to the fused network.

    It may hold the parents themselves: do not change them before using `parent`.
    """

    groups: tuple[AlignedGroup, ...]
    shares: tuple[float, ...]
    """Weight of each parent in the mean; they sum to one"""
    networks: tuple[nn.Module, ...]
    """The parents as aligned: on parent 0's device, with BatchNorm folded if the method folds it"""
    neurons: tuple[Sequence[Group], ...]
    """Their neuron groups"""
    fused: nn.Module
    """A network of the fused widths"""
    targets: Sequence[Group]
    """Its neuron groups"""

    @torch.no_grad()
    def state(self, k: int) -> dict[str, Tensor]:
        """Parent k's parameters and buffers in the order of the fused network."""
        maps = {group.name: group.maps(k) for group in self.groups}
        return mapped(weights_of(self.networks[k]), weights_of(self.fused), self.neurons[k], self.targets, maps)

    @torch.no_grad()
    def parent(self, k: int) -> nn.Module:
        """Parent k with its neurons in the order of the fused network, in evaluation mode.

        One-to-one maps keep its function. With uniform importance, the mean of all parents weighted by `shares` is the fused
        network before REPAIR, new BatchNorm statistics or a fit.
        """
        network = duplicate(self.fused).eval()
        state = self.state(k)
        for name, tensor in weights_of(network).items():
            tensor.copy_(state[name])
        return network

    def parents(self) -> list[nn.Module]:
        """All parents with their neurons in the order of the fused network; see `parent`."""
        return [self.parent(k) for k in range(len(self.networks))]

    def on(self, device: torch.device) -> "Alignment":
        """The same on a device; networks that lie elsewhere are copied."""
        return replace(
            self,
            groups=tuple(group.on(device) for group in self.groups),
            networks=tuple(on_device(network, device) for network in self.networks),
            fused=on_device(self.fused, device),
        )


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
        groups, targets: the groups of both, in the same order.
        maps: by names of the targets' groups; other groups stay as they are.
        skip: (tensor, axis) pairs to leave unmapped.
    """
    pairs: dict[tuple[str, int], list[tuple[Part, Part, Tensor]]] = {}
    for group, target in zip(groups, targets, strict=True):
        for start, end in zip(group.parts, target.parts, strict=True) if target.name in maps else ():
            key, T = (start.name, start.axis), maps[target.name][start.role == "reads"]
            if start.name in source and key not in skip:
                pairs.setdefault(key, []).append((start, end, T))
    state = dict(source)
    for (name, axis), on_axis in pairs.items():
        state[name] = _mapped_axis(state[name], axis, shapes[name].shape[axis], on_axis)
    return state


def _mapped_axis(tensor: Tensor, axis: int, size: int, on_axis: list[tuple[Part, Part, Tensor]]) -> Tensor:
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
