"""What of the parents corresponds to what of the fused network: layers, neurons and groups."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import torch
from torch import Tensor

from ..graph.groups import Groups
from ..graph.network import Network
from ..graph.spaces import Space, Spaces
from ..system.refusals import Refusal, cures_of
from .grouping import Grouper


def aligned(nets: Sequence[Network]) -> list[Network]:
    """The networks, of which deeper ones show only as many layers as the last one, the fused network.

    Between two changes of the number of positions (the stages of a convolutional network), neighbouring layers of a deeper
    network count as one, as equally many as possible, longer runs last; their neurons are those of its last layer. Networks of
    other stages, and those that the fused network exceeds, are returned as they are.
    """
    *parents, fused = nets
    ours, found = _stages(fused), list(nets)
    for number, net in enumerate(parents):
        stages = _stages(net)
        alike = [at for at, _ in stages] == [at for at, _ in ours]
        longer = alike and all(len(run) >= len(own) for (_, run), (_, own) in zip(stages, ours, strict=True))
        if len(net.layers) != len(fused.layers) and longer:
            last = [
                run[len(run) * (k + 1) // len(own) - 1]
                for (_, run), (_, own) in zip(stages, ours, strict=True)
                for k in range(len(own))
            ]
            found[number] = _showing(net, [*last, len(net.layers) - 1], fused) or net
    return found


def _stages(net: Network) -> list[tuple[int, list[int]]]:
    """Positions, and the layers that have so many, of each stage; without the last layer."""
    return [(at, list(run)) for at, run in groupby(range(len(net.layers) - 1), lambda number: _positions(net, number))]


def _positions(net: Network, number: int) -> int:
    """Positions per sample of a layer."""
    return net.spaces.neurons.shape(net.layers[number].place).numel() // net.widths[number]


def _showing(net: Network, layers: Sequence[int], fused: Network) -> Network | None:
    """A network with these layers alone, whose spaces are numbered as the fused network's; None if the layers make neurons of
    several spaces, or do not join them alike."""
    ours = dict[int, int]()  # its space -> the fused network's
    for number, own in enumerate(layers):
        one, other = (of.columns[place][:, 0].unique().tolist() for of, place in ((net, own), (fused, number)))
        if len(one) != 1 or len(other) != 1 or ours.setdefault(one[0], other[0]) != other[0]:
            return None
    if len({*ours.values()}) < len(ours) or ours.get(-1, -1) != -1:
        return None
    spaces, known = net.spaces, {number: space for space, number in ours.items()}
    empty = Space(torch.zeros(0, dtype=torch.int64), {})
    listed = [spaces[known[number]] if number in known else empty for number in range(len(fused.spaces))]
    numbers = torch.tensor([ours.get(space, len(fused.spaces)) for space in range(len(spaces))] + [-1])
    renumbered: Tensor = numbers[spaces.space]
    return replace(
        net, layers=[net.layers[own] for own in layers], spaces=Spaces(spaces.neurons, listed, renumbered, spaces.rank)
    )


def check_alike(nets: Sequence[Network]) -> None:
    """Check that layers and spaces of all networks correspond."""
    *parents, fused = nets
    counts = [len(net.layers) for net in parents]
    if set(counts) != {len(fused.layers)}:
        raise ValueError(
            f"the parents have {counts} levels and the fused network {len(fused.layers)}; they must have equally many, or change "
            "the number of positions alike. Use a target of the parents' depth."
        )
    for number, ours in enumerate(fused.layers):
        layers, columns = [net.layers[number] for net in nets], [net.columns[number] for net in nets]
        joints = [{(int(space), int(copies)) for space, _, copies in of_net.tolist()} for of_net in columns]
        counts, in_place = [*map(len, columns)], {space for of_net in joints for space, _ in of_net} == {-1}
        if in_place and len(set(counts)) > 1:
            raise ValueError(
                f"level {ours.name!r}: the parents have {counts[:-1]} classes and the fused network {counts[-1]}; class c is "
                "fused with class c. Give all of them the same classes (joined_heads)."
            )
        positions = [_positions(net, number) for net in nets]
        if not ours.mixes and len(set(positions)) > 1:
            raise ValueError(
                f"level {ours.name!r}: the parents have {positions[:-1]} positions per sample and the fused network "
                f"{positions[-1]}; outputs can be compared only position by position. Give all of them inputs and strides alike."
            )
        kinds = {layer.kind for layer in layers}
        if kinds == {"Embedding"}:
            rows = [
                len(net.weights[layer.operations[0].weight.names[0]]) for net, layer in zip(nets, layers, strict=True)
            ]
            if len(set(rows)) > 1:
                raise ValueError(
                    f"level {ours.name!r}: the parents' embeddings hold {rows[:-1]} rows and the fused network's {rows[-1]}; "
                    "row t is fused with row t. Give all of them the same tokens."
                )
        if len({layer.parts > 1 for layer in layers}) > 1:
            raise ValueError(
                f"level {ours.name!r}: a convolution is grouped in a parent or in the fused network, and not in the other, "
                "so their neurons do not correspond. Give all of them one architecture."
            )
        if len(kinds) > 1 or any(of_net != joints[-1] for of_net in joints):
            raise ValueError(
                f"level {ours.name!r}: its neurons are of different kinds in a parent and in the fused network, or skips "
                "join them to others, so they do not correspond. Give all of them one architecture."
            )


def check_groupings(groups: Groups) -> None:
    """Check that a grouping can group the neurons of every space."""
    for space, writers in groups.writers.items():
        if space in groups.labels:
            continue
        widths, width = groups.widths(space), len(groups.fused.spaces[space].ids)
        name = groups.fused.layers[writers[0]].name
        if width > sum(widths):
            raise Refusal(
                f"level {name!r}: {width} fused neurons for {sum(widths)} parents' neurons; some would represent nothing. "
                f"Use a target of at most {sum(widths)} there.",
                ("target", None),
            )
        shapes = [(width,), *((own,) for own in widths)]
        if groups.fused.spaces[space].family is not None:
            shapes = [net.spaces[space].shape for net in (groups.fused, *groups.nets[:-1])]
            if shapes[0][1] > min(own for _, own in shapes[1:]) or shapes[0][0] > sum(count for count, _ in shapes[1:]):
                ours, *theirs = [f"{count} of {own}" for count, own in shapes]
                raise ValueError(
                    f"level {name!r}: the fused network has {ours.replace(' of', ' parts of')} neurons (groups of a "
                    f"convolution), the parents {', '.join(theirs)}. Use a target with no more parts than all parents "
                    "together, each no wider than a parent's."
                )
        if isinstance(groups.grouping, Grouper):
            try:
                for ours, *theirs in zip(*shapes, strict=True):
                    groups.grouping.check(tuple(theirs), ours)
            except ValueError as error:
                raise Refusal(f"level {name!r}: {error}", *cures_of(error)) from error


def groups_in_words(groups: Groups) -> list[str]:
    """For each space, its first layer, its neurons and how they are grouped."""
    found, net = list[tuple[int, Sequence[int], int, str]](), groups.fused
    for space, writers in groups.writers.items():
        if writers and space not in groups.labels:
            compared = groups.compared(space)
            way = f"sum over {len(compared)} layers" if len(compared) > 1 else "its own outputs"
            way = way if net.spaces[space].family is None else "parts first, neurons within"
            found.append((writers[0], groups.widths(space), len(net.spaces[space].ids), way))
    for number in net.last:
        *widths, width = (len(columns) for columns in groups.columns(number))
        found.append((number, widths, width, "same index"))
    return [
        f"{net.layers[number].name}: {' + '.join(map(str, widths))} -> {width}, {way}"
        for number, widths, width, way in sorted(found)
    ]
