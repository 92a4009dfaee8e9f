"""Groups of neurons that are aligned: the spaces of a network, and its classes, which stay in place."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import torch
from torch import Tensor, fx, nn

from ..fusion.alignment import Group, Part, Point, Role
from ..graph.graph import name_of
from ..graph.ids import FIXED, on_axis, varying
from ..graph.layers import ACTIVATIONS
from ..graph.network import Network

#: Operations that leave values as they are, in evaluation mode.
TRANSPARENT = {"dropout", "feature_dropout", "alpha_dropout", "clone", "contiguous"}
SUMS = {"add", "addcmul", "addcdiv"}
FUNCTIONS = ACTIVATIONS | {"relu6", "prelu", "rrelu", "log_sigmoid", "threshold", "softshrink", "hardshrink"}

#: (parameter, axis)
Key = tuple[str, int]
HELD: tuple[Role, bool] = ("holds", False)


def groups_of(net: Network, model: nn.Module, *, alone: bool = False) -> list[Group]:
    """The groups of a network in order of computation, classes last; attention heads are groups of their own.

    Args:
        model: names the modules that make neurons.
        alone: whether numbers that no layer makes or reads are a group, such as a token's.
    """
    roles, seen = _roles(net), _seen(net)
    lines = {node: net.spaces.columns(node, axis) for node, axis in seen.items()}
    order = {key: number for number, key in enumerate(net.spaces.neurons.axes)}
    found: list[tuple[int, int, Group]] = []

    def add(axes: dict[Key, Tensor], points: Iterable[Point], fixed: bool = False, space: int = -1) -> None:
        parts = tuple(Part(*key, index, *roles.get(key, HELD)) for key, index in axes.items())
        maker = next((part for part in parts if part.role == "makes"), parts[0])
        name = maker.name.rpartition(".")[0]
        kind = type(model.get_submodule(name)).__name__
        if maker.role == "reads":
            name = f"{name} (inputs)"
        group = Group(name or maker.name, kind, len(parts[0].index), parts, tuple(points), fixed, space)
        found.append((order[maker.name, maker.axis], int(maker.index[0, 0]), group))

    for number, space in enumerate(net.spaces.spaces):
        makers = {name for name, axis in space.axes if roles.get((name, axis), ("", False))[0] != "reads"}
        used = (alone and len(space.ids) > 1) or not roles.keys().isdisjoint(space.axes)
        if used and (not makers or makers & net.graph.trained):  # not coordinates in a buffer
            places = {node: places_of(columns, number, len(space.ids)) for node, columns in lines.items()}
            add(
                space.axes,
                _points(net, seen, {node: index for node, index in places.items() if index is not None}),
                space=number,
            )
    found.sort(key=lambda entry: entry[:2])
    free = len(found)
    neurons, in_place = net.spaces.neurons, [bool((columns[:, 0] < 0).all()) for columns in net.columns]
    for width in sorted({net.layers[number].width for number in net.last}):
        heads = [layer for layer, fixed in zip(net.layers, in_place, strict=True) if fixed and layer.width == width]
        classes = torch.arange(width)[:, None]
        names = set[str | None]()
        for op in (op for layer in heads for op in layer.operations):
            names.update(op.weight.names, op.vectors, op.bias.names if op.bias is not None else ())
        axes = {
            key: classes
            for key, line in neurons.axes.items()
            if key[0] in names and len(line) == width and (neurons.ids.of(line) == FIXED).all()
        }
        made = {name for name, axis in axes if roles.get((name, axis), ("", False))[0] == "makes"}
        axes = {key: index for key, index in axes.items() if key[0] not in made or roles[key][0] == "makes"}
        ends = {layer.end: layer.axis for layer in heads}
        add(axes, _points(net, ends, dict.fromkeys(ends, classes)), fixed=True)
    return _named_apart([group for *_, group in (*found[:free], *found[free:])])


def _named_apart(groups: Sequence[Group]) -> list[Group]:
    """Groups, of which several of one module (the heads of an attention) are numbered."""
    counts = Counter(group.name for group in groups)
    numbers = {name: iter(range(count)) for name, count in counts.items()}
    return [
        replace(group, name=f"{group.name}[{next(numbers[group.name])}]") if counts[group.name] > 1 else group
        for group in groups
    ]


def _roles(net: Network) -> dict[Key, tuple[Role, bool]]:
    """What a weight does along an axis: it makes neurons or reads them; and whether another layer does the other thing there.

    A tied weight that makes neurons along one axis reads them along the other, so that it is averaged once.
    """
    roles: dict[Key, tuple[Role, bool]] = {}
    for op in (op for layer in net.layers for op in layer.operations if op.groups == 1):
        new = dict[Key, Role]()
        for name, axis in net.spaces.neurons.axes:
            if name in op.weight.names:
                shape = net.weights[name].shape
                numbers = on_axis(torch.arange(shape[axis]), axis, shape)
                along = varying(op.weight.moved({**net.weights, name: numbers}))
                if along:
                    new[name, axis] = "makes" if 0 in along else "reads"
        for (name, axis), role in new.items():
            makes = any(other == name and at != axis and said[0] == "makes" for (other, at), said in roles.items())
            role = "reads" if makes else role
            before, tied = roles.get((name, axis), (role, False))
            roles[name, axis] = before, tied or before != role
    return roles


def _is_sum(net: Network, node: fx.Node) -> bool:
    """Whether it adds tensors, none of them a parameter."""
    terms = [arg for arg in node.args if isinstance(arg, fx.Node)] if name_of(node) in SUMS else []
    neurons = net.spaces.neurons
    return len(terms) > 1 and all(
        isinstance(neurons.real[term], Tensor) and neurons.parameters.names(term) is None for term in terms
    )


def _seen(net: Network) -> dict[fx.Node, int]:
    """Nodes at which neurons can be recorded, with their axis: layers, behind BatchNorm, and sums."""
    found, neurons = dict[fx.Node, int](), net.spaces.neurons
    for op in (op for layer in net.layers for op in layer.operations if not layer.mixes):
        found[op.norm or op.node] = op.axis
    for node in net.graph.nodes:
        if name_of(node) in ("batch_norm", "instance_norm") and varying(neurons.ids.of(neurons.twin(node.args[0]))) == [
            1
        ]:
            found.pop(node.all_input_nodes[0], None)
            found[node] = 1
        if _is_sum(net, node) and len(along := varying(neurons.ids.of(neurons.twin(node)))) == 1:
            found[node] = -1 if along[0] == len(neurons.shape(node)) - 1 else along[0]
    return {node: found[node] for node in sorted(found, key=net.graph.place.__getitem__)}


def places_of(columns: Tensor, space: int, width: int) -> Tensor | None:
    """(width, copies) places of a space's neurons among columns; None if not all occur equally often."""
    inside = (columns[:, 0] == space).nonzero()[:, 0]
    if not len(inside) or len(inside) % width:
        return None
    index = inside[columns[inside, 1].argsort(stable=True)].view(width, -1)
    return index if (columns[index, 1] == torch.arange(width)[:, None]).all() else None


def _points(net: Network, seen: dict[fx.Node, int], places: dict[fx.Node, Tensor]) -> list[Point]:
    """For a residual stream, its start and its sums; otherwise wherever neurons are made."""
    sums = {node for node in places if _is_sum(net, node)}
    if sums:
        first = next(iter(places))
        stem = None if all(_is_sum(net, user) for user in net.graph.users[first]) else first
        places = {node: index for node, index in places.items() if node is stem or node in sums}
    return [Point(node, _behind(net, node, seen[node]), seen[node], index) for node, index in places.items()]


def _behind(net: Network, node: fx.Node, axis: int) -> fx.Node:
    """The activation function that reads a node, directly, after dropout or in other rows; else the node itself. Functions of
    two operations, such as x * sigmoid(x), are known."""
    shape, users = net.spaces.neurons.shape, net.graph.users
    for user in users[node]:
        if name_of(user) in FUNCTIONS:
            return next((last for last in users[user] if {*last.all_input_nodes} == {node, user}), user)
        rows = axis == -1 and name_of(user) in ("view", "reshape") and shape(node)[-1] == shape(user)[-1]
        if rows or name_of(user) in TRANSPARENT:
            further = _behind(net, user, axis)
            if further is not user:
                return further
    return node
