"""Where to cut a traced model: after nodes where exactly one tensor is alive, or after every affine layer.

After a layer inside a block several tensors are alive: the layer's outputs, and what a skip carries past it.
"""

import operator
from collections.abc import Container, Sequence
from typing import Any

import torch
from torch import Tensor, fx, nn

from .kinds import (
    CONVOLUTIONS,
    REORDERING,
    TRANSPARENT,
    does,
    held,
    is_activation,
    is_layer,
    is_sum,
    operation,
    parameter_count,
)

BOUNDARIES = ("preactivations", "activations", "blocks", "layers")


def read_boundaries(text: str) -> str | int | tuple[str, ...]:
    """Where levels end, from text: a word, a number of levels, or names of modules separated by commas."""
    if text.isdigit():
        return int(text)
    return text if text in ("auto", *BOUNDARIES) else tuple(text.split(","))


def choose_cuts(graph: fx.Graph, boundaries: str | int | Sequence[str], model: nn.Module) -> list[fx.Node]:
    """The nodes to cut after, ending with the model's output; each segment has parameters."""
    single = _single_tensor_nodes(graph)
    output = next(node for node in graph.nodes if node.op == "output").args[0]
    if isinstance(boundaries, str) and boundaries not in BOUNDARIES:
        raise ValueError(
            f"unknown boundaries {boundaries!r}. Use 'preactivations', 'activations', 'blocks', 'layers', a number of levels "
            "or a list of module names."
        )
    if boundaries == "layers":
        return [*_layer_ends(graph, output), output]
    if isinstance(boundaries, (str, int)):
        is_end = is_activation if boundaries == "activations" else lambda node: is_layer(node) or is_sum(node)
        ends = _block_ends(graph, single) if boundaries == "blocks" else []
        ends = ends or [node for node in single if is_end(node)]
    else:
        ends = [_end_of(name, graph, single, model) for name in boundaries]
    order = {node: index for index, node in enumerate(graph.nodes)}
    cuts: list[fx.Node] = []
    start, nodes = -1, list(graph.nodes)
    for node in sorted(set(ends), key=order.__getitem__):
        segment = nodes[start + 1 : order[node] + 1]
        after = nodes[order[node] + 1 :]
        if node is not output and any(map(parameter_count, segment)) and any(map(parameter_count, after)):
            cuts.append(node)
            start = order[node]
        elif node is not output and not isinstance(boundaries, (str, int)):
            raise ValueError(f"boundary {node.name!r} leaves a level without parameters. Leave it out.")
    if isinstance(boundaries, int):
        cuts = _balanced(cuts, boundaries, nodes)
    return [*cuts, output]


def _layer_ends(graph: fx.Graph, output: fx.Node) -> list[fx.Node]:
    """For every layer before the last, its `end_of`."""
    nodes = list(graph.nodes)
    needed = ancestors(output)
    layers = [node for node in nodes if node in needed and is_layer(node)]
    ends = set(map(end_of, layers))
    chosen, passed = list[fx.Node](), set[fx.Node]()
    for index, node in enumerate(nodes):
        if node not in ends or node is output:
            continue
        passed |= ancestors(node, passed)
        # another level follows: parameters, or a layer that no level needs so far, such as another head
        if any(map(parameter_count, needed & set(nodes[index + 1 :]))) or set(layers) - passed:
            chosen.append(node)
    return chosen


def ancestors(node: fx.Node, known: Container[fx.Node] = ()) -> set[fx.Node]:
    """A node and all its ancestors, except known nodes and theirs."""
    needed, todo = set(), [node]
    while todo:
        other = todo.pop()
        if other not in needed and other not in known:
            needed.add(other)
            todo.extend(other.all_input_nodes)
    return needed


def sum_behind(node: fx.Node, *, functions: bool = False) -> fx.Node | None:
    """The sum of two equally shaped tensors that alone uses a layer's outputs, unchanged; the neuron axis may move if the
    others keep their order.

    Args:
        functions: whether activation functions may come between.
    """
    dims = len(node.meta["value"])
    axes, neurons = list(range(dims)), dims - 1 if isinstance(held(node), nn.Linear) else 1
    while len(node.users) == 1:
        user = next(iter(node.users))
        turned = reordered_axes(user)
        if is_sum(user):
            alike = {tuple(other.meta["value"]) for other in (user, *user.all_input_nodes)}
            others = [axis for axis in axes if axis != neurons]
            return user if len(alike) == 1 and len(user.all_input_nodes) == 2 and others == sorted(others) else None
        if turned and not functions:
            axes = [axes[axis] for axis in turned]
        elif not (does(user, TRANSPARENT) or (functions and is_activation(user))):
            return None
        node = user
    return None


def reordered_axes(node: fx.Node) -> list[int]:
    """If an operation only reorders axes, the input axis of each output axis; else empty."""
    attribute = operation(node) == "getattr" and node.args[1] in ("T", "mT")
    if not (attribute or does(node, REORDERING)) or len(node.all_input_nodes) > 1:
        return []
    probe = torch.empty([*range(len(node.meta["value"]))], device="meta")  # each size names its axis
    function: Any = getattr(Tensor, node.target) if isinstance(node.target, str) else node.target
    return list(function(probe, *node.args[1:], **node.kwargs).shape)


