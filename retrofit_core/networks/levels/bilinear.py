"""Bilinear layers become linear layers of all products of two inputs, so that levels know one kind."""

from typing import Any

from torch import Tensor, fx, nn

from .. import batchnorm
from .weights import sole_calls


def products(x: Tensor, y: Tensor) -> Tensor:
    """(..., p) and (..., q) -> (..., p q), each number of the one times each of the other."""
    return (x.unsqueeze(-1) * y.unsqueeze(-2)).flatten(-2)


def call_products(graph: fx.Graph, modules: dict[Any, Any]) -> dict[str, tuple]:
    """Replace each bilinear layer by `products` and a linear one; the folds by the layers' names, as those of BatchNorms. Those
    that share weights, or compute them, stay."""
    folds: dict[str, tuple] = {}
    for node, layer in sole_calls(graph, modules, (nn.Bilinear,)):
        if len(node.args) != 2:
            continue
        with graph.inserting_before(node):
            wide = graph.call_function(products, node.args)
        wide.meta = {**node.meta, "value": node.meta["value"][:-1] + (layer.in1_features * layer.in2_features,)}
        node.args = (wide,)
        modules[node.target] = batchnorm.of_products(layer)
        folds[str(node.target)] = (modules[node.target], layer, batchnorm.Paired())
    return folds
