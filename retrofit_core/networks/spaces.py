"""Find which levels of a network make neurons of the same space: residual streams, heads, parts of grouped convolutions.

Neurons that an operation joins (an addition, a concatenation, a depthwise convolution) share one grouping.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from .attention import attentions
from .levels import Affine, Carried, Level, Parts, Read, Written, compose, is_branched, rows
from .levels.forms import Opaque
from .levels.plain import rows_of
from .levels.tracing import Trace
from .symmetry import IN_PLACE, Group, NeuronTrace

#: Advice if neurons at a level's end cannot be grouped, for levels that need not end there.
ELSEWHERE = (
    "Let no level end there: fit='gradient' (HF-Gradient, KF-Gradient) with boundaries=[names of other modules], or 1."
)
#: Advice for levels that end after every layer.
INSTEAD = "Use KF-Gradient; if you named boundaries, leave them out."


def with_spaces(
    trace: Trace,
    levels: list[Level],
    network: str,
    *,
    inside: bool = True,
) -> list[Level]:
    """Annotate levels with the spaces that they write and the tensors that they carry. If levels inside blocks are not all
    affine, each gets a space of its own.

    Args:
        trace: the levels were cut from it.
        network: its name, for messages.
        inside: whether levels end after every layer (boundaries="layers").
    Raises:
        ValueError: the network's neurons cannot be followed, or those of a level cannot be grouped.
    """
    branched = is_branched(levels) or any(level.form.adds for level in levels)
    joined = branched or any(level.form.parts or _vectors(level) for level in levels)
    closed = all(level.form.closed for level in levels) and (joined or inside)  # else a chain for gradient fits
    if branched and not closed:
        return _apart(levels)
    parts: dict[int, Parts] = {}
    try:
        traced = NeuronTrace(trace)
        seen = [_places(traced, level, trace.model) for level in levels]
        if closed and any(level.form.parts and not level.form.channelwise for level in levels):
            traced, seen, parts = _with_parts(levels, traced, seen, trace.model)
    except Exception as error:  # whatever a rule raises on unknown operations
        if branched and isinstance(error, ValueError):
            raise ValueError(f"{network}: {error}") from error
        if branched:
            raise
        unknown = [closed and (level.form.parts > 0 or bool(_vectors(level))) for level in levels]
        levels = [
            _not_affine(level, _reason(error)) if no else level for level, no in zip(levels, unknown, strict=True)
        ]
        return _not_followed(levels, trace.example, network, error)
    groups, makes = traced.groups, list(map(_movable, seen))
    try:
        makers = {
            group: {index: places[number] for index, places in enumerate(makes) if number in places}
            for number, group in enumerate(groups)
        }
        found = attentions(levels, makers, trace.example) if closed else []
    except ValueError as error:
        raise ValueError(f"{network}: {error}") from error
    heads = {level: attention for attention in found for level in attention.levels}
    made, writing = {IN_PLACE}, list[Level]()  # groups that levels so far make
    for index, (level, places) in enumerate(zip(levels, makes, strict=True)):
        if index in heads:
            writing.append(replace(level, writes=_whole(level, index), blocks=heads[index]))
            continue
        crossed = None if _followed(level, seen[index] or {}) else _crossed(traced, level, makes[:index], trace.model)
        if closed and crossed is not None:
            writing.append(replace(level, writes=_whole(level, index, fixed=True), crossed=crossed))
            continue
        whole = closed and level.form.parts > 0 and index not in parts  # its channels are those that it reads
        if not branched and not _followed(level, places) and not whole:
            unknown = _unfollowed(levels, index, seen[index], trace.example, network)
            writing.append(replace(level, writes=unknown))
            continue
        if not _followed(level, places):
            places = seen[index] or {}  # with those in place (heads, pixels): fixed in every network
        if whole and not (_followed(level, places) and places.keys() <= made):
            each = "channel by channel" if level.form.channelwise else "part by part"
            why = f"it works {each}, on channels that no level before it makes, so their groups are not known"
            return _apart([*levels[:index], _not_affine(level, why), *levels[index + 1 :]])
        if not _followed(level, places):
            raise ValueError(
                f"{network}: the neurons of level {level.name!r} cannot change places (it mixes positions, or makes one number "
                f"for each), so those of several networks cannot be grouped. {INSTEAD}"
            )
        writes = tuple(
            Written(_own(index), positions, fixed=True)  # never shared between levels
            if number == IN_PLACE
            else Written(number, positions, groups[number].fixed)
            for number, positions in places.items()
        )
        writing.append(replace(level, writes=writes, blocks=parts.get(index)))
        made |= places.keys()
    writing = [
        replace(
            level,
            carried=_carried_by(level, groups, makes[:index], network if closed else ""),
            reads=_reads(traced, level, seen[:index]),
        )
        for index, level in enumerate(writing)
    ]
    return numbered(writing if closed else _telling(writing))


def _movable(places: Mapping[int, Tensor] | None) -> dict[int, Tensor]:
    """The places of a level's neurons without `IN_PLACE`, which is not a group."""
    return {number: positions for number, positions in (places or {}).items() if number != IN_PLACE}