def end_of(layer: fx.Node) -> fx.Node:
    """The node at which a layer's neurons can be compared: the sum that alone uses its outputs, also through an activation
    function unless another layer made its other side; else the layer itself."""
    plain, end = sum_behind(layer), sum_behind(layer, functions=True)
    if plain is None and end is not None and getattr(held(layer), "groups", 1) == 1:
        plain = None if any(_made_directly(side, layer) for side in end.all_input_nodes) else end
    return plain or layer


def landed(layer: fx.Node, end: fx.Node) -> int:
    """The axis on which a layer's neurons lie at its end (`end_of`)."""
    axis = 1 if isinstance(held(layer), CONVOLUTIONS) else len(layer.meta["value"]) - 1
    for node in between(layer, end)[1:]:
        turned = reordered_axes(node)
        axis = turned.index(axis) if turned else axis
    return axis


def between(layer: fx.Node, end: fx.Node) -> list[fx.Node]:
    """The nodes from a layer up to the end that alone reads it."""
    nodes = [layer]
    while (user := next(iter(nodes[-1].users))) is not end:
        nodes.append(user)
    return nodes


def _made_directly(side: fx.Node, layer: fx.Node) -> bool:
    """Whether another layer makes one side of a sum, with only activation functions between."""
    while does(side, TRANSPARENT) or is_activation(side):
        side = side.all_input_nodes[0]
    return side is not layer and is_layer(side)


def _single_tensor_nodes(graph: fx.Graph) -> list[fx.Node]:
    """Nodes whose output is the only tensor alive after them (integers such as batch sizes do not count)."""
    nodes = list(graph.nodes)
    order = {node: index for index, node in enumerate(nodes)}
    alive: set[fx.Node] = set()
    single = []
    for index, node in enumerate(nodes):
        if node.op == "output":
            break
        alive = {other for other in alive if max(order[user] for user in other.users) > index}
        if node.op != "get_attr" and node.meta["holds_tensors"] and node.users:
            alive.add(node)
        if alive == {node} and node.meta["is_tensor"] and node.op != "placeholder":
            single.append(node)
    return single


def _block_ends(graph: fx.Graph, single: list[fx.Node]) -> list[fx.Node]:
    """The ends of residual blocks, and of the stem before the first one; empty if there are none.

    A block is the outermost module whose own forward adds two tensors. A stem without an activation function is an
    embedding and belongs to the first block. If tokens are dropped right after a block, it ends there.
    """
    nodes = list(graph.nodes)
    paths = {node: modules_around(node) for node in nodes}
    owners = {paths[node][-1] for node in nodes if is_sum(node) and paths[node]}
    outermost = [path for path in owners if not any(path.startswith(f"{other}.") for other in owners)]
    spans = [[node for node in nodes if path in paths[node]] for path in outermost]
    ends = [span[-1] for span in spans if span[-1] in single]
    if not ends:
        return []
    start = min(nodes.index(span[0]) for span in spans)
    stem = [node for node in single if nodes.index(node) < start]
    if stem and any(is_activation(node) for node in nodes[: nodes.index(stem[-1]) + 1]):
        ends.append(stem[-1])
    readers = {node: next(iter(node.users)) for node in ends if len(node.users) == 1}
    return [readers[node] if node in readers and readers[node].target is operator.getitem else node for node in ends]


def modules_around(node: fx.Node) -> list[str]:
    """The modules whose forward computes a node, from outside."""
    return [path for path, _ in node.meta.get("nn_module_stack", {}).values() if path]


def _end_of(name: str, graph: fx.Graph, single: list[fx.Node], model: nn.Module) -> fx.Node:
    """The last node that module `name` computes, if one tensor is alive there."""
    inside = [
        node
        for node in graph.nodes
        if name in modules_around(node) or (node.op == "call_module" and node.target == name)
    ]
    if not inside:
        children = [path for path, _ in model.named_children()]
        raise ValueError(f"boundaries: {name!r} is not a module that runs in the model. Its children are {children}.")
    if inside[-1] not in single:
        raise ValueError(
            f"boundaries: after {name!r} more than one tensor is alive (a branch is open), so no level can end there. "
            "Name the block that encloses the branch."
        )
    return inside[-1]


def _balanced(cuts: list[fx.Node], n_levels: int, nodes: list[fx.Node]) -> list[fx.Node]:
    """The n_levels - 1 cuts that minimise the largest level's parameter count."""
    if not 1 <= n_levels <= len(cuts) + 1:
        raise ValueError(f"boundaries={n_levels}: this model can be cut into 1 to {len(cuts) + 1} levels.")
    order = {node: index for index, node in enumerate(nodes)}
    ends = [0, *(order[node] + 1 for node in cuts), len(nodes)]
    sizes = [sum(parameter_count(node) for node in nodes[a:b]) for a, b in zip(ends[:-1], ends[1:], strict=True)]
    # best[j] after i levels: (largest level, where each level ends) over the first j pieces
    best: dict[int, tuple[int, list[int]]] = {0: (0, [])}
    for _ in range(n_levels):
        best = {
            j: min((max(largest, sum(sizes[i:j])), [*stops, j]) for i, (largest, stops) in best.items() if i < j)
            for j in range(1, len(sizes) + 1)
            if any(i < j for i in best)
        }
    return [cuts[stop - 1] for stop in best[len(sizes)][1][:-1]]
