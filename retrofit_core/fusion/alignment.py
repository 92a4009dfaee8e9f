"""Maps from the parents' neurons to those of a fused network, and the parents reordered by them.

Legend: parent k has n_k neurons in a group and the fused network d; T (n_k, d) makes fused neurons from the parent's, and
U (n_k, d) maps the parent's outgoing weights to fused neurons.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from ..networks.symmetry import Group, mapped, tensors
from ..system.device import on_device
from ..system.duplicates import duplicate


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

    def permutation(self, k: int) -> Tensor | None:
        """(d,) the neuron of parent k at each position of the fused network; None if the map is no permutation."""
        labels = self.labels[k]
        if self.soft is not None and not all(_is_permutation(matrix) for matrix in self.soft[k]):
            return None
        if not torch.equal(labels.sort().values, torch.arange(self.width, device=labels.device)):
            return None
        return labels.argsort()

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

    def __getitem__(self, name: str) -> AlignedGroup:
        """The group of this name.

        Raises:
            KeyError: no such group.
        """
        return {group.name: group for group in self.groups}[name]

    @torch.no_grad()
    def state(self, k: int) -> dict[str, Tensor]:
        """Parent k's parameters and buffers in the order of the fused network."""
        maps = {group.name: group.maps(k) for group in self.groups}
        return mapped(tensors(self.networks[k]), tensors(self.fused), self.neurons[k], self.targets, maps)

    @torch.no_grad()
    def parent(self, k: int) -> nn.Module:
        """Parent k with its neurons in the order of the fused network, in evaluation mode.

        One-to-one maps keep its function. With uniform importance, the mean of all parents weighted by `shares` is the fused
        network before REPAIR, new BatchNorm statistics or a fit.
        """
        network = duplicate(self.fused).eval()
        state = self.state(k)
        for name, tensor in tensors(network).items():
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


def _is_permutation(matrix: Tensor) -> bool:
    """Whether a map is a permutation, up to rounding."""
    ones = (matrix - 1).abs() < 1e-9
    return bool((ones | (matrix.abs() < 1e-9)).all() and (ones.sum(0) == 1).all() and (ones.sum(1) == 1).all())
