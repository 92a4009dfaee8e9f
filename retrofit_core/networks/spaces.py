"""Which levels of one network make neurons that belong together: residual streams, heads, parts of grouped convolutions, kinds.

Neurons that a computation joins (an addition, a concatenation, a convolution channel by channel) share one grouping.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from .attention import attentions
from .levels import Carried, Heads, Level, Parts, Space, Written, compose, is_branched, rows
from .levels.forms import Lookup, Opaque, Tied
from .levels.kinds import TRANSPOSED
from .levels.opening import rows_of
from .levels.tracing import Trace
from .symmetry import IN_PLACE, Group, NeuronTrace

#: The way out where neurons at a level's end cannot be grouped, in levels that are not cut there.
ELSEWHERE = (
    "Let no level end there: fit='gradient' (HF-Gradient, KF-Gradient) with boundaries=[names of other modules], or 1."
)
#: The way out of levels that end behind every layer.
INSTEAD = "Use KF-Gradient; if you named boundaries, leave them out."


def with_spaces(trace: Trace, levels: list[Level], network: str, *, inside: bool = True) -> list[Level]:
    """The levels, each knowing the spaces of its neurons and what it holds for neurons before; those inside of blocks that no
    closed form can fit as they are.

    Args:
        trace: of which the levels were cut.
        network: its name, for messages.
        inside: whether levels end behind every layer (boundaries="layers").
    Raises:
        ValueError: the network's neurons cannot be followed, or a level makes neurons of several spaces that cannot be grouped.
    """
    branched = is_branched(levels) or any(level.form.adds for level in levels)
    joined = branched or any(level.form.parts or _vectors(level) for level in levels)
    closed = all(level.form.closed for level in levels) and (joined or inside)  # else a chain that gradient fits take
    if branched and not closed:
        return _apart(levels)
    parts: dict[int, Parts] = {}
    try:
        traced = NeuronTrace(trace)
        groups, seen = traced.groups, [_places(traced, level) for level in levels]
        if closed and any(level.form.parts and not level.form.channelwise for level in levels):
            classes = {number for number, group in enumerate(groups) if group.fixed}
            levels, parts = _with_parts(levels, [_places_made(level, groups, trace.model) for level in levels], classes)
            if not all(level.form.closed for level in levels):
                return _apart(levels)
            groups = traced.within()
    except Exception as error:  # whatever a rule meets that is unknown to it
        if branched and isinstance(error, ValueError):
            raise ValueError(f"{network}: {error}") from error
        if branched:
            raise
        unknown = [closed and (level.form.parts > 0 or bool(_vectors(level))) for level in levels]
        levels = [
            _not_affine(level, _reason(error)) if no else level for level, no in zip(levels, unknown, strict=True)
        ]
        return _not_followed(levels, trace.example, network, error)
    try:
        makes = [
            _places_made(level, groups, trace.model) if level.form.closed else _movable(seen[index])
            for index, level in enumerate(levels)
        ]
        found = attentions(levels, _makers(groups, makes), trace.example) if closed else []
    except ValueError as error:
        raise ValueError(f"{network}: {error}") from error
    heads = {level: attention for attention in found for level in attention.levels}
    spaces, writing = dict[int, Space](), list[Level]()
    for index, (level, places) in enumerate(zip(levels, makes, strict=True)):
        if index in heads:
            writing.append(replace(level, writes=_whole(level, index, blocks=heads[index])))
            continue
        if closed and level.form.channelwise and not (_followed(level, places) and places.keys() <= spaces.keys()):
            why = (
                "it works channel by channel, on channels that no level before it makes, so their groups are not known"
            )
            return _apart([*levels[:index], _not_affine(level, why), *levels[index + 1 :]])
        if not branched and not _followed(level, places):
            unknown = _unfollowed(levels, index, seen[index], trace.example, network)
            writing.append(replace(level, writes=unknown))
            continue
        if not _followed(level, places) and (fixed := _in_place(seen[index])) is not None:
            places = {**places, IN_PLACE: fixed}  # heads, pixels: what stays where it is in every network
        if why := _why_not_grouped(level, places, in_parts=index in parts):
            raise ValueError(f"{network}: the neurons of level {level.name!r} {why}. {INSTEAD}")
        writing.append(replace(level, writes=_written(index, places, groups, spaces, parts.get(index))))
    writing = [
        replace(level, carried=_carried_by(level, groups, makes[:index], network if closed else ""))
        for index, level in enumerate(writing)
    ]
    return numbered(writing if joined and closed else _telling(writing, streams=closed))


def _movable(places: Mapping[int, Tensor] | None) -> dict[int, Tensor]:
    """Of the places of a level's neurons those of groups: what stays where it is in every network is no group."""
    return {number: positions for number, positions in (places or {}).items() if number != IN_PLACE}


