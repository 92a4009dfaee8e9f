"""The levels of parents and fused network that belong together: cut, aligned, and refused where they do not."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import torch
from torch import Tensor, nn

from ..networks.levels import Kind, Level, is_branched, merged, partition
from ..networks.streams import with_streams
from ..system.device import on_device
from .grouping import Grouper, SameIndex

#: The way out of levels inside of blocks.
INSTEAD = "Use fit='gradient' (HF-Gradient, KF-Gradient); if you named boundaries, leave them out."


@dataclass(frozen=True)
class Levels:
    """Parents and fused network, cut into levels that belong together."""

    parents: list[list[Level]]
    """The levels of each parent, on the device"""
    model: nn.Module
    """The network that becomes the fused one: a copy of the target or of parent 0"""
    fused: list[Level]
    """Its levels"""

    @property
    def networks(self) -> list[list[Level]]:
        """The parents' levels and, last, the fused network's."""
        return [*self.parents, self.fused]

    def widths(self, index: int) -> tuple[int, ...]:
        """The parents' neurons at a level."""
        return tuple(levels[index].width for levels in self.parents)

    @property
    def branched(self) -> bool:
        """Whether levels lie inside of blocks."""
        return is_branched(self.fused)

    def stream(self, index: int) -> list[int]:
        """The levels that make the same neurons as this one, itself among them: those of one residual stream."""
        first = self.fused[index].stream
        return [index] if first is None else [k for k, level in enumerate(self.fused) if level.stream == first]

    def makers(self, first: tuple[int, int]) -> list[int]:
        """The levels that make the neurons of a kind; not those that treat them channel by channel side by side with others."""
        return [
            index
            for index, level in enumerate(self.fused)
            if any(kind.first == first for kind in level.kinds) and (level.plain or not level.channelwise)
        ]

    def places(self, index: int, first: tuple[int, int]) -> Tensor:
        """(n, copies) where the parents' neurons of a kind are among those of a level, all parents' side by side."""
        starts = [sum(self.widths(index)[:k]) for k in range(len(self.parents))]
        return torch.cat(
            [
                start + kind.places
                for start, levels in zip(starts, self.parents, strict=True)
                for kind in levels[index].kinds
                if kind.first == first
            ]
        )

    def known_labels(self, index: int, labels: Callable[[int], Tensor]) -> Tensor | None:
        """(m,) the groups of a level's neurons where levels before it decide them, -1 for kinds of neurons that begin here; None
        where all do.

        Args:
            labels: gives those of an earlier level.
        """
        kinds = self.fused[index].kinds
        if all(kind.first[0] == index for kind in kinds):
            return None
        known = torch.full((sum(self.widths(index)),), -1)
        for kind in kinds:
            number, which = kind.first
            if number == index:
                continue
            begun = self.fused[number].kinds[which].places
            of_places = torch.empty(self.fused[number].width, dtype=torch.int64)
            of_places[begun] = torch.arange(len(begun))[:, None]
            of_neurons = of_places[labels(number).cpu()[self.places(number, kind.first)[:, 0]]]
            known[self.places(index, kind.first)] = kind.places[of_neurons]
        return known

    def with_parts(self, index: int) -> list[int]:
        """The levels whose neurons lie in the same parts of grouped convolutions as this one's, itself among them."""
        own = self.fused[index].parts
        return (
            []
            if own is None
            else [k for k, level in enumerate(self.fused) if level.parts and level.parts.first == own.first]
        )

    def parts_of(self, index: int) -> Tensor:
        """(m,) the part in which each of the parents' neurons lies, all parents' parts numbered one after the other."""
        of_parents, count = [], 0
        for levels in self.parents:
            parts = levels[index].parts
            assert parts is not None
            own = torch.empty(levels[index].width, dtype=torch.int64)
            own[parts.places] = count + torch.arange(len(parts.places))[:, None]
            of_parents.append(own)
            count += len(parts.places)
        return torch.cat(of_parents)

    def known_parts(self, index: int, labels: Callable[[int], Tensor]) -> Tensor | None:
        """(m,) the fused network's part to which each of the parents' neurons is assigned, where levels before this one decide
        it: of a level that works channel by channel their groups; None where they do not, or there are no parts.

        Args:
            labels: gives the groups of an earlier level.
        """
        level = self.fused[index]
        if level.channelwise:
            return self.known_labels(index, labels)
        if level.parts is None or level.parts.first == index:
            return None
        first, fused = level.parts.first, self.fused[level.parts.first]
        assert fused.parts is not None
        of_slots = torch.empty(fused.width, dtype=torch.int64)
        of_slots[fused.parts.places] = torch.arange(len(fused.parts.places))[:, None]
        assigned = torch.empty(int(self.parts_of(first).max()) + 1, dtype=torch.int64)
        assigned[self.parts_of(first)] = of_slots[labels(first).cpu()]
        return assigned[self.parts_of(index)]

    def joined(self, scores: Sequence[Sequence[Tensor]]) -> list[list[Tensor]]:
        """The scores of each parent's neurons at each level; those of one kind are the mean over the levels that make it."""
        return [
            [self._joined(levels, own, index) for index in range(len(own))]
            for levels, own in zip(self.parents, scores, strict=True)
        ]

    def _joined(self, levels: Sequence[Level], scores: Sequence[Tensor], index: int) -> Tensor:
        joined = scores[index].clone()
        for kind in levels[index].kinds:
            made = [
                scores[k][other.places].mean(1)
                for k in self.makers(kind.first)
                for other in levels[k].kinds
                if other.first == kind.first
            ]
            if made:
                joined[kind.places] = torch.stack(made).mean(0)[:, None]
        return joined


