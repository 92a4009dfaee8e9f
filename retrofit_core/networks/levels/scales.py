"""Layer scale: a parameter with one factor per neuron that multiplies a layer's outputs (Touvron et al. 2021)."""

import copy
import operator
from collections import Counter
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx, nn

from ..batchnorm import Affine, Fold
from .cuts import reordered_axes, stays_as_it_is
from .kinds import AFFINE, operation
from .weights import computed_weights, repeated

MULTIPLICATIONS = {operator.mul, torch.mul, torch.multiply}
RESHAPING = {"reshape", "view", "unsqueeze", "expand"}


def fold_scales(graph: fx.Graph, modules: dict[Any, Any]) -> dict[str, Fold]:
    """Fold each layer scale into the affine layer before it; returns the folds by layer name, as for BatchNorms.

    Skips layers with other readers, and shared or computed weights.
    """
    calls = Counter(node.target for node in graph.nodes if node.op in ("call_module", "get_attr"))
    tied = repeated(holder for holder in modules.values() if isinstance(holder, nn.Module))
    folds: dict[str, Fold] = {}
    for node in list(graph.nodes):
        product = _scaled(node, modules)
        if product is None:
            continue
        layer, before, parameter = product
        affine, factor = modules[layer.target], modules[parameter.target]
        tensors = (*affine.parameters(), factor)
        once = calls[layer.target] == calls[parameter.target] == 1 and not tied & set(map(id, tensors))
        if not once or computed_weights(affine):
            continue
        new = scaled(affine, factor.detach().flatten())
        folds[str(layer.target)] = Fold(new, (affine,), partial(put_back, new, affine, factor))
        modules[layer.target] = new
        node.replace_all_uses_with(before)
        graph.erase_node(node)
    for node in reversed(list(graph.nodes)):
        if not node.users and (node.op == "get_attr" or operation(node) in RESHAPING):
            graph.erase_node(node)
    used = {node.target for node in graph.nodes}
    for target in [target for target in modules if target not in used]:
        del modules[target]
    return folds


@torch.no_grad()
def scaled(affine: Affine, factor: Tensor) -> Affine:
    """A new layer equal to `affine(x)` times a factor per neuron, (width,)."""
    layer = copy.deepcopy(affine)
    layer.weight = nn.Parameter(affine.weight * factor.reshape(-1, *[1] * (affine.weight.ndim - 1)))
    if affine.bias is not None:
        layer.bias = nn.Parameter(affine.bias * factor)
    return layer.eval()


@torch.no_grad()
def put_back(layer: Affine, affine: Affine, factor: Tensor) -> None:
    """Write a scaled layer into `affine`, and ones into the factors."""
    factor.fill_(1)
    affine.weight.copy_(layer.weight)
    if affine.bias is not None and layer.bias is not None:
        affine.bias.copy_(layer.bias)


def _scaled(node: fx.Node, modules: dict[Any, Any]) -> tuple[fx.Node, fx.Node, fx.Node] | None:
    """The layer, its (reordered) output and the parameter, if a node is such a product."""
    is_product = (node.op == "call_function" and node.target in MULTIPLICATIONS) or (
        node.op == "call_method" and node.target in ("mul", "multiply")
    )
    sides = [arg for arg in node.args if isinstance(arg, fx.Node) and arg.meta.get("is_tensor")]
    if not is_product or len(sides) != 2:
        return None
    for before, factor in (sides, sides[::-1]):
        parameter, found = _parameter(factor, modules), _layer(before, modules)
        if parameter is None or found is None or before.meta["value"] != node.meta["value"]:
            continue
        layer, axis = found
        shape = factor.meta["value"]
        along = [dim - len(shape) for dim, size in enumerate(shape) if size > 1]
        if along == [axis - len(before.meta["value"])]:
            return layer, before, parameter
    return None


def _parameter(node: fx.Node, modules: dict[Any, Any]) -> fx.Node | None:
    """The parameter that a node is, possibly reshaped."""
    while node.op != "get_attr":
        if operation(node) not in RESHAPING or len(node.users) != 1:
            return None
        node = node.all_input_nodes[0]
    return node if len(node.users) == 1 and isinstance(modules[node.target], nn.Parameter) else None


def _layer(node: fx.Node, modules: dict[Any, Any]) -> tuple[fx.Node, int] | None:
    """The affine layer whose output a node is, possibly with reordered axes, and its neuron axis there."""
    turns = []
    while not (node.op == "call_module" and isinstance(modules[node.target], AFFINE)):
        turned = reordered_axes(node)
        if len(node.users) != 1 or not (turned or stays_as_it_is(node, modules)):
            return None
        turns += [turned] if turned else []
        node = node.all_input_nodes[0]
    if len(node.users) != 1:
        return None
    axis = len(node.meta["value"]) - 1 if isinstance(modules[node.target], nn.Linear) else 1
    for turned in reversed(turns):
        axis = turned.index(axis)
    return node, axis
