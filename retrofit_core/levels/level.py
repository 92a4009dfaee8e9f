"""One level, and its tensors as rows.

Legend: B samples, N rows = samples x positions, C or width neurons, p inputs of an affine level (unfolded for
convolutions, channel-major, as `weight.flatten(1)`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .. import batchnorm


@dataclass(frozen=True, eq=False)
class Level:
    """One step of the composition f = f_L o ... o f_1; the parameters are the model's own, not copies."""

    name: str
    """The affine layer or the block at whose output the level ends, else its last layer with parameters."""
    module: nn.Module
    """Boundary tensor in, boundary tensor out."""
    width: int
    """Number of output neurons."""
    axis: int
    """Neuron axis of the output: 1 (channels, features of a flat tensor), -1 (tokens) or 2 (channels of several frames)."""
    positions: int
    """Rows per sample: the output's spatial positions or tokens, 1 for a flat tensor."""
    head: bool
    """True for the last level: its neurons are the classes."""
    affine: nn.Linear | nn.Conv2d | None
    """The level's only parameters, last in it; None if the level is not affine in its weights."""
    prefix: nn.Module | None
    """The part before `affine` (without parameters); None if the level is not affine."""
    why_not_affine: str
    """The reason, as the end of a sentence; empty for an affine level."""
    folds: tuple[tuple[batchnorm.Affine, batchnorm.Affine, batchnorm.BatchNorm], ...] = field(default=())
    """(folded layer, affine layer, BatchNorm) for each BatchNorm that was folded here."""
    residual: bool = False
    """Whether a skip adds the input's neurons to the output's, so that both must have the same order."""

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        return sum(p.numel() for p in self.module.parameters())

    @property
    def kind(self) -> str:
        """What the level is, for tables: Linear, Conv2d, or the reason why it is not affine."""
        return type(self.affine).__name__ if self.affine is not None else "not affine"

    def inputs(self, boundary: Tensor, dtype: torch.dtype | None = None, *, ones: bool = False) -> Tensor:
        """The level's input rows x of shape (N, p): one row per output position, convolution patches unfolded.

        Args:
            dtype: of the rows; default: the boundary tensor's.
            ones: append a column of ones (p + 1).
        """
        assert self.prefix is not None and self.affine is not None
        return unfolded(self.affine, self.prefix(boundary), dtype, ones=ones)

    def state(self) -> dict[str, Tensor]:
        """The level's own tensors under the names that they have in the whole model."""
        parts = self.module if isinstance(self.module, nn.Sequential) else [self.module]
        return {name: tensor for part in parts for name, tensor in part.state_dict().items()}

    def put_back(self) -> None:
        """Write folded layers back into the model they came from."""
        for layer, affine, norm in self.folds:
            batchnorm.put_back(layer, affine, norm)


def merged(levels: Sequence[Level]) -> Level:
    """Several levels as one; a single level stays as it is."""
    if len(levels) == 1:
        return levels[0]
    return replace(
        levels[-1],
        module=nn.Sequential(*(level.module for level in levels)),
        affine=None,
        prefix=None,
        why_not_affine=f"it joins {len(levels)} levels ({', '.join(level.name for level in levels)}) to match a shallower "
        "network",
        folds=tuple(fold for level in levels for fold in level.folds),
        residual=all(level.residual for level in levels),
    )


def compose(levels: Iterable[Level], x: Tensor) -> Tensor:
    """Run levels one after the other."""
    for level in levels:
        x = level.module(x)
    return x


def rows(tensor: Tensor, axis: int) -> Tensor:
    """A boundary tensor as rows x neurons: (B, C, H, W), (B, T, D) or (B, D) -> (N, width)."""
    return tensor.movedim(axis, -1).reshape(-1, tensor.shape[axis])


def unfolded(
    affine: nn.Linear | nn.Conv2d, tensor: Tensor, dtype: torch.dtype | None = None, *, ones: bool = False
) -> Tensor:
    """Input rows (N, p) such that `rows @ weight.flatten(1).T + bias` are the layer's output rows.

    Unfolding, conversion and the column of ones take one pass over memory.
    """
    windows = tensor if isinstance(affine, nn.Linear) else _windows(affine, tensor)
    p = affine.weight[0].numel()
    unfolded_rows = torch.empty(windows.numel() // p, p + ones, dtype=dtype or tensor.dtype, device=tensor.device)
    unfolded_rows[:, :p].view(windows.shape).copy_(windows)
    if ones:
        unfolded_rows[:, -1] = 1
    return unfolded_rows


def _windows(conv: nn.Conv2d, tensor: Tensor) -> Tensor:
    """A view (B, out height, out width, C, kernel height, kernel width) of the padded input."""
    mode = "constant" if conv.padding_mode == "zeros" else conv.padding_mode
    padding = conv._reversed_padding_repeated_twice  # holds for int, tuple, "same" and "valid" alike
    tensor = F.pad(tensor, padding, mode=mode) if any(padding) else tensor
    B, C, *sizes = tensor.shape
    spans = [d * (k - 1) + 1 for d, k in zip(conv.dilation, conv.kernel_size, strict=True)]
    counts = [(size - span) // step + 1 for size, span, step in zip(sizes, spans, conv.stride, strict=True)]
    b, c, *strides = tensor.stride()
    steps = [stride * step for stride, step in zip(strides, conv.stride, strict=True)]
    inner = [stride * d for stride, d in zip(strides, conv.dilation, strict=True)]
    return tensor.as_strided((B, *counts, C, *conv.kernel_size), (b, *steps, c, *inner))
