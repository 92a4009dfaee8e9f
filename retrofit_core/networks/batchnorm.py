"""Fold BatchNorm, which is affine per neuron in evaluation mode, into the affine layer before it, and put it back."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm as BatchNorm

Convolution = nn.Conv1d | nn.Conv2d | nn.Conv3d
Transposed = nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d
Affine = nn.Linear | Convolution


@dataclass(frozen=True, eq=False)
class Fold:
    """A layer that replaces modules of a model during the fit; `put_back` writes its weights into them."""

    layer: Affine
    modules: tuple[nn.Module, ...]
    put_back: Callable[[], None]
    """Writes the layer's weights into the modules, which then together equal the layer"""
    has_room: bool = True
    """Whether the modules can hold a bias"""
    kind: str = ""
    """Name in tables; empty for the layer's type"""
    axis: int = 0
    """Axis of the first module's weight along which it makes neurons; the layer's is 0"""


def fold(affine: Affine, norm: BatchNorm) -> Fold:
    """`folded`, with a way back into both modules."""
    layer = folded(affine, norm)
    has_room = affine.bias is not None or norm.bias is not None
    return Fold(layer, (affine, norm), partial(put_back, layer, affine, norm), has_room)


def fold_channels(norm: BatchNorm, dimensions: int) -> Fold:
    """`by_channel`, with a way back into scale and shift."""
    layer = by_channel(norm, dimensions)
    return Fold(layer, (norm,), partial(put_back_channels, layer, norm), kind=type(norm).__name__)


@torch.no_grad()
def folded(affine: Affine, norm: BatchNorm) -> Affine:
    """A new layer equal to `norm(affine(x))` in evaluation mode, up to rounding.

    With scale = gamma / sqrt(running_var + eps): weight * scale per output neuron, bias = beta + (bias - mean) * scale.
    """
    assert norm.running_mean is not None and norm.running_var is not None
    layer = copy.deepcopy(affine)
    scale = torch.rsqrt(norm.running_var + norm.eps)
    if norm.weight is not None:
        scale = scale * norm.weight
    shift = -norm.running_mean * scale
    if norm.bias is not None:
        shift = shift + norm.bias
    if affine.bias is not None:
        shift = shift + affine.bias * scale
    layer.weight = nn.Parameter(affine.weight * scale.reshape(-1, *[1] * (affine.weight.ndim - 1)))
    layer.bias = nn.Parameter(shift)
    return layer.eval()


@torch.no_grad()
def by_channel(norm: BatchNorm, dimensions: int) -> Convolution:
    """A new 1x1 depthwise convolution equal to `norm` on feature maps in evaluation mode.

    Args:
        dimensions: spatial dimensions, 1 to 3.
    """
    n = norm.num_features
    assert norm.running_mean is not None
    kind = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dimensions - 1]
    layer = kind(n, n, 1, groups=n, bias=False, dtype=norm.running_mean.dtype, device=norm.running_mean.device)
    layer.weight.fill_(1)
    return folded(layer, norm)  # type: ignore[return-value]


@torch.no_grad()
def put_back(layer: Affine, affine: Affine, norm: BatchNorm) -> None:
    """Write a folded layer into `affine` and make `norm` the identity, so that the architecture keeps its BatchNorm.

    The bias goes into the affine layer if that has one, else into the BatchNorm.
    Raises:
        ValueError: neither has a bias.
    """
    assert layer.bias is not None
    _become_identity(norm)
    affine.weight.copy_(layer.weight)
    if affine.bias is not None:
        affine.bias.copy_(layer.bias)
    elif norm.bias is not None:
        norm.bias.copy_(layer.bias)
    else:
        raise ValueError(
            "there is no place for the fused bias: neither the layer nor the BatchNorm after it has a bias. Use "
            "affine=True in the BatchNorm of the target."
        )


@torch.no_grad()
def put_back_channels(layer: Convolution, norm: BatchNorm) -> None:
    """Write a layer from `by_channel` into the scale and shift of `norm`."""
    assert layer.bias is not None
    _become_identity(norm)
    norm.weight.copy_(layer.weight.flatten())
    norm.bias.copy_(layer.bias)


def _become_identity(norm: BatchNorm) -> None:
    assert norm.running_mean is not None and norm.running_var is not None
    norm.running_mean.zero_()
    norm.running_var.fill_(1 - norm.eps)  # so that sqrt(running_var + eps) = 1
    if norm.weight is not None:
        norm.weight.fill_(1)
        norm.bias.zero_()
