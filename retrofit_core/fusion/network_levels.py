"""Corresponding levels of parents and fused network: cut, aligned and checked."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby

import torch
from torch import Tensor, nn

from ..networks.levels import (
    Level,
    Lookup,
    Parts,
    Trace,
    check_composition,
    classifier,
    code_of,
    cut_trace,
    is_branched,
    levels_of_twin,
    merged,
    trace,
)
from ..networks.levels.partition import say_what_is_left
from ..networks.spaces import numbered, stream, with_spaces
from ..networks.symmetry import tensors
from ..system.device import on_device
from ..system.duplicates import duplicate
from ..system.refusals import Refusal
from .grouping import Grouper, Grouping, SameIndex
from .joint_spaces import Levels

#: The solution for levels inside blocks.
INSTEAD = "Use fit='gradient' (HF-Gradient, KF-Gradient); if you named boundaries, leave them out."


def cut_into_levels(
    models: Sequence[nn.Module],
    inputs: Tensor,
    *,
    target: nn.Module | None,
    device: torch.device,
    boundaries: str | int | Sequence[str],
    leaves: Sequence[str] = (),
) -> Levels:
    """Partition parents and target into corresponding levels.

    Networks of different depth are aligned: between two changes of the number of positions (the stages of a
    convolutional network), the deeper ones join neighbouring levels until all have the same number.

    Args:
        inputs: (B, ...); only two samples are used.
        boundaries, leaves: see `partition`.
    Raises:
        ValueError: levels do not correspond; the message names one and a solution.
    """
    example = inputs[:2].to(device)
    model = duplicate(target if target is not None else models[0]).to(device)
    networks = {f"parent {index}": on_device(parent, device) for index, parent in enumerate(models)}
    networks["the target"] = model
    *parents, fused = _cut(networks, example, boundaries, leaves)
    _check_shapes(parents, fused)
    *parents, fused = _blocks_joined([*parents, fused])
    return Levels(parents, fused, model)


def _cut(
    networks: Mapping[str, nn.Module],
    example: Tensor,
    boundaries: str | int | Sequence[str],
    leaves: Sequence[str],
    *,
    once: bool = True,
) -> list[list[Level]]:
    """The aligned levels of each network, with spaces.

    Args:
        networks: by names for messages.
        once: cut networks that run the same code only once.
    """
    models, traces, cut = dict[str, nn.Module](), dict[Hashable, Trace](), dict[Hashable, list[Level]]()
    codes = dict[str, Hashable]()
    for name, network in networks.items():
        with _naming(name):
            x = example.to(next(network.parameters()).dtype)
            models[name] = classifier(network, x)
            codes[name] = code = (code_of(models[name]) if once else None) or name
            if code not in traces:
                traces[code] = trace(models[name], leaves, x, whole=True)
                cut[code] = cut_trace(traces[code], boundaries)
    aligned = dict(zip(cut, _aligned(list(cut.values())), strict=True))
    levels, found = dict[Hashable, list[Level]](), list[list[Level]]()
    for name, code in codes.items():
        if code not in levels:
            levels[code] = with_spaces(traces[code], aligned[code], name, inside=boundaries == "layers")
        model, own = models[name], levels[code]
        if model is not traces[code].model:
            own = levels_of_twin(own, traces[code].model, model)
            try:
                check_composition(model, own, traces[code].example)
            except ValueError:  # it computes something else, though its attributes do not show it
                return _cut(networks, example, boundaries, leaves, once=False)
        found.append(own)
    say_what_is_left(models[name], example, traces[codes[name]])  # of the fused network, the last one
    return found


def check_groupings(levels: Levels, grouping: Grouper | Callable[..., Grouping]) -> None:
    """Check that a grouping can group the neurons of every level.

    Raises:
        ValueError: names the level, the reason and a solution.
    """
    if not isinstance(grouping, Grouper):
        return  # a custom function
    for index, level in enumerate(levels.fused):
        with _naming(f"level {level.name!r}"):
            for space in levels.written(index):
                if space.first != index and not space.fixed:
                    continue
                if isinstance(level.blocks, Parts):
                    for *counts, count in zip(*_part_shapes(levels.networks, index), strict=True):
                        grouping.check(tuple(counts), count)
                else:
                    (SameIndex() if space.fixed else grouping).check(space.widths, space.width)


@contextmanager
def _naming(what: str) -> Iterator[None]:
    """Start the messages of refusals with what they are about."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{what}: {error}") from error


