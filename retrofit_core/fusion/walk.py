"""Runs parents and fused prefix level by level, so that they stand at the same boundary.

    for step in Walk(parents, fused, inputs, device=device):
        sums = step.moments(inputs=True)
        ...  # write the weights of step.level
    # here the fused network has passed the last level

What is alive at a boundary is one tensor a network, or several inside of a block (levels know which). They are kept while they
and the level's sums fit into the budget, and recomputed from the last kept ones else.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..networks.levels import Boundary, Level, each, places_read, rows
from ..system.device import MEMORY, Stopwatch, check_sums, rows_per_batch, sum_dtype
from ..system.monitor import Monitor
from .budget import boundary_bytes, columns, dual_bytes, working_bytes
from .contributors import Alone, Contributors
from .moments import Moments, MomentSums, Rows, dual_is_cheaper
from .moments.layersums import LayerRows, LayerSums, PartwiseSums

#: Most samples per forward pass: large enough for full-speed convolutions and long sums.
BATCH = 400
#: Most positions of a map that is kept map by map; measured on 2 x 2 to 32 x 32.
SMALL_MAP = 16


class Walk:
    """Parents k = 0..n-1 and the fused network's finished levels on one set of inputs.

    Walking on lets the fused network pass the level of the step before, with the weights that it has by then.

    Args:
        parents: the levels of each parent.
        fused: the levels of the fused network.
        inputs: (B, ...) fusion data; moved to the device batch by batch.
        memory: bytes for the sums of a level and for kept boundary tensors.
        contributors: other sources of the levels' sums; default: none.
    """

    def __init__(
        self,
        parents: Sequence[Sequence[Level]],
        fused: Sequence[Level],
        inputs: Tensor,
        *,
        device: torch.device,
        memory: int = MEMORY,
        stopwatch: Stopwatch | None = None,
        monitor: Monitor | None = None,
        contributors: Contributors | None = None,
    ) -> None:
        self.networks = [*parents, fused]
        self.parents, self.fused = parents, fused
        self.device = device
        self.memory = memory
        self.stopwatch = stopwatch or Stopwatch(device)
        self.monitor = monitor or Monitor()
        self.contributors = contributors or Alone()
        self.samples = len(inputs)
        self.dtype = inputs.dtype
        self.all_samples = self.contributors.samples(self.samples)
        largest = max(level.numbers for network in self.networks for level in network)
        self.batch = min(BATCH, rows_per_batch(inputs.element_size() * largest))  # samples per forward pass
        # kept[b][k] = (number of levels passed, boundary) for batch b and network k, the fused one last
        self.kept: list[list[tuple[int, Boundary]]] = [
            [(0, batch)] * len(self.networks) for batch in inputs.split(self.batch)
        ]

    def __len__(self) -> int:
        return len(self.fused)

    def __iter__(self) -> "Iterator[Step]":
        for index in range(len(self.fused)):
            yield Step(self, index)
            if index + 1 < len(self.fused):
                self._advance(index)

    def pooled(self, tensor: Tensor) -> Tensor:
        """A sum over rows of all contributors; of this walk's own where the others send moments alone."""
        return self.contributors.add_up(tensor) if self.contributors.adds_up else tensor

    def boundary(self, index: int) -> Boundary:
        """The fused network's boundary before level `index`, first batch."""
        return self._at(self.kept[0], len(self.networks) - 1, index)

    def batches(self, index: int, *, made: bool = False) -> Iterator[tuple[Boundary, list[Tensor]]]:
        """For each batch: the fused network's boundary before level `index`, the parents' outputs of that level.

        Args:
            made: what the parents' layers make stands behind their outputs, where a function follows before they are added.
        """
        tail = self.fused[index].tail
        keep = self._fits(index) and not made and not tail
        for batch in self.monitor.each("step", self.kept, name="forward", level=self.fused[index].name):
            with self.stopwatch.phase("forward"):
                before = [self._made(batch, k, index) for k in range(len(self.parents))] if made else []
                if tail:
                    outputs = [self._made(batch, k, index) for k in range(len(self.parents))]
                else:
                    ends = [self._at(batch, k, index + 1) for k in range(len(self.parents))]
                    outputs = [levels[index].output(z) for levels, z in zip(self.parents, ends, strict=True)]
                    if keep:
                        batch[:-1] = [(index + 1, z) for z in ends]
                h = self._at(batch, len(self.networks) - 1, index)
            yield h, outputs + before

    def ahead(self, index: int, later: Sequence[int]) -> Iterator[tuple[int, list[Tensor]]]:
        """For each batch and each of some levels after `index`: the level's number, the parents' outputs there. None are kept."""
        for batch in self.monitor.each("step", self.kept, name="forward", level=self.fused[index].name):
            boundaries = [self._at(batch, k, index + 1) for k in range(len(self.parents))]
            for number in range(index + 1, max(later) + 1):
                with self.stopwatch.phase("forward"), torch.no_grad():
                    boundaries = [
                        passed(levels[number : number + 1], z)
                        for levels, z in zip(self.parents, boundaries, strict=True)
                    ]
                if number in later:
                    yield number, [levels[number].output(z) for levels, z in zip(self.parents, boundaries, strict=True)]

    def parents_ahead(self, index: int, level: int) -> Iterator[list[Boundary]]:
        """For each batch the parents' boundaries before a later level, the walk standing at level `index`. None are kept."""
        for batch in self.monitor.each("step", self.kept, name="forward", level=self.fused[index].name):
            with self.stopwatch.phase("forward"):
                boundaries = [self._at(batch, k, level) for k in range(len(self.parents))]
            yield boundaries

    def _advance(self, index: int) -> None:
        """Let the fused network pass the level that was just fitted."""
        if not self._fits(index):
            return
        with self.stopwatch.phase("forward"):
            for batch in self.kept:
                batch[-1] = (index + 1, self._at(batch, len(self.networks) - 1, index + 1))

    @torch.no_grad()
    def _at(self, batch: list[tuple[int, Boundary]], network: int, end: int) -> Any:
        """The boundary of one network after its first `end` levels, computed from the kept one."""
        before, h = batch[network]
        assert before <= end, "the walk has gone on"
        return passed(self.networks[network][before:end], each(h, lambda tensor: tensor.to(self.device)))

    @torch.no_grad()
    def _made(self, batch: list[tuple[int, Boundary]], k: int, index: int) -> Tensor:
        return self.parents[k][index].made(self._at(batch, k, index))

    def _fits(self, index: int) -> bool:
        """Whether the boundary tensors after this level can be kept beside the sums of this and the next level."""
        sums = max(working_bytes(self.networks, k, self.samples) for k in range(index, min(index + 2, len(self.fused))))
        return sums + boundary_bytes(self.networks, index, self.samples) <= self.memory


