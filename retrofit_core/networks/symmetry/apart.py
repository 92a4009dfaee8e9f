"""Finer groups than `neuron_groups`: each layer that adds to a residual stream gets its own group.

A permutation keeps the function only if a residual stream has one order through all blocks, and queries that of their keys.
Soft maps (Imfeld et al. 2024) need neither: each layer of a transformer has its own map, and a rule joins the maps of two
layers where their outputs are added.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx, nn

from ..copies import evaluating
from ..levels.kinds import held, operation
from ..levels.tracing import Trace, trace
from ..levels.weights import refuse_computed_weights
from ..wrappers import class_name
from .groups import assembled
from .maps import Group, Junction
from .rules import Rules, axis_of, on_axis, varying_axes


def groups_apart(model: nn.Module, example: Tensor, *, leaves: Sequence[str] = ()) -> list[Group]:
    """`neuron_groups`, but each layer that adds to a residual stream is its own group, and so are all heads of a layer together.

    Each sum of a stream is a group with a `junction` that names its two sides. Where tokens from different layers are
    concatenated (class token and patches), the layer with most tokens represents that side. Permuting these groups
    independently changes the function.

    Args:
        model: a network that `neuron_groups` supports.
    Raises:
        ValueError: as in `neuron_groups`, or one side of a sum has more than one group.
    """
    with evaluating(model):
        refuse_computed_weights(model, class_name(model))
        of_one = trace(model, leaves, example[:1])
        rules = _Apart(of_one, Rules(of_one))
        groups = assembled(rules)
        return [replace(group, junction=rules.junction_of(group, groups)) for group in groups]


class _Apart(Rules):
    """The pass of `Rules`, except that a sum makes new neurons."""

    def __init__(self, trace: Trace, joined: Rules):
        self.joined = joined
        self.depths: dict[fx.Node, int] = {}  # operations on the longest path from the input
        self.sums: list[tuple[Tensor, list[Tensor]]] = []  # new neurons, both sides
        super().__init__(trace)

    def _follow(self, node: fx.Node) -> Any:
        self.depths[node] = max((1 + self.depths.get(other, 0) for other in node.all_input_nodes), default=0)
        return super()._follow(node)

    def _constant(self, node: fx.Node) -> Tensor:
        """Entries of a token or of positions: neurons along the only axis that varies in `joined`."""
        ids, tensor = super()._constant(node), held(node)
        varying = varying_axes(self.joined.ids.of(self.joined.values[node]))
        if not self._is_fixed(ids) and len(varying) == 1:
            self._assign(tensor, varying[0], self.ids.constant_along(ids, varying[0]), "vector")
        return ids

    def _binary(self, node: fx.Node) -> Tensor:
        sides = [arg for arg in node.all_input_nodes if arg in self.values and not self._is_fixed(self.values[arg])]
        joined = self.joined.ids.of(self.joined.values[node])
        axis = axis_of(joined)
        classes = torch.isin(joined, self.joined.ids.of(self.joined.head)).any()
        bias = any(len(side.meta["value"]) == 1 for side in sides)  # of a layer without a module, or computed
        if operation(node) != "add" or len(sides) != 2 or axis is None or classes or bias:
            return super()._binary(node)
        sides.sort(key=self.depths.__getitem__)
        lines = [self._most(self.values[side].expand(node.meta["value"]), axis) for side in sides]
        if torch.equal(*lines):
            return super()._binary(node)
        neurons = self.ids.fresh(len(lines[0]))
        self.sums.append((neurons, lines))
        self._see(node, axis, neurons)
        return on_axis(neurons, axis % joined.ndim, node)

    def _most(self, ids: Tensor, axis: int) -> Tensor:
        """(n,) the most frequent line of neurons along an axis."""
        rows = self.ids.of(ids).movedim(axis, -1).reshape(-1, ids.shape[axis])
        lines, counts = rows.unique(dim=0, return_counts=True)
        return lines[counts.argmax()]

    def _heads(self, ids: Tensor) -> None:
        """All heads of a layer are one group."""

    def _multiplied(self, q: Tensor, k: Tensor) -> None:
        self._split([q.flatten(), k.flatten()])

    def junction_of(self, group: Group, groups: Sequence[Group]) -> Junction | None:
        """The sum that makes a group, if one does."""
        makers = {tuple(self._neurons(other)): other.name for other in groups}
        sums = {tuple(self.ids.of(neurons).tolist()): lines for neurons, lines in reversed(self.sums)}

        def junction(neurons: tuple[int, ...]) -> Junction:
            return Junction(*(side(tuple(self.ids.of(line).tolist())) for line in sums[neurons]))

        def side(neurons: tuple[int, ...]) -> str | Junction:
            if neurons in makers:
                return makers[neurons]
            if neurons in sums:
                return junction(neurons)
            raise ValueError(
                f"at the sum before {group.name!r} neurons of several layers are side by side, so their maps cannot "
                "be joined. Use OTFusion, which finds one map for all of them."
            )

        neurons = tuple(self._neurons(group))
        made_by_a_layer = any(part.kind == "out" for part in group.parts)
        return junction(neurons) if neurons in sums and not made_by_a_layer else None

    def _neurons(self, group: Group) -> list[int]:
        first = group.parts[0]
        ids = (
            self.axes[first.name, first.axis][0] if (first.name, first.axis) in self.axes else self.entries[first.name]
        )
        return self.ids.of(ids)[first.index[:, 0]].flatten().tolist()
