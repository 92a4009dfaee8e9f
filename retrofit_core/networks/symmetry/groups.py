"""Neuron groups: architecture as data.

A group holds neurons that may be permuted, and all entries of parameters and buffers that must be permuted with them to keep
the function. A residual stream is one group through all its blocks; each attention head is its own group.
"""

import copy
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn

from ..copies import evaluating
from ..levels.kinds import TRANSPARENT, does, is_activation, is_sum, operation
from ..levels.tracing import Trace, trace
from ..weights import refuse_computed_weights
from ..wrappers import class_name
from .maps import Group, Point, TensorPart, reordered
from .rules import FIXED, Rules, Seen, rules_of, varying_axes

#: Largest relative change of the outputs at which a permuted network counts as the same; float64 networks may hold float32 parts.
TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-5}


#: The group number of neurons that are fixed whatever the weights.
IN_PLACE = -1
#: The number of ids of no group.
NO_GROUP = -2


def neuron_groups(model: nn.Module, example: Tensor, *, leaves: Sequence[str] = ()) -> list[Group]:
    """The groups of a network in order of computation, classes last. See `NeuronTrace`."""
    with evaluating(model):
        return NeuronTrace(trace(model, leaves, example[:1])).groups


def shuffled(model: nn.Module, example: Tensor, generator: torch.Generator) -> nn.Module:
    """A copy with the same function and the neurons of every group in random order."""
    groups = neuron_groups(model, example)
    orders = {group.name: torch.randperm(group.width, generator=generator) for group in groups if not group.fixed}
    return reordered(model, groups, orders)


class NeuronTrace:
    """The neuron groups of a network, found in its trace by a rule per operation.

    Works for any network whose operations have rules. A check confirms that a random permutation keeps the outputs.

    Args:
        trace: of the network in evaluation mode; uses the first sample of its example.
    Raises:
        ValueError: the network computes a weight from other tensors, has an operation without a rule (the message names it),
            or fails the check.
    """

    def __init__(self, trace: Trace) -> None:
        self.trace = trace.of_one
        refuse_computed_weights(trace.model, class_name(trace.model))
        # First try to keep pieces of a tensor in one group (as in a channel shuffle), then apart.
        for pieces in (False, True):
            self._follow(Rules(self.trace, pieces=True) if pieces else rules_of(trace))
            try:
                _check(trace.model, self.groups, self.trace.example)
                break
            except ValueError:
                if pieces:
                    raise

    def _follow(self, rules: Rules) -> None:
        self.rules, self.groups = rules, assembled(rules)
        self.tensors = {node.name: ids for node, ids in rules.values.items() if isinstance(ids, Tensor)}
        vars(self).pop("_members", None)

    def within(self, names: Collection[str]) -> "NeuronTrace":
        """The same if these grouped convolutions make their own neurons, free within their parts as long as the parts stay
        together. These groups are not checked, because permuting them alone changes the function."""
        inner = copy.copy(self)
        inner._follow(Rules(self.trace, within=names))
        return inner

    def places(self, node: str, axis: int) -> dict[int, Tensor] | None:
        """The places of each group's neurons in a tensor of the trace.

        Args:
            axis: neuron axis.
        Returns:
            Group number or `IN_PLACE` -> (neurons, copies) positions on the axis; empty if the trace has no such tensor, None
            if its neurons differ between positions.
        """
        if node not in self.tensors:
            return {}
        lines = self.rules.ids.of(self.tensors[node]).movedim(axis, -1).flatten(0, -2)
        if not torch.equal(lines, lines[:1].expand_as(lines)):
            return None
        return self._places(lines[0])

    def places_made(self, weight: str, start: int, width: int) -> dict[int, Tensor]:
        """The same for the neurons that rows `start` to `start + width` of a weight make; empty if they make none."""
        ids, kind = self.rules.axes.get((weight, 0), (torch.zeros(0, dtype=torch.int64), ""))
        return self._places(self.rules.ids.of(ids[start : start + width])) if kind == "out" else {}

    def _places(self, line: Tensor) -> dict[int, Tensor]:
        places = self._members.places(line)
        if IN_PLACE in places:
            places[IN_PLACE] = places.pop(IN_PLACE).T
        return places

    @cached_property
    def _members(self) -> "Members":
        """The neurons of each group, and of `IN_PLACE`."""
        members, axes = Members(self.rules), self.rules.axes
        for number, group in enumerate(self.groups):
            parts = (part for part in group.parts if (part.name, part.axis) in axes)
            if part := next(parts, None):
                members.add(number, self.rules.ids.of(axes[part.name, part.axis][0])[part.index[:, 0]])
        members.add(IN_PLACE, torch.tensor([FIXED]))
        return members