def _own(index: int) -> int:
    """The number, before they are `numbered`, of a space of one level alone; others have those of their groups."""
    return -1 - index


def _whole(level: Level, index: int, *, fixed: bool = False) -> tuple[Written, ...]:
    """A space of exactly the neurons of one level."""
    return (Written(_own(index), torch.arange(level.width)[:, None], fixed),)


def _apart(levels: Sequence[Level]) -> list[Level]:
    """Give each level a space of its own."""
    return numbered(
        [replace(level, writes=_whole(level, index, fixed=level.head)) for index, level in enumerate(levels)]
    )


def numbered(levels: Sequence[Level]) -> list[Level]:
    """Number the spaces in the order in which levels make them."""
    numbers: dict[int, int] = {}
    return [
        replace(
            level,
            writes=tuple(replace(w, space=numbers.setdefault(w.space, len(numbers))) for w in level.writes),
        )
        for level in levels
    ]


def stream(levels: Sequence[Level], index: int) -> list[int]:
    """The levels, this one included, that make exactly the same neurons: those of one residual stream."""
    if not levels[index].plain:
        return [index]
    space = levels[index].writes[0].space
    return [number for number, level in enumerate(levels) if level.plain and level.writes[0].space == space]


def _places(neurons: NeuronTrace, level: Level, model: nn.Module) -> dict[int, Tensor] | None:
    """The places of each group's neurons in a level's output, see `NeuronTrace.places`.

    Args:
        neurons: of this network, or of another one that differs in weights alone.
    """
    if level.node not in neurons.tensors and level.form.layers:  # a part of an attention: see its weight
        return neurons.places_made(*rows_of(model, level.form.paths[0], level.form.layers[0].weight), level.width)
    # With several frames, the traced channel axis is 1, not 2.
    places = neurons.places(level.node, min(level.axis, 1))
    if places and any(_mixing(neurons, level, model)):
        return {number: positions for number, positions in places.items() if number == IN_PLACE}
    return places


def _mixing(neurons: NeuronTrace, level: Level, model: nn.Module) -> list[bool]:
    """Whether each of a level's layers reads positions, and makes no neurons."""
    makers = {name for name, _ in neurons.rules.axes}
    layers = zip(level.form.paths, level.form.layers, strict=True)
    return [rows_of(model, path, layer.weight)[0] not in makers for path, layer in layers]


def _crossed(
    neurons: NeuronTrace, level: Level, makes: Sequence[dict[int, Tensor]], model: nn.Module
) -> Carried | None:
    """The neurons of earlier levels on another axis of the output of layers that mix positions, such as channels of tokens.

    Args:
        makes: `_movable` places of each earlier level.
    """
    ids = neurons.tensors.get(level.node)
    if ids is None or not level.form.layers or ids.numel() != level.width * level.positions:
        return None
    if not all(_mixing(neurons, level, model)):
        return None
    for axis in set(range(1, ids.ndim)) - {level.axis % ids.ndim}:
        places = neurons.places(level.node, axis) or {}
        made = _makers(places, makes)
        if sum(index.numel() for index in places.values()) == ids.shape[axis] and made is not None:
            return Carried(level.node, axis, made)
    return None


