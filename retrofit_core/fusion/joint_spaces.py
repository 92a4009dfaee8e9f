"""Spaces of neurons shared by all networks of a fusion. Each is grouped once, at the level where it begins.

Legend: n neurons of a space in all parents, m neurons of a level in all parents, d fused neurons.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from ..networks.levels import Heads, Level, Parts, Written
from ..networks.spaces import stream
from ..system.device import in_units
from .moments import dual_bytes, dual_is_cheaper

#: Returns the groups (m,) of an earlier level's neurons.
Labels = Callable[[int], Tensor]


@dataclass(frozen=True, eq=False)
class JointSpace:
    """A space of neurons in all parents and the fused network."""

    first: int
    """The level where it begins and is grouped"""
    fixed: bool
    """Whether neuron c stays neuron c"""
    blocks: type[Parts | Heads] | None
    """Kind of blocks that its neurons form"""
    widths: tuple[int, ...]
    """Number of neurons of each parent; n in total"""
    width: int
    """d"""
    places: dict[int, tuple[Tensor, Tensor]]
    """Level that makes them -> (n, copies) positions of the parents' neurons in all parents' concatenated outputs; and
    (d, copies) of the fused network's"""
    compared: tuple[int, ...]
    """The levels whose outputs are compared"""

    @property
    def way(self) -> str:
        """How it is grouped."""
        if self.fixed:
            return "same index"
        if self.blocks is not None:
            return "heads by their maps, directions within" if self.blocks is Heads else "parts first, neurons within"
        return f"sum over {len(self.compared)} levels" if len(self.compared) > 1 else "its own outputs"

    def labels(self, index: int, groups: Tensor) -> Tensor:
        """(n,) the fused neuron of each of its neurons, given the groups (m,) of a level that makes them."""
        theirs, ours = self.places[index]
        slots = torch.empty(int(ours.max()) + 1, dtype=torch.int64)
        slots[ours] = torch.arange(len(ours))[:, None]
        return slots.to(groups.device)[groups[theirs[:, 0].to(groups.device)]]


