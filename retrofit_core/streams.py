"""Which levels of one network make neurons that belong together: residual streams, heads, parts of grouped convolutions, kinds.

Neurons that a computation joins (an addition, a concatenation, a convolution channel by channel) share one grouping.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from .attention import attentions
from .levels import Kind, Level, Parts, is_branched
from .levels.opening import rows_of
from .symmetry import Group, neuron_groups


def with_streams(
    model: nn.Module, levels: list[Level], example: Tensor, network: str, leaves: Sequence[str] = ()
) -> list[Level]:
    """The levels, each knowing the residual stream to which it writes, or whose channels it treats one by one; those of a plain
    chain, and those that no closed form can fit, as they are.

    Raises:
        ValueError: the network's neurons cannot be followed, or a level makes neurons of several kinds.
    """
    joined = is_branched(levels) or any(level.adds or level.partwise or level.vectors for level in levels)
    if not joined or any(not (level.layers or level.tables) for level in levels):
        return levels
    try:
        example = example.to(next(model.parameters()).dtype)
        groups = neuron_groups(model, example, leaves=leaves)
        parts: dict[int, Parts] = {}
        if any(level.partwise and not level.channelwise for level in levels):
            classes = {number for number, group in enumerate(groups) if group.fixed}
            levels, parts = _with_parts(levels, [_made_by(level, groups, model) for level in levels], classes)
            if any(level.why_not_affine for level in levels):
                return levels
            groups = neuron_groups(model, example, leaves=leaves, within=True)
        rows = [_made_by(level, groups, model) for level in levels]
        made = {
            group: {index: own[number] for index, own in enumerate(rows) if number in own}
            for number, group in enumerate(groups)
        }
        heads = {level: attention for attention in attentions(levels, made, example) for level in attention.levels}
    except ValueError as error:
        if not is_branched(levels) and not any(level.adds for level in levels):
            unknown = [level.partwise > 0 or bool(level.vectors) for level in levels]
            return [_not_affine(level, str(error)) if no else level for level, no in zip(levels, unknown, strict=True)]
        raise ValueError(f"{network}: {error}") from error
    levels, firsts, kinds = list(levels), dict[int, tuple[int, int]](), list[tuple[Kind, ...]]()
    for index, (level, own) in enumerate(zip(levels, rows, strict=True)):
        if index in heads:
            kinds.append(())
            continue
        if level.channelwise and not (_followed(level, own) and all(number in firsts for number in own)):
            why = (
                "it works channel by channel, on channels that no level before it makes, so their groups are not known"
            )
            return [*levels[:index], _not_affine(level, why), *levels[index + 1 :]]
        unread = any(_multiplied(groups[number], made[groups[number]]) for number in own)
        if why := _why_not_grouped(level, own, unread=unread, in_parts=index in parts):
            raise ValueError(f"{network}: the neurons of level {level.name!r} {why}. Use KF-Gradient.")
        for which, number in enumerate(own):
            firsts.setdefault(number, (index, which))
        kinds.append(tuple(Kind(firsts[number], places, groups[number].fixed) for number, places in own.items()))
    levels = [replace(level, kinds=own) for level, own in zip(levels, kinds, strict=True)]
    streams = [level.kinds[0].first if level.kinds and level.plain else None for level in levels]
    shared = Counter(streams)
    return [
        replace(
            level,
            stream=streams.index(first) if first is not None and shared[first] > 1 else None,
            carried=tuple(_carried(name, level, groups, rows[:index], network) for name in level.vectors),
            heads=heads.get(index),
            parts=parts.get(index),
        )
        for index, (level, first) in enumerate(zip(levels, streams, strict=True))
    ]


def _followed(level: Level, own: Mapping[int, Tensor]) -> bool:
    """Whether each of a level's neurons is known."""
    return sum(places.numel() for places in own.values()) == level.width


def _why_not_grouped(level: Level, own: Mapping[int, Tensor], *, unread: bool, in_parts: bool) -> str:
    """Why a level's neurons cannot be grouped with those of other networks; empty where they can.

    Args:
        own: group -> places of its neurons.
        unread: whether some of them are multiplied and read by no layer.
        in_parts: whether they lie in the parts of a grouped convolution.
    """
    if not _followed(level, own):
        return (
            "cannot change places (it mixes positions, or makes one number for each), so those of several networks cannot "
            "be grouped"
        )
    if unread and not in_parts:
        return (
            "are multiplied with others and read by no layer (an attention of another kind, say), so their sizes would not "
            "be kept"
        )
    if in_parts and len(own) > 1:
        return f"lie in parts of a grouped convolution and belong to {len(own)} kinds that cannot be exchanged"
    return ""