def _aligned(networks: list[list[Level]]) -> list[list[Level]]:
    """The same number of levels in every stage, if the networks have the same stages; else unchanged levels."""
    stages = [[list(group) for _, group in groupby(levels[:-1], lambda level: level.positions)] for levels in networks]
    orders = [[stage[0].positions for stage in network] for network in stages]
    if len({len(levels) for levels in networks}) == 1 or any(order != orders[0] for order in orders):
        return networks
    counts = [min(map(len, alike)) for alike in zip(*stages, strict=True)]
    return [
        _numbered(
            [merged(part) for stage, count in zip(network, counts, strict=True) for part in _parts(stage, count)]
            + levels[-1:]
        )
        for network, levels in zip(stages, networks, strict=True)
    ]


def _blocks_joined(networks: list[list[Level]]) -> list[list[Level]]:
    """The levels; blocks with a skip in all networks write one space, like levels inside blocks."""
    networks = [list(levels) for levels in networks]
    alone = [all(_alone(levels, index) for levels in networks) for index in range(len(networks[0]))]
    first = 0
    for index, alike in enumerate(zip(*networks, strict=True)):
        if not (index and alone[first] and alone[index] and all(level.residual for level in alike)):
            first = index
            continue
        for levels in networks:
            (written,) = levels[first].writes
            for number in range(first, index + 1):
                levels[number] = replace(levels[number], writes=(replace(written, fixed=levels[index].head),))
    return [numbered(levels) for levels in networks]


def _alone(levels: Sequence[Level], index: int) -> bool:
    """Whether a level writes only a space of its own."""
    level = levels[index]
    return level.plain and level.blocks is None and level.fixed == level.head and len(stream(levels, index)) == 1


def _numbered(levels: list[Level]) -> list[Level]:
    """Renumber joined levels of a chain: each makes the neurons of the one tensor after it."""
    return [
        level
        if len(level.alive) > 1
        else replace(level, alive=tuple(replace(z, maker=index) for z in level.alive), maker=index)
        for index, level in enumerate(levels)
    ]


