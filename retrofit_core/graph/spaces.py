"""Spaces: sets of neurons that may change places with each other without changing what a network computes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor, fx

from .graph import Graph, Weights
from .ids import UNIFORM
from .neurons import Neurons

#: Largest change of the outputs, relative to the largest of them, by another order of neurons.
TOLERANCE = {torch.float32: 1e-4, torch.float64: 1e-9}


@dataclass(frozen=True, eq=False)
class Space:
    """Neurons that may change places with each other; in grouped convolutions within their part, and parts as a whole."""

    ids: Tensor
    """(n,) their numbers, in order of first occurrence"""
    axes: dict[tuple[str, int], Tensor]
    """(parameter, axis) -> (n, copies): where each neuron lies; a grouped convolution's weight counts as a matrix of blocks"""
    family: int | None = None
    """The grouped convolutions whose parts hold these neurons; spaces of one family have the same parts"""
    parts: Tensor | None = None
    """(n,) the part of each neuron"""

    @property
    def shape(self) -> tuple[int, int]:
        """Parts, and neurons of each."""
        count = 1 if self.parts is None else int(self.parts.max()) + 1
        return count, len(self.ids) // count

    @property
    def inside(self) -> Tensor:
        """(parts, neurons of each) the neurons of each part; of a space that has a family."""
        assert self.parts is not None
        return self.parts.argsort(stable=True).view(self.shape)


@dataclass(frozen=True, eq=False)
class Spaces:
    """The neurons of one network, as spaces."""

    neurons: Neurons
    spaces: list[Space]
    space: Tensor
    """(numbers,) the space of a number; -1: it stays in place"""
    rank: Tensor
    """(numbers,) its place there"""

    def __len__(self) -> int:
        return len(self.spaces)

    def __getitem__(self, number: int) -> Space:
        return self.spaces[number]

    def columns(self, node: fx.Node, axis: int) -> Tensor:
        """(d, 3) space (-1: in place), place in it and copy of each neuron along an axis of a node's value."""
        line = self.neurons.line(node, axis)
        _, inverse = line.unique(return_inverse=True)
        order = inverse.argsort(stable=True)
        counts = inverse.bincount()
        copy = torch.empty_like(line)
        copy[order] = torch.arange(len(line)) - (counts.cumsum(0) - counts).repeat_interleave(counts)
        free = line > UNIFORM
        return torch.stack(
            [
                self.space[line],
                torch.where(free, self.rank[line], torch.arange(len(line))),
                torch.where(free, copy, 0),
            ],
            1,
        )

    def spots(self, node: fx.Node, axis: int, ids: Tensor) -> list[Tensor]:
        """For each copy of some neurons along an axis of a node's value: where they lie, in the shape of their numbers."""
        where = (self.neurons.line(node, axis) == ids.flatten()[:, None]).nonzero()[:, 1]
        copies = len(where) // ids.numel()
        return list(where.view(*ids.shape, copies).unbind(-1)) if copies * ids.numel() == len(where) else []


def spaces_of(
    graph: Graph, weights: Weights, sample: Sequence[Tensor], *, parts: bool = True, opaque: bool = False
) -> Spaces:
    """The spaces of a network, checked: another order of each leaves the outputs.

    Args:
        sample: inputs of ONE sample.
        parts: whether grouped convolutions make neurons of their own; else each of their parts counts as one neuron.
        opaque: see `Neurons`.
    Raises:
        ValueError: neurons cannot be followed through an operation.
    """
    for pieces in (False, True):
        whole = set() if parts else set(graph.nodes)
        # Grouped convolutions whose parts cannot change places, or hold neurons of several kinds, count as they are.
        while True:
            neurons = Neurons(graph, weights, sample, pieces=pieces, whole=whole, opaque=opaque)
            of_parts = _parts(neurons)
            found, unlike = _assembled(neurons, of_parts)
            conflicts = {
                node for node in neurons.grouped if of_parts.family.get(node) in unlike or node in of_parts.conflicts
            }
            if not conflicts:
                break
            whole |= conflicts
        if _unchanged(graph, weights, sample, neurons, found):
            return _numbered(neurons, found)
    if opaque:  # all stay in place
        neurons.ids.root.zero_()
        neurons.lost = True
        return _numbered(neurons, [])
    raise ValueError("another order of its neurons changes what it computes, so they were not followed rightly.")