class Members:
    """Which ids are neurons of which group, in which order."""

    def __init__(self, rules: Rules) -> None:
        ids = len(rules.ids.root)
        self.group, self.rank = torch.full((ids,), NO_GROUP), torch.zeros(ids, dtype=torch.int64)
        self.widths: dict[int, int] = {}

    def add(self, number: int, neurons: Tensor) -> None:
        """A group's neurons, in order."""
        self.group[neurons], self.rank[neurons] = number, torch.arange(len(neurons))
        self.widths[number] = len(neurons)

    def places(self, line: Tensor) -> dict[int, Tensor]:
        """Group number -> (width, copies) positions of its neurons on a line of ids, where all occur equally often."""
        groups, ranks = self.group[line].numpy(), self.rank[line].numpy()
        order = np.lexsort((ranks, groups))  # stable
        groups, ranks = groups[order], ranks[order]
        starts = np.flatnonzero(np.diff(groups, prepend=NO_GROUP - 1))
        places = {}
        for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
            number, width = int(groups[start]), self.widths.get(int(groups[start]), 0)
            if width and (end - start) % width == 0:
                neurons = ranks[start:end].reshape(width, -1)
                if (neurons == np.arange(width)[:, None]).all():
                    places[number] = torch.from_numpy(order[start:end].reshape(width, -1))
        return places


def assembled(rules: Rules) -> list[Group]:
    """Group neurons that occur in the same tensors, equally often and under the same labels; without those that only buffers
    make (coordinates), which no network trains."""
    axes = list(_axes(rules))
    kinds = torch.zeros(len(rules.ids.root), dtype=torch.int64)  # equal for ids that nothing separates yet
    for _, _, ids, _ in axes:
        _separate(kinds, *ids.unique(return_counts=True))
    kinds[FIXED] = 0
    for neurons, marks in _labels(rules):
        _separate(kinds, neurons[kinds[neurons] > 0], marks[kinds[neurons] > 0])
    head = rules.ids.of(rules.head).unique()
    head = head[kinds[head] > 0]
    _separate(kinds, head, torch.ones_like(head))
    fixed = set(kinds[head].tolist())
    held: dict[int, list[int]] = defaultdict(list)  # kind -> numbers of the axes that it is on
    for number, (_, _, ids, _) in enumerate(axes):
        for kind in kinds[ids].unique().tolist():
            held[kind].append(number)
    held.pop(0, None)
    members = Members(rules)
    for kind, numbers in held.items():
        line = axes[_maker(axes, numbers)][2]
        neurons, first = np.unique(line[kinds[line] == kind].numpy(), return_index=True)
        members.add(kind, torch.from_numpy(neurons[first.argsort()]))  # in the order in which they first occur
    places = [members.places(ids) for _, _, ids, _ in axes]
    points = _points(rules, members)
    groups = [
        _group(rules, axes, {number: places[number][kind] for number in numbers}, points[kind], kind in fixed)
        for kind, numbers in held.items()
    ]
    buffers = {name for name, _ in rules.model.named_buffers()}
    makers = [{part.name for part in group.parts if part.kind != "in"} for _, group in groups]  # none: behind a sum
    trained = [
        pair for pair, names in zip(groups, makers, strict=True) if pair[1].fixed or not names or names - buffers
    ]  # a tied head reads its classes, and only a buffer may make them
    return named_apart([group for _, group in sorted(trained, key=lambda pair: pair[0])])


def _separate(kinds: Tensor, neurons: Tensor, marks: Tensor) -> None:
    """Give neurons a kind of their own for every mark, and for every kind that they had."""
    _, numbers = (kinds[neurons] * (marks.max() + 1 if len(marks) else 1) + marks).unique(return_inverse=True)
    kinds[neurons] = kinds.max() + 1 + numbers


def _labels(rules: Rules) -> Iterator[tuple[Tensor, Tensor]]:
    """What separates neurons from others in the same tensors, their head or part of a GroupNorm: neurons and marks."""
    for split in rules.splits:
        labels: dict[int, set[tuple[int, ...]]] = defaultdict(set)
        for neuron, label in split.items():
            labels[int(rules.ids.root[neuron])].add(label)
        numbers: dict[frozenset[tuple[int, ...]], int] = {}
        marks = [numbers.setdefault(frozenset(of_neuron), len(numbers)) for of_neuron in labels.values()]
        yield torch.tensor(list(labels), dtype=torch.int64), torch.tensor(marks, dtype=torch.int64)


def _maker(axes: Sequence[tuple[str, int, Tensor, str]], numbers: Sequence[int]) -> int:
    """The number of the axis that makes neurons, of those that they are on."""
    return next((number for number in numbers if axes[number][3] == "out"), numbers[0])


def _group(
    rules: Rules,
    axes: Sequence[tuple[str, int, Tensor, str]],
    places: Mapping[int, Tensor],
    points: Sequence[Point],
    fixed: bool,
) -> tuple[Any, Group]:
    """A sort key, and a group in the order in which its layer makes the neurons.

    Args:
        places: axis number -> (width, copies) positions of the neurons.
    """
    first = _maker(axes, list(places))
    parts = [
        TensorPart(axes[number][0], axes[number][1], index, axes[number][3], axes[number][:2] in rules.tied)
        for number, index in places.items()
    ]
    name = axes[first][0].rpartition(".")[0]
    kind = type(rules.model.get_submodule(name)).__name__
    if axes[first][3] == "in":  # made by a sum (`groups_apart`), which is unnamed
        name = f"{name} (inputs)"
    group = Group(name or axes[first][0], kind, len(places[first]), tuple(parts), tuple(points), fixed)
    return (fixed, first, int(places[first][0, 0])), group


