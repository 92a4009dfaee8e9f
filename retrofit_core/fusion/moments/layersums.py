"""Moments of one affine layer from its input tensors: unfolded, or by lags if that is cheaper."""

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ...networks.levels.forms import Partwise, unfolded_together
from ...networks.levels.kinds import AffineLayer
from ...networks.levels.level import Level
from ...system.device import CHUNK_BYTES, rows_per_batch
from . import Moments, MomentSums, PartMoments, PartSums, Rows, lags


class LayerSums:
    """Sums over the rows of one layer, batch by batch: x are its (unfolded) input rows, z rows of targets.

    Args:
        layer: its kernel, stride, padding and weight shape are used.
        m: number of columns of z, which are zero if `add` gets no targets.
        bias: whether to append a column of ones to x.
        dtype: precision of products; sums are float64.
        beside: layers whose outputs are added to the layer's; their input rows follow its own.
    """

    def __init__(
        self, layer: AffineLayer, m: int, *, bias: bool, dtype: torch.dtype, beside: Sequence[AffineLayer] = ()
    ) -> None:
        self.layers, self.m, self.bias, self.dtype = (layer, *beside), m, bias, dtype
        self.columns = sum(each.weight[0].numel() for each in self.layers)
        device = layer.weight.device
        self.sums: MomentSums | lags.LagSums
        if lags.applies(layer) and not beside:
            self.sums = lags.LagSums(layer.weight.shape[1], m, bias=bias, device=device)
        else:
            self.sums = MomentSums(m, self.columns + bias, bias=bias, device=device)

    def add(self, h: Tensor, z: Tensor | None = None, beside: Sequence[Tensor] = ()) -> None:
        """Add a batch of the layers' input tensors and, if there are targets, their rows (N, m)."""
        for parts, rows in self._chunks((h, *beside), z):
            if isinstance(self.sums, lags.LagSums):
                self.sums.add(parts[0], rows)
            else:
                self.sums.add(rows, unfolded_together(self.layers, parts, self.dtype, ones=self.bias))

    def _chunks(self, inputs: Sequence[Tensor], z: Tensor | None) -> Iterator[tuple[tuple[Tensor, ...], Tensor]]:
        """Chunks whose rows fit into memory: the layers' inputs, (b, ...) each, and rows z (b x positions, m)."""
        h = inputs[0]
        positions = unfolded_together(self.layers, [tensor[:1] for tensor in inputs]).shape[0]
        columns = h.shape[1] + self.m if isinstance(self.sums, lags.LagSums) else self.columns
        step = rows_per_batch(self.dtype.itemsize * positions * columns, CHUNK_BYTES)
        z = h.new_zeros(len(h) * positions, self.m) if z is None else z
        parts = zip(*(tensor.split(step) for tensor in inputs), strict=True)
        yield from zip(parts, z.to(self.dtype).split(step * positions), strict=True)

    def finish(self) -> Moments:
        """The moments. Nothing can be added afterwards."""
        return self.sums.finish()


class PartwiseSums:
    """The same for a level of grouped convolutions, whose parts read their own inputs.

    Args:
        parts: (m,) the fused network's part to which each of the parents' neurons is assigned. If the level adds to a
            stream, the stream's neurons belong to its own parts.
    """

    def __init__(self, level: Level, form: Partwise, parts: Tensor, *, dtype: torch.dtype) -> None:
        self.level, self.form, self.dtype = level, form, dtype
        if form.adds:
            of_stream = torch.arange(level.width, device=parts.device) // (level.width // form.parts)
            parts = torch.cat([parts, of_stream])
        self.sums = PartSums(parts, form.parts, form.inputs_per_neuron + form.bias, bias=form.bias)

    def add(self, h: Tensor, z: Tensor, beside: Sequence[Tensor] = ()) -> None:
        """Add a batch of the layers' input tensors and their rows (N, m)."""
        positions, (count, p, most) = self.level.positions, self.sums.xz.shape
        step = rows_per_batch(8 * positions * (2 * count * (p + most) + z.shape[1]), CHUNK_BYTES)
        for inputs, rows in zip(
            zip(*(x.split(step) for x in (h, *beside)), strict=True), z.split(step * positions), strict=True
        ):
            self.sums.add(rows, self.form.rows(inputs, self.dtype, ones=self.form.bias))

    def finish(self) -> PartMoments:
        """The moments. Nothing can be added afterwards."""
        return self.sums.finish()


class LayerRows:
    """Collects the rows themselves for the dual form; otherwise like `LayerSums`."""

    def __init__(
        self, layer: AffineLayer, *, bias: bool, dtype: torch.dtype, beside: Sequence[AffineLayer] = ()
    ) -> None:
        self.layers, self.bias, self.dtype = (layer, *beside), bias, dtype
        self.parts: list[tuple[Tensor, Tensor]] = []

    def add(self, h: Tensor, z: Tensor, beside: Sequence[Tensor] = ()) -> None:
        """Add a batch of the layers' input tensors and rows (N, m) of targets."""
        x = unfolded_together(self.layers, (h, *beside), self.dtype, ones=self.bias)
        self.parts.append((x, z.to(self.dtype)))

    def finish(self) -> Rows:
        """All rows, in float64."""
        inputs, outputs = zip(*self.parts, strict=True)
        return Rows(torch.cat(inputs).double(), torch.cat(outputs).double(), self.bias)