def _makers(groups: Sequence[Group], makes: Sequence[Mapping[int, Tensor]]) -> dict[Group, dict[int, Tensor]]:
    """Of each group the levels that make it, with the places of its neurons.

    Args:
        makes: of each level, by number of a group.
    """
    return {
        group: {index: places[number] for index, places in enumerate(makes) if number in places}
        for number, group in enumerate(groups)
    }


def _written(
    index: int,
    places: Mapping[int, Tensor],
    groups: Sequence[Group],
    spaces: dict[int, Space],
    blocks: Parts | None = None,
) -> tuple[Written, ...]:
    """What a level writes of each group.

    Args:
        places: number of a group -> (neurons, copies) positions of its neurons.
        spaces: those of the groups that levels before make; the level's are added.
    """
    for number in places:
        if number == IN_PLACE:  # of this level alone
            spaces[number] = Space(index, index, fixed=True)
        spaces.setdefault(number, Space(index, index, groups[number].fixed))
    return tuple(Written(spaces[number], positions, blocks) for number, positions in places.items())


def _whole(level: Level, index: int, *, fixed: bool = False, blocks: Heads | None = None) -> tuple[Written, ...]:
    """A space that holds all neurons of a level, and no others."""
    return (Written(Space(index, index, fixed), torch.arange(level.width)[:, None], blocks),)


def _apart(levels: Sequence[Level]) -> list[Level]:
    """The levels, each of which makes a space of its own."""
    return numbered(
        [replace(level, writes=_whole(level, index, fixed=level.head)) for index, level in enumerate(levels)]
    )


def numbered(levels: Sequence[Level]) -> list[Level]:
    """The levels with their spaces numbered in the order in which levels make them."""
    spaces: dict[Space, Space] = {}
    for written in (written for level in levels for written in level.writes):
        spaces.setdefault(written.space, replace(written.space, number=len(spaces)))
    return [
        replace(level, writes=tuple(replace(written, space=spaces[written.space]) for written in level.writes))
        for level in levels
    ]


def stream(levels: Sequence[Level], index: int) -> list[int]:
    """The levels that make the same neurons as this one and no others, itself among them: those of one residual stream."""
    if not levels[index].plain:
        return [index]
    space = levels[index].writes[0].space
    return [number for number, level in enumerate(levels) if level.plain and level.writes[0].space is space]


def _places(neurons: NeuronTrace, level: Level) -> dict[int, Tensor] | None:
    """Where each group's neurons lie in a level's output, see `NeuronTrace.places`."""
    return neurons.places(
        level.output.node, min(level.axis, 1)
    )  # of several frames the trace has channels in the first axis


def _telling(levels: Sequence[Level], *, streams: bool = True) -> list[Level]:
    """The levels of a chain, each with a space of its own where its spaces, or those of another level with the same neurons, are
    simply all its neurons.

    Args:
        streams: keep those, too, that several levels make.
    """
    told = {
        written.space
        for index, level in enumerate(levels)
        for written in level.writes
        if not level.plain or (level.fixed and not level.head) or (streams and len(stream(levels, index)) > 1)
    }
    return [
        level
        if any(written.space in told for written in level.writes) or level.blocks
        else replace(level, writes=_whole(level, index, fixed=level.head))
        for index, level in enumerate(levels)
    ]


def _not_followed(levels: list[Level], example: Tensor, network: str, error: Exception) -> list[Level]:
    """The levels of a chain whose neurons no rule can follow, if those of each are exchanged by what reads them.

    Raises:
        ValueError: those of a level are not.
    """
    for index, level in enumerate(levels[:-1]):
        if not _exchanged(levels, index, example):
            raise ValueError(
                f"{network}: the neurons of level {level.name!r} cannot change places, and how they belong together is not "
                f"known: {_reason(error)}. {ELSEWHERE}"
            )
    return _apart(levels)


def _unfollowed(
    levels: Sequence[Level], index: int, places: Mapping[int, Tensor] | None, example: Tensor, network: str
) -> tuple[Written, ...]:
    """What a chain's level writes whose neurons are not, or not all, in a group: a space of its own, which is fixed unless what
    reads them exchanges them.

    Args:
        places: see `NeuronTrace.places`.
    Raises:
        ValueError: its rows are neurons of a level before.
    """
    level = levels[index]
    if level.head:
        return _whole(level, index, fixed=True)
    if places is None:
        raise ValueError(
            f"{network}: the rows of level {level.name!r} are neurons of a level before it, whose order differs from network to "
            f"network, so its outputs cannot be compared row by row. {ELSEWHERE}"
        )
    in_place = IN_PLACE in places and _followed(level, {IN_PLACE: places[IN_PLACE]})
    free = _exchanged(levels, index, example) and not (in_place and not levels[index + 1].affine)
    return _whole(level, index, fixed=not free)