def _parts(stage: list[Level], count: int) -> list[list[Level]]:
    """A stage in `count` runs of levels, as equal as possible, longer ones last."""
    ends = [len(stage) * (k + 1) // count for k in range(count)]
    return [stage[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def _check_shapes(parents: list[list[Level]], fused: list[Level]) -> None:
    counts = [len(levels) for levels in parents]
    if set(counts) != {len(fused)}:
        raise ValueError(
            f"the parents have {counts} levels and the fused network {len(fused)}; they must have equally many, or "
            "change the number of positions alike. Cut them alike with boundaries=<number of levels> or [module "
            "names]."
        )
    for index, level in enumerate(fused):
        alike = [levels[index] for levels in parents]
        if is_branched(fused) or level.carried or any(other.form.parts for other in (level, *alike)):
            instead = INSTEAD if is_branched(fused) else "Give all of them one architecture."
            _check_joints(index, fused, parents, instead)
        if any(_kinds(other) != _kinds(level) for other in alike):
            raise ValueError(
                f"level {level.name!r}: its neurons are of different kinds in a parent and in the fused network "
                "(gated, in parts of a norm, or one of them has constants), so they do not correspond. Give all of "
                "them one architecture."
            )
        if not all(fold.has_room for fold in level.folds):
            raise ValueError(
                f"level {level.name!r}: there is no place for the fused bias: neither the layer nor the BatchNorm "
                "after it has one. Pass a target whose BatchNorm has affine=True or whose layer has bias=True."
            )
        positions = [other.positions for other in alike]
        if set(positions) != {level.positions} and level.crossed is None:
            raise ValueError(
                f"level {level.name!r}: the parents have {positions} positions per sample and the fused network "
                f"{level.positions}; outputs can be compared only position by position. Cut elsewhere "
                "(boundaries=[...])."
            )
        rows = [other.form.sizes for other in (*alike, level) if isinstance(other.form, Lookup)]
        if isinstance(level.form, Lookup) and any(sizes != rows[-1] for sizes in rows):
            *theirs, ours = (counts[0] if len(counts) == 1 else counts for counts in rows)
            raise ValueError(
                f"level {level.name!r}: the parents' embeddings hold {theirs} rows and the fused network's {ours}; "
                "row t is fused with row t. Give all of them the same tokens."
            )
        widths = [other.width for other in alike]
        for number, places in enumerate(level.classes):
            counts = [len(other.classes[number]) for other in alike]
            one, several, cure = ("class", "classes", "the same classes (joined_heads)")
            if level.crossed is not None:
                one, several, cure = ("neuron", "neurons", "layers over positions of the same width")
            if set(counts) != {len(places)}:
                raise ValueError(
                    f"level {level.name!r}: the parents have {counts} {several} and the fused network {len(places)}; "
                    f"{one} c is fused with {one} c. Give all of them {cure}."
                )
        if isinstance(level.blocks, Parts):
            _check_parts(level.name, _part_shapes([*parents, fused], index))
        if level.width > sum(widths):
            raise Refusal(
                f"level {level.name!r}: {level.width} fused neurons for {sum(widths)} parents' neurons; some would "
                f"represent nothing. Use a target of at most {sum(widths)} there.",
                ("target", None),
            )


def _part_shapes(networks: Sequence[Sequence[Level]], index: int) -> list[tuple[int, ...]]:
    """The number of parts of a grouped convolution in each network, and of the neurons of each."""
    return [tuple(parts.places.shape) for levels in networks if isinstance(parts := levels[index].blocks, Parts)]


def _check_parts(name: str, shapes: Sequence[tuple[int, ...]]) -> None:
    """Check that a grouped convolution has no more parts than all parents', and none wider than a parent's."""
    *theirs, ours = shapes
    if ours[1] > min(neurons for _, neurons in theirs) or ours[0] > sum(count for count, _ in theirs):
        raise ValueError(
            f"level {name!r}: the fused network has {ours[0]} parts of {ours[1]} neurons (groups of a "
            f"convolution), the parents {' and '.join(f'{count} of {neurons}' for count, neurons in theirs)}. Use a "
            "target with no more parts than all parents together, each no wider than a parent's."
        )


def _check_joints(index: int, fused: Sequence[Level], parents: Sequence[Sequence[Level]], instead: str) -> None:
    """Check that parents and fused network join levels alike.

    Args:
        instead: the solution, for the message.
    """
    level = fused[index]
    for levels in parents if level.form.closed else ():
        other = levels[index]
        if not other.form.closed:
            raise ValueError(f"level {level.name!r} is not affine in a parent: {other.why_not_affine}. {instead}")
        if (other.form.parts > 0) != (level.form.parts > 0):
            raise ValueError(
                f"level {level.name!r}: a convolution is grouped in a parent or in the fused network, and not in the "
                f"other, so their neurons do not correspond. {instead}"
            )
        if _joints(levels, index) != _joints(fused, index):
            raise ValueError(
                f"level {level.name!r}: skips join different layers in a parent and in the fused network, or groups "
                f"of a convolution differ in size, so their neurons do not correspond. {instead}"
            )


def _kinds(level: Level) -> Sequence[object]:
    """The spaces of a level's neurons, and its tensors with numbers for other neurons, regardless of widths."""
    held = tensors(level.module) if level.carried else {}
    carried = [
        (entry.axis, [(maker, index.shape[1]) for maker, _, index in entry.makers] or held[entry.name].shape)
        for entry in (*level.carried, *(() if level.crossed is None else (level.crossed,)))
    ]
    return [(entry.space, entry.places.shape[1], entry.fixed) for entry in level.writes] + carried


def _joints(levels: Sequence[Level], index: int) -> tuple[object, ...]:
    """What joins a level to others; corresponding levels have equal joints."""
    level, form, blocks, alike = levels[index], levels[index].form, levels[index].blocks, stream(levels, index)
    joined = (blocks.first,) if isinstance(blocks, Parts) else blocks and (*blocks.levels, blocks.reader)
    layers = type(form), form.adds, len(form.layers), form.channelwise
    return layers, len(level.alive), alike[0] if len(alike) > 1 else None, joined, _kinds(level)
