"""Which axis of a boundary tensor counts the neurons: read off the computation.

One output neuron of the layer before is changed at all positions, and the network runs on: the axis on which the change stays
by itself is that of the neurons; along the others it spreads.
"""

import operator
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, fx, nn

from .. import batchnorm
from .kinds import operation

CHANNELS_FIRST = (nn.modules.conv._ConvNd, nn.GroupNorm)
CHANNELS_LAST = (nn.Linear, nn.LayerNorm, nn.RMSNorm, nn.Embedding)


#: Neurons of a layer that are changed, one after the other, until one is seen to change something.
PROBES = 17


class NeuronAxes:
    """The neuron axes of a traced network's tensors.

    Args:
        graph: with its shapes, see `record_values`.
        modules: the objects behind its targets.
        example: (B, ...) input.
    """

    def __init__(self, graph: fx.Graph, modules: dict[Any, Any], example: Tensor) -> None:
        self.graph, self.modules, self.example = graph, modules, example
        self.order = {node: index for index, node in enumerate(graph.nodes)}
        self.known: dict[fx.Node, int | None] = {}
        self.values: dict[fx.Node, Any] = {}
        self.interpreter = fx.Interpreter(fx.GraphModule(modules, graph), garbage_collect_values=False)
        self.interpreter.graph = graph  # GraphModule copies the graph

    def of(self, node: fx.Node, name: str, by_user: int | None = None) -> int:
        """The neuron axis of a node's output: 1, or -1 where it is the last of more than two.

        Args:
            name: of the level, for the message.
            by_user: an axis that is named by the user.
        Raises:
            ValueError: there is no such axis, or more than one.
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
            self.known[node] = 1 if dims == 2 else self._axis(node)
        axis = self.known[node]
        if axis is None:
            raise ValueError(
                f"level {name!r} ends with a tensor of shape {tuple(node.meta['value'])} whose neuron axis is ambiguous. "
                "Let levels end elsewhere (boundaries=[module names] of fuse() and partition()), or name the axis to "
                "partition(), neuron_axis=1 for channels or neuron_axis=-1 for tokens."
            )
        return -1 if axis == dims - 1 > 1 else axis

    def _axis(self, node: fx.Node) -> int | None:
        """Counted from the left; where branches disagree, that of the layer which comes first: a stream keeps its neurons."""
        for norms in (False, True):  # a BatchNorm decides only if no layer before it does: it may normalise positions
            makers = self._makers(node, norms)
            others = {maker for maker, _ in makers}
            axes = (axis if maker is node else self._alone(node, maker, axis, others) for maker, axis in makers)
            if makers:
                return next((axis for axis in axes if axis is not None), None)
        return 1  # nothing but the input, whose neurons are not fused

    def _makers(self, node: fx.Node, norms: bool) -> list[tuple[fx.Node, int]]:
        """The nearest layers behind a node in the order in which they run, each with the axis of its own outputs."""
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
        """The axis along which an operation makes neurons of its own, or that is known already."""
        if not node.meta.get("is_tensor"):
            return None
        if self.known.get(node) is not None:  # where a level ends: the way back is short
            return self.known[node]
        target = self.modules.get(node.target) if node.op == "call_module" else None
        name = operation(node)
        if isinstance(target, CHANNELS_FIRST) or name in {"conv1d", "conv2d", "conv3d", "group_norm"}:
            return 1
        if isinstance(target, CHANNELS_LAST) or name in {"linear", "layer_norm", "rms_norm"}:
            return len(node.meta["value"]) - 1
        if self._is_attention(node):
            return len(node.meta["value"]) - 1
        return 1 if norms and (isinstance(target, batchnorm.BatchNorm) or name == "batch_norm") else None

    def _is_attention(self, node: fx.Node) -> bool:
        """Whether the node is the first of the two values that nn.MultiheadAttention returns."""
        source = node.args[0] if node.target is operator.getitem else None
        return isinstance(source, fx.Node) and isinstance(self.modules.get(source.target), nn.MultiheadAttention)

    @torch.no_grad()
    def _alone(self, node: fx.Node, maker: fx.Node, axis: int, others: set[fx.Node]) -> int | None:
        """The axis of a node's output on which a changed neuron of a layer changes the smallest part.

        Args:
            others: layers that stay as they are: in their outputs a neuron of this one is no longer by itself.
        """
        if not self.values:
            self.interpreter.run(self.example)
            self.values = dict(self.interpreter.env)
        outputs, before = self.values[maker], self.values[node]
        for neuron in (
            torch.linspace(0, outputs.shape[axis] - 1, PROBES).long().unique().tolist()
        ):  # some may go elsewhere
            changed = outputs.clone()
            line = changed.select(axis, neuron)
            line += (line.abs().max() + 1) * torch.randn(line.shape, generator=_seeded()).to(line)
            gap = (self._again(node, maker, changed, others) - before).abs()
            differs = gap > 1e-4 * gap.max()
            shares = torch.stack([_share(differs, axis) for axis in range(1, differs.ndim)]).tolist()  # one wait
            if not any(shares):
                continue
            least = min(shares)
            return 1 + shares.index(least) if least < 1 and shares.count(least) == 1 else None
        return None

    def _again(self, node: fx.Node, maker: fx.Node, changed: Tensor, others: set[fx.Node]) -> Tensor:
        """A node's output, of its shape (B, ...), where a layer's output is another one."""
        values, new = self.values, {maker: changed}
        for other in _between(maker, node, self.graph.nodes, others):
            args, kwargs = fx.map_arg((other.args, other.kwargs), lambda n: new.get(n, values[n]))
            new[other] = getattr(self.interpreter, other.op)(other.target, args, kwargs)
        return new[node]


def _between(start: fx.Node, end: fx.Node, nodes: Iterable[fx.Node], without: set[fx.Node]) -> list[fx.Node]:
    """The nodes that depend on one node and lie on the way to another, in their order, but for some."""
    dependent, listed = {start}, []
    for node in nodes:
        if node not in without and any(other in dependent for other in node.all_input_nodes):
            dependent.add(node)
            listed.append(node)
        if node is end:
            break
    needed = {end}
    for node in reversed(listed):
        if node in needed:
            needed.update(node.all_input_nodes)
    return [node for node in listed if node in needed]


def _share(differs: Tensor, axis: int) -> Tensor:
    """The share of an axis along which something differs."""
    return differs.movedim(axis, 0).flatten(1).any(1).double().mean()


def _seeded() -> torch.Generator:
    return torch.Generator().manual_seed(0)
