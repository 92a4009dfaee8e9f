"""Run parents and fused network level by level, so that all are at the same boundary.

    for step in Walk(levels, inputs, runtime):
        sums = step.moments(inputs=True)
        ...  # write the weights of step.level
    # here the fused network has passed the last level

A boundary has one tensor per network, or several inside a block (levels know which). Boundary tensors are kept if they and the
level's sums fit into the budget, and otherwise recomputed from the last kept ones.

Legend: N rows = samples x positions, m neurons of all parents, d fused neurons, p inputs of a neuron.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from ..networks.levels import Activated, Affine, Boundary, Carried, Form, Level, each, rows
from ..networks.symmetry import tensors
from ..system import device as devices
from ..system.device import Stopwatch, check_sums, rows_per_batch, sum_dtype
from ..system.runtime import Runtime
from .grouping import level_generator
from .joint_spaces import Levels
from .moments import Moments, MomentSums, Rows, dual_bytes, dual_is_cheaper
from .moments.layersums import LayerSums
from .results import LevelReport
from .targets import of_ensemble

#: Maximum samples per forward pass: large enough for full-speed convolutions and long sums.
BATCH = 400
#: Maximum positions of maps in contiguous layout; measured on 2 x 2 to 32 x 32.
SMALL_MAP = 16


class Walk:
    """Runs parents k = 0..n-1 and the fused network's finished levels on the same inputs.

    The next step runs the fused network through the previous step's level, with its weights at that time.

    Args:
        inputs: (B, ...) fusion data of any precision; moved to the device batch by batch.
        runtime: device; memory in bytes for a level's sums and kept boundary tensors; monitor.
        seed: seed of each level's random numbers.
        reports: reports of finished levels, bottom-up; `Step.finish` adds one.
        tokens: (B, T) which tokens count as samples, where a level has a row for each of T; None: all.
    """

    def __init__(
        self,
        levels: Levels,
        inputs: Tensor,
        runtime: Runtime | None = None,
        *,
        seed: int = 0,
        reports: Sequence[LevelReport] = (),
        tokens: Tensor | None = None,
    ) -> None:
        runtime = runtime or Runtime()
        self.levels, self.networks = levels, levels.networks
        self.parents, self.fused = levels.parents, levels.fused
        self.device, self.memory, self.monitor = devices.pick(runtime.device), runtime.memory, runtime.monitor
        self.stopwatch = Stopwatch(self.device)
        self.seed, self.reports = seed, list(reports)
        self.samples = len(inputs)
        self.dtype = next(tensor.dtype for level in levels.fused for tensor in level.module.parameters())
        self.inputs, self.tokens = inputs, tokens
        largest = max(level.numbers for network in self.networks for level in network)
        self.batch = min(BATCH, rows_per_batch(self.dtype.itemsize * largest))  # samples per forward pass
        # kept[b][k] = (number of levels passed, boundary) for batch b and network k, the fused one last
        self.kept: list[list[tuple[int, Boundary]]] = [
            [(0, batch)] * len(self.networks) for batch in self.inputs.split(self.batch)
        ]

    def __len__(self) -> int:
        return len(self.fused)

    def __iter__(self) -> "Iterator[Step]":
        for index in range(len(self.fused)):
            yield Step(self, index)
            if index + 1 < len(self.fused):
                self._advance(index)

    def batches(self, index: int, *, layers: bool = False) -> Iterator[tuple[Boundary, list[Tensor]]]:
        """For each batch: the fused network's boundary before level `index`, and the parents' outputs of it, (B, ...) each.

        Args:
            layers: whether the outputs of the parents' layers follow, if a function is applied to them.
        """
        tail = self.fused[index].tail
        keep = self._fits(index) and not layers and not tail
        for batch in self.monitor.each("step", self.kept, name="forward", level=self.fused[index].name):
            with self.stopwatch.phase("forward"), torch.no_grad():
                outputs = list[Tensor]()
                if layers or tail:
                    outputs = [p[index].form.outputs(self._at(batch, k, index)) for k, p in enumerate(self.parents)]
                if not tail:
                    ends = [self._at(batch, k, index + 1) for k in range(len(self.parents))]
                    outputs = [levels[index].of(z) for levels, z in zip(self.parents, ends, strict=True)] + outputs
                    if keep:
                        batch[:-1] = [(index + 1, z) for z in ends]
                h = self._at(batch, len(self.networks) - 1, index)
            yield h, outputs

    def ahead(self, index: int, later: Sequence[int]) -> Iterator[tuple[int, list[Boundary]]]:
        """For each batch and each of some levels from `index` on: its number, and the parents' boundary tensors, (B, ...) each,
        after it. None are kept."""
        for batch in self.monitor.each("step", self.kept, name="forward", level=self.fused[index].name):
            for number in later:
                with self.stopwatch.phase("forward"):
                    batch = [(number + 1, self._at(batch, k, number + 1)) for k in range(len(self.parents))]
                yield number, [boundary for _, boundary in batch]

    def counted(self, level: Level) -> Sequence[Tensor | None]:
        """For each batch, which rows of a level's outputs count (B T,), those of padding not; None: all."""
        of_tokens = all(isinstance(layer, (nn.Linear, nn.Embedding)) for layer in level.form.layers)
        if self.tokens is None or not of_tokens:
            return [None] * len(self.kept)
        if (level.axis, level.positions) != (-1, self.tokens.shape[1]):  # pooled, or of other positions
            return [None] * len(self.kept)
        return [tokens.flatten().to(self.device) for tokens in self.tokens.split(self.batch)]

    def _advance(self, index: int) -> None:
        """Run the fused network through the level that was just fitted."""
        if not self._fits(index):
            return
        with self.stopwatch.phase("forward"):
            for batch in self.kept:
                batch[-1] = (index + 1, self._at(batch, len(self.networks) - 1, index + 1))

    @torch.no_grad()
    def _at(self, batch: list[tuple[int, Boundary]], network: int, end: int) -> Any:
        """One network's boundary tensors, (B, ...) each, after its first `end` levels, computed from the kept ones."""
        before, h = batch[network]
        assert before <= end, "the walk has gone on"
        dtype = None if before else self.dtype  # inputs are converted batch by batch, for there may be many
        return passed(self.networks[network][before:end], each(h, lambda tensor: tensor.to(self.device, dtype)))

    def _fits(self, index: int) -> bool:
        """Whether the boundary tensors after this level fit into memory with the sums of this and the next level."""
        levels, next_ones = self.levels, range(index, min(index + 2, len(self.fused)))
        sums = max(levels.working_bytes(k, self.samples) for k in next_ones)
        return sums + levels.boundary_bytes(index, self.samples) <= self.memory


