"""Neuron groups: architecture as data.

A group holds neurons that may be permuted, and all entries of parameters and buffers that must be permuted with them to keep
the function. A residual stream is one group through all its blocks; each attention head is its own group.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, fx, nn

from ..levels.kinds import TRANSPARENT, is_activation, is_sum
from ..levels.tracing import Trace, trace
from ..levels.weights import refuse_computed_weights
from ..training_flags import evaluating
from ..wrappers import class_name
from .group import Group, Point, TensorPart
from .ids import FIXED
from .maps import reordered
from .rules import Rules, Seen, varying_axes

#: Largest relative change of the outputs at which a permuted network counts as the same.
TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-8}


#: The group number of neurons that are fixed whatever the weights.
IN_PLACE = -1


def neuron_groups(model: nn.Module, example: Tensor, *, leaves: Sequence[str] = ()) -> list[Group]:
    """The groups of a network in order of computation, classes last. See `NeuronTrace`."""
    with evaluating(model):
        return NeuronTrace(trace(model, leaves, example[:1])).groups


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
        self.trace = trace.of_one()
        refuse_computed_weights(trace.model, class_name(trace.model))
        # First try to keep pieces of a tensor in one group (as in a channel shuffle), then apart.
        for pieces in (False, True):
            self.rules = Rules(self.trace, pieces=pieces)
            self.groups = assembled(self.rules)
            try:
                _check(trace.model, self.groups, self.trace.example)
                break
            except ValueError:
                if pieces:
                    raise
        self.tensors = {node.name: ids for node, ids in self.rules.values.items() if isinstance(ids, Tensor)}

    def within(self) -> list[Group]:
        """The groups if grouped convolutions make their own neurons, free within their parts as long as the parts stay together.
        They are not checked, because permuting them alone changes the function."""
        return assembled(Rules(self.trace, within=True))

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
        line = lines[0]
        if not torch.equal(lines, line.expand_as(lines)):
            return None
        places, there = {}, set(line.tolist())
        for number, neurons in self._numbers.items():
            if int(neurons[0]) not in there:
                continue
            at = [(line == neuron).nonzero()[:, 0] for neuron in neurons]
            if len({len(positions) for positions in at}) == 1 and len(at[0]):
                places[number] = torch.stack(at)
        if IN_PLACE in places:
            places[IN_PLACE] = places[IN_PLACE].T
        return places

    @cached_property
    def _numbers(self) -> dict[int, Tensor]:
        """Group number or `IN_PLACE` -> ids of its neurons, in order."""
        numbers, axes = {}, self.rules.axes
        for number, group in enumerate(self.groups):
            parts = (part for part in group.parts if (part.name, part.axis) in axes)
            if part := next(parts, None):
                numbers[number] = self.rules.ids.of(axes[part.name, part.axis][0])[part.index[:, 0]]
        return numbers | {IN_PLACE: torch.tensor([FIXED])}


def assembled(rules: Rules) -> list[Group]:
    """Group neurons that occur in the same tensors, equally often and under the same labels; without those that only buffers
    make (coordinates), which no network trains."""
    axes = list(_axes(rules))
    where: dict[int, dict[int, list[int]]] = defaultdict(dict)  # neuron -> axis number -> positions on it
    for number, (_, _, ids, _) in enumerate(axes):
        for position, neuron in enumerate(ids.tolist()):
            where[neuron].setdefault(number, []).append(position)
    where.pop(FIXED, None)
    head = set(rules.ids.of(rules.head).unique().tolist())
    labels = _labels(rules)
    alike: dict[object, list[int]] = defaultdict(list)
    for neuron, positions in where.items():
        signature = tuple((number, len(same_positions)) for number, same_positions in positions.items())
        alike[signature, tuple(labels[neuron]), neuron in head].append(neuron)
    groups = [
        _group(rules, axes, {neuron: where[neuron] for neuron in neurons}, fixed)
        for (_, _, fixed), neurons in alike.items()  # type: ignore[misc]
    ]
    buffers = {name for name, _ in rules.model.named_buffers()}
    makers = [{part.name for part in group.parts if part.kind != "in"} for _, group in groups]  # none: behind a sum
    trained = [pair for pair, names in zip(groups, makers, strict=True) if not names or names - buffers]
    return _named_apart([group for _, group in sorted(trained, key=lambda pair: pair[0])])


def _labels(rules: Rules) -> dict[int, list[object]]:
    """What separates each neuron from others in the same tensors: its head, its part of a GroupNorm."""
    labels: dict[int, list[object]] = defaultdict(list)
    for number, split in enumerate(rules.splits):
        labels_of_split: dict[int, set[tuple[int, ...]]] = defaultdict(set)
        for neuron, label in split.items():
            labels_of_split[int(rules.ids.root[neuron])].add(label)
        for neuron, of_neuron in labels_of_split.items():
            labels[neuron].append((number, frozenset(of_neuron)))
    return labels


def _group(
    rules: Rules,
    axes: list[tuple[str, int, Tensor, str]],
    where: dict[int, dict[int, list[int]]],
    fixed: bool,
) -> tuple[Any, Group]:
    """A sort key, and the group of these neurons in the order in which their layer makes them."""
    numbers = list(next(iter(where.values())))
    first = next((number for number in numbers if axes[number][3] == "out"), numbers[0])
    neurons = sorted(where, key=lambda neuron: where[neuron][first])
    parts = [
        TensorPart(
            name, axis, torch.tensor([where[neuron][number] for neuron in neurons]), kind, (name, axis) in rules.tied
        )
        for number, (name, axis, _, kind) in ((number, axes[number]) for number in numbers)
    ]
    name = axes[first][0].rpartition(".")[0]
    kind = type(rules.model.get_submodule(name)).__name__
    points = tuple(_points(rules, neurons))
    if axes[first][3] == "in":  # made by a sum (`groups_apart`), which is unnamed
        name = f"{name} (inputs)"
    group = Group(name or axes[first][0], kind, len(neurons), tuple(parts), points, fixed)
    return (fixed, first, where[neurons[0]][first]), group


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


def _points(rules: Rules, neurons: list[int]) -> Iterator[Point]:
    """For a residual stream, its start and its sums; otherwise wherever its neurons are made."""
    watchable: list[tuple[Seen, Tensor]] = []
    for seen in rules.seen:
        ids = rules.ids.of(seen.ids)
        if not (ids == neurons[0]).any():
            continue
        positions: dict[int, list[int]] = {neuron: [] for neuron in neurons}
        for position, neuron in enumerate(ids.tolist()):
            if neuron in positions:
                positions[neuron].append(position)
        if len({len(same_positions) for same_positions in positions.values()}) == 1:
            watchable.append((seen, torch.tensor(list(positions.values()))))
    if any(is_sum(seen.node) for seen, _ in watchable):
        first = watchable[0][0]
        stem = first if not all(map(is_sum, first.node.users)) else None
        watchable = [(seen, index) for seen, index in watchable if seen is stem or is_sum(seen.node)]
    for seen, index in watchable:
        yield Point(seen.node.name, _behind(seen.node, rules).name, seen.axis, index, seen.part)


def _behind(node: fx.Node, rules: Rules) -> fx.Node:
    """The activation function that reads a node, directly or after dropout; else the node itself."""
    for user in node.users:
        if is_activation(user, rules.modules):
            return user
        if user.op == "call_module" and isinstance(rules.modules[user.target], TRANSPARENT):
            further = _behind(user, rules)
            if further is not user:
                return further
    return node


def _named_apart(groups: list[Group]) -> list[Group]:
    """Number several groups of one module (the heads of an attention)."""
    counts, numbers = Counter(group.name for group in groups), Counter[str]()
    renamed = []
    for group in groups:
        name = group.name
        if counts[name] > 1:
            name, numbers[group.name] = f"{group.name}[{numbers[group.name]}]", numbers[group.name] + 1
        renamed.append(replace(group, name=name))
    return renamed


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