def cut_into_levels(
    models: Sequence[nn.Module],
    inputs: Tensor,
    *,
    target: nn.Module | None,
    device: torch.device,
    boundaries: str | int | Sequence[str],
    leaves: Sequence[str] = (),
) -> Levels:
    """Partition parents and target, and refuse networks whose levels do not belong together.

    Networks of different depth are aligned: between two changes of the number of positions (the stages of a
    convolutional network) the deeper ones join neighbouring levels until all have equally many.

    Args:
        boundaries, leaves: see `partition`.
    Raises:
        ValueError: names the level and the way out.
    """
    example = inputs[:2].to(device)
    model = copy.deepcopy(target if target is not None else models[0]).to(device)
    networks = {f"parent {index}": on_device(parent, device) for index, parent in enumerate(models)}
    networks["the target"] = model
    cut = [_levels(network, example, name, boundaries, leaves) for name, network in networks.items()]
    *parents, fused = [
        with_streams(network, levels, example, name, leaves, inside=boundaries == "layers")
        for (name, network), levels in zip(networks.items(), _aligned(cut), strict=True)
    ]
    _check_shapes(parents, fused)
    _check_folds(fused)
    *parents, fused = _with_blocks_streams([*parents, fused])
    return Levels(parents, model, fused)


def check_groupings(levels: Levels, grouping: Any) -> None:
    """Ask a grouping whether it can group the neurons of every level.

    Raises:
        ValueError: names the level, the reason and the way out.
    """
    if not isinstance(grouping, Grouper):
        return  # a custom function
    for index, level in enumerate(levels.fused):
        try:
            if not level.plain:
                for which, kind in enumerate(level.kinds):
                    if kind.first == (index, which):
                        own = tuple(len(parent[index].kinds[which].places) for parent in levels.parents)
                        (SameIndex() if kind.fixed else grouping).check(own, len(kind.places))
            elif level.parts is None:
                (SameIndex() if level.fixed else grouping).check(levels.widths(index), level.width)
            else:
                shapes = [
                    tuple(parts.places.shape) for own in levels.networks if (parts := own[index].parts) is not None
                ]
                for *counts, count in zip(*shapes, strict=True):  # of parts, and of neurons in each
                    grouping.check(tuple(counts), count)
        except ValueError as error:
            raise ValueError(f"level {level.name!r}: {error}") from error


def _levels(
    model: nn.Module, example: Tensor, network: str, boundaries: str | int | Sequence[str], leaves: Sequence[str]
) -> list[Level]:
    dtype = next(model.parameters()).dtype
    try:
        return partition(model, example.to(dtype), boundaries, leaves=leaves)
    except ValueError as error:
        raise ValueError(f"{network}: {error}") from error


def _aligned(networks: list[list[Level]]) -> list[list[Level]]:
    """Equally many levels in every stage, where the networks have the same stages; else as they are."""
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


def _with_blocks_streams(networks: list[list[Level]]) -> list[list[Level]]:
    """The levels; blocks that a skip passes in all networks know their residual stream, as levels inside of blocks do."""
    networks = [list(levels) for levels in networks]
    plain = [all(not level.kinds and level.stream is None for level in alike) for alike in zip(*networks, strict=True)]
    first = 0
    for index, alike in enumerate(zip(*networks, strict=True)):
        if not (index and plain[first] and plain[index] and all(level.residual for level in alike)):
            first = index
            continue
        for levels in networks:
            kind = Kind((first, 0), torch.arange(levels[index].width)[:, None], levels[index].head)
            for number in range(first, index + 1):
                levels[number] = replace(levels[number], stream=first, kinds=(kind,))
    return networks


def _numbered(levels: list[Level]) -> list[Level]:
    """Joined levels of a chain: each makes the neurons of the one tensor behind it."""
    return [
        level if len(level.alive) > 1 else replace(level, alive=tuple(replace(z, maker=index) for z in level.alive))
        for index, level in enumerate(levels)
    ]