@torch.no_grad()
def _exchanged(levels: Sequence[Level], index: int, example: Tensor) -> bool:
    """Whether another order of a level's neurons is nothing but another order of what the next level's layers read, so that
    their weights can follow; true where these layers are not known."""
    level, reader = levels[index], levels[index + 1]
    if not reader.affine:
        return True
    boundary = compose(levels[: index + 1], example)
    order = torch.randperm(level.width, generator=torch.Generator().manual_seed(0)).to(boundary.device)
    before, after = (reader.form.read(h)[0] for h in (boundary, boundary.index_select(level.axis, order)))
    for layer, *read in zip(reader.form.layers, before, after, strict=True):
        plain, turned = (rows(x, -1 if isinstance(layer, nn.Linear) else 1).double() for x in read)
        mixed = torch.randn(len(plain), generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(plain)
        left, right = ((mixed @ x).sort().values for x in (plain, turned))
        if not torch.allclose(left, right, rtol=0, atol=1e3 * torch.finfo(boundary.dtype).eps * plain.norm().item()):
            return False
    return True


def _in_place(seen: Mapping[int, Tensor] | None) -> Tensor | None:
    """(neurons, 1) the neurons of a level that stay in their places whatever a network's weights are; None where none do."""
    return None if seen is None else seen.get(IN_PLACE)


def _followed(level: Level, places: Mapping[int, Tensor]) -> bool:
    """Whether each of a level's neurons is known."""
    return sum(positions.numel() for positions in places.values()) == level.width


def _why_not_grouped(level: Level, places: Mapping[int, Tensor], *, in_parts: bool) -> str:
    """Why a level's neurons cannot be grouped with those of other networks; empty where they can.

    Args:
        places: group -> places of its neurons.
        in_parts: whether they lie in the parts of a grouped convolution.
    """
    if not _followed(level, places):
        return (
            "cannot change places (it mixes positions, or makes one number for each), so those of several networks cannot "
            "be grouped"
        )
    if in_parts and len(places) > 1:
        return f"lie in parts of a grouped convolution and belong to {len(places)} kinds that cannot be exchanged"
    return ""


def _with_parts(
    levels: Sequence[Level], makes: Sequence[dict[int, Tensor]], classes: set[int]
) -> tuple[list[Level], dict[int, Parts]]:
    """The levels, those not affine whose grouped convolutions cannot be fitted; and the parts in which a level's neurons lie.

    Args:
        makes: of each level, see `_places_made`, from groups of neurons that are the parts of grouped convolutions as a whole.
        classes: the groups that hold them.
    """
    levels, numbers = list(levels), set[int]()
    for index, (level, places) in enumerate(zip(levels, makes, strict=True)):
        if not level.form.parts or level.form.channelwise:
            continue
        why = ""
        if level.head or classes & set(places):
            why = "its grouped convolution makes the classes"
        elif not any(set(places) & set(earlier) for earlier in makes[:index]):
            why = "it is a grouped convolution of channels that no level before it makes, so their groups are not known"
        elif len(places) > 1 or not torch.equal(
            places[min(places)], torch.arange(level.width).view(level.form.parts, -1)
        ):
            why = (
                f"the {level.form.parts} parts of its grouped convolution are not those of the layers that it reads, so they "
                "cannot be matched as a whole"
            )
        if why:
            levels[index] = _not_affine(level, why)
        else:
            numbers |= set(places)
    alike = {number: [index for index, places in enumerate(makes) if set(places) == {number}] for number in numbers}
    return levels, {index: Parts(same[0], makes[index][number]) for number, same in alike.items() for index in same}


def _places_made(level: Level, groups: Sequence[Group], model: nn.Module) -> dict[int, Tensor]:
    """Number of a group -> (neurons, copies) the positions of its neurons in a level's output, for the groups that it makes."""
    made_places: dict[int, Tensor] = {}
    form = level.form
    rows = [rows_of(model, path, layer.weight) for path, layer in zip(form.paths, form.layers, strict=True)]
    holders = [model.get_submodule(name.rpartition(".")[0]) for name, _ in rows]
    tables = int(isinstance(form, Lookup))
    axes = [tables or int(isinstance(holder, TRANSPOSED)) for holder in holders]  # of the neurons in the weights
    for number, group in enumerate(groups):
        for part in group.parts:
            if part.kind in ("out", "vector") or isinstance(form, Tied):
                for positions in (
                    part.index - start
                    for (name, start), axis in zip(rows, axes, strict=True)
                    if (name, axis) == (part.name, part.axis)
                ):
                    inside = (positions >= 0) & (positions < level.width)
                    if inside.any():
                        made_places[number] = positions[inside].view(len(positions), -1)
    return made_places


def _carried(
    name: str, level: Level, groups: Sequence[Group], makes: Sequence[dict[int, Tensor]], network: str
) -> Carried:
    """For which neurons a parameter or buffer holds numbers.

    Args:
        makes: of each level before, by number of a group, (neurons, copies) the positions of its neurons.
    """
    owners = {
        (number, part.axis): part.index
        for number, group in enumerate(groups)
        for part in group.parts
        if part.name == name and group.width > 1
    }
    indices, axes = {number: index for (number, _), index in owners.items()}, {axis for _, axis in owners}
    whole = [
        number
        for number, places in enumerate(makes)
        if places.keys() == indices.keys()
        and all(torch.equal(places[group], index) for group, index in indices.items())
    ]
    makers = {group: [number for number, places in enumerate(makes) if group in places] for group in indices}
    if not indices:  # numbers for no neurons: a factor of all, biases of distances, ...
        return Carried(name, 0, ())
    if len(axes) != 1 or not all(makers.values()):
        raise ValueError(
            f"{network}: {name!r} at level {level.name!r} does not hold numbers for the neurons of a level before, so it is "
            f"not known what it is in the fused network. {INSTEAD}"
        )
    if whole:  # as they lie in that level
        every = torch.cat([index.flatten() for index in indices.values()])
        return Carried(name, axes.pop(), ((whole[0], every, every[:, None]),))
    return Carried(
        name,
        axes.pop(),
        tuple((makers[group][0], makes[makers[group][0]][group][:, 0], index) for group, index in indices.items()),
    )


def _carried_by(
    level: Level, groups: Sequence[Group], makes: Sequence[dict[int, Tensor]], network: str = ""
) -> tuple[Carried, ...]:
    """What `_carried` says of the level's parameters before its layers, and of its buffers that hold numbers for neurons, classes
    apart, which keep their places.

    Args:
        network: for the message; empty: of a chain, whose buffers for neurons of no level before are left as they are, and whose
            parameters are fitted.
    """
    carried = [_carried(name, level, groups, makes, network) for name in (_vectors(level) if network else ())]
    for name in _buffers(level):
        owners = [group for group in groups if any(part.name == name for part in group.parts)]
        if owners and not all(group.fixed for group in owners):
            try:
                carried.append(_carried(name, level, groups, makes, network))
            except ValueError:
                if network:
                    raise
    return tuple(carried)


def _vectors(level: Level) -> list[str]:
    """The parameters beside those of the layers, of a level that a closed form fits: scale and shift of a norm, positions."""
    if not level.form.closed:
        return []
    held = (name for name, tensor in _held(level.module) if isinstance(tensor, nn.Parameter))
    return [name for name in dict.fromkeys(held) if name.rpartition(".")[0] not in level.form.paths]


def _buffers(level: Level) -> list[str]:
    """The buffers that may hold numbers for neurons; where no closed form fits a level, those that the model's own code reads."""
    if level.form.closed:
        held = dict(level.form.prefix.named_buffers())
    else:
        module = level.module[-1] if isinstance(level.module, nn.Sequential) else level.module
        buffers = dict(module.named_buffers())
        held = {name: tensor for name, tensor in _held(module) if name in buffers}
    return [name for name, tensor in held.items() if tensor.is_floating_point() and tensor.ndim]


def _held(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a level by name, in the order of its graph: those that it reads, and the parameters of what it calls."""
    for node in module.graph.nodes:  # type: ignore[union-attr]
        if node.op == "get_attr":
            holder, _, name = node.target.rpartition(".")
            yield node.target, getattr(module.get_submodule(holder), name)
        elif node.op == "call_module":
            for name, parameter in module.get_submodule(node.target).named_parameters():
                yield f"{node.target}.{name}", parameter


def _reason(error: Exception) -> str:
    """What a rule says of neurons, without what follows from it and its way out."""
    return str(error).partition(", so ")[0].partition(". Use ")[0].removesuffix(".")


def _not_affine(level: Level, why: str) -> Level:
    """A level that the closed form cannot fit, for this reason."""
    return replace(level, form=Opaque(why=why))
