"""How the parents' neurons map to those of a fused network, and the parents reordered by that map.

Legend: parent k has n_k neurons in a group and the fused network d; T (n_k, d) makes each fused neuron from the parent's,
U (n_k, d) hands the parent's outgoing weights to fused neurons.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..networks.symmetry import Group, mapped, tensors


@dataclass(frozen=True, eq=False)
class AlignedGroup:
    """One group of neurons, as the fused network and all parents have it."""

    name: str
    width: int
    """d"""
    labels: tuple[Tensor, ...]
    """For each parent (n_k,) int64: the fused neuron that receives each of its neurons, or its largest part"""
    soft: tuple[tuple[Tensor, Tensor], ...] | None = None
    """For each parent T and U, where neurons are split among fused ones; None: each goes into one as a whole"""

    def permutation(self, k: int) -> Tensor | None:
        """(d,) the neuron of parent k at each position of the fused network, if the map is a permutation; else None."""
        labels = self.labels[k]
        if self.soft is not None and not all(_is_permutation(matrix) for matrix in self.soft[k]):
            return None
        if not torch.equal(labels.sort().values, torch.arange(self.width, device=labels.device)):
            return None
        return labels.argsort()

    def maps(self, k: int) -> tuple[Tensor, Tensor]:
        """T and U of parent k, (n_k, d) float64.

        The mean over parents of T' is what the fused neurons are made of, so T holds n times each neuron's share in its
        fused one: 1 where as many neurons stand together as there are parents.
        """
        if self.soft is not None:
            return self.soft[k]
        counts = torch.bincount(torch.cat(self.labels), minlength=self.width)
        U = nn.functional.one_hot(self.labels[k], self.width).double()
        return len(self.labels) * U / counts, U


@dataclass(frozen=True, eq=False)
class Alignment:
    """The neuron groups of a fusion, bottom-up, with a map from each parent to the fused network.

    It holds the parents themselves (those on another device as copies): they must not be changed if `parent` is to be used.
    """

    groups: tuple[AlignedGroup, ...]
    shares: tuple[float, ...]
    """Of each parent in the mean; they sum to one"""
    networks: tuple[nn.Module, ...]
    """The parents as they were aligned: on the device, BatchNorm folded where the method folds it"""
    neurons: tuple[Sequence[Group], ...]
    """The neuron groups of each of them"""
    fused: nn.Module
    """A network of the fused widths"""
    targets: Sequence[Group]
    """Its neuron groups; those without an entry in `groups` are not aligned (behind the cut of a partial zip)"""

    def __getitem__(self, name: str) -> AlignedGroup:
        """The group of this name.

        Raises:
            KeyError: there is none.
        """
        return {group.name: group for group in self.groups}[name]

    @torch.no_grad()
    def state(self, k: int) -> dict[str, Tensor]:
        """Parent k's parameters and buffers, as the fused network would hold them.

        Raises:
            ValueError: some of its neurons are not aligned, and the fused network has other widths there.
        """
        shapes = tensors(self.fused)
        maps = {group.name: group.maps(k) for group in self.groups}
        state = mapped(tensors(self.networks[k]), shapes, self.neurons[k], self.targets, maps)
        strange = next((name for name in shapes if state[name].shape != shapes[name].shape), None)
        if strange is not None:
            raise ValueError(
                f"parent {k} is not aligned at {strange!r} and the fused network has another width there. Align all "
                "neurons (no stop_at), or give the fused network the parents' widths."
            )
        return state

    @torch.no_grad()
    def parent(self, k: int) -> nn.Module:
        """Parent k with its neurons where the fused network has them, in evaluation mode.

        One to one maps keep its function. The mean of all, weighted by `shares`, is the fused network before REPAIR, new
        statistics of BatchNorm or a fit, where the method weighs neurons by nothing else: uniform importance.
        """
        network = copy.deepcopy(self.fused).eval()
        state = self.state(k)
        for name, tensor in tensors(network).items():
            tensor.copy_(state[name])
        return network

    def parents(self) -> list[nn.Module]:
        """All parents with their neurons where the fused network has them; see `parent`."""
        return [self.parent(k) for k in range(len(self.networks))]


def hard_groups(labels: Mapping[str, Tensor], widths: Mapping[str, Sequence[int]]) -> tuple[AlignedGroup, ...]:
    """Groups whose neurons each go into one fused neuron as a whole.

    Args:
        labels: group -> (m,) fused neuron of each neuron, parents side by side; every fused neuron has some.
        widths: group -> neurons of each parent.
    """
    return tuple(
        AlignedGroup(name, int(together.max()) + 1, together.split(list(widths[name])))
        for name, together in labels.items()
    )


def _is_permutation(matrix: Tensor) -> bool:
    """Whether a map moves neurons as they are, up to rounding."""
    ones = (matrix - 1).abs() < 1e-9
    return bool((ones | (matrix.abs() < 1e-9)).all() and (ones.sum(0) == 1).all() and (ones.sum(1) == 1).all())