def _makers(
    places: Mapping[int, Tensor], makes: Sequence[dict[int, Tensor]]
) -> tuple[tuple[int, Tensor, Tensor], ...] | None:
    """`Carried.makers` of groups' neurons at places of a tensor, with the first level that makes each; None if none makes some.

    Args:
        makes: `_movable` places of each earlier level.
    """
    made = []
    for group, index in places.items():
        maker = next((number for number, earlier in enumerate(makes) if group in earlier), None)
        if maker is None:
            return None
        made.append((maker, makes[maker][group][:, 0], index))
    return tuple(made)


def _reads(neurons: NeuronTrace, level: Level, seen: Sequence[Mapping[int, Tensor] | None]) -> tuple[Read | None, ...]:
    """What each of a level's layers reads.

    Args:
        seen: `_places` of each earlier level.
    """

    def read(places: Mapping[int, Tensor]) -> Read | None:
        if places.keys() == {IN_PLACE}:
            return Read(-1, places[IN_PLACE])
        for maker, made in enumerate(seen):
            if not made or made.keys() != places.keys():
                continue
            times = {divmod(index.numel(), made[group].numel()) for group, index in places.items()}
            if len(times) == 1 and not times.pop()[1]:
                order = torch.cat([made[group].flatten() for group in places]).argsort()
                every = torch.cat([index.reshape(made[group].numel(), -1) for group, index in places.items()])
                return Read(maker, every[order])
        return None

    layers = zip(level.form.inputs, level.form.layers, strict=True) if isinstance(level.form, Affine) else ()
    return tuple(read(neurons.places(name, -1 if isinstance(layer, nn.Linear) else 1) or {}) for name, layer in layers)


def _telling(levels: Sequence[Level]) -> list[Level]:
    """Give each level of a chain its own space, unless its neurons, or those of a level that shares them, form several spaces
    or stay fixed."""
    told = {
        written.space
        for level in levels
        for written in level.writes
        if not level.plain or (level.fixed and not level.head)
    }
    return [
        level
        if any(written.space in told for written in level.writes) or level.blocks
        else replace(level, writes=_whole(level, index, fixed=level.head))
        for index, level in enumerate(levels)
    ]


def _not_followed(levels: list[Level], example: Tensor, network: str, error: Exception) -> list[Level]:
    """Levels of a chain whose neurons no rule can follow, each with its own space, if the next level allows any order.

    Raises:
        ValueError: for some level it does not.
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
    """The space of a chain's level with neurons outside every group: its own, and fixed unless the next level allows any
    order.

    Args:
        places: see `NeuronTrace.places`.
    Raises:
        ValueError: its rows are neurons of an earlier level.
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
    """Whether reordering a level's neurons only reorders the inputs of the next level's layers, so that their weights can
    follow; True if that level is not affine."""
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


def _followed(level: Level, places: Mapping[int, Tensor]) -> bool:
    """Whether every neuron of a level has a place."""
    return sum(positions.numel() for positions in places.values()) == level.width


