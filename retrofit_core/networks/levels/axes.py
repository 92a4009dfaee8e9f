"""Find the neuron axis of a boundary tensor by experiment.

Change one output neuron of the preceding layer at all positions and run the network on: along the neuron axis the change stays
local, along the others it spreads.
"""

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx

from .cuts import ancestors
from .kinds import does, words
from .tracing import Interpreter

CHANNELS_FIRST = words("_ConvNd conv1d conv2d conv3d group_norm")
CHANNELS_LAST = words("linear layer_norm rms_norm embedding")
#: They decide only if no layer does, for they may normalise positions.
NORMS = words("_BatchNorm")

#: How many neurons of a layer to try until changing one has an effect.
PROBES = 17


class NeuronAxes:
    """The neuron axes of a traced network's tensors.

    Args:
        graph: with recorded shapes, see `record_values`.
        example: (B, ...) input.
    """

    def __init__(self, graph: fx.Graph, example: Tensor) -> None:
        self.graph, self.example = graph, example
        self.order = {node: index for index, node in enumerate(graph.nodes)}
        self.known: dict[fx.Node, int | None] = {}
        self.values: dict[fx.Node, Any] = {}
        self.interpreter = Interpreter(graph, keep=True)

    def of(self, node: fx.Node, name: str, by_user: int | None = None) -> int:
        """The neuron axis of a node's output: usually 1, or -1 for the last of more than two.

        Args:
            name: level name for the error message.
            by_user: axis that the user named.
        Raises:
            ValueError: no such axis, or more than one.
        """
        if by_user is not None:
            return by_user
        dims = len(node.meta["value"])
        if dims < 2:
            raise ValueError(
                f"level {name!r} ends with one number for each sample, a tensor without an axis of neurons. Let the network "
                "return (B, 1): leave out its squeeze or its [:, 0]."
            )
        if node not in self.known:
            makers = self._makers(node, norms=False) or self._makers(node, norms=True)
            if not makers:
                return 1  # only the input, whose neurons are not fused; it makes none, so it is not known
            self.known[node] = 1 if dims == 2 else self._axis(node, makers)
        axis = self.known[node]
        if axis is None:
            raise ValueError(
                f"level {name!r} ends with a tensor of shape {tuple(node.meta['value'])} whose neuron axis is ambiguous. "
                "Let levels end elsewhere (boundaries=[module names] of fuse() and partition()), or name the axis to "
                "partition(), neuron_axis=1 for channels or neuron_axis=-1 for tokens."
            )
        return -1 if axis == dims - 1 > 1 else axis

    def _axis(self, node: fx.Node, makers: Sequence[tuple[fx.Node, int]]) -> int | None:
        """The axis from the left; if branches disagree, that of the earliest layer: a stream keeps its neurons."""
        others = {maker for maker, _ in makers}
        axes = (axis if maker is node else self._alone(node, maker, axis, others) for maker, axis in makers)
        return next((axis for axis in axes if axis is not None), None)

    def _makers(self, node: fx.Node, *, norms: bool) -> list[tuple[fx.Node, int]]:
        """The nearest layers before a node, in execution order, each with the neuron axis of its outputs.

        Args:
            norms: whether BatchNorms are layers, too; they decide only if no layer does, for they may normalise positions.
        """
        makers: dict[fx.Node, int] = {}
        todo, seen = [node], {node}
        while todo:
            other = todo.pop()
            if (axis := self._own_axis(other, norms)) is not None:
                makers[other] = axis
                continue
            before = [n for n in other.all_input_nodes if n.meta.get("is_tensor") or n.meta.get("holds_tensors")]
            todo += [n for n in before if n not in seen]
            seen.update(before)
        return sorted(makers.items(), key=lambda pair: self.order[pair[0]])

    def _own_axis(self, node: fx.Node, norms: bool) -> int | None:
        """The axis along which an operation makes its own neurons, or one already known."""
        if not node.meta.get("is_tensor"):
            return None
        if self.known.get(node) is not None:  # at a level's end: keeps the search short
            return self.known[node]
        if does(node, CHANNELS_FIRST) or (norms and does(node, NORMS)):
            return 1
        source = node.args[0] if node.target is operator.getitem else node
        if does(node, CHANNELS_LAST) or (isinstance(source, fx.Node) and does(source, words("MultiheadAttention"))):
            return len(node.meta["value"]) - 1
        return None

    @torch.no_grad()
    def _alone(self, node: fx.Node, maker: fx.Node, axis: int, others: set[fx.Node]) -> int | None:
        """The axis of a node's output along which changing one neuron of a layer changes the smallest share.

        Args:
            others: layers whose outputs stay fixed: they would mix this neuron with others.
        """
        if not self.values:
            self.interpreter.run(self.example)
            self.values = dict(self.interpreter.env)
        outputs, before = self.values[maker], self.values[node]
        # Try several neurons: some may not reach this node.
        for neuron in torch.linspace(0, outputs.shape[axis] - 1, PROBES).long().unique().tolist():
            changed = outputs.clone()
            line = changed.select(axis, neuron)
            noise = torch.randn(line.shape, generator=torch.Generator().manual_seed(0))
            line += (line.abs().max() + 1) * noise.to(line)
            gap = (self._again(node, maker, changed, others) - before).abs()
            differs = gap > 1e-4 * gap.max()
            # the share of entries along each axis where anything differs
            shares = [
                differs.movedim(axis, 0).flatten(1).any(1).double().mean().item() for axis in range(1, differs.ndim)
            ]
            if not any(shares):
                continue
            least = min(shares)
            return 1 + shares.index(least) if least < 1 and shares.count(least) == 1 else None
        return None

    def _again(self, node: fx.Node, maker: fx.Node, changed: Tensor, others: set[fx.Node]) -> Tensor:
        """Recompute a node's output (B, ...) with a layer's output replaced."""
        self.interpreter.env = {**self.values, maker: changed}
        for other in sorted(ancestors(node, others), key=self.order.__getitem__):
            if other.all_input_nodes:  # not the input itself
                self.interpreter.env[other] = self.interpreter.run_node(other)
        return self.interpreter.env[node]
