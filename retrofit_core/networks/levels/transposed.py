"""Rewrite transposed convolutions as convolutions of maps with zeros between positions, so that levels handle one kind."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from ..batchnorm import Convolution, Fold, Transposed
from .kinds import TRANSPOSED
from .weights import sole_calls


def spread(x: Tensor, stride: tuple[int, ...], before: tuple[int, ...], after: tuple[int, ...]) -> Tensor:
    """Maps (B, C, ...) with stride - 1 zeros between neighbours, padded by `before` and `after` (cropped if negative)."""
    sizes = [(size - 1) * step + 1 for size, step in zip(x.shape[2:], stride, strict=True)]
    wide = x.new_zeros(*x.shape[:2], *sizes)
    wide[(..., *(slice(None, None, step) for step in stride))] = x
    return F.pad(wide, [width for pair in zip(before[::-1], after[::-1], strict=True) for width in pair])


def call_convolutions(graph: fx.Graph, modules: dict[Any, Any]) -> dict[str, Fold]:
    """Replace each ungrouped transposed convolution by `spread` and a convolution; returns the folds by layer name, as for
    BatchNorms. Layers that share or compute their weights stay."""
    folds: dict[str, Fold] = {}
    for node, layer in sole_calls(graph, modules, TRANSPOSED):
        if layer.groups > 1 or len(node.args) != 1:  # second argument: the output size
            continue
        sizes = zip(layer.dilation, layer.kernel_size, layer.padding, strict=True)
        around = tuple(d * (k - 1) - int(p) for d, k, p in sizes)
        after = tuple(width + more for width, more in zip(around, layer.output_padding, strict=True))
        with graph.inserting_before(node):
            wide = graph.call_function(spread, (node.args[0], layer.stride, around, after))
        read = torch.empty(node.all_input_nodes[0].meta["value"], device="meta")
        wide.meta = {**node.meta, "value": spread(read, layer.stride, around, after).shape}
        node.args = (wide,)
        modules[node.target] = new = straightened(layer)
        folds[str(node.target)] = Fold(new, (layer,), partial(put_back, new, layer), axis=1)
    return folds


@torch.no_grad()
def straightened(layer: Transposed) -> Convolution:
    """A new convolution, stride 1, unpadded, with the flipped kernel of a transposed one."""
    kind = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[layer.weight.ndim - 3]
    with torch.device("meta"):
        new = kind(layer.in_channels, layer.out_channels, layer.kernel_size, dilation=layer.dilation)  # type: ignore[arg-type]
    new.weight = nn.Parameter(turned_kernel(layer.weight))
    new.bias = None if layer.bias is None else nn.Parameter(layer.bias.clone())
    return new.eval()


@torch.no_grad()
def put_back(new: Convolution, layer: Transposed) -> None:
    """Write the convolution into the transposed one."""
    layer.weight.copy_(turned_kernel(new.weight))
    if layer.bias is not None and new.bias is not None:
        layer.bias.copy_(new.bias)


def turned_kernel(weight: Tensor) -> Tensor:
    """Flip the kernel and swap (inputs, outputs, ...); its own inverse."""
    return weight.transpose(0, 1).flip(tuple(range(2, weight.ndim))).contiguous()