def _with_parts(
    levels: Sequence[Level], traced: NeuronTrace, seen: list[dict[int, Tensor] | None], model: nn.Module
) -> tuple[NeuronTrace, list[dict[int, Tensor] | None], dict[int, Parts]]:
    """Let grouped convolutions make neurons of their own within their parts, where all levels in these parts have the same ones
    and their neurons are of one kind; elsewhere channels keep their order within what is read, and are matched together.

    Args:
        seen: `_places` of each level, where groups hold whole parts of grouped convolutions.
    Returns:
        The neurons, their places, and the parts of levels, by number.
    """
    makes, whole = list(map(_movable, seen)), {number for number, group in enumerate(traced.groups) if group.fixed}
    grouped = [index for index, level in enumerate(levels) if level.form.parts and not level.form.channelwise]
    for index in grouped:
        level, places = levels[index], makes[index]
        read = any(set(places) & set(earlier) for earlier in makes[:index])
        in_order = torch.arange(level.width).view(level.form.parts, -1)
        if len(places) != 1 or level.head or not read or not torch.equal(places[min(places)], in_order):
            whole |= set(places)
    while True:
        apart = [index for index in grouped if makes[index] and not whole & set(makes[index])]
        numbers = {number for index in apart for number in makes[index]}
        alike = {number: [index for index, places in enumerate(makes) if set(places) == {number}] for number in numbers}
        parts = {index: Parts(same[0], makes[index][number]) for number, same in alike.items() for index in same}
        if not apart:
            return traced, seen, parts
        within = traced.within({path for index in apart for path in levels[index].form.paths})
        inside = [_places(within, level, model) for level in levels]
        mixed = {number for index in parts for number in makes[index] if len(inside[index] or ()) > 1}
        if not mixed:
            return within, inside, parts
        whole |= mixed


def _carried(
    name: str, level: Level, groups: Sequence[Group], makes: Sequence[dict[int, Tensor]], network: str
) -> Carried:
    """Which neurons a parameter or buffer holds numbers for.

    Args:
        makes: for each earlier level, group number -> (neurons, copies) positions of its neurons.
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
    makers = _makers(indices, makes)
    if not indices:  # not per neuron: a scalar factor, relative position biases, ...
        return Carried(name, 0, ())
    if len(axes) != 1 or makers is None:
        raise ValueError(
            f"{network}: {name!r} at level {level.name!r} does not hold numbers for the neurons of a level before, so it is "
            f"not known what it is in the fused network. {INSTEAD}"
        )
    if whole:  # in that level's order
        every = torch.cat([index.flatten() for index in indices.values()])
        return Carried(name, axes.pop(), ((whole[0], every, every[:, None]),))
    return Carried(name, axes.pop(), makers)


def _carried_by(
    level: Level, groups: Sequence[Group], makes: Sequence[dict[int, Tensor]], network: str
) -> tuple[Carried, ...]:
    """`_carried` for the level's parameters before its layers, and for its buffers with numbers for neurons other than classes.

    Args:
        network: for the message; empty for a chain: its parameters are fitted, and buffers for neurons of no earlier level
            stay as they are.
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
    """Parameters of a level with a closed form that are not its layers': a norm's scale and shift, positions."""
    if not level.form.closed:
        return []
    held = (name for name, tensor in _held(level.module) if isinstance(tensor, nn.Parameter))
    return [name for name in dict.fromkeys(held) if name.rpartition(".")[0] not in level.form.paths]


def _buffers(level: Level) -> list[str]:
    """Buffers that may hold numbers for neurons; if no closed form fits the level, those that its graph reads."""
    if level.form.closed:
        held = dict(level.form.prefix.named_buffers())
    else:
        module = level.module[-1] if isinstance(level.module, nn.Sequential) else level.module
        buffers = dict(module.named_buffers())
        held = {name: tensor for name, tensor in _held(module) if name in buffers}
    return [name for name, tensor in held.items() if tensor.is_floating_point() and tensor.ndim]


def _held(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The tensors that a level's graph reads and the parameters of the modules it calls, by name, in graph order."""
    for node in module.graph.nodes:  # type: ignore[union-attr]
        if node.op == "get_attr":
            holder, _, name = node.target.rpartition(".")
            yield node.target, getattr(module.get_submodule(holder), name)
        elif node.op == "call_module":
            for name, parameter in module.get_submodule(node.target).named_parameters():
                yield f"{node.target}.{name}", parameter


def _reason(error: Exception) -> str:
    """A rule's message without its consequence and advice."""
    return str(error).partition(", so ")[0].partition(". Use ")[0].removesuffix(".")


def _not_affine(level: Level, why: str) -> Level:
    """Mark a level as not affine, with a reason."""
    return replace(level, form=Opaque(why=why))