def passed(levels: Sequence[Level], boundary: Boundary) -> Any:
    """The boundary behind some levels, every boundary on the way laid out in memory in the same way.

    Kernels round otherwise in another layout: so a level's numbers do not depend on what was kept, recomputed or resumed.
    """
    boundary = each(boundary, _laid_out)
    for level in levels:
        boundary = each(level.module(boundary), _laid_out)
    return boundary


def _laid_out(h: Tensor) -> Tensor:
    """On a CPU: large maps with the channels of a pixel side by side, all else as its axes go.

    Pooling and the sums over rows read large maps faster so (the VGG pair's passes by a fifth, its sums by a tenth);
    convolutions of small maps with many channels would be slower.
    """
    if h.device.type != "cpu":
        return h
    side_by_side = h.ndim == 4 and h[0, 0].numel() > SMALL_MAP
    layout = torch.channels_last if side_by_side else torch.contiguous_format
    strides = torch.empty(h.shape, device="meta", memory_format=layout).stride()
    return h.contiguous(memory_format=layout).as_strided(h.shape, strides)  # an axis of length 1 may keep any stride


@dataclass(frozen=True, eq=False)
class Step:
    """One level of a walk; it can be asked until the walk goes on."""

    walk: Walk
    index: int

    @property
    def level(self) -> Level:
        """The fused network's level, not yet passed."""
        return self.walk.fused[self.index]

    @property
    def name(self) -> str:
        """The level's name."""
        return self.level.name

    @property
    def parents(self) -> list[Level]:
        """Each parent's level."""
        return [levels[self.index] for levels in self.walk.parents]

    @property
    def widths(self) -> tuple[int, ...]:
        """Neurons of each parent; m together."""
        return tuple(level.width for level in self.parents)

    @property
    def device(self) -> torch.device:
        """Where the sums are."""
        return self.walk.device

    @property
    def boundary(self) -> Boundary:
        """The fused network's boundary before the level, first batch."""
        return self.walk.boundary(self.index)

    @property
    def before(self) -> Level | None:
        """The fused network's level before; None at the first one."""
        return self.walk.fused[self.index - 1] if self.index else None

    @torch.no_grad()
    def moments(self, *, inputs: bool, dtype: torch.dtype | None = None, parts: Tensor | None = None) -> Moments | Rows:
        """Sums over all rows of all contributors: the parents' outputs z and, if wanted, the fused network's inputs x.

        Where the level's outputs are added to a stream, the fused network's stream stands beside z, with the inputs; behind
        it what the parents' layers make, where a function follows before it is added.
        Rows instead of sums where the dual form is cheaper and the rows of all contributors fit into the budget.

        Args:
            dtype: precision of the products, see `product_dtype`; default: that of sums on the device.
            parts: (m,) the fused network's part to which each of the parents' neurons is assigned, for the inputs of grouped
                convolutions.
        """
        dtype = dtype or sum_dtype(self.walk.device)
        inputs = inputs and not self.level.tables  # which say what they make of every input
        collect = self._collector(inputs, dtype, parts)
        for h, outputs in self.walk.batches(self.index, made=inputs and self.level.function is not None):
            with self.walk.stopwatch.phase("moments"):
                if isinstance(collect, MomentSums):
                    collect.add(self._side_by_side(outputs, dtype))
                else:
                    (x, *beside), stream = self.level.read(h)
                    collect.add(x, self._side_by_side(outputs, dtype, stream), beside)
        with self.walk.stopwatch.phase("moments"):
            sums = self.walk.contributors.total(self.index, collect.finish())
        check_sums(self.name, sums.zz)
        return sums

    def _collector(
        self, inputs: bool, dtype: torch.dtype, parts: Tensor | None
    ) -> MomentSums | LayerSums | LayerRows | PartwiseSums:
        """The object that collects the rows: sums of outputs alone, sums of inputs too, or the rows themselves."""
        if not inputs:
            return MomentSums(sum(self.widths), device=self.walk.device)
        if parts is not None:
            return PartwiseSums(self.level, parts, dtype=dtype)
        m, bias = columns(self.walk.networks, self.index), self.level.bias
        layer, *beside = self.level.layers
        n, p = self.walk.all_samples * self.level.positions, self.level.inputs_per_neuron + bias
        dual = dual_is_cheaper(n, p, m) and dual_bytes(n, p, m) <= self.walk.memory
        if dual and self.walk.contributors.share_rows:
            return LayerRows(layer, bias=bias, dtype=dtype, beside=beside)
        return LayerSums(layer, m, bias=bias, dtype=dtype, beside=beside)

    @torch.no_grad()
    def grams(self, later: Sequence[int]) -> dict[int, Tensor]:
        """The parents' inner products zz (m, m) at levels after this one, for which they run ahead."""
        sums = {
            index: MomentSums(sum(levels[index].width for levels in self.walk.parents), device=self.walk.device)
            for index in later
        }
        for index, outputs in self.walk.ahead(self.index, later) if later else ():
            with self.walk.stopwatch.phase("moments"):
                sums[index].add(self._side_by_side(outputs, sum_dtype(self.walk.device), at=index))
        return {index: self.walk.contributors.add_up(collected.finish().zz) for index, collected in sums.items()}

    @torch.no_grad()
    def activity(self) -> Tensor:
        """(m, m) inner products of what the parents' neurons hand on to the next level of a chain, behind activation functions
        and pooling, each about its mean over all rows."""
        sums = MomentSums(sum(self.widths), device=self.walk.device)
        readers, places = [levels[self.index + 1] for levels in self.walk.parents], list[Tensor]()
        for _, outputs in self.walk.batches(self.index):
            with self.walk.stopwatch.phase("moments"):
                if not places:
                    found = [
                        places_read(reader, self.level.axis, z) for reader, z in zip(readers, outputs, strict=True)
                    ]
                    places = [own[0] for own in found if own is not None]
                read = [
                    reader.read(z)[0][0].flatten(1)[:, own].movedim(1, -1).flatten(0, 1)
                    for reader, z, own in zip(readers, outputs, places, strict=True)
                ]
                sums.add(torch.cat(read, 1))
        own, add_up = sums.finish(), self.walk.contributors.add_up
        zz, sz, count = add_up(own.zz), add_up(own.sz), add_up(torch.tensor(float(own.rows), device=own.zz.device))
        return zz - torch.outer(sz, sz) / count

    @torch.no_grad()
    def branch(self, A: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Batch by batch the input rows x (n, p) of a level whose outputs are added to a stream, the fused network's stream
        h (n, d), and the targets z A (n, d)."""
        dtype = self.walk.dtype
        for boundary, outputs in self.walk.batches(self.index):
            with self.walk.stopwatch.phase("fit"):
                _, stream = self.level.read(boundary)
                assert stream is not None
                x = self.level.inputs(boundary, ones=self.level.bias)
                yield x, rows(stream, self.level.axis), self._side_by_side(outputs, dtype) @ A.to(dtype)

    def inputs_and_targets(self, A: Tensor) -> tuple[Tensor, Tensor]:
        """What a gradient fit needs: the fused boundary tensors (B, ...) and the targets z A as (B, positions, d)."""
        inputs, targets = [], []
        for h, outputs in self.walk.batches(self.index):
            with self.walk.stopwatch.phase("fit"):
                z = self._side_by_side(outputs)
                assert isinstance(h, Tensor)
                inputs.append(h.contiguous())
                targets.append((z @ A.to(z.dtype)).reshape(len(h), -1, A.shape[1]))
        return torch.cat(inputs), torch.cat(targets)

    def fitted(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Rows of the fitted level's outputs (n, d) and, beside them, of the parents' (n, m), batch by batch."""
        for h, outputs in self.walk.batches(self.index):
            with self.walk.stopwatch.phase("forward"), torch.no_grad():
                made = self.level.made(h) if self.level.tail else self.level.output(self.level.module(h))
                yield rows(made, self.level.axis), self._side_by_side(outputs)

    def _side_by_side(
        self,
        outputs: list[Tensor],
        dtype: torch.dtype | None = None,
        stream: Tensor | None = None,
        *,
        at: int | None = None,
    ) -> Tensor:
        """z: the parents' output rows (N, m), those of the fused network's stream, and what the parents' layers make, laid side
        by side and converted in one pass over memory.

        Args:
            at: the level of the outputs; default: the step's own.
        """
        levels = [parent[self.index if at is None else at] for parent in self.walk.parents]
        n = len(levels)
        views = [z.movedim(level.axis, -1) for z, level in zip(outputs, levels * (len(outputs) // n), strict=True)]
        if stream is not None:
            views.insert(n, stream.movedim(self.level.axis, -1))
        sizes = [view.shape[-1] for view in views]
        count = views[0][..., 0].numel()
        z = torch.empty(count, sum(sizes), dtype=dtype or views[0].dtype, device=views[0].device)
        for part, view in zip(z.split(sizes, 1), views, strict=True):
            part.view(view.shape).copy_(view)
        return z
