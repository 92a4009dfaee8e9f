"""BatchNorm in evaluation mode is an affine map per neuron: folded into the affine layer before it, and put back."""

import copy
from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

BATCHNORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
Affine = nn.Linear | nn.Conv2d
BatchNorm = nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d


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
def put_back(layer: Affine, affine: Affine, norm: BatchNorm) -> None:
    """Write a folded layer into `affine` and make `norm` the identity, so that the architecture keeps its BatchNorm.

    The bias goes where there is room for it: into the affine layer if it has one, else into the BatchNorm.
    Raises:
        ValueError: the BatchNorm has no affine parameters and the layer before it no bias.
    """
    assert norm.running_mean is not None and norm.running_var is not None and layer.bias is not None
    affine.weight.copy_(layer.weight)
    norm.running_mean.zero_()
    norm.running_var.fill_(1 - norm.eps)  # so that sqrt(running_var + eps) = 1
    if norm.weight is not None:
        norm.weight.fill_(1)
        norm.bias.zero_()
    if affine.bias is not None:
        affine.bias.copy_(layer.bias)
    elif norm.bias is not None:
        norm.bias.copy_(layer.bias)
    else:
        raise ValueError(
            "the fused bias has no place: neither the layer nor the BatchNorm behind it has a bias. "
            "Use affine=True in the BatchNorm of the target."
        )


@torch.no_grad()
def reestimate(model: nn.Module, batches: Iterable[Tensor]) -> int:
    """Give each BatchNorm the statistics of its own inputs, and leave the function in evaluation mode as it is.

    Scale and shift make up for the new statistics. So fine-tuning, which normalises by the statistics of its batches,
    starts near the fused network instead of far from it.

    Args:
        batches: inputs of the model, on its device.
    Returns:
        The number of BatchNorms; those without scale and shift cannot make up for anything and are left alone.
    """
    norms = [m for m in model.modules() if isinstance(m, BATCHNORMS) and m.affine and m.running_mean is not None]
    sums: dict[nn.Module, tuple[int, Any, Any]] = {}
    hooks = [norm.register_forward_pre_hook(partial(_add_up, sums)) for norm in norms]
    try:
        for batch in batches if norms else ():
            model(batch)
    finally:
        for hook in hooks:
            hook.remove()
    for norm in (norm for norm in norms if norm in sums):
        count, total, squares = sums[norm]
        mean = total / count
        variance = (squares / count - mean**2).clamp_min(0)
        assert norm.running_mean is not None and norm.running_var is not None
        slope = norm.weight.double() / (norm.running_var.double() + norm.eps).sqrt()
        norm.bias.copy_(norm.bias.double() + slope * (mean - norm.running_mean.double()))
        norm.weight.copy_(slope * (variance + norm.eps).sqrt())
        norm.running_mean.copy_(mean)
        norm.running_var.copy_(variance)
    return len(sums)


def _add_up(sums: dict[nn.Module, tuple[int, Any, Any]], norm: nn.Module, arguments: tuple[Tensor, ...]) -> None:
    x = arguments[0].movedim(1, -1).flatten(0, -2).double()  # (rows, channels)
    count, total, squares = sums.get(norm, (0, 0.0, 0.0))
    sums[norm] = count + len(x), total + x.sum(0), squares + x.square().sum(0)