def assembled(neurons: Neurons) -> Spaces:
    """The spaces of neurons that were followed, unchecked."""
    return _numbered(neurons, _assembled(neurons, _parts(neurons))[0])


def _numbered(neurons: Neurons, spaces: list[Space]) -> Spaces:
    numbers = len(neurons.ids.root)
    space, rank = torch.full((numbers,), -1), torch.zeros(numbers, dtype=torch.int64)
    for number, each in enumerate(spaces):
        space[each.ids], rank[each.ids] = number, torch.arange(len(each.ids))
    return Spaces(neurons, spaces, space, rank)


@dataclass(frozen=True, eq=False)
class _Parts:
    """The parts of all grouped convolutions that make neurons of their own."""

    family: dict[fx.Node, int]
    of: Tensor
    """(numbers,) the part of each neuron among those of its family; -1: none"""
    family_of: Tensor
    """(numbers,)"""
    conflicts: set[fx.Node]
    """Convolutions whose parts share neurons with one another"""


def _parts(neurons: Neurons) -> _Parts:
    """Parts that share neurons are one part, and their convolutions one family."""
    size = len(neurons.ids.root)
    part, family = torch.full((size,), -1), torch.full((size,), -1)
    families, conflicts = dict[fx.Node, int](), set[fx.Node]()
    for node, sides in neurons.grouped.items():
        reads, makes = (neurons.ids.of(side) for side in sides)
        if any(side.unique().numel() < side.numel() or (side <= UNIFORM).any() for side in (reads, makes)):
            conflicts.add(node)
            continue
        known = part[reads]
        number = next((n for n in family[reads].flatten().tolist() if n >= 0), len(families))
        if (known >= 0).any():  # the parts of an earlier one
            alike = (known == known[:, :1]).all() and known[:, 0].unique().numel() == len(reads)
            if not (alike and (family[reads] == number).all()):
                conflicts |= {node, *(other for other, of in families.items() if of == number)}
                continue
            own = known[:, :1]
        else:
            own = torch.arange(len(reads))[:, None]
        for side in (reads, makes):
            if ((part[side] >= 0) & (part[side] != own.expand_as(side))).any():
                conflicts.add(node)
            part[side], family[side] = own.expand_as(side), number
        families[node] = number
    return _Parts(families, part, family, conflicts)


