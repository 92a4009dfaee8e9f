"""Moments of the layers of one level from their input tensors: unfolded, or by lags if that is cheaper."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ...networks.levels import Affine
from ...system.device import CHUNK_BYTES, rows_per_batch
from . import lags
from .sums import Moments, MomentSums, Rows


class LayerSums:
    """Sums over the rows of layers whose outputs are added, batch by batch: x are their (unfolded) input rows, z rows of
    targets.

    Args:
        form: the layers.
        m: number of columns of z, which are zero if `add` gets no targets.
        dtype: precision of products; sums are float64.
        ones: whether x has a column of ones if the layers have a bias.
        parts: (m,) for grouped convolutions, the part of each column of z, see `Moments`.
        dual: whether to collect the rows themselves, for the dual form.
    """

    def __init__(
        self,
        form: Affine,
        m: int,
        *,
        dtype: torch.dtype,
        ones: bool = True,
        parts: Tensor | None = None,
        dual: bool = False,
    ) -> None:
        self.form, self.m, self.dtype, device = form, m, dtype, form.layers[0].weight.device
        (first, *others), self.bias = form.layers, ones and form.bias
        #: Numbers for each row of a chunk, twice where parts are laid apart.
        self.columns = form.inputs_per_neuron
        self.sums: MomentSums | lags.LagSums | list[tuple[Tensor, Tensor]]
        if dual:
            self.sums = []
        elif lags.applies(first) and not others:
            self.sums = lags.LagSums(first.weight.shape[1], m, bias=self.bias, device=device)
            self.columns = first.weight.shape[1] + m
        else:
            of_parts = None if parts is None else (parts, form.parts)
            p = form.inputs_per_neuron + self.bias
            self.sums = MomentSums(m, p, bias=self.bias, device=device, parts=of_parts)
            if self.sums.columns is not None:
                self.columns = 2 * form.parts * (p + self.sums.columns.shape[1]) + m

    def add(self, inputs: Sequence[Tensor], z: Tensor | None = None) -> None:
        """Add a batch of the layers' input tensors and, if there are targets, their rows (N, m), in chunks that fit into
        memory."""
        h = inputs[0]
        positions = len(self.form.rows([tensor[:1] for tensor in inputs]))
        step = rows_per_batch(self.dtype.itemsize * positions * self.columns, CHUNK_BYTES)
        z = h.new_zeros(len(h) * positions, self.m) if z is None else z
        chunks = zip(*(tensor.split(step) for tensor in inputs), strict=True)
        for tensors, rows in zip(chunks, z.split(step * positions), strict=True):
            rows = rows.to(self.dtype)
            if isinstance(self.sums, lags.LagSums):
                self.sums.add(rows, tensors[0])
                continue
            x = self.form.rows(tensors, self.dtype, ones=self.bias)
            if isinstance(self.sums, list):
                self.sums.append((x, rows))
            else:
                self.sums.add(rows, x)

    def finish(self) -> Moments | Rows:
        """The moments, or the rows in float64. Nothing can be added afterwards."""
        if not isinstance(self.sums, list):
            return self.sums.finish()
        inputs, outputs = zip(*self.sums, strict=True)
        return Rows(torch.cat(inputs).double(), torch.cat(outputs).double(), self.bias)
