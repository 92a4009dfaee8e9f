"""Sums over the inputs of single layers, from which least squares follow (RegMean, PLeaS)."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from .. import lags
from ..device import CHUNK_BYTES, rows_per_batch
from ..levels.level import unfolded
from ..levels.weights import shared_weights
from ..moments import Moments

#: Samples that run at once.
BATCH = 100
Affine = nn.Linear | nn.Conv2d


def affine_layers(model: nn.Module) -> dict[str, Affine]:
    """Linear layers and ungrouped 2-D convolutions by name."""
    return {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) or (isinstance(module, nn.Conv2d) and module.groups == 1)
    }


def refuse_shared_layers(model: nn.Module, who: str) -> None:
    """Refuse a network in which layers share a weight, where each layer is solved by itself.

    Args:
        who: method and network, at the start of the sentence.
    Raises:
        ValueError: names the tensors.
    """
    solved = {f"{name}.{part}" for name in affine_layers(model) for part in ("weight", "bias")}
    for names in shared_weights(model):
        if solved & set(names):
            raise ValueError(
                f"{who}: {' and '.join(map(repr, names))} are one tensor, but each layer is solved by itself. Use Git-Re-Basin, "
                "OTFusion or ZipIt, which keep it shared, or give each layer weights of its own."
            )


class LayerSums:
    """Moments of one layer, collected batch by batch: x its (unfolded) input rows, z rows of targets.

    Args:
        layer: gives kernel, stride and padding; only shapes of its weights are read.
        m: columns of z; where `add` gets no targets they are zero.
        bias: a column of ones is appended to x.
        dtype: precision of products; sums are float64.
    """

    def __init__(self, layer: Affine, m: int, *, bias: bool, dtype: torch.dtype) -> None:
        self.layer, self.bias, self.dtype = layer, bias, dtype
        self.columns = layer.weight[0].numel()
        place = layer.weight.device
        self.lags = lags.LagSums(layer.weight.shape[1], m, place) if lags.applies(layer) else None
        self.sums = Moments.zeros(m, None if self.lags else self.columns + bias, bias=bias, device=place)

    def add(self, h: Tensor, z: Tensor | None = None) -> None:
        """One batch of the layer's input tensors and, where there are targets, their rows (N, m)."""
        for part, rows in self._chunks(h, z):
            if self.lags is None:
                self.sums.accumulate(rows, unfolded(self.layer, part, self.dtype, ones=self.bias))
            else:
                self.sums.accumulate(rows)
                self.lags.add(part, rows)

    def _chunks(self, h: Tensor, z: Tensor | None) -> Iterator[tuple[Tensor, Tensor]]:
        """Samples whose unfolded rows fit into memory."""
        positions = unfolded(self.layer, h[:1]).shape[0]
        step = rows_per_batch(self.dtype.itemsize * positions * self.columns, CHUNK_BYTES)
        z = h.new_zeros(len(h) * positions, len(self.sums.zz)) if z is None else z
        yield from zip(h.split(step), z.to(self.dtype).split(step * positions), strict=True)

    def moments(self) -> Moments:
        """The sums; call once, after the last batch."""
        if self.lags is not None:
            m = len(self.sums.zz)
            size = self.columns + self.bias
            self.sums.xx, self.sums.xz = self.sums.zz.new_zeros(size, size), self.sums.zz.new_zeros(size, m)
            self.sums.symmetric()
            self.lags.write(self.sums)
            self.lags = None
            return self.sums
        return self.sums.symmetric()


@contextmanager
def inputs_of(layers: Mapping[str, nn.Module], note: Callable[[str, Tensor, Tensor], Any]) -> Iterator[None]:
    """Calls `note` with a layer's name, input and output whenever it runs."""

    def hook(name: str, _: nn.Module, args: tuple[Tensor, ...], kwargs: dict[str, Tensor], output: Tensor) -> None:
        note(name, args[0] if args else kwargs["input"], output)

    hooks = [layer.register_forward_hook(partial(hook, name), with_kwargs=True) for name, layer in layers.items()]
    try:
        yield
    finally:
        for one in hooks:
            one.remove()
