"""Turn part of a traced graph into a module that shares the model's parameters."""

import operator
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx, nn

from .kinds import held
from .layouts import Layout, as_traced, samples_first

PLAIN = Layout()


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
            copies[node] = graph.node_copy(node) if is_constant else _integer(node, graph, first, samples, copy_of)
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
    used = {str(node.target): held(node) for node in graph.nodes if node.op in ("call_module", "get_attr")}
    return fx.GraphModule(dict(sorted(used.items())), graph).eval()


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
    is_batch = (node.target is operator.getitem and node.args[1] == 0 and _is_shape(node.args[0])) or (
        node.op == "call_method" and node.target == "size" and node.args[1:] == (0,)
    )
    if is_batch:  # a multiple of it if the first axis holds several entries per sample
        size = graph.call_method("size", (start, 0))
        return (
            size
            if node.meta["value"] == samples
            else graph.call_function(operator.mul, (size, node.meta["value"] // samples))
        )
    if isinstance(node.meta["value"], int) and any(arg.meta.get("is_tensor") is False for arg in node.all_input_nodes):
        return graph.node_copy(node, copy_of) if not _is_shape(node.args[0]) else node.meta["value"]
    return node.meta["value"]


def _is_shape(node: object) -> bool:
    return isinstance(node, fx.Node) and isinstance(node.meta.get("value"), torch.Size) and not node.meta["is_tensor"]