def _multiplied(group: Group, rows: Mapping[int, Tensor]) -> bool:
    """Whether neurons are made more than once and read by no layer, as queries and keys are."""
    read = group.fixed or any(part.kind == "in" for part in group.parts)
    return not read and sum(places.shape[1] for places in rows.values()) > 1


def _with_parts(
    levels: Sequence[Level], rows: Sequence[dict[int, Tensor]], classes: set[int]
) -> tuple[list[Level], dict[int, Parts]]:
    """The levels, those not affine whose grouped convolutions cannot be fitted; and the parts in which a level's neurons lie.

    Args:
        rows: of each level, see `_made_by`, from groups of neurons that are the parts of grouped convolutions as a whole.
        classes: the groups that hold them.
    """
    levels, numbers = list(levels), set[int]()
    for index, (level, own) in enumerate(zip(levels, rows, strict=True)):
        if not level.partwise or level.channelwise:
            continue
        why = ""
        if level.head or classes & set(own):
            why = "its grouped convolution makes the classes"
        elif not any(set(own) & set(earlier) for earlier in rows[:index]):
            why = "it is a grouped convolution of channels that no level before it makes, so their groups are not known"
        elif len(own) > 1 or not torch.equal(own[min(own)], torch.arange(level.width).view(level.partwise, -1)):
            why = (
                f"the {level.partwise} parts of its grouped convolution are not those of the layers that it reads, so they "
                "cannot be matched as a whole"
            )
        if why:
            levels[index] = _not_affine(level, why)
        else:
            numbers |= set(own)
    alike = {number: [index for index, own in enumerate(rows) if set(own) == {number}] for number in numbers}
    return levels, {index: Parts(same[0], rows[index][number]) for number, same in alike.items() for index in same}


def _made_by(level: Level, groups: Sequence[Group], model: nn.Module) -> dict[int, Tensor]:
    """Number of a group -> (neurons, copies) the positions of its neurons in a level's output, for the groups that it makes."""
    made: dict[int, Tensor] = {}
    rows = [rows_of(model, path, layer.weight) for path, layer in zip(level.paths, level.layers, strict=False)]
    rows += [(f"{path}.weight", 0) for path in level.paths[len(rows) :]]
    axis = 1 if level.tables else 0  # of the neurons in the weights
    for number, group in enumerate(groups):
        for part in group.parts:
            if part.axis == axis and part.kind in ("out", "vector"):
                for places in (part.index - start for name, start in rows if name == part.name):
                    inside = (places >= 0) & (places < level.width)
                    if inside.any():
                        made[number] = places[inside].view(len(places), -1)
    return made


def _carried(
    name: str, level: Level, groups: Sequence[Group], rows: Sequence[dict[int, Tensor]], network: str
) -> tuple[str, int, int]:
    """(name, axis, number of the level that makes the neurons) of a parameter that holds numbers for each neuron.

    Args:
        rows: of the levels before, see `_made_by`.
    """
    owners = {
        (number, part.axis): part.index
        for number, group in enumerate(groups)
        for part in group.parts
        if part.name == name
    }
    own = {number: index for (number, _), index in owners.items()}
    makers = [
        number
        for number, made in enumerate(rows)
        if made.keys() == own.keys() and all(torch.equal(made[group], index) for group, index in own.items())
    ]
    axes = {axis for _, axis in owners}
    if len(axes) != 1 or not makers:
        raise ValueError(
            f"{network}: {name!r} at level {level.name!r} does not hold numbers for the neurons of a level before, so it is "
            "not known what it is in the fused network. Use KF-Gradient."
        )
    return name, axes.pop(), makers[0]


def _not_affine(level: Level, why: str) -> Level:
    """A level that the closed form cannot fit, for this reason."""
    return replace(level, layers=(), tables=(), prefix=None, adds=False, paths=(), why_not_affine=why)
