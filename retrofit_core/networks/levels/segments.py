"""Segments of a traced graph, one per level: nodes, boundary tensors, names."""

import operator
from dataclasses import dataclass
from itertools import takewhile

from torch import fx

from .cuts import ancestors
from .kinds import parameter_count


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
    maker: dict[fx.Node, int] = {start: -1}
    for node in graph.nodes:
        if node in of and node not in maker:
            maker[node] = (
                cuts.index(node)
                if node in cuts
                else max([maker[other] for other in node.all_input_nodes if _passes_neurons(other)], default=-1)
            )
    segments, before = [], [start]
    for index, cut in enumerate(cuts):
        alive = [
            node
            for node in graph.nodes
            if of.get(node, len(cuts)) <= index
            and node.op != "get_attr"
            and (node.meta["holds_tensors"] and any(of.get(user, -1) > index for user in node.users) or node is cut)
        ]
        nodes = [node for node in graph.nodes if of.get(node) == index]
        segments.append(Segment(nodes, before, cut, alive, [maker[node] for node in alive]))
        before = alive
    return segments


def _passes_neurons(node: fx.Node) -> bool:
    """Whether a node holds tensors that the network computes: no size, as of the tensor for which a mask is made."""
    return node.op != "get_attr" and node.meta["holds_tensors"]


def names_of(segments: list[Segment]) -> list[str]:
    """The name of each level's last layer with parameters, or of the enclosing block that ends with the level, if unique."""
    layers = [
        str(next(node for node in reversed(segment.nodes) if parameter_count(node)).target) for segment in segments
    ]
    blocks = [_common(layer, _path(segment.after)) for layer, segment in zip(layers, segments, strict=True)]
    return [block if block and blocks.count(block) == 1 else layer for layer, block in zip(layers, blocks, strict=True)]


def _path(node: fx.Node) -> str:
    """The module whose forward computes a node."""
    paths = [path for path, _ in node.meta.get("nn_module_stack", {}).values()]
    return paths[-1] if paths else ""


def _common(left: str, right: str) -> str:
    """The innermost module that contains both."""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(left.split("."), right.split("."), strict=False))
    return ".".join(part for part, _ in same)
