"""Rewrite products with a module's matrix, `x @ module.weight + module.bias`, as linear layers, so that levels handle one kind.

The weight is transposed, (inputs, outputs), as in the Conv1D of GPT-2, which also flattens samples and tokens around the product.
"""

import operator
from collections import Counter
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx, nn

from ..batchnorm import Fold
from .kinds import operation
from .weights import computed_weights


def call_linear(graph: fx.Graph, modules: dict[Any, Any], model: nn.Module) -> dict[str, Fold]:
    """Replace such products by calls of linear layers under the names of the modules that own the weights; returns the folds by
    that name, as for BatchNorms. Weights that are shared, computed or used elsewhere stay.

    Args:
        model: owner of the modules.
    """
    constants = [(node, user) for node in graph.nodes if node.op == "get_attr" for user in node.users]
    held = [modules[node.target] for node, user in constants if user.meta.get("holds_tensors")]  # not for its size
    holders = [module for module in modules.values() if isinstance(module, nn.Module)]
    uses = Counter(map(id, (*held, *(tensor for module in holders for tensor in module.parameters()))))
    folds: dict[str, Fold] = {}
    for node in list(graph.nodes):
        if operation(node) not in ("matmul", "mm") or len(node.args) != 2:
            continue
        read, weight = node.args
        path = _owner(weight, "weight", modules)
        if not path or path in modules:
            continue
        bias, end = _bias(node, path, modules)
        targets = [str(other.target) for other in (weight, bias) if other is not None]
        tensors, owner = [modules[target] for target in targets], model.get_submodule(path)
        if tensors[0].ndim != 2 or any(uses[id(tensor)] > 1 for tensor in tensors) or computed_weights(owner):
            continue
        read, end = _unflattened(read, end)
        modules[path] = new = turned(*tensors)
        with graph.inserting_before(end):
            layer = graph.call_module(path, (read,))
        layer.meta = {**node.meta, "value": end.meta["value"]}
        end.replace_all_uses_with(layer)
        _erase_backwards(graph, end)
        folds[path] = Fold(new, (owner,), partial(put_back, new, *tensors), kind=type(owner).__name__, axis=1)
    return folds


def _owner(node: object, name: str, modules: dict[Any, Any]) -> str:
    """The module whose parameter of that name a node reads; empty if it reads something else."""
    if not isinstance(node, fx.Node) or node.op != "get_attr" or not isinstance(modules[node.target], nn.Parameter):
        return ""
    path, _, last = str(node.target).rpartition(".")
    return path if last == name else ""


def _bias(node: fx.Node, path: str, modules: dict[Any, Any]) -> tuple[fx.Node | None, fx.Node]:
    """The module's bias that is added to a product, if any, and the node of the result."""
    end = next(iter(node.users)) if len(node.users) == 1 else node
    sides = [arg for arg in end.args if arg is not node] if end.target is operator.add else []
    if len(sides) == 1 and _owner(sides[0], "bias", modules) == path:
        return sides[0], end  # type: ignore[return-value]
    return None, node


def _unflattened(read: fx.Node, end: fx.Node) -> tuple[fx.Node, fx.Node]:
    """The nodes before and behind two views that only flatten samples and tokens around a product, if it stands between such."""
    before, behind = read.all_input_nodes[:1], list(end.users)
    if len(behind) != 1 or any(operation(view) not in ("view", "reshape") for view in (read, *behind)):
        return read, end
    outer, inner = before[0].meta["value"], read.meta["value"]
    whole = outer[-1] == inner[-1] and behind[0].meta["value"] == (*outer[:-1], end.meta["value"][-1])
    return (before[0], behind[0]) if whole else (read, end)


def _erase_backwards(graph: fx.Graph, node: fx.Node) -> None:
    """Erase a node that nothing reads, and what only it read."""
    before = node.all_input_nodes
    graph.erase_node(node)
    for other in before:
        if not other.users and other.op != "placeholder":
            _erase_backwards(graph, other)


@torch.no_grad()
def turned(weight: Tensor, bias: Tensor | None = None) -> nn.Linear:
    """The linear layer that equals `x @ weight + bias`, for a weight (inputs, outputs)."""
    return linear_of(weight.T.contiguous(), None if bias is None else bias.clone())


def linear_of(weight: Tensor, bias: Tensor | None = None) -> nn.Linear:
    """A linear layer in the memory of a weight (outputs, inputs) and a bias."""
    with torch.device("meta"):
        new = nn.Linear(*weight.T.shape, bias=bias is not None)
    new.weight = nn.Parameter(weight)
    if bias is not None:
        new.bias = nn.Parameter(bias)
    return new.eval()


@torch.no_grad()
def put_back(new: nn.Linear, weight: Tensor, bias: Tensor | None = None) -> None:
    """Write the linear layer into the module's tensors."""
    weight.copy_(new.weight.T)
    if bias is not None:
        bias.copy_(new.bias)
