"""Segments of a traced graph, one per level: nodes, boundary tensors, names, and modules that share the model's parameters.

Networks fold tokens or frames into the sample axis, put other axes before it, or compute tensors shared by all samples
(position tables, masks, relative position biases). Levels always pass on (samples, ...): a `Layout` converts.
"""

import copy
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os.path import commonprefix
from typing import Any

import torch
from torch import Tensor, fx, nn

from .cuts import ancestors, modules_around
from .kinds import held, parameter_count
from .tracing import Interpreter


@dataclass(frozen=True, eq=False)
class Segment:
    """The part of the graph that forms one level."""

    nodes: list[fx.Node]
    before: list[fx.Node]
    """The tensors at the boundary before it"""
    after: fx.Node
    """The level's output"""
    alive: list[fx.Node]
    """The tensors at the boundary after it: those that later levels read"""
    makers: list[int]
    """For each of them, the level that made its neurons"""


def cut_into_segments(graph: fx.Graph, cuts: list[fx.Node]) -> list[Segment]:
    """Assign each node to the first level that needs it; tensors that are read again later stay alive."""
    start = next(node for node in graph.nodes if node.op == "placeholder")
    of = {node: -1 for node in graph.nodes if node.op == "placeholder"}
    for index, cut in enumerate(cuts):
        of.update(dict.fromkeys(ancestors(cut, of), index))
    for node in graph.nodes:  # compute sizes with their tensors, so that they keep none alive
        if node in of and node.op not in ("placeholder", "get_attr") and not node.meta["holds_tensors"]:
            of[node] = max([of[other] for other in node.all_input_nodes], default=0)
    for node in graph.nodes:  # take entries of a tuple where it is made, so that only tensors are alive
        if node in of and node.target is operator.getitem and not node.args[0].meta.get("is_tensor"):
            of[node] = of[node.args[0]]
    neurons = {node for node in graph.nodes if node.op != "get_attr" and node.meta["holds_tensors"]}  # what is computed
    maker: dict[fx.Node, int] = {start: -1}
    for node in graph.nodes:
        if node in of and node not in maker:
            maker[node] = (
                cuts.index(node)
                if node in cuts
                else max([maker[other] for other in node.all_input_nodes if other in neurons], default=-1)
            )
    segments, before = [], [start]
    for index, cut in enumerate(cuts):
        alive = [
            node
            for node in graph.nodes
            if of.get(node, len(cuts)) <= index
            and (node in neurons and any(of.get(user, -1) > index for user in node.users) or node is cut)
        ]
        nodes = [node for node in graph.nodes if of.get(node) == index]
        segments.append(Segment(nodes, before, cut, alive, [maker[node] for node in alive]))
        before = alive
    return segments


def names_of(segments: list[Segment]) -> list[str]:
    """The name of each level's last layer with parameters, or of the enclosing block that ends with the level, if unique."""
    layers = [str(next(filter(parameter_count, reversed(segment.nodes))).target) for segment in segments]
    blocks = [
        ".".join(commonprefix([layer.split("."), (modules_around(segment.after) or [""])[-1].split(".")]))
        for layer, segment in zip(layers, segments, strict=True)
    ]
    return [block if block and blocks.count(block) == 1 else layer for layer, block in zip(layers, blocks, strict=True)]


# --- layouts --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Layout:
    """How a traced tensor holds the samples."""

    axis: int | None = 0
    """Sample axis; None: all samples share the tensor"""
    parts: int = 1
    """Adjacent entries per sample on that axis; 0: repeat a shared tensor along its first axis, as for a convolution's
    maps"""

    def shape(self, traced: torch.Size) -> torch.Size:
        """The shape at a boundary, from the traced shape; one sample if all share the tensor."""
        return samples_first(torch.empty(traced, device="meta"), self.axis, self.parts, torch.empty(1)).shape

    def neurons(self, axis: int, dims: int) -> int:
        """The neuron axis at a boundary: 1, -1 or 2 (channels of several frames).

        Args:
            axis: neuron axis in the trace, of `dims` dimensions.
        """
        if self == Layout():
            return axis
        axis %= dims
        if axis == dims - 1:
            return -1
        return axis + (self.axis is None or axis < self.axis) + (self.parts > 1)


#: Samples on the first axis, as at boundaries.
PLAIN = Layout()


def samples_first(tensor: Tensor, axis: int | None, parts: int, like: Tensor) -> Tensor:
    """Convert a traced tensor to its layout at a boundary: (samples, ...), or (samples, parts, ...).

    Args:
        axis, parts: see `Layout`.
        like: its length is the number of samples.
    """
    if axis is None:
        tensor = tensor.unsqueeze(0).expand(len(like), *[-1] * tensor.ndim)
        return tensor if parts else tensor.flatten(0, 1)
    tensor = tensor.movedim(axis, 0)
    return tensor.unflatten(0, (-1, parts)) if parts > 1 else tensor


def as_traced(tensor: Tensor, axis: int | None, parts: int) -> Tensor:
    """The inverse: (samples, ...) in the traced layout."""
    if axis is None:
        return tensor.select(0, 0)
    return (tensor.flatten(0, 1) if parts > 1 else tensor).movedim(0, axis)