def passed(levels: Sequence[Level], boundary: Boundary) -> Any:
    """The boundary after some levels, with a fixed memory layout at every boundary.

    Kernels round differently in another layout; so a level's numbers do not depend on what was kept or recomputed.
    """
    boundary = each(boundary, _laid_out)
    for level in levels:
        boundary = each(level.module(boundary), _laid_out)
    return boundary


def _laid_out(h: Tensor) -> Tensor:
    """On a CPU, make large maps channels-last and everything else contiguous.

    This speeds up pooling and sums over rows of large maps (the VGG pair's passes by a fifth, its sums by a tenth), but would
    slow down convolutions of small maps with many channels.
    """
    if h.device.type != "cpu":
        return h
    side_by_side = h.ndim == 4 and h[0, 0].numel() > SMALL_MAP
    layout = torch.channels_last if side_by_side else torch.contiguous_format
    strides = torch.empty(h.shape, device="meta", memory_format=layout).stride()
    return h.contiguous(memory_format=layout).as_strided(h.shape, strides)  # axes of length 1 may have any stride


@dataclass(frozen=True, eq=False)
class Step:
    """One level of a walk, valid until the next step."""

    walk: Walk
    index: int
    votes: Tensor | None = None
    """(m,) weights of the parents' classes, if the ensemble's answer takes the place of each parent's"""

    @property
    def level(self) -> Level:
        """The fused network's level, not yet passed."""
        return self.walk.fused[self.index]

    @property
    def name(self) -> str:
        """The level's name, which the monitor reports (`Monitor.each`)."""
        return self.level.name

    @property
    def parents(self) -> list[Level]:
        """Each parent's level."""
        return [levels[self.index] for levels in self.walk.parents]

    @property
    def widths(self) -> tuple[int, ...]:
        """Neurons of each parent; m in total."""
        return self.walk.levels.widths(self.index)

    @property
    def device(self) -> torch.device:
        """The device of the sums."""
        return self.walk.device

    @cached_property
    def counted(self) -> Sequence[Tensor | None]:
        """For each batch, which rows count, see `Walk.counted`."""
        return self.walk.counted(self.level)

    @property
    def count(self) -> int:
        """N, the rows that count."""
        chosen = [counted for counted in self.counted if counted is not None]
        return sum(int(counted.sum()) for counted in chosen) if chosen else self.walk.samples * self.level.positions

    @cached_property
    def generator(self) -> torch.Generator:
        """Random generator of this level."""
        return level_generator(self.walk.seed, self.index)

    @cached_property
    def known(self) -> Tensor:
        """(m,) groups of the level's neurons that earlier levels make, -1 for those whose space begins here."""
        return self.walk.levels.known(self.index, self._labels).to(self.device)

    @cached_property
    def parts(self) -> Tensor | None:
        """(m,) for grouped convolutions whose parts earlier levels have grouped, the fused network's part to which each neuron
        is assigned."""
        parts = self.walk.levels.known_parts(self.index, self._labels)
        return None if parts is None else parts.to(self.device)

    def _labels(self, index: int) -> Tensor:
        return self.walk.reports[index].labels.to(self.device)

    def finish(self, report: LevelReport) -> None:
        """Add the fitted level's report, with its stream and seconds, and tell the monitor its errors."""
        stream, clock = self.walk.levels.stream(self.index), self.walk.stopwatch
        name = self.walk.fused[stream[0]].name if len(stream) > 1 else ""
        self.walk.reports.append(replace(report, stream=name, seconds=clock.read()))

    def emit(self, phase: str) -> None:
        """Report a phase of the level to the monitor."""
        self.walk.monitor.emit("phase", name=phase, level=self.level.name)

    @torch.no_grad()
    def carry(self) -> None:
        """Set parameters and buffers before the level's layers with numbers for each neuron (scale and shift of a LayerNorm,
        class token, positions, masks) to the means of the parents', weighted like the targets of these neurons."""
        if not self.level.carried:
            return
        networks = [(level, tensors(level.module)) for level in (self.level, *self.parents)]
        for number, fused in enumerate(self.level.carried):
            tensor, *others = (held[level.carried[number].name].movedim(fused.axis, -1) for level, held in networks)
            if all(other.shape == tensor.shape for other in others):  # entries without neurons
                tensor.copy_(torch.stack([other.double() for other in others]).mean(0))
            self._average(tensor, fused, others, [parent.carried[number] for parent in self.parents])

    def _average(self, tensor: Tensor, fused: Carried, others: list[Tensor], theirs: list[Carried]) -> None:
        """Set a tensor's entries, neurons last, to the means of the parents', weighted like the targets of these neurons."""
        for which, (maker, neurons, index) in enumerate(fused.makers):
            report = self.walk.reports[maker]
            starts = [sum(report.widths[:k]) for k in range(len(others))]
            made = [of_parent.makers[which] for of_parent in theirs]
            members = torch.cat([start + positions for start, (_, positions, _) in zip(starts, made, strict=True)])
            for copy, places in enumerate(index.T):
                values = [other[..., at[:, copy]].double() for other, (*_, at) in zip(others, made, strict=True)]
                side_by_side = torch.cat(values, -1)
                weights = report.target_weights.to(side_by_side)[members][:, neurons]
                tensor[..., places] = (side_by_side @ weights).to(tensor)

    @torch.no_grad()
    def _crossed(self, outputs: list[Tensor], levels: Sequence[Level], fused: Carried) -> list[Tensor]:
        """The parents' outputs of layers that mix positions, each replaced by the targets: the means of all, along the axis of
        other levels' neurons."""
        theirs, n = [level.crossed for level in levels if level.crossed is not None], len(levels)
        means = []
        for start in range(0, len(outputs), n):
            others = [z.movedim(fused.axis, -1) for z in outputs[start : start + n]]
            mean = others[0].new_empty(*others[0].shape[:-1], sum(index.numel() for *_, index in fused.makers))
            self._average(mean, fused, others, theirs)
            means += [mean.movedim(-1, fused.axis)] * n
        return means

    @torch.no_grad()
    def moments(self, *, inputs: bool, dtype: torch.dtype | None = None) -> Moments | Rows:
        """Sums over all rows: the parents' outputs z and, with `inputs`, the fused network's inputs x.

        With `inputs`, if the level adds to a stream, the fused network's stream follows z, and then the outputs of the parents'
        layers if a function is applied to them. Returns rows instead of sums if the dual form is cheaper and they fit into the
        budget.

        Args:
            dtype: precision of the products, see `product_dtype`; default: that of sums on the device.
        """
        dtype, form = dtype or sum_dtype(self.walk.device), self.level.form
        inputs = inputs and isinstance(form, Affine)  # tables need no inputs
        collect = self._collector(form, dtype) if inputs else MomentSums(sum(self.widths), device=self.device)
        batches = self.walk.batches(self.index, layers=inputs and isinstance(form, Activated))
        for (h, outputs), counted in zip(batches, self.counted, strict=True):
            with self.walk.stopwatch.phase("moments"):
                if isinstance(collect, MomentSums):
                    collect.add(chosen(self.side_by_side(outputs, dtype), counted))
                else:
                    x, stream = form.read(h)
                    z = chosen(self.side_by_side(outputs, dtype, stream), counted)
                    collect.add([chosen(tensor, counted) for tensor in x], z)
        with self.walk.stopwatch.phase("moments"):
            sums = collect.finish()
        check_sums(self.level.name, sums.zz)
        return sums

    def _collector(self, form: Form, dtype: torch.dtype) -> LayerSums:
        """The object that collects sums over rows of inputs and outputs, or the rows themselves."""
        assert isinstance(form, Affine)
        m, parts = form.columns(sum(self.widths), self.level.width), self.parts if form.parts else None
        if parts is not None and form.adds:  # the stream's neurons belong to its own parts
            of_stream = torch.arange(self.level.width, device=self.device) // (self.level.width // form.parts)
            parts = torch.cat([parts, of_stream])
        n, p = self.count, form.inputs_per_neuron + form.bias
        dual = parts is None and dual_is_cheaper(n, p, m) and dual_bytes(n, p, m) <= self.walk.memory
        # Parts are too small for float32 to be faster.
        return LayerSums(form, m, dtype=dtype if parts is None else torch.float64, parts=parts, dual=dual)

    @torch.no_grad()
    def grams(self, later: Sequence[int]) -> dict[int, Tensor]:
        """The parents' inner products zz (m, m) at later levels, for which they run ahead."""
        sums = {
            index: MomentSums(sum(levels[index].width for levels in self.walk.parents), device=self.walk.device)
            for index in later
        }
        counted = {index: iter(self.walk.counted(self.walk.fused[index])) for index in later}
        for index, boundaries in self.walk.ahead(self.index, later) if later else ():
            outputs = [levels[index].of(z) for levels, z in zip(self.walk.parents, boundaries, strict=True)]
            with self.walk.stopwatch.phase("moments"):
                z = self.side_by_side(outputs, sum_dtype(self.walk.device), at=index)
                sums[index].add(chosen(z, next(counted[index])))
        return {index: collected.finish().zz for index, collected in sums.items()}

    def fitted(self) -> Iterator[tuple[Tensor, Tensor]]:
        """For each batch: rows of the fitted level's outputs (n, d) and of the parents' (n, m)."""
        for (h, outputs), counted in zip(self.walk.batches(self.index), self.counted, strict=True):
            with self.walk.stopwatch.phase("forward"), torch.no_grad():
                level = self.level
                output = level.form.outputs(h) if level.tail else level.of(level.module(h))
                yield chosen(rows(output, level.axis), counted), chosen(self.side_by_side(outputs), counted)

    def side_by_side(
        self,
        outputs: list[Tensor],
        dtype: torch.dtype | None = None,
        stream: Tensor | None = None,
        *,
        at: int | None = None,
    ) -> Tensor:
        """z: rows of the parents' outputs (N, m), or of the ensemble's in the place of each, the fused network's stream, and the
        parents' layers, concatenated and converted in one pass over memory.

        Args:
            at: the level of the outputs; default: the step's own.
        """
        index = self.index if at is None else at
        levels, crossed = [parent[index] for parent in self.walk.parents], self.walk.fused[index].crossed
        n, outputs = len(levels), outputs if crossed is None else self._crossed(outputs, levels, crossed)
        views = [z.movedim(level.axis, -1) for z, level in zip(outputs, levels * (len(outputs) // n), strict=True)]
        if stream is not None:
            views.insert(n, stream.movedim(self.level.axis, -1))
        sizes = [view.shape[-1] for view in views]
        count = views[0][..., 0].numel()
        z = torch.empty(count, sum(sizes), dtype=dtype or views[0].dtype, device=views[0].device)
        for part, view in zip(z.split(sizes, 1), views, strict=True):
            part.view(view.shape).copy_(view)
        if self.votes is not None:
            logits = z[:, : len(self.votes)].unflatten(1, (n, -1))
            logits.copy_(of_ensemble(logits, self.votes.view(n, -1))[:, None].expand_as(logits))
        return z


def chosen(tensor: Tensor, counted: Tensor | None) -> Tensor:
    """The rows (n, width) that count, of a tensor of tokens (B, T, width) or of rows; or the tensor itself."""
    return tensor if counted is None else tensor.flatten(0, -2)[counted]
