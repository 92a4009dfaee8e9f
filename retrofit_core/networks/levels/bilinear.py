"""Rewrite bilinear layers as linear layers on all products of their two inputs, so that levels handle one kind."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, fx, nn

from ..batchnorm import Fold
from .weights import sole_calls


def products(x: Tensor, y: Tensor) -> Tensor:
    """(..., p) and (..., q) -> (..., p q), the flattened outer product."""
    return (x.unsqueeze(-1) * y.unsqueeze(-2)).flatten(-2)


def call_products(graph: fx.Graph, modules: dict[Any, Any]) -> dict[str, Fold]:
    """Replace each bilinear layer by `products` and a linear layer; returns the folds by layer name, as for BatchNorms. Layers
    that share or compute their weights stay."""
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
    """The linear layer on all products of the inputs that equals a bilinear layer."""
    with torch.device("meta"):
        new = nn.Linear(layer.in1_features * layer.in2_features, layer.out_features, bias=layer.bias is not None)
    new.weight = nn.Parameter(layer.weight.flatten(1).clone())
    if layer.bias is not None:
        new.bias = nn.Parameter(layer.bias.clone())
    return new.eval()


@torch.no_grad()
def put_back(new: nn.Linear, layer: nn.Bilinear) -> None:
    """Write the linear layer into the bilinear one."""
    layer.weight.copy_(new.weight.view_as(layer.weight))
    if layer.bias is not None:
        layer.bias.copy_(new.bias)
