"""Bilinear layers become linear layers of all products of two inputs, so that levels know one kind."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, fx, nn

from ..batchnorm import Fold
from .weights import sole_calls


def products(x: Tensor, y: Tensor) -> Tensor:
    """(..., p) and (..., q) -> (..., p q), each number of the one times each of the other."""
    return (x.unsqueeze(-1) * y.unsqueeze(-2)).flatten(-2)


def call_products(graph: fx.Graph, modules: dict[Any, Any]) -> dict[str, Fold]:
    """Replace each bilinear layer by `products` and a linear one; the folds by the layers' names, as those of BatchNorms. Those
    that share weights, or compute them, stay."""
    folds: dict[str, Fold] = {}
    for node, layer in sole_calls(graph, modules, (nn.Bilinear,)):
        if len(node.args) != 2:
            continue
        with graph.inserting_before(node):
            wide = graph.call_function(products, node.args)
        wide.meta = {**node.meta, "value": node.meta["value"][:-1] + (layer.in1_features * layer.in2_features,)}
        node.args = (wide,)
        modules[node.target] = new = of_products(layer)
        folds[str(node.target)] = Fold(new, (layer,), partial(put_back, new, layer))
    return folds


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
def put_back(new: nn.Linear, layer: nn.Bilinear) -> None:
    """Write such a linear layer into the bilinear one."""
    layer.weight.copy_(new.weight.view_as(layer.weight))
    if layer.bias is not None:
        layer.bias.copy_(new.bias)