@dataclass(frozen=True, eq=False)
class Levels:
    """Parents and fused network, cut into corresponding levels."""

    parents: Sequence[Sequence[Level]]
    """The levels of each parent, on the device"""
    fused: Sequence[Level]
    """The levels of `model`"""
    model: nn.Module = nn.Identity()
    """The network that becomes the fused one: a copy of the target or of parent 0"""

    @property
    def networks(self) -> list[Sequence[Level]]:
        """The parents' levels and, last, the fused network's."""
        return [*self.parents, self.fused]

    def widths(self, index: int) -> tuple[int, ...]:
        """Neurons of each parent at a level."""
        return tuple(levels[index].width for levels in self.parents)

    def stream(self, index: int) -> list[int]:
        """The levels that make the same neurons as this one, including itself: those of one residual stream."""
        return stream(self.fused, index)

    @cached_property
    def spaces(self) -> list[JointSpace]:
        """All spaces, in order of their first levels."""
        places: dict[int, dict[int, tuple[Tensor, Tensor]]] = {}
        begun: dict[int, list[Written]] = {}  # of the parents and the fused network, at its first level
        for index in range(len(self.fused)):
            starts = [sum(self.widths(index)[:k]) for k in range(len(self.parents))]
            for alike in zip(*(levels[index].writes for levels in self.networks), strict=True):
                *theirs, ours = alike
                together = torch.cat([start + own.places for start, own in zip(starts, theirs, strict=True)])
                places.setdefault(ours.space, {})[index] = together, ours.places
                begun.setdefault(ours.space, list(alike))
        spaces = []
        for number, of_levels in sorted(places.items()):
            first, (*theirs, ours) = min(of_levels), begun[number]
            level = self.fused[first]
            makers = [k for k in of_levels if k == first or self._makes(k)]
            compared = self.stream(first) if level.plain else makers
            blocks = None if level.blocks is None else type(level.blocks)
            widths = tuple(len(own.places) for own in theirs)
            spaces.append(JointSpace(first, ours.fixed, blocks, widths, len(ours.places), of_levels, tuple(compared)))
        return spaces

    def _makes(self, index: int) -> bool:
        """Whether a level makes neurons, and does not only process others channel by channel."""
        return self.fused[index].plain or not self.fused[index].form.channelwise

    def written(self, index: int) -> list[JointSpace]:
        """The spaces whose neurons a level makes."""
        return [self.spaces[written.space] for written in self.fused[index].writes]

    def known(self, index: int, labels: Labels) -> Tensor:
        """(m,) groups of a level's neurons if earlier levels determine them, -1 if their space begins here."""
        known = torch.full((sum(self.widths(index)),), -1)
        for space in self.written(index):
            if space.first < index or (space.fixed and self.fused[index].form.parts):
                own = torch.cat([torch.arange(width) for width in space.widths])
                found = own if space.fixed else space.labels(space.first, labels(space.first))
                theirs, ours = (places.to(found.device) for places in space.places[index])
                known = known.to(found.device)
                known[theirs] = ours[found]
        return known

    def in_parts(self, index: int) -> list[int]:
        """The levels whose neurons are in the same parts of grouped convolutions as this one's, including itself."""
        parts = self._parts(self.fused, index)
        others = [self._parts(self.fused, k) for k in range(len(self.fused))]
        return [k for k, other in enumerate(others) if parts and other and other.first == parts.first]

    def parts_of(self, index: int) -> Tensor:
        """(m,) the part of each of the parents' neurons, with all parents' parts numbered consecutively."""
        of_parents, count = [], 0
        for levels in self.parents:
            parts = self._parts(levels, index)
            assert parts is not None
            of_neurons = torch.empty(levels[index].width, dtype=torch.int64)
            of_neurons[parts.places] = count + torch.arange(len(parts.places))[:, None]
            of_parents.append(of_neurons)
            count += len(parts.places)
        return torch.cat(of_parents)

    def known_parts(self, index: int, labels: Labels) -> Tensor | None:
        """(m,) the fused network's part to which earlier levels assign each of the parents' neurons; None if they do not, or
        there are no parts. A level whose channels are those that it reads has the groups of its neurons."""
        form, parts = self.fused[index].form, self._parts(self.fused, index)
        if form.parts and (form.channelwise or parts is None):
            return self.known(index, labels) // (self.fused[index].width // form.parts)
        if parts is None or parts.first == index:
            return None
        begun = self._parts(self.fused, parts.first)
        assert begun is not None
        slots = torch.empty(self.fused[parts.first].width, dtype=torch.int64)
        slots[begun.places] = torch.arange(len(begun.places))[:, None]
        assigned = torch.empty(int(self.parts_of(parts.first).max()) + 1, dtype=torch.int64)
        assigned[self.parts_of(parts.first)] = slots[labels(parts.first).cpu()]
        return assigned[self.parts_of(index)]

    @staticmethod
    def _parts(levels: Sequence[Level], index: int) -> Parts | None:
        blocks = levels[index].blocks
        return blocks if isinstance(blocks, Parts) else None

    def joined(self, scores: Sequence[Sequence[Tensor]]) -> list[list[Tensor]]:
        """Scores (width,) of each parent's neurons at each level, averaged over the levels that make the same space."""
        joined = [[of_level.clone() for of_level in of_parent] for of_parent in scores]
        for levels, raw, of_parent in zip(self.parents, scores, joined, strict=True):
            by_space: dict[int, list[Tensor]] = {}
            for index, level in enumerate(levels):
                for written in level.writes:
                    if written.space not in by_space or self._makes(index):
                        by_space.setdefault(written.space, []).append(raw[index][written.places].mean(1))
            for level, of_level in zip(levels, of_parent, strict=True):
                for written in level.writes:
                    of_level[written.places] = torch.stack(by_space[written.space]).mean(0)[:, None]
        return joined

    # --- memory ---------------------------------------------------------------------------------------------------------

    def columns(self, index: int) -> int:
        """Columns of z: see `Form.columns`."""
        return self.fused[index].form.columns(sum(self.widths(index)), self.fused[index].width)

    def working_bytes(self, index: int, samples: int) -> int:
        """Bytes of a level's sums and of the solver's matrices, in the cheaper of the two forms.

        Primal: xx, its factor, xz, phi, zz and G. Dual: rows and kernel. Levels that are not affine need only zz.
        """
        level = self.fused[index]
        m = level.part * len(self.parents) or self.columns(index)
        if level.affine is None:
            return 2 * 8 * m * m
        n, p = samples * level.positions, level.form.inputs_per_neuron + 1
        matrices = level.form.parts or 1
        primal = 8 * (3 * matrices * p * p + 3 * p * m + 2 * m * m)
        return min(primal, dual_bytes(n, p, m)) if dual_is_cheaper(n, p, m) and matrices == 1 else primal

    def boundary_bytes(self, index: int, samples: int) -> int:
        """Bytes of all networks' boundary tensors after a level, for all samples."""
        return self.itemsize * samples * sum(network[index].numbers for network in self.networks)

    @property
    def itemsize(self) -> int:
        """Bytes per number: 4 for float32, 8 for float64."""
        return next((p.element_size() for level in self.fused for p in level.module.parameters()), 4)

    def check_memory(self, samples: int, memory: int, fit: str) -> None:
        """Check that each level fits the memory budget.

        Raises:
            ValueError: names the level and the bytes.
        """
        for index, level in enumerate(self.fused):
            need = self.working_bytes(index, samples)
            if fit == "gradient":  # inputs and targets of all samples
                before = self.fused[index - 1].numbers if index else 0
                need += self.itemsize * samples * (level.positions * level.width + before)
            if need > memory:
                raise ValueError(
                    f"level {level.name!r} needs {in_units(need)} for its sums, but the budget is {in_units(memory)}. "
                    f"Allow at least memory={need} bytes (--memory), or fuse narrower networks"
                    + (" or fewer samples." if fit == "gradient" else ".")
                )
