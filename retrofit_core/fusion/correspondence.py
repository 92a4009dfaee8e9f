"""What of the parents corresponds to what of the fused network: layers, neurons and groups."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import torch

from ..graph.groups import Groups
from ..graph.network import Network
from ..graph.spaces import Space
from ..system.refusals import Refusal, cures_of
from .grouping import Grouper, check_enough


def aligned(nets: Sequence[Network], *, apart: bool = False) -> list[Network]:
    """The networks, of which deeper ones show only as many layers as the last one, the fused network, with common numbers of the
    spaces that their layers make.

    Between two changes of the number of positions (the stages of a convolutional network), neighbouring layers of a deeper
    network count as one, as equally many as possible, longer runs last; their neurons are those of its last layer. Networks of
    other stages, those that the fused network exceeds, and those whose layers share other neurons, are returned as they are.

    Args:
        apart: whether layers that share neurons in some networks alone may be grouped apart.
    """
    *parents, fused = nets
    if all(_spaces_made(net) == _spaces_made(fused) for net in parents):
        return list(nets)
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
            found[number] = replace(net, layers=[net.layers[own] for own in [*last, len(net.layers) - 1]])
    found = _joined(found, apart)
    return found if len({*map(str, map(_spaces_made, found))}) == 1 else list(nets)


def _stages(net: Network) -> list[tuple[int, list[int]]]:
    """Positions, and the layers that have so many, of each stage; without the last layer."""
    return [(at, list(run)) for at, run in groupby(range(len(net.layers) - 1), lambda number: _positions(net, number))]


def _positions(net: Network, number: int) -> int:
    """Positions per sample of a layer."""
    return net.spaces.neurons.shape(net.layers[number].place).numel() // net.widths[number]


def _spaces_made(net: Network) -> list[list[int]]:
    """The spaces whose neurons each layer makes."""
    return [columns[:, 0].unique().tolist() for columns in net.columns]


def _joined(nets: list[Network], apart: bool) -> list[Network]:
    """The networks with common numbers of their spaces: layers are of one space if they are in all networks. As they are if the
    numbers agree already, or cannot."""
    made = [*map(_spaces_made, nets)]
    several = any(len(own) > 1 for of_net in made for own in of_net)
    if several or all(of_net == made[-1] for of_net in made) or len({*map(len, made)}) > 1:
        return nets
    keys = [tuple(own[0] for own in of_layer) for of_layer in zip(*made, strict=True)]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(key for key in keys if -1 not in key))}
    together = all(len({key[k] for key in numbers}) == len(numbers) for k in range(len(nets)))
    if not (apart or together) or any(-1 in key and len(set(key)) > 1 for key in keys):
        return nets
    found = list[Network]()
    for k, net in enumerate(nets):
        listed = list[Space]()
        for key in numbers:
            others = [of.spaces[space].axes for of, space in zip(nets, key, strict=True)]
            axes = net.spaces[key[k]].axes.items()
            shared = {place: copies for place, copies in axes if all(place in other for other in others)}
            listed.append(replace(net.spaces[key[k]], axes=shared))
        space = torch.full((len(net.spaces) + 1,), len(numbers))
        space[-1] = -1
        for key, number in numbers.items():
            space[key[k]] = number
        renumbered = replace(net, spaces=replace(net.spaces, spaces=listed, space=space[net.spaces.space]))
        renumbered.columns = [columns.clone() for columns in net.columns]
        for columns, key in zip(renumbered.columns, keys, strict=True):
            columns[:, 0] = numbers.get(key, -1)
        found.append(renumbered)
    return found


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
                "fused with class c. Give all of them the same classes."
            )
        positions = [_positions(net, number) for net in nets]
        if not ours.mixes and len(set(positions)) > 1:
            raise ValueError(
                f"level {ours.name!r}: the parents have {positions[:-1]} positions per sample and the fused network "
                f"{positions[-1]}; outputs can be compared only position by position. Give all of them inputs and strides alike."
            )
        kinds = {layer.kind for layer in layers if layer.operations}
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
        check_enough(f"level {name!r}", widths, width)
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