@torch.no_grad()
def layouts(graph: fx.Graph, example: Tensor) -> dict[fx.Node, Layout]:
    """Find the layouts of a graph's tensors, where possible, by running it on another number of samples.

    Args:
        graph: with recorded shapes on the example, see `record_values`.
    """
    other = example[:1] if len(example) > 1 else torch.cat([example, example])
    interpreter = Interpreter(graph, keep=True)
    try:
        interpreter.run(other.clone())
    except Exception:  # whatever an operation raises; levels that need another number of samples are refused later
        return {}
    found = {}
    for node, value in interpreter.env.items():
        if isinstance(value, Tensor) and node.meta.get("is_tensor"):
            layout = _layout(tuple(node.meta["value"]), tuple(value.shape), len(example), len(other))
            found.update({node: layout} if layout else {})
    return found


def _layout(shape: tuple[int, ...], other: tuple[int, ...], samples: int, others: int) -> Layout | None:
    changed = [axis for axis, sizes in enumerate(zip(shape, other, strict=False)) if sizes[0] != sizes[1]]
    if len(shape) != len(other) or len(changed) > 1:
        return None
    if not changed:
        return Layout(None)
    (axis,) = changed
    parts = shape[axis] // samples
    return Layout(axis, parts) if (parts * samples, parts * others) == (shape[axis], other[axis]) else None


# --- modules --------------------------------------------------------------------------------------------------------------


def graph_module(
    segment: list[fx.Node],
    before: list[fx.Node],
    ends: list[Any],
    parts: Mapping[fx.Node, Layout],
    apart: Mapping[fx.Node, Layout],
) -> nn.Module:
    """A module for the graph from the tensors `before` to the tensors `ends`, sharing parameters; several tensors go in and out
    as a tuple.

    Args:
        parts: traced layouts of the tensors `before`, which the boundary passes samples first.
        apart: the same for the ends.
    """
    graph = fx.Graph()
    start = graph.placeholder("x")
    copies: dict[fx.Node, Any] = {before[0]: start}
    if len(before) > 1:
        copies = {node: graph.call_function(operator.getitem, (start, k)) for k, node in enumerate(before)}
    first = copies[before[0]]
    samples = max(parts.get(node, PLAIN).shape(node.meta["value"])[0] for node in before)  # of the example
    for node in before:
        if (layout := parts.get(node, PLAIN)) != PLAIN:
            copies[node] = graph.call_function(as_traced, (copies[node], layout.axis, layout.parts))
    needed = _needed_for(ends, segment, before)

    def copy_of(node: fx.Node) -> Any:
        if node not in copies:  # a constant, or an integer from an earlier level
            is_constant = node.op == "get_attr"
            shared = node.all_input_nodes and parts.get(node.all_input_nodes[0], PLAIN).axis is None
            if is_constant or shared:
                copies[node] = graph.node_copy(node) if is_constant else node.meta["value"]
            else:
                copies[node] = _integer(node, graph, first, samples, copy_of)
        return copies[node]

    for node in segment:
        if node in needed and node not in copies:
            copies[node] = graph.node_copy(node, copy_of)
    for end in ends:
        copy_of(end)
    outputs = [
        graph.call_function(samples_first, (copies[end], layout.axis, layout.parts, first))
        if (layout := apart.get(end, PLAIN)) != PLAIN
        else copies[end]
        for end in ends
    ]
    graph.output(outputs[0] if len(outputs) == 1 else tuple(outputs))
    called = {node.target: held(node) for node in graph.nodes if node.op == "call_module"}
    for node in graph.nodes:
        owner, _, name = str(node.target).rpartition(".")
        # a layer whose bias is computed from the model's own: that would become the layer's
        if node.op == "get_attr" and owner in called and getattr(called[owner], name, None) is not held(node):
            node.target = f"{owner}_{name}"
    used = {str(node.target): held(node) for node in graph.nodes if node.op in ("call_module", "get_attr")}
    return Piece(dict(sorted(used.items())), graph).eval()


class Piece(fx.GraphModule):
    """The module of a part of a graph. Its copies share its code, which takes longer to make than to copy all weights."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "Piece":
        memo[id(self)] = twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        for table in ("_modules", "_parameters", "_buffers"):
            vars(twin)[table] = copy.deepcopy(vars(self)[table], memo)
        return twin


def _needed_for(ends: list[fx.Node], segment: list[fx.Node], before: list[fx.Node]) -> set[fx.Node]:
    inside, needed, todo = set(segment), set(), list(ends)
    while todo:
        node = todo.pop()
        if node in inside and node not in needed and node not in before:
            needed.add(node)
            todo.extend(node.all_input_nodes)
    return needed


def _integer(node: fx.Node, graph: fx.Graph, start: fx.Node, samples: int, copy_of: Callable[[fx.Node], Any]) -> Any:
    """An integer that an earlier level computed: a batch size is read from this level's input, others are constants."""
    size = node.meta["value"]
    if node.op == "call_method" and node.target == "size" and node.args[1:] == (0,):
        read = graph.call_method("size", (start, 0))  # the first axis may hold several entries per sample
        return read if size == samples else graph.call_function(operator.mul, (read, size // samples))
    from_sizes = isinstance(size, int) and any(not arg.meta["is_tensor"] for arg in node.all_input_nodes)
    return graph.node_copy(node, copy_of) if from_sizes else size
