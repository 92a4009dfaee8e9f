"""Tensors that consist of entries of parameters: a weight, its transpose, a slice, several side by side.

A layer's weight is read by running these moves, and written by running them backwards.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import Tensor, fx

from .graph import Graph, Values, Weights, name_of, words

#: Operations that only move entries.
MOVES = words(
    "reshape reshape_as view_as transpose permute t mT numpy_T unsqueeze squeeze expand expand_as clone contiguous "
    "detach alias lift_fresh_copy _to_copy to slice select split split_with_sizes chunk unbind cat stack roll flip "
    "repeat repeat_interleave index index_select slice_scatter select_scatter flatten unflatten unfold tile "
    "pixel_shuffle pixel_unshuffle channel_shuffle movedim narrow broadcast_to as_strided as_strided_scatter gather "
    "copied swapaxes meshgrid getitem resolve_conj"
)


@dataclass(frozen=True, eq=False)
class Entries:
    """Entries of parameters, in a shape of their own."""

    names: tuple[str, ...]
    """The parameters"""
    shape: torch.Size
    start: Mapping[str, int]
    """Where each parameter begins if all lie one after another"""
    moved: Callable[[Weights], Tensor]
    """Parameters -> the entries"""
    fixed: frozenset[str] = frozenset()
    """Buffers beside parameters, which are not written: files may lack them"""

    def then(self, move: Callable[[Tensor], Tensor]) -> "Entries":
        """The same entries, moved once more."""
        shape = move(torch.empty(self.shape, device="meta")).shape
        return replace(self, shape=shape, moved=lambda weights: move(self.moved(weights)))

    def read(self, weights: Weights) -> Tensor:
        """Their numbers."""
        return self.moved(weights)

    def places(self, weights: Weights) -> Tensor:
        """The place of each if all parameters lie one after another; -1 where something fixed stands in place of one.

        Args:
            weights: for shapes.
        """
        ones = {  # from 1 on, so that zeros can be told
            name: torch.arange(self.start[name] + 1, self.start[name] + 1 + weights[name].numel()).view(
                weights[name].shape
            )
            * (name not in self.fixed)
            for name in self.names
        }
        return self.moved({**weights, **ones}) - 1

    def write(self, weights: dict[str, Tensor], numbers: Tensor) -> None:
        """Put numbers in their places, in copies of the parameters."""
        written = [name for name in self.names if name not in self.fixed]
        new = {name: weights[name].clone(memory_format=torch.contiguous_format) for name in written}
        view = self.moved({**weights, **new})
        alone = all(view.untyped_storage().data_ptr() == tensor.untyped_storage().data_ptr() for tensor in new.values())
        if alone and 0 not in view.stride():
            view.copy_(numbers)
        else:
            places = self.places(weights).to(view.device)
            for name, tensor in new.items():
                inside = places - self.start[name]
                own = (inside >= 0) & (inside < tensor.numel())
                tensor.view(-1)[inside[own]] = numbers[own].to(tensor)
        weights.update(new)


class Parameters:
    """Which tensors of a graph consist of entries of parameters.

    Args:
        real: values of all nodes for one sample.
    """

    def __init__(self, graph: Graph, real: Values) -> None:
        self.graph, self.real = graph, real
        self.sizes = {node: value for node, value in real.items() if not isinstance(value, (Tensor, tuple, list))}
        self.start, end = dict[str, int](), 0
        for name, node in graph.weights.items():
            self.start[name], end = end, end + real[node].numel()
        self._names: dict[fx.Node, tuple[str, ...] | None] = {}

    def names(self, node: fx.Node) -> tuple[str, ...] | None:
        """The parameters whose entries a tensor consists of; None for other tensors."""
        if node in self.graph.names:
            return (self.graph.names[node],)
        if node not in self._names:
            self._names[node] = self._names_of(node)
        return self._names[node]

    def _names_of(self, node: fx.Node) -> tuple[str, ...] | None:
        zero = name_of(node) == "zero" or (name_of(node) == "fill" and node.args[1] == 0)
        tensors = [other for other in node.all_input_nodes if other not in self.sizes]
        if node.op != "call_function" or not (name_of(node) in MOVES or zero) or not tensors:
            return None
        found = dict[str, None]()
        for other in tensors:
            index = not (isinstance(value := self.real[other], (tuple, list)) or value.is_floating_point())
            if (names := self.names(other)) is None and not (index and other in self.graph.constants):
                return None
            found |= dict.fromkeys(names or () if not index else ())
        return tuple(found) or None

    def entries(self, node: object) -> Entries | None:
        """The entries of which a floating-point tensor consists; None for others."""
        if not isinstance(node, fx.Node) or (names := self.names(node)) is None:
            return None
        value = self.real[node]
        if not isinstance(value, Tensor) or not value.is_floating_point():
            return None
        fixed = frozenset(names) - self.graph.trained
        moved = lambda weights: self.graph.run(weights, self.sizes, [node])[node]  # noqa: E731
        return Entries(names, value.shape, self.start, moved, fixed if len(fixed) < len(names) else frozenset())
