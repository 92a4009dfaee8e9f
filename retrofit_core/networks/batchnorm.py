"""BatchNorm in evaluation mode is an affine map per neuron: folded into the affine layer before it, and put back.

So is a layer scale, a parameter by which the outputs of a layer are multiplied.
"""

import copy

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm as BatchNorm

Convolution = nn.Conv1d | nn.Conv2d | nn.Conv3d
Transposed = nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d
Affine = nn.Linear | Convolution


class Scale(nn.Module):
    """Holds a parameter by which the outputs of a layer are multiplied, neuron by neuron."""

    bias = None

    def __init__(self, factor: nn.Parameter) -> None:
        super().__init__()
        self.factor = factor


class Turned(nn.Module):
    """Stands for the kernel of a transposed convolution, which is that of a convolution turned round."""

    bias = None


class Paired(nn.Module):
    """Stands for the weight of a bilinear layer, which is that of a linear one of all products of its inputs."""

    bias = None


@torch.no_grad()
def of_products(layer: nn.Bilinear) -> nn.Linear:
    """A new linear layer of all products of the two inputs of a bilinear one."""
    with torch.device("meta"):
        new = nn.Linear(layer.in1_features * layer.in2_features, layer.out_features, bias=layer.bias is not None)
    new.weight = nn.Parameter(layer.weight.flatten(1).clone())
    if layer.bias is not None:
        new.bias = nn.Parameter(layer.bias.clone())
    return new.eval()


@torch.no_grad()
def straightened(layer: Transposed) -> Convolution:
    """A new convolution with stride 1 and no padding that has the kernel of a transposed one."""
    kind = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[layer.weight.ndim - 3]
    with torch.device("meta"):
        new = kind(layer.in_channels, layer.out_channels, layer.kernel_size, dilation=layer.dilation)  # type: ignore[arg-type]
    new.weight = nn.Parameter(turned_kernel(layer.weight))
    new.bias = None if layer.bias is None else nn.Parameter(layer.bias.clone())
    return new.eval()


def turned_kernel(weight: torch.Tensor) -> torch.Tensor:
    """(outputs, inputs, ...) of (inputs, outputs, ...), and the other way round."""
    return weight.transpose(0, 1).flip(tuple(range(2, weight.ndim))).contiguous()


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
def scaled(affine: Affine, factor: torch.Tensor) -> Affine:
    """A new layer equal to `affine(x)` times a factor for each neuron, (width,)."""
    layer = copy.deepcopy(affine)
    layer.weight = nn.Parameter(affine.weight * factor.reshape(-1, *[1] * (affine.weight.ndim - 1)))
    if affine.bias is not None:
        layer.bias = nn.Parameter(affine.bias * factor)
    return layer.eval()


@torch.no_grad()
def by_channel(norm: BatchNorm, dimensions: int) -> Convolution:
    """A new layer equal to `norm` on maps in evaluation mode: a convolution of one weight and a bias for each channel.

    Args:
        dimensions: of a map, 1 to 3.
    """
    n = norm.num_features
    assert norm.running_mean is not None
    kind = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dimensions - 1]
    layer = kind(n, n, 1, groups=n, bias=False, dtype=norm.running_mean.dtype, device=norm.running_mean.device)
    layer.weight.fill_(1)
    return folded(layer, norm)  # type: ignore[return-value]


@torch.no_grad()
def put_back(
    layer: Affine, affine: Affine | Transposed | nn.Bilinear | None, norm: BatchNorm | Scale | Turned | Paired
) -> None:
    """Write a folded layer into `affine` and make `norm` the identity, so that the architecture keeps its BatchNorm (its scale).

    The bias goes where there is room for it: into the affine layer if it has one, else into the BatchNorm. Where the layer is
    the BatchNorm alone (None), scale and shift go into it.
    Raises:
        ValueError: the BatchNorm has no affine parameters and the layer before it no bias.
    """
    if isinstance(norm, (Scale, Turned, Paired)):
        assert affine is not None
        if isinstance(norm, Scale):
            norm.factor.fill_(1)
        turned = isinstance(norm, Turned)
        affine.weight.copy_(turned_kernel(layer.weight) if turned else layer.weight.view_as(affine.weight))
        if affine.bias is not None and layer.bias is not None:
            affine.bias.copy_(layer.bias)
        return
    assert norm.running_mean is not None and norm.running_var is not None and layer.bias is not None
    norm.running_mean.zero_()
    norm.running_var.fill_(1 - norm.eps)  # so that sqrt(running_var + eps) = 1
    if norm.weight is not None:
        norm.weight.fill_(1)
        norm.bias.zero_()
    if affine is None:
        norm.weight.copy_(layer.weight.flatten())
        norm.bias.copy_(layer.bias)
        return
    affine.weight.copy_(layer.weight)
    if affine.bias is not None:
        affine.bias.copy_(layer.bias)
    elif norm.bias is not None:
        norm.bias.copy_(layer.bias)
    else:
        raise ValueError(
            "there is no room for the fused bias: neither the layer nor the BatchNorm behind it has a bias. "
            "Use affine=True in the BatchNorm of the target."
        )