def _assembled(neurons: Neurons, parts: _Parts) -> tuple[list[Space], set[int]]:
    """The spaces: neurons with the same marks, which are the parameters in which they lie, how often, and the sets to which they
    belong. And the families whose parts do not all have equally many of a space's neurons."""
    keys = [*neurons.axes]
    lines = [neurons.ids.of(line).numpy() for line in neurons.axes.values()]
    sets = [neurons.ids.of(line).numpy() for lines in neurons.apart for line in lines]
    roots = np.concatenate([*lines, *map(np.unique, sets)] or [np.zeros(0, dtype=np.int64)])
    marks = np.repeat(np.arange(len(lines) + len(sets)), [*map(len, lines), *(len(np.unique(line)) for line in sets)])
    total = len(lines) + len(sets) + 1
    pairs, counts = np.unique(roots * total + marks, return_counts=True)
    pairs = np.stack([pairs // total, pairs % total], 1)
    ends = np.flatnonzero(np.diff(pairs[:, 0], append=-1)) + 1
    alike = dict[bytes, list[int]]()
    first = dict(zip(*np.unique(np.concatenate(lines), return_index=True), strict=True)) if lines else {}
    for start, end in zip([0, *ends[:-1]], ends, strict=True):
        if (root := pairs[start, 0]) > UNIFORM and root in first:
            mark = np.concatenate([pairs[start:end, 1], counts[start:end]]).tobytes()
            alike.setdefault(mark, []).append(int(root))
    ordered = sorted(
        (sorted(found, key=first.__getitem__) for found in alike.values()), key=lambda found: first[found[0]]
    )
    spaces, unlike = list[Space](), set[int]()
    counts_of: dict[int, int] = {}
    axes = _axes(keys, lines, ordered, len(neurons.ids.root))
    for number, found in enumerate(ordered):
        own = torch.tensor(found)
        space = Space(own, axes[number])
        families = parts.family_of[own].unique().tolist()
        if families != [-1]:
            of_neurons = parts.of[own]
            inside = of_neurons[of_neurons >= 0].bincount()
            count = counts_of.setdefault(families[-1], len(inside))
            if len(families) > 1 or len(inside) != count or len(inside.unique()) > 1:
                unlike |= set(families)
            space = replace(space, family=families[-1], parts=of_neurons)
        spaces.append(space)
    return spaces, unlike


def _axes(
    keys: Sequence[tuple[str, int]], lines: Sequence[np.ndarray], spaces: Sequence[Sequence[int]], size: int
) -> list[dict[tuple[str, int], Tensor]]:
    """For each space: where its neurons lie on each line of numbers, (n, copies)."""
    space, rank = np.full(size, -1), np.zeros(size, dtype=np.int64)
    for number, roots in enumerate(spaces):
        space[roots], rank[roots] = number, np.arange(len(roots))
    found: list[dict[tuple[str, int], Tensor]] = [{} for _ in spaces]
    for key, line in zip(keys, lines, strict=True):
        order = np.lexsort((rank[line], space[line]))  # stable
        of_line = space[line][order]
        starts = np.flatnonzero(np.diff(of_line, prepend=-2))
        for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
            if (number := of_line[start]) >= 0:
                found[number][key] = torch.from_numpy(order[start:end].reshape(len(spaces[number]), -1))
    return found


# --- other orders ---------------------------------------------------------------------------------------------------------------


def as_matrix(weight: Tensor, groups: int) -> Tensor:
    """(G o, c, ...) weight of a grouped convolution -> (G o, G c, ...), zero outside of its blocks."""
    parts = weight.unflatten(0, (groups, -1)).movedim(2, 1)  # (G, c, o, ...)
    matrix = weight.new_zeros(groups, parts.shape[1], groups, *parts.shape[2:])
    number = torch.arange(groups)
    matrix[number, :, number] = parts
    return matrix.flatten(2, 3).flatten(0, 1).movedim(1, 0)


def as_blocks(matrix: Tensor, groups: int) -> Tensor:
    """The inverse of `as_matrix`."""
    number = torch.arange(groups)
    parts = matrix.unflatten(0, (groups, -1)).unflatten(2, (groups, -1))[number, :, number]
    return parts.flatten(0, 1)


def permuted_weights(
    weights: Weights, neurons: Neurons, spaces: Iterable[Space], orders: Iterable[Tensor]
) -> dict[str, Tensor]:
    """The weights with the neurons of each space in another order.

    Args:
        orders: of each space, (n,) the neuron that comes to each place; parts of a family change places alike.
    """
    new = dict(weights)
    for name, groups in neurons.blocks.items():
        new[name] = as_matrix(new[name], groups)
    for space, order in zip(spaces, orders, strict=True):
        for (name, axis), places in space.axes.items():
            index = torch.arange(new[name].shape[axis])
            index[places.flatten()] = places[order].flatten()
            new[name] = new[name].index_select(axis, index.to(new[name].device))
    for name, groups in neurons.blocks.items():
        new[name] = as_blocks(new[name], groups)
    return new


def random_orders(spaces: Iterable[Space], generator: torch.Generator) -> list[Tensor]:
    """An order of each space's neurons, in which no set of them keeps its place; parts of a family change places alike."""
    of_parts: dict[int, Tensor] = {}
    orders = []
    for space in spaces:
        if space.family is None:
            orders.append(_cycle(len(space.ids), generator))
            continue
        inside = space.inside
        if space.family not in of_parts:
            of_parts[space.family] = _cycle(len(inside), generator)
        turned = torch.stack([part[_cycle(len(part), generator)] for part in inside[of_parts[space.family]]])
        order = torch.empty_like(space.ids)
        order[inside.flatten()] = turned.flatten()
        orders.append(order)
    return orders


def _cycle(count: int, generator: torch.Generator) -> Tensor:
    line, order = torch.randperm(count, generator=generator), torch.empty(count, dtype=torch.int64)
    order[line] = line.roll(1)
    return order


def _unchanged(
    graph: Graph, weights: Weights, sample: Sequence[Tensor], neurons: Neurons, spaces: Sequence[Space]
) -> bool:
    orders = random_orders(spaces, torch.Generator().manual_seed(0))
    with torch.no_grad():
        both = [graph(w, *sample) for w in (weights, permuted_weights(weights, neurons, spaces, orders))]
    return all(
        torch.allclose(one, other, rtol=0, atol=TOLERANCE.get(one.dtype, 1e-4) * float(one.abs().max()), equal_nan=True)
        for one, other in zip(*both, strict=True)
    )