def _axes(rules: Rules) -> Iterator[tuple[str, int, Tensor, str]]:
    """(tensor, axis, representatives along it, kind)."""
    for (name, axis), (ids, kind) in rules.axes.items():
        yield name, axis, rules.ids.of(ids), kind
    for name, entries in rules.entries.items():
        ids = rules.ids.of(entries)
        varying = varying_axes(ids)
        if len(varying) > 1:  # leave entries that nothing reads, such as position biases of distances that do not occur
            numbers, places, counts = ids.unique(return_inverse=True, return_counts=True)
            ids = torch.where(counts[places] > 1, ids, FIXED) if (ids == FIXED).any() else ids
            varying = varying_axes(ids)
        if len(varying) > 1:
            ids = _filled(ids)
            varying = varying_axes(ids)
        if len(varying) > 1:
            raise ValueError(
                f"the neurons of {name!r} of shape {tuple(ids.shape)} are along more than one axis, so they cannot "
                "be reordered. Use KF-Gradient."
            )
        if varying:
            yield name, varying[0], ids.movedim(varying[0], 0).reshape(ids.shape[varying[0]], -1)[:, 0], "vector"


def _filled(ids: Tensor) -> Tensor:
    """The ids of a tensor's entries, where entries that nothing reads (position biases of distances that do not occur) get the
    id of their line, if along some axis all lines have one that is unique."""
    _, places, counts = ids.unique(return_inverse=True, return_counts=True)
    read = (counts[places] > 1) | (ids == FIXED)
    for axis in range(ids.ndim):
        lines, known = (tensor.movedim(axis, 0).flatten(1) for tensor in (ids, read))
        least = torch.where(known, lines, lines.max() + 1).amin(1)
        if known.any(1).all() and torch.equal(least, torch.where(known, lines, -1).amax(1)):
            return least.view([-1 if k == axis else 1 for k in range(ids.ndim)]).expand(ids.shape)
    return ids


def _points(rules: Rules, members: Members) -> dict[int, list[Point]]:
    """For a residual stream, its start and its sums; otherwise wherever its neurons are made; for every group number."""
    watchable: dict[int, list[tuple[Seen, Tensor]]] = defaultdict(list)
    for seen in rules.seen:
        with_bias = replace(seen, node=_biased(seen.node))
        for number, index in members.places(rules.ids.of(seen.ids)).items():
            watchable[number].append((with_bias, index))
    points = defaultdict(list)
    for number, places in watchable.items():
        if any(is_sum(seen.node) for seen, _ in places):
            first = places[0][0]
            stem = first if not all(map(is_sum, first.node.users)) else None
            places = [(seen, index) for seen, index in places if seen is stem or is_sum(seen.node)]
        for seen, index in places:
            points[number].append(
                Point(seen.node.name, _behind(seen.node, seen.axis, rules).name, seen.axis, index, seen.part)
            )
    return points


def _biased(node: fx.Node) -> fx.Node:
    """The sum of a product and a parameter, `x @ weight + bias`, which is what a linear layer gives; else the node itself."""
    users = list(node.users)
    if operation(node) not in ("matmul", "mm") or len(users) != 1 or operation(users[0]) != "add":
        return node
    return node if is_sum(users[0]) else users[0]


def _behind(node: fx.Node, axis: int, rules: Rules) -> fx.Node:
    """The activation function that reads a node, directly, after dropout or in other rows; else the node itself."""
    for user in node.users:
        if is_activation(user):
            return user
        in_rows = axis == -1 and operation(user) in ("view", "reshape")
        if does(user, TRANSPARENT) or (in_rows and node.meta["value"][-1] == user.meta["value"][-1]):
            further = _behind(user, axis, rules)
            if further is not user:
                return further
    return node


def named_apart(groups: Sequence[Any]) -> list[Any]:
    """Groups, of which several of one module (the heads of an attention) are numbered."""
    counts = Counter(group.name for group in groups)
    numbers = {name: iter(range(count)) for name, count in counts.items()}
    return [
        replace(group, name=f"{group.name}[{next(numbers[group.name])}]") if counts[group.name] > 1 else group
        for group in groups
    ]


@torch.no_grad()
def _check(model: nn.Module, groups: list[Group], example: Tensor) -> None:
    generator = torch.Generator().manual_seed(0)
    orders = {group.name: torch.randperm(group.width, generator=generator) for group in groups if not group.fixed}
    expected, outputs = (network(example.clone()) for network in (model, reordered(model, groups, orders)))
    size = expected.abs().max().clamp_min(1e-6)
    gap = ((expected - outputs).abs().max() / size).item()
    if not gap <= TOLERANCE.get(expected.dtype, 1e-3) and torch.isfinite(expected).all():
        raise ValueError(
            f"{class_name(model)} computes something else once its neurons are put into another order (outputs differ "
            f"by {gap:.2g} of their size), so its neurons cannot be aligned one by one. Use KF-Gradient."
        )