def _parts(stage: list[Level], count: int) -> list[list[Level]]:
    """A stage in `count` runs of levels, as equal as possible, the longer ones last."""
    ends = [len(stage) * (k + 1) // count for k in range(count)]
    return [stage[start:end] for start, end in zip([0, *ends[:-1]], ends, strict=True)]


def _check_shapes(parents: list[list[Level]], fused: list[Level]) -> None:
    counts = [len(levels) for levels in parents]
    if set(counts) != {len(fused)}:
        raise ValueError(
            f"the parents have {counts} levels and the fused network {len(fused)}; they must have equally many, or "
            "change the number of positions alike. Cut them alike with boundaries=<number of levels> or [module names]."
        )
    for index, level in enumerate(fused):
        alike = [levels[index] for levels in parents]
        if is_branched(fused) or level.vectors or any(other.partwise for other in (level, *alike)):
            _check_joints(level, alike, INSTEAD if is_branched(fused) else "Give all of them one architecture.")
        if any(_kinds(other) != _kinds(level) for other in alike):
            raise ValueError(
                f"level {level.name!r}: its neurons are of other kinds in a parent than in the fused network (gated, in parts of "
                "a norm, or one of them has constants), so they do not correspond. Give all of them one architecture."
            )
        positions = [other.positions for other in alike]
        if set(positions) != {level.positions}:
            raise ValueError(
                f"level {level.name!r}: the parents have {positions} positions per sample and the fused network "
                f"{level.positions}; outputs can be compared only position by position. Cut elsewhere (boundaries=[...])."
            )
        rows = [table.num_embeddings for other in alike for table in other.tables]
        if level.tables and set(rows) != {table.num_embeddings for table in level.tables} and len(level.tables) == 1:
            raise ValueError(
                f"level {level.name!r}: the parents' embeddings hold {rows} rows and the fused network's "
                f"{level.tables[0].num_embeddings}; row t is fused with row t. Give all of them the same tokens."
            )
        widths = [other.width for other in alike]
        for number, own in enumerate(level.classes):
            counts = [len(other.classes[number]) for other in alike]
            if set(counts) != {len(own)}:
                raise ValueError(
                    f"level {level.name!r}: the parents have {counts} classes and the fused network {len(own)}; class c "
                    "is fused with class c. Give all of them the same classes."
                )
        if level.parts is not None:
            _check_parts(level, alike)
        if level.width > sum(widths):
            raise ValueError(
                f"level {level.name!r}: {level.width} fused neurons for {sum(widths)} parents' neurons; some would "
                f"stand for nothing. Use a target of at most {sum(widths)} there."
            )


def _check_parts(level: Level, parents: Sequence[Level]) -> None:
    """Refuse parts of grouped convolutions that are wider than a parent's: an assigned part may be the only one."""
    assert level.parts is not None
    own, others = (
        level.parts.places.shape,
        [parent.parts.places.shape for parent in parents if parent.parts is not None],
    )
    if own[1] > min(neurons for _, neurons in others) or own[0] > sum(count for count, _ in others):
        raise ValueError(
            f"level {level.name!r}: the fused network has {own[0]} parts of {own[1]} neurons (groups of a convolution), the "
            f"parents {' and '.join(f'{count} of {neurons}' for count, neurons in others)}. Use a target with no more parts than "
            "all parents together, each no wider than a parent's."
        )


def _check_joints(level: Level, parents: Sequence[Level], instead: str) -> None:
    """Refuse levels that are joined otherwise in a parent than in the fused network.

    Args:
        instead: the way out.
    """
    for other in parents if level.layers or level.tables else ():
        if not (other.layers or other.tables):
            raise ValueError(f"level {level.name!r} is not affine in a parent: {other.why_not_affine}. {instead}")
        if (other.partwise > 0) != (level.partwise > 0):
            raise ValueError(
                f"level {level.name!r}: a convolution is grouped in a parent or in the fused network, and not in the other, so "
                f"their neurons do not correspond. {instead}"
            )
        if _joints(other) != _joints(level):
            raise ValueError(
                f"level {level.name!r}: skips join other layers in a parent than in the fused network, or groups of a "
                f"convolution have other sizes, so their neurons do not correspond. {instead}"
            )


def _kinds(level: Level) -> Sequence[object]:
    """The kinds of a level's neurons and the tensors that hold numbers for others, but for how many they are."""
    held = {**dict(level.module.named_parameters()), **dict(level.module.named_buffers())} if level.carried else {}
    carried = [
        (own.axis, [(maker, index.shape[1]) for maker, _, index in own.makers] or held[own.name].shape)
        for own in level.carried
    ]
    return [(kind.first, kind.places.shape[1], kind.fixed) for kind in level.kinds] + carried


def _joints(level: Level) -> tuple[object, ...]:
    """What joins a level to others, in networks that belong together."""
    heads = level.heads
    attention = heads and (*heads.levels, heads.reader)
    facts = (
        level.adds,
        level.channelwise,
        level.partwise > 0,
        level.function is not None,
        len(level.layers),
        len(level.tables),
        len(level.alive),
    )
    return (
        level.stream,
        level.parts and level.parts.first,
        *facts,
        _kinds(level),
        attention,
    )


def _check_folds(fused: list[Level]) -> None:
    for level in fused:
        if any(
            layer.bias is not None and affine is not None and affine.bias is None and norm.bias is None
            for layer, affine, norm in level.folds
        ):
            raise ValueError(
                f"level {level.name!r}: the fused bias has no place, for neither the layer nor the BatchNorm behind it "
                "has one. Pass a target whose BatchNorm has affine=True or whose layer has bias=True."
            )
