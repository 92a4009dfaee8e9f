"""Transposed convolutions become convolutions of maps with zeros between their positions, so that levels know one kind."""

from collections import Counter
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.nn import functional as F

from .. import batchnorm
from .kinds import TRANSPOSED
from .weights import computed_weights, repeated


def spread(x: Tensor, stride: tuple[int, ...], before: tuple[int, ...], after: tuple[int, ...]) -> Tensor:
    """Maps (B, C, ...) with stride - 1 zeros between neighbours and so many around them, fewer than none where they are cut."""
    sizes = [(size - 1) * step + 1 for size, step in zip(x.shape[2:], stride, strict=True)]
    wide = x.new_zeros(*x.shape[:2], *sizes)
    wide[(..., *(slice(None, None, step) for step in stride))] = x
    return F.pad(wide, [width for pair in zip(before[::-1], after[::-1], strict=True) for width in pair])


def call_convolutions(graph: fx.Graph, modules: dict[Any, Any]) -> dict[str, tuple]:
    """Replace each transposed convolution of one group by `spread` and a convolution; the folds by the layers' names, as those
    of BatchNorms. Those that share weights, or compute them, stay."""
    calls = Counter(node.target for node in graph.nodes if node.op == "call_module")
    tied = repeated(holder for holder in modules.values() if isinstance(holder, nn.Module))
    folds: dict[str, tuple] = {}
    for node in list(graph.nodes):
        layer = modules.get(node.target) if node.op == "call_module" else None
        if not isinstance(layer, TRANSPOSED) or type(layer) not in TRANSPOSED or layer.groups > 1:
            continue
        shared = calls[node.target] > 1 or tied & set(map(id, layer.parameters()))
        if shared or computed_weights(layer) or len(node.args) > 1:  # it is given the size of its outputs
            continue
        sizes = zip(layer.dilation, layer.kernel_size, layer.padding, strict=True)
        around = tuple(d * (k - 1) - int(p) for d, k, p in sizes)
        after = tuple(width + more for width, more in zip(around, layer.output_padding, strict=True))
        with graph.inserting_before(node):
            wide = graph.call_function(spread, (node.args[0], layer.stride, around, after))
        read = torch.empty(node.all_input_nodes[0].meta["value"], device="meta")
        wide.meta = {**node.meta, "value": spread(read, layer.stride, around, after).shape}
        node.args = (wide,)
        modules[node.target] = batchnorm.straightened(layer)
        folds[str(node.target)] = (modules[node.target], layer, batchnorm.Turned())
    return folds
